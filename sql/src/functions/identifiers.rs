//! Names taken apart, and texts with escapes of Unicode.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, text};
use crate::types::BaseType;
use crate::types::datum::{Array, Datum};

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("parse_ident(text) text[]", |_, v| parts(text(v, 0)?, true));
    definitions.add("parse_ident(text,bool) text[]", |_, v| parts(text(v, 0)?, v[1].is_true()));
    definitions.add("unistr(text) text", |_, v| unescaped(text(v, 0)?).map(Datum::text));
}

/// The letters of a name that is written without quotes: those of ASCII are small, others stay.
pub(crate) fn folded_text(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// [`folded_text`], of a letter.
pub(crate) fn folded_letter(letter: char) -> char {
    letter.to_ascii_lowercase()
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

/// The parts of a name such as `a."B c"`; what follows it is an error if it `is_strict`.
fn parts(name: &str, is_strict: bool) -> Result<Datum> {
    let refused = |detail: Option<String>| {
        let error =
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("string is not a valid identifier: \"{name}\""));
        Err(match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        })
    };
    let (mut parts, mut rest) = (Vec::new(), name.trim_start());
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut chars = quoted.chars();
            loop {
                match chars.next() {
                    Some('"') if chars.as_str().starts_with('"') => {
                        chars.next();
                        part.push('"');
                    }
                    Some('"') => break,
                    Some(c) => part.push(c),
                    None => return refused(Some("String has unclosed double quotes.".to_owned())),
                }
            }
            if part.is_empty() {
                return refused(Some("Quoted identifier must not be empty.".to_owned()));
            }
            parts.push(Datum::text(part));
            rest = chars.as_str();
        } else if rest.starts_with(is_start) {
            let is_part = |c: char| is_start(c) || c.is_ascii_digit() || c == '$';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            parts.push(Datum::text(folded_text(&rest[..end])));
            rest = &rest[end..];
        } else {
            return refused(match (rest.starts_with('.'), parts.is_empty()) {
                (true, _) => Some("No valid identifier before \".\".".to_owned()),
                (false, false) => Some("No valid identifier after \".\".".to_owned()),
                (false, true) => None,
            });
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() || !is_strict => break,
            None => return refused(None),
        }
    }
    Ok(Datum::Array(Arc::new(Array::new(BaseType::Text, parts))))
}

/// A text with its escapes read: `\\`, `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX`, of hexadecimal digits.
fn unescaped(written: &str) -> Result<String> {
    let wrong = |what: &str| SqlError::new(SqlState::SYNTAX_ERROR, what.to_owned());
    let (mut result, mut rest, mut high) = (String::with_capacity(written.len()), written, None);
    while let Some(c) = rest.chars().next() {
        if c != '\\' || rest.starts_with("\\\\") {
            if high.is_some() {
                return Err(wrong("invalid Unicode surrogate pair"));
            }
            result.push(c);
            rest = &rest[if c == '\\' { 2 } else { c.len_utf8() }..];
            continue;
        }
        let (skipped, digits) = match rest.as_bytes().get(1) {
            Some(b'+') => (2, 6),
            Some(b'u') => (2, 4),
            Some(b'U') => (2, 8),
            _ => (1, 4),
        };
        let number = rest.get(skipped..skipped + digits).filter(|part| part.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = number.and_then(|part| u32::from_str_radix(part, 16).ok()).ok_or_else(|| {
            wrong("invalid Unicode escape")
                .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
        })?;
        rest = &rest[skipped + digits..];
        let number = match (high.take(), number) {
            (None, 0xd800..=0xdbff) => {
                high = Some(number);
                continue;
            }
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (number - 0xdc00),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(wrong("invalid Unicode surrogate pair")),
            (None, _) => number,
        };
        let read = char::from_u32(number).filter(|c| *c != '\0');
        result.push(read.ok_or_else(|| {
            let what = format!("invalid Unicode code point: {number:04X}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
        })?);
    }
    match high {
        Some(_) => Err(wrong("invalid Unicode surrogate pair")),
        None => Ok(result),
    }
}
