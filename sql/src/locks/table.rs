//! The table of locks, their owners, and those that wait for one: a state machine without threads and clocks.
//!
//! Locks are given in the order in which they are asked for, but for those of an owner that has the lock already, and
//! those that conflict with none before them. An owner that would wait for itself, over others that wait for each
//! other, gets an error at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::locks::mode::{LockMode, Modes};
use crate::types::datum::Datum;

/// Who asks for locks: a transaction.
pub type Owner = u64;

/// What is locked: a table, a key of it, or one of its unique indexes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockName {
    /// The table, or the index.
    pub table: Arc<str>,
    /// The key; empty for the table itself.
    pub key: Vec<Datum>,
}

impl LockName {
    /// The name of the lock of a table.
    pub fn of_table(table: &str) -> LockName {
        LockName { table: table.into(), key: Vec::new() }
    }

    /// Whether it is that of a table, and not of a key.
    pub fn is_table(&self) -> bool {
        self.key.is_empty()
    }
}

/// A lock that an owner has or waits for.
#[derive(Clone, Debug)]
pub struct LockEntry {
    /// What is locked.
    pub name: LockName,
    /// By whom.
    pub owner: Owner,
    /// How.
    pub mode: LockMode,
    /// Whether the owner has it, or waits for it.
    pub is_granted: bool,
}

/// The answer to an owner that asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It has it now.
    Given,
    /// It had it already.
    Had,
    /// Others have it, and it was not queued.
    Taken,
    /// It is in the queue.
    Queued,
    /// It would wait for itself.
    Deadlock,
}

/// A lock with those that have it or wait for it.
#[derive(Debug, Default)]
struct Lock {
    owners: Vec<(Owner, Modes)>,
    queue: VecDeque<(Owner, LockMode)>,
}

/// All locks.
#[derive(Debug, Default)]
pub struct LockTable {
    locks: HashMap<LockName, Lock>,
    waits: HashMap<Owner, LockName>,
}

impl Lock {
    /// Whether an owner could have it beside those that have it.
    fn admits(&self, owner: Owner, mode: LockMode) -> bool {
        self.owners.iter().all(|(other, modes)| *other == owner || !modes.conflict_with(mode))
    }

    /// What an owner has of it.
    fn modes(&self, owner: Owner) -> Option<Modes> {
        self.owners.iter().find(|(other, _)| *other == owner).map(|(_, modes)| *modes)
    }

    fn give(&mut self, owner: Owner, mode: LockMode) {
        match self.owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, modes)) => *modes = modes.with(mode),
            None => self.owners.push((owner, Modes::default().with(mode))),
        }
    }

    /// Gives it to those in the queue that can have it and conflict with none before them.
    fn advance(&mut self) -> Vec<Owner> {
        let (mut given, mut waiting) = (Vec::new(), VecDeque::new());
        for (owner, mode) in std::mem::take(&mut self.queue) {
            if self.admits(owner, mode)
                && waiting.iter().all(|(_, before): &(_, LockMode)| !mode.conflicts_with(*before))
            {
                self.give(owner, mode);
                given.push(owner);
            } else {
                waiting.push_back((owner, mode));
            }
        }
        self.queue = waiting;
        given
    }
}

impl LockTable {
    /// Asks for a lock; one that others have is waited for if `waits`.
    pub fn ask(&mut self, owner: Owner, name: &LockName, mode: LockMode, waits: bool) -> Asked {
        let lock = self.locks.entry(name.clone()).or_default();
        let own = lock.modes(owner);
        if own.is_some_and(|modes| modes.cover(mode)) {
            return Asked::Had;
        }
        let overtakes = own.is_some() || lock.queue.iter().all(|(_, before)| !mode.conflicts_with(*before));
        if lock.admits(owner, mode) && overtakes {
            lock.give(owner, mode);
            return Asked::Given;
        }
        if !waits {
            return Asked::Taken;
        }
        // Who has it already and wants more waits for the others that have it, before those in the queue.
        if own.is_some() {
            lock.queue.push_front((owner, mode));
        } else {
            lock.queue.push_back((owner, mode));
        }
        self.waits.insert(owner, name.clone());
        if self.waits_for_itself(owner) {
            self.stop_waiting(owner);
            return Asked::Deadlock;
        }
        Asked::Queued
    }

