//! Goal: bad input and exhausted limits give an error of the right kind, whose message says what to do, and change
//! nothing. Method: a matrix of calls against limits, each through every way there is to make it.

use std::sync::Arc;

use crate::model_map::{self, open};
use quipu::io::RealDisk;
use quipu::io::sim::SimDisk;
use quipu::latched::Action;
use quipu::{
    Db, Durability, Error, ErrorKind, Options, ReadableTable, Result, Table, TableOptions, WritableTable, WriteBatch,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Fails unless the result is an error of this kind whose message has these words.
#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) {
    let Err(error) = result else { panic!("that was accepted; {kind:?} was expected") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "the message does not say {word:?}: {error}");
    }
}

/// All rows stay in memory, so that it can be filled.
fn options(disk: &SimDisk) -> Options {
    Options { memtable_bytes: 0, ..model_map::options(disk) }
}

fn with(change: impl FnOnce(&mut Options)) -> Db {
    let mut options = options(&SimDisk::new());
    change(&mut options);
    Db::open("/db", options).unwrap()
}

/// All ways to write a row.
fn writes(db: &Db, table: &Table, key: &[u8], value: &[u8]) -> Vec<Result<()>> {
    let mut batch = WriteBatch::new();
    batch.put(table, key, value);
    let optimistic = || {
        let transaction = db.begin();
        transaction.table(table)?.put(key, value)?;
        transaction.commit()
    };
    vec![
        table.put(key, value),
        table.insert(key, value),
        table.replace(key, value),
        db.apply(batch),
        db.write(|tx| tx.table(table)?.put(key, value)),
        db.write(|tx| tx.table(table)?.insert(key, value)),
        optimistic(),
    ]
}

/// A limit that is as high as it can be is not to be raised.
#[test]
fn a_key_over_the_highest_limit_is_only_to_be_shortened() {
    let refusal = |key_bytes_max: usize| {
        let table = with(|options| options.key_bytes_max = key_bytes_max).ensure_table("t").unwrap();
        table.put(vec![b'k'; key_bytes_max + 1], b"").unwrap_err().to_string()
    };
    assert!(refusal(100).ends_with("shorten it, or raise `key_bytes_max`, up to 65536"), "{}", refusal(100));
    assert!(refusal(64 << 10).ends_with("over the limit of 65536 bytes; shorten it"), "{}", refusal(64 << 10));
}

#[test]
fn keys_and_values_over_their_limits_are_refused() {
    let db = with(|options| (options.key_bytes_max, options.value_bytes_max) = (100, 1000));
    let table = db.ensure_table("t").unwrap();
    for result in writes(&db, &table, &[b'k'; 101], b"v") {
        refused(result, ErrorKind::Invalid, &["key", "101", "100", "`key_bytes_max`"]);
    }
    for result in writes(&db, &table, b"k", &[b'v'; 1001]) {
        refused(result, ErrorKind::Invalid, &["value", "1001", "1000", "`value_bytes_max`"]);
    }
    assert!(table.is_empty().unwrap());
    // A question about such a key has an answer.
    assert!(table.get([b'k'; 101]).unwrap().is_none());
    assert_eq!(table.rank([b'k'; 101]).unwrap(), 0);
    table.put([b'k'; 100], [b'v'; 1000]).unwrap();
    assert_eq!(table.count(&[b'k'; 101][..]..).unwrap(), 0);
    assert_eq!(table.remove_range(..=&[b'k'; 100][..]).unwrap(), 1);
}

#[test]
fn an_update_of_many_rows_tells_which_one_was_refused() {
    let db = with(|options| options.value_bytes_max = 100);
    let table = db.ensure_table("t").unwrap();
    let keys: Vec<[u8; 2]> = (0..200_u16).map(u16::to_be_bytes).collect();
    let mut latched = db.latched().write().unwrap();
    let result = latched.update_many(&table, &keys, |number, _, new| {
        new.resize(if number == 150 { 101 } else { 100 }, b'v');
        Action::Put
    });
    let Err((150, error)) = result else { panic!("{result:?}") };
    refused(Err::<(), _>(error), ErrorKind::Invalid, &["100"]);
    latched.commit().unwrap().wait(Durability::Sync).unwrap();
    assert_eq!(table.len().unwrap(), 150);
    assert_eq!(table.last().unwrap().unwrap().key[..], keys[149]);
}

