//! Compares words of commands, reads bounds of ranges, and shows words in errors.

use std::ops::Bound;

/// Whether a word is this one, whatever the case. `lower` is in lower case.
#[inline]
pub fn is_word(word: &[u8], lower: &str) -> bool {
    word.eq_ignore_ascii_case(lower.as_bytes())
}

/// The bound of a range of keys or members that `[word` or `(word` means.
pub fn bound(word: &[u8]) -> Option<Bound<&[u8]>> {
    match word {
        [b'[', key @ ..] => Some(Bound::Included(key)),
        [b'(', key @ ..] => Some(Bound::Excluded(key)),
        _ => None,
    }
}

/// Bytes of a word that errors show.
pub const SHOWN_BYTES_MAX: usize = 128;

/// What an error shows of a word: its bytes as they are, cut to a length, and at the first zero byte as in Redis.
pub fn shown(word: &[u8], max: usize) -> &[u8] {
    let word = &word[..word.len().min(max)];
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}
