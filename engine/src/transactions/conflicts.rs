//! Validates optimistic transactions against newer versions, and rebases their writes onto them.
//!
//! Not here: what a transaction has read (`observation`), logging and applying (`commit`).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::ReadPages;
use crate::error::{Error, ErrorKind, Result};
use crate::page::KeyBuffer;
use crate::read::observation::{ASKED_TOGETHER, Observations};
use crate::read::table_stack::{Stopped, stack_over};
use crate::read::unresolved;
use crate::stack::Cut;
use crate::state::publish::dropped;
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::versions::Versions;
use crate::state::writer::{TableTrees, Turn};
use crate::tally::Tally;
use crate::transactions::private_table::{Parts, PrivateTable};
use crate::tree::{Tree, Walk};

/// Layers that have been made relative to a newer version, in the order of the table's: `None` for one that is the
/// same.
pub(crate) type Moved = SmallVec<[Option<Tree>; 1]>;

impl Shared {
    /// Moves an optimistic transaction to a newer version, reading files as needed: checks that all it has read is
    /// unchanged, and makes its layers relative to that version. So little is left to compare in the writer's turn.
    /// Memory: a few pages, and the layers.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], and those of reading a page of a run.
    pub(crate) fn advance(self: &Arc<Self>, parts: &mut Parts, snapshot: &mut Snapshot) -> Result<()> {
        let newer = Snapshot::take_briefly(self);
        for (table, layer) in parts {
            // Its layers were merged into the one.
            *table.layers.get_mut() = layer.take().map(|layer| (0, layer)).into_iter().collect();
            let moved = self.moved(table, &snapshot.versions, &newer.versions)?;
            table.move_layers(moved);
            *layer = table.layers.get_mut().pop().map(|(_, layer)| layer);
            // All keys have been looked up.
            table.unresolved_keys.get_mut().forget_from(0);
            table.born = None;
        }
        *snapshot = newer;
        Ok(())
    }

    /// The layers of a transaction's table made relative to a newer version, if all that it has read is unchanged
    /// there: `None` in place of each that is the same. Reads files, a few pages at a time.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], and those of reading a page of a run and of a patch.
    pub(crate) fn moved(self: &Arc<Self>, table: &PrivateTable, then: &Versions, newer: &Versions) -> Result<Moved> {
        let then = table.version_in(then)?;
        let now = newer.table(table.id).map_err(|_| dropped())?;
        if now.sequence == then.sequence && then.runs.are(&now.runs) && table.unresolved_keys.borrow().is_empty() {
            return Ok(Moved::new());
        }
        let observations = table.observations.borrow();
        if let Some(read) = &*observations
            && !read.hold_apart(&self.source(then), &self.source(now))?
        {
            return Err(conflict());
        }
        let patches = table.patches.borrow();
        let layers = table.layers.borrow();
        let mut moved = Moved::new();
        for (depth, layer) in &*layers {
            let rebased = {
                let lower = layers.iter().zip(&moved).rev();
                let lower = lower.map(|((_, layer), moved)| moved.as_ref().unwrap_or(layer).view());
                let now_below = now.source_under(lower, &self.arena, &self.cache);
                let now_base = self.source(now);
                let mut keys = Walk::first(layer.view());
                let mut below = Vec::with_capacity(layer.entries() as usize);
                while keys.valid() {
                    let mut asked = Vec::with_capacity(ASKED_TOGETHER);
                    while keys.valid() && asked.len() < ASKED_TOGETHER {
                        asked.push(keys.key());
                        keys.next();
                    }
                    below.extend(now_below.contributions(&asked)?);
                }
                let mut below = below.into_iter();
                rebase(
                    layer,
                    observations.as_deref(),
                    |_, _| Ok(below.next().unwrap_or_default()),
                    |key| {
                        if patches.is_empty() {
                            return Ok(None);
                        }
                        let value = now_base.ask(|stack| Ok(stack.get(key)?.map(<[u8]>::to_vec)))?;
                        Ok(value.map_or(Ok(None), |value| patches.apply(key, *depth, &value))?)
                    },
                )
            };
            moved.push(rebased.map_err(Stopped::into_error)?);
        }
        Ok(moved)
    }

