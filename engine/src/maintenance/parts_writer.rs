//! Writes the files of one run: merges do, and ingests.
//!
//! The files are protected from removal until [`PartsWriter::end`]. After an error the caller removes them.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::declaration::Declaration;
use crate::error::{Error, Result};
use crate::page::KeyBuffer;
use crate::run::{Part, Run, RunFile, RunWriter};
use crate::state::shared::Shared;
use crate::tally::Tally;

/// About the most files of a run, not counting those that merges keep.
pub(super) const FILES_MAX: u64 = 256;

/// Writes a run as files of about the same size, beside kept files.
pub(crate) struct PartsWriter<S> {
    shared: S,
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

impl<S: Deref<Target = Shared>> PartsWriter<S> {
    /// A writer of a run of a table, with files of some `file_bytes`. The run lies below all others if `is_bottom`.
    pub(crate) fn new(shared: S, declaration: &Arc<Declaration>, is_bottom: bool, file_bytes: u64) -> PartsWriter<S> {
        PartsWriter {
            shared,
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
        let shared = &*self.shared;
        let (name, number) = shared.checkpoints.begin_run(self.declaration.id);
        let path = shared.dir.join(&name);
        self.written.push(name);
        let options = shared.run_options(&self.declaration, number, self.is_bottom);
        let writer = RunWriter::create(&*shared.options.disk, &path, options)?;
        self.writer = Some((writer, KeyBuffer::from_slice(low), path));
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((writer, low, path)) = self.writer.take() else { return Ok(()) };
        writer.finish()?;
        let file = RunFile::open(&*self.shared.options.disk, &path)?;
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
        let (shared, dir) = (&*self.shared, &self.shared.dir);
        shared.check_law(&self.declaration, expected, run.info().total.tally)?;
        shared.options.disk.sync_dir(dir).map_err(|error| Error::io("cannot sync directory", dir, error))?;
        Ok(Arc::new(run))
    }

    /// Removes the files written, as far as that is possible. What stays is removed by a later job.
    pub(crate) fn remove_files(&mut self) {
        self.writer = None;
        let (disk, dir) = (&self.shared.options.disk, &self.shared.dir);
        self.written.iter().for_each(|name| drop(disk.remove(&dir.join(name))));
    }

    /// Ends the protection of the files: the manifest names them, or they were given up.
    pub(crate) fn end(&mut self) {
        let names = std::mem::take(&mut self.written);
        names.iter().for_each(|name| self.shared.checkpoints.end_run(name));
    }
}
