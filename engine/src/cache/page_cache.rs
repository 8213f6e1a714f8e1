//! The page cache of runs, shared by all readers, and the pages one reader holds while it asks.
//!
//! Tree code asks [`ReadPages`] for a page, gets it or [`Missing`], and never waits. Its caller loads what was missing,
//! all of it in the order of the files, and asks again: see [`ReadPages::answer`].
//!
//! Invariants:
//! 1. A page that a reader has seen stays where it is until the reader ends, whatever the cache evicts: so asking again
//!    makes progress, and answers borrow from it.
//! 2. Only pages that have been checked are here.
//!
//! Cost: a page that the reader has seen, a look at the few that it has (`seen_pages`); another cached page, a look
//! into the cache; any other, one read, or a part of one with its neighbours in the file. `quick_cache` chooses what is
//! evicted (S3-FIFO).
//!
//! Not here: where pages are and what they must be (`file`); which are read together (`fetch`).

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use smallvec::SmallVec;

use super::fetch::{Passed, Wanted};
use super::long_values::Passing;
use super::page_faults::{Missed, PageSet};
use super::page_key::PageKey;
use super::seen_pages::Seen;
use super::striped_counter::Striped;
use crate::error::Result;
use crate::page::PageRef;
use crate::run::Run;
use crate::run::file::RunFile;
use crate::run::filter::FilterRef;
use crate::run::format::{Pointer, ValueReference};
use crate::run::loaded::Loaded;
use crate::run::pinned_pages::Tier;
use crate::run::place::UnitPlace;

/// The key of the page at `offset` of an open file.
fn key_of(file: &RunFile, offset: u64) -> PageKey {
    PageKey::new(file.number(), offset)
}

/// The least bytes of a shard of the cache, and the most shards.
const SHARD_BYTES: u64 = 16 << 20;
const SHARDS_MAX: u64 = 64;
/// The smallest cache beside which roots and other pages stay with their files; with a smaller one, none do.
const KEEPS_BYTES: u64 = 8 << 20;
/// Bytes that a cached page takes in addition to its own.
const ENTRY_BYTES: u64 = 96;

#[derive(Clone)]
struct ByBytes;

impl Weighter<PageKey, Arc<Loaded>> for ByBytes {
    fn weight(&self, _: &PageKey, page: &Arc<Loaded>) -> u64 {
        held_bytes(page.bytes() as u64)
    }
}

/// What a page of `page_bytes` takes in the cache.
pub(crate) fn held_bytes(page_bytes: u64) -> u64 {
    page_bytes + ENTRY_BYTES
}

/// The capacity to ask of the library for at most `bytes`: it rounds up to a whole number for each shard.
fn capacity_within(bytes: u64) -> u64 {
    bytes.saturating_sub(SHARDS_MAX)
}

/// Pages, filters and values of all runs, up to a number of bytes. Resists scans (S3-FIFO, Yang et al., SOSP 2023, as
/// implemented by the library `quick_cache`).
pub(crate) struct PageCache {
    pages: Cache<PageKey, Arc<Loaded>, ByBytes, FixedState>,
    /// Bytes for `pages` and the pages that runs hold.
    bytes_max: AtomicU64,
    tier: Arc<Tier>,
    counts: Counts,
}

/// What readers report to the cache: when they end, and large readers meanwhile.
#[derive(Default)]
struct Counts {
    hits: Striped,
    misses: Striped,
    lent_bytes: AtomicU64,
}

/// The contents and the history of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Bytes in it now.
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// Those of them that runs hold as long as they live.
    pub(crate) pinned_bytes: u64,
    /// Bytes of pages that readers hold now, evicted or not, without less than [`PINNED_STEP_BYTES`] of each reader.
    pub(crate) lent_bytes: u64,
    /// Pages and values that readers found in it, and those that they read from a file.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// The step in which a reader reports the bytes that it holds: one that reads a few pages never does.
const PINNED_STEP_BYTES: u64 = 256 << 10;

