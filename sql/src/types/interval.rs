//! Lengths of time: how they are written and read, and their arithmetic.

use std::fmt::Write as _;

use crate::error::{Result, SqlError, SqlState};
use crate::types::date_style::IntervalStyle as Style;
use crate::types::datum::Interval;
use crate::types::refusal::invalid_moment;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// What stands for an interval that cannot be kept.
#[cold]
pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Appends hours, minutes and seconds: `04:05:06.7`.
pub(crate) fn write_clock(microseconds: u64, out: &mut String) {
    let (second, minute, hour) = (SECOND as u64, MINUTE as u64, HOUR as u64);
    let (hours, minutes, seconds) = (microseconds / hour, microseconds % hour / minute, microseconds % minute / second);
    let _ = write!(out, "{hours:02}:{minutes:02}:{seconds:02}");
    write_fraction(microseconds % second, out);
}

/// Appends an interval in a style.
pub fn write(interval: Interval, style: Style, out: &mut String) {
    match style {
        Style::Postgres => write_postgres(interval, out),
        Style::Verbose => write_verbose(interval, out),
        Style::Standard => write_standard(interval, out),
        Style::Iso => write_iso(interval, out),
    }
}

/// Hours, minutes, whole seconds and the microseconds after them; all with the sign of the whole.
fn clock_parts(microseconds: i64) -> [i64; 4] {
    [microseconds / HOUR, microseconds % HOUR / MINUTE, microseconds % MINUTE / SECOND, microseconds % SECOND]
}

/// Appends seconds with their fraction, without a sign.
fn write_seconds(seconds: i64, fraction: i64, out: &mut String) {
    let _ = write!(out, "{}", seconds.unsigned_abs());
    write_fraction(fraction.unsigned_abs(), out);
}

