//! Arithmetic and functions of dates and times.

use quipu_rows::{Date, Timestamp};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::definition::{Body, Definitions, date, float, int, interval, moment, text};
use crate::types::BaseType;
use crate::types::datum::{Datum, Interval};
use crate::types::interval::{DAY, HOUR, MINUTE, SECOND, out_of_range};
use crate::types::moment::{self, Civil, days_of_month, from_clock, to_clock};
use crate::types::refusal::{division_by_zero, mismatch, moment_out_of_range};
use crate::types::zoned_time::ZonedTime;

pub(crate) fn define(definitions: &mut Definitions) {
    days(definitions);
    moments(definitions);
    times(definitions);
    intervals(definitions);
    clocks(definitions);
    zones(definitions);
    makers(definitions);
    overlaps(definitions);
}

/// Whether two stretches of time overlap, each from its lesser end up to the other one, which is not in it. An end that
/// is NULL is not known.
fn overlap(ends: [Option<i64>; 4]) -> Datum {
    let ordered = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (None, None) => None,
        (Some(from), None) | (None, Some(from)) => Some((from, None)),
        (Some(a), Some(b)) => Some((a.min(b), Some(a.max(b)))),
    };
    let (Some(first), Some(second)) = (ordered(ends[0], ends[1]), ordered(ends[2], ends[3])) else {
        return Datum::Null;
    };
    let (earlier, later) = if first.0 <= second.0 { (first, second) } else { (second, first) };
    if earlier.0 == later.0 {
        return if earlier.1.is_some() && later.1.is_some() { Datum::Bool(true) } else { Datum::Null };
    }
    match (earlier.1, later.1) {
        (None, _) => Datum::Null,
        (Some(end), _) if later.0 < end => Datum::Bool(true),
        (_, None) => Datum::Null,
        _ => Datum::Bool(false),
    }
}

/// The end of a stretch of time, which may be given by its length.
fn end_of(environment: &dyn Environment, from: &Datum, end: &Datum, is_zoned: bool) -> Result<Option<i64>> {
    Ok(match (from, end) {
        (Datum::Timestamp(from), Datum::Interval(length)) if is_zoned => {
            Some(add_to_moment(environment, *from, *length)?.microseconds())
        }
        (Datum::Timestamp(from), Datum::Interval(length)) => Some(add_to_clock(*from, *length)?.microseconds()),
        (Datum::Int(from), Datum::Interval(length)) => Some(from.saturating_add(length.microseconds).rem_euclid(DAY)),
        (_, Datum::Timestamp(end)) => Some(end.microseconds()),
        (_, Datum::Int(end)) => Some(*end),
        _ => None,
    })
}

fn overlap_of(environment: &dyn Environment, v: &[Datum], is_zoned: bool) -> Result<Datum> {
    let ends = |from: &Datum, end: &Datum| -> Result<[Option<i64>; 2]> {
        Ok([end_of(environment, &Datum::Null, from, is_zoned)?, end_of(environment, from, end, is_zoned)?])
    };
    let ([a, b], [c, d]) = (ends(&v[0], &v[1])?, ends(&v[2], &v[3])?);
    Ok(overlap([a, b, c, d]))
}

fn overlaps(definitions: &mut Definitions) {
    for name in ["timestamp", "timestamptz", "time"] {
        for (first, second) in [(name, name), (name, "interval"), ("interval", name), ("interval", "interval")] {
            let signature = format!("overlaps({name},{first},{name},{second}) bool").leak();
            let body: Body = match name {
                "timestamptz" => |environment, v| overlap_of(environment, v, true),
                _ => |environment, v| overlap_of(environment, v, false),
            };
            definitions.add(signature, body).lenient();
        }
    }
}

