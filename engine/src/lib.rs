//! Quipu: an ordered, durable, transactional key-value database in which every tree is counted.

pub mod error;
pub mod io;
mod page;
pub mod tally;
mod tree;
pub mod tuple;

pub use error::{Error, ErrorKind, Result};
