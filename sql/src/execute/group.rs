//! Groups of rows, and which of their rows each aggregate gets: DISTINCT, FILTER, ORDER BY.
//!
//! Not here: what an aggregate makes of them (`functions/aggregates`).

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::counted::counted_rows;
use crate::execute::early_filter::is_asked_early;
use crate::execute::evaluate::{evaluate, evaluate_all, holds};
use crate::execute::sorted::compare_in;
use crate::execute::source::SourceCursor;
use crate::functions::Accumulator;
use crate::functions::make;
use crate::plan::expression::Expr;
use crate::plan::query::{Aggregate, Grouping};
use crate::plan::source::Source;
use crate::types::datum::Datum;

/// The frames of the groups of a source's rows.
pub fn group_rows(
    grouping: &Grouping,
    source: &Source,
    cursor: &mut SourceCursor,
    frame: &mut Vec<Datum>,
    context: &Context<'_>,
) -> Result<Vec<Vec<Datum>>> {
    let mut groups = match (&grouping.counted, source) {
        (Some(counted), Source::Scan(scan)) => counted_rows(counted, grouping, scan, context)?,
        _ => {
            let mut sets = Vec::new();
            for places in &grouping.sets {
                sets.push(Set::new(places, grouping, context));
            }
            let mut values = Vec::with_capacity(grouping.groups.len());
            cursor.visit_all(source, frame, context, asks_early(grouping), &mut |frame| {
                values.clear();
                for group in &grouping.groups {
                    values.push(evaluate(group, frame, context)?);
                }
                sets.iter_mut().try_for_each(|set| set.add(&values, grouping, frame, context))
            })?;
            let mut groups = Vec::new();
            for set in sets {
                set.finish(grouping, &mut groups)?;
            }
            groups
        }
    };
    if let Some(having) = &grouping.having {
        let mut kept = Vec::with_capacity(groups.len());
        for group in groups {
            if holds(having, &group, context)? {
                kept.push(group);
            }
        }
        groups = kept;
    }
    Ok(groups)
}

/// Whether all that is evaluated for a row can be evaluated while the row stands in its table.
fn asks_early(grouping: &Grouping) -> bool {
    grouping.groups.iter().all(is_asked_early)
        && grouping.aggregates.iter().all(|aggregate| {
            let ordered_by = aggregate.order.iter().map(|(value, _)| value);
            aggregate.arguments.iter().chain(&aggregate.filter).chain(ordered_by).all(is_asked_early)
        })
}

/// The groups of one set of grouping expressions.
struct Set<'g> {
    places: &'g [usize],
    /// The bits of the expressions that are not in the set, the last one's the lowest.
    absent: i64,
    by_key: HashMap<Vec<Datum>, usize, foldhash::fast::RandomState>,
    /// The values of the set in the last row.
    key: Vec<Datum>,
    keys: Vec<Vec<Datum>>,
    sums: Vec<Vec<Sum>>,
}

impl<'g> Set<'g> {
    fn new(places: &'g [usize], grouping: &Grouping, context: &Context<'_>) -> Set<'g> {
        let last = grouping.groups.len().saturating_sub(1);
        let absent = (0..grouping.groups.len()).filter(|place| !places.contains(place));
        let absent = absent.map(|place| 1 << (last - place)).sum();
        let by_key = HashMap::default();
        let mut set = Set { places, absent, by_key, key: Vec::new(), keys: Vec::new(), sums: Vec::new() };
        if places.is_empty() {
            // All rows are one group, also if there are none.
            set.open(Vec::new(), grouping, context);
        }
        set
    }

    fn open(&mut self, key: Vec<Datum>, grouping: &Grouping, context: &Context<'_>) -> usize {
        self.by_key.insert(key.clone(), self.keys.len());
        self.keys.push(key);
        self.sums.push(grouping.aggregates.iter().map(|aggregate| Sum::new(aggregate, context)).collect());
        self.keys.len() - 1
    }

    fn add(&mut self, values: &[Datum], grouping: &Grouping, frame: &[Datum], context: &Context<'_>) -> Result<()> {
        let at = if self.places.is_empty() {
            0
        } else {
            self.key.clear();
            self.key.extend(self.places.iter().map(|&place| values[place].clone()));
            match self.by_key.get(&self.key[..]) {
                Some(&at) => at,
                None => {
                    context.state.keep(&self.key)?;
                    self.open(self.key.clone(), grouping, context)
                }
            }
        };
        for (sum, aggregate) in self.sums[at].iter_mut().zip(&grouping.aggregates) {
            sum.add(aggregate, frame, context)?;
        }
        Ok(())
    }

    fn finish(self, grouping: &Grouping, frames: &mut Vec<Vec<Datum>>) -> Result<()> {
        for (key, sums) in self.keys.into_iter().zip(self.sums) {
            let mut frame = vec![Datum::Null; grouping.groups.len()];
            for (&place, value) in self.places.iter().zip(key) {
                frame[place] = value;
            }
            for (sum, aggregate) in sums.into_iter().zip(&grouping.aggregates) {
                frame.push(sum.finish(aggregate)?);
            }
            frame.push(Datum::Int(self.absent));
            frames.push(frame);
        }
        Ok(())
    }
}

