//! Goal: writes to a blind table read no page of a run, and still every answer is right: at once where it needs no
//! weight, exact where it does, before and after its entries are resolved, in snapshots and transactions, and after a
//! restart from whatever the disk has. Method: rows in runs under a cache that keeps next to nothing; counted page
//! reads; a model; a crash at every step of the disk. Replay: SEED=... STEP=... cargo test -p quipu --test all blind::

use crate::model_map::{Model, bounds, compare, open, options, rng, seeds, write_as};
use quipu::histogram::{CountInterval, Resolution};
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::latched::Action;
use quipu::{
    Bounds, Db, Durability, ErrorKind, Measures, Options, ReadableTable, Table, TableOptions, WritableTable, WriteBatch,
};

const ROWS: u32 = 500;

fn key(number: u32) -> [u8; 4] {
    (2 * number).to_be_bytes()
}

fn blind_options() -> TableOptions {
    TableOptions { blind_writes: true, measures: Measures { bytes: true, ..Measures::ROWS }, ..TableOptions::default() }
}

/// A blind table with rows at even keys, all of them in a run.
fn in_runs(db: &Db) -> Table {
    let table = db.create_table("t", blind_options()).unwrap();
    let mut batch = WriteBatch::new();
    (0..ROWS).for_each(|number| batch.put(&table, key(number), b"first"));
    db.apply(batch).unwrap();
    table.flush().unwrap();
    table
}

/// A database whose cache has room for no page.
fn uncached(disk: &SimDisk) -> Db {
    Db::open("/db", Options { cache_bytes: 1, ..options(disk) }).unwrap()
}

fn unresolved(db: &Db) -> u64 {
    db.stats().tables[0].unresolved
}

/// Pages looked at, in the cache or in a file.
fn looked_at(db: &Db) -> u64 {
    let stats = db.stats();
    stats.cache_hits + stats.cache_misses
}

