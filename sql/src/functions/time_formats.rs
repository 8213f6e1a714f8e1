//! Dates and times by patterns: `to_char(now(), 'YYYY-MM-DD HH24:MI:SS')`, `to_date`, `to_timestamp`.

use std::fmt::Write as _;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::date_parts::iso_week;
use crate::types::datum::Interval;
use crate::types::interval::{HOUR, MINUTE, SECOND};
use crate::types::moment::{Civil, date_of_days, days_of_date, days_of_month};
use crate::types::moment_text::month_of_name;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The numbers of months in Roman numerals.
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The words of patterns, of which a longer one stands before those that it begins with.
const WORDS: [&str; 54] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "Day", "day", "DDD", "DD", "DY", "Dy", "dy", "D", "FF1",
    "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J",
    "MI", "MM", "MONTH", "Month", "month", "MON", "Mon", "mon", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSS", "SS",
    "TZH", "TZM", "TZ", "US",
];

/// The words that are not in the table above: those of weeks and years.
const MORE_WORDS: [&str; 8] = ["Y,YYY", "YYYY", "YYY", "YY", "Y", "WW", "W", "SSSSS"];

/// What is written by a pattern.
pub(crate) enum Shown {
    /// A clock, with the zone that it is of: its offset in seconds and its name.
    Clock(Civil, Option<(i64, String)>),
    /// A length of time.
    Length(Interval),
}

/// A part of a pattern.
struct Part {
    word: String,
    is_filled: bool,
    ordinal: Option<bool>,
}

enum Piece {
    Part(Part),
    Literal(char),
    Quoted(String),
}

/// The pieces of a pattern. `FM` is of the next word, `TH` of the one before.
fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    let mut is_filled = true;
    while let Some(first) = rest.chars().next() {
        if rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("FM")) {
            (is_filled, rest) = (false, &rest[2..]);
            continue;
        }
        if first == '"' {
            let text = rest[1..].split('"').next().unwrap_or_default();
            pieces.push(Piece::Quoted(text.to_owned()));
            is_filled = true;
            rest = rest.get(text.len() + 2..).unwrap_or_default();
            continue;
        }
        let all = MORE_WORDS.iter().rev().chain(&WORDS).chain(&MORE_WORDS);
        let starts = |word: &&&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        // Of the words that fit, the longest.
        let Some(word) = all.filter(starts).max_by_key(|word| word.len()) else {
            pieces.push(Piece::Literal(first));
            is_filled = true;
            rest = &rest[first.len_utf8()..];
            continue;
        };
        // As it is written: its letters say those of names.
        let written = rest[..word.len()].to_owned();
        rest = &rest[word.len()..];
        let ordinal = rest.get(..2).filter(|start| start.eq_ignore_ascii_case("TH")).map(|start| start == "TH");
        if ordinal.is_some() {
            rest = &rest[2..];
        }
        pieces.push(Piece::Part(Part { word: written, is_filled, ordinal }));
        is_filled = true;
    }
    pieces
}

/// A name in the letters in which its word is written: all great, all small, or as it is.
fn lettered(name: &str, word: &str) -> String {
    let second = word.chars().filter(|c| c.is_alphabetic()).nth(1);
    match (word.chars().next(), second) {
        (Some(first), _) if first.is_lowercase() => name.to_lowercase(),
        (_, Some(second)) if second.is_uppercase() => name.to_uppercase(),
        _ => name.to_owned(),
    }
}

/// The numbers that a pattern asks for.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    days: i64,
    hour: i64,
    time: i64,
    zone: Option<(i64, String)>,
    is_length: bool,
}

impl Fields {
    fn of(shown: &Shown) -> Fields {
        match shown {
            Shown::Clock(civil, zone) => Fields {
                year: civil.year,
                month: civil.month,
                day: civil.day,
                days: days_of_date(civil.year, civil.month, civil.day),
                hour: civil.microseconds / HOUR,
                time: civil.microseconds,
                zone: zone.clone(),
                is_length: false,
            },
            Shown::Length(interval) => Fields {
                year: i64::from(interval.months) / 12,
                month: i64::from(interval.months) % 12,
                day: interval.days.into(),
                days: interval.days.into(),
                hour: interval.microseconds / HOUR,
                time: interval.microseconds,
                zone: None,
                is_length: true,
            },
        }
    }

