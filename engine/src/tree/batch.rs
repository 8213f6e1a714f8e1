//! Many descents at once: a group of keys goes down level by level, and the next page of each is fetched while the others are searched.
//! A miss to memory costs 240 to 360 ns when it is waited for and about 25 ns when sixteen are under way.

use super::arena::NO_PAGE;
use super::view::{Found, Side, View, child_at_offset};
use crate::page::PageRef;

/// Descents under way together. More gain nothing: the processor tracks some twenty misses.
pub(crate) const GROUP: usize = 16;

/// Cache lines of an inner page to fetch ahead: header and the first heads; the processor's own prefetcher brings neighbours.
const LINES: usize = 16;

struct Group<'a> {
    pages: [PageRef<'a>; GROUP],
}

/// Takes a group of keys to their leaves. `visit` sees every inner page with the position taken in it.
#[inline(always)]
fn descend<'a>(
    view: &View<'a>,
    keys: &[impl AsRef<[u8]>],
    mut visit: impl FnMut(usize, &PageRef<'a>, usize),
) -> Group<'a> {
    let root = view.page(view.root);
    let mut group = Group { pages: [root; GROUP] };
    for _ in 1..view.height {
        for (number, key) in keys.iter().enumerate() {
            let page = group.pages[number];
            let position = page.child_position(key.as_ref());
            let child = page.child(position);
            PageRef::prefetch_at(view.arena.address(child), LINES);
            visit(number, &page, position);
            group.pages[number] = view.page(child);
        }
    }
    group
}

/// Fetches the records that the keys of a group will be compared with: the last miss of a lookup, and the only one that depends on the search of the leaf.
#[inline(always)]
fn prefetch_candidates(group: &Group<'_>, keys: &[impl AsRef<[u8]>]) {
    for (leaf, key) in group.pages.iter().zip(keys) {
        leaf.prefetch_candidate(key.as_ref());
    }
}

/// Looks up keys, and gives each with its number to `found`, in order within groups.
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
        let group = descend(view, keys, |_, _, _| ());
        prefetch_candidates(&group, keys);
        for (number, key) in keys.iter().enumerate() {
            let leaf = group.pages[number];
            let (position, hit) = leaf.search::<true>(key.as_ref());
            found(chunk * GROUP + number, hit.then(|| Found { record: leaf.leaf_record(position) }));
        }
    }
}

/// Counts the rows before each of the keys.
pub(crate) fn rows_before_many(
    view: &View<'_>,
    keys: &[impl AsRef<[u8]>],
    side: Side,
    mut counted: impl FnMut(usize, i64),
) {
    if view.root == NO_PAGE {
        (0..keys.len()).for_each(|number| counted(number, 0));
        return;
    }
    for (chunk, keys) in keys.chunks(GROUP).enumerate() {
        let mut rows = [0i64; GROUP];
        let group = descend(view, keys, |number, page, position| {
            rows[number] = rows[number].wrapping_add(page.rows_before(position));
        });
        prefetch_candidates(&group, keys);
        for number in 0..keys.len() {
            let leaf = group.pages[number];
            let (position, hit) = leaf.search::<true>(keys[number].as_ref());
            let position = position + usize::from(hit && side == Side::Through);
            counted(chunk * GROUP + number, rows[number] + view.leaf_tally(&leaf, 0, position).rows);
        }
    }
}

/// Finds the entries at the offsets of a bottom layer, all of which are below its rows.
pub(crate) fn nth_many<'a>(view: &View<'a>, offsets: &[u64], mut found: impl FnMut(usize, PageRef<'a>, usize)) {
    debug_assert!(view.is_bottom());
    for (chunk, offsets) in offsets.chunks(GROUP).enumerate() {
        let mut group = Group { pages: [view.page(view.root); GROUP] };
        let mut left = [0i64; GROUP];
        for (left, &offset) in left.iter_mut().zip(offsets) {
            *left = offset as i64;
        }
        for _ in 1..view.height {
            for (page, left) in group.pages.iter_mut().zip(&mut left).take(offsets.len()) {
                let (position, before) = child_at_offset(page.tallies(0), *left);
                *left -= before;
                let child = page.child(position);
                PageRef::prefetch_at(view.arena.address(child), LINES);
                *page = view.page(child);
            }
        }
        for (page, &left) in group.pages.iter().zip(&left).take(offsets.len()) {
            page.prefetch_record(left as usize);
        }
        for (number, (page, &left)) in group.pages.iter().zip(&left).take(offsets.len()).enumerate() {
            found(chunk * GROUP + number, *page, left as usize);
        }
    }
}

/// Brings the leaves of keys that are about to be written into the cache.
pub(crate) fn warm(view: &View<'_>, keys: &[impl AsRef<[u8]>]) {
    if view.height < 2 {
        return;
    }
    for keys in keys.chunks(GROUP) {
        let group = descend(view, keys, |_, _, _| ());
        prefetch_candidates(&group, keys);
    }
}
