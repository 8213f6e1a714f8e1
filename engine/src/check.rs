//! `check`: reads all files of a database and names everything that is wrong, as far as it can be told.

use std::path::Path;
use std::sync::Arc;

use crate::db::Progress;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, Lock};
use crate::manifest::{Manifest, ManifestPart};
use crate::open::{LOCK_NAME, another_file, no_database, recover};
use crate::options::Options;
use crate::run::{PageCache, RunFile};
use crate::stack::Cut;
use crate::tally::Tally;
use crate::tree::{Arena, Walk};
use crate::writer::TableTrees;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Everything that is wrong, in words; none if all is well.
    pub faults: Vec<String>,
    /// Tables with their tallies, as far as they could be read.
    pub tables: Vec<(String, Tally)>,
    /// Runs read.
    pub runs: usize,
    /// Pages read.
    pub pages: u64,
    /// Commits in the log behind the checkpoint.
    pub commits: u64,
    /// The last commit.
    pub sequence: u64,
}

/// Checks the database in a directory, which nobody has open: every page of every run against its parent, every commit in the log, and the tree that they make
/// against the tallies that it keeps. Writes nothing.
///
/// # Errors
/// Only what keeps it from checking at all: no database, no permission, in use, or a newer version. Damage is in the report.
pub fn check(path: impl AsRef<Path>, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let dir = path.as_ref();
    let disk = &*options.disk;
    let names = disk.list(dir).map_err(|error| Error::io("cannot check the database in", dir, error))?;
    if names.is_empty() {
        return Err(no_database(dir));
    }
    let _lock = lock_to_check(disk, dir)?;
    check_files(dir, options, progress)
}

/// Keeps others from opening the database in `dir` meanwhile; none where nothing can be written.
pub(crate) fn lock_to_check(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    match disk.lock(&dir.join(LOCK_NAME)) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(in_use(dir)),
        lock => Ok(lock.ok()),
    }
}

/// The error of work on files that somebody has open.
pub(crate) fn in_use(dir: &Path) -> Error {
    Error::new(ErrorKind::Busy, format!("{} is open in another process; stop it first", dir.display()))
}

/// As [`check`], for who has the lock.
pub(crate) fn check_files(dir: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let disk = options.disk.clone();
    let mut report = CheckReport::default();
    let manifest = match Manifest::read(&*disk, dir) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            return Err(no_database(dir));
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.faults.push(error.to_string());
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    for entry in &manifest.tables {
        for ManifestPart { name, identity, .. } in entry.runs.iter().flat_map(|run| &run.parts) {
            report.runs += 1;
            let path = dir.join(name);
            let opened = RunFile::open(&*disk, &path).and_then(|run| match run.identity() == *identity {
                true => Ok(run),
                false => Err(another_file(&path)),
            });
            let checked = opened.map(|run| {
                let total = run.info().bytes;
                run.check(&mut |done| progress(Progress { stage: "checking runs", done, total }))
            });
            match checked {
                Ok(run) => {
                    report.pages += run.pages;
                    report.faults.extend(run.faults.iter().map(|fault| format!("{name}: {fault}")));
                }
                Err(error) => report.faults.push(error.to_string()),
            }
        }
    }
    let arena = Arc::new(Arena::new(options.page_bytes, options.memory_bytes)?);
    let cache = PageCache::new(options.cache_bytes);
    match recover(&disk, dir, &arena, manifest, true, progress) {
        // What memory does not hold is no fault.
        Err(error) if matches!(error.kind(), ErrorKind::Version | ErrorKind::Full) => return Err(error),
        Err(error) => report.faults.push(error.to_string()),
        Ok(recovery) => {
            report.faults.extend(recovery.recovered.damage.as_ref().map(ToString::to_string));
            report.commits = recovery.recovered.record_count;
            report.sequence = recovery.recovered.next_sequence - 1;
            for trees in recovery.tables.iter().flatten() {
                for tree in trees.layers.iter().chain(trees.unresolved.as_deref()) {
                    let name = &trees.declaration.name;
                    report.faults.extend(tree.check().into_iter().map(|fault| format!("table {name:?}: {fault}")));
                }
                report.faults.extend(check_unresolved(trees));
                if report.faults.is_empty() && !trees.runs.is_empty() {
                    report.faults.extend(check_stack(trees, &cache)?);
                }
                let total = match trees.unresolved {
                    Some(_) if report.faults.is_empty() => exact_total(trees, &cache)?,
                    _ => trees.total(),
                };
                report.tables.push((trees.declaration.name.clone(), total));
            }
            report.tables.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }
    report.faults.dedup();
    Ok(report)
}

/// Whether the keys of unresolved entries have none in the trees below.
fn check_unresolved(trees: &TableTrees) -> Option<String> {
    let tree = trees.unresolved.as_ref()?;
    let mut walk = Walk::first(tree.view());
    while walk.valid() {
        let key = walk.key();
        if trees.views().any(|view| view.get(&key).is_some()) {
            let name = &trees.declaration.name;
            return Some(format!("table {name:?}: a key whose weight is unknown has an entry in memory: {key:?}"));
        }
        walk.next();
    }
    None
}

/// What all layers of a table weigh, with what its unresolved entries do.
fn exact_total(trees: &TableTrees, cache: &PageCache) -> Result<Tally> {
    let (start, end) = (Cut::Start, Cut::End);
    trees.source(cache).exact(start, end, |source| source.ask(|stack| stack.tally(start, end)))
}

/// Whether the rows of a table on disk, its layers merged, weigh what the layers say together. Sound layers may not fit each other.
fn check_stack(trees: &TableTrees, cache: &PageCache) -> Result<Option<String>> {
    let measures = trees.declaration.options.measures;
    let mut tally = Tally::ZERO;
    trees.source(cache).scan(Cut::Start, Cut::End, false, |key, value| {
        tally += measures.of_row(key, value);
        true
    })?;
    let name = &trees.declaration.name;
    let total = exact_total(trees, cache)?;
    Ok((tally != total).then(|| {
        format!("table {name:?}: its rows tally {tally:?}, and its layers {total:?}: they do not belong together")
    }))
}
