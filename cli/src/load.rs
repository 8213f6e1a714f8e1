//! The second pass of an import: records become rows, and rows are written in batches.

use std::cell::Cell;
use std::rc::Rc;

use quipu::{Db, Durability, ErrorKind, Overlap, ReadableTable};
use quipu_rows::old::{RowTable, Schema};

use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::key;
use crate::progress;
use crate::records::{Format, Records, SumField, at_line};

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

/// How a file is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) format: Format,
    pub(crate) missing: &'a str,
    pub(crate) conflict: Conflict,
    /// Rows of one transaction; none for all in one.
    pub(crate) batch_rows: Option<usize>,
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

/// A row to be written, in the batch's buffer.
struct Pending {
    line: u64,
    /// Where the key begins, where the value begins, where it ends.
    at: [usize; 3],
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Pending>,
}

/// Loads the records of `input` into `table`, which has the schema `schema`. What was committed is in `loaded`, also
/// after an error.
///
/// Each batch is handed to the operating system, which a killed program survives; all are on stable storage when this
/// returns, with an error or without.
pub(crate) fn load(
    db: &Db,
    table: &RowTable,
    schema: &Schema,
    input: Input,
    options: Options<'_>,
    loaded: &mut Loaded,
) -> Result<()> {
    let result = load_batches(db, table, schema, input, options, loaded);
    db.sync()?;
    result
}

fn load_batches(
    db: &Db,
    table: &RowTable,
    schema: &Schema,
    input: Input,
    options: Options<'_>,
    loaded: &mut Loaded,
) -> Result<()> {
    let pace = Pace::new(&input);
    let mut records = open_records(input, schema, options)?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    let mut record_number = 0;
    while records.advance()? {
        record_number += 1;
        if record_number % options.stride != 0 {
            continue;
        }
        encode(&records, schema, &mut key, &mut value)?;
        batch.push(records.line(), &key, &value);
        if Some(batch.rows.len()) == options.batch_rows {
            batch.write(db, table, options.conflict, loaded)?;
            pace.show(loaded.rows);
        }
    }
    batch.write(db, table, options.conflict, loaded)?;
    pace.bar.finish_and_clear();
    Ok(())
}

/// Loads records that come in the order of their keys, in one commit. `loaded` is empty after an error.
pub(crate) fn load_sorted(
    table: &RowTable,
    schema: &Schema,
    input: Input,
    options: Options<'_>,
    loaded: &mut Loaded,
) -> Result<()> {
    let pace = Pace::new(&input);
    let mut records = open_records(input, schema, options)?;
    let overlap = if options.conflict == Conflict::Replace { Overlap::Replace } else { Overlap::Refuse };
    let mut ingest = table.table.begin_ingest(overlap)?;
    let (mut key, mut value, mut last) = (Vec::new(), Vec::new(), Vec::new());
    while records.advance()? {
        encode(&records, schema, &mut key, &mut value)?;
        let line = records.line();
        if ingest.rows() > 0 && key <= last {
            let [key, last] = [&key, &last].map(|key| key::show(key, Some(schema)));
            let names = schema.key_names();
            let what =
                if key == last { format!("a second row of key {key}") } else { format!("key {key} behind {last}") };
            let what = format!("{what} ({names}): --sorted takes records in the order of their keys, each once");
            return Err(at_line(line, what));
        }
        ingest.push(&key, &value).map_err(|error| match error.kind() {
            ErrorKind::Exists => at_line(line, format!("{error} (it is one of the last thousand records)")),
            ErrorKind::Invalid => at_line(line, error),
            _ => Failure::from(error),
        })?;
        std::mem::swap(&mut key, &mut last);
        if ingest.rows().is_multiple_of(10_000) {
            pace.show(ingest.rows());
        }
    }
    let ingested = ingest.commit()?;
    (loaded.rows, loaded.replaced) = (ingested.rows, ingested.replaced);
    pace.bar.finish_and_clear();
    Ok(())
}

/// The records of `input`, which have the columns of `schema`.
fn open_records(input: Input, schema: &Schema, options: Options<'_>) -> Result<Records> {
    let mut records = Records::open(input, options.format, options.missing)?;
    let names: Vec<String> = schema.columns.iter().map(|column| column.name.clone()).collect();
    records.expect_columns(&names)?;
    Ok(records)
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

/// The key and the value of the record at hand.
fn encode(records: &Records, schema: &Schema, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<()> {
    let row = (schema.columns.iter().enumerate())
        .map(|(place, column)| {
            let element = match records.field(place) {
                SumField::Missing => Ok(quipu::tuple::Element::Null),
                SumField::Text(text) => column.column_type.parse_text(text),
                SumField::Json(json) => column.column_type.parse_json(json),
            };
            element.map_err(|reason| at_line(records.line(), format!("column {}: {reason}", column.name)))
        })
        .collect::<Result<Vec<_>>>()?;
    schema.encode_row(&row, key, value);
    Ok(())
}

impl Batch {
    fn push(&mut self, line: u64, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push(Pending { line, at: [start, start + key.len(), self.bytes.len()] });
    }

    /// Writes the rows in one transaction, and forgets them.
    fn write(&mut self, db: &Db, table: &RowTable, conflict: Conflict, loaded: &mut Loaded) -> Result<()> {
        let mut after = *loaded;
        // Which row the transaction was at, for the message if it fails.
        let mut at = 0;
        let written = db.write_with(Durability::Os, |transaction| {
            let mut writer = table.within(transaction)?;
            for (place, pending) in self.rows.iter().enumerate() {
                at = place;
                let [start, middle, end] = pending.at;
                let (key, value) = (&self.bytes[start..middle], &self.bytes[middle..end]);
                match conflict {
                    Conflict::Error => writer.insert(key, value)?,
                    Conflict::Skip if writer.rows().contains(key)? => {
                        after.skipped += 1;
                        continue;
                    }
                    Conflict::Skip => writer.insert(key, value)?,
                    Conflict::Replace => {
                        after.replaced += u64::from(writer.rows().contains(key)?);
                        writer.put(key, value)?;
                    }
                }
                after.rows += 1;
            }
            Ok(())
        });
        if let Err(error) = written {
            return Err(match self.rows.get(at) {
                Some(row) if error.kind() == ErrorKind::Exists => {
                    let key = key::show(&self.bytes[row.at[0]..row.at[1]], table.schema.as_ref());
                    let columns = table.schema.as_ref().map(Schema::key_names).unwrap_or_default();
                    at_line(row.line, format!("a row of key {key} ({columns}) is there already"))
                }
                Some(row) if error.kind() == ErrorKind::Invalid => at_line(row.line, error),
                _ => Failure::from(error),
            });
        }
        *loaded = after;
        self.bytes.clear();
        self.rows.clear();
        Ok(())
    }
}
