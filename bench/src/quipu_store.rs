//! Quipu itself, through its public interface.
//!
//! - Durability is that of the database; every call of `Table` is a commit.
//! - Inserts are `insert`, which fails if the key exists, also where the peers' calls overwrite blindly.
//! - Rows in ascending order are `put`, or come by an ingest, which is `Table::ingest` with rows pushed one by one.
//! - A bulk and a rollback run as the single writer (`Db::write`); counts in transactions use optimistic ones
//!   (`Db::begin`), whose commit validates what they counted.

use std::path::Path;

use quipu::ingest::Overlap;
use quipu::{Bounds, Db, Options, ReadableTable, RunLayout, Table, TableOptions, WritableTable};

use crate::clock::{Deadline, Stopwatch};
use crate::rows::{Key, Rows, fingerprint};
use crate::store::{Client, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

pub(crate) const QUIPU: StoreKind = StoreKind {
    name: "quipu",
    settings: "Quipu: one table that counts rows; insert checks that the key is new; larger than memory: 64 MiB of memtables",
    durable: true,
    has_cache: true,
    only_files: false,
    settling: "flush and compact: one run",
    bytes_max: (64 << 10, 1 << 30),
    open: |dir, setup| open(dir, setup, RunLayout::Tree),
};

/// The same with the flat index in the run files, the baseline of the tree: what sorted files have elsewhere.
pub(crate) const QUIPU_FLAT: StoreKind = StoreKind {
    name: "quipu-flat",
    settings: "Quipu with a flat index: as above, but a run file has one list of its leaves in place of a tree above them",
    only_files: true,
    open: |dir, setup| open(dir, setup, RunLayout::Flat),
    ..QUIPU
};

/// Memory for rows that are not on disk yet: as much as RocksDB and fjall take for that unless told otherwise.
const MEMTABLE_BYTES: u64 = 64 << 20;

struct QuipuStore {
    db: Db,
    table: Table,
}

fn open(dir: &Path, setup: Setup, layout: RunLayout) -> Result<Box<dyn Store>> {
    let memtable_bytes = if setup.in_memory { 0 } else { MEMTABLE_BYTES };
    let options = Options {
        durability: setup.durability.into(),
        memtable_bytes,
        cache_bytes: setup.cache_bytes,
        ..Options::default()
    };
    let db = Db::open(dir, options)?;
    let table = match db.open_table("t")? {
        Some(table) => table,
        None => db.create_table("t", TableOptions { layout, ..TableOptions::default() })?,
    };
    Ok(Box::new(QuipuStore { db, table }))
}

/// Inserts rows until the deadline.
fn fill(table: &impl WritableTable, rows: Rows, deadline: &Deadline) -> quipu::Result<u64> {
    let mut cursor = rows.cursor();
    while !deadline.passed_at(cursor.done())
        && let Some((key, value)) = cursor.advance()
    {
        table.insert(key, value)?;
    }
    Ok(cursor.done())
}

impl Store for QuipuStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        Ok(fill(&self.table, rows, deadline)?)
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            self.table.insert(key, value)?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        Ok(self.db.write(|tx| fill(&tx.table(&self.table)?, rows, deadline))?)
    }

    fn put_bulk(&self, rows: Rows) -> Result<u64> {
        Ok(self.db.write(|tx| {
            let table = tx.table(&self.table)?;
            let mut cursor = rows.cursor();
            while let Some((key, value)) = cursor.advance() {
                table.put(key, value)?;
            }
            Ok(cursor.done())
        })?)
    }

    fn append(&self, rows: Rows) -> Result<u64> {
        self.put_bulk(rows)
    }

    fn ingest(&self, rows: Rows) -> Result<Option<u64>> {
        let mut ingest = self.table.begin_ingest(Overlap::Refuse)?;
        let mut cursor = rows.cursor();
        while let Some((key, value)) = cursor.advance() {
            ingest.push(key, value)?;
        }
        Ok(Some(ingest.commit()?.rows))
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let insert_watch = Stopwatch::start();
        let mut undoing = None;
        let undone = self.db.write(|tx| {
            fill(&tx.table(&self.table)?, rows, &Deadline::never())?;
            undoing = Some((insert_watch.stop(), Stopwatch::start()));
            Err::<(), _>(quipu::Error::new(quipu::ErrorKind::Invalid, "undo this"))
        });
        match (undone, undoing) {
            (Err(_), Some((insert, watch))) => Ok(Some(RollBack { insert, roll_back: watch.stop() })),
            (Err(error), None) => Err(error.into()),
            (Ok(()), _) => Err("a failed closure was committed".into()),
        }
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&self.table)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(QuipuSnapshot { snapshot: self.db.snapshot(), table: &self.table })))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let tx = self.db.begin();
        let table = tx.table(&self.table)?;
        fill(&table, rows, &Deadline::never())?;
        run(&mut |from, to| Ok(ReadableTable::count(&table, from..to)?))?;
        tx.rollback();
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let tx = self.db.begin();
        let count = ReadableTable::count(&tx.table(&self.table)?, from..to)?;
        tx.commit()?;
        Ok(count)
    }

    fn settle(&self) -> Result<()> {
        self.table.flush()?;
        Ok(self.table.compact()?)
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(&self.table))
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.db.stats().memory_bytes())
    }
}

