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
use std::time::Duration;

use quipu::{Durability, Error, ErrorKind, Savepoint};
use quipu_rows::{Isolation, RowTransaction};
use sqlparser::ast;

use crate::clock;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Locker;
use crate::identity::Identity;
use crate::identity::settings::Settings;
use crate::limits::Limits;
use crate::locks::Got;
use crate::locks::mode::LockMode;
use crate::locks::table::{LockName, Owner};
use crate::plan::query::LockWait;
use crate::session::Session;
use crate::session::commits::HeldLocks;
use crate::session::shared::Shared;
use crate::types::datum::Datum;

/// The transaction of a session.
pub(super) struct OpenTransaction {
    pub(super) transaction: Box<RowTransaction<'static>>,
    /// Whether it was begun by a statement, and ends at Sync.
    pub(super) is_implicit: bool,
    pub(super) has_failed: bool,
    pub(super) is_read_only: bool,
    /// The locks that it has.
    pub(super) held: RefCell<HeldLocks>,
    savepoints: Vec<Marked>,
    /// Whether a statement has asked for rows, or changed some.
    has_asked: bool,
    /// Whether it may have changed rows or definitions.
    pub(super) has_written: Cell<bool>,
    /// How many commits there were when it was last at the present.
    pub(super) seen: u64,
    /// The parameters before it, to which ROLLBACK comes back.
    settings_before: Arc<Settings>,
    /// The parameters that it has set for itself alone.
    pub(super) local_settings: Vec<String>,
}

/// What ROLLBACK TO SAVEPOINT comes back to.
struct Marked {
    name: String,
    savepoint: Savepoint,
    /// The parameters.
    settings: Arc<Settings>,
    /// How many parameters the transaction had set for itself alone.
    local_settings: usize,
    /// How many advisory locks the session had taken so far.
    advisory: u64,
    /// How much it had to say.
    said: usize,
}

/// Takes locks for a transaction that stays open.
pub(super) struct LockerOfTransaction<'l> {
    shared: &'l Shared,
    owner: Owner,
    held: &'l RefCell<HeldLocks>,
    seen: u64,
    limits: &'l Limits,
    timeout: Option<Duration>,
}

fn begin_again() -> SqlError {
    SqlError::new(SqlState::BEGIN_AGAIN, "the statement must begin again")
}

fn name_of(table: &str, key: &[Datum]) -> LockName {
    LockName { table: table.into(), key: key.to_vec() }
}

impl LockerOfTransaction<'_> {
    /// Locks a table, unless the transaction has done so.
    pub(super) fn take_table(&self, table: &str, mode: LockMode, wait: LockWait) -> Result<()> {
        if self.held.borrow().has_table(table, mode) {
            return Ok(());
        }
        self.take(LockName::of_table(table), mode, wait).map(drop)
    }

    fn take(&self, name: LockName, mode: LockMode, wait: LockWait) -> Result<bool> {
        let got = self.shared.locks.take(self.owner, &name, mode, wait, self.limits, self.timeout)?;
        match got {
            Got::Before => return Ok(true),
            Got::Skipped => return Ok(false),
            Got::Now | Got::Waited => {}
        }
        let is_stale = got == Got::Waited || self.shared.commits.may_have_changed(&name, self.seen);
        self.held.borrow_mut().push(name, mode);
        if is_stale { Err(begin_again()) } else { Ok(true) }
    }
}

impl Locker for LockerOfTransaction<'_> {
    fn lock(&self, table: &str, key: &[Datum], wait: LockWait, is_shared: bool) -> Result<bool> {
        self.take(name_of(table, key), LockMode::of_row(is_shared), wait)
    }

    fn lock_table(&self, table: &str, mode: LockMode) -> Result<()> {
        self.take_table(table, mode, LockWait::Wait)
    }

    fn is_alone(&self) -> bool {
        false
    }
}

/// Sets a parameter that shows what the transaction is. Most transactions are like the one before.
fn note_setting(identity: &mut Identity, name: &str, value: &str) -> Result<()> {
    if identity.settings.get(name) != Some(value) {
        Arc::make_mut(&mut identity.settings).set(name, value)?;
    }
    Ok(())
}

/// Takes locks for a statement that writes on its own, in the writer's turn, where nothing is waited for.
struct LockerOfWriter<'l> {
    shared: &'l Shared,
    owner: Owner,
    held: &'l RefCell<HeldLocks>,
    is_alone: bool,
    /// The lock that another session has.
    taken: RefCell<Option<(LockName, LockMode)>>,
    limits: &'l Limits,
}

