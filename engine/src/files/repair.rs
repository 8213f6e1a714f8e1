//! Repairs a damaged database: rebuilds it from what can be read, and reports what is lost.
//!
//! A table with a damaged run is rebuilt as one bottom run of the live rows that can still be read: from its runs,
//! newest first, and the log. No weight of the old runs counts, since it was relative to entries that may be lost.
//! Other tables are left alone. A damaged log is cut where the damage begins. A table is also rebuilt if a record of
//! the log, though whole, cannot be applied to it.
//!
//! Invariants:
//! 1. What is replaced is kept, in a directory `damaged-<n>` in that of the database: nothing is deleted, and nothing
//!    is written there twice.
//! 2. The new manifest is written when all that it names is durable. Until then the database is as it was; an
//!    interrupted repair can be repeated.
//! 3. A rebuilt table holds each entry that can be read, except where a newer one hides it. Where entries of an upper
//!    run are lost, it may have an older row in place of a newer one, or a row that was removed: a reported loss is a
//!    range of keys, any of which may be wrong.
//! 4. If the log was cut, tables are as they were after the last remaining commit, except that tables with newer runs
//!    keep them: so tables may be of different commits.
//!
//! Cost: reads everything twice, and damaged tables twice more; writes these once for what is left of each run, and
//! once as a whole. Memory: damaged tables that live in memory, and for others what the log has of them.
//!
//! Not here: a damaged manifest. Nothing else says which runs belong together, so nothing is done.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::PageCache;
use crate::catalog::declaration::TableId;
use crate::catalog::manifest::{self, Manifest, ManifestPart, ManifestTable};
use crate::catalog::record::{self, Change, EntryState};
use crate::error::{Error, ErrorKind, Result};
use crate::files::backup::File;
use crate::files::check::{check_files, in_use};
use crate::files::open::{LOCK_NAME, check_end, is_excised_ahead, no_database, open_part, recover_table, replay};
use crate::io::Disk;
use crate::log::{self, Log, LogOptions, Lsn, Recovered, is_log_name};
use crate::maintenance::checkpoint_and_flush::{described, undescribed};
use crate::maintenance::remove_files::remove_orphans;
use crate::options::Options;
use crate::progress::Progress;
use crate::read::table_stack::{Source, WalkWindow, WindowRows};
use crate::run::{Lost, Part, Run, RunOptions, RunWriter};
use crate::stack::Cut;
use crate::state::failures::unpanicked;
use crate::state::key_ranges::KeyRanges;
use crate::state::run_files::{is_run_name, run_name};
use crate::state::versions::total_of;
use crate::state::writer::TableTrees;
use crate::tally::Tally;
use crate::tree::{Arena, Tree};

/// Bytes read from each run at a time, and bytes of pages that are kept.
const WINDOW_BYTES: u64 = 1 << 20;
const PINNED_BYTES: u64 = 16 << 20;

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What could not be read. In these ranges rows are missing or, if the loss is not in the table's oldest run, may
    /// be older than they were.
    pub lost: Vec<Loss>,
    /// Rebuilt tables, and their rows now, including those of the log.
    pub rebuilt: Vec<(String, Tally)>,
    /// What is wrong with the log, if anything: all commits after that place are lost.
    pub log: Option<String>,
    /// The last remaining commit. If the log was damaged, a table may have newer rows, from its runs.
    pub sequence: u64,
    /// The directory of the replaced files; `None` if none were replaced.
    pub aside: Option<PathBuf>,
    /// Their names.
    pub files: Vec<String>,
    /// What a check still finds; empty if all is well.
    pub faults: Vec<String>,
}

/// Entries of one run that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The table.
    pub table: String,
    /// The run's file.
    pub file: String,
    /// The first key that may be missing; `None`: from the start.
    pub low: Option<Vec<u8>>,
    /// The first key after the loss; `None`: to the end.
    pub high: Option<Vec<u8>>,
    /// The number of entries, if it is known.
    pub entries: Option<u64>,
    /// Whether nothing older lay below: then these rows are gone, with no older ones in their place.
    pub is_bottom: bool,
    /// The error found there.
    pub error: String,
}

