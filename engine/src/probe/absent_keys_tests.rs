//! Goal: a run that is said to lack a key has no entry of it, whatever of the runs is in memory; and once the way to
//! their filters is kept, nearly every run that lacks a key is told. Method: runs of all kinds side by side - of
//! several files, of one leaf, of none, with long separators that begin alike, flat, without filters, more of them than
//! are told of - asked for all their keys and gaps, while their pages come to be kept one by one; a stack of them asked
//! for the same keys, against a map. Replay: SEED=... cargo test -p quipu run::lacking_tests

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tests::new_disk;
use super::*;
use crate::cache::{PageCache, ReadPages};
use crate::io::Disk;
use crate::options::RunLayout;
use crate::page::KeyBuffer;
use crate::read::many_keys::rows_before_many;
use crate::read::table_layer::Mixed;
use crate::run::{Part, Run, RunFile, RunOptions, RunWriter};
use crate::stack::{Cut, Layer, Stack};
use crate::tally::Measures;
use crate::tally::Tally;

/// A cache of so many bytes has files keep pages.
const CACHE_BYTES: u64 = 8 << 20;

/// Keys in order, with their values; a tombstone has none.
type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn file_of(disk: &dyn Disk, path: PathBuf, entries: &[(&Vec<u8>, &Option<Vec<u8>>)], options: RunOptions) -> RunFile {
    let mut writer = RunWriter::create(disk, &path, options).unwrap();
    for (key, value) in entries {
        let rows = if value.is_some() { 1 } else { -1 };
        writer.push_entry(key, value.as_deref(), Tally { rows, ..Tally::ZERO }).unwrap();
    }
    writer.finish().unwrap();
    RunFile::open(disk, &path).unwrap()
}

/// A run of so many files.
fn run_of(disk: &dyn Disk, number: usize, entries: &Entries, files: usize, options: RunOptions) -> Arc<Run> {
    let entries: Vec<(&Vec<u8>, &Option<Vec<u8>>)> = entries.iter().collect();
    let path = |part: usize| Path::new("/db").join(format!("run-{number}-{part}"));
    let parts: Vec<Part> = entries
        .chunks(entries.len().div_ceil(files).max(1))
        .enumerate()
        .map(|(part, entries)| Part {
            low: KeyBuffer::from_slice(entries[0].0),
            file: Arc::new(file_of(disk, path(part), entries, options)),
        })
        .collect();
    if parts.is_empty() {
        return Arc::new(Run::of_file(file_of(disk, path(0), &[], options)));
    }
    Arc::new(Run::of_parts(&parts, options.is_bottom))
}

fn key_of(rng: &mut StdRng) -> Vec<u8> {
    let number: u32 = rng.random_range(0..30_000);
    match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        // Heads of separators are equal.
        1 => format!("a long start, equal of all{}{number:05}", ["", "aaaaaaaa"][number as usize / 3 % 2]).into_bytes(),
        _ => format!("{number}").into_bytes(),
    }
}

/// Runs of all kinds, newest first, with their entries.
fn runs(disk: &dyn Disk, rng: &mut StdRng) -> Vec<(Arc<Run>, Entries)> {
    let options = RunOptions { page_bytes: 256, is_bottom: false, ..RunOptions::default() };
    let kinds = [
        (2000, 1, options),
        (4000, 3, options),
        (0, 1, options),
        (3, 1, options),
        (1500, 2, RunOptions { has_filters: false, ..options }),
        (1500, 2, RunOptions { layout: RunLayout::Flat, ..options }),
        (6000, 5, RunOptions { page_bytes: 512, ..options }),
        (8000, 4, RunOptions { is_bottom: true, ..options }),
    ];
    let mut runs = Vec::new();
    for (number, (count, files, options)) in kinds.into_iter().enumerate() {
        let entry = |_| {
            let is_tombstone = !options.is_bottom && rng.random_ratio(1, 4);
            let value = (!is_tombstone).then(|| vec![number as u8; rng.random_range(0..12)]);
            (key_of(rng), value)
        };
        let entries: Entries = (0..count).map(entry).collect();
        runs.push((run_of(disk, number, &entries, files, options), entries));
    }
    runs
}

