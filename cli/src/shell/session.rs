//! A session of the shell: the table in use, the open transaction, the switches; runs one command at a time.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use quipu::{Db, Error, ErrorKind, Measures, ReadableTable, Savepoint, TableOptions, Transaction};
use quipu_rows::old::{Column, ColumnType, RowTable, RowWriter, Schema};
use serde_json::{Value as Json, json};

use super::answer::Answer;
use super::command::{Command, Creation};
use super::{help, reading};
use crate::failure::{Failure, Result};
use crate::grid::{Grid, thousands};
use crate::import::sum_field;
use crate::key;
use crate::words::Word;
use crate::{database, stats};

/// The state between two commands.
pub(super) struct Session {
    db: Db,
    dir: PathBuf,
    table: Option<RowTable>,
    transaction: Option<Transaction>,
    /// The names of the open transaction's savepoints, the first set first.
    savepoints: Vec<(String, Savepoint)>,
    pub(super) json: bool,
    pub(super) timing: bool,
    /// The names of all tables, for completion.
    pub(super) table_names: Rc<RefCell<Vec<String>>>,
}

impl Session {
    pub(super) fn new(db: Db, dir: PathBuf, timing: bool) -> Session {
        let table_names = Rc::default();
        let mut session = Session {
            db,
            dir,
            table: None,
            transaction: None,
            savepoints: Vec::new(),
            json: false,
            timing,
            table_names,
        };
        session.refresh_names();
        session
    }

    /// The table to begin with: the one named, or the only one that is not an index.
    pub(super) fn choose(&mut self, named: Option<&str>) -> Result<()> {
        let tables = self.db.tables();
        let is_index = |table: &quipu::Table| Schema::of(table).is_some_and(|schema| schema.index_of.is_some());
        let mut others = tables.iter().filter(|table| !is_index(table));
        let name = match (named, others.next(), others.next()) {
            (Some(name), _, _) => name.to_owned(),
            (None, Some(only), None) => only.name().to_owned(),
            _ => return Ok(()),
        };
        self.use_table(&name)
    }

    /// What stands before the cursor.
    pub(super) fn prompt(&self) -> String {
        let name = self.table.as_ref().map_or("quipu", |table| table.table.name());
        format!("{name}{}> ", if self.transaction.is_some() { "*" } else { "" })
    }

    /// Whether a transaction is open.
    pub(super) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    fn refresh_names(&mut self) {
        *self.table_names.borrow_mut() = self.db.tables().iter().map(|table| table.name().to_owned()).collect();
    }

    /// Runs one command.
    pub(super) fn run(&mut self, command: &Command) -> Result<Answer> {
        match command {
            Command::Help { topic } => {
                let text = help::text(topic.as_deref()).ok_or_else(|| Failure::new("there is no such command"))?;
                Ok(Answer { text: text.clone(), ..Answer::default() }.with("help", text))
            }
            Command::Use { table } => {
                self.use_table(table)?;
                Ok(Answer::line(self.describe()).with("table", table.as_str()))
            }
            Command::Tables => self.tables(),
            Command::Create(creation) => self.create(creation),
            Command::Drop { table } => self.drop(table),
            Command::Stats => {
                let stats = self.db.stats();
                Ok(Answer { grid: Some(stats::grid(&stats)), below: stats::text(&stats), ..Answer::default() }
                    .with("stats", stats::json(&stats)))
            }
            Command::Put { key, value } => {
                self.write(key, value, |writer, key, value| writer.put(key, value))?;
                Ok(Answer::line("done").with("done", true))
            }
            Command::Insert { key, value } => {
                self.write(key, value, |writer, key, value| match writer.insert(key, value) {
                    Err(error) if error.kind() == ErrorKind::Exists => {
                        Err(Error::new(ErrorKind::Exists, "there is a row of that key; `put` replaces it"))
                    }
                    other => other,
                })?;
                Ok(Answer::line("done").with("done", true))
            }
            Command::Remove { key } => {
                let key = key::parse(key, self.current()?.schema.as_ref())?;
                let removed = self.change(|writer| writer.remove(&key))?;
                Ok(Answer::line(if removed { "removed" } else { "no row" }).with("removed", removed))
            }
            Command::Begin => {
                if self.transaction.is_some() {
                    return Err(Failure::new("a transaction is open; `commit` or `rollback` ends it"));
                }
                self.transaction = Some(self.db.begin());
                Ok(Answer::line("begun").with("done", true))
            }
            Command::Commit => self.commit(),
            Command::Rollback { savepoint } => self.rollback(savepoint.as_deref()),
            Command::Savepoint { name } => {
                let savepoint = self.open_transaction()?.savepoint();
                self.savepoints.push((name.clone(), savepoint));
                Ok(Answer::line("set").with("done", true))
            }
            Command::Release { name } => {
                let place = self.savepoint_place(name)?;
                let (_, savepoint) = self.savepoints.swap_remove(place);
                self.savepoints.truncate(place);
                self.open_transaction()?.release(savepoint)?;
                Ok(Answer::line("released").with("done", true))
            }
            Command::Checkpoint => {
                self.refuse_in_transaction("checkpoint")?;
                let info = self.db.checkpoint()?;
                Ok(Answer::line(stats::checkpoint_text(&info)).with("checkpoint", stats::checkpoint_json(&info)))
            }
            Command::Json { on } => {
                self.json = *on;
                Ok(Answer::default().with("json", *on))
            }
            Command::Timing { on } => {
                self.timing = *on;
                Ok(Answer::default().with("timing", *on))
            }
            Command::Quit => Ok(Answer::default()),
            reading => {
                let table = self.current()?;
                let schema = table.schema.as_ref();
                let mut random = rand::rng();
                let answer = match &self.transaction {
                    Some(transaction) => {
                        reading::answer(reading, &table.table, schema, &transaction.table(&table.table)?, &mut random)?
                    }
                    None => reading::answer(reading, &table.table, schema, &table.table, &mut random)?,
                };
                answer.ok_or_else(|| Failure::new("a key is needed"))
            }
        }
    }

