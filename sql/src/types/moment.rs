//! Dates and times: the calendar, time zones, and how they are written.

use std::fmt::Write as _;

use jiff::civil;
use jiff::tz::{Offset, TimeZone};
use quipu_rows::{Date, Timestamp};

use crate::error::{Result, SqlError, SqlState};
use crate::types::date_style::{DateStyle, Form, Order};
use crate::types::interval::{DAY, HOUR, MINUTE, SECOND, write_clock};
use crate::types::refusal::moment_out_of_range;
use crate::types::zoned_time::ZonedTime;

/// Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
pub(crate) const EPOCH_DAYS: i64 = 10_957;
/// The same in microseconds.
pub(crate) const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS * DAY;

/// A moment in parts, on a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// Microseconds since midnight.
    pub microseconds: i64,
}

/// The year, month and day of a number of days since 1970-01-01.
pub fn date_of_days(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years, which begin with March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a year, month and day, which may be any day of the calendar.
pub fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// How many days a month has.
pub fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Civil {
    /// The parts of microseconds since 1970-01-01.
    pub fn of_microseconds(microseconds: i64) -> Civil {
        let (year, month, day) = date_of_days(microseconds.div_euclid(DAY));
        Civil { year, month, day, microseconds: microseconds.rem_euclid(DAY) }
    }

    /// Microseconds since 1970-01-01.
    pub fn to_microseconds(self) -> Option<i64> {
        days_of_date(self.year, self.month, self.day).checked_mul(DAY)?.checked_add(self.microseconds)
    }

    /// The moment of this clock.
    ///
    /// # Errors
    /// 22008 before 4714 BC and after the year 294246.
    pub fn to_timestamp(self) -> Result<Timestamp> {
        timestamp(self.to_microseconds().ok_or_else(|| moment_out_of_range("timestamp"))?)
    }
}

/// The first day that PostgreSQL has, 4714-11-24 BC: the one from which Julian days are counted.
const FIRST_DAY: i64 = -2_440_588;

/// The moment so many microseconds after 1970-01-01, which is not one of the infinite ones.
///
/// # Errors
/// 22008 before 4714 BC and after the year 294246.
pub fn timestamp(microseconds: i64) -> Result<Timestamp> {
    let moment = Timestamp::from_microseconds(microseconds).filter(|moment| moment.is_finite());
    moment.filter(|_| microseconds >= FIRST_DAY * DAY).ok_or_else(|| moment_out_of_range("timestamp"))
}

/// The day so many days after 1970-01-01, which is not one of the infinite ones.
///
/// # Errors
/// 22008 before 4714 BC and after the year 5874897.
pub fn date(days: i64) -> Result<Date> {
    let date = i32::try_from(days).ok().and_then(Date::from_days).filter(|date| date.is_finite());
    date.filter(|_| days >= FIRST_DAY).ok_or_else(|| moment_out_of_range("date"))
}

/// The midnight with which a day begins; the infinite ones begin with the infinite moments.
///
/// # Errors
/// 22008 after the year 294246.
pub fn midnight_of(date: Date) -> Result<Timestamp> {
    if !date.is_finite() {
        return Ok(if date == Date::INFINITY { Timestamp::INFINITY } else { Timestamp::NEG_INFINITY });
    }
    let microseconds = i64::from(date.days()).checked_mul(DAY);
    microseconds
        .and_then(|microseconds| timestamp(microseconds).ok())
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"))
}

/// The Gregorian calendar repeats itself after 400 years, of so many days.
const CYCLE_YEARS: i64 = 400;
const CYCLE_DAYS: i64 = 146_097;
/// Years after this one are looked up in an earlier cycle, whose rules of zones are the same.
const NEAR_YEAR_MAX: i64 = 9_990;

/// How many cycles of the calendar a year lies after those that have rules of zones.
fn cycles_after(year: i64) -> i64 {
    if year > NEAR_YEAR_MAX { (year - NEAR_YEAR_MAX).div_euclid(CYCLE_YEARS) + 1 } else { 0 }
}

/// The moment at which rules of zones are looked up; none at the ends of the calendar.
fn instant_at(moment: Timestamp) -> Option<jiff::Timestamp> {
    let microseconds = moment.microseconds();
    let cycles = cycles_after(date_of_days(microseconds.div_euclid(DAY)).0);
    jiff::Timestamp::from_microsecond(microseconds - cycles * CYCLE_DAYS * DAY).ok()
}

/// How far a zone's clock is before UTC at a moment, in seconds.
pub fn offset_at(zone: &TimeZone, moment: Timestamp) -> i64 {
    if !moment.is_finite() {
        return 0;
    }
    instant_at(moment).map_or(0, |instant| i64::from(zone.to_offset(instant).seconds()))
}

/// What the clock of a zone shows at a moment.
///
/// # Errors
/// 22008 at the ends of the calendar.
pub fn to_clock(zone: &TimeZone, moment: Timestamp) -> Result<Timestamp> {
    if !moment.is_finite() {
        return Ok(moment);
    }
    timestamp(moment.microseconds() + offset_at(zone, moment) * SECOND)
}

/// The moment at which the clock of a zone shows this. Of two such moments it is the later; when the clock skips it,
/// the offset from before counts.
///
/// # Errors
/// 22008 at the ends of the calendar.
pub fn from_clock(zone: &TimeZone, clock: Timestamp) -> Result<Timestamp> {
    if !clock.is_finite() {
        return Ok(clock);
    }
    let parts = Civil::of_microseconds(clock.microseconds());
    let of_day = parts.microseconds;
    let cycles = cycles_after(parts.year);
    let civil = civil::DateTime::new(
        (parts.year - cycles * CYCLE_YEARS) as i16,
        parts.month as i8,
        parts.day as i8,
        (of_day / HOUR) as i8,
        (of_day % HOUR / MINUTE) as i8,
        (of_day % MINUTE / SECOND) as i8,
        (of_day % SECOND * 1000) as i32,
    );
    let instant = civil.and_then(|civil| zone.to_ambiguous_timestamp(civil).later());
    let near = instant.map_err(|_| moment_out_of_range("timestamp"))?.as_microsecond();
    timestamp(near + cycles * CYCLE_DAYS * DAY)
}

/// The zone that a name stands for: `Europe/Berlin`, `UTC`, `CET`, `+02`, `-05:30`, `UTC+3`.
///
/// # Errors
/// 22023 if no time zone has that name.
pub fn zone(name: &str) -> Result<TimeZone> {
    let unknown = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"));
    let name = name.trim();
    if let Some(seconds) = abbreviation(name) {
        return fixed(seconds).ok_or_else(unknown);
    }
    if let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    if let Some((_, posix)) = name.strip_prefix('<').and_then(|name| name.split_once('>')) {
        let fixed = || fixed(-offset_seconds(posix)?);
        return TimeZone::posix(name).ok().or_else(fixed).ok_or_else(unknown);
    }
    // As in POSIX, what is written after a name is the way to UTC: west is positive. So it is without a name.
    let at = name.find(|c: char| c == '+' || c == '-' || c.is_ascii_digit()).ok_or_else(unknown)?;
    if !name[..at].bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(unknown());
    }
    let seconds = offset_seconds(&name[at..]).ok_or_else(unknown)?;
    fixed(-seconds).ok_or_else(unknown)
}

