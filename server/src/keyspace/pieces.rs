//! Long strings in pieces: how they are cut, and how they are read. `docs/internals/format-keyspace.md` has the
//! picture.
//!
//! A piece lies in the table of elements under the string's id and the number of the piece. The table `strings` has the
//! id for the key, so that what stands at the key says nothing but the content, and a new name moves no piece.
//!
//! Invariants:
//! 1. A piece is stored without the zeros at its end, and one of nothing but zeros is not stored, but for the first: so
//!    a string has one form only, and zeros that fill it up cost nothing.
//! 2. No piece begins after the end of the string.
//!
//! Costs: two descents, and a row for each piece concerned.
//! Not here: writing (`pieces_writer.rs`).

use std::borrow::Cow;

use quipu::{ReadableTable, Result, Snapshot, Table, TableView};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::data::malformed;
use super::value::{CollectionId, Entry, ID_BYTES};
use super::{Body, Data};

/// Zeros that stand for what is not stored.
const ZEROS: [u8; 4096] = [0; 4096];

/// Bytes of a piece's key: the id, and the number of the piece.
const PIECE_KEY_BYTES: usize = ID_BYTES + 4;

/// The key of a piece: numbers are big-endian.
pub(super) fn piece_key(id: CollectionId, number: u64) -> [u8; PIECE_KEY_BYTES] {
    let mut key = [0; PIECE_KEY_BYTES];
    key[..ID_BYTES].copy_from_slice(&id.bytes());
    key[ID_BYTES..].copy_from_slice(&(number as u32).to_be_bytes());
    key
}

pub(super) fn number_of_piece(key: &[u8]) -> Option<u64> {
    key.get(ID_BYTES..)?.try_into().ok().map(|bytes| u64::from(u32::from_be_bytes(bytes)))
}

/// What a piece adds to the hash of its string.
pub(super) fn piece_hash(number: u64, bytes: &[u8]) -> u128 {
    if bytes.is_empty() { 0 } else { xxh3_128_with_seed(bytes, number) }
}

/// Without the zeros at the end.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let Some((rest, last)) = bytes.split_last_chunk::<32>()
        && *last == [0; 32]
    {
        bytes = rest;
    }
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..length]
}

/// A row of the table of owners: the bytes that are not counted with what stands at the key, and the id.
pub(super) fn owner_row(further: i64, id: CollectionId) -> Vec<u8> {
    [&further.to_be_bytes()[..], &id.bytes()].concat()
}

/// The row of the owner of a string in pieces.
pub(super) fn string_row(length: u64, id: CollectionId) -> Vec<u8> {
    owner_row(length as i64 - super::value::OUTLINE_BYTES as i64, id)
}

pub(super) fn id_of_row(row: &[u8]) -> Option<CollectionId> {
    CollectionId::from_bytes(row.get(8..)?)
}

/// A string in pieces, to read.
pub struct Pieces<'v> {
    elements: TableView<'v>,
    id: CollectionId,
    length: u64,
    piece_bytes: u64,
}

