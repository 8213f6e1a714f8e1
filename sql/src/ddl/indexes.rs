//! CREATE INDEX, ALTER INDEX.

use quipu_rows::IndexSchema;
use sqlparser::ast::{AlterIndexOperation, CreateIndex, Expr, ObjectName};

use crate::catalogue::Relation;
use crate::ddl::expression::Known;
use crate::ddl::{Ddl, Tag, expression, names, relation_exists};
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;

pub(super) fn create(ddl: &Ddl<'_>, create: &CreateIndex) -> Result<Tag> {
    if let Some((table, index)) = read(ddl, create)? {
        let name = index.name.clone();
        ddl.definitions().create_index(&table, index).map_err(|error| SqlError::of_build(error, &name))?;
    }
    Ok("CREATE INDEX")
}

/// The name in rows of the table of a new index, and its definition. None if it is there and need not be made.
pub(super) fn read(ddl: &Ddl<'_>, create: &CreateIndex) -> Result<Option<(String, IndexSchema)>> {
    let table = ddl.table_or_materialized(&names::qualified(&create.table_name)?)?;
    ddl.lock(&table, LockMode::ShareRowExclusive)?;
    if create.nulls_distinct == Some(false) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT is not supported", "Leave it out."));
    }
    let declared = &table.declared;
    let type_of = |name: &str| declared.place(name).map(|place| table.columns[place].sql_type.without_domain());
    let known = Known { columns: &type_of, types: ddl };
    let (mut columns, mut words) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let is_descending = column.column.options.asc == Some(false);
        // NULLs stand first in ascending order here: that is told apart where rows are read, not where they lie.
        let text = expression::text(&column.column.expr, known)?;
        columns.push(if is_descending { format!("{text} desc") } else { text });
        words.push(match &column.column.expr {
            Expr::Identifier(ident) => names::identifier(ident),
            _ => "expr".to_owned(),
        });
    }
    let catalogue = ddl.catalogue()?;
    let is_taken = |name: &str| catalogue.relation(Some(&table.schema), name, &[]).is_some();
    let name = match &create.name {
        Some(name) => names::qualified(name)?.name,
        None => names::choose(&table.name, &words.join("_"), "idx", is_taken),
    };
    if is_taken(&name) {
        if create.if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok(None);
        }
        return Err(relation_exists(&name));
    }
    let mut index = IndexSchema::new(name, columns).include(create.include.iter().map(names::identifier));
    index.unique = create.unique;
    index.predicate = create.predicate.as_ref().map(|part| expression::text(part, known)).transpose()?;
    Ok(Some((table.rows_name.to_string(), index)))
}

pub(super) fn alter(ddl: &Ddl<'_>, name: &ObjectName, operation: &AlterIndexOperation) -> Result<Tag> {
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let (name, new_name) = (names::qualified(name)?, names::qualified(index_name)?.name);
    let (table, old) = match ddl.relation(&name)? {
        Some(Relation::Index(table, place)) => {
            let old = table.declared.indexes[place].name.clone();
            (table, old)
        }
        Some(Relation::PrimaryKey(table)) => (table, name.name.clone()),
        _ => {
            let what = format!("relation \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, what));
        }
    };
    if ddl.catalogue()?.relation(Some(&table.schema), &new_name, &[]).is_some() {
        return Err(relation_exists(&new_name));
    }
    ddl.lock(&table, LockMode::AccessExclusive)?;
    ddl.definitions().rename_constraint(&table.rows_name, &old, &new_name)?;
    Ok("ALTER INDEX")
}
