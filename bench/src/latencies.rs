//! Latencies of single calls: percentiles without keeping every sample.

use hdrhistogram::Histogram;

use crate::clock::{Deadline, nanos_of};
use crate::report::Cell;
use crate::store::Result;

/// Times of calls from 1 ns to [`NANOS_MAX`], to three digits.
pub(crate) struct Latencies(Histogram<u64>);

/// A longer call counts as this long: 1,000 s.
const NANOS_MAX: u64 = 1_000_000_000_000;

impl Latencies {
    pub(crate) fn new() -> Self {
        Latencies(
            Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("the bounds are in order and three digits are allowed"),
        )
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds the samples of another.
    pub(crate) fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Times `call` until the deadline, at least `least` and at most `most` times.
    pub(crate) fn measure(
        &mut self,
        least: u64,
        most: u64,
        deadline: &Deadline,
        mut call: impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        let mut sum = 0_u64;
        for number in 0..most {
            if number >= least && deadline.passed() {
                break;
            }
            let (answer, nanos) = nanos_of(&mut call);
            sum = sum.wrapping_add(answer?);
            self.record(nanos);
        }
        std::hint::black_box(sum);
        Ok(())
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn median_nanos(&self) -> f64 {
        self.0.value_at_quantile(0.5) as f64
    }

    pub(crate) fn median(&self) -> Cell {
        self.at(0.5)
    }

    /// The 99th percentile, if there are at least 100 samples.
    pub(crate) fn p99(&self) -> Cell {
        if self.0.len() < 100 { Cell::Missing } else { Cell::Nanos(self.p99_nanos()) }
    }

    /// The time that this part of the samples did not exceed, if there are any.
    pub(crate) fn at(&self, quantile: f64) -> Cell {
        if self.0.is_empty() { Cell::Missing } else { Cell::Nanos(self.nanos_at(quantile)) }
    }

    pub(crate) fn p99_nanos(&self) -> f64 {
        self.nanos_at(0.99)
    }

    /// The time that this part of the samples did not exceed; 0 of none.
    pub(crate) fn nanos_at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64
    }

    /// The 99.9th percentile, if there are at least 1000 samples.
    pub(crate) fn p999(&self) -> Cell {
        if self.0.len() < 1000 { Cell::Missing } else { Cell::Nanos(self.nanos_at(0.999)) }
    }

    pub(crate) fn average_nanos(&self) -> f64 {
        self.0.mean()
    }

    pub(crate) fn average(&self) -> Cell {
        if self.0.is_empty() { Cell::Missing } else { Cell::Nanos(self.average_nanos()) }
    }

    pub(crate) fn longest(&self) -> Cell {
        if self.0.is_empty() { Cell::Missing } else { Cell::Nanos(self.0.max() as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_single_calls() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.median(), Cell::Missing);
        for nanos in 1..=99 {
            latencies.record(nanos * 1_000_000);
        }
        assert_eq!(latencies.p99(), Cell::Missing, "too few samples");
        latencies.record(u64::MAX);
        let Cell::Nanos(median) = latencies.median() else { panic!("a median of 100 samples") };
        assert!((49e6..=51e6).contains(&median), "{median}");
        let Cell::Nanos(p99) = latencies.p99() else { panic!("a 99th percentile of 100 samples") };
        assert!((98e6..=100e6).contains(&p99), "{p99}");
    }

    #[test]
    fn measuring_stops_at_the_deadline_but_not_before_the_least() {
        let mut latencies = Latencies::new();
        let passed = Deadline::after(1e-9);
        while !passed.passed() {}
        latencies.measure(2, 100, &passed, || Ok(1)).unwrap();
        assert_eq!(latencies.count(), 2);
    }
}
