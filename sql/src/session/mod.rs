//! Sessions: what one client has between its statements.
//!
//! | file | what it is |
//! |---|---|
//! | `shared`, `database` | what all sessions of a database share; the database, which opens sessions |
//! | `answer` | columns, rows and progress of statements |
//! | `portal` | statements that were bound, and portals |
//! | `open_transaction`, `commits` | an open transaction and its locks; what commits may have changed |
//! | `transaction`, `alone` | BEGIN, COMMIT, savepoints; statements on their own |
//! | `prepare` | statements read, and bound again when the catalogue has changed |
//! | `columns` | columns of what statements answer that are no queries |
//! | `run`, `rows`, `changes` | statements; those that read rows; those that change them |
//! | `utility` | which file every other statement goes to; LISTEN, NOTIFY |
//! | `permission` | which of these a user needs all rights for |
//! | `named` | PREPARE, EXECUTE, DEALLOCATE |
//! | `explain`, `explain_options` | EXPLAIN and its options |
//! | `copy`, `copy_state` | COPY; one that takes data |
//! | `cursor`, `cursors`, `fetch` | a cursor of DECLARE; DECLARE and FETCH; the steps of FETCH |
//! | `define` | which file every statement goes to that changes definitions |
//! | `definitions`, `definition_context` | statements that change definitions, and what they need of the session |
//! | `evaluator` | values and names of expressions in these |
//! | `extensions` | CREATE EXTENSION and DROP EXTENSION |
//! | `materialized` | rows of materialized views |
//! | `tables`, `table_lock` | LOCK TABLE, indexes that are built while others write; the lock of a table |
//! | `temporary`, `at_commit` | temporary tables at commits and at the end of their session |
//! | `parameters`, `discard` | SET, RESET, SHOW; DISCARD |
//! | `do_block` | DO |
//! | `environment` | what functions ask of the session |
//! | `activity` | open sessions, to each other: what they run, how they are ended |
//! | `function_effects` | what functions change in a session: advisory locks, parameters |
//! | `last_numbers` | numbers of sequences that the session got last |
//! | `seen` | what statements have seen of others' commits, which an answer waits for |
//! | `snapshots` | snapshots that have names |

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::error::{SqlError, SqlState};
use crate::functions::Environment;
use crate::identity::Identity;
use crate::identity::kept::KeptStatement;
use crate::identity::settings::Settings;
use crate::limits::{Canceller, Limits};
use crate::locks::table::Owner;
use crate::notifications::Mailbox;

pub(crate) mod activity;
mod alone;
mod answer;
mod at_commit;
mod changes;
mod columns;
mod commits;
mod copy;
mod copy_state;
mod cursor;
mod cursors;
mod database;
mod define;
mod definition_context;
mod definitions;
mod discard;
mod do_block;
pub mod environment;
mod evaluator;
mod explain;
mod explain_options;
mod extensions;
mod fetch;
pub(crate) mod function_effects;
mod last_numbers;
mod materialized;
mod named;
mod open_transaction;
mod parameters;
mod permission;
mod portal;
mod prepare;
mod rows;
mod run;
mod seen;
pub(crate) mod shared;
mod snapshots;
mod table_lock;
mod tables;
mod temporary;
mod transaction;
mod utility;

pub use answer::{CopyIn, Progress, ResultColumn, Sink, Status};
pub use cursor::{close_cursor, lend_portal, named_cursor, take_portal_back};
pub use database::SqlDatabase;
pub use portal::{Portal, Prepared};
pub use prepare::type_of_oid;
pub use shared::Shared;

use crate::error::Result;
use crate::execute::view::View;
use activity::{OpenSession, SharedActivity};
use at_commit::Temporary;
use cursor::Cursor;
use environment::{OutputEnvironment, StatementEnvironment};
use function_effects::{AffectedSession, Effects};
use last_numbers::LastNumbers;
use open_transaction::OpenTransaction;

/// What one client has between its statements: a transaction, settings, prepared statements of SQL, cursors, locks.
/// Prepared statements and portals of the protocol are kept by the face that speaks it.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    identity: Identity,
    owner: Owner,
    /// The transaction, if there is one.
    open: Option<OpenTransaction>,
    /// What statements have seen, but for those of the transaction that is open.
    seen: seen::Seen,
    last_numbers: RefCell<LastNumbers>,
    /// What functions have changed: advisory locks, parameters.
    effects: RefCell<Effects>,
    /// Statements of PREPARE.
    named: HashMap<String, Arc<Prepared>>,
    /// Cursors of DECLARE.
    cursors: HashMap<String, Cursor>,
    /// Statements that were prepared last, by their texts, so that one that comes again is not read again.
    recent: Vec<Arc<Prepared>>,
    /// Its temporary tables.
    temporary: Temporary,
    /// What it does, to others.
    activity: SharedActivity,
    /// Ends its connection.
    end: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Where the client finds notifications, once it has opened it.
    pub mailbox: Arc<Mailbox>,
}

