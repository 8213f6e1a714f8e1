//! Strings as wholes: put, fetched, replaced, many at once.
//!
//! Not here: parts of strings ([`super::string_ranges`]), numbers in them ([`super::counters`]), their bits ([`super::bits`]).

use super::expiry::{Unit, deadline_ms};
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, Run, check_key, is_word, refusal};
use crate::keyspace::value::{Entry, Header, Kind};
use crate::keyspace::{Change, KEY_BYTES_MAX};
use crate::resp::reply::Reply;

const READ: Flags = Flags::READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("get", 2, READ, Group::String, get)
        .keys(1, 1, 1)
        .about("key", "The string at a key.", "1.0.0")
        .costs("O(log n)", "O(1)")
        .many(&[(2, get_many)]),
    Spec::new("set", -3, WRITE, Group::String, set)
        .keys(1, 1, 1)
        .about(
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
            "Puts a string at a key, whatever stood there.",
            "1.0.0",
        )
        .costs("O(log n)", "O(1)")
        .many(&[(3, set_many), (4, set_if_absent_many)]),
    Spec::new("setnx", 3, WRITE.and(Flags::FAST), Group::String, setnx)
        .keys(1, 1, 1)
        .about("key value", "Puts a string at a key that holds nothing.", "1.0.0")
        .costs("O(log n)", "O(1)")
        .many(&[(3, setnx_many)]),
    Spec::new("setex", 4, WRITE, Group::String, setex)
        .keys(1, 1, 1)
        .about("key seconds value", "Puts a string that is to expire after some seconds.", "2.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("psetex", 4, WRITE, Group::String, psetex)
        .keys(1, 1, 1)
        .about("key milliseconds value", "Puts a string that is to expire after some milliseconds.", "2.6.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getset", 3, WRITE.and(Flags::FAST), Group::String, getset)
        .keys(1, 1, 1)
        .about("key value", "Puts a string at a key, and answers the one that stood there.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getdel", 2, Flags::WRITE.and(Flags::FAST), Group::String, getdel)
        .keys(1, 1, 1)
        .about("key", "The string at a key, which is removed.", "6.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getex", -2, Flags::WRITE.and(Flags::FAST), Group::String, getex)
        .keys(1, 1, 1)
        .about(
            "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
            "The string at a key, whose time to live can be changed along the way.",
            "6.2.0",
        )
        .costs("O(log n)", "O(1)"),
    Spec::new("mget", -2, READ, Group::String, mget)
        .keys(1, -1, 1)
        .about("key [key ...]", "The strings at several keys.", "1.0.0")
        .costs("O(k log n), descents interleaved", "O(k)"),
    Spec::new("mset", -3, WRITE, Group::String, mset)
        .keys(1, -1, 2)
        .about("key value [key value ...]", "Puts strings at several keys.", "1.0.1")
        .costs("O(k log n), descents interleaved", "O(k)"),
    Spec::new("msetnx", -3, WRITE, Group::String, msetnx)
        .keys(1, -1, 2)
        .about("key value [key value ...]", "Puts strings at several keys if all of them hold nothing.", "1.0.1")
        .costs("O(k log n)", "O(k)"),
];

fn get(call: &mut Call<'_, '_>) -> Answer {
    let value = call.data.entry(call.session.database, call.args[1])?;
    call.data.keyspace().counters.note_lookup(value.is_some());
    answer_string(call.reply, value)
}

fn answer_string(reply: &mut Reply, entry: Option<Entry<'_>>) -> Answer {
    match entry {
        None => reply.null(),
        Some(entry) if entry.header.kind == Kind::String => reply.bulk(entry.body),
        Some(_) => return Err(refusal::WRONG_TYPE),
    }
    Ok(())
}

/// A run of `GET key`.
fn get_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    let reply = &mut *run.reply;
    run.data.entries(run.database, &keys, |_, entry| {
        if let Err(refused) = answer_string(reply, entry) {
            reply.error(refused.reply_text().as_bytes());
        }
    })?;
    Ok(())
}

fn mget(call: &mut Call<'_, '_>) -> Answer {
    let (keys, reply) = (&call.args[1..], &mut *call.reply);
    reply.array(keys.len());
    call.data.entries(call.session.database, keys, |_, entry| {
        match entry.filter(|entry| entry.header.kind == Kind::String) {
            Some(entry) => reply.bulk(entry.body),
            None => reply.null(),
        }
    })?;
    Ok(())
}

/// Writes a string that replaces all that stood at a key.
#[inline]
fn write_string(new: &mut Vec<u8>, value: &[u8]) -> Change {
    Header::new(Kind::String).encode(new);
    new.extend_from_slice(value);
    Change::Put
}

