//! Transactions, savepoints, locks.
//!
//! A session's transaction is optimistic below. What keeps it from conflicts is that it locks the tables and keys that
//! it writes and moves to the present after it has got a lock that another session has had since it last did so.
//!
//! A statement on its own runs as the single writer, so it never conflicts. While no session has a lock it takes
//! none; a session that takes one then waits until such statements are over before it looks at its rows.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quipu_rows::Isolation;
use sqlparser::ast;

use crate::clock;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Locker;
use crate::identity::Identity;
use crate::identity::settings::{LocalSettings, Settings};
use crate::limits::Limits;
use crate::session::Session;
use crate::session::open_transaction::{LockerOfTransaction, Marked, OpenTransaction};

/// Sets a parameter that shows what the transaction is. Most transactions are like the one before.
fn note_setting(identity: &mut Identity, name: &str, value: &str) -> Result<()> {
    if identity.settings.get(name) != Some(value) {
        Arc::make_mut(&mut identity.settings).set(name, value)?;
    }
    Ok(())
}

impl Session {
    /// What takes locks for its transaction.
    pub(super) fn locker_of<'l>(&'l self, open: &'l OpenTransaction, limits: &'l Limits) -> LockerOfTransaction<'l> {
        LockerOfTransaction {
            shared: &self.shared,
            owner: self.owner,
            held: &open.held,
            seen: open.seen,
            limits,
            timeout: self.identity.settings.lock_timeout(),
        }
    }

    // --- transactions -----------------------------------------------------------------------------------------------

    /// Begins a transaction.
    pub(super) fn begin(&mut self, is_implicit: bool, modes: &[ast::TransactionMode]) -> Result<()> {
        let settings = &self.identity.settings;
        let mut level = settings.get("default_transaction_isolation").unwrap_or("read committed").to_owned();
        let mut is_read_only = settings.is_on("default_transaction_read_only");
        read_modes(modes, &mut level, &mut is_read_only);
        let seen = self.shared.commits.now();
        let transaction = Box::new(self.shared.database.begin_with(isolation_of(&level)));
        self.open = Some(OpenTransaction {
            transaction,
            is_implicit,
            has_failed: false,
            is_read_only,
            held: RefCell::default(),
            savepoints: Vec::new(),
            has_asked: false,
            has_written: Cell::new(false),
            seen,
            settings_before: Arc::clone(&self.identity.settings),
            local_settings: LocalSettings::default(),
        });
        self.identity.transaction_time = clock::now();
        let deferrable = self.identity.settings.get("default_transaction_deferrable").unwrap_or("off").to_owned();
        note_setting(&mut self.identity, "transaction_deferrable", &deferrable)?;
        note_setting(&mut self.identity, "transaction_isolation", &level)?;
        note_setting(&mut self.identity, "transaction_read_only", if is_read_only { "on" } else { "off" })
    }

    /// SET TRANSACTION: before the transaction has read or written anything.
    pub(super) fn set_transaction(&mut self, modes: &[ast::TransactionMode]) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let mut level = self.identity.settings.get("transaction_isolation").unwrap_or("read committed").to_owned();
        let mut is_read_only = open.is_read_only;
        let before = level.clone();
        read_modes(modes, &mut level, &mut is_read_only);
        if level != before {
            if open.has_begun() {
                let what = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
            }
            let is_implicit = open.is_implicit;
            let (before, local) = (Arc::clone(&open.settings_before), open.local_settings.clone());
            self.begin(is_implicit, modes)?;
            if let Some(open) = &mut self.open {
                (open.settings_before, open.local_settings) = (before, local);
            }
        }
        if let Some(open) = &mut self.open {
            open.is_read_only = is_read_only;
        }
        note_setting(&mut self.identity, "transaction_read_only", if is_read_only { "on" } else { "off" })
    }

    /// Notes what a statement said of DEFERRABLE. No transaction waits to begin, so this is shown and changes nothing.
    pub(super) fn set_deferrable(&mut self, is_deferrable: Option<bool>) -> Result<()> {
        match is_deferrable.filter(|_| self.open.is_some()) {
            Some(is_deferrable) => {
                note_setting(&mut self.identity, "transaction_deferrable", if is_deferrable { "on" } else { "off" })
            }
            None => Ok(()),
        }
    }

    /// Moves the transaction to the present: before each statement under READ COMMITTED, and before the first one under
    /// the other levels, whose snapshot is that of their first statement.
    pub(super) fn begin_statement(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let is_first = !std::mem::replace(&mut open.has_asked, true) && !open.has_written.get();
        if is_first || open.transaction.isolation() == Isolation::ReadCommitted {
            open.move_to_the_present(&self.shared)?;
        }
        Ok(())
    }

    /// Moves the transaction to the present after a lock that may have been another session's, whatever its level: if
    /// what it relies on is unchanged there.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        // Statements that write on their own and have not seen the lock are over after this turn.
        if self.shared.commits.writers.load(Ordering::SeqCst) > 0 {
            self.shared.database.write(|_| Ok(()))?;
        }
        match &mut self.open {
            Some(open) => open.move_to_the_present(&self.shared),
            None => Ok(()),
        }
    }

    /// Ends the transaction that a statement outside of one has begun: after each simple query, and at Sync. Outside of
    /// a transaction, returns when all that statements have seen is as durable as commits of this session are.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn sync(&mut self) -> Result<()> {
        if let Some(open) = &self.open {
            let result = match (open.is_implicit, open.has_failed) {
                (false, _) => return Ok(()),
                (true, true) => {
                    self.roll_back();
                    Ok(())
                }
                (true, false) => self.commit(),
            };
            self.tell_waiting();
            result?;
        }
        let db = self.shared.database.db();
        self.seen.wait(db, self.durability().unwrap_or_else(|| db.durability()))
    }

    /// Commits the transaction.
    pub(super) fn commit(&mut self) -> Result<()> {
        if let Err(error) = self.end_temporary_tables() {
            self.roll_back();
            return Err(error);
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        self.seen.note(self.shared.database.db());
        self.end_cursors();
        let held = open.held.into_inner();
        let pending = std::mem::take(&mut self.effects.get_mut().pending);
        let (mailbox, process) = (&self.identity.mailbox, self.identity.process);
        let (durability, transaction) = (self.durability(), open.transaction);
        let result = self.shared.notifications.commit(mailbox, process, pending, || {
            match durability {
                Some(durability) => transaction.commit_with(durability)?,
                None => transaction.commit()?,
            }
            Ok(())
        });
        if result.is_ok() && !held.is_empty() {
            self.shared.commits.note(&held);
        }
        self.shared.locks.release(self.owner, held.into_names());
        match &result {
            Ok(()) if open.local_settings.is_empty() => {}
            Ok(()) => Arc::make_mut(&mut self.identity.settings).end_local(&open.local_settings),
            Err(_) => self.identity.settings = open.settings_before,
        }
        Settings::show_defaults(&mut self.identity.settings);
        self.effects.get_mut().end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
        result
    }

    /// Forgets the cursors that end with their transaction.
    fn end_cursors(&mut self) {
        if !self.cursors.is_empty() {
            self.cursors.retain(|_, cursor| cursor.stays_after_transaction());
            self.identity.kept.lists().cursors.retain(|_, cursor| cursor.is_held);
        }
    }

    /// Rolls the transaction back.
    pub(super) fn roll_back(&mut self) {
        self.end_cursors();
        if let Some(open) = self.open.take() {
            open.transaction.rollback();
            self.shared.locks.release(self.owner, open.held.into_inner().into_names());
            self.identity.settings = open.settings_before;
            Settings::show_defaults(&mut self.identity.settings);
            self.effects.get_mut().end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
        }
    }

    /// Something has failed that belongs to the session's work and that it does not know of: a parameter that cannot be
    /// read, a portal that is not there. The transaction, if there is one, can only be rolled back from now on.
    pub fn fail(&mut self) {
        self.fail_transaction();
    }

    /// Notes that a statement has failed. Without a savepoint to go back to, all locks are given back.
    pub(super) fn fail_transaction(&mut self) {
        if let Some(open) = &mut self.open {
            open.has_failed = true;
            if open.savepoints.is_empty() {
                self.shared.locks.release(self.owner, open.held.take().into_names());
            }
        }
    }

    /// # Errors
    /// [`IN_FAILED_SQL_TRANSACTION`](SqlState::IN_FAILED_SQL_TRANSACTION) for all but what ends a failed transaction.
    pub(super) fn refuse_failed(&self, statement: &ast::Statement) -> Result<()> {
        let has_failed = self.open.as_ref().is_some_and(|open| open.has_failed);
        let ends = matches!(statement, ast::Statement::Commit { .. } | ast::Statement::Rollback { .. });
        if has_failed && !ends {
            let what = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, what));
        }
        Ok(())
    }

    /// # Errors
    /// [`READ_ONLY_SQL_TRANSACTION`](SqlState::READ_ONLY_SQL_TRANSACTION) if the transaction only reads.
    pub(super) fn refuse_read_only(&self, what: &str) -> Result<()> {
        let is_read_only = match &self.open {
            Some(open) => open.is_read_only,
            None => self.identity.settings.is_on("default_transaction_read_only"),
        };
        if is_read_only {
            let what = format!("cannot execute {what} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, what));
        }
        Ok(())
    }

    // --- savepoints -------------------------------------------------------------------------------------------------

    pub(super) fn set_savepoint(&mut self, name: &str) -> Result<()> {
        self.open_block("SAVEPOINT")?;
        mark(self, name)
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.open_block("RELEASE SAVEPOINT")?;
        unmark(self, name)
    }

    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        self.open_block("ROLLBACK TO SAVEPOINT")?;
        go_back(self, name)
    }

    pub(super) fn open_block(&mut self, statement: &str) -> Result<&mut OpenTransaction> {
        match &mut self.open {
            Some(open) if !open.is_implicit => Ok(open),
            _ => {
                let what = format!("{statement} can only be used in transaction blocks");
                Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what))
            }
        }
    }
}

