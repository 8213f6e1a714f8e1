//! Parquet: the records of a file, and rows as a file.
//!
//! It uses the format's own readers and writers of columns, and not Arrow: rows are flat, and Arrow would take longer
//! to build than all of this.
//!
//! | type of a column | in a file, physical and logical |
//! |---|---|
//! | `bool` | BOOLEAN |
//! | `i8` to `i32`, `u8` to `u32` | INT32, Integer of that width and sign |
//! | `i64`, `u64` | INT64, Integer of that sign |
//! | `f32`, `f64` | FLOAT, DOUBLE |
//! | `decimal(P,S)` | Decimal: INT32 up to 9 digits, INT64 up to 18, else FIXED_LEN_BYTE_ARRAY |
//! | `text`, `json`, `bytes` | BYTE_ARRAY, String, Json and none |
//! | `date` | INT32, Date |
//! | `timestamp` | INT64, Timestamp of microseconds, UTC |
//! | `uuid` | FIXED_LEN_BYTE_ARRAY of 16, Uuid |
//!
//! A column that is NOT NULL is REQUIRED. What is read beside these: timestamps of milliseconds, of nanoseconds if they
//! are whole microseconds, and INT96; texts as Enum; nested columns, which become `json`.

mod nested;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::ParquetRecords;
pub(crate) use write::ParquetWriter;
