//! The popularity of records: a few are asked very often, most hardly ever.
//!
//! The generator is that of Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), which
//! YCSB uses: the two most popular ranks have their exact shares, the others follow a curve that is close to theirs. A
//! draw costs one power; to prepare it costs one power for each record.

use crate::rows::Draw;

/// The exponent: the record of rank `k` (from 1) is asked in proportion to `k` to the power of minus this.
const THETA: f64 = 0.99;

/// Ranks from 0, the most popular, to a count.
pub(crate) struct Zipfian {
    count: u64,
    /// The sum of all ranks' weights, that of the first being 1.
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// The distribution over `count` ranks, of which there must be one.
    pub(crate) fn new(count: u64) -> Self {
        let zeta = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_two() / zeta);
        Zipfian { count, zeta, eta }
    }

    /// A rank.
    pub(crate) fn rank(&self, draw: &mut Draw) -> u64 {
        let unit = draw.unit();
        let weight = unit * self.zeta;
        if weight < 1.0 {
            return 0;
        }
        if weight < zeta_of_two() {
            return 1.min(self.count - 1);
        }
        let share = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.count as f64 * share) as u64).min(self.count - 1)
    }
}

fn zeta(count: u64) -> f64 {
    (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum()
}

fn zeta_of_two() -> f64 {
    1.0 + 0.5_f64.powf(THETA)
}

/// Scatters ranks over the numbers below a count, one to one, so that popular records are not those that were loaded
/// first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    count: u64,
    factor: u64,
}

impl Scatter {
    /// Over `count` numbers.
    pub(crate) fn new(count: u64) -> Self {
        // Steps of the golden section leave no gaps; without a common divisor they meet every number before the first
        // again.
        let mut factor = ((count as f64 * 0.618_033_988_749_895) as u64).max(1);
        while greatest_common_divisor(factor, count) != 1 {
            factor += 1;
        }
        Scatter { count, factor }
    }

    /// The number of this rank.
    pub(crate) fn number_of(&self, rank: u64) -> u64 {
        let steps = u128::from(rank) * u128::from(self.factor) + u128::from(self.count / 2);
        (steps % u128::from(self.count)) as u64
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of 10,000 ranks comes in a million draws, as shares.
    fn shares() -> Vec<f64> {
        const DRAWS: u32 = 1_000_000;
        let zipfian = Zipfian::new(10_000);
        let mut draw = Draw::new(11);
        let mut counts = vec![0_u32; 10_000];
        for _ in 0..DRAWS {
            counts[zipfian.rank(&mut draw) as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    #[test]
    fn the_most_popular_ranks_have_the_shares_of_theory() {
        let shares = shares();
        let theory = |ranks: u64| zeta(ranks) / zeta(10_000);
        let near = |share: f64, expected: f64, tolerance: f64| {
            assert!((share / expected - 1.0).abs() < tolerance, "{share} instead of {expected}");
        };
        // 9.77 %, 4.92 %; the first hundred get half of all. The sample alone moves the first by 0.3 % of itself.
        near(shares[0], theory(1), 0.02);
        near(shares[1], theory(2) - theory(1), 0.02);
        // From the third rank on the curve is an approximation.
        near(shares[..10].iter().sum(), theory(10), 0.05);
        near(shares[..100].iter().sum(), theory(100), 0.05);
        near(shares[..1000].iter().sum(), theory(1000), 0.05);
        assert!(shares[9_000..].iter().sum::<f64>() > 0.005, "the unpopular are asked too");
    }

    #[test]
    fn few_records_are_enough() {
        let mut draw = Draw::new(5);
        for count in 1..5 {
            let zipfian = Zipfian::new(count);
            assert!((0..1000).all(|_| zipfian.rank(&mut draw) < count));
        }
    }

    #[test]
    fn scattering_meets_every_number_once() {
        for count in [1, 2, 6, 1_000, 10_007, 65_536] {
            let scatter = Scatter::new(count);
            let mut met = vec![false; count as usize];
            for rank in 0..count {
                assert!(!std::mem::replace(&mut met[scatter.number_of(rank) as usize], true), "{rank} of {count}");
            }
        }
    }

    #[test]
    fn popular_records_are_far_apart() {
        let scatter = Scatter::new(1_000_000);
        let mut popular: Vec<u64> = (0..100).map(|rank| scatter.number_of(rank)).collect();
        popular.sort_unstable();
        assert!(popular.windows(2).all(|pair| pair[1] - pair[0] > 1_000), "{popular:?}");
    }
}