impl PageCache {
    /// A cache of at most `cache_bytes`.
    pub(crate) fn new(cache_bytes: u64) -> PageCache {
        // The default settings except for the number of shards: each must have room for the largest pages, those of
        // flat indexes.
        let options = OptionsBuilder::new()
            .shards((cache_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity((cache_bytes / 8192).max(16) as usize)
            .weight_capacity(capacity_within(cache_bytes))
            .build()
            .expect("all that has no default is given");
        PageCache {
            pages: Cache::with_options(options, ByBytes, FixedState::default(), DefaultLifecycle::default()),
            bytes_max: AtomicU64::new(cache_bytes),
            tier: Arc::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Whether roots stay with their files, outside the cache, and inner pages and filters as far as there is room.
    fn keeps(&self) -> bool {
        self.bytes_max() >= KEEPS_BYTES
    }

    /// Changes its size. Pages that stay with their files do so until these are replaced.
    pub(crate) fn resize(&self, cache_bytes: u64) {
        self.bytes_max.store(cache_bytes, Ordering::Relaxed);
        self.fit();
    }

    /// The bytes that runs hold of it.
    pub(crate) fn tier(&self) -> &Arc<Tier> {
        &self.tier
    }

    /// Gives other pages the room that the tier leaves.
    pub(crate) fn fit(&self) {
        let rest = self.bytes_max().saturating_sub(self.tier.bytes());
        let capacity = self.pages.capacity();
        if capacity > rest || rest - capacity > 2 * SHARDS_MAX {
            self.pages.set_capacity(capacity_within(rest));
        }
    }

    /// Keeps `page` with its file; returns it if there is no room.
    fn keep(&self, file: &RunFile, key: PageKey, page: Loaded) -> Option<Loaded> {
        if !self.keeps() {
            return Some(page);
        }
        let rest = file.keep(key.offset, page, &self.tier, self.bytes_max());
        if rest.is_none() {
            self.fit();
        }
        rest
    }

    /// Removes a page.
    pub(crate) fn forget(&self, file: &RunFile, offset: u64) {
        self.pages.remove(&key_of(file, offset));
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            bytes: self.pages.weight() + self.tier.bytes(),
            bytes_max: self.bytes_max(),
            pinned_bytes: self.tier.bytes(),
            lent_bytes: self.counts.lent_bytes.load(Ordering::Relaxed),
            hits: self.counts.hits.sum(),
            misses: self.counts.misses.sum(),
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

/// Pages that a reader has read from files, with their keys.
pub(super) type PagesRead = Vec<(PageKey, Arc<Loaded>)>;

/// The pages one reader has seen.
pub(crate) struct ReadPages<'c> {
    cache: &'c PageCache,
    seen: Seen,
    passing: Passing,
    missing: RefCell<Vec<Missed>>,
    cost: Cell<ReadCost>,
    /// Bytes of the pages seen, and those of them reported to the cache.
    bytes: Cell<u64>,
    lent_bytes: Cell<u64>,
    /// Whether another reader goes on with what this one has noted: then values that it passes are held like pages.
    is_continued: bool,
    /// The sets of pages that were lent to it.
    lent_sets: RefCell<SmallVec<[Arc<PageSet>; 4]>>,
    /// What it has read from files, if that is collected.
    read: Option<RefCell<PagesRead>>,
}

/// The cost of a reader's answers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCost {
    /// Distinct pages, filters and values used, without those that files keep.
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
            lent_bytes: Cell::default(),
            is_continued: false,
            lent_sets: RefCell::default(),
            read: None,
        }
    }

    /// A reader that collects what it reads from files.
    pub(crate) fn collecting(cache: &'c PageCache) -> ReadPages<'c> {
        let mut pages = ReadPages::new(cache);
        pages.read = Some(RefCell::default());
        pages
    }

    /// A reader that never loads: what it notes is loaded by [`PageFaults`](super::PageFaults), and another reader goes
    /// on with it.
    pub(crate) fn without_waiting(cache: &'c PageCache) -> ReadPages<'c> {
        let mut pages = ReadPages::new(cache);
        pages.is_continued = true;
        pages
    }

    /// Whether another reader goes on with what this one has noted.
    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// The page at `place` of `run`.
    #[inline]
    pub(crate) fn page<'p>(&'p self, run: &'p Run, place: &UnitPlace) -> Result<&'p Loaded, Missing> {
        let missing = || {
            let file = run.file(place);
            self.miss(key_of(file, place.pointer.offset), file, Wanted::Page(*place))
        };
        self.page_if_here(run, place).ok_or_else(missing)
    }

    /// Like [`ReadPages::page`], but optional: a page that is not in memory is not noted as missing.
    #[inline]
    pub(crate) fn page_if_here<'p>(&'p self, run: &'p Run, place: &UnitPlace) -> Option<&'p Loaded> {
        run.kept(place).or_else(|| {
            let file = run.file(place);
            self.seen_or_cached(file, key_of(file, place.pointer.offset))
        })
    }

    /// The filter that `pointer` leads to.
    pub(crate) fn filter<'p>(&'p self, file: &'p Arc<RunFile>, pointer: &Pointer) -> Result<FilterRef<'p>, Missing> {
        let missing = || self.miss(key_of(file, pointer.offset), file, Wanted::Filter(*pointer));
        self.filter_if_here(file, pointer).ok_or_else(missing)
    }

    /// Like [`ReadPages::filter`], but optional.
    pub(crate) fn filter_if_here<'p>(&'p self, file: &'p RunFile, pointer: &Pointer) -> Option<FilterRef<'p>> {
        let kept = file.kept().get(pointer.offset);
        let loaded = kept.or_else(|| self.seen_or_cached(file, key_of(file, pointer.offset)))?;
        Some(FilterRef::unchecked(loaded.as_slice()))
    }

    /// The value out of line that `reference` leads to.
    pub(crate) fn value(&self, file: &Arc<RunFile>, reference: &ValueReference) -> Result<&[u8], Missing> {
        let key = key_of(file, reference.offset);
        let loaded = self.seen_or_cached(file, key).ok_or_else(|| self.miss(key, file, Wanted::Value(*reference)))?;
        Ok(loaded.as_slice())
    }

    /// Like [`ReadPages::value`], for a reader that passes the value once: it neither asks the cache nor fills it.
    pub(crate) fn value_in_passing(&self, file: &Arc<RunFile>, reference: &ValueReference) -> Result<&[u8], Missing> {
        let key = key_of(file, reference.offset);
        let loaded = self.seen.get(&key).ok_or_else(|| self.miss(key, file, Wanted::PassingValue(*reference)))?;
        Ok(loaded.as_slice())
    }

    /// The value that `reference` in the leaf at `leaf` leads to, if it was read with others of that leaf and is sound.
    /// If it is not, [`ReadPages::value`] gives the error.
    #[inline]
    pub(crate) fn passed_value(&self, file: &RunFile, leaf: u64, reference: &ValueReference) -> Option<&[u8]> {
        let leaf = key_of(file, leaf);
        let stored = self.passing.get(&leaf, &(reference.offset..reference.end()?))?;
        file.check_value(reference, stored).ok()?;
        stored.get(..reference.length as usize)
    }

    /// Whether the bytes at `extent` were requested with other values of the leaf at `leaf`.
    pub(crate) fn passes(&self, file: &RunFile, leaf: u64, extent: &Range<u64>) -> bool {
        self.passing.has(&key_of(file, leaf), extent)
    }

    /// Requests values of a leaf in one piece, for a reader that passes them once.
    pub(crate) fn pass(&self, file: &Arc<RunFile>, values: Passed) -> Missing {
        self.miss(key_of(file, values.offset), file, Wanted::Passed(values))
    }

    /// The leaf at `offset`, if it is in memory; otherwise it is not noted as missing.
    #[inline]
    pub(crate) fn leaf_if_here<'p>(&'p self, file: &RunFile, offset: u64) -> Option<PageRef<'p>> {
        Some(self.seen_or_cached(file, key_of(file, offset))?.leaf())
    }

    fn seen_or_cached(&self, file: &RunFile, key: PageKey) -> Option<&Loaded> {
        self.seen.get(&key).or_else(|| {
            let page = file.pinned().get(key.offset).or_else(|| self.cache.pages.get(&key))?;
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
        let untold = bytes - self.lent_bytes.get();
        if untold >= PINNED_STEP_BYTES {
            self.cache.counts.lent_bytes.fetch_add(untold, Ordering::Relaxed);
            self.lent_bytes.set(bytes);
        }
    }

    fn miss(&self, key: PageKey, file: &Arc<RunFile>, wanted: Wanted) -> Missing {
        self.note((key, Arc::clone(file), wanted));
        Missing
    }

    /// Notes that a page is missing.
    pub(crate) fn note(&self, missed: Missed) {
        self.missing.borrow_mut().push(missed);
    }

    /// Whether a page was missing that was neither loaded nor taken.
    #[inline]
    pub(crate) fn is_missing_any(&self) -> bool {
        !self.missing.borrow().is_empty()
    }

    /// What was missing, each page once. It is not missing any more.
    pub(super) fn take_missing(&self) -> Vec<Missed> {
        let mut missing = std::mem::take(&mut *self.missing.borrow_mut());
        missing.sort_unstable_by_key(|(key, ..)| *key);
        missing.dedup_by_key(|(key, ..)| *key);
        missing
    }

    /// Notes that a set of pages is lent. Whether it is the first time.
    pub(super) fn is_lent_first(&self, set: &Arc<PageSet>) -> bool {
        let mut sets = self.lent_sets.borrow_mut();
        let is_first = !sets.iter().any(|other| Arc::ptr_eq(other, set));
        if is_first {
            sets.push(set.clone());
        }
        is_first
    }

    /// Takes a page that another reader holds among those seen.
    pub(crate) fn lend(&self, key: PageKey, page: &Arc<Loaded>) {
        if self.seen.get(&key).is_none() {
            self.pin(page);
            self.seen.insert(key, page.clone());
        }
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
    /// Those of reading a page of a run.
    pub(crate) fn load(&self) -> Result<()> {
        let missing = self.take_missing();
        self.count(|cost| cost.rounds += 1);
        // Two versions of a table may have the same file at different places of their runs: each page is checked for
        // the place where it was requested.
        for of_run in missing.chunk_by(|(a, file, _), (b, other, _)| a.run == b.run && Arc::ptr_eq(file, other)) {
            let wanted: Vec<Wanted> = of_run.iter().map(|(.., wanted)| *wanted).collect();
            of_run[0].1.fetch(&wanted, |number, loaded| {
                let (key, file, wanted) = &of_run[number];
                self.keep(*key, file, wanted, loaded);
            })?;
        }
        Ok(())
    }

    /// Does [`ReadPages::load`] if anything was missing.
    ///
    /// # Errors
    /// Those of [`ReadPages::load`].
    pub(crate) fn load_rest(&self) -> Result<()> {
        if self.is_missing_any() { self.load() } else { Ok(()) }
    }

    fn keep(&self, key: PageKey, file: &RunFile, wanted: &Wanted, loaded: Loaded) {
        if let Wanted::Passed(values) = wanted {
            self.count_read(values.count);
            self.pin(&loaded);
            self.passing.insert(key_of(file, values.leaf), values.extent(), loaded.into_bytes());
            return;
        }
        self.count_read(1);
        let loaded = match wanted {
            Wanted::Page(place) if self.cache.keeps() && file.is_root(place) => file.keep_root(loaded),
            Wanted::Page(place) if place.level > 0 => self.cache.keep(file, key, loaded),
            Wanted::Filter(_) => self.cache.keep(file, key, loaded),
            _ => Some(loaded),
        };
        let Some(loaded) = loaded.map(Arc::new) else { return };
        self.pin(&loaded);
        if !matches!(wanted, Wanted::PassingValue(_)) {
            self.cache.pages.insert(key, loaded.clone());
        }
        if let Some(read) = &self.read {
            read.borrow_mut().push((key, loaded.clone()));
        }
        self.seen.insert(key, loaded);
    }

    /// Asks until all pages for the answer are there. `ask` starts anew each time, or goes on where it was.
    ///
    /// # Errors
    /// Those of [`ReadPages::load`].
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
    pub(crate) fn has_seen(&self, file: &RunFile, offset: u64) -> bool {
        self.seen.get(&key_of(file, offset)).is_some()
    }

    /// All pages seen.
    pub(super) fn into_pages(mut self) -> impl Iterator<Item = (PageKey, Arc<Loaded>)> {
        std::mem::replace(&mut self.seen, Seen::new()).into_pages()
    }

    /// What it has read from files, if it collects that.
    pub(super) fn into_read_pages(mut self) -> PagesRead {
        self.read.take().map(RefCell::into_inner).unwrap_or_default()
    }

    /// Bytes of all pages seen, which this reader holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The cost so far.
    pub(crate) fn cost(&self) -> ReadCost {
        self.cost.get()
    }
}

impl Drop for ReadPages<'_> {
    #[inline]
    fn drop(&mut self) {
        let (cost, counts) = (self.cost.get(), &self.cache.counts);
        counts.hits.add(cost.pages - cost.pages_read);
        counts.misses.add(cost.pages_read);
        if self.lent_bytes.get() > 0 {
            counts.lent_bytes.fetch_sub(self.lent_bytes.get(), Ordering::Relaxed);
        }
    }
}
