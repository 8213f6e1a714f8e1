//! Goal: what a histogram says of rows and bytes holds at every boundary, is as exact as was asked, and costs no page
//! more than that needs. Method: random stacks of up to four runs of small pages, with weights from a model; every
//! bucket is compared with the model (rows) and with the leaves that a scan found in the runs (bytes), for resolutions
//! from one row to all; of most tables after excisions. No page is cached: each is missed first. Replay: SEED=... cargo
//! test -p quipu run::histogram_tests

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use smallvec::SmallVec;

use super::histogram::{CountInterval, Histogram, Resolution, histogram};
use super::tests::{Model, new_disk};
use super::*;
use crate::cache::ReadCost;
use crate::cache::{PageCache, ReadPages};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::io::sim::SimDisk;
use crate::page::Record;
use crate::run::place::UnitPlace;
use crate::run::scan::Visitor;
use crate::run::{Run, RunOptions, RunWriter};
use crate::stack::{Cut, Stack};
use crate::tally::Measures;
use crate::tally::Tally;

const NOT_ASKED: u64 = u64::MAX;

/// A run, and what a scan has found in it.
struct Known {
    run: Arc<Run>,
    pages: u64,
    leaves: Vec<Leaf>,
}

struct Leaf {
    /// Where it begins in the file with its long values, and where what comes next does.
    floor: u64,
    end: u64,
    /// Keys, the rows that each weighs, and whether the entry is left.
    entries: Vec<(Vec<u8>, i64, bool)>,
}

impl Visitor for Known {
    fn page(&mut self, place: &UnitPlace, _: &[u8], _: Option<usize>) -> Result<()> {
        self.pages += 1;
        if place.level == 0 {
            if let Some(last) = self.leaves.last_mut() {
                last.end = place.floor;
            }
            self.leaves.push(Leaf { floor: place.floor, end: 0, entries: Vec::new() });
        }
        Ok(())
    }

    fn row(&mut self, record: &Record<'_>, key: &[u8], _: &[u8]) -> Result<()> {
        self.leaves.last_mut().expect("rows come after their leaf").entries.push((key.to_vec(), record.rows(), true));
        Ok(())
    }

    fn leaf_end(&mut self, _: &UnitPlace) -> Result<()> {
        Ok(())
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        Err(error)
    }
}

impl Known {
    /// Writes a run of entries with their weights.
    fn write(
        disk: &SimDisk,
        number: usize,
        entries: &BTreeMap<Vec<u8>, (Option<Vec<u8>>, i64)>,
        is_bottom: bool,
    ) -> Known {
        let path = format!("/db/run-{number}");
        let compression = if number.is_multiple_of(2) { Compression::Lz4 } else { Compression::None };
        let options = RunOptions { page_bytes: 256, is_bottom, compression, ..RunOptions::default() };
        let mut writer = RunWriter::create(disk, Path::new(&path), options).unwrap();
        for (key, (value, rows)) in entries {
            writer.push_entry(key, value.as_deref(), Tally { rows: *rows, ..Tally::ZERO }).unwrap();
        }
        writer.finish().unwrap();
        let run = Arc::new(Run::open(disk, Path::new(&path)).unwrap());
        let mut known = Known { run: run.clone(), pages: 0, leaves: Vec::new() };
        run.files()[0].walk(&mut known).unwrap();
        if let Some(last) = known.leaves.last_mut() {
            last.end = run.info().bytes - 192;
        }
        known
    }

    /// Bytes before a key of all that is left of the file, as [`Bucket::bytes`] defines them.
    fn bytes_before(&self, before: impl Fn(&[u8]) -> bool) -> u64 {
        let mut bytes = 0;
        for leaf in &self.leaves {
            let bytes_of = |entry: usize| (leaf.end - leaf.floor) * entry as u64 / leaf.entries.len() as u64;
            for (number, (key, _, is_left)) in leaf.entries.iter().enumerate() {
                if *is_left && before(key) {
                    bytes += bytes_of(number + 1) - bytes_of(number);
                }
            }
        }
        bytes
    }

    /// In how many leaves there are entries of some keys; only of entries that weigh something, if so asked.
    fn leaves_with(&self, inside: impl Fn(&[u8]) -> bool, that_weigh: bool) -> usize {
        let touches = |leaf: &&Leaf| {
            let mut left = leaf.entries.iter().filter(|(.., is_left)| *is_left);
            left.any(|(key, rows, _)| inside(key) && (*rows != 0 || !that_weigh))
        };
        self.leaves.iter().filter(touches).count()
    }

