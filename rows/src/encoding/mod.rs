//! Rows as bytes, and back: `docs/format-row.md`.
//!
//! | file | what it is |
//! |---|---|
//! | `key` | values of key columns as elements of tuples |
//! | `layout` | values of the other columns as one value of the engine, each found by its offset |
//! | `span` | ranges of keys, said in values |
//!
//! Nothing here knows names or tables: columns are numbers, and types come with them.

pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod span;
