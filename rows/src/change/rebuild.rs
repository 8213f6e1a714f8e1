//! Indexes built again from the rows, in the place of what they have.
//!
//! The new index is built beside writers, as any other, under a name of its own; the last turn of its build puts its
//! tree where the old one was. So the old one is read and kept up until the new one is ready, whatever is wrong with
//! it, and a crash or an error leaves the old one.

use std::sync::Arc;

use quipu::{Progress, Result};

use crate::catalogue::shared::Shared;
use crate::change::definitions::not_there;
use crate::change::indexes::BuildOptions;
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
        build.finish(None, progress)
    }
}
