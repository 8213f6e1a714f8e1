//! Parameters of SQL from Python's objects.
//!
//! | Python | SQL |
//! |---|---|
//! | `None`, `str`, `list`, `tuple` | what the statement needs there: a date or a UUID, say, or an array or JSON |
//! | `bool`, `bytes` | `boolean`, `bytea` |
//! | `int` | `integer`, or the smallest of `bigint` and `numeric` that holds it |
//! | `float` | `double precision` |
//! | `decimal.Decimal` | `numeric` |
//! | `datetime.date`, `time`, `timedelta` | `date`, `time`, `interval` |
//! | `datetime.datetime` | `timestamp with time zone`, or `timestamp` if it has no zone |
//! | `uuid.UUID` | `uuid` |
//! | `dict` | `jsonb` |

use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyList,
    PyMemoryView, PyString, PyTime, PyTimeAccess, PyTuple,
};
use quipu_rows::{Date, Timestamp, Uuid};
use quipu_sql::functions::Environment;
use quipu_sql::types::text;
use quipu_sql::{Array, BaseType, Datum, Interval, Result, SqlError, SqlState, SqlType};

use crate::value::{
    DECIMAL, MICROSECONDS_A_SECOND, UUID, date_of, described, is_missing_in_pandas, json_of, moment_of, nanoseconds_of,
    scalar_of_numpy,
};

/// The value of a parameter.
#[derive(Clone, Debug)]
pub(crate) enum Parameter {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Numeric(quipu_sql::Numeric),
    /// A number of more digits than `numeric` has.
    WideNumeric(String),
    Text(String),
    Bytes(Vec<u8>),
    Date(Date),
    /// Microseconds.
    Time(i64),
    Timestamp(Timestamp),
    TimestampTz(Timestamp),
    Interval(Interval),
    Uuid(Uuid),
    Json(String),
    /// The elements, and the JSON of them all, if they have any.
    List(Vec<Parameter>, Option<String>),
}

impl Parameter {
    /// The parameter that a Python object stands for.
    ///
    /// # Errors
    /// `TypeError` if it stands for none.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Parameter> {
        if let Some(parameter) = converted(object)? {
            return Ok(parameter);
        }
        if let Some(item) = scalar_of_numpy(object)?
            && let Some(parameter) = converted(&item)?
        {
            return Ok(parameter);
        }
        Err(PyTypeError::new_err(format!("{}, which is not a value of SQL", described(object))))
    }

    /// The type that it has wherever it stands; none if the statement says it.
    pub(crate) fn sql_type(&self) -> Option<SqlType> {
        let base = match self {
            Parameter::Null | Parameter::Text(_) | Parameter::List(..) => return None,
            Parameter::Bool(_) => BaseType::Bool,
            Parameter::Int(int) if i32::try_from(*int).is_ok() => BaseType::Int4,
            Parameter::Int(_) => BaseType::Int8,
            Parameter::Float(_) => BaseType::Float8,
            Parameter::Numeric(_) | Parameter::WideNumeric(_) => BaseType::Numeric,
            Parameter::Bytes(_) => BaseType::Bytea,
            Parameter::Date(_) => BaseType::Date,
            Parameter::Time(_) => BaseType::Time,
            Parameter::Timestamp(_) => BaseType::Timestamp,
            Parameter::TimestampTz(_) => BaseType::TimestampTz,
            Parameter::Interval(_) => BaseType::Interval,
            Parameter::Uuid(_) => BaseType::Uuid,
            Parameter::Json(_) => BaseType::Jsonb,
        };
        Some(base.into())
    }

    /// The value of the type that the parameter has in the statement.
    ///
    /// # Errors
    /// [`INVALID_TEXT_REPRESENTATION`](SqlState::INVALID_TEXT_REPRESENTATION) and the like of a text that is no such
    /// value, [`CANNOT_COERCE`](SqlState::CANNOT_COERCE) of an element of an array.
    pub(crate) fn datum(&self, sql_type: SqlType, environment: &dyn Environment) -> Result<Datum> {
        Ok(match self {
            Parameter::Null => Datum::Null,
            Parameter::Bool(value) => Datum::Bool(*value),
            Parameter::Int(value) => Datum::Int(*value),
            Parameter::Float(value) => Datum::Float(*value),
            Parameter::Numeric(value) => Datum::Numeric(value.clone()),
            Parameter::WideNumeric(text) | Parameter::Text(text) => return text::parse(text, sql_type, environment),
            // As PostgreSQL writes JSON of the type `jsonb`.
            Parameter::Json(text) => return text::parse(text, sql_type, environment),
            Parameter::Bytes(bytes) => Datum::Bytes(Arc::from(&bytes[..])),
            Parameter::Date(value) => Datum::Date(*value),
            Parameter::Time(value) => Datum::Int(*value),
            Parameter::Timestamp(value) | Parameter::TimestampTz(value) => Datum::Timestamp(*value),
            Parameter::Interval(value) => Datum::Interval(*value),
            Parameter::Uuid(value) => Datum::Uuid(*value),
            Parameter::List(elements, _) if sql_type.is_array => {
                let element = sql_type.element();
                if elements.iter().any(|value| matches!(value, Parameter::List(..))) {
                    let what = "a list of lists is not a parameter, but where it is JSON";
                    return Err(SqlError::unsupported(what, "Write the array as text: '{{1,2},{3,4}}'."));
                }
                let elements = elements.iter().map(|value| value.element(element, environment));
                Datum::Array(Arc::new(Array::new(sql_type.base, elements.collect::<Result<_>>()?)))
            }
            Parameter::List(_, Some(json)) if matches!(sql_type.base, BaseType::Json | BaseType::Jsonb) => {
                return text::parse(json, sql_type, environment);
            }
            Parameter::List(..) => return Err(no_value("a list", sql_type)),
        })
    }

    /// The element of an array whose type the statement says.
    fn element(&self, sql_type: SqlType, environment: &dyn Environment) -> Result<Datum> {
        use Parameter::{Float, Int, Numeric, Text, TimestampTz};
        match (self, sql_type.base) {
            (Int(value), BaseType::Numeric) => Ok(Datum::Numeric((*value).into())),
            (Int(value), BaseType::Float4 | BaseType::Float8) => Ok(Datum::Float(*value as f64)),
            // These are read as texts, which also says whether the type holds them.
            (Int(value), BaseType::Int2 | BaseType::Int4) => text::parse(&value.to_string(), sql_type, environment),
            (Float(value), BaseType::Float4 | BaseType::Numeric) => {
                text::parse(&value.to_string(), sql_type, environment)
            }
            (Numeric(value), BaseType::Float4 | BaseType::Float8) => Ok(Datum::Float(value.to_f64())),
            (TimestampTz(_), BaseType::TimestampTz | BaseType::Timestamp) => self.datum(sql_type, environment),
            (Parameter::Timestamp(_), BaseType::TimestampTz) => self.datum(sql_type, environment),
            (Parameter::Null | Text(_), _) => self.datum(sql_type, environment),
            (Parameter::Json(_), BaseType::Json) => self.datum(sql_type, environment),
            _ if self.sql_type().is_some_and(|own| own.base == sql_type.base) => self.datum(sql_type, environment),
            (Int(_), BaseType::Int8) => self.datum(sql_type, environment),
            _ => {
                let own = self.sql_type().map_or_else(|| "a list".to_owned(), |own| own.to_string());
                Err(no_value(&own, sql_type))
            }
        }
    }
}

