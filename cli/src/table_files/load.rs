//! The second pass of an import: records become rows. A table without rows takes them sorted, all or none; another
//! takes them in transactions.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use quipu::{Durability, ErrorKind};
use quipu_rows::{Column, Constraint, DataType, Database, Ordered, TableSchema, Uuid, Value, Violation, text_of};

use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::progress::{self, Follower};
use crate::table_files::files::Input;
use crate::table_files::keys::Keys;
use crate::table_files::notation::{Notation, Notations};
use crate::table_files::records::{At, CsvNotation, Field, Format, Records};

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
    pub(crate) csv: CsvNotation<'a>,
    /// How the fields of CSV are written.
    pub(crate) notations: &'a Notations,
    /// Whether the mark of a missing field is one in columns of text as well. It is if the user asks for it: texts may
    /// well read as `NA`.
    pub(crate) mark_in_texts: bool,
    pub(crate) conflict: Conflict,
    pub(crate) writing: Writing,
    /// Every so many records one is loaded: 1 for all.
    pub(crate) stride: u64,
    /// Whether the key was chosen for this load, so that another one may be.
    pub(crate) may_change_key: bool,
}

/// What became of the marks in a column.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    pub(crate) column: String,
    pub(crate) fields: u64,
    /// Whether they were taken as missing, or as texts.
    pub(crate) are_missing: bool,
}

/// What became of the records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// Rows written, the replacing ones among them.
    pub(crate) rows: u64,
    /// Rows that were there and were replaced.
    pub(crate) replaced: u64,
    /// Records whose key was taken, passed over.
    pub(crate) skipped: u64,
    /// The columns that have marks of missing fields, once all records are read.
    pub(crate) marks: Vec<Marked>,
}

/// The columns of a table that records have.
struct Columns {
    /// Their places in the schema.
    places: Vec<usize>,
    columns: Vec<Column>,
    /// How the fields of each are written.
    notations: Vec<Notation>,
    /// The places in `columns` of those of the primary key; none if records do not have it.
    key: Option<Vec<usize>>,
    /// Whether they are all that a row shows.
    are_all: bool,
    /// Whether the mark of a missing field is one in columns of text.
    mark_in_texts: bool,
    /// For each, how many marks there were.
    marks: Vec<Cell<u64>>,
}

/// What a record gives of a row.
#[derive(Clone, Debug, Default)]
struct GivenRow {
    /// The columns that it has, by their places among [`Columns`].
    columns: Vec<usize>,
    values: Vec<Value<'static>>,
}

/// Loads the records that `open` opens into a table. What was committed is in `loaded`, also after an error.
///
/// Each transaction is handed to the operating system, which a killed program survives; all are on stable storage when
/// this returns, with an error or without.
pub(crate) fn load(
    database: &Database,
    schema: &TableSchema,
    open: &dyn Fn() -> Result<Input>,
    options: Options<'_>,
    loaded: &mut Loaded,
) -> Result<()> {
    let input = open()?;
    let pace = Pace::new(&input);
    let (columns, mut records) = open_records(schema, input, options)?;
    match options.writing {
        Writing::Load => match load_sorted(database, schema, &columns, &mut records, &pace) {
            Ok(rows) => loaded.rows = rows,
            Err(Refused::Failed(failure)) => return Err(failure),
            Err(Refused::Alike(error)) => return Err(alike(error, schema, open, options)),
        },
        Writing::Transactions(batch_rows) => {
            let mut batch = Batch { database, schema, columns: &columns, conflict: options.conflict, rows: Vec::new() };
            let result = batch.write_all(&mut records, batch_rows, &pace, loaded);
            database.db().sync()?;
            result?;
        }
    }
    loaded.marks = columns.marked();
    Ok(())
}

/// Begins to read records as rows of a table.
fn open_records(schema: &TableSchema, input: Input, options: Options<'_>) -> Result<(Columns, Thinned)> {
    let mut records = Records::open(input, options.format, options.csv)?;
    let columns = Columns::of(schema, &records, options)?;
    let names: Vec<String> = columns.columns.iter().map(|column| column.name.clone()).collect();
    records.expect_columns(&names)?;
    if columns.columns.iter().all(|column| !column.not_null) {
        records.count_empty_lines();
    }
    Ok((columns, Thinned { records, stride: options.stride, number: 0 }))
}

/// Why a load ended.
enum Refused {
    Failed(Failure),
    /// Rows have one key, or the same values in a unique index.
    Alike(quipu::Error),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failed(failure)
    }
}

impl From<quipu::Error> for Refused {
    fn from(error: quipu::Error) -> Refused {
        match error.kind() {
            ErrorKind::Exists => Refused::Alike(error),
            _ => Refused::Failed(error.into()),
        }
    }
}

