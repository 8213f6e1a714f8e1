//! Which runs of a stack surely lack a key, asked of all of them together.
//!
//! The way to a filter is a dozen reads of memory, each of which says where the next one is, and a table that is being written has a dozen runs: one run after the other, that is more than a
//! hundred waits. Here every run takes a step before any takes the next, and what the next steps read is on its way meanwhile, so that the runs wait together (as the interleaved
//! lookups of Kocberber et al., "Asynchronous Memory Access Chaining", VLDB 2015).
//!
//! Invariants:
//! 1. A run of which this says that it lacks a key has no entry of it. Of others it says nothing.
//! 2. Only what files keep is looked at: no page is noted as missing, and none is counted. A run that would need another one is left to whoever asks it.
//!
//! Costs: some 100 ns a run where all is in the processor's cache, and about a dozen waits for memory, however many runs there are, where nothing is.
//! Not here: when it pays to ask (`mixed`).

use smallvec::SmallVec;

use super::file::{Loaded, RunFile};
use super::filter::{FilterRef, Places, hash_of};
use super::layer::RunLayer;
use super::node::{NodeRef, Search};
use crate::page::{PageRef, UnitBuffer};

/// Runs, by their numbers, that surely lack a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacking(u64);

impl Lacking {
    /// Whether run `number` does. Of the runs behind the first 64, nothing is known.
    #[inline]
    pub(crate) fn has(self, number: usize) -> bool {
        number < u64::BITS as usize && self.0 >> number & 1 == 1
    }

    fn add(&mut self, number: usize) {
        self.0 |= 1 << number;
    }
}

/// Lines of the processor's cache at the start of a node, which say where in it everything is; a long prefix or very many filters may take more.
const HEAD_LINES: usize = 5;

/// A run on the way to the filter, at a node.
struct Arm<'a> {
    number: usize,
    file: &'a RunFile,
    /// Where in the file the node is.
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Arm<'a> {
    /// Comes to what is kept at its place, of which so many lines are looked at first.
    fn arrive(&mut self, kept: &'a UnitBuffer, lines: usize) {
        self.bytes = kept.as_slice();
        PageRef::prefetch_at(self.bytes.as_ptr(), lines);
    }
}

/// Those of `runs`, numbered as they come, that surely lack `key`.
pub(crate) fn lacking<'a>(runs: impl Iterator<Item = RunLayer<'a>>, key: &[u8]) -> Lacking {
    let mut arms: SmallVec<[Arm<'a>; 16]> = SmallVec::new();
    for (number, layer) in runs.take(u64::BITS as usize).enumerate() {
        let file = layer.run().file_of(key);
        if let Some(Loaded::Node(node)) = file.kept_root() {
            let mut arm = Arm { number, file, offset: file.root_offset(), bytes: &[] };
            arm.arrive(node, HEAD_LINES);
            arms.push(arm);
        }
    }
    let mut filters: SmallVec<[Arm<'a>; 16]> = SmallVec::new();
    while !arms.is_empty() {
        filters.extend(step_down(&mut arms, key));
    }
    let hash = hash_of(key);
    filters.retain_mut(|arm| match arm.file.kept().get(arm.offset) {
        Some(Loaded::Filter(filter)) => {
            arm.arrive(filter, 1);
            true
        }
        _ => false,
    });
    let asked: SmallVec<[(usize, FilterRef<'a>, Places); 16]> = filters
        .iter()
        .map(|arm| {
            let filter = FilterRef::unchecked(arm.bytes);
            let places = filter.places(hash);
            filter.prefetch(&places);
            (arm.number, filter, places)
        })
        .collect();
    let mut lacking = Lacking::default();
    for (number, filter, places) in asked {
        if !filter.has(&places) {
            lacking.add(number);
        }
    }
    lacking
}

/// Takes all arms to the child of their nodes that `key` belongs to. Gives those that came to a lowest node, with where the filter over the child is; what cannot be told of is left out.
fn step_down<'a>(arms: &mut SmallVec<[Arm<'a>; 16]>, key: &[u8]) -> SmallVec<[Arm<'a>; 16]> {
    let mut nodes: SmallVec<[(NodeRef<'a>, Search); 16]> = SmallVec::new();
    for arm in arms.iter() {
        let node = NodeRef::unchecked(arm.bytes);
        let search = node.search(key);
        node.prefetch(&search);
        nodes.push((node, search));
    }
    let mut is_open = true;
    while is_open {
        is_open = false;
        for (node, search) in &mut nodes {
            if node.narrow(search) {
                node.prefetch(search);
                is_open = true;
            }
        }
    }
    let mut filters: SmallVec<[Arm<'a>; 16]> = SmallVec::new();
    let mut parents: SmallVec<[(&Arm<'a>, NodeRef<'a>, usize); 16]> = SmallVec::new();
    for (arm, (node, search)) in arms.iter().zip(nodes) {
        let child = node.found(&search, key);
        if node.level() > 1 {
            arm.file.prefetch_child(&node, child);
            parents.push((arm, node, child));
        } else if let Some(part) = node.filter_of(child).filter(|part| !part.bytes.is_empty()) {
            let offset = RunFile::filter_offset(arm.offset, node.filter_bytes(), &part);
            arm.file.kept().prefetch(offset);
            filters.push(Arm { offset, ..*arm });
        }
    }
    let mut below: SmallVec<[Arm<'a>; 16]> = SmallVec::new();
    for (arm, node, child) in parents {
        let offset = arm.file.child_offset(&node, child);
        arm.file.kept().prefetch(offset);
        below.push(Arm { offset, ..*arm });
    }
    below.retain_mut(|arm| match arm.file.kept().get(arm.offset) {
        Some(Loaded::Node(node)) => {
            arm.arrive(node, HEAD_LINES);
            true
        }
        _ => false,
    });
    *arms = below;
    filters
}
