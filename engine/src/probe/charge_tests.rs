//! Goal: a charged walk lacks no page, with as few rounds and pages as promised; a plan says exactly what a range
//! holds. Method: small runs of up to six levels, bottom and upper ones, with and without long values. All pairs of
//! cuts at keys, in gaps and at prefixes, both directions, limits of rows and bytes around every edge; and drawn ones
//! of larger runs and of stacks; all of it again with excisions. What a walk needs is what the same walk reads for a
//! reader that charged nothing.
//! Replay: SEED=... cargo test -p quipu run::charge_tests

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use smallvec::SmallVec;

use super::charge::RangePlan;
use crate::run::excision::Left;
use crate::run::place::{Extent, UnitPlace};

use super::tests::{PATH, new_disk};
use super::*;
use crate::cache::ReadCost;
use crate::cache::{Missing, PageCache, ReadPages};
use crate::compression::Compression;
use crate::page::KeyBuffer;
use crate::run::{Excisions, Part, Run, RunFile, RunOptions, RunWriter};
use crate::stack::{Cut, Layer, LayerWalk, Stack};
use crate::tally::Measures;
use crate::tally::Tally;
use crate::tree::Side;

/// An entry: its key, its value unless it is a tombstone, and the rows it weighs.
type TestEntry = (Vec<u8>, Option<Vec<u8>>, i64);

/// A key and its value, as a walk tells them.
type Visited = (Vec<u8>, Option<Vec<u8>>);

/// A run with all that is to be known of it.
struct Sample {
    run: Arc<Run>,
    /// Those that are left.
    entries: Vec<TestEntry>,
    /// All pages, the leaves in the order of their keys.
    leaves: Vec<UnitPlace>,
    /// What is left of each leaf.
    extents: Vec<Extent>,
    /// The separators between leaves.
    separators: Vec<Vec<u8>>,
    inner: Vec<UnitPlace>,
    has_long_values: bool,
}

impl Sample {
    fn new(entries: Vec<TestEntry>, measures: Measures, is_bottom: bool) -> Sample {
        Sample::in_files(entries, measures, is_bottom, usize::MAX)
    }

    /// As `new`, in files of at most `entries_max` entries.
    fn in_files(entries: Vec<TestEntry>, measures: Measures, is_bottom: bool, entries_max: usize) -> Sample {
        let disk = new_disk();
        // What a charge does is told in bytes of the file, whatever these are packed into.
        let compression = if entries.len().is_multiple_of(2) { Compression::Lz4 } else { Compression::None };
        let options = RunOptions { page_bytes: 256, measures, is_bottom, compression, ..RunOptions::default() };
        let (mut parts, mut rest) = (Vec::new(), &entries[..]);
        while !rest.is_empty() || parts.is_empty() {
            let path = format!("{PATH}-{}", parts.len());
            let mut writer = RunWriter::create(&disk, Path::new(&path), options).unwrap();
            let (some, others) = rest.split_at(rest.len().min(entries_max));
            for (key, value, rows) in some {
                let weight = Tally { rows: *rows, ..Tally::ZERO };
                writer.push_entry(key, value.as_deref(), weight).unwrap();
            }
            writer.finish().unwrap();
            let low = some.first().map_or(KeyBuffer::new(), |(key, ..)| KeyBuffer::from_slice(key));
            parts.push(Part { low, file: Arc::new(RunFile::open(&disk, Path::new(&path)).unwrap()) });
            rest = others;
        }
        Sample::of_run(Arc::new(Run::of_parts(&parts, is_bottom)), entries)
    }

    /// The same without the entries of some ranges of keys; those given may have any order.
    fn without(&self, ranges: &[(Vec<u8>, Option<Vec<u8>>)]) -> Sample {
        let cache = PageCache::new(0);
        let (mut run, mut entries) = (self.run.clone(), self.entries.clone());
        for (start, end) in ranges {
            let pages = ReadPages::new(&cache);
            let left = pages.answer(|| RunLayer::new(&run, &pages).excised(start, end.as_deref())).unwrap();
            let before = entries.len();
            entries.retain(|(key, ..)| key < start || end.as_ref().is_some_and(|end| key >= end));
            assert_eq!(left.is_some(), entries.len() < before);
            run = left.unwrap_or(run);
            assert!(run.files().iter().all(|file| file.check_excisions().is_empty()));
        }
        Sample::of_run(run, entries)
    }

