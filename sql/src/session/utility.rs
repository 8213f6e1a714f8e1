//! Statements that neither read nor write rows: of transactions, prepared statements, notifications and the like. Those
//! of settings, cursors and definitions go to the files of these.

use std::sync::Arc;

use sqlparser::ast;

use crate::alteration::Change;
use crate::bind::merge::{bind_change, bind_several, changes_rows};
use crate::bind::{Binder, folded, object_name};
use crate::catalogue::lookup::Lookup;
use crate::catalogue::roles::{self, is_about_roles};
use crate::ddl;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::explain::explain;
use crate::execute::view::View;
use crate::notifications::shortened;
use crate::plan::action::Action;
use crate::plan::query::OutputColumn;
use crate::session::copy::Written;
use crate::session::cursors::cursor_named;
use crate::session::evaluator::Values;
use crate::session::explain_options::{self, ExplainOptions};
use crate::session::extensions;
use crate::session::materialized;
use crate::session::parameters::{show_name, tell_changed};
use crate::session::prepare::with_view;
use crate::session::tables;
use crate::session::{Portal, PortalState, Prepared, Progress, Session, Sink};
use crate::statement::Statement;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

fn text_column(name: &str) -> Vec<OutputColumn> {
    vec![OutputColumn { name: name.to_owned(), sql_type: SqlType::TEXT, origin: None }]
}

pub(super) fn done(tag: &str) -> Result<Option<Progress>> {
    Ok(Some(Progress::Done(tag.to_owned())))
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
                bind_explained(explained, binder)?;
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
                let columns = self.cursors.get(&folded(name)).and_then(|cursor| cursor.prepared().columns.as_ref());
                columns.map(|columns| columns.iter().map(output_column).collect())
            }
            _ => None,
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
        let Some(statement) = &prepared.statement else { return Ok(Some(Progress::Empty)) };
        let Statement { tree, text, alteration, is_deferrable, copy_condition, is_overriding, .. } = statement;
        if let Some(alteration) = alteration {
            return match alteration.changes[..] {
                [Change::Refresh(refresh)] => materialized::refresh(self, &alteration.name, refresh, is_alone, sink),
                [Change::Checkpoint] => {
                    self.shared.database.db().checkpoint()?;
                    done("CHECKPOINT")
                }
                _ => self.alter_definitions(alteration, text, is_alone, sink),
            };
        }
        match tree {
            ast::Statement::StartTransaction { modes, begin, .. } => {
                start_transaction(self, modes, *is_deferrable, sink)?;
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
            ast::Statement::Reset(ast::ResetStatement { reset }) => reset_named(self, reset, sink),
            ast::Statement::ShowVariable { variable } => self.show(&show_name(variable), portal),
            ast::Statement::Discard { object_type } => self.discard(*object_type, sink),
            ast::Statement::Prepare { name, data_types, statement } => {
                let inner = Statement { is_overriding: *is_overriding, ..Statement::of_tree((**statement).clone()) };
                self.prepare_named(&folded(name), data_types, inner, text)?;
                done("PREPARE")
            }
            ast::Statement::Execute { name: Some(name), parameters, .. } => {
                let name = object_name(name)?.1;
                self.execute_named(&name, parameters, portal, is_alone, sink)
            }
            ast::Statement::Deallocate { name, .. } => deallocate(self, name),
            ast::Statement::Declare { stmts } => self.declare(stmts, text, portal, sink),
            ast::Statement::Fetch { name, direction, into, .. } => {
                let fetched = self.fetch(&folded(name), direction, portal, sink)?;
                match &mut portal.state {
                    PortalState::Ready(rows, _) if into.is_some() => {
                        let count = rows.len();
                        portal.state = PortalState::Done;
                        Ok(Some(Progress::Done(format!("MOVE {count}"))))
                    }
                    _ => Ok(fetched),
                }
            }
            ast::Statement::Close { cursor } => close_cursors(self, cursor),
            ast::Statement::Explain { statement, .. } => {
                let explained =
                    Statement { is_overriding: *is_overriding, ..Statement::of_tree((**statement).clone()) };
                self.explain(explained, explain_options::of(tree)?, portal, is_alone, sink)
            }
            ast::Statement::Copy { source, to, target, options, legacy_options, .. } => {
                let condition = copy_condition.as_deref();
                let written = Written { source, to: *to, target, options, legacy: legacy_options, condition };
                self.copy(&written, is_alone, sink)
            }
            ast::Statement::Vacuum(_) => done("VACUUM"),
            ast::Statement::Analyze(_) => done("ANALYZE"),
            ast::Statement::LISTEN { .. } | ast::Statement::UNLISTEN { .. } | ast::Statement::NOTIFY { .. } => {
                if !is_alone && self.open.is_none() {
                    // It takes effect with the statements beside it, or not at all.
                    self.begin(true, &[])?;
                }
                listen_or_notify(self, tree)
            }
            other => define(self, other, is_alone, sink),
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

    fn prepare_named(&mut self, name: &str, types: &[ast::DataType], statement: Statement, whole: &str) -> Result<()> {
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
        let (prepared, values) = with_values(self, name, parameters, &portal.parameters)?;
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

    // --- EXPLAIN ----------------------------------------------------------------------------------------------------

    fn explain(
        &mut self,
        explained: Statement,
        options: ExplainOptions,
        portal: &mut Portal,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.begin_statement()?;
        let (statement, parameters, types) = match &explained.tree {
            ast::Statement::Execute { name: Some(name), parameters, .. } => {
                let name = object_name(name)?.1;
                let (prepared, values) = with_values(self, &name, parameters, &portal.parameters)?;
                let statement = prepared.statement.clone().ok_or_else(|| no_statement(&name))?;
                (statement, values, prepared.parameters.clone())
            }
            tree => {
                let query = query_of(tree).map(|query| ast::Statement::Query(Box::new(query.clone())));
                let statement = query.map_or_else(|| explained.clone(), Statement::of_tree);
                (statement, portal.parameters.clone(), portal.prepared.parameters.clone())
            }
        };
        let types: Vec<Option<SqlType>> = types.into_iter().map(Some).collect();
        let named = portal.prepared.snapshot(&self.shared.snapshots)?;
        let snapshot = named.clone().unwrap_or_else(|| self.shared.database.snapshot());
        let view = match &self.open {
            Some(open) if named.is_none() => View::Transaction(&open.transaction),
            _ => View::Snapshot(&snapshot),
        };
        let prepared = Arc::new(self.bind_over(view, statement, &types)?);
        let creates = matches!(explained.tree, ast::Statement::CreateTable(_) | ast::Statement::CreateView(_));
        let changes = creates || !matches!(prepared.action, Action::Query(_));
        let environment = self.statement_environment(view);
        let running = Running::new(self.limits());
        let context = Context {
            view,
            environment: &environment,
            parameters: &parameters,
            arguments: &[],
            state: &running,
            locker: &NoLocks,
        };
        let mut plan = explain(&prepared.action, options.is_run && !changes, &context)?;
        if self.open.is_none() {
            self.seen.note(self.shared.database.db());
        }
        if options.is_run && changes {
            let began = crate::clock::moment();
            let done = if creates {
                define(self, &explained.tree, is_alone, sink)?
            } else {
                let mut inner = self.bind(&prepared, parameters)?;
                Some(self.run(&mut inner, None, is_alone, &mut Unseen(sink))?)
            };
            if let Some(Progress::Done(tag)) = done {
                let rows = tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()).unwrap_or(0);
                plan.note_run(rows, began.elapsed());
            }
        }
        let rows: Vec<Vec<Datum>> = match options.is_json {
            true => vec![vec![Datum::Json(plan.json().into())]],
            false => plan.lines().into_iter().map(|line| vec![Datum::text(line)]).collect(),
        };
        portal.state = PortalState::Ready(rows.into_iter(), "EXPLAIN".to_owned());
        Ok(None)
    }
}

/// Takes the rows of a statement that is explained, which are not shown.
struct Unseen<'s>(&'s mut dyn Sink);

