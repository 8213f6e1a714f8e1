//! Opens a database: takes the lock, reads the manifest, opens runs, replays the log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::cache::{PageCache, ReadPages};
use crate::catalog::declaration::{Declaration, TableId};
use crate::catalog::manifest::{self, Manifest, ManifestPart, ManifestRun, ManifestTable};
use crate::catalog::record::{self, Change, EntryState};
use crate::db::{Db, Handle};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, Lock};
use crate::log::{self, Log, LogOptions, Lsn, Recovered, Room};
use crate::maintenance::background;
use crate::maintenance::preload_tables::preload_tables;
use crate::maintenance::remove_files::remove_orphans;
use crate::options::Options;
use crate::page::KeyBuffer;
use crate::progress::Progress;
use crate::read::table_stack::Stopped;
use crate::run::{Excisions, Part, Run, RunFile, RunInfo};
use crate::state::failures::unpanicked;
use crate::state::run_files::{RunFiles, is_run_name, is_temporary_name};
use crate::state::shared::Shared;
use crate::state::versions::{Runs, total_of};
use crate::state::writer::{Epochs, TableTrees};
use crate::tally::{Measures, Tally};
use crate::tree::{Arena, Loader, Tree, When, Written};
use crate::write::create_table::TABLES_MAX;

/// Bytes of pages that the replay of removals looks at.
const REPLAY_CACHE_BYTES: u64 = 1 << 20;

/// The name of the lock file of a directory.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The most threads that open files of a table, and the fewest files for each of them.
const OPENERS: usize = 8;
const FILES_MIN: usize = 16;

/// The files of a database, recovered into memory.
pub(crate) struct Recovery {
    pub(crate) manifest: Manifest,
    pub(crate) tables: Vec<Option<TableTrees>>,
    pub(crate) recovered: Recovered,
}

impl Db {
    /// Opens the database in a directory, or creates one there.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process has it open, [`ErrorKind::Missing`] if there is none and `create` is off,
    /// [`ErrorKind::Corrupt`] if files are damaged, [`ErrorKind::Version`] if a newer version wrote them,
    /// [`ErrorKind::Invalid`] if an option is out of its limits, [`ErrorKind::Full`] if the rows that stay in memory
    /// need more than one and a half times [`Options::memory_bytes`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_with(path, options, &mut |_| ())
    }

    /// Like [`Db::open`], reporting to `progress`.
    pub fn open_with(path: impl AsRef<Path>, options: Options, progress: &mut dyn FnMut(Progress)) -> Result<Db> {
        options.check()?;
        let dir = path.as_ref();
        let disk = options.disk.clone();
        let lock = prepare_dir(&*disk, dir, &options)?;
        let arena = Arc::new(Arena::new(options.page_bytes, options.memory_bytes)?);
        let manifest = match Manifest::read(&*disk, dir)? {
            Some(manifest) => manifest,
            None => create(&disk, dir, &options)?,
        };
        let Recovery { manifest, tables, recovered } =
            recover(&disk, dir, &arena, manifest, options.read_only, progress)?;
        let damage = recovered.damage.as_ref().map(ToString::to_string);
        let last = recovered.next_sequence - 1;
        let missing = missing_ingest(&manifest, last);
        let sequence = last + u64::from(missing.is_some());
        let log = if options.read_only {
            None
        } else {
            remove_orphans(&*disk, dir, &manifest, BTreeSet::new)?;
            let log_options = LogOptions::of(options.log_segment_bytes, manifest.database_id);
            let log = Log::resume(disk.clone(), dir, log_options, &recovered)?;
            if let Some(missing) = missing {
                log.append(sequence, &[&missing], Room::Kept)?;
            }
            Some(log)
        };
        let has_background = options.background && log.is_some();
        let database_id = manifest.database_id;
        let files = RunFiles::new(disk, dir, manifest);
        let shared = Shared::new(options, arena, tables, sequence, log, database_id, files, damage, lock);
        let shared = Arc::new(shared);
        preload_tables(&shared.versions, &shared.cache);
        if has_background {
            shared.background.set(background::start(&shared));
        }
        Ok(Db { _handle: Arc::new(Handle { shared: shared.clone() }), shared })
    }
}

