//! Keys of any kind: removed, looked for, renamed, copied.

use super::databases::database_number;
use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Run, check_key, is_word, refusal};
use crate::keyspace::value::Entry;
use crate::keyspace::{Change, KEY_BYTES_MAX};

const READ: Flags = Flags::READ.and(Flags::FAST);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("del", -2, Flags::WRITE, Group::Generic, del)
        .keys(1, -1, 1)
        .about("key [key ...]", "Removes keys.", "1.0.0")
        .costs("O(k log n), and one step a leaf of what they hold", "O(k)")
        .many(&[(2, del_many)]),
    Spec::new("unlink", -2, Flags::WRITE.and(Flags::FAST), Group::Generic, del)
        .keys(1, -1, 1)
        .about("key [key ...]", "Removes keys, as DEL does.", "4.0.0")
        .costs("O(k log n), and one step a leaf of what they hold", "O(k), and the rest in the background")
        .many(&[(2, del_many)]),
    Spec::new("exists", -2, READ, Group::Generic, exists)
        .keys(1, -1, 1)
        .about("key [key ...]", "How many of the keys there are; one that is named twice counts twice.", "1.0.0")
        .costs("O(k log n)", "O(k)")
        .many(&[(2, exists_many)]),
    Spec::new("touch", -2, READ, Group::Generic, exists)
        .keys(1, -1, 1)
        .about("key [key ...]", "How many of the keys there are, as EXISTS answers it.", "3.2.1")
        .costs("O(k log n)", "O(k)")
        .many(&[(2, exists_many)]),
    Spec::new("type", 2, READ, Group::Generic, kind)
        .keys(1, 1, 1)
        .about("key", "The kind of what a key holds.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("rename", 3, Flags::WRITE, Group::Generic, rename)
        .keys(1, 2, 1)
        .about("key newkey", "Gives a key another name, and removes what had that name.", "1.0.0")
        .costs("O(log n), and the bytes of a string", "O(1)"),
    Spec::new("renamenx", 3, Flags::WRITE.and(Flags::FAST), Group::Generic, renamenx)
        .keys(1, 2, 1)
        .about("key newkey", "Gives a key another name that no key has.", "1.0.0")
        .costs("O(log n), and the bytes of a string", "O(1)"),
    Spec::new("copy", -3, Flags::WRITE.and(Flags::DENY_OOM), Group::Generic, copy)
        .keys(1, 2, 1)
        .about(
            "source destination [DB destination-db] [REPLACE]",
            "Copies a key to another name, or into another database.",
            "6.2.0",
        )
        .costs("O(log n), and a step for each element", "O(1) for a string, O(m) for a collection"),
    Spec::new("move", 3, Flags::WRITE.and(Flags::FAST), Group::Generic, move_key)
        .keys(1, 1, 1)
        .about("key db", "Moves a key into another database that has none of its name.", "1.0.0")
        .costs("O(log n), and a step for each element", "O(1)"),
];

fn del(call: &mut Call<'_, '_>) -> Answer {
    let mut removed = 0;
    for key in call.args[1..].iter().filter(|key| key.len() <= KEY_BYTES_MAX) {
        removed += i64::from(call.data.remove(call.session.database, key)?);
    }
    call.reply.integer(removed);
    Ok(())
}

/// A run of `DEL key`.
fn del_many(run: &mut Run<'_, '_>) -> Answer {
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

fn exists(call: &mut Call<'_, '_>) -> Answer {
    let mut found = 0;
    for key in &call.args[1..] {
        found += i64::from(call.entry(key)?.is_some());
    }
    call.reply.integer(found);
    Ok(())
}

/// A run of `EXISTS key`.
fn exists_many(run: &mut Run<'_, '_>) -> Answer {
    let keys = run.column(1);
    let reply = &mut *run.reply;
    run.data.entries(run.database, &keys, |_, entry| reply.integer(i64::from(entry.is_some())))?;
    Ok(())
}

fn kind(call: &mut Call<'_, '_>) -> Answer {
    let name = call.entry(call.args[1])?.map_or("none", |entry: Entry<'_>| entry.header.kind.name());
    call.reply.simple(name);
    Ok(())
}

fn rename(call: &mut Call<'_, '_>) -> Answer {
    if give_name(call, true)? {
        call.reply.ok();
    }
    Ok(())
}

fn renamenx(call: &mut Call<'_, '_>) -> Answer {
    let done = give_name(call, false)?;
    call.reply.integer(i64::from(done));
    Ok(())
}

/// Gives a key another name. Returns whether it has it: not if another key had it and is not to be replaced; a key's own name counts as such, except where
/// all is replaced.
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

fn copy(call: &mut Call<'_, '_>) -> Answer {
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
    let done =
        (replaces || call.data.entry(target, to)?.is_none()) && call.data.copy((database, from), (target, to))?;
    call.reply.integer(i64::from(done));
    Ok(())
}

fn move_key(call: &mut Call<'_, '_>) -> Answer {
    let (key, database) = (call.args[1], call.session.database);
    let target = database_number(call.args[2])?;
    if target == database {
        return Err(refusal::SAME_OBJECT);
    }
    let done = call.data.entry(target, key)?.is_none() && call.data.move_key(key, database, target)?;
    call.reply.integer(i64::from(done));
    Ok(())
}
