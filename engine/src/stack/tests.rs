//! Goal: a stack of layers equals a `BTreeMap` in everything it can be asked, and merging layers changes no tally (the
//! law). Method: random stacks of up to five layers, with and without a bottom, over few keys, so that every key is
//! overwritten, deleted and inserted again across layers; every cut, offset and direction is compared. Then the layers
//! are merged pair by pair, and all is compared again. The same of stacks whose lower layers are runs in files, read
//! through a cache of a page or two, so that every page is missed again and again; and of those from all of whose
//! layers ranges of keys were taken. Replay: SEED=... cargo test -p quipu stack::tests

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::cache::{Missing, PageCache, ReadPages};
use crate::compression::Compression;
use crate::io::Disk;
use crate::io::sim::SimDisk;
use crate::options::RunLayout;
use crate::probe::{RunLayer, excised};
use crate::read::table_layer::Mixed;
use crate::run::{Part, Run, RunFile, RunOptions, RunWriter};
use crate::tally::SumField;
use crate::tree::merge_layer;
use crate::tree::{Arena, Tree, Walk, When};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn seed(default: u64) -> u64 {
    quipu_testing::seeds::seed_or(default)
}

const MEASURES: [Measures; 5] = [
    Measures::ROWS,
    Measures { bytes: true, ..Measures::ROWS },
    Measures { hash: true, ..Measures::ROWS },
    Measures { sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS },
    Measures { bytes: true, hash: true, sum: Some(SumField::LittleEndian { at: 1 }), ..Measures::ROWS },
];

/// Some hundred keys: the empty one, prefixes of each other, a long shared prefix, and some that lie out of line.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new(), vec![0], vec![0, 0], vec![255], vec![255, 255]];
    keys.extend((0..60u8).map(|number| vec![number / 8, number % 8]));
    keys.extend((0..40).map(|number| format!("customer/eu-west/{number:03}").into_bytes()));
    keys.extend((0..6u8).map(|number| [&[b'x'; 90][..], &[number]].concat()));
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = [0, 3, 8, 9, 20, 300][rng.random_range(0..6)];
    (0..len).map(|_| rng.random()).collect()
}

/// The layers of a test, newest first, as the trees that own them.
struct Layers {
    trees: Vec<Tree>,
    measures: Measures,
}

impl Layers {
    fn stack(&self) -> Stack<'_> {
        Stack::new(self.trees.iter().map(Tree::view).collect(), self.measures)
    }

    /// Puts a layer of random writes over the others.
    fn push(&mut self, arena: &Arc<Arena>, keys: &[Vec<u8>], writes: usize, rng: &mut StdRng, model: &mut Model) {
        let mut layer = Tree::new(arena.clone(), self.measures, false);
        for _ in 0..writes {
            let key = &keys[rng.random_range(0..keys.len())];
            let value = rng.random_bool(0.6).then(|| value(rng));
            let lower = self.stack();
            let written = layer
                .write_over(key, value.as_deref(), |existing| {
                    let live = existing.map_or_else(|| infallible(lower.get(key)).is_some(), |existing| existing.live);
                    assert_eq!(live, model.contains_key(key));
                    // To delete what is dead is nothing, as in a transaction.
                    (live || value.is_some()).then(|| {
                        existing.map_or_else(|| infallible(lower.contribution(key)), |existing| existing.below)
                    })
                })
                .unwrap();
            let before = model.get(key).map_or(Tally::ZERO, |old| self.measures.of_row(key, old));
            let after = value.as_ref().map_or(Tally::ZERO, |new| self.measures.of_row(key, new));
            assert_eq!(written.unwrap_or_default(), after - before);
            match value {
                Some(value) => model.insert(key.clone(), value),
                None => model.remove(key),
            };
        }
        assert_eq!(layer.check(), Vec::<String>::new());
        self.trees.insert(0, layer);
    }

    /// Merges the layer at `place` into the one under it.
    fn merge(&mut self, place: usize) {
        let upper = self.trees.remove(place);
        merge_layer(&mut self.trees[place], &upper).unwrap();
        assert_eq!(self.trees[place].check(), Vec::<String>::new());
    }
}

fn all_cuts(keys: &[Vec<u8>]) -> Vec<Cut<'_>> {
    let mut cuts = vec![Cut::Start];
    cuts.extend(keys.iter().flat_map(|key| [Cut::Before(key), Cut::After(key)]));
    cuts.push(Cut::End);
    cuts
}

