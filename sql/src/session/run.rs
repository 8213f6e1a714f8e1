//! Statements that read and write rows.

use std::sync::Arc;

use quipu_rows::{RowSnapshot, RowTransaction};

use crate::clock;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, Locker, NoLocks, Running};
use crate::execute::query::QueryCursor;
use crate::execute::several;
use crate::execute::view::View;
use crate::limits::Limits;
use crate::plan::action::Action;
use crate::plan::change::Last;
use crate::plan::query::{Body, Query};
use crate::session::advisory::Changed;
use crate::session::environment::StatementEnvironment;
use crate::session::transaction::{Alone, attempt};
use crate::session::{Portal, Prepared, Progress, Session, Sink};
use crate::types::datum::Datum;

/// How often a statement begins again before it gives up.
const ATTEMPTS_MAX: usize = 1_000;

/// How far a portal has come.
#[derive(Default)]
pub(crate) enum PortalState {
    /// It has not begun.
    #[default]
    New,
    /// It reads.
    Rows(Box<RowsState>),
    /// Its rows are there.
    Ready(std::vec::IntoIter<Vec<Datum>>, String),
    /// It is done.
    Done,
}

/// A portal that reads.
pub(crate) struct RowsState {
    prepared: Arc<Prepared>,
    cursor: QueryCursor,
    running: Running,
    /// What it reads outside of a transaction.
    snapshot: Option<RowSnapshot>,
    /// A row that was read to see whether there is one.
    first: Option<Vec<Datum>>,
}

impl Session {
    /// Runs a portal until it is done, or has given `rows_max` rows. Outside of a transaction it begins one, which
    /// [`Session::sync`] ends, unless it `is_alone`: no other statement comes before that. After an error, nothing of a
    /// transaction but its end is taken.
    ///
    /// # Errors
    /// Those of the statement, and of `sink`.
    pub fn execute(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        self.identity.canceller.clear();
        self.identity.statement_time = clock::now();
        if self.open.is_none() {
            self.identity.transaction_time = self.identity.statement_time;
        }
        self.tell_statement(&portal.prepared.text);
        let result = self.execute_within(portal, rows_max, is_alone, sink);
        self.tell_waiting();
        result
    }

    /// Runs a portal within a statement that has begun.
    pub(super) fn execute_within(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        let mut result = self.run(portal, rows_max, is_alone, sink);
        if matches!(result, Ok(Progress::Suspended))
            && let Err(error) = self.read_ahead(portal)
        {
            result = Err(error);
        }
        let changes = self.changes.get_mut();
        match &result {
            Ok(_) => {
                let local = self.open.as_mut().map(|open| &mut open.local_settings);
                for name in changes.apply(&mut self.identity.settings, local) {
                    sink.setting_changed(name, self.identity.settings.get(name).unwrap_or_default());
                }
            }
            Err(_) => changes.settings.clear(),
        }
        if self.open.is_none() {
            let pending = std::mem::take(&mut changes.pending);
            if result.is_ok()
                && let identity = &self.identity
                && let Err(error) =
                    self.shared.notifications.commit(&identity.mailbox, identity.process, pending, || Ok(()))
            {
                result = Err(error);
            }
            changes.end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
        }
        if result.is_err() {
            portal.state = PortalState::Done;
            self.fail_transaction();
        }
        result
    }

    pub(super) fn limits(&self) -> Limits {
        self.identity.limits()
    }

    /// Runs a portal, as [`Session::execute`] does. One that it has suspended may read on in the transaction.
    pub(super) fn run(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        if matches!(portal.state, PortalState::New) {
            if let Some(statement) = &portal.prepared.statement {
                self.refuse_failed(&statement.tree)?;
            }
            match &portal.prepared.action {
                Action::Empty => return Ok(Progress::Empty),
                Action::Utility => {
                    let prepared = Arc::clone(&portal.prepared);
                    if let Some(progress) = self.utility(&prepared, portal, is_alone, sink)? {
                        return Ok(progress);
                    }
                }
                Action::Query(query) => {
                    let is_locking = is_locking(query);
                    self.begin_query(portal, is_alone, is_locking, rows_max.is_some())?;
                }
                Action::Change(_) | Action::Several(_) => self.change(portal, is_alone)?,
            }
        }
        self.give(portal, rows_max, sink)
    }

