//! ALTER TABLE.

use std::sync::Arc;

use quipu_rows::{Check, Deferral, ForeignKey, IndexSchema, Ordered, RowView, Value};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ConstraintUsingIndex, DropBehavior, Ident,
    TableConstraint,
};

use crate::bind::default_of_domain;
use crate::catalogue::computed::is_in_rows;
use crate::catalogue::sequences::Position;
use crate::catalogue::{self, Relation, Table, column_type};
use crate::ddl::constraint::{self, Declared, Parts, Unique};
use crate::ddl::create_table::own_sequence;
use crate::ddl::expression::{ColumnDefault, refuse_unsorted};
use crate::ddl::remove::{How, depended, drop_reader};
use crate::ddl::{
    Ddl, Tag, column, column_types, generated, materialized, names, no_column, remove, renames, sequence, types,
};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;
use crate::types::cast::{CastContext, can_cast};
use crate::types::{BaseType, SqlType};

pub(super) fn alter(ddl: &Ddl<'_>, alter: &AlterTable) -> Result<Tag> {
    let name = names::qualified(&alter.name)?;
    if alter.if_exists && ddl.relation(&name)?.is_none() {
        ddl.notice(format!("relation \"{name}\" does not exist, skipping"));
        return Ok("ALTER TABLE");
    }
    let table = ddl.table_or_materialized(&name)?;
    ddl.lock(&table, LockMode::AccessExclusive)?;
    for operation in &alter.operations {
        let before = ddl.table_of(table.number)?;
        if table.materialized.is_some() {
            materialized::alter_known(ddl, &before, operation)?;
            continue;
        }
        match operation {
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let readers = renames::readers_of(ddl, &before)?;
                one(ddl, &before, operation)?;
                let (old, new) = (folded(old_column_name), folded(new_column_name));
                renames::follow(ddl, readers, &old, &new)?;
            }
            _ => one(ddl, &before, operation)?,
        }
        check_readers(ddl, &before, operation)?;
    }
    Ok("ALTER TABLE")
}

/// Fails if a view reads what an operation has taken away, which CASCADE lets go with it.
pub(super) fn check_readers(ddl: &Ddl<'_>, table: &Table, operation: &AlterTableOperation) -> Result<()> {
    let is_cascade =
        matches!(operation, AlterTableOperation::DropColumn { drop_behavior: Some(DropBehavior::Cascade), .. });
    for reader in ddl.catalogue()?.readers(&table.schema, &table.name) {
        let now = ddl.catalogue()?;
        if !reader.is_in(&now) {
            continue;
        }
        let (query, path) = reader.query();
        let query = crate::statement::parse_query(&query)?;
        let (kind, name) = (reader.kind(), reader.name());
        if ddl.context.evaluator.reads(&query, path).is_ok() {
            if materialized::has_other_types(ddl, &reader)? {
                let what = "cannot alter type of a column used by a view or rule";
                return Err(SqlError::unsupported(what, "Drop the view, and create it again afterwards.")
                    .with_detail(format!("{kind} {name} depends on table {}", table.name)));
            }
            continue;
        }
        if is_cascade {
            drop_reader(ddl, &reader, How { if_exists: false, cascade: true })?;
            continue;
        }
        let (what, hint) = match operation {
            AlterTableOperation::DropColumn { .. } => {
                ("drop a column", "Use DROP ... CASCADE to drop the dependent objects too.")
            }
            _ => ("rename what a view reads", "Drop the view, and create it again afterwards."),
        };
        let what = format!("cannot {what} of table {} because other objects depend on it", table.name);
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
            .with_detail(format!("{kind} {name} depends on table {}", table.name))
            .with_hint(hint));
    }
    Ok(())
}

