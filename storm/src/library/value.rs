//! Values: a length and a filling, so that a model of many long values is small, and so is a script.

/// So many bytes of some filling: zeros, a pattern that compresses, or noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Value {
    /// Bytes.
    pub len: u32,
    /// 0: zeros; even: a pattern; odd: noise.
    pub fill: u32,
}

impl Value {
    fn piece(self, number: u64) -> [u8; 8] {
        let number = match self.fill {
            0 => return [0; 8],
            fill if fill % 2 == 0 => number % 3,
            _ => number,
        };
        mix((u64::from(self.fill) << 32) ^ number).to_le_bytes()
    }

    /// The bytes.
    pub fn bytes(self) -> Vec<u8> {
        let len = self.len as usize;
        let mut bytes = Vec::with_capacity(len + 8);
        for number in 0..len.div_ceil(8) {
            bytes.extend_from_slice(&self.piece(number as u64));
        }
        bytes.truncate(len);
        bytes
    }

    /// Whether these are the bytes.
    pub fn is(self, bytes: &[u8]) -> bool {
        bytes.len() == self.len as usize
            && bytes.chunks(8).enumerate().all(|(number, chunk)| self.piece(number as u64)[..chunk.len()] == *chunk)
    }
}

/// Spreads the bits of a number.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[test]
fn a_value_knows_its_bytes() {
    for len in [0, 1, 7, 8, 9, 100] {
        for fill in [0, 1, 2, 77] {
            let value = Value { len, fill };
            assert!(value.is(&value.bytes()));
            assert!(!value.is(&Value { len: len + 1, fill }.bytes()));
        }
    }
}
