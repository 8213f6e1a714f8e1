//! Rows that cursors stand on: queries of cursors with the keys of their rows, and WHERE CURRENT OF, which finds them.

use std::sync::Arc;

use sqlparser::ast::{self, SetExpr, TableFactor};

use crate::bind::names::{Named, Names, TableShape};
use crate::bind::{folded, object_name};
use crate::error::{Result, SqlError};
use crate::known_words::CURRENT_OF;
use crate::plan::expression::{Comparison, Expr, OfCursor};

/// A table of a cursor whose rows the cursor stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorKey {
    /// The table, as rows know it.
    pub table: Arc<str>,
    /// Where the values of its primary key begin in the rows of the cursor.
    pub first: usize,
    /// How many they are.
    pub count: usize,
}

/// The query of a cursor with columns beside its own, which are `columns`: the keys of the tables that it locks, or of
/// its one table. None if it has no such.
///
/// # Errors
/// Those of its names.
pub fn with_keys(
    names: &dyn Names,
    query: &ast::Query,
    columns: usize,
) -> Result<Option<(ast::Query, Vec<CursorKey>)>> {
    let SetExpr::Select(select) = &*query.body else { return Ok(None) };
    let is_plain = matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, _) if groups.is_empty());
    if select.distinct.is_some() || !is_plain || select.having.is_some() {
        return Ok(None);
    }
    let all = || {
        select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
    };
    let (mut added, mut keys, mut end) = (Vec::new(), Vec::new(), columns);
    for factor in all() {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { continue };
        let (schema, table) = object_name(name)?;
        let shown = alias.as_ref().map_or_else(|| table.clone(), |alias| folded(&alias.name));
        let is_with = query.with.iter().flat_map(|with| &with.cte_tables).any(|with| folded(&with.alias.name) == table);
        let is_renamed = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        let is_locked = match &query.locks[..] {
            [] => all().count() == 1,
            locks => locks.iter().any(|lock| match &lock.of {
                Some(of) => object_name(of).is_ok_and(|(_, name)| name == shown),
                None => true,
            }),
        };
        if is_with && schema.is_none() || is_renamed || !is_locked {
            continue;
        }
        let Some(Named::Table(shape)) = names.relation(schema.as_deref(), &table)? else { continue };
        let places = shape.primary.columns.iter().filter_map(|column| column.place);
        let before = added.len();
        for place in places {
            let parts = [&*shown, &*shape.columns[place].name].map(|part| ast::Ident::with_quote('"', part));
            added.push(ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(parts.to_vec())));
        }
        let count = added.len() - before;
        keys.push(CursorKey { table: Arc::clone(&shape.table), first: end, count });
        end += count;
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let mut with = query.clone();
    if let SetExpr::Select(select) = &mut *with.body {
        select.projection.extend(added);
    }
    Ok(Some((with, keys)))
}

/// The cursor that a condition names: `CURRENT OF cursor`.
pub(super) fn current_of(condition: &ast::Expr) -> Option<&str> {
    match condition {
        ast::Expr::Identifier(ident) if ident.quote_style.is_some() => ident.value.strip_prefix(CURRENT_OF),
        _ => None,
    }
}

/// The conditions of the row of a table, whose slots begin with the first, that a cursor stands on.
///
/// # Errors
/// [`FEATURE_NOT_SUPPORTED`](crate::error::SqlState::FEATURE_NOT_SUPPORTED) of a view.
pub(super) fn row_of_cursor(shape: &TableShape, cursor: &str) -> Result<Vec<Expr>> {
    if shape.face.is_some() {
        let hint = "Declare the cursor over the table that the view reads, and change that.";
        return Err(SqlError::unsupported("WHERE CURRENT OF on a view is not implemented", hint));
    }
    let cursor: Arc<str> = cursor.into();
    let places = shape.primary.columns.iter().filter_map(|column| column.place);
    let condition = |(at, place): (usize, usize)| {
        let (table, name) = (Arc::clone(&shape.table), Arc::clone(&shape.name));
        let value = Expr::OfCursor(Arc::new(OfCursor { cursor: Arc::clone(&cursor), table, name, at }));
        let sides = Box::new([Expr::Slot(place), value]);
        Expr::Compare { comparison: Comparison::Equal, is_caseless: false, sides }
    };
    Ok(places.enumerate().map(condition).collect())
}