impl Sink for Unseen<'_> {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) {
        self.0.notice(notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        self.0.setting_changed(name, value);
    }
}

/// The query that a statement runs which is neither a query nor a change of rows.
fn query_of(statement: &ast::Statement) -> Option<&ast::Query> {
    match statement {
        ast::Statement::CreateTable(create) => create.query.as_deref(),
        ast::Statement::CreateView(create) if create.materialized => Some(&create.query),
        ast::Statement::Declare { stmts } => stmts.first()?.for_query.as_deref(),
        _ => None,
    }
}

/// Binds a statement that is explained, for the types of its parameters.
fn bind_explained(statement: &ast::Statement, binder: &mut Binder<'_>) -> Result<()> {
    match (statement, query_of(statement)) {
        // It has been bound, and its parameters stand for themselves.
        (ast::Statement::Execute { .. }, _) => Ok(()),
        (ast::Statement::Query(query), _) if changes_rows(query) => bind_several(binder, query, true).map(drop),
        (ast::Statement::Query(query), _) => binder.query(query).map(drop),
        (_, Some(query)) => binder.query(query).map(drop),
        (
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_),
            _,
        ) => bind_change(binder, statement, true).map(drop),
        _ => {
            let what = "EXPLAIN takes SELECT, INSERT, UPDATE, DELETE and MERGE";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
        }
    }
}

