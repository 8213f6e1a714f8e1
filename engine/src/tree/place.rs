//! Places: a write finds its key, then changes it, and can be decided and logged in between.

use super::batch::GROUP;
use super::{NO_STRUCTURE, Path, Step, Tree, Written, view};
use crate::error::Result;
use crate::page::{Aim, KeyBuffer, PageRef, record};
use crate::tally::Tally;

/// Where a key is in a tree, or would be.
pub(crate) struct Place {
    path: Path,
    position: usize,
    /// Whether it is there.
    pub(crate) found: bool,
    /// The structure of the tree for which the path is valid.
    structure: u64,
}

impl Place {
    /// A place that leads nowhere.
    pub(crate) fn new() -> Place {
        Place { path: Path::new(), position: 0, found: false, structure: NO_STRUCTURE }
    }
}

/// The position of a sweep over ascending keys.
pub(crate) struct Sweep {
    place: Place,
    /// The first key after the leaf; `None` for the last leaf.
    fence: Option<KeyBuffer>,
    /// The structure of the tree for which the place is valid.
    structure: Option<u64>,
}

impl Sweep {
    /// A sweep before the first key.
    pub(crate) fn new() -> Self {
        Sweep { place: Place::new(), fence: None, structure: None }
    }
}

impl Tree {
    /// Finds the place of `key`, for a write that is decided and logged before it is made.
    #[inline(always)]
    pub(crate) fn locate(&mut self, key: &[u8]) -> Result<Place> {
        let mut place = self.aim(key)?;
        self.settle(&mut place, key);
        Ok(place)
    }

    /// The first half of [`Tree::locate`]: finds the leaf and starts to fetch it, which takes some 100 ns that the
    /// caller may use.
    #[inline(always)]
    pub(crate) fn aim(&mut self, key: &[u8]) -> Result<Place> {
        self.ensure_root()?;
        let mut path = Path::new();
        self.descend_to_leaf(key, &mut path);
        Ok(Place { path, position: 0, found: false, structure: self.structure })
    }

    /// The second half: finds `key` in the leaf that [`Tree::aim`] found. The tree has not changed since.
    #[inline(always)]
    pub(crate) fn settle(&self, place: &mut Place, key: &[u8]) {
        (place.position, place.found) = self.find_in_leaf(key, &mut place.path);
    }

    /// Finds the leaves of up to [`GROUP`] keys, with interleaved descents that fetch like those of [`super::batch`].
    /// The places are valid until the tree changes; [`Tree::locate_again`], which must follow, is cheap while its
    /// structure does not change.
    pub(crate) fn locate_many(&mut self, keys: &[impl AsRef<[u8]>], places: &mut [Place; GROUP]) -> Result<()> {
        self.ensure_root()?;
        let (root, leaf_level) = (self.root, self.height - 1);
        let view = self.view();
        let mut ids = [root; GROUP];
        for level in 0..leaf_level {
            if level > 0 {
                ids[..keys.len()].iter().for_each(|&id| self.page(id).prefetch_heads());
            }
            for ((key, id), place) in keys.iter().zip(&mut ids).zip(places.iter_mut()) {
                let page = self.page(*id);
                let position = page.child_position(key.as_ref());
                place.path.steps[level] =
                    Step { page: *id, position: position as u16, rows_at: page.rows_at(position) };
                *id = page.child(position);
                if level + 1 == leaf_level {
                    PageRef::prefetch_far_at(
                        self.arena.address(*id),
                        view.leaf_lines(&page, position, view::HEAD_BYTES),
                    );
                } else {
                    PageRef::prefetch_at(self.arena.address(*id), 1);
                }
            }
        }
        let mut aims = [Aim::default(); GROUP];
        for ((key, id), aim) in keys.iter().zip(&ids).zip(&mut aims) {
            *aim = self.page(*id).aim::<true>(key.as_ref());
            self.page(*id).prefetch_slot(*aim);
        }
        for ((id, aim), place) in ids[..keys.len()].iter().zip(&aims).zip(places.iter_mut()) {
            self.page(*id).prefetch_aim(*aim);
            place.path.steps[leaf_level] = Step::new(*id, 0);
            place.structure = self.structure;
        }
        Ok(())
    }

    /// Finds `key` again at a place from [`Tree::locate_many`], after other writes: one search of the leaf, or a
    /// descent if pages have moved since.
    #[inline(always)]
    pub(crate) fn locate_again(&mut self, place: &mut Place, key: &[u8]) -> Result<()> {
        // Copying for a snapshot moves pages without changing their structure.
        if place.structure != self.structure || self.protected != 0 {
            *place = self.locate(key)?;
            return Ok(());
        }
        self.settle(place, key);
        Ok(())
    }

    /// The value at a place that was found.
    pub(crate) fn value_at(&self, place: &Place) -> &[u8] {
        view::value_of(&self.leaf(&place.path).leaf_record(place.position))
    }

    /// Puts `value` at a place that [`Tree::locate`] found for `key`. The tree has not changed since.
    #[inline(always)]
    pub(crate) fn put_at(&mut self, place: &mut Place, key: &[u8], value: &[u8]) -> Result<(Written, Tally)> {
        let Place { path, position, found, .. } = place;
        let position = *position;
        if !*found {
            let weight = self.measures.of_row(key, value);
            self.insert_at(path, position, key, record::FRESH, &[], value, weight)?;
            return Ok((Written::Inserted, weight));
        }
        let change = if self.measures.only_rows() {
            Tally::ZERO
        } else {
            let old = self.leaf(path).leaf_record(position);
            self.measures.of_row(key, value) - self.measures.of_row(key, view::value_of(&old))
        };
        self.replace_at(path, position, key, record::FRESH, &[], Some(value), change)?;
        Ok((Written::Replaced, change))
    }

    /// Puts or removes a row of a bottom tree on a sweep over ascending keys: keys of one leaf share one descent.
    pub(crate) fn sweep(&mut self, sweep: &mut Sweep, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let here = sweep.structure == Some(self.structure) && sweep.fence.as_ref().is_none_or(|fence| *key < **fence);
        if here {
            self.settle(&mut sweep.place, key);
        } else {
            sweep.place = self.locate(key)?;
            sweep.structure = Some(self.structure);
            // The next separator on the way up is the first key that belongs to another leaf.
            sweep.fence = (0..self.height - 1).rev().find_map(|level| {
                let step = sweep.place.path.steps[level];
                let (page, next) = (self.page(step.page), step.position as usize + 1);
                (next < page.count()).then(|| page.key(next))
            });
        }
        let place = &mut sweep.place;
        match value {
            Some(value) => self.put_at(place, key, value).map(|_| ()),
            None if !place.found => Ok(()),
            None => self.remove_at(place, key).map(|_| ()),
        }
    }

    /// Removes the row at a place where `key` was found. Returns how the tally changed.
    #[inline]
    pub(crate) fn remove_at(&mut self, place: &mut Place, key: &[u8]) -> Result<Tally> {
        let change = -self.measures.of_row(key, self.value_at(place));
        self.erase_at(&mut place.path, place.position, key, change)?;
        Ok(change)
    }
}
