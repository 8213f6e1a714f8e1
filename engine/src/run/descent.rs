//! Interleaved descents to the lowest inner pages of runs: many keys in one run, or one key in many.
//!
//! The path to a leaf is a dozen reads of memory, each of which says where the next one is. Here every descent takes a
//! step before any takes the next, and the data of the next steps is fetched meanwhile, so that all wait together (like
//! the interleaved lookups of Kocberber et al., "Asynchronous Memory Access Chaining", VLDB 2015).
//!
//! Invariants:
//! 1. Only pages that files keep are read: no page is noted as missing, and none is counted. A descent that needs
//!    another page is dropped: its caller takes the long path.
//!
//! Not here: filters and leaves (`probe`).

use smallvec::SmallVec;

use super::file::RunFile;
use super::filter::FilterRef;
use super::loaded::Loaded;
use super::node::{NodeRef, Search};
use crate::page::{PageRef, UnitBuffer};
pub(crate) use crate::tree::GROUP;

/// Cache lines at the start of a node that locate everything in it; a long prefix or very many filters may take more.
const HEAD_LINES: usize = 5;

/// A descent in progress, at a node.
struct Arm<'a, 'k> {
    number: usize,
    key: &'k [u8],
    file: &'a RunFile,
    /// Where in the file the node is.
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Arm<'a, '_> {
    /// Moves to the page that is kept at its place.
    fn arrive(&mut self, kept: &'a UnitBuffer) {
        self.bytes = kept.as_slice();
        PageRef::prefetch_at(self.bytes.as_ptr(), HEAD_LINES);
    }
}

/// A descent that reached a lowest inner page, and the child there that its key belongs to.
pub(crate) struct Landed<'a, 'k> {
    pub(crate) number: usize,
    pub(crate) key: &'k [u8],
    pub(crate) file: &'a RunFile,
    pub(crate) node: NodeRef<'a>,
    node_offset: u64,
    pub(crate) child: usize,
}

impl<'a, 'k> Landed<'a, 'k> {
    /// The descent of one key, which belongs to `child` of the lowest inner page `node` at `node_offset`.
    #[inline]
    pub(crate) fn new(key: &'k [u8], file: &'a RunFile, node: NodeRef<'a>, node_offset: u64, child: usize) -> Self {
        Landed { number: 0, key, file, node, node_offset, child }
    }

    /// The filter over the leaf, if it is kept.
    #[inline]
    pub(crate) fn filter(&self) -> Option<FilterRef<'a>> {
        match self.file.kept().get(self.filter_offset()?)? {
            Loaded::Filter(filter) => Some(FilterRef::unchecked(filter.as_slice())),
            _ => None,
        }
    }

    /// Rows of all entries of the run before the leaf.
    #[inline]
    pub(crate) fn rows_before(&self) -> i64 {
        self.file.base().tally.rows + self.file.rows_before_child(&self.node, self.child)
    }

    /// Entries of the run before the leaf, erased ones too.
    #[inline]
    pub(crate) fn entries_before(&self) -> i64 {
        self.file.base().entries + self.file.entries_before_child(&self.node, self.child)
    }

    /// Where the leaf is.
    #[inline]
    pub(crate) fn leaf_offset(&self) -> u64 {
        self.file.child_offset(&self.node, self.child)
    }

    /// Where the filter over the leaf is; `None` if there is none, or it is empty.
    #[inline]
    pub(crate) fn filter_offset(&self) -> Option<u64> {
        let part = self.node.filter_of(self.child).filter(|part| !part.bytes.is_empty())?;
        Some(RunFile::filter_offset(self.node_offset, self.node.filter_bytes(), &part))
    }
}

/// Takes keys, with their indexes, down their files. Returns those that reached a lowest inner page, in no order.
pub(crate) fn descend<'a, 'k>(
    keys: impl Iterator<Item = (usize, &'k [u8], &'a RunFile)>,
) -> SmallVec<[Landed<'a, 'k>; GROUP]> {
    let mut arms: SmallVec<[Arm<'a, 'k>; GROUP]> = SmallVec::new();
    for (number, key, file) in keys {
        if let Some(Loaded::Node(node)) = file.kept_root() {
            let mut arm = Arm { number, key, file, offset: file.root_offset(), bytes: &[] };
            arm.arrive(node);
            arms.push(arm);
        }
    }
    let mut landed = SmallVec::new();
    while !arms.is_empty() {
        step_down(&mut arms, &mut landed);
    }
    landed
}

/// Moves every arm to the child that its key belongs to, or to `landed` if that is a leaf. Drops those whose child is
/// not kept.
fn step_down<'a, 'k>(arms: &mut SmallVec<[Arm<'a, 'k>; GROUP]>, landed: &mut SmallVec<[Landed<'a, 'k>; GROUP]>) {
    let mut nodes: SmallVec<[(NodeRef<'a>, Search); GROUP]> = SmallVec::new();
    for arm in arms.iter() {
        let node = NodeRef::unchecked(arm.bytes);
        let search = node.search(arm.key);
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
    let mut parents: SmallVec<[(&Arm<'a, 'k>, NodeRef<'a>, usize); GROUP]> = SmallVec::new();
    for (arm, (node, search)) in arms.iter().zip(nodes) {
        let child = node.found(&search, arm.key);
        if node.level() > 1 {
            arm.file.prefetch_child(&node, child);
            parents.push((arm, node, child));
        } else {
            let Arm { number, key, file, offset, .. } = *arm;
            landed.push(Landed { number, key, file, node, node_offset: offset, child });
        }
    }
    let mut below: SmallVec<[Arm<'a, 'k>; GROUP]> = SmallVec::new();
    for (arm, node, child) in parents {
        let offset = arm.file.child_offset(&node, child);
        arm.file.kept().prefetch(offset);
        below.push(Arm { offset, ..*arm });
    }
    below.retain_mut(|arm| match arm.file.kept().get(arm.offset) {
        Some(Loaded::Node(node)) => {
            arm.arrive(node);
            true
        }
        _ => false,
    });
    *arms = below;
}
