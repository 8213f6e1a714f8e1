//! Goal: the removal of a range over runs costs the pages at its ends, leaves no rows, and is right whatever
//! else happens beside it. Method: figures of large ranges; all short orders of puts, removals, flushes, merges,
//! ingests and checkpoints, each with a kill and a power loss at its end; a removal at each call of the disk that a
//! flush, a checkpoint and a merge make, from within that call. Everything is compared with a map, and `check` finds
//! nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::model_map::{Model, compare, options, rng};
use quipu::files::check;
use quipu::ingest::Overlap;
use quipu::io::Disk;
use quipu::io::sim::{CrashMode, DiskCall, SimDisk};
use quipu::latched::{Action, LatchedWrite, PageFaults};
use quipu::{
    Db, Durability, ErrorKind, Measures, Options, ReadableTable, SumField, Table, TableOptions, WritableTable,
};

const DIR: &str = "/db";
const ALL_MEASURES: Measures =
    Measures { bytes: true, hash: true, hash_seed: 0, sum: Some(SumField::BigEndian { at: 0 }) };

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn put(table: &Table, model: &mut Model, numbers: impl Iterator<Item = u32>, value: u8) {
    for number in numbers {
        let value = vec![value; 9 + number as usize % 5];
        table.put(key(number), &value).unwrap();
        model.insert(key(number), value);
    }
}

fn remove(table: &Table, model: &mut Model, low: Option<u32>, high: Option<u32>) {
    let (low, high) = (low.map(key).unwrap_or_default(), high.map(key));
    let is_in = |key: &[u8]| *low <= *key && high.as_ref().is_none_or(|high| key < high);
    let count = model.len();
    model.retain(|key, _| !is_in(key));
    let removed = match &high {
        Some(high) => table.remove_range(&low..high),
        None => table.remove_range(&low..),
    };
    assert_eq!(removed.unwrap(), (count - model.len()) as u64);
}

fn runs(disk: &SimDisk) -> BTreeSet<String> {
    disk.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.starts_with("run-")).collect()
}

fn assert_sound(disk: &SimDisk, options: &Options, rows: usize) {
    let report = check(DIR, &Options { disk: Arc::new(disk.clone()), ..options.clone() }, &mut |_| ()).unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
    assert_eq!(report.tables[0].1.rows, rows as i64);
}

/// Two runs over each other, and rows in memory over both: 30,000 rows.
fn large(disk: &SimDisk, options: &Options) -> (Db, Table, Model) {
    let db = Db::open(DIR, options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut model = Model::new();
    put(&table, &mut model, (0..30_000).filter(|number| number % 3 != 0), 1);
    table.flush().unwrap();
    put(&table, &mut model, (0..30_000).step_by(3), 2);
    put(&table, &mut model, (1..30_000).step_by(30), 3);
    table.flush().unwrap();
    put(&table, &mut model, (0..30_000).step_by(500), 4);
    assert_eq!((db.stats().tables[0].runs, runs(disk).is_empty()), (2, false));
    (db, table, model)
}

fn large_options(disk: &SimDisk) -> Options {
    Options { excised_rows_min: 256, run_file_bytes: 1 << 20, cache_bytes: 64 << 10, ..options(disk) }
}

#[test]
fn a_large_range_costs_the_pages_at_its_ends() {
    let disk = SimDisk::new();
    let options = large_options(&disk);
    let (db, table, mut model) = large(&disk, &options);
    let (before, reads) = (db.stats(), disk.reads());
    remove(&table, &mut model, Some(2_000), Some(22_000));
    let after = db.stats();
    // Two paths in each of two runs.
    assert!(disk.reads() - reads <= 2 * 2 * 8, "{} reads", disk.reads() - reads);
    assert!(
        after.memory_bytes() <= before.memory_bytes() + 4 * 256 && after.log_tail_bytes - before.log_tail_bytes < 200
    );
    assert_eq!((after.tables[0].runs, after.tables[0].excisions), (2, 2));
    assert_eq!(after.tables[0].excised, 20_000 + 667);
    compare(&table, &model, &Measures::ROWS, &mut rng(1));
    // Questions within what was removed need no page.
    let (rows, cost) = table.with_cost(|table| table.count(&key(5_000)..&key(20_000))).unwrap();
    assert_eq!((rows, cost.pages), (0, 0));
    assert_eq!(table.with_cost(|table| table.get(key(7_777))).unwrap().1.pages, 0);
    // The same after a restart, from the log alone, and after a flush, from the manifest.
    for _ in 0..2 {
        assert_sound(&disk.kill(), &options, model.len());
        let again = disk.kill();
        let db = Db::open(DIR, Options { disk: Arc::new(again.clone()), ..options.clone() }).unwrap();
        let again = db.ensure_table("t").unwrap();
        compare(&again, &model, &Measures::ROWS, &mut rng(2));
        assert_eq!(db.stats().tables[0].excisions, 2);
        drop((again, db));
        table.flush().unwrap();
    }
    // A merge leaves nothing of it.
    table.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.tables[0].runs, stats.tables[0].excisions, stats.tables[0].excised), (1, 0, 0));
    compare(&table, &model, &Measures::ROWS, &mut rng(3));
}

