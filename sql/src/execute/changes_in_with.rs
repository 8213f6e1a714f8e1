//! Statements that change rows, alone or with parts of WITH that change some, too.
//!
//! All parts see the tables as they were before the statement. So each part finds its rows before any part writes, and
//! what it returns is computed from those. What an INSERT returns is known only once it has written, so all parts
//! before it are written too, and undone before the next part reads. A row that one part changes is left alone by those
//! after it, as in PostgreSQL.

use std::collections::HashSet;
use std::sync::Arc;

use quipu::Savepoint;
use quipu_rows::RowTransaction;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::change::{self, Logged, Returned};
use crate::execute::context::Context;
use crate::execute::found_rows::Found;
use crate::execute::kept_answers::WithRows;
use crate::execute::merge::{Merged, find_merged, write_merged};
use crate::execute::query::read_all;
use crate::execute::view::View;
use crate::execute::with::{complete, run_with};
use crate::locks::mode::LockMode;
use crate::plan::action::Action;
use crate::plan::change::{Change, Insert, Last, Part, Several, Target};
use crate::types::datum::Datum;

/// Runs a statement that changes rows. Returns how many it has changed, or how many it gives if it ends with a query.
///
/// # Errors
/// Those of its parts; of foreign keys, when all is done.
pub fn run(action: &Action, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<u64> {
    let View::Transaction(transaction) = context.view else {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a snapshot cannot be written"));
    };
    let targets = targets(action);
    for target in &targets {
        context.locker.lock_table(&target.table, LockMode::RowExclusive)?;
    }
    if !has_references(&targets, context)? {
        return run_parts(action, transaction, context, returned);
    }
    transaction.together(|| run_parts(action, transaction, context, returned))
}

/// The tables that a statement writes.
fn targets(action: &Action) -> Vec<&Target> {
    let mut targets = Vec::new();
    match action {
        Action::Change(change) => targets.push(change.target()),
        Action::Several(several) => {
            for part in &several.parts {
                if let Part::Change(_, change) = part {
                    targets.push(change.target());
                }
            }
            if let Last::Change(change) = &several.last {
                targets.push(change.target());
            }
        }
        _ => {}
    }
    targets
}

fn has_references(targets: &[&Target], context: &Context<'_>) -> Result<bool> {
    for target in targets {
        if change::has_references(target, context)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn run_parts(
    action: &Action,
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    match action {
        Action::Change(change) if change.reads_tables_of_before() => {
            let before = transaction.savepoint();
            let mut parts = Parts::begin(transaction, before, context);
            let count = parts.finish(change, returned)?;
            transaction.release(before)?;
            Ok(count)
        }
        Action::Change(Change::Insert(insert)) => change::insert(insert, context, returned),
        Action::Change(Change::Update(update)) => change::update(update, context, returned),
        Action::Change(Change::Delete(delete)) => change::delete(delete, context, returned),
        Action::Change(Change::Merge(merge)) => write_merged(&find_merged(merge, context)?, context),
        Action::Several(several) => run_several(several, transaction, context, returned),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "the statement has become another one")),
    }
}

fn run_several(
    several: &Several,
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    let before = transaction.savepoint();
    let mut parts = Parts::begin(transaction, before, context);
    for part in &several.parts {
        parts.undo()?;
        match part {
            Part::Query(with) => {
                run_with(with, context)?;
                complete(with.number, context)?;
            }
            Part::Change(number, change) => {
                let rows = parts.add(change)?;
                context.state.with.borrow_mut().insert(*number, WithRows::All(Arc::new(rows.into())));
            }
        }
    }
    parts.undo()?;
    let count = match &several.last {
        Last::Query(query) => {
            let rows = read_all(query, context)?;
            parts.write_all()?;
            let count = rows.len() as u64;
            rows.into_iter().try_for_each(returned)?;
            count
        }
        Last::Change(change) => parts.finish(change, returned)?,
    };
    transaction.release(before)?;
    Ok(count)
}

/// What a part has found.
enum Rows<'r> {
    Insert(Option<Vec<Vec<Datum>>>),
    Found(Vec<Found>),
    Merge(Vec<Merged<'r>>),
    /// It has been written before, and is written again.
    Logged(Vec<Logged>),
}

struct Parts<'p, 'x> {
    transaction: &'p RowTransaction<'x>,
    /// Before the statement.
    before: Savepoint,
    context: &'p Context<'p>,
    /// What parts have found, in order.
    found: Vec<(&'p Change, Rows<'p>)>,
    /// How many of them are written now.
    written: usize,
    /// Rows that parts have found, by their tables and keys.
    touched: HashSet<(Arc<str>, Vec<Datum>)>,
}

impl<'p, 'x> Parts<'p, 'x> {
    fn begin(transaction: &'p RowTransaction<'x>, before: Savepoint, context: &'p Context<'p>) -> Parts<'p, 'x> {
        Parts { transaction, before, context, found: Vec::new(), written: 0, touched: HashSet::new() }
    }

    /// Comes back to the tables before the statement.
    fn undo(&mut self) -> Result<()> {
        if self.written > 0 {
            self.transaction.rollback_to(self.before)?;
            self.written = 0;
        }
        Ok(())
    }

    /// Writes what all parts have found.
    fn write_all(&mut self) -> Result<()> {
        for (change, rows) in &self.found[self.written..] {
            write(change, rows, None, self.context, &mut |_| Ok(()))?;
        }
        self.written = self.found.len();
        Ok(())
    }

    fn find(&mut self, change: &'p Change) -> Result<Rows<'p>> {
        let context = self.context;
        let mut rows = match change {
            Change::Insert(insert) => return Ok(Rows::Insert(change::find_inserted(insert, context)?)),
            Change::Merge(merge) => return Ok(Rows::Merge(find_merged(merge, context)?)),
            Change::Update(update) => change::find_updated(update, context)?.in_memory(context.state)?,
            Change::Delete(delete) => change::find_deleted(delete, context)?.in_memory(context.state)?,
        };
        let table = &change.target().table;
        rows.retain(|row| self.touched.insert((Arc::clone(table), row.key.clone())));
        Ok(Rows::Found(rows))
    }

    /// Writes all parts, and the last change. What reads tables of before is computed before it, but of rows that are
    /// added: these are written, undone, and written again.
    fn finish(&mut self, change: &'p Change, returned: &mut Returned<'_>) -> Result<u64> {
        let context = self.context;
        let rows = self.find(change)?;
        if !change.reads_tables_of_before() {
            self.write_all()?;
            return write(change, &rows, None, context, returned);
        }
        let mut given = Vec::new();
        let mut keep = |row: Vec<Datum>| {
            context.state.keep(&row)?;
            given.push(row);
            Ok(())
        };
        match (change, rows) {
            (Change::Insert(insert), Rows::Insert(rows)) => {
                self.write_all()?;
                let log = self.add_unseen(insert, rows.as_deref(), &mut keep)?;
                self.write_all()?;
                change::write_logged(&insert.target, &log, context)?;
                given.into_iter().try_for_each(returned)?;
                Ok(log.len() as u64)
            }
            (Change::Update(update), Rows::Found(rows)) => {
                let mut checked = Vec::with_capacity(rows.len());
                for row in &rows {
                    checked.push(change::check_changed(update, row, context));
                    change::give_changed(update, row, context, &mut keep)?;
                }
                self.write_all()?;
                change::write_each(update, &rows, context, &mut |at, _| {
                    std::mem::replace(&mut checked[at], Ok(()))?;
                    given.get_mut(at).map_or(Ok(()), |row| returned(std::mem::take(row)))
                })
            }
            (Change::Delete(delete), Rows::Found(rows)) => {
                rows.iter().try_for_each(|row| change::give_deleted(delete, row, context, &mut keep))?;
                self.write_all()?;
                change::remove_each(delete, &rows, context, &mut |at, _| {
                    given.get_mut(at).map_or(Ok(()), |row| returned(std::mem::take(row)))
                })
            }
            (_, rows) => {
                self.write_all()?;
                write(change, &rows, None, context, returned)
            }
        }
    }

    /// Adds rows after all parts, comes back to the tables before the statement, and gives what is computed of the rows
    /// there. Returns what was written.
    fn add_unseen(
        &mut self,
        insert: &'p Insert,
        rows: Option<&[Vec<Datum>]>,
        returned: &mut Returned<'_>,
    ) -> Result<Vec<Logged>> {
        let mut log = Vec::new();
        let unseen = change::write_unseen(insert, rows, &mut log, self.context)?;
        self.transaction.rollback_to(self.before)?;
        self.written = 0;
        unseen.iter().try_for_each(|frame| change::see_inserted(insert, frame, self.context, returned))?;
        Ok(log)
    }

    /// Adds a part, and returns what it gives of its rows.
    fn add(&mut self, change: &'p Change) -> Result<Vec<Vec<Datum>>> {
        let context = self.context;
        let found = self.find(change)?;
        let mut given = Vec::new();
        let mut returned = |row: Vec<Datum>| {
            context.state.keep(&row)?;
            given.push(row);
            Ok(())
        };
        let found = match (change, found) {
            (Change::Insert(insert), Rows::Insert(rows)) if change.reads_tables_of_before() => {
                self.write_all()?;
                Rows::Logged(self.add_unseen(insert, rows.as_deref(), &mut returned)?)
            }
            (Change::Insert(insert), found) if insert.returning.is_some() => {
                self.write_all()?;
                let mut log = Vec::new();
                write(change, &found, Some(&mut log), context, &mut returned)?;
                self.written += 1;
                Rows::Logged(log)
            }
            (Change::Update(update), Rows::Found(rows)) => {
                for row in &rows {
                    if update.target.checks_read_tables() {
                        change::check_changed(update, row, context)?;
                    }
                    change::give_changed(update, row, context, &mut returned)?;
                }
                Rows::Found(rows)
            }
            (Change::Delete(delete), Rows::Found(rows)) => {
                rows.iter().try_for_each(|row| change::give_deleted(delete, row, context, &mut returned))?;
                Rows::Found(rows)
            }
            (_, found) => found,
        };
        self.found.push((change, found));
        Ok(given)
    }
}

/// Writes what a change has found. Returns how many rows there were.
fn write(
    change: &Change,
    rows: &Rows<'_>,
    log: Option<&mut Vec<Logged>>,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    match (change, rows) {
        (Change::Insert(insert), Rows::Insert(rows)) => {
            change::write_inserted(insert, rows.as_deref(), log, context, returned)
        }
        (Change::Update(update), Rows::Found(rows)) => change::write_updated(update, rows, context, returned),
        (Change::Delete(delete), Rows::Found(rows)) => change::write_deleted(delete, rows, context, returned),
        (_, Rows::Merge(rows)) => write_merged(rows, context),
        (change, Rows::Logged(log)) => change::write_logged(change.target(), log, context).map(|()| 0),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a part of the statement has found other rows")),
    }
}
