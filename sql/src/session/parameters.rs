//! SET, RESET and SHOW.

use std::sync::Arc;

use quipu_rows::Deferral;
use sqlparser::ast;

use crate::catalogue::Catalogue;
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::functions::strings::quote_identifier;
use crate::identity::settings::Settings;
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};
use crate::session::open_transaction::OpenTransaction;
use crate::session::portal::{Portal, PortalState};
use crate::types::datum::Datum;

/// Tells which parameters have come back to what they were earlier.
pub(super) fn tell_changed(before: &Settings, now: &Settings, sink: &mut dyn Sink) {
    for (name, value) in now.reported() {
        if before.get(name) != Some(value) {
            sink.setting_changed(name, value);
        }
    }
}

impl Session {
    fn set_one(&mut self, name: &str, value: &str, sink: &mut dyn Sink) -> Result<()> {
        let settings = Arc::make_mut(&mut self.identity.settings);
        if let Some(name) = settings.set(name, value)? {
            sink.setting_changed(name, settings.get(name).unwrap_or_default());
        }
        if self.open.is_none() {
            Settings::show_defaults(&mut self.identity.settings);
        }
        Ok(())
    }

    pub(super) fn set(
        &mut self,
        set: &ast::Set,
        is_deferrable: Option<bool>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        match set {
            ast::Set::SingleAssignment { scope, variable, values, .. } => {
                let name = variable.to_string();
                if name.eq_ignore_ascii_case("constraints") {
                    let words: Vec<String> = values.iter().map(setting_text).collect();
                    return set_constraints(self, &words, sink);
                }
                let is_local = matches!(scope, Some(ast::ContextModifier::Local));
                if !note_where(self.open.as_mut(), &self.identity.settings, &name, is_local, sink) {
                    return done("SET");
                }
                self.set_one(&name, &setting_of(&name, values), sink)?;
            }
            ast::Set::SetTimeZone { local, value } => {
                if !note_where(self.open.as_mut(), &self.identity.settings, "TimeZone", *local, sink) {
                    return done("SET");
                }
                let zone = setting_text(value);
                let zone = if zone.eq_ignore_ascii_case("local") { "default".to_owned() } else { zone };
                self.set_one("TimeZone", &zone, sink)?;
            }
            ast::Set::SetNames { charset_name, .. } => {
                note_where(self.open.as_mut(), &self.identity.settings, "client_encoding", false, sink);
                self.set_one("client_encoding", &charset_name.value, sink)?;
            }
            ast::Set::SetNamesDefault {} => {
                note_where(self.open.as_mut(), &self.identity.settings, "client_encoding", false, sink);
                self.set_one("client_encoding", "default", sink)?;
            }
            ast::Set::SetTransaction { modes, snapshot: None, session: false } => {
                self.set_transaction(modes)?;
                self.set_deferrable(is_deferrable)?;
            }
            ast::Set::SetTransaction { snapshot: Some(name), session: false, .. } => match &name.value {
                ast::Value::SingleQuotedString(name) => {
                    let shared = Arc::clone(&self.shared);
                    self.open_block("SET TRANSACTION SNAPSHOT")?.import_snapshot(name, &shared)?;
                }
                other => {
                    let what = format!("syntax error at or near \"{other}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
                }
            },
            ast::Set::SetTransaction { modes, snapshot: None, session: true } => {
                if let Some(is_deferrable) = is_deferrable {
                    let word = if is_deferrable { "on" } else { "off" };
                    self.set_one("default_transaction_deferrable", word, sink)?;
                }
                for mode in modes {
                    match mode {
                        ast::TransactionMode::IsolationLevel(level) => {
                            let level = level.to_string().to_lowercase();
                            self.set_one("default_transaction_isolation", &level, sink)?;
                        }
                        ast::TransactionMode::AccessMode(access) => {
                            let is_read_only = matches!(access, ast::TransactionAccessMode::ReadOnly);
                            let word = if is_read_only { "on" } else { "off" };
                            self.set_one("default_transaction_read_only", word, sink)?;
                        }
                    }
                }
            }
            other => {
                let what = format!("SET is not supported in this form: {other}");
                return Err(SqlError::unsupported(what, "Write SET name = value."));
            }
        }
        done("SET")
    }

    pub(super) fn reset(&mut self, name: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
        let settings = Arc::make_mut(&mut self.identity.settings);
        let told = settings.reset(name)?;
        if let Some(open) = &mut self.open {
            open.local_settings.forget(name);
        }
        for name in told {
            sink.setting_changed(name, settings.get(name).unwrap_or_default());
        }
        Ok(())
    }

    pub(super) fn shown_name<'n>(&'n self, name: &'n str) -> &'n str {
        let all = self.identity.settings.all();
        all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(name, |(known, _)| known)
    }

    pub(super) fn show(&mut self, name: &str, portal: &mut Portal) -> Result<Option<Progress>> {
        let rows = if name == "all" {
            let all = self.identity.settings.all().iter();
            all.map(|(name, value)| vec![Datum::text(name), Datum::text(value), Datum::text("")]).collect()
        } else {
            let Some(value) = self.identity.settings.get(name) else {
                let what = format!("unrecognized configuration parameter \"{name}\"");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
            };
            vec![vec![Datum::text(value)]]
        };
        portal.state = PortalState::Ready(rows.into(), "SHOW".to_owned());
        Ok(None)
    }
}

/// SET CONSTRAINTS: names, or ALL, and when.
fn set_constraints(session: &Session, words: &[String], sink: &mut dyn Sink) -> Result<Option<Progress>> {
    let Some((when, names)) = words.split_last() else { return done("SET CONSTRAINTS") };
    let is_deferred = match &when.to_lowercase()[..] {
        "deferred" => true,
        "immediate" => false,
        other => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\"")));
        }
    };
    let is_all = matches!(names, [all] if all.eq_ignore_ascii_case("all"));
    let snapshot = session.shared.database.snapshot();
    let catalogue = match &session.open {
        Some(open) => session.shared.catalogue_of(View::Transaction(&open.transaction))?,
        None => session.shared.catalogue_of(View::Snapshot(&snapshot))?,
    };
    for name in names.iter().filter(|_| !is_all) {
        let found = deferrals(&catalogue, name);
        if found.is_empty() {
            let what = format!("constraint \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
        }
        if !found.iter().any(|deferral| *deferral != Deferral::Never) {
            let what = format!("constraint \"{name}\" is not deferrable");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
    }
    match &session.open {
        Some(open) => {
            open.has_written.set(true);
            open.transaction.defer_constraints(Some(names).filter(|_| !is_all), is_deferred)?;
        }
        None => {
            let what = "SET CONSTRAINTS can only be used in transaction blocks";
            sink.notice(&SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
    }
    done("SET CONSTRAINTS")
}

/// Whether each constraint of a name can be deferred.
fn deferrals(catalogue: &Catalogue, name: &str) -> Vec<Deferral> {
    let mut found = Vec::new();
    for table in catalogue.tables().values() {
        let keys = table.declared.foreign_keys.iter().filter(|key| key.name == name);
        found.extend(keys.map(|key| key.deferral));
        let unique = table.declared.indexes.iter().filter(|index| index.constraint && index.name == name);
        found.extend(unique.map(|index| index.deferral));
        found.extend((table.primary_key_name().as_deref() == Some(name)).then_some(Deferral::Never));
        found.extend(table.declared.checks.iter().filter(|check| check.name == name).map(|_| Deferral::Never));
    }
    found
}

/// Notes whether a parameter is about to be set for the transaction alone, or for the session. Returns whether it is to
/// be set: there may be no transaction.
fn note_where(
    open: Option<&mut OpenTransaction>,
    settings: &Settings,
    name: &str,
    is_local: bool,
    sink: &mut dyn Sink,
) -> bool {
    match open {
        Some(open) if !is_local => open.local_settings.forget(Some(name)),
        Some(open) if !open.is_implicit => open.local_settings.note(name, settings),
        _ if is_local => {
            let what = "SET LOCAL can only be used in transaction blocks";
            sink.notice(&SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
            return false;
        }
        _ => {}
    }
    true
}

/// The name after SHOW.
pub(super) fn show_name(words: &[ast::Ident]) -> String {
    let name: Vec<String> = words.iter().map(|word| word.value.to_lowercase()).collect();
    match &name.join(" ")[..] {
        "time zone" => "TimeZone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => name.join("."),
    }
}

/// The value that a parameter is set to. In a path of schemas, each name stands in quotes if it needs them.
fn setting_of(name: &str, values: &[ast::Expr]) -> String {
    let is_path = name.eq_ignore_ascii_case("search_path");
    let text = |value: &ast::Expr| match value {
        ast::Expr::Identifier(ident) if is_path => match folded(ident) {
            name if ident.quote_style.is_none() && name == "default" => name,
            name => quote_identifier(&name),
        },
        ast::Expr::Value(_) if is_path => quote_identifier(&setting_text(value)),
        value => setting_text(value),
    };
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The value of SET as a text.
fn setting_text(written: &ast::Expr) -> String {
    match written {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => text.clone(),
            ast::Value::Boolean(value) => if *value { "on" } else { "off" }.to_owned(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}
