//! Dates, and moments in time: a number of days, or of microseconds, since the beginning of 1970 in UTC.
//!
//! Their texts are those of ISO 8601 in its long form. Calendars are the crate `jiff`'s, which counts years from -9999
//! to 9999. A moment has no time zone: a text with an offset from UTC is converted, one without is in UTC.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil;

const EPOCH: civil::DateTime = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const HOURS_A_DAY: i64 = 24;
const MICROSECONDS_A_SECOND: i64 = 1_000_000;

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    days: i32,
}

/// A moment, to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    microseconds: i64,
}

/// Days after 1970 of the years -9999 to 9999.
const DAYS: std::ops::RangeInclusive<i32> = -4_371_587..=2_932_896;

impl Date {
    /// The day so many days after 1970-01-01; none before the year -9999 and after 9999.
    pub fn from_days(days: i32) -> Option<Date> {
        DAYS.contains(&days).then_some(Date { days })
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

    /// The day that `text` writes as `2013-07-04`; none if it is written otherwise.
    pub fn parse(text: &str) -> Option<Date> {
        let date: civil::Date = text.parse().ok()?;
        let date = Date::from_civil(date);
        // The library reads more forms, a time after the date among them.
        (date.to_string() == text).then_some(date)
    }

    /// Year, month and day.
    pub fn parts(self) -> (i16, i8, i8) {
        self.civil().map_or((1970, 1, 1), |date| (date.year(), date.month(), date.day()))
    }

    fn civil(self) -> Option<civil::Date> {
        EPOCH.date().checked_add(SignedDuration::from_hours(i64::from(self.days) * HOURS_A_DAY)).ok()
    }

    fn from_civil(date: civil::Date) -> Date {
        let hours = date.duration_since(EPOCH.date()).as_hours();
        Date { days: (hours / HOURS_A_DAY) as i32 }
    }
}

/// Microseconds after 1970 of the years -9999 to 9999.
const MICROSECONDS: std::ops::RangeInclusive<i64> = -377_705_116_800_000_000..=253_402_300_799_999_999;

impl Timestamp {
    /// The moment so many microseconds after 1970-01-01T00:00:00Z; none before the year -9999 and after 9999.
    pub fn from_microseconds(microseconds: i64) -> Option<Timestamp> {
        MICROSECONDS.contains(&microseconds).then_some(Timestamp { microseconds })
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn microseconds(self) -> i64 {
        self.microseconds
    }

    /// The day in UTC.
    pub fn date(self) -> Date {
        self.civil().map_or_else(Date::default, |moment| Date::from_civil(moment.date()))
    }

    /// The moment that `text` writes as `2013-07-04T05:15:00.123456Z`. Seconds and their fraction may be missing; a
    /// space may stand for the `T`; `+02:00`, `+0200` or `+02` stands for an offset from UTC, and nothing for none; a
    /// date alone is its midnight. None if it is written otherwise, or to more than microseconds.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let (date, time) = match text.find(['T', 't', ' ']) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, "00:00"),
        };
        let date = Date::parse(date)?;
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
        Timestamp::from_microseconds(seconds * MICROSECONDS_A_SECOND + microseconds)
    }

    fn civil(self) -> Option<civil::DateTime> {
        EPOCH.checked_add(SignedDuration::from_micros(self.microseconds)).ok()
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

/// `2013-07-04`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.civil() {
            Some(date) => date.fmt(f),
            None => f.write_str("?"),
        }
    }
}

/// `2013-07-04T05:15:00Z`, with as many digits of the second's fraction as there are.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.civil() {
            Some(moment) => write!(f, "{moment}Z"),
            None => f.write_str("?"),
        }
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
        ] {
            let date = Date::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((date.days(), date.to_string().as_str()), (days, text));
            assert_eq!(Date::from_days(days), Some(date));
        }
        for text in
            ["", "2013-02-29", "2013-1-1", "20130101", "2013-01-01T00:00", "01.01.2013", "10000-01-01", "2013-13-01"]
        {
            assert_eq!(Date::parse(text), None, "{text:?}");
        }
        assert_eq!(Date::from_days(2_932_897), None);
        assert_eq!(Date::from_days(i32::MIN), None);
        for end in [*DAYS.start(), *DAYS.end()] {
            let outside = end + end.signum();
            assert_eq!(Date::from_days(outside), None);
            assert!(Date { days: end }.civil().is_some());
            assert!(Date { days: outside }.civil().is_none(), "the calendar ends with the range");
        }
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
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text:?}");
        }
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00.000001Z").map(Timestamp::microseconds), Some(1));
        assert_eq!(Timestamp::parse("1969-12-31T23:59:59Z").unwrap().date(), Date::parse("1969-12-31").unwrap());
        assert_eq!(Timestamp::from_microseconds(i64::MAX), None);
        for end in [*MICROSECONDS.start(), *MICROSECONDS.end()] {
            let outside = end.checked_add(end.signum()).expect("far from the end of numbers");
            assert_eq!(Timestamp::from_microseconds(outside), None);
            assert!(Timestamp { microseconds: end }.civil().is_some());
            assert!(Timestamp { microseconds: outside }.civil().is_none(), "the calendar ends with the range");
        }
    }
}
