//! `DUMP` and `RESTORE`: take values out and put them back as bytes, in the form of Redis (see [`crate::resp::rdb`]).
//!
//! Differences from Redis: only strings and sorted sets; nothing is compressed; payloads of Redis 7.2 are accepted,
//! too; what `IDLETIME` and `FREQ` say is not kept.

use super::{Call, CommandResult, Handler, Refusal, check_key, is_word, refusal};
use crate::keyspace::sorted_set::{Scoring, SortedSet, Writer};
use crate::keyspace::value::{Header, Kind};
use crate::keyspace::{Change, KEY_BYTES_MAX};
use crate::resp::rdb::{self, Broken, SortedSetDump, Value};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("dump", dump), Handler::new("restore", restore)];

fn dump(call: &mut Call<'_, '_>) -> CommandResult {
    let payload = match call.entry(call.args[1])? {
        None => None,
        Some(entry) if entry.is_string() => {
            call.expect_bytes(entry.length())?;
            match call.data.string_of(call.database(), call.args[1], &entry)? {
                Some(string) => Some(rdb::dump_string(&string.bytes()?)),
                None => None,
            }
        }
        Some(entry) => match entry.collection() {
            Some(id) if entry.header.kind == Kind::SortedSet => {
                let set = SortedSet::open(call.data, call.database(), id)?;
                let all = set.all()?;
                call.expect_rows(all.rows)?;
                let mut dump = SortedSetDump::new(all.rows);
                set.walk(all, false, |member, score| dump.add(member, score))?;
                Some(dump.finish())
            }
            _ => return Err(refusal::text("ERR only strings and sorted sets can be dumped")),
        },
    };
    match payload {
        Some(payload) => call.reply.bulk(&payload),
        None => call.reply.null(),
    }
    Ok(())
}

/// The options of `RESTORE`: whether it replaces what is there, and whether its time is absolute.
fn options(call: &Call<'_, '_>) -> Result<(bool, bool), Refusal> {
    let (mut replaces, mut is_absolute, mut idle, mut frequency) = (false, false, false, false);
    let mut place = 4;
    while let Some(&option) = call.args.get(place) {
        let has_word = place + 1 < call.args.len();
        if is_word(option, "replace") {
            replaces = true;
        } else if is_word(option, "absttl") {
            is_absolute = true;
        } else if is_word(option, "idletime") && has_word && !frequency {
            place += 1;
            idle = true;
            if call.integer(place)? < 0 {
                return Err(refusal::text("ERR Invalid IDLETIME value, must be >= 0"));
            }
        } else if is_word(option, "freq") && has_word && !idle {
            place += 1;
            frequency = true;
            if !(0..=255).contains(&call.integer(place)?) {
                return Err(refusal::text("ERR Invalid FREQ value, must be >= 0 and <= 255"));
            }
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 1;
    }
    Ok((replaces, is_absolute))
}

fn restore(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, database) = (call.args[1], call.session.database);
    check_key(key)?;
    let (replaces, is_absolute) = options(call)?;
    call.expect_bytes(call.args[3].len() as u64)?;
    // A long payload is taken apart while nothing is held.
    let is_beside = call.data.is_beside();
    let (mut loaded, mut staged) = (None, None);
    if is_beside {
        let value = rdb::load(call.args[3]);
        if let Ok(Value::String(bytes)) = &value
            && call.data.keyspace().cuts(bytes.len())
        {
            staged = Some(call.data.keyspace().stage(database, bytes)?);
        }
        loaded = Some(value);
        call.data.begin_writing(crate::system::clock::now_ms())?;
    }
    if !replaces && call.data.entry(database, key)?.is_some() {
        return Err(refusal::text("BUSYKEY Target key name already exists."));
    }
    let time = call.integer(2)?;
    if time < 0 {
        return Err(refusal::text("ERR Invalid TTL value, must be >= 0"));
    }
    let value = loaded.unwrap_or_else(|| rdb::load(call.args[3])).map_err(|broken| match broken {
        Broken::Footer => refusal::text("ERR DUMP payload version or checksum are wrong"),
        Broken::Value => refusal::text("ERR Bad data format"),
        Broken::Absent(kind) => Refusal::new(format!("ERR the payload is a {kind}: this type is not there yet")),
    })?;
    let deadline_ms = match (time, is_absolute) {
        (0, _) => None,
        (time, true) => Some(time),
        // Past the end of time is past, as in Redis.
        (time, false) => Some(time.checked_add(call.data.now_ms as i64).unwrap_or(0)),
    };
    let deadline_ms = deadline_ms.map(|deadline_ms| deadline_ms.max(0) as u64);
    if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= call.data.now_ms) {
        call.data.remove(database, key)?;
    } else {
        match value {
            Value::String(bytes) => match staged.filter(|staged| call.data.may_use(database, staged)) {
                Some(mut staged) => {
                    let header = Header::string(deadline_ms);
                    call.data.change(database, key, |_, new| staged.write(header, new))?;
                }
                None => {
                    call.expect_bytes(bytes.len() as u64)?;
                    call.data.put_string(database, key, Header::string(deadline_ms), &bytes)?;
                }
            },
            Value::SortedSet(members) => put_members(call, key, deadline_ms, &members)?,
        }
    }
    call.reply.ok();
    Ok(())
}

fn put_members(
    call: &mut Call<'_, '_>,
    key: &[u8],
    deadline_ms: Option<u64>,
    members: &[(Vec<u8>, f64)],
) -> CommandResult {
    if members.iter().any(|(member, _)| member.len() > KEY_BYTES_MAX) {
        return Err(refusal::text("ERR Bad data format"));
    }
    let database = call.session.database;
    let id = call.data.new_id();
    call.data.change(database, key, |_, new| {
        Header { deadline_ms, ..Header::new(Kind::SortedSet) }.encode(new);
        new.extend_from_slice(&id.bytes());
        Change::Put
    })?;
    let scorings: Vec<_> = members
        .iter()
        .map(|(member, score)| Scoring { member, old: None, new: if *score == 0.0 { 0.0 } else { *score } })
        .collect();
    if let Err(error) = Writer::open(call.data, database, id)?.put_many(&scorings) {
        // All of it or nothing.
        call.data.remove(database, key)?;
        return Err(error.into());
    }
    Ok(())
}
