//! Dates, and moments in time: a number of days, or of microseconds, since the beginning of 1970 in UTC.
//!
//! Their texts are those of ISO 8601 in its long form; years after 9999 have a sign and six digits or more. Calendars
//! are the crate `jiff`'s, which counts years from -9999 to 9999; the calendar of later years is that of the same place
//! in an earlier cycle of 400 years. A moment has no time zone: a text with an offset from UTC is converted, one
//! without is in UTC.
//!
//! Before and after all others are two dates and two moments without a place in the calendar, as PostgreSQL has them:
//! `-infinity` and `infinity`.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil;
use quipu::{Error, ErrorKind};

const EPOCH: civil::DateTime = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const HOURS_A_DAY: i64 = 24;
/// The Gregorian calendar repeats itself after 400 years.
const CYCLE_YEARS: i32 = 400;
const CYCLE_DAYS: i32 = 146_097;
/// How many digits of years are read: more than any date has.
const YEAR_DIGITS_MAX: usize = 7;
const MICROSECONDS_A_SECOND: i64 = 1_000_000;

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    days: i32,
}

/// A moment, to the microsecond.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    microseconds: i64,
}

/// Days after 1970 of the years -9999 to 5,874,897.
const DAYS: std::ops::RangeInclusive<i32> = -4_371_587..=2_145_042_905;
/// Those of the years that `jiff` has.
const NEAR_DAYS_MAX: i32 = 2_932_896;

impl Date {
    /// The date after all others.
    pub const INFINITY: Date = Date { days: i32::MAX };
    /// The date before all others.
    pub const NEG_INFINITY: Date = Date { days: i32::MIN };

    /// The day so many days after 1970-01-01; the greatest and the least number are the infinite ones. None of other
    /// numbers before the year -9999 and after 5,874,897.
    pub fn from_days(days: i32) -> Option<Date> {
        (DAYS.contains(&days) || days == i32::MIN || days == i32::MAX).then_some(Date { days })
    }

    /// The day of this year, month and day; none if there is no such day.
    ///
    /// ```
    /// use quipu_rows::Date;
    ///
    /// assert_eq!(Date::new(2013, 7, 4).unwrap().to_string(), "2013-07-04");
    /// assert!(Date::new(2013, 2, 29).is_none());
    /// ```
    pub fn new(year: i16, month: i8, day: i8) -> Option<Date> {
        civil::Date::new(year, month, day).ok().map(Date::from_civil)
    }

    /// Days since 1970-01-01.
    pub fn days(self) -> i32 {
        self.days
    }

    /// Whether it is a day of the calendar.
    pub fn is_finite(self) -> bool {
        DAYS.contains(&self.days)
    }

    /// The day that `text` writes as `2013-07-04` or `2013/07/04`; none if it is written otherwise.
    pub fn parse(text: &str) -> Option<Date> {
        match text {
            "infinity" => return Some(Date::INFINITY),
            "-infinity" => return Some(Date::NEG_INFINITY),
            _ => {}
        }
        if let [_, _, _, _, b'/', _, _, b'/', _, _] = text.as_bytes() {
            return Date::parse(&text.replace('/', "-"));
        }
        let date = match text.strip_prefix('+') {
            Some(unsigned) => Date::parse_far(unsigned)?,
            None => Date::from_civil(text.parse().ok()?),
        };
        // The library reads more forms, a time after the date among them.
        (date.to_string() == text).then_some(date)
    }

    /// The day of a year after 9999, which is written without its sign.
    fn parse_far(text: &str) -> Option<Date> {
        let (year, rest) = text.split_once('-').filter(|(year, _)| year.len() <= YEAR_DIGITS_MAX)?;
        let year: i32 = year.parse().ok()?;
        let cycles = year / CYCLE_YEARS;
        let near: civil::Date = format!("{:04}-{rest}", year % CYCLE_YEARS).parse().ok()?;
        Date::from_days(Date::from_civil(near).days.checked_add(cycles.checked_mul(CYCLE_DAYS)?)?)
    }

