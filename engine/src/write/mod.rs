//! Writes on their way: decided, logged, applied, published, waited for.

pub(crate) mod blind;
pub(crate) mod commit;
pub(crate) mod create_table;
pub(crate) mod decision;
pub(crate) mod ingest;
mod latched_blind;
mod latched_savepoint;
pub(crate) mod latched_write;
pub(crate) mod removal_commit;
pub(crate) mod writable;
