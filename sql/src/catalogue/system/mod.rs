//! Tables and functions of `pg_catalog` and `information_schema`, made when they are read.
//!
//! | file | what it is |
//! |---|---|
//! | `definition`, `tables` | how tables are defined; all of them |
//! | `source` | what their rows are made from: the objects of a database, with numbers |
//! | `relations`, `constraints` | tables, columns, indexes, sequences; constraints |
//! | `type_tables` | types, collations |
//! | `routines` | functions |
//! | `operators` | operators, casts, how indexes sort |
//! | `server` | databases, roles, settings, sessions, locks |
//! | `statistics` | `pg_stat_*` and `pg_statio_*` |
//! | `information`, `information_types`, `rights` | `information_schema`: tables and constraints, types, rights |
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
use crate::functions::Environment;
use crate::identity::Identity;
use crate::session::shared::Shared;
use crate::types::SqlType;
use crate::types::datum::Datum;

mod ask;
mod constraints;
mod definition;
mod empty;
mod expressions;
mod information;
mod information_types;
mod names;
mod operators;
mod positions;
mod quotes;
mod relations;
mod rights;
mod routines;
mod server;
pub(crate) mod source;
mod statistics;
mod tables;
mod texts;
mod type_tables;

pub(crate) use ask::ask;
pub(crate) use names::{name, number};
use source::Source;
use tables::TABLES;

/// Names and types of columns.
pub type Columns = Vec<(Arc<str>, SqlType)>;

/// The number and the columns of a table of the catalogue; none if there is none of the name.
pub fn columns(schema: Option<&str>, name: &str) -> Option<(u32, Columns)> {
    let found = match schema {
        None | Some("pg_catalog") => TABLES.named(name).filter(|found| found.schema() == "pg_catalog"),
        Some(schema) => TABLES.named(&format!("{schema}.{name}")),
    };
    found.map(|found| (found.number, found.columns.clone()))
}

/// What the rows of the catalogue, and the answers of its functions, are made from.
///
/// # Errors
/// Those of reading the catalogue.
pub(crate) fn source<'s>(
    shared: &'s Shared,
    view: View<'s>,
    identity: &'s Identity,
    environment: &'s dyn Environment,
) -> Result<Source<'s>> {
    Ok(Source { shared, view, identity, environment, catalogue: shared.catalogue_of(view)?, system: &TABLES })
}

/// The rows of a table of the catalogue.
///
/// # Errors
/// [`UNDEFINED_TABLE`](SqlState::UNDEFINED_TABLE) if there is no such table; those of reading the catalogue.
pub(crate) fn rows(source: &Source<'_>, table: &str) -> Result<Vec<Vec<Datum>>> {
    let Some(found) = source.system.named(table) else {
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")));
    };
    definition::rows_of(found, source)
}

/// The rows of a function that reads counts in trees.
///
/// # Errors
/// Those of the arguments, and of reading.
pub(crate) fn ask_rows(source: &Source<'_>, function: &str, arguments: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    if function == "pg_listening_channels" {
        let channels = source.shared.notifications.channels_of(&source.identity.mailbox);
        return Ok(channels.into_iter().map(|channel| vec![Datum::text(&*channel)]).collect());
    }
    positions::rows(source, function, arguments)
}
