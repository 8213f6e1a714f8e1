//! Results of SQL to Arrow: a stream of record batches.
//!
//! | SQL | Arrow |
//! |---|---|
//! | `boolean`, integers, floats | the same |
//! | `numeric(P,S)` | `decimal128(P, S)` |
//! | `numeric` | `decimal128(38, S)`, where S is the most digits after the point: all rows are read first; `string` if
//! some number has more than 38 digits, is `NaN` or infinite |
//! | texts, `json`, enums, `inet` and its like, `money`, `time with time zone` | `utf8` |
//! | `oid`, `regclass` and its like | `uint32` |
//! | `bytea`, `uuid` | `binary`, `fixed_size_binary(16)` by the extension `arrow.uuid` |
//! | `date`, `time`, `interval` | `date32`, `time64[us]`, `month_day_nano_interval` |
//! | `timestamp`, `timestamp with time zone` | `timestamp[us]`, `timestamp[us, UTC]` |
//! | arrays of one dimension | `list` |
//!
//! Ranges, rows and `tid` have no type of Arrow: an error says so.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
    RecordBatchOptions, RecordBatchReader, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use quipu_sql::types::zoned_time::ZonedTime;
use quipu_sql::types::{moment, money, network};
use quipu_sql::{BaseType, Datum, SqlType};

use crate::result::Rows;
use crate::session::{Answered, Refusal, refused};

/// All digits of Arrow's decimal numbers.
const PRECISION_MAX: u8 = 38;

type Converted<T> = Result<T, ArrowError>;

/// What Arrow calls a type; `found` are the digits of numbers that declare none.
fn arrow_type(sql_type: SqlType, found: Digits) -> ArrowType {
    if sql_type.is_array {
        return ArrowType::List(Arc::new(field("item", sql_type.element(), found)));
    }
    match sql_type.base {
        BaseType::Bool => ArrowType::Boolean,
        BaseType::Int2 => ArrowType::Int16,
        BaseType::Int4 => ArrowType::Int32,
        BaseType::Int8 => ArrowType::Int64,
        BaseType::Xid => ArrowType::UInt32,
        base if base.is_oid() => ArrowType::UInt32,
        BaseType::Float4 => ArrowType::Float32,
        BaseType::Float8 => ArrowType::Float64,
        BaseType::Numeric => match digits(sql_type, found) {
            Some((precision, scale)) => ArrowType::Decimal128(precision, scale as i8),
            None => ArrowType::Utf8,
        },
        BaseType::Bytea => ArrowType::Binary,
        BaseType::Date => ArrowType::Date32,
        BaseType::Time => ArrowType::Time64(TimeUnit::Microsecond),
        BaseType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        BaseType::TimestampTz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        BaseType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        BaseType::Uuid => ArrowType::FixedSizeBinary(16),
        _ => ArrowType::Utf8,
    }
}

fn field(name: &str, sql_type: SqlType, found: Digits) -> Field {
    let field = Field::new(name, arrow_type(sql_type, found), true);
    if sql_type.is_array || sql_type.base != BaseType::Uuid {
        return field;
    }
    let extension = [("ARROW:extension:name", "arrow.uuid"), ("ARROW:extension:metadata", "")];
    field.with_metadata(HashMap::from(extension.map(|(key, value)| (key.to_owned(), value.to_owned()))))
}

