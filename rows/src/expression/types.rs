//! The types of an expression, before any row: what cannot be compared or computed is refused here.
//!
//! A text that is compared with a value of a type that has no literal of its own (a date, a UUID) is read as one.

use crate::expression::name::ColumnName;
use crate::expression::node::{Arithmetic, Function, Node};
use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::DIGITS_MAX;

/// The type of the node's values; none if they are all NULL.
type Type = Option<DataType>;

/// Types whose values compare with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Bool,
    Number,
    Text,
    Bytes,
    /// No expression compares them: their order is not that of their bytes.
    KeyedBytes,
    Date,
    Timestamp,
    Uuid,
    Json,
}

fn family(data_type: DataType) -> Family {
    match data_type {
        DataType::Bool => Family::Bool,
        DataType::Text(_) => Family::Text,
        DataType::Bytes => Family::Bytes,
        DataType::KeyedBytes => Family::KeyedBytes,
        DataType::Date => Family::Date,
        DataType::Timestamp => Family::Timestamp,
        DataType::Uuid => Family::Uuid,
        DataType::Json => Family::Json,
        _ => Family::Number,
    }
}

/// The type of a literal.
fn type_of(value: &Value<'_>) -> Type {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => DataType::Bool,
        Value::Int(_) => DataType::I64,
        Value::Float(_) => DataType::F64,
        Value::Decimal(decimal) => DataType::Decimal { precision: DIGITS_MAX, scale: decimal.scale() },
        Value::Numeric(_) => DataType::Numeric,
        Value::Text(_) => DataType::TEXT,
        Value::Bytes(_) => DataType::Bytes,
        Value::Date(_) => DataType::Date,
        Value::Timestamp(_) => DataType::Timestamp,
        Value::Uuid(_) => DataType::Uuid,
        Value::Json(_) => DataType::Json,
    })
}

