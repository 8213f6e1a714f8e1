//! The entities of a node alone: the keys of a database, in a hold of the data.
//!
//! Commands that run many together (`Handler::many`) do not come here: they work on the data directly, with interleaved
//! descents, and mean the same.

use std::ops::{Bound, RangeBounds};

use quipu::{Bounds, ReadableTable};

use super::{
    Condition, Entities, Failure, Found, LONG_BYTES, Lifetime, NewDeadline, PageAsked, PagePart, Room, Value, Verdict,
    pages,
};
use crate::keyspace::value::{Entry, Header};
use crate::keyspace::{Change, Data, KEY_BYTES_MAX, NewString};
use crate::system::clock;

/// The keys of a database.
pub struct Alone<'d, 'k> {
    pub(super) data: &'d mut Data<'k>,
    pub(super) database: usize,
    pub(super) room: Room,
}

impl<'d, 'k> Alone<'d, 'k> {
    /// Those of this database, in a hold of the data.
    pub fn new(data: &'d mut Data<'k>, database: usize, room: Room) -> Alone<'d, 'k> {
        Alone { data, database, room }
    }

    /// What stands at a key. Counted as a hit or a miss.
    fn entry(&self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        let entry = self.data.entry(self.database, key)?;
        self.data.note_lookup(entry.is_some());
        Ok(entry)
    }

    /// The value of an entry that stands at a key.
    pub(super) fn value_of<'e>(&'e self, key: &[u8], entry: &Entry<'e>) -> Result<Value<'e>, Failure> {
        if entry.length() > LONG_BYTES
            && self.room.can_wait
            && let Some(string) = self.data.string_stream(self.database, key, entry)?
        {
            return Ok(Value::Stream(string));
        }
        Ok(self.data.string_of(self.database, key, entry)?.map_or(Value::Other, Value::String))
    }

    /// Prepares a string. Where nothing is held yet, a long one is made in holds of its own.
    fn stage<'v>(&mut self, bytes: &'v [u8]) -> Result<NewString<'v>, Failure> {
        let keyspace = self.data.keyspace();
        Ok(match keyspace.cuts(bytes.len()) {
            false => NewString::Whole(bytes),
            true if self.data.is_beside() => NewString::Pieces(bytes, keyspace.stage(self.database, bytes)?),
            true => NewString::Pieces(bytes, self.data.stage(self.database, bytes)?),
        })
    }

    /// Holds the data for writing, with strings that were prepared before.
    fn begin_writing(&mut self, strings: &mut [NewString<'_>]) -> Result<(), Failure> {
        if !self.data.is_beside() {
            return Ok(());
        }
        self.data.begin_writing(clock::now_ms())?;
        for string in strings {
            if let NewString::Pieces(bytes, staged) = string
                && !self.data.may_use(self.database, staged)
            {
                *staged = self.data.stage(self.database, bytes)?;
            }
        }
        Ok(())
    }

    /// Puts a value at a key, with a version if it has one, if the condition holds.
    ///
    /// # Errors
    /// Those of the database.
    pub fn put_version(
        &mut self,
        key: &[u8],
        mut value: NewString<'_>,
        condition: &Condition,
        lifetime: Lifetime,
        version: Option<u64>,
    ) -> Result<Verdict, Failure> {
        let now_ms = self.data.now_ms;
        let (mut verdict, mut came_and_went) = (Verdict::Holds, false);
        self.data.change(self.database, key, |entry, new| {
            verdict = condition.check(entry.as_ref());
            if verdict != Verdict::Holds {
                return Change::Keep;
            }
            let deadline_ms = match lifetime {
                Lifetime::Forever => None,
                Lifetime::Kept => entry.and_then(|entry| entry.header.deadline_ms),
                Lifetime::Until(deadline_ms) if deadline_ms <= now_ms => {
                    came_and_went = entry.is_none();
                    return Change::Remove;
                }
                Lifetime::Until(deadline_ms) => Some(deadline_ms),
            };
            value.write(Header { version, ..Header::string(deadline_ms) }, new)
        })?;
        if came_and_went {
            self.data.touch(self.database, key);
        }
        Ok(verdict)
    }

    /// Removes a key if the condition holds.
    ///
    /// # Errors
    /// Those of the database.
    pub fn delete(&mut self, key: &[u8], condition: &Condition) -> Result<Verdict, Failure> {
        let mut verdict = Verdict::Holds;
        self.data.change(self.database, key, |entry, _| {
            verdict = condition.check(entry.as_ref());
            if verdict == Verdict::Holds { Change::Remove } else { Change::Keep }
        })?;
        Ok(verdict)
    }
}

/// Fails if a key is too long to be written.
///
/// # Errors
/// [`Failure::TooLarge`].
pub fn check_key(key: &[u8]) -> Result<(), Failure> {
    if key.len() > KEY_BYTES_MAX {
        let text = format!("a key of {} bytes is over the limit of {KEY_BYTES_MAX}", key.len());
        return Err(Failure::TooLarge(text));
    }
    Ok(())
}

impl Entities for Alone<'_, '_> {
    type New<'v> = NewString<'v>;

    fn now_ms(&self) -> u64 {
        self.data.now_ms
    }

    fn find(&self, key: &[u8]) -> Result<Option<Found>, Failure> {
        Ok(self.entry(key)?.map(|entry| Found {
            kind: entry.header.kind,
            deadline_ms: entry.header.deadline_ms,
            bytes: entry.length(),
        }))
    }

