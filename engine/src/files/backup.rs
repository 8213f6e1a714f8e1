//! Backups: copies a database that is being written to into a directory of its own; and restores it.
//!
//! ```text
//!  checkpoint at commit 817         the copy:   run-*    linked, or copied where the disk cannot
//!  its runs are kept meanwhile                  log-*    new and empty, from commit 818 on
//!                                               MANIFEST last: with it the copy is complete, without it no copy
//! ```
//!
//! Invariants:
//! 1. The copy holds the state after one commit, which was durable when the copying began.
//! 2. A copy with a manifest is complete and durable; without a manifest there is no copy.
//! 3. Nothing of the database is changed or removed, except what its own checkpoint replaces. Runs that are being
//!    copied stay (`state/run_files` keeps them), beside those that replace them.
//! 4. A copy has a database id of its own. From the copy on, the two write different commits under the same numbers:
//!    with one id, a log file moved into the other's directory would be read as its own. Runs never change and carry no
//!    id, so they can be shared.
//!
//! Cost: a checkpoint; then a link for each run, or a copy of its bytes.
//!
//! Not here: what is wrong with a database (`check`).

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::catalog::manifest::{self, Manifest};
use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::files::check::{check_files, lock_to_check};
use crate::files::open::{LOCK_NAME, is_database_file, random_id};
use crate::io::{Disk, Lock, OpenMode};
use crate::log::{Log, LogOptions};
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::options::Options;
use crate::progress::Progress;

/// Bytes copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// How a backup is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupOptions {
    /// Copy all bytes, even where the file system could share files between both directories. Links take no time and no
    /// space, but damage on the disk under a shared file damages both. Default: false.
    pub copy: bool,
}

/// The contents of a backup or of a restored database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupInfo {
    /// Sequence number of the last commit in it.
    pub sequence: u64,
    /// Number of tables.
    pub tables: usize,
    /// Number of files with rows.
    pub runs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were copied; the others are in files that both directories share.
    pub bytes_copied: u64,
}

impl Db {
    /// Copies the database, as it is after one commit, to the directory `to`, which must be empty or not exist. Reads
    /// and writes go on meanwhile. On return the copy is durable, and opens as a database of its own. Both directories
    /// share the files with rows where the file system supports it; neither changes them.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there are files in `to`, [`ErrorKind::Invalid`] if it is in the database's own
    /// directory, [`ErrorKind::ReadOnly`], and errors of the disk. Then there is no copy; what was made of it is
    /// removed where the disk allows it, and any rest has no manifest.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// use quipu::{Db, Options, ReadableTable, WritableTable};
    /// # let options = Options::without_files();
    /// let db = Db::open("/data/shop", options.clone())?;
    /// let orders = db.ensure_table("orders")?;
    /// orders.put("1", "open")?;
    /// let copied = db.backup("/backup/shop")?;
    /// orders.put("2", "open")?;
    ///
    /// let copy = Db::open("/backup/shop", options)?;
    /// assert_eq!(copy.ensure_table("orders")?.len()?, 1);
    /// assert_eq!(copied.sequence, copy.stats().sequence);
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupInfo> {
        self.backup_with(to, &BackupOptions::default(), &mut |_| ())
    }