/// Appends the digits after the point of a second, if there are some.
fn write_fraction(microseconds: u64, out: &mut String) {
    if microseconds != 0 {
        let digits = format!("{microseconds:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// The words say which way it goes: all parts have the sign of the first one, unless they say another.
fn write_verbose(interval: Interval, out: &mut String) {
    let [hours, minutes, seconds, fraction] = clock_parts(interval.microseconds);
    out.push('@');
    // The sign of the first part, once it is known.
    let mut is_ago = None;
    let wholes = [
        (i64::from(interval.months / 12), "year"),
        (i64::from(interval.months % 12), "mon"),
        (i64::from(interval.days), "day"),
        (hours, "hour"),
        (minutes, "min"),
    ];
    for (value, unit) in wholes.into_iter().filter(|(value, _)| *value != 0) {
        let is_back = *is_ago.get_or_insert(value < 0);
        let shown = if is_back { -value } else { value };
        let _ = write!(out, " {shown} {unit}{}", if shown == 1 { "" } else { "s" });
    }
    if seconds != 0 || fraction != 0 {
        let is_negative = seconds < 0 || fraction < 0;
        let is_back = *is_ago.get_or_insert(is_negative);
        out.push_str(if is_negative == is_back { " " } else { " -" });
        write_seconds(seconds, fraction, out);
        let is_one = seconds.abs() == 1 && fraction == 0;
        out.push_str(if is_one { " sec" } else { " secs" });
    }
    match is_ago {
        None => out.push_str(" 0"),
        Some(true) => out.push_str(" ago"),
        Some(false) => {}
    }
}

/// Years and months, days, and time, as the standard has them; with signs at all, if they are of several kinds.
fn write_standard(interval: Interval, out: &mut String) {
    let Interval { months, days, microseconds } = interval;
    let [hours, minutes, seconds, fraction] = clock_parts(microseconds).map(i64::unsigned_abs);
    let signs = [months.signum().into(), days.signum().into(), microseconds.signum()];
    let (has_negative, has_positive) = (signs.contains(&-1), signs.contains(&1));
    let (has_months, has_rest) = (months != 0, days != 0 || microseconds != 0);
    if !has_months && !has_rest {
        return out.push('0');
    }
    let (years, rest) = ((months / 12).unsigned_abs(), (months % 12).unsigned_abs());
    let time = |out: &mut String| {
        let _ = write!(out, "{hours}:{minutes:02}:{seconds:02}");
        write_fraction(fraction, out);
    };
    if (has_negative && has_positive) || (has_months && has_rest) {
        let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
        let (of_months, of_days, of_time) = (sign(months < 0), sign(days < 0), sign(microseconds < 0));
        let _ = write!(out, "{of_months}{years}-{rest} {of_days}{} {of_time}", days.unsigned_abs());
        return time(out);
    }
    out.push_str(if has_negative { "-" } else { "" });
    if has_months {
        let _ = write!(out, "{years}-{rest}");
    } else {
        if days != 0 {
            let _ = write!(out, "{} ", days.unsigned_abs());
        }
        time(out);
    }
}

/// ISO 8601, with a sign at each part.
fn write_iso(interval: Interval, out: &mut String) {
    if interval == Interval::default() {
        return out.push_str("PT0S");
    }
    let [hours, minutes, seconds, fraction] = clock_parts(interval.microseconds);
    let (months, days) = (i64::from(interval.months), i64::from(interval.days));
    out.push('P');
    for (value, unit) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    }
    if interval.microseconds != 0 {
        out.push('T');
        for (value, unit) in [(hours, 'H'), (minutes, 'M')] {
            if value != 0 {
                let _ = write!(out, "{value}{unit}");
            }
        }
        if seconds != 0 || fraction != 0 {
            out.push_str(if seconds < 0 || fraction < 0 { "-" } else { "" });
            write_seconds(seconds, fraction, out);
            out.push('S');
        }
    }
}

fn write_postgres(interval: Interval, out: &mut String) {
    let (mut is_first, mut was_negative) = (true, false);
    for (value, unit) in [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if is_first { "" } else { " " };
        let plus = if was_negative && value > 0 { "+" } else { "" };
        let _ = write!(out, "{space}{plus}{value} {unit}{}", if value == 1 { "" } else { "s" });
        (is_first, was_negative) = (false, value < 0);
    }
    if is_first || interval.microseconds != 0 {
        out.push_str(if is_first { "" } else { " " });
        let sign = if was_negative { "+" } else { "" };
        out.push_str(if interval.microseconds < 0 { "-" } else { sign });
        write_clock(interval.microseconds.unsigned_abs(), out);
    }
}

/// A sum of parts, which are checked when it is done.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    microseconds: i128,
}

/// A decimal number in a text: its whole part and its fraction, both with its sign.
#[derive(Clone, Copy)]
struct Amount {
    whole: i128,
    fraction: f64,
}

impl Amount {
    fn parse(text: &str) -> Option<Amount> {
        let (is_negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok().filter(|whole| *whole < 1 << 80)? };
        let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        Some(if is_negative { Amount { whole: -whole, fraction: -fraction } } else { Amount { whole, fraction } })
    }
}

impl Sum {
    /// Adds so many microseconds.
    fn add_time(&mut self, amount: Amount, unit: i64) {
        self.microseconds += amount.whole * i128::from(unit);
        self.microseconds += (amount.fraction * unit as f64).round_ties_even() as i128;
    }

    /// Adds so many days; what is less than a day is time.
    fn add_days(&mut self, amount: Amount, unit: i32) {
        let days = amount.fraction * f64::from(unit);
        self.days += amount.whole * i128::from(unit) + days.trunc() as i128;
        self.add_time(Amount { whole: 0, fraction: days.fract() }, DAY);
    }

    /// Adds so many months; what is less than a month is days, of which it has 30.
    fn add_months(&mut self, amount: Amount, unit: i32) {
        let months = amount.fraction * f64::from(unit);
        self.months += amount.whole * i128::from(unit);
        if unit == 1 {
            self.add_days(Amount { whole: 0, fraction: months }, 30);
        } else {
            self.months += months.round_ties_even() as i128;
        }
    }

    /// Adds an amount of a unit; whether there is such a unit.
    fn add(&mut self, amount: Amount, unit: &str) -> bool {
        match unit {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" | "microsec" | "microsecs" => {
                self.add_time(amount, 1);
            }
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" | "millisec" | "millisecs" => {
                self.add_time(amount, 1000);
            }
            "s" | "sec" | "secs" | "second" | "seconds" => self.add_time(amount, SECOND),
            "m" | "min" | "mins" | "minute" | "minutes" => self.add_time(amount, MINUTE),
            "h" | "hr" | "hrs" | "hour" | "hours" => self.add_time(amount, HOUR),
            "d" | "day" | "days" => self.add_days(amount, 1),
            "w" | "week" | "weeks" => self.add_days(amount, 7),
            "mon" | "mons" | "month" | "months" => self.add_months(amount, 1),
            "y" | "yr" | "yrs" | "year" | "years" => self.add_months(amount, 12),
            "dec" | "decs" | "decade" | "decades" => self.add_months(amount, 120),
            "c" | "cent" | "century" | "centuries" => self.add_months(amount, 1200),
            "mil" | "mils" | "millennium" | "millennia" => self.add_months(amount, 12_000),
            _ => return false,
        }
        true
    }

    /// Adds `04:05:06.7`, `04:05`, or minutes and seconds with a fraction; whether it is such.
    fn add_clock(&mut self, text: &str) -> Option<()> {
        let (is_negative, clock) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let parts: Vec<&str> = clock.split(':').collect();
        let whole = |text: &str| text.parse::<u32>().ok().map(i128::from);
        let (hours, minutes, seconds) = match parts[..] {
            [hours, minutes, seconds] => (whole(hours)?, whole(minutes)?, Amount::parse(seconds)?),
            [minutes, seconds] if seconds.contains('.') => (0, whole(minutes)?, Amount::parse(seconds)?),
            [hours, minutes] => (whole(hours)?, whole(minutes)?, Amount { whole: 0, fraction: 0.0 }),
            _ => return None,
        };
        if minutes > 59 || seconds.whole > 60 {
            return None;
        }
        let fraction = (seconds.fraction * SECOND as f64).round_ties_even() as i128;
        let sum =
            hours * i128::from(HOUR) + minutes * i128::from(MINUTE) + seconds.whole * i128::from(SECOND) + fraction;
        self.microseconds += if is_negative { -sum } else { sum };
        Some(())
    }

    fn finish(self, is_ago: bool) -> Result<Interval> {
        let sign = if is_ago { -1 } else { 1 };
        Ok(Interval {
            months: i32::try_from(self.months * sign).map_err(|_| out_of_range())?,
            days: i32::try_from(self.days * sign).map_err(|_| out_of_range())?,
            microseconds: i64::try_from(self.microseconds * sign).map_err(|_| out_of_range())?,
        })
    }
}

