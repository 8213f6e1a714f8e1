//! Files that are not as they were: bits flipped, ends cut off, files changed for each other, for those of an older
//! copy or of another database.
//!
//! A copy of the disk is damaged, and asked: it must not open, or give errors, or the right answers. What `check`
//! finds sound must be sound. What `repair` leaves
//! must be right but where it says that something is lost.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quipu::files::{OtherDatabase, RepairReport, check, repair};
use quipu::io::Disk;
use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Options, ReadableTable, WritableTable};
use quipu_suite::clock::{Deadline, pause};
use quipu_suite::dice::Dice;

use crate::library::model::State;
use crate::library::value::mix;
use crate::library::word::{Word, Words};
use crate::library::world::{Outcome, Trouble, World, verify, wrong};

/// The ways to damage.
pub const WAYS: &[&str] = &["flip", "cut", "zeros", "noise", "swap", "older", "foreign", "remove", "sector", "nothing"];

/// What damage takes files from.
#[derive(Default)]
pub struct Shelf {
    /// Copies of the database as it was.
    pub older: Vec<SimDisk>,
    /// Another database.
    pub foreign: Option<SimDisk>,
}

/// Draws damage.
pub fn draw(dice: &mut Dice) -> Vec<Word> {
    vec![Word::name(dice.pick(WAYS)), Word::Number(dice.seed()), Word::Number(u64::from(dice.below(12) == 0))]
}

fn files(disk: &SimDisk, dir: &std::path::Path) -> Vec<PathBuf> {
    let own = disk.file_names().into_iter().filter(|path| path.parent() == Some(dir));
    own.filter(|path| !path.ends_with("LOCK") && disk.read_file(path).is_some_and(|file| !file.is_empty())).collect()
}

fn is_log(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
}

/// Damages a copy. What was done, and whether a log was touched; `None` if there is nothing to damage.
fn damage(world: &World, shelf: &Shelf, way: &str, lot: u64) -> Option<(SimDisk, String, bool)> {
    let disk = world.place.sim.as_ref()?.kill();
    let dir = &world.place.dir;
    let mut files = files(&disk, dir);
    let mut dice = Dice::new(lot);
    // Logs are many and mostly empty: runs and the manifest are wanted more.
    if dice.percent(75) || matches!(way, "swap" | "older" | "foreign") {
        files.retain(|path| !is_log(path));
    }
    let path = files.get(dice.below(files.len().max(1)))?.clone();
    let mut bytes = disk.read_file(&path)?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    let mut text = format!("{way} of {name}");
    let at = dice.below(bytes.len());
    match way {
        "flip" => bytes[at] ^= 1 << dice.below(8),
        "cut" => bytes.truncate(at),
        "zeros" | "noise" => {
            let end = (at + 1 + dice.below(4096)).min(bytes.len());
            let noise = dice.bytes(end - at);
            let filling = if way == "noise" { noise } else { vec![0; end - at] };
            bytes[at..end].copy_from_slice(&filling);
        }
        "swap" => {
            let others: Vec<&PathBuf> = files.iter().filter(|other| **other != path).collect();
            let other = others.get(dice.below(others.len().max(1)))?;
            let theirs = disk.read_file(other)?;
            text = format!("{name} and {} changed for each other", other.display());
            disk.write_file(other, bytes);
            bytes = theirs;
        }
        "older" => {
            let older = shelf.older.get(dice.below(shelf.older.len().max(1)))?;
            let names: Vec<PathBuf> = self::files(older, dir).into_iter().filter(|path| !is_log(path)).collect();
            // Under its own name if it still has one, or under any other.
            let other = if dice.percent(60) && names.contains(&path) {
                &path
            } else {
                names.get(dice.below(names.len().max(1)))?
            };
            bytes = older.read_file(other)?;
            text = format!("{name} replaced by the older {}", other.display());
        }
        "foreign" => {
            let foreign = shelf.foreign.as_ref()?;
            let names: Vec<PathBuf> =
                self::files(foreign, dir).into_iter().filter(|other| is_log(other) == is_log(&path)).collect();
            let other = names.get(dice.below(names.len().max(1)))?;
            bytes = foreign.read_file(other)?;
            text = format!("{name} replaced by the foreign {}", other.display());
        }
        // To know that the judge is sound.
        "nothing" => {}
        "sector" => {
            let start = at as u64 / 512 * 512;
            disk.make_unreadable(&path, start..start + 512);
            return Some((disk, text, is_log(&path)));
        }
        _ => {
            disk.remove(&path).ok()?;
            return Some((disk, text, is_log(&path)));
        }
    }
    disk.write_file(&path, bytes);
    Some((disk, text, is_log(&path)))
}