pub(super) fn one(ddl: &Ddl<'_>, table: &Arc<Table>, operation: &AlterTableOperation) -> Result<()> {
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
            add_column(ddl, table, column_def, *if_not_exists)
        }
        AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let is_cascade = *drop_behavior == Some(DropBehavior::Cascade);
            column_names.iter().try_for_each(|name| drop_column(ddl, table, name, *if_exists, is_cascade))
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (old, new) = (place(table, old_column_name)?.0, folded(new_column_name));
            if table.place(&new).is_some() {
                return Err(column_exists(&new, &table.name));
            }
            definitions.rename_column(rows_name, &old, &new)?;
            generated::rename(&definitions, table, place(table, old_column_name)?.1, &new)
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::PrimaryKeyUsingIndex(using), .. } => {
            add_by_index(ddl, table, using, true)
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::UniqueUsingIndex(using), .. } => {
            add_by_index(ddl, table, using, false)
        }
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            let mut parts = Parts::default();
            parts.add_table(constraint)?;
            let mut added = parts.constraints.iter();
            added.try_for_each(|(name, declared)| add_constraint(ddl, table, name, declared, *not_valid))
        }
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let is_cascade = *drop_behavior == Some(DropBehavior::Cascade);
            drop_constraint(ddl, table, name, (*if_exists, is_cascade))
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            let (old, new) = (folded(old_name), folded(new_name));
            if table.primary_key_name().as_ref() == Some(&old) && table.declared.key_name.is_none() {
                return Err(SqlError::unsupported(
                    format!("the primary key \"{old}\" has a name that follows from its table"),
                    "Give the primary key a name when it is declared.",
                ));
            }
            if !table.has_constraint(&old) {
                return Err(no_constraint(&old, &table.name));
            }
            Ok(definitions.rename_constraint(rows_name, &old, &new)?)
        }
        AlterTableOperation::AlterColumn { column_name, op } => alter_column(ddl, table, column_name, op),
        AlterTableOperation::ValidateConstraint { name } => {
            let name = folded(name);
            if definitions.validate_constraint(rows_name, &name)? {
                return Ok(());
            }
            if !table.has_constraint(&name) {
                return Err(no_constraint(&name, &table.name));
            }
            let what = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                table.name
            );
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what))
        }
        AlterTableOperation::DisableRowLevelSecurity | AlterTableOperation::NoForceRowLevelSecurity => Ok(()),
        // No table has triggers of users.
        AlterTableOperation::EnableTrigger { name } if is_all_or_user(name) => Ok(()),
        AlterTableOperation::DisableTrigger { name } if folded(name) == "user" => Ok(()),
        AlterTableOperation::DisableTrigger { name } if folded(name) == "all" => {
            let hint = "Declare foreign keys as DEFERRABLE, and say SET CONSTRAINTS ALL DEFERRED.";
            Err(SqlError::unsupported("constraints cannot be disabled", hint))
        }
        AlterTableOperation::EnableTrigger { name } | AlterTableOperation::DisableTrigger { name } => {
            let what = format!("trigger \"{}\" for table \"{}\" does not exist", folded(name), table.name);
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what))
        }
        other => Err(SqlError::unsupported(format!("not supported: ALTER TABLE {other}"), "Leave it out.")),
    }
}

#[cold]
fn column_exists(column: &str, table: &str) -> SqlError {
    let what = format!("column \"{column}\" of relation \"{table}\" already exists");
    SqlError::new(SqlState::DUPLICATE_COLUMN, what)
}

#[cold]
pub(super) fn no_constraint(name: &str, table: &str) -> SqlError {
    let what = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, what)
}

/// The name and the place of a column.
pub(super) fn place(table: &Table, ident: &Ident) -> Result<(String, usize)> {
    let name = folded(ident);
    match table.place(&name) {
        Some(place) => Ok((name, place)),
        None => Err(no_column(&name, &table.name)),
    }
}

