//! Columns with fields of their own, lists and maps: each value becomes JSON.

use std::sync::Arc;

use parquet::basic::ConvertedType;
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::record::{Field, Row};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use quipu_rows::{Date, Timestamp, Value};
use serde_json::{Map, Number, Value as Json};

use crate::failure::{Failure, Result};
use crate::table_files::parquet::read::{Meaning, Wrong, type_of};

/// Fails unless values of this part of a column can be read.
pub(super) fn check(part: &ColumnDescriptor) -> Result<()> {
    let what = match (type_of(part), part.converted_type()) {
        (Ok((_, Meaning::Nanoseconds)), _) => "timestamps of nanoseconds in a nested column".to_owned(),
        (Ok(_), ConvertedType::BSON) => "BSON in a nested column".to_owned(),
        (Ok(_), _) => return Ok(()),
        (Err(what), _) => what,
    };
    Err(Failure::new(format!("column {:?}: {what}, which no column of a table holds", part.path().string())))
}

/// What reads one field of the root in a row group.
pub(super) fn reader(group: &dyn RowGroupReader, name: &str) -> Result<ReaderIter, ParquetError> {
    let root = group.metadata().schema_descr().root_schema();
    let fields = root.get_fields().iter().filter(|field| field.name() == name).cloned().collect();
    let alone = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    TreeBuilder::new().as_iter(Arc::new(SchemaDescriptor::new(Arc::new(alone))), group)
}

/// Reads the next values.
pub(super) fn read(rows_of: &mut ReaderIter, rows: usize, values: &mut Vec<Value<'static>>) -> Result<(), Wrong> {
    for row in rows_of.take(rows) {
        let row = row?;
        let Some((_, field)) = row.get_column_iter().next() else { break };
        values.push(match field {
            Field::Null => Value::Null,
            field => Value::Json(json(field).map_err(Wrong::Value)?.to_string().into()),
        });
    }
    Ok(())
}

/// A value as JSON: what JSON has no type for as the text that a column shows.
fn json(field: &Field) -> Result<Json, String> {
    let text = |value: Value<'_>| Json::from(quipu_rows::text_of(&value));
    let timestamp = |microseconds: Option<i64>| {
        let timestamp = microseconds.and_then(Timestamp::from_microseconds);
        timestamp.map(|timestamp| text(Value::Timestamp(timestamp))).ok_or("a timestamp beyond the years 9999")
    };
    Ok(match field {
        Field::Null => Json::Null,
        Field::Bool(value) => Json::from(*value),
        Field::Byte(value) => Json::from(*value),
        Field::Short(value) => Json::from(*value),
        Field::Int(value) => Json::from(*value),
        Field::Long(value) => Json::from(*value),
        Field::UByte(value) => Json::from(*value),
        Field::UShort(value) => Json::from(*value),
        Field::UInt(value) => Json::from(*value),
        Field::ULong(value) => Json::from(*value),
        Field::Float16(value) => float(value.to_f64(), field)?,
        // The shortest text that reads as the same number of single precision.
        Field::Float(value) => float(value.to_string().parse().unwrap_or(f64::NAN), field)?,
        Field::Double(value) => float(*value, field)?,
        Field::Decimal(value) => decimal(value)?,
        Field::Str(value) => Json::from(value.as_str()),
        Field::Bytes(value) => text(Value::from(value.data())),
        Field::Date(days) => {
            let date =
                Date::from_days(*days).ok_or_else(|| format!("day {days} is not a date of the years to 9999"))?;
            text(Value::Date(date))
        }
        Field::TimestampMillis(value) => timestamp(value.checked_mul(1000))?,
        Field::TimestampMicros(value) => timestamp(Some(*value))?,
        Field::TimeMillis(_) | Field::TimeMicros(_) => return Err("it has a time of day, which is not read".to_owned()),
        Field::Group(row) => object(row)?,
        Field::ListInternal(list) => Json::Array(list.elements().iter().map(json).collect::<Result<_, _>>()?),
        Field::MapInternal(map) => {
            let members = map.entries().iter().map(|(key, value)| {
                let name = match json(key)? {
                    Json::String(name) => name,
                    other => other.to_string(),
                };
                Ok((name, json(value)?))
            });
            Json::Object(members.collect::<Result<Map<_, _>, String>>()?)
        }
    })
}

fn object(row: &Row) -> Result<Json, String> {
    let members = row.get_column_iter().map(|(name, field)| Ok((name.clone(), json(field)?)));
    Ok(Json::Object(members.collect::<Result<Map<_, _>, String>>()?))
}

/// A number, which JSON has only if it is finite.
fn float(value: f64, field: &Field) -> Result<Json, String> {
    let number = Number::from_f64(value);
    number.map(Json::Number).ok_or_else(|| format!("it has {field}, which JSON has no number for"))
}

/// A decimal as text, with all its digits.
fn decimal(value: &parquet::data_type::Decimal) -> Result<Json, String> {
    let units = super::read::big_endian(value.data());
    let scale = u8::try_from(value.scale()).ok();
    let decimal = units.zip(scale).and_then(|(units, scale)| quipu_rows::Decimal::new(units, scale));
    let decimal = decimal.ok_or("a decimal of more than 38 digits")?;
    Ok(Json::from(quipu_rows::text_of(&Value::Decimal(decimal))))
}
