//! Chooses the runs of a table that are merged next.
//!
//! Neighbours of about the same size once there are [`FAN_IN`] of them (size-tiered, like Bigtable and Cassandra), so
//! that a row is rewritten once each time the table grows by that factor; and all runs of a table once the dead entries
//! in their files exceed [`DEAD_PERCENT_MAX`]. Their number is exact: the weights of a live key sum to one row, so all
//! entries but the rows are overwritten ones, tombstones, and excised ones. A run alone is rewritten for these. After a
//! while without flushes, the few remaining runs become one or two.
//!
//! Not here: merging them (`compaction`).

use std::ops::Range;
use std::sync::Arc;

use crate::run::Run;

/// How many neighbours of about the same size become one. With twice as many, twice as many runs are read by gets,
/// scans and writes that look up their key, and little more than half as much is written (`docs/benchmarks.md`).
pub(super) const FAN_IN: usize = 4;
/// Runs are of about the same size if their sizes differ by at most this factor.
const SAME_SIZE: u64 = 4;
/// Everything is merged once the entries that are not live rows reach this percentage of the live rows.
const DEAD_PERCENT_MAX: i64 = 25;
/// At rest, all runs become one if those above the lowest have at least this part of its bytes; else those above it do.
const AT_REST_SHARE: u64 = 8;

/// At rest, a run is rewritten, alone or with others, once so many excisions are in it, and [`AT_REST_SHARE`] of its
/// entries were erased.
const EXCISIONS_AT_REST: usize = 64;

/// The figures by which runs are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) bytes: u64,
    /// Of its files, excised ones too.
    entries: i64,
    rows: i64,
    erased: i64,
    excisions: usize,
}

/// The runs to merge next, by their places in `runs`, which are newest first.
fn choose(runs: &[Size]) -> Option<Range<usize>> {
    if runs.len() < 2 && runs.iter().all(|run| run.erased == 0) {
        return None;
    }
    let (entries, rows) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.entries, sum.1 + run.rows));
    if (entries - rows) * 100 > rows.max(1) * DEAD_PERCENT_MAX {
        return Some(0..runs.len());
    }
    choose_alike(runs)
}

/// Like [`choose`], by sizes alone.
pub(super) fn choose_alike(runs: &[Size]) -> Option<Range<usize>> {
    (0..runs.len()).find_map(|first| {
        let (mut smallest, mut largest) = (u64::MAX, 0);
        let alike = runs[first..].iter().take_while(|run| {
            smallest = smallest.min(run.bytes);
            largest = largest.max(run.bytes);
            largest <= smallest.saturating_mul(SAME_SIZE)
        });
        let count = alike.count();
        (count >= FAN_IN).then(|| first..first + count)
    })
}

/// Like [`choose`], for a table without recent flushes: few runs are read sooner than many.
fn choose_at_rest(runs: &[Size]) -> Option<Range<usize>> {
    let (bottom, upper) = runs.split_last()?;
    let bytes: u64 = upper.iter().map(|run| run.bytes).sum();
    let is_worn = |run: &Size| {
        run.excisions >= EXCISIONS_AT_REST && run.erased.saturating_mul(AT_REST_SHARE as i64) >= run.entries
    };
    if !upper.is_empty() && bytes >= bottom.bytes / AT_REST_SHARE || is_worn(bottom) {
        return Some(0..runs.len());
    }
    (upper.len() > 1).then_some(0..upper.len())
}

/// Like [`choose`], or also [`choose_at_rest`], but only among neighbours that `is_left_alone` does not exclude: those
/// above the first excluded run, and if there is nothing to merge there, those below the last.
pub(super) fn choose_but(
    runs: &[Arc<Run>],
    is_at_rest: bool,
    is_left_alone: impl Fn(&Arc<Run>) -> bool,
) -> Option<Range<usize>> {
    let sizes: Vec<Size> = runs.iter().map(|run| size_of(run)).collect();
    let Some(first) = runs.iter().position(&is_left_alone) else {
        let at_rest = || if is_at_rest { choose_at_rest(&sizes) } else { None };
        return choose(&sizes).or_else(at_rest);
    };
    let last = runs.iter().rposition(is_left_alone)?;
    let below = || choose_alike(&sizes[last + 1..]).map(|chosen| chosen.start + last + 1..chosen.end + last + 1);
    let at_rest = || (is_at_rest && first > 1).then_some(0..first);
    choose_alike(&sizes[..first]).or_else(below).or_else(at_rest)
}

