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
//! 5. Records that make the database grow leave two files alone, and are refused while one is missing; records that
//!    free space may take one, and a checkpoint the space of the other. So rows can be removed on a disk that is full.
//! 6. No lock that an append needs is held during a sync of records. Locks are taken in the order `appender`,
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
use super::segment::{Blank, CHECKPOINT_BLANKS, KEPT_BLANKS, Reserve, Segment, Unprepared};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Disk, Mapping};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, FairMutex, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The next segment is due once this part of one of the shortest is used.
const PREPARE_AFTER: u64 = 4;
/// The background thread looks for a segment that is due so many times a segment.
const PREPARE_STEPS: u64 = 16;
/// Files are made for so many bytes of a record that is expected, at most, and for so many of the longest segments: it
/// may not come.
const EXPECTED_BYTES_MAX: usize = 32 << 20;
const EXPECTED_SEGMENTS_MAX: usize = 2;

/// The options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Length of a segment file: a multiple of 4096, at most 1 GiB. May differ from one opening to the next.
    pub segment_bytes: usize,
    /// Length of the first segment file of a log: each is up to four times as long as the one before, until they have
    /// `segment_bytes`.
    pub first_segment_bytes: usize,
    /// The database that owns the log: files with another number are refused.
    pub database_id: u64,
}

impl LogOptions {
    /// The best segment length without a reason for another: 16 MiB.
    pub const DEFAULT_SEGMENT_BYTES: usize = 16 << 20;

    /// The best length of the first segment: 1 MiB.
    pub const DEFAULT_FIRST_SEGMENT_BYTES: usize = 1 << 20;

    /// The options of the log of a database, with segments of up to this length.
    pub fn of(segment_bytes: usize, database_id: u64) -> LogOptions {
        let first_segment_bytes = segment_bytes.min(LogOptions::DEFAULT_FIRST_SEGMENT_BYTES);
        LogOptions { segment_bytes, first_segment_bytes, database_id }
    }

    fn check(&self) -> Result<()> {
        if is_segment_size(self.segment_bytes) && is_segment_size(self.first_segment_bytes) {
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

/// Which files a record may be stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Those of any record.
    Common,
    /// Also one of those that are kept for a full disk: for records that free space.
    Kept,
    /// The same but for a last part: for records that remove rows one by one. What removes a whole range or a table,
    /// and frees more with less, is possible after them.
    Rows,
}

/// The most that is left of the files that are kept where rows are removed one by one, in bytes.
const LEFT_BYTES_MAX: usize = 16 << 10;

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
    appender: Mutex<Appender>,
    /// Fair, since the background thread may make several files one after the other.
    reserve: FairMutex<Reserve>,
    pub(super) live: Mutex<Live>,
    /// Whether a thread is syncing for all.
    pub(super) leader: Mutex<bool>,
    pub(super) leader_done: Condvar,
    pub(super) durable: AtomicU64,
    end: AtomicU64,
    /// Whether a file that is kept for a full disk is missing.
    is_short: AtomicBool,
    /// Bytes that [`Room::Rows`] leaves.
    left_bytes: usize,
    /// Bytes of a record that is likely to come.
    expected: AtomicUsize,
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
        let lengths = (options.first_segment_bytes, options.segment_bytes);
        let reserve = Reserve::new(disk, dir, lengths, 0, highest_id + 1);
        Log::begin(reserve, options, start, VecDeque::new(), &leftovers)
    }

    /// Goes on where [`recover`](super::recover) found the end, in the last segment if that is possible, else in a
    /// fresh one. All that was recovered is durable on return; files that are no part of the log are recycled or
    /// removed. After an error, recover again before the next attempt.
    ///
    /// # Errors
    ///
    /// `Corrupt` if recovery met damage; `Full` if a fresh segment is needed, and there is no space for one and no
    /// spare file.
    pub fn resume(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions, recovered: &Recovered) -> Result<Log> {
        options.check()?;
        if let Some(damage) = &recovered.damage {
            return Err(Error::new(damage.kind(), damage.to_string()).context("the log cannot go on after damage"));
        }
        let segments = recovered.secure(&*disk)?;
        let start = Start {
            previous_id: recovered.end_segment_id,
            previous_end: recovered.end_offset,
            lsn: recovered.end_lsn,
            sequence: recovered.next_sequence,
        };
        let next_id = recovered.highest_id + 1;
        let last_bytes = segments.back().map_or(0, |segment| segment.segment_bytes as usize);
        let lengths = (options.first_segment_bytes, options.segment_bytes);
        let reserve = Reserve::new(disk, dir, lengths, last_bytes, next_id);
        match recovered.tail() {
            Some(tail) => Log::go_on(reserve, start, tail, segments, &recovered.leftovers),
            None => Log::begin(reserve, options, start, segments, &recovered.leftovers),
        }
    }