/// The array of values of one type.
fn array<'a>(values: impl Iterator<Item = &'a Datum> + Clone, sql_type: SqlType, found: Digits) -> Converted<ArrayRef> {
    if sql_type.is_array {
        return list(values, sql_type, found);
    }
    let ints = values.clone().map(Datum::as_int);
    let floats = values.clone().map(|value| match value {
        Datum::Float(float) => Some(*float),
        _ => None,
    });
    let moments = values.clone().map(|value| match value {
        Datum::Timestamp(moment) => Some(moment.microseconds()),
        _ => None,
    });
    Ok(match sql_type.base {
        BaseType::Bool => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Datum::Bool(value) => Some(*value),
            _ => None,
        }))),
        // The types hold them.
        BaseType::Int2 => Arc::new(Int16Array::from_iter(ints.map(|int| int.map(|int| int as i16)))),
        BaseType::Int4 => Arc::new(Int32Array::from_iter(ints.map(|int| int.map(|int| int as i32)))),
        BaseType::Int8 => Arc::new(Int64Array::from_iter(ints)),
        BaseType::Xid => Arc::new(UInt32Array::from_iter(ints.map(|int| int.map(|int| int as u32)))),
        BaseType::Time => Arc::new(Time64MicrosecondArray::from_iter(ints)),
        BaseType::Float4 => Arc::new(Float32Array::from_iter(floats.map(|float| float.map(|float| float as f32)))),
        BaseType::Float8 => Arc::new(Float64Array::from_iter(floats)),
        BaseType::Numeric => {
            let Some((precision, scale)) = digits(sql_type, found) else {
                return Ok(Arc::new(StringArray::from_iter(values.map(|value| match value {
                    Datum::Numeric(number) => Some(number.to_string()),
                    _ => None,
                }))));
            };
            let units = values.map(|value| match value {
                Datum::Numeric(number) => match number.small().and_then(|number| number.rescale(scale)) {
                    Some(number) => Ok(Some(number.units())),
                    None => {
                        let what = format!("{number} is not a decimal128(38, {scale}); cast it to text");
                        Err(ArrowError::InvalidArgumentError(what))
                    }
                },
                _ => Ok(None),
            });
            let array = Decimal128Array::from_iter(units.collect::<Converted<Vec<_>>>()?);
            Arc::new(array.with_precision_and_scale(precision, scale as i8)?)
        }
        BaseType::Bytea => Arc::new(BinaryArray::from_iter(values.map(|value| match value {
            Datum::Bytes(bytes) => Some(bytes),
            _ => None,
        }))),
        BaseType::Date => Arc::new(Date32Array::from_iter(values.map(|value| match value {
            Datum::Date(date) => Some(date.days()),
            _ => None,
        }))),
        BaseType::Timestamp => Arc::new(TimestampMicrosecondArray::from_iter(moments)),
        BaseType::TimestampTz => Arc::new(TimestampMicrosecondArray::from_iter(moments).with_timezone("UTC")),
        BaseType::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter(values.map(|value| match value {
            Datum::Interval(length) => {
                let nanoseconds = length.microseconds.saturating_mul(1000);
                Some(IntervalMonthDayNano::new(length.months, length.days, nanoseconds))
            }
            _ => None,
        }))),
        BaseType::Uuid => {
            let values = values.map(|value| match value {
                Datum::Uuid(uuid) => Some(uuid.into_bytes()),
                _ => None,
            });
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16)?)
        }
        base if base.is_oid() => Arc::new(UInt32Array::from_iter(ints.map(|int| int.map(|int| int as u32)))),
        _ => {
            let texts = values.map(|value| text_of(value, sql_type));
            Arc::new(StringArray::from_iter(texts.collect::<Converted<Vec<_>>>()?))
        }
    })
}

/// The text of a value of a type that Arrow has not.
fn text_of(value: &Datum, sql_type: SqlType) -> Converted<Option<String>> {
    let mut text = String::new();
    match (value, sql_type.base) {
        (Datum::Null, _) => return Ok(None),
        (Datum::Text(value) | Datum::Json(value), _) => text.push_str(value),
        (Datum::Float(order), BaseType::Enum(user)) => text.push_str(user.label_at(*order).unwrap_or_default()),
        (Datum::Bytes(bytes), base) if base.is_network() => {
            network::write(bytes, base, &mut text);
        }
        (Datum::Int(int), BaseType::Money) => money::write(*int, &mut text),
        (Datum::Int(int), BaseType::TimeTz) => moment::write_timetz(ZonedTime::of_int(*int), &mut text),
        _ => {
            let what = format!("{sql_type} has no type of Arrow; cast it to text");
            return Err(ArrowError::InvalidArgumentError(what));
        }
    }
    Ok(Some(text))
}

fn list<'a>(values: impl Iterator<Item = &'a Datum> + Clone, sql_type: SqlType, found: Digits) -> Converted<ArrayRef> {
    let (mut elements, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = elements.len();
        if let Datum::Array(array) = value {
            if array.dimensions.len() > 1 {
                let what = "an array of several dimensions has no type of Arrow; cast it to text";
                return Err(ArrowError::InvalidArgumentError(what.to_owned()));
            }
            elements.extend(&array.elements);
        }
        lengths.push(elements.len() - before);
        valid.push(!value.is_null());
    }
    let element = sql_type.element();
    let elements = array(elements.into_iter(), element, found)?;
    let nulls = NullBuffer::from(valid);
    let item = Arc::new(field("item", element, found));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), elements, Some(nulls))?))
}

