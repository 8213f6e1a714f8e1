//! Goal: when the disk refuses, the call that met it says so, nothing is acknowledged that is not so, reads go on, and
//! a reopened database is a prefix of its history with everything acknowledged. Method: run a seeded workload on
//! `io::sim`, make step n fail, look at memory, go on if the database does, reopen on what a kill and crashes leave.
//! Then, by hand, the cases that have a name: a full disk, a failed fsync, a failed checkpoint. Replay: SEED=...
//! STEP=... cargo test -p quipu --test all faults::

use crate::crash_support::{
    DIR, History, Work, assert_no_orphans, assert_sound, options, script, verify, with_seeds, with_steps,
};
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, Durability, Error, ErrorKind, Options, ReadableTable, Table, WritableTable};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::io;

const LENGTH: usize = 40;
const STRIDE: u64 = 12;

/// The error names the cause: it is not that of a call that came later.
fn assert_specific(error: &Error, kind: io::ErrorKind) {
    let expected: &[ErrorKind] = match kind {
        // Of a sync that failed; else nothing was done.
        io::ErrorKind::StorageFull => &[ErrorKind::Full, ErrorKind::Poisoned],
        _ => &[ErrorKind::Io],
    };
    assert!(expected.contains(&error.kind()), "{error:?}");
    assert!(error.to_string().contains(DIR), "it names no file: {error}");
}

/// Whether the log has stopped. Then nothing is acknowledged in any way, and the message says what to do.
fn is_poisoned(db: &Db) -> bool {
    match db.sync() {
        Ok(()) => false,
        Err(error) => {
            let mut errors = vec![error];
            let sequence = db.stats().sequence;
            for durability in [Durability::Sync, Durability::Os, Durability::None] {
                for table in db.tables() {
                    errors.extend(db.write_with(durability, |tx| tx.table(&table)?.put("poison", "p")).err());
                    let tx = db.begin();
                    tx.table(&table).unwrap().put("poison", "p").unwrap();
                    errors.extend(tx.commit_with(durability).err());
                }
            }
            assert_eq!(errors.len(), 1 + 6 * db.tables().len(), "a poisoned log has acknowledged something");
            errors.extend(db.checkpoint().err());
            errors.extend(db.create_table("poison", Default::default()).err());
            assert_eq!(errors.len(), 3 + 6 * db.tables().len());
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
                assert!(error.to_string().contains("reopen"), "{error}");
            }
            assert_eq!(db.stats().sequence, sequence);
            true
        }
    }
}

/// What a kill and what crashes leave opens, with everything that was promised.
fn assert_reopens(disk: &SimDisk, history: &History, seed: u64) {
    let left = [
        (disk.kill(), history.synced),
        (disk.crash_with(CrashMode::LoseAll, 0), history.synced),
        (disk.crash_with(CrashMode::KeepAll, 0), history.synced),
        (disk.crash(seed), history.synced),
    ];
    for (found, at_least) in left {
        let mut history = history.clone();
        let db = Db::open(DIR, options(&found)).unwrap();
        history.verify_opened(&db, at_least);
        assert_no_orphans(&found);
        db.ensure_table("after").unwrap().put("k", "v").unwrap();
        db.checkpoint().unwrap();
        drop(db);
        assert_sound(&found);
        let found = found.crash_with(CrashMode::LoseAll, 0);
        let db = Db::open(DIR, options(&found)).unwrap();
        assert_eq!(db.open_table("after").unwrap().unwrap().len().unwrap(), 1);
    }
}

fn fail_once(seed: u64, step: u64, kind: io::ErrorKind) {
    let random = &mut StdRng::seed_from_u64(seed);
    let disk = SimDisk::new();
    disk.fail_at(step, kind);
    let mut work = Work::new(&disk);
    if let Err(error) = work.open(random) {
        assert_specific(&error, kind);
        work.open(random).expect("an opening that failed can be tried again");
    }
    let mut failed = false;
    for _ in 0..LENGTH {
        let Err(error) = work.step(random) else { continue };
        assert!(!failed, "one fault, two errors: {error}");
        failed = true;
        assert_specific(&error, kind);
        let Some(db) = work.db.take() else {
            work.open(random).expect("an opening that failed can be tried again");
            continue;
        };
        work.history.after_failure(&db);
        if is_poisoned(&db) {
            verify(&db, work.history.last());
            drop(db);
            break;
        }
        work.history.synced = work.history.images.len() - 1;
        work.history.acknowledged = work.history.synced;
        verify(&db, work.history.last());
        // The database goes on, checkpoints included.
        db.checkpoint().expect("nothing fails any more");
        assert_no_orphans(&disk);
        work.db = Some(db);
        assert_reopens(&disk, &work.history, seed ^ step << 8);
    }
    drop(work.db.take());
    assert_reopens(&disk, &work.history, seed ^ step);
}

