//! Quipu's typed rows: tables with primary keys, two counted indexes, and transactions in two ways.
//!
//! - `quipu`: transactions that write run one after the other, as the single writer; none conflicts.
//! - `quipu-optimistic`: they run beside each other and are validated at their commits, by the columns that they have
//!   read; one that met a conflict is tried again.
//!
//! Transactions that only read ask a snapshot in both. The customer in the middle of those of one name is one position
//! of an index: a count and the row at an offset.

mod schema;
mod transactions;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use quipu::{Db, RunLayout};
use quipu_rows::{BuildOptions, Database, IndexSchema, Ordered as _, Span, Value};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use self::schema::{schema, see, values};
use self::transactions::Terminal;
use super::contestant::{Contestant, ContestantKind, Rows, Session};
use super::population::Take;
use super::records::Table;
use crate::store::{Result, Setup};

pub(crate) const QUIPU: ContestantKind = ContestantKind {
    name: "quipu",
    settings: "Quipu, typed rows: writing transactions one after the other (Database::write), reading ones on snapshots",
    has_cache: true,
    only_files: false,
    open: |dir, setup| open(dir, setup, Way::SingleWriter, RunLayout::Tree),
};

/// The same with the flat index in the run files, the baseline of the tree.
pub(crate) const QUIPU_FLAT: ContestantKind = ContestantKind {
    name: "quipu-flat",
    settings: "Quipu, typed rows with a flat index: one list of the leaves of each run file in place of a tree above them",
    only_files: true,
    open: |dir, setup| open(dir, setup, Way::SingleWriter, RunLayout::Flat),
    ..QUIPU
};

pub(crate) const QUIPU_OPTIMISTIC: ContestantKind = ContestantKind {
    name: "quipu-optimistic",
    settings: "The same with optimistic transactions (Database::retry, serializable), validated by the columns read",
    has_cache: true,
    only_files: false,
    open: |dir, setup| open(dir, setup, Way::Optimistic, RunLayout::Tree),
};

/// How transactions that write run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    SingleWriter,
    Optimistic,
}

struct Typed {
    database: Database,
    way: Way,
    layout: RunLayout,
    /// Whether rows are inserted, which keeps them in memory, instead of written to files.
    in_memory: bool,
    sessions: AtomicU64,
}

/// Rows that one transaction inserts.
const INSERTED_AT_ONCE: usize = 10_000;

impl Typed {
    fn insert_all(&self, table: Table, rows: Rows<'_>) -> Result<()> {
        let mut waiting: Vec<Vec<Value<'static>>> = Vec::new();
        let insert = |waiting: &mut Vec<Vec<Value<'static>>>| {
            self.database.write(|transaction| {
                let table = transaction.table(table.name())?;
                waiting.drain(..).try_for_each(|values| table.insert_values(&values))
            })
        };
        rows(&mut |record| {
            waiting.push(values(record).into_iter().map(Value::into_owned).collect());
            if waiting.len() == INSERTED_AT_ONCE { Ok(insert(&mut waiting)?) } else { Ok(()) }
        })?;
        Ok(insert(&mut waiting)?)
    }
}

fn open(dir: &Path, setup: Setup, way: Way, layout: RunLayout) -> Result<Box<dyn Contestant>> {
    let database = Database::open(&Db::open(dir, super::options_of(setup))?)?;
    if database.tables()?.is_empty() {
        for table in Table::ALL {
            database.create_table(&schema(table))?;
        }
    }
    Ok(Box::new(Typed { database, way, layout, in_memory: setup.in_memory, sessions: AtomicU64::new(0) }))
}

impl Contestant for Typed {
    fn load(&self, table: Table, rows: Rows<'_>) -> Result<()> {
        if self.in_memory {
            return self.insert_all(table, rows);
        }
        let mut load = self.database.begin_load(table.name(), &BuildOptions::default())?;
        rows(&mut |record| Ok(load.push(&values(record))?))?;
        load.commit(&mut |_| ())?;
        Ok(())
    }

    fn build_indexes(&self) -> Result<()> {
        let by_name = IndexSchema::new("by_name", ["c_w_id", "c_d_id", "c_last", "c_first"]);
        self.database.create_index("customer", by_name, &mut |_| ())?;
        let by_customer = IndexSchema::new("by_customer", ["o_w_id", "o_d_id", "o_c_id", "o_id"]);
        self.database.create_index("orders", by_customer, &mut |_| ())?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        for name in self.database.tree_names()?.keys() {
            if let Some(tree) = self.database.db().open_table(name)? {
                tree.flush()?;
                match self.layout {
                    RunLayout::Tree => tree.compact()?,
                    RunLayout::Flat => tree.rewrite(RunLayout::Flat, &mut |_| ())?,
                }
            }
        }
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Terminal { of: self, random: SmallRng::seed_from_u64(number), retries: 0 }))
    }

    fn visit(&self, table: Table, take: Take<'_>) -> Result<()> {
        let now = self.database.snapshot();
        let mut failed = None;
        now.table(table.name())?.for_each(Span::all(), |row| {
            failed = see(table, &row, take).err();
            Ok(failed.is_none())
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn check(&self) -> Result<()> {
        let found = quipu_rows::check(self.database.db(), &mut |_| ())?;
        match found.problems.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("{} problems, the first: {first}", found.problems.len()).into()),
        }
    }
}
