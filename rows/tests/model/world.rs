//! A database beside its model, and what is done to both.

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, ErrorKind, Options};
use quipu_rows::{
    BuildOptions, Constraint, Database, IndexSchema, RowSnapshot, RowTransaction, Span, TableIn, TableSchema, Value,
    Violation,
};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::draw::{self, Names, Statement, chance};
use crate::judge::judge;
use crate::model::{Broken, Column, Index, Model, Row, Sorted, Table, TableId, Which};

/// What came of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// How many rows it was about.
    Done(u64),
    Refused(Broken),
}

/// An optimistic transaction, what it sees, and what it was told.
pub struct Open {
    transaction: RowTransaction<'static>,
    base: Model,
    model: Model,
    done: Vec<(TableId, Statement, Outcome)>,
}

pub struct World {
    pub disk: SimDisk,
    pub database: Option<Database>,
    pub model: Model,
    pub names: Names,
    pub snapshots: Vec<(RowSnapshot, Model)>,
    pub open: Vec<Open>,
    pub commits: u64,
    pub conflicts: u64,
}

pub fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 256,
        run_page_bytes: 256,
        run_file_bytes: 2000,
        log_segment_bytes: 64 << 10,
        memory_bytes: 64 << 20,
        background: false,
        durability: Durability::Os,
        ..Options::default()
    }
}

/// The constraint that an error tells of.
///
/// # Panics
/// If it is another error.
fn constraint_of(error: &quipu::Error) -> Constraint {
    Violation::of(error).unwrap_or_else(|| panic!("{error:?}")).constraint
}

