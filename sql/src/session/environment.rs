//! What a session knows before it runs anything: who it is of, and the parameters that the client gave at its start.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use quipu_rows::Timestamp;

use crate::error::Result;
use crate::functions::Environment;
use crate::session::not_yet;
use crate::types::BaseType;
use crate::types::datum::Datum;

/// Who a session is of, and its parameters, by names in lower case.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    user: String,
    database: String,
    process: i32,
    time_zone: TimeZone,
    settings: BTreeMap<String, String>,
}

impl Settings {
    pub(super) fn new(user: &str, database: &str) -> Settings {
        let (user, database) = (user.to_owned(), database.to_owned());
        Settings { user, database, process: 0, time_zone: TimeZone::UTC, settings: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(name.to_ascii_lowercase(), value.to_owned());
    }

    pub(super) fn set_process(&mut self, process: i32) {
        self.process = process;
    }
}

impl Environment for Settings {
    fn transaction_time(&self) -> Timestamp {
        Timestamp::default()
    }

    fn statement_time(&self) -> Timestamp {
        Timestamp::default()
    }

    fn time_zone(&self) -> &TimeZone {
        &self.time_zone
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(&name.to_ascii_lowercase()).cloned()
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn database(&self) -> &str {
        &self.database
    }

    fn schema(&self) -> &str {
        "public"
    }

    fn process(&self) -> i32 {
        self.process
    }

    fn object_number(&self, _kind: BaseType, _name: &str) -> Result<u32> {
        Err(not_yet())
    }

    fn object_name(&self, _kind: BaseType, _number: u32) -> Option<String> {
        None
    }

    fn ask_catalogue(&self, _function: &str, _arguments: &[Datum]) -> Result<Datum> {
        Err(not_yet())
    }

    fn sequence(&self, _function: &str, _arguments: &[Datum]) -> Result<Datum> {
        Err(not_yet())
    }
}