    /// Goes on in the last of `segments`, with its header and the number of the opening.
    fn go_on(
        mut reserve: Reserve,
        start: Start,
        (header, opening): (Header, u8),
        segments: VecDeque<Arc<Segment>>,
        leftovers: &[LogFile],
    ) -> Result<Log> {
        let Some(segment) = segments.back() else { return Err(no_blank()) };
        let mapping = segment.file.map(header.segment_bytes);
        let mapping = mapping.map_err(|error| Error::io("cannot map", &segment.path, error))?;
        let mut appender = Appender::new(header, mapping, start.previous_end as usize, start.sequence);
        appender.opening = opening;
        // It is durable before anything follows: from then on, frames of earlier openings do not count after it.
        appender.store(&Frame::of_opening(opening, start.sequence, start.lsn), &mut Parts::new(&[]));
        segment.sync()?;
        for file in leftovers {
            if file.is_allocated {
                reserve.recycle(file.id, &file.path, file.bytes)?;
            } else {
                reserve.discard(&file.path)?;
            }
        }
        Ok(Log::new(reserve, appender, Live { segments, retired: Vec::new() }))
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
        reserve.prepare(0).map_err(Unprepared::into_error)?;
        let blank = reserve.take().ok_or_else(no_blank)?;
        let header = Header {
            segment_bytes: blank.bytes,
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
        let appender = Appender::new(header, mapping, HEADER_BYTES, start.sequence);
        // It is durable before what it replaces goes: else a crash could leave a part of what recovery has discarded.
        if let Some(segment) = live.segments.back() {
            segment.sync()?;
        }
        for file in leftovers.iter().filter(|file| file.header.is_some()) {
            reserve.recycle(file.id, &file.path, file.bytes)?;
        }
        Ok(Log::new(reserve, appender, live))
    }

    /// A log of which everything up to where `appender` stands is durable.
    fn new(reserve: Reserve, appender: Appender, live: Live) -> Log {
        let end = appender.lsn().0;
        Log {
            appender: Mutex::new(appender),
            left_bytes: LEFT_BYTES_MAX.min(reserve.shortest_bytes() / 64),
            reserve: FairMutex::new(reserve),
            live: Mutex::new(live),
            leader: Mutex::new(false),
            leader_done: Condvar::default(),
            durable: AtomicU64::new(end),
            end: AtomicU64::new(end),
            is_short: AtomicBool::new(true),
            expected: AtomicUsize::new(0),
            failure: OnceLock::new(),
        }
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
    pub fn append(&self, sequence: u64, payload: &[&[u8]], room: Room) -> Result<Lsn> {
        let length = payload.iter().map(|part| part.len()).sum();
        if self.bytes_left_by(room) > 0 {
            self.reserve(length, room)?;
        }
        let mut appender = self.appender.lock();
        self.check_poison()?;
        debug_assert_eq!(sequence, appender.next_sequence, "sequence numbers ascend by one");
        let (opening, durable_lsn) = (appender.opening, self.durable_lsn());
        let mut frame = Frame { kind: Kind::Full, length, sequence, opening, durable_lsn };
        let mut parts = Parts::new(payload);
        if frame.bytes() <= appender.rest() {
            appender.store(&frame, &mut parts);
        } else {
            self.append_across(&mut appender, &mut frame, &mut parts, room)?;
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
        let (length, opening) = (payload.len(), appender.opening);
        let frame = Frame { kind: Kind::Full, length, sequence, opening, durable_lsn: self.durable_lsn() };
        let fits = frame.bytes() <= appender.rest() && appender.assemble(&frame, &mut Parts::new(&[payload]));
        fits.then_some(Staged { log: self, appender, bytes: frame.bytes() })
    }

    /// Ensures that a next record of up to `bytes` can be appended, with [`Room::Kept`], without more space, so that
    /// its changes may be made before it is appended. Returns for how many bytes that holds: at least as many.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space for the segments it would need in this room, with no harm done; after any other
    /// error the log is poisoned.
    pub fn reserve(&self, bytes: usize, room: Room) -> Result<usize> {
        let left = self.bytes_left_by(room);
        let appender = self.appender.lock();
        self.check_poison()?;
        let here = appender.rest().saturating_sub(FRAME_HEADER_BYTES + 8);
        if bytes + left <= here {
            return Ok(here - left);
        }
        let mut reserve = self.reserve.lock();
        // What is left here may be too little for a part of the record.
        self.prepare_beside_kept(&mut reserve, bytes + left, room)?;
        Ok(bytes)
    }

    /// Bytes that a record in this room leaves: none while no file is missing that is kept for a full disk.
    #[inline]
    fn bytes_left_by(&self, room: Room) -> usize {
        if room == Room::Rows && self.is_short.load(Ordering::Relaxed) { self.left_bytes } else { 0 }
    }

    /// Fails if a file is missing that is kept for a full disk, and cannot be made: then no record may be appended that
    /// makes the database grow.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space; after any other error the log is poisoned.
    #[inline]
    pub fn check_kept(&self) -> Result<()> {
        if self.is_short.load(Ordering::Relaxed) { self.make_kept() } else { Ok(()) }
    }

    #[cold]
    fn make_kept(&self) -> Result<()> {
        let mut reserve = self.reserve.lock();
        self.prepare_beside_kept(&mut reserve, 0, Room::Common)?;
        self.is_short.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Appends a record that needs more than the rest of the segment.
    #[cold]
    fn append_across(
        &self,
        appender: &mut Appender,
        frame: &mut Frame,
        parts: &mut Parts<'_>,
        room: Room,
    ) -> Result<()> {
        let mut left = frame.length;
        let rest = appender.rest();
        let here = if rest >= MIN_REST_BYTES { rest - FRAME_HEADER_BYTES } else { 0 };
        let blanks = self.take_blanks((left - here.min(left)).max(1), room)?;
        if here > 0 {
            frame.kind = Kind::First;
            frame.length = here;
            appender.store(frame, parts);
            left -= here;
        }
        let begun = here > 0;
        for (index, blank) in blanks.into_iter().enumerate() {
            let header = Header {
                segment_bytes: blank.bytes,
                segment_id: blank.id,
                base_lsn: appender.lsn(),
                first_sequence: frame.sequence,
                previous_id: appender.header.segment_id,
                previous_end: appender.offset as u64,
                durable_lsn: frame.durable_lsn,
                ..appender.header
            };
            let room_bytes = blank.room_bytes();
            let mut live = self.live.lock();
            let mapping = live.enter(blank, &header);
            live.retired.push(appender.enter(header, mapping));
            drop(live);
            frame.opening = appender.opening;
            frame.length = left.min(room_bytes);
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

    /// Blanks for so many bytes of a record.
    fn take_blanks(&self, bytes: usize, room: Room) -> Result<Vec<Blank>> {
        let mut reserve = self.reserve.lock();
        let count = self.prepare_beside_kept(&mut reserve, bytes, room)?;
        let taken = reserve.take_many(count);
        if reserve.ready_count() < KEPT_BLANKS {
            self.is_short.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }

    /// Makes blanks until they hold so many bytes of a record, besides those that are kept; in [`Room::Kept`] only as
    /// far as there is space. Returns how many of the oldest hold them.
    fn prepare_beside_kept(&self, reserve: &mut Reserve, bytes: usize, room: Room) -> Result<usize> {
        reserve.retry_long_files();
        loop {
            let count = reserve.blanks_for(bytes);
            let leaves = |kept: usize| count.ok().filter(|count| reserve.ready_count() >= count + kept);
            if let Some(count) = leaves(KEPT_BLANKS) {
                return Ok(count);
            }
            let last_resort = leaves(CHECKPOINT_BLANKS).filter(|_| room != Room::Common);
            // A record that grows asks step by step, and takes the files that were kept: they grow with it.
            let record_bytes = count.err().unwrap_or(0).max(bytes / 8);
            match (self.prepare(reserve, record_bytes), last_resort) {
                (Err(error), Some(count)) if error.kind() == ErrorKind::Full => return Ok(count),
                (prepared, _) => prepared?,
            }
        }
    }

    /// Makes one blank, if it can be long enough for so many bytes of a record.
    fn prepare(&self, reserve: &mut Reserve, record_bytes: usize) -> Result<()> {
        self.check_poison()?;
        let retired = std::mem::take(&mut self.live.lock().retired);
        drop(retired);
        reserve.prepare(record_bytes).map_err(|unprepared| match unprepared {
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

    /// Makes the files that are kept for a full disk, and that of the next segment once it is due, if they are missing.
    /// Returns whether it did. For a background thread: an append that finds none makes it itself and takes that much
    /// longer.
    ///
    /// # Errors
    ///
    /// `Full` if there is no space, with no harm done; after any other error the log is poisoned.
    pub fn prepare_spare(&self) -> Result<bool> {
        let expected = self.expected.swap(0, Ordering::Relaxed);
        let mut did = false;
        loop {
            // An append that needs a file gets its turn between two.
            let mut reserve = self.reserve.lock();
            // The last space of a disk is left to records that have come.
            let bytes_max = EXPECTED_BYTES_MAX.min(EXPECTED_SEGMENTS_MAX * reserve.longest_bytes());
            let expected = if reserve.is_tight() { 0 } else { expected.min(bytes_max) };
            let needed = expected.max(usize::from(self.is_next_due(reserve.shortest_bytes())));
            let count = reserve.blanks_for(needed);
            if count.is_ok_and(|count| reserve.ready_count() >= KEPT_BLANKS + count) {
                self.is_short.store(false, Ordering::Relaxed);
                self.check_poison()?;
                return Ok(did);
            }
            self.prepare(&mut reserve, count.err().unwrap_or(0))?;
            did = true;
        }
    }

    /// Notes that a record of so many bytes is likely to come, so that [`prepare_spare`](Log::prepare_spare) makes
    /// files for it meanwhile.
    pub fn expect_record(&self, bytes: usize) {
        self.expected.fetch_max(bytes, Ordering::Relaxed);
    }

    /// By how much the log may grow before [`prepare_spare`](Log::prepare_spare) is called again.
    pub fn prepare_step_bytes(&self) -> u64 {
        self.live.lock().segments.back().map_or(0, |last| last.segment_bytes / PREPARE_STEPS)
    }

    /// Whether it is time to make the next segment.
    fn is_next_due(&self, shortest_bytes: usize) -> bool {
        let live = self.live.lock();
        let is_small = |last: &Segment| live.segments.len() == 1 && last.segment_bytes <= shortest_bytes as u64;
        live.segments.back().is_some_and(|last| is_next_due(last, is_small(last), self.end_lsn()))
    }

    /// Removes the files that hold no part of the log, to free space for what shortens the log. Returns whether there
    /// were any. Until they can be made again, the database does not grow.
    ///
    /// # Errors
    ///
    /// The disk's if a file cannot be removed, which does the log no harm.
    pub fn give_up_spares(&self) -> Result<bool> {
        let mut reserve = self.reserve.lock();
        self.is_short.store(true, Ordering::Relaxed);
        Ok(reserve.discard_all()? > 0)
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
        let reserve = self.reserve.lock();
        let (spare_count, spare_bytes) = (reserve.spare_count(), reserve.spare_bytes());
        drop(reserve);
        let live = self.live.lock();
        SegmentStats {
            segment_count: live.segments.len(),
            segment_bytes: live.segments.iter().map(|segment| segment.segment_bytes).sum(),
            spare_count,
            spare_bytes,
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

    /// Stops the log. Returns the error for the caller that met the failure.
    #[cold]
    pub(super) fn poison(&self, error: Error) -> Error {
        // The first failure is the one to report.
        let _ = self.failure.set(error.to_string());
        match error.kind() {
            // `Full` says that nothing was done and that more can be done later, and neither is so.
            ErrorKind::Full => self.poison_error().unwrap_or(error),
            _ => error,
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

/// Whether it is time to make the next segment of a log that ends at `end` in `segment`. A small log, which has one
/// segment of the least length, needs no other one for long: a quarter must be used. The next one of a log that has
/// grown is made at once, since it may be four times as long as this one, and a fast writer would wait for it. The end
/// lies before the segment while a record that has entered it is being stored.
pub(super) fn is_next_due(segment: &Segment, is_small: bool, end: Lsn) -> bool {
    let used = end.0.saturating_sub(segment.base_lsn.0);
    used > 0 && (!is_small || PREPARE_AFTER * used >= segment.segment_bytes)
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
