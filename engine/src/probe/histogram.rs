//! Histograms with certain bounds, from a table's trees and the inner pages of its runs (after YDB).
//!
//! All runs are cut into tiles (`histogram_tiles`), and a sweep goes over the stretches between neighbouring borders of
//! tiles. No run has more than one tile over a stretch. Where these together sway by more than half the resolution, the
//! largest are opened, until they do not or all are leaves. Trees are exact at any key (`histogram_trees`); where they
//! hold more over a stretch than an eighth of the resolution, they cut it. Then the sweep lays buckets, each as long as
//! the resolution allows; a leaf that a boundary cuts is opened only if the tiles that it cuts sway too much.
//!
//! Invariants:
//! 1. The rows and bytes of the whole range are exact: the pages at its two ends are opened down to the leaves.
//! 2. Before a boundary, rows and bytes are known to within half the resolution; within a bucket to within the
//!    resolution.
//! 3. A bucket has no more rows than the resolution, unless those that runs add or remove there are of one leaf of
//!    each run, and those of trees are one entry each or at most an eighth of the resolution. The same holds for bytes.
//!
//! Cost: a descent of each run for each end that is a key; inner pages that cover more than half the resolution, shared
//! out over the runs; and leaves, where those that a boundary cuts have more than half the resolution together. Each
//! wave of the sweep requests all its pages at once. There are about as many waves as the highest run has levels, and
//! never more than all runs have together, and one. Trees cost descents: about sixteen for each bucket, and one for
//! each page's border. A tile takes some 400 bytes of memory; an opened page stays with the reader.

use smallvec::SmallVec;

use super::RunLayer;
use super::histogram_tiles::{Keys, Sway, Tile, Tiles};
use super::histogram_trees::{Net, Trees};
use crate::bounds::Bounds;
use crate::cache::Missing;
use crate::page::KeyBuffer;
use crate::stack::{Cut, Stack, ask_all};

/// The precision of a [`Histogram`]: the most that a bucket may hold, and the largest distance between its bounds. A
/// coarser one costs less; `u64::MAX` sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Live rows.
    pub rows: u64,
    /// Bytes, counted like those of a [`Bucket`].
    pub bytes: u64,
}

impl Resolution {
    /// A resolution in rows alone.
    pub fn of_rows(rows: u64) -> Resolution {
        Resolution { rows, bytes: u64::MAX }
    }
}

/// A number between `low` and `high`, inclusive; exact if they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountInterval {
    /// The least possible value.
    pub low: u64,
    /// The greatest possible value.
    pub high: u64,
}

impl CountInterval {
    /// The distance between the bounds.
    pub fn width(&self) -> u64 {
        self.high - self.low
    }

    /// The number in the middle.
    pub fn middle(&self) -> u64 {
        self.low + self.width() / 2
    }

    /// The interval of a number that is also known to be between zero and `most`.
    fn new(low: i64, high: i64, most: u64) -> CountInterval {
        let within = |number: i64| u64::try_from(number).unwrap_or(0).min(most);
        CountInterval { low: within(low), high: within(high) }
    }
}

/// Rows and bytes of neighbouring keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its keys. The first bucket begins where the range does, every other where the one before ends.
    pub bounds: Bounds<'static>,
    /// Live rows in it.
    pub rows: CountInterval,
    /// Its bytes on disk: those of the pages of runs, with long values and dead entries. The bytes of a page are spread
    /// evenly over its entries; those of inner pages and filters count with the last page below them. If the table
    /// measures bytes, then also the bytes of keys and values that the layers in memory add or remove; otherwise these
    /// do not count.
    pub bytes: CountInterval,
    /// Live rows from the start of the range to the bucket's end.
    pub rows_until: CountInterval,
    /// Bytes from the start of the range to the bucket's end.
    pub bytes_until: CountInterval,
}

/// How the rows and bytes of a range are distributed. Made by
/// [`ReadableTable::histogram`](crate::ReadableTable::histogram).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Adjacent and ascending, over the whole range; none if no key can be in it.
    pub buckets: Vec<Bucket>,
    /// Live rows in the range.
    pub rows: u64,
    /// Bytes in the range, counted like those of a bucket.
    pub bytes: u64,
    /// Number of distinct pages of runs used.
    pub pages: u64,
    /// Those of them that were not in the cache, and were read from a file.
    pub pages_read: u64,
}

