//! Writes the files of one run: merges do, and ingests.
//!
//! The files are protected from removal until [`PartsWriter::end`]. After an error the caller removes them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::declaration::Declaration;
use crate::error::{Error, ErrorKind, Result};
use crate::page::KeyBuffer;
use crate::run::{Part, Run, RunFile, RunOptions, RunWriter};
use crate::state::run_files::RunFiles;
use crate::tally::Tally;

/// About the most files of a run, not counting those that merges keep.
pub(super) const FILES_MAX: u64 = 256;

/// Writes a run as files of about the same size, beside kept files.
pub(crate) struct PartsWriter {
    files: Arc<RunFiles>,
    /// Bytes of a page.
    page_bytes: usize,
    declaration: Arc<Declaration>,
    is_bottom: bool,
    /// The size at which a file ends, in bytes.
    file_bytes: u64,
    /// Bytes of the files written.
    bytes: u64,
    writer: Option<(RunWriter, KeyBuffer, PathBuf)>,
    parts: Vec<Part>,
    /// The names of the files written.
    written: Vec<String>,
}

impl PartsWriter {
    /// A writer of a run of a table, with files of some `file_bytes` and pages of `page_bytes`. The run lies below all
    /// others if `is_bottom`.
    pub(crate) fn new(
        files: &Arc<RunFiles>,
        page_bytes: usize,
        declaration: &Arc<Declaration>,
        is_bottom: bool,
        file_bytes: u64,
    ) -> PartsWriter {
        PartsWriter {
            files: files.clone(),
            page_bytes,
            declaration: declaration.clone(),
            is_bottom,
            file_bytes,
            bytes: 0,
            writer: None,
            parts: Vec::new(),
            written: Vec::new(),
        }
    }

    pub(crate) fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    pub(crate) fn is_bottom(&self) -> bool {
        self.is_bottom
    }

    /// The size at which a file ends, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The names of the files written.
    pub(crate) fn written(&self) -> &[String] {
        &self.written
    }

    /// Appends an entry. Keys ascend.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>, weight: Tally) -> Result<()> {
        if self.writer.as_ref().is_some_and(|(writer, ..)| writer.bytes() >= self.file_bytes) {
            self.end_file()?;
        }
        if self.writer.is_none() {
            self.begin_file(key)?;
        }
        self.writer.as_mut().map_or(Ok(()), |(writer, ..)| writer.push_entry(key, value, weight))
    }

    /// Takes a file of a merged run over as it is.
    pub(crate) fn keep(&mut self, part: Part) -> Result<()> {
        self.end_file()?;
        self.parts.push(part);
        Ok(())
    }

    fn begin_file(&mut self, low: &[u8]) -> Result<()> {
        let (name, number) = self.files.begin_run(self.declaration.id);
        let path = self.files.dir().join(&name);
        self.written.push(name);
        let options = run_options(self.page_bytes, &self.declaration, number, self.is_bottom);
        let writer = RunWriter::create(self.files.disk(), &path, options)?;
        self.writer = Some((writer, KeyBuffer::from_slice(low), path));
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((writer, low, path)) = self.writer.take() else { return Ok(()) };
        writer.finish()?;
        let file = RunFile::open(self.files.disk(), &path)?;
        // Where it is not known how much will come, files become longer as they become many.
        self.bytes += file.info().bytes;
        self.file_bytes = self.file_bytes.max(self.bytes / FILES_MAX);
        self.parts.push(Part { low, file: Arc::new(file) });
        Ok(())
    }

    /// The finished run, on stable storage. `expected` is what it must weigh.
    pub(crate) fn finish(&mut self, expected: Tally) -> Result<Arc<Run>> {
        if self.parts.is_empty() && self.writer.is_none() {
            // A table on disk always has a run, even an empty one.
            self.begin_file(&[])?;
        }
        self.end_file()?;
        let run = Run::of_parts(&self.parts, self.is_bottom);
        check_law(&self.declaration, expected, run.info().total.tally)?;
        self.files.sync_dir()?;
        Ok(Arc::new(run))
    }

    /// Removes the files written, as far as that is possible. What stays is removed by a later job.
    pub(crate) fn remove_files(&mut self) {
        self.writer = None;
        let (disk, dir) = (self.files.disk(), self.files.dir());
        self.written.iter().for_each(|name| drop(disk.remove(&dir.join(name))));
    }

    /// Ends the protection of the files: the manifest names them, or they were given up.
    pub(crate) fn end(&mut self) {
        let names = std::mem::take(&mut self.written);
        names.iter().for_each(|name| self.files.end_run(name));
    }
}

/// The options for writing a run of a table.
pub(super) fn run_options(page_bytes: usize, declaration: &Declaration, number: u64, is_bottom: bool) -> RunOptions {
    RunOptions {
        page_bytes,
        measures: declaration.options.measures,
        table_id: declaration.id,
        run_id: number,
        is_bottom,
        layout: declaration.options.layout,
        compression: declaration.options.compression_of(is_bottom),
        is_read_soon: true,
        ..RunOptions::default()
    }
}

/// Fails if a run does not weigh what it was written from.
pub(super) fn check_law(declaration: &Declaration, expected: Tally, written: Tally) -> Result<()> {
    if written == expected {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        format!(
            "table {:?} tallies {expected:?}, and what was written of it {written:?}: nothing was changed; run `quipu check`",
            declaration.name
        ),
    ))
}
