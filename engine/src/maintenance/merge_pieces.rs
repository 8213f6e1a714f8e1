//! The pieces of a merge: ranges that it rewrites, files that it keeps, files that it drops unread.
//!
//! ```text
//! upper run      [a .. f]                 [p q r s t]      tombstones of all that lies below
//! lower run   [a .. c][d .. g][h .. m]    [p q r s t]
//!             '---- written --''- kept -'  '- dropped -'
//! ```
//!
//! A file stands alone if no other run has entries between its keys, and nothing was excised from it: it goes into the
//! new run as it is. So rows that come in ascending order are never rewritten. A file of the lowest run whose keys have
//! no row left, as the sums of all runs show, is dropped without being read.
//!
//! Cost: two descents for each file and run.

use std::sync::Arc;

use crate::cache::{Missing, PageCache, ReadPages};
use crate::error::Result;
use crate::page::KeyBuffer;
use crate::probe::RunLayer;
use crate::run::{Part, Run};
use crate::stack::{Cut, Layer, LayerWalk};
use crate::tree::Side;

/// A piece of the new run. Pieces are in key order and do not overlap.
pub(crate) enum Piece {
    /// A file that is kept as it is.
    Kept(Part),
    /// All entries of the runs in this range of keys, merged.
    Merged(Gap),
}

/// Keys above one bound and below another; a missing bound is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    after: Option<KeyBuffer>,
    before: Option<KeyBuffer>,
}

impl Gap {
    pub(crate) fn start(&self) -> Cut<'_> {
        self.after.as_ref().map_or(Cut::Start, |key| Cut::After(key))
    }

    pub(crate) fn end(&self) -> Cut<'_> {
        self.before.as_ref().map_or(Cut::End, |key| Cut::Before(key))
    }
}

/// Keys that are not merged: those of one file, from its first to its last.
struct Solid {
    first: KeyBuffer,
    last: KeyBuffer,
    /// `None` if no row is left of them.
    kept: Option<Part>,
}

/// The pieces of a merge of `runs`, newest first. Files of fewer than `kept_bytes_min` bytes are always merged.
///
/// # Errors
/// Those of reading a page of a run.
pub(crate) fn pieces(runs: &[Arc<Run>], is_bottom: bool, kept_bytes_min: u64, cache: &PageCache) -> Result<Vec<Piece>> {
    let mut solids = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let is_lowest = is_bottom && place + 1 == runs.len();
        for part in run.parts() {
            let Some((first, last)) = ends_of(&part, cache)? else { continue };
            let within = (Cut::Before(&first), Cut::After(&last));
            let others = runs.iter().filter(|other| !Arc::ptr_eq(other, run));
            let info = part.file.info();
            let is_large = info.bytes >= kept_bytes_min;
            let is_whole = part.file.excisions().is_none();
            let can_stay = is_large && is_whole && (!is_bottom || info.has_live_rows_only());
            if can_stay && between(others, within, cache)?.0 == 0 {
                solids.push(Solid { kept: Some(Part { low: first.clone(), ..part }), first, last });
            } else if is_lowest && between(runs, within, cache)?.1 == 0 {
                solids.push(Solid { kept: None, first, last });
            }
        }
    }
    solids.sort_unstable_by(|a, b| a.first.cmp(&b.first));
    let mut pieces = Vec::new();
    let mut after = None;
    for Solid { first, last, kept } in solids {
        let gap = Gap { after, before: Some(first) };
        if between(runs, (gap.start(), gap.end()), cache)?.0 > 0 {
            pieces.push(Piece::Merged(gap));
        }
        pieces.extend(kept.map(Piece::Kept));
        after = Some(last);
    }
    let gap = Gap { after, before: None };
    if between(runs, (gap.start(), gap.end()), cache)?.0 > 0 {
        pieces.push(Piece::Merged(gap));
    }
    Ok(pieces)
}

/// The first and the last key of a part; `None` if it has no entries.
fn ends_of(part: &Part, cache: &PageCache) -> Result<Option<(KeyBuffer, KeyBuffer)>> {
    let run = Arc::new(Run::of_parts(std::slice::from_ref(part), part.file.info().is_bottom));
    let entries = run.info().total.entries;
    if entries == 0 {
        return Ok(None);
    }
    let pages = ReadPages::new(cache);
    let layer = RunLayer::new(&run, &pages);
    let key_of = |walk: <RunLayer<'_> as Layer<'_>>::Walk| walk.key();
    pages.answer(|| Ok(Some((key_of(layer.seek(None)?), layer.key_at(entries - 1)?))))
}

/// The entries and rows of all `runs` between two cuts.
fn between<'r>(
    runs: impl IntoIterator<Item = &'r Arc<Run>>,
    within: (Cut<'_>, Cut<'_>),
    cache: &PageCache,
) -> Result<(i64, i64)> {
    let (mut entries, mut rows) = (0, 0);
    for run in runs {
        let pages = ReadPages::new(cache);
        let layer = RunLayer::new(run, &pages);
        let (start, end) = pages.answer(|| Ok((before(&layer, within.0)?, before(&layer, within.1)?)))?;
        entries += end.0 - start.0;
        rows += end.1 - start.1;
    }
    Ok((entries, rows))
}

/// Entries and rows before a cut.
fn before(layer: &RunLayer<'_>, cut: Cut<'_>) -> Result<(i64, i64), Missing> {
    Ok(match cut {
        Cut::Start => (0, 0),
        Cut::Before(key) => {
            let found = layer.locate(key)?;
            (found.entries, found.rows)
        }
        Cut::After(key) => {
            let found = layer.locate(key)?;
            (found.entries + i64::from(found.is_found), layer.rows_before(key, Side::Through)?)
        }
        Cut::End => (layer.entries().unwrap_or_default(), layer.total().rows),
    })
}
