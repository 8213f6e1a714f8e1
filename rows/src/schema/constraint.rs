//! Declarations of checks and foreign keys, and the violation that an error reports.

use std::fmt;

use quipu::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::value::Value;

/// A condition that every row of a table keeps: it is true or NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The name, which no other index or constraint of the table has.
    pub name: String,
    /// The condition, over the columns of one row.
    pub condition: String,
    /// Whether rows that were there before it may break it.
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub not_valid: bool,
}

impl Check {
    /// A check of this name and condition.
    pub fn new(name: impl Into<String>, condition: impl Into<String>) -> Check {
        Check { name: name.into(), condition: condition.into(), not_valid: false }
    }
}

/// Columns whose values are the key of a row of another table, or of the same.
///
/// A row of which one of the values is NULL refers to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// The name, which no other index or constraint of the table has.
    pub name: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The table whose rows they refer to.
    pub table: String,
    /// The columns there: its primary key, or those of a unique index. Empty: the primary key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// What happens if a row that is referred to is removed.
    #[serde(default)]
    pub on_delete: Action,
    /// What happens if the referred values of such a row change.
    #[serde(default)]
    pub on_update: Action,
    /// Whether it may be looked at when the transaction ends.
    #[serde(default, skip_serializing_if = "Deferral::is_never")]
    pub deferral: Deferral,
    /// Whether rows that were there before it may refer to nothing.
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub not_valid: bool,
}

impl ForeignKey {
    /// A foreign key of this name: these columns refer to the primary key of a table, whose rows cannot be removed
    /// meanwhile.
    pub fn new<S: Into<String>>(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = S>,
        table: impl Into<String>,
    ) -> ForeignKey {
        let columns = columns.into_iter().map(Into::into).collect();
        ForeignKey { name: name.into(), columns, table: table.into(), ..ForeignKey::default() }
    }

    /// The same foreign key, to these columns, which are those of a unique index.
    pub fn references<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> ForeignKey {
        ForeignKey { references: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same foreign key, with this action.
    pub fn on_delete(self, action: Action) -> ForeignKey {
        ForeignKey { on_delete: action, ..self }
    }

    /// The same foreign key, with this action.
    pub fn on_update(self, action: Action) -> ForeignKey {
        ForeignKey { on_update: action, ..self }
    }

    /// The same foreign key, which may be looked at when the transaction ends.
    pub fn deferral(self, deferral: Deferral) -> ForeignKey {
        ForeignKey { deferral, ..self }
    }
}

/// Whether a foreign key, or whether no two rows have the same values, may be looked at when the transaction ends, and
/// not at the end of each statement. Rows that go or change with others do so at once all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// It may not.
    #[default]
    Never,
    /// It is if the transaction says so.
    OnDemand,
    /// It is unless the transaction says otherwise.
    Deferred,
}

impl Deferral {
    pub(crate) fn is_never(&self) -> bool {
        *self == Deferral::Never
    }
}

/// What happens to rows that refer to a row which goes or changes.
///
/// Foreign keys are looked at when all that follows from a statement is done, so neither the order of keys nor that of
/// foreign keys decides whether it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The statement is refused if there are any left at its end that do not go or change with it.
    #[default]
    Restrict,
    /// The same, though the foreign key may be looked at when the transaction ends.
    RestrictAtOnce,
    /// They go or change with it.
    Cascade,
    /// Their columns become NULL.
    SetNull,
}

impl Action {
    /// Whether it refuses the statement.
    pub fn restricts(self) -> bool {
        matches!(self, Action::Restrict | Action::RestrictAtOnce)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Restrict => "restrict",
            Action::RestrictAtOnce => "restrict at once",
            Action::Cascade => "cascade",
            Action::SetNull => "set null",
        })
    }
}

/// A kind of constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Constraint {
    /// A value is of another type, or out of the range of its column's.
    Type,
    /// A column that is NOT NULL has no value.
    NotNull,
    /// Another row has the same primary key.
    PrimaryKey,
    /// Another row has the same values in a unique index.
    Unique,
    /// A check is false.
    Check,
    /// A foreign key without its row, or a row that others refer to.
    ForeignKey,
    /// A number for an identity column that always gives its own.
    Identity,
    /// A generated column, which was given another value.
    Generated,
    /// An identity column that has given out all numbers of its type.
    NumbersUsedUp,
}

/// Which constraint of which table a row breaks: the source of an [`Error`], for programs that must tell.
///
/// ```
/// use quipu::{Db, Options};
/// use quipu_rows::{Column, Constraint, DataType, Database, TableSchema, Violation};
///
/// # fn main() -> quipu::Result<()> {
/// let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
/// let towns = TableSchema::new("towns")
///     .column(Column::new("name", DataType::TEXT))
///     .column(Column::new("people", DataType::I32).not_null())
///     .key(["name"]);
/// let towns = database.create_table(&towns)?;
/// let refused = towns.insert(("Cusco", None::<i32>)).unwrap_err();
/// assert_eq!(refused.to_string(), r#"table towns, row ("Cusco"), column people: NULL in a column that is NOT NULL"#);
/// let violation = Violation::of(&refused).unwrap();
/// assert_eq!((violation.constraint, violation.column.as_deref()), (Constraint::NotNull, Some("people")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the constraint.
    pub constraint: Constraint,
    /// The table.
    pub table: String,
    /// The name of the index, the check or the foreign key; none of a type, NOT NULL or the primary key.
    pub name: Option<String>,
    /// The column, if it is one.
    pub column: Option<String>,
    /// The primary keys of rows of a load that have one key, or the same values in a unique index; else none.
    pub rows: Vec<Vec<Value<'static>>>,
    /// Of NOT NULL and CHECK, the values of the row in all columns of the table, hidden ones among them, if they are
    /// known; else none.
    pub row: Vec<Value<'static>>,
    /// Of a foreign key, the columns of the row that refer or are referred to, with their values; of a primary key or
    /// a unique index, what it is over, with the values that another row has; else none.
    pub key: Vec<(String, Value<'static>)>,
    /// Of a foreign key, the table on the other side.
    pub other: Option<String>,
    /// Whether rows of the other side refer to this row, which goes or changes; else it is the one that refers.
    pub is_referred: bool,
    /// What is wrong, with the row.
    pub message: String,
}

impl Violation {
    /// The violation that an error comes from, if there is one.
    pub fn of(error: &Error) -> Option<&Violation> {
        std::error::Error::source(error)?.downcast_ref()
    }

    /// The error that comes from this.
    #[cold]
    pub(crate) fn into_error(self) -> Error {
        let kind = match self.constraint {
            Constraint::PrimaryKey | Constraint::Unique => ErrorKind::Exists,
            _ => ErrorKind::Invalid,
        };
        Error::caused_by(kind, self.message.clone(), self)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Violation {}
