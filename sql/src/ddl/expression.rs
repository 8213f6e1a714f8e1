//! Conditions and constants of statements as rows have them: the texts of their expressions.
//!
//! Rows' expressions have the same value for the same row for ever, so what depends on the time, the session or chance
//! is not among them. Casts of literals are read as what they make; names are in quotes where they need them.

use quipu_rows::{DataType, Decimal, Value};
use sqlparser::ast::{
    BinaryOperator, CastKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value as Literal,
};

use crate::catalogue::computed;
use crate::ddl::{column_types, names};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::types::user::{NoTypes, TypeNames, UserType};
use crate::types::{BaseType, SqlType};

/// What names in an expression mean.
#[derive(Clone, Copy)]
pub struct Known<'k> {
    /// The types of columns, by name.
    pub columns: &'k dyn Fn(&str) -> Option<SqlType>,
    /// Types that users have made.
    pub types: &'k dyn TypeNames,
}

#[cold]
fn unsupported(expression: &Expr) -> SqlError {
    let hint = "Conditions of constraints and indexes have comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, LIKE, \
                arithmetic, and the functions lower, upper, trim, length, substr, abs, date and extract.";
    SqlError::unsupported(format!("cannot use this expression here: {expression}"), hint)
}

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The names of columns that an expression reads, each once.
pub fn columns_of(expression: &Expr) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let note = std::cell::RefCell::new(&mut found);
    // Reading it as rows would tells each column that it names.
    let see = |name: &str| {
        let mut found = note.borrow_mut();
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
        Some(SqlType::UNKNOWN)
    };
    let _ = text(expression, Known { columns: &see, types: &NoTypes });
    found
}

/// An expression as rows have it, or, if they do not have it, in SQL's words. `place` says where it stands.
///
/// # Errors
/// Those of [`text`], and of [`in_rows`](crate::catalogue::computed::in_rows).
pub fn text_or_words(expression: &Expr, known: Known<'_>, place: &str) -> Result<String> {
    match text(expression, known) {
        Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
            let found = computed::in_rows(expression, known.columns, place)?;
            found.map(|(text, _)| text).ok_or(error)
        }
        text => text,
    }
}

/// The type in SQL of an expression of an index.
///
/// # Errors
/// Those of [`in_rows`](crate::catalogue::computed::in_rows).
pub fn type_in_words(expression: &Expr, columns: &dyn Fn(&str) -> Option<SqlType>) -> Result<SqlType> {
    let found = computed::in_rows(expression, columns, computed::INDEX_EXPRESSION);
    Ok(found.ok().flatten().map_or(SqlType::TEXT, |(_, sql_type)| sql_type))
}

/// The parts of a row of AND or of OR, which is one level to rows and as deep as it is long to the parser.
fn row_of<'e>(expression: &'e Expr, wanted: &BinaryOperator) -> Vec<&'e Expr> {
    let (mut parts, mut next) = (Vec::new(), expression);
    while let Expr::BinaryOp { left, op, right } = next
        && op == wanted
    {
        parts.push(&**right);
        next = left;
    }
    parts.push(next);
    parts.reverse();
    parts
}

