//! Rows in temporary files: what a statement that sorts, groups and joins keeps beyond its memory.
//!
//! | file | what it is |
//! |---|---|
//! | `row_bytes` | a row as bytes |
//! | `row_file` | rows that are appended to a temporary file, and read again in that order |

mod row_bytes;
mod row_file;

pub use row_file::{FileCounts, TemporaryFiles};
pub(crate) use row_file::{Part, RowFile, RowReader};
