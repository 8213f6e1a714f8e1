//! Goal: inner pages that were brought into memory answer without a read, those that stay do whatever else is read, and
//! what all take together stays within the cache's bytes. Method: a run of a few levels under caches of several sizes.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::io::sim::SimDisk;
use crate::probe::RunLayer;
use crate::probe::tests::{PATH, new_disk};
use crate::run::{Run, RunOptions, RunWriter};
use crate::stack::Layer;
use crate::tree::Side;

const ROWS: u32 = 20_000;

fn run_at(disk: &SimDisk, path: &str) -> Arc<Run> {
    let mut writer =
        RunWriter::create(disk, Path::new(path), RunOptions { page_bytes: 1024, ..RunOptions::default() }).unwrap();
    for number in 0..ROWS {
        writer.push(&number.to_be_bytes(), &[7; 20]).unwrap();
    }
    writer.finish().unwrap();
    let run = Arc::new(Run::open(disk, Path::new(path)).unwrap());
    assert!(run.info().levels > 2);
    run
}

/// Pages that a rank and a look for a key that is not there read from the file.
fn reads(cache: &PageCache, run: &Arc<Run>, number: u32) -> u64 {
    let pages = ReadPages::new(cache);
    let layer = RunLayer::new(run, &pages);
    let key = number.to_be_bytes();
    assert_eq!(pages.answer(|| layer.rows_before(&key, Side::Below)).unwrap(), i64::from(number));
    pages.cost().pages_read
}

/// Reads leaves until everything that can be evicted has been.
fn push_out(cache: &PageCache, run: &Arc<Run>) {
    for _ in 0..3 {
        (0..ROWS).step_by(20).for_each(|number| assert!(reads(cache, run, number) <= run.info().levels as u64));
    }
}

#[test]
fn an_index_that_was_brought_in_is_not_read_again() {
    let (disk, cache) = (new_disk(), PageCache::new(1 << 20));
    let run = run_at(&disk, PATH);
    let shape = run.files()[0].shape().unwrap();
    let loaded = cache.preload(&run, false).unwrap();
    assert_eq!((loaded.pages, loaded.is_cut), (shape.inner_pages + shape.filters, false));
    assert!(loaded.bytes > shape.inner_bytes + shape.filter_bytes);
    assert_eq!((cache.stats().bytes, cache.stats().pinned_bytes), (loaded.bytes, 0));
    (0..ROWS).step_by(1000).for_each(|number| assert_eq!(reads(&cache, &run, number), 1));
    // Once more costs no read.
    let misses = cache.stats().misses;
    cache.preload(&run, false).unwrap();
    assert_eq!(cache.stats().misses, misses);
}

#[test]
fn what_stays_stays_and_counts() {
    let disk = new_disk();
    let run = run_at(&disk, PATH);
    let index_bytes = PageCache::new(1 << 20).preload(&run, false).unwrap().bytes;
    let cache = PageCache::new(2 * index_bytes + 4096);
    let loaded = cache.preload(&run, true).unwrap();
    assert!(!loaded.is_cut);
    assert_eq!((cache.stats().bytes, cache.stats().pinned_bytes), (loaded.bytes, loaded.bytes));
    // Once more costs no read.
    let misses = cache.stats().misses;
    assert_eq!(cache.preload(&run, true).unwrap(), loaded);
    assert_eq!((cache.stats().misses, cache.stats().pinned_bytes), (misses, loaded.bytes));
    push_out(&cache, &run);
    assert!(cache.stats().bytes <= cache.stats().bytes_max + 64, "{:?}", cache.stats());
    (0..ROWS).step_by(777).for_each(|number| assert!(reads(&cache, &run, number) <= 1));
    // Another one finds no room, and is read like any other.
    let other = run_at(&disk, "/db/other");
    let cut = cache.preload(&other, true).unwrap();
    assert!(cut.is_cut && cut.bytes < loaded.bytes / 2);
    assert!(cache.stats().pinned_bytes <= cache.stats().bytes_max / 2);
    push_out(&cache, &other);
    // It takes the place of the first one once that is let go of.
    run.files()[0].release();
    assert!(!cache.preload(&other, true).unwrap().is_cut);
    assert_eq!(cache.stats().pinned_bytes, loaded.bytes);
    push_out(&cache, &run);
    (0..ROWS).step_by(777).for_each(|number| assert!(reads(&cache, &other, number) <= 1));
    // And the tier is empty when it is gone.
    drop(other);
    cache.fit();
    assert_eq!(cache.stats().pinned_bytes, 0);
    push_out(&cache, &run);
    assert!(cache.stats().bytes > index_bytes + index_bytes / 2, "{:?}", cache.stats());
}

#[test]
fn what_has_no_room_is_left_out_from_below() {
    let (disk, cache) = (new_disk(), PageCache::new(8192));
    let run = run_at(&disk, PATH);
    let loaded = cache.preload(&run, true).unwrap();
    assert!(loaded.is_cut && loaded.pages > 1 && loaded.bytes <= 4096, "{loaded:?}");
    push_out(&cache, &run);
    assert!(reads(&cache, &run, 5) < run.info().levels as u64);
    // An empty run and one of a single leaf have no index.
    let cache = PageCache::new(0);
    assert_eq!(cache.preload(&run, true).unwrap(), Preloaded { is_cut: true, ..Preloaded::default() });
    for rows in [0, 1] {
        let path = format!("/db/rows-{rows}");
        let mut writer = RunWriter::create(&disk, Path::new(&path), RunOptions::default()).unwrap();
        (0..rows).for_each(|_| writer.push(b"key", b"value").unwrap());
        writer.finish().unwrap();
        let run = Arc::new(Run::open(&disk, Path::new(&path)).unwrap());
        assert_eq!(PageCache::new(1 << 20).preload(&run, true).unwrap(), Preloaded::default());
    }
}
