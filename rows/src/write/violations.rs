//! Error messages for rows that violate a constraint.

use quipu::Error;

use crate::definition::table::TableDefinition;
use crate::schema::constraint::{Constraint, Violation};
use crate::value::Value;

/// Values between parentheses.
pub(crate) fn list<'l, 'v: 'l>(values: impl IntoIterator<Item = &'l Value<'v>>) -> String {
    let values: Vec<String> = values.into_iter().map(Value::to_string).collect();
    format!("({})", values.join(", "))
}

/// A row as messages call it: by its key.
pub(crate) fn row_name(definition: &TableDefinition, row: &[Value<'_>]) -> String {
    list(definition.primary.places.iter().filter_map(|&place| row.get(place)))
}

/// The error of a row that breaks a constraint.
#[cold]
pub(crate) fn broken(
    definition: &TableDefinition,
    row: &[Value<'_>],
    constraint: Constraint,
    what: impl std::fmt::Display,
) -> Violation {
    let message = format!("table {}, row {}: {what}", definition.name(), row_name(definition, row));
    Violation::new(constraint, definition.name(), message)
}

/// The error of a value that breaks a constraint of its column.
#[cold]
pub(crate) fn broken_in_column(
    definition: &TableDefinition,
    row: &[Value<'_>],
    place: usize,
    constraint: Constraint,
    what: impl std::fmt::Display,
) -> Error {
    let column = definition.columns[place].declared.name.clone();
    let (table, name) = (definition.name(), row_name(definition, row));
    let message = format!("table {table}, row {name}, column {column}: {what}");
    let violation = Violation::new(constraint, table, message).in_row(definition, row);
    Violation { column: Some(column), ..violation }.into_error()
}

impl Violation {
    /// Of a table, with a message.
    pub(crate) fn new(constraint: Constraint, table: &str, message: String) -> Violation {
        let (table, is_referred) = (table.to_owned(), false);
        let (name, column, other) = (None, None, None);
        let (rows, row, key) = (Vec::new(), Vec::new(), Vec::new());
        Violation { constraint, table, name, column, rows, row, key, other, is_referred, message }
    }

    /// The same violation, of this row if it is a whole one.
    pub(crate) fn in_row(mut self, definition: &TableDefinition, row: &[Value<'_>]) -> Violation {
        if row.len() == definition.columns.len() {
            self.row = row.iter().map(|value| value.borrowed().into_owned()).collect();
        }
        self
    }

    /// The same violation, of values that another row has.
    pub(crate) fn of_key(self, key: Vec<(String, Value<'static>)>) -> Violation {
        Violation { key, ..self }
    }

    /// The same violation, of a foreign key between these values of the row and another table.
    pub(crate) fn of_sides(self, key: Vec<(String, Value<'static>)>, other: &str, is_referred: bool) -> Violation {
        Violation { key, other: Some(other.to_owned()), is_referred, ..self }
    }

    /// The same violation, of a constraint of this name.
    pub(crate) fn named(self, name: &str) -> Violation {
        Violation { name: Some(name.to_owned()), ..self }
    }
}
