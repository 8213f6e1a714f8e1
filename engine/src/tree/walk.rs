//! Walks over the entries of one version, in either direction, from a key, an offset or an end.
//!
//! Cost: a step within a leaf reads the page's count; a step from leaf to leaf goes through their lowest common page.

use super::view::{Found, HEIGHT_MAX, PREFETCH_LINES, Side, Step, View};
use super::{NO_PAGE, PageId};
use crate::page::{KeyBuffer, PageRef, Record};
use crate::tally::Tally;

/// A place in a version of a tree, with the path to it, that moves to the next or the previous entry.
#[derive(Clone)]
pub struct Walk<'a> {
    view: View<'a>,
    pub(super) steps: [Step; HEIGHT_MAX],
    pub(super) valid: bool,
}

impl<'a> Walk<'a> {
    /// Nowhere yet.
    pub(super) fn new(view: View<'a>) -> Self {
        Walk { view, steps: [Step::default(); HEIGHT_MAX], valid: false }
    }

    /// At the first entry.
    pub(crate) fn first(view: View<'a>) -> Self {
        let mut walk = Walk::new(view);
        if view.root != NO_PAGE {
            walk.descend_to_edge(0, view.root, false);
            walk.valid = true;
            walk.leave_ended_leaf();
        }
        walk
    }

    /// At the last entry.
    pub(crate) fn last(view: View<'a>) -> Self {
        let mut walk = Walk::end(view);
        walk.prev();
        walk
    }

    /// Past the last entry.
    pub(crate) fn end(view: View<'a>) -> Self {
        let mut walk = Walk::new(view);
        if view.root != NO_PAGE {
            walk.descend_to_edge(0, view.root, true);
            let leaf = &mut walk.steps[view.height - 1];
            leaf.position = view.page(leaf.page).count() as u16;
        }
        walk
    }

    /// At the first entry that is not before `key`, or past the last.
    pub(crate) fn seek(view: View<'a>, key: &[u8], side: Side) -> Self {
        let mut walk = Walk::new(view);
        if view.root == NO_PAGE {
            return walk;
        }
        let mut id = view.root;
        for level in 0..view.height - 1 {
            let page = view.page(id);
            let position = page.child_position(key);
            walk.steps[level] = Step::new(id, position);
            id = page.child(position);
            PageRef::prefetch_at(view.arena.address(id), PREFETCH_LINES);
        }
        let (position, found) = view.page(id).search::<true>(key);
        let position = position + usize::from(found && side == Side::Through);
        walk.steps[view.height - 1] = Step::new(id, position);
        walk.valid = true;
        walk.leave_ended_leaf();
        walk
    }

    fn descend_to_edge(&mut self, level: usize, mut id: PageId, last: bool) {
        for level in level..self.view.height {
            let page = self.view.page(id);
            let position = if last { page.count().saturating_sub(1) } else { 0 };
            self.steps[level] = Step::new(id, position);
            if level + 1 < self.view.height {
                id = page.child(position);
            }
        }
    }

    /// Whether this place is before `other` in the same version.
    pub(super) fn is_before(&self, other: &Walk<'_>) -> bool {
        for level in 0..self.view.height {
            let (a, b) = (self.steps[level].position, other.steps[level].position);
            if a != b {
                return a < b;
            }
        }
        false
    }

    #[inline(always)]
    fn leaf_step(&self) -> Step {
        self.steps[self.view.height - 1]
    }

