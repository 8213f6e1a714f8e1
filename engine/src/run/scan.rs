//! Reads a whole run in key order, the order of the file: one walk for opening, the checker and salvage.
//!
//! An inner page is read before the pages below it, which precede it in the file: one jump for every few hundred
//! leaves. Leaves and long values then come from a [`FileWindow`] that moves forward only.
//!
//! Cost: for rows in leaves of 8 KiB, one read of 1 MiB for every 128 leaves. Checksum, check of the page and visit
//! together take 10 to 20 ns for a row of 30 bytes. A unit or a value longer than 1 MiB is read at once. One key
//! buffer, two windows, one inner page for each level. Filters are skipped.
//!
//! Not here: what rows mean; what to do about damage ([`Visitor`]); scans of a table by its readers
//! (`read/table_stack.rs`).

use std::thread;

use super::columns::Inner;
use super::file::RunFile;
use super::loaded::Loaded;
use super::place::UnitPlace;
use super::read_ahead::{FILE_BYTES_MIN, READERS, ReadAhead};
use super::window::{FileWindow, WINDOW_BYTES};
use crate::error::{Error, Result};
use crate::io::AlignedBuffer;
use crate::page::{KeyBuffer, PageRef, Record};
use crate::tally::Tally;

/// Takes a key and its value.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// Takes an entry's record, its key, and its value in the buffer it was read into.
pub(super) type VisitRecord<'v> = dyn FnMut(&Record<'_>, &[u8], &[u8]) -> Result<()> + 'v;

/// Takes a key, its value unless it is a tombstone, and the weight.
pub(crate) type VisitEntry<'v> = dyn FnMut(&[u8], Option<&[u8]>, Tally) -> Result<()> + 'v;

