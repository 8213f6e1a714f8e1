//! Temporary tables. They are tables of a schema that belongs to their session, and is dropped when that ends, or when
//! the database is opened after it was left without an end.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use quipu_rows::{Ordered, RowTransaction};
use sqlparser::ast;

use crate::catalogue::names::{is_temporary, session_of};
use crate::catalogue::{Relation, Schema};
use crate::ddl::makes_temporary;
use crate::ddl::names::qualified;
use crate::dialect::quoted;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::NoLocks;
use crate::execute::view::View;
use crate::session::transaction::Alone;
use crate::session::{Session, SqlDatabase};

/// The temporary tables of a session.
#[derive(Default)]
pub(super) struct Temporary {
    /// Whether it may have some.
    has_some: Cell<bool>,
    /// Those that are emptied, or dropped, at each commit.
    at_commit: RefCell<Vec<(u32, AtCommit)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AtCommit {
    DeleteRows,
    Drop,
}

impl Temporary {
    /// Whether commits have nothing to do with them.
    pub(super) fn is_quiet(&self) -> bool {
        self.at_commit.borrow().is_empty()
    }
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

    /// Notes what becomes of a new table at commits.
    pub(super) fn note_on_commit(&self, create: &ast::CreateTable, transaction: &RowTransaction<'_>) -> Result<()> {
        let catalogue = self.shared.catalogue_of(View::Transaction(transaction))?;
        let name = qualified(&create.name)?.name;
        let schema = &*self.identity.temporary_schema;
        let Some(Relation::Table(table)) = catalogue.relation(Some(schema), &name, &[]) else {
            return Ok(());
        };
        let mut noted = self.temporary.at_commit.borrow_mut();
        // The number may be that of a table that was undone.
        noted.retain(|(number, _)| *number != table.number);
        match create.on_commit {
            Some(ast::OnCommit::DeleteRows) => noted.push((table.number, AtCommit::DeleteRows)),
            Some(ast::OnCommit::Drop) => noted.push((table.number, AtCommit::Drop)),
            Some(ast::OnCommit::PreserveRows) | None => {}
        }
        Ok(())
    }

    /// Does to temporary tables what they were declared with, in the transaction that is about to be committed.
    pub(super) fn end_temporary_tables(&self) -> Result<()> {
        let Some(open) = self.open.as_ref().filter(|_| !self.temporary.is_quiet()) else { return Ok(()) };
        let transaction = &*open.transaction;
        let schema = &*self.identity.temporary_schema;
        let noted = self.temporary.at_commit.borrow().clone();
        for (number, at_commit) in noted {
            let catalogue = self.shared.catalogue_of(View::Transaction(transaction))?;
            let Some(table) = catalogue.tables().get(&number).filter(|table| table.schema == schema) else { continue };
            let name = format!("{}.{}", quoted(schema), quoted(&table.name));
            let is_empty = || Ok::<_, SqlError>(transaction.table(&table.rows_name)?.count(..)? == 0);
            match at_commit {
                AtCommit::Drop => self.run_definition(&format!("DROP TABLE {name} CASCADE"), transaction)?,
                AtCommit::DeleteRows if is_empty()? => {}
                AtCommit::DeleteRows => self.run_definition(&format!("TRUNCATE {name}"), transaction)?,
            }
        }
        Ok(())
    }

    fn run_definition(&self, text: &str, transaction: &RowTransaction<'_>) -> Result<()> {
        let notices = RefCell::default();
        for statement in crate::statement::parse(text)? {
            self.run_ddl(&statement.tree, transaction, &notices, &NoLocks)?;
        }
        Ok(())
    }

    /// Drops its temporary tables, outside of a transaction.
    pub(super) fn drop_temporary(&mut self) -> Result<()> {
        if self.temporary.has_some.take() {
            let schema = Arc::clone(&self.identity.temporary_schema);
            self.drop_schema(&schema)?;
            self.temporary.at_commit.get_mut().clear();
        }
        Ok(())
    }

    fn drop_schema(&mut self, name: &str) -> Result<()> {
        let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(name));
        // It waits for no other session, whose thread may be this one.
        let limits = self.limits();
        self.alone(&limits, |transaction, _| self.run_definition(&text, transaction).map(Alone::Done)).map(drop)
    }
}

impl SqlDatabase {
    /// Drops temporary tables of sessions that had no end: the process was killed.
    pub(super) fn drop_abandoned(&self) -> Result<()> {
        let catalogue = self.shared.catalogues.of_snapshot(&self.shared.database.snapshot())?;
        let schemas = catalogue.schemas().into_iter().filter(|name| is_temporary(name)).map(str::to_owned);
        for schema in schemas.collect::<Vec<_>>() {
            match self.session("", "").drop_schema(&schema) {
                // A database that cannot be written is opened all the same. No session takes the tables for its own.
                Err(error) if matches!(error.state(), SqlState::DISK_FULL | SqlState::READ_ONLY_SQL_TRANSACTION) => {
                    self.shared.locks.number_after(session_of(&schema).unwrap_or_default());
                }
                result => result?,
            }
        }
        Ok(())
    }
}
