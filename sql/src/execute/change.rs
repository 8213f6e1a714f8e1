//! INSERT, UPDATE, DELETE.
//!
//! A statement first finds its rows and locks them, then writes. So where it has to wait for another transaction it has
//! written nothing, and begins again with what is there then.

use std::collections::HashSet;

use quipu::ErrorKind;
use quipu_rows::generated::generated_values;
use quipu_rows::{Constraint, Value, Violation};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::check_option::refuse_unseen;
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::found_rows::{EachFound, Found, FoundRows};
use crate::execute::key_locks::{
    Written, lock, lock_referred, lock_unique, share_referred, value_of, values_taken, writes_reference, written,
};
use crate::execute::key_ranges::spans;
use crate::execute::query::{QueryCursor, list_all, read_all};
use crate::execute::row_list::RowListCursor;
use crate::execute::scan::{key_in_frame, read_row};
use crate::execute::source::SourceCursor;
use crate::execute::violations;
use crate::plan::change::{Conflict, ConflictKey, ConflictUpdate, Delete, Insert, Target, Update};
use crate::plan::source::Source;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// Whether constraints of a table are looked at when a statement is done: it refers to rows, others refer to its, or a
/// unique key may be broken on the way.
pub(super) fn has_references(target: &Target, context: &Context<'_>) -> Result<bool> {
    if target.has_unique_later {
        return Ok(true);
    }
    let table = table_to_write(target, context)?;
    Ok(!table.schema().foreign_keys.is_empty() || !table.related().referred_by().is_empty())
}

/// Takes the rows of RETURNING.
pub type Returned<'r> = dyn FnMut(Vec<Datum>) -> Result<()> + 'r;

fn table_to_write<'v>(target: &Target, context: &Context<'v>) -> Result<Written<'v>> {
    written(&target.table, context)
}

// --- INSERT ---------------------------------------------------------------------------------------------------------

