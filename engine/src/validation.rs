//! Whether an optimistic transaction might as well have run now, and what it wrote relative to now.
//!
//! Not here: the questions that it asked (`observation`), logging and applying (`commit`).

use smallvec::SmallVec;

use crate::commit::dropped;
use crate::db::Shared;
use crate::error::{Error, ErrorKind};
use crate::observation::Observations;
use crate::page::KeyBuffer;
use crate::run::ReadPages;
use crate::snapshot::Snapshot;
use crate::source::{Stopped, TableStack, stack_over};
use crate::stack::{Cut, ask_all};
use crate::tally::Tally;
use crate::transaction::Parts;
use crate::tree::{Tree, Walk};
use crate::unresolved;
use crate::writer::{TableTrees, Turn};

impl Shared {
    /// Whether all that an optimistic transaction has read is as it was. Gives, part by part, its layer relative to the version of now, where that is another one.
    pub(crate) fn validate(
        &self,
        parts: &Parts,
        snapshot: &Snapshot,
        turn: &Turn<'_>,
        pages: &ReadPages<'_>,
    ) -> std::result::Result<SmallVec<[Option<Tree>; 1]>, Stopped> {
        let mut rebased = SmallVec::new();
        for (table, layer) in parts {
            let now = turn.tables.get(table.id as usize).and_then(Option::as_ref).ok_or_else(dropped)?;
            let then = snapshot.versions.table(table.id)?;
            if now.sequence == then.sequence {
                rebased.push(None);
                continue;
            }
            let has_same_runs = then.runs.are(&now.runs);
            let are_counted = then.unresolved.is_none() && now.unresolved.is_none();
            let resolved = if table.has_counted() { resolved(now, pages)? } else { None };
            let now = match &resolved {
                Some(layer) => {
                    let trees = [layer.view()].into_iter().chain(now.views());
                    stack_over(trees, &now.runs, pages, now.declaration.options.measures)
                }
                None => now.stack(pages),
            };
            let then = then.stack(&self.arena, pages);
            let observations = table.observations.borrow();
            if let Some(read) = &*observations
                && !read.hold(&then, &now, has_same_runs, are_counted)?
            {
                return Err(conflict().into());
            }
            let layer = layer.as_ref().map(|layer| rebase(layer, &now, observations.as_deref()));
            rebased.push(layer.transpose()?);
        }
        Ok(rebased)
    }
}

/// The unresolved entries of a table with their weights, if there are any.
fn resolved(now: &TableTrees, pages: &ReadPages<'_>) -> std::result::Result<Option<Tree>, Stopped> {
    let Some(tree) = &now.unresolved else { return Ok(None) };
    let measures = now.declaration.options.measures;
    let below = stack_over(now.views(), &now.runs, pages, measures);
    let layer = unresolved::resolved(tree.view(), (Cut::Start, Cut::End), (tree.arena(), measures), |keys| {
        Ok::<_, Stopped>(unresolved::contributions(&below, keys)?)
    })?;
    Ok(Some(layer))
}

/// Makes a layer relative to the version of now, instead of that of the transaction's snapshot.
fn rebase(
    layer: &Tree,
    now: &TableStack<'_>,
    observations: Option<&Observations>,
) -> std::result::Result<Tree, Stopped> {
    let (relies_on_rows, relies_on_all) = observations.map_or((false, false), Observations::relies_on_weights);
    let measures = *layer.measures();
    let mut rebased = Tree::new(layer.arena().clone(), measures, false);
    let view = layer.view();
    if !now.runs().is_empty() {
        // All pages are asked for before one is missed.
        let mut keys = Vec::with_capacity(layer.entries() as usize);
        let mut walk = Walk::first(view);
        while walk.valid() {
            keys.push(walk.key());
            walk.next();
        }
        ask_all(keys.iter().map(|key| now.contribution(key)), |_| ())?;
    }
    let mut walk = Walk::first(view);
    let mut key = KeyBuffer::new();
    while walk.valid() {
        key.clear();
        walk.key_into(&mut key);
        let value = walk.value();
        let row = value.map_or(Tally::ZERO, |value| measures.of_row(&key, value));
        let then = row - walk.weight(&key);
        let below = now.contribution(&key)?;
        if relies_on_rows && then.rows != below.rows || relies_on_all && then != below {
            return Err(conflict().into());
        }
        rebased.write_over(&key, value, |_| Some(below))?;
        walk.next();
    }
    Ok(rebased)
}

#[cold]
fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, "another commit changed what the transaction read; run it again")
}
