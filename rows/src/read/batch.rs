//! Many rows as columns: buffers of the layout that Arrow and others have, filled again and again.
//!
//! Invariants:
//! 1. All columns have as many values as the batch has rows; a NULL takes its place and is zero, or empty.
//! 2. Bit `n % 8` of byte `n / 8` of the validity says that row `n` has a value.
//! 3. Where values vary in size, value `n` lies between offsets `n` and `n + 1`.

use std::borrow::Cow;

use quipu::{Error, ErrorKind, Result};
use uuid::Uuid;

use crate::read::row::RowView;
use crate::schema::invalid;
use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::text::counted;
use crate::value::time::{Date, Timestamp};

/// Bytes of the values of one column that end a batch: offsets are 32 bits.
const COLUMN_BYTES_MAX: usize = 1 << 30;

/// Rows as columns.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    rows: usize,
    columns: Vec<BatchColumn>,
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub struct BatchColumn {
    /// The name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// Which rows have a value: a bit for each, those of the first eight rows in the first byte, the first lowest.
    pub validity: Vec<u8>,
    /// How many rows have none.
    pub nulls: usize,
    /// The values.
    pub values: ColumnValues,
}

/// The values of a column, one for each row, also where there is none.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after the types of columns")]
pub enum ColumnValues {
    /// A bit for each row, as in the validity.
    Bool(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Units of the type's scale.
    Decimal(Vec<i128>),
    /// Days since 1970-01-01.
    Date(Vec<i32>),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(Vec<i64>),
    Uuid(Vec<[u8; 16]>),
    /// Text, JSON and bytes: one after the other, from `offsets[n]` to `offsets[n + 1]`.
    Bytes {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
    },
}

impl Batch {
    /// A batch without rows, of columns of these names and types.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, DataType)>) -> Batch {
        let column = |(name, data_type): (S, DataType)| BatchColumn {
            name: name.into(),
            data_type,
            validity: Vec::new(),
            nulls: 0,
            values: ColumnValues::of(data_type),
        };
        Batch { rows: 0, columns: columns.into_iter().map(column).collect() }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    /// The columns, to be kept or handed on without a copy.
    pub fn into_columns(self) -> Vec<BatchColumn> {
        self.columns
    }

    /// Forgets the rows, and keeps the buffers for the next ones.
    pub fn clear(&mut self) {
        self.rows = 0;
        for column in &mut self.columns {
            column.validity.clear();
            column.nulls = 0;
            column.values.clear();
        }
    }

