//! Tables and functions of `pg_catalog` and `information_schema`, made when they are read.
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | how tables are defined |
//! | `source` | what their rows are made from: the objects of a database, with numbers |
//! | `relations`, `constraints` | tables, columns, indexes, sequences; constraints |
//! | `type_tables` | types, collations |
//! | `routines` | functions |
//! | `operators` | operators, casts, how indexes sort |
//! | `server` | databases, roles, settings, sessions, locks |
//! | `statistics` | `pg_stat_*` and `pg_statio_*` |
//! | `information` | `information_schema` |
//! | `empty` | tables without rows |
//! | `ask` | functions that read the catalogue |
//! | `names` | numbers of objects by their names, and names by their numbers |
//! | `positions` | `quipu_rank` and its like: functions of counts in trees |
//! | `texts`, `expressions`, `quotes` | what objects are declared as; conditions, and names in quotes |
//!
//! The numbers and columns are those of PostgreSQL 15. Counts are exact: `reltuples` and `n_live_tup` come out of the
//! tallies of trees. A table costs what its rows cost, each time that it is read.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::identity::Identity;
use crate::session::Shared;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

mod ask;
mod constraints;
mod definition;
mod empty;
mod expressions;
mod information;
mod names;
mod operators;
mod positions;
mod quotes;
mod relations;
mod routines;
mod server;
mod source;
mod statistics;
mod texts;
mod type_tables;

use source::Source;

/// Names and types of columns.
pub type Columns = Vec<(Arc<str>, SqlType)>;

/// The number and the columns of a table of the catalogue; none if there is none of the name.
pub fn columns(schema: Option<&str>, name: &str) -> Option<(u32, Columns)> {
    let found = match schema {
        None | Some("pg_catalog") => definition::named(name).filter(|found| found.schema() == "pg_catalog"),
        Some(schema) => definition::named(&format!("{schema}.{name}")),
    };
    found.map(|found| (found.number, found.columns.clone()))
}

/// The rows of a table of the catalogue.
///
/// # Errors
/// Those of reading the catalogue.
pub fn rows(shared: &Shared, view: View<'_>, identity: &Identity, table: &str) -> Result<Vec<Vec<Datum>>> {
    let Some(found) = definition::named(table) else {
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")));
    };
    definition::rows_of(found, &Source::new(shared, view, identity)?)
}

/// The answer of a function that reads the catalogue.
///
/// # Errors
/// Those of reading the catalogue.
pub fn ask(shared: &Shared, view: View<'_>, identity: &Identity, function: &str, arguments: &[Datum]) -> Result<Datum> {
    ask::ask(&Source::new(shared, view, identity)?, function, arguments)
}

/// The rows of a function that reads counts in trees.
///
/// # Errors
/// Those of the arguments, and of reading.
pub fn ask_rows(
    shared: &Shared,
    view: View<'_>,
    identity: &Identity,
    function: &str,
    arguments: &[Datum],
) -> Result<Vec<Vec<Datum>>> {
    if function == "pg_listening_channels" {
        let channels = shared.notifications.channels_of(&identity.mailbox);
        return Ok(channels.into_iter().map(|channel| vec![Datum::text(&*channel)]).collect());
    }
    positions::rows(&Source::new(shared, view, identity)?, function, arguments)
}

/// The number of an object by its name.
///
/// # Errors
/// [`UNDEFINED_TABLE`](SqlState::UNDEFINED_TABLE) and its like if there is none.
pub fn object_number(shared: &Shared, view: View<'_>, identity: &Identity, kind: BaseType, name: &str) -> Result<u32> {
    names::number(&Source::new(shared, view, identity)?, kind, name)
}

/// The name of an object; none if there is none of the number.
pub fn object_name(
    shared: &Shared,
    view: View<'_>,
    identity: &Identity,
    kind: BaseType,
    number: u32,
) -> Option<String> {
    names::name(&Source::new(shared, view, identity).ok()?, kind, number)
}