/// Loads records in one commit. Returns how many there were.
fn load_sorted(
    database: &Database,
    schema: &TableSchema,
    columns: &Columns,
    records: &mut Thinned,
    pace: &Pace,
) -> Result<u64, Refused> {
    // What was exported has the numbers that its table gave it.
    let mut load = database.begin_load(&schema.table, &Default::default())?.bringing_numbers();
    let mut row = GivenRow::default();
    let mut places = Vec::with_capacity(columns.places.len());
    while records.advance()? {
        columns.read(&records.records, &mut row)?;
        places.clear();
        places.extend(row.columns.iter().map(|&column| columns.places[column]));
        load.push_at(&places, &row.values).map_err(|error| match error.kind() {
            ErrorKind::Invalid => Refused::Failed(records.records.at().failure(error)),
            // Of rows further up.
            _ => Refused::from(error),
        })?;
        if load.rows().is_multiple_of(10_000) {
            pace.show(load.rows());
        }
    }
    pace.bar.finish_and_clear();
    let mut follower = Follower::default();
    Ok(load.commit(&mut |progress| follower.show(progress))?)
}

/// Columns that would do as a key, where two records have one key: they are looked for in two more readings.
fn key_that_does(schema: &TableSchema, open: &dyn Fn() -> Result<Input>, options: Options<'_>) -> Result<String> {
    /// Records that are looked at.
    const LOOKED_AT: usize = 5_000_000;
    let (mut keys, mut row) = (Keys::default(), GivenRow::default());
    let (columns, mut records) = open_records(schema, open()?, options)?;
    let mut has_null = vec![false; columns.columns.len()];
    let mut looked_at = 0;
    while looked_at < LOOKED_AT && records.advance()? {
        columns.read(&records.records, &mut row)?;
        for (place, has_null) in has_null.iter_mut().enumerate() {
            *has_null |= row.value(place).is_none_or(Value::is_null);
        }
        keys.see(&columns.key_text(&row));
        looked_at += 1;
    }
    let (columns, mut records) = open_records(schema, open()?, options)?;
    let mut has_room = true;
    for _ in 0..looked_at {
        if !has_room || !records.advance()? {
            break;
        }
        columns.read(&records.records, &mut row)?;
        let text = |place: usize| row.value(place).map_or(Cow::Borrowed(""), text_of);
        has_room = keys.compare(&columns.key_text(&row), (0..columns.columns.len()).map(text));
    }
    let key = columns.key.as_deref().unwrap_or_default();
    let may_be =
        |place: usize| !key.contains(&place) && !has_null[place] && columns.columns[place].data_type != DataType::Json;
    Ok(match keys.columns_that_do(may_be) {
        Some(more) if !more.is_empty() => {
            let more = more.iter().map(|place| columns.columns[*place].name.as_str());
            let all: Vec<&str> = schema.key.iter().map(String::as_str).chain(more).collect();
            format!("; `--key {}` would do", all.join(","))
        }
        _ => "; no columns tell all rows apart: leave --key out, and rows are numbered".to_owned(),
    })
}