    /// Erases a range of keys.
    fn excise(&mut self, start: &[u8], end: Option<&[u8]>) {
        let cache = PageCache::new(0);
        let pages = ReadPages::new(&cache);
        let left = pages.answer(|| RunLayer::new(&self.run, &pages).excised(start, end)).unwrap();
        let is_in = |key: &[u8]| start <= key && end.is_none_or(|end| key < end);
        for (key, _, is_left) in self.leaves.iter_mut().flat_map(|leaf| &mut leaf.entries) {
            *is_left &= !is_in(key);
        }
        self.run = left.unwrap_or_else(|| self.run.clone());
    }
}

/// A table: its runs, newest first, and its live rows.
struct Table {
    disk: SimDisk,
    runs: Vec<Known>,
    model: Model,
}

/// How a run comes about.
#[derive(Clone, Copy, Debug)]
enum Writes {
    /// Puts and erasures of keys all over.
    Mixed,
    /// All rows in a part of the key space die.
    Erase,
    /// All rows in a part of it get other values.
    Overwrite,
    /// New keys in a part of it.
    Insert,
    Nothing,
}

const KEYS: u32 = 20_000;

fn key_of(number: u32) -> Vec<u8> {
    match number % 7 {
        // Some are prefixes of others, some long.
        0 => [&number.saturating_sub(1).to_be_bytes()[1..], b"."].concat(),
        1 if number.is_multiple_of(11) => [&number.to_be_bytes()[1..], &[b'k'; 60][..]].concat(),
        _ => number.to_be_bytes()[1..].to_vec(),
    }
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = if rng.random_range(0..40) == 0 { rng.random_range(30..2000) } else { rng.random_range(0..16) };
    vec![7; len]
}

impl Table {
    fn new() -> Table {
        Table { disk: new_disk(), runs: Vec::new(), model: Model::new() }
    }

