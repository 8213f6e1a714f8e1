//! What a commit writes into the log: see `docs/format-record.md`.
//!
//! A record is a sequence of changes. Each entry carries its state (fresh, over a live value, tombstone) and the weights of the measures beyond rows, so replay
//! looks nothing up, and checks that what it finds is what the commit found.
//! Not here: where records lie, who replays them.

use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::index_pages::IndexPages;
use crate::options::{RunIndex, TableOptions};
use crate::snapshot::TableId;
use crate::tally::{Field, Measures, Tally};

/// Kinds of change, the first byte of each.
mod tag {
    pub(super) const ENTRIES: u8 = 1;
    pub(super) const REMOVE_RANGE: u8 = 2;
    pub(super) const CREATE_TABLE: u8 = 3;
    pub(super) const DROP_TABLE: u8 = 4;
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A value for a dead key.
    Fresh,
    /// A value for a live key.
    Over,
    /// The end of a live key.
    Tombstone,
}

impl State {
    /// The weight of an entry that does this, with its weights beyond rows as they stand in the record.
    pub(crate) fn weight(self, weights: &[u8], measures: &Measures) -> Tally {
        let rows = match self {
            State::Fresh => 1,
            State::Over => 0,
            State::Tombstone => -1,
        };
        let mut weight = Tally { rows, ..Tally::ZERO };
        for (index, bytes) in (1..measures.len()).zip(weights.chunks_exact(8)) {
            weight.add_measure(measures, index, i64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")));
        }
        weight
    }

    /// The state of a change to a key that was live or not; `None` if there is nothing to say.
    pub(crate) fn of(was_live: bool, value: Option<&[u8]>) -> Option<State> {
        match (was_live, value) {
            (false, Some(_)) => Some(State::Fresh),
            (true, Some(_)) => Some(State::Over),
            (true, None) => Some(State::Tombstone),
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
        /// What it does.
        state: State,
        /// The key.
        key: &'r [u8],
        /// The value; empty of a tombstone.
        value: &'r [u8],
        /// The weights beyond rows, eight bytes each.
        weights: &'r [u8],
    },
    /// A write to a blind table, of which nobody has asked whether the key is live.
    Blind {
        /// The table.
        table: TableId,
        /// The key.
        key: &'r [u8],
        /// The value; `None` of a removal.
        value: Option<&'r [u8]>,
    },
    /// All rows of a range go.
    RemoveRange {
        /// The table.
        table: TableId,
        /// First key of the range; `None` for the start.
        low: Option<&'r [u8]>,
        /// First key behind the range; `None` for the end.
        high: Option<&'r [u8]>,
        /// How many rows that is.
        rows: u64,
    },
    /// A table begins.
    CreateTable {
        /// Its id.
        table: TableId,
        /// Its name.
        name: &'r str,
        /// How it is declared.
        options: TableOptions,
    },
    /// A table ends.
    DropTable {
        /// Its id.
        table: TableId,
    },
}

impl Change<'_> {
    /// The table that it is of.
    pub(crate) fn table(&self) -> TableId {
        match self {
            Change::Entry { table, .. }
            | Change::Blind { table, .. }
            | Change::RemoveRange { table, .. }
            | Change::CreateTable { table, .. }
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

/// Starts a group of entries of a table whose number comes later. Returns where it goes, for [`set_entry_count`].
pub(crate) fn put_open_entries_header(out: &mut Vec<u8>, table: TableId) -> usize {
    out.push(tag::ENTRIES);
    put_varint(out, u64::from(table));
    let at = out.len();
    out.extend_from_slice(&[0; OPEN_COUNT_BYTES]);
    at
}

/// Says how many entries a group has that was started without: a varint padded to its full width.
pub(crate) fn set_entry_count(out: &mut [u8], at: usize, count: u64) {
    for (index, byte) in out[at..at + OPEN_COUNT_BYTES].iter_mut().enumerate() {
        let more = if index + 1 < OPEN_COUNT_BYTES { 0x80 } else { 0 };
        *byte = (count >> (7 * index)) as u8 & 0x7F | more;
    }
}

/// Bytes of the number of entries where it is filled in afterwards: enough for a billion billion.
const OPEN_COUNT_BYTES: usize = 9;

/// The most that an entry takes beside its key and value.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 + 2 * 10 + 3 * 8;

/// Appends one entry of the group.
#[inline]
pub(crate) fn put_entry(
    out: &mut Vec<u8>,
    state: State,
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

/// The flags of an entry of which nobody knows whether the key was live: a put, and a removal.
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

/// Of the flags of a table: that a number with more of them follows.
const MORE_OPTIONS: u8 = 1 << 7;

/// Appends the creation of a table.
pub(crate) fn put_create_table(out: &mut Vec<u8>, table: TableId, name: &str, options: &TableOptions) {
    let TableOptions { measures, annotation, resident, blind, index, compression, upper_compression, index_pages } =
        options;
    out.push(tag::CREATE_TABLE);
    put_varint(out, u64::from(table));
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
    let (kind, at) = match measures.sum {
        None => (0, 0),
        Some(Field::BigEndian { at }) => (1, at),
        Some(Field::LittleEndian { at }) => (2, at),
        Some(Field::Element { at }) => (3, at),
    };
    let is_flat = *index == RunIndex::Flat;
    let declared = u8::from(*resident) << 4 | u8::from(*blind) << 5 | u8::from(is_flat) << 6;
    let more = compression.to_bit() | upper_compression.to_bit() << 1 | index_pages.to_bits() << 2;
    let flags = u8::from(measures.bytes) | u8::from(measures.hash) << 1 | kind << 2 | declared;
    out.push(flags | if more != 0 { MORE_OPTIONS } else { 0 });
    put_varint(out, u64::from(at));
    if more != 0 {
        put_varint(out, more);
    }
    put_varint(out, annotation.len() as u64);
    out.extend_from_slice(annotation);
}

/// Appends the end of a table.
pub(crate) fn put_drop_table(out: &mut Vec<u8>, table: TableId) {
    out.push(tag::DROP_TABLE);
    put_varint(out, u64::from(table));
}

/// Calls `visit` with each change of a record. Never panics, whatever the bytes.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the bytes are no record, and what `visit` returns.
pub fn decode(record: &[u8], visit: &mut dyn FnMut(Change<'_>) -> Result<()>) -> Result<()> {
    let mut input = Input { rest: record };
    while !input.rest.is_empty() {
        let tag = input.byte()?;
        let table = u32::try_from(input.varint()?).map_err(|_| malformed())?;
        match tag {
            tag::ENTRIES => {
                let count = input.varint()?;
                for _ in 0..count {
                    let flags = input.byte()?;
                    let state = match flags & 3 {
                        0 => State::Fresh,
                        1 => State::Over,
                        2 => State::Tombstone,
                        _ => {
                            let (key_len, value_len) = (input.varint()?, input.varint()?);
                            let (key, value) = (input.bytes(key_len)?, input.bytes(value_len)?);
                            let value = match flags {
                                BLIND_PUT => Some(value),
                                BLIND_REMOVAL if value.is_empty() => None,
                                _ => return Err(malformed()),
                            };
                            visit(Change::Blind { table, key, value })?;
                            continue;
                        }
                    };
                    if flags >> 2 > 3 {
                        return Err(malformed());
                    }
                    let (key_len, value_len) = (input.varint()?, input.varint()?);
                    let weights = input.bytes(8 * u64::from(flags >> 2))?;
                    let (key, value) = (input.bytes(key_len)?, input.bytes(value_len)?);
                    visit(Change::Entry { table, state, key, value, weights })?;
                }
            }
            tag::REMOVE_RANGE => {
                let rows = input.varint()?;
                let which = input.byte()?;
                if which > 3 {
                    return Err(malformed());
                }
                let mut bounds = [None, None];
                for (number, bound) in bounds.iter_mut().enumerate() {
                    if which & 1 << number != 0 {
                        let len = input.varint()?;
                        *bound = Some(input.bytes(len)?);
                    }
                }
                visit(Change::RemoveRange { table, low: bounds[0], high: bounds[1], rows })?;
            }
            tag::CREATE_TABLE => {
                let name_len = input.varint()?;
                let name = std::str::from_utf8(input.bytes(name_len)?).map_err(|_| malformed())?;
                let flags = input.byte()?;
                let at = u32::try_from(input.varint()?).map_err(|_| malformed())?;
                let sum = match flags >> 2 & 3 {
                    0 => None,
                    1 => Some(Field::BigEndian { at }),
                    2 => Some(Field::LittleEndian { at }),
                    _ => Some(Field::Element { at }),
                };
                let more = if flags & MORE_OPTIONS != 0 { input.varint()? } else { 0 };
                let annotation_len = input.varint()?;
                let options = TableOptions {
                    measures: Measures { bytes: flags & 1 != 0, hash: flags & 2 != 0, sum },
                    resident: flags >> 4 & 1 != 0,
                    blind: flags >> 5 & 1 != 0,
                    index: if flags >> 6 & 1 != 0 { RunIndex::Flat } else { RunIndex::Tree },
                    compression: Compression::from_bit(more & 1),
                    upper_compression: Compression::from_bit(more >> 1 & 1),
                    index_pages: IndexPages::from_bits(more >> 2).ok_or_else(malformed)?,
                    annotation: input.bytes(annotation_len)?.to_vec(),
                };
                visit(Change::CreateTable { table, name, options })?;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_of_a_table_comes_back() {
        let sums = [None, Some(Field::BigEndian { at: 300 }), Some(Field::Element { at: 1 })];
        let compressions = [Compression::None, Compression::Lz4];
        let all_index_pages = [IndexPages::AsNeeded, IndexPages::Preloaded, IndexPages::Resident];
        for number in 0..3 * 3 * 128 {
            let bit = |bit: usize| ((number / 9) >> bit) & 1;
            let options = TableOptions {
                measures: Measures { bytes: bit(0) == 1, hash: bit(1) == 1, sum: sums[number % 3] },
                resident: bit(2) == 1,
                blind: bit(5) == 1,
                index: [RunIndex::Tree, RunIndex::Flat][bit(6)],
                compression: compressions[bit(3)],
                upper_compression: compressions[bit(4)],
                index_pages: all_index_pages[number / 3 % 3],
                annotation: vec![b'n'; number % 5],
            };
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
            for len in 0..record.len() {
                assert!(decode(&record[..len], &mut |_| Ok(())).is_err() || len == 0);
            }
        }
    }
}
