//! DROP and TRUNCATE.

use std::sync::Arc;

use quipu_rows::IndexSchema;
use sqlparser::ast::{CascadeOption, ObjectName, Truncate, TruncateIdentityOption};

use crate::catalogue::names_in_rows::PUBLIC;
use crate::catalogue::readers::Reader;
use crate::catalogue::sequences::Position;
use crate::catalogue::system::source::is_of_foreign_key;
use crate::catalogue::{ObjectNumber, Relation, Table};
use crate::ddl::types::drop_type;
use crate::ddl::{Ddl, Tag, names, no_relation, no_schema, not_a_table, sequence};
use crate::error::{Result, SqlError, SqlState};
use crate::locks::mode::LockMode;

/// How something is dropped.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) if_exists: bool,
    pub(super) cascade: bool,
}

/// The error, or with IF EXISTS the notice, of something that is not there.
fn missing(ddl: &Ddl<'_>, kind: &str, name: &names::Name, how: How) -> Result<()> {
    if how.if_exists {
        ddl.notice(format!("{kind} \"{name}\" does not exist, skipping"));
        return Ok(());
    }
    let state = if kind == "index" { SqlState::UNDEFINED_OBJECT } else { SqlState::UNDEFINED_TABLE };
    Err(SqlError::new(state, format!("{kind} \"{name}\" does not exist")))
}

/// The error of something that is of another kind, with the statement that drops it.
#[cold]
fn wrong_kind(name: &names::Name, found: &Relation, kind: &str) -> SqlError {
    let (article, is) = match found {
        Relation::Table(table) if table.materialized.is_some() => ("a", "materialized view"),
        Relation::Table(_) => ("a", "table"),
        Relation::View(..) => ("a", "view"),
        Relation::Index(..) | Relation::PrimaryKey(_) => ("an", "index"),
        Relation::Sequence(..) => ("a", "sequence"),
    };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not {kind}", name.name))
        .with_hint(format!("Use DROP {} to remove {article} {is}.", is.to_uppercase()))
}

#[cold]
pub(super) fn depended(what: &str, detail: String) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .with_detail(detail)
    .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

pub(super) fn drop_tables(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    drop_of_kind(ddl, dropped, how, ("table", "a table"), false)?;
    Ok("DROP TABLE")
}

pub(super) fn drop_materialized(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    drop_of_kind(ddl, dropped, how, ("materialized view", "a materialized view"), true)?;
    Ok("DROP MATERIALIZED VIEW")
}

fn drop_of_kind(
    ddl: &Ddl<'_>,
    dropped: &[ObjectName],
    how: How,
    (kind, a_kind): (&str, &str),
    is_materialized: bool,
) -> Result<()> {
    let mut tables = Vec::new();
    for name in dropped {
        let name = names::qualified(name)?;
        match ddl.relation(&name)? {
            Some(Relation::Table(table)) if table.materialized.is_some() == is_materialized => tables.push(table),
            Some(found) => return Err(wrong_kind(&name, &found, a_kind)),
            None => missing(ddl, kind, &name, how)?,
        }
    }
    drop_all(ddl, &tables, how)
}

/// Drops tables with what belongs to them: constraints between them and to them, sequences of their columns.
fn drop_all(ddl: &Ddl<'_>, tables: &[Arc<Table>], how: How) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    for table in tables {
        ddl.lock(table, LockMode::AccessExclusive)?;
        for &child in &table.referred_by {
            let Some(child) = catalogue.tables().get(&child) else { continue };
            let keys = child.declared.foreign_keys.iter().zip(&child.refers_to);
            for (key, _) in keys.filter(|(_, parent)| **parent == table.number) {
                let goes_too = tables.iter().any(|other| other.number == child.number);
                if !goes_too && !how.cascade {
                    let detail =
                        format!("constraint {} on table {} depends on table {}", key.name, child.name, table.name);
                    return Err(depended(&format!("table {}", table.name), detail));
                }
                if child.number != table.number {
                    ddl.lock(child, LockMode::AccessExclusive)?;
                    drop_check_or_foreign_key(ddl, child, &key.name)?;
                }
            }
        }
        drop_readers(ddl, (table.kind(), &table.schema, &table.name), |reader| is_among(tables, reader), how)?;
        let owned = catalogue
            .sequences()
            .iter()
            .filter(|(_, sequence)| sequence.owner.is_some_and(|owner| owner.table == table.number));
        for (&number, _) in owned {
            ddl.store().remove_sequence(ddl.transaction, number)?;
        }
    }
    for table in tables {
        // One that reads another of them may have gone with it.
        if ddl.catalogue()?.tables().contains_key(&table.number) {
            ddl.definitions().drop_table(&table.rows_name)?;
            if table.materialized.is_some() {
                ddl.store().set_materialized(ddl.transaction, table.number, None)?;
            }
        }
    }
    Ok(())
}

