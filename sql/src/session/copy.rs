//! COPY: rows in and out, in the formats of `crate::copy`.
//!
//! Rows that come into an empty table, outside of a transaction block, are loaded: sorted, and written straight to
//! disk. All others are inserted in the transaction.

use std::sync::Arc;

use quipu_rows::{BuildOptions, Deferral, Ordered};
use sqlparser::ast;
use sqlparser::ast::{CopySource, CopyTarget};

use crate::bind::names::TableShape;
use crate::bind::updatable::{Verb, table_to_write};
use crate::bind::{Binder, folded};
use crate::catalogue::lookup::Lookup;
use crate::catalogue::writer;
use crate::copy::written::{CopiedRows, WrittenOption, options_of};
use crate::copy::{CopyFormat, Decoder, Encoder};
use crate::dialect::quoted;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::change;
use crate::execute::context::Locker;
use crate::execute::context::{Context, Running};
use crate::execute::view::{View, in_table};
use crate::functions::Environment;
use crate::limits::Limits;
use crate::locks::mode::LockMode;
use crate::plan::action::Action;
use crate::plan::change::{Change, Insert};
use crate::plan::query::LockWait;
use crate::session::Session;
use crate::session::answer::{CopyIn, Progress, Sink};
use crate::session::copy_state::{CopyState, Target, in_line, of_row};
use crate::session::table_lock::TableLock;
use crate::session::tables::patience;
use crate::types::datum::Datum;
use crate::types::text_encoding::TextEncoding;
use crate::types::{BaseType, SqlType, binary, text};

/// The longest row of a COPY, in bytes.
const ROW_BYTES_MAX: usize = 1 << 30;
/// Rows that are inserted together.
const BATCH_ROWS: usize = 1_000;

/// The table of a COPY, and the names of the columns that come.
type Copied = (Arc<TableShape>, Vec<String>);

/// The parts of a COPY statement.
pub(super) struct Written<'w> {
    pub(super) source: &'w CopySource,
    pub(super) to: bool,
    pub(super) target: &'w CopyTarget,
    pub(super) options: &'w [WrittenOption],
    /// Which rows are taken; all if none.
    pub(super) condition: Option<&'w ast::Expr>,
}

impl Written<'_> {
    fn rows<'c>(&self, names: &'c [String], encoding: TextEncoding) -> CopiedRows<'c> {
        CopiedRows { is_from: !self.to, names, encoding }
    }
}

