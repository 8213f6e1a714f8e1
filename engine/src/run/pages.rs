//! Pages of runs in memory: a cache that all readers share, and what one reader holds on to while it asks.
//!
//! Tree code asks [`ReadPages`] for a page and gets it or [`Missing`], and never waits. Whoever asked loads what was missing, all of it in the order of the files, and asks
//! again: see [`ReadPages::answer`].
//!
//! Invariants:
//! 1. A page that a reader has seen stays where it is until the reader ends, whatever the cache evicts: so asking again makes progress, and answers borrow from it.
//! 2. Only pages that have been checked are here.
//!
//! Costs: a page that the reader has seen is a look at the few that it has (`seen`); another one that is cached, one into the cache; any other, one read, or a part of one with its
//! neighbours in the file.
//! Not here: where pages are and what they must be (`file`); which are read together (`fetch`).

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::Run;
use super::fetch::{Passed, Wanted};
use super::file::{Loaded, Place, RunFile};
use super::filter::FilterRef;
use super::format::{Pointer, ValueReference};
use super::passing::Passing;
use super::resident::Tier;
use super::seen::Seen;
use crate::error::Result;

/// A cache is cut into shards of at least so many bytes, and into no more of them than this.
const SHARD_BYTES: u64 = 16 << 20;
const SHARDS_MAX: u64 = 64;
/// Beside a cache of so many bytes there is room for the root of each file; of a smaller one, nothing stays.
const KEEPS_BYTES: u64 = 8 << 20;
/// Bytes that a cached page takes beside its own.
const ENTRY_BYTES: u64 = 96;

/// A page, a filter or a value, by the number of the open run and the offset in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PageKey {
    run: u64,
    offset: u64,
}

impl PageKey {
    pub(super) fn new(run: u64, offset: u64) -> PageKey {
        PageKey { run, offset }
    }

