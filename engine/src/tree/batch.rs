//! Interleaved descents: a group of keys goes down level by level.
//!
//! What one key needs next is fetched while the others are searched: a miss to memory costs 240 to 360 ns on its own,
//! and about 25 ns when sixteen are in flight.
//!
//! A group fetches its leaves into the second cache, and of each only what is needed next: the heads, then one slot,
//! then one record. The first cache has at most two dozen misses in flight, and the leaves of a group take 160 lines.
//! Also, pages begin at multiples of 4096 bytes, so the same line of each falls into the same set, which has eight
//! places. With the first cache as the target a batch takes half as long again.

use super::arena::NO_PAGE;
use super::view::{Found, HEAD_BYTES, Side, View, child_at_offset};
use crate::page::{Aim, PageRef};

/// The number of descents in flight together. Twice as many take 10 % longer.
pub(crate) const GROUP: usize = 16;

/// The two ends of a range. So few leaves fit the first cache, and are read at once.
const PAIR: usize = 2;

/// The leaves of a group of keys, and how far heads locate each key in its leaf. The records that decide the rest are
/// being fetched.
struct Leaves<'a, const N: usize> {
    pages: [PageRef<'a>; N],
    aims: [Aim; N],
}

/// Takes `count` keys to their leaves. `visit` gets every inner page with the position taken in it.
#[inline(always)]
fn descend<'a, 'k, const N: usize>(
    view: &View<'a>,
    count: usize,
    key: impl Fn(usize) -> &'k [u8],
    mut visit: impl FnMut(usize, &PageRef<'a>, usize),
) -> Leaves<'a, N> {
    let mut pages = [view.page(view.root); N];
    let mut aims = [Aim::default(); N];
    for level in (1..view.height).rev() {
        if level + 1 < view.height {
            pages[..count].iter().for_each(PageRef::prefetch_heads);
        }
        for (number, page) in pages[..count].iter_mut().enumerate() {
            let position = page.child_position(key(number));
            let child = page.child(position);
            let address = view.arena.address(child);
            if level == 1 {
                let lines = view.leaf_lines(page, position, HEAD_BYTES);
                if N > PAIR { PageRef::prefetch_far_at(address, lines) } else { PageRef::prefetch_at(address, lines) }
            } else {
                PageRef::prefetch_at(address, 1);
            }
            visit(number, page, position);
            *page = view.page(child);
        }
    }
    for (number, (leaf, aim)) in pages[..count].iter().zip(&mut aims).enumerate() {
        *aim = leaf.aim::<true>(key(number));
        leaf.prefetch_slot(*aim);
    }
    for (leaf, aim) in pages[..count].iter().zip(&aims) {
        leaf.prefetch_aim(*aim);
    }
    Leaves { pages, aims }
}

/// Looks up keys. `found` gets each entry with the index of its key, in order.
pub(crate) fn get_many<'a>(
    view: &View<'a>,
    keys: &[impl AsRef<[u8]>],
    mut found: impl FnMut(usize, Option<Found<'a>>),
) {
    if view.root == NO_PAGE {
        (0..keys.len()).for_each(|number| found(number, None));
        return;
    }
    for (chunk, keys) in keys.chunks(GROUP).enumerate() {
        let leaves = descend::<GROUP>(view, keys.len(), |number| keys[number].as_ref(), |_, _, _| ());
        for (number, key) in keys.iter().enumerate() {
            let leaf = leaves.pages[number];
            let (position, hit) = leaf.settle::<true>(leaves.aims[number], key.as_ref());
            found(chunk * GROUP + number, hit.then(|| Found { record: leaf.leaf_record(position) }));
        }
    }
}