/// A clock so much later: months first, of which a shorter one has fewer days, then days, then time.
pub(crate) fn add_to_clock(clock: Timestamp, interval: Interval) -> Result<Timestamp> {
    if !clock.is_finite() {
        return Ok(clock);
    }
    let refuse = || moment_out_of_range("timestamp");
    let mut microseconds = clock.microseconds();
    if interval.months != 0 {
        let civil = Civil::of_microseconds(microseconds);
        let months = civil.year * 12 + civil.month - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let day = civil.day.min(days_of_month(year, month));
        microseconds = Civil { year, month, day, ..civil }.to_microseconds().ok_or_else(refuse)?;
    }
    let days = i64::from(interval.days).checked_mul(DAY).and_then(|days| microseconds.checked_add(days));
    let sum = days.and_then(|sum| sum.checked_add(interval.microseconds)).ok_or_else(refuse)?;
    moment::timestamp(sum)
}

/// A moment so much later: months and days by the clock of the session, time as it passes.
pub(crate) fn add_to_moment(environment: &dyn Environment, start: Timestamp, interval: Interval) -> Result<Timestamp> {
    let mut moved = start;
    if interval.months != 0 || interval.days != 0 {
        let zone = environment.time_zone();
        let clock = add_to_clock(to_clock(zone, start)?, Interval { microseconds: 0, ..interval })?;
        moved = from_clock(zone, clock)?;
    }
    add_to_clock(moved, Interval::new(0, 0, interval.microseconds))
}

fn negated(interval: Interval) -> Result<Interval> {
    interval.checked_neg().ok_or_else(out_of_range)
}

/// A day so many days later.
fn days_later(date: Date, days: i64) -> Result<Datum> {
    let moved = if date.is_finite() { moment::date(i64::from(date.days()) + days)? } else { date };
    Ok(Datum::Date(moved))
}

fn days(definitions: &mut Definitions) {
    definitions.add("+(date,int4) date", |_, v| days_later(date(v, 0)?, int(v, 1)?));
    definitions.add("+(int4,date) date", |_, v| days_later(date(v, 1)?, int(v, 0)?));
    definitions.add("-(date,int4) date", |_, v| days_later(date(v, 0)?, -int(v, 1)?));
    definitions.add("-(date,date) int4", |_, v| {
        let (later, earlier) = (date(v, 0)?, date(v, 1)?);
        if !later.is_finite() || !earlier.is_finite() {
            return Err(field_error("cannot subtract infinite dates".to_owned()));
        }
        Ok(Datum::Int(i64::from(later.days()) - i64::from(earlier.days())))
    });
    let plus: Body = |_, v| Ok(Datum::Timestamp(add_to_clock(moment(v, 0)?, interval(v, 1)?)?));
    let plus_reversed: Body = |_, v| Ok(Datum::Timestamp(add_to_clock(moment(v, 1)?, interval(v, 0)?)?));
    let minus: Body = |_, v| Ok(Datum::Timestamp(add_to_clock(moment(v, 0)?, negated(interval(v, 1)?)?)?));
    for name in ["date", "timestamp"] {
        definitions.add(format!("+({name},interval) timestamp").leak(), plus);
        definitions.add(format!("+(interval,{name}) timestamp").leak(), plus_reversed);
        definitions.add(format!("-({name},interval) timestamp").leak(), minus);
    }
    definitions.add("+(date,time) timestamp", |_, v| {
        Ok(Datum::Timestamp(add_to_clock(moment(v, 0)?, Interval::new(0, 0, int(v, 1)?))?))
    });
    definitions.add("+(time,date) timestamp", |_, v| {
        Ok(Datum::Timestamp(add_to_clock(moment(v, 1)?, Interval::new(0, 0, int(v, 0)?))?))
    });
}

