//! Stories of defects that were found from outside.

use std::sync::Arc;

use quipu::files::{check, repair};
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::latched::Action;
use quipu::stats::Task;
use quipu::{Db, Durability, ErrorKind, Options, ReadableTable, TableOptions, WritableTable};

fn options(disk: &SimDisk) -> Options {
    Options { disk: Arc::new(disk.clone()), run_page_bytes: 256, ..Options::without_files() }
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
    let table = db.ensure_table("t").unwrap();
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
    db.ensure_table("t").unwrap().put("a", "b").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let copy = disk.kill();
    for (disk, value) in [(&disk, "here"), (&copy, "else")] {
        let db = open(disk).unwrap();
        db.ensure_table("t").unwrap().put("a", value).unwrap();
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
    let [bad, good] = ["bad", "good"].map(|name| db.ensure_table(name).unwrap());
    let flush = |table: &quipu::Table, number: u32| {
        (0..100u32).for_each(|key| table.put((100 * number + key).to_be_bytes(), [7; 30]).unwrap());
        table.flush().unwrap();
    };
    flush(&bad, 0);
    // Its first leaf, which no other reader asks for.
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
    let other = db.ensure_table("other").unwrap();
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
    assert_eq!(db.ensure_table("other").unwrap().len().unwrap(), 1);
    let blind = db.ensure_table("blind").unwrap();
    assert_eq!((blind.len().unwrap(), blind.get(7u32.to_be_bytes()).unwrap().unwrap()[0]), (400, 8));
    db.checkpoint().unwrap();
}

#[test]
fn a_panic_of_the_caller_in_an_edit_leaves_what_was_written_before_it() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let table = db.ensure_table("t").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut latched = db.latched().write().unwrap();
        latched.put(&table, b"a", b"1").unwrap();
        latched.update(&table, b"b", |_, _| -> Action { panic!("of the caller") }).unwrap();
    }));
    assert!(panicked.is_err());
    table.put("c", "3").unwrap();
    assert_eq!(table.range(..).map(|row| row.unwrap().key[0]).collect::<Vec<_>>(), b"ac");
    db.pending_commits().wait(Durability::Sync).unwrap();
    drop((table, db));
    assert_eq!(open(&disk.kill()).unwrap().ensure_table("t").unwrap().len().unwrap(), 2);
}

#[test]
fn a_closure_that_is_given_rows_of_a_transaction_can_read_on() {
    let db = open(&SimDisk::new()).unwrap();
    let [table, other] = ["t", "other"].map(|name| db.ensure_table(name).unwrap());
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
    let table = db.ensure_table("t").unwrap();
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
        let options = Options { page_bytes: 256, memory_bytes: 3 << 20, background: false, ..Options::without_files() };
        let db = Db::open("/db", options).unwrap();
        let table = db.ensure_table("t").unwrap();
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

/// A table in memory has taken all memory: tombstones for few rows of a table on disk find no room in it.
#[test]
fn a_range_of_few_rows_is_removed_though_another_table_has_filled_memory() {
    let disk = SimDisk::new();
    let db = Db::open("/db", Options { memory_bytes: 2 << 20, memtable_bytes: 2 << 20, ..options(&disk) }).unwrap();
    let table = db.ensure_table("disk").unwrap();
    table.ingest((0..2000u32).map(|key| (key.to_be_bytes(), [1; 100]))).unwrap();
    let memory = db.create_table("memory", TableOptions { in_memory: true, ..TableOptions::default() }).unwrap();
    let full = (0u64..).find_map(|key| memory.put(key.to_be_bytes(), [2; 300]).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::Full);
    let mut left = 2000;
    for (number, rows) in [1u32, 2, 10, 100, 255, 256].into_iter().enumerate() {
        let (low, high) = ((number as u32 * 300).to_be_bytes(), (number as u32 * 300 + rows).to_be_bytes());
        assert_eq!(table.remove_range(&low..&high).unwrap(), u64::from(rows));
        left -= u64::from(rows);
        assert_eq!((table.len().unwrap(), table.count(&low..&high).unwrap()), (left, 0));
    }
    let mut latched = db.latched().write().unwrap();
    let mut faults = quipu::latched::PageFaults::default();
    let (low, high) = (1990u32.to_be_bytes(), 1993u32.to_be_bytes());
    let removed = loop {
        match latched.remove_range(&table, &low..&high) {
            Err(error) if error.kind() == ErrorKind::PageFault => {
                latched.take_faults(&mut faults);
                drop(latched);
                db.latched().load(&mut faults).unwrap();
                latched = db.latched().write().unwrap();
                latched.lend(&faults);
            }
            removed => break removed.unwrap(),
        }
    };
    assert_eq!(removed, 3);
    latched.commit().unwrap().wait(Durability::Os).unwrap();
    drop((table, memory, db));
    let db = open(&disk.kill()).unwrap();
    assert_eq!(db.open_table("disk").unwrap().unwrap().len().unwrap(), left - 3);
}

/// An option that sounds right, set alone: memory for rows on their way to disk is a part of all memory.
#[test]
fn less_memory_than_the_default_for_rows_in_memory_writes_rows_to_disk() {
    for in_memory_bytes in [0, 2 << 20] {
        let disk = SimDisk::new();
        let memory_bytes = (4 << 20) + in_memory_bytes;
        let options = Options { memory_bytes, memtable_bytes: 1 << 30, ..options(&disk) };
        let db = Db::open("/db", options).unwrap();
        let in_memory = db.create_table("in memory", TableOptions { in_memory: true, ..Default::default() }).unwrap();
        (0..in_memory_bytes / 512).for_each(|key| in_memory.put(key.to_be_bytes(), [3; 400]).unwrap());
        let table = db.ensure_table("t").unwrap();
        for key in 0..40_000u64 {
            table.put(key.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), [1; 400]).unwrap();
        }
        assert_eq!(table.len().unwrap(), 40_000);
        assert!(db.stats().memory_bytes() <= memory_bytes);
    }
}

