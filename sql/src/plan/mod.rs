//! The plan of a statement: trees of expressions and of sources of rows, which know columns by their
//! places. A plan is made once and run many times, by several sessions at once.
//!
//! | file | what it is |
//! |---|---|
//! | `expression` | values computed of a row |
//! | `source` | where the rows of a FROM come from, and how they are joined |
//! | `query` | SELECT, VALUES, set operations, WITH |
//! | `change` | INSERT, UPDATE, DELETE |
//! | `action` | which of these a statement is |
//!
//! The rows of a FROM stand in one frame: each table has its slots in it, one for each column. Grouping makes a frame
//! of its own: the values of the groups, then those of the aggregates, then those of window functions.

pub mod action;
pub mod change;
pub mod expression;
pub mod query;
pub mod source;
