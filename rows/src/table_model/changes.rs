//! Changes of schemas, done to the database and to the model.

use crate::{Action, BuildOptions, Constraint, Database, TableSchema};
use quipu::Result;
use rand::RngExt;
use rand::rngs::StdRng;

use super::draw::{self, pick};
use super::model::{Column, Index, Model, Sorted, Table, TableId, Which};
use super::schemas::{add_foreign_index, check_text, declared, index_schema, schema_of, without_foreign_index};
use super::statements::{self, constraint_of, is_of_disk};
use super::world::World;

/// Does a change that makes the model be `after`. It must be refused if `is_refused` or if a row of the table would
/// break a constraint.
fn change(world: &mut World, after: Model, is_refused: bool, make: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
    let is_refused = is_refused || after.tables.keys().any(|id| !after.is_sound(*id));
    let database = world.database();
    let result = make(&database);
    match result {
        Ok(()) => {
            assert!(!is_refused, "a change is made that should be refused: {after:?}");
            world.expected.model = after;
            world.expected.note(&database);
            Ok(())
        }
        Err(error) if is_of_disk(&error) => {
            world.expected.attempts = if is_refused { Vec::new() } else { vec![after] };
            Err(error)
        }
        Err(error) => {
            assert!(is_refused, "a change is refused: {error:?}: {after:?}");
            world.expected.attempts.clear();
            take_back(&database)
        }
    }
}

/// A refused change is taken back at once, or, if the disk refuses that, before the next change: here is one.
///
/// # Errors
/// Those of the disk.
pub fn take_back(database: &Database) -> Result<()> {
    database.drop_table("none of this name").map(|was_there| assert!(!was_there, "no table has this name"))
}

/// A table to change, with a copy of it and of one of its columns.
fn draw_table(world: &World, random: &mut StdRng) -> Option<(TableId, Table, Column)> {
    let id = world.pick_table(random)?;
    let table = world.expected.model.tables[&id].clone();
    let column = pick(random, &table.columns)?.clone();
    Some((id, table, column))
}

/// The model with another table of this number.
fn with(world: &World, id: TableId, table: Table) -> Model {
    let mut model = world.expected.model.clone();
    model.tables.insert(id, table);
    model
}

pub fn create_table(world: &mut World, random: &mut StdRng) -> Result<()> {
    if world.expected.model.tables.len() >= 4 {
        return Ok(());
    }
    let mut table = draw::table(random, &mut world.names, &world.expected.model);
    let id = world.names.number();
    let after = with(world, id, table.clone());
    if let Some(foreign_key) = draw::foreign_key(random, &mut world.names, &after, id) {
        add_foreign_index(&mut table, &foreign_key);
        table.foreign_keys.push(foreign_key);
    }
    let after = with(world, id, table);
    let schema = without_foreign_index(schema_of(&after.tables[&id], &after));
    // A table as a schema file would give it.
    let schema = TableSchema::from_json(&schema.to_json()).unwrap();
    change(world, after, false, |database| database.create_table(&schema).map(drop))
}

pub fn drop_table(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, table, _)) = draw_table(world, random) else { return Ok(()) };
    let is_referred = is_referred(&world.expected.model, id);
    let mut after = world.expected.model.clone();
    if !is_referred {
        after.tables.remove(&id);
    }
    change(world, after, is_referred, |database| {
        database.drop_table(&table.name).map(|was_there| assert!(was_there, "a table that is there"))
    })
}

fn is_referred(model: &Model, id: TableId) -> bool {
    let others = model.tables.iter().filter(|(other, _)| **other != id);
    others.flat_map(|(_, table)| &table.foreign_keys).any(|foreign_key| foreign_key.parent == id)
}

pub fn rename_table(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let name = std::mem::replace(&mut table.name, world.names.next("t"));
    let new_name = table.name.clone();
    change(world, with(world, id, table), false, |database| database.rename_table(&name, &new_name))
}

pub fn add_column(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let added = draw::column(random, &mut world.names);
    table.rows.iter_mut().for_each(|row| drop(row.insert(added.id, added.default.clone())));
    let (name, declared) = (table.name.clone(), declared(&added));
    table.columns.push(added);
    change(world, with(world, id, table), false, |database| database.add_column(&name, declared))
}

