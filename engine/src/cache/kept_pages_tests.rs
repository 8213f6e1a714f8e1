//! Goal: inner pages and filters that were read once are not read again while there is room for them, however
//! many readers ask at once; what they take is within their share, and given back. Method: runs of a few levels under
//! caches that keep pages and others that do not, and shares of all sizes.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use super::*;
use crate::io::sim::SimDisk;
use crate::page::UnitBuffer;
use crate::probe::RunLayer;
use crate::probe::tests::{PATH, new_disk};
use crate::run::loaded::Loaded;
use crate::run::pinned_pages::Tier;
use crate::run::{Run, RunOptions, RunWriter};
use crate::stack::Layer;
use crate::tree::Side;

const ROWS: u32 = 20_000;
/// Caches of so many bytes keep pages.
const CACHE_BYTES: u64 = 8 << 20;

fn run_at(disk: &SimDisk, path: &str, page_bytes: usize) -> Arc<Run> {
    let options = RunOptions { page_bytes, ..RunOptions::default() };
    let mut writer = RunWriter::create(disk, Path::new(path), options).unwrap();
    for number in 0..ROWS {
        writer.push(&(2 * number).to_be_bytes(), &[7; 20]).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(Run::open(disk, Path::new(path)).unwrap())
}

/// What a get and a rank cost, which are answered rightly.
fn ask(cache: &PageCache, run: &Arc<Run>, number: u32) -> ReadCost {
    let pages = ReadPages::new(cache);
    let layer = RunLayer::new(run, &pages);
    let key = number.to_be_bytes();
    let is_there = pages.answer(|| layer.is_live(&key)).unwrap();
    assert_eq!(is_there, number.is_multiple_of(2).then_some(true));
    assert_eq!(pages.answer(|| layer.rows_before(&key, Side::Below)).unwrap(), i64::from(number.div_ceil(2)));
    pages.cost()
}

fn page_of(len: usize) -> Loaded {
    Loaded::Node(UnitBuffer::new(len))
}

#[test]
fn the_way_to_a_leaf_stays() {
    let (disk, cache) = (new_disk(), PageCache::new(CACHE_BYTES));
    let run = run_at(&disk, PATH, 512);
    let shape = run.files()[0].shape().unwrap();
    assert!(shape.levels >= 4);
    (0..2 * ROWS).for_each(|number| assert!(ask(&cache, &run, number).rounds < 20));
    let kept_bytes = cache.stats().pinned_bytes;
    // All but the root, which stays apart from them, and slots.
    let all_bytes = shape.inner_bytes + shape.filter_bytes;
    assert!(kept_bytes > all_bytes - 600 && kept_bytes < 2 * all_bytes + 100_000, "{kept_bytes} of {all_bytes}");
    // All that is looked at, and may be evicted, is a leaf.
    for number in (0..2 * ROWS).step_by(7) {
        let cost = ask(&cache, &run, number);
        assert!(cost.pages == 1 && cost.pages_read <= 1, "{cost:?}");
    }
    // Of a cache that is too small for that, nothing stays.
    let (small, again) = (PageCache::new(CACHE_BYTES - 1), Arc::new(Run::open(&disk, Path::new(PATH)).unwrap()));
    (0..2 * ROWS).for_each(|number| assert!(ask(&small, &again, number).rounds < 20));
    assert!(ask(&small, &again, 5).pages > shape.levels);
    assert_eq!(small.stats().pinned_bytes, 0);
    drop(run);
    assert_eq!(cache.stats().pinned_bytes, 0);
}

#[test]
fn readers_at_once_keep_a_page_once() {
    let (disk, cache) = (new_disk(), PageCache::new(CACHE_BYTES));
    for turn in 0..20 {
        let run = run_at(&disk, &format!("/db/{turn}"), 512);
        thread::scope(|scope| {
            for first in 0..4 {
                let (cache, run) = (&cache, &run);
                scope.spawn(move || {
                    (first..2 * ROWS).step_by(601).for_each(|number| assert!(ask(cache, run, number).rounds < 20))
                });
            }
        });
        (1..2 * ROWS).step_by(601).for_each(|number| assert_eq!(ask(&cache, &run, number).pages, 1));
        let twice = cache.stats().pinned_bytes;
        (1..2 * ROWS).step_by(601).for_each(|number| assert!(ask(&cache, &run, number).rounds < 20));
        assert_eq!(cache.stats().pinned_bytes, twice);
    }
    cache.fit();
    assert_eq!(cache.stats().pinned_bytes, 0);
}

#[test]
fn no_more_than_a_share_is_kept() {
    let disk = new_disk();
    let tier = Arc::new(Tier::default());
    for cache_bytes in [0, 1 << 10, 16 << 10, 100 << 10, 1 << 20, 64 << 20] {
        let runs =
            [run_at(&disk, &format!("/db/a{cache_bytes}"), 256), run_at(&disk, &format!("/db/b{cache_bytes}"), 4096)];
        let mut kept = Vec::new();
        for number in 0..2000 {
            let file = &runs[number % 2].files()[0];
            // Short, usual, and too long to be kept.
            let (offset, len) = (8 * (number as u64 + 4), [64, 512, 70_000][number % 3]);
            let page = page_of(len);
            match file.keep(offset, page, &tier, cache_bytes) {
                None => kept.push((file, offset, len)),
                Some(back) => assert_eq!(back.bytes(), len),
            }
            assert!(tier.bytes() <= cache_bytes / 4);
        }
        for (file, offset, len) in &kept {
            assert_eq!(file.kept().get(*offset).map(Loaded::bytes), Some(*len));
            // It comes once more, from a reader who was slower: nothing changes.
            let before = tier.bytes();
            assert!(file.keep(*offset, page_of(*len), &tier, u64::MAX).is_none());
            assert_eq!(tier.bytes(), before);
        }
        assert!(kept.iter().all(|(.., len)| *len < 70_000));
        assert_eq!(kept.is_empty(), cache_bytes < 16 << 10, "{cache_bytes}");
        assert!(cache_bytes < 1 << 20 || kept.len() > 100, "{} of {cache_bytes}", kept.len());
        assert!(runs[0].files()[0].kept().get(1).is_none());
        drop(runs);
        assert_eq!(tier.bytes(), 0);
    }
}

#[test]
fn a_file_that_found_no_room_finds_it_later() {
    let disk = new_disk();
    let tier = Arc::new(Tier::default());
    let run = run_at(&disk, PATH, 512);
    let file = &run.files()[0];
    assert!(tier.take(1 << 20, u64::MAX));
    assert!(file.keep(64, page_of(512), &tier, 4 << 20).is_some());
    tier.give(1 << 20);
    assert!(file.keep(64, page_of(512), &tier, 4 << 20).is_none());
    assert!(file.kept().get(64).is_some());
}
