//! The encoding of a table's measures, eight bytes in a run's footer and in the manifest.

use crate::tally::{Measures, SumField};

const HAS_BYTES: u8 = 1;
const HAS_HASH: u8 = 2;

impl Measures {
    /// Bytes of the encoding.
    pub(crate) const ENCODED_BYTES: usize = 8;

    /// `flags u8, kind of the summed field u8, zero u16, offset of that field u32`.
    pub(crate) fn encode(&self) -> [u8; Self::ENCODED_BYTES] {
        let flags = (HAS_BYTES * u8::from(self.bytes)) | (HAS_HASH * u8::from(self.hash));
        let (kind, at) = match self.sum {
            None => (0, 0),
            Some(SumField::BigEndian { at }) => (1, at),
            Some(SumField::LittleEndian { at }) => (2, at),
            Some(SumField::Element { at }) => (3, at),
        };
        let mut bytes = [flags, kind, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&at.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`Measures::encode`]; `None` for any other bytes.
    pub(crate) fn decode(bytes: [u8; Self::ENCODED_BYTES]) -> Option<Measures> {
        let [flags, kind, zero, also_zero, at @ ..] = bytes;
        let at = u32::from_le_bytes(at);
        let sum = match kind {
            0 if at == 0 => None,
            1 => Some(SumField::BigEndian { at }),
            2 => Some(SumField::LittleEndian { at }),
            3 => Some(SumField::Element { at }),
            _ => return None,
        };
        let known = flags & !(HAS_BYTES | HAS_HASH) == 0 && zero == 0 && also_zero == 0;
        known.then_some(Measures { bytes: flags & HAS_BYTES != 0, hash: flags & HAS_HASH != 0, sum })
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
                let measures = Measures { bytes, hash, sum };
                assert_eq!(Measures::decode(measures.encode()), Some(measures));
            }
        }
        assert_eq!(Measures::decode([4, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Measures::decode([0, 4, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Measures::decode([0, 0, 0, 0, 1, 0, 0, 0]), None);
        assert_eq!(Measures::decode([0, 0, 1, 0, 0, 0, 0, 0]), None);
    }
}