#[test]
fn a_table_of_which_nothing_is_left_is_in_memory_again() {
    let disk = SimDisk::new();
    let options = large_options(&disk);
    let (db, table, mut model) = large(&disk, &options);
    let snapshot = table.snapshot().unwrap();
    let kept = model.clone();
    remove(&table, &mut model, None, None);
    let stats = db.stats().tables[0].clone();
    assert_eq!((stats.runs, stats.layers, stats.excisions, stats.run_bytes), (0, 1, 0, 0));
    compare(&table, &model, &Measures::ROWS, &mut rng(1));
    // The short ways of a table in memory are there again.
    put(&table, &mut model, 0..500, 5);
    assert_eq!(db.latched().read().table(&table).unwrap().get_ref(key(7)).unwrap(), Some(&model[&key(7)][..]));
    assert_eq!(table.remove_range(&key(10)..&key(20)).unwrap(), 10);
    (10..20).for_each(|number| drop(model.remove(&key(number))));
    compare(&table, &model, &Measures::ROWS, &mut rng(2));
    compare(&snapshot, &kept, &Measures::ROWS, &mut rng(3));
    drop(snapshot);
    // The files go with the next manifest.
    let reopened = |model: &Model| {
        assert_sound(&disk.kill(), &options, model.len());
        let db = Db::open(DIR, Options { disk: Arc::new(disk.kill()), ..options.clone() }).unwrap();
        compare(&db.ensure_table("t").unwrap(), model, &Measures::ROWS, &mut rng(4));
    };
    reopened(&model);
    assert!(!runs(&disk).is_empty());
    // A merge of nothing has the manifest name what is left.
    table.compact().unwrap();
    assert!(runs(&disk).is_empty());
    reopened(&model);
    db.checkpoint().unwrap();
    reopened(&model);
    assert_eq!((db.stats().tables[0].runs, runs(&disk).len()), (0, 1));
    // And it goes to disk again.
    table.flush().unwrap();
    put(&table, &mut model, 100..600, 6);
    table.flush().unwrap();
    assert_eq!(db.stats().tables[0].runs, 2);
    compare(&table, &model, &Measures::ROWS, &mut rng(5));
    reopened(&model);
}

/// Files in the midst of a range go from the run at once, and from the disk with the next manifest.
/// A range that began at another key before the same entries took its bytes from the one before it: `check` found that
/// they are not those of its key. Found by the storm.
#[test]
fn a_range_that_grows_over_no_more_entries_has_the_bytes_of_its_own_keys() {
    let (narrow, wide) = ((Some(50), Some(120)), (None, Some(125)));
    let (upper, last) = ((Some(180), Some(250)), (Some(175), None));
    for order in [[narrow, wide, upper, last], [wide, narrow, last, upper]] {
        let disk = SimDisk::new();
        let options = options(&disk);
        let db = Db::open(DIR, options.clone()).unwrap();
        let (table, mut model) = (db.ensure_table("t").unwrap(), Model::new());
        put(&table, &mut model, 100..200, 1);
        table.flush().unwrap();
        for (low, high) in order {
            remove(&table, &mut model, low, high);
            db.checkpoint().unwrap();
            assert_sound(&disk.kill(), &options, model.len());
        }
        compare(&table, &model, &Measures::ROWS, &mut rng(1));
    }
}

