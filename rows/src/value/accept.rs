//! Values that fit a type, and what they become there.
//!
//! What a value means does not change: an integer may become a float or a decimal that is equal to it, and a decimal
//! one of another scale if no digit is lost. Only a float may be rounded, to the nearest of single precision. All else
//! is refused with what was expected.

use std::borrow::Cow;

use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::{json, keyed_bytes, number};

impl DataType {
    /// The value as a column of this type holds it; NULL stays NULL.
    ///
    /// # Errors
    /// What is wrong, for a message that names the column before it.
    pub fn accept<'v>(self, value: Value<'v>) -> Result<Value<'v>, String> {
        match (self, value) {
            (_, Value::Null) => Ok(Value::Null),
            (DataType::Bool, value @ Value::Bool(_))
            | (DataType::Text(_), value @ Value::Text(_))
            | (DataType::Bytes, value @ Value::Bytes(_))
            | (DataType::Date, value @ Value::Date(_))
            | (DataType::Timestamp, value @ Value::Timestamp(_))
            | (DataType::Uuid, value @ Value::Uuid(_))
            | (DataType::F64, value @ Value::Float(_)) => Ok(value),
            (DataType::F32, Value::Float(float)) => {
                let single = float as f32;
                if single.is_infinite() && float.is_finite() {
                    return Err(format!("{float:?} is out of the range of f32"));
                }
                Ok(Value::Float(single.into()))
            }
            (DataType::F32 | DataType::F64, Value::Int(int)) => {
                let float = if self == DataType::F32 { (int as f32).into() } else { int as f64 };
                // The largest i128 rounds up to 2^127, which the cast back saturates.
                if float as i128 != int || float >= i128::MAX as f64 {
                    return Err(format!("{self} cannot hold {int} exactly"));
                }
                Ok(Value::Float(float))
            }
            (DataType::Decimal { precision, scale }, Value::Int(int)) => {
                accept_decimal(Decimal::new(int, 0), precision, scale).ok_or_else(|| out_of_decimal(self, &int))
            }
            (DataType::Decimal { precision, scale }, Value::Decimal(decimal)) => {
                accept_decimal(Some(decimal), precision, scale).ok_or_else(|| out_of_decimal(self, &decimal))
            }
            (DataType::Numeric, Value::Numeric(text)) => match number::canonical(&text) {
                Some(Cow::Borrowed(_)) => Ok(Value::Numeric(text)),
                Some(Cow::Owned(canonical)) => Ok(Value::Numeric(Cow::Owned(canonical))),
                None => Err(format!("{text:?} is not of type numeric")),
            },
            (DataType::Numeric, Value::Int(int)) => Ok(Value::Numeric(Cow::Owned(int.to_string()))),
            (DataType::Numeric, Value::Decimal(decimal)) => Ok(Value::Numeric(Cow::Owned(decimal.to_string()))),
            (DataType::KeyedBytes, Value::Bytes(bytes)) => match keyed_bytes::split(&bytes) {
                Some(_) => Ok(Value::Bytes(bytes)),
                None => Err(format!("bytes that tell no sort key are not of type {self}")),
            },
            (DataType::Json, Value::Json(text)) => json::check(&text).map(|()| Value::Json(text)),
            (data_type, Value::Int(int)) if let Some((min, max)) = data_type.int_range() => match int {
                int if (min..=max).contains(&int) => Ok(Value::Int(int)),
                int => Err(format!("{int} is out of the range of {self}, {min} to {max}")),
            },
            (_, value) => Err(format!("{value} is {}, expected {self}", value.kind_name())),
        }
    }
}

fn accept_decimal(decimal: Option<Decimal>, precision: u8, scale: u8) -> Option<Value<'static>> {
    let decimal = decimal?.rescale(scale)?;
    decimal.fits(precision).then_some(Value::Decimal(decimal))
}

#[cold]
fn out_of_decimal(data_type: DataType, number: &dyn std::fmt::Display) -> String {
    let DataType::Decimal { precision, scale } = data_type else { return String::new() };
    let digits = format!("{precision} digits, of which {scale} follow the point");
    format!("{number} does not fit {data_type}: it has {digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data_type: &str, value: Value<'_>) -> String {
        DataType::parse(data_type).unwrap().accept(value).unwrap_err()
    }

    #[test]
    fn values_keep_their_meaning() {
        let accepted =
            |data_type: &str, value: Value<'static>| DataType::parse(data_type).unwrap().accept(value).unwrap();
        assert_eq!(accepted("u64", Value::from(u64::MAX)), Value::from(u64::MAX));
        assert_eq!(accepted("f64", Value::Int(1 << 53)), Value::Float((1u64 << 53) as f64));
        assert_eq!(accepted("f32", Value::Float(0.1)), Value::Float(0.1f32.into()));
        assert_eq!(accepted("f32", Value::Float(f64::INFINITY)), Value::Float(f64::INFINITY));
        assert_eq!(accepted("numeric", Value::Int(-7)).to_string(), "-7");
        assert_eq!(accepted("numeric", Decimal::parse("1.50").unwrap().into()).to_string(), "1.50");
        assert_eq!(accepted("numeric", Value::Numeric("+1.5e3".into())).to_string(), "1500");
        let decimal = accepted("decimal(4,2)", Value::Int(12));
        assert!(matches!(decimal, Value::Decimal(decimal) if decimal.to_string() == "12.00"));
        assert_eq!(accepted("json", Value::Json(" [1, \"a b\"] ".into())), Value::Json(" [1, \"a b\"] ".into()));
        assert_eq!(accepted("date", Value::Null), Value::Null);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(refused("u8", Value::Int(300)), "300 is out of the range of u8, 0 to 255");
        assert_eq!(refused("i64", "x".into()), "\"x\" is text, expected i64");
        assert_eq!(refused("i64", Value::Float(1.0)), "1.0 is a float, expected i64");
        assert_eq!(refused("f64", Value::Int((1 << 53) + 1)), "f64 cannot hold 9007199254740993 exactly");
        assert!(refused("f64", Value::Int(i128::MAX)).starts_with("f64 cannot hold"));
        assert_eq!(refused("f32", Value::Float(1e39)), "1e39 is out of the range of f32");
        let text = "1.234 does not fit decimal(4,2): it has 4 digits, of which 2 follow the point";
        assert_eq!(refused("decimal(4,2)", Decimal::parse("1.234").unwrap().into()), text);
        assert!(refused("decimal(4,2)", Value::Int(100)).starts_with("100 does not fit decimal(4,2)"));
        assert_eq!(refused("numeric", Value::Numeric("1.2.3".into())), "\"1.2.3\" is not of type numeric");
        assert_eq!(refused("numeric", Value::Float(0.5)), "0.5 is a float, expected numeric");
        assert!(refused("json", Value::Json("{".into())).contains("is not JSON"));
        assert_eq!(refused("json", "{}".into()), "\"{}\" is text, expected json");
    }
}