#[test]
fn the_longest_key_and_a_large_value_come_back() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.ensure_table("t").unwrap();
    let (key, value) = (vec![0xFF; 64 << 10], vec![7; 3 << 20]);
    refused(table.put([&key[..], &[0]].concat(), ""), ErrorKind::Invalid, &["65536"]);
    table.put(&key, &value).unwrap();
    table.put("k", &value).unwrap();
    // The end of a closed range after the longest key is a longer one.
    assert_eq!(table.remove_range("l".as_bytes()..=&key[..]).unwrap(), 1);
    table.put(&key, &value).unwrap();
    db.checkpoint().unwrap();
    table.put("l", &value).unwrap();
    drop((table, db));
    let table = open(&disk).ensure_table("t").unwrap();
    assert_eq!(table.len().unwrap(), 3);
    for key in [b"k", b"l", &key[..]] {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

#[test]
fn names_and_annotations_over_their_limits_are_refused() {
    let disk = SimDisk::new();
    let db = open(&disk);
    for name in [String::new(), "n".repeat(257)] {
        refused(db.ensure_table(&name), ErrorKind::Invalid, &["1 to 256 bytes"]);
        refused(db.open_table(&name), ErrorKind::Invalid, &["1 to 256 bytes"]);
        refused(db.table(&name), ErrorKind::Invalid, &["1 to 256 bytes"]);
        refused(db.create_table(&name, TableOptions::default()), ErrorKind::Invalid, &["1 to 256 bytes"]);
    }
    let annotated = |bytes: usize| TableOptions { metadata: vec![b'a'; bytes], ..TableOptions::default() };
    refused(db.create_table("t", annotated((1 << 20) + 1)), ErrorKind::Invalid, &["metadata", "1048577", "1048576"]);
    let commented = TableOptions { comment: "c".repeat((1 << 20) + 1), ..TableOptions::default() };
    refused(db.create_table("t", commented), ErrorKind::Invalid, &["comment", "1048577", "1048576"]);
    // A name that is mistyped made a table, and committed it.
    refused(db.table("mistyped"), ErrorKind::Missing, &["mistyped"]);
    assert!(db.tables().is_empty());
    let name = "n".repeat(256);
    db.create_table(&name, annotated(1 << 20)).unwrap();
    refused(db.create_table(&name, TableOptions::default()), ErrorKind::Exists, &["open it or choose another name"]);
    db.close().unwrap();
    assert_eq!(open(&disk).ensure_table(&name).unwrap().metadata().len(), 1 << 20);
}

#[test]
fn a_transaction_over_its_limit_is_refused_and_rolled_back() {
    let db = with(|options| options.transaction_bytes_max = 10_000);
    let table = db.ensure_table("t").unwrap();
    let fill = |tx: &quipu::Transaction| {
        let table = tx.table(&table)?;
        (0..11u32).try_for_each(|number| table.put(number.to_be_bytes(), [0; 996]))
    };
    refused(db.write(fill), ErrorKind::Invalid, &["10000", "parts", "`transaction_bytes_max`"]);
    assert!(table.is_empty().unwrap());
    let transaction = db.begin();
    refused(fill(&transaction), ErrorKind::Invalid, &["10000"]);
    // What it wrote before is still there, and can be committed.
    assert_eq!(transaction.table(&table).unwrap().len().unwrap(), 10);
    transaction.commit().unwrap();
    assert_eq!(table.len().unwrap(), 10);
    // What is rolled back to a savepoint does not count any more.
    let transaction = db.begin();
    for _ in 0..5 {
        let savepoint = transaction.savepoint();
        transaction.table(&table).unwrap().put("long", [0; 9_000]).unwrap();
        transaction.rollback_to(savepoint).unwrap();
    }
    transaction.table(&table).unwrap().put("long", [1; 9_000]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(table.get("long").unwrap().unwrap().len(), 9_000);
}

/// Fills a table until memory is full. Returns how many rows it took.
fn fill(table: &Table) -> u32 {
    for number in 0u32.. {
        if let Err(error) = table.put(number.to_be_bytes(), [number as u8; 20]) {
            refused(Err::<(), Error>(error), ErrorKind::Full, &["remove rows", "`memory_bytes`"]);
            return number;
        }
    }
    unreachable!("memory has a limit")
}

#[test]
fn a_full_memory_can_be_read_emptied_and_used_again() {
    let disk = SimDisk::new();
    let small = || Options { memory_bytes: 1 << 20, ..options(&disk) };
    let db = Db::open("/db", small()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let rows = fill(&table);
    assert!(rows > 5000, "{rows} rows are in a MiB");
    assert!(db.stats().memory_bytes() < 2 << 20);
    for result in writes(&db, &table, b"large", &[0; 100_000]) {
        let kind = result.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Full | ErrorKind::Missing), "{kind:?}");
    }
    // Readable.
    assert_eq!(table.len().unwrap(), u64::from(rows));
    assert_eq!(table.range(..).count() as u32, rows);
    assert_eq!(table.rank(1000u32.to_be_bytes()).unwrap(), 1000);
    // Removable, also while a snapshot keeps all pages: as long as the copies take half of the limit.
    let snapshot = db.snapshot();
    let half = rows / 4 * 2;
    for number in (0..half).step_by(2) {
        assert!(table.remove(number.to_be_bytes()).unwrap());
    }
    assert_eq!(snapshot.table(&table).unwrap().len().unwrap(), u64::from(rows));
    drop(snapshot);
    assert_eq!(table.remove_range(&1000u32.to_be_bytes()..).unwrap(), u64::from(rows - 1000 - (half - 1000) / 2));
    assert_eq!(table.len().unwrap(), 500);
    // Usable.
    for number in 0..1000u32 {
        table.put(number.to_be_bytes(), "again").unwrap();
    }
    db.write(|tx| tx.table(&table)?.remove_range(&500u32.to_be_bytes()..).map(|rows| assert_eq!(rows, 500))).unwrap();
    db.checkpoint().unwrap();
    drop((table, db));
    let db = Db::open("/db", small()).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), 500);
}

