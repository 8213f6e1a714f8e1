//! Loads missing pages of a run: pages close together in the file come with one read, each checked.
//!
//! The leaves of a charged range are neighbours, except for filters and nodes between them: without this each would be
//! a request of its own.
//!
//! Invariants:
//! 1. Pieces read together are checked like pieces read alone; passing values when the reader takes them.
//! 2. If a read of several pieces fails, each is read on its own: a bad place in the file fails only the readers that
//!    need it.
//!
//! Cost: one read for pieces with gaps of at most [`GAP_BYTES_MAX`] between them, up to [`SPAN_BYTES_MAX`] in all, and
//! one more copy of their bytes; one read for any other piece. Not here: what is wanted (`page_cache`), what pieces
//! must be (`file`).

use std::ops::Range;

use crate::error::Result;
use crate::page::UnitBuffer;
use crate::run::file::RunFile;
use crate::run::format::{Pointer, ValueReference};
use crate::run::loaded::Loaded;
use crate::run::place::UnitPlace;

/// The largest gap between pieces that is read with them: a disk reads over it faster than it answers one more request.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// The most bytes from the start of the first piece to the end of the last in one read.
const SPAN_BYTES_MAX: u64 = 1 << 20;

/// A piece of a run's file that must be in memory.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    Page(UnitPlace),
    Filter(Pointer),
    Value(ValueReference),
    /// A value that is not kept in the cache.
    PassingValue(ValueReference),
    /// Several of these, unchecked.
    Passed(Passed),
}

/// Consecutive values of one leaf, none of them packed.
#[derive(Clone, Copy)]
pub(crate) struct Passed {
    /// Where the leaf is.
    pub(crate) leaf: u64,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    /// How many there are.
    pub(crate) count: u64,
}

impl Passed {
    pub(crate) fn extent(&self) -> Range<u64> {
        self.offset..self.end
    }
}

impl Wanted {
    /// Its range in the file.
    fn extent(&self) -> Range<u64> {
        let of = |pointer: &Pointer| pointer.offset..pointer.offset + u64::from(pointer.length);
        match self {
            Wanted::Page(place) => of(&place.pointer),
            Wanted::Filter(pointer) => of(pointer),
            Wanted::Value(reference) | Wanted::PassingValue(reference) => {
                reference.offset..reference.end().unwrap_or(reference.offset)
            }
            Wanted::Passed(values) => values.extent(),
        }
    }
}

/// A stretch of a file in memory.
struct Span {
    start: u64,
    bytes: Vec<u8>,
}

impl Span {
    /// `len` bytes from `offset` of the file, which the span contains.
    fn at(&self, offset: u64, len: usize) -> &[u8] {
        &self.bytes[(offset - self.start) as usize..][..len]
    }
}

impl RunFile {
    /// Reads and checks all that is `wanted`, in ascending order of offsets, and passes each piece to `take` with its
    /// index.
    ///
    /// # Errors
    /// For the first unsound piece; those before have been passed on: [`Corrupt`](crate::ErrorKind::Corrupt) if some
    /// bytes are not those that were written, and errors of the disk.
    pub(crate) fn fetch(&self, wanted: &[Wanted], mut take: impl FnMut(usize, Loaded)) -> Result<()> {
        let mut number = 0;
        while number < wanted.len() {
            let (count, extent) = close_together(&wanted[number..]);
            let span = if count > 1 { self.read_span(extent) } else { None };
            for piece in &wanted[number..number + count] {
                take(number, self.load_wanted(piece, span.as_ref())?);
                number += 1;
            }
        }
        Ok(())
    }

    /// The bytes of `extent`, if they can be read.
    fn read_span(&self, extent: Range<u64>) -> Option<Span> {
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        self.read(&mut bytes, extent.start).ok()?;
        Some(Span { start: extent.start, bytes })
    }

    /// Checks a piece and returns it in the form its reader needs: from `span`, which has it, or from the file.
    fn load_wanted(&self, wanted: &Wanted, span: Option<&Span>) -> Result<Loaded> {
        let Range { start, end } = wanted.extent();
        let len = (end - start) as usize;
        let bytes = || match span {
            Some(span) => Ok(span.at(start, len).to_vec()),
            None => {
                let mut bytes = vec![0; len];
                self.read(&mut bytes, start).map(|()| bytes)
            }
        };
        let unit = || match span {
            Some(span) => Ok(UnitBuffer::copy_of(span.at(start, len))),
            None => {
                let mut buffer = UnitBuffer::new(len);
                self.read(buffer.as_mut_slice(), start).map(|()| buffer)
            }
        };
        match wanted {
            // If one of them cannot be read, only readers of that one fail.
            Wanted::Passed(_) => Ok(Loaded::Value(bytes().unwrap_or_default())),
            Wanted::Page(place) => self.page_in(place, unit()?),
            Wanted::Filter(pointer) => self.filter_in(pointer, unit()?).map(Loaded::Filter),
            Wanted::Value(reference) | Wanted::PassingValue(reference) => {
                let mut value = bytes()?;
                self.check_value(reference, &value)?;
                if reference.packed_bytes > 0 {
                    let mut plain = Vec::new();
                    self.value_in(reference, &value, &mut plain)?;
                    return Ok(Loaded::Value(plain));
                }
                value.truncate(reference.length as usize);
                Ok(Loaded::Value(value))
            }
        }
    }
}

/// How many of the first pieces come with one read, and their range in the file.
fn close_together(wanted: &[Wanted]) -> (usize, Range<u64>) {
    let mut together = wanted[0].extent();
    let mut count = 1;
    for piece in &wanted[1..] {
        let extent = piece.extent();
        let is_close = extent.start <= together.end + GAP_BYTES_MAX;
        if !is_close || extent.end - together.start > SPAN_BYTES_MAX {
            break;
        }
        together.end = together.end.max(extent.end);
        count += 1;
    }
    (count, together)
}
