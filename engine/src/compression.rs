//! Compression of runs: LZ4 blocks, by the library `lz4_flex`.
//!
//! Invariants:
//! 1. Data that does not shrink by an eighth is stored as it is: it would cost time on every read, and save too little.
//! 2. Unpacking writes only into the caller's memory, whose length the caller has bounded, and never panics, whatever
//!    the bytes: the library is built without unsafe code.
//!
//! Cost: `docs/internals/decisions/0007-compression-of-runs.md` has the figures of packing and unpacking. A packer
//! keeps one table of 8 to 16 KiB and one block. Not here: what is packed and how a reader can tell (`run`).

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// How leaves and long values are stored in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Each leaf, and each long value of up to 16 MiB, is an LZ4 block if that is shorter by an eighth. The cache holds
    /// them unpacked.
    Lz4,
}

impl Compression {
    pub(crate) fn from_bit(bit: u64) -> Compression {
        if bit == 0 { Compression::None } else { Compression::Lz4 }
    }
}

/// Packs pieces one after the other.
pub(crate) struct Packer {
    table: CompressTable,
    block: Vec<u8>,
}

impl Packer {
    /// A packer; `None` if nothing is to be packed.
    pub(crate) fn new(compression: Compression) -> Option<Packer> {
        match compression {
            Compression::None => None,
            Compression::Lz4 => Some(Packer { table: CompressTable::small(), block: Vec::new() }),
        }
    }

    /// Packs `plain` into a block; `None` if it and `overhead` bytes more are not shorter by an eighth.
    pub(crate) fn pack(&mut self, plain: &[u8], overhead: usize) -> Option<&[u8]> {
        let most = get_maximum_output_size(plain.len());
        if self.block.len() < most {
            self.block.resize(most, 0);
        }
        let len = compress_into_with_table(plain, &mut self.block, &mut self.table).ok()?;
        (len + overhead <= plain.len() - plain.len() / 8).then(|| &self.block[..len])
    }
}

/// Unpacks a block into `plain`; false if the result has another length.
pub(crate) fn unpack(block: &[u8], plain: &mut [u8]) -> bool {
    decompress_into(block, plain).is_ok_and(|len| len == plain.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let mut packer = Packer::new(Compression::Lz4).unwrap();
        assert!(Packer::new(Compression::None).is_none());
        // Around the length at which the library uses another table.
        for len in [64usize, 1000, 8192, 65_534, 65_535, 65_536, 300_000, 500] {
            let plain: Vec<u8> = (0..len).map(|at| (at % 7 * (at / 100)) as u8).collect();
            let block = packer.pack(&plain, 8).unwrap().to_vec();
            assert!(block.len() + 8 <= len - len / 8);
            let mut back = vec![1; len];
            assert!(unpack(&block, &mut back));
            assert_eq!(back, plain);
            assert!(!unpack(&block, &mut back[1..]) && !unpack(&block, &mut vec![0; len + 1]));
        }
    }

    #[test]
    fn what_does_not_shrink_stays() {
        let mut packer = Packer::new(Compression::Lz4).unwrap();
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(8192)
        .collect();
        assert_eq!(packer.pack(&noise, 0), None);
        // Zeros at its end that are not enough, and that are.
        assert_eq!(packer.pack(&[&noise[..7500], &[0; 692]].concat(), 0), None);
        assert!(packer.pack(&[&noise[..7000], &[0; 1192]].concat(), 0).is_some());
        assert_eq!(packer.pack(&[], 0).map(<[u8]>::len), None);
    }
}