impl LockerOfWriter<'_> {
    fn take(&self, name: LockName, mode: LockMode, wait: LockWait) -> Result<()> {
        let wait = if wait == LockWait::Wait { LockWait::SkipLocked } else { wait };
        match self.shared.locks.take(self.owner, &name, mode, wait, self.limits, None)? {
            Got::Before => {}
            Got::Now | Got::Waited => self.held.borrow_mut().push(name, mode),
            Got::Skipped => {
                *self.taken.borrow_mut() = Some((name, mode));
                return Err(begin_again());
            }
        }
        Ok(())
    }
}

impl Locker for LockerOfWriter<'_> {
    fn lock(&self, table: &str, key: &[Datum], wait: LockWait, is_shared: bool) -> Result<bool> {
        if !self.is_alone {
            self.take(name_of(table, key), LockMode::of_row(is_shared), wait)?;
        }
        Ok(true)
    }

    fn lock_table(&self, table: &str, mode: LockMode) -> Result<()> {
        if self.is_alone { Ok(()) } else { self.take(LockName::of_table(table), mode, LockWait::Wait) }
    }

    fn is_alone(&self) -> bool {
        self.is_alone
    }
}

/// What is done in the writer's turn.
type AloneFn<'w, R> = dyn FnMut(&RowTransaction<'_>, &dyn Locker) -> Result<Alone<R>> + 'w;

/// What a statement on its own came to.
pub(super) enum Alone<R> {
    /// It is done.
    Done(R),
    /// What it was bound over has changed.
    BindAgain,
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

    /// How far a commit must be safe: as the database says, or, if `synchronous_commit` is off, with the system.
    pub(super) fn durability(&self) -> Option<Durability> {
        match self.identity.settings.get("synchronous_commit") {
            Some("off") => Some(Durability::Os),
            _ => None,
        }
    }

