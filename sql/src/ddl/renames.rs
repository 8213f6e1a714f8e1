//! Views that follow a column to its new name.

use sqlparser::tokenizer::{Token, Tokenizer};

use crate::catalogue::readers::Reader;
use crate::catalogue::{Materialized, Table, View};
use crate::ddl::Ddl;
use crate::dialect::Dialect;
use crate::dialect::folded_word;
use crate::error::Result;
use crate::functions::strings::quote_identifier;
use crate::tokens::position_of;

/// What reads a table, and how its query runs.
pub(super) struct Running {
    reader: Reader,
    plan: String,
    /// The names of its columns.
    columns: Vec<String>,
}

/// What reads a table before one of its columns gets another name.
pub(super) fn readers_of(ddl: &Ddl<'_>, table: &Table) -> Result<Vec<Running>> {
    let evaluator = ddl.context.evaluator;
    let readers = ddl.catalogue()?.readers(&table.schema, &table.name);
    let running = readers.into_iter().map(|reader| {
        let (text, path) = reader.query();
        let plan = evaluator.plan(&text, path)?;
        let columns = evaluator.columns(&crate::statement::parse_query(&text)?, path)?;
        let mut columns: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
        if let Reader::View(_, view) = &reader {
            columns.iter_mut().zip(&view.columns).for_each(|(column, given)| column.clone_from(given));
        }
        Ok(Running { reader, plan, columns })
    });
    running.collect()
}

/// Has the queries of readers say a column's new name, where they run as before with it. Others are left as they are.
pub(super) fn follow(ddl: &Ddl<'_>, readers: Vec<Running>, old: &str, new: &str) -> Result<()> {
    for Running { reader, plan, columns } in readers {
        let (text, path) = reader.query();
        let Some(query) = with_name(&text, old, new) else { continue };
        if ddl.context.evaluator.plan(&query, path).ok() != Some(plan) {
            continue;
        }
        match &reader {
            Reader::View(number, view) => {
                let view = View { query, columns, ..View::clone(view) };
                ddl.store().put_view(ddl.transaction, Some(*number), &view)?;
            }
            Reader::Materialized(table) => {
                let Some(known) = table.materialized.as_deref() else { continue };
                let materialized = Materialized { query, ..known.clone() };
                ddl.store().set_materialized(ddl.transaction, table.number, Some(&materialized))?;
            }
        }
    }
    Ok(())
}

/// A text with another name wherever it says one; none if it does not say it.
fn with_name(text: &str, old: &str, new: &str) -> Option<String> {
    let tokens = Tokenizer::new(&Dialect {}, text).tokenize_with_location().ok()?;
    let mut places = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => {
            let (start, end) = (token.span.start, token.span.end);
            let is_meant = folded_word(word) == old;
            is_meant.then(|| {
                Some((position_of(text, start.line, start.column)?, position_of(text, end.line, end.column)?))
            })?
        }
        _ => None,
    });
    let (mut renamed, mut found, mut next) = (String::new(), false, places.next());
    let mut end = 0;
    for (at, character) in text.chars().enumerate().map(|(at, character)| (at + 1, character)) {
        if let Some((from, to)) = next.filter(|(from, _)| *from == at) {
            renamed.push_str(&quote_identifier(new));
            (found, end, next) = (true, to.max(from + 1), places.next());
        }
        if at >= end {
            renamed.push(character);
        }
    }
    found.then_some(renamed)
}
