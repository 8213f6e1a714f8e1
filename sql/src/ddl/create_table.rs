//! CREATE TABLE.

use quipu_rows::TableSchema;
use sqlparser::ast::{CreateTable, CreateTableLikeDefaults, CreateTableLikeKind};

use crate::catalogue::{Owner, Sequence};
use crate::ddl::constraint::{self, Declared, Parts};
use crate::ddl::{Ddl, Tag, column, names, relation_exists};
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

pub(super) fn create(ddl: &Ddl<'_>, create: &CreateTable) -> Result<Tag> {
    if create.temporary || create.inherits.is_some() || create.partition_by.is_some() || create.partition_of.is_some() {
        let hint = "Create a table without TEMPORARY, INHERITS and PARTITION.";
        return Err(SqlError::unsupported("temporary, inherited and partitioned tables are not supported", hint));
    }
    let (schema_name, name) = ddl.new_name(&names::qualified(&create.name)?)?;
    let catalogue = ddl.catalogue()?;
    if catalogue.relation(Some(&schema_name), &name, &[]).is_some() {
        if create.if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok("CREATE TABLE");
        }
        return Err(relation_exists(&name));
    }
    let mut schema = TableSchema::new(catalogue.rows_name(&schema_name, &name));
    let (mut parts, mut numbered) = (Parts::default(), Vec::new());
    copy_like(ddl, create, &mut schema)?;
    for def in &create.columns {
        let new = column::read(def, &mut parts)?;
        if schema.place(&new.column.name).is_some() {
            let what = format!("column \"{}\" specified more than once", new.column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
        }
        if new.column.identity.is_some() {
            numbered.push((new.column.name.clone(), new.sql_type, new.start, new.is_serial));
        }
        schema.columns.push(new.column);
    }
    for constraint in &create.constraints {
        parts.add_table(constraint)?;
    }
    add_constraints(ddl, &mut schema, &name, &parts)?;
    ddl.definitions().create_table(&schema)?;
    for (column, sql_type, start, is_serial) in numbered {
        own_sequence(ddl, (&schema_name, &name), &schema.table, (&column, sql_type, start, is_serial))?;
    }
    Ok("CREATE TABLE")
}

fn copy_like(ddl: &Ddl<'_>, create: &CreateTable, schema: &mut TableSchema) -> Result<()> {
    let Some(CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) = &create.like else {
        return Ok(());
    };
    let source = ddl.table(&names::qualified(&like.name)?)?;
    let has_defaults = matches!(like.defaults, Some(CreateTableLikeDefaults::Including));
    for column in source.declared.columns.iter().filter(|column| !column.hidden) {
        let mut column = column.clone();
        column.identity = None;
        if !has_defaults {
            (column.default, column.sql_default) = (None, None);
        }
        schema.columns.push(column);
    }
    Ok(())
}

/// Adds all constraints to the schema of a new table: keys first, to which foreign keys of the table may refer.
fn add_constraints(ddl: &Ddl<'_>, schema: &mut TableSchema, name: &str, parts: &Parts) -> Result<()> {
    for (given, declared) in &parts.constraints {
        match declared {
            Declared::PrimaryKey(_) if !schema.key.is_empty() => {
                let what = format!("multiple primary keys for table \"{name}\" are not allowed");
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
            }
            Declared::PrimaryKey(columns) => {
                schema.key = constraint::primary_key(schema, name, columns)?;
                schema.key_name = Some(given.clone().unwrap_or_else(|| names::make(name, "", "pkey")));
            }
            Declared::Unique(columns) => {
                let index = constraint::unique(schema, name, given, columns)?;
                schema.indexes.push(index);
            }
            _ => {}
        }
    }
    for (given, declared) in &parts.constraints {
        match declared {
            Declared::Check(condition, column) => {
                let check = constraint::check(schema, name, given, (condition, column.as_deref()))?;
                schema.checks.push(check);
            }
            Declared::ForeignKey(columns, declared) => {
                let foreign_key = constraint::foreign_key(ddl, schema, name, given, (columns, declared))?;
                schema.foreign_keys.push(foreign_key);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives an identity column the sequence by which PostgreSQL's functions know its numbers.
pub(super) fn own_sequence(
    ddl: &Ddl<'_>,
    (schema, table): (&str, &str),
    rows_name: &str,
    (column, sql_type, start, is_serial): (&str, SqlType, Option<i64>, bool),
) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    let is_taken = |name: &str| catalogue.relation(Some(schema), name, &[]).is_some();
    let name = names::choose(table, column, "seq", is_taken);
    let in_rows = ddl.transaction.table(rows_name)?;
    let place = in_rows.schema().place(column);
    let owner = place.and_then(|place| in_rows.column_number(place));
    let owner = owner.map(|column| Owner { table: in_rows.number(), column });
    let start = start.unwrap_or(1);
    let sequence = Sequence { owner, is_identity: true, is_serial, start, ..Sequence::new(schema, name, sql_type) };
    ddl.store().put_sequence(ddl.transaction, None, &sequence)?;
    if start != 1 {
        ddl.definitions().set_next_number(rows_name, column, start.into())?;
    }
    Ok(())
}
