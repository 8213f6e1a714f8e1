//! The writing side of the log: appends, shared syncs, and changes of segment.
//!
//! Invariants:
//! 1. `durable_lsn <= end_lsn`, both at the end of a record, and both only grow.
//! 2. A segment is in `live` before `end_lsn` enters it, so a thread that reads `end_lsn` first and `live` second sees
//!    every segment that holds a byte below.
//! 3. Segments are synced oldest first, and `durable_lsn` moves only after all of them: what a frame claims to be
//!    durable is durable.
//! 4. Everything a record needs is reserved before its first byte is stored: lack of space loses nothing and poisons
//!    nothing.
//! 5. No lock that an append needs is held during a sync of records. Locks are taken in the order `appender`,
//!    `reserve`, `live`.
//!
//! Not here: storing a frame (`appender.rs`), reading back (`recovery.rs`), making files (`segment.rs`), when to sync
//! or to release.

use super::appender::{Appender, Parts};
use super::format::{
    FRAME_HEADER_BYTES, Frame, HEADER_BYTES, Header, Kind, Lsn, MAX_SEGMENT_BYTES, MIN_REST_BYTES, SEGMENT_UNIT_BYTES,
    is_segment_size,
};
use super::recovery::{LogFile, Recovered, survey_unused};
use super::segment::{Blank, KEPT_BLANKS, Reserve, Segment, Unprepared};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, Mapping};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Length of a segment file: a multiple of 4096, at most 1 GiB. May differ from one opening to the next.
    pub segment_bytes: usize,
    /// The database that owns the log: files with another number are refused.
    pub database_id: u64,
}

impl LogOptions {
    /// The best segment length without a reason for another: 16 MiB.
    pub const DEFAULT_SEGMENT_BYTES: usize = 16 << 20;

    fn check(&self) -> Result<()> {
        if is_segment_size(self.segment_bytes) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "log segments of {} bytes are not possible: use a multiple of {SEGMENT_UNIT_BYTES}, at most {MAX_SEGMENT_BYTES}",
                self.segment_bytes
            ),
        ))
    }
}

/// How much space the log takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStats {
    /// Number of segments that hold unreleased records.
    pub segment_count: usize,
    /// Their length.
    pub segment_bytes: u64,
    /// Number of files ready for use.
    pub spare_count: usize,
    /// Their length.
    pub spare_bytes: u64,
}

/// A log open for writing. One thread at a time appends (the caller orders sequence numbers); any number may wait in
/// [`sync`](Log::sync). A panic elsewhere leaves what the locks guard whole: each value is changed only after what it
/// describes was done.
#[derive(Debug)]
pub struct Log {
    options: LogOptions,
    appender: Mutex<Appender>,
    reserve: Mutex<Reserve>,
    pub(super) live: Mutex<Live>,
    /// Whether a thread is syncing for all.
    pub(super) leader: Mutex<bool>,
    pub(super) leader_done: Condvar,
    pub(super) durable: AtomicU64,
    end: AtomicU64,
    failure: OnceLock<String>,
}

#[derive(Debug, Default)]
pub(super) struct Live {
    /// Ascending; the last one is being written.
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// Mappings of full segments. Unmapping takes long, so the thread that prepares the next segment does it.
    retired: Vec<Box<dyn Mapping>>,
}

/// A record that is assembled and not appended: see [`Log::stage`]. No other append can happen while it exists.
#[derive(Debug)]
pub struct Staged<'l> {
    log: &'l Log,
    appender: MutexGuard<'l, Appender>,
    bytes: usize,
}

impl Staged<'_> {
    /// See [`Log::append`].
    ///
    /// # Errors
    ///
    /// `Poisoned`: an earlier failure stopped the log.
    #[inline]
    pub fn append(mut self) -> Result<Lsn> {
        self.log.check_poison()?;
        self.appender.store_assembled(self.bytes);
        Ok(self.log.appended(&mut self.appender))
    }
}

