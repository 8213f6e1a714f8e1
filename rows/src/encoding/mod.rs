//! Rows as bytes, and back: `docs/internals/format-row.md`.
//!
//! | file | what it is |
//! |---|---|
//! | `key` | values of key columns as elements of tuples |
//! | `key_shape` | the columns of a key, with names |
//! | `key_range` | ranges of encoded keys |
//! | `layout` | values of the other columns as one value of the engine, each found by its offset |
//! | `span` | ranges of keys, said in values |
//! | `values` | lists of values, as callers say them |
//!
//! Nothing here knows names or tables, except for messages: columns are numbers, and their types are arguments.

pub(crate) mod key;
pub(crate) mod key_range;
pub(crate) mod key_shape;
pub(crate) mod layout;
pub(crate) mod span;
pub(crate) mod values;
