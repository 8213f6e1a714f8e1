//! Statements that change rows.

use std::sync::Arc;

use quipu_rows::RowTransaction;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::changes_in_with;
use crate::execute::context::{Context, Locker, Running};
use crate::execute::row_list::RowList;
use crate::execute::view::View;
use crate::limits::Limits;
use crate::plan::action::Action;
use crate::plan::change::Last;
use crate::session::Session;
use crate::session::alone::Alone;
use crate::session::portal::{Portal, PortalState};
use crate::session::transaction::attempt;
use crate::types::datum::Datum;

/// How often a statement begins again before it gives up.
pub(super) const ATTEMPTS_MAX: usize = 1_000;

impl Session {
    /// Runs a statement that changes rows; what it gives of them is ready afterwards.
    pub(super) fn change(&mut self, portal: &mut Portal, is_alone: bool) -> Result<()> {
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
                Err(_) if std::mem::take(&mut self.effects.get_mut().needs_transaction) => {
                    self.begin(true, &[])?;
                    self.change_in_transaction(portal)?
                }
                done => done?,
            },
        };
        let tag = if word == "INSERT" { format!("INSERT 0 {count}") } else { format!("{word} {count}") };
        portal.state = PortalState::Ready(rows.into(), tag);
        Ok(())
    }

    fn change_alone(&mut self, portal: &Portal) -> Result<(RowList, u64)> {
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

    fn change_in_transaction(&mut self, portal: &Portal) -> Result<(RowList, u64)> {
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
    ) -> Result<(RowList, u64)> {
        let running = Running::new(limits.clone());
        let view = View::Transaction(transaction);
        let environment = self.statement_environment(view);
        let context = Context { view, environment: &environment, parameters, arguments: &[], state: &running, locker };
        let mut rows = RowList::default();
        let count = changes_in_with::run(action, &context, &mut |row| rows.push(row, &running))?;
        rows.finish()?;
        Ok((rows, count))
    }
}

pub(super) fn changed() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the statement has become another one")
}

pub(super) fn too_many() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .with_detail("Other transactions have changed the statement's rows again and again.")
}
