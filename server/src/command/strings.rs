//! Reads and writes whole strings, one or many at once.
//!
//! A single command is one about entities, wherever they are. Runs of `GET`, `SET` and `SETNX`, which are most of what
//! a node alone does, work on the data directly, and mean the same.
//!
//! Not here: parts of strings ([`super::string_ranges`]), numbers in them ([`super::counters`]), their bits
//! ([`super::bits`]).

use super::expiry::{Unit, deadline_ms};
use super::pieces::PIECE_BYTES;
use super::{Call, CommandResult, EntityCall, Handler, LONG_BYTES, Refusal, Run, entity_handler, is_word, refusal};
use crate::entities::{Condition, Entities, Lifetime, Value};
use crate::keyspace::value::{Body, Entry, Header, Kind};
use crate::keyspace::{Change, Data, KEY_BYTES_MAX, Keyspace, StoredString, StringStream};
use crate::resp::reply::Reply;
use crate::state::pieces::Pieces;
use crate::state::session::Session;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    entity_handler!("get", get).many(&[(2, get_many)]),
    entity_handler!("set", set).many(&[(3, set_many), (4, set_if_absent_many)]),
    entity_handler!("setnx", setnx).many(&[(3, setnx_many)]),
    entity_handler!("setex", setex),
    entity_handler!("psetex", psetex),
    Handler::new("getset", getset),
    Handler::new("getdel", getdel),
    Handler::new("getex", getex),
    entity_handler!("mget", mget),
    entity_handler!("mset", mset),
    Handler::new("msetnx", msetnx),
];

fn get<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let EntityCall { args, entities, session, reply, .. } = call;
    entities.get(args[1], |value| answer_value(session, reply, value))?
}

/// Answers the string at a key, or null if there is none.
#[inline]
fn answer_value(session: &mut Session, reply: &mut Reply, value: Option<Value<'_>>) -> CommandResult {
    match value {
        None => reply.null(),
        Some(Value::String(string)) => answer_string(reply, &string)?,
        Some(Value::Stream(string)) => {
            reply.begin_bulk(string.len());
            session.leave(LongAnswer(string));
        }
        Some(Value::Other) => return Err(refusal::WRONG_TYPE),
    }
    Ok(())
}

/// Answers a string.
#[inline]
pub(super) fn answer_string(reply: &mut Reply, string: &StoredString<'_>) -> quipu::Result<()> {
    match string {
        StoredString::Whole(bytes) => reply.bulk(bytes),
        _ => reply.bulk_of(string.len(), |out| string.copy(0, string.len(), out))?,
    }
    Ok(())
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
fn answer_entry(
    data: &Data<'_>,
    database: usize,
    key: &[u8],
    entry: Option<Entry<'_>>,
    reply: &mut Reply,
) -> CommandResult {
    match entry {
        None => reply.null(),
        Some(Entry { body: Body::Bytes(bytes), .. }) => reply.bulk(bytes),
        Some(entry) => {
            answer_string(reply, &data.string_of(database, key, &entry)?.ok_or(refusal::WRONG_TYPE)?)?;
        }
    }
    Ok(())
}

/// Answers the string that stands at the key that is the first argument, before it is changed.
fn answer_old<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let EntityCall { args, entities, session, reply, .. } = call;
    entities.get_to_replace(args[1], |value| answer_value(session, reply, value))?
}

/// A run of `GET key`.
fn get_many(run: &mut Run<'_, '_>) -> CommandResult {
    let keys = run.column(1);
    let (data, database, reply) = (&*run.data, run.database, &mut *run.reply);
    let mut is_long = false;
    data.entries(database, &keys, |number, entry| {
        is_long |= entry.is_some_and(|entry| entry.length() > LONG_BYTES);
        if !is_long && let Err(refused) = answer_entry(data, database, keys[number], entry, reply) {
            reply.error(refused.reply_bytes());
        }
    })?;
    if is_long { Err(super::ONE_BY_ONE) } else { Ok(()) }
}

fn mget<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let EntityCall { args, entities, reply, .. } = call;
    let keys = &args[1..];
    reply.array(keys.len());
    let mut outcome = Ok(());
    entities.get_many(keys, |value| match value {
        Some(Value::String(string)) if outcome.is_ok() => outcome = answer_string(reply, &string),
        _ => reply.null(),
    })?;
    Ok(outcome?)
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
fn check_short(run: &Run<'_, '_>, values: &[&[u8]]) -> CommandResult {
    let keyspace = run.data.keyspace();
    let is_long = values.iter().any(|value| keyspace.cuts(value.len())) || bytes_of(values) as u64 > LONG_BYTES;
    if is_long { Err(super::ONE_BY_ONE) } else { Ok(()) }
}

/// A run of `SET key value`.
fn set_many(run: &mut Run<'_, '_>) -> CommandResult {
    let (keys, values) = (run.column(1), run.column(2));
    check_short(run, &values)?;
    run.reserve(&keys, bytes_of(&values))?;
    run.data.change_many(run.database, &keys, |number, _, new| write_string(new, values[number]))?;
    keys.iter().for_each(|_| run.reply.ok());
    Ok(())
}

/// A run of `SET key value NX`.
fn set_if_absent_many(run: &mut Run<'_, '_>) -> CommandResult {
    if !run.column(3).iter().all(|option| condition_of(option) == Some(&Condition::ABSENT)) {
        return Err(super::ONE_BY_ONE);
    }
    put_absent_many(run, |reply, done| if done { reply.ok() } else { reply.null() })
}

