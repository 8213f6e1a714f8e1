//! Two sources joined.

use crate::error::Result;
use crate::execute::context::{Context, size_of_row};
use crate::execute::early_filter::is_asked_early;
use crate::execute::evaluate::{evaluate_all, evaluate_into, holds};
use crate::execute::key_table::{FlatRows, KeyTable};
use crate::execute::merge_join::{MergeCursor, write};
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::execute::source::SourceCursor;
use crate::plan::expression::Expr;
use crate::plan::source::{Join, JoinKind, JoinMethod};
use crate::types::datum::Datum;

/// The pairs of a join that are still to come.
pub struct JoinCursor {
    outer: SourceCursor,
    inner: Inner,
    has_outer: bool,
    has_pair: bool,
    /// Of a full join: how many rows of the second source without a pair have been looked for.
    left_over: Option<usize>,
}

/// The rows of the second source.
enum Inner {
    NotBegun,
    /// It is asked again for each row of the first.
    Asked {
        cursor: SourceCursor,
        /// Bytes that it has kept.
        bytes: usize,
    },
    /// All of them are looked at for each row of the first.
    Listed(Box<ListedRows>),
    /// Those that have the values of the row of the first.
    Hashed(Box<HashedRows>),
    /// There were too many to keep: both sources are sorted.
    Merged(Box<MergeCursor>),
    /// The same, and all pairs were made and sorted back into the order of the first.
    Sorted(Box<SortedRows>),
}

/// Rows of the second source that are kept, each with the values of the slots that are read.
#[derive(Default)]
struct ListedRows {
    rows: RowList,
    has_pair: Vec<bool>,
    /// Those that are still to be looked at.
    cursor: RowListCursor,
}

/// The same, by the values of expressions.
#[derive(Default)]
struct HashedRows {
    rows: FlatRows,
    /// Bytes that are kept.
    bytes: usize,
    /// Of a full join: which rows have a pair.
    has_pair: Vec<bool>,
    keys: KeyTable,
    /// Of each key, its last row.
    last: Vec<usize>,
    /// After each row, the next one with the same key; after the last, the first. A row with NULL in its key, which
    /// only a full join keeps, is not among them.
    next: Vec<Option<usize>>,
    /// The next row that is still to be looked at, and the last with its key.
    candidate: Option<(usize, usize)>,
    /// The key that is looked for.
    key: Vec<Datum>,
}

impl JoinCursor {
    /// All pairs of a join.
    pub fn new(join: &Join) -> JoinCursor {
        JoinCursor {
            outer: SourceCursor::new(&join.outer),
            inner: Inner::NotBegun,
            has_outer: false,
            has_pair: false,
            left_over: None,
        }
    }

    /// Has the scan at the beginning of the first source pass over rows and stop early, if each of its rows is one of
    /// the join. Returns whether it does.
    pub fn limit(&mut self, join: &Join, offset: u64, limit: Option<u64>) -> bool {
        join.keeps_rows() && self.outer.limit(&join.outer, offset, limit)
    }

