//! Transactions: private layers over a version, savepoints, and what was read.
//!
//! Invariants:
//! 1. A private layer's weights are relative to everything below it, so counts inside the transaction are exact.
//! 2. Writes after savepoint `d` go to layers of depth `d`; rolling back to it drops those.
//! 3. An optimistic transaction notes what it reads of the version below its own writes; under snapshot isolation, what
//!    it writes.
//! 4. Unresolved entries, whose keys have not been looked up below, are all in the newest layer of their table, and
//!    listed as `unresolved_keys`. They are resolved together, before weights are read, another layer begins, or the
//!    transaction commits; those of a blind table may never be. Until then they weigh as if their keys were live.
//! 5. A key that was read just before it is written is not looked up again.
//!
//! Not here: reads and writes of a table (`table_transaction`), what is kept of it (`private_table`), validation and
//! rebasing (`conflicts`), commit (`write/commit`).

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use crate::catalog::declaration::{Declaration, TableId};
use crate::catalog::record;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Room;
use crate::options::{Durability, TableOptions};
use crate::read::observation::ASKED_TOGETHER;
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::table_handle::Table;
use crate::state::versions::Versions;
use crate::tally::Tally;
use crate::transactions::isolation::Isolation;
use crate::transactions::private_table::{Born, Parts, PrivateTable, PrivateTables};
use crate::transactions::table_transaction::TableTransaction;
use crate::write::create_table::{check_declaration, check_table_id, table_exists};

/// The version that a transaction reads below its own writes.
enum Base {
    /// A snapshot: an optimistic transaction, validated at commit.
    Snapshot(Snapshot),
    /// The current version, which no other writer can change: this is the single one.
    Current(Arc<Versions>),
}

/// A set of reads and writes that happen at one moment, or not at all.
///
/// Made by [`Db::begin`](crate::Db::begin) (optimistic: others write meanwhile, and the commit may fail with
/// [`ErrorKind::Conflict`]) or lent to the closure of [`Db::write`](crate::Db::write) (the single writer: never
/// conflicts). Both are serializable. Dropping it rolls back.
pub struct Transaction {
    pub(crate) shared: Arc<Shared>,
    base: Base,
    pub(super) isolation: Isolation,
    tables: PrivateTables,
    /// Tables that are created before the commit of the single writer's transaction, each with where the log has room
    /// for that.
    created: RefCell<Vec<(Arc<Declaration>, Room)>>,
    pub(super) depth: Cell<u32>,
    /// Numbers of the live savepoints, by depth from 1: they tell a released savepoint from the next of its depth.
    savepoints: RefCell<Vec<u64>>,
    savepoint_last: Cell<u64>,
    /// Bytes of keys and values that were written.
    pub(super) bytes: Cell<u64>,
    /// So many of them need no [`Transaction::note_bytes`].
    pub(super) unnoted_bytes: Cell<u64>,
    /// A merge of its layers stopped half way, so it can only be rolled back.
    broken: Cell<bool>,
}

/// The log is told of a transaction that has so many bytes.
const LONG_RECORD_BYTES: u64 = 2 << 20;

/// What lies below a key that was not looked up, until it is: a live row. So a removal leaves a tombstone.
pub(super) const LIVE_BELOW: Tally = Tally { rows: 1, ..Tally::ZERO };

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    depth: u32,
    number: u64,
    /// Bytes of keys and values that were written before it.
    bytes: u64,
}

impl Transaction {
    pub(crate) fn optimistic(shared: &Arc<Shared>, isolation: Isolation) -> Self {
        Transaction { isolation, ..Self::over(shared, Base::Snapshot(Snapshot::take(shared))) }
    }

    pub(crate) fn single_writer(shared: &Arc<Shared>) -> Self {
        let versions = Arc::clone(&shared.versions.read());
        Self::over(shared, Base::Current(versions))
    }

    pub(crate) fn at(snapshot: &Snapshot, isolation: Isolation) -> Self {
        Transaction { isolation, ..Self::over(&snapshot.shared, Base::Snapshot(snapshot.clone())) }
    }

    /// The version that an optimistic transaction reads, without its own writes. O(1).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for that of a [`Db::write`](crate::Db::write).
    pub fn snapshot(&self) -> Result<Snapshot> {
        match &self.base {
            Base::Snapshot(snapshot) => Ok(snapshot.clone()),
            Base::Current(_) => {
                Err(Error::new(ErrorKind::Invalid, "the single writer's transaction has no snapshot to share"))
            }
        }
    }

