//! CREATE TABLE.

use quipu_rows::{Check, Deferral, IndexSchema, TableSchema};
use sqlparser::ast::{CreateTable, DataType};

use crate::catalogue::names_in_rows::is_temporary;
use crate::catalogue::sequences::Position;
use crate::catalogue::{Commented, Owner, Relation, Sequence, Table};
use crate::ddl::constraint::{self, Declared, Parts};
use crate::ddl::options::{Options, check_sum};
use crate::ddl::{Ddl, Tag, column, generated, names, relation_exists, sequence, types};
use crate::error::{Result, SqlError, SqlState};
use crate::known_words::LIKE;
use crate::types::SqlType;

pub(super) fn create(ddl: &Ddl<'_>, create: &CreateTable) -> Result<Tag> {
    if create.inherits.is_some() || create.partition_by.is_some() || create.partition_of.is_some() {
        let hint = "Create a table without INHERITS and PARTITION.";
        return Err(SqlError::unsupported("inherited and partitioned tables are not supported", hint));
    }
    let (schema_name, name) = ddl.new_name(&names::qualified(&create.name)?, create.temporary)?;
    let on_commit = create.on_commit.as_ref().filter(|_| !is_temporary(&schema_name));
    if on_commit.is_some() {
        let what = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
    }
    let catalogue = ddl.catalogue()?;
    if catalogue.relation(Some(&schema_name), &name, &[]).is_some() {
        if create.if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok("CREATE TABLE");
        }
        return Err(relation_exists(&name));
    }
    types::refuse_type(ddl, &schema_name, &name)?;
    let mut schema = TableSchema::new(catalogue.rows_name(&schema_name, &name));
    let (mut parts, mut numbered) = (Parts::default(), Vec::new());
    let (mut own_numbers, mut likes) = (Vec::new(), Vec::new());
    for def in &create.columns {
        if let (LIKE, DataType::Custom(source, options)) = (&*def.name.value, &def.data_type) {
            let source = ddl.table_or_materialized(&names::qualified(source)?)?;
            let like = Like::of(options);
            like.add_columns(ddl, &source, &mut schema, &mut numbered)?;
            own_numbers.extend(like.numbers(ddl, &source)?);
            likes.push((source, like));
            continue;
        }
        let new = column::read(ddl, def, &mut parts)?;
        if schema.place(&new.column.name).is_some() {
            let what = format!("column \"{}\" specified more than once", new.column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
        }
        if new.column.identity.is_some() {
            numbered.push((new.column.name.clone(), new.sql_type, new.start, new.is_serial));
        }
        own_numbers.extend(new.numbers.map(|numbers| (new.column.name.clone(), numbers)));
        schema.columns.push(new.column);
    }
    for constraint in &create.constraints {
        parts.add_table(constraint)?;
    }
    add_constraints(ddl, &mut schema, &name, &parts)?;
    for (source, like) in &likes {
        like.add_constraints(source, &mut schema, &name)?;
    }
    generated::check(&schema, &name)?;
    let options = Options::of_table(&create.table_options)?;
    check_sum(&schema, &name, options.sum.as_deref())?;
    (schema.sum, schema.compressed) = (options.sum, options.is_compressed);
    ddl.definitions().create_table(&schema)?;
    for (column, sql_type, start, is_serial) in numbered {
        own_sequence(ddl, (&schema_name, &name), &schema.table, None, (&column, sql_type, start, is_serial))?;
    }
    for (column, (own, is_always)) in own_numbers {
        let position = Position { last: own.start, is_called: false };
        sequence::give_numbers(ddl, (&schema_name, &name, &schema.table), (&column, is_always), own, position)?;
    }
    for (source, like) in likes.iter().filter(|(_, like)| like.comments) {
        like.add_comments(ddl, source, (&schema_name, &name))?;
    }
    Ok("CREATE TABLE")
}

/// What is taken of another table beside its columns.
#[derive(Default)]
struct Like {
    defaults: bool,
    identity: bool,
    constraints: bool,
    indexes: bool,
    comments: bool,
    generated: bool,
}

impl Like {
    fn of(options: &[String]) -> Like {
        let mut like = Like::default();
        for option in options {
            let Some((kind, of)) = option.split_once(' ') else { continue };
            let is_included = kind == "including";
            match of {
                "all" => {
                    like = Like {
                        defaults: is_included,
                        identity: is_included,
                        constraints: is_included,
                        indexes: is_included,
                        comments: is_included,
                        generated: is_included,
                    }
                }
                "defaults" => like.defaults = is_included,
                "identity" => like.identity = is_included,
                "constraints" => like.constraints = is_included,
                "indexes" => like.indexes = is_included,
                "comments" => like.comments = is_included,
                "generated" => like.generated = is_included,
                _ => {}
            }
        }
        like
    }

