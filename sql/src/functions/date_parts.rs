//! Parts of dates and times: EXTRACT, `date_part`, `date_trunc`.

use quipu_rows::Timestamp;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::dates::time;
use crate::functions::definition::{Definitions, date, interval, moment, text};
use crate::numeric::{self, Numeric};
use crate::types::datum::{Datum, Interval};
use crate::types::interval::{DAY, HOUR, MINUTE, SECOND};
use crate::types::moment::{self, Civil, days_of_date, from_clock, offset_at, to_clock};
use crate::types::zoned_time::ZonedTime;

pub(crate) fn define(definitions: &mut Definitions) {
    for (name, result) in [("extract", "numeric"), ("date_part", "float8")] {
        let is_exact = name == "extract";
        let date = format!("{name}(text,date) {result}").leak();
        let clock = format!("{name}(text,timestamp) {result}").leak();
        let instant = format!("{name}(text,timestamptz) {result}").leak();
        let of_day = format!("{name}(text,time) {result}").leak();
        let of_zoned_day = format!("{name}(text,timetz) {result}").leak();
        let length = format!("{name}(text,interval) {result}").leak();
        if is_exact {
            definitions.add(date, |_, v| match is_endless(v)? {
                false => of_date(v).map(Datum::Numeric),
                true => exact_of_endless(v, "date"),
            });
            definitions.add(clock, |_, v| match is_endless(v)? {
                false => of_clock(v, None).map(Datum::Numeric),
                true => exact_of_endless(v, CLOCK),
            });
            let of_moment = definitions.add(instant, |e, v| match is_endless(v)? {
                false => of_clock(v, Some(e)).map(Datum::Numeric),
                true => exact_of_endless(v, MOMENT),
            });
            of_moment.stable();
            definitions.add(of_day, |_, v| of_time(v).map(Datum::Numeric));
            definitions.add(of_zoned_day, |_, v| of_timetz(v).map(Datum::Numeric));
            definitions.add(length, |_, v| of_interval(v).map(Datum::Numeric));
        } else {
            definitions.each(&[date, clock], |_, v| match is_endless(v)? {
                false => of_clock(v, None).map(to_float),
                true => of_endless(v, CLOCK),
            });
            let of_moment = definitions.add(instant, |e, v| match is_endless(v)? {
                false => of_clock(v, Some(e)).map(to_float),
                true => of_endless(v, MOMENT),
            });
            of_moment.stable();
            definitions.add(of_day, |_, v| of_time(v).map(to_float));
            definitions.add(of_zoned_day, |_, v| of_timetz(v).map(to_float));
            definitions.add(length, |_, v| of_interval(v).map(to_float));
        }
    }
    definitions.add("date_trunc(text,timestamp) timestamp", |_, v| {
        truncate(text(v, 0)?, moment(v, 1)?, CLOCK).map(Datum::Timestamp)
    });
    let in_session = definitions
        .add("date_trunc(text,timestamptz) timestamptz", |environment, v| truncate_in(environment.time_zone(), v));
    in_session.stable();
    let in_zone = definitions
        .add("date_trunc(text,timestamptz,text) timestamptz", |_, v| truncate_in(&moment::zone(text(v, 2)?)?, v));
    in_zone.stable();
    definitions.add("date_trunc(text,interval) interval", |_, v| {
        truncate_interval(text(v, 0)?, interval(v, 1)?).map(Datum::Interval)
    });
}

/// The names of types in messages.
const CLOCK: &str = "timestamp without time zone";
const MOMENT: &str = "timestamp with time zone";

/// Whether the date or moment is one of the infinite ones.
fn is_endless(values: &[Datum]) -> Result<bool> {
    match values.get(1) {
        Some(Datum::Date(date)) => Ok(!date.is_finite()),
        _ => Ok(!moment(values, 1)?.is_finite()),
    }
}

/// A part of an infinite date or moment: what grows without end is infinite, and what begins again is NULL.
fn of_endless(values: &[Datum], type_name: &str) -> Result<Datum> {
    let end = if moment(values, 1)? == Timestamp::INFINITY { f64::INFINITY } else { f64::NEG_INFINITY };
    match unit(text(values, 0)?).as_str() {
        "year" | "decade" | "century" | "millennium" | "julian" | "isoyear" | "epoch" => Ok(Datum::Float(end)),
        "microseconds" | "milliseconds" | "second" | "minute" | "hour" | "day" | "month" | "quarter" | "week"
        | "dow" | "isodow" | "doy" => Ok(Datum::Null),
        "timezone" | "timezone_hour" | "timezone_minute" if type_name == MOMENT => Ok(Datum::Null),
        name => Err(unsupported(name, type_name)),
    }
}

/// The same as an exact number.
fn exact_of_endless(values: &[Datum], type_name: &str) -> Result<Datum> {
    Ok(match of_endless(values, type_name)? {
        Datum::Float(end) => Datum::Numeric(Numeric::Infinite { is_negative: end < 0.0 }),
        other => other,
    })
}

fn to_float(number: Numeric) -> Datum {
    Datum::Float(number.to_f64())
}

