//! The Rust types of fields.

use std::borrow::Cow;

use uuid::Uuid;

use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::time::{Date, Timestamp};

/// A Rust type whose values a column holds: `bool`, `i8` to `i64`, `u8` to `u64`, `f32`, `f64`, [`Decimal`], `String`,
/// `Vec<u8>`, [`Date`], [`Timestamp`], [`Uuid`], `serde_json::Value`, and an `Option` of any of them.
///
/// A type of a program becomes one by way of these:
///
/// ```
/// use quipu_rows::{ColumnValue, DataType, Record, Value};
///
/// #[derive(Clone, Copy)]
/// enum State {
///     Open,
///     Closed,
/// }
///
/// impl ColumnValue for State {
///     const TYPE: DataType = DataType::TEXT;
///     type Borrowed<'v> = &'v str;
///
///     fn borrow(&self) -> &str {
///         match self {
///             State::Open => "open",
///             State::Closed => "closed",
///         }
///     }
///
///     fn from_value(value: Value<'_>) -> Result<State, String> {
///         match &*String::from_value(value)? {
///             "open" => Ok(State::Open),
///             "closed" => Ok(State::Closed),
///             other => Err(format!("{other:?} is no state, expected open or closed")),
///         }
///     }
/// }
///
/// #[derive(Record)]
/// struct Issue {
///     #[column(primary_key)]
///     number: u64,
///     #[column(check = "state in ('open', 'closed')")]
///     state: State,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of a column",
    label = "no column holds this",
    note = "a column holds bool, i8 to i64, u8 to u64, f32, f64, String, Vec<u8>, serde_json::Value, the types \
            Decimal, Date, Timestamp and Uuid of quipu_rows, an Option of these, or a type that is a ColumnValue",
    note = "a field that is not a column has #[column(skip)]"
)]
pub trait ColumnValue: Sized {
    /// The type of the column. That of decimals has no digits: each field says how many.
    const TYPE: DataType;

    /// Whether the column may hold NULL.
    const IS_NULLABLE: bool = false;

    /// The value as a key borrows it.
    type Borrowed<'v>: Into<Value<'v>>
    where
        Self: 'v;

    /// The value, borrowed.
    fn borrow(&self) -> Self::Borrowed<'_>;

    /// The value for the column.
    fn to_value(&self) -> Value<'_> {
        self.borrow().into()
    }

    /// The value of the column.
    ///
    /// # Errors
    /// What is wrong, for a message that names the column before it: the value is of another type, out of range, or
    /// NULL.
    fn from_value(value: Value<'_>) -> Result<Self, String>;
}

/// What is said of a value of another type.
#[cold]
fn mismatch(value: &Value<'_>, expected: DataType) -> String {
    match value {
        Value::Null => format!("NULL, expected {expected}"),
        // What a decimal's digits are is not a matter of its type here.
        _ if matches!(expected, DataType::Decimal { .. }) => {
            format!("{value} is {}, expected decimal", value.kind_name())
        }
        _ => format!("{value} is {}, expected {expected}", value.kind_name()),
    }
}

macro_rules! integers {
    ($($int:ty: $data_type:ident),*) => {$(
        impl ColumnValue for $int {
            const TYPE: DataType = DataType::$data_type;
            type Borrowed<'v> = $int;

            fn borrow(&self) -> $int {
                *self
            }

            fn from_value(value: Value<'_>) -> Result<$int, String> {
                let Value::Int(int) = value else { return Err(mismatch(&value, Self::TYPE)) };
                let out_of_range = |_| format!("{int} is out of range, expected {}", Self::TYPE);
                int.try_into().map_err(out_of_range)
            }
        }
    )*};
}

integers!(i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64);

macro_rules! copied {
    ($($rust:ty: $data_type:expr, $variant:ident),*) => {$(
        impl ColumnValue for $rust {
            const TYPE: DataType = $data_type;
            type Borrowed<'v> = $rust;

            fn borrow(&self) -> $rust {
                *self
            }

            fn from_value(value: Value<'_>) -> Result<$rust, String> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => Err(mismatch(&other, Self::TYPE)),
                }
            }
        }
    )*};
}

copied!(bool: DataType::Bool, Bool, f64: DataType::F64, Float, Date: DataType::Date, Date);
copied!(Timestamp: DataType::Timestamp, Timestamp, Uuid: DataType::Uuid, Uuid);
copied!(Decimal: DataType::Decimal { precision: 0, scale: 0 }, Decimal);

impl ColumnValue for f32 {
    const TYPE: DataType = DataType::F32;
    type Borrowed<'v> = f32;

    fn borrow(&self) -> f32 {
        *self
    }

    /// A number of double precision that single precision does not have is refused.
    fn from_value(value: Value<'_>) -> Result<f32, String> {
        match value {
            Value::Float(float) if f64::from(float as f32) == float || float.is_nan() => Ok(float as f32),
            Value::Float(float) => Err(format!("f32 cannot hold {float:?} exactly")),
            other => Err(mismatch(&other, Self::TYPE)),
        }
    }
}

impl ColumnValue for String {
    const TYPE: DataType = DataType::TEXT;
    type Borrowed<'v> = &'v str;

    fn borrow(&self) -> &str {
        self
    }

    fn from_value(value: Value<'_>) -> Result<String, String> {
        match value {
            Value::Text(text) => Ok(text.into_owned()),
            other => Err(mismatch(&other, Self::TYPE)),
        }
    }
}

