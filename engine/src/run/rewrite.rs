//! A run written anew, alone: in the newest version of the format, with other pages or another index. For tests; a table writes its runs anew by merging them
//! (`compaction`).

use std::path::Path;

use super::file::RunFile;
use super::{RunInfo, RunOptions, RunWriter};
use crate::error::Result;
use crate::io::Disk;

impl RunFile {
    /// Writes the same entries to `path`, which must not exist, in the newest version; `progress` hears how many bytes of the old file are done. What the run is of, and
    /// what it measures, stays; `options` says the rest. Reads the file once.
    ///
    /// # Errors
    /// As [`RunFile::scan`] and [`RunWriter::push`]; then the new file is to be removed.
    pub(crate) fn rewrite(
        &self,
        disk: &dyn Disk,
        path: &Path,
        options: RunOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<RunInfo> {
        let info = self.info();
        let options =
            RunOptions { measures: info.measures, table_id: info.table_id, is_bottom: info.is_bottom, ..options };
        let mut writer = RunWriter::create(disk, path, options)?;
        self.scan_entries(progress, &mut |key, value, weight| writer.push_entry(key, value, weight))?;
        writer.finish()
    }
}
