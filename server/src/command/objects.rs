//! `OBJECT`: how Redis would hold the value of a key.
//!
//! Differences from Redis: nothing is held as these answers say. They are what Redis would say of the same value after
//! the same commands, with these exceptions: idle times are not kept, so they are 0, nor are frequencies; a sorted set
//! that was large and is small again counts as small.

use super::{Call, CommandResult, Handler, Refusal, help, refusal};
use crate::keyspace::Data;
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::value::{Entry, Form, Kind};
use crate::resp::number::parse_i64;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("object", help::run),
    Handler::new("object|encoding", encoding),
    Handler::new("object|freq", frequency),
    Handler::new("object|idletime", idle_time),
    Handler::new("object|refcount", references),
    Handler::new("object|help", help::run),
];

/// Bytes of the longest string that Redis holds in one piece with its header.
const EMBEDDED_BYTES_MAX: u64 = 44;
/// Members of the largest sorted set that Redis holds in one piece.
pub(super) const PACKED_MEMBERS_MAX: u64 = 128;
/// Bytes of the longest member of such a set.
pub(super) const PACKED_BYTES_MAX: usize = 64;
/// Integers below this are held once, however many keys have them.
const SHARED_INTEGERS: i64 = 10_000;

fn lookup<'a>(call: &'a Call<'_, '_>) -> Result<Option<Entry<'a>>, Refusal> {
    Ok(call.data.entry(call.database(), call.args[2])?)
}

/// The integer that a string is, if it is held as one.
fn held_integer(entry: &Entry<'_>) -> Option<i64> {
    let is_content = matches!(entry.header.form, Form::Content | Form::Copied);
    if entry.header.kind == Kind::String && is_content { parse_i64(entry.whole()) } else { None }
}

fn encoding(call: &mut Call<'_, '_>) -> CommandResult {
    let name = match lookup(call)? {
        None => None,
        Some(entry) => Some(match entry.header.kind {
            Kind::String if held_integer(&entry).is_some() => "int",
            Kind::String if entry.header.form == Form::Changed || entry.length() > EMBEDDED_BYTES_MAX => "raw",
            Kind::String => "embstr",
            Kind::SortedSet if is_packed(call.data, call.database(), &entry)? => "listpack",
            Kind::SortedSet => "skiplist",
            Kind::Hash | Kind::Set => "hashtable",
            Kind::List => "quicklist",
        }),
    };
    match name {
        Some(name) => call.reply.bulk(name.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

fn is_packed(data: &Data<'_>, database: usize, entry: &Entry<'_>) -> Result<bool, Refusal> {
    let Some(id) = entry.collection() else { return Ok(false) };
    let set = SortedSet::open(data, database, id)?;
    let all = set.all()?;
    if all.rows > PACKED_MEMBERS_MAX {
        return Ok(false);
    }
    let mut longest = 0;
    set.walk(all, false, |member, _| longest = longest.max(member.len()))?;
    Ok(longest <= PACKED_BYTES_MAX)
}

fn references(call: &mut Call<'_, '_>) -> CommandResult {
    let count = lookup(call)?.map(|entry| match held_integer(&entry) {
        Some(0..SHARED_INTEGERS) if entry.header.form == Form::Content => i64::from(i32::MAX),
        _ => 1,
    });
    answer_integer(call, count)
}

fn idle_time(call: &mut Call<'_, '_>) -> CommandResult {
    let seconds = lookup(call)?.map(|_| 0);
    answer_integer(call, seconds)
}

fn answer_integer(call: &mut Call<'_, '_>, number: Option<i64>) -> CommandResult {
    match number {
        Some(number) => call.reply.integer(number),
        None => call.reply.null(),
    }
    Ok(())
}

fn frequency(call: &mut Call<'_, '_>) -> CommandResult {
    if lookup(call)?.is_some() {
        return Err(refusal::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    call.reply.null();
    Ok(())
}