fn moments(definitions: &mut Definitions) {
    let plus: Body = |environment, v| Ok(Datum::Timestamp(add_to_moment(environment, moment(v, 0)?, interval(v, 1)?)?));
    definitions.add("+(timestamptz,interval) timestamptz", plus).stable();
    let plus_reversed: Body =
        |environment, v| Ok(Datum::Timestamp(add_to_moment(environment, moment(v, 1)?, interval(v, 0)?)?));
    definitions.add("+(interval,timestamptz) timestamptz", plus_reversed).stable();
    let minus: Body =
        |environment, v| Ok(Datum::Timestamp(add_to_moment(environment, moment(v, 0)?, negated(interval(v, 1)?)?)?));
    definitions.add("-(timestamptz,interval) timestamptz", minus).stable();
    definitions.each(&["-(timestamp,timestamp) interval", "-(timestamptz,timestamptz) interval"], |_, v| {
        let (later, earlier) = (moment(v, 0)?, moment(v, 1)?);
        if !later.is_finite() || !earlier.is_finite() {
            return Err(field_error("cannot subtract infinite timestamps".to_owned()));
        }
        let difference = later.microseconds().checked_sub(earlier.microseconds()).ok_or_else(out_of_range)?;
        Ok(Datum::Interval(justify_hours(Interval::new(0, 0, difference))?))
    });
    definitions
        .add("age(timestamp,timestamp) interval", |_, v| Ok(Datum::Interval(age(moment(v, 0)?, moment(v, 1)?)?)));
    let age_of_moments = definitions.add("age(timestamptz,timestamptz) interval", |environment, v| {
        let zone = environment.time_zone();
        Ok(Datum::Interval(age(to_clock(zone, moment(v, 0)?)?, to_clock(zone, moment(v, 1)?)?)?))
    });
    age_of_moments.stable();
    let since = definitions.add("age(timestamp) interval", |environment, v| {
        Ok(Datum::Interval(age(midnight(environment)?, moment(v, 0)?)?))
    });
    since.stable();
    let since = definitions.add("age(timestamptz) interval", |environment, v| {
        Ok(Datum::Interval(age(midnight(environment)?, to_clock(environment.time_zone(), moment(v, 0)?)?)?))
    });
    since.stable();
}

/// The midnight with which the day of the session began, on its clock.
fn midnight(environment: &dyn Environment) -> Result<Timestamp> {
    let clock = to_clock(environment.time_zone(), environment.transaction_time())?;
    moment::timestamp(clock.microseconds().div_euclid(DAY) * DAY)
}

/// Years, months and days between two clocks: a month that is borrowed has the days of the earlier one's month.
fn age(later: Timestamp, earlier: Timestamp) -> Result<Interval> {
    if !later.is_finite() || !earlier.is_finite() {
        return Err(moment_out_of_range("timestamp"));
    }
    if later < earlier {
        return negated(age(earlier, later)?);
    }
    let (a, b) = (Civil::of_microseconds(later.microseconds()), Civil::of_microseconds(earlier.microseconds()));
    let (mut months, mut days) = ((a.year - b.year) * 12 + a.month - b.month, a.day - b.day);
    let mut microseconds = a.microseconds - b.microseconds;
    if microseconds < 0 {
        microseconds += DAY;
        days -= 1;
    }
    if days < 0 {
        days += days_of_month(b.year, b.month);
        months -= 1;
    }
    Ok(Interval::new(months as i32, days as i32, microseconds))
}

fn times(definitions: &mut Definitions) {
    definitions.add("+(time,interval) time", |_, v| Ok(on_clock(int(v, 0)?, interval(v, 1)?.microseconds.into())));
    definitions.add("+(interval,time) time", |_, v| Ok(on_clock(int(v, 1)?, interval(v, 0)?.microseconds.into())));
    definitions
        .add("-(time,interval) time", |_, v| Ok(on_clock(int(v, 0)?, -i128::from(interval(v, 1)?.microseconds))));
    definitions
        .add("+(timetz,interval) timetz", |_, v| Ok(zoned_later(int(v, 0)?, interval(v, 1)?.microseconds.into())));
    definitions
        .add("+(interval,timetz) timetz", |_, v| Ok(zoned_later(int(v, 1)?, interval(v, 0)?.microseconds.into())));
    definitions.add("-(timetz,interval) timetz", |_, v| {
        Ok(zoned_later(int(v, 0)?, -i128::from(interval(v, 1)?.microseconds)))
    });
    definitions.add("+(date,timetz) timestamptz", |_, v| zoned_day(moment(v, 0)?, int(v, 1)?));
    definitions.add("+(timetz,date) timestamptz", |_, v| zoned_day(moment(v, 1)?, int(v, 0)?));
    definitions.add("-(time,time) interval", |_, v| Ok(Datum::Interval(Interval::new(0, 0, int(v, 0)? - int(v, 1)?))));
}

