//! Goal: a filter never denies a key that is there, and nearly always one that is not, so that its leaf is not read;
//! all other answers are as without. Method: filters of all small numbers of keys, and of some that are hard to build;
//! forged ones; the same entries in runs with and without filters, bottom and upper, all keys and gaps asked by readers
//! that have nothing in memory; reads of a hundred thousand absent keys counted. Replay: SEED=... cargo test -p quipu
//! run::filter_tests

use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tests::{PATH, new_disk};
use super::*;
use crate::cache::ReadCost;
use crate::cache::{PageCache, ReadPages};
use crate::options::RunLayout;
use crate::run::filter::{FilterRef, build};
use crate::run::{Run, RunOptions, RunWriter};
use crate::stack::Layer;
use crate::tally::Tally;
use crate::tree::Side;

fn filter_of(hashes: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    build(&mut hashes.to_vec(), &mut bytes);
    bytes.split_off(8)
}

#[test]
fn a_filter_knows_its_keys_and_few_others() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let (mut asked, mut passed) = (0, 0);
    // 11,500 keys were too many for a step of the library's sizes (FastFilter/xorfilter, pull request 23).
    let counts = (1..400).chain([1000, 6554, 11_480, 11_500, 11_521, 60_000]);
    for count in counts {
        let hashes: Vec<u64> = (0..count).map(|_| rng.random()).collect();
        let bytes = filter_of(&hashes);
        let filter = FilterRef::new(&bytes).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_have(hash)), "{count} keys");
        assert!(count < 1000 || bytes.len() * 8 < count * 12, "{} bytes for {count} keys", bytes.len());
        asked += 1000;
        passed += (0..1000).filter(|_| filter.may_have(rng.random())).count();
    }
    println!("{passed} of {asked} absent keys pass");
    assert!(passed * 1000 < asked * 6);
}

#[test]
fn keys_of_one_hash_are_no_harm() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    for copies in [2, 3, 80] {
        let mut hashes: Vec<u64> = (0..100).map(|_| rng.random()).collect();
        hashes.extend(vec![hashes[7]; copies - 1]);
        let bytes = filter_of(&hashes);
        let filter = FilterRef::new(&bytes).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_have(hash)));
    }
}

#[test]
fn a_forged_filter_is_refused_or_answers() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let mut accepted = 0;
    for _ in 0..20_000 {
        let count = rng.random_range(1..40);
        let mut bytes = filter_of(&(0..count).map(|_| rng.random()).collect::<Vec<u64>>());
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len().min(24));
            bytes[at] = [rng.random(), 0, 1, 255, 128][rng.random_range(0..5)];
        }
        if rng.random_ratio(1, 10) {
            bytes.truncate(rng.random_range(0..bytes.len()));
        }
        if let Ok(filter) = FilterRef::new(&bytes) {
            accepted += 1;
            [0, u64::MAX, rng.random(), rng.random()].iter().for_each(|&hash| _ = filter.may_have(hash));
        }
    }
    assert!(accepted > 1000);
}

/// An entry: its key, its value unless it is a tombstone, and the rows it weighs.
type TestEntry = (Vec<u8>, Option<Vec<u8>>, i64);

fn run_of(entries: &[TestEntry], options: RunOptions) -> Arc<Run> {
    let disk = new_disk();
    let mut writer = RunWriter::create(&disk, Path::new(PATH), options).unwrap();
    for (key, value, rows) in entries {
        writer.push_entry(key, value.as_deref(), Tally { rows: *rows, ..Tally::ZERO }).unwrap();
    }
    writer.finish().unwrap();
    let run = Run::open(&disk, Path::new(PATH)).unwrap();
    assert_eq!(run.files()[0].check(&mut |_| ()).faults, [""; 0]);
    Arc::new(run)
}

type Answer = Option<Option<Vec<u8>>>;

/// What a reader who has nothing in memory is told, and what it costs.
fn get(run: &Arc<Run>, key: &[u8]) -> (Answer, ReadCost) {
    let cache = PageCache::new(0);
    let pages = ReadPages::new(&cache);
    let layer = RunLayer::new(run, &pages);
    let found = pages.answer(|| layer.get(key)).unwrap();
    (found.map(|value| value.map(<[u8]>::to_vec)), pages.cost())
}

/// Every third number; in an upper run every third of these is a tombstone, and some lie over others.
fn entries(count: u32, is_bottom: bool, long_value_every: u32) -> Vec<TestEntry> {
    let entry = |number: u32| {
        let key = (number * 3).to_be_bytes().to_vec();
        let value_len = if number % long_value_every == long_value_every - 1 { 100 } else { number as usize % 9 };
        let value = Some(vec![number as u8; value_len]);
        match number % 3 {
            1 if !is_bottom => (key, None, -1),
            2 if !is_bottom => (key, value, 0),
            _ => (key, value, 1),
        }
    };
    (0..count).map(entry).collect()
}