/// Receives what a walk finds. An error ends the walk.
pub(crate) trait Visitor {
    /// A sound page that is what its parent promised: its whole unit, unpacked, and for a leaf how many bytes of it are
    /// the page.
    fn page(&mut self, place: &UnitPlace, unit: &[u8], page_bytes: Option<usize>) -> Result<()>;
    /// The inner page of the last call of `page`.
    fn inner(&mut self, _: &UnitPlace, _: &Inner<'_>) -> Result<()> {
        Ok(())
    }
    /// An entry of the last leaf; `value` is read and checked.
    fn row(&mut self, record: &Record<'_>, key: &[u8], value: &[u8]) -> Result<()>;
    /// The end of that leaf's rows.
    fn leaf_end(&mut self, place: &UnitPlace) -> Result<()>;
    /// The bytes that packing saves on the value to come.
    fn saved(&mut self, _: u64) {}
    /// The entries that the next fault loses, if any are known.
    fn lose(&mut self, _: Gap<'_>) {}
    /// Something that cannot be read: a subtree, or one value. If this returns no error, the walk goes on after it.
    fn fault(&mut self, error: Error) -> Result<()>;
}

/// Entries that cannot be read.
pub(crate) enum Gap<'g> {
    /// All entries between two separators, as far as these exist.
    Subtree { place: &'g UnitPlace, low: Option<&'g [u8]>, high: Option<&'g [u8]> },
    /// The entry with this key, whose value is damaged.
    Value(&'g [u8]),
}

/// An inner page on the way down.
struct Frame {
    place: UnitPlace,
    unit: Loaded,
    /// Keys below it in the tree are at or above `low` and below `high`, if these exist.
    low: Option<KeyBuffer>,
    high: Option<KeyBuffer>,
    next: usize,
}

impl RunFile {
    /// Visits all rows of a bottom run in key order. After each leaf, reports how many bytes of the file are done.
    ///
    /// # Errors
    /// Those of `visit`; [`Corrupt`](crate::ErrorKind::Corrupt) at the first damage, with all rows visited so far
    /// sound; errors of the disk.
    pub(crate) fn scan(&self, progress: &mut dyn FnMut(u64), visit: &mut Visit<'_>) -> Result<()> {
        debug_assert!(self.info().is_bottom && self.excisions().is_none());
        self.scan_records(progress, &mut |_, key, value| visit(key, value))
    }

    pub(crate) fn scan_records(&self, progress: &mut dyn FnMut(u64), visit: &mut VisitRecord<'_>) -> Result<()> {
        self.walk(&mut Scan { progress, visit })
    }

    /// Walks the tree in post-order, which is the order of the file.
    pub(crate) fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<()> {
        if self.info().bytes < FILE_BYTES_MIN {
            return self.walk_with(None, visitor);
        }
        let ahead = ReadAhead::new(self);
        thread::scope(|scope| {
            let readers = (0..READERS).filter(|_| {
                let builder = thread::Builder::new().name("run read-ahead".into());
                builder.spawn_scoped(scope, || ahead.work()).is_ok()
            });
            let has_readers = readers.count() > 0;
            let _end = ahead.end_at_drop();
            self.walk_with(has_readers.then_some(&ahead), visitor)
        })
    }

    fn walk_with<V: Visitor>(&self, ahead: Option<&ReadAhead<'_>>, visitor: &mut V) -> Result<()> {
        let mut leaves = LeafReader {
            window: FileWindow::new(self, ahead),
            values: FileWindow::new(self, ahead),
            run: self,
            key: Vec::new(),
            unit: AlignedBuffer::new(1),
            value: Vec::new(),
        };
        let Some(root) = self.root() else {
            return Ok(());
        };
        let mut frames = Vec::new();
        self.enter(&root, None, None, &mut leaves, &mut frames, visitor)?;
        while let Some(frame) = frames.last_mut() {
            let position = frame.next;
            let page = self.inner(&frame.unit);
            if position == page.count() {
                frames.pop();
                continue;
            }
            frame.next += 1;
            let place = self.child(&frame.place, &page, position);
            let low = if position == 0 { frame.low.take() } else { Some(page.separator(position)) };
            let is_last = position + 1 == page.count();
            let high = if is_last { frame.high.take() } else { Some(page.separator(position + 1)) };
            self.enter(&place, low, high, &mut leaves, &mut frames, visitor)?;
        }
        Ok(())
    }

    /// Reports a leaf and its rows, or reports an inner page and puts it on the path.
    fn enter<V: Visitor>(
        &self,
        place: &UnitPlace,
        low: Option<KeyBuffer>,
        high: Option<KeyBuffer>,
        leaves: &mut LeafReader<'_>,
        frames: &mut Vec<Frame>,
        visitor: &mut V,
    ) -> Result<()> {
        let gap = Gap::Subtree { place, low: low.as_deref(), high: high.as_deref() };
        if place.level == 0 {
            return leaves.visit(place, low.as_ref(), high.as_ref(), visitor).or_else(|error| {
                visitor.lose(gap);
                visitor.fault(error)
            });
        }
        let unit = match self.load(place) {
            Ok(unit) => unit,
            Err(error) => {
                visitor.lose(gap);
                return visitor.fault(error);
            }
        };
        let page = self.inner(&unit);
        let is_below = page.count() > 1 && low.as_ref().is_some_and(|low| page.separator(1) <= *low);
        let is_above = page.count() > 1 && high.as_ref().is_some_and(|high| page.separator(page.count() - 1) >= *high);
        if is_below || is_above {
            visitor.fault(self.damaged(place, "a separator does not lie between those that lead to it"))?;
        }
        visitor.page(place, unit.as_slice(), None)?;
        visitor.inner(place, &page)?;
        frames.push(Frame { place: *place, unit, low, high, next: 0 });
        Ok(())
    }

    /// Checks that the keys of a page lie between the separators on the path to it.
    fn check_bounds<V: Visitor>(
        &self,
        place: &UnitPlace,
        page: &PageRef<'_>,
        low: Option<&KeyBuffer>,
        high: Option<&KeyBuffer>,
        visitor: &mut V,
    ) -> Result<()> {
        if low.is_some_and(|low| page.key(0) < *low) {
            visitor.fault(self.damaged(place, "a key is below the separator that leads to it"))?;
        }
        if high.is_some_and(|high| page.key(page.count() - 1) >= *high) {
            visitor.fault(self.damaged(place, "a key is not below the next separator"))?;
        }
        Ok(())
    }
}

/// Reads leaves and their long values in the order of the file.
struct LeafReader<'r> {
    run: &'r RunFile,
    window: FileWindow<'r>,
    /// For long values that the window does not hold.
    values: FileWindow<'r>,
    key: Vec<u8>,
    /// The unpacked form of a leaf and of a value.
    unit: AlignedBuffer,
    value: Vec<u8>,
}

impl LeafReader<'_> {
    fn visit<V: Visitor>(
        &mut self,
        place: &UnitPlace,
        low: Option<&KeyBuffer>,
        high: Option<&KeyBuffer>,
        visitor: &mut V,
    ) -> Result<()> {
        let Self { run, window, values, key, unit, value } = self;
        fill_with_leaf(window, place)?;
        let window = &*window;
        let stored = window.get(place.pointer.offset, place.pointer.length as usize);
        let stored = stored.expect("the window was filled with it");
        let (unit, page) = run.leaf_in(place, stored, unit)?;
        run.check_bounds(place, &page, low, high, visitor)?;
        visitor.page(place, unit, Some(page.stored_page_bytes()))?;
        key.clear();
        key.extend_from_slice(page.prefix());
        let mut extents_end = place.floor;
        for position in 0..page.count() {
            let row = page.leaf_record(position);
            let whole_key = key_of(&page, position, &row, key);
            if !row.value_is_out() {
                visitor.row(&row, whole_key, row.value)?;
                continue;
            }
            let reference = run.reference(place, row.value)?;
            let extent_end = reference.end().expect("a reference within the file");
            if reference.offset != extents_end {
                return Err(run.damaged(place, "a value does not stand where the one before ends"));
            }
            extents_end = extent_end;
            let extent_bytes = (extent_end - reference.offset) as usize;
            let extent = match window.get(reference.offset, extent_bytes) {
                Some(extent) => Ok(extent),
                None => values_through(values, reference.offset, extent_bytes),
            };
            let checked = extent.and_then(|extent| run.check_value(&reference, extent).map(|()| extent));
            visitor.saved(reference.saved_bytes());
            match checked.and_then(|extent| run.value_in(&reference, extent, value)) {
                Ok(value) => visitor.row(&row, whole_key, value)?,
                Err(error) => {
                    visitor.lose(Gap::Value(whole_key));
                    visitor.fault(error)?;
                }
            }
        }
        if extents_end != place.pointer.offset {
            return Err(run.damaged(place, "the values before a leaf are not all its own"));
        }
        visitor.leaf_end(place)
    }
}

/// Has the leaf at `place` in the window.
fn fill_with_leaf(window: &mut FileWindow<'_>, place: &UnitPlace) -> Result<()> {
    let (offset, len) = (place.pointer.offset, place.pointer.length as usize);
    if window.get(offset, len).is_none() {
        // The leaf's values stand before it: if both are not too much, they come together, and much of what follows
        // with them.
        let with_values = (offset - place.floor) + len as u64;
        if with_values <= WINDOW_BYTES as u64 {
            window.fill(place.floor, with_values as usize)?;
        } else {
            window.fill_exactly(offset, len)?;
        }
    }
    Ok(())
}

/// So many bytes at `offset`, and some that follow.
fn values_through<'w>(window: &'w mut FileWindow<'_>, offset: u64, bytes: usize) -> Result<&'w [u8]> {
    if window.get(offset, bytes).is_none() {
        window.fill(offset, bytes)?;
    }
    Ok(window.get(offset, bytes).expect("the window was filled"))
}

/// The key of the row at `position`: in the unit, or put together in `buffer`, which begins with the page's prefix.
#[inline(always)]
fn key_of<'k>(page: &PageRef<'k>, position: usize, row: &Record<'k>, buffer: &'k mut Vec<u8>) -> &'k [u8] {
    if row.key_is_out() {
        return page.out_key(row.tail);
    }
    buffer.truncate(page.prefix_len());
    let head = page.head(position).to_be_bytes();
    buffer.extend_from_slice(&head[..row.rest_len.min(4)]);
    buffer.extend_from_slice(row.tail);
    buffer
}

/// Stops at the first fault.
struct Scan<'v> {
    progress: &'v mut dyn FnMut(u64),
    visit: &'v mut VisitRecord<'v>,
}

impl Visitor for Scan<'_> {
    fn page(&mut self, _: &UnitPlace, _: &[u8], _: Option<usize>) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn row(&mut self, entry: &Record<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        (self.visit)(entry, key, value)
    }

    fn leaf_end(&mut self, place: &UnitPlace) -> Result<()> {
        (self.progress)(place.end());
        Ok(())
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        Err(error)
    }
}
