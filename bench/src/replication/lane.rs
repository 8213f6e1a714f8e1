//! One line of the tables: a question, and what was measured of it so far.

use super::crowd::Pace;
use super::{Question, Served, Trio};
use crate::clock::median;
use crate::report::Cell;
use crate::rows::Draw;
use crate::store::Result;

pub(crate) struct Lane {
    pub(crate) question: Question,
    /// The place of the cluster that is asked.
    pub(crate) trio: usize,
    /// The rate of the open loop.
    pub(crate) rate: f64,
    pub(crate) served: Served,
    closed: Vec<Served>,
}

impl Lane {
    pub(crate) fn new(question: Question, trio: usize) -> Self {
        Lane { question, trio, rate: 0.0, served: Served::none(), closed: Vec::new() }
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
        let pace = Pace { per_s: self.rate, seconds };
        self.served.add(&trio.open_loop(self.question, pace, &mut || draw.below(entities))?);
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
