//! Tiles: one run's cuts of the key space, each the subtree of a page or entries of a leaf.
//!
//! Opening a tile replaces it by smaller ones.
//!
//! Invariants:
//! 1. The tiles of a run cover the requested range, ascending, without holes; each overlaps it.
//! 2. The sums of a tile are exact for all its entries that are left. How much of it lies before a key within is known
//!    as far as [`Sway`] says.
//!
//! Cost: opening reads one page; for an inner page it makes a tile for each child that overlaps the range.
//! Not here: which tiles are worth opening (`histogram`).

use std::ops::{Add, AddAssign, Range};

use super::RunLayer;
use super::without_ranges::share;
use crate::cache::Missing;
use crate::page::{KeyBuffer, record};
use crate::run::Run;
use crate::run::excision::Prefix;
use crate::run::format::Sums;
use crate::run::place::UnitPlace;
use crate::tally::Tally;

/// Rows and bytes of entries, any of which may lie before or after a key.
///
/// An entry over a live value weighs nothing, wherever it lies: between `-erased` and `fresh` rows lie before the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sway {
    /// Entries that weigh one row.
    pub(crate) fresh: i64,
    /// Entries that remove one row.
    pub(crate) erased: i64,
    /// Bytes of the file.
    pub(crate) bytes: i64,
}

impl Sway {
    /// The rows of all the entries.
    pub(crate) fn rows(&self) -> i64 {
        self.fresh - self.erased
    }

    /// How many different numbers of rows may lie before a key, minus one.
    pub(crate) fn width(&self) -> i64 {
        self.fresh + self.erased
    }

    /// What lies between two places of a run.
    fn between(from: &Prefix, to: &Prefix) -> Sway {
        let sums = to.sums - from.sums;
        Sway { fresh: sums.fresh(), erased: sums.erased, bytes: (to.bytes - from.bytes) as i64 }
    }
}

impl Add for Sway {
    type Output = Sway;