    fn push(&mut self, writes: Writes, count: u32, rng: &mut StdRng) {
        let is_bottom = self.runs.is_empty();
        let start = rng.random_range(0..KEYS.saturating_sub(count).max(1));
        let mut entries = BTreeMap::new();
        let mut write = |number: u32, value: Option<Vec<u8>>| {
            let key = key_of(number);
            let lives = self.model.contains_key(&key);
            if value.is_some() || lives {
                entries.insert(key, (value.clone(), i64::from(value.is_some()) - i64::from(lives)));
            }
        };
        let part = start..(start + count).min(KEYS);
        match writes {
            Writes::Nothing => {}
            Writes::Mixed => (0..count).for_each(|_| {
                let value = rng.random_bool(0.7).then(|| value(rng));
                write(rng.random_range(0..KEYS), value);
            }),
            Writes::Erase => part.for_each(|number| write(number, None)),
            Writes::Insert => part.for_each(|number| write(number, Some(value(rng)))),
            Writes::Overwrite => part
                .filter(|number| self.model.contains_key(&key_of(*number)))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|number| write(number, Some(value(rng)))),
        }
        for (key, (value, _)) in &entries {
            match value {
                Some(value) => drop(self.model.insert(key.clone(), value.clone())),
                None => drop(self.model.remove(key)),
            }
        }
        self.runs.insert(0, Known::write(&self.disk, self.runs.len(), &entries, is_bottom));
    }

    /// Takes a range of keys out of all runs, and of the model.
    fn remove_range(&mut self, rng: &mut StdRng) {
        let first = rng.random_range(0..KEYS);
        let last = first + [1, 10, 300, 3000, KEYS][rng.random_range(0..5)];
        let (start, end) = (key_of(first), (last < KEYS).then(|| key_of(last)));
        self.model.retain(|key, _| *key < start || end.as_ref().is_some_and(|end| key >= end));
        self.runs.iter_mut().for_each(|known| known.excise(&start, end.as_deref()));
    }

    fn random(rng: &mut StdRng) -> Table {
        let mut table = Table::new();
        let count = [0, 5, 300, 4000][rng.random_range(0..4)];
        table.push(Writes::Mixed, count, rng);
        for _ in 0..rng.random_range(0..4) {
            let all = [Writes::Mixed, Writes::Erase, Writes::Overwrite, Writes::Insert, Writes::Nothing];
            let writes = all[rng.random_range(0..5)];
            table.push(writes, [1, 100, 2000, KEYS][rng.random_range(0..4)], rng);
        }
        for _ in 0..[0, 0, 1, 2, 20][rng.random_range(0..5)] {
            table.remove_range(rng);
        }
        table
    }

    /// All the pages of the runs.
    fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.pages).sum()
    }

    fn levels(&self) -> u64 {
        self.runs.iter().map(|run| run.run.info().levels as u64).sum()
    }

    fn ask(&self, start: Cut<'_>, end: Cut<'_>, resolution: Resolution) -> (Histogram, ReadCost) {
        let cache = PageCache::new(0);
        let pages = ReadPages::new(&cache);
        let layers: Vec<RunLayer<'_>> = self.runs.iter().map(|known| RunLayer::new(&known.run, &pages)).collect();
        let trees = Stack::new(SmallVec::new(), Measures::ROWS);
        let found = pages.answer(|| histogram(&trees, &layers, start, end, &resolution)).unwrap();
        let cost = pages.cost();
        assert_eq!(histogram(&trees, &layers, start, end, &resolution).unwrap(), found);
        assert_eq!(pages.cost(), cost, "another answer of the same pages");
        (found, cost)
    }

    fn check(&self, start: Cut<'_>, end: Cut<'_>, resolution: Resolution) -> Histogram {
        let (histogram, cost) = self.ask(start, end, resolution);
        let asked = format!("{start:?} to {end:?}, {resolution:?}");
        // Nothing was read that was not needed, and that in few rounds.
        assert_eq!((cost.pages, cost.pages_read), (histogram.pages, histogram.pages), "{asked}");
        assert!(cost.pages <= self.pages() && cost.rounds <= self.levels() + 1, "{asked}: {cost:?}");

        let is_before = |key: &[u8], cut: &Cut<'_>| match *cut {
            Cut::Start => false,
            Cut::Before(at) => key < at,
            Cut::After(at) => key <= at,
            Cut::End => true,
        };
        let is_in = |key: &[u8], from: &Cut<'_>, to: &Cut<'_>| !is_before(key, from) && is_before(key, to);
        let keys: Vec<&[u8]> = self.model.keys().map(|key| &**key).collect();
        let rows_of = |from: &Cut<'_>, to: &Cut<'_>| {
            let before = |cut| keys.partition_point(|key| is_before(key, cut)) as u64;
            before(to).saturating_sub(before(from))
        };
        let bytes_of = |from: &Cut<'_>, to: &Cut<'_>| -> u64 {
            let before = |run: &Known, cut: &Cut<'_>| run.bytes_before(|key| is_before(key, cut));
            self.runs.iter().map(|run| before(run, to).saturating_sub(before(run, from))).sum()
        };
        let holds = |bounds: &CountInterval, truth: u64, width: u64, what: &str| {
            assert!(bounds.low <= truth && truth <= bounds.high, "{what} {truth} not in {bounds:?}: {asked}");
            assert!(bounds.width() <= width, "{what} {bounds:?}, wider than {width}: {asked}");
        };
        assert_eq!((histogram.rows, histogram.bytes), (rows_of(&start, &end), bytes_of(&start, &end)), "{asked}");
        let mut from = start;
        for (number, bucket) in histogram.buckets.iter().enumerate() {
            let (is_last, to) = (number + 1 == histogram.buckets.len(), bucket.bounds.end());
            assert_eq!(bucket.bounds.start(), from);
            assert_eq!(to == end, is_last);
            assert!(!from.is_at_or_past(&to) && (is_last || !to.is_at_or_past(&end)), "{from:?} to {to:?}: {asked}");
            holds(&bucket.rows_until, rows_of(&start, &to), resolution.rows / 2, "rows until");
            holds(&bucket.bytes_until, bytes_of(&start, &to), resolution.bytes / 2, "bytes until");
            holds(&bucket.rows, rows_of(&from, &to), resolution.rows, "rows");
            holds(&bucket.bytes, bytes_of(&from, &to), resolution.bytes, "bytes");
            let is_of_a_leaf =
                |that_weigh| self.runs.iter().all(|run| run.leaves_with(|key| is_in(key, &from, &to), that_weigh) <= 1);
            assert!(bucket.rows.high <= resolution.rows || is_of_a_leaf(true), "{bucket:?} has many rows: {asked}");
            assert!(bucket.bytes.high <= resolution.bytes || is_of_a_leaf(false), "{bucket:?} has many bytes: {asked}");
            from = to;
        }
        if let Some(last) = histogram.buckets.last() {
            assert_eq!((last.rows_until.low, last.rows_until.high), (histogram.rows, histogram.rows));
            assert_eq!((last.bytes_until.low, last.bytes_until.high), (histogram.bytes, histogram.bytes));
        }
        histogram
    }
}

