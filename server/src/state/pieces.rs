//! The rest of a long answer, as a session keeps it.

use quipu::Result;

use crate::keyspace::Keyspace;
use crate::resp::reply::Reply;

/// The rest of an answer.
pub trait Pieces: Send {
    /// Puts the next piece together, which may be empty. Says whether there is more.
    ///
    /// # Errors
    /// The answer cannot be completed.
    fn next(&mut self, keyspace: &Keyspace, reply: &mut Reply) -> Result<bool>;
}
