//! Times of day with the offset of a zone: `time with time zone`.
//!
//! A value is an integer, like a time of day without a zone. Its upper bits are the time of day in UTC and its 17 lower
//! ones the offset, so that integers are ordered as PostgreSQL orders such times: those of one moment by their zones,
//! from the east to the west.

use crate::types::interval::SECOND;

const OFFSET_BITS: u32 = 17;
const OFFSET_MIDDLE: i64 = 1 << (OFFSET_BITS - 1);

/// A time of day with the offset of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight, on the clock of the zone.
    pub time: i64,
    /// How far that clock is before UTC, in seconds: less than 16 hours.
    pub offset: i64,
}

impl ZonedTime {
    /// The value of an integer.
    pub fn of_int(int: i64) -> ZonedTime {
        let offset = OFFSET_MIDDLE - (int & ((1 << OFFSET_BITS) - 1));
        ZonedTime { time: (int >> OFFSET_BITS) + offset * SECOND, offset }
    }

    /// The integer of the value.
    pub fn to_int(self) -> i64 {
        self.in_utc() << OFFSET_BITS | (OFFSET_MIDDLE - self.offset)
    }

    /// Microseconds since midnight in UTC, which may be of the day before or after.
    pub fn in_utc(self) -> i64 {
        self.time - self.offset * SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::interval::{DAY, HOUR};

    #[test]
    fn values_are_integers_in_their_order() {
        let of = |hours: i64, offset: i64| ZonedTime { time: hours * HOUR, offset: offset * 3600 };
        let sorted = [of(0, 15), of(12, 2), of(11, 1), of(10, 0), of(9, -1), of(13, 2), of(24, -15)];
        assert!(sorted.iter().map(|time| time.to_int()).is_sorted());
        for time in sorted {
            assert_eq!(ZonedTime::of_int(time.to_int()), time);
        }
        let ends = [ZonedTime { time: 0, offset: 57_599 }, ZonedTime { time: DAY, offset: -57_599 }];
        for end in ends {
            assert_eq!(ZonedTime::of_int(end.to_int()), end);
        }
    }
}
