//! CSV: fields with a delimiter between, in quotes where they have one.

use std::borrow::Cow;

use crate::copy::{CopyOptions, Field};
use crate::error::{Result, SqlError, SqlState};

/// The fields of a row, put at the end of `fields`.
pub(super) fn split<'l>(line: &'l [u8], options: &CopyOptions, fields: &mut Vec<Field<'l>>) -> Result<()> {
    let mut at = 0;
    loop {
        let start = at;
        while line.get(at).is_some_and(|byte| *byte != options.delimiter && *byte != options.quote) {
            at += 1;
        }
        let (value, is_quoted) = if line.get(at) == Some(&options.quote) {
            let (value, end) = quoted(line, start, at, options)?;
            at = end;
            (Cow::Owned(value), true)
        } else {
            (Cow::Borrowed(&line[start..at]), false)
        };
        let place = fields.len();
        let is_null = *value == *options.null
            && if is_quoted { options.force_null.has(place) } else { !options.force_not_null.has(place) };
        fields.push(if is_null { None } else { Some(value) });
        if at == line.len() {
            return Ok(());
        }
        at += 1;
    }
}

/// A field that has quotes, the first of them at `at`, and where it ends.
fn quoted(line: &[u8], start: usize, mut at: usize, options: &CopyOptions) -> Result<(Vec<u8>, usize)> {
    let mut value = line[start..at].to_vec();
    let mut in_quotes = false;
    while let Some(&byte) = line.get(at) {
        if !in_quotes {
            if byte == options.delimiter {
                break;
            }
            if byte == options.quote {
                in_quotes = true;
            } else {
                value.push(byte);
            }
            at += 1;
            continue;
        }
        let next = line.get(at + 1).copied();
        if byte == options.escape
            && let Some(next) = next.filter(|next| *next == options.escape || *next == options.quote)
        {
            value.push(next);
            at += 2;
            continue;
        }
        if byte == options.quote {
            in_quotes = false;
        } else {
            value.push(byte);
        }
        at += 1;
    }
    if in_quotes {
        return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
    }
    Ok((value, at))
}

/// Writes a value. `is_forced`: in quotes, whatever it is; `is_alone`: the row has no other.
pub(super) fn write(value: &[u8], options: &CopyOptions, is_forced: bool, is_alone: bool, out: &mut Vec<u8>) {
    let is_special =
        |byte: &u8| *byte == options.delimiter || *byte == options.quote || *byte == b'\n' || *byte == b'\r';
    // A line that is `\.` alone would be the end of the data.
    let needs_quotes =
        is_forced || value == options.null || is_alone && value == b"\\." || value.iter().any(is_special);
    if !needs_quotes {
        out.extend_from_slice(value);
        return;
    }
    out.push(options.quote);
    for byte in value {
        if *byte == options.quote || *byte == options.escape {
            out.push(options.escape);
        }
        out.push(*byte);
    }
    out.push(options.quote);
}
