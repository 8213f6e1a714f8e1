//! The rows of a table or an index, chunk by chunk. Between two rows nothing of the table is held.

use std::collections::VecDeque;
use std::sync::Arc;

use quipu_rows::{KeyRange, Ordered, Row, RowView, Span, Value};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::early_filter::EarlyFilter;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::kept_answers::{Asked, RowsByValue};
use crate::execute::key_ranges::{points, spans};
use crate::execute::lookup::Matches;
use crate::execute::view::{in_order, in_table};
use crate::plan::expression::Expr;
use crate::plan::source::{Lookup, Scan};
use crate::types::datum::Datum;

/// Rows of the first chunk; each further one has four times as many, up to [`CHUNK_MAX`].
const CHUNK_FIRST: usize = 8;
/// Rows of the largest chunk.
const CHUNK_MAX: usize = 1_024;

/// Rows of the largest chunk of whole keys, which are read however large they are.
const KEYS_CHUNK_MAX: usize = 64;

/// The rows of a scan that are still to come.
#[derive(Default)]
pub struct ScanCursor {
    has_begun: bool,
    /// Ranges that are not read yet, in the order in which they are.
    ranges: VecDeque<KeyRange>,
    /// Whole primary keys whose rows are not read yet, instead of ranges.
    keys: std::vec::IntoIter<Vec<Value<'static>>>,
    rows: std::vec::IntoIter<Row>,
    chunk: usize,
    /// Rows to pass over, without reading them.
    skip: u64,
    /// Rows that are wanted at most.
    wanted: Option<u64>,
    /// Rows that the statement has kept, instead of all those.
    matches: Option<Matches>,
    /// The filter, for chunks after the first, if it can be asked before rows are copied.
    early: Option<EarlyFilter>,
}

impl ScanCursor {
    /// Passes over the first rows, and reads no more than so many: of a scan that has no filter.
    pub fn limit(&mut self, skip: u64, wanted: Option<u64>) {
        self.skip = skip;
        self.wanted = wanted;
    }

    /// Writes the next row into its slots. Returns whether there is one.
    pub fn next(&mut self, scan: &Scan, frame: &mut [Datum], context: &Context<'_>) -> Result<bool> {
        if !self.has_begun {
            self.begin(scan, frame, context)?;
        }
        loop {
            let is_there = match &mut self.matches {
                Some(matches) => matches.next(scan, frame),
                None => self.read(scan, frame, context)?,
            };
            if !is_there {
                return Ok(false);
            }
            context.state.step()?;
            let is_kept = match (&scan.filter, &self.early) {
                (None, _) => true,
                (Some(filter), Some(early)) => all_hold(early.rest(filter), frame, context)?,
                (Some(filter), None) => holds(filter, frame, context)?,
            };
            if is_kept {
                return Ok(true);
            }
        }
    }

    /// Calls `visit` with each row in its slots. Of rows that lie in ranges only the values that are read are copied,
    /// so `visit` must not read tables.
    pub fn visit_all(
        &mut self,
        scan: &Scan,
        frame: &mut [Datum],
        context: &Context<'_>,
        visit: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        if !self.has_begun {
            self.begin(scan, frame, context)?;
        }
        let early = EarlyFilter::of(scan);
        let has_columns = scan.access.index.is_none() || scan.access.is_covering;
        let can_visit = has_columns && scan.lookup.is_none() && self.wanted.is_none();
        // Those of a filter that is asked row by row, of whole keys, and of a sample.
        if !can_visit || early.is_some() != scan.filter.is_some() || self.ranges.is_empty() {
            while self.next(scan, frame, context)? {
                visit(frame)?;
            }
            return Ok(());
        }
        let mut visitor = Visitor { scan, filter: scan.filter.as_ref().zip(early), context };
        let table = context.view.table(&scan.table)?;
        in_order!(table, scan.access.index.as_deref(), scan.access.is_covering, order => {
            while let Some(range) = self.ranges.pop_front() {
                let (_, left) = order.chunk_where(&range, CHUNK_MAX, scan.is_reversed, |view| {
                    if visitor.take(view, frame)? {
                        visit(frame)?;
                    }
                    Ok::<_, SqlError>(false)
                })?;
                if let Some(left) = left {
                    self.ranges.push_front(left);
                }
            }
        });
        Ok(())
    }

    /// Reads the next row of the ranges into its slots. Returns whether there is one.
    fn read(&mut self, scan: &Scan, frame: &mut [Datum], context: &Context<'_>) -> Result<bool> {
        loop {
            if let Some(row) = self.rows.next() {
                return write(scan, &row.view()?, frame).map(|()| true);
            }
            if !self.refill(scan, frame, context)? {
                return Ok(false);
            }
        }
    }

