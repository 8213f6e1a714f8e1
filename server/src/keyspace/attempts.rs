//! Work on the data that is done again until the pages of runs that it needs are in memory.
//!
//! Commands of connections are tried again by the loop that serves these; what is here is for all else.

use quipu::latched::{PageFaults, PendingCommit};
use quipu::{Error, ErrorKind, Result};

use super::{Data, Keyspace, Need};

impl Keyspace {
    /// Runs `work` in a hold of its own, once, with the pages that earlier attempts lacked. Returns what it returned,
    /// and the commits to wait for.
    ///
    /// # Errors
    /// [`ErrorKind::PageFault`] if a page is missing: `faults` says which, and nothing was written. Those of `work`,
    /// which keep what was written before them.
    pub fn attempt<T>(
        &self,
        need: Need,
        now_ms: u64,
        faults: &mut PageFaults,
        work: impl FnOnce(&mut Data<'_>) -> Result<T>,
    ) -> Result<(T, PendingCommit<'_>)> {
        let data = Data::open(self, need, now_ms)?;
        attempt_in(data, faults, work)
    }

    /// Runs `work` in a hold for reading what is live, and nothing else.
    ///
    /// # Errors
    /// Those of [`Keyspace::attempt`].
    pub fn attempt_exactly<T>(
        &self,
        now_ms: u64,
        faults: &mut PageFaults,
        work: impl FnOnce(&mut Data<'_>) -> Result<T>,
    ) -> Result<(T, PendingCommit<'_>)> {
        let mut data = Data::open_exact(self, now_ms)?;
        data.lend(faults);
        if let Err(error) = data.make_exact() {
            data.take_back(faults)?;
            return Err(error);
        }
        attempt_in(data, faults, work)
    }

    /// Runs `work` for a step of work that has many, after those who wait for the data now, and again until its pages
    /// are there. Nothing may be held.
    ///
    /// # Errors
    /// Those of `work` and of reading a page of a run.
    pub(super) fn step<T>(&self, need: Need, mut work: impl FnMut(&mut Data<'_>) -> Result<T>) -> Result<T> {
        let (done, _) = self.step_to_wait_for(need, &mut work)?;
        Ok(done)
    }

    /// [`Keyspace::step`], with the commit to wait for.
    pub(super) fn step_to_wait_for<T>(
        &self,
        need: Need,
        mut work: impl FnMut(&mut Data<'_>) -> Result<T>,
    ) -> Result<(T, PendingCommit<'_>)> {
        // It asks for nothing that expires.
        self.patiently(|faults| attempt_in(Data::hold_for_a_step(self, need, 0)?, faults, &mut work))
    }

    /// Does attempts until all pages are there, which this thread loads. Nothing may be held.
    ///
    /// # Errors
    /// Those of `attempt` but page faults, and those of reading a page of a run.
    pub fn patiently<T>(&self, mut attempt: impl FnMut(&mut PageFaults) -> Result<T>) -> Result<T> {
        let mut faults = PageFaults::default();
        loop {
            match attempt(&mut faults) {
                Err(error) if error.kind() == ErrorKind::PageFault => {
                    self.db.latched().load(&mut faults)?;
                }
                result => return result,
            }
        }
    }
}

fn attempt_in<'k, T>(
    mut data: Data<'k>,
    faults: &mut PageFaults,
    work: impl FnOnce(&mut Data<'_>) -> Result<T>,
) -> Result<(T, PendingCommit<'k>)> {
    data.lend(faults);
    data.begin_command();
    let done = work(&mut data);
    if data.has_faults() {
        data.take_back(faults)?;
        let _ = data.close()?;
        return Err(lacks_a_page());
    }
    let committed = data.close()?;
    done.map(|done| (done, committed))
}

#[cold]
fn lacks_a_page() -> Error {
    Error::new(ErrorKind::PageFault, "a page is not in memory; it is loaded and asked again")
}
