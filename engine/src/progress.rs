//! Progress of long work.

/// How far opening, checking, a checkpoint or other long work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current stage, in a few words.
    pub stage: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}