    /// Year, month and day; of the infinite ones, a year that no day has.
    pub fn parts(self) -> (i32, i8, i8) {
        match self.civil() {
            Some((date, cycles)) => (i32::from(date.year()) + cycles * CYCLE_YEARS, date.month(), date.day()),
            None => (self.days, 1, 1),
        }
    }

    /// The day so many cycles of the calendar earlier that `jiff` has it; none of the infinite ones.
    fn civil(self) -> Option<(civil::Date, i32)> {
        if !self.is_finite() {
            return None;
        }
        let cycles = if self.days > NEAR_DAYS_MAX { self.days / CYCLE_DAYS } else { 0 };
        let hours = i64::from(self.days - cycles * CYCLE_DAYS) * HOURS_A_DAY;
        let date = EPOCH.date().checked_add(SignedDuration::from_hours(hours)).ok()?;
        Some((date, cycles))
    }

    fn from_civil(date: civil::Date) -> Date {
        let hours = date.duration_since(EPOCH.date()).as_hours();
        Date { days: (hours / HOURS_A_DAY) as i32 }
    }
}

/// Microseconds after 1970 of the years -9999 to 294,246, the last whole one that has such numbers.
const MICROSECONDS: std::ops::RangeInclusive<i64> = -377_705_116_800_000_000..=9_223_371_244_799_999_999;
const MICROSECONDS_A_DAY: i64 = HOURS_A_DAY * 3600 * MICROSECONDS_A_SECOND;

impl Timestamp {
    /// The moment after all others.
    pub const INFINITY: Timestamp = Timestamp { microseconds: i64::MAX };
    /// The moment before all others.
    pub const NEG_INFINITY: Timestamp = Timestamp { microseconds: i64::MIN };

    /// The moment so many microseconds after 1970-01-01T00:00:00Z; the greatest and the least number are the infinite
    /// ones. None of other numbers before the year -9999 and after 294,246.
    pub fn from_microseconds(microseconds: i64) -> Option<Timestamp> {
        let is_infinite = microseconds == i64::MIN || microseconds == i64::MAX;
        (MICROSECONDS.contains(&microseconds) || is_infinite).then_some(Timestamp { microseconds })
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn microseconds(self) -> i64 {
        self.microseconds
    }

    /// Whether it is a moment of the calendar.
    pub fn is_finite(self) -> bool {
        MICROSECONDS.contains(&self.microseconds)
    }

    /// The day in UTC; the infinite ones are on the infinite days.
    pub fn date(self) -> Date {
        match self.microseconds {
            i64::MAX => Date::INFINITY,
            i64::MIN => Date::NEG_INFINITY,
            microseconds => Date { days: microseconds.div_euclid(MICROSECONDS_A_DAY) as i32 },
        }
    }

    /// The moment that `text` writes as `2013-07-04T05:15:00.123456Z`. Seconds and their fraction may be missing; a
    /// space may stand for the `T`; `+02:00`, `+0200` or `+02` stands for an offset from UTC, and nothing for none; a
    /// date alone is its midnight. None if it is written otherwise, or to more than microseconds.
    pub fn parse(text: &str) -> Option<Timestamp> {
        match text {
            "infinity" => return Some(Timestamp::INFINITY),
            "-infinity" => return Some(Timestamp::NEG_INFINITY),
            _ => {}
        }
        let (date, time) = match text.find(['T', 't', ' ']) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, "00:00"),
        };
        let date = Date::parse(date).filter(|date| date.is_finite())?;
        let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
        let (time, zone) = time.split_at(zone_at);
        let offset_seconds = match zone.as_bytes() {
            [] | [b'Z' | b'z'] => 0,
            [sign, rest @ ..] => {
                let (hours, minutes) = match rest {
                    [a, b] => (two_digits(&[*a, *b], 18)?, 0),
                    [a, b, b':', c, d] | [a, b, c, d] => (two_digits(&[*a, *b], 18)?, two_digits(&[*c, *d], 59)?),
                    _ => return None,
                };
                (hours * 60 + minutes) * if *sign == b'-' { -60 } else { 60 }
            }
        };
        let (clock, fraction) = match time.split_once('.') {
            Some((clock, fraction)) if !fraction.is_empty() && clock.len() == 8 => (clock, fraction),
            Some(_) => return None,
            None => (time, ""),
        };
        let (hours, minutes, seconds) = match clock.as_bytes() {
            [a, b, b':', c, d] => (two_digits(&[*a, *b], 23)?, two_digits(&[*c, *d], 59)?, 0),
            [a, b, b':', c, d, b':', e, f] => {
                (two_digits(&[*a, *b], 23)?, two_digits(&[*c, *d], 59)?, two_digits(&[*e, *f], 59)?)
            }
            _ => return None,
        };
        let microseconds = microseconds_of(fraction)?;
        let days_seconds = i64::from(date.days) * HOURS_A_DAY * 3600;
        let seconds = days_seconds + hours * 3600 + minutes * 60 + seconds - offset_seconds;
        Timestamp::from_microseconds(seconds.checked_mul(MICROSECONDS_A_SECOND)?.checked_add(microseconds)?)
    }
}

