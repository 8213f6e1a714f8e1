//! Functions of texts.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::definition::{Definitions, bytes, int, text, typed};
use crate::types::datum::Datum;
use crate::types::refusal::out_of_range;
use crate::types::text::{BYTES_MAX, check_length, filling, to_string};
use crate::types::{BaseType, SqlType};

pub(crate) fn define(definitions: &mut Definitions) {
    lengths(definitions);
    letters(definitions);
    parts(definitions);
    fillings(definitions);
    joins(definitions);
    quotes(definitions);
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn count(value: usize) -> Result<Datum> {
    i32::try_from(value).map(|count| Datum::Int(count.into())).map_err(|_| out_of_range(BaseType::Int4))
}

fn lengths(definitions: &mut Definitions) {
    for name in ["length", "char_length", "character_length"] {
        definitions.add(format!("{name}(text) int4").leak(), |_, v| count(text(v, 0)?.chars().count()));
        definitions.add(format!("{name}(bpchar) int4").leak(), |_, v| count(text(v, 0)?.chars().count()));
    }
    definitions.each(&["length(bytea) int4", "octet_length(bytea) int4"], |_, v| count(bytes(v, 0)?.len()));
    definitions.each(&["octet_length(text) int4", "octet_length(bpchar) int4"], |_, v| count(text(v, 0)?.len()));
    definitions.add("bit_length(text) int4", |_, v| count(text(v, 0)?.len().saturating_mul(8)));
    definitions.add("bit_length(bytea) int4", |_, v| count(bytes(v, 0)?.len().saturating_mul(8)));
    definitions.add("ascii(text) int4", |_, v| Ok(Datum::Int(text(v, 0)?.chars().next().map_or(0, |c| c as i64))));
    definitions.add("chr(int4) text", |_, v| {
        let code = int(v, 0)?;
        match u32::try_from(code) {
            Ok(0) => Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted")),
            Ok(code) => match char::from_u32(code) {
                Some(c) => Ok(Datum::text(c.to_string())),
                None => {
                    let message = format!("requested character too large for encoding: {code}");
                    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
                }
            },
            Err(_) => Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "character number must be positive")),
        }
    });
}

fn letters(definitions: &mut Definitions) {
    definitions.add("lower(text) text", |_, v| Ok(Datum::text(text(v, 0)?.to_lowercase())));
    definitions.add("upper(text) text", |_, v| Ok(Datum::text(text(v, 0)?.to_uppercase())));
    definitions.add("initcap(text) text", |_, v| {
        let mut result = String::new();
        let mut is_within = false;
        for c in text(v, 0)?.chars() {
            if is_within {
                result.extend(c.to_lowercase());
            } else {
                result.extend(c.to_uppercase());
            }
            is_within = c.is_alphanumeric();
        }
        Ok(Datum::text(result))
    });
    definitions.add("reverse(text) text", |_, v| Ok(Datum::text(text(v, 0)?.chars().rev().collect::<String>())));
    definitions.add("btrim(text) text", |_, v| Ok(Datum::text(text(v, 0)?.trim_matches(' '))));
    definitions.add("ltrim(text) text", |_, v| Ok(Datum::text(text(v, 0)?.trim_start_matches(' '))));
    definitions.add("rtrim(text) text", |_, v| Ok(Datum::text(text(v, 0)?.trim_end_matches(' '))));
    definitions.add("btrim(text,text) text", |_, v| {
        let set = text(v, 1)?;
        Ok(Datum::text(text(v, 0)?.trim_matches(|c| set.contains(c))))
    });
    definitions.add("ltrim(text,text) text", |_, v| {
        let set = text(v, 1)?;
        Ok(Datum::text(text(v, 0)?.trim_start_matches(|c| set.contains(c))))
    });
    definitions.add("rtrim(text,text) text", |_, v| {
        let set = text(v, 1)?;
        Ok(Datum::text(text(v, 0)?.trim_end_matches(|c| set.contains(c))))
    });
    definitions.add("replace(text,text,text) text", |_, v| {
        let (whole, from, to) = (text(v, 0)?, text(v, 1)?, text(v, 2)?);
        if from.is_empty() {
            return Ok(Datum::text(whole));
        }
        if to.len() > from.len() {
            check_length(whole.len() + whole.matches(from).count().saturating_mul(to.len() - from.len()))?;
        }
        Ok(Datum::text(whole.replace(from, to)))
    });
    definitions.add("translate(text,text,text) text", |_, v| {
        let from: Vec<char> = text(v, 1)?.chars().collect();
        let to: Vec<char> = text(v, 2)?.chars().collect();
        let changed = |c: char| match from.iter().position(|known| *known == c) {
            Some(index) => to.get(index).copied(),
            None => Some(c),
        };
        Ok(Datum::text(text(v, 0)?.chars().filter_map(changed).collect::<String>()))
    });
}

