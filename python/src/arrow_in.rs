//! Rows from Arrow: values are read in the buffers of the library that made them.
//!
//! A value becomes what the column holds if it means the same: integers of any width, texts of any layout, dictionaries
//! of them, timestamps of any unit that lose nothing. Lists, structs and maps become JSON.
//!
//! Nothing is believed of a buffer: arrays are checked in full before a value is read, since others make some that
//! break the rules of their types, such as texts that are no UTF-8.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types as arrow;
use arrow_array::{Array, ArrayReader, ArrayRef, StructArray, make_array};
use arrow_schema::{ArrowError, DataType as ArrowType, Fields, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use quipu::{Error, Result};
use quipu_rows::{BuildOptions, DataType, Date, Decimal, TableSchema, Timestamp, Value};
use uuid::Uuid;

use crate::arrow_json::json;
use crate::error::{detached, invalid};
use crate::on_conflict::OnConflict;
use crate::reader::Reader;
use crate::signals::{ROWS_BETWEEN_SIGNALS, check_signals};
use crate::source::Source;

const MICROSECONDS_A_SECOND: i64 = 1_000_000;
const MILLISECONDS_A_DAY: i64 = 86_400_000;
const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// Reads the value of a row.
type Read<'a> = Box<dyn Fn(usize) -> std::result::Result<Value<'a>, String> + 'a>;

/// Makes a value of microseconds since 1970; none are too many for 64 bits.
type Moment<'a> = fn(Option<i64>) -> std::result::Result<Value<'a>, String>;

/// The values of an array of a primitive type, each made into what is read.
macro_rules! primitive {
    ($array:ident, $type:ty, $make:expr) => {{
        let values = $array.as_primitive::<$type>().values();
        Box::new(move |row: usize| $make(values[row]))
    }};
}

/// How the values of an array are read for a column of this type; none if they cannot be.
fn read<'a>(array: &'a dyn Array, wanted: DataType) -> Option<Read<'a>> {
    let present: Read<'a> = match array.data_type() {
        ArrowType::Null => Box::new(|_| Ok(Value::Null)),
        ArrowType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row| Ok(Value::Bool(values.value(row))))
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
        ArrowType::Timestamp(unit, zone) => {
            // pandas has no other date than a midnight without a zone.
            let is_date = wanted == DataType::Date && zone.is_none();
            timestamps(array, *unit, if is_date { midnight } else { moment })
        }
        // A dictionary without values is one of NULLs.
        ArrowType::Dictionary(..) if array.as_any_dictionary().values().is_empty() => Box::new(|_| Ok(Value::Null)),
        ArrowType::Struct(_)
        | ArrowType::List(_)
        | ArrowType::LargeList(_)
        | ArrowType::FixedSizeList(..)
        | ArrowType::Map(..)
            if wanted == DataType::Json =>
        {
            let write = json(array)?;
            Box::new(move |row| {
                let mut text = String::new();
                write(row, &mut text)?;
                Ok(Value::Json(text.into()))
            })
        }
        ArrowType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (keys, values) = (dictionary.normalized_keys(), read(dictionary.values().as_ref(), wanted)?);
            Box::new(move |row| values(keys[row]))
        }
        _ => numbers(array).or_else(|| dates(array)).or_else(|| bytes(array, wanted))?,
    };
    let nulls = array.nulls();
    Some(Box::new(move |row| match nulls {
        Some(nulls) if nulls.is_null(row) => Ok(Value::Null),
        _ => present(row),
    }))
}

