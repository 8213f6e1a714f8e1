//! Python's objects of values of SQL.
//!
//! | SQL | Python |
//! |---|---|
//! | `boolean`, integers, floats, texts, `bytea` | `bool`, `int`, `float`, `str`, `bytes` |
//! | `numeric` | `decimal.Decimal` |
//! | `date`, `time`, `interval` | `datetime.date`, `time`, `timedelta`, where a year has 365 days and a month 30 |
//! | `time with time zone` | `datetime.time` with the offset of its zone |
//! | `timestamp`, `timestamp with time zone` | `datetime.datetime`, without a zone and in UTC |
//! | `uuid`, `json`, `jsonb` | `uuid.UUID`, what `json.loads` makes of it |
//! | enums, network addresses | `str` |
//! | arrays, rows | `list`, `tuple` |
//! | ranges | `tuple` of both bounds, where None is for none, and of `"[)"` or its like; an empty one has no items |
//! | multiranges | `list` of ranges |

use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDelta, PyList, PyString, PyTime, PyTuple, PyTzInfo};
use quipu_rows::Value;
use quipu_sql::types::network;
use quipu_sql::types::range::Range;
use quipu_sql::types::zoned_time::ZonedTime;
use quipu_sql::{BaseType, Datum, Interval, SqlType};

use crate::value::{MICROSECONDS_A_SECOND, SECONDS_A_DAY, to_python as value_to_python};

/// The Python object of a value.
///
/// # Errors
/// `ValueError` of dates and moments outside of the years 1 to 9999, which Python cannot hold.
pub(crate) fn to_python<'py>(py: Python<'py>, datum: &Datum, sql_type: SqlType) -> PyResult<Bound<'py, PyAny>> {
    Ok(match datum {
        Datum::Int(value) if sql_type.base == BaseType::Time => {
            let (hour, minute, second, rest) = clock(*value);
            PyTime::new(py, hour, minute, second, rest, None)?.into_any()
        }
        Datum::Int(value) if sql_type.base == BaseType::TimeTz => {
            let zoned = ZonedTime::of_int(*value);
            let (hour, minute, second, rest) = clock(zoned.time);
            // Less than 16 hours.
            let offset = PyDelta::new(py, 0, zoned.offset as i32, 0, true)?;
            let zone = PyTzInfo::fixed_offset(py, offset)?;
            PyTime::new(py, hour, minute, second, rest, Some(&zone))?.into_any()
        }
        Datum::Timestamp(moment) if sql_type.base != BaseType::TimestampTz => {
            let (year, month, day) = moment.date().parts();
            let microseconds = moment.microseconds().rem_euclid(SECONDS_A_DAY * MICROSECONDS_A_SECOND);
            let (hour, minute, second, rest) = clock(microseconds);
            PyDateTime::new(py, year, month as u8, day as u8, hour, minute, second, rest, None)?.into_any()
        }
        Datum::Interval(Interval { months, days, microseconds }) => {
            let days = i64::from(*days) + i64::from(months / 12) * 365 + i64::from(months % 12) * 30;
            let day = SECONDS_A_DAY * MICROSECONDS_A_SECOND;
            let (days, rest) = (days + microseconds.div_euclid(day), microseconds.rem_euclid(day));
            let (seconds, rest) = (rest / MICROSECONDS_A_SECOND, rest % MICROSECONDS_A_SECOND);
            PyDelta::new(py, i32::try_from(days)?, seconds as i32, rest as i32, false)?.into_any()
        }
        Datum::Float(order) if let BaseType::Enum(user) = sql_type.without_domain().base => {
            PyString::new(py, user.label_at(*order).unwrap_or_default()).into_any()
        }
        Datum::Bytes(bytes) if sql_type.base.is_network() => {
            let mut text = String::new();
            network::write(bytes, sql_type.base, &mut text);
            PyString::new(py, &text).into_any()
        }
        Datum::Array(array) => list(py, sql_type.element(), &array.dimensions, &mut array.elements.iter())?,
        Datum::Range(range) => of_range(py, range, sql_type)?,
        Datum::Multirange(ranges) => {
            let ranges = ranges.iter().map(|range| of_range(py, range, sql_type));
            PyList::new(py, ranges.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Datum::Record(values) => {
            let values = values.iter().map(|(sql_type, value)| to_python(py, value, *sql_type));
            PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Datum::Text(text) => PyString::new(py, text).into_any(),
        datum => value_to_python(py, &datum.to_value().unwrap_or(Value::Null))?,
    })
}

/// The tuple of a range.
fn of_range<'py>(py: Python<'py>, range: &Range<Datum>, sql_type: SqlType) -> PyResult<Bound<'py, PyAny>> {
    let (Some((lower, upper)), Some(kind)) = (range.bounds(), sql_type.base.range_kind()) else {
        return Ok(PyTuple::empty(py).into_any());
    };
    let (lower, upper) = (lower.parts(), upper.parts());
    let has = |bound: Option<(&Datum, bool)>| bound.is_some_and(|(_, has_it)| has_it);
    let signs = match (has(lower), has(upper)) {
        (true, true) => "[]",
        (true, false) => "[)",
        (false, true) => "(]",
        (false, false) => "()",
    };
    let value = |bound: Option<(&Datum, bool)>| match bound {
        Some((value, _)) => to_python(py, value, kind.element().into()),
        None => Ok(py.None().into_bound(py)),
    };
    let items = [value(lower)?, value(upper)?, PyString::new(py, signs).into_any()];
    Ok(PyTuple::new(py, items)?.into_any())
}

/// Hours, minutes, seconds and microseconds; 24:00 is the beginning of the day.
fn clock(microseconds: i64) -> (u8, u8, u8, u32) {
    let (seconds, rest) = (microseconds / MICROSECONDS_A_SECOND, microseconds % MICROSECONDS_A_SECOND);
    ((seconds / 3600 % 24) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8, rest as u32)
}

/// The list of an array, or of a part of one of several dimensions.
fn list<'py>(
    py: Python<'py>,
    element: SqlType,
    dimensions: &[usize],
    elements: &mut std::slice::Iter<'_, Datum>,
) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    match dimensions {
        [] => {}
        [length] => {
            for value in elements.by_ref().take(*length) {
                list.append(to_python(py, value, element)?)?;
            }
        }
        [length, rest @ ..] => {
            for _ in 0..*length {
                list.append(self::list(py, element, rest, elements)?)?;
            }
        }
    }
    Ok(list.into_any())
}

/// The tuple of a row.
pub(crate) fn tuple<'py>(py: Python<'py>, row: &[Datum], types: &[SqlType]) -> PyResult<Bound<'py, PyTuple>> {
    let values = row.iter().zip(types).map(|(datum, sql_type)| to_python(py, datum, *sql_type));
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}
