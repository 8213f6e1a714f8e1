//! A session of the shell: the table in use, the open transaction, the switches; runs one command at a time.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use quipu::{Error, ErrorKind, Measures, ReadableTable, Savepoint, Table, TableOptions, WritableTable};
use quipu_rows::{
    BuildOptions, Column, Constraint, DataType, Database, IndexBuild, IndexSchema, Ordered, RowTransaction,
    TableSchema, Value, Violation,
};
use serde_json::{Value as Json, json};

use super::answer::Answer;
use super::command::{Command, Creation};
use super::{help, reading};
use crate::failure::{Failure, Result};
use crate::grid::{Grid, counted, thousands};
use crate::import::parse_type;
use crate::interrupts;
use crate::key::{self, KeyNotation};
use crate::progress::Follower;
use crate::query::{Rows, Strings, shown_columns};
use crate::relation::{self, Relation};
use crate::shell_words::Word;
use crate::stats;
use crate::table_files::load::key_column;

/// The state between two commands.
pub(super) struct Session {
    database: Database,
    dir: PathBuf,
    table: Option<Relation>,
    transaction: Option<RowTransaction<'static>>,
    /// The names of the open transaction's savepoints, the first set first.
    savepoints: Vec<(String, Savepoint)>,
    pub(super) json: bool,
    pub(super) timing: bool,
    /// The names of all tables, for completion.
    pub(super) table_names: Rc<RefCell<Vec<String>>>,
}

impl Session {
    pub(super) fn new(database: Database, dir: PathBuf, timing: bool) -> Result<Session> {
        let table_names = Rc::default();
        let mut session = Session {
            database,
            dir,
            table: None,
            transaction: None,
            savepoints: Vec::new(),
            json: false,
            timing,
            table_names,
        };
        session.refresh_names()?;
        Ok(session)
    }

    /// The table to begin with: the one named, or the only one there is.
    pub(super) fn choose(&mut self, named: Option<&str>) -> Result<()> {
        let mut tables = self.database.tables()?;
        tables.extend(relation::strings(&self.database).iter().map(|table| table.name().to_owned()));
        let name = match (named, tables.as_slice()) {
            (Some(name), _) => name.to_owned(),
            (None, [only]) => only.clone(),
            _ => return Ok(()),
        };
        self.use_table(&name)
    }

    /// What stands before the cursor.
    pub(super) fn prompt(&self) -> String {
        let name = self.table.as_ref().map_or_else(|| "quipu".to_owned(), Relation::name);
        format!("{name}{}> ", if self.transaction.is_some() { "*" } else { "" })
    }

