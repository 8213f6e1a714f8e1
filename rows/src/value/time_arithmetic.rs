//! Arithmetic of moments: with lengths of time, and with the clock of the system.
//!
//! The infinite moments stay what they are, whatever is added to them, and have no distance from others.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quipu::{Error, ErrorKind};

use crate::value::time::Timestamp;

impl Timestamp {
    /// The moment so much later, to the microsecond: what `duration` has beyond whole microseconds is left out. None
    /// after the year 294,246. An infinite moment stays what it is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quipu_rows::Timestamp;
    ///
    /// let start: Timestamp = "2013-07-04T23:59:59.5Z".parse()?;
    /// assert_eq!(start.checked_add(Duration::from_secs(2)).unwrap().to_string(), "2013-07-05T00:00:01.5Z");
    /// assert_eq!(start.checked_add(Duration::MAX), None);
    /// # Ok::<(), quipu::Error>(())
    /// ```
    pub fn checked_add(self, duration: Duration) -> Option<Timestamp> {
        self.moved(i128::try_from(duration.as_micros()).ok()?)
    }

    /// The moment so much earlier, to the microsecond: what `duration` has beyond whole microseconds is left out. None
    /// before the year -9999. An infinite moment stays what it is.
    pub fn checked_sub(self, duration: Duration) -> Option<Timestamp> {
        self.moved(-i128::try_from(duration.as_micros()).ok()?)
    }

    /// How much later it is than `earlier`; none if it is earlier, or one of them is infinite.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quipu_rows::Timestamp;
    ///
    /// let (start, end): (Timestamp, Timestamp) = ("2013-07-04".parse()?, "2013-07-04T05:15:00Z".parse()?);
    /// assert_eq!(end.duration_since(start), Some(Duration::from_secs(18_900)));
    /// assert_eq!(start.duration_since(end), None);
    /// # Ok::<(), quipu::Error>(())
    /// ```
    pub fn duration_since(self, earlier: Timestamp) -> Option<Duration> {
        if !self.is_finite() || !earlier.is_finite() || self < earlier {
            return None;
        }
        Some(Duration::from_micros(self.microseconds().abs_diff(earlier.microseconds())))
    }

    fn moved(self, microseconds: i128) -> Option<Timestamp> {
        if !self.is_finite() {
            return Some(self);
        }
        let moved = i64::try_from(i128::from(self.microseconds()).checked_add(microseconds)?).ok()?;
        // The greatest and the least number are the infinite moments, which no finite one becomes.
        Timestamp::from_microseconds(moved).filter(|moved| moved.is_finite())
    }
}

/// As [`Timestamp::checked_add`].
///
/// # Panics
/// Where that gives `None`.
impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    #[track_caller]
    fn add(self, duration: Duration) -> Timestamp {
        self.checked_add(duration).unwrap_or_else(|| panic!("{duration:?} after {self} there is no timestamp"))
    }
}

/// As [`Timestamp::checked_sub`].
///
/// # Panics
/// Where that gives `None`.
impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    #[track_caller]
    fn sub(self, duration: Duration) -> Timestamp {
        self.checked_sub(duration).unwrap_or_else(|| panic!("{duration:?} before {self} there is no timestamp"))
    }
}

impl AddAssign<Duration> for Timestamp {
    #[track_caller]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for Timestamp {
    #[track_caller]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// The moment of a clock, to the microsecond below; [`Invalid`](ErrorKind::Invalid) of one that no timestamp is.
///
/// ```
/// use std::time::SystemTime;
/// use quipu_rows::Timestamp;
///
/// let now = Timestamp::try_from(SystemTime::now())?;
/// assert!(now > "2020-01-01".parse()?);
/// # Ok::<(), quipu::Error>(())
/// ```
impl TryFrom<SystemTime> for Timestamp {
    type Error = Error;

    fn try_from(time: SystemTime) -> Result<Timestamp, Error> {
        let microseconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).ok(),
            Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(1_000)).ok().map(|before| -before),
        };
        let moment = microseconds.and_then(Timestamp::from_microseconds).filter(|moment| moment.is_finite());
        moment
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "the time of a clock is not a timestamp: it is too far away"))
    }
}