#[test]
fn files_of_which_nothing_is_left_go() {
    let disk = SimDisk::new();
    let options = Options { run_file_bytes: 8192, ..large_options(&disk) };
    let (db, table, mut model) = large(&disk, &options);
    table.flush().unwrap();
    table.compact().unwrap();
    let (before, bytes) = (runs(&disk).len(), db.stats().tables[0].run_bytes);
    assert!(before > 20);
    remove(&table, &mut model, Some(3_000), Some(27_000));
    assert!(db.stats().tables[0].run_bytes < bytes / 3);
    let kept = table.snapshot().unwrap();
    db.checkpoint().unwrap();
    assert!(runs(&disk).len() < before / 3, "{} of {before} files", runs(&disk).len());
    compare(&kept, &model, &Measures::ROWS, &mut rng(1));
    assert_sound(&disk.kill(), &options, model.len());
}

/// A run has few of them, however many small ranges are removed: the others take tombstones.
#[test]
fn the_number_of_excisions_is_bounded() {
    let disk = SimDisk::new();
    let options = Options { excised_rows_min: 4, ..large_options(&disk) };
    let db = Db::open(DIR, options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut model = Model::new();
    put(&table, &mut model, 0..30_000, 1);
    table.flush().unwrap();
    for number in (0..30_000).step_by(30) {
        remove(&table, &mut model, Some(number), Some(number + 10));
    }
    // 64 of four rows or more, 64 of eight or more, and then none of ten.
    assert_eq!(db.stats().tables[0].excisions, 128);
    compare(&table, &model, &Measures::ROWS, &mut rng(1));
    remove(&table, &mut model, Some(20_000), Some(20_100));
    assert_eq!(db.stats().tables[0].excisions, 129);
    assert_sound(&disk.kill(), &options, model.len());
}

/// What a table goes through in one of the short orders.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put,
    /// A part of the rows, with some that `Put` and `Ingest` bring.
    RemoveSome,
    RemoveAll,
    Latched,
    Flush,
    Merge,
    Ingest,
    Checkpoint,
}

const STEPS: [Step; 8] = [
    Step::Put,
    Step::RemoveSome,
    Step::RemoveAll,
    Step::Latched,
    Step::Flush,
    Step::Merge,
    Step::Ingest,
    Step::Checkpoint,
];

fn take(step: Step, number: u32, db: &Db, table: &Table, model: &mut Model) {
    match step {
        Step::Put => {
            put(table, model, [10, 14, 35, 50 + number].into_iter(), 10 + number as u8);
            table.delete(key(15)).unwrap();
            model.remove(&key(15));
        }
        Step::RemoveSome => remove(table, model, Some(12), Some(40)),
        Step::RemoveAll => remove(table, model, None, None),
        Step::Latched => {
            let write = |latched: &mut LatchedWrite<'_>| {
                latched.put(table, &key(21), b"undone")?;
                latched.remove_range(table, ..)?;
                latched.update(table, &key(22), |_, _| Action::Remove)?;
                latched.put(table, &key(23), b"undone")?;
                latched.remove_range(table, &key(20)..)?;
                latched.rollback_to_savepoint()?;
                // Both sides of the removal are one commit.
                latched.put(table, &key(13), b"before")?;
                latched.remove_range(table, &key(11)..&key(30))?;
                latched.put(table, &key(20), b"behind!!").map(|_| ())
            };
            let mut faults = PageFaults::default();
            loop {
                let mut latched = db.latched().write().unwrap();
                latched.lend(&faults);
                latched.set_savepoint();
                match write(&mut latched) {
                    Ok(()) => break latched.commit().unwrap().wait(Durability::Sync).unwrap(),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::PageFault),
                }
                latched.rollback_to_savepoint().unwrap();
                latched.take_faults(&mut faults);
                drop(latched);
                db.latched().load(&mut faults).unwrap();
            }
            model.retain(|other, _| !(key(11)..key(30)).contains(other));
            model.insert(key(20), b"behind!!".to_vec());
        }
        Step::Flush => table.flush().unwrap(),
        Step::Merge => table.compact().unwrap(),
        Step::Ingest => {
            let mut ingest = table.begin_ingest(Overlap::Replace).unwrap();
            for number in [16, 17, 36, 41] {
                ingest.push(&key(number), b"ingested").unwrap();
                model.insert(key(number), b"ingested".to_vec());
            }
            ingest.commit().unwrap();
        }
        Step::Checkpoint => drop(db.checkpoint().unwrap()),
    }
}

