//! MERGE.

use std::collections::HashSet;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::change;
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate_all, holds};
use crate::execute::found_rows::Found;
use crate::execute::key_locks::lock;
use crate::execute::scan::key_in_frame;
use crate::execute::source::SourceCursor;
use crate::plan::change::{Delete, Insert, Merge, MergeAction, Update};
use crate::types::datum::Datum;

/// What a MERGE does with one of its rows.
pub(super) enum Merged<'m> {
    Update(&'m Update, Found),
    Delete(&'m Delete, Found),
    Insert(&'m Insert, Vec<Datum>),
}

/// What a MERGE does with its rows, which are locked.
pub(super) fn find_merged<'m>(merge: &'m Merge, context: &Context<'_>) -> Result<Vec<Merged<'m>>> {
    let mut cursor = SourceCursor::new(&merge.source);
    let mut frame = vec![Datum::Null; merge.frame];
    let (mut rows, mut touched) = (Vec::new(), HashSet::new());
    while cursor.next(&merge.source, &mut frame, context)? {
        context.state.step()?;
        let key = key_in_frame(&merge.target.scan, &frame);
        let is_matched = !key.iter().any(Datum::is_null);
        let mut action = None;
        for clause in merge.clauses.iter().filter(|clause| clause.is_matched == is_matched) {
            let is_kept = match &clause.condition {
                Some(condition) => holds(condition, &frame, context)?,
                None => true,
            };
            if is_kept {
                action = Some(&clause.action);
                break;
            }
        }
        let Some(action) = action.filter(|action| !matches!(action, MergeAction::Nothing)) else { continue };
        if is_matched && !touched.insert(key.clone()) {
            let what = "MERGE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, what)
                .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        context.state.keep(&frame)?;
        let mut found = Found { key, frame: frame.clone(), changes: Vec::new() };
        rows.push(match action {
            MergeAction::Nothing => continue,
            MergeAction::Update(update) => {
                found.changes = change::new_values(update, &frame, context)?;
                Merged::Update(update, found)
            }
            MergeAction::Delete(delete) => Merged::Delete(delete, found),
            MergeAction::Insert(insert, values) => Merged::Insert(insert, evaluate_all(values, &frame, context)?),
        });
    }
    if context.locker.is_alone() {
        return Ok(rows);
    }
    for row in &rows {
        match row {
            Merged::Update(update, found) => {
                lock(&merge.target.table, &found.key, context)?;
                change::lock_new_keys(update, found, context)?;
            }
            Merged::Delete(delete, found) => {
                lock(&merge.target.table, &found.key, context)?;
                change::lock_deleted(delete, found, context)?;
            }
            Merged::Insert(insert, row) => change::lock_inserted(insert, row, context)?,
        }
    }
    Ok(rows)
}

/// Does it. Returns how many rows it has added, changed and removed.
pub(super) fn write_merged(rows: &[Merged<'_>], context: &Context<'_>) -> Result<u64> {
    let mut count = 0;
    let nothing: &mut change::Returned<'_> = &mut |_| Ok(());
    for row in rows {
        count += match row {
            Merged::Update(update, found) => change::write_updated(update, found, context, nothing)?,
            Merged::Delete(delete, found) => change::write_deleted(delete, found, context, nothing)?,
            Merged::Insert(insert, row) => {
                change::write_inserted(insert, Some(std::slice::from_ref(row)), None, context, nothing)?
            }
        };
    }
    Ok(count)
}