/// The places of a part that begins at a number from 1 on, and is so long: from, to.
pub(crate) fn window(start: i64, length: Option<i64>, whole: usize) -> Result<(usize, usize)> {
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => start.saturating_add(length).saturating_sub(1),
        None => i64::MAX,
    };
    let place = |at: i64| usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(whole);
    let (from, to) = (place(start.saturating_sub(1)), place(end));
    Ok((from, to.max(from)))
}

fn substring(values: &[Datum]) -> Result<Datum> {
    let length = if values.len() > 2 { Some(int(values, 2)?) } else { None };
    let whole = text(values, 0)?;
    let (from, to) = window(int(values, 1)?, length, usize::MAX)?;
    Ok(Datum::text(characters(whole, from, to)))
}

/// The characters from one place to another.
pub(crate) fn characters(whole: &str, from: usize, to: usize) -> &str {
    let mut places = whole.char_indices().map(|(at, _)| at);
    let Some(start) = places.nth(from) else { return "" };
    let end = match to.checked_sub(from) {
        None | Some(0) => start,
        Some(length) => places.nth(length - 1).unwrap_or(whole.len()),
    };
    &whole[start..end]
}

fn part_of_bytes(values: &[Datum]) -> Result<Datum> {
    let length = if values.len() > 2 { Some(int(values, 2)?) } else { None };
    let whole = bytes(values, 0)?;
    let (from, to) = window(int(values, 1)?, length, whole.len())?;
    Ok(Datum::Bytes(whole[from..to].into()))
}

fn parts(definitions: &mut Definitions) {
    for name in ["substring", "substr"] {
        definitions.add(format!("{name}(text,int4) text").leak(), |_, v| substring(v));
        definitions.add(format!("{name}(text,int4,int4) text").leak(), |_, v| substring(v));
        definitions.add(format!("{name}(bytea,int4) bytea").leak(), |_, v| part_of_bytes(v));
        definitions.add(format!("{name}(bytea,int4,int4) bytea").leak(), |_, v| part_of_bytes(v));
    }
    definitions.each(&["position(text,text) int4", "strpos(text,text) int4"], |_, v| {
        let whole = text(v, 0)?;
        count(whole.find(text(v, 1)?).map_or(0, |at| whole[..at].chars().count() + 1))
    });
    definitions.add("position(bytea,bytea) int4", |_, v| {
        let (whole, part) = (bytes(v, 0)?, bytes(v, 1)?);
        let found = if part.is_empty() { Some(0) } else { whole.windows(part.len()).position(|at| at == part) };
        count(found.map_or(0, |at| at + 1))
    });
    definitions.each(&["starts_with(text,text) bool", "^@(text,text) bool"], |_, v| {
        Ok(Datum::Bool(text(v, 0)?.starts_with(text(v, 1)?)))
    });
    definitions.add("left(text,int4) text", |_, v| {
        let (whole, length) = (text(v, 0)?, int(v, 1)?);
        let kept = if length < 0 { whole.chars().count() as i64 + length } else { length };
        Ok(Datum::text(characters(whole, 0, usize::try_from(kept).unwrap_or(0))))
    });
    definitions.add("right(text,int4) text", |_, v| {
        let (whole, length) = (text(v, 0)?, int(v, 1)?);
        let skipped = if length < 0 { -length } else { whole.chars().count() as i64 - length };
        Ok(Datum::text(characters(whole, usize::try_from(skipped).unwrap_or(0), usize::MAX)))
    });
    definitions.add("split_part(text,text,int4) text", |_, v| {
        let (whole, separator, field) = (text(v, 0)?, text(v, 1)?, int(v, 2)?);
        if field == 0 {
            return Err(invalid("field position must not be zero"));
        }
        let fields: Vec<&str> = if separator.is_empty() { vec![whole] } else { whole.split(separator).collect() };
        let index = if field > 0 { field - 1 } else { field };
        let place = crate::types::json::position(index, fields.len());
        Ok(Datum::text(place.map_or("", |place| fields[place])))
    });
    for name in ["overlay(text,text,int4) text", "overlay(text,text,int4,int4) text"] {
        definitions.add(name, |_, v| {
            let (whole, new, start) = (text(v, 0)?, text(v, 1)?, int(v, 2)?);
            let length = if v.len() > 3 { int(v, 3)? } else { new.chars().count() as i64 };
            if start <= 0 {
                return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
            }
            let place = |at: i64| usize::try_from(at).unwrap_or(0);
            let before = characters(whole, 0, place(start - 1));
            let after = characters(whole, place(start - 1 + length), usize::MAX);
            Ok(Datum::text(format!("{before}{new}{after}")))
        });
    }
}

