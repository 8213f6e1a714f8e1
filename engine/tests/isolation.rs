//! Goal: snapshot isolation, reads of parts, patches and refreshed transactions do what they say, in memory and over
//! runs. Method: named cases; then random interleaved transactions that patch counters of rows and rely on parts of
//! them, each replayed on a map at its commit: what it was told of those parts must be true then, and no increment is
//! lost. Replay: SEED=... cargo test -p quipu --test all isolation::

use std::collections::BTreeMap;

use crate::model_map::{fresh, rng, seeds};
use quipu::isolation::{Isolation, Patch, ValuePart};
use quipu::{Db, ErrorKind, ReadableTable, Result, Savepoint, Table, Transaction, WritableTable};
use rand::RngExt;

fn table(db: &Db) -> Table {
    let table = db.ensure_table("t").unwrap();
    for key in ["a", "b", "c"] {
        table.put(key, [0, 0]).unwrap();
    }
    table
}

/// Adds to the byte at a place.
fn adding(place: usize, amount: u8) -> Patch {
    Patch::new(move |value| {
        let mut value = value.to_vec();
        value[place] = value[place].wrapping_add(amount);
        Ok(value)
    })
}

/// The byte at a place.
fn byte(place: usize) -> ValuePart {
    ValuePart::new(move |value| value[place].into())
}

