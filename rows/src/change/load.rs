//! Loading many rows into a table without rows: sorted, straight to disk, all or none.
//!
//! ```text
//!  1  new trees, which no definition names: one for the rows, one for each index
//!  2  rows are checked and sorted, and so are their entries in each index; full sorters are written to the trees
//!  3  one commit names the new trees in place of the old ones, if the table still has no rows
//! ```
//!
//! No reader sees a row before step 3. A crash leaves trees that no definition names. The transaction that commits
//! relies on the rows that the new rows refer to, as everywhere.
//!
//! Cost: a sort of the rows and one of the entries of each index, in memory that they share; no log. Rows are written
//! by one thread and the indexes by another.

use std::collections::HashSet;
use std::sync::Arc;

use quipu::{Error, ErrorKind, Progress, ReadableTable, Result};

use crate::catalogue::engine_tables::{self, Trees};
use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::definitions::Definitions;
use crate::change::indexes::{BuildOptions, alike, index_entry};
use crate::change::sorter::{Refused, Sorter};
use crate::change::trees::NewTrees;
use crate::definition::document::TreeNumber;
use crate::definition::row::{encode_key, encode_value};
use crate::definition::table::TableDefinition;
use crate::read::batch::Batch;
use crate::read::row::RowView;
use crate::schema::constraint::{Constraint, Violation};
use crate::schema::invalid;
use crate::transaction::RowTransaction;
use crate::transaction::isolation::Isolation;
use crate::value::{Value, Values};
use crate::write::complete;
use crate::write::references;
use crate::write::violations::{list, row_name};

/// Different rows that the rows of one load may refer to.
const REFERRED_MAX: usize = 1_000_000;

/// Rows on their way into a table without rows. Made by [`Database::begin_load`](crate::Database::begin_load); dropped
/// before it is committed, it leaves nothing.
pub struct Load {
    transaction: RowTransaction<'static>,
    definition: Arc<TableDefinition>,
    trees: NewTrees,
    tree: TreeNumber,
    indexes: Vec<IndexLoad>,
    rows_tree: quipu::Table,
    sorter: Sorter,
    options: BuildOptions,
    /// Rows that others of the load refer to and that were looked at, each with the number of the foreign key.
    referred: HashSet<(usize, Vec<u8>)>,
    rows: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    /// A key and a value of an index.
    entry: (Vec<u8>, Vec<u8>),
    /// Whether a row was refused. Then it can only be dropped.
    is_broken: bool,
    /// Whether rows may bring numbers for columns that always have a number of the table.
    brings_numbers: bool,
}

/// The entries of an index on their way into its tree.
struct IndexLoad {
    tree: TreeNumber,
    entries: quipu::Table,
    sorter: Sorter,
}

impl Load {
    /// Begins to load rows into a table that has none.
    ///
    /// # Errors
    /// Those of [`Database::begin_load`](crate::Database::begin_load).
    pub(crate) fn begin(shared: &Arc<Shared>, table: &str, options: &BuildOptions) -> Result<Load> {
        let transaction = RowTransaction::optimistic(Arc::clone(shared), Isolation::Serializable);
        let definition = transaction.definition(table)?;
        let rows = transaction.tree(&definition.rows)?.len()?;
        if rows > 0 {
            return Err(invalid(format!("table {table} has {rows} rows: a load needs an empty table")));
        }
        if definition.foreign_keys.iter().any(|foreign_key| foreign_key.table == definition.number) {
            let what = "a load needs a table without references to itself";
            return Err(invalid(format!("table {table} has a foreign key to itself: {what}")));
        }
        if definition.indexes.iter().any(|index| !index.is_ready()) {
            return Err(invalid(format!("an index of table {table} is still being built")));
        }
        if let Some(index) = definition.indexes.iter().find(|index| !index.declared.deferral.is_never()) {
            let name = &index.declared.name;
            let what = "which a load does not look at: insert its rows";
            return Err(invalid(format!("table {table} has a constraint {name} that can be deferred, {what}")));
        }
        let mut trees = NewTrees::new(Arc::clone(shared));
        let schema = &definition.document.schema;
        let tree = trees.create(schema, schema.sum.is_some(), format!("rows of table {table}"))?;
        let mut indexes = Vec::new();
        for index in &schema.indexes {
            let comment = format!("index {} of table {table}", index.name);
            let tree = trees.create(schema, index.sum.is_some(), comment)?;
            let entries = engine_tables::open(&shared.db, &store::tree_name(tree))?;
            indexes.push(IndexLoad { tree, entries, sorter: Sorter::default() });
        }
        let rows_tree = engine_tables::open(&shared.db, &store::tree_name(tree))?;
        Ok(Load {
            transaction,
            definition,
            trees,
            tree,
            indexes,
            rows_tree,
            sorter: Sorter::default(),
            options: *options,
            referred: HashSet::new(),
            rows: 0,
            key: Vec::new(),
            value: Vec::new(),
            entry: Default::default(),
            is_broken: false,
            brings_numbers: false,
        })
    }

