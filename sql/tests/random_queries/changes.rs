//! Random changes of rows. Their outcomes do not depend on the order of rows.

use super::draw::{Draw, Kind};
use super::expressions::{Scope, items_of};
use super::schema::{Schema, Table};

/// A random INSERT, UPDATE or DELETE.
pub(super) fn change(draw: &mut Draw, schema: &Schema, next_id: &mut usize) -> String {
    let table = &schema.tables[draw.below(schema.tables.len())];
    let returning = match draw.below(3) {
        0 => String::new(),
        1 => " RETURNING *".to_owned(),
        _ => {
            let scope = Scope { items: items_of(table, &table.name), tables: &schema.tables[..0] };
            format!(" RETURNING {}, id", scope.items[draw.below(scope.items.len())].text)
        }
    };
    match draw.below(12) {
        10 | 11 if table.key == ["id"] => {
            // One row, to which others may refer.
            let (name, id) = (&table.name, draw.below(8));
            match draw.chance(50) {
                true => format!("DELETE FROM {name} WHERE id = {id}{returning}"),
                false => {
                    *next_id += 1;
                    format!("UPDATE {name} SET id = {next_id} WHERE id = {id}{returning}")
                }
            }
        }
        0..=2 => insert(draw, table, next_id, &returning),
        3..=7 => update(draw, schema, table, &returning),
        _ => delete(draw, schema, table, &returning),
    }
}

fn insert(draw: &mut Draw, table: &Table, next_id: &mut usize, returning: &str) -> String {
    let mut rows = Vec::new();
    for _ in 0..1 + draw.below(3) {
        let id = match draw.chance(30) {
            true => draw.below(10),
            false => {
                *next_id += 1;
                *next_id
            }
        };
        rows.push(format!("({})", table.row(draw, id).join(", ")));
    }
    let conflict = match draw.below(4) {
        0 => " ON CONFLICT DO NOTHING".to_owned(),
        1 if !table.key.is_empty() => {
            let column = &table.columns[table.columns.len() - 1];
            let value = match draw.chance(60) {
                true => format!("excluded.{}", column.name),
                false => column.kind.constant(draw),
            };
            format!(" ON CONFLICT ({}) DO UPDATE SET {} = {value}", table.key.join(", "), column.name)
        }
        _ => String::new(),
    };
    format!("INSERT INTO {} VALUES {}{conflict}{returning}", table.name, rows.join(", "))
}

fn update(draw: &mut Draw, schema: &Schema, table: &Table, returning: &str) -> String {
    let scope = Scope { items: items_of(table, &table.name), tables: &schema.tables };
    let mut sets = Vec::new();
    for column in draw.some(&table.columns[1..], 2) {
        let value = match table.key.contains(&column.name) || draw.chance(50) {
            true => column.kind.constant(draw),
            false => match draw.chance(20) {
                true => "NULL".to_owned(),
                false => {
                    let value = scope.value(draw, column.kind.family(), 1);
                    match column.kind {
                        // Numbers of a fixed size have no NaN here.
                        Kind::Numeric => format!("nullif({value}::numeric, 'NaN')::{}", column.kind.name()),
                        kind => format!("{value}::{}", kind.name()),
                    }
                }
            },
        };
        sets.push(format!("{} = {value}", column.name));
    }
    let filter = scope.predicate(draw, 2);
    let sets = sets.join(", ");
    if draw.chance(20) {
        let other = &schema.tables[draw.below(schema.tables.len())];
        let name = &table.name;
        return format!(
            "UPDATE {name} SET {sets} FROM {} z WHERE z.id = {name}.id AND ({filter}){returning}",
            other.name
        )
        .replace("RETURNING *", &format!("RETURNING {name}.*"))
        .replace(", id", &format!(", {name}.id"));
    }
    format!("UPDATE {} SET {sets} WHERE {filter}{returning}", table.name)
}

fn delete(draw: &mut Draw, schema: &Schema, table: &Table, returning: &str) -> String {
    let scope = Scope { items: items_of(table, &table.name), tables: &schema.tables };
    let filter = scope.predicate(draw, 2);
    let name = &table.name;
    if draw.chance(20) {
        let other = &schema.tables[draw.below(schema.tables.len())];
        return format!("DELETE FROM {name} USING {} z WHERE z.id = {name}.id AND ({filter}){returning}", other.name)
            .replace("RETURNING *", &format!("RETURNING {name}.*"))
            .replace(", id", &format!(", {name}.id"));
    }
    format!("DELETE FROM {name} WHERE {filter}{returning}")
}
