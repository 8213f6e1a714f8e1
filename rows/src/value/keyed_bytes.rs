//! Bytes that tell by which part of them they sort.
//!
//! ```text
//! value   length of the sort key, LEB128 | sort key | rest
//! ```
//!
//! Values of one sort key are equal, whatever follows it, as `1.5` and `1.50` are. A program that keeps values of types
//! of its own makes a sort key of each, which compares by its bytes as the value does, and puts into the rest what the
//! sort key does not tell. SQL keeps arrays, intervals and rows so.

use crate::value::number;

/// The most bytes of the length.
const LENGTH_BYTES_MAX: usize = 5;

/// The value of a sort key and the rest.
///
/// ```
/// use quipu_rows::keyed_bytes;
///
/// let value = keyed_bytes::join(b"key", b"rest");
/// assert_eq!(keyed_bytes::split(&value), Some((&b"key"[..], &b"rest"[..])));
/// ```
///
/// # Panics
/// If the sort key has 4 GiB or more.
pub fn join(sort_key: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut length = u32::try_from(sort_key.len()).expect("a sort key has less than 4 GiB");
    let mut value = Vec::with_capacity(sort_key.len() + rest.len() + 2);
    while length >= 0x80 {
        value.push(length as u8 | 0x80);
        length >>= 7;
    }
    value.push(length as u8);
    value.extend_from_slice(sort_key);
    value.extend_from_slice(rest);
    value
}

/// The sort key of a value and the rest; none if the bytes are no such value.
pub fn split(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_u64;
    for (place, byte) in value.iter().take(LENGTH_BYTES_MAX).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            // One way to write a length is enough.
            let is_short = place == 0 || *byte != 0;
            return value[place + 1..].split_at_checked(usize::try_from(length).ok()?).filter(|_| is_short);
        }
    }
    None
}

/// Appends the sort key of a number, as a column of `numeric` has it: bytes that compare as numbers do, and are equal
/// for equal ones. `number` is written as `numeric` writes it: `-1.50`, `NaN`, `Infinity`.
pub fn append_number(number: &str, sort_key: &mut Vec<u8>) {
    number::append_sort_key(number, sort_key);
}

/// The bytes by which a value sorts; all of them, if it is no such value.
pub(crate) fn sort_key(value: &[u8]) -> &[u8] {
    split(value).map_or(value, |(sort_key, _)| sort_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let sort_key = vec![7; length];
            let value = join(&sort_key, b"rest");
            assert_eq!(split(&value), Some((&sort_key[..], &b"rest"[..])), "{length}");
            assert_eq!(split(&value[..value.len() - 5]), None, "{length}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b""[..], b"\x01", b"\x80", b"\x80\x00", b"\xff\xff\xff\xff\xff\x01", b"\x05abcd"] {
            assert_eq!(split(bytes), None, "{bytes:?}");
        }
    }
}