/// An expression as rows have it.
///
/// # Errors
/// [`UNDEFINED_COLUMN`](SqlState::UNDEFINED_COLUMN), and [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) for
/// what rows do not have.
pub fn text(expression: &Expr, known: Known<'_>) -> Result<String> {
    let text = |part: &Expr| text(part, known);
    // A literal beside an enum is one of its labels.
    let beside = |part: &Expr, other: &Expr| match (part, enum_of(other, known)) {
        (Expr::Value(value), Some(user)) => match &value.value {
            Literal::SingleQuotedString(label) => place_of(label, user),
            _ => text(part),
        },
        _ => text(part),
    };
    let two = |left: &Expr, sign: &str, right: &Expr| {
        Ok(format!("({} {sign} {})", beside(left, right)?, beside(right, left)?))
    };
    let list = |parts: &[Expr], other: &Expr| {
        let parts: Result<Vec<String>> = parts.iter().map(|part| beside(part, other)).collect();
        parts.map(|parts| parts.join(", "))
    };
    let not = |is_negated: bool| if is_negated { "NOT " } else { "" };
    match expression {
        Expr::Identifier(ident) => column(&folded(ident), known),
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(ident) => column(&folded(ident), known),
            None => Err(unsupported(expression)),
        },
        Expr::Value(value) => literal(&value.value).ok_or_else(|| unsupported(expression)),
        Expr::Nested(part) => text(part),
        Expr::TypedString(typed) => match &typed.value.value {
            Literal::SingleQuotedString(value) => {
                typed_literal(value, column_types::of(&typed.data_type, known.types)?, expression)
            }
            _ => Err(unsupported(expression)),
        },
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            cast(expr, column_types::of(data_type, known.types)?, known, expression)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(format!("(NOT {})", text(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(format!("(-{})", text(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => text(expr),
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
            let word = if *op == BinaryOperator::And { " AND " } else { " OR " };
            let parts: Result<Vec<String>> = row_of(expression, op).into_iter().map(text).collect();
            Ok(format!("({})", parts?.join(word)))
        }
        Expr::BinaryOp { left, op, right } => match sign(op) {
            Some("+" | "-" | "*" | "/" | "%") if !may_be_number(left, known) || !may_be_number(right, known) => {
                Err(unsupported(expression))
            }
            Some("LIKE" | "NOT LIKE") if !is_pattern(right) => Err(unsupported(expression)),
            Some(sign) => two(left, sign, right),
            None => Err(unsupported(expression)),
        },
        Expr::IsNull(part) => Ok(format!("({} IS NULL)", perhaps_packed(part, known)?)),
        Expr::IsNotNull(part) => Ok(format!("({} IS NOT NULL)", perhaps_packed(part, known)?)),
        Expr::IsTrue(part) => text(part).map(|part| format!("({part} AND {part} IS NOT NULL)")),
        Expr::IsNotFalse(part) => text(part).map(|part| format!("({part} OR {part} IS NULL)")),
        Expr::IsFalse(part) => text(part).map(|part| format!("((NOT {part}) AND {part} IS NOT NULL)")),
        Expr::IsNotTrue(part) => text(part).map(|part| format!("((NOT {part}) OR {part} IS NULL)")),
        Expr::InList { expr, list: parts, negated } => {
            Ok(format!("({} {}IN ({}))", text(expr)?, not(*negated), list(parts, expr)?))
        }
        Expr::Between { expr, negated, low, high } => {
            Ok(format!("({} {}BETWEEN {} AND {})", text(expr)?, not(*negated), beside(low, expr)?, beside(high, expr)?))
        }
        Expr::Like { negated, any: false, expr, pattern, escape_char: None } if is_pattern(pattern) => {
            Ok(format!("({} {}LIKE {})", text(expr)?, not(*negated), text(pattern)?))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match elements(right) {
            Some(parts) => Ok(format!("({} IN ({}))", text(left)?, list(parts, left)?)),
            None => Err(unsupported(expression)),
        },
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => match elements(right) {
            Some(parts) => Ok(format!("({} NOT IN ({}))", text(left)?, list(parts, left)?)),
            None => Err(unsupported(expression)),
        },
        Expr::Function(function) => call(function, expression, known),
        Expr::Extract { field, expr, .. } => match field {
            DateTimeField::Year => Ok(format!("year({})", text(expr)?)),
            DateTimeField::Month => Ok(format!("month({})", text(expr)?)),
            DateTimeField::Day => Ok(format!("day({})", text(expr)?)),
            _ => Err(unsupported(expression)),
        },
        Expr::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
            Ok(format!("trim({})", text(expr)?))
        }
        Expr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
            let length = substring_for.as_ref().map(|length| text(length)).transpose()?;
            let length = length.map(|length| format!(", {length}")).unwrap_or_default();
            Ok(format!("substr({}, {}{length})", text(expr)?, text(from)?))
        }
        other => Err(unsupported(other)),
    }
}

/// Whether it is a pattern of LIKE that does not end with its escape, of which rows make no error of SQL.
fn is_pattern(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(part) | Expr::Cast { expr: part, .. } => is_pattern(part),
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => {
                text.bytes().rev().take_while(|byte| *byte == b'\\').count().is_multiple_of(2)
            }
            _ => false,
        },
        _ => false,
    }
}

/// The type that a column, or a cast, is of.
fn said_type(expression: &Expr, known: Known<'_>) -> Option<SqlType> {
    let sql_type = match expression {
        Expr::Identifier(ident) => (known.columns)(&folded(ident)),
        Expr::CompoundIdentifier(parts) => (known.columns)(&folded(parts.last()?)),
        Expr::Cast { data_type, .. } => column_types::of(data_type, known.types).ok(),
        Expr::TypedString(typed) => column_types::of(&typed.data_type, known.types).ok(),
        Expr::Nested(part) => return said_type(part, known),
        _ => None,
    };
    sql_type.map(SqlType::without_domain)
}

/// The enum that a column, or a cast, is of.
fn enum_of(expression: &Expr, known: Known<'_>) -> Option<UserType> {
    match said_type(expression, known)?.base {
        BaseType::Enum(user) => Some(user),
        _ => None,
    }
}

/// Whether rows may compute with it: they know numbers alone.
fn may_be_number(expression: &Expr, known: Known<'_>) -> bool {
    said_type(expression, known)
        .is_none_or(|sql_type| sql_type == SqlType::UNKNOWN || sql_type.base.is_number() && !sql_type.is_array)
}

/// The number that a label is in rows.
fn place_of(label: &str, user: UserType) -> Result<String> {
    match crate::types::text::parse_label(label, user)?.to_value() {
        Some(Value::Float(order)) if order < 0.0 => Ok(format!("({order})")),
        Some(Value::Float(order)) => Ok(order.to_string()),
        _ => Ok("NULL".to_owned()),
    }
}

/// A column of any type, or an expression.
fn perhaps_packed(part: &Expr, known: Known<'_>) -> Result<String> {
    match part {
        Expr::Identifier(ident) => {
            let name = folded(ident);
            let is_packed = (known.columns)(&name).is_some_and(SqlType::is_packed);
            if is_packed { Ok(crate::dialect::quoted(&name)) } else { text(part, known) }
        }
        other => text(other, known),
    }
}

/// The refusal of a column whose values expressions of rows do not know.
#[cold]
fn packed(name: &str, sql_type: SqlType) -> SqlError {
    let what = format!("cannot use the column \"{name}\" of type {sql_type} here");
    SqlError::unsupported(what, "Use a column of another type.")
}

/// Refuses columns of a key whose values have no order in keys.
pub fn refuse_unsorted(key: &[String], columns: &dyn Fn(&str) -> Option<SqlType>) -> Result<()> {
    key.iter().try_for_each(|name| match columns(name) {
        Some(sql_type) if !sql_type.is_sorted() => {
            let what = format!("cannot use the column \"{name}\" of type {sql_type} in a key or an index");
            Err(SqlError::unsupported(what, "Use a table of its own for the values, or a column of another type."))
        }
        _ => Ok(()),
    })
}

fn column(name: &str, known: Known<'_>) -> Result<String> {
    match (known.columns)(name) {
        Some(sql_type) if sql_type.is_packed() => Err(packed(name, sql_type)),
        Some(_) => Ok(crate::dialect::quoted(name)),
        None => Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))),
    }
}

