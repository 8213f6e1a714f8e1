//! Goal: histograms, charges and explanations are right of tables in memory, on disk and of both; and cost what they
//! say. Method: random tables of a few thousand rows at tiny pages, flushed, compacted and frozen between writes; every
//! bucket is compared with the model, with `count` and with `tally`. What was charged is read again with nothing left
//! to read. Replay: SEED=... cargo test -p quipu --test all histogram::

use crate::model_map::{Model, compare_histogram, options, rng, rows_in, seeds};
use quipu::cost::{Cost, Prefetch};
use quipu::histogram::{Histogram, Resolution};
use quipu::io::sim::SimDisk;
use quipu::{
    Bounds, Db, ErrorKind, Measures, Options, ReadableTable, Table, TableOptions, TableTransaction, WritableTable,
};
use rand::RngExt;
use rand::rngs::StdRng;

const KEYS: u32 = 3000;

fn open(cache_bytes: u64) -> Db {
    Db::open("/db", Options { cache_bytes, ..options(&SimDisk::new()) }).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    match number % 9 {
        0 => format!("{number:06}.").into_bytes(),
        _ => format!("{number:06}").into_bytes(),
    }
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    vec![7; if rng.random_range(0..50) == 0 { rng.random_range(30..2000) } else { rng.random_range(0..16) }]
}

/// Writes one kind of thing all over, or in a part of the keys: so pages gather that hide rows which died next to rows
/// that came.
fn write(table: &Table, db: &Db, model: &mut Model, rng: &mut StdRng) {
    let count = [1, 30, 1000, KEYS][rng.random_range(0..4)];
    let start = rng.random_range(0..=KEYS - count);
    let kind = rng.random_range(0..4);
    db.write(|transaction| {
        let table = transaction.table(table)?;
        for number in start..start + count {
            let key = if kind == 0 { key(rng.random_range(0..KEYS)) } else { key(number) };
            if kind == 1 || kind == 0 && rng.random_bool(0.3) {
                table.remove(&key)?;
                model.remove(&key);
            } else {
                let value = value(rng);
                table.put(&key, &value)?;
                model.insert(key, value);
            }
        }
        Ok(())
    })
    .unwrap();
}

fn bounds(rng: &mut StdRng) -> Bounds<'static> {
    let (a, b) = (rng.random_range(0..KEYS), rng.random_range(0..KEYS));
    let (a, b) = (key(a.min(b)), key(a.max(b)));
    match rng.random_range(0..4) {
        0 => Bounds::from(..),
        1 => Bounds::from(&a..).into_owned(),
        2 => Bounds::from(&a..=&b).into_owned(),
        _ => Bounds::from(&a..&b).into_owned(),
    }
}

fn check(reader: &impl ReadableTable, model: &Model, bounds: &Bounds<'_>, resolution: Resolution) -> Histogram {
    let histogram = compare_histogram(reader, bounds, &rows_in(model, bounds), resolution);
    for bucket in &histogram.buckets {
        let count = reader.count(&bucket.bounds).unwrap();
        assert!(bucket.rows.low <= count && count <= bucket.rows.high);
        assert!(bucket.bytes.width() <= resolution.bytes && bucket.bytes_until.width() <= resolution.bytes / 2);
    }
    assert_eq!(
        histogram.buckets.last().map(|bucket| bucket.bytes_until.low),
        (!histogram.buckets.is_empty()).then_some(histogram.bytes)
    );
    histogram
}