    /// Years before our era are counted from 1.
    fn shown_year(&self) -> i64 {
        if self.year <= 0 && !self.is_length { 1 - self.year } else { self.year }
    }

    fn twelve(&self) -> i64 {
        if self.hour % 12 == 0 { 12 } else { self.hour % 12 }
    }

    /// The number of a word, and how many digits it is filled to.
    fn number(&self, word: &str) -> Option<(i64, usize)> {
        let year = self.shown_year();
        Some(match word {
            "YYYY" => (year, 4),
            "YYY" => (year % 1000, 3),
            "YY" => (year % 100, 2),
            "Y" => (year % 10, 1),
            "IYYY" => (iso_week(self.days).1, 4),
            "IYY" => (iso_week(self.days).1 % 1000, 3),
            "IY" => (iso_week(self.days).1 % 100, 2),
            "I" => (iso_week(self.days).1 % 10, 1),
            "MM" => (self.month, 2),
            "DD" => (self.day, 2),
            "DDD" => (self.days - days_of_date(self.year, 1, 1) + 1, 3),
            "IDDD" => {
                let (week, _) = iso_week(self.days);
                ((week - 1) * 7 + (self.days + 3).rem_euclid(7) + 1, 3)
            }
            "D" => ((self.days + 4).rem_euclid(7) + 1, 1),
            "ID" => ((self.days + 3).rem_euclid(7) + 1, 1),
            "WW" => ((self.days - days_of_date(self.year, 1, 1)) / 7 + 1, 2),
            "W" => ((self.day - 1) / 7 + 1, 1),
            "IW" => (iso_week(self.days).0, 2),
            "CC" => (if self.is_length { year / 100 } else { (year + 99) / 100 }, 2),
            "Q" => ((self.month - 1) / 3 + 1, 1),
            "J" => (self.days + 2_440_588, 1),
            "HH24" => (self.hour, 2),
            "HH" | "HH12" => (self.twelve(), 2),
            "MI" => (self.time % HOUR / MINUTE, 2),
            "SS" => (self.time % MINUTE / SECOND, 2),
            "SSSS" | "SSSSS" => (self.time / SECOND, 1),
            "MS" => (self.time % SECOND / 1000, 3),
            "US" => (self.time % SECOND, 6),
            "FF1" => (self.time % SECOND / 100_000, 1),
            "FF2" => (self.time % SECOND / 10_000, 2),
            "FF3" => (self.time % SECOND / 1000, 3),
            "FF4" => (self.time % SECOND / 100, 4),
            "FF5" => (self.time % SECOND / 10, 5),
            "FF6" => (self.time % SECOND, 6),
            _ => return None,
        })
    }

    /// The name of a word, and how wide it is filled to.
    fn name(&self, word: &str) -> Option<(String, usize)> {
        let upper = word.to_ascii_uppercase();
        let weekday = WEEKDAYS[(self.days + 4).rem_euclid(7) as usize];
        let month = MONTHS.get((self.month - 1).max(0) as usize).copied().unwrap_or_default();
        let offset = self.zone.as_ref().map_or(0, |zone| zone.0);
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() % 3600 / 60);
        Some(match upper.as_str() {
            "MONTH" => (lettered(month, word), 9),
            "MON" => (lettered(month.get(..3).unwrap_or_default(), word), 0),
            "DAY" => (lettered(weekday, word), 9),
            "DY" => (lettered(&weekday[..3], word), 0),
            "AM" | "PM" => (lettered(if self.hour % 24 >= 12 { "PM" } else { "AM" }, word), 0),
            "A.M." | "P.M." => (lettered(if self.hour % 24 >= 12 { "P.M." } else { "A.M." }, word), 0),
            "AD" | "BC" => (lettered(if self.year <= 0 { "BC" } else { "AD" }, word), 0),
            "A.D." | "B.C." => (lettered(if self.year <= 0 { "B.C." } else { "A.D." }, word), 0),
            "TZ" => {
                let name = self.zone.as_ref().map_or("", |zone| zone.1.as_str());
                (if word.starts_with('t') { name.to_lowercase() } else { name.to_uppercase() }, 0)
            }
            "TZH" => (format!("{sign}{hours:02}"), 0),
            "TZM" => (format!("{minutes:02}"), 0),
            "OF" if minutes == 0 => (format!("{sign}{hours:02}"), 0),
            "OF" => (format!("{sign}{hours:02}:{minutes:02}"), 0),
            "RM" => {
                let number = ROMAN.get((self.month - 1).max(0) as usize).copied().unwrap_or_default();
                (if word.starts_with('r') { number.to_lowercase() } else { number.to_owned() }, 4)
            }
            "FX" => (String::new(), 0),
            _ => return None,
        })
    }
}

