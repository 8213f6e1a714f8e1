//! Ranges held open, reopening, copies, checks and figures: done to the database, and judged by the model.

use quipu::files::{BackupOptions, check, restore};
use quipu::{Db, Durability, ErrorKind, Options};

use crate::library::word::{Word, Words};
use crate::library::world::{Outcome, Trouble, World, verify, wrong};

pub(crate) fn pull(world: &mut World, words: Words<'_>) -> Outcome {
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
        let entry =
            (if reverse { range.next_back() } else { range.next() }).transpose()?.map(crate::library::answer::row_of);
        if !crate::library::answer::is_row(&entry, expected) {
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
pub(crate) fn reopen(world: &mut World, words: Words<'_>) -> Outcome {
    let sequence = world.db()?.latched().read().sequence();
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
    let found = world.db()?.latched().read().sequence();
    if found != sequence {
        return wrong(format!("commit {found} after a reopening, {sequence} before"));
    }
    world.verify()
}

pub(crate) fn backup(world: &mut World, words: Words<'_>) -> Outcome {
    world.numbers += 1;
    let to = world.place.dir.with_file_name(format!("copy-{}", world.numbers));
    let options = BackupOptions { copy: words.number(0) == 1 };
    let info = world.db()?.backup_with(&to, &options, &mut |_| ())?;
    let sequence = world.db()?.latched().read().sequence();
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

pub(crate) fn remove_files(world: &World, dir: &std::path::Path) {
    for name in world.place.disk.list(dir).unwrap_or_default() {
        // A file that stays is no fault: the run's directory goes with the run.
        let _ = world.place.disk.remove(&dir.join(name));
    }
}

pub(crate) fn check_files(world: &mut World) -> Outcome {
    let options = match &world.place.sim {
        // As after a kill, so that it need not be closed.
        Some(sim) => world.setup.options(std::sync::Arc::new(sim.kill())),
        None => {
            let sequence = world.db()?.latched().read().sequence();
            world.close();
            let report = check(&world.place.dir, &world.setup.options(world.place.disk.clone()), &mut |_| ());
            world.reopen()?;
            let found = world.db()?.latched().read().sequence();
            if found != sequence {
                return wrong(format!("commit {found} after a reopening, {sequence} before"));
            }
            return judge_report(world, report?, true);
        }
    };
    let report = check(&world.place.dir, &options, &mut |_| ())?;
    judge_report(world, report, world.durability() != Durability::None)
}

pub(crate) fn judge_report(world: &World, report: quipu::files::CheckReport, is_last: bool) -> Outcome {
    if !report.faults.is_empty() {
        return wrong(format!("check finds: {:?}", report.faults));
    }
    let state = match world.history.get(&report.sequence) {
        Some(state) if !is_last || report.sequence == world.db()?.latched().read().sequence() => state,
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

pub(crate) fn stats(world: &mut World, _: Words<'_>) -> Outcome {
    let db = world.db()?;
    let stats = db.latched().read().stats();
    // A commit may go beyond the limit by so many pages, and opening by half of it.
    let most = stats.memory_bytes_max * 3 / 2 + 1024 * world.setup.get("page_bytes");
    if stats.sequence != db.stats().sequence || stats.poisoned || stats.memory_bytes() > most {
        return wrong(format!("{stats:?}"));
    }
    // The cache keeps to its bytes, but for a page or two that is larger than all of it.
    if stats.cache_bytes > stats.cache_bytes_max.max(256 << 10) || db.memory_bytes() > most {
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
