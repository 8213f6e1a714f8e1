//! fjall: an LSM tree in Rust, many writers through one journal.
//!
//! - no durability: the journal stays in the process until its buffer is full (`manual_journal_persist`).
//! - `os`: the default: every insert is flushed to the operating system.
//! - `sync`: an insert, then `persist(SyncData)`. A bulk is a `WriteBatch` with `SyncData`.
//! - No compression: the values are random. Transactions are the optimistic ones.

use std::path::Path;

use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode, Readable,
};

use crate::clock::{Deadline, Stopwatch};
use crate::rows::{Rows, fingerprint};
use crate::store::{Client, Durability, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

pub(crate) const FJALL: StoreKind = StoreKind {
    name: "fjall",
    settings: "fjall 3.1: none manual_journal_persist; os default; sync persist(SyncData)",
    durable: true,
    has_cache: true,
    only_files: false,
    settling: "the memtable is written, then a major compaction",
    bytes_max: (65_536, usize::MAX),
    open,
};

struct FjallStore {
    database: OptimisticTxDatabase,
    table: OptimisticTxKeyspace,
    durability: Durability,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Store>> {
    let database = open_database(dir, setup)?;
    let table = open_keyspace(&database, setup, "t")?;
    Ok(Box::new(FjallStore { database, table, durability: setup.durability }))
}

/// A database without keyspaces, or the one that was closed there.
pub(crate) fn open_database(dir: &Path, setup: Setup) -> Result<OptimisticTxDatabase> {
    let builder = OptimisticTxDatabase::builder(dir).cache_size(setup.cache_bytes);
    Ok(builder.manual_journal_persist(is_manual(setup)).open()?)
}

/// The keyspace of this name, created if there is none.
pub(crate) fn open_keyspace(database: &OptimisticTxDatabase, setup: Setup, name: &str) -> Result<OptimisticTxKeyspace> {
    let options = || KeyspaceCreateOptions::default().manual_journal_persist(is_manual(setup));
    Ok(database.keyspace(name, options)?)
}

/// Whether the journal waits to be handed to the operating system.
fn is_manual(setup: Setup) -> bool {
    setup.durability != Durability::Os
}

/// What a transaction does with the journal at its commit.
pub(crate) fn persist_mode(durability: Durability) -> Option<PersistMode> {
    match durability {
        Durability::None => None,
        Durability::Os => Some(PersistMode::Buffer),
        Durability::Sync => Some(PersistMode::SyncData),
    }
}

impl FjallStore {
    fn filled(&self, rows: Rows) -> Result<OptimisticWriteTx> {
        let mut txn = self.database.write_tx()?;
        let mut cursor = rows.cursor();
        while let Some((key, value)) = cursor.advance() {
            txn.insert(&self.table, key, value);
        }
        Ok(txn)
    }
}

impl Store for FjallStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let table = self.table.inner();
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            table.insert(key, value)?;
        }
        Ok(cursor.done())
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        if self.durability != Durability::Sync {
            return self.insert_plain(rows, deadline);
        }
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            self.table.inner().insert(key, value)?;
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut batch = self.database.inner().batch().durability(persist_mode(self.durability));
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            batch.insert(self.table.inner(), key, value);
        }
        batch.commit()?;
        Ok(cursor.done())
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let watch = Stopwatch::start();
        let txn = self.filled(rows)?;
        let insert = watch.stop();
        let watch = Stopwatch::start();
        txn.rollback();
        Ok(Some(RollBack { insert, roll_back: watch.stop() }))
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&FjallReader { snapshot: self.database.read_tx(), table: &self.table })
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(FjallReader { snapshot: self.database.read_tx(), table: &self.table })))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let txn = self.filled(rows)?;
        run(&mut |from, to| count(&txn, &self.table, from, to))?;
        txn.rollback();
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let txn = self.database.write_tx()?;
        let count = count(&txn, &self.table, from, to)?;
        txn.commit()?.map_err(|_| "fjall: a transaction that only counts conflicted")?;
        Ok(count)
    }

    fn settle(&self) -> Result<()> {
        let table = self.table.inner();
        table.rotate_memtable_and_wait()?;
        table.major_compact()?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &FjallStore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.table.inner().insert(key, value)?;
        if self.durability == Durability::Sync {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.table.inner().get(key)?.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for row in self.table.inner().range(from..).take(limit as usize) {
            let (key, value) = row.into_inner()?;
            see(&key, &value);
        }
        Ok(())
    }
}

fn count(view: &impl Readable, table: &OptimisticTxKeyspace, from: &[u8], to: &[u8]) -> Result<u64> {
    let mut count = 0;
    for row in view.range(table, from..to) {
        row.key()?;
        count += 1;
    }
    Ok(count)
}

struct FjallReader<'a> {
    snapshot: fjall::Snapshot,
    table: &'a OptimisticTxKeyspace,
}

impl Reader for FjallReader<'_> {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        for row in self.snapshot.range(self.table, from..) {
            if !visit(&row.key()?) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(self.snapshot.get(self.table, key)?.map_or(0, |value| fingerprint(&value)))
    }
}

impl Snapshot for FjallReader<'_> {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(&self.snapshot, self.table, from, to)
    }
}
