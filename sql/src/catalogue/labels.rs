//! Conditions that rows have, with the labels of enums: rows know them by their places in the order.

use sqlparser::ast::{Expr, UnaryOperator, Value};

use crate::bind::folded;
use crate::catalogue::computed::{in_sql, is_in_rows};
use crate::catalogue::table::Table;
use crate::functions::quote_literal;
use crate::statement;
use crate::types::BaseType;
use crate::types::user::UserType;

/// A condition of a table as SQL has it: in its words, and with labels where numbers stand beside columns that are
/// enums.
pub fn with_labels(condition: &str, table: &Table) -> String {
    if is_in_rows(condition) {
        return in_sql(condition);
    }
    let is_enum = |base: BaseType| matches!(base, BaseType::Enum(_));
    if !table.columns.iter().any(|column| is_enum(column.sql_type.without_domain().base)) {
        return condition.to_owned();
    }
    match statement::parse_expression(condition) {
        Ok(mut expr) => {
            name(&mut expr, table);
            expr.to_string()
        }
        Err(_) => condition.to_owned(),
    }
}

/// The enum that a column is of.
fn enum_of(expr: &Expr, table: &Table) -> Option<UserType> {
    match expr {
        Expr::Nested(inner) => enum_of(inner, table),
        Expr::Identifier(ident) => match table.columns[table.place(&folded(ident))?].sql_type.without_domain().base {
            BaseType::Enum(user) => Some(user),
            _ => None,
        },
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr).map(|number| -number),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Puts the label in the place of its number.
fn name_as(expr: &mut Expr, user: UserType) {
    let label = number(expr).and_then(|order| user.label_at(order));
    let written = label.map(|label| format!("{}::{}", quote_literal(label), user.shown));
    if let Some(named) = written.and_then(|text| statement::parse_expression(&text).ok()) {
        *expr = named;
    }
}

fn name(expr: &mut Expr, table: &Table) {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => name(inner, table),
        Expr::BinaryOp { left, right, .. } => {
            if let Some(user) = enum_of(left, table) {
                name_as(right, user);
            }
            if let Some(user) = enum_of(right, table) {
                name_as(left, user);
            }
            name(left, table);
            name(right, table);
        }
        Expr::InList { expr, list, .. } => {
            if let Some(user) = enum_of(expr, table) {
                list.iter_mut().for_each(|item| name_as(item, user));
            }
        }
        Expr::Between { expr, low, high, .. } => {
            if let Some(user) = enum_of(expr, table) {
                name_as(low, user);
                name_as(high, user);
            }
        }
        _ => {}
    }
}