#[test]
fn bounds_hold_wherever_the_rows_lie() {
    for seed in seeds(6) {
        let mut rng = rng(seed);
        let db = open([0, 64 << 10, 16 << 20][rng.random_range(0..3)]);
        let measures = Measures { bytes: rng.random(), ..Measures::ROWS };
        let options = TableOptions { measures, ..TableOptions::default() };
        let table = db.create_table("t", options).unwrap();
        let mut model = Model::new();
        for _ in 0..10 {
            write(&table, &db, &mut model, &mut rng);
            match rng.random_range(0..8) {
                0..=2 => table.flush().unwrap(),
                3 => table.compact().unwrap(),
                4 | 5 => table.freeze().unwrap(),
                _ => {}
            }
            let snapshot = db.snapshot();
            let view = snapshot.table(&table).unwrap();
            let transaction = db.begin();
            let inside = transaction.table(&table).unwrap();
            let mut inside_model = model.clone();
            for _ in 0..rng.random_range(0..200) {
                let key = key(rng.random_range(0..KEYS));
                if rng.random() {
                    inside.put(&key, b"new").unwrap();
                    inside_model.insert(key, b"new".to_vec());
                } else {
                    inside.remove(&key).unwrap();
                    inside_model.remove(&key);
                }
            }
            for rows in [1, 10, 100, 1000, u64::MAX] {
                let bytes = [u64::MAX, 100_000, 3000][rng.random_range(0..3)];
                let (resolution, bounds) = (Resolution { rows, bytes }, bounds(&mut rng));
                let of_table = check(&table, &model, &bounds, resolution);
                let of_view = check(&view, &model, &bounds, resolution);
                assert_eq!(of_table.buckets, of_view.buckets);
                check(&inside, &inside_model, &bounds, resolution);
            }
        }
    }
}

/// In memory there is no page to stop at: buckets are as fine as was asked, of one tree and of several.
#[test]
fn buckets_in_memory_are_exact_and_even() {
    let measures = Measures { bytes: true, ..Measures::ROWS };
    let db = open(0);
    let table = db.create_table("t", TableOptions { measures, ..TableOptions::default() }).unwrap();
    let mut model: Model = (0..KEYS).map(|number| (key(number), vec![1; 8])).collect();
    for (key, value) in &model {
        table.put(key, value).unwrap();
    }
    for layers in 0..2 {
        if layers > 0 {
            table.freeze().unwrap();
            for number in (0..KEYS).step_by(2) {
                table.remove(key(number)).unwrap();
                model.remove(&key(number));
            }
        }
        let rows = model.len() as u64;
        for parts in [1, 7, 100] {
            let resolution = Resolution::of_rows(rows.div_ceil(parts));
            let histogram = check(&table, &model, &Bounds::from(..), resolution);
            assert_eq!((histogram.pages, histogram.bytes), (0, table.tally(..).unwrap().bytes as u64));
            let buckets = histogram.buckets.len() as u64;
            assert!(buckets >= parts && buckets <= parts + parts / 2 + 1, "{buckets} buckets for {parts}");
            for bucket in &histogram.buckets {
                assert_eq!((bucket.rows.width(), bucket.bytes.width()), (0, 0));
                assert!(bucket.rows.high <= resolution.rows);
                assert_eq!(bucket.bytes.low, table.tally(&bucket.bounds).unwrap().bytes as u64);
            }
        }
        // By bytes, where rows differ in length.
        let resolution = Resolution { rows: u64::MAX, bytes: 1000 };
        let by_bytes = check(&table, &model, &Bounds::from(..), resolution);
        assert!(by_bytes.buckets.iter().all(|bucket| bucket.bytes.high <= 1000));
        // A row a bucket, at the finest.
        let finest = check(&table, &model, &Bounds::from(..), Resolution::of_rows(1));
        assert_eq!(finest.buckets.iter().filter(|bucket| bucket.rows.low == 1).count() as u64, rows);
    }
}

