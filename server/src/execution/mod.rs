//! Runs commands: in batches, or in steps where they take long; and does what the server does by itself.

pub mod batch;
pub mod housekeeping;
pub mod long;
mod refusals;
mod single;
pub mod words;