    /// Checks that all an optimistic transaction has read is unchanged. Returns, part by part, its layer relative to
    /// the current version, where that is another one.
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
            let then = table.version_in(&snapshot.versions)?;
            if !table.unresolved_keys.borrow().is_empty() && !now.is_taking_blind() {
                // The keys are to be looked up after all.
                return Err(Stopped::Missing);
            }
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
            let is_on_disk = !(then.runs().is_empty() && now.runs().is_empty());
            if is_on_disk && !has_same_runs {
                return Err(Stopped::Missing);
            }
            let observations = table.observations.borrow();
            if let Some(read) = &*observations
                && !read.hold(&then, &now, has_same_runs, are_counted)?
            {
                return Err(conflict().into());
            }
            let patches = table.patches.borrow();
            let is_untouched = |key: &[u8]| then.is_untouched_in(&now, has_same_runs, key);
            let below = |key: &[u8], before| if is_untouched(key) { Ok(before) } else { Ok(now.contribution(key)?) };
            let patched = |key: &[u8]| {
                if patches.is_empty() || is_untouched(key) {
                    return Ok(None);
                }
                Ok(now.get(key)?.map_or(Ok(None), |value| patches.apply(key, 0, value))?)
            };
            let layer = layer.as_ref().map(|layer| rebase(layer, observations.as_deref(), below, patched));
            rebased.push(layer.transpose()?.flatten());
        }
        Ok(rebased)
    }
}

/// The unresolved entries of a table with their weights, if there are any.
fn resolved(now: &TableTrees, pages: &ReadPages<'_>) -> std::result::Result<Option<Tree>, Stopped> {
    let Some(tree) = &now.unresolved else { return Ok(None) };
    let measures = now.declaration.options.measures;
    let below = stack_over(now.views(), &now.runs, pages, measures);
    let layer = unresolved::resolved(tree.view(), (Cut::Start, Cut::End), measures, |keys| {
        Ok::<_, Stopped>(below.contributions(keys)?)
    })?;
    Ok(Some(layer))
}

/// Makes a layer relative to another version. `below` gets each key and what lies below it in the old version, and
/// returns what lies below it in the new one; `patched` returns what patches make of a value there, if they do. `None`
/// if the layer is the same there.
fn rebase(
    layer: &Tree,
    observations: Option<&Observations>,
    mut below: impl FnMut(&[u8], Tally) -> std::result::Result<Tally, Stopped>,
    mut patched: impl FnMut(&[u8]) -> std::result::Result<Option<Vec<u8>>, Stopped>,
) -> std::result::Result<Option<Tree>, Stopped> {
    let (relies_on_rows, relies_on_all) = observations.map_or((false, false), Observations::relies_on_weights);
    let measures = *layer.measures();
    let below_then = |walk: &Walk<'_>, key: &[u8]| {
        walk.value().map_or(Tally::ZERO, |value| measures.of_row(key, value)) - walk.weight(key)
    };
    let mut rebased: Option<Tree> = None;
    let mut walk = Walk::first(layer.view());
    let mut key = KeyBuffer::new();
    let mut unchanged = 0;
    while walk.valid() {
        key.clear();
        walk.key_into(&mut key);
        let then = below_then(&walk, &key);
        let below = below(&key, then)?;
        if relies_on_rows && then.rows != below.rows || relies_on_all && then != below {
            return Err(conflict().into());
        }
        let patched = patched(&key)?;
        if rebased.is_none() && then == below && patched.as_deref().is_none_or(|patched| walk.value() == Some(patched))
        {
            unchanged += 1;
        } else {
            if rebased.is_none() {
                rebased = Some(first_entries(layer, unchanged, below_then)?);
            }
            let rebased = rebased.as_mut().expect("made above");
            rebased.write_over(&key, patched.as_deref().or(walk.value()), |_| Some(below))?;
        }
        walk.next();
    }
    Ok(rebased)
}

/// A copy of the first `count` entries of a layer. `below` gives what lies below one of them.
fn first_entries(layer: &Tree, count: u64, below: impl Fn(&Walk<'_>, &[u8]) -> Tally) -> Result<Tree> {
    let mut copy = Tree::new(layer.arena().clone(), *layer.measures(), false);
    let mut walk = Walk::first(layer.view());
    for _ in 0..count {
        let key = walk.key();
        let below = below(&walk, &key);
        copy.write_over(&key, walk.value(), |_| Some(below))?;
        walk.next();
    }
    Ok(copy)
}

#[cold]
fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, "another commit changed what the transaction read; run it again")
}
