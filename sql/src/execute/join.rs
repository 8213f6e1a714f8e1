//! Two sources joined.

use std::collections::HashMap;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::early_filter::is_asked_early;
use crate::execute::evaluate::{evaluate_all, holds};
use crate::execute::source::SourceCursor;
use crate::plan::expression::Expr;
use crate::plan::source::{Join, JoinKind, JoinMethod};
use crate::types::datum::Datum;

/// The pairs of a join that are still to come.
pub struct JoinCursor {
    outer: SourceCursor,
    /// The second source, where it is asked again for each row of the first.
    inner: Option<SourceCursor>,
    /// Bytes that it has kept.
    inner_bytes: usize,
    kept: Option<KeptRows>,
    /// The kept rows that are still to be looked at for the row of the first source.
    candidates: Candidates,
    has_outer: bool,
    has_pair: bool,
    /// Of a full join: how many rows of the second source without a pair have been looked for.
    left_over: Option<usize>,
}

/// Rows of the second source that are kept, each with the values of the slots that are read.
struct KeptRows {
    rows: Vec<Vec<Datum>>,
    has_pair: Vec<bool>,
    by_key: HashMap<Vec<Datum>, Chain, foldhash::fast::RandomState>,
    /// After each row, the next one with the same key; itself if it is the last.
    next: Vec<usize>,
}

/// The first and the last of the rows with one key.
#[derive(Clone, Copy)]
struct Chain {
    first: usize,
    last: usize,
}

/// Which of the kept rows are still to be looked at.
#[derive(Default)]
enum Candidates {
    #[default]
    None,
    /// From this one on.
    All(usize),
    /// Those of a chain, from this one on.
    Chain(usize),
}

impl Candidates {
    fn next(&mut self, kept: &KeptRows) -> Option<usize> {
        match *self {
            Candidates::None => None,
            Candidates::All(at) => {
                *self = Candidates::All(at + 1);
                (at < kept.rows.len()).then_some(at)
            }
            Candidates::Chain(at) => {
                let next = kept.next[at];
                *self = if next == at { Candidates::None } else { Candidates::Chain(next) };
                Some(at)
            }
        }
    }
}

impl JoinCursor {
    /// All pairs of a join.
    pub fn new(join: &Join) -> JoinCursor {
        JoinCursor {
            outer: SourceCursor::new(&join.outer),
            inner: None,
            inner_bytes: 0,
            kept: None,
            candidates: Candidates::None,
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
        if join.method != JoinMethod::AskAgain && self.kept.is_none() {
            self.kept = Some(KeptRows::read(join, frame, context)?);
        }
        loop {
            if self.left_over.is_some() {
                return Ok(self.next_left_over(join, frame));
            }
            if !self.has_outer {
                if !self.outer.next(&join.outer, frame, context)? {
                    if join.kind != JoinKind::Full {
                        return Ok(false);
                    }
                    self.left_over = Some(0);
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

    /// Looks for the pairs of a row of the first source.
    fn begin_row(&mut self, join: &Join, frame: &mut [Datum], context: &Context<'_>) -> Result<()> {
        (self.has_outer, self.has_pair) = (true, false);
        self.candidates = match &join.method {
            JoinMethod::AskAgain => {
                self.inner = Some(SourceCursor::new(&join.inner));
                context.state.let_go(std::mem::take(&mut self.inner_bytes));
                Candidates::None
            }
            JoinMethod::Keep => Candidates::All(0),
            JoinMethod::Hash { outer, .. } => {
                let key = evaluate_all(outer, frame, context)?;
                let chain = self.kept.as_ref().and_then(|kept| kept.by_key.get(&key));
                chain.map_or(Candidates::None, |chain| Candidates::Chain(chain.first))
            }
        };
        Ok(())
    }

    fn next_pair(&mut self, join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<bool> {
        let is_pair = |frame: &[Datum]| match &join.condition {
            Some(condition) => holds(condition, frame, context),
            None => Ok(true),
        };
        if let Some(inner) = &mut self.inner {
            loop {
                let before = context.state.passing_bytes();
                let is_there = inner.next(&join.inner, frame, context)?;
                // It may also have let go of what it had kept.
                self.inner_bytes = (self.inner_bytes + context.state.passing_bytes()).saturating_sub(before);
                if !is_there || is_pair(frame)? {
                    return Ok(is_there);
                }
            }
        }
        let Some(kept) = &mut self.kept else { return Ok(false) };
        while let Some(at) = self.candidates.next(kept) {
            context.state.step()?;
            kept.write(at, join, frame);
            if is_pair(frame)? {
                kept.has_pair[at] = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next row of the second source that has no pair.
    fn next_left_over(&mut self, join: &Join, frame: &mut [Datum]) -> bool {
        let (Some(at), Some(kept)) = (&mut self.left_over, &self.kept) else { return false };
        while *at < kept.rows.len() {
            *at += 1;
            if !kept.has_pair[*at - 1] {
                join.outer_slots.iter().for_each(|&slot| frame[slot] = Datum::Null);
                kept.write(*at - 1, join, frame);
                return true;
            }
        }
        false
    }
}

impl KeptRows {
    fn read(join: &Join, frame: &mut Vec<Datum>, context: &Context<'_>) -> Result<KeptRows> {
        let by_key = HashMap::default();
        let mut kept = KeptRows { rows: Vec::new(), has_pair: Vec::new(), by_key, next: Vec::new() };
        let mut cursor = SourceCursor::new(&join.inner);
        let inner_key: &[Expr] = match &join.method {
            JoinMethod::Hash { inner, .. } => inner,
            _ => &[],
        };
        let asks_early = inner_key.iter().all(is_asked_early);
        cursor.visit_all(&join.inner, frame, context, asks_early, &mut |frame| {
            let row: Vec<Datum> = join.inner_slots.iter().map(|&slot| frame[slot].clone()).collect();
            let at = kept.rows.len();
            context.state.keep(&row)?;
            if !inner_key.is_empty() {
                let key = evaluate_all(inner_key, frame, context)?;
                // NULL equals nothing.
                if !key.iter().any(Datum::is_null) {
                    let chain = kept.by_key.entry(key).or_insert(Chain { first: at, last: at });
                    if chain.last != at {
                        kept.next[chain.last] = at;
                        chain.last = at;
                    }
                }
            }
            kept.next.push(at);
            kept.rows.push(row);
            Ok(())
        })?;
        kept.has_pair = vec![false; kept.rows.len()];
        Ok(kept)
    }

    /// Writes a row into its slots.
    fn write(&self, at: usize, join: &Join, frame: &mut [Datum]) {
        join.inner_slots.iter().zip(&self.rows[at]).for_each(|(&slot, value)| frame[slot].clone_from(value));
    }
}