    fn over(shared: &Arc<Shared>, base: Base) -> Self {
        Transaction {
            shared: shared.clone(),
            base,
            isolation: Isolation::default(),
            tables: PrivateTables::default(),
            created: RefCell::default(),
            depth: Cell::new(0),
            savepoints: RefCell::new(Vec::new()),
            savepoint_last: Cell::new(0),
            bytes: Cell::new(0),
            unnoted_bytes: Cell::new(LONG_RECORD_BYTES.min(shared.options.transaction_bytes_max)),
            broken: Cell::new(false),
        }
    }

    /// A transaction of so many bytes is long: the log makes files for its record meanwhile. Fails if it is too long.
    #[cold]
    pub(super) fn note_bytes(&self, bytes: u64) -> Result<()> {
        let bytes_max = self.shared.options.transaction_bytes_max;
        if bytes > bytes_max {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the transaction has more than {bytes_max} bytes of keys and values; commit it in parts or raise `transaction_bytes_max`"
                ),
            ));
        }
        self.shared.expect_record(2 * bytes);
        self.unnoted_bytes.set((2 * bytes).min(bytes_max));
        Ok(())
    }

    pub(super) fn versions(&self) -> &Versions {
        match &self.base {
            Base::Snapshot(snapshot) => &snapshot.versions,
            Base::Current(versions) => versions,
        }
    }

    pub(super) fn is_optimistic(&self) -> bool {
        matches!(self.base, Base::Snapshot(_))
    }

    /// The table in this transaction, to read and write. One that was created after the transaction began has no rows.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table was dropped; [`ErrorKind::Invalid`] if it belongs to another database.
    pub fn table(&self, table: &Table) -> Result<TableTransaction<'_>> {
        table.check_owner(&self.shared)?;
        self.shared.process.check()?;
        let records = self.is_optimistic() && self.isolation == Isolation::Serializable;
        if let Some(private) = self.tables.iter().find(|private| private.id == table.id()) {
            private.version_in(self.versions())?;
            return Ok(TableTransaction { transaction: self, private, records });
        }
        let is_there = || {
            self.created.borrow().iter().any(|(created, _)| Arc::ptr_eq(created, &table.declaration))
                || self.shared.versions.read().table(table.id()).is_ok()
        };
        let born = if self.versions().is_younger(table.id()) && is_there() {
            Some(Born::new(&self.shared, &table.declaration))
        } else {
            self.versions().table(table.id())?;
            None
        };
        let private = self.tables.add(PrivateTable::new(table, born));
        Ok(TableTransaction { transaction: self, private, records })
    }

    /// Creates a table. In an optimistic transaction it is there at once, for all, and stays when this is rolled
    /// back; that of the single writer creates it before its own commit, if it comes to that. A crash in between
    /// leaves the table without rows.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// use quipu::{Db, Options, ReadableTable, TableOptions, WritableTable};
    /// # let db = Db::open("/data/shop", Options::without_files())?;
    /// let orders = db.write(|transaction| {
    ///     let orders = transaction.create_table("orders", TableOptions::default())?;
    ///     transaction.table(&orders)?.put("1", "open")?;
    ///     assert!(db.open_table("orders")?.is_none(), "others see it after the commit");
    ///     Ok(orders)
    /// })?;
    /// assert_eq!(orders.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::create_table`](crate::Db::create_table).
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.create_table_in(name, options, Room::Common)
    }

    /// Like [`Transaction::create_table`], also on a full disk: for a table without rows that takes the place of one
    /// that is dropped. The log has room for some (see [`Latched::write_to_free`](crate::latched::Latched)).
    ///
    /// # Errors
    /// Those of [`Db::create_table`](crate::Db::create_table).
    pub fn create_table_to_free(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.create_table_in(name, options, Room::Kept)
    }

    fn create_table_in(&self, name: &str, options: TableOptions, room: Room) -> Result<Table> {
        check_declaration(name, &options)?;
        let shared = &self.shared;
        if self.is_optimistic() {
            return shared.create_table(name, options, room);
        }
        let mut created = self.created.borrow_mut();
        let versions = self.versions();
        if versions.by_name(name).is_some() || created.iter().any(|(declaration, _)| declaration.name == name) {
            return Err(table_exists(name));
        }
        let id = check_table_id(versions.tables.len() + created.len())?;
        let declaration = Arc::new(Declaration { id, name: name.to_owned(), options });
        created.push((declaration.clone(), room));
        Ok(Table { shared: shared.clone(), declaration })
    }

    /// The tables that the single writer's transaction creates, each with where the log has room for that.
    pub(crate) fn created(&self) -> Vec<(Arc<Declaration>, Room)> {
        self.created.borrow().clone()
    }

    /// Reserves room in the log for a commit of so many `writes`, whose keys and values have `bytes` in total, so that
    /// the single writer's commit does not fail for lack of it. What was written before counts too.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if there is no space, with nothing done; [`ErrorKind::Invalid`] in an optimistic
    /// transaction.
    pub fn reserve(&self, writes: usize, bytes: usize) -> Result<()> {
        self.reserve_in(writes, bytes, Room::Common)
    }

    /// Like [`Transaction::reserve`], for a commit that only frees space
    /// ([`write_to_free`](crate::TableTransaction::write_to_free)).
    ///
    /// # Errors
    /// Those of [`Transaction::reserve`].
    pub fn reserve_to_free(&self, writes: usize, bytes: usize) -> Result<()> {
        self.reserve_in(writes, bytes, Room::Kept)
    }

    fn reserve_in(&self, writes: usize, bytes: usize, room: Room) -> Result<()> {
        if self.is_optimistic() {
            return Err(Error::new(ErrorKind::Invalid, "an optimistic transaction reserves nothing: others write"));
        }
        let log = self.shared.log()?;
        if room == Room::Common {
            log.check_kept()?;
        }
        log.reserve(bytes + writes * record::ENTRY_BYTES_MAX, room).map(|_| ())
    }

    /// Sequence number of the last commit that changed the table, as of the version that the transaction reads below
    /// its own writes. It relies on nothing for that.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table was dropped; [`ErrorKind::Invalid`] if it belongs to another database.
    pub fn changed_at(&self, table: &Table) -> Result<u64> {
        table.check_owner(&self.shared)?;
        Ok(self.versions().table(table.id())?.sequence)
    }

    /// Marks a point to roll back to. Costs nothing before the next write.
    pub fn savepoint(&self) -> Savepoint {
        self.depth.set(self.depth.get() + 1);
        let number = self.savepoint_last.get() + 1;
        self.savepoint_last.set(number);
        self.savepoints.borrow_mut().push(number);
        Savepoint { depth: self.depth.get(), number, bytes: self.bytes.get() }
    }

    /// Undoes every write since the savepoint, which stays. Costs what dropping the layers costs, or one step for each
    /// write if rows were counted.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the savepoint was released, or undone by rolling back to an earlier one.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.check_savepoint(savepoint)?;
        self.refuse_in_visit()?;
        for table in self.tables.iter() {
            if self.is_optimistic() {
                table.note_weights(savepoint.depth, || Ok(self.shared.source(table.version_in(self.versions())?)))?;
            }
            table.known.take();
            table.layers.borrow_mut().retain(|(depth, _)| *depth < savepoint.depth);
            table.unresolved_keys.borrow_mut().forget_from(savepoint.depth);
            table.patches.borrow_mut().forget_from(savepoint.depth);
            table.frees_from.set(table.frees_from.get().filter(|said| *said < savepoint.depth));
        }
        self.bytes.set(savepoint.bytes);
        self.leave_to(savepoint.depth);
        Ok(())
    }

    /// Forgets the savepoint and those after it; their writes stay.
    ///
    /// # Errors
    /// Those of [`Transaction::rollback_to`].
    pub fn release(&self, savepoint: Savepoint) -> Result<()> {
        self.check_savepoint(savepoint)?;
        self.refuse_in_visit()?;
        for table in self.tables.iter() {
            table.known.take();
            self.resolve(table)?;
            if let Err(error) = table.merge_down_to(savepoint.depth - 1) {
                self.broken.set(true);
                return Err(error.context("the transaction cannot go on"));
            }
        }
        self.leave_to(savepoint.depth - 1);
        Ok(())
    }

    /// Looks up the keys that were written without looking below, all together and in order, and corrects their
    /// weights.
    ///
    /// # Errors
    /// Those of reading a page of a run. Weights corrected before the error stay so.
    pub(super) fn resolve(&self, table: &PrivateTable) -> Result<()> {
        let unresolved_keys = &mut *table.unresolved_keys.borrow_mut();
        if unresolved_keys.is_empty() {
            return Ok(());
        }
        let mut layers = table.layers.try_borrow_mut().map_err(|_| busy())?;
        let Some(((_, top), lower_layers)) = layers.split_last_mut() else {
            unreachable!("a key was written to a layer");
        };
        let version = table.version_in(self.versions())?;
        let views = lower_layers.iter().rev().map(|(_, tree)| tree.view());
        let below = version.source_under(views, &self.shared.arena, &self.shared.cache);
        for keys in unresolved_keys.sorted().chunks(ASKED_TOGETHER) {
            let below = below.contributions(keys)?;
            keys.iter().zip(below).try_for_each(|(key, below)| top.reweigh(key, below))?;
        }
        unresolved_keys.forget_from(0);
        Ok(())
    }

    /// Fails in a closure that visits rows of this transaction.
    fn refuse_in_visit(&self) -> Result<()> {
        if self.tables.iter().any(|table| table.layers.try_borrow_mut().is_err()) { Err(busy()) } else { Ok(()) }
    }

    fn leave_to(&self, depth: u32) {
        self.depth.set(depth);
        self.savepoints.borrow_mut().truncate(depth as usize);
    }

    fn check_savepoint(&self, savepoint: Savepoint) -> Result<()> {
        let live = self.savepoints.borrow();
        if live.get((savepoint.depth - 1) as usize) != Some(&savepoint.number) {
            return Err(Error::new(ErrorKind::Invalid, "the savepoint has been released or undone"));
        }
        Ok(())
    }

    /// Commits with the durability of the database.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if another commit changed what this transaction read: nothing is changed; run it again.
    pub fn commit(self) -> Result<()> {
        let durability = self.shared.durability.get();
        self.commit_with(durability)
    }

    /// Commits with this durability.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let shared = self.shared.clone();
        shared.commit_transaction(self, durability)
    }

    /// Moves an optimistic transaction to the present version, if all that it relies on is unchanged there: what it
    /// reads from now on is of that version, and other commits so far can no longer make it conflict.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if it relies on something that has changed, and those of reading a page of a run: then
    /// it is as it was. [`ErrorKind::Invalid`] for that of a [`Db::write`](crate::Db::write), which is always at the
    /// present version.
    pub fn refresh(&mut self) -> Result<()> {
        if !self.is_optimistic() {
            return Err(Error::new(ErrorKind::Invalid, "the single writer's transaction is at the present version"));
        }
        let newer = Snapshot::take(&self.shared);
        if std::ptr::eq(self.versions(), &*newer.versions) {
            return Ok(());
        }
        // What was dropped meanwhile does not matter, if nothing depends on it.
        self.tables.retain(|table| !table.is_untouched() || newer.versions.table(table.id).is_ok());
        for table in self.tables.iter() {
            self.resolve(table)?;
        }
        let mut moved = Vec::new();
        for table in self.tables.iter() {
            moved.push(self.shared.moved(table, self.versions(), &newer.versions)?);
        }
        for (table, moved) in self.tables.iter_mut().zip(moved) {
            table.move_layers(moved);
            table.last_below = OnceCell::new();
            table.born = None;
        }
        self.base = Base::Snapshot(newer);
        Ok(())
    }

    /// Drops all writes.
    pub fn rollback(self) {}

    /// Takes the transaction apart for its commit: what it did to each table, in one layer, and for an optimistic one
    /// its snapshot. Keys that were not looked up are so now, but for tables that `is_blind` tells.
    pub(crate) fn into_parts(self, is_blind: &dyn Fn(TableId) -> bool) -> Result<(Parts, Option<Snapshot>)> {
        if self.broken.get() {
            return Err(Error::new(
                ErrorKind::Full,
                "memory was full when a savepoint was released; the transaction is rolled back, run it again",
            ));
        }
        for table in self.tables.iter() {
            if !(table.may_stay_blind() && is_blind(table.id)) {
                self.resolve(table)?;
            }
        }
        let mut parts = Parts::new();
        for table in self.tables.into_tables().filter(|table| !table.is_untouched()) {
            table.merge_down_to(0)?;
            let layer = table.layers.borrow_mut().pop().map(|(_, tree)| tree).filter(|tree| tree.entries() > 0);
            parts.push((table, layer));
        }
        let snapshot = match self.base {
            Base::Snapshot(snapshot) => Some(snapshot),
            Base::Current(_) => None,
        };
        Ok((parts, snapshot))
    }
}

/// The error of a write during a walk over the same transaction.
#[cold]
pub(super) fn busy() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "a closure that is given rows of a transaction cannot write to it; collect the keys first, or use `range`",
    )
}