    /// What stands at `offset` of an open file.
    fn of(file: &RunFile, offset: u64) -> PageKey {
        PageKey::new(file.number(), offset)
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<PageKey, Arc<Loaded>> for ByBytes {
    fn weight(&self, _: &PageKey, page: &Arc<Loaded>) -> u64 {
        held_bytes(page.bytes() as u64)
    }
}

/// What a page of so many bytes takes in the cache.
pub(super) fn held_bytes(page_bytes: u64) -> u64 {
    page_bytes + ENTRY_BYTES
}

/// Pages, filters and values of all runs, up to a number of bytes. Resists scans (S3-FIFO, Yang et al., SOSP 2023, as the library `quick_cache` has it).
pub(crate) struct PageCache {
    pages: Cache<PageKey, Arc<Loaded>, ByBytes, FixedState>,
    /// Whether roots stay with their files, beside the cache, and inner pages and filters as far as there is room.
    keeps: bool,
    /// Bytes for `pages` and those that runs hold.
    bytes_max: u64,
    tier: Arc<Tier>,
    counts: Counts,
}

/// What readers tell the cache: when they end, and of large ones meanwhile.
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    pinned_bytes: AtomicU64,
}

/// What a cache has and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Bytes in it now.
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// Those of them that runs hold as long as they live.
    pub(crate) resident_bytes: u64,
    /// Bytes of pages that readers hold now, evicted or not, but for less than [`PINNED_STEP_BYTES`] of each reader.
    pub(crate) pinned_bytes: u64,
    /// Pages and values that readers found in it, and those that they read from a file.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// A reader tells of the bytes that it holds in steps of so many: one that looks at a few pages never does.
const PINNED_STEP_BYTES: u64 = 256 << 10;

impl PageCache {
    /// A cache of at most `cache_bytes`.
    pub(crate) fn new(cache_bytes: u64) -> PageCache {
        // The default settings but for the number of shards: each must have room for the largest pages, which are those of flat indexes.
        let options = OptionsBuilder::new()
            .shards((cache_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity((cache_bytes / 8192).max(16) as usize)
            .weight_capacity(cache_bytes)
            .build()
            .expect("all that has no default is given");
        PageCache {
            pages: Cache::with_options(options, ByBytes, FixedState::default(), DefaultLifecycle::default()),
            keeps: cache_bytes >= KEEPS_BYTES,
            bytes_max: cache_bytes,
            tier: Arc::default(),
            counts: Counts::default(),
        }
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// What runs hold of it.
    pub(super) fn tier(&self) -> &Arc<Tier> {
        &self.tier
    }

    /// Gives other pages what the tier leaves.
    pub(crate) fn fit(&self) {
        let rest = self.bytes_max.saturating_sub(self.tier.bytes());
        // The library rounds up to whole shards.
        if self.pages.capacity().abs_diff(rest) > SHARDS_MAX {
            self.pages.set_capacity(rest);
        }
    }

    /// Has `page` stay with its file; gives it back if there is no room.
    fn keep(&self, file: &RunFile, key: PageKey, page: Loaded) -> Option<Loaded> {
        if !self.keeps {
            return Some(page);
        }
        let rest = file.keep(key.offset, page, &self.tier, self.bytes_max);
        if rest.is_none() {
            self.fit();
        }
        rest
    }

    /// Lets go of a page.
    pub(super) fn forget(&self, file: &RunFile, offset: u64) {
        self.pages.remove(&PageKey::of(file, offset));
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            bytes: self.pages.weight() + self.tier.bytes(),
            bytes_max: self.bytes_max,
            resident_bytes: self.tier.bytes(),
            pinned_bytes: self.counts.pinned_bytes.load(Ordering::Relaxed),
            hits: self.counts.hits.load(Ordering::Relaxed),
            misses: self.counts.misses.load(Ordering::Relaxed),
        }
    }

    /// Bytes in it now.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.weight()
    }
}

/// A page is not in memory: it has been noted, and is there once [`ReadPages::load`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing;

/// What one reader has seen.
pub(crate) struct ReadPages<'c> {
    cache: &'c PageCache,
    seen: Seen,
    passing: Passing,
    missing: RefCell<Vec<(PageKey, Arc<RunFile>, Wanted)>>,
    cost: Cell<ReadCost>,
    /// Bytes of what was seen, and those of them that the cache has been told of.
    bytes: Cell<u64>,
    pinned_bytes: Cell<u64>,
}

/// What a reader's answers have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCost {
    /// Different pages, filters and values that were looked at, without those that files keep.
    pub(crate) pages: u64,
    /// Those of them that were read from a file.
    pub(crate) pages_read: u64,
    /// How often the reader had to wait for a file.
    pub(crate) rounds: u64,
}

