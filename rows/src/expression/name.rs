//! Columns as expressions see them, and names as the text of an expression has them.

use crate::value::data_type::DataType;

/// A column as expressions see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnName<'n> {
    pub(crate) name: &'n str,
    pub(crate) data_type: DataType,
}

/// A name as expressions write it: in quotes if it is no plain word.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !is_keyword(name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

const KEYWORDS: [&str; 14] =
    ["and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "asc", "desc", "date", "timestamp"];

/// Whether a name means something else in an expression, so that a column of that name needs quotes.
pub(crate) fn is_keyword(name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(name))
}