/// A time of day so much later, round the clock.
fn on_clock(time: i64, by: i128) -> Datum {
    Datum::Int((i128::from(time) + by).rem_euclid(DAY.into()) as i64)
}

/// A time of day with a zone so much later, round the clock of its zone.
fn zoned_later(int: i64, by: i128) -> Datum {
    let ZonedTime { time, offset } = ZonedTime::of_int(int);
    let time = (i128::from(time) + by).rem_euclid(DAY.into()) as i64;
    Datum::Int(ZonedTime { time, offset }.to_int())
}

/// The moment of a day at which a clock with a zone shows a time.
fn zoned_day(midnight: Timestamp, int: i64) -> Result<Datum> {
    add_to_clock(midnight, Interval::new(0, 0, ZonedTime::of_int(int).in_utc())).map(Datum::Timestamp)
}

/// The same moment of the day on the clock of a zone with another offset.
fn zoned_elsewhere(int: i64, offset: i64) -> Datum {
    let in_utc = ZonedTime::of_int(int).in_utc();
    Datum::Int(ZonedTime { time: (in_utc + offset * SECOND).rem_euclid(DAY), offset }.to_int())
}

fn checked(interval: Option<Interval>) -> Result<Datum> {
    interval.map(Datum::Interval).ok_or_else(out_of_range)
}

fn intervals(definitions: &mut Definitions) {
    definitions.add("+(interval,interval) interval", |_, v| checked(interval(v, 0)?.plus(interval(v, 1)?)));
    definitions.add("-(interval,interval) interval", |_, v| checked(interval(v, 0)?.plus(negated(interval(v, 1)?)?)));
    definitions.add("-(interval) interval", |_, v| negated(interval(v, 0)?).map(Datum::Interval));
    definitions.add("*(interval,float8) interval", |_, v| checked(interval(v, 0)?.checked_mul(float(v, 1)?)));
    definitions.add("*(float8,interval) interval", |_, v| checked(interval(v, 1)?.checked_mul(float(v, 0)?)));
    definitions.add("/(interval,float8) interval", |_, v| {
        let divisor = float(v, 1)?;
        if divisor == 0.0 {
            return Err(division_by_zero());
        }
        checked(interval(v, 0)?.checked_mul(1.0 / divisor))
    });
    definitions.add("justify_hours(interval) interval", |_, v| justify_hours(interval(v, 0)?).map(Datum::Interval));
    definitions.add("justify_days(interval) interval", |_, v| justify_days(interval(v, 0)?).map(Datum::Interval));
    definitions.add("justify_interval(interval) interval", |_, v| {
        let interval = justify_days(justify_hours(interval(v, 0)?)?)?;
        let Interval { mut months, mut days, mut microseconds } = interval;
        if months > 0 && (days < 0 || (days == 0 && microseconds < 0)) {
            (months, days) = (months - 1, days + 30);
        } else if months < 0 && (days > 0 || (days == 0 && microseconds > 0)) {
            (months, days) = (months + 1, days - 30);
        }
        if days > 0 && microseconds < 0 {
            (days, microseconds) = (days - 1, microseconds + DAY);
        } else if days < 0 && microseconds > 0 {
            (days, microseconds) = (days + 1, microseconds - DAY);
        }
        Ok(Datum::Interval(Interval::new(months, days, microseconds)))
    });
    definitions.add("isfinite(interval) bool", |_, _| Ok(Datum::Bool(true)));
    definitions.add("isfinite(date) bool", |_, v| Ok(Datum::Bool(date(v, 0)?.is_finite())));
    definitions.each(&["isfinite(timestamp) bool", "isfinite(timestamptz) bool"], |_, v| {
        Ok(Datum::Bool(moment(v, 0)?.is_finite()))
    });
}

