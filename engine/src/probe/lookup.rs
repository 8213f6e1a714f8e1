//! Looks up many keys in one run together, so that they wait for memory together.
//!
//! A key goes down over pages that the file keeps (`descent`), past a filter, to a leaf in the cache. A key that misses
//! a page on this path takes the long path of a single key (`layer`), which notes what is missing.
//!
//! Cost: some 0.3 us for each key if all is in memory, a third of what a single look-up takes.

use smallvec::SmallVec;

use super::layer::RunLayer;
use crate::cache::Missing;
use crate::page::{Aim, PageRef, Record};
use crate::run::descent::{GROUP, Landed, descend};
use crate::run::excision::Left;
use crate::run::filter::{FilterRef, hash_of, may_have_each};
use crate::run::loaded::Loaded;
use crate::run::node::NodeRef;
use crate::stack::{Layer, Located};
use crate::tree::Side;

/// Cache lines that hold the header, heads and slots of a usual leaf.
const LEAF_LINES: usize = 5;

type Landings<'a, 'k> = SmallVec<[Landed<'a, 'k>; GROUP]>;

/// A leaf that a key belongs to.
struct Leaf<'a, 'k> {
    descent: Landed<'a, 'k>,
    page: PageRef<'a>,
    aim: Aim,
}

/// What is known of a key before its leaf is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is in its leaf or nowhere.
    InLeaf,
    /// It is not there.
    Absent,
    /// A page is missing on the short path.
    Nothing,
}

/// Takes descents to their leaves in the cache. Returns the others too.
fn arrive<'a, 'k>(
    layer: &RunLayer<'a>,
    landed: Landings<'a, 'k>,
) -> (SmallVec<[Leaf<'a, 'k>; GROUP]>, Landings<'a, 'k>) {
    let (mut leaves, mut away) = (SmallVec::<[Leaf<'a, 'k>; GROUP]>::new(), Landings::new());
    for descent in landed {
        match layer.pages().leaf_if_here(descent.file, descent.leaf_offset()) {
            Some(page) => {
                PageRef::prefetch_far_at(page.start(), LEAF_LINES);
                leaves.push(Leaf { descent, page, aim: Aim::default() });
            }
            None => away.push(descent),
        }
    }
    for leaf in &mut leaves {
        leaf.aim = leaf.page.aim::<true>(leaf.descent.key);
        leaf.page.prefetch_slot(leaf.aim);
    }
    for leaf in &leaves {
        leaf.page.prefetch_aim(leaf.aim);
    }
    (leaves, away)
}

