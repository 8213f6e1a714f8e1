//! Ingests: rows that come in the order of their keys become a run, as one commit.
//!
//! The rows go to files at once, not through the log and not through memory. Each row's weight is relative to a
//! snapshot from the beginning, so others write meanwhile. The end is short, in the turn to write runs and the writer's
//! turn:
//!
//! 1. The rows between the first key and the last are still those of the snapshot, and none of them is in memory, where
//!    it would lie above the new run; else the table is flushed before.
//! 2. All earlier commits are synced: the ingest must not survive without them.
//! 3. The manifest names the files, and the number of the commit. From here on the ingest has happened.
//! 4. The log gets a record of that number. A crash may come before it, or take it away: then the log ends one commit
//!    before the one in the manifest, and opening appends the record.
//!
//! RocksDB (`IngestExternalFile`) has the idea, for files that were written elsewhere, and without counts.
//!
//! Not here: writing the files (`parts_writer`), replay (`open`).

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::catalog::declaration::Declaration;
use crate::catalog::manifest::LastIngest;
use crate::catalog::record;
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Lsn, Room};
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::maintenance::many_runs::note_runs;
use crate::maintenance::memory::make_room;
use crate::maintenance::parts_writer::PartsWriter;
use crate::maintenance::preload_tables::preload_runs;
use crate::options::Options;
use crate::page::KeyBuffer;
use crate::read::observation::{ASKED_TOGETHER, same_rows_apart};
use crate::run::{Part, Run};
use crate::stack::Cut;
use crate::state::publish::{dropped, table_of};
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::table_handle::Table;
use crate::state::versions::{Runs, TableVersion};
use crate::state::writer::{Turn, Writer};
use crate::tally::Tally;
use crate::tree::{Side, View, Walk};

/// Bytes of rows that are looked up together.
const ASKED_BYTES: usize = 1 << 20;
/// How often the end of an ingest is tried while others write between its first key and its last.
const TRIES: usize = 100;
/// Bytes that a commit's record takes at most, without the two keys.
const RECORD_BYTES: usize = 32;

/// What an ingest does with keys that are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// It fails with [`ErrorKind::Exists`] at the first of them.
    #[default]
    Refuse,
    /// It replaces their rows.
    Replace,
}

/// What an ingest did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Its rows.
    pub rows: u64,
    /// Rows that were there and were replaced.
    pub replaced: u64,
}

/// Rows on their way into a table, in the order of their keys: see [`Table::begin_ingest`].
///
/// Dropped before [`Ingest::commit`], it leaves nothing. Others may write to the table meanwhile, also between
/// the keys of the ingest; it fails if they have changed such a row when it commits. While it lives it is a
/// [snapshot](crate::Snapshot) to the rest of the database.
pub struct Ingest {
    shared: Arc<Shared>,
    declaration: Arc<Declaration>,
    overlap: Overlap,
    /// What the weights are relative to.
    base: Snapshot,
    /// Whether the base may have rows from the last key on.
    has_rows_below: bool,
    parts: PartsWriter,
    weight: Tally,
    rows: u64,
    bytes: u64,
    /// The first key and the last one, once there is a row.
    first: KeyBuffer,
    last: KeyBuffer,
    waiting: Waiting,
    /// Whether a row was refused or could not be written. Then it can only be dropped.
    is_broken: bool,
}

/// Rows whose keys have not been looked up yet.
#[derive(Default)]
struct Waiting {
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    /// Where each key ends, and its value.
    ends: Vec<(usize, usize)>,
}

