//! The encoding of a table's measures, 16 bytes in a run's footer and in the manifest.

use crate::tally::{Measures, SumField};

const HAS_BYTES: u8 = 1;
const HAS_HASH: u8 = 2;

impl Measures {
    /// Bytes of the encoding.
    pub(crate) const ENCODED_BYTES: usize = 16;

    /// `flags u8, kind of the summed field u8, zero u16, offset of that field u32, seed of the hash u64`.
    pub(crate) fn encode(&self) -> [u8; Self::ENCODED_BYTES] {
        let flags = (HAS_BYTES * u8::from(self.bytes)) | (HAS_HASH * u8::from(self.hash));
        let (kind, at) = match self.sum {
            None => (0, 0),
            Some(SumField::BigEndian { at }) => (1, at),
            Some(SumField::LittleEndian { at }) => (2, at),
            Some(SumField::Element { at }) => (3, at),
        };
        let mut bytes = [0; Self::ENCODED_BYTES];
        (bytes[0], bytes[1]) = (flags, kind);
        bytes[4..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.hash_seed.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`Measures::encode`]; `None` for any other bytes.
    pub(crate) fn decode(bytes: [u8; Self::ENCODED_BYTES]) -> Option<Measures> {
        let [flags, kind, zero, also_zero, a, b, c, d, seed @ ..] = bytes;
        let (at, hash_seed) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(seed));
        let sum = match kind {
            0 if at == 0 => None,
            1 => Some(SumField::BigEndian { at }),
            2 => Some(SumField::LittleEndian { at }),
            3 => Some(SumField::Element { at }),
            _ => return None,
        };
        let known = flags & !(HAS_BYTES | HAS_HASH) == 0 && zero == 0 && also_zero == 0;
        known.then_some(Measures { bytes: flags & HAS_BYTES != 0, hash: flags & HAS_HASH != 0, hash_seed, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_come_back() {
        let fields = [
            None,
            Some(SumField::BigEndian { at: 7 }),
            Some(SumField::LittleEndian { at: 0 }),
            Some(SumField::Element { at: u32::MAX }),
        ];
        for sum in fields {
            for (bytes, hash) in [(false, false), (true, false), (false, true), (true, true)] {
                let measures = Measures { bytes, hash, hash_seed: u64::MAX / 3 * u64::from(hash), sum };
                assert_eq!(Measures::decode(measures.encode()), Some(measures));
            }
        }
        let with_seed = |first: [u8; 8]| [first, [7; 8]].concat().try_into().expect("sixteen bytes");
        assert_eq!(Measures::decode(with_seed([4, 0, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(Measures::decode(with_seed([0, 4, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(Measures::decode(with_seed([0, 0, 0, 0, 1, 0, 0, 0])), None);
        assert_eq!(Measures::decode(with_seed([0, 0, 1, 0, 0, 0, 0, 0])), None);
    }
}
