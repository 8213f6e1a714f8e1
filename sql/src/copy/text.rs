//! The text format: fields with a delimiter between, and a backslash before what would be misread.

use std::borrow::Cow;

use crate::copy::{CopyOptions, Field};

/// The fields of a line, put at the end of `fields`.
pub(super) fn split<'l>(line: &'l [u8], options: &CopyOptions, fields: &mut Vec<Field<'l>>) {
    let mut start = 0;
    loop {
        let mut end = start;
        let mut has_escape = false;
        while let Some(&byte) = line.get(end) {
            if byte == options.delimiter {
                break;
            }
            has_escape |= byte == b'\\';
            end += 1 + usize::from(byte == b'\\');
        }
        let end = end.min(line.len());
        let raw = &line[start..end];
        // What stands for NULL is compared as it is written.
        fields.push(if raw == options.null {
            None
        } else if has_escape {
            Some(Cow::Owned(unescape(raw)))
        } else {
            Some(Cow::Borrowed(raw))
        });
        if end == line.len() {
            return;
        }
        start = end + 1;
    }
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        // A backslash at the end of a line stands for nothing.
        let Some(byte) = bytes.next() else { break };
        value.push(match byte {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| matches!(byte, b'0'..=b'7')) else { break };
                    code = code << 3 | u32::from(digit - b'0');
                }
                code as u8
            }
            b'x' => match bytes.next_if(u8::is_ascii_hexdigit) {
                Some(digit) => {
                    let high = hexadecimal(digit);
                    match bytes.next_if(u8::is_ascii_hexdigit) {
                        Some(digit) => high << 4 | hexadecimal(digit),
                        None => high,
                    }
                }
                None => b'x',
            },
            other => other,
        });
    }
    value
}

fn hexadecimal(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

/// Writes a value.
pub(super) fn write(value: &[u8], options: &CopyOptions, out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(place) = rest.iter().position(|byte| *byte < 32 || *byte == b'\\' || *byte == options.delimiter) {
        out.extend_from_slice(&rest[..place]);
        let byte = rest[place];
        match byte {
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            11 => out.extend_from_slice(b"\\v"),
            byte if byte == b'\\' || byte == options.delimiter => out.extend_from_slice(&[b'\\', byte]),
            byte => out.push(byte),
        }
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
}
