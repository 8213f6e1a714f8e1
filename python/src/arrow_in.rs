//! Rows from Arrow: values are read in the buffers of whoever made them.
//!
//! A value becomes what the column holds if it means the same: integers of any width, texts of any layout, dictionaries
//! of them, timestamps of any unit that lose nothing.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types as arrow;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use quipu::{Error, Result};
use quipu_rows::{BuildOptions, DataType, Date, Decimal, TableSchema, Timestamp, Value};
use uuid::Uuid;

use crate::error::{detached, invalid};
use crate::reader::Reader;
use crate::source::Source;

const MICROSECONDS_A_SECOND: i64 = 1_000_000;
const MILLISECONDS_A_DAY: i64 = 86_400_000;

/// Reads the value of a row.
type Read<'a> = Box<dyn Fn(usize) -> std::result::Result<Value<'a>, String> + 'a>;

/// How the values of an array are read for a column of this type; none if they cannot be.
fn read<'a>(array: &'a dyn Array, wanted: DataType) -> Option<Read<'a>> {
    macro_rules! primitive {
        ($type:ty, $make:expr) => {{
            let values = array.as_primitive::<$type>().values();
            Box::new(move |row: usize| $make(values[row]))
        }};
    }
    macro_rules! int {
        ($type:ty) => {
            primitive!($type, |int| Ok(Value::from(int)))
        };
    }
    let present: Read<'a> = match array.data_type() {
        ArrowType::Null => Box::new(|_| Ok(Value::Null)),
        ArrowType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row| Ok(Value::Bool(values.value(row))))
        }
        ArrowType::Int8 => int!(arrow::Int8Type),
        ArrowType::Int16 => int!(arrow::Int16Type),
        ArrowType::Int32 => int!(arrow::Int32Type),
        ArrowType::Int64 => int!(arrow::Int64Type),
        ArrowType::UInt8 => int!(arrow::UInt8Type),
        ArrowType::UInt16 => int!(arrow::UInt16Type),
        ArrowType::UInt32 => int!(arrow::UInt32Type),
        ArrowType::UInt64 => int!(arrow::UInt64Type),
        ArrowType::Float32 => primitive!(arrow::Float32Type, |float: f32| Ok(Value::from(float))),
        ArrowType::Float64 => primitive!(arrow::Float64Type, |float: f64| Ok(Value::from(float))),
        ArrowType::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).ok()?;
            primitive!(arrow::Decimal128Type, |units| {
                let decimal = Decimal::new(units, scale).map(Value::Decimal);
                decimal.ok_or_else(|| format!("{units} is no decimal of scale {scale}"))
            })
        }
        ArrowType::Utf8 => {
            let values = array.as_string::<i32>();
            text(wanted, move |row| values.value(row))
        }
        ArrowType::LargeUtf8 => {
            let values = array.as_string::<i64>();
            text(wanted, move |row| values.value(row))
        }
        ArrowType::Utf8View => {
            let values = array.as_string_view();
            text(wanted, move |row| values.value(row))
        }
        ArrowType::Binary => {
            let values = array.as_binary::<i32>();
            Box::new(|row| Ok(Value::from(values.value(row))))
        }
        ArrowType::LargeBinary => {
            let values = array.as_binary::<i64>();
            Box::new(|row| Ok(Value::from(values.value(row))))
        }
        ArrowType::BinaryView => {
            let values = array.as_binary_view();
            Box::new(|row| Ok(Value::from(values.value(row))))
        }
        ArrowType::FixedSizeBinary(len) => {
            let values = array.as_fixed_size_binary();
            if wanted == DataType::Uuid && *len == 16 {
                Box::new(|row| {
                    let uuid = Uuid::from_slice(values.value(row));
                    uuid.map(Value::Uuid).map_err(|error| error.to_string())
                })
            } else {
                Box::new(|row| Ok(Value::from(values.value(row))))
            }
        }
        ArrowType::Date32 => primitive!(arrow::Date32Type, day),
        ArrowType::Date64 => primitive!(arrow::Date64Type, |milliseconds: i64| {
            match i32::try_from(milliseconds / MILLISECONDS_A_DAY) {
                Ok(days) if milliseconds % MILLISECONDS_A_DAY == 0 => day(days),
                _ => Err(format!("{milliseconds} milliseconds are no date")),
            }
        }),
        ArrowType::Timestamp(TimeUnit::Second, _) => primitive!(arrow::TimestampSecondType, |seconds: i64| {
            moment(seconds.checked_mul(MICROSECONDS_A_SECOND))
        }),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive!(arrow::TimestampMillisecondType, |milliseconds: i64| moment(milliseconds.checked_mul(1_000)))
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive!(arrow::TimestampMicrosecondType, |microseconds| moment(Some(microseconds)))
        }
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive!(arrow::TimestampNanosecondType, |nanoseconds: i64| match nanoseconds % 1_000 {
                0 => moment(Some(nanoseconds / 1_000)),
                _ => Err(format!("{nanoseconds} ns are no whole microseconds; a timestamp holds those")),
            })
        }
        ArrowType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (keys, values) = (dictionary.normalized_keys(), read(dictionary.values().as_ref(), wanted)?);
            Box::new(move |row| values(keys[row]))
        }
        _ => return None,
    };
    let nulls = array.nulls();
    Some(Box::new(move |row| match nulls {
        Some(nulls) if nulls.is_null(row) => Ok(Value::Null),
        _ => present(row),
    }))
}

