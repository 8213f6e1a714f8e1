//! CREATE and REFRESH MATERIALIZED VIEW: the rows of its query become those of its table.

use quipu_rows::{RowTransaction, Value};
use sqlparser::ast;

use crate::alteration::Refresh;
use crate::bind::Binder;
use crate::catalogue::lookup::Lookup;
use crate::ddl;
use crate::ddl::{Filling, has_data};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, Locker, NoLocks, Running};
use crate::execute::query::QueryCursor;
use crate::execute::view::View;
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};
use crate::session::definition_context::Notices;
use crate::session::definitions::telling;
use crate::session::evaluator::owned;

/// CREATE MATERIALIZED VIEW.
pub(super) fn create(
    session: &mut Session,
    create: &ast::CreateView,
    is_alone: bool,
    sink: &mut dyn Sink,
) -> Result<Option<Progress>> {
    session.refuse_read_only("CREATE MATERIALIZED VIEW")?;
    let run = |session: &Session, transaction: &RowTransaction<'_>, notices: &Notices, locker: &dyn Locker| {
        let define = |context: &ddl::Context<'_>| ddl::create_materialized(create, transaction, context);
        match session.with_definitions(transaction, notices, locker, &define)? {
            Some(filling) => fill(session, transaction, &filling).map(Some),
            None => Ok(None),
        }
    };
    match telling(session, is_alone, sink, &run)?.filter(|_| has_data(create)) {
        Some(count) => done(&format!("SELECT {count}")),
        None => done("CREATE MATERIALIZED VIEW"),
    }
}

/// REFRESH MATERIALIZED VIEW.
pub(super) fn refresh(
    session: &mut Session,
    name: &ast::ObjectName,
    refresh: Refresh,
    is_alone: bool,
    sink: &mut dyn Sink,
) -> Result<Option<Progress>> {
    session.refuse_read_only("REFRESH MATERIALIZED VIEW")?;
    let run = |session: &Session, transaction: &RowTransaction<'_>, notices: &Notices, locker: &dyn Locker| {
        let empty = |context: &ddl::Context<'_>| ddl::refresh_materialized(name, refresh, transaction, context);
        let filling = session.with_definitions(transaction, notices, locker, &empty)?;
        fill(session, transaction, &filling).map(drop)
    };
    telling(session, is_alone, sink, &run)?;
    done("REFRESH MATERIALIZED VIEW")
}

/// Adds the rows of a query to a table. Returns how many they are.
fn fill(session: &Session, transaction: &RowTransaction<'_>, filling: &Filling) -> Result<u64> {
    let Some(text) = &filling.query else { return Ok(0) };
    let view = View::Transaction(transaction);
    let catalogue = session.shared.catalogue_of(view)?;
    let lookup = Lookup::new(view, catalogue, &session.shared.shapes, filling.path.clone());
    let lookup = lookup.with_rights(&*session.identity.rights);
    let environment = session.statement_environment(view);
    let written = crate::statement::parse_query(text)?;
    let bound = Binder::new(&lookup, &environment, text, &[]).query(&written)?;
    let table = transaction.table(&filling.table)?;
    if bound.columns.len() != table.schema().columns.iter().filter(|column| !column.hidden).count() {
        let what = "the query of the materialized view has other columns than when it was created";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what)
            .with_hint("Drop the materialized view, and create it again."));
    }
    let running = Running::new(session.limits());
    let context =
        Context { view, environment: &environment, parameters: &[], arguments: &[], state: &running, locker: &NoLocks };
    let mut cursor = QueryCursor::new(&bound.query);
    let (mut row, mut count) = (Vec::new(), 0);
    while cursor.next(&bound.query, &context, &mut row)? {
        let values = row.iter().map(owned).collect::<Result<Vec<Value<'static>>>>()?;
        table.insert_values(&values)?;
        count += 1;
    }
    Ok(count)
}
