//! Changes of keys: decided in place, with everything that hangs on them.

use std::collections::BTreeSet;

use quipu::latched::Action;
use quipu::{Bounds, ReadableTable, Result};

use super::consequences::key_of_deadline;
use super::data::malformed;
use super::key_change::Ties;
use super::space::Space;
use super::value::{CollectionId, Entry, HEADER_BYTES_MAX, Header, Kind};
use super::{Change, Data, Need};

/// Calls `decide` with the live entry at a key, and tells what hangs on the value before and after. Nothing is put if
/// only what frees space may be written: where space is `lacking`.
fn decide_one(
    old: Option<&[u8]>,
    new: &mut Vec<u8>,
    now_ms: u64,
    lacking: Option<&Space>,
    decide: impl FnOnce(Option<Entry<'_>>, &mut Vec<u8>) -> Change,
) -> Result<(Action, Ties, Ties)> {
    let entry = match old {
        None => None,
        Some(value) => Some(Entry::decode(value).ok_or_else(malformed)?),
    };
    let before = Ties::of(entry.as_ref());
    let live = entry.filter(|entry| !entry.header.is_expired(now_ms));
    let is_live = live.is_some();
    match decide(live, new) {
        Change::Keep if is_live || entry.is_none() => Ok((Action::Keep, before, before)),
        // Nothing was there: no watcher is told.
        Change::Remove if entry.is_none() => Ok((Action::Keep, before, before)),
        // It had expired: nothing is left of it.
        Change::Keep | Change::Remove => Ok((Action::Remove, before, Ties::default())),
        Change::Put | Change::PutPieces(_) if let Some(space) = lacking => Err(space.refusal()),
        change @ (Change::Put | Change::PutPieces(_)) => Ok((Action::Put, before, Ties::after(change, new))),
    }
}

/// The space that lacks, where only what frees space may be written.
fn lacking_space<'k>(data: &Data<'k>) -> Option<&'k Space> {
    (!data.covers(Need::Write)).then(|| &data.keyspace().space)
}