/// The suffix of an ordinal number.
fn suffix(number: i64, is_upper: bool) -> &'static str {
    let pair = match (number.abs() % 100, number.abs() % 10) {
        (11..=13, _) => ("th", "TH"),
        (_, 1) => ("st", "ST"),
        (_, 2) => ("nd", "ND"),
        (_, 3) => ("rd", "RD"),
        _ => ("th", "TH"),
    };
    if is_upper { pair.1 } else { pair.0 }
}

/// A value by a pattern.
///
/// # Errors
/// None at present.
pub(crate) fn write(shown: &Shown, pattern: &str) -> Result<String> {
    let fields = Fields::of(shown);
    let mut out = String::new();
    for piece in pieces(pattern) {
        let part = match piece {
            Piece::Literal(c) => {
                out.push(c);
                continue;
            }
            Piece::Quoted(text) => {
                out.push_str(&text);
                continue;
            }
            Piece::Part(part) => part,
        };
        let upper = part.word.to_ascii_uppercase();
        if upper == "Y,YYY" {
            let year = fields.shown_year();
            let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
        } else if let Some((number, width)) = fields.number(&upper) {
            let width = if part.is_filled { width + usize::from(number < 0) } else { 1 };
            let _ = write!(out, "{number:0width$}");
            out.push_str(part.ordinal.map_or("", |is_upper| suffix(number, is_upper)));
        } else if let Some((name, width)) = fields.name(&part.word) {
            let width = if part.is_filled { width } else { 0 };
            let _ = write!(out, "{name:<width$}");
        }
    }
    Ok(out)
}

/// What is read by a pattern.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    /// Of the Gregorian year, whose first one begins with it.
    week: Option<i64>,
    week_of_month: Option<i64>,
    century: Option<i64>,
    /// How many digits the year has.
    year_digits: usize,
    iso_week: Option<i64>,
    iso_day_of_year: Option<i64>,
    /// From Monday on, which is 0.
    day_of_week: Option<i64>,
    /// Whether there are parts of an ISO week date, and of a Gregorian date.
    is_iso: bool,
    is_gregorian: bool,
    hour: i64,
    minute: i64,
    second: i64,
    microseconds: i64,
    is_afternoon: Option<bool>,
    is_before_christ: bool,
    offset_hours: Option<i64>,
    offset_minutes: Option<i64>,
}

fn out_of_range(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// The clock that a text writes by a pattern, and the offset in seconds if it writes one.
///
/// # Errors
/// 22007 if it does not fit the pattern, 22008 if it is out of range.
pub(crate) fn read(text: &str, pattern: &str) -> Result<(Civil, Option<i64>)> {
    let mut found = Found::default();
    let mut rest = text.trim_start();
    let pieces = pieces(pattern);
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Part(part) => {
                rest = rest.trim_start();
                if rest.is_empty() {
                    break;
                }
                let is_followed_by_number = matches!(pieces.get(index + 1), Some(Piece::Part(_)));
                read_part(&mut found, part, &mut rest, is_followed_by_number)?;
            }
            Piece::Literal(c) if c.is_alphanumeric() => rest = rest.strip_prefix(*c).unwrap_or(rest),
            // A sign in the pattern stands for any sign, or none; before a number it may be its own.
            Piece::Literal(_) => {
                let is_sign = |c: char| !c.is_alphanumeric();
                rest = rest.strip_prefix(is_sign).unwrap_or(rest);
            }
            Piece::Quoted(quoted) => {
                let skipped = rest.char_indices().nth(quoted.chars().count()).map_or(rest.len(), |(at, _)| at);
                rest = &rest[skipped..];
            }
        }
    }
    found.finish(text)
}

