//! Shared by the integration tests: the model (a `BTreeMap` and naive scanning), random keys, values and bounds, and
//! one comparison that calls every method of `ReadableTable`.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use quipu::histogram::{CountInterval, Histogram, Resolution};
use quipu::io::sim::SimDisk;
use quipu::{
    Bounds, Db, Durability, Entry, ErrorKind, Measures, Options, ReadableTable, RunLayout, Tally, WritableTable,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) use quipu_testing::seeds::seeds;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The random source of a test that has just said how to replay it.
pub(crate) fn rng(seed: u64) -> StdRng {
    println!("SEED={seed}");
    StdRng::seed_from_u64(seed)
}

pub(crate) fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 256,
        run_page_bytes: 256,
        run_file_bytes: 2000,
        excised_rows_min: 2,
        log_segment_bytes: 16384,
        memory_bytes: 64 << 20,
        background: false,
        durability: Durability::Os,
        ..Options::default()
    }
}

pub(crate) fn open(disk: &SimDisk) -> Db {
    Db::open(Path::new("/db"), options(disk)).expect("the database opens")
}

/// A database of its own, gone with the test.
pub(crate) fn fresh() -> Db {
    open(&SimDisk::new())
}

/// An index that runs may have: every answer must be the same under both.
pub(crate) fn any_index(rng: &mut StdRng) -> RunLayout {
    if rng.random() { RunLayout::Flat } else { RunLayout::Tree }
}

/// Few enough that keys meet again: the empty key, prefixes of each other, long shared prefixes, and some of a few KiB.
pub(crate) fn key(rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..20) {
        0 => Vec::new(),
        1..=6 => (0..rng.random_range(1..4)).map(|_| [0, 1, b'a', 255][rng.random_range(0..4)]).collect(),
        7..=12 => format!("customer/eu-west/order/{:05}", rng.random_range(0..80)).into_bytes(),
        13..=18 => rng.random_range(0..120u32).to_be_bytes().to_vec(),
        _ => {
            let mut key = vec![b'x'; [30, 200, 3000][rng.random_range(0..3)]];
            key.push(rng.random_range(0..4));
            key
        }
    }
}

/// Mostly short, at times out of line, seldom tens of KiB.
pub(crate) fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = match rng.random_range(0..200) {
        0 => rng.random_range(10_000..40_000),
        1..=9 => rng.random_range(100..2000),
        10..=19 => 0,
        _ => rng.random_range(1..24),
    };
    (0..len).map(|_| rng.random()).collect()
}

/// Bounds of every kind: open and closed, empty, inverted, single keys, prefixes, all.
pub(crate) fn bounds(rng: &mut StdRng) -> Bounds<'static> {
    if rng.random_range(0..8) == 0 {
        let mut prefix = key(rng);
        prefix.truncate(rng.random_range(0..=prefix.len()));
        return Bounds::prefix(&prefix).into_owned();
    }
    let (mut a, mut b) = (key(rng), key(rng));
    if a > b && rng.random_range(0..6) != 0 {
        std::mem::swap(&mut a, &mut b);
    }
    if rng.random_range(0..10) == 0 {
        b.clone_from(&a);
    }
    let start = match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(&*a),
        _ => Bound::Excluded(&*a),
    };
    let end = match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(&*b),
        _ => Bound::Excluded(&*b),
    };
    Bounds::new(start, end).into_owned()
}

/// What a row adds to the tally, said again from the documents.
pub(crate) fn tally_of(measures: &Measures, rows: &[(&Vec<u8>, &Vec<u8>)]) -> Tally {
    let mut tally = Tally::ZERO;
    for (key, value) in rows {
        tally.rows += 1;
        if measures.bytes {
            tally.bytes += (key.len() + value.len()) as i64;
        }
        if measures.hash {
            let seed = measures.hash_seed.wrapping_add(key.len() as u64);
            tally.hash = tally.hash.wrapping_add(xxh3_64_with_seed(value, xxh3_64_with_seed(key, seed)));
        }
        if let Some(field) = measures.sum {
            tally.sum = tally.sum.wrapping_add(field.extract(value));
        }
    }
    tally
}