/// The interval that a text writes: `1 day 02:03`, `1-2`, `P1DT2H`, `3 weeks ago`. In the style of the standard, a
/// minus at the beginning is one of all parts, unless another has a sign.
///
/// # Errors
/// 22007 if it is not an interval, 22008 if it is too long.
pub fn parse(text: &str, style: Style) -> Result<Interval> {
    let lower = with_near_signs(text.trim().to_ascii_lowercase());
    let has_one_sign = |rest: &str| {
        let mut before = ' ';
        // A minus between digits is one of years and months.
        rest.chars().all(|c| {
            let is_sign = matches!(c, '+' | '-') && !before.is_ascii_digit();
            before = c;
            !is_sign
        })
    };
    if style == Style::Standard
        && let Some(rest) = lower.strip_prefix('-').filter(|rest| has_one_sign(rest))
    {
        return parse(rest, Style::Postgres)?.checked_neg().ok_or_else(out_of_range);
    }
    let mut sum = Sum::default();
    if lower.starts_with('p') && lower.len() > 1 {
        return match parse_iso(&lower[1..], &mut sum) {
            Some(()) => sum.finish(false),
            None => Err(invalid_moment("interval", text)),
        };
    }
    match parse_words(&lower, &mut sum) {
        Some(is_ago) => sum.finish(is_ago),
        None => Err(invalid_moment("interval", text)),
    }
}

/// The same text without blanks between a sign and its number: `1 month - 1 second`.
fn with_near_signs(text: String) -> String {
    let is_far = |at: usize| {
        let rest = text[at + 1..].trim_start();
        rest.len() < text.len() - at - 1 && rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    };
    let signs: Vec<usize> = text.match_indices(['+', '-']).map(|(at, _)| at).filter(|at| is_far(*at)).collect();
    let (mut near, mut from) = (String::new(), 0);
    for at in signs {
        near.push_str(&text[from..=at]);
        from = text.len() - text[at + 1..].trim_start().len();
    }
    near + &text[from..]
}

