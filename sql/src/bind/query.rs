//! Queries: WITH, set operations, VALUES, ORDER BY, LIMIT.

use std::sync::Arc;

use sqlparser::ast::{self, LimitClause, OrderByKind, SelectItem, SetExpr, SetQuantifier};

use crate::bind::scope::Level;
use crate::bind::types::has_equality;
use crate::bind::with::{bind_with, count_once_more, refuse_reference, those_that_are_read};
use crate::bind::{Binder, Bound, BoundQuery, folded};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::functions::common_type_of;
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Direction, Distinct, OutputColumn, Query, Select, SetOperation, SortKey};
use crate::plan::source::Source;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// What follows the body of a query.
pub(super) struct Tail<'t> {
    pub(super) order: &'t [ast::OrderByExpr],
    pub(super) locks: &'t [ast::LockClause],
    /// Whether rows that are equal in order are told apart from others afterwards.
    pub(super) with_ties: bool,
}

impl Binder<'_> {
    /// Binds a query that stands alone.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn query(&mut self, query: &ast::Query) -> Result<BoundQuery> {
        self.deeper(|binder| binder.bind_query(query))
    }

    /// Binds a query within another one. Returns what that one gives to it.
    pub(super) fn inner_query(&mut self, query: &ast::Query) -> Result<(BoundQuery, Vec<Bound>)> {
        // Its own level is put on top of this one, which only collects what it is given.
        let reads_all = self.levels.last().is_some_and(|level| level.reads_all);
        self.levels.push(Level { reads_all, ..Level::default() });
        let bound = self.query(query);
        let level = self.levels.pop().unwrap_or_default();
        Ok((bound?, level.arguments))
    }

    fn bind_query(&mut self, query: &ast::Query) -> Result<BoundQuery> {
        foreign::query(query)?;
        refuse_clauses_twice(query)?;
        let names = self.with.len();
        let with = match &query.with {
            Some(with) => bind_with(self, with)?,
            None => Vec::new(),
        };
        let order = match &query.order_by {
            None => &[][..],
            Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) => &keys[..],
            Some(_) => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "ORDER BY ALL is not supported")),
        };
        let with_ties = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
        if with_ties && order.is_empty() {
            let what = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        if query.limit_clause.is_some() || query.fetch.is_some() {
            self.level().reads_all = false;
        }
        let named = self.named.len();
        let mut bound = self.body(&query.body, &Tail { order, locks: &query.locks, with_ties })?;
        self.with.truncate(names);
        // A query in parentheses may have a WITH and limits of its own.
        let has_limits = query.limit_clause.is_some() || query.fetch.is_some();
        if has_limits && (bound.query.limit.is_some() || bound.query.offset.is_some()) {
            let columns = bound.columns.clone();
            bound = as_rows_of(bound, columns);
        }
        bound.query.with.splice(..0, those_that_are_read(with, &self.named[named..]));
        self.limit(query, &mut bound.query)?;
        Ok(bound)
    }

    fn limit(&mut self, query: &ast::Query, bound: &mut Query) -> Result<()> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported");
                return Err(error.with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let mut count = |written: &ast::Expr| -> Result<Expr> {
            self.levels.push(Level { place: "LIMIT", ..Level::default() });
            let bound = self.expr(written);
            self.levels.pop();
            let bound = bound?;
            self.coerce(bound, SqlType::INT8, CastContext::Assignment)
        };
        if let Some(limit) = limit {
            bound.limit = Some(count(limit)?);
        }
        if let Some(offset) = offset {
            bound.offset = Some(count(offset)?);
        }
        if let Some(fetch) = &query.fetch {
            if fetch.percent {
                return Err(SqlError::unsupported("FETCH with PERCENT is not supported", "Say a number of rows."));
            }
            bound.with_ties = fetch.with_ties;
            bound.limit = Some(match (&fetch.quantity, bound.limit.take()) {
                (Some(quantity), _) => count(quantity)?,
                (None, Some(limit)) => limit,
                (None, None) => Expr::Constant(Datum::Int(1)),
            });
        }
        Ok(())
    }

    pub(super) fn body(&mut self, body: &SetExpr, tail: &Tail<'_>) -> Result<BoundQuery> {
        match body {
            SetExpr::Select(select) => self.select(select, tail),
            SetExpr::Query(query) => {
                let bound = self.query(query)?;
                self.refuse_locks(tail, "a query in parentheses")?;
                if tail.order.is_empty() {
                    return Ok(bound);
                }
                let columns = bound.columns.clone();
                self.sorted(as_rows_of(bound, columns), tail)
            }
            SetExpr::Values(values) => {
                foreign::values(values)?;
                self.refuse_locks(tail, "VALUES")?;
                let bound = self.values(&values.rows)?;
                self.sorted(bound, tail)
            }
            SetExpr::SetOperation { .. } => {
                self.refuse_locks(tail, "UNION/INTERSECT/EXCEPT")?;
                let bound = set_operations(self, body)?;
                self.sorted(bound, tail)
            }
            SetExpr::Table(table) => {
                let name = table.table_name.clone().unwrap_or_default();
                let query = crate::statement::parse_query(&format!("SELECT * FROM {name}"))?;
                self.body(&query.body, tail)
            }
            _ => {
                let what = "WITH clause containing a data-modifying statement must be at the top level";
                Err(SqlError::unsupported(what, "Name it in the WITH of the statement itself."))
            }
        }
    }

    fn refuse_locks(&self, tail: &Tail<'_>, what: &str) -> Result<()> {
        if tail.locks.is_empty() {
            return Ok(());
        }
        let what = format!("FOR UPDATE is not allowed with {what}");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
    }

    fn values(&mut self, rows: &[sqlparser::ast::Parens<Vec<ast::Expr>>]) -> Result<BoundQuery> {
        let width = rows.first().map_or(0, |row| row.len());
        let mut columns: Vec<Vec<Bound>> = vec![Vec::with_capacity(rows.len()); width];
        for row in rows {
            if row.len() != width {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
            }
            for (column, written) in columns.iter_mut().zip(row.iter()) {
                column.push(self.expr(written)?);
            }
        }
        let mut lists = vec![Vec::with_capacity(width); rows.len()];
        let mut outputs = Vec::new();
        for (place, column) in columns.into_iter().enumerate() {
            let (values, sql_type) = self.in_common(column, "VALUES")?;
            for (list, value) in lists.iter_mut().zip(values) {
                list.push(value);
            }
            outputs.push(OutputColumn { name: format!("column{}", place + 1), sql_type, origin: None });
        }
        Ok(BoundQuery { query: plain(Body::Values(lists), width), columns: outputs })
    }

    /// A set operation of a query, which has literals at some places, and the next one.
    fn set_operation(
        &mut self,
        (mut left, literals): (BoundQuery, Vec<usize>),
        op: ast::SetOperator,
        quantifier: SetQuantifier,
        right: &SetExpr,
    ) -> Result<BoundQuery> {
        let operation = match op {
            ast::SetOperator::Union => SetOperation::Union,
            ast::SetOperator::Intersect => SetOperation::Intersect,
            ast::SetOperator::Except | ast::SetOperator::Minus => SetOperation::Except,
        };
        let is_all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            _ => return Err(SqlError::unsupported("BY NAME is not supported", "Put columns in the same order.")),
        };
        let none = Tail { order: &[], locks: &[], with_ties: false };
        let literals = [literals, literals_of(right)];
        let open = open_parameters(self, right);
        give_types(self, &open, &left.columns);
        let references = self.references.len();
        let mut right = self.deeper(|binder| binder.body(right, &none))?;
        if operation == SetOperation::Except {
            refuse_reference(self, references, "EXCEPT")?;
        }
        let word = match operation {
            SetOperation::Union => "UNION",
            SetOperation::Intersect => "INTERSECT",
            SetOperation::Except => "EXCEPT",
        };
        if left.columns.len() != right.columns.len() {
            let what = format!("each {word} query must have the same number of columns");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        for place in 0..left.columns.len() {
            // A literal takes the type of the other side.
            let is_literal = [0, 1].map(|side: usize| literals[side].contains(&place));
            let known = [left.columns[place].sql_type, right.columns[place].sql_type];
            let types = [0, 1].map(|side: usize| if is_literal[side] { SqlType::UNKNOWN } else { known[side] });
            let mut common = common_type_of(word, &types)?;
            if is_literal[0] || is_literal[1] {
                common = common.bare();
            }
            if !(is_all && operation == SetOperation::Union) {
                has_equality(common)?;
            }
            for (side, is_literal) in [&mut left, &mut right].into_iter().zip(is_literal) {
                if side.columns[place].sql_type != common {
                    let bound = std::mem::replace(side, empty());
                    let context = if is_literal { CastContext::Explicit } else { CastContext::Implicit };
                    *side = self.cast_column(bound, place, common, context)?;
                }
            }
        }
        let columns: Vec<OutputColumn> =
            left.columns.iter().map(|column| OutputColumn { origin: None, ..column.clone() }).collect();
        let width = columns.len();
        let body = Body::Set { operation, is_all, left: Box::new(left.query), right: Box::new(right.query) };
        Ok(BoundQuery { query: plain(body, width), columns })
    }

    /// A query with a column of another type.
    pub(super) fn cast_column(
        &mut self,
        bound: BoundQuery,
        place: usize,
        to: SqlType,
        context: CastContext,
    ) -> Result<BoundQuery> {
        let from = bound.columns[place].sql_type;
        let mut columns = bound.columns.clone();
        columns[place].sql_type = to;
        let mut wrapped = as_rows_of(bound, columns);
        if let Body::Select(select) = &mut wrapped.query.body {
            let value = std::mem::replace(&mut select.output[place], Expr::Default);
            select.output[place] = self.cast(value, from, to, context)?;
        }
        Ok(wrapped)
    }

    /// A query in the order of its own columns.
    fn sorted(&mut self, mut bound: BoundQuery, tail: &Tail<'_>) -> Result<BoundQuery> {
        for key in tail.order {
            let place = output_place("ORDER BY", &key.expr, &bound.columns)?;
            let Some(place) = place else {
                let what = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                    .with_detail("Only result column names can be used, not expressions or functions.")
                    .with_hint("Move the query with the set operation into a FROM clause."));
            };
            let direction = direction_of(&key.options, bound.columns[place].sql_type);
            bound.query.sort.push(SortKey { place, direction });
        }
        Ok(bound)
    }
}

