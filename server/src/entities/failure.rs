//! Failures of verbs: reasons why one was not done, or is not known to have been done.

use quipu::Error;

/// Why a verb was not done, or is not known to have been done.
#[derive(Debug)]
pub enum Failure {
    /// So much is read or written that it is to be done where no other client waits. Nothing was done.
    Long,
    /// The engine could not do it.
    Engine(Error),
    /// Too few replicas answered: if it is a write, it may show or not.
    NotEnoughReplicas,
    /// Replicas have no space for the write. Nothing was done.
    Full,
    /// Too much is going on. Nothing was done.
    Overloaded,
    /// The node takes no requests, and will not for now: why. Nothing was done.
    Unavailable(String),
    /// It makes no sense, or not here: why.
    Invalid(String),
    /// A key, a value or an answer is too long: what.
    TooLarge(String),
    /// Others wrote the same entity between each read and the write after it.
    Contended,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}
