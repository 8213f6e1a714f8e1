//! Dates and times from the texts that people write: `2024-01-02 03:04:05+02`, `January 2, 2024`, `20240102T030405`,
//! `now`.

use jiff::tz::TimeZone;
use quipu_rows::{Date, Timestamp};

use crate::error::{Result, SqlError, SqlState};
use crate::types::date_style::Order;
use crate::types::environment::Environment;
use crate::types::interval::{DAY, HOUR, MINUTE, SECOND};
use crate::types::moment::{
    self, Civil, date_of_days, days_of_date, days_of_month, from_clock, offset_seconds, to_clock,
};
use crate::types::refusal::invalid_moment;
use crate::types::zoned_time::ZonedTime;

/// The Julian day of the first of January 1970.
const JULIAN_OF_EPOCH: i64 = 2_440_588;

/// What is wrong with a text.
enum Wrong {
    /// It is no date or time.
    Syntax,
    /// A part of it is no month, day, hour, minute or second.
    Field,
    /// The zone is not known.
    Zone(String),
}

/// A zone in a text.
enum Zone {
    Seconds(i64),
    Named(TimeZone),
}

/// A word that stands for a moment.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    Now,
    Today(i64),
    Epoch,
    /// After all others, or before them.
    Infinity(bool),
}

/// What a text says.
#[derive(Default)]
struct Parts {
    order: Order,
    year: Option<(i64, usize)>,
    month: Option<i64>,
    day: Option<i64>,
    microseconds: Option<i64>,
    zone: Option<Zone>,
    word: Option<Word>,
    /// Of a day by its number, or by its place in the year: days since 1970.
    days: Option<i64>,
    is_before_christ: bool,
    afternoon: Option<bool>,
    is_time_next: bool,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The month of that name, or of its first three letters.
pub(crate) fn month_of_name(name: &str) -> Option<i64> {
    let index = MONTHS
        .iter()
        .position(|month| *month == name || &month[..3] == name || (name == "sept" && *month == "september"));
    index.map(|index| index as i64 + 1)
}

fn is_weekday(word: &str) -> bool {
    WEEKDAYS.iter().any(|day| word.len() >= 3 && day.starts_with(word))
}

fn digits(text: &str) -> Result<i64, Wrong> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Syntax);
    }
    text.parse().map_err(|_| Wrong::Field)
}

/// Cuts what the test takes from the beginning of a text.
fn cut<'t>(rest: &mut &'t str, takes: impl Fn(char) -> bool) -> &'t str {
    let at = rest.find(|c: char| !takes(c)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(at);
    *rest = after;
    taken
}

/// Microseconds of `03:04:05.678`.
fn clock(text: &str) -> Result<i64, Wrong> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Wrong::Syntax),
    };
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let fraction: f64 = format!("0.{fraction}0").parse().map_err(|_| Wrong::Syntax)?;
    let (hours, minutes, seconds) = (digits(hours)?, digits(minutes)?, digits(seconds)?);
    let sum = hours.checked_mul(HOUR).ok_or(Wrong::Field)?;
    if hours > 24 || minutes > 59 || seconds > 60 {
        return Err(Wrong::Field);
    }
    let sum = sum + minutes * MINUTE + seconds * SECOND + (fraction * SECOND as f64).round_ties_even() as i64;
    if sum > DAY { Err(Wrong::Field) } else { Ok(sum) }
}

