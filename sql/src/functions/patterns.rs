//! Patterns of texts: LIKE, SIMILAR TO and regular expressions.
//!
//! Regular expressions are those of the crate `regex`, whose time is linear in the text: it has no references back and
//! no looking ahead. What PostgreSQL writes otherwise is translated. Of alternatives the first one that fits is taken,
//! where PostgreSQL takes the longest.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use quipu_rows::generated::like::{self, EndsWithBackslash};
use regex::{Captures, Regex, RegexBuilder};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Body, Definitions, int, text};
use crate::functions::strings::characters;
use crate::types::BaseType;
use crate::types::datum::{Array, Datum};
use crate::types::text::check_length;

/// How many regular expressions a thread keeps.
const KEPT_MAX: usize = 64;

pub(crate) fn define(definitions: &mut Definitions) {
    likes(definitions);
    matches(definitions);
    replacements(definitions);
    searches(definitions);
}

/// Whether a text fits a pattern of LIKE, as rows compare them.
///
/// # Errors
/// 22025 if the pattern ends with `\`, where text is left.
pub(crate) fn fits_like(text: &str, pattern: &str) -> Result<bool> {
    like::matches(text, pattern).map_err(ends_with_escape)
}

fn fits_ilike(text: &str, pattern: &str) -> Result<bool> {
    like::matches_in_any_case(text, pattern).map_err(ends_with_escape)
}

#[cold]
fn ends_with_escape(_: EndsWithBackslash) -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

fn likes(definitions: &mut Definitions) {
    let bodies: [(&str, &str, Body); 4] = [
        ("~~", "like", |_, v| fits_like(text(v, 0)?, text(v, 1)?).map(Datum::Bool)),
        ("!~~", "notlike", |_, v| fits_like(text(v, 0)?, text(v, 1)?).map(|fits| Datum::Bool(!fits))),
        ("~~*", "texticlike", |_, v| fits_ilike(text(v, 0)?, text(v, 1)?).map(Datum::Bool)),
        ("!~~*", "texticnlike", |_, v| fits_ilike(text(v, 0)?, text(v, 1)?).map(|fits| Datum::Bool(!fits))),
    ];
    for (symbol, name, body) in bodies {
        for left in ["text", "name", "bpchar"] {
            definitions.add(format!("{symbol}({left},text) bool").leak(), body);
        }
        definitions.add(format!("{name}(text,text) bool").leak(), body);
        // The type compares without case; accents stay.
        let caseless: Body = if symbol.starts_with('!') { bodies[3].2 } else { bodies[2].2 };
        definitions.add(format!("{symbol}(citext,citext) bool").leak(), caseless);
        definitions.add(format!("{symbol}(citext,text) bool").leak(), caseless);
    }
    definitions.add("like_escape(text,text) text", |_, v| with_backslash(text(v, 0)?, text(v, 1)?).map(Datum::text));
    for name in ["similar_to_escape", "similar_escape"] {
        definitions.add(format!("{name}(text) text").leak(), |_, v| similar(text(v, 0)?, Some('\\')));
        definitions.add(format!("{name}(text,text) text").leak(), |_, v| similar(text(v, 0)?, escape_of(text(v, 1)?)?));
    }
}

/// A pattern of LIKE with this character of escape, as one whose character of escape is `\`.
///
/// # Errors
/// 22025 if the escape is longer than a character.
pub(crate) fn with_backslash(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_of(escape)?;
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut result = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                result.push('\\');
                result.extend(chars.next());
            }
            '\\' => result.push_str("\\\\"),
            c => result.push(c),
        }
    }
    Ok(result)
}

/// The character that escapes; none for an empty text.
fn escape_of(text: &str) -> Result<Option<char>> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (escape, None) => Ok(escape),
        _ => Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// A pattern of SIMILAR TO as a regular expression.
fn similar(pattern: &str, escape: Option<char>) -> Result<Datum> {
    let mut result = "^(?:".to_owned();
    let mut chars = pattern.chars();
    let mut is_in_class = false;
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                let next = chars.next().unwrap_or('\\');
                if !next.is_alphanumeric() {
                    result.push('\\');
                }
                result.push(next);
            }
            c if is_in_class => {
                is_in_class = c != ']';
                result.push(c);
            }
            '[' => {
                is_in_class = true;
                result.push('[');
            }
            '%' => result.push_str(".*"),
            '_' => result.push('.'),
            '(' => result.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                result.push('\\');
                result.push(c);
            }
            c => result.push(c),
        }
    }
    result.push_str(")$");
    Ok(Datum::text(result))
}