    fn of_run(run: Arc<Run>, entries: Vec<TestEntry>) -> Sample {
        assert_eq!(run.info().total.entries, entries.len() as i64);
        let (mut leaves, mut separators, mut inner) = (Vec::new(), Vec::new(), Vec::new());
        let mut waiting: Vec<(UnitPlace, Vec<u8>)> = run.root().map(|root| (root, Vec::new())).into_iter().collect();
        while let Some((place, low)) = waiting.pop() {
            if place.level == 0 {
                leaves.push(place);
                separators.push(low);
                continue;
            }
            let loaded = if place.is_top() { None } else { Some(run.file(&place).load(&place).unwrap()) };
            let page = run.inner(&place, loaded.as_ref().or(run.kept(&place)).unwrap());
            waiting.extend((0..page.count()).rev().map(|position| {
                let low = if position == 0 { low.clone() } else { page.separator(position).to_vec() };
                (run.child(&place, &page, position), low)
            }));
            inner.extend((!place.is_top()).then_some(place));
        }
        if !separators.is_empty() {
            separators.remove(0);
        }
        let has_long_values = leaves.iter().any(|leaf| leaf.floor < leaf.pointer.offset);
        let extents = leaves.iter().map(|leaf| run.extent(leaf)).collect();
        Sample { run, entries, leaves, extents, separators, inner, has_long_values }
    }

    fn levels(&self) -> usize {
        self.run.info().levels
    }

    /// How many entries are before the cut.
    fn before(&self, cut: Cut<'_>) -> usize {
        self.entries.partition_point(|(key, ..)| match cut {
            Cut::Start => false,
            Cut::Before(at) => **key < *at,
            Cut::After(at) => **key <= *at,
            Cut::End => true,
        })
    }

    /// The number of the leaf that the way to a cut ends at: where the cut lies in what was excised, the one after it
    /// or, for a way that comes from there, before it.
    fn leaf_of(&self, cut: Cut<'_>, reverse: bool) -> usize {
        let known = cut.key().is_none_or(|(key, side)| matches!(self.run.left_at(key, side), Left::Known(_)));
        match cut.key().filter(|_| !known) {
            Some((key, _)) => self.separators.partition_point(|separator| **separator <= *key),
            None => {
                let entry = (self.before(cut) as i64 - i64::from(reverse)).clamp(0, self.entries.len() as i64 - 1);
                self.extents
                    .iter()
                    .rposition(|leaf| leaf.before.entries <= entry && entry < leaf.until.entries)
                    .unwrap()
            }
        }
    }

    /// Parts and offsets of those of the places that have been seen.
    fn seen(&self, pages: &ReadPages<'_>, places: &[UnitPlace]) -> BTreeSet<(u32, u64)> {
        let seen = places.iter().filter(|place| pages.has_seen(self.run.file(place), place.pointer.offset));
        seen.map(|place| (place.part, place.pointer.offset)).collect()
    }
}

/// A walk: how many entries it visits, and whether it then looks at one more to learn that the range has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steps {
    count: usize,
    looks_past: bool,
}