fn two_digits(digits: &[u8; 2], max: i64) -> Option<i64> {
    let value = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(value(digits[0])? * 10 + value(digits[1])?).filter(|&value| value <= max)
}

/// The digits after a point, as microseconds; none if there is more than that.
fn microseconds_of(fraction: &str) -> Option<i64> {
    let (digits, rest) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || rest.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let value: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    Some(value * 10i64.pow(6 - digits.len() as u32))
}

/// As [`Date::parse`]; [`Invalid`](ErrorKind::Invalid) for what it does not take.
///
/// ```
/// use quipu_rows::Date;
///
/// let day: Date = "2013-07-04".parse()?;
/// assert_eq!(day, Date::new(2013, 7, 4).expect("a day"));
/// assert!("4.7.2013".parse::<Date>().is_err());
/// # Ok::<(), quipu::Error>(())
/// ```
impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Date, Error> {
        let what = || Error::new(ErrorKind::Invalid, format!("{text:?} is not a date, such as 2013-07-04"));
        Date::parse(text).ok_or_else(what)
    }
}

/// As [`Timestamp::parse`]; [`Invalid`](ErrorKind::Invalid) for what it does not take.
impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Timestamp, Error> {
        let what =
            || Error::new(ErrorKind::Invalid, format!("{text:?} is not a timestamp, such as 2013-07-04T05:15:00Z"));
        Timestamp::parse(text).ok_or_else(what)
    }
}

/// `2013-07-04`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.civil() {
            Some((date, 0)) => date.fmt(f),
            Some(_) => {
                let (year, month, day) = self.parts();
                write!(f, "+{year:06}-{month:02}-{day:02}")
            }
            None if self.days > 0 => f.write_str("infinity"),
            None => f.write_str("-infinity"),
        }
    }
}

