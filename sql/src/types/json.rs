//! JSON: whether a text is JSON, its one form for `jsonb`, and the order of such values.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use serde::de::IgnoredAny;

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric;

/// The deepest that values are nested.
const DEPTH_MAX: usize = 200;

/// The most zeros that the exponents of a `jsonb` value may stand for, all together: `1e131071` has 131,071 in eight
/// bytes of text. PostgreSQL keeps no more bytes in one value.
const ZEROS_MAX: usize = (1 << 28) - 1;
/// Numbers of greater exponents are no `numeric`, and stay as they stand.
const EXPONENT_MAX: u32 = 150_000;

/// A value of JSON: numbers are kept as they are written, members in the order of `jsonb`.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number in the form that `numeric` writes.
    Number(String),
    /// A text.
    String(String),
    /// `[...]`
    Array(Vec<Json>),
    /// `{...}`; in the order of `jsonb` if it was read for it, else as it stands.
    Object(Vec<(String, Json)>),
}

fn invalid(text: &str, error: &serde_json::Error) -> SqlError {
    let _ = text;
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
        .with_detail(error.to_string())
}

/// Checks that a text is JSON.
///
/// # Errors
/// 22P02.
pub fn check(text: &str) -> Result<()> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|error| invalid(text, &error))
}

/// Reads the value of a text as it stands: members in their order, the same name more than once.
///
/// # Errors
/// 22P02.
pub fn parse(text: &str) -> Result<Json> {
    // Numbers are read from the text, since a float would lose digits of them.
    check(text)?;
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.value()
}

/// Reads a value in the order of `jsonb`: members by the length of their names and their bytes, the last of each name.
///
/// # Errors
/// 22P02; 54000 if its numbers have too many digits without their exponents.
pub fn parse_sorted(text: &str) -> Result<Json> {
    let value = parse(text)?;
    if value.zeros() > ZEROS_MAX {
        let what = format!("the exponents of the numbers of a jsonb value stand for more than {ZEROS_MAX} zeros");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    Ok(value.sorted())
}

/// The one text by which a value of `jsonb` is kept: without white space.
///
/// # Errors
/// 22P02.
pub fn normalise(text: &str) -> Result<String> {
    Ok(parse_sorted(text)?.compact())
}

/// The text of `jsonb` as it is shown: with a blank after `:` and `,`.
///
/// # Errors
/// 22P02.
pub fn shown(text: &str) -> Result<String> {
    Ok(parse_sorted(text)?.to_string())
}

/// The order of two values of `jsonb`. What is no JSON, which no column holds, goes by its bytes.
pub fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (parse_sorted(a), parse_sorted(b)) {
        (Ok(a), Ok(b)) => a.compare(&b),
        _ => a.cmp(b),
    }
}

