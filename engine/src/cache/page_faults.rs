//! Pages that a reader lacked, on their way into memory: noted by one reader, loaded by any thread, lent to the next.
//!
//! A reader that may not wait notes what it lacks and gives up. What it noted is loaded elsewhere and lent to the
//! reader of the next attempt, together with what earlier attempts lacked: so each attempt gets further, whatever the
//! cache evicts meanwhile. Keys can be noted too: then all pages on the ways to them are loaded, and the next attempt
//! is likely to be the last.
//!
//! Not here: which reads may not wait (`table_stack`), how pages are read (`page_cache`), where keys are looked up
//! (`state/page_loading`).

use std::ops::Range;
use std::sync::Arc;

use super::fetch::Wanted;
use super::page_cache::{PagesRead, ReadPages};
use super::page_key::PageKey;
use crate::error::Result;
use crate::run::file::RunFile;

/// A page that was missing: which, in which file, and what it must be.
pub(super) type Missed = (PageKey, Arc<RunFile>, Wanted);

/// Pages of runs that reads and writes under the latch lacked: see [`ErrorKind::PageFault`](crate::ErrorKind).
///
/// [`LatchedRead::take_faults`](crate::latched::LatchedRead::take_faults) and
/// [`LatchedWrite::take_faults`](crate::latched::LatchedWrite::take_faults) fill it,
/// [`Latched::load`](crate::latched::Latched::load) reads the pages, and `lend` gives them to the next latched read or
/// write. It holds what was loaded until it is dropped. Keep it for one request, over all attempts.
#[derive(Default)]
pub struct PageFaults {
    missing: Vec<Missed>,
    /// Keys that will be looked up, by table: where they lie in `bytes`.
    keys: Vec<(u32, Range<usize>)>,
    bytes: Vec<u8>,
    loaded: Vec<Arc<PageSet>>,
}

/// Pages that were loaded together, for one request or several.
pub(crate) struct PageSet {
    pages: PagesRead,
    bytes: u64,
}

impl PageSet {
    /// What a reader has read from files.
    pub(crate) fn read_by(pages: ReadPages<'_>) -> PageSet {
        let pages = pages.into_read_pages();
        let bytes = pages.iter().map(|(_, page)| page.bytes() as u64).sum();
        PageSet { pages, bytes }
    }
}

impl PageFaults {
    /// Whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.keys.is_empty()
    }

    /// The number of pages to load, and of keys that will be looked up.
    pub fn len(&self) -> usize {
        self.missing.len() + self.keys.len()
    }

    /// Bytes of the pages loaded so far, which it holds; alone, or with others that were loaded together with it.
    pub fn bytes(&self) -> u64 {
        self.loaded.iter().map(|set| set.bytes / Arc::strong_count(set).max(1) as u64).sum()
    }

    /// Adds a key that the next attempt will look up in a table, whether pages on the way to it are missing or not.
    pub(crate) fn add_key(&mut self, table: u32, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push((table, start..self.bytes.len()));
    }

    /// The keys that will be looked up, with their tables.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.iter().map(|(table, place)| (*table, &self.bytes[place.clone()]))
    }

    /// Adds what a reader lacks.
    pub(crate) fn take_from(&mut self, pages: &ReadPages<'_>) {
        self.missing.append(&mut pages.take_missing());
    }

    /// Lends what was loaded to a reader.
    pub(crate) fn lend_to(&self, pages: &ReadPages<'_>) {
        for set in &self.loaded {
            if pages.is_lent_first(set) {
                set.pages.iter().for_each(|(key, page)| pages.lend(*key, page));
            }
        }
    }

    /// Has a reader load the pages that are missing.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub(crate) fn load_missing<'f>(faults: impl Iterator<Item = &'f PageFaults>, pages: &ReadPages<'_>) -> Result<()> {
        faults.flat_map(|faults| &faults.missing).for_each(|missed| pages.note(missed.clone()));
        pages.load_rest()
    }

    /// Takes what was loaded. Nothing is left to load.
    pub(crate) fn hold(&mut self, set: &Arc<PageSet>) {
        self.clear();
        self.loaded.push(set.clone());
    }

    /// Forgets what was to be loaded.
    pub(crate) fn clear(&mut self) {
        self.missing.clear();
        self.keys.clear();
        self.bytes.clear();
    }
}

impl std::fmt::Debug for PageFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageFaults")
            .field("missing", &self.missing.len())
            .field("keys", &self.keys.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
