//! The bytes of a run except its pages: header, footer, pointers, references to values.
//!
//! `docs/internals/format-run.md` describes them.
//!
//! Invariants:
//! 1. All integers are little-endian; units and values begin at multiples of eight.
//! 2. Magic, version and checksum of the header stay where they are in all versions.
//!
//! Cost: decoding allocates nothing, and never panics on any bytes. Not here: files, pages (`page`).

use crate::compression::Compression;
use crate::options::RunLayout;
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::tally::{Measures, Tally};

/// The first bytes of a run.
pub(crate) const MAGIC: [u8; 8] = *b"QuipuRun";
/// The first bytes of its footer: the top cord, which holds the sum of the cords below it.
pub(super) const FOOTER_MAGIC: [u8; 8] = *b"QuipuTop";
/// The version written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
/// The oldest version that is read. Tests invent one before the first, to test that runs of older versions can be
/// rewritten.
const OLDEST: u32 = if cfg!(test) { VERSION - 1 } else { VERSION };
/// Length of the header; the tree begins here.
pub(crate) const HEADER_BYTES: usize = 32;
/// Length of the footer, which ends the file.
pub(crate) const FOOTER_BYTES: usize = 192;
/// Length of a reference to a value out of line.
pub(super) const VALUE_REFERENCE_BYTES: usize = 24;
/// A tree whose rows fit a file is not higher.
pub(super) const LEVELS_MAX: usize = 64;

const VERSION_AT: usize = 8;
const TABLE_ID_AT: usize = 12;
const RUN_ID_AT: usize = 16;
const HEADER_RESERVED_AT: usize = 24;
const HEADER_CHECKSUM_AT: usize = 28;

const PAGE_BYTES_AT: usize = 12;
const FILE_BYTES_AT: usize = 16;
const ROOT_AT: usize = 24;
const LEVELS_AT: usize = 44;
const MEASURES_AT: usize = 48;
const TOTAL_AT: usize = 64;
const ENTRIES_AT: usize = 96;
const ERASED_AT: usize = 104;
const KIND_AT: usize = 112;
const COMPRESSION_AT: usize = 113;
const SAVED_BYTES_AT: usize = 120;
const FOOTER_RESERVED_AT: usize = 128;
const FOOTER_CHECKSUM_AT: usize = 188;

const POINTER_BYTES: usize = 20;
const TALLY_BYTES: usize = 32;

const _: () = {
    assert!(VERSION_AT == MAGIC.len() && VERSION_AT == FOOTER_MAGIC.len());
    assert!(TABLE_ID_AT == VERSION_AT + 4);
    assert!(RUN_ID_AT == TABLE_ID_AT + 4);
    assert!(HEADER_RESERVED_AT == RUN_ID_AT + 8);
    assert!(HEADER_CHECKSUM_AT == HEADER_RESERVED_AT + 4);
    assert!(HEADER_BYTES == HEADER_CHECKSUM_AT + 4);
    assert!(PAGE_BYTES_AT == VERSION_AT + 4);
    assert!(FILE_BYTES_AT == PAGE_BYTES_AT + 4);
    assert!(ROOT_AT == FILE_BYTES_AT + 8);
    assert!(LEVELS_AT == ROOT_AT + POINTER_BYTES);
    assert!(MEASURES_AT == LEVELS_AT + 4);
    assert!(TOTAL_AT == MEASURES_AT + Measures::ENCODED_BYTES);
    assert!(ENTRIES_AT == TOTAL_AT + TALLY_BYTES);
    assert!(ERASED_AT == ENTRIES_AT + 8);
    assert!(KIND_AT == ERASED_AT + 8);
    assert!(COMPRESSION_AT == KIND_AT + 1);
    assert!(SAVED_BYTES_AT == (COMPRESSION_AT + 1).next_multiple_of(8));
    assert!(FOOTER_RESERVED_AT == SAVED_BYTES_AT + 8);
    assert!(FOOTER_CHECKSUM_AT + 4 == FOOTER_BYTES);
};

/// Where a unit is, and how to verify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) offset: u64,
    /// Bytes of the whole unit.
    pub(crate) length: u32,
    /// The checksum (CRC-32C) of the whole unit.
    pub(crate) checksum: u32,
}

impl Pointer {
    /// Where the unit ends; `None` if that overflows.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.length))
    }
}