/// Time of 24 hours as days; both have one sign then.
fn justify_hours(interval: Interval) -> Result<Interval> {
    let whole = i32::try_from(interval.microseconds / DAY).ok();
    let mut days = whole.and_then(|whole| interval.days.checked_add(whole)).ok_or_else(out_of_range)?;
    let mut microseconds = interval.microseconds % DAY;
    if days > 0 && microseconds < 0 {
        (days, microseconds) = (days - 1, microseconds + DAY);
    } else if days < 0 && microseconds > 0 {
        (days, microseconds) = (days + 1, microseconds - DAY);
    }
    Ok(Interval { days, microseconds, ..interval })
}

/// 30 days as a month; both have one sign then.
fn justify_days(interval: Interval) -> Result<Interval> {
    let mut months = interval.months.checked_add(interval.days / 30).ok_or_else(out_of_range)?;
    let mut days = interval.days % 30;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    Ok(Interval { months, days, ..interval })
}

fn clocks(definitions: &mut Definitions) {
    for name in ["now", "current_timestamp", "transaction_timestamp"] {
        let now: Body = |environment, _| Ok(Datum::Timestamp(environment.transaction_time()));
        definitions.add(format!("{name}() timestamptz").leak(), now).stable();
    }
    let rounded_now: Body = |environment, v| rounded(environment.transaction_time(), int(v, 0)?);
    definitions.add("current_timestamp(int4) timestamptz", rounded_now).stable();
    let statement: Body = |environment, _| Ok(Datum::Timestamp(environment.statement_time()));
    definitions.add("statement_timestamp() timestamptz", statement).stable();
    // The clock itself, which no session stops.
    definitions
        .add("clock_timestamp() timestamptz", |_, _| {
            Ok(Datum::Timestamp(moment::timestamp(jiff::Timestamp::now().as_microsecond())?))
        })
        .volatile();
    let local: Body =
        |environment, _| Ok(Datum::Timestamp(to_clock(environment.time_zone(), environment.transaction_time())?));
    definitions.add("localtimestamp() timestamp", local).stable();
    let rounded_local: Body =
        |environment, v| rounded(to_clock(environment.time_zone(), environment.transaction_time())?, int(v, 0)?);
    definitions.add("localtimestamp(int4) timestamp", rounded_local).stable();
    let time: Body = |environment, _| {
        let clock = to_clock(environment.time_zone(), environment.transaction_time())?;
        Ok(Datum::Int(clock.microseconds().rem_euclid(DAY)))
    };
    definitions.add("localtime() time", time).stable();
    let rounded_time: Body = |environment, v| {
        let clock = to_clock(environment.time_zone(), environment.transaction_time())?;
        let Datum::Timestamp(clock) = rounded(clock, int(v, 0)?)? else { return Ok(Datum::Null) };
        Ok(Datum::Int(clock.microseconds().rem_euclid(DAY)))
    };
    definitions.add("localtime(int4) time", rounded_time).stable();
    let zoned: Body = |environment, _| zoned_now(environment, 6);
    definitions.add("current_time() timetz", zoned).stable();
    let rounded_zoned: Body = |environment, v| zoned_now(environment, int(v, 0)?);
    definitions.add("current_time(int4) timetz", rounded_zoned).stable();
    let today: Body =
        |environment, _| Ok(Datum::Date(moment::date(midnight(environment)?.microseconds().div_euclid(DAY))?));
    definitions.add("current_date() date", today).stable();
}

/// The time of day in the session's zone, to so many digits of a second.
fn zoned_now(environment: &dyn Environment, digits: i64) -> Result<Datum> {
    let (now, zone) = (environment.transaction_time(), environment.time_zone());
    let Datum::Timestamp(clock) = rounded(to_clock(zone, now)?, digits)? else { return Ok(Datum::Null) };
    let time = clock.microseconds().rem_euclid(DAY);
    Ok(Datum::Int(ZonedTime { time, offset: moment::offset_at(zone, now) }.to_int()))
}

