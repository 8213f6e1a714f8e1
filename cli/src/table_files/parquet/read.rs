//! The records of a Parquet file: its columns side by side, some rows at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{AsBytes, DataType as PhysicalType, Int96};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::ReaderIter;
use parquet::schema::types::{ColumnDescriptor, Type};
use quipu_rows::{Column, DataType, Date, Decimal, Timestamp, Uuid, Value};

use crate::failure::{Failure, Result};
use crate::table_files::parquet::nested;

/// Rows that are read together: pages of columns hold many more, and are kept until they are used up.
const ROWS_TOGETHER: usize = 1024;
/// What a file begins and ends with.
const MAGIC: [u8; 4] = *b"PAR1";
/// The Julian day of 1970-01-01.
const JULIAN_DAY_OF_EPOCH: i64 = 2_440_588;
const MICROSECONDS_OF_DAY: i64 = 86_400_000_000;

/// The records of an open file, one after the other.
pub(crate) struct ParquetRecords {
    file: SerializedFileReader<File>,
    columns: Vec<FileColumn>,
    /// The number of the next row group.
    next_group: usize,
    /// Rows of the row group at hand that are not read yet.
    left: usize,
    readers: Vec<Reader>,
    /// The values of the rows at hand, by column.
    values: Vec<Vec<Value<'static>>>,
    /// How many rows are at hand, and which of them it is.
    rows: usize,
    at: usize,
    /// Records read before the rows at hand.
    before: u64,
}

/// A column of a file.
struct FileColumn {
    column: Column,
    source: SourceColumn,
}

/// Where the values of a column come from.
enum SourceColumn {
    /// A column chunk of its own.
    Flat { leaf: usize, meaning: Meaning, is_required: bool },
    /// A field of the root with fields of its own, or repeated.
    Nested,
}

/// What reads the values of a column in the row group at hand.
enum Reader {
    Flat(Box<ColumnReader>),
    Nested(Box<ReaderIter>),
}

/// What the values of a column are, by its logical type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    Bool,
    Signed,
    Unsigned,
    Float,
    /// With so many digits after the point.
    Decimal(u8),
    Text,
    Json,
    Bytes,
    Date,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Uuid,
}

impl ParquetRecords {
    /// Reads what the file says of its columns.
    ///
    /// # Errors
    /// It is not a Parquet file, is damaged, or has a column of a type that no column of a table has.
    pub(crate) fn open(mut file: File) -> Result<ParquetRecords> {
        check_ends(&mut file)?;
        let size = file.metadata()?.len();
        let file = SerializedFileReader::new(file).map_err(damaged)?;
        check_places(file.metadata(), size)?;
        let columns = {
            let schema = file.metadata().file_metadata().schema_descr();
            let fields = schema.root_schema().get_fields();
            let mut columns = Vec::with_capacity(fields.len());
            let mut leaf = 0;
            for (place, field) in fields.iter().enumerate() {
                let is_flat = field.is_primitive() && repetition(field) != Repetition::REPEATED;
                columns.push(FileColumn::new(field, is_flat.then(|| (leaf, schema.column(leaf))))?);
                while leaf < schema.num_columns() && schema.get_column_root_idx(leaf) == place {
                    if !is_flat {
                        nested::check(&schema.column(leaf))?;
                    }
                    leaf += 1;
                }
            }
            columns
        };
        let values = columns.iter().map(|_| Vec::new()).collect();
        Ok(ParquetRecords {
            file,
            columns,
            next_group: 0,
            left: 0,
            readers: Vec::new(),
            values,
            rows: 0,
            at: 0,
            before: 0,
        })
    }

