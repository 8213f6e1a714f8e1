//! The rows of a range as a double-ended iterator, read in chunks that grow.

use std::ops::Range;

use crate::bounds::Bounds;
use crate::error::Result;
use crate::read::entry::{Entry, Key};
use crate::read::observation::Question;
use crate::read::reader::{Fill, Reader};

/// Rows of the first chunk of a range, and of the largest.
const CHUNK_FIRST: usize = 8;
const CHUNK_MAX: usize = 256;
/// The factor by which a chunk grows, at most.
const CHUNK_GROWTH: usize = 16;
const CHUNK_AT_ONCE_MAX: usize = 4096;
/// Bytes of keys and values from which on a chunk takes no further row, so that long values do not fill memory.
const CHUNK_BYTES: usize = 1 << 20;

/// Calls `visit` with the first `rows` rows from one end, or until it returns false, and notes exactly the range they
/// came from as read.
pub(crate) fn scan_first(
    reader: &impl Reader,
    bounds: &Bounds<'_>,
    reverse: bool,
    rows: u64,
    mut visit: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    let (mut left, mut last) = (rows, None);
    reader.read_rows_from(|source| {
        source.scan_first(rows, bounds.start(), bounds.end(), reverse, |key, value| {
            left -= 1;
            let goes_on = visit(key, value) && left > 0;
            if !goes_on {
                last = Some(Key::from(key));
            }
            goes_on
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

/// [`Fill::fill`] for any reader.
pub(crate) fn fill_from(
    reader: &impl Reader,
    bounds: &Bounds<'_>,
    reverse: bool,
    max: usize,
    rows: &mut Chunk,
) -> Result<()> {
    scan_first(reader, bounds, reverse, max as u64, |key, value| rows.push(key, value))
}

impl<R: Reader> Fill for &R {
    fn fill(&self, bounds: &Bounds<'_>, reverse: bool, max: usize, rows: &mut Chunk) -> Result<()> {
        fill_from(*self, bounds, reverse, max, rows)
    }
}

/// Rows that were read together, in one buffer.
#[derive(Default)]
#[doc(hidden)]
pub struct Chunk {
    /// Keys and values of all rows, concatenated.
    bytes: Vec<u8>,
    /// Where in `bytes` the key begins, the value begins, and the value ends.
    rows: Vec<[usize; 3]>,
    /// The rows that were not taken yet.
    left: Range<usize>,
    /// Whether there was no room for a further row.
    is_full: bool,
}

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.left = 0..0;
        self.is_full = false;
    }

    /// Adds a row. Returns whether there is room for a further one.
    fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push([start, start + key.len(), self.bytes.len()]);
        self.left.end = self.rows.len();
        self.is_full = self.bytes.len() >= CHUNK_BYTES;
        !self.is_full
    }

    fn row(&self, number: usize) -> (&[u8], &[u8]) {
        let [key, value, end] = self.rows[number];
        (&self.bytes[key..value], &self.bytes[value..end])
    }

    #[inline]
    fn take_first(&mut self) -> Option<(&[u8], &[u8])> {
        let number = self.left.next()?;
        Some(self.row(number))
    }

    #[inline]
    fn take_last(&mut self) -> Option<(&[u8], &[u8])> {
        let number = self.left.next_back()?;
        Some(self.row(number))
    }
}

/// The rows of a range of `source`, from either end, a chunk at a time.
pub(crate) struct Chunks<F> {
    source: F,
    bounds: Bounds<'static>,
    front: Chunk,
    back: Chunk,
    chunk: usize,
    done: bool,
    /// Whether the caller's front is the range's back.
    is_reversed: bool,
}

impl<F: Fill> Chunks<F> {
    pub(crate) fn new(source: F, bounds: Bounds<'static>) -> Chunks<F> {
        let (front, back) = (Chunk::default(), Chunk::default());
        Chunks { source, bounds, front, back, chunk: CHUNK_FIRST, done: false, is_reversed: false }
    }

    /// Exchanges the ends.
    pub(crate) fn reversed(mut self) -> Self {
        self.is_reversed = !self.is_reversed;
        self
    }

    /// Sets the number of rows in the first chunk.
    pub(crate) fn first_chunk(mut self, rows: usize) -> Self {
        self.chunk = rows.clamp(1, CHUNK_AT_ONCE_MAX);
        self
    }

    /// Reads the next chunk at one end whose chunk is used up, and removes it from the bounds.
    fn refill(&mut self, reverse: bool) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let rows = if reverse { &mut self.back } else { &mut self.front };
        rows.clear();
        // An error ends the iteration.
        self.done = true;
        self.source.fill(&self.bounds, reverse, self.chunk, rows)?;
        self.done = rows.rows.len() < self.chunk && !rows.is_full;
        if let Some(last) = rows.rows.len().checked_sub(1) {
            let (last, _) = rows.row(last);
            if reverse {
                self.bounds.set_end_before(last);
            } else {
                self.bounds.set_start_after(last);
            }
        }
        self.chunk = (self.chunk * CHUNK_GROWTH).clamp(CHUNK_FIRST, CHUNK_MAX);
        Ok(())
    }

    /// Lends the next row from the caller's front, or from its back.
    #[inline]
    fn lend(&mut self, from_back: bool) -> Result<Option<(&[u8], &[u8])>> {
        let reverse = from_back != self.is_reversed;
        let is_out = if reverse { self.back.left.is_empty() } else { self.front.left.is_empty() };
        if is_out {
            self.refill(reverse)?;
        }
        // Nothing is left between the ends: take the rest of the other end's chunk.
        let (near, far) = if reverse { (&mut self.back, &mut self.front) } else { (&mut self.front, &mut self.back) };
        Ok(if near.left.is_empty() { far.take_last() } else { near.take_first() })
    }

    #[inline]
    pub(crate) fn take(&mut self, from_back: bool) -> Option<Result<Entry>> {
        self.lend(from_back).map(|row| row.map(|(key, value)| Entry::new(key, value))).transpose()
    }

    #[inline]
    pub(crate) fn lend_next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.lend(false)
    }

    #[inline]
    pub(crate) fn lend_next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.lend(true)
    }
}

