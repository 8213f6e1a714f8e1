//! The declaration of a table, and its bytes as the manifest and the log store them.
//!
//! A new option of a table is a field of [`TableOptions`] and a line of each function here.
//! `docs/internals/format-declaration.md` describes the bytes.

use crate::compression::Compression;
use crate::inner_pages::InnerPages;
use crate::options::{RunLayout, TableOptions};
use crate::tally::Measures;

/// Identifies a table for as long as the database lives; never reused.
pub(crate) type TableId = u32;

/// The fixed properties of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
}

/// Length of the part that is always there.
const FIXED_BYTES: usize = Measures::ENCODED_BYTES + 8;

const IN_MEMORY: u64 = 1;
const BLIND_WRITES: u64 = 2;
const FLAT_LAYOUT: u64 = 4;
const LZ4: u64 = 8;
const UPPER_LZ4: u64 = 16;
/// Two bits from here on.
const INNER_PAGES_BIT: u32 = 5;
const FLAGS: u64 = IN_MEMORY | BLIND_WRITES | FLAT_LAYOUT | LZ4 | UPPER_LZ4 | 3 << INNER_PAGES_BIT;

/// Encodes the options of a table.
pub(crate) fn encode(options: &TableOptions) -> Vec<u8> {
    let TableOptions {
        measures,
        metadata,
        comment,
        in_memory,
        blind_writes,
        layout,
        compression,
        upper_compression,
        inner_pages,
    } = options;
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let flags = flag(*in_memory, IN_MEMORY)
        | flag(*blind_writes, BLIND_WRITES)
        | flag(*layout == RunLayout::Flat, FLAT_LAYOUT)
        | flag(*compression == Compression::Lz4, LZ4)
        | flag(*upper_compression == Compression::Lz4, UPPER_LZ4)
        | inner_pages.to_bits() << INNER_PAGES_BIT;
    let mut bytes = Vec::with_capacity(FIXED_BYTES + 8 + metadata.len() + comment.len());
    bytes.extend_from_slice(&measures.encode());
    bytes.extend_from_slice(&flags.to_le_bytes());
    for text in [metadata, comment.as_bytes()] {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    bytes
}

/// Decodes the result of [`encode`], all of it; `None` for any other bytes. Never panics.
pub(crate) fn decode(bytes: &[u8]) -> Option<TableOptions> {
    let (measures, rest) = bytes.split_first_chunk()?;
    let (flags, rest) = rest.split_first_chunk()?;
    let flags = u64::from_le_bytes(*flags);
    let (metadata, rest) = counted(rest)?;
    let (comment, rest) = counted(rest)?;
    if !rest.is_empty() || flags & !FLAGS != 0 {
        return None;
    }
    Some(TableOptions {
        measures: Measures::decode(*measures)?,
        metadata: metadata.to_vec(),
        comment: std::str::from_utf8(comment).ok()?.to_owned(),
        in_memory: flags & IN_MEMORY != 0,
        blind_writes: flags & BLIND_WRITES != 0,
        layout: if flags & FLAT_LAYOUT != 0 { RunLayout::Flat } else { RunLayout::Tree },
        compression: Compression::from_bit(flags & LZ4),
        upper_compression: Compression::from_bit(flags & UPPER_LZ4),
        inner_pages: InnerPages::from_bits(flags >> INNER_PAGES_BIT & 3)?,
    })
}

/// Takes a length of four bytes and that many bytes off the front.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::SumField;

    #[test]
    fn every_declaration_comes_back_and_no_part_of_it_does() {
        let sums = [None, Some(SumField::BigEndian { at: 300 }), Some(SumField::Element { at: 1 })];
        let compressions = [Compression::None, Compression::Lz4];
        let all_inner_pages = [InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned];
        for number in 0..3 * 3 * 128 {
            let bit = |bit: usize| ((number / 9) >> bit) & 1;
            let options = TableOptions {
                measures: Measures { bytes: bit(0) == 1, hash: bit(1) == 1, sum: sums[number % 3], ..Measures::ROWS },
                in_memory: bit(2) == 1,
                blind_writes: bit(5) == 1,
                layout: [RunLayout::Tree, RunLayout::Flat][bit(6)],
                compression: compressions[bit(3)],
                upper_compression: compressions[bit(4)],
                inner_pages: all_inner_pages[number / 3 % 3],
                metadata: vec![0xFF; number % 5],
                comment: "what it is for"[..number % 7].to_owned(),
            };
            let bytes = encode(&options);
            assert_eq!(decode(&bytes), Some(options));
            assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_none()));
        }
    }
}
