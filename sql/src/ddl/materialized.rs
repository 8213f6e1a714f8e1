//! CREATE, ALTER and REFRESH MATERIALIZED VIEW: what one is, and the table of its rows. Those are computed by the
//! session.

use std::sync::Arc;

use sqlparser::ast::{
    AlterTableOperation, CreateTableOptions, CreateView, RenameTableNameKind, SetExpr, SqlOption, Statement,
};

use crate::alteration::{Change, Refresh};
use crate::bind::merge::changes_rows;
use crate::catalogue::names_in_rows::is_temporary;
use crate::catalogue::readers::Reader;
use crate::catalogue::{Materialized, Relation, Table};
use crate::ddl::alter_table::{check_readers, one, place};
use crate::ddl::alterations::{free_name, move_table, new_schema, refuse_read};
use crate::ddl::{Ddl, create_table, names, no_relation, relation_exists, types};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::known_words::NO_DATA;
use crate::locks::mode::LockMode;

/// Rows that a materialized view shall have.
pub struct Filling {
    /// The table that takes them, by its name in rows.
    pub table: String,
    /// The query that gives them; none if there shall be none.
    pub query: Option<String>,
    /// The schemas in which names in it are looked for.
    pub path: Vec<String>,
}

/// Whether a materialized view is created with its rows.
pub fn has_data(create: &CreateView) -> bool {
    let CreateTableOptions::With(options) = &create.options else { return true };
    !options.iter().any(|option| matches!(option, SqlOption::KeyValue { key, .. } if key.value == NO_DATA))
}

/// Creates a materialized view without its rows. None if it is there and need not be made.
pub(super) fn create(ddl: &Ddl<'_>, create: &CreateView) -> Result<Option<Filling>> {
    if create.or_replace {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"MATERIALIZED\""));
    }
    if matches!(*create.query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a materialized view is made of a query"));
    }
    if changes_rows(&create.query) {
        let what = "materialized views must not use data-modifying statements in WITH";
        return Err(SqlError::unsupported(what, "Change the rows by a statement of its own."));
    }
    let path = ddl.context.search_path;
    let (schema, name) = ddl.new_name(&names::qualified(&create.name)?, false)?;
    if ddl.catalogue()?.relation(Some(&schema), &name, &[]).is_some() {
        if create.if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok(None);
        }
        return Err(relation_exists(&name));
    }
    types::refuse_type(ddl, &schema, &name)?;
    let evaluator = ddl.context.evaluator;
    let reads = evaluator.reads(&create.query, path)?;
    if is_temporary(&schema) || reads.iter().any(|(schema, _)| is_temporary(schema)) {
        let what = "materialized views must not use temporary tables or views";
        return Err(SqlError::unsupported(what, "Create a temporary table of the query."));
    }
    let columns = evaluator.columns(&create.query, path)?;
    if create.columns.len() > columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    let mut given = create.columns.iter().map(|column| folded(&column.name));
    let column = |(name, sql_type): &(String, _)| {
        format!("{} {sql_type}", crate::dialect::quoted(&given.next().unwrap_or_else(|| name.clone())))
    };
    let list = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    let quoted = format!("{}.{}", crate::dialect::quoted(&schema), crate::dialect::quoted(&name));
    for statement in crate::statement::parse(&format!("CREATE TABLE {quoted} ({list})"))? {
        if let Statement::CreateTable(create) = &statement.tree {
            create_table::create(ddl, create)?;
        }
    }
    let Some(Relation::Table(table)) = ddl.catalogue()?.relation(Some(&schema), &name, &[]).cloned() else {
        return Err(no_relation(&names::Name { schema: Some(schema), name }));
    };
    let materialized = Materialized {
        query: evaluator.without_stars(&create.query, path)?,
        columns: columns.into_iter().map(|(name, _)| name).collect(),
        search_path: path.iter().filter(|schema| !is_temporary(schema)).cloned().collect(),
        reads,
        is_populated: has_data(create),
    };
    ddl.store().set_materialized(ddl.transaction, table.number, Some(&materialized))?;
    Ok(Some(filling(&table, &materialized)))
}

fn filling(table: &Table, materialized: &Materialized) -> Filling {
    Filling {
        table: table.rows_name.clone(),
        query: materialized.is_populated.then(|| materialized.filling()),
        path: materialized.search_path.clone(),
    }
}

