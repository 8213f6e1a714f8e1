//! The options of EXPLAIN: `EXPLAIN (ANALYZE, FORMAT JSON) SELECT ...`.

use sqlparser::ast;

use crate::error::{Result, SqlError, SqlState};

/// What EXPLAIN is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExplainOptions {
    /// Whether the statement is run.
    pub is_run: bool,
    /// Whether the plan is JSON, not lines.
    pub is_json: bool,
}

/// The options of a statement; of others, those of none.
///
/// # Errors
/// 42601 for an option that PostgreSQL does not have, 22023 for a value that its option does not take, 0A000 for
/// formats that are not here.
pub(super) fn of(statement: &ast::Statement) -> Result<ExplainOptions> {
    let ast::Statement::Explain { analyze, options, .. } = statement else { return Ok(ExplainOptions::default()) };
    let mut read = ExplainOptions { is_run: *analyze, is_json: false };
    for option in options.iter().flatten() {
        let name = option.name.value.to_lowercase();
        let value = option.arg.as_ref().map(|value| value.to_string().trim_matches('\'').to_lowercase());
        match &*name {
            "format" => match value.as_deref() {
                Some("text") => read.is_json = false,
                Some("json") => read.is_json = true,
                Some("xml" | "yaml") => {
                    let what = "EXPLAIN writes no XML and no YAML";
                    return Err(SqlError::unsupported(what, "Write FORMAT JSON or FORMAT TEXT."));
                }
                other => {
                    let other = other.unwrap_or_default();
                    let what = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
                }
            },
            "analyze" => read.is_run = is_on(&name, value.as_deref())?,
            "verbose" | "costs" | "settings" | "buffers" | "wal" | "timing" | "summary" => {
                is_on(&name, value.as_deref())?;
            }
            _ => {
                let what = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
            }
        }
    }
    Ok(read)
}

/// The value of a switch, which is on if there is none.
fn is_on(name: &str, value: Option<&str>) -> Result<bool> {
    match value {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}
