//! A place in a table, kept by key: it survives the removal of its row, and knows its offset.

use crate::bounds::Bounds;
use crate::error::Result;
use crate::read::entry::{Entry, Key, Value};
use crate::read::readable::ReadableTable;

/// A place before, at or after rows. Each move and each question reads the version as it is then, so a cursor over a
/// transaction or a table sees later writes. A move costs one descent.
///
/// ```
/// # fn main() -> quipu::Result<()> {
/// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
/// use quipu::{ReadableTable, WritableTable};
/// let table = db.ensure_table("t")?;
/// for key in ["a", "b", "c"] {
///     table.put(key, "")?;
/// }
/// let mut cursor = table.cursor();
/// assert!(cursor.seek("b")?);
/// assert_eq!(cursor.offset()?, 1);
/// table.remove("b")?;
/// assert!(cursor.next()?); // from where "b" was
/// assert_eq!(cursor.key().map(|key| &**key), Some(&b"c"[..]));
/// assert_eq!(cursor.offset()?, 1);
/// # Ok(())
/// # }
/// ```
pub struct Cursor<'r, R: ReadableTable> {
    reader: &'r R,
    place: CursorPlace,
}

enum CursorPlace {
    Start,
    At(Entry),
    End,
}

impl<'r, R: ReadableTable> Cursor<'r, R> {
    pub(crate) fn new(reader: &'r R) -> Self {
        Cursor { reader, place: CursorPlace::Start }
    }

    /// Moves to the first row with a key of at least `key`. Returns whether there is one.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let entry = self.reader.range(key.as_ref()..).first_chunk(1).next().transpose()?;
        self.stand_at(entry, CursorPlace::End)
    }

    /// Moves to the row with `offset` rows before it. Returns whether there is one.
    pub fn seek_offset(&mut self, offset: u64) -> Result<bool> {
        let entry = self.reader.nth(.., offset)?;
        self.stand_at(entry, CursorPlace::End)
    }

    /// Moves to the next row: the first above the current key, whether or not that still exists. Returns whether there
    /// is one.
    #[expect(clippy::should_implement_trait, reason = "a move, not an iterator: it can go back, and it can fail")]
    pub fn next(&mut self) -> Result<bool> {
        let entry = match &self.place {
            CursorPlace::Start => self.reader.first()?,
            CursorPlace::At(entry) => {
                let mut bounds = Bounds::from(..).into_owned();
                bounds.set_start_after(&entry.key);
                self.reader.range(bounds).first_chunk(1).next().transpose()?
            }
            CursorPlace::End => None,
        };
        self.stand_at(entry, CursorPlace::End)
    }

    /// Moves to the previous row: the last below the current key. Returns whether there is one.
    pub fn prev(&mut self) -> Result<bool> {
        let entry = match &self.place {
            CursorPlace::Start => None,
            CursorPlace::At(entry) => self.reader.range(..&*entry.key).first_chunk(1).next_back().transpose()?,
            CursorPlace::End => self.reader.last()?,
        };
        self.stand_at(entry, CursorPlace::Start)
    }

    fn stand_at(&mut self, entry: Option<Entry>, otherwise: CursorPlace) -> Result<bool> {
        self.place = entry.map_or(otherwise, CursorPlace::At);
        Ok(matches!(self.place, CursorPlace::At(_)))
    }

    /// The key at the place, as of the last move; `None` before the first and after the last row.
    pub fn key(&self) -> Option<&Key> {
        match &self.place {
            CursorPlace::At(entry) => Some(&entry.key),
            CursorPlace::Start | CursorPlace::End => None,
        }
    }

    /// The value at the place, as of the last move.
    pub fn value(&self) -> Option<&Value> {
        match &self.place {
            CursorPlace::At(entry) => Some(&entry.value),
            CursorPlace::Start | CursorPlace::End => None,
        }
    }

    /// The current number of rows before the place.
    pub fn offset(&self) -> Result<u64> {
        match &self.place {
            CursorPlace::Start => Ok(0),
            CursorPlace::At(entry) => self.reader.rank(&*entry.key),
            CursorPlace::End => self.reader.len(),
        }
    }
}
