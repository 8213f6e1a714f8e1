//! A small evaluator of expressions, so that tests can be written as SQL: literals, casts, calls and operators.

use std::sync::Arc;

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement, Value};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::tests::environment::Fixed;
use crate::functions::{Call, common_type_of, resolve_function, resolve_operator};
use crate::types::cast::{CastContext, can_cast, cast};
use crate::types::datum::{Array, Datum};
use crate::types::{BaseType, SqlType, text};

type Typed = (SqlType, Datum);

/// The type and the text of an expression's value, or the state and the message of its error.
pub(crate) fn show(expression: &str, environment: &Fixed) -> String {
    let shown = evaluate_text(expression, environment).and_then(|(sql_type, value)| {
        let (sql_type, value) = match sql_type {
            SqlType::UNKNOWN => (SqlType::TEXT, value),
            known => (known, value),
        };
        let written = match &value {
            Datum::Null => "NULL".to_owned(),
            value => text::to_string(value, sql_type, environment)?,
        };
        Ok(format!("{}|{}", sql_type.bare(), written.replace('\n', "\\n")))
    });
    shown.unwrap_or_else(|error| format!("!{} {}", error.state().code(), error.message()))
}

/// The value of an expression, and its type.
pub(crate) fn evaluate_text(expression: &str, environment: &Fixed) -> Result<Typed> {
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, &format!("SELECT {expression}"));
    let statement = statement.map_err(|error| SqlError::new(SqlState::SYNTAX_ERROR, error.to_string()))?;
    let unsupported = || SqlError::new(SqlState::SYNTAX_ERROR, "no expression");
    let [Statement::Query(query)] = &statement[..] else { return Err(unsupported()) };
    let SetExpr::Select(select) = &*query.body else { return Err(unsupported()) };
    let [SelectItem::UnnamedExpr(expression)] = &select.projection[..] else { return Err(unsupported()) };
    evaluate(expression, environment)
}

fn run(call: &Call, arguments: Vec<Typed>, environment: &Fixed) -> Result<Typed> {
    let cast_to = |(typed, to): (Typed, &SqlType)| cast(typed.1, typed.0, *to, CastContext::Implicit, environment);
    let values = arguments.into_iter().zip(&call.arguments).map(cast_to).collect::<Result<Vec<_>>>()?;
    Ok((call.returns, call.run(environment, &values)?))
}

fn function(name: &str, arguments: Vec<Typed>, environment: &Fixed) -> Result<Typed> {
    let types: Vec<SqlType> = arguments.iter().map(|typed| typed.0).collect();
    run(&resolve_function(name, &types)?, arguments, environment)
}

fn operator(symbol: &str, left: Option<Typed>, right: Typed, environment: &Fixed) -> Result<Typed> {
    let call = resolve_operator(symbol, left.as_ref().map(|typed| typed.0), right.0)?;
    run(&call, left.into_iter().chain([right]).collect(), environment)
}

/// The type that a cast names.
pub(crate) fn named_type(name: &str) -> Result<SqlType> {
    let lower = name.to_lowercase();
    let (lower, is_array) = lower.strip_suffix("[]").map_or((lower.as_str(), false), |element| (element, true));
    let (base, parentheses) = lower.split_once('(').unwrap_or((lower, ""));
    let numbers: Vec<u32> =
        parentheses.trim_end_matches(')').split(',').filter_map(|number| number.trim().parse().ok()).collect();
    let known = |base: &str| BaseType::all().find(|known| known.catalogue_name() == base.trim());
    let base = match base.trim() {
        "int" | "integer" => BaseType::Int4,
        "bigint" => BaseType::Int8,
        "smallint" => BaseType::Int2,
        "real" => BaseType::Float4,
        "float" | "double precision" => BaseType::Float8,
        "boolean" => BaseType::Bool,
        "decimal" => BaseType::Numeric,
        "char" | "character" => BaseType::Char,
        "character varying" => BaseType::Varchar,
        "\"char\"" => BaseType::SingleChar,
        "timestamp with time zone" => BaseType::TimestampTz,
        name => known(name).ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type {name}")))?,
    };
    let declared = match (base, &numbers[..]) {
        (BaseType::Numeric, [precision]) => SqlType::numeric(*precision as u16, 0),
        (BaseType::Numeric, [precision, scale]) => SqlType::numeric(*precision as u16, *scale as i16),
        (BaseType::Char, []) if !is_array => SqlType::of_length(base, 1),
        (_, [length]) => SqlType::of_length(base, *length),
        _ => base.into(),
    };
    Ok(SqlType { is_array, ..declared })
}

fn number(digits: &str) -> Result<Typed> {
    if let Ok(value) = digits.parse::<i64>() {
        let fits = i32::try_from(value).is_ok();
        return Ok((if fits { SqlType::INT4 } else { SqlType::INT8 }, Datum::Int(value)));
    }
    Ok((BaseType::Numeric.into(), text::parse(digits, BaseType::Numeric.into(), &Fixed::new())?))
}