    /// Like [`Db::backup`], with these options, reporting to `progress`.
    ///
    /// # Errors
    /// Those of [`Db::backup`].
    pub fn backup_with(
        &self,
        to: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupInfo> {
        let (shared, to) = (&self.shared, to.as_ref());
        refuse_inside(shared.files.dir(), to)?;
        let disk = &shared.options.disk;
        refuse_used(&**disk, to)?;
        let kept = Flusher::of(shared).checkpoint_to_keep(progress)?;
        let copy = Copy {
            disk,
            from: shared.files.dir(),
            to,
            manifest: copied_manifest(&kept.manifest),
            links: !options.copy,
            log_segment_bytes: shared.options.log_segment_bytes,
        };
        copy.make(progress)
    }
}

/// Checks every page of the backup in `from`, like [`check`](crate::files::check()), and copies it to the directory
/// `to`, which must be empty or not exist. On return that is a durable database, which shares no file with the backup.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if anything is wrong with the backup: then nothing was copied. [`ErrorKind::Missing`] if
/// there is no complete one, [`ErrorKind::Invalid`] if it was written to since it was made, [`ErrorKind::Exists`] if
/// there are files in `to`, [`ErrorKind::Busy`] if the backup is open, and errors of the disk.
pub fn restore(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupInfo> {
    let (from, to) = (from.as_ref(), to.as_ref());
    options.check()?;
    let disk = &options.disk;
    let incomplete = || {
        let from = from.display();
        let text = format!("there is no backup in {from}: it has no MANIFEST, as one that was cut short; take another");
        Error::new(ErrorKind::Missing, text)
    };
    let names = disk.list(from).map_err(|error| Error::io("cannot read the backup in", from, error))?;
    if !names.iter().any(|name| name == manifest::FILE_NAME) {
        return Err(incomplete());
    }
    refuse_inside(from, to)?;
    refuse_used(&**disk, to)?;
    let _lock = lock_to_check(&**disk, from)?;
    let report = check_files(from, options, progress)?;
    if let [first, others @ ..] = &report.faults[..] {
        let others = if others.is_empty() { String::new() } else { format!(" (and {} faults more)", others.len()) };
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("the backup in {} is damaged, and nothing was restored: {first}{others}", from.display()),
        ));
    }
    if report.commits > 0 {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{} is a database that was written to: its log has {} commits after its last checkpoint; copy it with `quipu backup` instead",
                from.display(),
                report.commits
            ),
        ));
    }
    let manifest = Manifest::read(&**disk, from)?.ok_or_else(incomplete)?;
    let copy = Copy {
        disk,
        from,
        to,
        manifest: copied_manifest(&manifest),
        links: false,
        log_segment_bytes: options.log_segment_bytes,
    };
    copy.make(progress)
}

/// The manifest of a copy: another database, whose log begins at its first position.
fn copied_manifest(manifest: &Manifest) -> Manifest {
    Manifest { database_id: random_id(), log_position: 0, ..manifest.clone() }
}

/// Fails if `to` is the directory `dir` or inside it: whatever happens to one would happen to the other.
fn refuse_inside(dir: &Path, to: &Path) -> Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if !absolute(to).starts_with(absolute(dir)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!("{} is in {} itself; choose a directory elsewhere", to.display(), dir.display()),
    ))
}

/// Fails if there are files in `to`. Directories are allowed, since a new file system may have some. Changes nothing.
fn refuse_used(disk: &dyn Disk, to: &Path) -> Result<()> {
    let names = match disk.list(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(|error| Error::io("cannot use the directory", to, error))?,
    };
    match names.iter().find(|name| *name != LOCK_NAME) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Exists,
            format!("{} is not empty: it has {name}; choose a directory that is empty or does not exist", to.display()),
        )),
    }
}

/// A copy to make.
struct Copy<'c> {
    disk: &'c Arc<dyn Disk>,
    from: &'c Path,
    to: &'c Path,
    manifest: Manifest,
    /// Whether files may be shared.
    links: bool,
    log_segment_bytes: usize,
}

