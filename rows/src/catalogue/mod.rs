//! The catalogue: which tables there are, and how they are defined, in trees of the engine.
//!
//! | file | what it is |
//! |---|---|
//! | `trees` | what can be read of the engine, live, in a snapshot or in a transaction |
//! | `store` | the records of the catalogue: `docs/internals/format-catalogue.md` |
//! | `known` | definitions made ready, kept while they may be asked for again |
//! | `numbers`, `ranges` | what identity columns give out, and which numbers open transactions have |
//! | `changes`, `free` | whose turn it is to change a definition; numbers that no table and no tree has |
//! | `left` | what failed changes have left, to be taken back later |
//! | `dropped` | trees that no definition names any more |
//! | `shared` | what all handles of an open database of rows share |
//!
//! Invariants:
//! 1. A name leads to the number and the version of a definition. Each change of a definition changes that record, so a
//!    transaction that has read it conflicts with the change.
//! 2. A tree is created before the commit that names it and dropped after the commit that no longer does. What nobody
//!    names is removed when the database is opened.

pub(crate) mod changes;
pub(crate) mod dropped;
pub(crate) mod free;
pub(crate) mod known;
pub(crate) mod left;
pub(crate) mod numbers;
pub(crate) mod ranges;
pub(crate) mod shared;
pub(crate) mod store;
pub(crate) mod trees;
