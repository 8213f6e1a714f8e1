//! Entries of blind tables of which nobody has asked yet what lies below: keys and values that are known, and weights that are not.
//!
//! They lie in a tree of their own, over all layers of the table. Who reads keys and values looks at it first, as at any newest layer. Who counts either takes bounds, which
//! the tree knows in O(log n), or has the entries *resolved*: what the layers below have at their keys is looked up, in order and many at a time, and the same entries
//! with the weights that follow from it make a layer that counts like any other.
//!
//! Invariants:
//! 1. A key that is unresolved has no entry in the trees below it: writes to such a key stay here until it is resolved. So what lies below is in the runs alone, and stays
//!    the same as long as these do.
//! 2. An entry of the tree weighs one row more or less, a put or a removal, and one byte, whatever its length: a tally is both together and their difference.
//! 3. A tree without entries is none.
//!
//! Not here: when entries are resolved in place (`blind`), and who keeps the layers below from changing.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::page::KeyBuffer;
use crate::stack::{Cut, Layer, Stack, ask_all, resident};
use crate::tally::{Measures, Tally};
use crate::tree::{Arena, Side, Tree, View, Walk};

/// Keys that are looked up together. Each may need a page that is held meanwhile: of 8 KiB, 8 MiB in all, as much as a scan holds.
pub(crate) const TOGETHER: usize = 1024;

/// What the tree counts beside rows: see invariant 2.
const COUNTS: Measures = Measures { bytes: true, hash: false, sum: None };

/// A tree for unresolved entries.
pub(crate) fn new_tree(arena: &Arc<Arena>) -> Tree {
    Tree::new(arena.clone(), COUNTS, false)
}

/// Puts a value, or that the key was removed.
pub(crate) fn write(tree: &mut Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let row = value.map_or(Tally::ZERO, |value| COUNTS.of_row(key, value));
    let weight = Tally { rows: if value.is_some() { 1 } else { -1 }, bytes: 1, ..Tally::ZERO };
    tree.write_over(key, value, |_| Some(row - weight)).map(|_| ())
}

/// Takes an entry out.
pub(crate) fn take_out(tree: &mut Tree, key: &[u8]) -> Result<()> {
    tree.write_over(key, None, |_| Some(Tally::ZERO)).map(|_| ())
}

/// How many there are between two cuts: puts and removals.
pub(crate) fn count(view: View<'_>, start: Cut<'_>, end: Cut<'_>) -> (u64, u64) {
    let tree: Stack<'_, View<'_>> = Stack::new([view].into_iter().collect(), COUNTS);
    let Tally { rows, bytes, .. } = resident(tree.tally(start, end));
    (((bytes + rows) / 2) as u64, ((bytes - rows) / 2) as u64)
}

/// The first keys between two cuts, no more than are looked up together.
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
    resident(Layer::seek(&view, start))
}

/// What a stack adds to the tally at each of some keys. All pages that are missing for it are asked for before one is missed.
pub(crate) fn contributions<'a, L: Layer<'a>>(
    stack: &Stack<'a, L>,
    keys: &[KeyBuffer],
) -> std::result::Result<Vec<Tally>, L::Fault> {
    let mut tallies = Vec::with_capacity(keys.len());
    ask_all(keys.iter().map(|key| stack.contribution(key)), |tally| tallies.push(tally))?;
    Ok(tallies)
}

/// The entries between two cuts as a layer that counts. `below` is asked for what lies below keys, ascending and some at a time.
pub(crate) fn resolved<E: From<Error>>(
    view: View<'_>,
    (start, end): (Cut<'_>, Cut<'_>),
    (arena, measures): (&Arc<Arena>, Measures),
    mut below: impl FnMut(&[KeyBuffer]) -> std::result::Result<Vec<Tally>, E>,
) -> std::result::Result<Tree, E> {
    let mut layer = Tree::new(arena.clone(), measures, false);
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
