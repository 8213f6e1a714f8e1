//! Index pages of runs brought into memory before they are asked for, and those of them that stay: the nodes and the filters, level by level from the root, as far as there is room.
//!
//! Pages that stay are held by the run itself, in what is called the resident tier of the cache: all of them together, with those that files keep of what was read (`kept`), take at most half of
//! its bytes, which the other pages then have less. So nothing has to be told apart when pages are evicted, and they go with the run.
//!
//! Invariants:
//! 1. What the tier has and what the cache has are no more than the cache was given, but for the moment in which pages pass from one to the other.
//! 2. A page stands in one of the two, and in the tier once: one that its file keeps already is left there.
//!
//! Costs: one round of reads a level, and one for the filters; a look-up of a page of a run with such pages takes one more look into a hash map.
//! Not here: which runs, and when (`preload`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::FixedState;

use super::file::{Loaded, Place, RunFile};
use super::pages::{PageCache, ReadPages, held_bytes};
use super::parts::{Part, Run};
use crate::error::Result;
use crate::stack::ask_all;

/// What was brought into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preloaded {
    /// Inner pages and filters.
    pub pages: u64,
    /// The bytes that they take.
    pub bytes: u64,
    /// Whether there was no room for others.
    pub is_cut: bool,
}

/// Bytes of pages that runs hold.
#[derive(Default)]
pub(super) struct Tier {
    bytes: AtomicU64,
}

impl Tier {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes so many bytes more if the tier then has no more than `most`.
    pub(super) fn take(&self, bytes: u64, most: u64) -> bool {
        let taken = |now: u64| now.checked_add(bytes).filter(|&then| then <= most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Gives back so many of the bytes that were taken.
    pub(super) fn give(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Pages of one file by their offsets.
struct Held {
    pages: HashMap<u64, Arc<Loaded>, FixedState>,
    bytes: u64,
    tier: Arc<Tier>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tier.give(self.bytes);
    }
}

/// The pages that a file of a run holds.
#[derive(Default)]
pub(super) struct ResidentPages {
    /// So that most runs, which hold none, are not locked.
    has_any: AtomicBool,
    held: RwLock<Option<Held>>,
}

impl ResidentPages {
    #[inline]
    pub(super) fn get(&self, offset: u64) -> Option<Arc<Loaded>> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref()?.pages.get(&offset).cloned()
    }

    fn bytes(&self) -> u64 {
        self.held.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |held| held.bytes)
    }

    fn set(&self, held: Option<Held>) {
        self.has_any.store(held.is_some(), Ordering::Relaxed);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
    }
}

impl RunFile {
    /// Lets go of the pages that it holds: it has been replaced, and who still reads it does so like any other.
    pub(crate) fn release(&self) {
        self.resident().set(None);
    }
}

impl PageCache {
    /// Reads nodes and filters of a run, as many as half of the cache has room for; if so asked they stay as long as the run does, beside those of other runs.
    ///
    /// # Errors
    /// As reading a page.
    pub(crate) fn preload(&self, run: &Run, is_to_stay: bool) -> Result<Preloaded> {
        let mut sum = Preloaded::default();
        for file in run.files() {
            let Preloaded { pages, bytes, is_cut } = self.preload_file(file, is_to_stay)?;
            sum = Preloaded { pages: sum.pages + pages, bytes: sum.bytes + bytes, is_cut: sum.is_cut | is_cut };
        }
        Ok(sum)
    }

    fn preload_file(&self, file: &RunFile, is_to_stay: bool) -> Result<Preloaded> {
        let run = &Run::of_parts(&[Part::first(file)], file.info().is_bottom);
        let most = self.bytes_max() / 2;
        let of_others = self.tier().bytes().saturating_sub(file.resident().bytes());
        let room = if is_to_stay { most.saturating_sub(of_others) } else { most };
        let pages = ReadPages::new(self);
        let loaded = read_index(run, &pages, room)?;
        if is_to_stay {
            // What it has held so far is among what was seen; what it keeps anyway is not.
            file.release();
            let pages: HashMap<_, _, _> = pages.into_pages().collect();
            let bytes = pages.values().map(|page: &Arc<Loaded>| held_bytes(page.bytes() as u64)).sum();
            if !pages.is_empty() && self.tier().take(bytes, most) {
                let offsets: Vec<u64> = pages.keys().copied().collect();
                file.resident().set(Some(Held { pages, bytes, tier: self.tier().clone() }));
                offsets.into_iter().for_each(|offset| self.forget(file, offset));
            }
        }
        self.fit();
        Ok(loaded)
    }
}

/// Reads the index of a run as far as there is `room`.
fn read_index(run: &Run, pages: &ReadPages<'_>, room: u64) -> Result<Preloaded> {
    let mut loaded = Preloaded::default();
    let mut level: Vec<Place> = run.root().into_iter().filter(|root| root.level > 0).collect();
    while !level.is_empty() {
        let lengths = level.iter().map(|place| place.pointer.length);
        level.truncate(loaded.add(lengths, room));
        pages.answer(|| ask_all(level.iter().map(|place| pages.page(run, place)), |_| ()))?;
        let (mut below, mut filters) = (Vec::new(), Vec::new());
        for place in &level {
            let Ok(page) = pages.page(run, place) else { continue };
            let inner = run.inner(place, page);
            if place.level > 1 {
                below.extend((0..inner.count()).map(|position| run.child(place, &inner, position)));
            } else {
                let parts = inner.filters().filter(|part| !part.bytes.is_empty());
                filters.extend(parts.map(|part| run.file(place).filter_at(place, &inner, &part)));
            }
        }
        filters.truncate(loaded.add(filters.iter().map(|filter| filter.length), room));
        pages.answer(|| ask_all(filters.iter().map(|filter| pages.filter(&run.files()[0], filter)), |_| ()))?;
        level = below;
    }
    Ok(loaded)
}

impl Preloaded {
    /// Adds pages of these lengths until there is no more room, and says how many.
    fn add(&mut self, lengths: impl Iterator<Item = u32>, room: u64) -> usize {
        let mut count = 0;
        for length in lengths {
            let bytes = self.bytes + held_bytes(u64::from(length));
            self.is_cut |= bytes > room;
            if self.is_cut {
                break;
            }
            (self.bytes, count) = (bytes, count + 1);
        }
        self.pages += count as u64;
        count
    }
}