    /// Writes the next pair into its slots. Returns whether there is one.
    ///
    /// # Errors
    /// Those of the sources and of the condition.
    pub fn next(&mut self, join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<bool> {
        if matches!(self.inner, Inner::NotBegun) {
            self.inner = self.begin(join, frame, context)?;
        }
        match &mut self.inner {
            Inner::Merged(merge) => {
                let is_pair = |frame: &[Datum]| is_pair(join, frame, context);
                return Ok(merge.next(join, &is_pair, frame, context.state)?.is_some());
            }
            Inner::Sorted(pairs) => {
                let Some(mut pair) = pairs.next(context.state)? else { return Ok(false) };
                pair.truncate(frame.len());
                *frame = pair;
                return Ok(true);
            }
            _ => {}
        }
        loop {
            if self.left_over.is_some() {
                return self.next_left_over(join, frame);
            }
            if !self.has_outer {
                if !self.outer.next(&join.outer, frame, context)? {
                    if join.kind != JoinKind::Full {
                        return Ok(false);
                    }
                    self.left_over = Some(0);
                    self.inner.begin_again();
                    continue;
                }
                self.begin_row(join, frame, context)?;
            }
            if self.next_pair(join, frame, context)? {
                self.has_pair = true;
                return Ok(true);
            }
            self.has_outer = false;
            if !self.has_pair && join.kind != JoinKind::Inner {
                join.inner_slots.iter().for_each(|&slot| frame[slot] = Datum::Null);
                return Ok(true);
            }
        }
    }

    fn begin(&mut self, join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<Inner> {
        match &join.method {
            JoinMethod::AskAgain => Ok(Inner::Asked { cursor: SourceCursor::new(&join.inner), bytes: 0 }),
            JoinMethod::Keep => Ok(Inner::Listed(Box::new(ListedRows::read(join, frame, context)?))),
            JoinMethod::Hash { outer, inner } => match HashedRows::read(join, inner, frame, context)? {
                Read::Kept(rows) => Ok(Inner::Hashed(Box::new(rows))),
                Read::TooMany(rows) => {
                    let next_first = &mut |frame: &mut Vec<Datum>| self.outer.next(&join.outer, frame, context);
                    let key = |frame: &[Datum]| evaluate_all(outer, frame, context);
                    let state = context.state;
                    let merge = MergeCursor::new(join, outer.len(), rows, next_first, &key, frame, state)?;
                    if !join.is_in_order {
                        return Ok(Inner::Merged(Box::new(merge)));
                    }
                    let is_pair = |frame: &[Datum]| is_pair(join, frame, context);
                    Ok(Inner::Sorted(Box::new(merge.in_order(join, &is_pair, frame, state)?)))
                }
            },
        }
    }

    /// Looks for the pairs of a row of the first source.
    fn begin_row(&mut self, join: &Join, frame: &mut [Datum], context: &Context<'_>) -> Result<()> {
        (self.has_outer, self.has_pair) = (true, false);
        match &mut self.inner {
            Inner::Asked { cursor, bytes } => {
                *cursor = SourceCursor::new(&join.inner);
                context.state.let_go(std::mem::take(bytes));
            }
            Inner::Hashed(kept) => {
                if let JoinMethod::Hash { outer, .. } = &join.method {
                    kept.find(outer, frame, context)?;
                }
            }
            inner => inner.begin_again(),
        }
        Ok(())
    }

    fn next_pair(&mut self, join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<bool> {
        match &mut self.inner {
            Inner::Asked { cursor, bytes } => loop {
                let before = context.state.passing_bytes();
                let is_there = cursor.next(&join.inner, frame, context)?;
                // It may also have let go of what it had kept.
                *bytes = (*bytes + context.state.passing_bytes()).saturating_sub(before);
                if !is_there || is_pair(join, frame, context)? {
                    return Ok(is_there);
                }
            },
            Inner::Listed(kept) => {
                while let Some((at, row)) = kept.cursor.next(&kept.rows)? {
                    context.state.step()?;
                    write(&join.inner_slots, row, frame);
                    if is_pair(join, frame, context)? {
                        kept.has_pair[at] = true;
                        return Ok(true);
                    }
                }
            }
            Inner::Hashed(kept) => {
                while let Some(at) = kept.next_candidate() {
                    context.state.step()?;
                    write(&join.inner_slots, kept.rows.row(at), frame);
                    if is_pair(join, frame, context)? {
                        if let Some(has_pair) = kept.has_pair.get_mut(at) {
                            *has_pair = true;
                        }
                        return Ok(true);
                    }
                }
            }
            Inner::NotBegun | Inner::Merged(_) | Inner::Sorted(_) => {}
        }
        Ok(false)
    }

    /// The next row of the second source that has no pair.
    fn next_left_over(&mut self, join: &Join, frame: &mut [Datum]) -> Result<bool> {
        let Some(left_over) = &mut self.left_over else { return Ok(false) };
        join.outer_slots.iter().for_each(|&slot| frame[slot] = Datum::Null);
        match &mut self.inner {
            Inner::Listed(kept) => {
                while let Some((at, row)) = kept.cursor.next(&kept.rows)? {
                    if !kept.has_pair[at] {
                        write(&join.inner_slots, row, frame);
                        return Ok(true);
                    }
                }
            }
            Inner::Hashed(kept) => {
                while let Some(has_pair) = kept.has_pair.get(*left_over) {
                    *left_over += 1;
                    if !has_pair {
                        write(&join.inner_slots, kept.rows.row(*left_over - 1), frame);
                        return Ok(true);
                    }
                }
            }
            Inner::NotBegun | Inner::Asked { .. } | Inner::Merged(_) | Inner::Sorted(_) => {}
        }
        Ok(false)
    }
}

impl Inner {
    /// Looks at listed rows from the first on.
    fn begin_again(&mut self) {
        if let Inner::Listed(kept) = self {
            kept.cursor = RowListCursor::default();
        }
    }
}

impl ListedRows {
    fn read(join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<ListedRows> {
        let mut kept = ListedRows::default();
        let mut cursor = SourceCursor::new(&join.inner);
        cursor.visit_all(&join.inner, frame, context, true, &mut |frame| {
            kept.rows.push(slots(join, frame).collect(), context.state)
        })?;
        kept.rows.finish()?;
        kept.has_pair = vec![false; kept.rows.len()];
        Ok(kept)
    }
}

/// What has come of reading rows by their values.
enum Read {
    Kept(HashedRows),
    /// They do not fit into memory: the values of the key, then those of the slots that are read.
    TooMany(Sorter),
}

impl HashedRows {
    fn read(join: &Join, key: &[Expr], frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<Read> {
        let (rows, keys) = (FlatRows::of_width(join.inner_slots.len()), KeyTable::of_width(key.len()));
        let mut read = Read::Kept(HashedRows { rows, keys, ..HashedRows::default() });
        let mut cursor = SourceCursor::new(&join.inner);
        let asks_early = key.iter().all(is_asked_early);
        let mut values = Vec::with_capacity(key.len());
        cursor.visit_all(&join.inner, frame, context, asks_early, &mut |frame| {
            evaluate_into(&mut values, key, frame, context)?;
            // NULL equals nothing.
            if join.kind != JoinKind::Full && values.iter().any(Datum::is_null) {
                return Ok(());
            }
            if let Read::Kept(kept) = &mut read {
                if kept.adds(join, &values, frame, context) {
                    return Ok(());
                }
                let kept = std::mem::take(kept);
                read = Read::TooMany(kept.into_sorter(key.len(), context)?);
            }
            match &mut read {
                Read::TooMany(sorter) => {
                    sorter.add(values.drain(..).chain(slots(join, frame)).collect(), context.state)
                }
                Read::Kept(_) => Ok(()),
            }
        })?;
        if let (Read::Kept(kept), JoinKind::Full) = (&mut read, join.kind) {
            kept.has_pair = vec![false; kept.rows.len()];
        }
        Ok(read)
    }

    /// Adds a row, if it fits into memory.
    fn adds(&mut self, join: &Join, key: &[Datum], frame: &[Datum], context: &Context<'_>) -> bool {
        let known = self.keys.find(key);
        let of_key = if known.is_none() { size_of_row(key) } else { 0 };
        let of_slots = join.inner_slots.iter().map(|&slot| size_of_row(std::slice::from_ref(&frame[slot])));
        let bytes = of_key + of_slots.sum::<usize>() + size_of::<[usize; 2]>();
        let share = context.state.share().saturating_sub(self.bytes);
        if context.state.try_keep_bytes(bytes, share).is_none() {
            return false;
        }
        self.bytes += bytes;
        let at = self.rows.push(slots(join, frame));
        if key.iter().any(Datum::is_null) {
            self.next.push(None);
            return true;
        }
        match known {
            Some(known) => {
                let last = std::mem::replace(&mut self.last[known], at);
                let first = self.next[last].replace(at);
                self.next.push(first);
            }
            None => {
                self.keys.add(key.iter().cloned());
                self.last.push(at);
                self.next.push(Some(at));
            }
        }
        true
    }

    /// Looks for the rows whose key has the values that `outer` has.
    fn find(&mut self, outer: &[Expr], frame: &[Datum], context: &Context<'_>) -> Result<()> {
        evaluate_into(&mut self.key, outer, frame, context)?;
        let last = self.keys.find(&self.key).map(|key| self.last[key]);
        self.candidate = last.and_then(|last| Some((self.next[last]?, last)));
        Ok(())
    }

    fn next_candidate(&mut self) -> Option<usize> {
        let (at, last) = self.candidate?;
        self.candidate = self.next[at].filter(|_| at != last).map(|next| (next, last));
        Some(at)
    }

    /// Moves all rows to where they are sorted by their keys.
    fn into_sorter(mut self, width: usize, context: &Context<'_>) -> Result<Sorter> {
        let mut sorter = Sorter::new(ascending(0..width), None);
        context.state.let_go(self.bytes);
        // The keys of rows; those without one have NULL.
        let mut keys = vec![None; self.rows.len()];
        for (key, &last) in self.last.iter().enumerate() {
            let mut at = last;
            while keys[at].is_none() {
                keys[at] = Some(key);
                at = self.next[at].unwrap_or(at);
            }
        }
        for (row, key) in self.rows.drain().zip(keys) {
            let key = key.map_or_else(|| vec![Datum::Null; width], |key| self.keys.key(key).to_vec());
            sorter.add([key, row].concat(), context.state)?;
        }
        Ok(sorter)
    }
}

/// Whether a pair keeps the condition.
fn is_pair(join: &Join, frame: &[Datum], context: &Context<'_>) -> Result<bool> {
    join.condition.as_ref().map_or(Ok(true), |condition| holds(condition, frame, context))
}

/// The values of a row of the second source that are read.
fn slots(join: &Join, frame: &[Datum]) -> impl Iterator<Item = Datum> {
    join.inner_slots.iter().map(|&slot| frame[slot].clone())
}