impl Parts {
    fn read(text: &str, environment: &dyn Environment) -> Result<Parts, Wrong> {
        let mut parts = Parts { order: environment.date_style().order, ..Parts::default() };
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(Wrong::Syntax);
        }
        while let Some(first) = rest.chars().next() {
            match first {
                '0'..='9' => parts.number(&mut rest)?,
                '+' | '-' if parts.microseconds.is_some() || rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    let sign = &rest[..1];
                    rest = &rest[1..];
                    let offset = cut(&mut rest, |c| c.is_ascii_digit() || c == ':');
                    let seconds = offset_seconds(&format!("{sign}{offset}")).ok_or(Wrong::Syntax)?;
                    // A zone needs a time before it.
                    if parts.microseconds.is_none() && parts.month.is_none() {
                        return Err(Wrong::Syntax);
                    }
                    parts.zone = Some(Zone::Seconds(seconds));
                }
                '-' if rest[1..].to_ascii_lowercase().starts_with("inf") => {
                    rest = &rest[1..];
                    parts.word(&mut rest)?;
                    match parts.word {
                        Some(Word::Infinity(true)) => parts.word = Some(Word::Infinity(false)),
                        _ => return Err(Wrong::Syntax),
                    }
                }
                first if first.is_ascii_alphabetic() => parts.word(&mut rest)?,
                ' ' | ',' | '\t' | '\n' | '\r' | '.' | '(' | ')' => rest = &rest[1..],
                _ => return Err(Wrong::Syntax),
            }
        }
        Ok(parts)
    }

    /// A time, a date with signs between its parts, or a number.
    fn number(&mut self, rest: &mut &str) -> Result<(), Wrong> {
        let whole = *rest;
        let number = cut(rest, |c| c.is_ascii_digit());
        let next = rest.chars().next().unwrap_or(' ');
        if next == ':' {
            *rest = whole;
            return self.set_time(clock(cut(rest, |c| c.is_ascii_digit() || c == ':' || c == '.'))?);
        }
        let begins_part = rest[next.len_utf8().min(rest.len())..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if self.month.is_none() && matches!(next, '-' | '/' | '.') && begins_part && !self.is_time_next {
            return self.date(number, next, rest);
        }
        if self.is_time_next && matches!(number.len(), 2 | 4 | 6) && number.is_ascii() {
            let fraction = if next == '.' { cut(rest, |c| c.is_ascii_digit() || c == '.') } else { "" };
            let (minutes, seconds) = (number.get(2..4).unwrap_or("00"), number.get(4..6).unwrap_or("00"));
            return self.set_time(clock(&format!("{}:{minutes}:{seconds}{fraction}", &number[..2]))?);
        }
        let value = digits(number)?;
        match number.len() {
            7 if self.month.is_none() => return Err(Wrong::Field),
            8 if self.month.is_none() => {
                self.year = Some((digits(&number[..4])?, 4));
                (self.month, self.day) = (Some(digits(&number[4..6])?), Some(digits(&number[6..])?));
            }
            6 if self.month.is_none() => {
                self.year = Some((digits(&number[..2])?, 2));
                (self.month, self.day) = (Some(digits(&number[2..4])?), Some(digits(&number[4..])?));
            }
            6 if self.year.is_some() && self.microseconds.is_none() => {
                self.set_time(clock(&format!("{}:{}:{}", &number[..2], &number[2..4], &number[4..]))?)?;
            }
            length if length > 2 && self.year.is_none() => self.year = Some((value, length)),
            _ if self.day.is_none() && self.month.is_some() => self.day = Some(value),
            length if self.year.is_none() && self.day.is_some() => self.year = Some((value, length)),
            1 | 2 if self.day.is_none() => self.day = Some(value),
            _ => return Err(Wrong::Syntax),
        }
        Ok(())
    }

    /// The rest of a date whose first part is read: `2024-01-02`, `1/2/2024`, `2-Jan-2024`.
    fn date(&mut self, first: &str, sign: char, rest: &mut &str) -> Result<(), Wrong> {
        let mut fields = vec![first];
        while fields.len() < 3 && rest.starts_with(sign) {
            *rest = &rest[1..];
            let is_word = rest.starts_with(|c: char| c.is_ascii_alphabetic());
            fields.push(cut(rest, |c| if is_word { c.is_ascii_alphabetic() } else { c.is_ascii_digit() }));
        }
        let named = |field: &str| month_of_name(&field.to_ascii_lowercase());
        // A year, and the place of a day in it: `1997.041`.
        if let [year, day] = fields[..]
            && year.len() > 2
            && day.len() == 3
            && matches!(digits(day), Ok(1..=366))
        {
            let days = days_of_date(digits(year)?, 1, 1) + digits(day)? - 1;
            self.set_days(days);
            return Ok(());
        }
        let [a, b, c] = fields[..] else { return Err(Wrong::Syntax) };
        let (year, month, day) = match (named(a), named(b)) {
            (Some(month), _) if b.len() > 2 => (b, month, digits(c)?),
            (Some(month), _) => (c, month, digits(b)?),
            (_, Some(month)) if a.len() > 2 => (a, month, digits(c)?),
            (_, Some(month)) => (c, month, digits(a)?),
            _ if a.len() > 2 => (a, digits(b)?, digits(c)?),
            _ => match self.order {
                Order::Month => (c, digits(a)?, digits(b)?),
                Order::Day => (c, digits(b)?, digits(a)?),
                Order::Year => (a, digits(b)?, digits(c)?),
            },
        };
        self.year = Some((digits(year)?, year.len()));
        (self.month, self.day) = (Some(month), Some(day));
        Ok(())
    }

    fn set_days(&mut self, days: i64) {
        let (year, month, day) = date_of_days(days);
        self.year = Some((year, 4));
        (self.month, self.day, self.days) = (Some(month), Some(day), Some(days));
    }

    fn set_time(&mut self, microseconds: i64) -> Result<(), Wrong> {
        if self.microseconds.replace(microseconds).is_some() {
            return Err(Wrong::Syntax);
        }
        self.is_time_next = false;
        Ok(())
    }

    fn word(&mut self, rest: &mut &str) -> Result<(), Wrong> {
        let whole = *rest;
        let letters = cut(rest, |c| c.is_ascii_alphabetic());
        let lower = letters.to_ascii_lowercase();
        let next = rest.chars().next().unwrap_or(' ');
        let follows = rest[next.len_utf8().min(rest.len())..].starts_with(|c: char| c.is_ascii_digit());
        if matches!(next, '-' | '/' | '.') && follows && month_of_name(&lower).is_some() && self.month.is_none() {
            return self.date(letters, next, rest);
        }
        if lower == "j" && next.is_ascii_digit() && self.month.is_none() {
            let number = digits(cut(rest, |c| c.is_ascii_digit()))?;
            // No day of the calendar has so great a number.
            let days = i64::from(i32::try_from(number).map_err(|_| Wrong::Field)?) - JULIAN_OF_EPOCH;
            self.set_days(days);
            return Ok(());
        }
        if rest.starts_with(['/', '_']) {
            *rest = whole;
            let name = cut(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-'));
            let zone = TimeZone::get(name).map_err(|_| Wrong::Zone(name.to_ascii_lowercase()))?;
            self.zone = Some(Zone::Named(zone));
            return Ok(());
        }
        let word = match lower.as_str() {
            "now" => Some(Word::Now),
            "today" => Some(Word::Today(0)),
            "tomorrow" => Some(Word::Today(1)),
            "yesterday" => Some(Word::Today(-1)),
            "epoch" => Some(Word::Epoch),
            "infinity" => Some(Word::Infinity(true)),
            _ => None,
        };
        if word.is_some() {
            self.word = word;
            return Ok(());
        }
        match lower.as_str() {
            "t" => self.is_time_next = true,
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            "ad" | "at" | "on" => {}
            "bc" => self.is_before_christ = true,
            "allballs" => self.set_time(0)?,
            _ if month_of_name(&lower).is_some() => {
                // A number before the month was its day.
                self.month = month_of_name(&lower);
            }
            _ if is_weekday(&lower) => {}
            _ => {
                let zone = match moment::abbreviation(&lower) {
                    Some(seconds) => Zone::Seconds(seconds),
                    None => Zone::Named(TimeZone::get(letters).map_err(|_| Wrong::Syntax)?),
                };
                self.zone = Some(zone);
            }
        }
        Ok(())
    }

    /// The time of day; midnight if none is told.
    fn time(&self) -> Result<i64, Wrong> {
        let microseconds = self.microseconds.unwrap_or(0);
        match self.afternoon {
            Some(_) if microseconds >= 13 * HOUR => Err(Wrong::Field),
            Some(true) if microseconds < 12 * HOUR => Ok(microseconds + 12 * HOUR),
            Some(false) if microseconds >= 12 * HOUR => Ok(microseconds - 12 * HOUR),
            _ => Ok(microseconds),
        }
    }

    fn civil(&self) -> Result<Civil, Wrong> {
        let (Some((year, length)), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(Wrong::Syntax);
        };
        if self.days.is_some() && !self.is_before_christ {
            return Ok(Civil { year, month, day, microseconds: self.time()? });
        }
        let year = match (year, length, self.is_before_christ) {
            (0, 3.., _) => return Err(Wrong::Field),
            (year, _, true) => 1 - year,
            (year, ..=2, _) if year < 70 => year + 2000,
            (year, ..=2, _) => year + 1900,
            (year, ..) => year,
        };
        if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
            return Err(Wrong::Field);
        }
        Ok(Civil { year, month, day, microseconds: self.time()? })
    }

    fn zone(&self) -> Option<TimeZone> {
        match self.zone.as_ref()? {
            Zone::Seconds(seconds) => moment::fixed(*seconds),
            Zone::Named(zone) => Some(zone.clone()),
        }
    }
}

