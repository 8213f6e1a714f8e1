//! The types of columns in SQL: what they were declared as, or what follows from the type in rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu_rows::{Column, DataType};

use crate::catalogue::objects::{ObjectNumber, Type, TypeKind};
use crate::catalogue::{names_in_rows, oids};
use crate::functions::strings::quote_identifier;
use crate::types::user::{Composite, Definition, Domain, Kind, Label, UserType};
use crate::types::{BaseType, SqlType};

/// Types that users have made, by their numbers in SQL's catalogue.
pub type UserTypes = BTreeMap<ObjectNumber, BaseType>;

/// What the text of a type that a user has made begins with; its number follows, since its name may change.
const USER: &str = "type ";

/// The types of these records, as values need to know them.
pub fn user_types(records: &BTreeMap<ObjectNumber, Arc<Type>>) -> UserTypes {
    let mut known = UserTypes::new();
    let mut left: Vec<(ObjectNumber, &Arc<Type>)> = records.iter().map(|(number, record)| (*number, record)).collect();
    // A type comes after those that it is made of, of which some may be newer than itself.
    while !left.is_empty() {
        let count = left.len();
        left.retain(|(number, record)| {
            let is_unknown = |text: &&str| number_of(text).is_some_and(|part| !known.contains_key(&part));
            let waits = record.kind.parts().iter().any(is_unknown);
            if !waits {
                known.insert(*number, user_type(*number, record, &known).base_type());
            }
            waits
        });
        if left.len() == count {
            break;
        }
    }
    known
}

/// The type of a record, which is made of known ones.
fn user_type(number: ObjectNumber, record: &Type, known: &UserTypes) -> UserType {
    let kind = match &record.kind {
        TypeKind::Enum(labels) => Kind::Enum(labels.iter().filter_map(label).collect()),
        TypeKind::Domain { base, not_null, default, checks } => Kind::Domain(Domain {
            base: parse_among(base, known).unwrap_or(SqlType::TEXT),
            is_not_null: *not_null,
            default: default.clone(),
            checks: checks.clone(),
        }),
        TypeKind::Composite { relation, attributes } => Kind::Composite(Composite {
            relation: oids::object(*relation),
            is_of_table: false,
            names: attributes.iter().map(|(name, _)| Arc::from(&**name)).collect(),
            types: attributes.iter().map(|(_, text)| parse_among(text, known).unwrap_or(SqlType::TEXT)).collect(),
        }),
    };
    let name = quote_identifier(&record.name);
    let is_found = record.schema == names_in_rows::PUBLIC;
    UserType::new(Definition {
        number: oids::object(number),
        array: oids::object(record.array),
        schema: record.schema.clone(),
        name: record.name.clone(),
        shown: if is_found { name } else { format!("{}.{name}", quote_identifier(&record.schema)) },
        kind,
    })
}

fn label((order, text): &(String, String)) -> Option<Label> {
    Some(Label { order: order.parse().ok()?, text: text.clone() })
}

/// The type of a column, where users have made these types.
pub fn of_column(column: &Column, known: &UserTypes) -> SqlType {
    let held = SqlType::of_column(column.data_type);
    let declared = column.sql_type.as_deref().and_then(|text| parse_among(text, known));
    // Columns of `numeric` were once decimals of 10 digits after the point.
    let is_narrower =
        |declared: &SqlType| *declared == BaseType::Numeric.into() && column.data_type != DataType::Numeric;
    declared.filter(|declared| !is_narrower(declared)).unwrap_or(held)
}

/// The default of a column as SQL knows it. Of an enum, a column has the place of a label.
pub fn default_of(column: &Column, sql_type: SqlType) -> Option<String> {
    let default = column.sql_default.as_ref().or(column.default.as_ref())?;
    let label = match sql_type.without_domain().base {
        BaseType::Enum(user) => default.parse().ok().and_then(|order| user.label_at(order)),
        _ => None,
    };
    Some(label.map_or_else(|| default.clone(), |label| format!("'{}'", label.replace('\'', "''"))))
}

