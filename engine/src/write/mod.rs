//! Writes on their way: decided, logged, applied, published, waited for.
//!
//! | file | what it is |
//! |---|---|
//! | `writable` | the trait with all writes |
//! | `decision` | what the write of one row changes |
//! | `commit` | the commit of a transaction: validated, logged, applied, published, waited for |
//! | `latched_write`, `latched_savepoint` | many writes in place, one commit; taking back the last of them |
//! | `blind`, `latched_blind` | writes that do not look whether their key is there; those of latched writes |
//! | `removal_commit` | the removal of a range |
//! | `ingest` | rows in the order of their keys become a run |
//! | `create_table` | a new table |

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
