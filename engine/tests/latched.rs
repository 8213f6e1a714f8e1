//! Goal: nothing waits for a file under the latch; what a latched write lacks can be loaded elsewhere and lent to the
//! next attempt; what it wrote since its savepoint can be taken back. Method: small tables in runs on the simulated
//! disk, which counts reads, and a cache with hardly any room.

use std::sync::Arc;

use crate::model_map::{Model, compare, rng, seeds, value};
use quipu::io::sim::SimDisk;
use quipu::latched::{Action, LatchedWrite, PageFaults};
use quipu::{
    Db, Durability, Error, ErrorKind, InnerPages, Measures, Options, ReadableTable, SumField, Table, TableOptions,
    WritableTable,
};
use rand::RngExt;

const ROWS: u32 = 2000;

fn options(disk: &SimDisk, cache_bytes: u64) -> Options {
    Options { disk: Arc::new(disk.clone()), cache_bytes, ..crate::model_map::options(disk) }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A table with two runs, the upper of which overwrites and removes some rows, and some rows in memory.
fn in_runs(db: &Db) -> (Table, Model) {
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    let table = db.create_table("t", TableOptions { measures, ..TableOptions::default() }).unwrap();
    let mut model = Model::new();
    for number in 0..ROWS {
        table.put(key(number), [number as u8; 20]).unwrap();
        model.insert(key(number).to_vec(), vec![number as u8; 20]);
    }
    table.flush().unwrap();
    for number in (0..ROWS).step_by(7) {
        table.remove(key(number)).unwrap();
        table.put(key(number + 1), [1; 30]).unwrap();
        model.remove(&key(number)[..]);
        model.insert(key(number + 1).to_vec(), vec![1; 30]);
    }
    table.flush().unwrap();
    table.put(key(5), "in memory").unwrap();
    model.insert(key(5).to_vec(), b"in memory".to_vec());
    (table, model)
}

/// Opens anew, so that nothing is in the cache.
fn reopened(db: Db, disk: &SimDisk, cache_bytes: u64) -> (Db, Table) {
    drop(db);
    let db = Db::open("/db", options(disk, cache_bytes)).unwrap();
    let table = db.open_table("t").unwrap().unwrap();
    (db, table)
}

#[test]
fn under_the_latch_no_page_is_read_and_each_attempt_gets_further() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 64 << 10)).unwrap();
    in_runs(&db);
    drop(db);
    // A cache of nothing: what is loaded stays with the faults alone.
    for cache_bytes in [64 << 10, 0] {
        let (db, table) = reopened(Db::open("/db", options(&disk, 0)).unwrap(), &disk, cache_bytes);
        let mut faults = PageFaults::default();
        let mut attempts = 0;
        let found = loop {
            let latched = db.latched().read();
            latched.lend(&faults);
            let reads = disk.reads();
            let ask = || -> Result<_, Error> {
                let view = latched.table(&table)?;
                Ok((view.get_ref(key(900))?.map(<[u8]>::len), view.count(&key(100)[..]..)?, view.nth(.., 1000)?))
            };
            let answer = ask();
            assert_eq!(disk.reads(), reads, "nothing is read under the latch");
            match answer {
                Ok(found) => break found,
                Err(error) => assert_eq!(error.kind(), ErrorKind::PageFault, "{error}"),
            }
            latched.take_faults(&mut faults);
            drop(latched);
            assert!(!faults.is_empty());
            let before = faults.bytes();
            db.latched().load(&mut faults).unwrap();
            assert!(faults.is_empty() && (faults.bytes() > before || cache_bytes > 0), "it gets further");
            attempts += 1;
            assert!(attempts < 100, "it gets no further");
        };
        assert_eq!(found.0, Some(20));
        assert_eq!(found.1, table.count(&key(100)[..]..).unwrap());
        assert_eq!(found.2, table.nth(.., 1000).unwrap());
    }
}

#[test]
fn what_lies_in_memory_needs_no_page() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 64 << 10)).unwrap();
    in_runs(&db);
    let (db, table) = reopened(db, &disk, 64 << 10);
    let mut latched = db.latched().write().unwrap();
    assert!(latched.may_fault());
    let keys = [key(5), key(5)];
    let mut seen = Vec::new();
    latched
        .update_many(&table, &keys, |number, old, new| {
            seen.push(old.map(<[u8]>::to_vec));
            new.push(number as u8);
            if number == 0 { Action::Remove } else { Action::Put }
        })
        .unwrap();
    assert_eq!(seen, [Some(b"in memory".to_vec()), None]);
    let error = latched.put(&table, &key(6), b"cold").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PageFault);
    latched.commit().unwrap().wait(Durability::Os).unwrap();
    assert_eq!(table.get(key(5)).unwrap().as_deref(), Some(&[1][..]));
    assert_eq!(table.get(key(6)).unwrap().as_deref(), Some(&[6; 20][..]));
}