/// Takes the rows of a materialized view away, so that it can be filled anew.
pub(super) fn refresh(ddl: &Ddl<'_>, name: &names::Name, refresh: Refresh) -> Result<Filling> {
    let (table, materialized) = named(ddl, name)?;
    let Refresh { is_concurrent, has_data } = refresh;
    if is_concurrent && !has_data {
        let what = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    }
    ddl.lock(&table, if is_concurrent { LockMode::Exclusive } else { LockMode::AccessExclusive })?;
    if is_concurrent {
        refuse_concurrent(&table, &materialized)?;
    }
    ddl.definitions().truncate(&[&table.rows_name], false)?;
    let refreshed = Materialized { is_populated: has_data, ..(*materialized).clone() };
    if refreshed != *materialized {
        ddl.store().set_materialized(ddl.transaction, table.number, Some(&refreshed))?;
    }
    Ok(filling(&table, &refreshed))
}

/// Fails without a unique index of all rows: by one PostgreSQL finds what has changed, so programs expect the error.
fn refuse_concurrent(table: &Table, materialized: &Materialized) -> Result<()> {
    if !materialized.is_populated {
        let what = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    let is_column = |text: &String| table.place(&crate::catalogue::shape::column_name(text)).is_some();
    let indexes = &table.declared.indexes;
    if !indexes.iter().any(|index| index.unique && index.predicate.is_none() && index.columns.iter().all(is_column)) {
        let what = format!("cannot refresh materialized view \"{}.{}\" concurrently", table.schema, table.name);
        let hint = "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what).with_hint(hint));
    }
    Ok(())
}

fn named(ddl: &Ddl<'_>, name: &names::Name) -> Result<(Arc<Table>, Arc<Materialized>)> {
    match ddl.relation(name)? {
        Some(Relation::Table(table)) if table.materialized.is_some() => match table.materialized.clone() {
            Some(materialized) => Ok((table, materialized)),
            None => Err(no_relation(name)),
        },
        Some(_) => {
            let what = format!("\"{}\" is not a materialized view", name.name);
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
        }
        None => Err(no_relation(name)),
    }
}

/// One change of ALTER MATERIALIZED VIEW, or of an ALTER TABLE that names one.
pub(super) fn alter(ddl: &Ddl<'_>, table: &Arc<Table>, change: &Change) -> Result<()> {
    let rename = |old, new| AlterTableOperation::RenameColumn { old_column_name: old, new_column_name: new };
    match change {
        Change::Known(operation) => alter_known(ddl, table, operation),
        Change::Rename(name) => {
            let name = folded(name);
            free_name(ddl, &table.schema, &name)?;
            refuse_read(ddl, table.kind(), (&table.schema, &table.name))?;
            let new = ddl.catalogue()?.rows_name(&table.schema, &name);
            Ok(ddl.definitions().rename_table(&table.rows_name, &new)?)
        }
        Change::RenameColumn(old, new) => alter_known(ddl, table, &rename(old.clone(), new.clone())),
        Change::SetSchema(schema) => move_table(ddl, table, &new_schema(ddl, schema)?),
        Change::Nothing => Ok(()),
        _ => Err(refused("this change", table)),
    }
}

/// One change of an ALTER TABLE that names a materialized view.
pub(super) fn alter_known(ddl: &Ddl<'_>, table: &Arc<Table>, operation: &AlterTableOperation) -> Result<()> {
    match operation {
        AlterTableOperation::RenameColumn { old_column_name, .. } => {
            place(table, old_column_name)?;
            one(ddl, table, operation)?;
            check_readers(ddl, table, operation)
        }
        AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(_) | RenameTableNameKind::As(_) } => {
            refuse_read(ddl, table.kind(), (&table.schema, &table.name))?;
            one(ddl, table, operation)
        }
        AlterTableOperation::OwnerTo { .. } => Ok(()),
        other => {
            let text = other.to_string();
            let action = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            Err(refused(&action, table))
        }
    }
}

#[cold]
fn refused(action: &str, table: &Table) -> SqlError {
    let what = format!("ALTER action {action} cannot be performed on relation \"{}\"", table.name);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, what)
        .with_detail("This operation is not supported for materialized views.")
}

/// Whether the rows of a reader's query would be of other types than those that it keeps.
pub(super) fn has_other_types(ddl: &Ddl<'_>, reader: &Reader) -> Result<bool> {
    let Reader::Materialized(table) = reader else { return Ok(false) };
    let (query, path) = reader.query();
    let columns = ddl.context.evaluator.columns(&crate::statement::parse_query(&query)?, path)?;
    let kept = table.declared.columns.iter().zip(&table.columns).filter(|(column, _)| !column.hidden);
    Ok(!kept.map(|(_, known)| known.sql_type).eq(columns.into_iter().map(|(_, sql_type)| sql_type)))
}