#[test]
fn a_blind_write_looks_at_no_page_of_a_run() {
    let disk = SimDisk::new();
    let db = uncached(&disk);
    let table = in_runs(&db);
    let before = looked_at(&db);
    for number in (0..ROWS).step_by(3) {
        table.put(key(number), b"second").unwrap();
        table.put((2 * number + 1).to_be_bytes(), b"new").unwrap();
        assert!(table.remove(key(number + 1)).unwrap());
    }
    // What is known of an unresolved key needs no page either.
    assert_eq!(table.insert(key(0), b"no").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(table.replace(key(1), b"no").unwrap_err().kind(), ErrorKind::Missing);
    table.insert(key(1), b"third").unwrap();
    table.replace(key(0), b"third").unwrap();
    assert!(table.remove(key(1)).unwrap());
    assert!(!table.remove(key(1)).unwrap());
    assert_eq!(table.get(key(0)).unwrap().as_deref(), Some(&b"third"[..]));
    assert_eq!(table.get(key(1)).unwrap(), None);
    assert_eq!(looked_at(&db), before);
    assert_eq!(unresolved(&db), 3 * u64::from(ROWS.div_ceil(3)));
    // The same in a table that is not blind does.
    let other = db.create_table("u", TableOptions { blind_writes: false, ..blind_options() }).unwrap();
    other.put("k", "v").unwrap();
    other.flush().unwrap();
    let before = looked_at(&db);
    other.put("k", "w").unwrap();
    assert!(looked_at(&db) > before);
}

/// Writes in batches, in transactions of both kinds and in place are as blind as single ones, and tell as little.
#[test]
fn many_blind_writes_look_at_no_page_of_a_run() {
    let disk = SimDisk::new();
    let db = uncached(&disk);
    let table = in_runs(&db);
    let before = looked_at(&db);
    let mut batch = WriteBatch::new();
    for number in 0..20 {
        batch.put(&table, key(number), b"second");
        batch.put(&table, (2 * number + 1).to_be_bytes(), b"new");
        batch.delete(&table, key(100 + number));
    }
    db.apply(batch).unwrap();
    assert_eq!((unresolved(&db), looked_at(&db)), (60, before));
    // Again: over unresolved entries now.
    db.write(|transaction| {
        let view = transaction.table(&table)?;
        (0..10).try_for_each(|number| view.put(key(number), b"third"))?;
        (10..20).try_for_each(|number| view.delete(key(number)))?;
        (200..210).try_for_each(|number| view.delete(key(number)))
    })
    .unwrap();
    let transaction = db.begin();
    let view = transaction.table(&table).unwrap();
    (210..220).for_each(|number| view.put(key(number), b"third").unwrap());
    table.put(key(219), b"between").unwrap();
    table.put(key(300), b"elsewhere").unwrap();
    transaction.commit().unwrap();
    let ((), commit) = db
        .latched()
        .write_with(|latched| {
            for number in 220..230 {
                assert!(!latched.put(&table, &key(number), b"third")?);
                assert!(latched.remove(&table, &(2 * number + 1).to_be_bytes())?);
                assert!(!latched.remove(&table, &(2 * number + 1).to_be_bytes())?);
            }
            Ok(())
        })
        .unwrap();
    commit.wait(Durability::Os).unwrap();
    assert_eq!((unresolved(&db), looked_at(&db)), (60 + 10 + 11 + 20, before));

    let mut model: Model = (0..ROWS).map(|number| (key(number).to_vec(), b"first".to_vec())).collect();
    (0..10).chain(210..230).for_each(|number| drop(model.insert(key(number).to_vec(), b"third".to_vec())));
    (0..20).for_each(|number: u32| drop(model.insert((2 * number + 1).to_be_bytes().to_vec(), b"new".to_vec())));
    (10..20).chain(100..120).chain(200..210).for_each(|number| drop(model.remove(&key(number)[..])));
    model.insert(key(300).to_vec(), b"elsewhere".to_vec());
    let killed = disk.kill();
    for db in [db, open(&killed)] {
        let table = db.open_table("t").unwrap().unwrap();
        assert_eq!(unresolved(&db), 101);
        compare(&table, &model, &blind_options().measures, &mut rng(1));
        table.flush().unwrap();
        assert_eq!(unresolved(&db), 0);
        compare(&table, &model, &blind_options().measures, &mut rng(2));
    }
}

/// A batch over a blind table knows what is in memory, and says so in the log.
#[test]
fn a_blind_batch_weighs_the_keys_that_are_in_memory() {
    let disk = SimDisk::new();
    let db = uncached(&disk);
    let table = in_runs(&db);
    table.put(key(1), b"in memory").unwrap();
    table.remove(key(2)).unwrap();
    table.resolve_blind_writes(..).unwrap();
    assert_eq!(unresolved(&db), 0);
    let before = looked_at(&db);
    let mut batch = WriteBatch::new();
    for number in 1..3 {
        batch.put(&table, key(number), b"known");
    }
    batch.delete(&table, key(3));
    db.apply(batch).unwrap();
    assert_eq!((unresolved(&db), looked_at(&db)), (1, before));
    let mut batch = WriteBatch::new();
    (1..3).for_each(|number| batch.delete(&table, key(number)));
    db.apply(batch).unwrap();
    assert_eq!((unresolved(&db), looked_at(&db)), (1, before));
    // A tombstone over nothing that is known to be one writes nothing, and is no commit.
    let sequence = db.latched().read().sequence();
    let mut batch = WriteBatch::new();
    batch.delete(&table, key(1));
    db.apply(batch).unwrap();
    assert_eq!(db.latched().read().sequence(), sequence);
    let killed = disk.kill();
    for db in [db, open(&killed)] {
        let table = db.open_table("t").unwrap().unwrap();
        assert_eq!(table.count(&key(0)..&key(5)).unwrap(), 2);
        table.flush().unwrap();
        assert_eq!((table.len().unwrap(), unresolved(&db)), (u64::from(ROWS) - 3, 0));
    }
}

/// What counts were told before blind writes of the same transaction has to hold at the commit, so these are looked up.
#[test]
fn a_blind_transaction_that_has_counted_is_serializable() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = in_runs(&db);
    for (disturb, outcome) in [(false, Ok(())), (true, Err(ErrorKind::Conflict))] {
        let transaction = db.begin();
        let view = transaction.table(&table).unwrap();
        assert_eq!(view.count(&key(0)..&key(10)).unwrap(), 10);
        view.put(key(5), b"counted").unwrap();
        view.put(key(400), b"and another").unwrap();
        if disturb {
            table.remove(key(5)).unwrap();
        }
        assert_eq!(transaction.commit().map_err(|error| error.kind()), outcome);
    }
    // A savepoint looks up what came before it, and its own writes are its own.
    db.write(|transaction| {
        let view = transaction.table(&table)?;
        view.put(key(50), b"before")?;
        let savepoint = transaction.savepoint();
        view.delete(key(50))?;
        view.put(key(51), b"undone")?;
        transaction.rollback_to(savepoint)?;
        view.put(key(52), b"after")
    })
    .unwrap();
    assert_eq!(table.get(key(50)).unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(table.get(key(51)).unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(table.get(key(52)).unwrap().as_deref(), Some(&b"after"[..]));
    assert_eq!(table.len().unwrap(), u64::from(ROWS) - 1);
}

/// A transaction that has not looked its keys up finds at its commit that the table is blind no more, since its runs
/// are gone: it looks them up after all.
#[test]
fn a_blind_transaction_looks_its_keys_up_once_the_runs_are_gone() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = in_runs(&db);
    let transaction = db.begin();
    let view = transaction.table(&table).unwrap();
    (0..3).for_each(|number| view.put(key(number), b"after").unwrap());
    assert_eq!(table.remove_range(..).unwrap(), u64::from(ROWS));
    table.put(key(1), b"before").unwrap();
    transaction.commit().unwrap();
    assert_eq!(unresolved(&db), 0);
    let model: Model = (0..3).map(|number| (key(number).to_vec(), b"after".to_vec())).collect();
    let killed = disk.kill();
    for db in [db, open(&killed)] {
        let table = db.open_table("t").unwrap().unwrap();
        compare(&table, &model, &blind_options().measures, &mut rng(1));
    }
}

/// Rolling back to a savepoint takes out of the unresolved entries what was laid over the table since.
#[test]
fn an_edit_takes_back_what_was_laid_over_a_blind_table() {
    let disk = SimDisk::new();
    let db = uncached(&disk);
    let table = in_runs(&db);
    table.put(key(7), b"kept").unwrap();
    let snapshot = db.snapshot();
    let ((), commit) = db
        .latched()
        .write_with(|latched| {
            latched.set_savepoint();
            latched.put(&table, &key(7), b"undone")?;
            latched.remove(&table, &key(8))?;
            latched.put(&table, &key(9), b"undone")?;
            latched.rollback_to_savepoint()
        })
        .unwrap();
    commit.wait(Durability::Os).unwrap();
    assert_eq!(unresolved(&db), 1);
    assert_eq!(table.get(key(7)).unwrap().as_deref(), Some(&b"kept"[..]));
    table.resolve_blind_writes(..).unwrap();
    // Nothing is left over it, and the tree that was made for it is gone.
    let ((), commit) = db
        .latched()
        .write_with(|latched| {
            latched.set_savepoint();
            latched.put(&table, &key(9), b"undone")?;
            latched.rollback_to_savepoint()
        })
        .unwrap();
    commit.wait(Durability::Os).unwrap();
    assert_eq!(unresolved(&db), 0);
    assert_eq!(table.get(key(9)).unwrap().as_deref(), Some(&b"first"[..]));
    let view = snapshot.table(&table).unwrap();
    assert_eq!((view.len().unwrap(), table.len().unwrap()), (u64::from(ROWS), u64::from(ROWS)));
}

#[test]
fn bounds_become_exact_as_entries_are_resolved() {
    let disk = SimDisk::new();
    let db = uncached(&disk);
    let table = in_runs(&db);
    for number in 0..100 {
        table.put(key(number), b"second").unwrap();
        table.remove((2 * (100 + number) + 1).to_be_bytes()).unwrap();
    }
    let rows = u64::from(ROWS);
    // Two descents; none of the 200 keys is looked up.
    let before = looked_at(&db);
    assert_eq!(table.count_interval(..).unwrap(), CountInterval { low: rows - 100, high: rows + 100 });
    assert_eq!(looked_at(&db), before);
    assert_eq!(table.count_interval(&key(0)..&key(50)).unwrap(), CountInterval { low: 50, high: 100 });
    assert_eq!(table.count_interval(&key(100)..&key(150)).unwrap(), CountInterval { low: 0, high: 50 });
    assert_eq!(table.count_interval(&key(300)..&key(350)).unwrap(), CountInterval { low: 50, high: 50 });
    assert_eq!(table.count(&key(0)..&key(50)).unwrap(), 50);
    assert_eq!(table.count(..).unwrap(), rows);
    assert_eq!(unresolved(&db), 200, "a reader resolves for itself alone");
    let snapshot = db.snapshot();
    assert_eq!(table.resolve_blind_writes(&key(0)..&key(50)).unwrap(), 50);
    assert_eq!(unresolved(&db), 150);
    assert_eq!(table.count_interval(&key(0)..&key(50)).unwrap(), CountInterval { low: 50, high: 50 });
    assert_eq!(table.resolve_blind_writes(..).unwrap(), 150);
    assert_eq!((unresolved(&db), table.resolve_blind_writes(..).unwrap()), (0, 0));
    assert_eq!(table.count_interval(..).unwrap(), CountInterval { low: rows, high: rows });
    let view = snapshot.table(&table).unwrap();
    assert_eq!(view.count_interval(..).unwrap(), CountInterval { low: rows - 100, high: rows + 100 });
    assert_eq!((view.count(..).unwrap(), view.rank(key(250)).unwrap()), (rows, 250));
}

/// Exact questions of every kind, in a table that has all kinds of entries unresolved, and in snapshots of it while it
/// goes on.
#[test]
fn every_answer_is_right_before_and_after() {
    for seed in seeds(3) {
        let mut rng = rng(seed);
        let disk = SimDisk::new();
        let mut db = open(&disk);
        let measures = blind_options().measures;
        let mut table = db.create_table("t", blind_options()).unwrap();
        let mut model = Model::new();
        let mut unresolved_most = 0;
        for round in 0..12 {
            let snapshot = db.snapshot();
            let then = model.clone();
            for _ in 0..60 {
                write_as(&table, &mut model, &mut rng, true);
            }
            unresolved_most = unresolved_most.max(unresolved(&db));
            compare(&table, &model, &measures, &mut rng);
            compare(&snapshot.table(&table).unwrap(), &then, &measures, &mut rng);
            table.resolve_blind_writes(bounds(&mut rng)).unwrap();
            compare(&table, &model, &measures, &mut rng);
            compare(&snapshot.table(&table).unwrap(), &then, &measures, &mut rng);
            drop(snapshot);
            match round % 4 {
                0 => table.flush().unwrap(),
                1 => {
                    drop((db, table));
                    db = open(&disk);
                    table = db.open_table("t").unwrap().unwrap();
                }
                2 => table.compact().unwrap(),
                _ => {
                    db.checkpoint().unwrap();
                }
            }
            assert!(round % 4 == 1 || round % 4 == 2 || unresolved(&db) == 0, "what is in runs is resolved");
            compare(&table, &model, &measures, &mut rng);
        }
        assert!(unresolved_most > 10, "the test has something to test: {unresolved_most}");
        drop((db, table));
        let report = quipu::files::check("/db", &options(&disk), &mut |_| ()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
        assert_eq!(report.tables[0].1.rows, model.len() as i64);
    }
}

/// A count that a transaction has relied on is compared with the exact one, and what it writes over unresolved entries
/// counts.
#[test]
fn transactions_over_unresolved_entries_are_serializable() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = in_runs(&db);
    let rows = u64::from(ROWS);
    let counting = |write: &dyn Fn(&Table)| {
        let transaction = db.begin();
        let view = transaction.table(&table).unwrap();
        let counted = view.count(..).unwrap();
        view.put(b"sum", counted.to_be_bytes()).unwrap();
        write(&table);
        transaction.commit().map_err(|error| error.kind())
    };
    // An overwrite changes no count, be it resolved or not; a new row does.
    assert_eq!(counting(&|table| table.put(key(3), b"over").unwrap()), Ok(()));
    assert_eq!(counting(&|table| assert!(table.remove((2 * 7 + 1u32).to_be_bytes()).unwrap())), Ok(()));
    assert_eq!(counting(&|table| table.put((2 * 7 + 1u32).to_be_bytes(), b"new").unwrap()), Err(ErrorKind::Conflict));
    assert_eq!(counting(&|table| assert!(table.remove(key(9)).unwrap())), Err(ErrorKind::Conflict));
    assert_eq!(table.len().unwrap(), rows + 1, "a sum and a new row, and one that went");
    // A scan is compared row by row.
    table.put(key(20), b"unresolved").unwrap();
    for (value, outcome) in [(&b"unresolved"[..], Ok(())), (b"another", Err(ErrorKind::Conflict))] {
        let transaction = db.begin();
        let view = transaction.table(&table).unwrap();
        assert_eq!(view.range(&key(20)..&key(30)).count(), 10);
        view.put(b"scan", b"").unwrap();
        table.put(key(20), value).unwrap();
        assert_eq!(transaction.commit().map_err(|error| error.kind()), outcome);
    }
    // Its own writes over unresolved keys, and below them.
    let before = table.len().unwrap();
    table.put(key(40), b"unresolved").unwrap();
    table.remove(key(41)).unwrap();
    db.write(|transaction| {
        let view = transaction.table(&table)?;
        assert_eq!(view.len()?, before - 1);
        assert!(view.remove(key(40))?);
        view.insert(key(41), b"again")?;
        assert_eq!((view.len()?, view.rank(key(42))?, view.count(&key(40)..&key(42))?), (before - 1, 41, 1));
        Ok(())
    })
    .unwrap();
    assert_eq!((table.len().unwrap(), table.count(&key(40)..&key(42)).unwrap()), (before - 1, 1));
    table.flush().unwrap();
    assert_eq!((table.len().unwrap(), unresolved(&db)), (before - 1, 0));
}

#[test]
fn an_edit_sees_and_overwrites_unresolved_entries() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = in_runs(&db);
    table.put(key(1), b"unresolved").unwrap();
    table.remove(key(2)).unwrap();
    {
        let ((), commit) = db
            .latched()
            .write_with(|latched| {
                assert!(!latched.put(&table, &key(1), b"changed")?);
                assert!(latched.insert(&table, &key(2), b"changed")?);
                latched.update(&table, &key(1), |old, new| {
                    assert_eq!(old, Some(&b"changed"[..]));
                    new.extend_from_slice(b"twice");
                    Action::Put
                })?;
                assert_eq!(latched.table(&table)?.len()?, u64::from(ROWS));
                Ok(())
            })
            .unwrap();
        commit.wait(Durability::Os).unwrap();
    }
    assert_eq!(unresolved(&db), 2);
    let killed = disk.kill();
    for db in [db, open(&killed)] {
        let table = db.open_table("t").unwrap().unwrap();
        assert_eq!(table.get(key(1)).unwrap().as_deref(), Some(&b"twice"[..]));
        assert_eq!(table.len().unwrap(), u64::from(ROWS));
        assert_eq!(table.histogram(.., Resolution::of_rows(10)).unwrap().rows, u64::from(ROWS));
        table.flush().unwrap();
        assert_eq!((table.len().unwrap(), unresolved(&db)), (u64::from(ROWS), 0));
    }
}

