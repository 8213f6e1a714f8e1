//! Preloads inner pages of runs, and pins them: nodes and filters, from the root down, as room allows.
//!
//! The run itself holds pinned pages, in the pinned tier of the cache: all of them, with the pages that files keep
//! after reading (`kept_pages`), take at most half of its bytes, which leaves less for the other pages. So eviction
//! need not tell pages apart, and pinned pages go with the run.
//!
//! Invariants:
//! 1. The tier and the cache together have no more bytes than the cache was given, except while pages pass from one to
//!    the other.
//! 2. A page is in one of the two, and in the tier once: a page that its file already keeps is left there.
//!
//! Cost: one round of reads for each level, and one for the filters; a look-up of a page of a run with such pages takes
//! one more look into a hash map. Not here: which runs, and when (`preload_tables`).

use std::collections::HashMap;
use std::sync::Arc;

use super::page_cache::{PageCache, ReadPages, held_bytes};
use crate::error::Result;
use crate::run::file::RunFile;
use crate::run::loaded::Loaded;
use crate::run::parts::{Part, Run};
use crate::run::pinned_pages::Held;
use crate::run::place::UnitPlace;
use crate::stack::ask_all;

/// The result of preloading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preloaded {
    /// Number of inner pages and filters loaded.
    pub pages: u64,
    /// The bytes that they take.
    pub bytes: u64,
    /// Whether there was no room for more.
    pub is_cut: bool,
}

impl PageCache {
    /// Reads nodes and filters of a run, as many as half of the cache has room for. With `is_to_stay` they stay as long
    /// as the run does, beside those of other runs.
    ///
    /// # Errors
    /// Those of reading a page.
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
        let of_others = self.tier().bytes().saturating_sub(file.pinned().bytes());
        let room = if is_to_stay { most.saturating_sub(of_others) } else { most };
        let pages = ReadPages::new(self);
        let loaded = read_index(run, &pages, room)?;
        if is_to_stay {
            // The pages it has held so far are among those seen; those it keeps anyway are not.
            file.release();
            let pages: HashMap<_, _, _> = pages.into_pages().map(|(key, page)| (key.offset, page)).collect();
            let bytes = pages.values().map(|page: &Arc<Loaded>| held_bytes(page.bytes() as u64)).sum();
            if !pages.is_empty() && self.tier().take(bytes, most) {
                let offsets: Vec<u64> = pages.keys().copied().collect();
                file.pinned().set(Some(Held { pages, bytes, tier: self.tier().clone() }));
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
    let mut level: Vec<UnitPlace> = run.root().into_iter().filter(|root| root.level > 0).collect();
    while !level.is_empty() {
        let lengths = level.iter().map(|place| place.pointer.length);
        level.truncate(loaded.add(lengths, room));
        pages.answer(|| ask_all(level.iter().map(|place| pages.page(run, place)), |_| ()))?;
        let (mut below, mut filters) = (Vec::new(), Vec::new());
        for place in &level {
            let Ok(page) = pages.page(run, place) else { continue };
            let inner = run.inner(place, page);
            if place.level > 1 {
                let children = (0..inner.count()).map(|position| run.child(place, &inner, position));
                // Nothing asks for what was excised.
                below.extend(children.filter(|child| run.extent(child).sums().entries > 0));
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
    /// Adds pages of these lengths until there is no more room. Returns how many.
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
