//! Digits of seconds and fields of intervals, as types of times declare them, and types written with what they declare.
//!
//! Modifiers are PostgreSQL's: of a time or a moment the count of digits; of an interval a bit for each field, and the
//! count of digits in the lower half.

use std::borrow::Cow;
use std::fmt;

use crate::types::{BaseType, SqlType};

/// The most digits, which are microseconds.
pub(super) const DIGITS_MAX: u64 = 6;
/// All fields of an interval.
pub(super) const ALL_FIELDS: i32 = 0x7fff;
/// All digits of an interval.
const ALL_DIGITS: i32 = 0xffff;

pub(super) const YEAR: i32 = 1 << 2;
pub(super) const MONTH: i32 = 1 << 1;
pub(super) const DAY_FIELD: i32 = 1 << 3;
pub(super) const HOUR_FIELD: i32 = 1 << 10;
pub(super) const MINUTE_FIELD: i32 = 1 << 11;
pub(super) const SECOND_FIELD: i32 = 1 << 12;

/// The fields that an interval may declare, and the bits of all from the first to the last.
const FIELDS: [(&str, i32); 13] = [
    ("year", YEAR),
    ("month", MONTH),
    ("day", DAY_FIELD),
    ("hour", HOUR_FIELD),
    ("minute", MINUTE_FIELD),
    ("second", SECOND_FIELD),
    ("year to month", YEAR | MONTH),
    ("day to hour", DAY_FIELD | HOUR_FIELD),
    ("day to minute", DAY_FIELD | HOUR_FIELD | MINUTE_FIELD),
    ("day to second", DAY_FIELD | HOUR_FIELD | MINUTE_FIELD | SECOND_FIELD),
    ("hour to minute", HOUR_FIELD | MINUTE_FIELD),
    ("hour to second", HOUR_FIELD | MINUTE_FIELD | SECOND_FIELD),
    ("minute to second", MINUTE_FIELD | SECOND_FIELD),
];

fn is_time(base: BaseType) -> bool {
    matches!(base, BaseType::Time | BaseType::TimeTz | BaseType::Timestamp | BaseType::TimestampTz)
}

impl SqlType {
    /// A time or a moment that keeps so many digits of seconds. More than six are six.
    pub fn of_digits(base: BaseType, digits: Option<u64>) -> SqlType {
        SqlType { modifier: digits.map_or(-1, |digits| digits.min(DIGITS_MAX) as i32), ..base.into() }
    }

    /// An interval of some fields (`day to second`), which keeps so many digits of seconds; none if there are no such
    /// fields.
    pub fn interval(fields: Option<&str>, digits: Option<u64>) -> Option<SqlType> {
        let bits = match fields {
            Some(fields) => FIELDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(fields))?.1,
            None => ALL_FIELDS,
        };
        let digits = digits.map_or(ALL_DIGITS, |digits| digits.min(DIGITS_MAX) as i32);
        let is_bare = bits == ALL_FIELDS && digits == ALL_DIGITS;
        Some(SqlType { modifier: if is_bare { -1 } else { bits << 16 | digits }, ..BaseType::Interval.into() })
    }

    /// How many digits of seconds a type of times declares.
    pub fn second_digits(self) -> Option<u32> {
        let declared = match self.base {
            BaseType::Interval => (self.modifier & ALL_DIGITS) as u32,
            base if is_time(base) => self.modifier as u32,
            _ => return None,
        };
        (self.modifier >= 0 && declared <= DIGITS_MAX as u32).then_some(declared)
    }

    /// The fields that an interval declares: their name and their bits.
    pub(super) fn fields(self) -> Option<(&'static str, i32)> {
        let bits = (self.modifier >= 0 && self.base == BaseType::Interval).then_some(self.modifier >> 16)?;
        FIELDS.iter().find(|(_, known)| *known == bits).copied()
    }

    /// The name of the fields that an interval declares: `day to second`.
    pub fn field_names(self) -> Option<&'static str> {
        self.fields().map(|(name, _)| name)
    }

    /// The name of the type with what it declares: `timestamp(3) without time zone`, `interval day to second(2)`.
    fn precise_name(self, name: &str) -> String {
        let fields = self.field_names().map_or(String::new(), |fields| format!(" {fields}"));
        let digits = self.second_digits().map_or(String::new(), |digits| format!("({digits})"));
        match name.split_once(' ') {
            Some((word, rest)) => format!("{word}{digits} {rest}"),
            None => format!("{name}{fields}{digits}"),
        }
    }

    /// The type of times that has this name.
    pub(crate) fn parse_precise(text: &str) -> Option<SqlType> {
        let (before, digits, after) = match text.split_once('(') {
            Some((before, rest)) => {
                let (digits, after) = rest.split_once(')')?;
                (before, Some(digits.trim().parse().ok()?), after)
            }
            None => (text, None, ""),
        };
        if let Some(fields) = before.trim().strip_prefix("interval").filter(|_| after.is_empty()) {
            return SqlType::interval(Some(fields.trim()).filter(|fields| !fields.is_empty()), digits);
        }
        let bare = format!("{}{after}", before.trim());
        let is_named = |base: &BaseType| base.catalogue_name() == bare || SqlType::from(*base).to_string() == bare;
        let base = BaseType::all().filter(|base| is_time(*base)).find(is_named)?;
        Some(SqlType::of_digits(base, digits))
    }

    /// The text of an interval with the unit that its fields mean where the text has none.
    pub(super) fn with_unit(self, text: &str) -> Option<String> {
        let (name, bits) = self.fields()?;
        let last = text.split_ascii_whitespace().next_back()?;
        if last.contains(':') {
            // Of two parts, as hours and minutes have them.
            let is_short = bits == MINUTE_FIELD | SECOND_FIELD && last.matches(':').count() == 1;
            let (before, (sign, clock)) = (&text[..text.rfind(last)?], sign_of(last));
            return is_short.then(|| format!("{before}{sign}00:{clock}"));
        }
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'));
        // `1-2` is one of years and months.
        let is_number = is_number && !last[1..].contains('-');
        is_number.then(|| format!("{} {}", text.trim(), name.rsplit(' ').next().unwrap_or(name)))
    }
}

fn sign_of(text: &str) -> (&str, &str) {
    text.split_at(usize::from(text.starts_with(['-', '+'])))
}

/// As PostgreSQL's `format_type` writes it: `character varying(20)`.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_array && self.base == BaseType::AnyElement {
            return f.write_str("anyarray");
        }
        if self.is_vector() {
            return f.write_str(self.vector_name());
        }
        let name = self.base.known().4;
        f.write_str(&if self.modifier >= 0 { Cow::Owned(self.precise_name(name)) } else { Cow::Borrowed(name) })?;
        if let Some((precision, scale)) = self.precision_and_scale() {
            write!(f, "({precision},{scale})")?;
        } else if let Some(length) = self.length() {
            write!(f, "({length})")?;
        }
        f.write_str(if self.is_array { "[]" } else { "" })
    }
}
