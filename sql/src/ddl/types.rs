//! CREATE, ALTER and DROP TYPE, what ALTER and DROP DOMAIN have in common with them, and comments on types.
//!
//! A column of an enum holds the place of a label in the order, a number of floating point. A label that is added
//! between two gets the number in the middle, so that no row is written anew and keys stay in order.

use sqlparser::ast::{AlterTableOperation, DropBehavior, Ident, ObjectName};

use crate::alteration::{Alteration, Change, Kind};
use crate::catalogue::{Commented, ObjectNumber, Relation, Type, TypeKind, column_type};
use crate::ddl::alter_table::{check_readers, one};
use crate::ddl::remove::{How, depended, drop_readers};
use crate::ddl::{Ddl, Tag, composite, domain, names, no_schema};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::type_change::TypeChange;
use crate::types::SqlType;

/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 63;

pub(super) fn run(ddl: &Ddl<'_>, alteration: &Alteration, change: &TypeChange) -> Result<Tag> {
    let is_domain = alteration.kind == Kind::Domain;
    let name = names::qualified(&alteration.name)?;
    if let Some(kind) = domain::kind(ddl, &name.name, change)? {
        create(ddl, &name, kind)?;
        return Ok("CREATE DOMAIN");
    }
    match change {
        TypeChange::CreateEnum(labels) => {
            create_enum(ddl, &name, labels)?;
            return Ok("CREATE TYPE");
        }
        TypeChange::CreateComposite(attributes) => {
            let attributes = composite::new_attributes(ddl, attributes)?;
            let relation = ddl.store().next_number(ddl.transaction)?;
            create(ddl, &name, TypeKind::Composite { relation, attributes })?;
            return Ok("CREATE TYPE");
        }
        TypeChange::Drop(names, is_cascade) => {
            let how = How { if_exists: alteration.if_exists, cascade: *is_cascade };
            drop_types(ddl, names, how, is_domain)?;
            return Ok(if is_domain { "DROP DOMAIN" } else { "DROP TYPE" });
        }
        _ => {}
    }
    let (number, known) = named(ddl, &name, is_domain)?;
    if let TypeChange::Comment(text) = change {
        ddl.store().set_comment(ddl.transaction, &Commented::Object(number), text.as_deref())?;
        return Ok("COMMENT");
    }
    let mut known = known;
    let mut must_look = false;
    match change {
        TypeChange::AddValue { label, if_not_exists, beside } => {
            let labels = labels_of(&mut known, &name)?;
            if labels.iter().any(|(_, text)| text == label) {
                if !if_not_exists {
                    return Err(label_exists(label));
                }
                ddl.notice(format!("enum label \"{label}\" already exists, skipping"));
                return Ok("ALTER TYPE");
            }
            add_label(labels, label, beside.as_ref())?;
        }
        TypeChange::RenameValue(from, to) => {
            let labels = labels_of(&mut known, &name)?;
            refuse_long(to)?;
            let place = labels.iter().position(|(_, text)| text == from).ok_or_else(|| no_label(from))?;
            if labels.iter().any(|(_, text)| text == to) {
                return Err(label_exists(to));
            }
            labels[place].1.clone_from(to);
        }
        TypeChange::Rename(to) => {
            let to = folded(to);
            refuse_taken(ddl, &known.schema, &to)?;
            refuse_readers(ddl, &known)?;
            known.name = to;
        }
        TypeChange::SetSchema(schema) => {
            let schema = schema_of(ddl, schema)?;
            if schema != known.schema {
                refuse_taken(ddl, &schema, &known.name)?;
                refuse_readers(ddl, &known)?;
                known.schema = schema;
            }
        }
        TypeChange::Attributes(changes) => composite::alter(ddl, (number, &mut known), &name, changes)?,
        TypeChange::Nothing => {}
        change => must_look = domain::alter(ddl, &name.name, &mut known.kind, change)?,
    }
    ddl.store().put_type(ddl.transaction, Some(number), &known)?;
    if must_look {
        domain::look_at_values(ddl, number)?;
    }
    Ok(if is_domain { "ALTER DOMAIN" } else { "ALTER TYPE" })
}