/// A run of `SETNX key value`.
fn setnx_many(run: &mut Run<'_, '_>) -> CommandResult {
    put_absent_many(run, |reply, done| reply.integer(i64::from(done)))
}

fn put_absent_many(run: &mut Run<'_, '_>, answer: fn(&mut Reply, bool)) -> CommandResult {
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

/// What `NX` and `XX` say of what stands at the key.
fn condition_of(word: &[u8]) -> Option<&'static Condition> {
    match () {
        () if is_word(word, "nx") => Some(&Condition::ABSENT),
        () if is_word(word, "xx") => Some(&Condition::PRESENT),
        () => None,
    }
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
    /// Whether `SET` puts only a new key (`NX`), or only an old one (`XX`).
    condition: &'static Condition,
    wants_old: bool,
    /// The unit of the deadline, and the place of its number.
    time: Time<(Unit, usize)>,
}

impl Options {
    fn read(args: &[&[u8]], mut place: usize, is_set: bool) -> Result<Options, Refusal> {
        let mut options = Options { condition: &Condition::NONE, wants_old: false, time: Time::Default };
        while let Some(&word) = args.get(place) {
            let time = options.time;
            if let Some(condition) = condition_of(word).filter(|_| is_set)
                && (options.condition.is_empty() || options.condition == condition)
            {
                options.condition = condition;
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
    fn resolve<E: Entities>(&self, call: &EntityCall<'_, E>) -> Result<Time<u64>, Refusal> {
        Ok(match self.time {
            Time::Default => Time::Default,
            Time::Keep => Time::Keep,
            Time::Never => Time::Never,
            Time::At((unit, place)) => Time::At(deadline_ms(call, unit, place)?),
        })
    }
}

fn set<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let options = Options::read(call.args, 3, true)?;
    let lifetime = match options.resolve(call)? {
        Time::Default | Time::Never => Lifetime::Forever,
        Time::Keep => Lifetime::Kept,
        Time::At(deadline_ms) => Lifetime::Until(deadline_ms),
    };
    match put(call, call.args[2], options.condition, options.wants_old, lifetime)? {
        _ if options.wants_old => {}
        true => call.reply.ok(),
        false => call.reply.null(),
    }
    Ok(())
}

/// Puts a string at the key that is the first argument. Returns whether the condition held.
fn put<E: Entities>(
    call: &mut EntityCall<'_, E>,
    value: &[u8],
    condition: &Condition,
    wants_old: bool,
    lifetime: Lifetime,
) -> Result<bool, Refusal> {
    let key = call.args[1];
    let value = call.entities.prepare(key, value)?;
    if wants_old {
        answer_old(call)?;
    }
    Ok(call.entities.put(key, value, condition, lifetime)?)
}

fn setnx<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let is_put = put(call, call.args[2], &Condition::ABSENT, false, Lifetime::Forever)?;
    call.reply.integer(i64::from(is_put));
    Ok(())
}

fn setex<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    set_to_expire(call, Unit::Seconds)
}

fn psetex<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    set_to_expire(call, Unit::Milliseconds)
}

fn set_to_expire<E: Entities>(call: &mut EntityCall<'_, E>, unit: Unit) -> CommandResult {
    let lifetime = Lifetime::Until(deadline_ms(call, unit, 2)?);
    put(call, call.args[3], &Condition::NONE, false, lifetime)?;
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> CommandResult {
    let value = call.args[2];
    put(&mut call.entities(), value, &Condition::NONE, true, Lifetime::Forever).map(|_| ())
}

fn getdel(call: &mut Call<'_, '_>) -> CommandResult {
    replace_header(call, |_| None)
}

fn getex(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::read(call.args, 2, false)?;
    // The number is looked at only if there is a string.
    if call.string(call.args[1])?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let now_ms = call.data.now_ms;
    match options.resolve(&call.entities())? {
        Time::Default | Time::Keep => replace_header(call, Some),
        Time::Never => replace_header(call, |header| Some(Header { deadline_ms: None, ..header })),
        Time::At(moment) if moment <= now_ms => replace_header(call, |_| None),
        Time::At(moment) => replace_header(call, |header| Some(Header { deadline_ms: Some(moment), ..header })),
    }
}

/// Answers the string at the key that is the first argument, and gives it another header, or removes it.
fn replace_header(call: &mut Call<'_, '_>, header: impl FnOnce(Header) -> Option<Header>) -> CommandResult {
    if call.args[1].len() > KEY_BYTES_MAX {
        call.reply.null();
        return Ok(());
    }
    answer_old(&mut call.entities())?;
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
fn pairs<'c>(args: &[&'c [u8]], name: &str) -> Result<(Words<'c>, Words<'c>), Refusal> {
    if args.len().is_multiple_of(2) {
        return Err(refusal::wrong_arity(name));
    }
    let column = |first: usize| args[first..].iter().step_by(2).copied().collect();
    Ok((column(1), column(2)))
}

fn mset<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let (keys, values) = pairs(call.args, call.spec.name)?;
    let strings = call.entities.prepare_many(&keys, &values)?;
    call.entities.put_many(&keys, strings)?;
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> CommandResult {
    let (keys, values) = pairs(call.args, call.spec.name)?;
    let strings = call.alone().prepare_many(&keys, &values)?;
    for key in &keys {
        if call.data.entry(call.session.database, key)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    call.alone().put_many(&keys, strings)?;
    call.reply.integer(1);
    Ok(())
}
