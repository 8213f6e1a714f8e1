//! A reply of the Redis protocol, versions 2 and 3, decoded as little as a comparison needs: the marker byte, and text,
//! items or nothing.

/// Replies nest no deeper than this; a server that sends more is taken to send garbage.
const DEPTH_LIMIT: usize = 32;

/// A decoded reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The byte that starts its frame: `+ - : $ *` of version 2, `_ # , ( = ! % ~ > |` of version 3 as well.
    pub marker: u8,
    /// What follows the marker.
    pub body: Body,
}

/// What a [`Value`] holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `$-1`, `*-1` and `_`.
    Nil,
    /// The text of a line, or the bytes of a bulk.
    Text(Vec<u8>),
    /// The items of an array, set or push; keys and values of a map by turns.
    Items(Vec<Value>),
}

/// Bytes that are no reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbage;

impl Value {
    /// The first reply in `bytes` and the number of bytes of its frame; `None` if the frame is not complete yet.
    ///
    /// # Errors
    ///
    /// If no continuation of `bytes` is a reply.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Value, usize)>, Garbage> {
        let mut at = 0;
        Ok(decode(bytes, &mut at, DEPTH_LIMIT)?.map(|value| (value, at)))
    }

    /// Its text, if it has one.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its items, if it has any.
    pub fn items(&self) -> Option<&[Value]> {
        match &self.body {
            Body::Items(items) => Some(items),
            _ => None,
        }
    }

    /// Its number, if it is an integer.
    pub fn integer(&self) -> Option<i64> {
        if self.marker != b':' {
            return None;
        }
        std::str::from_utf8(self.text()?).ok()?.parse().ok()
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self.marker, b'-' | b'!')
    }

    /// Whether it is the simple string `text`.
    pub fn is_simple(&self, text: &str) -> bool {
        self.marker == b'+' && self.text() == Some(text.as_bytes())
    }

    /// Whether it is an error whose text starts with `prefix`.
    pub fn is_error_with(&self, prefix: &str) -> bool {
        self.is_error() && self.text().is_some_and(|text| text.starts_with(prefix.as_bytes()))
    }
}

fn decode(bytes: &[u8], at: &mut usize, depth: usize) -> Result<Option<Value>, Garbage> {
    let Some(line_end) = bytes[*at..].windows(2).position(|two| two == b"\r\n").map(|length| *at + length) else {
        return Ok(None);
    };
    let (&marker, rest) = bytes[*at..line_end].split_first().ok_or(Garbage)?;
    *at = line_end + 2;
    let body = match marker {
        b'+' | b'-' | b':' | b',' | b'#' | b'(' => Body::Text(rest.to_vec()),
        b'_' => Body::Nil,
        b'$' | b'=' | b'!' => match count(rest)? {
            None => Body::Nil,
            Some(length) => {
                let end = *at + length;
                if bytes.len() < end + 2 {
                    return Ok(None);
                }
                if &bytes[end..end + 2] != b"\r\n" {
                    return Err(Garbage);
                }
                let text = bytes[*at..end].to_vec();
                *at = end + 2;
                Body::Text(text)
            }
        },
        b'*' | b'~' | b'>' | b'%' | b'|' => match count(rest)? {
            None => Body::Nil,
            Some(count) => {
                if depth == 0 {
                    return Err(Garbage);
                }
                let count = if matches!(marker, b'%' | b'|') { 2 * count } else { count };
                let mut items = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    match decode(bytes, at, depth - 1)? {
                        Some(item) => items.push(item),
                        None => return Ok(None),
                    }
                }
                Body::Items(items)
            }
        },
        _ => return Err(Garbage),
    };
    Ok(Some(Value { marker, body }))
}

/// The length of a bulk or the number of items; `None` for -1. Half of `u32` keeps sums and doubles of it far from
/// overflow.
fn count(text: &[u8]) -> Result<Option<usize>, Garbage> {
    match std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(-1) => Ok(None),
        Some(count) if (0..=i64::from(u32::MAX / 2)).contains(&count) => Ok(usize::try_from(count).ok()),
        _ => Err(Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Value {
        let (value, length) = Value::decode(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        value
    }

    #[test]
    fn frames_of_both_versions_are_decoded() {
        assert!(whole(b"+OK\r\n").is_simple("OK"));
        assert!(whole(b"-ERR no\r\n").is_error_with("ERR"));
        assert_eq!(whole(b":-7\r\n").integer(), Some(-7));
        assert_eq!(whole(b"$4\r\na\r\nb\r\n").text(), Some(&b"a\r\nb"[..]));
        assert_eq!(whole(b"$-1\r\n").body, Body::Nil);
        assert_eq!(whole(b"_\r\n").body, Body::Nil);
        assert_eq!(whole(b"%1\r\n+a\r\n*2\r\n:1\r\n,1.5\r\n").items().map(<[Value]>::len), Some(2));
        assert_eq!(whole(b"=7\r\ntxt:abc\r\n").text(), Some(&b"txt:abc"[..]));
    }

    #[test]
    fn a_frame_cut_anywhere_is_waited_for() {
        let frame = b"*3\r\n$2\r\nab\r\n:1\r\n*1\r\n$0\r\n\r\n";
        for cut in 0..frame.len() {
            assert_eq!(Value::decode(&frame[..cut]), Ok(None), "cut at {cut}");
        }
        assert!(matches!(Value::decode(b"+a\r\n+b\r\n"), Ok(Some((_, 4)))));
    }

    #[test]
    fn garbage_is_told_from_a_part() {
        for bytes in [&b"hello\r\n"[..], b"$x\r\n", b"*-2\r\n", b"$1\r\nabc", b"\r\n", b"*99999999999\r\n"] {
            assert_eq!(Value::decode(bytes), Err(Garbage));
        }
        assert_eq!(Value::decode(&b"*1\r\n".repeat(1000)), Err(Garbage), "nested too deep");
    }
}