fn no_value(what: &str, sql_type: SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("{what} is not a value of the type {sql_type}"))
        .with_hint("Write a cast at the parameter, such as $1::jsonb or $1::int[].")
}

fn converted(object: &Bound<'_, PyAny>) -> PyResult<Option<Parameter>> {
    let py = object.py();
    Ok(Some(if object.is_none() || is_missing_in_pandas(object) {
        Parameter::Null
    } else if let Ok(value) = object.cast::<PyBool>() {
        Parameter::Bool(value.is_true())
    } else if let Ok(int) = object.cast::<PyInt>() {
        match int.extract::<i64>() {
            Ok(int) => Parameter::Int(int),
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => numeric(int.str()?.to_string()),
            Err(error) => return Err(error),
        }
    } else if let Ok(value) = object.cast::<PyFloat>() {
        Parameter::Float(value.value())
    } else if let Ok(text) = object.cast::<PyString>() {
        // One with a lone surrogate has no UTF-8.
        match text.to_cow() {
            Ok(text) => Parameter::Text(text.into_owned()),
            Err(_) => return Ok(None),
        }
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Parameter::Bytes(bytes.as_bytes().to_vec())
    } else if let Ok(bytes) = object.cast::<PyByteArray>() {
        Parameter::Bytes(bytes.to_vec())
    } else if object.is_instance_of::<PyMemoryView>() {
        Parameter::Bytes(object.call_method0(intern!(py, "tobytes"))?.extract()?)
    } else if let Ok(moment) = object.cast::<PyDateTime>() {
        // A moment of pandas may have nanoseconds.
        if !moment.is_exact_instance_of::<PyDateTime>() && nanoseconds_of(moment) != 0 {
            return Ok(None);
        }
        let Some(value) = moment_of(moment)? else { return Ok(None) };
        let has_zone = !moment.call_method0(intern!(py, "utcoffset"))?.is_none();
        if has_zone { Parameter::TimestampTz(value) } else { Parameter::Timestamp(value) }
    } else if let Ok(date) = object.cast::<PyDate>() {
        let Some(date) = date_of(date) else { return Ok(None) };
        Parameter::Date(date)
    } else if let Ok(time) = object.cast::<PyTime>() {
        if !time.getattr(intern!(py, "tzinfo"))?.is_none() {
            return Ok(None);
        }
        let minutes = i64::from(time.get_hour()) * 60 + i64::from(time.get_minute());
        let seconds = minutes * 60 + i64::from(time.get_second());
        Parameter::Time(seconds * MICROSECONDS_A_SECOND + i64::from(time.get_microsecond()))
    } else if let Ok(length) = object.cast::<PyDelta>() {
        let microseconds = i64::from(length.get_seconds()) * MICROSECONDS_A_SECOND;
        let microseconds = microseconds + i64::from(length.get_microseconds());
        Parameter::Interval(Interval { months: 0, days: length.get_days(), microseconds })
    } else if object.is_instance(DECIMAL.import(py, "decimal", "Decimal")?)? {
        numeric(object.call_method1(intern!(py, "__format__"), ("f",))?.extract()?)
    } else if object.is_instance(UUID.import(py, "uuid", "UUID")?)? {
        Parameter::Uuid(Uuid::from_bytes(object.getattr(intern!(py, "bytes"))?.extract()?))
    } else if object.is_instance_of::<PyDict>() {
        match json_of(object)? {
            Some(json) => Parameter::Json(json),
            None => return Ok(None),
        }
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let elements = object.try_iter()?.map(|element| Parameter::of(&element?)).collect::<PyResult<Vec<_>>>()?;
        Parameter::List(elements, json_of(object)?)
    } else {
        return Ok(None);
    }))
}

fn numeric(text: String) -> Parameter {
    quipu_sql::Numeric::parse(&text).map_or(Parameter::WideNumeric(text), Parameter::Numeric)
}
