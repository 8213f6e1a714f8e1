//! Goal: a backup is the state after one commit, whatever is written meanwhile and wherever the power goes; the source
//! loses nothing by it; what is restored is what was backed up, and damage is told before anything is restored. Method:
//! seeded workloads on `io::sim`, with a history; a cut and a fault at each step of a backup; writers on threads; every
//! file of a backup damaged. Replay: SEED=... STEP=... cargo test -p quipu --test all backup::

use crate::crash_support::{
    DIR, History, Work, assert_no_orphans, assert_sound, options, script, verify, with_seeds, with_steps,
};
use quipu::files::{BackupInfo, BackupOptions, check, restore};
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::io::{Disk, RealDisk};
use quipu::{Db, ErrorKind, Options, ReadableTable, Result, WritableTable};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TO: &str = "backups/copy";
const BACK: &str = "restored";

/// A database that has lived a little: its disk, open, and its history.
fn lived(seed: u64, length: usize) -> Work {
    let mut work = Work::new(&SimDisk::new());
    script(&mut work, seed, length).unwrap();
    work
}

fn back_up(db: &Db, copy: bool) -> Result<BackupInfo> {
    db.backup_with(TO, &BackupOptions { copy }, &mut |progress| assert!(progress.done <= progress.total))
}

/// Opens a directory; it must be the state that the history has there.
fn open_at(disk: &SimDisk, dir: &str, history: &History, sequence: u64) -> Db {
    let report = check(dir, &options(&disk.kill()), &mut |_| ()).unwrap();
    assert_eq!(report.faults, [""; 0]);
    let db = Db::open(dir, options(disk)).unwrap();
    assert_eq!(db.stats().sequence, sequence);
    verify(&db, &history.images[sequence as usize]);
    db
}

fn files_in(disk: &SimDisk, dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = disk.file_names();
    paths.retain(|path| path.parent() == Some(Path::new(dir)) && !path.ends_with("LOCK"));
    paths.into_iter().map(|path| (path.clone(), disk.read_file(path).unwrap())).collect()
}

