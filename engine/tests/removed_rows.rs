//! Goal: rows that were removed one by one cost the reader next to nothing, wherever the live ones are: a queue is fast
//! however much was taken from its front. And a key that was read before it is written is counted rightly.
//! Method: a table of several runs under tombstones; all rows that are left, from both ends, by all kinds of readers,
//! with a bound of the pages they use; random reads, writes and savepoints over runs, compared with a map.

use std::collections::BTreeMap;

use quipu::files::check;
use quipu::{
    Db, ErrorKind, Measures, Options, ReadableTable, Result, Savepoint, TableOptions, TableTransaction, Transaction,
    WritableTable,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The first keys of a table from one end.
fn keys(table: &impl ReadableTable, reverse: bool, rows: usize) -> Result<Vec<Vec<u8>>> {
    let mut range = table.range(..);
    let next = || if reverse { range.next_back() } else { range.next() };
    std::iter::from_fn(next).take(rows).map(|row| Ok(row?.key.to_vec())).collect()
}

/// A queue: rows are removed at the front, and each removal leaves a tombstone above the runs. The next live row is
/// found by its rank: stepping to it would read all leaves of those removed.
#[test]
fn the_front_of_a_queue_costs_no_more_than_a_few_pages() {
    let db = Db::open("/db", Options::without_files()).expect("a database");
    let table = db.ensure_table("queue").expect("a table");
    let key = |number: u64| number.to_be_bytes();
    for start in (0..40_000).step_by(10_000) {
        let rows = |tx: &Transaction| {
            let table = tx.table(&table)?;
            (start..start + 10_000).try_for_each(|number| table.put(key(number), [7; 40]))
        };
        db.write(rows).expect("rows");
        table.flush().expect("a run");
    }
    // The front, the back, and all but each thousandth in between.
    let is_live = |number: u64| (10_000..30_000).contains(&number) && number.is_multiple_of(1000);
    db.write(|tx| {
        let table = tx.table(&table)?;
        (0..40_000).filter(|number| !is_live(*number)).try_for_each(|number| table.delete(key(number)))
    })
    .expect("removals");
    let live: Vec<_> = (0..40_000).filter(|number| is_live(*number)).map(|number| key(number).to_vec()).collect();
    let check = |ask: &dyn Fn(bool, usize) -> Result<Vec<Vec<u8>>>| {
        for (reverse, rows) in [(false, 1), (true, 1), (false, 3), (true, 3), (false, usize::MAX), (true, usize::MAX)] {
            let mut expected = live.clone();
            if reverse {
                expected.reverse();
            }
            expected.truncate(rows);
            assert_eq!(ask(reverse, rows).expect("rows"), expected, "{reverse} {rows}");
        }
    };
    let now = db.snapshot();
    let then = now.table(&table).expect("the table");
    check(&|reverse, rows| keys(&table, reverse, rows));
    check(&|reverse, rows| keys(&then, reverse, rows));
    for reverse in [false, true] {
        let (first, cost) = table.with_cost(|table| keys(table, reverse, 1)).expect("a row");
        assert_eq!(first.len(), 1);
        assert!(cost.pages < 100, "{cost:?}");
        let (all, cost) = table.with_cost(|table| keys(table, reverse, usize::MAX)).expect("rows");
        assert_eq!(all.len(), live.len());
        assert!(cost.pages < 400, "{cost:?}");
    }
    // A transaction sees its own removals so, whether or not it has asked what they removed.
    let next = |table: &TableTransaction<'_>| -> Result<Option<Vec<u8>>> {
        Ok(table.range(..).next().transpose()?.map(|row| row.key.to_vec()))
    };
    for optimistic in [false, true] {
        let work = |tx: &Transaction| {
            let table = tx.table(&table)?;
            for expected in &live {
                assert_eq!(next(&table)?.as_ref(), Some(expected), "{optimistic}");
                table.delete(expected)?;
            }
            assert_eq!(next(&table)?, None);
            table.put(key(5), "new")?;
            assert_eq!(next(&table)?, Some(key(5).to_vec()));
            table.delete(key(6))?;
            table.delete(key(50_000))?;
            table.delete(key(5))?;
            assert_eq!((next(&table)?, table.len()?), (None, 0));
            Err::<(), _>(quipu::Error::new(ErrorKind::Invalid, "undo"))
        };
        let undone = if optimistic { work(&db.begin()) } else { db.write(work) };
        assert_eq!(undone.expect_err("undone").kind(), ErrorKind::Invalid);
    }
    check(&|reverse, rows| keys(&table, reverse, rows));
}

