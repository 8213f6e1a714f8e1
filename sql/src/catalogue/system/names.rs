//! Numbers of objects by their names, and names by their numbers: `regclass`, `regtype` and their like.

use crate::catalogue::names_in_rows::parts_of;
use crate::catalogue::system::operators::Operator;
use crate::catalogue::system::server::DATABASE;
use crate::catalogue::system::source::{OWNER, Source};
use crate::catalogue::system::{operators, relations, routines};
use crate::catalogue::{Relation, column_type, roles};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::strings::quote_identifier;
use crate::types::{BaseType, SqlType};

fn missing(state: SqlState, what: &str, name: &str) -> SqlError {
    SqlError::new(state, format!("{what} \"{name}\" does not exist"))
}

/// The number of a table, an index, a view or a sequence.
///
/// # Errors
/// 42P01 if there is none.
pub(super) fn class_number(source: &Source<'_>, name: &str) -> Result<u32> {
    let parts = parts_of(name);
    let (schema, bare) = match &parts[..] {
        [name] => (None, name.as_str()),
        [.., schema, name] => (Some(schema.as_str()), name.as_str()),
        [] => (None, name),
    };
    let known = match schema {
        None | Some("pg_catalog") => source.system.named(bare),
        Some("information_schema") => source.system.named(&format!("information_schema.{bare}")),
        Some(_) => None,
    };
    if let Some(known) = known {
        return Ok(known.number);
    }
    let found = source.catalogue.relation(schema, bare, &source.search_path());
    found.map(Relation::oid).ok_or_else(|| missing(SqlState::UNDEFINED_TABLE, "relation", name))
}

/// The number of an object.
///
/// # Errors
/// 42704, 3F000, 42883 or 42P01, by the kind, if no object has the name.
pub(crate) fn number(source: &Source<'_>, kind: BaseType, name: &str) -> Result<u32> {
    let name = name.trim();
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match kind {
        BaseType::RegOper => return operator_number(name),
        BaseType::RegOperator => return operator_number_with(source, name),
        _ if name == "-" => return Ok(0),
        _ => {}
    }
    let last = parts_of(name).pop().unwrap_or_default();
    match kind {
        BaseType::RegType => type_number(source, name).ok_or_else(|| missing(SqlState::UNDEFINED_OBJECT, "type", name)),
        BaseType::RegNamespace => {
            let found = source.catalogue.schema_oid(&last);
            found.ok_or_else(|| missing(SqlState::INVALID_SCHEMA_NAME, "schema", name))
        }
        BaseType::RegRole if *last == *source.identity.user => Ok(OWNER),
        BaseType::RegRole if source.shared.users(source.identity).check(&last).is_ok() => Ok(roles::number(&last)),
        BaseType::RegRole => Err(missing(SqlState::UNDEFINED_OBJECT, "role", name)),
        BaseType::RegProc => {
            routines::number_of(&last).ok_or_else(|| missing(SqlState::UNDEFINED_FUNCTION, "function", name))
        }
        BaseType::RegProcedure => procedure_number(source, name),
        _ => class_number(source, name),
    }
}

/// The name and the types in parentheses after it.
fn name_and_types(name: &str) -> Result<(&str, Vec<String>)> {
    let Some((bare, types)) = name.strip_suffix(')').and_then(|name| name.split_once('(')) else {
        let what = if name.contains('(') { "expected a right parenthesis" } else { "expected a left parenthesis" };
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what));
    };
    let types: Vec<String> = types.split(',').map(|name| name.trim().to_owned()).collect();
    Ok((bare, if types == [""] { Vec::new() } else { types }))
}

/// Operators of a name, which may have the schema `pg_catalog`.
fn operators_named(name: &str) -> impl Iterator<Item = &'static Operator> {
    let bare = ["pg_catalog.", "\"pg_catalog\"."].into_iter().find_map(|schema| name.strip_prefix(schema));
    let bare = bare.unwrap_or(name).trim();
    operators::operators().iter().filter(move |operator| operator.name == bare)
}

fn no_operator(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {name}"))
}

/// The number of the only operator of a name.
fn operator_number(name: &str) -> Result<u32> {
    let mut found = operators_named(name);
    match (found.next(), found.next()) {
        (Some(operator), None) => Ok(operator.number),
        (None, _) => Err(no_operator(name)),
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one operator named {name}"))),
    }
}

/// The number of an operator with the types on its sides in parentheses.
fn operator_number_with(source: &Source<'_>, name: &str) -> Result<u32> {
    let (bare, types) = name_and_types(name)?;
    let types = match &types[..] {
        [left, right] if left.eq_ignore_ascii_case("none") => std::slice::from_ref(right),
        [_, _] => &types,
        [] | [_] => {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "missing argument")
                .with_hint("Use NONE to denote the missing argument of a unary operator."));
        }
        _ => {
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments")
                .with_hint("Provide two argument types for operator."));
        }
    };
    let number =
        |name: &String| type_number(source, name).ok_or_else(|| missing(SqlState::UNDEFINED_OBJECT, "type", name));
    let numbers = types.iter().map(number).collect::<Result<Vec<u32>>>()?;
    let found = operators_named(bare)
        .find(|operator| operator.arguments.iter().map(|argument| argument.oid()).eq(numbers.iter().copied()));
    found.map(|operator| operator.number).ok_or_else(|| no_operator(name))
}

