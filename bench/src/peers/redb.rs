//! redb: a copy-on-write B-tree in Rust, one writer. It counts the rows of a table, not those of a range.
//!
//! - no durability and `os`: `Durability::None`. redb has nothing between that and `Immediate`: a killed process loses
//!   what was committed since the last `Immediate`, so its `os` figures promise less than the others'.
//! - `sync`: `Durability::Immediate`, one phase: one `fdatasync` per commit.
//! - Without a caller's transaction: one write transaction over all inserts, as redb has no other writes.

use std::path::Path;

use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::clock::{Deadline, Stopwatch};
use crate::rows::{Rows, fingerprint};
use crate::store::{Client, Durability, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

pub(crate) const REDB: StoreKind = StoreKind {
    name: "redb",
    settings: "redb 4.5: none and os Durability::None (lost with the process); sync Immediate",
    durable: true,
    has_cache: true,
    only_files: false,
    settling: "an empty commit that is synced; there is no work in the background",
    bytes_max: (usize::MAX, usize::MAX),
    open,
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

struct RedbStore {
    database: Database,
    durability: redb::Durability,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Store>> {
    let database = Builder::new().set_cache_size(setup.cache_bytes as usize).create(dir.join("redb"))?;
    let store = RedbStore { database, durability: durability_of(setup) };
    let txn = store.database.begin_write()?;
    txn.open_table(TABLE)?;
    txn.commit()?;
    Ok(Box::new(store))
}

/// What its commits promise.
pub(crate) fn durability_of(setup: Setup) -> redb::Durability {
    match setup.durability {
        Durability::None | Durability::Os => redb::Durability::None,
        Durability::Sync => redb::Durability::Immediate,
    }
}

impl RedbStore {
    fn begin(&self) -> Result<WriteTransaction> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(self.durability)?;
        Ok(txn)
    }

    fn reader(&self) -> Result<RedbReader> {
        Ok(RedbReader { table: self.database.begin_read()?.open_table(TABLE)? })
    }
}

fn fill(txn: &WriteTransaction, rows: Rows, deadline: &Deadline) -> Result<u64> {
    let mut table = txn.open_table(TABLE)?;
    let mut cursor = rows.cursor();
    while !deadline.passed_at(cursor.done())
        && let Some((key, value)) = cursor.advance()
    {
        table.insert(key, value)?;
    }
    Ok(cursor.done())
}

impl Store for RedbStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.insert_bulk(rows, deadline)
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            let txn = self.begin()?;
            txn.open_table(TABLE)?.insert(key, value)?;
            txn.commit()?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let txn = self.begin()?;
        let done = fill(&txn, rows, deadline)?;
        txn.commit()?;
        Ok(done)
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let watch = Stopwatch::start();
        let txn = self.begin()?;
        fill(&txn, rows, &Deadline::never())?;
        let insert = watch.stop();
        let watch = Stopwatch::start();
        txn.abort()?;
        Ok(Some(RollBack { insert, roll_back: watch.stop() }))
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&self.reader()?)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.reader()?)))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let txn = self.begin()?;
        fill(&txn, rows, &Deadline::never())?;
        {
            let table = txn.open_table(TABLE)?;
            run(&mut |from, to| count(&table, from, to))?;
        }
        txn.abort()?;
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(&self.reader()?.table, from, to)
    }

    fn settle(&self) -> Result<()> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(redb::Durability::Immediate)?;
        Ok(txn.commit()?)
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &RedbStore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let txn = self.begin()?;
        txn.open_table(TABLE)?.insert(key, value)?;
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(ReadableTable::get(&self.reader()?.table, key)?.map(|value| see(value.value())).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for row in ReadableTable::range(&self.reader()?.table, from..)?.take(limit as usize) {
            let (key, value) = row?;
            see(key.value(), value.value());
        }
        Ok(())
    }
}

fn count(table: &impl ReadableTable<&'static [u8], &'static [u8]>, from: &[u8], to: &[u8]) -> Result<u64> {
    let mut count = 0;
    for row in table.range(from..to)? {
        row?;
        count += 1;
    }
    Ok(count)
}

struct RedbReader {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Reader for RedbReader {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        for row in ReadableTable::range(&self.table, from..)? {
            if !visit(row?.0.value()) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(ReadableTable::get(&self.table, key)?.map_or(0, |value| fingerprint(value.value())))
    }
}

impl Snapshot for RedbReader {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(&self.table, from, to)
    }
}
