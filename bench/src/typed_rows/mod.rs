//! Tables with typed columns: what is inserted, what is asked, and the stores that take part.

mod quipu;
#[cfg(feature = "peers")]
mod sqlite;

use std::path::Path;

use crate::clock::Deadline;
use crate::rows::{Draw, mix64};
use crate::store::{Result, Setup};

/// The rows of a table: trips of a taxi.
pub(crate) struct Trips {
    seed: u64,
    width: Width,
    /// The primary keys in the order in which they come.
    ids: Vec<i32>,
}

/// How many columns a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// INT, DOUBLE, STRING.
    Three,
    /// These, another INT and a timestamp.
    Five,
}

impl Width {
    pub(crate) fn columns(self) -> usize {
        match self {
            Width::Three => 3,
            Width::Five => 5,
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip<'a> {
    /// The primary key.
    pub(crate) id: i32,
    /// What the secondary index has: a hundred thousand different ones, in cents.
    pub(crate) fare: f64,
    /// 14 bytes.
    pub(crate) rider: &'a str,
    pub(crate) seats: i32,
    /// Microseconds since 1970.
    pub(crate) at: i64,
}

/// Different fares, from 0 on, a cent apart.
const FARES: u64 = 100_000;

impl Trips {
    /// Trips with the ids 0 to `count`, in this order or shuffled.
    pub(crate) fn new(seed: u64, count: u64, width: Width, is_shuffled: bool) -> Self {
        let mut ids: Vec<i32> = (0..count as i32).collect();
        if is_shuffled {
            let mut draw = Draw::new(seed);
            for last in (1..ids.len()).rev() {
                ids.swap(last, draw.below(last as u64 + 1) as usize);
            }
        }
        Trips { seed, width, ids }
    }

    pub(crate) fn count(&self) -> u64 {
        self.ids.len() as u64
    }

    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Lends each row, until one is refused.
    pub(crate) fn each<E>(&self, mut visit: impl FnMut(Trip<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut rider = String::new();
        for &id in &self.ids {
            let drawn = mix64(self.seed ^ id as u64);
            rider.clear();
            rider.push_str("rider-");
            rider.extend((0..8).map(|place| char::from(b'a' + (drawn >> (8 * place) & 15) as u8)));
            visit(Trip {
                id,
                fare: (drawn % FARES) as f64 / 100.0,
                rider: &rider,
                seats: (drawn >> 61) as i32,
                at: 1_700_000_000_000_000 + i64::from(id) * 1_000,
            })?;
        }
        Ok(())
    }
}

/// How rows get into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// One transaction, its rows lists of values.
    Values,
    /// One transaction, its rows structs.
    Structs,
    /// The best way for many rows into an empty table.
    Load,
}

impl Method {
    pub(crate) const ALL: [Method; 3] = [Method::Values, Method::Structs, Method::Load];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Values => "one transaction",
            Method::Structs => "one transaction, structs",
            Method::Load => "bulk load",
        }
    }
}

/// A question of the primary key or of the index of fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Rows in a range of ids.
    CountIds,
    /// Rows in a range of fares.
    CountFares,
    /// The id of the row at an offset in the order of ids.
    NthId,
    /// The id of the row at an offset in the order of fares.
    NthFare,
}

impl Question {
    pub(crate) const ALL: [Question; 4] =
        [Question::CountIds, Question::CountFares, Question::NthId, Question::NthFare];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Question::CountIds => "count, primary key",
            Question::CountFares => "count, index",
            Question::NthId => "row at an offset, primary key",
            Question::NthFare => "row at an offset, index",
        }
    }
}

/// The parameters of questions, one after the other: the same for every store.
pub(crate) struct Parameters {
    /// None if each range is to have all rows.
    draw: Option<Draw>,
    rows: u64,
}

impl Parameters {
    pub(crate) fn new(seed: u64, rows: u64) -> Self {
        Parameters { draw: Some(Draw::new(!seed)), rows }
    }

    /// Ranges that have all of so many rows.
    pub(crate) fn all(rows: u64) -> Self {
        Parameters { draw: None, rows }
    }

    /// A range of ids, the end excluded.
    pub(crate) fn ids(&mut self) -> (i32, i32) {
        let (start, end) = self.range(self.rows);
        (start as i32, end as i32)
    }

    /// A range of fares, the end excluded.
    pub(crate) fn fares(&mut self) -> (f64, f64) {
        let (start, end) = self.range(FARES);
        (start as f64 / 100.0, end as f64 / 100.0)
    }

    fn range(&mut self, below: u64) -> (u64, u64) {
        let Some(draw) = &mut self.draw else { return (0, below) };
        let (one, other) = (draw.below(below), draw.below(below));
        (one.min(other), one.max(other))
    }

    /// An offset below the number of rows.
    pub(crate) fn offset(&mut self) -> u64 {
        self.draw.as_mut().map_or(0, |draw| draw.below(self.rows))
    }
}

/// Sums over columns, so that scans can be compared and none is optimised away. Wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) rows: u64,
    pub(crate) ids: i64,
    pub(crate) cents: i64,
    pub(crate) rider_bytes: u64,
    pub(crate) seats: i64,
    pub(crate) at: i64,
}

/// A table of [`Trips`] with its index.
pub(crate) trait TypedStore {
    /// Inserts all trips into the table, which is empty, with its index. `false`, with nothing done, if the store has
    /// no such method.
    fn insert(&self, trips: &Trips, method: Method) -> Result<bool>;

    /// Asks until the time is over, at least once and at most `most` times. Returns the answers.
    fn ask(&self, question: Question, from: Parameters, most: usize, deadline: &Deadline) -> Result<Vec<i64>>;

    /// Reads all columns of all rows of five columns.
    fn scan(&self) -> Result<Seen>;
}

/// A kind of store.
pub(crate) struct TypedStoreKind {
    /// As in `--stores`.
    pub(crate) name: &'static str,
    /// The settings that matter, in one line.
    pub(crate) settings: &'static str,
    /// Makes an empty table in an empty directory.
    pub(crate) create: fn(&Path, Setup, Width) -> Result<Box<dyn TypedStore>>,
}

/// The stores of this build.
pub(crate) fn typed_stores() -> Vec<TypedStoreKind> {
    vec![
        quipu::KIND,
        #[cfg(feature = "peers")]
        sqlite::KIND,
    ]
}

/// Asks with `answer` as [`TypedStore::ask`] does.
fn ask_until(
    mut from: Parameters,
    most: usize,
    deadline: &Deadline,
    mut answer: impl FnMut(&mut Parameters) -> Result<i64>,
) -> Result<Vec<i64>> {
    let mut answers = vec![answer(&mut from)?];
    while answers.len() < most && !deadline.passed_at(answers.len() as u64) {
        answers.push(answer(&mut from)?);
    }
    Ok(answers)
}