type Map = BTreeMap<u8, Vec<u8>>;

/// Some operations of a transaction, each of which may read the key before it writes it. Returns the map afterwards.
fn work(tx: &Transaction, table: &TableTransaction<'_>, mut map: Map, random: &mut SmallRng) -> Result<Map> {
    let mut savepoints: Vec<(Savepoint, Map)> = Vec::new();
    for _ in 0..random.random_range(1..60) {
        let key = random.random_range(0..40u8);
        let value = vec![key; random.random_range(0..9)];
        if random.random_bool(0.6) {
            assert_eq!(table.get([key])?.as_deref(), map.get(&key).map(Vec::as_slice));
        }
        match random.random_range(0..9) {
            0 | 1 => {
                table.put([key], &value)?;
                map.insert(key, value);
            }
            2 => {
                table.delete([key])?;
                map.remove(&key);
            }
            3 => assert_eq!(table.remove([key])?, map.remove(&key).is_some()),
            4 if map.contains_key(&key) => {
                assert_eq!(table.insert([key], &value).expect_err("it is there").kind(), ErrorKind::Exists);
            }
            4 => {
                table.insert([key], &value)?;
                map.insert(key, value);
            }
            5 => {
                let patch = quipu::isolation::Patch::new(|value| Ok([value, b"+"].concat()));
                assert_eq!(table.patch([key], &patch)?, map.contains_key(&key));
                map.entry(key).and_modify(|value| value.push(b'+'));
            }
            6 => savepoints.push((tx.savepoint(), map.clone())),
            7 if !savepoints.is_empty() => {
                let number = random.random_range(0..savepoints.len());
                let (savepoint, then) = savepoints[number].clone();
                savepoints.truncate(number + 1);
                tx.rollback_to(savepoint)?;
                map = then;
            }
            _ if random.random_bool(0.3) => {
                let bytes: usize = map.values().map(|value| 1 + value.len()).sum();
                let tally = table.tally(..)?;
                assert_eq!((tally.rows, tally.bytes), (map.len() as i64, bytes as i64));
            }
            _ => {
                if let Some((savepoint, _)) = savepoints.pop() {
                    tx.release(savepoint)?;
                }
            }
        }
    }
    Ok(map)
}

#[test]
fn keys_read_before_they_are_written_are_counted_rightly() {
    let options = Options::without_files();
    let db = Db::open("/db", options.clone()).expect("a database");
    let declared = TableOptions { measures: Measures { bytes: true, ..Measures::ROWS }, ..TableOptions::default() };
    let table = db.create_table("t", declared).expect("a table");
    let mut random = SmallRng::seed_from_u64(7);
    let mut map = Map::new();
    for round in 0..1500 {
        let is_kept = random.random_bool(0.8);
        let then = map.clone();
        let mut after = Map::new();
        if random.random_bool(0.5) {
            let undone = db.write(|tx| {
                after = work(tx, &tx.table(&table)?, then, &mut random)?;
                if is_kept { Ok(()) } else { Err(quipu::Error::new(ErrorKind::Invalid, "undo")) }
            });
            assert_eq!(undone.is_ok(), is_kept);
        } else {
            let tx = db.begin();
            after = work(&tx, &tx.table(&table).expect("the table"), then, &mut random).expect("work");
            if is_kept {
                tx.commit().expect("nobody else writes");
            }
        }
        if is_kept {
            map = after;
        }
        match random.random_range(0..12) {
            0 => table.flush().expect("a run"),
            1 => table.compact().expect("one run"),
            _ => {}
        }
        let tally = table.tally(..).expect("a tally");
        let bytes: usize = map.values().map(|value| 1 + value.len()).sum();
        assert_eq!((tally.rows, tally.bytes), (map.len() as i64, bytes as i64), "round {round}");
    }
    drop((table, db));
    assert_eq!(check("/db", &options, &mut |_| ()).expect("a report").faults, Vec::<String>::new());
}
