//! Rows made of columns, over the tables of Quipu.

mod encoding;
mod expression;
pub mod old;
mod value;

pub use encoding::span::{IntoValues, KeyRange, Span};
pub use value::Value;
pub use value::data_type::{Collation, DataType};
pub use value::decimal::Decimal;
pub use value::text::text_of;
pub use value::time::{Date, Timestamp};
