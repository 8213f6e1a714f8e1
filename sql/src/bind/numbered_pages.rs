//! Pages by `row_number()`: a sub-select that numbers the rows of a table, of which a page is asked for.
//!
//! `SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM t) s WHERE n BETWEEN 101 AND 110` would number
//! all rows. It is bound as if the rows came from `(SELECT * FROM t ORDER BY id LIMIT 10 OFFSET 100)`, whose OFFSET a
//! counted tree finds by position, and were numbered from 101 on. The condition stays, so that rows which it would
//! drop are dropped.

use sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArguments, LimitClause, Offset, OffsetRows, OrderBy, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableAlias, TableFactor, Value, WildcardAdditionalOptions, WindowSpec, WindowType,
};

use crate::bind::system_columns::is_system_column;
use crate::dialect::folded;
use crate::statement::parse_expression;

/// The same SELECT, of whose sub-select only the page is read. None if it has none.
pub(super) fn paged(select: &Select) -> Option<Select> {
    let [from] = &select.from[..] else { return None };
    let TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None } = &from.relation else {
        return None;
    };
    let selection = select.selection.as_ref().filter(|_| from.joins.is_empty() && alias.columns.is_empty())?;
    let numbered = Numbered::of(subquery)?;
    let page = Page::of(selection, &folded(&alias.name), &numbered.name)?;
    let query = numbered.paged(subquery, &page)?;
    let mut paged = select.clone();
    if let TableFactor::Derived { subquery, .. } = &mut paged.from[0].relation {
        **subquery = query;
    }
    Some(paged)
}

/// A query that numbers the rows of a table.
struct Numbered<'q> {
    select: &'q Select,
    /// Which of its columns is the number, and the name of that.
    at: usize,
    name: String,
    window: &'q WindowSpec,
    /// What its rows are called.
    table: ast::Ident,
}

impl Numbered<'_> {
    fn of(query: &Query) -> Option<Numbered<'_>> {
        let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, locks, .. } = query else {
            return None;
        };
        let SetExpr::Select(select) = &**body else { return None };
        let is_plain = locks.is_empty()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.named_window.is_empty()
            && is_empty(&select.group_by);
        let [from] = &select.from[..] else { return None };
        let TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation else { return None };
        let [ast::ObjectNamePart::Identifier(table)] = &name.0[..] else { return None };
        let is_of_one = from.joins.is_empty() && alias.as_ref().is_none_or(|alias| alias.columns.is_empty());
        if !is_plain || !is_of_one {
            return None;
        }
        let table = alias.as_ref().map_or(table, |alias| &alias.name).clone();
        let mut found = None;
        for (at, item) in select.projection.iter().enumerate() {
            match item {
                SelectItem::UnnamedExpr(written) if let Some(window) = row_number(written) => {
                    found.replace((at, "row_number".to_owned(), window)).is_none().then_some(())?;
                }
                SelectItem::ExprWithAlias { expr, alias } if let Some(window) = row_number(expr) => {
                    found.replace((at, folded(alias), window)).is_none().then_some(())?;
                }
                SelectItem::UnnamedExpr(written) | SelectItem::ExprWithAlias { expr: written, .. }
                    if !is_of_row(written, &table) =>
                {
                    return None;
                }
                SelectItem::UnnamedExpr(_)
                | SelectItem::ExprWithAlias { .. }
                | SelectItem::Wildcard(_)
                | SelectItem::QualifiedWildcard(..) => {}
                _ => return None,
            }
        }
        let (at, name, window) = found?;
        let is_by_rows = window.order_by.iter().all(|key| is_of_row(&key.expr, &table));
        is_by_rows.then_some(Numbered { select, at, name, window, table })
    }

    /// The query over the rows of a page.
    fn paged(&self, query: &Query, page: &Page) -> Option<Query> {
        let offset = match &page.before {
            Some(before) => format!("least(greatest({before}, 0), {})::bigint", i64::MAX),
            None => "0".to_owned(),
        };
        let limit =
            page.last.as_ref().map(|last| format!("least(greatest({last} - {offset}, 0), {})::bigint", i64::MAX));
        let mut rows = self.select.clone();
        rows.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        let order = OrderBy { kind: OrderByKind::Expressions(self.window.order_by.clone()), interpolate: None };
        let rows = Query {
            body: Box::new(SetExpr::Select(Box::new(rows))),
            order_by: (!self.window.order_by.is_empty()).then_some(order),
            limit_clause: Some(LimitClause::LimitOffset {
                limit: limit.map(|limit| parse_expression(&limit)).transpose().ok()?,
                offset: Some(Offset { value: parse_expression(&offset).ok()?, rows: OffsetRows::None }),
                limit_by: Vec::new(),
            }),
            ..query.clone()
        };
        let mut numbered = self.select.clone();
        let number = parse_expression(&format!("row_number() OVER () + {offset}")).ok()?;
        numbered.projection[self.at] = SelectItem::ExprWithAlias { expr: number, alias: quoted(&self.name) };
        numbered.selection = None;
        let alias = TableAlias { explicit: true, name: self.table.clone(), columns: Vec::new(), at: None };
        numbered.from[0].relation =
            TableFactor::Derived { lateral: false, subquery: Box::new(rows), alias: Some(alias), sample: None };
        Some(Query { body: Box::new(SetExpr::Select(Box::new(numbered))), ..query.clone() })
    }
}