pub fn drop_column(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, column)) = draw_table(world, random) else { return Ok(()) };
    let is_used = is_used(&world.expected.model, id, &column);
    if !is_used {
        table.columns.retain(|other| other.id != column.id);
        table.rows.iter_mut().for_each(|row| drop(row.remove(&column.id)));
    }
    let name = table.name.clone();
    change(world, with(world, id, table), is_used, |database| database.drop_column(&name, &column.name))
}

pub fn rename_column(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, column)) = draw_table(world, random) else { return Ok(()) };
    let (name, new_name) = (table.name.clone(), world.names.next("c"));
    own(&mut table, &column).name.clone_from(&new_name);
    change(world, with(world, id, table), false, |database| database.rename_column(&name, &column.name, &new_name))
}

/// The column in another copy of its table.
fn own<'t>(table: &'t mut Table, column: &Column) -> &'t mut Column {
    table.columns.iter_mut().find(|other| other.id == column.id).expect("a column of the table")
}

pub fn set_default(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, column)) = draw_table(world, random) else { return Ok(()) };
    let default = draw::default(random, &column);
    let text = (!default.is_null()).then(|| draw::literal(&default));
    own(&mut table, &column).default = default;
    let name = table.name.clone();
    change(world, with(world, id, table), false, |database| database.set_default(&name, &column.name, text.as_deref()))
}

pub fn set_not_null(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, column)) = draw_table(world, random) else { return Ok(()) };
    own(&mut table, &column).not_null = true;
    let sets_null = table.foreign_keys.iter().any(|foreign_key| {
        foreign_key.columns.contains(&column.id)
            && [foreign_key.on_delete, foreign_key.on_update].contains(&Action::SetNull)
    });
    let name = table.name.clone();
    change(world, with(world, id, table), sets_null, |database| database.set_not_null(&name, &column.name, &mut |_| ()))
}

pub fn drop_not_null(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, column)) = draw_table(world, random) else { return Ok(()) };
    let is_key = table.key.iter().any(|(key, _)| *key == column.id);
    own(&mut table, &column).not_null = is_key;
    let name = table.name.clone();
    change(world, with(world, id, table), is_key, |database| database.drop_not_null(&name, &column.name))
}

pub fn add_check(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let Some(check) = draw::check(random, &mut world.names, &table) else { return Ok(()) };
    let declared = crate::Check::new(&check.name, check_text(&table, &check));
    let name = table.name.clone();
    table.checks.push(check);
    change(world, with(world, id, table), false, |database| database.add_check(&name, declared, &mut |_| ()))
}

pub fn drop_check(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let Some(check) = table.checks.pop() else { return Ok(()) };
    let name = table.name.clone();
    change(world, with(world, id, table), false, |database| database.drop_constraint(&name, &check.name))
}

pub fn add_foreign_key(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let Some(foreign_key) = draw::foreign_key(random, &mut world.names, &world.expected.model, id) else {
        return Ok(());
    };
    add_foreign_index(&mut table, &foreign_key);
    table.foreign_keys.push(foreign_key);
    let name = table.name.clone();
    let after = with(world, id, table);
    let declared = schema_of(&after.tables[&id], &after).foreign_keys.remove(0);
    change(world, after, false, |database| database.add_foreign_key(&name, declared, &mut |_| ()))
}

pub fn drop_foreign_key(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let Some(foreign_key) = table.foreign_keys.pop() else { return Ok(()) };
    let name = table.name.clone();
    change(world, with(world, id, table), false, |database| database.drop_constraint(&name, &foreign_key.name))
}

pub fn drop_index(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    if table.indexes.is_empty() {
        return Ok(());
    }
    let place = random.random_range(0..table.indexes.len());
    let index = table.indexes[place].clone();
    let is_needed = is_needed(&world.expected.model, id, &index);
    if !is_needed {
        table.indexes.remove(place);
    }
    let name = table.name.clone();
    change(world, with(world, id, table), is_needed, |database| database.drop_index(&name, &index.name))
}

/// Gives an index, a check or a foreign key another name.
pub fn rename_constraint(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, mut table, _)) = draw_table(world, random) else { return Ok(()) };
    let name = table.name.clone();
    let (number, new_name) = (random.random_range(0..5), world.names.next("n"));
    let indexes = table.indexes.iter_mut().map(|index| &mut index.name);
    let checks = table.checks.iter_mut().map(|check| &mut check.name);
    let foreign_keys = table.foreign_keys.iter_mut().map(|foreign_key| &mut foreign_key.name);
    let Some(renamed) = indexes.chain(checks).chain(foreign_keys).nth(number) else { return Ok(()) };
    let old_name = std::mem::replace(renamed, new_name.clone());
    change(world, with(world, id, table), false, |database| database.rename_constraint(&name, &old_name, &new_name))
}