impl Session {
    /// Begins a COPY, or does it.
    pub(super) fn copy(
        &mut self,
        written: &Written<'_>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        if !matches!(written.target, CopyTarget::Stdin | CopyTarget::Stdout) {
            let what = "COPY from and to files of the server is not supported";
            return Err(SqlError::unsupported(what, "Use COPY FROM STDIN or TO STDOUT; psql has \\copy."));
        }
        if written.to { self.copy_out(written, is_alone, sink) } else { self.copy_in(written, is_alone) }
    }

    // --- out --------------------------------------------------------------------------------------------------------

    fn copy_out(&mut self, written: &Written<'_>, is_alone: bool, sink: &mut dyn Sink) -> Result<Option<Progress>> {
        let query = match written.source {
            CopySource::Query(query) => query.to_string(),
            CopySource::Table { table_name, columns } if columns.is_empty() => {
                match self.copied_columns(table_name, columns) {
                    Ok((shape, names)) if shape.columns.iter().any(|column| column.is_generated) => {
                        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                        format!("SELECT {} FROM {table_name}", names.join(", "))
                    }
                    // A view may be copied as well.
                    _ => format!("SELECT * FROM {table_name}"),
                }
            }
            CopySource::Table { table_name, columns } => {
                if let Err(error) = self.copied_columns(table_name, columns)
                    && error.state() == SqlState::INVALID_COLUMN_REFERENCE
                {
                    return Err(error);
                }
                let names: Vec<String> = columns.iter().map(ToString::to_string).collect();
                format!("SELECT {} FROM {table_name}", names.join(", "))
            }
        };
        let prepared = self.prepare(&query, &[])?;
        let columns = prepared.columns.clone().unwrap_or_default();
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let options = options_of(written.options, &written.rows(&names, self.identity.settings.encoding()))?;
        let (format, text_encoding) = (options.format, options.encoding);
        sink.copy_out(format, columns.len())?;
        let mut encoding = Encoding {
            encoder: Encoder::new(options, names),
            types: columns.iter().map(|column| column.sql_type).collect(),
            format,
            text_encoding,
            environment: self.environment(),
            sink,
            bytes: Vec::new(),
            rows: 0,
        };
        encoding.encoder.begin(&mut encoding.bytes);
        let mut portal = self.bind(&prepared, Vec::new())?;
        self.run_rows(&mut portal, None, is_alone, &mut encoding)?;
        encoding.encoder.end(&mut encoding.bytes);
        encoding.send()?;
        Ok(Some(Progress::Done(format!("COPY {}", encoding.rows))))
    }

    // --- in ---------------------------------------------------------------------------------------------------------

    fn copy_in(&mut self, written: &Written<'_>, is_alone: bool) -> Result<Option<Progress>> {
        self.refuse_read_only("COPY FROM")?;
        let CopySource::Table { table_name, columns } = written.source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM takes the name of a table"));
        };
        self.begin_statement()?;
        let places_of =
            |(shape, names): &Copied| -> Vec<usize> { names.iter().filter_map(|name| shape.place(name)).collect() };
        let mut copied = self.copied_columns(table_name, columns)?;
        let mut lock = None;
        let can_load = self.open.is_none() && is_alone && written.condition.is_none();
        if can_load && self.can_load(&copied.0, &places_of(&copied))? {
            // Others that write meanwhile would keep the load from its end. If one does so now, rows are inserted.
            let (table, mode) = (Arc::clone(&copied.0.table), LockMode::Exclusive);
            let taken = TableLock::take(&self.shared, self.owner, &table, mode, LockWait::SkipLocked, &patience(self))?;
            copied = self.copied_columns(table_name, columns)?;
            let is_same = copied.0.table == table && self.can_load(&copied.0, &places_of(&copied))?;
            lock = taken.filter(|_| is_same);
        }
        if lock.is_none() {
            if self.open.is_none() {
                self.begin(true, &[])?;
            }
            copied = self.lock_copied(table_name, columns)?;
        }
        let places = places_of(&copied);
        let (shape, names) = copied;
        let types: Vec<SqlType> = places.iter().map(|&place| shape.columns[place].sql_type).collect();
        let options = options_of(written.options, &written.rows(&names, self.identity.settings.encoding()))?;
        let (format, encoding) = (options.format, options.encoding);
        let target = if let Some(lock) = lock {
            let load = self.shared.database.begin_load(&shape.table, &BuildOptions::default())?;
            let (load, shape) = (Box::new(load.bringing_numbers()), Arc::clone(&shape));
            Target::Load { load, shape, places, _lock: lock }
        } else {
            let quoted_names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            let values: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
            let (columns, values) = (quoted_names.join(", "), values.join(", "));
            let rows = match written.condition {
                None => format!("VALUES ({values})"),
                Some(condition) => {
                    let name = quoted(&shape.name);
                    format!("SELECT * FROM (VALUES ({values})) AS {name} ({columns}) WHERE {condition}")
                }
            };
            // COPY brings the numbers of identity columns.
            let text = format!("INSERT INTO {table_name} ({columns}) OVERRIDING SYSTEM VALUE {rows}");
            let given: Vec<Option<SqlType>> =
                types.iter().map(|sql_type| Some(sql_type.without_domain().bare())).collect();
            let mut statements = crate::statement::parse(&text)?;
            let Some(statement) = statements.pop() else { return Ok(None) };
            let insert = self.prepare_parsed(statement, &given)?;
            Target::Insert { insert, batch: Vec::new() }
        };
        let state = CopyState {
            decoder: Decoder::new(options, shape.name.to_string(), names, ROW_BYTES_MAX),
            format,
            encoding,
            environment: self.environment(),
            target,
            rows: 0,
            types,
        };
        let columns = state.types.len();
        Ok(Some(Progress::CopyIn(CopyIn { format, columns, state: Box::new(state) })))
    }

    /// The table of a COPY and its columns, as they are once the transaction has the table's lock.
    fn lock_copied(&mut self, table: &ast::ObjectName, columns: &[ast::Ident]) -> Result<Copied> {
        let limits = self.limits();
        loop {
            let copied = self.copied_columns(table, columns)?;
            let Some(open) = &self.open else { return Ok(copied) };
            match self.locker_of(open, &limits).lock_table(&copied.0.table, LockMode::RowExclusive) {
                Ok(()) => return Ok(copied),
                Err(error) if error.state() == SqlState::BEGIN_AGAIN => self.catch_up()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The table of a COPY, and the names of the columns that come.
    fn copied_columns(&self, table: &ast::ObjectName, columns: &[ast::Ident]) -> Result<Copied> {
        let snapshot = self.shared.database.snapshot();
        let view = match &self.open {
            Some(open) => View::Transaction(&open.transaction),
            None => View::Snapshot(&snapshot),
        };
        let catalogue = self.shared.catalogue_of(view)?;
        let lookup = Lookup::new(view, catalogue, &self.shared.shapes, self.identity.search_path());
        let lookup = lookup.with_rights(&*self.identity.rights);
        let environment = self.statement_environment(view);
        let shape = table_to_write(&mut Binder::new(&lookup, &environment, "", &[]), table, Verb::Copy)?;
        if columns.is_empty() {
            let visible = shape.columns.iter().filter(|column| !column.is_hidden && !column.is_generated);
            let names = visible.map(|column| column.name.to_string()).collect();
            return Ok((shape, names));
        }
        let mut names: Vec<String> = Vec::new();
        for column in columns {
            let name = folded(column);
            if shape.place(&name).is_none() {
                let what = format!("column \"{name}\" of relation \"{}\" does not exist", shape.name);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what));
            }
            if shape.columns.iter().any(|column| *column.name == *name && column.is_generated) {
                let what = format!("column \"{name}\" is a generated column");
                let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what);
                return Err(error.with_detail("Generated columns cannot be used in COPY."));
            }
            if names.contains(&name) {
                let what = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
            }
            names.push(name);
        }
        Ok((shape, names))
    }

    /// Whether rows can be loaded: the table is empty, refers to nothing in itself, has no unique constraint that can
    /// be deferred, and no default must be computed.
    fn can_load(&self, shape: &TableShape, places: &[usize]) -> Result<bool> {
        let snapshot = self.shared.database.snapshot();
        let table = View::Snapshot(&snapshot).table(&shape.table)?;
        let (is_empty, refers_to_itself) = in_table!(table, table => {
            let refers = table.schema().foreign_keys.iter().any(|key| *key.table == *shape.table)
                || table.schema().indexes.iter().any(|index| index.deferral != Deferral::Never);
            (Ordered::is_empty(&table)?, refers)
        });
        let has_default = |(place, column): (usize, &crate::bind::names::ShapeColumn)| {
            !places.contains(&place) && column.default.is_some() || matches!(column.sql_type.base, BaseType::Domain(_))
        };
        Ok(is_empty && !refers_to_itself && !shape.columns.iter().enumerate().any(has_default))
    }

    /// Takes data of a COPY: any number of bytes, cut anywhere.
    ///
    /// # Errors
    /// Those of the data, with its line, and of constraints.
    pub fn copy_data(&mut self, copy: &mut CopyIn, data: &[u8]) -> Result<()> {
        let _writing = writer::writing(self.environment());
        let taken = copy.state.take(Some(data)).and_then(|()| self.insert_batch(&mut copy.state, BATCH_ROWS));
        taken.inspect_err(|_| self.fail_transaction())
    }

    /// Ends a COPY, and returns its tag.
    ///
    /// # Errors
    /// Those of the data, and of constraints.
    pub fn copy_done(&mut self, copy: CopyIn) -> Result<String> {
        let CopyIn { mut state, .. } = copy;
        let _writing = writer::writing(self.environment());
        let done = state.take(None).and_then(|()| self.insert_batch(&mut state, 1));
        let rows = state.rows;
        let done = done.and_then(|()| match state.target {
            Target::Load { load, shape, .. } => {
                load.commit(&mut |_| ()).map(drop).map_err(|error| of_row(error, &shape, &*state.environment))
            }
            Target::Insert { .. } => Ok(()),
        });
        done.inspect_err(|_| self.fail_transaction())?;
        Ok(format!("COPY {rows}"))
    }

    /// Gives up a COPY: nothing of it stays.
    pub fn copy_fail(&mut self, copy: CopyIn, message: &str) -> SqlError {
        drop(copy);
        self.fail_transaction();
        SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {message}"))
    }

    /// Inserts the rows that wait, if there are as many. Each has the locks of an INSERT.
    fn insert_batch(&mut self, state: &mut CopyState, at_least: usize) -> Result<()> {
        let Target::Insert { insert, batch } = &mut state.target else { return Ok(()) };
        if batch.len() < at_least {
            return Ok(());
        }
        let Action::Change(Change::Insert(plan)) = &insert.action else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a COPY inserts"));
        };
        let limits = self.limits();
        for (row, line) in batch.drain(..) {
            // A row that had to wait has written nothing yet.
            loop {
                match self.insert_row(plan, &row, &limits) {
                    Ok(count) => break state.rows += count,
                    Err(error) if error.state() == SqlState::BEGIN_AGAIN => self.catch_up()?,
                    Err(error) => return Err(in_line(error, &line)),
                }
            }
        }
        Ok(())
    }

    fn insert_row(&self, plan: &Insert, row: &[Datum], limits: &Limits) -> Result<u64> {
        let Some(open) = &self.open else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the transaction of a COPY is over"));
        };
        open.has_written.set(true);
        let locker = self.locker_of(open, limits);
        let view = View::Transaction(&open.transaction);
        let environment = self.statement_environment(view);
        let running = Running::new(limits.clone());
        let context = Context {
            view,
            environment: &environment,
            parameters: row,
            arguments: &[],
            state: &running,
            locker: &locker,
        };
        change::insert(plan, &context, &mut |_| Ok(()))
    }
}

