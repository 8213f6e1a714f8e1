//! Parsed definitions of tables: how the rows of a table are stored in trees.
//!
//! | file | what it is |
//! |---|---|
//! | `document` | a definition as the catalogue keeps it: the declaration, numbers of columns and trees, layouts |
//! | `table`, `index`, `foreign` | a parsed document: types parsed, expressions checked, places looked up |
//! | `generated` | columns that are computed from the others of their row |
//! | `row` | the bytes of a row, as the definition of its table has them |
//! | `shape` | where the columns of a row, or of an entry, stand in its bytes |
//!
//! Parsing a document is the only check of a declaration.

pub(crate) mod document;
pub(crate) mod foreign;
pub(crate) mod generated;
pub(crate) mod index;
pub(crate) mod row;
pub(crate) mod shape;
pub(crate) mod table;
