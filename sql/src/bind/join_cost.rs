//! Costs of joins in different orders, by counts. How many rows a table has, and how many a range of constants, is
//! known exactly; how many have the same values of the first columns of a key is counted at some places of the key
//! ([`Counts::rows_by_key`]); conditions of a table without a key are tried with some of its rows
//! ([`Counts::part_kept`]); the rest is guessed. So another order is only taken where it is much better. At each length
//! the best few orders go on, as in a beam search.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::bind::Binder;
use crate::bind::access::Way;
use crate::bind::from::Item;
use crate::bind::join_order::{Needs, is_dear, slots_of};
use crate::bind::names::{Counts, TableShape};
use crate::functions::Environment;
use crate::plan::expression::{Callee, Comparison, Expr};
use crate::plan::source::{KeyColumn, Several};

/// The most tables of which orders are compared.
const TABLES_MAX: usize = 12;
/// How many orders of each length are tried further.
const BEAM: usize = 8;
/// The parameter with the milliseconds below which the order in which tables are written and found is good enough.
const COST_MIN: &str = "join_reorder_ms";
/// How much better another order must be.
const TIMES_BETTER: f64 = 1.5;

/// Microseconds: to read a row of a scan, to look up one by a key, to look up the row of an entry of an index, to keep
/// a row by its values, to find such a row, and to compare a pair.
const SCAN: f64 = 0.5;
const SEEK: f64 = 2.0;
const FETCH: f64 = 1.0;
const KEEP: f64 = 0.6;
const PROBE: f64 = 0.3;
const PAIR: f64 = 0.1;
/// To look at a condition that reads a query.
const QUERY: f64 = 5.0;
/// The most bytes of rows that are kept willingly, what a row takes beside its values, and what a value takes.
const KEPT_BYTES_MAX: f64 = 64.0 * 1024.0 * 1024.0;
const ROW_BYTES: f64 = 120.0;
const VALUE_BYTES: f64 = 40.0;
/// How much worse it is to keep more.
const TIMES_WORSE: f64 = 100.0;

/// How many values a column has of which nothing is known.
const VALUES_GUESSED: f64 = 100.0;

/// A table of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) unit: usize,
    pub(super) how: How,
}

/// How a table is joined to those before it. Its rows are looked up by their values, if a key can do that, unless more
/// is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct How {
    /// They are found by their own conditions alone, and by hash.
    pub(super) is_kept: bool,
    /// What the tables before have is kept, and these are read.
    pub(super) keeps_first: bool,
    /// Conditions that read queries are looked at for pairs.
    pub(super) is_late: bool,
}

/// An order of some of the tables.
#[derive(Clone, Debug, Default)]
struct Begun {
    order: Vec<Place>,
    known: Vec<usize>,
    cost: f64,
    rows: f64,
    bytes: f64,
}

/// What a table is joined to.
struct Before<'b> {
    known: &'b [usize],
    rows: f64,
    /// The bytes of a row that is kept.
    bytes: f64,
}

impl Begun {
    fn before(&self) -> Before<'_> {
        Before { known: &self.known, rows: self.rows.max(1.0), bytes: self.bytes }
    }

    fn then(&self, tables: &Tables<'_>, unit: usize, step: Step) -> Begun {
        let Begun { mut order, mut known, cost, bytes, .. } = self.clone();
        order.push(Place { unit, how: step.how });
        known.extend(tables.units[unit].slots());
        Begun { order, known, cost: cost + step.cost, rows: step.rows, bytes: bytes + tables.units[unit].bytes }
    }

    fn has(&self, unit: usize) -> bool {
        self.order.iter().any(|place| place.unit == unit)
    }

    fn has_the_same(&self, other: &Begun) -> bool {
        other.order.iter().all(|place| self.has(place.unit))
    }
}

/// The tables of a join.
struct Tables<'t> {
    counts: &'t dyn Counts,
    environment: &'t dyn Environment,
    units: Vec<Unit<'t>>,
    conditions: &'t [Expr],
    /// The slots that each of them reads.
    slots: Vec<Vec<usize>>,
    /// What [`Counts::rows_by_key`] has answered.
    by_key: RefCell<HashMap<KeyColumns, Option<f64>>>,
}