impl Log {
    /// Begins a log in `dir`, which must exist, at position 0, with `first_sequence` as the number of the first record.
    /// Durable on return. Removes the files of an earlier creation that never got to its first record.
    ///
    /// # Errors
    ///
    /// `Exists` if the directory has a log with records.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions, first_sequence: u64) -> Result<Log> {
        options.check()?;
        let leftovers = survey_unused(&*disk, dir)?;
        let highest_id = leftovers.iter().map(|file| file.id).max().unwrap_or(0);
        let start = Start { previous_id: 0, previous_end: 0, lsn: Lsn(0), sequence: first_sequence };
        let reserve = Reserve::new(disk, dir, options.segment_bytes, highest_id + 1);
        Log::begin(reserve, options, start, VecDeque::new(), &leftovers)
    }

    /// Goes on where [`recover`](super::recover) found the end, in a fresh segment. All that was recovered is durable
    /// on return; files that are no part of the log are recycled or removed. After an error, recover again before the
    /// next attempt.
    ///
    /// # Errors
    ///
    /// `Corrupt` if recovery met damage; `Full` if there is no space for a segment and no spare file.
    pub fn resume(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions, recovered: &Recovered) -> Result<Log> {
        options.check()?;
        if let Some(damage) = &recovered.damage {
            return Err(Error::new(damage.kind(), damage.to_string()).context("the log cannot go on behind damage"));
        }
        let segments = recovered.secure(&*disk)?;
        let start = Start {
            previous_id: recovered.end_segment_id,
            previous_end: recovered.end_offset,
            lsn: recovered.end_lsn,
            sequence: recovered.next_sequence,
        };
        let next_id = recovered.highest_id + 1;
        let reserve = Reserve::new(disk, dir, options.segment_bytes, next_id);
        Log::begin(reserve, options, start, segments, &recovered.leftovers)
    }

    fn begin(
        mut reserve: Reserve,
        options: LogOptions,
        start: Start,
        segments: VecDeque<Arc<Segment>>,
        leftovers: &[LogFile],
    ) -> Result<Log> {
        for file in leftovers {
            if !file.is_allocated {
                reserve.discard(&file.path)?;
            } else if file.header.is_none() {
                reserve.recycle(file.id, &file.path, file.bytes)?;
            }
        }
        reserve.prepare().map_err(Unprepared::into_error)?;
        let blank = reserve.take().ok_or_else(no_blank)?;
        let header = Header {
            segment_bytes: options.segment_bytes,
            segment_id: blank.id,
            database_id: options.database_id,
            base_lsn: start.lsn,
            first_sequence: start.sequence,
            previous_id: start.previous_id,
            previous_end: start.previous_end,
            durable_lsn: start.lsn,
        };
        let mut live = Live { segments, retired: Vec::new() };
        let mapping = live.enter(blank, &header);
        let appender = Appender::new(header, mapping, start.sequence);
        // It is durable before what it replaces goes: else a crash could leave a part of what recovery has discarded.
        if let Some(segment) = live.segments.back() {
            segment.sync()?;
        }
        for file in leftovers.iter().filter(|file| file.header.is_some()) {
            reserve.recycle(file.id, &file.path, file.bytes)?;
        }
        Ok(Log {
            options,
            appender: Mutex::new(appender),
            reserve: Mutex::new(reserve),
            live: Mutex::new(live),
            leader: Mutex::new(false),
            leader_done: Condvar::default(),
            durable: AtomicU64::new(start.lsn.0),
            end: AtomicU64::new(start.lsn.0),
            failure: OnceLock::new(),
        })
    }

    /// Appends one record, the concatenation of `payload`, and returns the position after it. On return the operating
    /// system has the record.
    ///
    /// `sequence` is one more than that of the record before.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space for the segments the record needs; nothing was appended, and the same record may be
    /// appended again later. After any other error the log is poisoned.
    pub fn append(&self, sequence: u64, payload: &[&[u8]]) -> Result<Lsn> {
        self.append_from(Stock::BesideKept, sequence, payload)
    }

    /// The same with the blanks of `stock`.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Log::append).
    pub fn append_from(&self, stock: Stock, sequence: u64, payload: &[&[u8]]) -> Result<Lsn> {
        let mut appender = self.appender.lock();
        self.check_poison()?;
        debug_assert_eq!(sequence, appender.next_sequence, "sequence numbers ascend by one");
        let length = payload.iter().map(|part| part.len()).sum();
        let mut frame = Frame { kind: Kind::Full, length, sequence, durable_lsn: self.durable_lsn() };
        let mut parts = Parts::new(payload);
        if frame.bytes() <= appender.rest() {
            appender.store(&frame, &mut parts);
        } else {
            self.append_across(stock, &mut appender, &mut frame, &mut parts)?;
        }
        Ok(self.appended(&mut appender))
    }

    /// Counts a stored record, and returns the position after it.
    #[inline]
    fn appended(&self, appender: &mut Appender) -> Lsn {
        appender.next_sequence += 1;
        let end = appender.lsn();
        self.end.store(end.0, Ordering::Release);
        end
    }

    /// Assembles the next record, for a caller that waits for memory before it decides whether to append it. `None` if
    /// it does not fit the buffer; then call [`append`](Log::append). If the record is dropped, `append` works as
    /// before.
    pub fn stage(&self, sequence: u64, payload: &[u8]) -> Option<Staged<'_>> {
        let mut appender = self.appender.lock();
        debug_assert_eq!(sequence, appender.next_sequence, "sequence numbers ascend by one");
        let frame = Frame { kind: Kind::Full, length: payload.len(), sequence, durable_lsn: self.durable_lsn() };
        let fits = frame.bytes() <= appender.rest() && appender.assemble(&frame, &mut Parts::new(&[payload]));
        fits.then_some(Staged { log: self, appender, bytes: frame.bytes() })
    }

    /// Ensures that a next record of up to `bytes` can be appended without more space, so that its changes may be made
    /// before it is appended. Returns for how many bytes that holds: at least as many.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space for the segments it would need, with no harm done; after any other error the log is
    /// poisoned.
    pub fn reserve(&self, stock: Stock, bytes: usize) -> Result<usize> {
        let appender = self.appender.lock();
        self.check_poison()?;
        let here = appender.rest().saturating_sub(FRAME_HEADER_BYTES + 8);
        if bytes <= here {
            return Ok(here);
        }
        let room = self.options.segment_bytes - HEADER_BYTES - FRAME_HEADER_BYTES;
        // What is left here may be too little for a part of the record.
        let needed = bytes.div_ceil(room);
        self.prepare_blanks(&mut self.reserve.lock(), stock, needed)?;
        Ok(bytes)
    }

    /// Appends a record that needs more than the rest of the segment.
    #[cold]
    fn append_across(
        &self,
        stock: Stock,
        appender: &mut Appender,
        frame: &mut Frame,
        parts: &mut Parts<'_>,
    ) -> Result<()> {
        let mut left = frame.length;
        let rest = appender.rest();
        let here = if rest >= MIN_REST_BYTES { rest - FRAME_HEADER_BYTES } else { 0 };
        let room = self.options.segment_bytes - HEADER_BYTES - FRAME_HEADER_BYTES;
        let needed = (left - here.min(left)).div_ceil(room).max(1);
        let blanks = self.take_blanks(stock, needed)?;
        if here > 0 {
            frame.kind = Kind::First;
            frame.length = here;
            appender.store(frame, parts);
            left -= here;
        }
        let begun = here > 0;
        for (index, blank) in blanks.into_iter().enumerate() {
            let header = Header {
                segment_bytes: self.options.segment_bytes,
                segment_id: blank.id,
                base_lsn: appender.lsn(),
                first_sequence: frame.sequence,
                previous_id: appender.header.segment_id,
                previous_end: appender.offset as u64,
                durable_lsn: frame.durable_lsn,
                ..appender.header
            };
            let mut live = self.live.lock();
            let mapping = live.enter(blank, &header);
            live.retired.push(appender.enter(header, mapping));
            drop(live);
            frame.length = left.min(room);
            left -= frame.length;
            frame.kind = match (begun || index > 0, left > 0) {
                (false, false) => Kind::Full,
                (false, true) => Kind::First,
                (true, true) => Kind::Middle,
                (true, false) => Kind::Last,
            };
            appender.store(frame, parts);
        }
        Ok(())
    }

    fn take_blanks(&self, stock: Stock, count: usize) -> Result<Vec<Blank>> {
        let mut reserve = self.reserve.lock();
        self.prepare_blanks(&mut reserve, stock, count)?;
        Ok(std::iter::from_fn(|| reserve.take()).take(count).collect())
    }

    /// Makes blanks until the stock has `count`.
    fn prepare_blanks(&self, reserve: &mut Reserve, stock: Stock, count: usize) -> Result<()> {
        while reserve.ready_count() < count + stock.kept_blanks() {
            self.prepare(reserve)?;
        }
        Ok(())
    }

    fn prepare(&self, reserve: &mut Reserve) -> Result<()> {
        self.check_poison()?;
        let retired = std::mem::take(&mut self.live.lock().retired);
        drop(retired);
        reserve.prepare().map_err(|unprepared| match unprepared {
            Unprepared::Full(error) => error.context("the log needs another segment"),
            Unprepared::Failed(error) => self.poison(error),
        })
    }

    /// Everything below is on stable storage.
    #[inline]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The position after the last record.
    #[inline]
    pub fn end_lsn(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Makes the file of the next segment ahead of need, and the one kept for opening on a full disk, if they are
    /// missing. Returns whether it did. For a background thread: an append that finds none makes it itself and takes
    /// that much longer.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space, with no harm done; after any other error the log is poisoned.
    pub fn prepare_spare(&self) -> Result<bool> {
        let mut reserve = self.reserve.lock();
        if reserve.ready_count() > KEPT_BLANKS {
            self.check_poison()?;
            return Ok(false);
        }
        self.prepare_blanks(&mut reserve, Stock::BesideKept, 1)?;
        Ok(true)
    }

    /// Releases everything below `lsn`, a position that a durable checkpoint makes unnecessary. Recycles or removes the
    /// segments wholly below. Syncs the log first if `lsn` is not durable yet.
    ///
    /// # Errors
    ///
    /// Those of [`sync`](Log::sync); and the disk's if a file cannot be renamed or removed, which does the log no harm.
    pub fn release_before(&self, lsn: Lsn) -> Result<()> {
        self.sync(lsn)?;
        let holder = self.live.lock().segments.iter().rev().find(|segment| segment.base_lsn <= lsn).cloned();
        // Recovery from `lsn` will need this segment's header; `sync` did not sync it if no byte of the segment is
        // below `lsn`.
        if let Some(holder) = holder.filter(|segment| segment.base_lsn == lsn) {
            holder.sync().map_err(|error| self.poison(error))?;
        }
        let mut reserve = self.reserve.lock();
        loop {
            let live = self.live.lock();
            let unneeded = match (live.segments.front(), live.segments.get(1)) {
                (Some(first), Some(second)) if second.base_lsn <= lsn => first.clone(),
                _ => return Ok(()),
            };
            drop(live);
            reserve.recycle(unneeded.id, &unneeded.path, unneeded.segment_bytes)?;
            self.live.lock().segments.pop_front();
        }
    }

    /// The space taken now.
    pub fn segments(&self) -> SegmentStats {
        let spare_count = self.reserve.lock().spare_count();
        let live = self.live.lock();
        SegmentStats {
            segment_count: live.segments.len(),
            segment_bytes: live.segments.iter().map(|segment| segment.segment_bytes).sum(),
            spare_count,
            spare_bytes: (spare_count * self.options.segment_bytes) as u64,
        }
    }

    /// Whether an earlier failure stopped the log.
    pub fn is_poisoned(&self) -> bool {
        self.failure.get().is_some()
    }

    /// The error that every append and sync returns now, if an earlier failure stopped the log.
    pub fn poison_error(&self) -> Option<Error> {
        let failure = self.failure.get()?;
        Some(Error::new(
            ErrorKind::Poisoned,
            format!("the log stopped after a failure; reopen the database ({failure})"),
        ))
    }

    #[inline]
    pub(super) fn check_poison(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(_) => self.poison_error().map_or(Ok(()), Err),
        }
    }

    #[cold]
    pub(super) fn poison(&self, error: Error) -> Error {
        // The first failure is the one to report.
        let _ = self.failure.set(error.to_string());
        error
    }
}

/// The blanks that a record may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    /// All but those that are kept for removals on a full disk.
    BesideKept,
    /// All: for a record that frees space.
    All,
}

impl Stock {
    fn kept_blanks(self) -> usize {
        match self {
            Stock::BesideKept => KEPT_BLANKS,
            Stock::All => 0,
        }
    }
}

/// Where a fresh segment continues from.
struct Start {
    previous_id: u64,
    previous_end: u64,
    lsn: Lsn,
    sequence: u64,
}

fn no_blank() -> Error {
    Error::new(ErrorKind::Io, "no log segment was prepared")
}

impl Live {
    /// Makes the blank the segment being written, with its header stored but not durable.
    fn enter(&mut self, mut blank: Blank, header: &Header) -> Box<dyn Mapping> {
        blank.mapping.write(0, &header.encode());
        self.segments.push_back(Arc::new(Segment {
            id: blank.id,
            base_lsn: header.base_lsn,
            segment_bytes: header.segment_bytes as u64,
            path: blank.path,
            file: blank.file,
        }));
        blank.mapping
    }
}
