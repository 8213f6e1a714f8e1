//! Goal: after a power cut at any disk operation the database is some prefix of its history, with everything that was
//! acknowledged as durable in it, tallies included; after a killed process it is all that was acknowledged. Method: run
//! a seeded workload on `io::sim`, cut the power at step n, crash in several ways, reopen, compare with the history,
//! check all files, work on, crash again. Replay: SEED=... STEP=... cargo test -p quipu --test all crash::

use crate::crash_support::{
    DIR, History, Work, assert_no_orphans, assert_sound, live, options, script, verify, with_seeds, with_steps,
};
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, Durability, Options, WritableTable};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Pieces of work in a script.
const LENGTH: usize = 50;
/// Each seed takes every so many-th step; together, the seeds take all remainders several times.
const STRIDE: u64 = 40;

/// Opens what a crash left and compares; then works on and crashes once more.
fn survive(disk: &SimDisk, history: &History, seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    let mut work = Work::new(disk);
    work.history = history.clone();
    {
        let db = Db::open(DIR, options(disk)).unwrap();
        work.history.verify_opened(&db, history.synced);
        assert_no_orphans(disk);
        // What was found is durable now, whatever the next crash takes.
        drop(db);
        let again = disk.crash_with(CrashMode::LoseAll, 0);
        let db = Db::open(DIR, options(&again)).unwrap();
        assert_eq!(db.stats().sequence as usize, work.history.synced);
        verify(&db, work.history.last());
    }
    assert_sound(disk);
    work.open(random).unwrap();
    for _ in 0..random.random_range(0..12) {
        work.step(random).unwrap();
    }
    if work.db.is_some() && random.random_range(0..3) > 0 {
        disk.cut_at(disk.steps() + random.random_range(0..40));
        for _ in 0..20 {
            if work.step(random).is_err() {
                break;
            }
        }
    }
    drop(work.db.take());
    let mode = [CrashMode::LoseAll, CrashMode::Random][random.random_range(0..2)];
    let found = disk.crash_with(mode, random.random());
    let db = Db::open(DIR, options(&found)).unwrap();
    let at_least = work.history.synced;
    work.history.verify_opened(&db, at_least);
    drop(db);
    assert_sound(&found);
}

#[test]
fn nothing_synced_is_lost_wherever_the_power_goes() {
    with_seeds(40, |seed| {
        let disk = SimDisk::new();
        let mut work = Work::new(&disk);
        script(&mut work, seed, LENGTH).unwrap();
        drop(work);
        with_steps(disk.steps(), seed, STRIDE, |step| {
            let disk = SimDisk::new();
            disk.cut_at(step);
            let mut work = Work::new(&disk);
            let result = script(&mut work, seed, LENGTH);
            // A store through a mapping cannot fail, so the script may end well if the power went late.
            assert!(result.is_err() || disk.power_is_off());
            drop(work.db.take());
            let modes = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random];
            for (lot, mode) in modes.into_iter().enumerate() {
                let lot = seed ^ step << 3 ^ lot as u64;
                survive(&disk.crash_with(mode, lot), &work.history, lot);
            }
        });
    });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    with_seeds(15, |seed| {
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let mut work = Work::new(&disk);
        work.open(random).unwrap();
        for _ in 0..40 {
            work.step(random).unwrap();
            let killed = disk.kill();
            let db = Db::open(DIR, options(&killed)).unwrap();
            let mut history = work.history.clone();
            history.verify_opened(&db, work.history.acknowledged);
            assert_no_orphans(&killed);
            // After a kill and an opening all of it survives a power loss too.
            drop(db);
            let found = killed.crash_with(CrashMode::LoseAll, 0);
            let db = Db::open(DIR, options(&found)).unwrap();
            history.verify_opened(&db, work.history.acknowledged);
        }
        drop(work.db.take());
        assert_sound(&disk);
    });
}

/// Kills, crashes and cuts one after the other, over the same files.
#[test]
fn a_long_life_of_crashes_leaves_the_history_whole() {
    with_seeds(40, |seed| {
        live(&mut StdRng::seed_from_u64(seed), 40);
    });
}

/// A database that was never durable is not there: the next opening makes it.
#[test]
fn a_creation_that_was_cut_can_be_repeated() {
    let disk = SimDisk::new();
    drop(Db::open(DIR, options(&disk)).unwrap());
    for step in 0..disk.steps() {
        for lot in 0..4 {
            let disk = SimDisk::new();
            disk.cut_at(step);
            assert!(Db::open(DIR, options(&disk)).is_err());
            let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random][lot];
            let found = disk.crash_with(mode, step * 4 + lot as u64);
            let db = Db::open(DIR, options(&found)).unwrap();
            let table = db.ensure_table("t").unwrap();
            table.put("k", "v").unwrap();
            drop((table, db));
            let found = found.crash_with(CrashMode::LoseAll, 0);
            let db = Db::open(DIR, Options { durability: Durability::Os, ..options(&found) }).unwrap();
            assert_eq!(db.stats().tables[0].tally.rows, 1);
        }
    }
}
