//! Declarations of tables.

use quipu::{Compression, Result};
use serde::{Deserialize, Serialize};

use crate::schema::column::{Column, Identity};
use crate::schema::constraint::{Check, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::schema::{invalid, is_false};
use crate::value::data_type::DataType;

/// The declaration of a table: what [`Database::create_table`](crate::Database::create_table) takes, and what schema
/// files hold as JSON.
///
/// ```
/// use quipu_rows::{Action, Column, DataType, ForeignKey, IndexSchema, TableSchema};
///
/// let flights = TableSchema::new("flights")
///     .column(Column::new("day", DataType::Date))
///     .column(Column::new("number", DataType::I32))
///     .column(Column::new("carrier", DataType::TEXT).not_null())
///     .column(Column::new("delay", DataType::I16))
///     .key(["day desc", "number"])
///     .index(IndexSchema::new("late", ["carrier", "delay desc"]).predicate("delay > 0"))
///     .check("delay_is_possible", "delay > -1000")
///     .foreign_key(ForeignKey::new("of_carrier", ["carrier"], "carriers").on_delete(Action::Cascade))
///     .sum("delay");
/// let json = flights.to_json();
/// assert_eq!(TableSchema::from_json(&json).unwrap(), flights);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// The name.
    pub table: String,
    /// The columns, in the order in which rows have their values.
    pub columns: Vec<Column>,
    /// The columns of the primary key, in the order in which rows are sorted, each followed by `desc` if greater
    /// values come first. They are NOT NULL. Empty: a hidden column `rowid` with numbers from the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// The name of the primary key as a constraint, where SQL has given it one. Rows do not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    /// The secondary indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSchema>,
    /// The checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The foreign keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// A column whose sum over any range of the primary key is kept: integers, or decimals of at most 18 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// What the table is for, in words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Whether all rows stay in memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_memory: bool,
    /// Whether rows are compressed on disk (LZ4).
    #[serde(default, skip_serializing_if = "is_false")]
    pub compressed: bool,
}

/// The key of tables that are declared without one.
pub(crate) const ROWID: &str = "rowid";

/// The name of a column in a declared key, without its direction.
pub(crate) fn key_name(text: &str) -> &str {
    let text = text.trim();
    match text.rsplit_once(char::is_whitespace) {
        Some((name, direction)) if ["asc", "desc"].iter().any(|word| direction.eq_ignore_ascii_case(word)) => {
            name.trim_end()
        }
        _ => text,
    }
}

/// Whether a column of a declared key sorts in descending order.
pub(crate) fn is_descending(text: &str) -> bool {
    let direction = text.trim().rsplit_once(char::is_whitespace).map(|(_, direction)| direction);
    direction.is_some_and(|direction| direction.eq_ignore_ascii_case("desc"))
}

impl TableSchema {
    /// A table of this name without columns.
    pub fn new(name: impl Into<String>) -> TableSchema {
        TableSchema { table: name.into(), ..TableSchema::default() }
    }

    /// The same table with one more column.
    pub fn column(mut self, column: Column) -> TableSchema {
        self.columns.push(column);
        self
    }

    /// The same table with this primary key.
    pub fn key<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> TableSchema {
        TableSchema { key: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same table with one more index.
    pub fn index(mut self, index: IndexSchema) -> TableSchema {
        self.indexes.push(index);
        self
    }

    /// The same table with one more check.
    pub fn check(mut self, name: impl Into<String>, condition: impl Into<String>) -> TableSchema {
        self.checks.push(Check::new(name, condition));
        self
    }

    /// The same table with one more foreign key.
    pub fn foreign_key(mut self, foreign_key: ForeignKey) -> TableSchema {
        self.foreign_keys.push(foreign_key);
        self
    }

    /// The same table with the sums of a column.
    pub fn sum(self, column: impl Into<String>) -> TableSchema {
        TableSchema { sum: Some(column.into()), ..self }
    }

    /// The schema that a file holds as JSON.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid): what is wrong with it, and where. Whether the parts go together is
    /// looked at when a table is created.
    pub fn from_json(json: &str) -> Result<TableSchema> {
        serde_json::from_str(json).map_err(|error| invalid(format!("not a schema: {error}")))
    }

    /// The schema as JSON.
    pub fn to_json(&self) -> String {
        let written = serde_json::to_string_pretty(self);
        written.expect("a schema has no part that JSON cannot hold")
    }

    /// How its rows are stored below disk pages.
    pub(crate) fn compression(&self) -> Compression {
        if self.compressed { Compression::Lz4 } else { Compression::None }
    }

    /// The schema with what it leaves out: the hidden key of a table without one, and NOT NULL of key and identity
    /// columns.
    pub fn completed(&self) -> TableSchema {
        let mut schema = self.clone();
        if schema.key.is_empty() {
            let rowid = Column::new(ROWID, DataType::I64).identity(Identity::Always);
            schema.columns.push(Column { hidden: true, ..rowid });
            schema.key.push(ROWID.to_owned());
        }
        for column in &mut schema.columns {
            column.not_null |= column.identity.is_some() || schema.key.iter().any(|key| key_name(key) == column.name);
        }
        schema
    }

    /// The place of the column of that name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}
