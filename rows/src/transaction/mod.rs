//! Transactions over rows.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | what is read and written; savepoints; moving to the present (`begin_statement`, `refresh`) |
//! | `isolation` | how far transactions are kept apart |
//! | `as_seen` | definitions that others have dropped meanwhile |
//! | `own_changes` | what a transaction has changed of definitions |
//! | `deferred_constraints` | foreign keys that are looked at later |
//! | `retry` | work that is done again after a conflict |
//! | `stop` | whether long work is to stop |
//!
//! Whatever the isolation, a transaction relies on what constraints need: the definitions that it uses, rows that its
//! rows refer to, rows that refer to those that it removes, keys that it finds free.

pub(crate) mod as_seen;
pub(crate) mod deferred_constraints;
pub(crate) mod isolation;
pub(crate) mod own_changes;
pub(crate) mod retry;
pub(crate) mod stop;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use quipu::{Durability, Error, ErrorKind, Result, Savepoint, Snapshot, TableTransaction, Transaction};

use crate::catalogue::engine_tables::{OneMoment, Trees};
use crate::catalogue::known::Known;
use crate::catalogue::numbers::Holder;
use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::definition::document::TableNumber;
use crate::definition::table::TableDefinition;
use crate::read::table::TableIn;
use crate::transaction::as_seen::definition_as_seen;
use crate::transaction::deferred_constraints::Postponed;
use crate::transaction::isolation::Isolation;
use crate::transaction::own_changes::OwnChanges;
use crate::transaction::stop::Stop;

/// A transaction over tables of rows: optimistic, made by [`Database::begin`](crate::Database::begin), or that of the
/// single writer, lent by [`Database::write`](crate::Database::write). Dropping it rolls back.
///
/// A statement that fails has changed nothing, so the transaction may go on.
pub struct RowTransaction<'x> {
    pub(crate) shared: Arc<Shared>,
    held: Held<'x>,
    isolation: Isolation,
    /// Definitions of tables that were used, by name.
    definitions: RefCell<HashMap<String, Arc<TableDefinition>>>,
    /// Definitions of tables that were only read, of the version that it sees: it does not rely on them.
    read_definitions: RefCell<HashMap<String, Arc<TableDefinition>>>,
    /// Whether a statement stopped half way and could not be undone.
    is_broken: Cell<bool>,
    /// Its numbers for identity columns.
    pub(crate) numbers: Holder,
    /// What it has changed of definitions.
    pub(crate) own: OwnChanges,
    /// Foreign keys that are looked at later.
    pub(crate) postponed: Postponed,
    /// Says whether long work is to stop.
    pub(crate) stop: Stop,
}

/// The transaction of the engine.
enum Held<'x> {
    /// Optimistic.
    Own(Box<Transaction>),
    /// The single writer's.
    Lent(&'x Transaction),
}

