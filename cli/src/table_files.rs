//! Files that hold the rows of a table: CSV, JSON lines and Parquet, on their way in and out.
//!
//! | part | |
//! |---|---|
//! | `files` | inputs, compressed or not, and outputs, by name |
//! | `csv`, `parquet` | the formats; JSON lines are in `records` |
//! | `records` | the records of a file, one after the other |
//! | `column_types`, `inference` | which columns a file has, and of what types |
//! | `load` | records become rows |

mod column_types;
pub(crate) mod csv;
pub(crate) mod files;
pub(crate) mod inference;
pub(crate) mod load;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod records;