/// Walks as a scan of a stack does.
fn walk(
    layer: &RunLayer<'_>,
    start: Cut<'_>,
    end: Cut<'_>,
    steps: Steps,
    reverse: bool,
) -> Result<Vec<Visited>, Missing> {
    let key_of = |cut| match cut {
        Cut::Before(key) => Some((key, Side::Below)),
        Cut::After(key) => Some((key, Side::Through)),
        Cut::Start | Cut::End => None,
    };
    let mut walk = if reverse && end == Cut::End {
        layer.end()?
    } else {
        layer.seek(key_of(if reverse { end } else { start }))?
    };
    if reverse {
        walk.prev()?;
    }
    let mut seen = Vec::new();
    loop {
        if seen.len() == steps.count {
            if steps.looks_past && walk.valid() {
                let cut = if reverse { start } else { end };
                let key = walk.key();
                let is_past = match (cut, reverse) {
                    (Cut::Before(at), false) => *key >= *at,
                    (Cut::After(at), false) => *key > *at,
                    (Cut::Before(at), true) => *key < *at,
                    (Cut::After(at), true) => *key <= *at,
                    (Cut::Start | Cut::End, _) => false,
                };
                assert!(is_past, "the walk has not ended");
            }
            return Ok(seen);
        }
        assert!(walk.valid());
        seen.push((walk.key().to_vec(), walk.value()?.map(<[u8]>::to_vec)));
        if seen.len() < steps.count || steps.looks_past {
            if reverse { walk.prev()? } else { walk.next()? }
        }
    }
}

/// What a walk within the limits visits; `None` if the first leaf has nothing of the range and no other is asked for.
fn steps(sample: &Sample, start: Cut<'_>, end: Cut<'_>, limits: Limits, reverse: bool) -> Option<Steps> {
    let (from, to) = (sample.before(start), sample.before(end).max(sample.before(start)));
    let rows = limits.rows.map_or(usize::MAX, |rows| rows as usize);
    let first = &sample.extents[sample.leaf_of(if reverse { end } else { start }, reverse)];
    // Entries in leaves that the limit of bytes leaves.
    let is_allowed = |leaf: &&Extent| match limits.bytes {
        None => true,
        Some(bytes) if reverse => leaf.end as i128 > i128::from(first.start) - i128::from(bytes),
        Some(bytes) => i128::from(leaf.start) < i128::from(first.end) + i128::from(bytes),
    };
    if reverse {
        let lowest = sample.extents.iter().find(is_allowed);
        let lowest = lowest.map_or(sample.entries.len(), |leaf| leaf.before.entries as usize);
        if to <= lowest && lowest > 0 {
            return None;
        }
        let count = rows.min(to - from.max(lowest));
        Some(Steps { count, looks_past: count == to - from && count < rows && (from > lowest || lowest == 0) })
    } else {
        let highest = sample.extents.iter().rfind(is_allowed).map_or(0, |leaf| leaf.until.entries as usize);
        let is_last = highest == sample.entries.len();
        if from >= highest && !is_last {
            return None;
        }
        let count = rows.min(to.min(highest) - from);
        Some(Steps { count, looks_past: count == to - from && count < rows && (to < highest || is_last) })
    }
}

/// The most pages of an inner level that a charge reads and a walk does not, if they are of about the same size: one as
/// the first of the level is not counted, and one past the end.
const INNER_SLACK_PAGES: usize = 2;