/// Whether `key` lies before the cut: what the stack must agree with, said without a tree.
fn lies_before(key: &[u8], cut: Cut<'_>) -> bool {
    match cut {
        Cut::Start => false,
        Cut::Before(at) => key < at,
        Cut::After(at) => key <= at,
        Cut::End => true,
    }
}

/// Gets the answer of a stack that may lack pages.
trait Answer<F> {
    fn answer<T>(&self, ask: impl FnMut() -> Result<T, F>) -> T;
}

/// Of a stack that lacks none.
struct InMemory;

impl Answer<Infallible> for InMemory {
    fn answer<T>(&self, mut ask: impl FnMut() -> Result<T, Infallible>) -> T {
        infallible(ask())
    }
}

impl Answer<Missing> for ReadPages<'_> {
    fn answer<T>(&self, ask: impl FnMut() -> Result<T, Missing>) -> T {
        ReadPages::answer(self, ask).unwrap()
    }
}

fn compare<'a, L: Layer<'a>>(
    stack: &Stack<'a, L>,
    pages: &impl Answer<L::Fault>,
    model: &Model,
    keys: &[Vec<u8>],
    rng: &mut StdRng,
) {
    let measures = *stack.measures();
    let rows: Vec<(&[u8], &[u8])> = model.iter().map(|(key, value)| (&**key, &**value)).collect();
    let sum = |from: usize, to: usize| {
        rows[from..to].iter().fold(Tally::ZERO, |sum, (key, value)| sum + measures.of_row(key, value))
    };
    assert_eq!(stack.total(), sum(0, rows.len()));
    for key in keys {
        assert_eq!(pages.answer(|| stack.get(key)), model.get(key).map(|value| &**value));
        let row = model.get(key).map_or(Tally::ZERO, |value| measures.of_row(key, value));
        assert_eq!(pages.answer(|| stack.contribution(key)), row);
    }
    let cuts = all_cuts(keys);
    let mut before = Tally::ZERO;
    let mut passed = 0;
    for &cut in &cuts {
        while passed < rows.len() && lies_before(rows[passed].0, cut) {
            before += measures.of_row(rows[passed].0, rows[passed].1);
            passed += 1;
        }
        assert_eq!(pages.answer(|| stack.tally_before(cut)), before, "{cut:?}");
        assert_eq!(pages.answer(|| stack.rows_before(cut)), passed as u64, "{cut:?}");
    }
    for (offset, row) in rows.iter().enumerate() {
        let found = pages.answer(|| stack.nth(offset as u64)).expect("a row at every offset below the total");
        assert_eq!((&*found.key, found.value), *row, "offset {offset}");
    }
    assert!(pages.answer(|| stack.nth(rows.len() as u64)).is_none());
    // All at once, from behind, past the end, and twice.
    let offsets: Vec<u64> = (0..rows.len() as u64 + 2).rev().chain([0, u64::MAX, 0]).collect();
    let together = pages.answer(|| {
        let mut together = Vec::new();
        stack.nth_many(&offsets, |number, row| {
            assert_eq!(number, together.len());
            together.push(row);
        });
        let rows = together.into_iter().map(|row| Ok(row?.map(|row| (row.key.to_vec(), row.value.to_vec()))));
        rows.collect::<Result<Vec<_>, _>>()
    });
    let expected = offsets.iter().map(|offset| usize::try_from(*offset).ok().and_then(|offset| rows.get(offset)));
    assert_eq!(
        together,
        expected.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect::<Vec<_>>()
    );
    assert!(pages.answer(|| stack.nth(u64::MAX)).is_none());
    for _ in 0..60 {
        let (start, end) = (cuts[rng.random_range(0..cuts.len())], cuts[rng.random_range(0..cuts.len())]);
        let from = rows.partition_point(|row| lies_before(row.0, start));
        let to = rows.partition_point(|row| lies_before(row.0, end)).max(from);
        assert_eq!(pages.answer(|| stack.count(start, end)), (to - from) as u64, "{start:?} to {end:?}");
        assert_eq!(pages.answer(|| stack.tally(start, end)), sum(from, to), "{start:?} to {end:?}");
        let limit = if rng.random() { usize::MAX } else { rng.random_range(1..6) };
        for reverse in [false, true] {
            let seen = pages.answer(|| {
                let mut seen = Vec::new();
                stack.scan((start, end), reverse, true, |key, value| {
                    seen.push((key.to_vec(), value.to_vec()));
                    seen.len() < limit
                })?;
                Ok(seen)
            });
            let mut expected: Vec<_> =
                rows[from..to].iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            if reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            assert_eq!(seen, expected, "{start:?} to {end:?}, reverse {reverse}");
        }
    }
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    disk
}