/// The rows of a range, from either end. Made by [`ReadableTable::range`](crate::ReadableTable::range).
pub struct Rows<'r>(Chunks<Box<dyn Fill + 'r>>);

impl<'r> Rows<'r> {
    /// The rows of `source` within `bounds`.
    pub(crate) fn new(source: Box<dyn Fill + 'r>, bounds: Bounds<'static>) -> Rows<'r> {
        Rows(Chunks::new(source, bounds))
    }

    /// Reads this many rows with the first chunk, at most 4096. Use it if you know about how many rows you want: then
    /// they need one chunk instead of several. [`Rows::take`] does so by itself.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let table = db.ensure_table("t")?;
    /// table.put("a", "1")?;
    /// let rows: Vec<_> = table.range(..).first_chunk(100).take_while(Result::is_ok).collect::<quipu::Result<_>>()?;
    /// assert_eq!(rows.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_chunk(self, rows: usize) -> Self {
        Rows(self.0.first_chunk(rows))
    }

    /// Like [`Iterator::rev`]: the last row comes first.
    pub fn rev(self) -> Self {
        Rows(self.0.reversed())
    }

    /// Like [`Iterator::take`], and reads no more rows than that, the first 4096 of them at once.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let table = db.ensure_table("t")?;
    /// (0..1000u32).try_for_each(|number| table.put(number.to_be_bytes(), ""))?;
    /// let last: Vec<_> = table.range(..).rev().take(10).collect::<quipu::Result<_>>()?;
    /// assert_eq!(last[0].key[..], 999u32.to_be_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(self, rows: usize) -> std::iter::Take<Self> {
        Iterator::take(self.first_chunk(rows), rows)
    }

    /// The next row, lent until the next call. Unlike [`Iterator::next`] it copies nothing into a new value.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let table = db.ensure_table("t")?;
    /// table.put("a", "12")?;
    /// table.put("b", "3")?;
    /// let (mut rows, mut bytes) = (table.range(..), 0);
    /// while let Some((_key, value)) = rows.lend_next()? {
    ///     bytes += value.len();
    /// }
    /// assert_eq!(bytes, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading a page of a run. After an error there are no more rows.
    pub fn lend_next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.lend_next()
    }

    /// Like [`Rows::lend_next`], from the other end.
    ///
    /// # Errors
    /// Those of [`Rows::lend_next`].
    pub fn lend_next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.lend_next_back()
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        self.0.take(false)
    }
}

impl DoubleEndedIterator for Rows<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.0.take(true)
    }
}

impl std::iter::FusedIterator for Rows<'_> {}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A range without an end, which notes how many rows each chunk asked for.
    struct Endless<'n>(&'n RefCell<Vec<usize>>);

    impl Fill for Endless<'_> {
        fn fill(&self, _bounds: &Bounds<'_>, _reverse: bool, max: usize, rows: &mut Chunk) -> Result<()> {
            self.0.borrow_mut().push(max);
            for _ in 0..max {
                rows.push(b"key", b"value");
            }
            Ok(())
        }
    }

    /// `take(4096)` of long values read all of them into one buffer.
    #[test]
    fn long_values_are_read_a_few_at_a_time_and_all_of_them() {
        let db = crate::Db::open("/db", crate::Options::without_files()).unwrap();
        let table = db.ensure_table("t").unwrap();
        for number in 0..20u8 {
            crate::WritableTable::put(&table, [number], vec![number; CHUNK_BYTES / 3]).unwrap();
        }
        let range = || crate::ReadableTable::range(&table, ..);
        for (rows, in_order) in [(range(), true), (range().rev(), false)] {
            let mut rows = rows.first_chunk(100);
            let (mut keys, mut most) = (Vec::new(), 0);
            while let Some((key, _)) = rows.lend_next().unwrap() {
                keys.push(key[0]);
                most = most.max(rows.0.front.bytes.len()).max(rows.0.back.bytes.len());
            }
            let expected: Vec<u8> = if in_order { (0..20).collect() } else { (0..20).rev().collect() };
            assert_eq!(keys, expected);
            assert!(most <= CHUNK_BYTES / 3 * 4 + 4, "{most} bytes in a chunk");
        }
        assert_eq!(range().take(7).count(), 7);
        let (mut both, mut taken) = (range(), 0);
        while both.next().is_some() && both.next_back().is_some() {
            taken += 2;
        }
        assert_eq!(taken, 20);
    }

    /// `take(100)` read 136 rows in two chunks.
    #[test]
    fn what_is_taken_is_read_in_one_chunk_and_no_more_of_it() {
        let asked = RefCell::new(Vec::new());
        let rows = || Rows::new(Box::new(Endless(&asked)), Bounds::from(..).into_owned());
        assert_eq!(rows().take(100).count(), 100);
        assert_eq!(rows().take(0).count(), 0);
        assert_eq!(rows().rev().take(3).count(), 3);
        assert_eq!(*asked.borrow(), [100, 3]);
        assert_eq!(rows().take(5000).count(), 5000);
        assert_eq!(asked.take()[2..], [CHUNK_AT_ONCE_MAX, CHUNK_MAX, CHUNK_MAX, CHUNK_MAX, CHUNK_MAX]);
    }
}