impl Copy<'_> {
    /// Makes it, or removes what was made of it.
    fn make(&self, progress: &mut dyn FnMut(Progress)) -> Result<BackupInfo> {
        let (disk, to) = (&**self.disk, self.to);
        disk.create_dir_all(to).map_err(|error| Error::io("cannot create directory", to, error))?;
        let _lock = self.lock()?;
        // Another process may have been faster.
        refuse_used(disk, to)?;
        let made = self.fill(progress);
        if made.is_err() {
            self.clear();
        }
        made
    }

    /// Locks it, so that no process takes it for an empty directory meanwhile.
    fn lock(&self) -> Result<Box<dyn Lock>> {
        let path = self.to.join(LOCK_NAME);
        self.disk.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::new(
                ErrorKind::Busy,
                format!("{} is in use by another process; choose another directory", self.to.display()),
            ),
            _ => Error::io("cannot lock", &path, error),
        })
    }

    fn fill(&self, progress: &mut dyn FnMut(Progress)) -> Result<BackupInfo> {
        let (disk, manifest) = (&**self.disk, &self.manifest);
        let names: Vec<&String> = manifest.files().collect();
        let mut info = BackupInfo {
            sequence: manifest.sequence,
            tables: manifest.tables.len(),
            runs: names.len(),
            ..BackupInfo::default()
        };
        for name in &names {
            let path = self.from.join(name);
            let file = disk.open(&path, OpenMode::Read).map_err(|error| Error::io("cannot open", &path, error))?;
            info.bytes += file.len().map_err(|error| Error::io("cannot measure", &path, error))?;
        }
        // Runs come first: opening creates a new database in a directory without a manifest only if it has no other
        // files.
        let mut done = 0;
        for name in &names {
            let (from, to) = (self.from.join(name), self.to.join(name));
            let file = File { disk, from: &from, to: &to };
            let mut report = |bytes| progress(Progress { stage: "copying", done: done + bytes, total: info.bytes });
            let (len, is_linked) = file.copy(self.links, &mut report)?;
            info.bytes_copied += if is_linked { 0 } else { len };
            done += len;
        }
        let log_options = LogOptions::of(self.log_segment_bytes, manifest.database_id);
        drop(Log::create(self.disk.clone(), self.to, log_options, manifest.sequence + 1)?);
        disk.sync_dir(self.to).map_err(|error| Error::io("cannot sync", self.to, error))?;
        manifest.write(disk, self.to)?;
        Ok(info)
    }

    /// Removes what was made of a failed copy, the manifest first and durably: without it there is no copy. What the
    /// disk refuses to remove stays; the earlier error is the one that counts.
    fn clear(&self) {
        let (disk, to) = (&**self.disk, self.to);
        let manifest = to.join(manifest::FILE_NAME);
        let is_gone = match disk.remove(&manifest) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => disk.sync_dir(to).is_ok(),
        };
        if !is_gone {
            return;
        }
        for name in disk.list(to).unwrap_or_default().iter().filter(|name| is_database_file(name)) {
            let _ = disk.remove(&to.join(name));
        }
    }
}

/// A file to copy.
pub(crate) struct File<'f> {
    pub(crate) disk: &'f dyn Disk,
    pub(crate) from: &'f Path,
    pub(crate) to: &'f Path,
}

impl File<'_> {
    /// Links the file if `links` is set and the disk can, else copies its bytes, durably. The caller syncs the
    /// directory. Returns its length, and whether it was linked.
    pub(crate) fn copy(&self, links: bool, progress: &mut dyn FnMut(u64)) -> Result<(u64, bool)> {
        use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
        let File { disk, from, to } = *self;
        let is_linked = links
            && match disk.link(from, to) {
                Ok(()) => true,
                Err(error) => match error.kind() {
                    CrossesDevices | PermissionDenied | TooManyLinks | Unsupported => false,
                    _ => return Err(Error::io("cannot link to", to, error)),
                },
            };
        let unread = |error| Error::io("cannot read", from, error);
        let source = disk.open(from, OpenMode::Read).map_err(unread)?;
        let len = source.len().map_err(unread)?;
        if is_linked {
            progress(len);
            return Ok((len, true));
        }
        let unwritten = |error| Error::io("cannot write", to, error);
        let file = disk.open(to, OpenMode::CreateNew).map_err(unwritten)?;
        let mut buffer = vec![0; COPY_BYTES.min(len) as usize];
        let mut at = 0;
        while at < len {
            let part = &mut buffer[..COPY_BYTES.min(len - at) as usize];
            source.read_exact_at(part, at).map_err(unread)?;
            file.write_all_at(part, at).map_err(unwritten)?;
            at += part.len() as u64;
            progress(at);
        }
        file.sync().map_err(|error| Error::io("cannot sync", to, error))?;
        Ok((len, false))
    }
}
