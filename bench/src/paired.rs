//! Two things measured in turns, batch by batch, and how the second differs from the first.

use crate::clock::median;

/// Nanoseconds per call of each batch, of two things that took turns batch by batch.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) old: Vec<f64>,
    pub(crate) new: Vec<f64>,
}

/// A figure of one turn's batches, in ascending order.
pub(crate) type Statistic = fn(&[f64]) -> f64;

pub(crate) const AVERAGE: Statistic = |sorted| sorted.iter().sum::<f64>() / sorted.len() as f64;
pub(crate) const MEDIAN: Statistic = |sorted| quantile(sorted, 0.5);

pub(crate) const STATISTICS: [(&str, Statistic); 6] = [
    ("avg", AVERAGE),
    ("med", MEDIAN),
    ("min", |sorted| sorted[0]),
    ("90 %", |sorted| quantile(sorted, 0.9)),
    ("99 %", |sorted| quantile(sorted, 0.99)),
    ("99.9 %", |sorted| quantile(sorted, 0.999)),
];

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

/// A statistic of both: medians over the turns, the median change of a turn, and its spread.
pub(crate) struct Change {
    pub(crate) old: f64,
    pub(crate) new: f64,
    pub(crate) percent: f64,
    pub(crate) spread_percent: f64,
}

impl Change {
    /// The change of a statistic from one to the other.
    pub(crate) fn of(turns: &[Turn], statistic: Statistic) -> Self {
        let (old, new): (Vec<f64>, Vec<f64>) = turns.iter().map(|turn| turn.statistics(statistic)).unzip();
        let percents = old.iter().zip(&new).map(|(old, new)| percent(*old, *new)).collect();
        Change::new(old, new, percents)
    }

    /// The median change from a batch to its neighbour in time: what is least hurt by a busy machine.
    pub(crate) fn paired(turns: &[Turn]) -> Self {
        let (old, new) = turns.iter().map(|turn| turn.statistics(MEDIAN)).unzip();
        let of_turn =
            |turn: &Turn| median(turn.old.iter().zip(&turn.new).map(|(old, new)| percent(*old, *new)).collect());
        Change::new(old, new, turns.iter().map(of_turn).collect())
    }

    fn new(old: Vec<f64>, new: Vec<f64>, percents: Vec<f64>) -> Self {
        let mean = percents.iter().sum::<f64>() / percents.len() as f64;
        let variance = percents.iter().map(|percent| (percent - mean).powi(2)).sum::<f64>() / percents.len() as f64;
        Change { old: median(old), new: median(new), percent: median(percents), spread_percent: variance.sqrt() }
    }
}

impl Turn {
    fn statistics(&self, statistic: Statistic) -> (f64, f64) {
        let of = |batches: &[f64]| {
            let mut sorted = batches.to_vec();
            sorted.sort_by(f64::total_cmp);
            statistic(&sorted)
        };
        (of(&self.old), of(&self.new))
    }
}

/// The change from `old` to `new`.
pub(crate) fn percent(old: f64, new: f64) -> f64 {
    (new / old - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_compares_trees_of_the_same_turn() {
        let turn = |scale: f64| Turn { old: vec![scale, 3.0 * scale], new: vec![1.1 * scale, 3.3 * scale] };
        let turns = [turn(100.0), turn(200.0), turn(300.0)];
        for change in [Change::of(&turns, MEDIAN), Change::paired(&turns)] {
            assert!((change.percent - 10.0).abs() < 1e-9);
            assert!(change.spread_percent < 1e-9);
            assert!((change.old - 200.0).abs() < 1e-9 && (change.new - 220.0).abs() < 1e-9);
        }
    }
}