/// What was resolved is not said in the log: replay begins with the entries as they were written, and comes to the
/// same.
#[test]
fn a_restart_has_the_entries_that_were_resolved_without_a_commit() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let table = in_runs(&db);
    table.put(key(5), b"blind").unwrap();
    table.remove(key(6)).unwrap();
    table.remove(b"none").unwrap();
    let sequence = db.stats().sequence;
    table.resolve_blind_writes(..).unwrap();
    assert_eq!(db.stats().sequence, sequence);
    // Known now, and so said in the log.
    table.put(key(5), b"over").unwrap();
    table.insert(key(6), b"fresh").unwrap();
    assert!(table.remove(key(7)).unwrap());
    table.insert(b"none", b"some").unwrap();
    assert!(table.remove(b"none").unwrap());
    table.put(b"none", b"blind again").unwrap();
    let expected: Vec<_> = table.range(..).map(Result::unwrap).collect();
    drop((db, table));
    let db = open(&disk);
    let table = db.open_table("t").unwrap().unwrap();
    assert!(unresolved(&db) >= 4);
    assert!(table.range(..).map(Result::unwrap).eq(expected.iter().cloned()));
    assert_eq!(table.len().unwrap(), expected.len() as u64);
    let lenient = Db::open("/db", Options { read_only: true, create: false, ..options(&disk.kill()) }).unwrap();
    let view = lenient.open_table("t").unwrap().unwrap();
    assert_eq!(view.len().unwrap(), expected.len() as u64);
    assert_eq!(view.resolve_blind_writes(..).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(view.nth(.., 5).unwrap(), Some(expected[5].clone()));
}