/// The first columns of a key: the number of its table, its index, and how many.
type KeyColumns = (u32, Option<Arc<str>>, usize);

struct Unit<'t> {
    shape: &'t Arc<TableShape>,
    base: usize,
    rows: f64,
    /// The bytes of a row that is kept.
    bytes: f64,
    /// How its rows are found by themselves.
    alone: Way,
    /// How many that finds.
    found: f64,
    /// How many of them keep the table's own conditions, but for those that read queries.
    kept: f64,
}

/// What a table adds to an order.
#[derive(Clone, Copy, Debug)]
struct Step {
    cost: f64,
    rows: f64,
    how: How,
}

impl Unit<'_> {
    fn slots(&self) -> std::ops::Range<usize> {
        self.base..self.base + self.shape.columns.len()
    }
}

impl Tables<'_> {
    /// How many rows of a table have the same values of the first columns of a key.
    fn rows_by_key(&self, unit: &Unit<'_>, index: Option<&Arc<str>>, columns: usize) -> Option<f64> {
        let key = (unit.shape.number, index.cloned(), columns);
        let ask = || self.counts.rows_by_key(unit.shape, index.map(|index| &**index), columns);
        *self.by_key.borrow_mut().entry(key).or_insert_with(ask)
    }

    /// How many rows of a table have one value of a column.
    fn rows_by_value(&self, unit: &Unit<'_>, slot: usize) -> f64 {
        let place = slot - unit.base;
        let is_first = |columns: &[KeyColumn]| columns.first().is_some_and(|column| column.place == Some(place));
        let primary = &unit.shape.primary;
        let keys = std::iter::once(primary).chain(&unit.shape.indexes).filter(|key| key.predicate.is_none());
        let counted = keys.filter(|key| is_first(&key.columns)).find_map(|key| match key.is_unique && key.own == 1 {
            true => Some(1.0),
            false => self.rows_by_key(unit, key.index.as_ref(), 1),
        });
        counted.unwrap_or_else(|| (unit.rows / VALUES_GUESSED).max(1.0))
    }

    fn of_slot(&self, slot: usize) -> Option<&Unit<'_>> {
        self.units.iter().find(|unit| unit.slots().contains(&slot))
    }

    /// The part of all pairs of rows that keeps a condition.
    fn part(&self, condition: &Expr) -> f64 {
        match condition {
            Expr::Compare { comparison: Comparison::Equal, sides, .. } => {
                let part = |expr: &Expr| match expr {
                    Expr::Slot(slot) => {
                        self.of_slot(*slot).map(|unit| self.rows_by_value(unit, *slot) / unit.rows.max(1.0))
                    }
                    _ => None,
                };
                let [a, b] = &**sides;
                match (part(a), part(b)) {
                    (Some(a), Some(b)) => a.min(b),
                    (Some(part), None) | (None, Some(part)) => part,
                    (None, None) => 0.02,
                }
            }
            Expr::Compare { comparison: Comparison::Unequal, .. } => 0.9,
            Expr::Compare { .. } => 0.33,
            Expr::In { list, is_negated, .. } => {
                let part = (0.02 * list.len() as f64).min(0.5);
                if *is_negated { 1.0 - part } else { part }
            }
            Expr::IsNull { is_negated, .. } => {
                if *is_negated {
                    0.95
                } else {
                    0.05
                }
            }
            Expr::And(parts) => parts.iter().map(|part| self.part(part)).product(),
            Expr::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - self.part(part)).product::<f64>(),
            Expr::Not(part) => 1.0 - self.part(part),
            Expr::Call { call: Callee(call), .. } if matches!(call.function.name, "~~" | "~~*" | "~" | "~*") => 0.1,
            _ => 0.5,
        }
    }

    /// Finds out how many rows a table has by itself. `looks`: whether some are looked at.
    fn look_at(&mut self, ways: &mut Ways<'_>, at: usize, looks: bool) {
        let alone = ways(at, &[]);
        let unit = &self.units[at];
        let own = unit.slots();
        let is_left = |at: usize, condition: &Expr| {
            let slots = &self.slots[at];
            !slots.is_empty()
                && slots.iter().all(|slot| own.contains(slot))
                && !is_dear(condition)
                && !alone.consumed.contains(&at)
        };
        let left = self.conditions.iter().enumerate().filter(|(at, condition)| is_left(*at, condition));
        let left: Vec<&Expr> = left.map(|(_, condition)| condition).collect();
        let found = self.found(unit, &alone);
        let (fixed, open): (Vec<&Expr>, Vec<&Expr>) = left.into_iter().partition(|condition| !varies(condition, true));
        let guess = |conditions: &[&Expr]| conditions.iter().map(|condition| self.part(condition)).product::<f64>();
        let part = match fixed.is_empty() || !looks {
            true => 1.0,
            false => {
                self.counts.part_kept(unit.shape, unit.base, &fixed, self.environment).unwrap_or_else(|| guess(&fixed))
            }
        };
        let kept = found * part * guess(&open);
        let unit = &mut self.units[at];
        (unit.alone, unit.found, unit.kept) = (alone, found, kept);
    }

    /// How many rows a way finds for one row before it, before they are filtered: counted, if constants say where.
    fn found(&self, unit: &Unit<'_>, way: &Way) -> f64 {
        let access = &way.access;
        if !access.expressions().into_iter().any(|expr| varies(expr, false))
            && let Some(rows) = self.counts.rows_in(unit.shape, access, self.environment)
        {
            return rows as f64;
        }
        if access.is_unique {
            return unit.rows.min(1.0);
        }
        let by_key = |columns: usize| self.rows_by_key(unit, access.index.as_ref(), columns).unwrap_or(unit.rows);
        let equal = access.equal.len();
        let mut rows = match &access.several {
            Some(Several::List(lists)) => by_key(access.said()) * lists.len() as f64,
            Some(Several::Array(_)) => by_key(access.said()) * 10.0,
            Some(Several::Rows(rows)) => by_key(equal + rows.columns.len()) * 10.0,
            None if equal > 0 => by_key(equal),
            None => unit.rows,
        };
        for is_there in [access.low.is_some(), access.high.is_some()] {
            rows *= if is_there { 0.33 } else { 1.0 };
        }
        if access.prefix.is_some() {
            rows *= 0.1;
        }
        rows.min(unit.rows)
    }
}