impl ColumnValue for Vec<u8> {
    const TYPE: DataType = DataType::Bytes;
    type Borrowed<'v> = &'v [u8];

    fn borrow(&self) -> &[u8] {
        self
    }

    fn from_value(value: Value<'_>) -> Result<Vec<u8>, String> {
        match value {
            Value::Bytes(bytes) => Ok(bytes.into_owned()),
            other => Err(mismatch(&other, Self::TYPE)),
        }
    }
}

/// A JSON `null` is a value, and not NULL.
impl ColumnValue for serde_json::Value {
    const TYPE: DataType = DataType::Json;
    type Borrowed<'v> = Value<'v>;

    fn borrow(&self) -> Value<'_> {
        Value::Json(Cow::Owned(self.to_string()))
    }

    fn from_value(value: Value<'_>) -> Result<serde_json::Value, String> {
        match value {
            Value::Json(text) => serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}")),
            other => Err(mismatch(&other, Self::TYPE)),
        }
    }
}

/// NULL is `None`.
impl<T: ColumnValue> ColumnValue for Option<T> {
    const TYPE: DataType = T::TYPE;
    const IS_NULLABLE: bool = true;
    type Borrowed<'v>
        = Option<T::Borrowed<'v>>
    where
        T: 'v;

    fn borrow(&self) -> Option<T::Borrowed<'_>> {
        self.as_ref().map(T::borrow)
    }

    fn from_value(value: Value<'_>) -> Result<Option<T>, String> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// The type of the column of a field: the one that it declares, or that of its Rust type.
///
/// # Panics
/// With the message if the two do not go together, or none says how many digits a decimal has. It is called where
/// constants are evaluated, so this is an error of the compiler.
pub const fn column_type<T: ColumnValue>(declared: Option<DataType>, message: &str) -> DataType {
    match declared {
        None if matches!(T::TYPE, DataType::Decimal { precision: 0, .. }) => panic!("{}", message),
        None => T::TYPE,
        Some(declared) if is_same_kind(declared, T::TYPE) => declared,
        Some(_) => panic!("{}", message),
    }
}

/// Fails if numbers that a table gives out are not of this type.
///
/// # Panics
/// With the message.
pub const fn must_be_integer(data_type: DataType, message: &str) {
    if !is_integer(data_type) {
        panic!("{}", message);
    }
}

const fn is_integer(data_type: DataType) -> bool {
    use DataType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(data_type, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Whether values of one type are of the other, but for their range, their digits or their order.
const fn is_same_kind(a: DataType, b: DataType) -> bool {
    match (a, b) {
        (DataType::Bool, DataType::Bool)
        | (DataType::F32, DataType::F32)
        | (DataType::F64, DataType::F64)
        | (DataType::Decimal { .. }, DataType::Decimal { .. })
        | (DataType::Numeric, DataType::Numeric)
        | (DataType::Text(_), DataType::Text(_))
        | (DataType::Bytes | DataType::KeyedBytes, DataType::Bytes | DataType::KeyedBytes)
        | (DataType::Date, DataType::Date)
        | (DataType::Timestamp, DataType::Timestamp)
        | (DataType::Uuid, DataType::Uuid)
        | (DataType::Json, DataType::Json) => true,
        _ => is_integer(a) && is_integer(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_types_are_refused() {
        assert_eq!(i16::from_value(Value::Int(40_000)).unwrap_err(), "40000 is out of range, expected i16");
        assert_eq!(u64::from_value(Value::Int(-1)).unwrap_err(), "-1 is out of range, expected u64");
        assert_eq!(i32::from_value(Value::Null).unwrap_err(), "NULL, expected i32");
        assert_eq!(String::from_value(Value::Int(1)).unwrap_err(), "1 is an integer, expected text");
        assert_eq!(Decimal::from_value("x".into()).unwrap_err(), "\"x\" is text, expected decimal");
        assert_eq!(f32::from_value(Value::Float(0.1)).unwrap_err(), "f32 cannot hold 0.1 exactly");
        assert!(f32::from_value(Value::Float(f64::NAN)).unwrap().is_nan());
        assert_eq!(Option::<bool>::from_value(Value::Null), Ok(None));
        assert_eq!(Option::<bool>::from_value(Value::Int(1)).unwrap_err(), "1 is an integer, expected bool");
        assert!(serde_json::Value::from_value(Value::Json("{".into())).unwrap_err().starts_with("not JSON"));
    }

    #[test]
    fn a_declared_type_is_of_the_kind_of_the_field() {
        const DECIMAL: DataType = DataType::Decimal { precision: 10, scale: 2 };
        assert_eq!(column_type::<Decimal>(Some(DECIMAL), ""), DECIMAL);
        assert_eq!(column_type::<Option<i64>>(Some(DataType::I16), ""), DataType::I16);
        assert_eq!(column_type::<u8>(None, ""), DataType::U8);
        must_be_integer(DataType::U8, "");
    }

    #[test]
    #[should_panic(expected = "a decimal needs its digits")]
    fn a_decimal_needs_its_digits() {
        column_type::<Option<Decimal>>(None, "a decimal needs its digits");
    }

    #[test]
    #[should_panic(expected = "String does not fit")]
    fn a_text_is_no_number() {
        column_type::<String>(Some(DataType::I16), "String does not fit a column of i16");
    }

    #[test]
    #[should_panic(expected = "numbers are integers")]
    fn numbers_of_a_table_are_integers() {
        must_be_integer(DataType::TEXT, "numbers are integers");
    }
}
