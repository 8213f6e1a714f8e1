//! The distribution of a range's rows and bytes over its keys: see
//! [`ReadableTable::histogram`](crate::ReadableTable::histogram).

pub use crate::probe::{Bucket, CountInterval, Histogram, Resolution};
