//! Merges a layer of writes into the tree below it.

use super::{Sweep, Tree, Walk};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::tally::Tally;

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
    let mut key = KeyBuffer::new();
    let mut sweep = Sweep::new();
    while walk.valid() {
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
