//! The flights, their table and their indexes.

use quipu_rows::{Column, DataType, Database, IndexSchema, TableSchema};

use crate::failure::Result;
use crate::flights;
use crate::table_files::csv;
use crate::table_files::load::{self, Conflict, Loaded, Writing};
use crate::table_files::notation::Notations;
use crate::table_files::records::{CsvNotation, Format};

const COLUMNS: [(&str, DataType); 19] = [
    ("year", DataType::I16),
    ("month", DataType::I8),
    ("day", DataType::I8),
    ("dep_time", DataType::I16),
    ("sched_dep_time", DataType::I16),
    ("dep_delay", DataType::I16),
    ("arr_time", DataType::I16),
    ("sched_arr_time", DataType::I16),
    ("arr_delay", DataType::I16),
    ("carrier", DataType::TEXT),
    ("flight", DataType::I16),
    ("tailnum", DataType::TEXT),
    ("origin", DataType::TEXT),
    ("dest", DataType::TEXT),
    ("air_time", DataType::I16),
    ("distance", DataType::I16),
    ("hour", DataType::I8),
    ("minute", DataType::I8),
    ("time_hour", DataType::TEXT),
];

/// The order of time; the last two make it unique.
const KEY: [&str; 6] = ["year", "month", "day", "sched_dep_time", "carrier", "flight"];

/// The name of the table of flights.
pub(super) const NAME: &str = "flights";
/// The name of the table to which the writer moves flights.
pub(super) const MOVED: &str = "moved";
/// The name of the table that has one row for each transaction of the writer.
pub(super) const JOURNAL: &str = "journal";

fn schema(name: &str) -> TableSchema {
    let columns = COLUMNS.map(|(name, data_type)| Column::new(name, data_type));
    TableSchema { columns: columns.to_vec(), ..TableSchema::new(name).key(KEY).sum("distance") }
}

/// Creates the tables and loads about `rows` flights, every so many of the file.
pub(super) fn load(database: &Database, rows: u64) -> Result<()> {
    let schema_of_flights = schema(NAME)
        .index(IndexSchema::new("origin", ["origin", "month"]))
        .index(IndexSchema::new("dest", ["dest"]))
        .index(IndexSchema::new("delay", ["carrier", "dep_delay"]))
        .index(IndexSchema::new("tail", ["tailnum"]));
    let schema_of_flights = database.create_table(&schema_of_flights)?.schema()?;
    database.create_table(&schema(MOVED))?;
    let journal = TableSchema::new(JOURNAL).column(Column::new("transaction", DataType::I64)).key(["transaction"]);
    database.create_table(&journal)?;
    let options = load::Options {
        format: Format::Csv,
        notations: &Notations::default(),
        csv: CsvNotation { delimiter: b',', mark: csv::MISSING, names: None, skipped_lines: 0 },
        mark_in_texts: true,
        conflict: Conflict::Error,
        writing: Writing::Load,
        may_change_key: false,
        stride: flights::stride(rows),
    };
    load::load(database, &schema_of_flights, &|| Ok(flights::input()), options, &mut Loaded::default())
}