impl Recovery {
    /// The last commit.
    pub(crate) fn sequence(&self) -> u64 {
        let last = self.recovered.next_sequence - 1;
        last + u64::from(missing_ingest(&self.manifest, last).is_some())
    }
}

/// The record of an ingest that is in the manifest and, after a crash, not in the log, which ends at `last`.
fn missing_ingest(manifest: &Manifest, last: u64) -> Option<Vec<u8>> {
    let (ingested, table) = manifest.last_ingest().filter(|(ingested, _)| ingested.sequence == last + 1)?;
    let mut record = Vec::new();
    record::put_ingest(&mut record, table, &ingested.keys.0, &ingested.keys.1);
    Some(record)
}

/// Creates the directory and takes the lock on it: alone, or together with others that only read.
fn prepare_dir(disk: &dyn Disk, dir: &Path, options: &Options) -> Result<Option<Box<dyn Lock>>> {
    if options.create && !options.read_only {
        disk.create_dir_all(dir).map_err(|error| Error::io("cannot create directory", dir, error))?;
    } else {
        // Nothing is created in a directory without a database, not even the lock file.
        let names = disk.list(dir).map_err(|error| Error::io("cannot open the database in", dir, error))?;
        if !names.iter().any(|name| name == manifest::FILE_NAME) {
            return Err(no_database(dir));
        }
    }
    let lock = dir.join(LOCK_NAME);
    match if options.read_only { disk.lock_shared(&lock) } else { disk.lock(&lock) } {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{} is open in another process, or in this one already: stop that one, or connect to it",
                dir.display()
            ),
        )),
        // Others cannot write a read-only medium either.
        Err(_) if options.read_only => Ok(None),
        Err(error) => Err(Error::io("cannot lock", &lock, error)),
    }
}

#[cold]
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::new(
        ErrorKind::Missing,
        format!("there is no database in {}; check the path, or open it with `create`", dir.display()),
    )
}

/// Creates an empty database.
fn create(disk: &Arc<dyn Disk>, dir: &Path, options: &Options) -> Result<Manifest> {
    if !options.create || options.read_only {
        return Err(no_database(dir));
    }
    let names = disk.list(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    if let Some(run) = names.iter().find(|name| is_run_name(name)) {
        return Err(without_manifest(dir, run));
    }
    let database_id = random_id();
    let log_options = LogOptions::of(options.log_segment_bytes, database_id);
    match Log::create(disk.clone(), dir, log_options, 1) {
        Ok(log) => drop(log),
        Err(error) if error.kind() == ErrorKind::Exists => {
            return Err(without_manifest(dir, "a log"));
        }
        Err(error) => return Err(error),
    }
    let manifest = Manifest {
        database_id,
        checkpoint: 0,
        sequence: 0,
        log_position: 0,
        next_table_id: 0,
        catalog_sequence: 0,
        tables: Vec::new(),
    };
    manifest.write(&**disk, dir)?;
    Ok(manifest)
}

fn without_manifest(dir: &Path, what: &str) -> Error {
    let dir = dir.display();
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{dir} has {what} but no MANIFEST; restore the database from a backup, and if this is one, it was cut short: take another"
        ),
    )
}

/// Whether a file of this name belongs to a database.
pub(crate) fn is_database_file(name: &str) -> bool {
    is_run_name(name)
        || log::is_log_name(name)
        || is_temporary_name(name)
        || matches!(name, LOCK_NAME | manifest::FILE_NAME | manifest::UNFINISHED_NAME)
}

