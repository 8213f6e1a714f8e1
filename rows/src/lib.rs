//! Rows made of columns, over the tables of Quipu.
//!
//! A struct declares a table, and its values are rows ([`Record`]):
//!
//! ```
//! use quipu::{Db, Options};
//! use quipu_rows::{Database, Ordered, Record, Span};
//!
//! #[derive(Record, Debug, PartialEq)]
//! #[table(name = "towns", primary_key(country, name))]
//! #[table(index(name = "size", columns(country, people desc)))]
//! struct Town {
//!     country: String,
//!     name: String,
//!     #[column(check = "people >= 0")]
//!     people: u32,
//!     mayor: Option<String>,
//! }
//!
//! # fn main() -> quipu::Result<()> {
//! # let options = Options::without_files();
//! let database = Database::open(&Db::open("/data/towns", options)?)?;
//! let towns = database.ensure_table_of::<Town>()?;
//! for (name, people) in [("Cusco", 428_450), ("Lima", 10_000_000), ("Puno", 128_637)] {
//!     towns.insert(&Town { country: "PE".into(), name: name.into(), people, mayor: None })?;
//! }
//! let cusco = towns.get(("PE", "Cusco"))?.expect("it is there");
//! assert_eq!(cusco.people, 428_450);
//! let now = database.snapshot();
//! let by_size = now.table_of::<Town>()?.index("size")?;
//! assert_eq!(by_size.count(Span::eq("PE"))?, 3);
//! assert_eq!(by_size.nth(Span::eq("PE"), 1)?, Some(cusco));
//! # Ok(())
//! # }
//! ```
//!
//! Tables that no struct declares have a [`TableSchema`], and rows of [`Value`]s: see [`Database`].
//!
//! No name here is one of `quipu`, so both can be imported whole.

#![forbid(unsafe_code)]

mod catalogue;
mod change;
mod check;
mod database;
mod definition;
mod encoding;
mod expression;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod read;
mod record;
mod repair;
mod schema;
mod snapshot;
mod table;
#[cfg(feature = "model")]
#[doc(hidden)]
pub mod table_model;
mod transaction;
mod value;
mod write;

pub use catalogue::engine_tables::{OneMoment, Trees};
pub use change::in_transaction::DefinitionsIn;
pub use change::indexes::{BuildOptions, IndexBuild};
pub use change::load::Load;
pub use check::{RowCheck, check};
pub use database::Database;
pub use encoding::key_range::KeyRange;
pub use encoding::span::Span;
pub use encoding::values::IntoValues;
pub use quipu_rows_derive::Record;
pub use read::batch::{Batch, BatchColumn, ColumnValues};
pub use read::groups::{Group, Groups};
pub use read::index::{EntriesIn, IndexIn};
pub use read::ordered::{CostedRows, Ordered, RowIter};
pub use read::row::{Page, Row, RowView};
pub use read::scan::{Batches, Scan};
pub use read::table::{RelatedNumbers, TableIn};
pub use record::Record;
pub use record::column_value::ColumnValue;
pub use record::records::{RecordIter, Records};
pub use record::table::RecordTable;
pub use repair::{RowRepair, repair};
pub use schema::column::{Column, Identity};
pub use schema::constraint::{Action, Check, Constraint, Deferral, ForeignKey, Violation};
pub use schema::index::IndexSchema;
pub use schema::table::TableSchema;
pub use snapshot::RowSnapshot;
pub use table::RowTable;
pub use transaction::RowTransaction;
pub use transaction::isolation::Isolation;
pub use transaction::retry::Retry;
pub use uuid::Uuid;
pub use value::Value;
pub use value::data_type::{Collation, DataType};
pub use value::decimal::Decimal;
pub use value::keyed_bytes;
pub use value::text::text_of;
pub use value::time::{Date, Timestamp};
pub use write::column_set::ColumnSet;
pub use write::followers::Followers;
pub use write::row_change::RowChange;

/// Which tables of the engine belong to rows, by their names.
pub mod trees {
    pub use crate::catalogue::store::{is_tree_of_rows, is_tree_of_table};
}

/// What SQL computes of the columns of a row: others of them, and expressions in its words; and the patterns that both
/// compare texts with.
pub mod generated {
    pub use crate::definition::generated::{Compiler, compute_generated_by};
    pub use crate::expression::computed::{Compute, ExpressionCompiler, compute_expressions_by};
    pub use crate::expression::like;
    pub use crate::write::complete::generated_values;
}

/// The Rust of pages that has no `main` compiles; `tests/documents.rs` runs the rest.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../docs/rows.md")]
    struct Rows;
}

/// What the code that `#[derive(Record)]` writes calls. It may change with any version.
#[doc(hidden)]
pub mod derived {
    pub use quipu::Result;

    pub use crate::record::column_value::{column_type, must_be_integer};
    pub use crate::record::{field, index_column};
}
