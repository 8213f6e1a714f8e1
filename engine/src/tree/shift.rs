//! Makes room in a leaf in place: moves only the entries that change pages.
//!
//! Possible where no page gets another prefix and no snapshot sees a page that changes; [`Tree::rebuild`] does
//! everything else.

use super::balance::{PageSplit, Rebuilt, separator};
use super::{PageId, Path, Tree};
use crate::error::Result;
use crate::page::{KIND_LEAF, KeyBuffer, PageRef, Source, array_bytes, common_prefix_len, prefix_max};
use std::ops::Range;

/// A move that was found possible.
pub(super) struct Shift {
    /// The position of the first page in its parent.
    from: usize,
    left: PageId,
    /// `None`: a new page.
    right: Option<PageId>,
    /// The entries that change pages: the last ones of the left page, or the first ones of the right.
    moved: Range<usize>,
    to_left: bool,
    separator: KeyBuffer,
}

impl Tree {
    /// Plans to cut the entries of the `taken` children of the page above `index`, from position `from` on, by moving
    /// some of them; `lens` becomes the lengths of their records. `None` if that is not possible.
    pub(super) fn plan_shift(
        &self,
        path: &Path,
        index: usize,
        from: usize,
        taken: usize,
        cut: PageSplit,
        lens: &mut Vec<u16>,
    ) -> Option<Shift> {
        let parent = self.page(path.steps[index - 1].page);
        let left_id = parent.child(from);
        let left: PageRef<'_> = self.page(left_id);
        if !left.is_leaf() || left.count() < 2 || !self.is_own(&left) {
            return None;
        }
        let page_bytes = self.arena.page_bytes();
        let mut shift =
            Shift { from, left: left_id, right: None, moved: 0..0, to_left: false, separator: KeyBuffer::new() };
        let left_end = left.count() - 1;
        // The last entry that stays on the left, the first one on the right, the last one there.
        let (stays, goes, last) = match (taken, cut) {
            (1, PageSplit::At(at)) => {
                shift.moved = at..left.count();
                lens.extend(shift.moved.clone().map(|position| left.leaf_record(position).len as u16));
                ((left, at - 1), (left, at), (left, left_end))
            }
            (1, PageSplit::Even(2)) => {
                shift.moved = lens_of_last(&left, left.used(page_bytes) / 2, lens)?;
                ((left, shift.moved.start - 1), (left, shift.moved.start), (left, left_end))
            }
            (2, PageSplit::Even(2)) => {
                let right_id = parent.child(from + 1);
                let right: PageRef<'_> = self.page(right_id);
                if right.count() < 2 || !self.is_own(&right) || right.prefix() != left.prefix() {
                    return None;
                }
                shift.right = Some(right_id);
                let (left_used, right_used) = (left.used(page_bytes), right.used(page_bytes));
                let right_end = (right, right.count() - 1);
                if left_used > right_used {
                    shift.moved = lens_of_last(&left, (left_used - right_used) / 2, lens)?;
                    ((left, shift.moved.start - 1), (left, shift.moved.start), right_end)
                } else {
                    shift.moved = lens_of_first(&right, (right_used - left_used) / 2, lens)?;
                    shift.to_left = true;
                    ((right, shift.moved.end - 1), (right, shift.moved.end), right_end)
                }
            }
            _ => return None,
        };
        if grows(&(left, 0), &stays, page_bytes) || grows(&goes, &last, page_bytes) {
            lens.clear();
            return None;
        }
        let source = |(page, position)| Source { page, position };
        shift.separator = separator(&source(stays), &source(goes));
        Some(shift)
    }

    /// Whether no snapshot sees the page, so that it may be changed in place.
    fn is_own(&self, page: &PageRef<'_>) -> bool {
        self.protected == 0 || page.epoch() > self.protected
    }

    /// Does what [`Tree::plan_shift`] has planned, or takes a step towards it. Afterwards the path is stale.
    pub(super) fn shift(
        &mut self,
        path: &mut Path,
        index: usize,
        shift: Shift,
        lens: &[u16],
        attempt: usize,
    ) -> Result<Rebuilt> {
        let Shift { from, left: left_id, right, moved, to_left, separator } = shift;
        let taken = 1 + usize::from(right.is_some());
        let separators = [separator];
        let parent: PageRef<'_> = self.page(path.steps[index - 1].page);
        let Some(parent_prefix) = self.parent_prefix(&parent, from, taken, &separators) else {
            self.make_room(path, index - 1, attempt)?;
            return Ok(Rebuilt::ParentSplit);
        };
        let mut left = self.page_mut(left_id);
        let right_id = right.unwrap_or_else(|| {
            let id = self.new_page(KIND_LEAF, 0);
            self.page_mut(id).set_prefix(left.prefix());
            id
        });
        let mut right = self.page_mut(right_id);
        if to_left {
            right.move_entries(moved, lens, &mut left);
        } else {
            left.move_entries(moved, lens, &mut right);
        }
        self.replace_children(path, index - 1, from, taken, &[left_id, right_id], &separators, parent_prefix)?;
        self.structure += 1;
        Ok(Rebuilt::Done)
    }
}

/// The first entries of a leaf with about `bytes` bytes, at most all but one, and the lengths of their records; `None`
/// if there are none.
///
/// They have at most `2 * bytes`: with `sum` bytes before the last of them, which has `size`, `sum + size.div_ceil(2)
/// <= bytes`, so that `sum + size <= 2 * sum + size <= 2 * bytes`. If `bytes` is half of what this leaf has more than
/// its neighbour, the neighbour will not be fuller than this leaf was, which fits; rounding down here would be one byte
/// too many.
fn lens_of_first(page: &PageRef<'_>, bytes: usize, lens: &mut Vec<u16>) -> Option<Range<usize>> {
    let count = lens_of_some(page, 0..page.count() - 1, bytes, lens);
    (count > 0).then_some(0..count)
}

/// Like [`lens_of_first`], for the last entries.
fn lens_of_last(page: &PageRef<'_>, bytes: usize, lens: &mut Vec<u16>) -> Option<Range<usize>> {
    let count = lens_of_some(page, (1..page.count()).rev(), bytes, lens);
    lens.reverse();
    (count > 0).then_some(page.count() - count..page.count())
}

fn lens_of_some(
    page: &PageRef<'_>,
    positions: impl Iterator<Item = usize>,
    bytes: usize,
    lens: &mut Vec<u16>,
) -> usize {
    let arrays = array_bytes(KIND_LEAF, 0);
    let mut sum = 0;
    for position in positions {
        let len = page.leaf_record(position).len;
        let size = len + arrays;
        if sum + size.div_ceil(2) > bytes {
            break;
        }
        sum += size;
        lens.push(len as u16);
    }
    lens.len()
}

/// Whether a page from `first` to `last` would gain by a longer prefix. Keys that end within their heads gain nothing.
fn grows(first: &(PageRef<'_>, usize), last: &(PageRef<'_>, usize), page_bytes: usize) -> bool {
    let prefix_len = last.0.prefix_len();
    let rest_len = |&(page, position): &(PageRef<'_>, usize)| page.leaf_record(position).rest_len;
    let one = first.0.start() == last.0.start() && first.1 == last.1;
    if one || rest_len(first).max(rest_len(last)) <= 4 || prefix_len == prefix_max(page_bytes) {
        return false;
    }
    common_prefix_len(&first.0.key(first.1), &last.0.key(last.1)) > prefix_len
}