/// Counts the rows before each of the cuts. `counted` gets the counts in order.
pub(crate) fn rows_before_many(
    view: &View<'_>,
    cuts: &[(impl AsRef<[u8]>, Side)],
    mut counted: impl FnMut(usize, i64),
) {
    if view.root == NO_PAGE {
        (0..cuts.len()).for_each(|number| counted(number, 0));
        return;
    }
    for (chunk, cuts) in cuts.chunks(GROUP).enumerate() {
        let mut rows = [0i64; GROUP];
        let mut below = [view.total.rows; GROUP];
        let leaves = descend::<GROUP>(
            view,
            cuts.len(),
            |number| cuts[number].0.as_ref(),
            |number, page, position| {
                rows[number] = rows[number].wrapping_add(page.rows_before(position, below[number]));
                below[number] = page.tallies(0)[position];
            },
        );
        for (number, (key, side)) in cuts.iter().enumerate() {
            let leaf = leaves.pages[number];
            let (position, hit) = leaf.settle::<true>(leaves.aims[number], key.as_ref());
            let position = position + usize::from(hit && *side == Side::Through);
            counted(chunk * GROUP + number, rows[number] + view.leaf_rows_before(&leaf, position));
        }
    }
}

/// Counts the rows between two cuts, the first not after the second, of a tree that is not empty. Both descents are
/// interleaved.
pub(super) fn rows_between(view: &View<'_>, cuts: [(&[u8], Side); PAIR]) -> i64 {
    let mut rows = 0i64;
    let mut below = [view.total.rows; PAIR];
    let mut start = (view.page(view.root), 0);
    // Each level is visited for the start, then for the end. While both take the same page, only what lies between
    // their positions there counts.
    let leaves = descend::<PAIR>(
        view,
        PAIR,
        |number| cuts[number].0,
        |number, page, position| {
            if number == 0 {
                start = (*page, position);
                return;
            }
            let (start_page, start_position) = start;
            if start_page.start() == page.start() {
                rows = rows.wrapping_add(page.rows_between(start_position, position));
            } else {
                rows = rows.wrapping_add(page.rows_before(position, below[1]));
                rows = rows.wrapping_sub(start_page.rows_before(start_position, below[0]));
            }
            below = [start_page.tallies(0)[start_position], page.tallies(0)[position]];
        },
    );
    let before = |number: usize| {
        let (key, side) = cuts[number];
        let leaf = leaves.pages[number];
        let (position, hit) = leaf.settle::<true>(leaves.aims[number], key);
        view.leaf_rows_before(&leaf, position + usize::from(hit && side == Side::Through))
    };
    rows + before(1) - before(0)
}

/// Finds the entries at the offsets of a bottom layer, all of which are below its row count.
pub(crate) fn nth_many<'a>(view: &View<'a>, offsets: &[u64], mut found: impl FnMut(usize, PageRef<'a>, usize)) {
    debug_assert!(view.is_bottom());
    for (chunk, offsets) in offsets.chunks(GROUP).enumerate() {
        let mut pages = [view.page(view.root); GROUP];
        let mut left = [0i64; GROUP];
        for (left, &offset) in left.iter_mut().zip(offsets) {
            *left = offset as i64;
        }
        for level in (1..view.height).rev() {
            for (page, left) in pages.iter_mut().zip(&mut left).take(offsets.len()) {
                let (position, before) = child_at_offset(page.tallies(0), *left);
                *left -= before;
                let child = page.child(position);
                if level == 1 {
                    view.prefetch_entry(page, position, child, *left as usize);
                } else {
                    PageRef::prefetch_at(view.arena.address(child), 1);
                }
                *page = view.page(child);
            }
        }
        for (page, &left) in pages.iter().zip(&left).take(offsets.len()) {
            page.prefetch_record(left as usize);
        }
        for (number, (page, &left)) in pages.iter().zip(&left).take(offsets.len()).enumerate() {
            found(chunk * GROUP + number, *page, left as usize);
        }
    }
}

/// Fetches the leaves of keys that are about to be written into the processor's cache.
pub(crate) fn warm(view: &View<'_>, keys: &[impl AsRef<[u8]>]) {
    if view.height < 2 {
        return;
    }
    for keys in keys.chunks(GROUP) {
        descend::<GROUP>(view, keys.len(), |number| keys[number].as_ref(), |_, _, _| ());
    }
}
