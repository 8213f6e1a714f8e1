//! How long single calls took: percentiles without keeping every sample.

use hdrhistogram::Histogram;

use crate::clock::{Deadline, nanos_of};
use crate::report::Cell;
use crate::store::Result;

/// Times of calls, to three digits.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Latencies(Histogram::new(3).expect("three digits are allowed"))
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
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
        if self.0.is_empty() { Cell::Missing } else { Cell::Nanos(self.median_nanos()) }
    }

    /// The 99th percentile, if there are at least 100 samples.
    pub(crate) fn p99(&self) -> Cell {
        if self.0.len() < 100 { Cell::Missing } else { Cell::Nanos(self.0.value_at_quantile(0.99) as f64) }
    }
}
