//! Indexes built beside writers, dropped and renamed.
//!
//! ```text
//!  1  the definition gets the index, with a tree of notes: from now on writers note there each row that they change,
//!     with the entry that the row had when the note was made
//!  2  in one turn of the writer the notes so far are deleted and a snapshot is taken; the entries of all rows of the
//!     snapshot are sorted and written to the index, which nothing else changes
//!  3  the noted rows are processed, some at a time, in turns of the writer: their noted entries are removed, their
//!     current ones are inserted
//!  4  in one turn the last notes are processed, and the definition loses the tree of notes: the index is ready
//! ```
//!
//! Why it is right: for each row without a note, the index has the row's current entry; for each row with a note, it
//! has the entry that the note says, or none. This holds after step 2, because a row without a note has not changed
//! since the snapshot, and a note has the row's entry before its first change since then. Each turn of step 3 preserves
//! it. A note of a change between step 1 and the snapshot would have an entry that the index never had, and hide the
//! one that it has, so these notes are deleted; a transaction that relied on one conflicts.
//!
//! Rows are counted on the way: those of the snapshot that belong in the index, and for each noted row whether it
//! belonged there and whether it does now. At the end the index must have that many entries, or its build has failed.
//!
//! Writers do not look for duplicates in a unique index that is being built. Two rows with the same values are found
//! when the entries are sorted, or when the last notes are processed. Before that, two rows may share an entry,
//! because their entries are not of one moment.
//!
//! Cost: a scan, a sort, an ingest; for writers meanwhile, a look-up in the notes for each row instead of a write of an
//! entry.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use quipu::{Error, ErrorKind, Progress, ReadableTable, Result, Snapshot, WritableTable};

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::failed_changes::Half;
use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::definitions::{Definitions, leave_trees, not_there};
use crate::change::sorter::{Refused, Sorter};
use crate::change::take_back::{refuse_needed, take_back_half};
use crate::change::trees::NewTrees;
use crate::definition::document::{IndexTree, TableNumber, TreeNumber, Unvalidated};
use crate::definition::index::{IndexDefinition, RowKey};
use crate::definition::table::TableDefinition;
use crate::encoding::span::Span;
use crate::expression::evaluate::Failed;
use crate::read::ordered::Ordered;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::constraint::{Constraint, Violation};
use crate::schema::index::IndexSchema;
use crate::schema::{check_name, invalid};
use crate::value::{Value, collation};
use crate::write::violations::list;

/// How an index is built, and rows are loaded.
#[derive(Clone, Copy, Debug)]
pub struct BuildOptions {
    /// Bytes of entries that are sorted together. More of them are written in several parts. Default: 256 MiB.
    pub sort_bytes: usize,
    /// Rows from which entries are written straight to disk; fewer go through transactions. Default: 50,000.
    pub ingest_rows: u64,
    /// Rows that are caught up with in one turn of the writer. Default: 1,000.
    pub turn_rows: u64,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions { sort_bytes: 256 << 20, ingest_rows: 50_000, turn_rows: 1_000 }
    }
}

/// Turns in which a build catches up before it takes as long a turn as it needs.
const TURNS_MAX: usize = 1_000;
/// Rows between two reports of progress.
const REPORTED_ROWS: u64 = 10_000;

/// An index that is built a step at a time, while others write. Dropped before it is complete, nothing of it is left.
///
/// Its beginning, each [`IndexBuild::catch_up`] and [`IndexBuild::complete`] are turns of the writer. A transaction
/// that has written to the table, is not committed yet and was open in one of these turns may conflict.
pub struct IndexBuild {
    build: Option<Build>,
    snapshot: Option<Snapshot>,
}

impl IndexBuild {
    pub(crate) fn begin(build: Build) -> Result<IndexBuild> {
        let mut begun = IndexBuild { build: Some(build), snapshot: None };
        begun.snapshot = begun.build.as_ref().map(Build::begin_notes).transpose()?;
        Ok(begun)
    }