fn bytes_of(values: &[&[u8]]) -> usize {
    values.iter().map(|value| value.len()).sum()
}

/// A run of `SET key value`.
fn set_many(run: &mut Run<'_, '_>) -> Answer {
    let (keys, values) = (run.column(1), run.column(2));
    run.reserve(&keys, bytes_of(&values))?;
    run.data.change_many(run.database, &keys, |number, _, new| write_string(new, values[number]))?;
    keys.iter().for_each(|_| run.reply.ok());
    Ok(())
}

/// A run of `SET key value NX`.
fn set_if_absent_many(run: &mut Run<'_, '_>) -> Answer {
    if !run.column(3).iter().all(|option| is_word(option, "nx")) {
        return Err(super::ONE_BY_ONE);
    }
    put_absent_many(run, |reply, done| if done { reply.ok() } else { reply.null() })
}

/// A run of `SETNX key value`.
fn setnx_many(run: &mut Run<'_, '_>) -> Answer {
    put_absent_many(run, |reply, done| reply.integer(i64::from(done)))
}

fn put_absent_many(run: &mut Run<'_, '_>, answer: fn(&mut Reply, bool)) -> Answer {
    let (keys, values) = (run.column(1), run.column(2));
    run.reserve(&keys, bytes_of(&values))?;
    let reply = &mut *run.reply;
    run.data.change_many(run.database, &keys, |number, entry, new| {
        answer(reply, entry.is_none());
        if entry.is_some() { Change::Keep } else { write_string(new, values[number]) }
    })?;
    Ok(())
}

/// Whether `SET` puts only a new key, or only an old one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// What becomes of a key's deadline: in the words of the command, or resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time<T> {
    /// Nothing was said.
    Default,
    /// `KEEPTTL`.
    Keep,
    /// `PERSIST`.
    Never,
    At(T),
}

/// The options of `SET` or `GETEX`. An option may be repeated; those that contradict each other may not stand together.
struct Options {
    condition: Condition,
    wants_old: bool,
    /// The unit of the deadline, and the place of its number.
    time: Time<(Unit, usize)>,
}

impl Options {
    fn read(args: &[&[u8]], mut place: usize, is_set: bool) -> Result<Options, Refusal> {
        let mut options = Options { condition: Condition::Always, wants_old: false, time: Time::Default };
        while let Some(&word) = args.get(place) {
            let Options { condition, time, .. } = options;
            if is_set && is_word(word, "nx") && condition != Condition::IfPresent {
                options.condition = Condition::IfAbsent;
            } else if is_set && is_word(word, "xx") && condition != Condition::IfAbsent {
                options.condition = Condition::IfPresent;
            } else if is_set && is_word(word, "get") {
                options.wants_old = true;
            } else if is_set && is_word(word, "keepttl") && matches!(time, Time::Default | Time::Keep) {
                options.time = Time::Keep;
            } else if !is_set && is_word(word, "persist") && matches!(time, Time::Default | Time::Never) {
                options.time = Time::Never;
            } else if let Some(unit) = Unit::of(word)
                && place + 1 < args.len()
                && match time {
                    Time::Default => true,
                    Time::At((before, _)) => before == unit,
                    Time::Keep | Time::Never => false,
                }
            {
                options.time = Time::At((unit, place + 1));
                place += 1;
            } else {
                return Err(refusal::SYNTAX);
            }
            place += 1;
        }
        Ok(options)
    }

    /// With the moment that the command names.
    fn resolve(&self, call: &Call<'_, '_>) -> Result<Time<u64>, Refusal> {
        Ok(match self.time {
            Time::Default => Time::Default,
            Time::Keep => Time::Keep,
            Time::Never => Time::Never,
            Time::At((unit, place)) => Time::At(deadline_ms(call, unit, place)?),
        })
    }
}

fn set(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let options = Options::read(call.args, 3, true)?;
    let time = options.resolve(call)?;
    match put(call, call.args[2], options.condition, options.wants_old, time)? {
        _ if options.wants_old => {}
        true => call.reply.ok(),
        false => call.reply.null(),
    }
    Ok(())
}