/// A string, to read.
pub enum StoredString<'v> {
    /// One that is stored as a whole.
    Whole(&'v [u8]),
    /// One in pieces.
    Pieces(Box<Pieces<'v>>),
}

impl<'v> StoredString<'v> {
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        match self {
            StoredString::Whole(bytes) => bytes.len() as u64,
            StoredString::Pieces(pieces) => pieces.length,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with the bytes from one position up to another, in order, some at a time, until it says false.
    /// What lies after the end is left out.
    pub fn visit(&self, start: u64, end: u64, mut visit: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let end = end.min(self.len());
        match self {
            _ if start >= end => Ok(()),
            StoredString::Whole(bytes) => {
                visit(&bytes[start as usize..end as usize]);
                Ok(())
            }
            StoredString::Pieces(pieces) => pieces.visit(start, end, visit),
        }
    }

    /// Appends the bytes from one position up to another.
    pub fn copy(&self, start: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        self.visit(start, end, |bytes| {
            out.extend_from_slice(bytes);
            true
        })
    }

    /// The byte at a position; 0 after the end.
    pub fn byte(&self, position: u64) -> Result<u8> {
        let mut found = 0;
        self.visit(position, position.saturating_add(1), |bytes| {
            found = bytes[0];
            false
        })?;
        Ok(found)
    }

    /// All of it.
    pub fn bytes(&self) -> Result<Cow<'v, [u8]>> {
        if let StoredString::Whole(bytes) = self {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut all = Vec::with_capacity(self.len() as usize);
        self.copy(0, self.len(), &mut all)?;
        Ok(Cow::Owned(all))
    }
}

impl Pieces<'_> {
    fn visit(&self, start: u64, end: u64, mut visit: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let piece_bytes = self.piece_bytes;
        let (first, last) = (piece_key(self.id, start / piece_bytes), piece_key(self.id, (end - 1) / piece_bytes));
        let (mut place, mut goes_on) = (start, true);
        self.elements.for_each(&first[..]..=&last[..], |key, bytes| {
            let Some(number) = number_of_piece(key) else { return true };
            let base = number * piece_bytes;
            goes_on = goes_on && fill(&mut place, base, &mut visit);
            let stored_end = (base + bytes.len() as u64).min(end);
            if goes_on && place < stored_end {
                goes_on = visit(&bytes[(place - base) as usize..(stored_end - base) as usize]);
                place = stored_end;
            }
            goes_on
        })?;
        if goes_on {
            fill(&mut place, end, &mut visit);
        }
        Ok(())
    }
}

/// Visits zeros from a place up to another. Says whether to go on.
fn fill(place: &mut u64, end: u64, visit: &mut impl FnMut(&[u8]) -> bool) -> bool {
    while *place < end {
        let count = (end - *place).min(ZEROS.len() as u64);
        *place += count;
        if !visit(&ZEROS[..count as usize]) {
            return false;
        }
    }
    true
}

/// A string in pieces that is read step by step, as it was at some moment.
pub struct StringStream {
    snapshot: Snapshot,
    elements: Table,
    id: CollectionId,
    length: u64,
    piece_bytes: u64,
    place: u64,
}

impl StringStream {
    /// How many bytes the string has.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends the next bytes, `max` at most. Returns whether there are more.
    pub fn next(&mut self, max: u64, out: &mut Vec<u8>) -> Result<bool> {
        let StringStream { id, length, piece_bytes, place, .. } = *self;
        let elements = self.snapshot.table(&self.elements)?;
        let end = length.min(place + max);
        StoredString::Pieces(Box::new(Pieces { elements, id, length, piece_bytes })).copy(place, end, out)?;
        self.place = end;
        Ok(end < length)
    }
}

impl Data<'_> {
    /// The string at a key where this entry stands, to be read after the command; `None` if it is no string in pieces,
    /// or the data is as of now.
    pub fn string_stream(&self, database: usize, key: &[u8], entry: &Entry<'_>) -> Result<Option<StringStream>> {
        let (Body::Pieces(outline), Some(snapshot)) = (entry.body, self.patient_snapshot()) else { return Ok(None) };
        Ok(Some(StringStream {
            snapshot,
            elements: self.tables_to_write(database)?.elements.clone(),
            id: self.id_of_string(database, key)?,
            length: outline.length,
            piece_bytes: self.keyspace().cut().piece_bytes as u64,
            place: 0,
        }))
    }

    /// The string at a key where this entry stands; `None` of a collection.
    pub fn string_of<'d>(&'d self, database: usize, key: &[u8], entry: &Entry<'d>) -> Result<Option<StoredString<'d>>> {
        let outline = match entry.body {
            Body::Bytes(bytes) => return Ok(Some(StoredString::Whole(bytes))),
            Body::Collection(_) => return Ok(None),
            Body::Pieces(outline) => outline,
        };
        let id = self.id_of_string(database, key)?;
        let elements = self.view(&self.tables_to_write(database)?.elements)?;
        let piece_bytes = self.keyspace().cut().piece_bytes as u64;
        Ok(Some(StoredString::Pieces(Box::new(Pieces { elements, id, length: outline.length, piece_bytes }))))
    }

    /// The id of what lies in the table of elements for a key where this entry stands; `None` of a string that is
    /// stored as a whole.
    pub fn id_of(&self, database: usize, key: &[u8], entry: &Entry<'_>) -> Result<Option<CollectionId>> {
        match entry.body {
            Body::Bytes(_) => Ok(None),
            Body::Collection(id) => Ok(Some(id)),
            Body::Pieces(_) => self.id_of_string(database, key).map(Some),
        }
    }

    /// The id of the pieces of the string at a key.
    pub(super) fn id_of_string(&self, database: usize, key: &[u8]) -> Result<CollectionId> {
        let owners = self.lending_view(&self.tables_to_write(database)?.owners)?;
        owners.get_ref(key)?.and_then(id_of_row).ok_or_else(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::trim;

    #[test]
    fn zeros_at_the_end_are_cut_off() {
        for length in [0, 1, 31, 32, 33, 64, 100] {
            for last in 0..=length {
                let mut bytes = vec![0; length];
                if last > 0 {
                    bytes[last - 1] = 7;
                }
                assert_eq!(trim(&bytes).len(), last);
            }
        }
    }
}
