//! A run: its entries in one file, or in several that follow each other by keys and hang under one root in memory.
//!
//! ```text
//! top         lows "", "k", "t" | before 0, 4000, 9000          in memory, made when the run is
//!              |        |     |
//! files      [a .. j] [k .. s] [t .. z]                         each a tree of its own, as docs/format-run.md has it
//! ```
//!
//! So a compaction need not write what it does not change: a file goes from one run into the next, and what readers have cached of it stays so. To everything above, a run is one tree,
//! one level higher.
//!
//! Invariants:
//! 1. All keys of a part are at or above its low key, and below that of the next.
//! 2. A run of several parts has none without entries.
//! 3. A part of the bottom run has live rows only, be it written as an upper one.
//!
//! Not here: which files make up a run (`manifest`, `compaction`), what is in a file (`file`).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::RunInfo;
use super::columns::{Inner, Top};
use super::file::{Loaded, Place, RunFile, TOP};
use super::format::{Pointer, Sums};
use super::scan::Visit;
use crate::error::Result;
use crate::io::Disk;
use crate::page::KeyBuffer;

/// A run to read.
pub(crate) struct Run {
    files: Vec<Arc<RunFile>>,
    /// What is above them, if they are several.
    top: Option<Loaded>,
    info: RunInfo,
}

/// A file of a run, and a key that none of its own is below, and all of the files before are.
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
    /// As [`RunFile::open`].
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Run> {
        Ok(Run::of_file(RunFile::open(disk, path)?))
    }

    pub(crate) fn of_file(file: RunFile) -> Run {
        Run { info: *file.info(), files: vec![Arc::new(file)], top: None }
    }

    /// Puts parts together, of which there must be one at least, in the order of their keys; `is_bottom`: nothing lies below them.
    pub(crate) fn of_parts(parts: &[Part], is_bottom: bool) -> Run {
        if let [part] = parts {
            let file = part.file.in_place(0, Sums::default(), 0);
            return Run { info: RunInfo { is_bottom, ..*file.info() }, ..Run::of_file(file) };
        }
        let (mut files, mut lows, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let (mut total, mut bytes) = (Sums::default(), 0);
        let first = *parts[0].file.info();
        let mut levels = 0;
        for (number, part) in parts.iter().enumerate() {
            let file = part.file.in_place(number as u32, total, bytes);
            lows.push(if number == 0 { KeyBuffer::new() } else { part.low.clone() });
            before.push(total);
            total = total + file.info().total;
            bytes += file.info().bytes;
            levels = levels.max(file.info().levels);
            files.push(Arc::new(file));
        }
        let info = RunInfo {
            bytes,
            total,
            levels: levels + 1,
            version: parts.iter().map(|part| part.file.info().version).min().unwrap_or(first.version),
            is_bottom,
            ..first
        };
        Run { files, top: Some(Loaded::Top(Box::new(Top { lows, before, level: levels }))), info }
    }

    /// What the run is, all parts together.
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

    /// As [`RunFile::scan`], of all files.
    pub(crate) fn scan(&self, visit: &mut Visit<'_>) -> Result<()> {
        self.files.iter().try_for_each(|file| file.scan(&mut |_| (), visit))
    }

    /// Where the tree begins; none if there are no rows.
    pub(super) fn root(&self) -> Option<Place> {
        if self.top.is_none() {
            return self.files[0].root();
        }
        Some(Place {
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
    pub(super) fn file_of(&self, key: &[u8]) -> &RunFile {
        match &self.top {
            Some(Loaded::Top(top)) => &self.files[top.part_of(key)],
            _ => &self.files[0],
        }
    }

    /// The file that has what is at `place`.
    #[inline]
    pub(super) fn file(&self, place: &Place) -> &Arc<RunFile> {
        &self.files[place.part as usize]
    }

    /// What is at `place`, if the run itself keeps that in memory.
    #[inline]
    pub(super) fn kept(&self, place: &Place) -> Option<&Loaded> {
        if place.is_top() { self.top.as_ref() } else { self.file(place).kept_page(place) }
    }

    /// The inner page that was loaded from `place`.
    pub(super) fn inner<'l>(&self, place: &Place, loaded: &'l Loaded) -> Inner<'l> {
        // What is above all parts can be told by any.
        let file = if place.is_top() { &self.files[0] } else { self.file(place) };
        file.inner(loaded)
    }

    /// What the inner page at `place` says of its child at `position`.
    #[inline]
    pub(super) fn child(&self, place: &Place, page: &Inner<'_>, position: usize) -> Place {
        if place.is_top() {
            const NO_EMPTY_PART: &str = "a run of several parts has none without entries";
            return self.files[position].root().expect(NO_EMPTY_PART);
        }
        self.file(place).child(place, page, position)
    }

    /// The child of the inner page at `place` with the entry of the run that has `entries` entries before it.
    pub(super) fn child_at(&self, place: &Place, page: &Inner<'_>, entries: i64) -> usize {
        let base = if place.is_top() { 0 } else { self.file(place).base().entries };
        page.child_at(entries - base)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("files", &self.files).finish_non_exhaustive()
    }
}
