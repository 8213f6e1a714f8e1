//! ON CONFLICT: the unique keys that it names, and what becomes of rows that meet others.

use std::sync::Arc;

use sqlparser::ast::{self, OnConflictAction};

use crate::bind::join_order::{index_words, over_relation, over_table};
use crate::bind::names::{KeyShape, TableShape};
use crate::bind::scope::{Relation, columns_of};
use crate::bind::system_columns::SystemColumns;
use crate::bind::{Binder, Bound, folded, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::known_words::{CONFLICT_EXPRESSION, CONFLICT_WHERE};
use crate::plan::change::{Conflict, ConflictKey, ConflictUpdate, KeyWords};
use crate::plan::expression::Expr;
use crate::plan::query::Body;
use crate::types::datum::Datum;

/// What ON CONFLICT says.
pub(super) fn conflict(
    binder: &mut Binder<'_>,
    on: &ast::OnConflict,
    shape: &TableShape,
    unique: &[ConflictKey],
) -> Result<Conflict> {
    let keys = match &on.conflict_target {
        None => Vec::new(),
        Some(ast::ConflictTarget::Columns(columns)) => {
            let (values, condition) = conflict_target(binder, shape, columns)?;
            let is_same = |key: &&ConflictKey| {
                let of_key = match &key.words {
                    Some(words) => words.values.clone(),
                    None => key.places.iter().map(|&place| Expr::Slot(place)).collect(),
                };
                let of_words = key.words.as_ref().map_or(&[][..], |words| &words.condition);
                of_key.iter().all(|value| values.contains(value))
                    && values.iter().all(|value| of_key.contains(value))
                    && of_words.iter().all(|part| condition.contains(part))
            };
            let found: Vec<ConflictKey> = unique.iter().filter(is_same).cloned().collect();
            if found.is_empty() {
                let what = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what));
            }
            found
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let (_, name) = object_name(name)?;
            let is_named = |key: &&ConflictKey| match &key.index {
                Some(index) => **index == *name.as_str(),
                None => shape.primary_name.as_ref() == Some(&name),
            };
            // A view has no constraints.
            let of_table = |key: &&ConflictKey| shape.face.is_none() && is_named(key);
            let found: Vec<ConflictKey> = unique.iter().filter(of_table).cloned().collect();
            if found.is_empty() {
                let (_, table) = shape.shown_name();
                let what = format!("constraint \"{name}\" for table \"{table}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
            }
            found
        }
    };
    let arbiters = if keys.is_empty() { unique } else { &keys[..] };
    if arbiters.iter().any(|key| key.is_unique_later) {
        let what = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
    }
    let update = match &on.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(update) => {
            if keys.is_empty() {
                let what = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(
                    SqlError::new(SqlState::SYNTAX_ERROR, what).with_hint("For example, ON CONFLICT (column_name).")
                );
            }
            let sets = binder.assignments(&update.assignments, shape)?;
            let condition = match &update.selection {
                Some(condition) => {
                    let bound = binder.expr(condition)?;
                    Some(binder.condition(bound, "WHERE")?)
                }
                None => None,
            };
            Some(ConflictUpdate { sets, condition })
        }
    };
    Ok(Conflict { keys, update })
}

/// Refuses `excluded.id` where the table gives the number of `id`: a row that meets another takes none.
pub(super) fn refuse_number_to_come(
    update: &ConflictUpdate,
    shape: &TableShape,
    (places, source): (&[usize], Option<&crate::plan::query::Query>),
) -> Result<()> {
    let is_given = |place: usize| {
        let Some(at) = places.iter().position(|given| *given == place) else { return false };
        match source.map(|source| &source.body) {
            Some(Body::Values(rows)) => rows.iter().all(|row| row[at] != Expr::Constant(Datum::Null)),
            _ => true,
        }
    };
    let width = shape.columns.len();
    for (place, column) in shape.columns.iter().enumerate() {
        let is_read = |part: &Expr| *part == Expr::Slot(width + place);
        let mut read = update.sets.iter().map(|(_, value)| value).chain(&update.condition);
        if column.identity.is_some() && !is_given(place) && read.any(|expr| expr.any(&is_read)) {
            return Err(SqlError::unsupported(
                format!("excluded.{} has no value: a row that ON CONFLICT turns away takes no number", column.name),
                "Give the column a value, for example nextval(...), or use the number of the row that is there.",
            ));
        }
    }
    Ok(())
}

