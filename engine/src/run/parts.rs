//! A run: its entries in one file, or in several, ordered by keys, under one root in memory.
//!
//! ```text
//! top         lows "", "k", "t" | before 0, 4000, 9000          in memory, made when the run is
//!              |        |     |
//! files      [a .. j] [k .. s] [t .. z]                         each a tree of its own (format-run.md)
//! ```
//!
//! So a compaction need not rewrite what it does not change: a file goes from one run into the next, and its cached
//! pages stay cached. To everything above, a run is one tree, one level higher.
//!
//! Each file may have excisions (`excision`). To those that ask the run, it has no entry there: the sums at the top are
//! those of what is left. Within a file, places have the sums that the file has, and [`Run::extent`] tells what is
//! left.
//!
//! Invariants:
//! 1. All keys of a part are at or above its low key, and below that of the next.
//! 2. A run of several parts has none of which no entry is left.
//! 3. All that is left of a part of the bottom run are live rows, even if it was written for an upper run.
//!
//! Not here: which files make up a run (`manifest`, `compaction`), what is in a file (`file`).

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::RunInfo;
use super::columns::{Inner, Top};
use super::excision::{Excisions, Left, Prefix};
use super::file::RunFile;
use super::format::{Pointer, Sums};
use super::loaded::Loaded;
use super::place::{Extent, TOP, UnitPlace};
use super::scan::Visit;
use crate::error::Result;
use crate::io::Disk;
use crate::page::KeyBuffer;
use crate::tally::Tally;
use crate::tree::Side;

/// The number of runs that this process has put together.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A run to read.
pub(crate) struct Run {
    files: Vec<Arc<RunFile>>,
    /// The level above them, if there are several.
    top: Option<Loaded>,
    info: RunInfo,
    /// Tells this run from all others but those that excisions have made of it.
    number: u64,
    has_excisions: bool,
    /// Whether all entries of its leaves are live rows, erased ones too.
    leaves_have_live_rows_only: bool,
}

/// A file of a run, and a key at or below all of its keys and above those of the files before.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) low: KeyBuffer,
    pub(crate) file: Arc<RunFile>,
}

impl Part {
    /// The only part of a run, or its first.
    pub(crate) fn first(file: &RunFile) -> Part {
        Part { low: KeyBuffer::new(), file: Arc::new(file.in_place(0, Sums::default(), 0)) }
    }
}

impl Run {
    /// Opens a run of one file.
    ///
    /// # Errors
    /// Those of [`RunFile::open`].
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Run> {
        Ok(Run::of_file(RunFile::open(disk, path)?))
    }

    pub(crate) fn of_file(file: RunFile) -> Run {
        let is_bottom = file.info().is_bottom;
        Run::numbered(MADE.fetch_add(1, Ordering::Relaxed), vec![file], None, is_bottom)
    }

    /// Puts together at least one part, in the order of their keys. With `is_bottom`, nothing lies below them.
    pub(crate) fn of_parts(parts: &[Part], is_bottom: bool) -> Run {
        Run::of_numbered_parts(MADE.fetch_add(1, Ordering::Relaxed), parts, is_bottom)
    }

    /// The same run, of which these parts are left.
    pub(crate) fn of_parts_left(&self, parts: &[Part]) -> Run {
        Run::of_numbered_parts(self.number, parts, self.info.is_bottom)
    }

    /// The same run with nothing below it any more.
    pub(crate) fn as_bottom(&self) -> Run {
        let parts: Vec<Part> = self.parts().collect();
        Run::of_numbered_parts(self.number, &parts, true)
    }

