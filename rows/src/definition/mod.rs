//! How a table lies in trees: what its declaration comes to, ready for rows.
//!
//! | file | what it is |
//! |---|---|
//! | `document` | a definition as the catalogue keeps it: the declaration, numbers of columns and trees, layouts |
//! | `table`, `index`, `foreign` | a document made ready: types parsed, expressions checked, places looked up |
//! | `row` | the bytes of a row, as the definition of its table has them |
//! | `shape` | where the columns of a row, or of an entry, stand in its bytes |
//!
//! To make a document ready is to check it: there is no other check of a declaration.

pub(crate) mod document;
pub(crate) mod foreign;
pub(crate) mod index;
pub(crate) mod row;
pub(crate) mod shape;
pub(crate) mod table;