/// Damages a copy of the disk, and judges what it says.
pub fn apply(world: &mut World, shelf: &Shelf, words: Words<'_>) -> Outcome {
    let Some((disk, text, is_log)) = damage(world, shelf, words.name(0), words.number(1)) else { return Ok(()) };
    world.counters.damaged += 1;
    let judged = judge(world, &disk, is_log).and_then(|opens| {
        judge_repair(world, &disk, is_log)?;
        if opens && words.number(2) == 1 { judge_merges(world, &disk) } else { Ok(()) }
    });
    judged.map_err(|trouble| Trouble::Wrong(format!("{}: {text}", crate::modes::sequential::told(&trouble))))
}

fn is_expected(kind: ErrorKind) -> bool {
    // A file that is gone is missing; a sector that cannot be read is an error of the disk.
    matches!(kind, ErrorKind::Corrupt | ErrorKind::Version | ErrorKind::Missing | ErrorKind::Io)
}

fn options(world: &World, disk: &SimDisk) -> Options {
    Options { background: false, memory_bytes: 1 << 30, ..world.setup.options(Arc::new(disk.clone())) }
}

/// Whether it opens.
fn judge(world: &World, disk: &SimDisk, is_log: bool) -> Outcome<bool> {
    // Reading is repeated on copies: opening may write. What cannot be read stays so on this disk only.
    let report = check(&world.place.dir, &options(world, disk), &mut |_| ());
    let is_sound = match &report {
        Ok(report) => report.faults.is_empty(),
        Err(error) if is_expected(error.kind()) => false,
        Err(error) => return wrong(format!("check: {error:?}")),
    };
    let db = match Db::open(&world.place.dir, options(world, disk)) {
        Ok(db) => db,
        Err(error) if is_expected(error.kind()) && !is_sound => return Ok(false),
        Err(error) => return wrong(format!("check finds nothing wrong, and opening says {error:?}")),
    };
    let sequence = db.latched().read().sequence();
    let Some(state) = world.history.get(&sequence) else { return wrong(format!("commit {sequence} was never made")) };
    if sequence != world.sequence && !is_log {
        return wrong(format!("commit {sequence} of {}, and no log was touched", world.sequence));
    }
    match verify(&db, state) {
        Ok(()) => {}
        Err(Trouble::Refused(error)) if is_expected(error.kind()) && !is_sound => {}
        Err(trouble) => {
            let found = if is_sound { ", and check finds nothing" } else { "" };
            return wrong(format!("{}{found}", crate::modes::sequential::told(&trouble)));
        }
    }
    judge_keys(&db, state, is_sound)?;
    Ok(true)
}

