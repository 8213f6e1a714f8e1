//! Reads and writes whole strings, one or many at once.
//!
//! Not here: parts of strings ([`super::string_ranges`]), numbers in them ([`super::counters`]), their bits
//! ([`super::bits`]).

use super::expiry::{Unit, deadline_ms};
use super::pieces::PIECE_BYTES;
use super::{Answer, Call, Handler, LONG_BYTES, Refusal, Run, check_key, is_word, refusal};
use crate::keyspace::value::{Body, Entry, Header, Kind};
use crate::keyspace::{Change, Data, KEY_BYTES_MAX, Keyspace, NewString, StringStream};
use crate::resp::reply::Reply;
use crate::state::pieces::Pieces;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("get", get).many(&[(2, get_many)]),
    Handler::new("set", set).many(&[(3, set_many), (4, set_if_absent_many)]),
    Handler::new("setnx", setnx).many(&[(3, setnx_many)]),
    Handler::new("setex", setex),
    Handler::new("psetex", psetex),
    Handler::new("getset", getset),
    Handler::new("getdel", getdel),
    Handler::new("getex", getex),
    Handler::new("mget", mget),
    Handler::new("mset", mset),
    Handler::new("msetnx", msetnx),
];

fn get(call: &mut Call<'_, '_>) -> Answer {
    let value = call.data.entry(call.session.database, call.args[1])?;
    call.expect_bytes(value.map_or(0, |entry| entry.length()))?;
    call.data.note_lookup(value.is_some());
    if let Some(entry) = &value
        && entry.length() > LONG_BYTES
        && let Some(string) = call.data.string_stream(call.session.database, call.args[1], entry)?
    {
        call.reply.begin_bulk(string.len());
        call.session.leave(LongAnswer(string));
        return Ok(());
    }
    answer_string(call.data, call.session.database, call.args[1], value, call.reply)
}

/// A long string that is read as it is sent.
struct LongAnswer(StringStream);

impl Pieces for LongAnswer {
    fn next(&mut self, _: &Keyspace, reply: &mut Reply) -> quipu::Result<bool> {
        let has_more = self.0.next(PIECE_BYTES as u64, &mut reply.bytes)?;
        if !has_more {
            reply.bytes.extend_from_slice(b"\r\n");
        }
        Ok(has_more)
    }
}

#[inline]
fn answer_string(data: &Data<'_>, database: usize, key: &[u8], entry: Option<Entry<'_>>, reply: &mut Reply) -> Answer {
    match entry {
        None => reply.null(),
        Some(Entry { body: Body::Bytes(bytes), .. }) => reply.bulk(bytes),
        Some(entry) => {
            let string = data.string_of(database, key, &entry)?.ok_or(refusal::WRONG_TYPE)?;
            reply.bulk_of(string.len(), |out| string.copy(0, string.len(), out))?;
        }
    }
    Ok(())
}

/// Answers the string that stands at the key that is the first argument, before it is changed.
fn answer_old(call: &mut Call<'_, '_>) -> Answer {
    let entry = call.data.entry(call.session.database, call.args[1])?;
    answer_string(call.data, call.session.database, call.args[1], entry, call.reply)
}

/// A run of `GET key`.
fn get_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    let (data, database, reply) = (&*run.data, run.database, &mut *run.reply);
    let mut is_long = false;
    data.entries(database, &keys, |number, entry| {
        is_long |= entry.is_some_and(|entry| entry.length() > LONG_BYTES);
        if !is_long && let Err(refused) = answer_string(data, database, keys[number], entry, reply) {
            reply.error(refused.reply_text().as_bytes());
        }
    })?;
    if is_long { Err(super::ONE_BY_ONE) } else { Ok(()) }
}

