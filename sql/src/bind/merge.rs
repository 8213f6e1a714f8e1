//! MERGE, and statements with parts that change rows.

use std::sync::Arc;

use sqlparser::ast::{self, MergeClauseKind, MergeInsertKind, SetExpr, Statement};

use crate::bind::change::{BoundChange, columns_of_insert, defaults_beside, given, is_default, refuse_given, target};
use crate::bind::conflict::unique_keys;
use crate::bind::from::Item;
use crate::bind::join_order::Needs;
use crate::bind::names::TableShape;
use crate::bind::scope::{Level, Stage, WithName};
use crate::bind::updatable::{Verb, table_to_write};
use crate::bind::with::bind_in_order;
use crate::bind::{Binder, folded};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::plan::change::{
    Change, Delete, Insert, Last, Merge, MergeAction, MergeClause, Overriding, Part, Several, Update,
};
use crate::plan::expression::Expr;
use crate::plan::source::{JoinKind, Source};

/// Whether a query, or one of its WITH, changes rows.
pub fn changes_rows(query: &ast::Query) -> bool {
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    changed_by(&query.body).is_some() || with.into_iter().any(|table| changed_by(&table.query.body).is_some())
}

fn changed_by(body: &SetExpr) -> Option<&Statement> {
    match body {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

/// Binds an INSERT, an UPDATE, a DELETE or a MERGE.
///
/// # Errors
/// Those of its names and types.
pub fn bind_change(binder: &mut Binder<'_>, statement: &Statement) -> Result<BoundChange<Change>> {
    Ok(match statement {
        Statement::Insert(insert) => {
            let BoundChange { change, columns } = binder.insert(insert)?;
            BoundChange { change: Change::Insert(Box::new(change)), columns }
        }
        Statement::Update(update) => {
            let BoundChange { change, columns } = binder.update(update)?;
            BoundChange { change: Change::Update(Box::new(change)), columns }
        }
        Statement::Delete(delete) => {
            let BoundChange { change, columns } = binder.delete(delete)?;
            BoundChange { change: Change::Delete(Box::new(change)), columns }
        }
        Statement::Merge(merge) => {
            BoundChange { change: Change::Merge(Box::new(bind_merge(binder, merge)?)), columns: None }
        }
        other => return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("no change of rows: {other}"))),
    })
}

/// Binds a statement with parts that change rows.
///
/// # Errors
/// Those of its names and types.
pub fn bind_several(binder: &mut Binder<'_>, query: &ast::Query) -> Result<BoundChange<Several>> {
    let mut parts = Vec::new();
    if let Some(with) = &query.with {
        for table in &with.cte_tables {
            let name = folded(&table.alias.name);
            let Some(statement) = changed_by(&table.query.body) else {
                parts.extend(
                    bind_in_order(binder, table, with.recursive)?.into_iter().map(|bound| Part::Query(bound.with)),
                );
                continue;
            };
            if table.query.with.is_some() {
                let what = "WITH within a part of WITH that changes rows is not supported";
                return Err(SqlError::unsupported(what, "Name its queries in the outer WITH, before it."));
            }
            let number = binder.number();
            let BoundChange { change, mut columns } = bind_change(binder, statement)?;
            if let Some(columns) = &mut columns {
                let aliases: Vec<String> = table.alias.columns.iter().map(|column| folded(&column.name)).collect();
                crate::bind::query::rename(&name, columns, &aliases)?;
            }
            binder.with.push(WithName { name, number, columns, stage: Stage::Done });
            parts.push(Part::Change(number, change));
        }
    }
    let BoundChange { change: last, columns } = match changed_by(&query.body) {
        Some(statement) => bind_change(binder, statement)
            .map(|bound| BoundChange { change: Last::Change(bound.change), columns: bound.columns })?,
        None => {
            let alone = ast::Query { with: None, ..query.clone() };
            let bound = binder.query(&alone)?;
            BoundChange { change: Last::Query(Box::new(bound.query)), columns: Some(bound.columns) }
        }
    };
    binder.with.clear();
    Ok(BoundChange { change: Several { parts, last }, columns })
}

fn bind_merge(binder: &mut Binder<'_>, merge: &ast::Merge) -> Result<Merge> {
    foreign::factor(&merge.table)?;
    let ast::TableFactor::Table { name, alias, .. } = &merge.table else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "MERGE takes the name of a table"));
    };
    if merge.output.is_some() {
        let what = "MERGE with RETURNING is not supported";
        return Err(SqlError::unsupported(what, "Write INSERT, UPDATE and DELETE with RETURNING."));
    }
    let shape = table_to_write(binder, name, Verb::Merge)?;
    binder.levels.push(Level { place: "MERGE", ..Level::default() });
    let bound = bind_merge_into(binder, merge, &shape, alias.as_ref());
    binder.levels.pop();
    bound
}