impl<'x> RowTransaction<'x> {
    pub(crate) fn optimistic(shared: Arc<Shared>, isolation: Isolation) -> RowTransaction<'static> {
        let held = Held::Own(Box::new(shared.db.begin_with(isolation.of_engine())));
        RowTransaction { isolation, ..RowTransaction::over(shared, held) }
    }

    pub(crate) fn at(
        shared: Arc<Shared>,
        snapshot: &Snapshot,
        isolation: Isolation,
    ) -> Result<RowTransaction<'static>> {
        let held = Held::Own(Box::new(shared.db.begin_at(snapshot, isolation.of_engine())?));
        Ok(RowTransaction { isolation, ..RowTransaction::over(shared, held) })
    }

    pub(crate) fn single_writer(shared: Arc<Shared>, transaction: &'x Transaction) -> RowTransaction<'x> {
        RowTransaction::over(shared, Held::Lent(transaction))
    }

    fn over(shared: Arc<Shared>, held: Held<'x>) -> RowTransaction<'x> {
        let isolation = Isolation::Serializable;
        let numbers = Holder::new(Arc::clone(&shared));
        let own = OwnChanges::new(Arc::clone(&shared));
        let (definitions, read_definitions) = (RefCell::default(), RefCell::default());
        let (is_broken, postponed, stop) = (Cell::new(false), Postponed::default(), Stop::default());
        RowTransaction {
            shared,
            held,
            isolation,
            definitions,
            read_definitions,
            is_broken,
            numbers,
            own,
            postponed,
            stop,
        }
    }

    /// The transaction of the engine below, for trees that are no tables of rows.
    pub fn engine(&self) -> &Transaction {
        match &self.held {
            Held::Own(transaction) => transaction,
            Held::Lent(transaction) => transaction,
        }
    }

    /// The table of this name in this transaction, to read and to write.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none.
    pub fn table(&self, name: &str) -> Result<TableIn<'_, RowTransaction<'x>>> {
        TableIn::new(self, self.definition(name)?)
    }

    /// The table of this name, to be read. Under read committed the transaction does not rely on its definition, so
    /// that others may change it before the next statement.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none.
    pub fn table_to_read(&self, name: &str) -> Result<TableIn<'_, RowTransaction<'x>>> {
        if !self.notes_writes_alone() {
            return self.table(name);
        }
        let known = self.definitions.borrow().get(name).cloned();
        let known = known.or_else(|| self.read_definitions.borrow().get(name).cloned());
        if let Some(definition) = known {
            return TableIn::new(self, definition);
        }
        let definition = definition_as_seen(self, name)?;
        self.read_definitions.borrow_mut().insert(name.to_owned(), Arc::clone(&definition));
        TableIn::new(self, definition)
    }

    /// The definition of a table, of the version that the transaction sees.
    pub(crate) fn definition(&self, name: &str) -> Result<Arc<TableDefinition>> {
        if let Some(definition) = self.definitions.borrow().get(name) {
            return Ok(Arc::clone(definition));
        }
        let definition = self.read_definition(&Relying(self), name)?;
        self.definitions.borrow_mut().insert(name.to_owned(), Arc::clone(&definition));
        Ok(definition)
    }

    /// The definition of a table, read from trees of the transaction.
    pub(crate) fn read_definition(&self, trees: &impl Trees, name: &str) -> Result<Arc<TableDefinition>> {
        let (catalogue, entry) = self.shared.entry(trees, name)?.ok_or_else(|| missing(name))?;
        match self.own.has_touched(entry.number) {
            true => Known::read(trees, catalogue, entry),
            false => self.shared.known.definition(trees, catalogue, entry),
        }
    }

    /// The definition of the table of this number, which a definition refers to.
    pub(crate) fn definition_of(&self, number: TableNumber) -> Result<Arc<TableDefinition>> {
        if let Some(known) = self.known(number) {
            return Ok(known);
        }
        let catalogue = self.shared.catalogue().ok_or_else(|| missing("of a foreign key"))?;
        let document = store::document(&self.relying_tree(catalogue)?, number)?;
        self.definition(&document.schema.table)
    }

    /// The definition of the table of this number, of which there is a handle.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it was dropped.
    pub(crate) fn definition_of_handle(&self, number: TableNumber) -> Result<Arc<TableDefinition>> {
        if let Some(known) = self.known(number) {
            return Ok(known);
        }
        let catalogue = self.shared.catalogue().ok_or_else(dropped)?;
        let document = store::document_if_there(&self.relying_tree(catalogue)?, number)?.ok_or_else(dropped)?;
        self.definition(&document.schema.table)
    }

    fn known(&self, number: TableNumber) -> Option<Arc<TableDefinition>> {
        self.definitions.borrow().values().find(|definition| definition.number == number).cloned()
    }

    /// Forgets definitions that were used: the transaction has changed some, or has undone that.
    pub(crate) fn forget_definitions(&self) {
        self.definitions.borrow_mut().clear();
        self.read_definitions.borrow_mut().clear();
    }

    /// Fails unless a definition is the present one in this transaction, so that rows can be written by it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), as after a statement that stopped half way.
    #[inline]
    pub(crate) fn refuse_stale(&self, definition: &TableDefinition) -> Result<()> {
        self.refuse_broken()?;
        if self.own.has_touched(definition.number) { self.compare(definition) } else { Ok(()) }
    }

    #[cold]
    fn compare(&self, definition: &TableDefinition) -> Result<()> {
        let current = self.definition_of_handle(definition.number)?;
        if std::ptr::eq(&*current, definition) || current.document == definition.document {
            return Ok(());
        }
        let what = format!("table {} was changed in this transaction; ask for it again", current.name());
        Err(Error::new(ErrorKind::Invalid, what))
    }

    /// Whether it is that of the single writer, which meets no conflict, and in which other writes to the database
    /// would wait for themselves.
    pub fn is_single_writer(&self) -> bool {
        matches!(self.held, Held::Lent(_))
    }

    /// A number that is another one after each change of a definition that the transaction sees, its own and those that
    /// it has undone among them. O(1), and the transaction relies on nothing for it.
    ///
    /// # Errors
    /// Those of [`Database::catalogue_version`](crate::Database::catalogue_version).
    pub fn catalogue_version(&self) -> Result<u64> {
        match (self.own.version(), self.shared.catalogue()) {
            (0, Some(catalogue)) => self.engine().changed_at(catalogue),
            (own, _) => Ok(own),
        }
    }

    /// A tree of which everything that is read must be unchanged at the commit, whatever the isolation.
    pub(crate) fn relying_tree<'t>(&'t self, table: &quipu::Table) -> Result<TableTransaction<'t>> {
        Ok(self.engine().table(table)?.relying())
    }

    /// Begins the next statement: under read committed, it sees what others have committed so far. Does nothing under
    /// the other isolations.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if another commit has changed a row that this transaction has written: roll it
    /// back and run it again.
    pub fn begin_statement(&mut self) -> Result<()> {
        if self.isolation == Isolation::ReadCommitted { self.refresh() } else { Ok(()) }
    }

    /// Moves the transaction to the present version, if all that it relies on is unchanged there: what it reads from
    /// now on is of that version.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if it relies on something that has changed; [`Invalid`](ErrorKind::Invalid) in
    /// the closure of [`Database::write`](crate::Database::write), where it always is at the present version.
    pub fn refresh(&mut self) -> Result<()> {
        match &mut self.held {
            Held::Own(transaction) => {
                let read = self.read_definitions.get_mut();
                let catalogue = self.shared.catalogue().filter(|_| self.own.version() != 0 || !read.is_empty());
                let changed_at = |transaction: &quipu::Transaction| catalogue.map(|tree| transaction.changed_at(tree));
                let before = changed_at(transaction).transpose()?;
                transaction.refresh().map_err(gone_is_conflict)?;
                if changed_at(transaction).transpose()? != before {
                    read.clear();
                    // Beside its own changes of definitions it sees those of others from now on.
                    if self.own.version() != 0 {
                        self.own.note();
                    }
                }
                Ok(())
            }
            Held::Lent(_) => {
                let what = "the single writer's transaction is at the present version";
                Err(Error::new(ErrorKind::Invalid, what))
            }
        }
    }

    /// Has changes of definitions ask, once in a thousand rows that they look at or write, whether to stop.
    pub fn stop_if(&self, stop: impl Fn() -> bool + 'static) {
        self.stop.ask(stop);
    }

    /// Whether what it only reads is noted.
    pub(crate) fn notes_reads(&self) -> bool {
        matches!(self.held, Held::Own(_)) && self.isolation == Isolation::Serializable
    }

    /// Whether others write meanwhile, and what it writes is noted but not what it reads.
    pub(crate) fn notes_writes_alone(&self) -> bool {
        matches!(self.held, Held::Own(_)) && self.isolation != Isolation::Serializable
    }

    /// How far it is kept apart from others.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Notes that a statement stopped half way, so that the transaction can only be rolled back.
    #[cold]
    pub(crate) fn break_off(&self) {
        self.is_broken.set(true);
    }

    pub(crate) fn refuse_broken(&self) -> Result<()> {
        if self.is_broken.get() {
            let what = "a statement stopped half way; the transaction can only be rolled back";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(())
    }

    /// Marks a point to roll back to. Costs nothing before the next write.
    pub fn savepoint(&self) -> Savepoint {
        let savepoint = self.engine().savepoint();
        self.numbers.mark(savepoint);
        self.postponed.mark(savepoint);
        savepoint
    }

    /// Undoes every write since the savepoint, which stays.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the savepoint was released, or undone by rolling back to an earlier one.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.engine().rollback_to(savepoint)?;
        self.numbers.roll_back_to(savepoint);
        self.postponed.roll_back_to(savepoint);
        self.look_again()
    }

    /// Looks again at what changes of definitions have made, some of which may be undone.
    fn look_again(&self) -> Result<()> {
        if self.own.note_undone() {
            self.forget_definitions();
            self.numbers.look_again(self.engine())?;
        }
        Ok(())
    }

    /// Forgets the savepoint and those after it; their writes stay.
    ///
    /// # Errors
    /// Those of [`RowTransaction::rollback_to`].
    pub fn release(&self, savepoint: Savepoint) -> Result<()> {
        self.engine().release(savepoint)?;
        self.numbers.release(savepoint);
        self.postponed.release(savepoint);
        Ok(())
    }

    /// Does all of `work` or, if it fails, nothing of it: its writes are undone, and those before it stay.
    ///
    /// # Errors
    /// Those of `work`, and of [`RowTransaction::rollback_to`]: after one of the latter the transaction can only be
    /// rolled back, since a part of the work may be left in it.
    pub fn all_or_none<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let savepoint = self.savepoint();
        let result = work();
        let undone = if result.is_err() { self.rollback_to(savepoint) } else { Ok(()) };
        unless_half_done(self, result, undone.and_then(|()| self.release(savepoint)))
    }

    /// Commits with the durability of the database.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if another commit changed what this transaction has read: nothing is changed;
    /// run it again. [`Invalid`](ErrorKind::Invalid) in the closure of [`Database::write`](crate::Database::write),
    /// whose transaction commits when it returns.
    pub fn commit(self) -> Result<()> {
        self.end(Transaction::commit)
    }

    /// Commits with this durability.
    ///
    /// # Errors
    /// Those of [`RowTransaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.end(|transaction| transaction.commit_with(durability))
    }

    fn end(self, commit: impl FnOnce(Transaction) -> Result<()>) -> Result<()> {
        self.refuse_broken()?;
        self.check_postponed()?;
        match self.held {
            Held::Own(transaction) => {
                self.numbers.write(&transaction)?;
                let committed = commit(*transaction).map_err(gone_is_conflict);
                // Now that others see the rows.
                drop((self.numbers, self.own));
                committed
            }
            Held::Lent(_) => {
                let what = "the transaction of a `Database::write` closure commits when it returns";
                Err(Error::new(ErrorKind::Invalid, what))
            }
        }
    }

    fn check_postponed(&self) -> Result<()> {
        let checks = [self.postponed.check.get(), self.postponed.check_unique.get()];
        checks.into_iter().flatten().try_for_each(|check| check(self))
    }

    /// Drops all writes.
    pub fn rollback(self) {}
}