/// Where a value out of line is, and how to verify it. Stands in the row in place of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueReference {
    pub(crate) offset: u64,
    /// Bytes of the value; if it is stored as it is, zeros follow up to a multiple of eight.
    pub(crate) length: u64,
    /// Bytes of the LZ4 block that stores the value, which are fewer; 0 if it is stored as it is. Zeros follow up to a
    /// multiple of eight.
    pub(crate) packed_bytes: u32,
    /// The checksum of the stored bytes and the zeros after them.
    pub(crate) checksum: u32,
}

/// Longer values are not packed, so that packing and unpacking take no more memory.
pub(crate) const PACKED_VALUE_BYTES_MAX: usize = 16 << 20;
/// The most that a block of LZ4 can grow when it is unpacked.
const UNPACKED_FACTOR_MAX: u64 = 255;

impl ValueReference {
    /// A reference that no bytes match.
    pub(crate) const ASTRAY: ValueReference =
        ValueReference { offset: 0, length: 0, packed_bytes: 0, checksum: u32::MAX };

    pub(crate) fn encode(&self) -> [u8; VALUE_REFERENCE_BYTES] {
        let mut bytes = [0; VALUE_REFERENCE_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[20..].copy_from_slice(&self.packed_bytes.to_le_bytes());
        bytes
    }

    /// The reference in `bytes`, in a run with that compression.
    pub(crate) fn decode(bytes: &[u8], compression: Compression) -> Option<ValueReference> {
        let bytes: &[u8; VALUE_REFERENCE_BYTES] = bytes.try_into().ok()?;
        let reference = ValueReference {
            offset: u64_at(bytes, 0),
            length: u64_at(bytes, 8),
            packed_bytes: u32_at(bytes, 20),
            checksum: u32_at(bytes, 16),
        };
        let packed_bytes = u64::from(reference.packed_bytes);
        let is_possible = packed_bytes == 0
            || compression != Compression::None
                && packed_bytes < reference.length
                && reference.length <= (PACKED_VALUE_BYTES_MAX as u64).min(packed_bytes * UNPACKED_FACTOR_MAX);
        is_possible.then_some(reference)
    }

    /// Bytes that the value takes in the file; `None` if that overflows.
    pub(crate) fn extent_bytes(&self) -> Option<u64> {
        match self.packed_bytes {
            0 => self.length.checked_next_multiple_of(8),
            packed_bytes => Some(u64::from(packed_bytes).next_multiple_of(8)),
        }
    }

    /// The bytes saved by packing it.
    pub(crate) fn saved_bytes(&self) -> u64 {
        let plain_bytes = self.length.checked_next_multiple_of(8);
        plain_bytes.zip(self.extent_bytes()).map_or(0, |(plain, stored)| plain - stored)
    }

    /// Where the extent ends; `None` if that overflows.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.extent_bytes()?)
    }
}

/// Why a header or footer is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not a header or footer, or a damaged one.
    Invalid(&'static str),
    /// A sound one of this newer version.
    Newer(u32),
}

/// The sums of some entries: how many, how many of them are tombstones, and their tally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) entries: i64,
    pub(crate) erased: i64,
    pub(crate) tally: Tally,
}

impl Sums {
    /// The sums of live rows with nothing below.
    pub(crate) fn of_rows(tally: Tally) -> Sums {
        Sums { entries: tally.rows, erased: 0, tally }
    }

    /// Entries that weigh one row.
    pub(crate) fn fresh(&self) -> i64 {
        self.tally.rows.wrapping_add(self.erased)
    }

    /// Whether this many entries can have these tombstones and weigh these rows.
    pub(super) fn are_possible(&self) -> bool {
        (0..=self.entries).contains(&self.erased) && (0..=self.entries - self.erased).contains(&self.fresh())
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, is_erased: bool, tally: Tally) {
        self.entries += 1;
        self.erased += i64::from(is_erased);
        self.tally += tally;
    }
}

impl std::ops::Add for Sums {
    type Output = Sums;

    fn add(self, other: Sums) -> Sums {
        Sums {
            entries: self.entries.wrapping_add(other.entries),
            erased: self.erased.wrapping_add(other.erased),
            tally: self.tally + other.tally,
        }
    }
}

impl std::ops::Sub for Sums {
    type Output = Sums;

    fn sub(self, other: Sums) -> Sums {
        Sums {
            entries: self.entries.wrapping_sub(other.entries),
            erased: self.erased.wrapping_sub(other.erased),
            tally: self.tally - other.tally,
        }
    }
}