fn bind_merge_into(
    binder: &mut Binder<'_>,
    merge: &ast::Merge,
    shape: &Arc<TableShape>,
    alias: Option<&ast::TableAlias>,
) -> Result<Merge> {
    if merge.clauses.is_empty() {
        return Err(
            SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input").with_detail("MERGE needs a WHEN.")
        );
    }
    let item = binder.table(Arc::clone(shape), None, alias, None)?;
    let using = ast::TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
    binder.level().relations[0].is_visible = false;
    let source = binder.from(&[using]);
    binder.level().relations[0].is_visible = true;
    let Some(source) = source? else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "MERGE takes rows after USING"));
    };
    binder.level().place = "JOIN/ON";
    let on = binder.expr(&merge.on)?;
    let on = binder.condition(on, "JOIN/ON")?.into_conjuncts();
    let mut reads = Vec::new();
    let mut clauses = Vec::with_capacity(merge.clauses.len());
    for written in &merge.clauses {
        let clause = merge_clause(binder, written, shape, &mut reads)?;
        let hides = |before: &MergeClause| before.is_matched == clause.is_matched && before.condition.is_none();
        if clauses.iter().any(hides) {
            let what = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        clauses.push(clause);
    }
    let item = Item::Join { kind: JoinKind::Left, left: Box::new(source), right: Box::new(item), on };
    // Whole rows are looked at: what WHEN says depends on what they match.
    reads.extend(0..shape.columns.len());
    crate::bind::select::add_item_reads(&item, &mut reads);
    let needs = Needs { reads: &reads, wanted: &[], reads_all: false };
    let ordered = binder.in_order(Some(item), Vec::new(), &needs)?;
    let frame = binder.level().frame;
    Ok(Merge { target: target(shape, 0), source: ordered.source, frame, clauses })
}

fn merge_clause(
    binder: &mut Binder<'_>,
    written: &ast::MergeClause,
    shape: &Arc<TableShape>,
    reads: &mut Vec<usize>,
) -> Result<MergeClause> {
    let is_matched = match written.clause_kind {
        MergeClauseKind::Matched => true,
        MergeClauseKind::NotMatched => false,
        _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"BY\"")),
    };
    // A row that matches nothing has no columns of the table.
    binder.level().relations[0].is_visible = is_matched;
    binder.level().place = "MERGE WHEN AND";
    let condition = match &written.predicate {
        Some(predicate) => {
            let bound = binder.expr(predicate)?;
            Some(binder.condition(bound, "WHEN")?)
        }
        None => None,
    };
    condition.iter().for_each(|condition| condition.add_slots(reads));
    binder.level().place = "MERGE";
    let no = ast::Value::Boolean(false);
    let never = |predicate: &ast::Expr| matches!(predicate, ast::Expr::Value(value) if value.value == no);
    let refused = || Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
    let action = match &written.action {
        // DO NOTHING, as `statement` writes it.
        ast::MergeAction::Update(ast::MergeUpdateExpr { update_predicate: Some(predicate), .. })
        | ast::MergeAction::Insert(ast::MergeInsertExpr { insert_predicate: Some(predicate), .. }) => {
            if !never(predicate) {
                return refused();
            }
            MergeAction::Nothing
        }
        ast::MergeAction::Update(ast::MergeUpdateExpr { delete_predicate: Some(_), .. }) => return refused(),
        ast::MergeAction::Update(update) => {
            let sets = binder.assignments(&update.assignments, shape)?;
            sets.iter().for_each(|(_, value)| value.add_slots(reads));
            let mut unique = unique_keys(binder, shape);
            unique.retain(|key| key.places.iter().any(|place| sets.iter().any(|(set, _)| set == place)));
            let frame = binder.level().frame;
            let (target, source) = (target(shape, 0), Source::Nothing);
            MergeAction::Update(Box::new(Update { target, source, frame, sets, unique, returning: None }))
        }
        ast::MergeAction::Delete { .. } => {
            let frame = binder.level().frame;
            let (target, source) = (target(shape, 0), Source::Nothing);
            MergeAction::Delete(Box::new(Delete { target, source, frame, returning: None }))
        }
        ast::MergeAction::Insert(insert) => merge_insert(binder, insert, shape, reads)?,
    };
    binder.level().relations[0].is_visible = true;
    Ok(MergeClause { is_matched, condition, action })
}

fn merge_insert(
    binder: &mut Binder<'_>,
    written: &ast::MergeInsertExpr,
    shape: &Arc<TableShape>,
    reads: &mut Vec<usize>,
) -> Result<MergeAction> {
    let MergeInsertKind::Values(values) = &written.kind else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT of MERGE takes VALUES"));
    };
    foreign::values(values)?;
    let [row] = &values.rows[..] else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT of MERGE takes one row of VALUES"));
    };
    let (overriding, columns) = columns_of_insert(&written.columns);
    let mut places = binder.insert_places(shape, columns)?;
    if row.len() > places.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if row.len() < places.len() && !columns.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
    }
    places.truncate(row.len());
    let mut values: Vec<Expr> = Vec::with_capacity(row.len());
    for (&place, value) in places.iter().zip(row.iter()) {
        refuse_given(shape, place, Some(value))?;
        let is_overridden = overriding == Some(Overriding::User) && shape.columns[place].identity.is_some();
        values.push(if is_default(value) || is_overridden {
            binder.default_of(shape, place)?
        } else {
            let bound = binder.expr(value)?;
            given(binder, bound, shape, place)?
        });
    }
    values.iter().for_each(|value| value.add_slots(reads));
    let defaults = defaults_beside(binder, shape, &places)?;
    let insert = Insert {
        reads_target: true,
        target: target(shape, 0),
        places,
        source: None,
        defaults,
        unique: unique_keys(binder, shape),
        is_overriding: overriding == Some(Overriding::System),
        conflict: None,
        returning: None,
    };
    Ok(MergeAction::Insert(Box::new(insert), values))
}