/// What the log says of a table.
#[derive(Default)]
struct Overlay {
    /// Of keys; for a table in memory, its run too.
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The ranges that runs have lost since the manifest was written.
    removed: KeyRanges,
}

impl Overlay {
    /// Removes a range: from the runs below too, unless they have lost it already.
    fn remove_range(&mut self, low: Option<&[u8]>, high: Option<&[u8]>, is_in_runs: bool) {
        self.rows.retain(|key, _| {
            low.is_some_and(|low| key.as_slice() < low) || high.is_some_and(|high| key.as_slice() >= high)
        });
        if is_in_runs {
            self.removed.add(low.unwrap_or_default(), high);
        }
    }
}

/// Takes a key and its value.
type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// Rebuilds the damaged parts of the database in a directory, which must not be open, from what can be read. Replaced
/// files are kept in a directory of their own there. If nothing is damaged, nothing is written.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the manifest is damaged, without which nothing can be done; no database, in use, a newer
/// version, and errors of the disk. Then the database is as it was.
pub fn repair(path: impl AsRef<Path>, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<RepairReport> {
    options.check()?;
    let dir = path.as_ref();
    let disk = &*options.disk;
    let names = disk.list(dir).map_err(|error| Error::io("cannot repair the database in", dir, error))?;
    if !names.iter().any(|name| name == manifest::FILE_NAME) {
        return Err(no_database(dir));
    }
    let lock = dir.join(LOCK_NAME);
    let _lock = disk.lock(&lock).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => in_use(dir),
        _ => Error::io("cannot lock", &lock, error),
    })?;
    let manifest = match Manifest::read(disk, dir) {
        Ok(manifest) => manifest.ok_or_else(|| no_database(dir))?,
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            return Err(error.context("this cannot be repaired, and nothing was changed"));
        }
        Err(error) => return Err(error),
    };
    let number = manifest.checkpoint;
    let mut repair = Repair {
        dir,
        options,
        disk,
        names,
        manifest,
        number,
        report: RepairReport::default(),
        written: Vec::new(),
        has_last_tables: false,
    };
    let result = repair.run(progress);
    if result.is_err() {
        // Removes files that the manifest does not name; those that it names stay.
        repair.give_up();
    }
    result.map(|()| repair.report)
}

struct Repair<'r> {
    dir: &'r Path,
    options: &'r Options,
    disk: &'r dyn Disk,
    /// The names of the existing files.
    names: Vec<String>,
    manifest: Manifest,
    /// The highest number of any run.
    number: u64,
    report: RepairReport,
    /// Runs written, including intermediate ones.
    written: Vec<String>,
    /// Whether the tables of the manifest are those at the end of the log.
    has_last_tables: bool,
}