/// A random id for a database: the seed of a hash map, from the system's random source.
pub(crate) fn random_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Reads runs and log into memory. Writes nothing.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    arena: &Arc<Arena>,
    manifest: Manifest,
    lenient: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovery> {
    if manifest.next_table_id as usize > TABLES_MAX {
        return Err(Error::corrupt(
            &dir.join(manifest::FILE_NAME),
            0,
            format!("it says that {} tables were made", manifest.next_table_id),
        ));
    }
    let mut tables: Vec<Option<TableTrees>> = (0..manifest.next_table_id).map(|_| None).collect();
    let images = || manifest.tables.iter().filter(|table| !table.is_on_disk);
    let rows: u64 = images().map(|table| table.total.rows as u64).sum();
    let mut rows_done = 0;
    let mut report = || {
        rows_done += 1;
        if rows_done % 8192 == 0 {
            progress(Progress { stage: "loading the checkpoint", done: rows_done, total: rows });
        }
    };
    for entry in &manifest.tables {
        let trees = recover_table(disk, dir, arena, entry, manifest.sequence, &mut report)?;
        let slot = tables
            .get_mut(entry.id() as usize)
            .ok_or_else(|| Error::corrupt(&dir.join(manifest::FILE_NAME), 0, "a table id is out of range"))?;
        *slot = Some(trees);
    }
    let cache = PageCache::new(REPLAY_CACHE_BYTES);
    let mut visit = |sequence: u64, payload: &[u8]| {
        let at = (sequence, manifest.catalog_sequence);
        let mut visit = |change: Change<'_>| replay(&mut tables, (arena, &cache), at, change);
        unpanicked(|| record::decode(payload, &mut visit)).map_err(|error| {
            error.context(format!(
                "{}: commit {sequence} of the log cannot be applied (`quipu check --repair` builds its tables anew)",
                dir.display()
            ))
        })
    };
    let mut log_progress = |done, total| progress(Progress { stage: "replaying the log", done, total });
    let from = (Lsn(manifest.log_position), manifest.sequence + 1);
    let mut recovered = log::recover(disk, dir, manifest.database_id, from.0, from.1, &mut log_progress, &mut visit)?;
    check_end(dir, &manifest, &mut recovered);
    let is_ahead = manifest.tables.iter().any(|table| is_excised_ahead(table, &recovered));
    let recovered = if lenient && !is_ahead { Ok(recovered) } else { recovered.undamaged() };
    let recovered = recovered.map_err(|error| match is_ahead {
        true => error,
        false => error.context("only a read-only opening shows what came before the damage"),
    })?;
    for trees in tables.iter_mut().flatten() {
        let sequence = trees.sequence;
        trees.reset_if_empty(RECOVERED, sequence);
    }
    Ok(Recovery { manifest, tables, recovered })
}

/// Whether the runs of a table have lost ranges by commits that the log does not have. Then what memory has of the
/// table may be relative to rows that are not there: it cannot be read without a repair.
pub(crate) fn is_excised_ahead(table: &ManifestTable, recovered: &Recovered) -> bool {
    table.is_on_disk && table.excised >= recovered.next_sequence
}

/// Records damage if the log ends before commits that are in runs. It was durable before the manifest named these runs,
/// so a file of the log is missing, and new commits would get the numbers of those in the runs.
pub(crate) fn check_end(dir: &Path, manifest: &Manifest, recovered: &mut Recovered) {
    // The record of the last ingest may be missing.
    let ingested = manifest.last_ingest().map_or(0, |(ingested, _)| ingested.sequence - 1);
    let excised = manifest.tables.iter().map(|table| table.excised).max().unwrap_or(0);
    let (last, known) = (recovered.next_sequence - 1, manifest.catalog_sequence.max(ingested).max(excised));
    if recovered.damage.is_none() && last < known {
        let what = format!(
            "the log ends at commit {last}, and the manifest knows of commit {known}: a file of the log is missing or cut"
        );
        recovered.damage = Some(Error::corrupt(&dir.join(manifest::FILE_NAME), 0, what));
    }
}

