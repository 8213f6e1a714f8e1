//! Statements that neither read nor write rows: of transactions, settings, prepared statements and cursors; and those
//! that change definitions.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use quipu_rows::{Deferral, RowTransaction, RowView, Value};
use sqlparser::ast;

use crate::alteration::Alteration;
use crate::bind::merge::{bind_change, bind_several, changes_rows};
use crate::bind::names::{Named, Names};
use crate::bind::{Binder, condition_of_domain, folded, object_name, value_as};
use crate::catalogue::lookup::Lookup;
use crate::catalogue::names::is_temporary as is_temporary_schema;
use crate::catalogue::roles::{self, is_about_roles};
use crate::catalogue::{Catalogue, Relation, Table};
use crate::ddl::names::quoted;
use crate::ddl::{self, Evaluator};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, Locker, NoLocks, Running};
use crate::execute::explain::explain;
use crate::execute::view::View;
use crate::identity::kept::KeptCursor;
use crate::identity::settings::Settings;
use crate::limits::Limits;
use crate::notifications::shortened;
use crate::plan::action::Action;
use crate::plan::expression::Expr;
use crate::plan::query::OutputColumn;
use crate::session::copy::Written;
use crate::session::explain_options::{self, ExplainOptions};
use crate::session::extensions;
use crate::session::fetch::{Step, step_of};
use crate::session::prepare::with_view;
use crate::session::tables;
use crate::session::transaction::{Alone, OpenTransaction, attempt};
use crate::session::{Cursor, Portal, PortalState, Prepared, Progress, Session, Sink};
use crate::statement::Statement;
use crate::types::cast::{CastContext, cast};
use crate::types::datum::Datum;
use crate::types::user::TypeNames;
use crate::types::{BaseType, SqlType};

fn text_column(name: &str) -> Vec<OutputColumn> {
    vec![OutputColumn { name: name.to_owned(), sql_type: SqlType::TEXT, origin: None }]
}

fn done(tag: &str) -> Result<Option<Progress>> {
    Ok(Some(Progress::Done(tag.to_owned())))
}

/// Tells which parameters have come back to what they were earlier.
fn tell_changed(before: &Settings, now: &Settings, sink: &mut dyn Sink) {
    for (name, value) in now.reported() {
        if before.get(name) != Some(value) {
            sink.setting_changed(name, value);
        }
    }
}

impl Session {
    /// The columns of what a statement answers.
    pub(super) fn utility_columns(
        &self,
        statement: &ast::Statement,
        binder: &mut Binder<'_>,
    ) -> Result<Option<Vec<OutputColumn>>> {
        Ok(match statement {
            ast::Statement::ShowVariable { variable } => match &show_name(variable)[..] {
                "all" => {
                    let columns = ["name", "setting", "description"];
                    Some(columns.iter().flat_map(|name| text_column(name)).collect())
                }
                name => Some(text_column(self.shown_name(name))),
            },
            ast::Statement::Explain { statement: explained, .. } => {
                // Its parameters are bound with it.
                self.bind_explained(explained, binder)?;
                let mut columns = text_column("QUERY PLAN");
                if explain_options::of(statement)?.is_json {
                    columns.iter_mut().for_each(|column| column.sql_type = BaseType::Json.into());
                }
                Some(columns)
            }
            ast::Statement::Declare { stmts } => {
                for query in stmts.iter().filter_map(|declared| declared.for_query.as_ref()) {
                    // It may have parameters.
                    binder.query(query)?;
                }
                None
            }
            ast::Statement::Execute { name: Some(name), .. } => {
                let prepared = self.named_statement(&object_name(name)?.1)?;
                prepared.columns.as_ref().map(|columns| columns.iter().map(output_column).collect())
            }
            ast::Statement::Fetch { name, into: None, .. } => {
                // Of a cursor that is not there yet they are known when the statement is bound.
                let columns =
                    self.cursors.get(&folded(name)).and_then(|cursor| cursor.portal.prepared.columns.as_ref());
                columns.map(|columns| columns.iter().map(output_column).collect())
            }
            _ => None,
        })
    }

