//! What is done to a database beside asking and writing rows: one entry a verb.

use std::rc::Rc;

use quipu::{
    Action as Change, BackupOptions, Db, Durability, ErrorKind, Options, Read, RunIndex, Write, WriteBatch, check,
    restore,
};
use quipu_suite::dice::Dice;

use crate::answer::is_value;
use crate::held::HeldRange;
use crate::model::{State, TableModel};
use crate::questions::{bounds, key};
use crate::setup::{durability, table_options};
use crate::word::{Word, Words};
use crate::world::{HeldSnapshot, Outcome, Trouble, World, verify, wrong};
use crate::writes::row;

/// A verb of the database.
pub struct Action {
    /// Its name in scripts.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: usize,
    /// The verbs of the library that it covers.
    pub covers: &'static [&'static str],
    /// Draws its words; `None`: it has no place now.
    pub draw: fn(&mut Dice, &World) -> Option<Vec<Word>>,
    /// Does it, and judges.
    pub apply: fn(&mut World, Words<'_>) -> Outcome,
}

/// All of them, but for those of transactions.
const OWN: &[Action] = &[
    Action {
        name: "create",
        weight: 4,
        covers: &[
            "Db::create_table",
            "Db::open_table",
            "Db::table",
            "Table::name",
            "Table::options",
            "Table::annotation",
        ],
        draw: |dice, world| {
            let wanted = world.setup.get("tables").max(1) as usize;
            let is_wanted = world.state.tables.len() < wanted || dice.percent(3);
            let bits = if dice.percent(30) { 0 } else { dice.below(1 << 15) as u64 };
            is_wanted.then(|| vec![Word::Name(format!("t{}", dice.below(wanted + 1))), Word::Number(bits)])
        },
        apply: create,
    },
    Action {
        name: "drop",
        weight: 1,
        covers: &["Db::drop_table"],
        draw: |dice, world| dice.percent(40).then(|| table(dice, world).map(|name| vec![name])).flatten(),
        apply: drop_table,
    },
    Action {
        name: "batch",
        weight: 6,
        covers: &["WriteBatch::put", "WriteBatch::remove", "Db::apply", "Db::apply_with", "WriteBatch::len"],
        draw: |dice, world| {
            let lot = Word::Number(dice.below(3) as u64);
            Some([vec![lot], writes(dice, world)?].concat())
        },
        apply: batch,
    },
    Action {
        name: "write",
        weight: 6,
        covers: &["Db::write", "Db::write_with"],
        draw: |dice, world| {
            let head = [Word::name(dice.pick(&["commit", "commit", "abort"])), Word::Number(dice.below(3) as u64)];
            Some([head.to_vec(), writes(dice, world)?].concat())
        },
        apply: write,
    },
    Action {
        name: "fill",
        weight: 2,
        covers: &["Db::write"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let key = Words(&row(dice, &world.setup, model_of(world, &name)?)[..1]).key(0).to_vec();
            let rows = *dice.pick(&[&10_usize, &60, &400]);
            let share = if world.setup.is_tight() { 1 } else { 4 };
            let words = [name, Word::Key(key), Word::Number((1 + dice.below(rows) / share) as u64)];
            Some([&words[..], &[Word::Value(world.setup.draw_value(dice))]].concat())
        },
        apply: fill,
    },
    Action {
        name: "edit",
        weight: 6,
        covers: &[
            "Db::edit",
            "Edit::put",
            "Edit::insert",
            "Edit::remove",
            "Edit::update",
            "Edit::update_many",
            "Edit::table",
            "Edit::commit",
            "Committed::wait",
            "Edit::reserve",
        ],
        draw: |dice, world| {
            let head = [Word::name(dice.pick(&["each", "update", "many"])), Word::Number(dice.below(3) as u64)];
            Some([head.to_vec(), writes(dice, world)?].concat())
        },
        apply: edit,
    },
    Action {
        name: "edit_range",
        weight: 1,
        covers: &["Edit::remove_range"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![name], bounds(dice, &world.setup, model)].concat())
        },
        apply: edit_range,
    },
    Action {
        name: "snapshot",
        weight: 3,
        covers: &["Db::read", "Snapshot::table", "Snapshot::tables", "Snapshot::sequence"],
        draw: |dice, world| (world.snapshots.len() < 6).then(|| vec![Word::Number(dice.below(6) as u64)]),
        apply: |world, words| {
            let snapshot = world.db()?.read();
            if snapshot.tables().len() != world.state.tables.len()
                || snapshot.sequence() != world.db()?.stats().sequence
            {
                return wrong(format!("a snapshot of commit {} has {:?}", snapshot.sequence(), snapshot.tables()));
            }
            let held = HeldSnapshot { snapshot, state: world.state.clone(), tables: world.tables.clone() };
            world.snapshots.insert(words.number(0), held);
            Ok(())
        },
    },
    Action {
        name: "forget",
        weight: 2,
        covers: &[],
        draw: |dice, world| {
            let numbers: Vec<u64> = world.snapshots.keys().copied().collect();
            (!numbers.is_empty()).then(|| vec![Word::Number(numbers[dice.below(numbers.len())])])
        },
        apply: |world, words| {
            world.snapshots.remove(&words.number(0));
            Ok(())
        },
    },
    Action {
        name: "open_range",
        weight: 2,
        covers: &["range"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![Word::Number(dice.below(4) as u64), name], bounds(dice, &world.setup, model)].concat())
        },
        apply: |world, words| {
            let (Some(model), Some(table)) = (world.state.tables.get(words.name(1)), world.tables.get(words.name(1)))
            else {
                return Ok(());
            };
            let (from, to) = model.rows.span(&words.bounds(2));
            let held = (HeldRange::open(table, words.bounds(2)), model.rows.clone(), from, to);
            world.ranges.insert(words.number(0), held);
            Ok(())
        },
    },
    Action {
        name: "pull",
        weight: 5,
        covers: &["range"],
        draw: |dice, world| {
            let numbers: Vec<u64> = world.ranges.keys().copied().collect();
            let held = *numbers.get(dice.below(numbers.len().max(1)))?;
            Some([held, dice.below(30) as u64, dice.below(2) as u64].map(Word::Number).to_vec())
        },
        apply: pull,
    },
    Action {
        name: "close_range",
        weight: 1,
        covers: &[],
        draw: |dice, _| Some(vec![Word::Number(dice.below(4) as u64)]),
        apply: |world, words| {
            world.ranges.remove(&words.number(0));
            Ok(())
        },
    },
    Action {
        name: "flush",
        weight: 3,
        covers: &["Table::flush"],
        draw: |dice, world| table(dice, world).map(|name| vec![name]),
        apply: |world, words| {
            on_table(world, words, |table| match table.flush() {
                Err(error) if error.kind() == ErrorKind::Invalid && table.options().resident => Ok(()),
                result => result,
            })
        },
    },
    Action {
        name: "checkpoint",
        weight: 2,
        covers: &["Db::checkpoint"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| {
            let sequence = world.db()?.checkpoint()?.sequence;
            world.counters.checkpoints += 1;
            world.synced(sequence);
            Ok(())
        },
    },
    Action {
        name: "compact",
        weight: 2,
        covers: &["Table::compact", "Table::compact_with"],
        draw: |dice, world| table(dice, world).map(|name| vec![name]),
        apply: |world, words| {
            world.counters.merges += 1;
            on_table(world, words, |table| table.compact())
        },
    },
    Action {
        name: "rewrite",
        weight: 1,
        covers: &["Table::rewrite"],
        draw: |dice, world| Some(vec![table(dice, world)?, Word::Number(dice.below(2) as u64)]),
        apply: |world, words| {
            world.counters.merges += 1;
            let index = if words.number(1) == 1 { RunIndex::Flat } else { RunIndex::Tree };
            on_table(world, words, |table| table.rewrite(index, &mut |_| ()))
        },
    },
    Action {
        name: "resolve",
        weight: 1,
        covers: &["Table::resolve"],
        draw: |dice, world| {
            let name = table(dice, world)?;
            let model = model_of(world, &name)?;
            Some([vec![name], bounds(dice, &world.setup, model)].concat())
        },
        apply: |world, words| on_table(world, words, |table| table.resolve(words.bounds(1)).map(drop)),
    },
    Action {
        name: "freeze",
        weight: 2,
        covers: &["Table::freeze", "Table::thaw"],
        draw: |dice, world| Some(vec![table(dice, world)?, Word::Number(dice.below(2) as u64)]),
        apply: |world, words| {
            on_table(world, words, |table| if words.number(1) == 1 { table.thaw() } else { table.freeze() })
        },
    },
    Action {
        name: "sync",
        weight: 2,
        covers: &["Db::sync", "Db::commits", "Committed::is_durable", "Db::look", "Look::commits", "Look::sequence"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| {
            let db = world.db()?;
            let sequence = db.look().sequence();
            let commits = db.look().commits();
            db.sync()?;
            if !commits.is_durable(Durability::Sync) || !db.commits().is_durable(Durability::Os) {
                return wrong("a sync has returned, and the commits before it are not durable");
            }
            world.synced(sequence);
            Ok(())
        },
    },
    Action {
        name: "reopen",
        weight: 1,
        covers: &["Db::open", "Db::open_with", "Db::close", "Db::damage"],
        draw: |dice, _| Some(vec![Word::Number(if dice.percent(20) { 30 + dice.below(70) as u64 } else { 100 })]),
        apply: reopen,
    },
    Action {
        name: "backup",
        weight: 1,
        covers: &["Db::backup", "Db::backup_with", "restore"],
        draw: |dice, _| {
            dice.percent(50).then(|| vec![Word::Number(dice.below(2) as u64), Word::Number(dice.below(2) as u64)])
        },
        apply: backup,
    },
    Action {
        name: "check",
        weight: 1,
        covers: &["check"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| check_files(world),
    },
    Action {
        name: "verify",
        weight: 1,
        covers: &["Db::tables", "Read::explain"],
        draw: |_, _| Some(Vec::new()),
        apply: |world, _| world.verify(),
    },
    Action {
        name: "stats",
        weight: 2,
        covers: &["Db::stats", "Db::memory_bytes", "Look::stats"],
        draw: |_, _| Some(Vec::new()),
        apply: stats,
    },
];

/// All verbs of the database.
pub static ACTIONS: std::sync::LazyLock<Vec<&'static Action>> =
    std::sync::LazyLock::new(|| OWN.iter().chain(crate::transactions::ACTIONS).collect());

/// Draws a table that is there.
pub fn table(dice: &mut Dice, world: &World) -> Option<Word> {
    let names: Vec<&String> = world.state.tables.keys().collect();
    let name = names.get(dice.below(names.len().max(1)))?;
    Some(Word::Name((*name).clone()))
}

/// The model of a table.
pub fn model_of<'w>(world: &'w World, name: &Word) -> Option<&'w TableModel> {
    world.state.tables.get(Words(std::slice::from_ref(name)).name(0))
}

