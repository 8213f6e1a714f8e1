//! LMDB through heed: a copy-on-write B+-tree in a mapped file, one writer.
//!
//! - no durability and `os`: `NOSYNC | WRITEMAP`, so a commit is stores into the mapping: a killed process loses
//!   nothing, a power cut may lose the file. Its fastest setting.
//! - `sync`: no flags: `pwrite`, `fdatasync` and a synced meta page per commit. `WRITEMAP` with `msync` was not faster.
//! - Reads go through one read transaction for as long as the reader is lent. Reader slots are not bound to threads
//!   (`NOTLS`), so that one thread can hold a snapshot and read on.
//! - Rows in ascending order are put with `MDB_APPEND`.
//! - Without a caller's transaction: one write transaction over all inserts, as LMDB has no other writes.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, RwTxn, TlsUsage, WithoutTls};

use crate::clock::{Deadline, Stopwatch};
use crate::rows::{Rows, fingerprint};
use crate::store::{Client, Durability, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

pub(crate) const LMDB: StoreKind = StoreKind {
    name: "lmdb",
    settings: "LMDB (heed 0.23): none and os NOSYNC|WRITEMAP; sync default flags",
    durable: true,
    has_cache: false,
    only_files: false,
    settling: "mdb_env_sync; there is no work in the background",
    bytes_max: (511, usize::MAX),
    open,
};

/// Address space, and length of the sparse file.
pub(crate) const MAP_BYTES: usize = 64 << 30;

struct LmdbStore {
    env: Env<WithoutTls>,
    table: Table,
}

type Table = Database<'static, Bytes, Bytes>;

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_dbs(1);
    set_flags(&mut options, setup.durability);
    // SAFETY: a fresh directory that no other process opens, so the file is not changed behind the mapping.
    let env = unsafe { options.open(dir)? };
    let txn = env.write_txn()?;
    let table = env
        .create_databases_and_commit(txn, |opener, txn| {
            opener.create_database(txn, Some("t")).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    Ok(Box::new(LmdbStore { env, table }))
}

/// Has commits promise this.
pub(crate) fn set_flags<T: TlsUsage>(options: &mut EnvOpenOptions<T>, durability: Durability) {
    if durability != Durability::Sync {
        // SAFETY: without syncing, a crash of the system may damage the file; it is thrown away anyway. Nothing in this
        // process writes through stray pointers into the writable mapping.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_MEM_INIT) };
    }
}

impl LmdbStore {
    fn fill(&self, txn: &mut RwTxn<'_>, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            self.table.put(txn, key, value)?;
        }
        Ok(cursor.done())
    }
}

impl Store for LmdbStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.insert_bulk(rows, deadline)
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            let mut txn = self.env.write_txn()?;
            self.table.put(&mut txn, key, value)?;
            txn.commit()?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut txn = self.env.write_txn()?;
        let done = self.fill(&mut txn, rows, deadline)?;
        txn.commit()?;
        Ok(done)
    }

    fn append(&self, rows: Rows) -> Result<u64> {
        let mut txn = self.env.write_txn()?;
        let mut cursor = rows.cursor();
        while let Some((key, value)) = cursor.advance() {
            self.table.put_with_flags(&mut txn, PutFlags::APPEND, key, value)?;
        }
        txn.commit()?;
        Ok(cursor.done())
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let watch = Stopwatch::start();
        let mut txn = self.env.write_txn()?;
        self.fill(&mut txn, rows, &Deadline::never())?;
        let insert = watch.stop();
        let watch = Stopwatch::start();
        txn.abort();
        Ok(Some(RollBack { insert, roll_back: watch.stop() }))
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&LmdbReader { txn: self.env.read_txn()?, table: self.table })
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(LmdbReader { txn: self.env.read_txn()?, table: self.table })))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let mut txn = self.env.write_txn()?;
        self.fill(&mut txn, rows, &Deadline::never())?;
        run(&mut |from, to| count(self.table, &txn, from, to))?;
        txn.abort();
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let txn = self.env.read_txn()?;
        count(self.table, &txn, from, to)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &LmdbStore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.env.read_txn()?;
        Ok(self.table.get(&txn, key)?.map(see).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let txn = self.env.read_txn()?;
        let rows = self.table.range(&txn, &(Bound::Included(from), Bound::Unbounded))?;
        for row in rows.take(limit as usize) {
            let (key, value) = row?;
            see(key, value);
        }
        Ok(())
    }
}

fn count(table: Table, txn: &RoTxn<'_>, from: &[u8], to: &[u8]) -> Result<u64> {
    let mut count = 0;
    for row in table.range(txn, &(Bound::Included(from), Bound::Excluded(to)))? {
        row?;
        count += 1;
    }
    Ok(count)
}

struct LmdbReader<'a> {
    txn: RoTxn<'a, WithoutTls>,
    table: Table,
}

impl Reader for LmdbReader<'_> {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        for row in self.table.range(&self.txn, &(start, Bound::Unbounded))? {
            if !visit(row?.0) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(self.table.get(&self.txn, key)?.map_or(0, fingerprint))
    }
}

impl Snapshot for LmdbReader<'_> {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(self.table, &self.txn, from, to)
    }
}
