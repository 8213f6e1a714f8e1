//! Goal: a transaction and a batch hold a bounded number of a run's pages in memory, however much they read and write.
//! Method: the memory is looked at during each read of the disk.

use std::io::Result;
use std::path::Path;
use std::sync::{Arc, Mutex};

use quipu::io::sim::SimDisk;
use quipu::io::{Disk, File, Lock, Mapping, OpenMode};
use quipu::{Db, Options, ReadableTable, WritableTable, WriteBatch};

/// Is called at each read.
type AtRead = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

#[derive(Clone)]
struct Watched {
    disk: SimDisk,
    at_read: AtRead,
}

#[derive(Debug)]
struct WatchedFile(Box<dyn File>, Watched);

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for Watched {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(WatchedFile(self.disk.open(path, mode)?, self.clone())))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

impl File for WatchedFile {
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        if let Some(at_read) = &mut *self.1.at_read.lock().unwrap() {
            at_read();
        }
        self.0.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn map(&self, len: usize) -> Result<Box<dyn Mapping>> {
        self.0.map(len)
    }
}

const ROWS: u32 = 300_000;
/// What is read at a time of all runs together, and a step of it.
const PINNED_BYTES_MAX: u64 = 12 << 20;

/// The most bytes that readers held at any read in `work`, over a table of 45 MB that is not in the cache.
fn most_pinned(work: impl FnOnce(&Db)) -> u64 {
    let watched = Watched { disk: SimDisk::new(), at_read: AtRead::default() };
    let options = Options { disk: Arc::new(watched.clone()), cache_bytes: 1 << 20, ..Options::without_files() };
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    for keys in (0..ROWS).collect::<Vec<_>>().chunks(10_000) {
        db.write(|tx| keys.iter().try_for_each(|key| tx.table(&table)?.put(key.to_be_bytes(), [7; 140]))).unwrap();
    }
    table.flush().unwrap();
    let most = Arc::new(Mutex::new(0));
    let (watcher, seen) = (db.clone(), most.clone());
    *watched.at_read.lock().unwrap() = Some(Box::new(move || {
        let mut most = seen.lock().unwrap();
        *most = u64::max(*most, watcher.stats().lent_bytes);
    }));
    work(&db);
    // The watcher goes, and with it its handle of the database.
    *watched.at_read.lock().unwrap() = None;
    Arc::into_inner(most).map_or(0, |most| most.into_inner().unwrap())
}

#[test]
fn validating_a_scan_after_a_flush_holds_a_window_of_it() {
    let most = most_pinned(|db| {
        let table = db.ensure_table("t").unwrap();
        let other = db.ensure_table("other").unwrap();
        let transaction = db.begin();
        let mut rows = 0;
        transaction
            .table(&table)
            .unwrap()
            .for_each(.., |_, _| {
                rows += 1;
                true
            })
            .unwrap();
        assert_eq!(rows, ROWS);
        transaction.table(&other).unwrap().put("key", "value").unwrap();
        // The same rows in other runs.
        table.put(0u32.to_be_bytes(), [7; 140]).unwrap();
        table.flush().unwrap();
        transaction.commit().unwrap();
    });
    assert!(most <= PINNED_BYTES_MAX, "{most} bytes");
}

#[test]
fn a_batch_over_cold_runs_holds_the_pages_of_some_of_its_keys() {
    let most = most_pinned(|db| {
        let table = db.ensure_table("t").unwrap();
        let mut batch = WriteBatch::new();
        (0..ROWS).step_by(7).for_each(|key| batch.put(&table, key.to_be_bytes(), "new"));
        db.apply(batch).unwrap();
        assert_eq!(table.len().unwrap(), u64::from(ROWS));
    });
    assert!(most <= PINNED_BYTES_MAX, "{most} bytes");
}

#[test]
fn a_transaction_that_is_brought_to_other_runs_holds_the_pages_of_some_of_its_keys() {
    let most = most_pinned(|db| {
        let table = db.ensure_table("t").unwrap();
        let transaction = db.begin();
        let rows = transaction.table(&table).unwrap();
        (0..ROWS).step_by(11).for_each(|key| rows.put(key.to_be_bytes(), "new").unwrap());
        assert_eq!(rows.get(5u32.to_be_bytes()).unwrap().unwrap()[..], [7; 140]);
        table.put(1u32.to_be_bytes(), "other").unwrap();
        table.flush().unwrap();
        transaction.commit().unwrap();
        assert_eq!(table.get(11u32.to_be_bytes()).unwrap().unwrap()[..], *b"new");
    });
    assert!(most <= PINNED_BYTES_MAX, "{most} bytes");
}
