//! Declarations of columns.

use std::fmt;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use crate::schema::is_false;
use crate::value::data_type::DataType;

/// A column of a table.
///
/// ```
/// use quipu_rows::{Column, DataType, Identity};
///
/// let columns = [
///     Column::new("id", DataType::I64).identity(Identity::Always),
///     Column::new("state", DataType::TEXT).not_null().default("'open'"),
///     Column::new("delay", DataType::I16),
/// ];
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The name, which no other column of the table has.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub data_type: DataType,
    /// Whether every row must have a value.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_null: bool,
    /// The value of rows that are inserted without one: an expression without columns. None: NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether its values are numbers that the table gives out. Such a column is of an integer type and NOT NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Whether it is left out where all columns are meant.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// How SQL has declared its type, where that says more than `data_type` does: `varchar(20)`, `timestamptz`. Rows
    /// do not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_type: Option<String>,
    /// The collation that SQL has declared, where it is not the default one. Rows do not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_collation: Option<String>,
    /// Its default as SQL has declared it, where `default` cannot say it: `now()`, `nextval('s')`. Statements of SQL
    /// put its value into rows that bring none; other faces leave NULL there, or refuse the row if it is NOT NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_default: Option<String>,
    /// The expression of other columns of the row that its value always is, in SQL's words. A row that brings a value
    /// is refused unless that is the expression's, and so is every row where SQL is not there to compute it
    /// ([`compute_generated_by`](crate::generated::compute_generated_by)). Such a column has no default and no
    /// identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
}

/// How a column gets the numbers that its table gives out: ascending from 1, each once, until those of its type are
/// used up.
///
/// A row is given a number that is greater than those of all committed rows, and that no open transaction has. A row
/// that is refused takes none, and a transaction that is rolled back gives its numbers back. There is a gap where it
/// was rolled back after another had committed a greater number. Neither closing the database nor a crash leaves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Always: a row that brings its own number is refused, unless the statement says that rows do
    /// ([`TableIn::bringing_numbers`](crate::TableIn::bringing_numbers)).
    Always,
    /// If the row brings none. Numbers that rows have brought are not given out later.
    ByDefault,
}

impl Column {
    /// A column of this name and type, which may hold NULL.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Column {
        Column { name: name.into(), data_type, ..Default::default() }
    }

    /// The same column, NOT NULL.
    pub fn not_null(self) -> Column {
        Column { not_null: true, ..self }
    }

    /// The same column, with a default.
    pub fn default(self, expression: impl Into<String>) -> Column {
        Column { default: Some(expression.into()), ..self }
    }

    /// The same column, NOT NULL and with numbers from the table.
    pub fn identity(self, identity: Identity) -> Column {
        Column { identity: Some(identity), not_null: true, ..self }
    }
}

/// As `quipu shell` shows it: `delay i16`, `state text not null default 'open'`.
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.data_type)?;
        match self.identity {
            Some(Identity::Always) => f.write_str(" identity always")?,
            Some(Identity::ByDefault) => f.write_str(" identity by default")?,
            None if self.not_null => f.write_str(" not null")?,
            None => {}
        }
        match (&self.default, &self.generated) {
            (Some(default), _) => write!(f, " default {default}"),
            (None, Some(expression)) => write!(f, " generated always as ({expression})"),
            (None, None) => Ok(()),
        }
    }
}

impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DataType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DataType, D::Error> {
        let name = String::deserialize(deserializer)?;
        DataType::parse(&name)
            .ok_or_else(|| D::Error::custom(format!("{name:?} is not a type; there are {}", DataType::names())))
    }
}