/// Puts a string at the key that is the first argument. Returns whether the condition held.
fn put(
    call: &mut Call<'_, '_>,
    value: &[u8],
    condition: Condition,
    wants_old: bool,
    time: Time<u64>,
) -> Result<bool, Refusal> {
    let (reply, now_ms) = (&mut *call.reply, call.data.now_ms);
    let (mut refused, mut done, mut came_and_went) = (None, false, false);
    call.data.change(call.session.database, call.args[1], |entry, new| {
        let is_live = entry.is_some();
        if wants_old && let Err(refusal) = answer_string(reply, entry) {
            refused = Some(refusal);
            return Change::Keep;
        }
        if condition == Condition::IfAbsent && is_live || condition == Condition::IfPresent && !is_live {
            return Change::Keep;
        }
        done = true;
        let deadline_ms = match time {
            Time::Default | Time::Never => None,
            Time::Keep => entry.and_then(|entry| entry.header.deadline_ms),
            // What is past at once is not there at all.
            Time::At(deadline_ms) if deadline_ms <= now_ms => {
                came_and_went = !is_live;
                return Change::Remove;
            }
            Time::At(deadline_ms) => Some(deadline_ms),
        };
        Header::string(deadline_ms).encode(new);
        new.extend_from_slice(value);
        Change::Put
    })?;
    if came_and_went {
        call.data.touch(call.session.database, call.args[1]);
    }
    refused.map_or(Ok(done), Err)
}

fn setnx(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let done = put(call, call.args[2], Condition::IfAbsent, false, Time::Default)?;
    call.reply.integer(i64::from(done));
    Ok(())
}

fn setex(call: &mut Call<'_, '_>) -> Answer {
    set_to_expire(call, Unit::Seconds)
}

fn psetex(call: &mut Call<'_, '_>) -> Answer {
    set_to_expire(call, Unit::Milliseconds)
}

fn set_to_expire(call: &mut Call<'_, '_>, unit: Unit) -> Answer {
    check_key(call.args[1])?;
    let deadline_ms = deadline_ms(call, unit, 2)?;
    put(call, call.args[3], Condition::Always, false, Time::At(deadline_ms))?;
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    put(call, call.args[2], Condition::Always, true, Time::Default).map(|_| ())
}

fn getdel(call: &mut Call<'_, '_>) -> Answer {
    replace_header(call, |_| None)
}

fn getex(call: &mut Call<'_, '_>) -> Answer {
    let options = Options::read(call.args, 2, false)?;
    // The number is looked at only if there is a string.
    if call.string(call.args[1])?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let now_ms = call.data.now_ms;
    match options.resolve(call)? {
        Time::Default | Time::Keep => replace_header(call, Some),
        Time::Never => replace_header(call, |header| Some(Header { deadline_ms: None, ..header })),
        Time::At(moment) if moment <= now_ms => replace_header(call, |_| None),
        Time::At(moment) => replace_header(call, |header| Some(Header { deadline_ms: Some(moment), ..header })),
    }
}

/// Answers the string at the key that is the first argument, and gives it another header, or removes it.
fn replace_header(call: &mut Call<'_, '_>, header: impl FnOnce(Header) -> Option<Header>) -> Answer {
    if call.args[1].len() > KEY_BYTES_MAX {
        call.reply.null();
        return Ok(());
    }
    let (reply, mut result) = (&mut *call.reply, Ok(()));
    call.data.change(call.session.database, call.args[1], |entry, new| {
        result = answer_string(reply, entry);
        let (Some(entry), Ok(())) = (entry, &result) else { return Change::Keep };
        match header(entry.header) {
            None => Change::Remove,
            Some(header) if header == entry.header => Change::Keep,
            Some(header) => {
                header.encode(new);
                new.extend_from_slice(entry.body);
                Change::Put
            }
        }
    })?;
    result
}

type Words<'c> = Vec<&'c [u8]>;

/// The keys and the values of `MSET`.
fn pairs<'c>(call: &Call<'c, '_>) -> Result<(Words<'c>, Words<'c>), Refusal> {
    if call.args.len().is_multiple_of(2) {
        return Err(refusal::wrong_arity(call.spec.name));
    }
    let keys: Words<'c> = call.args[1..].iter().step_by(2).copied().collect();
    keys.iter().try_for_each(|key| check_key(key))?;
    Ok((keys, call.args[2..].iter().step_by(2).copied().collect()))
}

fn mset(call: &mut Call<'_, '_>) -> Answer {
    let (keys, values) = pairs(call)?;
    call.data.reserve(call.session.database, &keys, bytes_of(&values))?;
    call.data.change_many(call.session.database, &keys, |number, _, new| write_string(new, values[number]))?;
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> Answer {
    let (keys, values) = pairs(call)?;
    for key in &keys {
        if call.data.entry(call.session.database, key)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    call.data.reserve(call.session.database, &keys, bytes_of(&values))?;
    call.data.change_many(call.session.database, &keys, |number, _, new| write_string(new, values[number]))?;
    call.reply.integer(1);
    Ok(())
}