impl<'c> ReadPages<'c> {
    pub(crate) fn new(cache: &'c PageCache) -> ReadPages<'c> {
        ReadPages {
            cache,
            seen: Seen::new(),
            passing: Passing::default(),
            missing: RefCell::default(),
            cost: Cell::default(),
            bytes: Cell::default(),
            pinned_bytes: Cell::default(),
        }
    }

    /// The page at `place` of `run`.
    #[inline]
    pub(super) fn page<'p>(&'p self, run: &'p Run, place: &Place) -> Result<&'p Loaded, Missing> {
        let missing = || {
            let file = run.file(place);
            self.miss(PageKey::of(file, place.pointer.offset), file, Wanted::Page(*place))
        };
        self.page_if_here(run, place).ok_or_else(missing)
    }

    /// As [`ReadPages::page`], but who asks can do without: what is not in memory is not noted.
    #[inline]
    pub(super) fn page_if_here<'p>(&'p self, run: &'p Run, place: &Place) -> Option<&'p Loaded> {
        run.kept(place).or_else(|| {
            let file = run.file(place);
            self.seen_or_cached(file, PageKey::of(file, place.pointer.offset))
        })
    }

    /// The filter that `pointer` leads to.
    pub(super) fn filter<'p>(&'p self, file: &'p Arc<RunFile>, pointer: &Pointer) -> Result<FilterRef<'p>, Missing> {
        let missing = || self.miss(PageKey::of(file, pointer.offset), file, Wanted::Filter(*pointer));
        self.filter_if_here(file, pointer).ok_or_else(missing)
    }

    /// As [`ReadPages::filter`], but who asks can do without.
    pub(super) fn filter_if_here<'p>(&'p self, file: &'p RunFile, pointer: &Pointer) -> Option<FilterRef<'p>> {
        let kept = file.kept().get(pointer.offset);
        let loaded = kept.or_else(|| self.seen_or_cached(file, PageKey::of(file, pointer.offset)))?;
        Some(FilterRef::unchecked(loaded.as_slice()))
    }

    /// The value out of line that `reference` leads to.
    pub(super) fn value(&self, file: &Arc<RunFile>, reference: &ValueReference) -> Result<&[u8], Missing> {
        let key = PageKey::of(file, reference.offset);
        let loaded = self.seen_or_cached(file, key).ok_or_else(|| self.miss(key, file, Wanted::Value(*reference)))?;
        Ok(loaded.as_slice())
    }

    /// As [`ReadPages::value`], for a reader that passes and will not come back: neither is the cache asked, nor is it given the value.
    pub(super) fn value_in_passing(&self, file: &Arc<RunFile>, reference: &ValueReference) -> Result<&[u8], Missing> {
        let key = PageKey::of(file, reference.offset);
        let loaded = self.seen.get(&key).ok_or_else(|| self.miss(key, file, Wanted::PassingValue(*reference)))?;
        Ok(loaded.as_slice())
    }

    /// The value that `reference` in the leaf at `leaf` leads to, if it came with others of that leaf and is sound. If it is not, [`ReadPages::value`] will say so.
    #[inline]
    pub(super) fn passed_value(&self, file: &RunFile, leaf: u64, reference: &ValueReference) -> Option<&[u8]> {
        let leaf = PageKey::of(file, leaf);
        let stored = self.passing.get(&leaf, &(reference.offset..reference.end()?))?;
        file.check_value(reference, stored).ok()?;
        stored.get(..reference.length as usize)
    }

    /// Whether what stands at `extent` was asked for with other values of the leaf at `leaf`.
    pub(super) fn passes(&self, file: &RunFile, leaf: u64, extent: &Range<u64>) -> bool {
        self.passing.has(&PageKey::of(file, leaf), extent)
    }

    /// Asks for values of a leaf in one piece, for a reader that passes.
    pub(super) fn pass(&self, file: &Arc<RunFile>, values: Passed) -> Missing {
        self.miss(PageKey::of(file, values.offset), file, Wanted::Passed(values))
    }

    fn seen_or_cached(&self, file: &RunFile, key: PageKey) -> Option<&Loaded> {
        self.seen.get(&key).or_else(|| {
            let page = file.resident().get(key.offset).or_else(|| self.cache.pages.get(&key))?;
            self.count(|cost| cost.pages += 1);
            self.pin(&page);
            Some(self.seen.insert(key, page))
        })
    }

    /// Adds a page to the bytes that this reader holds.
    #[inline]
    fn pin(&self, page: &Loaded) {
        let bytes = self.bytes.get() + page.bytes() as u64;
        self.bytes.set(bytes);
        let untold = bytes - self.pinned_bytes.get();
        if untold >= PINNED_STEP_BYTES {
            self.cache.counts.pinned_bytes.fetch_add(untold, Ordering::Relaxed);
            self.pinned_bytes.set(bytes);
        }
    }

    fn miss(&self, key: PageKey, file: &Arc<RunFile>, wanted: Wanted) -> Missing {
        self.missing.borrow_mut().push((key, Arc::clone(file), wanted));
        Missing
    }

    fn count(&self, count: impl FnOnce(&mut ReadCost)) {
        let mut cost = self.cost.get();
        count(&mut cost);
        self.cost.set(cost);
    }

    fn count_read(&self, units: u64) {
        self.count(|cost| {
            cost.pages += units;
            cost.pages_read += units;
        });
    }

    /// Reads all that was missing, in the order of the files.
    ///
    /// # Errors
    /// As reading a page of a run.
    pub(crate) fn load(&self) -> Result<()> {
        let mut missing = std::mem::take(&mut *self.missing.borrow_mut());
        missing.sort_unstable_by_key(|(key, ..)| *key);
        missing.dedup_by_key(|(key, ..)| *key);
        self.count(|cost| cost.rounds += 1);
        // Two versions of a table may have the same file at different places of their runs: each page is checked as at the place where it was asked for.
        for of_run in missing.chunk_by(|(a, file, _), (b, other, _)| a.run == b.run && Arc::ptr_eq(file, other)) {
            let wanted: Vec<Wanted> = of_run.iter().map(|(.., wanted)| *wanted).collect();
            of_run[0].1.fetch(&wanted, |number, loaded| {
                let (key, file, wanted) = &of_run[number];
                self.keep(*key, file, wanted, loaded);
            })?;
        }
        Ok(())
    }

    /// As [`ReadPages::load`], if anything was missing.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn load_rest(&self) -> Result<()> {
        if self.missing.borrow().is_empty() { Ok(()) } else { self.load() }
    }