#[test]
fn under_snapshot_isolation_the_first_to_write_a_row_wins_and_reads_do_not_matter() {
    let db = fresh();
    let table = table(&db);
    let begin = || db.begin_with(Isolation::Snapshot);
    let skew = || {
        let (one, two) = (begin(), begin());
        for (transaction, read, written) in [(&one, "a", "b"), (&two, "b", "a")] {
            let table = transaction.table(&table).unwrap();
            table.get(read).unwrap();
            assert_eq!(table.count(..).unwrap(), 3);
            table.put(written, [7, 7]).unwrap();
        }
        one.commit().unwrap();
        two.commit()
    };
    skew().unwrap();
    type Write = fn(&quipu::TableTransaction<'_>) -> Result<()>;
    let writes: [Write; 4] = [
        |table: &quipu::TableTransaction<'_>| table.put("a", [1, 1]),
        |table: &quipu::TableTransaction<'_>| table.replace("a", [1, 1]),
        |table: &quipu::TableTransaction<'_>| table.remove("a").map(drop),
        |table: &quipu::TableTransaction<'_>| table.remove_range("a".."b").map(drop),
    ];
    for (number, write) in writes.iter().enumerate() {
        let (one, two) = (begin(), begin());
        one.table(&table).unwrap().put("a", [2, number as u8]).unwrap();
        write(&two.table(&table).unwrap()).unwrap();
        one.commit().unwrap();
        assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
    // An insert of a key that another has inserted.
    let (one, two) = (begin(), begin());
    one.table(&table).unwrap().insert("d", [1, 1]).unwrap();
    two.table(&table).unwrap().insert("d", [2, 2]).unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
    // What is relied upon matters under any isolation.
    let (one, two) = (begin(), begin());
    two.table(&table).unwrap().relying().get("b").unwrap();
    two.table(&table).unwrap().put("c", [3, 3]).unwrap();
    one.table(&table).unwrap().put("b", [1, 1]).unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_transaction_at_a_snapshot_reads_what_was_there_and_conflicts_with_what_has_changed_since() {
    let db = fresh();
    let table = table(&db);
    let exporting = db.begin_with(Isolation::Snapshot);
    exporting.table(&table).unwrap().put("a", [9, 9]).unwrap();
    let snapshot = exporting.snapshot().unwrap();
    table.put("b", [1, 1]).unwrap();
    drop(exporting);
    for (key, commits) in [("a", true), ("b", false)] {
        let transaction = db.begin_at(&snapshot, Isolation::Snapshot).unwrap();
        let within = transaction.table(&table).unwrap();
        for (key, value) in [("a", [0, 0]), ("b", [0, 0])] {
            assert_eq!(within.get(key).unwrap().unwrap()[..], value, "neither writes of its owner nor later ones");
        }
        within.put(key, [5, 5]).unwrap();
        assert_eq!(transaction.commit().is_ok(), commits, "{key}");
    }
    assert_eq!(fresh().begin_at(&snapshot, Isolation::Snapshot).err().unwrap().kind(), ErrorKind::Invalid);
    db.write(|transaction| {
        assert_eq!(transaction.snapshot().err().unwrap().kind(), ErrorKind::Invalid);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_change_of_another_part_is_no_conflict() {
    for flushed in [false, true] {
        let db = fresh();
        let table = table(&db);
        if flushed {
            table.flush().unwrap();
        }
        for (written, conflicts) in [([0, 9], false), ([9, 9], true)] {
            let transaction = db.begin();
            let inside = transaction.table(&table).unwrap();
            let value = inside.get_part("a", &byte(0)).unwrap().unwrap();
            inside.put("b", [value[0] + 1, 0]).unwrap();
            table.put("a", written).unwrap();
            assert_eq!(transaction.commit().is_err(), conflicts, "{written:?}");
        }
        let transaction = db.begin();
        transaction.table(&table).unwrap().get_part("a", &byte(1)).unwrap();
        transaction.table(&table).unwrap().put("b", [1, 1]).unwrap();
        table.remove("a").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn patches_add_up_whoever_commits_first() {
    for flushed in [false, true] {
        let db = fresh();
        let table = table(&db);
        if flushed {
            table.flush().unwrap();
        }
        let (one, two, three) = (db.begin(), db.begin_with(Isolation::Snapshot), db.begin());
        for transaction in [&one, &two, &three] {
            let table = transaction.table(&table).unwrap();
            assert!(table.patch("a", &adding(0, 2)).unwrap());
            assert!(table.patch("a", &adding(1, 1)).unwrap());
            assert!(!table.patch("x", &adding(0, 1)).unwrap());
        }
        assert_eq!(*three.table(&table).unwrap().get("a").unwrap().unwrap(), [2, 1]);
        one.commit().unwrap();
        two.commit().unwrap();
        // The third has been told what its patches come to, which is no longer true.
        assert_eq!(three.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(*table.get("a").unwrap().unwrap(), [4, 2]);
        // A row that is gone cannot be patched.
        let transaction = db.begin();
        transaction.table(&table).unwrap().patch("a", &adding(0, 1)).unwrap();
        table.remove("a").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // What a patch says at the commit is the commit's error.
        table.put("a", [250, 0]).unwrap();
        let up_to_255 = Patch::new(|value| match value[0].checked_add(3) {
            Some(sum) => Ok(vec![sum, 0]),
            None => Err(quipu::Error::new(ErrorKind::Invalid, "too much")),
        });
        let transaction = db.begin();
        transaction.table(&table).unwrap().patch("a", &up_to_255).unwrap();
        table.put("a", [254, 0]).unwrap();
        assert_eq!(transaction.commit().unwrap_err().to_string(), "too much");
        assert_eq!(*table.get("a").unwrap().unwrap(), [254, 0]);
    }
}

#[test]
fn patches_and_plain_writes_of_one_key_keep_their_order() {
    let db = fresh();
    let table = table(&db);
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    // Written first: the patch is of what was written.
    inside.put("a", [10, 0]).unwrap();
    inside.patch("a", &adding(0, 1)).unwrap();
    // Patched first: what is written then is what counts.
    inside.patch("b", &adding(0, 1)).unwrap();
    inside.put("b", [20, 0]).unwrap();
    inside.patch("b", &adding(0, 1)).unwrap();
    // A savepoint takes back the write, and the patches before it are there again.
    inside.patch("c", &adding(0, 1)).unwrap();
    let savepoint = transaction.savepoint();
    inside.patch("c", &adding(0, 5)).unwrap();
    inside.put("c", [30, 0]).unwrap();
    transaction.rollback_to(savepoint).unwrap();
    inside.patch("c", &adding(1, 1)).unwrap();
    transaction.release(savepoint).unwrap();
    for key in ["a", "b", "c"] {
        table.put(key, [100, 100]).unwrap();
    }
    transaction.commit().unwrap();
    let values = ["a", "b", "c"].map(|key| table.get(key).unwrap().unwrap().to_vec());
    assert_eq!(values, [[11, 0], [21, 0], [101, 101]]);
}

#[test]
fn a_refreshed_transaction_sees_what_was_committed_and_keeps_what_it_wrote() {
    for flushed in [false, true] {
        let db = fresh();
        let table = table(&db);
        if flushed {
            table.flush().unwrap();
        }
        let mut transaction = db.begin();
        {
            let inside = transaction.table(&table).unwrap();
            assert_eq!(inside.count("x"..).unwrap(), 0);
            inside.put("d", [4, 4]).unwrap();
        }
        let savepoint = transaction.savepoint();
        transaction.table(&table).unwrap().patch("a", &adding(0, 1)).unwrap();
        transaction.table(&table).unwrap().remove("c").unwrap();
        table.put("a", [50, 50]).unwrap();
        table.insert("e", [5, 5]).unwrap();
        transaction.refresh().unwrap();
        {
            let inside = transaction.table(&table).unwrap();
            assert_eq!(*inside.get("a").unwrap().unwrap(), [51, 50]);
            assert_eq!((inside.len().unwrap(), inside.contains("e").unwrap()), (4, true));
        }
        transaction.rollback_to(savepoint).unwrap();
        assert_eq!(transaction.table(&table).unwrap().len().unwrap(), 5);
        table.put("e", [6, 6]).unwrap();
        transaction.refresh().unwrap();
        // What it has read is unchanged so far; now it is not.
        assert_eq!(*transaction.table(&table).unwrap().get("e").unwrap().unwrap(), [6, 6]);
        table.put("e", [7, 7]).unwrap();
        assert_eq!(transaction.refresh().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(*transaction.table(&table).unwrap().get("e").unwrap().unwrap(), [6, 6], "it is as it was");
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn a_table_that_is_younger_than_a_transaction_has_no_rows_in_it() {
    let db = fresh();
    let old = table(&db);
    let mut transaction = db.begin();
    let young = db.ensure_table("young").unwrap();
    {
        let inside = transaction.table(&young).unwrap();
        assert_eq!((inside.len().unwrap(), inside.get("a").unwrap()), (0, None));
        inside.insert("a", "1").unwrap();
        assert_eq!(inside.len().unwrap(), 1);
        transaction.table(&old).unwrap().put("a", [1, 1]).unwrap();
    }
    transaction.refresh().unwrap();
    transaction.commit().unwrap();
    assert_eq!((young.len().unwrap(), young.contains("a").unwrap()), (1, true));
    // Rows that another commit brings are a conflict with a transaction that has seen none, also when they are on disk.
    for flushed in [false, true] {
        let transaction = db.begin();
        let younger = db.ensure_table(&format!("younger {flushed}")).unwrap();
        assert!(transaction.table(&younger).unwrap().is_empty().unwrap());
        transaction.table(&younger).unwrap().put("b", "2").unwrap();
        younger.put("a", "1").unwrap();
        if flushed {
            younger.flush().unwrap();
        }
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
        let transaction = db.begin();
        let blind = db.ensure_table(&format!("blind {flushed}")).unwrap();
        transaction.table(&blind).unwrap().put("b", "2").unwrap();
        blind.put("a", "1").unwrap();
        if flushed {
            blind.flush().unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(blind.len().unwrap(), 2);
    }
    let transaction = db.begin();
    let dropped = db.ensure_table("dropped").unwrap();
    assert!(db.drop_table("dropped").unwrap());
    assert_eq!(transaction.table(&dropped).err().unwrap().kind(), ErrorKind::Missing);
}

/// A table that was only read, and not relied upon, could not be dropped without a conflict.
#[test]
fn a_table_that_nothing_depends_on_is_dropped_under_a_transaction_without_a_conflict() {
    let db = fresh();
    let (kept, other) = (table(&db), db.ensure_table("other").unwrap());
    other.put("a", "1").unwrap();
    let mut transaction = db.begin_with(Isolation::Snapshot);
    assert_eq!(*transaction.table(&other).unwrap().get("a").unwrap().unwrap(), *b"1");
    transaction.table(&kept).unwrap().put("e", [5, 5]).unwrap();
    assert!(db.drop_table("other").unwrap());
    assert_eq!(*transaction.table(&other).unwrap().get("a").unwrap().unwrap(), *b"1", "it sees it still");
    transaction.refresh().unwrap();
    assert_eq!(transaction.table(&other).err().unwrap().kind(), ErrorKind::Missing);
    transaction.commit().unwrap();
    assert_eq!(*kept.get("e").unwrap().unwrap(), [5, 5]);
    // What has written to it, or relies on what it has read, is told that it is gone.
    for relies in [false, true] {
        let other = db.ensure_table("other").unwrap();
        let mut transaction = db.begin_with(Isolation::Snapshot);
        transaction.table(&kept).unwrap().put("e", [6, 6]).unwrap();
        match relies {
            true => assert_eq!(transaction.table(&other).unwrap().relying().get("a").unwrap(), None),
            false => transaction.table(&other).unwrap().put("a", "1").unwrap(),
        }
        assert!(db.drop_table("other").unwrap());
        assert_eq!(transaction.refresh().unwrap_err().kind(), ErrorKind::Missing);
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Missing);
    }
}

const ROWS: u8 = 5;

/// What a transaction did, to be done again on the model.
#[derive(Clone, Debug)]
enum Done {
    /// It was told this of the byte at a place of a row.
    Told(u8, usize, Option<u8>),
    Patched(u8, usize, u8),
    Put(u8, [u8; 3]),
    Removed(u8),
    Counted(u64),
}

type Model = BTreeMap<u8, [u8; 3]>;

/// Does it all again. Whether the answers are the same.
fn replay(model: &mut Model, done: &[Done]) -> bool {
    done.iter().all(|done| {
        match *done {
            Done::Told(row, place, byte) => return model.get(&row).map(|value| value[place]) == byte,
            Done::Counted(rows) => return model.len() as u64 == rows,
            Done::Patched(row, place, amount) => {
                if let Some(value) = model.get_mut(&row) {
                    value[place] = value[place].wrapping_add(amount);
                }
            }
            Done::Put(row, value) => drop(model.insert(row, value)),
            Done::Removed(row) => drop(model.remove(&row)),
        }
        true
    })
}

#[test]
fn random_transactions_with_patches_and_parts_are_serial() {
    for seed in seeds(30) {
        let random = &mut rng(seed);
        let db = fresh();
        let table = db.ensure_table("t").unwrap();
        let mut model = Model::new();
        for row in 0..ROWS {
            table.put([row], [0; 3]).unwrap();
            model.insert(row, [0; 3]);
        }
        type Open = (Transaction, Vec<Done>, Vec<(Savepoint, usize)>);
        let mut open: Vec<Open> = Vec::new();
        let (mut commits, mut conflicts) = (0, 0);
        for step in 0..400 {
            if open.len() < 3 {
                open.push((db.begin(), Vec::new(), Vec::new()));
            }
            let number = random.random_range(0..open.len());
            let (transaction, done, savepoints) = &mut open[number];
            let inside = transaction.table(&table).unwrap();
            let (row, place, amount) = (random.random_range(0..ROWS), random.random_range(0..3), random.random());
            match random.random_range(0..20) {
                0..6 => {
                    if inside.patch([row], &adding(place, amount)).unwrap() {
                        done.push(Done::Patched(row, place, amount));
                    } else {
                        done.push(Done::Told(row, place, None));
                    }
                }
                6..10 => {
                    let value = inside.get_part([row], &byte(place)).unwrap();
                    done.push(Done::Told(row, place, value.map(|value| value[place])));
                }
                10 => {
                    inside.put([row], [amount; 3]).unwrap();
                    done.push(Done::Put(row, [amount; 3]));
                }
                11 if random.random() => {
                    let removed = inside.remove([row]).unwrap();
                    done.push(if removed { Done::Removed(row) } else { Done::Told(row, 0, None) });
                }
                12 => done.push(Done::Counted(inside.len().unwrap())),
                13 => savepoints.push((transaction.savepoint(), done.len())),
                14 => {
                    if let Some((savepoint, len)) = savepoints.pop() {
                        if random.random() {
                            transaction.rollback_to(savepoint).unwrap();
                            // What was told stays relied upon.
                            let rest = done.split_off(len);
                            // What it was told of its own writes depends on these, so only what comes before them
                            // counts.
                            let told =
                                rest.into_iter().take_while(|done| matches!(done, Done::Told(..) | Done::Counted(_)));
                            done.extend(told);
                        }
                        transaction.release(savepoint).unwrap();
                    }
                }
                15 | 16 => {
                    let refreshed = transaction.refresh();
                    if let Err(error) = refreshed {
                        assert_eq!(error.kind(), ErrorKind::Conflict);
                        open.remove(number);
                    }
                }
                17 if step % 7 == 0 => table.flush().unwrap(),
                17 if step % 7 == 1 => table.compact().unwrap(),
                _ => {
                    let (transaction, done, _) = open.remove(number);
                    let writes = done.iter().any(|done| !matches!(done, Done::Told(..) | Done::Counted(_)));
                    match transaction.commit() {
                        Ok(()) => {
                            let held = replay(&mut model, &done);
                            assert!(held || !writes, "seed {seed}, step {step}: {done:?}");
                            commits += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            conflicts += 1;
                        }
                    }
                    let rows: Vec<(u8, Vec<u8>)> = table
                        .range(..)
                        .map(|entry| entry.map(|entry| (entry.key[0], entry.value.to_vec())))
                        .collect::<Result<_>>()
                        .unwrap();
                    assert!(
                        rows.iter()
                            .map(|(row, value)| (row, &value[..]))
                            .eq(model.iter().map(|(row, value)| (row, &value[..]))),
                        "seed {seed}, step {step}: {rows:?} {model:?}"
                    );
                    assert_eq!(table.len().unwrap(), model.len() as u64);
                }
            }
        }
        assert!(commits > 20 && conflicts > 0, "seed {seed}: {commits} commits, {conflicts} conflicts");
    }
}