#[test]
fn a_transaction_too_large_for_memory_changes_nothing() {
    let db = with(|options| options.memory_bytes = 1 << 20);
    let table = db.ensure_table("t").unwrap();
    table.put("kept", "").unwrap();
    let result = db.write(|tx| {
        let table = tx.table(&table)?;
        (0..1_000_000u32).try_for_each(|number| table.put(number.to_be_bytes(), [0; 20]))
    });
    refused(result, ErrorKind::Full, &["`memory_bytes`"]);
    assert_eq!(table.len().unwrap(), 1);
    assert!(db.stats().memory_bytes() < 10_000, "the private layer was kept");
    table.put("works", "").unwrap();
}

/// Many removals in one commit copy the pages that readers look at: near the limit, that must be refused before it is
/// logged, or work.
#[test]
fn a_large_removal_near_the_limit_works_or_is_refused() {
    let db = with(|options| options.memory_bytes = 8 << 20);
    let table = db.ensure_table("t").unwrap();
    let rows = fill(&table);
    // A part is freed, so that the transaction has room for what it notes.
    let kept = rows / 4 * 3;
    table.remove_range(&kept.to_be_bytes()..).unwrap();
    let result = db.write(|tx| {
        let table = tx.table(&table)?;
        (0..kept).step_by(3).try_for_each(|number| table.remove(number.to_be_bytes()).map(|_| ()))
    });
    match result {
        Ok(()) => assert_eq!(table.len().unwrap(), u64::from(kept - kept.div_ceil(3))),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Full);
            assert_eq!(table.len().unwrap(), u64::from(kept));
        }
    }
    table.remove_range(..).unwrap();
    table.put("works", "").unwrap();
    assert_eq!(table.len().unwrap(), 1);
}

/// Merging layers takes memory: if there is none, all answers stay as they are.
#[test]
fn thawing_when_memory_is_full_changes_no_tally() {
    let db = with(|options| options.memory_bytes = 1 << 20);
    let table = db.ensure_table("t").unwrap();
    for number in 0..2000u32 {
        table.put((number * 2).to_be_bytes(), "below").unwrap();
    }
    table.freeze().unwrap();
    let mut rows = 2000;
    for number in 0u32.. {
        let fresh = number >= 4000 || number % 2 == 1;
        match table.put(u32::to_be_bytes(number), [0; 20]) {
            Ok(()) => rows += u64::from(fresh),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full);
                break;
            }
        }
    }
    assert_eq!(table.len().unwrap(), rows);
    if let Err(error) = table.thaw() {
        assert_eq!(error.kind(), ErrorKind::Full);
    }
    assert_eq!(table.len().unwrap(), rows);
    assert_eq!(table.range(..).count() as u64, rows);
    assert_eq!(table.rank(1000u32.to_be_bytes()).unwrap(), 1000);
}

