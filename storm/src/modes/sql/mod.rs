//! Sessions of SQL that one thread drives in turns, and clients of the server.

pub(crate) mod client;
pub mod sessions;
pub(crate) mod state;
