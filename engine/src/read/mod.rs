//! Reads: the trait that all readers share; a table version, asked until its pages are in memory.
//!
//! | file | what it is |
//! |---|---|
//! | `readable`, `reader` | the trait with all reads; what a type must have for it |
//! | `table_stack` | one version of a table: its layers, its scans and what they request ahead, where pages come from |
//! | `table_layer` | a layer, in memory or in a file |
//! | `many_keys` | many keys, looked up together |
//! | `rows`, `cursor` | an iterator over a range; a place that survives the removal of its row |
//! | `entry` | keys and values that own their bytes |
//! | `sample` | the numbers of the rows of a sample |
//! | `costed` | answers with the pages that they took |
//! | `observation` | what a transaction has read, as questions that can be asked again |
//! | `unresolved` | entries of blind tables whose weights are not known yet |

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