/// A removal of few rows writes a tombstone for each, and looked for each in all runs after it had written those
/// before.
#[test]
fn a_latched_removal_of_a_range_lacks_pages_before_it_has_removed_a_row() {
    let disk = SimDisk::new();
    let db = Db::open("/db", Options { cache_bytes: 0, memtable_bytes: 1 << 20, ..options(&disk) }).unwrap();
    let table = db.ensure_table("t").unwrap();
    for run in 0..4u32 {
        let keys = (0..1500u32).filter(|key| (key * 7 + key / 13) % 4 == run);
        db.write(|tx| keys.clone().try_for_each(|key| tx.table(&table)?.put(key.to_be_bytes(), [run as u8; 40])))
            .unwrap();
        table.flush().unwrap();
    }
    let mut lacked = 0;
    for first in (0..1400u32).step_by(100) {
        let (low, high) = (first.to_be_bytes(), (first + 60).to_be_bytes());
        let there = table.count(&low..&high).unwrap();
        let mut faults = quipu::latched::PageFaults::default();
        loop {
            let mut latched = db.latched().write().unwrap();
            latched.lend(&faults);
            let removed = latched.remove_range(&table, &low..&high);
            latched.take_faults(&mut faults);
            drop(latched);
            match removed {
                Ok(rows) => break assert_eq!(rows, there),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PageFault);
                    assert_eq!(table.count(&low..&high).unwrap(), there, "at {first}");
                    db.latched().load(&mut faults).unwrap();
                    lacked += 1;
                }
            }
        }
        assert_eq!(table.count(&low..&high).unwrap(), 0);
    }
    assert!(lacked >= 14, "{lacked}");
}

/// `Full` says that nothing was done and that the same may be done later. After a failed sync neither is so.
#[test]
fn a_sync_that_fails_for_lack_of_space_is_not_told_as_a_refusal() {
    let mut met = 0;
    for step in 1..60 {
        let disk = SimDisk::new();
        let options = Options { durability: Durability::Sync, log_segment_bytes: 8192, ..options(&disk) };
        let db = Db::open("/db", options).unwrap();
        let table = db.ensure_table("t").unwrap();
        table.put("a", "1").unwrap();
        disk.fail_at(disk.steps() + step, std::io::ErrorKind::StorageFull);
        for number in 0..40u32 {
            let before = table.get("b").unwrap();
            let Err(error) = table.put("b", number.to_be_bytes().repeat(100)) else { continue };
            if error.kind() == ErrorKind::Full {
                assert_eq!(table.get("b").unwrap(), before, "step {step}");
                table.put("c", "1").unwrap();
            } else {
                assert!(error.kind() == ErrorKind::Poisoned && error.to_string().contains("space"), "{error:?}");
                met += 1;
            }
            break;
        }
    }
    assert!(met > 5, "{met}");
}