/// The form of ISO 8601, after its `P`.
fn parse_iso(text: &str, sum: &mut Sum) -> Option<()> {
    let mut is_time = false;
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('t') {
            (is_time, rest) = (true, after);
            continue;
        }
        let at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let amount = Amount::parse(&rest[..at])?;
        match (&rest[at..=at], is_time) {
            ("y", false) => sum.add_months(amount, 12),
            ("m", false) => sum.add_months(amount, 1),
            ("w", false) => sum.add_days(amount, 7),
            ("d", false) => sum.add_days(amount, 1),
            ("h", true) => sum.add_time(amount, HOUR),
            ("m", true) => sum.add_time(amount, MINUTE),
            ("s", true) => sum.add_time(amount, SECOND),
            _ => return None,
        }
        rest = &rest[at + 1..];
    }
    Some(())
}

/// The pieces of a text: signed numbers and clocks, and words.
fn pieces(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            byte if byte.is_ascii_whitespace() || byte == b'@' || byte == b',' => {
                at += 1;
                continue;
            }
            b'+' | b'-' | b'.' | b'0'..=b'9' => {
                at += 1;
                // `1-2` is years and months; a minus after blanks begins a number.
                while at < bytes.len() && (bytes[at].is_ascii_digit() || matches!(bytes[at], b':' | b'.' | b'-')) {
                    at += 1;
                }
            }
            byte if byte.is_ascii_alphabetic() => {
                while at < bytes.len() && bytes[at].is_ascii_alphabetic() {
                    at += 1;
                }
            }
            _ => return None,
        }
        pieces.push(&text[start..at]);
    }
    Some(pieces)
}

/// The usual form; whether it ends with `ago`.
fn parse_words(text: &str, sum: &mut Sum) -> Option<bool> {
    let pieces = pieces(text)?;
    if pieces.is_empty() {
        return None;
    }
    let mut at = 0;
    let mut is_ago = false;
    while at < pieces.len() {
        let piece = pieces[at];
        let unit = pieces.get(at + 1).copied();
        at += 1;
        if piece == "ago" && at == pieces.len() && at > 1 {
            is_ago = true;
        } else if piece.contains(':') {
            sum.add_clock(piece)?;
        } else if let Some(amount) = Amount::parse(piece) {
            match unit {
                Some(unit) if sum.add(amount, unit) => at += 1,
                Some(unit) if unit.contains(':') => sum.add_days(amount, 1),
                None => sum.add_time(amount, SECOND),
                Some(_) => return None,
            }
        } else {
            let unsigned = piece.strip_prefix(['-', '+']).unwrap_or(piece);
            let (years, months) = unsigned.split_once('-')?;
            let total = i128::from(years.parse::<u32>().ok()?) * 12 + months.parse::<u32>().ok().map(i128::from)?;
            sum.months += if piece.starts_with('-') { -total } else { total };
        }
    }
    Some(is_ago)
}

impl Interval {
    /// So many months, days and microseconds.
    pub fn new(months: i32, days: i32, microseconds: i64) -> Interval {
        Interval { months, days, microseconds }
    }

    /// The sum; none if it cannot be kept.
    pub fn plus(self, other: Interval) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_add(other.months)?,
            days: self.days.checked_add(other.days)?,
            microseconds: self.microseconds.checked_add(other.microseconds)?,
        })
    }

    /// The same length backwards; none if it cannot be kept.
    pub fn checked_neg(self) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            microseconds: self.microseconds.checked_neg()?,
        })
    }

    /// The length times a factor: what is less than a month becomes days, and what is less than a day becomes time.
    pub fn checked_mul(self, factor: f64) -> Option<Interval> {
        let whole = |value: f64| (value.abs() < f64::from(i32::MAX)).then(|| value.trunc());
        let months = f64::from(self.months) * factor;
        let days = f64::from(self.days) * factor;
        let (whole_months, whole_days) = (whole(months)?, whole(days)?);
        // Rounded to microseconds, as the products are not exact.
        let round = |value: f64| (value * 1e6).round_ties_even() / 1e6;
        let days_of_months = round((months - whole_months) * 30.0);
        let mut seconds = round((days - whole_days + days_of_months - days_of_months.trunc()) * 86_400.0);
        let mut days = whole_days + days_of_months.trunc();
        if seconds.abs() >= 86_400.0 {
            days += (seconds / 86_400.0).trunc();
            seconds %= 86_400.0;
        }
        let microseconds = (self.microseconds as f64 * factor + seconds * 1e6).round_ties_even();
        let fits = microseconds.abs() < 9.2e18;
        fits.then(|| Interval::new(whole_months as i32, days as i32, microseconds as i64))
    }
}