/// One order of steps over two runs, and what a kill and a power loss leave.
fn live_through(order: &[Step], table_options: &TableOptions) {
    let disk = SimDisk::new();
    let options = Options { durability: Durability::Sync, ..options(&disk) };
    let db = Db::open(DIR, options.clone()).unwrap();
    let table = db.create_table("t", table_options.clone()).unwrap();
    let mut model = Model::new();
    put(&table, &mut model, (0..60).step_by(2), 1);
    table.flush().unwrap();
    put(&table, &mut model, (0..60).step_by(3), 2);
    table.flush().unwrap();
    put(&table, &mut model, (1..60).step_by(10), 3);
    for (number, step) in order.iter().enumerate() {
        take(*step, number as u32, &db, &table, &mut model);
    }
    let verify = |table: &Table| {
        let mut rows = model.iter();
        table
            .for_each(.., |key, value| {
                assert_eq!(rows.next(), Some((&key.to_vec(), &value.to_vec())), "{order:?}");
                true
            })
            .unwrap();
        assert_eq!(rows.next(), None, "{order:?}");
        assert_eq!(table.len().unwrap(), model.len() as u64, "{order:?}");
        for (rank, key) in model.keys().enumerate().step_by(3) {
            assert_eq!(table.rank(key).unwrap(), rank as u64, "{order:?}");
            assert_eq!(table.nth(.., rank as u64).unwrap().unwrap().key[..], key[..], "{order:?}");
        }
        let hash = |rows: &dyn Fn(u32) -> bool| model.keys().filter(|key| rows(number_of(key))).count() as u64;
        assert_eq!(table.count(&key(12)..&key(40)).unwrap(), hash(&|number| (12..40).contains(&number)), "{order:?}");
    };
    verify(&table);
    // All is synced: neither a kill nor a power loss may lose anything.
    for left in [disk.kill(), disk.crash_with(CrashMode::LoseAll, 1)] {
        let options = Options { disk: Arc::new(left.clone()), ..options.clone() };
        let report = check(DIR, &options, &mut |_| ()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new(), "{order:?}");
        let db = Db::open(DIR, options).unwrap();
        verify(&db.ensure_table("t").unwrap());
        // What is found can be worked with.
        let table = db.ensure_table("t").unwrap();
        table.put(key(13), "more").unwrap();
        table.flush().unwrap();
        table.compact().unwrap();
        assert_eq!(table.len().unwrap(), model.len() as u64 + u64::from(!model.contains_key(&key(13))), "{order:?}");
    }
}

fn number_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().unwrap())
}

#[test]
fn every_short_order_of_removals_and_jobs_is_right_and_survives_a_crash() {
    let tables = [
        TableOptions::default(),
        TableOptions { blind_writes: true, ..TableOptions::default() },
        TableOptions { measures: ALL_MEASURES, ..TableOptions::default() },
    ];
    let count = STEPS.len();
    for number in 0..count.pow(4) {
        let order: Vec<Step> = (0..4).map(|place| STEPS[number / count.pow(place) % count]).collect();
        live_through(&order, &tables[number % 3]);
    }
}

/// What is to happen at a call of a disk, and the number of calls.
#[derive(Default)]
struct Interruption {
    calls: usize,
    hook: Option<Box<dyn FnOnce() + Send>>,
}

/// Does this at the call of that number from now on. Nothing is left to do once it was done.
fn interrupt_at(disk: &SimDisk, call: usize, hook: impl FnOnce() + Send + 'static) -> Arc<Mutex<Interruption>> {
    let interruption = Arc::new(Mutex::new(Interruption { calls: 0, hook: Some(Box::new(hook)) }));
    let told = interruption.clone();
    disk.watch(move |kind| {
        let hook = {
            let mut told = told.lock().unwrap();
            told.calls += usize::from(kind != DiskCall::Read);
            if told.calls > call { told.hook.take() } else { None }
        };
        if let Some(hook) = hook {
            hook();
        }
    });
    interruption
}

