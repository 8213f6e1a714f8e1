//! [`Reader`]: the methods that a type must have to support all reads. Only types of this crate implement it.

use crate::bounds::Bounds;
use crate::cache::Missing;
use crate::error::Result;
use crate::read::observation::Question;
use crate::read::rows::Chunk;
use crate::read::table_stack::{Source, TableStack};

/// A version that a range is read from, chunk by chunk.
#[doc(hidden)]
pub trait Fill {
    /// Appends up to `max` rows from one end of the bounds.
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut Chunk) -> Result<()>;
}

impl<F: Fill + ?Sized> Fill for Box<F> {
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut Chunk) -> Result<()> {
        (**self).fill(bounds, reverse, max, rows)
    }
}

/// A table as its reader sees it: live, in a snapshot, or in a transaction.
#[doc(hidden)]
pub trait Reader: Sized {
    /// Reads from one version.
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R>;

    /// Reads keys and values, but no weights, from one version.
    fn read_rows_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        self.read_from(work)
    }

    /// Asks one version for keys and values, again until all pages for the answer are there. Each attempt starts anew.
    fn ask<R>(&self, question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>) -> Result<R> {
        self.read_rows_from(|source| source.ask(question))
    }

    /// Prepares for lending rows to a closure, which may read anything meanwhile.
    fn before_lending(&self) -> Result<()> {
        Ok(())
    }

    /// Like `ask`, for a range in which all weights must be known.
    fn ask_exact<R>(
        &self,
        bounds: &Bounds<'_>,
        question: impl FnMut(&TableStack<'_>) -> Result<R, Missing>,
    ) -> Result<R> {
        self.read_from(|source| source.exact(bounds.start(), bounds.end(), |source| source.ask(question)))
    }

    /// Notes what was read, for a transaction that must check later that it would read the same.
    fn observe(&self, question: impl FnOnce() -> Question) -> Result<()> {
        let _ = question;
        Ok(())
    }

    /// Notes the value that a key was found to have, or that it has none, for a write that may follow.
    fn found(&self, key: &[u8], value: Option<&[u8]>) {
        let _ = (key, value);
    }

    /// One version, for an answer in several steps.
    fn hold(&self) -> Box<dyn Fill + '_>;
}
