//! Parts of a JSON text as they stand in it, blanks and all: what `json`, unlike `jsonb`, gives back.

use crate::error::Result;
use crate::types::datum::Datum;
use crate::types::json;

/// What kind of value a text of JSON is, by its first character.
pub fn kind(text: &str) -> &'static str {
    match text.trim_start().bytes().next() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// The parts between the brackets of an array or an object, which commas separate.
fn parts(text: &str) -> Vec<&str> {
    let whole = text.trim();
    let Some(within) = whole.get(1..whole.len().saturating_sub(1)) else { return Vec::new() };
    let mut parts = Vec::new();
    let (mut depth, mut start, mut is_quoted, mut is_escaped) = (0usize, 0, false, false);
    for (at, byte) in within.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(within[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = within[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// The elements of an array; none of what is no array.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    (kind(text) == "array").then(|| parts(text))
}

/// The members of an object, in their order; none of what is no object.
///
/// # Errors
/// 22P02 if a name is no text.
pub fn members(text: &str) -> Result<Option<Vec<(String, &str)>>> {
    if kind(text) != "object" {
        return Ok(None);
    }
    let member = |part: &'_ str| -> Result<(String, usize)> {
        let mut is_escaped = false;
        let end = part.bytes().enumerate().skip(1).find(|(_, byte)| match byte {
            _ if is_escaped => {
                is_escaped = false;
                false
            }
            b'\\' => {
                is_escaped = true;
                false
            }
            byte => *byte == b'"',
        });
        let end = end.map_or(part.len(), |(at, _)| at + 1);
        Ok((string(&part[..end])?, end))
    };
    let mut members = Vec::new();
    for part in parts(text) {
        let (name, end) = member(part)?;
        let value = part[end..].trim_start().trim_start_matches(':').trim();
        members.push((name, value));
    }
    Ok(Some(members))
}

/// The text that a text in quotes writes.
///
/// # Errors
/// 22P02.
pub fn string(quoted: &str) -> Result<String> {
    match json::parse(quoted)? {
        json::Json::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

/// What functions give of a part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The part itself.
    Json,
    /// Its text, of `json`.
    Text,
    /// Its text, of `jsonb`: objects and arrays as they are shown.
    TextOfJsonb,
}

/// A value as text: a text without quotes, none for null, else as it stands or is shown.
fn to_text(text: &str, is_shown: bool) -> Result<Option<String>> {
    match kind(text) {
        "null" => Ok(None),
        "string" => string(text.trim()).map(Some),
        "object" | "array" if is_shown => json::shown(text).map(Some),
        _ => Ok(Some(text.to_owned())),
    }
}

/// A part of a value as it is wanted.
///
/// # Errors
/// 22P02.
pub fn given(text: &str, part: Part) -> Result<Datum> {
    match part {
        Part::Json => Ok(Datum::Json(text.into())),
        part => Ok(to_text(text, part == Part::TextOfJsonb)?.map_or(Datum::Null, Datum::text)),
    }
}
