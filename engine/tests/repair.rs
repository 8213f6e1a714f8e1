//! Goal: a repair of whatever is damaged leaves a database that is whole, with every row that was not in what was
//! damaged, says which keys it could not save, and throws nothing away. Method: seeded workloads on `io::sim` with a
//! history; in every file bits are flipped, ends cut off, or it is removed; then the repaired database is compared with
//! the history, outside of the ranges that were told. The power goes at each step of a repair. Replay: SEED=... cargo
//! test -p quipu --test all repair::

use crate::crash_support::{
    DIR, Image, TableImage, Work, assert_no_orphans, assert_sound, options, script, verify, with_seeds,
};
use quipu::files::{RepairReport, repair};
use quipu::io::Disk;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, ErrorKind, Options, ReadableTable, Result, Table, TableOptions, WritableTable};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn run(disk: &SimDisk) -> Result<RepairReport> {
    repair(DIR, &options(disk), &mut |progress| assert!(progress.done <= progress.total, "{progress:?}"))
}

fn files(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = disk.file_names().into_iter().filter(|path| !path.ends_with("LOCK"));
    paths.map(|path| (path.clone(), disk.read_file(path).unwrap())).collect()
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The disk of a database that has lived a little, with runs over each other and commits in the log, and its history.
fn specimen(seed: u64) -> (SimDisk, Vec<Image>) {
    let mut work = Work::new(&SimDisk::new());
    script(&mut work, seed, 60).unwrap();
    let random = &mut StdRng::seed_from_u64(seed);
    if !seed.is_multiple_of(4) {
        work.db().checkpoint().unwrap();
        for _ in 0..3 {
            work.step(random).unwrap();
        }
    }
    work.db().sync().unwrap();
    drop(work.db.take());
    // Bits are flipped on a disk at rest.
    (work.disk.crash_with(CrashMode::KeepAll, 0), work.history.images)
}

/// The rows are those of the last commit that is left, but for keys that are told as lost: of these a row may be
/// missing or be an older one. If the log was cut, a table may be newer, as its runs are.
fn assert_saved(db: &Db, images: &[Image], report: &RepairReport) {
    let first = report.sequence as usize;
    let candidates = if report.log.is_some() { &images[first..] } else { &images[first..=first] };
    let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
    assert!(candidates.iter().any(|image| names.iter().eq(image.keys())), "{names:?}");
    for table in db.tables() {
        let images = candidates.iter().filter_map(|image| image.get(table.name()));
        let wrong: Vec<String> = images.map_while(|image| what_is_wrong(&table, image, report)).collect();
        assert!(wrong.len() < candidates.len(), "table {}: {:?}", table.name(), wrong.first());
    }
}

fn what_is_wrong(table: &Table, image: &TableImage, report: &RepairReport) -> Option<String> {
    let losses: Vec<_> = report.lost.iter().filter(|loss| loss.table == table.name()).collect();
    let is_lost = |key: &[u8]| {
        losses.iter().any(|loss| {
            loss.low.as_ref().is_none_or(|low| key >= low.as_slice())
                && loss.high.as_ref().is_none_or(|high| key < high.as_slice())
        })
    };
    let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    table
        .for_each(.., |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            true
        })
        .unwrap();
    // A rewrite changes the index beside commits.
    if (TableOptions { layout: image.options.layout, ..table.options().clone() }) != image.options {
        return Some("its options".to_owned());
    }
    let all_below = losses.iter().all(|loss| loss.is_bottom);
    for (key, value) in image.rows.iter() {
        let found = rows.remove(key);
        if found.as_ref() != Some(value) && !(is_lost(key) && (found.is_none() || !all_below)) {
            return Some(format!("{} is wrong", key.escape_ascii()));
        }
    }
    let back = rows.keys().find(|key| !is_lost(key) || all_below);
    back.map(|key| format!("{} came back", key.escape_ascii()))
}

