//! Expressions and queries of statements that change definitions: their values, and what they name.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use quipu_rows::{RowView, Value};
use sqlparser::ast;

use crate::bind::names::{Counts, Named, Names};
use crate::bind::updatable::refuse_check;
use crate::bind::{Binder, condition_of_domain, stars, value_as};
use crate::catalogue::lookup::{Lookup, named_view};
use crate::catalogue::{Catalogue, Relation, Table, View as ViewObject};
use crate::ddl::Evaluator;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::view::View;
use crate::plan::expression::Expr;
use crate::session::Session;
use crate::types::cast::{CastContext, cast};
use crate::types::datum::Datum;
use crate::types::user::TypeNames;
use crate::types::{BaseType, SqlType};

/// Computes values for rows that there are.
pub(super) struct Values<'v> {
    pub(super) session: &'v Session,
    pub(super) view: View<'v>,
}

impl Values<'_> {
    /// Binds the text of a definition, whose names are looked for in these schemas.
    fn bind_definition<R>(
        &self,
        text: &str,
        path: &[String],
        bind: impl FnOnce(&mut Binder<'_>) -> Result<R>,
    ) -> Result<R> {
        let (session, catalogue) = (self.session, self.session.shared.catalogue_of(self.view)?);
        let lookup = Lookup::new(self.view, catalogue, &session.shared.shapes, path.to_vec()).of_definition();
        let environment = session.statement_environment(self.view);
        bind(&mut Binder::new(&lookup, &environment, text, &[]))
    }

    pub(super) fn evaluate_datum(
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
        let lookup = lookup.with_rights(&*session.identity.rights);
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

pub(super) fn owned(datum: &Datum) -> Result<Value<'static>> {
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
        let bound = self.bind_definition(&query.to_string(), path, |binder| binder.query(query))?;
        Ok(bound.columns.into_iter().map(|column| (column.name, column.sql_type)).collect())
    }

    fn plan(&self, query: &str, path: &[String]) -> Result<String> {
        let tree = crate::statement::parse_query(query)?;
        let bound = self.bind_definition(query, path, |binder| binder.query(&tree))?;
        Ok(format!("{:?}", bound.query))
    }

    fn without_stars(&self, query: &ast::Query, path: &[String]) -> Result<String> {
        let text = query.to_string();
        let tree = crate::statement::parse_query(&text)?;
        let explicit = self.bind_definition(&text, path, |binder| {
            stars::note(binder);
            binder.query(&tree)?;
            Ok(stars::text_without(binder))
        })?;
        // Merged columns and tables of one name in two schemas may have no names that mean them alone.
        Ok(if self.plan(&explicit, path).is_ok() { explicit } else { text })
    }

    fn reads(&self, query: &ast::Query, path: &[String]) -> Result<Vec<(String, String)>> {
        let (session, catalogue) = (self.session, self.session.shared.catalogue_of(self.view)?);
        let lookup = Lookup::new(self.view, Arc::clone(&catalogue), &session.shared.shapes, path.to_vec());
        let lookup = lookup.of_definition();
        let names = Recorded { lookup, catalogue, path: RefCell::new(path.to_vec()), found: RefCell::default() };
        let environment = session.statement_environment(self.view);
        Binder::new(&names, &environment, &query.to_string(), &[]).query(query)?;
        Ok(names.found.into_inner().into_iter().collect())
    }

    fn refuse_check(&self, view: &ViewObject) -> Result<()> {
        self.bind_definition(&view.query, &view.search_path, |binder| refuse_check(binder, &named_view(view)))
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
    path: RefCell<Vec<String>>,
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
        if let Some(Named::Table(_) | Named::View(_)) = named {
            let place = match self.catalogue.relation(schema, name, &self.path.borrow()) {
                Some(Relation::Table(table)) => Some((&table.schema, &table.name)),
                Some(Relation::View(_, view)) => Some((&view.schema, &view.name)),
                _ => None,
            };
            self.found.borrow_mut().extend(place.map(|(schema, name)| (schema.clone(), name.clone())));
        }
        Ok(named)
    }

    fn swap_path(&self, path: Vec<String>) -> Vec<String> {
        self.path.replace(path.clone());
        self.lookup.swap_path(path)
    }

    fn all(&self) -> Vec<String> {
        self.lookup.all()
    }

    fn counts(&self) -> Option<&dyn Counts> {
        self.lookup.counts()
    }
}