impl Data<'_> {
    /// Changes what stands at a key: `decide` is given the live entry, and writes header and body of a new one into the
    /// empty buffer if it wants one. Elements and deadline of what was there go with it, unless the new value has them
    /// too. Returns whether anything was changed.
    pub fn change(
        &mut self,
        database: usize,
        key: &[u8],
        decide: impl FnOnce(Option<Entry<'_>>, &mut Vec<u8>) -> Change,
    ) -> Result<bool> {
        let tables = self.tables_to_write(database)?;
        let (now_ms, lacking) = (self.now_ms, lacking_space(self));
        let mut outcome = Ok((Action::Keep, Ties::default(), Ties::default()));
        self.latched_write()?.update(&tables.keys, key, |old, new| {
            outcome = decide_one(old, new, now_ms, lacking, decide);
            outcome.as_ref().map_or(Action::Keep, |(action, ..)| *action)
        })?;
        let (action, before, after) = outcome?;
        if action == Action::Keep {
            return Ok(false);
        }
        self.follow(database, key, before, after)?;
        Ok(true)
    }

    /// [`Data::change`] of many keys, whose descents are interleaved. `decide` is also given the number of the key.
    /// Returns how many were changed.
    pub fn change_many(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        mut decide: impl FnMut(usize, Option<Entry<'_>>, &mut Vec<u8>) -> Change,
    ) -> Result<u64> {
        let tables = self.tables_to_write(database)?;
        let (now_ms, lacking) = (self.now_ms, lacking_space(self));
        let has_watchers = self.has_watchers();
        let (mut changed, mut last_changed) = (0, None);
        let mut failure = Ok(());
        // Most keys have no ties and no watchers.
        let mut to_follow: Vec<(usize, Ties, Ties)> = Vec::new();
        let written = self.latched_write()?.update_many(&tables.keys, keys, |number, old, new| {
            match decide_one(old, new, now_ms, lacking, |entry, new| decide(number, entry, new)) {
                Ok((Action::Keep, ..)) => Action::Keep,
                Ok((action, before, after)) => {
                    (changed, last_changed) = (changed + 1, Some(number));
                    if before != after || has_watchers {
                        to_follow.push((number, before, after));
                    }
                    action
                }
                Err(error) => {
                    failure = Err(error);
                    Action::Keep
                }
            }
        });
        // What was written stays written, so its ties follow it before the failure is told.
        if let Err((failed, error)) = written {
            failure = Err(error);
            changed -= u64::from(last_changed == Some(failed));
            to_follow.retain(|(number, ..)| *number != failed);
        }
        self.note_changes(changed - to_follow.len() as u64);
        for (number, before, after) in to_follow {
            self.follow(database, keys[number], before, after)?;
        }
        failure.map(|()| changed)
    }

    /// Makes sure that changes of these keys to values of `bytes` together, with all that hangs on them but the
    /// elements of new collections, do not run out of memory or log half way.
    pub fn reserve(&mut self, database: usize, keys: &[&[u8]], bytes: usize) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        // A key's row, the deadline it had and the one it gets, and what it owns.
        let key_bytes: usize = keys.iter().map(|key| key.len() + HEADER_BYTES_MAX).sum();
        self.latched_write()?.reserve(&tables.keys, 4 * keys.len(), 4 * key_bytes + bytes)
    }

    /// Puts header and body, whatever stood there. A string in pieces is one whose pieces the key has.
    pub fn put_entry(&mut self, database: usize, key: &[u8], entry: Entry<'_>) -> Result<()> {
        self.change(database, key, |_, new| {
            entry.encode(new);
            Change::Put
        })?;
        Ok(())
    }

    /// Changes a string in a way of which Redis does not tell clients that watch: `write` puts the new value. The kind
    /// stays.
    pub fn put_quietly(
        &mut self,
        database: usize,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u8>) -> Change,
    ) -> Result<()> {
        let tables = self.tables_to_write(database)?;
        let (mut before, mut after) = (Ties::default(), Ties::default());
        self.latched_write()?.update(&tables.keys, key, |old, new| {
            let change = write(new);
            before = Ties::of(old.and_then(Entry::decode).as_ref());
            after = Ties::after(change, new);
            if old == Some(&**new) { Action::Keep } else { Action::Put }
        })?;
        self.follow_quietly(database, key, before, after)
    }

    /// The id of the collection of this kind at a key that has one, or that of a new one that is put there. The caller
    /// puts an element into it.
    pub fn collection_to_write(&mut self, database: usize, key: &[u8], kind: Kind) -> Result<CollectionId> {
        let fresh = self.new_id();
        let mut id = fresh;
        self.change(database, key, |entry, new| {
            if let Some(found) = entry.filter(|entry| entry.header.kind == kind).and_then(|entry| entry.collection()) {
                id = found;
                return Change::Keep;
            }
            Header::new(kind).encode(new);
            new.extend_from_slice(&fresh.bytes());
            Change::Put
        })?;
        Ok(id)
    }

    /// Removes a key with all that hangs on it. Returns whether it was live.
    pub fn remove(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        if self.tables(database).is_none() {
            return Ok(false);
        }
        let mut was_live = false;
        self.change(database, key, |entry, _| {
            was_live = entry.is_some();
            Change::Remove
        })?;
        Ok(was_live)
    }

    /// Removes a key that has expired.
    pub(super) fn remove_due(&mut self, database: usize, key: &[u8]) -> Result<()> {
        self.change(database, key, |entry, _| if entry.is_some() { Change::Keep } else { Change::Remove }).map(|_| ())
    }

    /// Removes all keys of a database.
    pub fn clear(&mut self, database: usize) -> Result<()> {
        let Some(tables) = self.tables(database) else { return Ok(()) };
        self.touch_all(database)?;
        let removed = self.latched_write()?.remove_range(&tables.keys, ..)?;
        self.latched_write()?.remove_range(&tables.owners, ..)?;
        self.latched_write()?.remove_range(&tables.expires, ..)?;
        self.drop_all_elements(database)?;
        self.note_changes(removed);
        self.pending.deadlines_changed = true;
        Ok(())
    }

    /// Removes all keys of a range with all that hangs on them. Returns how many there were.
    ///
    /// Cost: one step a leaf, or a page at each end over runs; and a step for each key that expires, has elements or
    /// pieces, or is watched. To find those that expire, either all of the database or all keys of the range are looked
    /// at, whichever are fewer.
    pub fn remove_range(&mut self, database: usize, bounds: &Bounds<'_>) -> Result<u64> {
        let Some(tables) = self.tables(database) else { return Ok(0) };
        let tied = self.tied_keys(database, bounds)?;
        let removed_one_by_one = tied.len() as u64;
        for key in tied {
            self.change(database, &key, |_, _| Change::Remove)?;
        }
        let removed = self.latched_write()?.remove_range(&tables.keys, bounds)?;
        self.note_changes(removed);
        Ok(removed + removed_one_by_one)
    }

    /// The live keys of a range on which something hangs.
    fn tied_keys(&mut self, database: usize, bounds: &Bounds<'_>) -> Result<BTreeSet<Box<[u8]>>> {
        let Some(tables) = self.tables(database) else { return Ok(BTreeSet::new()) };
        let mut tied = self.watched_keys(database, bounds)?;
        self.view(&tables.owners)?.for_each(bounds, |key, _| {
            tied.insert(key.into());
            true
        })?;
        let expires = self.view(&tables.expires)?;
        if expires.len()? <= self.view(&tables.keys)?.count(bounds)? {
            expires.for_each(.., |deadline, _| {
                tied.extend(key_of_deadline(deadline).filter(|key| bounds.contains(key)).map(Box::from));
                true
            })?;
        } else {
            self.view(&tables.keys)?.for_each(bounds, |key, value| {
                if Entry::decode(value).is_none_or(|entry| entry.header.deadline_ms.is_some()) {
                    tied.insert(key.into());
                }
                true
            })?;
        }
        Ok(tied)
    }

    /// Swaps all keys of two databases, which are prepared.
    pub fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        self.touch_all(a)?;
        self.touch_all(b)?;
        let order = self.keyspace().swap_order(a, b);
        self.pending.note_swap(a, b);
        let facts = self.keyspace().facts.clone();
        self.latched_write()?.put(&facts, super::databases::ORDER_FACT, &order)?;
        self.touch_all(a)?;
        self.touch_all(b)?;
        self.note_changes(1);
        Ok(())
    }

    /// Rows of a collection: what it holds, if each element is one row.
    pub fn rows_with_prefix(&self, database: usize, prefix: &[u8]) -> Result<u64> {
        let Some(tables) = self.tables(database) else { return Ok(0) };
        self.view(&tables.elements)?.count(Bounds::prefix(prefix))
    }
}
