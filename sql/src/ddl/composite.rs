//! The attributes of composite types.
//!
//! A column of such a type holds the values of the attributes in their order. A row that was written before an
//! attribute was added has NULL for it. Other changes of a type that a column has are refused, since the rows would
//! have to be written anew.

use sqlparser::ast::{DataType, Ident};

use crate::catalogue::{ObjectNumber, Type, TypeKind, column_type};
use crate::ddl::{Ddl, column_types, names, types};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::type_change::AttributeChange;
use crate::types::BaseType;

/// The most attributes, as of columns in PostgreSQL.
const ATTRIBUTES_MAX: usize = 1_600;

type Attribute = (String, String);

/// The attributes of a new type.
pub(super) fn new_attributes(ddl: &Ddl<'_>, written: &[(Ident, DataType)]) -> Result<Vec<Attribute>> {
    let mut attributes = Vec::new();
    for (name, data_type) in written {
        add(ddl, &mut attributes, name, data_type)?;
    }
    Ok(attributes)
}

fn add(ddl: &Ddl<'_>, attributes: &mut Vec<Attribute>, name: &Ident, data_type: &DataType) -> Result<()> {
    let name = folded(name);
    if attributes.iter().any(|(known, _)| *known == name) {
        return Err(exists(&name));
    }
    if attributes.len() >= ATTRIBUTES_MAX {
        let what = format!("a composite type has at most {ATTRIBUTES_MAX} attributes");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    attributes.push((name, type_text(ddl, data_type)?));
    Ok(())
}

/// The text of the type of an attribute.
fn type_text(ddl: &Ddl<'_>, data_type: &DataType) -> Result<String> {
    let (sql_type, _) = column_types::of_column(data_type, ddl)?;
    if let BaseType::Domain(user) = sql_type.base {
        let what = format!("an attribute of the domain {} is not supported", user.shown);
        return Err(SqlError::unsupported(what, "Use the type that it is made of."));
    }
    types::rely_on(ddl, sql_type)?;
    Ok(column_type::written(sql_type, ddl.catalogue()?.user_types()))
}

#[cold]
fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}

/// Changes the attributes of a type.
pub(super) fn alter(
    ddl: &Ddl<'_>,
    (number, known): (ObjectNumber, &mut Type),
    name: &names::Name,
    changes: &[AttributeChange],
) -> Result<()> {
    let used = used_by(ddl, number)?;
    let TypeKind::Composite { attributes, .. } = &mut known.kind else {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a composite type")));
    };
    let place = |attributes: &[Attribute], attribute: &str| {
        attributes.iter().position(|(known, _)| known == attribute).ok_or_else(|| {
            let what = format!("column \"{attribute}\" of relation \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, what)
        })
    };
    for change in changes {
        match change {
            AttributeChange::Add(attribute, data_type) => {
                let attribute_name = folded(attribute);
                if place(attributes, &attribute_name).is_ok() {
                    let what = format!("column \"{attribute_name}\" of relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
                }
                add(ddl, attributes, attribute, data_type)?;
                refuse_itself(attributes, number, name)?;
            }
            AttributeChange::Drop(attribute, if_exists) => {
                let attribute = folded(attribute);
                match place(attributes, &attribute) {
                    Ok(at) => {
                        refuse_used(name, used.as_deref())?;
                        attributes.remove(at);
                    }
                    Err(_) if *if_exists => {
                        ddl.notice(format!("column \"{attribute}\" of relation \"{name}\" does not exist, skipping"))
                    }
                    Err(error) => return Err(error),
                }
            }
            AttributeChange::Retype(attribute, data_type) => {
                let at = place(attributes, &folded(attribute))?;
                refuse_used(name, used.as_deref())?;
                attributes[at].1 = type_text(ddl, data_type)?;
                refuse_itself(attributes, number, name)?;
            }
            AttributeChange::Rename(from, to) => {
                let (at, to) = (place(attributes, &folded(from))?, folded(to));
                if place(attributes, &to).is_ok() {
                    let what = format!("column \"{to}\" of relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
                }
                attributes[at].0 = to;
            }
        }
    }
    Ok(())
}

/// Fails if a type has an attribute of itself.
fn refuse_itself(attributes: &[Attribute], number: ObjectNumber, name: &names::Name) -> Result<()> {
    if attributes.iter().all(|(_, text)| column_type::number_of(text) != Some(number)) {
        return Ok(());
    }
    let what = format!("composite type {name} cannot be made a member of itself");
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what))
}

/// What uses a type: a column of a table, of the type, of arrays of it or of a type that is made of it.
fn used_by(ddl: &Ddl<'_>, number: ObjectNumber) -> Result<Option<String>> {
    let catalogue = ddl.catalogue()?;
    let mut numbers = vec![number];
    let mut at = 0;
    while let Some(&part) = numbers.get(at) {
        let made_of = catalogue.types().iter().filter(|(other, known)| {
            !numbers.contains(other) && known.kind.parts().iter().any(|text| column_type::number_of(text) == Some(part))
        });
        let made_of: Vec<ObjectNumber> = made_of.map(|(other, _)| *other).collect();
        numbers.extend(made_of);
        at += 1;
    }
    let is_used = |of: Option<ObjectNumber>| of.is_some_and(|of| numbers.contains(&of));
    for table in catalogue.tables().values() {
        let mut columns = table.declared.columns.iter();
        if let Some(column) = columns.find(|column| is_used(column_type::user_number(column))) {
            return Ok(Some(format!("{}.{}", table.name, column.name)));
        }
    }
    Ok(None)
}

fn refuse_used(name: &names::Name, used: Option<&str>) -> Result<()> {
    let Some(column) = used else { return Ok(()) };
    let what = format!("cannot alter type \"{name}\" because column \"{column}\" uses it");
    Err(SqlError::unsupported(what, "Create another type, and change the type of the column with USING."))
}

/// Drops the attributes of a type that is dropped.
pub(super) fn drop_attributes(ddl: &Ddl<'_>, number: ObjectNumber, known: &Type, dropped: ObjectNumber) -> Result<()> {
    let mut known = known.clone();
    let TypeKind::Composite { attributes, .. } = &mut known.kind else { return Ok(()) };
    let used = used_by(ddl, number)?;
    if let Some(column) = used {
        let what = format!("cannot drop an attribute of type {} because column \"{column}\" uses it", known.name);
        return Err(SqlError::unsupported(what, "Drop the column first."));
    }
    attributes.retain(|(name, text)| {
        let is_dropped = column_type::number_of(text) == Some(dropped);
        if is_dropped {
            ddl.notice(format!("drop cascades to column {name} of composite type {}", known.name));
        }
        !is_dropped
    });
    ddl.store().put_type(ddl.transaction, Some(number), &known)?;
    Ok(())
}
