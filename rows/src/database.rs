//! The tables of rows in an open database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quipu::{Db, Durability, ErrorKind, Progress, ReadableTable, Result, Snapshot};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::indexes::BuildOptions;
use crate::definition::document::TableNumber;
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::encoding::values::IntoValues;
use crate::read::index::EntriesIn;
use crate::read::ordered::Ordered;
use crate::read::row::{Row, is_stale};
use crate::read::scan::Scan;
use crate::read::table::TableIn;
use crate::schema::column::Column;
use crate::schema::constraint::{Check, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::transaction::isolation::Isolation;
use crate::transaction::{RowTransaction, dropped, missing};
use crate::value::Value;

/// The tables of rows in an open [`Db`]. A cheap handle: clones, and all that are opened of the same database, share
/// what they know.
///
/// ```
/// use quipu::{Db, Options};
/// use quipu_rows::{Column, DataType, Database, IndexSchema, Ordered, Span, TableSchema};
///
/// # fn main() -> quipu::Result<()> {
/// # let options = Options::without_files();
/// let database = Database::open(&Db::open("/data/air", options)?)?;
/// let flights = TableSchema::new("flights")
///     .column(Column::new("day", DataType::I16))
///     .column(Column::new("number", DataType::I32))
///     .column(Column::new("origin", DataType::TEXT).not_null())
///     .key(["day", "number"])
///     .index(IndexSchema::new("airport", ["origin", "day"]));
/// database.create_table(&flights)?;
/// database.write(|transaction| {
///     let flights = transaction.table("flights")?;
///     for number in 0..1_000 {
///         flights.insert((number % 30, number, ["JFK", "LGA", "EWR"][number as usize % 3]))?;
///     }
///     Ok(())
/// })?;
/// let now = database.snapshot();
/// let airport = now.table("flights")?.index("airport")?;
/// assert_eq!(airport.count(Span::eq("JFK"))?, 334);
/// let page = airport.page(Span::eq(("LGA", 10)), 3, 2)?;
/// assert_eq!((page.rows.len(), page.total), (2, 33));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

impl Database {
    /// The tables of rows of a database. What a crash has left half way is removed.
    ///
    /// # Errors
    /// [`Version`](ErrorKind::Version) if a newer program has written them, [`Corrupt`](ErrorKind::Corrupt), and those
    /// of a commit.
    pub fn open(db: &Db) -> Result<Database> {
        Ok(Database { shared: Shared::of(db, Shared::recover)? })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The database of the engine.
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// The names of all tables.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<Vec<String>> {
        names(self.shared.catalogue())
    }

    /// What the trees of the engine are that belong to rows: by the name of the tree, the name of its table, or that of
    /// a table and its index with a point between them.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tree_names(&self) -> Result<BTreeMap<String, String>> {
        let Some(catalogue) = self.shared.catalogue() else { return Ok(BTreeMap::new()) };
        let mut names = BTreeMap::new();
        for (name, entry) in store::entries(catalogue)? {
            let document = store::document(catalogue, entry.number)?;
            names.insert(store::tree_name(document.tree), name.clone());
            for (index, place) in document.schema.indexes.iter().zip(&document.indexes) {
                let name = format!("{name}.{}", index.name);
                if let Some(missed) = place.missed {
                    names.insert(store::tree_name(missed), format!("{name} (missed)"));
                }
                names.insert(store::tree_name(place.tree), name);
            }
        }
        Ok(names)
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none, and those of reading the catalogue.
    pub fn table(&self, name: &str) -> Result<RowTable> {
        self.open_table(name)?.ok_or_else(|| missing(name))
    }

    /// The table of this name; none if there is none.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn open_table(&self, name: &str) -> Result<Option<RowTable>> {
        let changes = self.shared.changes();
        let definition = self.shared.definition(&self.shared.db, name)?;
        Ok(definition.map(|definition| RowTable {
            shared: Arc::clone(&self.shared),
            number: definition.number,
            known: Mutex::new((changes, definition)),
        }))
    }

    /// Runs `work` as the single writer and commits what it did. Its reads and writes never conflict. If it fails,
    /// everything it did is rolled back and its error returned. Other writers wait meanwhile, readers do not.
    ///
    /// # Errors
    /// Those of `work` and of a commit.
    pub fn write<T>(&self, work: impl FnOnce(&RowTransaction<'_>) -> Result<T>) -> Result<T> {
        self.shared.write(None, work)
    }

    /// Like [`Database::write`], with this durability.
    ///
    /// # Errors
    /// Those of `work` and of a commit.
    pub fn write_with<T>(
        &self,
        durability: Durability,
        work: impl FnOnce(&RowTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.shared.write(Some(durability), work)
    }

    /// Begins an optimistic transaction: others write meanwhile; if one of their commits changes what this transaction
    /// has read, its own commit fails with [`Conflict`](ErrorKind::Conflict).
    pub fn begin(&self) -> RowTransaction<'static> {
        self.begin_with(Isolation::Serializable)
    }

    /// Like [`Database::begin`], with this isolation.
    pub fn begin_with(&self, isolation: Isolation) -> RowTransaction<'static> {
        RowTransaction::optimistic(Arc::clone(&self.shared), isolation)
    }

    /// All tables at this moment, with their definitions of now. O(1), whatever their size.
    pub fn snapshot(&self) -> RowSnapshot {
        RowSnapshot { shared: Arc::clone(&self.shared), snapshot: self.shared.db.snapshot() }
    }

    /// Creates a table with its indexes and constraints. A foreign key without an index that begins with its columns
    /// gets one, named after it with `_index` behind.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists) if there is one of its name; [`Invalid`](ErrorKind::Invalid): what does not go
    /// together; those of a commit.
    pub fn create_table(&self, schema: &TableSchema) -> Result<RowTable> {
        self.shared.create_table(schema)?;
        self.table(&schema.table)
    }

    /// Drops a table with its rows and indexes. Returns whether there was one. Earlier snapshots still see it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if foreign keys of other tables refer to it; those of a commit.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.shared.drop_table(name)
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing), [`Exists`](ErrorKind::Exists), and those of a commit.
    pub fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        self.shared.rename_table(name, new_name)
    }

    /// Adds a column behind the others. No row is touched: those that there are have its default, also if the default
    /// changes later.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is one of its name, or it is NOT NULL, has no default and the table has
    /// rows; [`Missing`](ErrorKind::Missing) if there is no such table; those of a commit. So it is for the changes
    /// below.
    pub fn add_column(&self, table: &str, column: Column) -> Result<()> {
        self.shared.add_column(table, column)
    }

    /// Drops a column. No row is touched.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is none of that name, or it is used by the primary key, an index, a
    /// check or a foreign key, which are named; those of [`Database::add_column`].
    pub fn drop_column(&self, table: &str, column: &str) -> Result<()> {
        self.shared.drop_column(table, column)
    }

    /// Gives a column another name, also where indexes, checks and foreign keys name it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is none of that name, or one of the new one; those of
    /// [`Database::add_column`].
    pub fn rename_column(&self, table: &str, column: &str, new_name: &str) -> Result<()> {
        self.shared.rename_column(table, column, new_name)
    }

    /// Gives a column another default, an expression without columns, or none. Rows that there are keep their values.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if it is not of the column's type; those of [`Database::add_column`].
    pub fn set_default(&self, table: &str, column: &str, default: Option<&str>) -> Result<()> {
        self.shared.set_default(table, column, default.map(str::to_owned))
    }

    /// The number that the next row is given in an identity column, if no open transaction has it; none if all numbers
    /// of the column's type have been given out.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is no such table, [`Invalid`](ErrorKind::Invalid) if the column has no
    /// numbers of the table; those of reading.
    pub fn next_number(&self, table: &str, column: &str) -> Result<Option<i128>> {
        self.shared.next_number(table, column)
    }

    /// Sets the number that the next row is given in an identity column: a way on where all have been given out, and a
    /// way to begin at another number than 1. Rows keep their numbers. A number that a row has already is passed over
    /// where the column is of the primary key or of a unique index; where it is not, it is given out a second time.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Identity, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/bills", Options::without_files())?)?;
    /// let bills = TableSchema::new("bills")
    ///     .column(Column::new("number", DataType::I32).identity(Identity::Always))
    ///     .column(Column::new("payer", DataType::TEXT))
    ///     .key(["number"]);
    /// let bills = database.create_table(&bills)?;
    /// database.set_next_number("bills", "number", 2027_0001)?;
    /// assert_eq!(bills.insert_columns(&["payer"], "Ana")?.get("number")?, Value::Int(2027_0001));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is no such table, [`Invalid`](ErrorKind::Invalid) if the column has no
    /// numbers of the table or is of a type without this one; those of a commit.
    pub fn set_next_number(&self, table: &str, column: &str, number: i128) -> Result<()> {
        self.shared.set_next_number(table, column, number)
    }

    /// Makes a column NOT NULL, after a look at all rows beside writers.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) with the first row that has NULL there; those of [`Database::add_column`].
    pub fn set_not_null(&self, table: &str, column: &str, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.set_not_null(table, column, progress)
    }

    /// Lets a column be NULL.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if it is of the primary key, or has numbers of the table; those of
    /// [`Database::add_column`].
    pub fn drop_not_null(&self, table: &str, column: &str) -> Result<()> {
        self.shared.drop_not_null(table, column)
    }

    /// Adds a check, after a look at all rows beside writers.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) with the first row that breaks it; those of [`Database::add_column`].
    pub fn add_check(&self, table: &str, check: Check, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.add_check(table, check, progress)
    }

    /// Adds a foreign key, after a look at all rows beside writers; and an index for it if there is none.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) with the first row that refers to nothing; those of [`Database::add_column`].
    pub fn add_foreign_key(
        &self,
        table: &str,
        foreign_key: ForeignKey,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.shared.add_foreign_key(table, foreign_key, progress)
    }

    /// Drops a check or a foreign key.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of that name; those of [`Database::add_column`].
    pub fn drop_constraint(&self, table: &str, name: &str) -> Result<()> {
        self.shared.drop_constraint(table, name)
    }

    /// Creates an index. Writers go on while it is built; `progress` is told how far that is.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists) if there is one of its name, or it is to be unique and two rows have the same
    /// values, which are named; [`Invalid`](ErrorKind::Invalid) if it names columns that are not there; those of
    /// [`Database::add_column`]. Then nothing of it is left.
    pub fn create_index(&self, table: &str, index: IndexSchema, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.create_index_with(table, index, &BuildOptions::default(), progress)
    }

    /// Like [`Database::create_index`], with limits of its own.
    ///
    /// # Errors
    /// Those of [`Database::create_index`].
    pub fn create_index_with(
        &self,
        table: &str,
        index: IndexSchema,
        options: &BuildOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.shared.create_index(table, index, options, progress)
    }

    /// Drops an index.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of that name, [`Invalid`](ErrorKind::Invalid) if a foreign key
    /// needs it; those of [`Database::add_column`].
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.shared.drop_index(table, index)
    }

    /// Gives an index, a check or a foreign key another name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of that name, [`Invalid`](ErrorKind::Invalid) if there is one
    /// of the new one; those of [`Database::add_column`].
    pub fn rename_constraint(&self, table: &str, name: &str, new_name: &str) -> Result<()> {
        self.shared.rename_constraint(table, name, new_name)
    }
}