impl Client for &Table {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(WritableTable::put(*self, key, value)?)
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(ReadableTable::get(*self, key)?.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Ok(self.for_each_limited(from.., limit, see)?)
    }
}

impl Reader for Table {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        Ok(self.for_each(from.., |key, _| visit(key))?)
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(ReadableTable::get(self, key)?.map_or(0, |value| fingerprint(&value)))
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        Ok(ReadableTable::count(self, from..to)?)
    }

    fn rank(&self, key: &[u8]) -> Result<u64> {
        Ok(ReadableTable::rank(self, key)?)
    }

    fn page(&self, offset: u64, limit: u64) -> Result<u64> {
        let page = ReadableTable::page(self, .., offset, limit as usize)?;
        Ok(page.entries.iter().fold(0, |sum: u64, entry| sum.wrapping_add(fingerprint(&entry.key))))
    }

    fn nth(&self, offset: u64) -> Result<u64> {
        Ok(ReadableTable::nth(self, .., offset)?.map_or(0, |entry| fingerprint(&entry.key)))
    }

    fn has_get_many(&self) -> bool {
        true
    }

    fn get_many(&self, keys: &[Key]) -> Result<u64> {
        let values = ReadableTable::get_many(self, keys)?;
        Ok(values.iter().flatten().fold(0, |sum: u64, value| sum.wrapping_add(fingerprint(value))))
    }

    fn rank_many(&self, keys: &[Key]) -> Result<u64> {
        Ok(ReadableTable::rank_many(self, keys)?.into_iter().fold(0, u64::wrapping_add))
    }

    fn count_many(&self, ranges: &[(Key, Key)]) -> Result<u64> {
        let ranges: Vec<Bounds<'_>> = ranges.iter().map(|(from, to)| Bounds::from(from..to)).collect();
        Ok(ReadableTable::count_many(self, &ranges)?.into_iter().fold(0, u64::wrapping_add))
    }

    fn nth_many(&self, offsets: &[u64]) -> Result<u64> {
        let entries = ReadableTable::nth_many(self, offsets)?;
        Ok(entries.iter().flatten().fold(0, |sum: u64, entry| sum.wrapping_add(fingerprint(&entry.key))))
    }
}

struct QuipuSnapshot<'a> {
    snapshot: quipu::Snapshot,
    table: &'a Table,
}

impl Snapshot for QuipuSnapshot<'_> {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        Ok(ReadableTable::count(&self.snapshot.table(self.table)?, from..to)?)
    }
}
