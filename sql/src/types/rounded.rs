//! Values of times rounded to what their types declare: digits of seconds, and fields of intervals.

use crate::error::Result;
use crate::types::datum::{Datum, Interval};
use crate::types::interval::{HOUR, MINUTE};
use crate::types::precision::{ALL_FIELDS, DAY_FIELD, DIGITS_MAX, MINUTE_FIELD, MONTH, SECOND_FIELD, YEAR};
use crate::types::zoned_time::ZonedTime;
use crate::types::{BaseType, SqlType, moment};

/// Microseconds rounded to so many digits of seconds, half away from zero.
fn rounded(microseconds: i64, digits: u32) -> i64 {
    let unit = 10i64.pow(DIGITS_MAX as u32 - digits.min(DIGITS_MAX as u32));
    let half = if microseconds < 0 { -unit / 2 } else { unit / 2 };
    microseconds.saturating_add(half) / unit * unit
}

/// The value as a type of times keeps it that declares digits or fields.
///
/// # Errors
/// 22008 if it is out of range then.
pub(super) fn fit(value: Datum, to: SqlType) -> Result<Datum> {
    let digits = to.second_digits();
    Ok(match (value, digits) {
        (Datum::Interval(interval), _) => Datum::Interval(fit_interval(interval, to)),
        (Datum::Timestamp(moment), Some(digits)) if moment.is_finite() => {
            // Half a unit is away from the beginning of the year 2000.
            let since = moment.microseconds() - moment::EPOCH_MICROSECONDS;
            Datum::Timestamp(moment::timestamp(rounded(since, digits) + moment::EPOCH_MICROSECONDS)?)
        }
        (Datum::Int(time), Some(digits)) if to.base == BaseType::TimeTz => {
            let zoned = ZonedTime::of_int(time);
            Datum::Int(ZonedTime { time: rounded(zoned.time, digits), ..zoned }.to_int())
        }
        (Datum::Int(time), Some(digits)) => Datum::Int(rounded(time, digits)),
        (value, _) => value,
    })
}

fn fit_interval(interval: Interval, to: SqlType) -> Interval {
    let Interval { months, microseconds, .. } = interval;
    let cut = |unit: i64| microseconds / unit * unit;
    let bits = to.fields().map_or(ALL_FIELDS, |(_, bits)| bits);
    let kept = match bits {
        YEAR => Interval { months: months / 12 * 12, days: 0, microseconds: 0 },
        _ if bits & !(YEAR | MONTH) == 0 => Interval { months, days: 0, microseconds: 0 },
        DAY_FIELD => Interval { microseconds: 0, ..interval },
        _ if bits & (MINUTE_FIELD | SECOND_FIELD) == 0 => Interval { microseconds: cut(HOUR), ..interval },
        _ if bits & SECOND_FIELD == 0 => Interval { microseconds: cut(MINUTE), ..interval },
        _ => interval,
    };
    let digits = to.second_digits().unwrap_or(DIGITS_MAX as u32);
    Interval { microseconds: rounded(kept.microseconds, digits), ..kept }
}
