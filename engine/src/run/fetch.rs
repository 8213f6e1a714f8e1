//! Loading what a reader lacks of a run: what stands close together in the file comes by one read, and is checked piece by piece.
//!
//! The leaves of a charged range are neighbours, but for filters and nodes between them: without this each would be a request of its own.
//!
//! Invariants:
//! 1. What comes together is checked as what comes alone; values that a reader passes, when it takes them.
//! 2. Where a read of several pieces fails, each is read on its own: a bad place in the file is an error for who wants it and nobody else.
//!
//! Costs: one read for pieces with gaps of at most [`GAP_BYTES_MAX`] between them, up to [`SPAN_BYTES_MAX`] in all, and one copy more of their bytes; one read for any other.
//! Not here: what is wanted (`pages`), what pieces must be (`file`).

use std::ops::Range;

use super::file::{Loaded, Place, RunFile};
use super::format::{Pointer, ValueReference};
use crate::error::Result;
use crate::page::UnitBuffer;

/// Bytes that nobody wants are read too if they are at most so many: a disk passes over them sooner than it answers one more request.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Pieces that end within so many bytes come together.
const SPAN_BYTES_MAX: u64 = 1 << 20;

/// A piece of a run's file that is to be in memory.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Page(Place),
    Filter(Pointer),
    Value(ValueReference),
    /// One that is not to be kept in the cache.
    PassingValue(ValueReference),
    /// Several of them, unchecked.
    Passed(Passed),
}

/// Values of one leaf that stand behind each other, none of them packed.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    /// Where the leaf is.
    pub(super) leaf: u64,
    pub(super) offset: u64,
    pub(super) end: u64,
    /// How many there are.
    pub(super) count: u64,
}

impl Passed {
    pub(super) fn extent(&self) -> Range<u64> {
        self.offset..self.end
    }
}

impl Wanted {
    /// Where it stands in the file.
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
    /// `len` bytes from `offset` of the file, which are among these.
    fn at(&self, offset: u64, len: usize) -> &[u8] {
        &self.bytes[(offset - self.start) as usize..][..len]
    }
}

impl RunFile {
    /// Reads and checks all that is `wanted`, in ascending order of offsets, and gives each to `take`, with its number.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if some bytes are not those that were written, what the disk says: for the first piece that is not sound; those
    /// before have been given.
    pub(super) fn fetch(&self, wanted: &[Wanted], mut take: impl FnMut(usize, Loaded)) -> Result<()> {
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

    /// What stands at `extent`, if it can be read.
    fn read_span(&self, extent: Range<u64>) -> Option<Span> {
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        self.read(&mut bytes, extent.start).ok()?;
        Some(Span { start: extent.start, bytes })
    }

    /// Checks a piece and gives it as its reader needs it: out of `span`, which has it, or from the file.
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
            // If one of them cannot be read, that is an error for who wants that one.
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

/// How many of the first pieces are to come by one read, and where they stand.
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