fn open_of(session: &mut Session) -> Result<&mut OpenTransaction> {
    session.open.as_mut().ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "there is no transaction"))
}

/// Sets a savepoint, also in a transaction of one statement.
pub(super) fn mark(session: &mut Session, name: &str) -> Result<()> {
    let settings = Arc::clone(&session.identity.settings);
    let (advisory, said) = (session.effects.get_mut().taken(), session.effects.get_mut().pending.mark());
    let open = open_of(session)?;
    let (savepoint, local_settings) = (open.transaction.savepoint(), open.local_settings.clone());
    open.savepoints.push(Marked { name: name.to_owned(), savepoint, settings, local_settings, advisory, said });
    Ok(())
}

/// Removes the last savepoint of a name, and those after it.
pub(super) fn unmark(session: &mut Session, name: &str) -> Result<()> {
    let open = open_of(session)?;
    let at = open.place_of(name)?;
    open.transaction.release(open.savepoints[at].savepoint)?;
    open.savepoints.truncate(at);
    Ok(())
}

/// Undoes all that was done after the last savepoint of a name.
pub(super) fn go_back(session: &mut Session, name: &str) -> Result<()> {
    let open = open_of(session)?;
    let at = open.place_of(name)?;
    let marked = &open.savepoints[at];
    // Locks of rows stay: the transaction relies on what it has written, also after it is undone.
    open.transaction.rollback_to(marked.savepoint)?;
    let (settings, advisory, said) = (Arc::clone(&marked.settings), marked.advisory, marked.said);
    open.local_settings.clone_from(&marked.local_settings);
    open.is_read_only = settings.is_on("transaction_read_only");
    open.savepoints.truncate(at + 1);
    open.has_failed = false;
    session.identity.settings = settings;
    session.effects.get_mut().pending.go_back(said);
    let released = session.effects.get_mut().released_since(advisory);
    session.shared.locks.release(session.owner, released);
    Ok(())
}