    fn add_columns(
        &self,
        ddl: &Ddl<'_>,
        source: &Table,
        schema: &mut TableSchema,
        numbered: &mut Vec<(String, SqlType, Option<i64>, bool)>,
    ) -> Result<()> {
        let catalogue = ddl.catalogue()?;
        for (column, known) in source.declared.columns.iter().zip(&source.columns).filter(|(column, _)| !column.hidden)
        {
            if schema.place(&column.name).is_some() {
                let what = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
            }
            let sequence = catalogue.sequence_of(source.number, known.number).map(|(_, sequence)| sequence);
            let is_serial = sequence.is_some_and(|sequence| sequence.is_serial);
            let mut column = column.clone();
            column.not_null |= source.declared.key.iter().any(|key| key.trim_end_matches(" desc") == column.name);
            if !self.defaults || known.generates.is_some() {
                (column.default, column.sql_default) = (None, None);
            }
            if !self.generated {
                column.generated = None;
            }
            if is_serial && self.defaults {
                let name = sequence
                    .map(|found| {
                        format!("{}.{}", crate::dialect::quoted(&found.schema), crate::dialect::quoted(&found.name))
                    })
                    .unwrap_or_default();
                column.sql_default = Some(format!("nextval('{}')", name.replace('\'', "''")));
            }
            if column.identity.is_some() && (is_serial || !self.identity) {
                column.identity = None;
            }
            if column.identity.is_some() {
                let start = sequence.map(|sequence| sequence.start);
                numbered.push((column.name.clone(), known.sql_type, start, false));
            }
            schema.columns.push(column);
        }
        Ok(())
    }

    /// The sequences of identity columns that have one of their own.
    fn numbers(&self, ddl: &Ddl<'_>, source: &Table) -> Result<Vec<(String, (Sequence, bool))>> {
        let catalogue = ddl.catalogue()?;
        let columns = source.declared.columns.iter().zip(&source.columns).filter(|_| self.identity);
        let numbers = columns.filter_map(|(column, known)| {
            let (_, sequence) = catalogue.sequence_of(source.number, known.number)?;
            let own = Sequence { name: String::new(), owner: None, alterations: 0, ..(**sequence).clone() };
            Some((column.name.clone(), (own, known.generates?)))
        });
        Ok(numbers.collect())
    }

    fn add_constraints(&self, source: &Table, schema: &mut TableSchema, name: &str) -> Result<()> {
        if self.constraints {
            let checks = source.declared.checks.iter().cloned();
            schema.checks.extend(checks.map(|check| Check { not_valid: false, ..check }));
        }
        if !self.indexes {
            return Ok(());
        }
        if source.has_primary_key() && schema.key.is_empty() {
            schema.key.clone_from(&source.declared.key);
            schema.key_name = Some(names::make(name, "", "pkey"));
        }
        for index in &source.declared.indexes {
            let label = if index.constraint { "key" } else { "idx" };
            let columns: Vec<&str> = index
                .columns
                .iter()
                .map(|column| column.trim_end_matches(" desc").trim_matches('"'))
                .map(|column| if source.place(column).is_some() { column } else { "expr" })
                .collect();
            let is_taken = |name: &str| schema.indexes.iter().any(|index| index.name == name);
            let made = match index.primary {
                true => names::choose(name, "", "pkey", is_taken),
                false => names::choose(name, &columns.join("_"), label, is_taken),
            };
            schema.indexes.push(IndexSchema { name: made, ..index.clone() });
        }
        Ok(())
    }

    fn add_comments(&self, ddl: &Ddl<'_>, source: &Table, (schema, name): (&str, &str)) -> Result<()> {
        let catalogue = ddl.catalogue()?;
        let Some(Relation::Table(table)) = catalogue.relation(Some(schema), name, &[]) else { return Ok(()) };
        for (column, known) in source.declared.columns.iter().zip(&source.columns) {
            let comment = catalogue.comment(&Commented::Column(source.number, known.number));
            if let (Some(comment), Some(place)) = (comment, table.place(&column.name)) {
                let on = Commented::Column(table.number, table.columns[place].number);
                ddl.store().set_comment(ddl.transaction, &on, Some(comment))?;
            }
        }
        Ok(())
    }
}

/// Adds all constraints to the schema of a new table: keys first, to which foreign keys of the table may refer.
fn add_constraints(ddl: &Ddl<'_>, schema: &mut TableSchema, name: &str, parts: &Parts) -> Result<()> {
    for (given, declared) in &parts.constraints {
        match declared {
            Declared::PrimaryKey(..) if !schema.key.is_empty() || schema.indexes.iter().any(|index| index.primary) => {
                let what = format!("multiple primary keys for table \"{name}\" are not allowed");
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
            }
            Declared::PrimaryKey(columns, deferral) if *deferral != Deferral::Never => {
                let index = constraint::deferred_primary_key(ddl, schema, name, given, (columns, *deferral))?;
                for column in schema.columns.iter_mut().filter(|column| columns.contains(&column.name)) {
                    column.not_null = true;
                }
                schema.indexes.push(index);
            }
            Declared::PrimaryKey(columns, _) => {
                schema.key = constraint::primary_key(ddl, schema, name, columns)?;
                schema.key_name = Some(given.clone().unwrap_or_else(|| names::make(name, "", "pkey")));
            }
            Declared::Unique(declared) => {
                let index = constraint::unique(ddl, schema, name, given, declared)?;
                schema.indexes.push(index);
            }
            _ => {}
        }
    }
    for (given, declared) in &parts.constraints {
        match declared {
            Declared::Check(condition, column) => {
                let check = constraint::check(ddl, schema, name, given, (condition, column.as_deref()))?;
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
    name: Option<String>,
    (column, sql_type, start, is_serial): (&str, SqlType, Option<i64>, bool),
) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    let is_taken = |name: &str| catalogue.relation(Some(schema), name, &[]).is_some();
    let name = name.unwrap_or_else(|| names::choose(table, column, "seq", is_taken));
    ddl.take_name(schema, &name)?;
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