/// A table as its runs have it: read into memory, or opened.
pub(crate) fn recover_table(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    arena: &Arc<Arena>,
    entry: &ManifestTable,
    sequence: u64,
    report: &mut dyn FnMut(),
) -> Result<TableTrees> {
    let mut runs = open_runs(&**disk, dir, entry)?;
    if total_of(&runs) != entry.total {
        let path = dir.join(entry.files().next().map_or(manifest::FILE_NAME, |name| name));
        return Err(Error::corrupt(&path, 0, "its rows do not have the tally that the manifest says"));
    }
    let mut tree = recovered_tree(arena, entry.measures(), runs.is_empty() || !entry.is_on_disk);
    if !entry.is_on_disk
        && let Some(run) = runs.pop()
    {
        let mut loader = Loader::new(tree);
        run.scan(&mut |key, value| {
            report();
            loader.push(key, value)
        })?;
        tree = loader.finish()?;
        if tree.view().total() != entry.total {
            let path = dir.join(run.files()[0].name());
            return Err(Error::corrupt(&path, 0, "its rows do not have the tally that the manifest says"));
        }
    }
    let last = entry.sequence.max(entry.ingested.sequence).max(sequence);
    let mut trees = TableTrees::new(entry.declaration.clone(), tree, last);
    trees.flushed_sequence = entry.sequence;
    trees.ingested = entry.ingested.clone();
    trees.excised_sequence = entry.excised;
    trees.runs = Runs::new(runs);
    Ok(trees)
}

