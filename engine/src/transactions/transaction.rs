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
//! Not here: what is kept of each table (`private_table`), validation and rebasing (`conflicts`), commit
//! (`write/commit`).

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use crate::bounds::Bounds;
use crate::catalog::declaration::{Declaration, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::log::Room;
use crate::options::{Durability, TableOptions};
use crate::page::KeyBuffer;
use crate::read::entry::Entry;
use crate::read::entry::Value;
use crate::read::observation::{ASKED_TOGETHER, Question, ValuePart};
use crate::read::readable::ReadableTable;
use crate::read::reader::{Fill, Reader};
use crate::read::table_stack::Source;
use crate::state::handle::Table;
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::versions::{TableVersion, Versions};
use crate::tally::Tally;
use crate::transactions::isolation::Isolation;
use crate::transactions::patches::Patch;
use crate::transactions::private_table::{Born, Layers, Parts, PrivateTable, PrivateTables};
use crate::tree::{Tree, View};
use crate::write::create_table::{check_declaration, check_table_id, table_exists};
use crate::write::writable::{WritableTable, exists, missing};

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
    isolation: Isolation,
    tables: PrivateTables,
    /// Tables that are created before the commit of the single writer's transaction, each with where the log has room
    /// for that.
    created: RefCell<Vec<(Arc<Declaration>, Room)>>,
    depth: Cell<u32>,
    /// Numbers of the live savepoints, by depth from 1: they tell a released savepoint from the next of its depth.
    savepoints: RefCell<Vec<u64>>,
    savepoint_last: Cell<u64>,
    bytes: Cell<u64>,
    /// A merge of its layers stopped half way, so it can only be rolled back.
    broken: Cell<bool>,
}

/// What lies below a key that was not looked up, until it is: a live row. So a removal leaves a tombstone.
const LIVE_BELOW: Tally = Tally { rows: 1, ..Tally::ZERO };

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    depth: u32,
    number: u64,
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
            broken: Cell::new(false),
        }
    }

    fn versions(&self) -> &Versions {
        match &self.base {
            Base::Snapshot(snapshot) => &snapshot.versions,
            Base::Current(versions) => versions,
        }
    }

    fn is_optimistic(&self) -> bool {
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
        Savepoint { depth: self.depth.get(), number }
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
    fn resolve(&self, table: &PrivateTable) -> Result<()> {
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
fn busy() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "a closure that is given rows of a transaction cannot write to it; collect the keys first, or use `range`",
    )
}

/// One table in a transaction. Reads see the transaction's own writes; counts and offsets are exact.
pub struct TableTransaction<'t> {
    transaction: &'t Transaction,
    private: &'t PrivateTable,
    /// Whether what is read must be unchanged at the commit.
    records: bool,
}