    /// Gives rows of a portal that has begun.
    fn give(&mut self, portal: &mut Portal, rows_max: Option<u64>, sink: &mut dyn Sink) -> Result<Progress> {
        let mut count = 0;
        match &mut portal.state {
            PortalState::Ready(rows, tag) => {
                while rows_max.is_none_or(|most| count < most) {
                    let Some(row) = rows.next() else { break };
                    sink.row(&row)?;
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

    /// Reads the rows of a suspended portal that later statements of its transaction could change: it gives those that
    /// were there when it began.
    fn read_ahead(&self, portal: &mut Portal) -> Result<()> {
        let reads_one_moment = self.open.as_ref().is_none_or(|open| open.reads_one_moment());
        let PortalState::Rows(state) = &mut portal.state else { return Ok(()) };
        if state.snapshot.is_some() || reads_one_moment {
            return Ok(());
        }
        let mut ahead = Ahead { running: Running::new(self.limits()), rows: Vec::new() };
        self.give_rows(state, &portal.parameters, None, &mut 0, &mut ahead)?;
        portal.state = PortalState::Ready(ahead.rows.into_iter(), "SELECT ".to_owned());
        Ok(())
    }

    fn view_of<'v>(&'v self, snapshot: Option<&'v RowSnapshot>) -> Result<View<'v>> {
        match (snapshot, &self.open) {
            (Some(snapshot), _) => Ok(View::Snapshot(snapshot)),
            (None, Some(open)) => Ok(View::Transaction(&open.transaction)),
            (None, None) => Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, "the transaction of the portal is over")),
        }
    }

    pub(super) fn statement_environment<'e>(&'e self, view: View<'e>) -> StatementEnvironment<'e> {
        // A statement that writes on its own has a transaction which is not the session's.
        let is_writer = self.open.is_none() && matches!(view, View::Transaction(_));
        StatementEnvironment {
            identity: &self.identity,
            shared: &self.shared,
            view,
            last_numbers: &self.last_numbers,
            cursors: Some(&self.cursors),
            changed: Some(Changed {
                changes: &self.changes,
                owner: self.owner,
                locks: &self.shared.locks,
                snapshots: &self.shared.snapshots,
                view,
                identity: &self.identity,
                transaction_numbers: &self.shared.transaction_numbers,
                is_writer,
            }),
        }
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
        let said = self.changes.get_mut().pending.mark();
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
                    self.changes.get_mut().pending.go_back(said);
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

    fn fresh_for(&mut self, prepared: &Arc<Prepared>, snapshot: Option<&RowSnapshot>) -> Result<Arc<Prepared>> {
        let is_fresh = self.is_fresh(prepared, self.view_of(snapshot)?)?;
        if is_fresh { Ok(Arc::clone(prepared)) } else { self.bind_again(prepared) }
    }

    // --- changes ----------------------------------------------------------------------------------------------------

    /// Runs a statement that changes rows; what it gives of them is ready afterwards.
    fn change(&mut self, portal: &mut Portal, is_alone: bool) -> Result<()> {
        let word = match &portal.prepared.action {
            Action::Change(change) => change.word(),
            Action::Several(several) => match &several.last {
                Last::Change(change) => change.word(),
                Last::Query(_) => "SELECT",
            },
            _ => return Err(changed()),
        };
        self.refuse_read_only(word)?;
        if self.open.is_none() && (!is_alone || !self.temporary.is_quiet()) {
            self.begin(true, &[])?;
        }
        let (rows, count) = match self.open {
            Some(_) => self.change_in_transaction(portal)?,
            None => match self.change_alone(portal) {
                Err(_) if std::mem::take(&mut self.changes.get_mut().needs_transaction) => {
                    self.begin(true, &[])?;
                    self.change_in_transaction(portal)?
                }
                done => done?,
            },
        };
        let tag = if word == "INSERT" { format!("INSERT 0 {count}") } else { format!("{word} {count}") };
        portal.state = PortalState::Ready(rows.into_iter(), tag);
        Ok(())
    }

    fn change_alone(&mut self, portal: &Portal) -> Result<(Vec<Vec<Datum>>, u64)> {
        let limits = self.limits();
        let mut prepared = Arc::clone(&portal.prepared);
        for _ in 0..ATTEMPTS_MAX {
            let done = self.alone(&limits, |transaction, locker| {
                if self.shared.catalogues.version_of(transaction)? != prepared.version {
                    return Ok(Alone::BindAgain);
                }
                let (parameters, action) = (&portal.parameters, &prepared.action);
                self.run_change(action, transaction, parameters, &limits, locker).map(Alone::Done)
            })?;
            match done {
                Alone::Done(done) => return Ok(done),
                Alone::BindAgain => prepared = self.bind_again(&prepared)?,
            }
        }
        Err(too_many())
    }

    fn change_in_transaction(&mut self, portal: &Portal) -> Result<(Vec<Vec<Datum>>, u64)> {
        self.begin_statement()?;
        let limits = self.limits();
        for _ in 0..ATTEMPTS_MAX {
            let prepared = self.fresh_for(&portal.prepared, None)?;
            let done = attempt(self, &limits, |session, open, locker| {
                session.run_change(&prepared.action, &open.transaction, &portal.parameters, &limits, locker)
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(too_many())
    }

    pub(super) fn run_change(
        &self,
        action: &Action,
        transaction: &RowTransaction<'_>,
        parameters: &[Datum],
        limits: &Limits,
        locker: &dyn Locker,
    ) -> Result<(Vec<Vec<Datum>>, u64)> {
        let running = Running::new(limits.clone());
        let view = View::Transaction(transaction);
        let environment = self.statement_environment(view);
        let context = Context { view, environment: &environment, parameters, arguments: &[], state: &running, locker };
        let mut rows = Vec::new();
        let mut returned = |row: Vec<Datum>| {
            running.keep(&row)?;
            rows.push(row);
            Ok(())
        };
        let count = several::run(action, &context, &mut returned)?;
        Ok((rows, count))
    }
}

/// Takes the rows of a suspended portal.
struct Ahead {
    running: Running,
    rows: Vec<Vec<Datum>>,
}

impl Sink for Ahead {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.running.keep(values)?;
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

pub(super) fn is_locking(query: &Query) -> bool {
    matches!(&query.body, Body::Select(select) if select.lock.is_some())
}

fn changed() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the statement has become another one")
}

fn too_many() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .with_detail("Other transactions have changed the statement's rows again and again.")
}