fn sign(operator: &BinaryOperator) -> Option<&'static str> {
    Some(match operator {
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::And => "AND",
        BinaryOperator::Or => "OR",
        BinaryOperator::PGLikeMatch => "LIKE",
        BinaryOperator::PGNotLikeMatch => "NOT LIKE",
        _ => return None,
    })
}

/// The elements of `ARRAY[...]`, also where it is cast.
fn elements(expression: &Expr) -> Option<&[Expr]> {
    match expression {
        Expr::Array(array) if !array.elem.is_empty() => Some(&array.elem),
        Expr::Nested(part) => elements(part),
        Expr::Cast { expr, .. } => elements(expr),
        _ => None,
    }
}

fn literal(value: &Literal) -> Option<String> {
    Some(match value {
        Literal::Number(number, _) => number_literal(number),
        Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => text_literal(text),
        Literal::DollarQuotedString(text) => text_literal(&text.value),
        Literal::Boolean(true) => "TRUE".to_owned(),
        Literal::Boolean(false) => "FALSE".to_owned(),
        Literal::Null => "NULL".to_owned(),
        _ => return None,
    })
}

/// Whether a number is a value of a type as it stands.
fn is_exact(number: &str, sql_type: SqlType) -> bool {
    let held = sql_type.column_type().filter(|held| sql_type.base.is_number() && !is_fitted(sql_type, *held));
    held.is_some_and(|held| number_of(number, held).is_some())
}

