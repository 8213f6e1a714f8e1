//! Parts of the engine for its benchmarks: the tree alone, with and without tallies, and a run alone. No promise of stability.

use std::path::Path;
use std::sync::Arc;

use crate::compression::Compression;
use crate::error::Result;
use crate::io::RealDisk;
use crate::run::{Index, PageCache, ReadPages, Run, RunLayer, RunOptions, RunShape, RunWriter};
use crate::stack::{Cut, Stack};
use crate::tally::Measures;
use crate::tree::{Arena, Tree, When, Written};

/// A tree in memory, without log, transactions or locks.
pub struct BareTree {
    tree: Tree,
}

impl BareTree {
    /// A tree that measures as told; `None`: without any tallies, the baseline of the cost of counting.
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

/// A run in a file, and a cache of its pages.
pub struct BareRun {
    run: Arc<Run>,
    cache: PageCache,
}

/// An answer, and how many pages were read from the file for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The rows, the rank, or the length of the value or key that was asked for.
    pub answer: u64,
    /// Pages read from the file.
    pub pages_read: u64,
}

impl BareRun {
    /// Writes a bottom run of rows in ascending order of their keys, which `next` gives.
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

    /// Writes the same rows under a flat index.
    pub fn write_flat(&self, path: &Path) -> Result<()> {
        let options =
            RunOptions { page_bytes: self.run.info().page_bytes, index: Index::Flat, ..RunOptions::default() };
        self.run.rewrite(&RealDisk, path, options, &mut |_| ()).map(|_| ())
    }

    /// Opens a run with a cache of `cache_bytes`.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<BareRun> {
        Ok(BareRun { run: Arc::new(Run::open(&RealDisk, path)?), cache: PageCache::new(cache_bytes) })
    }

    /// How many pages of which kind it has.
    pub fn shape(&self) -> Result<RunShape> {
        self.run.shape()
    }

    /// Asks as a reader of its own.
    fn ask(&self, ask: impl for<'a> Fn(&Stack<'a, RunLayer<'a>>, &'a ReadPages<'a>) -> Result<u64>) -> Result<Answer> {
        let pages = ReadPages::new(&self.cache);
        let stack = Stack::new(smallvec::smallvec![RunLayer::new(&self.run, &pages)], Measures::ROWS);
        let answer = ask(&stack, &pages)?;
        Ok(Answer { answer, pages_read: pages.cost().pages_read })
    }

    /// The length of a value, 0 if there is none.
    pub fn get(&self, key: &[u8]) -> Result<Answer> {
        self.ask(|stack, pages| pages.answer(|| Ok(stack.get(key)?.map_or(0, |value| value.len() as u64))))
    }

    /// Rows below a key.
    pub fn rank(&self, key: &[u8]) -> Result<Answer> {
        self.ask(|stack, pages| pages.answer(|| stack.rows_before(Cut::Before(key))))
    }

    /// Rows of a range.
    pub fn count(&self, from: &[u8], to: &[u8]) -> Result<Answer> {
        self.ask(|stack, pages| pages.answer(|| stack.count(Cut::Before(from), Cut::Before(to))))
    }

    /// The length of the key at an offset.
    pub fn nth(&self, offset: u64) -> Result<Answer> {
        self.ask(|stack, pages| pages.answer(|| Ok(stack.nth(offset)?.map_or(0, |row| row.key.len() as u64))))
    }

    /// Reads everything, and tells how many rows there are.
    pub fn scan(&self) -> Result<u64> {
        let mut rows = 0;
        self.run.scan(&mut |_| (), &mut |_, _| {
            rows += 1;
            Ok(())
        })?;
        Ok(rows)
    }
}
