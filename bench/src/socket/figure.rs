//! Times of requests: figures of one server and turn, and medians of them for a table.

use super::{Batch, Connection, Running};
use crate::clock::{Deadline, median};
use crate::paired::STATISTICS;
use crate::report::Cell;
use crate::store::Result;

/// What one kind of request took one server in one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    /// Nanoseconds per request of each batch, or of each request.
    pub(crate) nanos: Vec<f64>,
    pub(crate) requests: u64,
    pub(crate) wall_s: f64,
    /// The server's, with what it did in the background until it stood still.
    pub(crate) cpu_s: f64,
    /// How much its memory grew.
    pub(crate) resident_bytes: f64,
}

impl Figure {
    /// Sends what `fill` makes of the numbers 0 to `requests`, in batches, until the deadline.
    pub(crate) fn measure(
        server: &Running,
        connection: &mut Connection,
        requests: u64,
        batch_size: u64,
        deadline: &Deadline,
        fill: &mut dyn FnMut(&mut Batch, u64),
    ) -> Result<Self> {
        let (cpu_before_s, resident_before) = (server.cpu_s(), server.resident_bytes());
        let mut figure = Figure::default();
        let mut batch = Batch::default();
        while figure.requests < requests && !(figure.requests > 0 && deadline.passed()) {
            let size = batch_size.min(requests - figure.requests);
            batch.clear();
            for number in figure.requests..figure.requests + size {
                fill(&mut batch, number);
            }
            let nanos = connection.exchange(&batch).map_err(|error| format!("{}: {error}", server.name))?;
            figure.record(size, nanos);
        }
        server.settle();
        figure.cpu_s = server.cpu_s() - cpu_before_s;
        figure.resident_bytes = server.resident_bytes() as f64 - resident_before as f64;
        Ok(figure)
    }

    /// Adds a batch of `size` requests that took `nanos`.
    pub(crate) fn record(&mut self, size: u64, nanos: u64) {
        self.nanos.push(nanos as f64 / size as f64);
        self.wall_s += nanos as f64 * 1e-9;
        self.requests += size;
    }

    pub(crate) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.wall_s
    }

    pub(crate) fn cpu_nanos(&self) -> f64 {
        self.cpu_s * 1e9 / self.requests as f64
    }

    /// As named in [`STATISTICS`].
    pub(crate) fn statistic(&self, name: &str) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_by(f64::total_cmp);
        STATISTICS.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, statistic)| statistic(&sorted))
    }
}

/// The median over turns of what `of` makes of each.
pub(crate) fn median_of(figures: &[Figure], of: impl Fn(&Figure) -> f64) -> Option<f64> {
    (!figures.is_empty()).then(|| median(figures.iter().map(of).collect()))
}

/// How many were asked, `more`, the rate and these statistics.
pub(crate) fn cells_of(figures: &[Figure], more: &[Cell], statistics: &[&str]) -> Vec<Cell> {
    let asked: u64 = figures.iter().map(|figure| figure.requests).sum();
    let mut cells = vec![if figures.is_empty() { Cell::Missing } else { Cell::Count(asked) }];
    cells.extend(more.iter().map(|cell| if figures.is_empty() { Cell::Missing } else { cell.clone() }));
    cells.push(median_of(figures, Figure::requests_per_s).map_or(Cell::Missing, Cell::PerSecond));
    for name in statistics {
        cells.push(median_of(figures, |figure| figure.statistic(name)).map_or(Cell::Missing, Cell::Nanos));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_in_a_thousand_is_the_second_worst_of_a_thousand() {
        let figure =
            Figure { nanos: (1..=1000).map(f64::from).collect(), requests: 10, wall_s: 2.0, ..Figure::default() };
        assert_eq!(figure.statistic("99.9 %"), 999.0);
        assert_eq!((figure.statistic("min"), figure.requests_per_s()), (1.0, 5.0));
        assert_eq!(median_of(&[], Figure::requests_per_s), None);
    }
}