impl Repair<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let mut unsound = BTreeSet::new();
        for entry in &self.manifest.tables {
            if !self.is_sound(entry, progress)? {
                unsound.insert(entry.id());
            }
        }
        self.replay_log(&mut unsound, progress)?;
        let old = self.manifest.clone();
        let damaged: Vec<&ManifestTable> = old.tables.iter().filter(|entry| unsound.contains(&entry.id())).collect();
        let (mut overlays, mut sources) = (BTreeMap::new(), Vec::new());
        for entry in &damaged {
            let runs = self.salvage(entry, progress)?;
            let mut overlay = Overlay::default();
            if !entry.is_on_disk {
                // The log may remove ranges of its rows, so all of them are put into the overlay.
                self.merge(entry, &runs, &Overlay::default(), &mut |key, value| {
                    overlay.rows.insert(key.to_vec(), Some(value.to_vec()));
                    Ok(())
                })?;
            }
            overlays.insert(entry.id(), overlay);
            sources.push(if entry.is_on_disk { runs } else { Vec::new() });
        }
        let mut lost = Vec::new();
        let mut recovered = self.read_log(&old, &mut overlays, &mut lost, progress)?;
        self.report.lost.append(&mut lost);
        self.report.sequence = recovered.next_sequence - 1;
        self.report.log = recovered.cut_at_damage().map(|damage| damage.to_string());
        for (entry, runs) in damaged.into_iter().zip(&sources) {
            self.rebuild(entry, runs, &overlays[&entry.id()])?;
        }
        self.replace(&old, &recovered, progress)
    }

    /// Whether the runs of a table are undamaged and fit each other.
    fn is_sound(&self, entry: &ManifestTable, progress: &mut dyn FnMut(Progress)) -> Result<bool> {
        let mut runs = Vec::new();
        for (place, run) in entry.runs.iter().enumerate() {
            let mut parts = Vec::new();
            for part in &run.parts {
                let Some(part) = self.open(entry, place, part)?.ok() else { return Ok(false) };
                let total = part.file.info().bytes;
                let report = part.file.check(&mut |done| progress(Progress { stage: "checking runs", done, total }));
                if !report.faults.is_empty() || !part.file.check_excisions().is_empty() {
                    return Ok(false);
                }
                parts.push(part);
            }
            runs.push(Arc::new(Run::of_parts(&parts, place + 1 == entry.runs.len())));
        }
        let mut tally = Tally::ZERO;
        self.merge(entry, &runs, &Overlay::default(), &mut |key, value| {
            tally += entry.measures().of_row(key, value);
            Ok(())
        })?;
        let total = total_of(&runs);
        Ok(total == entry.total && tally == total)
    }

    /// Replays the log like opening does. Tables to which a record cannot be applied, and those whose runs have lost
    /// ranges that the log does not know of, are added to `unsound`; if there are any, the manifest gets the tables
    /// that exist at the end of the log, since rebuilt tables must be in it.
    fn replay_log(&mut self, unsound: &mut BTreeSet<TableId>, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let (options, dir, manifest) = (self.options, self.dir, &self.manifest);
        let arena = Arc::new(Arena::new(options.page_bytes, options.memory_bytes)?);
        let mut tables: Vec<Option<TableTrees>> = (0..manifest.next_table_id).map(|_| None).collect();
        for entry in manifest.tables.iter().filter(|entry| !unsound.contains(&entry.id())) {
            let trees = recover_table(&options.disk, dir, &arena, entry, manifest.sequence, &mut || ())?;
            tables[entry.id() as usize] = Some(trees);
        }
        let (at_first, mut dropped) = (unsound.len(), BTreeSet::new());
        let cache = PageCache::new(WINDOW_BYTES);
        let mut visit = |sequence: u64, payload: &[u8]| {
            record::decode(payload, &mut |change| {
                let id = change.table();
                if unsound.contains(&id) {
                    if matches!(change, Change::DropTable { .. }) && sequence > manifest.catalog_sequence {
                        dropped.insert(id);
                    }
                    return Ok(());
                }
                let at = (sequence, manifest.catalog_sequence);
                let Err(error) = unpanicked(|| replay(&mut tables, (&arena, &cache), at, change)) else {
                    return Ok(());
                };
                if error.kind() == ErrorKind::Full {
                    return Err(error);
                }
                let Some(trees) = tables.get_mut(id as usize).and_then(Option::as_mut) else { return Err(error) };
                // What a panic has left half changed must not be read again, not even to free it.
                let measures = trees.declaration.options.measures;
                let whole = TableTrees::new(trees.declaration.clone(), Tree::new(arena.clone(), measures, true), 0);
                std::mem::forget(std::mem::replace(trees, whole));
                unsound.insert(id);
                Ok(())
            })
        };
        let mut report = |done, total| progress(Progress { stage: "replaying the log", done, total });
        let (from, first) = (Lsn(manifest.log_position), manifest.sequence + 1);
        let (disk, database_id) = (&options.disk, manifest.database_id);
        let recovered = log::recover(disk, dir, database_id, from, first, &mut report, &mut visit)?;
        let is_ahead = |entry: &&ManifestTable| is_excised_ahead(entry, &recovered) && !dropped.contains(&entry.id());
        unsound.extend(manifest.tables.iter().filter(is_ahead).map(|entry| entry.id()));
        if unsound.len() == at_first {
            return Ok(());
        }
        unsound.retain(|id| !dropped.contains(id));
        let known: BTreeMap<TableId, ManifestTable> =
            manifest.tables.iter().map(|entry| (entry.id(), entry.clone())).collect();
        let there_are = |id: &TableId| {
            let trees = tables.get(*id as usize).and_then(Option::as_ref);
            let is_there = unsound.contains(id) || trees.is_some() && !dropped.contains(id);
            is_there.then(|| known.get(id).cloned().or_else(|| Some(undescribed(&trees?.declaration)))).flatten()
        };
        let next_table_id = tables.len() as u32;
        let entries = (0..next_table_id).filter_map(|id| there_are(&id)).collect();
        self.manifest.tables = entries;
        self.manifest.next_table_id = next_table_id;
        self.manifest.catalog_sequence = self.manifest.catalog_sequence.max(recovered.next_sequence - 1);
        self.has_last_tables = true;
        Ok(())
    }

    /// A part of the run at index `place` of a table, or why it cannot be opened.
    fn open(&self, entry: &ManifestTable, place: usize, part: &ManifestPart) -> Result<Result<Part, String>> {
        match open_part(self.disk, self.dir, entry, place, part) {
            Ok(part) => Ok(Ok(part)),
            Err(error) if error.kind() == ErrorKind::Version => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// The readable rest of a table's runs: each run itself, or a copy of what is left of it.
    fn salvage(&mut self, entry: &ManifestTable, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Arc<Run>>> {
        let mut runs = Vec::new();
        for (place, run) in entry.runs.iter().enumerate() {
            let is_bottom = place + 1 == entry.runs.len();
            let (mut writer, path) = self.begin(entry, is_bottom, false)?;
            for (number, part) in run.parts.iter().enumerate() {
                let mut losses = Vec::new();
                // The lost entries of a part lie between its low key and that of the next.
                let low = (number > 0).then(|| part.low.clone());
                let high = run.parts.get(number + 1).map(|next| next.low.clone());
                match self.open(entry, place, part)? {
                    Err(error) => losses.push((Lost { low: low.clone(), high: high.clone(), entries: 0, error }, None)),
                    Ok(part) => {
                        let total = part.file.info().bytes;
                        part.file.salvage(
                            &mut |done| progress(Progress { stage: "reading what is left", done, total }),
                            &mut |key, value, weight| writer.push_entry(key, value, weight),
                            &mut |lost| {
                                let entries = Some(lost.entries);
                                losses.push((lost, entries));
                            },
                        )?;
                    }
                }
                self.report.lost.extend(losses.into_iter().map(|(lost, entries)| Loss {
                    table: entry.name().to_owned(),
                    file: part.name.clone(),
                    low: lost.low.or_else(|| low.clone()),
                    high: lost.high.or_else(|| high.clone()),
                    entries,
                    is_bottom,
                    error: lost.error,
                }));
            }
            writer.finish()?;
            runs.push(Arc::new(Run::open(self.disk, &path)?));
        }
        Ok(runs)
    }

    /// Begins a run under a name that no file has.
    fn begin(&mut self, entry: &ManifestTable, is_bottom: bool, has_filters: bool) -> Result<(RunWriter, PathBuf)> {
        let name = loop {
            self.number += 1;
            let name = run_name(self.number, entry.id());
            if !self.names.contains(&name) {
                break name;
            }
        };
        let path = self.dir.join(&name);
        self.written.push(name);
        let options = RunOptions {
            page_bytes: self.options.run_page_bytes,
            measures: entry.measures(),
            table_id: entry.id(),
            run_id: self.number,
            is_bottom,
            has_filters,
            layout: entry.declaration.options.layout,
            compression: entry.declaration.options.compression_of(is_bottom),
            is_read_soon: false,
        };
        Ok((RunWriter::create(self.disk, &path, options)?, path))
    }

    /// Visits the live rows of runs, newest first, under the overlay that hides some of them.
    fn merge(&self, entry: &ManifestTable, runs: &[Arc<Run>], overlay: &Overlay, visit: &mut Visit<'_>) -> Result<()> {
        let cache = PageCache::new(self.options.cache_bytes);
        let mut above = overlay.rows.iter().peekable();
        let window = WalkWindow { rows: WindowRows::Any, bytes: WINDOW_BYTES, lent_bytes: PINNED_BYTES };
        let source = Source::new([], runs, &cache, entry.measures());
        if !runs.is_empty() {
            source.walk(Cut::Start, Cut::End, false, window, |merge, key| {
                let Some(merged) = merge.next_entry(key, |_| true)? else { return Ok(false) };
                while let Some((above, value)) = above.next_if(|(above, _)| ***above < **key) {
                    if let Some(value) = value {
                        visit(above, value)?;
                    }
                }
                let value = match above.next_if(|(above, _)| ***above == **key) {
                    Some((_, value)) => value.as_deref(),
                    None => merged.value.filter(|_| !overlay.removed.has(key)),
                };
                if let Some(value) = value {
                    visit(key, value)?;
                }
                Ok(true)
            })?;
        }
        above.try_for_each(|(key, value)| value.as_ref().map_or(Ok(()), |value| visit(key, value)))
    }

    /// Reads the log as far as it goes, and adds its changes of damaged tables to the overlays. Ignores what an entry
    /// found below it, which may be lost. Adds to `lost` what the log says was brought in files that the manifest does
    /// not name.
    fn read_log(
        &self,
        old: &Manifest,
        overlays: &mut BTreeMap<TableId, Overlay>,
        lost: &mut Vec<Loss>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Recovered> {
        let since: BTreeMap<TableId, &ManifestTable> = old.tables.iter().map(|entry| (entry.id(), entry)).collect();
        let mut visit = |sequence: u64, payload: &[u8]| {
            record::decode(payload, &mut |change| {
                let table = change.table();
                let Some(overlay) = overlays.get_mut(&table) else { return Ok(()) };
                let entry = since[&table];
                if sequence <= entry.sequence {
                    return Ok(());
                }
                match change {
                    Change::Ingest { first, last, .. } => {
                        if sequence > entry.ingested.sequence {
                            lost.push(unnamed_ingest(entry, sequence, first, last));
                        }
                    }
                    Change::CreateTable { .. } | Change::DropTable { .. } => {}
                    Change::Entry { key, .. } | Change::Blind { key, .. } if entry.ingested.covers(sequence, key) => {}
                    Change::Entry { state, key, value, .. } => {
                        overlay.rows.insert(key.to_vec(), (state != EntryState::Tombstone).then(|| value.to_vec()));
                    }
                    Change::Blind { key, value, .. } => {
                        overlay.rows.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                    }
                    Change::RemoveRange { low, high, .. } => {
                        overlay.remove_range(low, high, entry.is_on_disk && sequence > entry.excised);
                    }
                }
                Ok(())
            })
        };
        let mut report = |done, total| progress(Progress { stage: "replaying the log", done, total });
        let (from, first) = (Lsn(old.log_position), old.sequence + 1);
        let mut recovered =
            log::recover(&self.options.disk, self.dir, old.database_id, from, first, &mut report, &mut visit)?;
        check_end(self.dir, old, &mut recovered);
        Ok(recovered)
    }

    /// Rebuilds a table.
    fn rebuild(&mut self, entry: &ManifestTable, runs: &[Arc<Run>], overlay: &Overlay) -> Result<()> {
        // A table in memory without rows has no run.
        let is_empty = !entry.is_on_disk && overlay.rows.values().all(Option::is_none);
        let mut next = ManifestTable { runs: Vec::new(), total: Tally::ZERO, ..entry.clone() };
        if !is_empty {
            let (mut writer, path) = self.begin(entry, true, entry.is_on_disk)?;
            self.merge(entry, runs, overlay, &mut |key, value| writer.push(key, value))?;
            next.total = writer.finish()?.total.tally;
            next.runs.push(described(&Run::open(self.disk, &path)?));
        }
        self.report.rebuilt.push((entry.name().to_owned(), next.total));
        // The log has no more changes of it.
        (next.sequence, next.excised) = (self.report.sequence, self.report.sequence);
        let slot = self.manifest.tables.iter_mut().find(|slot| slot.id() == entry.id()).expect("it is one of these");
        *slot = next;
        Ok(())
    }

    /// Puts the new files in place of the damaged ones, which are kept.
    fn replace(&mut self, old: &Manifest, recovered: &Recovered, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let is_log_damaged = self.report.log.is_some();
        // With damage before the position where the manifest says that it begins, it is not certain to be the log that
        // is meant, unless it goes on elsewhere.
        let goes_on_anew = is_log_damaged || !recovered.leads_up;
        let named = |name: &String| self.manifest.files().any(|file| file == name);
        let aside: Vec<String> = (self.names.iter())
            .filter(|name| is_run_name(name) && !named(name) || is_log_name(name) && goes_on_anew)
            .cloned()
            .collect();
        // Replay skips writes that cannot be applied to a table dropped later, once the manifest knows of the drop.
        let is_new = !self.report.rebuilt.is_empty() || self.has_last_tables;
        if aside.is_empty() && !is_new && !goes_on_anew {
            return Ok(());
        }
        self.keep(aside, progress)?;
        if is_new || is_log_damaged {
            // A table may have more commits in its runs than the log has left: their numbers are given again.
            let last = self.report.sequence;
            for entry in &mut self.manifest.tables {
                entry.sequence = entry.sequence.min(last);
                entry.excised = entry.excised.min(last);
                entry.ingested.sequence = entry.ingested.sequence.min(last);
            }
            self.manifest.catalog_sequence = old.catalog_sequence.min(last);
            self.manifest.checkpoint = self.number;
            self.disk.sync_dir(self.dir).map_err(|error| Error::io("cannot sync", self.dir, error))?;
            self.manifest.write(self.disk, self.dir)?;
        }
        if goes_on_anew {
            // The log goes on in a new file, whose header says where the old log was cut.
            let database_id = self.manifest.database_id;
            let options = LogOptions::of(self.options.log_segment_bytes, database_id);
            drop(Log::resume(self.options.disk.clone(), self.dir, options, recovered)?);
            // Files after the cut say that more was durable: with them, the log would count as damaged again.
            self.disk.sync_dir(self.dir).map_err(|error| Error::io("cannot sync", self.dir, error))?;
        }
        remove_orphans(self.disk, self.dir, &self.manifest, Default::default)?;
        self.report.faults = check_files(self.dir, self.options, progress)?.faults;
        Ok(())
    }

    /// Keeps files, and the manifest, in a directory of their own.
    fn keep(&mut self, mut files: Vec<String>, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let is_free = |aside: &PathBuf| self.disk.list(aside).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let mut places = (1u32..).map(|number| self.dir.join(format!("damaged-{number}")));
        let aside = places.find(is_free).expect("there are more numbers than directories");
        self.disk.create_dir_all(&aside).map_err(|error| Error::io("cannot create directory", &aside, error))?;
        files.push(manifest::FILE_NAME.to_owned());
        let total = files.len() as u64;
        for (done, name) in files.iter().enumerate() {
            progress(Progress { stage: "keeping files", done: done as u64, total });
            let file = File { disk: self.disk, from: &self.dir.join(name), to: &aside.join(name) };
            // Files of a log are written again, so they are copied.
            file.copy(!is_log_name(name), &mut |_| ())?;
        }
        self.disk.sync_dir(&aside).map_err(|error| Error::io("cannot sync", &aside, error))?;
        (self.report.aside, self.report.files) = (Some(aside), files);
        Ok(())
    }

    /// Removes the files that were written, unless the manifest in place names them.
    fn give_up(&self) {
        let Ok(Some(manifest)) = Manifest::read(self.disk, self.dir) else { return };
        for name in &self.written {
            if !manifest.files().any(|file| file == name) {
                // What stays is removed by the next opening.
                let _ = self.disk.remove(&self.dir.join(name));
            }
        }
    }
}

/// The loss of the rows that commit `sequence` brought: an older manifest names none of their files.
fn unnamed_ingest(entry: &ManifestTable, sequence: u64, first: &[u8], last: &[u8]) -> Loss {
    Loss {
        table: entry.name().to_owned(),
        file: manifest::FILE_NAME.to_owned(),
        low: Some(first.to_vec()),
        high: Some([last, &[0]].concat()),
        entries: None,
        is_bottom: false,
        error: format!("commit {sequence} brought rows in files that it does not name: it is older than the log"),
    }
}

#[cfg(test)]
mod tests;
