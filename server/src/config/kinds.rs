//! Kinds of parameters. They are written as words in the lists of parameters, check values, and normalize them to the
//! form that is kept and that `CONFIG GET` shows. Refusals are in Redis's words.

use super::texts::{buffer_limits, event_classes, eviction_policy, oom_scores, parse_bytes, percentiles, save_points};

/// What a value may be.
pub(super) enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer within bounds.
    Integer(i64, i64),
    /// The same in octal digits, as permissions are written.
    Octal(i64, i64),
    /// An integer that is brought within bounds.
    Clamped(i64, i64),
    /// A number of bytes within bounds, `10mb` for instance.
    Bytes(u64, u64),
    /// A number of bytes that is 0 or within bounds.
    BytesOrZero(u64, u64),
    /// A number of bytes within bounds, or a part of `maxmemory`, `10%` for instance.
    BytesOrPercent(u64, u64),
    /// One of these words.
    OneOf(Vec<&'static str>),
    /// Any text.
    Text,
    /// A text of a form: given the new one and the old one, returns what is kept.
    Form(fn(&str, &str) -> Result<String, String>),
}

impl Kind {
    /// Reads `int:0:65535`, for instance.
    pub(super) fn parse(word: &'static str) -> Option<Kind> {
        let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
        let bounds = || rest.split_once(':');
        let numbers = || bounds().and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
        let bytes = || bounds().and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
        Some(match kind {
            "bool" => Kind::Bool,
            "int" => numbers().map(|(min, max)| Kind::Integer(min, max))?,
            "octal" => numbers().map(|(min, max)| Kind::Octal(min, max))?,
            "clamped" => numbers().map(|(min, max)| Kind::Clamped(min, max))?,
            "bytes" => bytes().map(|(min, max)| Kind::Bytes(min, max))?,
            "bytes-or-zero" => bytes().map(|(min, max)| Kind::BytesOrZero(min, max))?,
            "bytes-or-percent" => bytes().map(|(min, max)| Kind::BytesOrPercent(min, max))?,
            "one-of" => Kind::OneOf(rest.split('|').collect()),
            "text" => Kind::Text,
            "buffer-limits" => Kind::Form(buffer_limits),
            "event-classes" => Kind::Form(|value, _| event_classes(value)),
            "eviction-policy" => Kind::Form(|value, _| eviction_policy(value)),
            "oom-scores" => Kind::Form(|value, _| oom_scores(value)),
            "percentiles" => Kind::Form(|value, _| percentiles(value)),
            "save-points" => Kind::Form(|value, _| save_points(value)),
            _ => return None,
        })
    }

    /// A value in the form in which it is kept. `old` is what it was.
    ///
    /// # Errors
    /// Why it cannot be this value.
    pub(super) fn normal(&self, value: &str, old: &str) -> Result<String, String> {
        match self {
            Kind::Bool => match value.to_ascii_lowercase() {
                word if word == "yes" || word == "no" => Ok(word),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Integer(min, max) => Ok(within(integer(value, 10)?, *min, *max)?.to_string()),
            Kind::Octal(min, max) => Ok(format!("{:o}", within(integer(value, 8)?, *min, *max)?)),
            Kind::Clamped(min, max) => {
                Ok(within(integer(value, 10)?, 0, i64::from(i32::MAX))?.clamp(*min, *max).to_string())
            }
            Kind::BytesOrPercent(..) if value.ends_with('%') => percent(value),
            Kind::BytesOrZero(min, max) => match number_of_bytes(value)? {
                0 => Ok("0".to_owned()),
                number if number < *min => Err(format!("argument must be 0, or {min} at least")),
                number => Ok(within(number, *min, *max)?.to_string()),
            },
            Kind::Bytes(min, max) | Kind::BytesOrPercent(min, max) => {
                Ok(within(number_of_bytes(value)?, *min, *max)?.to_string())
            }
            Kind::OneOf(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
                Some(word) => Ok((*word).to_owned()),
                None => Err(format!("argument(s) must be one of the following: {}", words.join(", "))),
            },
            Kind::Text => Ok(value.to_owned()),
            Kind::Form(form) => form(value, old),
        }
    }

    /// What a reader of the manual is told.
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::Bool => "yes or no".to_owned(),
            Kind::Integer(min, i64::MAX) => format!("a number from {min}"),
            Kind::Integer(min, max) | Kind::Clamped(min, max) => format!("a number from {min} to {max}"),
            Kind::Octal(..) => "octal digits".to_owned(),
            Kind::Bytes(0, _) => "bytes, as in 64mb".to_owned(),
            Kind::Bytes(min, _) => format!("bytes from {}", short_bytes(*min)),
            Kind::BytesOrZero(min, _) => format!("0, or bytes from {}", short_bytes(*min)),
            Kind::BytesOrPercent(..) => "bytes, or a part of `maxmemory`, as in 10%".to_owned(),
            Kind::OneOf(words) => words.join(", "),
            Kind::Text | Kind::Form(_) => "text".to_owned(),
        }
    }

    /// A value that is kept, as a reader likes it: 1073741824 bytes as `1gb`.
    pub(super) fn show(&self, kept: &str) -> String {
        let is_bytes = matches!(self, Kind::Bytes(..) | Kind::BytesOrZero(..) | Kind::BytesOrPercent(..));
        kept.parse().ok().filter(|_| is_bytes).map_or_else(|| kept.to_owned(), short_bytes)
    }

    /// Whether a value may begin with a minus sign.
    pub(super) fn may_be_negative(&self) -> bool {
        matches!(self, Kind::Integer(..0, _))
    }
}

fn integer(value: &str, radix: u32) -> Result<i64, String> {
    i64::from_str_radix(value, radix).map_err(|_| "argument couldn't be parsed into an integer".to_owned())
}

fn number_of_bytes(value: &str) -> Result<u64, String> {
    parse_bytes(value).ok_or_else(|| "argument must be a memory value".to_owned())
}

fn within<N: PartialOrd + std::fmt::Display>(number: N, min: N, max: N) -> Result<N, String> {
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(number)
}

fn percent(value: &str) -> Result<String, String> {
    let number = value.trim_end_matches('%').parse::<u64>();
    match number.map_err(|_| "argument must be a memory or percent value".to_owned())? {
        number @ 0..=100 => Ok(format!("{number}%")),
        _ => Err("percentage argument must be less or equal to 100".to_owned()),
    }
}

/// Bytes in the greatest unit in which they are a whole number.
fn short_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")];
    match units.into_iter().find(|(scale, _)| bytes > 0 && bytes.is_multiple_of(*scale)) {
        Some((scale, unit)) => format!("{}{unit}", bytes / scale),
        None => bytes.to_string(),
    }
}
