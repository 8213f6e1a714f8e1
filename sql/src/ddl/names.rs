//! Names as statements write them, and names for what is given none.

use std::fmt;

use sqlparser::ast::{ObjectName, ObjectNamePart};

use crate::bind::types::collation as collation_of;
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// The longest name that is made, in bytes: PostgreSQL's.
const MADE_BYTES_MAX: usize = 63;

/// A name with the schema that it says, if it says one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The schema.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

/// The parts of a name between points.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if one is no identifier.
pub fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(folded(ident)),
        ObjectNamePart::Function(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} is not a name"))),
    };
    name.0.iter().map(part).collect()
}

/// A name that may have a schema, and a database before that, which is not looked at.
///
/// # Errors
/// Those of [`parts`], and of too many of them.
pub fn qualified(name: &ObjectName) -> Result<Name> {
    let mut parts = parts(name)?;
    let last = parts.pop().filter(|_| parts.len() <= 2);
    let last = last.ok_or_else(|| {
        let what = format!("improper qualified name (too many dotted names): {name}");
        SqlError::new(SqlState::SYNTAX_ERROR, what)
    })?;
    Ok(Name { schema: parts.pop(), name: last })
}

/// A name made of others, as PostgreSQL makes them: `table_column_key`. The longest part is cut where all are too long.
pub fn make(first: &str, second: &str, label: &str) -> String {
    let (mut first, mut second) = (first.to_owned(), second.to_owned());
    let points = usize::from(!second.is_empty()) + usize::from(!label.is_empty());
    while first.len() + second.len() + label.len() + points > MADE_BYTES_MAX {
        if first.len() >= second.len() {
            first.pop()
        } else {
            second.pop()
        };
    }
    let parts = [&*first, &*second, label];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// The first of `name`, `name1`, `name2` and so on that is not taken.
pub fn choose(first: &str, second: &str, label: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = 0;
    loop {
        let label = if number == 0 { label.to_owned() } else { format!("{label}{number}") };
        let name = make(first, second, &label);
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// The name of a collation that is declared of values of a type; none if it is the default one.
///
/// # Errors
/// [`DATATYPE_MISMATCH`](SqlState::DATATYPE_MISMATCH) for a type without collations; those of [`collation_of`].
pub fn collation(name: &ObjectName, sql_type: SqlType) -> Result<Option<String>> {
    let found = collation_of(name)?;
    if !sql_type.without_domain().base.is_text() {
        let what = format!("collations are not supported by type {}", sql_type.bare());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    Ok((found != "default").then(|| found.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_postgresql() {
        assert_eq!(make("t", "a_b", "key"), "t_a_b_key");
        assert_eq!(make("t", "", "pkey"), "t_pkey");
        let made = make(&"t".repeat(60), &"c".repeat(60), "fkey");
        assert_eq!((made.len(), &made[58..]), (63, "_fkey"));
        assert_eq!(choose("t", "a", "check", |name| name == "t_a_check"), "t_a_check1");
    }
}