/// What flags say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Flags {
    is_global: bool,
    is_caseless: bool,
    is_by_line: bool,
    is_spaced: bool,
    is_literal: bool,
}

impl Flags {
    fn parse(flags: &str) -> Result<Flags> {
        let mut result = Flags::default();
        flags.chars().try_for_each(|flag| result.set(flag))?;
        Ok(result)
    }

    /// The flags of a function that does not choose between one match and all of them.
    fn for_one(flags: &str, function: &str) -> Result<Flags> {
        let flags = Flags::parse(flags)?;
        if !flags.is_global {
            return Ok(flags);
        }
        let what = format!("{function}() does not support the \"global\" option");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what);
        Err(match function {
            "regexp_match" => error.with_hint("Use the regexp_matches function instead."),
            _ => error,
        })
    }

    fn set(&mut self, flag: char) -> Result<()> {
        match flag {
            'g' => self.is_global = true,
            'i' => self.is_caseless = true,
            'c' => self.is_caseless = false,
            'n' | 'm' | 'p' | 'w' => self.is_by_line = true,
            's' => self.is_by_line = false,
            'x' => self.is_spaced = true,
            't' => self.is_spaced = false,
            'q' => self.is_literal = true,
            'e' | 'b' => {}
            flag => {
                let message = format!("invalid regular expression option: \"{flag}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(())
    }
}

/// A regular expression as the library writes it.
fn translate(pattern: &str) -> String {
    let mut result = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut class: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class) {
            ('\\', _) => match chars.next() {
                Some('m') if class.is_none() => result.push_str("\\b{start}"),
                Some('M') if class.is_none() => result.push_str("\\b{end}"),
                Some('y') if class.is_none() => result.push_str("\\b"),
                Some('Y') if class.is_none() => result.push_str("\\B"),
                Some('Z') if class.is_none() => result.push_str("\\z"),
                Some('e') => result.push_str("\\x1b"),
                Some(next) if next.is_alphanumeric() || next.is_ascii_punctuation() => result.extend(['\\', next]),
                Some(next) => result.push(next),
                None => result.push('\\'),
            },
            ('[', None) => {
                result.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    result.push('^');
                }
                class = Some(0);
            }
            // A bracket that comes first is itself.
            (']', Some(0)) => {
                result.push_str("\\]");
                class = Some(1);
            }
            (']', Some(_)) => {
                result.push(']');
                class = None;
            }
            ('[', Some(count)) if chars.peek() == Some(&':') => {
                result.push('[');
                for inner in chars.by_ref() {
                    result.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
                class = Some(count + 1);
            }
            (c @ ('[' | '&' | '~'), Some(count)) => {
                result.extend(['\\', c]);
                class = Some(count + 1);
            }
            (c, Some(count)) => {
                result.push(c);
                class = Some(count + 1);
            }
            ('{', None) if !chars.peek().is_some_and(char::is_ascii_digit) => result.push_str("\\{"),
            (c, None) => result.push(c),
        }
    }
    result
}

fn compile(pattern: &str, flags: Flags) -> Result<Regex> {
    let (mut pattern, mut flags) = (pattern, flags);
    if let Some(literal) = pattern.strip_prefix("***=") {
        (pattern, flags.is_literal) = (literal, true);
    } else if let Some(rest) = pattern.strip_prefix("***:") {
        pattern = rest;
    }
    let options = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
    if let Some((options, rest)) = options.filter(|(options, _)| options.chars().all(|c| c.is_ascii_alphabetic())) {
        options.chars().try_for_each(|option| flags.set(option))?;
        pattern = rest;
    }
    let translated = if flags.is_literal { regex::escape(pattern) } else { translate(pattern) };
    let compiled = RegexBuilder::new(&translated)
        .case_insensitive(flags.is_caseless)
        .dot_matches_new_line(!flags.is_by_line)
        .multi_line(flags.is_by_line)
        .ignore_whitespace(flags.is_spaced)
        .build();
    compiled.map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let message = format!("invalid regular expression: {reason}");
        SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message)
    })
}

thread_local! {
    static KEPT: RefCell<HashMap<(String, Flags), Regex>> = RefCell::default();
}

fn regular(pattern: &str, flags: Flags) -> Result<Regex> {
    KEPT.with_borrow_mut(|kept| {
        let key = (pattern.to_owned(), flags);
        if let Some(known) = kept.get(&key) {
            return Ok(known.clone());
        }
        let compiled = compile(pattern, flags)?;
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, compiled.clone());
        Ok(compiled)
    })
}

