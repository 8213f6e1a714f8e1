//! Ranges and multiranges as text, `[1,4)` and `{[1,4),[6,8)}`, and as bytes of the protocol.

use crate::error::{Result, SqlError, SqlState};
use crate::types::array::{field, is_blank};
use crate::types::datum::Datum;
use crate::types::environment::Environment;
use crate::types::range::{Lower, Range, Upper};
use crate::types::range_values::{make, multirange};
use crate::types::{RangeKind, text};

/// Appends a range.
///
/// # Errors
/// Those of its bounds.
pub fn write(range: &Range<Datum>, kind: RangeKind, environment: &dyn Environment, out: &mut String) -> Result<()> {
    let Some((lower, upper)) = range.bounds() else {
        out.push_str("empty");
        return Ok(());
    };
    let (lower, upper) = (lower.parts(), upper.parts());
    out.push(if lower.is_some_and(|(_, has_it)| has_it) { '[' } else { '(' });
    write_bound(lower, kind, environment, out)?;
    out.push(',');
    write_bound(upper, kind, environment, out)?;
    out.push(if upper.is_some_and(|(_, has_it)| has_it) { ']' } else { ')' });
    Ok(())
}

fn write_bound(
    bound: Option<(&Datum, bool)>,
    kind: RangeKind,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    let Some((value, _)) = bound else { return Ok(()) };
    let written = text::to_string(value, kind.element().into(), environment)?;
    let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | '[' | ']' | ',') || is_blank(c);
    if !written.contains(is_special) {
        out.push_str(&written);
        return Ok(());
    }
    out.push('"');
    for c in written.chars() {
        if matches!(c, '"' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('"');
    Ok(())
}

/// Appends a multirange.
///
/// # Errors
/// Those of its bounds.
pub fn write_several(
    ranges: &[Range<Datum>],
    kind: RangeKind,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    out.push('{');
    for (place, range) in ranges.iter().enumerate() {
        out.push_str(if place == 0 { "" } else { "," });
        write(range, kind, environment, out)?;
    }
    out.push('}');
    Ok(())
}

fn malformed(kind: &str, text: &str, detail: &str) -> SqlError {
    let message = format!("malformed {kind} literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}

/// What ends a bound.
const ENDS: [char; 3] = [',', ')', ']'];

/// The range that a text writes.
///
/// # Errors
/// 22P02, and those of its bounds.
pub fn parse(text: &str, kind: RangeKind, environment: &dyn Environment) -> Result<Range<Datum>> {
    let wrong = |detail: &str| malformed("range", text, detail);
    let rest = text.trim_matches(is_blank);
    if let Some((_, after)) = rest.split_at_checked(5).filter(|(word, _)| word.eq_ignore_ascii_case("empty")) {
        return if after.is_empty() { Ok(Range::Empty) } else { Err(wrong("Junk after \"empty\" key word.")) };
    }
    let has_lower = rest.starts_with('[');
    let Some(rest) = rest.strip_prefix(['[', '(']) else {
        return Err(wrong("Missing left parenthesis or bracket."));
    };
    let (lower, rest) = field(rest, &ENDS).ok_or_else(|| wrong("Unexpected end of input."))?;
    let Some(rest) = rest.strip_prefix(',') else { return Err(wrong("Missing comma after lower bound.")) };
    let (upper, rest) = field(rest, &ENDS).ok_or_else(|| wrong("Unexpected end of input."))?;
    let has_upper = rest.starts_with(']');
    let Some(rest) = rest.strip_prefix([']', ')']) else { return Err(wrong("Too many commas.")) };
    if !rest.is_empty() {
        return Err(wrong("Junk after right parenthesis or bracket."));
    }
    let value = |bound: Option<String>| match bound {
        Some(written) => text::parse(&written, kind.element().into(), environment).map(Some),
        None => Ok(None),
    };
    make(kind, Lower::new(value(lower)?, has_lower), Upper::new(value(upper)?, has_upper))
}

/// The multirange that a text writes.
///
/// # Errors
/// 22P02, and those of its ranges.
pub fn parse_several(text: &str, kind: RangeKind, environment: &dyn Environment) -> Result<Datum> {
    let wrong = |detail: &str| malformed("multirange", text, detail);
    let mut rest = text.trim_start_matches(is_blank);
    rest = rest.strip_prefix('{').ok_or_else(|| wrong("Missing left brace."))?.trim_start_matches(is_blank);
    let mut ranges = Vec::new();
    if !rest.starts_with('}') {
        loop {
            let length = length_of_range(rest).map_err(wrong)?;
            let (range, after) = rest.split_at(length);
            ranges.push(parse(range, kind, environment)?);
            rest = after.trim_start_matches(is_blank);
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start_matches(is_blank),
                None if rest.starts_with('}') => break,
                None if rest.is_empty() => return Err(wrong("Unexpected end of input.")),
                None => return Err(wrong("Expected comma or end of multirange.")),
            }
        }
    }
    if !rest[1..].trim_start_matches(is_blank).is_empty() {
        return Err(wrong("Junk after closing right brace."));
    }
    Ok(multirange(ranges))
}

/// How many bytes of a text the first range in it has.
fn length_of_range(text: &str) -> Result<usize, &'static str> {
    if text.split_at_checked(5).is_some_and(|(word, _)| word.eq_ignore_ascii_case("empty")) {
        return Ok(5);
    }
    if !text.starts_with(['[', '(']) {
        return Err(if text.is_empty() { "Unexpected end of input." } else { "Expected range start." });
    }
    let mut is_quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => is_quoted = !is_quoted,
            ')' | ']' if !is_quoted => return Ok(at + 1),
            _ => {}
        }
    }
    Err("Unexpected end of input.")
}

const EMPTY: u8 = 1;
const HAS_LOWER: u8 = 2;
const HAS_UPPER: u8 = 4;
const NO_LOWER: u8 = 8;
const NO_UPPER: u8 = 16;

/// The flags of a range in the protocol, and the values of its bounds that follow.
pub(crate) fn flags(range: &Range<Datum>) -> (u8, impl Iterator<Item = &Datum>) {
    let (flags, lower, upper) = match range.bounds() {
        None => (EMPTY, None, None),
        Some((lower, upper)) => {
            let (lower, upper) = (lower.parts(), upper.parts());
            let flag = |bound: Option<(&Datum, bool)>, has_it, none| match bound {
                Some((_, true)) => has_it,
                Some((_, false)) => 0,
                None => none,
            };
            (flag(lower, HAS_LOWER, NO_LOWER) | flag(upper, HAS_UPPER, NO_UPPER), lower, upper)
        }
    };
    (flags, lower.into_iter().chain(upper).map(|(value, _)| value))
}

/// The range of flags and of bounds that are read in their order.
///
/// # Errors
/// Those of reading, and of [`make`].
pub(crate) fn of_flags(flags: u8, kind: RangeKind, mut read: impl FnMut() -> Result<Datum>) -> Result<Range<Datum>> {
    if flags & EMPTY != 0 {
        return Ok(Range::Empty);
    }
    let mut bound = |none: u8| if flags & none != 0 { Ok(None) } else { read().map(Some) };
    let lower = Lower::new(bound(NO_LOWER)?, flags & HAS_LOWER != 0);
    let upper = Upper::new(bound(NO_UPPER)?, flags & HAS_UPPER != 0);
    make(kind, lower, upper)
}
