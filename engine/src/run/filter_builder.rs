//! Builds the filters of one lowest node, each over enough neighbouring leaves to fill about a page.
//!
//! Cost: eight bytes for each key of one filter, and the bytes of all filters of one node.
//! Not here: what a filter is (`filter`); where its leaves are recorded (`node`).

use super::filter::{build, hash_of};
use super::node_builder::NodeBuilder;
use super::output::Output;
use crate::error::Result;

/// Filters under construction or waiting to be written.
pub(super) struct PendingFilters {
    page_bytes: usize,
    /// The hashes of keys that are in no filter yet.
    hashes: Vec<u64>,
    /// The finished filters of the node, concatenated.
    bytes: Vec<u8>,
}

impl PendingFilters {
    pub(crate) fn new(page_bytes: usize) -> PendingFilters {
        PendingFilters { page_bytes, hashes: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a key of the leaf that comes to the node next.
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.hashes.push(hash_of(key));
    }

    /// Ends a leaf, which was added to `node` with all keys so far. Ends the filter if it is large enough.
    pub(super) fn end_leaf(&mut self, node: &mut NodeBuilder) {
        // A filter takes some ten bits for each key.
        if self.hashes.len() * 5 / 4 >= self.page_bytes {
            self.end_filter(node);
        }
    }

    fn end_filter(&mut self, node: &mut NodeBuilder) {
        let start = self.bytes.len();
        build(&mut self.hashes, &mut self.bytes);
        self.hashes.clear();
        // A flat index over billions of entries may have no room for more filters: then the later leaves have none.
        if !node.push_filter(self.bytes.len(), crc32c::crc32c(&self.bytes[start..])) {
            self.bytes.truncate(start);
        }
    }

    /// Writes all filters of `node`, which is about to be written.
    pub(super) fn end_node(&mut self, node: &mut NodeBuilder, output: &mut Output) -> Result<()> {
        if !self.hashes.is_empty() {
            self.end_filter(node);
        }
        output.write(&self.bytes, 0)?;
        self.bytes.clear();
        Ok(())
    }
}