/// An error of a text, with the name of the type.
fn error(wrong: Wrong, type_name: &str, text: &str) -> SqlError {
    match wrong {
        Wrong::Syntax => invalid_moment(type_name, text),
        Wrong::Field => {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        }
        Wrong::Zone(name) => {
            let message = format!("time zone \"{name}\" not recognized");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
    }
}

/// What the clock of the session shows now, and with a word for a day, at its midnight.
fn clock_of_word(word: Word, environment: &dyn Environment) -> Result<Timestamp> {
    let clock = to_clock(environment.time_zone(), environment.transaction_time())?;
    match word {
        Word::Now => Ok(clock),
        Word::Epoch => moment::timestamp(0),
        Word::Infinity(true) => Ok(Timestamp::INFINITY),
        Word::Infinity(false) => Ok(Timestamp::NEG_INFINITY),
        Word::Today(days) => moment::timestamp((clock.microseconds().div_euclid(DAY) + days) * DAY),
    }
}

/// The day that a text writes.
///
/// # Errors
/// 22007 and 22008.
pub fn parse_date(text: &str, environment: &dyn Environment) -> Result<Date> {
    let refuse = |wrong| error(wrong, "date", text);
    let parts = Parts::read(text, environment).map_err(refuse)?;
    if let Some(word) = parts.word {
        return Ok(clock_of_word(word, environment)?.date());
    }
    let civil = parts.civil().map_err(refuse)?;
    moment::date(days_of_date(civil.year, civil.month, civil.day)).map_err(|_| out_of_range("date", text))
}

/// The time of day that a text writes, in microseconds.
///
/// # Errors
/// 22007 and 22008.
pub fn parse_time(text: &str, environment: &dyn Environment) -> Result<i64> {
    let refuse = |wrong| error(wrong, "time", text);
    let trimmed = text.trim();
    // Digits alone are hours, minutes and seconds here.
    let is_number = matches!(trimmed.len(), 4 | 6) && trimmed.bytes().all(|byte| byte.is_ascii_digit());
    let parts = match is_number {
        true => Parts::read(&format!("T{trimmed}"), environment),
        false => Parts::read(text, environment),
    };
    let parts = parts.map_err(refuse)?;
    if parts.word == Some(Word::Now) {
        return Ok(clock_of_word(Word::Now, environment)?.microseconds().rem_euclid(DAY));
    }
    if parts.microseconds.is_none() {
        return Err(refuse(Wrong::Syntax));
    }
    parts.time().map_err(refuse)
}

/// The time of day that a text writes, with the offset of its zone: that of the session, if it names none. The offset
/// of a zone which changes it is the one of the day in the text, or of today.
///
/// # Errors
/// 22007 and 22008; 22023 for a zone that is not known.
pub fn parse_timetz(text: &str, environment: &dyn Environment) -> Result<ZonedTime> {
    let refuse = |wrong| error(wrong, "time with time zone", text);
    let trimmed = text.trim();
    // Digits at the beginning are hours, minutes and seconds here.
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let after = &trimmed[digits..];
    let is_offset = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == ':');
    let is_number =
        matches!(digits, 4 | 6) && (after.starts_with('.') || after.strip_prefix(['+', '-']).is_some_and(is_offset));
    let parts = match is_number || digits == trimmed.len() {
        true => Parts::read(&format!("T{trimmed}"), environment),
        false => Parts::read(text, environment),
    };
    let parts = parts.map_err(refuse)?;
    let now = environment.transaction_time();
    let zone = parts.zone().unwrap_or_else(|| environment.time_zone().clone());
    if parts.word == Some(Word::Now) {
        let time = to_clock(&zone, now)?.microseconds().rem_euclid(DAY);
        return Ok(ZonedTime { time, offset: moment::offset_at(&zone, now) });
    }
    if parts.microseconds.is_none() {
        return Err(refuse(Wrong::Syntax));
    }
    let time = parts.time().map_err(refuse)?;
    let day = match parts.month {
        Some(_) => Civil { microseconds: 0, ..parts.civil().map_err(refuse)? }.to_timestamp()?,
        None => moment::timestamp(to_clock(&zone, now)?.microseconds().div_euclid(DAY) * DAY)?,
    };
    let moment = from_clock(&zone, moment::timestamp(day.microseconds() + time)?)?;
    Ok(ZonedTime { time, offset: moment::offset_at(&zone, moment) })
}