fn compare_charge(sample: &Sample, start: Cut<'_>, end: Cut<'_>, limits: Limits, reverse: bool) {
    let what = || format!("{start:?} to {end:?}, {limits:?}, reverse {reverse}, {} entries", sample.entries.len());
    let cache = PageCache::new(0);
    let pages = ReadPages::new(&cache);
    let layer = RunLayer::new(&sample.run, &pages);
    pages.answer(|| layer.charge(start, end, limits, reverse)).unwrap();
    let cost = pages.cost();
    if sample.entries.is_empty() || start.is_at_or_past(&end) || limits.rows == Some(0) {
        assert_eq!(cost.pages, 0, "{}", what());
        return;
    }
    let rounds = sample.levels() + 1 + usize::from(sample.has_long_values);
    assert!(cost.rounds <= rounds as u64, "{} rounds: {}", cost.rounds, what());
    let leaves = sample.seen(&pages, &sample.leaves);
    let Some(steps) = steps(sample, start, end, limits, reverse) else {
        // Of files of different heights the far end may be reached before it is known that the walk does not get there.
        let more = sample.run.files().len().min(2) - 1;
        assert!((1..=1 + more).contains(&leaves.len()), "{}", what());
        return;
    };
    // No round, no page that was not charged.
    let seen = walk(&layer, start, end, steps, reverse).unwrap_or_else(|Missing| panic!("{}", what()));
    assert_eq!(pages.cost(), cost, "{}", what());
    let (from, to) = (sample.before(start), sample.before(end));
    let expected: Vec<_> = if reverse {
        sample.entries[to - steps.count..to].iter().rev().map(|(key, value, _)| (key.clone(), value.clone())).collect()
    } else {
        let entries = &sample.entries[from..from + steps.count];
        entries.iter().map(|(key, value, _)| (key.clone(), value.clone())).collect()
    };
    assert_eq!(seen, expected, "{}", what());
    // And little more than the walk needs.
    let own = ReadPages::new(&cache);
    let own_layer = RunLayer::new(&sample.run, &own);
    own.answer(|| walk(&own_layer, start, end, steps, reverse)).unwrap();
    let needed = sample.seen(&own, &sample.leaves);
    let more: Vec<(u32, u64)> = leaves.difference(&needed).copied().collect();
    let far = &sample.leaves[sample.leaf_of(if reverse { start } else { end }, !reverse)];
    let far = (far.part, far.pointer.offset);
    assert!(needed.is_subset(&leaves) && (more.is_empty() || more == [far]), "{more:?} {needed:?}: {}", what());
    let (inner, inner_needed) = (sample.seen(&pages, &sample.inner), sample.seen(&own, &sample.inner));
    for level in 1..sample.levels() {
        let places: Vec<UnitPlace> = sample.inner.iter().filter(|place| place.level == level).copied().collect();
        let (asked, needed) = (sample.seen(&pages, &places), sample.seen(&own, &places));
        // The way to the end of a file leads to the next one, too.
        let slack = INNER_SLACK_PAGES * sample.run.files().len().min(2);
        // Of which fewer entries are left than others have.
        let smaller = places.iter().filter(|place| sample.run.extent(place).sums().entries < place.sums().entries);
        let slack = slack + smaller.count();
        assert!(needed.is_subset(&asked) && asked.len() <= needed.len() + slack, "{}", what());
    }
    let values = |cost: ReadCost, leaves: usize, inner: usize| cost.pages as usize - leaves - inner;
    assert_eq!(
        values(cost, leaves.len(), inner.len()),
        values(own.cost(), needed.len(), inner_needed.len()),
        "long values: {}",
        what()
    );
}

fn compare_plan(sample: &Sample, start: Cut<'_>, end: Cut<'_>) {
    let what = || format!("{start:?} to {end:?}, {} entries", sample.entries.len());
    let cache = PageCache::new(0);
    let pages = ReadPages::new(&cache);
    let layer = RunLayer::new(&sample.run, &pages);
    let found = pages.answer(|| layer.plan(start, end)).unwrap();
    let (from, to) = (sample.before(start), sample.before(end).max(sample.before(start)));
    let (first, last) = (from as i64, to as i64);
    let held = |leaf: &Extent| {
        let is_any_left = leaf.before.entries < leaf.until.entries;
        is_any_left && from < to && leaf.until.entries > first && leaf.before.entries < last
    };
    let leaves = sample.leaves.iter().zip(&sample.extents).filter(|(_, extent)| held(extent));
    let leaves: Vec<&UnitPlace> = leaves.map(|(leaf, _)| leaf).collect();
    let expected = RangePlan {
        entries: (to - from) as u64,
        rows: sample.entries[from..to].iter().map(|(.., rows)| rows).sum(),
        leaves: leaves.len() as u64,
        leaf_bytes: leaves.iter().map(|leaf| u64::from(leaf.pointer.length)).sum(),
        value_bytes: leaves.iter().map(|leaf| leaf.pointer.offset - leaf.floor).sum(),
    };
    assert_eq!(found, expected, "{}", what());
    let keys = usize::from(!matches!(start, Cut::Start)) + usize::from(!matches!(end, Cut::End));
    let (leaves, inner) = (sample.seen(&pages, &sample.leaves).len(), sample.seen(&pages, &sample.inner).len());
    assert!(leaves <= keys && pages.cost().pages as usize == leaves + inner, "{}", what());
    assert!(pages.cost().rounds <= sample.levels() as u64, "{}", what());
}