/// The one name of a unit, of its several.
pub(crate) fn unit(name: &str) -> String {
    let lower = name.trim().to_ascii_lowercase();
    let known = match lower.as_str() {
        "years" | "y" | "yr" | "yrs" => "year",
        "months" | "mon" | "mons" => "month",
        "days" | "d" => "day",
        "hours" | "h" | "hr" | "hrs" => "hour",
        "minutes" | "m" | "min" | "mins" => "minute",
        "seconds" | "s" | "sec" | "secs" => "second",
        "millisecond" | "ms" | "msec" | "msecs" => "milliseconds",
        "microsecond" | "us" | "usec" | "usecs" => "microseconds",
        "weeks" | "w" => "week",
        "decades" | "dec" | "decs" => "decade",
        "centuries" | "c" | "cent" => "century",
        "millennia" | "mil" | "mils" => "millennium",
        "qtr" => "quarter",
        other => other,
    };
    known.to_owned()
}

fn unsupported(unit: &str, type_name: &str) -> SqlError {
    let is_known = matches!(
        unit,
        "year"
            | "month"
            | "day"
            | "hour"
            | "minute"
            | "second"
            | "milliseconds"
            | "microseconds"
            | "week"
            | "decade"
            | "century"
            | "millennium"
            | "quarter"
            | "dow"
            | "isodow"
            | "doy"
            | "isoyear"
            | "julian"
            | "epoch"
            | "timezone"
            | "timezone_hour"
            | "timezone_minute"
    );
    match is_known {
        true => {
            let message = format!("unit \"{unit}\" not supported for type {type_name}");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        }
        false => {
            let message = format!("unit \"{unit}\" not recognized for type {type_name}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
    }
}

fn exact(units: i64, scale: u8) -> Result<Numeric> {
    Ok(Numeric::new(units.into(), scale))
}

/// The week of ISO 8601 and the year that it belongs to.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    // The Thursday of a week is in its year. 1970-01-01 was one.
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, ..) = moment::date_of_days(thursday);
    ((thursday - days_of_date(year, 1, 1)) / 7 + 1, year)
}

/// The number of a century or a millennium, of which the first begins with the year 1.
fn period(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - 1 - (year - 1)) / length) }
}