/// The name of the zone that is always so many hours before UTC: `<+02>-02`, as in POSIX.
pub fn name_of_hours(hours: f64) -> String {
    let seconds = (hours * 3600.0) as i64;
    let length = seconds.abs();
    let minutes = if length % 3600 == 0 { String::new() } else { format!(":{:02}", length % 3600 / 60) };
    let (own, posix) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
    format!("<{own}{:02}{minutes}>{posix}{:02}{minutes}", length / 3600, length / 3600)
}

/// The zone that is always so many seconds before UTC.
pub fn fixed(seconds: i64) -> Option<TimeZone> {
    let seconds = i32::try_from(seconds).ok().filter(|seconds| seconds.abs() < 16 * 3600)?;
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// The seconds of an offset: `+02`, `-05:30`, `+0530`, `+01:02:03`.
pub(crate) fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let number = |text: &str| {
        let is_short = !text.is_empty() && text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_short.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes, seconds) = match parts[..] {
        [hours] if hours.len() == 4 && hours.is_ascii() => (number(&hours[..2])?, number(&hours[2..])?, 0),
        [hours] if hours.len() == 3 && hours.is_ascii() => (number(&hours[..1])?, number(&hours[1..])?, 0),
        [hours] => (number(hours)?, 0, 0),
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return None,
    };
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// The offset in seconds of the usual abbreviations of zones.
pub(crate) fn abbreviation(name: &str) -> Option<i64> {
    const HALF_HOURS: [(&str, i64); 34] = [
        ("utc", 0),
        ("gmt", 0),
        ("z", 0),
        ("zulu", 0),
        ("ut", 0),
        ("wet", 0),
        ("west", 2),
        ("bst", 2),
        ("cet", 2),
        ("cest", 4),
        ("met", 2),
        ("mest", 4),
        ("eet", 4),
        ("eest", 6),
        ("msk", 6),
        ("ist", 4),
        ("pkt", 10),
        ("hkt", 16),
        ("sgt", 16),
        ("jst", 18),
        ("kst", 18),
        ("aest", 20),
        ("aedt", 22),
        ("nzst", 24),
        ("nzdt", 26),
        ("est", -10),
        ("edt", -8),
        ("cst", -12),
        ("cdt", -10),
        ("mst", -14),
        ("mdt", -12),
        ("pst", -16),
        ("pdt", -14),
        ("hst", -20),
    ];
    let found = HALF_HOURS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(found.1 * 1800)
}

/// Appends a day of the calendar without its era.
fn write_civil_date(year: i64, month: i64, day: i64, style: DateStyle, out: &mut String) {
    let year = if year > 0 { year } else { 1 - year };
    let (first, second) = if style.order == Order::Day { (day, month) } else { (month, day) };
    let _ = match style.form {
        Form::Iso | Form::Xsd => write!(out, "{year:04}-{month:02}-{day:02}"),
        Form::German => write!(out, "{day:02}.{month:02}.{year:04}"),
        Form::Sql => write!(out, "{first:02}/{second:02}/{year:04}"),
        Form::Postgres => write!(out, "{first:02}-{second:02}-{year:04}"),
    };
}

fn write_era(year: i64, out: &mut String) {
    out.push_str(if year > 0 { "" } else { " BC" });
}

/// Appends a day in a style: `2024-01-02`, `0044-03-15 BC`, `infinity`.
pub fn write_date(date: Date, style: DateStyle, out: &mut String) {
    if !date.is_finite() {
        out.push_str(if date == Date::INFINITY { "infinity" } else { "-infinity" });
        return;
    }
    let (year, month, day) = date_of_days(date.days().into());
    write_civil_date(year, month, day, style, out);
    write_era(year, out);
}

/// Appends a time of day: `03:04:05.6`.
pub fn write_time(microseconds: i64, out: &mut String) {
    write_clock(microseconds.unsigned_abs(), out);
}

/// Appends a time of day with the offset of its zone: `03:04:05.6+02`.
pub fn write_timetz(time: ZonedTime, out: &mut String) {
    write_time(time.time, out);
    write_offset(time.offset, false, out);
}

/// Appends what a clock shows; with a zone, the clock is that of the zone, whose offset or abbreviation follows.
pub fn write_timestamp(moment: Timestamp, zone: Option<&TimeZone>, style: DateStyle, out: &mut String) {
    if !moment.is_finite() {
        return write_date(moment.date(), style, out);
    }
    let offset = zone.map(|zone| offset_at(zone, moment));
    let clock = Civil::of_microseconds(moment.microseconds() + offset.unwrap_or(0) * SECOND);
    if style.form == Form::Postgres {
        write_named_day(clock, style.order, out);
    } else {
        write_civil_date(clock.year, clock.month, clock.day, style, out);
    }
    out.push(if style.form == Form::Xsd { 'T' } else { ' ' });
    write_time(clock.microseconds, out);
    if style.form == Form::Postgres {
        let _ = write!(out, " {:04}", if clock.year > 0 { clock.year } else { 1 - clock.year });
    }
    match (zone, offset, style.form) {
        (_, Some(offset), form @ (Form::Iso | Form::Xsd)) => write_offset(offset, form == Form::Xsd, out),
        (Some(zone), Some(offset), _) => write_abbreviation(zone, moment, offset, out),
        _ => {}
    }
    write_era(clock.year, out);
}

/// Appends a day with its names: `Tue Jan 02`, or `Tue 02 Jan`.
fn write_named_day(clock: Civil, order: Order, out: &mut String) {
    const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // 1970-01-01 was a Thursday.
    let days = days_of_date(clock.year, clock.month, clock.day) + 4;
    let (weekday, month) = (WEEKDAYS[days.rem_euclid(7) as usize], MONTHS[clock.month as usize - 1]);
    let _ = match order {
        Order::Day => write!(out, "{weekday} {:02} {month}", clock.day),
        Order::Month | Order::Year => write!(out, "{weekday} {month} {:02}", clock.day),
    };
}

/// Appends the abbreviation that a zone has at a moment: ` CEST`; of zones without letters, the offset: ` +0545`.
fn write_abbreviation(zone: &TimeZone, moment: Timestamp, offset: i64, out: &mut String) {
    out.push(' ');
    match instant_at(moment) {
        Some(instant) => out.extend(zone.to_offset_info(instant).abbreviation().chars().filter(|c| *c != ':')),
        None => write_offset(offset, false, out),
    }
}

/// Appends an offset from UTC: `+02`, `-05:30`.
fn write_offset(offset: i64, has_minutes: bool, out: &mut String) {
    let length = offset.abs();
    let (hours, minutes, seconds) = (length / 3600, length % 3600 / 60, length % 60);
    let _ = write!(out, "{}{hours:02}", if offset < 0 { '-' } else { '+' });
    if minutes != 0 || seconds != 0 || has_minutes {
        let _ = write!(out, ":{minutes:02}");
    }
    if seconds != 0 {
        let _ = write!(out, ":{seconds:02}");
    }
}
