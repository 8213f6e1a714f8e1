//! RocksDB 7.8: an LSM tree in C++, many writers through one log.
//!
//! - no durability: the log is off. `os`: the log is written, not synced (the default). `sync`: `sync = true`; writers
//!   that wait at once share a sync.
//! - Many keys are got by the batched `MultiGet`.
//! - A bulk is a `WriteBatch`; transactions are the optimistic ones. They do not watch ranges: a count in one is not
//!   serializable, unlike Quipu's.

use std::path::Path;

use quipu_bench::clock::{Deadline, Stopwatch};
use quipu_bench::rows::{Key, Rows, fingerprint};
use quipu_bench::store::{Client, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

use crate::database::{Batch, Database, Open, View};

pub(crate) const ROCKSDB: StoreKind = StoreKind {
    name: "rocksdb",
    settings: "RocksDB 7.8: none no WAL; os WAL; sync WAL synced; Bloom filter, no compression",
    durable: true,
    has_cache: true,
    only_files: false,
    settling: "flush, then a compaction of all keys",
    bytes_max: (usize::MAX, usize::MAX),
    open,
};

struct RocksdbStore(Database);

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Store>> {
    Ok(Box::new(RocksdbStore(Database::open(dir, setup)?)))
}

impl RocksdbStore {
    fn filled(&self, rows: Rows) -> Result<Open<'_>> {
        let mut transaction = self.0.begin()?;
        let mut cursor = rows.cursor();
        while let Some((key, value)) = cursor.advance() {
            transaction.put(key, value)?;
        }
        Ok(transaction)
    }
}

impl Store for RocksdbStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            self.0.put(key, value)?;
        }
        Ok(cursor.done())
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            self.0.put(key, value)?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut batch = Batch::new()?;
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            batch.put(key, value);
        }
        self.0.write(&batch)?;
        Ok(cursor.done())
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let watch = Stopwatch::start();
        let transaction = self.filled(rows)?;
        let insert = watch.stop();
        let watch = Stopwatch::start();
        transaction.roll_back()?;
        Ok(Some(RollBack { insert, roll_back: watch.stop() }))
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&self.0.snapshot()?)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.0.snapshot()?)))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let transaction = self.filled(rows)?;
        run(&mut |from, to| transaction.seek(from)?.count_to(to))?;
        transaction.roll_back()?;
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let transaction = self.0.begin()?;
        let count = transaction.seek(from)?.count_to(to)?;
        transaction.commit()?;
        Ok(count)
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        self.0.compact();
        Ok(())
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(RocksdbClient { database: &self.0, latest: self.0.latest()? }))
    }

    fn memory_bytes(&self) -> Option<u64> {
        let properties =
            [c"rocksdb.cur-size-all-mem-tables", c"rocksdb.block-cache-usage", c"rocksdb.estimate-table-readers-mem"];
        properties.into_iter().map(|name| self.0.property(name)).sum()
    }
}

struct RocksdbClient<'a> {
    database: &'a Database,
    latest: View<'a>,
}

impl Client for RocksdbClient<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.put(key, value)
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.latest.get(key, see)?.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = self.latest.seek(from)?;
        for _ in 0..limit {
            let Some((key, value)) = cursor.advance_row()? else { break };
            see(key, value);
        }
        Ok(())
    }
}

impl Reader for View<'_> {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let mut cursor = self.seek(from)?;
        while let Some(key) = cursor.advance()? {
            if !visit(key) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(View::get(self, key, fingerprint)?.unwrap_or(0))
    }

    fn has_get_many(&self) -> bool {
        true
    }

    fn get_many(&self, keys: &[Key]) -> Result<u64> {
        let mut sum = 0_u64;
        View::get_many(self, keys, |value| sum = sum.wrapping_add(fingerprint(value)))?;
        Ok(sum)
    }
}

impl Snapshot for View<'_> {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        self.seek(from)?.count_to(to)
    }
}