    /// Writes the entries of the rows that there were at its beginning. `progress` is told how far that is; an error of
    /// it ends the build.
    ///
    /// # Errors
    /// Those of [`Database::create_index`](crate::Database::create_index), and of `progress`.
    pub fn fill(&mut self, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<()> {
        match (&self.build, self.snapshot.take()) {
            (Some(build), Some(snapshot)) => build.fill_from(&snapshot, progress),
            _ => Ok(()),
        }
    }

    /// Catches up with rows that were changed meanwhile, if there are more than one turn of the writer takes. Returns
    /// whether there were.
    ///
    /// # Errors
    /// Those of [`Database::create_index`](crate::Database::create_index).
    pub fn catch_up(&mut self) -> Result<bool> {
        self.build.as_ref().map_or(Ok(false), Build::catch_up_some)
    }

    /// Does all of it, one step after the other: as [`Database::create_index`](crate::Database::create_index), but that
    /// an error of `progress` ends the build.
    ///
    /// # Errors
    /// Those of [`IndexBuild::fill`].
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<()> {
        self.fill(progress)?;
        self.build.as_ref().map_or(Ok(()), |build| build.catch_up(progress))?;
        self.complete()
    }

    /// Writes the last entries, and makes the index ready.
    ///
    /// # Errors
    /// Those of [`Database::create_index`](crate::Database::create_index).
    pub fn complete(mut self) -> Result<()> {
        let Some(build) = &self.build else { return Ok(()) };
        build.complete(None)?;
        match self.build.take() {
            Some(build) => build.drop_replaced(),
            None => Ok(()),
        }
    }
}

impl Drop for IndexBuild {
    fn drop(&mut self) {
        if let Some(build) = self.build.take() {
            build.give_up();
        }
    }
}

/// An index that is being built.
pub(crate) struct Build {
    shared: Arc<Shared>,
    table: TableNumber,
    tree: TreeNumber,
    missed: TreeNumber,
    options: BuildOptions,
    /// The name by which messages call it, and the tree of the index whose place it takes in the end; none if it is
    /// not there to take one.
    pub(crate) replaces: Option<(String, TreeNumber)>,
    /// How many entries its rows say that it must have, as far as it is built.
    expected: Cell<i64>,
}

impl Shared {
    /// Creates an index of a table.
    pub(crate) fn create_index(
        self: &Arc<Self>,
        table: &str,
        declared: IndexSchema,
        options: &BuildOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.create_index_for(table, declared, options, None, progress)
    }

    /// Creates an index of a table, which bears a mark when it is ready: a change that needs it is not complete yet.
    pub(crate) fn create_index_for(
        self: &Arc<Self>,
        table: &str,
        declared: IndexSchema,
        options: &BuildOptions,
        mark: Option<&Unvalidated>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.begin_build(table, declared, options)?.finish(mark, progress)
    }

    /// Makes a definition know an index that is being built.
    pub(crate) fn begin_build(
        self: &Arc<Self>,
        table: &str,
        declared: IndexSchema,
        options: &BuildOptions,
    ) -> Result<Build> {
        if !declared.deferral.is_never() {
            let what = "its values are looked at when a statement is done: make it by `RowTransaction::definitions`";
            return Err(invalid(format!("index {}: {what}", declared.name)));
        }
        let mut trees = NewTrees::new(Arc::clone(self));
        let (has_sum, name) = (declared.sum.is_some(), declared.name.clone());
        let _changing = self.begin_change()?;
        let definition = self.definition(&self.db, table)?.ok_or_else(|| crate::transaction::missing(table))?;
        if definition.indexes.iter().any(|index| index.declared.name == name) {
            return Err(Error::new(ErrorKind::Exists, format!("table {table} has an index {name} already")));
        }
        let schema = &definition.document.schema;
        let tree = trees.create(schema, has_sum, format!("index {name} of table {table}"))?;
        let missed = trees.create(schema, false, format!("rows that the build of index {name} has missed"))?;
        let number = self.change(|definitions| {
            let mut draft = definitions.draft(table)?;
            draft.document.schema.indexes.push(declared);
            draft.document.indexes.push(IndexTree::new(tree, Some(missed)));
            if definitions.ready(&draft).is_err_and(|error| error.kind() == ErrorKind::Version) {
                draft.document.collation = Some(collation::VERSION.to_owned());
            }
            definitions.put(&mut draft)?;
            Ok(draft.number)
        })?;
        trees.keep();
        let (options, expected) = (*options, Cell::new(0));
        Ok(Build { shared: Arc::clone(self), table: number, tree, missed, options, replaces: None, expected })
    }
}

impl Definitions<'_> {
    /// Drops an index.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if a foreign key needs it.
    pub(crate) fn drop_index(&self, table: &str, name: &str) -> Result<()> {
        self.change_table(table, |draft| {
            let place = draft.document.schema.indexes.iter().position(|index| index.name == name);
            let place = place.ok_or_else(|| not_there(table, "index", name))?;
            if draft.document.indexes[place].missed.is_some() {
                return Err(invalid(format!("index {table}.{name} is still being built")));
            }
            draft.document.schema.indexes.remove(place);
            let place = draft.document.indexes.remove(place);
            refuse_needed(self, draft)
                .map_err(|error| error.context(format_args!("index {name} of table {table} cannot be dropped")))?;
            leave_trees(self, draft.number, [place.tree]);
            Ok(())
        })
    }