/// Whether a text fits the pattern of `like_regex` of a path, with its flags.
pub(crate) fn is_like_regex(text: &str, pattern: &str, written: &str) -> Result<bool> {
    let mut flags = Flags::default();
    for flag in written.chars() {
        match flag {
            'i' | 'm' | 'x' | 'q' => flags.set(flag)?,
            's' => flags.is_by_line = false,
            flag => {
                let what = format!("unrecognized flag character \"{flag}\" in LIKE_REGEX predicate");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
            }
        }
    }
    Ok(regular(pattern, flags)?.is_match(text))
}

fn is_match(values: &[Datum], flags: &str) -> Result<bool> {
    Ok(regular(text(values, 1)?, Flags::parse(flags)?)?.is_match(text(values, 0)?))
}

fn matches(definitions: &mut Definitions) {
    let bodies: [(&str, Body); 4] = [
        ("~", |_, v| is_match(v, "").map(Datum::Bool)),
        ("!~", |_, v| is_match(v, "").map(|fits| Datum::Bool(!fits))),
        ("~*", |_, v| is_match(v, "i").map(Datum::Bool)),
        ("!~*", |_, v| is_match(v, "i").map(|fits| Datum::Bool(!fits))),
    ];
    for (symbol, body) in bodies {
        for left in ["text", "name", "bpchar"] {
            definitions.add(format!("{symbol}({left},text) bool").leak(), body);
        }
        let caseless: Body = if symbol.starts_with('!') { bodies[3].1 } else { bodies[2].1 };
        definitions.add(format!("{symbol}(citext,text) bool").leak(), caseless);
    }
    definitions.add("regexp_like(text,text) bool", |_, v| is_match(v, "").map(Datum::Bool));
    definitions.add("regexp_like(text,text,text) bool", |_, v| {
        Flags::for_one(text(v, 2)?, "regexp_like")?;
        is_match(v, text(v, 2)?).map(Datum::Bool)
    });
}

/// Appends what a replacement says: `\1` is a group, `\&` all, `\\` itself.
fn expand(replacement: &str, captures: &Captures<'_>, out: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = |index: usize| captures.get(index).map_or("", |found| found.as_str());
        match chars.next() {
            Some('&') => out.push_str(group(0)),
            Some(digit @ '1'..='9') => out.push_str(group(digit as usize - '0' as usize)),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
}

/// Replaces the match of a number from the start on, or all for 0.
fn replace(values: &[Datum], start: i64, wanted: i64, flags: Flags) -> Result<Datum> {
    let (whole, replacement) = (text(values, 0)?, text(values, 2)?);
    let regex = regular(text(values, 1)?, Flags { is_global: false, ..flags })?;
    let skipped = whole.len() - characters(whole, usize::try_from(start - 1).unwrap_or(0), usize::MAX).len();
    let mut result = String::new();
    let mut end = 0;
    for (index, captures) in captures_from(&regex, whole, skipped).enumerate() {
        if wanted > 0 && index as i64 + 1 != wanted {
            continue;
        }
        let Some(found) = captures.get(0) else { continue };
        result.push_str(&whole[end..found.start()]);
        expand(replacement, &captures, &mut result);
        check_length(result.len())?;
        end = found.end();
        if wanted > 0 {
            break;
        }
    }
    result.push_str(&whole[end..]);
    Ok(Datum::text(result))
}

/// All matches from a place on.
fn captures_from<'t>(regex: &Regex, whole: &'t str, from: usize) -> impl Iterator<Item = Captures<'t>> {
    let regex = regex.clone();
    let mut at = Some(from);
    std::iter::from_fn(move || {
        let captures = regex.captures_at(whole, at?)?;
        let found = captures.get(0)?;
        at = if found.is_empty() {
            let next = whole[found.end()..].chars().next();
            next.map(|c| found.end() + c.len_utf8())
        } else {
            Some(found.end())
        };
        Some(captures)
    })
}

fn check_positive(value: i64, name: &str) -> Result<i64> {
    check_least(value, 1, name)
}