#[test]
fn bounds_hold_and_are_as_narrow_as_asked() {
    let rounds = if std::env::var("SEED").is_ok() { 1 } else { 25 };
    for seed in seed_or(1)..seed_or(1) + rounds {
        println!("SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let table = Table::random(&mut rng);
        let keys: Vec<Vec<u8>> =
            (0..6).map(|_| key_of(rng.random_range(0..KEYS))).chain([vec![], vec![0, 60], vec![255]]).collect();
        let mut cuts = vec![Cut::Start, Cut::End];
        cuts.extend(keys.iter().flat_map(|key| [Cut::Before(key), Cut::After(key)]));
        let rows = table.model.len() as u64;
        let bytes: u64 = table.runs.iter().map(|known| known.run.info().bytes).sum();
        for resolution_rows in [1, 10, 100, rows.max(1), NOT_ASKED] {
            let mut resolution = Resolution { rows: resolution_rows, bytes: NOT_ASKED };
            table.check(Cut::Start, Cut::End, resolution);
            for _ in 0..3 {
                resolution.bytes = [NOT_ASKED, bytes, bytes / 9, 700][rng.random_range(0..4)];
                let (start, end) = (cuts[rng.random_range(0..cuts.len())], cuts[rng.random_range(0..cuts.len())]);
                table.check(start, end, resolution);
            }
        }
    }
}

/// A bottom run of 14,000 rows or so, with others over it.
fn table_of(uppers: &[Writes]) -> Table {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let mut table = Table::new();
    table.push(Writes::Mixed, 2 * KEYS, &mut rng);
    uppers.iter().for_each(|writes| table.push(*writes, 2000, &mut rng));
    table
}

const ALL: (Cut<'_>, Cut<'_>) = (Cut::Start, Cut::End);

fn rows(rows: u64) -> Resolution {
    Resolution { rows, bytes: NOT_ASKED }
}

#[test]
fn a_coarse_histogram_reads_a_handful_of_pages() {
    for uppers in [&[][..], &[Writes::Mixed], &[Writes::Mixed, Writes::Erase, Writes::Insert]] {
        let table = table_of(uppers);
        let live = table.model.len() as u64;
        let levels = table.runs.iter().map(|known| known.run.info().levels as u64).max().unwrap();
        let cost_of = |part: u64| {
            let histogram = table.check(ALL.0, ALL.1, rows(live / part));
            assert!(histogram.buckets.len() as u64 <= 4 * part, "{} buckets for {part}", histogram.buckets.len());
            let (_, cost) = table.ask(ALL.0, ALL.1, rows(live / part));
            assert!(cost.rounds <= levels + 1, "{cost:?}");
            cost.pages_read
        };
        let runs = table.runs.len() as u64;
        assert!(table.pages() > 1000 && cost_of(1) <= 4 * runs, "{} of {} pages", cost_of(1), table.pages());
        assert!(cost_of(10) <= table.pages() / 20, "{} of {} pages", cost_of(10), table.pages());
        assert!(cost_of(100) <= table.pages() / 6, "{} of {} pages", cost_of(100), table.pages());
        // The totals stand in the footers.
        let entries: u64 = table.runs.iter().map(|known| known.run.info().total.entries as u64).sum();
        assert_eq!(table.check(ALL.0, ALL.1, rows(2 * entries)).pages, 0);
        // The ends of a range cost a descent each.
        let (start, end) = (key_of(KEYS / 3), key_of(KEYS / 2));
        let range = table.check(Cut::Before(&start), Cut::After(&end), rows(2 * entries));
        assert!(range.pages <= 2 * table.levels() && range.buckets.len() == 1, "{} pages", range.pages);
    }
}

#[test]
fn boundaries_on_borders_of_pages_are_exact_and_cost_no_leaf() {
    let table = table_of(&[]);
    let [known] = &table.runs[..] else { unreachable!("one run") };
    for resolution in [1, 20, 100, 2000] {
        let resolution = Resolution { rows: resolution, bytes: resolution * 40 };
        let histogram = table.check(ALL.0, ALL.1, resolution);
        for bucket in &histogram.buckets {
            let all = [bucket.rows, bucket.bytes, bucket.rows_until, bucket.bytes_until];
            assert_eq!(all.map(|bounds| bounds.width()), [0; 4]);
        }
        assert!(histogram.pages <= known.pages - known.leaves.len() as u64);
    }
}

/// Entries that take the place of live rows weigh nothing: where they lie is not asked.
#[test]
fn overwrites_cost_no_page() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let mut table = table_of(&[]);
    let alone = table.check(ALL.0, ALL.1, rows(100));
    table.push(Writes::Overwrite, KEYS, &mut rng);
    let upper = &table.runs[0];
    assert!(upper.pages > 10 && upper.run.info().total.tally.rows == 0);
    let both = table.check(ALL.0, ALL.1, rows(100));
    assert_eq!((both.pages, both.rows), (alone.pages, alone.rows));
    assert_eq!(
        both.buckets.iter().map(|bucket| bucket.rows).collect::<Vec<_>>(),
        alone.buckets.iter().map(|bucket| bucket.rows).collect::<Vec<_>>()
    );
    assert!(both.bytes > alone.bytes);
}

