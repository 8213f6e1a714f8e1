//! Groups of rows, and which of their rows each aggregate gets: DISTINCT, FILTER, ORDER BY.
//!
//! Not here: what an aggregate makes of them (`functions/aggregates`).

use std::collections::HashMap;

use crate::error::Result;
use crate::execute::context::{Context, Running, size_of_row};
use crate::execute::counted::counted_rows;
use crate::execute::early_filter::is_asked_early;
use crate::execute::evaluate::{evaluate, evaluate_all, evaluate_into, holds};
use crate::execute::key_table::{FlatRows, KeyTable};
use crate::execute::row_list::{RowList, RowListCursor};
use crate::execute::sorter::{SortedRows, Sorter, ascending};
use crate::execute::source::SourceCursor;
use crate::functions::Accumulator;
use crate::functions::make;
use crate::plan::expression::Expr;
use crate::plan::query::{Aggregate, Direction, Grouping, SortKey};
use crate::plan::source::Source;
use crate::types::datum::Datum;

/// The frames of the groups of a source's rows that are still to come.
pub(crate) struct GroupCursor {
    /// The frames, where they come out of the tallies of a tree.
    counted: Option<(RowList, RowListCursor)>,
    sets: std::vec::IntoIter<Set>,
    current: Option<SetCursor>,
}

impl GroupCursor {
    /// Reads all rows of a source.
    ///
    /// # Errors
    /// Those of reading and of evaluating.
    pub(crate) fn new(
        grouping: &Grouping,
        source: &Source,
        cursor: &mut SourceCursor,
        frame: &mut Vec<Datum>,
        context: &Context<'_>,
    ) -> Result<GroupCursor> {
        if let (Some(counted), Source::Scan(scan)) = (&grouping.counted, source) {
            let counted = Some((counted_rows(counted, grouping, scan, context)?, RowListCursor::default()));
            return Ok(GroupCursor { counted, sets: Vec::new().into_iter(), current: None });
        }
        let mut sets: Vec<Set> = (0..grouping.sets.len()).map(|set| Set::new(set, grouping, context)).collect();
        let mut values = Vec::with_capacity(grouping.groups.len());
        cursor.visit_all(source, frame, context, asks_early(grouping), &mut |frame| {
            evaluate_into(&mut values, &grouping.groups, frame, context)?;
            sets.iter_mut().try_for_each(|set| set.add(&values, grouping, frame, context))
        })?;
        Ok(GroupCursor { counted: None, sets: sets.into_iter(), current: None })
    }

    /// The frame of the next group that HAVING keeps.
    ///
    /// # Errors
    /// Those of evaluating.
    pub(crate) fn next(&mut self, grouping: &Grouping, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        while let Some(frame) = self.next_group(grouping, context)? {
            match &grouping.having {
                Some(having) if !holds(having, &frame, context)? => {}
                _ => return Ok(Some(frame)),
            }
        }
        Ok(None)
    }

    fn next_group(&mut self, grouping: &Grouping, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        if let Some((counted, cursor)) = &mut self.counted {
            return Ok(cursor.next(counted)?.map(|(_, frame)| frame.to_vec()));
        }
        loop {
            if let Some(current) = &mut self.current
                && let Some(frame) = current.next(grouping, context)?
            {
                return Ok(Some(frame));
            }
            let Some(set) = self.sets.next() else { return Ok(None) };
            self.current = Some(set.finish(context)?);
        }
    }
}

/// Whether all that is evaluated for a row can be evaluated while the row stands in its table.
fn asks_early(grouping: &Grouping) -> bool {
    grouping.groups.iter().all(is_asked_early)
        && grouping.aggregates.iter().all(|aggregate| {
            let ordered_by = aggregate.order.iter().map(|(value, _)| value);
            aggregate.arguments.iter().chain(&aggregate.filter).chain(ordered_by).all(is_asked_early)
        })
}