/// The text with others before or after it, until it is so long; or cut to that.
fn pad(values: &[Datum], is_left: bool) -> Result<Datum> {
    let (whole, length) = (text(values, 0)?, usize::try_from(int(values, 1)?).unwrap_or(0));
    let filling = if values.len() > 2 { text(values, 2)? } else { " " };
    check_length(length.saturating_mul(4))?;
    let present = whole.chars().count();
    if present >= length || filling.is_empty() {
        return Ok(Datum::text(characters(whole, 0, length)));
    }
    let filling: String = filling.chars().cycle().take(length - present).collect();
    Ok(Datum::text(if is_left { format!("{filling}{whole}") } else { format!("{whole}{filling}") }))
}

fn fillings(definitions: &mut Definitions) {
    definitions.each(&["lpad(text,int4) text", "lpad(text,int4,text) text"], |_, v| pad(v, true));
    definitions.each(&["rpad(text,int4) text", "rpad(text,int4,text) text"], |_, v| pad(v, false));
    definitions.add("repeat(text,int4) text", |_, v| {
        let (whole, times) = (text(v, 0)?, usize::try_from(int(v, 1)?).unwrap_or(0));
        check_length(whole.len().saturating_mul(times))?;
        Ok(Datum::text(whole.repeat(times)))
    });
}

/// The texts of all values that are not NULL.
fn concatenate(environment: &dyn Environment, fields: &[(SqlType, Datum)], separator: &str) -> Result<Datum> {
    let mut result = String::new();
    let present = fields.iter().filter(|(_, value)| !value.is_null());
    for (index, (sql_type, value)) in present.enumerate() {
        if index > 0 {
            result.push_str(separator);
        }
        crate::types::text::write(value, *sql_type, environment, &mut result)?;
        check_length(result.len())?;
    }
    Ok(Datum::text(result))
}

fn joins(definitions: &mut Definitions) {
    definitions.add("||(text,text) text", |_, v| Ok(Datum::text([text(v, 0)?, text(v, 1)?].concat())));
    definitions.add("||(bytea,bytea) bytea", |_, v| Ok(Datum::Bytes([bytes(v, 0)?, bytes(v, 1)?].concat().into())));
    for signature in ["||(text,anynonarray) text", "||(anynonarray,text) text"] {
        let operator = definitions.add(signature, |environment, v| {
            let fields = typed(v)?;
            match fields.iter().any(|(_, value)| value.is_null()) {
                true => Ok(Datum::Null),
                false => concatenate(environment, fields, ""),
            }
        });
        operator.typed().stable();
    }
    let concat = definitions.add("concat(any...) text", |environment, v| concatenate(environment, typed(v)?, ""));
    concat.typed().lenient().stable();
    let with_separator = definitions.add("concat_ws(text,any...) text", |environment, v| match typed(v)? {
        [(_, Datum::Text(separator)), rest @ ..] => concatenate(environment, rest, separator),
        _ => Ok(Datum::Null),
    });
    with_separator.typed().lenient().stable();
    definitions.add("format(text,any...) text", |environment, v| format_text(environment, typed(v)?)).typed().lenient();
}

