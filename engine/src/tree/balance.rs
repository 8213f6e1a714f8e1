//! Keeps pages well filled: splits, merges and moves of entries between siblings.
//!
//! All of them are one operation, [`Tree::rebuild`], which spreads the entries of `k` neighbouring children over `m`
//! new pages. A full page first tries its siblings: if one has room to spare, the two share it (2 to 2); otherwise two
//! pages become three (2 to 3), as in B*-trees (Knuth, TAOCP 3, 6.2.4), which leaves random inserts at about 80 %
//! instead of 69 %. A page that is full because inserts ascend or descend is cut at the place of insertion, so that the
//! part without further inserts stays full.

use super::{HEIGHT_MAX, NO_PAGE, PageId, Path, Tree};
use crate::error::Result;
use crate::page::{
    Builder, HEADER_BYTES, KIND_INNER, KIND_LEAF, KeyBuffer, NewRecord, PageRef, Source, array_bytes,
    common_prefix_len, padded, page_bytes_of, plan_prefix, record,
};
use crate::tally::Tally;

/// The number of adjacent inserts in a row after which a page counts as filled in order.
const RUN_MIN: u8 = 4;

/// Buffers of a rebuild, kept between calls; empty outside of them.
#[derive(Default)]
pub(super) struct Scratch {
    sources: Vec<Source<'static>>,
    /// Bytes of the record of each source.
    pub(super) lens: Vec<u16>,
    cuts: Vec<usize>,
}

// SAFETY: empty between calls, so nothing in it is shared between threads.
unsafe impl Send for Scratch {}
// SAFETY: only used through `&mut Tree`.
unsafe impl Sync for Scratch {}

#[derive(Clone, Copy)]
pub(super) enum PageSplit {
    /// Into this many pages of about equal bytes.
    Even(usize),
    /// Into two, before this entry.
    At(usize),
}

#[derive(PartialEq, Eq)]
pub(super) enum Rebuilt {
    Done,
    /// The parent was full and has been split instead: descend again.
    ParentSplit,
    /// The entries of two pages do not fit that few pages with shorter prefixes. Those of one page always fit two.
    DoesNotFit,
}

impl Tree {
    /// Makes room in the page at `index` of the path, or takes one step towards it. Afterwards the path is stale.
    ///
    /// `attempt` counts the steps for one write: sharing with a sibling may not help an entry that shortens its page's
    /// prefix, so from the third step on the page itself is split, and pages of one entry have room for another.
    pub(super) fn make_room(&mut self, path: &mut Path, index: usize, attempt: usize) -> Result<()> {
        self.check_room()?;
        if index == 0 {
            self.grow_root();
            return Ok(());
        }
        let page = self.page(path.steps[index].page);
        let count = page.count();
        let at = path.steps[index - 1].position as usize;
        if page.run() >= RUN_MIN && count >= 2 {
            let cut = (path.steps[index].position as usize).clamp(1, count - 1);
            self.rebuild(path, index, at, 1, PageSplit::At(cut), attempt)?;
            return Ok(());
        }
        if attempt > 2 {
            self.rebuild(path, index, at, 1, PageSplit::Even(2), attempt)?;
            return Ok(());
        }
        let parent = self.page(path.steps[index - 1].page);
        let page_bytes = self.arena.page_bytes();
        let used = |position: usize| self.page(parent.child(position)).used(page_bytes);
        let left = (at > 0).then(|| (used(at - 1), at - 1));
        let right = (at + 1 < parent.count()).then(|| (used(at + 1), at));
        if let Some((sibling_used, from)) = left.into_iter().chain(right).min() {
            // Pages of few, large entries are cheap to copy and worth filling: two share what one of them has to spare,
            // or become three. For pages of many small entries a plain split costs least; they share only if that
            // leaves room for many inserts.
            let few = count <= 64;
            let spare = page_bytes - sibling_used;
            let pages = if spare >= if few { page_bytes / 6 } else { page_bytes * 2 / 5 } { 2 } else { 3 };
            let other = self.page(parent.child(if from == at { at + 1 } else { from }));
            if !few && (pages == 3 || other.prefix() != page.prefix()) {
                self.rebuild(path, index, at, 1, PageSplit::Even(2), attempt)?;
                return Ok(());
            }
            if self.rebuild(path, index, from, 2, PageSplit::Even(pages), attempt)? != Rebuilt::DoesNotFit {
                return Ok(());
            }
        }
        self.rebuild(path, index, at, 1, PageSplit::Even(2), attempt)?;
        Ok(())
    }

