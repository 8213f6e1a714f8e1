//! The second pass of an import: records become rows. A table without rows takes them sorted, all or none; another
//! takes them in transactions.

use std::cell::Cell;
use std::rc::Rc;

use quipu::{Durability, ErrorKind};
use quipu_rows::{Column, DataType, Database, Ordered, TableSchema, Uuid, Value};

use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::progress::{self, Follower};
use crate::records::{At, Field, Format, Records};

/// What happens to a record whose key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Conflict {
    /// The import ends with an error.
    Error,
    /// The record replaces the row.
    Replace,
    /// The row stays.
    Skip,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// All together, sorted, straight to disk: into a table without rows.
    Load,
    /// In transactions of so many rows; none for all in one.
    Transactions(Option<usize>),
}

/// How a file is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) format: Format,
    pub(crate) missing: &'a str,
    pub(crate) conflict: Conflict,
    pub(crate) writing: Writing,
    /// Every so many records one is loaded: 1 for all.
    pub(crate) stride: u64,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    /// Rows written, the replacing ones among them.
    pub(crate) rows: u64,
    /// Rows that were there and were replaced.
    pub(crate) replaced: u64,
    /// Records whose key was taken, passed over.
    pub(crate) skipped: u64,
}

/// The columns of a table that records have.
struct Columns {
    /// Their places in the schema.
    places: Vec<usize>,
    columns: Vec<Column>,
    /// The places in `columns` of those of the primary key; none if records do not have it.
    key: Option<Vec<usize>>,
    /// Whether they are all that a row shows.
    are_all: bool,
}

/// Loads the records of `input` into a table. What was committed is in `loaded`, also after an error.
///
/// Each transaction is handed to the operating system, which a killed program survives; all are on stable storage when
/// this returns, with an error or without.
pub(crate) fn load(
    database: &Database,
    schema: &TableSchema,
    input: Input,
    options: Options<'_>,
    loaded: &mut Loaded,
) -> Result<()> {
    let pace = Pace::new(&input);
    let mut records = Records::open(input, options.format, options.missing)?;
    let columns = Columns::of(schema, &records, options.format)?;
    let names: Vec<String> = columns.columns.iter().map(|column| column.name.clone()).collect();
    records.expect_columns(&names)?;
    let mut records = Thinned { records, stride: options.stride, number: 0 };
    match options.writing {
        Writing::Load => load_sorted(database, schema, &columns, &mut records, &pace, loaded),
        Writing::Transactions(batch_rows) => {
            let mut batch = Batch { database, schema, columns: &columns, conflict: options.conflict, rows: Vec::new() };
            let result = batch.write_all(&mut records, batch_rows, &pace, loaded);
            database.db().sync()?;
            result
        }
    }
}

/// Loads records in one commit. `loaded` is empty after an error.
fn load_sorted(
    database: &Database,
    schema: &TableSchema,
    columns: &Columns,
    records: &mut Thinned,
    pace: &Pace,
    loaded: &mut Loaded,
) -> Result<()> {
    let mut load = database.begin_load(&schema.table, &Default::default())?;
    let mut values = Vec::with_capacity(columns.columns.len());
    while records.advance()? {
        values.clear();
        let at = records.records.at();
        columns.read(&records.records, &mut values)?;
        load.push_at(&columns.places, &values).map_err(|error| match error.kind() {
            ErrorKind::Exists | ErrorKind::Invalid => at.failure(error),
            _ => Failure::from(error),
        })?;
        if load.rows().is_multiple_of(10_000) {
            pace.show(load.rows());
        }
    }
    pace.bar.finish_and_clear();
    let mut follower = Follower::default();
    loaded.rows = load.commit(&mut |progress| follower.show(progress))?;
    Ok(())
}

/// Every so many of the records of a file.
struct Thinned {
    records: Records,
    stride: u64,
    number: u64,
}