#[test]
fn a_copy_is_a_durable_database_of_its_own() {
    with_seeds(15, |seed| {
        let mut work = lived(seed, 40);
        let disk = work.disk.clone();
        let copy = seed % 2 == 0;
        let info = back_up(work.db(), copy).unwrap();
        let last = work.history.images.len() as u64 - 1;
        assert_eq!((info.sequence, info.bytes_copied), (last, if copy { info.bytes } else { 0 }));
        // Whatever the power takes, and whether or not the source goes on or goes away.
        let lost = disk.crash_with(CrashMode::LoseAll, 0);
        for (path, _) in files_in(&lost, DIR) {
            lost.remove(&path).unwrap();
        }
        let history = work.history.clone();
        let db = open_at(&lost, TO, &history, last);
        db.ensure_table("of the copy").unwrap().put("k", "v").unwrap();
        db.checkpoint().unwrap();
        drop(db);
        // The two do not mix: the source's log is refused in the copy.
        let random = &mut StdRng::seed_from_u64(seed);
        for _ in 0..10 {
            work.step(random).unwrap();
        }
        open_at(&disk.kill(), TO, &history, last);
        drop(work.db.take());
        let mixed = disk.kill();
        for (path, bytes) in files_in(&mixed, DIR) {
            let name = path.file_name().unwrap();
            if name.to_str().unwrap().starts_with("log-") {
                mixed.write_file(Path::new(TO).join(name), bytes);
            }
        }
        assert_eq!(Db::open(TO, options(&mixed)).unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_backup_that_is_cut_is_no_copy_and_harms_nothing() {
    with_seeds(6, |seed| {
        let work = lived(seed, 30);
        let mut left = work.disk.kill();
        drop(work.db);
        let history = work.history;
        let last = history.images.len() - 1;
        let steps = {
            let disk = left.kill();
            let db = Db::open(DIR, options(&disk)).unwrap();
            let before = disk.steps();
            back_up(&db, seed % 2 == 0).unwrap();
            before..disk.steps()
        };
        with_steps(steps.end, 0, 1, |step| {
            if step < steps.start {
                return;
            }
            left = left.kill();
            let disk = left.kill();
            let db = Db::open(DIR, options(&disk)).unwrap();
            disk.cut_at(step);
            back_up(&db, seed % 2 == 0).unwrap_err();
            drop(db);
            for (lot, mode) in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random].into_iter().enumerate() {
                let found = disk.crash_with(mode, seed ^ step << 3 ^ lot as u64);
                let db = Db::open(DIR, options(&found)).unwrap();
                history.clone().verify_opened(&db, last);
                assert_no_orphans(&found);
                drop(db);
                assert_sound(&found);
                if found.read_file(format!("{TO}/MANIFEST")).is_some() {
                    open_at(&found, TO, &history, last as u64);
                    continue;
                }
                // Not there: it is taken for none.
                for error in [
                    check(TO, &options(&found.kill()), &mut |_| ()).map(drop),
                    restore(TO, BACK, &options(&found.kill()), &mut |_| ()).map(drop),
                    Db::open(TO, Options { create: false, ..options(&found.kill()) }).map(drop),
                ] {
                    assert_eq!(error.unwrap_err().kind(), ErrorKind::Missing);
                }
                if files_in(&found, TO).iter().any(|(path, _)| path.to_str().unwrap().contains("run-")) {
                    let error = Db::open(TO, options(&found.kill())).unwrap_err();
                    assert!(error.to_string().contains("cut short"), "{error}");
                }
            }
        });
    });
}

#[test]
fn a_backup_that_fails_leaves_an_empty_directory_and_can_be_repeated() {
    use std::io::ErrorKind::{CrossesDevices, Other, StorageFull};
    with_seeds(4, |seed| {
        let work = lived(seed, 30);
        let left = work.disk.kill();
        drop(work.db);
        let last = work.history.images.len() as u64 - 1;
        let kind = [Other, StorageFull, CrossesDevices][seed as usize % 3];
        let mut copied = 0;
        for step in 0.. {
            let disk = left.kill();
            let db = Db::open(DIR, options(&disk)).unwrap();
            disk.fail_at(disk.steps() + step, kind);
            let before = disk.steps();
            match back_up(&db, seed % 2 == 0) {
                // A store into a mapped file cannot fail, and where a link cannot be made there is a copy.
                Ok(info) => {
                    if disk.steps() <= before + step {
                        break;
                    }
                    copied += u64::from(kind == CrossesDevices && info.bytes_copied > 0);
                    open_at(&disk.kill(), TO, &work.history, last);
                }
                Err(_) => {
                    assert_eq!(files_in(&disk, TO), [], "step {step}");
                    let found = disk.kill();
                    let db = Db::open(DIR, options(&found)).unwrap();
                    assert_eq!(back_up(&db, false).unwrap().sequence, last);
                    drop(db);
                    open_at(&found, TO, &work.history, last);
                }
            }
            drop(db);
            let found = disk.kill();
            verify(&Db::open(DIR, options(&found)).unwrap(), work.history.last());
            assert_no_orphans(&found);
        }
        assert!(kind != CrossesDevices || copied > 0);
    });
}

#[test]
fn only_an_empty_directory_elsewhere_is_taken() {
    let work = lived(1, 30);
    let (db, disk) = (work.db(), &work.disk);
    let before = files_in(disk, DIR);
    for dir in [DIR, "db/copy", "./db/copy/deep"] {
        let error = db.backup(dir).unwrap_err();
        // Of another database, or, where the source's log has gone on, not where the copy's begins.
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt), "{error}");
        assert_eq!(restore(DIR, dir, &options(&disk.kill()), &mut |_| ()).unwrap_err().kind(), ErrorKind::Invalid);
    }
    disk.write_file("full/letter", b"dear all");
    let error = db.backup("full").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("letter"), "{error}");
    assert_eq!(before, files_in(disk, DIR), "not even a checkpoint was made");
    assert_eq!(disk.read_file("full/letter").unwrap(), b"dear all");
    assert_eq!(files_in(disk, "full").len(), 1);
    back_up(db, false).unwrap();
    assert_eq!(back_up(db, false).unwrap_err().kind(), ErrorKind::Exists);
    let read_only = Db::open(DIR, Options { read_only: true, ..options(&disk.kill()) }).unwrap();
    assert_eq!(read_only.backup("other").unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// Each commit writes its number everywhere, so any mixture of two states shows.
#[test]
fn writers_go_on_during_a_backup_and_the_copy_is_one_commit() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, Options { background: true, ..options(&disk) }).unwrap();
    let tables = ["left", "right", "memory"].map(|name| db.ensure_table(name).unwrap());
    let (done, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let rows = 300u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1u64.. {
                db.write(|tx| {
                    for table in &tables {
                        let table = tx.table(table)?;
                        for row in 0..rows {
                            // Some keys are there in every third state only.
                            if row % 3 == 0 && number % 3 == 0 {
                                table.remove(row.to_be_bytes())?;
                            } else {
                                table.put(row.to_be_bytes(), number.to_be_bytes())?;
                            }
                        }
                    }
                    Ok(())
                })
                .unwrap();
                commits.store(number, Ordering::SeqCst);
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        // Runs come and go under the backups.
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                tables[0].flush().unwrap();
                tables[1].flush().unwrap();
                tables[1].compact().unwrap();
            }
        });
        let mut two = Vec::new();
        for number in 0..8 {
            let begin = commits.load(Ordering::SeqCst);
            let to = format!("copy {number}");
            if number % 2 == 0 {
                two.push(scope.spawn({
                    let (db, to) = (&db, format!("{to} beside"));
                    move || db.backup_with(to, &BackupOptions { copy: true }, &mut |_| ()).unwrap()
                }));
            }
            db.backup_with(&to, &BackupOptions { copy: number % 4 < 2 }, &mut |_| std::thread::yield_now()).unwrap();
            let end = commits.load(Ordering::SeqCst) + 1;
            let copy = Db::open(&to, options(&disk.crash_with(CrashMode::LoseAll, 0))).unwrap();
            let mut seen = Vec::new();
            for table in copy.tables() {
                let mut numbers = Vec::new();
                table
                    .for_each(.., |_, value| {
                        numbers.push(u64::from_be_bytes(value.try_into().unwrap()));
                        true
                    })
                    .unwrap();
                numbers.dedup();
                assert!(numbers.len() <= 1, "{numbers:?}");
                let is_third = numbers.first().is_some_and(|number| number % 3 == 0);
                let expected = if numbers.is_empty() {
                    0
                } else if is_third {
                    rows - rows.div_ceil(3)
                } else {
                    rows
                };
                assert_eq!(table.len().unwrap(), u64::from(expected));
                seen.push(numbers.first().copied().unwrap_or(0));
            }
            assert!(seen.iter().all(|number| *number == seen[0]), "{seen:?}");
            assert!((begin..=end).contains(&seen[0]), "{seen:?} is not from {begin} to {end}");
        }
        let beside = two.into_iter().map(|backup| backup.join().unwrap()).collect::<Vec<_>>();
        done.store(true, Ordering::SeqCst);
        assert!(beside.iter().all(|info| info.bytes == info.bytes_copied));
    });
    // What was kept for the copies goes with the next job.
    db.checkpoint().unwrap();
    drop((tables, db));
    assert_no_orphans(&disk);
    assert_sound(&disk);
}

