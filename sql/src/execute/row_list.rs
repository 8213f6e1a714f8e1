//! Rows that are kept in the order in which they come, and read any number of times: in memory as long as they fit, the
//! rest in a temporary file.

use crate::error::Result;
use crate::execute::context::Running;
use crate::row_files::{Part, RowFile, RowReader};
use crate::types::datum::Datum;

/// Rows that are kept.
#[derive(Default)]
pub struct RowList {
    rows: Vec<Vec<Datum>>,
    /// What they take.
    bytes: usize,
    /// The rows after those.
    file: Option<(RowFile, Part)>,
    count: usize,
}

/// Where a reader of a [`RowList`] is.
#[derive(Default)]
pub struct RowListCursor {
    place: usize,
    /// Reads those that are in the file.
    reader: Option<RowReader>,
    /// The last row that was read from it.
    row: Vec<Datum>,
}

/// Rows that are in memory, and are counted by what keeps them.
impl From<Vec<Vec<Datum>>> for RowList {
    fn from(rows: Vec<Vec<Datum>>) -> RowList {
        RowList { count: rows.len(), rows, ..RowList::default() }
    }
}

impl RowList {
    /// Adds a row, after all others. None is added after the first was read.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](crate::SqlState::OUT_OF_MEMORY) if it does not fit into memory and no file can be made; those
    /// of writing files.
    pub(crate) fn push(&mut self, row: Vec<Datum>, state: &Running) -> Result<()> {
        self.count += 1;
        if self.file.is_none() {
            if let Some(bytes) = state.try_keep_or_spill(&row, self.bytes) {
                self.bytes += bytes;
                self.rows.push(row);
                return Ok(());
            }
            self.file = Some((state.row_file(1)?, 0..0));
        }
        self.file.as_mut().map_or(Ok(()), |(file, _)| file.push(&row))
    }

    /// Ends the adding of rows.
    ///
    /// # Errors
    /// Those of writing files.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some((file, part)) = &mut self.file {
            *part = 0..file.end_part()?;
        }
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Takes all rows out.
    pub(crate) fn clear(&mut self, state: &Running) {
        state.let_go(self.bytes);
        *self = RowList::default();
    }
}

impl RowListCursor {
    /// The next row, and which one it is.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn next<'r>(&'r mut self, list: &'r RowList) -> Result<Option<(usize, &'r [Datum])>> {
        let place = self.place;
        if place >= list.count {
            return Ok(None);
        }
        self.place += 1;
        if let Some(row) = list.rows.get(place) {
            return Ok(Some((place, row)));
        }
        let Some((file, part)) = &list.file else { return Ok(None) };
        let Some(row) = self.reader.get_or_insert_with(|| RowReader::of(part.clone())).next(file)? else {
            return Ok(None);
        };
        self.row = row;
        Ok(Some((place, &self.row)))
    }
}