fn cast_written(typed: Typed, to: SqlType, environment: &Fixed) -> Result<Typed> {
    if !can_cast(typed.0, to, CastContext::Explicit) {
        let message = format!("cannot cast type {} to {}", typed.0.bare(), to.bare());
        return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
    }
    Ok((to, cast(typed.1, typed.0, to, CastContext::Explicit, environment)?))
}

fn evaluate(expression: &Expr, environment: &Fixed) -> Result<Typed> {
    let text_literal = |text: &str| (SqlType::UNKNOWN, Datum::text(text));
    let inner = |expression: &Expr| evaluate(expression, environment);
    match expression {
        Expr::Nested(nested) => inner(nested),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => number(digits),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text_literal(text)),
            Value::Boolean(value) => Ok((SqlType::BOOL, Datum::Bool(*value))),
            Value::Null => Ok((SqlType::UNKNOWN, Datum::Null)),
            other => Err(SqlError::new(SqlState::SYNTAX_ERROR, other.to_string())),
        },
        Expr::TypedString(typed) => {
            let literal = typed.value.value.clone().into_string().unwrap_or_default();
            cast_written(text_literal(&literal), named_type(&typed.data_type.to_string())?, environment)
        }
        Expr::Interval(interval) => cast_written(inner(&interval.value)?, BaseType::Interval.into(), environment),
        Expr::Cast { expr, data_type, .. } => {
            cast_written(inner(expr)?, named_type(&data_type.to_string())?, environment)
        }
        Expr::UnaryOp { op, expr } => operator(&op.to_string(), None, inner(expr)?, environment),
        Expr::BinaryOp { left, op, right } => operator(&op.to_string(), Some(inner(left)?), inner(right)?, environment),
        Expr::Like { expr, pattern, .. } => operator("~~", Some(inner(expr)?), inner(pattern)?, environment),
        Expr::ILike { expr, pattern, .. } => operator("~~*", Some(inner(expr)?), inner(pattern)?, environment),
        Expr::SimilarTo { expr, pattern, .. } => {
            let pattern = function("similar_to_escape", vec![inner(pattern)?], environment)?;
            operator("~", Some(inner(expr)?), pattern, environment)
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            function("timezone", vec![inner(time_zone)?, inner(timestamp)?], environment)
        }
        Expr::Extract { field, expr, .. } => {
            function("extract", vec![text_literal(&field.to_string().to_lowercase()), inner(expr)?], environment)
        }
        Expr::Ceil { expr, .. } => function("ceil", vec![inner(expr)?], environment),
        Expr::Floor { expr, .. } => function("floor", vec![inner(expr)?], environment),
        Expr::Position { expr, r#in } => function("position", vec![inner(r#in)?, inner(expr)?], environment),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let parts = [Some(expr), substring_from.as_ref(), substring_for.as_ref()];
            let arguments = parts.into_iter().flatten().map(|part| inner(part)).collect::<Result<_>>()?;
            function("substring", arguments, environment)
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let parts = [Some(expr), Some(overlay_what), Some(overlay_from), overlay_for.as_ref()];
            let arguments = parts.into_iter().flatten().map(|part| inner(part)).collect::<Result<_>>()?;
            function("overlay", arguments, environment)
        }
        Expr::Array(array) => {
            let elements = array.elem.iter().map(inner).collect::<Result<Vec<_>>>()?;
            let types: Vec<SqlType> = elements.iter().map(|typed| typed.0).collect();
            let element = common_type_of("ARRAY", &types)?;
            let fit = |typed: Typed| cast(typed.1, typed.0, element, CastContext::Implicit, environment);
            let elements = elements.into_iter().map(fit).collect::<Result<Vec<_>>>()?;
            let array = Array::new(element.base, elements);
            Ok((SqlType::array_of(element.base), Datum::Array(Arc::new(array))))
        }
        Expr::Tuple(parts) => {
            let fields = parts.iter().map(inner).collect::<Result<Vec<_>>>()?;
            let known = |typed: Typed| if typed.0 == SqlType::UNKNOWN { (SqlType::TEXT, typed.1) } else { typed };
            Ok((BaseType::Record.into(), Datum::record(fields.into_iter().map(known).collect())))
        }
        Expr::Identifier(name) => function(&name.value.to_lowercase(), Vec::new(), environment),
        Expr::Function(called) => {
            let name = called.name.to_string().to_lowercase();
            let FunctionArguments::List(list) = &called.args else { return function(&name, Vec::new(), environment) };
            let mut arguments = Vec::new();
            for argument in &list.args {
                match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => arguments.push(inner(part)?),
                    other => return Err(SqlError::new(SqlState::SYNTAX_ERROR, other.to_string())),
                }
            }
            if name == "row" {
                return Ok((BaseType::Record.into(), Datum::record(arguments)));
            }
            function(&name, arguments, environment)
        }
        other => Err(SqlError::new(SqlState::SYNTAX_ERROR, other.to_string())),
    }
}