/// Keys of which three fill a leaf, and whose separators are so long that an inner page has two children or three.
fn long_key(number: usize) -> Vec<u8> {
    [&[number as u8 / 5; 250][..], &[2 * (number as u8 % 5)]].concat()
}

/// Keys of which one fills a leaf, and two separators an inner page.
fn huge_key(number: usize) -> Vec<u8> {
    [&[number as u8 / 5; 400][..], &[2 * (number as u8 % 5)]].concat()
}

/// Ten short keys, ten of which three fill a leaf, and so on: the first leaf of a range may have more entries than all
/// others of it.
fn uneven_key(number: usize) -> Vec<u8> {
    let group = number as u8 / 10;
    [&[group; 250][..if group.is_multiple_of(2) { 1 } else { 250 }], &[2 * (number as u8 % 10)]].concat()
}

/// Keys of any length, prefixes of each other and the empty one among them.
fn short_key(number: usize) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        _ => [&[2 * (number / 4) as u8][..], &[0, 3, 255][..number % 4]].concat(),
    }
}

/// Entries with values of some bytes, every so many of them a long one; in an upper run also tombstones and entries
/// over live rows.
fn entries(count: usize, key: fn(usize) -> Vec<u8>, long_value_every: usize, is_bottom: bool) -> Vec<TestEntry> {
    let entry = |number: usize| {
        let value_len = if number % long_value_every == long_value_every - 1 { 300 } else { 7 + number % 13 };
        let value = vec![number as u8; value_len];
        match number % 5 {
            1 | 4 if !is_bottom => (key(number), None, -1),
            2 if !is_bottom => (key(number), Some(value), 0),
            _ => (key(number), Some(value), 1),
        }
    };
    (0..count).map(entry).collect()
}

fn cuts(keys: &[Vec<u8>]) -> Vec<Cut<'_>> {
    let mut cuts = vec![Cut::Start];
    cuts.extend(keys.iter().flat_map(|key| [Cut::Before(key), Cut::After(key)]));
    cuts.push(Cut::End);
    cuts
}

/// Keys to cut at: those of the entries, and in the gaps before them and between them.
fn keys_around(entries: &[TestEntry]) -> Vec<Vec<u8>> {
    let mut keys: BTreeSet<Vec<u8>> = entries.iter().map(|(key, ..)| key.clone()).collect();
    keys.extend([Vec::new(), vec![0], vec![255; 120]]);
    for (number, (key, ..)) in entries.iter().enumerate() {
        match number % 3 {
            0 => keys.insert([&key[..], &[0]].concat()),
            // With it the separator before the key.
            1 => keys.insert(key[..key.len().saturating_sub(1)].to_vec()),
            _ => keys.insert(key[..key.len().min(1)].to_vec()),
        };
    }
    keys.into_iter().collect()
}

/// Compares the sample, and what excisions leave of it: those of a few entries in a leaf, of whole leaves, at either
/// end, beside each other, and of all.
fn compare_all(sample: &Sample) {
    compare_sample(sample);
    let count = sample.entries.len();
    let key = |number: usize| sample.entries[number.min(count - 1)].0.clone();
    let after = |number: usize| (number < count).then(|| key(number));
    let range = |from: usize, to: usize| (key(from), after(to));
    if count == 0 {
        return;
    }
    let third = count.div_ceil(3);
    let cases = [
        vec![range(third, 2 * third)],
        vec![range(0, third), range(2 * third, count)],
        vec![range(1, 2), range(third, third + 1), range(third + 2, third + 3)],
        vec![(Vec::new(), after(1)), range(count - 1, count)],
    ];
    for ranges in cases {
        compare_sample(&sample.without(&ranges));
    }
    let nothing = sample.without(&[(Vec::new(), None)]);
    assert!(nothing.entries.is_empty() && nothing.run.root().is_none());
}

