//! Values of columns from Python's objects, and back.
//!
//! | column | Python |
//! |---|---|
//! | `bool`, integers, floats, text, bytes | `bool`, `int`, `float` (or an `int` that is one exactly), `str`, `bytes` |
//! | `decimal(P,S)` | `decimal.Decimal`, or an `int` |
//! | `date`, `timestamp` | `datetime.date`, `datetime.datetime`; one without a zone is in UTC |
//! | `uuid` | `uuid.UUID` |
//! | `json` | what `json.dumps` takes |
//!
//! NULL is `None`, and what pandas has for a missing value: `NaT`, `NA`, and a NaN in a column of other values than
//! floats and JSON. A scalar of NumPy stands for the Python object that its `item` gives, but for moments and lengths
//! of time, of which that may be a bare number: a moment is what it is in microseconds, if that is all of it.

use std::borrow::Cow;

use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt,
    PyMemoryView, PyString, PyTimeAccess, PyTuple, PyTzInfo,
};
use quipu_rows::{DataType, Date, Decimal, Timestamp, Value};
use uuid::Uuid;

use crate::error::wrong_type;

pub(crate) const SECONDS_A_DAY: i64 = 86_400;
pub(crate) const MICROSECONDS_A_SECOND: i64 = 1_000_000;

pub(crate) static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
pub(crate) static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What an object is, for a message.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> String {
    /// Characters of an object that a message shows.
    const SHOWN_CHARS: usize = 60;
    let kind = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let Ok(repr) = object.repr() else { return kind };
    let repr = repr.to_string();
    match repr.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}... is {kind}", &repr[..end]),
        None => format!("{repr} is {kind}"),
    }
}

/// The value of a column of this type that a Python object stands for. Whether it fits the column is looked at when it
/// is written.
///
/// # Errors
/// A `WrongTypeError` that names table and column.
pub(crate) fn from_python(
    object: &Bound<'_, PyAny>,
    data_type: DataType,
    table: &str,
    column: &str,
) -> PyResult<Value<'static>> {
    let py = object.py();
    if let Some(value) = converted(object, data_type)? {
        return Ok(value);
    }
    if is_missing(object, data_type) {
        return Ok(Value::Null);
    }
    if let Some(item) = scalar_of_numpy(object)?
        && let Some(value) = converted(&item, data_type)?
    {
        return Ok(value);
    }
    let why = why_not(object, data_type);
    Err(wrong_type(py, table, column, &format!("{}, expected {data_type}{why}", described(object))))
}

/// Whether pandas has this object for a missing value.
fn is_missing(object: &Bound<'_, PyAny>, data_type: DataType) -> bool {
    if let Ok(float) = object.cast::<PyFloat>() {
        return float.value().is_nan() && !matches!(data_type, DataType::F32 | DataType::F64 | DataType::Json);
    }
    is_missing_in_pandas(object)
}

/// Whether an object is `pandas.NaT` or `pandas.NA`.
pub(crate) fn is_missing_in_pandas(object: &Bound<'_, PyAny>) -> bool {
    let kind = object.get_type();
    kind.name().is_ok_and(|name| matches!(&*name.to_string_lossy(), "NaTType" | "NAType"))
        && kind.module().is_ok_and(|module| module.to_string_lossy().starts_with("pandas."))
}

