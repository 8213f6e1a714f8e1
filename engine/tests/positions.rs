//! Goal: ranks, offsets and counts are exact over thousands of rows, through tables, snapshots and transactions,
//! whatever others have in flight. Method: keys are numbers, so that every answer follows from arithmetic; several
//! layers, each with inserts, overwrites and removals.

use std::ops::Bound;

use crate::model_map::fresh;
use quipu::{Bounds, Db, ReadableTable, Table, WritableTable};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ROWS: u32 = 4000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().expect("four bytes"))
}

/// Counts many ranges at once, empty and inverted ones among them, and compares with arithmetic and with counts one by
/// one.
fn counts_of_many(reader: &impl ReadableTable, live: &[u32]) {
    let mut rng = StdRng::seed_from_u64(live.len() as u64);
    let keys: Vec<[[u8; 4]; 2]> =
        (0..200).map(|_| [0, 0].map(|_: u32| key(rng.random_range(0..2 * ROWS + 10)))).collect();
    let mut bound = |key| match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    let mut ranges = vec![Bounds::from(..), Bounds::prefix(&[0, 0]), Bounds::from(&key(7)..&key(7)).into_owned()];
    for [low, high] in &keys {
        let (low, high) = (bound(&low[..]), bound(&high[..]));
        ranges.push(Bounds::new(low, high));
    }
    // All sizes of the last group, and none at all.
    for taken in (0..20).chain([ranges.len()]) {
        let ranges = &ranges[..taken];
        let counts = reader.count_many(ranges).unwrap();
        assert_eq!(counts.len(), taken);
        for (range, count) in ranges.iter().zip(counts) {
            let expected = live.iter().filter(|&&number| range.contains(&key(number))).count() as u64;
            assert_eq!(count, expected, "{range:?}");
            assert_eq!(count, reader.count(range).unwrap(), "{range:?}");
        }
    }
}

/// Looks up many keys at once, lent and copied, dead ones among them.
fn values_of_many(reader: &impl ReadableTable) {
    let keys: Vec<[u8; 4]> = (0..2 * ROWS + 5).rev().map(key).collect();
    let one_by_one: Vec<_> = keys.iter().map(|key| reader.get(key).unwrap()).collect();
    assert_eq!(reader.get_many(&keys).unwrap(), one_by_one);
    let mut visited = 0;
    let visit = |number: usize, value: Option<&[u8]>| {
        assert_eq!((number, value), (visited, one_by_one[number].as_deref()));
        visited += 1;
    };
    reader.get_many_with(&keys, visit).unwrap();
    assert_eq!(visited, keys.len());
}

/// Asks every offset and every rank, with `live` as the ascending list of numbers that are there.
fn exact(reader: &impl ReadableTable, live: &[u32]) {
    assert_eq!(reader.len().unwrap(), live.len() as u64);
    for (offset, &expected) in live.iter().enumerate() {
        let row = reader.nth(.., offset as u64).unwrap().expect("a row at every offset");
        assert_eq!(number(&row.key), expected, "offset {offset}");
        assert_eq!(reader.rank(key(expected)).unwrap(), offset as u64);
        assert_eq!(reader.rank(key(expected + 1)).unwrap(), offset as u64 + 1, "rank of what may be absent");
    }
    let offsets: Vec<u64> = (0..live.len() as u64 + 1).collect();
    let rows = reader.nth_many(&offsets).unwrap();
    assert!(rows.last().unwrap().is_none());
    assert!(rows.iter().flatten().map(|row| number(&row.key)).eq(live.iter().copied()));
    let keys: Vec<[u8; 4]> = live.iter().map(|&number| key(number)).collect();
    assert!(reader.rank_many(&keys).unwrap().into_iter().eq(0..live.len() as u64));
    counts_of_many(reader, live);
    values_of_many(reader);
    for (low, high) in [(0, ROWS), (17, 18), (100, 3900), (1999, 2001), (3000, 10), (ROWS, 4 * ROWS)] {
        let (from, to) = (live.partition_point(|&live| live < low), live.partition_point(|&live| live < high));
        let bounds = (Bound::Included(&key(low)[..]), Bound::Excluded(&key(high)[..]));
        let count = to.saturating_sub(from) as u64;
        assert_eq!(reader.count(bounds).unwrap(), count);
        for offset in (0..count).step_by(97) {
            let row = reader.nth(bounds, offset).unwrap().expect("a row within the count");
            assert_eq!(number(&row.key), live[from + offset as usize]);
        }
        assert!(reader.nth(bounds, count).unwrap().is_none());
        let page = reader.page(bounds, count / 2, 10).unwrap();
        assert_eq!(page.total, count);
        let expected = live[from..to.max(from)].iter().skip(count as usize / 2).take(10);
        assert!(page.entries.iter().map(|row| number(&row.key)).eq(expected.copied()));
    }
}

