//! Questions of functions to the session that runs them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quipu_rows::{RowTransaction, Timestamp};

use crate::catalogue::Relation;
use crate::catalogue::lookup::may;
use crate::catalogue::names_in_rows;
use crate::catalogue::sequences::{Position, identity_of};
use crate::catalogue::system;
use crate::catalogue::system::source::Source;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::functions::Environment;
use crate::identity::Identity;
use crate::identity::rights::{Right, denied};
use crate::session::cursor::{Cursor, no_cursor};
use crate::session::function_effects::AffectedSession;
use crate::session::last_numbers::LastNumbers;
use crate::session::shared::Shared;
use crate::types::BaseType;
use crate::types::date_style::{DateStyle, IntervalStyle};
use crate::types::datum::Datum;

/// What a statement's functions ask: the session, and the catalogue as the statement sees it.
pub struct StatementEnvironment<'e> {
    pub(crate) identity: &'e Identity,
    pub(crate) shared: &'e Shared,
    pub(crate) view: View<'e>,
    pub(crate) last_numbers: &'e RefCell<LastNumbers>,
    /// The cursors of the session; none where no statement runs.
    pub(crate) cursors: Option<&'e HashMap<String, Cursor>>,
    /// What functions may change of the session; none between statements.
    pub(crate) affected: Option<AffectedSession<'e>>,
}

impl StatementEnvironment<'_> {
    fn source(&self) -> Result<Source<'_>> {
        system::source(self.shared, self.view, self.identity, self)
    }
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

    fn date_style(&self) -> DateStyle {
        let own = self.identity.settings.date_style();
        let changed = self.affected.as_ref().and_then(|session| session.setting("DateStyle"));
        changed.and_then(|text| DateStyle::parse(&text, own).ok()).unwrap_or(own)
    }

    fn interval_style(&self) -> IntervalStyle {
        let changed = self.affected.as_ref().and_then(|session| session.setting("IntervalStyle"));
        changed.map_or(self.identity.settings.interval_style(), |value| IntervalStyle::of_setting(&value))
    }

    fn float_digits(&self) -> i32 {
        self.identity.settings.float_digits()
    }

    fn escapes_bytes(&self) -> bool {
        self.identity.settings.escapes_bytes()
    }

    fn setting(&self, name: &str) -> Option<String> {
        if let Some(value) = self.affected.as_ref().and_then(|session| session.setting(name)) {
            return Some(value);
        }
        self.identity.settings.get(name).map(str::to_owned)
    }

    fn user(&self) -> &str {
        &self.identity.user
    }

    fn database(&self) -> &str {
        &self.identity.database
    }

    fn process(&self) -> i32 {
        self.identity.process
    }

    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32> {
        system::number(&self.source()?, kind, name)
    }

    fn object_name(&self, kind: BaseType, number: u32) -> Option<String> {
        system::name(&self.source().ok()?, kind, number)
    }

    fn may_read(&self, table: &str) -> bool {
        let rights = &*self.identity.rights;
        rights.has_all()
            || self.shared.catalogue_of(self.view).is_ok_and(|catalogue| {
                let (schema, name) = names_in_rows::in_sql(table, |schema| catalogue.has_schema(schema));
                may(rights, Right::Select, schema, name)
            })
    }

    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if let Some(session) = &self.affected
            && let Some(answer) = session.answer(function, arguments)?
        {
            return Ok(answer);
        }
        system::ask(&self.source()?, function, arguments)
    }

    fn catalogue_rows(&self, table: &str) -> Result<Vec<Vec<Datum>>> {
        system::rows(&self.source()?, table)
    }

    fn ask_rows(&self, function: &str, arguments: &[Datum]) -> Result<Vec<Vec<Datum>>> {
        system::ask_rows(&self.source()?, function, arguments)
    }

    fn of_cursor(&self, cursor: &str, (table, name): (&str, &str), at: usize) -> Result<Datum> {
        let known = self.cursors.and_then(|cursors| cursors.get(cursor));
        let known = known.ok_or_else(|| no_cursor(cursor))?;
        known.key_of((table, name), cursor).map(|key| key[at].clone())
    }

    fn note_number(&self, table: &Arc<str>, column: &Arc<str>, number: i64) {
        let mut last = self.last_numbers.borrow_mut();
        last.note_of_column(table, column, number);
        last.last = Some(number);
    }

    fn sequence(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if function == "lastval" {
            let last = self.last_numbers.borrow().last;
            let what = "lastval is not yet defined in this session";
            let missing = || SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what);
            return last.map(Datum::Int).ok_or_else(missing);
        }
        let name = match arguments.first() {
            Some(Datum::Text(name)) => name.to_string(),
            Some(Datum::Int(number)) => {
                let number = u32::try_from(*number).unwrap_or(0);
                self.object_name(BaseType::RegClass, number).unwrap_or_else(|| number.to_string())
            }
            _ => return Ok(Datum::Null),
        };
        let catalogue = self.shared.catalogue_of(self.view)?;
        let (schema, bare) = match name.split_once('.') {
            Some((schema, bare)) => (Some(schema.trim_matches('"')), bare.trim_matches('"')),
            None => (None, name.trim_matches('"')),
        };
        let path = self.identity.search_path();
        let Some(Relation::Sequence(number, sequence)) = catalogue.relation(schema, bare, &path) else {
            let what = format!("relation \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, what));
        };
        let needs = if function == "currval" { Right::Select } else { Right::Update };
        if !may(&*self.identity.rights, needs, &sequence.schema, &sequence.name) {
            return Err(denied(&format!("sequence {}", sequence.name)));
        }
        let sequences = self.shared.catalogues.sequences();
        let column = identity_of(&catalogue, sequence);
        let within = |work: &dyn Fn(&RowTransaction<'_>) -> Result<i64>| match self.view {
            View::Transaction(transaction) => work(transaction),
            View::Snapshot(_) | View::Nothing => {
                let own = self.shared.database.begin();
                let number = work(&own)?;
                own.commit()?;
                Ok(number)
            }
        };
        match function {
            "nextval" => {
                let next = within(&|transaction| sequences.next(transaction, &catalogue, *number, sequence))?;
                let mut last = self.last_numbers.borrow_mut();
                last.note(*number, column.as_ref(), next);
                last.last = Some(next);
                Ok(Datum::Int(next))
            }
            "currval" => self.last_numbers.borrow().of(*number, column.as_ref()).map(Datum::Int).ok_or_else(|| {
                let what = format!("currval of sequence \"{name}\" is not yet defined in this session");
                SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
            }),
            "setval" => {
                let Some(Datum::Int(value)) = arguments.get(1) else { return Ok(Datum::Null) };
                let is_called = !matches!(arguments.get(2), Some(Datum::Bool(false)));
                let position = Position { last: *value, is_called };
                within(&|transaction| {
                    sequences.set(transaction, &catalogue, (*number, sequence), position).map(|()| *value)
                })?;
                if is_called {
                    self.last_numbers.borrow_mut().note(*number, column.as_ref(), *value);
                }
                Ok(Datum::Int(*value))
            }
            _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} does not exist"))),
        }
    }
}