/// Runs an INSERT. Returns how many rows there are more, or have changed.
///
/// # Errors
/// Those of its values and of constraints.
pub fn insert(insert: &Insert, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<u64> {
    let mut table = table_to_write(&insert.target, context)?;
    if insert.is_overriding {
        table = table.bringing_numbers();
    }
    Inserting::new(insert, &table, None).run(context, returned)
}

/// The rows that an INSERT adds, whose keys are locked; none for a row of defaults.
pub(super) fn find_inserted(insert: &Insert, context: &Context<'_>) -> Result<Option<Vec<Vec<Datum>>>> {
    let Some(query) = &insert.source else { return Ok(None) };
    let rows = read_all(query, context)?;
    let table = table_to_write(&insert.target, context)?;
    let inserting = Inserting::new(insert, &table, None);
    rows.iter().try_for_each(|row| inserting.lock(row, context))?;
    Ok(Some(rows))
}

/// Locks the keys of a row that is added.
pub(super) fn lock_inserted(insert: &Insert, row: &[Datum], context: &Context<'_>) -> Result<()> {
    let table = table_to_write(&insert.target, context)?;
    Inserting::new(insert, &table, None).lock(row, context)
}

/// Adds rows whose keys are locked. Notes in `log` what it has written, if there is one.
pub(super) fn write_inserted(
    insert: &Insert,
    rows: Option<&[Vec<Datum>]>,
    log: Option<&mut Vec<Logged>>,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    let mut table = table_to_write(&insert.target, context)?;
    if insert.is_overriding {
        table = table.bringing_numbers();
    }
    let mut inserting = Inserting::new(insert, &table, log);
    match rows {
        None => inserting.add(Vec::new(), context, returned)?,
        Some(rows) => rows.iter().try_for_each(|row| inserting.add(row.clone(), context, returned))?,
    }
    Ok(inserting.count)
}

/// Adds rows whose keys are locked, and neither looks at conditions of views nor computes what RETURNING says. Returns
/// what these are to be computed of.
pub(super) fn write_unseen(
    insert: &Insert,
    rows: Option<&[Vec<Datum>]>,
    log: &mut Vec<Logged>,
    context: &Context<'_>,
) -> Result<Vec<Vec<Datum>>> {
    let mut table = table_to_write(&insert.target, context)?;
    if insert.is_overriding {
        table = table.bringing_numbers();
    }
    let mut inserting = Inserting { unseen: Some(Vec::new()), ..Inserting::new(insert, &table, Some(log)) };
    let mut none = |_| Ok(());
    match rows {
        None => inserting.add(Vec::new(), context, &mut none)?,
        Some(rows) => rows.iter().try_for_each(|row| inserting.add(row.clone(), context, &mut none))?,
    }
    Ok(inserting.unseen.unwrap_or_default())
}

/// What is left to do for such a row.
pub(super) fn see_inserted(
    insert: &Insert,
    frame: &[Datum],
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<()> {
    let table = table_to_write(&insert.target, context)?;
    refuse_unseen(&insert.target, &table, &frame[..insert.target.scan.width], context)?;
    match &insert.returning {
        Some(outputs) => returned(evaluate_all(outputs, frame, context)?),
        None => Ok(()),
    }
}

/// What an INSERT has written.
pub(super) enum Logged {
    /// A row, with a value for each column.
    Added(Vec<Datum>),
    /// Other values of columns of the row of a key.
    Changed(Vec<Datum>, Vec<(usize, Datum)>),
}

/// Writes again what was undone.
pub(super) fn write_logged(target: &Target, log: &[Logged], context: &Context<'_>) -> Result<()> {
    let table = table_to_write(target, context)?.bringing_numbers();
    let names: Vec<&str> = target.columns.iter().map(|name| &**name).collect();
    for entry in log {
        match entry {
            Logged::Added(row) => {
                let values = row.iter().map(value_of).collect::<Result<Vec<_>>>()?;
                let inserted = table.insert_columns(&names, values);
                inserted.map_err(|error| violations::explain_written(error, target, &table, context))?;
            }
            Logged::Changed(key, changes) => drop(write_changes(target, &table, key, changes, context)?),
        }
    }
    Ok(())
}

struct Inserting<'i, 'v> {
    insert: &'i Insert,
    table: &'i Written<'v>,
    /// The row that is there, then the one that is to come.
    frame: Vec<Datum>,
    /// Primary keys of rows that the statement has written or changed, where ON CONFLICT changes rows.
    changed: HashSet<Vec<Datum>>,
    /// The places of identity columns.
    numbered: Vec<usize>,
    count: u64,
    log: Option<&'i mut Vec<Logged>>,
    /// The frames of rows at which views and RETURNING look later, if they do not at once.
    unseen: Option<Vec<Vec<Datum>>>,
}

impl<'i, 'v> Inserting<'i, 'v> {
    fn new(insert: &'i Insert, table: &'i Written<'v>, log: Option<&'i mut Vec<Logged>>) -> Inserting<'i, 'v> {
        let frame = vec![Datum::Null; insert.target.scan.width * 2];
        let columns = table.schema().columns.iter().enumerate();
        let numbered = columns.filter(|(_, column)| column.identity.is_some() && !column.hidden).map(|(at, _)| at);
        let (changed, numbered) = (HashSet::new(), numbered.collect());
        Inserting { insert, table, frame, changed, numbered, count: 0, log, unseen: None }
    }

    fn run(mut self, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<u64> {
        match &self.insert.source {
            None => self.add(Vec::new(), context, returned)?,
            // Rows that do not come from the table are written as they come.
            Some(query) if !self.insert.reads_target => {
                let (mut cursor, mut row) = (QueryCursor::new(query), Vec::new());
                while cursor.next(query, context, &mut row)? {
                    self.lock(&row, context)?;
                    self.add(std::mem::take(&mut row), context, returned)?;
                }
            }
            Some(query) => {
                let rows = list_all(query, context)?;
                let mut cursor = RowListCursor::default();
                while let Some((_, row)) = cursor.next(&rows)? {
                    self.lock(row, context)?;
                }
                let mut cursor = RowListCursor::default();
                while let Some((_, row)) = cursor.next(&rows)? {
                    self.add(row.to_vec(), context, returned)?;
                }
            }
        }
        Ok(self.count)
    }

    /// Locks the unique keys that a row takes, so that one that another transaction has taken is waited for, and those
    /// that it refers to.
    fn lock(&self, row: &[Datum], context: &Context<'_>) -> Result<()> {
        if context.locker.is_alone() {
            return Ok(());
        }
        let computed = self.computed_keys(row);
        let value = |place: usize| {
            let computed = computed.iter().find(|(at, _)| *at == place).map(|(_, value)| value);
            let given = || self.insert.places.iter().position(|given| *given == place).map(|at| &row[at]);
            computed.or_else(given)
        };
        lock_unique(&self.insert.target, &self.insert.unique, value, context)?;
        share_referred(&self.insert.target, self.table, |_| true, value, context)
    }

    /// The values of generated columns of unique keys that a row takes, with their places. What it does not say may be
    /// a default, of which another value comes: then it is looked at again when the row is written.
    fn computed_keys(&self, row: &[Datum]) -> Vec<(usize, Datum)> {
        let columns = &self.table.schema().columns;
        let places = self.insert.unique.iter().flat_map(|key| &key.places).copied();
        let generated: Vec<usize> = places.filter(|&place| columns[place].generated.is_some()).collect();
        if generated.is_empty() {
            return Vec::new();
        }
        let mut whole = vec![Datum::Null; columns.len()];
        for (&place, value) in self.insert.places.iter().zip(row).filter(|(place, _)| !generated.contains(place)) {
            whole[place] = value.clone();
        }
        match compute_generated(self.table, &self.insert.target.scan.types, &mut whole) {
            Ok(()) => generated.into_iter().map(|place| (place, whole[place].clone())).collect(),
            Err(_) => Vec::new(),
        }
    }

    fn add(&mut self, row: Vec<Datum>, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<()> {
        context.state.step()?;
        let width = self.insert.target.scan.width;
        let (names, mut values) = (&self.insert.target.columns, Vec::with_capacity(row.len()));
        let mut columns: Vec<&str> = Vec::with_capacity(row.len() + self.insert.defaults.len());
        let mut computed = Vec::with_capacity(self.insert.defaults.len());
        for (place, default) in &self.insert.defaults {
            computed.push((*place, evaluate(default, &self.frame, context)?));
        }
        self.frame[width..].fill(Datum::Null);
        for (place, value) in self.insert.places.iter().copied().zip(row).chain(computed) {
            columns.push(&names[place]);
            values.push(value.clone());
            self.frame[width + place] = value;
        }
        if self.insert.conflict.is_some() {
            compute_generated(self.table, &self.insert.target.scan.types, &mut self.frame[width..])?;
        }
        let values = values.iter().map(value_of).collect::<Result<Vec<_>>>()?;
        let written = match self.table.insert_columns(&columns, values) {
            Ok(written) => written,
            Err(error) => match &self.insert.conflict {
                Some(conflict) if is_conflict(&error, conflict, self.insert) => {
                    return self.meet(conflict, error, context, returned);
                }
                // Another key has met a row first: the one that ON CONFLICT names is looked at before it.
                Some(conflict) if error.kind() == ErrorKind::Exists => {
                    return match self.find_conflict(conflict, context)? {
                        Some(key) => self.meet_row(conflict, key, error, context, returned),
                        None => Err(self.explain(error, context)),
                    };
                }
                _ => return Err(self.explain(error, context)),
            },
        };
        self.count += 1;
        for &place in self.numbered.iter().filter(|&&place| self.frame[width + place].is_null()) {
            if let Value::Int(number) = written.view()?.value(place)? {
                let (table, column) = (&self.insert.target.table, &names[place]);
                context.environment.note_number(table, column, i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        let updates = self.insert.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
        let target = &self.insert.target;
        if updates || self.insert.returning.is_some() || self.log.is_some() || !target.checks.is_empty() {
            let view = written.view()?;
            let scan = &self.insert.target.scan;
            for place in 0..width {
                self.frame[place] = Datum::of_column(view.value(place)?, scan.types[place])?;
            }
            if self.unseen.is_none() {
                refuse_unseen(target, self.table, &self.frame[..width], context)?;
            }
            if updates {
                self.changed.insert(key_in_frame(scan, &self.frame));
            }
            if let Some(log) = &mut self.log {
                log.push(Logged::Added(self.frame[..width].to_vec()));
            }
            self.give(context, returned)?;
        }
        Ok(())
    }

    fn give(&mut self, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<()> {
        if let Some(unseen) = &mut self.unseen {
            context.state.keep(&self.frame)?;
            unseen.push(self.frame.clone());
            return Ok(());
        }
        match &self.insert.returning {
            Some(outputs) => returned(evaluate_all(outputs, &self.frame, context)?),
            None => Ok(()),
        }
    }

    /// The error of a row, as PostgreSQL tells it. A key of expressions is told as SQL writes it.
    fn explain(&self, error: quipu::Error, context: &Context<'_>) -> SqlError {
        let width = self.insert.target.scan.width;
        let key = Violation::of(&error).and_then(|violation| broken_key(violation, &self.insert.unique));
        let words = key.and_then(|key| key.words.as_ref()).and_then(|words| {
            let values = evaluate_all(&words.values, &self.frame[width..2 * width], context).ok()?;
            let values = values.iter().zip(&words.types);
            let values = values.map(|(value, sql_type)| violations::shown_datum(value, *sql_type, context.environment));
            let names: Vec<&str> = words.names.iter().map(String::as_str).collect();
            Some(violations::key_exists(&names, &values.collect::<Option<Vec<_>>>()?))
        });
        let error = violations::explain_written(error, &self.insert.target, self.table, context);
        match words.filter(|_| context.environment.may_read(&self.insert.target.table)) {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    }

    /// Does what ON CONFLICT says, for a row whose key another one has.
    fn meet(
        &mut self,
        conflict: &Conflict,
        error: quipu::Error,
        context: &Context<'_>,
        returned: &mut Returned<'_>,
    ) -> Result<()> {
        if conflict.update.is_none() {
            return Ok(());
        }
        let Some(key) = Violation::of(&error).and_then(|violation| broken_key(violation, &self.insert.unique)) else {
            return Err(self.explain(error, context));
        };
        let Some(values) = self.taken(key, context)? else { return Err(self.explain(error, context)) };
        let Some(key) = self.find(key, values)? else { return Err(self.explain(error, context)) };
        self.meet_row(conflict, key, error, context, returned)
    }

    /// The primary key of the row that has a key which ON CONFLICT names.
    fn find_conflict(&mut self, conflict: &Conflict, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        for key in conflict.keys.iter().filter(|key| !key.places.is_empty()) {
            if let Some(values) = self.taken(key, context)?
                && let Some(found) = self.find(key, values)?
                && read_row(&self.insert.target.scan, &found, &mut self.frame, context)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Does what ON CONFLICT says to the row of this primary key.
    fn meet_row(
        &mut self,
        conflict: &Conflict,
        key: Vec<Datum>,
        error: quipu::Error,
        context: &Context<'_>,
        returned: &mut Returned<'_>,
    ) -> Result<()> {
        let Some(update) = &conflict.update else { return Ok(()) };
        if !context.locker.is_alone() {
            lock(&self.insert.target.table, &key, context)?;
        }
        if !read_row(&self.insert.target.scan, &key, &mut self.frame, context)? {
            return Err(self.explain(error, context));
        }
        if let Some(condition) = &update.condition
            && !holds(condition, &self.frame, context)?
        {
            return Ok(());
        }
        if !self.changed.insert(key.clone()) {
            let what = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, what)
                .with_hint("Ensure that no rows proposed for insertion have duplicate constrained values."));
        }
        self.change(update, &key, context)?;
        self.count += 1;
        context.state.has_replaced.set(true);
        let given = self.give(context, returned);
        context.state.has_replaced.set(false);
        given
    }

    /// The values that the row to come takes in a unique key; none if it takes none.
    fn taken(&self, key: &ConflictKey, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        let width = self.insert.target.scan.width;
        values_taken(key, width, &|place| self.frame.get(width + place), context)
    }

    /// The primary key of the row that has these values of a unique key.
    fn find(&self, key: &ConflictKey, values: Vec<Datum>) -> Result<Option<Vec<Datum>>> {
        let Some(index) = &key.index else { return Ok(Some(values)) };
        let values = values.iter().map(value_of).collect::<Result<Vec<_>>>()?;
        let row = self.table.index(index)?.get(values)?;
        row.map(|row| Ok(row.key_values()?.into_iter().map(Datum::of_value).collect())).transpose()
    }

    fn change(&mut self, update: &ConflictUpdate, key: &[Datum], context: &Context<'_>) -> Result<()> {
        let mut changes = Vec::with_capacity(update.sets.len());
        for (place, value) in &update.sets {
            changes.push((*place, evaluate(value, &self.frame, context)?));
        }
        write_changes(&self.insert.target, self.table, key, &changes, context)?;
        for (place, value) in &changes {
            self.frame[*place] = value.clone();
        }
        let scan = &self.insert.target.scan;
        compute_generated(self.table, &scan.types, &mut self.frame[..scan.width])?;
        if self.unseen.is_none() {
            refuse_unseen(&self.insert.target, self.table, &self.frame[..scan.width], context)?;
        }
        if let Some(log) = &mut self.log {
            log.push(Logged::Changed(key.to_vec(), changes));
        }
        Ok(())
    }
}

/// Computes the generated columns of a row of values.
fn compute_generated(table: &Written<'_>, types: &[SqlType], row: &mut [Datum]) -> Result<()> {
    if table.schema().columns.iter().all(|column| column.generated.is_none()) {
        return Ok(());
    }
    let values = row.iter().map(value_of).collect::<Result<Vec<_>>>()?;
    let computed = generated_values(table, &values)?;
    for (place, value) in computed {
        row[place] = Datum::of_column(value, types[place])?;
    }
    Ok(())
}

/// Whether an error is of a key that ON CONFLICT names.
fn is_conflict(error: &quipu::Error, conflict: &Conflict, insert: &Insert) -> bool {
    if error.kind() != ErrorKind::Exists {
        return false;
    }
    let Some(violation) = Violation::of(error).filter(|violation| violation.table == *insert.target.table) else {
        return false;
    };
    conflict.keys.is_empty() || broken_key(violation, &conflict.keys).is_some()
}

/// The key that a violation is of.
fn broken_key<'k>(violation: &Violation, keys: &'k [ConflictKey]) -> Option<&'k ConflictKey> {
    keys.iter().find(|key| match violation.constraint {
        Constraint::PrimaryKey => key.index.is_none(),
        Constraint::Unique => key.index.is_some() && key.index.as_deref() == violation.name.as_deref(),
        _ => false,
    })
}

// --- UPDATE and DELETE ----------------------------------------------------------------------------------------------

/// Changes columns of the row of this key. Returns whether there is one.
fn write_changes(
    target: &Target,
    table: &Written<'_>,
    key: &[Datum],
    changes: &[(usize, Datum)],
    context: &Context<'_>,
) -> Result<bool> {
    let key = key.iter().map(value_of).collect::<Result<Vec<_>>>()?;
    let mut values = Vec::with_capacity(changes.len());
    for (place, value) in changes {
        values.push((*place, value_of(value)?.into_owned()));
    }
    table.update_with(key, |_| Ok(values)).map_err(|error| violations::explain_written(error, target, table, context))
}

/// The rows of a source, each row of the target once, locked. `changes` computes what becomes of one; the frame is kept
/// only if it `is_needed` later.
fn locked_rows(
    (target, source, width): (&Target, &Source, usize),
    changes: impl Fn(&[Datum]) -> Result<Vec<(usize, Datum)>>,
    is_needed: bool,
    context: &Context<'_>,
) -> Result<FoundRows> {
    let mut cursor = SourceCursor::new(source);
    let mut frame = vec![Datum::Null; width];
    let (mut rows, mut seen) = (FoundRows::default(), HashSet::new());
    let is_joined = !matches!(source, Source::Scan(_));
    while cursor.next(source, &mut frame, context)? {
        let key = key_in_frame(&target.scan, &frame);
        if is_joined {
            if seen.contains(&key) {
                continue;
            }
            context.state.keep(&key)?;
            seen.insert(key.clone());
        }
        let changes = changes(&frame)?;
        let frame = if is_needed { frame.clone() } else { Vec::new() };
        rows.push(Found { key, frame, changes }, context.state)?;
    }
    rows.finish()?;
    if !context.locker.is_alone() {
        rows.each(&mut |_, row| lock(&target.table, &row.key, context))?;
    }
    Ok(rows)
}

/// Runs an UPDATE. Returns how many rows it has changed.
///
/// # Errors
/// Those of its values and of constraints.
pub fn update(update: &Update, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<u64> {
    write_updated(update, &find_updated(update, context)?, context, returned)
}

/// The rows that an UPDATE changes, locked, with their new values.
pub(super) fn find_updated(update: &Update, context: &Context<'_>) -> Result<FoundRows> {
    // All values are computed before the first row is written, which they could otherwise see.
    let changes = |frame: &[Datum]| new_values(update, frame, context);
    let is_needed = update.returning.is_some() || !update.target.checks.is_empty();
    let place = (&update.target, &update.source, update.frame);
    let rows = locked_rows(place, changes, is_needed, context)?;
    lock_new_keys(update, &rows, context)?;
    Ok(rows)
}

/// The values that an UPDATE gives to a row.
pub(super) fn new_values(update: &Update, frame: &[Datum], context: &Context<'_>) -> Result<Vec<(usize, Datum)>> {
    let values = update.sets.iter().map(|(place, value)| Ok((*place, evaluate(value, frame, context)?)));
    values.collect()
}

/// Changes rows that are locked. Returns how many there were.
pub(super) fn write_updated(
    update: &Update,
    rows: &impl EachFound,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    write_each(update, rows, context, &mut |_, row| {
        if !update.target.checks_read_tables() {
            check_changed(update, row, context)?;
        }
        give_changed(update, row, context, returned)
    })
}

/// Changes rows that are locked, and calls `written` for each, with its place among them. Returns how many there were.
pub(super) fn write_each(
    update: &Update,
    rows: &impl EachFound,
    context: &Context<'_>,
    written: &mut dyn FnMut(usize, &Found) -> Result<()>,
) -> Result<u64> {
    let table = table_to_write(&update.target, context)?;
    let mut count = 0;
    rows.each(&mut |at, row| {
        if write_changes(&update.target, &table, &row.key, &row.changes, context)? {
            count += 1;
            written(at, row)?;
        }
        Ok(())
    })?;
    Ok(count)
}

/// Fails if a changed row is not one that the view through which it is changed may have.
pub(super) fn check_changed(update: &Update, row: &Found, context: &Context<'_>) -> Result<()> {
    if update.target.checks.is_empty() {
        return Ok(());
    }
    let (scan, table) = (&update.target.scan, table_to_write(&update.target, context)?);
    let frame = changed_frame(update, row, &table)?;
    refuse_unseen(&update.target, &table, &frame[scan.base..scan.base + scan.width], context)
}

/// Gives what RETURNING says of a changed row.
pub(super) fn give_changed(
    update: &Update,
    row: &Found,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<()> {
    let Some(outputs) = &update.returning else { return Ok(()) };
    let frame = changed_frame(update, row, &table_to_write(&update.target, context)?)?;
    returned(evaluate_all(outputs, &frame, context)?)
}

/// The frame of a row with its new values.
fn changed_frame(update: &Update, row: &Found, table: &Written<'_>) -> Result<Vec<Datum>> {
    let mut frame = row.frame.clone();
    for (place, value) in &row.changes {
        frame[update.target.scan.base + place] = value.clone();
    }
    let scan = &update.target.scan;
    let row = &mut frame[scan.base..scan.base + scan.width];
    compute_generated(table, &scan.types, row)?;
    Ok(frame)
}

/// Locks the unique keys that changed rows take, those that they refer to, and those that others refer to and that go.
pub(super) fn lock_new_keys(update: &Update, rows: &impl EachFound, context: &Context<'_>) -> Result<()> {
    let Update { target, sets, unique, .. } = update;
    if context.locker.is_alone() {
        return Ok(());
    }
    let table = &table_to_write(target, context)?;
    if unique.is_empty() && !writes_reference(table.schema(), target, sets) {
        return Ok(());
    }
    let mut frame = vec![Datum::Null; target.scan.base + target.scan.width];
    rows.each(&mut |_, Found { key, changes, .. }| {
        if !read_row(&target.scan, key, &mut frame, context)? {
            return Ok(());
        }
        let mut changed = Vec::new();
        for (place, value) in changes {
            let old = &mut frame[target.scan.base + place];
            if old != value {
                changed.push(*place);
                *old = value.clone();
            }
        }
        let own = target.scan.base..target.scan.base + target.scan.width;
        compute_generated(table, &target.scan.types, &mut frame[own])?;
        let value = |place: usize| frame.get(target.scan.base + place);
        lock_unique(target, unique, value, context)?;
        share_referred(target, table, |place| sets.iter().any(|(set, _)| *set == place), value, context)?;
        if !unique.is_empty() {
            lock_referred(table, key, Some(&changed), context)?;
        }
        Ok(())
    })
}

/// Runs a DELETE. Returns how many rows are gone.
///
/// # Errors
/// Those of its condition, and of rows that refer to those that would go.
pub fn delete(delete: &Delete, context: &Context<'_>, returned: &mut Returned<'_>) -> Result<u64> {
    if let Some(rows) = delete_ranges(delete, context)? {
        return Ok(rows);
    }
    write_deleted(delete, &find_deleted(delete, context)?, context, returned)
}

/// The rows that a DELETE removes, locked.
pub(super) fn find_deleted(delete: &Delete, context: &Context<'_>) -> Result<FoundRows> {
    let (is_needed, place) = (delete.returning.is_some(), (&delete.target, &delete.source, delete.frame));
    let rows = locked_rows(place, |_| Ok(Vec::new()), is_needed, context)?;
    lock_deleted(delete, &rows, context)?;
    Ok(rows)
}

/// Locks the keys of rows that go, to which others may refer.
pub(super) fn lock_deleted(delete: &Delete, rows: &impl EachFound, context: &Context<'_>) -> Result<()> {
    if context.locker.is_alone() {
        return Ok(());
    }
    let table = table_to_write(&delete.target, context)?;
    rows.each(&mut |_, row| lock_referred(&table, &row.key, None, context))
}

/// Removes rows that are locked. Returns how many there were, those that have gone with others among them.
pub(super) fn write_deleted(
    delete: &Delete,
    rows: &impl EachFound,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<u64> {
    remove_each(delete, rows, context, &mut |_, row| give_deleted(delete, row, context, returned))
}

/// Removes rows that are locked, and calls `removed` for each, with its place among them. Returns how many there were.
pub(super) fn remove_each(
    delete: &Delete,
    rows: &impl EachFound,
    context: &Context<'_>,
    removed: &mut dyn FnMut(usize, &Found) -> Result<()>,
) -> Result<u64> {
    let table = table_to_write(&delete.target, context)?;
    let mut count = 0;
    rows.each(&mut |at, row| {
        context.state.step()?;
        table.delete(row.key.iter().map(value_of).collect::<Result<Vec<_>>>()?)?;
        count += 1;
        removed(at, row)
    })?;
    Ok(count)
}

/// Gives what RETURNING says of a row that goes.
pub(super) fn give_deleted(
    delete: &Delete,
    row: &Found,
    context: &Context<'_>,
    returned: &mut Returned<'_>,
) -> Result<()> {
    match &delete.returning {
        Some(outputs) => returned(evaluate_all(outputs, &row.frame, context)?),
        None => Ok(()),
    }
}

/// A DELETE of whole ranges of the primary key, without a look at their rows. None if it is not of ranges.
fn delete_ranges(delete: &Delete, context: &Context<'_>) -> Result<Option<u64>> {
    let Source::Scan(scan) = &delete.source else { return Ok(None) };
    let is_by_range = scan.access.index.is_none() && scan.filter.is_none() && scan.sample.is_none();
    if !is_by_range || delete.returning.is_some() || !context.locker.is_alone() {
        return Ok(None);
    }
    let table = table_to_write(&delete.target, context)?;
    let mut rows = 0;
    for span in spans(&scan.access, &[], context)? {
        rows += table.delete_range(span)?;
    }
    Ok(Some(rows))
}
