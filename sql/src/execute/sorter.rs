//! Rows put in order. Those that do not fit into memory go to a temporary file, in sorted runs that are merged as the
//! rows are taken (Knuth, *The Art of Computer Programming*, volume 3, 5.4).
//!
//! Invariants:
//! 1. Rows that are equal in order come as they were added: runs follow each other as their rows did.
//! 2. At most [`FAN_IN`] runs are merged at once, so that their chunks take an eighth of the memory of the statement at
//!    most, or 4 KB each.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use crate::error::Result;
use crate::execute::context::{Running, size_of_row};
use crate::execute::order::{compare_rows, order_number};
use crate::plan::query::{Direction, SortKey};
use crate::row_files::{Part, RowFile, RowReader};
use crate::types::datum::Datum;

/// How many runs are merged at once.
const FAN_IN: usize = 64;

/// Keys that order rows by the values at these places, as the values themselves are ordered.
pub(crate) fn ascending(places: impl IntoIterator<Item = usize>) -> Vec<SortKey> {
    let direction = Direction { is_descending: false, nulls_first: false, is_caseless: false };
    places.into_iter().map(|place| SortKey { place, direction }).collect()
}

/// Rows that are collected to be sorted; of which only the first ones may be wanted.
pub(crate) struct Sorter {
    keys: Arc<[SortKey]>,
    wanted: Option<usize>,
    /// Each with the number of its first value in order, if all of these are of one kind.
    rows: Vec<(u64, Vec<Datum>)>,
    /// The kind of the first values that are not NULL.
    kind: Option<Discriminant<Datum>>,
    is_of_many_kinds: bool,
    /// What `rows` take.
    bytes: usize,
    runs: Option<Runs>,
}

/// Sorted rows in a file.
struct Runs {
    file: RowFile,
    parts: Vec<Part>,
}

impl Sorter {
    /// Collects rows, of which the first `wanted` in the order of `keys` are kept.
    pub(crate) fn new(keys: Vec<SortKey>, wanted: Option<u64>) -> Sorter {
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        let (kind, is_of_many_kinds) = (None, false);
        let (keys, rows) = (keys.into(), Vec::new());
        Sorter { keys, wanted, rows, kind, is_of_many_kinds, bytes: 0, runs: None }
    }

    /// Takes a row if it fits into memory, without a share of it: for one of any number of sorters that fill up side by
    /// side.
    pub(crate) fn fits(&mut self, row: Vec<Datum>, state: &Running) -> bool {
        let Some(bytes) = state.try_keep(&row) else { return false };
        self.bytes += bytes;
        let number = self.number(&row);
        self.rows.push((number, row));
        true
    }

    /// Takes a row.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](crate::SqlState::OUT_OF_MEMORY) if there are too many and no file can be made; those of
    /// writing files.
    pub(crate) fn add(&mut self, row: Vec<Datum>, state: &Running) -> Result<()> {
        let mut kept = state.try_keep_or_spill(&row, self.bytes);
        if kept.is_none() {
            self.write_run(state)?;
            kept = state.try_keep_or_spill(&row, 0);
        }
        let number = self.number(&row);
        self.rows.push((number, row));
        match kept {
            Some(bytes) => self.bytes += bytes,
            // It takes more than may be kept: a run of its own.
            None => return self.write_run(state),
        }
        if let Some(wanted) = self.wanted
            && self.rows.len() >= wanted.saturating_mul(2).saturating_add(1_000)
        {
            self.sort();
            let kept = self.bytes / 2;
            state.let_go(self.bytes - kept);
            self.bytes = kept;
        }
        Ok(())
    }

