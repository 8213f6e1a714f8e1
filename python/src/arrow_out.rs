//! Rows to Arrow: a stream of record batches whose buffers are those that the rows were read into.
//!
//! | column | Arrow |
//! |---|---|
//! | `bool`, integers, floats | the same |
//! | `decimal(P,S)` | `decimal128(P, S)` |
//! | text, `json` | `utf8` |
//! | `bytes` | `binary` |
//! | `date`, `timestamp` | `date32`, `timestamp[us, UTC]` |
//! | `uuid` | `fixed_size_binary(16)`, by the extension `arrow.uuid` |

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types as arrow;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, RecordBatchReader, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use quipu::{ErrorKind, Result};
use quipu_rows::{Batch, BatchColumn, Batches, ColumnValues, DataType, KeyRange};

use crate::error::detached;
use crate::many::{Chunk, chunk};
use crate::reader::{Reader, ask};
use crate::rows::Columns;
use crate::source::Source;

/// What Arrow calls the type of a column.
fn arrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Bool => ArrowType::Boolean,
        DataType::I8 => ArrowType::Int8,
        DataType::I16 => ArrowType::Int16,
        DataType::I32 => ArrowType::Int32,
        DataType::I64 => ArrowType::Int64,
        DataType::U8 => ArrowType::UInt8,
        DataType::U16 => ArrowType::UInt16,
        DataType::U32 => ArrowType::UInt32,
        DataType::U64 => ArrowType::UInt64,
        DataType::F32 => ArrowType::Float32,
        DataType::F64 => ArrowType::Float64,
        DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
        DataType::Numeric | DataType::Text(_) | DataType::Json => ArrowType::Utf8,
        DataType::Bytes | DataType::KeyedBytes => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Uuid => ArrowType::FixedSizeBinary(16),
    }
}

fn field(name: &str, data_type: DataType, is_nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(data_type), is_nullable);
    if data_type != DataType::Uuid {
        return field;
    }
    let extension = [("ARROW:extension:name", "arrow.uuid"), ("ARROW:extension:metadata", "")];
    field.with_metadata(HashMap::from(extension.map(|(key, value)| (key.to_owned(), value.to_owned()))))
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

/// The array of a column, which takes over its buffers.
fn array(column: BatchColumn, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
    let bits = |bits: Vec<u8>| BooleanBuffer::new(Buffer::from_vec(bits), 0, rows);
    let nulls = (column.nulls > 0).then(|| NullBuffer::new(bits(column.validity)));
    Ok(match column.values {
        ColumnValues::Bool(values) => Arc::new(BooleanArray::new(bits(values), nulls)),
        ColumnValues::I8(values) => primitive::<arrow::Int8Type>(values, nulls),
        ColumnValues::I16(values) => primitive::<arrow::Int16Type>(values, nulls),
        ColumnValues::I32(values) => primitive::<arrow::Int32Type>(values, nulls),
        ColumnValues::I64(values) => primitive::<arrow::Int64Type>(values, nulls),
        ColumnValues::U8(values) => primitive::<arrow::UInt8Type>(values, nulls),
        ColumnValues::U16(values) => primitive::<arrow::UInt16Type>(values, nulls),
        ColumnValues::U32(values) => primitive::<arrow::UInt32Type>(values, nulls),
        ColumnValues::U64(values) => primitive::<arrow::UInt64Type>(values, nulls),
        ColumnValues::F32(values) => primitive::<arrow::Float32Type>(values, nulls),
        ColumnValues::F64(values) => primitive::<arrow::Float64Type>(values, nulls),
        ColumnValues::Date(values) => primitive::<arrow::Date32Type>(values, nulls),
        ColumnValues::Timestamp(values) => {
            Arc::new(TimestampMicrosecondArray::new(ScalarBuffer::from(values), nulls).with_timezone("UTC"))
        }
        ColumnValues::Decimal(values) => {
            let array = Decimal128Array::new(ScalarBuffer::from(values), nulls);
            let (precision, scale) = match column.data_type {
                DataType::Decimal { precision, scale } => (precision, scale as i8),
                _ => (38, 0),
            };
            Arc::new(array.with_precision_and_scale(precision, scale)?)
        }
        ColumnValues::Uuid(values) => {
            let bytes = Buffer::from_vec(values.into_flattened());
            Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls)?)
        }
        ColumnValues::Bytes { offsets, bytes } => {
            let (offsets, bytes) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes));
            match column.data_type {
                DataType::Bytes | DataType::KeyedBytes => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
                _ => Arc::new(StringArray::try_new(offsets, bytes, nulls)?),
            }
        }
    })
}