/// A statement of PREPARE, and the values of EXECUTE for its parameters.
fn with_values(
    session: &Session,
    name: &str,
    parameters: &[ast::Expr],
    outer: &[Datum],
) -> Result<(Arc<Prepared>, Vec<Datum>)> {
    let prepared = Arc::clone(session.named_statement(name)?);
    if parameters.len() != prepared.parameters.len() {
        let what = format!("wrong number of parameters for prepared statement \"{name}\"");
        let (given, wanted) = (parameters.len(), prepared.parameters.len());
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what)
            .with_detail(format!("Expected {wanted} parameters but got {given}.")));
    }
    let mut values = Vec::new();
    for (written, to) in parameters.iter().zip(&prepared.parameters) {
        values.push(session.value_of(written, *to, outer)?);
    }
    Ok((prepared, values))
}

/// What changes definitions, or locks tables; an error for statements that are not there.
fn define(
    session: &mut Session,
    tree: &ast::Statement,
    is_alone: bool,
    sink: &mut dyn Sink,
) -> Result<Option<Progress>> {
    match tree {
        ast::Statement::Lock(lock) => {
            tables::lock_tables(session, lock)?;
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
            session.create_table_as(create, is_alone, sink)
        }
        ast::Statement::CreateView(create) if create.materialized => {
            materialized::create(session, create, is_alone, sink)
        }
        ast::Statement::CreateIndex(create) if tables::is_built_outside(session, create, is_alone)? => {
            tables::index_outside(session, create, sink)
        }
        statement if ddl::is_ddl(statement) => session.change_definitions(statement, is_alone, sink),
        other => {
            let what = format!("the statement is not supported: {}", first_words(&other.to_string()));
            Err(SqlError::unsupported(what, "docs/sql.md has the statements that are."))
        }
    }
}

/// BEGIN and START TRANSACTION.
fn start_transaction(
    session: &mut Session,
    modes: &[ast::TransactionMode],
    is_deferrable: Option<bool>,
    sink: &mut dyn Sink,
) -> Result<()> {
    match &mut session.open {
        Some(open) if open.is_implicit => {
            open.is_implicit = false;
            session.set_transaction(modes)?;
            session.set_deferrable(is_deferrable)
        }
        Some(_) => {
            let what = "there is already a transaction in progress";
            sink.notice(&SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
            Ok(())
        }
        None => {
            session.begin(false, modes)?;
            session.set_deferrable(is_deferrable)
        }
    }
}

/// RESET. That of a role has nothing to do.
fn reset_named(session: &mut Session, reset: &ast::Reset, sink: &mut dyn Sink) -> Result<Option<Progress>> {
    let name = match reset {
        ast::Reset::ALL => None,
        ast::Reset::ConfigurationParameter(name)
            if ["role", "session_authorization"].contains(&&*name.to_string().to_lowercase()) =>
        {
            return done("RESET");
        }
        ast::Reset::ConfigurationParameter(name) => Some(name.to_string()),
    };
    session.reset(name.as_deref(), sink)?;
    done("RESET")
}

fn deallocate(session: &mut Session, name: &ast::Ident) -> Result<Option<Progress>> {
    if name.value.eq_ignore_ascii_case("all") && name.quote_style.is_none() {
        session.named.clear();
        session.identity.kept.lists().statements.clear();
        return done("DEALLOCATE ALL");
    }
    let name = folded(name);
    if session.named.remove(&name).is_none() {
        return Err(no_statement(&name));
    }
    session.forget_statement(&name);
    done("DEALLOCATE")
}

fn close_cursors(session: &mut Session, cursor: &ast::CloseCursor) -> Result<Option<Progress>> {
    match cursor {
        ast::CloseCursor::All => {
            session.cursors.clear();
            session.identity.kept.lists().cursors.clear();
            done("CLOSE CURSOR ALL")
        }
        ast::CloseCursor::Specific { name } => {
            let name = folded(name);
            cursor_named(&session.cursors, &name)?;
            session.cursors.remove(&name);
            session.identity.kept.lists().cursors.remove(&name);
            done("CLOSE CURSOR")
        }
    }
}

/// LISTEN, UNLISTEN and NOTIFY.
fn listen_or_notify(session: &mut Session, statement: &ast::Statement) -> Result<Option<Progress>> {
    let pending = &mut session.changes.get_mut().pending;
    match statement {
        ast::Statement::LISTEN { channel } => {
            pending.listen(&session.identity.mailbox, &folded(channel))?;
            done("LISTEN")
        }
        ast::Statement::UNLISTEN { channel } => {
            let is_all = channel.quote_style.is_none() && channel.value == "*";
            pending.unlisten((!is_all).then(|| folded(channel)).as_deref());
            done("UNLISTEN")
        }
        ast::Statement::NOTIFY { channel, payload } => {
            pending.notify(&shortened(&folded(channel)), payload.as_deref().unwrap_or_default())?;
            done("NOTIFY")
        }
        _ => Ok(None),
    }
}

fn output_column(column: &crate::session::ResultColumn) -> OutputColumn {
    OutputColumn { name: column.name.clone(), sql_type: column.sql_type, origin: None }
}

fn no_statement(name: &str) -> SqlError {
    let what = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
}

/// What a statement begins with, for messages.
pub(super) fn first_words(text: &str) -> String {
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