fn add_column(ddl: &Ddl<'_>, table: &Arc<Table>, def: &ColumnDef, if_not_exists: bool) -> Result<()> {
    let mut parts = Parts::default();
    let new = column::read(ddl, def, &mut parts)?;
    let name = new.column.name.clone();
    if table.place(&name).is_some() {
        if if_not_exists {
            ddl.notice(format!("column \"{name}\" of relation \"{}\" already exists, skipping", table.name));
            return Ok(());
        }
        return Err(column_exists(&name, &table.name));
    }
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    if new.column.generated.is_some() {
        let schema = table.declared.clone().column(new.column.clone());
        generated::check(&schema, &table.name)?;
    }
    let is_computed = new.column.sql_default.is_some();
    // Rows that there are must be values of a domain too.
    let is_of_domain =
        matches!(new.sql_type.base, BaseType::Domain(_)) && !ddl.transaction.table(rows_name)?.is_empty()?;
    let evaluator = ddl.context.evaluator;
    match &new.default {
        _ if let Some((own, is_always)) = &new.numbers => {
            let mut position = Position { last: own.start, is_called: false };
            definitions.add_column_filled(rows_name, new.column, &mut |_| {
                position = Position { last: own.after(position).map_err(into_rows)?, is_called: true };
                Ok(Value::Int(position.last.into()))
            })?;
            let place = (&*table.schema, &*table.name, rows_name);
            sequence::give_numbers(ddl, place, (&name, *is_always), own.clone(), position)?;
        }
        _ if new.column.identity.is_some() => {
            definitions.add_column_filled(rows_name, new.column, &mut |_| Ok(Value::Null))?;
            own_sequence(
                ddl,
                (&table.schema, &table.name),
                rows_name,
                None,
                (&name, new.sql_type, new.start, new.is_serial),
            )?;
        }
        _ if new.column.generated.is_some() => {
            // Each row is written anew, with what it comes to.
            definitions.add_column_filled(rows_name, new.column, &mut |_| Ok(Value::Null))?;
        }
        Some(default) if is_computed && evaluator.is_volatile(default) => {
            definitions.add_column_filled(rows_name, new.column, &mut |row| {
                evaluator.evaluate(default, new.sql_type, Some((table, row))).map_err(into_rows)
            })?;
        }
        Some(default) if is_computed || is_of_domain => {
            let value = evaluator.evaluate(default, new.sql_type, None)?;
            definitions.add_column_with(rows_name, new.column, &value)?;
        }
        None if is_of_domain => {
            let default = default_of_domain(new.sql_type).unwrap_or("NULL");
            let default = crate::statement::parse_expression(default)?;
            let value = evaluator.evaluate(&default, new.sql_type, None)?;
            definitions.add_column_with(rows_name, new.column, &value)?;
        }
        _ => definitions.add_column(rows_name, new.column)?,
    }
    for (name, declared) in &parts.constraints {
        let table = ddl.table_of(table.number)?;
        add_constraint(ddl, &table, name, declared, false)?;
    }
    Ok(())
}

fn into_rows(error: SqlError) -> quipu::Error {
    quipu::Error::caused_by(quipu::ErrorKind::Invalid, error.to_string(), error)
}

fn drop_column(ddl: &Ddl<'_>, table: &Table, ident: &Ident, if_exists: bool, is_cascade: bool) -> Result<()> {
    let name = folded(ident);
    let Some(at) = table.place(&name) else {
        if if_exists {
            ddl.notice(format!("column \"{name}\" of relation \"{}\" does not exist, skipping", table.name));
            return Ok(());
        }
        return Err(no_column(&name, &table.name));
    };
    if table.declared.sum.as_ref() == Some(&name) {
        let what = format!("cannot drop column {name} of table {} because the table keeps its sums", table.name);
        let hint = "Create another table WITH (sum = ...), or without it, from this one.";
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what).with_hint(hint));
    }
    for reader in generated::dropped_with(table, at, is_cascade, &|notice| ddl.notice(notice))? {
        drop_column(ddl, table, &Ident::with_quote('"', reader), false, false)?;
    }
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    // Constraints and indexes of the column go with it, as in PostgreSQL.
    for key in table.declared.foreign_keys.iter().filter(|key| key.columns.contains(&name)) {
        definitions.drop_constraint(rows_name, &key.name)?;
    }
    let quoted = crate::dialect::quoted(&name);
    let reads = |text: &str| text.contains(&quoted) || text.trim_end_matches(" desc") == name;
    for check in table.declared.checks.iter().filter(|check| check.condition.contains(&quoted)) {
        definitions.drop_constraint(rows_name, &check.name)?;
    }
    for index in &table.declared.indexes {
        let is_read = index.columns.iter().any(|column| reads(column))
            || index.include.contains(&name)
            || index.sum.as_ref() == Some(&name)
            || index.predicate.as_deref().is_some_and(reads);
        if is_read {
            remove::drop_index(ddl, table, &index.name)?;
        }
    }
    let is_key = table.declared.key.iter().any(|key| key.trim_end_matches(" desc") == name);
    if is_key {
        definitions.relieve_index(rows_name, None)?;
        definitions.set_primary_key(rows_name, &[], None)?;
    }
    if let Some((number, _)) = ddl.catalogue()?.sequence_of(table.number, table.columns[at].number) {
        ddl.store().remove_sequence(ddl.transaction, number)?;
    }
    Ok(definitions.drop_column(rows_name, &name)?)
}

