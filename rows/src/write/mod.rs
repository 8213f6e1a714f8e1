//! Writes rows: one way for all callers.
//!
//! ```text
//! values given -> complete: defaults, numbers, types, NOT NULL -> checks -> rows that it refers to
//!              -> its key and its value -> the entries of its indexes, those of unique ones first
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `complete` | a row of values, from what a caller gives |
//! | `column_set` | rows of which some columns are read, or written, without relying on the others |
//! | `statement` | insert, put, update, delete |
//! | `row_change` | changes that follow from a row alone |
//! | `entries` | the entries of a row in the indexes |
//! | `references` | rows that refer to each other |
//! | `consequences` | what follows from a statement for rows that refer to those that it removes or changes |
//! | `followers` | rows that would go or change with another |
//! | `deferrals` | constraints that are looked at later |
//! | `unique_later` | indexes of whose values no two rows have the same when a statement is done |
//! | `violations` | error messages for rows that violate a constraint |
//!
//! Invariants:
//! 1. A statement changes all that it must, or nothing. What can be refused is refused before the first write; what a
//!    write may find out (a unique entry that is there) is undone.
//! 2. A row and its entries change in one transaction.
//! 3. An index of which no column changes is not touched.

pub(crate) mod column_set;
pub(crate) mod complete;
pub(crate) mod consequences;
pub(crate) mod deferrals;
pub(crate) mod entries;
pub(crate) mod followers;
pub(crate) mod references;
pub(crate) mod row_change;
pub(crate) mod statement;
pub(crate) mod unique_later;
pub(crate) mod violations;
