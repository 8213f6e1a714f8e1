//! Temporary tables. They are tables of a schema that belongs to their session, and is dropped when that ends, or when
//! the database is opened after it was left without an end.

use std::cell::RefCell;
use std::sync::Arc;

use quipu_rows::{Ordered, RowTransaction};
use sqlparser::ast;

use crate::catalogue::Relation;
use crate::ddl;
use crate::ddl::names::qualified;
use crate::dialect::quoted;
use crate::error::{Result, SqlError};
use crate::execute::context::NoLocks;
use crate::execute::view::View;
use crate::session::Session;
use crate::session::alone::Alone;
use crate::session::at_commit::AtCommit;

impl Session {
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
            let run = |context: &ddl::Context<'_>| ddl::run(&statement.tree, transaction, context);
            self.with_definitions(transaction, &notices, &NoLocks, &run)?;
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

    pub(super) fn drop_schema(&mut self, name: &str) -> Result<()> {
        let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(name));
        // It waits for no other session, whose thread may be this one.
        let limits = self.limits();
        self.alone(&limits, |transaction, _| self.run_definition(&text, transaction).map(Alone::Done)).map(drop)
    }
}