    /// Runs `work` as the single writer, again after each lock that it has to wait for.
    pub(super) fn alone<R>(
        &self,
        limits: &Limits,
        mut work: impl FnMut(&RowTransaction<'_>, &dyn Locker) -> Result<Alone<R>>,
    ) -> Result<Alone<R>> {
        let held = RefCell::default();
        let result = self.try_alone(limits, &held, &mut work);
        self.shared.locks.release(self.owner, held.into_inner().into_names());
        result
    }

    fn try_alone<R>(&self, limits: &Limits, held: &RefCell<HeldLocks>, work: &mut AloneFn<'_, R>) -> Result<Alone<R>> {
        let shared = &*self.shared;
        loop {
            let mut failure = None;
            let mut taken = None;
            let mut given = Vec::new();
            let sequences = shared.catalogues.sequences();
            let mut closure = |transaction: &RowTransaction<'_>| {
                self.seen.note(self.shared.database.db());
                let is_alone = shared.locks.is_free();
                let locker =
                    LockerOfWriter { shared, owner: self.owner, held, is_alone, taken: RefCell::default(), limits };
                let done = work(transaction, &locker);
                given = sequences.take_given();
                done.map_err(|error| {
                    taken = locker.taken.take();
                    failure = Some(error);
                    Error::new(ErrorKind::Invalid, "the statement has failed")
                })
            };
            shared.commits.writers.fetch_add(1, Ordering::SeqCst);
            let result = match self.durability() {
                Some(durability) => shared.database.write_with(durability, &mut closure),
                None => shared.database.write(&mut closure),
            };
            if result.is_ok() {
                shared.commits.note(&held.borrow());
            }
            shared.commits.writers.fetch_sub(1, Ordering::SeqCst);
            match (result, failure, taken) {
                (Ok(done), ..) => return Ok(done),
                (Err(_), Some(_), Some((name, mode))) => {
                    let timeout = self.identity.settings.lock_timeout();
                    shared.locks.take(self.owner, &name, mode, LockWait::Wait, limits, timeout)?;
                    held.borrow_mut().push(name, mode);
                }
                (Err(_), Some(failure), None) => {
                    // The statement has failed already. What is not noted is given out again.
                    let _ = sequences.keep(&given);
                    return Err(failure);
                }
                (Err(error), None, _) => return Err(error.into()),
            }
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
            local_settings: Vec::new(),
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

    /// Moves the transaction to the present: before each statement under READ COMMITTED.
    pub(super) fn begin_statement(&mut self) -> Result<()> {
        if let Some(open) = &mut self.open {
            open.has_asked = true;
        }
        match &mut self.open {
            Some(open) if open.transaction.isolation() == Isolation::ReadCommitted => {
                open.move_to_the_present(&self.shared)
            }
            _ => Ok(()),
        }
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
        let pending = std::mem::take(&mut self.changes.get_mut().pending);
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
            Ok(()) => Arc::make_mut(&mut self.identity.settings).end_local(&open.settings_before, &open.local_settings),
            Err(_) => self.identity.settings = open.settings_before,
        }
        Settings::show_defaults(&mut self.identity.settings);
        self.changes.get_mut().end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
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
            self.changes.get_mut().end_transaction(&self.shared.locks, &self.shared.snapshots, self.owner);
        }
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
        let settings = Arc::clone(&self.identity.settings);
        let (advisory, said) = (self.changes.get_mut().taken(), self.changes.get_mut().pending.mark());
        let open = self.open_block("SAVEPOINT")?;
        let (savepoint, local_settings) = (open.transaction.savepoint(), open.local_settings.len());
        open.savepoints.push(Marked { name: name.to_owned(), savepoint, settings, local_settings, advisory, said });
        Ok(())
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let open = self.open_block("RELEASE SAVEPOINT")?;
        let at = open.place_of(name)?;
        open.transaction.release(open.savepoints[at].savepoint)?;
        open.savepoints.truncate(at);
        Ok(())
    }

    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let open = self.open_block("ROLLBACK TO SAVEPOINT")?;
        let at = open.place_of(name)?;
        let marked = &open.savepoints[at];
        // Locks of rows stay: the transaction relies on what it has written, also after it is undone.
        open.transaction.rollback_to(marked.savepoint)?;
        let (settings, advisory, said) = (Arc::clone(&marked.settings), marked.advisory, marked.said);
        open.local_settings.truncate(marked.local_settings);
        open.is_read_only = settings.is_on("transaction_read_only");
        open.savepoints.truncate(at + 1);
        open.has_failed = false;
        self.identity.settings = settings;
        self.changes.get_mut().pending.go_back(said);
        let released = self.changes.get_mut().released_since(advisory);
        self.shared.locks.release(self.owner, released);
        Ok(())
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
    let said = session.changes.get_mut().pending.mark();
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
            session.changes.get_mut().pending.go_back(said);
            session.catch_up()?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl OpenTransaction {
    /// SET TRANSACTION SNAPSHOT: it reads what another transaction has exported.
    ///
    /// # Errors
    /// As PostgreSQL's: it must be the first thing that a transaction does, whose level keeps its snapshot.
    pub(super) fn import_snapshot(&mut self, name: &str, shared: &Shared) -> Result<()> {
        if self.has_begun() {
            let what = "SET TRANSACTION SNAPSHOT must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        }
        let level = self.transaction.isolation();
        if level == Isolation::ReadCommitted {
            let what = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let snapshot = shared.snapshots.find(name)?;
        *self.transaction = shared.database.begin_at(&snapshot, level)?;
        // Any row may have changed since.
        self.seen = 0;
        Ok(())
    }

    /// Whether it has done something that its level and its snapshot have to do with.
    fn has_begun(&self) -> bool {
        self.has_asked || !self.held.borrow().is_empty() || !self.savepoints.is_empty() || self.has_written.get()
    }

    /// Whether a statement that begins now sees what a snapshot that is taken now sees.
    pub(super) fn sees_the_present(&self) -> bool {
        self.transaction.isolation() == Isolation::ReadCommitted && !self.has_written.get()
    }

    /// Whether all that it will read is what it reads now.
    pub(super) fn reads_one_moment(&self) -> bool {
        self.transaction.isolation() != Isolation::ReadCommitted && self.is_read_only
    }

    fn move_to_the_present(&mut self, shared: &Shared) -> Result<()> {
        let seen = shared.commits.now();
        match self.transaction.refresh() {
            // It relies on definitions that have changed, but has done nothing by them.
            Err(error) if error.kind() == ErrorKind::Conflict && self.sees_the_present() => {
                *self.transaction = shared.database.begin_with(self.transaction.isolation());
                for marked in &mut self.savepoints {
                    marked.savepoint = self.transaction.savepoint();
                }
            }
            result => result?,
        }
        self.seen = seen;
        Ok(())
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|marked| marked.name == name);
        at.ok_or_else(|| SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
        self.shared.notifications.leave(&self.identity.mailbox);
        // What stays is dropped when the database is opened again.
        let _ = self.drop_temporary();
        let released = self.changes.get_mut().released(true);
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
