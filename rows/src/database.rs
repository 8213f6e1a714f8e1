//! The tables of rows in an open database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quipu::{Db, Durability, Progress, Result};
use rand_core::Rng;

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::indexes::{BuildOptions, IndexBuild};
use crate::change::load::Load;
use crate::schema::column::Column;
use crate::schema::constraint::{Check, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::snapshot::RowSnapshot;
use crate::table::RowTable;
use crate::transaction::isolation::Isolation;
use crate::transaction::retry::Retry;
use crate::transaction::{RowTransaction, missing};

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
    /// [`Version`](quipu::ErrorKind::Version) if a newer program has written them,
    /// [`Corrupt`](quipu::ErrorKind::Corrupt), and those of a commit.
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
        store::names(self.shared.catalogue())
    }

    /// A number that is another one after each change of a definition: what was made of definitions is to be made again
    /// when it differs. O(1).
    ///
    /// # Errors
    /// [`Poisoned`](quipu::ErrorKind::Poisoned) if the database must be opened again.
    pub fn catalogue_version(&self) -> Result<u64> {
        self.shared.catalogue().map_or(Ok(0), quipu::Table::changed_at)
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
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none, and those of reading the catalogue.
    pub fn table(&self, name: &str) -> Result<RowTable> {
        self.open_table(name)?.ok_or_else(|| missing(name))
    }

    /// The table of this name; none if there is none.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn open_table(&self, name: &str) -> Result<Option<RowTable>> {
        RowTable::open(&self.shared, name)
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
    /// has read, its own commit fails with [`Conflict`](quipu::ErrorKind::Conflict).
    pub fn begin(&self) -> RowTransaction<'static> {
        self.begin_with(Isolation::Serializable)
    }

    /// Like [`Database::begin`], with this isolation.
    pub fn begin_with(&self, isolation: Isolation) -> RowTransaction<'static> {
        RowTransaction::optimistic(Arc::clone(&self.shared), isolation)
    }

    /// Like [`Database::begin_with`], at a snapshot: it reads what was there then.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if the snapshot is of another database.
    pub fn begin_at(&self, snapshot: &RowSnapshot, isolation: Isolation) -> Result<RowTransaction<'static>> {
        RowTransaction::at(Arc::clone(&self.shared), snapshot.engine(), isolation)
    }

    /// Runs `work` in an optimistic transaction and commits it. After a conflict it is run again, `attempts` times in
    /// all, and then as the single writer, which meets no conflict. So it succeeds in the end, however much others
    /// write.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/stock", Options::without_files())?)?;
    /// # let stock = TableSchema::new("stock").key(["item"]);
    /// # let stock = stock.column(Column::new("item", DataType::TEXT)).column(Column::new("left", DataType::I32));
    /// # database.create_table(&stock)?.insert(("apples", 5))?;
    /// database.retry(3, |transaction| {
    ///     let stock = transaction.table("stock")?;
    ///     let apples = stock.get("apples")?.expect("it is there");
    ///     let Value::Int(left) = apples.get("left")? else { return Ok(()) };
    ///     stock.update("apples", &[("left", Value::Int(left - 1))])?;
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work` but [`Conflict`](quipu::ErrorKind::Conflict), and those of a commit. [`Retry::run`] waits
    /// between attempts.
    pub fn retry<T>(&self, attempts: u32, work: impl FnMut(&RowTransaction<'_>) -> Result<T>) -> Result<T> {
        Retry { attempts, ..Retry::default() }.run_telling(&self.shared, &mut |_| (), work)
    }

    /// All tables at this moment, with their present definitions. O(1), whatever their size.
    pub fn snapshot(&self) -> RowSnapshot {
        RowSnapshot::now(&self.shared)
    }

    /// Begins to load rows into a table that has none.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, IndexSchema, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/squares", Options::without_files())?)?;
    /// let squares = TableSchema::new("squares").key(["n"]).index(IndexSchema::new("square", ["square"]).unique());
    /// let squares = squares.column(Column::new("n", DataType::I32)).column(Column::new("square", DataType::I64));
    /// let squares = database.create_table(&squares)?;
    /// let mut load = database.begin_load("squares", &Default::default())?;
    /// for n in (0..1_000).rev() {
    ///     load.push(&[Value::from(n), Value::from(i64::from(n) * i64::from(n))])?;
    /// }
    /// load.commit(&mut |_| ())?;
    /// assert_eq!(squares.len()?, 1_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is no such table; [`Invalid`](quipu::ErrorKind::Invalid) if it
    /// has rows, refers to itself or has an index that is being built; those of a commit.
    pub fn begin_load(&self, table: &str, options: &BuildOptions) -> Result<Load> {
        Load::begin(&self.shared, table, options)
    }

    /// Creates a table with its indexes and constraints. A foreign key without an index that begins with its columns
    /// gets one, named after it with `_index` appended.
    ///
    /// # Errors
    /// [`Exists`](quipu::ErrorKind::Exists) if there is one of its name; [`Invalid`](quipu::ErrorKind::Invalid): what
    /// does not go together; those of a commit.
    pub fn create_table(&self, schema: &TableSchema) -> Result<RowTable> {
        self.shared.alter(|definitions| definitions.create_table(schema))?;
        self.table(&schema.table)
    }

    /// Drops a table with its rows and indexes. Returns whether there was one. Earlier snapshots still see it.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if foreign keys of other tables refer to it; those of a commit.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.shared.alter(|definitions| definitions.drop_table(name))
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing), [`Exists`](quipu::ErrorKind::Exists), and those of a commit.
    pub fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.rename_table(name, new_name))
    }

    /// Adds a column after the others. No row is touched: those that there are have its default, also if the default
    /// changes later.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is one of its name, or it is NOT NULL, has no default and the
    /// table has rows; [`Missing`](quipu::ErrorKind::Missing) if there is no such table; those of a commit. The
    /// changes below have the same errors.
    pub fn add_column(&self, table: &str, column: Column) -> Result<()> {
        self.shared.alter(|definitions| definitions.add_column(table, column))
    }

    /// Drops a column. No row is touched.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is none of that name, or it is used by the primary key, an
    /// index, a check or a foreign key, which are named; those of [`Database::add_column`].
    pub fn drop_column(&self, table: &str, column: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.drop_column(table, column))
    }

    /// Gives a column another name, also where indexes, checks and foreign keys name it.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is none of that name, or one of the new one; those of
    /// [`Database::add_column`].
    pub fn rename_column(&self, table: &str, column: &str, new_name: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.rename_column(table, column, new_name))
    }

    /// Gives a column another default, an expression without columns, or none. Rows that there are keep their values.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if it is not of the column's type; those of [`Database::add_column`].
    pub fn set_default(&self, table: &str, column: &str, default: Option<&str>) -> Result<()> {
        self.shared.alter(|definitions| definitions.set_default(table, column, default.map(str::to_owned)))
    }

    /// The number that the next row is given in an identity column, if no open transaction has it; none if all numbers
    /// of the column's type have been given out.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is no such table, [`Invalid`](quipu::ErrorKind::Invalid) if the
    /// column has no numbers of the table; those of reading.
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
    /// [`Missing`](quipu::ErrorKind::Missing) if there is no such table, [`Invalid`](quipu::ErrorKind::Invalid) if the
    /// column has no numbers of the table or is of a type without this one; those of a commit.
    pub fn set_next_number(&self, table: &str, column: &str, number: i128) -> Result<()> {
        self.shared.change(|definitions| definitions.set_next_number(table, column, number))
    }

    /// Makes a column NOT NULL, after a look at all rows beside writers.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that has NULL there; those of
    /// [`Database::add_column`].
    pub fn set_not_null(&self, table: &str, column: &str, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.set_not_null(table, column, progress)
    }

    /// Lets a column be NULL.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if it is of the primary key, or has numbers of the table; those of
    /// [`Database::add_column`].
    pub fn drop_not_null(&self, table: &str, column: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.drop_not_null(table, column))
    }

    /// Adds a check, after a look at all rows beside writers.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that breaks it; those of [`Database::add_column`].
    pub fn add_check(&self, table: &str, check: Check, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared.add_check(table, check, progress)
    }

    /// Adds a foreign key, after a look at all rows beside writers; and an index for it if there is none.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that refers to nothing; those of
    /// [`Database::add_column`].
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
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of that name; those of [`Database::add_column`].
    pub fn drop_constraint(&self, table: &str, name: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.drop_constraint(table, name))
    }

    /// Creates an index. Writers go on while it is built; `progress` is told how far that is.
    ///
    /// # Errors
    /// [`Exists`](quipu::ErrorKind::Exists) if there is one of its name, or it is to be unique and two rows have the
    /// same values, which are named; [`Invalid`](quipu::ErrorKind::Invalid) if it names columns that are not there;
    /// those of [`Database::add_column`]. Then nothing of it is left.
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

    /// Begins to build an index, a step at a time: from now on writers note the rows that they change.
    ///
    /// # Errors
    /// Those of [`Database::create_index`].
    pub fn begin_index(&self, table: &str, index: IndexSchema, options: &BuildOptions) -> Result<IndexBuild> {
        self.shared.begin_build(table, index, options).and_then(IndexBuild::begin)
    }

    /// Begins to build an index again, which takes the place of the old one when it is complete.
    ///
    /// # Errors
    /// Those of [`Database::begin_index`]; [`Missing`](quipu::ErrorKind::Missing) if there is none of that name.
    pub fn begin_rebuild(&self, table: &str, index: &str, options: &BuildOptions) -> Result<IndexBuild> {
        self.shared.begin_rebuild(table, index, options).and_then(IndexBuild::begin)
    }

    /// Drops an index.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of that name, [`Invalid`](quipu::ErrorKind::Invalid) if
    /// a foreign key needs it; those of [`Database::add_column`].
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.drop_index(table, index))
    }

    /// Gives an index, a check or a foreign key another name.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of that name, [`Invalid`](quipu::ErrorKind::Invalid) if
    /// there is one of the new one; those of [`Database::add_column`].
    pub fn rename_constraint(&self, table: &str, name: &str, new_name: &str) -> Result<()> {
        self.shared.alter(|definitions| definitions.rename_constraint(table, name, new_name))
    }
}

impl Retry {
    /// Like [`Database::retry`], with waits between attempts, which many writers of the same rows need. The caller says
    /// how to wait and where chance comes from: any generator of the crate `rand` 0.10.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Retry, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/stock", Options::without_files())?)?;
    /// # let stock = TableSchema::new("stock").key(["item"]).column(Column::new("item", DataType::TEXT));
    /// # database.create_table(&stock)?;
    /// let how = Retry { attempts: 20, ..Retry::default() };
    /// how.run(&database, &mut rand::rng(), &mut std::thread::park_timeout, |transaction| {
    ///     transaction.table("stock")?.insert(("pears",))
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Conflict`](quipu::ErrorKind::Conflict) if all attempts met one and none is to be done alone; those of `work`
    /// and of a commit.
    pub fn run<T>(
        &self,
        database: &Database,
        random: &mut impl Rng,
        wait: &mut dyn FnMut(Duration),
        work: impl FnMut(&RowTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.run_telling(&database.shared, &mut |attempt| wait(self.wait_before(attempt, random)), work)
    }
}