    fn add(self, other: Sway) -> Sway {
        Sway { fresh: self.fresh + other.fresh, erased: self.erased + other.erased, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Sway {
    fn add_assign(&mut self, other: Sway) {
        *self = *self + other;
    }
}

/// Keys from `start`, before `end` if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) start: KeyBuffer,
    pub(crate) end: Option<KeyBuffer>,
}

impl Keys {
    /// Whether there are keys here on either side of the cut before `key`.
    pub(super) fn straddle(&self, key: &[u8]) -> bool {
        *self.start < *key && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    fn overlap(&self, other: &Keys) -> bool {
        let begins_before = |a: &Keys, b: &Keys| b.end.as_ref().is_none_or(|end| a.start < *end);
        begins_before(self, other) && begins_before(other, self)
    }
}

/// A part of a run.
pub(super) struct Tile {
    /// The range of all its keys.
    pub(crate) keys: Keys,
    pub(super) sway: Sway,
    place: UnitPlace,
    /// Its range in the file. Leaves stand there in the order of keys, an inner page after the last of its subtree.
    extent: Range<u64>,
    /// Its entries of the leaf, once that has been opened.
    entries: Option<Range<usize>>,
    /// For an inner page: whether it is marked for opening.
    inner_is_wanted: bool,
    /// For a leaf: keys within it before which it will be opened and cut; ascending.
    cuts: Vec<KeyBuffer>,
}

impl Tile {
    fn new(keys: Keys, place: UnitPlace, extent: Range<u64>, run: &Run) -> Tile {
        let left = |sums: Sums, bytes: u64| run.left(&place, Prefix { sums, bytes: bytes - place.shift });
        let sway = Sway::between(&left(place.before, extent.start), &left(place.until, extent.end));
        Tile { keys, sway, place, extent, entries: None, inner_is_wanted: false, cuts: Vec::new() }
    }

    pub(super) fn is_inner(&self) -> bool {
        self.place.level > 0
    }

    /// Whether it is marked for opening.
    pub(crate) fn is_wanted(&self) -> bool {
        self.inner_is_wanted || !self.cuts.is_empty()
    }

    /// Marks it, an inner page, for opening.
    pub(super) fn want_inner(&mut self) {
        debug_assert!(self.is_inner());
        self.inner_is_wanted = true;
    }

    /// Marks it, which straddles the cut before `key`, for opening, and a leaf for cutting there. Keys come ascending.
    pub(crate) fn want(&mut self, key: &[u8]) {
        if self.is_inner() {
            self.want_inner();
        } else if self.cuts.last().is_none_or(|last| **last < *key) {
            self.cuts.push(KeyBuffer::from_slice(key));
        }
    }
}

/// The tiles of a run over a range of keys.
pub(super) struct Tiles<'a> {
    layer: RunLayer<'a>,
    range: &'a Keys,
    tiles: Vec<Tile>,
    /// Pages that were opened.
    pages: u64,
}

impl<'a> Tiles<'a> {
    /// A tile for each file of the run that may have keys of the range; none if the run has no entries.
    pub(crate) fn new(layer: RunLayer<'a>, range: &'a Keys) -> Tiles<'a> {
        let run = layer.run();
        let mut tiles = Vec::new();
        let mut parts = run.parts().filter(|_| run.info().total.entries > 0).peekable();
        while let Some(part) = parts.next() {
            let keys = Keys { start: part.low, end: parts.peek().map(|next| next.low.clone()) };
            if let Some(root) = part.file.root().filter(|_| keys.overlap(range)) {
                tiles.push(Tile::new(keys, root, root.start()..root.end(), run));
            }
        }
        Tiles { layer, range, tiles, pages: 0 }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn as_slice(&self) -> &[Tile] {
        &self.tiles
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Tile] {
        &mut self.tiles
    }

    /// Whether a tile is marked for opening.
    pub(super) fn is_any_wanted(&self) -> bool {
        self.tiles.iter().any(Tile::is_wanted)
    }

    /// Opens the marked tiles.
    ///
    /// # Errors
    /// If pages are missing; then all of them have been noted, and the tiles are of no more use.
    pub(crate) fn open(&mut self) -> Result<(), Missing> {
        let mut opened = Ok(());
        let tiles = std::mem::take(&mut self.tiles);
        self.tiles.reserve(tiles.len());
        for tile in tiles {
            if !tile.is_wanted() {
                self.tiles.push(tile);
                continue;
            }
            let found = if tile.is_inner() { self.open_inner(&tile) } else { self.open_leaf(&tile) };
            opened = opened.and(found);
        }
        opened
    }

    fn open_inner(&mut self, tile: &Tile) -> Result<(), Missing> {
        let run = self.layer.run();
        let page = run.inner(&tile.place, self.layer.pages().page(run, &tile.place)?);
        self.pages += 1;
        for position in 0..page.count() {
            let start = if position == 0 { tile.keys.start.clone() } else { page.separator(position) };
            let is_last = position + 1 == page.count();
            let end = if is_last { tile.keys.end.clone() } else { Some(page.separator(position + 1)) };
            let keys = Keys { start, end };
            if !keys.overlap(self.range) {
                continue;
            }
            let place = run.child(&tile.place, &page, position);
            let end = if is_last { tile.extent.end } else { place.end() };
            self.tiles.push(Tile::new(keys, place, place.start()..end, run));
        }
        Ok(())
    }

    fn open_leaf(&mut self, tile: &Tile) -> Result<(), Missing> {
        let run = self.layer.run();
        let leaf = self.layer.pages().page(run, &tile.place)?.leaf();
        self.pages += u64::from(tile.entries.is_none());
        let entries = tile.entries.clone().unwrap_or(0..leaf.count());
        let extent_bytes = tile.extent.end - tile.extent.start;
        // What the leaf has before a position, from one position to the next.
        let (mut sums, mut counted) = (tile.place.before, 0);
        let mut left_before = |position: usize| {
            for entry in counted..position {
                let state = match run.leaves_have_live_rows_only() {
                    true => record::FRESH,
                    false => leaf.leaf_record(entry).state(),
                };
                let rows = i64::from(state == record::FRESH) - i64::from(state == record::TOMBSTONE);
                Sums::add(&mut sums, state == record::TOMBSTONE, Tally { rows, ..Tally::ZERO });
            }
            counted = position;
            let bytes = tile.extent.start - tile.place.shift + share(extent_bytes, position, leaf.count());
            run.left(&tile.place, Prefix { sums, bytes })
        };
        let (mut start, mut from) = (tile.keys.start.clone(), entries.start);
        let mut left_from = left_before(from);
        for cut in tile.cuts.iter().map(Some).chain([None]) {
            let (end, to) = match cut {
                Some(cut) => (Some(cut.clone()), leaf.search::<true>(cut).0.clamp(from, entries.end)),
                None => (tile.keys.end.clone(), entries.end),
            };
            let keys = Keys { start, end };
            start = cut.cloned().unwrap_or_default();
            let left_to = left_before(to);
            if keys.overlap(self.range) {
                let sway = Sway::between(&left_from, &left_to);
                self.tiles.push(Tile {
                    keys,
                    sway,
                    place: tile.place,
                    extent: tile.extent.clone(),
                    entries: Some(from..to),
                    inner_is_wanted: false,
                    cuts: Vec::new(),
                });
            }
            (from, left_from) = (to, left_to);
        }
        Ok(())
    }
}