    /// Puts a new root over the old one.
    fn grow_root(&mut self) {
        let id = self.new_page(KIND_INNER, self.height);
        let tallies: Vec<i64> = (0..self.arrays()).map(|measure| self.total.measure(&self.measures, measure)).collect();
        let none = NewRecord { flags: 0, key: &[], key_handle: 0, weights: &[], value: &[] };
        let mut builder = Builder::new(self.page_mut(id), &[], 1);
        builder.push_child(&none, true, self.root, &tallies);
        builder.finish();
        self.root = id;
        self.height += 1;
        self.structure += 1;
    }

    /// Spreads the entries of `taken` children of the page above `index`, from position `from` on, over new pages.
    fn rebuild(
        &mut self,
        path: &mut Path,
        index: usize,
        from: usize,
        taken: usize,
        cut: PageSplit,
        attempt: usize,
    ) -> Result<Rebuilt> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = match self.plan_shift(path, index, from, taken, cut, &mut scratch.lens) {
            Some(shift) => self.shift(path, index, shift, &scratch.lens, attempt),
            None => self.rebuild_with(path, index, from, taken, cut, attempt, &mut scratch),
        };
        scratch.sources.clear();
        scratch.lens.clear();
        scratch.cuts.clear();
        self.scratch = scratch;
        result
    }

    #[expect(clippy::too_many_arguments, reason = "the plan of a rebuild, taken apart")]
    fn rebuild_with(
        &mut self,
        path: &mut Path,
        index: usize,
        from: usize,
        taken: usize,
        cut: PageSplit,
        attempt: usize,
        scratch: &mut Scratch,
    ) -> Result<Rebuilt> {
        let parent_id = path.steps[index - 1].page;
        let parent: PageRef<'static> = self.page(parent_id);
        let page_bytes = self.arena.page_bytes();
        let Scratch { sources, lens, cuts } = scratch;
        let kind = if index + 1 == self.height { KIND_LEAF } else { KIND_INNER };
        for position in from..from + taken {
            let page = self.page(parent.child(position));
            sources.extend((0..page.count()).map(|position| Source { page, position }));
            lens.extend((0..page.count()).map(|position| page.record(position).len as u16));
        }
        let arrays = array_bytes(kind, self.arrays());
        match cut {
            PageSplit::At(at) => cuts.extend([0, at, sources.len()]),
            PageSplit::Even(pages) => cut_evenly(lens, arrays, pages, cuts),
        }
        let pages = cuts.len() - 1;

        let mut prefixes: [KeyBuffer; 3] = Default::default();
        for (bounds, prefix) in cuts.windows(2).zip(&mut prefixes) {
            let part = bounds[0]..bounds[1];
            *prefix = plan_prefix(&sources[part.clone()], page_bytes);
            if !fits_under(prefix, &sources[part.clone()], &lens[part], arrays, page_bytes) {
                return Ok(Rebuilt::DoesNotFit);
            }
        }
        let separators: Vec<KeyBuffer> =
            cuts[1..pages].iter().map(|&cut| separator(&sources[cut - 1], &sources[cut])).collect();
        let Some(parent_prefix) = self.parent_prefix(&parent, from, taken, &separators) else {
            self.make_room(path, index - 1, attempt)?;
            return Ok(Rebuilt::ParentSplit);
        };

        let level = self.height - 1 - index;
        let mut new_ids = [NO_PAGE; 3];
        for (number, bounds) in cuts.windows(2).enumerate() {
            let part = bounds[0]..bounds[1];
            let id = self.new_page(kind, level);
            new_ids[number] = id;
            let builder = Builder::new(self.page_mut(id), &prefixes[number], part.len());
            fill_page(builder, kind, &sources[part.clone()], &lens[part]);
        }
        let old_ids: Vec<PageId> = (from..from + taken).map(|position| parent.child(position)).collect();
        self.replace_children(path, index - 1, from, taken, &new_ids[..pages], &separators, parent_prefix)?;
        for id in old_ids {
            self.drop_page(id);
        }
        self.structure += 1;
        Ok(Rebuilt::Done)
    }

    /// The length of the parent's prefix with `separators` in place of those of the `taken` children; `None` if they do
    /// not fit.
    pub(super) fn parent_prefix(
        &self,
        parent: &PageRef<'_>,
        from: usize,
        taken: usize,
        separators: &[KeyBuffer],
    ) -> Option<usize> {
        let page_bytes = self.arena.page_bytes();
        let shared = separators.iter().map(|separator| common_prefix_len(parent.prefix(), separator)).min();
        let prefix_len = shared.unwrap_or(usize::MAX).min(parent.prefix_len());
        let arrays = array_bytes(KIND_INNER, parent.measures());
        let added: usize = separators
            .iter()
            .map(|key| {
                let flags = if key.len() > self.inline_key_max() { record::KEY_OUT } else { 0 };
                let new = NewRecord { flags, key, key_handle: 0, weights: &[], value: &[] };
                new.len(KIND_INNER, prefix_len) + arrays
            })
            .sum();
        if prefix_len == parent.prefix_len() {
            let removed: usize =
                (from + 1..from + taken).map(|position| parent.inner_record(position).len + arrays).sum();
            return (parent.used(page_bytes) + added - removed <= page_bytes).then_some(prefix_len);
        }
        // Counted with the records that will go: a little pessimistic, and rare.
        let sources: Vec<Source<'_>> = (0..parent.count()).map(|position| Source { page: *parent, position }).collect();
        (page_bytes_of(&sources, prefix_len) + added <= page_bytes).then_some(prefix_len)
    }

    /// Puts the new pages into the page at `parent_index` of the path in place of `taken` old children.
    #[expect(clippy::too_many_arguments, reason = "the plan of a rebuild, taken apart")]
    pub(super) fn replace_children(
        &mut self,
        path: &mut Path,
        parent_index: usize,
        from: usize,
        taken: usize,
        new_ids: &[PageId],
        separators: &[KeyBuffer],
        parent_prefix: usize,
    ) -> Result<()> {
        let old_total = (from..from + taken).fold(Tally::ZERO, |sum, position| {
            sum + self.page(path.steps[parent_index].page).child_tally(position, &self.measures)
        });
        if parent_prefix < self.page(path.steps[parent_index].page).prefix_len() {
            let fits = self.shorten_prefix(path, parent_index, parent_prefix);
            debug_assert!(fits, "`parent_prefix` has counted this");
        }
        let parent_id = path.steps[parent_index].page;
        let mut parent = self.page_mut(parent_id);
        for _ in 1..taken {
            self.drop_record_blobs(&parent.inner_record(from + 1));
            parent.remove_inner(from + 1);
        }
        parent.set_child(from, new_ids[0]);
        for (number, key) in separators.iter().enumerate() {
            let mut new = NewRecord { flags: 0, key, key_handle: 0, weights: &[], value: &[] };
            if key.len() > self.inline_key_max() {
                new.key_handle = self.new_blob(key)?.handle();
                new.flags = record::KEY_OUT;
            }
            let placed = parent.insert_inner(from + 1 + number, &new, new_ids[number + 1]);
            debug_assert!(placed.is_ok(), "`parent_prefix` has counted this");
        }
        if !self.counted {
            return Ok(());
        }
        let mut rest = old_total;
        for (number, &id) in new_ids.iter().enumerate() {
            let tally = if number + 1 == new_ids.len() { rest } else { self.page_tally(&self.page(id)) };
            rest -= tally;
            for measure in 0..self.measures.len() {
                parent.set_tally(measure, from + number, tally.measure(&self.measures, measure));
            }
        }
        Ok(())
    }

    /// The sum of the weights in or below a page.
    pub(super) fn page_tally(&self, page: &PageRef<'_>) -> Tally {
        if page.is_leaf() {
            self.view().leaf_tally(page, 0, page.count())
        } else {
            page.tally_before(page.count(), &self.measures)
        }
    }

    /// Rewrites the page at `index` of the path with only the first `prefix_len` bytes of its prefix. Returns false,
    /// with nothing changed, if it does not fit then.
    pub(super) fn shorten_prefix(&mut self, path: &mut Path, index: usize, prefix_len: usize) -> bool {
        let old_id = path.steps[index].page;
        let old: PageRef<'_> = self.page(old_id);
        let sources: Vec<Source<'_>> = (0..old.count()).map(|position| Source { page: old, position }).collect();
        if !Builder::fits(&sources, prefix_len, self.arena.page_bytes()) {
            return false;
        }
        let id = self.new_page(old.kind(), old.level());
        let mut builder = Builder::new(self.page_mut(id), &old.prefix()[..prefix_len], sources.len());
        for source in sources {
            builder.push(source);
        }
        builder.finish();
        self.page_mut(id).copy_insert_run(&old);
        path.steps[index].page = id;
        if index == 0 {
            self.root = id;
        } else {
            let parent = path.steps[index - 1];
            self.page_mut(parent.page).set_child(parent.position as usize, id);
        }
        self.drop_page(old_id);
        self.structure += 1;
        true
    }

    /// Removes pages that a removal has left empty, and merges those it has left nearly empty.
    pub(super) fn rebalance_after_removal(&mut self, path: &Path, key: &[u8]) {
        let page_bytes = self.arena.page_bytes();
        let leaf = self.leaf(path);
        if leaf.used(page_bytes) >= page_bytes / 4 && leaf.count() > 0 {
            return;
        }
        // Removal must work when memory is full: the few pages that it takes come from the slack, and more are freed.
        let room_was_reserved = std::mem::replace(&mut self.room_reserved, true);
        let mut path = Path { steps: path.steps };
        let mut index = self.height - 1;
        // A step splits at most one level of parents, or makes room on it.
        for _ in 0..2 * HEIGHT_MAX {
            if self.leaf(&path).count() > 0 || self.height == 1 {
                break;
            }
            if let Some(dropped_at) = self.drop_empty_leaf(&mut path) {
                index = dropped_at - 1;
                break;
            }
            self.descend(key, &mut path);
            index = self.height - 1;
        }
        self.merge_up(&mut path, index);
        self.collapse_root();
        self.room_reserved = room_was_reserved;
    }

    /// Drops the empty leaf of the path with the pages above that have no other child, up to the returned index; from
    /// there on the path is stale. `None`: on some level it was given a sibling, or a step was taken towards that;
    /// descend again.
    fn drop_empty_leaf(&mut self, path: &mut Path) -> Option<usize> {
        let children = |index: usize| self.page(path.steps[index - 1].page).count();
        let Some(index) = (1..self.height).rev().find(|&index| children(index) > 1) else {
            self.collapse_root();
            return None;
        };
        let parent: PageRef<'_> = self.page(path.steps[index - 1].page);
        let at = path.steps[index - 1].position as usize;
        if at == 0 && index + 1 < self.height {
            self.share_with_next(path, index);
            return None;
        }
        // The page before takes over the keys up to the next separator; if there is none, the leaf after takes over the
        // keys down to the last one. An inner page could not: its first separator would be above keys that it has.
        let (from, heir) = if at > 0 { (at - 1, at - 1) } else { (0, 1) };
        let (empty, heir) = (parent.child(at), parent.child(heir));
        let replaced = self.replace_children(path, index - 1, from, 2, &[heir], &[], parent.prefix_len());
        debug_assert!(replaced.is_ok(), "without separators nothing can be lacking");
        self.drop_subtree(empty, self.height - index, true);
        self.structure += 1;
        Some(index)
    }

    /// Moves children of the next page, or all of them, to the page at `index` of the path: an inner page with an only
    /// child that is the first under its parent.
    fn share_with_next(&mut self, path: &mut Path, index: usize) {
        let page_bytes = self.arena.page_bytes();
        let parent: PageRef<'_> = self.page(path.steps[index - 1].page);
        let (page, next) = (self.page(parent.child(0)), self.page(parent.child(1)));
        let count = page.count() + next.count();
        let used = page.used(page_bytes) + next.used(page_bytes);
        // Two entries fit any page, and so does the rest of the next page under its present prefix. So the last cut
        // fits.
        let cuts = [
            (used <= page_bytes * 4 / 5 || count == 2).then_some(PageSplit::Even(1)),
            (count > 4).then_some(PageSplit::At(count / 2)),
            (count > 2).then_some(PageSplit::At(2)),
        ];
        for cut in cuts.into_iter().flatten() {
            if !matches!(self.rebuild(path, index, 0, 2, cut, 0), Ok(Rebuilt::DoesNotFit)) {
                return;
            }
        }
    }

    /// Merges pages of the path that are nearly empty, from `index` upwards.
    fn merge_up(&mut self, path: &mut Path, index: usize) {
        let page_bytes = self.arena.page_bytes();
        for index in (1..=index).rev() {
            if self.page(path.steps[index].page).used(page_bytes) >= page_bytes / 4 {
                return;
            }
            // An only child has no sibling to merge with, and its parent is nearly empty too.
            let is_only = self.page(path.steps[index - 1].page).count() == 1;
            if !is_only && !self.merge(path, index) {
                return;
            }
        }
    }

    /// Merges the page at `index` of the path with its emptier sibling if the result is not too full. Returns whether
    /// it did; then the path is stale from there on.
    fn merge(&mut self, path: &mut Path, index: usize) -> bool {
        let page_bytes = self.arena.page_bytes();
        let parent = self.page(path.steps[index - 1].page);
        let at = path.steps[index - 1].position as usize;
        let page = self.page(path.steps[index].page);
        let used = |position: usize| self.page(parent.child(position)).used(page_bytes);
        let left = (at > 0).then(|| (used(at - 1), at - 1));
        let right = (at + 1 < parent.count()).then(|| (used(at + 1), at));
        let Some((sibling_used, from)) = left.into_iter().chain(right).min() else { return false };
        if page.used(page_bytes) + sibling_used > page_bytes * 4 / 5 {
            return false;
        }
        // No separator is added, so the parent has room: this is neither an error nor a step towards it.
        matches!(self.rebuild(path, index, from, 2, PageSplit::Even(1), 0), Ok(Rebuilt::Done))
    }

    /// Removes roots with a single child.
    fn collapse_root(&mut self) {
        while self.height > 1 && self.page(self.root).count() == 1 {
            let old = self.root;
            let page = self.page(old);
            self.drop_record_blobs(&page.inner_record(0));
            self.root = page.child(0);
            self.height -= 1;
            self.structure += 1;
            self.drop_page(old);
        }
    }
}