/// A query in parentheses has some clauses, and those after the parentheses are others.
fn refuse_clauses_twice(query: &ast::Query) -> Result<()> {
    let SetExpr::Query(inner) = &*query.body else { return Ok(()) };
    let limits = |query: &ast::Query| match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        Some(LimitClause::OffsetCommaLimit { .. }) => (true, true),
        None => (false, false),
    };
    let clauses = |query: &ast::Query| {
        let (has_limit, has_offset) = limits(query);
        [query.with.is_some(), query.order_by.is_some(), has_limit || query.fetch.is_some(), has_offset]
    };
    let names = ["WITH", "ORDER BY", "LIMIT", "OFFSET"];
    let mut twice = names.iter().zip(clauses(query)).zip(clauses(inner));
    match twice.find(|((_, outside), inside)| *outside && *inside) {
        Some(((name, _), _)) => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple {name} clauses not allowed")))
        }
        None => Ok(()),
    }
}

/// Binds a row of queries from its first one on: it is a tree that is as deep as the row is long.
fn set_operations(binder: &mut Binder<'_>, body: &SetExpr) -> Result<BoundQuery> {
    let (mut row, mut first) = (Vec::new(), body);
    while let SetExpr::SetOperation { left, op, set_quantifier, right } = first {
        row.push((literals_of(left), *op, *set_quantifier, &**right));
        first = left;
    }
    let none = Tail { order: &[], locks: &[], with_ties: false };
    let open = open_parameters(binder, first);
    if let (false, Some((.., next))) = (open.is_empty(), row.last()) {
        // They have the types of what the next query gives, which is bound once more for that.
        count_once_more(binder)?;
        let (parameters, references) = (binder.parameters.clone(), binder.references.len());
        let next = binder.deeper(|binder| binder.body(next, &none));
        binder.parameters = parameters;
        binder.references.truncate(references);
        give_types(binder, &open, &next?.columns);
    }
    let mut bound = binder.deeper(|binder| binder.body(first, &none))?;
    while let Some((literals, op, quantifier, right)) = row.pop() {
        bound = binder.set_operation((bound, literals), op, quantifier, right)?;
    }
    Ok(bound)
}

