//! What functions ask the session that runs them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use quipu_rows::{RowSnapshot, Timestamp};

use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::functions::Environment;
use crate::session::Shared;
use crate::session::settings::Settings;
use crate::types::BaseType;
use crate::types::datum::Datum;

/// Who a session is of, and what it was told.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// The number of the connection.
    pub process: i32,
    /// The parameters.
    pub settings: Arc<Settings>,
    /// When the transaction began.
    pub transaction_time: Timestamp,
    /// When the statement began.
    pub statement_time: Timestamp,
}

/// The present moment.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).ok().and_then(Timestamp::from_microseconds).unwrap_or_default()
}

/// The last numbers that a session got of sequences.
#[derive(Debug, Default)]
pub struct LastNumbers {
    pub(crate) by_name: HashMap<String, i64>,
    pub(crate) last: Option<i64>,
}

/// What a statement's functions ask: the session, and the catalogue as the statement sees it.
pub struct StatementEnvironment<'e> {
    pub(crate) identity: &'e Identity,
    pub(crate) shared: &'e Shared,
    pub(crate) view: View<'e>,
    pub(crate) last_numbers: &'e RefCell<LastNumbers>,
}

impl Environment for StatementEnvironment<'_> {
    fn transaction_time(&self) -> Timestamp {
        self.identity.transaction_time
    }

    fn statement_time(&self) -> Timestamp {
        self.identity.statement_time
    }

    fn time_zone(&self) -> &TimeZone {
        self.identity.settings.time_zone()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.identity.settings.get(name).map(str::to_owned)
    }

    fn user(&self) -> &str {
        &self.identity.user
    }

    fn database(&self) -> &str {
        &self.identity.database
    }

    fn schema(&self) -> &str {
        "public"
    }

    fn process(&self) -> i32 {
        self.identity.process
    }

    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32> {
        crate::catalogue::system::object_number(self.shared, self.view, kind, name)
    }

    fn object_name(&self, kind: BaseType, number: u32) -> Option<String> {
        crate::catalogue::system::object_name(self.shared, self.view, kind, number)
    }

    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        crate::catalogue::system::ask(self.shared, self.view, self.identity, function, arguments)
    }

    fn catalogue_rows(&self, table: &str) -> Result<Vec<Vec<Datum>>> {
        crate::catalogue::system::rows(self.shared, self.view, self.identity, table)
    }

    fn sequence(&self, function: &str, _arguments: &[Datum]) -> Result<Datum> {
        let _ = self.last_numbers;
        let what = format!("{function} is not supported yet");
        Err(SqlError::unsupported(what, "Use an identity column."))
    }
}

/// What values as text depend on, between statements.
pub(super) struct OutputEnvironment {
    pub(super) identity: Identity,
    pub(super) shared: Arc<Shared>,
    pub(super) snapshot: RowSnapshot,
}

impl OutputEnvironment {
    fn with<R>(&self, ask: impl FnOnce(&StatementEnvironment<'_>) -> R) -> R {
        let last_numbers = RefCell::default();
        ask(&StatementEnvironment {
            identity: &self.identity,
            shared: &self.shared,
            view: View::Snapshot(&self.snapshot),
            last_numbers: &last_numbers,
        })
    }
}

impl Environment for OutputEnvironment {
    fn transaction_time(&self) -> Timestamp {
        self.identity.transaction_time
    }

    fn statement_time(&self) -> Timestamp {
        self.identity.statement_time
    }

    fn time_zone(&self) -> &TimeZone {
        self.identity.settings.time_zone()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.identity.settings.get(name).map(str::to_owned)
    }

    fn user(&self) -> &str {
        &self.identity.user
    }

    fn database(&self) -> &str {
        &self.identity.database
    }

    fn schema(&self) -> &str {
        "public"
    }

    fn process(&self) -> i32 {
        self.identity.process
    }

    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32> {
        self.with(|environment| environment.object_number(kind, name))
    }

    fn object_name(&self, kind: BaseType, number: u32) -> Option<String> {
        self.with(|environment| environment.object_name(kind, number))
    }

    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        self.with(|environment| environment.ask_catalogue(function, arguments))
    }

    fn catalogue_rows(&self, table: &str) -> Result<Vec<Vec<Datum>>> {
        self.with(|environment| environment.catalogue_rows(table))
    }

    fn sequence(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        self.with(|environment| environment.sequence(function, arguments))
    }
}

/// A failure that no statement of a client can cause.
pub(super) fn internal(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what)
}
