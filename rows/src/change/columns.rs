//! Columns added, dropped, renamed, with other defaults. None of these touches a row.

use quipu::{ReadableTable, Result};

use crate::catalogue::engine_tables;
use crate::catalogue::store;
use crate::change::definitions::{Definitions, is_collated};
use crate::definition::document::Document;
use crate::definition::table::{ColumnDefinition, TableDefinition};
use crate::expression::{ColumnName, Expression, parse, quoted};
use crate::schema::column::Column;
use crate::schema::constraint::{Constraint, Violation};
use crate::schema::table::{TableSchema, key_name};
use crate::schema::{check_name, invalid};
use crate::value::{Value, collation};

impl Definitions<'_> {
    /// Adds a column. Rows that there are have its default.
    pub(crate) fn add_column(&self, table: &str, column: Column) -> Result<()> {
        self.add_column_with(table, column, None)
    }

    /// Adds a column. Rows that there are have this value in it, or its default.
    pub(crate) fn add_column_with(&self, table: &str, mut column: Column, value: Option<&Value<'_>>) -> Result<()> {
        column.not_null |= column.identity.is_some();
        self.change_table(table, |draft| {
            let number = draft.document.next_column;
            draft.document.next_column += 1;
            let (name, data_type) = (column.name.clone(), column.data_type);
            let needs_value = column.not_null && has_rows(self, &draft.document)?;
            if needs_value && column.identity.is_some() {
                return Err(invalid(format!("table {table} has rows, which have no number in column {name}")));
            }
            draft.document.schema.columns.push(column);
            draft.document.columns.push(number);
            if is_collated(&draft.document) {
                draft.document.collation.get_or_insert_with(|| collation::VERSION.to_owned());
            }
            draft.document.update_layout();
            let ready = self.ready(draft)?;
            self.begin_numbers(&ready)?;
            let default = value.unwrap_or(&ready.columns[ready.columns.len() - 1].default);
            if default.is_null() {
                if needs_value {
                    let what =
                        format!("table {table} has rows, which have no value in column {name}: give it a default");
                    let broken = Violation::new(Constraint::NotNull, table, what);
                    return Err(Violation { column: Some(name), ..broken }.into_error());
                }
            } else {
                draft.document.missing.insert(number, data_type.to_text(default).into_owned());
            }
            Ok(())
        })
    }

    /// Drops a column.
    pub(crate) fn drop_column(&self, table: &str, name: &str) -> Result<()> {
        self.change_table(table, |draft| {
            let ready = self.ready(draft)?;
            let place = ready.place(name)?;
            let mut users = users_of(&ready, place);
            for &child in &draft.document.referenced_by {
                let child = self.draft_of(child)?.document;
                let referring = child.schema.foreign_keys.iter().zip(&child.foreign_tables);
                let referring = referring.filter(|(foreign_key, parent)| {
                    **parent == draft.number && foreign_key.references.iter().any(|column| column == name)
                });
                users.extend(referring.map(|(foreign_key, _)| {
                    format!("the foreign key {} of table {}", foreign_key.name, child.schema.table)
                }));
            }
            if !users.is_empty() {
                let users = users.join(", ");
                return Err(invalid(format!(
                    "column {name} of table {table} cannot be dropped: it is used by {users}"
                )));
            }
            draft.document.schema.columns.remove(place);
            let number = draft.document.columns.remove(place);
            draft.document.missing.remove(&number);
            self.end_numbers(draft.number, Some(number))?;
            Ok(())
        })
    }

    /// Gives a column another name.
    pub(crate) fn rename_column(&self, table: &str, name: &str, new_name: &str) -> Result<()> {
        check_name("a column", new_name)?;
        self.change_table(table, |draft| {
            let ready = self.ready(draft)?;
            let place = ready.place(name)?;
            if name == new_name {
                return Ok(());
            }
            if ready.columns.iter().any(|column| column.declared.name == new_name) {
                return Err(invalid(format!("table {table} has a column {new_name} already")));
            }
            let names: Vec<ColumnName<'_>> = ready.columns.iter().map(ColumnDefinition::as_name).collect();
            let schema = &mut draft.document.schema;
            rename_in_schema(schema, &names, place, new_name)?;
            let rename = |column: &mut String| {
                if *column == name {
                    new_name.clone_into(column);
                }
            };
            let refers_to = draft.document.foreign_tables.clone();
            for (foreign_key, parent) in schema.foreign_keys.iter_mut().zip(&refers_to) {
                foreign_key.columns.iter_mut().for_each(rename);
                if *parent == draft.number {
                    foreign_key.references.iter_mut().for_each(rename);
                }
            }
            for pending in &mut draft.document.unvalidated {
                pending.rename_column(name, new_name);
            }
            for &child in draft.document.referenced_by.iter().filter(|&&child| child != draft.number) {
                let mut child = self.draft_of(child)?;
                let parents = child.document.foreign_tables.clone();
                for (foreign_key, parent) in child.document.schema.foreign_keys.iter_mut().zip(&parents) {
                    if *parent == draft.number {
                        foreign_key.references.iter_mut().for_each(rename);
                    }
                }
                self.put(&mut child)?;
            }
            Ok(())
        })
    }

    /// Gives a column another default, or none. Rows that there are keep their values.
    pub(crate) fn set_default(&self, table: &str, name: &str, default: Option<String>) -> Result<()> {
        self.change_table(table, |draft| {
            let place = self.ready(draft)?.place(name)?;
            let declared = &mut draft.document.schema.columns[place];
            (declared.default, declared.sql_default) = (default, None);
            Ok(())
        })
    }
}