#[test]
fn what_has_an_entry_is_never_said_to_lack_it() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let disk = new_disk();
    let (runs, cache) = (runs(&disk, &mut rng), PageCache::new(CACHE_BYTES));
    let (mut lacked, mut told) = (0, 0);
    for turn in 0..40_000 {
        let mut key = key_of(&mut rng);
        match turn % 5 {
            0 => key.push(b'x'),
            1 => key.truncate(rng.random_range(0..=key.len())),
            _ => {}
        }
        let pages = ReadPages::new(&cache);
        let lacking = lacking(runs.iter().map(|(run, _)| RunLayer::new(run, &pages)), &key);
        assert_eq!(pages.cost().pages, 0);
        for (number, (_, entries)) in runs.iter().enumerate() {
            assert!(!lacking.has(number) || !entries.contains_key(&key), "run {number}, key {key:?}");
            // Of runs with a tree and filters, and after most of their pages have come.
            if ![2, 3, 4, 5].contains(&number) && !entries.contains_key(&key) && turn > 20_000 {
                lacked += 1;
                told += u32::from(lacking.has(number));
            }
        }
        // Pages come to be kept, now and then one.
        let number = rng.random_range(0..runs.len());
        let layer = RunLayer::new(&runs[number].0, &pages);
        let found = pages.answer(|| layer.is_live(&key)).unwrap();
        assert_eq!(found, runs[number].1.get(&key).map(Option::is_some));
    }
    println!("{told} of {lacked} told");
    assert!(told * 100 > lacked * 97, "{told} of {lacked}");
}

#[test]
fn a_stack_answers_as_its_layers_do() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let disk = new_disk();
    let runs = runs(&disk, &mut rng);
    for cache_bytes in [0, CACHE_BYTES] {
        let cache = PageCache::new(cache_bytes);
        for _ in 0..10_000 {
            let pages = ReadPages::new(&cache);
            // Any runs of them, and the same again so that there are more than are told of.
            let copies = if rng.random_ratio(1, 50) { 20 } else { 1 };
            let from = rng.random_range(0..runs.len());
            let chosen = || (0..copies).flat_map(|_| &runs[from..]);
            let layers = chosen().map(|(run, _)| Mixed::Run(RunLayer::new(run, &pages)));
            let stack = Stack::new(layers.collect(), Measures::default());
            // Two keys of one stack in turns: what is remembered of the one is not said of the other.
            let keys = [key_of(&mut rng), key_of(&mut rng)];
            for key in [&keys[0], &keys[1], &keys[0]] {
                let expected = chosen().find_map(|(_, entries)| entries.get(key)).cloned().flatten();
                let found = pages.answer(|| stack.get(key)).unwrap();
                assert_eq!(found.map(<[u8]>::to_vec), expected, "{key:?}");
                assert_eq!(pages.answer(|| stack.is_live(key)).unwrap(), expected.is_some());
            }
            // Many keys together, across the sizes of groups.
            let keys: Vec<Vec<u8>> = (0..rng.random_range(0..40)).map(|_| key_of(&mut rng)).collect();
            let value = |key: &Vec<u8>| chosen().find_map(|(_, entries)| entries.get(key)).cloned().flatten();
            let found = pages.answer(|| stack.get_many(&keys)).unwrap();
            let found: Vec<Option<Vec<u8>>> = found.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect();
            assert_eq!(found, keys.iter().map(value).collect::<Vec<_>>());
            let live = pages.answer(|| stack.contributions(&keys)).unwrap();
            assert!(live.iter().zip(&found).all(|(tally, value)| tally.rows == i64::from(value.is_some())));
            let mut cuts: Vec<Cut<'_>> = keys.iter().map(|key| Cut::Before(key)).collect();
            cuts.extend([Cut::Start, Cut::End]);
            cuts.extend(keys.iter().map(|key| Cut::After(key)));
            let counted = pages.answer(|| {
                let mut counted = vec![0; cuts.len()];
                let cuts = cuts.iter().copied().enumerate();
                rows_before_many(&stack, cuts, |number, rows| counted[number] = rows).map(|()| counted)
            });
            let one_by_one: Vec<u64> =
                cuts.iter().map(|cut| pages.answer(|| stack.rows_before(*cut)).unwrap()).collect();
            assert_eq!(counted.unwrap(), one_by_one);
        }
    }
}

#[test]
fn beyond_the_first_64_nothing_is_said() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let disk = new_disk();
    let (runs, cache) = (runs(&disk, &mut rng), PageCache::new(CACHE_BYTES));
    let pages = ReadPages::new(&cache);
    let layer = RunLayer::new(&runs[0].0, &pages);
    let key = b"absent".to_vec();
    assert_eq!(pages.answer(|| layer.is_live(&key)).unwrap(), None);
    let lacking = lacking(std::iter::repeat_n(layer, 100), &key);
    assert!((0..64).all(|number| lacking.has(number)) && !(64..200).any(|number| lacking.has(number)));
}