/// The same layers, of which the lower ones have become runs. Then all lose ranges of keys together.
fn compare_runs(layers: &mut Layers, model: &mut Model, keys: &[Vec<u8>], rng: &mut StdRng) {
    let disk = disk();
    let in_memory = rng.random_range(0..layers.trees.len());
    let mut runs = runs_of(layers, in_memory, &disk, rng);
    for round in 0..rng.random_range(1..6) {
        if round > 0 {
            remove_range(layers, &mut runs, model, keys, rng);
        }
        let cache = PageCache::new(512);
        let pages = ReadPages::new(&cache);
        let mixed: SmallVec<[Mixed<'_>; 4]> = (layers.trees[..in_memory].iter().map(|tree| Mixed::Memory(tree.view())))
            .chain(runs.iter().map(|run| Mixed::Run(RunLayer::new(run, &pages))))
            .collect();
        let stack = Stack::new(mixed, layers.measures);
        compare(&stack, &pages, model, keys, rng);
        walk_past_faults(&layers.trees[..in_memory], &runs, layers.measures, model);
    }
}

/// Takes a range of keys out of trees, runs and model.
fn remove_range(layers: &mut Layers, runs: &mut Vec<Arc<Run>>, model: &mut Model, keys: &[Vec<u8>], rng: &mut StdRng) {
    let mut end = || rng.random_bool(0.9).then(|| keys[rng.random_range(0..keys.len())].clone());
    let (low, mut high) = (end(), end());
    if high < low {
        // A range of few keys.
        high = low.as_ref().map(|low| [low, &[1][..]].concat());
    }
    let is_in = |key: &[u8]| low.as_ref().is_none_or(|low| key >= low) && high.as_ref().is_none_or(|high| key < high);
    model.retain(|key, _| !is_in(key));
    for tree in &mut layers.trees {
        tree.remove_range(low.as_deref(), high.as_deref()).unwrap();
        assert_eq!(tree.check(), Vec::<String>::new());
    }
    let cache = PageCache::new(512);
    for run in runs.iter_mut() {
        let pages = ReadPages::new(&cache);
        let layer = RunLayer::new(run, &pages);
        let erased = pages.answer(|| layer.plan(cut_before(&low), cut_before_end(&high))).unwrap();
        let range = (low.as_deref().unwrap_or_default(), high.as_deref());
        let left = pages.answer(|| excised(run, [range].into_iter(), &pages)).unwrap();
        assert_eq!(Arc::ptr_eq(&left, run), erased.entries == 0);
        assert_eq!(left.info().total.entries, run.info().total.entries - erased.entries as i64);
        assert_eq!(left.info().total.tally.rows, run.info().total.tally.rows - erased.rows);
        assert!(left.is_same(run));
        for part in left.parts() {
            assert_eq!(part.file.check_excisions(), [""; 0]);
        }
        *run = left;
    }
    // Runs of which nothing is left may go or stay; what is the lowest then has live rows only.
    runs.retain(|run| run.info().total.entries > 0 || run.excisions() == 0 || rng.random());
    let has_bottom = layers.trees.last().is_some_and(Tree::is_bottom);
    if let Some(lowest) = runs.last_mut().filter(|_| has_bottom) {
        assert!(lowest.info().has_live_rows_only());
        *lowest = Arc::new(lowest.as_bottom());
    }
}

fn cut_before(low: &Option<Vec<u8>>) -> Cut<'_> {
    low.as_ref().map_or(Cut::Start, |low| Cut::Before(low))
}

fn cut_before_end(high: &Option<Vec<u8>>) -> Cut<'_> {
    high.as_ref().map_or(Cut::End, |high| Cut::Before(high))
}

