//! Seeded chance: every choice of the generators goes through one [`Dice`].

use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// A seeded source of choices. The same seed makes the same choices in the same order.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// A number of a range.
    pub fn within(&mut self, range: RangeInclusive<i64>) -> i64 {
        self.0.random_range(range)
    }

    /// Whether something that happens in `percent` of 100 cases happens now.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of some choices, all equally likely.
    ///
    /// # Panics
    ///
    /// If there is nothing to choose from.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// One of some choices, each as likely as its weight.
    ///
    /// # Panics
    ///
    /// If all weights are 0.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let total = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for &(weight, choice) in choices {
            if left < weight {
                return choice;
            }
            left -= weight;
        }
        unreachable!("`left` was below the sum of the weights")
    }

    /// `count` arbitrary bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A seed for other dice.
    pub fn seed(&mut self) -> u64 {
        self.0.random_range(0..1_000_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_choices() {
        let choices = |seed| {
            let mut dice = Dice::new(seed);
            (dice.bytes(5), dice.below(1000), dice.weighted(&[(1, 'a'), (50, 'b')]), dice.pick(&["x", "y", "z"]))
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
    }

    #[test]
    fn a_weight_of_nothing_is_never_chosen() {
        let mut dice = Dice::new(1);
        assert!((0..1000).all(|_| dice.weighted(&[(0, 1), (3, 2), (0, 3)]) == 2));
    }
}
