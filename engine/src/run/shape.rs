//! The shape of a run: its pages of each kind and their bytes.

use super::columns::Inner;
use super::file::RunFile;
use super::place::UnitPlace;
use super::scan::Visitor;
use crate::error::{Error, Result};
use crate::page::Record;

/// Pages of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunShape {
    /// Pages from the root to a leaf.
    pub levels: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of the leaves in the file, without long values.
    pub leaf_bytes: u64,
    /// Inner pages.
    pub inner_pages: u64,
    /// Bytes of the inner pages. For bytes by child, divide by the number of pages without the root.
    pub inner_bytes: u64,
    /// Filters over leaves.
    pub filters: u64,
    /// Bytes of the filters.
    pub filter_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl RunFile {
    /// Counts the pages. Reads the whole file.
    ///
    /// # Errors
    /// Those of [`RunFile::scan`].
    pub(crate) fn shape(&self) -> Result<RunShape> {
        let info = self.info();
        let mut shape = RunShape { levels: info.levels as u64, file_bytes: info.bytes, ..RunShape::default() };
        self.walk(&mut shape)?;
        Ok(shape)
    }
}

impl Visitor for RunShape {
    fn page(&mut self, place: &UnitPlace, _: &[u8], _: Option<usize>) -> Result<()> {
        let (pages, bytes) = if place.level == 0 {
            (&mut self.leaves, &mut self.leaf_bytes)
        } else {
            (&mut self.inner_pages, &mut self.inner_bytes)
        };
        *pages += 1;
        *bytes += u64::from(place.pointer.length);
        Ok(())
    }

    fn inner(&mut self, _: &UnitPlace, page: &Inner<'_>) -> Result<()> {
        self.filters += page.filters().filter(|part| !part.bytes.is_empty()).count() as u64;
        self.filter_bytes += u64::from(page.filter_bytes());
        Ok(())
    }

    fn row(&mut self, _: &Record<'_>, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn leaf_end(&mut self, _: &UnitPlace) -> Result<()> {
        Ok(())
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        Err(error)
    }
}