pub(super) fn size_of(run: &Run) -> Size {
    let (info, erased) = (run.info(), run.erased_entries());
    Size {
        bytes: info.bytes,
        entries: info.total.entries + erased,
        rows: info.total.tally.rows,
        erased,
        excisions: run.excisions(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Size = Size { bytes: 100, entries: 100, rows: 100, erased: 0, excisions: 0 };

    fn of_bytes(bytes: &[u64]) -> Vec<Size> {
        bytes.iter().map(|&bytes| Size { bytes, ..ROWS }).collect()
    }

    /// Loads a table of many times the size of a flush, and counts what is written and how many runs there are.
    #[test]
    fn a_load_of_new_rows_is_written_few_times_into_few_runs() {
        let (mut runs, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..1000 {
            runs.insert(0, Size { bytes: 32, entries: 1, rows: 1, ..ROWS });
            while let Some(chosen) = choose(&runs) {
                let sum = runs[chosen.clone()].iter().fold((0, 0), |sum, run| (sum.0 + run.bytes, sum.1 + run.entries));
                written += sum.0;
                runs.splice(chosen, [Size { bytes: sum.0, entries: sum.1, rows: sum.1, ..ROWS }]);
            }
            most = most.max(runs.len());
        }
        assert!(written <= 32 * 1000 * 9 / 2, "{written} bytes for {}", 32 * 1000);
        assert!(most <= 3 * FAN_IN, "{most} runs");
    }

    #[test]
    fn what_is_dead_is_merged_away() {
        let upper = Size { bytes: 20, entries: 30, rows: 0, ..ROWS };
        let bottom = ROWS;
        assert_eq!(choose(&[upper, bottom]), Some(0..2));
        assert_eq!(choose(&[Size { entries: 20, ..upper }, bottom]), None);
        assert_eq!(choose(&[Size { rows: -100, entries: 100, ..upper }, bottom]), Some(0..2));
        assert_eq!(choose(&[upper]), None);
    }

    #[test]
    fn what_was_excised_is_dead_and_a_run_alone_is_rewritten_for_it() {
        let excised = |rows: i64, excisions: usize| Size { rows, erased: 100 - rows, excisions, ..ROWS };
        assert_eq!(choose(&[excised(79, 1)]), Some(0..1));
        assert_eq!(choose(&[excised(80, 1)]), None);
        assert_eq!(choose(&[Size { bytes: 5, entries: 1, rows: 1, ..ROWS }, excised(79, 1)]), Some(0..2));
        assert_eq!(choose(&[Size { rows: 0, ..excised(0, 1) }]), Some(0..1));
        assert_eq!(choose_at_rest(&[excised(80, 1)]), None);
        assert_eq!(choose_at_rest(&[excised(80, 64)]), Some(0..1));
        assert_eq!(choose_at_rest(&[excised(99, 64)]), None);
        assert_eq!(choose_at_rest(&[]), None);
    }

    #[test]
    fn at_rest_one_run_is_left_or_two() {
        assert_eq!(choose_at_rest(&of_bytes(&[5, 5, 5])), Some(0..3));
        assert_eq!(choose_at_rest(&of_bytes(&[5, 5, 1000])), Some(0..2));
        assert_eq!(choose_at_rest(&of_bytes(&[10, 1000])), None);
        assert_eq!(choose_at_rest(&of_bytes(&[200, 1000])), Some(0..2));
        assert_eq!(choose_at_rest(&of_bytes(&[5])), None);
        assert_eq!(choose_at_rest(&[]), None);
    }

    #[test]
    fn neighbours_of_about_the_same_size_are_merged() {
        assert_eq!(choose(&of_bytes(&[5; 4])), Some(0..4));
        assert_eq!(choose(&of_bytes(&[5; 3])), None);
        assert_eq!(choose(&of_bytes(&[1, 5, 6, 5, 6, 7, 19, 5, 6, 800])), Some(1..9));
    }
}
