//! Rows as a Parquet file: columns are gathered, and written as a group of rows when there are enough.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType as PhysicalType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use quipu_rows::{Column, DataType, Value};

use crate::failure::{Failure, Result};

/// The rows of a group: readers take groups apart from each other, and each has its own statistics.
const GROUP_ROWS: usize = 122_880;
/// Bytes of texts that end a group before.
const GROUP_BYTES: usize = 64 << 20;

/// A file that is being written. Rows come one by one; memory holds those of one group.
pub(crate) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Gathered>,
    rows: usize,
    /// Bytes of texts in the rows at hand.
    bytes: usize,
}

/// The values of a column in the rows at hand.
struct Gathered {
    name: String,
    data_type: DataType,
    /// For each row 1 if it has a value, else 0; none if all have.
    levels: Option<Vec<i16>>,
    values: Values,
}

enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    /// Values of so many bytes.
    Fixed(usize, Vec<FixedLenByteArray>),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file of these columns.
    pub(crate) fn new(out: W, columns: &[Column]) -> Result<ParquetWriter<W>> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, ParquetError>>().map_err(failure)?;
        let schema = Type::group_type_builder("quipu").with_fields(fields).build().map_err(failure)?;
        let properties = WriterProperties::builder()
            .set_created_by(format!("quipu version {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(failure)?;
        let columns = columns.iter().map(|column| Gathered {
            name: column.name.clone(),
            data_type: column.data_type,
            levels: (!column.not_null).then(Vec::new),
            values: Values::of(column.data_type),
        });
        Ok(ParquetWriter { file, columns: columns.collect(), rows: 0, bytes: 0 })
    }

    /// Adds a row: a value for each column.
    pub(crate) fn push(&mut self, row: &[Value<'_>]) -> Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            self.bytes += column.push(value)?;
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.write_group() } else { Ok(()) }
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let mut out = self.file.into_inner().map_err(failure)?;
        Ok(out.flush()?)
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group().map_err(failure)?;
        for column in &mut self.columns {
            column.write(&mut group).map_err(failure)?;
        }
        group.close().map_err(failure)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

/// What a writer says. An error of the output is reported unchanged, since its reader may have gone.
fn failure(error: ParquetError) -> Failure {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => Failure::from(*error),
            Err(source) => Failure::new(format!("cannot write the output: {source}")),
        },
        other => Failure::new(format!("cannot write the output: {other}")),
    }
}

/// How a column is declared in the file.
fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let integer = |width, is_signed| Some(LogicalType::integer(width, is_signed));
    let (physical, logical) = match column.data_type {
        DataType::Bool => (Physical::BOOLEAN, None),
        DataType::I8 => (Physical::INT32, integer(8, true)),
        DataType::I16 => (Physical::INT32, integer(16, true)),
        DataType::I32 => (Physical::INT32, integer(32, true)),
        DataType::I64 => (Physical::INT64, integer(64, true)),
        DataType::U8 => (Physical::INT32, integer(8, false)),
        DataType::U16 => (Physical::INT32, integer(16, false)),
        DataType::U32 => (Physical::INT32, integer(32, false)),
        DataType::U64 => (Physical::INT64, integer(64, false)),
        DataType::F32 => (Physical::FLOAT, None),
        DataType::F64 => (Physical::DOUBLE, None),
        DataType::Decimal { precision, scale } => {
            let physical = match precision {
                ..10 => Physical::INT32,
                10..19 => Physical::INT64,
                _ => Physical::FIXED_LEN_BYTE_ARRAY,
            };
            (physical, Some(LogicalType::decimal(scale.into(), precision.into())))
        }
        DataType::Text(_) | DataType::Numeric => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        DataType::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        DataType::Bytes | DataType::KeyedBytes => (Physical::BYTE_ARRAY, None),
        DataType::Date => (Physical::INT32, Some(LogicalType::Date)),
        DataType::Timestamp => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        DataType::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
    };
    let builder = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(if column.not_null { Repetition::REQUIRED } else { Repetition::OPTIONAL })
        .with_logical_type(logical);
    let builder = match column.data_type {
        DataType::Decimal { precision, scale } => builder.with_precision(precision.into()).with_scale(scale.into()),
        _ => builder,
    };
    let builder = match Values::of(column.data_type) {
        Values::Fixed(size, _) => builder.with_length(size as i32),
        _ => builder,
    };
    Ok(Arc::new(builder.build()?))
}