/// The start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) table_id: u32,
    pub(crate) run_id: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..VERSION_AT].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, VERSION_AT, self.version);
        put_u32(&mut bytes, TABLE_ID_AT, self.table_id);
        put_u64(&mut bytes, RUN_ID_AT, self.run_id);
        let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]);
        put_u32(&mut bytes, HEADER_CHECKSUM_AT, checksum);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Fault> {
        let version = verify(bytes, MAGIC, HEADER_CHECKSUM_AT, &HEADER_COMPLAINTS)?;
        if u32_at(bytes, HEADER_RESERVED_AT) != 0 {
            return Err(Fault::Invalid("the header has fields that its version has not"));
        }
        Ok(Header { version, table_id: u32_at(bytes, TABLE_ID_AT), run_id: u64_at(bytes, RUN_ID_AT) })
    }
}

/// The end of a run: where its tree is, and its totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) page_bytes: usize,
    pub(crate) file_bytes: u64,
    /// All zeros if there are no rows.
    pub(crate) root: Pointer,
    /// Pages from the root to a leaf; zero if there are no rows.
    pub(crate) levels: usize,
    pub(crate) measures: Measures,
    pub(crate) total: Sums,
    /// Whether nothing lies below, so that every entry is a live row.
    pub(crate) is_bottom: bool,
    pub(crate) layout: RunLayout,
    /// Whether leaves and long values may be packed, and how.
    pub(crate) compression: Compression,
    /// How many bytes longer the file would be if nothing were packed.
    pub(crate) saved_bytes: u64,
}

/// Bits of a footer's kind.
const KIND_UPPER: u8 = 1;
const KIND_FLAT: u8 = 2;

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..VERSION_AT].copy_from_slice(&FOOTER_MAGIC);
        put_u32(&mut bytes, VERSION_AT, version_written());
        put_u32(&mut bytes, PAGE_BYTES_AT, self.page_bytes as u32);
        put_u64(&mut bytes, FILE_BYTES_AT, self.file_bytes);
        put_u64(&mut bytes, ROOT_AT, self.root.offset);
        put_u32(&mut bytes, ROOT_AT + 8, self.root.length);
        put_u32(&mut bytes, ROOT_AT + 12, self.root.checksum);
        put_u32(&mut bytes, LEVELS_AT, self.levels as u32);
        bytes[MEASURES_AT..TOTAL_AT].copy_from_slice(&self.measures.encode());
        let tally = &self.total.tally;
        put_u64(&mut bytes, TOTAL_AT, tally.rows as u64);
        put_u64(&mut bytes, TOTAL_AT + 8, tally.bytes as u64);
        put_u64(&mut bytes, TOTAL_AT + 16, tally.hash);
        put_u64(&mut bytes, TOTAL_AT + 24, tally.sum as u64);
        put_u64(&mut bytes, ENTRIES_AT, self.total.entries as u64);
        put_u64(&mut bytes, ERASED_AT, self.total.erased as u64);
        let upper = if self.is_bottom { 0 } else { KIND_UPPER };
        bytes[KIND_AT] = upper | if self.layout == RunLayout::Flat { KIND_FLAT } else { 0 };
        bytes[COMPRESSION_AT] = match self.compression {
            Compression::None => 0,
            Compression::Lz4 => 1,
        };
        put_u64(&mut bytes, SAVED_BYTES_AT, self.saved_bytes);
        let checksum = crc32c::crc32c(&bytes[..FOOTER_CHECKSUM_AT]);
        put_u32(&mut bytes, FOOTER_CHECKSUM_AT, checksum);
        bytes
    }

    /// Reads the footer of a file of `file_bytes` and that version.
    pub(crate) fn decode(bytes: &[u8], version: u32, file_bytes: u64) -> Result<Footer, Fault> {
        if verify(bytes, FOOTER_MAGIC, FOOTER_CHECKSUM_AT, &FOOTER_COMPLAINTS)? != version {
            return Err(Fault::Invalid("the footer is of another version than the header"));
        }
        let measures = bytes[MEASURES_AT..TOTAL_AT].try_into().expect("sixteen bytes");
        let tally = Tally {
            rows: u64_at(bytes, TOTAL_AT) as i64,
            bytes: u64_at(bytes, TOTAL_AT + 8) as i64,
            hash: u64_at(bytes, TOTAL_AT + 16),
            sum: u64_at(bytes, TOTAL_AT + 24) as i64,
        };
        let (entries, erased) = (u64_at(bytes, ENTRIES_AT) as i64, u64_at(bytes, ERASED_AT) as i64);
        let (total, kind) = (Sums { entries, erased, tally }, bytes[KIND_AT]);
        let compression = match bytes[COMPRESSION_AT] {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => return Err(Fault::Invalid("the footer says an unknown compression")),
        };
        let saved_bytes = u64_at(bytes, SAVED_BYTES_AT);
        let footer = Footer {
            page_bytes: u32_at(bytes, PAGE_BYTES_AT) as usize,
            file_bytes: u64_at(bytes, FILE_BYTES_AT),
            root: Pointer {
                offset: u64_at(bytes, ROOT_AT),
                length: u32_at(bytes, ROOT_AT + 8),
                checksum: u32_at(bytes, ROOT_AT + 12),
            },
            levels: u32_at(bytes, LEVELS_AT) as usize,
            measures: Measures::decode(measures).ok_or(Fault::Invalid("the footer declares unknown measures"))?,
            total,
            is_bottom: kind & KIND_UPPER == 0,
            layout: if kind & KIND_FLAT == 0 { RunLayout::Tree } else { RunLayout::Flat },
            compression,
            saved_bytes,
        };
        if footer.file_bytes != file_bytes {
            return Err(Fault::Invalid("the file has not the length that its footer says"));
        }
        let mut reserved =
            [ROOT_AT + 16..LEVELS_AT, COMPRESSION_AT + 1..SAVED_BYTES_AT, FOOTER_RESERVED_AT..FOOTER_CHECKSUM_AT]
                .into_iter()
                .flat_map(|range| &bytes[range]);
        if !footer.is_sound() || kind & !(KIND_UPPER | KIND_FLAT) != 0 || reserved.any(|&byte| byte != 0) {
            return Err(Fault::Invalid("the footer's fields contradict each other"));
        }
        Ok(footer)
    }

    /// Whether the fields fit each other.
    fn is_sound(&self) -> bool {
        let (root, total) = (&self.root, &self.total);
        let start = HEADER_BYTES as u64;
        let end = self.file_bytes.checked_sub(FOOTER_BYTES as u64);
        let is_tree_sound = if self.levels == 0 {
            *root == Pointer::default() && *total == Sums::default() && end == Some(start)
        } else {
            self.levels <= LEVELS_MAX
                && total.entries > 0
                && total.are_possible()
                && (!self.is_bottom || *total == Sums::of_rows(total.tally))
                && (self.layout == RunLayout::Tree || self.levels <= 2)
                && root.offset >= start
                && root.offset.is_multiple_of(8)
                && root.length.is_multiple_of(8)
                && root.end() == end
        };
        is_tree_sound
            && (self.compression != Compression::None || self.saved_bytes == 0)
            && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes)
    }
}