    fn of_numbered_parts(number: u64, parts: &[Part], is_bottom: bool) -> Run {
        if let [part] = parts {
            return Run::numbered(number, vec![part.file.in_place(0, Sums::default(), 0)], None, is_bottom);
        }
        let (mut files, mut lows, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let (mut total, mut bytes) = (Sums::default(), 0);
        let mut levels = 0;
        for (number, part) in parts.iter().enumerate() {
            let file = part.file.in_place(number as u32, total, bytes);
            lows.push(if number == 0 { KeyBuffer::new() } else { part.low.clone() });
            before.push(total);
            total = total + file.sums_left();
            bytes += file.bytes_left();
            levels = levels.max(file.info().levels);
            files.push(file);
        }
        let top = Loaded::Top(Box::new(Top { lows, before, level: levels }));
        Run::numbered(number, files, Some(top), is_bottom)
    }

    fn numbered(number: u64, files: Vec<RunFile>, top: Option<Loaded>, is_bottom: bool) -> Run {
        let first = *files[0].info();
        let infos = || files.iter().map(|file| file.info());
        let info = RunInfo {
            bytes: infos().map(|info| info.bytes).sum(),
            total: files.iter().fold(Sums::default(), |sum, file| sum + file.sums_left()),
            levels: infos().map(|info| info.levels).max().unwrap_or(0) + usize::from(top.is_some()),
            version: infos().map(|info| info.version).min().unwrap_or(first.version),
            is_bottom,
            ..first
        };
        let has_excisions = files.iter().any(|file| file.excisions().is_some());
        let leaves_have_live_rows_only = is_bottom && (!has_excisions || infos().all(RunInfo::has_live_rows_only));
        let files = files.into_iter().map(Arc::new).collect();
        Run { files, top, info, number, has_excisions, leaves_have_live_rows_only }
    }

    /// Whether both are the same run, whatever excisions have left of either.
    pub(crate) fn is_same(&self, other: &Run) -> bool {
        self.number == other.number
    }

    /// Whether anything was erased from it.
    #[inline]
    pub(crate) fn has_excisions(&self) -> bool {
        self.has_excisions
    }

    /// Whether all entries of its leaves are live rows, erased ones too.
    #[inline]
    pub(crate) fn leaves_have_live_rows_only(&self) -> bool {
        self.leaves_have_live_rows_only
    }

    /// The number of its excisions.
    pub(crate) fn excisions(&self) -> usize {
        self.files.iter().filter_map(|file| file.excisions()).map(Excisions::len).sum()
    }

    /// The number of entries that its files have and it has not.
    pub(crate) fn erased_entries(&self) -> i64 {
        self.files.iter().map(|file| file.info().total.entries).sum::<i64>() - self.info.total.entries
    }

    /// The properties of the run, over all parts: the sums are those of what is left, the bytes those of the files.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Its files, in the order of their keys.
    pub(crate) fn files(&self) -> &[Arc<RunFile>] {
        &self.files
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let low = |number: usize| match &self.top {
            Some(Loaded::Top(top)) => top.lows[number].clone(),
            _ => KeyBuffer::new(),
        };
        self.files.iter().enumerate().map(move |(number, file)| Part { low: low(number), file: Arc::clone(file) })
    }

    /// Like [`RunFile::scan`], over all files.
    pub(crate) fn scan(&self, visit: &mut Visit<'_>) -> Result<()> {
        self.files.iter().try_for_each(|file| file.scan(&mut |_| (), visit))
    }

    /// Where the tree begins; `None` if no entry is left.
    pub(crate) fn root(&self) -> Option<UnitPlace> {
        if self.info.total.entries == 0 {
            return None;
        }
        if self.top.is_none() {
            return self.files[0].root();
        }
        Some(UnitPlace {
            pointer: Pointer { offset: self.info.bytes, ..Pointer::default() },
            floor: 0,
            part: TOP,
            shift: 0,
            level: self.info.levels - 1,
            before: Sums::default(),
            until: self.info.total,
        })
    }

    /// The file that `key` belongs to.
    #[inline]
    pub(crate) fn file_of(&self, key: &[u8]) -> &RunFile {
        match &self.top {
            Some(Loaded::Top(top)) => &self.files[top.part_of(key)],
            _ => &self.files[0],
        }
    }

    /// The file that contains `place`.
    #[inline]
    pub(crate) fn file(&self, place: &UnitPlace) -> &Arc<RunFile> {
        &self.files[place.part as usize]
    }

    /// The page at `place`, if the run itself keeps it in memory.
    #[inline]
    pub(crate) fn kept(&self, place: &UnitPlace) -> Option<&Loaded> {
        if place.is_top() { self.top.as_ref() } else { self.file(place).kept_page(place) }
    }

    /// The inner page that was loaded from `place`.
    pub(crate) fn inner<'l>(&self, place: &UnitPlace, loaded: &'l Loaded) -> Inner<'l> {
        // Any file can decode the level above all parts.
        let file = if place.is_top() { &self.files[0] } else { self.file(place) };
        file.inner(loaded)
    }

    /// The place of the child at `position`, from the inner page at `place`.
    #[inline]
    pub(crate) fn child(&self, place: &UnitPlace, page: &Inner<'_>, position: usize) -> UnitPlace {
        if place.is_top() {
            const NO_EMPTY_PART: &str = "a run of several parts has none without entries";
            return self.files[position].root().expect(NO_EMPTY_PART);
        }
        self.file(place).child(place, page, position)
    }

    /// The child of the inner page at `place` that contains the entry with `entries` entries of the run before it.
    pub(crate) fn child_at(&self, place: &UnitPlace, page: &Inner<'_>, entries: i64) -> usize {
        if place.is_top() {
            return page.child_at(entries);
        }
        let file = self.file(place);
        page.child_at(entry_in_file(file, entries - file.base().entries))
    }

    /// Where in the leaf at `place` the entry stands that has `entries` entries of the run before it.
    #[inline]
    pub(crate) fn position_in(&self, place: &UnitPlace, entries: i64) -> usize {
        if !self.has_excisions {
            return (entries - place.before.entries) as usize;
        }
        let file = self.file(place);
        let base = file.base().entries;
        (entry_in_file(file, entries - base) + base - place.before.entries) as usize
    }

    /// How many entries of the run are before the one at `position` of the leaf at `place`.
    pub(crate) fn entries_before(&self, place: &UnitPlace, position: usize) -> i64 {
        let prefix = Sums { entries: place.before.entries + position as i64, ..Sums::default() };
        if self.has_excisions {
            self.left(place, Prefix { sums: prefix, bytes: 0 }).sums.entries
        } else {
            prefix.entries
        }
    }

    /// How many rows of the run are left before the entry at `position` of the leaf at `place`, where the file has
    /// `rows`.
    pub(crate) fn rows_left(&self, place: &UnitPlace, position: usize, rows: i64) -> i64 {
        if !self.has_excisions {
            return rows;
        }
        let tally = Tally { rows, ..Tally::ZERO };
        let sums = Sums { entries: place.before.entries + position as i64, tally, ..Sums::default() };
        self.left(place, Prefix { sums, bytes: 0 }).sums.tally.rows
    }

    /// What is left of the run before a cut at a key, if an excision knows; else what to take off from the sums that
    /// places and leaves of its file have.
    pub(crate) fn left_at(&self, key: &[u8], side: Side) -> Left {
        let file = self.file_of(key);
        match file.excisions().map(|excisions| excisions.left_at(key, side)) {
            Some(Left::Known(left)) => Left::Known(Prefix { sums: *file.base(), bytes: file.shift() } + left),
            Some(less) => less,
            None => Left::Less(Prefix::default()),
        }
    }

    /// The entries of the leaf at `place`, which are `all`, around the one at `position`, up to the next excision on
    /// either side.
    pub(crate) fn window(&self, place: &UnitPlace, all: &Range<usize>, position: usize) -> Range<usize> {
        let file = self.file(place);
        let Some(excisions) = file.excisions() else { return all.clone() };
        let first = place.before.entries - file.base().entries;
        let around = excisions.around(first + position as i64);
        let within = |entry: i64| (entry - first).clamp(all.start as i64, all.end as i64) as usize;
        within(around.start)..within(around.end)
    }

    /// Whether the entry beside that at `position` of the leaf at `place`, in the same file, is left.
    pub(crate) fn is_left_beside(&self, place: &UnitPlace, position: usize, forward: bool) -> bool {
        let file = self.file(place);
        let entry = place.before.entries - file.base().entries + position as i64;
        let beside = if forward { entry + 1 } else { entry - 1 };
        let is_in_file = (0..file.info().total.entries).contains(&beside);
        is_in_file && file.excisions().is_none_or(|excisions| excisions.around(entry).contains(&beside))
    }

    /// What is left of the run before an entry of the file that `place` is in, which has `prefix` before it there: the
    /// sums as places have them, the bytes of the file.
    pub(crate) fn left(&self, place: &UnitPlace, prefix: Prefix) -> Prefix {
        self.left_by(place, prefix, |excisions, prefix| excisions.left_at_entry(prefix.sums.entries).of(prefix))
    }

    fn left_by(&self, place: &UnitPlace, prefix: Prefix, by: impl Fn(&Excisions, Prefix) -> Prefix) -> Prefix {
        let file = self.file(place);
        let base = Prefix { sums: *file.base(), bytes: file.shift() };
        let prefix = Prefix { sums: prefix.sums - base.sums, ..prefix };
        base + file.excisions().map_or(prefix, |excisions| by(excisions, prefix))
    }

    /// Where what is left of the subtree at `place` lies.
    pub(crate) fn extent(&self, place: &UnitPlace) -> Extent {
        if !self.has_excisions || place.is_top() {
            return Extent { before: place.before, until: place.until, start: place.start(), end: place.end() };
        }
        let end_bytes = place.pointer.offset + u64::from(place.pointer.length);
        let before = self.left(place, Prefix { sums: place.before, bytes: place.floor });
        let until = Prefix { sums: place.until, bytes: end_bytes };
        let until = self.left_by(place, until, Excisions::left_until);
        let is_any_left = before.sums.entries < until.sums.entries;
        let end = until.bytes.max(before.bytes + u64::from(is_any_left));
        Extent { before: before.sums, until: until.sums, start: before.bytes, end }
    }
}

/// How many entries of a file are before the one that has `entries` before it of those that are left.
fn entry_in_file(file: &RunFile, entries: i64) -> i64 {
    file.excisions().map_or(entries, |excisions| excisions.entry_in_file(entries))
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("files", &self.files).finish_non_exhaustive()
    }
}