/// An expression over the columns of a table that is written, as the statement knows them.
fn over_target<T>(
    binder: &mut Binder<'_>,
    shape: &TableShape,
    written: &ast::Expr,
    of_bound: impl FnOnce(&mut Binder<'_>, Bound) -> Result<T>,
) -> Result<T> {
    let relation = relation_of(shape, Arc::clone(shape.shown_name().1), 0, false);
    over_relation(binder, relation, written, of_bound)
}

/// The values that ON CONFLICT names before DO, and what it says of the rows of an index.
fn conflict_target(
    binder: &mut Binder<'_>,
    shape: &TableShape,
    columns: &[ast::Ident],
) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let (mut values, mut condition) = (Vec::new(), Vec::new());
    for column in columns {
        // A text of its own has places of its own: errors are at where it begins in the statement.
        let position = binder.position(column.span);
        let moved = |error: SqlError| error.without_position().at(position);
        if let Some(text) = column.value.strip_prefix(CONFLICT_EXPRESSION) {
            let written = crate::statement::parse_expression(text).map_err(moved)?;
            values.push(over_target(binder, shape, &written, |_, bound| Ok(bound.expr)).map_err(moved)?);
        } else if let Some(text) = column.value.strip_prefix(CONFLICT_WHERE) {
            let written = crate::statement::parse_expression(text).map_err(moved)?;
            let bound = over_target(binder, shape, &written, |binder, bound| binder.condition(bound, "WHERE"));
            condition = bound.map_err(moved)?.into_conjuncts();
        } else {
            let name = folded(column);
            let shown = shape.face.as_ref().and_then(|face| face.columns.iter().find(|shown| *shown.name == *name));
            values.push(match shown {
                Some(shown) => shown.value.clone(),
                None => Expr::Slot(binder.place_of(shape, column)?),
            });
        }
    }
    Ok((values, condition))
}

/// The unique keys of a table: the primary one, and those of unique indexes whose words are understood.
pub(super) fn unique_keys(binder: &mut Binder<'_>, shape: &TableShape) -> Vec<ConflictKey> {
    let keys = std::iter::once(&shape.primary).chain(&shape.indexes);
    let unique = keys.filter(|key| key.is_unique || key.is_unique_later);
    unique.filter_map(|key| unique_key(binder, shape, key)).collect()
}

fn unique_key(binder: &mut Binder<'_>, shape: &TableShape, key: &KeyShape) -> Option<ConflictKey> {
    let (index, is_unique_later) = (key.index.clone(), key.is_unique_later);
    let columns = &key.columns[..key.own];
    let places: Option<Vec<usize>> = columns.iter().map(|column| column.place).collect();
    if let (Some(places), None) = (places, &key.predicate) {
        return Some(ConflictKey { index, places, words: None, is_unique_later });
    }
    let words = index_words(binder, shape, 0, key);
    let condition = match (&key.predicate, words.predicate) {
        (Some(_), None) => return None,
        (_, predicate) => predicate.unwrap_or_default(),
    };
    let (mut values, mut types, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (at, column) in columns.iter().enumerate() {
        let (value, sql_type, name) = match column.place {
            Some(place) => (Expr::Slot(place), shape.types[place], shape.columns[place].name.to_string()),
            None => {
                let (_, value) = words.expressions.iter().find(|(own, _)| *own == at)?;
                let written = key.expressions.iter().find(|expression| expression.at == at)?;
                let held = over_table(binder, shape, 0, &written.written, |_, bound| Ok(bound.sql_type)).ok()?;
                (value.clone(), held, written.written.to_string())
            }
        };
        values.push(value);
        types.push(sql_type);
        names.push(name);
    }
    let mut places = Vec::new();
    values.iter().chain(&condition).for_each(|part| part.add_slots(&mut places));
    places.sort_unstable();
    places.dedup();
    let words = Some(Arc::new(KeyWords { values, types, names, condition }));
    Some(ConflictKey { index, places, words, is_unique_later })
}

/// A table that is written, as a relation of this name.
pub(super) fn relation_of(shape: &TableShape, name: Arc<str>, base: usize, needs_name: bool) -> Relation {
    Relation {
        name,
        schema: Some(Arc::clone(shape.shown_name().0)),
        columns: columns_of(shape, base),
        is_visible: true,
        needs_name,
        is_one_value: false,
        system: SystemColumns::of(shape, base),
    }
}
