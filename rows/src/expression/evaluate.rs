//! The value of an expression for a row.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::expression::like;
use crate::expression::node::{Arithmetic, Comparison, Function, Node};
use crate::value::decimal::Decimal;
use crate::value::text::text_of;
use crate::value::time::Date;
use crate::value::{Value, collation, compare_floats, number};

/// Why an expression has no value for a row.
#[derive(Debug)]
pub(crate) enum Failed {
    /// An overflow, a division by zero, or a pattern of LIKE that ends with a backslash.
    NoValue(&'static str),
    /// A column could not be read.
    Read(quipu::Error),
}

impl From<quipu::Error> for Failed {
    fn from(error: quipu::Error) -> Failed {
        Failed::Read(error)
    }
}

/// A row whose columns are read by their places.
pub(crate) trait Columns {
    /// The value of the column at this place.
    fn column(&self, place: usize) -> quipu::Result<Value<'_>>;
}

impl Columns for [Value<'_>] {
    fn column(&self, place: usize) -> quipu::Result<Value<'_>> {
        Ok(self[place].borrowed())
    }
}

impl Columns for Vec<Value<'_>> {
    fn column(&self, place: usize) -> quipu::Result<Value<'_>> {
        Ok(self[place].borrowed())
    }
}

const OVERFLOW: Failed = Failed::NoValue("a number has more digits than it can have");
const DIVISION_BY_ZERO: Failed = Failed::NoValue("a division by zero");
const OPEN_PATTERN: Failed = Failed::NoValue("a pattern of LIKE ends with a backslash");

/// The value of a node whose types are checked.
pub(crate) fn evaluate<'r, C: Columns + ?Sized>(node: &'r Node, row: &'r C) -> Result<Value<'r>, Failed> {
    Ok(match node {
        Node::Literal(value) => value.borrowed(),
        Node::Column(place) => row.column(*place)?,
        Node::Negate(part) => match evaluate(part, row)? {
            Value::Int(int) => Value::Int(int.checked_neg().ok_or(OVERFLOW)?),
            Value::Float(float) => Value::Float(-float),
            Value::Decimal(decimal) => {
                let negative = Decimal::from(0).checked_sub(decimal);
                Value::Decimal(negative.ok_or(OVERFLOW)?)
            }
            Value::Numeric(number) => Value::Numeric(number::negated(&number).into()),
            _ => Value::Null,
        },
        Node::Not(part) => match evaluate(part, row)? {
            Value::Bool(value) => Value::Bool(!value),
            _ => Value::Null,
        },
        Node::And(parts) => all(parts, row, false)?,
        Node::Or(parts) => all(parts, row, true)?,
        Node::Compare { comparison, is_collated, sides } => {
            let (a, b) = (evaluate(&sides[0], row)?, evaluate(&sides[1], row)?);
            truth(compare(&a, &b, *is_collated).map(|order| agrees(*comparison, order)))
        }
        Node::In { is_negated, is_collated, parts } => {
            let value = evaluate(&parts[0], row)?;
            let mut found = Some(false);
            for part in &parts[1..] {
                match compare(&value, &evaluate(part, row)?, *is_collated) {
                    Some(Ordering::Equal) => {
                        found = Some(true);
                        break;
                    }
                    Some(_) => {}
                    None => found = None,
                }
            }
            truth(found.map(|found| found != *is_negated))
        }
        Node::Between { is_negated, is_collated, parts } => {
            let value = evaluate(&parts[0], row)?;
            let low = compare(&value, &evaluate(&parts[1], row)?, *is_collated).map(Ordering::is_ge);
            let high = compare(&value, &evaluate(&parts[2], row)?, *is_collated).map(Ordering::is_le);
            let is_within = match (low, high) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            truth(is_within.map(|is_within| is_within != *is_negated))
        }
        Node::Like { is_negated, sides } => match (evaluate(&sides[0], row)?, evaluate(&sides[1], row)?) {
            (Value::Text(text), Value::Text(pattern)) => {
                Value::Bool(like::matches(&text, &pattern).map_err(|_| OPEN_PATTERN)? != *is_negated)
            }
            _ => Value::Null,
        },
        Node::IsNull { is_negated, part } => Value::Bool(evaluate(part, row)?.is_null() != *is_negated),
        Node::Arithmetic { operator, sides } => {
            arithmetic(*operator, evaluate(&sides[0], row)?, evaluate(&sides[1], row)?)?
        }
        Node::Call { function, arguments } => call(*function, arguments, row)?,
        Node::Computed { computed, arguments } => {
            let values = arguments.iter().map(|part| evaluate(part, row)).collect::<Result<Vec<_>, _>>()?;
            computed.value(&values)?
        }
    })
}