/// Checks the node and all its parts.
///
/// # Errors
/// Which types do not go together.
pub(crate) fn check(node: &mut Node, columns: &[ColumnName<'_>]) -> Result<Type, String> {
    match node {
        Node::Literal(value) => Ok(type_of(value)),
        Node::Column(place) => Ok(Some(columns[*place].data_type)),
        Node::Negate(part) => match check(part, columns)? {
            Some(other) if family(other) != Family::Number => Err(format!("`-` takes a number, not {other}")),
            number => Ok(number.map(|number| arithmetic_type(Arithmetic::Subtract, number, number))),
        },
        Node::Not(part) => condition(part, columns, "NOT"),
        Node::And(parts) => conditions(parts, columns, "AND"),
        Node::Or(parts) => conditions(parts, columns, "OR"),
        Node::Compare { comparison, is_collated, sides } => {
            *is_collated = comparable(&mut sides[..], columns, comparison.text())?;
            Ok(Some(DataType::Bool))
        }
        Node::In { is_collated, parts, .. } => {
            *is_collated = comparable(parts, columns, "IN")?;
            Ok(Some(DataType::Bool))
        }
        Node::Between { is_collated, parts, .. } => {
            *is_collated = comparable(&mut parts[..], columns, "BETWEEN")?;
            Ok(Some(DataType::Bool))
        }
        Node::Like { sides, .. } => {
            for side in &mut sides[..] {
                match check(side, columns)? {
                    None | Some(DataType::TEXT) => {}
                    Some(DataType::Text(_)) => {
                        return Err("LIKE compares character by character, which text(unicode) does not".to_owned());
                    }
                    Some(other) => return Err(format!("LIKE takes text, not {other}")),
                }
            }
            Ok(Some(DataType::Bool))
        }
        Node::IsNull { part, .. } => {
            check(part, columns)?;
            Ok(Some(DataType::Bool))
        }
        Node::Arithmetic { operator, sides } => {
            let operator = *operator;
            let number = |side: &mut Node| match check(side, columns)? {
                Some(other) if family(other) != Family::Number => {
                    Err(format!("`{}` takes numbers, not {other}", operator.text()))
                }
                number => Ok(number),
            };
            let (a, b) = (number(&mut sides[0])?, number(&mut sides[1])?);
            Ok(a.zip(b).map(|(a, b)| arithmetic_type(operator, a, b)))
        }
        Node::Call { function, arguments } => call(*function, arguments, columns),
        Node::Computed { computed, arguments } => {
            arguments.iter_mut().try_for_each(|part| check(part, columns).map(drop))?;
            Ok(Some(computed.data_type))
        }
    }
}

fn condition(part: &mut Node, columns: &[ColumnName<'_>], what: &str) -> Result<Type, String> {
    match check(part, columns)? {
        None | Some(DataType::Bool) => Ok(Some(DataType::Bool)),
        Some(other) => Err(format!("{what} takes conditions, not {other}")),
    }
}

fn conditions(parts: &mut [Node], columns: &[ColumnName<'_>], what: &str) -> Result<Type, String> {
    parts.iter_mut().try_for_each(|part| condition(part, columns, what).map(drop))?;
    Ok(Some(DataType::Bool))
}

/// Checks that all parts compare with each other, and whether they do so without case and accents.
fn comparable(parts: &mut [Node], columns: &[ColumnName<'_>], what: &str) -> Result<bool, String> {
    let types: Vec<Type> = parts.iter_mut().map(|part| check(part, columns)).collect::<Result<_, _>>()?;
    // The first type that is no text of a literal decides.
    let is_text_literal = |part: &Node| matches!(part, Node::Literal(Value::Text(_)));
    let decided =
        parts.iter().zip(&types).filter(|(part, _)| !is_text_literal(part)).find_map(|(_, data_type)| *data_type);
    let Some(decided) = decided.or_else(|| types.iter().find_map(|data_type| *data_type)) else { return Ok(false) };
    if decided == DataType::KeyedBytes {
        return Err(format!("`{what}` cannot compare {decided}"));
    }
    for (part, data_type) in parts.iter_mut().zip(&types) {
        let Some(data_type) = *data_type else { continue };
        if family(data_type) == family(decided) {
            continue;
        }
        match (&*part, family(decided)) {
            (Node::Literal(Value::Text(text)), _) if decided == DataType::Numeric => {
                *part = Node::Literal(decided.parse_text(text)?.into_owned());
            }
            (
                Node::Literal(Value::Text(text)),
                Family::Bytes | Family::Date | Family::Timestamp | Family::Uuid | Family::Json,
            ) => *part = Node::Literal(decided.parse_text(text)?.into_owned()),
            _ => return Err(format!("`{what}` cannot compare {decided} with {data_type}")),
        }
    }
    Ok(types.iter().flatten().any(|data_type| data_type.is_collated()))
}

/// The type of a result.
fn arithmetic_type(operator: Arithmetic, a: DataType, b: DataType) -> DataType {
    let scale = |data_type: DataType| match data_type {
        DataType::Decimal { scale, .. } => Some(scale),
        DataType::F32 | DataType::F64 => None,
        _ => Some(0),
    };
    if a.int_range().is_some() && b.int_range().is_some() {
        return DataType::I64;
    }
    let has_floats = [a, b].iter().any(|side| matches!(side, DataType::F32 | DataType::F64));
    if !has_floats && (a == DataType::Numeric || b == DataType::Numeric) {
        return DataType::Numeric;
    }
    let (Some(a), Some(b)) = (scale(a), scale(b)) else { return DataType::F64 };
    let scale = match operator {
        Arithmetic::Multiply => (a + b).min(DIGITS_MAX),
        Arithmetic::Divide => a.max(b).max(6),
        _ => a.max(b),
    };
    DataType::Decimal { precision: DIGITS_MAX, scale }
}

fn call(function: Function, arguments: &mut [Node], columns: &[ColumnName<'_>]) -> Result<Type, String> {
    let types: Vec<Type> = arguments.iter_mut().map(|part| check(part, columns)).collect::<Result<_, _>>()?;
    let name = function.name();
    let (count, taken) = match function {
        Function::Substr => (2..=3, "2 or 3 arguments"),
        _ => (1..=1, "1 argument"),
    };
    if !count.contains(&types.len()) {
        return Err(format!("{name} takes {taken}, not {}", types.len()));
    }
    let is = |place: usize, families: &[Family], what: &str| match types.get(place).copied().flatten() {
        Some(other) if !families.contains(&family(other)) => Err(format!("{name} takes {what}, not {other}")),
        _ => Ok(()),
    };
    match function {
        Function::Lower | Function::Upper | Function::Trim => {
            is(0, &[Family::Text], "text")?;
            Ok(Some(types[0].unwrap_or(DataType::TEXT)))
        }
        Function::Length => {
            is(0, &[Family::Text, Family::Bytes], "text or bytes")?;
            Ok(Some(DataType::I64))
        }
        Function::Substr => {
            is(0, &[Family::Text], "text")?;
            if types[1..].iter().flatten().any(|data_type| data_type.int_range().is_none()) {
                return Err(format!("{name} takes text and whole numbers"));
            }
            Ok(Some(types[0].unwrap_or(DataType::TEXT)))
        }
        Function::Abs => {
            is(0, &[Family::Number], "a number")?;
            Ok(types[0].map(|number| arithmetic_type(Arithmetic::Subtract, number, number)))
        }
        Function::Year | Function::Month | Function::Day => {
            is(0, &[Family::Date, Family::Timestamp], "a date or a timestamp")?;
            Ok(Some(DataType::I64))
        }
        Function::Date => {
            is(0, &[Family::Date, Family::Timestamp], "a date or a timestamp")?;
            Ok(Some(DataType::Date))
        }
    }
}