/// Years as they are counted: the one before 1 is -1.
fn counted(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// A part of a day; none if it is one of a time.
fn day_part(unit: &str, days: i64) -> Option<i64> {
    let (year, month, day) = moment::date_of_days(days);
    Some(match unit {
        "year" => counted(year),
        "month" => month,
        "day" => day,
        "quarter" => (month - 1) / 3 + 1,
        "week" => iso_week(days).0,
        "isoyear" => counted(iso_week(days).1),
        "dow" => (days + 4).rem_euclid(7),
        "isodow" => (days + 3).rem_euclid(7) + 1,
        "doy" => days - days_of_date(year, 1, 1) + 1,
        "decade" => year.div_euclid(10),
        "century" => period(year, 100),
        "millennium" => period(year, 1000),
        _ => return None,
    })
}

/// A part of a time of day, or of the time of an interval.
fn time_part(unit: &str, time: i64) -> Option<Result<Numeric>> {
    Some(match unit {
        "hour" => exact(time / HOUR, 0),
        "minute" => exact(time % HOUR / MINUTE, 0),
        "second" => exact(time % MINUTE, 6),
        "milliseconds" => exact(time % MINUTE, 3),
        "microseconds" => exact(time % MINUTE, 0),
        _ => return None,
    })
}

/// The days from the beginning of Julian days to 1970-01-01.
const JULIAN_DAYS: i64 = 2_440_588;

fn of_date(values: &[Datum]) -> Result<Numeric> {
    let unit = unit(text(values, 0)?);
    let days = i64::from(date(values, 1)?.days());
    match unit.as_str() {
        "epoch" => exact(days * 86_400, 0),
        "julian" => exact(days + JULIAN_DAYS, 0),
        name => match day_part(name, days) {
            Some(part) => exact(part, 0),
            None => Err(unsupported(name, "date")),
        },
    }
}

fn of_clock(values: &[Datum], environment: Option<&dyn Environment>) -> Result<Numeric> {
    let unit = unit(text(values, 0)?);
    let instant = moment(values, 1)?;
    let offset = environment.map(|environment| offset_at(environment.time_zone(), instant));
    let clock = instant.microseconds() + offset.unwrap_or(0) * SECOND;
    let days = clock.div_euclid(DAY);
    if let Some(part) = day_part(&unit, days) {
        return exact(part, 0);
    }
    if let Some(part) = time_part(&unit, clock.rem_euclid(DAY)) {
        return part;
    }
    match (unit.as_str(), offset) {
        ("epoch", _) => exact(instant.microseconds(), 6),
        ("julian", _) => {
            let part = numeric::quotient(&clock.rem_euclid(DAY).into(), &DAY.into())?;
            numeric::add(&(days + JULIAN_DAYS).into(), &part)
        }
        (name, Some(offset)) => match offset_part(name, offset) {
            Some(part) => exact(part, 0),
            None => Err(unsupported(name, MOMENT)),
        },
        (name, None) => Err(unsupported(name, CLOCK)),
    }
}

fn of_time(values: &[Datum]) -> Result<Numeric> {
    let unit = unit(text(values, 0)?);
    let time = time(values, 1)?;
    match time_part(&unit, time) {
        Some(part) => part,
        None if unit == "epoch" => exact(time, 6),
        None => Err(unsupported(&unit, "time without time zone")),
    }
}

/// A part of the offset of a zone.
fn offset_part(unit: &str, offset: i64) -> Option<i64> {
    match unit {
        "timezone" => Some(offset),
        "timezone_hour" => Some(offset / 3600),
        "timezone_minute" => Some(offset % 3600 / 60),
        _ => None,
    }
}

fn of_timetz(values: &[Datum]) -> Result<Numeric> {
    let unit = unit(text(values, 0)?);
    let zoned = ZonedTime::of_int(time(values, 1)?);
    if let Some(part) = time_part(&unit, zoned.time) {
        return part;
    }
    match (unit.as_str(), offset_part(&unit, zoned.offset)) {
        (_, Some(part)) => exact(part, 0),
        ("epoch", _) => exact(zoned.in_utc(), 6),
        (name, None) => Err(unsupported(name, "time with time zone")),
    }
}

fn of_interval(values: &[Datum]) -> Result<Numeric> {
    let unit = unit(text(values, 0)?);
    let Interval { months, days, microseconds } = interval(values, 1)?;
    let (years, rest) = (i64::from(months) / 12, i64::from(months) % 12);
    if let Some(part) = time_part(&unit, microseconds) {
        return part;
    }
    match unit.as_str() {
        "year" => exact(years, 0),
        "month" => exact(rest, 0),
        "day" => exact(days.into(), 0),
        "quarter" => exact(rest / 3 + 1, 0),
        "decade" => exact(years / 10, 0),
        "century" => exact(years / 100, 0),
        "millennium" => exact(years / 1000, 0),
        "epoch" => {
            // A year has 365 days and a quarter, a month outside of a whole year has 30.
            let seconds = i128::from(years) * 31_557_600 + i128::from(rest) * 2_592_000 + i128::from(days) * 86_400;
            let total = seconds * i128::from(SECOND) + i128::from(microseconds);
            Ok(Numeric::new(total, 6))
        }
        name => Err(unsupported(name, "interval")),
    }
}

/// A clock cut to a unit.
fn truncate(name: &str, clock: Timestamp, type_name: &str) -> Result<Timestamp> {
    if !clock.is_finite() {
        return Ok(clock);
    }
    let unit = unit(name);
    let civil = Civil::of_microseconds(clock.microseconds());
    let begin_of = |year: i64, month: i64| Civil { year, month, day: 1, microseconds: 0 }.to_timestamp();
    let year_of = |length: i64| (civil.year - 1).div_euclid(length) * length + 1;
    let cut = |length: i64| moment::timestamp(clock.microseconds().div_euclid(length) * length);
    match unit.as_str() {
        "microseconds" => Ok(clock),
        "milliseconds" => cut(1000),
        "second" => cut(SECOND),
        "minute" => cut(MINUTE),
        "hour" => cut(HOUR),
        "day" => cut(DAY),
        "week" => {
            let days = clock.microseconds().div_euclid(DAY);
            moment::timestamp((days - (days + 3).rem_euclid(7)) * DAY)
        }
        "month" => begin_of(civil.year, civil.month),
        "quarter" => begin_of(civil.year, (civil.month - 1) / 3 * 3 + 1),
        "year" => begin_of(civil.year, 1),
        "decade" => begin_of(civil.year.div_euclid(10) * 10, 1),
        "century" => begin_of(year_of(100), 1),
        "millennium" => begin_of(year_of(1000), 1),
        name => Err(unsupported(name, type_name)),
    }
}

fn truncate_in(zone: &jiff::tz::TimeZone, values: &[Datum]) -> Result<Datum> {
    let clock = to_clock(zone, moment(values, 1)?)?;
    let cut = truncate(text(values, 0)?, clock, MOMENT)?;
    from_clock(zone, cut).map(Datum::Timestamp)
}

fn truncate_interval(name: &str, interval: Interval) -> Result<Interval> {
    let Interval { months, days, microseconds } = interval;
    let of_months = |unit: i32| Interval::new(months / unit * unit, 0, 0);
    let of_time = |unit: i64| Interval::new(months, days, microseconds / unit * unit);
    Ok(match unit(name).as_str() {
        "microseconds" => interval,
        "milliseconds" => of_time(1000),
        "second" => of_time(SECOND),
        "minute" => of_time(MINUTE),
        "hour" => of_time(HOUR),
        "day" => Interval::new(months, days, 0),
        "month" => of_months(1),
        "quarter" => of_months(3),
        "year" => of_months(12),
        "decade" => of_months(120),
        "century" => of_months(1200),
        "millennium" => of_months(12_000),
        name => return Err(unsupported(name, "interval")),
    })
}
