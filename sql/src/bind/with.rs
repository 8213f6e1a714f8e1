//! WITH: when each of its queries is bound, and those that name themselves.
//!
//! The queries of WITH RECURSIVE may name those that stand after them, so one is bound when it is first named, with
//! what its place in the statement sees. Whether it is recursive is known when its second part is bound: it has named
//! itself or not.

use std::collections::HashSet;
use std::sync::Arc;

use sqlparser::ast::{self, LimitClause, SetExpr, SetQuantifier};

use crate::bind::query::{literals_of, rename};
use crate::bind::scope::{Stage, Waiting, WithName};
use crate::bind::search::Clauses;
use crate::bind::{Binder, Bound, BoundQuery, folded};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::common_type_of;
use crate::plan::expression::Expr;
use crate::plan::query::{Recursion, With};
use crate::types::SqlType;
use crate::types::cast::CastContext;

/// How often queries of a statement are bound once more, for what their binding has shown. Without an end, each level
/// of such queries within each other would take twice the time of the one in it.
const BOUND_AGAIN_MAX: usize = 1_000;

/// A query of WITH that was bound.
pub(super) struct BoundWith {
    pub(super) with: With,
    /// The numbers of those that it names.
    reads: Vec<usize>,
}

/// The queries of a WITH that are read by the query after it, which has named these, or by one of them.
pub(super) fn those_that_are_read(bound: Vec<BoundWith>, named: &[usize]) -> Vec<With> {
    let mut wanted: HashSet<usize> = named.iter().copied().collect();
    let mut read = Vec::with_capacity(bound.len());
    // Each stands after those that it names.
    for BoundWith { with, reads } in bound.into_iter().rev() {
        if wanted.contains(&with.number) {
            wanted.extend(reads);
            read.push(with);
        }
    }
    read.reverse();
    read
}

/// Binds the queries of a WITH, which can be named from then on: each after those that it names.
///
/// # Errors
/// Those of their names and types; 42P19 of recursion that is not allowed.
pub(super) fn bind_with(binder: &mut Binder<'_>, with: &ast::With) -> Result<Vec<BoundWith>> {
    let names: Vec<String> = with.cte_tables.iter().map(|table| folded(&table.alias.name)).collect();
    for (place, name) in names.iter().enumerate() {
        if names[..place].contains(name) {
            let what = format!("WITH query name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, what));
        }
    }
    if !with.recursive {
        let mut done = Vec::new();
        for table in &with.cte_tables {
            done.extend(bind_in_order(binder, table, false)?);
        }
        return Ok(done);
    }
    let (first, levels) = (binder.with.len(), binder.levels.len());
    let end = first + names.len();
    for (name, table) in names.into_iter().zip(&with.cte_tables) {
        let waiting = Waiting { written: table.clone(), levels, first, end };
        let number = binder.number();
        binder.with.push(WithName { name, number, columns: None, stage: Stage::Waiting(Arc::new(waiting)) });
    }
    binder.with_done.push((first, Vec::new()));
    let bound = (first..end).try_for_each(|place| bind_waiting(binder, place));
    let (_, done) = binder.with_done.pop().unwrap_or_default();
    bound.map(|()| done)
}

/// Binds a query of a WITH that stands before all others: it can name itself alone, if the WITH is recursive.
///
/// # Errors
/// Those of [`bind_with`].
pub(super) fn bind_in_order(binder: &mut Binder<'_>, table: &ast::Cte, is_recursive: bool) -> Result<Vec<BoundWith>> {
    if !is_recursive {
        return bind_one(binder, table, None);
    }
    let (place, number) = (binder.with.len(), binder.number());
    binder.with.push(WithName { name: folded(&table.alias.name), number, columns: None, stage: Stage::Alone });
    binder.with_begun.push((place, place));
    let bound = bind_one(binder, table, Some(place));
    binder.with_begun.pop();
    bound
}

/// Binds the query of WITH RECURSIVE with the name at this place, unless that is done.
fn bind_waiting(binder: &mut Binder<'_>, place: usize) -> Result<()> {
    let Stage::Waiting(waiting) = &binder.with[place].stage else { return Ok(()) };
    let waiting = Arc::clone(waiting);
    // It sees what stands around its WITH, and nothing of the place that names it.
    let levels = binder.levels.split_off(waiting.levels);
    let names = binder.with.split_off(waiting.end);
    let windows = std::mem::take(&mut binder.window_names);
    binder.with_begun.push((place, waiting.first));
    let bound = bind_one(binder, &waiting.written, Some(place));
    binder.with_begun.pop();
    binder.window_names = windows;
    binder.with.truncate(waiting.end);
    binder.with.extend(names);
    binder.levels.extend(levels);
    let bound = bound?;
    if let Some((_, done)) = binder.with_done.iter_mut().rev().find(|(first, _)| *first == waiting.first) {
        done.extend(bound);
    }
    Ok(())
}

/// Binds a query of WITH, after the queries of its own WITH. Its name stands at `place` if it may name itself.
fn bind_one(binder: &mut Binder<'_>, table: &ast::Cte, place: Option<usize>) -> Result<Vec<BoundWith>> {
    let (clauses, named) = (Clauses::of(table)?, binder.named.len());
    if let Some(place) = place
        && let Some(parts) = Parts::of(&table.query)
        && let Some(bound) = bind_recursive(binder, table, parts, place, clauses.as_ref())?
    {
        return Ok(bound);
    }
    if clauses.is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "WITH query is not recursive"));
    }
    if let Some(place) = place {
        binder.with[place].stage = Stage::Alone;
    }
    let (mut query, arguments) = binder.inner_query(&table.query)?;
    let name = folded(&table.alias.name);
    rename(&name, &mut query.columns, &aliases(table))?;
    let number = match place {
        Some(place) => binder.with[place].number,
        None => binder.number(),
    };
    let known = WithName { name, number, columns: Some(query.columns), stage: Stage::Done };
    match place {
        Some(place) => binder.with[place] = known,
        None => binder.with.push(known),
    }
    let with = With { number, query: Arc::new(query.query), arguments: exprs(arguments), recursion: None };
    Ok(vec![BoundWith { with, reads: binder.named[named..].to_vec() }])
}