#[test]
fn a_read_only_database_refuses_writes() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.ensure_table("t").unwrap().put("k", "v").unwrap();
    db.close().unwrap();
    let db = Db::open("/db", Options { read_only: true, ..options(&disk) }).unwrap();
    let steps = disk.steps();
    let table = db.ensure_table("t").unwrap();
    for result in writes(&db, &table, b"a", b"b") {
        refused(result, ErrorKind::ReadOnly, &["open it for writing"]);
    }
    refused(table.remove("k"), ErrorKind::ReadOnly, &["open it for writing"]);
    refused(table.remove_range(..), ErrorKind::ReadOnly, &[]);
    refused(db.ensure_table("new"), ErrorKind::ReadOnly, &["open it for writing"]);
    refused(db.create_table("new", TableOptions::default()), ErrorKind::ReadOnly, &[]);
    refused(db.drop_table("t"), ErrorKind::ReadOnly, &[]);
    refused(db.checkpoint(), ErrorKind::ReadOnly, &[]);
    refused(db.sync(), ErrorKind::ReadOnly, &[]);
    let transaction = db.begin();
    assert_eq!(transaction.table(&table).unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
    transaction.commit().unwrap();
    assert_eq!(db.snapshot().table(&table).unwrap().len().unwrap(), 1);
    assert_eq!(table.count(..).unwrap(), 1);
    drop(table);
    db.close().unwrap();
    assert_eq!(disk.steps(), steps, "something was written");
}

#[test]
fn a_table_of_another_database_is_refused() {
    let (mine, other) = (open(&SimDisk::new()), open(&SimDisk::new()));
    let (table, foreign) = (mine.ensure_table("t").unwrap(), other.ensure_table("foreign").unwrap());
    let words = &["\"foreign\"", "another open database"];
    refused(mine.snapshot().table(&foreign).map(|_| ()), ErrorKind::Invalid, words);
    refused(mine.begin().table(&foreign).map(|_| ()), ErrorKind::Invalid, words);
    refused(mine.write(|tx| tx.table(&foreign).map(|_| ())), ErrorKind::Invalid, words);
    let mut batch = WriteBatch::new();
    batch.put(&table, "mine", "");
    batch.put(&foreign, "theirs", "");
    refused(mine.apply(batch), ErrorKind::Invalid, words);
    assert!(table.is_empty().unwrap() && foreign.is_empty().unwrap(), "a batch is applied as a whole or not at all");
}

#[test]
fn handles_of_a_dropped_table_say_so() {
    let db = open(&SimDisk::new());
    let table = db.ensure_table("t").unwrap();
    table.put("k", "v").unwrap();
    let (snapshot, transaction) = (db.snapshot(), db.begin());
    transaction.table(&table).unwrap().put("l", "v").unwrap();
    let mut walk = table.range(..);
    assert!(db.drop_table("t").unwrap());
    assert!(!db.drop_table("t").unwrap());
    let again = db.ensure_table("t").unwrap();
    let missing = |result: Result<()>| refused(result, ErrorKind::Missing, &["drop"]);
    missing(table.get("k").map(|_| ()));
    missing(table.count(..).map(|_| ()));
    missing(table.put("k", "v"));
    missing(table.remove("k").map(|_| ()));
    missing(table.remove_range(..).map(|_| ()));
    missing(table.first().map(|_| ()));
    missing(db.snapshot().table(&table).map(|_| ()));
    missing(db.begin().table(&table).map(|_| ()));
    missing(db.write(|tx| tx.table(&table).map(|_| ())));
    missing(transaction.commit());
    missing(table.freeze().or_else(|_| table.get("k").map(|_| ())));
    assert_eq!(table.name(), "t");
    // What began before goes on.
    assert_eq!(snapshot.table(&table).unwrap().len().unwrap(), 1);
    assert_eq!(walk.next().unwrap().unwrap().value, quipu::bytes::Value::from(&b"v"[..]));
    drop(walk);
    assert!(again.is_empty().unwrap(), "a table of the same name is another one");
}

#[test]
fn a_directory_in_use_is_busy() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let words = &["/db", "open in another process", "stop that one"];
    refused(Db::open("/db", options(&disk)), ErrorKind::Busy, words);
    refused(Db::open("/db", Options { read_only: true, ..options(&disk) }), ErrorKind::Busy, words);
    refused(quipu::files::check("/db", &options(&disk), &mut |_| ()), ErrorKind::Busy, &["/db", "stop it first"]);
    Db::open("/elsewhere", options(&disk)).unwrap();
    // A table keeps the database open, and so does a snapshot.
    let table = db.ensure_table("t").unwrap();
    db.close().unwrap();
    refused(Db::open("/db", options(&disk)), ErrorKind::Busy, words);
    table.put("still", "open").unwrap();
    drop(table);
    assert_eq!(open(&disk).ensure_table("t").unwrap().len().unwrap(), 1);
}

