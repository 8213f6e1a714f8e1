//! Rows made of columns, over the tables of Quipu.

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
mod schema;
mod transaction;
mod value;
mod write;

pub use catalogue::store::is_tree_of_rows;
pub use catalogue::trees::{OneMoment, Trees};
pub use change::indexes::BuildOptions;
pub use change::load::Load;
pub use check::{RowCheck, check};
pub use database::{Database, RowSnapshot, RowTable};
pub use encoding::span::{IntoValues, KeyRange, Span};
pub use read::batch::{Batch, BatchColumn, ColumnValues};
pub use read::groups::{Group, Groups};
pub use read::index::{EntriesIn, IndexIn};
pub use read::ordered::{CostedRows, Ordered, RowIter};
pub use read::row::{Page, Row, RowView};
pub use read::scan::{Batches, Scan};
pub use read::table::TableIn;
pub use schema::column::{Column, Identity};
pub use schema::constraint::{Action, Check, Constraint, ForeignKey, Violation};
pub use schema::index::IndexSchema;
pub use schema::table::TableSchema;
pub use transaction::RowTransaction;
pub use transaction::isolation::Isolation;
pub use transaction::part::{ColumnSet, RowChange};
pub use transaction::retry::Retry;
pub use value::Value;
pub use value::data_type::{Collation, DataType};
pub use value::decimal::Decimal;
pub use value::text::text_of;
pub use value::time::{Date, Timestamp};
