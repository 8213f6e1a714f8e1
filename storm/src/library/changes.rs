//! Changes of many rows, or of a table: done to the database and to the model.

use std::collections::BTreeMap;
use std::rc::Rc;

use quipu::ingest::Overlap;
use quipu::latched::{Action as Change, LatchedWrite, PageFaults};
use quipu::{Durability, ErrorKind, ReadableTable, WritableTable, WriteBatch};

use crate::library::answer::is_value;
use crate::library::model::{State, TableModel};
use crate::library::setup::{durability, table_options};
use crate::library::word::{Word, Words};
use crate::library::world::{Outcome, World, wrong};

/// A write of a step: the table, the key, the value or none for a removal, and the words that say so.
type EachWrite<'w> = (&'w str, &'w [u8], Option<Vec<u8>>, Words<'w>);

/// The writes of a step, of tables that are there.
pub(crate) fn each_write<'w>(words: Words<'w>) -> impl Iterator<Item = EachWrite<'w>> {
    (0..words.0.len() / 3).map(move |number| {
        let words = words.from(3 * number);
        let value = matches!(words.0[2], Word::Value(_)).then(|| words.value(2).bytes());
        (words.name(0), words.key(1), value, words)
    })
}

/// Writes to the model; whether the key was live.
pub(crate) fn write_to(state: &mut State, name: &str, key: &[u8], words: Words<'_>) -> bool {
    let Some(model) = state.tables.get_mut(name) else { return false };
    match words.0[2] {
        Word::Value(value) => model.rows.put(key, value).is_some(),
        _ => model.rows.remove(key).is_some(),
    }
}

pub(crate) fn create(world: &mut World, words: Words<'_>) -> Outcome {
    let (name, options) = (words.name(0), table_options(words.number(1)));
    let mut next = world.state.clone();
    world.numbers += 1;
    let exists = next.tables.contains_key(name);
    if !exists {
        let model = TableModel { number: world.numbers, options: Rc::new(options.clone()), rows: Default::default() };
        next.tables.insert(name.to_owned(), model);
    }
    world.expect(&next)?;
    match world.db()?.create_table(name, options) {
        Err(error) if exists && error.kind() == ErrorKind::Exists => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(_) if exists => return wrong(format!("table {name} was created twice")),
        Ok(table) => drop(world.tables.insert(name.to_owned(), table)),
    }
    if world.db()?.open_table(name)?.is_none() || world.db()?.ensure_table(name)?.name() != name {
        return wrong(format!("table {name} was created and is not there"));
    }
    world.note_commit(next, world.durability())
}

pub(crate) fn drop_table(world: &mut World, words: Words<'_>) -> Outcome {
    let mut next = world.state.clone();
    let was_there = next.tables.remove(words.name(0)).is_some();
    world.expect(&next)?;
    if world.db()?.drop_table(words.name(0))? != was_there {
        return wrong(format!("drop_table says that {} was there: {}", words.name(0), !was_there));
    }
    world.tables.remove(words.name(0));
    world.note_commit(next, world.durability())
}

pub(crate) fn batch(world: &mut World, words: Words<'_>) -> Outcome {
    let durability = durability(words.number(0));
    let mut next = world.state.clone();
    let mut batch = WriteBatch::new();
    for (name, key, value, words) in each_write(words.from(1)) {
        let Some(table) = world.tables.get(name) else { continue };
        write_to(&mut next, name, key, words);
        match value {
            Some(value) => batch.put(table, key, value),
            None => batch.delete(table, key),
        }
    }
    world.expect(&next)?;
    world.db()?.apply_with(durability, batch)?;
    world.note_commit(next, durability)
}