#[test]
fn those_who_only_read_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let open = |read_only: bool| {
        let disk = Arc::new(RealDisk);
        Db::open(directory.path(), Options { disk, read_only, ..options(&SimDisk::new()) })
    };
    let db = open(false).unwrap();
    db.ensure_table("t").unwrap().put("k", "v").unwrap();
    refused(open(true), ErrorKind::Busy, &["open in another process"]);
    drop(db);
    let readers = [open(true).unwrap(), open(true).unwrap()];
    for reader in &readers {
        assert_eq!(reader.ensure_table("t").unwrap().len().unwrap(), 1);
    }
    refused(open(false), ErrorKind::Busy, &["open in another process"]);
    drop(readers);
    open(false).unwrap().ensure_table("t").unwrap().put("k", "w").unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file that no disk of the engine would make")]
fn a_missing_database_is_not_made_when_that_was_not_asked() {
    let directory = tempfile::tempdir().unwrap();
    let real = |create: bool, read_only: bool| Options {
        disk: Arc::new(RealDisk),
        create,
        read_only,
        ..options(&SimDisk::new())
    };
    let missing = directory.path().join("missing");
    for (create, read_only) in [(false, false), (true, true), (false, true)] {
        refused(Db::open(&missing, real(create, read_only)), ErrorKind::Missing, &["missing"]);
        assert!(!missing.exists());
        let words = &["there is no database in", "`create`"];
        refused(Db::open(directory.path(), real(create, read_only)), ErrorKind::Missing, words);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a file was made");
    }
    refused(quipu::files::check(&missing, &real(false, false), &mut |_| ()), ErrorKind::Missing, &["missing"]);
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    refused(Db::open(&file, real(true, false)), ErrorKind::Io, &["file"]);
    // With `create`, all parents are made.
    drop(Db::open(directory.path().join("a/b/c"), real(true, false)).unwrap());
    drop(Db::open(directory.path().join("a/b/c"), real(false, false)).unwrap());
}

#[test]
fn options_out_of_their_limits_are_refused() {
    type Change = fn(&mut Options);
    let changes: [(&str, &[Change]); 5] = [
        (
            "`page_bytes`",
            &[|o| o.page_bytes = 0, |o| o.page_bytes = 128, |o| o.page_bytes = 300, |o| o.page_bytes = 65536],
        ),
        ("`run_page_bytes`", &[|o| o.run_page_bytes = 0, |o| o.run_page_bytes = 255, |o| o.run_page_bytes = 1 << 20]),
        ("64 KiB", &[|o| o.key_bytes_max = (64 << 10) + 1, |o| o.value_bytes_max = (1 << 30) + 1]),
        (
            "`log_segment_bytes`",
            &[
                |o| o.log_segment_bytes = 0,
                |o| o.log_segment_bytes = 4096,
                |o| o.log_segment_bytes = 8193,
                |o| o.log_segment_bytes = 2 << 30,
            ],
        ),
        ("`memory_bytes`", &[|o| o.memory_bytes = 0, |o| o.memory_bytes = (1 << 20) - 1]),
    ];
    for (words, changes) in changes {
        for change in changes {
            let disk = SimDisk::new();
            let mut options = options(&disk);
            change(&mut options);
            refused(Db::open("/db", options), ErrorKind::Invalid, &[words]);
            assert!(disk.file_names().is_empty(), "files were made before the options were checked");
        }
    }
    // The ends of the limits work.
    for page_bytes in [256, 32768] {
        let db = with(|o| (o.page_bytes, o.run_page_bytes, o.log_segment_bytes) = (page_bytes, page_bytes, 8192));
        let table = db.ensure_table("t").unwrap();
        (0..500u32).for_each(|number| table.put(number.to_be_bytes(), [1; 40]).unwrap());
        db.checkpoint().unwrap();
        assert_eq!(table.len().unwrap(), 500);
    }
}

