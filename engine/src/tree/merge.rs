//! Merges a layer of writes into the tree below it.
//!
//! Not here: walks that read several layers as one (`stack/merge`), and merges of runs (`maintenance/compaction`).

use smallvec::SmallVec;

use super::{GROUP, Sweep, Tree, Walk, warm};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::tally::Tally;

/// How many entries a tree has for each that is merged into it, at least, if the leaves of these are fetched together.
const SPARSE: u64 = 16;

/// Merges the entries of `upper`, the layer above `lower`, into it: weights add.
pub(crate) fn merge_layer(lower: &mut Tree, upper: &Tree) -> Result<()> {
    merge_layer_but(lower, upper, |_, _| Ok(false))
}

/// Like [`merge_layer`], except for entries that `take` has taken, which it says by returning true.
#[inline]
pub(crate) fn merge_layer_but(
    lower: &mut Tree,
    upper: &Tree,
    mut take: impl FnMut(&[u8], Option<&[u8]>) -> Result<bool>,
) -> Result<()> {
    let view = upper.view();
    let measures = *upper.measures();
    let mut walk = Walk::first(view);
    // If most of many entries go to leaves of their own, a second walk has these fetched.
    let is_sparse = lower.is_bottom()
        && upper.entries() >= GROUP as u64
        && SPARSE.saturating_mul(upper.entries()) <= lower.entries();
    let mut ahead = is_sparse.then(|| walk.clone());
    let mut key = KeyBuffer::new();
    let mut sweep = Sweep::new();
    let mut merged = 0_usize;
    while walk.valid() {
        if merged.is_multiple_of(GROUP)
            && let Some(ahead) = &mut ahead
        {
            warm_next(lower, ahead);
        }
        merged += 1;
        key.clear();
        walk.key_into(&mut key);
        let value = walk.value();
        if take(&key, value)? {
            // It is where it belongs.
        } else if lower.is_bottom() {
            lower.sweep(&mut sweep, &key, value)?;
        } else {
            let weight = view.weight_of(&key, &walk.record());
            let row = value.map_or(Tally::ZERO, |value| measures.of_row(&key, value));
            lower.write_over(&key, value, |existing| Some(existing.map_or(row - weight, |existing| existing.below)))?;
        }
        walk.next();
    }
    Ok(())
}

/// Fetches the leaves that the next entries of a walk go to, and moves it after them.
fn warm_next(lower: &Tree, ahead: &mut Walk<'_>) {
    let mut keys: SmallVec<[KeyBuffer; GROUP]> = SmallVec::new();
    while ahead.valid() && keys.len() < GROUP {
        keys.push(ahead.key());
        ahead.next();
    }
    warm(&lower.view(), &keys);
}
