//! Error messages for rows that violate a constraint.

use quipu::Error;

use crate::definition::table::TableDefinition;
use crate::schema::constraint::{Constraint, Reference, Violation};
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
    Violation {
        constraint,
        table: definition.name().to_owned(),
        name: None,
        column: None,
        rows: Vec::new(),
        reference: None,
        message,
    }
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
    let violation = Violation {
        constraint,
        table: table.to_owned(),
        name: None,
        column: Some(column),
        rows: Vec::new(),
        reference: None,
        message,
    };
    violation.into_error()
}

impl Violation {
    /// The same violation, of these sides of a foreign key.
    pub(crate) fn of_reference(self, reference: Reference) -> Violation {
        Violation { reference: Some(Box::new(reference)), ..self }
    }

    /// The same violation, of a constraint of this name.
    pub(crate) fn named(self, name: &str) -> Violation {
        Violation { name: Some(name.to_owned()), ..self }
    }
}