    /// Gives an index, a check or a foreign key another name.
    pub(crate) fn rename_constraint(&self, table: &str, name: &str, new_name: &str) -> Result<()> {
        check_name("an index or a constraint", new_name)?;
        self.change_table(table, |draft| {
            let schema = &mut draft.document.schema;
            let indexes = schema.indexes.iter_mut().map(|index| &mut index.name);
            let checks = schema.checks.iter_mut().map(|check| &mut check.name);
            let foreign_keys = schema.foreign_keys.iter_mut().map(|foreign_key| &mut foreign_key.name);
            let found = indexes.chain(checks).chain(foreign_keys).find(|known| **known == name);
            let found = found.ok_or_else(|| not_there(table, "index, check or foreign key", name))?;
            new_name.clone_into(found);
            if !draft.document.unvalidated.is_empty() {
                return Err(invalid(format!("a constraint of table {table} is still being validated")));
            }
            Ok(())
        })
    }
}

impl Build {
    /// Fills the index and makes it ready, or takes it back.
    pub(crate) fn finish(self, mark: Option<&Unvalidated>, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let progress: &mut dyn FnMut(Progress) -> Result<()> = &mut |stage| {
            progress(stage);
            Ok(())
        };
        let built = self.fill(progress).and_then(|()| self.catch_up(progress)).and_then(|()| self.complete(mark));
        if built.is_err() {
            self.give_up();
            return built;
        }
        self.drop_replaced()
    }

    /// Drops what is no longer needed once the index is ready.
    fn drop_replaced(&self) -> Result<()> {
        let replaced = self.replaces.as_ref().map(|(_, tree)| *tree);
        self.shared.drop_trees([self.missed].into_iter().chain(replaced))
    }

    /// Takes the index back, now or, if that fails, later.
    fn give_up(&self) {
        if self.abandon().is_err() {
            self.shared.left.leave(self.table, Half::Build(self.tree));
        }
    }

    /// The name by which messages call the index.
    fn name<'n>(&'n self, index: &'n IndexDefinition) -> &'n str {
        self.replaces.as_ref().map_or(&index.declared.name, |(name, _)| name)
    }

    fn expect(&self, more: i64) {
        self.expected.set(self.expected.get() + more);
    }

    /// The place of the index in a definition.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it is not there any more.
    fn place_in(&self, indexes: &[IndexTree]) -> Result<usize> {
        indexes
            .iter()
            .position(|index| index.tree == self.tree)
            .ok_or_else(|| Error::new(ErrorKind::Missing, "the index was dropped while it was built"))
    }

    /// A snapshot, and no note of a change before it: no writer commits between the two.
    fn begin_notes(&self) -> Result<Snapshot> {
        let db = &self.shared.db;
        let missed = db.open_table(&store::tree_name(self.missed))?;
        let missed = missed.ok_or_else(|| {
            Error::new(ErrorKind::Missing, "the index was dropped while it was built: the notes of its build are gone")
        })?;
        db.write(|transaction| {
            let snapshot = db.snapshot();
            transaction.table(&missed)?.remove_range(..)?;
            Ok(snapshot)
        })
    }