/// Where batches come from.
enum From {
    /// A scan of a snapshot.
    Scan(Box<Batches>),
    /// A range, some rows at a time.
    Chunks(Box<Chunks>),
}

/// Rows that an index looks up in its table, or those of a transaction, some at a time.
struct Chunks {
    reader: Reader,
    /// What is to be read; none at the end.
    rest: Option<KeyRange>,
    places: Vec<usize>,
    empty: Batch,
    rows: usize,
    is_reverse: bool,
}

impl Chunks {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let Some(range) = self.rest.take() else { return Ok(None) };
        let (limit, is_reverse) = (self.rows as u64, self.is_reverse);
        let read: Chunk<_> = ask!(self.reader, |rows| chunk(rows, &range, limit, is_reverse))?;
        self.rest = read.rest;
        let mut batch = self.empty.clone();
        for row in &read.rows {
            batch.push(&row.view()?, &self.places)?;
        }
        Ok((batch.rows() > 0).then_some(batch))
    }
}

/// A stream of record batches.
struct Stream {
    schema: SchemaRef,
    from: From,
    is_over: bool,
}

impl Stream {
    fn new(
        reader: Reader,
        range: KeyRange,
        is_reverse: bool,
        batch_rows: usize,
        names: Option<Vec<String>>,
    ) -> Result<Stream> {
        let declared = reader.schema_now()?;
        let names = names.unwrap_or_else(|| {
            declared.columns.iter().filter(|column| !column.hidden).map(|column| column.name.clone()).collect()
        });
        let (mut fields, mut places, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for name in &names {
            let place = declared.place(name).ok_or_else(|| Columns::of(&declared).no_column(name))?;
            let column = &declared.columns[place];
            fields.push(field(name, column.data_type, !column.not_null));
            places.push(place);
            columns.push((name.clone(), column.data_type));
        }
        let schema = Arc::new(Schema::new(fields));
        let rows = batch_rows.max(1);
        if let Source::Moment(moment) = &reader.source {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut scan = moment.snapshot()?.scan(&reader.table)?.columns(&names)?.batch_rows(rows);
            if let Some(index) = &reader.index {
                scan = scan.index(index)?;
            }
            let scan = scan.range(range.clone());
            match if is_reverse { scan.reverse() } else { scan }.batches() {
                Ok(batches) => return Ok(Stream { schema, from: From::Scan(Box::new(batches)), is_over: false }),
                // The index lacks a column, so rows are looked up in the table.
                Err(error) if error.kind() == ErrorKind::Invalid && reader.index.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let empty = Batch::new(columns);
        let chunks = Chunks { reader, rest: Some(range), places, empty, rows, is_reverse };
        Ok(Stream { schema, from: From::Chunks(Box::new(chunks)), is_over: false })
    }

    fn next_batch(&mut self) -> Result<Option<Batch>> {
        match &mut self.from {
            From::Scan(batches) => batches.next().transpose(),
            From::Chunks(chunks) => chunks.next_batch(),
        }
    }
}

impl Iterator for Stream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = match self.next_batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                self.is_over = true;
                return None;
            }
            Err(error) => {
                self.is_over = true;
                return Some(Err(ArrowError::ExternalError(Box::new(error))));
            }
        };
        let rows = batch.rows();
        let arrays = batch.into_columns().into_iter().map(|column| array(column, rows));
        let arrays = match arrays.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(arrays) => arrays,
            Err(error) => return Some(Err(error)),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The rows of a range as a capsule of Arrow's C stream.
///
/// # Errors
/// `InvalidError` if there is no such column.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    reader: Reader,
    range: KeyRange,
    is_reverse: bool,
    batch_rows: usize,
    columns: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyAny>> {
    let stream = detached(py, || Stream::new(reader, range, is_reverse, batch_rows, columns))?;
    let stream = FFI_ArrowArrayStream::new(Box::new(stream));
    Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?.into_any())
}