/// The groups of one set of grouping expressions. Once no more groups fit into memory, the rows of others wait, sorted
/// by their groups, so that these are added up one after the other. So do the further rows of a group whose aggregates
/// keep more of its rows than fit: it is closed.
struct Set {
    /// Which set it is.
    number: usize,
    keys: KeyTable,
    /// The values of the set in the last row.
    key: Vec<Datum>,
    /// The aggregates of each key, one key after the other.
    sums: Vec<Sum>,
    /// What the groups take.
    bytes: usize,
    /// The groups in memory that are closed, by their places, and room for what `sums` has of them.
    closed: HashMap<usize, Vec<Sum>>,
    /// Rows that wait: the values of the set, the first of the aggregates that is to get the row, then the frame.
    waiting: Option<Sorter>,
}

impl Set {
    fn new(number: usize, grouping: &Grouping, context: &Context<'_>) -> Set {
        let places = &grouping.sets[number];
        let (mut keys, mut sums) = (KeyTable::of_width(places.len()), Vec::new());
        if places.is_empty() {
            // All rows are one group, also if there are none.
            keys.add([]);
            sums.extend(sums_of(grouping, true, context));
        }
        Set { number, keys, key: Vec::new(), sums, bytes: 0, closed: HashMap::new(), waiting: None }
    }

    fn add(&mut self, values: &[Datum], grouping: &Grouping, frame: &[Datum], context: &Context<'_>) -> Result<()> {
        let places = &grouping.sets[self.number];
        let mut at = 0;
        if !places.is_empty() {
            self.key.clear();
            self.key.extend(places.iter().map(|&place| values[place].clone()));
            at = match self.keys.find(&self.key) {
                Some(at) => at,
                None if self.opens(grouping, context) => self.keys.len() - 1,
                None => return self.wait(0, grouping, frame, context),
            };
            if !self.closed.is_empty() && self.closed.contains_key(&at) {
                return self.wait(0, grouping, frame, context);
            }
        }
        let width = grouping.aggregates.len();
        match add_to(&mut self.sums[at * width..][..width], 0, grouping, frame, context)? {
            None => Ok(()),
            Some(full) => {
                self.closed.insert(at, Vec::new());
                self.wait(full, grouping, frame, context)
            }
        }
    }

    /// Opens the group of the last row, if it fits into memory.
    fn opens(&mut self, grouping: &Grouping, context: &Context<'_>) -> bool {
        if self.waiting.is_some() {
            return false;
        }
        let bytes = size_of_row(&self.key) + grouping.aggregates.len() * SUM_BYTES;
        // Sets fill up side by side.
        let share = (context.state.share() / grouping.sets.len()).saturating_sub(self.bytes);
        if context.state.try_keep_bytes(bytes, share).is_none() {
            return false;
        }
        self.bytes += bytes;
        self.keys.add(self.key.iter().cloned());
        self.sums.extend(sums_of(grouping, false, context));
        true
    }

    /// Has a row wait, which the aggregates before `first` have got.
    fn wait(&mut self, first: usize, grouping: &Grouping, frame: &[Datum], context: &Context<'_>) -> Result<()> {
        if grouping.sets.len() > SETS_WITH_FILES {
            return Err(context.state.out_of_memory());
        }
        let first = Datum::Int(first as i64);
        let row: Vec<Datum> = self.key.iter().chain([&first]).chain(frame).cloned().collect();
        let new = || Sorter::new(ascending(0..self.key.len()), None);
        self.waiting.get_or_insert_with(new).add(row, context.state)
    }

    fn finish(self, context: &Context<'_>) -> Result<SetCursor> {
        let waiting = self.waiting.map(|waiting| waiting.finish(context.state)).transpose()?;
        let Set { number, keys, bytes, closed, .. } = self;
        Ok(SetCursor { number, keys, at: 0, sums: self.sums.into_iter(), bytes, closed, waiting, next: None })
    }
}

/// The most grouping sets of a query whose rows may wait: each set has a file and a share of memory of its own.
const SETS_WITH_FILES: usize = 16;

/// What the state of an aggregate takes, about, without the arguments that it keeps.
const SUM_BYTES: usize = size_of::<Sum>() + 64;

/// The aggregates of a group, which `is_alone` if no others fill up beside it.
fn sums_of(grouping: &Grouping, is_alone: bool, context: &Context<'_>) -> impl Iterator<Item = Sum> {
    grouping.aggregates.iter().map(move |aggregate| Sum::new(aggregate, is_alone, context))
}

