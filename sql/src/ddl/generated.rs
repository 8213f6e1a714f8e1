//! Generated columns in definitions.

use quipu_rows::{Action, DefinitionsIn, ForeignKey, TableSchema};
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::catalogue::Table;
use crate::catalogue::generated::{bind, readers};
use crate::dialect;
use crate::dialect::Dialect;
use crate::dialect::folded_word;
use crate::error::{Result, SqlError, SqlState};

/// Fails if a generated column of a new table, or a new one, cannot be computed.
pub(super) fn check(schema: &TableSchema, table: &str) -> Result<()> {
    for (place, column) in schema.columns.iter().enumerate().filter(|(_, column)| column.generated.is_some()) {
        let other = match (&column.identity, column.default.is_some() || column.sql_default.is_some()) {
            (Some(_), _) => Some("identity"),
            (None, true) => Some("default"),
            (None, false) => None,
        };
        if let Some(other) = other {
            let what = format!(
                "both {other} and generation expression specified for column \"{}\" of table \"{table}\"",
                column.name
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        bind(schema, place)?;
    }
    for key in &schema.foreign_keys {
        check_foreign_key(schema, key)?;
    }
    Ok(())
}

/// Fails if a foreign key would change a generated column.
pub(super) fn check_foreign_key(schema: &TableSchema, key: &ForeignKey) -> Result<()> {
    let is_generated = |column: &&quipu_rows::Column| column.generated.is_some() && key.columns.contains(&column.name);
    if !schema.columns.iter().any(|column| is_generated(&column)) {
        return Ok(());
    }
    let refused = |of: &str| {
        let what = format!("invalid ON {of} action for foreign key constraint containing generated column");
        Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
    };
    match (key.on_update, key.on_delete) {
        (Action::Cascade | Action::SetNull, _) => refused("UPDATE"),
        (_, Action::SetNull) => refused("DELETE"),
        _ => Ok(()),
    }
}

/// Whether a column is a generated one.
pub(super) fn is_generated(table: &Table, place: usize) -> bool {
    table.declared.columns[place].generated.is_some()
}

/// Fails if a column's type is to be changed that generated columns read.
pub(super) fn refuse_retype(table: &Table, place: usize) -> Result<()> {
    let Some(&reader) = readers(&table.declared, place)?.first() else { return Ok(()) };
    let columns = &table.declared.columns;
    let detail =
        format!("Column \"{}\" is used by generated column \"{}\".", columns[place].name, columns[reader].name);
    let what = "cannot alter type of a column used by a generated column";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_detail(detail))
}

/// The names of the generated columns that go with a column that is dropped.
///
/// # Errors
/// [`DEPENDENT_OBJECTS_STILL_EXIST`](SqlState::DEPENDENT_OBJECTS_STILL_EXIST) unless it is dropped with CASCADE.
pub(super) fn dropped_with(
    table: &Table,
    place: usize,
    is_cascade: bool,
    notice: &dyn Fn(String),
) -> Result<Vec<String>> {
    let columns = &table.declared.columns;
    let (name, of) = (&columns[place].name, &table.name);
    let readers: Vec<String> =
        readers(&table.declared, place)?.into_iter().map(|reader| columns[reader].name.clone()).collect();
    for reader in &readers {
        if !is_cascade {
            let what = format!("cannot drop column {name} of table {of} because other objects depend on it");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("column {reader} of table {of} depends on column {name} of table {of}"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        notice(format!("drop cascades to column {reader} of table {of}"));
    }
    Ok(readers)
}

/// Renames a column in the generated columns that read it.
pub(super) fn rename(definitions: &DefinitionsIn<'_>, table: &Table, place: usize, new: &str) -> Result<()> {
    let readers = readers(&table.declared, place)?;
    if readers.is_empty() {
        return Ok(());
    }
    let mut renamed = table.declared.clone();
    let old = std::mem::replace(&mut renamed.columns[place].name, new.to_owned());
    for reader in readers {
        let text = table.declared.columns[reader].generated.clone().unwrap_or_default();
        renamed.columns[reader].generated = Some(with_other_name(&text, &old, new));
        // A word that is no column, a type of that name, is one that cannot be bound now.
        bind(&renamed, reader).map_err(|_| {
            let what = format!("cannot rename column \"{old}\": a generated column reads it in the words {text}");
            SqlError::unsupported(what, "Drop the generated column, and add it again afterwards.")
        })?;
        let column = &renamed.columns[reader];
        definitions.set_generated(&table.rows_name, &column.name, column.generated.as_deref())?;
    }
    Ok(())
}

/// An expression with another name of a column.
fn with_other_name(text: &str, old: &str, new: &str) -> String {
    let tokens = Tokenizer::new(&Dialect, text).tokenize().unwrap_or_default();
    let next = |at: usize| tokens[at + 1..].iter().find(|token| !matches!(token, Token::Whitespace(_)));
    let written = |(at, token): (usize, &Token)| match token {
        Token::Word(word) => {
            match folded_word(word) == old && !matches!(next(at), Some(Token::LParen | Token::Period)) {
                true => crate::dialect::quoted(new),
                false => dialect::written(token),
            }
        }
        token => dialect::written(token),
    };
    tokens.iter().enumerate().map(written).collect()
}
