//! Sessions: what one client has between its statements.

mod environment;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::types::SqlType;
use crate::types::datum::Datum;

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
#[derive(Debug)]
pub struct Prepared {
    /// Its text.
    pub text: Arc<str>,
    /// The types of its parameters.
    pub parameters: Vec<SqlType>,
    /// The columns of its result; none if it has no rows.
    pub columns: Option<Vec<ResultColumn>>,
}

/// A prepared statement with its parameters, before and while it runs. A result of many rows is read in parts.
#[derive(Debug)]
pub struct Portal {
    /// The statement.
    pub prepared: Arc<Prepared>,
    /// The values of its parameters.
    pub parameters: Vec<Datum>,
}

/// How COPY writes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines of texts with tabs between.
    Text,
    /// CSV.
    Csv,
    /// PostgreSQL's binary form.
    Binary,
}

/// A COPY that waits for its data.
#[derive(Debug)]
pub struct CopyIn {
    /// How the data is written.
    pub format: CopyFormat,
    /// How many columns it has.
    pub columns: usize,
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

    /// COPY begins to send data.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<()>;

    /// Data of a COPY: a row, a header or an end.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_data(&mut self, data: &[u8]) -> Result<()>;

    /// Something that the client should know, which is no failure.
    fn notice(&mut self, notice: &SqlError);

    /// A parameter that clients are told of has changed: `TimeZone`, `client_encoding`, `application_name`.
    fn setting_changed(&mut self, name: &str, value: &str);
}

/// Cancels what a session runs, from another thread.
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    is_cancelled: Arc<AtomicBool>,
}

impl Canceller {
    /// Asks the running statement to end with an error.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the running statement is to end.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Forgets what was asked before a statement begins.
    pub fn clear(&self) {
        self.is_cancelled.store(false, Ordering::Relaxed);
    }
}

/// All sessions of a database.
#[derive(Clone)]
pub struct SqlDatabase {}

impl SqlDatabase {
    /// SQL over the tables of a database.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn open(_db: &quipu::Db) -> Result<SqlDatabase> {
        Ok(SqlDatabase {})
    }

    /// A session of a user.
    pub fn session(&self, user: &str, database: &str) -> Session {
        Session { settings: environment::Settings::new(user, database) }
    }
}

/// What one client has between its statements: a transaction, settings, prepared statements of SQL, cursors, locks.
/// Prepared statements and portals of the protocol are kept by who speaks it.
pub struct Session {
    settings: environment::Settings,
}

fn not_yet() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "not yet")
}

impl Session {
    /// Cancels what the session runs, from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller::default()
    }

    /// Sets a parameter as the client asks for it when it connects: `client_encoding`, `application_name`, `TimeZone`.
    /// RESET comes back to it. An unknown name with a point in it is one of the client's own.
    ///
    /// # Errors
    /// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if there is no such parameter,
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if it cannot have this value.
    pub fn set_at_start(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, value);
        Ok(())
    }

    /// What functions, and values as text, depend on. It is that of the statement under way, or of the last one: who
    /// speaks the protocol asks for it before each [`Session::execute`].
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::new(self.settings.clone())
    }

    /// Says which number the connection has, for `pg_backend_pid()`.
    pub fn set_process(&mut self, process: i32) {
        self.settings.set_process(process);
    }

    /// Something has failed that belongs to the session's work and that it does not know of: a parameter that cannot be
    /// read, a portal that is not there. The transaction, if there is one, can only be rolled back from now on.
    pub fn fail(&mut self) {}

    /// Whether it is in a transaction.
    pub fn status(&self) -> Status {
        Status::Idle
    }

    /// The statements of a text, which are separated by semicolons. More than one of them are one transaction unless
    /// they say otherwise.
    ///
    /// # Errors
    /// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR), with its place.
    pub fn prepare_all(&mut self, _text: &str) -> Result<Vec<Arc<Prepared>>> {
        Err(not_yet())
    }

    /// Reads one statement; `types` says those of its first parameters, as far as the client knows them.
    ///
    /// # Errors
    /// Those of its text: syntax, names, types.
    pub fn prepare(&mut self, _text: &str, _types: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        Err(not_yet())
    }

    /// Gives a statement its parameters.
    ///
    /// # Errors
    /// [`PROTOCOL_VIOLATION`](SqlState::PROTOCOL_VIOLATION) if their number is wrong.
    pub fn bind(&mut self, prepared: &Arc<Prepared>, parameters: Vec<Datum>) -> Result<Portal> {
        Ok(Portal { prepared: Arc::clone(prepared), parameters })
    }

    /// Runs a portal until it is done, or has given `rows_max` rows. Outside of a transaction it begins one, which
    /// [`Session::sync`] ends. After an error, nothing of a transaction but its end is taken.
    ///
    /// # Errors
    /// Those of the statement, and of `sink`.
    pub fn execute(&mut self, _portal: &mut Portal, _rows_max: Option<u64>, _sink: &mut dyn Sink) -> Result<Progress> {
        Err(not_yet())
    }

    /// Takes data of a COPY: any number of bytes, cut anywhere.
    ///
    /// # Errors
    /// Those of the data, with its line.
    pub fn copy_data(&mut self, _copy: &mut CopyIn, _data: &[u8]) -> Result<()> {
        Err(not_yet())
    }

    /// Ends a COPY, and returns its tag.
    ///
    /// # Errors
    /// Those of the data, and of constraints.
    pub fn copy_done(&mut self, _copy: CopyIn) -> Result<String> {
        Err(not_yet())
    }

    /// Gives up a COPY: nothing of it stays.
    pub fn copy_fail(&mut self, _copy: CopyIn, _message: &str) -> SqlError {
        not_yet()
    }

    /// Ends the transaction that a statement outside of one has begun: after each simple query, and at Sync.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}
