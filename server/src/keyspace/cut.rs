//! Lengths from which on strings are cut into pieces, and lengths of the pieces.

/// How strings are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the longest string that is stored as a whole.
    pub whole_bytes_max: usize,
    /// Bytes of a piece.
    pub piece_bytes: usize,
}

impl Default for Cut {
    /// A change of one bit writes a piece into the log, so pieces are short; a row costs some 100 bytes and 300 ns, so
    /// they are not shorter.
    fn default() -> Self {
        Cut { whole_bytes_max: 64 << 10, piece_bytes: 8 << 10 }
    }
}

impl Cut {
    pub(super) fn bytes(self) -> [u8; 16] {
        (self.whole_bytes_max as u128 | (self.piece_bytes as u128) << 64).to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Cut> {
        let both = u128::from_le_bytes(bytes.try_into().ok()?);
        let cut = Cut { whole_bytes_max: both as u64 as usize, piece_bytes: (both >> 64) as usize };
        (cut.piece_bytes > 0).then_some(cut)
    }
}