#[test]
fn what_is_restored_is_what_was_backed_up() {
    with_seeds(5, |seed| {
        let mut work = lived(seed, 40);
        let info = back_up(work.db(), false).unwrap();
        drop(work.db.take());
        let disk = work.disk.kill();
        let restored = restore(TO, BACK, &options(&disk), &mut |_| ()).unwrap();
        assert_eq!(restored, BackupInfo { bytes_copied: info.bytes, ..info });
        let lost = disk.crash_with(CrashMode::LoseAll, 0);
        // Nothing is shared with the backup.
        for (path, _) in files_in(&lost, TO) {
            lost.write_file(path, b"gone");
        }
        let db = open_at(&lost, BACK, &work.history, restored.sequence);
        db.ensure_table("further").unwrap().put("k", "v").unwrap();
        drop(db);
        assert_eq!(restore(TO, BACK, &options(&disk), &mut |_| ()).unwrap_err().kind(), ErrorKind::Exists);
        // A copy that was written to is a database, not a backup.
        Db::open(TO, options(&disk)).unwrap().ensure_table("new").unwrap();
        let error = restore(TO, "other", &options(&disk), &mut |_| ()).unwrap_err();
        // Of another database, or, where the source's log has gone on, not where the copy's begins.
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt), "{error}");
        let open = Db::open(TO, options(&disk)).unwrap();
        assert_eq!(restore(TO, "other", &options(&disk), &mut |_| ()).unwrap_err().kind(), ErrorKind::Busy);
        drop(open);
    });
}

#[test]
fn a_damaged_backup_is_refused_with_the_file_and_the_place() {
    let work = lived(3, 60);
    back_up(work.db(), false).unwrap();
    let random = &mut StdRng::seed_from_u64(1);
    let mut runs = 0;
    for (path, bytes) in files_in(&work.disk, TO) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_run = name.starts_with("run-");
        runs += usize::from(is_run);
        if !is_run && name != "MANIFEST" {
            continue;
        }
        for _ in 0..100 {
            let disk = work.disk.kill();
            let what = random.random_range(0..4);
            match what {
                0 => disk.write_file(&path, &bytes[..random.random_range(0..bytes.len())]),
                _ => disk.flip_bit(&path, random.random_range(0..bytes.len() as u64 * 8)),
            }
            let error = restore(TO, BACK, &options(&disk), &mut |_| ()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(error.contains(" at ") || what == 0 || error.contains("tally"), "{error}");
            assert_eq!(files_in(&disk, BACK), [], "nothing was restored");
        }
        let disk = work.disk.kill();
        disk.remove(&path).unwrap();
        let error = restore(TO, BACK, &options(&disk), &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(files_in(&disk, BACK), []);
    }
    assert!(runs > 1, "the specimen has {runs} runs");
}

/// On a real disk the copy shares its runs with the database; both are whole, and go apart.
#[test]
fn links_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("db"), dir.path().join("deep/copy"));
    let real = || Options { disk: Arc::new(RealDisk), ..options(&SimDisk::new()) };
    let db = Db::open(&from, real()).unwrap();
    let table = db.ensure_table("t").unwrap();
    for number in 0..500u32 {
        table.put(number.to_be_bytes(), b"value").unwrap();
    }
    let info = db.backup(&to).unwrap();
    assert_eq!((info.runs, info.bytes_copied), (1, 0));
    table.remove_range(..).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(check(&to, &real(), &mut |_| ()).unwrap().faults, [""; 0]);
    assert_eq!(Db::open(&to, real()).unwrap().ensure_table("t").unwrap().len().unwrap(), 500);
    let back = dir.path().join("back");
    assert_eq!(restore(&to, &back, &real(), &mut |_| ()).unwrap().bytes_copied, info.bytes);
    assert_eq!(Db::open(&back, real()).unwrap().ensure_table("t").unwrap().len().unwrap(), 500);
}
