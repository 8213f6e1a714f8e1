//! Stories of defects that were found from outside.

use std::sync::Arc;

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{
    Action, Db, Durability, ErrorKind, Options, ReadableTable, TableOptions, Task, WritableTable, check, repair,
};

fn options(disk: &SimDisk) -> Options {
    Options { disk: Arc::new(disk.clone()), run_page_bytes: 256, ..Options::in_memory() }
}

fn runs(disk: &SimDisk) -> Vec<std::path::PathBuf> {
    disk.file_names().into_iter().filter(|name| name.to_string_lossy().contains("/run-")).collect()
}

fn open(disk: &SimDisk) -> quipu::Result<Db> {
    Db::open("/db", options(disk))
}

/// A file that has the name of another one is no part of the database: opening and checking say so, and repair tells
/// its rows as lost.
fn assert_is_refused(disk: &SimDisk, path: &std::path::Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let error = open(disk).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("another file"), "{error}");
    let report = check("/db", &options(disk), &mut |_| ()).unwrap();
    assert!(report.faults.iter().any(|fault| fault.contains(name)), "{:?}", report.faults);
    let report = repair("/db", &options(disk), &mut |_| ()).unwrap();
    assert!(report.lost.iter().any(|loss| loss.file == name), "{:?}", report.lost);
    open(disk).unwrap();
}

#[test]
fn two_upper_runs_of_a_table_that_were_changed_for_each_other_are_told_apart() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let table = db.table("t").unwrap();
    for value in [b"oldest", b"older ", b"newest"] {
        (0..50u32).for_each(|key| table.put(key.to_be_bytes(), value).unwrap());
        table.flush().unwrap();
    }
    drop((table, db));
    let names = runs(&disk);
    let (older, newest) = (&names[1], &names[2]);
    let (a, b) = (disk.read_file(older).unwrap(), disk.read_file(newest).unwrap());
    disk.write_file(older, b);
    disk.write_file(newest, a);
    assert_is_refused(&disk, older);
}

#[test]
fn a_run_of_another_history_of_the_same_database_is_told_apart() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.table("t").unwrap().put("a", "b").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let copy = disk.kill();
    for (disk, value) in [(&disk, "here"), (&copy, "else")] {
        let db = open(disk).unwrap();
        db.table("t").unwrap().put("a", value).unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    let names = runs(&disk);
    assert_eq!(names, runs(&copy), "the same name for other rows");
    disk.write_file(&names[0], copy.read_file(&names[0]).unwrap());
    assert_is_refused(&disk, &names[0]);
}

#[test]
fn a_damaged_page_does_not_stop_the_merges_of_other_tables() {
    let disk = SimDisk::new();
    let background = Options { background: true, memtable_bytes: 1 << 20, ..options(&disk) };
    let db = Db::open("/db", background).unwrap();
    let [bad, good] = ["bad", "good"].map(|name| db.table(name).unwrap());
    let flush = |table: &quipu::Table, number: u32| {
        (0..100u32).for_each(|key| table.put((100 * number + key).to_be_bytes(), [7; 30]).unwrap());
        table.flush().unwrap();
    };
    flush(&bad, 0);
    // Its first leaf, which nobody else asks for.
    let run = runs(&disk)[0].clone();
    disk.make_unreadable(&run, 40..100);
    for number in 1..40 {
        flush(&bad, number);
        flush(&good, number);
    }
    let stats_of = |name: &str| db.stats().tables.into_iter().find(|table| table.name == name).unwrap();
    let mut times = 0;
    // The run below takes part in nothing, and those above it are merged among themselves.
    while stats_of("good").runs > 8 || stats_of("bad").runs > 8 || db.stats().failures.is_empty() {
        times += 1;
        assert!(times < 3000, "{} and {} runs are left", stats_of("good").runs, stats_of("bad").runs);
        #[expect(clippy::disallowed_methods, reason = "nobody tells when a merge in the background is done")]
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let failures = db.stats().failures;
    assert!(failures.len() == 1 && failures[0].task == Task::Merge, "{failures:?}");
    assert_eq!(failures[0].table.as_deref(), Some("bad"));
    assert!(db.drop_table("bad").unwrap() && db.stats().failures.is_empty());
}

#[test]
fn a_blind_table_that_cannot_be_asked_does_not_stop_the_checkpoint_of_others() {
    let disk = SimDisk::new();
    let options = Options { memtable_bytes: 1 << 20, cache_bytes: 0, ..options(&disk) };
    let db = Db::open("/db", options).unwrap();
    let blind = db.create_table("blind", TableOptions { blind_writes: true, ..TableOptions::default() }).unwrap();
    let other = db.table("other").unwrap();
    (0..400u32).for_each(|key| blind.put(key.to_be_bytes(), [7; 30]).unwrap());
    blind.flush().unwrap();
    let run = runs(&disk)[0].clone();
    disk.make_unreadable(&run, 1000..2000);
    (0..400u32).for_each(|key| blind.put(key.to_be_bytes(), [8; 30]).unwrap());
    other.put("key", "value").unwrap();
    let error = db.checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    drop((blind, other));
    db.close().unwrap();
    // What a crash leaves has a readable disk again: nothing is lost, and the other table comes from its run.
    let disk = disk.crash_with(CrashMode::KeepAll, 0);
    assert_eq!(runs(&disk).len(), 2);
    let db = Db::open("/db", Options { memtable_bytes: 1 << 20, ..self::options(&disk) }).unwrap();
    assert_eq!(db.table("other").unwrap().len().unwrap(), 1);
    let blind = db.table("blind").unwrap();
    assert_eq!((blind.len().unwrap(), blind.get(7u32.to_be_bytes()).unwrap().unwrap()[0]), (400, 8));
    db.checkpoint().unwrap();
}

#[test]
fn a_panic_of_the_caller_in_an_edit_leaves_what_was_written_before_it() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let table = db.table("t").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut edit = db.latched_write().unwrap();
        edit.put(&table, b"a", b"1").unwrap();
        edit.update(&table, b"b", |_, _| -> Action { panic!("of the caller") }).unwrap();
    }));
    assert!(panicked.is_err());
    table.put("c", "3").unwrap();
    assert_eq!(table.range(..).map(|row| row.unwrap().key[0]).collect::<Vec<_>>(), b"ac");
    db.pending_commits().wait(Durability::Sync).unwrap();
    drop((table, db));
    assert_eq!(open(&disk.kill()).unwrap().table("t").unwrap().len().unwrap(), 2);
}

