//! Tables and functions of `pg_catalog` and `information_schema`, made when they are read.

use std::sync::Arc;

use crate::catalogue::{Catalogues, Relation};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::identity::Identity;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// Names and types of columns.
pub type Columns = Vec<(Arc<str>, SqlType)>;

/// The number and the columns of a table of the catalogue; none if there is none of the name.
pub fn columns(_schema: Option<&str>, _name: &str) -> Option<(u32, Columns)> {
    None
}

/// The rows of a table of the catalogue.
///
/// # Errors
/// Those of reading the catalogue.
pub fn rows(_catalogues: &Catalogues, _view: View<'_>, _identity: &Identity, table: &str) -> Result<Vec<Vec<Datum>>> {
    Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")))
}

/// The answer of a function that reads the catalogue.
///
/// # Errors
/// Those of reading the catalogue.
pub fn ask(
    _catalogues: &Catalogues,
    _view: View<'_>,
    _identity: &Identity,
    function: &str,
    _arguments: &[Datum],
) -> Result<Datum> {
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} does not exist")))
}

/// The number of an object by its name.
///
/// # Errors
/// [`UNDEFINED_TABLE`](SqlState::UNDEFINED_TABLE) and its like if there is none.
pub fn object_number(catalogues: &Catalogues, view: View<'_>, kind: BaseType, name: &str) -> Result<u32> {
    let catalogue = catalogues.of(view)?;
    match catalogue.relation(None, name, &["public".to_owned()]) {
        Some(Relation::Table(table)) if kind == BaseType::RegClass => Ok(table.oid()),
        _ => Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))),
    }
}

/// The name of an object; none if there is none of the number.
pub fn object_name(catalogues: &Catalogues, view: View<'_>, _kind: BaseType, number: u32) -> Option<String> {
    let catalogue = catalogues.of(view).ok()?;
    catalogue.tables().values().find(|table| table.oid() == number).map(|table| table.name.clone())
}