/// A page whose weights add up to nothing may hide rows that died next to rows that came.
#[test]
fn what_a_page_weighs_is_not_what_it_hides() {
    let mut table = Table::new();
    let key = |number: u32| number.to_be_bytes().to_vec();
    let bottom: BTreeMap<_, _> = (0..3000).map(|number| (key(number), (Some(vec![1; 9]), 1))).collect();
    // The first thousand rows die, a thousand come after the last.
    let dead = (0..1000).map(|number| (key(number), (None, -1)));
    let upper: BTreeMap<_, _> = dead.chain((3000..4000).map(|number| (key(number), (Some(vec![1; 9]), 1)))).collect();
    table.model = (1000..4000).map(|number| (key(number), vec![1; 9])).collect();
    table.runs.push(Known::write(&table.disk, 1, &upper, false));
    table.runs.push(Known::write(&table.disk, 0, &bottom, true));
    assert_eq!(table.runs[0].run.info().total.tally.rows, 0);
    for resolution in [1, 50, 900, 3000] {
        table.check(ALL.0, ALL.1, rows(resolution));
    }
    let coarse = table.check(ALL.0, ALL.1, rows(900));
    let before_1000 =
        coarse.buckets.iter().rfind(|bucket| matches!(bucket.bounds.end(), Cut::Before(end) if *end <= *key(1000)));
    assert!(before_1000.is_none_or(|bucket| bucket.rows_until.low == 0 && bucket.rows_until.high <= 450));
}

#[test]
fn nothing_has_a_histogram_too() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let nothing = CountInterval { low: 0, high: 0 };
    let mut table = Table::new();
    for _ in 0..3 {
        let histogram = table.check(ALL.0, ALL.1, rows(1));
        assert_eq!((histogram.rows, histogram.bytes, histogram.pages), (0, 0, 0));
        let [bucket] = &histogram.buckets[..] else { panic!("one bucket, not {histogram:?}") };
        assert_eq!([bucket.rows, bucket.bytes, bucket.rows_until, bucket.bytes_until], [nothing; 4]);
        table.push(Writes::Nothing, 0, &mut rng);
    }
    // Ranges without keys, of a table with some.
    table.push(Writes::Mixed, 1000, &mut rng);
    for (start, end) in [
        (Cut::End, Cut::End),
        (Cut::Start, Cut::Start),
        (Cut::End, Cut::Start),
        (Cut::Start, Cut::Before(b"")),
        (Cut::Before(b"b"), Cut::Before(b"b")),
        (Cut::After(b"b"), Cut::Before(b"b\0")),
        (Cut::After(b"b"), Cut::Before(b"a")),
    ] {
        assert_eq!(table.ask(start, end, rows(1)).0, Histogram::default(), "{start:?} to {end:?}");
    }
}
