//! Removes, finds, renames and copies keys of any kind.

use super::databases::database_number;
use super::{Call, CommandResult, EntityCall, Handler, Run, check_key, entity_handler, is_word, refusal};
use crate::entities::Entities;
use crate::keyspace::value::Entry;
use crate::keyspace::{Change, PreparedString};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    entity_handler!("del", del).many(&[(2, del_many)]),
    entity_handler!("unlink", del).many(&[(2, del_many)]),
    entity_handler!("exists", exists).many(&[(2, exists_many)]),
    entity_handler!("touch", exists).many(&[(2, exists_many)]),
    entity_handler!("type", kind),
    Handler::new("rename", rename),
    Handler::new("renamenx", renamenx),
    Handler::new("copy", copy),
    Handler::new("move", move_key),
];

fn del<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let removed = call.entities.delete_many(&call.args[1..])?;
    call.reply.integer(removed as i64);
    Ok(())
}

/// A run of `DEL key`.
fn del_many(run: &mut Run<'_, '_>) -> CommandResult {
    let keys = run.column(1);
    if run.data.tables(run.database).is_none() {
        keys.iter().for_each(|_| run.reply.integer(0));
        return Ok(());
    }
    run.reserve(&keys, 0)?;
    let reply = &mut *run.reply;
    run.data.change_many(run.database, &keys, |_, entry, _| {
        reply.integer(i64::from(entry.is_some()));
        Change::Remove
    })?;
    Ok(())
}

fn exists<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let found = call.entities.count_found(&call.args[1..])?;
    call.reply.integer(found as i64);
    Ok(())
}

/// A run of `EXISTS key`.
fn exists_many(run: &mut Run<'_, '_>) -> CommandResult {
    let keys = run.column(1);
    let reply = &mut *run.reply;
    run.data.entries(run.database, &keys, |_, entry| reply.integer(i64::from(entry.is_some())))?;
    Ok(())
}

fn kind<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let found = call.entities.find(call.args[1])?;
    call.reply.simple(found.map_or("none", |found| found.kind.name()));
    Ok(())
}

fn rename(call: &mut Call<'_, '_>) -> CommandResult {
    if give_name(call, true)? {
        call.reply.ok();
    }
    Ok(())
}

fn renamenx(call: &mut Call<'_, '_>) -> CommandResult {
    let done = give_name(call, false)?;
    call.reply.integer(i64::from(done));
    Ok(())
}

/// Gives a key another name. Returns whether it has it: not if another key had it and is not to be replaced; a key's
/// own name counts as such, except where all is replaced.
fn give_name(call: &mut Call<'_, '_>, replaces: bool) -> Result<bool, super::Refusal> {
    let (from, to, database) = (call.args[1], call.args[2], call.session.database);
    check_key(to)?;
    if call.data.entry(database, from)?.is_none() {
        return Err(refusal::NO_KEY);
    }
    if from == to {
        return Ok(replaces);
    }
    if !replaces && call.data.entry(database, to)?.is_some() {
        return Ok(false);
    }
    Ok(call.data.rename(database, from, to)?)
}

fn copy(call: &mut Call<'_, '_>) -> CommandResult {
    let (from, to, database) = (call.args[1], call.args[2], call.session.database);
    check_key(to)?;
    let (mut target, mut replaces) = (database, false);
    let mut place = 3;
    while let Some(&option) = call.args.get(place) {
        if is_word(option, "replace") {
            replaces = true;
        } else if is_word(option, "db") && place + 1 < call.args.len() {
            place += 1;
            target = database_number(call.args[place])?;
        } else {
            return Err(refusal::SYNTAX);
        }
        place += 1;
    }
    if target == database && from == to {
        return Err(refusal::SAME_OBJECT);
    }
    let prepared = prepare_copy(call, from, target)?;
    let done = (replaces || call.data.entry(target, to)?.is_none())
        && call.data.copy((database, from), (target, to), prepared)?;
    call.reply.integer(i64::from(done));
    Ok(())
}

/// Copies a long string beside the loop, so that no other client waits for it.
fn prepare_copy(call: &mut Call<'_, '_>, from: &[u8], target: usize) -> Result<Option<PreparedString>, super::Refusal> {
    let database = call.session.database;
    if !call.data.is_beside() {
        let entry = call.data.entry(database, from)?.filter(Entry::is_string);
        call.expect_bytes(entry.map_or(0, |entry| entry.length()))?;
        return Ok(None);
    }
    call.prepare(from, |keyspace, now_ms| keyspace.prepare_copy((database, from), target, now_ms))
}

fn move_key(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, database) = (call.args[1], call.session.database);
    let target = database_number(call.args[2])?;
    if target == database {
        return Err(refusal::SAME_OBJECT);
    }
    let prepared = prepare_copy(call, key, target)?;
    let done = call.data.entry(target, key)?.is_none() && call.data.move_key(key, database, target, prepared)?;
    call.reply.integer(i64::from(done));
    Ok(())
}