/// Runs of the layers from one on.
fn runs_of(layers: &Layers, in_memory: usize, disk: &SimDisk, rng: &mut StdRng) -> Vec<Arc<Run>> {
    let mut runs = Vec::new();
    for (number, tree) in layers.trees.iter().enumerate().skip(in_memory) {
        // One file or several.
        let entries_max = [usize::MAX, 1, 3, 20][rng.random_range(0..4)];
        let mut parts = Vec::new();
        let mut walk = Walk::first(tree.view());
        while walk.valid() || parts.is_empty() {
            let path = format!("/db/run-{number}-{}", parts.len());
            let options = RunOptions {
                page_bytes: [256, 512][rng.random_range(0..2)],
                measures: layers.measures,
                // A file of an upper run may have come down, if it has live rows only.
                is_bottom: tree.is_bottom() && (entries_max == usize::MAX || rng.random_bool(0.7)),
                layout: [RunLayout::Tree, RunLayout::Flat][rng.random_range(0..2)],
                compression: [Compression::None, Compression::Lz4][rng.random_range(0..2)],
                ..RunOptions::default()
            };
            let mut writer = RunWriter::create(disk, Path::new(&path), options).unwrap();
            let low = if walk.valid() { walk.key() } else { KeyBuffer::new() };
            for _ in 0..entries_max {
                if !walk.valid() {
                    break;
                }
                let weight = tree.view().weight_of(&walk.key(), &walk.record());
                writer.push_entry(&walk.key(), walk.value(), weight).unwrap();
                walk.next();
            }
            let info = writer.finish().unwrap();
            let file = RunFile::open(disk, Path::new(&path)).unwrap();
            assert_eq!(file.info(), &info);
            assert_eq!(file.check(&mut |_| ()).faults, [""; 0]);
            parts.push(Part { low, file: Arc::new(file) });
        }
        let run = Run::of_parts(&parts, tree.is_bottom());
        assert_eq!(run.info().total.tally, tree.view().total());
        runs.push(Arc::new(run));
    }
    runs
}