/// The rows of the model in a range, by looking at each.
pub(crate) fn rows_in<'m>(model: &'m Model, bounds: &Bounds<'_>) -> Vec<(&'m Vec<u8>, &'m Vec<u8>)> {
    model.iter().filter(|(key, _)| bounds.contains(key)).collect()
}

pub(crate) fn owned(entry: Entry) -> (Vec<u8>, Vec<u8>) {
    (entry.key.into(), entry.value.into())
}

fn pair(entry: &Option<Entry>) -> Option<(&[u8], &[u8])> {
    entry.as_ref().map(|entry| (&*entry.key, &*entry.value))
}

fn row<'m>(row: Option<&(&'m Vec<u8>, &'m Vec<u8>)>) -> Option<(&'m [u8], &'m [u8])> {
    row.map(|(key, value)| (&***key, &***value))
}

/// Asks a reader everything that `ReadableTable` can be asked, and compares with the model.
pub(crate) fn compare(reader: &impl ReadableTable, model: &Model, measures: &Measures, rng: &mut StdRng) {
    let all: Vec<(&Vec<u8>, &Vec<u8>)> = model.iter().collect();
    assert_eq!(reader.len().unwrap(), all.len() as u64);
    assert_eq!(reader.is_empty().unwrap(), all.is_empty());
    assert_eq!(pair(&reader.first().unwrap()), row(all.first()));
    assert_eq!(pair(&reader.last().unwrap()), row(all.last()));
    assert_eq!(reader.tally(..).unwrap(), tally_of(measures, &all));
    let walked: Vec<_> = reader.range(..).map(|entry| owned(entry.unwrap())).collect();
    assert!(walked.iter().map(|(key, value)| (key, value)).eq(all.iter().copied()), "a walk over all differs");
    compare_keys(reader, model, &all, rng);
    for _ in 0..6 {
        let bounds = bounds(rng);
        compare_range(reader, model, &bounds, measures, rng);
    }
    compare_range(reader, model, &Bounds::from(..), measures, rng);
    compare_cursor(reader, &all, rng);
}

fn compare_keys(reader: &impl ReadableTable, model: &Model, all: &[(&Vec<u8>, &Vec<u8>)], rng: &mut StdRng) {
    let keys: Vec<Vec<u8>> = (0..rng.random_range(0..20)).map(|_| key(rng)).collect();
    let rank = |key: &[u8]| all.partition_point(|row| &**row.0 < key) as u64;
    for key in &keys {
        assert_eq!(reader.get(key).unwrap().as_deref(), model.get(key).map(|value| &**value));
        assert_eq!(reader.contains(key).unwrap(), model.contains_key(key));
        assert!(reader.get_with(key, |value| value == model.get(key).map(|value| &**value)).unwrap());
        assert_eq!(reader.rank(key).unwrap(), rank(key));
        let mut prefix = key.clone();
        prefix.truncate(rng.random_range(0..=prefix.len()));
        let found: Vec<_> = reader.prefix(&prefix).map(|entry| owned(entry.unwrap())).collect();
        let expected: Vec<_> = all.iter().copied().filter(|row| row.0.starts_with(&prefix)).collect();
        assert!(found.iter().map(|(key, value)| (key, value)).eq(expected), "prefix {prefix:?}");
    }
    let values: Vec<Option<Vec<u8>>> =
        reader.get_many(&keys).unwrap().into_iter().map(|value| value.map(Vec::from)).collect();
    assert_eq!(values, keys.iter().map(|key| model.get(key).cloned()).collect::<Vec<_>>());
    assert_eq!(reader.rank_many(&keys).unwrap(), keys.iter().map(|key| rank(key)).collect::<Vec<_>>());
    let offsets: Vec<u64> = (0..rng.random_range(0..20)).map(|_| rng.random_range(0..all.len() as u64 + 3)).collect();
    let found = reader.nth_many(&offsets).unwrap();
    assert_eq!(found.len(), offsets.len());
    for (entry, &offset) in found.iter().zip(&offsets) {
        assert_eq!(pair(entry), row(all.get(offset as usize)), "offset {offset}");
    }
    assert!(reader.nth(.., u64::MAX).unwrap().is_none());
}

