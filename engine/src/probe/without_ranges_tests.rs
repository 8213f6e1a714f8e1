//! Goal: a run with excisions equals a map without the entries that were erased, in everything that it can be asked; a
//! cut within an excision takes no page; and the sums that excisions have are those of the file. Method: runs of all
//! kinds (bottom and upper, trees and flat, of one file and of many, with all measures) at tiny pages, from which
//! ranges are taken one after the other: long and short ones, beside each other, over each other, over whole files.
//! After each, every key, gap and position is asked, one by one and in groups, with no page in memory and with all
//! pages kept; walks turn at random. Replay: SEED=... cargo test -p quipu run::excise_tests

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tests::{ALL_MEASURES, new_disk};
use super::*;
use crate::cache::{Missing, PageCache, ReadPages};
use crate::compression::Compression;
use crate::options::RunLayout;
use crate::page::KeyBuffer;
use crate::run::{Excisions, Part, Run, RunFile, RunOptions, RunWriter};
use crate::stack::{Layer, LayerWalk, Located};
use crate::tally::Measures;
use crate::tally::Tally;
use crate::tree::{GROUP, Side};

/// Entries in order: a value unless it is a tombstone, and the weight.
type Entries = BTreeMap<Vec<u8>, (Option<Vec<u8>>, Tally)>;

/// A cache of so many bytes has files keep pages.
const KEEPS_BYTES: u64 = 8 << 20;
const KEYS: u32 = 3000;

fn key_of(number: u32) -> Vec<u8> {
    match number % 13 {
        0 => [&number.to_be_bytes()[1..], &[b'k'; 40][..]].concat(),
        1 => number.to_be_bytes()[1..3].to_vec(),
        _ => number.to_be_bytes()[1..].to_vec(),
    }
}

fn new_entries(count: u32, measures: &Measures, is_bottom: bool, rng: &mut StdRng) -> Entries {
    let entry = |_| {
        let key = key_of(rng.random_range(0..KEYS));
        let len = if rng.random_ratio(1, 30) { 400 } else { rng.random_range(0..20) };
        let value = vec![rng.random(); len];
        let mut weight = measures.of_row(&key, &value);
        match rng.random_range(0..3) {
            0 if !is_bottom => {
                let mut weight = -weight;
                weight.rows = -1;
                (key, (None, weight))
            }
            1 if !is_bottom => {
                weight.rows = 0;
                (key, (Some(value), weight))
            }
            _ => (key, (Some(value), weight)),
        }
    };
    (0..count).map(entry).collect()
}

fn write(entries: &Entries, options: RunOptions, entries_max: usize) -> Arc<Run> {
    let disk = new_disk();
    let all: Vec<_> = entries.iter().collect();
    let mut parts = Vec::new();
    for (number, some) in all.chunks(entries_max).enumerate() {
        let path = format!("/db/run-{number}");
        let mut writer = RunWriter::create(&disk, Path::new(&path), options).unwrap();
        for (key, (value, weight)) in some {
            writer.push_entry(key, value.as_deref(), *weight).unwrap();
        }
        writer.finish().unwrap();
        let file = Arc::new(RunFile::open(&disk, Path::new(&path)).unwrap());
        parts.push(Part { low: KeyBuffer::from_slice(some[0].0), file });
    }
    Arc::new(Run::of_parts(&parts, options.is_bottom))
}

/// The keys of entries, gaps beside them, and the ends of excisions.
fn asked_keys(run: &Run, entries: &Entries, rng: &mut StdRng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = entries.keys().cloned().collect();
    keys.extend((0..100).map(|_| key_of(rng.random_range(0..KEYS))));
    keys.extend(run.files().iter().filter_map(|file| file.excisions()).flat_map(|excisions| {
        excisions
            .as_slice()
            .iter()
            .flat_map(|one| [Some(one.start.to_vec()), one.end.as_ref().map(|end| end.to_vec())].into_iter().flatten())
    }));
    keys.extend([Vec::new(), vec![255; 9]]);
    let beside: Vec<Vec<u8>> = keys.iter().step_by(3).map(|key| [key, &[0][..]].concat()).collect();
    keys.extend(beside);
    keys.sort();
    keys.dedup();
    keys
}

/// What a map says of a key: the tally and the number of entries before it.
struct Known<'e> {
    keys: Vec<&'e Vec<u8>>,
    /// The sum of the weights before each, and of all.
    before: Vec<Tally>,
}