/// Integers, floats and decimals, if it has these.
fn numbers(array: &dyn Array) -> Option<Read<'_>> {
    macro_rules! int {
        ($type:ty) => {
            primitive!(array, $type, |int| Ok(Value::from(int)))
        };
    }
    Some(match array.data_type() {
        ArrowType::Int8 => int!(arrow::Int8Type),
        ArrowType::Int16 => int!(arrow::Int16Type),
        ArrowType::Int32 => int!(arrow::Int32Type),
        ArrowType::Int64 => int!(arrow::Int64Type),
        ArrowType::UInt8 => int!(arrow::UInt8Type),
        ArrowType::UInt16 => int!(arrow::UInt16Type),
        ArrowType::UInt32 => int!(arrow::UInt32Type),
        ArrowType::UInt64 => int!(arrow::UInt64Type),
        ArrowType::Float32 => primitive!(array, arrow::Float32Type, |float: f32| Ok(Value::from(float))),
        ArrowType::Float64 => primitive!(array, arrow::Float64Type, |float: f64| Ok(Value::from(float))),
        ArrowType::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).ok()?;
            primitive!(array, arrow::Decimal128Type, |units| {
                let decimal = Decimal::new(units, scale).map(Value::Decimal);
                decimal.ok_or_else(|| format!("{units} is not a decimal of scale {scale}"))
            })
        }
        _ => return None,
    })
}

/// Dates, if it has these.
fn dates(array: &dyn Array) -> Option<Read<'_>> {
    Some(match array.data_type() {
        ArrowType::Date32 => primitive!(array, arrow::Date32Type, day),
        ArrowType::Date64 => primitive!(array, arrow::Date64Type, |milliseconds: i64| {
            match i32::try_from(milliseconds / MILLISECONDS_A_DAY) {
                Ok(days) if milliseconds % MILLISECONDS_A_DAY == 0 => day(days),
                _ => Err(format!("{milliseconds} milliseconds are not a date")),
            }
        }),
        _ => return None,
    })
}

/// Bytes, if it has these; sixteen of them may be a UUID.
fn bytes(array: &dyn Array, wanted: DataType) -> Option<Read<'_>> {
    Some(match array.data_type() {
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
        _ => return None,
    })
}

/// Timestamps, of which `moment` makes values.
fn timestamps<'a>(array: &'a dyn Array, unit: TimeUnit, moment: Moment<'a>) -> Read<'a> {
    match unit {
        TimeUnit::Second => primitive!(array, arrow::TimestampSecondType, |seconds: i64| {
            moment(seconds.checked_mul(MICROSECONDS_A_SECOND))
        }),
        TimeUnit::Millisecond => primitive!(array, arrow::TimestampMillisecondType, |milliseconds: i64| {
            moment(milliseconds.checked_mul(1_000))
        }),
        TimeUnit::Microsecond => {
            primitive!(array, arrow::TimestampMicrosecondType, |microseconds| moment(Some(microseconds)))
        }
        TimeUnit::Nanosecond => {
            primitive!(array, arrow::TimestampNanosecondType, |nanoseconds: i64| match nanoseconds % 1_000 {
                0 => moment(Some(nanoseconds / 1_000)),
                _ => Err(format!("{nanoseconds} ns are not whole microseconds; a timestamp holds those")),
            })
        }
    }
}

