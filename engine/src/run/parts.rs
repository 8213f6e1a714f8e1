//! A run: its entries in one file, or in several, ordered by keys, under one root in memory.
//!
//! ```text
//! top         lows "", "k", "t" | before 0, 4000, 9000          in memory, made when the run is
//!              |        |     |
//! files      [a .. j] [k .. s] [t .. z]                         each a tree of its own, as docs/format-run.md has it
//! ```
//!
//! So a compaction need not rewrite what it does not change: a file goes from one run into the next, and its cached
//! pages stay cached. To everything above, a run is one tree, one level higher.
//!
//! Invariants:
//! 1. All keys of a part are at or above its low key, and below that of the next.
//! 2. A run of several parts has none without entries.
//! 3. A part of the bottom run has live rows only, even if it was written for an upper run.
//!
//! Not here: which files make up a run (`manifest`, `compaction`), what is in a file (`file`).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::RunInfo;
use super::columns::{Inner, Top};
use super::file::RunFile;
use super::format::{Pointer, Sums};
use super::loaded::Loaded;
use super::place::{Place, TOP};
use super::scan::Visit;
use crate::error::Result;
use crate::io::Disk;
use crate::page::KeyBuffer;

/// A run to read.
pub(crate) struct Run {
    files: Vec<Arc<RunFile>>,
    /// The level above them, if there are several.
    top: Option<Loaded>,
    info: RunInfo,
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
        Run { info: *file.info(), files: vec![Arc::new(file)], top: None }
    }

    /// Puts together at least one part, in the order of their keys. With `is_bottom`, nothing lies below them.
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

    /// The properties of the run, over all parts.
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

    /// Where the tree begins; `None` if there are no rows.
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

    /// The file that contains `place`.
    #[inline]
    pub(super) fn file(&self, place: &Place) -> &Arc<RunFile> {
        &self.files[place.part as usize]
    }

    /// The page at `place`, if the run itself keeps it in memory.
    #[inline]
    pub(super) fn kept(&self, place: &Place) -> Option<&Loaded> {
        if place.is_top() { self.top.as_ref() } else { self.file(place).kept_page(place) }
    }

    /// The inner page that was loaded from `place`.
    pub(super) fn inner<'l>(&self, place: &Place, loaded: &'l Loaded) -> Inner<'l> {
        // Any file can decode the level above all parts.
        let file = if place.is_top() { &self.files[0] } else { self.file(place) };
        file.inner(loaded)
    }

    /// The place of the child at `position`, from the inner page at `place`.
    #[inline]
    pub(super) fn child(&self, place: &Place, page: &Inner<'_>, position: usize) -> Place {
        if place.is_top() {
            const NO_EMPTY_PART: &str = "a run of several parts has none without entries";
            return self.files[position].root().expect(NO_EMPTY_PART);
        }
        self.file(place).child(place, page, position)
    }

    /// The child of the inner page at `place` that contains the entry with `entries` entries of the run before it.
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