impl Thinned {
    fn advance(&mut self) -> Result<bool> {
        while self.records.advance()? {
            self.number += 1;
            if self.number.is_multiple_of(self.stride) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Columns {
    /// The columns that the records of a file have: those that it names, or of JSON lines all.
    ///
    /// # Errors
    /// A file that names its columns lacks one that has neither a default nor numbers from the table.
    fn of(schema: &TableSchema, records: &Records, format: Format) -> Result<Columns> {
        let has = |column: &Column| format == Format::Jsonl || records.columns().contains(&column.name);
        let mut found = Columns { places: Vec::new(), columns: Vec::new(), key: None, are_all: true };
        for (place, column) in schema.columns.iter().enumerate().filter(|(_, column)| !column.hidden) {
            if has(column) {
                found.places.push(place);
                found.columns.push(column.clone());
            } else if column.default.is_none() && column.identity.is_none() {
                let what = format!("there is no column {:?}, which the table has", column.name);
                return Err(records.wrong_columns(what));
            } else {
                found.are_all = false;
            }
        }
        let key = schema.key.iter().map(|name| {
            let name = key_column(name);
            found.columns.iter().position(|column| column.name == name)
        });
        found.key = key.collect();
        Ok(found)
    }

    /// The values of the record at hand.
    fn read<'r>(&self, records: &'r Records, values: &mut Vec<Value<'static>>) -> Result<()> {
        for (place, column) in self.columns.iter().enumerate() {
            let is_text = column.not_null && matches!(column.data_type, DataType::Text(_));
            let value: std::result::Result<Value<'r>, String> = match records.field(place) {
                Field::Empty if is_text => Ok(Value::from("")),
                Field::Missing | Field::Empty => Ok(Value::Null),
                Field::Text(text) => column.data_type.parse_text(text),
                Field::Json(json) => column.data_type.parse_json(json),
                Field::Value(value) => of_type(column.data_type, value),
            };
            let value =
                value.map_err(|reason| records.at().failure(format_args!("column {}: {reason}", column.name)))?;
            values.push(value.into_owned());
        }
        Ok(())
    }
}

/// A value of a file in a column of another type: also a text that says it, and bytes that are its own.
fn of_type(data_type: DataType, value: Value<'_>) -> std::result::Result<Value<'_>, String> {
    match (data_type, value) {
        (DataType::Text(_), Value::Bytes(bytes)) => match String::from_utf8(bytes.into_owned()) {
            Ok(text) => Ok(Value::from(text)),
            Err(error) => Err(format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to())),
        },
        (DataType::Uuid, Value::Bytes(bytes)) if let Ok(uuid) = Uuid::from_slice(&bytes) => Ok(Value::Uuid(uuid)),
        (DataType::Text(_), value @ Value::Text(_)) => Ok(value),
        (_, Value::Text(text)) => data_type.parse_text(&text).map(Value::into_owned),
        (_, value) => data_type.accept(value),
    }
}

/// The name of a column in a declared key, without its direction.
pub(crate) fn key_column(declared: &str) -> &str {
    let name = declared.trim();
    name.strip_suffix(" desc").or_else(|| name.strip_suffix(" asc")).unwrap_or(name).trim_end()
}

/// The progress bar of a load.
struct Pace {
    bar: indicatif::ProgressBar,
    watch: Stopwatch,
    consumed_bytes: Rc<Cell<u64>>,
}

impl Pace {
    fn new(input: &Input) -> Pace {
        let bar = progress::bar(input.total_bytes, "rows");
        Pace { bar, watch: Stopwatch::start(), consumed_bytes: Rc::clone(&input.consumed_bytes) }
    }

    fn show(&self, rows: u64) {
        let rows_per_second = rows as f64 / self.watch.elapsed().as_secs_f64();
        self.bar.set_message(format!("({rows} rows, {rows_per_second:.0} rows/s)"));
        self.bar.set_position(self.consumed_bytes.get());
    }
}

/// Rows of one transaction, each with the place of its record.
struct Batch<'a> {
    database: &'a Database,
    schema: &'a TableSchema,
    columns: &'a Columns,
    conflict: Conflict,
    rows: Vec<(At, Vec<Value<'static>>)>,
}

impl Batch<'_> {
    fn write_all(
        &mut self,
        records: &mut Thinned,
        batch_rows: Option<usize>,
        pace: &Pace,
        loaded: &mut Loaded,
    ) -> Result<()> {
        while records.advance()? {
            let mut values = Vec::with_capacity(self.columns.columns.len());
            self.columns.read(&records.records, &mut values)?;
            self.rows.push((records.records.at(), values));
            if Some(self.rows.len()) == batch_rows {
                self.write(loaded)?;
                pace.show(loaded.rows);
            }
        }
        self.write(loaded)?;
        pace.bar.finish_and_clear();
        Ok(())
    }

    /// Writes the rows in one transaction, and forgets them.
    fn write(&mut self, loaded: &mut Loaded) -> Result<()> {
        let mut after = *loaded;
        // Which row the transaction was at, for the message if it fails.
        let mut at = 0;
        let names: Vec<&str> = self.columns.columns.iter().map(|column| column.name.as_str()).collect();
        let written = self.database.write_with(Durability::Os, |transaction| {
            let table = transaction.table(&self.schema.table)?;
            for (place, (_, values)) in self.rows.iter().enumerate() {
                at = place;
                let is_there = match (self.conflict, &self.columns.key) {
                    (Conflict::Error, _) | (_, None) => false,
                    (_, Some(key)) => {
                        let key: Vec<Value<'_>> = key.iter().map(|&place| values[place].clone()).collect();
                        table.count(quipu_rows::Span::eq(key))? > 0
                    }
                };
                match is_there {
                    true if self.conflict == Conflict::Skip => {
                        after.skipped += 1;
                        continue;
                    }
                    true => {
                        let key = self.columns.key.iter().flatten().map(|&place| values[place].clone());
                        let key: Vec<Value<'_>> = key.collect();
                        let changes = names.iter().copied().zip(values.iter().cloned());
                        table.update(key, &changes.collect::<Vec<_>>())?;
                        after.replaced += 1;
                    }
                    false if self.columns.are_all => table.insert_values(values)?,
                    false => drop(table.insert_columns(&names, values)?),
                }
                after.rows += 1;
            }
            Ok(())
        });
        if let Err(error) = written {
            return Err(match (self.rows.get(at), error.kind()) {
                (Some((at, _)), ErrorKind::Exists | ErrorKind::Invalid) => at.failure(error),
                _ => Failure::from(error),
            });
        }
        *loaded = after;
        self.rows.clear();
        Ok(())
    }
}
