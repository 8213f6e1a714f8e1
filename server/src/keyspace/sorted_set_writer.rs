//! Changes sorted sets, both of their parts at once.
//!
//! Invariants: those of [`super::sorted_set`]; after each call both parts agree.
//!
//! Costs: a new member two descents, a removed one two, a changed score four.
//! Not here: whether a member already has a score, which the caller has to know; keys and watchers.

use quipu::Result;
use quipu::latched::{Action, LatchedWrite};

use super::sorted_set::{Found, SortedSet, member_hash, member_key, score_key, sharers};
use super::value::CollectionId;
use super::{Data, Tables};

/// Bytes of the four keys of a changed score and of what stands there, at most.
pub fn bytes_of_change(member: &[u8]) -> usize {
    2 * member.len() + 4 * 32
}

fn write_sharers(number: u32, value: &mut Vec<u8>) {
    if number > 0 {
        value.extend_from_slice(&number.to_le_bytes());
    }
}

/// One more member has the entry.
fn share(old: Option<&[u8]>, new: &mut Vec<u8>) -> Action {
    match old.and_then(sharers) {
        None => {}
        Some(number) => write_sharers(number + 1, new),
    }
    Action::Put
}

/// One member less has it.
fn unshare(old: Option<&[u8]>, new: &mut Vec<u8>) -> Action {
    match old.and_then(sharers) {
        None => Action::Keep,
        Some(0) => Action::Remove,
        Some(number) => {
            write_sharers(number - 1, new);
            Action::Put
        }
    }
}

/// A member that gets a score.
#[derive(Clone, Copy, Debug)]
pub struct Scoring<'m> {
    /// Who.
    pub member: &'m [u8],
    /// The score it has now.
    pub old: Option<f64>,
    /// The score it gets.
    pub new: f64,
}

/// A sorted set to write to. The caller calls [`Data::touch`], and removes the key with the last member.
pub struct Writer<'d, 'k> {
    data: &'d mut Data<'k>,
    tables: &'k Tables,
    id: CollectionId,
    hash_seed: u64,
}

impl<'d, 'k> Writer<'d, 'k> {
    /// The set with this id.
    pub fn open(data: &'d mut Data<'k>, database: usize, id: CollectionId) -> Result<Writer<'d, 'k>> {
        let tables = data.tables_to_write(database)?;
        let hash_seed = data.keyspace().hash_seed();
        Ok(Writer { data, tables, id, hash_seed })
    }

    /// The set as it is now.
    pub fn set(&self) -> Result<SortedSet<'_>> {
        Ok(SortedSet::over(self.data.view(&self.tables.elements)?, self.id, self.hash_seed))
    }

    /// Gives a member a score: a new one if it has the old one now. The caller has reserved [`bytes_of_change`], so
    /// that both parts can be written.
    pub fn put(&mut self, scoring: Scoring<'_>) -> Result<()> {
        let Scoring { member, old, new } = scoring;
        let hash = member_hash(self.hash_seed, member);
        if let Some(old) = old {
            self.remove_hashed(member, hash, old)?;
        }
        let (id, elements) = (self.id, &self.tables.elements);
        let write = self.data.latched_write()?;
        write.put(elements, &score_key(id, new, member), &[])?;
        write.update(elements, &member_key(id, hash, new), share)
    }

    /// [`Writer::put`] of many different members, with descents that are interleaved: all, or none if there is no space
    /// for them.
    pub fn put_many(&mut self, scorings: &[Scoring<'_>]) -> Result<()> {
        type Change = fn(Option<&[u8]>, &mut Vec<u8>) -> Action;
        let bytes: usize = scorings.iter().map(|scoring| bytes_of_change(scoring.member)).sum();
        self.data.latched_write()?.reserve(&self.tables.elements, 4 * scorings.len(), bytes)?;
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(scorings.len() * 2);
        let mut changes: Vec<Change> = Vec::with_capacity(scorings.len() * 2);
        for &Scoring { member, old, new } in scorings {
            let hash = member_hash(self.hash_seed, member);
            if let Some(old) = old {
                keys.push(score_key(self.id, old, member));
                changes.push(|_, _| Action::Remove);
                keys.push(member_key(self.id, hash, old));
                changes.push(unshare);
            }
            keys.push(score_key(self.id, new, member));
            changes.push(|_, _| Action::Put);
            keys.push(member_key(self.id, hash, new));
            changes.push(share);
        }
        let elements = &self.tables.elements;
        self.data
            .latched_write()?
            .update_many(elements, &keys, |number, old, new| changes[number](old, new))
            .map_err(|(_, error)| error)
    }

    /// Removes a member that has this score.
    pub fn remove(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.remove_hashed(member, member_hash(self.hash_seed, member), score)
    }

    fn remove_hashed(&mut self, member: &[u8], hash: u64, score: f64) -> Result<()> {
        let (id, elements) = (self.id, &self.tables.elements);
        let write: &mut LatchedWrite<'_> = self.data.latched_write()?;
        write.remove(elements, &score_key(id, score, member))?;
        write.update(elements, &member_key(id, hash, score), unshare)
    }

    /// Removes members that stand together, but not all there are.
    pub fn remove_found(&mut self, found: Found) -> Result<()> {
        let (mut first, mut last, mut keys) = (None, Vec::new(), Vec::with_capacity(found.rows.min(1 << 20) as usize));
        let (id, hash_seed) = (self.id, self.hash_seed);
        self.set()?.walk(found, false, |member, score| {
            first.get_or_insert_with(|| score_key(id, score, member));
            last.clear();
            last.extend_from_slice(&score_key(id, score, member));
            keys.push(member_key(id, member_hash(hash_seed, member), score));
        })?;
        let Some(first) = first else { return Ok(()) };
        let elements = &self.tables.elements;
        let write = self.data.latched_write()?;
        write.remove_range(elements, &first[..]..=&last[..])?;
        write.update_many(elements, &keys, |_, old, new| unshare(old, new)).map_err(|(_, error)| error)
    }
}
