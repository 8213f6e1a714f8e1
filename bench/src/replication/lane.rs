//! One line of the tables: a question, and what was measured of it so far.

use std::time::Duration;

use super::crowd::Pace;
use super::{Question, Search, Served, Trio};
use crate::clock::median;
use crate::report::Cell;
use crate::rows::Draw;
use crate::store::Result;

/// A rate is held if the 99th percentile stays below.
const HELD_BELOW: Duration = Duration::from_millis(10);

pub(crate) struct Lane {
    pub(crate) question: Question,
    /// The place of the cluster that is asked.
    pub(crate) trio: usize,
    /// The rate of the open loop.
    pub(crate) rate: f64,
    pub(crate) served: Served,
    closed: Vec<Served>,
    /// How the search for the highest rate stands, and the fastest turn that held.
    pub(crate) search: Search,
    pub(crate) best: Option<Served>,
}

impl Lane {
    pub(crate) fn new(question: Question, trio: usize) -> Self {
        let (served, search) = (Served::none(), Search::from(0.0));
        Lane { question, trio, rate: 0.0, served, closed: Vec::new(), search, best: None }
    }

    /// A turn in a closed loop.
    pub(crate) fn closed_loop(&mut self, trio: &mut Trio, seconds: f64, mut draw: Draw, entities: u64) -> Result<()> {
        let deadline = crate::clock::Deadline::after(seconds);
        let next = &mut || (!deadline.passed()).then(|| draw.below(entities));
        self.closed.push(trio.closed_loop(self.question, next)?);
        trio.settle();
        Ok(())
    }

    /// A turn at the lane's rate.
    pub(crate) fn open_loop(&mut self, trio: &mut Trio, seconds: f64, mut draw: Draw, entities: u64) -> Result<()> {
        let pace = Pace { per_s: self.rate, seconds, give_up_at: None };
        self.served.add(&trio.open_loop(self.question, pace, &mut || draw.below(entities))?);
        trio.settle();
        Ok(())
    }

    /// Starts the search for the highest rate where a queue is unlikely: at half of the closed loop's.
    pub(crate) fn begin_search(&mut self) {
        self.search = Search::from(self.closed_rate() / 2.0);
    }

    /// A turn of the search for the highest rate, if it is not over.
    pub(crate) fn search(&mut self, trio: &mut Trio, seconds: f64, mut draw: Draw, entities: u64) -> Result<()> {
        let Some(rate) = self.search.next() else { return Ok(()) };
        let pace = Pace { per_s: rate, seconds, give_up_at: Some(HELD_BELOW) };
        let served = trio.open_loop(self.question, pace, &mut || draw.below(entities))?;
        let is_fast = served.latencies.p99_nanos() < HELD_BELOW.as_nanos() as f64;
        let is_held = !served.gave_up && served.failed == 0 && is_fast;
        self.search.tell(is_held);
        if is_held {
            self.best = Some(served);
        }
        trio.settle();
        Ok(())
    }

    /// The median rate of the closed loop.
    pub(crate) fn closed_rate(&self) -> f64 {
        median(self.closed.iter().map(Served::rate).collect())
    }

    /// Answers that were not good, of both loops.
    pub(crate) fn failed(&self) -> u64 {
        self.served.failed + self.closed.iter().map(|served| served.failed).sum::<u64>()
    }
}

impl Served {
    /// CPU time of the cluster, and of the client, for each request.
    pub(crate) fn cpu_cells(&self) -> [Cell; 2] {
        let each = |seconds: f64| Cell::Nanos(seconds * 1e9 / (self.answered as f64).max(1.0));
        [each(self.nodes_cpu_s), each(self.client_cpu_s)]
    }
}
