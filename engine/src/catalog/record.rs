//! The records that commits write into the log: see `docs/internals/format-record.md`.
//!
//! A record is a sequence of changes. Each entry carries its state (fresh, over a live value, tombstone) and the
//! weights of the measures beyond rows, so replay looks nothing up, and checks that it finds what the commit found. Not
//! here: where records lie, and their replay.

use crate::catalog::declaration::{self, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TableOptions;
use crate::tally::{Measures, Tally};

/// Kinds of change, the first byte of each.
mod tag {
    pub(super) const ENTRIES: u8 = 1;
    pub(super) const REMOVE_RANGE: u8 = 2;
    pub(super) const CREATE_TABLE: u8 = 3;
    pub(super) const DROP_TABLE: u8 = 4;
    pub(super) const INGEST: u8 = 5;
}

/// The effect of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// A value for a dead key.
    Fresh,
    /// A value for a live key.
    Over,
    /// The removal of a live key.
    Tombstone,
}

impl EntryState {
    /// The weight of an entry in this state. `weights` are its weights beyond rows, as encoded in the record.
    pub(crate) fn weight(self, weights: &[u8], measures: &Measures) -> Tally {
        let rows = match self {
            EntryState::Fresh => 1,
            EntryState::Over => 0,
            EntryState::Tombstone => -1,
        };
        let mut weight = Tally { rows, ..Tally::ZERO };
        for (index, bytes) in (1..measures.len()).zip(weights.chunks_exact(8)) {
            weight.add_measure(measures, index, i64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")));
        }
        weight
    }

    /// The state of a change to a key that was live or not; `None` if nothing changes.
    pub(crate) fn of(was_live: bool, value: Option<&[u8]>) -> Option<EntryState> {
        match (was_live, value) {
            (false, Some(_)) => Some(EntryState::Fresh),
            (true, Some(_)) => Some(EntryState::Over),
            (true, None) => Some(EntryState::Tombstone),
            (false, None) => None,
        }
    }
}

/// One change of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'r> {
    /// An entry of a table.
    Entry {
        /// The table.
        table: TableId,
        /// Its effect.
        state: EntryState,
        /// The key.
        key: &'r [u8],
        /// The value; empty for a tombstone.
        value: &'r [u8],
        /// The weights beyond rows, eight bytes each.
        weights: &'r [u8],
    },
    /// A write to a blind table, which did not look up whether the key is live.
    Blind {
        /// The table.
        table: TableId,
        /// The key.
        key: &'r [u8],
        /// The value; `None` for a removal.
        value: Option<&'r [u8]>,
    },
    /// The removal of all rows of a range.
    RemoveRange {
        /// The table.
        table: TableId,
        /// The first key of the range; `None` for the start.
        low: Option<&'r [u8]>,
        /// The first key after the range; `None` for the end.
        high: Option<&'r [u8]>,
        /// The number of rows removed.
        rows: u64,
    },
    /// The creation of a table.
    CreateTable {
        /// Its id.
        table: TableId,
        /// Its name.
        name: &'r str,
        /// Its options.
        options: TableOptions,
    },
    /// Rows that came to a table in a run. The manifest names its files: it is written before the record.
    Ingest {
        /// The table.
        table: TableId,
        /// The key of the first row.
        first: &'r [u8],
        /// The key of the last one.
        last: &'r [u8],
    },
    /// The end of a table.
    DropTable {
        /// Its id.
        table: TableId,
    },
}

