//! Pages that a reader lacked, on their way into memory: noted by one reader, loaded by any thread, lent to the next.
//!
//! A reader that may not wait notes what it lacks and gives up. What it noted is loaded elsewhere and lent to the
//! reader of the next attempt, together with what earlier attempts lacked: so each attempt gets further, whatever the
//! cache evicts meanwhile.
//!
//! Not here: which reads may not wait (`table_stack`), how pages are read (`page_cache`).

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::fetch::Wanted;
use super::file::RunFile;
use super::loaded::Loaded;
use super::page_cache::{PageCache, ReadPages};
use super::page_key::PageKey;
use crate::error::Result;

/// A page that was missing: which, in which file, and what it must be.
pub(super) type Missed = (PageKey, Arc<RunFile>, Wanted);

/// Pages of runs that reads and writes under the latch lacked: see [`ErrorKind::PageFault`](crate::ErrorKind).
///
/// [`LatchedRead::take_faults`](crate::LatchedRead::take_faults) and
/// [`LatchedWrite::take_faults`](crate::LatchedWrite::take_faults) fill it, [`Db::load`](crate::Db::load) reads the
/// pages, and `lend` gives them to the next latched read or write. It holds what was loaded until it is dropped. Keep
/// it for one request, over all attempts.
#[derive(Default)]
pub struct PageFaults {
    missing: Vec<Missed>,
    loaded: HashMap<PageKey, Arc<Loaded>, FixedState>,
    bytes: u64,
}

impl PageFaults {
    /// Whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    /// The number of pages to load.
    pub fn len(&self) -> usize {
        self.missing.len()
    }

    /// Bytes of the pages loaded so far, which it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds what a reader lacks.
    pub(crate) fn take_from(&mut self, pages: &ReadPages<'_>) {
        self.missing.append(&mut pages.take_missing());
    }

    /// Lends what was loaded to a reader.
    pub(crate) fn lend_to(&self, pages: &ReadPages<'_>) {
        self.loaded.iter().for_each(|(key, page)| pages.lend(*key, page));
    }

    /// Loads what is missing.
    ///
    /// # Errors
    /// Those of reading a page of a run. Then nothing is left to load.
    pub(crate) fn load(&mut self, cache: &PageCache) -> Result<()> {
        let pages = ReadPages::new(cache);
        self.missing.drain(..).for_each(|missed| pages.note(missed));
        pages.load_rest()?;
        self.keep(&pages.into_pages().collect::<Vec<_>>());
        Ok(())
    }

    /// Loads what is missing in any of them, all in the order of the files.
    ///
    /// # Errors
    /// Those of reading a page of a run. Then all is left as it was.
    pub(crate) fn load_together(faults: &mut [&mut PageFaults], cache: &PageCache) -> Result<()> {
        let pages = ReadPages::new(cache);
        faults.iter().flat_map(|faults| &faults.missing).for_each(|missed| pages.note(missed.clone()));
        pages.load_rest()?;
        let loaded: HashMap<PageKey, Arc<Loaded>, FixedState> = pages.into_pages().collect();
        for faults in faults {
            let own: Vec<_> = faults
                .missing
                .drain(..)
                .filter_map(|(key, ..)| loaded.get(&key).map(|page| (key, page.clone())))
                .collect();
            faults.keep(&own);
        }
        Ok(())
    }

    fn keep(&mut self, pages: &[(PageKey, Arc<Loaded>)]) {
        for (key, page) in pages {
            if self.loaded.insert(*key, page.clone()).is_none() {
                self.bytes += page.bytes() as u64;
            }
        }
    }
}

impl std::fmt::Debug for PageFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageFaults")
            .field("missing", &self.missing.len())
            .field("loaded", &self.loaded.len())
            .field("bytes", &self.bytes)
            .finish()
    }
}