#[test]
fn a_closure_that_is_given_rows_of_a_transaction_can_read_on() {
    let db = open(&SimDisk::new()).unwrap();
    let [table, other] = ["t", "other"].map(|name| db.table(name).unwrap());
    (0..10u32).for_each(|key| table.put(key.to_be_bytes(), "value").unwrap());
    let transaction = db.begin();
    let rows = transaction.table(&table).unwrap();
    rows.put("own", "value").unwrap();
    let savepoint = transaction.savepoint();
    let (mut counts, mut refused) = (Vec::new(), Vec::new());
    rows.for_each(.., |key, _| {
        counts.push((rows.count(..).unwrap(), rows.get(key).unwrap().is_some(), rows.rank(key).unwrap()));
        counts.push((transaction.table(&other).unwrap().len().unwrap() + 11, true, counts.len() as u64));
        let errors = [rows.put("more", "value").unwrap_err(), transaction.rollback_to(savepoint).unwrap_err()];
        refused.extend(errors.map(|error| error.kind()));
        true
    })
    .unwrap();
    assert_eq!(counts.len(), 22);
    assert!(counts.iter().step_by(2).enumerate().all(|(rank, count)| *count == (11, true, rank as u64)), "{counts:?}");
    assert!(refused.iter().all(|kind| *kind == ErrorKind::Invalid));
    // What was read in the closure counts as read.
    other.put("key", "value").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_range_of_a_table_with_runs_is_removed_though_memory_is_full() {
    const ROWS: u32 = 100_000;
    let disk = SimDisk::new();
    let options = Options { memory_bytes: 4 << 20, memtable_bytes: 0, ..options(&disk) };
    let db = Db::open("/db", options).unwrap();
    let table = db.table("t").unwrap();
    for first in (0..ROWS).step_by(20_000) {
        let keys = first..first + 20_000;
        db.write(|tx| keys.clone().try_for_each(|key| tx.table(&table)?.put(key.to_be_bytes(), [7; 20]))).unwrap();
        table.flush().unwrap();
    }
    let full = (1_000_000u32..).find_map(|key| table.put(key.to_be_bytes(), [7; 100]).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::Full);
    assert_eq!(table.remove_range(..&ROWS.to_be_bytes()).unwrap(), u64::from(ROWS));
    assert_eq!(table.count(..&ROWS.to_be_bytes()).unwrap(), 0);
}

/// Long values lie twice in memory while a transaction is applied. One that has no room for that is refused before it
/// is logged, not half way.
#[test]
fn a_transaction_of_long_values_has_room_or_is_refused_before_it_is_logged() {
    let (mut fitting, mut refused) = (0, 0);
    for values in 1..50u32 {
        let options = Options { page_bytes: 256, memory_bytes: 3 << 20, background: false, ..Options::in_memory() };
        let db = Db::open("/db", options).unwrap();
        let table = db.table("t").unwrap();
        table.put("first", "value").unwrap();
        let value = vec![7; 70_002];
        let result = db.write(|tx| {
            let table = tx.table(&table)?;
            (0..values).try_for_each(|key| table.put(key.to_be_bytes(), &value))
        });
        let expected = match result {
            Ok(()) => 1 + u64::from(values),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{values}: {error}");
                1
            }
        };
        assert!(!db.stats().poisoned, "{values} values");
        assert_eq!(table.len().unwrap(), expected, "{values} values");
        table.put("second", "value").unwrap();
        fitting += u32::from(expected > 1);
        refused += u32::from(expected == 1);
    }
    assert!(fitting > 15 && refused > 5, "{fitting} fit, {refused} are refused");
}