/// The error of rows that are alike, with where their records stand: they are looked for in another reading.
#[cold]
fn alike(error: quipu::Error, schema: &TableSchema, open: &dyn Fn() -> Result<Input>, options: Options<'_>) -> Failure {
    /// Records that are named.
    const NAMED: usize = 5;
    let violation = Violation::of(&error);
    let rows = violation.map(|violation| violation.rows.clone()).unwrap_or_default();
    let is_of_key = violation.is_some_and(|violation| violation.constraint == Constraint::PrimaryKey);
    let find = || -> Result<Vec<At>> {
        let (columns, mut records) = open_records(schema, open()?, options)?;
        let mut found = Vec::new();
        let mut row = GivenRow::default();
        while found.len() < NAMED && records.advance()? {
            columns.read(&records.records, &mut row)?;
            let key = columns.key_of(&row);
            let is_of = |alike: &Vec<Value<'static>>| {
                key.as_ref().is_some_and(|key| key.len() == alike.len() && columns.are_same_key(key, alike))
            };
            if rows.iter().any(is_of) {
                found.push(records.records.at());
            }
        }
        Ok(found)
    };
    match find() {
        Ok(found) if found.len() > 1 => {
            let does = match is_of_key && options.may_change_key {
                true => key_that_does(schema, open, options).unwrap_or_default(),
                false => String::new(),
            };
            Failure::new(format!("{}: {error}{does}", At::list(&found)))
        }
        // The keys are numbers of the table, or the file has changed meanwhile.
        _ => error.into(),
    }
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
    fn of(schema: &TableSchema, records: &Records, options: Options<'_>) -> Result<Columns> {
        let has = |column: &Column| options.format == Format::Jsonl || records.columns().contains(&column.name);
        let mut found = Columns {
            places: Vec::new(),
            columns: Vec::new(),
            notations: Vec::new(),
            key: None,
            are_all: true,
            mark_in_texts: options.mark_in_texts,
            marks: Vec::new(),
        };
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
        found.notations = found.columns.iter().map(|column| options.notations.of(&column.name)).collect();
        found.marks.resize(found.columns.len(), Cell::default());
        Ok(found)
    }

    /// What the record at hand gives.
    fn read<'r>(&self, records: &'r Records, row: &mut GivenRow) -> Result<()> {
        row.columns.clear();
        row.values.clear();
        for (place, column) in self.columns.iter().enumerate() {
            let is_text = matches!(column.data_type, DataType::Text(_));
            let value: std::result::Result<Value<'r>, String> = match records.field(place) {
                // What is not given has its default, or a number of the table.
                Field::Absent if column.default.is_some() || column.identity.is_some() => continue,
                Field::Empty if is_text && column.not_null => Ok(Value::from("")),
                // A program that puts all fields in quotes has these where there is no number.
                Field::Text("") if !is_text => Ok(Value::Null),
                Field::Absent | Field::Missing | Field::Empty => Ok(Value::Null),
                Field::Mark(text) => {
                    self.marks[place].update(|fields| fields + 1);
                    Ok(if is_text && !self.mark_in_texts { Value::from(text) } else { Value::Null })
                }
                Field::Text(text) => self.notations[place].parse(column.data_type, text),
                Field::Json(json) => column.data_type.parse_json(json),
                Field::Value(value) => of_type(column.data_type, value),
            };
            let value =
                value.map_err(|reason| records.at().failure(format_args!("column {}: {reason}", column.name)))?;
            row.columns.push(place);
            row.values.push(value.into_owned());
        }
        Ok(())
    }

    /// The columns that have marks of missing fields.
    fn marked(&self) -> Vec<Marked> {
        let marks = self.columns.iter().zip(&self.marks).filter(|(_, fields)| fields.get() > 0);
        let marked = marks.map(|(column, fields)| Marked {
            column: column.name.clone(),
            fields: fields.get(),
            are_missing: self.mark_in_texts || !matches!(column.data_type, DataType::Text(_)),
        });
        marked.collect()
    }

    /// The primary key of a row, if the row has all of it.
    fn key_of<'v>(&self, row: &'v GivenRow) -> Option<Vec<Value<'v>>> {
        let value = |place: &usize| row.value(*place).map(Value::borrowed);
        self.key.as_ref()?.iter().map(value).collect()
    }

    /// The primary key of a row as a text of its own.
    fn key_text(&self, row: &GivenRow) -> String {
        let key = self.key_of(row).unwrap_or_default();
        key.iter().map(text_of).collect::<Vec<_>>().join("\u{0}")
    }

    /// Whether two primary keys are one.
    fn are_same_key(&self, a: &[Value<'_>], b: &[Value<'_>]) -> bool {
        let types = self.key.iter().flatten().map(|&place| self.columns[place].data_type);
        types.zip(a.iter().zip(b)).all(|(data_type, (a, b))| data_type.is_same_in_key(a, b))
    }
}

impl GivenRow {
    /// The value of the column at this place among [`Columns`], if it is given.
    fn value(&self, place: usize) -> Option<&Value<'static>> {
        let at = match self.columns.get(place) {
            Some(&column) if column == place => place,
            _ => self.columns.binary_search(&place).ok()?,
        };
        self.values.get(at)
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
    rows: Vec<(At, GivenRow)>,
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
            let mut row = GivenRow::default();
            self.columns.read(&records.records, &mut row)?;
            self.rows.push((records.records.at(), row));
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
        let mut after = loaded.clone();
        // Which row the transaction was at, for the message if it fails.
        let mut at = 0;
        let names: Vec<&str> = self.columns.columns.iter().map(|column| column.name.as_str()).collect();
        let written = self.database.write_with(Durability::Os, |transaction| {
            let table = transaction.table(&self.schema.table)?.bringing_numbers();
            for (place, (_, row)) in self.rows.iter().enumerate() {
                at = place;
                let given = row.columns.iter().map(|&column| names[column]);
                // A row without its whole key gets another one, of defaults and numbers.
                let key = if self.conflict == Conflict::Error { None } else { self.columns.key_of(row) };
                let is_there = match &key {
                    None => false,
                    Some(key) => table.count(quipu_rows::Span::eq(key.as_slice()))? > 0,
                };
                match key {
                    Some(_) if is_there && self.conflict == Conflict::Skip => {
                        after.skipped += 1;
                        continue;
                    }
                    Some(key) if is_there => {
                        let changes = given.zip(row.values.iter().map(Value::borrowed));
                        table.update(key, &changes.collect::<Vec<_>>())?;
                        after.replaced += 1;
                    }
                    _ if row.columns.len() < names.len() => {
                        table.insert_columns(&given.collect::<Vec<_>>(), &row.values)?;
                    }
                    _ if self.columns.are_all => table.insert_values(&row.values)?,
                    _ => drop(table.insert_columns(&names, &row.values)?),
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
