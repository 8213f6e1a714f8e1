//! Columns of what statements answer that are no queries.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::merge::{bind_change, bind_several, changes_rows};
use crate::bind::{Binder, folded, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::query::OutputColumn;
use crate::session::parameters::show_name;
use crate::session::portal::Prepared;
use crate::session::{Session, explain_options};
use crate::types::{BaseType, SqlType};

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

    pub(super) fn named_statement(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.named.get(name).ok_or_else(|| no_statement(name))
    }
}

fn output_column(column: &crate::session::ResultColumn) -> OutputColumn {
    OutputColumn { name: column.name.clone(), sql_type: column.sql_type, origin: None }
}

pub(super) fn no_statement(name: &str) -> SqlError {
    let what = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
}

fn text_column(name: &str) -> Vec<OutputColumn> {
    vec![OutputColumn { name: name.to_owned(), sql_type: SqlType::TEXT, origin: None }]
}

/// The query that a statement runs which is neither a query nor a change of rows.
pub(super) fn query_of(statement: &ast::Statement) -> Option<&ast::Query> {
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
        (ast::Statement::Query(query), _) if changes_rows(query) => bind_several(binder, query).map(drop),
        (ast::Statement::Query(query), _) => binder.query(query).map(drop),
        (_, Some(query)) => binder.query(query).map(drop),
        (
            ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_),
            _,
        ) => bind_change(binder, statement).map(drop),
        _ => {
            let what = "EXPLAIN takes SELECT, INSERT, UPDATE, DELETE and MERGE";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
        }
    }
}
