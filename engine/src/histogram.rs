//! Where the rows and the bytes of a range lie: see [`ReadableTable::histogram`](crate::ReadableTable::histogram).

pub use crate::probe::{Bucket, CountInterval, Histogram, Resolution};
