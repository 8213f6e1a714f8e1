//! Sub-selects in expressions: EXISTS, IN, ANY and ALL, ARRAY, and those that are a value.

use std::borrow::Cow;
use std::sync::Arc;

use sqlparser::ast;

use crate::bind::expression::{compared_as, is_exact_number, truth};
use crate::bind::with::refuse_reference;
use crate::bind::{Binder, Bound, BoundQuery};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve_operator;
use crate::plan::expression::{Comparison, Expr, Subquery, SubqueryKind};
use crate::plan::query::Query;
use crate::types::SqlType;
use crate::types::cast::CastContext;

/// The columns of a sub-select of one row, as fields of that row, which is read once for all of them.
pub(super) fn row_subquery(binder: &mut Binder<'_>, query: &ast::Query) -> Result<Vec<(SqlType, Expr)>> {
    let (bound, arguments) = binder.subquery(query)?;
    let types: Vec<SqlType> = bound.columns.iter().map(|column| column.sql_type).collect();
    let row = binder.subquery_expr(SubqueryKind::Record(types.clone()), bound.query, arguments);
    let field = |(at, sql_type)| (sql_type, Expr::Field { value: Box::new(row.clone()), at });
    Ok(types.into_iter().enumerate().map(field).collect())
}

impl Binder<'_> {
    pub(super) fn subquery(&mut self, query: &ast::Query) -> Result<(BoundQuery, Vec<Expr>)> {
        let references = self.references.len();
        let (query, arguments) = self.inner_query(query)?;
        refuse_reference(self, references, "a subquery")?;
        Ok((query, arguments.into_iter().map(|argument| argument.expr).collect()))
    }

    pub(super) fn subquery_expr(&mut self, kind: SubqueryKind, query: Query, arguments: Vec<Expr>) -> Expr {
        let number = self.number();
        Expr::Subquery(Arc::new(Subquery { number, kind, query, arguments }))
    }

    pub(super) fn exists(&mut self, query: &ast::Query, is_negated: bool) -> Result<Bound> {
        let (bound, arguments) = self.subquery(&without_columns(query))?;
        let exists = self.subquery_expr(SubqueryKind::Exists, bound.query, arguments);
        Ok(truth(if is_negated { Expr::Not(Box::new(exists)) } else { exists }))
    }

    pub(super) fn scalar_subquery(&mut self, query: &ast::Query) -> Result<Bound> {
        let (bound, arguments) = self.subquery(query)?;
        let [column] = &bound.columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let sql_type = column.sql_type;
        let expr = self.subquery_expr(SubqueryKind::Scalar, bound.query, arguments);
        Ok(Bound { expr, sql_type })
    }

    pub(super) fn array_subquery(&mut self, query: &ast::Query) -> Result<Bound> {
        let (bound, arguments) = self.subquery(query)?;
        let [column] = &bound.columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let of = column.sql_type;
        let expr = self.subquery_expr(SubqueryKind::Array(of), bound.query, arguments);
        Ok(Bound { expr, sql_type: SqlType::array_of(of.base) })
    }

    pub(super) fn quantified_subquery(
        &mut self,
        left: &ast::Expr,
        comparison: Comparison,
        query: &ast::Query,
        is_all: bool,
    ) -> Result<Bound> {
        let left = self.expr(left)?;
        let (mut bound, arguments) = self.subquery(query)?;
        let left = match left.expr {
            Expr::Record(values, _) => values.into_iter().map(|(sql_type, expr)| Bound { expr, sql_type }).collect(),
            expr => vec![Bound { expr, sql_type: left.sql_type }],
        };
        if left.len() != bound.columns.len() {
            let word = if left.len() < bound.columns.len() { "many" } else { "few" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {word} columns")));
        }
        let mut values = Vec::new();
        for (place, value) in left.into_iter().enumerate() {
            let column = bound.columns[place].sql_type;
            let call = resolve_operator(comparison.symbol(), Some(value.sql_type), column)?;
            let is_same = |from: SqlType, to: SqlType| {
                from.bare() == to.bare() || (is_exact_number(from.bare()) && is_exact_number(to.bare()))
            };
            let (left_type, column_type) = compared_as(&call);
            if !is_same(column, column_type) {
                bound = self.cast_column(bound, place, column_type, CastContext::Implicit)?;
            }
            values.push(match is_same(value.sql_type, left_type) {
                true => value.expr,
                false => self.coerce(value, left_type, CastContext::Implicit)?,
            });
        }
        let kind = SubqueryKind::Quantified { left: values, comparison, is_all };
        Ok(truth(self.subquery_expr(kind, bound.query, arguments)))
    }
}

/// The query of an EXISTS, which reads no columns for nothing: `SELECT 1 FROM t` for `SELECT * FROM t`.
fn without_columns(query: &ast::Query) -> Cow<'_, ast::Query> {
    let ast::SetExpr::Select(select) = &*query.body else { return Cow::Borrowed(query) };
    let is_all = matches!(&select.projection[..], [ast::SelectItem::Wildcard(_)]) && !select.from.is_empty();
    let is_ungrouped = matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let is_plain = is_ungrouped && select.having.is_none() && select.distinct.is_none() && query.order_by.is_none();
    if !is_all || !is_plain {
        return Cow::Borrowed(query);
    }
    let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
    let select = ast::Select { projection: vec![ast::SelectItem::UnnamedExpr(one)], ..(**select).clone() };
    Cow::Owned(ast::Query { body: Box::new(ast::SetExpr::Select(Box::new(select))), ..query.clone() })
}
