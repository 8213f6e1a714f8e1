//! Removes what a crash or a failed change left unfinished: indexes that were being built, constraints that were being
//! validated, trees that no definition names.
//!
//! Invariant: no tree is dropped because a part of the catalogue is lost, as after `quipu check --repair`. Three signs
//! show such a loss: trees without a root (it is written before the first tree is created), a definition without a
//! name, and a number of tables that differs from that in the root.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};

use quipu::{Error, ErrorKind, Result};

use crate::catalogue::failed_changes::Parts;
use crate::catalogue::shared::Shared;
use crate::catalogue::store::{self, Root};
use crate::change::definitions::{Definitions, Draft};
use crate::change::take_back::{take_back, take_back_half};
use crate::definition::document::{TreeNumber, Unvalidated};

#[cold]
fn lost(what: impl std::fmt::Display) -> Error {
    let advice = "`quipu check --repair` puts back what can be, or restore from a backup; the rows are in the trees \
                  that begin with `rows.`";
    Error::new(ErrorKind::Corrupt, format!("a part of the catalogue of rows is lost: {what}; {advice}"))
}

impl Shared {
    /// The turn to change definitions, with nothing left of changes that failed.
    ///
    /// # Errors
    /// Those of taking that back; then nothing has changed.
    pub(crate) fn begin_change(self: &Arc<Self>) -> Result<MutexGuard<'_, ()>> {
        let changing = self.changes.turn();
        let left = self.left.take_all();
        if !left.is_empty() {
            let Parts { halves, mut trees } = left;
            match self.change(|definitions| halves.iter().map(|half| take_back_half(definitions, half)).collect()) {
                Ok(freed) => {
                    let freed: Vec<Vec<TreeNumber>> = freed;
                    trees.extend(freed.concat());
                }
                Err(error) => {
                    halves.into_iter().for_each(|(table, half)| self.left.leave(table, half));
                    self.left.leave_trees(trees);
                    return Err(error);
                }
            }
            self.drop_trees(trees)?;
        }
        Ok(changing)
    }

    /// Changes definitions in one transaction, with nothing left of changes that failed.
    pub(crate) fn alter<T>(self: &Arc<Self>, work: impl FnOnce(&Definitions<'_>) -> Result<T>) -> Result<T> {
        let _changing = self.begin_change()?;
        self.change(work)
    }

    /// Changes the definition of one table, in one transaction.
    pub(crate) fn change_table<T>(
        self: &Arc<Self>,
        table: &str,
        work: impl FnOnce(&Definitions<'_>, &mut Draft) -> Result<T>,
    ) -> Result<T> {
        let _changing = self.begin_change()?;
        self.change(|definitions| {
            let mut draft = definitions.draft(table)?;
            let result = work(definitions, &mut draft)?;
            definitions.put(&mut draft)?;
            Ok(result)
        })
    }

    /// Takes back what a crash has left half way. Called when no other handle of the database is open.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if a part of the catalogue is lost; those of reading it and of commits.
    pub(crate) fn recover(self: &Arc<Self>) -> Result<()> {
        let Some(catalogue) = self.catalogue() else { return Ok(()) };
        let has_trees = || self.db.tables().iter().any(|table| store::tree_number(table.name()).is_some());
        let root = store::root(catalogue)?;
        if root.is_none() && has_trees() {
            return Err(lost("its first record is not there"));
        }
        let (definitions, names) = (store::count_documents(catalogue)?, store::count_names(catalogue)?);
        if definitions != names {
            return Err(lost(format_args!("there are {definitions} definitions of tables, and {names} names")));
        }
        if root.is_none() {
            match store::put_root(catalogue, &Root::NEW) {
                Err(error) if error.kind() != ErrorKind::ReadOnly => return Err(error),
                _ => {}
            }
        }
        if let Some(root) = root.filter(|root| root.tables != names) {
            return Err(lost(format_args!("there are {names} names of tables, and were {}", root.tables)));
        }
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
                // A reader does not mind.
                return if error.kind() == ErrorKind::ReadOnly { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    /// Takes back what was begun of a table.
    fn take_back(self: &Arc<Self>, number: u32) -> Result<crate::definition::document::Document> {
        let changed = self.change(|definitions| {
            definitions.catalogue.write_to_free();
            let mut draft = definitions.draft_of(number)?;
            let mut marks = std::mem::take(&mut draft.document.unvalidated);
            // An index made for a foreign key stays while that is there.
            marks.sort_by_key(|mark| matches!(mark, Unvalidated::Index(_)));
            for mark in marks {
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
            // Half-way indexes are not read, and a reader keeps no constraints.
            Err(error) if error.kind() == ErrorKind::ReadOnly => {
                store::document(self.catalogue().expect("a catalogue was read"), number)
            }
            changed => changed,
        }
    }
}
