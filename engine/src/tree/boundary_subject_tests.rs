//! A tree under test with its model, and the rows that are worth writing to it: those that fill a page to the byte, or
//! miss it by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;

use super::*;
use crate::page::{
    Builder, HEADER_BYTES, KIND_INNER, KIND_LEAF, KeyBuffer, NewRecord, PageRef, Source, array_bytes,
    common_prefix_len, page_bytes_of, prefix_max,
};

/// What each key has: a value, or of a layer over others `None`, a tombstone.
pub(super) type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A key and a value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// What a tree is built of, page by page. Separators are the first keys of what is after them.
#[derive(Clone)]
pub(super) enum Shape {
    Leaf(Vec<Row>),
    Inner(Vec<Shape>),
}

impl Shape {
    /// The first key.
    fn low(&self) -> &[u8] {
        match self {
            Shape::Leaf(rows) => &rows[0].0,
            Shape::Inner(children) => children[0].low(),
        }
    }
}

/// A tree, and what it has to be.
pub(super) struct Subject {
    pub(super) arena: Arc<Arena>,
    pub(super) tree: Tree,
    pub(super) model: Model,
    pub(super) measures: Measures,
    /// Whether keys share long prefixes, or nothing.
    pub(super) shares_prefixes: bool,
    /// About how long keys are.
    pub(super) key_lengths: Vec<usize>,
    /// The key whose leaf is worked on.
    pub(super) focus: Vec<u8>,
    bottom: bool,
    epoch: u64,
    /// Versions that readers still see, with what they have to be.
    snapshots: Vec<(u64, Version, Model)>,
}

/// What the layers below a layer have at a key, in which half of the keys are live.
fn below(measures: &Measures, key: &[u8]) -> Tally {
    let is_live = key.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) % 2 == 0;
    if is_live { measures.of_row(key, b"below") } else { Tally::ZERO }
}

impl Subject {
    pub(super) fn new(page_bytes: usize, measures: Measures, bottom: bool) -> Subject {
        let arena = Arc::new(Arena::new(page_bytes, 16 << 20).unwrap());
        let tree = Tree::new(arena.clone(), measures, bottom);
        Subject {
            arena,
            tree,
            model: Model::new(),
            measures,
            shares_prefixes: true,
            key_lengths: vec![1],
            focus: Vec::new(),
            bottom,
            epoch: 1,
            snapshots: Vec::new(),
        }
    }

    /// A tree of this shape, a root over others. Leaves have no prefixes, as those have whose other rows have gone.
    pub(super) fn of_shape(page_bytes: usize, shape: &Shape) -> Subject {
        let mut subject = Subject::new(page_bytes, Measures::ROWS, true);
        let (root, height, rows) = subject.build(shape, true);
        let tree = &mut subject.tree;
        (tree.root, tree.height, tree.entries) = (root, height, rows as u64);
        tree.total.rows = rows;
        assert_eq!(subject.faults(), [""; 0]);
        subject
    }

    /// Leaves of these rows under one root.
    pub(super) fn of_leaves(page_bytes: usize, leaves: &[Vec<Row>]) -> Subject {
        let leaves = leaves.iter().map(|rows| Shape::Leaf(rows.clone()));
        Subject::of_shape(page_bytes, &Shape::Inner(leaves.collect()))
    }

    /// A page of this shape, its height, and how many rows are under it.
    fn build(&mut self, shape: &Shape, is_first: bool) -> (PageId, usize, i64) {
        let children = match shape {
            Shape::Leaf(rows) => {
                let id = self.tree.new_page(KIND_LEAF, 0);
                let mut builder = Builder::new(self.tree.page_mut(id), &[], rows.len());
                for (key, value) in rows {
                    builder.push_new(&NewRecord { value, ..self.record_of(key) });
                    self.model.insert(key.clone(), Some(value.clone()));
                }
                builder.finish();
                return (id, 1, rows.len() as i64);
            }
            Shape::Inner(children) => children,
        };
        let built: Vec<_> =
            children.iter().enumerate().map(|(at, child)| self.build(child, is_first && at == 0)).collect();
        let height = built[0].1;
        let id = self.tree.new_page(KIND_INNER, height);
        let lows: Vec<&[u8]> = children.iter().map(Shape::low).collect();
        let skip = usize::from(is_first);
        // As pages are where they were made of these children: with the longest prefix there is.
        let mut prefix_len = 0;
        if lows.len() > skip + 1 {
            prefix_len = common_prefix_len(lows[skip], lows[lows.len() - 1]).min(prefix_max(self.arena.page_bytes()));
        }
        let prefix = &lows[lows.len() - 1][..prefix_len];
        let mut builder = Builder::new(self.tree.page_mut(id), prefix, children.len());
        let mut total = 0;
        for (at, (&(child, child_height, rows), low)) in built.iter().zip(lows).enumerate() {
            assert_eq!(child_height, height);
            let is_open = is_first && at == 0;
            let new = if is_open { self.record_of(&[]) } else { self.record_of(low) };
            builder.push_child(&new, is_open, child, &[rows]);
            total += rows;
        }
        builder.finish();
        (id, height + 1, total)
    }