fn is_among(tables: &[Arc<Table>], reader: &Reader) -> bool {
    matches!(reader, Reader::Materialized(own) if tables.iter().any(|table| table.number == own.number))
}

/// Drops the views that read a relation, but for those that `goes` anyway; fails if there are such, unless all goes.
pub(super) fn drop_readers(
    ddl: &Ddl<'_>,
    (kind, schema, name): (&str, &str, &str),
    goes: impl Fn(&Reader) -> bool,
    how: How,
) -> Result<()> {
    for reader in ddl.catalogue()?.readers(schema, name) {
        let now = ddl.catalogue()?;
        if goes(&reader) || !reader.is_in(&now) {
            continue;
        }
        if !how.cascade {
            let detail = format!("{} {} depends on {kind} {name}", reader.kind(), reader.name());
            return Err(depended(&format!("{kind} {name}"), detail));
        }
        drop_reader(ddl, &reader, how)?;
    }
    Ok(())
}

/// Drops a view because something that it reads goes.
pub(super) fn drop_reader(ddl: &Ddl<'_>, reader: &Reader, how: How) -> Result<()> {
    ddl.notice(format!("drop cascades to {} {}", reader.kind(), reader.name()));
    match reader {
        Reader::View(number, _) => ddl.store().remove_view(ddl.transaction, *number),
        Reader::Materialized(table) => drop_all(ddl, std::slice::from_ref(table), how),
    }
}

pub(super) fn drop_views(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    let mut views = Vec::new();
    for name in dropped {
        let name = names::qualified(name)?;
        match ddl.relation(&name)? {
            Some(Relation::View(number, view)) => views.push((number, view)),
            Some(found) => return Err(wrong_kind(&name, &found, "a view")),
            None => missing(ddl, "view", &name, how)?,
        }
    }
    let numbers: Vec<ObjectNumber> = views.iter().map(|(number, _)| *number).collect();
    for (_, view) in &views {
        let goes = |reader: &Reader| matches!(reader, Reader::View(number, _) if numbers.contains(number));
        drop_readers(ddl, ("view", &view.schema, &view.name), goes, how)?;
    }
    for number in numbers {
        ddl.store().remove_view(ddl.transaction, number)?;
    }
    Ok("DROP VIEW")
}

/// Drops an index. Foreign keys that have only this one get one of their own.
pub(super) fn drop_index(ddl: &Ddl<'_>, table: &Table, name: &str) -> Result<()> {
    ddl.definitions().relieve_index(&table.rows_name, Some(name))?;
    Ok(ddl.definitions().drop_index(&table.rows_name, name)?)
}

/// Drops a check or a foreign key, with the index that rows have made for it.
pub(super) fn drop_check_or_foreign_key(ddl: &Ddl<'_>, table: &Table, name: &str) -> Result<()> {
    ddl.definitions().drop_constraint(&table.rows_name, name)?;
    let is_its = |index: &&IndexSchema| index.name == format!("{name}_index") && is_of_foreign_key(table, index);
    match table.declared.indexes.iter().find(is_its) {
        Some(index) => drop_index(ddl, table, &index.name),
        None => Ok(()),
    }
}

pub(super) fn drop_indexes(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    for name in dropped {
        let name = names::qualified(name)?;
        match ddl.relation(&name)? {
            Some(Relation::Index(table, place)) => {
                ddl.lock(&table, LockMode::AccessExclusive)?;
                let index = &table.declared.indexes[place];
                if index.constraint {
                    let (index, table) = (&index.name, &table.name);
                    let what =
                        format!("cannot drop index {index} because constraint {index} on table {table} requires it");
                    return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                        .with_hint(format!("You can drop constraint {index} on table {table} instead.")));
                }
                drop_index(ddl, &table, &index.name)?;
            }
            Some(found) => return Err(wrong_kind(&name, &found, "an index")),
            None => missing(ddl, "index", &name, how)?,
        }
    }
    Ok("DROP INDEX")
}

pub(super) fn drop_sequences(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    for name in dropped {
        let name = names::qualified(name)?;
        match ddl.relation(&name)? {
            Some(Relation::Sequence(_, sequence)) if sequence.is_identity || sequence.generates.is_some() => {
                let detail = format!("a column depends on sequence {name}");
                return Err(depended(&format!("sequence {name}"), detail));
            }
            Some(Relation::Sequence(number, sequence)) => {
                for (table, column) in sequence::columns_numbered(ddl, &sequence)? {
                    if !how.cascade {
                        let detail = format!(
                            "default value for column {column} of table {} depends on sequence {name}",
                            table.name
                        );
                        return Err(depended(&format!("sequence {name}"), detail));
                    }
                    ddl.definitions().set_sql_default(&table.rows_name, &column, None)?;
                }
                ddl.store().remove_sequence(ddl.transaction, number)?;
            }
            Some(found) => return Err(wrong_kind(&name, &found, "a sequence")),
            None => missing(ddl, "sequence", &name, how)?,
        }
    }
    Ok("DROP SEQUENCE")
}