/// The number of a function with the types that it takes in parentheses.
fn procedure_number(source: &Source<'_>, name: &str) -> Result<u32> {
    let (bare, arguments) = name_and_types(name)?;
    let numbers: Vec<Option<u32>> = arguments.iter().map(|argument| type_number(source, argument)).collect();
    let bare = parts_of(bare).pop().unwrap_or_default();
    let found = routines::number_with(&bare, &arguments, &numbers);
    found.ok_or_else(|| missing(SqlState::UNDEFINED_FUNCTION, "function", name))
}

fn type_number(source: &Source<'_>, name: &str) -> Option<u32> {
    known_number(name).or_else(|| {
        let (element, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
        let mut parts = parts_of(element);
        let last = parts.pop()?;
        let found = source.catalogue.type_named(parts.pop().as_deref(), &last, &source.search_path())?;
        Some(if is_array { SqlType::array_of(found.base).oid() } else { found.oid() })
    })
}

/// The number of a type that is always there.
fn known_number(name: &str) -> Option<u32> {
    let of_catalogue = ["pg_catalog.", "\"pg_catalog\"."].into_iter().find_map(|schema| name.strip_prefix(schema));
    let name = of_catalogue.unwrap_or(name);
    if name == "\"char\"" {
        return Some(SqlType::from(BaseType::SingleChar).oid());
    }
    let base_named = |wanted: &str| BaseType::all().find(|base| base.catalogue_name() == wanted);
    let array_named = |wanted: &str| base_named(wanted.strip_prefix('_')?).map(SqlType::array_of);
    if let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        // In quotes there are no synonyms.
        let found = base_named(quoted).map(SqlType::from).or_else(|| array_named(quoted));
        return found.map(SqlType::oid).filter(|oid| *oid != 0);
    }
    // In SQL, `char` is the padded type.
    if name.eq_ignore_ascii_case("char") {
        return Some(SqlType::from(BaseType::Char).oid());
    }
    let by_synonym = match &*name.to_ascii_lowercase() {
        "int" => Some(SqlType::INT4),
        "decimal" => Some(BaseType::Numeric.into()),
        "float" => Some(BaseType::Float8.into()),
        "timestamp" => Some(BaseType::Timestamp.into()),
        "time" => Some(BaseType::Time.into()),
        _ => None,
    };
    by_synonym
        .or_else(|| column_type::parse(name))
        .or_else(|| array_named(name))
        .map(SqlType::oid)
        .filter(|oid| *oid != 0)
}

/// The name of an object; none if there is none of the number.
pub(crate) fn name(source: &Source<'_>, kind: BaseType, number: u32) -> Option<String> {
    match kind {
        BaseType::RegType => source.catalogue.type_of_oid(number).map(|sql_type| source.type_text(sql_type)),
        BaseType::RegNamespace => {
            let own = source.catalogue.schemas().into_iter();
            let mut names = own.chain(["pg_catalog", "information_schema"]);
            names.find(|name| source.schema(name) == number).map(quote_identifier)
        }
        BaseType::RegRole => relations::role_name(source, number).map(|name| quote_identifier(&name)),
        BaseType::RegProc | BaseType::RegProcedure if number == 0 => Some("-".to_owned()),
        BaseType::RegProcedure => {
            let (name, types) = routines::name_with_types(number)?;
            Some(format!("{}({types})", quote_identifier(name)))
        }
        BaseType::RegProc => routines::name_of(number).map(quote_identifier),
        BaseType::RegOper => {
            let operator = operators::numbered(number)?;
            let is_only_one = operator_number(operator.name).is_ok();
            Some(if is_only_one { operator.name.to_owned() } else { format!("pg_catalog.{}", operator.name) })
        }
        BaseType::RegOperator => {
            let operator = operators::numbered(number)?;
            Some(match operator.arguments {
                [left, right] => format!("{}({left},{right})", operator.name),
                [right] => format!("{}(NONE,{right})", operator.name),
                _ => return None,
            })
        }
        _ if number == DATABASE => None,
        _ => class_name(source, number),
    }
}

fn class_name(source: &Source<'_>, number: u32) -> Option<String> {
    if let Some(known) = source.system.all().iter().find(|known| known.number == number) {
        return Some(known.name.to_owned());
    }
    let relations = source.catalogue.relations();
    let ((schema, name), _) = relations.iter().find(|(_, relation)| relation.oid() == number)?;
    // The schema is written if the name alone would mean another one, or none.
    let path = source.search_path();
    let first = path.iter().find(|schema| relations.contains_key(&((*schema).clone(), name.clone())));
    Some(if first == Some(schema) {
        quote_identifier(name)
    } else {
        format!("{}.{}", quote_identifier(schema), quote_identifier(name))
    })
}