impl Shared {
    /// Runs `work` as the single writer and commits what it did, with this durability or that of the database.
    ///
    /// # Errors
    /// Those of `work` and of a commit.
    pub(crate) fn write<T>(
        self: &Arc<Self>,
        durability: Option<Durability>,
        work: impl FnOnce(&RowTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut ended = None;
        let run = |transaction: &Transaction| {
            let rows = RowTransaction::single_writer(Arc::clone(self), transaction);
            let result = work(&rows).and_then(|result| {
                rows.refuse_broken()?;
                rows.check_postponed()?;
                rows.numbers.write(transaction)?;
                Ok(result)
            });
            // Its trees are dropped after the writer's turn.
            ended = Some((rows.numbers, rows.own));
            result
        };
        let result = match durability {
            Some(durability) => self.db.write_with(durability, run),
            None => self.db.write(run),
        };
        // Now that others see the rows.
        drop(ended);
        result
    }
}

/// What a transaction has used is gone, so what it has read has changed.
fn gone_is_conflict(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Missing => Error::new(ErrorKind::Conflict, error.to_string()),
        _ => error,
    }
}

/// The trees of a transaction, relied upon.
pub(crate) struct Relying<'r, 'x>(pub(crate) &'r RowTransaction<'x>);

impl Trees for Relying<'_, '_> {
    type Tree<'t>
        = TableTransaction<'t>
    where
        Self: 't;

