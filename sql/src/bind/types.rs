//! The types that expressions and lists of columns name: casts, literals, parameters.
//!
//! Not here: types of columns in definitions (`ddl/column_types`), and which casts there are (`types/cast`).

use sqlparser::ast::{
    self, ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, ObjectNamePart, TimezoneInfo,
};

use crate::bind::names::Written;
use crate::bind::{Binder, folded, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::identifiers::folded_text;
use crate::types::user::{NoTypes, TypeNames};
use crate::types::{BaseType, SqlType};

/// Refuses types whose values are not known to be equal or not, where groups are made of them.
///
/// # Errors
/// [`UNDEFINED_FUNCTION`](SqlState::UNDEFINED_FUNCTION) for `json`.
pub(super) fn has_equality(sql_type: SqlType) -> Result<()> {
    if sql_type.base != BaseType::Json {
        return Ok(());
    }
    let what = format!("could not identify an equality operator for type {sql_type}");
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, what).with_hint("Use jsonb."))
}

/// The type that a statement writes.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if no type has the name; digits or lengths that cannot be.
pub fn sql_type(written: &DataType, types: &dyn TypeNames) -> Result<SqlType> {
    Ok(match written {
        DataType::Bool | DataType::Boolean => BaseType::Bool.into(),
        DataType::SmallInt(None) | DataType::Int2(None) => BaseType::Int2.into(),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => BaseType::Int4.into(),
        DataType::BigInt(None) | DataType::Int8(None) => BaseType::Int8.into(),
        DataType::Real | DataType::Float4 => BaseType::Float4.into(),
        DataType::DoublePrecision | DataType::Float8 => BaseType::Float8.into(),
        DataType::Float(info) => float(info)?,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info)?,
        DataType::Text => SqlType::TEXT,
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            of_length(BaseType::Varchar, length.as_ref())?
        }
        DataType::Char(length) | DataType::Character(length) => {
            let one = CharacterLength::IntegerLength { length: 1, unit: None };
            of_length(BaseType::Char, Some(length.as_ref().unwrap_or(&one)))?
        }
        DataType::Bit(length) => SqlType::of_bits(BaseType::Bit, Some(length.unwrap_or(1)))?,
        DataType::BitVarying(length) | DataType::VarBit(length) => SqlType::of_bits(BaseType::VarBit, *length)?,
        DataType::Bytea => BaseType::Bytea.into(),
        DataType::Date => BaseType::Date.into(),
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::of_digits(BaseType::Time, *digits)
        }
        DataType::Time(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            SqlType::of_digits(BaseType::TimeTz, *digits)
        }
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::of_digits(BaseType::Timestamp, *digits)
        }
        DataType::Timestamp(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            SqlType::of_digits(BaseType::TimestampTz, *digits)
        }
        DataType::Interval { fields, precision } => interval(fields.as_ref(), *precision)?,
        DataType::Uuid => BaseType::Uuid.into(),
        DataType::JSON => BaseType::Json.into(),
        DataType::JSONB => BaseType::Jsonb.into(),
        DataType::Regclass => BaseType::RegClass.into(),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => array_of(sql_type(element, types)?)?,
        DataType::Custom(name, parameters) => custom(name, parameters, types)?,
        other => return of_word(other, types),
    })
}

/// A type whose name is a word of the SQL of others, which the parser takes for theirs: only users make such types.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if no user has made it.
pub(crate) fn of_word(written: &DataType, types: &dyn TypeNames) -> Result<SqlType> {
    let word = folded_text(&written.to_string());
    not_of_domains(types.type_named(None, &word).ok_or_else(|| unknown(&word))?)
}