fn add_constraint(
    ddl: &Ddl<'_>,
    table: &Table,
    given: &Option<String>,
    declared: &Declared,
    not_valid: bool,
) -> Result<()> {
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    let (schema, name) = (&table.declared, &*table.name);
    match declared {
        Declared::PrimaryKey(..) | Declared::Unique(_) if not_valid => {
            let kind = if matches!(declared, Declared::Unique(_)) { "UNIQUE" } else { "PRIMARY KEY" };
            let what = format!("{kind} constraints cannot be marked NOT VALID");
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
        }
        Declared::PrimaryKey(..) if table.has_primary_key() || table.primary_index().is_some() => {
            let what = format!("multiple primary keys for table \"{name}\" are not allowed");
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what))
        }
        Declared::PrimaryKey(columns, deferral) if *deferral != Deferral::Never => {
            let index = constraint::deferred_primary_key(ddl, schema, name, given, (columns, *deferral))?;
            for column in columns {
                definitions.set_not_null(rows_name, column)?;
            }
            Ok(definitions.create_index(rows_name, index)?)
        }
        Declared::PrimaryKey(columns, _) => {
            let key = constraint::primary_key(ddl, schema, name, columns)?;
            let given = given.clone().unwrap_or_else(|| names::make(name, "", "pkey"));
            Ok(definitions.set_primary_key(rows_name, &key, Some(given))?)
        }
        Declared::Unique(declared) => {
            let index = constraint::unique(ddl, schema, name, given, declared)?;
            Ok(definitions.create_index(rows_name, index)?)
        }
        Declared::Check(condition, column) => {
            let check = constraint::check(ddl, schema, name, given, (condition, column.as_deref()))?;
            Ok(definitions.add_check(rows_name, Check { not_valid, ..check })?)
        }
        Declared::ForeignKey(columns, declared) => {
            let foreign_key = constraint::foreign_key(ddl, schema, name, given, (columns, declared))?;
            generated::check_foreign_key(schema, &foreign_key)?;
            Ok(definitions.add_foreign_key(rows_name, ForeignKey { not_valid, ..foreign_key })?)
        }
    }
}

/// PRIMARY KEY and UNIQUE USING INDEX: the constraint takes the place of the index, whose name it has if it is given
/// none.
fn add_by_index(ddl: &Ddl<'_>, table: &Arc<Table>, using: &ConstraintUsingIndex, is_primary: bool) -> Result<()> {
    let name = folded(&using.index_name);
    let refused = |state: SqlState, what: String| Err(SqlError::new(state, what));
    let in_use = || {
        let what = format!("index \"{name}\" is already associated with a constraint");
        refused(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
    };
    let catalogue = ddl.catalogue()?;
    let index = match catalogue.relation(Some(&table.schema), &name, &[]) {
        Some(Relation::Index(other, place)) if other.number == table.number => &table.declared.indexes[*place],
        Some(Relation::PrimaryKey(other)) if other.number == table.number => return in_use(),
        Some(Relation::Index(..) | Relation::PrimaryKey(_)) => {
            let what = format!("index \"{name}\" does not belong to table \"{}\"", table.name);
            return refused(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what);
        }
        _ => return refused(SqlState::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist")),
    };
    if index.constraint || index.primary {
        return in_use();
    }
    let columns: Vec<String> = index.columns.iter().map(|text| catalogue::shape::column_name(text)).collect();
    let is_column = |column: &String| table.declared.place(column).is_some();
    let wrong = match index {
        index if !index.unique => Some("is not a unique index"),
        index if index.predicate.is_some() => Some("is a partial index"),
        _ if !columns.iter().all(is_column) => Some("contains expressions"),
        index if index.columns.iter().any(|text| text.ends_with(" desc")) || !index.sql_order.is_empty() => {
            Some("does not have default sorting behavior")
        }
        _ => None,
    };
    if let Some(wrong) = wrong {
        let what = format!("index \"{name}\" {wrong}");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what)
            .with_detail("Cannot create a primary key or unique constraint using such an index."));
    }
    let given = using.name.as_ref().map_or_else(|| name.clone(), folded);
    if given != name {
        ddl.notice(format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{name}\" to \"{given}\""));
    }
    let deferral = constraint::deferral(using.characteristics.as_ref())?;
    let declared = match is_primary {
        true => Declared::PrimaryKey(columns, deferral),
        false => Declared::Unique(Unique { columns, nulls_equal: index.nulls_equal, deferral }),
    };
    // The index stays until the constraint is there, for the foreign keys that rely on it.
    let definitions = ddl.definitions();
    let meanwhile = names::choose(&table.name, &name, "old", |name| table.has_constraint(name));
    definitions.rename_constraint(&table.rows_name, &name, &meanwhile)?;
    add_constraint(ddl, &*ddl.table_of(table.number)?, &Some(given), &declared, false)?;
    Ok(definitions.drop_index(&table.rows_name, &meanwhile)?)
}