/// The Python object that a scalar of NumPy stands for; none of other objects, also of arrays and frames of one value.
pub(crate) fn scalar_of_numpy<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let dimensions = object.getattr_opt(intern!(py, "ndim"))?.and_then(|ndim| ndim.extract::<usize>().ok());
    if dimensions != Some(0) {
        return Ok(None);
    }
    let kind = dtype.getattr_opt(intern!(py, "kind"))?.and_then(|kind| kind.extract::<String>().ok());
    let item = match kind.as_deref() {
        // The number of nanoseconds, say, is no integer that was meant.
        Some("m") => return Ok(None),
        Some("M") => {
            let in_microseconds = object.call_method1(intern!(py, "astype"), ("datetime64[us]",));
            let Ok(exact) = in_microseconds else { return Ok(None) };
            let item = exact.call_method0(intern!(py, "item"))?;
            let unit = dtype.str()?.to_string();
            let is_day = ["datetime64[Y]", "datetime64[M]", "datetime64[W]", "datetime64[D]"].contains(&unit.as_str());
            if !item.is_none() && !exact.eq(object)? {
                return Ok(None);
            }
            if is_day { object.call_method0(intern!(py, "item")) } else { Ok(item) }
        }
        _ => object.call_method0(intern!(py, "item")),
    };
    Ok(item.ok())
}