/// Rows that died next to rows that came: of a tree too only the sum is seen from above.
#[test]
fn a_tree_that_weighs_nothing_hides_nothing() {
    let db = open(1 << 20);
    let table = db.ensure_table("t").unwrap();
    let key = |number: u32| number.to_be_bytes();
    (0..2000).for_each(|number| table.put(key(number), b"v").unwrap());
    table.flush().unwrap();
    (0..1000).for_each(|number| assert!(table.remove(key(number)).unwrap()));
    (2000..3000).for_each(|number| table.put(key(number), b"v").unwrap());
    let model: Model = (1000..3000).map(|number| (key(number).to_vec(), b"v".to_vec())).collect();
    for rows in [1, 20, 200, 2000] {
        let histogram = check(&table, &model, &Bounds::from(..), Resolution::of_rows(rows));
        // A page of the run has some fifteen rows.
        assert!(histogram.buckets.len() as u64 >= 2000 / rows.max(20));
        // All that is new lies in memory, after the last page of the run.
        let new = histogram.buckets.iter().filter(|bucket| bucket.bounds.contains(&key(2500)));
        assert!(new.map(|bucket| bucket.rows.high).all(|most| most <= rows.max(20)));
    }
}

/// A table on disk, whose cache holds nothing yet.
fn on_disk(rows: u32) -> (Db, Table) {
    let disk = SimDisk::new();
    let options = Options { cache_bytes: 16 << 20, ..options(&disk) };
    let db = Db::open("/db", options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|transaction| {
        let table = transaction.table(&table)?;
        (0..rows).try_for_each(|number| table.put(key(number), vec![1; if number % 40 == 0 { 500 } else { 9 }]))
    })
    .unwrap();
    table.flush().unwrap();
    drop(table);
    db.close().unwrap();
    let db = Db::open("/db", options).unwrap();
    let table = db.open_table("t").unwrap().unwrap();
    (db, table)
}

#[test]
fn a_coarse_histogram_reads_few_pages() {
    let (db, table) = on_disk(KEYS);
    let pages = table.footprint(..).unwrap().pages;
    let rows = u64::from(KEYS);
    assert_eq!(table.histogram(.., Resolution::of_rows(2 * rows)).unwrap().pages, 0);
    let coarse = table.histogram(.., Resolution::of_rows(rows / 10)).unwrap();
    assert!(coarse.buckets.len() >= 10 && coarse.pages < pages / 10, "{} of {pages} pages", coarse.pages);
    assert!(coarse.bytes >= table.footprint(..).unwrap().page_bytes && coarse.pages_read <= coarse.pages);
    assert_eq!(table.histogram(.., Resolution::of_rows(rows / 10)).unwrap().pages_read, 0);
    (0..2).for_each(|_| assert!(table.get(key(7)).unwrap().is_some()));
    let stats = db.stats();
    assert!(stats.cache_hits > 0 && stats.cache_misses > 0 && stats.cache_bytes > 0);
    assert!(stats.cache_bytes <= stats.cache_bytes_max && stats.lent_bytes == 0);
}