/// Drops the foreign keys that refer to rows by a key which goes, or fails if there are some and it `is_cascade` not.
fn drop_referring(ddl: &Ddl<'_>, table: &Table, (key, columns): (&str, &[String]), is_cascade: bool) -> Result<()> {
    let bare = |columns: &[String]| {
        let mut names: Vec<String> = columns.iter().map(|text| catalogue::shape::column_name(text)).collect();
        names.sort();
        names
    };
    let wanted = bare(columns);
    let other = |declared: &[String], name: &str| *name != *key && bare(declared) == wanted;
    let primary = table.primary_key_name().unwrap_or_default();
    let mut unique = table.declared.indexes.iter().filter(|index| index.unique && index.predicate.is_none());
    if unique.any(|index| other(&index.columns, &index.name)) || other(&table.declared.key, &primary) {
        return Ok(());
    }
    let catalogue = ddl.catalogue()?;
    for child in table.referred_by.iter().filter_map(|child| catalogue.tables().get(child)) {
        let keys = child.declared.foreign_keys.iter().zip(&child.refers_to);
        for (foreign, _) in keys.filter(|(_, parent)| **parent == table.number) {
            let of_primary = foreign.references.is_empty() && wanted == bare(&table.declared.key);
            if !of_primary && bare(&foreign.references) != wanted {
                continue;
            }
            let (name, child_name) = (&foreign.name, &child.name);
            if !is_cascade {
                let detail = format!("constraint {name} on table {child_name} depends on index {key}");
                return Err(depended(&format!("constraint {key} on table {}", table.name), detail));
            }
            ddl.notice(format!("drop cascades to constraint {name} on table {child_name}"));
            ddl.lock(child, LockMode::AccessExclusive)?;
            remove::drop_check_or_foreign_key(ddl, child, name)?;
        }
    }
    Ok(())
}

fn drop_constraint(ddl: &Ddl<'_>, table: &Table, ident: &Ident, (if_exists, is_cascade): (bool, bool)) -> Result<()> {
    let (name, rows_name) = (folded(ident), &*table.rows_name);
    let definitions = ddl.definitions();
    if table.primary_key_name().as_ref() == Some(&name) {
        drop_referring(ddl, table, (&name, &table.declared.key), is_cascade)?;
        definitions.relieve_index(rows_name, None)?;
        return Ok(definitions.set_primary_key(rows_name, &[], None)?);
    }
    if let Some(index) = table.declared.indexes.iter().find(|index| index.name == name && index.constraint) {
        drop_referring(ddl, table, (&name, &index.columns), is_cascade)?;
        return remove::drop_index(ddl, table, &name);
    }
    let is_there = table.declared.checks.iter().any(|check| check.name == name)
        || table.declared.foreign_keys.iter().any(|key| key.name == name);
    if is_there {
        return remove::drop_check_or_foreign_key(ddl, table, &name);
    }
    if if_exists {
        ddl.notice(format!("constraint \"{name}\" of relation \"{}\" does not exist, skipping", table.name));
        return Ok(());
    }
    Err(no_constraint(&name, &table.name))
}