/// Opens the runs of a table, many files at once: each takes three waits for the disk if the system has not cached it.
///
/// # Errors
/// Those of [`open_part`], for the first file that fails.
fn open_runs<'e>(disk: &dyn Disk, dir: &Path, entry: &'e ManifestTable) -> Result<Vec<Arc<Run>>> {
    let parts_of = |(place, run): (usize, &'e ManifestRun)| run.parts.iter().map(move |part| (place, part));
    let files: Vec<(usize, &ManifestPart)> = entry.runs.iter().enumerate().flat_map(parts_of).collect();
    let open = |files: &[(usize, &ManifestPart)]| -> Result<Vec<Part>> {
        files.iter().map(|&(place, part)| open_part(disk, dir, entry, place, part)).collect()
    };
    let (mine, others) = files.split_at(files.len().div_ceil(OPENERS).max(FILES_MIN).min(files.len()));
    let parts = thread::scope(|scope| -> Result<Vec<Part>> {
        let work = |files| {
            let builder = thread::Builder::new().name("quipu-opener".into());
            (files, builder.spawn_scoped(scope, move || open(files)))
        };
        let at_work: Vec<_> = others.chunks(mine.len().max(1)).map(work).collect();
        let mut parts = open(mine)?;
        for (files, thread) in at_work {
            // If no thread can be started, or it has panicked, this one opens the files.
            let opened = thread.ok().and_then(|thread| thread.join().ok());
            parts.extend(opened.unwrap_or_else(|| open(files))?);
        }
        Ok(parts)
    })?;
    let mut rest = parts.as_slice();
    let mut runs = Vec::with_capacity(entry.runs.len());
    for (place, run) in entry.runs.iter().enumerate() {
        let (parts, after) = rest.split_at(run.parts.len());
        runs.push(Arc::new(Run::of_parts(parts, place + 1 == entry.runs.len())));
        rest = after;
    }
    Ok(runs)
}

/// Opens a part of the run at index `place` of a table, newest first.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it does not exist, or cannot be the one that the manifest names; those of
/// [`RunFile::open`].
pub(crate) fn open_part(
    disk: &dyn Disk,
    dir: &Path,
    entry: &ManifestTable,
    place: usize,
    part: &ManifestPart,
) -> Result<Part> {
    let path = dir.join(&part.name);
    let file = RunFile::open(disk, &path).map_err(|error| match error.kind() {
        ErrorKind::Missing => Error::corrupt(&path, 0, "the manifest names it, and it is not there"),
        _ => error,
    })?;
    if file.identity() != part.identity {
        return Err(another_file(&path));
    }
    let info = file.info();
    let is_lowest = place + 1 == entry.runs.len();
    let excisions = Excisions::new(part.excisions.clone(), &info.total)
        .map_err(|fault| Error::corrupt(&path, 0, format!("the manifest says what the file cannot have: {fault}")))?;
    let file = file.with_excisions(excisions);
    let (info, left) = (file.info(), RunInfo { total: file.sums_left(), ..*file.info() });
    let is_here = if is_lowest { left.has_live_rows_only() } else { !info.is_bottom };
    let is_empty = left.total.entries == 0 && entry.runs[place].parts.len() > 1;
    if info.table_id != entry.id() || info.measures != entry.measures() || !is_here || is_empty {
        return Err(Error::corrupt(&path, 0, "it is not the run that the manifest names"));
    }
    Ok(Part { low: KeyBuffer::from_slice(&part.low), file: Arc::new(file) })
}

#[cold]
pub(crate) fn another_file(path: &Path) -> Error {
    Error::corrupt(path, 0, "it has the name of a run that the manifest names, and is another file")
}

/// The epochs of recovered trees: no reader has seen them yet.
const RECOVERED: Epochs = Epochs { epoch: 1, protected: 0 };

/// A tree for rows that were accepted once. Recovery refuses them not at the limit, since pages may be filled otherwise
/// than before, but only where space ends.
fn recovered_tree(arena: &Arc<Arena>, measures: Measures, is_bottom: bool) -> Tree {
    let mut tree = Tree::new(arena.clone(), measures, is_bottom);
    tree.set_room_reserved(true);
    tree
}

/// Applies one change of the log to the tables. `at`: its commit, and the commit up to which the tables are already
/// known.
pub(crate) fn replay(
    tables: &mut Vec<Option<TableTrees>>,
    (arena, cache): (&Arc<Arena>, &PageCache),
    at: (u64, u64),
    change: Change<'_>,
) -> Result<()> {
    let (sequence, catalog_sequence) = at;
    let is_known = sequence <= catalog_sequence;
    match change {
        Change::Entry { table, state, key, value, weights } => {
            let Some(trees) = written_table(tables, at, table)? else { return Ok(()) };
            if trees.ingested.covers(sequence, key) {
                return Ok(());
            }
            if trees.unresolved_at(key).is_some() {
                // It was resolved when this was written, and is not now, so the weight does not matter.
                let value = (state != EntryState::Tombstone).then_some(value);
                trees.write_unresolved(key, value, RECOVERED)
            } else if trees.layers[0].is_bottom() {
                replay_row(&mut trees.layers[0], state, key, value)
            } else {
                let weight = state.weight(weights, &trees.declaration.options.measures);
                replay_entry(&mut trees.layers[0], state, key, value, weight)
            }
        }
        Change::Blind { table, key, value } => {
            let Some(trees) = written_table(tables, at, table)? else { return Ok(()) };
            if trees.ingested.covers(sequence, key) {
                return Ok(());
            }
            // Only over runs is a weight unknown, and only of a key that is not in memory.
            if trees.runs.is_empty() || trees.layers[0].view().get(key).is_some() {
                return Err(differs("an entry of unknown weight, whose key is known"));
            }
            trees.write_unresolved(key, value, RECOVERED)
        }
        Change::RemoveRange { table, low, high, rows } => {
            let Some(trees) = written_table(tables, at, table)? else { return Ok(()) };
            replay_removal(trees, cache, sequence, (low, high), rows)
        }
        Change::Ingest { table, .. } => match written_table(tables, at, table)? {
            Some(trees) if trees.ingested.sequence < sequence => {
                Err(differs("an ingest of rows that the manifest does not name"))
            }
            _ => Ok(()),
        },
        // The tables already include these changes.
        Change::CreateTable { .. } | Change::DropTable { .. } if is_known => Ok(()),
        Change::CreateTable { table, name, options } => {
            if table as usize != tables.len() || tables.len() >= TABLES_MAX {
                return Err(differs("a table id out of order"));
            }
            if tables.iter().flatten().any(|trees| trees.declaration.name == name) {
                return Err(differs("a table whose name is taken"));
            }
            let measures = options.measures;
            let declaration = Arc::new(Declaration { id: table, name: name.to_owned(), options });
            let tree = recovered_tree(arena, measures, true);
            tables.push(Some(TableTrees::new(declaration, tree, sequence)));
            Ok(())
        }
        Change::DropTable { table } => {
            let slot = tables.get_mut(table as usize).filter(|slot| slot.is_some());
            *slot.ok_or_else(|| differs("the end of a table that does not exist"))? = None;
            Ok(())
        }
    }
}

#[cold]
pub(crate) fn differs(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what}: the log does not belong to this checkpoint; run `quipu check`"))
}

