//! A table of rows as it is now.

use std::sync::{Arc, Mutex, PoisonError};

use quipu::{Db, ErrorKind, Result, Snapshot};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::definition::document::TableNumber;
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::index::EntriesIn;
use crate::read::ordered::Ordered;
use crate::read::row::{Row, is_stale};
use crate::read::table::TableIn;
use crate::schema::table::TableSchema;
use crate::transaction::{RowTransaction, dropped};
use crate::value::Value;

/// A table as it is now. Reads see the last commit; each write is a commit of its own, with the database's durability.
///
/// It follows its table when that gets another name or other columns.
pub struct RowTable {
    shared: Arc<Shared>,
    number: TableNumber,
    /// The definition, and how many changes there were when it was looked up.
    known: Mutex<(u64, Arc<TableDefinition>)>,
}

impl RowTable {
    /// The table of this name; none if there is none.
    pub(crate) fn open(shared: &Arc<Shared>, name: &str) -> Result<Option<RowTable>> {
        let changes = shared.changes.made();
        let definition = shared.definition(&shared.db, name)?;
        Ok(definition.map(|definition| RowTable {
            shared: Arc::clone(shared),
            number: definition.number,
            known: Mutex::new((changes, definition)),
        }))
    }

    /// The present definition.
    fn definition(&self) -> Result<Arc<TableDefinition>> {
        let changes = self.shared.changes.made();
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.0 == changes {
                return Ok(Arc::clone(&known.1));
            }
        }
        self.look_up(changes)
    }

    #[cold]
    fn look_up(&self, changes: u64) -> Result<Arc<TableDefinition>> {
        let definition = self.definition_at(&self.shared.db.snapshot())?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = (changes, Arc::clone(&definition));
        Ok(definition)
    }

    /// The definition of one moment, so that the table's name and its definition belong together.
    fn definition_at(&self, snapshot: &Snapshot) -> Result<Arc<TableDefinition>> {
        let catalogue = self.shared.catalogue().ok_or_else(dropped)?;
        let document = store::document_if_there(&snapshot.table(catalogue)?, self.number)?.ok_or_else(dropped)?;
        self.shared.definition(snapshot, &document.schema.table)?.ok_or_else(dropped)
    }

    /// Asks the table as it was at one moment.
    pub(crate) fn at_snapshot<R>(&self, ask: impl FnOnce(TableIn<'_, Snapshot>) -> Result<R>) -> Result<R> {
        let snapshot = self.shared.db.snapshot();
        ask(TableIn::new(&snapshot, self.definition_at(&snapshot)?)?)
    }

    /// Asks the table as it is now, again if its definition has changed meanwhile.
    fn ask<R>(&self, question: impl Fn(&TableIn<'_, Db>) -> Result<R>) -> Result<R> {
        for _ in 0..2 {
            match question(&TableIn::new(&self.shared.db, self.definition()?)?) {
                // A row of a new layout is there before all know of it; and what was dropped was looked up before.
                Err(error) if is_stale(&error) || error.kind() == ErrorKind::Missing => {
                    self.look_up(self.shared.changes.made())?;
                }
                answer => return answer,
            }
        }
        question(&TableIn::new(&self.shared.db, self.definition()?)?)
    }

    /// Writes to the table, as one commit.
    pub(crate) fn write<R>(&self, work: impl FnOnce(TableIn<'_, RowTransaction<'_>>) -> Result<R>) -> Result<R> {
        self.shared.write(None, |transaction| {
            let definition = transaction.definition_of_handle(self.number)?;
            work(TableIn::new(transaction, definition)?)
        })
    }

    /// The number of the table, which stays when it gets another name, and which no other table has or had.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What is declared of the table now.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it was dropped. The same holds for all questions.
    pub fn schema(&self) -> Result<TableSchema> {
        Ok(self.definition()?.document.schema.clone())
    }

    /// The row of this key: see [`TableIn::get`].
    ///
    /// # Errors
    /// Those of [`TableIn::get`].
    pub fn get<'v>(&self, key: impl IntoValues<'v>) -> Result<Option<Row>> {
        let key = key.into_values();
        let row = self.ask(|table| table.get(key.as_slice()))?;
        match &row {
            Some(found) if found.view().is_err_and(|error| is_stale(&error)) => {
                self.look_up(self.shared.changes.made())?;
                self.ask(|table| table.get(key.as_slice()))
            }
            _ => Ok(row),
        }
    }

    /// Whether there is a row of this key.
    ///
    /// # Errors
    /// Those of [`TableIn::get`].
    pub fn contains<'v>(&self, key: impl IntoValues<'v>) -> Result<bool> {
        let key = key.into_values();
        self.ask(|table| table.contains(key.as_slice()))
    }

    /// The number of rows.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    pub fn len(&self) -> Result<u64> {
        self.ask(|table| table.len())
    }

    /// Whether there are no rows.
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The number of rows in a range: see [`Ordered::count`].
    ///
    /// # Errors
    /// Those of [`Ordered::count`].
    pub fn count<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        let span = span.into();
        self.ask(|table| table.count(&span))
    }

    /// Asks the table as it is now, without a snapshot: for questions that are one look at its rows. The answer must
    /// not be a row, which may be of columns that are not known yet.
    ///
    /// # Errors
    /// Those of `question`.
    pub fn with<R>(&self, question: impl Fn(&TableIn<'_, Db>) -> Result<R>) -> Result<R> {
        self.ask(question)
    }

    /// Asks the entries of an index as they are now, without a snapshot.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, IndexSchema, Ordered, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// # let towns = TableSchema::new("towns").key(["name"]).index(IndexSchema::new("country", ["country"]));
    /// # let towns = towns.column(Column::new("name", DataType::TEXT)).column(Column::new("country", DataType::TEXT));
    /// # let towns = database.create_table(&towns)?;
    /// towns.insert(("Cusco", "PE"))?;
    /// assert_eq!(towns.with_index("country", |country| country.count(Span::eq("PE")))?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of that name, and those of `question`.
    pub fn with_index<R>(&self, index: &str, question: impl Fn(&EntriesIn<'_, Db>) -> Result<R>) -> Result<R> {
        self.ask(|table| question(&table.entries(index)?))
    }

    /// Adds a row: see [`TableIn::insert`].
    ///
    /// # Errors
    /// Those of [`TableIn::insert`] and of a commit.
    pub fn insert<'v>(&self, values: impl IntoValues<'v>) -> Result<()> {
        let values = values.into_values();
        self.write(|table| table.insert_values(&values))
    }

    /// Adds a row with values for some columns, and returns it: see [`TableIn::insert_columns`].
    ///
    /// # Errors
    /// Those of [`TableIn::insert`] and of a commit.
    pub fn insert_columns<'v>(&self, columns: &[&str], values: impl IntoValues<'v>) -> Result<Row> {
        self.write(|table| table.insert_columns(columns, values))
    }

    /// Adds a row, or replaces the one of its key: see [`TableIn::put`].
    ///
    /// # Errors
    /// Those of [`TableIn::put`] and of a commit.
    pub fn put<'v>(&self, values: impl IntoValues<'v>) -> Result<bool> {
        self.write(|table| table.put(values))
    }

    /// Changes columns of a row: see [`TableIn::update`].
    ///
    /// # Errors
    /// Those of [`TableIn::update`] and of a commit.
    pub fn update<'v>(&self, key: impl IntoValues<'v>, changes: &[(&str, Value<'_>)]) -> Result<bool> {
        self.write(|table| table.update(key, changes))
    }

    /// Removes a row: see [`TableIn::delete`].
    ///
    /// # Errors
    /// Those of [`TableIn::delete`] and of a commit.
    pub fn delete<'v>(&self, key: impl IntoValues<'v>) -> Result<bool> {
        self.write(|table| table.delete(key))
    }

    /// Removes all rows of a range, in one commit: see [`TableIn::delete_range`]. Returns how many there were.
    ///
    /// # Errors
    /// Those of [`TableIn::delete_range`] and of a commit.
    pub fn delete_range<'v>(&self, span: impl Into<Span<'v>>) -> Result<u64> {
        self.write(|table| table.delete_range(span))
    }
}