/// The places of a SELECT's outputs that are parameters without a type, and their numbers.
pub(super) fn open_parameters(binder: &mut Binder<'_>, body: &SetExpr) -> Vec<(usize, usize)> {
    let SetExpr::Select(select) = body else { return Vec::new() };
    let mut open = Vec::new();
    for (at, item) in select.projection.iter().enumerate() {
        let (SelectItem::UnnamedExpr(written) | SelectItem::ExprWithAlias { expr: written, .. }) = item else {
            break;
        };
        if let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) = written
            && let Ok((number, SqlType::UNKNOWN)) = binder.parameters.named(name)
        {
            open.push((at, number));
        }
    }
    open
}

/// Gives parameters that are outputs the types of these columns.
fn give_types(binder: &mut Binder<'_>, open: &[(usize, usize)], columns: &[OutputColumn]) {
    for &(at, number) in open {
        if let Some(column) = columns.get(at) {
            binder.parameters.take_type(number, column.sql_type.without_domain());
        }
    }
}

/// The places of a SELECT's outputs that are literals, whose type nothing says.
pub(super) fn literals_of(body: &SetExpr) -> Vec<usize> {
    let items = match body {
        SetExpr::Select(select) => &select.projection,
        SetExpr::Query(query) => return literals_of(&query.body),
        _ => return Vec::new(),
    };
    let is_wildcard = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let named = items.iter().take_while(|item| !is_wildcard(item)).enumerate();
    let literal = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(ast::Expr::Value(value))
        | SelectItem::ExprWithAlias { expr: ast::Expr::Value(value), .. } => {
            matches!(value.value, ast::Value::SingleQuotedString(_) | ast::Value::Null)
        }
        _ => false,
    };
    named.filter(|(_, item)| literal(item)).map(|(place, _)| place).collect()
}