#[test]
fn answers_are_the_same_without_filters() {
    for is_bottom in [true, false] {
        for layout in [RunLayout::Tree, RunLayout::Flat] {
            for count in (0..60).chain([100, 200, 900]) {
                let entries = entries(count, is_bottom, 10);
                let options = RunOptions { page_bytes: 256, is_bottom, layout, ..RunOptions::default() };
                let with = run_of(&entries, options);
                let without = run_of(&entries, RunOptions { has_filters: false, ..options });
                for (number, (key, value, _)) in entries.iter().enumerate() {
                    assert_eq!(get(&with, key).0, Some(value.clone()), "{number} of {count}");
                    assert_eq!(get(&without, key).0, Some(value.clone()));
                    for absent in
                        [[&key[..], &[0]].concat(), key[..3].to_vec(), (number as u32 * 3 + 1).to_be_bytes().to_vec()]
                    {
                        assert_eq!(get(&with, &absent).0, None, "{number} of {count}");
                    }
                }
                // Everything but `get` knows of no filter.
                let cache = PageCache::new(1 << 20);
                let (pages, other) = (ReadPages::new(&cache), ReadPages::new(&cache));
                let (layer, other_layer) = (RunLayer::new(&with, &pages), RunLayer::new(&without, &other));
                for key in (0..3 * count + 2).step_by(7).map(u32::to_be_bytes) {
                    let rank = pages.answer(|| layer.rows_before(&key, Side::Below)).unwrap();
                    assert_eq!(rank, other.answer(|| other_layer.rows_before(&key, Side::Below)).unwrap());
                }
                assert_eq!(pages.cost().pages, other.cost().pages);
            }
        }
    }
}

#[test]
fn the_keys_of_a_node_are_cut_into_filters_of_about_a_page() {
    for layout in [RunLayout::Tree, RunLayout::Flat] {
        let options = RunOptions { page_bytes: 1024, layout, ..RunOptions::default() };
        let run = run_of(&entries(60_000, true, u32::MAX), options);
        let shape = run.files()[0].shape().unwrap();
        let nodes = if layout == RunLayout::Flat { 1 } else { shape.inner_pages - 1 };
        assert!(shape.filters > 4 * nodes, "{shape:?}");
        assert!((900..1400).contains(&(shape.filter_bytes / shape.filters)), "{shape:?}");
        assert_eq!(run.files()[0].check(&mut |_| ()).filters, shape.filters);
        let bits = shape.filter_bytes as f64 * 8.0 / 60_000.0;
        assert!(bits < 12.5, "{bits} bits a key");
        assert_eq!(shape.leaf_bytes + shape.inner_bytes + shape.filter_bytes + 32 + 192, shape.file_bytes);
    }
    let options = RunOptions { has_filters: false, ..RunOptions::default() };
    assert_eq!(run_of(&entries(60_000, true, u32::MAX), options).files()[0].shape().unwrap().filter_bytes, 0);
    // One leaf tells as much as a filter over it.
    assert_eq!(run_of(&entries(5, true, u32::MAX), RunOptions::default()).files()[0].shape().unwrap().filter_bytes, 0);
}

#[test]
fn an_absent_key_reads_no_leaf() {
    let count = 100_000;
    for is_bottom in [true, false] {
        let options = RunOptions { page_bytes: 1024, is_bottom, ..RunOptions::default() };
        let run = run_of(&entries(count, is_bottom, u32::MAX), options);
        let levels = run.info().levels as u64;
        let mut leaves_read = 0;
        for number in 0..count {
            let (found, cost) = get(&run, &(number * 3 + 1 + number % 2).to_be_bytes());
            assert_eq!(found, None);
            // The inner pages and the filter, one after the other; then the leaf if the filter cannot tell.
            assert!(cost.pages_read == levels || cost.pages_read == levels + 1, "{cost:?}");
            assert_eq!(cost.pages_read, cost.rounds);
            leaves_read += u32::from(cost.pages_read > levels);
        }
        println!("{leaves_read} leaves read for {count} absent keys");
        assert!(leaves_read < count / 100, "{leaves_read} leaves read");
    }
}

/// A leaf that is in memory is asked at once: a hit costs no more than without filters.
#[test]
fn the_filter_over_a_leaf_in_memory_is_not_read() {
    let run = run_of(&entries(2000, true, u32::MAX), RunOptions { page_bytes: 256, ..RunOptions::default() });
    let cache = PageCache::new(1 << 20);
    for number in 0..2000u32 {
        let key = (number * 3).to_be_bytes();
        let pages = ReadPages::new(&cache);
        let layer = RunLayer::new(&run, &pages);
        pages.answer(|| layer.rows_before(&key, Side::Below)).unwrap();
        let cost = pages.cost();
        assert!(pages.answer(|| layer.get(&key)).unwrap().is_some());
        assert_eq!(pages.answer(|| layer.get(&[&key[..], &[1]].concat())).unwrap(), None);
        assert_eq!(pages.cost(), cost, "{number}");
    }
}