/// `2013-07-04T05:15:00Z`, with as many digits of the second's fraction as there are.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.date();
        if !self.is_finite() {
            return date.fmt(f);
        }
        let of_day = self.microseconds.rem_euclid(MICROSECONDS_A_DAY);
        let (seconds, fraction) = (of_day / MICROSECONDS_A_SECOND, of_day % MICROSECONDS_A_SECOND);
        write!(f, "{date}T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:06}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_and_written() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("9999-12-31", 2_932_896),
            ("0001-01-01", -719_162),
            ("-009999-01-01", -4_371_587),
            ("+010000-01-01", 2_932_897),
            ("+012345-02-28", 3_789_449),
            ("+5874897-12-31", 2_145_042_905),
            ("infinity", i32::MAX),
            ("-infinity", i32::MIN),
        ] {
            let date = Date::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((date.days(), date.to_string().as_str()), (days, text));
            assert_eq!(Date::from_days(days), Some(date));
        }
        assert_eq!(Date::parse("2013/07/04"), Date::new(2013, 7, 4));
        for text in [
            "",
            "2013/02/29",
            "2013/07-04",
            "2013/7/04",
            "07/04/2013",
            "2013-02-29",
            "2013-1-1",
            "20130101",
            "2013-01-01T00:00",
            "01.01.2013",
            "10000-01-01",
            "2013-13-01",
            "+2013-01-01",
            "+010000-02-30",
            "+010001-02-29",
            "+5874898-01-01",
            "+99999999-01-01",
            "+010000-01-01T00:00",
            "Infinity",
        ] {
            assert_eq!(Date::parse(text), None, "{text:?}");
        }
        assert_eq!(Date::from_days(i32::MIN + 1), None);
        for end in [*DAYS.start(), *DAYS.end()] {
            assert_eq!(Date::from_days(end + end.signum()), None);
            assert!(Date { days: end }.civil().is_some());
        }
        assert_eq!(Date { days: NEAR_DAYS_MAX }.to_string(), "9999-12-31");
        assert_eq!(Date::from_days(3_789_449).unwrap().parts(), (12_345, 2, 28));
        assert!(Date::NEG_INFINITY < Date { days: *DAYS.start() } && Date { days: *DAYS.end() } < Date::INFINITY);
        assert_eq!(Date::new(2013, 7, 4).unwrap().parts(), (2013, 7, 4));
    }

    #[test]
    fn moments_are_read_and_written() {
        for (text, written) in [
            ("2013-07-04T05:15:00Z", "2013-07-04T05:15:00Z"),
            ("2013-07-04 05:15", "2013-07-04T05:15:00Z"),
            ("2013-07-04", "2013-07-04T00:00:00Z"),
            ("2013-07-04T05:15:00.120", "2013-07-04T05:15:00.12Z"),
            ("2013-07-04T05:15:00.123456000Z", "2013-07-04T05:15:00.123456Z"),
            ("2013-07-04T01:15:00+02:00", "2013-07-03T23:15:00Z"),
            ("2013-07-04T01:15:00-0230", "2013-07-04T03:45:00Z"),
            ("2013-07-04t01:15:00+02", "2013-07-03T23:15:00Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
            ("-009999-01-01T00:00:00Z", "-009999-01-01T00:00:00Z"),
            ("9999-12-31T23:00:00-02:00", "+010000-01-01T01:00:00Z"),
            ("+294246-12-31T23:59:59.999999Z", "+294246-12-31T23:59:59.999999Z"),
            ("infinity", "infinity"),
            ("-infinity", "-infinity"),
        ] {
            let moment = Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(moment.to_string(), written, "{text}");
            assert_eq!(Timestamp::parse(written), Some(moment));
            assert_eq!(Timestamp::from_microseconds(moment.microseconds()), Some(moment));
        }
        for text in [
            "2013-07-04T24:00:00Z",
            "2013-07-04T23:59:60Z",
            "2013-07-04T05:15:00.1234567Z",
            "2013-07-04T05:15.5Z",
            "2013-07-04T05:15:00.",
            "2013-07-04T05:15:00.é",
            "2013-07-04T05:15:00.12345é",
            "2013-07-04T05:15:00[Europe/Berlin]",
            "2013-07-04T05:15:00+2",
            "2013-07-04T05:15:00+é9",
            "2013-07-04T",
            "-009999-01-01T00:00:00+01:00",
            "T05:15",
            "infinityT05:15",
            "+294247-01-01T00:00:00Z",
            "+5874897-12-31T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text:?}");
        }
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00.000001Z").map(Timestamp::microseconds), Some(1));
        assert_eq!(Timestamp::parse("1969-12-31T23:59:59Z").unwrap().date(), Date::parse("1969-12-31").unwrap());
        assert_eq!(Timestamp::INFINITY.date(), Date::INFINITY);
        for end in [*MICROSECONDS.start(), *MICROSECONDS.end()] {
            assert_eq!(Timestamp::from_microseconds(end + end.signum()), None);
        }
    }
}