impl<'e> Known<'e> {
    fn new(entries: &'e Entries) -> Known<'e> {
        let mut before = vec![Tally::ZERO];
        for (_, weight) in entries.values() {
            before.push(before[before.len() - 1] + *weight);
        }
        Known { keys: entries.keys().collect(), before }
    }

    fn entries_before(&self, key: &[u8], side: Side) -> usize {
        match side {
            Side::Below => self.keys.partition_point(|other| ***other < *key),
            Side::Through => self.keys.partition_point(|other| ***other <= *key),
        }
    }
}

fn compare(run: &Arc<Run>, entries: &Entries, cache: &PageCache, rng: &mut StdRng) {
    let known = Known::new(entries);
    let total = known.before[entries.len()];
    assert_eq!((run.info().total.entries, run.info().total.tally), (entries.len() as i64, total));
    let erased = entries.values().filter(|(value, _)| value.is_none()).count();
    assert_eq!(run.info().total.erased, erased as i64);
    for file in run.files() {
        assert_eq!(file.check_excisions(), [""; 0]);
    }
    let keys = asked_keys(run, entries, rng);
    for key in &keys {
        let pages = ReadPages::new(cache);
        let layer = RunLayer::new(run, &pages);
        let is_excised = run.file_of(key).is_excised(key);
        assert!(!is_excised || !entries.contains_key(key));
        let expected = entries.get(key).map(|(value, _)| value.as_deref());
        assert_eq!(pages.answer(|| layer.get(key)).unwrap(), expected);
        assert_eq!(pages.answer(|| layer.is_live(key)).unwrap(), expected.map(|value| value.is_some()));
        for side in [Side::Below, Side::Through] {
            let before = known.before[known.entries_before(key, side)];
            assert_eq!(pages.answer(|| layer.tally_before(key, side)).unwrap(), before, "{key:?}");
            assert_eq!(pages.answer(|| layer.rows_before(key, side)).unwrap(), before.rows);
        }
        let place = known.entries_before(key, Side::Below);
        let located = Located { rows: known.before[place].rows, entries: place as i64, is_found: expected.is_some() };
        assert_eq!(pages.answer(|| layer.locate(key)).unwrap(), located, "{key:?}");
        assert!(!is_excised || pages.cost() == Default::default(), "{:?} for a key that was excised", pages.cost());
        let lacking = lacking([layer].into_iter(), key);
        assert!(!lacking.has(0) || expected.is_none());
        assert!(lacking.has(0) || !is_excised);
    }
    compare_groups(run, entries, &known, &keys, cache);
    compare_positions(run, &known, cache, rng);
    compare_walks(run, entries, &known, &keys, cache, rng);
}

fn compare_groups(run: &Arc<Run>, entries: &Entries, known: &Known<'_>, keys: &[Vec<u8>], cache: &PageCache) {
    for (group, side) in keys.chunks(GROUP).zip([Side::Below, Side::Through].into_iter().cycle()) {
        let pages = ReadPages::new(cache);
        let layer = RunLayer::new(run, &pages);
        let group: Vec<&[u8]> = group.iter().map(|key| &**key).collect();
        let found = pages.answer(|| {
            let mut found = Ok(Vec::new());
            layer.get_group(&group, |number, entry| match (&mut found, entry) {
                (Ok(found), Ok(entry)) => {
                    assert_eq!(found.len(), number);
                    found.push(entry.map(|entry| !entry.is_tombstone()));
                }
                _ => found = Err(Missing),
            });
            found
        });
        let expected: Vec<_> = group.iter().map(|key| entries.get(*key).map(|(value, _)| value.is_some())).collect();
        assert_eq!(found.unwrap(), expected);
        let cuts: Vec<(&[u8], Side)> = group.iter().map(|key| (*key, side)).collect();
        let counted = pages.answer(|| {
            let mut counted = Ok(Vec::new());
            layer.rows_before_group(&cuts, |_, rows| match (&mut counted, rows) {
                (Ok(counted), Ok(rows)) => counted.push(rows),
                _ => counted = Err(Missing),
            });
            counted
        });
        let expected = group.iter().map(|key| known.before[known.entries_before(key, side)].rows);
        assert!(counted.unwrap().into_iter().eq(expected));
    }
}

fn compare_positions(run: &Arc<Run>, known: &Known<'_>, cache: &PageCache, rng: &mut StdRng) {
    let pages = ReadPages::new(cache);
    let layer = RunLayer::new(run, &pages);
    for (place, key) in known.keys.iter().enumerate() {
        assert_eq!(*pages.answer(|| layer.key_at(place as i64)).unwrap(), ***key);
        if run.info().is_bottom {
            assert_eq!(*pages.answer(|| layer.nth(place as u64)).unwrap().key(), ***key);
        }
    }
    if run.info().is_bottom {
        assert!(!pages.answer(|| layer.nth(known.keys.len() as u64)).unwrap().valid());
    }
    for _ in 0..known.keys.len().min(100) {
        let mut ends = [rng.random_range(0..=known.keys.len()), rng.random_range(0..=known.keys.len())];
        ends.sort_unstable();
        if ends[0] == ends[1] {
            continue;
        }
        let position = rng.random_range(ends[0]..ends[1]) as i64;
        let within = ends[0] as i64..ends[1] as i64;
        let (key, place) = pages.answer(|| layer.pivot_near(position, within.clone())).unwrap();
        let before = known.entries_before(&key, Side::Below);
        assert_eq!((place.rows, place.entries), (known.before[before].rows, before as i64));
        match place.is_found {
            true => assert_eq!((place.entries, &*key), (position, &**known.keys[position as usize])),
            false => assert!(within.start < place.entries && place.entries < within.end),
        }
    }
}

/// Walks from keys and ends, which turn at random.
fn compare_walks(
    run: &Arc<Run>,
    entries: &Entries,
    known: &Known<'_>,
    keys: &[Vec<u8>],
    cache: &PageCache,
    rng: &mut StdRng,
) {
    let count = known.keys.len();
    for _ in 0..200 {
        let pages = ReadPages::new(cache);
        let layer = RunLayer::new(run, &pages);
        let key = &keys[rng.random_range(0..keys.len())];
        // The walk's place, as the number of entries at or before it: none before all.
        let (mut walk, mut place) = match rng.random_range(0..10) {
            0 => (pages.answer(|| layer.seek(None)).unwrap(), 1),
            1 => (pages.answer(|| layer.end()).unwrap(), count + 1),
            _ => {
                let side = if rng.random() { Side::Below } else { Side::Through };
                let walk = pages.answer(|| layer.seek(Some((key, side)))).unwrap();
                (walk, known.entries_before(key, side) + 1)
            }
        };
        let turns = [0.02, 0.3, 0.5][rng.random_range(0..3)];
        let mut forward: bool = rng.random();
        for _ in 0..rng.random_range(0..80) {
            // Where nothing is left, neither end tells itself from the other.
            assert_eq!(walk.valid(), (1..=count).contains(&place), "{place} of {count}");
            if walk.valid() {
                assert_eq!(*walk.key(), **known.keys[place - 1]);
                let (value, weight) = &entries[known.keys[place - 1]];
                assert_eq!((walk.is_live(), walk.weight(&walk.key())), (value.is_some(), *weight));
                assert_eq!(pages.answer(|| walk.value()).unwrap(), value.as_deref());
            }
            forward ^= rng.random_bool(turns);
            match forward {
                true => {
                    pages.answer(|| walk.next()).unwrap();
                    place = (place + 1).min(count + 1);
                }
                false => {
                    pages.answer(|| walk.prev()).unwrap();
                    place = place.saturating_sub(1);
                }
            }
        }
    }
}

/// Takes ranges out of a run until little is left of it.
fn excise_and_compare(mut run: Arc<Run>, mut entries: Entries, rng: &mut StdRng) {
    let caches = [PageCache::new(0), PageCache::new(KEEPS_BYTES)];
    for round in 0..10 {
        let first = rng.random_range(0..KEYS);
        let last = first + [1, 3, 30, 300, 1500][rng.random_range(0..5)];
        // Some begin or end where an entry is.
        let end_of = |number: u32, rng: &mut StdRng| match rng.random_range(0..3) {
            0 => entries.range(key_of(number)..).next().map_or_else(|| key_of(number), |(key, _)| key.clone()),
            _ => key_of(number),
        };
        let start = if rng.random_ratio(1, 8) { Vec::new() } else { end_of(first, rng) };
        let end = (last < KEYS).then(|| end_of(last, rng)).filter(|end| *end > start);
        let is_in = |key: &[u8]| *start <= *key && end.as_ref().is_none_or(|end| key < &**end);
        let count = entries.len();
        entries.retain(|key, _| !is_in(key));
        let pages = ReadPages::new(&caches[0]);
        let left = pages.answer(|| RunLayer::new(&run, &pages).excised(&start, end.as_deref())).unwrap();
        assert_eq!(left.is_some(), entries.len() < count, "{start:?} to {end:?}");
        // At most a path to each end, all pages of a level in one round.
        assert!(pages.cost().rounds <= run.info().levels as u64 && pages.cost().pages <= 2 * run.info().levels as u64);
        let Some(left) = left else { continue };
        assert!(left.is_same(&run) && left.files().len() <= run.files().len());
        let emptied = left.files().iter().filter(|file| file.sums_left().entries == 0).count();
        assert!(emptied == 0 || left.files().len() == 1 && entries.is_empty());
        // What stands in a manifest makes the same run.
        let parts: Vec<Part> = left.parts().map(|part| opened_again(&part)).collect();
        let again = Arc::new(Run::of_parts(&parts, run.info().is_bottom));
        run = left;
        compare(if rng.random() { &run } else { &again }, &entries, &caches[round % 2], rng);
    }
}

fn opened_again(part: &Part) -> Part {
    let file = &part.file;
    let list = file.excisions().map_or_else(Vec::new, |excisions| excisions.as_slice().to_vec());
    let excisions = Excisions::new(list, &file.info().total).unwrap();
    Part { low: part.low.clone(), file: Arc::new(file.with_excisions(excisions)) }
}

#[test]
fn a_run_with_excisions_equals_a_map() {
    let rounds = if std::env::var("SEED").is_ok() { 1 } else { 6 };
    for seed in seed_or(1)..seed_or(1) + rounds {
        for (is_bottom, layout, measures) in [
            (true, RunLayout::Tree, Measures::ROWS),
            (true, RunLayout::Tree, ALL_MEASURES),
            (false, RunLayout::Tree, Measures::ROWS),
            (false, RunLayout::Flat, ALL_MEASURES),
        ] {
            for entries_max in [usize::MAX, 200, 7] {
                println!("SEED={seed} {is_bottom} {layout:?} {measures:?} {entries_max}");
                let mut rng = StdRng::seed_from_u64(seed);
                let compression = [Compression::None, Compression::Lz4][rng.random_range(0..2)];
                let options =
                    RunOptions { page_bytes: 256, measures, is_bottom, layout, compression, ..RunOptions::default() };
                let count = [1, 20, 700][rng.random_range(0..3)];
                let entries = new_entries(count, &measures, is_bottom, &mut rng);
                excise_and_compare(write(&entries, options, entries_max), entries, &mut rng);
            }
        }
    }
}

/// The rows over those of a lowest run that went are the lowest then: they are counted by position, though the leaves
/// that they stand in have tombstones too.
#[test]
fn what_is_left_of_an_upper_run_can_be_the_lowest() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let row = |number: u32, rows: i64| {
        let value = (rows >= 0).then(|| vec![number as u8; 5]);
        (number.to_be_bytes().to_vec(), (value, Tally { rows, ..Tally::ZERO }))
    };
    // Tombstones and overwritten rows between fresh ones.
    let entries: Entries =
        (0..600).map(|number| row(number, if number % 100 < 40 { i64::from(number % 2) - 1 } else { 1 })).collect();
    let mut left = entries.clone();
    let mut run = write(&entries, RunOptions { page_bytes: 256, is_bottom: false, ..RunOptions::default() }, 150);
    let cache = PageCache::new(KEEPS_BYTES);
    for part in 0..6u32 {
        let (start, end) = ((100 * part).to_be_bytes(), (100 * part + 40).to_be_bytes());
        left.retain(|key, _| **key < start[..] || **key >= end[..]);
        let pages = ReadPages::new(&cache);
        run = pages.answer(|| RunLayer::new(&run, &pages).excised(&start, Some(&end))).unwrap().unwrap();
    }
    assert!(run.info().has_live_rows_only() && run.excisions() >= 6);
    compare(&Arc::new(run.as_bottom()), &left, &cache, &mut rng);
}