/// A stream of record batches.
struct Stream {
    schema: SchemaRef,
    types: Vec<(SqlType, Digits)>,
    /// Rows that were read already, in parts.
    read: std::vec::IntoIter<Vec<Vec<Datum>>>,
    rows: Option<Rows>,
}

impl Stream {
    fn new(mut rows: Rows, names: &[String], types: &[SqlType]) -> Answered<Stream> {
        let mut digits_found = vec![Some((0, 0)); types.len()];
        let is_open =
            |sql_type: &SqlType| sql_type.base == BaseType::Numeric && sql_type.precision_and_scale().is_none();
        let mut read = Vec::new();
        if types.iter().any(is_open) {
            loop {
                let part = rows.next(None)?;
                if part.is_empty() {
                    break;
                }
                for row in &part {
                    row.iter().zip(&mut digits_found).for_each(|(value, all)| *all = widest(digits_of(value), *all));
                }
                read.push(part);
            }
        }
        let plain = types.iter().map(|sql_type| sql_type.without_domain());
        let types: Vec<(SqlType, Digits)> = plain.zip(digits_found).collect();
        let fields = names.iter().zip(&types).map(|(name, (sql_type, found))| field(name, *sql_type, *found));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Stream { schema, types, read: read.into_iter(), rows: Some(rows) })
    }

    fn batch(&self, rows: &[Vec<Datum>]) -> Converted<RecordBatch> {
        let columns = self.types.iter().enumerate().map(|(place, (sql_type, found))| {
            let array = array(rows.iter().map(|row| &row[place]), *sql_type, *found)?;
            debug_assert_eq!(array.len(), rows.len());
            Ok(array)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = columns.collect::<Converted<Vec<_>>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// The digits of numbers: the most before the point, and the most after it. None if some number is no decimal number
/// of Arrow.
type Digits = Option<(u8, u8)>;

/// The digits of two numbers together.
fn widest(a: Digits, b: Digits) -> Digits {
    let ((a_whole, a_scale), (b_whole, b_scale)) = (a?, b?);
    Some((a_whole.max(b_whole), a_scale.max(b_scale)))
}

/// The digits of a number, or of all in an array.
fn digits_of(value: &Datum) -> Digits {
    match value {
        Datum::Numeric(number) => {
            let number = number.small()?;
            let all = number.units().unsigned_abs().checked_ilog10().map_or(0, |last| last as u8 + 1);
            Some((all.saturating_sub(number.scale()), number.scale()))
        }
        Datum::Array(array) => array.elements.iter().map(digits_of).fold(Some((0, 0)), widest),
        _ => Some((0, 0)),
    }
}

/// The digits of all and those after the point that decimal numbers of Arrow have for a type; none if numbers are
/// texts: those that declare more digits, and those of a type without digits of which some have more.
fn digits(sql_type: SqlType, found: Digits) -> Option<(u8, u8)> {
    match sql_type.precision_and_scale() {
        Some((precision, scale)) => {
            let (precision, scale) = (u8::try_from(precision).ok()?, u8::try_from(scale).ok()?);
            (precision <= PRECISION_MAX && scale <= precision).then_some((precision, scale))
        }
        None => found.filter(|(whole, scale)| whole + scale <= PRECISION_MAX).map(|(_, scale)| (PRECISION_MAX, scale)),
    }
}

impl Iterator for Stream {
    type Item = Converted<RecordBatch>;

    fn next(&mut self) -> Option<Converted<RecordBatch>> {
        let part = match self.read.next() {
            Some(part) => Ok(part),
            None => self.rows.as_mut()?.next(None),
        };
        match part {
            Ok(part) if part.is_empty() => {
                self.rows = None;
                None
            }
            Ok(part) => Some(self.batch(&part)),
            Err(error) => {
                self.rows = None;
                Some(Err(match error {
                    Refusal::Sql(error) => ArrowError::ExternalError(Box::new(error)),
                    Refusal::Engine(error) => ArrowError::ExternalError(Box::new(error)),
                }))
            }
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The rows of a result as a capsule of Arrow's C stream.
///
/// # Errors
/// Those of reading, where all rows are read first.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    rows: Rows,
    names: &[String],
    types: &[SqlType],
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let stream = py.detach(|| Stream::new(rows, names, types)).map_err(|error| refused(py, &error, text))?;
    let stream = FFI_ArrowArrayStream::new(Box::new(stream));
    Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?.into_any())
}