/// Adds a value of `jsonb` to a hash: the same for those that are equal.
pub fn hash(text: &str, state: &mut impl Hasher) {
    match parse_sorted(text) {
        Ok(value) => value.hash_into(state),
        Err(_) => text.hash(state),
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Without white space.
    Compact,
    /// With a blank after `:` and `,`.
    Line,
    /// On lines of their own, which begin with so many blanks.
    Indented(usize),
}

/// A reader of a text that is known to be JSON.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn bad(&self) -> SqlError {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
    }

    fn peek(&mut self) -> Result<u8> {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.as_bytes().get(self.at).copied().ok_or_else(|| self.bad())
    }

    fn string(&mut self) -> Result<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while bytes.get(self.at).is_some_and(|byte| *byte != b'"') {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at).ok_or_else(|| self.bad())?;
        if !quoted.contains('\\') {
            return Ok(quoted[1..quoted.len() - 1].to_owned());
        }
        let text: String = serde_json::from_str(quoted).map_err(|error| invalid(quoted, &error))?;
        if text.contains('\0') {
            // Unlike text, JSON may write it; a value cannot hold it.
            let error = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "unsupported Unicode escape sequence");
            return Err(error.with_detail("\\u0000 cannot be converted to text."));
        }
        Ok(text)
    }

    fn word(&mut self) -> &str {
        let start = self.at;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        while self.text.as_bytes().get(self.at).is_some_and(is_part) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn value(&mut self) -> Result<Json> {
        match self.peek()? {
            b'{' => self.nested(|reader| reader.object()),
            b'[' => self.nested(|reader| reader.array()),
            b'"' => self.string().map(Json::String),
            _ => match self.word() {
                "null" => Ok(Json::Null),
                "true" => Ok(Json::Bool(true)),
                "false" => Ok(Json::Bool(false)),
                number => Ok(Json::Number(number.to_owned())),
            },
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Json>) -> Result<Json> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "JSON is nested too deep"));
        }
        self.at += 1;
        let value = read(self)?;
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Json> {
        let mut members = Vec::new();
        loop {
            match self.peek()? {
                b'}' => return Ok(Json::Object(members)),
                b',' => self.at += 1,
                _ => {
                    let name = self.string()?;
                    self.peek()?;
                    self.at += 1;
                    members.push((name, self.value()?));
                }
            }
        }
    }

    fn array(&mut self) -> Result<Json> {
        let mut elements = Vec::new();
        loop {
            match self.peek()? {
                b']' => return Ok(Json::Array(elements)),
                b',' => self.at += 1,
                _ => elements.push(self.value()?),
            }
        }
    }
}

/// A number without an exponent, as `jsonb` keeps it; as it stands if `numeric` does not have it.
fn plain_number(text: String) -> String {
    Numeric::parse(&text).map_or(text, |number| number.to_string())
}