fn names(catalogue: Option<&impl ReadableTable>) -> Result<Vec<String>> {
    let Some(catalogue) = catalogue else { return Ok(Vec::new()) };
    Ok(store::entries(catalogue)?.into_iter().map(|(name, _)| name).collect())
}

/// All tables of rows at one moment, with the definitions that they had then. It owns itself and can go to other
/// threads; while it lives, pages that change are kept twice.
#[derive(Clone)]
pub struct RowSnapshot {
    shared: Arc<Shared>,
    snapshot: Snapshot,
}

impl RowSnapshot {
    /// The table that had this name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there was none, and those of reading the catalogue.
    pub fn table(&self, name: &str) -> Result<TableIn<'_, Snapshot>> {
        let definition = self.shared.definition(&self.snapshot, name)?.ok_or_else(|| missing(name))?;
        TableIn::new(&self.snapshot, definition)
    }

    /// The names of all tables that there were.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<Vec<String>> {
        let Some(catalogue) = self.shared.catalogue() else { return Ok(Vec::new()) };
        match self.snapshot.table(catalogue) {
            Ok(catalogue) => names(Some(&catalogue)),
            Err(error) if error.kind() == ErrorKind::Missing => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// A scan of the rows of a table, as batches of columns.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, ColumnValues, DataType, Database, Span, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// # let towns = TableSchema::new("towns").key(["name"]);
    /// # let towns = towns.column(Column::new("name", DataType::TEXT)).column(Column::new("people", DataType::I32));
    /// # let towns = database.create_table(&towns)?;
    /// towns.insert(("Cusco", 428_450))?;
    /// towns.insert(("Lima", 10_000_000))?;
    /// let mut batches = database.snapshot().scan("towns")?.columns(&["people"])?.span(Span::ge("D"))?.batches()?;
    /// let mut batch = batches.new_batch();
    /// while batches.read_into(&mut batch)? {
    ///     assert_eq!(batch.columns()[0].values, ColumnValues::I32(vec![10_000_000]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`RowSnapshot::table`].
    pub fn scan(&self, table: &str) -> Result<Scan> {
        let definition = self.shared.definition(&self.snapshot, table)?.ok_or_else(|| missing(table))?;
        Ok(Scan::new(self.snapshot.clone(), definition))
    }

    /// The snapshot of the engine.
    pub fn engine(&self) -> &Snapshot {
        &self.snapshot
    }
}

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
    /// The definition of now.
    fn definition(&self) -> Result<Arc<TableDefinition>> {
        let changes = self.shared.changes();
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
                    self.look_up(self.shared.changes())?;
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

    /// What is declared of the table now.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it was dropped. So it is for all questions.
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
                self.look_up(self.shared.changes())?;
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
}