/// The text in single quotes, as a literal.
pub(crate) fn quote_literal(text: &str) -> String {
    let escape = if text.contains('\\') { " E" } else { "" };
    let escape = escape.trim_start();
    let doubled = text.replace('\'', "''").replace('\\', "\\\\");
    format!("{escape}'{doubled}'")
}

/// The text as an identifier: in double quotes unless it needs none.
pub(crate) fn quote_identifier(text: &str) -> String {
    let mut bytes = text.bytes();
    let begins_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_plain = begins_well && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_plain && !RESERVED.contains(&text) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Words that are no names without quotes.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

fn quotes(definitions: &mut Definitions) {
    definitions.add("quote_ident(text) text", |_, v| Ok(Datum::text(quote_identifier(text(v, 0)?))));
    definitions.add("quote_literal(text) text", |_, v| Ok(Datum::text(quote_literal(text(v, 0)?))));
    definitions
        .add("quote_nullable(text) text", |_, v| quoted_or_null(v.first(), || Ok(text(v, 0)?.to_owned())))
        .lenient();
    let literal = definitions.add("quote_literal(anyelement) text", |environment, v| match typed(v)? {
        [(sql_type, value)] if !value.is_null() => {
            Ok(Datum::text(quote_literal(&to_string(value, *sql_type, environment)?)))
        }
        _ => Ok(Datum::Null),
    });
    literal.typed().stable();
    let nullable = definitions.add("quote_nullable(anyelement) text", |environment, v| match typed(v)? {
        [(sql_type, value)] => quoted_or_null(Some(value), || to_string(value, *sql_type, environment)),
        _ => Ok(Datum::Null),
    });
    nullable.typed().lenient().stable();
}

fn quoted_or_null(value: Option<&Datum>, text: impl FnOnce() -> Result<String>) -> Result<Datum> {
    match value {
        None | Some(Datum::Null) => Ok(Datum::text("NULL")),
        Some(_) => Ok(Datum::text(quote_literal(&text()?))),
    }
}

/// What stands after a `%`.
struct Specifier {
    position: Option<usize>,
    is_left: bool,
    width: usize,
    kind: char,
}

fn read_specifier(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Specifier> {
    let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse::<usize>().ok().filter(|number| *number < BYTES_MAX / 4)
    };
    let mut first = number(chars);
    let position = first.filter(|_| chars.next_if_eq(&'$').is_some());
    if position == Some(0) {
        return Err(invalid("format specifies argument 0, but arguments are numbered from 1"));
    }
    let mut is_left = false;
    if position.is_some() || first.is_none() {
        while chars.next_if_eq(&'-').is_some() {
            is_left = true;
        }
        first = number(chars);
    }
    let kind = chars
        .next()
        .ok_or_else(|| invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\"."))?;
    Ok(Specifier { position, is_left, width: first.unwrap_or(0), kind })
}

fn format_text(environment: &dyn Environment, fields: &[(SqlType, Datum)]) -> Result<Datum> {
    let [(_, Datum::Text(pattern)), arguments @ ..] = fields else { return Ok(Datum::Null) };
    let mut result = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            result.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        let Specifier { position, is_left, width, kind } = read_specifier(&mut chars)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(invalid(format!("unrecognized format() type specifier \"{kind}\""))
                .with_hint("For a single \"%\" use \"%%\"."));
        }
        let index = position.map_or(next, |position| position - 1);
        next = index + 1;
        let (sql_type, value) = arguments.get(index).ok_or_else(|| invalid("too few arguments for format()"))?;
        let written = to_string(value, *sql_type, environment)?;
        let written = match kind {
            'I' if value.is_null() => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            'I' => quote_identifier(&written),
            'L' if value.is_null() => "NULL".to_owned(),
            'L' => quote_literal(&written),
            _ => written,
        };
        check_length(result.len().saturating_add(written.len().max(width)))?;
        let blanks = filling(written.chars().count(), width, ' ');
        if is_left {
            result.push_str(&written);
            result.extend(blanks);
        } else {
            result.extend(blanks);
            result.push_str(&written);
        }
    }
    Ok(Datum::text(result))
}