/// What is to be kept of a type with a column; none if its type in rows says it all.
pub fn to_keep(sql_type: SqlType, known: &UserTypes) -> Option<String> {
    let is_said = sql_type.column_type().is_some_and(|data_type| SqlType::of_column(data_type) == sql_type);
    (!is_said).then(|| written(sql_type, known))
}

/// The text of the type of a number.
pub fn of_number(number: ObjectNumber) -> String {
    format!("{USER}{number}")
}

/// A type as a text that stays right when types get other names.
pub fn written(sql_type: SqlType, known: &UserTypes) -> String {
    match known.iter().find(|(_, base)| **base == sql_type.base) {
        Some((number, _)) => of_number(*number) + if sql_type.is_array { "[]" } else { "" },
        None => sql_type.to_string(),
    }
}

/// The number of the type that a user has made, of its text.
pub fn number_of(text: &str) -> Option<ObjectNumber> {
    text.strip_prefix(USER)?.trim_end_matches("[]").parse().ok()
}

/// The number of the type that a user has made which a column has.
pub fn user_number(column: &Column) -> Option<ObjectNumber> {
    number_of(column.sql_type.as_deref()?)
}

/// The type of a text that [`written`] made.
pub fn parse_among(text: &str, known: &UserTypes) -> Option<SqlType> {
    let Some(number) = text.strip_prefix(USER) else { return parse(text) };
    let (number, is_array) = match number.strip_suffix("[]") {
        Some(number) => (number, true),
        None => (number, false),
    };
    let base = *known.get(&number.parse().ok()?)?;
    Some(SqlType { is_array, ..base.into() })
}

/// The type that a text names, as [`SqlType`] writes itself or as the catalogue calls it: `character varying(20)`,
/// `int4`, `numeric(8,2)[]`.
pub fn parse(text: &str) -> Option<SqlType> {
    let text = text.trim();
    let (text, is_array) = match text.strip_suffix("[]") {
        Some(element) => (element.trim_end(), true),
        None => (text, false),
    };
    if let Some(precise) = SqlType::parse_precise(text) {
        return Some(SqlType { is_array, ..precise });
    }
    let (name, numbers) = match text.split_once('(') {
        Some((name, rest)) => (name.trim_end(), rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let is_named = |base: &BaseType| {
        base.catalogue_name().eq_ignore_ascii_case(name) || SqlType::from(*base).to_string().eq_ignore_ascii_case(name)
    };
    let base = BaseType::all().find(is_named)?;
    let mut parts = numbers.split(',').map(|number| number.trim().parse::<i64>());
    let sql_type = match base {
        _ if numbers.is_empty() => base.into(),
        BaseType::Numeric => {
            let precision = u16::try_from(parts.next()?.ok()?).ok()?;
            SqlType::numeric(precision, parts.next().map_or(Some(0), |scale| i16::try_from(scale.ok()?).ok())?)
        }
        BaseType::Varchar | BaseType::Char | BaseType::Bit | BaseType::VarBit => {
            SqlType::of_length(base, u32::try_from(parts.next()?.ok()?).ok()?)
        }
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
        let keep = |sql_type| to_keep(sql_type, &UserTypes::new());
        assert_eq!(keep(SqlType::TEXT), None);
        assert_eq!(keep(SqlType::of_length(BaseType::Varchar, 20)).as_deref(), Some("character varying(20)"));
        assert_eq!(keep(BaseType::Numeric.into()), None);
        assert_eq!(keep(SqlType::numeric(50, -2)).as_deref(), Some("numeric(50,-2)"));
        for text in [
            "timestamp(3) with time zone",
            "time(0) without time zone[]",
            "interval(2)",
            "interval year to month",
            "interval day to second(3)",
            "numeric(3,5)",
        ] {
            assert_eq!(parse(text).map(|sql_type| sql_type.to_string()).as_deref(), Some(text));
        }
        assert_eq!(keep(BaseType::TimestampTz.into()).as_deref(), Some("timestamp with time zone"));
    }
}