/// A type that a user has made, by its name.
fn named(ddl: &Ddl<'_>, name: &names::Name, is_domain: bool) -> Result<(ObjectNumber, Type)> {
    let catalogue = ddl.catalogue()?;
    let Some((number, known)) = catalogue.user_type(name.schema.as_deref(), &name.name, ddl.context.search_path) else {
        return Err(match column_type::parse(&name.name) {
            Some(_) if is_domain => wrong_kind(name, "a domain"),
            Some(known) => SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{known} is not an enum")),
            None => no_type(name),
        });
    };
    if is_domain && !matches!(known.kind, TypeKind::Domain { .. }) {
        return Err(wrong_kind(name, "a domain"));
    }
    Ok((number, (**known).clone()))
}

#[cold]
fn wrong_kind(name: &names::Name, kind: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {kind}"))
}

#[cold]
fn no_type(name: &names::Name) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

#[cold]
fn label_exists(label: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("enum label \"{label}\" already exists"))
}

#[cold]
fn no_label(label: &str) -> SqlError {
    let what = format!("\"{label}\" is not an existing enum label");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

fn refuse_long(label: &str) -> Result<()> {
    if label.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid enum label \"{label}\""))
        .with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")))
}

/// Fails if a schema has a type of this name, or a table or a view, which have types of their names in PostgreSQL.
pub(super) fn refuse_taken(ddl: &Ddl<'_>, schema: &str, name: &str) -> Result<()> {
    ddl.take_name(schema, name)?;
    let error = SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists"));
    let catalogue = ddl.catalogue()?;
    let is_row = matches!(catalogue.relation(Some(schema), name, &[]), Some(Relation::Table(_) | Relation::View(..)));
    if is_row || catalogue.user_type(Some(schema), name, &[]).is_some() { Err(error) } else { Ok(()) }
}

/// Fails if a schema has a type of the name of a new table or view.
pub(super) fn refuse_type(ddl: &Ddl<'_>, schema: &str, name: &str) -> Result<()> {
    if ddl.catalogue()?.user_type(Some(schema), name, &[]).is_none() {
        return Ok(());
    }
    let hint = "A relation has an associated type of the same name, so you must use a name that doesn't conflict with \
                any existing type.";
    Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")).with_hint(hint))
}

/// Fails if a view names the type, which the text of its query does.
fn refuse_readers(ddl: &Ddl<'_>, known: &Type) -> Result<()> {
    match ddl.catalogue()?.readers(&known.schema, &known.name).first() {
        None => Ok(()),
        Some(reader) => {
            let what = format!("cannot rename type {} because other objects depend on it", known.name);
            Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("{} {} depends on type {}", reader.kind(), reader.name(), known.name))
                .with_hint("Drop the view, and create it again afterwards."))
        }
    }
}

fn schema_of(ddl: &Ddl<'_>, ident: &Ident) -> Result<String> {
    let schema = folded(ident);
    match ddl.catalogue()?.has_schema(&schema) {
        true => Ok(schema),
        false => Err(no_schema(&schema)),
    }
}

/// Has the transaction fail if another one changes or drops the type of a column meanwhile.
pub(super) fn rely_on(ddl: &Ddl<'_>, sql_type: SqlType) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    match catalogue.user_types().iter().find(|(_, base)| **base == sql_type.base) {
        Some((&number, _)) => ddl.store().rely_on_type(ddl.transaction, number),
        None => Ok(()),
    }
}

fn create_enum(ddl: &Ddl<'_>, name: &names::Name, labels: &[String]) -> Result<()> {
    let mut placed: Vec<(String, String)> = Vec::new();
    for label in labels {
        refuse_long(label)?;
        if placed.iter().any(|(_, text)| text == label) {
            let what = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
            return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, what)
                .with_detail(format!("The label \"{label}\" is there twice.")));
        }
        placed.push(((placed.len() + 1).to_string(), label.clone()));
    }
    create(ddl, name, TypeKind::Enum(placed))
}

/// Keeps a new type.
fn create(ddl: &Ddl<'_>, name: &names::Name, kind: TypeKind) -> Result<()> {
    let (schema, name) = ddl.new_name(name, false)?;
    refuse_taken(ddl, &schema, &name)?;
    let array = ddl.store().next_number(ddl.transaction)?;
    ddl.store().put_type(ddl.transaction, None, &Type { schema, name, array, kind })?;
    Ok(())
}

fn labels_of<'k>(known: &'k mut Type, name: &names::Name) -> Result<&'k mut Vec<(String, String)>> {
    match &mut known.kind {
        TypeKind::Enum(labels) => Ok(labels),
        _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{name} is not an enum"))),
    }
}