/// Runs `work` in the open transaction of a session. None if it has waited for a lock: then what it did is undone, and
/// it must begin again with what is there now.
///
/// # Errors
/// Those of `work`, and of moving to the present.
pub(super) fn attempt<R>(
    session: &mut Session,
    limits: &Limits,
    work: impl FnOnce(&Session, &OpenTransaction, &dyn Locker) -> Result<R>,
) -> Result<Option<R>> {
    let said = session.effects.get_mut().pending.mark();
    let Some(open) = &session.open else {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "there is no transaction"));
    };
    open.has_written.set(true);
    let savepoint = open.transaction.savepoint();
    match work(session, open, &session.locker_of(open, limits)) {
        Ok(done) => {
            open.transaction.release(savepoint)?;
            Ok(Some(done))
        }
        Err(error) if error.state() == SqlState::BEGIN_AGAIN => {
            open.transaction.rollback_to(savepoint)?;
            open.transaction.release(savepoint)?;
            session.effects.get_mut().pending.go_back(said);
            session.catch_up()?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
        self.shared.notifications.leave(&self.identity.mailbox);
        // What stays is dropped when the database is opened again.
        let _ = self.drop_temporary();
        let released = self.effects.get_mut().released(true);
        self.shared.locks.release(self.owner, released);
        self.shared.sessions.forget(self.identity.process);
    }
}

/// What the modes of BEGIN and SET TRANSACTION say.
fn read_modes(modes: &[ast::TransactionMode], level: &mut String, is_read_only: &mut bool) {
    for mode in modes {
        match mode {
            ast::TransactionMode::AccessMode(ast::TransactionAccessMode::ReadOnly) => *is_read_only = true,
            ast::TransactionMode::AccessMode(ast::TransactionAccessMode::ReadWrite) => *is_read_only = false,
            ast::TransactionMode::IsolationLevel(wanted) => {
                *level = match wanted {
                    ast::TransactionIsolationLevel::ReadUncommitted => "read uncommitted",
                    ast::TransactionIsolationLevel::ReadCommitted => "read committed",
                    ast::TransactionIsolationLevel::RepeatableRead | ast::TransactionIsolationLevel::Snapshot => {
                        "repeatable read"
                    }
                    ast::TransactionIsolationLevel::Serializable => "serializable",
                }
                .to_owned();
            }
        }
    }
}

/// REPEATABLE READ is kept as SERIALIZABLE is.
fn isolation_of(level: &str) -> Isolation {
    match level {
        "read committed" | "read uncommitted" => Isolation::ReadCommitted,
        _ => Isolation::Serializable,
    }
}
