//! Checks the filters of many runs together for one key: "surely absent" for most runs that lack it.
//!
//! It never says so for a run that has the key. A table that is being written has a dozen runs. One after the other,
//! their filters take more than a hundred waits for memory; together they take about a dozen.
//!
//! Invariants:
//! 1. A run that is said to lack a key has no entry of it. Nothing is said about the others.
//! 2. As in `descent`: a run that would need a page that its file does not keep is left to its reader.
//!
//! Cost: some 100 ns for each run if all is in the processor's cache.
//! Not here: when it pays (`table_layer`).

use smallvec::SmallVec;

use super::layer::RunLayer;
use crate::page::PageRef;
use crate::run::descent::{GROUP, descend};
use crate::run::filter::{FilterRef, hash_of, may_have_each};
use crate::run::loaded::Loaded;

/// The indexes of runs that surely lack a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacking(u64);

impl Lacking {
    /// Whether run `number` surely lacks it. Nothing is known of runs after the first 64.
    #[inline]
    pub(crate) fn has(self, number: usize) -> bool {
        number < u64::BITS as usize && self.0 >> number & 1 == 1
    }

    fn add(&mut self, number: usize) {
        self.0 |= 1 << number;
    }
}

/// The `runs`, numbered in their order, that surely lack `key`.
pub(crate) fn lacking<'a>(runs: impl Iterator<Item = RunLayer<'a>>, key: &[u8]) -> Lacking {
    let mut lacking = Lacking::default();
    let runs = runs.take(u64::BITS as usize).enumerate();
    let landed = descend(runs.filter_map(|(number, layer)| {
        let file = layer.run().file_of(key);
        if file.is_excised(key) {
            lacking.add(number);
            return None;
        }
        Some((number, key, file))
    }));
    let mut filters: SmallVec<[_; GROUP]> = SmallVec::new();
    for descent in &landed {
        if let Some(offset) = descent.filter_offset() {
            descent.file.kept().prefetch(offset);
            filters.push((descent, offset));
        }
    }
    let mut numbers: SmallVec<[usize; GROUP]> = SmallVec::new();
    let mut asked: SmallVec<[(FilterRef<'a>, u64); GROUP]> = SmallVec::new();
    let hash = hash_of(key);
    for (descent, offset) in filters {
        if let Some(Loaded::Filter(filter)) = descent.file.kept().get(offset) {
            PageRef::prefetch_at(filter.as_slice().as_ptr(), 1);
            numbers.push(descent.number);
            asked.push((FilterRef::unchecked(filter.as_slice()), hash));
        }
    }
    for (number, may_have) in numbers.iter().zip(may_have_each(&asked)) {
        if !may_have {
            lacking.add(*number);
        }
    }
    lacking
}