/// Even numbers below 2 * `ROWS`, put in a mixed order.
fn filled(db: &Db) -> (Table, Vec<u32>) {
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| {
        let table = tx.table(&table)?;
        (0..ROWS).try_for_each(|row| table.insert(key(row * 1237 % ROWS * 2), "even"))
    })
    .unwrap();
    (table, (0..ROWS).map(|row| 2 * row).collect())
}

#[test]
fn a_table_is_exact_in_one_layer_and_in_many() {
    let db = fresh();
    let (table, mut live) = filled(&db);
    exact(&table, &live);
    for layer in 0..3u32 {
        table.freeze().unwrap();
        for row in (layer..ROWS).step_by(7) {
            table.put(key(2 * row + 1), "odd").unwrap(); // New, or overwritten.
            table.put(key(2 * row), "again").unwrap();
            table.remove(key(2 * (row + 3))).unwrap();
        }
        let mut set: std::collections::BTreeSet<u32> = live.iter().copied().collect();
        for row in (layer..ROWS).step_by(7) {
            set.extend([2 * row + 1, 2 * row]);
            set.remove(&(2 * (row + 3)));
        }
        live = set.into_iter().collect();
        exact(&table, &live);
    }
    table.thaw().unwrap();
    exact(&table, &live);
}

#[test]
fn a_snapshot_is_exact_while_the_table_goes_on() {
    let db = fresh();
    let (table, live) = filled(&db);
    let snapshot = db.snapshot();
    for row in 0..ROWS / 2 {
        table.put(key(2 * row + 1), "later").unwrap();
        table.remove(key(2 * row)).unwrap();
    }
    exact(&snapshot.table(&table).unwrap(), &live);
    let now: Vec<u32> = (0..ROWS).map(|row| if row < ROWS / 2 { 2 * row + 1 } else { 2 * row }).collect();
    exact(&table, &now);
}

#[test]
fn transactions_count_their_own_rows_and_not_those_of_others() {
    let db = fresh();
    let (table, live) = filled(&db);
    let (first, second) = (db.begin(), db.begin());
    let (in_first, in_second) = (first.table(&table).unwrap(), second.table(&table).unwrap());
    for row in (0..ROWS).step_by(3) {
        in_first.insert(key(2 * row + 1), "first").unwrap();
    }
    for row in (0..ROWS).step_by(5) {
        assert!(in_second.remove(key(2 * row)).unwrap());
        in_second.put(key(2 * (row + 1)), "second").unwrap();
    }
    let mut of_first: Vec<u32> = live.iter().copied().chain((0..ROWS).step_by(3).map(|row| 2 * row + 1)).collect();
    of_first.sort_unstable();
    let of_second: Vec<u32> = live.iter().copied().filter(|live| live % 10 != 0).collect();
    exact(&in_first, &of_first);
    exact(&in_second, &of_second);
    exact(&table, &live);
    exact(&db.snapshot().table(&table).unwrap(), &live);
    // Layers of savepoints count as well.
    let savepoint = first.savepoint();
    in_first.remove_range(&key(0)..&key(ROWS)).unwrap();
    let upper: Vec<u32> = of_first.iter().copied().filter(|&number| number >= ROWS).collect();
    exact(&in_first, &upper);
    first.rollback_to(savepoint).unwrap();
    exact(&in_first, &of_first);
    second.rollback();
    exact(&in_first, &of_first);
    first.commit().unwrap();
    exact(&table, &of_first);
}
