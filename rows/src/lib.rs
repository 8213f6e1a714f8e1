//! Rows made of columns, over the tables of Quipu.
//!
//! A table of the engine has keys and values, which are bytes. A [`RowTable`] gives them columns: its [`Schema`] says
//! which [`Column`]s there are, of what [types](ColumnType), and which of them make the key. Its secondary indexes are
//! tables too, and a [`RowWriter`] changes them in the transaction that changes the row. Whatever is read is read from
//! the engine's tables: counts, ranks and offsets cost what they cost there, for a table and for each of its indexes.
//!
//! ```
//! use quipu::tuple::Element;
//! use quipu::{Db, Options, ReadableTable, TableOptions};
//! use quipu_rows::{Column, ColumnType, RowTable, Schema, bounds, keys_with};
//!
//! # fn main() -> quipu::Result<()> {
//! let db = Db::open("/data/towns", Options::in_memory())?;
//! let columns = vec![
//!     Column { name: "name".to_owned(), column_type: ColumnType::Text },
//!     Column { name: "country".to_owned(), column_type: ColumnType::Text },
//!     Column { name: "people".to_owned(), column_type: ColumnType::Int },
//! ];
//! let schema = Schema::new(columns, &["name".to_owned()])?;
//! let by_country = ("country".to_owned(), vec!["country".to_owned(), "people".to_owned()]);
//! let towns = RowTable::create(&db, "towns", &schema, &[by_country], TableOptions::default())?;
//!
//! db.write(|transaction| {
//!     let mut writer = towns.within(transaction)?;
//!     let (mut key, mut value) = (Vec::new(), Vec::new());
//!     for (name, country, people) in [("Bern", "CH", 134_000), ("Cusco", "PE", 428_000), ("Uster", "CH", 35_000)] {
//!         let row = [Element::from(name), Element::from(country), Element::Int(people)];
//!         schema.encode_row(&row, &mut key, &mut value);
//!         writer.insert(&key, &value)?;
//!     }
//!     Ok(())
//! })?;
//!
//! let index = db.table("towns.country")?;
//! let swiss = keys_with(&[Element::from("CH")]);
//! assert_eq!(index.count(bounds(&swiss))?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | file | what it is |
//! |---|---|
//! | `column` | a column: its name and its type |
//! | `schema` | the columns of a table, and which of them make the key and which the value |
//! | `encoding` | a row as the bytes of a key and a value, and back; a missing value is a null |
//! | `key` | composite keys: the ranges of all keys that begin alike |
//! | `index` | secondary indexes: their schemas, and the entry that a row has in one |
//! | `catalog` | where schemas are kept, and which indexes a table has |
//! | `table` | a table with its schema and its indexes: opened, created, dropped |
//! | `writer` | rows written, and the entries of the indexes with them |
//! | `notation` | values as text and as JSON, and back |
//! | `evidence` | the type of a column that nobody has declared |
//!
//! A file imports only files above it; the last two import `column` alone.
//!
//! # Errors
//!
//! They are the engine's: [`quipu::Error`], whose kind says what to do next.

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
