//! Sets, removes and tells the deadlines of keys.
//!
//! A key that is given a deadline in the past is removed at once.
//!
//! Not here: what goes when its deadline has come (`keyspace/expiry`).

use super::{CommandResult, EntityCall, Handler, Refusal, entity_handler, is_word, refusal};
use crate::entities::{Entities, NewDeadline};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    entity_handler!("expire", expire),
    entity_handler!("pexpire", pexpire),
    entity_handler!("expireat", expireat),
    entity_handler!("pexpireat", pexpireat),
    entity_handler!("ttl", ttl),
    entity_handler!("pttl", pttl),
    entity_handler!("expiretime", expiretime),
    entity_handler!("pexpiretime", pexpiretime),
    entity_handler!("persist", persist),
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
    fn moment_ms(self, number: i64, now_ms: u64) -> Option<i64> {
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

fn invalid<E>(call: &EntityCall<'_, E>) -> Refusal {
    Refusal::new(format!("ERR invalid expire time in '{}' command", call.spec.name))
}

/// The moment that a positive number at `place` names, in milliseconds since 1970.
pub fn deadline_ms<E: Entities>(call: &EntityCall<'_, E>, unit: Unit, place: usize) -> Result<u64, Refusal> {
    let number = call.integer(place)?;
    let moment = if number > 0 { unit.moment_ms(number, call.entities.now_ms()) } else { None };
    moment.and_then(|moment| u64::try_from(moment).ok()).ok_or_else(|| invalid(call))
}

fn expire<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    set_deadline(call, Unit::Seconds)
}

fn pexpire<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    set_deadline(call, Unit::Milliseconds)
}

fn expireat<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    set_deadline(call, Unit::UnixSeconds)
}

fn pexpireat<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
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
                () => return Err(Refusal::quoting("ERR Unsupported option ", option, "")),
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

fn set_deadline<E: Entities>(call: &mut EntityCall<'_, E>, unit: Unit) -> CommandResult {
    let conditions = Conditions::read(&call.args[3..])?;
    let now_ms = call.entities.now_ms();
    let moment = unit.moment_ms(call.integer(2)?, now_ms).ok_or_else(|| invalid(call))?;
    let is_made = call.entities.set_deadline(call.args[1], |before| match u64::try_from(moment) {
        _ if !conditions.hold(before, moment) => NewDeadline::Unchanged,
        Ok(moment) if moment > now_ms => NewDeadline::Put(Some(moment)),
        _ => NewDeadline::Past,
    })?;
    call.reply.integer(i64::from(is_made));
    Ok(())
}

fn persist<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let is_made = call.entities.set_deadline(call.args[1], |before| match before {
        Some(_) => NewDeadline::Put(None),
        None => NewDeadline::Unchanged,
    })?;
    call.reply.integer(i64::from(is_made));
    Ok(())
}

fn ttl<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let now_ms = call.entities.now_ms();
    tell(call, |deadline_ms| (deadline_ms.saturating_sub(now_ms) + 500) / 1000)
}

fn pttl<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let now_ms = call.entities.now_ms();
    tell(call, |deadline_ms| deadline_ms.saturating_sub(now_ms))
}

fn expiretime<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    tell(call, |deadline_ms| (deadline_ms + 500) / 1000)
}

fn pexpiretime<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    tell(call, |deadline_ms| deadline_ms)
}

fn tell<E: Entities>(call: &mut EntityCall<'_, E>, number: impl FnOnce(u64) -> u64) -> CommandResult {
    let answer = match call.entities.find(call.args[1])?.map(|found| found.deadline_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) => number(deadline_ms) as i64,
    };
    call.reply.integer(answer);
    Ok(())
}