/// Power is cut at every step of blind writes, resolving, a flush and a checkpoint.
#[test]
fn a_crash_at_every_step_leaves_a_prefix() {
    let work = |disk: &SimDisk, acknowledged: &mut Vec<Model>| -> quipu::Result<()> {
        let db = Db::open("/db", Options { durability: Durability::Sync, ..options(disk) })?;
        let table = db.create_table("t", blind_options())?;
        let mut model = Model::new();
        let mut batch = WriteBatch::new();
        for number in 0..60 {
            batch.put(&table, key(number), b"first");
            model.insert(key(number).to_vec(), b"first".to_vec());
        }
        acknowledged.push(model.clone());
        db.apply(batch)?;
        table.flush()?;
        for number in 0..24u32 {
            let written = (5 * number % 61).to_be_bytes();
            if number % 3 == 0 {
                model.remove(&written[..]);
                acknowledged.push(model.clone());
                table.remove(written)?;
            } else {
                model.insert(written.to_vec(), number.to_be_bytes().to_vec());
                acknowledged.push(model.clone());
                table.put(written, number.to_be_bytes())?;
            }
            match number {
                6 => {
                    table.resolve_blind_writes(&key(3)..&key(20))?;
                }
                12 => table.flush()?,
                18 => {
                    db.checkpoint()?;
                }
                _ => {}
            }
        }
        Ok(())
    };
    let disk = SimDisk::new();
    work(&disk, &mut Vec::new()).unwrap();
    let steps = std::env::var("STEP").ok().and_then(|step| step.parse::<u64>().ok());
    for step in steps.map_or(0..disk.steps(), |step| step..step + 1) {
        let disk = SimDisk::new();
        disk.cut_at(step);
        let mut models = Vec::new();
        let _ = work(&disk, &mut models);
        for (lot, mode) in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random].into_iter().enumerate() {
            let found = disk.crash_with(mode, step * 3 + lot as u64);
            let db = open(&found);
            let Some(table) = db.open_table("t").unwrap() else { continue };
            // The last one begun may be there or not; all before it were acknowledged as synced. The first is the table
            // without rows.
            let rows: Model = table.range(..).map(|entry| crate::model_map::owned(entry.unwrap())).collect();
            let last = models.len().checked_sub(1);
            let before = last.and_then(|last| last.checked_sub(1)).map(|before| &models[before]);
            let is_there = last.is_some_and(|last| rows == models[last])
                || before.map_or(rows.is_empty(), |before| rows == *before);
            assert!(is_there, "STEP={step}, {mode:?}: {} rows", rows.len());
            assert_eq!(table.len().unwrap(), rows.len() as u64, "STEP={step}, {mode:?}");
            let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert_eq!(table.tally(..).unwrap().bytes, bytes as i64, "STEP={step}, {mode:?}");
            table.flush().unwrap();
            assert_eq!((table.len().unwrap(), unresolved(&db)), (rows.len() as u64, 0));
            drop((db, table));
            let report = quipu::files::check("/db", &options(&found), &mut |_| ()).unwrap();
            assert_eq!(report.faults, Vec::<String>::new(), "STEP={step}, {mode:?}");
        }
    }
}