/// What ends a session whose client has said nothing for too long.
pub fn idle_timeout_error(in_transaction: bool) -> SqlError {
    let (state, what) = match in_transaction {
        true => (SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle-in-transaction"),
        false => (SqlState::IDLE_SESSION_TIMEOUT, "idle-session"),
    };
    SqlError::new(state, format!("terminating connection due to {what} timeout"))
}

impl Session {
    /// Cancels what the session runs, from another thread.
    pub fn canceller(&self) -> Canceller {
        self.identity.canceller.clone()
    }

    /// Sets a parameter as the client asks for it when it connects: `client_encoding`, `application_name`, `TimeZone`.
    /// RESET comes back to it. An unknown name with a point in it is one of the client's own.
    ///
    /// # Errors
    /// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if there is no such parameter,
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if it cannot have this value.
    pub fn set_at_start(&mut self, name: &str, value: &str) -> Result<()> {
        Arc::make_mut(&mut self.identity.settings).set_at_start(name, value)?;
        Settings::show_defaults(&mut self.identity.settings);
        self.tell("idle");
        Ok(())
    }

    /// What functions, and values as text, depend on. It is that of the statement under way, or of the last one: the
    /// face that speaks the protocol asks for it before each [`Session::execute`].
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::new(OutputEnvironment { identity: self.identity.clone(), shared: Arc::clone(&self.shared) })
    }

    /// The parameters that clients are told of.
    pub fn reported(&self) -> Vec<(String, String)> {
        let reported = self.identity.settings.reported();
        reported.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Says which number the connection has, for `pg_backend_pid()`.
    pub fn set_process(&mut self, process: i32) {
        self.shared.sessions.forget(self.identity.process);
        self.identity.process = process;
        self.note_session();
    }

    /// Says what ends the connection, for `pg_terminate_backend`.
    pub fn set_end(&mut self, end: impl Fn() + Send + Sync + 'static) {
        self.end = Some(Arc::new(end));
        self.note_session();
    }

    fn note_session(&self) {
        self.tell("idle");
        let session = OpenSession {
            user: Arc::clone(&self.identity.user),
            database: Arc::clone(&self.identity.database),
            owner: self.owner,
            began: self.identity.statement_time,
            canceller: self.canceller(),
            activity: self.activity.clone(),
            end: self.end.clone(),
        };
        self.shared.sessions.note(self.identity.process, session);
    }

    /// Tells others its state.
    fn tell(&self, state: &'static str) {
        let mut activity = self.activity.lock();
        activity.state = state;
        activity.changed = Some(clock::now());
        activity.transaction_began = self.open.as_ref().map(|_| self.identity.transaction_time);
        if !Arc::ptr_eq(&activity.settings, &self.identity.settings) {
            activity.settings = Arc::clone(&self.identity.settings);
        }
    }

    /// Tells others that it begins a statement.
    fn tell_statement(&self, text: &Arc<str>) {
        let mut activity = self.activity.lock();
        activity.query = Arc::clone(text);
        activity.query_began = Some(self.identity.statement_time);
        activity.transaction_began = Some(self.identity.transaction_time);
        activity.state = "active";
        activity.changed = activity.query_began;
    }

    /// Tells others that it waits for its client.
    fn tell_waiting(&self) {
        self.tell(match self.status() {
            Status::Idle => "idle",
            Status::InTransaction => "idle in transaction",
            Status::Failed => "idle in transaction (aborted)",
        });
    }

    /// Notes a prepared statement of the protocol, so that EXECUTE finds it and `pg_prepared_statements` lists it.
    pub fn note_statement(&mut self, name: &str, prepared: &Arc<Prepared>) {
        self.list(name, &prepared.text, prepared, false);
        self.named.insert(name.to_owned(), Arc::clone(prepared));
    }

    /// Forgets a prepared statement of the protocol, or of PREPARE.
    pub fn forget_statement(&mut self, name: &str) {
        self.identity.kept.lists().statements.remove(name);
        self.named.remove(name);
    }

    fn list(&self, name: &str, text: &Arc<str>, prepared: &Prepared, is_from_sql: bool) {
        let statement = KeptStatement {
            text: Arc::clone(text),
            prepared: self.identity.statement_time,
            parameters: prepared.parameters.clone(),
            is_from_sql,
        };
        self.identity.kept.lists().statements.insert(name.to_owned(), statement);
    }

    /// Whether it is in a transaction.
    pub fn status(&self) -> Status {
        match &self.open {
            None => Status::Idle,
            Some(open) if open.is_implicit => Status::Idle,
            Some(open) if open.has_failed => Status::Failed,
            Some(_) => Status::InTransaction,
        }
    }

    /// How long its client may say nothing between two statements, and whether it is in a transaction: see
    /// [`idle_timeout_error`].
    pub fn idle_timeout(&self) -> Option<(Duration, bool)> {
        let in_transaction = self.status() != Status::Idle;
        Some((self.identity.settings.idle_timeout(in_transaction)?, in_transaction))
    }

    /// The statement of a cursor of DECLARE.
    pub fn cursor(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.cursors.get(name).map(Cursor::prepared)
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
            affected: Some(AffectedSession {
                effects: &self.effects,
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

    pub(super) fn limits(&self) -> Limits {
        self.identity.limits()
    }
}