/// Whether an expression has a value that is not known yet, though those of slots may be.
fn varies(expr: &Expr, has_slots: bool) -> bool {
    let is_open = |part: &Expr| match part {
        Expr::Slot(_) => !has_slots,
        Expr::Outer(_) | Expr::Parameter(_) | Expr::Subquery(_) => true,
        _ => false,
    };
    expr.any(&is_open) || expr.is_volatile()
}

/// A search for the key of a table that finds its rows where these slots are known.
type Ways<'w> = dyn FnMut(usize, &[usize]) -> Way + 'w;

impl Tables<'_> {
    /// What it costs to join a table to rows whose slots are known, and the best way to do so; the usual one unless
    /// `may_choose`.
    fn step(&self, ways: &mut Ways<'_>, at: usize, before: &Before<'_>, may_choose: bool) -> Step {
        let unit = &self.units[at];
        let own = unit.slots();
        let is_known = |slot: &usize| own.contains(slot) || before.known.contains(slot);
        let is_own = |at: usize| self.slots[at].iter().all(|slot| own.contains(slot));
        let is_new =
            |at: usize| self.slots[at].iter().any(|slot| own.contains(slot)) && self.slots[at].iter().all(is_known);
        let is_pair = |at: usize| is_new(at) && !is_own(at);
        let is_dear = |at: usize| is_dear(&self.conditions[at]);
        // What equals one column equals all that are known to be equal to it: that says nothing more.
        let own_column = |at: usize| match &self.conditions[at] {
            Expr::Compare { comparison: Comparison::Equal, sides, .. } => match &**sides {
                [Expr::Slot(a), Expr::Slot(b)] if is_new(at) => [a, b].into_iter().find(|slot| own.contains(slot)),
                _ => None,
            },
            _ => None,
        };
        let is_said_first =
            |at: usize| own_column(at).is_none_or(|own| !(0..at).any(|before| own_column(before) == Some(own)));
        let all = || 0..self.conditions.len();
        let part_of = |is_meant: &dyn Fn(usize) -> bool| -> f64 {
            all().filter(|at| is_meant(*at)).map(|at| self.part(&self.conditions[at])).product()
        };
        let count_of = |is_meant: &dyn Fn(usize) -> bool| -> f64 {
            all().filter(|at| is_dear(*at) && is_meant(*at)).count() as f64
        };
        let read = |way: &Way, found: f64| {
            let each = if way.access.index.is_some() && !way.access.is_covering { SCAN + FETCH } else { SCAN };
            SEEK + found * each
        };
        // By itself.
        let (alone, found, own_rows) = (&unit.alone, unit.found, unit.kept);
        let own_dear = count_of(&is_own);
        let dear_part = part_of(&|at| is_own(at) && is_dear(at));
        if before.known.is_empty() {
            let cost = read(alone, found) + own_rows * own_dear * QUERY;
            return Step { cost, rows: own_rows * dear_part, how: How::default() };
        }
        let is_hashed = all().any(|at| {
            let is_equal = |condition: &Expr| {
                matches!(condition, Expr::Compare { comparison: Comparison::Equal, is_caseless: false, .. })
            };
            is_pair(at) && is_equal(&self.conditions[at])
        });
        let pair_part = part_of(&|at| is_pair(at) && is_said_first(at));
        let pairs = before.rows * own_rows * pair_part;
        let mut how = How { is_kept: true, keeps_first: false, is_late: may_choose && is_hashed && pairs < own_rows };
        let kept_rows = own_rows * if how.is_late { 1.0 } else { dear_part };
        let keep = |rows: f64, bytes: f64| {
            let cost = rows * KEEP;
            if rows * bytes > KEPT_BYTES_MAX { cost * TIMES_WORSE } else { cost }
        };
        let usual = keep(kept_rows, unit.bytes) + before.rows * PROBE;
        let turned = keep(before.rows, before.bytes) + kept_rows * PROBE;
        how.keeps_first = may_choose && is_hashed && turned < usual;
        let join = match is_hashed {
            true if how.keeps_first => turned + pairs * PAIR,
            true => usual + pairs * PAIR,
            false => keep(kept_rows, unit.bytes) + before.rows * kept_rows * PAIR,
        };
        let dear_rows = if how.is_late { pairs } else { own_rows };
        let dear = dear_rows * own_dear * QUERY + pairs * count_of(&is_pair) * QUERY;
        let kept = Step { cost: read(alone, found) + join + dear, rows: pairs * dear_part, how };
        let way = ways(at, before.known);
        let depends = way.access.expressions().iter().any(|expr| !slots_of(expr).is_empty());
        if !depends {
            return kept;
        }
        let found = self.found(unit, &way);
        let is_left = |at: usize| is_new(at) && !way.consumed.contains(&at) && is_said_first(at);
        // What its own conditions leave is known better than by each of them.
        let own_part = match all().any(|at| is_own(at) && !is_left(at)) {
            true => part_of(&|at| is_left(at) && is_own(at) && !is_dear(at)),
            false => own_rows / unit.rows.max(1.0),
        };
        let cheap = own_part * part_of(&|at| is_left(at) && is_pair(at) && !is_dear(at));
        let dear_parts = part_of(&|at| is_left(at) && is_dear(at));
        let each = read(&way, found) + found * cheap * count_of(&is_new) * QUERY;
        let (cost, rows) = (before.rows * each, before.rows * found * cheap * dear_parts);
        let looked_up = Step { cost, rows, how: How::default() };
        if looked_up.cost <= kept.cost || !may_choose { looked_up } else { kept }
    }

    /// The cheapest order that is found, and its cost: at each length the best [`BEAM`] orders go on.
    fn best_order(&self, ways: &mut Ways<'_>) -> Option<(f64, Vec<Place>)> {
        let mut best = vec![Begun::default()];
        for _ in 0..self.units.len() {
            let mut longer: Vec<Begun> = Vec::new();
            for begun in &best {
                for unit in (0..self.units.len()).filter(|unit| !begun.has(*unit)) {
                    let next = begun.then(self, unit, self.step(ways, unit, &begun.before(), true));
                    match longer.iter_mut().find(|other| other.has_the_same(&next)) {
                        Some(other) if other.cost <= next.cost => {}
                        Some(other) => *other = next,
                        None => longer.push(next),
                    }
                }
            }
            // Each row that goes on costs a search at least.
            let weight = |begun: &Begun| begun.cost + begun.rows * SEEK;
            longer.sort_by(|a, b| weight(a).total_cmp(&weight(b)));
            longer.truncate(BEAM);
            best = longer;
        }
        let best = best.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        Some((best.cost, best.order))
    }

    /// The cost of an order in which each table is looked up where that can be.
    fn cost_of(&self, ways: &mut Ways<'_>, order: &[usize]) -> f64 {
        let begin = Begun::default();
        order
            .iter()
            .fold(begin, |begun, unit| begun.then(self, *unit, self.step(ways, *unit, &begun.before(), false)))
            .cost
    }
}

