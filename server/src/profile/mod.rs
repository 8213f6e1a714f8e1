//! Profiles of the running server: where its threads allocate memory, and where they wait. Where they spend the
//! processor's time, the crate pprof says.
//!
//! A profile is a set of sampled stacks with weights, drawn as a flame graph (Brendan Gregg, *The Flame Graph*, 2016)
//! by the crate inferno. Samples are taken each so many bytes or nanoseconds of a thread, as in Go's profiler, so that
//! what is sampled is in proportion to the whole and the price is bounded.

mod allocations;
mod stacks;
mod waits;

pub use allocations::Sampling;

use std::sync::atomic::{AtomicBool, Ordering};

/// What can be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Bytes that are asked of the allocator.
    Allocations,
    /// Nanoseconds that threads wait for locks of the engine and for its log.
    Waits,
}

/// Whether a profile is being taken, of whatever: samples of one would show in another.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The right to take a profile, until it is dropped.
pub struct ProfilePermit(());

impl ProfilePermit {
    /// Takes it; `None` if it is taken.
    pub fn take() -> Option<ProfilePermit> {
        (!IS_TAKEN.swap(true, Ordering::Acquire)).then_some(ProfilePermit(()))
    }
}

impl Drop for ProfilePermit {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}

/// A profile that is being taken; it ends when this is dropped.
pub struct Recording {
    subject: Subject,
    _permit: ProfilePermit,
}

impl Recording {
    /// Begins one.
    pub fn begin(permit: ProfilePermit, subject: Subject) -> Recording {
        stacks::clear();
        match subject {
            Subject::Allocations => allocations::set_sampled(true),
            Subject::Waits => waits::set_sampled(true),
        }
        Recording { subject, _permit: permit }
    }

    /// Ends it, and draws what was sampled, as SVG; `None` if nothing was. Names are looked up in the program's file:
    /// that takes tens to hundreds of milliseconds.
    ///
    /// # Errors
    /// Why it cannot be drawn.
    pub fn draw(self) -> Result<Option<Vec<u8>>, String> {
        self.stop();
        let (title, unit) = match self.subject {
            Subject::Allocations => ("Allocated memory", "bytes"),
            Subject::Waits => ("Waits for locks and for the log", "ns"),
        };
        stacks::draw(title, unit)
    }

    fn stop(&self) {
        match self.subject {
            Subject::Allocations => allocations::set_sampled(false),
            Subject::Waits => waits::set_sampled(false),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
    }
}
