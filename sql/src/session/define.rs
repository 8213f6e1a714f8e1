//! Statements that change definitions or lock tables, by the file that runs each.

use sqlparser::ast;

use crate::ddl;
use crate::error::{Result, SqlError};
use crate::session::answer::{Progress, Sink, done};
use crate::session::definitions::first_words;
use crate::session::{Session, extensions, materialized, tables};

/// What changes definitions, or locks tables; an error for statements that are not there.
pub(super) fn define(
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