/// The histogram of the rows between two cuts, of trees over runs: those of a table, or all from some layer down, since
/// weights are relative to what lies below. It does not know which pages were read.
///
/// # Errors
/// If pages are missing. All that the sweep was sure to need have been noted; repeating gets further.
pub(crate) fn histogram(
    trees: &Stack<'_>,
    runs: &[RunLayer<'_>],
    start: Cut<'_>,
    end: Cut<'_>,
    resolution: &Resolution,
) -> Result<Histogram, Missing> {
    let Some(range) = keys_between(start, end) else { return Ok(Histogram::default()) };
    let mut sweep = Sweep::new(Trees::new(trees), runs, &range, resolution);
    loop {
        sweep.want_ends();
        sweep.want_inner();
        if !sweep.open()? {
            break;
        }
    }
    sweep.cut_by_trees();
    let boundaries = sweep.lay_buckets();
    sweep.open()?;
    Ok(sweep.histogram(boundaries, start, end))
}

/// The keys between two cuts; `None` if there can be none.
fn keys_between(start: Cut<'_>, end: Cut<'_>) -> Option<Keys> {
    // No key is between a key and the same key followed by a zero byte.
    let after = |key: &[u8]| key.iter().copied().chain([0]).collect::<KeyBuffer>();
    let start = match start {
        Cut::Start => KeyBuffer::new(),
        Cut::Before(key) => KeyBuffer::from_slice(key),
        Cut::After(key) => after(key),
        Cut::End => return None,
    };
    let end = match end {
        Cut::Start => return None,
        Cut::Before(key) => Some(KeyBuffer::from_slice(key)),
        Cut::After(key) => Some(after(key)),
        Cut::End => None,
    };
    end.as_ref().is_none_or(|end| start < *end).then_some(Keys { start, end })
}

/// The tiles of all runs, and the trees over them.
struct Sweep<'a> {
    trees: Trees<'a>,
    runs: Vec<Tiles<'a>>,
    range: &'a Keys,
    /// Where trees cut the range; ascending.
    tree_borders: Vec<KeyBuffer>,
    /// The most that a bucket should hold.
    rows_max: i64,
    bytes_max: i64,
}

/// What the tiles over a stretch should have at most together: half the resolution.
struct Measure {
    of: fn(&Sway) -> i64,
    limit: i64,
}

/// A stretch of keys between neighbouring borders, with each run's tile there.
struct Stretch {
    tiles: SmallVec<[usize; 8]>,
    /// The index of the first border of trees that is not before it.
    tree_border: usize,
}

impl Stretch {
    /// The border where it ends; `None` if that is the end of the range.
    fn end(&self, sweep: &Sweep<'_>) -> Option<KeyBuffer> {
        let ends = sweep.tiles(self).filter_map(|(_, tile)| tile.keys.end.as_ref());
        let end = ends.chain(sweep.tree_borders.get(self.tree_border)).min()?;
        sweep.range.end.as_ref().is_none_or(|range_end| end < range_end).then(|| end.clone())
    }

    /// Moves to the stretch after `border`, where this one ends. `ended` gets the index of each run whose tile ends
    /// there too, and the tile.
    fn pass(&mut self, sweep: &Sweep<'_>, border: &KeyBuffer, mut ended: impl FnMut(usize, &Tile)) {
        for (run, at) in self.tiles.iter_mut().enumerate() {
            let tile = &sweep.runs[run].as_slice()[*at];
            if tile.keys.end.as_ref() == Some(border) {
                ended(run, tile);
                *at += 1;
            }
        }
        self.tree_border += usize::from(sweep.tree_borders.get(self.tree_border) == Some(border));
    }
}

impl<'a> Sweep<'a> {
    fn new(trees: Trees<'a>, runs: &[RunLayer<'a>], range: &'a Keys, resolution: &Resolution) -> Sweep<'a> {
        let most = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let runs = runs.iter().map(|run| Tiles::new(*run, range)).filter(|run| !run.as_slice().is_empty());
        Sweep {
            trees,
            runs: runs.collect(),
            range,
            tree_borders: Vec::new(),
            rows_max: most(resolution.rows),
            bytes_max: most(resolution.bytes),
        }
    }

    fn first_stretch(&self) -> Stretch {
        Stretch { tiles: self.runs.iter().map(|_| 0).collect(), tree_border: 0 }
    }

    /// What trees have before a border; before the end of the range, if there is none.
    fn trees_before(&self, border: Option<&KeyBuffer>) -> Net {
        self.trees.before(border.or(self.range.end.as_ref()).map(|border| &**border))
    }

    /// The tiles over a stretch, with the indexes of their runs.
    fn tiles(&self, stretch: &Stretch) -> impl Iterator<Item = (usize, &Tile)> {
        stretch.tiles.iter().enumerate().map(|(run, &at)| (run, &self.runs[run].as_slice()[at]))
    }

