//! The verbs about entities, and what they take and return.

use std::ops::Range;

use quipu::{Bounds, Snapshot, Table};

use super::{Condition, Failure};
use crate::keyspace::value::Kind;
use crate::keyspace::{StoredString, StringStream};

/// What an entity is, but for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its kind: in a cluster all are strings.
    pub kind: Kind,
    /// When it expires, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
    /// Bytes of the string.
    pub bytes: u64,
}

/// The value of an entity, to be read.
pub enum Value<'v> {
    /// A string.
    String(StoredString<'v>),
    /// A long string that is read as it is sent.
    Stream(StringStream),
    /// Something else than a string.
    Other,
}

/// How long a value that is put lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is removed.
    Forever,
    /// As long as what stood there.
    Kept,
    /// Until this moment, in milliseconds since 1970. What is past at once is not there at all.
    Until(u64),
}

/// What becomes of an entity whose deadline is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewDeadline {
    /// It stays as it is.
    Unchanged,
    /// It is removed.
    Past,
    /// It gets this deadline, or none; all else stays.
    Put(Option<u64>),
}

/// Which keys of a range are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAsked {
    /// From its end on.
    pub is_reverse: bool,
    /// Keys to skip.
    pub offset: u64,
    /// Keys to return.
    pub limit: u64,
    /// Whether values are wanted.
    pub with_values: bool,
    /// Whether the number of all keys of the range is wanted.
    pub with_total: bool,
}

/// The keys of a page, from a snapshot in which they are read a few at a time.
pub struct SnapshotRows {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Its table of keys.
    pub keys: Table,
    /// The offsets of the keys in the table.
    pub rows: Range<u64>,
}

/// A part of a page, in order.
pub enum PagePart<'p> {
    /// How many keys the range has, if that was asked for, and how many the page has.
    Begin {
        /// Keys of the range.
        total: u64,
        /// Keys of the page.
        rows: u64,
    },
    /// A key and its value, if that was asked for.
    Row(&'p [u8], Option<Value<'p>>),
    /// All rows.
    Rows(SnapshotRows),
}

/// The verbs. Keys are those of one database.
///
/// What is asked for keys is about whatever stands there; values are strings. Each verb fails as [`Failure`] says.
#[expect(clippy::missing_errors_doc, reason = "`Failure` has all")]
pub trait Entities {
    /// A value that is prepared to be put.
    type New<'v>;

    /// The time, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// What stands at a key.
    fn find(&self, key: &[u8]) -> Result<Option<Found>, Failure>;

    /// How many of these keys there are. One that is named twice counts twice.
    fn count_found(&self, keys: &[&[u8]]) -> Result<u64, Failure>;

    /// Reads the value at a key.
    fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure>;

    /// Reads the values at keys, in order. After a failure `read` may have been called for some.
    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(Option<Value<'_>>)) -> Result<(), Failure>;

    /// Reads the value at a key that is about to be replaced: it is no lookup of its own.
    fn get_to_replace<T>(&self, key: &[u8], read: impl FnOnce(Option<Value<'_>>) -> T) -> Result<T, Failure>;

    /// Prepares a value to be put at a key. Nothing may have been read or written before.
    fn prepare<'v>(&mut self, key: &[u8], value: &'v [u8]) -> Result<Self::New<'v>, Failure>;

    /// Prepares values to be put at keys. Nothing may have been read or written before.
    fn prepare_many<'v>(&mut self, keys: &[&[u8]], values: &[&'v [u8]]) -> Result<Vec<Self::New<'v>>, Failure>;

    /// Puts a value at a key if the condition holds. Returns whether it did.
    fn put(
        &mut self,
        key: &[u8],
        value: Self::New<'_>,
        condition: &Condition,
        lifetime: Lifetime,
    ) -> Result<bool, Failure>;

    /// Puts values at keys, to live for good.
    fn put_many(&mut self, keys: &[&[u8]], values: Vec<Self::New<'_>>) -> Result<(), Failure>;

    /// Removes keys. Returns how many there were.
    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<u64, Failure>;

    /// Has an entity expire at another moment, as `decide` says of its deadline. Returns whether it was there, and was
    /// changed.
    fn set_deadline(&mut self, key: &[u8], decide: impl Fn(Option<u64>) -> NewDeadline) -> Result<bool, Failure>;

    /// How many keys a range has; `None` is an empty range.
    fn count(&self, range: Option<&Bounds<'_>>) -> Result<u64, Failure>;

    /// How many keys lie below a key, present or not.
    fn rank(&self, key: &[u8]) -> Result<u64, Failure>;

    /// The key at an offset of a range.
    fn nth(&self, range: Option<&Bounds<'_>>, offset: u64) -> Result<Option<Vec<u8>>, Failure>;

    /// Some keys of a range, in parts.
    fn page(
        &self,
        range: Option<&Bounds<'_>>,
        asked: &PageAsked,
        read: impl FnMut(PagePart<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure>;
}
