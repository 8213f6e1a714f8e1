//! Goal: merging writes what has to change and nothing else: files that stand alone stay, and files of which no row is
//! left are not read. Method: the names of the files before and after, and the reads of the disk.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use crate::model_map::options;
use quipu::files::check;
use quipu::io::Disk;
use quipu::io::sim::SimDisk;
use quipu::{Db, Options, ReadableTable, Table, WritableTable};

const DIR: &str = "/db";

fn try_open(disk: &SimDisk) -> quipu::Result<Db> {
    Db::open(DIR, Options { run_file_bytes: 8192, cache_bytes: 0, ..options(disk) })
}

fn open(disk: &SimDisk) -> Db {
    try_open(disk).unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(table: &Table, numbers: Range<u32>, value: &[u8]) {
    for number in numbers {
        table.put(key(number), value).unwrap();
    }
}

fn runs(disk: &SimDisk) -> BTreeSet<String> {
    disk.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.starts_with("run-")).collect()
}

fn number_of_runs(db: &Db) -> usize {
    db.stats().tables[0].runs
}

/// Every answer, for a table of these numbers.
fn expect(table: &Table, numbers: &[u32]) {
    let mut found = Vec::new();
    table
        .for_each(.., |key, _| {
            found.push(u32::from_be_bytes(key.try_into().unwrap()));
            true
        })
        .unwrap();
    assert_eq!(found, numbers);
    assert_eq!(table.count(..).unwrap(), numbers.len() as u64);
    for (rank, number) in numbers.iter().enumerate().step_by(7) {
        assert_eq!(table.rank(key(*number)).unwrap(), rank as u64);
        assert_eq!(table.nth(.., rank as u64).unwrap().unwrap().key.as_ref(), key(*number));
        assert!(table.get(key(*number)).unwrap().is_some());
    }
    let backwards: Vec<u32> =
        table.range(..).rev().map(|row| u32::from_be_bytes(row.unwrap().key.as_ref().try_into().unwrap())).collect();
    assert!(backwards.iter().rev().eq(numbers));
}

fn expect_after_restart(disk: &SimDisk, (db, table): (Db, Table), numbers: &[u32]) {
    expect(&table, numbers);
    drop((db, table));
    let faults = check(DIR, &options(disk), &mut |_| ()).unwrap().faults;
    assert_eq!(faults, [""; 0]);
    expect(&open(disk).ensure_table("t").unwrap(), numbers);
}

#[test]
fn rows_that_come_in_order_are_written_once() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    for flush in 0..6 {
        put(&table, 400 * flush..400 * (flush + 1), b"a value of some length");
        table.flush().unwrap();
    }
    let written = runs(&disk);
    assert_eq!((written.len(), number_of_runs(&db)), (6, 6));
    table.compact().unwrap();
    assert_eq!((runs(&disk), number_of_runs(&db)), (written.clone(), 1));
    expect(&table, &(0..2400).collect::<Vec<_>>());
    // An overwrite at the end concerns the last file alone, and that becomes as many as it needs.
    put(&table, 2300..2310, b"another");
    table.flush().unwrap();
    table.compact().unwrap();
    let (kept, now): (BTreeSet<_>, _) = (runs(&disk).intersection(&written).cloned().collect(), runs(&disk));
    assert_eq!(kept.len(), 5, "{now:?}");
    assert_eq!(number_of_runs(&db), 1);
    expect_after_restart(&disk, (db, table), &(0..2400).collect::<Vec<_>>());
}

#[test]
fn files_of_which_nothing_is_left_go_without_being_read() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    put(&table, 0..5000, b"a value of some length");
    table.flush().unwrap();
    put(&table, 2500..2501, b"another");
    table.flush().unwrap();
    table.compact().unwrap();
    let before = runs(&disk);
    assert!(before.len() >= 10, "{before:?}");
    table.remove_range(&key(1000)..&key(4500)).unwrap();
    table.flush().unwrap();
    let reads = disk.reads();
    table.compact().unwrap();
    let reads = disk.reads() - reads;
    let after = runs(&disk);
    println!("{} files, {} after, {reads} reads", before.len(), after.len());
    assert!(after.len() < before.len() / 2, "{after:?}");
    assert!(after.intersection(&before).count() >= 2, "those at both ends stay");
    let left: Vec<u32> = (0..1000).chain(4500..5000).collect();
    expect_after_restart(&disk, (db, table), &left);
}

#[test]
fn small_files_are_joined() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    for flush in 0..20 {
        put(&table, 10 * flush..10 * (flush + 1), b"v");
        table.flush().unwrap();
    }
    table.compact().unwrap();
    assert_eq!(runs(&disk).len(), 1);
    expect_after_restart(&disk, (db, table), &(0..200).collect::<Vec<_>>());
}

#[test]
fn gaps_that_rows_come_into_later_are_no_harm() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    // Files side by side, then rows between the last key of one and the first of the next.
    for part in [3, 1, 0, 2] {
        put(&table, 1000 * part..1000 * part + 600, b"a value of some length");
        table.flush().unwrap();
    }
    table.compact().unwrap();
    let before = runs(&disk);
    put(&table, 1700..1900, b"between");
    table.flush().unwrap();
    table.compact().unwrap();
    assert!(before.is_subset(&runs(&disk)), "what stands beside is not touched");
    let numbers = (0..4).flat_map(|part| 1000 * part..1000 * part + 600).chain(1700..1900);
    let numbers: BTreeSet<u32> = numbers.collect();
    expect_after_restart(&disk, (db, table), &numbers.into_iter().collect::<Vec<_>>());
}

/// Long stretches of keys that are dead are passed over in windows, in both directions, wherever a scan begins.
#[test]
fn a_scan_passes_over_more_dead_rows_than_a_window_has() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, Options { cache_bytes: 64 << 20, run_page_bytes: 4096, ..options(&disk) }).unwrap();
    let table = db.ensure_table("t").unwrap();
    let value = [7; 300];
    put(&table, 0..40_000, &value);
    table.flush().unwrap();
    table.remove_range(..&key(20_000)).unwrap();
    table.remove_range(&key(20_010)..&key(39_990)).unwrap();
    table.flush().unwrap();
    let left: Vec<u32> = (20_000..20_010).chain(39_990..40_000).collect();
    expect(&table, &left);
    table.compact().unwrap();
    expect_after_restart(&disk, (db, table), &left);
}

/// More files than one thread opens.
#[test]
fn tables_of_many_files_open_and_name_the_first_that_is_not_there() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    for numbers in [0..16_000, 2500..2501] {
        put(&table, numbers, b"a value of some length");
        table.flush().unwrap();
    }
    table.compact().unwrap();
    put(&table, 100..8_000, b"another");
    table.flush().unwrap();
    assert_eq!(number_of_runs(&db), 2);
    let files: Vec<String> = runs(&disk).into_iter().collect();
    assert!(files.len() > 50, "{} files", files.len());
    expect_after_restart(&disk, (db, table), &(0..16_000).collect::<Vec<_>>());
    for gone in [1, files.len() / 2, files.len() - 1] {
        let disk = disk.kill();
        let names = [gone, (gone + 30).min(files.len() - 1)].map(|number| &files[number]);
        for name in BTreeSet::from(names) {
            disk.remove(&Path::new(DIR).join(name)).unwrap();
        }
        let refused = || try_open(&disk).map(|_| ()).unwrap_err().to_string();
        let error = refused();
        assert_eq!(error, refused(), "whichever thread comes first");
        assert!(names.iter().any(|name| error.contains(name.as_str())), "{error}");
        assert!(error.contains("not there"), "{error}");
    }
}
