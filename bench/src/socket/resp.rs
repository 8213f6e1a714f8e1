//! RESP, the protocol of Redis, version 2: arrays of byte strings out, typed lines back.

use crate::store::Result;

/// Appends a command and its arguments.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    line(out, b'*', words.len() as u64);
    for word in words {
        bulk(out, word);
    }
}

/// Appends a byte string.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    line(out, b'$', bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head of an array of `count` values.
pub(crate) fn array(out: &mut Vec<u8>, count: u64) {
    line(out, b'*', count);
}

/// Appends a number.
pub(crate) fn integer(out: &mut Vec<u8>, number: u64) {
    line(out, b':', number);
}

/// Appends a status, as in `+OK`.
pub(crate) fn status(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Appends `number` in decimal.
pub(crate) fn decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut left = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// The length of the first answer in `received`; `None` if it has not arrived as a whole.
pub(crate) fn answer_bytes(received: &[u8]) -> Result<Option<usize>> {
    let (mut at, mut values) = (0, 1_u64);
    while values > 0 {
        let rest = received.get(at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = &rest[..length];
        at += length + 1;
        values -= 1;
        match line.split_first() {
            Some((b'+' | b'-' | b':', _)) => {}
            Some((b'$', digits)) => {
                if let Some(bytes) = size(digits)? {
                    at += bytes as usize + 2;
                }
            }
            Some((b'*', digits)) => values += size(digits)?.unwrap_or(0),
            _ => return Err(format!("`{}` begins no answer", line.escape_ascii()).into()),
        }
    }
    Ok(if at <= received.len() { Some(at) } else { None })
}

/// The byte strings of a whole answer that is one, or an array of them. One that is not there is left out.
///
/// # Errors
/// An answer of another kind.
pub(crate) fn strings(answer: &[u8]) -> Result<impl Iterator<Item = &[u8]>> {
    let mut rest = match answer.first() {
        Some(b'$') => answer,
        Some(b'*') => answer.iter().position(|byte| *byte == b'\n').map_or(answer, |end| &answer[end + 1..]),
        _ => return Err(format!("`{}` is not a byte string", answer.escape_ascii()).into()),
    };
    Ok(std::iter::from_fn(move || {
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let bytes = size(rest[..end].strip_prefix(b"$")?).ok()?;
            rest = &rest[end + 1..];
            if let Some(bytes) = bytes {
                let string = rest.get(..bytes as usize)?;
                rest = rest.get(bytes as usize + 2..)?;
                return Some(string);
            }
        }
    }))
}

/// The size that a line announces; `None` for -1, which stands for no value.
fn size(digits: &[u8]) -> Result<Option<u64>> {
    let text = std::str::from_utf8(digits).unwrap_or("?").trim_end_matches('\r');
    if text == "-1" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("`{text}` is not a size").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_byte_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"a\r\nb"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
        out.clear();
        integer(&mut out, 0);
        integer(&mut out, u64::MAX);
        assert_eq!(out, b":0\r\n:18446744073709551615\r\n");
    }

    #[test]
    fn strings_are_taken_out_of_answers() {
        let of = |answer: &'static [u8]| strings(answer).unwrap().collect::<Vec<_>>();
        assert_eq!(of(b"$4\r\na\r\nb\r\n"), [b"a\r\nb"]);
        assert_eq!(of(b"*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n"), [&b"a"[..], b""]);
        assert!(of(b"$-1\r\n").is_empty() && of(b"*0\r\n").is_empty());
        assert!(strings(b":1\r\n").is_err());
    }

    #[test]
    fn an_answer_ends_where_it_ends_and_no_earlier() {
        let answers: [&[u8]; 8] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":-17\r\n",
            b"$3\r\na\nb\r\n",
            b"$-1\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*3\r\n:1\r\n*2\r\n$0\r\n\r\n+x\r\n:2\r\n",
        ];
        for answer in answers {
            for length in 0..answer.len() {
                assert_eq!(answer_bytes(&answer[..length]).unwrap(), None, "{}", answer[..length].escape_ascii());
            }
            let followed = [answer, b"+next\r\n"].concat();
            assert_eq!(answer_bytes(&followed).unwrap(), Some(answer.len()));
        }
        assert!(answer_bytes(b"HTTP/1.1 400\r\n").is_err());
        assert!(answer_bytes(b"$x\r\n").is_err());
    }
}
