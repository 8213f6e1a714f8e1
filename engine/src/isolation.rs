//! Isolation of optimistic transactions: what must be unchanged when they commit, and how they rely on less.
//!
//! [`Db::begin_with`](crate::Db::begin_with) takes an [`Isolation`]. A [`Patch`] changes a row without relying on its
//! value; a [`ValuePart`] relies on a part of it.

pub use crate::read::observation::ValuePart;
pub use crate::transactions::isolation::Isolation;
pub use crate::transactions::patches::Patch;
