//! Sets, removes and tells the deadlines of keys.
//!
//! A key that is given a deadline in the past is removed at once.

use super::{Answer, Call, Handler, Refusal, is_word, refusal};
use crate::keyspace::value::{Entry, Header};
use crate::keyspace::{Change, KEY_BYTES_MAX};
use crate::resp::word::printable;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("expire", expire),
    Handler::new("pexpire", pexpire),
    Handler::new("expireat", expireat),
    Handler::new("pexpireat", pexpireat),
    Handler::new("ttl", ttl),
    Handler::new("pttl", pttl),
    Handler::new("expiretime", expiretime),
    Handler::new("pexpiretime", pexpiretime),
    Handler::new("persist", persist),
];

/// How a deadline is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMilliseconds,
}

impl Unit {
    /// The unit of an option: `EX`, `PX`, `EXAT` or `PXAT`.
    pub fn of(option: &[u8]) -> Option<Unit> {
        const UNITS: [(&str, Unit); 4] = [
            ("ex", Unit::Seconds),
            ("px", Unit::Milliseconds),
            ("exat", Unit::UnixSeconds),
            ("pxat", Unit::UnixMilliseconds),
        ];
        UNITS.iter().find(|(name, _)| is_word(option, name)).map(|(_, unit)| *unit)
    }

    /// The moment in milliseconds since 1970, if it can be told.
    pub(super) fn moment_ms(self, number: i64, now_ms: u64) -> Option<i64> {
        let milliseconds = match self {
            Unit::Seconds | Unit::UnixSeconds => number.checked_mul(1000)?,
            Unit::Milliseconds | Unit::UnixMilliseconds => number,
        };
        match self {
            Unit::Seconds | Unit::Milliseconds => milliseconds.checked_add(now_ms as i64),
            Unit::UnixSeconds | Unit::UnixMilliseconds => Some(milliseconds),
        }
    }
}

fn invalid(call: &Call<'_, '_>) -> Refusal {
    Refusal::new(format!("ERR invalid expire time in '{}' command", call.spec.name))
}

/// The moment that a positive number at `place` names, in milliseconds since 1970.
pub fn deadline_ms(call: &Call<'_, '_>, unit: Unit, place: usize) -> Result<u64, Refusal> {
    let number = call.integer(place)?;
    let moment = if number > 0 { unit.moment_ms(number, call.data.now_ms) } else { None };
    moment.and_then(|moment| u64::try_from(moment).ok()).ok_or_else(|| invalid(call))
}

fn expire(call: &mut Call<'_, '_>) -> Answer {
    set_deadline(call, Unit::Seconds)
}

fn pexpire(call: &mut Call<'_, '_>) -> Answer {
    set_deadline(call, Unit::Milliseconds)
}

fn expireat(call: &mut Call<'_, '_>) -> Answer {
    set_deadline(call, Unit::UnixSeconds)
}

fn pexpireat(call: &mut Call<'_, '_>) -> Answer {
    set_deadline(call, Unit::UnixMilliseconds)
}

/// What a new deadline is held against.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn read(options: &[&[u8]]) -> Result<Conditions, Refusal> {
        let mut conditions = Conditions::default();
        for option in options {
            let condition = match () {
                () if is_word(option, "nx") => &mut conditions.if_none,
                () if is_word(option, "xx") => &mut conditions.if_some,
                () if is_word(option, "gt") => &mut conditions.if_later,
                () if is_word(option, "lt") => &mut conditions.if_earlier,
                () => return Err(Refusal::new(format!("ERR Unsupported option {}", printable(option, 128)))),
            };
            *condition = true;
        }
        let Conditions { if_none, if_some, if_later, if_earlier } = conditions;
        if if_none && (if_some || if_later || if_earlier) {
            return Err(refusal::text("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if if_later && if_earlier {
            return Err(refusal::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether `moment` may replace a deadline. A key without one expires later than any other.
    fn hold(&self, before: Option<u64>, moment: i64) -> bool {
        let before = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        !(self.if_none && before.is_some()
            || self.if_some && before.is_none()
            || self.if_later && before.is_none_or(|before| moment <= before)
            || self.if_earlier && before.is_some_and(|before| moment >= before))
    }
}

fn set_deadline(call: &mut Call<'_, '_>, unit: Unit) -> Answer {
    let conditions = Conditions::read(&call.args[3..])?;
    let moment = unit.moment_ms(call.integer(2)?, call.data.now_ms).ok_or_else(|| invalid(call))?;
    let now_ms = call.data.now_ms;
    let done = change_header(call, |header| {
        if !conditions.hold(header.deadline_ms, moment) {
            return Outcome::Keep;
        }
        match u64::try_from(moment) {
            Ok(moment) if moment > now_ms => Outcome::Put(Some(moment)),
            _ => Outcome::Remove,
        }
    })?;
    call.reply.integer(i64::from(done));
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Answer {
    let done =
        change_header(call, |header| if header.deadline_ms.is_some() { Outcome::Put(None) } else { Outcome::Keep })?;
    call.reply.integer(i64::from(done));
    Ok(())
}

/// What becomes of a key.
enum Outcome {
    Keep,
    Remove,
    /// It gets this deadline; all else stays.
    Put(Option<u64>),
}

/// Gives the key that is the first argument another deadline. Returns whether it was there, and was changed.
fn change_header(call: &mut Call<'_, '_>, decide: impl FnOnce(&Header) -> Outcome) -> Result<bool, Refusal> {
    if call.args[1].len() > KEY_BYTES_MAX {
        return Ok(false);
    }
    let mut done = false;
    call.data.change(call.session.database, call.args[1], |entry, new| {
        let Some(entry) = entry else { return Change::Keep };
        match decide(&entry.header) {
            Outcome::Keep => Change::Keep,
            Outcome::Remove => {
                done = true;
                Change::Remove
            }
            Outcome::Put(deadline_ms) => {
                done = true;
                Entry { header: Header { deadline_ms, ..entry.header }, ..entry }.encode(new);
                Change::Put
            }
        }
    })?;
    Ok(done)
}

fn ttl(call: &mut Call<'_, '_>) -> Answer {
    let now_ms = call.data.now_ms;
    tell(call, |deadline_ms| (deadline_ms.saturating_sub(now_ms) + 500) / 1000)
}

fn pttl(call: &mut Call<'_, '_>) -> Answer {
    let now_ms = call.data.now_ms;
    tell(call, |deadline_ms| deadline_ms.saturating_sub(now_ms))
}

fn expiretime(call: &mut Call<'_, '_>) -> Answer {
    tell(call, |deadline_ms| (deadline_ms + 500) / 1000)
}

fn pexpiretime(call: &mut Call<'_, '_>) -> Answer {
    tell(call, |deadline_ms| deadline_ms)
}

fn tell(call: &mut Call<'_, '_>, number: impl FnOnce(u64) -> u64) -> Answer {
    let answer = match call.entry(call.args[1])? {
        None => -2,
        Some(Entry { header: Header { deadline_ms: None, .. }, .. }) => -1,
        Some(Entry { header: Header { deadline_ms: Some(deadline_ms), .. }, .. }) => number(deadline_ms) as i64,
    };
    call.reply.integer(answer);
    Ok(())
}