#[test]
fn any_step_may_fail() {
    with_seeds(12, |seed| {
        let disk = SimDisk::new();
        let mut work = Work::new(&disk);
        script(&mut work, seed, LENGTH).unwrap();
        drop(work);
        with_steps(disk.steps(), seed, STRIDE, |step| {
            for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
                fail_once(seed, step, kind);
            }
        });
    });
}

fn fresh() -> (SimDisk, Db, Table) {
    let disk = SimDisk::new();
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    (disk, db, table)
}

/// The steps of a checkpoint, each failing in turn, and the next checkpoint after it: whatever the first left, the
/// second and a reopening cope.
#[test]
fn a_failed_checkpoint_harms_nothing() {
    let steps = {
        let (disk, db, table) = fresh();
        fill_and_checkpoint(&db, &table);
        let before = disk.steps();
        db.checkpoint().unwrap();
        disk.steps() - before
    };
    assert!(steps > 5);
    for step in 0..steps {
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            for again in 0..2 {
                let (disk, db, table) = fresh();
                let kept = db.ensure_table("kept").unwrap();
                kept.put("k", "v").unwrap();
                fill_and_checkpoint(&db, &table);
                let before = table.tally(..).unwrap();
                disk.fail_at(disk.steps() + step, kind);
                let failed = db.checkpoint().is_err();
                assert_eq!(db.stats().checkpoint_failure.is_some(), failed);
                table.put("zz", "z").or_else(|error| if is_poisoned(&db) { Ok(()) } else { Err(error) }).unwrap();
                let after = table.tally(..).unwrap();
                if again == 1 && !is_poisoned(&db) {
                    db.checkpoint().unwrap();
                    assert_no_orphans(&disk);
                    assert_eq!(db.stats().checkpoint_failure, None);
                }
                drop((db, table, kept));
                for found in [disk.kill(), disk.crash_with(CrashMode::LoseAll, 0), disk.crash(step)] {
                    let db = Db::open(DIR, options(&found)).unwrap();
                    let tally = db.ensure_table("t").unwrap().tally(..).unwrap();
                    assert!(tally == before || tally == after, "step {step}");
                    assert_eq!(db.ensure_table("kept").unwrap().len().unwrap(), 1);
                    assert_no_orphans(&found);
                    drop(db);
                    assert_sound(&found);
                }
            }
        }
    }
}

/// A checkpoint, and enough after it for another that rewrites one table and leaves log segments to release.
fn fill_and_checkpoint(db: &Db, table: &Table) {
    for round in 0..2 {
        db.write(|tx| {
            let table = tx.table(table)?;
            for number in 0..40u32 {
                table.put(number.to_be_bytes(), [round; 300])?;
            }
            Ok(())
        })
        .unwrap();
        if round == 0 {
            db.checkpoint().unwrap();
        }
    }
}

/// A disk without space refuses what needs a new log segment, and takes it when there is space again.
#[test]
fn a_full_disk_stops_writes_and_not_reads() {
    let (disk, db, table) = fresh();
    // More than a checkpoint could get from the log.
    table.put("before", [6; 60_000]).unwrap();
    disk.set_capacity(disk.used_bytes());
    let mut refused = 0;
    let mut accepted = 0;
    for number in 0..100u32 {
        match table.put(number.to_be_bytes(), [1; 400]) {
            Ok(()) => accepted += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                assert!(error.to_string().contains("space"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50 && accepted > 5, "{accepted} accepted, {refused} refused");
    // Nothing of a refused write is there; reads, snapshots and small transactions without a commit go on.
    assert_eq!(table.len().unwrap(), accepted + 1);
    assert_eq!(db.snapshot().table(&table).unwrap().tally(..).unwrap().rows as u64, accepted + 1);
    let error = db.checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_no_orphans(&disk);
    // A reopening with no space at all, and no segment that was made ahead of need, says so too, and loses nothing.
    drop((table, db));
    match Db::open(DIR, options(&disk)) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        Ok(db) => assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), accepted + 1),
    }
    let read_only = Options { read_only: true, ..options(&disk) };
    let db = Db::open(DIR, read_only).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), accepted + 1);
    drop(db);
    disk.set_capacity(u64::MAX);
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    table.put(100u32.to_be_bytes(), [1; 9000]).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(table.len().unwrap(), accepted + 2);
}