/// Whether all parts hold, or, if `decisive` is true, one of them.
fn all<'r, C: Columns + ?Sized>(parts: &'r [Node], row: &'r C, decisive: bool) -> Result<Value<'r>, Failed> {
    let mut result = Value::Bool(!decisive);
    for part in parts {
        match evaluate(part, row)? {
            Value::Bool(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Value::Bool(_) => {}
            _ => result = Value::Null,
        }
    }
    Ok(result)
}

fn truth(value: Option<bool>) -> Value<'static> {
    value.map_or(Value::Null, Value::Bool)
}

fn agrees(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// The order of two values; none if one is NULL. Numbers compare by what they are, whatever their kind.
fn compare(a: &Value<'_>, b: &Value<'_>, is_collated: bool) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Text(a), Value::Text(b)) if is_collated => collation::compare(a, b),
        (Value::Int(a), Value::Float(b)) => compare_int_float(*a, *b),
        (Value::Float(a), Value::Int(b)) => compare_int_float(*b, *a).reverse(),
        (Value::Int(a), Value::Decimal(b)) => compare_int_decimal(*a, *b),
        (Value::Decimal(a), Value::Int(b)) => compare_int_decimal(*b, *a).reverse(),
        (Value::Numeric(a), Value::Float(b)) => compare_floats(number::to_f64(a), *b),
        (Value::Float(a), Value::Numeric(b)) => compare_floats(*a, number::to_f64(b)),
        (Value::Numeric(a), Value::Int(_) | Value::Decimal(_)) => number::compare(a, &text_of(b)),
        (Value::Int(_) | Value::Decimal(_), Value::Numeric(b)) => number::compare(&text_of(a), b),
        (Value::Decimal(a), Value::Float(b)) => compare_floats(a.to_f64(), *b),
        (Value::Float(a), Value::Decimal(b)) => compare_floats(*a, b.to_f64()),
        _ => a.cmp(b),
    })
}

fn compare_int_float(int: i128, float: f64) -> Ordering {
    if float.is_nan() {
        return Ordering::Less;
    }
    // A float beyond all integers is cut to the nearest, which the fraction of an infinity does not tell.
    let whole = float.trunc();
    if whole >= i128::MAX as f64 {
        return Ordering::Less;
    }
    if whole < i128::MIN as f64 {
        return Ordering::Greater;
    }
    int.cmp(&(whole as i128)).then_with(|| compare_floats(0.0, float - whole))
}

fn compare_int_decimal(int: i128, decimal: Decimal) -> Ordering {
    match Decimal::new(int, 0) {
        Some(int) => int.cmp(&decimal),
        // It has 39 digits.
        None if int < 0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

fn arithmetic(operator: Arithmetic, a: Value<'_>, b: Value<'_>) -> Result<Value<'static>, Failed> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    let is_division = matches!(operator, Divide | Remainder);
    Ok(match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Int(a), Value::Int(b)) => {
            if is_division && b == 0 {
                return Err(DIVISION_BY_ZERO);
            }
            let result = match operator {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                Divide => a.checked_div(b),
                Remainder => a.checked_rem(b),
            };
            Value::Int(result.ok_or(OVERFLOW)?)
        }
        (Value::Float(a), b) => Value::Float(float_arithmetic(operator, a, float_of(&b))?),
        (a, Value::Float(b)) => Value::Float(float_arithmetic(operator, float_of(&a), b)?),
        (a, b) => {
            let (Some(a), Some(b)) = (decimal_of(&a), decimal_of(&b)) else { return Err(OVERFLOW) };
            if is_division && b.units() == 0 {
                return Err(DIVISION_BY_ZERO);
            }
            let result = match operator {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                Divide => a.checked_div(b),
                Remainder => a.checked_rem(b),
            };
            Value::Decimal(result.ok_or(OVERFLOW)?)
        }
    })
}

