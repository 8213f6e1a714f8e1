//! Who has which lock, and who waits for one: a state machine without threads and clocks.
//!
//! Locks are given in the order in which they are asked for, but for those of an owner that has the lock already.
//! An owner that would wait for itself, over others that wait for each other, gets an error at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::types::datum::Datum;

/// Who asks for locks: a transaction.
pub type Owner = u64;

/// What is locked: a key of a table, or of one of its unique indexes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockName {
    /// The table, or the index.
    pub table: Arc<str>,
    /// The key.
    pub key: Vec<Datum>,
}

/// The answer to who asks for a lock.
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

/// A lock that someone has, or waits for.
#[derive(Debug, Default)]
struct Lock {
    owners: Vec<(Owner, bool)>,
    queue: VecDeque<(Owner, bool)>,
}

/// All locks.
#[derive(Debug, Default)]
pub struct LockTable {
    locks: HashMap<LockName, Lock>,
    waits: HashMap<Owner, LockName>,
}

impl Lock {
    /// Whether an owner could have it beside those that have it.
    fn admits(&self, owner: Owner, is_shared: bool) -> bool {
        self.owners.iter().all(|(other, is_other_shared)| *other == owner || (is_shared && *is_other_shared))
    }

    fn give(&mut self, owner: Owner, is_shared: bool) {
        match self.owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, was_shared)) => *was_shared &= is_shared,
            None => self.owners.push((owner, is_shared)),
        }
    }

    /// Gives it to those at the head of the queue that can have it.
    fn advance(&mut self) -> Vec<Owner> {
        let mut given = Vec::new();
        while let Some(&(owner, is_shared)) = self.queue.front()
            && self.admits(owner, is_shared)
        {
            self.queue.pop_front();
            self.give(owner, is_shared);
            given.push(owner);
        }
        given
    }
}

impl LockTable {
    /// Asks for a lock; one that others have is waited for if `waits`.
    pub fn ask(&mut self, owner: Owner, name: &LockName, is_shared: bool, waits: bool) -> Asked {
        let lock = self.locks.entry(name.clone()).or_default();
        if lock.owners.iter().any(|(other, was_shared)| *other == owner && (is_shared || !was_shared)) {
            return Asked::Had;
        }
        let is_owner = lock.owners.iter().any(|(other, _)| *other == owner);
        if lock.admits(owner, is_shared) && (lock.queue.is_empty() || is_owner) {
            lock.give(owner, is_shared);
            return Asked::Given;
        }
        if !waits {
            return Asked::Taken;
        }
        // Who has it already and wants it alone waits for the others that share it, before those in the queue.
        if is_owner {
            lock.queue.push_front((owner, is_shared));
        } else {
            lock.queue.push_back((owner, is_shared));
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
        let before = lock.queue.iter().take_while(|(other, _)| *other != owner);
        lock.owners.iter().chain(before).map(|(other, _)| *other).filter(|other| *other != owner).collect()
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

    /// All locks: their names, those that have them or wait for them, whether shared, and whether they have them.
    pub fn all(&self) -> Vec<(LockName, Owner, bool, bool)> {
        let of_lock = |(name, lock): (&LockName, &Lock)| {
            let given = lock.owners.iter().map(|(owner, is_shared)| (*owner, *is_shared, true));
            let queued = lock.queue.iter().map(|(owner, is_shared)| (*owner, *is_shared, false));
            given.chain(queued).map(|(owner, is_shared, has)| (name.clone(), owner, is_shared, has)).collect::<Vec<_>>()
        };
        self.locks.iter().flat_map(of_lock).collect()
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
