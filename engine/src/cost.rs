//! Costs of reads in pages, before and after.
//!
//! Before the read: [`ReadableTable::footprint`] and [`ReadableTable::prefetch`]. Of any read:
//! [`ReadableTable::with_cost`].
//!
//! [`ReadableTable::footprint`]: crate::ReadableTable::footprint
//! [`ReadableTable::prefetch`]: crate::ReadableTable::prefetch
//! [`ReadableTable::with_cost`]: crate::ReadableTable::with_cost

pub use crate::read::costed::Costed;
pub use crate::read::readable::{Footprint, Prefetch};
pub use crate::read::table_stack::Cost;
