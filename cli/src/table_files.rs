//! Files that hold the rows of a table: CSV, JSON lines and Parquet, on their way in and out.
//!
//! | part | |
//! |---|---|
//! | `files`, `compression` | inputs, compressed or not, and outputs, by name |
//! | `csv`, `json`, `parquet` | the formats |
//! | `sniffing` | the format and the delimiter that a file looks as if it had |
//! | `records` | the records of a file, one after the other |
//! | `column_types`, `inference` | which columns a file has, and of what types |
//! | `notation` | numbers, dates and booleans as other programs write them |
//! | `load`, `keys` | records become rows; columns that would do as a key |

mod column_types;
pub(crate) mod compression;
pub(crate) mod csv;
pub(crate) mod files;
pub(crate) mod inference;
mod json;
mod keys;
pub(crate) mod load;
pub(crate) mod notation;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod sniffing;