    /// The table in use.
    fn current(&self) -> Result<&RowTable> {
        self.table.as_ref().ok_or_else(|| {
            let names = self.table_names.borrow().join(", ");
            let choice = if names.is_empty() { "`create` makes one".to_owned() } else { format!("there are {names}") };
            Failure::new(format!("no table is in use; {choice}"))
        })
    }

    fn use_table(&mut self, name: &str) -> Result<()> {
        database::table(&self.db, name)?;
        self.table = RowTable::open(&self.db, name)?;
        Ok(())
    }

    fn describe(&self) -> String {
        let Some(table) = &self.table else { return String::new() };
        let name = table.table.name();
        match &table.schema {
            None => format!("{name}: keys and values are strings"),
            Some(schema) => {
                let key: Vec<String> =
                    schema.key_columns().map(|column| format!("{} {}", column.name, column.column_type)).collect();
                let value: Vec<String> =
                    schema.value_columns().map(|column| format!("{} {}", column.name, column.column_type)).collect();
                let value = if value.is_empty() { String::new() } else { format!("; value {}", value.join(", ")) };
                format!("{name}: key {}{value}", key.join(", "))
            }
        }
    }

    fn tables(&self) -> Result<Answer> {
        let mut grid = Grid::new([("table", false), ("rows", true), ("key", false), ("index of", false)]);
        let mut list = Vec::new();
        for table in self.db.tables() {
            let schema = Schema::of(&table);
            let rows = table.len()?;
            let key = schema.as_ref().map_or_else(|| "(string)".to_owned(), Schema::key_names);
            let index_of = schema.as_ref().and_then(|schema| schema.index_of.clone());
            list.push(json!({
                "table": table.name(), "rows": rows, "index_of": index_of,
                "columns": schema.as_ref().map(|schema| schema.columns.iter().map(|c| &c.name).collect::<Vec<_>>()),
                "key": schema.as_ref().map(|schema| schema.key_columns().map(|c| &c.name).collect::<Vec<_>>()),
            }));
            grid.push(vec![table.name().to_owned(), thousands(rows), key, index_of.unwrap_or_default()]);
        }
        let summary = match list.len() {
            0 => "no table; `create` makes one",
            _ => "",
        };
        Ok(Answer { grid: Some(grid), summary: summary.to_owned(), ..Answer::default() }
            .with("tables", Json::from(list)))
    }

