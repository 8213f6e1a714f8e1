//! Sessions: what one client has between its statements.
//!
//! | file | what it is |
//! |---|---|
//! | `activity` | open sessions, to each other: what they run, how they are ended |
//! | `advisory` | advisory locks, and what else functions change in a session |
//! | `environment` | what functions ask of the session |
//! | `prepare` | statements read, and bound again when the catalogue has changed |
//! | `run` | statements that read and write rows |
//! | `seen` | what statements have seen of others' commits, which an answer waits for |
//! | `snapshots` | snapshots that have names |
//! | `transaction` | transactions, savepoints, locks |
//! | `commits` | which rows commits of sessions may have changed |
//! | `shared` | what all sessions of a database share |
//! | `copy` | COPY |
//! | `cursors`, `fetch` | cursors of DECLARE, and their steps |
//! | `definitions` | statements that change definitions, CREATE TABLE AS |
//! | `evaluator` | values and names of expressions in these |
//! | `explain_options` | the options of EXPLAIN |
//! | `extensions` | CREATE EXTENSION and DROP EXTENSION |
//! | `last_numbers` | numbers of sequences that the session got last |
//! | `materialized` | rows of materialized views |
//! | `parameters` | SET, RESET, SHOW |
//! | `tables` | LOCK TABLE, and indexes that are built while others write |
//! | `temporary` | temporary tables at commits and at the end of their session |
//! | `utility` | everything else: PREPARE, EXPLAIN, NOTIFY, and which file a statement goes to |

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quipu_rows::{Database, RowSnapshot};

use crate::bind::cursors::CursorKey;
use crate::catalogue::generated::compute_generated_columns;
use crate::catalogue::lookup::Shapes;
use crate::catalogue::names::temporary;
use crate::catalogue::roles::Users;
use crate::catalogue::{Catalogues, Version, system};
use crate::clock;
use crate::copy::CopyFormat;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::identity::Identity;
use crate::identity::kept::{Kept, KeptStatement};
use crate::identity::settings::Settings;
use crate::limits::Canceller;
use crate::locks::Locks;
use crate::locks::table::Owner;
use crate::notifications::{Mailbox, Notifications};
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

pub(crate) mod activity;
pub(crate) mod advisory;
mod commits;
mod copy;
mod cursors;
mod definitions;
pub mod environment;
mod evaluator;
mod explain_options;
mod extensions;
mod fetch;
mod last_numbers;
mod materialized;
mod parameters;
mod prepare;
mod run;
mod seen;
pub(crate) mod shared;
mod snapshots;
mod tables;
mod temporary;
mod transaction;
mod utility;

pub use prepare::type_of_oid;

use crate::plan::action::Action;
use activity::{OpenSession, Sessions, SharedActivity};
use advisory::Changes;
use commits::Commits;
use cursors::Cursor;
use environment::OutputEnvironment;
use last_numbers::LastNumbers;
pub(crate) use run::PortalState;
pub use shared::Shared;
use snapshots::Snapshots;
use temporary::Temporary;
use transaction::OpenTransaction;

/// A column of a result, as RowDescription tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// The number of the table that it is a column of; 0 if it is computed.
    pub table: u32,
    /// The number of that column; 0 if it is computed.
    pub column: i16,
}

/// Whether a session is in a transaction, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In none.
    Idle,
    /// In one.
    InTransaction,
    /// In one that has failed: it can only be rolled back.
    Failed,
}

/// A statement that was read, and whose types are known.
pub struct Prepared {
    /// Its text.
    pub text: Arc<str>,
    /// The types of its parameters.
    pub parameters: Vec<SqlType>,
    /// The columns of its result; none if it has no rows.
    pub columns: Option<Vec<ResultColumn>>,
    /// The tree, to be bound again after a change of the catalogue; none of an empty text.
    pub(crate) statement: Option<Statement>,
    /// What is done.
    pub(crate) action: Action,
    /// The catalogue that it was bound over.
    pub(crate) version: Version,
    /// The search path that it was bound with.
    pub(crate) path: Arc<str>,
    /// Whether its literals are to be read again when its text is: some depend on the time.
    pub(crate) is_dated: bool,
    /// The types that were given for its parameters.
    pub(crate) given: Vec<Option<SqlType>>,
    /// The keys that stand beside the columns in its rows, of the query of a cursor.
    pub(crate) keys: Vec<CursorKey>,
}

impl Prepared {
    /// The snapshot that it names, if it does.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if no snapshot has the name, or its time is over.
    fn snapshot(&self, snapshots: &Snapshots) -> Result<Option<RowSnapshot>> {
        let name = self.statement.as_ref().and_then(|statement| statement.snapshot.as_deref());
        name.map(|name| snapshots.find(name)).transpose()
    }

    /// Whether it neither writes nor locks rows: a query without FOR UPDATE, or what begins or rolls back a
    /// transaction, or reads or sets a parameter.
    pub fn only_reads(&self) -> bool {
        match &self.action {
            Action::Empty => true,
            Action::Query(query) => !run::is_locking(query),
            Action::Utility => self.statement.as_ref().is_some_and(|statement| {
                use sqlparser::ast::Statement::{Rollback, Savepoint, Set, ShowVariable, StartTransaction};
                matches!(
                    statement.tree,
                    StartTransaction { .. } | Rollback { .. } | Savepoint { .. } | Set(_) | ShowVariable { .. }
                )
            }),
            Action::Change(_) | Action::Several(_) => false,
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("text", &self.text).field("parameters", &self.parameters).finish()
    }
}

/// A prepared statement with its parameters, before and while it runs. A result of many rows is read in parts.
pub struct Portal {
    /// The statement.
    pub prepared: Arc<Prepared>,
    /// The values of its parameters.
    pub parameters: Vec<Datum>,
    /// How far it has come.
    pub(crate) state: PortalState,
}

impl std::fmt::Debug for Portal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portal").field("prepared", &self.prepared).finish()
    }
}