    fn begin(&mut self, scan: &Scan, frame: &mut [Datum], context: &Context<'_>) -> Result<()> {
        self.has_begun = true;
        if let Some(lookup) = &scan.lookup
            && let Some(Asked::Kept(kept)) = context.state.asked.borrow().get(&lookup.number)
        {
            let values = evaluate_all(&lookup.values, frame, context)?;
            self.matches = Some(Matches::new(Arc::clone(kept), &values));
            return Ok(());
        }
        self.chunk = match self.wanted {
            Some(wanted) => usize::try_from(wanted).unwrap_or(CHUNK_MAX).clamp(1, CHUNK_MAX),
            None => CHUNK_FIRST,
        };
        if self.skip == 0 && self.wanted.is_none() && scan.sample.is_none() && scan.access.is_of_whole_keys() {
            let mut keys = points(&scan.access, frame, context)?.unwrap_or_default();
            // Of a sub-select with too many rows they are not those of whole keys.
            if keys.iter().all(|key| key.len() == scan.access.columns.len()) {
                if scan.is_reversed {
                    keys.reverse();
                }
                self.keys = keys.into_iter();
                return Ok(());
            }
        }
        let spans = spans(&scan.access, frame, context)?;
        if let Some(sample) = &scan.sample {
            let percent = evaluate(&sample.percent, frame, context)?;
            let seed = sample.seed.as_ref().map(|seed| evaluate(seed, frame, context)).transpose()?;
            return self.draw(scan, &spans, &percent, seed.as_ref(), context);
        }
        let table = context.view.table(&scan.table)?;
        let (mut skip, mut keep) = (self.skip, None);
        in_order!(table, scan.access.index.as_deref(), scan.access.is_covering, order => {
            let mut ranges = VecDeque::with_capacity(spans.len());
            for span in spans {
                ranges.push_back(order.range_of(span)?);
            }
            if scan.is_reversed {
                ranges.make_contiguous().reverse();
            }
            while skip > 0 && let Some(range) = ranges.pop_front() {
                let rows = if ranges.is_empty() { u64::MAX } else { order.count(&range)? };
                if rows <= skip {
                    skip -= rows;
                    continue;
                }
                let left = match scan.is_reversed {
                    true => order.position_range_back(&range, skip)?,
                    false => order.position_range(&range, skip)?,
                };
                if let Some(left) = left {
                    ranges.push_front(left);
                }
                skip = 0;
            }
            self.ranges = ranges;
            if let Some(lookup) = &scan.lookup
                && let Some(Asked::Read(read)) = context.state.asked.borrow().get(&lookup.number)
            {
                let mut rows = 0;
                for range in &self.ranges {
                    rows += order.count(range)?;
                }
                keep = (*read >= rows).then_some(lookup);
            }
        });
        if let Some(lookup) = keep {
            self.keep(scan, lookup, frame, context)?;
        }
        Ok(())
    }

    /// Keeps all rows for this and later runs of the sub-select, if they are not too many.
    fn keep(&mut self, scan: &Scan, lookup: &Lookup, frame: &mut [Datum], context: &Context<'_>) -> Result<()> {
        let ranges = self.ranges.clone();
        let kept = RowsByValue::read(scan, lookup, frame, context, |frame| self.read(scan, frame, context))?;
        let mut all = context.state.asked.borrow_mut();
        match kept.map(Arc::new) {
            Some(kept) => {
                all.insert(lookup.number, Asked::Kept(Arc::clone(&kept)));
                let values = evaluate_all(&lookup.values, frame, context)?;
                self.matches = Some(Matches::new(kept, &values));
            }
            None => {
                all.insert(lookup.number, Asked::TooLarge);
                *self = ScanCursor { has_begun: true, ranges, chunk: self.chunk, ..ScanCursor::default() };
            }
        }
        Ok(())
    }

    /// Reads the rows of the next keys, whose pages are waited for together. Returns whether there are such.
    fn get(&mut self, scan: &Scan, context: &Context<'_>) -> Result<bool> {
        let table = context.view.table(&scan.table)?;
        in_table!(table, table => {
            while let Some(key) = self.keys.next() {
                let rows: Vec<Row> = match self.keys.len() {
                    0 => table.get(key)?.into_iter().collect(),
                    _ => {
                        let keys = std::iter::once(key).chain(self.keys.by_ref().take(self.chunk - 1));
                        table.get_many(keys)?.into_iter().flatten().collect()
                    }
                };
                self.chunk = (self.chunk * 4).min(KEYS_CHUNK_MAX);
                if !rows.is_empty() {
                    self.rows = rows.into_iter();
                    return Ok(true);
                }
            }
        });
        Ok(false)
    }