impl World {
    pub fn new(disk: SimDisk) -> World {
        let database = Database::open(&Db::open("/db", options(&disk)).unwrap()).unwrap();
        World {
            disk,
            database: Some(database),
            model: Model::default(),
            names: Names::default(),
            snapshots: Vec::new(),
            open: Vec::new(),
            commits: 0,
            conflicts: 0,
        }
    }

    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    pub fn step(&mut self, random: &mut StdRng) {
        let ids: Vec<TableId> = self.model.tables.keys().copied().collect();
        let Some(&id) = ids.get(random.random_range(0..ids.len().max(1))) else { return self.create_table(random) };
        match random.random_range(0..100) {
            0..45 => self.write(id, random),
            45..60 => self.write_in_transaction(id, random),
            60..66 => self.end_transaction(random),
            66..92 => self.change(id, random),
            92..95 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.database().snapshot(), self.model.clone()));
            }
            92..95 => drop(self.snapshots.remove(0)),
            95..98 => self.maintain(random),
            _ => self.reopen(),
        }
    }

    fn maintain(&mut self, random: &mut StdRng) {
        let db = self.database().db().clone();
        let tables = db.tables();
        let Some(table) = tables.get(random.random_range(0..tables.len().max(1))) else { return };
        match random.random_range(0..3) {
            0 => table.flush().unwrap(),
            1 => table.compact().unwrap(),
            _ => drop(db.checkpoint().unwrap()),
        }
    }

    pub fn reopen(&mut self) {
        self.snapshots.clear();
        self.open.clear();
        self.database = None;
        self.database = Some(Database::open(&Db::open("/db", options(&self.disk)).unwrap()).unwrap());
    }

    /// A statement, as a commit of its own.
    fn write(&mut self, id: TableId, random: &mut StdRng) {
        let statement = draw::statement(random, &self.model, id);
        let database = self.database().clone();
        write_once(&database, &mut self.model, id, &statement);
    }

    fn write_in_transaction(&mut self, id: TableId, random: &mut StdRng) {
        if self.open.len() < 2 && (self.open.is_empty() || chance(random, 3)) {
            let transaction = self.database().begin();
            self.open.push(Open { transaction, base: self.model.clone(), model: self.model.clone(), done: Vec::new() });
        }
        let number = random.random_range(0..self.open.len());
        let open = &mut self.open[number];
        let Some(table) = open.model.tables.get(&id) else { return };
        let name = table.name.clone();
        let statement = draw::statement(random, &open.model, id);
        let result = open.transaction.table(&name).and_then(|table| apply(&table, &open.model.tables[&id], &statement));
        match result {
            Ok(outcome) => {
                let expected = apply_to_model(&mut open.model, id, &statement);
                assert_same(&outcome, &expected, &statement);
                open.done.push((id, statement, outcome));
            }
            Err(error) => {
                // It has changed since the transaction began.
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.open.remove(number);
            }
        }
    }

    fn end_transaction(&mut self, random: &mut StdRng) {
        if self.open.is_empty() {
            return;
        }
        let open = self.open.remove(random.random_range(0..self.open.len()));
        if chance(random, 5) {
            return open.transaction.rollback();
        }
        match open.transaction.commit() {
            Ok(()) => {
                self.commits += 1;
                // One that has changed nothing is of the moment of its begin.
                let is_same = |id: &TableId| open.base.tables[id].in_order() == open.model.tables[id].in_order();
                if open.model.tables.keys().all(is_same) {
                    return;
                }
                for (id, statement, outcome) in &open.done {
                    let now = apply_to_model(&mut self.model, *id, statement);
                    assert_same(outcome, &now, statement);
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.conflicts += 1;
            }
        }
    }

    fn create_table(&mut self, random: &mut StdRng) {
        let mut table = draw::table(random, &mut self.names, &self.model);
        let id = self.names.number();
        self.model.tables.insert(id, table.clone());
        let foreign_key = draw::foreign_key(random, &mut self.names, &self.model, id);
        if let Some(foreign_key) = foreign_key {
            add_foreign_index(&mut table, &foreign_key);
            table.foreign_keys.push(foreign_key);
        }
        let schema = schema_of(&table, &self.model);
        self.model.tables.insert(id, table);
        let schema = without_foreign_index(schema);
        // A table as a schema file would give it.
        let schema = TableSchema::from_json(&schema.to_json()).unwrap();
        self.database().create_table(&schema).unwrap();
    }

    fn change(&mut self, id: TableId, random: &mut StdRng) {
        let database = self.database().clone();
        let table = self.model.tables[&id].clone();
        let name = table.name.clone();
        let column = table.columns[random.random_range(0..table.columns.len())].clone();
        let mut changed = table.clone();
        changed.version += 1;
        let mut nothing = |_| ();
        let result = match random.random_range(0..16) {
            0 if self.model.tables.len() < 4 => return self.create_table(random),
            1 if chance(random, 3) => {
                let is_referred = self.model.tables.iter().any(|(other, table)| {
                    *other != id && table.foreign_keys.iter().any(|foreign_key| foreign_key.parent == id)
                });
                let dropped = database.drop_table(&name);
                assert_eq!(dropped.is_err(), is_referred, "{dropped:?}");
                if !is_referred {
                    self.model.tables.remove(&id);
                }
                return;
            }
            2 => {
                changed.name = self.names.next("t");
                database.rename_table(&name, &changed.name)
            }
            3 | 4 => {
                let added = draw::column(random, &mut self.names);
                changed.rows.iter_mut().for_each(|row| drop(row.insert(added.id, added.default.clone())));
                let declared = declared(&added);
                changed.columns.push(added);
                database.add_column(&name, declared)
            }
            5 => {
                changed.columns.retain(|other| other.id != column.id);
                changed.rows.iter_mut().for_each(|row| drop(row.remove(&column.id)));
                let result = database.drop_column(&name, &column.name);
                assert_eq!(result.is_err(), self.is_used(id, &column), "{result:?} {column:?}");
                if result.is_err() {
                    return;
                }
                result
            }
            6 => {
                let new_name = self.names.next("c");
                changed
                    .columns
                    .iter_mut()
                    .filter(|other| other.id == column.id)
                    .for_each(|other| other.name.clone_from(&new_name));
                database.rename_column(&name, &column.name, &new_name)
            }
            7 => {
                let mut default = draw::value(random, &column);
                if column.data_type.accept(default.clone()).is_err() {
                    default = Value::Null;
                }
                let text = (!default.is_null()).then(|| draw::literal(&default));
                let columns = changed.columns.iter_mut().filter(|other| other.id == column.id);
                columns.for_each(|other| other.default = default.clone());
                database.set_default(&name, &column.name, text.as_deref())
            }
            8 => {
                let Some(check) = draw::check(random, &mut self.names, &table) else { return };
                let declared = quipu_rows::Check::new(&check.name, check_text(&table, &check));
                changed.checks.push(check);
                database.add_check(&name, declared, &mut nothing)
            }
            9 => {
                let Some(check) = changed.checks.pop() else { return };
                database.drop_constraint(&name, &check.name)
            }
            10 | 11 => return self.create_index(id, random),
            12 => {
                let Some(place) = random.random_range(0..=changed.indexes.len()).checked_sub(1) else { return };
                let index = changed.indexes.remove(place);
                let result = database.drop_index(&name, &index.name);
                assert_eq!(result.is_err(), self.is_needed(id, &index), "{result:?} {index:?}");
                if result.is_err() {
                    return;
                }
                result
            }
            13 => {
                let columns = changed.columns.iter_mut().filter(|other| other.id == column.id);
                columns.for_each(|other| other.not_null = true);
                let sets_null = table.foreign_keys.iter().any(|foreign_key| {
                    foreign_key.columns.contains(&column.id)
                        && [foreign_key.on_delete, foreign_key.on_update].contains(&quipu_rows::Action::SetNull)
                });
                let result = database.set_not_null(&name, &column.name, &mut nothing);
                if sets_null {
                    result.unwrap_err();
                    return;
                }
                result
            }
            14 => {
                let columns = changed.columns.iter_mut().filter(|other| other.id == column.id);
                columns.for_each(|other| other.not_null = false);
                let result = database.drop_not_null(&name, &column.name);
                let is_key = table.key.iter().any(|(key, _)| *key == column.id);
                assert_eq!(result.is_err(), is_key, "{result:?}");
                if is_key {
                    return;
                }
                result
            }
            _ => {
                if let Some(foreign_key) = changed.foreign_keys.pop() {
                    database.drop_constraint(&name, &foreign_key.name)
                } else {
                    let foreign_key = draw::foreign_key(random, &mut self.names, &self.model, id);
                    let Some(foreign_key) = foreign_key else { return };
                    let mut with_key = changed.clone();
                    with_key.foreign_keys.push(foreign_key.clone());
                    let declared = schema_of(&with_key, &self.model).foreign_keys.remove(0);
                    add_foreign_index(&mut changed, &foreign_key);
                    let result = database.add_foreign_key(&name, declared, &mut nothing);
                    changed.foreign_keys.push(foreign_key);
                    result
                }
            }
        };
        let before = self.model.tables.insert(id, changed).unwrap();
        match result {
            Ok(()) => assert!(self.model.is_sound(id), "a change that no row may keep: {:?}", self.model.tables[&id]),
            Err(error) => {
                let is_sound = self.model.is_sound(id);
                assert!(!is_sound, "{error:?}: {:?}", self.model.tables[&id]);
                self.model.tables.insert(id, before);
            }
        }
    }

    /// Builds an index while others write.
    fn create_index(&mut self, id: TableId, random: &mut StdRng) {
        let database = self.database().clone();
        let table = self.model.tables[&id].clone();
        let Some(index) = draw::index(random, &mut self.names, &table) else { return };
        let is_sound = |model: &Model| {
            let mut model = model.clone();
            model.tables.get_mut(&id).unwrap().indexes.push(index.clone());
            model.is_sound(id)
        };
        let was_sound = is_sound(&self.model);
        let options = BuildOptions {
            sort_bytes: random.random_range(100..2_000),
            ingest_rows: random.random_range(0..20),
            turn_rows: random.random_range(1..4),
        };
        let declared = index_schema(&table, &index);
        let mut writes = random.random_range(0..8);
        let model = &mut self.model;
        let result = database.create_index_with(&table.name, declared, &options, &mut |_| {
            while writes > 0 {
                writes -= 1;
                let statement = draw::statement(random, model, id);
                write_once(&database, model, id, &statement);
            }
        });
        let is_sound = is_sound(&self.model);
        match result {
            Ok(()) => {
                assert!(is_sound, "{index:?}");
                let table = self.model.tables.get_mut(&id).unwrap();
                table.indexes.push(index);
                table.version += 1;
            }
            Err(error) => {
                assert_eq!(constraint_of(&error), Constraint::Unique, "{error}");
                assert!(!is_sound || !was_sound, "{error} {index:?}");
            }
        }
    }

    /// Whether a column is of the key, or an index, a check or a foreign key reads it.
    fn is_used(&self, id: TableId, column: &Column) -> bool {
        let table = &self.model.tables[&id];
        let of_index = |index: &Index| {
            let sorted = index.sorted.iter().map(|(sorted, _)| match sorted {
                Sorted::Column(id) | Sorted::Lower(id) | Sorted::Rest(id) => *id,
            });
            let which = index.which.map(|which| match which {
                Which::NotNull(id) | Which::Greater(id, _) => id,
            });
            sorted.chain(index.include.iter().copied()).chain(which).chain(index.sum).any(|id| id == column.id)
        };
        table.key.iter().any(|(id, _)| *id == column.id)
            || table.sum == Some(column.id)
            || table.indexes.iter().any(of_index)
            || table.checks.iter().any(|check| check.column == column.id)
            || table.foreign_keys.iter().any(|foreign_key| foreign_key.columns.contains(&column.id))
            || self
                .model
                .tables
                .values()
                .flat_map(|table| &table.foreign_keys)
                .any(|foreign_key| foreign_key.parent == id && foreign_key.references.contains(&column.id))
    }

    /// Whether a foreign key needs an index.
    fn is_needed(&self, id: TableId, index: &Index) -> bool {
        let table = &self.model.tables[&id];
        let others = || table.indexes.iter().filter(|other| other.name != index.name && other.which.is_none());
        let begins = |sorted: &[(Sorted, bool)], column: u32| {
            sorted.first().is_some_and(|(first, _)| *first == Sorted::Column(column))
        };
        let finds = table.foreign_keys.iter().all(|foreign_key| {
            let column = foreign_key.columns[0];
            table.key[0].0 == column || others().any(|other| begins(&other.sorted, column))
        });
        let children = self.model.tables.values().flat_map(|table| &table.foreign_keys);
        let is_referred = children.filter(|foreign_key| foreign_key.parent == id).all(|foreign_key| {
            let column = foreign_key.references[0];
            (table.key.len() == 1 && table.key[0].0 == column)
                || others().any(|other| other.unique && other.sorted.len() == 1 && begins(&other.sorted, column))
        });
        !finds || !is_referred
    }

    /// Compares everything.
    pub fn judge(&self, random: &mut StdRng) {
        let now = self.database().snapshot();
        let mut names: Vec<String> = self.model.tables.values().map(|table| table.name.clone()).collect();
        names.sort();
        assert_eq!(now.tables().unwrap(), names);
        for table in self.model.tables.values() {
            judge(&now.table(&table.name).unwrap(), table, random);
        }
        for (snapshot, model) in &self.snapshots {
            if let Some(table) = model.tables.values().nth(random.random_range(0..model.tables.len().max(1))) {
                judge(&snapshot.table(&table.name).unwrap(), table, random);
            }
        }
        for open in &self.open {
            for table in open.model.tables.values().take(1) {
                if let Ok(seen) = open.transaction.table(&table.name) {
                    judge(&seen, table, random);
                }
            }
        }
        let found = quipu_rows::check(self.database().db(), &mut |_| ()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        assert_eq!(found.rows, self.model.tables.values().map(|table| table.rows.len() as u64).sum::<u64>());
    }
}

/// Writes to the database and to the model, and compares.
pub fn write_once(database: &Database, model: &mut Model, id: TableId, statement: &Statement) {
    let table = &model.tables[&id];
    let outcome = database.write(|transaction| {
        let in_transaction = transaction.table(&table.name)?;
        apply(&in_transaction, table, statement)
    });
    let outcome = outcome.unwrap();
    let expected = apply_to_model(model, id, statement);
    assert_same(&outcome, &expected, statement);
}

fn assert_same(found: &Outcome, expected: &Outcome, statement: &Statement) {
    match (found, expected) {
        (Outcome::Done(found), Outcome::Done(expected)) if found == expected => {}
        (Outcome::Refused(found), Outcome::Refused(expected)) if expected.contains(&found[0]) => {}
        _ => panic!("{statement:?}: {found:?}, expected {expected:?}"),
    }
}

/// # Errors
/// A conflict: definitions that a transaction uses have changed since it began.
fn apply(table: &TableIn<'_, RowTransaction<'_>>, model: &Table, statement: &Statement) -> quipu::Result<Outcome> {
    let values = |row: &Row| model.columns.iter().map(|column| row[&column.id].clone()).collect::<Vec<_>>();
    let result = match statement {
        Statement::Insert(row) => table.insert(values(row)).map(|()| 1),
        Statement::Put(row) => table.put(values(row)).map(|was_there| 1 + u64::from(was_there)),
        Statement::Update(key, changes) => {
            let changes: Vec<(&str, Value<'_>)> =
                changes.iter().map(|(id, value)| (&*model.column(*id).name, value.clone())).collect();
            table.update(key.clone(), &changes).map(u64::from)
        }
        Statement::Delete(key) => table.delete(key.clone()).map(u64::from),
        Statement::DeleteRange(value) => table.delete_range(Span::eq(value.clone())),
    };
    match result {
        Ok(rows) => Ok(Outcome::Done(rows)),
        Err(error) if error.kind() == ErrorKind::Conflict => Err(error),
        Err(error) => Ok(Outcome::Refused(vec![constraint_of(&error)])),
    }
}

pub fn apply_to_model(model: &mut Model, id: TableId, statement: &Statement) -> Outcome {
    let refused = |broken: Broken, rows| if broken.is_empty() { Outcome::Done(rows) } else { Outcome::Refused(broken) };
    match statement {
        Statement::Insert(row) => refused(model.insert(id, row.clone()), 1),
        Statement::Put(row) => {
            let table = &model.tables[&id];
            let key = table.key_values(row);
            match table.place_of(&key) {
                None => refused(model.insert(id, row.clone()), 1),
                Some(_) => match model.update(id, &key, row) {
                    Ok(_) => Outcome::Done(2),
                    Err(broken) => Outcome::Refused(broken),
                },
            }
        }
        Statement::Update(key, changes) => match model.update(id, key, changes) {
            Ok(was_there) => Outcome::Done(was_there.into()),
            Err(broken) => Outcome::Refused(broken),
        },
        Statement::Delete(key) => match model.delete(id, key) {
            Ok(was_there) => Outcome::Done(was_there.into()),
            Err(broken) => Outcome::Refused(broken),
        },
        Statement::DeleteRange(value) => {
            let mut changed = model.clone();
            let table = &model.tables[&id];
            let keys = table.in_order().into_iter().map(|row| table.key_values(row)).filter(|key| key[0] == *value);
            let mut deleted = 0;
            for key in keys {
                match changed.delete(id, &key) {
                    Ok(was_there) => deleted += u64::from(was_there),
                    Err(broken) => return Outcome::Refused(broken),
                }
            }
            *model = changed;
            Outcome::Done(deleted)
        }
    }
}

fn declared(column: &Column) -> quipu_rows::Column {
    let mut declared = quipu_rows::Column::new(&column.name, column.data_type);
    declared.not_null = column.not_null;
    declared.default = (!column.default.is_null()).then(|| draw::literal(&column.default));
    declared
}

fn check_text(table: &Table, check: &crate::model::Check) -> String {
    format!("{} >= {}", table.column(check.column).name, check.bound)
}

fn index_schema(table: &Table, index: &Index) -> IndexSchema {
    let name = |id: u32| &table.column(id).name;
    let columns = index.sorted.iter().map(|(sorted, is_descending)| {
        let text = match sorted {
            Sorted::Column(id) => name(*id).clone(),
            Sorted::Lower(id) => format!("lower({})", name(*id)),
            Sorted::Rest(id) => format!("{} % 3", name(*id)),
        };
        if *is_descending { format!("{text} desc") } else { text }
    });
    let mut schema = IndexSchema::new(&index.name, columns).include(index.include.iter().map(|id| name(*id).clone()));
    schema.unique = index.unique;
    schema.predicate = index.which.map(|which| match which {
        Which::NotNull(id) => format!("{} IS NOT NULL", name(id)),
        Which::Greater(id, bound) => format!("{} > {bound}", name(id)),
    });
    schema.sum = index.sum.map(|id| name(id).clone());
    schema
}

fn schema_of(table: &Table, model: &Model) -> TableSchema {
    let mut schema = TableSchema::new(&table.name);
    for column in &table.columns {
        schema = schema.column(declared(column));
    }
    let key = table.key.iter().map(|(id, is_descending)| {
        let name = &table.column(*id).name;
        if *is_descending { format!("{name} desc") } else { name.clone() }
    });
    schema = schema.key(key);
    schema.sum = table.sum.map(|id| table.column(id).name.clone());
    for index in &table.indexes {
        schema = schema.index(index_schema(table, index));
    }
    for check in &table.checks {
        schema = schema.check(&check.name, check_text(table, check));
    }
    for foreign_key in &table.foreign_keys {
        let parent = &model.tables[&foreign_key.parent];
        let own = foreign_key.columns.iter().map(|id| table.column(*id).name.clone());
        let declared = quipu_rows::ForeignKey::new(&foreign_key.name, own, &parent.name)
            .references(foreign_key.references.iter().map(|id| parent.column(*id).name.clone()))
            .on_delete(foreign_key.on_delete)
            .on_update(foreign_key.on_update);
        schema = schema.foreign_key(declared);
    }
    schema
}

/// The index that a foreign key gets if there is none.
fn add_foreign_index(table: &mut Table, foreign_key: &crate::model::ForeignKey) {
    let column = foreign_key.columns[0];
    let begins = |sorted: &[(Sorted, bool)]| sorted[0].0 == Sorted::Column(column);
    let has_index =
        table.key[0].0 == column || table.indexes.iter().any(|index| index.which.is_none() && begins(&index.sorted));
    if !has_index {
        table.indexes.push(Index {
            name: format!("{}_index", foreign_key.name),
            sorted: vec![(Sorted::Column(column), false)],
            unique: false,
            include: Vec::new(),
            which: None,
            sum: None,
        });
    }
}

fn without_foreign_index(mut schema: TableSchema) -> TableSchema {
    schema.indexes.retain(|index| !index.name.ends_with("_index"));
    schema
}