impl Waiting {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= ASKED_TOGETHER || self.bytes.len() >= ASKED_BYTES
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        starts.zip(&self.ends).map(|(start, &(middle, end))| (&self.bytes[start..middle], &self.bytes[middle..end]))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Table {
    /// Takes rows in ascending order of their keys and writes them straight to a run on disk, as one commit: all of
    /// them or none. For loading much data: two to four times as fast as transactions, and the log gets none of it.
    /// Returns the number of rows.
    ///
    /// # Errors
    /// Those of [`Ingest::push`] and [`Ingest::commit`], and of [`Table::begin_ingest`]. After any of them, but for
    /// what [`Ingest::commit`] says, the table is as it was.
    ///
    /// # Examples
    /// ```
    /// # use quipu::{Db, Options, ReadableTable};
    /// # let db = Db::open("/db", Options::without_files())?;
    /// let table = db.ensure_table("squares")?;
    /// table.ingest((0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes())))?;
    /// assert_eq!(table.len()?, 1000);
    /// # Ok::<(), quipu::Error>(())
    /// ```
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let mut ingest = self.begin_ingest(Overlap::Refuse)?;
        for (key, value) in rows {
            ingest.push(key.as_ref(), value.as_ref())?;
        }
        ingest.commit().map(|ingested| ingested.rows)
    }

