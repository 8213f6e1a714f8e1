//! A counted B+-tree: an ordered map that also answers "how many rows are below this key".
//!
//! | file | what it is |
//! |---|---|
//! | `view`, `walk`, `batch` | reading a version: by key, rank and offset; in order; many keys together |
//! | `place`, `write` | finding the place of a write; changing the leaf and the counts above it |
//! | `balance`, `shift` | splits and merges of pages; making room in a leaf |
//! | `load`, `merge` | a tree from sorted rows; a layer merged into the tree below it |
//! | `arena` | the memory of pages |
//! | `check` | every invariant |
//!
//! Invariants (checked by [`Tree::check`], after every operation in tests):
//! 1. Keys in a page ascend strictly; all keys under child i lie between separators i and i+1.
//! 2. Every leaf has the same depth, and no page but the root is empty.
//! 3. The tally of a child equals the sum of the weights under it, in every measure; `total` and `entries` equal those
//!    of the root.
//! 4. A page that a protected snapshot can see (born at or before `protected`) is never changed.
//! 5. In a bottom tree every entry is a value and weighs what its row weighs. In others weights are explicit.
//!
//! Cost: rank, offset and count read one page of each level and no sibling. An insert changes one leaf and one number
//! on each level. Not here: layers below (`stack/`), transactions (`transactions/`), files (`run/`).

mod arena;
mod balance;
mod batch;
mod check;
mod load;
mod merge;
mod place;
mod shift;
mod view;
mod walk;
mod write;

#[cfg(test)]
mod boundary_subject_tests;
#[cfg(test)]
mod boundary_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use arena::Arena;
use arena::{NO_PAGE, PageId};
pub(crate) use batch::{GROUP, get_many, nth_many, rows_before_many, warm};
pub(crate) use load::Loader;
pub(crate) use merge::{merge_layer, merge_layer_but};
pub(crate) use place::{Place, Sweep};
pub(crate) use view::{Found, value_of};
use view::{HEIGHT_MAX, Step};
pub use view::{Side, View};
pub use walk::Walk;
pub(crate) use write::{When, Written};

use crate::error::Result;
use crate::page::{Blob, KIND_LEAF, record};
use crate::tally::{Measures, Tally};

/// The current version of one counted tree, and the pages it has retired.
pub(crate) struct Tree {
    arena: Arc<Arena>,
    root: PageId,
    height: usize,
    measures: Measures,
    /// Whether inner pages carry tallies. False only in a benchmark.
    counted: bool,
    /// Whether it counts rows and nothing else, so that the short path applies.
    rows_only: bool,
    bottom: bool,
    total: Tally,
    entries: u64,
    /// Blobs that the current version names, and their bytes.
    blobs: u64,
    blob_bytes: u64,
    /// Pages written from now on are born in this epoch.
    epoch: u64,
    /// The newest snapshot that knows this tree; 0 if none.
    protected: u64,
    /// Whether room for the following writes was reserved, so that they need not check.
    room_reserved: bool,
    /// Changes whenever pages split, merge or move, so that a remembered path can tell that it is stale.
    structure: u64,
    tail: Tail,
    retired: Vec<Retired>,
    scratch: balance::Scratch,
}

/// Something that the current version no longer has, but that a snapshot in `birth..death` may see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    what: Thing,
    birth: u64,
    death: u64,
}

#[derive(Clone, Copy, Debug)]
enum Thing {
    Page(PageId),
    Blob(Blob),
}

/// The path of a descent for a write.
pub(super) struct Path {
    steps: [Step; HEIGHT_MAX],
}

/// The path to the last leaf, remembered while writes go after the last key: then none of them descends.
struct Tail {
    path: Path,
    /// The structure of the tree for which it is valid.
    structure: u64,
}

/// A structure that no tree has.
const NO_STRUCTURE: u64 = u64::MAX;

impl Tree {
    /// An empty tree. `bottom`: nothing lies below it, so weights follow from rows.
    pub(crate) fn new(arena: Arc<Arena>, measures: Measures, bottom: bool) -> Tree {
        Tree {
            arena,
            root: NO_PAGE,
            height: 0,
            measures,
            counted: true,
            rows_only: measures.only_rows(),
            bottom,
            total: Tally::ZERO,
            entries: 0,
            blobs: 0,
            blob_bytes: 0,
            epoch: 1,
            protected: 0,
            room_reserved: false,
            structure: 0,
            tail: Tail { path: Path::new(), structure: NO_STRUCTURE },
            retired: Vec::new(),
            scratch: balance::Scratch::default(),
        }
    }