/// Every key by itself: what one damaged page hides, others still show.
fn judge_keys(db: &Db, state: &State, is_sound: bool) -> Outcome {
    for table in db.tables() {
        let Some(model) = state.tables.get(table.name()) else { continue };
        for (position, (key, value)) in model.rows.iter().enumerate() {
            match table.get(key) {
                Ok(Some(found)) if value.is(&found) => {}
                Err(error) if is_expected(error.kind()) && !is_sound => {}
                other => return wrong(format!("{} is {other:?}, expected {value:?}", Word::Key(key.to_vec()))),
            }
            if position % 5 == 0 {
                match (table.rank(key), table.nth(.., position as u64)) {
                    (Ok(rank), _) if rank != position as u64 => return wrong(format!("rank {rank}, not {position}")),
                    (_, Ok(row)) if row.as_ref().is_none_or(|row| *row.key != *key) => {
                        return wrong(format!("row {position} is {row:?}"));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// What a repair leaves is right but where it says that something is lost.
fn judge_repair(world: &World, disk: &SimDisk, is_log: bool) -> Outcome {
    let disk = disk.kill();
    let report = match repair(&world.place.dir, &options(world, &disk), &mut |_| ()) {
        Ok(report) => report,
        Err(error) if is_expected(error.kind()) => return Ok(()),
        // Files of two databases lie here, and it does not choose.
        Err(error) if error.source().is_some_and(|source| source.is::<OtherDatabase>()) => return Ok(()),
        Err(error) => return wrong(format!("repair: {error:?}")),
    };
    if !report.faults.is_empty() {
        return wrong(format!("after a repair check still finds {:?}", report.faults));
    }
    let db = match Db::open(&world.place.dir, options(world, &disk)) {
        Ok(db) => db,
        Err(error) => return wrong(format!("after a repair it does not open: {error:?}")),
    };
    if report.log.is_some() || is_log {
        return Ok(());
    }
    judge_repaired(&db, &world.state, &report)
}

fn judge_repaired(db: &Db, state: &State, report: &RepairReport) -> Outcome {
    for (name, model) in &state.tables {
        let is_lost = |key: &[u8]| {
            report.lost.iter().any(|loss| {
                loss.table == *name
                    && loss.low.as_deref().is_none_or(|low| low <= key)
                    && loss.high.as_deref().is_none_or(|high| key < high)
            })
        };
        let Some(table) = db.open_table(name)? else { return wrong(format!("a repair has lost table {name}")) };
        for (key, value) in model.rows.iter().filter(|(key, _)| !is_lost(key)) {
            if !table.get(key)?.is_some_and(|found| value.is(&found)) {
                return wrong(format!("a repair has lost {}, and does not say so", Word::Key(key.to_vec())));
            }
        }
        let mut extra = None;
        table.for_each(.., |key, _| {
            if model.rows.get(key).is_none() && !is_lost(key) {
                extra = Some(Word::Key(key.to_vec()));
            }
            extra.is_none()
        })?;
        if let Some(key) = extra {
            return wrong(format!("a repair has brought back {key}, and does not say so"));
        }
    }
    Ok(())
}

/// Damage to one table leaves the others as they should be: their runs are merged as they become many.
fn judge_merges(world: &World, disk: &SimDisk) -> Outcome {
    const RUNS_MAX: usize = 16;
    let disk = disk.kill();
    // Rows of a damaged table that cannot go to its runs stay in memory: with those there is room for others.
    let options = Options { background: true, memtable_bytes: 64 << 20, ..options(world, &disk) };
    let Ok(db) = Db::open(&world.place.dir, options) else { return Ok(()) };
    let Ok(table) = db.create_table("beside", Default::default()) else { return Ok(()) };
    for number in 0..30_u32 {
        for row in 0..20_u64 {
            table.put(mix(u64::from(number) << 8 ^ row).to_be_bytes(), [7; 20])?;
        }
        match table.flush() {
            // The damage may be in what a checkpoint needs of the other tables.
            Err(error) if is_expected(error.kind()) => return Ok(()),
            result => result?,
        }
    }
    let deadline = Deadline::after(Duration::from_secs(5));
    let runs = || db.stats().tables.iter().find(|table| table.name == "beside").map_or(0, |table| table.runs);
    while runs() > RUNS_MAX {
        if deadline.passed() {
            return wrong(format!("a table beside the damaged one has {} runs, and they are not merged", runs()));
        }
        pause(Duration::from_millis(10));
    }
    Ok(())
}

/// Another database with tables of the same names.
pub fn foreign(world: &World) -> Outcome<SimDisk> {
    let disk = SimDisk::new();
    let db = Db::open(&world.place.dir, options(world, &disk))?;
    for name in ["t0", "t1", "t2"] {
        let table = db.ensure_table(name)?;
        for number in 0..60_u64 {
            table.put(world.setup.key(number, 0), vec![b'f'; 3 + number as usize])?;
        }
        table.flush()?;
        table.put("foreign", "foreign")?;
    }
    db.checkpoint()?;
    drop(db);
    Ok(disk.kill())
}