    /// Whether a transaction is open.
    pub(super) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    fn refresh_names(&mut self) -> Result<()> {
        *self.table_names.borrow_mut() = relation::names(&self.database)?;
        Ok(())
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
                Ok(Answer::line(self.describe()?).with("table", table.as_str()))
            }
            Command::Tables => self.tables(),
            Command::Schema => self.schema(),
            Command::Create(creation) => self.create(creation),
            Command::Index { name, columns, unique } => self.index(name, columns, *unique),
            Command::Number { column, next } => self.number(column, *next),
            Command::Drop { table } => self.drop(table),
            Command::Rebuild { index } => self.rebuild(index),
            Command::Stats => {
                let stats = stats::of(&self.database)?;
                Ok(Answer { grid: Some(stats::grid(&stats)), below: stats::text(&stats), ..Answer::default() }
                    .with("stats", stats::json(&stats)))
            }
            Command::Put { key, value } => self.write(key, value, Writing::Put),
            Command::Insert { key, value } => self.write(key, value, Writing::Insert),
            Command::Update { key, value } => self.write(key, value, Writing::Update),
            Command::Remove { key } => self.remove(key),
            Command::Begin => {
                if self.transaction.is_some() {
                    return Err(Failure::new("a transaction is open; `commit` or `rollback` ends it"));
                }
                self.transaction = Some(self.database.begin());
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
                let info = self.database.db().checkpoint()?;
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
            question => self.answer(question)?.ok_or_else(|| Failure::new("a key is needed")),
        }
    }

    /// The answer to a question about the table in use, in the open transaction or now.
    fn answer(&self, question: &Command) -> Result<Option<Answer>> {
        let mut random = rand::rng();
        match (self.current()?, &self.transaction) {
            (Relation::Rows(name), Some(transaction)) => {
                let table = transaction.table(name)?;
                reading::answer(question, &Rows::of_table(&table, table.schema()), &mut random)
            }
            (Relation::Rows(name), None) => {
                let snapshot = self.database.snapshot();
                let table = snapshot.table(name)?;
                reading::answer(question, &Rows::of_table(&table, table.schema()), &mut random)
            }
            (Relation::Index { table, index }, Some(transaction)) => {
                let table = transaction.table(table)?;
                let index = table.index(index)?;
                reading::answer(question, &Rows::of_index(&index, table.schema(), index.schema()), &mut random)
            }
            (Relation::Index { table, index }, None) => {
                let snapshot = self.database.snapshot();
                let table = snapshot.table(table)?;
                let index = table.index(index)?;
                reading::answer(question, &Rows::of_index(&index, table.schema(), index.schema()), &mut random)
            }
            (Relation::Strings(table), transaction) => {
                let measures = table.options().measures;
                match transaction {
                    Some(transaction) => {
                        let of = &transaction.engine().table(table)?;
                        reading::answer(question, &Strings { of, measures }, &mut random)
                    }
                    None => reading::answer(question, &Strings { of: table, measures }, &mut random),
                }
            }
        }
    }

    /// The table in use.
    fn current(&self) -> Result<&Relation> {
        self.table.as_ref().ok_or_else(|| {
            let names = self.table_names.borrow().join(", ");
            let choice = if names.is_empty() { "`create` makes one".to_owned() } else { format!("there are {names}") };
            Failure::new(format!("no table is in use; {choice}"))
        })
    }

    /// The table in use, which must have columns.
    fn current_rows(&self) -> Result<&str> {
        match self.current()? {
            Relation::Rows(name) => Ok(name),
            Relation::Index { table, index } => {
                Err(Failure::new(format!("table {table}.{index} is an index: `use {table}` first")))
            }
            Relation::Strings(table) => Err(Failure::new(format!("table {} has no columns", table.name()))),
        }
    }

    fn use_table(&mut self, name: &str) -> Result<()> {
        self.table = Some(Relation::find(&self.database, name)?);
        Ok(())
    }

    fn describe(&self) -> Result<String> {
        let Some(relation) = &self.table else { return Ok(String::new()) };
        let columns = |columns: &mut dyn Iterator<Item = &Column>| -> String {
            columns.map(|column| format!("{} {}", column.name, column.data_type)).collect::<Vec<_>>().join(", ")
        };
        Ok(match relation {
            Relation::Strings(table) => format!("{}: keys and values are strings", table.name()),
            Relation::Rows(name) => {
                let schema = self.database.table(name)?.schema()?;
                let is_key = |column: &&Column| schema.key.iter().any(|key| key_column(key) == column.name);
                let key = schema.key.iter().filter_map(|name| schema.place(key_column(name)));
                let key = columns(&mut key.map(|place| &schema.columns[place]));
                let value = columns(&mut schema.columns.iter().filter(|column| !is_key(column)));
                let value = if value.is_empty() { value } else { format!("; value {value}") };
                format!("{name}: key {key}{value}")
            }
            Relation::Index { table, index } => {
                let schema = self.database.table(table)?.schema()?;
                let declared = schema.indexes.iter().find(|declared| declared.name == *index);
                let declared = declared.map_or_else(|| index.clone(), IndexSchema::to_string);
                format!("{table}.{index}: index {declared} of table {table}")
            }
        })
    }

    fn tables(&self) -> Result<Answer> {
        let mut grid = Grid::new([("table", false), ("rows", true), ("key", false), ("index of", false)]);
        let mut list = Vec::new();
        let mut add =
            |name: String, rows: u64, columns: Option<Vec<String>>, key: Option<Vec<String>>, of: Option<&str>| {
                let key_text = key.as_ref().map_or_else(|| "(string)".to_owned(), |key| key.join(","));
                list.push(json!({"table": name, "rows": rows, "index_of": of, "columns": columns, "key": key}));
                grid.push(vec![name, thousands(rows), key_text, of.unwrap_or_default().to_owned()]);
            };
        let snapshot = self.database.snapshot();
        for name in snapshot.tables()? {
            let table = snapshot.table(&name)?;
            let schema = table.schema();
            let columns = shown_columns(schema).into_iter().map(|(name, _)| name).collect();
            add(name.clone(), table.len()?, Some(columns), Some(schema.key.clone()), None);
            for declared in &schema.indexes {
                // One that is still being built cannot be asked yet.
                let Ok(index) = table.entries(&declared.name) else { continue };
                let full_name = format!("{name}.{}", declared.name);
                add(full_name, index.len()?, None, Some(declared.columns.clone()), Some(&name));
            }
        }
        for table in relation::strings(&self.database) {
            add(table.name().to_owned(), table.len()?, None, None, None);
        }
        let summary = match list.len() {
            0 => "no table; `create` makes one",
            _ => "",
        };
        Ok(Answer { grid: Some(grid), summary: summary.to_owned(), ..Answer::default() }
            .with("tables", Json::from(list)))
    }

    fn schema(&self) -> Result<Answer> {
        let schema = self.database.table(self.current_rows()?)?.schema()?;
        let mut lines = vec![format!("table {}", schema.table)];
        lines.extend(schema.columns.iter().map(|column| format!("  {column}")));
        lines.push(format!("  key ({})", schema.key.join(", ")));
        lines.extend(schema.indexes.iter().map(|index| format!("  index {index}")));
        lines.extend(schema.checks.iter().map(|check| format!("  check {} ({})", check.name, check.condition)));
        lines.extend(schema.foreign_keys.iter().map(|key| {
            let (columns, to) = (key.columns.join(", "), key.references.join(", "));
            let (name, table, delete, update) = (&key.name, &key.table, key.on_delete, key.on_update);
            format!("  foreign key {name} ({columns}) to {table} ({to}), on delete {delete}, on update {update}")
        }));
        lines.extend(schema.sum.iter().map(|sum| format!("  sum {sum}")));
        let json: Json = serde_json::from_str(&schema.to_json()).unwrap_or(Json::Null);
        Ok(Answer { text: lines.join("\n") + "\n", ..Answer::default() }.with("schema", json))
    }

    fn create(&mut self, creation: &Creation) -> Result<Answer> {
        self.refuse_in_transaction("create")?;
        let name = creation.table.as_str();
        if Relation::find(&self.database, name).is_ok() {
            return Err(Failure::new(format!("table {name} exists")));
        }
        if creation.key.is_empty() {
            if !creation.value.is_empty() || !creation.indexes.is_empty() || creation.sum.is_some() {
                return Err(Failure::new("columns of the value, indexes and sums need columns of the key"));
            }
            let measures = Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS };
            self.database.db().create_table(name, TableOptions { measures, ..TableOptions::default() })?;
        } else {
            let column = |(name, kind): &(String, String)| -> Result<Column> {
                Ok(Column::new(name.clone(), parse_type(kind).map_err(Failure::new)?))
            };
            let index = |(name, columns): &(String, Vec<String>)| IndexSchema::new(name.clone(), columns.clone());
            self.database.create_table(&TableSchema {
                table: name.to_owned(),
                columns: creation.key.iter().chain(&creation.value).map(column).collect::<Result<_>>()?,
                key: creation.key.iter().map(|(name, _)| name.clone()).collect(),
                indexes: creation.indexes.iter().map(index).collect(),
                sum: creation.sum.clone(),
                ..TableSchema::default()
            })?;
        }
        self.refresh_names()?;
        self.use_table(name)?;
        Ok(Answer::line(self.describe()?).with("table", name))
    }

    fn index(&mut self, name: &str, columns: &[String], unique: bool) -> Result<Answer> {
        self.refuse_in_transaction("index")?;
        let index = IndexSchema { unique, ..IndexSchema::new(name, columns.iter().map(String::as_str)) };
        build(self.database.begin_index(self.current_rows()?, index, &BuildOptions::default())?)?;
        self.refresh_names()?;
        Ok(Answer::line("created").with("done", true))
    }

    fn rebuild(&mut self, name: &str) -> Result<Answer> {
        self.refuse_in_transaction("rebuild")?;
        let Relation::Index { table, index } = Relation::find(&self.database, name)? else {
            return Err(Failure::new(format!("{name} is not an index; name one as TABLE.INDEX")));
        };
        build(self.database.begin_rebuild(&table, &index, &BuildOptions::default())?)?;
        Ok(Answer::line("rebuilt").with("done", true))
    }

    /// Tells, or sets, the number that an identity column gives out next.
    fn number(&self, column: &str, next: Option<i128>) -> Result<Answer> {
        let table = self.current_rows()?;
        if let Some(next) = next {
            self.refuse_in_transaction("number")?;
            self.database.set_next_number(table, column, next)?;
        }
        let next = self.database.next_number(table, column)?;
        let text = next.map_or_else(|| "all numbers have been given out".to_owned(), |next| next.to_string());
        // Each integer type that a column may have fits JSON's numbers.
        let json = match next {
            Some(next) if next < 0 => json!(next as i64),
            Some(next) => json!(next as u64),
            None => Json::Null,
        };
        Ok(Answer::line(text).with("next", json))
    }

    fn drop(&mut self, name: &str) -> Result<Answer> {
        self.refuse_in_transaction("drop")?;
        match Relation::find(&self.database, name)? {
            Relation::Rows(table) => drop(self.database.drop_table(&table)?),
            Relation::Index { table, index } => self.database.drop_index(&table, &index)?,
            Relation::Strings(table) => {
                self.refuse_tables_of_server(&table)?;
                self.database.db().drop_table(table.name())?;
            }
        }
        self.refresh_names()?;
        // The table in use may have been that one, or an index of it.
        let gone = |used: &Relation| !self.table_names.borrow().contains(&used.name());
        if self.table.as_ref().is_some_and(gone) {
            self.table = None;
        }
        Ok(Answer::line("dropped").with("done", true))
    }

    /// Writes a row of the table in use.
    fn write(&self, key: &Word, value: &[Word], writing: Writing) -> Result<Answer> {
        let there_is_one = || Failure::new("there is a row of that key; `put` replaces it");
        let done = match self.current()? {
            Relation::Strings(table) => {
                self.refuse_tables_of_server(table)?;
                let (key, value) = (key.bytes(), value.iter().map(Word::bytes).collect::<Vec<_>>().join(&b' '));
                self.change(|transaction| {
                    let table = transaction.engine().table(table)?;
                    match writing {
                        Writing::Put => table.put(&key, &value).map(|_| true),
                        Writing::Insert => table.insert(&key, &value).map(|()| true),
                        Writing::Update if !table.contains(&key)? => Ok(false),
                        Writing::Update => table.put(&key, &value).map(|_| true),
                    }
                })
            }
            _ => {
                let name = self.current_rows_to_write()?;
                let row = self.row(name, key, value)?;
                self.change(|transaction| {
                    let table = transaction.table(name)?;
                    let given: Vec<&str> = row.columns.iter().map(|(name, _)| name.as_str()).collect();
                    let values: Vec<Value<'_>> = row.columns.iter().map(|(_, value)| value.clone()).collect();
                    let changes = |named: &[(String, Value<'static>)]| -> Vec<(String, Value<'static>)> {
                        named.iter().filter(|(name, _)| !row.key_names.contains(name)).cloned().collect()
                    };
                    let update = |changes: Vec<(String, Value<'static>)>| {
                        let changes: Vec<(&str, Value<'_>)> =
                            changes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
                        table.update(row.key.as_slice(), &changes)
                    };
                    match writing {
                        Writing::Put if table.contains(row.key.as_slice())? => {
                            let mut all = changes(&row.columns);
                            all.extend(row.others.iter().map(|name| (name.clone(), Value::Null)));
                            update(all)
                        }
                        Writing::Put | Writing::Insert => table.insert_columns(&given, values).map(|_| true),
                        Writing::Update => update(changes(&row.columns)),
                    }
                })
            }
        };
        match done {
            Ok(true) => Ok(Answer::line("done").with("done", true)),
            Ok(false) => Ok(Answer::line("no row").with("done", false)),
            Err(error) if error.kind() == ErrorKind::Exists && writing == Writing::Insert => {
                match Violation::of(&error).map(|violation| violation.constraint) {
                    None | Some(Constraint::PrimaryKey) => Err(there_is_one()),
                    Some(_) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, key: &Word) -> Result<Answer> {
        let removed = match self.current()? {
            Relation::Strings(table) => {
                self.refuse_tables_of_server(table)?;
                self.change(|transaction| transaction.engine().table(table)?.remove(key.bytes()))?
            }
            _ => {
                let name = self.current_rows_to_write()?;
                let row = self.row(name, key, &[])?;
                self.change(|transaction| transaction.table(name)?.delete(row.key.as_slice()))?
            }
        };
        Ok(Answer::line(if removed { "removed" } else { "no row" }).with("removed", removed))
    }

    /// Refuses to change a table in which `quipu serve` keeps keys: they have a form of their own, and belong together.
    #[cfg_attr(not(feature = "server"), allow(clippy::unnecessary_wraps, clippy::unused_self))]
    fn refuse_tables_of_server(&self, table: &Table) -> Result<()> {
        #[cfg(feature = "server")]
        if quipu_server::keyspace::is_table_of_server(self.database.db(), table.name())? {
            let what = "keeps keys of `quipu serve`: read it here, and change keys by `quipu serve` and a client";
            return Err(Failure::new(format!("table {} {what}", table.name())));
        }
        let _ = table;
        Ok(())
    }

    /// The table in use, if rows of it can be written.
    fn current_rows_to_write(&self) -> Result<&str> {
        match self.current()? {
            Relation::Index { table, index } => {
                let what = format!("table {table}.{index} is an index: write to table {table}, and it follows");
                Err(Failure::new(what))
            }
            _ => self.current_rows(),
        }
    }

    /// The row that words say.
    fn row(&self, name: &str, key: &Word, value: &[Word]) -> Result<GivenRow> {
        let schema = self.database.table(name)?.schema()?;
        let is_key = |column: &Column| schema.key.iter().any(|key| key_column(key) == column.name);
        let key_columns: Vec<(String, DataType)> = (schema.key.iter())
            .filter_map(|name| schema.place(key_column(name)))
            .map(|place| (schema.columns[place].name.clone(), schema.columns[place].data_type))
            .collect();
        let rest = schema.columns.iter().filter(|column| !column.hidden && !is_key(column));
        let rest: Vec<(String, DataType)> = rest.map(|column| (column.name.clone(), column.data_type)).collect();
        let notation = KeyNotation { columns: key_columns };
        let key = notation.whole_key(key)?;
        let given = key::assignments(value, &rest, &notation.columns)?;
        let key_names: Vec<String> = notation.columns.into_iter().map(|(name, _)| name).collect();
        let mut columns: Vec<(String, Value<'static>)> = key_names.iter().cloned().zip(key.iter().cloned()).collect();
        let is_given = |place: usize| given.iter().any(|(given, _)| *given == place);
        let others = (0..rest.len()).filter(|&place| !is_given(place)).map(|place| rest[place].0.clone()).collect();
        columns.extend(given.into_iter().map(|(place, value)| (rest[place].0.clone(), value)));
        Ok(GivenRow { key, key_names, columns, others })
    }

    /// Changes something, in the open transaction or in one of its own.
    fn change<T>(&self, change: impl FnOnce(&RowTransaction<'_>) -> quipu::Result<T>) -> quipu::Result<T> {
        match &self.transaction {
            Some(transaction) => change(transaction),
            None => self.database.write(change),
        }
    }

    fn open_transaction(&self) -> Result<&RowTransaction<'static>> {
        self.transaction.as_ref().ok_or_else(|| Failure::new("no transaction is open; `begin` opens one"))
    }

    fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        match &self.transaction {
            Some(_) => {
                Err(Failure::new(format!("`{what}` is not a part of a transaction; `commit` or `rollback` first")))
            }
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
    pub(super) fn greeting(&self) -> Result<String> {
        let tables = counted(self.table_names.borrow().len(), "table");
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("quipu {version}, {} with {tables}. `help` teaches, Tab completes.", self.dir.display());
        if self.table.is_some() {
            text = format!("{text}\n{}", self.describe()?);
        }
        Ok(text)
    }
}

/// Builds an index, of which nothing is left if Ctrl-C stops it.
fn build(index: IndexBuild) -> Result<()> {
    let mut follower = Follower::default();
    let built = index.run(&mut |progress| {
        follower.show(progress);
        match interrupts::is_stopped() {
            true => Err(Error::new(ErrorKind::Invalid, "stopped")),
            false => Ok(()),
        }
    });
    drop(follower);
    built.map_err(|error| if interrupts::is_stopped() { Failure::Stopped } else { error.into() })
}

/// How a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// It is added, or replaces the one of its key.
    Put,
    /// It is added.
    Insert,
    /// The one of its key changes.
    Update,
}

/// A row that was typed.
struct GivenRow {
    key: Vec<Value<'static>>,
    key_names: Vec<String>,
    /// Names and values, those of the key first.
    columns: Vec<(String, Value<'static>)>,
    /// The names of the columns without a value.
    others: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use quipu::{Db, Options};

    use super::*;

    /// Of an index that was not built to its end nothing is left, and it can be built then.
    #[test]
    fn a_stopped_index_is_not_there() {
        let db = Db::open("/towns", Options::without_files()).unwrap();
        let mut session = Session::new(Database::open(&db).unwrap(), "/towns".into(), false).unwrap();
        let run = |session: &mut Session, line: &str| {
            session.run(&super::super::command::parse(line).unwrap().unwrap()).map(|answer| answer.summary)
        };
        run(&mut session, "create towns key city:text value people:i64").unwrap();
        for town in 0..3 {
            run(&mut session, &format!("put t{town} {town}")).unwrap();
        }
        run(&mut session, "index size:people").unwrap();
        let flag = Arc::new(AtomicBool::new(true));
        for line in ["index more:people", "rebuild towns.size", "scan", "groups 1", "split 2"] {
            let stopped = interrupts::obeying(&flag, || run(&mut session, line));
            assert!(matches!(stopped, Err(Failure::Stopped)), "{line}: {stopped:?}");
        }
        let schema = session.database.table("towns").unwrap().schema().unwrap();
        assert_eq!(schema.indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>(), ["size"]);
        assert_eq!(run(&mut session, "index more:people").unwrap(), "created");
        assert_eq!(run(&mut session, "scan").unwrap(), "3 rows");
    }
}
