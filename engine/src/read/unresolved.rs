//! Unresolved entries of blind tables: their keys and values are known, their weights are not.
//!
//! They lie in a tree of their own, above all layers of the table. Reads of keys and values look in it first, as in any
//! newest layer. Counts either take bounds, which the tree gives in O(log n), or have the entries *resolved*: what the
//! layers below have at their keys is looked up, in order and many at a time, and the same entries with the weights
//! that follow form a layer that counts like any other.
//!
//! Invariants:
//! 1. An unresolved key has no entry in the trees below: writes to such a key stay here until it is resolved. So only
//!    the runs lie below it, and the answer stays the same as long as they do.
//! 2. An entry of the tree weighs plus or minus one row, for a put or a removal, and one byte, whatever its length: so
//!    a tally gives the sum of both and their difference.
//! 3. A tree without entries does not exist.
//!
//! Not here: when entries are resolved in place (`maintenance/resolve.rs`), and what keeps the layers below from
//! changing.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::page::KeyBuffer;
use crate::stack::{Cut, Layer, Stack, infallible};
use crate::tally::{Measures, Tally};
use crate::tree::{Arena, Side, Tree, View, Walk};

/// The number of keys looked up together. Each may hold a page of 8 KiB meanwhile: 8 MiB in all, as much as a scan.
pub(crate) const TOGETHER: usize = 1024;

/// Address space for a few resolved entries, in bytes.
const RESOLVED_BYTES_MIN: u64 = 1 << 20;

/// What the tree counts besides rows: see invariant 2.
const COUNTS: Measures = Measures { bytes: true, hash: false, sum: None, ..Measures::ROWS };

/// A tree for unresolved entries.
pub(crate) fn new_tree(arena: &Arc<Arena>) -> Tree {
    Tree::new(arena.clone(), COUNTS, false)
}

/// Writes a value or, for `None`, a removal.
pub(crate) fn write(tree: &mut Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let row = value.map_or(Tally::ZERO, |value| COUNTS.of_row(key, value));
    let weight = Tally { rows: if value.is_some() { 1 } else { -1 }, bytes: 1, ..Tally::ZERO };
    tree.write_over(key, value, |_| Some(row - weight)).map(|_| ())
}

/// Removes an entry from the tree.
pub(crate) fn take_out(tree: &mut Tree, key: &[u8]) -> Result<()> {
    tree.write_over(key, None, |_| Some(Tally::ZERO)).map(|_| ())
}

/// The number of puts and of removals between two cuts.
pub(crate) fn count(view: View<'_>, start: Cut<'_>, end: Cut<'_>) -> (u64, u64) {
    let tree: Stack<'_, View<'_>> = Stack::new([view].into_iter().collect(), COUNTS);
    let Tally { rows, bytes, .. } = infallible(tree.tally(start, end));
    (((bytes + rows) / 2) as u64, ((bytes - rows) / 2) as u64)
}

/// The first keys between two cuts, at most as many as are looked up together.
pub(crate) fn keys(view: View<'_>, start: Cut<'_>, end: Cut<'_>) -> Vec<KeyBuffer> {
    let mut keys = Vec::new();
    if start.is_at_or_past(&end) {
        return keys;
    }
    let mut walk = walk_from(view, start);
    while walk.valid() && keys.len() < TOGETHER {
        let key = walk.key();
        if end.is_before(&key) {
            break;
        }
        keys.push(key);
        walk.next();
    }
    keys
}

fn walk_from<'a>(view: View<'a>, start: Cut<'_>) -> Walk<'a> {
    let start = match start {
        Cut::Before(key) => Some((key, Side::Below)),
        Cut::After(key) => Some((key, Side::Through)),
        Cut::Start | Cut::End => None,
    };
    infallible(Layer::seek(&view, start))
}

/// The entries between two cuts as a layer that counts. It has memory of its own, so a reader is not refused because
/// rows fill theirs. `below` looks up what lies below ascending keys, some at a time.
pub(crate) fn resolved<E: From<Error>>(
    view: View<'_>,
    (start, end): (Cut<'_>, Cut<'_>),
    measures: Measures,
    mut below: impl FnMut(&[KeyBuffer]) -> std::result::Result<Vec<Tally>, E>,
) -> std::result::Result<Tree, E> {
    // The same entries; weights that were two small numbers may become four large ones.
    let arena = Arena::new(view.page_bytes(), RESOLVED_BYTES_MIN + 4 * view.bytes_estimate())?;
    let mut layer = Tree::new(Arc::new(arena), measures, false);
    let mut last: Option<KeyBuffer> = None;
    loop {
        let start = last.as_ref().map_or(start, |last| Cut::After(last));
        let mut keys = keys(view, start, end);
        for (key, below) in keys.iter().zip(below(&keys)?) {
            let value = view.get(key).and_then(|found| found.value());
            layer.write_over(key, value, |_| Some(below))?;
        }
        match keys.pop() {
            Some(key) => last = Some(key),
            None => return Ok(layer),
        }
    }
}