impl Values {
    fn of(data_type: DataType) -> Values {
        match data_type {
            DataType::Bool => Values::Bool(Vec::new()),
            DataType::I64 | DataType::U64 | DataType::Timestamp => Values::Int64(Vec::new()),
            DataType::F32 => Values::Float(Vec::new()),
            DataType::F64 => Values::Double(Vec::new()),
            DataType::Numeric | DataType::Text(_) | DataType::Json => Values::Bytes(Vec::new()),
            DataType::Bytes | DataType::KeyedBytes => Values::Bytes(Vec::new()),
            DataType::Uuid => Values::Fixed(16, Vec::new()),
            DataType::Decimal { precision: 10..=18, .. } => Values::Int64(Vec::new()),
            DataType::Decimal { precision: 19.., .. } => Values::Fixed(16, Vec::new()),
            _ => Values::Int32(Vec::new()),
        }
    }
}

impl Gathered {
    /// Adds a value. Returns its bytes, if it is a text or the like.
    fn push(&mut self, value: &Value<'_>) -> Result<usize> {
        match (&mut self.levels, value.is_null()) {
            (Some(levels), is_null) => levels.push(i16::from(!is_null)),
            (None, true) => return Err(self.unfit(value)),
            (None, false) => {}
        }
        if value.is_null() {
            return Ok(0);
        }
        match (&mut self.values, value) {
            (Values::Bool(values), Value::Bool(value)) => values.push(*value),
            // An unsigned integer stands there as its bits.
            (Values::Int32(values), Value::Int(int)) => values.push(*int as i32),
            (Values::Int32(values), Value::Date(date)) => values.push(date.days()),
            (Values::Int32(values), Value::Decimal(decimal)) => values.push(decimal.units() as i32),
            (Values::Int64(values), Value::Int(int)) => values.push(*int as i64),
            (Values::Int64(values), Value::Timestamp(timestamp)) => values.push(timestamp.microseconds()),
            (Values::Int64(values), Value::Decimal(decimal)) => values.push(decimal.units() as i64),
            (Values::Float(values), Value::Float(float)) => values.push(*float as f32),
            (Values::Double(values), Value::Float(float)) => values.push(*float),
            (Values::Bytes(values), Value::Numeric(text) | Value::Text(text) | Value::Json(text)) => {
                values.push(text.as_bytes().to_vec().into());
                return Ok(text.len());
            }
            (Values::Bytes(values), Value::Bytes(bytes)) => {
                values.push(bytes.to_vec().into());
                return Ok(bytes.len());
            }
            (Values::Fixed(_, values), Value::Uuid(uuid)) => values.push(uuid.as_bytes().to_vec().into()),
            (Values::Fixed(_, values), Value::Decimal(decimal)) => {
                values.push(decimal.units().to_be_bytes().to_vec().into());
            }
            _ => return Err(self.unfit(value)),
        }
        Ok(0)
    }

    #[cold]
    fn unfit(&self, value: &Value<'_>) -> Failure {
        Failure::new(format!(
            "column {} of type {} has the value {value}: run `quipu check`",
            self.name, self.data_type
        ))
    }

    /// Writes the values, and forgets them.
    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Bool(values) => write::<BoolType, W>(group, values, levels)?,
            Values::Int32(values) => write::<Int32Type, W>(group, values, levels)?,
            Values::Int64(values) => write::<Int64Type, W>(group, values, levels)?,
            Values::Float(values) => write::<FloatType, W>(group, values, levels)?,
            Values::Double(values) => write::<DoubleType, W>(group, values, levels)?,
            Values::Bytes(values) => write::<ByteArrayType, W>(group, values, levels)?,
            Values::Fixed(_, values) => write::<FixedLenByteArrayType, W>(group, values, levels)?,
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

fn write<T: PhysicalType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the file has fewer columns than the rows".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    column.close()
}