fn float_arithmetic(operator: Arithmetic, a: f64, b: f64) -> Result<f64, Failed> {
    if b == 0.0 && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
        return Err(DIVISION_BY_ZERO);
    }
    Ok(match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => a % b,
    })
}

fn float_of(value: &Value<'_>) -> f64 {
    match value {
        Value::Int(int) => *int as f64,
        Value::Decimal(decimal) => decimal.to_f64(),
        Value::Numeric(number) => number::to_f64(number),
        Value::Float(float) => *float,
        _ => f64::NAN,
    }
}

fn decimal_of(value: &Value<'_>) -> Option<Decimal> {
    match value {
        Value::Int(int) => Decimal::new(*int, 0),
        Value::Decimal(decimal) => Some(*decimal),
        // Arithmetic has 38 digits.
        Value::Numeric(number) => Decimal::parse(number),
        _ => None,
    }
}

fn call<'r, C: Columns + ?Sized>(function: Function, arguments: &'r [Node], row: &'r C) -> Result<Value<'r>, Failed> {
    let first = evaluate(&arguments[0], row)?;
    Ok(match (function, first) {
        (_, Value::Null) => Value::Null,
        (Function::Lower, Value::Text(text)) => Value::from(text.to_lowercase()),
        (Function::Upper, Value::Text(text)) => Value::from(text.to_uppercase()),
        (Function::Trim, Value::Text(Cow::Borrowed(text))) => Value::from(text.trim()),
        (Function::Trim, Value::Text(text)) => Value::from(text.trim().to_owned()),
        (Function::Length, Value::Text(text)) => Value::Int(text.chars().count() as i128),
        (Function::Length, Value::Bytes(bytes)) => Value::Int(bytes.len() as i128),
        (Function::Abs, Value::Int(int)) => Value::Int(int.checked_abs().ok_or(OVERFLOW)?),
        (Function::Abs, Value::Float(float)) => Value::Float(float.abs()),
        (Function::Abs, Value::Decimal(decimal)) => match decimal.units() {
            0.. => Value::Decimal(decimal),
            _ => Value::Decimal(Decimal::from(0).checked_sub(decimal).ok_or(OVERFLOW)?),
        },
        (Function::Abs, Value::Numeric(number)) => match number.strip_prefix('-') {
            Some(magnitude) => Value::Numeric(magnitude.to_owned().into()),
            None => Value::Numeric(number),
        },
        (Function::Substr, Value::Text(text)) => {
            let mut numbers = [1, i128::MAX];
            for (number, argument) in numbers.iter_mut().zip(&arguments[1..]) {
                match evaluate(argument, row)? {
                    Value::Int(int) => *number = int,
                    _ => return Ok(Value::Null),
                }
            }
            substr(text, numbers[0], numbers[1])
        }
        (Function::Year, value) => day_of(&value).map_or(Value::Null, |date| date.parts().0.into()),
        (Function::Month, value) => day_of(&value).map_or(Value::Null, |date| date.parts().1.into()),
        (Function::Day, value) => day_of(&value).map_or(Value::Null, |date| date.parts().2.into()),
        (Function::Date, value) => date_of(&value).map_or(Value::Null, Value::Date),
        (_, _) => Value::Null,
    })
}

/// The date, if it is a day of the calendar.
fn day_of(value: &Value<'_>) -> Option<Date> {
    date_of(value).filter(|date| date.is_finite())
}

fn date_of(value: &Value<'_>) -> Option<Date> {
    match value {
        Value::Date(date) => Some(*date),
        Value::Timestamp(moment) => Some(moment.date()),
        _ => None,
    }
}

/// The characters from number `start` on, counted from 1, and at most `count` of them.
fn substr(text: Cow<'_, str>, start: i128, count: i128) -> Value<'_> {
    let first = start.saturating_sub(1);
    let end = first.saturating_add(count.max(0));
    let at = |number: i128| match usize::try_from(number) {
        Err(_) => {
            if number < 0 {
                0
            } else {
                text.len()
            }
        }
        Ok(number) => text.char_indices().nth(number).map_or(text.len(), |(at, _)| at),
    };
    let (first, end) = (at(first), at(end));
    let range = first.min(end)..end;
    match text {
        Cow::Borrowed(text) => Value::from(&text[range]),
        Cow::Owned(text) => Value::from(text[range].to_owned()),
    }
}