    /// Starts an ingest, whose rows are pushed one by one: for rows that can fail on their way, for progress, or to
    /// replace rows.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table is declared to stay in memory, [`ErrorKind::ReadOnly`], and
    /// [`ErrorKind::Missing`] if it was dropped.
    pub fn begin_ingest(&self, overlap: Overlap) -> Result<Ingest> {
        let shared = &self.shared;
        if self.options().in_memory {
            let what = format!("table {:?} is declared to stay in memory, and an ingest writes to disk", self.name());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        shared.log()?;
        shared.health.check()?;
        make_room(shared)?;
        let base = Snapshot::take(shared);
        let version = base.versions.table(self.id())?;
        let has_rows_below = version.views_to_read(&shared.arena).any(|view| view.entries() > 0)
            || version.runs.iter().any(|run| run.info().total.entries > 0);
        let declaration = version.declaration.clone();
        let Options { run_page_bytes, run_file_bytes, .. } = shared.options;
        let parts = PartsWriter::new(&shared.files, run_page_bytes, &declaration, false, run_file_bytes);
        Ok(Ingest {
            shared: shared.clone(),
            declaration,
            overlap,
            base,
            has_rows_below,
            parts,
            weight: Tally::ZERO,
            rows: 0,
            bytes: 0,
            first: KeyBuffer::new(),
            last: KeyBuffer::new(),
            waiting: Waiting::default(),
            is_broken: false,
        })
    }
}

impl Ingest {
    /// Adds a row. Rows that are replaced cost a lookup each, a thousand keys together; others a few tens of
    /// nanoseconds a row.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the key is not above that of the row before, or the row is over a limit;
    /// [`ErrorKind::Exists`] if a live key must not be replaced, also for a row that was pushed before; those of the
    /// disk. After an error the ingest can only be dropped.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.refuse_broken()?;
        self.shared.process.check()?;
        // It is broken unless this returns.
        self.is_broken = true;
        self.take(key, value)?;
        self.is_broken = false;
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of their keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn refuse_broken(&self) -> Result<()> {
        if self.is_broken {
            let what = "an earlier row of the ingest was refused; drop it, and begin another";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shared.check_row(key, Some(value))?;
        if self.rows == 0 {
            self.first.extend_from_slice(key);
        } else if key <= &*self.last {
            return Err(self.unsorted(key));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if !self.has_rows_below {
            let weight = self.declaration.options.measures.of_row(key, value);
            self.weight += weight;
            return self.parts.push(key, Some(value), weight);
        }
        self.waiting.push(key, value);
        if self.waiting.is_full() { self.write_waiting() } else { Ok(()) }
    }

    #[cold]
    fn unsorted(&self, key: &[u8]) -> Error {
        let (key, last) = (key.escape_ascii(), self.last.escape_ascii());
        let what = format!("row {} of the ingest has the key \"{key}\", after \"{last}\"", self.rows + 1);
        Error::new(ErrorKind::Invalid, format!("{what}: keys must ascend, and none may come twice"))
    }

    /// Looks up the keys of the rows that wait, and writes the rows.
    fn write_waiting(&mut self) -> Result<()> {
        let Some((first, _)) = self.waiting.rows().next() else { return Ok(()) };
        let measures = self.declaration.options.measures;
        let source = self.shared.source(self.base.versions.table(self.declaration.id)?);
        let mut is_last = true;
        source.scan(Cut::Before(first), Cut::End, false, |_, _| {
            is_last = false;
            false
        })?;
        let keys: Vec<&[u8]> = self.waiting.rows().map(|(key, _)| key).collect();
        let below = if is_last { Vec::new() } else { source.contributions(&keys)? };
        let mut below = below.into_iter();
        for (key, value) in self.waiting.rows() {
            let below = below.next().unwrap_or_default();
            if below.rows > 0 && self.overlap == Overlap::Refuse {
                let key = key.escape_ascii();
                let what = format!("the key \"{key}\" exists: the ingest may replace rows only if it is told to");
                return Err(Error::new(ErrorKind::Exists, what));
            }
            let weight = measures.of_row(key, value) - below;
            self.weight += weight;
            self.parts.push(key, Some(value), weight)?;
        }
        self.has_rows_below = !is_last;
        self.waiting.clear();
        Ok(())
    }

    /// Commits the rows. The commit is durable, whatever the database's durability is, and so are all before it.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] as [`Ingest::push`] says; [`ErrorKind::Conflict`] if another commit has changed a row
    /// between the first key and the last since the ingest began; [`ErrorKind::Missing`] if the table was dropped;
    /// [`ErrorKind::Invalid`] inside the closure of [`Db::write`](crate::Db::write), and after a failed push; those of
    /// the disk. The rows are in the table only if the error says that they are, or if the database then refuses all
    /// writes.
    pub fn commit(mut self) -> Result<Ingested> {
        self.refuse_broken()?;
        if self.rows == 0 {
            return Ok(Ingested::default());
        }
        self.shared.writer.refuse_in_own_turn()?;
        self.write_waiting()?;
        let run = self.parts.finish(self.weight)?;
        // Before the turn, so that little is left to compare in it.
        self.rebase()?;
        let shared = self.shared.clone();
        let (lsn, removed) = {
            let _turn = shared.files.turn();
            let turn = self.ready_to_end(&shared)?;
            let keys = (&*self.first, &*self.last);
            let installed = shared.install_ingested(turn, &self.declaration, keys, run.clone(), self.parts.written());
            if installed.is_err() && !shared.health.has_failed() {
                // No manifest names them, now or at the next opening.
                self.parts.remove_files();
            }
            self.parts.end();
            let lsn = installed?;
            let manifest = shared.files.last().manifest.clone();
            (lsn, shared.files.remove_replaced(&manifest, &shared.versions))
        };
        note_runs(&shared.versions, &shared.memory, shared.options.background);
        preload_runs(&shared.cache, &self.declaration, &[run], &[]);
        shared.background.wake_compactor();
        shared.wait(lsn, shared.durability.get())?;
        removed.map_err(|error| error.context("the rows are ingested, but what they replace is still there"))?;
        Ok(Ingested { rows: self.rows, replaced: self.rows - self.weight.rows as u64 })
    }

    /// Waits until memory has no entry between the first key and the last. Returns the writer's turn, in which that is
    /// so, and in which the rows between the two are those of the base. Called in the turn to write runs, in which no
    /// runs are added.
    fn ready_to_end<'s>(&mut self, shared: &'s Arc<Shared>) -> Result<Turn<'s>> {
        let id = self.declaration.id;
        for _ in 0..TRIES {
            self.rebase()?;
            let version = self.base.versions.table(id)?;
            // The manifest names one ingest whose table has writes that only the log has; and those were not made to a
            // tree that had no run below it.
            let has_other = shared.files.last().manifest.has_ingest_above_flush(id);
            if version.runs.is_empty() || has_other || self.is_between(version.views_to_read(&shared.arena)) {
                Flusher::of(shared).flush_in_turn(id)?;
                continue;
            }
            let mut turn = shared.writer()?;
            let trees = table_of(&mut turn, id)?;
            // Nothing but the removal of a range changes runs meanwhile.
            if trees.runs.are(&version.runs) && !self.is_between(trees.views_to_read()) {
                return Ok(turn);
            }
        }
        Err(Error::new(ErrorKind::Conflict, "others keep writing between the keys of the ingest; run it again"))
    }

