//! Goal: a table has its inner pages in memory when it was declared so, after every opening, flush and merge, and no
//! others; others have them on request. Method: a small database on the simulated disk, whose statistics tell.

use quipu::io::sim::SimDisk;
use quipu::{Compression, Db, InnerPages, Options, ReadableTable, Table, TableOptions, WritableTable};
use std::sync::Arc;

fn open(disk: &SimDisk) -> Db {
    let options = Options {
        disk: Arc::new(disk.clone()),
        run_page_bytes: 512,
        cache_bytes: 256 << 10,
        background: false,
        log_segment_bytes: 1 << 20,
        ..Options::default()
    };
    Db::open("/db", options).unwrap()
}

fn fill(table: &Table, from: u32) {
    for number in from..from + 4000 {
        table.put(number.to_be_bytes(), [7; 30]).unwrap();
    }
    table.flush().unwrap();
}

fn declared(inner_pages: InnerPages) -> TableOptions {
    TableOptions { inner_pages, compression: Compression::Lz4, ..TableOptions::default() }
}

/// Pages that a count over all of a table has to read, beyond what it has to of any: the two leaves at its ends.
fn reads(table: &Table) -> u64 {
    let explained = table.with_cost(|table| table.count(&[0, 0, 3, 9][..]..&[0, 0, 9, 9][..])).unwrap();
    explained.1.pages_read
}

#[test]
fn a_resident_index_is_there_after_all_that_happens() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_table("t", declared(InnerPages::Pinned)).unwrap();
    assert_eq!(db.stats().pinned_bytes, 0);
    fill(&table, 0);
    let of_one = db.stats().pinned_bytes;
    assert!(of_one > 1000 && db.stats().cache_bytes >= of_one);
    assert!(reads(&table) <= 2);
    fill(&table, 4000);
    assert!(db.stats().pinned_bytes > of_one);
    drop((table, db));
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    assert_eq!(table.options(), &declared(InnerPages::Pinned));
    let of_two = db.stats().pinned_bytes;
    assert!(of_two > of_one && reads(&table) <= 4);
    // A snapshot taken before reads on as it can.
    let before = db.snapshot();
    table.compact().unwrap();
    let of_merged = db.stats().pinned_bytes;
    assert!(of_merged > of_one && of_merged < of_two + of_one && reads(&table) <= 2);
    assert_eq!(before.table(&table).unwrap().count(..).unwrap(), 8000);
    drop(before);
    // After a checkpoint no record of the log has the table's creation any more: the manifest says so.
    db.checkpoint().unwrap();
    drop((table, db));
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    assert_eq!(table.options(), &declared(InnerPages::Pinned));
    assert_eq!(db.stats().pinned_bytes, of_merged);
    drop(table);
    assert!(db.drop_table("t").unwrap());
    assert_eq!(db.stats().pinned_bytes, 0);
}

#[test]
fn others_have_it_on_request() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_table("t", declared(InnerPages::AsNeeded)).unwrap();
    fill(&table, 0);
    assert_eq!((db.stats().pinned_bytes, db.stats().cache_bytes), (0, 0));
    assert_eq!(table.preload(InnerPages::AsNeeded).unwrap().pages, 0);
    let loaded = table.preload(InnerPages::Preloaded).unwrap();
    assert!(loaded.pages > 2 && !loaded.is_cut);
    assert_eq!((db.stats().pinned_bytes, db.stats().cache_bytes), (0, loaded.bytes));
    assert!(reads(&table) <= 2);
    assert_eq!(table.preload(InnerPages::Pinned).unwrap(), loaded);
    assert_eq!(db.stats().pinned_bytes, loaded.bytes);
    // Until its runs are replaced.
    fill(&table, 4000);
    table.compact().unwrap();
    assert_eq!(db.stats().pinned_bytes, 0);
    let other = db.create_table("other", declared(InnerPages::Preloaded)).unwrap();
    let cached = db.stats().cache_bytes;
    fill(&other, 0);
    assert!(db.stats().cache_bytes > cached && db.stats().pinned_bytes == 0);
}