    fn measures(&self) -> [Measure; 2] {
        [
            Measure { of: Sway::width, limit: self.rows_max / 2 },
            Measure { of: |sway| sway.bytes, limit: self.bytes_max / 2 },
        ]
    }

    /// Marks the tiles that lie across the ends of the range for opening.
    fn want_ends(&mut self) {
        for tile in self.runs.iter_mut().flat_map(Tiles::as_mut_slice) {
            for end in [Some(&self.range.start), self.range.end.as_ref()].into_iter().flatten() {
                // Of what was excised nothing lies on either side.
                if tile.keys.straddle(end) && tile.sway != Sway::default() {
                    tile.want(end);
                }
            }
        }
    }

    /// Marks the inner pages that are larger than the resolution allows for opening: over each stretch the largest, and
    /// the next if the rest is still too large. So none is opened that opening a larger one could have spared.
    fn want_inner(&mut self) {
        let mut stretch = self.first_stretch();
        loop {
            for Measure { of: measure, limit } in self.measures() {
                let unopened = || self.tiles(&stretch).filter(|(_, tile)| !tile.is_wanted());
                let mut left: i64 = unopened().map(|(_, tile)| measure(&tile.sway)).sum();
                let mut inner: SmallVec<[(i64, usize); 8]> = unopened()
                    .filter(|(_, tile)| tile.is_inner())
                    .map(|(run, tile)| (measure(&tile.sway), run))
                    .collect();
                inner.sort_unstable_by(|a, b| b.cmp(a));
                for (size, run) in inner {
                    if left <= limit || size == 0 {
                        break;
                    }
                    self.runs[run].as_mut_slice()[stretch.tiles[run]].want_inner();
                    left -= size;
                }
            }
            let Some(border) = stretch.end(self) else { break };
            stretch.pass(self, &border, |_, _| ());
        }
    }

    /// Opens the marked tiles. Returns whether there were any.
    fn open(&mut self) -> Result<bool, Missing> {
        let is_any_wanted = self.runs.iter().any(Tiles::is_any_wanted);
        ask_all(self.runs.iter_mut().map(Tiles::open), |()| ())?;
        Ok(is_any_wanted)
    }

    /// Adds borders where trees hold more than an eighth of the resolution between those of pages. Their tombstones may
    /// hide as many rows as the tiles there have, and no more.
    fn cut_by_trees(&mut self) {
        let most = Net { rows: (self.rows_max / 8).max(1), bytes: (self.bytes_max / 8).max(1) };
        let mut borders = Vec::new();
        let mut stretch = self.first_stretch();
        let mut start = self.range.start.clone();
        while let Some(end) = stretch.end(self) {
            stretch.pass(self, &end, |_, _| ());
            let keys = Keys { start, end: Some(end.clone()) };
            borders.extend(self.trees.borders(&keys, most));
            start = end;
        }
        borders.extend(self.trees.borders(&Keys { start, end: self.range.end.clone() }, most));
        self.tree_borders = borders;
    }

    /// Decides where buckets end, and marks leaves that are cut there for opening where the resolution requires it.
    fn lay_buckets(&mut self) -> Vec<KeyBuffer> {
        let mut boundaries: Vec<KeyBuffer> = Vec::new();
        let mut stretch = self.first_stretch();
        // The most that the bucket can have before the stretch, and which tiles lie only partly in it.
        let (mut rows, mut bytes) = (0, 0);
        let mut is_cut: SmallVec<[bool; 8]> = self.runs.iter().map(|_| false).collect();
        let mut start: Option<KeyBuffer> = None;
        // What trees have before the bucket, and before the stretch.
        let mut trees_before = self.trees_before(Some(&self.range.start));
        let mut trees_here = trees_before;
        loop {
            let open = self.tiles(&stretch).fold(Sway::default(), |sum, (_, tile)| sum + tile.sway);
            let end = stretch.end(self);
            let trees_until = self.trees_before(end.as_ref());
            let of_trees = trees_until - trees_before;
            let is_full = rows + of_trees.rows + open.fresh > self.rows_max
                || bytes + of_trees.bytes + open.bytes > self.bytes_max;
            if is_full && let Some(boundary) = start.take() {
                is_cut = self.tiles(&stretch).map(|(_, tile)| tile.keys.straddle(&boundary)).collect();
                self.cut_leaves(&stretch, &boundary);
                boundaries.push(boundary);
                (rows, bytes, trees_before) = (0, 0, trees_here);
            }
            let Some(border) = end else { return boundaries };
            trees_here = trees_until;
            stretch.pass(self, &border, |run, tile| {
                rows += if is_cut[run] { tile.sway.fresh } else { tile.sway.rows() };
                bytes += tile.sway.bytes;
                is_cut[run] = false;
            });
            start = Some(border);
        }
    }

