//! Publishing what a writer has changed, for readers to find. Under the latch.

use crate::catalog::declaration::TableId;
use crate::error::{Error, ErrorKind, Result};
use crate::state::versions::Versions;
use crate::state::writer::{TableTrees, Writer};
use crate::tree::Tree;

/// Publishes the current version of a table. Under the latch.
pub(crate) fn publish(versions: &mut Versions, trees: &mut TableTrees, epoch: u64, sequence: u64) {
    trees.sequence = sequence;
    versions.epoch = epoch;
    versions.sequence = sequence;
    if let Some(Some(table)) = versions.tables.get_mut(trees.declaration.id as usize) {
        table.sequence = sequence;
        if let ([version], [tree]) = (&mut table.layers[..], &trees.layers[..]) {
            *version = tree.version();
        } else {
            table.layers = trees.layers.iter().map(Tree::version).collect();
        }
        if trees.declaration.options.blind_writes {
            table.unresolved = trees.unresolved.as_ref().map(|tree| tree.version());
        }
        // The removal of a range changes them.
        if !table.runs.are(&trees.runs) {
            table.runs = trees.runs.clone();
        }
    }
}

#[cold]
pub(crate) fn dropped() -> Error {
    Error::new(ErrorKind::Missing, "the table has been dropped")
}

/// Publishes other layers that hold the same rows. The last commit stays the last.
pub(crate) fn republish(versions: &mut Versions, trees: &mut TableTrees, epoch: u64) {
    let (changed, last) = (trees.sequence, versions.sequence);
    publish(versions, trees, epoch, changed);
    versions.sequence = last;
    if let Some(Some(table)) = versions.tables.get_mut(trees.declaration.id as usize) {
        table.layers = trees.layers.iter().map(Tree::version).collect();
        table.unresolved = trees.unresolved.as_ref().map(|tree| tree.version());
    }
}

pub(crate) fn table_of(writer: &mut Writer, id: TableId) -> Result<&mut TableTrees> {
    writer.tables.get_mut(id as usize).and_then(Option::as_mut).ok_or_else(dropped)
}
