//! DISCARD, and what a session forgets when another client goes on with it.

use std::sync::Arc;

use sqlparser::ast;

use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};

impl Session {
    /// Rolls back its transaction and forgets parameters, locks, cursors and prepared statements of SQL, as DISCARD ALL
    /// does. It goes on for another client, and remembers the statements that it has read.
    ///
    /// # Errors
    /// Those of a parameter whose first value is refused now.
    pub fn renew(&mut self) -> Result<()> {
        self.roll_back();
        self.forget()?;
        Arc::make_mut(&mut self.identity.settings).reset(None)?;
        Ok(())
    }

    /// Forgets locks, cursors, prepared statements, temporary tables, numbers of sequences, and the channels that it
    /// listens to.
    fn forget(&mut self) -> Result<()> {
        self.drop_temporary()?;
        self.named.clear();
        self.cursors.clear();
        *self.identity.kept.lists() = Default::default();
        *self.last_numbers.borrow_mut() = Default::default();
        self.shared.notifications.leave(&self.identity.mailbox);
        let released = self.effects.get_mut().released(true);
        self.shared.locks.release(self.owner, released);
        Ok(())
    }

    pub(super) fn discard(&mut self, what: ast::DiscardObject, sink: &mut dyn Sink) -> Result<Option<Progress>> {
        match what {
            ast::DiscardObject::ALL => {
                if self.open.as_ref().is_some_and(|open| !open.is_implicit) {
                    let what = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
                }
                self.forget()?;
                self.recent.clear();
                self.reset(None, sink)?;
                done("DISCARD ALL")
            }
            ast::DiscardObject::PLANS => {
                self.recent.clear();
                done("DISCARD PLANS")
            }
            ast::DiscardObject::SEQUENCES => {
                *self.last_numbers.borrow_mut() = Default::default();
                done("DISCARD SEQUENCES")
            }
            ast::DiscardObject::TEMP => {
                self.drop_temporary()?;
                done("DISCARD TEMP")
            }
        }
    }
}
