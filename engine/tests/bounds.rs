//! Goal: a transaction and a batch hold a bounded number of a run's pages in memory, however much they read and write.
//! Method: the memory is looked at during each read of the disk.

use std::sync::{Arc, Mutex};

use quipu::io::sim::{DiskCall, SimDisk};
use quipu::{Db, Options, ReadableTable, WritableTable, WriteBatch};

const ROWS: u32 = 300_000;
/// What is read at a time of all runs together, and a step of it.
const PINNED_BYTES_MAX: u64 = 12 << 20;

/// The most bytes that readers held at any read in `work`, over a table of 45 MB that is not in the cache.
fn most_pinned(work: impl FnOnce(&Db)) -> u64 {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk.clone()), cache_bytes: 1 << 20, ..Options::without_files() };
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    for keys in (0..ROWS).collect::<Vec<_>>().chunks(10_000) {
        db.write(|tx| keys.iter().try_for_each(|key| tx.table(&table)?.put(key.to_be_bytes(), [7; 140]))).unwrap();
    }
    table.flush().unwrap();
    let most = Arc::new(Mutex::new(0));
    let (watcher, seen) = (db.clone(), most.clone());
    disk.watch(move |call| {
        if call == DiskCall::Read {
            let mut most = seen.lock().unwrap();
            *most = u64::max(*most, watcher.stats().lent_bytes);
        }
    });
    work(&db);
    // The watcher goes, and with it its handle of the database.
    disk.stop_watching();
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