/// Writes rows in a format.
struct Encoding<'e> {
    encoder: Encoder,
    types: Vec<SqlType>,
    format: CopyFormat,
    text_encoding: TextEncoding,
    environment: Arc<dyn Environment>,
    sink: &'e mut dyn Sink,
    bytes: Vec<u8>,
    rows: u64,
}

impl Encoding<'_> {
    fn send(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        if self.format == CopyFormat::Binary || self.text_encoding.is_utf8() {
            self.sink.copy_data(&self.bytes)?;
        } else {
            let text = TextEncoding::UTF8.decode(&self.bytes)?;
            self.sink.copy_data(&self.text_encoding.encode(&text)?)?;
        }
        self.bytes.clear();
        Ok(())
    }
}

impl Sink for Encoding<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let mut fields = Vec::with_capacity(values.len());
        for (value, sql_type) in values.iter().zip(&self.types) {
            if value.is_null() {
                fields.push(None);
                continue;
            }
            let mut bytes = Vec::new();
            if self.format == CopyFormat::Binary {
                binary::write(value, *sql_type, self.text_encoding, &mut bytes)?;
            } else {
                let mut written = String::new();
                text::write(value, *sql_type, &*self.environment, &mut written)?;
                bytes = written.into_bytes();
            }
            fields.push(Some(bytes));
        }
        self.encoder.row(fields.iter().map(Option::as_deref), &mut self.bytes)?;
        self.rows += 1;
        self.send()
    }

    fn notice(&mut self, notice: &SqlError) {
        self.sink.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.sink.setting_changed(name, value);
    }
}