    /// The same load, whose rows may bring numbers for columns that always have a number of the table: see
    /// [`TableIn::bringing_numbers`](crate::TableIn::bringing_numbers).
    pub fn bringing_numbers(self) -> Load {
        Load { brings_numbers: true, ..self }
    }

    /// Adds a row: a value for each column that is not hidden, in the order of the schema.
    ///
    /// # Errors
    /// Those of [`TableIn::insert`](crate::TableIn::insert); that two rows have one key may be found later. After an
    /// error the load can only be dropped.
    pub fn push(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.refuse_broken()?;
        // It is broken unless this returns.
        self.is_broken = true;
        let definition = Arc::clone(&self.definition);
        let row = complete::from_all(&definition, values, &self.transaction.numbers, self.brings_numbers)?;
        let row = row.keep(&definition);
        self.take(&definition, &row)?;
        self.is_broken = false;
        Ok(())
    }

    /// Adds a row: values for some columns, said by their places in the schema; the others have their defaults.
    ///
    /// # Errors
    /// Those of [`Load::push`]; [`Invalid`](ErrorKind::Invalid) if there is no such column.
    pub fn push_at(&mut self, places: &[usize], values: &[Value<'_>]) -> Result<()> {
        self.refuse_broken()?;
        self.is_broken = true;
        let definition = Arc::clone(&self.definition);
        if let Some(place) = places.iter().find(|&&place| place >= definition.columns.len()) {
            return Err(invalid(format!("table {} has no column number {place}", definition.name())));
        }
        let numbers = &self.transaction.numbers;
        let row = complete::from_some(&definition, places, values, numbers, self.brings_numbers)?;
        let row = row.keep(&definition);
        self.take(&definition, &row)?;
        self.is_broken = false;
        Ok(())
    }

    /// Adds the rows of a batch, whose columns are found by their names; columns that it lacks have their defaults.
    ///
    /// # Errors
    /// Those of [`Load::push`], with the number of the row in the batch.
    pub fn push_batch(&mut self, batch: &Batch) -> Result<()> {
        self.refuse_broken()?;
        self.is_broken = true;
        let definition = Arc::clone(&self.definition);
        let names = batch.columns().iter().map(|column| definition.place(&column.name));
        let places = names.collect::<Result<Vec<usize>>>()?;
        let mut values = Vec::with_capacity(places.len());
        for number in 0..batch.rows() {
            values.clear();
            for column in 0..places.len() {
                values.push(batch.value(column, number)?);
            }
            let in_batch = |error: Error| error.context(format_args!("row {number} of the batch"));
            let numbers = &self.transaction.numbers;
            let row = complete::from_some(&definition, &places, &values, numbers, self.brings_numbers);
            let row = row.map_err(in_batch)?.keep(&definition);
            self.take(&definition, &row).map_err(in_batch)?;
        }
        self.is_broken = false;
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn refuse_broken(&self) -> Result<()> {
        match self.is_broken {
            true => Err(invalid("an earlier row of the load was refused; drop it, and begin another".to_owned())),
            false => Ok(()),
        }
    }

    fn take(&mut self, definition: &TableDefinition, row: &Values<'_>) -> Result<()> {
        complete::check(definition, row, None)?;
        self.look_at_referred(definition, row)?;
        self.key.clear();
        self.value.clear();
        encode_key(definition, row, &mut self.key);
        encode_value(definition, row, &mut self.value);
        // The rows are written much later, when it is no longer known which one this was.
        self.rows_tree.check_lengths(&self.key, &self.value).map_err(|error| {
            error.context(format_args!("table {}, row {}", definition.name(), row_name(definition, row)))
        })?;
        self.sorter.push(&self.key, &self.value);
        self.rows += 1;
        if self.indexes.is_empty() {
            return if self.is_full() { self.write(0, &mut |_| Ok(())) } else { Ok(()) };
        }
        let row = RowView::new(definition, &self.key, &self.value)?;
        let (mut key, mut value) = (std::mem::take(&mut self.entry.0), std::mem::take(&mut self.entry.1));
        for (index, load) in definition.indexes.iter().zip(&mut self.indexes) {
            if index_entry(definition, index, &row, &mut key, &mut value)? {
                load.entries.check_lengths(&key, &value).map_err(|error| {
                    let (table, index) = (definition.name(), &index.declared.name);
                    let key = key_of(definition, &self.key, &self.value).unwrap_or_default();
                    error.context(format_args!("table {table}, row {}, index {index}", list(&key)))
                })?;
                load.sorter.push(&key, &value);
            }
        }
        self.entry = (key, value);
        if self.is_full() { self.write(0, &mut |_| Ok(())) } else { Ok(()) }
    }

    /// Whether what the sorters hold must be written before more comes.
    fn is_full(&self) -> bool {
        let of_indexes: usize = self.indexes.iter().map(|index| index.sorter.held_bytes()).sum();
        self.sorter.held_bytes() + of_indexes >= self.options.sort_bytes
    }

    /// Looks whether the rows are there that a row refers to, each once.
    fn look_at_referred(&mut self, definition: &TableDefinition, row: &Values<'_>) -> Result<()> {
        for (number, foreign_key) in definition.foreign_keys.iter().enumerate() {
            let parent = self.transaction.definition_of(foreign_key.table)?;
            let Some((tree, key)) = references::referred_key(foreign_key, &parent, row)? else { continue };
            if self.referred.contains(&(number, key.clone())) {
                continue;
            }
            if !self.transaction.relying_tree(tree)?.contains(&key)? {
                return Err(references::without_row(definition, foreign_key, &parent, row));
            }
            if self.referred.len() >= REFERRED_MAX {
                let what = format!("the rows refer to more than {REFERRED_MAX} others; insert them in transactions");
                return Err(invalid(what));
            }
            self.referred.insert((number, key));
        }
        Ok(())
    }

    /// Writes what the sorters hold.
    fn write(&mut self, ingested_min: u64, written: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let Load { sorter, indexes, rows_tree, transaction, .. } = self;
        let db = &transaction.shared.db;
        let write_indexes = |indexes: &mut [IndexLoad]| -> Vec<Result<(), Refused>> {
            let write = |IndexLoad { entries, sorter, .. }: &mut IndexLoad| {
                sorter.write(db, entries, ingested_min, &mut |_| Ok(()))
            };
            indexes.iter_mut().map(write).collect()
        };
        let (rows, of_indexes) = if indexes.is_empty() || (sorter.len() as u64) < self.options.ingest_rows {
            let rows = sorter.write(db, rows_tree, ingested_min, written);
            (rows, write_indexes(indexes))
        } else {
            std::thread::scope(|scope| {
                let beside = scope.spawn(|| write_indexes(indexes));
                let rows = sorter.write(db, rows_tree, ingested_min, written);
                (rows, beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        };
        rows.map_err(|refused| match refused {
            Refused::Failed(error) => error,
            Refused::Twice { key, values } => twice(&self.definition, &key, &values),
        })?;
        for ((index, load), written) in self.definition.indexes.iter().zip(&self.indexes).zip(of_indexes) {
            written.map_err(|refused| match refused {
                Refused::Failed(error) => error,
                Refused::Twice { key, values } => {
                    let tables = (&self.rows_tree, &load.entries);
                    let (broken, rows) = alike(&self.definition, tables, index, &index.declared.name, (&key, values));
                    Violation { rows, ..broken }.into_error()
                }
            })?;
        }
        Ok(())
    }

    /// Commits the rows, durably. Returns how many there are.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists) if two rows have one key, or the same values in a unique index;
    /// [`Conflict`](ErrorKind::Conflict) if others have written to the table or changed its definition, or removed what
    /// the rows refer to; those of the disk. Then the table is as it was.
    pub fn commit(mut self, progress: &mut dyn FnMut(Progress)) -> Result<u64> {
        self.refuse_broken()?;
        let total = self.rows;
        let mut done = 0;
        let ingested_min = if (self.sorter.len() as u64) < total { 0 } else { self.options.ingest_rows };
        self.write(ingested_min, &mut |rows| {
            done += rows;
            progress(Progress { stage: "writing rows", done, total });
            Ok(())
        })?;
        if !self.indexes.is_empty() {
            progress(Progress { stage: "building indexes", done: total, total });
        }
        let Load { transaction, definition, trees, tree, indexes, .. } = self;
        let shared = Arc::clone(&transaction.shared);
        {
            let _changing = shared.changes.turn();
            let definitions = Definitions::within(&transaction)?;
            let mut draft = definitions.draft(definition.name())?;
            transaction.own.leave_trees(draft.number, draft.document.trees().collect::<Vec<_>>());
            draft.document.tree = tree;
            for (place, load) in draft.document.indexes.iter_mut().zip(&indexes) {
                *place = place.moved_to(load.tree);
            }
            definitions.put(&mut draft)?;
            definitions.put_root()?;
            transaction.commit().map_err(|error| match error.kind() {
                ErrorKind::Conflict => {
                    let name = definition.name();
                    let what =
                        format!("others have written to table {name}, or to what its rows refer to, during the load");
                    Error::new(ErrorKind::Conflict, what)
                }
                _ => error,
            })?;
        }
        trees.keep();
        Ok(total)
    }
}

/// The error of two rows that have one key.
#[cold]
fn twice(definition: &TableDefinition, key: &[u8], values: &[Vec<u8>]) -> Error {
    let row = values.first().and_then(|value| key_of(definition, key, value)).unwrap_or_default();
    let table = definition.name().to_owned();
    let message = format!("table {table}, row {}: two rows have this key", list(&row));
    let names = definition.primary.places.iter().map(|&place| definition.columns[place].declared.name.clone());
    let broken = Violation::new(Constraint::PrimaryKey, &table, message).of_key(names.zip(row.clone()).collect());
    Violation { rows: vec![row], ..broken }.into_error()
}

/// The values of the primary key of a row; none if it cannot be read.
#[cold]
fn key_of(definition: &TableDefinition, key: &[u8], value: &[u8]) -> Option<Vec<Value<'static>>> {
    let row = RowView::new(definition, key, value).ok()?;
    let values = row.key_values().ok()?.into_iter();
    Some(values.map(Value::into_owned).collect())
}