/// A number as expressions of rows write it: of more digits than their own numbers have, with its type before it.
fn number_literal(number: &str) -> String {
    let is_plain = Decimal::parse(number).is_some()
        || number.parse().is_ok_and(|float: f64| float.is_finite() && number.contains(['e', 'E']));
    match DataType::Numeric.parse_text(number) {
        Ok(long) if !is_plain => format!("NUMERIC {}", text_literal(&long.to_string())),
        _ => number.to_owned(),
    }
}

/// Whether values of a type are rounded to what it declares, by statements and not by rows.
fn is_fitted(sql_type: SqlType, held: DataType) -> bool {
    let is_long = held == DataType::Numeric && sql_type.precision_and_scale().is_some();
    is_long || sql_type.second_digits().is_some()
}

/// A literal in quotes, of a type.
fn typed_literal(value: &str, sql_type: SqlType, expression: &Expr) -> Result<String> {
    let wrong = |_| {
        let what = format!("invalid input syntax for type {sql_type}: \"{value}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    };
    if let BaseType::Enum(user) = sql_type.base {
        return place_of(value, user);
    }
    let is_written = sql_type.is_held_as_written();
    let held = sql_type
        .column_type()
        .filter(|held| is_written && !is_fitted(sql_type, *held))
        .ok_or_else(|| unsupported(expression))?;
    let word = match held {
        DataType::Text(_) => return Ok(text_literal(value)),
        DataType::Date => "DATE",
        DataType::Timestamp => "TIMESTAMP",
        DataType::Uuid => "UUID",
        DataType::Json => "JSON",
        DataType::Numeric => {
            let number = held.parse_text(value.trim()).map_err(wrong)?;
            return Ok(number_literal(&number.to_string()));
        }
        DataType::Bool | DataType::Decimal { .. } | DataType::F32 | DataType::F64 => {
            return held.parse_text(value.trim()).map(|value| value.to_string()).map_err(wrong);
        }
        _ if sql_type.base.is_number() || sql_type.base.is_oid() => {
            return held.parse_text(value.trim()).map(|value| value.to_string()).map_err(wrong);
        }
        _ => return Err(unsupported(expression)),
    };
    held.parse_text(value).map_err(wrong)?;
    Ok(format!("{word} {}", text_literal(value)))
}

/// What a cast makes of an expression: of a literal what it reads as, of others the same where that is right.
fn cast(part: &Expr, sql_type: SqlType, known: Known<'_>, whole: &Expr) -> Result<String> {
    match part {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(value) => typed_literal(value, sql_type, whole),
            Literal::Null => Ok("NULL".to_owned()),
            Literal::Number(number, _) if is_exact(number, sql_type) => text(part, known),
            _ => Err(unsupported(whole)),
        },
        Expr::Nested(part) => cast(part, sql_type, known, whole),
        Expr::UnaryOp { op: UnaryOperator::Minus, .. } if constant(part, sql_type, known.types).is_some() => {
            text(part, known)
        }
        Expr::Identifier(ident) if sql_type.length().is_none() => {
            let declared = (known.columns)(&folded(ident));
            // What a type declares may round a value.
            if sql_type.modifier >= 0 && declared != Some(sql_type) {
                return Err(unsupported(whole));
            }
            let is_same = declared.is_some_and(|declared| {
                declared.base == sql_type.base || declared.base.is_text() && sql_type.base.is_text()
            });
            match is_same || declared.is_none() {
                true => text(part, known),
                false
                    if declared.is_some_and(|declared| declared.base == BaseType::Timestamp)
                        && sql_type.base == BaseType::Date =>
                {
                    Ok(format!("date({})", text(part, known)?))
                }
                false => Err(unsupported(whole)),
            }
        }
        // lower(name)::text, as PostgreSQL writes it.
        Expr::Function(_) | Expr::Trim { .. } | Expr::Substring { .. } if sql_type.base.is_text() => text(part, known),
        _ => Err(unsupported(whole)),
    }
}

fn call(function: &Function, whole: &Expr, known: Known<'_>) -> Result<String> {
    let FunctionArguments::List(list) = &function.args else { return Err(unsupported(whole)) };
    let parts = names::parts(&function.name)?;
    let name = match parts.last().map(|name| &**name) {
        Some("lower") => "lower",
        Some("upper") => "upper",
        Some("btrim" | "trim") if list.args.len() == 1 => "trim",
        Some("length" | "char_length" | "character_length") => "length",
        Some("substr" | "substring") => "substr",
        Some("abs") => "abs",
        Some("date") => "date",
        _ => return Err(unsupported(whole)),
    };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => text(part, known),
        _ => Err(unsupported(whole)),
    };
    let arguments = list.args.iter().map(argument).collect::<Result<Vec<_>>>()?;
    Ok(format!("{name}({})", arguments.join(", ")))
}