    /// Puts all rows that are in memory into a file.
    ///
    /// # Errors
    /// Those of [`Sorter::add`].
    pub(crate) fn write_run(&mut self, state: &Running) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.sort();
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(Runs { file: state.row_file(FAN_IN)?, parts: Vec::new() }),
        };
        let start = runs.parts.last().map_or(0, |part| part.end);
        for (_, row) in self.rows.drain(..) {
            state.step()?;
            runs.file.push(&row)?;
        }
        runs.parts.push(start..runs.file.end_part()?);
        state.let_go(std::mem::take(&mut self.bytes));
        Ok(())
    }

    /// The number of a row's first value in order.
    fn number(&mut self, row: &[Datum]) -> u64 {
        let Some(key) = self.keys.first() else { return 0 };
        let value = &row[key.place];
        if !value.is_null() {
            let kind = discriminant(value);
            self.is_of_many_kinds |= *self.kind.get_or_insert(kind) != kind;
        }
        order_number(value, key.direction)
    }

    fn sort(&mut self) {
        let compare = |a: &[Datum], b: &[Datum]| compare_rows(a, b, &self.keys);
        match self.is_of_many_kinds {
            true => self.rows.sort_by(|a, b| compare(&a.1, &b.1)),
            false => self.rows.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1))),
        }
        self.rows.truncate(self.wanted.unwrap_or(usize::MAX));
    }

    /// The rows in order.
    ///
    /// # Errors
    /// Those of reading and writing files.
    pub(crate) fn finish(mut self, state: &Running) -> Result<SortedRows> {
        self.sort();
        let mut memory: InMemory = self.rows.into_iter();
        let Some(mut runs) = self.runs else {
            return Ok(SortedRows { memory, bytes: self.bytes, merge: None });
        };
        while runs.parts.len() > FAN_IN {
            runs = runs.merged(&self.keys, state)?;
        }
        let merge = Merge::of(&runs.parts, &runs.file, &mut memory, &self.keys)?;
        Ok(SortedRows { memory, bytes: self.bytes, merge: Some((runs.file, merge)) })
    }
}

impl Runs {
    /// Runs of the same rows, of which each has the rows of [`FAN_IN`].
    fn merged(&self, keys: &Arc<[SortKey]>, state: &Running) -> Result<Runs> {
        let mut merged = Runs { file: state.row_file(FAN_IN)?, parts: Vec::new() };
        for parts in self.parts.chunks(FAN_IN) {
            let mut no_rows: InMemory = Vec::new().into_iter();
            let mut merge = Merge::of(parts, &self.file, &mut no_rows, keys)?;
            let start = merged.parts.last().map_or(0, |part| part.end);
            while let Some(row) = merge.next(&self.file, &mut no_rows)? {
                state.step()?;
                merged.file.push(&row)?;
            }
            merged.parts.push(start..merged.file.end_part()?);
        }
        Ok(merged)
    }
}

/// Rows that are in memory, with their numbers.
type InMemory = std::vec::IntoIter<(u64, Vec<Datum>)>;

/// Rows in order.
pub(crate) struct SortedRows {
    /// Those that are in memory: the last run.
    memory: InMemory,
    /// What they take.
    bytes: usize,
    merge: Option<(RowFile, Merge)>,
}

impl SortedRows {
    /// The next row; none after the last.
    ///
    /// # Errors
    /// Those of reading files, and that the statement is to stop.
    pub(crate) fn next(&mut self, state: &Running) -> Result<Option<Vec<Datum>>> {
        state.step()?;
        let before = self.memory.len();
        let next = match &mut self.merge {
            None => self.memory.next().map(|(_, row)| row),
            Some((file, merge)) => merge.next(file, &mut self.memory)?,
        };
        // A row that has left is counted by what keeps it now.
        let left = match &next {
            Some(row) if self.memory.len() < before => size_of_row(row).min(self.bytes),
            Some(_) => 0,
            None => self.bytes,
        };
        self.bytes -= left;
        state.let_go(left);
        Ok(next)
    }
}

/// Runs that are merged: parts of a file, and a last one in memory.
struct Merge {
    readers: Vec<RowReader>,
    heads: BinaryHeap<Head>,
}

impl Merge {
    fn of(parts: &[Part], file: &RowFile, memory: &mut InMemory, keys: &Arc<[SortKey]>) -> Result<Merge> {
        let readers = parts.iter().cloned().map(RowReader::of).collect();
        let mut merge = Merge { readers, heads: BinaryHeap::new() };
        for run in 0..=parts.len() {
            let first = merge.next_of(run, file, memory)?;
            merge.heads.extend(first.map(|row| Head { row, run, keys: Arc::clone(keys) }));
        }
        Ok(merge)
    }