/// A moment to so many digits of a second.
fn rounded(moment: Timestamp, digits: i64) -> Result<Datum> {
    if !moment.is_finite() {
        return Ok(Datum::Timestamp(moment));
    }
    let unit = 10i64.pow(6 - digits.clamp(0, 6) as u32);
    let rounded = (moment.microseconds() + unit / 2).div_euclid(unit) * unit;
    Ok(Datum::Timestamp(moment::timestamp(rounded)?))
}

/// A moment so much later, as the clock of a zone with that offset shows it.
fn shifted(moment: Timestamp, offset: Interval) -> Result<Datum> {
    add_to_clock(moment, Interval::new(0, 0, offset.microseconds)).map(Datum::Timestamp)
}

fn zones(definitions: &mut Definitions) {
    definitions.add("timezone(text,timestamptz) timestamp", |_, v| {
        Ok(Datum::Timestamp(to_clock(&moment::zone(text(v, 0)?)?, moment(v, 1)?)?))
    });
    definitions.add("timezone(text,timestamp) timestamptz", |_, v| {
        Ok(Datum::Timestamp(from_clock(&moment::zone(text(v, 0)?)?, moment(v, 1)?)?))
    });
    let zoned: Body = |environment, v| {
        Ok(zoned_elsewhere(int(v, 1)?, moment::offset_at(&moment::zone(text(v, 0)?)?, environment.transaction_time())))
    };
    definitions.add("timezone(text,timetz) timetz", zoned).stable();
    definitions.add("timezone(interval,timetz) timetz", |_, v| {
        Ok(zoned_elsewhere(int(v, 1)?, interval(v, 0)?.microseconds / SECOND))
    });
    definitions.add("timezone(interval,timestamptz) timestamp", |_, v| shifted(moment(v, 1)?, interval(v, 0)?));
    definitions
        .add("timezone(interval,timestamp) timestamptz", |_, v| shifted(moment(v, 1)?, negated(interval(v, 0)?)?));
    definitions.add("to_timestamp(float8) timestamptz", |_, v| {
        let seconds = float(v, 0)?;
        if seconds.is_infinite() {
            let is_after = seconds > 0.0;
            return Ok(Datum::Timestamp(if is_after { Timestamp::INFINITY } else { Timestamp::NEG_INFINITY }));
        }
        if seconds.is_nan() {
            return Err(field_error("timestamp cannot be NaN".to_owned()));
        }
        if seconds.abs() > 1e13 {
            return Err(field_error(format!("timestamp out of range: \"{seconds}\"")));
        }
        Ok(Datum::Timestamp(moment::timestamp((seconds * 1e6).round_ties_even() as i64)?))
    });
}

fn field_error(what: String) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what)
}

/// Days since 1970-01-01 of a year (negative ones are before our era), month and day.
fn checked_days(year: i64, month: i64, day: i64) -> Result<i64> {
    let counted = if year < 0 { year + 1 } else { year };
    let is_date = year != 0 && (1..=12).contains(&month) && day >= 1 && day <= days_of_month(counted, month);
    let shown = || field_error(format!("date field value out of range: {year}-{month:02}-{day:02}"));
    if !is_date {
        return Err(shown());
    }
    let days = moment::days_of_date(counted, month, day);
    moment::date(days).map_err(|_| field_error(format!("date out of range: {year}-{month:02}-{day:02}")))?;
    Ok(days)
}

fn checked_time(hour: i64, minute: i64, second: f64) -> Result<i64> {
    let is_time = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let shown = || field_error(format!("time field value out of range: {hour}:{minute:02}:{second:02}"));
    if !is_time {
        return Err(shown());
    }
    let time = hour * HOUR + minute * MINUTE + (second * SECOND as f64).round_ties_even() as i64;
    if time > DAY { Err(shown()) } else { Ok(time) }
}

fn clock_of(values: &[Datum]) -> Result<Timestamp> {
    let days = checked_days(int(values, 0)?, int(values, 1)?, int(values, 2)?)?;
    let time = checked_time(int(values, 3)?, int(values, 4)?, float(values, 5)?)?;
    let microseconds = days.checked_mul(DAY).and_then(|midnight| midnight.checked_add(time));
    moment::timestamp(microseconds.ok_or_else(|| moment_out_of_range("timestamp"))?)
}