/// Whether entries fit a page under `prefix`, which is made shorter if only that helps. `lens` are the bytes of their
/// records as they are, `arrays` those that each takes beside.
fn fits_under(prefix: &mut KeyBuffer, part: &[Source<'_>], lens: &[u16], arrays: usize, page_bytes: usize) -> bool {
    // Under a prefix no shorter than theirs, records are no longer than they are.
    let old_bytes: usize = lens.iter().map(|&len| usize::from(len) + arrays).sum();
    let shrinks = [part.first(), part.last()].into_iter().flatten().all(|end| end.page.prefix_len() <= prefix.len());
    if shrinks && HEADER_BYTES + padded(prefix.len()) + old_bytes <= page_bytes
        || Builder::fits(part, prefix.len(), page_bytes)
    {
        return true;
    }
    // A longer prefix takes more than it saves where keys are out of line or end within their heads. Entries of one
    // page fit under the prefix that they have, as they do now.
    prefix.truncate(part.iter().map(|source| source.page.prefix_len()).min().unwrap_or(0));
    Builder::fits(part, prefix.len(), page_bytes)
}

/// Copies entries into a new page. `lens` are the bytes of their records.
fn fill_page(mut builder: Builder<'_>, kind: u8, part: &[Source<'_>], lens: &[u16]) {
    if kind == KIND_LEAF {
        // Runs of neighbours of one page are copied together.
        let mut done = 0;
        for run in part.chunk_by(|a, b| a.page.start() == b.page.start()) {
            builder.push_leaf_run(run[0].page, run[0].position, &lens[done..done + run.len()]);
            done += run.len();
        }
    } else {
        part.iter().for_each(|&source| builder.push(source));
    }
    builder.finish();
}

/// Cuts records of these lengths into `pages` parts of about equal bytes, or fewer if there are fewer of them; none is
/// empty.
fn cut_evenly(lens: &[u16], arrays: usize, pages: usize, cuts: &mut Vec<usize>) {
    let pages = pages.min(lens.len());
    cuts.push(0);
    let total: usize = lens.iter().map(|&len| usize::from(len) + arrays).sum();
    let (mut passed, mut position) = (0, 0);
    for part in 1..pages {
        let due = total * part / pages;
        let start = position;
        while position < lens.len() - (pages - part) {
            let bytes = usize::from(lens[position]) + arrays;
            if position > start && passed + bytes / 2 > due {
                break;
            }
            passed += bytes;
            position += 1;
        }
        cuts.push(position);
    }
    cuts.push(lens.len());
}

/// The shortest key above `left` and not above `right` for leaf entries; for inner entries the key of `right` itself.
pub(super) fn separator(left: &Source<'_>, right: &Source<'_>) -> KeyBuffer {
    let mut key = right.page.key(right.position);
    if right.page.is_leaf() {
        let shared = common_prefix_len(&left.page.key(left.position), &key);
        key.truncate(shared + 1);
    }
    key
}
