//! The types that CREATE and ALTER name for columns and domains, `serial` too, and what rows store for them.
//!
//! Not here: types in casts and in lists of columns (`bind/types`).

use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use crate::ddl::names;
use crate::error::{Result, SqlError, SqlState};
use crate::types::user::TypeNames;
use crate::types::{BaseType, SqlType};

/// A column that is given numbers by its type alone: `serial` and its like.
pub fn serial(data_type: &DataType) -> Option<SqlType> {
    let DataType::Custom(name, arguments) = data_type else { return None };
    let parts = names::parts(name).ok()?;
    let base = match (&parts[..], &arguments[..]) {
        ([name], []) => match &**name {
            "serial" | "serial4" => BaseType::Int4,
            "bigserial" | "serial8" => BaseType::Int8,
            "smallserial" | "serial2" => BaseType::Int2,
            _ => return None,
        },
        _ => return None,
    };
    Some(base.into())
}

/// The type that a statement names.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT), and [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) for
/// types of PostgreSQL that are not here.
pub fn of(data_type: &DataType, types: &dyn TypeNames) -> Result<SqlType> {
    use DataType as D;
    let base = match data_type {
        D::Bool | D::Boolean => BaseType::Bool,
        D::SmallInt(_) | D::Int2(_) => BaseType::Int2,
        D::Int(_) | D::Int4(_) | D::Integer(_) => BaseType::Int4,
        D::BigInt(_) | D::Int8(_) => BaseType::Int8,
        D::Real | D::Float4 => BaseType::Float4,
        D::Float8 | D::DoublePrecision | D::Double(_) => BaseType::Float8,
        D::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => BaseType::Float4,
        D::Float(_) => BaseType::Float8,
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => return numeric(*info),
        D::Text => BaseType::Text,
        D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => {
            return text(BaseType::Varchar, length.as_ref(), None);
        }
        D::Char(length) | D::Character(length) => return text(BaseType::Char, length.as_ref(), Some(1)),
        D::Bit(length) => return SqlType::of_bits(BaseType::Bit, Some(length.unwrap_or(1))),
        D::BitVarying(length) | D::VarBit(length) => return SqlType::of_bits(BaseType::VarBit, *length),
        D::Bytea => BaseType::Bytea,
        D::Date => BaseType::Date,
        D::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            return Ok(SqlType::of_digits(BaseType::Time, *digits));
        }
        D::Time(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            return Ok(SqlType::of_digits(BaseType::TimeTz, *digits));
        }
        D::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            return Ok(SqlType::of_digits(BaseType::Timestamp, *digits));
        }
        D::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            return Ok(SqlType::of_digits(BaseType::TimestampTz, *digits));
        }
        D::Interval { fields, precision } => return crate::bind::types::interval(fields.as_ref(), *precision),
        D::Uuid => BaseType::Uuid,
        D::JSON => BaseType::Json,
        D::JSONB => BaseType::Jsonb,
        D::Regclass => BaseType::RegClass,
        D::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) => {
            return crate::bind::types::not_of_domains(SqlType { is_array: true, ..of(element, types)? });
        }
        D::Custom(name, arguments) => return custom(data_type, &names::qualified(name)?, arguments, types),
        other => return crate::bind::types::of_word(other, types),
    };
    Ok(base.into())
}

#[cold]
fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn custom(data_type: &DataType, name: &names::Name, arguments: &[String], types: &dyn TypeNames) -> Result<SqlType> {
    let is_known_schema = name.schema.as_deref().is_none_or(|schema| ["pg_catalog", "public"].contains(&schema));
    if let Some(serial) = serial(data_type) {
        return Ok(serial);
    }
    let text = match arguments {
        [] => name.name.clone(),
        arguments => format!("{}({})", name.name, arguments.join(",")),
    };
    let found = crate::catalogue::column_type::parse(&text).filter(|_| is_known_schema);
    let found = found.or_else(|| types.type_named(name.schema.as_deref(), &name.name));
    found.ok_or_else(|| unknown(&name.to_string()))
}

fn numeric(info: ExactNumberInfo) -> Result<SqlType> {
    match info {
        ExactNumberInfo::None => Ok(BaseType::Numeric.into()),
        ExactNumberInfo::Precision(precision) => SqlType::declared_numeric(precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => SqlType::declared_numeric(precision, scale),
    }
}

fn text(base: BaseType, length: Option<&CharacterLength>, default: Option<u32>) -> Result<SqlType> {
    let length = match length {
        None => default,
        Some(CharacterLength::Max) => None,
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length @ 1..=10_485_760) => Some(length),
            Ok(0) => {
                let what = format!("length for type {} must be at least 1", base.catalogue_name());
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
            _ => {
                let what = format!("length for type {} cannot exceed 10485760", base.catalogue_name());
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
        },
    };
    Ok(length.map_or(base.into(), |length| SqlType::of_length(base, length)))
}

/// The type of a column that a statement names, and what rows hold of it.
///
/// # Errors
/// Those of [`of`], and [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) if no column can be of it.
pub fn of_column(data_type: &DataType, types: &dyn TypeNames) -> Result<(SqlType, quipu_rows::DataType)> {
    let sql_type = of(data_type, types)?;
    let Some(held) = sql_type.column_type() else {
        return Err(SqlError::unsupported(
            format!("a column of type {sql_type} is not supported"),
            "Use jsonb for what has parts, and text or bigint for the rest.",
        ));
    };
    Ok((sql_type, held))
}