/// The default of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnDefault {
    /// None, or NULL.
    None,
    /// A constant, as rows have it.
    Constant(String),
    /// Something that statements of SQL evaluate.
    Computed(String),
}

impl ColumnDefault {
    /// The default that an expression is, for a column of this type.
    pub fn of(expression: &Expr, sql_type: SqlType, types: &dyn TypeNames) -> ColumnDefault {
        let sql_type = sql_type.without_domain();
        match constant(expression, sql_type, types) {
            Some(Value::Null) => ColumnDefault::None,
            Some(Value::Float(order)) if matches!(sql_type.base, BaseType::Enum(_)) => {
                ColumnDefault::Constant(order.to_string())
            }
            Some(Value::Numeric(number)) => ColumnDefault::Constant(number_literal(&number)),
            Some(_) => match text(expression, Known { columns: &|_| None, types }) {
                Ok(text) => ColumnDefault::Constant(text),
                Err(_) => ColumnDefault::Computed(expression.to_string()),
            },
            None => ColumnDefault::Computed(expression.to_string()),
        }
    }
}

/// The value of a literal as a column of a type holds it; none if it is no literal, or no value of the type.
pub fn constant(expression: &Expr, sql_type: SqlType, types: &dyn TypeNames) -> Option<Value<'static>> {
    let held = sql_type.column_type().filter(|_| sql_type.is_held_as_written())?;
    if is_fitted(sql_type, held) {
        return None;
    }
    let fits = |text: &str| sql_type.length().is_none_or(|length| text.chars().count() <= length as usize);
    match expression {
        Expr::Nested(part) => constant(part, sql_type, types),
        Expr::Cast { expr, data_type, .. } => {
            let cast = column_types::of(data_type, types).ok()?;
            let is_same = cast.base == sql_type.base || cast.base.is_text() && sql_type.base.is_text();
            // A number or a text in quotes is what the column makes of it.
            if is_same || matches!(**expr, Expr::Value(_)) && cast.base.is_number() && sql_type.base.is_number() {
                constant(expr, sql_type, types)
            } else {
                None
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => match &value.value {
                Literal::Number(number, _) => number_of(&format!("-{number}"), held),
                _ => None,
            },
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Literal::Null => Some(Value::Null),
            Literal::Boolean(value) if held == DataType::Bool => Some(Value::Bool(*value)),
            Literal::Number(number, _) => number_of(number, held),
            Literal::SingleQuotedString(text) if matches!(held, DataType::Text(_)) => {
                fits(text).then(|| Value::from(text.clone()))
            }
            Literal::SingleQuotedString(text) => match sql_type.base {
                BaseType::Enum(user) => user.order_of(text).map(Value::Float),
                _ => held.parse_text(text).ok().map(Value::into_owned),
            },
            _ => None,
        },
        _ => None,
    }
}

fn number_of(number: &str, held: DataType) -> Option<Value<'static>> {
    if held == DataType::Numeric {
        return held.parse_text(number).ok().map(Value::into_owned);
    }
    let value = match number.parse::<i128>() {
        Ok(int) => Value::Int(int),
        Err(_) => match Decimal::parse(number) {
            Some(decimal) if matches!(held, DataType::F32 | DataType::F64) => Value::Float(decimal.to_f64()),
            Some(decimal) => Value::Decimal(decimal),
            None => Value::Float(number.parse().ok()?),
        },
    };
    held.accept(value).ok().map(Value::into_owned)
}