/// The table that a commit wrote to; `None` if its runs have the write, or if there is no such table any more: the
/// manifest may know that it was dropped later.
fn written_table(
    tables: &mut [Option<TableTrees>],
    (sequence, catalog_sequence): (u64, u64),
    table: TableId,
) -> Result<Option<&mut TableTrees>> {
    let is_dropped = sequence <= catalog_sequence && (table as usize) < tables.len();
    match find(tables, table) {
        Some(trees) if sequence <= trees.flushed_sequence => Ok(None),
        Some(trees) => {
            trees.sequence = sequence;
            Ok(Some(trees))
        }
        None if is_dropped => Ok(None),
        None => Err(differs("a write to a table that does not exist")),
    }
}

/// Takes a range out of what memory has of a table, and out of its runs, unless these have lost it already.
fn replay_removal(
    trees: &mut TableTrees,
    cache: &PageCache,
    sequence: u64,
    range: (Option<&[u8]>, Option<&[u8]>),
    rows: u64,
) -> Result<()> {
    let pages = ReadPages::new(cache);
    let removal = if sequence <= trees.excised_sequence {
        TableTrees::plan_removal_from_memory(range, rows)
    } else {
        loop {
            match trees.plan_logged_removal(range, rows, &pages) {
                Ok(Some(removal)) => break removal,
                Ok(None) => return Err(differs("the removal of a range that has other rows")),
                Err(Stopped::Missing) => pages.load()?,
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
    };
    trees.remove(&removal, RECOVERED)
}

/// Applies a write to a bottom tree, and checks that it does there what the record says.
fn replay_row(tree: &mut Tree, state: EntryState, key: &[u8], value: &[u8]) -> Result<()> {
    let (written, _) = match state {
        EntryState::Tombstone => tree.remove(key)?,
        EntryState::Fresh | EntryState::Over => tree.put(key, value, When::Always)?,
    };
    let expected = match state {
        EntryState::Fresh => Written::Inserted,
        EntryState::Over => Written::Replaced,
        EntryState::Tombstone => Written::Removed,
    };
    if written != expected {
        return Err(differs("an entry whose weight is not what its key weighs"));
    }
    Ok(())
}

/// Applies a write to a tree over runs, without reading those: the record has the weight.
fn replay_entry(tree: &mut Tree, state: EntryState, key: &[u8], value: &[u8], weight: Tally) -> Result<()> {
    let value = (state != EntryState::Tombstone).then_some(value);
    let row = value.map_or(Tally::ZERO, |value| tree.measures().of_row(key, value));
    let mut is_as_it_was = true;
    tree.write_over(key, value, |existing| {
        is_as_it_was = existing.as_ref().is_none_or(|existing| existing.live == (state != EntryState::Fresh));
        is_as_it_was.then(|| existing.map_or(row - weight, |existing| existing.below))
    })?;
    if !is_as_it_was {
        return Err(differs("an entry whose weight is not what its key weighs"));
    }
    Ok(())
}

fn find(tables: &mut [Option<TableTrees>], table: TableId) -> Option<&mut TableTrees> {
    tables.get_mut(table as usize)?.as_mut()
}