fn compare_sample(sample: &Sample) {
    let count = sample.entries.len() as u64;
    let has_excisions = sample.run.excisions() > 0;
    let mut limits = Vec::new();
    for (number, rows) in
        [Some(1), None, Some(5), Some(count.saturating_sub(1)), Some(count), Some(2)].into_iter().enumerate()
    {
        limits.extend((number < 3 || !has_excisions).then_some(Limits { rows, ..Limits::default() }));
    }
    for (number, bytes) in [Some(0), Some(256), Some(1), Some(1000), Some(u64::MAX)].into_iter().enumerate() {
        limits.extend((number < 2 || !has_excisions).then_some(Limits { bytes, ..Limits::default() }));
    }
    limits.extend([(0, 5), (2, 300), (7, 500)].map(|(rows, bytes)| Limits {
        rows: Some(rows),
        bytes: Some(bytes),
        ..Limits::default()
    }));
    let mut keys = keys_around(&sample.entries);
    if has_excisions {
        // Few of what was compared already.
        keys = keys.into_iter().step_by(2).collect();
        keys.extend(sample.run.files().iter().filter_map(|file| file.excisions()).flat_map(ends_of));
        keys.sort();
        keys.dedup();
    }
    let cuts = cuts(&keys);
    for &start in &cuts {
        for &end in &cuts {
            compare_plan(sample, start, end);
            for &limits in &limits {
                compare_charge(sample, start, end, limits, false);
                compare_charge(sample, start, end, limits, true);
            }
        }
    }
}

/// The keys of excisions, and one in each.
fn ends_of(excisions: &Excisions) -> Vec<Vec<u8>> {
    let ends = excisions.as_slice().iter().flat_map(|excision| {
        let start = excision.start.to_vec();
        [Some([&start[..], &[0]].concat()), Some(start), excision.end.as_ref().map(|end| end.to_vec())]
    });
    ends.flatten().collect()
}

/// All kinds of runs of so many entries, which must have so many levels.
fn compare_kinds(count: usize, key: fn(usize) -> Vec<u8>, levels: std::ops::RangeInclusive<usize>) {
    for is_bottom in [true, false] {
        for long_value_every in [3, usize::MAX] {
            let sample = Sample::new(entries(count, key, long_value_every, is_bottom), Measures::ROWS, is_bottom);
            assert!(levels.contains(&sample.levels()), "{count} entries have {} levels", sample.levels());
            compare_all(&sample);
        }
    }
}

#[test]
fn a_charged_walk_of_no_level_or_one_lacks_no_page() {
    compare_kinds(0, long_key, 0..=0);
    compare_kinds(1, long_key, 1..=1);
    compare_kinds(4, short_key, 1..=1);
}

#[test]
fn a_charged_walk_of_two_levels_lacks_no_page() {
    compare_kinds(22, short_key, 2..=2);
    compare_kinds(5, long_key, 2..=2);
}

#[test]
fn a_charged_walk_of_three_levels_lacks_no_page() {
    compare_kinds(11, long_key, 3..=3);
}

#[test]
fn a_charged_walk_of_uneven_leaves_lacks_no_page() {
    // Without long values, which would allow one round more.
    for is_bottom in [true, false] {
        compare_all(&Sample::new(entries(23, uneven_key, usize::MAX, is_bottom), Measures::ROWS, is_bottom));
    }
}

#[test]
fn a_charged_walk_of_several_files_lacks_no_page() {
    for (is_bottom, entries_max) in [(true, 1), (true, 4), (false, 3), (false, 10)] {
        let entries = entries(22, uneven_key, 5, is_bottom);
        compare_all(&Sample::in_files(entries, Measures::ROWS, is_bottom, entries_max));
    }
    compare_all(&Sample::in_files(entries(24, long_key, 7, true), Measures::ROWS, true, 9));
}

