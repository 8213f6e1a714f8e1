//! What a crash has left half way: indexes that were being built, constraints that were being validated, trees that no
//! definition names.
//!
//! Invariant: no tree is dropped because a part of the catalogue is lost, as after `quipu check --repair`. The root is
//! written before the first tree is created, so trees without a root say that it is; so does a definition without a
//! name.

use std::collections::HashSet;

use quipu::{Error, ErrorKind, Result};

use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::constraints::take_back;

#[cold]
fn lost(what: impl std::fmt::Display) -> Error {
    let advice = "restore from a backup; the rows are in the trees that begin with `rows.`";
    Error::new(ErrorKind::Corrupt, format!("a part of the catalogue of rows is lost: {what}; {advice}"))
}

impl Shared {
    /// Takes back what a crash has left half way. Called when no other handle of the database is open.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if a part of the catalogue is lost; those of reading it and of commits.
    pub(crate) fn recover(&self) -> Result<()> {
        let Some(catalogue) = self.catalogue() else { return Ok(()) };
        let has_trees = || self.db.tables().iter().any(|table| store::tree_number(table.name()).is_some());
        if store::root(catalogue)?.is_none() && has_trees() {
            return Err(lost("its first record is not there"));
        }
        let mut named = HashSet::new();
        let mut tables = 0;
        for (_, entry) in store::entries(catalogue)? {
            tables += 1;
            let document = store::document(catalogue, entry.number)?;
            let is_whole =
                document.unvalidated.is_empty() && document.indexes.iter().all(|index| index.missed.is_none());
            let document = if is_whole { document } else { self.take_back(entry.number)? };
            named.extend(document.trees());
        }
        let definitions = store::count_documents(catalogue)?;
        if definitions != tables {
            return Err(lost(format_args!("there are {definitions} definitions of tables, and {tables} names")));
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
