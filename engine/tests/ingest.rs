//! Goal: an ingest is one commit: all of its rows or none, with exact counts, whatever lies below, whatever others
//! write meanwhile, and wherever the power goes; what it cannot take it refuses, and leaves nothing. Method: each case
//! by itself, and a power cut at every step. Random ones are in `model`, `crash`, `faults` and the storm.

use std::path::Path;

use crate::model_map::{Model, compare, options, rng};
use quipu::files::check;
use quipu::ingest::{Ingested, Overlap};
use quipu::io::Disk;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{
    Db, Durability, ErrorKind, Measures, Options, ReadableTable, SumField, Table, TableOptions, WritableTable,
    WriteBatch,
};

const DIR: &str = "/db";

fn open(disk: &SimDisk) -> Db {
    Db::open(DIR, Options { run_file_bytes: 4096, durability: Durability::Os, ..options(disk) }).unwrap()
}

fn all_measures() -> TableOptions {
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    TableOptions { measures, ..TableOptions::default() }
}

fn fresh() -> (SimDisk, Db, Table) {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_table("t", all_measures()).unwrap();
    (disk, db, table)
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn rows(numbers: impl Iterator<Item = u32>, value: &str) -> Model {
    numbers.map(|number| (key(number), format!("{value}{number:09}").into_bytes())).collect()
}

fn expect(table: &Table, model: &Model) {
    for seed in 0..3 {
        compare(table, model, &all_measures().measures, &mut rng(seed));
    }
}

fn files(disk: &SimDisk) -> usize {
    disk.list(Path::new(DIR)).unwrap().iter().filter(|name| name.starts_with("run-")).count()
}

fn assert_sound(disk: &SimDisk) {
    let report = check(DIR, &options(disk), &mut |_| ()).unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
}

/// Puts rows in the place of others.
fn replace(table: &Table, rows: &Model) -> quipu::Result<Ingested> {
    let mut ingest = table.begin_ingest(Overlap::Replace)?;
    rows.iter().try_for_each(|(key, value)| ingest.push(key, value))?;
    ingest.commit()
}

fn expect_after_closing(disk: &SimDisk, db: Db, table: Table, model: &Model) {
    drop(table);
    db.close().unwrap();
    assert_sound(disk);
    expect(&open(disk).ensure_table("t").unwrap(), model);
}

#[test]
fn an_empty_table_takes_rows_as_its_bottom_run() {
    let (disk, db, table) = fresh();
    let mut model = rows(0..3000, "a");
    assert_eq!(table.ingest(&model).unwrap(), 3000);
    expect(&table, &model);
    let stats = db.stats();
    assert_eq!((stats.tables[0].runs, stats.sequence), (1, 2));
    assert!(files(&disk) > 3, "it has several files");
    // Writes go on above it.
    table.put(key(5), "b").unwrap();
    model.insert(key(5), b"b".to_vec());
    table.remove(key(7)).unwrap();
    model.remove(&key(7));
    expect(&table, &model);
    expect_after_closing(&disk, db, table, &model);
}

#[test]
fn rows_are_replaced_only_if_it_is_told_to() {
    let (disk, db, table) = fresh();
    let mut model = rows((0..3000).step_by(3), "old");
    model.iter().for_each(|(key, value)| table.put(key, value).unwrap());
    // Rows in a run, rows in memory, and a tombstone over a run.
    table.flush().unwrap();
    for number in (0..300).step_by(6) {
        table.put(key(number), "newer").unwrap();
        model.insert(key(number), b"newer".to_vec());
    }
    table.remove(key(300)).unwrap();
    model.remove(&key(300));
    let before = files(&disk);
    let error = table.ingest(rows(0..2000, "new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains(r#"the key "\x00\x00\x00\x00" exists"#), "{error}");
    assert_eq!((files(&disk), db.stats().checkpoint), (before, db.stats().checkpoint));
    expect(&table, &model);
    // Keys between those of rows are free, and so is a removed one.
    let between = rows((1..3000).step_by(3).chain([300]), "between");
    table.ingest(&between).unwrap();
    model.extend(between);
    expect(&table, &model);
    let mut ingest = table.begin_ingest(Overlap::Replace).unwrap();
    let new = rows(100..2500, "new");
    new.iter().for_each(|(key, value)| ingest.push(key, value).unwrap());
    assert_eq!((ingest.rows(), ingest.bytes()), (2400, 2400 * (4 + 12)));
    assert_eq!(ingest.commit().unwrap(), Ingested { rows: 2400, replaced: 1600 });
    model.extend(new);
    expect(&table, &model);
    table.compact().unwrap();
    expect(&table, &model);
    expect_after_closing(&disk, db, table, &model);
}

#[test]
fn rows_after_the_last_are_not_looked_up() {
    let disk = SimDisk::new();
    // One file, so that opening files is not what is read.
    let db = Db::open(DIR, Options { run_file_bytes: 1 << 20, ..options(&disk) }).unwrap();
    let table = db.create_table("t", all_measures()).unwrap();
    let mut model = rows(0..3000, "a");
    table.ingest(&model).unwrap();
    let reads_for = |numbers: std::ops::Range<u32>| {
        let before = disk.reads();
        let mut ingest = table.begin_ingest(Overlap::Replace).unwrap();
        rows(numbers, "b").iter().for_each(|(key, value)| ingest.push(key, value).unwrap());
        (disk.reads() - before, ingest)
    };
    let (among, ingest) = reads_for(0..2000);
    drop(ingest);
    let (after, ingest) = reads_for(2900..8900);
    ingest.commit().unwrap();
    assert!(after * 2 < among, "{after} reads for rows after the last, {among} for rows among others");
    model.extend(rows(2900..8900, "b"));
    expect(&table, &model);
}

#[test]
fn rows_out_of_order_are_refused_by_name_and_nothing_stays() {
    let (disk, db, table) = fresh();
    table.put("x", "y").unwrap();
    for (second, third) in [("b", "a"), ("b", "b")] {
        let before = (files(&disk), db.stats().sequence);
        let error = table.ingest([("a", "1"), (second, "2"), (third, "3")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let expected = format!(r#"row 3 of the ingest has the key "{third}", after "b""#);
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!((files(&disk), db.stats().sequence), before);
        assert_eq!(table.len().unwrap(), 1);
    }
    let mut ingest = table.begin_ingest(Overlap::Refuse).unwrap();
    ingest.push(b"b", b"").unwrap();
    assert_eq!(ingest.push(b"a", b"").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(ingest.push(b"c", b"").unwrap_err().to_string().contains("an earlier row"));
    assert!(ingest.commit().unwrap_err().to_string().contains("an earlier row"));
    let long = vec![0; quipu::Options::default().key_bytes_max + 1];
    assert_eq!(table.ingest([(long, "v")]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.len().unwrap(), 1);
}

#[test]
fn what_does_not_commit_leaves_no_files() {
    let (disk, db, table) = fresh();
    let before = files(&disk);
    let mut ingest = table.begin_ingest(Overlap::Refuse).unwrap();
    rows(0..3000, "a").iter().for_each(|(key, value)| ingest.push(key, value).unwrap());
    assert!(files(&disk) > before);
    drop(ingest);
    assert_eq!(files(&disk), before);
    let panicking = rows(0..3000, "a").into_iter().inspect(|(number, _)| assert!(*number < key(2000), "cut short"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.ingest(panicking)));
    assert!(caught.is_err());
    assert_eq!((files(&disk), table.len().unwrap()), (before, 0));
    // None at all is no commit.
    let sequence = db.stats().sequence;
    assert_eq!(table.ingest([("a", "b"); 0]).unwrap(), 0);
    assert_eq!(db.stats().sequence, sequence);
}

#[test]
fn tables_in_memory_read_only_databases_and_closures_have_none() {
    let (disk, db, table) = fresh();
    let in_memory = db.create_table("m", TableOptions { in_memory: true, ..TableOptions::default() }).unwrap();
    assert_eq!(in_memory.ingest([("a", "b")]).unwrap_err().kind(), ErrorKind::Invalid);
    let inside = db.write(|_| table.ingest([("a", "b")]).map(drop));
    assert_eq!(inside.unwrap_err().kind(), ErrorKind::Invalid);
    let mut ingest = table.begin_ingest(Overlap::Refuse).unwrap();
    ingest.push(b"a", b"b").unwrap();
    db.drop_table("t").unwrap();
    assert_eq!(ingest.commit().unwrap_err().kind(), ErrorKind::Missing);
    assert_eq!(table.ingest([("a", "b")]).unwrap_err().kind(), ErrorKind::Missing);
    drop((table, in_memory));
    db.close().unwrap();
    assert_sound(&disk);
    let db = Db::open(DIR, Options { read_only: true, ..options(&disk) }).unwrap();
    assert_eq!(db.ensure_table("m").unwrap().ingest([("a", "b")]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn others_write_meanwhile_and_only_a_changed_row_of_its_range_is_a_conflict() {
    for flushes in [false, true] {
        let (disk, db, table) = fresh();
        let mut model = rows((0..1000).step_by(2), "a");
        table.ingest(&model).unwrap();
        let begin = || {
            let mut ingest = table.begin_ingest(Overlap::Replace).unwrap();
            rows(400..600, "b").iter().for_each(|(key, value)| ingest.push(key, value).unwrap());
            ingest
        };
        let flush = || {
            if flushes {
                table.flush().unwrap();
            }
        };
        // On both sides, and the same value once more.
        let ingest = begin();
        for number in [0, 399, 601, 2000] {
            table.put(key(number), "other").unwrap();
            model.insert(key(number), b"other".to_vec());
        }
        table.put(key(500), &model[&key(500)]).unwrap();
        // What comes and goes has not changed.
        table.put(key(501), "brief").unwrap();
        flush();
        table.remove(key(501)).unwrap();
        flush();
        ingest.commit().unwrap();
        model.extend(rows(400..600, "b"));
        expect(&table, &model);
        for change in 0..3 {
            let ingest = begin();
            match change {
                0 => table.put(key(500), "c").unwrap(),
                1 => drop(table.remove(key(400)).unwrap()),
                _ => table.put([&key(450)[..], b"x"].concat(), "d").unwrap(),
            }
            flush();
            assert_eq!(ingest.commit().unwrap_err().kind(), ErrorKind::Conflict);
        }
        model.insert(key(500), b"c".to_vec());
        model.remove(&key(400));
        model.insert([&key(450)[..], b"x"].concat(), b"d".to_vec());
        expect(&table, &model);
        // It is one itself.
        let transaction = db.begin();
        assert_eq!(transaction.table(&table).unwrap().count(&key(400)..&key(600)).unwrap(), 200);
        transaction.table(&table).unwrap().put(key(9000), "e").unwrap();
        begin().commit().unwrap();
        model.extend(rows(400..600, "b"));
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
        let transaction = db.begin();
        assert_eq!(transaction.table(&table).unwrap().get(key(300)).unwrap().as_deref(), Some(&model[&key(300)][..]));
        transaction.table(&table).unwrap().put(key(450), "mine").unwrap();
        begin().commit().unwrap();
        transaction.commit().unwrap();
        model.insert(key(450), b"mine".to_vec());
        expect(&table, &model);
        expect_after_closing(&disk, db, table, &model);
    }
}

#[test]
fn snapshots_from_before_do_not_see_it_and_keep_their_rows() {
    let (_, db, table) = fresh();
    let old = rows(0..500, "a");
    table.ingest(&old).unwrap();
    let snapshot = db.snapshot();
    let new = rows(200..900, "b");
    replace(&table, &new).unwrap();
    table.compact().unwrap();
    let mut model = old.clone();
    model.extend(new);
    expect(&table, &model);
    compare(&snapshot.table(&table).unwrap(), &old, &all_measures().measures, &mut rng(1));
}

/// Writes that were not looked up lie above the run otherwise, and would hide its rows.
#[test]
fn unresolved_writes_in_its_range_are_resolved_before() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_table("t", TableOptions { blind_writes: true, ..all_measures() }).unwrap();
    let mut model = rows(0..100, "a");
    table.ingest(&model).unwrap();
    let mut batch = WriteBatch::new();
    for number in (50..150).step_by(5) {
        batch.put(&table, key(number), "blind");
        model.insert(key(number), b"blind".to_vec());
    }
    db.apply(batch).unwrap();
    table.remove(key(60)).unwrap();
    table.put(key(1000), "far").unwrap();
    model.remove(&key(60));
    model.insert(key(1000), b"far".to_vec());
    let new = rows(40..120, "b");
    replace(&table, &new).unwrap();
    model.extend(new);
    expect(&table, &model);
    drop(table);
    db.close().unwrap();
    expect(&open(&disk).ensure_table("t").unwrap(), &model);
}

/// A removal that turns out to remove nothing leaves no entry in memory, but one in the log, of unknown weight. Replay
/// must not lay it over rows that came later.
#[test]
fn a_blind_removal_that_came_to_nothing_hides_no_row_after_a_crash() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = db.create_table("t", TableOptions { blind_writes: true, ..all_measures() }).unwrap();
    let mut model = rows((0..100).step_by(2), "a");
    table.ingest(&model).unwrap();
    for number in [11, 13, 51] {
        table.remove(key(number)).unwrap();
    }
    assert!(db.stats().tables[0].unresolved > 0);
    table.resolve_blind_writes(..).unwrap();
    let between = rows((1..40).step_by(2), "b");
    // A flush would leave nothing of the removals in the log: there is none without an ingest before.
    table.flush().unwrap();
    for number in [15, 17] {
        table.remove(key(number)).unwrap();
    }
    table.resolve_blind_writes(..).unwrap();
    db.sync().unwrap();
    let flushed = db.stats().checkpoint;
    replace(&table, &between).unwrap();
    // Its file has one number; a flush would have taken another.
    assert_eq!(db.stats().checkpoint, flushed + 1);
    model.extend(between);
    expect(&table, &model);
    // The record of the ingest is lost, or kept.
    for mode in [CrashMode::LoseAll, CrashMode::KeepAll] {
        let found = disk.crash_with(mode, 0);
        assert_sound(&found);
        let read_only = Db::open(DIR, Options { read_only: true, ..options(&found) }).unwrap();
        expect(&read_only.ensure_table("t").unwrap(), &model);
        drop(read_only);
        expect(&open(&found).ensure_table("t").unwrap(), &model);
        expect(&open(&found).ensure_table("t").unwrap(), &model);
        assert_sound(&found);
    }
}

/// Rows before and after an ingest, in a database whose power is cut at every step: it is there as a whole if it was
/// acknowledged, with all commits before it, although those were not synced.
#[test]
fn a_power_cut_at_any_step_leaves_all_of_it_or_nothing() {
    let work = |disk: &SimDisk| -> quipu::Result<usize> {
        let options = Options { durability: Durability::Os, ..options(disk) };
        let mut done = 0;
        let db = Db::open(DIR, options)?;
        let table = db.create_table("t", all_measures())?;
        let mut step = |result: quipu::Result<()>| result.map(|()| done += 1);
        step(table.put(key(50), "before"))?;
        step(table.remove(key(50)).map(drop))?;
        step(table.ingest(rows(0..300, "a")).map(drop))?;
        step(table.put(key(100), "c"))?;
        step(table.put(key(900), "d"))?;
        step(replace(&table, &rows(200..600, "b")).map(drop))?;
        step(table.put(key(300), "e"))?;
        drop(table);
        db.close()?;
        Ok(done)
    };
    let states = {
        let mut states = vec![Model::new()];
        let mut next = |change: &dyn Fn(&mut Model)| {
            let mut model = states.last().unwrap().clone();
            change(&mut model);
            states.push(model);
        };
        next(&|_| ());
        next(&|model| drop(model.insert(key(50), b"before".to_vec())));
        next(&|model| drop(model.remove(&key(50))));
        next(&|model| model.extend(rows(0..300, "a")));
        next(&|model| drop(model.insert(key(100), b"c".to_vec())));
        next(&|model| drop(model.insert(key(900), b"d".to_vec())));
        next(&|model| model.extend(rows(200..600, "b")));
        next(&|model| drop(model.insert(key(300), b"e".to_vec())));
        states
    };
    // Commits 4 and 7 are ingests.
    let (first, second) = (4, 7);
    let whole = SimDisk::new();
    assert_eq!(work(&whole).unwrap(), states.len() - 2);
    let mut missing_records = 0;
    for step in 0..whole.steps() {
        let disk = SimDisk::new();
        disk.cut_at(step);
        let _ = work(&disk);
        for (mode, seed) in [(CrashMode::LoseAll, 0), (CrashMode::KeepAll, 0), (CrashMode::Random, step)] {
            let found = disk.crash_with(mode, seed);
            let Ok(db) = Db::open(DIR, Options { create: false, ..options(&found) }) else { continue };
            let sequence = db.stats().sequence as usize;
            let Some(table) = db.open_table("t").unwrap() else {
                assert_eq!(sequence, 0);
                continue;
            };
            expect(&table, &states[sequence]);
            let rows_there = table.len().unwrap();
            missing_records += u64::from(sequence == first || sequence == second);
            // It goes on, and is sound after another cut.
            table.put("after", "v").unwrap();
            drop(table);
            db.sync().unwrap();
            drop(db);
            let again = found.crash_with(CrashMode::LoseAll, 0);
            assert_sound(&again);
            let db = Db::open(DIR, options(&again)).unwrap();
            assert_eq!(db.stats().sequence as usize, sequence + 1);
            assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), rows_there + 1);
        }
    }
    assert!(missing_records > 0);
}

/// An older manifest lacks the files that the log speaks of: nothing is guessed.
#[test]
fn an_older_manifest_is_told_from_the_log() {
    let (disk, db, table) = fresh();
    table.put("x", "y").unwrap();
    table.flush().unwrap();
    let path = Path::new(DIR).join("MANIFEST");
    let older = disk.read_file(&path).unwrap();
    table.ingest(rows(0..10, "a")).unwrap();
    drop(table);
    db.close().unwrap();
    disk.write_file(&path, older);
    let error = Db::open(DIR, options(&disk)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("an ingest of rows that the manifest does not name"), "{error}");
    // A repair opens it again, and says that rows are gone.
    let report = quipu::files::repair(DIR, &options(&disk), &mut |_| ()).unwrap();
    assert_eq!((report.lost.len(), report.faults.len()), (1, 0), "{report:?}");
    assert!(report.lost[0].error.contains("commit 3 brought rows"), "{report:?}");
    assert_eq!(report.lost[0].low, Some(key(0)));
    assert_eq!(report.lost[0].high, Some([&key(9)[..], &[0]].concat()));
    let db = open(&disk);
    assert_eq!((db.ensure_table("t").unwrap().len().unwrap(), db.stats().sequence), (1, 3));
}

/// Each call of the disk fails once, or all do from there on. The ingest has happened or not, and what it wrote is gone
/// if it has not, at once or with the next flush.
#[test]
fn a_call_of_the_disk_that_fails_leaves_all_of_it_or_nothing() {
    let new = rows((0..600).step_by(2), "b");
    let old = rows(100..300, "a");
    let mut both = old.clone();
    both.extend(new.clone());
    for fails_for_good in [false, true] {
        for step in 0.. {
            let (disk, db, table) = fresh();
            table.ingest(&old).unwrap();
            table.put(key(50), "in memory").unwrap();
            table.remove(key(50)).unwrap();
            let (files_before, sequence) = (files(&disk), db.stats().sequence);
            let first = disk.steps() + step;
            let kind = std::io::ErrorKind::StorageFull;
            (first..first + if fails_for_good { 1000 } else { 1 }).for_each(|at| disk.fail_at(at, kind));
            let result = replace(&table, &new);
            if result.is_ok() && disk.steps() <= first {
                break;
            }
            let is_there = db.stats().sequence > sequence;
            expect(&table, if is_there { &both } else { &old });
            assert!(is_there || result.is_err());
            if result.is_err() && !is_there && !fails_for_good && table.flush().is_ok() {
                assert_eq!(files(&disk), files_before, "step {step}");
            }
            drop((table, db));
            // What is refused may have happened; what was seen stays.
            let found = disk.kill();
            assert_sound(&found);
            let db = open(&found);
            let table = db.ensure_table("t").unwrap();
            let is_there = is_there || table.len().unwrap() == both.len() as u64;
            expect(&table, if is_there { &both } else { &old });
        }
    }
}

/// The log is cut between a row that came and its end, and the ingest that came after both stays, as it is in a run.
#[test]
fn a_repair_that_cuts_the_log_counts_no_row_of_an_ingest_twice() {
    let (disk, db, table) = fresh();
    let old = rows(100..300, "a");
    old.iter().for_each(|(key, value)| table.put(key, value).unwrap());
    table.flush().unwrap();
    table.put("kkkkkkkk", "came").unwrap();
    table.remove("kkkkkkkk").unwrap();
    table.ingest([("kkkkkkkk", "stays")]).unwrap();
    table.put("z", "last").unwrap();
    drop(table);
    db.close().unwrap();
    // The second time that the log has the key is the removal.
    let has_key = |bytes: &[u8]| -> Vec<usize> {
        bytes.windows(8).enumerate().filter(|(_, window)| *window == b"kkkkkkkk").map(|(at, _)| at).collect()
    };
    let logs = disk.file_names().into_iter().filter(|path| path.to_string_lossy().contains("/log-"));
    let (path, at) = logs
        .filter_map(|path| Some((path.clone(), *has_key(&disk.read_file(&path)?).get(1)?)))
        .next()
        .expect("a log with both records");
    disk.flip_bit(&path, at as u64 * 8);
    assert!(Db::open(DIR, options(&disk)).is_err());
    let report = quipu::files::repair(DIR, &options(&disk), &mut |_| ()).unwrap();
    assert!(report.log.is_some() && report.faults.is_empty(), "{report:?}");
    assert_sound(&disk);
    let mut model = old;
    model.insert(b"kkkkkkkk".to_vec(), b"stays".to_vec());
    expect(&open(&disk).ensure_table("t").unwrap(), &model);
}