/// Repairs a damaged disk, and looks at everything.
fn survive(disk: &SimDisk, images: &[Image], damaged: &Path) -> RepairReport {
    let before = files(disk);
    let report = run(disk).unwrap_or_else(|error| panic!("{}: {error}", damaged.display()));
    assert_eq!(report.faults, [""; 0]);
    let after = files(disk);
    match &report.aside {
        None => {
            assert_eq!(before, after, "nothing was wrong, and something was written");
            assert!(report.lost.is_empty() && report.rebuilt.is_empty() && report.log.is_none());
        }
        Some(aside) => {
            for name in &report.files {
                assert_eq!(Some(&before[&Path::new(DIR).join(name)]), after.get(&aside.join(name)), "{name}");
            }
            for (path, bytes) in &before {
                let is_kept = after.get(path) == Some(bytes) || after.values().any(|kept| kept == bytes);
                assert!(is_kept || name_of(path).starts_with("log-spare"), "{} is gone", path.display());
            }
        }
    }
    // It is durable, and a database to go on with.
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    assert_sound(&found);
    let db = Db::open(DIR, options(&found)).unwrap();
    let sequence = db.stats().sequence;
    assert_eq!(sequence, report.sequence, "{} {report:?} {:?}", damaged.display(), before.keys());
    assert_no_orphans_but_aside(&found);
    assert_saved(&db, images, &report);
    for table in db.tables() {
        table.put("new", "row").unwrap();
        table.remove_range(.."1").unwrap();
        table.put("05", "row").unwrap();
    }
    db.ensure_table("one more").unwrap();
    let rows: Vec<u64> = db.tables().iter().map(|table| table.len().unwrap()).collect();
    drop(db);
    let found = found.kill();
    let db = Db::open(DIR, options(&found)).unwrap();
    assert_eq!(db.tables().iter().map(|table| table.len().unwrap()).collect::<Vec<_>>(), rows);
    db.checkpoint().unwrap();
    drop(db);
    assert_sound(&found);
    assert!(run(&found).unwrap().aside.is_none(), "there is nothing left to repair");
    report
}

fn assert_no_orphans_but_aside(disk: &SimDisk) {
    let copy = disk.kill();
    for path in copy.file_names() {
        if path.parent() != Some(Path::new(DIR)) {
            copy.remove(&path).unwrap();
        }
    }
    assert_no_orphans(&copy);
}

#[test]
fn every_kind_of_damage_is_survived() {
    let counts = std::cell::RefCell::new(BTreeMap::<&str, usize>::new());
    let count = |what| *counts.borrow_mut().entry(what).or_default() += 1;
    with_seeds(12, |seed| {
        let (disk, images) = specimen(seed);
        verify(&Db::open(DIR, options(&disk.kill())).unwrap(), images.last().unwrap());
        assert!(run(&disk.kill()).unwrap().aside.is_none());
        let random = &mut StdRng::seed_from_u64(seed);
        let all: Vec<(PathBuf, Vec<u8>)> = files(&disk).into_iter().collect();
        for (path, bytes) in &all {
            let name = name_of(path);
            if name == "MANIFEST" || name.starts_with("log-spare") {
                continue;
            }
            for kind in 0..8 {
                let disk = disk.kill();
                match kind {
                    0 => {
                        disk.remove(path).unwrap();
                        disk.sync_dir(Path::new(DIR)).unwrap();
                    }
                    1 => disk.write_file(path, &bytes[..random.random_range(0..bytes.len())]),
                    2 if name.starts_with("run-") => {
                        // Another one too: of the same table, or not.
                        let other = &all[random.random_range(0..all.len())];
                        if !name_of(&other.0).starts_with("MANIFEST") {
                            disk.flip_bit(&other.0, random.random_range(0..other.1.len() as u64 * 8));
                        }
                        disk.flip_bit(path, random.random_range(0..bytes.len() as u64 * 8));
                    }
                    _ => {
                        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
                        disk.flip_bit(path, random.random_range(0..used as u64 * 8));
                    }
                }
                let report = survive(&disk, &images, path);
                let is_log = name.starts_with("log-");
                if is_log && kind != 2 {
                    assert!(report.lost.is_empty(), "{report:?}");
                    count(if report.log.is_some() { "log" } else { "end of the log" });
                } else if !is_log {
                    assert!(report.aside.is_some());
                    let part = report.lost.iter().any(|loss| loss.low.is_some() || loss.high.is_some());
                    count(match report.lost.first() {
                        Some(loss) if part && loss.is_bottom => "part of a bottom run",
                        Some(_) if part => "part of an upper run",
                        Some(loss) if loss.is_bottom => "a bottom run",
                        Some(_) => "an upper run",
                        None => "a filter",
                    });
                }
            }
        }
    });
    let counts = counts.into_inner();
    eprintln!("{counts:?}");
    let kinds =
        ["log", "end of the log", "part of a bottom run", "part of an upper run", "a bottom run", "an upper run"];
    assert!(quipu_seed_is_given() || kinds.iter().all(|kind| counts.contains_key(kind)), "{counts:?}");
}

