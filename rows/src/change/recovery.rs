//! What a crash has left half way: indexes that were being built, constraints that were being validated, trees that no
//! definition names.

use std::collections::HashSet;

use quipu::{ErrorKind, Result};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::constraints::take_back;

impl Shared {
    /// Takes back what a crash has left half way. Called when no other handle of the database is open.
    ///
    /// # Errors
    /// Those of reading the catalogue and of commits.
    pub(crate) fn recover(&self) -> Result<()> {
        let Some(catalogue) = self.catalogue() else { return Ok(()) };
        let mut named = HashSet::new();
        for (_, entry) in store::entries(catalogue)? {
            let document = store::document(catalogue, entry.number)?;
            let is_whole =
                document.unvalidated.is_empty() && document.indexes.iter().all(|index| index.missed.is_none());
            let document = if is_whole { document } else { self.take_back(entry.number)? };
            named.extend(document.trees());
        }
        for table in self.db.tables() {
            let is_left = store::tree_number(table.name()).is_some_and(|tree| !named.contains(&tree));
            if is_left && let Err(error) = self.db.drop_table(table.name()) {
                // Whoever only reads does not mind.
                return if error.kind() == ErrorKind::ReadOnly { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    /// Takes back what was begun of a table.
    fn take_back(&self, number: u32) -> Result<crate::definition::document::Document> {
        let changed = self.change(|definitions| {
            let mut draft = definitions.draft_of(number)?;
            for mark in std::mem::take(&mut draft.document.unvalidated) {
                take_back(definitions, &mut draft, &mark)?;
            }
            let document = &mut draft.document;
            while let Some(place) = document.indexes.iter().position(|index| index.missed.is_some()) {
                document.indexes.remove(place);
                document.schema.indexes.remove(place);
            }
            definitions.put(&mut draft)?;
            Ok(draft.document)
        });
        match changed {
            // Half-way indexes are not read, and constraints are kept by nobody who only reads.
            Err(error) if error.kind() == ErrorKind::ReadOnly => {
                store::document(self.catalogue().expect("a catalogue was read"), number)
            }
            changed => changed,
        }
    }
}
