//! One table in a transaction: its reads, which see what the transaction has written, and its writes.
//!
//! A write goes to the layer of the current savepoint; invariants of layers are those of `transaction`.

use crate::bounds::Bounds;
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::read::entry::{Entry, Value};
use crate::read::observation::{Question, ValuePart};
use crate::read::readable::ReadableTable;
use crate::read::reader::{Fill, Reader};
use crate::read::table_stack::Source;
use crate::state::versions::TableVersion;
use crate::tally::Tally;
use crate::transactions::isolation::Isolation;
use crate::transactions::patches::Patch;
use crate::transactions::private_table::{Layers, PrivateTable};
use crate::transactions::transaction::{LIVE_BELOW, Transaction, busy};
use crate::tree::{Tree, View};
use crate::write::writable::{WritableTable, exists, missing};

/// One table in a transaction. Reads see the transaction's own writes; counts and offsets are exact.
pub struct TableTransaction<'t> {
    pub(super) transaction: &'t Transaction,
    pub(super) private: &'t PrivateTable,
    /// Whether what is read must be unchanged at the commit.
    pub(super) records: bool,
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
        if bytes > transaction.unnoted_bytes.get() {
            transaction.note_bytes(bytes)?;
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