fn check_least(value: i64, least: i64, name: &str) -> Result<i64> {
    if value < least {
        let message = format!("invalid value for parameter \"{name}\": {value}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(value)
}

/// Which match is replaced; 0 for all of them.
fn number_of_match(values: &[Datum]) -> Result<i64> {
    check_least(int(values, 4)?, 0, "n")
}

fn replacements(definitions: &mut Definitions) {
    definitions.add("regexp_replace(text,text,text) text", |_, v| replace(v, 1, 1, Flags::default()));
    definitions.add("regexp_replace(text,text,text,text) text", |_, v| {
        let flags = Flags::parse(text(v, 3)?)?;
        replace(v, 1, i64::from(!flags.is_global), flags)
    });
    definitions.add("regexp_replace(text,text,text,int4) text", |_, v| {
        replace(v, check_positive(int(v, 3)?, "start")?, 1, Flags::default())
    });
    definitions.add("regexp_replace(text,text,text,int4,int4) text", |_, v| {
        replace(v, check_positive(int(v, 3)?, "start")?, number_of_match(v)?, Flags::default())
    });
    definitions.add("regexp_replace(text,text,text,int4,int4,text) text", |_, v| {
        replace(v, check_positive(int(v, 3)?, "start")?, number_of_match(v)?, Flags::parse(text(v, 5)?)?)
    });
}

/// The groups of a match, or all of it if there are none.
fn groups(captures: &Captures<'_>) -> Datum {
    let first = usize::from(captures.len() > 1);
    let group = |index| captures.get(index).map_or(Datum::Null, |found| Datum::text(found.as_str()));
    let elements = (first..captures.len()).map(group).collect();
    Datum::Array(Arc::new(Array::new(BaseType::Text, elements)))
}

/// The groups of the first match, or of all of them with `g`.
pub(crate) fn all_groups(values: &[Datum]) -> Result<Vec<Datum>> {
    let flags = if values.len() > 2 { Flags::parse(text(values, 2)?)? } else { Flags::default() };
    let regex = regular(text(values, 1)?, Flags { is_global: false, ..flags })?;
    let limit = if flags.is_global { usize::MAX } else { 1 };
    let found: Vec<Datum> =
        captures_from(&regex, text(values, 0)?, 0).take(limit).map(|captures| groups(&captures)).collect();
    Ok(found)
}

/// The parts of a text between matches.
pub(crate) fn split(values: &[Datum], function: &str) -> Result<Vec<Datum>> {
    let flags = if values.len() > 2 { Flags::for_one(text(values, 2)?, function)? } else { Flags::default() };
    let regex = regular(text(values, 1)?, flags)?;
    let whole = text(values, 0)?;
    let mut parts = Vec::new();
    let mut end = 0;
    for found in captures_from(&regex, whole, 0).filter_map(|captures| captures.get(0)) {
        // Matches of nothing at the ends, and right after another one, do not split.
        let is_idle = found.is_empty() && (found.start() == end || found.start() == whole.len());
        if !is_idle {
            parts.push(Datum::text(&whole[end..found.start()]));
            end = found.end();
        }
    }
    parts.push(Datum::text(&whole[end..]));
    Ok(parts)
}

/// The match of a number from a place on.
fn nth_match<'t>(values: &'t [Datum], start: i64, wanted: i64, flags: Flags) -> Result<Option<Captures<'t>>> {
    let whole = text(values, 0)?;
    let regex = regular(text(values, 1)?, flags)?;
    let skipped = usize::try_from(check_positive(start, "start")? - 1).unwrap_or(0);
    let from = whole.len() - characters(whole, skipped, usize::MAX).len();
    let index = usize::try_from(check_positive(wanted, "n")? - 1).unwrap_or(0);
    Ok(captures_from(&regex, whole, from).nth(index))
}