/// The messages of [`verify`] for a header or a footer.
struct Complaints {
    magic: &'static str,
    checksum: &'static str,
}

const HEADER_COMPLAINTS: Complaints =
    Complaints { magic: "this is not a run", checksum: "the header's checksum is wrong" };
const FOOTER_COMPLAINTS: Complaints = Complaints {
    magic: "there is no footer; the file was cut or never finished",
    checksum: "the footer's checksum is wrong",
};

/// Checks magic and checksum, and returns the version.
fn verify(bytes: &[u8], magic: [u8; 8], checksum_at: usize, complaints: &Complaints) -> Result<u32, Fault> {
    if !bytes.starts_with(&magic) {
        return Err(Fault::Invalid(complaints.magic));
    }
    if u32_at(bytes, checksum_at) != crc32c::crc32c(&bytes[..checksum_at]) {
        return Err(Fault::Invalid(complaints.checksum));
    }
    match u32_at(bytes, VERSION_AT) {
        newer if newer > VERSION => Err(Fault::Newer(newer)),
        version if (OLDEST..=VERSION).contains(&version) => Ok(version),
        _ => Err(Fault::Invalid("there is no version 0")),
    }
}

/// The version that runs are written in: the newest, unless a test invents an older one.
pub(super) fn version_written() -> u32 {
    #[cfg(test)]
    if made_up::IS_WRITTEN.get() {
        return OLDEST;
    }
    VERSION
}

/// The number at `at`, which the caller has seen to be there.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
pub(crate) mod made_up {
    use std::cell::Cell;

    thread_local! {
        /// Whether runs that this thread writes are of a version before the first.
        pub(crate) static IS_WRITTEN: Cell<bool> = const { Cell::new(false) };
    }
}
