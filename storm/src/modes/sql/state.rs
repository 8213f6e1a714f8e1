//! The model of the mode `sql`: what tables hold, what a transaction has changed over it, and what is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Tables that are always there, and those that come and go after them.
pub const FIXED: u64 = 3;
/// All tables.
pub const TABLES: u64 = 5;
/// Keys are below this.
pub const KEYS: i64 = 40;

/// What a row has beside its key: a column with an index, which may be NULL, and one without.
pub type Row = (Option<i64>, i64);

/// A table, and a number that no other creation of it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Which creation it is.
    pub creation: u64,
    /// Its rows.
    pub rows: BTreeMap<i64, Row>,
}

/// What was committed.
pub type Committed = Arc<BTreeMap<u64, Rows>>;

/// What a transaction has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Rows that it has put or removed.
    pub rows: BTreeMap<(u64, i64), Option<Row>>,
    /// Tables that it has created, each with its creation, or dropped.
    pub tables: BTreeMap<u64, Option<u64>>,
}

impl Changes {
    /// Whether it is a change.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.tables.is_empty()
    }

    /// The state with these changes.
    pub fn over(&self, state: &Committed) -> Committed {
        if self.is_empty() {
            return Arc::clone(state);
        }
        let mut tables = (**state).clone();
        for (table, creation) in &self.tables {
            match creation {
                Some(creation) => drop(tables.insert(*table, Rows { creation: *creation, rows: BTreeMap::new() })),
                None => drop(tables.remove(table)),
            }
        }
        for ((table, key), row) in &self.rows {
            let Some(rows) = tables.get_mut(table) else { continue };
            match row {
                Some(row) => drop(rows.rows.insert(*key, *row)),
                None => drop(rows.rows.remove(key)),
            }
        }
        Arc::new(tables)
    }
}

/// Which rows are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// One key.
    Key(i64),
    /// Keys from the first to the second.
    Between(i64, i64),
    /// A value of the column with an index.
    Indexed(i64),
    /// All.
    All,
}

impl Filter {
    /// As a condition.
    pub fn condition(self) -> String {
        match self {
            Filter::Key(key) => format!("id = {key}"),
            Filter::Between(low, high) => format!("id BETWEEN {low} AND {high}"),
            Filter::Indexed(value) => format!("k = {value}"),
            Filter::All => "true".to_owned(),
        }
    }

    /// The rows, in the order of their keys.
    pub fn of(self, rows: &BTreeMap<i64, Row>) -> Vec<(i64, Row)> {
        let is_meant = |key: i64, row: Row| match self {
            Filter::Key(meant) => key == meant,
            Filter::Between(low, high) => (low..=high).contains(&key),
            Filter::Indexed(value) => row.0 == Some(value),
            Filter::All => true,
        };
        rows.iter().filter(|(key, row)| is_meant(**key, **row)).map(|(key, row)| (*key, *row)).collect()
    }
}

/// What is asked of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The rows themselves.
    Rows,
    /// How many there are.
    Count,
    /// The sum of their values.
    Sum,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The table.
    pub table: u64,
    /// Which of its rows.
    pub filter: Filter,
    /// What of them.
    pub asked: Asked,
}

impl Question {
    /// As a query.
    pub fn query(&self) -> String {
        let (table, condition) = (self.table, self.filter.condition());
        match self.asked {
            Asked::Rows => format!("SELECT id, k, v FROM t{table} WHERE {condition} ORDER BY id"),
            Asked::Count => format!("SELECT count(*) FROM t{table} WHERE {condition}"),
            Asked::Sum => format!("SELECT sum(v) FROM t{table} WHERE {condition}"),
        }
    }

    /// The answer, as lines; none if there is no such table.
    pub fn answer(&self, state: &Committed) -> Option<Vec<String>> {
        let found = self.filter.of(&state.get(&self.table)?.rows);
        Some(match self.asked {
            Asked::Rows => found.iter().map(line).collect(),
            Asked::Count => vec![found.len().to_string()],
            Asked::Sum if found.is_empty() => vec!["NULL".to_owned()],
            Asked::Sum => vec![found.iter().map(|(_, row)| row.1).sum::<i64>().to_string()],
        })
    }
}

/// A row as its line.
pub fn line((key, (indexed, value)): &(i64, Row)) -> String {
    format!("{key}|{}|{value}", indexed.map_or_else(|| "NULL".to_owned(), |number| number.to_string()))
}

/// A row from its line.
pub fn row_of(line: &str) -> Option<(i64, Row)> {
    let mut words = line.split('|');
    let key = words.next()?.parse().ok()?;
    let indexed = words.next()?.parse().ok();
    Some((key, (indexed, words.next()?.parse().ok()?)))
}
