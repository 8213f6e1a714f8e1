//! The tables that the program `quipu` still uses, until it uses those of the crate.

mod catalog;
mod column;
mod encoding;
mod evidence;
mod index;
mod key;
mod notation;
mod schema;
mod table;
mod writer;

pub use column::{Column, ColumnType};
pub use evidence::Evidence;
pub use key::{KeyRange, bounds, keys_with, keys_with_prefix, keys_with_text};
pub use notation::{element_json, element_text, escape};
pub use schema::Schema;
pub use table::RowTable;
pub use writer::RowWriter;