    /// Adds a row: of each column of the batch, the one at the place of the schema that `places` says.
    ///
    /// # Errors
    /// Those of [`RowView::value`]; then the batch has no use any more.
    #[inline]
    pub fn push(&mut self, row: &RowView<'_>, places: &[usize]) -> Result<()> {
        for (column, &place) in self.columns.iter_mut().zip(places) {
            match row.shape.read_stored(place, column.data_type, row.value)? {
                Some(bytes) => column.push_stored(self.rows, bytes)?,
                None => column.push(self.rows, &row.value(place)?),
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds a row of values, one for each column.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there are more or fewer, or one is of another type.
    pub fn push_values(&mut self, values: &[Value<'_>]) -> Result<()> {
        if values.len() != self.columns.len() {
            let (given, wanted) = (counted(values.len(), "value"), counted(self.columns.len(), "column"));
            return Err(invalid(format!("{given} for a batch of {wanted}")));
        }
        let mut accepted = Vec::with_capacity(values.len());
        for (column, value) in self.columns.iter().zip(values) {
            let value = column.data_type.accept(value.borrowed());
            accepted.push(value.map_err(|what| invalid(format!("column {}: {what}", column.name)))?);
        }
        for (column, value) in self.columns.iter_mut().zip(&accepted) {
            column.push(self.rows, value);
        }
        self.rows += 1;
        Ok(())
    }

    /// Whether a buffer is so full that the batch should end.
    pub(crate) fn is_full(&self) -> bool {
        self.columns.iter().any(|column| match &column.values {
            ColumnValues::Bytes { bytes, .. } => bytes.len() >= COLUMN_BYTES_MAX,
            _ => false,
        })
    }

    /// The value of a column and a row, both from 0.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column or row, or what was put into the buffers is no value
    /// of the column's type.
    pub fn value(&self, column: usize, row: usize) -> Result<Value<'_>> {
        let found = self.columns.get(column).ok_or_else(|| invalid(format!("the batch has no column {column}")))?;
        found.value(row).ok_or_else(|| {
            let what = format!("column {} of the batch has no {} in row {row}", found.name, found.data_type);
            Error::new(ErrorKind::Invalid, what)
        })
    }
}

/// Sets the bit of a row, whose number is that of the bits before.
#[inline]
fn push_bit(bits: &mut Vec<u8>, number: usize, bit: bool) {
    if number.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(bit) << (number % 8);
    }
}

fn bit(bits: &[u8], number: usize) -> Option<bool> {
    bits.get(number / 8).map(|byte| byte & 1 << (number % 8) != 0)
}

impl BatchColumn {
    /// Adds the value of the next row.
    #[inline]
    fn push(&mut self, row: usize, value: &Value<'_>) {
        let is_null = value.is_null();
        self.nulls += usize::from(is_null);
        push_bit(&mut self.validity, row, !is_null);
        self.values.push(row, value);
    }

    /// Adds the value of the next row as its bytes in a row, or NULL.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if they are no value of the column's type.
    #[inline]
    fn push_stored(&mut self, row: usize, bytes: Option<&[u8]>) -> Result<()> {
        let Some(bytes) = bytes else {
            self.push(row, &Value::Null);
            return Ok(());
        };
        push_bit(&mut self.validity, row, true);
        if self.values.push_stored(row, bytes, self.data_type).is_some() {
            return Ok(());
        }
        let what = format!("bytes of a row are not of type {}: run `quipu check`", self.data_type);
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    /// The value of a row; none if there is none in the buffers.
    fn value(&self, row: usize) -> Option<Value<'_>> {
        if !bit(&self.validity, row)? {
            return Some(Value::Null);
        }
        Some(match &self.values {
            ColumnValues::Bool(bits) => Value::Bool(bit(bits, row)?),
            ColumnValues::I8(values) => Value::from(*values.get(row)?),
            ColumnValues::I16(values) => Value::from(*values.get(row)?),
            ColumnValues::I32(values) => Value::from(*values.get(row)?),
            ColumnValues::I64(values) => Value::from(*values.get(row)?),
            ColumnValues::U8(values) => Value::from(*values.get(row)?),
            ColumnValues::U16(values) => Value::from(*values.get(row)?),
            ColumnValues::U32(values) => Value::from(*values.get(row)?),
            ColumnValues::U64(values) => Value::from(*values.get(row)?),
            ColumnValues::F32(values) => Value::from(*values.get(row)?),
            ColumnValues::F64(values) => Value::from(*values.get(row)?),
            ColumnValues::Decimal(units) => {
                let DataType::Decimal { scale, .. } = self.data_type else { return None };
                Value::Decimal(Decimal::new(*units.get(row)?, scale)?)
            }
            ColumnValues::Date(days) => Value::Date(Date::from_days(*days.get(row)?)?),
            ColumnValues::Timestamp(moments) => Value::Timestamp(Timestamp::from_microseconds(*moments.get(row)?)?),
            ColumnValues::Uuid(uuids) => Value::Uuid(Uuid::from_bytes(*uuids.get(row)?)),
            ColumnValues::Bytes { offsets, bytes } => {
                let at = |number: usize| usize::try_from(*offsets.get(number)?).ok();
                let bytes = bytes.get(at(row)?..at(row + 1)?)?;
                match self.data_type {
                    DataType::Bytes | DataType::KeyedBytes => Value::Bytes(Cow::Borrowed(bytes)),
                    DataType::Numeric => Value::Numeric(std::str::from_utf8(bytes).ok()?.into()),
                    DataType::Json => Value::Json(std::str::from_utf8(bytes).ok()?.into()),
                    _ => Value::Text(std::str::from_utf8(bytes).ok()?.into()),
                }
            }
        })
    }
}

impl ColumnValues {
    fn of(data_type: DataType) -> ColumnValues {
        match data_type {
            DataType::Bool => ColumnValues::Bool(Vec::new()),
            DataType::I8 => ColumnValues::I8(Vec::new()),
            DataType::I16 => ColumnValues::I16(Vec::new()),
            DataType::I32 => ColumnValues::I32(Vec::new()),
            DataType::I64 => ColumnValues::I64(Vec::new()),
            DataType::U8 => ColumnValues::U8(Vec::new()),
            DataType::U16 => ColumnValues::U16(Vec::new()),
            DataType::U32 => ColumnValues::U32(Vec::new()),
            DataType::U64 => ColumnValues::U64(Vec::new()),
            DataType::F32 => ColumnValues::F32(Vec::new()),
            DataType::F64 => ColumnValues::F64(Vec::new()),
            DataType::Decimal { .. } => ColumnValues::Decimal(Vec::new()),
            DataType::Date => ColumnValues::Date(Vec::new()),
            DataType::Timestamp => ColumnValues::Timestamp(Vec::new()),
            DataType::Uuid => ColumnValues::Uuid(Vec::new()),
            DataType::Numeric | DataType::Text(_) | DataType::Json | DataType::Bytes | DataType::KeyedBytes => {
                ColumnValues::Bytes { offsets: vec![0], bytes: Vec::new() }
            }
        }
    }

    fn clear(&mut self) {
        match self {
            ColumnValues::Bool(bits) | ColumnValues::U8(bits) => bits.clear(),
            ColumnValues::I8(values) => values.clear(),
            ColumnValues::I16(values) => values.clear(),
            ColumnValues::I32(values) | ColumnValues::Date(values) => values.clear(),
            ColumnValues::I64(values) | ColumnValues::Timestamp(values) => values.clear(),
            ColumnValues::U16(values) => values.clear(),
            ColumnValues::U32(values) => values.clear(),
            ColumnValues::U64(values) => values.clear(),
            ColumnValues::F32(values) => values.clear(),
            ColumnValues::F64(values) => values.clear(),
            ColumnValues::Decimal(values) => values.clear(),
            ColumnValues::Uuid(values) => values.clear(),
            ColumnValues::Bytes { offsets, bytes } => {
                offsets.truncate(1);
                bytes.clear();
            }
        }
    }

    /// Adds a value as its bytes in a row: of numbers the low bytes at least. None if they are malformed.
    #[inline]
    fn push_stored(&mut self, row: usize, bytes: &[u8], data_type: DataType) -> Option<()> {
        macro_rules! number {
            ($values:expr, $type:ty) => {
                $values.push(<$type>::from_le_bytes(*bytes.first_chunk()?))
            };
        }
        match self {
            ColumnValues::Bool(bits) => push_bit(bits, row, *bytes.first()? == 1),
            ColumnValues::I8(values) => number!(values, i8),
            ColumnValues::I16(values) => number!(values, i16),
            ColumnValues::I32(values) | ColumnValues::Date(values) => number!(values, i32),
            ColumnValues::I64(values) | ColumnValues::Timestamp(values) => number!(values, i64),
            ColumnValues::U8(values) => number!(values, u8),
            ColumnValues::U16(values) => number!(values, u16),
            ColumnValues::U32(values) => number!(values, u32),
            ColumnValues::U64(values) => number!(values, u64),
            ColumnValues::F32(values) => number!(values, f32),
            ColumnValues::F64(values) => number!(values, f64),
            ColumnValues::Decimal(values) => match bytes.first_chunk::<16>() {
                Some(units) => values.push(i128::from_le_bytes(*units)),
                None => values.push(i64::from_le_bytes(*bytes.first_chunk()?).into()),
            },
            ColumnValues::Uuid(values) => values.push(*bytes.first_chunk()?),
            ColumnValues::Bytes { offsets, bytes: all } => {
                if !matches!(data_type, DataType::Bytes | DataType::KeyedBytes) {
                    std::str::from_utf8(bytes).ok()?;
                }
                all.extend_from_slice(bytes);
                offsets.push(all.len() as i32);
            }
        }
        Some(())
    }

    /// Adds a value that the column's type has accepted.
    #[inline]
    fn push(&mut self, row: usize, value: &Value<'_>) {
        macro_rules! int {
            ($values:expr) => {
                $values.push(match value {
                    Value::Int(int) => *int as _,
                    _ => 0,
                })
            };
        }
        match self {
            ColumnValues::Bool(bits) => push_bit(bits, row, matches!(value, Value::Bool(true))),
            ColumnValues::I8(values) => int!(values),
            ColumnValues::I16(values) => int!(values),
            ColumnValues::I32(values) => int!(values),
            ColumnValues::I64(values) => int!(values),
            ColumnValues::U8(values) => int!(values),
            ColumnValues::U16(values) => int!(values),
            ColumnValues::U32(values) => int!(values),
            ColumnValues::U64(values) => int!(values),
            ColumnValues::F32(values) => values.push(match value {
                Value::Float(float) => *float as f32,
                _ => 0.0,
            }),
            ColumnValues::F64(values) => values.push(match value {
                Value::Float(float) => *float,
                _ => 0.0,
            }),
            ColumnValues::Decimal(values) => values.push(match value {
                Value::Decimal(decimal) => decimal.units(),
                _ => 0,
            }),
            ColumnValues::Date(values) => values.push(match value {
                Value::Date(date) => date.days(),
                _ => 0,
            }),
            ColumnValues::Timestamp(values) => values.push(match value {
                Value::Timestamp(moment) => moment.microseconds(),
                _ => 0,
            }),
            ColumnValues::Uuid(values) => values.push(match value {
                Value::Uuid(uuid) => uuid.into_bytes(),
                _ => [0; 16],
            }),
            ColumnValues::Bytes { offsets, bytes } => {
                match value {
                    Value::Numeric(text) | Value::Text(text) | Value::Json(text) => {
                        bytes.extend_from_slice(text.as_bytes())
                    }
                    Value::Bytes(value) => bytes.extend_from_slice(value),
                    _ => {}
                }
                offsets.push(bytes.len() as i32);
            }
        }
    }
}
