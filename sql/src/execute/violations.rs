//! Errors of rows that break a constraint, with PostgreSQL's details: the key that another row has, or the row.

use quipu_rows::{Constraint, Value, Violation};

use crate::error::SqlError;
use crate::execute::context::Context;
use crate::execute::key_locks::Written;
use crate::plan::change::Target;
use crate::types::SqlType;
use crate::types::datum::Datum;
use crate::types::environment::Environment;
use crate::types::text::to_string;

/// How many bytes of a value are shown of a row that fails.
const SHOWN_MAX: usize = 64;

/// A column of the table that a row is of.
pub(crate) struct OfColumn<'c> {
    pub(crate) name: &'c str,
    pub(crate) sql_type: SqlType,
    pub(crate) is_hidden: bool,
}

/// The error of a row of a table with these columns. Who may not read the table is not told what is in the row.
pub(crate) fn explain(
    error: quipu::Error,
    table: &str,
    columns: &[OfColumn<'_>],
    environment: &dyn Environment,
) -> SqlError {
    let of_table = |violation: &&Violation| violation.table == *table;
    match Violation::of(&error).filter(of_table).map(|violation| detail(violation, columns, environment)) {
        None => error.into(),
        Some(_) if !environment.may_read(table) => SqlError::from(error).without_detail(),
        Some(None) => error.into(),
        Some(Some(detail)) => SqlError::from(error).with_detail(detail),
    }
}

/// [`explain`], of a row that a statement writes.
pub(super) fn explain_written(
    error: quipu::Error,
    target: &Target,
    table: &Written<'_>,
    context: &Context<'_>,
) -> SqlError {
    let of_rows = &table.schema().columns;
    let columns = target.columns.iter().zip(target.types.iter()).zip(of_rows);
    let columns = columns.map(|((name, &sql_type), column)| OfColumn { name, sql_type, is_hidden: column.hidden });
    explain(error, &target.table, &columns.collect::<Vec<_>>(), context.environment)
}

fn detail(violation: &Violation, columns: &[OfColumn<'_>], environment: &dyn Environment) -> Option<String> {
    match violation.constraint {
        Constraint::PrimaryKey | Constraint::Unique => {
            let (mut names, mut values) = (Vec::new(), Vec::new());
            for (name, value) in &violation.key {
                let column = columns.iter().find(|column| column.name == name)?;
                names.push(name.as_str());
                values.push(shown(value, column.sql_type, environment)?);
            }
            (!names.is_empty()).then(|| key_exists(&names, &values))
        }
        Constraint::NotNull | Constraint::Check if !violation.row.is_empty() => {
            let values = violation.row.iter().zip(columns).filter(|(_, column)| !column.is_hidden);
            let values = values.map(|(value, column)| shown(value, column.sql_type, environment).map(shortened));
            Some(format!("Failing row contains ({}).", values.collect::<Option<Vec<_>>>()?.join(", ")))
        }
        _ => None,
    }
}

/// The detail of a key that another row has.
pub(super) fn key_exists(names: &[&str], values: &[String]) -> String {
    format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "))
}

/// A value of a column as text; none if it has none.
fn shown(value: &Value<'_>, sql_type: SqlType, environment: &dyn Environment) -> Option<String> {
    shown_datum(&Datum::of_column(value.borrowed(), sql_type).ok()?, sql_type, environment)
}

/// A value as text; none if it has none.
pub(super) fn shown_datum(value: &Datum, sql_type: SqlType, environment: &dyn Environment) -> Option<String> {
    match value {
        Datum::Null => Some("null".to_owned()),
        value => to_string(value, sql_type, environment).ok(),
    }
}

/// The beginning of a long value.
fn shortened(mut value: String) -> String {
    if value.len() > SHOWN_MAX {
        value.truncate(value.floor_char_boundary(SHOWN_MAX));
        value.push_str("...");
    }
    value
}