/// Draws some writes: a table, a key, and a value or `-` for a removal.
fn writes(dice: &mut Dice, world: &World) -> Option<Vec<Word>> {
    let count = if dice.percent(10) { 40 + dice.below(100) } else { dice.below(12) };
    let mut words = Vec::new();
    for _ in 0..count {
        let name = table(dice, world)?;
        let model = model_of(world, &name)?;
        words.push(name);
        if dice.percent(65) {
            words.extend(row(dice, &world.setup, model));
        } else {
            words.extend([key(dice, &world.setup, model), Word::name("-")]);
        }
    }
    Some(words)
}

/// The writes of a step, of tables that are there.
fn each_write<'w>(words: Words<'w>) -> impl Iterator<Item = (&'w str, &'w [u8], Option<Vec<u8>>, Words<'w>)> {
    (0..words.0.len() / 3).map(move |number| {
        let words = words.from(3 * number);
        let value = matches!(words.0[2], Word::Value(_)).then(|| words.value(2).bytes());
        (words.name(0), words.key(1), value, words)
    })
}

/// Writes to the model; whether the key was live.
fn write_to(state: &mut State, name: &str, key: &[u8], words: Words<'_>) -> bool {
    let Some(model) = state.tables.get_mut(name) else { return false };
    match words.0[2] {
        Word::Value(value) => model.rows.put(key, value).is_some(),
        _ => model.rows.remove(key).is_some(),
    }
}