/// What a message says further of an object that is no value of a column, though it looks like one.
fn why_not(object: &Bound<'_, PyAny>, data_type: DataType) -> &'static str {
    match data_type {
        DataType::Timestamp if object.is_instance_of::<PyDateTime>() => match nanoseconds_of(object) {
            0 => " of the years 1 to 9999 in UTC",
            _ => ", which holds whole microseconds",
        },
        DataType::Text(_) if object.is_instance_of::<PyString>() => ", which holds no lone surrogates",
        DataType::Bool | DataType::Json | DataType::Text(_) | DataType::Bytes | DataType::KeyedBytes => "",
        DataType::Date | DataType::Timestamp | DataType::Uuid => "",
        _ if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() => ", which holds no such number",
        _ => "",
    }
}

/// The nanoseconds of a moment of pandas beyond its microseconds.
pub(crate) fn nanoseconds_of(moment: &Bound<'_, PyAny>) -> i64 {
    let nanoseconds = moment.getattr_opt(intern!(moment.py(), "nanosecond")).ok().flatten();
    nanoseconds.and_then(|nanoseconds| nanoseconds.extract().ok()).unwrap_or(0)
}

/// The value that an object stands for; none if it is of another type.
fn converted(object: &Bound<'_, PyAny>, data_type: DataType) -> PyResult<Option<Value<'static>>> {
    let py = object.py();
    if object.is_none() {
        return Ok(Some(Value::Null));
    }
    if data_type == DataType::Json {
        return json_of(object).map(|json| json.map(|json| Value::Json(Cow::Owned(json))));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok((data_type == DataType::Bool).then(|| Value::Bool(value.is_true())));
    }
    Ok(match data_type {
        DataType::Bool | DataType::Json => None,
        DataType::F32 | DataType::F64 => match object.cast::<PyFloat>() {
            Ok(value) => Some(Value::Float(value.value())),
            Err(_) => int_of(object)?,
        },
        DataType::Decimal { .. } => {
            if object.is_instance(DECIMAL.import(py, "decimal", "Decimal")?)? {
                let text = object.call_method1(intern!(py, "__format__"), ("f",))?.extract::<String>()?;
                Decimal::parse(&text).map(Value::Decimal)
            } else {
                int_of(object)?
            }
        }
        DataType::Numeric => {
            if object.is_instance(DECIMAL.import(py, "decimal", "Decimal")?)? || object.is_instance_of::<PyInt>() {
                // Of an integer too: it may have any size.
                let text =
                    object.call_method1(intern!(py, "__format__"), (number_format(object),))?.extract::<String>()?;
                DataType::Numeric.parse_text(&text).ok().map(Value::into_owned)
            } else {
                None
            }
        }
        DataType::Text(_) => match object.cast::<PyString>() {
            // One with a lone surrogate has no UTF-8.
            Ok(text) => text.to_cow().ok().map(|text| Value::from(text.into_owned())),
            Err(_) => None,
        },
        DataType::Bytes | DataType::KeyedBytes => {
            if let Ok(bytes) = object.cast::<PyBytes>() {
                Some(Value::from(bytes.as_bytes().to_vec()))
            } else if let Ok(bytes) = object.cast::<PyByteArray>() {
                Some(Value::from(bytes.to_vec()))
            } else if object.is_instance_of::<PyMemoryView>() {
                let bytes = object.call_method0(intern!(py, "tobytes"))?;
                Some(Value::from(bytes.extract::<Vec<u8>>()?))
            } else {
                None
            }
        }
        DataType::Date if object.is_instance_of::<PyDateTime>() => None,
        DataType::Date => match object.cast::<PyDate>() {
            Ok(date) => date_of(date).map(Value::Date),
            Err(_) => None,
        },
        DataType::Timestamp => match object.cast::<PyDateTime>() {
            Ok(moment) if moment.is_exact_instance_of::<PyDateTime>() => moment_of(moment)?.map(Value::Timestamp),
            // `NaT` is one, and fails at every question; a moment of pandas may have nanoseconds.
            Ok(moment) if is_missing_in_pandas(moment) || nanoseconds_of(moment) != 0 => None,
            Ok(moment) => moment_of(moment)?.map(Value::Timestamp),
            Err(_) => None,
        },
        DataType::Uuid if object.is_instance(UUID.import(py, "uuid", "UUID")?)? => {
            let bytes = object.getattr(intern!(py, "bytes"))?;
            Some(Value::Uuid(Uuid::from_bytes(bytes.extract()?)))
        }
        DataType::Uuid => None,
        // All that is left are integers.
        _ => int_of(object)?,
    })
}

/// The format that writes all digits of a number: of an integer, or of a `decimal.Decimal`.
fn number_format(object: &Bound<'_, PyAny>) -> &'static str {
    if object.is_instance_of::<PyInt>() { "d" } else { "f" }
}

fn int_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Value<'static>>> {
    let Ok(int) = object.cast::<PyInt>() else { return Ok(None) };
    match int.extract::<i128>() {
        Ok(int) => Ok(Some(Value::Int(int))),
        // No column holds it.
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn date_of(date: &impl PyDateAccess) -> Option<Date> {
    Date::new(date.get_year() as i16, date.get_month() as i8, date.get_day() as i8)
}

pub(crate) fn moment_of(moment: &Bound<'_, PyDateTime>) -> PyResult<Option<Timestamp>> {
    let Some(date) = date_of(moment) else { return Ok(None) };
    let seconds = i64::from(moment.get_hour()) * 3600 + i64::from(moment.get_minute()) * 60;
    let seconds = i64::from(date.days()) * SECONDS_A_DAY + seconds + i64::from(moment.get_second());
    let mut microseconds = seconds * MICROSECONDS_A_SECOND + i64::from(moment.get_microsecond());
    let offset = moment.call_method0(intern!(moment.py(), "utcoffset"))?;
    if let Ok(offset) = offset.cast::<PyDelta>() {
        let seconds = i64::from(offset.get_days()) * SECONDS_A_DAY + i64::from(offset.get_seconds());
        microseconds -= seconds * MICROSECONDS_A_SECOND + i64::from(offset.get_microseconds());
    }
    // Python could not hold it in UTC otherwise.
    let in_utc = Timestamp::from_microseconds(microseconds);
    Ok(in_utc.filter(|moment| (1..=9999).contains(&moment.date().parts().0)))
}

/// The JSON of an object; none if it has none.
pub(crate) fn json_of(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "separators"), (",", ":"))?;
    options.set_item(intern!(py, "ensure_ascii"), false)?;
    options.set_item(intern!(py, "allow_nan"), false)?;
    match DUMPS.import(py, "json", "dumps")?.call((object,), Some(&options)) {
        // A lone surrogate has no UTF-8.
        Ok(json) => Ok(json.extract().ok()),
        Err(_) => Ok(None),
    }
}

/// The Python object of a value.
///
/// # Errors
/// `ValueError` of dates and moments outside of the years 1 to 9999, which Python cannot hold.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        // Integers of 64 bits are made faster.
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => value.into_pyobject(py)?.into_any(),
            Err(_) => value.into_pyobject(py)?.into_any(),
        },
        Value::Float(value) => PyFloat::new(py, *value).into_any(),
        Value::Decimal(value) => DECIMAL.import(py, "decimal", "Decimal")?.call1((value.to_string(),))?,
        Value::Numeric(text) => DECIMAL.import(py, "decimal", "Decimal")?.call1((&**text,))?,
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Date(date) => {
            let (year, month, day) = date.parts();
            PyDate::new(py, year, month as u8, day as u8)?.into_any()
        }
        Value::Timestamp(moment) => {
            let (year, month, day) = moment.date().parts();
            let microseconds = moment.microseconds().rem_euclid(SECONDS_A_DAY * MICROSECONDS_A_SECOND);
            let (seconds, rest) = (microseconds / MICROSECONDS_A_SECOND, microseconds % MICROSECONDS_A_SECOND);
            let utc = PyTzInfo::utc(py)?.to_owned();
            let (hour, minute, second) = ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8);
            let (month, day) = (month as u8, day as u8);
            PyDateTime::new(py, year, month, day, hour, minute, second, rest as u32, Some(&utc))?.into_any()
        }
        Value::Uuid(value) => {
            let options = PyDict::new(py);
            options.set_item(intern!(py, "bytes"), PyBytes::new(py, value.as_bytes()))?;
            UUID.import(py, "uuid", "UUID")?.call((), Some(&options))?
        }
        Value::Json(text) => LOADS.import(py, "json", "loads")?.call1((&**text,))?,
    })
}