/// Cuts digits from a text: at most so many.
fn digits<'t>(rest: &mut &'t str, most: usize) -> &'t str {
    let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(length);
    *rest = after;
    digits
}

fn read_part(found: &mut Found, part: &Part, rest: &mut &str, is_tight: bool) -> Result<()> {
    let upper = part.word.to_ascii_uppercase();
    let invalid = |detail: String| {
        let message = format!("invalid value \"{}\" for \"{}\"", detail, part.word);
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
    };
    let word = |rest: &mut &str| {
        let length = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '.').unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        *rest = after;
        word.to_ascii_lowercase()
    };
    match upper.as_str() {
        "MONTH" | "MON" => {
            let name = word(rest);
            found.month = Some(month_of_name(&name).ok_or_else(|| invalid(name))?);
            return Ok(());
        }
        "DAY" | "DY" | "TZ" => {
            word(rest);
            return Ok(());
        }
        "AM" | "PM" | "A.M." | "P.M." => {
            found.is_afternoon = Some(word(rest).starts_with('p'));
            return Ok(());
        }
        "AD" | "BC" | "A.D." | "B.C." => {
            found.is_before_christ = word(rest).starts_with('b');
            return Ok(());
        }
        "TZH" | "OF" => {
            let is_negative = rest.starts_with('-');
            *rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            let hours: i64 = digits(rest, 2).parse().map_err(|_| invalid((*rest).to_owned()))?;
            found.offset_hours = Some(if is_negative { -hours } else { hours });
            if upper == "OF" && rest.starts_with(':') {
                *rest = &rest[1..];
                found.offset_minutes = digits(rest, 2).parse().ok();
            }
            return Ok(());
        }
        "RM" => {
            let numeral = word(rest);
            let month = ROMAN.iter().position(|known| known.eq_ignore_ascii_case(&numeral));
            found.set("MM", month.ok_or_else(|| invalid(numeral))? as i64 + 1, 2);
            return Ok(());
        }
        "FX" => return Ok(()),
        _ => {}
    }
    let width = match upper.as_str() {
        "YYYY" | "IYYY" | "SSSS" | "SSSSS" | "J" if !is_tight => 18,
        "YYYY" | "IYYY" | "FF4" => 4,
        "YYY" | "IYY" | "DDD" | "IDDD" | "MS" | "FF3" => 3,
        "FF5" => 5,
        "US" | "FF6" | "SSSS" | "SSSSS" | "J" => 6,
        "Y" | "I" | "D" | "Q" | "FF1" | "ID" | "W" => 1,
        "Y,YYY" => 3,
        _ => 2,
    };
    let mut read = digits(rest, width).to_owned();
    if let Some(after) = rest.strip_prefix(',').filter(|_| upper == "Y,YYY") {
        *rest = after;
        read.push_str(digits(rest, 3));
    }
    let value: i64 = read.parse().map_err(|_| {
        let shown: String = rest.chars().take(width.min(4)).collect();
        invalid(shown)
    })?;
    found.set(&upper, value, read.len());
    if part.ordinal.is_some() {
        *rest = rest.char_indices().nth(2).map_or("", |(at, _)| &rest[at..]);
    }
    Ok(())
}

/// A year of one to three digits, as the one that is nearest to 2020.
fn nearest_year(value: i64) -> i64 {
    match value {
        ..70 => 2000 + value,
        70..100 => 1900 + value,
        100..520 => 2000 + value,
        520..1000 => 1000 + value,
        _ => value,
    }
}

/// The first day of a week of ISO 8601, in days since 1970.
fn monday_of_week(year: i64, week: i64) -> i64 {
    let fourth = days_of_date(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7) + 7 * (week - 1)
}