/// Builds an index while others write.
pub fn create_index(world: &mut World, random: &mut StdRng) -> Result<()> {
    let Some((id, table, _)) = draw_table(world, random) else { return Ok(()) };
    let Some(index) = draw::index(random, &mut world.names, &table) else { return Ok(()) };
    let with_index = |model: &Model| {
        let mut model = model.clone();
        model.table_mut(id).indexes.push(index.clone());
        model
    };
    let was_sound = with_index(&world.expected.model).is_sound(id);
    let options = BuildOptions {
        sort_bytes: random.random_range(100..2_000),
        ingest_rows: random.random_range(0..20),
        turn_rows: random.random_range(1..4),
    };
    let declared = index_schema(&table, &index);
    let mut writes = random.random_range(0..8);
    let (database, expected) = (world.database(), &mut world.expected);
    // Of a write beside the build that has failed.
    let mut failed = Ok(());
    let result = database.create_index_with(&table.name, declared, &options, &mut |_| {
        while writes > 0 && failed.is_ok() {
            writes -= 1;
            let statement = statements::draw(random, &expected.model, id);
            failed = expected.write(&database, id, &statement);
        }
    });
    let built = with_index(&expected.model);
    let is_sound = built.is_sound(id);
    // The failed write may have happened, or not.
    let attempts_built: Vec<Model> =
        if failed.is_ok() { Vec::new() } else { expected.attempts.iter().map(with_index).collect() };
    match result {
        Ok(()) => {
            expected.model = built;
            if failed.is_ok() {
                assert!(is_sound, "{index:?}");
                expected.note(&database);
            } else {
                expected.attempts = attempts_built;
            }
        }
        Err(error) if is_of_disk(&error) => {
            if failed.is_ok() {
                expected.attempts.clear();
            }
            expected.attempts.push(built);
            expected.attempts.extend(attempts_built);
            return Err(error);
        }
        Err(error) => {
            assert_eq!(constraint_of(&error), Constraint::Unique, "{error}");
            assert!(failed.is_err() || !is_sound || !was_sound, "{error} {index:?}");
            failed = failed.and_then(|()| take_back(&database));
        }
    }
    failed
}

/// Whether a column is of the key, or an index, a check or a foreign key reads it.
fn is_used(model: &Model, id: TableId, column: &Column) -> bool {
    let table = &model.tables[&id];
    let of_index = |index: &Index| {
        let sorted = index.sorted.iter().map(|(sorted, _)| match sorted {
            Sorted::Column(id) | Sorted::Lower(id) | Sorted::Rest(id) => *id,
        });
        let which = index.which.map(|which| match which {
            Which::NotNull(id) | Which::Greater(id, _) => id,
        });
        sorted.chain(index.include.iter().copied()).chain(which).chain(index.sum).any(|id| id == column.id)
    };
    let all = || model.tables.values().flat_map(|table| &table.foreign_keys);
    table.key.iter().any(|(id, _)| *id == column.id)
        || table.sum == Some(column.id)
        || table.indexes.iter().any(of_index)
        || table.checks.iter().any(|check| check.column == column.id)
        || table.foreign_keys.iter().any(|foreign_key| foreign_key.columns.contains(&column.id))
        || all().any(|foreign_key| foreign_key.parent == id && foreign_key.references.contains(&column.id))
}

/// Whether a foreign key needs an index.
fn is_needed(model: &Model, id: TableId, index: &Index) -> bool {
    let table = &model.tables[&id];
    let others = || table.indexes.iter().filter(|other| other.name != index.name && other.which.is_none());
    let begins = |sorted: &[(Sorted, bool)], column: u32| {
        sorted.first().is_some_and(|(first, _)| *first == Sorted::Column(column))
    };
    let finds = table.foreign_keys.iter().all(|foreign_key| {
        let column = foreign_key.columns[0];
        table.key[0].0 == column || others().any(|other| begins(&other.sorted, column))
    });
    let children = model.tables.values().flat_map(|table| &table.foreign_keys);
    let is_referred = children.filter(|foreign_key| foreign_key.parent == id).all(|foreign_key| {
        let column = foreign_key.references[0];
        (table.key.len() == 1 && table.key[0].0 == column)
            || others().any(|other| other.unique && other.sorted.len() == 1 && begins(&other.sorted, column))
    });
    !finds || !is_referred
}
