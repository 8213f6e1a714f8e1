//! Statements read, and bound again when the catalogue has changed.

use std::sync::Arc;

use quipu_rows::RowSnapshot;
use sqlparser::ast;

use crate::bind::change::BoundChange;
use crate::bind::merge::{bind_change, bind_several, changes_rows};
use crate::bind::{Binder, cursors, folded};
use crate::catalogue::Version;
use crate::catalogue::lookup::Lookup;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::plan::action::Action;
use crate::plan::query::OutputColumn;
use crate::session::Session;
use crate::session::answer::ResultColumn;
use crate::session::environment::StatementEnvironment;
use crate::session::portal::{Portal, PortalState, Prepared};
use crate::statement;
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// Statements that are kept by their texts.
const RECENT_MAX: usize = 64;
/// The longest text that is kept.
const RECENT_TEXT_MAX: usize = 4_096;

impl Session {
    /// The statements of a text, which are separated by semicolons. More than one of them are one transaction unless
    /// they say otherwise. Each is bound when it is its turn, since those before it may create what it names.
    ///
    /// # Errors
    /// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR), with its place.
    pub fn parse(&mut self, text: &str) -> Result<Vec<Statement>> {
        statement::parse(text).inspect_err(|_| self.fail_transaction())
    }

    /// Binds a statement that was read; `types` says those of its first parameters.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn prepare_parsed(&mut self, statement: Statement, types: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        self.bind_statement(Some(statement), types).map(Arc::new).inspect_err(|_| self.fail_transaction())
    }

    /// Reads one statement; `types` says those of its first parameters, as far as the client knows them.
    ///
    /// # Errors
    /// Those of its text: syntax, names, types.
    pub fn prepare(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        let known = self.recent.iter().position(|known| *known.text == *text && known.given == types);
        if let Some(at) = known {
            let prepared = self.recent.remove(at);
            if self.is_fresh_now(&prepared)? {
                self.recent.push(Arc::clone(&prepared));
                return Ok(prepared);
            }
        }
        let mut statements = self.parse(text)?;
        if statements.len() > 1 {
            self.fail_transaction();
            let what = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        let mut prepared = self.bind_statement(statements.pop(), types).inspect_err(|_| self.fail_transaction())?;
        prepared.text = text.into();
        let prepared = Arc::new(prepared);
        if text.len() <= RECENT_TEXT_MAX && !prepared.is_dated && !matches!(prepared.action, Action::Utility) {
            if self.recent.len() >= RECENT_MAX {
                self.recent.remove(0);
            }
            self.recent.push(Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    /// Binds a statement over the catalogue as the session sees it now: at read committed, with what others have
    /// committed.
    fn bind_statement(&mut self, statement: Option<Statement>, types: &[Option<SqlType>]) -> Result<Prepared> {
        let Some(statement) = statement else {
            return Ok(Prepared {
                text: "".into(),
                parameters: Vec::new(),
                columns: None,
                statement: None,
                action: Action::Empty,
                version: Version::default(),
                path: self.identity.settings.search_path().into(),
                rights: self.identity.rights.version(),
                is_dated: false,
                given: types.to_vec(),
                keys: Vec::new(),
            });
        };
        self.refuse_failed(&statement.tree)?;
        if let Some(name) = &statement.snapshot {
            let can_read = match &statement.tree {
                ast::Statement::Query(query) => !changes_rows(query),
                ast::Statement::Explain { .. } => true,
                _ => false,
            };
            if !can_read {
                let hint = "Read it in a transaction that begins with SET TRANSACTION SNAPSHOT.";
                return Err(SqlError::unsupported("AS OF SNAPSHOT is of SELECT and EXPLAIN alone", hint));
            }
            let snapshot = self.shared.snapshots.find(name)?;
            return self.bind_over(View::Snapshot(&snapshot), statement, types);
        }
        // The end of a transaction is not kept from it by what others have done.
        if matches!(
            statement.tree,
            ast::Statement::Query(_)
                | ast::Statement::Insert(_)
                | ast::Statement::Update(_)
                | ast::Statement::Delete(_)
                | ast::Statement::Merge(_)
                | ast::Statement::Copy { .. }
                | ast::Statement::Declare { .. }
        ) {
            self.begin_statement()?;
        }
        let is_control = matches!(
            statement.tree,
            ast::Statement::StartTransaction { .. }
                | ast::Statement::Commit { .. }
                | ast::Statement::Rollback { .. }
                | ast::Statement::Savepoint { .. }
                | ast::Statement::ReleaseSavepoint { .. }
        );
        match &self.open {
            Some(open) if !is_control => self.bind_over(View::Transaction(&open.transaction), statement, types),
            _ => {
                let snapshot = self.shared.database.snapshot();
                self.bind_over(View::Snapshot(&snapshot), statement, types)
            }
        }
    }

    /// Binds a statement over the catalogue that a view sees.
    pub(super) fn bind_over(
        &self,
        view: View<'_>,
        statement: Statement,
        types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        let catalogue = self.shared.catalogue_of(view)?;
        let (version, rights) = (catalogue.version(), self.identity.rights.version());
        let lookup = Lookup::new(view, catalogue, &self.shared.shapes, self.identity.search_path());
        let lookup = lookup.with_rights(&*self.identity.rights);
        let environment = StatementEnvironment {
            identity: &self.identity,
            shared: &self.shared,
            view,
            last_numbers: &self.last_numbers,
            cursors: None,
            affected: None,
        };
        let text: Arc<str> = statement.text.as_str().into();
        let mut binder = Binder::new(&lookup, &environment, &text, types);
        let (action, columns) = match &statement.tree {
            ast::Statement::Query(query) if changes_rows(query) => {
                let BoundChange { change, columns } = bind_several(&mut binder, query)?;
                (Action::Several(Box::new(change)), columns)
            }
            ast::Statement::Query(query) => {
                let bound = binder.query(query)?;
                (Action::Query(Box::new(bound.query)), Some(bound.columns))
            }
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_) => {
                let BoundChange { change, columns } = bind_change(&mut binder, &statement.tree)?;
                (Action::Change(change), columns)
            }
            other => (Action::Utility, self.utility_columns(other, &mut binder)?),
        };
        let is_dated = binder.is_dated();
        let parameters = binder.parameters.types()?;
        let columns: Option<Vec<_>> = columns.map(|columns| columns.into_iter().map(result_column).collect());
        let (mut action, mut keys) = (action, Vec::new());
        if let (true, ast::Statement::Query(query)) = (statement.is_of_cursor, &statement.tree)
            && let Some((with, found)) = cursors::with_keys(&lookup, query, columns.as_ref().map_or(0, Vec::len))?
            && let Ok(bound) = Binder::new(&lookup, &environment, &text, types).query(&with)
        {
            (action, keys) = (Action::Query(Box::new(bound.query)), found);
        }
        Ok(Prepared {
            text,
            parameters,
            columns,
            statement: Some(statement),
            action,
            version,
            path: self.identity.settings.search_path().into(),
            rights,
            is_dated,
            given: types.to_vec(),
            keys,
        })
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

    pub(super) fn view_of<'v>(&'v self, snapshot: Option<&'v RowSnapshot>) -> Result<View<'v>> {
        match (snapshot, &self.open) {
            (Some(snapshot), _) => Ok(View::Snapshot(snapshot)),
            (None, Some(open)) => Ok(View::Transaction(&open.transaction)),
            (None, None) => Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, "the transaction of the portal is over")),
        }
    }

    pub(super) fn fresh_for(
        &mut self,
        prepared: &Arc<Prepared>,
        snapshot: Option<&RowSnapshot>,
    ) -> Result<Arc<Prepared>> {
        let is_fresh = self.is_fresh(prepared, self.view_of(snapshot)?)?;
        if is_fresh { Ok(Arc::clone(prepared)) } else { self.bind_again(prepared) }
    }

    /// A FETCH with the columns of its cursor, if that is another one than when it was prepared.
    pub(super) fn fetched(&self, prepared: &Prepared) -> Option<Arc<Prepared>> {
        let Some(ast::Statement::Fetch { name, into: None, .. }) = prepared.statement.as_ref().map(|known| &known.tree)
        else {
            return None;
        };
        let columns = &self.cursors.get(&folded(name))?.prepared().columns;
        let fetched = || Prepared {
            text: Arc::clone(&prepared.text),
            parameters: prepared.parameters.clone(),
            columns: columns.clone(),
            statement: prepared.statement.clone(),
            action: Action::Utility,
            version: prepared.version,
            rights: self.identity.rights.version(),
            path: Arc::clone(&prepared.path),
            is_dated: prepared.is_dated,
            given: prepared.given.clone(),
            keys: Vec::new(),
        };
        (*columns != prepared.columns).then(|| Arc::new(fetched()))
    }

    /// Whether a statement was bound over the catalogue that the session sees now.
    fn is_fresh_now(&self, prepared: &Prepared) -> Result<bool> {
        match &self.open {
            Some(open) => self.is_fresh(prepared, View::Transaction(&open.transaction)),
            None => self.is_fresh(prepared, View::Snapshot(&self.shared.database.snapshot())),
        }
    }

    /// Whether a statement was bound over the catalogue that a view sees, and names and rights were then what they are
    /// now.
    pub(super) fn is_fresh(&self, prepared: &Prepared, view: View<'_>) -> Result<bool> {
        if *prepared.path != *self.identity.settings.search_path() || prepared.rights != self.identity.rights.version()
        {
            return Ok(false);
        }
        let version = match view {
            View::Snapshot(snapshot) => self.shared.catalogues.version_of_snapshot(snapshot)?,
            View::Transaction(transaction) => self.shared.catalogues.version_of(transaction)?,
            View::Nothing => return Ok(true),
        };
        Ok(version == prepared.version)
    }

    /// The same statement over the present catalogue.
    ///
    /// # Errors
    /// Those of binding; [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) if its result has other columns.
    pub(super) fn bind_again(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        let types: Vec<Option<SqlType>> = prepared.parameters.iter().copied().map(Some).collect();
        let mut again = self.bind_statement(prepared.statement.clone(), &types)?;
        if !has_same_columns(&again, prepared) {
            let what = "cached plan must not change result type";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        again.given.clone_from(&prepared.given);
        again.text = Arc::clone(&prepared.text);
        let again = Arc::new(again);
        for known in &mut self.recent {
            if Arc::ptr_eq(known, prepared) {
                *known = Arc::clone(&again);
            }
        }
        Ok(again)
    }
}

/// Whether the results of two statements have columns of the same names and types, of whatever tables.
fn has_same_columns(a: &Prepared, b: &Prepared) -> bool {
    match (&a.columns, &b.columns) {
        (Some(a), Some(b)) => {
            let is_same = |(a, b): (&ResultColumn, &ResultColumn)| a.name == b.name && a.sql_type == b.sql_type;
            a.len() == b.len() && a.iter().zip(b).all(is_same)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

pub(super) fn result_column(column: OutputColumn) -> ResultColumn {
    let (table, number) = column.origin.unwrap_or((0, 0));
    ResultColumn { name: column.name, sql_type: column.sql_type, table, column: number }
}

/// Does something with what the session sees now: its transaction, or what has been committed.
pub(super) fn with_view<R>(session: &Session, work: impl FnOnce(View<'_>) -> R) -> R {
    match &session.open {
        Some(open) => work(View::Transaction(&open.transaction)),
        None => work(View::Snapshot(&session.shared.database.snapshot())),
    }
}

/// The type of a number, as the protocol has it: of a parameter.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT), and those of reading the catalogue.
pub fn type_of_oid(session: &Session, oid: u32) -> Result<SqlType> {
    let known = match SqlType::of_oid(oid) {
        Some(known) => Some(known),
        None => with_view(session, |view| session.shared.catalogue_of(view))?.type_of_oid(oid),
    };
    known.ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
            .with_hint("Leave the type of the parameter open, and cast it in the statement.")
    })
}