/// The names of its columns that a query of WITH has.
fn aliases(table: &ast::Cte) -> Vec<String> {
    table.alias.columns.iter().map(|column| folded(&column.name)).collect()
}

fn exprs(arguments: Vec<Bound>) -> Vec<Expr> {
    arguments.into_iter().map(|argument| argument.expr).collect()
}

/// The two parts of a query that may be recursive.
struct Parts {
    first: ast::Query,
    again: ast::Query,
    is_distinct: bool,
}

impl Parts {
    /// Those of a UNION.
    fn of(query: &ast::Query) -> Option<Parts> {
        let SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } = &*query.body else {
            return None;
        };
        let alone = |body: &SetExpr| ast::Query {
            with: None,
            body: Box::new(body.clone()),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        };
        let is_distinct = *set_quantifier != SetQuantifier::All;
        Some(Parts { first: alone(left), again: alone(right), is_distinct })
    }
}

/// Binds a query that is recursive. None if it turns out not to name itself.
fn bind_recursive(
    binder: &mut Binder<'_>,
    table: &ast::Cte,
    mut parts: Parts,
    place: usize,
    clauses: Option<&Clauses>,
) -> Result<Option<Vec<BoundWith>>> {
    let (name, number, mut aliases) = (folded(&table.alias.name), binder.with[place].number, aliases(table));
    let (names, named, parameters) = (binder.with.len(), binder.named.len(), binder.parameters.clone());
    let mut done = match &table.query.with {
        Some(with) => bind_with(binder, with)?,
        None => Vec::new(),
    };
    binder.with[place].stage = Stage::First;
    let (mut first, mut arguments) = binder.inner_query(&parts.first)?;
    rename(&name, &mut first.columns, &aliases)?;
    if let Some(clauses) = clauses {
        let columns = first.columns.into_iter().map(|column| column.name).collect();
        (parts.first, parts.again, aliases) = clauses.within(&name, columns, (&parts.first, &parts.again))?;
        count_once_more(binder)?;
        (first, arguments) = binder.inner_query(&parts.first)?;
        rename(&name, &mut first.columns, &aliases)?;
    }
    let columns = Some(first.columns.clone());
    let inner = binder.number();
    binder.with[place] = WithName { name: name.clone(), number: inner, columns: columns.clone(), stage: Stage::Again };
    let (again, again_arguments) = binder.inner_query(&parts.again)?;
    let before = binder.references.len();
    binder.references.retain(|reference| *reference != inner);
    let count = before - binder.references.len();
    binder.with.truncate(names);
    binder.with[place] = WithName { name: name.clone(), number, columns, stage: Stage::Done };
    match count {
        0 => {
            count_once_more(binder)?;
            binder.parameters = parameters;
            return Ok(None);
        }
        1 => {}
        _ => {
            let what = format!("recursive reference to query \"{name}\" must not appear more than once");
            return Err(SqlError::new(SqlState::INVALID_RECURSION, what));
        }
    }
    refuse_tail(&table.query)?;
    let again = in_types_of(binder, &name, again, &first, &literals_of(&parts.again.body))?;
    let recursion = Recursion {
        query: again.query,
        arguments: exprs(again_arguments),
        number: inner,
        is_distinct: parts.is_distinct,
    };
    let (query, recursion) = (Arc::new(first.query), Some(Arc::new(recursion)));
    let with = With { number, query, arguments: exprs(arguments), recursion };
    done.push(BoundWith { with, reads: binder.named[named..].to_vec() });
    Ok(Some(done))
}