#[test]
fn many_keys_report_all_their_pages_at_once_and_nothing_is_written_before() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 1 << 20)).unwrap();
    in_runs(&db);
    let (db, table) = reopened(db, &disk, 1 << 20);
    table.preload(InnerPages::Preloaded).unwrap();
    let keys: Vec<[u8; 4]> = (0..ROWS).step_by(100).map(key).collect();
    let mut latched = db.latched().write().unwrap();
    let put = |latched: &mut LatchedWrite<'_>| {
        latched.update_many(&table, &keys, |number, _, new| {
            new.push(number as u8);
            Action::Put
        })
    };
    let (number, error) = put(&mut latched).unwrap_err();
    assert_eq!((number, error.kind()), (0, ErrorKind::PageFault));
    let mut faults = PageFaults::default();
    latched.take_faults(&mut faults);
    assert!(faults.len() >= keys.len() / 2, "a leaf each, {} pages", faults.len());
    drop(latched);
    let mut rounds = 0;
    loop {
        db.latched().load(&mut faults).unwrap();
        rounds += 1;
        let mut latched = db.latched().write().unwrap();
        latched.lend(&faults);
        if put(&mut latched).is_ok() {
            latched.commit().unwrap().wait(Durability::Os).unwrap();
            break;
        }
        latched.take_faults(&mut faults);
    }
    assert!(rounds <= 3, "a run after the other at most, {rounds} rounds");
    assert_eq!(table.get(keys[3]).unwrap().as_deref(), Some(&[3][..]));
}

