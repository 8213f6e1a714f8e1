//! Names of tables in SQL, which have a schema, and in rows, which have none.
//!
//! A table of the schema `public` has its own name in rows, one of another schema that of its schema before it, with a
//! point between them. A point in a name does not mislead: of a name whose first part is a schema, that is the schema;
//! and a table of `public` whose name would be read so has `public.` before it.

use crate::functions::identifiers::folded_letter;

/// The schema in which tables are that say nothing else.
pub const PUBLIC: &str = "public";

/// The extensions of PostgreSQL whose types and functions are always here, with their versions.
pub const EXTENSIONS: [(&str, &str); 3] = [("citext", "1.6"), ("plpgsql", "1.0"), ("uuid-ossp", "1.1")];

/// What names of the schemas begin with in which temporary tables of sessions are.
const TEMPORARY: &str = "pg_temp_";

/// The schema of temporary tables of the session that is the only one to have this number.
pub fn temporary(session: u64) -> String {
    format!("{TEMPORARY}{session}")
}

/// The session of a schema of temporary tables.
pub fn session_of(schema: &str) -> Option<u64> {
    schema.strip_prefix(TEMPORARY)?.parse().ok()
}

/// Whether a schema is one of temporary tables, or a table of rows is in one.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}

/// The name of a table in rows. `is_schema` tells whether there is a schema of a name.
pub fn in_rows(schema: &str, name: &str, is_schema: impl Fn(&str) -> bool) -> String {
    if schema != PUBLIC {
        return format!("{schema}.{name}");
    }
    match name.split_once('.') {
        Some((first, _)) if first == PUBLIC || is_schema(first) => format!("{PUBLIC}.{name}"),
        _ => name.to_owned(),
    }
}

/// The schema and the name of a table of rows.
pub fn in_sql(rows_name: &str, is_schema: impl Fn(&str) -> bool) -> (&str, &str) {
    match rows_name.split_once('.') {
        Some((first, rest)) if !rest.is_empty() && (first == PUBLIC || is_schema(first)) => (first, rest),
        _ => (PUBLIC, rows_name),
    }
}

/// The parts of a name, which points separate unless they stand in quotes; in lower case unless quoted.
pub fn parts_of(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = name.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let part = match (letter, is_quoted) {
            ('"', true) if letters.peek() == Some(&'"') => letters.next(),
            ('"', _) => {
                is_quoted = !is_quoted;
                None
            }
            ('.', false) => {
                parts.push(String::new());
                None
            }
            (letter, true) => Some(letter),
            (letter, false) => Some(folded_letter(letter)),
        };
        if let (Some(part), Some(last)) = (part, parts.last_mut()) {
            last.push(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_there_and_back() {
        let is_schema = |name: &str| name == "sales";
        for (schema, name) in
            [("public", "t"), ("public", "a.b"), ("public", "sales.t"), ("public", "public.t"), ("sales", "a.b")]
        {
            let rows_name = in_rows(schema, name, is_schema);
            assert_eq!(in_sql(&rows_name, is_schema), (schema, name), "{rows_name}");
        }
        assert_eq!(in_rows("public", "a.b", is_schema), "a.b");
        assert_eq!(in_rows("sales", "t", is_schema), "sales.t");
        assert_eq!(in_sql("other.t", is_schema), ("public", "other.t"));
    }
}