    /// Marks leaves to be opened and cut at a boundary, where a stretch begins: the largest first, until the rest is
    /// small enough.
    fn cut_leaves(&mut self, stretch: &Stretch, boundary: &KeyBuffer) {
        let mut open: SmallVec<[(usize, Sway); 8]> = (self.tiles(stretch))
            .filter(|(_, tile)| tile.keys.straddle(boundary))
            .map(|(run, tile)| (run, tile.sway))
            .collect();
        for Measure { of: measure, limit } in self.measures() {
            open.sort_by_key(|(_, sway)| measure(sway));
            while open.iter().map(|(_, sway)| measure(sway)).sum::<i64>() > limit {
                let (run, _) = open.pop().expect("a sum of something");
                self.runs[run].as_mut_slice()[stretch.tiles[run]].want(boundary);
            }
        }
    }

    /// Adds up what lies between boundaries, in a range between these cuts.
    fn histogram(&self, boundaries: Vec<KeyBuffer>, start: Cut<'_>, end: Cut<'_>) -> Histogram {
        let total = self.runs.iter().flat_map(Tiles::as_slice).fold(Sway::default(), |sum, tile| sum + tile.sway);
        let trees_start = self.trees_before(Some(&self.range.start));
        let of_trees = self.trees_before(None) - trees_start;
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let (rows, bytes) = (number(total.rows() + of_trees.rows), number(total.bytes + of_trees.bytes));
        let mut stretch = self.first_stretch();
        let mut buckets: Vec<Bucket> = Vec::with_capacity(boundaries.len() + 1);
        let mut boundaries = boundaries.into_iter().peekable();
        // The sums of all tiles that have ended, of those within the bucket, and of those partly in it.
        let (mut before, mut whole, mut part) = (Sway::default(), Sway::default(), Sway::default());
        let mut is_cut: SmallVec<[bool; 8]> = self.runs.iter().map(|_| false).collect();
        let mut trees_before = trees_start;
        let mut bucket_start: Option<KeyBuffer> = None;
        let mut bucket = |boundary: Option<&KeyBuffer>, before: Sway, whole: Sway, part: Sway, cut: Sway| {
            let from = bucket_start.as_deref().map_or(start, Cut::Before);
            let bounds = Bounds::between(from, boundary.map_or(end, |boundary| Cut::Before(boundary)));
            let trees_until = self.trees_before(boundary);
            let (within, until) = (trees_until - trees_before, trees_until - trees_start);
            trees_before = trees_until;
            bucket_start = boundary.cloned();
            let rows_of = |sure: Sway, maybe: Sway, net: Net| {
                let sure = sure.rows() + net.rows;
                CountInterval::new(sure - maybe.erased, sure + maybe.fresh, rows)
            };
            let bytes_of = |sure: Sway, maybe: Sway, net: Net| {
                let sure = sure.bytes + net.bytes;
                CountInterval::new(sure, sure + maybe.bytes, u64::MAX)
            };
            buckets.push(Bucket {
                bounds,
                rows: rows_of(whole, part, within),
                bytes: bytes_of(whole, part, within),
                rows_until: rows_of(before, cut, until),
                bytes_until: bytes_of(before, cut, until),
            });
        };
        while let Some(border) = stretch.end(self) {
            stretch.pass(self, &border, |run, tile| {
                before += tile.sway;
                *(if is_cut[run] { &mut part } else { &mut whole }) += tile.sway;
                is_cut[run] = false;
            });
            if let Some(boundary) = boundaries.next_if_eq(&border) {
                is_cut = self.tiles(&stretch).map(|(_, tile)| tile.keys.straddle(&boundary)).collect();
                let straddling = self.tiles(&stretch).filter(|(run, _)| is_cut[*run]);
                let cut = straddling.fold(Sway::default(), |sum, (_, tile)| sum + tile.sway);
                bucket(Some(&boundary), before, whole, part + cut, cut);
                (whole, part) = (Sway::default(), Sway::default());
            }
        }
        for (run, tile) in self.tiles(&stretch) {
            *(if is_cut[run] { &mut part } else { &mut whole }) += tile.sway;
        }
        bucket(None, total, whole, part, Sway::default());
        Histogram { buckets, rows, bytes, pages: self.runs.iter().map(Tiles::pages).sum(), pages_read: 0 }
    }
}
