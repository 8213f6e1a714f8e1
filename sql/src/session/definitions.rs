//! Statements that change definitions, and those that make a table of the rows of a query.

use quipu_rows::RowTransaction;
use sqlparser::ast;

use crate::alteration::Alteration;
use crate::catalogue::Schema;
use crate::catalogue::names_in_rows::is_temporary as is_temporary_schema;
use crate::catalogue::names_in_rows::session_of;
use crate::ddl;
use crate::ddl::makes_temporary;
use crate::dialect::quoted;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Locker, NoLocks};
use crate::execute::view::View;
use crate::limits::Limits;
use crate::session::Session;
use crate::session::alone::Alone;
use crate::session::answer::{Progress, Sink, done};
use crate::session::definition_context::Notices;
use crate::session::transaction::attempt;
use crate::statement::Statement;

/// What is done to definitions.
type Work<'w, R> = dyn Fn(&Session, &RowTransaction<'_>, &Notices, &dyn Locker) -> Result<R> + 'w;

/// Runs `work` as [`Session::within`] does, and tells its notices when it is done: those of the last run, if it has
/// begun again.
pub(super) fn telling<R>(session: &mut Session, is_alone: bool, sink: &mut dyn Sink, work: &Work<'_, R>) -> Result<R> {
    let notices = Notices::default();
    let done = session.within(is_alone, &|session, transaction, locker| {
        notices.borrow_mut().clear();
        work(session, transaction, &notices, locker)
    })?;
    notices.into_inner().iter().for_each(|notice| sink.notice(notice));
    Ok(done)
}

impl Session {
    /// Makes the schema of its temporary tables before a statement that needs it. That is a commit of its own, so that
    /// transactions which begin to have such tables do not come into conflict over their schemas.
    pub(super) fn prepare_for_temporary(&mut self, statement: &ast::Statement) -> Result<()> {
        use ast::OnCommit::{DeleteRows, Drop};
        if !makes_temporary(statement) {
            return Ok(());
        }
        let name = self.identity.temporary_schema.to_string();
        let catalogue = self.shared.catalogues.of_snapshot(&self.shared.database.snapshot())?;
        if !catalogue.has_schema(&name) {
            self.temporary.has_some.set(true);
            let schema = Schema { name };
            let store = self.shared.catalogues.store();
            let limits = self.limits();
            let session = session_of(&schema.name).unwrap_or_default();
            self.alone(&limits, |transaction, _| {
                store.add_temporary_schema(transaction, &schema, session).map(Alone::Done)
            })?;
            self.catch_up()?;
        }
        let is_for_commit = matches!(statement, ast::Statement::CreateTable(create)
            if matches!(create.on_commit, Some(DeleteRows | Drop)));
        if self.open.is_none() && is_for_commit {
            self.begin(true, &[])?;
        }
        Ok(())
    }

    pub(super) fn change_definitions(
        &mut self,
        statement: &ast::Statement,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.refuse_read_only(&first_words(&statement.to_string()))?;
        self.prepare_for_temporary(statement)?;
        let run = |session: &Session, transaction: &RowTransaction<'_>, notices: &Notices, locker: &dyn Locker| {
            session.run_ddl(statement, transaction, notices, locker)
        };
        done(telling(self, is_alone, sink, &run)?)
    }

    pub(super) fn alter_definitions(
        &mut self,
        alteration: &Alteration,
        text: &str,
        is_alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Progress>> {
        self.refuse_read_only(&first_words(text).to_uppercase())?;
        if alteration.upkeep.is_some_and(|upkeep| upkeep.is_alone) && self.open.is_some() {
            let what = format!("{} cannot run inside a transaction block", first_words(text).to_uppercase());
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        }
        let run = |session: &Session, transaction: &RowTransaction<'_>, notices: &Notices, locker: &dyn Locker| {
            let alter = |context: &ddl::Context<'_>| ddl::alter(alteration, transaction, context);
            session.with_definitions(transaction, notices, locker, &alter)
        };
        done(telling(self, is_alone, sink, &run)?)
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
        notices: &Notices,
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
    pub(super) fn create_table_as(
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
        let run = |session: &Session, transaction: &RowTransaction<'_>, notices: &Notices, locker: &dyn Locker| {
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
                session.run_ddl(&statement.tree, transaction, notices, locker)?;
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
        };
        let count = telling(self, is_alone, sink, &run)?;
        done(&format!("SELECT {count}"))
    }
}

/// What a statement begins with, for messages.
pub(super) fn first_words(text: &str) -> String {
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