/// What values as text depend on, between statements.
pub(super) struct OutputEnvironment {
    pub(super) identity: Identity,
    pub(super) shared: Arc<Shared>,
}

impl OutputEnvironment {
    fn with<R>(&self, ask: impl FnOnce(&StatementEnvironment<'_>) -> R) -> R {
        let last_numbers = RefCell::default();
        let snapshot = self.shared.database.snapshot();
        ask(&StatementEnvironment {
            identity: &self.identity,
            shared: &self.shared,
            view: View::Snapshot(&snapshot),
            last_numbers: &last_numbers,
            cursors: None,
            affected: None,
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

    fn date_style(&self) -> DateStyle {
        self.identity.settings.date_style()
    }

    fn interval_style(&self) -> IntervalStyle {
        self.identity.settings.interval_style()
    }

    fn float_digits(&self) -> i32 {
        self.identity.settings.float_digits()
    }

    fn escapes_bytes(&self) -> bool {
        self.identity.settings.escapes_bytes()
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

    fn process(&self) -> i32 {
        self.identity.process
    }

    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32> {
        self.with(|environment| environment.object_number(kind, name))
    }

    fn object_name(&self, kind: BaseType, number: u32) -> Option<String> {
        self.with(|environment| environment.object_name(kind, number))
    }

    fn may_read(&self, table: &str) -> bool {
        self.with(|environment| environment.may_read(table))
    }

    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        self.with(|environment| environment.ask_catalogue(function, arguments))
    }

    fn catalogue_rows(&self, table: &str) -> Result<Vec<Vec<Datum>>> {
        self.with(|environment| environment.catalogue_rows(table))
    }

    fn ask_rows(&self, function: &str, arguments: &[Datum]) -> Result<Vec<Vec<Datum>>> {
        self.with(|environment| environment.ask_rows(function, arguments))
    }

    fn sequence(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        self.with(|environment| environment.sequence(function, arguments))
    }
}
