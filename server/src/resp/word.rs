//! Compares words of commands, and shows them in errors.

/// Whether a word is this one, whatever the case. `lower` is in lower case.
#[inline]
pub fn is_word(word: &[u8], lower: &str) -> bool {
    word.eq_ignore_ascii_case(lower.as_bytes())
}

/// Bytes as text for an error, cut to a length, and at the first zero byte as in Redis.
pub fn printable(bytes: &[u8], max: usize) -> String {
    let end = bytes.iter().take(max).position(|byte| *byte == 0).unwrap_or(bytes.len().min(max));
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
