//! Packed leaves: a unit stored as an LZ4 block, as its first byte says, in place of the plain unit.
//!
//! ```text
//! | kind 4 | zeros after the block  | 0 0 | plain_bytes u32 | block | zeros to a multiple of 8 |
//! ```
//!
//! Invariants:
//! 1. `plain_bytes` is a multiple of 8, more than the packed unit has, and no more than the writer chooses for a leaf:
//!    so reading never takes more memory than for a plain leaf. A leaf that is longer, because its only key is long, is
//!    not packed.
//! 2. The checksum in the parent is that of the stored bytes. The result of unpacking is checked like a plain unit.
//!
//! Not here: LZ4 (`compression`).

use super::leaf_builder::LONG_KEY_PAGES;
use crate::compression::unpack;
use crate::page::{PAGE_BYTES_MAX, UNIT_ALIGNMENT_BYTES};

/// The first byte of a packed unit; no page has this kind.
pub(crate) const KIND: u8 = 4;
/// Bytes before the block.
pub(crate) const HEADER_BYTES: usize = 8;
const PADDING_AT: usize = 1;
const RESERVED_AT: usize = 2;
const PLAIN_BYTES_AT: usize = 4;

/// The longest unit that is packed, in a run whose pages are filled up to `page_bytes`.
pub(crate) fn plain_bytes_max(page_bytes: usize) -> usize {
    (1 + LONG_KEY_PAGES) * page_bytes
}

const _: () = assert!((1 + LONG_KEY_PAGES) * PAGE_BYTES_MAX <= u32::MAX as usize);

/// The header of a unit of `plain_bytes`, packed into a block of `block_bytes`.
pub(crate) fn header(plain_bytes: usize, block_bytes: usize) -> [u8; HEADER_BYTES] {
    let padding = (HEADER_BYTES + block_bytes).next_multiple_of(UNIT_ALIGNMENT_BYTES) - HEADER_BYTES - block_bytes;
    let mut header = [KIND, padding as u8, 0, 0, 0, 0, 0, 0];
    header[PLAIN_BYTES_AT..].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    header
}

/// A packed unit, decoded from its bytes.
#[derive(Clone, Copy)]
pub(crate) struct PackedUnit<'b> {
    plain_bytes: usize,
    block: &'b [u8],
}

impl<'b> PackedUnit<'b> {
    /// The packed unit in `stored`, or what is wrong with it; `None` if it is not packed.
    pub(crate) fn new(stored: &'b [u8], page_bytes: usize) -> Result<Option<PackedUnit<'b>>, String> {
        if stored.first() != Some(&KIND) {
            return Ok(None);
        }
        let Some((header, rest)) = stored.split_first_chunk::<HEADER_BYTES>() else {
            return Err(format!("a packed unit of {} bytes", stored.len()));
        };
        let plain_bytes: [u8; 4] = header[PLAIN_BYTES_AT..].try_into().expect("four bytes");
        let plain_bytes = u32::from_le_bytes(plain_bytes) as usize;
        let is_possible = plain_bytes.is_multiple_of(UNIT_ALIGNMENT_BYTES)
            && plain_bytes > stored.len()
            && plain_bytes <= plain_bytes_max(page_bytes);
        if !is_possible || header[RESERVED_AT..PLAIN_BYTES_AT] != [0, 0] {
            return Err(format!("a packed unit of {} bytes that is to have {plain_bytes}", stored.len()));
        }
        let padding = usize::from(header[PADDING_AT]);
        let (block, zeros) = rest
            .len()
            .checked_sub(padding)
            .filter(|_| padding < UNIT_ALIGNMENT_BYTES)
            .map(|len| rest.split_at(len))
            .ok_or_else(|| format!("{padding} zeros after a packed unit of {} bytes", stored.len()))?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err("a packed unit is not followed by zeros".into());
        }
        Ok(Some(PackedUnit { plain_bytes, block }))
    }

    /// Bytes of the unit that was packed.
    pub(crate) fn plain_bytes(&self) -> usize {
        self.plain_bytes
    }

    /// The block.
    #[cfg(test)]
    pub(crate) fn block(&self) -> &'b [u8] {
        self.block
    }

    /// Unpacks into `plain`, which has [`PackedUnit::plain_bytes`].
    pub(crate) fn unpack(&self, plain: &mut [u8]) -> Result<(), String> {
        match unpack(self.block, plain) {
            true => Ok(()),
            false => Err("a packed unit does not unpack to what it says".into()),
        }
    }
}
