//! Conditions of rows as PostgreSQL writes them: names in quotes only where they need them, and parentheses around each
//! part, or, if they are to be pretty, around those parts alone that would mean something else without them.
//!
//! Not here: the casts that PostgreSQL writes at literals.

use std::sync::Arc;

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};

use crate::bind::folded;
use crate::bind::types::sql_type;
use crate::catalogue::lookup::Lookup;
use crate::catalogue::names_in_rows::PUBLIC;
use crate::catalogue::system::source::Source;
use crate::functions::strings::quote_identifier;
use crate::statement;
use crate::types::user::NoTypes;

/// A condition as `pg_get_constraintdef` and `pg_get_expr` write it.
pub(super) fn written(source: &Source<'_>, condition: &str, is_pretty: bool) -> String {
    // What the parser refuses stays as it was declared.
    match statement::parse_expression(condition) {
        Ok(expr) => part(source, &expr, is_pretty, true),
        Err(_) => condition.to_owned(),
    }
}

/// A part of a condition; `is_alone` if nothing stands beside it.
fn part(source: &Source<'_>, expr: &Expr, is_pretty: bool, is_alone: bool) -> String {
    let wrapped = |text: String| if is_pretty && is_alone { text } else { format!("({text})") };
    match expr {
        Expr::Nested(inner) => part(source, inner, is_pretty, is_alone),
        // Of a domain; columns stand in quotes.
        Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("value") => {
            "VALUE".to_owned()
        }
        Expr::Identifier(name) => quote_identifier(&folded(name)),
        Expr::BinaryOp { left, op, right } if matches!(op, BinaryOperator::And | BinaryOperator::Or) => {
            let word = if *op == BinaryOperator::And { " AND " } else { " OR " };
            // Pretty, an AND within an OR needs no parentheses, nor do parts of the same kind.
            let is_loose = |side: &Expr| match unnested(side) {
                Expr::BinaryOp { op: own, .. } => own == op || *own != BinaryOperator::Or,
                _ => true,
            };
            let mut parts = Vec::new();
            chain(left, op, is_pretty, &mut parts);
            if is_pretty {
                chain(right, op, is_pretty, &mut parts)
            } else {
                parts.push(right)
            }
            let parts: Vec<String> =
                parts.into_iter().map(|side| part(source, side, is_pretty, is_loose(side))).collect();
            wrapped(parts.join(word))
        }
        Expr::BinaryOp { left, op, right } => {
            let sides = (side(source, left, op, is_pretty, true), side(source, right, op, is_pretty, false));
            wrapped(format!("{} {op} {}", sides.0, sides.1))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            let is_loose =
                !matches!(unnested(expr), Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. });
            wrapped(format!("NOT {}", part(source, expr, is_pretty, is_loose)))
        }
        Expr::UnaryOp { op, expr } if !matches!(unnested(expr), Expr::Value(_)) => {
            wrapped(format!("{op} {}", part(source, expr, is_pretty, false)))
        }
        Expr::IsNull(inner) => wrapped(format!("{} IS NULL", part(source, inner, is_pretty, false))),
        Expr::IsNotNull(inner) => wrapped(format!("{} IS NOT NULL", part(source, inner, is_pretty, false))),
        Expr::Between { expr, negated: false, low, high } => {
            let value = part(source, expr, is_pretty, false);
            let ends = (part(source, low, is_pretty, false), part(source, high, is_pretty, false));
            match is_pretty {
                true => wrapped(format!("{value} >= {} AND {value} <= {}", ends.0, ends.1)),
                false => format!("(({value} >= {}) AND ({value} <= {}))", ends.0, ends.1),
            }
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            let to = type_text(source, data_type);
            match unnested(expr) {
                literal @ Expr::Value(_) => format!("{}::{to}", part(source, literal, is_pretty, false)),
                other => format!("({})::{to}", part(source, other, is_pretty, true)),
            }
        }
        Expr::Value(value) => match value.value {
            Value::Boolean(truth) => truth.to_string(),
            _ => value.to_string(),
        },
        Expr::Function(call) => match plain_arguments(call) {
            Some(arguments) => {
                let arguments: Vec<String> =
                    arguments.map(|argument| part(source, argument, is_pretty, true)).collect();
                format!("{}({})", call.name, arguments.join(", "))
            }
            None => call.to_string(),
        },
        other => other.to_string(),
    }
}

/// A type, with its schema if the search path does not find it.
fn type_text(source: &Source<'_>, written: &DataType) -> String {
    if let Ok(known) = sql_type(written, &NoTypes) {
        return known.to_string();
    }
    // Where it was declared is not kept: a type of this name that is found without a schema is the likeliest.
    let schemas = source.catalogue.schemas().into_iter().map(str::to_owned);
    let path = source.search_path().into_iter().chain([PUBLIC.to_owned()]).chain(schemas).collect();
    let lookup = Lookup::new(source.view, Arc::clone(&source.catalogue), &source.shared.shapes, path);
    sql_type(written, &lookup).map_or_else(|_| written.to_string(), |found| source.type_text(found))
}

/// The arguments of a call that says nothing besides.
fn plain_arguments(call: &Function) -> Option<impl Iterator<Item = &Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let value = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(_)));
    let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty() && list.args.iter().all(value);
    let has_more = call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty();
    (is_plain && !has_more).then(|| {
        list.args.iter().filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
            _ => None,
        })
    })
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// The parts that a chain of one operator joins. On the left, parentheses make no part of its own, as in PostgreSQL.
fn chain<'e>(expr: &'e Expr, wanted: &BinaryOperator, is_pretty: bool, parts: &mut Vec<&'e Expr>) {
    match unnested(expr) {
        Expr::BinaryOp { left, op, right } if op == wanted => {
            chain(left, wanted, is_pretty, parts);
            if is_pretty { chain(right, wanted, is_pretty, parts) } else { parts.push(right) }
        }
        other => parts.push(other),
    }
}

/// A side of an operator, which stands alone if it is pretty and of an operator that binds as PostgreSQL knows it.
fn side(source: &Source<'_>, expr: &Expr, op: &BinaryOperator, is_pretty: bool, is_left: bool) -> String {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    let is_loose = is_pretty
        && match (unnested(expr), op) {
            (Expr::BinaryOp { op: Plus | Minus, .. }, Plus | Minus) => is_left,
            (Expr::BinaryOp { op: Multiply | Divide | Modulo, .. }, Plus | Minus) => true,
            (Expr::BinaryOp { op: Multiply | Divide | Modulo, .. }, Multiply | Divide | Modulo) => is_left,
            _ => false,
        };
    part(source, expr, is_pretty, is_loose)
}
