//! Reads: the trait that all readers share; a table version, asked until its pages are in memory.

pub(crate) mod costed;
pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod many_keys;
pub(crate) mod observation;
pub(crate) mod readable;
pub(crate) mod reader;
pub(crate) mod rows;
pub(crate) mod sample;
pub(crate) mod table_layer;
pub(crate) mod table_stack;
pub(crate) mod unresolved;