/// Rows in order, straight to a run. `way` says what becomes of keys that are there, or that it is given up.
pub(crate) fn ingest(world: &mut World, words: Words<'_>) -> Outcome {
    let (name, way) = (words.name(0), words.name(1));
    let Some(table) = world.tables.get(name).cloned() else { return Ok(()) };
    let mut next = world.state.clone();
    let mut rows = BTreeMap::new();
    for (_, key, value, words) in each_write(words.from(2)) {
        if let Some(value) = value {
            write_to(&mut next, name, key, words);
            rows.insert(key, value);
        }
    }
    let is_taken = |key: &&[u8]| world.state.tables[name].rows.get(key).is_some();
    let is_refused = way != "replace" && rows.keys().any(is_taken);
    world.expect(&next)?;
    let overlap = if way == "replace" { Overlap::Replace } else { Overlap::Refuse };
    let mut ingest = match table.begin_ingest(overlap) {
        Err(error) if error.kind() == ErrorKind::Invalid && table.options().in_memory => return Ok(()),
        begun => begun?,
    };
    let pushed = rows.iter().try_for_each(|(key, value)| ingest.push(key, value));
    match (pushed, way) {
        (Ok(()), "drop") => drop(ingest),
        (Ok(()), "again") if !rows.is_empty() => {
            let (last, _) = rows.last_key_value().expect("there is a row");
            match ingest.push(last, b"") {
                Err(error) if error.kind() == ErrorKind::Invalid => {}
                other => return wrong(format!("the same key twice in an ingest: {other:?}")),
            }
        }
        (pushed, _) => match pushed.and_then(|()| ingest.commit()) {
            Err(error) if error.kind() == ErrorKind::Exists && is_refused => {}
            Err(error) => return Err(error.into()),
            Ok(_) if is_refused => return wrong(format!("an ingest into {name} replaced rows untold")),
            Ok(ingested) if ingested.rows != rows.len() as u64 => {
                return wrong(format!("{ingested:?}, not {} rows", rows.len()));
            }
            // It is durable, and with it all before.
            Ok(_) => return world.note_commit(next, Durability::Sync),
        },
    }
    world.note_commit(world.state.clone(), Durability::None)
}

pub(crate) fn write(world: &mut World, words: Words<'_>) -> Outcome {
    let durability = durability(words.number(1));
    let mut next = world.state.clone();
    let commits = words.name(0) != "abort";
    each_write(words.from(2)).for_each(|(name, key, _, words)| {
        write_to(&mut next, name, key, words);
    });
    world.expect(&next)?;
    let mut model = world.state.clone();
    let mut trouble = None;
    let result = world.db()?.write_with(durability, |tx| {
        for (name, key, value, words) in each_write(words.from(2)) {
            let Some(table) = world.tables.get(name) else { continue };
            let table = tx.table(table)?;
            let was_live = write_to(&mut model, name, key, words);
            match value {
                Some(value) => table.put(key, value)?,
                None if table.remove(key)? != was_live => {
                    trouble = Some(format!("removal of a live key: {}", !was_live))
                }
                None => {}
            }
        }
        for (name, model) in &next.tables {
            let len = tx.table(&world.tables[name])?.len()?;
            if len != model.rows.len() as u64 {
                trouble = Some(format!("in a transaction table {name} has {len} rows, not {}", model.rows.len()));
            }
        }
        if commits { Ok(()) } else { Err(quipu::Error::new(ErrorKind::Conflict, "aborted on purpose")) }
    });
    if let Some(trouble) = trouble {
        return wrong(trouble);
    }
    match result {
        Err(error) if error.kind() == ErrorKind::Conflict && !commits => {
            world.note_commit(world.state.clone(), Durability::None)
        }
        Err(error) => Err(error.into()),
        Ok(()) => world.note_commit(next, durability),
    }
}

/// Ascending rows, all in one commit: memory and pages become full of them.
pub(crate) fn fill(world: &mut World, words: Words<'_>) -> Outcome {
    let (name, key, value) = (words.name(0), words.key(1), words.value(3));
    let Some(table) = world.tables.get(name).cloned() else { return Ok(()) };
    let mut next = world.state.clone();
    let Some(model) = next.tables.get_mut(name) else { return Ok(()) };
    let keys: Vec<Vec<u8>> = (0..words.number(2) as u32).map(|number| [key, &number.to_be_bytes()].concat()).collect();
    for key in &keys {
        model.rows.put(key, value);
    }
    world.expect(&next)?;
    let bytes = value.bytes();
    world.db()?.write(|tx| {
        let table = tx.table(&table)?;
        keys.iter().try_for_each(|key| table.put(key, &bytes))
    })?;
    world.note_commit(next, world.durability())
}