    fn tree<'t>(&'t self, table: &quipu::Table) -> Result<TableTransaction<'t>> {
        self.0.relying_tree(table)
    }

    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>> {
        self.0.open_tree(name)
    }
}

#[cold]
pub(crate) fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))
}

/// The error of a handle of a table that is no longer there, whether another has its name now or not.
#[cold]
pub(crate) fn dropped() -> Error {
    Error::new(ErrorKind::Missing, "the table has been dropped")
}

impl Trees for RowTransaction<'_> {
    type Tree<'t>
        = TableTransaction<'t>
    where
        Self: 't;

    fn tree<'t>(&'t self, table: &quipu::Table) -> Result<TableTransaction<'t>> {
        self.engine().table(table)
    }

    fn open_tree(&self, name: &str) -> Result<Option<quipu::Table>> {
        if let Some(created) = self.own.created_tree(name) {
            return Ok(Some(created));
        }
        match (self.shared.db.open_table(name)?, &self.held) {
            (None, Held::Own(_)) => {
                let what = "a table that the transaction uses has changed or was dropped meanwhile; run it again";
                Err(Error::new(ErrorKind::Conflict, what))
            }
            (found, _) => Ok(found),
        }
    }
}

impl OneMoment for RowTransaction<'_> {}

/// [`RowTransaction::all_or_none`] of one statement, which gives back its numbers itself.
pub(crate) fn as_one<T>(transaction: &RowTransaction<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let engine = transaction.engine();
    let savepoint = engine.savepoint();
    let result = work();
    let undone = match &result {
        Ok(_) => Ok(()),
        Err(_) => engine.rollback_to(savepoint).and_then(|()| transaction.look_again()),
    };
    unless_half_done(transaction, result, undone.and_then(|()| engine.release(savepoint)))
}

/// What work has come to, unless its savepoint could not be ended: then a part of it may be left.
fn unless_half_done<T, E: From<Error>>(
    transaction: &RowTransaction<'_>,
    result: std::result::Result<T, E>,
    ended: Result<()>,
) -> std::result::Result<T, E> {
    if let Err(error) = ended {
        transaction.break_off();
        return Err(error.into());
    }
    result
}