#[test]
fn what_was_written_since_the_savepoint_is_taken_back() {
    for seed in seeds(6) {
        let mut rng = rng(seed);
        let disk = SimDisk::new();
        let db = Db::open("/db", options(&disk, 1 << 20)).unwrap();
        let (table, model) = in_runs(&db);
        let plain = db.ensure_table("plain").unwrap();
        let mut rows = Model::new();
        for number in 0..300 {
            plain.put(key(number), [9; 10]).unwrap();
            rows.insert(key(number).to_vec(), vec![9; 10]);
        }
        let snapshot = seed.is_multiple_of(3).then(|| db.snapshot());
        let measures = table.options().measures;
        let before = (table.tally(..).unwrap(), plain.tally(..).unwrap());
        // Pages are there, so that it is taken back for no other reason than that.
        table.for_each(.., |_, _| true).unwrap();
        let kept: u32 = rng.random_range(0..ROWS);
        let ((), commit) = db
            .latched()
            .write_with(|latched| {
                latched.put(&table, &key(kept), b"kept")?;
                latched.set_savepoint();
                for _ in 0..rng.random_range(1..200) {
                    let number = rng.random_range(0..ROWS + 50);
                    let value = value(&mut rng);
                    match rng.random_range(0..6) {
                        _ if rng.random_ratio(1, 60) => drop(latched.remove_range(&plain, ..)?),
                        _ if rng.random_ratio(1, 60) => drop(latched.remove_range(&table, ..)?),
                        0 => drop(latched.remove(&table, &key(number))?),
                        1 => drop(latched.remove(&plain, &key(number % 350))?),
                        2 => drop(latched.put(&plain, &key(number % 350), &value)?),
                        3 => drop(latched.remove_range(&plain, &key(number % 350)..&key(number % 350 + 40))?),
                        4 => drop(latched.remove_range(&table, &key(number)..&key(number + 20))?),
                        _ => drop(latched.put(&table, &key(number), &value)?),
                    }
                }
                latched.rollback_to_savepoint()
            })
            .unwrap();
        commit.wait(Durability::Sync).unwrap();
        let mut expected = model.clone();
        expected.insert(key(kept).to_vec(), b"kept".to_vec());
        compare(&table, &expected, &measures, &mut rng);
        compare(&plain, &rows, &Measures::ROWS, &mut rng);
        assert_eq!(plain.tally(..).unwrap(), before.1);
        if let Some(snapshot) = snapshot {
            assert_eq!(snapshot.table(&table).unwrap().tally(..).unwrap(), before.0);
        }
        // The log says the same, and so do the runs that are written from the trees.
        let killed = Db::open("/db", options(&disk.kill(), 1 << 20)).unwrap();
        for db in [&db, &killed] {
            let [table, plain] = ["t", "plain"].map(|name| db.open_table(name).unwrap().unwrap());
            compare(&table, &expected, &measures, &mut rng);
            table.compact().unwrap();
            plain.flush().unwrap();
            compare(&table, &expected, &measures, &mut rng);
            compare(&plain, &rows, &Measures::ROWS, &mut rng);
        }
        drop((table, plain, db));
        let report = quipu::files::check("/db", &options(&disk, 1 << 20), &mut |_| ()).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
}

/// Rows of a whole table that went were kept in memory as long as any older snapshot lived, those too that it could not
/// see; and while the log was replayed, those of all such removals.
#[test]
fn what_the_removal_of_all_rows_takes_away_is_freed() {
    for is_latched in [false, true] {
        let disk = SimDisk::new();
        let options = Options { memtable_bytes: 0, ..options(&disk, 64 << 10) };
        let db = Db::open("/db", options.clone()).unwrap();
        let (table, runs) = (db.ensure_table("t").unwrap(), db.ensure_table("runs").unwrap());
        runs.put(key(0), b"so that pages may be missing").unwrap();
        runs.flush().unwrap();
        table.put(key(0), b"seen").unwrap();
        let snapshot = db.snapshot();
        let mut most = [0; 2];
        for generation in 0..8 {
            for number in 0..1000 {
                table.put(key(number), [7; 40]).unwrap();
            }
            most[usize::from(generation > 1)] = most[usize::from(generation > 1)].max(db.memory_bytes());
            if !is_latched {
                assert_eq!(table.remove_range(..).unwrap(), 1000);
                continue;
            }
            let mut latched = db.latched().write().unwrap();
            assert!(latched.may_fault());
            latched.set_savepoint();
            assert_eq!(latched.remove_range(&table, ..).unwrap(), 1000);
            latched.rollback_to_savepoint().unwrap();
            assert_eq!(latched.remove_range(&table, ..).unwrap(), 1000);
            latched.put(&table, &key(0), b"and is gone").unwrap();
            assert_eq!(latched.remove_range(&table, ..).unwrap(), 1);
            latched.release_savepoint();
            latched.commit().unwrap().wait(Durability::Os).unwrap();
        }
        assert!(most[1] <= most[0] + most[0] / 8, "{most:?}");
        assert_eq!(snapshot.table(&table).unwrap().get(key(0)).unwrap().as_deref(), Some(&b"seen"[..]));
        drop(snapshot);
        let replayed = Db::open("/db", Options { disk: Arc::new(disk.kill()), ..options }).unwrap();
        assert!(replayed.memory_bytes() < most[0] / 4, "{} of {most:?}", replayed.memory_bytes());
    }
}

/// The trees of a table stood aside before it was known that the removal had room in the log.
#[test]
fn a_removal_of_all_rows_that_has_no_room_leaves_them() {
    for rolls_back in [true, false] {
        let disk = SimDisk::new();
        let db = Db::open("/db", options(&disk, 1 << 20)).unwrap();
        let (table, mut model) = (db.ensure_table("t").unwrap(), Model::new());
        for number in 0..300 {
            table.put(key(number), [4; 10]).unwrap();
            model.insert(key(number).to_vec(), vec![4; 10]);
        }
        let before = model.clone();
        let mut latched = db.latched().write().unwrap();
        disk.set_capacity(0);
        latched.set_savepoint();
        let mut numbers = ROWS..;
        for bytes in [200, 1] {
            let (number, full) = loop {
                let number = key(numbers.next().unwrap());
                model.insert(number.to_vec(), vec![3; bytes]);
                if let Err(error) = latched.put(&table, &number, &vec![3; bytes]) {
                    break (number, error);
                }
            };
            assert_eq!(full.kind(), ErrorKind::Full);
            model.remove(&number[..]);
        }
        // What frees space has room.
        latched.remove_range(&table, ..).unwrap();
        model.clear();
        if rolls_back {
            latched.rollback_to_savepoint().unwrap();
            model = before;
        }
        disk.set_capacity(u64::MAX);
        latched.commit().unwrap().wait(Durability::Os).unwrap();
        compare(&table, &model, &table.options().measures, &mut rng(1));
        let killed = Db::open("/db", options(&disk.kill(), 1 << 20)).unwrap();
        let table = killed.open_table("t").unwrap().unwrap();
        compare(&table, &model, &table.options().measures, &mut rng(2));
    }
}

/// A page of rows asks for their long values as a scan does, which passes each once: loaded for the next attempt, they
/// were lost with the reader that had asked, and the question was asked for ever.
#[test]
fn long_values_that_a_question_passes_are_there_at_its_next_attempt() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 64 << 10)).unwrap();
    let table = db.ensure_table("t").unwrap();
    for number in 0..100 {
        table.put(key(number), [number as u8; 150]).unwrap();
    }
    table.flush().unwrap();
    drop(table);
    let (db, table) = reopened(db, &disk, 64 << 10);
    let page = db.latched().read_with(|latched| latched.table(&table)?.page(.., 50, 20)).unwrap();
    assert_eq!(page, table.page(.., 50, 20).unwrap());
    let mut rows = 0;
    let scanned = db.latched().read_with(|latched| {
        rows = 0;
        latched.table(&table)?.for_each(.., |key, value| {
            rows += u32::from(value == [key[3]; 150]);
            true
        })
    });
    scanned.unwrap();
    assert_eq!(rows, 100);
}