    #[inline(always)]
    pub(crate) fn leaf(&self) -> PageRef<'a> {
        self.view.page(self.leaf_step().page)
    }

    /// Whether there is an entry here.
    #[inline(always)]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// Moves on to the next leaf while the place is after the last entry of its leaf.
    #[inline(always)]
    pub(crate) fn leave_ended_leaf(&mut self) {
        while self.valid && self.leaf_step().position as usize >= self.leaf().count() {
            self.next_leaf();
        }
    }

    #[cold]
    fn next_leaf(&mut self) {
        self.leave(self.view.height - 1);
    }

    /// Moves to the start of the page after the one at this level.
    fn leave(&mut self, level: usize) {
        for level in (0..level).rev() {
            let step = self.steps[level];
            let page = self.view.page(step.page);
            let position = step.position as usize + 1;
            if position < page.count() {
                self.steps[level].position = position as u16;
                self.descend_to_edge(level + 1, page.child(position), false);
                return;
            }
        }
        self.valid = false;
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn next(&mut self) {
        if self.valid {
            self.steps[self.view.height - 1].position += 1;
            self.leave_ended_leaf();
        }
    }

    /// Moves to the previous entry; from past the end to the last one.
    #[inline]
    pub(crate) fn prev(&mut self) {
        if self.view.root == NO_PAGE {
            return;
        }
        let leaf_level = self.view.height - 1;
        loop {
            if self.steps[leaf_level].position > 0 {
                self.steps[leaf_level].position -= 1;
                self.valid = true;
                return;
            }
            if !self.prev_leaf() {
                self.valid = false;
                return;
            }
        }
    }

    #[cold]
    fn prev_leaf(&mut self) -> bool {
        for level in (0..self.view.height - 1).rev() {
            let step = self.steps[level];
            if step.position > 0 {
                let page = self.view.page(step.page);
                let position = step.position as usize - 1;
                self.steps[level].position = position as u16;
                self.descend_to_edge(level + 1, page.child(position), true);
                let leaf = self.leaf().count() as u16;
                self.steps[self.view.height - 1].position = leaf;
                return true;
            }
        }
        false
    }

    /// Skips what is the same in two versions of one tree from these two places on, which must be valid: the rest of
    /// the highest page that both are at the same place of, and the pages after it that both have. Returns whether
    /// there is such a page.
    pub(crate) fn skip_shared(&mut self, other: &mut Walk<'_>) -> bool {
        let heights = (self.view.height, other.view.height);
        let is_shared = |above: &usize| {
            let (one, two) = (self.steps[heights.0 - 1 - above], other.steps[heights.1 - 1 - above]);
            (one.page, one.position) == (two.page, two.position)
        };
        let Some(above) = (0..heights.0.min(heights.1)).take_while(is_shared).last() else { return false };
        let levels = (heights.0 - 1 - above, heights.1 - 1 - above);
        if let (Some(level), Some(other_level)) = (levels.0.checked_sub(1), levels.1.checked_sub(1)) {
            let (step, other_step) = (&mut self.steps[level], &mut other.steps[other_level]);
            let (page, other_page) = (self.view.page(step.page), other.view.page(other_step.page));
            let places =
                (step.position as usize + 1..page.count()).zip(other_step.position as usize + 1..other_page.count());
            let shared =
                places.take_while(|&(place, other)| page.child(place) == other_page.child(other)).count() as u16;
            step.position += shared;
            other_step.position += shared;
        }
        self.leave(levels.0);
        other.leave(levels.1);
        self.leave_ended_leaf();
        other.leave_ended_leaf();
        true
    }

    /// Fetches the records of the next `entries` entries of this leaf.
    #[inline]
    pub(crate) fn prefetch(&self, entries: usize) {
        let leaf = self.leaf();
        let position = self.leaf_step().position as usize;
        (position..position + entries).for_each(|position| leaf.prefetch_record(position));
    }

    /// The record here.
    #[inline(always)]
    pub(crate) fn record(&self) -> Record<'a> {
        debug_assert!(self.valid);
        self.leaf().leaf_record(self.leaf_step().position as usize)
    }

    /// Appends the key here to `key`.
    #[inline(always)]
    pub(crate) fn key_into(&self, key: &mut KeyBuffer) {
        debug_assert!(self.valid);
        let leaf = self.leaf();
        let position = self.leaf_step().position as usize;
        leaf.record_key_into(&leaf.leaf_record(position), position, key);
    }

    /// The key here.
    pub(crate) fn key(&self) -> KeyBuffer {
        let mut key = KeyBuffer::new();
        self.key_into(&mut key);
        key
    }

    /// The weight of the entry here, whose key is `key`.
    pub(crate) fn weight(&self, key: &[u8]) -> Tally {
        self.view.weight_of(key, &self.record())
    }

    /// The value here; `None` for a tombstone.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        Found { record: self.record() }.value()
    }
}
