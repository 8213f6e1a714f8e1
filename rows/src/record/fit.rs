//! Compares a table with a declaration: that in a struct, or a schema.
//!
//! Expressions are compared by their meaning, not by their text: a table has the text that was given or, after a column
//! was renamed, the text that this program writes. Checks and foreign keys may have other names than in the struct: the
//! derive makes a name from that of a column, which may have been renamed. Indexes may not, because programs use the
//! names of indexes.

use std::fmt::Display;

use crate::expression::{ColumnName, Expression, parse};
use crate::record::Record;
use crate::schema::constraint::ForeignKey;
use crate::schema::index::IndexSchema;
use crate::schema::invalid;
use crate::schema::table::{TableSchema, is_descending, key_name};

/// Fails unless rows of a table that is declared so can be read and written as a struct.
///
/// The table may have more: columns that rows need not bring, indexes and constraints.
///
/// # Errors
/// [`Invalid`](quipu::ErrorKind::Invalid) with all that differs.
pub(crate) fn check<R: Record>(found: &TableSchema) -> quipu::Result<()> {
    let name = std::any::type_name::<R>();
    let name = name.rsplit("::").next().unwrap_or(name);
    check_against(&R::schema(), found, &format!("the struct {name}"), "the struct")
}

/// Fails unless a table fits a declaration, as that of a struct does: it may have more.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn check_schema(declared: &TableSchema, found: &TableSchema) -> quipu::Result<()> {
    check_against(declared, found, "the declaration", "the declaration")
}

fn check_against(declared: &TableSchema, found: &TableSchema, name: &str, whose: &str) -> quipu::Result<()> {
    let differences = differences(&declared.completed(), found, whose);
    if differences.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("table {} does not fit {name}: {}", found.table, differences.join("; "))))
}

/// What a table lacks, or has otherwise. Both schemas are complete.
fn differences(declared: &TableSchema, found: &TableSchema, whose: &str) -> Vec<String> {
    let (declared, found) = (&canonical(declared), &canonical(found));
    let mut differences = Vec::new();
    for column in &declared.columns {
        match found.columns.iter().find(|other| other.name == column.name) {
            Some(other) if other == column => {}
            Some(other) => differences.push(differs(&format!("column {}", column.name), other, column, whose)),
            None => differences.push(format!("it has no column `{column}`")),
        }
    }
    for column in &found.columns {
        let is_needed = column.not_null && column.default.is_none() && column.identity.is_none();
        if is_needed && !declared.columns.iter().any(|other| other.name == column.name) {
            differences.push(format!("its rows need a value of column `{column}`, and {whose} does not have it"));
        }
    }
    let key = |schema: &TableSchema| {
        let parts = schema.key.iter().map(|text| (key_name(text).to_owned(), is_descending(text)));
        parts.collect::<Vec<_>>()
    };
    if key(declared) != key(found) {
        differences.push(differs("the primary key", &found.key.join(", "), &declared.key.join(", "), whose));
    }
    if declared.sum.is_some() && declared.sum != found.sum {
        let kept = |schema: &TableSchema| schema.sum.clone().unwrap_or_else(|| "none".to_owned());
        differences.push(differs("the column whose sums are kept", &kept(found), &kept(declared), whose));
    }
    differences.extend(index_differences(declared, found, whose));
    differences.extend(constraint_differences(declared, found, whose));
    differences
}

fn index_differences(declared: &TableSchema, found: &TableSchema, whose: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for index in &declared.indexes {
        match found.indexes.iter().find(|other| other.name == index.name) {
            Some(other) if other == index => {}
            Some(other) => differences.push(differs(&format!("index {}", index.name), other, index, whose)),
            None => {
                let is_same =
                    |other: &&IndexSchema| IndexSchema { name: index.name.clone(), ..(*other).clone() } == *index;
                let same = found.indexes.iter().find(is_same).map(|other| &other.name);
                let same = same.map(|name| format!(", but `{name}` is that: rename it")).unwrap_or_default();
                differences.push(format!("it has no index `{index}`{same}"));
            }
        }
    }
    differences
}

fn constraint_differences(declared: &TableSchema, found: &TableSchema, whose: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for check in &declared.checks {
        match found.checks.iter().find(|other| other.name == check.name) {
            Some(other) if other == check => {}
            Some(other) => {
                differences.push(differs(&format!("check {}", check.name), &other.condition, &check.condition, whose));
            }
            None if found.checks.iter().any(|other| other.condition == check.condition) => {}
            None => differences.push(format!("it has no check {} `{}`", check.name, check.condition)),
        }
    }
    for foreign_key in &declared.foreign_keys {
        let wanted = foreign_key_text(foreign_key, foreign_key);
        match found.foreign_keys.iter().find(|other| other.name == foreign_key.name) {
            Some(other) if foreign_key_text(other, foreign_key) == wanted => {}
            Some(other) => {
                let found = foreign_key_text(other, foreign_key);
                differences.push(differs(&format!("foreign key {}", foreign_key.name), &found, &wanted, whose));
            }
            None if found.foreign_keys.iter().any(|other| foreign_key_text(other, foreign_key) == wanted) => {}
            None => differences.push(format!("it has no foreign key {} `{wanted}`", foreign_key.name)),
        }
    }
    differences
}

/// The schema with each expression as this program writes it; a text that is no expression stays unchanged.
fn canonical(schema: &TableSchema) -> TableSchema {
    let mut canonical = schema.clone();
    // What SQL says beyond, which rows do not look at.
    for column in &mut canonical.columns {
        (column.sql_type, column.sql_default, column.generated) = (None, None, None);
    }
    let names: Vec<ColumnName<'_>> =
        schema.columns.iter().map(|column| ColumnName { name: &column.name, data_type: column.data_type }).collect();
    let text_of = |expression: Expression| expression.text(&|place| names[place].name.to_owned());
    let rewrite = |text: &mut String, names: &[ColumnName<'_>]| {
        if let Ok(expression) = Expression::parse(text, names) {
            *text = text_of(expression);
        }
    };
    for default in canonical.columns.iter_mut().filter_map(|column| column.default.as_mut()) {
        rewrite(default, &[]);
    }
    canonical.checks.iter_mut().for_each(|check| rewrite(&mut check.condition, &names));
    for index in &mut canonical.indexes {
        index.constraint = false;
        index.predicate.iter_mut().for_each(|predicate| rewrite(predicate, &names));
        let columns = index.columns.iter().map(|text| {
            let list = parse::ordered_list(text, &names)?.into_iter();
            list.map(|(node, is_descending)| {
                let text = text_of(Expression::check(node, &names)?);
                Ok(if is_descending { format!("{text} desc") } else { text })
            })
            .collect::<Result<Vec<String>, String>>()
        });
        let columns: Result<Vec<_>, String> = columns.collect();
        if let Ok(columns) = columns {
            index.columns = columns.concat();
        }
    }
    canonical
}

fn differs(what: &str, found: &dyn Display, declared: &dyn Display, whose: &str) -> String {
    format!("{what} is `{found}` there and `{declared}` in {whose}")
}

/// A foreign key as text; with the columns that it refers to if the struct says them.
fn foreign_key_text(foreign_key: &ForeignKey, declared: &ForeignKey) -> String {
    let ForeignKey { columns, table, references, on_delete, on_update, .. } = foreign_key;
    let there = if declared.references.is_empty() { String::new() } else { format!(" ({})", references.join(", ")) };
    format!("({}) to {table}{there}, on delete {on_delete}, on update {on_update}", columns.join(", "))
}