/// The same moment for a clock; [`Invalid`](ErrorKind::Invalid) of an infinite one, and of one that the system's clock
/// does not reach.
impl TryFrom<Timestamp> for SystemTime {
    type Error = Error;

    fn try_from(moment: Timestamp) -> Result<SystemTime, Error> {
        let distance = Duration::from_micros(moment.microseconds().unsigned_abs());
        let time = match moment.microseconds() {
            0.. => UNIX_EPOCH.checked_add(distance),
            _ => UNIX_EPOCH.checked_sub(distance),
        };
        let time = time.filter(|_| moment.is_finite());
        time.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{moment} is not a time of the system's clock")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn moments_are_moved_exactly_or_not_at_all() {
        let (start, second) = (at("1969-12-31T23:59:59.999999Z"), Duration::from_secs(1));
        assert_eq!((start + second).to_string(), "1970-01-01T00:00:00.999999Z");
        assert_eq!((start - second).to_string(), "1969-12-31T23:59:58.999999Z");
        assert_eq!(
            (start + Duration::from_nanos(1_999), start - Duration::from_nanos(999)),
            (start + Duration::from_micros(1), start)
        );
        let mut moved = start;
        moved += second;
        moved -= second;
        assert_eq!(moved, start);
        let (first, last) = (at("-009999-01-01T00:00:00Z"), at("+294246-12-31T23:59:59.999999Z"));
        let step = Duration::from_micros(1);
        assert_eq!((first.checked_sub(step), last.checked_add(step)), (None, None));
        assert_eq!((first.checked_add(step).is_some(), last.checked_sub(step).is_some()), (true, true));
        assert_eq!(start.checked_add(Duration::MAX), None);
        // One step further the numbers are those of the infinite moments.
        let to_the_end = Duration::from_micros((i64::MAX - last.microseconds()) as u64);
        assert_eq!(last.checked_add(to_the_end), None);
        for infinite in [Timestamp::INFINITY, Timestamp::NEG_INFINITY] {
            assert_eq!((infinite + second, infinite - second), (infinite, infinite));
            assert_eq!((infinite.duration_since(start), start.duration_since(infinite)), (None, None));
        }
        let distance = last.duration_since(first).unwrap();
        assert_eq!((first + distance, last - distance), (last, first), "further than i64 counts");
        assert_eq!(at("2013-07-05").duration_since(at("2013-07-04")), Some(Duration::from_secs(86_400)));
        assert_eq!(start.duration_since(start), Some(Duration::ZERO));
    }

    #[test]
    #[should_panic(expected = "1s after +294246-12-31T23:59:59.999999Z there is no timestamp")]
    fn a_moment_after_the_last_one_is_not_made() {
        let _ = at("+294246-12-31T23:59:59.999999Z") + Duration::from_secs(1);
    }

    #[test]
    fn clocks_tell_moments_and_the_other_way_round() {
        let times = [UNIX_EPOCH, UNIX_EPOCH + Duration::from_micros(1_500), UNIX_EPOCH - Duration::from_micros(1)];
        for (time, text) in
            times.into_iter().zip(["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.0015Z", "1969-12-31T23:59:59.999999Z"])
        {
            let moment = Timestamp::try_from(time).unwrap();
            assert_eq!(moment.to_string(), text);
            assert_eq!(SystemTime::try_from(moment).unwrap(), time);
        }
        let below = Timestamp::try_from(UNIX_EPOCH - Duration::from_nanos(1)).unwrap();
        assert_eq!(below.microseconds(), -1, "earlier, as it is after the beginning");
        let error = SystemTime::try_from(Timestamp::INFINITY).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("infinity is not a time")), (ErrorKind::Invalid, true));
    }

    #[test]
    fn moments_and_days_are_shown_as_they_are_written() {
        let row = (at("2013-07-04T05:15:00.5Z"), Timestamp::INFINITY, at("2013-07-04").date());
        assert_eq!(format!("{row:?}"), "(2013-07-04T05:15:00.5Z, infinity, 2013-07-04)");
    }
}