    /// The columns, as a table has them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|column| &column.column)
    }

    /// Goes to the next record; `false` if there are no more.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.at + 1 < self.rows {
            self.at += 1;
            return Ok(true);
        }
        self.before += self.rows as u64;
        (self.rows, self.at) = (0, 0);
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            self.begin_group()?;
        }
        let rows = self.left.min(ROWS_TOGETHER);
        for (place, column) in self.columns.iter().enumerate() {
            let values = &mut self.values[place];
            values.clear();
            let read = match (&mut self.readers[place], &column.source) {
                (Reader::Nested(rows_of), _) => nested::read(rows_of, rows, values),
                (Reader::Flat(reader), SourceColumn::Flat { meaning, is_required, .. }) => {
                    read_flat(reader, *meaning, *is_required, rows, values)
                }
                (Reader::Flat(_), SourceColumn::Nested) => Ok(()),
            };
            let name = &column.column.name;
            read.map_err(|wrong| match wrong {
                Wrong::File(error) => damaged(error).context(format_args!("column {name}")),
                Wrong::Value(what) => {
                    let row = self.before + values.len() as u64 + 1;
                    Failure::new(format!("row {row}: column {name}: {what}"))
                }
            })?;
            if values.len() != rows {
                let row = self.before + values.len() as u64 + 1;
                return Err(damaged(format!("column {name} has no value in row {row}")));
            }
        }
        self.rows = rows;
        self.left -= rows;
        Ok(true)
    }

    fn begin_group(&mut self) -> Result<()> {
        let group = self.file.get_row_group(self.next_group).map_err(damaged)?;
        let rows = group.metadata().num_rows();
        self.left = usize::try_from(rows).map_err(|_| damaged(format!("a group of {rows} rows")))?;
        self.next_group += 1;
        self.readers.clear();
        for column in &self.columns {
            let reader = match &column.source {
                SourceColumn::Flat { leaf, .. } => {
                    group.get_column_reader(*leaf).map(|reader| Reader::Flat(Box::new(reader)))
                }
                SourceColumn::Nested => {
                    nested::reader(&*group, &column.column.name).map(|rows| Reader::Nested(Box::new(rows)))
                }
            };
            let name = &column.column.name;
            self.readers.push(reader.map_err(|error| damaged(error).context(format_args!("column {name}")))?);
        }
        Ok(())
    }

    /// The number of the record at hand, from 1.
    pub(crate) fn row(&self) -> u64 {
        self.before + self.at as u64 + 1
    }

    /// The part of all rows that have been read, from 0 to 1.
    pub(crate) fn part_read(&self) -> f64 {
        self.row() as f64 / self.file.metadata().file_metadata().num_rows().max(1) as f64
    }

    /// The value of the record at hand in this column of the file.
    pub(crate) fn value(&self, column: usize) -> Value<'_> {
        self.values[column][self.at].borrowed()
    }
}

/// Fails unless the file begins and ends as one does.
fn check_ends(file: &mut File) -> Result<()> {
    let mut ends = || -> std::io::Result<([u8; 4], [u8; 4])> {
        let (mut first, mut last) = ([0; 4], [0; 4]);
        if file.seek(SeekFrom::End(0))? < 12 {
            return Ok((first, last));
        }
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut first)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut last)?;
        Ok((first, last))
    };
    match ends()? {
        (MAGIC, MAGIC) => Ok(()),
        (MAGIC, _) => Err(Failure::new("the Parquet file is cut short: it does not end with PAR1")),
        _ => Err(Failure::new("it is not a Parquet file: it does not begin with PAR1")),
    }
}

/// Fails unless what the file says of its columns lies in a file of this size: the library takes that for granted.
fn check_places(metadata: &ParquetMetaData, size: u64) -> Result<()> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let places = [Some(start), Some(column.data_page_offset()), start.checked_add(column.compressed_size())];
            let is_within = |place: &Option<i64>| place.is_some_and(|at| u64::try_from(at).is_ok_and(|at| at <= size));
            if !places.iter().all(is_within) || column.compressed_size() < 0 {
                let what = format!("column {} of group {number} lies outside of it", column.column_path().string());
                return Err(damaged(what));
            }
        }
    }
    Ok(())
}

/// The error of a file that cannot be read as what it says it is.
fn damaged(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the Parquet file is damaged, or of a kind that is not read: {error}"))
}

/// What keeps values from being read.
pub(super) enum Wrong {
    /// The file.
    File(ParquetError),
    /// The next value, which no column can hold.
    Value(String),
}