/// Writes in place as one commit, or in vain: taken back before it ends. Where a page is missing, all is taken back,
/// the page is loaded, and it begins again.
pub(crate) fn edit(world: &mut World, words: Words<'_>) -> Outcome {
    let durability = durability(words.number(1));
    let way = words.name(0);
    let mut next = world.state.clone();
    if way != "vain" {
        each_write(words.from(2)).for_each(|(name, key, _, words)| {
            write_to(&mut next, name, key, words);
        });
    }
    world.expect(&next)?;
    let db = world.db()?.clone();
    let sequence = db.latched().read().sequence();
    let mut faults = PageFaults::default();
    loop {
        let mut now = world.state.clone();
        let mut trouble = None;
        let mut refused = None;
        let mut edit = db.latched().write()?;
        edit.lend(&faults);
        edit.set_savepoint();
        for write in each_write(words.from(2)) {
            if let Err(error) = write_in_place(world, &mut edit, way, write, &mut now, &mut trouble) {
                refused = Some(error);
                break;
            }
        }
        let lacks = refused.as_ref().is_some_and(|error| error.kind() == ErrorKind::PageFault);
        if lacks || way == "vain" {
            edit.rollback_to_savepoint()?;
            now = world.state.clone();
        }
        if lacks {
            edit.take_faults(&mut faults);
            drop(edit);
            db.latched().load(&mut faults)?;
            continue;
        }
        // What was written before a refusal is committed.
        world.history.insert(sequence + 1, now.clone());
        edit.commit()?.wait(durability)?;
        world.note_commit(now, durability)?;
        return match (trouble, refused) {
            (Some(trouble), _) => wrong(trouble),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(()),
        };
    }
}

/// One write of an edit, to the database and to the model. What it says that is not so goes to `trouble`.
fn write_in_place(
    world: &World,
    edit: &mut LatchedWrite<'_>,
    way: &str,
    (name, key, value, words): EachWrite<'_>,
    now: &mut State,
    trouble: &mut Option<String>,
) -> quipu::Result<()> {
    let Some(table) = world.tables.get(name) else { return Ok(()) };
    let old = now.tables.get(name).and_then(|model| model.rows.get(key));
    let mut change = |found: Option<&[u8]>, new: &mut Vec<u8>| {
        if !is_value(&found.map(<[u8]>::to_vec), old) {
            *trouble = Some(format!("an update was shown {:?} bytes, expected {old:?}", found.map(<[u8]>::len)));
        }
        match &value {
            Some(value) => {
                new.extend_from_slice(value);
                Change::Put
            }
            None => Change::Remove,
        }
    };
    let said = match (way, &value) {
        ("update", _) => edit.update(table, key, change).map(|()| None)?,
        ("many", _) => edit
            .update_many(table, &[key], |_, found, new| change(found, new))
            .map(|()| None)
            .map_err(|(_, error)| error)?,
        (_, Some(value)) => edit.put(table, key, value).map(|is_new| Some(!is_new))?,
        (_, None) => edit.remove(table, key).map(Some)?,
    };
    // A blind table may not know, and then takes the key for live.
    let may_say = |was_live: bool| was_live == old.is_some() || was_live && table.options().blind_writes;
    if said.is_some_and(|was_live| !may_say(was_live)) {
        *trouble = Some(format!("an edit says that a key was live: {said:?}"));
    }
    write_to(now, name, key, words);
    let len = edit.table(table)?.len()?;
    if len != now.tables[name].rows.len() as u64 {
        *trouble = Some(format!("an edit sees {len} rows, not {}", now.tables[name].rows.len()));
    }
    Ok(())
}

pub(crate) fn edit_range(world: &mut World, words: Words<'_>) -> Outcome {
    let Some(table) = world.tables.get(words.name(0)).cloned() else { return Ok(()) };
    let mut next = world.state.clone();
    let Some(model) = next.tables.get_mut(words.name(0)) else { return Ok(()) };
    let expected = model.rows.remove_range(&words.bounds(1)) as u64;
    world.expect(&next)?;
    let db = world.db()?.clone();
    let sequence = db.latched().read().sequence();
    let mut faults = PageFaults::default();
    let removed = loop {
        let mut edit = db.latched().write_to_free()?;
        edit.lend(&faults);
        edit.set_savepoint();
        let removed = edit.remove_range(&table, words.bounds(1));
        if let Ok(removed) = removed {
            edit.commit()?.wait(Durability::Sync)?;
            break removed;
        }
        edit.rollback_to_savepoint()?;
        match removed {
            Err(error) if error.kind() == ErrorKind::PageFault => edit.take_faults(&mut faults),
            _ => {
                world.history.insert(sequence + 1, world.state.clone());
                return removed.map(|_| ()).map_err(Into::into);
            }
        }
        drop(edit);
        db.latched().load(&mut faults)?;
    };
    if removed != expected {
        return wrong(format!("an edit removed {removed} rows of a range, expected {expected}"));
    }
    world.note_commit(next, Durability::Sync)
}