fn compare_range(
    reader: &impl ReadableTable,
    model: &Model,
    bounds: &Bounds<'_>,
    measures: &Measures,
    rng: &mut StdRng,
) {
    let rows = rows_in(model, bounds);
    let count = rows.len() as u64;
    assert_eq!(reader.count(bounds).unwrap(), count, "{bounds:?}");
    let around = reader.count_interval(bounds).unwrap();
    assert!(around.low <= count && count <= around.high, "{count} rows: {around:?} of {bounds:?}");
    assert_eq!(reader.tally(bounds).unwrap(), tally_of(measures, &rows), "{bounds:?}");

    let resolution = [1, 3, count / 5 + 1, u64::MAX][rng.random_range(0..4)];
    compare_histogram(reader, bounds, &rows, Resolution::of_rows(resolution));
    assert_eq!(reader.with_cost(|reader| reader.count(bounds)).unwrap().0, count, "{bounds:?}");

    let (mut lent, mut left) = (reader.range(bounds), &rows[..]);
    while !left.is_empty() {
        let (row, (key, value));
        (row, (key, value), left) = match left {
            [expected, rest @ ..] if rng.random_range(0..3) > 0 => (lent.lend_next(), *expected, rest),
            [rest @ .., expected] => (lent.lend_next_back(), *expected, rest),
            [] => unreachable!("some are left"),
        };
        assert_eq!(row.unwrap(), Some((&key[..], &value[..])), "{bounds:?}");
    }
    assert_eq!(lent.lend_next().unwrap(), None, "{bounds:?}");
    assert_eq!(lent.lend_next_back().unwrap(), None, "{bounds:?}");
    drop(lent);

    // A walk that takes from both ends in turn.
    let (mut walk, mut from, mut to) = (reader.range(bounds), 0, rows.len());
    while from < to {
        if rng.random() {
            assert_eq!(pair(&walk.next().map(Result::unwrap)), row(rows.get(from)), "{bounds:?}");
            from += 1;
        } else {
            to -= 1;
            assert_eq!(pair(&walk.next_back().map(Result::unwrap)), row(rows.get(to)), "{bounds:?}");
        }
    }
    for _ in 0..2 {
        assert!(walk.next().is_none() && walk.next_back().is_none(), "{bounds:?} has rows past its end");
    }
    drop(walk);
    assert!(
        reader
            .range(bounds)
            .rev()
            .map(|entry| owned(entry.unwrap()))
            .eq(rows.iter().rev().map(|row| (row.0.clone(), row.1.clone())))
    );

    let limit = rng.random_range(1..count as usize + 2);
    let mut visited = Vec::new();
    reader
        .for_each(bounds, |key, value| {
            visited.push((key.to_vec(), value.to_vec()));
            visited.len() < limit
        })
        .unwrap();
    assert!(visited.iter().map(|(key, value)| (key, value)).eq(rows.iter().copied().take(limit)), "{bounds:?}");

    for offset in [0, 1, count / 2, count.saturating_sub(1), count, count + 7, u64::MAX] {
        let expected = usize::try_from(offset).ok().and_then(|offset| rows.get(offset));
        assert_eq!(pair(&reader.nth(bounds, offset).unwrap()), row(expected), "{bounds:?} at {offset}");
        let limit = [0, 1, 5, 1000, usize::MAX][rng.random_range(0..5)];
        let page = reader.page(bounds, offset, limit).unwrap();
        assert_eq!((page.offset, page.total), (offset, count), "{bounds:?}");
        let expected: Vec<_> = rows.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(limit).collect();
        assert_eq!(page.entries.len(), expected.len(), "{bounds:?} at {offset}, {limit} rows");
        assert!(page.entries.iter().zip(expected).all(|(entry, row)| *entry.key == **row.0 && *entry.value == **row.1));
    }

    for q in [0.0, 1.0, 0.5, 0.99, rng.random_range(0.0..1.0)] {
        let expected = if count == 0 { None } else { rows.get((q * (count - 1) as f64 + 0.5).floor() as usize) };
        assert_eq!(pair(&reader.quantile(bounds, q).unwrap()), row(expected), "{bounds:?} quantile {q}");
    }
    for q in [-0.001, 1.001, f64::NAN, f64::INFINITY] {
        assert_eq!(reader.quantile(bounds, q).unwrap_err().kind(), ErrorKind::Invalid);
    }

    let wanted = [0, 1, 3, count as usize / 2, count as usize, count as usize + 3][rng.random_range(0..6)];
    let sample = reader.sample(bounds, wanted, rng).unwrap();
    assert_eq!(sample.len(), wanted.min(count as usize), "{bounds:?}");
    assert!(sample.windows(2).all(|pair| pair[0].key < pair[1].key), "a sample is sorted and distinct");
    for entry in &sample {
        assert!(bounds.contains(&entry.key));
        assert_eq!(model.get(&*entry.key).map(|value| &**value), Some(&*entry.value));
    }

    for parts in [0, 1, 2, 3, 10, count as usize + 5] {
        let cuts = reader.split_points(bounds, parts).unwrap();
        let parts = parts.min(count as usize);
        assert_eq!(cuts.len(), parts.saturating_sub(1), "{bounds:?} in {parts} parts");
        let mut edges: Vec<usize> = cuts.iter().map(|cut| rows.partition_point(|row| **row.0 < **cut)).collect();
        assert!(
            cuts.iter().zip(&edges).all(|(cut, &edge)| **rows[edge].0 == **cut),
            "a cut is the first key of its part"
        );
        edges.insert(0, 0);
        edges.push(rows.len());
        let sizes: Vec<usize> = edges.windows(2).map(|edges| edges[1] - edges[0]).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= 1, "{bounds:?} in {parts} parts: {sizes:?}");
    }
}

