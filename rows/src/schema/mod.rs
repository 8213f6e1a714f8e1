//! Declarations of tables: columns, keys, indexes and constraints, by their names.
//!
//! These are what callers write and what schema files hold; how a table lies in trees is in `definition`.

pub(crate) mod column;
pub(crate) mod constraint;
pub(crate) mod index;
pub(crate) mod table;

use quipu::{Error, ErrorKind, Result};

/// The longest name of a table, a column, an index or a constraint, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// An error that says what is wrong with a declaration.
pub(crate) fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// Fails unless this can be a name.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(invalid(format!("the name of {what} has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len())));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid(format!("the name {name:?} of {what} has a control character")));
    }
    Ok(())
}

/// Whether a flag is at its default, which is not written.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
