//! A database beside its model, and what is done to both.

use crate::{BuildOptions, Database, RowSnapshot, RowTransaction};
use quipu::{Db, ErrorKind, Options, Result};
use rand::RngExt;
use rand::rngs::StdRng;

use super::changes;
use super::draw::{self, Names, chance, pick};
use super::expected::Expected;
use super::judge::{judge, values_of};
use super::model::{Broken, Model, Row, TableId};
use super::statements::{self, Outcome, Statement, apply, apply_to_model, assert_same, constraint_of, is_of_disk};

/// An optimistic transaction, what it sees, and what it was told.
pub struct Open {
    transaction: RowTransaction<'static>,
    base: Model,
    model: Model,
    done: Vec<(TableId, Statement, Outcome)>,
}

pub struct World {
    pub options: Options,
    pub database: Option<Database>,
    /// The last commit that the files had when they were opened, before what a crash had left was taken back.
    pub found: u64,
    pub expected: Expected,
    pub names: Names,
    pub snapshots: Vec<(RowSnapshot, Model)>,
    pub open: Vec<Open>,
    pub commits: u64,
    pub conflicts: u64,
}

/// What is done, drawn from a random source.
pub struct Verb {
    pub name: &'static str,
    pub weight: usize,
    /// The public functions of rows that it calls, but for the one of its own name.
    pub covers: &'static [&'static str],
    pub apply: fn(&mut World, &mut StdRng) -> Result<()>,
}

const fn verb(
    name: &'static str,
    weight: usize,
    covers: &'static [&'static str],
    apply: fn(&mut World, &mut StdRng) -> Result<()>,
) -> Verb {
    Verb { name, weight, covers, apply }
}

pub const VERBS: [Verb; 25] = [
    verb("write", 60, &["insert", "put", "update", "delete", "delete_range"], World::write),
    verb("transaction", 20, &["begin", "table"], World::write_in_transaction),
    verb("end", 9, &["commit", "rollback"], World::end_transaction),
    verb("load", 4, &["begin_load", "push"], World::load),
    verb("snapshot", 4, &[], World::take_snapshot),
    verb("flush", 2, &[], World::flush),
    verb("compact", 2, &[], World::compact),
    verb("checkpoint", 2, &[], World::checkpoint),
    verb("reopen", 2, &["open"], |world, _| world.reopen()),
    verb("create_table", 2, &[], changes::create_table),
    verb("drop_table", 1, &[], changes::drop_table),
    verb("rename_table", 2, &[], changes::rename_table),
    verb("add_column", 4, &[], changes::add_column),
    verb("drop_column", 2, &[], changes::drop_column),
    verb("rename_column", 2, &[], changes::rename_column),
    verb("set_default", 2, &[], changes::set_default),
    verb("set_not_null", 2, &[], changes::set_not_null),
    verb("drop_not_null", 2, &[], changes::drop_not_null),
    verb("add_check", 2, &[], changes::add_check),
    verb("drop_check", 1, &["drop_constraint"], changes::drop_check),
    verb("create_index", 4, &["create_index_with"], changes::create_index),
    verb("drop_index", 2, &[], changes::drop_index),
    verb("rename_constraint", 1, &[], changes::rename_constraint),
    verb("add_foreign_key", 3, &[], changes::add_foreign_key),
    verb("drop_foreign_key", 1, &[], changes::drop_foreign_key),
];