    fn count_found(&self, keys: &[&[u8]]) -> Result<u64, Failure> {
        let mut found = 0;
        for key in keys {
            found += u64::from(self.entry(key)?.is_some());
        }
        Ok(found)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure> {
        let entry = self.data.entry(self.database, key)?;
        self.room.expect_bytes(self.data, entry.map_or(0, |entry| entry.length()))?;
        self.data.note_lookup(entry.is_some());
        let value = entry.map(|entry| self.value_of(key, &entry)).transpose()?;
        Ok(read(value))
    }

    fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(Option<Value<'_>>)) -> Result<(), Failure> {
        let may_be_long = self.room.expect_bytes(self.data, u64::MAX).is_ok();
        let (mut bytes, mut outcome) = (0, Ok(()));
        self.data.entries(self.database, keys, |number, entry| {
            bytes += entry.filter(Entry::is_string).map_or(0, |entry| entry.length());
            // What is read here in vain is read again beside the loop.
            if outcome.is_ok() && (may_be_long || bytes <= LONG_BYTES) {
                let value = entry.map(|entry| self.data.string_of(self.database, keys[number], &entry)).transpose();
                match value {
                    Ok(value) => read(value.map(|value| value.map_or(Value::Other, Value::String))),
                    Err(error) => outcome = Err(error),
                }
            }
        })?;
        outcome?;
        self.room.expect_bytes(self.data, bytes)
    }

    fn get_to_replace<T>(&self, key: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure> {
        let entry = self.data.entry(self.database, key)?;
        let string = entry.map(|entry| self.data.string_of(self.database, key, &entry)).transpose()?;
        Ok(read(string.map(|string| string.map_or(Value::Other, Value::String))))
    }

    #[inline]
    fn prepare<'v>(&mut self, key: &[u8], value: &'v [u8]) -> Result<NewString<'v>, Failure> {
        check_key(key)?;
        self.room.expect_bytes(self.data, value.len() as u64)?;
        let mut string = self.stage(value)?;
        self.begin_writing(std::slice::from_mut(&mut string))?;
        Ok(string)
    }

    fn prepare_many<'v>(&mut self, keys: &[&[u8]], values: &[&'v [u8]]) -> Result<Vec<NewString<'v>>, Failure> {
        keys.iter().try_for_each(|key| check_key(key))?;
        self.room.expect_bytes(self.data, values.iter().map(|bytes| bytes.len() as u64).sum())?;
        let mut strings = values.iter().map(|bytes| self.stage(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.begin_writing(&mut strings)?;
        Ok(strings)
    }

    #[inline]
    fn put(
        &mut self,
        key: &[u8],
        value: NewString<'_>,
        condition: &Condition,
        lifetime: Lifetime,
    ) -> Result<bool, Failure> {
        Ok(self.put_version(key, value, condition, lifetime, None)? == Verdict::Holds)
    }

    fn put_many(&mut self, keys: &[&[u8]], mut values: Vec<NewString<'_>>) -> Result<(), Failure> {
        let whole_bytes = values.iter().map(|value| if let NewString::Whole(bytes) = value { bytes.len() } else { 0 });
        self.data.reserve(self.database, keys, whole_bytes.sum())?;
        let header = Header::string(None);
        self.data.change_many(self.database, keys, |number, _, new| values[number].write(header, new))?;
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<u64, Failure> {
        let mut removed = 0;
        for key in keys.iter().filter(|key| key.len() <= KEY_BYTES_MAX) {
            removed += u64::from(self.data.remove(self.database, key)?);
        }
        Ok(removed)
    }

    fn set_deadline(&mut self, key: &[u8], decide: impl Fn(Option<u64>) -> NewDeadline) -> Result<bool, Failure> {
        if key.len() > KEY_BYTES_MAX {
            return Ok(false);
        }
        let mut is_made = false;
        self.data.change(self.database, key, |entry, new| {
            let Some(entry) = entry else { return Change::Keep };
            let decided = decide(entry.header.deadline_ms);
            is_made = decided != NewDeadline::Unchanged;
            match decided {
                NewDeadline::Unchanged => Change::Keep,
                NewDeadline::Past => Change::Remove,
                NewDeadline::Put(deadline_ms) => {
                    Entry { header: Header { deadline_ms, ..entry.header }, ..entry }.encode(new);
                    Change::Put
                }
            }
        })?;
        Ok(is_made)
    }

    fn count(&self, range: Option<&Bounds<'_>>) -> Result<u64, Failure> {
        let (Some(range), Some(tables)) = (range, self.data.tables(self.database)) else { return Ok(0) };
        let view = self.data.view(&tables.keys)?;
        Ok(match (range.start_bound(), range.end_bound()) {
            (Bound::Unbounded, Bound::Unbounded) => view.len()?,
            _ => view.count(range)?,
        })
    }

    fn rank(&self, key: &[u8]) -> Result<u64, Failure> {
        match self.data.tables(self.database) {
            Some(tables) => Ok(self.data.view(&tables.keys)?.rank(key)?),
            None => Ok(0),
        }
    }

    fn nth(&self, range: Option<&Bounds<'_>>, offset: u64) -> Result<Option<Vec<u8>>, Failure> {
        let (Some(range), Some(tables)) = (range, self.data.tables(self.database)) else { return Ok(None) };
        Ok(self.data.view(&tables.keys)?.nth(range, offset)?.map(|row| row.key.to_vec()))
    }

    fn page(
        &self,
        range: Option<&Bounds<'_>>,
        asked: &PageAsked,
        read: impl FnMut(PagePart<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        pages::read(self, range, asked, read)
    }
}
