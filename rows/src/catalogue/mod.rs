//! The catalogue: which tables there are, and how they are defined, in trees of the engine.
//!
//! | file | what it is |
//! |---|---|
//! | `engine_tables` | tables of the engine to read: live, in a snapshot or in a transaction |
//! | `store` | the records of the catalogue: `docs/internals/format-catalogue.md` |
//! | `known` | a cache of parsed definitions |
//! | `numbers`, `ranges` | numbers of identity columns, and which of them open transactions have |
//! | `savepoints` | what a transaction keeps outside of its trees, as it was at each savepoint |
//! | `changes`, `free` | the lock for changes of definitions; the next free numbers of tables and trees |
//! | `failed_changes` | leftovers of failed changes, to be removed later |
//! | `orphaned_trees` | trees that no definition names any more |
//! | `shared` | the state that all handles of an open database of rows share |
//!
//! Invariants:
//! 1. A name leads to the number and the version of a definition. Each change of a definition changes that record, so a
//!    transaction that has read it conflicts with the change.
//! 2. A tree is created before the commit that names it and dropped after the commit that no longer does. A tree
//!    without a name is removed when the database is opened.

pub(crate) mod changes;
pub(crate) mod engine_tables;
pub(crate) mod failed_changes;
pub(crate) mod free;
pub(crate) mod known;
pub(crate) mod numbers;
pub(crate) mod orphaned_trees;
pub(crate) mod ranges;
pub(crate) mod savepoints;
pub(crate) mod shared;
pub(crate) mod store;
