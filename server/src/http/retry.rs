//! Requests that may wait for pages of runs, and those that may not.
//!
//! A read is first tried without waiting, on the thread that serves its connection and others. If a page is missing, it
//! is tried again on a thread of its own, which may wait.

use hyper::Response;
use quipu::{ErrorKind, Result};

use super::answer::AnswerBody;

/// Whether a request may wait for pages of runs where it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It may not: others wait for its thread.
    Hurried,
    /// It may, on a thread of its own.
    Patient,
}

/// A question that lacks a page of a run, and was asked in a hurry: it is to be asked patiently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lacking;

/// An answer, or that pages of runs are missing for one that is asked in a hurry.
pub(super) type Answered = std::result::Result<Response<AnswerBody>, Lacking>;

/// Tells page faults from answers and other errors.
pub(super) fn lacking<T>(result: Result<T>) -> std::result::Result<Result<T>, Lacking> {
    match result {
        Err(error) if error.kind() == ErrorKind::PageFault => Err(Lacking),
        result => Ok(result),
    }
}