fn out_of_range(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{type_name} out of range: \"{text}\""))
}

/// What a clock shows as a text writes it; a zone in the text says nothing.
///
/// # Errors
/// 22007 and 22008.
pub fn parse_timestamp(text: &str, environment: &dyn Environment) -> Result<Timestamp> {
    let refuse = |wrong| error(wrong, "timestamp", text);
    let parts = Parts::read(text, environment).map_err(refuse)?;
    if let Some(word) = parts.word {
        let clock = clock_of_word(word, environment)?;
        if matches!(word, Word::Now | Word::Infinity(_)) {
            return Ok(clock);
        }
        return moment::timestamp(clock.microseconds() + parts.time().map_err(refuse)?);
    }
    parts.civil().map_err(refuse)?.to_timestamp().map_err(|_| out_of_range("timestamp", text))
}

/// The moment that a text writes, by the clock of the zone in it, or of the session's.
///
/// # Errors
/// 22007 and 22008; 22023 for a zone that is not known.
pub fn parse_timestamptz(text: &str, environment: &dyn Environment) -> Result<Timestamp> {
    let name = "timestamp with time zone";
    let refuse = |wrong| error(wrong, name, text);
    let parts = Parts::read(text, environment).map_err(refuse)?;
    match parts.word {
        Some(Word::Now) => return Ok(environment.transaction_time()),
        Some(word @ (Word::Epoch | Word::Infinity(_))) => return clock_of_word(word, environment),
        Some(word) => {
            let clock = clock_of_word(word, environment)?.microseconds() + parts.time().map_err(refuse)?;
            let zone = parts.zone().unwrap_or_else(|| environment.time_zone().clone());
            return from_clock(&zone, moment::timestamp(clock)?);
        }
        None => {}
    }
    let clock = parts.civil().map_err(refuse)?.to_timestamp().map_err(|_| out_of_range("timestamp", text))?;
    match &parts.zone {
        None => from_clock(environment.time_zone(), clock),
        Some(Zone::Seconds(seconds)) => moment::timestamp(clock.microseconds() - seconds * SECOND),
        Some(Zone::Named(zone)) => from_clock(zone, clock),
    }
}