/// The number of a group: 0 is the whole match.
fn group_of(values: &[Datum], index: usize) -> Result<usize> {
    let group = int(values, index)?;
    usize::try_from(group).map_err(|_| {
        let what = format!("invalid value for parameter \"subexpr\": {group}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
    })
}

fn searches(definitions: &mut Definitions) {
    definitions.each(&["regexp_match(text,text) text[]", "regexp_match(text,text,text) text[]"], |_, v| {
        if v.len() > 2 {
            Flags::for_one(text(v, 2)?, "regexp_match")?;
        }
        Ok(all_groups(v)?.into_iter().next().unwrap_or(Datum::Null))
    });
    definitions
        .each(&["regexp_split_to_array(text,text) text[]", "regexp_split_to_array(text,text,text) text[]"], |_, v| {
            Ok(Datum::Array(Arc::new(Array::new(BaseType::Text, split(v, "regexp_split_to_array")?))))
        });
    definitions.each(
        &[
            "regexp_count(text,text) int4",
            "regexp_count(text,text,int4) int4",
            "regexp_count(text,text,int4,text) int4",
        ],
        |_, v| {
            let start = if v.len() > 2 { check_positive(int(v, 2)?, "start")? } else { 1 };
            let flags = if v.len() > 3 { Flags::for_one(text(v, 3)?, "regexp_count")? } else { Flags::default() };
            let whole = text(v, 0)?;
            let skipped = usize::try_from(start - 1).unwrap_or(0);
            let from = whole.len() - characters(whole, skipped, usize::MAX).len();
            Ok(Datum::Int(captures_from(&regular(text(v, 1)?, flags)?, whole, from).count() as i64))
        },
    );
    definitions.each(
        &[
            "regexp_substr(text,text) text",
            "regexp_substr(text,text,int4) text",
            "regexp_substr(text,text,int4,int4) text",
            "regexp_substr(text,text,int4,int4,text) text",
            "regexp_substr(text,text,int4,int4,text,int4) text",
        ],
        |_, v| {
            let start = if v.len() > 2 { int(v, 2)? } else { 1 };
            let wanted = if v.len() > 3 { int(v, 3)? } else { 1 };
            let flags = if v.len() > 4 { Flags::for_one(text(v, 4)?, "regexp_substr")? } else { Flags::default() };
            let found = nth_match(v, start, wanted, flags)?;
            let group = if v.len() > 5 { group_of(v, 5)? } else { 0 };
            Ok(found.and_then(|captures| captures.get(group)).map_or(Datum::Null, |found| Datum::text(found.as_str())))
        },
    );
    definitions.each(
        &[
            "regexp_instr(text,text) int4",
            "regexp_instr(text,text,int4) int4",
            "regexp_instr(text,text,int4,int4) int4",
            "regexp_instr(text,text,int4,int4,int4) int4",
            "regexp_instr(text,text,int4,int4,int4,text) int4",
            "regexp_instr(text,text,int4,int4,int4,text,int4) int4",
        ],
        |_, v| {
            let start = if v.len() > 2 { int(v, 2)? } else { 1 };
            let wanted = if v.len() > 3 { int(v, 3)? } else { 1 };
            let is_end = match if v.len() > 4 { int(v, 4)? } else { 0 } {
                0 => false,
                1 => true,
                other => {
                    let what = format!("invalid value for parameter \"endoption\": {other}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
                }
            };
            let flags = if v.len() > 5 { Flags::for_one(text(v, 5)?, "regexp_instr")? } else { Flags::default() };
            let group = if v.len() > 6 { group_of(v, 6)? } else { 0 };
            let found = nth_match(v, start, wanted, flags)?.and_then(|captures| captures.get(group));
            let Some(found) = found else { return Ok(Datum::Int(0)) };
            let at = if is_end { found.end() } else { found.start() };
            Ok(Datum::Int(text(v, 0)?[..at].chars().count() as i64 + 1))
        },
    );
    definitions.add("substring(text,text) text", |_, v| {
        let found = nth_match(v, 1, 1, Flags::default())?;
        // The first group, if there is one.
        let part = found.and_then(|captures| if captures.len() > 1 { captures.get(1) } else { captures.get(0) });
        Ok(part.map_or(Datum::Null, |found| Datum::text(found.as_str())))
    });
    definitions.add("substring(text,text,text) text", |_, v| {
        let escape = escape_of(text(v, 2)?)?.unwrap_or('\\');
        let separator = format!("{escape}\"");
        let parts: Vec<&str> = text(v, 1)?.split(separator.as_str()).collect();
        let plain = |part: &str| -> Result<String> {
            let similar = similar(part, Some(escape))?;
            let regex = similar.as_text().unwrap_or_default();
            Ok(regex.trim_start_matches('^').trim_end_matches('$').to_owned())
        };
        let (pattern, group) = match parts[..] {
            [whole] => (format!("^({})$", plain(whole)?), 1),
            // The parts around the wanted one take as little as they can.
            [before, part] => (format!("^(?U:{})({})$", plain(before)?, plain(part)?), 1),
            [before, part, after] => (format!("^(?U:{})({})(?:{})$", plain(before)?, plain(part)?, plain(after)?), 1),
            _ => {
                let message = "SQL regular expression may not contain more than two escape-double-quote separators";
                return Err(SqlError::new(SqlState::INVALID_USE_OF_ESCAPE_CHARACTER, message));
            }
        };
        let regex = regular(&pattern, Flags::default())?;
        let found = regex.captures(text(v, 0)?).and_then(|captures| captures.get(group));
        Ok(found.map_or(Datum::Null, |found| Datum::text(found.as_str())))
    });
}