/// A COPY that waits for its data.
pub struct CopyIn {
    /// How the data is written.
    pub format: CopyFormat,
    /// How many columns it has.
    pub columns: usize,
    /// Where the rows go.
    pub(crate) state: Box<copy::CopyState>,
}

impl std::fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyIn").field("format", &self.format).field("columns", &self.columns).finish()
    }
}

/// How far a portal has come.
#[derive(Debug)]
pub enum Progress {
    /// It has more rows.
    Suspended,
    /// It is done, with this tag: `INSERT 0 1`.
    Done(String),
    /// The statement was empty.
    Empty,
    /// It waits for the data of a COPY.
    CopyIn(CopyIn),
}

/// What takes the rows of a result, in order. An error that it returns ends the statement.
pub trait Sink {
    /// A row: a value for each column.
    ///
    /// # Errors
    /// Those of the connection, or of a value that cannot be written.
    fn row(&mut self, values: &[Datum]) -> Result<()>;

    /// COPY begins to send data. A sink of statements that are no COPY needs neither this nor the next.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<()> {
        let (_, _) = (format, columns);
        Ok(())
    }

    /// Data of a COPY: a row, a header or an end.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let _ = data;
        Ok(())
    }

    /// Something that the client should know, which is no failure.
    fn notice(&mut self, notice: &SqlError);

    /// A parameter that clients are told of has changed: `TimeZone`, `client_encoding`, `application_name`.
    fn setting_changed(&mut self, name: &str, value: &str);
}

/// All sessions of a database.
#[derive(Clone)]
pub struct SqlDatabase {
    shared: Arc<Shared>,
}

impl SqlDatabase {
    /// SQL over the tables of a database.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn open(db: &quipu::Db) -> Result<SqlDatabase> {
        compute_generated_columns();
        let database = Database::open(db)?;
        let catalogues = Catalogues::open(&database)?;
        let shared = Shared {
            database,
            catalogues,
            shapes: Shapes::new(system::columns),
            locks: Locks::default(),
            commits: Commits::default(),
            sessions: Sessions::default(),
            snapshots: Snapshots::default(),
            notifications: Notifications::default(),
            ask_users: OnceLock::new(),
            // Greater than those before a restart: no database has a million transactions in each second.
            transaction_numbers: AtomicI64::new(clock::now_us()),
        };
        let opened = SqlDatabase { shared: Arc::new(shared) };
        opened.drop_abandoned()?;
        Ok(opened)
    }

    /// Ends snapshots whose time is over. They end as well when one is asked for; this frees what they keep if none is.
    pub fn end_due_snapshots(&self) {
        self.shared.snapshots.end_due();
    }

    /// Says what answers which users may use SQL. Only the first one counts; without one, a session knows its own.
    pub fn ask_users(&self, ask: impl Fn() -> Users + Send + Sync + 'static) {
        let _ = self.shared.ask_users.set(Box::new(ask));
    }

    /// A session of a user.
    pub fn session(&self, user: &str, database: &str) -> Session {
        let shared = Arc::clone(&self.shared);
        let now = clock::now();
        let owner = shared.locks.new_owner();
        let identity = Identity {
            user: user.into(),
            database: database.into(),
            kept: Kept::default(),
            temporary_schema: temporary(owner).into(),
            process: 0,
            settings: Arc::default(),
            transaction_time: now,
            statement_time: now,
            canceller: Canceller::default(),
            mailbox: Arc::default(),
        };
        Session {
            mailbox: Arc::clone(&identity.mailbox),
            owner,
            shared,
            identity,
            open: None,
            seen: seen::Seen::default(),
            last_numbers: RefCell::default(),
            changes: RefCell::default(),
            named: HashMap::new(),
            cursors: HashMap::new(),
            recent: Vec::new(),
            activity: SharedActivity::default(),
            temporary: Temporary::default(),
            end: None,
        }
    }
}

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
    changes: RefCell<Changes>,
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
        let released = self.changes.get_mut().released(true);
        self.shared.locks.release(self.owner, released);
        Ok(())
    }

    /// Something has failed that belongs to the session's work and that it does not know of: a parameter that cannot be
    /// read, a portal that is not there. The transaction, if there is one, can only be rolled back from now on.
    pub fn fail(&mut self) {
        self.fail_transaction();
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

    /// Gives a statement its parameters.
    ///
    /// # Errors
    /// [`PROTOCOL_VIOLATION`](SqlState::PROTOCOL_VIOLATION) if their number is wrong.
    pub fn bind(&mut self, prepared: &Arc<Prepared>, parameters: Vec<Datum>) -> Result<Portal> {
        if parameters.len() != prepared.parameters.len() {
            let (given, wanted) = (parameters.len(), prepared.parameters.len());
            let what = format!("bind message supplies {given} parameters, but prepared statement requires {wanted}");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        let prepared = self.fetched(prepared).unwrap_or_else(|| Arc::clone(prepared));
        Ok(Portal { prepared, parameters, state: PortalState::New })
    }
}