/// The values of a key: a tuple or a list of them, or one alone.
///
/// # Errors
/// Those of [`from_python`], and `InvalidError` if there are more than the key has columns.
pub(crate) fn key_from_python(
    object: &Bound<'_, PyAny>,
    columns: &[(String, DataType)],
    table: &str,
) -> PyResult<Vec<Value<'static>>> {
    values_from_python(object, columns, table, from_python)
}

/// The values of an end of a range, as [`key_from_python`] has them; a day stands for its midnight in UTC in a column
/// of timestamps, as in SQL.
///
/// # Errors
/// Those of [`key_from_python`].
pub(crate) fn end_from_python(
    object: &Bound<'_, PyAny>,
    columns: &[(String, DataType)],
    table: &str,
) -> PyResult<Vec<Value<'static>>> {
    values_from_python(object, columns, table, |object, data_type, table, column| {
        let is_day = data_type == DataType::Timestamp && !object.is_instance_of::<PyDateTime>();
        match object.cast::<PyDate>() {
            Ok(day) if is_day => {
                let midnight = date_of(day).map(|day| i64::from(day.days()) * SECONDS_A_DAY * MICROSECONDS_A_SECOND);
                Ok(midnight.and_then(Timestamp::from_microseconds).map_or(Value::Null, Value::Timestamp))
            }
            _ => from_python(object, data_type, table, column),
        }
    })
}

fn values_from_python(
    object: &Bound<'_, PyAny>,
    columns: &[(String, DataType)],
    table: &str,
    value_of: impl Fn(&Bound<'_, PyAny>, DataType, &str, &str) -> PyResult<Value<'static>>,
) -> PyResult<Vec<Value<'static>>> {
    let objects: Vec<Bound<'_, PyAny>> = match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => match object.cast::<pyo3::types::PyList>() {
            Ok(list) => list.iter().collect(),
            Err(_) => vec![object.clone()],
        },
    };
    let mut values = Vec::with_capacity(objects.len());
    for (place, object) in objects.iter().enumerate() {
        // More values than columns are refused where the key is made.
        let Some((name, data_type)) = columns.get(place) else {
            values.push(Value::Null);
            continue;
        };
        values.push(value_of(object, *data_type, table, name)?);
    }
    Ok(values)
}