fn on_table(world: &mut World, words: Words<'_>, work: impl FnOnce(&quipu::Table) -> quipu::Result<()>) -> Outcome {
    let Some(table) = world.tables.get(words.name(0)) else { return Ok(()) };
    work(table)?;
    world.settle(world.state.clone(), Durability::None)
}

fn create(world: &mut World, words: Words<'_>) -> Outcome {
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
    if world.db()?.open_table(name)?.is_none() || world.db()?.table(name)?.name() != name {
        return wrong(format!("table {name} was created and is not there"));
    }
    world.settle(next, world.durability())
}

fn drop_table(world: &mut World, words: Words<'_>) -> Outcome {
    let mut next = world.state.clone();
    let was_there = next.tables.remove(words.name(0)).is_some();
    world.expect(&next)?;
    if world.db()?.drop_table(words.name(0))? != was_there {
        return wrong(format!("drop_table says that {} was there: {}", words.name(0), !was_there));
    }
    world.tables.remove(words.name(0));
    world.settle(next, world.durability())
}

fn batch(world: &mut World, words: Words<'_>) -> Outcome {
    let durability = durability(words.number(0));
    let mut next = world.state.clone();
    let mut batch = WriteBatch::new();
    for (name, key, value, words) in each_write(words.from(1)) {
        let Some(table) = world.tables.get(name) else { continue };
        write_to(&mut next, name, key, words);
        match value {
            Some(value) => batch.put(table, key, value),
            None => batch.remove(table, key),
        }
    }
    world.expect(&next)?;
    world.db()?.apply_with(durability, batch)?;
    world.settle(next, durability)
}