    /// Reads the next chunk of which the filter, if it is asked early, keeps a row. Returns whether there is one.
    fn refill(&mut self, scan: &Scan, frame: &mut [Datum], context: &Context<'_>) -> Result<bool> {
        if self.keys.len() > 0 {
            return self.get(scan, context);
        }
        if self.ranges.is_empty() || self.wanted == Some(0) {
            return Ok(false);
        }
        let table = context.view.table(&scan.table)?;
        if self.chunk > CHUNK_FIRST && self.early.is_none() {
            self.early = EarlyFilter::of(scan);
        }
        in_order!(table, scan.access.index.as_deref(), scan.access.is_covering, order => {
            while let Some(range) = self.ranges.pop_front() {
                let chunk = self
                    .wanted
                    .map_or(self.chunk, |wanted| self.chunk.min(usize::try_from(wanted).unwrap_or(CHUNK_MAX)));
                let (rows, left) = match (&scan.filter, &mut self.early) {
                    (Some(filter), Some(early)) => order.chunk_where(&range, chunk, scan.is_reversed, |view| {
                        context.state.step()?;
                        early.keeps(filter, view, scan, frame, |part, frame| holds(part, frame, context))
                    })?,
                    _ => order.chunk(&range, chunk, scan.is_reversed)?,
                };
                if let Some(left) = left {
                    self.ranges.push_front(left);
                }
                self.chunk = (self.chunk * 4).min(CHUNK_MAX);
                if !rows.is_empty() {
                    if let Some(wanted) = &mut self.wanted {
                        *wanted = wanted.saturating_sub(rows.len() as u64);
                    }
                    if let Some(lookup) = &scan.lookup
                        && let Asked::Read(read) =
                            context.state.asked.borrow_mut().entry(lookup.number).or_insert(Asked::Read(0))
                    {
                        *read += rows.len() as u64;
                    }
                    self.rows = rows.into_iter();
                    return Ok(true);
                }
            }
        });
        Ok(false)
    }

    /// TABLESAMPLE: each subset of so many rows is equally likely.
    fn draw(
        &mut self,
        scan: &Scan,
        spans: &[Span<'static>],
        percent: &Datum,
        seed: Option<&Datum>,
        context: &Context<'_>,
    ) -> Result<()> {
        let percent = match percent {
            Datum::Float(percent) => *percent,
            Datum::Int(percent) => *percent as f64,
            Datum::Numeric(percent) => percent.to_f64(),
            _ => f64::NAN,
        };
        if !(0.0..=100.0).contains(&percent) {
            let what = "sample percentage must be between 0 and 100";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        let mut random = match seed {
            Some(Datum::Float(seed)) => StdRng::seed_from_u64(seed.to_bits()),
            Some(Datum::Int(seed)) => StdRng::seed_from_u64((*seed as f64).to_bits()),
            _ => StdRng::from_rng(&mut rand::rng()),
        };
        let table = context.view.table(&scan.table)?;
        let mut drawn = Vec::new();
        in_order!(table, scan.access.index.as_deref(), scan.access.is_covering, order => {
            for span in spans {
                let rows = order.count(span)?;
                let wanted = (rows as f64 * percent / 100.0).round() as usize;
                drawn.extend(order.sample(span, wanted, &mut random)?);
            }
        });
        self.rows = drawn.into_iter();
        Ok(())
    }
}

/// Reads rows where they stand.
struct Visitor<'v> {
    scan: &'v Scan,
    filter: Option<(&'v Expr, EarlyFilter)>,
    context: &'v Context<'v>,
}

impl Visitor<'_> {
    /// Writes the columns that are read into their slots, if the filter keeps the row. Returns whether it does.
    fn take(&mut self, view: &RowView<'_>, frame: &mut [Datum]) -> Result<bool> {
        let Visitor { scan, filter, context } = self;
        context.state.step()?;
        if let Some((filter, early)) = filter
            && !early.keeps(filter, view, scan, frame, |part, frame| holds(part, frame, context))?
        {
            return Ok(false);
        }
        write(scan, view, frame)?;
        match filter {
            Some((filter, early)) => all_hold(early.rest(filter), frame, context),
            None => Ok(true),
        }
    }
}

fn all_hold<'f>(conditions: impl Iterator<Item = &'f Expr>, frame: &[Datum], context: &Context<'_>) -> Result<bool> {
    for condition in conditions {
        if !holds(condition, frame, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the columns of a row that are read into their slots.
fn write(scan: &Scan, view: &RowView<'_>, frame: &mut [Datum]) -> Result<()> {
    for &place in &scan.reads {
        frame[scan.base + place] = Datum::of_column(view.value(place)?, scan.types[place])?;
    }
    Ok(())
}

/// The row of this primary key, written into the slots of a table. Returns whether there is one.
///
/// # Errors
/// Those of reading it.
pub fn read_row(scan: &Scan, key: &[Datum], frame: &mut [Datum], context: &Context<'_>) -> Result<bool> {
    let values: Option<Vec<_>> = key.iter().map(Datum::to_value).collect();
    let Some(values) = values else { return Ok(false) };
    let table = context.view.table(&scan.table)?;
    let row = in_table!(table, table => table.get(values)?);
    match row {
        Some(row) => write(scan, &row.view()?, frame).map(|()| true),
        None => Ok(false),
    }
}

/// The values of a table's primary key in its slots.
pub fn key_in_frame(scan: &Scan, frame: &[Datum]) -> Vec<Datum> {
    scan.key.iter().map(|&place| frame[scan.base + place].clone()).collect()
}