/// The place of the output that an element of ORDER BY or another clause names, by its number or its name; none if it
/// is an expression.
///
/// # Errors
/// Those of a number that no output has, and of constants that are no number.
pub(super) fn output_place(clause: &str, written: &ast::Expr, columns: &[OutputColumn]) -> Result<Option<usize>> {
    match written {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Placeholder(_) => Ok(None),
            ast::Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                let number = digits.parse::<usize>().unwrap_or(usize::MAX);
                if (1..=columns.len()).contains(&number) {
                    return Ok(Some(number - 1));
                }
                let what = format!("{clause} position {digits} is not in select list");
                Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what))
            }
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}"))),
        },
        ast::Expr::Identifier(ident) => {
            let name = folded(ident);
            Ok(columns.iter().position(|column| column.name == name))
        }
        _ => Ok(None),
    }
}

fn empty() -> BoundQuery {
    BoundQuery { query: plain(Body::Values(Vec::new()), 0), columns: Vec::new() }
}

/// A query without an order and limits.
pub(super) fn plain(body: Body, visible: usize) -> Query {
    Query { with: Vec::new(), body, sort: Vec::new(), limit: None, offset: None, with_ties: false, visible }
}

/// The rows of a query as those of a SELECT, so that more can be done with them.
pub(super) fn as_rows_of(bound: BoundQuery, columns: Vec<OutputColumn>) -> BoundQuery {
    let width = columns.len();
    around(bound.query, width, (0..width).map(Expr::Slot).collect(), columns)
}

/// A SELECT of these outputs from a query, whose outputs are as many slots.
pub(super) fn around(query: Query, width: usize, output: Vec<Expr>, columns: Vec<OutputColumn>) -> BoundQuery {
    let source = Source::Subselect { query: Arc::new(query), arguments: None, slots: 0..width };
    BoundQuery { query: select_of(source, width, output), columns }
}

/// A SELECT of these outputs from a source, whose frame has so many slots.
pub(super) fn select_of(source: Source, frame: usize, output: Vec<Expr>) -> Query {
    let visible = output.len();
    let (windows, distinct) = (Vec::new(), Distinct::No);
    let select = Select { frame, source, grouping: None, windows, output, distinct, lock: None };
    plain(Body::Select(Box::new(select)), visible)
}

pub(super) fn rename(name: &str, columns: &mut [OutputColumn], aliases: &[String]) -> Result<()> {
    if aliases.len() > columns.len() {
        let (has, wants) = (columns.len(), aliases.len());
        let what = format!("WITH query \"{name}\" has {has} columns available but {wants} columns specified");
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what));
    }
    for (column, alias) in columns.iter_mut().zip(aliases) {
        column.name.clone_from(alias);
    }
    for column in columns {
        column.origin = None;
    }
    Ok(())
}

/// How an element of an order is meant: NULLs come last when ascending and first when descending, unless it is said.
pub(super) fn direction_of(options: &ast::OrderByOptions, sql_type: SqlType) -> Direction {
    let is_descending = options.asc == Some(false);
    let nulls_first = options.nulls_first.unwrap_or(is_descending);
    Direction { is_descending, nulls_first, is_caseless: sql_type.base == BaseType::CaselessText }
}
