//! Rebuilds indexes from the rows.
//!
//! The new index is built while others write, like any other, under a name of its own. The last turn of its build puts
//! its tree in the place of the old one. Until then the old index is read and maintained, whatever is wrong with it,
//! and after a crash or an error it is still there.

use std::sync::Arc;

use quipu::{Progress, Result};

use crate::catalogue::shared::Shared;
use crate::change::definitions::not_there;
use crate::change::indexes::{Build, BuildOptions};
use crate::schema::index::IndexSchema;
use crate::schema::invalid;

impl Shared {
    /// Builds an index again.
    pub(crate) fn rebuild_index(
        self: &Arc<Self>,
        table: &str,
        name: &str,
        options: &BuildOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        self.begin_rebuild(table, name, options)?.finish(None, progress)
    }

    /// Begins to build an index again.
    pub(crate) fn begin_rebuild(self: &Arc<Self>, table: &str, name: &str, options: &BuildOptions) -> Result<Build> {
        let definition = self.definition(&self.db, table)?.ok_or_else(|| crate::transaction::missing(table))?;
        let indexes = definition.document.schema.indexes.iter().zip(&definition.document.indexes);
        let mut indexes = indexes.filter(|(index, _)| index.name == name);
        let (declared, place) = indexes.next().ok_or_else(|| not_there(table, "index", name))?;
        if place.missed.is_some() {
            return Err(invalid(format!("index {table}.{name} is still being built")));
        }
        // Its tree was, and no other index of the table has it in its name.
        let beside = IndexSchema { name: format!("rebuilt from {}", place.tree), ..declared.clone() };
        let mut build = self.begin_build(table, beside, options)?;
        build.replaces = Some((name.to_owned(), place.tree));
        Ok(build)
    }
}