fn text<'a>(wanted: DataType, value: impl Fn(usize) -> &'a str + 'a) -> Read<'a> {
    match wanted {
        DataType::Json => Box::new(move |row| Ok(Value::Json(value(row).into()))),
        _ => Box::new(move |row| Ok(Value::from(value(row)))),
    }
}

fn day<'a>(days: i32) -> std::result::Result<Value<'a>, String> {
    Date::from_days(days).map(Value::Date).ok_or_else(|| format!("{days} days are out of the range of dates"))
}

fn moment<'a>(microseconds: Option<i64>) -> std::result::Result<Value<'a>, String> {
    let moment = microseconds.and_then(Timestamp::from_microseconds).map(Value::Timestamp);
    moment.ok_or_else(|| "a timestamp is out of range".to_owned())
}

/// The columns of a stream: names, types, and places in the table.
struct Target {
    table: String,
    columns: Vec<(String, DataType)>,
    places: Vec<usize>,
}

impl Target {
    fn new(schema: &TableSchema, stream: &arrow_schema::Schema) -> Result<Target> {
        let mut target = Target { table: schema.table.clone(), columns: Vec::new(), places: Vec::new() };
        for field in stream.fields() {
            let place = schema.place(field.name()).ok_or_else(|| {
                invalid(format!("table {} has no column {:?}, which the stream has", schema.table, field.name()))
            })?;
            target.columns.push((field.name().clone(), schema.columns[place].data_type));
            target.places.push(place);
        }
        Ok(target)
    }

    /// Gives the rows of a batch to `take`, one after the other.
    fn each_row(&self, batch: &RecordBatch, mut take: impl FnMut(&[Value<'_>]) -> Result<()>) -> Result<()> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (array, (name, wanted)) in batch.columns().iter().zip(&self.columns) {
            let read = read(array.as_ref(), *wanted).ok_or_else(|| {
                let (table, found) = (&self.table, array.data_type());
                invalid(format!("table {table}, column {name}: {found} of Arrow cannot be read, expected {wanted}"))
            })?;
            columns.push(read);
        }
        let mut values = Vec::with_capacity(columns.len());
        for row in 0..batch.num_rows() {
            values.clear();
            for (read, (name, _)) in columns.iter().zip(&self.columns) {
                let value = read(row);
                values.push(value.map_err(|what| invalid(format!("table {}, column {name}: {what}", self.table)))?);
            }
            take(&values)?;
        }
        Ok(())
    }
}

fn failed(error: &ArrowError) -> Error {
    invalid(format!("the stream of Arrow has failed: {error}"))
}

/// Adds the rows of a stream, all or none. Returns how many there are.
///
/// # Errors
/// `TypeError` if the object has no stream, and those of rows that a table refuses.
pub(crate) fn load(reader: &Reader, object: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = object.py();
    if !object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let kind = object.get_type().name()?;
        let what = format!("{kind} has no __arrow_c_stream__; give a table or a stream of pyarrow, pandas, Polars");
        return Err(PyTypeError::new_err(what));
    }
    let capsule = object.call_method0(intern!(py, "__arrow_c_stream__"))?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to a stream of Arrow's C interface. It is moved out, and an empty one is
    // left behind, which the capsule's destructor accepts. The GIL is held, so nobody else takes it meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let stream = RecordBatchStreamReader::try_new(stream).map_err(|error| PyTypeError::new_err(error.to_string()))?;
    detached(py, || load_from(reader, stream))
}

fn load_from(reader: &Reader, stream: RecordBatchStreamReader) -> Result<u64> {
    use arrow_array::RecordBatchReader;
    let schema = reader.schema_now()?;
    let target = Target::new(&schema, &stream.schema())?;
    if let Source::Live(opened) = &reader.source {
        let database = opened.database_to_write()?;
        let refers_to_itself = schema.foreign_keys.iter().any(|foreign_key| foreign_key.table == schema.table);
        if !refers_to_itself && database.table(&schema.table)?.is_empty()? {
            let mut load = database.begin_load(&schema.table, &BuildOptions::default())?;
            for batch in stream {
                target
                    .each_row(&batch.map_err(|error| failed(&error))?, |values| load.push_at(&target.places, values))?;
            }
            return load.commit(&mut |_| ());
        }
    }
    let table = reader.table.clone();
    reader.source.write(move |transaction| {
        let table = transaction.table(&table)?;
        let names: Vec<&str> = target.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut rows = 0;
        let savepoint = transaction.savepoint();
        let insert_all = || -> Result<()> {
            for batch in stream {
                target.each_row(&batch.map_err(|error| failed(&error))?, |values| {
                    rows += 1;
                    table.insert_columns(&names, values).map(drop)
                })?;
            }
            Ok(())
        };
        let result = insert_all();
        if result.is_err() {
            transaction.rollback_to(savepoint)?;
        }
        transaction.release(savepoint)?;
        result.map(|()| rows)
    })
}
