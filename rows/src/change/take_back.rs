//! Parts of a definition that are taken back: constraints and indexes that were not completed, or are dropped.

use quipu::{ErrorKind, Result};

use crate::catalogue::failed_changes::Half;
use crate::change::definitions::{Definitions, Draft};
use crate::definition::document::{TableNumber, TreeNumber, Unvalidated};

/// Takes a half-way part out of a definition, if it is still there. Returns the trees that are no longer needed.
pub(crate) fn take_back_half(
    definitions: &Definitions<'_>,
    (table, half): &(TableNumber, Half),
) -> Result<Vec<TreeNumber>> {
    // The table may have been dropped meanwhile.
    let Some(mut draft) = definitions.draft_if_there(*table)? else { return Ok(Vec::new()) };
    let trees = match half {
        Half::Marked(mark) => take_back_marked(definitions, &mut draft, mark)?,
        Half::Build(tree) => {
            let indexes = &mut draft.document.indexes;
            let Some(place) = indexes.iter().position(|index| index.tree == *tree) else { return Ok(Vec::new()) };
            definitions.catalogue.write_to_free();
            let index = indexes.remove(place);
            draft.document.schema.indexes.remove(place);
            [Some(index.tree), index.missed].into_iter().flatten().collect()
        }
    };
    definitions.put(&mut draft)?;
    Ok(trees)
}

/// Whether two marks are of one constraint.
pub(crate) fn same_mark(a: &Unvalidated, b: &Unvalidated) -> bool {
    match (a, b) {
        // Whatever its name is now, one column at a time is being made NOT NULL.
        (Unvalidated::NotNull(_), Unvalidated::NotNull(_)) => true,
        _ => a == b,
    }
}

/// Takes a constraint that bears a mark out of a definition, whatever its name is by now. Returns the trees that it no
/// longer needs.
pub(crate) fn take_back_marked(
    definitions: &Definitions<'_>,
    draft: &mut Draft,
    mark: &Unvalidated,
) -> Result<Vec<TreeNumber>> {
    let Some(at) = draft.document.unvalidated.iter().position(|other| same_mark(other, mark)) else {
        return Ok(Vec::new());
    };
    definitions.catalogue.write_to_free();
    let mark = draft.document.unvalidated.remove(at);
    let before: Vec<TreeNumber> = draft.document.trees().collect();
    take_back(definitions, draft, &mark)?;
    let after: Vec<TreeNumber> = draft.document.trees().collect();
    Ok(before.into_iter().filter(|tree| !after.contains(tree)).collect())
}

/// Takes a constraint out of a definition.
pub(crate) fn take_back(definitions: &Definitions<'_>, draft: &mut Draft, mark: &Unvalidated) -> Result<()> {
    let document = &mut draft.document;
    match mark {
        Unvalidated::Check(name) => document.schema.checks.retain(|check| check.name != *name),
        Unvalidated::NotNull(name) => {
            let columns = document.schema.columns.iter_mut();
            columns.filter(|column| column.name == *name).for_each(|column| column.not_null = false);
        }
        Unvalidated::Index(name) => {
            if let Some(place) = document.schema.indexes.iter().position(|index| index.name == *name) {
                let (index, tree) = (document.schema.indexes.remove(place), document.indexes.remove(place));
                // A foreign key that was added beside the one it was made for may have found it, and stays with it.
                match refuse_needed(definitions, draft) {
                    Err(error) if error.kind() == ErrorKind::Invalid => {
                        draft.document.schema.indexes.insert(place, index);
                        draft.document.indexes.insert(place, tree);
                    }
                    needed => needed?,
                }
            }
        }
        Unvalidated::ForeignKey(name) => {
            let place = document.schema.foreign_keys.iter().position(|foreign_key| foreign_key.name == *name);
            let Some(place) = place else { return Ok(()) };
            document.schema.foreign_keys.remove(place);
            let before = document.foreign_tables.clone();
            document.foreign_tables.remove(place);
            if !document.foreign_tables.contains(&draft.number) {
                document.referenced_by.retain(|&child| child != draft.number);
            }
            definitions.link(draft.number, &before, &document.foreign_tables)?;
        }
    }
    Ok(())
}

/// Fails if a foreign key no longer finds its rows, or what it refers to.
pub(crate) fn refuse_needed(definitions: &Definitions<'_>, draft: &Draft) -> Result<()> {
    let ready = definitions.ready(draft)?;
    for foreign_key in ready.foreign_keys.iter().filter(|foreign_key| foreign_key.table != draft.number) {
        definitions.check_foreign_key(&ready, foreign_key)?;
    }
    for &child in &draft.document.referenced_by {
        let own;
        let child = if child == draft.number {
            &ready
        } else {
            own = definitions.ready(&definitions.draft_of(child)?)?;
            &own
        };
        for foreign_key in child.foreign_keys.iter().filter(|foreign_key| foreign_key.table == draft.number) {
            definitions.check_foreign_key_to(child, foreign_key, &ready)?;
        }
    }
    Ok(())
}