fn makers(definitions: &mut Definitions) {
    definitions.add("make_date(int4,int4,int4) date", |_, v| {
        Ok(Datum::Date(moment::date(checked_days(int(v, 0)?, int(v, 1)?, int(v, 2)?)?)?))
    });
    definitions.add("make_time(int4,int4,float8) time", |_, v| {
        Ok(Datum::Int(checked_time(int(v, 0)?, int(v, 1)?, float(v, 2)?)?))
    });
    definitions
        .add("make_timestamp(int4,int4,int4,int4,int4,float8) timestamp", |_, v| Ok(Datum::Timestamp(clock_of(v)?)));
    let in_session: Body = |environment, v| Ok(Datum::Timestamp(from_clock(environment.time_zone(), clock_of(v)?)?));
    definitions.add("make_timestamptz(int4,int4,int4,int4,int4,float8) timestamptz", in_session).stable();
    let in_zone: Body = |_, v| Ok(Datum::Timestamp(from_clock(&moment::zone(text(v, 6)?)?, clock_of(v)?)?));
    definitions.add("make_timestamptz(int4,int4,int4,int4,int4,float8,text) timestamptz", in_zone).stable();
    let lengths: [&'static str; 8] = [
        "make_interval() interval",
        "make_interval(int4) interval",
        "make_interval(int4,int4) interval",
        "make_interval(int4,int4,int4) interval",
        "make_interval(int4,int4,int4,int4) interval",
        "make_interval(int4,int4,int4,int4,int4) interval",
        "make_interval(int4,int4,int4,int4,int4,int4) interval",
        "make_interval(int4,int4,int4,int4,int4,int4,float8) interval",
    ];
    definitions.each(&lengths, |_, v| make_interval(v));
    definitions.add("date_bin(interval,timestamp,timestamp) timestamp", |_, v| bin(v));
    definitions.add("date_bin(interval,timestamptz,timestamptz) timestamptz", |_, v| bin(v));
}

fn make_interval(values: &[Datum]) -> Result<Datum> {
    let part = |index: usize| if index < values.len() { int(values, index) } else { Ok(0) };
    let months = part(0)? * 12 + part(1)?;
    let days = part(2)? * 7 + part(3)?;
    let seconds = if values.len() > 6 { float(values, 6)? } else { 0.0 };
    if !seconds.is_finite() || seconds.abs() > 9e12 {
        return Err(out_of_range());
    }
    let time = part(4)? * HOUR + part(5)? * MINUTE;
    let time = time.checked_add((seconds * SECOND as f64).round_ties_even() as i64).ok_or_else(out_of_range)?;
    let fits = |value: i64| i32::try_from(value).map_err(|_| out_of_range());
    Ok(Datum::Interval(Interval::new(fits(months)?, fits(days)?, time)))
}

/// The beginning of the stretch that a moment lies in, of stretches from an origin on.
fn bin(values: &[Datum]) -> Result<Datum> {
    let stride = interval(values, 0)?;
    let refuse = |message: &str| Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let length = i64::from(stride.days).checked_mul(DAY).and_then(|days| days.checked_add(stride.microseconds));
    let length = length.ok_or_else(out_of_range)?;
    if length <= 0 {
        return refuse("stride must be greater than zero");
    }
    let (source, origin) = (moment(values, 1)?, moment(values, 2)?);
    if !source.is_finite() {
        return Ok(Datum::Timestamp(source));
    }
    if !origin.is_finite() {
        return refuse("origin out of range");
    }
    let (source, origin) = (i128::from(source.microseconds()), i128::from(origin.microseconds()));
    let length = i128::from(length);
    let begin = i64::try_from((source - origin).div_euclid(length) * length + origin);
    Ok(Datum::Timestamp(moment::timestamp(begin.map_err(|_| moment_out_of_range("timestamp"))?)?))
}

/// A time of day as microseconds.
pub(crate) fn time(values: &[Datum], index: usize) -> Result<i64> {
    values.get(index).and_then(Datum::as_int).ok_or_else(|| mismatch(BaseType::Time))
}
