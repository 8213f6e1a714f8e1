//! Keys and values that own their bytes, as reads return them. Both deref to a slice of bytes; up to 32 bytes need no
//! heap.

pub use crate::read::entry::{Key, Value};