/// A walk that begins with no page at all misses each page once, and goes on where it was.
fn walk_past_faults(trees: &[Tree], runs: &[Arc<Run>], measures: Measures, model: &Model) {
    for reverse in [false, true] {
        let cache = PageCache::new(0);
        let pages = ReadPages::new(&cache);
        let mixed: SmallVec<[Mixed<'_>; 4]> = (trees.iter().map(|tree| Mixed::Memory(tree.view())))
            .chain(runs.iter().map(|run| Mixed::Run(RunLayer::new(run, &pages))))
            .collect();
        let stack = Stack::new(mixed, measures);
        let mut merge = pages
            .answer(|| if reverse { Merge::before(&stack, Cut::End) } else { Merge::from(&stack, Cut::Start) })
            .unwrap();
        let mut key = KeyBuffer::new();
        let mut seen = Vec::new();
        while let Some(value) = pages.answer(|| merge.next_within(&mut key, |_| true)).unwrap() {
            seen.push((key.to_vec(), value.to_vec()));
        }
        if reverse {
            seen.reverse();
        }
        assert!(seen.into_iter().eq(model.iter().map(|(key, value)| (key.clone(), value.clone()))));
        let cost = pages.cost();
        assert!(cost.pages_read == cost.pages && cost.rounds <= cost.pages, "{cost:?}");
    }
}

/// A bottom run of the numbers below 5,000, of several levels.
fn run_of_numbers() -> Arc<Run> {
    let disk = disk();
    let options = RunOptions { page_bytes: 256, ..RunOptions::default() };
    let mut writer = RunWriter::create(&disk, Path::new("/db/run"), options).unwrap();
    (0..5000u32).for_each(|number| writer.push(&number.to_be_bytes(), &[7; 20]).unwrap());
    assert!(writer.finish().unwrap().levels >= 4);
    Arc::new(Run::open(&disk, Path::new("/db/run")).unwrap())
}

#[test]
fn the_cache_keeps_its_budget_and_serves_what_it_has() {
    const CACHE_BYTES: u64 = 40 << 10;
    let run = run_of_numbers();
    let cache = PageCache::new(CACHE_BYTES);
    let mut pages_read = 0;
    for _ in 0..2 {
        for number in (0..5000u32).step_by(7) {
            // Half of the questions are about the same fifty keys.
            let number = if number % 2 == 0 { number % 50 } else { number };
            let pages = ReadPages::new(&cache);
            let stack = Stack::new(smallvec::smallvec![RunLayer::new(&run, &pages)], Measures::ROWS);
            let key = number.to_be_bytes();
            let rank = pages.answer(|| stack.rows_before(Cut::Before(&key))).unwrap();
            assert_eq!(rank, u64::from(number));
            pages_read += pages.cost().pages_read;
            assert!(cache.bytes() <= CACHE_BYTES);
        }
    }
    assert!(cache.bytes() > CACHE_BYTES / 2, "{} bytes", cache.bytes());
    let asked = 2 * 715 * run.info().levels as u64;
    assert!(pages_read < asked / 2, "{pages_read} of {asked}");
}

/// Several runs are asked together: as many rounds as the highest has levels. And a scan of a range does not look at
/// what lies after it.
#[test]
fn layers_share_rounds_and_a_range_ends_where_it_ends() {
    let disk = disk();
    let runs: Vec<Arc<Run>> = (0..3u32)
        .map(|number| {
            let path = format!("/db/run-{number}");
            let is_bottom = number == 2;
            let options = RunOptions { page_bytes: 256, is_bottom, ..RunOptions::default() };
            let mut writer = RunWriter::create(&disk, Path::new(&path), options).unwrap();
            for key in 0..2000u32 {
                // Tombstones from 1,000 on in the newest run, rows in the bottom one.
                match number {
                    0 if key >= 1000 => writer.push_entry(&key.to_be_bytes(), None, Tally { rows: -1, ..Tally::ZERO }),
                    1 => writer.push_entry(&key.to_be_bytes(), Some(b"over"), Tally::ZERO),
                    2 => writer.push(&key.to_be_bytes(), b"row"),
                    _ => Ok(()),
                }
                .unwrap();
            }
            writer.finish().unwrap();
            Arc::new(Run::open(&disk, Path::new(&path)).unwrap())
        })
        .collect();
    let cache = PageCache::new(0);
    let levels = runs.iter().map(|run| run.info().levels as u64).max().unwrap();
    let pages = ReadPages::new(&cache);
    let stack = Stack::new(runs.iter().map(|run| RunLayer::new(run, &pages)).collect(), Measures::ROWS);
    let (start, end) = (500u32.to_be_bytes(), 1500u32.to_be_bytes());
    assert_eq!(pages.answer(|| stack.count(Cut::Before(&start), Cut::Before(&end))).unwrap(), 500);
    assert_eq!(pages.cost().rounds, levels);
    let pages = ReadPages::new(&cache);
    let stack = Stack::new(runs.iter().map(|run| RunLayer::new(run, &pages)).collect(), Measures::ROWS);
    let (start, end) = (990u32.to_be_bytes(), 1000u32.to_be_bytes());
    let seen = pages
        .answer(|| {
            let mut seen = 0;
            stack.scan((Cut::Before(&start), Cut::Before(&end)), false, true, |_, _| {
                seen += 1;
                true
            })?;
            Ok(seen)
        })
        .unwrap();
    assert_eq!(seen, 10);
    // The thousand tombstones after the range take some forty leaves of each run.
    assert!(pages.cost().pages <= 3 * (levels + 2), "{:?}", pages.cost());
}

#[test]
fn a_question_reads_a_page_a_level() {
    let run = run_of_numbers();
    let levels = run.info().levels as u64;
    let cache = PageCache::new(0);
    let cost_of = |ask: &dyn for<'a> Fn(&Stack<'a, RunLayer<'a>>, &'a ReadPages<'a>)| {
        let pages = ReadPages::new(&cache);
        ask(&Stack::new(smallvec::smallvec![RunLayer::new(&run, &pages)], Measures::ROWS), &pages);
        pages.cost()
    };
    let key = |number: u32| number.to_be_bytes();
    let rank = cost_of(&|stack, pages| {
        assert_eq!(pages.answer(|| stack.rows_before(Cut::Before(&key(1234)))).unwrap(), 1234);
    });
    assert_eq!((rank.pages_read, rank.rounds), (levels, levels));
    let count = cost_of(&|stack, pages| {
        let (start, end) = (key(1000), key(4000));
        assert_eq!(pages.answer(|| stack.count(Cut::Before(&start), Cut::Before(&end))).unwrap(), 3000);
    });
    // Both ends are looked for at once: as many rounds as for one.
    assert!(count.pages_read < 2 * levels && count.rounds == levels, "{count:?}");
    let nth = cost_of(&|stack, pages| {
        assert_eq!(*pages.answer(|| stack.nth(4321)).unwrap().unwrap().key, key(4321));
    });
    assert_eq!((nth.pages_read, nth.rounds), (levels, levels));
    let total = cost_of(&|stack, _| assert_eq!(stack.total().rows, 5000));
    assert_eq!(total.pages_read, 0);
}