/// A segment is kept for that: writes that the disk has no room for do not take it.
#[test]
fn a_full_disk_can_be_opened_and_rows_removed() {
    let (disk, db, table) = fresh();
    let other = db.create_table("other", Default::default()).unwrap();
    other.put("large", vec![3; 100_000]).unwrap();
    db.checkpoint().unwrap();
    for number in 0..100u32 {
        table.put(number.to_be_bytes(), [1; 400]).unwrap();
    }
    let full = disk.used_bytes();
    disk.set_capacity(full);
    let mut rows = 100u64;
    while table.put((rows as u32).to_be_bytes(), [1; 400]).is_ok() {
        rows += 1;
    }
    drop((other, table, db));
    let disk = disk.kill();
    disk.set_capacity(full);
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    assert_eq!(table.len().unwrap(), rows);
    assert!(table.remove(7u32.to_be_bytes()).unwrap());
    assert_eq!(db.write(|tx| tx.table(&table)?.remove_range(..&50u32.to_be_bytes())).unwrap(), 49);
    assert_eq!(table.len().unwrap(), rows - 50);
    // What is dropped gives its files back at the next checkpoint, which needs room for the manifest and for rows in
    // memory.
    db.drop_table("other").unwrap();
    assert_eq!(table.remove_range(..).unwrap(), rows - 50);
    disk.set_capacity(full + 8192);
    db.checkpoint().unwrap();
    assert!(disk.used_bytes() < full - 90_000);
    table.put("again", [1; 4000]).unwrap();
}

/// The same database, without a reopening.
#[test]
fn writes_resume_when_there_is_space_again() {
    let (disk, db, table) = fresh();
    // More than a checkpoint could get from the log.
    table.put("large", [6; 60_000]).unwrap();
    disk.set_capacity(disk.used_bytes());
    let error = table.put("long", [7; 30_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    table.put("short", "s").unwrap();
    assert_eq!(db.checkpoint().unwrap_err().kind(), ErrorKind::Full);
    assert!(db.stats().checkpoint_failure.is_some());
    disk.set_capacity(u64::MAX);
    table.put("long", [7; 30_000]).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.stats().checkpoint_failure, None);
    drop((table, db));
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    let db = Db::open(DIR, options(&found)).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), 3);
}

/// What a failed fsync covered is never acknowledged later, though memory and the system's cache have it.
#[test]
fn a_failed_fsync_is_never_made_good() {
    let (disk, db, table) = fresh();
    table.put("safe", "s").unwrap();
    db.write_with(Durability::Os, |tx| tx.table(&table)?.put("waiting", "w")).unwrap();
    disk.fail_at(disk.steps() + 1, io::ErrorKind::Other);
    let error = table.put("lost", "l").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for _ in 0..3 {
        assert!(is_poisoned(&db));
        assert_eq!(db.clone().close().unwrap_err().kind(), ErrorKind::Poisoned);
    }
    assert!(table.contains("safe").unwrap());
    drop((table, db));
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    let db = Db::open(DIR, options(&found)).unwrap();
    let table = db.ensure_table("t").unwrap();
    assert!(table.contains("safe").unwrap());
    assert!(!table.contains("lost").unwrap());
}

/// An open that fails leaves the lock free and every file as it was.
#[test]
fn a_failed_open_can_be_repeated() {
    let (disk, db, table) = fresh();
    fill_and_checkpoint(&db, &table);
    drop((db, table));
    let steps = {
        let disk = disk.kill();
        drop(Db::open(DIR, options(&disk)).unwrap());
        disk.steps()
    };
    for step in 0..steps {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            let disk = disk.kill();
            disk.fail_at(step, kind);
            let mut tries = 0;
            let db = loop {
                tries += 1;
                match Db::open(DIR, options(&disk)) {
                    Ok(db) => break db,
                    Err(error) => assert_specific(&error, kind),
                }
            };
            assert!(tries <= 2);
            assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), 40);
            drop(db);
            assert_sound(&disk.crash_with(CrashMode::LoseAll, 0));
        }
    }
}
