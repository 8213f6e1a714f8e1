//! Parts of the engine for its benchmarks: the tree, with and without tallies, and a run. Unstable.

use std::path::Path;
use std::sync::Arc;

use crate::compression::Compression;
use crate::error::Result;
use crate::io::RealDisk;
use crate::run::{Run, RunFile, RunOptions, RunShape, RunWriter};
use crate::tally::Measures;
use crate::tree::{Arena, Tree, When, Written};

/// A tree in memory, without log, transactions or locks.
pub struct BareTree {
    tree: Tree,
}

impl BareTree {
    /// A tree with these measures; `None`: without any tallies, the baseline of the cost of counting.
    pub fn new(measures: Option<Measures>) -> Result<Self> {
        let arena = Arc::new(Arena::new(4096, 8 << 30)?);
        let tree = match measures {
            None => Tree::uncounted(arena),
            Some(measures) => Tree::new(arena, measures, true),
        };
        Ok(BareTree { tree })
    }

    /// Inserts; false if the key is there.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.tree.put(key, value, When::Absent)?.0 == Written::Inserted)
    }

    /// Replaces; false if the key is not there.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.tree.put(key, value, When::Present)?.0 == Written::Replaced)
    }

    /// Removes; false if the key is not there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.tree.remove(key)?.0 == Written::Removed)
    }

    /// The value.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.tree.view().get(key).and_then(|found| found.value())
    }

    /// Rows.
    pub fn len(&self) -> u64 {
        self.tree.entries()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of pages.
    pub fn page_bytes(&self) -> u64 {
        self.tree.arena().page_bytes_used()
    }
}

/// A run in a file.
pub struct BareRun {
    run: Run,
}

impl BareRun {
    /// Writes a bottom run of the rows that `next` returns in ascending order of their keys.
    pub fn write(
        path: &Path,
        page_bytes: usize,
        compression: Compression,
        next: &mut dyn FnMut() -> Option<([u8; 8], [u8; 100])>,
    ) -> Result<()> {
        let options = RunOptions { page_bytes, compression, ..RunOptions::default() };
        let mut writer = RunWriter::create(&RealDisk, path, options)?;
        while let Some((key, value)) = next() {
            writer.push(&key, &value)?;
        }
        writer.finish().map(|_| ())
    }

    /// Opens a run.
    pub fn open(path: &Path) -> Result<BareRun> {
        Ok(BareRun { run: Run::open(&RealDisk, path)? })
    }

    fn file(&self) -> &RunFile {
        &self.run.files()[0]
    }

    /// The numbers and bytes of its pages, by kind.
    pub fn shape(&self) -> Result<RunShape> {
        self.file().shape()
    }

    /// Reads everything, and returns the number of rows.
    pub fn scan(&self) -> Result<u64> {
        let mut rows = 0;
        self.run.scan(&mut |_, _| {
            rows += 1;
            Ok(())
        })?;
        Ok(rows)
    }
}