    fn next_of(&mut self, run: usize, file: &RowFile, memory: &mut InMemory) -> Result<Option<Vec<Datum>>> {
        match self.readers.get_mut(run) {
            Some(reader) => reader.next(file),
            None => Ok(memory.next().map(|(_, row)| row)),
        }
    }

    fn next(&mut self, file: &RowFile, memory: &mut InMemory) -> Result<Option<Vec<Datum>>> {
        let Some(run) = self.heads.peek().map(|head| head.run) else { return Ok(None) };
        let following = self.next_of(run, file, memory)?;
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        Ok(Some(match following {
            Some(following) => std::mem::replace(&mut head.row, following),
            None => PeekMut::pop(head).row,
        }))
    }
}

/// The next row of a run.
struct Head {
    row: Vec<Datum>,
    run: usize,
    keys: Arc<[SortKey]>,
}

/// The first row in order is the greatest, which the heap gives.
impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        compare_rows(&other.row, &self.row, &self.keys).then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use quipu::{Db, Options};

    use super::*;
    use crate::limits::Limits;
    use crate::row_files::TemporaryFiles;

    fn running(memory: usize) -> (Running, TemporaryFiles) {
        let files = TemporaryFiles::of(&Db::open("/db", Options::without_files()).unwrap(), &Arc::default());
        (Running::new(Limits { memory, temporary_files: Some(files.clone()), ..Limits::default() }), files)
    }

    fn all(mut rows: SortedRows, state: &Running) -> Vec<Vec<Datum>> {
        std::iter::from_fn(|| rows.next(state).unwrap()).collect()
    }

    /// Rows of a key that repeats and a number that does not.
    fn row(number: i64) -> Vec<Datum> {
        let key = number * 7_919 % 101;
        vec![if key == 0 { Datum::Null } else { Datum::text(format!("{key:03}")) }, Datum::Int(number)]
    }

    #[test]
    fn rows_that_fill_any_number_of_runs_come_in_order_and_equal_ones_as_they_were_added() {
        const AMPLE: usize = 100 << 20;
        for count in [0, 1, 2, 50, 1_000, 20_000] {
            let mut wanted: Vec<_> = (0..count).map(row).collect();
            let keys = ascending([0]);
            wanted.sort_by(|a, b| compare_rows(a, b, &keys));
            for memory in [0, 100, 10_000, 100_000, AMPLE] {
                let (state, files) = running(memory);
                let mut sorter = Sorter::new(keys.clone(), None);
                for number in 0..count {
                    sorter.add(row(number), &state).unwrap();
                }
                let runs = sorter.runs.as_ref().map_or(0, |runs| runs.parts.len());
                match memory {
                    0 => assert_eq!(runs as i64, count, "each row is one"),
                    AMPLE => assert_eq!(runs, 0),
                    _ => assert_eq!(runs > 0, files.bytes() > 0),
                }
                assert_eq!(all(sorter.finish(&state).unwrap(), &state), wanted, "{memory} bytes, {count} rows");
                assert_eq!((files.bytes(), state.passing_bytes()), (0, 0), "nothing is left");
            }
        }
    }

    #[test]
    fn a_statement_that_is_cancelled_stops_among_its_sorted_rows() {
        let (state, _) = running(10_000);
        let mut sorter = Sorter::new(ascending([1]), None);
        for number in 0..2_000 {
            sorter.add(row(number), &state).unwrap();
        }
        let mut rows = sorter.finish(&state).unwrap();
        state.limits().canceller.cancel();
        let error = (0..2_000).find_map(|_| rows.next(&state).err()).expect("it is cancelled");
        assert_eq!(error.state(), crate::SqlState::QUERY_CANCELED);
    }

    #[test]
    fn of_rows_of_which_the_first_are_wanted_no_more_are_in_a_run() {
        let (state, files) = running(50_000);
        let mut sorter = Sorter::new(ascending([1]), Some(10));
        for number in (0..20_000).rev() {
            sorter.add(row(number), &state).unwrap();
        }
        assert!(files.bytes() < 100_000, "{} bytes", files.bytes());
        let rows = all(sorter.finish(&state).unwrap(), &state);
        assert_eq!(rows[..10], (0..10).map(row).collect::<Vec<_>>());
    }
}
