//! Names of SQL, in quotes where they need them.

use crate::functions::strings::quote_identifier;

/// Names with commas between them.
pub(super) fn join_quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(quote_identifier).collect::<Vec<_>>().join(", ")
}
