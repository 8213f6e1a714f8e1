//! SQLite: the same table and index, prepared statements, one connection; settings as in `peers/sqlite.rs`.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::{Method, Parameters, Question, Seen, Trips, TypedStore, TypedStoreKind, Width, ask_until};
use crate::clock::Deadline;
use crate::peers::sqlite::connect;
use crate::store::{Result, Setup};

pub(super) const KIND: TypedStoreKind = TypedStoreKind {
    name: "sqlite",
    settings: "SQLite (rusqlite, bundled): INTEGER PRIMARY KEY; WAL, synchronous=FULL; bulk load: index made after the rows",
    create,
};

const INDEX: &str = "CREATE INDEX by_fare ON trips (fare)";

struct Sqlite(Connection);

fn create(dir: &Path, setup: Setup, width: Width) -> Result<Box<dyn TypedStore>> {
    let connection = connect(&dir.join("sqlite"), setup)?;
    let more = if width == Width::Three { "" } else { ", seats INTEGER NOT NULL, at INTEGER NOT NULL" };
    connection.execute_batch(&format!(
        "CREATE TABLE trips (id INTEGER PRIMARY KEY, fare REAL NOT NULL, rider TEXT NOT NULL{more}); {INDEX};"
    ))?;
    Ok(Box::new(Sqlite(connection)))
}

impl Sqlite {
    fn insert_all(&self, trips: &Trips) -> Result<()> {
        let three = trips.width() == Width::Three;
        let insert = if three { "INSERT INTO trips VALUES (?,?,?)" } else { "INSERT INTO trips VALUES (?,?,?,?,?)" };
        let mut statement = self.0.prepare_cached(insert)?;
        trips.each(|trip| {
            match three {
                true => statement.execute((trip.id, trip.fare, trip.rider)),
                false => statement.execute((trip.id, trip.fare, trip.rider, trip.seats, trip.at)),
            }
            .map(drop)
        })?;
        Ok(())
    }
}

impl TypedStore for Sqlite {
    fn insert(&self, trips: &Trips, method: Method) -> Result<bool> {
        if method == Method::Structs {
            return Ok(false);
        }
        self.0.execute_batch("BEGIN")?;
        if method == Method::Load {
            self.0.execute_batch("DROP INDEX by_fare")?;
        }
        self.insert_all(trips)?;
        if method == Method::Load {
            self.0.execute_batch(INDEX)?;
        }
        self.0.execute_batch("COMMIT")?;
        Ok(true)
    }

    fn ask(&self, question: Question, from: Parameters, most: usize, deadline: &Deadline) -> Result<Vec<i64>> {
        let mut statement = self.0.prepare_cached(match question {
            Question::CountIds => "SELECT count(*) FROM trips WHERE id >= ? AND id < ?",
            Question::CountFares => "SELECT count(*) FROM trips WHERE fare >= ? AND fare < ?",
            Question::NthId => "SELECT id FROM trips ORDER BY id LIMIT 1 OFFSET ?",
            Question::NthFare => "SELECT id FROM trips ORDER BY fare, id LIMIT 1 OFFSET ?",
        })?;
        ask_until(from, most, deadline, |parameters| {
            let mut one = |parameters: &[f64]| statement.query_row(params_from_iter(parameters), |row| row.get(0));
            Ok(match question {
                Question::CountIds => {
                    let (start, end) = parameters.ids();
                    one(&[f64::from(start), f64::from(end)])?
                }
                Question::CountFares => {
                    let (start, end) = parameters.fares();
                    one(&[start, end])?
                }
                Question::NthId | Question::NthFare => {
                    let offset = parameters.offset() as i64;
                    statement.query_row([offset], |row| row.get(0))?
                }
            })
        })
    }

    fn scan(&self) -> Result<Seen> {
        let mut statement = self.0.prepare_cached("SELECT id, fare, rider, seats, at FROM trips")?;
        let mut rows = statement.query(())?;
        let mut seen = Seen::default();
        while let Some(row) = rows.next()? {
            let ValueRef::Text(rider) = row.get_ref(2)? else { return Err("a rider is not text".into()) };
            seen.rows += 1;
            seen.ids += row.get::<_, i64>(0)?;
            seen.cents += (row.get::<_, f64>(1)? * 100.0).round() as i64;
            seen.rider_bytes += rider.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            seen.seats += row.get::<_, i64>(3)?;
            seen.at = seen.at.wrapping_add(row.get(4)?);
        }
        Ok(seen)
    }
}