impl From<ParquetError> for Wrong {
    fn from(error: ParquetError) -> Wrong {
        Wrong::File(error)
    }
}

fn repetition(field: &Type) -> Repetition {
    let info = field.get_basic_info();
    if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED }
}

impl FileColumn {
    /// The column of a field of the root; a flat one comes with its leaf.
    fn new(field: &Type, flat: Option<(usize, std::sync::Arc<ColumnDescriptor>)>) -> Result<FileColumn> {
        let is_required = repetition(field) == Repetition::REQUIRED;
        let refuse =
            |what: String| Failure::new(format!("column {:?}: {what}, which no column of a table holds", field.name()));
        let (data_type, source) = match flat {
            None => (DataType::Json, SourceColumn::Nested),
            Some((leaf, described)) => {
                let (data_type, meaning) = type_of(&described).map_err(refuse)?;
                (data_type, SourceColumn::Flat { leaf, meaning, is_required })
            }
        };
        // A list that is not said to be one is never NULL, but empty.
        let not_null = is_required || repetition(field) == Repetition::REPEATED;
        Ok(FileColumn { column: Column { not_null, ..Column::new(field.name(), data_type) }, source })
    }
}

/// The type of a flat column, and what its values mean.
///
/// # Errors
/// What it is, if no column has it.
pub(super) fn type_of(column: &ColumnDescriptor) -> Result<(DataType, Meaning), String> {
    let integer = |width: i8, is_signed: bool| match (width, is_signed) {
        (8, true) => (DataType::I8, Meaning::Signed),
        (16, true) => (DataType::I16, Meaning::Signed),
        (32, true) => (DataType::I32, Meaning::Signed),
        (_, true) => (DataType::I64, Meaning::Signed),
        (8, false) => (DataType::U8, Meaning::Unsigned),
        (16, false) => (DataType::U16, Meaning::Unsigned),
        (32, false) => (DataType::U32, Meaning::Unsigned),
        (_, false) => (DataType::U64, Meaning::Unsigned),
    };
    let is_bytes = matches!(column.physical_type(), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY);
    let is_wide = column.physical_type() == Physical::INT64;
    let logical = match column.logical_type_ref() {
        Some(LogicalType::Unknown) | None => None,
        Some(LogicalType::Integer(int)) => Some(integer(int.bit_width, int.is_signed)),
        Some(LogicalType::Decimal(_)) => Some(decimal(column)?),
        Some(LogicalType::Date) => Some((DataType::Date, Meaning::Date)),
        Some(LogicalType::Timestamp(timestamp)) => Some((
            DataType::Timestamp,
            match timestamp.unit {
                TimeUnit::MILLIS => Meaning::Milliseconds,
                TimeUnit::MICROS => Meaning::Microseconds,
                TimeUnit::NANOS => Meaning::Nanoseconds,
            },
        )),
        Some(LogicalType::String | LogicalType::Enum) => Some((DataType::TEXT, Meaning::Text)),
        Some(LogicalType::Json) => Some((DataType::Json, Meaning::Json)),
        Some(LogicalType::Bson) => Some((DataType::Bytes, Meaning::Bytes)),
        Some(LogicalType::Uuid) => Some((DataType::Uuid, Meaning::Uuid)),
        Some(LogicalType::Time(_)) => return Err("a time of day".to_owned()),
        Some(LogicalType::Float16) => return Err("a float of 16 bits".to_owned()),
        Some(other) => return Err(format!("of the type {other:?}")),
    };
    // Files that were written before there were logical types.
    let converted = match column.converted_type() {
        ConvertedType::INT_8 => Some(integer(8, true)),
        ConvertedType::INT_16 => Some(integer(16, true)),
        ConvertedType::INT_32 => Some(integer(32, true)),
        ConvertedType::INT_64 => Some(integer(64, true)),
        ConvertedType::UINT_8 => Some(integer(8, false)),
        ConvertedType::UINT_16 => Some(integer(16, false)),
        ConvertedType::UINT_32 => Some(integer(32, false)),
        ConvertedType::UINT_64 => Some(integer(64, false)),
        ConvertedType::DECIMAL => Some(decimal(column)?),
        ConvertedType::DATE => Some((DataType::Date, Meaning::Date)),
        ConvertedType::TIMESTAMP_MILLIS => Some((DataType::Timestamp, Meaning::Milliseconds)),
        ConvertedType::TIMESTAMP_MICROS => Some((DataType::Timestamp, Meaning::Microseconds)),
        ConvertedType::UTF8 | ConvertedType::ENUM => Some((DataType::TEXT, Meaning::Text)),
        ConvertedType::JSON => Some((DataType::Json, Meaning::Json)),
        ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS => return Err("a time of day".to_owned()),
        ConvertedType::INTERVAL => return Err("a span of time".to_owned()),
        _ => None,
    };
    let plain = match column.physical_type() {
        Physical::BOOLEAN => (DataType::Bool, Meaning::Bool),
        Physical::INT32 => (DataType::I32, Meaning::Signed),
        Physical::INT64 => (DataType::I64, Meaning::Signed),
        Physical::INT96 => (DataType::Timestamp, Meaning::Nanoseconds),
        Physical::FLOAT => (DataType::F32, Meaning::Float),
        Physical::DOUBLE => (DataType::F64, Meaning::Float),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => (DataType::Bytes, Meaning::Bytes),
    };
    let found = logical.or(converted).unwrap_or(plain);
    let fits = match found.1 {
        Meaning::Signed | Meaning::Unsigned => {
            matches!(column.physical_type(), Physical::INT32) && !matches!(found.0, DataType::I64 | DataType::U64)
                || is_wide && matches!(found.0, DataType::I64 | DataType::U64)
        }
        Meaning::Text | Meaning::Json | Meaning::Bytes => is_bytes,
        Meaning::Uuid => is_bytes && column.type_length() == 16,
        Meaning::Date => column.physical_type() == Physical::INT32,
        Meaning::Milliseconds | Meaning::Microseconds => is_wide,
        Meaning::Nanoseconds => is_wide || column.physical_type() == Physical::INT96,
        Meaning::Decimal(_) => is_bytes || is_wide || column.physical_type() == Physical::INT32,
        Meaning::Bool | Meaning::Float => true,
    };
    let mixed = || format!("{} of the physical type {}", found.0, column.physical_type());
    if fits { Ok(found) } else { Err(mixed()) }
}