/// The second part of a recursive query with the types of the first, which must be those of a UNION of both.
fn in_types_of(
    binder: &mut Binder<'_>,
    name: &str,
    mut again: BoundQuery,
    first: &BoundQuery,
    literals: &[usize],
) -> Result<BoundQuery> {
    if again.columns.len() != first.columns.len() {
        let what = "each UNION query must have the same number of columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    }
    for place in 0..first.columns.len() {
        let (wanted, found) = (first.columns[place].sql_type, again.columns[place].sql_type);
        let is_literal = literals.contains(&place);
        let common = common_type_of("UNION", &[wanted, if is_literal { SqlType::UNKNOWN } else { found }])?;
        if common != wanted && !is_literal {
            let what = format!(
                "recursive query \"{name}\" column {} has type {wanted} in non-recursive term but type {common} overall",
                place + 1
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what)
                .with_hint("Cast the output of the non-recursive term to the correct type."));
        }
        if found.bare() != wanted.bare() {
            let context = if is_literal { CastContext::Explicit } else { CastContext::Implicit };
            again = binder.cast_column(again, place, wanted, context)?;
        }
    }
    Ok(again)
}

/// Fails if a recursive query has more than its two parts.
fn refuse_tail(query: &ast::Query) -> Result<()> {
    let (has_limit, has_offset) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        Some(LimitClause::OffsetCommaLimit { .. }) => (true, true),
        None => (false, false),
    };
    let parts = [
        (query.order_by.is_some(), "ORDER BY"),
        (has_offset, "OFFSET"),
        (has_limit || query.fetch.is_some(), "LIMIT"),
        (!query.locks.is_empty(), "FOR UPDATE/SHARE"),
    ];
    match parts.into_iter().find(|(has_it, _)| *has_it) {
        Some((_, part)) => {
            let what = format!("{part} in a recursive query is not implemented");
            Err(SqlError::unsupported(what, "Write it in the query that reads the rows."))
        }
        None => Ok(()),
    }
}

/// The query of WITH with the name at this place, for a FROM that names it.
///
/// # Errors
/// Those of binding it; 42P19 where it cannot be named; 0A000 if two queries name each other.
pub(super) fn reference(binder: &mut Binder<'_>, place: usize) -> Result<WithName> {
    bind_waiting(binder, place)?;
    let known = binder.with[place].clone();
    if matches!(known.stage, Stage::Done | Stage::Waiting(_)) {
        binder.named.push(known.number);
        return Ok(known);
    }
    let at = binder.with_begun.iter().rposition(|(begun, _)| *begun == place).unwrap_or_default();
    let (this, inner) = binder.with_begun.split_at(at + 1);
    if this.last().is_some_and(|(_, first)| inner.iter().any(|(_, other)| other == first)) {
        let what = "mutual recursion between WITH items is not implemented";
        return Err(SqlError::unsupported(what, "Write them as one query, with a column that says which a row is of."));
    }
    let name = &known.name;
    let what = match known.stage {
        Stage::First => {
            format!("recursive reference to query \"{name}\" must not appear within its non-recursive term")
        }
        Stage::Alone => {
            format!("recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term")
        }
        Stage::Again | Stage::Done | Stage::Waiting(_) => {
            binder.references.push(known.number);
            binder.level().is_recursive = true;
            return Ok(known);
        }
    };
    Err(SqlError::new(SqlState::INVALID_RECURSION, what))
}

/// Counts that a query is bound once more.
///
/// # Errors
/// 54001 if that has come too often.
pub(super) fn count_once_more(binder: &mut Binder<'_>) -> Result<()> {
    binder.bound_again += 1;
    if binder.bound_again > BOUND_AGAIN_MAX {
        let what = "the statement has too many queries whose types depend on each other";
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, what));
    }
    Ok(())
}

/// Fails if a recursive query was named since there were so many references: it must not be within `what`.
///
/// # Errors
/// 42P19.
pub(super) fn refuse_reference(binder: &Binder<'_>, references: usize, what: &str) -> Result<()> {
    let Some(number) = binder.references.get(references) else { return Ok(()) };
    let name = binder.with.iter().find(|with| with.number == *number).map_or("", |with| &with.name);
    let what = format!("recursive reference to query \"{name}\" must not appear within {what}");
    Err(SqlError::new(SqlState::INVALID_RECURSION, what))
}
