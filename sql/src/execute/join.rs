//! Two sources joined.

use std::collections::HashMap;

use crate::error::Result;
use crate::execute::context::{Context, size_of_row};
use crate::execute::early_filter::is_asked_early;
use crate::execute::evaluate::{evaluate_all, holds};
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
    rows: Vec<Vec<Datum>>,
    /// What they take.
    bytes: usize,
    has_pair: Vec<bool>,
    by_key: HashMap<Vec<Datum>, Chain, foldhash::fast::RandomState>,
    /// After each row, the next one with the same key; itself if it is the last.
    next: Vec<usize>,
    /// The next row that is still to be looked at.
    candidate: Option<usize>,
}

/// The first and the last of the rows with one key.
#[derive(Clone, Copy)]
struct Chain {
    first: usize,
    last: usize,
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
                    let key = evaluate_all(outer, frame, context)?;
                    kept.candidate = kept.by_key.get(&key).map(|chain| chain.first);
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
                while let Some(at) = kept.candidate {
                    context.state.step()?;
                    kept.candidate = Some(kept.next[at]).filter(|&next| next != at);
                    write(&join.inner_slots, &kept.rows[at], frame);
                    if is_pair(join, frame, context)? {
                        kept.has_pair[at] = true;
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
                while let Some(row) = kept.rows.get(*left_over) {
                    *left_over += 1;
                    if !kept.has_pair[*left_over - 1] {
                        write(&join.inner_slots, row, frame);
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
            kept.rows.push(values(join, frame), context.state)
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
        let mut read = Read::Kept(HashedRows::default());
        let mut cursor = SourceCursor::new(&join.inner);
        let asks_early = key.iter().all(is_asked_early);
        cursor.visit_all(&join.inner, frame, context, asks_early, &mut |frame| {
            let (row, values) = (values(join, frame), evaluate_all(key, frame, context)?);
            if let Read::Kept(kept) = &mut read {
                let bytes = size_of_row(&row) + size_of_row(&values);
                let share = context.state.share().saturating_sub(kept.bytes);
                if context.state.try_keep_bytes(bytes, share).is_some() {
                    kept.bytes += bytes;
                    kept.add(values, row);
                    return Ok(());
                }
                let kept = std::mem::take(kept);
                read = Read::TooMany(kept.into_sorter(join, key.len(), context)?);
            }
            match &mut read {
                Read::TooMany(sorter) => sorter.add([values, row].concat(), context.state),
                Read::Kept(_) => Ok(()),
            }
        })?;
        if let Read::Kept(kept) = &mut read {
            kept.has_pair = vec![false; kept.rows.len()];
        }
        Ok(read)
    }

    fn add(&mut self, key: Vec<Datum>, row: Vec<Datum>) {
        let at = self.rows.len();
        self.rows.push(row);
        self.next.push(at);
        // NULL equals nothing.
        if !key.iter().any(Datum::is_null) {
            let chain = self.by_key.entry(key).or_insert(Chain { first: at, last: at });
            if chain.last != at {
                self.next[chain.last] = at;
                chain.last = at;
            }
        }
    }

    /// Moves all rows to where they are sorted by their keys.
    fn into_sorter(mut self, join: &Join, width: usize, context: &Context<'_>) -> Result<Sorter> {
        let mut sorter = Sorter::new(ascending(0..width), None);
        context.state.let_go(self.bytes);
        let mut has_moved = vec![false; self.rows.len()];
        for (key, chain) in self.by_key {
            let mut at = chain.first;
            loop {
                let row = std::mem::take(&mut self.rows[at]);
                sorter.add([&key[..], &row].concat(), context.state)?;
                has_moved[at] = true;
                if at == chain.last {
                    break;
                }
                at = self.next[at];
            }
        }
        // Those with NULL in their keys, which only a full join gives.
        if join.kind == JoinKind::Full {
            for (row, _) in self.rows.into_iter().zip(has_moved).filter(|(_, has_moved)| !has_moved) {
                sorter.add([vec![Datum::Null; width], row].concat(), context.state)?;
            }
        }
        Ok(sorter)
    }
}

/// Whether a pair keeps the condition.
fn is_pair(join: &Join, frame: &[Datum], context: &Context<'_>) -> Result<bool> {
    join.condition.as_ref().map_or(Ok(true), |condition| holds(condition, frame, context))
}

fn values(join: &Join, frame: &[Datum]) -> Vec<Datum> {
    join.inner_slots.iter().map(|&slot| frame[slot].clone()).collect()
}