fn set_default(ddl: &Ddl<'_>, rows_name: &str, name: &str, default: &ColumnDefault) -> Result<()> {
    let definitions = ddl.definitions();
    let set = match default {
        ColumnDefault::None => definitions.set_default(rows_name, name, None),
        ColumnDefault::Constant(text) => definitions.set_default(rows_name, name, Some(text)),
        ColumnDefault::Computed(text) => definitions.set_sql_default(rows_name, name, Some(text)),
    };
    Ok(set?)
}

/// The default, if a column gets a type of another kind: it becomes one of that.
fn replaced_default(ddl: &Ddl<'_>, table: &Table, at: usize, to: SqlType) -> Result<Option<ColumnDefault>> {
    let (column, from) = (&table.declared.columns[at], table.columns[at].sql_type);
    let kind = |sql_type: SqlType| (sql_type.without_domain().base, sql_type.is_array);
    let Some(default) = column_type::default_of(column, from).filter(|_| kind(from) != kind(to)) else {
        return Ok(None);
    };
    let is_enum = |sql_type: SqlType| matches!(sql_type.without_domain().base, BaseType::Enum(_));
    let casts = can_cast(from.without_domain(), to.without_domain(), CastContext::Assignment);
    if !casts && (is_enum(from) || is_enum(to)) {
        let what = format!("default for column \"{}\" cannot be cast automatically to type {to}", column.name);
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    Ok(Some(ColumnDefault::of(&crate::statement::parse_expression(&default)?, to, ddl)))
}

fn is_all_or_user(name: &Ident) -> bool {
    ["all", "user"].contains(&&*folded(name))
}

/// Whether a column is in a primary key that can be deferred.
fn is_of_deferred_key(table: &Table, name: &str) -> bool {
    let key = table.primary_index().map_or(&[][..], |index| &index.columns[..]);
    key.iter().any(|column| catalogue::shape::column_name(column) == name)
}

/// A column that an expression in SQL's words reads keeps its type, of which that was made.
fn refuse_retype_in_words(table: &Table, at: usize) -> Result<()> {
    let quoted = crate::dialect::quoted(&table.declared.columns[at].name);
    let reads = |text: &String| is_in_rows(text) && text.contains(&quoted);
    let of_index = |index: &IndexSchema| index.columns.iter().chain(&index.predicate).any(reads);
    let user = table.declared.checks.iter().find(|check| reads(&check.condition)).map(|check| &check.name);
    let user = user.or_else(|| table.declared.indexes.iter().find(|index| of_index(index)).map(|index| &index.name));
    match user {
        None => Ok(()),
        Some(name) => Err(SqlError::unsupported(
            format!("cannot alter type of a column used by the expression of \"{name}\""),
            "Drop that, and create it again afterwards.",
        )),
    }
}

/// Has a serial column be one with a default; an identity column has none, and is NOT NULL.
fn refuse_identity(ddl: &Ddl<'_>, table: &Table, at: usize) -> Result<()> {
    let column = &table.declared.columns[at];
    if table.identity_of(at).is_none() || sequence::part_from_table(ddl, table, at)? {
        return Ok(());
    }
    let what = format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
    Err(SqlError::new(SqlState::SYNTAX_ERROR, what)
        .with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead."))
}

fn alter_column(ddl: &Ddl<'_>, table: &Table, ident: &Ident, operation: &AlterColumnOperation) -> Result<()> {
    let (name, at) = place(table, ident)?;
    let (definitions, rows_name) = (ddl.definitions(), &*table.rows_name);
    let sql_type = table.columns[at].sql_type;
    let is_generated = generated::is_generated(table, at);
    match operation {
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault if is_generated => {
            let what = format!("column \"{name}\" of relation \"{}\" is a generated column", table.name);
            let error = SqlError::new(SqlState::SYNTAX_ERROR, what);
            Err(match operation {
                AlterColumnOperation::DropDefault => {
                    error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.")
                }
                _ => error,
            })
        }
        AlterColumnOperation::SetDataType { using: Some(_), .. } if is_generated => {
            let what = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{name}\" is a generated column.");
            Err(SqlError::new(SqlState::INVALID_COLUMN_DEFINITION, what).with_detail(detail))
        }
        AlterColumnOperation::SetNotNull => Ok(definitions.set_not_null(rows_name, &name)?),
        AlterColumnOperation::DropNotNull if is_of_deferred_key(table, &name) => {
            let what = format!("column \"{name}\" is in a primary key");
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what))
        }
        AlterColumnOperation::DropNotNull => {
            refuse_identity(ddl, table, at)?;
            Ok(definitions.drop_not_null(rows_name, &name)?)
        }
        AlterColumnOperation::DropDefault => {
            refuse_identity(ddl, table, at)?;
            Ok(definitions.set_default(rows_name, &name, None)?)
        }
        AlterColumnOperation::SetDefault { value } => {
            refuse_identity(ddl, table, at)?;
            let default = sequence::with_whole_name(ddl, ColumnDefault::of(value, sql_type, ddl))?;
            set_default(ddl, rows_name, &name, &default)
        }
        AlterColumnOperation::AddGenerated { .. } => {
            Err(SqlError::new(SqlState::INTERNAL_ERROR, "identity columns are added by `alterations`"))
        }
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            generated::refuse_retype(table, at)?;
            refuse_retype_in_words(table, at)?;
            let (to, held) = column_types::of_column(data_type, ddl)?;
            types::rely_on(ddl, to)?;
            let default = replaced_default(ddl, table, at, to)?;
            if default.is_some() {
                definitions.set_default(rows_name, &name, None)?;
            }
            let keeps = (held, column_type::to_keep(to, ddl.catalogue()?.user_types()));
            let from_held = table.declared.columns[at].data_type;
            if !to.without_domain().is_sorted() {
                let key =
                    table.declared.key.iter().chain(table.declared.indexes.iter().flat_map(|index| &index.columns));
                let used: Vec<String> =
                    key.filter(|text| catalogue::shape::column_name(text) == name).map(|_| name.clone()).collect();
                refuse_unsorted(&used, &|_| Some(to.without_domain()))?;
            }
            // What a type declares rounds values, where it says no length.
            let rounds = to.modifier >= 0 && to.modifier != sql_type.modifier && to.length().is_none();
            let is_wider = !rounds
                && to.base == sql_type.base
                && (to.base != BaseType::Bit || to.modifier == sql_type.modifier)
                && to.length().is_none_or(|length| sql_type.length().is_some_and(|before| before <= length))
                || to.base.is_text() && to.length().is_none() && sql_type.base.is_text();
            let is_int = |held| matches!(held, quipu_rows::DataType::I16 | quipu_rows::DataType::I32);
            let widens = is_int(from_held) && held == quipu_rows::DataType::I64
                || from_held == quipu_rows::DataType::I16 && held == quipu_rows::DataType::I32;
            if using.is_none() && (is_wider && from_held == held || widens) {
                definitions.alter_column_type(rows_name, &name, keeps, None)?;
                return default.map_or(Ok(()), |default| set_default(ddl, rows_name, &name, &default));
            }
            let evaluator = ddl.context.evaluator;
            if using.is_none() && !can_cast(sql_type.without_domain(), to.without_domain(), CastContext::Assignment) {
                let what = format!("column \"{name}\" cannot be cast automatically to type {to}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what)
                    .with_hint(format!("You might need to specify \"USING {name}::{to}\".")));
            }
            let convert = |row: &RowView<'_>, value: &Value<'_>| {
                let converted = match using {
                    Some(using) => evaluator.evaluate(using, to, Some((table, row))),
                    None if value.is_null() => Ok(Value::Null),
                    None => evaluator.convert(value, sql_type, to),
                };
                converted.map_err(into_rows)
            };
            definitions.alter_column_type(rows_name, &name, keeps, Some(&convert))?;
            default.map_or(Ok(()), |default| set_default(ddl, rows_name, &name, &default))
        }
    }
}