impl<'t> TableTransaction<'t> {
    /// The same table; what is read through it must be unchanged at the commit, also under snapshot isolation.
    pub fn relying(&self) -> TableTransaction<'t> {
        TableTransaction { records: self.transaction.is_optimistic(), ..*self }
    }

    /// Says that what the transaction writes to this table serves to free space, as a catalogue that no longer names
    /// what is dropped. On a full disk it goes where removals go, though the table has no fewer rows then: keep it
    /// small, since the log has room for some megabytes of all that. Rolling back to a savepoint takes it back.
    pub fn write_to_free(&self) {
        let depth = self.transaction.depth.get();
        self.private.frees_from.set(Some(self.private.frees_from.get().unwrap_or(depth)));
    }

    /// The value of `key`, or `None`, of which the caller promises to rely on a part only: a change of the rest is no
    /// conflict. One descent.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub fn get_part(&self, key: impl AsRef<[u8]>, part: &ValuePart) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.observe(|| Question::Part(key.into(), part.clone()))?;
        self.ask(|stack| Ok(stack.get(key)?.map(Value::from)))
    }

    /// Changes the value of a live key to what `patch` makes of it. Returns whether the key is live.
    ///
    /// If another commit has changed the row meanwhile, the patch is applied again, to the new value: so the
    /// transaction relies on no more than that the key is live, under any isolation, and two transactions that patch
    /// one row do not conflict. What it is told of the patched value it relies on as on any other.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// use quipu::isolation::Patch;
    /// use quipu::{Db, Options, ReadableTable, WritableTable};
    /// # let db = Db::open("/data/stock", Options::without_files())?;
    /// let stock = db.ensure_table("stock")?;
    /// stock.put("apples", [5])?;
    /// let (anna, ben) = (db.begin(), db.begin());
    /// for transaction in [&anna, &ben] {
    ///     transaction.table(&stock)?.patch("apples", &Patch::new(|count| Ok(vec![count[0] - 2])))?;
    /// }
    /// anna.commit()?;
    /// ben.commit()?;
    /// assert_eq!(*stock.get("apples")?.expect("it is there"), [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the patch and of a write. At the commit, those of the patch again.
    pub fn patch(&self, key: impl AsRef<[u8]>, patch: &Patch) -> Result<bool> {
        let key = key.as_ref();
        let is_optimistic = self.transaction.is_optimistic();
        if is_optimistic {
            self.relying().observe(|| Question::Live(key.into()))?;
        }
        let Some(value) = self.ask(|stack| Ok(stack.get(key)?.map(Value::from)))? else { return Ok(false) };
        self.found(key, Some(&value));
        let patched = patch.apply(&value)?;
        let follows = is_optimistic && {
            let is_written = self.private.layers.borrow().iter().any(|(_, tree)| tree.view().get(key).is_some());
            !is_written || self.private.patches.borrow().follows(key)
        };
        self.write_layer(key, Some(&patched), None)?;
        if follows {
            self.private.patches.borrow_mut().add(key, self.transaction.depth.get(), patch.clone());
        }
        Ok(true)
    }

    /// The version below the transaction's writes.
    fn version(&self) -> Result<&TableVersion> {
        self.private.version_in(self.transaction.versions())
    }

    /// The version under the layers. No part of a generic function, which would compile it again for each caller.
    fn source<'a>(&'a self, version: &'a TableVersion, layers: &'a Layers) -> Source<'a> {
        let shared = &self.transaction.shared;
        let PrivateTable { unresolved_keys, dead_met, .. } = self.private;
        let written = layers.iter().rev().filter(|(_, tree)| tree.entries() > 0).map(|(_, tree)| tree.view());
        let source = version.source_under(written, &shared.arena, &shared.cache).noting_dead(dead_met);
        if unresolved_keys.borrow().is_empty() { source } else { source.stepping() }
    }

    fn base(&self) -> Result<Source<'_>> {
        Ok(self.transaction.shared.source(self.version()?))
    }

    /// Brings the leaves of these keys in the version below into the processor's cache, if it is one tree in memory.
    pub(crate) fn warm(&self, keys: &[&[u8]]) -> Result<()> {
        if let Some(trees) = self.base()?.trees() {
            trees.single().into_iter().for_each(|view| crate::tree::warm(view, keys));
        }
        Ok(())
    }

    /// Writes a key, whatever patches have made of it. See [`TableTransaction::write_layer`].
    #[inline]
    fn write(&self, key: &[u8], value: Option<&[u8]>, allow: Option<fn(bool) -> bool>) -> Result<bool> {
        let transaction = self.transaction;
        if transaction.is_optimistic() {
            if transaction.isolation == Isolation::Snapshot {
                // The first of two that write the row wins.
                self.relying().observe(|| Question::Value(key.into()))?;
            }
            let written = self.write_layer(key, value, allow)?;
            let patches = &mut *self.private.patches.borrow_mut();
            if written && !patches.is_empty() {
                patches.overwrite(key, transaction.depth.get());
            }
            return Ok(written);
        }
        self.write_layer(key, value, allow)
    }

    /// Writes to the layer of the current savepoint. `allow` gets whether the key is live and decides whether to write.
    /// Without `allow`, whether the key is live is looked up later. Returns whether it wrote.
    #[inline]
    fn write_layer(&self, key: &[u8], value: Option<&[u8]>, allow: Option<fn(bool) -> bool>) -> Result<bool> {
        let transaction = self.transaction;
        let shared = &transaction.shared;
        shared.check_row(key, value)?;
        let bytes = transaction.bytes.get() + (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if bytes > shared.options.transaction_bytes_max {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the transaction has more than {} bytes of keys and values; commit it in parts or raise `transaction_bytes_max`",
                    shared.options.transaction_bytes_max
                ),
            ));
        }
        transaction.bytes.set(bytes);
        let version = self.version()?;
        let PrivateTable { declaration, layers, .. } = self.private;
        let Ok(mut layers) = layers.try_borrow_mut() else { return Err(busy()) };
        let depth = transaction.depth.get();
        if layers.last().is_none_or(|(layer_depth, _)| *layer_depth < depth) {
            drop(layers);
            transaction.resolve(self.private)?;
            layers = self.private.layers.borrow_mut();
            layers.push((depth, Tree::new(shared.arena.clone(), declaration.options.measures, false)));
        }
        let Some(((_, top), lower_layers)) = layers.split_last_mut() else {
            unreachable!("a layer was pushed above");
        };
        let known = self.private.known.take().filter(|(known, _)| **known == *key).map(|(_, tally)| tally);
        // The common case, without a stack: one base, no savepoints. The leaf of the base and that of the transaction
        // come from memory at the same time.
        let base = match &version.layers[..] {
            [base] if lower_layers.is_empty() && version.runs.is_empty() => Some(base.view(&shared.arena)),
            _ => None,
        };
        // After the last key of both there is nothing to look up: ascending writes need no descent at all.
        let is_behind = |base: &View<'_>| {
            let last = || self.private.last_below.get_or_init(|| base.last_key()).as_deref();
            top.goes_on_at_tail(key) && last().is_none_or(|last| last < key)
        };
        let aimed = base.as_ref().filter(|base| !is_behind(base)).and_then(|base| base.aim(key));
        let mut failure = None;
        let mut is_unresolved = false;
        let allows = |is_live: bool| allow.is_none_or(|allow| allow(is_live));
        let written = top.write_over(key, value, |existing| {
            if let Some(existing) = existing {
                return allows(existing.live).then_some(existing.below);
            }
            if base.is_some() {
                let old = aimed.as_ref().and_then(|aimed| aimed.get(key)).and_then(|found| found.value());
                let below = old.map_or(Tally::ZERO, |old| declaration.options.measures.of_row(key, old));
                return (allows(old.is_some()) && (old.is_some() || value.is_some())).then_some(below);
            }
            if let Some(below) = known {
                return (allows(below.rows > 0) && (below.rows > 0 || value.is_some())).then_some(below);
            }
            if allow.is_none() {
                is_unresolved = true;
                return Some(LIVE_BELOW);
            }
            let views = lower_layers.iter().rev().map(|(_, tree)| tree.view());
            let below = version.source_under(views, &shared.arena, &shared.cache);
            let below = below.ask(|stack| stack.contribution(key)).map_err(|error| failure = Some(error)).ok()?;
            allows(below.rows > 0).then_some(below)
        })?;
        if is_unresolved {
            self.private.unresolved_keys.borrow_mut().add(depth, key);
        }
        match failure {
            None => Ok(written.is_some()),
            Some(error) => Err(error),
        }
    }
}