#[test]
fn a_latched_write_that_fails_leaves_nothing() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 64 << 10)).unwrap();
    let (table, model) = in_runs(&db);
    let sequence = db.latched().read().sequence();
    let failed = db.latched().write_with(|latched| {
        latched.put(&table, &key(9), b"in vain")?;
        latched.remove_range(&table, &key(20)..&key(40))?;
        Err::<(), _>(Error::new(ErrorKind::Exists, "said the caller"))
    });
    assert_eq!(failed.err().map(|error| error.kind()), Some(ErrorKind::Exists));
    assert_eq!(db.latched().read().sequence(), sequence, "nothing was committed");
    compare(&table, &model, &table.options().measures, &mut rng(1));
}

#[test]
fn a_page_that_cannot_be_read_fails_those_alone_that_need_it() {
    let disk = SimDisk::new();
    let db = Db::open("/db", options(&disk, 1 << 20)).unwrap();
    in_runs(&db);
    let runs: Vec<_> = disk.file_names().into_iter().filter(|name| name.to_string_lossy().contains("run-")).collect();
    db.ensure_table("other").unwrap().put("a", "1").unwrap();
    db.ensure_table("other").unwrap().flush().unwrap();
    drop(db);
    let db = Db::open("/db", options(&disk, 1 << 20)).unwrap();
    let (table, other) = (db.ensure_table("t").unwrap(), db.ensure_table("other").unwrap());
    for name in runs {
        let len = disk.read_file(&name).unwrap().len() as u64;
        disk.make_unreadable(&name, 0..len);
    }
    let faults_of = |table: &Table| {
        let mut faults = PageFaults::default();
        let latched = db.latched().read();
        let error = latched.table(table).unwrap().get_ref("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PageFault);
        latched.take_faults(&mut faults);
        faults
    };
    let (mut bad, mut good) = (faults_of(&table), faults_of(&other));
    let (bad_pages, good_pages) = (bad.len(), good.len());
    assert!(db.latched().load_together(&mut [&mut bad, &mut good]).is_err());
    assert_eq!((bad.len(), good.len()), (bad_pages, good_pages), "all is left as it was");
    assert!(db.latched().load(&mut bad).is_err() && bad.is_empty());
    db.latched().load(&mut good).unwrap();
    assert!(db.latched().read_with(|latched| Ok(latched.table(&other)?.get("a")?.is_some())).unwrap());
    assert!(db.latched().read_with(|latched| latched.table(&table)?.get("a").map(|_| ())).is_err());
}

#[test]
fn limits_of_memory_and_cache_can_be_changed() {
    let disk = SimDisk::new();
    let db = Db::open("/db", Options { memtable_bytes: 0, ..options(&disk, 1 << 20) }).unwrap();
    let table = db.ensure_table("t").unwrap();
    let fill = |from: u32| (from..from + 20_000).for_each(|number| table.put(key(number), [7; 30]).unwrap());
    fill(0);
    assert_eq!(db.stats().tables[0].runs, 0, "all stays in memory");
    assert_eq!(db.set_memtable_bytes(100).unwrap_err().kind(), ErrorKind::Invalid);
    db.set_memtable_bytes(1 << 20).unwrap();
    assert_eq!(db.stats().memtable_bytes_max, 1 << 20);
    fill(20_000);
    let stats = db.stats();
    assert!(stats.tables[0].runs > 0 && stats.memory_bytes() < 2 << 20, "{} bytes", stats.memory_bytes());
    table.for_each(.., |_, _| true).unwrap();
    assert!(db.stats().cache_bytes > 300 << 10);
    db.set_cache_bytes(100 << 10);
    let stats = db.stats();
    assert!(stats.cache_bytes_max == 100 << 10 && stats.cache_bytes <= 100 << 10, "{} bytes", stats.cache_bytes);
    db.set_cache_bytes(1 << 20);
    table.for_each(.., |_, _| true).unwrap();
    assert!(db.stats().cache_bytes > 300 << 10);
    db.set_memtable_bytes(0).unwrap();
    fill(40_000);
    assert_eq!(table.len().unwrap(), 60_000);
}