/// An aggregate of one group.
pub(crate) struct Sum {
    accumulator: Box<dyn Accumulator>,
    /// Whether what is added counts as memory.
    keeps_arguments: bool,
    seen: HashSet<Vec<Datum>, foldhash::fast::RandomState>,
    /// Rows that are taken in an order: the values of the order, then the arguments.
    ordered: Vec<Vec<Datum>>,
}

impl Sum {
    pub(crate) fn new(aggregate: &Aggregate, context: &Context<'_>) -> Sum {
        let accumulator = make(&aggregate.call, context.environment);
        let keeps_arguments = accumulator.keeps_arguments();
        Sum { accumulator, keeps_arguments, seen: HashSet::default(), ordered: Vec::new() }
    }

    pub(crate) fn add(&mut self, aggregate: &Aggregate, frame: &[Datum], context: &Context<'_>) -> Result<()> {
        if let Some(filter) = &aggregate.filter
            && !holds(filter, frame, context)?
        {
            return Ok(());
        }
        if aggregate.order.is_empty() && !aggregate.is_distinct && !self.keeps_arguments {
            match &aggregate.arguments[..] {
                [] => return self.accumulator.add(&[]),
                [Expr::Slot(slot)] => return self.accumulator.add(std::slice::from_ref(&frame[*slot])),
                [argument] => return self.accumulator.add(&[evaluate(argument, frame, context)?]),
                _ => {}
            }
        }
        let arguments = evaluate_all(&aggregate.arguments, frame, context)?;
        if aggregate.is_distinct {
            if self.seen.contains(&arguments) {
                return Ok(());
            }
            context.state.keep(&arguments)?;
            if aggregate.order.is_empty() {
                self.seen.insert(arguments);
                return Ok(());
            }
            self.seen.insert(arguments.clone());
        }
        if aggregate.order.is_empty() {
            if self.keeps_arguments {
                context.state.keep(&arguments)?;
            }
            return self.accumulator.add(&arguments);
        }
        let mut row = Vec::with_capacity(aggregate.order.len() + arguments.len());
        for (value, _) in &aggregate.order {
            row.push(evaluate(value, frame, context)?);
        }
        row.extend(arguments);
        context.state.keep(&row)?;
        self.ordered.push(row);
        Ok(())
    }

    pub(crate) fn finish(mut self, aggregate: &Aggregate) -> Result<Datum> {
        let order = &aggregate.order;
        if aggregate.is_distinct && order.is_empty() {
            // As PostgreSQL does, which finds those that are equal by sorting.
            let mut distinct: Vec<Vec<Datum>> = self.seen.drain().collect();
            distinct.sort();
            for arguments in &distinct {
                self.accumulator.add(arguments)?;
            }
        }
        self.ordered.sort_by(|a, b| {
            let orders = a.iter().zip(b).zip(order).map(|((a, b), (_, direction))| compare_in(a, b, *direction));
            orders.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        for row in &self.ordered {
            self.accumulator.add(&row[order.len()..])?;
        }
        self.accumulator.finish()
    }
}