impl Change<'_> {
    /// The table it changes.
    pub(crate) fn table(&self) -> TableId {
        match self {
            Change::Entry { table, .. }
            | Change::Blind { table, .. }
            | Change::RemoveRange { table, .. }
            | Change::CreateTable { table, .. }
            | Change::Ingest { table, .. }
            | Change::DropTable { table } => *table,
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Starts a group of `count` entries of a table.
pub(crate) fn put_entries_header(out: &mut Vec<u8>, table: TableId, count: u64) {
    out.push(tag::ENTRIES);
    put_varint(out, u64::from(table));
    put_varint(out, count);
}

/// Starts a group of entries of a table whose count comes later. Returns where it goes, for [`set_entry_count`].
pub(crate) fn put_open_entries_header(out: &mut Vec<u8>, table: TableId) -> usize {
    out.push(tag::ENTRIES);
    put_varint(out, u64::from(table));
    let at = out.len();
    out.extend_from_slice(&[0; OPEN_COUNT_BYTES]);
    at
}

/// Sets the count of a group that was started without: a varint padded to its full width.
pub(crate) fn set_entry_count(out: &mut [u8], at: usize, count: u64) {
    for (index, byte) in out[at..at + OPEN_COUNT_BYTES].iter_mut().enumerate() {
        let more = if index + 1 < OPEN_COUNT_BYTES { 0x80 } else { 0 };
        *byte = (count >> (7 * index)) as u8 & 0x7F | more;
    }
}

/// Bytes of a count that is filled in later: enough for a billion billion.
const OPEN_COUNT_BYTES: usize = 9;

/// The most bytes that an entry takes besides its key and value.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 + 2 * 10 + 3 * 8;

/// Appends one entry of the group.
#[inline]
pub(crate) fn put_entry(
    out: &mut Vec<u8>,
    state: EntryState,
    key: &[u8],
    value: Option<&[u8]>,
    weight: &Tally,
    measures: &Measures,
) {
    let value = value.unwrap_or(&[]);
    out.push(state as u8 | ((measures.len() - 1) as u8) << 2);
    if key.len() < 0x80 && value.len() < 0x80 {
        out.extend_from_slice(&[key.len() as u8, value.len() as u8]);
    } else {
        put_varint(out, key.len() as u64);
        put_varint(out, value.len() as u64);
    }
    for index in 1..measures.len() {
        out.extend_from_slice(&weight.measure(measures, index).to_le_bytes());
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The flags of entries that did not look up their key: a put and a removal.
const BLIND_PUT: u8 = 3;
const BLIND_REMOVAL: u8 = 3 | 1 << 2;

/// Appends one entry of the group whose weight is unknown.
pub(crate) fn put_blind_entry(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    out.push(if value.is_some() { BLIND_PUT } else { BLIND_REMOVAL });
    let value = value.unwrap_or(&[]);
    put_varint(out, key.len() as u64);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Appends the removal of a range.
pub(crate) fn put_remove_range(out: &mut Vec<u8>, table: TableId, low: Option<&[u8]>, high: Option<&[u8]>, rows: u64) {
    out.push(tag::REMOVE_RANGE);
    put_varint(out, u64::from(table));
    put_varint(out, rows);
    out.push(u8::from(low.is_some()) | u8::from(high.is_some()) << 1);
    for bound in [low, high].into_iter().flatten() {
        put_varint(out, bound.len() as u64);
        out.extend_from_slice(bound);
    }
}

/// Appends the creation of a table.
pub(crate) fn put_create_table(out: &mut Vec<u8>, table: TableId, name: &str, options: &TableOptions) {
    out.push(tag::CREATE_TABLE);
    put_varint(out, u64::from(table));
    for text in [name.as_bytes(), &declaration::encode(options)] {
        put_varint(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

/// Appends the mark of an ingest of rows with keys from `first` to `last`.
pub(crate) fn put_ingest(out: &mut Vec<u8>, table: TableId, first: &[u8], last: &[u8]) {
    out.push(tag::INGEST);
    put_varint(out, u64::from(table));
    for key in [first, last] {
        put_varint(out, key.len() as u64);
        out.extend_from_slice(key);
    }
}

/// Appends the end of a table.
pub(crate) fn put_drop_table(out: &mut Vec<u8>, table: TableId) {
    out.push(tag::DROP_TABLE);
    put_varint(out, u64::from(table));
}

/// Calls `visit` with each change of a record. Never panics, whatever the bytes.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the bytes are no record, and those of `visit`.
pub fn decode(record: &[u8], visit: &mut dyn FnMut(Change<'_>) -> Result<()>) -> Result<()> {
    let mut input = Input { rest: record };
    while !input.rest.is_empty() {
        let tag = input.byte()?;
        let table = u32::try_from(input.varint()?).map_err(|_| malformed())?;
        match tag {
            tag::ENTRIES => {
                for _ in 0..input.varint()? {
                    visit(input.entry(table)?)?;
                }
            }
            tag::REMOVE_RANGE => visit(input.removed_range(table)?)?,
            tag::CREATE_TABLE => {
                let name_len = input.varint()?;
                let name = std::str::from_utf8(input.bytes(name_len)?).map_err(|_| malformed())?;
                let options_len = input.varint()?;
                let options = declaration::decode(input.bytes(options_len)?).ok_or_else(malformed)?;
                visit(Change::CreateTable { table, name, options })?;
            }
            tag::INGEST => {
                let first_len = input.varint()?;
                let first = input.bytes(first_len)?;
                let last_len = input.varint()?;
                visit(Change::Ingest { table, first, last: input.bytes(last_len)? })?;
            }
            tag::DROP_TABLE => visit(Change::DropTable { table })?,
            _ => return Err(malformed()),
        }
    }
    Ok(())
}

#[cold]
fn malformed() -> Error {
    Error::new(ErrorKind::Corrupt, "a log record passes its checksum but is malformed")
}

struct Input<'r> {
    rest: &'r [u8],
}

impl<'r> Input<'r> {
    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(malformed)?;
        self.rest = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(malformed());
            }
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed())
    }

    fn bytes(&mut self, len: u64) -> Result<&'r [u8]> {
        let len = usize::try_from(len).ok().filter(|&len| len <= self.rest.len()).ok_or_else(malformed)?;
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(bytes)
    }

    /// An entry of a group, after what [`put_entry`] and [`put_blind_entry`] write.
    #[inline]
    fn entry(&mut self, table: TableId) -> Result<Change<'r>> {
        let flags = self.byte()?;
        let state = match flags & 3 {
            0 => EntryState::Fresh,
            1 => EntryState::Over,
            2 => EntryState::Tombstone,
            _ => {
                let (key_len, value_len) = (self.varint()?, self.varint()?);
                let (key, value) = (self.bytes(key_len)?, self.bytes(value_len)?);
                let value = match flags {
                    BLIND_PUT => Some(value),
                    BLIND_REMOVAL if value.is_empty() => None,
                    _ => return Err(malformed()),
                };
                return Ok(Change::Blind { table, key, value });
            }
        };
        if flags >> 2 > 3 {
            return Err(malformed());
        }
        let (key_len, value_len) = (self.varint()?, self.varint()?);
        let weights = self.bytes(8 * u64::from(flags >> 2))?;
        let (key, value) = (self.bytes(key_len)?, self.bytes(value_len)?);
        Ok(Change::Entry { table, state, key, value, weights })
    }

    /// The removal of a range, after what [`put_remove_range`] writes.
    fn removed_range(&mut self, table: TableId) -> Result<Change<'r>> {
        let rows = self.varint()?;
        let which = self.byte()?;
        if which > 3 {
            return Err(malformed());
        }
        let mut bounds = [None, None];
        for (number, bound) in bounds.iter_mut().enumerate() {
            if which & 1 << number != 0 {
                let len = self.varint()?;
                *bound = Some(self.bytes(len)?);
            }
        }
        Ok(Change::RemoveRange { table, low: bounds[0], high: bounds[1], rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_comes_back_and_no_part_of_it_does() {
        let options = TableOptions { in_memory: true, comment: "flights of 2013".into(), ..TableOptions::default() };
        let mut record = Vec::new();
        put_create_table(&mut record, 7, "name", &options);
        let expected = Change::CreateTable { table: 7, name: "name", options };
        let mut found = 0;
        decode(&record, &mut |change| {
            assert_eq!(change, expected);
            found += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(found, 1);
        for len in 1..record.len() {
            assert!(decode(&record[..len], &mut |_| Ok(())).is_err());
        }
    }
}