    /// A record of this key, which is copied if it is too long for a page.
    fn record_of<'k>(&mut self, key: &'k [u8]) -> NewRecord<'k> {
        let mut new = NewRecord { flags: 0, key, key_handle: 0, weights: &[], value: &[] };
        if key.len() > self.tree.inline_key_max() {
            new.flags = record::KEY_OUT;
            new.key_handle = self.tree.new_blob(key).unwrap().handle();
        }
        new
    }

    /// Rows of these keys that fill a leaf without a prefix but for `free` bytes.
    pub(super) fn rows_that_leave(page_bytes: usize, free: usize, key: impl Fn(u8) -> Vec<u8>) -> Vec<Row> {
        let mut left = page_bytes - HEADER_BYTES - free;
        let mut rows = Vec::new();
        loop {
            let key = key(rows.len() as u8);
            let flags = if key.len() > page_bytes / 10 { record::KEY_OUT } else { 0 };
            let new = NewRecord { flags, key: &key, key_handle: 0, weights: &[], value: &[] };
            let least = new.len(KIND_LEAF, 0) + array_bytes(KIND_LEAF, 0);
            if left < least {
                return rows;
            }
            // What is left for the next one is nothing, or enough.
            let most = left - least;
            let value_bytes = if most < least { most } else { (left - 2 * least).min(page_bytes / 10) };
            let value_bytes = value_bytes.min(page_bytes / 10);
            left -= least + value_bytes;
            rows.push((key, vec![b'v'; value_bytes]));
        }
    }

    fn below(&self, key: &[u8]) -> Tally {
        if self.bottom { Tally::ZERO } else { below(&self.measures, key) }
    }

    /// Puts a value, or removes the key.
    pub(super) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let below = self.below(key);
        match value {
            _ if !self.bottom => {
                let below = |existing: Option<super::write::Existing>| {
                    assert!(existing.as_ref().is_none_or(|existing| existing.below == below));
                    Some(below)
                };
                self.tree.write_over(key, value, below).unwrap();
            }
            Some(value) => drop(self.tree.put(key, value, When::Always).unwrap()),
            None => drop(self.tree.remove(key).unwrap()),
        }
        if value.is_some() || below.rows > 0 {
            self.model.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        } else {
            self.model.remove(key);
        }
    }

    /// Removes the rows from `low` to `high`, exclusive; those of a layer over others one by one.
    pub(super) fn remove_range(&mut self, low: &[u8], high: &[u8]) {
        let gone: Vec<Vec<u8>> = self.model.range(low.to_vec()..high.to_vec()).map(|(key, _)| key.clone()).collect();
        if !self.bottom {
            gone.iter().for_each(|key| self.write(key, None));
            return;
        }
        let (_, removed) = self.tree.remove_range(Some(low), Some(high)).unwrap();
        assert_eq!(removed, gone.len() as u64);
        gone.iter().for_each(|key| drop(self.model.remove(key)));
    }

    /// Merges a layer of these writes into the tree, as a commit does.
    pub(super) fn merge(&mut self, writes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        let mut layer = Tree::new(self.arena.clone(), self.measures, false);
        for (key, value) in writes {
            let found = self.model.get(key);
            let of_row = |value: &Vec<u8>| self.measures.of_row(key, value);
            let below = found.map_or(self.below(key), |value| value.as_ref().map_or(Tally::ZERO, of_row));
            layer.write_over(key, value.as_deref(), |_| Some(below)).unwrap();
        }
        assert_eq!(layer.check(), [""; 0]);
        crate::tree::merge_layer(&mut self.tree, &layer).unwrap();
        for (key, value) in writes {
            if value.is_some() || self.below(key).rows > 0 {
                self.model.insert(key.clone(), value.clone());
            } else {
                self.model.remove(key);
            }
        }
    }

    /// Builds the tree anew from its rows: in order as after a restart, or by writes that it then takes over as a
    /// transaction's.
    pub(super) fn build_anew(&mut self, in_order: bool) {
        assert!(self.bottom);
        self.forget_snapshots();
        let rows = || self.model.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let empty = Tree::new(self.arena.clone(), self.measures, true);
        self.tree = if in_order {
            let mut loader = Loader::new(empty);
            rows().for_each(|(key, value)| loader.push(key, value).unwrap());
            loader.finish().unwrap()
        } else {
            let mut layer = Tree::new(self.arena.clone(), self.measures, false);
            for (key, value) in rows() {
                layer.write_over(key, Some(value), |_| Some(Tally::ZERO)).unwrap();
            }
            let mut tree = empty;
            tree.adopt(layer);
            tree
        };
        self.tree.set_epochs(self.epoch, 0);
    }

    /// Keeps the current version, which must not change from now on.
    pub(super) fn take_snapshot(&mut self) {
        self.snapshots.push((self.epoch, self.tree.version(), self.model.clone()));
        self.epoch += 1;
        self.tree.set_epochs(self.epoch, self.epoch - 1);
    }

    /// Compares all versions that were kept, and forgets them.
    pub(super) fn forget_snapshots(&mut self) {
        for (_, version, model) in std::mem::take(&mut self.snapshots) {
            let mut walk = Walk::first(version.view(&self.arena));
            for (key, value) in &model {
                assert!(walk.valid() && *walk.key() == **key && walk.value() == value.as_deref());
                walk.next();
            }
            assert!(!walk.valid());
        }
        self.tree.set_epochs(self.epoch, 0);
        self.tree.reclaim(&[]);
    }

    /// The checker's faults; what differs from the model fails.
    pub(super) fn faults(&self) -> Vec<String> {
        let faults = self.tree.check();
        if !faults.is_empty() {
            return faults;
        }
        let view = self.tree.view();
        assert_eq!(view.entries(), self.model.len() as u64);
        let mut walk = Walk::first(view);
        let mut before = Tally::ZERO;
        for (key, value) in &self.model {
            assert!(walk.valid() && *walk.key() == **key && walk.value() == value.as_deref());
            assert_eq!(view.get(key).map(|found| found.value()), Some(value.as_deref()));
            assert_eq!(view.tally_before(key, Side::Below), before);
            if self.bottom {
                assert_eq!(*view.nth(before.rows as u64).key(), **key);
            }
            let row = value.as_ref().map_or(Tally::ZERO, |value| self.measures.of_row(key, value));
            before += row - self.below(key);
            walk.next();
        }
        assert!(!walk.valid());
        assert_eq!(view.total(), before);
        faults
    }

    /// Ends the test: every page and every long value has to come back.
    pub(super) fn finish(mut self) {
        self.forget_snapshots();
        let Subject { arena, tree, .. } = self;
        drop(tree);
        assert_eq!((arena.page_bytes_used(), arena.blob_bytes_used()), (0, 0));
    }

    /// The leaf that `key` belongs to, and its neighbours under the same parent.
    fn leaves_around(&self, key: &[u8]) -> Vec<PageRef<'_>> {
        if self.tree.root == NO_PAGE {
            return Vec::new();
        }
        let mut path = Path::new();
        self.tree.descend_to_leaf(key, &mut path);
        let mut leaves = vec![self.tree.leaf(&path)];
        if self.tree.height > 1 {
            let step = path.steps[self.tree.height - 2];
            let parent: PageRef<'_> = self.tree.page(step.page);
            let at = step.position as usize;
            let others = [at.checked_sub(1), Some(at + 1).filter(|&next| next < parent.count())];
            leaves.extend(others.into_iter().flatten().map(|position| self.tree.page(parent.child(position))));
        }
        leaves
    }

    /// A key of the leaf with the fewest entries, of that which is worked on and its neighbours.
    pub(super) fn lonely_key(&self) -> Option<Vec<u8>> {
        let leaves = self.leaves_around(&self.focus);
        let leaf = leaves.iter().filter(|leaf| leaf.count() > 0).min_by_key(|leaf| leaf.count());
        leaf.map(|leaf| leaf.key(0).to_vec())
    }

    /// Bytes that an entry of `key` and `value` takes in `leaf`, arrays included, and those that are free there once
    /// the prefix is one of the key's.
    fn entry_and_room(&self, leaf: &PageRef<'_>, key: &[u8], value_bytes: usize) -> (usize, usize) {
        let prefix_len = common_prefix_len(leaf.prefix(), key);
        let sources: Vec<Source<'_>> = (0..leaf.count()).map(|position| Source { page: *leaf, position }).collect();
        let room = self.arena.page_bytes().saturating_sub(page_bytes_of(&sources, prefix_len));
        let flags = if key.len() > self.tree.inline_key_max() { record::KEY_OUT } else { 0 };
        let value_bytes = if value_bytes > self.tree.inline_value_max() { record::HANDLE_BYTES } else { value_bytes };
        let value = vec![0; value_bytes];
        let new = NewRecord { flags, key, key_handle: 0, weights: &[], value: &value };
        (new.len(KIND_LEAF, prefix_len) + self.tree.weight_bytes() + array_bytes(KIND_LEAF, 0), room)
    }

    /// The length of a value with which an entry of `key` takes `wanted` bytes of `leaf`, or as near to it as a value
    /// within the page gets.
    fn value_bytes_for(&self, leaf: &PageRef<'_>, key: &[u8], wanted: usize) -> usize {
        let least = self.entry_and_room(leaf, key, 0).0;
        let most = self.tree.inline_value_max();
        // A length above 255 takes a byte more.
        let plain = wanted.saturating_sub(least);
        plain.saturating_sub(usize::from(plain > 256)).min(most)
    }

    /// A row that is worth writing: as long as the room in a page, or as leaves so much room there that an entry from
    /// beside just fits, or just does not. For some steps it stays with one leaf and its neighbours, so that each comes
    /// to its edge.
    pub(super) fn choose(&mut self, rng: &mut StdRng) -> (Vec<u8>, Vec<u8>) {
        let fresh = self.fresh_key(rng);
        if rng.random_range(0..16) == 0 {
            self.focus = fresh.clone();
        }
        let leaves = self.leaves_around(&self.focus);
        if leaves.iter().any(|leaf| leaf.count() == 0) || leaves.is_empty() || rng.random_range(0..16) == 0 {
            return (fresh, vec![7; rng.random_range(0..=self.tree.inline_value_max() + 1)]);
        }
        let leaf = leaves[0];
        let beside = leaves[rng.random_range(0..leaves.len())];
        let goal = rng.random_range(0..4);
        let page = if goal == 1 { beside } else { leaf };
        let position = rng.random_range(0..page.count());
        let key = match rng.random_range(0..6) {
            0 => fresh,
            1 => near(&page, position, rng),
            // A new one, where that is wanted; else the row that is there gets another length.
            _ if goal == 2 => near(&page, position, rng),
            _ => page.key(position).to_vec(),
        };
        let size_of = |page: &PageRef<'_>, at: usize| page.leaf_record(at).len + array_bytes(KIND_LEAF, 0);
        let (at, found) = page.search::<true>(&key);
        let room = self.entry_and_room(&page, &key, 0).1 + if found { size_of(&page, at) } else { 0 };
        let wanted = match goal {
            0 => room,
            1 => {
                let edge = if beside.key(0) < leaf.key(0) { 0 } else { leaf.count() - 1 };
                room.saturating_sub(size_of(&leaf, edge)) + 1
            }
            2 => [0, usize::MAX / 2][rng.random_range(0..2)],
            _ => rng.random_range(0..=room),
        };
        // Mostly to the byte, else one more or less.
        let wanted = (wanted + [0, 1, 1, 1, 2][rng.random_range(0..5)]).saturating_sub(1);
        let value_bytes = self.value_bytes_for(&page, &key, wanted);
        (key, vec![rng.random(); value_bytes])
    }

    /// A key of a family: keys of one share a prefix as long as a page cuts off, a byte longer or shorter, or as a page
    /// holds; families lie among each other.
    fn fresh_key(&self, rng: &mut StdRng) -> Vec<u8> {
        let len = self.key_lengths[rng.random_range(0..self.key_lengths.len())];
        if !self.shares_prefixes {
            let mut key = vec![0; len];
            key.insert(0, rng.random());
            return key;
        }
        let mut key = vec![b'p'; len];
        key.push([b'a', b'p', b'z'][rng.random_range(0..3)]);
        if rng.random() {
            key.push(rng.random_range(0..16));
        }
        if rng.random_range(0..8) == 0 {
            key.splice(0..0, [rng.random_range(b'n'..b's')]);
        }
        key
    }
}

/// Lengths at which keys begin to be treated otherwise, in pages of this size: some of them, so that there are many
/// keys of each.
pub(super) fn key_lengths(page_bytes: usize, rng: &mut StdRng) -> Vec<usize> {
    let (longest, inline) = (prefix_max(page_bytes), page_bytes / 10);
    let all = [0, 1, 2, 4, 7, 8, 9, longest - 1, longest, longest + 1, inline - 2, inline - 1, inline, 2 * inline];
    (0..rng.random_range(1..6)).map(|_| all[rng.random_range(0..all.len())]).collect()
}

/// A key next to that of an entry: longer, shorter, or of another last byte.
fn near(leaf: &PageRef<'_>, position: usize, rng: &mut StdRng) -> Vec<u8> {
    let mut key: KeyBuffer = leaf.key(position);
    match rng.random_range(0..4) {
        0 => key.push(rng.random_range(0..3)),
        1 => key.extend_from_slice(&[0, 0, 0, 0, rng.random()]),
        2 if key.len() > 1 => drop(key.pop()),
        _ => {
            if let Some(last) = key.last_mut() {
                *last = last.wrapping_add([1, 255][rng.random_range(0..2)]);
            }
        }
    }
    key.to_vec()
}