/// Whether a table has rows.
fn has_rows(definitions: &Definitions<'_>, document: &Document) -> Result<bool> {
    let tree = engine_tables::open(definitions.transaction, &store::tree_name(document.tree))?;
    Ok(!definitions.transaction.relying_tree(&tree)?.is_empty()?)
}

/// Gives a column another name where the schema names it, but for foreign keys.
fn rename_in_schema(schema: &mut TableSchema, names: &[ColumnName<'_>], place: usize, new_name: &str) -> Result<()> {
    let name = names[place].name;
    let new_text = |text: &str| renamed(text, names, place, new_name);
    schema.columns[place].name = new_name.to_owned();
    let rename = |column: &mut String| {
        if *column == name {
            new_name.clone_into(column);
        }
    };
    for key in &mut schema.key {
        if key_name(key) == name {
            let direction = key.trim()[name.len()..].to_owned();
            *key = format!("{new_name}{direction}");
        }
    }
    schema.sum.iter_mut().for_each(rename);
    for index in &mut schema.indexes {
        index.include.iter_mut().for_each(rename);
        index.sum.iter_mut().for_each(rename);
        for column in &mut index.columns {
            *column = new_text(column)?;
        }
        if let Some(predicate) = &mut index.predicate {
            *predicate = new_text(predicate)?;
        }
    }
    for check in &mut schema.checks {
        check.condition = new_text(&check.condition)?;
    }
    Ok(())
}

/// An expression, or a list of them, with another name of a column.
fn renamed(text: &str, names: &[ColumnName<'_>], place: usize, new_name: &str) -> Result<String> {
    let name_of = |other: usize| if other == place { new_name.to_owned() } else { names[other].name.to_owned() };
    let list = parse::ordered_list(text, names).map_err(invalid)?;
    let mut texts = Vec::new();
    for (node, is_descending) in list {
        let text = match Expression::check(node, names).map_err(invalid)? {
            expression if expression.as_column().is_some() => {
                quoted(&name_of(expression.as_column().unwrap_or_default()))
            }
            expression => expression.text(&name_of),
        };
        texts.push(if is_descending { format!("{text} desc") } else { text });
    }
    Ok(texts.join(", "))
}

/// What uses a column, in words.
fn users_of(definition: &TableDefinition, place: usize) -> Vec<String> {
    let mut users = Vec::new();
    if definition.primary.places.contains(&place) {
        users.push("the primary key".to_owned());
    }
    if definition.sum == Some(place) {
        users.push("the sum of the table".to_owned());
    }
    for index in definition.indexes.iter().filter(|index| index.reads.contains(&place)) {
        users.push(format!("the index {}", index.declared.name));
    }
    for check in definition.checks.iter().filter(|check| check.reads.contains(&place)) {
        users.push(format!("the check {}", check.declared.name));
    }
    for foreign_key in definition.foreign_keys.iter().filter(|foreign_key| foreign_key.columns.contains(&place)) {
        users.push(format!("the foreign key {}", foreign_key.declared.name));
    }
    users
}