impl Reader for TableTransaction<'_> {
    fn read_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        self.transaction.resolve(self.private)?;
        self.read_rows_from(work)
    }

    fn read_rows_from<R>(&self, work: impl FnOnce(&Source<'_>) -> Result<R>) -> Result<R> {
        let version = self.version()?;
        let PrivateTable { declaration, layers, dead_met, .. } = self.private;
        // To step over removed rows again and again costs more than to look up now what the commit would look up.
        if dead_met.get() && !declaration.options.blind_writes {
            self.transaction.resolve(self.private)?;
        }
        let layers = layers.borrow();
        work(&self.source(version, &layers))
    }

    fn before_lending(&self) -> Result<()> {
        self.transaction.resolve(self.private)
    }

    fn observe(&self, question: impl FnOnce() -> Question) -> Result<()> {
        if !self.records {
            return Ok(());
        }
        self.private.observations.borrow_mut().get_or_insert_default().note(&|| self.base(), question())
    }

    fn found(&self, key: &[u8], value: Option<&[u8]>) {
        let PrivateTable { declaration, known, .. } = self.private;
        // In one tree a write finds the row on its way, and in a blind table nothing is looked up.
        let is_asked_late = |version: &TableVersion| !version.runs.is_empty() || version.layers.len() > 1;
        if !declaration.options.blind_writes && self.version().is_ok_and(is_asked_late) {
            let tally = value.map_or(Tally::ZERO, |value| declaration.options.measures.of_row(key, value));
            known.replace(Some((KeyBuffer::from_slice(key), tally)));
        }
    }

    fn hold(&self) -> Box<dyn Fill + '_> {
        Box::new(self)
    }
}

impl WritableTable for TableTransaction<'_> {
    fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.observe(|| Question::Live(key.into()))?;
        if self.write(key, Some(value.as_ref()), Some(|live| !live))? { Ok(()) } else { Err(exists()) }
    }

    fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), Some(value.as_ref()), None).map(|_| ())
    }

    fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.observe(|| Question::Live(key.into()))?;
        if self.write(key, Some(value.as_ref()), Some(|live| live))? { Ok(()) } else { Err(missing()) }
    }

    fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.observe(|| Question::Live(key.into()))?;
        self.write(key, None, Some(|live| live))
    }

    fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        if self.transaction.is_optimistic() {
            // Of a key that is dead in the snapshot nothing would be left to say, though another commit may put it.
            return self.remove(key).map(|_| ());
        }
        self.write(key.as_ref(), None, None).map(|_| ())
    }

    fn remove_range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64> {
        let bounds = bounds.into();
        let mut removed = 0;
        for entry in self.range(&bounds) {
            removed += u64::from(self.write(&entry?.key, None, Some(|live| live))?);
        }
        Ok(removed)
    }

    fn pop_first(&self) -> Result<Option<Entry>> {
        let first = self.first()?;
        first.as_ref().map_or(Ok(()), |entry| self.delete(&entry.key))?;
        Ok(first)
    }

    fn pop_last(&self) -> Result<Option<Entry>> {
        let last = self.last()?;
        last.as_ref().map_or(Ok(()), |entry| self.delete(&entry.key))?;
        Ok(last)
    }

    fn update(&self, key: impl AsRef<[u8]>, change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        let key = key.as_ref();
        let old = self.get(key)?;
        match (change(old.as_deref()), &old) {
            (Some(new), Some(old)) if new[..] == old[..] => Ok(()),
            (Some(new), _) => self.put(key, new),
            (None, Some(_)) => self.delete(key),
            (None, None) => Ok(()),
        }
    }

    fn retain<'b>(&self, bounds: impl Into<Bounds<'b>>, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        let bounds = bounds.into();
        let mut removed = 0;
        for entry in self.range(&bounds) {
            let entry = entry?;
            if !keep(&entry.key, &entry.value) {
                self.delete(&entry.key)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}