fn text<'a>(wanted: DataType, value: impl Fn(usize) -> &'a str + 'a) -> Read<'a> {
    match wanted {
        DataType::Json => Box::new(move |row| Ok(Value::Json(value(row).into()))),
        DataType::Numeric => Box::new(move |row| Ok(Value::Numeric(value(row).into()))),
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

/// The day that begins at a moment without a zone.
fn midnight<'a>(microseconds: Option<i64>) -> std::result::Result<Value<'a>, String> {
    match microseconds.map(|microseconds| (microseconds % MICROSECONDS_A_DAY, microseconds / MICROSECONDS_A_DAY)) {
        Some((0, days)) => day(i32::try_from(days).unwrap_or(i32::MAX)),
        _ => Err("a timestamp that is not midnight is not a date".to_owned()),
    }
}

/// Why an array is not what its type says, and the row with which it is wrong, if it is one.
type Fault = (Option<usize>, String);

/// Looks at all of an array: offsets, texts, keys of dictionaries.
fn check(array: &dyn Array) -> std::result::Result<(), Fault> {
    let data = array.to_data();
    let Err(error) = data.validate_full() else { return Ok(()) };
    let (keys, values) = match array.data_type() {
        ArrowType::Dictionary(..) if data.validate_data().is_ok() => {
            let dictionary = array.as_any_dictionary();
            let keys = (!dictionary.values().is_empty()).then(|| dictionary.normalized_keys());
            (Some(keys.unwrap_or_default()), dictionary.values().as_ref())
        }
        _ => (None, array),
    };
    let Some(bytes) = bytes_of_texts(values) else { return Err((None, error.to_string())) };
    for row in (0..array.len()).filter(|&row| array.is_valid(row)) {
        let place = keys.as_ref().map_or(row, |keys| keys[row]);
        if values.is_null(place) {
            continue;
        }
        let bytes = bytes(place);
        if std::str::from_utf8(&bytes).is_err() {
            let what = format!("\"{}\" is not UTF-8, which texts are", bytes.escape_ascii());
            return Err((Some(row), format!("{what}; decode it, or load it into a column of bytes")));
        }
    }
    // What lies under NULLs is not read.
    Ok(())
}

/// The bytes of the texts of an array, whose offsets are right; none if it has none.
fn bytes_of_texts(array: &dyn Array) -> Option<Box<dyn Fn(usize) -> Vec<u8>>> {
    let binary = match array.data_type() {
        ArrowType::Utf8 => ArrowType::Binary,
        ArrowType::LargeUtf8 => ArrowType::LargeBinary,
        ArrowType::Utf8View => ArrowType::BinaryView,
        _ => return None,
    };
    let array: ArrayRef = make_array(array.to_data().into_builder().data_type(binary).build().ok()?);
    Some(Box::new(move |row| match array.data_type() {
        ArrowType::Binary => array.as_binary::<i32>().value(row).to_vec(),
        ArrowType::LargeBinary => array.as_binary::<i64>().value(row).to_vec(),
        _ => array.as_binary_view().value(row).to_vec(),
    }))
}

/// Whether a column is one in which pandas hands over the labels of rows that have no name.
fn is_index_of_pandas(name: &str) -> bool {
    let number = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The columns of a stream: names, types, and places in the stream and in the table.
struct Target {
    table: String,
    columns: Vec<(String, DataType)>,
    in_stream: Vec<usize>,
    places: Vec<usize>,
}

impl Target {
    fn new(schema: &TableSchema, stream: &Fields) -> Result<Target> {
        let mut target =
            Target { table: schema.table.clone(), columns: Vec::new(), in_stream: Vec::new(), places: Vec::new() };
        for (number, field) in stream.iter().enumerate() {
            let Some(place) = schema.place(field.name()) else {
                if is_index_of_pandas(field.name()) {
                    continue;
                }
                let what = format!("table {} has no column {:?}, which the stream has", schema.table, field.name());
                return Err(invalid(what));
            };
            target.in_stream.push(number);
            target.columns.push((field.name().clone(), schema.columns[place].data_type));
            target.places.push(place);
        }
        Ok(target)
    }

    /// Gives the rows of a batch to `take`, one after the other. `before` is the number of rows of the stream before
    /// the batch, to which those of the batch are added.
    ///
    /// # Errors
    /// `Invalid`, which names table, column and row, if an array is not what its type says or a value does not fit the
    /// column; those of `take`; that of [`check_signals`].
    fn each_row(
        &self,
        batch: &StructArray,
        before: &mut u64,
        mut take: impl FnMut(&[Value<'_>]) -> Result<()>,
    ) -> Result<()> {
        let table = &self.table;
        let wrong = |name: &str, row: u64, what: &str| {
            invalid(format!("table {table}, column {name}, row {row} of the stream, counted from 0: {what}"))
        };
        let mut columns = Vec::with_capacity(self.columns.len());
        for (number, (name, wanted)) in self.in_stream.iter().zip(&self.columns) {
            let array = batch.column(*number).as_ref();
            check(array).map_err(|(row, what)| match row {
                Some(row) => wrong(name, *before + row as u64, &what),
                None => invalid(format!("table {table}, column {name}: the array of Arrow is damaged: {what}")),
            })?;
            let read = read(array, *wanted).ok_or_else(|| {
                let found = array.data_type();
                invalid(format!("table {table}, column {name}: {found} of Arrow cannot be read, expected {wanted}"))
            })?;
            columns.push(read);
        }
        let mut values = Vec::with_capacity(columns.len());
        for row in 0..batch.len() {
            values.clear();
            for (read, (name, _)) in columns.iter().zip(&self.columns) {
                values.push(read(row).map_err(|what| wrong(name, *before, &what))?);
            }
            take(&values)?;
            *before += 1;
            if before.is_multiple_of(ROWS_BETWEEN_SIGNALS as u64) {
                check_signals()?;
            }
        }
        Ok(())
    }
}

/// The next rows of a stream, each with a value of every column.
///
/// # Errors
/// `Invalid` if the stream fails, and if a row is NULL as a whole: `before` is the number of those before it.
fn next_batch(stream: &mut ArrayStreamReader, before: u64) -> Option<Result<StructArray>> {
    Some(stream.next()?.map_err(|error| failed(&error)).and_then(|array| {
        let rows = array.as_struct();
        match (0..rows.len()).find(|&row| rows.is_null(row)) {
            None => Ok(rows.clone()),
            Some(row) => {
                let row = before + row as u64;
                Err(invalid(format!("row {row} of the stream, counted from 0, is NULL as a whole")))
            }
        }
    }))
}

fn failed(error: &ArrowError) -> Error {
    invalid(format!("the stream of Arrow has failed: {error}"))
}

/// Adds the rows of a stream, all or none. Returns how many came.
///
/// # Errors
/// `TypeError` if the object has no stream, and those of rows that a table refuses.
pub(crate) fn load(reader: &Reader, object: &Bound<'_, PyAny>, on_conflict: OnConflict) -> PyResult<u64> {
    let py = object.py();
    if !object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let kind = object.get_type().name()?;
        let what = format!("{kind} has no __arrow_c_stream__; give a table or a stream of pyarrow, pandas, Polars");
        return Err(PyTypeError::new_err(what));
    }
    let capsule = object.call_method0(intern!(py, "__arrow_c_stream__"))?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to a stream of Arrow's C interface. It is moved out, and an empty one is
    // left behind, which the capsule's destructor accepts. The GIL is held, so no other thread takes it meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let stream = ArrayStreamReader::try_new(stream).map_err(|error| PyTypeError::new_err(error.to_string()))?;
    if !matches!(stream.field().data_type(), ArrowType::Struct(_)) {
        let found = stream.field().data_type();
        return Err(PyTypeError::new_err(format!("a stream of {found} has no columns; give a table")));
    }
    detached(py, || load_from(reader, stream, on_conflict))
}

fn load_from(reader: &Reader, mut stream: ArrayStreamReader, on_conflict: OnConflict) -> Result<u64> {
    let schema = reader.schema_now()?;
    let ArrowType::Struct(fields) = stream.field().data_type() else { return Err(invalid("a stream has columns")) };
    let target = Target::new(&schema, fields)?;
    // Rows of one key that come together are a conflict as well, which a sorted load only refuses.
    if let Source::Live(opened) = &reader.source
        && on_conflict == OnConflict::Error
    {
        let database = opened.database_to_change()?;
        let refers_to_itself = schema.foreign_keys.iter().any(|foreign_key| foreign_key.table == schema.table);
        if !refers_to_itself && database.table(&schema.table)?.is_empty()? {
            let mut load = database.begin_load(&schema.table, &BuildOptions::default())?;
            let mut rows = 0;
            while let Some(batch) = next_batch(&mut stream, rows) {
                target.each_row(&batch?, &mut rows, |values| load.push_at(&target.places, values))?;
            }
            return load.commit(&mut |_| ());
        }
    }
    let table = reader.table.clone();
    reader.source.write(move |transaction| {
        let table = transaction.table(&table)?;
        let names: Vec<&str> = target.columns.iter().map(|(name, _)| name.as_str()).collect();
        transaction.all_or_none(|| {
            let mut rows = 0;
            while let Some(batch) = next_batch(&mut stream, rows) {
                target.each_row(&batch?, &mut rows, |values| on_conflict.add(&table, &names, values).map(drop))?;
            }
            Ok(rows)
        })
    })
}
