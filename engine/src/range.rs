//! The rows of a range as an iterator from either end, read chunk by chunk: few rows at first, for who wants no more.

use std::collections::VecDeque;

use crate::bounds::Bounds;
use crate::entry::{Entry, Key};
use crate::error::Result;
use crate::observation::Question;
use crate::read::Read;

/// Rows of the first chunk of a range, and of the largest.
const CHUNK_FIRST: usize = 8;
const CHUNK_MAX: usize = 256;
const CHUNK_AT_ONCE_MAX: usize = 4096;

/// A version that a range is read from, chunk by chunk.
#[doc(hidden)]
pub trait Fill {
    /// Appends up to `max` rows from one end of the bounds.
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut VecDeque<Entry>) -> Result<()>;
}

/// Calls `visit` with the first `rows` rows from one end, and notes that exactly the range they came from was read.
pub(crate) fn scan_first(
    reader: &impl Read,
    bounds: &Bounds<'_>,
    reverse: bool,
    rows: u64,
    mut visit: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    let (mut left, mut last) = (rows, None);
    reader.read_from(|source| {
        source.scan_first(rows, bounds.start(), bounds.end(), reverse, |key, value| {
            visit(key, value);
            left -= 1;
            if left == 0 {
                last = Some(Key::from(key));
            }
            left > 0
        })
    })?;
    reader.observe(|| {
        let read = bounds.clone().into_owned();
        Question::Scan(match &last {
            Some(last) => read.cut_at(&Bounds::from(&**last..=&**last).into_owned(), reverse),
            None => read,
        })
    })
}

/// Fills from anything that can be asked.
pub(crate) fn fill_from(
    reader: &impl Read,
    bounds: &Bounds<'_>,
    reverse: bool,
    max: usize,
    rows: &mut VecDeque<Entry>,
) -> Result<()> {
    scan_first(reader, bounds, reverse, max as u64, |key, value| rows.push_back(Entry::new(key, value)))
}

impl<R: Read> Fill for &R {
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut VecDeque<Entry>) -> Result<()> {
        fill_from(*self, bounds, reverse, max, rows)
    }
}

/// The rows of a range, from either end. Made by [`Read::range`].
pub struct Range<'r> {
    source: Box<dyn Fill + 'r>,
    bounds: Bounds<'static>,
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    chunk: usize,
    done: bool,
}

impl<'r> Range<'r> {
    /// The rows within `bounds` that `source` has.
    pub(crate) fn new(source: Box<dyn Fill + 'r>, bounds: Bounds<'static>) -> Range<'r> {
        Range { source, bounds, front: VecDeque::new(), back: VecDeque::new(), chunk: CHUNK_FIRST, done: false }
    }

    /// Reads so many rows with the first chunk, up to 4096: for who knows how many are wanted, and would else wait for several chunks.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::in_memory())?;
    /// use quipu::{Read, Write};
    /// let table = db.table("t")?;
    /// table.put("a", "1")?;
    /// let rows: Vec<_> = table.range(..).at_once(100).take(100).collect::<quipu::Result<_>>()?;
    /// assert_eq!(rows.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn at_once(mut self, rows: usize) -> Self {
        self.chunk = rows.clamp(1, CHUNK_AT_ONCE_MAX);
        self
    }

    /// Reads the next chunk at one end, and takes it off the bounds.
    fn refill(&mut self, reverse: bool) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let rows = if reverse { &mut self.back } else { &mut self.front };
        self.source.fill(&self.bounds, reverse, self.chunk, rows)?;
        self.done = rows.len() < self.chunk;
        if let Some(last) = rows.back() {
            if reverse {
                self.bounds.set_end_before(&last.key);
            } else {
                self.bounds.set_start_after(&last.key);
            }
        }
        self.chunk = (self.chunk * 2).clamp(CHUNK_FIRST, CHUNK_MAX);
        Ok(())
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        if self.front.is_empty()
            && let Err(error) = self.refill(false)
        {
            self.done = true;
            return Some(Err(error));
        }
        // Between the ends nothing is left: the rest was read from the other end.
        self.front.pop_front().or_else(|| self.back.pop_back()).map(Ok)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        if self.back.is_empty()
            && let Err(error) = self.refill(true)
        {
            self.done = true;
            return Some(Err(error));
        }
        self.back.pop_front().or_else(|| self.front.pop_back()).map(Ok)
    }
}
