//! Keys of any kind.

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, Run, is_word, refusal};
use crate::keyspace::Change;

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("del", -2, Flags::WRITE, Group::Generic, del)
        .keys(1, -1, 1)
        .about("key [key ...]", "Removes keys.", "1.0.0")
        .costs("O(k log n), and one step a leaf of what they hold", "O(k)")
        .many(&[(2, del_many)]),
    Spec::new("dbsize", 1, Flags::READ.and(Flags::FAST).and(Flags::EXACT), Group::Server, dbsize)
        .about("", "How many keys there are.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("flushall", -1, Flags::WRITE, Group::Server, flush_all)
        .about("[ASYNC | SYNC]", "Removes all keys of all databases.", "1.0.0")
        .costs("O(pages)", "O(n)"),
];

/// The moment that an option such as `EX 10` names, from its value at `place`: `ex` and `px` count from now, `exat` and `pxat` from 1970.
pub fn deadline_ms(call: &Call<'_, '_>, unit: &[u8], place: usize) -> Result<u64, Refusal> {
    let number = call.integer(place)?;
    let invalid = || Refusal::new(format!("ERR invalid expire time in '{}' command", call.spec.name));
    if number <= 0 {
        return Err(invalid());
    }
    let is_seconds = is_word(unit, "ex") || is_word(unit, "exat");
    let is_relative = is_word(unit, "ex") || is_word(unit, "px");
    let mut moment = if is_seconds { number.checked_mul(1000).ok_or_else(invalid)? } else { number };
    if is_relative {
        moment = moment.checked_add(call.data.now_ms as i64).ok_or_else(invalid)?;
    }
    Ok(moment as u64)
}

fn del(call: &mut Call<'_, '_>) -> Answer {
    let mut removed = 0;
    for key in &call.args[1..] {
        removed += i64::from(call.data.remove(call.session.database, key)?);
    }
    call.reply.integer(removed);
    Ok(())
}

/// A run of `DEL key`.
fn del_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    let reply = &mut *run.reply;
    if run.data.tables(run.database).is_none() {
        keys.iter().for_each(|_| reply.integer(0));
        return Ok(());
    }
    run.data.change_many(run.database, &keys, |_, entry, _| {
        reply.integer(i64::from(entry.is_some()));
        Change::Remove
    })?;
    Ok(())
}

fn dbsize(call: &mut Call<'_, '_>) -> Answer {
    let rows = call.data.len(call.session.database)?;
    call.reply.integer(rows as i64);
    Ok(())
}

fn flush_all(call: &mut Call<'_, '_>) -> Answer {
    if let Some(option) = call.args.get(1)
        && !(call.args.len() == 2 && (is_word(option, "async") || is_word(option, "sync")))
    {
        return Err(refusal::SYNTAX);
    }
    for database in 0..crate::keyspace::DATABASES {
        call.data.clear(database)?;
    }
    call.reply.ok();
    Ok(())
}