fn decimal(column: &ColumnDescriptor) -> Result<(DataType, Meaning), String> {
    let (precision, scale) = (column.type_precision(), column.type_scale());
    let name = format!("decimal({precision},{scale})");
    match DataType::parse(&name) {
        Some(data_type @ DataType::Decimal { scale, .. }) => Ok((data_type, Meaning::Decimal(scale))),
        _ => Err(format!("{name}, of more than 38 digits or none")),
    }
}

/// Reads the next values of a column.
fn read_flat(
    reader: &mut ColumnReader,
    meaning: Meaning,
    is_required: bool,
    rows: usize,
    values: &mut Vec<Value<'static>>,
) -> Result<(), Wrong> {
    match reader {
        ColumnReader::BoolColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |value| Ok(Value::Bool(*value)))
        }
        ColumnReader::Int32ColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |&value| match meaning {
                Meaning::Unsigned => of_int((value as u32).into(), meaning),
                _ => of_int(value.into(), meaning),
            })
        }
        ColumnReader::Int64ColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |&value| match meaning {
                Meaning::Unsigned => of_int((value as u64).into(), meaning),
                _ => of_int(value.into(), meaning),
            })
        }
        ColumnReader::Int96ColumnReader(reader) => read_into(reader, is_required, rows, values, of_int96),
        ColumnReader::FloatColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |value| Ok(Value::from(*value)))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |value| Ok(Value::from(*value)))
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |value| of_bytes(value.as_bytes(), meaning))
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            read_into(reader, is_required, rows, values, |value| of_bytes(value.as_bytes(), meaning))
        }
    }
}

