//! Draws the numbers of the rows of a sample, each equally likely.
//!
//! Cost: one random number for each row, and a search among those drawn before.
//! Not here: the rows at these numbers (`read`).

use std::collections::BTreeSet;

use rand_core::Rng;

/// `wanted` different numbers below `count`, ascending, by Floyd's algorithm (Bentley and Floyd, 1987).
pub(crate) fn sample_offsets(count: u64, wanted: u64, rng: &mut impl Rng) -> Vec<u64> {
    if wanted >= count {
        return (0..count).collect();
    }
    let mut chosen = BTreeSet::new();
    for limit in count - wanted..count {
        let candidate = below(limit + 1, rng);
        if !chosen.insert(candidate) {
            chosen.insert(limit);
        }
    }
    chosen.into_iter().collect()
}

/// A uniform number below `limit`, by rejection (Lemire, 2019).
fn below(limit: u64, rng: &mut impl Rng) -> u64 {
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(limit);
        if product as u64 >= limit.wrapping_neg() % limit {
            return (product >> 64) as u64;
        }
    }
}
