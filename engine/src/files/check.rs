//! Checks all files of a database, and reports everything that is wrong with them.

use std::path::Path;
use std::sync::Arc;

use crate::cache::PageCache;
use crate::catalog::manifest::{Manifest, ManifestPart};
use crate::error::{Error, ErrorKind, Result};
use crate::files::open::{LOCK_NAME, another_file, no_database, recover};
use crate::io::{Disk, Lock};
use crate::options::Options;
use crate::progress::Progress;
use crate::run::{Excisions, RunFile};
use crate::stack::Cut;
use crate::state::writer::TableTrees;
use crate::tally::Tally;
use crate::tree::{Arena, Walk};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Descriptions of everything that is wrong; empty if all is well.
    pub faults: Vec<String>,
    /// Names of tables and their tallies, as far as they could be read.
    pub tables: Vec<(String, Tally)>,
    /// Number of runs read.
    pub runs: usize,
    /// Number of pages read.
    pub pages: u64,
    /// Number of commits in the log after the checkpoint.
    pub commits: u64,
    /// Sequence number of the last commit.
    pub sequence: u64,
}

/// Checks the database in a directory, which must not be open: every page of every run against its parent, what was
/// excised from runs against their pages, every commit in the log, and the resulting trees against their tallies.
/// Writes nothing.
///
/// # Errors
/// Only what prevents the check: no database, no permission, in use, or a newer version. Damage is in the report.
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

/// Locks the database in `dir` meanwhile; `None` where nothing can be written.
pub(crate) fn lock_to_check(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    match disk.lock(&dir.join(LOCK_NAME)) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(in_use(dir)),
        lock => Ok(lock.ok()),
    }
}

/// The error of work on files that are open elsewhere.
pub(crate) fn in_use(dir: &Path) -> Error {
    Error::new(ErrorKind::Busy, format!("{} is open in another process; stop it first", dir.display()))
}

/// Like [`check`], for a caller that has the lock.
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
        for part in entry.runs.iter().flat_map(|run| &run.parts) {
            check_part(&*disk, dir, part, &mut report, progress);
        }
    }
    let arena = Arc::new(Arena::new(options.page_bytes, options.memory_bytes)?);
    let cache = PageCache::new(options.cache_bytes);
    match recover(&disk, dir, &arena, manifest, true, progress) {
        // Rows that do not fit memory are no fault.
        Err(error) if matches!(error.kind(), ErrorKind::Version | ErrorKind::Full) => return Err(error),
        Err(error) => report.faults.push(error.to_string()),
        Ok(recovery) => {
            report.faults.extend(recovery.recovered.damage.as_ref().map(ToString::to_string));
            report.commits = recovery.recovered.record_count;
            report.sequence = recovery.sequence();
            for trees in recovery.tables.iter().flatten() {
                check_table(trees, &cache, &mut report)?;
            }
            report.tables.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }
    report.faults.dedup();
    Ok(report)
}

/// Checks a file of a run.
fn check_part(
    disk: &dyn Disk,
    dir: &Path,
    ManifestPart { name, identity, excisions, .. }: &ManifestPart,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(Progress),
) {
    report.runs += 1;
    let path = dir.join(name);
    let opened = RunFile::open(disk, &path).and_then(|run| match run.identity() == *identity {
        true => Ok(run),
        false => Err(another_file(&path)),
    });
    let checked = opened.map(|run| {
        let total = run.info().bytes;
        let mut checked = run.check(&mut |done| progress(Progress { stage: "checking runs", done, total }));
        checked.faults.extend(match Excisions::new(excisions.clone(), &run.info().total) {
            Ok(excisions) => run.with_excisions(excisions).check_excisions(),
            Err(fault) => vec![fault.to_owned()],
        });
        checked
    });
    match checked {
        Ok(run) => {
            report.pages += run.pages;
            report.faults.extend(run.faults.iter().map(|fault| format!("{name}: {fault}")));
        }
        Err(error) => report.faults.push(error.to_string()),
    }
}

/// Checks a table as it is after the log: each layer, and, if nothing was wrong so far, all of them together.
fn check_table(trees: &TableTrees, cache: &PageCache, report: &mut CheckReport) -> Result<()> {
    let name = &trees.declaration.name;
    for tree in trees.layers.iter().chain(trees.unresolved.as_deref()) {
        report.faults.extend(tree.check().into_iter().map(|fault| format!("table {name:?}: {fault}")));
    }
    report.faults.extend(check_unresolved(trees));
    if report.faults.is_empty() && !trees.runs.is_empty() {
        report.faults.extend(check_stack(trees, cache)?);
    }
    let total = match trees.unresolved {
        Some(_) if report.faults.is_empty() => exact_total(trees, cache)?,
        _ => trees.total(),
    };
    report.tables.push((name.clone(), total));
    Ok(())
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

/// The weight of all layers of a table, including its unresolved entries.
fn exact_total(trees: &TableTrees, cache: &PageCache) -> Result<Tally> {
    let (start, end) = (Cut::Start, Cut::End);
    trees.source(cache).exact(start, end, |source| source.ask(|stack| stack.tally(start, end)))
}

/// Checks that the rows of a table on disk, its layers merged, weigh what the layers say together. Layers that are
/// sound in themselves may not fit each other.
fn check_stack(trees: &TableTrees, cache: &PageCache) -> Result<Option<String>> {
    let measures = trees.declaration.options.measures;
    let mut tally = Tally::ZERO;
    // Counts are what is checked here.
    trees.source(cache).stepping().scan(Cut::Start, Cut::End, false, |key, value| {
        tally += measures.of_row(key, value);
        true
    })?;
    let name = &trees.declaration.name;
    let total = exact_total(trees, cache)?;
    Ok((tally != total).then(|| {
        format!("table {name:?}: its rows tally {tally:?}, and its layers {total:?}: they do not belong together")
    }))
}