fn write(world: &mut World, words: Words<'_>) -> Outcome {
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
            world.settle(world.state.clone(), Durability::None)
        }
        Err(error) => Err(error.into()),
        Ok(()) => world.settle(next, durability),
    }
}

/// Ascending rows, all in one commit: memory and pages become full of them.
fn fill(world: &mut World, words: Words<'_>) -> Outcome {
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
    world.settle(next, world.durability())
}

fn edit(world: &mut World, words: Words<'_>) -> Outcome {
    let durability = durability(words.number(1));
    let way = words.name(0);
    let mut next = world.state.clone();
    each_write(words.from(2)).for_each(|(name, key, _, words)| {
        write_to(&mut next, name, key, words);
    });
    world.expect(&next)?;
    let mut now = world.state.clone();
    let mut trouble = None;
    let mut refused = None;
    let db = world.db()?.clone();
    let sequence = db.look().sequence();
    let mut edit = db.edit()?;
    for (name, key, value, words) in each_write(words.from(2)) {
        let Some(table) = world.tables.get(name) else { continue };
        let old = now.tables.get(name).and_then(|model| model.rows.get(key));
        let change = |found: Option<&[u8]>, new: &mut Vec<u8>| {
            if !is_value(&found.map(<[u8]>::to_vec), old) {
                trouble = Some(format!("an update was shown {:?} bytes, expected {old:?}", found.map(<[u8]>::len)));
            }
            match &value {
                Some(value) => {
                    new.extend_from_slice(value);
                    Change::Put
                }
                None => Change::Remove,
            }
        };
        let result = match (way, &value) {
            ("update", _) => edit.update(table, key, change).map(|()| None),
            ("many", _) => {
                let mut change = change;
                edit.update_many(table, &[key], |_, found, new| change(found, new))
                    .map(|()| None)
                    .map_err(|(_, error)| error)
            }
            (_, Some(value)) => edit.put(table, key, value).map(|is_new| Some(!is_new)),
            (_, None) => edit.remove(table, key).map(Some),
        };
        match result {
            Ok(said) if said.is_some_and(|was_live| was_live != old.is_some()) => {
                trouble = Some(format!("an edit says that a key was live: {said:?}"));
            }
            Ok(_) => {}
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        write_to(&mut now, name, key, words);
        let len = edit.table(table)?.len()?;
        if len != now.tables[name].rows.len() as u64 {
            trouble = Some(format!("an edit sees {len} rows, not {}", now.tables[name].rows.len()));
        }
    }
    // What was written before a refusal is committed.
    world.history.insert(sequence + 1, now.clone());
    edit.commit()?.wait(durability)?;
    world.settle(now, durability)?;
    match (trouble, refused) {
        (Some(trouble), _) => wrong(trouble),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Ok(()),
    }
}

fn edit_range(world: &mut World, words: Words<'_>) -> Outcome {
    let Some(table) = world.tables.get(words.name(0)).cloned() else { return Ok(()) };
    let mut next = world.state.clone();
    let Some(model) = next.tables.get_mut(words.name(0)) else { return Ok(()) };
    let expected = model.rows.remove_range(&words.bounds(1)) as u64;
    world.expect(&next)?;
    let db = world.db()?.clone();
    let sequence = db.look().sequence();
    let mut edit = db.edit()?;
    let removed = match edit.remove_range(&table, words.bounds(1)) {
        Ok(removed) => removed,
        Err(error) => {
            // An edit has no way back: what it has removed by then stays so.
            drop(edit);
            let mut part = world.state.clone();
            let before = &world.state.tables[words.name(0)].rows;
            let (from, to) = before.span(&words.bounds(1));
            for (key, _) in before.slice(from, to) {
                if !table.contains(key)? {
                    part.tables.get_mut(words.name(0)).map(|model| model.rows.remove(key));
                }
            }
            world.history.insert(sequence + 1, part);
            return Err(error.into());
        }
    };
    edit.commit()?.wait(Durability::Sync)?;
    if removed != expected {
        return wrong(format!("an edit removed {removed} rows of a range, expected {expected}"));
    }
    world.settle(next, Durability::Sync)
}

fn pull(world: &mut World, words: Words<'_>) -> Outcome {
    let Some((range, rows, from, to)) = world.ranges.get_mut(&words.number(0)) else { return Ok(()) };
    let reverse = words.number(2) == 1;
    for _ in 0..words.number(1) {
        let expected = match (*from < *to, reverse) {
            (false, _) => None,
            (true, true) => {
                *to -= 1;
                rows.nth(*to)
            }
            (true, false) => {
                *from += 1;
                rows.nth(*from - 1)
            }
        };
        let entry = range.pull(reverse).transpose()?.map(crate::answer::row_of);
        if !crate::answer::is_row(&entry, expected) {
            let entry = entry.map(|(key, value)| (Word::Key(key).to_string(), value.len()));
            return wrong(format!("a range that was held open gives {entry:?}, not {expected:?}"));
        }
        if entry.is_none() {
            break;
        }
    }
    Ok(())
}

/// Reopens; with less memory it may be refused, with as much as before not.
fn reopen(world: &mut World, words: Words<'_>) -> Outcome {
    let sequence = world.db()?.look().sequence();
    world.close();
    world.counters.reopens += 1;
    let memory = world.setup.get("memory_bytes");
    let share = words.number(0).clamp(10, 100);
    if share < 100 {
        world.setup.set("memory_bytes", (memory * share / 100).max(1 << 20));
        let result = world.reopen();
        world.setup.set("memory_bytes", memory);
        match result {
            Ok(()) => {
                world.verify()?;
                world.close();
            }
            Err(Trouble::Refused(error)) if error.kind() == ErrorKind::Full => {}
            Err(trouble) => return Err(trouble),
        }
    }
    match world.reopen() {
        Err(Trouble::Refused(error)) if world.setup.get("faults") == 0 => {
            return wrong(format!("it cannot be opened again: {error:?}"));
        }
        result => result?,
    }
    if let Some(damage) = world.db()?.damage() {
        return wrong(format!("damage in a sound log: {damage}"));
    }
    let found = world.db()?.look().sequence();
    if found != sequence {
        return wrong(format!("commit {found} after a reopening, {sequence} before"));
    }
    world.verify()
}

fn backup(world: &mut World, words: Words<'_>) -> Outcome {
    world.numbers += 1;
    let to = world.place.dir.with_file_name(format!("copy-{}", world.numbers));
    let options = BackupOptions { copy: words.number(0) == 1 };
    let info = world.db()?.backup_with(&to, &options, &mut |_| ())?;
    let sequence = world.db()?.look().sequence();
    if info.sequence != sequence || info.tables != world.state.tables.len() {
        return wrong(format!("a backup of commit {sequence} says {info:?}"));
    }
    let own = Options { memory_bytes: 1 << 30, ..world.setup.options(world.place.disk.clone()) };
    let from = if words.number(1) == 1 {
        let restored = world.place.dir.with_file_name(format!("restored-{}", world.numbers));
        restore(&to, &restored, &own, &mut |_| ())?;
        remove_files(world, &to);
        restored
    } else {
        to
    };
    let copy = Db::open(&from, own.clone())?;
    verify(&copy, &world.state)?;
    drop(copy);
    let report = check(&from, &own, &mut |_| ())?;
    if !report.faults.is_empty() {
        return wrong(format!("check finds in a copy: {:?}", report.faults));
    }
    remove_files(world, &from);
    Ok(())
}

fn remove_files(world: &World, dir: &std::path::Path) {
    for name in world.place.disk.list(dir).unwrap_or_default() {
        // A file that stays is no fault: the run's directory goes with the run.
        let _ = world.place.disk.remove(&dir.join(name));
    }
}

fn check_files(world: &mut World) -> Outcome {
    let options = match &world.place.sim {
        // As after a kill, so that it need not be closed.
        Some(sim) => world.setup.options(std::sync::Arc::new(sim.kill())),
        None => {
            let sequence = world.db()?.look().sequence();
            world.close();
            let report = check(&world.place.dir, &world.setup.options(world.place.disk.clone()), &mut |_| ());
            world.reopen()?;
            let found = world.db()?.look().sequence();
            if found != sequence {
                return wrong(format!("commit {found} after a reopening, {sequence} before"));
            }
            return judge_report(world, report?, true);
        }
    };
    let report = check(&world.place.dir, &options, &mut |_| ())?;
    judge_report(world, report, world.durability() != Durability::None)
}

fn judge_report(world: &World, report: quipu::CheckReport, is_last: bool) -> Outcome {
    if !report.faults.is_empty() {
        return wrong(format!("check finds: {:?}", report.faults));
    }
    let state = match world.history.get(&report.sequence) {
        Some(state) if !is_last || report.sequence == world.db()?.look().sequence() => state,
        _ => return wrong(format!("check finds commit {}", report.sequence)),
    };
    for (name, tally) in &report.tables {
        let expected = state.tables.get(name).map(|model| model.tally(&(..).into()));
        if expected != Some(*tally) {
            return wrong(format!("check tells {tally:?} of {name}, expected {expected:?}"));
        }
    }
    Ok(())
}

fn stats(world: &mut World, _: Words<'_>) -> Outcome {
    let db = world.db()?;
    let stats = db.look().stats();
    if stats.sequence != db.stats().sequence || stats.poisoned || stats.memory_bytes() > stats.memory_bytes_max {
        return wrong(format!("{stats:?}"));
    }
    // The cache keeps to its bytes, but for a page or two that is larger than all of it.
    if stats.cache_bytes > stats.cache_bytes_max.max(256 << 10) || db.memory_bytes() > world.setup.get("memory_bytes") {
        return wrong(format!("memory beyond its limit: {stats:?}"));
    }
    for table in &stats.tables {
        let Some(model) = world.state.tables.get(&table.name) else { return wrong(format!("stats of {}", table.name)) };
        if table.unresolved == 0 && table.tally != model.tally(&(..).into()) {
            return wrong(format!("stats tell {:?} of {}", table.tally, table.name));
        }
    }
    Ok(())
}
