//! Merges a layer of writes into the tree below it.

use smallvec::SmallVec;

use super::write::Existing;
use super::{GROUP, Sweep, Tree, Walk, warm};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::tally::Tally;

/// The key of an entry, its value and its weight.
type Entry<'l> = (KeyBuffer, Option<&'l [u8]>, Tally);

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
    let mut sweep = Sweep::new();
    // Most entries go to leaves of their own.
    let is_sparse = lower.is_bottom() && SPARSE * upper.entries() <= lower.entries();
    let mut entries: SmallVec<[Entry<'_>; GROUP]> = SmallVec::new();
    while walk.valid() {
        while walk.valid() && entries.len() < GROUP {
            let key = walk.key();
            let weight = if lower.is_bottom() { Tally::ZERO } else { view.weight_of(&key, &walk.record()) };
            entries.push((key, walk.value(), weight));
            walk.next();
        }
        if is_sparse {
            let keys: SmallVec<[&[u8]; GROUP]> = entries.iter().map(|(key, ..)| &**key).collect();
            warm(&lower.view(), &keys);
        }
        for (key, value, weight) in entries.drain(..) {
            if take(&key, value)? {
                // It is where it belongs.
            } else if lower.is_bottom() {
                lower.sweep(&mut sweep, &key, value)?;
            } else {
                let row = value.map_or(Tally::ZERO, |value| measures.of_row(&key, value));
                let below = |existing: Option<Existing>| Some(existing.map_or(row - weight, |existing| existing.below));
                lower.write_over(&key, value, below)?;
            }
        }
    }
    Ok(())
}
