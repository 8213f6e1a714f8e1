//! CREATE EXTENSION and DROP EXTENSION. Those of [`EXTENSIONS`] are a part of Quipu, and so are always there: the type
//! `citext`, the function `uuid_generate_v4`, and `plpgsql`, which every database of PostgreSQL lists; there are no
//! others.

use sqlparser::ast::{CreateExtension, DropExtension, Ident};

use crate::catalogue::names_in_rows::EXTENSIONS;
use crate::error::{Result, SqlError, SqlState};

fn is_known(name: &Ident) -> bool {
    EXTENSIONS.iter().any(|(known, _)| *known == name.value)
}

/// What to do without an extension that is not there.
fn hint(name: &str) -> &'static str {
    match name {
        "pgcrypto" => "gen_random_uuid() and sha256() are there without it.",
        "hstore" => "Use jsonb.",
        _ => "Leave it out; docs/sql-types.md has what is there.",
    }
}

/// CREATE EXTENSION: a notice that it is there, with or without IF NOT EXISTS, since scripts make what they need.
///
/// # Errors
/// 0A000 for one that is not there.
pub(super) fn create(create: &CreateExtension) -> Result<SqlError> {
    let name = &create.name.value;
    if !is_known(&create.name) {
        return Err(SqlError::unsupported(format!("extension \"{name}\" is not available"), hint(name)));
    }
    Ok(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("extension \"{name}\" already exists, skipping")))
}

/// DROP EXTENSION: notices of those that are not there and may be missing.
///
/// # Errors
/// 42704 for one that is not there, 0A000 for one that is.
pub(super) fn drop(dropped: &DropExtension) -> Result<Vec<SqlError>> {
    let mut notices = Vec::new();
    for name in &dropped.names {
        let text = &name.value;
        if is_known(name) {
            let what = format!("extension \"{text}\" cannot be dropped: it is always there");
            return Err(SqlError::unsupported(what, "Leave it as it is."));
        }
        if !dropped.if_exists {
            let what = format!("extension \"{text}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
        }
        let what = format!("extension \"{text}\" does not exist, skipping");
        notices.push(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
    }
    Ok(notices)
}