    /// Whether one of these trees has an entry between the first key and the last.
    fn is_between<'a>(&self, mut trees: impl Iterator<Item = View<'a>>) -> bool {
        trees.any(|view| {
            let walk = Walk::seek(view, &self.first, Side::Below);
            walk.valid() && *walk.key() <= *self.last
        })
    }

    /// Makes the last version the base, if it has the same rows between the first key and the last.
    fn rebase(&mut self) -> Result<()> {
        let newer = Snapshot::take(&self.shared);
        let id = self.declaration.id;
        let (then, now) = (self.base.versions.table(id)?, newer.versions.table(id)?);
        let arena = &self.shared.arena;
        let is_untouched = |version: &TableVersion| !self.is_between(version.views_to_read(arena));
        let are_alike = then.runs.are(&now.runs) && is_untouched(then) && is_untouched(now);
        if now.sequence != then.sequence && !are_alike {
            let bounds = Bounds::from(&*self.first..=&*self.last);
            let (then, now) = (self.shared.source(then), self.shared.source(now));
            if !same_rows_apart(&then, &now, &bounds)? {
                return Err(self.conflict());
            }
        }
        self.base = newer;
        Ok(())
    }

    #[cold]
    fn conflict(&self) -> Error {
        let (first, last) = (self.first.escape_ascii(), self.last.escape_ascii());
        let what = format!("another commit changed a row between \"{first}\" and \"{last}\" during the ingest");
        Error::new(ErrorKind::Conflict, format!("{what}; run it again"))
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        // Nothing is left of these after a commit.
        self.parts.remove_files();
        self.parts.end();
    }
}

impl Shared {
    /// Puts a run with rows between two keys above those of a table, in the manifest and then as the next commit.
    /// Removes the files `written` if the manifest cannot be replaced. Returns the end of the log. Called in the turn
    /// to write runs.
    fn install_ingested(
        &self,
        mut turn: Turn<'_>,
        declaration: &Declaration,
        (first, last_key): (&[u8], &[u8]),
        run: Arc<Run>,
        written: &[String],
    ) -> Result<Lsn> {
        let id = declaration.id;
        let writer = &mut *turn;
        let sequence = writer.sequence + 1;
        let old = table_of(writer, id)?.runs.clone();
        let has_entries = old.iter().any(|run| run.info().total.entries > 0);
        let runs = if has_entries {
            [&[run], &old[..]].concat()
        } else {
            // Over nothing it is the bottom run: all of its entries are live.
            let parts: Vec<Part> = run.parts().collect();
            vec![Arc::new(Run::of_parts(&parts, true))]
        };
        let log = self.log()?;
        // Once the manifest names the commit, its record must not fail for lack of space.
        log.check_kept()?;
        log.reserve(RECORD_BYTES + first.len() + last_key.len(), Room::Common)?;
        log.sync(log.end_lsn())?;
        let mut manifest = self.files.last().manifest.clone();
        let entry = manifest.tables.iter_mut().find(|entry| entry.id() == id).ok_or_else(dropped)?;
        let runs = Runs::new(runs);
        entry.set_runs(&runs, writer.sequence, 0);
        entry.ingested = LastIngest { sequence, keys: (first.to_vec(), last_key.to_vec()) };
        manifest.checkpoint = self.files.last_number();
        self.files.replace_manifest(manifest, written).map_err(|(error, is_last)| {
            // The next opening may find the ingest done: its number must not be that of another commit.
            if is_last { error } else { self.health.fail(error) }
        })?;
        let append = |writer: &mut Writer| {
            writer.record.clear();
            record::put_ingest(&mut writer.record, id, first, last_key);
            self.append_record(writer, Room::Kept)
        };
        self.commit_runs(turn, id, runs, append).map_err(|error| self.health.broken(error))
    }
}
