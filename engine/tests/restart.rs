//! Goal: what a database has accepted it accepts again when it is opened anew, and what it cannot take in is an error
//! that says what to do.
//! Method: databases that are full in one way or another, opened with the same options and with others.

use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, ErrorKind, Options, ReadableTable, TableOptions, WritableTable, WriteBatch};

const DIR: &str = "/db";

fn options(disk: &SimDisk) -> Options {
    Options { disk: std::sync::Arc::new(disk.clone()), durability: Durability::Os, ..Options::without_files() }
}

/// Rows of which the fifth finds a leaf that is full to the byte, beside one that has one byte less than its last entry
/// needs.
#[test]
fn twelve_rows_that_fill_a_leaf_to_the_byte_are_there_after_a_restart() {
    let disk = SimDisk::new();
    let rows = [
        (20, 366),
        (110, 366),
        (40, 366),
        (130, 366),
        (10, 366),
        (120, 366),
        (50, 365),
        (140, 365),
        (100, 366),
        (30, 365),
        (60, 394),
        (5, 100),
    ];
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.create_table("rows", TableOptions::default()).unwrap();
    let key = |first: u8| [&[first, 0, 0, 0][..], &[b'k'; 296]].concat();
    for (first, value_bytes) in rows {
        table.put(key(first), vec![b'v'; value_bytes]).unwrap();
    }
    drop((table, db));
    let table = Db::open(DIR, options(&disk)).unwrap().ensure_table("rows").unwrap();
    assert_eq!(table.count(..).unwrap(), 12);
    for (first, value_bytes) in rows {
        assert_eq!(table.get(key(first)).unwrap().unwrap().len(), value_bytes);
    }
}

/// Puts rows of these keys, in order, until memory is full, and returns how many it took.
fn fill(db: &Db, key: impl Fn(u32) -> Vec<u8>) -> u32 {
    let table = db.create_table("rows", TableOptions::default()).unwrap();
    let mut rows = 0;
    for together in [1000, 1] {
        loop {
            let mut batch = WriteBatch::new();
            for row in rows..rows + together {
                batch.put(&table, key(row), [b'v'; 20]);
            }
            match db.apply(batch) {
                Ok(()) => rows += together,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full);
                    break;
                }
            }
        }
    }
    rows
}

/// Fills small pages in ascending order, so that they are full, and opens the database again, from an image and from
/// the log.
fn fill_and_reopen(key: impl Fn(u32) -> Vec<u8>) {
    for has_image in [true, false] {
        let disk = SimDisk::new();
        let options = Options { page_bytes: 256, memory_bytes: 12 << 20, ..options(&disk) };
        let db = Db::open(DIR, options.clone()).unwrap();
        let rows = fill(&db, &key);
        if has_image {
            db.checkpoint().unwrap();
        }
        drop(db);
        let db = Db::open(DIR, options.clone()).unwrap();
        let table = db.ensure_table("rows").unwrap();
        assert_eq!(table.count(..).unwrap(), u64::from(rows), "image: {has_image}");
        // Rows can go, and then others come.
        assert_eq!(table.remove_range(&*key(0)..&*key(rows / 2)).unwrap(), u64::from(rows / 2));
        table.put("another", "row").unwrap();
        drop((table, db));
        let wrong = Options { memory_bytes: 1 << 20, ..options.clone() };
        for wrong in [wrong.clone(), Options { read_only: true, ..wrong }] {
            let Err(error) = Db::open(DIR, wrong) else { panic!("there are more rows than the memory holds") };
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            assert!(error.to_string().contains("open") && error.to_string().contains("`memory_bytes`"), "{error}");
        }
        let table = Db::open(DIR, options).unwrap().ensure_table("rows").unwrap();
        assert_eq!(table.count(..).unwrap(), u64::from(rows - rows / 2 + 1));
    }
}

#[test]
fn ascending_rows_that_filled_memory_are_accepted_again() {
    fill_and_reopen(|row| row.to_be_bytes().to_vec());
}

#[test]
fn rows_whose_keys_share_a_prefix_take_no_more_memory_after_a_restart() {
    fill_and_reopen(|row| [b"customer/eu-west/".as_slice(), &row.to_be_bytes()].concat());
}