/// Buckets lie side by side over the range, and what they say of rows is true and as narrow as was asked.
pub(crate) fn compare_histogram(
    reader: &impl ReadableTable,
    bounds: &Bounds<'_>,
    rows: &[(&Vec<u8>, &Vec<u8>)],
    resolution: Resolution,
) -> Histogram {
    let histogram = reader.histogram(bounds, resolution).unwrap();
    assert_eq!(histogram.rows, rows.len() as u64, "{bounds:?}");
    let holds = |estimate: CountInterval, truth: usize, width: u64| {
        let is_true = estimate.low <= truth as u64 && truth as u64 <= estimate.high;
        assert!(is_true && estimate.width() <= width, "{truth} rows: {estimate:?} of {bounds:?}, {resolution:?}");
    };
    let mut passed = 0;
    let (mut start, mut end) = (bounds.start_bound(), None);
    for bucket in &histogram.buckets {
        assert_eq!(bucket.bounds.start_bound(), start, "{bounds:?}");
        let count = rows[passed..].iter().take_while(|row| bucket.bounds.contains(row.0)).count();
        passed += count;
        holds(bucket.rows, count, resolution.rows);
        holds(bucket.rows_until, passed, resolution.rows / 2);
        end = Some(bucket.bounds.end_bound());
        if let Some(Bound::Excluded(key)) = end {
            start = Bound::Included(key);
        }
    }
    assert_eq!(passed, rows.len(), "{bounds:?}");
    assert!(end.is_none_or(|end| end == bounds.end_bound()), "{bounds:?}");
    histogram
}

/// A cursor is a place between 0 (before the first row) and len + 1 (after the last).
fn compare_cursor(reader: &impl ReadableTable, all: &[(&Vec<u8>, &Vec<u8>)], rng: &mut StdRng) {
    let mut cursor = reader.cursor();
    let mut place = 0usize;
    for _ in 0..12 {
        let moved = match rng.random_range(0..6) {
            0 => {
                let key = key(rng);
                place = all.partition_point(|row| *row.0 < key) + 1;
                cursor.seek(&key).unwrap()
            }
            1 => {
                let offset = rng.random_range(0..all.len() + 2);
                place = offset.min(all.len()) + 1;
                cursor.seek_offset(offset as u64).unwrap()
            }
            2 | 3 => {
                place = (place + 1).min(all.len() + 1);
                cursor.next().unwrap()
            }
            _ => {
                place = place.saturating_sub(1);
                cursor.prev().unwrap()
            }
        };
        let expected = place.checked_sub(1).and_then(|place| all.get(place));
        assert_eq!(moved, expected.is_some());
        assert_eq!(cursor.key().map(|key| &**key), expected.map(|row| &**row.0));
        assert_eq!(cursor.value().map(|value| &**value), expected.map(|row| &**row.1));
        assert_eq!(cursor.offset().unwrap(), place.saturating_sub(1).min(all.len()) as u64);
    }
}

