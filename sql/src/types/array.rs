//! Arrays and rows as text: `{1,NULL,"a b"}`, `(1,,"a b")`.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::{Array, Datum, Row, refuse_dimensions};
use crate::types::environment::Environment;
use crate::types::user::Composite;
use crate::types::{SqlType, text};

/// Appends an array of this type.
///
/// # Errors
/// Those of its elements.
pub fn write(array: &Array, element: SqlType, environment: &dyn Environment, out: &mut String) -> Result<()> {
    if array.elements.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    let mut buffer = String::new();
    let mut write_one = |value: &Datum, out: &mut String| -> Result<()> {
        if value.is_null() {
            out.push_str("NULL");
            return Ok(());
        }
        buffer.clear();
        text::write(value, element, environment, &mut buffer)?;
        text::check_length(buffer.len().max(out.len()))?;
        write_element(&buffer, out);
        Ok(())
    };
    write_level(&array.dimensions, &array.elements, out, &mut write_one)
}

fn write_level(
    dimensions: &[usize],
    elements: &[Datum],
    out: &mut String,
    write_one: &mut impl FnMut(&Datum, &mut String) -> Result<()>,
) -> Result<()> {
    out.push('{');
    let inner = dimensions.get(1..).unwrap_or_default();
    let size = inner.iter().product::<usize>().max(1);
    for (index, part) in elements.chunks(size).enumerate() {
        if index > 0 {
            out.push(',');
        }
        match (inner, part) {
            ([], [value]) => write_one(value, out)?,
            _ => write_level(inner, part, out, write_one)?,
        }
    }
    out.push('}');
    Ok(())
}

fn write_element(text: &str, out: &mut String) {
    let is_special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || is_blank(c);
    if !text.is_empty() && !text.contains(is_special) && !text.eq_ignore_ascii_case("null") {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Whether it is a blank as texts of arrays and ranges have it.
pub(crate) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// Appends a row.
///
/// # Errors
/// Those of its values.
pub fn write_record(fields: &[(SqlType, Datum)], environment: &dyn Environment, out: &mut String) -> Result<()> {
    out.push('(');
    let mut buffer = String::new();
    for (index, (sql_type, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        buffer.clear();
        text::write(value, *sql_type, environment, &mut buffer)?;
        text::check_length(buffer.len().max(out.len()))?;
        let is_special = |c: char| matches!(c, '(' | ')' | ',' | '"' | '\\') || is_blank(c);
        if !buffer.is_empty() && !buffer.contains(is_special) {
            out.push_str(&buffer);
            continue;
        }
        out.push('"');
        for c in buffer.chars() {
            if matches!(c, '"' | '\\') {
                out.push(c);
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push(')');
    Ok(())
}

/// Reads a row of a composite type.
///
/// # Errors
/// 22P02, and those of its values.
pub fn parse_record(text: &str, composite: &Composite, environment: &dyn Environment) -> Result<Datum> {
    let wrong = |detail: &str| {
        let message = format!("malformed record literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    };
    let Some(mut rest) = text.trim_start_matches(is_blank).strip_prefix('(') else {
        return Err(wrong("Missing left parenthesis."));
    };
    let mut fields = Vec::with_capacity(composite.types.len());
    for (place, sql_type) in composite.types.iter().enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| wrong("Too few columns."))?;
        }
        let (value, after) = field(rest, &[',', ')']).ok_or_else(|| wrong("Unexpected end of input."))?;
        let value = value.map(|value| text::parse(&value, *sql_type, environment)).transpose()?;
        fields.push((*sql_type, value.unwrap_or(Datum::Null)));
        rest = after;
    }
    match rest.strip_prefix(')').map(|rest| rest.trim_start_matches(is_blank)) {
        None => Err(wrong("Too many columns.")),
        Some("") => Ok(Datum::Record(Arc::new(Row { fields, names: Some(Arc::clone(&composite.names)) }))),
        Some(_) => Err(wrong("Junk after right parenthesis.")),
    }
}

/// The text of a field of a row, or of a bound of a range, up to one of the signs that can end it, and what follows;
/// none of what is not written.
pub(crate) fn field<'t>(text: &'t str, ends: &[char]) -> Option<(Option<String>, &'t str)> {
    if text.starts_with(ends) {
        return Some((None, text));
    }
    let mut value = String::new();
    let mut is_quoted = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?.1),
            '"' if is_quoted && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => is_quoted = !is_quoted,
            c if !is_quoted && ends.contains(&c) => return Some((Some(value), &text[at..])),
            c => value.push(c),
        }
    }
    None
}

/// Reads an array whose elements are of this type.
///
/// # Errors
/// 22P02, and those of its elements.
pub fn parse(text: &str, element: SqlType, environment: &dyn Environment) -> Result<Datum> {
    let mut reader = Reader { text, rest: text, element, environment, lengths: Vec::new(), elements: Vec::new() };
    reader.bounds()?;
    reader.level(0)?;
    reader.skip_blanks();
    if !reader.rest.is_empty() {
        return Err(reader.malformed("Junk after closing right brace."));
    }
    let Reader { lengths, elements, .. } = reader;
    let dimensions = if elements.is_empty() { Vec::new() } else { lengths.into_iter().flatten().collect() };
    Ok(Datum::Array(Arc::new(Array { element: element.base, dimensions, elements })))
}

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    element: SqlType,
    environment: &'t dyn Environment,
    /// The length of each level, once one of its arrays has ended.
    lengths: Vec<Option<usize>>,
    elements: Vec<Datum>,
}