#[test]
fn a_quantile_out_of_range_is_refused() {
    let db = open(&SimDisk::new());
    let table = db.ensure_table("t").unwrap();
    for q in [-f64::EPSILON, 1.0 + f64::EPSILON, f64::NAN, f64::NEG_INFINITY] {
        refused(table.quantile(.., q), ErrorKind::Invalid, &["from 0 to 1"]);
        refused(db.snapshot().table(&table).unwrap().quantile(.., q), ErrorKind::Invalid, &["from 0 to 1"]);
    }
    assert!(table.quantile(.., 0.5).unwrap().is_none());
    assert!(table.nth(.., u64::MAX).unwrap().is_none());
    assert!(table.sample(.., usize::MAX, &mut StdRng::seed_from_u64(1)).unwrap().is_empty());
    assert!(table.split_points(.., usize::MAX).unwrap().is_empty());
    assert_eq!(table.page(.., u64::MAX, usize::MAX).unwrap().total, 0);
}

/// A checkpoint that waits for the writer's turn must not keep that writer, who asks for one too, waiting for it.
#[test]
fn a_checkpoint_asked_for_inside_a_write_never_waits_for_another() {
    let db = open(&SimDisk::new());
    let table = db.ensure_table("t").unwrap();
    std::thread::scope(|scope| {
        db.write(|tx| {
            tx.table(&table)?.put("k", "v")?;
            let other = scope.spawn(|| db.checkpoint());
            // Time for the other to be waiting; if it is not yet, the test passes all the same.
            (0..1000).for_each(|_| std::thread::yield_now());
            refused(db.checkpoint(), ErrorKind::Invalid, &["transaction"]);
            assert_eq!(db.stats().checkpoint, 0);
            Ok(other)
        })
        .unwrap()
        .join()
        .unwrap()
        .unwrap();
    });
    assert_ne!(db.stats().checkpoint, 0);
}

/// While a snapshot sees all pages, removals copy them. Once there is no room for copies that is said, and when the
/// snapshot ends they work again.
#[test]
fn removals_under_a_snapshot_stop_before_memory_ends() {
    let db = with(|options| options.memory_bytes = 8 << 20);
    let table = db.ensure_table("t").unwrap();
    let rows = fill(&table);
    let snapshot = db.snapshot();
    // Every sixth row, so that every removal meets another page.
    let scattered = (0..6).flat_map(|first| (first..rows).step_by(6));
    let mut removed = 0;
    let error = scattered.clone().find_map(|number| {
        let result = table.remove(number.to_be_bytes());
        removed += u64::from(result.is_ok());
        result.err()
    });
    refused(error.map_or(Ok(()), Err), ErrorKind::Full, &["snapshots", "remove fewer rows"]);
    assert_eq!(table.len().unwrap(), u64::from(rows) - removed);
    assert_eq!(snapshot.table(&table).unwrap().range(..).count() as u32, rows);
    drop(snapshot);
    for number in scattered.skip(removed as usize) {
        assert!(table.remove(number.to_be_bytes()).unwrap());
    }
    table.put("works", "").unwrap();
}

/// A restart fills pages differently, so a full database may need more memory than it had: then it says so, and opens
/// with more.
#[test]
fn a_full_database_opens_again() {
    let disk = SimDisk::new();
    let sized = |memory_bytes| Options { memory_bytes, ..options(&disk) };
    let db = Db::open("/db", sized(8 << 20)).unwrap();
    let rows = fill(&db.ensure_table("t").unwrap());
    drop(db);
    for checkpoint in [false, true] {
        let db = Db::open("/db", sized(8 << 20)).unwrap();
        assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), u64::from(rows), "checkpoint {checkpoint}");
        db.checkpoint().unwrap();
    }
}

/// Once a long scan held two megabytes of each run, whatever their number.
#[test]
fn a_scan_holds_a_few_megabytes_however_many_runs_there_are() {
    const RUNS: u32 = 30;
    let db = open(&SimDisk::new());
    let table = db.ensure_table("t").unwrap();
    for run in 0..RUNS {
        for number in 0..800 {
            table.put((RUNS * number + run).to_be_bytes(), [1; 1000]).unwrap();
        }
        table.flush().unwrap();
    }
    assert_eq!(db.stats().tables[0].runs, RUNS as usize);
    let (mut rows, mut most) = (0, 0);
    table
        .for_each(.., |_, _| {
            rows += 1;
            if rows % 16 == 0 {
                most = most.max(db.stats().lent_bytes);
            }
            true
        })
        .unwrap();
    assert_eq!(rows, 800 * RUNS);
    assert!((1 << 20..12 << 20).contains(&most), "{most} bytes of 24 million");
    assert_eq!(db.stats().lent_bytes, 0);
}