    fn create(&mut self, creation: &Creation) -> Result<Answer> {
        self.refuse_in_transaction("create")?;
        let measures = Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS };
        let name = creation.table.as_str();
        if creation.key.is_empty() {
            if !creation.value.is_empty() || !creation.indexes.is_empty() || creation.sum.is_some() {
                return Err(Failure::new("columns of the value, indexes and sums need columns of the key"));
            }
            self.db.create_table(name, TableOptions { measures, ..TableOptions::default() })?;
        } else {
            let column = |(name, kind): &(String, String)| {
                let column_type = ColumnType::parse(kind)
                    .ok_or_else(|| Failure::new(format!("{kind:?} is no type; there are {}", ColumnType::names())))?;
                Ok(Column { name: name.clone(), column_type })
            };
            let columns: Vec<Column> = creation.key.iter().chain(&creation.value).map(column).collect::<Result<_>>()?;
            if let Some(twice) =
                (1..columns.len()).find(|&place| columns[..place].iter().any(|c| c.name == columns[place].name))
            {
                return Err(Failure::new(format!("two columns have the name {:?}", columns[twice].name)));
            }
            let key: Vec<String> = creation.key.iter().map(|(name, _)| name.clone()).collect();
            let schema = Schema::new(columns, &key)?;
            let sum = creation.sum.as_deref().map(|name| sum_field(&schema, name)).transpose()?;
            let options = TableOptions { measures: Measures { sum, ..measures }, ..TableOptions::default() };
            RowTable::create(&self.db, name, &schema, &creation.indexes, options)?;
        }
        self.refresh_names();
        self.use_table(name)?;
        Ok(Answer::line(self.describe()).with("table", name))
    }

    fn drop(&mut self, name: &str) -> Result<Answer> {
        self.refuse_in_transaction("drop")?;
        database::table(&self.db, name)?;
        let table = RowTable::open(&self.db, name)?.ok_or_else(|| Failure::new("the table is gone"))?;
        if let Some(owner) = table.index_of() {
            return Err(Failure::new(format!("table {name} is an index of {owner} and goes with it")));
        }
        table.drop(&self.db)?;
        self.refresh_names();
        // The table in use may have been that one, or an index of it.
        let gone = |used: &RowTable| !self.table_names.borrow().iter().any(|name| name == used.table.name());
        if self.table.as_ref().is_some_and(gone) {
            self.table = None;
        }
        Ok(Answer::line("dropped").with("done", true))
    }

    /// Parses a key and a value and gives them to `change`.
    fn write(
        &self,
        key: &Word,
        value: &[Word],
        change: impl FnOnce(&mut RowWriter<'_>, &[u8], &[u8]) -> quipu::Result<()>,
    ) -> Result<()> {
        let schema = self.current()?.schema.as_ref();
        let key = key::parse(key, schema)?;
        let value = key::parse_value(value, schema)?;
        self.change(|writer| change(writer, &key, &value))
    }

    /// Changes the table in use, in the open transaction or in one of its own.
    fn change<T>(&self, change: impl FnOnce(&mut RowWriter<'_>) -> quipu::Result<T>) -> Result<T> {
        let table = self.current()?;
        if let Some(owner) = table.index_of() {
            let name = table.table.name();
            return Err(Failure::new(format!("table {name} is an index: write to table {owner}, and it follows")));
        }
        match &self.transaction {
            Some(transaction) => Ok(change(&mut table.within(transaction)?)?),
            None => Ok(self.db.write(|transaction| change(&mut table.within(transaction)?))?),
        }
    }

    fn open_transaction(&self) -> Result<&Transaction> {
        self.transaction.as_ref().ok_or_else(|| Failure::new("no transaction is open; `begin` opens one"))
    }

    fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        match &self.transaction {
            Some(_) => Err(Failure::new(format!("`{what}` is no part of a transaction; `commit` or `rollback` first"))),
            None => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<Answer> {
        self.open_transaction()?;
        self.savepoints.clear();
        let Some(transaction) = self.transaction.take() else { return Ok(Answer::default()) };
        match transaction.commit() {
            Ok(_) => Ok(Answer::line("committed").with("done", true)),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Err(Failure::new(format!("{error}; the transaction was rolled back, run it again")))
            }
            Err(error) => Err(Failure::from(error)),
        }
    }

    fn rollback(&mut self, savepoint: Option<&str>) -> Result<Answer> {
        self.open_transaction()?;
        if let Some(name) = savepoint {
            let place = self.savepoint_place(name)?;
            let (_, savepoint) = self.savepoints[place];
            self.open_transaction()?.rollback_to(savepoint)?;
            self.savepoints.truncate(place + 1);
        } else {
            self.savepoints.clear();
            if let Some(transaction) = self.transaction.take() {
                transaction.rollback();
            }
        }
        Ok(Answer::line("rolled back").with("done", true))
    }

    /// Where the last savepoint of that name stands.
    fn savepoint_place(&self, name: &str) -> Result<usize> {
        self.open_transaction()?;
        let place = self.savepoints.iter().rposition(|(known, _)| known == name);
        place.ok_or_else(|| Failure::new(format!("there is no savepoint {name:?}")))
    }

    /// What is shown when a person comes in.
    pub(super) fn greeting(&self) -> String {
        let count = self.table_names.borrow().len();
        let tables = if count == 1 { "1 table".to_owned() } else { format!("{count} tables") };
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("quipu {version}, {} with {tables}. `help` teaches, Tab completes.", self.dir.display());
        if self.table.is_some() {
            text = format!("{text}\n{}", self.describe());
        }
        text
    }
}