/// An order that costs much less than the usual one, if all of it are tables of which counts are known.
pub(super) fn cheaper_order(
    binder: &mut Binder<'_>,
    items: &[Item],
    conditions: &[Expr],
    needs: &Needs<'_>,
    usual: impl FnOnce(&mut Binder<'_>) -> Vec<usize>,
) -> Option<Vec<Place>> {
    if !(2..=TABLES_MAX).contains(&items.len()) {
        return None;
    }
    let (counts, environment) = (binder.names.counts()?, binder.environment);
    let cost_min = binder.environment.setting(COST_MIN).and_then(|milliseconds| milliseconds.parse().ok());
    let cost_min = 1000.0 * cost_min.unwrap_or(f64::MAX);
    let unit = |item| match item {
        &Item::Table { ref shape, base, sample: None, .. } => {
            let reads = needs.reads.iter().filter(|slot| (base..base + shape.columns.len()).contains(slot)).count();
            let bytes = ROW_BYTES + reads as f64 * VALUE_BYTES;
            let (alone, found, kept) = Default::default();
            Some(Unit { shape, base, rows: counts.rows(shape)? as f64, bytes, alone, found, kept })
        }
        _ => None,
    };
    let units = items.iter().map(unit).collect::<Option<Vec<Unit<'_>>>>()?;
    if units.iter().map(|unit| unit.rows * SCAN).sum::<f64>() < cost_min {
        return None;
    }
    let usual = usual(binder);
    let plain = Needs { wanted: &[], ..*needs };
    let places: Vec<_> = units.iter().map(|unit| (unit.shape, unit.base)).collect();
    let mut ways = |at: usize, known: &[usize]| {
        let (shape, base) = places[at];
        binder.search(shape, base, conditions, known, &plain).with(|search| search.best())
    };
    let slots = conditions.iter().map(slots_of).collect();
    let mut tables = Tables { counts, environment, units, conditions, slots, by_key: RefCell::default() };
    // Rows are only looked at where that can be worth it.
    for looks in [false, true] {
        (0..items.len()).for_each(|at| tables.look_at(&mut ways, at, looks));
        if tables.cost_of(&mut ways, &usual) < cost_min {
            return None;
        }
    }
    let cost = tables.cost_of(&mut ways, &usual);
    let (least, best) = tables.best_order(&mut ways)?;
    (least * TIMES_BETTER < cost).then_some(best)
}