/// Drops the descents whose filters say that their key is absent, and records that in `told`.
fn pass_filters(landed: &mut Landings<'_, '_>, told: &mut [Told; GROUP]) {
    let mut filters: SmallVec<[(usize, u64); GROUP]> = SmallVec::new();
    for (place, descent) in landed.iter().enumerate() {
        if let Some(offset) = descent.filter_offset() {
            descent.file.kept().prefetch(offset);
            filters.push((place, offset));
        }
    }
    let mut places: SmallVec<[usize; GROUP]> = SmallVec::new();
    let mut asked: SmallVec<[(FilterRef<'_>, u64); GROUP]> = SmallVec::new();
    for (place, offset) in filters {
        if let Some(Loaded::Filter(filter)) = landed[place].file.kept().get(offset) {
            PageRef::prefetch_at(filter.as_slice().as_ptr(), 1);
            places.push(place);
            asked.push((FilterRef::unchecked(filter.as_slice()), hash_of(landed[place].key)));
        }
    }
    for (place, may_have) in places.iter().zip(may_have_each(&asked)) {
        if !may_have {
            told[landed[*place].number] = Told::Absent;
        }
    }
    landed.retain(|descent| told[descent.number] != Told::Absent);
}

impl<'a> RunLayer<'a> {
    /// The entry of `key`, by the short path: over pages that the file keeps, to a leaf in the cache. `None` if a page
    /// on it is missing.
    #[inline]
    pub(super) fn get_shortly(&self, key: &[u8]) -> Option<Option<Record<'a>>> {
        let file = self.run().file_of(key);
        if file.is_excised(key) {
            return Some(None);
        }
        let Loaded::Node(root) = file.kept_root()? else { return None };
        let (mut node, mut offset) = (NodeRef::unchecked(root.as_slice()), file.root_offset());
        while node.level() > 1 {
            offset = file.child_offset(&node, node.child_of(key));
            let Loaded::Node(child) = file.kept().get(offset)? else { return None };
            node = NodeRef::unchecked(child.as_slice());
        }
        let child = node.child_of(key);
        let descent = Landed::new(key, file, node, offset, child);
        let filter = descent.filter().map(|filter| (filter, filter.places(hash_of(key))));
        let mut leaf = None;
        if let Some((filter, places)) = &filter {
            filter.prefetch(places);
            // Most keys are in the bottom run: find the leaf while the filter comes.
            if self.is_bottom() {
                leaf = self.pages().leaf_if_here(file, descent.leaf_offset());
                leaf.into_iter().for_each(|leaf| PageRef::prefetch_at(leaf.start(), LEAF_LINES));
            }
            if !filter.has(places) {
                return Some(None);
            }
        }
        let leaf = leaf.or_else(|| self.pages().leaf_if_here(file, descent.leaf_offset()))?;
        PageRef::prefetch_at(leaf.start(), LEAF_LINES);
        let (position, is_found) = leaf.search::<true>(key);
        Some(is_found.then(|| leaf.leaf_record(position)))
    }

    /// Looks up at most [`GROUP`] keys. `found` gets the entry of each, with its index, in order.
    pub(crate) fn get_group(&self, keys: &[&[u8]], mut found: impl FnMut(usize, Result<Option<Record<'a>>, Missing>)) {
        let mut told = [Told::Nothing; GROUP];
        let mut landed = descend(keys.iter().enumerate().filter_map(|(number, key)| {
            let file = self.run().file_of(key);
            if file.is_excised(key) {
                told[number] = Told::Absent;
                return None;
            }
            Some((number, *key, file))
        }));
        // Most keys are in the bottom run, and a leaf in the cache says what its filter would.
        if !self.is_bottom() {
            pass_filters(&mut landed, &mut told);
        }
        let (leaves, mut away) = arrive(self, landed);
        if self.is_bottom() {
            pass_filters(&mut away, &mut told);
        }
        let mut records = [None; GROUP];
        for Leaf { descent, page, aim } in leaves {
            let (position, is_found) = page.settle::<true>(aim, descent.key);
            told[descent.number] = Told::InLeaf;
            records[descent.number] = is_found.then(|| page.leaf_record(position));
        }
        for (number, key) in keys.iter().enumerate() {
            let answer = match told[number] {
                Told::InLeaf => Ok(records[number]),
                Told::Absent => Ok(None),
                Told::Nothing => self.record(key),
            };
            found(number, answer);
        }
    }

    /// Counts the rows before at most [`GROUP`] cuts. `counted` gets the counts with their indexes, in order.
    pub(crate) fn rows_before_group(
        &self,
        cuts: &[(&[u8], Side)],
        mut counted: impl FnMut(usize, Result<i64, Missing>),
    ) {
        let (mut rows, mut erased) = ([None; GROUP], [0; GROUP]);
        let landed = descend(cuts.iter().enumerate().filter_map(|(number, (key, side))| {
            match self.left_at(key, *side) {
                Left::Known(left) => {
                    rows[number] = Some(left.sums.tally.rows);
                    return None;
                }
                Left::Less(less) => erased[number] = less.sums.tally.rows,
            }
            Some((number, *key, self.run().file_of(key)))
        }));
        for Leaf { descent, page, aim } in arrive(self, landed).0 {
            let number = descent.number;
            let (position, is_found) = page.settle::<true>(aim, descent.key);
            let position = position + usize::from(is_found && cuts[number].1 == Side::Through);
            rows[number] = Some(descent.rows_before() + self.leaf_rows(&page, position) - erased[number]);
        }
        for (number, (key, side)) in cuts.iter().enumerate() {
            counted(number, rows[number].map_or_else(|| self.rows_before(key, *side), Ok));
        }
    }

    /// Where at most [`GROUP`] keys are. `located` gets each place with the index of its key, in order.
    pub(crate) fn locate_together(&self, keys: &[&[u8]], mut located: impl FnMut(usize, Result<Located, Missing>)) {
        let mut places = [None; GROUP];
        // Excisions take the long path.
        if !self.run().has_excisions() {
            let keys = keys.iter().enumerate().map(|(number, key)| (number, *key, self.run().file_of(key)));
            for Leaf { descent, page, aim } in arrive(self, descend(keys)).0 {
                let (position, is_found) = page.settle::<true>(aim, descent.key);
                places[descent.number] = Some(Located {
                    rows: descent.rows_before() + self.leaf_rows(&page, position),
                    entries: descent.entries_before() + position as i64,
                    is_found,
                });
            }
        }
        for (number, key) in keys.iter().enumerate() {
            located(number, places[number].map_or_else(|| self.locate(key), Ok));
        }
    }
}
