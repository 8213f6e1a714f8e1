//! Makes long strings from the value of a key while nothing is held. They are used if the key still has the same value
//! when the data is held.

use quipu::Result;

use super::staging::{Staged, Stager};
use super::value::{Entry, Header};
use super::{Body, Data, Keyspace, StoredString};

/// A long string that has no key yet, and what it was made of.
pub struct PreparedString {
    source: Option<Vec<u8>>,
    staged: Staged,
}

/// What stands at a key, whatever its header says.
fn content(entry: Option<&Entry<'_>>) -> Option<Vec<u8>> {
    entry.map(|entry| {
        let mut value = Vec::new();
        Entry { header: Header::new(entry.header.kind), ..*entry }.encode(&mut value);
        value
    })
}

impl PreparedString {
    /// Whether it was made of what stands there.
    pub fn is_of(&self, entry: Option<&Entry<'_>>) -> bool {
        self.source == content(entry)
    }

    /// What may be put into this database, if the same stands there.
    pub fn staged_for(self, data: &Data<'_>, database: usize, entry: Option<&Entry<'_>>) -> Option<Staged> {
        (self.is_of(entry) && data.may_use(database, &self.staged)).then_some(self.staged)
    }
}

impl Keyspace {
    /// A copy of the long string at a key, for another database, or the same; `None` if there is no such string. To be
    /// called while no data is held.
    pub fn prepare_copy(&self, from: (usize, &[u8]), to: usize, now_ms: u64) -> Result<Option<PreparedString>> {
        let snapshot = self.snapshot();
        let data = Data::patiently_at(self, &snapshot, now_ms);
        let Some(entry) = data.entry(from.0, from.1)?.filter(|entry| matches!(entry.body, Body::Pieces(_))) else {
            return Ok(None);
        };
        let Some(string) = data.string_of(from.0, from.1, &entry)? else { return Ok(None) };
        let mut stager = Stager::new(self, to);
        push_part(&mut stager, &string, 0, string.len())?;
        Ok(Some(PreparedString { source: content(Some(&entry)), staged: stager.finish(None)? }))
    }

    /// The string at a key with a part written over, from `offset` on or after its end; `None` if the key holds
    /// something else, or it would be over `bytes_max` long. To be called while no data is held.
    pub fn prepare_overlay(
        &self,
        (database, key): (usize, &[u8]),
        offset: Option<u64>,
        part: &[u8],
        bytes_max: u64,
        now_ms: u64,
    ) -> Result<Option<PreparedString>> {
        let snapshot = self.snapshot();
        let data = Data::patiently_at(self, &snapshot, now_ms);
        let entry = data.entry(database, key)?;
        let string = match &entry {
            None => StoredString::Whole(b""),
            Some(entry) => match data.string_of(database, key, entry)? {
                Some(string) => string,
                None => return Ok(None),
            },
        };
        let offset = offset.unwrap_or(string.len());
        let end = offset.saturating_add(part.len() as u64);
        if end > bytes_max || !self.cuts(end as usize) {
            return Ok(None);
        }
        let mut stager = Stager::new(self, database);
        push_part(&mut stager, &string, 0, offset)?;
        let mut place = string.len();
        while place < offset {
            let zeros = [0; 4096];
            let count = (offset - place).min(zeros.len() as u64);
            stager.push(None, &zeros[..count as usize])?;
            place += count;
        }
        stager.push(None, part)?;
        push_part(&mut stager, &string, end, string.len())?;
        Ok(Some(PreparedString { source: content(entry.as_ref()), staged: stager.finish(None)? }))
    }
}

fn push_part(stager: &mut Stager<'_>, string: &StoredString<'_>, start: u64, end: u64) -> Result<()> {
    let mut outcome = Ok(());
    string.visit(start, end, |bytes| {
        outcome = stager.push(None, bytes);
        outcome.is_ok()
    })?;
    outcome
}