impl Json {
    /// The same value with members in the order of `jsonb`.
    pub fn sorted(self) -> Json {
        match self {
            Json::Number(text) => Json::Number(plain_number(text)),
            Json::Array(elements) => Json::Array(elements.into_iter().map(Json::sorted).collect()),
            Json::Object(members) => {
                let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, value.sorted())).collect();
                let order = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
                // The last of the same name stays: after a stable sort, each but the last of its run goes.
                members.reverse();
                members.sort_by(|a, b| order(&a.0, &b.0));
                members.dedup_by(|later, first| later.0 == first.0);
                Json::Object(members)
            }
            value => value,
        }
    }

    /// How many zeros the exponents of its numbers stand for.
    fn zeros(&self) -> usize {
        match self {
            Json::Number(text) => {
                let exponent = text.split_once(['e', 'E']).and_then(|(_, exponent)| exponent.parse::<i32>().ok());
                exponent.map(i32::unsigned_abs).filter(|zeros| *zeros <= EXPONENT_MAX).unwrap_or(0) as usize
            }
            Json::Array(elements) => elements.iter().map(Json::zeros).sum(),
            Json::Object(members) => members.iter().map(|(_, value)| value.zeros()).sum(),
            _ => 0,
        }
    }

    /// What `jsonb_typeof` calls it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The member of that name: the last one.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The element at an index, which counts from the end if it is negative.
    pub fn element(&self, index: i64) -> Option<&Json> {
        match self {
            Json::Array(elements) => elements.get(position(index, elements.len())?),
            _ => None,
        }
    }

    /// Whether all of another value stands in this one, as `@>` has it.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(wanted)) => {
                wanted.iter().all(|(name, value)| self.member(name).is_some_and(|own| own.contains(value)))
            }
            (Json::Array(own), Json::Array(wanted)) => wanted
                .iter()
                .all(|value| own.iter().any(|own| own.is_scalar() == value.is_scalar() && own.contains(value))),
            // An array contains a single value, at the top only in PostgreSQL; what is nested is an array there.
            (Json::Array(own), scalar) if scalar.is_scalar() => own.iter().any(|own| own == scalar),
            (own, other) => own.compare(other) == Ordering::Equal,
        }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self, Json::Array(_) | Json::Object(_))
    }

    fn rank(&self) -> u8 {
        match self {
            Json::Null => 1,
            Json::String(_) => 2,
            Json::Number(_) => 3,
            Json::Bool(_) => 4,
            Json::Array(_) => 5,
            Json::Object(_) => 6,
        }
    }

    /// The order of `jsonb`: objects, arrays, truth values, numbers, texts, null, from the greatest down.
    pub fn compare(&self, other: &Json) -> Ordering {
        match (self, other) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => match (Numeric::parse(a), Numeric::parse(b)) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                _ => a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse::<f64>().unwrap_or(0.0)),
            },
            (Json::String(a), Json::String(b)) => a.cmp(b),
            (Json::Array(a), Json::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let differing = a.iter().zip(b).map(|(a, b)| a.compare(b)).find(|order| order.is_ne());
                differing.unwrap_or(Ordering::Equal)
            }),
            (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pair = |((name, value), (other_name, other)): (&(String, Json), &(String, Json))| {
                    name.cmp(other_name).then_with(|| value.compare(other))
                };
                a.iter().zip(b).map(pair).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }),
            // An empty array is the least of all.
            (Json::Array(a), _) if a.is_empty() => Ordering::Less,
            (_, Json::Array(b)) if b.is_empty() => Ordering::Greater,
            _ => self.rank().cmp(&other.rank()),
        }
    }

    /// Adds it to a hash: numbers by their values.
    fn hash_into(&self, state: &mut impl Hasher) {
        state.write_u8(self.rank());
        match self {
            Json::Null => {}
            Json::Bool(value) => value.hash(state),
            Json::Number(text) => shortest_number(text).hash(state),
            Json::String(text) => text.hash(state),
            Json::Array(elements) => elements.iter().for_each(|element| element.hash_into(state)),
            Json::Object(members) => members.iter().for_each(|(name, value)| {
                name.hash(state);
                value.hash_into(state);
            }),
        }
    }

    /// Its text without white space.
    pub fn compact(&self) -> String {
        let mut text = String::new();
        self.write(Layout::Compact, &mut text);
        text
    }

    /// Appends its text.
    pub fn write(&self, layout: Layout, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(text) => out.push_str(text),
            Json::String(text) => write_string(text, out),
            Json::Array(elements) => {
                let write = |element: &Json, inner, out: &mut String| element.write(inner, out);
                write_nested(['[', ']'], elements, layout, out, write);
            }
            Json::Object(members) => {
                let write = |(name, value): &(String, Json), inner, out: &mut String| {
                    write_string(name, out);
                    out.push_str(if inner == Layout::Compact { ":" } else { ": " });
                    value.write(inner, out);
                };
                write_nested(['{', '}'], members, layout, out, write);
            }
        }
    }
}

/// A plain number without zeros at its end, and without the sign of zero.
fn shortest_number(text: &str) -> &str {
    let shortest = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if shortest == "-0" { "0" } else { shortest }
}

/// The place of an index in so many elements; negative ones count from the end.
pub(crate) fn position(index: i64, count: usize) -> Option<usize> {
    // A sum of a negative number and one that is not fits.
    let index = if index < 0 { index + count as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < count)
}

fn write_nested<T>(
    [open, close]: [char; 2],
    parts: &[T],
    layout: Layout,
    out: &mut String,
    write: impl Fn(&T, Layout, &mut String),
) {
    out.push(open);
    let inner = match layout {
        Layout::Indented(indent) => Layout::Indented(indent + 4),
        layout => layout,
    };
    for (index, part) in parts.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        match inner {
            Layout::Line if index > 0 => out.push(' '),
            Layout::Indented(inner) => {
                let _ = write!(out, "\n{:inner$}", "");
            }
            Layout::Compact | Layout::Line => {}
        }
        write(part, inner, out);
    }
    if let Layout::Indented(indent) = layout {
        let _ = write!(out, "\n{:indent$}", "");
    }
    out.push(close);
}

/// Appends a text in quotes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The text of `jsonb`.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(Layout::Line, &mut text);
        f.write_str(&text)
    }
}