    /// A bottom tree without any tallies, the baseline of the cost of counting.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn uncounted(arena: Arc<Arena>) -> Tree {
        let mut tree = Tree::new(arena, Measures::ROWS, true);
        tree.counted = false;
        tree.rows_only = false;
        tree
    }

    /// The current version, to read. The caller keeps writers out while it is in use.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        self.version().view(&self.arena)
    }

    /// The current version as a value, for a snapshot that is registered before the next write.
    pub(crate) fn version(&self) -> Version {
        Version {
            root: self.root,
            height: self.height,
            measures: self.measures,
            bottom: self.bottom,
            total: self.total,
            entries: self.entries,
            blob_bytes: self.blob_bytes,
        }
    }

    /// The number of entries, including tombstones.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn is_bottom(&self) -> bool {
        self.bottom
    }

    pub(crate) fn measures(&self) -> &Measures {
        &self.measures
    }

    /// Sets the epoch of the following writes, and the newest snapshot that knows the tree (0: none). Call it before
    /// every group of writes.
    pub(crate) fn set_epochs(&mut self, epoch: u64, protected: u64) {
        debug_assert!(protected < epoch);
        self.epoch = epoch;
        self.protected = protected;
    }

    /// The number of pages and blobs that wait for snapshots to end.
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Frees what no snapshot in `live` (ascending) can see.
    pub(crate) fn reclaim(&mut self, live: &[u64]) {
        let arena = &self.arena;
        self.retired.retain(|retired| {
            let first_after_birth = live.partition_point(|&snapshot| snapshot < retired.birth);
            if live.get(first_after_birth).is_some_and(|&snapshot| snapshot < retired.death) {
                return true;
            }
            match retired.what {
                Thing::Page(id) => arena.free(id),
                // SAFETY: the current version dropped it, and no snapshot that could see it is alive.
                Thing::Blob(blob) => unsafe { arena.release_blob(blob) },
            }
            false
        });
    }

    /// Drops a page from the current version.
    fn drop_page(&mut self, id: PageId) {
        let birth = self.page(id).epoch();
        if birth <= self.protected {
            self.retired.push(Retired { what: Thing::Page(id), birth, death: self.epoch });
        } else {
            self.arena.free(id);
        }
    }

    /// Copies bytes that are too long for a page into a blob of the current version.
    fn new_blob(&mut self, bytes: &[u8]) -> Result<Blob> {
        let blob = self.arena.new_blob(bytes, self.epoch)?;
        self.blobs += 1;
        self.blob_bytes += bytes.len() as u64;
        Ok(blob)
    }

    /// Drops a blob from the current version.
    fn drop_blob(&mut self, blob: Blob) {
        self.blobs -= 1;
        // SAFETY: the current version named it until now.
        let birth = unsafe {
            self.blob_bytes -= blob.bytes().len() as u64;
            blob.epoch()
        };
        if birth <= self.protected {
            self.retired.push(Retired { what: Thing::Blob(blob), birth, death: self.epoch });
        } else {
            // SAFETY: no other pointer to it is known.
            unsafe { self.arena.release_blob(blob) };
        }
    }

    #[inline(always)]
    fn page<'p>(&self, id: PageId) -> crate::page::PageRef<'p> {
        // SAFETY: ids come from the current version, whose pages are in use; this tree is their only writer, and the
        // references made here are not kept across a change of their page.
        unsafe { self.arena.page(id) }
    }

    /// A fresh, empty page of this tree.
    fn new_page(&self, kind: u8, level: usize) -> PageId {
        let id = self.arena.allocate();
        let (arrays, weight_bytes) = if kind == KIND_LEAF { (0, self.weight_bytes()) } else { (self.arrays(), 0) };
        self.page_mut(id).init(kind, level, arrays, weight_bytes, self.epoch);
        id
    }

    #[inline(always)]
    fn page_mut<'p>(&self, id: PageId) -> crate::page::PageMut<'p> {
        // SAFETY: as above; `own` has made sure that no snapshot sees the page.
        unsafe { self.arena.page_mut(id) }
    }

    /// The number of arrays of tallies in an inner page.
    #[inline(always)]
    fn arrays(&self) -> usize {
        if self.counted { self.measures.len() } else { 0 }
    }

    /// Bytes of explicit weight in a leaf's records.
    #[inline(always)]
    fn weight_bytes(&self) -> usize {
        if self.bottom { 0 } else { 8 * (self.measures.len() - 1) }
    }

    /// The longest key that stays in a page, in bytes; longer ones lie out of line. With values at their limit too, at
    /// least four records fit a page.
    #[inline(always)]
    fn inline_key_max(&self) -> usize {
        self.arena.page_bytes() / 10
    }

    /// The longest value that stays in a page, in bytes; longer ones lie out of line.
    #[inline(always)]
    fn inline_value_max(&self) -> usize {
        self.arena.page_bytes() / 10
    }

    /// Bytes that an entry of these lengths takes out of line.
    pub(crate) fn long_bytes(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        let long = |bytes: usize, max: usize| if bytes > max { Blob::size_of(bytes) } else { 0 };
        long(key_bytes, self.inline_key_max()) + long(value_bytes, self.inline_value_max())
    }

    /// Empties the tree. Snapshots keep what they see.
    pub(crate) fn clear(&mut self) {
        if self.root != NO_PAGE {
            self.drop_subtree(self.root, self.height, true);
        }
        self.root = NO_PAGE;
        self.height = 0;
        self.total = Tally::ZERO;
        self.entries = 0;
        self.structure += 1;
    }

    /// Drops a subtree of `height` levels from the current version.
    fn drop_subtree(&mut self, root: PageId, height: usize, with_blobs: bool) {
        let mut freed = Vec::new();
        self.collect_subtree(root, height, with_blobs, &mut freed);
        self.arena.free_all(&freed);
    }

    fn collect_subtree(&mut self, id: PageId, height: usize, with_blobs: bool, freed: &mut Vec<PageId>) {
        let page = self.page(id);
        if height > 1 {
            for position in 0..page.count() {
                self.collect_subtree(page.child(position), height - 1, with_blobs, freed);
            }
        }
        if self.blobs > 0 && with_blobs {
            for position in 0..page.count() {
                self.drop_record_blobs(&page.record(position));
            }
        }
        if page.epoch() <= self.protected {
            let birth = page.epoch();
            self.retired.push(Retired { what: Thing::Page(id), birth, death: self.epoch });
        } else {
            freed.push(id);
        }
    }

    /// Drops the blobs that a record names.
    fn drop_record_blobs(&mut self, record: &crate::page::Record<'_>) {
        if record.flags & (record::KEY_OUT | record::VALUE_OUT) == 0 {
            return;
        }
        if record.key_is_out() {
            let handle = u64::from_le_bytes(record.tail.try_into().expect("a handle has eight bytes"));
            // SAFETY: the record is of the current version, in memory.
            self.drop_blob(unsafe { Blob::from_handle(handle) });
        }
        if record.value_is_out() {
            // SAFETY: as above.
            self.drop_blob(unsafe { Blob::from_handle(view::blob_handle(record)) });
        }
    }

    /// Replaces this empty tree by all of `other`, of the same arena: so a transaction on an empty table commits.
    /// `other` counts only rows, and its entries are all fresh values, so its pages are those of a bottom tree.
    pub(crate) fn adopt(&mut self, mut other: Tree) {
        debug_assert!(self.entries == 0 && self.bottom && Arc::ptr_eq(&self.arena, &other.arena));
        debug_assert!(other.protected == 0 && other.retired.is_empty());
        debug_assert!(other.weight_bytes() == 0 && other.total.rows == other.entries as i64);
        self.clear();
        self.root = std::mem::replace(&mut other.root, NO_PAGE);
        self.height = other.height;
        self.total = other.total;
        self.entries = other.entries;
        self.blobs = std::mem::take(&mut other.blobs);
        self.blob_bytes = std::mem::take(&mut other.blob_bytes);
        other.entries = 0;
    }

    /// The arena that the pages lie in.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Fails if there is no memory for a write; if room was reserved for it, only if that was far too little.
    #[inline]
    fn check_room(&self) -> Result<()> {
        if self.room_reserved { self.arena.check_space() } else { self.arena.check_room() }
    }

    /// Records that room for the following writes is reserved in the arena: they must not fail half way.
    pub(crate) fn set_room_reserved(&mut self, reserved: bool) {
        self.room_reserved = reserved;
    }

    /// An upper estimate of the bytes of the pages.
    pub(crate) fn page_bytes_estimate(&self) -> u64 {
        self.view().page_bytes_estimate()
    }

    /// Pages that `entries` writes of `bytes` in all may take, including copies for snapshots.
    pub(crate) fn room_for(&self, entries: u64, bytes: u64) -> u64 {
        let page_bytes = self.arena.page_bytes() as u64;
        // Each page is copied at most once. (Each may also split, and the records then fill half of a page; few entries
        // split pages within the last term. If many pages of a version that a snapshot sees do, it takes more than this
        // estimate: at most `pages`, for which the arena has space, since `pages` more were free.)
        let pages = self.arena.page_bytes_used() / page_bytes;
        let copies = if self.protected == 0 && entries <= 64 { 0 } else { entries.saturating_mul(2).min(pages) };
        (bytes + entries * 24) * 3 / page_bytes + copies + 4 * HEIGHT_MAX as u64
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // In another process the pages go with the arena, whose lock may be held for ever; long values stay.
        if !self.arena.process().is_current() {
            return;
        }
        // The owner drops a tree only when no snapshot needs it.
        self.protected = 0;
        self.clear();
        self.reclaim(&[]);
    }
}

/// One version of a tree as a value. Valid only while a registered snapshot or a latch keeps its pages.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    root: PageId,
    height: usize,
    measures: Measures,
    bottom: bool,
    total: Tally,
    entries: u64,
    blob_bytes: u64,
}

impl Version {
    /// The version, to read.
    #[inline]
    pub(crate) fn view<'a>(&self, arena: &'a Arena) -> View<'a> {
        View {
            arena,
            root: self.root,
            height: self.height,
            measures: self.measures,
            bottom: self.bottom,
            total: self.total,
            entries: self.entries,
            blob_bytes: self.blob_bytes,
        }
    }
}
