//! Statements that read and write rows.

use std::sync::Arc;

use crate::catalogue::writer;
use crate::clock;
use crate::copy::CopyFormat;
use crate::error::{Result, SqlError};
use crate::identity::settings::Messages;
use crate::plan::action::Action;
use crate::session::Session;
use crate::session::answer::{Progress, Sink};
use crate::session::portal::{Portal, PortalState};
use crate::types::datum::Datum;

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
        let result = match self.identity.settings.messages() {
            Messages::All => self.execute_within(portal, rows_max, is_alone, sink),
            messages => self.execute_within(portal, rows_max, is_alone, &mut Quiet { sink, messages }),
        };
        self.tell_waiting();
        result
    }

    /// Runs a portal within a statement that has begun, and keeps what its functions have changed.
    fn execute_within(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<u64>,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        let writes = !matches!(portal.prepared.action, Action::Query(_));
        let _writing = writes.then(|| writer::writing(self.environment()));
        let progress = self.run(portal, rows_max, is_alone, sink);
        let mut result = progress.and_then(|progress| self.read_ahead(portal, progress));
        let effects = self.effects.get_mut();
        match &result {
            Ok(_) => {
                let local = self.open.as_mut().map(|open| &mut open.local_settings);
                for name in effects.apply(&mut self.identity.settings, local) {
                    sink.setting_changed(name, self.identity.settings.get(name).unwrap_or_default());
                }
            }
            Err(_) => effects.settings.clear(),
        }
        if self.open.is_none() {
            let pending = std::mem::take(&mut effects.pending);
            if result.is_ok()
                && let identity = &self.identity
                && let Err(error) =
                    self.shared.notifications.commit(&identity.mailbox, identity.process, pending, || Ok(()))
            {
                result = Err(error);
            }
            effects.end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
        }
        if result.is_err() {
            portal.state = PortalState::Done;
            self.fail_transaction();
        }
        result
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
                Action::Query(_) | Action::Change(_) | Action::Several(_) => {}
            }
        }
        self.run_rows(portal, rows_max, is_alone, sink)
    }
}

/// Lets only those messages through that the session asks for.
struct Quiet<'s> {
    sink: &'s mut dyn Sink,
    messages: Messages,
}

impl Sink for Quiet<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.sink.row(values)
    }

    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<()> {
        self.sink.copy_out(format, columns)
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.sink.copy_data(data)
    }

    fn notice(&mut self, notice: &SqlError) {
        if self.messages == Messages::Warnings && notice.state().is_warning() {
            self.sink.notice(notice);
        }
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.sink.setting_changed(name, value);
    }
}