    /// Writes the entries of all rows of a snapshot.
    fn fill(&self, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<()> {
        self.fill_from(&self.begin_notes()?, progress)
    }

    /// Writes the entries of all rows of the snapshot with which the notes begin.
    fn fill_from(&self, snapshot: &Snapshot, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<()> {
        let shared = &self.shared;
        let catalogue = shared.catalogue().ok_or_else(|| crate::transaction::missing("the catalogue"))?;
        let document = store::document(&snapshot.tree(catalogue)?, self.table)?;
        let name = &document.schema.table;
        let definition = shared.definition(snapshot, name)?.ok_or_else(|| crate::transaction::missing(name))?;
        let index = &definition.indexes[self.place_in(&definition.document.indexes)?];
        let rows = TableIn::new(snapshot, Arc::clone(&definition))?;
        let total = rows.len()?;
        let mut sorter = Sorter::default();
        let (mut key, mut value, mut done, mut written) = (Vec::new(), Vec::new(), 0, 0);
        let mut write = |sorter: &mut Sorter, progress: &mut dyn FnMut(Progress) -> Result<()>| {
            let mut report = |entries: u64| {
                written += entries;
                progress(Progress { stage: "writing entries", done: written, total })
            };
            let ingested_min =
                if sorter.held_bytes() >= self.options.sort_bytes { 0 } else { self.options.ingest_rows };
            let result = sorter.write(&shared.db, &index.tree, ingested_min, &mut report);
            result.map_err(|refused| self.duplicate(&rows, &definition, index, refused))
        };
        rows.for_each(Span::all(), |row| {
            if index_entry(&definition, index, &row, &mut key, &mut value)? {
                sorter.push(&key, &value);
                self.expect(1);
            }
            done += 1;
            if done % REPORTED_ROWS == 0 || done == total {
                progress(Progress { stage: "reading rows", done, total })?;
            }
            if sorter.held_bytes() >= self.options.sort_bytes {
                write(&mut sorter, progress)?;
            }
            Ok(true)
        })?;
        if sorter.len() > 0 {
            write(&mut sorter, progress)?;
        }
        Ok(())
    }

    /// The error of two rows that have the same values.
    #[cold]
    fn duplicate(
        &self,
        rows: &TableIn<'_, Snapshot>,
        definition: &TableDefinition,
        index: &IndexDefinition,
        refused: Refused,
    ) -> Error {
        let (key, values) = match refused {
            Refused::Failed(error) => return error,
            Refused::Twice { key, values } => (key, values),
        };
        alike(definition, (&rows.tree, &index.tree), index, self.name(index), (&key, values)).0.into_error()
    }

    /// Catches up with the rows that were changed meanwhile, until few are left.
    fn catch_up(&self, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<()> {
        for turn in 0..TURNS_MAX {
            if !self.catch_up_some()? {
                break;
            }
            let done = self.options.turn_rows * (turn as u64 + 1);
            progress(Progress { stage: "catching up", done, total: done })?;
        }
        Ok(())
    }

    /// Catches up with as many rows as one turn has, if there are more than that. Returns whether there were.
    fn catch_up_some(&self) -> Result<bool> {
        let missed = self.shared.db.open_table(&store::tree_name(self.missed))?;
        if missed.map_or(Ok(0), |missed| missed.len())? <= self.options.turn_rows {
            return Ok(false);
        }
        self.shared.write(None, |transaction| {
            let definitions = Definitions::within(transaction)?;
            let draft = definitions.draft_of(self.table)?;
            let definition = definitions.ready(&draft)?;
            let index = &definition.indexes[self.place_in(&draft.document.indexes)?];
            self.catch_up_with(&definitions, &definition, index, self.options.turn_rows, false)
        })?;
        Ok(true)
    }

    /// Catches up with the last rows, and makes the index ready.
    fn complete(&self, mark: Option<&Unvalidated>) -> Result<()> {
        let _changing = self.shared.changes.turn();
        self.shared.change(|definitions| {
            let mut draft = definitions.draft_of(self.table)?;
            let place = self.place_in(&draft.document.indexes)?;
            let definition = definitions.ready(&draft)?;
            let index = &definition.indexes[place];
            self.catch_up_with(definitions, &definition, index, u64::MAX, true)?;
            let entries = definitions.engine().table(&index.tree)?.len()?;
            let expected = match index.predicate {
                None => definitions.engine().table(&definition.rows)?.len()?,
                Some(_) => self.expected.get().try_into().unwrap_or(0),
            };
            if expected != entries {
                let (table, name) = (definition.name(), self.name(index));
                let what = format!(
                    "index {table}.{name} has {entries} entries after its build, and {expected} rows belong in it; \
                     nothing of it is left: run `quipu check`"
                );
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
            draft.document.indexes[place].missed = None;
            if let Some((name, replaced)) = &self.replaces {
                let indexes = &mut draft.document.indexes;
                let old = indexes.iter().position(|index| index.tree == *replaced);
                let old = old.ok_or_else(|| not_there(definition.name(), "index", name))?;
                let number = indexes[old].number();
                indexes[old] = IndexTree { number: Some(number), ..indexes[place] };
                indexes.remove(place);
                draft.document.schema.indexes.remove(place);
            }
            draft.document.unvalidated.extend(mark.cloned());
            definitions.put(&mut draft).map(drop)
        })
    }

    /// Catches up with up to `limit` rows that were changed. If these are the last, two rows of the same values are an
    /// error; else the later one stays noted.
    fn catch_up_with(
        &self,
        definitions: &Definitions<'_>,
        definition: &TableDefinition,
        index: &IndexDefinition,
        limit: u64,
        are_last: bool,
    ) -> Result<()> {
        let Some(missed) = &index.missed else { return Ok(()) };
        let transaction = definitions.engine();
        let (rows, entries, missed) =
            (transaction.table(&definition.rows)?, transaction.table(&index.tree)?, transaction.table(missed)?);
        let mut noted: Vec<(RowKey, Vec<u8>)> = Vec::new();
        missed.for_each_limited(.., limit, |row_key, entry| noted.push((row_key.into(), entry.to_vec())))?;
        for (row_key, entry) in &noted {
            if !entry.is_empty() {
                entries.delete(entry)?;
                self.expect(-1);
            }
            missed.delete(row_key)?;
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut added: HashSet<Vec<u8>> = HashSet::new();
        for (row_key, _) in &noted {
            let Some(row) = rows.get(row_key)? else { continue };
            let view = RowView::new(definition, row_key, &row)?;
            if !index_entry(definition, index, &view, &mut key, &mut value)? {
                continue;
            }
            if index.declared.unique
                && let Some(other) = entries.get(&key)?
            {
                if are_last || added.contains(&key) {
                    let other = index.row_key(&key, &other)?;
                    let other = match rows.get(&other)? {
                        Some(row) => list(&RowView::new(definition, &other, &row)?.key_values()?),
                        None => "()".to_owned(),
                    };
                    let names = [other, list(&view.key_values()?)];
                    let values = index.values(&definition.columns, &view);
                    return Err(two_rows(definition, index, self.name(index), &names, values).into_error());
                }
                // The other one may be noted as well, and have other values by now.
                missed.put(row_key, b"")?;
                continue;
            }
            entries.put(&key, &value)?;
            self.expect(1);
            if index.declared.unique {
                added.insert(key.clone());
            }
        }
        Ok(())
    }

    /// Takes the index out of the definition, and drops its trees.
    fn abandon(&self) -> Result<()> {
        let _changing = self.shared.changes.turn();
        let half = (self.table, Half::Build(self.tree));
        let trees = self.shared.change(|definitions| take_back_half(definitions, &half))?;
        // What cannot be dropped now is dropped later.
        let _ = self.shared.drop_trees(trees);
        Ok(())
    }
}

/// Makes the entry of a row that is read, in the place of what `key` and `value` hold. Returns whether it has one.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) if an expression has no value, and those of reading the row.
pub(crate) fn index_entry(
    definition: &TableDefinition,
    index: &IndexDefinition,
    row: &RowView<'_>,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<bool> {
    index.entry(row, row.key, key, value).map_err(|failed| match failed {
        Failed::Read(error) => error,
        Failed::NoValue(what) => {
            let name = row.key_values().map_or_else(|_| "()".to_owned(), |values| list(&values));
            let columns = index.declared.columns.join(", ");
            let message = format!("table {}, row {name}: {}, {columns}: {what}", definition.name(), index.key.owner);
            Violation::new(Constraint::Type, definition.name(), message).named(&index.declared.name).into_error()
        }
    })
}

/// What two rows break that have these values in an index that is to be unique.
#[cold]
pub(crate) fn two_rows(
    definition: &TableDefinition,
    index: &IndexDefinition,
    name: &str,
    rows: &[String],
    values: Vec<(String, Value<'static>)>,
) -> Violation {
    let (table, columns) = (definition.name(), index.declared.columns.join(", "));
    let rows = rows.join(" and ");
    let message = format!("table {table}: rows {rows} have the same {columns}, so the index {name} cannot be unique");
    Violation::new(Constraint::Unique, table, message).named(name).of_key(values)
}

/// What rows break whose entries in an index, with these values, have one key: one row may have its entry already. The
/// primary keys of the rows come with it; those that cannot be read are empty.
#[cold]
pub(crate) fn alike(
    definition: &TableDefinition,
    (rows, entries): (&impl ReadableTable, &impl ReadableTable),
    index: &IndexDefinition,
    name: &str,
    (key, mut values): (&[u8], Vec<Vec<u8>>),
) -> (Violation, Vec<Vec<Value<'static>>>) {
    if values.len() == 1
        && let Ok(Some(other)) = entries.get(key)
    {
        values.insert(0, other.to_vec());
    }
    let (mut keys, mut same) = (Vec::new(), Vec::new());
    for value in &values {
        let primary_key = index.row_key(key, value).ok().and_then(|row_key| {
            let value = rows.get(&row_key).ok()??;
            let view = RowView::new(definition, &row_key, &value).ok()?;
            same = index.values(&definition.columns, &view);
            Some(view.key_values().ok()?.into_iter().map(Value::into_owned).collect())
        });
        keys.push(primary_key.unwrap_or_default());
    }
    let names: Vec<String> = keys.iter().map(|key: &Vec<Value<'_>>| list(key)).collect();
    (two_rows(definition, index, name, &names, same), keys)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
