//! The flights, their table and their indexes.

use quipu::{Db, Measures, SumField, TableOptions};
use quipu_rows::old::ColumnType::{Int, Text};
use quipu_rows::old::{Column, ColumnType, RowTable, Schema};

use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::load::{self, Conflict, Loaded};
use crate::records::Format;

/// The flights that left New York in 2013: nycflights13, CC0, from the US Bureau of Transportation Statistics.
const FLIGHTS: &[u8] = include_bytes!("../../../data/flights.csv.zst");

/// How many there are.
pub(super) const ROWS: u64 = 336_776;

const COLUMNS: [(&str, ColumnType); 19] = [
    ("year", Int),
    ("month", Int),
    ("day", Int),
    ("dep_time", Int),
    ("sched_dep_time", Int),
    ("dep_delay", Int),
    ("arr_time", Int),
    ("sched_arr_time", Int),
    ("arr_delay", Int),
    ("carrier", Text),
    ("flight", Int),
    ("tailnum", Text),
    ("origin", Text),
    ("dest", Text),
    ("air_time", Int),
    ("distance", Int),
    ("hour", Int),
    ("minute", Int),
    ("time_hour", Text),
];

/// The order of time; the last two make it unique.
const KEY: [&str; 6] = ["year", "month", "day", "sched_dep_time", "carrier", "flight"];

/// The table and its indexes, and where the crash puts what.
pub(super) struct Tables {
    pub(super) flights: RowTable,
    /// By origin and month.
    pub(super) origin: RowTable,
    /// By destination.
    pub(super) dest: RowTable,
    /// By carrier and delay at departure.
    pub(super) delay: RowTable,
}

/// Where the distance stands in the value of a flight: the column that the table adds up.
pub(super) const DISTANCE: usize = 9;

/// The name of the table of flights.
pub(super) const NAME: &str = "flights";
/// The name of the table to which the writer moves flights.
pub(super) const MOVED: &str = "moved";
/// The name of the table that has one row for each transaction of the writer.
pub(super) const JOURNAL: &str = "journal";

/// Creates the tables and loads about `rows` flights, every so many of the file.
pub(super) fn load(db: &Db, rows: u64) -> Result<Tables> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let columns = COLUMNS.map(|(name, column_type)| Column { name: name.to_owned(), column_type });
    let schema = Schema::new(columns.to_vec(), &names(&KEY))?;
    let measures =
        Measures { bytes: true, hash: true, sum: Some(SumField::Element { at: DISTANCE as u32 }), ..Measures::ROWS };
    let options = TableOptions { measures, ..TableOptions::default() };
    let indexes = [
        ("origin".to_owned(), names(&["origin", "month"])),
        ("dest".to_owned(), names(&["dest"])),
        ("delay".to_owned(), names(&["carrier", "dep_delay"])),
        ("tail".to_owned(), names(&["tailnum"])),
    ];
    let flights = RowTable::create(db, NAME, &schema, &indexes, options.clone())?;
    RowTable::create(db, MOVED, &schema, &[], options)?;
    let journal =
        Schema::new(vec![Column { name: "transaction".to_owned(), column_type: Int }], &names(&["transaction"]))?;
    RowTable::create(db, JOURNAL, &journal, &[], TableOptions::default())?;
    let options = load::Options {
        format: Format::Csv,
        missing: "NA",
        conflict: Conflict::Error,
        batch_rows: Some(10_000),
        stride: (ROWS / rows.min(ROWS)).max(1),
    };
    load::load(db, &flights, &schema, Input::from_bytes(FLIGHTS), options, &mut Loaded::default())?;
    let index = |name: &str| -> Result<RowTable> {
        RowTable::open(db, &format!("{NAME}.{name}"))?.ok_or_else(|| Failure::new(format!("index {name} is gone")))
    };
    Ok(Tables { origin: index("origin")?, dest: index("dest")?, delay: index("delay")?, flights })
}
