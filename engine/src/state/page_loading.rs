//! Loads what latched reads and writes lacked: pages, and the ways to keys.
//!
//! Keys are looked up in the runs of the current version, without a snapshot, which would have writers copy the pages
//! that they change: a run does not change while a reader has it. Keys that have an entry in memory are left out. If
//! the runs are replaced before the next attempt, it lacks pages again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cache::{PageFaults, PageSet, ReadPages};
use crate::catalog::declaration::TableId;
use crate::error::Result;
use crate::read::many_keys::ManyKeys;
use crate::read::table_stack::stack_over;
use crate::state::shared::Shared;
use crate::state::versions::Runs;
use crate::tally::Measures;
use crate::tree;

/// Keys that are looked up in memory while the latch is held once: some microseconds.
const LATCHED_KEYS: usize = 64;

impl Shared {
    /// Loads what the requests lack, all in the order of the files. Returns how many pages were read from files.
    ///
    /// # Errors
    /// Those of reading a page of a run. Then nothing is loaded, and all is left as it was.
    pub(crate) fn load_faults(&self, faults: &mut [&mut PageFaults]) -> Result<u64> {
        let pages = ReadPages::collecting(&self.cache);
        PageFaults::load_missing(faults.iter().map(|faults| &**faults), &pages)?;
        let mut by_table: BTreeMap<TableId, Vec<&[u8]>> = BTreeMap::new();
        for (table, key) in faults.iter().flat_map(|faults| faults.keys()) {
            by_table.entry(table).or_default().push(key);
        }
        for (table, keys) in by_table {
            let (left, runs) = self.not_in_memory(table, keys);
            // Only the ways count, and whether a key is there: not what it weighs.
            let stack = stack_over([], &runs, &pages, Measures::ROWS);
            let mut ways = ManyKeys::ways(&left);
            pages.answer(|| ways.ask(&stack))?;
        }
        let read = pages.cost().pages_read;
        let set = Arc::new(PageSet::read_by(pages));
        faults.iter_mut().for_each(|faults| faults.hold(&set));
        Ok(read)
    }

    /// The keys that have no entry in the trees of a table, and the runs below these.
    fn not_in_memory<'k>(&self, table: TableId, keys: Vec<&'k [u8]>) -> (Vec<&'k [u8]>, Runs) {
        let (mut left, mut runs) = (Vec::with_capacity(keys.len()), Runs::default());
        for keys in keys.chunks(LATCHED_KEYS) {
            let versions = self.versions.read();
            let Ok(version) = versions.table(table) else { return (Vec::new(), runs) };
            let mut is_there = [false; LATCHED_KEYS];
            for view in version.views_to_read(&self.arena) {
                tree::get_many(&view, keys, |number, found| is_there[number] |= found.is_some());
            }
            left.extend(keys.iter().zip(is_there).filter(|(_, is_there)| !is_there).map(|(key, _)| *key));
            runs = version.runs.clone();
        }
        (left, runs)
    }
}