impl Found {
    fn set(&mut self, word: &str, value: i64, length: usize) {
        let fraction = || {
            let missing = 6usize.saturating_sub(length) as u32;
            value * 10i64.pow(missing)
        };
        match word {
            "YYYY" | "Y,YYY" | "IYYY" => (self.year, self.year_digits) = (Some(value), 4),
            "YYY" | "YY" | "Y" | "IYY" | "IY" | "I" => {
                self.year = Some(if length < 4 { nearest_year(value) } else { value });
                self.year_digits = word.len().min(3);
            }
            "CC" => self.century = Some(value),
            "WW" => self.week = Some(value),
            "W" => self.week_of_month = Some(value),
            "IW" => self.iso_week = Some(value),
            "IDDD" => self.iso_day_of_year = Some(value),
            "ID" => self.day_of_week = Some(value - 1),
            "D" => self.day_of_week = Some((value + 5) % 7),
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.day_of_year = Some(value),
            "J" => self.julian = Some(value),
            "HH24" | "HH" | "HH12" => self.hour = value,
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "SSSS" | "SSSSS" => {
                (self.hour, self.minute, self.second) = (value / 3600, value / 60 % 60, value % 60);
            }
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => self.microseconds = fraction(),
            "TZM" => self.offset_minutes = Some(value),
            _ => {}
        }
        self.is_iso |= matches!(word, "IYYY" | "IYY" | "IY" | "I" | "IW" | "IDDD" | "ID");
        let is_gregorian = matches!(word, "Y,YYY" | "YYYY" | "YYY" | "YY" | "Y" | "MM" | "DD" | "DDD" | "WW" | "W");
        self.is_gregorian |= is_gregorian;
    }

    /// The year, which a century may complete.
    fn full_year(&self) -> i64 {
        let year = match (self.century, self.year) {
            (Some(century), Some(year)) if self.year_digits <= 2 => year % 100 + 100 * (century - 1),
            (Some(century), None) => 100 * (century - 1) + 1,
            (_, year) => year.unwrap_or(i64::from(self.is_before_christ)),
        };
        if self.is_before_christ || year == 0 { 1 - year.max(1) } else { year }
    }

    /// The days since 1970 of a date that is not told by month and day; none of others.
    fn days(&self, year: i64) -> Result<Option<i64>> {
        if self.is_iso && self.is_gregorian {
            let error = SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid combination of date conventions");
            return Err(error.with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        let from_january = |days: i64| days_of_date(year, 1, 1) + days;
        Ok(match self {
            Found { julian: Some(julian), .. } => Some(julian - 2_440_588),
            Found { iso_day_of_year: Some(number), .. } => Some(monday_of_week(year, 1) + number - 1),
            Found { iso_week: Some(week), .. } => Some(monday_of_week(year, *week) + self.day_of_week.unwrap_or(0)),
            Found { day_of_year: Some(number), .. } => Some(from_january(number - 1)),
            Found { week: Some(week), .. } => Some(from_january(7 * (week - 1))),
            _ => None,
        })
    }

    fn finish(self, text: &str) -> Result<(Civil, Option<i64>)> {
        let mut hour = self.hour;
        if let Some(is_afternoon) = self.is_afternoon {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if is_afternoon { 12 } else { 0 };
        }
        let mut year = self.full_year();
        let from_days = self.days(year)?;
        let day = self.week_of_month.map(|week| 7 * (week - 1) + 1).or(self.day);
        let (mut month, mut day) = (self.month.unwrap_or(1), day.unwrap_or(1));
        if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) || year.abs() > 9999 {
            return Err(out_of_range(text));
        }
        if hour > 23 || self.minute > 59 || self.second > 59 || self.microseconds >= SECOND {
            return Err(out_of_range(text));
        }
        if let Some(days) = from_days {
            (year, month, day) = date_of_days(days);
        }
        let time = hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.microseconds;
        let minutes = self.offset_minutes.unwrap_or(0);
        let minutes = if self.offset_hours.is_some_and(|hours| hours < 0) { -minutes } else { minutes };
        let has_offset = self.offset_hours.is_some() || self.offset_minutes.is_some();
        let offset = has_offset.then(|| self.offset_hours.unwrap_or(0) * 3600 + minutes * 60);
        Ok((Civil { year, month, day, microseconds: time }, offset))
    }
}
