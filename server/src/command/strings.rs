//! Strings.

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Run, is_word, refusal};
use crate::keyspace::Change;
use crate::keyspace::value::{Entry, Header, Kind};

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("get", 2, Flags::READ.and(Flags::FAST), Group::String, get)
        .keys(1, 1, 1)
        .about("key", "The string at a key.", "1.0.0")
        .costs("O(log n)", "O(1)")
        .many(&[(2, get_many)]),
    Spec::new("set", -3, Flags::WRITE.and(Flags::DENY_OOM), Group::String, set)
        .keys(1, 1, 1)
        .about(
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
            "Puts a string at a key, whatever stood there.",
            "1.0.0",
        )
        .costs("O(log n)", "O(1)")
        .many(&[(3, set_many), (4, set_if_absent_many)]),
];

fn get(call: &mut Call<'_, '_>) -> Answer {
    let value = call.data.entry(call.session.database, call.args[1])?;
    call.data.keyspace().counters.note_lookup(value.is_some());
    answer_string(call.reply, value)
}

fn answer_string(reply: &mut crate::resp::reply::Reply, entry: Option<Entry<'_>>) -> Answer {
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
    let Some(tables) = run.data.tables(run.database) else {
        keys.iter().for_each(|_| run.reply.null());
        return Ok(());
    };
    let view = run.data.view(&tables.keys)?;
    let (reply, now_ms) = (&mut *run.reply, run.data.now_ms);
    let mut hits = 0;
    for key in &keys {
        let value = view.get_ref(key);
        let entry = value.and_then(Entry::decode).filter(|entry| !entry.header.is_expired(now_ms));
        hits += u64::from(entry.is_some());
        if let Err(refused) = answer_string(reply, entry) {
            reply.error(refused.reply_text().as_bytes());
        }
    }
    run.data.keyspace().counters.note_lookups(hits, keys.len() as u64 - hits);
    Ok(())
}

/// A run of `SET key value`.
fn set_many(run: &mut Run<'_, '_>) -> Answer {
    let (keys, values) = (run.column(1), run.column(2));
    super::check_keys(&keys)?;
    run.data.change_many(run.database, &keys, |number, _, new| {
        Header::new(Kind::String).encode(new);
        new.extend_from_slice(values[number]);
        Change::Put
    })?;
    keys.iter().for_each(|_| run.reply.ok());
    Ok(())
}

/// A run of `SET key value NX`.
fn set_if_absent_many(run: &mut Run<'_, '_>) -> Answer {
    let (keys, values, options) = (run.column(1), run.column(2), run.column(3));
    if !options.iter().all(|option| is_word(option, "nx")) {
        return Err(super::ONE_BY_ONE);
    }
    super::check_keys(&keys)?;
    let reply = &mut *run.reply;
    run.data.change_many(run.database, &keys, |number, entry, new| {
        if entry.is_some() {
            reply.null();
            return Change::Keep;
        }
        reply.ok();
        Header::new(Kind::String).encode(new);
        new.extend_from_slice(values[number]);
        Change::Put
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

/// When a key is to expire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Never,
    Keep,
    At(u64),
}

fn set(call: &mut Call<'_, '_>) -> Answer {
    super::check_key(call.args[1])?;
    let (mut condition, mut expiry, mut wants_old) = (Condition::Always, Expiry::Never, false);
    let mut place = 3;
    while let Some(&option) = call.args.get(place) {
        let is_first_expiry = expiry == Expiry::Never;
        if is_word(option, "nx") && condition != Condition::IfPresent {
            condition = Condition::IfAbsent;
        } else if is_word(option, "xx") && condition != Condition::IfAbsent {
            condition = Condition::IfPresent;
        } else if is_word(option, "get") {
            wants_old = true;
        } else if is_word(option, "keepttl") && is_first_expiry {
            expiry = Expiry::Keep;
        } else if is_first_expiry && ["ex", "px", "exat", "pxat"].iter().any(|unit| is_word(option, unit)) {
            expiry = Expiry::At(super::keys::deadline_ms(call, option, place + 1)?);
            place += 1;
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 1;
    }
    let (key, value, database) = (call.args[1], call.args[2], call.session.database);
    let (reply, mut refused, mut done) = (&mut *call.reply, None, false);
    call.data.change(database, key, |entry, new| {
        let is_live = entry.is_some();
        if wants_old {
            if let Err(refusal) = answer_string(reply, entry) {
                refused = Some(refusal);
                return Change::Keep;
            }
        }
        if condition == Condition::IfAbsent && is_live || condition == Condition::IfPresent && !is_live {
            return Change::Keep;
        }
        done = true;
        let deadline_ms = match expiry {
            Expiry::Never => None,
            Expiry::Keep => entry.and_then(|entry| entry.header.deadline_ms),
            Expiry::At(deadline_ms) => Some(deadline_ms),
        };
        Header::string(deadline_ms).encode(new);
        new.extend_from_slice(value);
        Change::Put
    })?;
    match refused {
        Some(refusal) => return Err(refusal),
        None if wants_old => {}
        None if done => reply.ok(),
        None => reply.null(),
    }
    Ok(())
}
