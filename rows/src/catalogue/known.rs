//! A cache of parsed definitions, kept while they may be needed again.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use quipu::{Error, ErrorKind, Result};

use crate::catalogue::engine_tables::{self, Trees};
use crate::catalogue::store::{self, NamedTable};
use crate::definition::document::TableNumber;
use crate::definition::table::TableDefinition;

/// Versions of one table that are kept: the last ones that were asked for.
const VERSIONS_MAX: usize = 3;

/// The last versions of definitions.
#[derive(Default)]
pub(crate) struct Known(RwLock<HashMap<TableNumber, Vec<Arc<TableDefinition>>>>);

impl Known {
    /// The definition of this version, as `trees` have it.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if it makes no sense, [`Version`](ErrorKind::Version) if it is that of a newer
    /// program.
    pub(crate) fn definition(
        &self,
        trees: &impl Trees,
        catalogue: &quipu::Table,
        entry: NamedTable,
    ) -> Result<Arc<TableDefinition>> {
        let is_wanted = |definition: &&Arc<TableDefinition>| definition.version == entry.version;
        {
            let known = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(found) = known.get(&entry.number).and_then(|versions| versions.iter().find(is_wanted)) {
                return Ok(Arc::clone(found));
            }
        }
        let definition = Known::read(trees, catalogue, entry)?;
        self.remember(&definition);
        Ok(definition)
    }

    /// [`Known::definition`], without what is kept: of a version that is not committed yet.
    ///
    /// # Errors
    /// Those of [`Known::definition`].
    pub(crate) fn read(
        trees: &impl Trees,
        catalogue: &quipu::Table,
        entry: NamedTable,
    ) -> Result<Arc<TableDefinition>> {
        let document = store::document(&trees.tree(catalogue)?, entry.number)?;
        let mut open_tree = |tree| engine_tables::open(trees, &store::tree_name(tree));
        let definition = TableDefinition::new(entry.number, entry.version, document, &mut open_tree);
        Ok(Arc::new(definition.map_err(|error| match error.kind() {
            ErrorKind::Invalid => Error::new(ErrorKind::Corrupt, format!("the catalogue of rows is damaged: {error}")),
            _ => error,
        })?))
    }

    /// Keeps a definition.
    fn remember(&self, definition: &Arc<TableDefinition>) {
        let mut known = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let versions = known.entry(definition.number).or_default();
        versions.retain(|version| version.version != definition.version);
        versions.insert(0, Arc::clone(definition));
        versions.truncate(VERSIONS_MAX);
    }

    /// Forgets a table that was dropped, whose trees would live on otherwise.
    pub(crate) fn forget(&self, number: TableNumber) {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&number);
    }
}
