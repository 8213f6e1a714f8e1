//! Rewrites a single run in the newest format, for tests; tables merge their runs (`compaction`).

use std::path::Path;

use crate::error::Result;
use crate::io::Disk;
use crate::run::{RunFile, RunInfo, RunOptions, RunWriter};

impl RunFile {
    /// Writes the same entries to `path`, which must not exist, in the newest version; `progress` gets how many bytes
    /// of the old file are done. Table, number and measures stay; `options` gives the rest. Reads the file once.
    ///
    /// # Errors
    /// Those of [`RunFile::scan`] and [`RunWriter::push`]; then the caller must remove the new file.
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