fn mget(call: &mut Call<'_, '_>) -> Answer {
    let (keys, database, reply) = (&call.args[1..], call.session.database, &mut *call.reply);
    let may_be_long = call.data.is_patient() || !call.session.can_wait;
    reply.array(keys.len());
    let (mut bytes, mut outcome) = (0, Ok(()));
    call.data.entries(database, keys, |number, entry| {
        let entry = entry.filter(Entry::is_string);
        bytes += entry.map_or(0, |entry| entry.length());
        // What is copied here in vain is copied again beside the loop.
        if outcome.is_ok() && (may_be_long || bytes <= LONG_BYTES) {
            outcome = answer_string(call.data, database, keys[number], entry, reply);
        }
    })?;
    outcome?;
    call.expect_bytes(bytes)
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

/// Sends a run in which a string is long, or all are, one by one.
fn check_short(run: &Run<'_, '_>, values: &[&[u8]]) -> Answer {
    let keyspace = run.data.keyspace();
    let is_long = values.iter().any(|value| keyspace.cuts(value.len())) || bytes_of(values) as u64 > LONG_BYTES;
    if is_long { Err(super::ONE_BY_ONE) } else { Ok(()) }
}

/// A run of `SET key value`.
fn set_many(run: &mut Run<'_, '_>) -> Answer {
    let (keys, values) = (run.column(1), run.column(2));
    check_short(run, &values)?;
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
    check_short(run, &values)?;
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
    let value = call.new_string(call.args[2])?;
    match put(call, value, options.condition, options.wants_old, time)? {
        _ if options.wants_old => {}
        true => call.reply.ok(),
        false => call.reply.null(),
    }
    Ok(())
}

/// Puts a string at the key that is the first argument. Returns whether the condition held.
fn put(
    call: &mut Call<'_, '_>,
    mut value: NewString<'_>,
    condition: Condition,
    wants_old: bool,
    time: Time<u64>,
) -> Result<bool, Refusal> {
    if wants_old {
        answer_old(call)?;
    }
    let now_ms = call.data.now_ms;
    let (mut done, mut came_and_went) = (false, false);
    call.data.change(call.session.database, call.args[1], |entry, new| {
        let is_live = entry.is_some();
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
        value.write(Header::string(deadline_ms), new)
    })?;
    if came_and_went {
        call.data.touch(call.session.database, call.args[1]);
    }
    Ok(done)
}

fn setnx(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let value = call.new_string(call.args[2])?;
    let done = put(call, value, Condition::IfAbsent, false, Time::Default)?;
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
    let value = call.new_string(call.args[3])?;
    put(call, value, Condition::Always, false, Time::At(deadline_ms))?;
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> Answer {
    check_key(call.args[1])?;
    let value = call.new_string(call.args[2])?;
    put(call, value, Condition::Always, true, Time::Default).map(|_| ())
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
    answer_old(call)?;
    call.data.change(call.session.database, call.args[1], |entry, new| {
        let Some(entry) = entry else { return Change::Keep };
        match header(entry.header) {
            None => Change::Remove,
            Some(header) if header == entry.header => Change::Keep,
            Some(header) => {
                Entry { header, ..entry }.encode(new);
                Change::Put
            }
        }
    })?;
    Ok(())
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

/// Puts strings at keys; if `only_new`, only if all of them hold nothing. Returns whether they were put.
fn put_pairs(call: &mut Call<'_, '_>, keys: &[&[u8]], values: &[&[u8]], only_new: bool) -> Result<bool, Refusal> {
    let mut strings = call.new_strings(values)?;
    let database = call.session.database;
    if only_new {
        for key in keys {
            if call.data.entry(database, key)?.is_some() {
                return Ok(false);
            }
        }
    }
    let whole_bytes = values.iter().map(|value| value.len()).filter(|bytes| !call.data.keyspace().cuts(*bytes)).sum();
    call.data.reserve(database, keys, whole_bytes)?;
    let header = Header::new(Kind::String);
    call.data.change_many(database, keys, |number, _, new| strings[number].write(header, new))?;
    Ok(true)
}

fn mset(call: &mut Call<'_, '_>) -> Answer {
    let (keys, values) = pairs(call)?;
    put_pairs(call, &keys, &values, false)?;
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> Answer {
    let (keys, values) = pairs(call)?;
    let done = put_pairs(call, &keys, &values, true)?;
    call.reply.integer(i64::from(done));
    Ok(())
}