    /// Those that an owner waits for.
    fn waited_for(&self, owner: Owner) -> Vec<Owner> {
        let Some(lock) = self.waits.get(&owner).and_then(|name| self.locks.get(name)) else { return Vec::new() };
        let Some(&(_, mode)) = lock.queue.iter().find(|(other, _)| *other == owner) else { return Vec::new() };
        let have = lock.owners.iter().filter(|(_, modes)| modes.conflict_with(mode)).map(|(other, _)| *other);
        let before = lock.queue.iter().take_while(|(other, _)| *other != owner);
        let before = before.filter(|(_, wanted)| mode.conflicts_with(*wanted)).map(|(other, _)| *other);
        have.chain(before).filter(|other| *other != owner).collect()
    }

    fn waits_for_itself(&self, owner: Owner) -> bool {
        let (mut next, mut seen) = (self.waited_for(owner), Vec::new());
        while let Some(other) = next.pop() {
            if other == owner {
                return true;
            }
            if !seen.contains(&other) {
                seen.push(other);
                next.extend(self.waited_for(other));
            }
        }
        false
    }

    /// Whether an owner is still in a queue.
    pub fn is_waiting(&self, owner: Owner) -> bool {
        self.waits
            .get(&owner)
            .and_then(|name| self.locks.get(name))
            .is_some_and(|lock| lock.queue.iter().any(|(other, _)| *other == owner))
    }

    /// Takes an owner out of the queue. Returns those that have got a lock by that.
    pub fn stop_waiting(&mut self, owner: Owner) -> Vec<Owner> {
        let Some(name) = self.waits.remove(&owner) else { return Vec::new() };
        let Some(lock) = self.locks.get_mut(&name) else { return Vec::new() };
        lock.queue.retain(|(other, _)| *other != owner);
        let given = lock.advance();
        self.note_given(&given);
        self.forget_if_free(&name);
        given
    }

    /// Gives back a lock. Returns those that have got it by that.
    pub fn release(&mut self, owner: Owner, name: &LockName) -> Vec<Owner> {
        let Some(lock) = self.locks.get_mut(name) else { return Vec::new() };
        lock.owners.retain(|(other, _)| *other != owner);
        let given = lock.advance();
        self.note_given(&given);
        self.forget_if_free(name);
        given
    }

    /// Those that have got a lock wait for nothing, also before they know.
    fn note_given(&mut self, given: &[Owner]) {
        for owner in given {
            self.waits.remove(owner);
        }
    }

    fn forget_if_free(&mut self, name: &LockName) {
        if self.locks.get(name).is_some_and(|lock| lock.owners.is_empty() && lock.queue.is_empty()) {
            self.locks.remove(name);
        }
    }

    /// Keeps a lock in this mode alone. Returns those that have got it by that.
    pub fn reduce(&mut self, owner: Owner, name: &LockName, mode: LockMode) -> Vec<Owner> {
        let Some(lock) = self.locks.get_mut(name) else { return Vec::new() };
        if let Some((_, modes)) = lock.owners.iter_mut().find(|(other, _)| *other == owner) {
            *modes = Modes::default().with(mode);
        }
        let given = lock.advance();
        self.note_given(&given);
        given
    }

    /// All locks that an owner has or waits for.
    pub fn all(&self) -> Vec<LockEntry> {
        let mut all = Vec::new();
        for (name, lock) in &self.locks {
            let entry = |owner, mode, is_granted| LockEntry { name: name.clone(), owner, mode, is_granted };
            for (owner, modes) in &lock.owners {
                all.extend(modes.iter().map(|mode| entry(*owner, mode, true)));
            }
            all.extend(lock.queue.iter().map(|(owner, mode)| entry(*owner, *mode, false)));
        }
        all
    }

    /// How many keys are locked.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether no key is locked.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Those that have a lock.
    pub fn owners(&self, name: &LockName) -> Vec<Owner> {
        self.locks.get(name).map_or_else(Vec::new, |lock| lock.owners.iter().map(|(owner, _)| *owner).collect())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