fn quipu_seed_is_given() -> bool {
    crate::crash_support::environment("SEED").is_some()
}

/// Bits of a table of some leaves and two inner levels: what is lost is what the page held, and nothing beside.
#[test]
fn a_damaged_page_costs_its_own_rows() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    let rows = 2000u32;
    for row in 0..rows {
        table.put(row.to_be_bytes(), b"a value of some length").unwrap();
    }
    table.flush().unwrap();
    drop((table, db));
    let disk = disk.crash_with(CrashMode::KeepAll, 0);
    let path = disk.file_names().into_iter().find(|path| name_of(path).starts_with("run-")).unwrap();
    let len = disk.read_file(&path).unwrap().len() as u64;
    let (mut most, mut few) = (0, Vec::new());
    for at in (200..len - 300).step_by(397) {
        let disk = disk.kill();
        disk.flip_bit(&path, at * 8);
        let report = run(&disk).unwrap();
        let db = Db::open(DIR, options(&disk)).unwrap();
        let table = db.open_table("t").unwrap().unwrap();
        let told: u64 = report.lost.iter().map(|loss| loss.entries.unwrap()).sum();
        assert_eq!(table.len().unwrap() + told, u64::from(rows), "{:?}", report.lost);
        assert_eq!(report.rebuilt, [("t".to_owned(), table.tally(..).unwrap())]);
        for loss in &report.lost {
            let key = |key: &Option<Vec<u8>>, end: u32| {
                key.as_ref().map_or(end, |key| {
                    // A separator is the shortest key that separates.
                    let mut whole = [0; 4];
                    whole[..key.len()].copy_from_slice(key);
                    u32::from_be_bytes(whole)
                })
            };
            let (low, high) = (key(&loss.low, 0), key(&loss.high, rows));
            assert_eq!(u64::from(high - low), loss.entries.unwrap());
            assert_eq!(table.count(&low.to_be_bytes()..&high.to_be_bytes()).unwrap(), 0);
            most = most.max(high - low);
        }
        few.push(told);
    }
    // An inner page takes all below it with it, the root all.
    few.sort_unstable();
    assert!(most > 20 && few[few.len() / 2] < 20, "{few:?}");
}

#[test]
fn a_damaged_manifest_is_told_and_nothing_is_done() {
    let (disk, _) = specimen(1);
    disk.flip_bit(format!("{DIR}/MANIFEST"), 300);
    let before = files(&disk);
    let error = run(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("cannot be repaired"), "{error}");
    assert_eq!(before, files(&disk));
    disk.remove(Path::new("db/MANIFEST")).unwrap();
    assert_eq!(run(&disk).unwrap_err().kind(), ErrorKind::Missing);
    let (disk, _) = specimen(1);
    let _open = Db::open(DIR, options(&disk)).unwrap();
    assert_eq!(run(&disk).unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_repair_that_is_cut_or_fails_can_be_repeated() {
    with_seeds(3, |seed| {
        let (disk, images) = specimen(seed);
        let random = &mut StdRng::seed_from_u64(seed);
        // A run and the log.
        for (path, bytes) in files(&disk) {
            let is_hit = name_of(&path).starts_with("run-") || bytes.starts_with(b"QuipuLog");
            if is_hit && random.random_bool(0.5) {
                let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
                disk.flip_bit(&path, random.random_range(0..used) * 8);
            }
        }
        let whole = disk.kill();
        let expected = run(&whole).unwrap();
        for step in 0..whole.steps() {
            let cut = disk.kill();
            cut.cut_at(step);
            let _ = run(&cut);
            let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][step as usize % 3];
            let found = cut.crash_with(mode, seed << 16 | step);
            let report = run(&found).unwrap();
            assert_eq!((&report.faults, report.sequence), (&expected.faults, expected.sequence), "step {step}");
            let db = Db::open(DIR, options(&found)).unwrap();
            assert_saved(&db, &images, &expected);
            drop(db);
            let failing = disk.kill();
            failing.fail_at(step, std::io::ErrorKind::StorageFull);
            if run(&failing).is_ok() {
                continue;
            }
            assert_eq!(run(&failing).unwrap().faults, [""; 0]);
            let db = Db::open(DIR, Options { durability: quipu::Durability::Os, ..options(&failing) }).unwrap();
            assert_saved(&db, &images, &expected);
        }
    });
}