/// Adds a label before or after another one, or as the last one.
fn add_label(labels: &mut Vec<(String, String)>, label: &str, beside: Option<&(bool, String)>) -> Result<()> {
    refuse_long(label)?;
    let at = match beside {
        None => labels.len(),
        Some((is_before, other)) => {
            let place = labels.iter().position(|(_, text)| text == other).ok_or_else(|| no_label(other))?;
            if *is_before { place } else { place + 1 }
        }
    };
    let order = |at: Option<usize>| at.and_then(|at| labels.get(at)?.0.parse::<f64>().ok());
    let (before, after) = (order(at.checked_sub(1)), order(Some(at)));
    let place = match (before, after) {
        (None, None) => 1.0,
        (Some(before), None) => before + 1.0,
        (None, Some(after)) => after - 1.0,
        (Some(before), Some(after)) => before + (after - before) / 2.0,
    };
    if Some(place) == before || Some(place) == after {
        let what = format!("there is no room for the enum label \"{label}\" at its place");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            .with_detail("Some fifty labels, each beside the one added before, were added between two others.")
            .with_hint("Create another type, and change the type of the columns."));
    }
    labels.insert(at, (place.to_string(), label.to_owned()));
    Ok(())
}

fn drop_types(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How, is_domain: bool) -> Result<()> {
    for name in dropped {
        let name = names::qualified(name)?;
        match named(ddl, &name, is_domain) {
            Ok((number, known)) => drop_type(ddl, number, &known, how)?,
            Err(error) if error.state() == SqlState::UNDEFINED_OBJECT && how.if_exists => {
                ddl.notice(format!("type \"{name}\" does not exist, skipping"));
            }
            Err(error) => match column_type::parse(&name.name).filter(|_| !is_domain) {
                Some(known) => {
                    let what = format!("cannot drop type {known} because it is required by the database system");
                    return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what));
                }
                None => return Err(error),
            },
        }
    }
    Ok(())
}

/// Drops a type, and with it, or not at all, the columns, the domains and the views that have it.
pub(super) fn drop_type(ddl: &Ddl<'_>, number: ObjectNumber, known: &Type, how: How) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    let user = catalogue.user_types().get(&number).and_then(|base| base.user_type());
    let shown = user.map_or_else(|| known.name.clone(), |user| user.shown.clone());
    let mut details = Vec::new();
    for table in catalogue.tables().values() {
        let own = table.declared.columns.iter().filter(|column| column_type::user_number(column) == Some(number));
        for column in own {
            if !how.cascade {
                details.push(format!("column {} of table {} depends on type {shown}", column.name, table.name));
                continue;
            }
            ddl.notice(format!("drop cascades to column {} of table {}", column.name, table.name));
            let operation = AlterTableOperation::DropColumn {
                has_column_keyword: true,
                column_names: vec![Ident::with_quote('"', &column.name)],
                if_exists: true,
                drop_behavior: Some(DropBehavior::Cascade),
            };
            let now = ddl.table_of(table.number)?;
            one(ddl, &now, &operation)?;
            check_readers(ddl, &now, &operation)?;
        }
    }
    for (&other, user) in catalogue.types() {
        if !user.kind.parts().iter().any(|text| column_type::number_of(text) == Some(number)) {
            continue;
        }
        match &user.kind {
            TypeKind::Composite { .. } if how.cascade => composite::drop_attributes(ddl, other, user, number)?,
            TypeKind::Composite { attributes, .. } => {
                let own = attributes.iter().filter(|(_, text)| column_type::number_of(text) == Some(number));
                let lines = own
                    .map(|(name, _)| format!("column {name} of composite type {} depends on type {shown}", user.name));
                details.extend(lines);
            }
            _ if how.cascade => {
                ddl.notice(format!("drop cascades to type {}", user.name));
                drop_type(ddl, other, user, how)?;
            }
            _ => details.push(format!("type {} depends on type {shown}", user.name)),
        }
    }
    if !details.is_empty() {
        return Err(depended(&format!("type {shown}"), details.join("\n")));
    }
    drop_readers(ddl, ("type", &known.schema, &known.name), |_| false, how)?;
    ddl.store().remove_type(ddl.transaction, number)
}

/// Whether an alteration is of a type, and what becomes of it.
pub(super) fn change_of(alteration: &Alteration) -> Option<&TypeChange> {
    match &alteration.changes[..] {
        [Change::Type(change)] => Some(change),
        _ => None,
    }
}