fn run(seed: u64, page_bytes: usize, measures: Measures, with_bottom: bool) {
    println!("SEED={seed} {page_bytes} {measures:?} bottom {with_bottom}");
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = keys();
    let arena = Arc::new(Arena::new(page_bytes, 16 << 20).unwrap());
    let mut model = Model::new();
    let mut layers = Layers { trees: Vec::new(), measures };
    if with_bottom {
        let mut bottom = Tree::new(arena.clone(), measures, true);
        for _ in 0..rng.random_range(0..150) {
            let (key, value) = (&keys[rng.random_range(0..keys.len())], value(&mut rng));
            bottom.put(key, &value, When::Always).unwrap();
            model.insert(key.clone(), value);
        }
        layers.trees.push(bottom);
    }
    for _ in 0..rng.random_range(1..=5) {
        let writes = [0, 1, 5, 40, 200][rng.random_range(0..5)];
        layers.push(&arena, &keys, writes, &mut rng, &mut model);
        compare(&layers.stack(), &InMemory, &model, &keys, &mut rng);
    }
    compare_runs(&mut layers, &mut model, &keys, &mut rng);
    let tallies = |layers: &Layers| -> Vec<Tally> {
        all_cuts(&keys).into_iter().map(|cut| infallible(layers.stack().tally_before(cut))).collect()
    };
    let before = tallies(&layers);
    while layers.trees.len() > 1 {
        layers.merge(rng.random_range(0..layers.trees.len() - 1));
        assert_eq!(tallies(&layers), before, "merging layers changed a tally");
        compare(&layers.stack(), &InMemory, &model, &keys, &mut rng);
    }
    drop(layers);
    assert_eq!((arena.page_bytes_used(), arena.blob_bytes_used()), (0, 0), "layers leave pages behind");
}

#[test]
fn a_stack_is_a_map_and_merging_its_layers_changes_no_tally() {
    let first = seed(1);
    let rounds = if std::env::var("SEED").is_ok() { 1 } else { 12 };
    for round in 0..rounds {
        for measures in MEASURES {
            for page_bytes in [256, 512] {
                for with_bottom in [true, false] {
                    run(first + round, page_bytes, measures, with_bottom);
                }
            }
        }
    }
}

#[test]
fn a_stack_of_nothing_answers() {
    let stack: Stack<'_> = Stack::new(SmallVec::new(), Measures::ROWS);
    assert_eq!(stack.total(), Tally::ZERO);
    assert_eq!(infallible(stack.count(Cut::Start, Cut::End)), 0);
    assert!(infallible(stack.nth(0)).is_none());
    assert!(infallible(stack.get(b"")).is_none());
    infallible(stack.scan((Cut::Start, Cut::End), true, true, |_, _| panic!("there are no rows")));
}

#[test]
fn a_key_that_dies_in_one_layer_and_comes_back_in_the_next_counts_once() {
    let arena = Arc::new(Arena::new(256, 1 << 20).unwrap());
    let mut bottom = Tree::new(arena.clone(), Measures::ROWS, true);
    for key in ["a", "b", "c"] {
        bottom.put(key.as_bytes(), b"old", When::Always).unwrap();
    }
    let mut layers = Layers { trees: vec![bottom], measures: Measures::ROWS };
    for value in [None, Some(&b"new"[..]), None, Some(b"newer")] {
        let mut layer = Tree::new(arena.clone(), Measures::ROWS, false);
        let below = infallible(layers.stack().contribution(b"b"));
        layer.write_over(b"b", value, |_| Some(below)).unwrap();
        layers.trees.insert(0, layer);
        assert_eq!(layers.stack().total().rows, 2 + i64::from(value.is_some()));
    }
    let stack = layers.stack();
    let row = infallible(stack.nth(1)).expect("three rows");
    assert_eq!((&*row.key, row.value), (&b"b"[..], &b"newer"[..]));
    assert_eq!(infallible(stack.rows_before(Cut::Before(b"c"))), 2);
}
