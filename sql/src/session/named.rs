//! Prepared statements of SQL: PREPARE, EXECUTE, DEALLOCATE.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::folded;
use crate::catalogue::lookup::Lookup;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::session::Session;
use crate::session::answer::{Progress, Sink, done};
use crate::session::columns::no_statement;
use crate::session::evaluator::Values;
use crate::session::portal::{Portal, Prepared};
use crate::session::prepare::with_view;
use crate::statement::Statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

impl Session {
    pub(super) fn prepare_named(
        &mut self,
        name: &str,
        types: &[ast::DataType],
        statement: Statement,
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
        let prepared = self.prepare_parsed(statement, &given)?;
        self.list(name, &whole.into(), &prepared, true);
        self.named.insert(name.to_owned(), prepared);
        Ok(())
    }

    pub(super) fn execute_named(
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
}

/// A statement of PREPARE, and the values of EXECUTE for its parameters.
pub(super) fn with_values(
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

pub(super) fn deallocate(session: &mut Session, name: &ast::Ident) -> Result<Option<Progress>> {
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