/// The name in the catalogue of a type, or of the elements of an array, that a statement writes.
pub fn catalogue_name(written: &DataType) -> Option<String> {
    match (sql_type(written, &NoTypes), written) {
        (Ok(known), _) => Some(known.base.catalogue_name().to_owned()),
        (Err(_), DataType::Custom(name, _)) => object_name(name).ok().map(|(_, name)| name),
        (Err(_), DataType::Array(ArrayElemTypeDef::SquareBracket(element, _))) => catalogue_name(element),
        _ => None,
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn array_of(element: SqlType) -> Result<SqlType> {
    not_of_domains(SqlType { is_array: true, ..element })
}

/// A type, unless it is of arrays whose elements would have to keep the conditions of a domain.
pub(crate) fn not_of_domains(sql_type: SqlType) -> Result<SqlType> {
    if let (true, BaseType::Domain(user)) = (sql_type.is_array, sql_type.base) {
        let what = format!("arrays of the domain {} are not supported", user.shown);
        return Err(SqlError::unsupported(what, "Use arrays of the type that it is made of."));
    }
    Ok(sql_type)
}

/// A type by its name in the catalogue.
fn custom(name: &ast::ObjectName, parameters: &[String], types: &dyn TypeNames) -> Result<SqlType> {
    let (schema, bare) = object_name(name)?;
    if schema.as_deref().is_some_and(|schema| schema != "pg_catalog")
        && let Some(found) = types.type_named(schema.as_deref(), &bare)
    {
        return not_of_domains(found);
    }
    let Some(ident) = name.0.last().and_then(ast::ObjectNamePart::as_ident) else {
        return Err(unknown(&name.to_string()));
    };
    let word = folded(ident);
    let base = match &*word {
        "char" if ident.quote_style.is_some() => BaseType::SingleChar,
        "bpchar" => BaseType::Char,
        // A path is checked where it is used.
        "string" | "jsonpath" => BaseType::Text,
        "int2vector" | "oidvector" => return SqlType::vector_named(&word).ok_or_else(|| unknown(&word)),
        _ => match BaseType::all().find(|base| base.catalogue_name() == word && !base.is_pseudo()) {
            Some(base) => base,
            None => match word.strip_prefix('_').and_then(by_catalogue_name) {
                Some(element) => return Ok(SqlType::array_of(element)),
                None => {
                    let found = types.type_named(schema.as_deref(), &word);
                    return not_of_domains(found.ok_or_else(|| unknown(&name.to_string()))?);
                }
            },
        },
    };
    match (base, parameters) {
        (BaseType::Varchar | BaseType::Char, [length]) => {
            let length = length.parse().map_err(|_| unknown(&word))?;
            check_length(base, length)
        }
        (BaseType::Numeric, [precision]) => SqlType::declared_numeric(precision.parse().unwrap_or(0), 0),
        (BaseType::Numeric, [precision, scale]) => {
            SqlType::declared_numeric(precision.parse().unwrap_or(0), scale.parse().unwrap_or(i64::MAX))
        }
        (BaseType::Time | BaseType::TimeTz | BaseType::Timestamp | BaseType::TimestampTz, [digits]) => {
            Ok(SqlType::of_digits(base, digits.parse().ok()))
        }
        _ => Ok(base.into()),
    }
}

fn by_catalogue_name(name: &str) -> Option<BaseType> {
    BaseType::all().find(|base| base.catalogue_name() == name && !base.is_pseudo())
}

/// An interval of some fields.
///
/// # Errors
/// 42601 if there are no such fields.
pub(crate) fn interval(fields: Option<&ast::IntervalFields>, digits: Option<u64>) -> Result<SqlType> {
    let fields = fields.map(ToString::to_string);
    SqlType::interval(fields.as_deref(), digits).ok_or_else(|| {
        let what = format!("an interval has no fields {}", fields.unwrap_or_default());
        SqlError::new(SqlState::SYNTAX_ERROR, what)
    })
}

fn float(info: &ExactNumberInfo) -> Result<SqlType> {
    match info {
        ExactNumberInfo::None => Ok(BaseType::Float8.into()),
        ExactNumberInfo::Precision(1..=24) => Ok(BaseType::Float4.into()),
        ExactNumberInfo::Precision(25..=53) => Ok(BaseType::Float8.into()),
        _ => {
            let what = "precision for type float must be from 1 to 53 bits";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<SqlType> {
    match info {
        ExactNumberInfo::None => Ok(BaseType::Numeric.into()),
        ExactNumberInfo::Precision(precision) => SqlType::declared_numeric(*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => SqlType::declared_numeric(*precision, *scale),
    }
}

fn of_length(base: BaseType, length: Option<&CharacterLength>) -> Result<SqlType> {
    match length {
        None | Some(CharacterLength::Max) => Ok(base.into()),
        Some(CharacterLength::IntegerLength { length, .. }) => check_length(base, *length),
    }
}

fn check_length(base: BaseType, length: u64) -> Result<SqlType> {
    /// The greatest length that PostgreSQL takes.
    const LENGTH_MAX: u64 = 10_485_760;
    let name = if base == BaseType::Char { "char" } else { "varchar" };
    match length {
        0 => {
            let what = format!("length for type {name} must be at least 1");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
        1..=LENGTH_MAX => Ok(SqlType::of_length(base, length as u32)),
        _ => {
            let what = format!("length for type {name} cannot exceed {LENGTH_MAX}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

/// The collation of a name, among those that sort by code points as all texts do here.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if no collation has the name,
/// [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) if it is that of a language.
pub fn collation(name: &ast::ObjectName) -> Result<&'static str> {
    let (_, name) = crate::bind::object_name(name)?;
    match &*name {
        "default" => return Ok("default"),
        "C" | "ucs_basic" | "C.UTF-8" | "C.utf8" => return Ok("C"),
        "POSIX" => return Ok("POSIX"),
        _ => {}
    }
    let language: String = name.chars().take_while(char::is_ascii_lowercase).collect();
    let rest = &name[language.len()..];
    let is_language = matches!(language.len(), 2 | 3) && (rest.is_empty() || rest.starts_with(['_', '-', '.', '@']));
    if is_language || name == "unicode" {
        let what = format!("the collation \"{name}\" is not supported: texts sort by code points");
        return Err(SqlError::unsupported(what, "Use \"C\", or the type citext to compare without case and accents."));
    }
    let what = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what).with_hint("There are \"C\" and \"POSIX\"."))
}

/// Notes a type of a cast that is named without a schema, for `schemas`.
pub(super) fn note_type(binder: &mut Binder<'_>, written: &DataType, sql_type: SqlType) {
    if binder.schemas.is_none() {
        return;
    }
    let (DataType::Custom(name, _), Some(user)) = (element(written), sql_type.base.user_type()) else { return };
    if let [ObjectNamePart::Identifier(ident)] = &name.0[..] {
        note_name(binder, ident, Written::Type(user.schema.to_string(), user.name.to_string()));
    }
}

fn element(written: &DataType) -> &DataType {
    match written {
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => element(inner),
        other => other,
    }
}

/// Notes a name that begins here, for `schemas`. Those of views within are not in the text, nor is what the binder has
/// written itself.
pub(super) fn note_name(binder: &mut Binder<'_>, ident: &Ident, written: Written) {
    if binder.schemas.is_none() || !binder.views.is_empty() {
        return;
    }
    let Some(position) = binder.position(ident.span) else { return };
    let begin = binder.text.char_indices().nth(position - 1).map_or(binder.text.len(), |(at, _)| at);
    if let Some(schemas) = binder.schemas.as_mut().filter(|_| binder.text[begin..].starts_with(&ident.to_string())) {
        schemas.insert(position - 1, written);
    }
}