pub(super) fn drop_schemas(ddl: &Ddl<'_>, dropped: &[ObjectName], how: How) -> Result<Tag> {
    for name in dropped {
        let name = names::qualified(name)?.name;
        ddl.take_schema(&name, false)?;
        let catalogue = ddl.catalogue()?;
        let number = catalogue.schema_number(&name);
        if number.is_none() && name != PUBLIC {
            if how.if_exists {
                ddl.notice(format!("schema \"{name}\" does not exist, skipping"));
                continue;
            }
            return Err(no_schema(&name));
        }
        let within: Vec<&Relation> =
            catalogue.relations().iter().filter(|((schema, _), _)| *schema == name).map(|(_, found)| found).collect();
        let types = catalogue.types().iter().filter(|(_, known)| known.schema == name);
        let types: Vec<_> = types.map(|(&number, known)| (number, Arc::clone(known))).collect();
        let is_empty = within.is_empty() && types.is_empty();
        if !is_empty && !how.cascade {
            return Err(depended(&format!("schema {name}"), format!("there are objects in schema {name}")));
        }
        let mut tables = Vec::new();
        for relation in within {
            match relation {
                Relation::Table(table) => tables.push(Arc::clone(table)),
                Relation::View(number, view) => {
                    drop_readers(ddl, ("view", &view.schema, &view.name), |_| false, how)?;
                    ddl.store().remove_view(ddl.transaction, *number)?;
                }
                Relation::Sequence(number, _) => ddl.store().remove_sequence(ddl.transaction, *number)?,
                _ => {}
            }
        }
        drop_all(ddl, &tables, how)?;
        for (number, known) in types {
            // One that another one is made of may have taken that with it.
            if ddl.catalogue()?.types().contains_key(&number) {
                drop_type(ddl, number, &known, how)?;
            }
        }
        match number {
            Some(number) => ddl.store().remove_schema(ddl.transaction, number)?,
            None => ddl.notice(format!("schema \"{name}\" is always there: it is empty now")),
        }
    }
    Ok("DROP SCHEMA")
}

pub(super) fn truncate(ddl: &Ddl<'_>, truncate: &Truncate) -> Result<Tag> {
    let mut tables: Vec<Arc<Table>> = Vec::new();
    for target in &truncate.table_names {
        let name = names::qualified(&target.name)?;
        match ddl.relation(&name)? {
            Some(Relation::Table(table)) if table.materialized.is_none() => tables.push(table),
            Some(_) => return Err(not_a_table(&name)),
            None => return Err(no_relation(&name)),
        }
    }
    let is_cascade = matches!(truncate.cascade, Some(CascadeOption::Cascade));
    let catalogue = ddl.catalogue()?;
    let mut place = 0;
    while let Some(table) = tables.get(place).cloned() {
        for child in &table.referred_by {
            if tables.iter().any(|other| other.number == *child) {
                continue;
            }
            let Some(child) = catalogue.tables().get(child) else { continue };
            if !is_cascade {
                let what = "cannot truncate a table referenced in a foreign key constraint";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                    .with_detail(format!("Table \"{}\" references \"{}\".", child.name, table.name))
                    .with_hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    )));
            }
            ddl.notice(format!("truncate cascades to table \"{}\"", child.name));
            tables.push(Arc::clone(child));
        }
        place += 1;
    }
    let restarts = matches!(truncate.identity, Some(TruncateIdentityOption::Restart));
    tables.iter().try_for_each(|table| ddl.lock(table, LockMode::AccessExclusive))?;
    let names: Vec<&str> = tables.iter().map(|table| &*table.rows_name).collect();
    ddl.definitions().truncate(&names, restarts)?;
    if restarts {
        ddl.store().write_to_free(ddl.transaction)?;
        for (&number, sequence) in catalogue.sequences() {
            let is_of_these =
                sequence.owner.is_some_and(|owner| tables.iter().any(|table| table.number == owner.table));
            if is_of_these && !sequence.is_identity {
                let sequences = ddl.context.catalogues.sequences();
                let position = Position { last: sequence.start, is_called: false };
                sequences.begin_at(ddl.transaction, (number, sequence), position)?;
            }
        }
    }
    Ok("TRUNCATE TABLE")
}