impl World {
    /// Opens a database.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(options: Options) -> Result<World> {
        let database = Database::open(&Db::open("/db", options.clone())?)?;
        let mut expected = Expected::default();
        expected.history.insert(0, Model::default());
        expected.note(&database);
        Ok(World {
            options,
            database: Some(database),
            found: 0,
            expected,
            names: Names::default(),
            snapshots: Vec::new(),
            open: Vec::new(),
            commits: 0,
            conflicts: 0,
        })
    }

    pub fn database(&self) -> Database {
        self.database.clone().expect("it is open")
    }

    /// A table, and its number.
    pub fn pick_table(&self, random: &mut StdRng) -> Option<TableId> {
        pick(random, &self.expected.model.tables.keys().copied().collect::<Vec<_>>()).copied()
    }

    /// Draws a verb and does it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn step(&mut self, random: &mut StdRng) -> Result<()> {
        let mut lot = random.random_range(0..VERBS.iter().map(|verb| verb.weight).sum());
        let verb = VERBS.iter().find(|verb| {
            let is_it = lot < verb.weight;
            lot = lot.saturating_sub(verb.weight);
            is_it
        });
        match verb {
            Some(verb) if !self.expected.model.tables.is_empty() => (verb.apply)(self, random),
            _ => changes::create_table(self, random),
        }
    }

    /// Lets go of all that is open.
    pub fn close(&mut self) {
        self.snapshots.clear();
        self.open.clear();
        self.database = None;
    }

    /// Opens the database again.
    ///
    /// # Errors
    /// Those of opening it; then it is closed.
    pub fn reopen(&mut self) -> Result<()> {
        self.close();
        let db = Db::open("/db", self.options.clone())?;
        self.found = db.latched().read().sequence();
        self.database = Some(Database::open(&db)?);
        Ok(())
    }

    fn flush(&mut self, random: &mut StdRng) -> Result<()> {
        match pick(random, &self.database().db().tables()) {
            Some(tree) => tree.flush(),
            None => Ok(()),
        }
    }

    fn compact(&mut self, random: &mut StdRng) -> Result<()> {
        match pick(random, &self.database().db().tables()) {
            Some(tree) => tree.compact(),
            None => Ok(()),
        }
    }

    fn checkpoint(&mut self, _: &mut StdRng) -> Result<()> {
        self.database().db().checkpoint().map(drop)
    }

    fn take_snapshot(&mut self, _: &mut StdRng) -> Result<()> {
        if self.snapshots.len() == 3 {
            self.snapshots.remove(0);
        }
        self.snapshots.push((self.database().snapshot(), self.expected.model.clone()));
        Ok(())
    }

    /// A statement, as a commit of its own.
    fn write(&mut self, random: &mut StdRng) -> Result<()> {
        let Some(id) = self.pick_table(random) else { return Ok(()) };
        let statement = statements::draw(random, &self.expected.model, id);
        let database = self.database();
        self.expected.write(&database, id, &statement)
    }

    fn write_in_transaction(&mut self, random: &mut StdRng) -> Result<()> {
        let Some(id) = self.pick_table(random) else { return Ok(()) };
        if self.open.len() < 2 && (self.open.is_empty() || chance(random, 3)) {
            let (transaction, model) = (self.database().begin(), self.expected.model.clone());
            self.open.push(Open { transaction, base: model.clone(), model, done: Vec::new() });
        }
        let number = random.random_range(0..self.open.len());
        let open = &mut self.open[number];
        let Some(table) = open.model.tables.get(&id) else { return Ok(()) };
        let name = table.name.clone();
        let statement = statements::draw(random, &open.model, id);
        match open.transaction.table(&name).and_then(|table| apply(&table, &open.model.tables[&id], &statement)) {
            Ok(outcome) => {
                let expected = apply_to_model(&mut open.model, id, &statement);
                assert_same(&outcome, &expected, &statement);
                open.done.push((id, statement, outcome));
                Ok(())
            }
            Err(error) => {
                self.open.remove(number);
                // A conflict: the table has changed since the transaction began.
                if error.kind() == ErrorKind::Conflict { Ok(()) } else { Err(error) }
            }
        }
    }

    fn end_transaction(&mut self, random: &mut StdRng) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let open = self.open.remove(random.random_range(0..self.open.len()));
        if chance(random, 5) {
            open.transaction.rollback();
            return Ok(());
        }
        let is_same = |id: &TableId| open.base.tables[id].in_order() == open.model.tables[id].in_order();
        let has_changed = !open.model.tables.keys().all(is_same);
        let database = self.database();
        let sequence = || database.db().latched().read().sequence();
        let before = sequence();
        let result = open.transaction.commit();
        // One that has written nothing is of the moment of its begin. To write what is there already is to write.
        let has_written = sequence() != before;
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict) {
            self.conflicts += 1;
            return Ok(());
        }
        // No conflict: what it was told is true now, too.
        let mut after = self.expected.model.clone();
        if has_written || result.is_err() && has_changed {
            for (id, statement, outcome) in &open.done {
                assert_same(outcome, &apply_to_model(&mut after, *id, statement), statement);
            }
        }
        if result.is_err() {
            self.expected.attempts = vec![after];
            return result;
        }
        self.commits += 1;
        self.expected.model = after;
        self.expected.note(&database);
        Ok(())
    }

    /// Loads rows into a table that has none.
    fn load(&mut self, random: &mut StdRng) -> Result<()> {
        let model = &self.expected.model;
        let without: Vec<TableId> =
            model.tables.iter().filter(|(_, table)| table.rows.is_empty()).map(|(id, _)| *id).collect();
        let Some(&id) = pick(random, &without) else { return Ok(()) };
        let table = &model.tables[&id];
        let is_careful = !chance(random, 4);
        let (mut after, mut broken, mut rows): (Model, Broken, Vec<Row>) = (model.clone(), Vec::new(), Vec::new());
        for _ in 0..random.random_range(0..40) {
            let row = draw::row(random, table, model);
            let found = after.tables[&id].broken_by(&row, None, &after.tables);
            if is_careful && !found.is_empty() {
                continue;
            }
            broken.extend(found);
            after.table_mut(id).rows.push(row.clone());
            rows.push(row);
        }
        let options = BuildOptions {
            sort_bytes: random.random_range(100..4_000),
            ingest_rows: random.random_range(0..20),
            ..BuildOptions::default()
        };
        let database = self.database();
        let work = || {
            let mut load = database.begin_load(&table.name, &options)?;
            for row in &rows {
                load.push(&values_of(table, row))?;
            }
            load.commit(&mut |_| ())
        };
        let result = work();
        if broken.is_empty() {
            self.expected.attempts = vec![after];
        }
        match result {
            Ok(loaded) => {
                assert_eq!((loaded, &broken), (rows.len() as u64, &Vec::new()), "a load");
                self.expected.model = self.expected.attempts.remove(0);
                self.expected.note(&database);
                Ok(())
            }
            Err(error) if is_of_disk(&error) => Err(error),
            Err(error) => {
                let constraint = constraint_of(&error);
                assert!(broken.contains(&constraint), "a load is refused: {error}, expected {broken:?}");
                Ok(())
            }
        }
    }

    /// Compares everything.
    pub fn judge(&self, random: &mut StdRng) {
        let (now, model) = (self.database().snapshot(), &self.expected.model);
        let mut names: Vec<String> = model.tables.values().map(|table| table.name.clone()).collect();
        names.sort();
        assert_eq!(now.tables().unwrap(), names);
        for table in model.tables.values() {
            judge(&now.table(&table.name).unwrap(), table, random);
        }
        for (snapshot, model) in &self.snapshots {
            if let Some(table) = pick(random, &model.tables.values().collect::<Vec<_>>()) {
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
        let found = crate::check(self.database().db(), &mut |_| ()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        assert_eq!(found.rows, model.tables.values().map(|table| table.rows.len() as u64).sum::<u64>());
    }
}