/// A job, within which a range is removed.
#[derive(Clone, Copy, Debug)]
enum Job {
    Flush,
    Checkpoint,
    Merge,
    Rewrite,
}

fn interrupt(job: Job, range: (Option<u32>, Option<u32>), call: usize, table_options: &TableOptions) -> bool {
    let what = format!("{job:?}, {range:?}, call {call}, {table_options:?}");
    let disk = SimDisk::new();
    let options = Options { run_file_bytes: 600, ..options(&disk) };
    let db = Db::open(DIR, options.clone()).unwrap();
    let table = db.create_table("t", table_options.clone()).unwrap();
    let mut model = Model::new();
    put(&table, &mut model, (0..120).step_by(2), 1);
    table.flush().unwrap();
    put(&table, &mut model, (0..120).step_by(5), 2);
    put(&table, &mut model, 40..44, 2);
    remove(&table, &mut model, Some(100), Some(106));
    table.flush().unwrap();
    put(&table, &mut model, (0..120).step_by(7), 3);
    let (other, map) = (table.clone(), Arc::new(Mutex::new(model)));
    let meanwhile = map.clone();
    let interruption = interrupt_at(&disk, call, move || {
        let mut model = meanwhile.lock().unwrap();
        remove(&other, &mut model, range.0, range.1);
        // Rows that come afterwards stay, also where it was.
        put(&other, &mut model, [20, 45, 119].into_iter(), 4);
    });
    match job {
        Job::Flush => table.flush().unwrap(),
        Job::Checkpoint => drop(db.checkpoint().unwrap()),
        Job::Merge => table.compact().unwrap(),
        Job::Rewrite => table.rewrite(table.options().layout, &mut |_| ()).unwrap(),
    }
    let is_interrupted = interruption.lock().unwrap().hook.is_none();
    disk.stop_watching();
    let mut model = map.lock().unwrap().clone();
    let verify = |table: &Table, model: &Model| {
        compare(table, model, &table.options().measures, &mut rng(call as u64));
        assert_eq!(table.len().unwrap(), model.len() as u64, "{what}");
    };
    verify(&table, &model);
    let reopened = |model: &Model| {
        let options = Options { disk: Arc::new(disk.kill()), ..options.clone() };
        let report = check(DIR, &options, &mut |_| ()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new(), "{what}");
        let db = Db::open(DIR, options).unwrap();
        verify(&db.ensure_table("t").unwrap(), model);
    };
    reopened(&model);
    put(&table, &mut model, (0..120).step_by(11), 5);
    db.checkpoint().unwrap();
    table.compact().unwrap();
    verify(&table, &model);
    reopened(&model);
    // No file is left that no manifest names.
    let manifest = disk.read_file(format!("{DIR}/MANIFEST")).unwrap();
    for name in runs(&disk) {
        assert!(manifest.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name} is an orphan: {what}");
    }
    is_interrupted
}

#[test]
fn a_range_can_be_removed_at_any_moment_of_a_job() {
    let tables = [
        TableOptions::default(),
        TableOptions { blind_writes: true, ..TableOptions::default() },
        TableOptions { measures: ALL_MEASURES, ..TableOptions::default() },
    ];
    for job in [Job::Flush, Job::Checkpoint, Job::Merge, Job::Rewrite] {
        for (number, range) in
            [(Some(30), Some(90)), (Some(39), Some(46)), (None, Some(60)), (Some(2), None), (None, None)]
                .into_iter()
                .enumerate()
        {
            let mut call = 0;
            while interrupt(job, range, call, &tables[(number + call) % 3]) {
                call += 1;
            }
            assert!(call > 3, "{job:?} makes {call} calls");
        }
    }
}