    fn keep(&self, key: PageKey, file: &RunFile, wanted: &Wanted, loaded: Loaded) {
        if let Wanted::Passed(values) = wanted {
            self.count_read(values.count);
            self.pin(&loaded);
            self.passing.insert(PageKey::of(file, values.leaf), values.extent(), loaded.into_bytes());
            return;
        }
        self.count_read(1);
        let loaded = match wanted {
            Wanted::Page(place) if self.cache.keeps && file.is_root(place) => file.keep_root(loaded),
            Wanted::Page(place) if place.level > 0 => self.cache.keep(file, key, loaded),
            Wanted::Filter(_) => self.cache.keep(file, key, loaded),
            _ => Some(loaded),
        };
        let Some(loaded) = loaded.map(Arc::new) else { return };
        self.pin(&loaded);
        if !matches!(wanted, Wanted::PassingValue(_)) {
            self.cache.pages.insert(key, loaded.clone());
        }
        self.seen.insert(key, loaded);
    }

    /// Asks until all pages for the answer are there. `ask` begins anew each time, or goes on where it was.
    ///
    /// # Errors
    /// As [`ReadPages::load`].
    pub(crate) fn answer<T>(&self, mut ask: impl FnMut() -> Result<T, Missing>) -> Result<T> {
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(Missing) => self.load()?,
            }
        }
    }

    /// Whether the page or value at `offset` of `run` has been seen.
    #[cfg(test)]
    pub(super) fn has_seen(&self, file: &RunFile, offset: u64) -> bool {
        self.seen.get(&PageKey::of(file, offset)).is_some()
    }

    /// All that was seen of one run, by offsets.
    pub(super) fn into_pages(mut self) -> impl Iterator<Item = (u64, Arc<Loaded>)> {
        let seen = std::mem::replace(&mut self.seen, Seen::new());
        seen.into_pages().map(|(key, page)| (key.offset, page))
    }

    /// Bytes of all that was seen, which is held on to.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// What it has cost so far.
    pub(crate) fn cost(&self) -> ReadCost {
        self.cost.get()
    }
}

impl Drop for ReadPages<'_> {
    #[inline]
    fn drop(&mut self) {
        let (cost, counts) = (self.cost.get(), &self.cache.counts);
        let add = |counter: &AtomicU64, count: u64| {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&counts.hits, cost.pages - cost.pages_read);
        add(&counts.misses, cost.pages_read);
        if self.pinned_bytes.get() > 0 {
            counts.pinned_bytes.fetch_sub(self.pinned_bytes.get(), Ordering::Relaxed);
        }
    }
}