    fn bind_explained(&self, statement: &ast::Statement, binder: &mut Binder<'_>) -> Result<Action> {
        Ok(match statement {
            ast::Statement::Query(query) if changes_rows(query) => {
                Action::Several(Box::new(bind_several(binder, query, false)?.change))
            }
            ast::Statement::Query(query) => Action::Query(Box::new(binder.query(query)?.query)),
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_) => Action::Change(bind_change(binder, statement, false)?.change),
            _ => {
                let what = "EXPLAIN takes SELECT, INSERT, UPDATE, DELETE and MERGE";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
            }
        })
    }

    /// Runs such a statement. Returns none if its rows are ready in the portal.
    pub(super) fn utility(
        &mut self,
        prepared: &Arc<Prepared>,
        portal: &mut Portal,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let Some(Statement { tree, text, alteration, is_deferrable, .. }) = &prepared.statement else {
            return Ok(Some(Progress::Empty));
        };
        if let Some(alteration) = alteration {
            return self.alter_definitions(alteration, text, is_alone, sink);
        }
        let is_notifying = matches!(
            tree,
            ast::Statement::LISTEN { .. } | ast::Statement::UNLISTEN { .. } | ast::Statement::NOTIFY { .. }
        );
        if is_notifying && !is_alone && self.open.is_none() {
            // It takes effect with the statements beside it, or not at all.
            self.begin(true, &[])?;
        }
        match tree {
            ast::Statement::StartTransaction { modes, begin, .. } => {
                match &mut self.open {
                    Some(open) if open.is_implicit => {
                        open.is_implicit = false;
                        self.set_transaction(modes)?;
                        self.set_deferrable(*is_deferrable)?;
                    }
                    Some(_) => {
                        let what = "there is already a transaction in progress";
                        sink.notice(&SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
                    }
                    None => {
                        self.begin(false, modes)?;
                        self.set_deferrable(*is_deferrable)?;
                    }
                }
                done(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            ast::Statement::Commit { chain, .. } => self.end_block(true, *chain, sink),
            ast::Statement::Rollback { chain, savepoint: None } => self.end_block(false, *chain, sink),
            ast::Statement::Rollback { savepoint: Some(name), .. } => {
                let before = Arc::clone(&self.identity.settings);
                self.roll_back_to(&folded(name))?;
                tell_changed(&before, &self.identity.settings, sink);
                done("ROLLBACK")
            }
            ast::Statement::Savepoint { name } => {
                self.set_savepoint(&folded(name))?;
                done("SAVEPOINT")
            }
            ast::Statement::ReleaseSavepoint { name } => {
                self.release_savepoint(&folded(name))?;
                done("RELEASE")
            }
            statement if is_about_roles(statement) => {
                let (users, own) = (self.shared.users(&self.identity.user), &self.identity.user);
                done(roles::run(statement, &users, own, &mut |notice| sink.notice(notice))?)
            }
            ast::Statement::Set(set) => self.set(set, *is_deferrable, sink),
            ast::Statement::Reset(ast::ResetStatement { reset }) => {
                let name = match reset {
                    ast::Reset::ALL => None,
                    ast::Reset::ConfigurationParameter(name)
                        if ["role", "session_authorization"].contains(&&*name.to_string().to_lowercase()) =>
                    {
                        return done("RESET");
                    }
                    ast::Reset::ConfigurationParameter(name) => Some(name.to_string()),
                };
                self.reset(name.as_deref(), sink)?;
                done("RESET")
            }
            ast::Statement::ShowVariable { variable } => self.show(&show_name(variable), portal),
            ast::Statement::Discard { object_type } => self.discard(*object_type, sink),
            ast::Statement::Prepare { name, data_types, statement } => {
                self.prepare_named(&folded(name), data_types, statement, text)?;
                done("PREPARE")
            }
            ast::Statement::Execute { name: Some(name), parameters, .. } => {
                let name = object_name(name)?.1;
                self.execute_named(&name, parameters, portal, is_alone, sink)
            }
            ast::Statement::Deallocate { name, .. } => {
                if name.value.eq_ignore_ascii_case("all") && name.quote_style.is_none() {
                    self.named.clear();
                    self.identity.kept.lists().statements.clear();
                    return done("DEALLOCATE ALL");
                }
                let name = folded(name);
                if self.named.remove(&name).is_none() {
                    return Err(no_statement(&name));
                }
                self.forget_statement(&name);
                done("DEALLOCATE")
            }
            ast::Statement::Declare { stmts } => self.declare(stmts, text, portal, sink),
            ast::Statement::Fetch { name, direction, into, .. } => {
                let done = self.fetch(&folded(name), direction, portal, sink)?;
                match &mut portal.state {
                    PortalState::Ready(rows, _) if into.is_some() => {
                        let count = rows.len();
                        portal.state = PortalState::Done;
                        Ok(Some(Progress::Done(format!("MOVE {count}"))))
                    }
                    _ => Ok(done),
                }
            }
            ast::Statement::Close { cursor } => match cursor {
                ast::CloseCursor::All => {
                    self.cursors.clear();
                    self.identity.kept.lists().cursors.clear();
                    done("CLOSE CURSOR ALL")
                }
                ast::CloseCursor::Specific { name } => {
                    let name = folded(name);
                    cursor_named(&self.cursors, &name)?;
                    self.cursors.remove(&name);
                    self.identity.kept.lists().cursors.remove(&name);
                    done("CLOSE CURSOR")
                }
            },
            ast::Statement::Explain { statement, .. } => self.explain(statement, explain_options::of(tree)?, portal),
            ast::Statement::Copy { source, to, target, options, legacy_options, .. } => {
                let written = Written { source, to: *to, target, options, legacy: legacy_options };
                self.copy(&written, is_alone, sink)
            }
            ast::Statement::Vacuum(_) => done("VACUUM"),
            ast::Statement::Analyze(_) => done("ANALYZE"),
            ast::Statement::LISTEN { channel } => {
                let channel = folded(channel);
                self.changes.get_mut().pending.listen(&self.identity.mailbox, &channel)?;
                done("LISTEN")
            }
            ast::Statement::UNLISTEN { channel } => {
                let is_all = channel.quote_style.is_none() && channel.value == "*";
                self.changes.get_mut().pending.unlisten((!is_all).then(|| folded(channel)).as_deref());
                done("UNLISTEN")
            }
            ast::Statement::NOTIFY { channel, payload } => {
                let channel = shortened(&folded(channel));
                self.changes.get_mut().pending.notify(&channel, payload.as_deref().unwrap_or_default())?;
                done("NOTIFY")
            }
            ast::Statement::Lock(lock) => {
                tables::lock_tables(self, lock)?;
                done("LOCK TABLE")
            }
            ast::Statement::CreateExtension(create) => {
                sink.notice(&extensions::create(create)?);
                done("CREATE EXTENSION")
            }
            ast::Statement::DropExtension(dropped) => {
                extensions::drop(dropped)?.iter().for_each(|notice| sink.notice(notice));
                done("DROP EXTENSION")
            }
            ast::Statement::CreateTable(create) if create.query.is_some() => {
                self.create_table_as(create, is_alone, sink)
            }
            ast::Statement::CreateIndex(create) if tables::is_built_outside(self, create, is_alone)? => {
                tables::index_outside(self, create, sink)
            }
            statement if ddl::is_ddl(statement) => self.change_definitions(statement, is_alone, sink),
            other => {
                let what = format!("the statement is not supported: {}", first_words(&other.to_string()));
                let _ = text;
                Err(SqlError::unsupported(what, "docs/sql.md has the statements that are."))
            }
        }
    }

    /// COMMIT and ROLLBACK.
    fn end_block(&mut self, commits: bool, chains: bool, sink: &mut dyn Sink) -> Result<Option<Progress>> {
        let is_block = self.open.as_ref().is_some_and(|open| !open.is_implicit);
        if !is_block {
            let what = "there is no transaction in progress";
            sink.notice(&SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
        let has_failed = self.open.as_ref().is_some_and(|open| open.has_failed);
        let tag = if commits && !has_failed { "COMMIT" } else { "ROLLBACK" };
        let before = Arc::clone(&self.identity.settings);
        let result = match tag {
            "COMMIT" => self.commit(),
            _ => {
                self.roll_back();
                Ok(())
            }
        };
        tell_changed(&before, &self.identity.settings, sink);
        result?;
        if chains {
            self.begin(false, &[])?;
        }
        done(tag)
    }

    // --- settings ---------------------------------------------------------------------------------------------------

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

    fn set(&mut self, set: &ast::Set, is_deferrable: Option<bool>, sink: &mut dyn Sink) -> Result<Option<Progress>> {
        match set {
            ast::Set::SingleAssignment { scope, variable, values, .. } => {
                let name = variable.to_string();
                let values: Vec<String> = values.iter().map(setting_text).collect();
                if name.eq_ignore_ascii_case("constraints") {
                    return set_constraints(self, &values, sink);
                }
                if matches!(scope, Some(ast::ContextModifier::Local)) && !note_local(self.open.as_mut(), &name, sink) {
                    return done("SET");
                }
                self.set_one(&name, &values.join(", "), sink)?;
            }
            ast::Set::SetTimeZone { local, value } => {
                if *local && !note_local(self.open.as_mut(), "TimeZone", sink) {
                    return done("SET");
                }
                let zone = setting_text(value);
                let zone = if zone.eq_ignore_ascii_case("local") { "default".to_owned() } else { zone };
                self.set_one("TimeZone", &zone, sink)?;
            }
            ast::Set::SetNames { charset_name, .. } => {
                self.set_one("client_encoding", &charset_name.value, sink)?;
            }
            ast::Set::SetNamesDefault {} => self.set_one("client_encoding", "default", sink)?,
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

    fn reset(&mut self, name: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
        let settings = Arc::make_mut(&mut self.identity.settings);
        for name in settings.reset(name)? {
            sink.setting_changed(name, settings.get(name).unwrap_or_default());
        }
        Ok(())
    }

    fn shown_name<'n>(&'n self, name: &'n str) -> &'n str {
        let all = self.identity.settings.all();
        all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(name, |(known, _)| known)
    }

    fn show(&mut self, name: &str, portal: &mut Portal) -> Result<Option<Progress>> {
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
        portal.state = PortalState::Ready(Vec::into_iter(rows), "SHOW".to_owned());
        Ok(None)
    }

    fn discard(&mut self, what: ast::DiscardObject, sink: &mut dyn Sink) -> Result<Option<Progress>> {
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

    // --- prepared statements ----------------------------------------------------------------------------------------

    fn named_statement(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.named.get(name).ok_or_else(|| no_statement(name))
    }

    fn prepare_named(
        &mut self,
        name: &str,
        types: &[ast::DataType],
        statement: &ast::Statement,
        whole: &str,
    ) -> Result<()> {
        if self.named.contains_key(name) {
            let what = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, what));
        }
        let given: Vec<Option<SqlType>> = with_view(self, |view| {
            let catalogue = self.shared.catalogue_of(view)?;
            let lookup = Lookup::new(view, catalogue, &self.shared.shapes, self.identity.search_path());
            let of_lookup = |written| crate::bind::types::sql_type(written, &lookup).map(Some);
            types.iter().map(of_lookup).collect::<Result<_>>()
        })?;
        let statement = Statement::of_tree(statement.clone());
        let prepared = self.prepare_parsed(statement, &given)?;
        self.list(name, &whole.into(), &prepared, true);
        self.named.insert(name.to_owned(), prepared);
        Ok(())
    }

    fn execute_named(
        &mut self,
        name: &str,
        parameters: &[ast::Expr],
        portal: &mut Portal,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let prepared = Arc::clone(self.named_statement(name)?);
        if parameters.len() != prepared.parameters.len() {
            let what = format!("wrong number of parameters for prepared statement \"{name}\"");
            let (given, wanted) = (parameters.len(), prepared.parameters.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what)
                .with_detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let mut values = Vec::new();
        for (written, to) in parameters.iter().zip(&prepared.parameters) {
            values.push(self.value_of(written, *to, &portal.parameters)?);
        }
        let mut inner = self.bind(&prepared, values)?;
        let progress = self.run(&mut inner, Some(0), is_alone, sink)?;
        match progress {
            Progress::Suspended => {
                *portal = Portal { prepared: Arc::clone(&inner.prepared), ..inner };
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    /// The value of an expression without columns.
    fn value_of(&self, written: &ast::Expr, to: SqlType, parameters: &[Datum]) -> Result<Datum> {
        let snapshot = self.shared.database.snapshot();
        let view = match &self.open {
            Some(open) => View::Transaction(&open.transaction),
            None => View::Snapshot(&snapshot),
        };
        Values { session: self, view }.evaluate_datum(written, to, parameters, None)
    }

    // --- cursors ----------------------------------------------------------------------------------------------------

    fn declare(
        &mut self,
        declared: &[ast::Declare],
        whole: &str,
        outer: &Portal,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let [declare] = declared else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DECLARE takes one cursor"));
        };
        let (Some(name), Some(query)) = (declare.names.first(), &declare.for_query) else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DECLARE takes a name, CURSOR FOR and a query"));
        };
        let name = folded(name);
        let is_held = declare.hold == Some(true);
        if self.open.as_ref().is_none_or(|open| open.is_implicit) && !is_held {
            let what = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
        if self.cursors.contains_key(&name) {
            let what = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, what));
        }
        let statement = Statement::of_tree(ast::Statement::Query(query.clone()));
        let types: Vec<Option<SqlType>> = outer.prepared.parameters.iter().copied().map(Some).collect();
        let prepared = self.prepare_parsed(statement, &types)?;
        let mut portal = self.bind(&prepared, outer.parameters.clone())?;
        // It reads from now on, whatever is committed later. One that is held is read whole.
        let mut rows = Vec::new();
        if is_held || declare.scroll == Some(true) {
            let running = Running::new(self.limits());
            let mut collected = Collected { rows: &mut rows, running, sink };
            self.execute_within(&mut portal, None, true, &mut collected)?;
        } else {
            self.execute_within(&mut portal, Some(0), true, sink)?;
        }
        let kept = KeptCursor { text: whole.into(), declared: self.identity.statement_time, is_held };
        self.identity.kept.lists().cursors.insert(name.clone(), kept);
        let rows = match declare.scroll {
            Some(true) => Some((rows, 0)),
            _ if is_held => {
                portal.state = PortalState::Ready(rows.into_iter(), "FETCH ".to_owned());
                None
            }
            _ => None,
        };
        self.cursors.insert(name, Cursor { portal, is_held, rows });
        done("DECLARE CURSOR")
    }

    fn fetch(
        &mut self,
        name: &str,
        direction: &ast::FetchDirection,
        portal: &mut Portal,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        cursor_named(&self.cursors, name)?;
        let step = step_of(direction)?;
        if let Some((all, place)) = self.cursors.get_mut(name).and_then(|cursor| cursor.rows.as_mut()) {
            let rows: Vec<Vec<Datum>> = step.take(all.len(), place).into_iter().map(|at| all[at].clone()).collect();
            let tag = format!("FETCH {}", rows.len());
            portal.state = PortalState::Ready(rows.into_iter(), tag);
            return Ok(None);
        }
        let rows_max = match step {
            Step::Backward(_) | Step::To(_) | Step::By(_) => {
                let what = "cursor can only scan forward";
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                    .with_hint("Declare it with SCROLL option to enable backward scan."));
            }
            Step::Forward(rows_max) => rows_max,
        };
        let Some(mut cursor) = self.cursors.remove(name) else { return done("FETCH 0") };
        let mut rows = Vec::new();
        let is_over = matches!(cursor.portal.state, PortalState::Done);
        let result = if is_over || rows_max == Some(0) {
            Ok(Progress::Suspended)
        } else {
            let running = Running::new(self.limits());
            let mut collected = Collected { rows: &mut rows, running, sink };
            self.execute_within(&mut cursor.portal, rows_max, true, &mut collected)
        };
        self.cursors.insert(name.to_owned(), cursor);
        result?;
        let tag = format!("FETCH {}", rows.len());
        portal.state = PortalState::Ready(rows.into_iter(), tag);
        Ok(None)
    }

    // --- EXPLAIN ----------------------------------------------------------------------------------------------------

    fn explain(
        &mut self,
        statement: &ast::Statement,
        options: ExplainOptions,
        portal: &mut Portal,
    ) -> Result<Option<Progress>> {
        self.begin_statement()?;
        let named = portal.prepared.snapshot(&self.shared.snapshots)?;
        let snapshot = named.clone().unwrap_or_else(|| self.shared.database.snapshot());
        let view = match &self.open {
            Some(open) if named.is_none() => View::Transaction(&open.transaction),
            _ => View::Snapshot(&snapshot),
        };
        let environment = self.statement_environment(view);
        let types: Vec<Option<SqlType>> = portal.prepared.parameters.iter().copied().map(Some).collect();
        let statement = Statement::of_tree(statement.clone());
        let prepared = self.bind_over(view, statement, &types)?;
        let running = Running::new(self.limits());
        let context = Context {
            view,
            environment: &environment,
            parameters: &portal.parameters,
            arguments: &[],
            state: &running,
            locker: &NoLocks,
        };
        let explained = explain(&prepared.action, options.is_run, &context)?;
        let rows: Vec<Vec<Datum>> = match options.is_json {
            true => vec![vec![Datum::Json(explained.json().into())]],
            false => explained.lines().into_iter().map(|line| vec![Datum::text(line)]).collect(),
        };
        portal.state = PortalState::Ready(rows.into_iter(), "EXPLAIN".to_owned());
        Ok(None)
    }

    // --- definitions ------------------------------------------------------------------------------------------------

    fn change_definitions(
        &mut self,
        statement: &ast::Statement,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.refuse_read_only(&first_words(&statement.to_string()))?;
        self.prepare_for_temporary(statement)?;
        let notices = RefCell::new(Vec::new());
        let tag = self.within(is_alone, &|session, transaction, locker| {
            notices.borrow_mut().clear();
            session.run_ddl(statement, transaction, &notices, locker)
        })?;
        notices.into_inner().iter().for_each(|notice| sink.notice(notice));
        done(tag)
    }

    fn alter_definitions(
        &mut self,
        alteration: &Alteration,
        text: &str,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.refuse_read_only(&first_words(text).to_uppercase())?;
        let notices = RefCell::new(Vec::new());
        let tag = self.within(is_alone, &|session, transaction, locker| {
            notices.borrow_mut().clear();
            let alter = |context: &ddl::Context<'_>| ddl::alter(alteration, transaction, context);
            session.with_definitions(transaction, &notices, locker, &alter)
        })?;
        notices.into_inner().iter().for_each(|notice| sink.notice(notice));
        done(tag)
    }

    /// Does something with what a statement that changes definitions needs of its session.
    pub(super) fn with_definitions<R>(
        &self,
        transaction: &RowTransaction<'_>,
        notices: &RefCell<Vec<SqlError>>,
        locker: &dyn Locker,
        work: &dyn Fn(&ddl::Context<'_>) -> Result<R>,
    ) -> Result<R> {
        let evaluator = Values { session: self, view: View::Transaction(transaction) };
        work(&ddl::Context {
            catalogues: &self.shared.catalogues,
            search_path: &self.creation_path(),
            temporary_schema: &self.identity.temporary_schema,
            evaluator: &evaluator,
            locker,
            notice: &|notice| notices.borrow_mut().push(notice),
        })
    }

    /// Runs `work` in the transaction, which it begins unless the statement `is_alone`, or as the single writer.
    pub(super) fn within<R>(
        &mut self,
        is_alone: bool,
        work: &dyn Fn(&Session, &RowTransaction<'_>, &dyn Locker) -> Result<R>,
    ) -> Result<R> {
        // A commit changes temporary tables, if there are some.
        if self.open.is_none() && (!is_alone || !self.temporary.is_quiet()) {
            self.begin(true, &[])?;
        }
        self.begin_statement()?;
        let limits = self.limits();
        let result = self.within_limits(&limits, work);
        // Long work that was stopped says no more than that.
        if result.is_err() { limits.check().and(result) } else { result }
    }

    fn within_limits<R>(
        &mut self,
        limits: &Limits,
        work: &dyn Fn(&Session, &RowTransaction<'_>, &dyn Locker) -> Result<R>,
    ) -> Result<R> {
        let stop = || {
            let limits = limits.clone();
            move || limits.check().is_err()
        };
        while self.open.is_some() {
            let done = attempt(self, limits, |session, open, locker| {
                open.transaction.stop_if(stop());
                work(session, &open.transaction, locker)
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        let run = |transaction: &RowTransaction<'_>, locker: &dyn Locker| {
            transaction.stop_if(stop());
            work(self, transaction, locker).map(Alone::Done)
        };
        match self.alone(limits, run)? {
            Alone::Done(done) => Ok(done),
            Alone::BindAgain => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a definition was bound again")),
        }
    }

    pub(super) fn run_ddl(
        &self,
        statement: &ast::Statement,
        transaction: &RowTransaction<'_>,
        notices: &RefCell<Vec<SqlError>>,
        locker: &dyn Locker,
    ) -> Result<ddl::Tag> {
        let run = |context: &ddl::Context<'_>| ddl::run(statement, transaction, context);
        let tag = self.with_definitions(transaction, notices, locker, &run)?;
        if let ast::Statement::CreateTable(create) = statement
            && ddl::makes_temporary(statement)
        {
            self.note_on_commit(create, transaction)?;
        }
        Ok(tag)
    }

    /// The schemas of the search path that there are.
    fn creation_path(&self) -> Vec<String> {
        let path = self.identity.search_path();
        let snapshot = self.shared.database.snapshot();
        let Ok(catalogue) = self.shared.catalogues.of_snapshot(&snapshot) else { return path };
        path.into_iter().filter(|name| catalogue.has_schema(name)).collect()
    }

    /// The name of a new table with its schema, as a statement writes it.
    fn name_of_new(&self, name: &ast::ObjectName, is_temporary: bool) -> Result<String> {
        let name = ddl::names::qualified(name)?;
        let path = self.creation_path();
        let schema = match name.schema {
            _ if is_temporary => Some("pg_temp"),
            Some(ref schema) => Some(&**schema),
            None => path.iter().map(|schema| &**schema).find(|schema| !is_temporary_schema(schema)),
        };
        Ok(schema.map(|schema| format!("{}.", quoted(schema))).unwrap_or_default() + &quoted(&name.name))
    }

    /// CREATE TABLE AS: the table with the columns of the query, and its rows.
    fn create_table_as(
        &mut self,
        create: &ast::CreateTable,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        let of_table = ast::Statement::CreateTable(ast::CreateTable { query: None, ..create.clone() });
        let is_temporary = ddl::makes_temporary(&of_table);
        self.refuse_read_only("CREATE TABLE AS")?;
        self.prepare_for_temporary(&of_table)?;
        let Some(query) = &create.query else { return done("SELECT 0") };
        let notices = RefCell::new(Vec::new());
        let count = self.within(is_alone, &|session, transaction, locker| {
            notices.borrow_mut().clear();
            let view = View::Transaction(transaction);
            let select = Statement::of_tree(ast::Statement::Query(query.clone()));
            let prepared = session.bind_over(view, select, &[])?;
            let columns = prepared.columns.iter().flatten().enumerate().map(|(place, column)| {
                let name =
                    create.columns.get(place).map_or_else(|| quoted(&column.name), |given| given.name.to_string());
                format!("{name} {}", column.sql_type)
            });
            let exists = if create.if_not_exists { "IF NOT EXISTS " } else { "" };
            let on_commit = match create.on_commit {
                Some(ast::OnCommit::DeleteRows) => " ON COMMIT DELETE ROWS",
                Some(ast::OnCommit::Drop) => " ON COMMIT DROP",
                _ => "",
            };
            let name = session.name_of_new(&create.name, is_temporary)?;
            let columns = columns.collect::<Vec<_>>().join(", ");
            let text = format!("CREATE TABLE {exists}{name} ({columns}){on_commit}");
            let before = notices.borrow().len();
            for statement in crate::statement::parse(&text)? {
                session.run_ddl(&statement.tree, transaction, &notices, locker)?;
            }
            if notices.borrow().len() > before {
                return Ok(0);
            }
            let insert = format!("INSERT INTO {name} {query}");
            let mut count = 0;
            for statement in crate::statement::parse(&insert)? {
                let prepared = session.bind_over(view, statement, &[])?;
                let limits = session.limits();
                count = session.run_change(&prepared.action, transaction, &[], &limits, &NoLocks)?.1;
            }
            Ok(count)
        })?;
        notices.into_inner().iter().for_each(|notice| sink.notice(notice));
        done(&format!("SELECT {count}"))
    }
}

/// Computes values for rows that there are.
struct Values<'v> {
    session: &'v Session,
    view: View<'v>,
}

impl Values<'_> {
    fn evaluate_datum(
        &self,
        written: &ast::Expr,
        to: SqlType,
        parameters: &[Datum],
        row: Option<(&Table, &RowView<'_>)>,
    ) -> Result<Datum> {
        let session = self.session;
        let catalogue = session.shared.catalogue_of(self.view)?;
        let path = session.identity.search_path();
        let lookup = Lookup::new(self.view, catalogue, &session.shared.shapes, path);
        let environment = session.statement_environment(self.view);
        let text = written.to_string();
        let mut binder = Binder::new(&lookup, &environment, &text, &[]);
        let mut frame = Vec::new();
        if let Some((table, row)) = row {
            for (place, (column, declared)) in table.columns.iter().zip(&table.declared.columns).enumerate() {
                binder.add_column(&table.name, &declared.name, column.sql_type);
                frame.push(Datum::of_column(row.value(place)?, column.sql_type)?);
            }
        }
        let expr = binder.assigned_value(written, to)?;
        self.value_of(&expr, &frame, parameters)
    }

    fn value_of(&self, expr: &Expr, frame: &[Datum], parameters: &[Datum]) -> Result<Datum> {
        let environment = self.session.statement_environment(self.view);
        let running = Running::new(self.session.limits());
        let context = Context {
            view: self.view,
            environment: &environment,
            parameters,
            arguments: &[],
            state: &running,
            locker: &NoLocks,
        };
        crate::execute::evaluate::evaluate(expr, frame, &context)
    }
}

fn owned(datum: &Datum) -> Result<Value<'static>> {
    let value = datum.to_value().map(Value::into_owned);
    value.ok_or_else(|| SqlError::new(SqlState::DATATYPE_MISMATCH, "no column can hold such a value"))
}

impl Evaluator for Values<'_> {
    fn evaluate(
        &self,
        expression: &ast::Expr,
        sql_type: SqlType,
        row: Option<(&Table, &RowView<'_>)>,
    ) -> Result<Value<'static>> {
        owned(&self.evaluate_datum(expression, sql_type, &[], row)?)
    }

    fn convert(&self, value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Value<'static>> {
        let datum = Datum::of_column(value.borrowed(), from)?;
        if let BaseType::Domain(_) = to.base {
            let catalogue = self.session.shared.catalogue_of(self.view)?;
            let path = self.session.identity.search_path();
            let lookup = Lookup::new(self.view, catalogue, &self.session.shared.shapes, path);
            let environment = self.session.statement_environment(self.view);
            let expr = value_as(&mut Binder::new(&lookup, &environment, "", &[]), from, to)?;
            return owned(&self.value_of(&expr, &[datum], &[])?);
        }
        let environment = self.session.statement_environment(self.view);
        let from = from.without_domain();
        owned(&cast(datum, from, to, CastContext::Assignment, &environment)?)
    }

    fn bind_condition(&self, condition: &ast::Expr, sql_type: SqlType) -> Result<()> {
        let catalogue = self.session.shared.catalogue_of(self.view)?;
        let path = self.session.identity.search_path();
        let lookup = Lookup::new(self.view, catalogue, &self.session.shared.shapes, path);
        let environment = self.session.statement_environment(self.view);
        let text = condition.to_string();
        condition_of_domain(&mut Binder::new(&lookup, &environment, &text, &[]), condition, sql_type).map(drop)
    }

    fn columns(&self, query: &ast::Query, path: &[String]) -> Result<Vec<(String, SqlType)>> {
        let (session, catalogue) = (self.session, self.session.shared.catalogue_of(self.view)?);
        let lookup = Lookup::new(self.view, catalogue, &session.shared.shapes, path.to_vec());
        let environment = session.statement_environment(self.view);
        let bound = Binder::new(&lookup, &environment, &query.to_string(), &[]).query(query)?;
        Ok(bound.columns.into_iter().map(|column| (column.name, column.sql_type)).collect())
    }

    fn reads(&self, query: &ast::Query, path: &[String]) -> Result<Vec<(String, String)>> {
        let (session, catalogue) = (self.session, self.session.shared.catalogue_of(self.view)?);
        let lookup = Lookup::new(self.view, Arc::clone(&catalogue), &session.shared.shapes, path.to_vec());
        let names = Recorded { lookup, catalogue, path, found: RefCell::default() };
        let environment = session.statement_environment(self.view);
        Binder::new(&names, &environment, &query.to_string(), &[]).query(query)?;
        Ok(names.found.into_inner().into_iter().collect())
    }

    fn is_volatile(&self, expression: &ast::Expr) -> bool {
        let text = expression.to_string().to_lowercase();
        ["nextval", "random", "gen_random_uuid", "clock_timestamp"].iter().any(|name| text.contains(name))
    }
}

/// Names, of which those of tables, views and types are noted.
struct Recorded<'n> {
    lookup: Lookup<'n>,
    catalogue: Arc<Catalogue>,
    path: &'n [String],
    found: RefCell<BTreeSet<(String, String)>>,
}

impl TypeNames for Recorded<'_> {
    fn type_named(&self, schema: Option<&str>, name: &str) -> Option<SqlType> {
        let named = self.lookup.type_named(schema, name)?;
        if let Some(user) = named.base.user_type() {
            self.found.borrow_mut().insert((user.schema.clone(), user.name.clone()));
        }
        Some(named)
    }
}

impl Names for Recorded<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Named>> {
        let named = self.lookup.relation(schema, name)?;
        if let Some(Named::Table(_) | Named::View { .. }) = named {
            let place = match self.catalogue.relation(schema, name, self.path) {
                Some(Relation::Table(table)) => Some((&table.schema, &table.name)),
                Some(Relation::View(_, view)) => Some((&view.schema, &view.name)),
                _ => None,
            };
            self.found.borrow_mut().extend(place.map(|(schema, name)| (schema.clone(), name.clone())));
        }
        Ok(named)
    }

    fn all(&self) -> Vec<String> {
        self.lookup.all()
    }
}

/// Takes the rows of a cursor.
struct Collected<'c> {
    rows: &'c mut Vec<Vec<Datum>>,
    running: Running,
    sink: &'c mut dyn Sink,
}

impl Sink for Collected<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.running.keep(values)?;
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn copy_out(&mut self, format: crate::copy::CopyFormat, columns: usize) -> Result<()> {
        self.sink.copy_out(format, columns)
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.sink.copy_data(data)
    }

    fn notice(&mut self, notice: &SqlError) {
        self.sink.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.sink.setting_changed(name, value);
    }
}

fn output_column(column: &crate::session::ResultColumn) -> OutputColumn {
    OutputColumn { name: column.name.clone(), sql_type: column.sql_type, origin: None }
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
        let keys = catalogue.tables().values().flat_map(|table| &table.declared.foreign_keys);
        let found: Vec<Deferral> = keys.filter(|key| key.name == *name).map(|key| key.deferral).collect();
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

/// Notes that a parameter is set for the transaction alone. Returns whether there is one.
fn note_local(open: Option<&mut OpenTransaction>, name: &str, sink: &mut dyn Sink) -> bool {
    match open.filter(|open| !open.is_implicit) {
        Some(open) => open.local_settings.push(name.to_owned()),
        None => {
            let what = "SET LOCAL can only be used in transaction blocks";
            sink.notice(&SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
            return false;
        }
    }
    true
}

fn cursor_named<'c>(cursors: &'c HashMap<String, Cursor>, name: &str) -> Result<&'c Cursor> {
    cursors
        .get(name)
        .ok_or_else(|| SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
}

fn no_statement(name: &str) -> SqlError {
    let what = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
}

/// The name after SHOW.
fn show_name(words: &[ast::Ident]) -> String {
    let name: Vec<String> = words.iter().map(|word| word.value.to_lowercase()).collect();
    match &name.join(" ")[..] {
        "time zone" => "TimeZone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => name.join("."),
    }
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

/// What a statement begins with, for messages.
fn first_words(text: &str) -> String {
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