#[test]
fn what_was_charged_is_there() {
    let all = Prefetch::default();
    let (_db, table) = on_disk(KEYS);
    let range = Bounds::from(key(500).as_slice()..key(900).as_slice()).into_owned();
    let visit = |table: &quipu::cost::Costed<'_>| {
        let mut rows = 0u64;
        table.for_each(&range, |_, _| {
            rows += 1;
            true
        })?;
        Ok(rows)
    };
    let charged = table.prefetch(&range, all).unwrap();
    assert!(charged.runs == 1 && charged.pages_read > 10 && charged.pages_read <= charged.pages, "{charged:?}");
    assert!(charged.rounds <= 6, "{charged:?}");
    // A scan may read long values past the cache, of which the range has ten; a get does not.
    let (rows, cost) = table.with_cost(visit).unwrap();
    assert!(rows == 400 && cost.pages_read <= 10, "{cost:?}");
    let long: Vec<_> = (500..900).step_by(40).map(|number| key(number + 20)).collect();
    assert_eq!(table.with_cost(|table| table.get_many(&long)).unwrap().1.pages_read, 0);
    let again = table.prefetch(&range, all).unwrap();
    assert!(again.pages <= charged.pages && (again.pages_read, again.rounds) == (0, 0), "{again:?}");
    // A limit is kept, from either end.
    for reverse in [false, true] {
        let (_db, table) = on_disk(KEYS);
        let few = table.prefetch(.., Prefetch { rows: Some(20), reverse, ..all }).unwrap();
        assert!(few.pages_read < charged.pages_read / 2, "{few:?}");
        let (rows, cost) = table
            .with_cost(|table| {
                let mut rows = table.range(..);
                let mut next = || if reverse { rows.next_back() } else { rows.next() };
                (0..7).map(|_| Ok(next().expect("more rows")?.key)).collect::<quipu::Result<Vec<_>>>()
            })
            .unwrap();
        // The first row of all has a long value.
        assert!(rows.len() == 7 && cost.pages_read <= u64::from(!reverse), "{cost:?}");
    }
    // So does a scan of so many rows, and one that does not say how many reads more.
    let scanned = |said: bool| {
        let (_db, table) = on_disk(KEYS);
        let mut keys = Vec::new();
        let scan = |table: &quipu::cost::Costed<'_>| match said {
            true => table.for_each_limited(&key(1).., 8, |key, _| keys.push(key.to_vec())),
            false => table.for_each(&key(1).., |key, _| {
                keys.push(key.to_vec());
                keys.len() < 8
            }),
        };
        let ((), cost) = table.with_cost(scan).unwrap();
        assert_eq!(keys, (1..9).map(key).collect::<Vec<_>>());
        cost
    };
    let (said, unsaid) = (scanned(true), scanned(false));
    assert!(said.pages_read < unsaid.pages_read && said.pages_read <= 6, "{said:?}, {unsaid:?}");
    // Nothing is nothing.
    assert_eq!(table.prefetch(&b"b"[..]..&b"a"[..], all).unwrap(), Cost { runs: 1, ..Cost::default() });
}

#[test]
fn an_explanation_is_of_one_version_and_counts_all_its_questions() {
    let (db, table) = on_disk(KEYS);
    let ((before, after), cost) = table
        .with_cost(|version| {
            let before = version.count(..&key(700))?;
            table.put(b"0", b"a row more").unwrap();
            Ok((before, version.count(..&key(700))?))
        })
        .unwrap();
    assert_eq!((before, after, table.count(..&key(700)).unwrap()), (700, 700, 701));
    // One had to read a page a level. The other looked at the leaf only: the pages above stay with their file then.
    assert!(cost.runs == 1 && cost.pages == cost.pages_read + 1 && cost.rounds == cost.pages_read, "{cost:?}");
    // Nested ones count for those around them.
    let ((_, within), around) = table.with_cost(|version| version.with_cost(|version| version.get(key(1)))).unwrap();
    assert!(within.pages > 0);
    assert_eq!(within, around);
    // In memory nothing costs a page.
    let memory = db.ensure_table("memory").unwrap();
    memory.put(b"a", b"b").unwrap();
    assert_eq!(memory.with_cost(|version| version.len()).unwrap(), (1, Cost::default()));
}

/// What a transaction has seen in a histogram is part of what it has read, bucket by bucket, and so is what it has had
/// explained.
#[test]
fn a_transaction_notes_what_it_was_told() {
    fn histogram(table: &TableTransaction<'_>) {
        table.histogram(..&key(1000), Resolution::of_rows(100)).unwrap();
    }
    fn explain(table: &TableTransaction<'_>) {
        table.with_cost(|table| table.count(&key(100)..&key(200))).unwrap();
    }
    for ask in [histogram, explain] {
        // A row moves within the range, to another bucket, or beyond the range.
        for (conflicts, from, to) in [(true, 150, 950), (false, 1500, 2500)] {
            let (db, table) = on_disk(KEYS);
            let transaction = db.begin();
            ask(&transaction.table(&table).unwrap());
            transaction.table(&table).unwrap().put(b"mine", b"").unwrap();
            table.remove(key(from)).unwrap();
            table.insert([key(to), vec![b'+']].concat(), b"").unwrap();
            let committed = transaction.commit().map_err(|error| error.kind());
            assert_eq!(committed, if conflicts { Err(ErrorKind::Conflict) } else { Ok(()) });
        }
    }
}