/// Writers and readers go on while entries are resolved and flushed by threads of the database.
#[test]
fn resolving_in_the_background_changes_no_answer() {
    let disk = SimDisk::new();
    let db = Db::open("/db", Options { background: true, ..options(&disk) }).unwrap();
    let table = in_runs(&db);
    std::thread::scope(|scope| {
        let resolver = scope.spawn(|| {
            for round in 0..60 {
                if round % 7 == 0 {
                    table.flush().unwrap();
                } else {
                    table.resolve_blind_writes(..).unwrap();
                }
            }
        });
        let table = &table;
        let writer = scope.spawn(move || {
            let mut number = 0u32;
            while !resolver.is_finished() {
                table.put(key(number % ROWS), number.to_be_bytes()).unwrap();
                number += 7;
            }
        });
        while !writer.is_finished() {
            assert_eq!(table.count(..).unwrap(), u64::from(ROWS));
            let around = table.count_interval(..).unwrap();
            assert!(around.low <= u64::from(ROWS) && u64::from(ROWS) <= around.high);
            assert_eq!(table.count(Bounds::from(&key(100)..&key(200))).unwrap(), 100);
        }
    });
    table.flush().unwrap();
    assert_eq!((table.len().unwrap(), unresolved(&db)), (u64::from(ROWS), 0));
}