/// Makes one random write to a table and its model, and compares what is returned.
pub(crate) fn write(table: &impl WritableTable, model: &mut Model, rng: &mut StdRng) {
    write_as(table, model, rng, false);
}

/// As `write`, of a table that is blind or not: then a removal may say that there was a row though there was none.
pub(crate) fn write_as(table: &impl WritableTable, model: &mut Model, rng: &mut StdRng, is_blind: bool) {
    let (key, value) = (key(rng), value(rng));
    match rng.random_range(0..40) {
        0..=11 => {
            table.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        12..=20 => match table.insert(&key, &value) {
            Ok(()) => assert_eq!(model.insert(key, value), None),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Exists);
                assert!(model.contains_key(&key));
            }
        },
        21..=26 => match table.replace(&key, &value) {
            Ok(()) => assert!(model.insert(key, value).is_some()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Missing);
                assert!(!model.contains_key(&key));
            }
        },
        27..=32 => {
            table.delete(&key).unwrap();
            model.remove(&key);
        }
        33 => {
            let is_first: bool = rng.random();
            let popped = if is_first { table.pop_first() } else { table.pop_last() }.unwrap();
            let expected = if is_first { model.pop_first() } else { model.pop_last() };
            assert_eq!(popped.map(|entry| (entry.key.to_vec(), entry.value.to_vec())), expected);
        }
        34 => {
            let new = rng.random_bool(0.8).then_some(value);
            table
                .update(&key, |old| {
                    assert_eq!(old, model.get(&key).map(|value| &**value), "{key:?}");
                    new.clone()
                })
                .unwrap();
            match new {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
        35 => {
            let bounds = bounds(rng);
            let (bit, few) = (rng.random_range(0..8), rng.random_range(0..9));
            let goes = |key: &[u8]| xxh3_64_with_seed(key, bit).is_multiple_of(10 * few + 3);
            let gone: Vec<Vec<u8>> =
                rows_in(model, &bounds).into_iter().map(|row| row.0.clone()).filter(|key| goes(key)).collect();
            let removed = table.retain(&bounds, |key, value| {
                assert_eq!(Some(value), model.get(key).map(|value| &**value), "{key:?}");
                !goes(key)
            });
            assert_eq!(removed.unwrap(), gone.len() as u64, "{bounds:?}");
            gone.iter().for_each(|key| drop(model.remove(key)));
        }
        36..=38 => {
            let (said, was) = (table.remove(&key).unwrap(), model.remove(&key).is_some());
            assert!(said == was || said && is_blind, "a removal of {key:?} says {said}");
        }
        _ => {
            let mut bounds = bounds(rng);
            if rows_in(model, &bounds).len() > 30 && rng.random_range(0..8) != 0 {
                bounds = Bounds::from(&*key..=&*key).into_owned();
            }
            let gone: Vec<Vec<u8>> = rows_in(model, &bounds).into_iter().map(|row| row.0.clone()).collect();
            assert_eq!(table.remove_range(&bounds).unwrap(), gone.len() as u64, "{bounds:?}");
            for key in gone {
                model.remove(&key);
            }
        }
    }
}

/// Removes the row of a cursor under it: it keeps its place.
pub(crate) fn cursor_survives_removal(table: &impl WritableTable, model: &mut Model, rng: &mut StdRng) {
    if model.is_empty() {
        return;
    }
    let place = rng.random_range(0..model.len());
    let key = model.keys().nth(place).unwrap().clone();
    let mut cursor = table.cursor();
    assert!(cursor.seek(&key).unwrap());
    assert!(table.remove(&key).unwrap());
    model.remove(&key);
    assert_eq!(cursor.offset().unwrap(), place as u64);
    if rng.random() {
        assert_eq!(cursor.next().unwrap(), place < model.len());
        assert_eq!(cursor.key().map(|key| &**key), model.keys().nth(place).map(|key| &**key));
    } else {
        assert_eq!(cursor.prev().unwrap(), place > 0);
        let before = place.checked_sub(1).and_then(|place| model.keys().nth(place));
        assert_eq!(cursor.key().map(|key| &**key), before.map(|key| &**key));
    }
}