impl Reader<'_> {
    fn malformed(&self, detail: &str) -> SqlError {
        let message = format!("malformed array literal: \"{}\"", self.text);
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    /// Passes over `[1:3]=`; arrays that begin at another number are not kept.
    fn bounds(&mut self) -> Result<()> {
        self.skip_blanks();
        if !self.rest.starts_with('[') {
            return Ok(());
        }
        let (bounds, rest) = self.rest.split_once('=').ok_or_else(|| self.malformed("Missing \"=\" after bounds."))?;
        for bound in bounds.trim_end().trim_start_matches('[').trim_end_matches(']').split("][") {
            let lower = bound.split_once(':').map_or("1", |(lower, _)| lower);
            if lower.trim() != "1" {
                return Err(SqlError::unsupported(
                    format!("arrays that begin at {lower} are not supported"),
                    "Let the array begin at 1.",
                ));
            }
        }
        self.rest = rest;
        Ok(())
    }

    /// Reads an array of the level, from its `{` on.
    fn level(&mut self, depth: usize) -> Result<()> {
        self.skip_blanks();
        let Some(rest) = self.rest.strip_prefix('{') else {
            return Err(self.malformed("Array value must start with \"{\" or dimension information."));
        };
        self.rest = rest;
        refuse_dimensions(depth + 1)?;
        if self.lengths.len() <= depth {
            self.lengths.push(None);
        }
        let mut count = 0;
        self.skip_blanks();
        if let Some(rest) = self.rest.strip_prefix('}') {
            self.rest = rest;
        } else {
            loop {
                self.skip_blanks();
                if self.rest.starts_with('{') {
                    self.level(depth + 1)?;
                } else {
                    if self.lengths.len() > depth + 1 {
                        return Err(
                            self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
                        );
                    }
                    let value = self.element_value()?;
                    self.elements.push(value);
                }
                count += 1;
                self.skip_blanks();
                let next = self.rest.chars().next().ok_or_else(|| self.malformed("Unexpected end of input."))?;
                self.rest = &self.rest[next.len_utf8()..];
                match next {
                    ',' => {}
                    '}' => break,
                    _ => return Err(self.malformed("Unexpected array element.")),
                }
            }
        }
        match self.lengths[depth].replace(count) {
            Some(length) if length != count => {
                Err(self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions."))
            }
            _ => Ok(()),
        }
    }

    fn element_value(&mut self) -> Result<Datum> {
        let mut value = String::new();
        let is_quoted = self.rest.starts_with('"');
        let mut chars = self.rest.char_indices().skip(usize::from(is_quoted));
        let mut end = None;
        // What is escaped keeps blanks at the end.
        let mut kept = 0;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    value.extend(chars.next().map(|(_, c)| c));
                    kept = value.len();
                }
                '"' if is_quoted => {
                    end = Some(at + 1);
                    break;
                }
                ',' | '}' if !is_quoted => {
                    end = Some(at);
                    break;
                }
                '{' | '"' if !is_quoted => return Err(self.malformed("Unexpected array element.")),
                c => value.push(c),
            }
        }
        let end = end.ok_or_else(|| self.malformed("Unexpected end of input."))?;
        self.rest = &self.rest[end..];
        if !is_quoted {
            let trimmed = value.trim_end_matches(is_blank).len().max(kept);
            value.truncate(trimmed);
            if value.is_empty() {
                return Err(self.malformed("Unexpected \",\" or \"}\" character."));
            }
            if value.eq_ignore_ascii_case("null") && kept == 0 {
                return Ok(Datum::Null);
            }
        }
        text::parse(&value, self.element, self.environment)
    }
}