/// Gives a row to the aggregates from `first` on. Returns the place of one that has no room for it beside other groups:
/// it and those after it have not got the row.
fn add_to(
    sums: &mut [Sum],
    first: usize,
    grouping: &Grouping,
    frame: &[Datum],
    context: &Context<'_>,
) -> Result<Option<usize>> {
    for (place, (sum, aggregate)) in sums.iter_mut().zip(&grouping.aggregates).enumerate().skip(first) {
        if !sum.add(aggregate, frame, context)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The groups of a set that are still to come: those in memory, then those that have waited.
struct SetCursor {
    number: usize,
    keys: KeyTable,
    /// The next of the keys in memory.
    at: usize,
    sums: std::vec::IntoIter<Sum>,
    /// What the groups in memory have taken.
    bytes: usize,
    /// The groups in memory that are closed, by their places: their rows that wait go on with these aggregates.
    closed: HashMap<usize, Vec<Sum>>,
    waiting: Option<SortedRows>,
    /// The first row of the next group that has waited.
    next: Option<Vec<Datum>>,
}

impl SetCursor {
    fn next(&mut self, grouping: &Grouping, context: &Context<'_>) -> Result<Option<Vec<Datum>>> {
        while self.at < self.keys.len() {
            let at = self.at;
            self.at += 1;
            let sums = self.sums.by_ref().take(grouping.aggregates.len());
            match self.closed.get_mut(&at) {
                Some(closed) => closed.extend(sums),
                None => return frame(self.number, self.keys.key(at), sums, grouping, context).map(Some),
            }
        }
        if self.closed.is_empty() {
            context.state.let_go(std::mem::take(&mut self.bytes));
        }
        let Some(waiting) = &mut self.waiting else { return Ok(None) };
        let first = match self.next.take() {
            Some(first) => first,
            None => match waiting.next(context.state)? {
                Some(first) => first,
                None => return Ok(None),
            },
        };
        let width = grouping.sets[self.number].len();
        let key = &first[..width];
        let mut sums = match self.keys.find(key).and_then(|at| self.closed.remove(&at)) {
            Some(mut sums) => {
                sums.iter_mut().for_each(|sum| sum.is_alone = true);
                sums
            }
            None => sums_of(grouping, true, context).collect(),
        };
        add_waiting(&mut sums, &first[width..], grouping, context)?;
        while let Some(row) = waiting.next(context.state)? {
            context.state.step()?;
            if row[..width] != *key {
                self.next = Some(row);
                break;
            }
            add_waiting(&mut sums, &row[width..], grouping, context)?;
        }
        frame(self.number, key, sums, grouping, context).map(Some)
    }
}

/// Adds a row that has waited, without the values of its set, to a group that is alone.
fn add_waiting(sums: &mut [Sum], row: &[Datum], grouping: &Grouping, context: &Context<'_>) -> Result<()> {
    let (first, frame) = match row {
        [Datum::Int(first), frame @ ..] => (*first as usize, frame),
        _ => (0, row),
    };
    match add_to(sums, first, grouping, frame, context)? {
        None => Ok(()),
        Some(_) => Err(context.state.out_of_memory()),
    }
}

/// The frame of a group of a set: the values of its key, those of its aggregates, and what is not in the set.
fn frame(
    set: usize,
    key: &[Datum],
    sums: impl IntoIterator<Item = Sum>,
    grouping: &Grouping,
    context: &Context<'_>,
) -> Result<Vec<Datum>> {
    let mut frame = Vec::with_capacity(grouping.groups.len() + grouping.aggregates.len() + 1);
    frame.resize(grouping.groups.len(), Datum::Null);
    for (&place, value) in grouping.sets[set].iter().zip(key) {
        frame[place].clone_from(value);
    }
    for (sum, aggregate) in sums.into_iter().zip(&grouping.aggregates) {
        frame.push(sum.finish(aggregate, context)?);
    }
    frame.push(Datum::Int(absent(&grouping.sets[set], grouping.groups.len())));
    Ok(frame)
}

/// The bits of the expressions that are not in a set, the last one's the lowest.
fn absent(places: &[usize], count: usize) -> i64 {
    (0..count).filter(|place| !places.contains(place)).map(|place| 1 << (count - 1 - place)).sum()
}

/// An aggregate of one group.
struct Sum {
    accumulator: Box<dyn Accumulator>,
    /// Whether what is added counts as memory.
    keeps_arguments: bool,
    /// What it takes.
    kept: usize,
    /// Whether what does not fit into memory may go to files. Groups that fill up side by side would have one each.
    is_alone: bool,
    distinct: Option<Box<DistinctArguments>>,
    /// Rows that are taken in an order: the values of the order, then the arguments.
    ordered: Option<Box<Sorter>>,
}

/// Arguments that count once.
struct DistinctArguments {
    /// How many values an argument has.
    width: usize,
    known: KeyTable,
    /// Of each, the values of the order.
    orders: FlatRows,
    /// What these take.
    bytes: usize,
    /// Those that did not fit into memory: the arguments, then the values of the order.
    others: Option<Sorter>,
}

impl DistinctArguments {
    fn new(aggregate: &Aggregate) -> DistinctArguments {
        let width = aggregate.arguments.len();
        let (known, orders) = (KeyTable::of_width(width), FlatRows::of_width(aggregate.order.len()));
        DistinctArguments { width, known, orders, bytes: 0, others: None }
    }

    /// Notes an argument. Returns false, and notes nothing, if there is no room for it and the group is not alone.
    fn add(&mut self, arguments: Vec<Datum>, order: Vec<Datum>, is_alone: bool, state: &Running) -> Result<bool> {
        if self.known.find(&arguments).is_some() {
            return Ok(true);
        }
        let bytes = size_of_row(&arguments) + size_of_row(&order);
        let share = if is_alone { state.share().saturating_sub(self.bytes) } else { 0 };
        if state.try_keep_bytes(bytes, share).is_none() {
            if !is_alone {
                return Ok(false);
            }
            let others = self.put_aside(state)?;
            if state.try_keep_bytes(bytes, state.share()).is_none() {
                // It takes more than may be kept.
                others.add([arguments, order].concat(), state)?;
                return others.write_run(state).map(|()| true);
            }
        }
        self.bytes += bytes;
        self.known.add(arguments);
        self.orders.push(order);
        Ok(true)
    }

    /// Moves what is known to the others.
    fn put_aside(&mut self, state: &Running) -> Result<&mut Sorter> {
        let others = self.others.get_or_insert_with(|| Sorter::new(ascending(0..self.width), None));
        state.let_go(std::mem::take(&mut self.bytes));
        for (arguments, order) in self.known.drain().zip(self.orders.drain()) {
            others.add([arguments, order].concat(), state)?;
        }
        others.write_run(state)?;
        Ok(others)
    }

    /// Calls `take` with each of them: sorted, as PostgreSQL does, which finds those that are equal by sorting, unless
    /// any order will do.
    fn each(
        mut self,
        any_order: bool,
        state: &Running,
        mut take: impl FnMut(&[Datum], &[Datum]) -> Result<()>,
    ) -> Result<()> {
        if self.others.is_none() {
            let mut places: Vec<usize> = (0..self.known.len()).collect();
            if !any_order {
                places.sort_by(|&a, &b| self.known.key(a).cmp(self.known.key(b)));
            }
            places.into_iter().try_for_each(|at| take(self.known.key(at), self.orders.row(at)))?;
            state.let_go(self.bytes);
            return Ok(());
        }
        self.put_aside(state)?;
        let (width, Some(others)) = (self.width, self.others) else { return Ok(()) };
        let mut rows = others.finish(state)?;
        let mut last: Option<Vec<Datum>> = None;
        while let Some(row) = rows.next(state)? {
            if last.is_none_or(|last| last[..width] != row[..width]) {
                state.step()?;
                take(&row[..width], &row[width..])?;
            }
            last = Some(row);
        }
        Ok(())
    }
}

impl Sum {
    fn new(aggregate: &Aggregate, is_alone: bool, context: &Context<'_>) -> Sum {
        let accumulator = make(&aggregate.call, context.environment);
        let keeps_arguments = accumulator.keeps_arguments();
        let distinct = aggregate.is_distinct.then(|| Box::new(DistinctArguments::new(aggregate)));
        Sum { accumulator, keeps_arguments, kept: 0, is_alone, distinct, ordered: None }
    }

    /// Adds a row. Returns false, and adds nothing, if there is no room for it and the group is not alone.
    fn add(&mut self, aggregate: &Aggregate, frame: &[Datum], context: &Context<'_>) -> Result<bool> {
        if let Some(filter) = &aggregate.filter
            && !holds(filter, frame, context)?
        {
            return Ok(true);
        }
        if aggregate.order.is_empty() && !aggregate.is_distinct && !self.keeps_arguments {
            let added = match &aggregate.arguments[..] {
                [] => Some(self.accumulator.add(&[])),
                [Expr::Slot(slot)] => Some(self.accumulator.add(std::slice::from_ref(&frame[*slot]))),
                [argument] => Some(self.accumulator.add(&[evaluate(argument, frame, context)?])),
                _ => None,
            };
            if let Some(added) = added {
                return added.map(|()| true);
            }
        }
        let arguments = evaluate_all(&aggregate.arguments, frame, context)?;
        let mut order = Vec::with_capacity(aggregate.order.len());
        for (value, _) in &aggregate.order {
            order.push(evaluate(value, frame, context)?);
        }
        match &mut self.distinct {
            Some(distinct) => distinct.add(arguments, order, self.is_alone, context.state),
            None => self.take(aggregate, &arguments, &order, context.state),
        }
    }

    /// Adds arguments, or has them wait for their turn in the order.
    /// Returns false, and takes nothing, if there is no room for them and the group is not alone.
    fn take(&mut self, aggregate: &Aggregate, arguments: &[Datum], order: &[Datum], state: &Running) -> Result<bool> {
        if !aggregate.order.is_empty() {
            let key = |(place, (_, direction)): (usize, &(Expr, Direction))| SortKey { place, direction: *direction };
            let new = || Box::new(Sorter::new(aggregate.order.iter().enumerate().map(key).collect(), None));
            let ordered = self.ordered.get_or_insert_with(new);
            let row = [order, arguments].concat();
            return if self.is_alone { ordered.add(row, state).map(|()| true) } else { Ok(ordered.fits(row, state)) };
        }
        if !self.has_room(arguments, state) {
            return if self.is_alone { Err(state.out_of_memory()) } else { Ok(false) };
        }
        self.accumulator.add(arguments).map(|()| true)
    }

    /// Counts arguments that the aggregate keeps. Returns false, and counts nothing, if there is no room for them. One
    /// that is alone may take a share of the memory whatever others keep.
    fn has_room(&mut self, arguments: &[Datum], state: &Running) -> bool {
        if !self.keeps_arguments {
            return true;
        }
        let share = if self.is_alone { state.share().saturating_sub(self.kept) } else { 0 };
        let kept = state.try_keep_bytes(size_of_row(arguments), share);
        self.kept += kept.unwrap_or(0);
        kept.is_some()
    }

    /// The value of the aggregate. What it has kept is let go.
    fn finish(mut self, aggregate: &Aggregate, context: &Context<'_>) -> Result<Datum> {
        // Groups are finished one after the other.
        self.is_alone = true;
        if let Some(distinct) = self.distinct.take() {
            let any_order = self.accumulator.takes_any_order();
            let take = |arguments: &[Datum], order: &[Datum]| {
                self.take(aggregate, arguments, order, context.state).map(|_| ())
            };
            distinct.each(any_order, context.state, take)?;
        }
        if let Some(ordered) = self.ordered.take() {
            let mut rows = ordered.finish(context.state)?;
            while let Some(row) = rows.next(context.state)? {
                let arguments = &row[aggregate.order.len()..];
                if !self.has_room(arguments, context.state) {
                    return Err(context.state.out_of_memory());
                }
                self.accumulator.add(arguments)?;
            }
        }
        context.state.let_go(self.kept);
        self.accumulator.finish()
    }
}
