//! Rows of a query, as a portal gives them.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::query::QueryCursor;
use crate::execute::row_list::RowList;
use crate::plan::action::Action;
use crate::plan::query::Query;
use crate::session::Session;
use crate::session::answer::{Progress, Sink};
use crate::session::changes::{ATTEMPTS_MAX, changed, too_many};
use crate::session::portal::{Portal, PortalState, RowsState, is_locking};
use crate::types::datum::Datum;

impl Session {
    /// Runs a portal of a query or of a change of rows: begins it, and gives rows of it.
    ///
    /// # Errors
    /// Those of the statement, and of `sink`.
    pub(super) fn run_rows(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        if matches!(portal.state, PortalState::New) {
            match &portal.prepared.action {
                Action::Query(query) => {
                    let is_locking = is_locking(query);
                    self.begin_query(portal, is_alone, is_locking, rows_max.is_some())?;
                }
                Action::Change(_) | Action::Several(_) => self.change(portal, is_alone)?,
                Action::Empty | Action::Utility => {}
            }
        }
        self.give(portal, rows_max, sink)
    }

    /// Runs the query of a cursor, or reads on in it, within the statement that declares it or fetches from it.
    ///
    /// # Errors
    /// Those of the query, and of `sink`: it cannot be run any more then.
    pub(super) fn run_cursor(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        let progress = self.run_rows(portal, rows_max, true, sink);
        let progress = progress.and_then(|progress| self.read_ahead(portal, progress));
        progress.inspect_err(|_| portal.state = PortalState::Done)
    }

    /// Gives rows of a portal that has begun.
    fn give(&mut self, portal: &mut Portal, rows_max: Option<u64>, sink: &mut dyn Sink) -> Result<Progress> {
        let mut count = 0;
        match &mut portal.state {
            PortalState::Ready(rows, tag) => {
                while rows_max.is_none_or(|most| count < most)
                    && let Some(row) = rows.next()?
                {
                    sink.row(row)?;
                    count += 1;
                }
                // Whether there are more is not looked at.
                if rows_max.is_some_and(|most| count == most) {
                    return Ok(Progress::Suspended);
                }
                let tag = if tag.ends_with(' ') { format!("{tag}{count}") } else { std::mem::take(tag) };
                portal.state = PortalState::Done;
                Ok(Progress::Done(tag))
            }
            PortalState::Rows(state) => {
                let is_over = self.give_rows(state, &portal.parameters, rows_max, &mut count, sink)?;
                if !is_over {
                    return Ok(Progress::Suspended);
                }
                portal.state = PortalState::Done;
                Ok(Progress::Done(format!("SELECT {count}")))
            }
            _ => {
                let what = "portal cannot be run anymore";
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what))
            }
        }
    }

    /// Gives rows of a query. Returns whether there are no more.
    fn give_rows(
        &self,
        state: &mut RowsState,
        parameters: &[Datum],
        rows_max: Option<u64>,
        count: &mut u64,
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        let RowsState { prepared, cursor, running, snapshot, first } = state;
        let Action::Query(query) = &prepared.action else { return Ok(true) };
        let view = self.view_of(snapshot.as_ref())?;
        let environment = self.statement_environment(view);
        let context =
            Context { view, environment: &environment, parameters, arguments: &[], state: running, locker: &NoLocks };
        // That of a cursor that is declared waits for its FETCH.
        if rows_max != Some(0)
            && let Some(row) = first.take()
        {
            sink.row(&row)?;
            *count += 1;
        }
        let mut row = Vec::new();
        while rows_max.is_none_or(|most| *count < most) {
            if !cursor.next(query, &context, &mut row)? {
                return Ok(true);
            }
            sink.row(&row)?;
            *count += 1;
        }
        Ok(false)
    }

    /// Reads the rows of a portal that has come so far, if it is suspended and later statements of its transaction
    /// could change them: it gives those that were there when it began.
    ///
    /// # Errors
    /// Those of its query.
    pub(super) fn read_ahead(&self, portal: &mut Portal, progress: Progress) -> Result<Progress> {
        let reads_one_moment = self.open.as_ref().is_none_or(|open| open.reads_one_moment());
        let (Progress::Suspended, PortalState::Rows(state)) = (&progress, &mut portal.state) else {
            return Ok(progress);
        };
        if state.snapshot.is_some() || reads_one_moment {
            return Ok(progress);
        }
        let mut ahead = Ahead { running: Running::new(self.limits()), rows: RowList::default() };
        self.give_rows(state, &portal.parameters, None, &mut 0, &mut ahead)?;
        ahead.rows.finish()?;
        portal.state = PortalState::Ready(ahead.rows.into(), "SELECT ".to_owned());
        Ok(progress)
    }

    /// Begins a query. One that locks rows has locked them afterwards. One that `is_limited` may be suspended.
    fn begin_query(&mut self, portal: &mut Portal, is_alone: bool, is_locking: bool, is_limited: bool) -> Result<()> {
        if self.open.is_none() && (!is_alone || is_locking) {
            self.begin(true, &[])?;
        }
        let named = portal.prepared.snapshot(&self.shared.snapshots)?;
        if is_locking {
            self.refuse_read_only("SELECT FOR UPDATE")?;
            if named.is_some() {
                let hint = "Lock the present rows, without AS OF SNAPSHOT.";
                return Err(SqlError::unsupported("SELECT FOR UPDATE is not allowed with AS OF SNAPSHOT", hint));
            }
        }
        self.begin_statement()?;
        let limits = self.limits();
        let said = self.effects.get_mut().pending.mark();
        for _ in 0..ATTEMPTS_MAX {
            let snapshot = match &self.open {
                _ if named.is_some() => named.clone(),
                Some(open) if is_locking || !is_limited || !open.sees_the_present() => None,
                _ => Some(self.shared.database.snapshot()),
            };
            let prepared = self.fresh_for(&portal.prepared, snapshot.as_ref())?;
            let Action::Query(query) = &prepared.action else { return Err(changed()) };
            let mut state = RowsState {
                cursor: QueryCursor::new(query),
                prepared: Arc::clone(&prepared),
                running: Running::new(limits.clone()),
                snapshot,
                first: None,
            };
            if !is_locking {
                if self.open.is_none() {
                    self.seen.note(self.shared.database.db());
                }
                portal.state = PortalState::Rows(Box::new(state));
                return Ok(());
            }
            match self.lock_rows(&mut state, query, &portal.parameters) {
                Ok(()) => {
                    portal.state = PortalState::Rows(Box::new(state));
                    return Ok(());
                }
                Err(error) if error.state() == SqlState::BEGIN_AGAIN => {
                    self.effects.get_mut().pending.go_back(said);
                    self.catch_up()?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(too_many())
    }

    /// Reads the first row, before which all are locked.
    fn lock_rows(&self, state: &mut RowsState, query: &Query, parameters: &[Datum]) -> Result<()> {
        let view = self.view_of(state.snapshot.as_ref())?;
        let environment = self.statement_environment(view);
        let Some(open) = &self.open else { return Err(changed()) };
        let locker = self.locker_of(open, state.running.limits());
        let context = Context {
            view,
            environment: &environment,
            parameters,
            arguments: &[],
            state: &state.running,
            locker: &locker,
        };
        let mut row = Vec::new();
        if state.cursor.next(query, &context, &mut row)? {
            state.first = Some(row);
        }
        Ok(())
    }
}

/// Takes the rows of a suspended portal.
struct Ahead {
    running: Running,
    rows: RowList,
}

impl Sink for Ahead {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows.push(values.to_vec(), &self.running)
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}