fn read_into<T: PhysicalType>(
    reader: &mut ColumnReaderImpl<T>,
    is_required: bool,
    rows: usize,
    values: &mut Vec<Value<'static>>,
    value_of: impl Fn(&T::T) -> Result<Value<'static>, String>,
) -> Result<(), Wrong> {
    let (mut present, mut levels) = (Vec::with_capacity(rows), Vec::new());
    let (read, ..) = reader.read_records(rows, (!is_required).then_some(&mut levels), None, &mut present)?;
    let mut present = present.iter();
    for row in 0..read {
        let is_null = !is_required && levels.get(row).is_none_or(|level| *level == 0);
        if is_null {
            values.push(Value::Null);
            continue;
        }
        let Some(value) = present.next() else { break };
        values.push(value_of(value).map_err(Wrong::Value)?);
    }
    Ok(())
}

fn of_int(int: i128, meaning: Meaning) -> Result<Value<'static>, String> {
    let timestamp = |microseconds: Option<i128>| {
        let microseconds = microseconds.and_then(|microseconds| i64::try_from(microseconds).ok());
        let timestamp = microseconds.and_then(Timestamp::from_microseconds);
        timestamp.map(Value::Timestamp).ok_or_else(|| format!("{int} is not a timestamp of the years -9999 to 9999"))
    };
    match meaning {
        Meaning::Decimal(scale) => {
            Decimal::new(int, scale).map(Value::Decimal).ok_or_else(|| format!("{int} is not a decimal"))
        }
        Meaning::Date => {
            let date = i32::try_from(int).ok().and_then(Date::from_days);
            date.map(Value::Date).ok_or_else(|| format!("day {int} is not a date of the years -9999 to 9999"))
        }
        Meaning::Milliseconds => timestamp(int.checked_mul(1000)),
        Meaning::Microseconds => timestamp(Some(int)),
        Meaning::Nanoseconds if int % 1000 != 0 => {
            Err(format!("{int} nanoseconds are not whole microseconds, which a timestamp has"))
        }
        Meaning::Nanoseconds => timestamp(Some(int / 1000)),
        _ => Ok(Value::Int(int)),
    }
}

/// A timestamp as the day of the Julian calendar and the nanoseconds of the day.
fn of_int96(value: &Int96) -> Result<Value<'static>, String> {
    let [low, high, day] = *value.data() else { return Err("a timestamp of no 12 bytes".to_owned()) };
    let nanoseconds = (i64::from(high) << 32) | i64::from(low);
    if nanoseconds % 1000 != 0 {
        return of_int(nanoseconds.into(), Meaning::Nanoseconds);
    }
    let days = i64::from(day) - JULIAN_DAY_OF_EPOCH;
    let microseconds = days.checked_mul(MICROSECONDS_OF_DAY).and_then(|days| days.checked_add(nanoseconds / 1000));
    of_int(microseconds.unwrap_or(i64::MAX).into(), Meaning::Microseconds)
}

fn of_bytes(bytes: &[u8], meaning: Meaning) -> Result<Value<'static>, String> {
    let text = || match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(format!("it is not UTF-8 from byte {} on", error.valid_up_to())),
    };
    match meaning {
        Meaning::Text => Ok(Value::Text(text()?.into())),
        Meaning::Json => Ok(Value::Json(text()?.into())),
        Meaning::Uuid => Uuid::from_slice(bytes).map(Value::Uuid).map_err(|_| "a UUID of no 16 bytes".to_owned()),
        Meaning::Decimal(scale) => {
            let units = big_endian(bytes).and_then(|units| Decimal::new(units, scale));
            units.map(Value::Decimal).ok_or_else(|| "a decimal of more than 38 digits".to_owned())
        }
        _ => Ok(Value::Bytes(bytes.to_vec().into())),
    }
}

/// A signed integer in two's complement; none if it does not fit.
pub(super) fn big_endian(bytes: &[u8]) -> Option<i128> {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let fill = if is_negative { 0xff } else { 0 };
    let (extra, last) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut whole = [fill; 16];
    whole[16 - last.len()..].copy_from_slice(last);
    let int = i128::from_be_bytes(whole);
    (extra.iter().all(|byte| *byte == fill) && (int < 0) == is_negative).then_some(int)
}
