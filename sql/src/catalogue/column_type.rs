//! The types of columns in SQL: what they were declared as, or what follows from the type in rows.

use quipu_rows::Column;

use crate::types::{BaseType, SqlType};

/// The type of a column.
pub fn of_column(column: &Column) -> SqlType {
    let declared = column.sql_type.as_deref().and_then(parse);
    declared.unwrap_or_else(|| SqlType::of_column(column.data_type))
}

/// What is to be kept of a type with a column; none if its type in rows says it all.
pub fn to_keep(sql_type: SqlType) -> Option<String> {
    let is_said = sql_type.column_type().is_some_and(|data_type| SqlType::of_column(data_type) == sql_type);
    (!is_said).then(|| sql_type.to_string())
}

/// The type that a text names, as [`SqlType`] writes itself or as the catalogue calls it: `character varying(20)`,
/// `int4`, `numeric(8,2)[]`.
pub fn parse(text: &str) -> Option<SqlType> {
    let text = text.trim();
    let (text, is_array) = match text.strip_suffix("[]") {
        Some(element) => (element.trim_end(), true),
        None => (text, false),
    };
    let (name, numbers) = match text.split_once('(') {
        Some((name, rest)) => (name.trim_end(), rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let is_named = |base: &BaseType| {
        base.catalogue_name().eq_ignore_ascii_case(name) || SqlType::from(*base).to_string().eq_ignore_ascii_case(name)
    };
    let base = BaseType::all().find(is_named)?;
    let mut parts = numbers.split(',').map(|number| number.trim().parse::<u32>());
    let sql_type = match base {
        _ if numbers.is_empty() => base.into(),
        BaseType::Numeric => {
            let precision = u8::try_from(parts.next()?.ok()?).ok()?;
            SqlType::numeric(precision, parts.next().map_or(Some(0), |scale| u8::try_from(scale.ok()?).ok())?)
        }
        BaseType::Varchar | BaseType::Char => SqlType::of_length(base, parts.next()?.ok()?),
        // Digits of seconds are not kept: there are always six.
        _ => base.into(),
    };
    Some(SqlType { is_array, ..sql_type })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_written() {
        for base in BaseType::all() {
            assert_eq!(parse(&SqlType::from(base).to_string()), Some(base.into()));
            assert_eq!(parse(base.catalogue_name()), Some(base.into()));
        }
        for sql_type in
            [SqlType::numeric(8, 2), SqlType::of_length(BaseType::Varchar, 20), SqlType::array_of(BaseType::Int4)]
        {
            assert_eq!(parse(&sql_type.to_string()), Some(sql_type));
        }
        assert_eq!(parse("no such"), None);
        assert_eq!(to_keep(SqlType::TEXT), None);
        assert_eq!(to_keep(SqlType::of_length(BaseType::Varchar, 20)).as_deref(), Some("character varying(20)"));
        assert_eq!(to_keep(BaseType::Numeric.into()).as_deref(), Some("numeric"));
        assert_eq!(to_keep(BaseType::TimestampTz.into()).as_deref(), Some("timestamp with time zone"));
    }
}