fn is_empty(groups: &ast::GroupByExpr) -> bool {
    matches!(groups, ast::GroupByExpr::Expressions(groups, more) if groups.is_empty() && more.is_empty())
}

fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// The window of a `row_number()` without a partition.
fn row_number(written: &Expr) -> Option<&WindowSpec> {
    let Expr::Function(call) = written else { return None };
    let [ast::ObjectNamePart::Identifier(name)] = &call.name.0[..] else { return None };
    let has_arguments = !matches!(&call.args, FunctionArguments::List(list) if list.args.is_empty());
    if folded(name) != "row_number" || has_arguments || call.filter.is_some() {
        return None;
    }
    match &call.over {
        Some(WindowType::WindowSpec(window)) => {
            let WindowSpec { window_name: None, partition_by, window_frame: None, .. } = window else { return None };
            partition_by.is_empty().then_some(window)
        }
        _ => None,
    }
}

/// Whether an expression is a column of the table, as a sub-select over it has them: no whole row, no system column.
fn is_of_row(written: &Expr, table: &ast::Ident) -> bool {
    let is_column = |name: &ast::Ident| !is_system_column(&folded(name));
    match written {
        Expr::Identifier(name) => is_column(name) && folded(name) != folded(table),
        Expr::CompoundIdentifier(parts) => matches!(&parts[..], [_, name] if is_column(name)),
        Expr::Nested(inner) => is_of_row(inner, table),
        _ => false,
    }
}

/// The rows that a condition lets through.
#[derive(Debug, Default, PartialEq)]
struct Page {
    /// How many rows are before the first.
    before: Option<String>,
    /// The number of the last.
    last: Option<String>,
}

impl Page {
    fn of(condition: &Expr, relation: &str, number: &str) -> Option<Page> {
        let mut page = Page::default();
        page.add(condition, &|written| match written {
            Expr::Identifier(name) => folded(name) == number,
            Expr::CompoundIdentifier(parts) => {
                matches!(&parts[..], [of, name] if folded(of) == relation && folded(name) == number)
            }
            _ => false,
        });
        (page != Page::default()).then_some(page)
    }

    /// Adds what a part of the condition says. What it says of another bound, or of something else, is looked at row
    /// by row.
    fn add(&mut self, condition: &Expr, is_number: &dyn Fn(&Expr) -> bool) {
        match condition {
            Expr::Nested(inner) => self.add(inner, is_number),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add(left, is_number);
                self.add(right, is_number);
            }
            Expr::Between { expr, negated: false, low, high } if is_number(expr) => {
                self.bound(&BinaryOperator::GtEq, low);
                self.bound(&BinaryOperator::LtEq, high);
            }
            Expr::BinaryOp { left, op, right } if is_number(left) => self.bound(op, right),
            Expr::BinaryOp { left, op, right } if is_number(right) => {
                let op = match op {
                    BinaryOperator::Gt => BinaryOperator::Lt,
                    BinaryOperator::GtEq => BinaryOperator::LtEq,
                    BinaryOperator::Lt => BinaryOperator::Gt,
                    BinaryOperator::LtEq => BinaryOperator::GtEq,
                    other => other.clone(),
                };
                self.bound(&op, left);
            }
            _ => {}
        }
    }

    fn bound(&mut self, op: &BinaryOperator, value: &Expr) {
        let Some(value) = known_number(value, true) else { return };
        let value = format!("({value})::numeric");
        match op {
            BinaryOperator::Gt => _ = self.before.get_or_insert(value),
            BinaryOperator::GtEq => _ = self.before.get_or_insert(format!("{value} - 1")),
            BinaryOperator::Lt => _ = self.last.get_or_insert(format!("{value} - 1")),
            BinaryOperator::LtEq => _ = self.last.get_or_insert(value),
            BinaryOperator::Eq => {
                self.before.get_or_insert(format!("{value} - 1"));
                self.last.get_or_insert(value);
            }
            _ => {}
        }
    }
}

/// A whole number that is the same for all rows: a number, a parameter, or computed of numbers. A parameter that is
/// compared is a `bigint`, as the number of the row; one that is computed with must say what it is.
fn known_number(value: &Expr, is_compared: bool) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.clone()),
            Value::Placeholder(name) if is_compared => Some(format!("{name}::bigint")),
            _ => None,
        },
        Expr::Nested(inner) => known_number(inner, is_compared).map(|inner| format!("({inner})")),
        Expr::Cast { expr, data_type, .. } => {
            let is_whole = matches!(
                data_type,
                ast::DataType::Int(None)
                    | ast::DataType::Integer(None)
                    | ast::DataType::BigInt(None)
                    | ast::DataType::Int4(None)
                    | ast::DataType::Int8(None)
            );
            let is_parameter =
                |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
            (is_whole && is_parameter(expr)).then(|| value.to_string())
        }
        Expr::BinaryOp { left, op, right } => {
            let op = match op {
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => op.to_string(),
                _ => return None,
            };
            Some(format!("{} {op} {}", known_number(left, false)?, known_number(right, false)?))
        }
        _ => None,
    }
}
