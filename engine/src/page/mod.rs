//! One page: a sorted set of entries in a few KiB, the same bytes in memory and on disk.
//! `docs/internals/format-page.md` describes it.
//!
//! ```text
//! | header 32 | prefix, padded to 8 | arrays, one item an entry ->      free      <- records |
//!   leaf:   heads u32[n] | slots u16[n]
//!   inner:  tallies i64[n] x measures | children u32[n] | heads u32[n] | slots u16[n]
//! ```
//!
//! Invariants (checked by [`check`]):
//! 1. Keys ascend strictly. A key is the page's prefix, then the head's bytes, then the record's tail.
//! 2. `heads[i]` is the first four bytes after the prefix, big-endian, padded with zeros.
//! 3. Records lie in `heap_start..page size`, do not overlap, and with `garbage` fill that range. Holes lie in the
//!    garbage and do not overlap.
//! 4. In an inner page entry 0 stands for every key below entry 1; if `OPEN_LOW` is set its key is minus infinity.
//!
//! Cost: a search touches the header, three or four lines of heads, one slot and one record.
//! Not here: who owns the memory, what a child id means, balance. `disk` describes a page on disk, which must pass
//! [`checked_page`] before anything else reads it.

mod blob;
mod build;
mod check;
mod disk;
mod frames;
mod prefetch;
mod read;
mod write;

pub(crate) use blob::Blob;
pub(crate) use build::{Builder, Source, page_bytes_of, plan_prefix};
pub(crate) use check::{check, check_unit};
pub(crate) use disk::{MEASURES_MAX, UNIT_ALIGNMENT_BYTES, Unit, UnitBuffer, checked_page, new_leaf};
pub use read::KeyBuffer;
pub(crate) use read::{Aim, PageRef, Record};
pub(crate) use write::{NewRecord, PageFull, PageMut};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 32;
/// The longest prefix that is removed from keys, in bytes. Longer common prefixes stay in the records.
pub(crate) const PREFIX_MAX: usize = 248;
/// The longest prefix in a page of `page_bytes`: it must leave room for entries.
pub(crate) const fn prefix_max(page_bytes: usize) -> usize {
    if page_bytes / 8 < PREFIX_MAX { page_bytes / 8 } else { PREFIX_MAX }
}
/// Page sizes that offsets of 16 bits allow, and below which four entries could not be promised to fit.
pub(crate) const PAGE_BYTES_MAX: usize = 32 * 1024;
pub(crate) const PAGE_BYTES_MIN: usize = 256;

/// Offsets of the header's fields.
pub(crate) mod field {
    /// u8: 1 leaf, 2 inner.
    pub(crate) const KIND: usize = 0;
    /// u8: bits of [`super::flag`].
    pub(crate) const FLAGS: usize = 1;
    /// u16: entries.
    pub(crate) const COUNT: usize = 2;
    /// u16: bytes of the prefix.
    pub(crate) const PREFIX_LEN: usize = 4;
    /// u16: lowest byte of the heap in use.
    pub(crate) const HEAP_START: usize = 6;
    /// u16: bytes of the heap that belong to no record.
    pub(crate) const GARBAGE: usize = 8;
    /// u16: position of the last insert, a hint for splits.
    pub(crate) const HINT: usize = 10;
    /// u8: how many inserts in a row went to the hinted place.
    pub(crate) const RUN: usize = 12;
    /// u8: levels above the leaves.
    pub(crate) const LEVEL: usize = 13;
    /// u8: arrays of eight bytes an item in an inner page: of tallies, and in a file also of pointers.
    pub(crate) const MEASURES: usize = 14;
    /// u8: bytes of explicit weight in each record of a leaf.
    pub(crate) const WEIGHT_BYTES: usize = 15;
    /// u64: epoch of birth, in memory; zero on disk.
    pub(crate) const EPOCH: usize = 16;
    /// u16: the hole that was made last, in memory; 0 if there is none. See [`super::HOLE_BYTES_MIN`].
    pub(crate) const HOLE: usize = 24;
    /// u16: bytes of the page, in a file; zero in memory.
    pub(crate) const PAGE_BYTES: usize = 26;
    /// Four bytes: reserved, zero.
    pub(crate) const RESERVED: usize = 28;
}
const _: () = assert!(field::RESERVED + 4 == HEADER_BYTES);

/// A hole is garbage that can be filled again by a record of its length: it has the place of the hole made before it
/// (u16, 0 if it is the first) and its length (u16). Garbage of fewer bytes waits for [`PageMut::compact`].
pub(crate) const HOLE_BYTES_MIN: usize = 4;

/// Page flags.
pub(crate) mod flag {
    /// Entry 0 of this inner page is minus infinity.
    pub(crate) const OPEN_LOW: u8 = 1;
    /// Long keys stand after the page (on disk), not at an address (in memory).
    pub(crate) const ON_DISK: u8 = 2;
}

pub(crate) const KIND_LEAF: u8 = 1;
pub(crate) const KIND_INNER: u8 = 2;

/// Record flags, the first byte of every record: `flags, [key_len u8|u16], [value_len u8|u16], weight, key tail,
/// value`.
pub(crate) mod record {
    /// Bits 0 and 1: what the entry is.
    pub(crate) const STATE: u8 = 3;
    /// A value; the key is dead below this layer: rows +1.
    pub(crate) const FRESH: u8 = 0;
    /// A value over a live one below: rows 0.
    pub(crate) const OVER: u8 = 1;
    /// A tombstone over a live value below: rows -1.
    pub(crate) const TOMBSTONE: u8 = 2;
    /// The key's length has two bytes.
    pub(crate) const WIDE_KEY: u8 = 4;
    /// The value's length has two bytes.
    pub(crate) const WIDE_VALUE: u8 = 8;
    /// The whole key is out of line; the record has an 8-byte handle in place of the tail and no key length.
    pub(crate) const KEY_OUT: u8 = 16;
    /// The value is out of line; the record's value is a handle.
    pub(crate) const VALUE_OUT: u8 = 32;
    /// Bytes of a handle to an out-of-line key (and in memory, to a value).
    pub(crate) const HANDLE_BYTES: usize = 8;
}

/// The first four bytes of `rest`, big-endian, padded with zeros.
#[inline(always)]
pub(crate) fn head_of(rest: &[u8]) -> u32 {
    match rest.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(bytes)
        }
    }
}

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Bytes of the prefix area of `prefix_len` bytes.
#[inline(always)]
pub(crate) const fn padded(prefix_len: usize) -> usize {
    (prefix_len + 7) & !7
}

/// Bytes of the arrays for one entry.
#[inline(always)]
pub(crate) const fn array_bytes(kind: u8, measures: usize) -> usize {
    if kind == KIND_LEAF { 6 } else { 8 * measures + 10 }
}