/// What a transaction has read must be there when it commits, in runs too.
#[test]
fn a_removed_range_conflicts_with_what_was_read_of_it() {
    type Ask = fn(&quipu::TableTransaction<'_>) -> quipu::Result<()>;
    let asked: [(&str, Ask); 6] = [
        ("count", |table| table.count(&key(10)..&key(20)).map(|_| ())),
        ("get", |table| table.get(key(15)).map(|_| ())),
        ("contains", |table| table.contains(key(15)).map(|_| ())),
        ("scan", |table| table.for_each(&key(10)..&key(20), |_, _| true)),
        ("tally", |table| table.tally(&key(10)..&key(20)).map(|_| ())),
        ("nth", |table| table.nth(.., 15).map(|_| ())),
    ];
    for (name, ask) in asked {
        for (low, high, conflicts) in [(12, 16, true), (0, 100, true), (40, 60, false)] {
            let disk = SimDisk::new();
            let db = Db::open(DIR, options(&disk)).unwrap();
            let (table, other) = (db.ensure_table("t").unwrap(), db.ensure_table("other").unwrap());
            put(&table, &mut Model::new(), 0..100, 1);
            table.flush().unwrap();
            let transaction = db.begin();
            ask(&transaction.table(&table).unwrap()).unwrap();
            transaction.table(&other).unwrap().put("mark", "").unwrap();
            assert_eq!(table.remove_range(&key(low)..&key(high)).unwrap(), u64::from(high - low));
            assert_eq!(db.stats().tables.iter().map(|table| table.excisions).sum::<usize>(), usize::from(high < 100));
            let committed = transaction.commit();
            let kind = committed.map_err(|error| error.kind());
            let expected = if conflicts { Err(ErrorKind::Conflict) } else { Ok(()) };
            assert_eq!(kind, expected, "{name} of a range, {low} to {high} removed");
        }
    }
}

/// An ingest whose range was emptied meanwhile ends with a conflict; one that had nothing there goes on.
#[test]
fn an_ingest_beside_a_removal_sees_it() {
    let disk = SimDisk::new();
    let db = Db::open(DIR, options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut model = Model::new();
    put(&table, &mut model, (0..100).filter(|number| !(40..60).contains(number)), 1);
    table.flush().unwrap();
    let mut ingest = table.begin_ingest(Overlap::Replace).unwrap();
    (10..20).for_each(|number| ingest.push(&key(number), b"new").unwrap());
    remove(&table, &mut model, Some(15), Some(30));
    assert_eq!(ingest.commit().unwrap_err().kind(), ErrorKind::Conflict);
    compare(&table, &model, &Measures::ROWS, &mut rng(1));
    let mut ingest = table.begin_ingest(Overlap::Refuse).unwrap();
    for number in 45..55 {
        ingest.push(&key(number), b"new").unwrap();
        model.insert(key(number), b"new".to_vec());
    }
    // Around the range of the ingest, in which there is nothing.
    model.retain(|other, _| !(key(30)..key(70)).contains(other) || (key(45)..key(55)).contains(other));
    assert_eq!(table.remove_range(&key(30)..&key(70)).unwrap(), 20);
    ingest.commit().unwrap();
    compare(&table, &model, &Measures::ROWS, &mut rng(2));
    assert_sound(&disk.kill(), &options(&disk), model.len());
}

/// A latched write notes the pages at the ends, and changes nothing before they are there.
#[test]
fn a_latched_removal_waits_for_no_file() {
    let disk = SimDisk::new();
    let options = Options { cache_bytes: 0, ..large_options(&disk) };
    let (db, table, mut model) = large(&disk, &options);
    let mut faults = PageFaults::default();
    let mut attempts = 0;
    let removed = loop {
        attempts += 1;
        let mut latched = db.latched().write().unwrap();
        latched.lend(&faults);
        match latched.remove_range(&table, &key(1_000)..&key(25_000)) {
            Ok(removed) => {
                latched.commit().unwrap().wait(Durability::Os).unwrap();
                break removed;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::PageFault),
        }
        latched.take_faults(&mut faults);
        drop(latched);
        db.latched().load(&mut faults).unwrap();
    };
    assert!((2..10).contains(&attempts), "{attempts} attempts");
    assert_eq!(removed, 24_000);
    model.retain(|other, _| !(key(1_000)..key(25_000)).contains(other));
    compare(&table, &model, &Measures::ROWS, &mut rng(1));
    assert_eq!(db.stats().tables[0].excisions, 2);
}