#[test]
fn a_charged_walk_of_more_levels_lacks_no_page() {
    compare_kinds(12, huge_key, 4..=6);
}

/// A range of keys below 4,500, mostly a short one.
fn drawn_range(rng: &mut StdRng) -> (Vec<u8>, Option<Vec<u8>>) {
    let from = rng.random_range(0..4500u32);
    let to = from + [1, 5, 30, 400, 2000][rng.random_range(0..5)];
    (from.to_be_bytes().to_vec(), (to < 5000).then(|| to.to_be_bytes().to_vec()))
}

/// Runs with many children a page, whose cuts are drawn.
#[test]
fn a_charged_walk_of_many_pages_lacks_no_page() {
    let first = seed_or(1);
    for seed in first..first + 8 {
        println!("SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let is_bottom = seed % 2 == 0;
        let key = |number: usize| (number as u32 * 3).to_be_bytes().to_vec();
        let sample = Sample::new(
            entries(1500, key, [7, usize::MAX][seed as usize / 2 % 2], is_bottom),
            Measures::ROWS,
            is_bottom,
        );
        assert!(sample.levels() >= 3, "{} levels", sample.levels());
        let ranges: Vec<_> = (0..rng.random_range(0..12)).map(|_| drawn_range(&mut rng)).collect();
        let sample = if seed % 3 == 0 { sample } else { sample.without(&ranges) };
        for _ in 0..150 {
            let from = rng.random_range(0..4500u32);
            let to = from + [2, 30, 300, 4500][rng.random_range(0..4)];
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let start = [Cut::Start, Cut::Before(&from), Cut::After(&from)][rng.random_range(0..3)];
            let end = [Cut::End, Cut::Before(&to), Cut::After(&to)][rng.random_range(0..3)];
            let rows = [None, Some(rng.random_range(1..5)), Some(rng.random_range(1..300))][rng.random_range(0..3)];
            let bytes = [None, Some(rng.random_range(0..300)), Some(rng.random_range(0..9000))][rng.random_range(0..3)];
            compare_plan(&sample, start, end);
            let limits = Limits { rows, bytes, keeps_values: rng.random(), ..Limits::default() };
            compare_charge(&sample, start, end, limits, rng.random());
        }
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A layer of random writes over `model`, as the entries of its run.
fn layer_over(model: &mut Model, keys: &[Vec<u8>], writes: usize, is_bottom: bool, rng: &mut StdRng) -> Vec<TestEntry> {
    let mut layer: BTreeMap<Vec<u8>, (Option<Vec<u8>>, i64)> = BTreeMap::new();
    let below = model.clone();
    for _ in 0..writes {
        let key = &keys[rng.random_range(0..keys.len())];
        let is_live = below.contains_key(key);
        if is_live && rng.random_bool(0.4) {
            layer.insert(key.clone(), (None, -1));
            model.remove(key);
        } else {
            let value = vec![rng.random(); [0, 9, 20, 300][rng.random_range(0..4)]];
            layer.insert(key.clone(), (Some(value.clone()), i64::from(!is_live)));
            model.insert(key.clone(), value);
        }
        debug_assert!(!is_bottom || !is_live);
    }
    layer.into_iter().map(|(key, (value, rows))| (key, value, rows)).collect()
}

#[test]
fn runs_of_a_stack_are_charged_in_the_same_rounds() {
    let first = seed_or(1);
    let keys: Vec<Vec<u8>> = (0..60).map(long_key).collect();
    for seed in first..first + 30 {
        println!("SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut model = Model::new();
        let mut samples = Vec::new();
        for number in 0..rng.random_range(2..5) {
            let writes = [0, 2, 10, 60][rng.random_range(0..4)];
            let entries = layer_over(&mut model, &keys, writes, number == 0, &mut rng);
            samples.insert(0, Sample::new(entries, Measures::ROWS, number == 0));
        }
        for _ in 0..rng.random_range(0..3) {
            let mut ends = [&keys[rng.random_range(0..keys.len())], &keys[rng.random_range(0..keys.len())]];
            ends.sort();
            let ranges = [(ends[0].clone(), Some(ends[1].clone()))];
            samples = samples.iter().map(|sample| sample.without(&ranges)).collect();
        }
        let levels = samples.iter().map(Sample::levels).max().unwrap();
        let around = keys_around(&samples[0].entries);
        let cuts = cuts(&around);
        for number in 0..200 {
            let mut cut = || cuts[rng.random_range(0..cuts.len())];
            let (start, end) = if number < 2 { (Cut::Start, Cut::End) } else { (cut(), cut()) };
            let limits = Limits { rows: (number > 100).then(|| rng.random_range(1..20)), ..Limits::default() };
            let reverse = number % 2 == 1;
            let cache = PageCache::new(0);
            let pages = ReadPages::new(&cache);
            let layers: SmallVec<[RunLayer<'_>; 4]> =
                samples.iter().map(|sample| RunLayer::new(&sample.run, &pages)).collect();
            let total = pages.answer(|| plan(&layers, start, end)).unwrap();
            assert!(pages.cost().rounds <= levels as u64);
            let stack = Stack::new(layers, Measures::ROWS);
            let count = pages.answer(|| stack.count(start, end)).unwrap();
            assert_eq!(total.rows, count as i64, "{start:?} to {end:?}");

            let pages = ReadPages::new(&cache);
            let layers: SmallVec<[RunLayer<'_>; 4]> =
                samples.iter().map(|sample| RunLayer::new(&sample.run, &pages)).collect();
            pages.answer(|| charge(&layers, start, end, limits, reverse)).unwrap();
            let cost = pages.cost();
            assert!(cost.rounds <= levels as u64 + 2, "{cost:?}");
            if start.is_at_or_past(&end) {
                continue;
            }
            for (sample, layer) in samples.iter().zip(&layers).filter(|(sample, _)| !sample.entries.is_empty()) {
                let steps = steps(sample, start, end, limits, reverse).expect("no limit of bytes");
                assert!(walk(layer, start, end, steps, reverse).is_ok(), "{start:?} to {end:?}");
            }
            // A scan to an end of the stack, after which there is no row.
            let far = if reverse { start } else { end };
            if limits == Limits::default() && matches!(far, Cut::Start | Cut::End) {
                let stack = Stack::new(layers, Measures::ROWS);
                let mut rows = 0;
                let visit = |_: &[u8], _: &[u8]| {
                    rows += 1;
                    true
                };
                assert_eq!(stack.scan((start, end), reverse, true, visit), Ok(()), "{start:?} to {end:?}");
                assert_eq!(rows, count);
            }
            assert_eq!(pages.cost(), cost);
        }
    }
}

/// A walk that has room for so many bytes is not to be given many times as many by a run that was packed well.
#[test]
fn a_limit_of_unpacked_bytes_is_one_of_memory() {
    let disk = new_disk();
    let options = RunOptions { compression: Compression::Lz4, ..RunOptions::default() };
    let mut writer = RunWriter::create(&disk, Path::new(PATH), options).unwrap();
    for number in 0..20_000u32 {
        writer.push(&number.to_be_bytes(), &[1; 500]).unwrap();
    }
    let info = writer.finish().unwrap();
    assert!(info.saved_bytes > 10 * info.bytes);
    let run = Arc::new(Run::open(&disk, Path::new(PATH)).unwrap());
    let seen = |bytes_are_unpacked| {
        let cache = PageCache::new(0);
        let pages = ReadPages::new(&cache);
        let limits = Limits { bytes: Some(100_000), bytes_are_unpacked, ..Limits::default() };
        let layer = RunLayer::new(&run, &pages);
        pages.answer(|| layer.charge(Cut::Start, Cut::End, limits, false)).unwrap();
        pages.bytes()
    };
    let (of_memory, of_file) = (seen(true), seen(false));
    assert!((90_000..200_000).contains(&of_memory) && of_file > 1_000_000, "{of_memory} and {of_file} bytes");
}
