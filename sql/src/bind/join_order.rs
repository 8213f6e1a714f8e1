//! The order in which the tables of a FROM are joined, and how.
//!
//! Tables of inner joins are put in order one by one: next comes the one of which the fewest rows can be found by what
//! is known then. Outer joins stay where they are written.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::access::{IndexWords, Search, Wanted, Way, is_as_in_keys, is_same_in_rows};
use crate::bind::from::Item;
use crate::bind::implied::add_implied;
use crate::bind::join_cost::{How, Place, cheaper_order};
use crate::bind::names::{KeyShape, TableShape};
use crate::bind::{Binder, Bound};
use crate::error::Result;
use crate::plan::expression::{Comparison, Expr};
use crate::plan::source::{Access, Join, JoinKind, JoinMethod, Lookup, Scan, Source};

/// A FROM that was put in order.
pub(super) struct Ordered {
    pub(super) source: Source,
    /// Whether its rows come in the wanted order.
    pub(super) is_ordered: bool,
}

/// What is joined so far.
#[derive(Default)]
struct Placed {
    source: Option<Source>,
    slots: Vec<usize>,
    /// Those of them that are read.
    reads: Vec<usize>,
    /// Whether its rows come in the wanted order, whatever is joined to them.
    is_ordered: bool,
    /// Whether it has one row at most, so that the order of what comes next is that of all.
    is_one_row: bool,
}

/// What all parts of a FROM need to know.
pub(super) struct Needs<'n> {
    /// The slots that are read, whatever the order.
    pub(super) reads: &'n [usize],
    /// The order that is wanted.
    pub(super) wanted: &'n Wanted,
    /// Whether all rows are read before the first is given, as groups and sorts do, whatever the order of the joins.
    pub(super) reads_all: bool,
}

pub(super) fn slots_of(expr: &Expr) -> Vec<usize> {
    let mut slots = Vec::new();
    expr.add_slots(&mut slots);
    slots
}

fn is_within(slots: &[usize], known: &[usize]) -> bool {
    slots.iter().all(|slot| known.contains(slot))
}

/// Takes the conditions that read nothing but these slots out of a list.
fn take_within(conditions: &mut Vec<Expr>, known: &[usize]) -> Vec<Expr> {
    conditions.extract_if(.., |condition| is_within(&slots_of(condition), known)).collect()
}

impl Binder<'_> {
    /// The source of a FROM and a WHERE.
    pub(super) fn in_order(&mut self, item: Option<Item>, conditions: Vec<Expr>, needs: &Needs<'_>) -> Result<Ordered> {
        let Some(item) = item else {
            return Ok(Ordered { source: filtered(Source::Once, conditions), is_ordered: false });
        };
        let placed = self.place(item, conditions, &[], needs)?;
        let source = placed.source.unwrap_or(Source::Once);
        Ok(Ordered { source, is_ordered: placed.is_ordered })
    }

    /// Puts an item in order, where the slots of others are known already.
    fn place(&mut self, item: Item, conditions: Vec<Expr>, known: &[usize], needs: &Needs<'_>) -> Result<Placed> {
        let mut conditions: Vec<Expr> = conditions.into_iter().flat_map(Expr::into_conjuncts).collect();
        let mut units = Vec::new();
        flatten(item, &mut units, &mut conditions);
        add_implied(&units, &mut conditions);
        let mut placed = Placed { slots: known.to_vec(), ..Placed::default() };
        if known.is_empty()
            && let Some(order) = order_by_counts(self, &units, &conditions, needs)
        {
            let mut units: Vec<Option<Item>> = units.into_iter().map(Some).collect();
            for Place { unit, how } in order {
                let Some(unit) = units[unit].take() else { continue };
                self.add(unit, &mut conditions, &mut placed, needs, known, how)?;
            }
        } else {
            while !units.is_empty() {
                let next = self.choose(&units, &conditions, &placed, needs);
                let unit = units.remove(next);
                self.add(unit, &mut conditions, &mut placed, needs, known, How::default())?;
            }
        }
        if !conditions.is_empty() {
            placed.source = Some(filtered(placed.source.unwrap_or(Source::Once), conditions));
        }
        Ok(placed)
    }

    /// Which unit comes next.
    fn choose(&mut self, units: &[Item], conditions: &[Expr], placed: &Placed, needs: &Needs<'_>) -> usize {
        let mut best = (0, 0);
        for (at, unit) in units.iter().enumerate() {
            let is_first = placed.source.is_none();
            let score = match unit {
                Item::Table { shape, base, .. } => {
                    let search = self.search(shape, *base, conditions, &placed.slots, needs);
                    let way = search.with(|search| search.best());
                    let own: Vec<usize> = (*base..*base + shape.columns.len()).collect();
                    let has_pair = !is_first
                        && conditions.iter().any(|condition| {
                            let slots = slots_of(condition);
                            slots.iter().any(|slot| own.contains(slot))
                                && slots.iter().any(|slot| placed.slots.contains(slot))
                        });
                    1 + way.score * 4 + u32::from(has_pair) * 2 + u32::from(is_first && way.order.is_some())
                }
                Item::Other { needs, .. } if !is_within(needs, &placed.slots) => 0,
                // A function of what is known gives few rows, and sub-selects are read once.
                Item::Other { .. } => 2,
                Item::Join { .. } => 1,
            };
            if score > best.1 {
                best = (at, score);
            }
        }
        best.0
    }

    fn add(
        &mut self,
        unit: Item,
        conditions: &mut Vec<Expr>,
        placed: &mut Placed,
        needs: &Needs<'_>,
        outside: &[usize],
        how: How,
    ) -> Result<()> {
        let (mut own, mut own_reads) = (Vec::new(), Vec::new());
        unit.add_slots(&mut own);
        unit.add_read_slots(needs.reads, &mut own_reads);
        let own_reads = &own_reads[..];
        let mut all = placed.slots.clone();
        all.extend(&own);
        let is_first = placed.source.is_none();
        match unit {
            Item::Join { kind, left, right, on } => {
                let mut depends = Vec::new();
                left.add_needs(&mut depends);
                right.add_needs(&mut depends);
                let wants = depends.iter().any(|slot| placed.slots.contains(slot));
                // WHERE of the first side of an outer join is looked at before it.
                let ordered = self.outer_join(kind, *left, *right, on, conditions, placed, needs)?;
                let source = filtered(ordered.source, take_within(conditions, &own));
                // Those that read what stands before cannot be looked at while the rows are kept.
                let pair = take_within(conditions, &all);
                if is_first {
                    self.attach(filtered(source, pair), JoinMethod::AskAgain, None, (own, own_reads), placed);
                    placed.is_ordered = ordered.is_ordered;
                } else {
                    placed.is_one_row = false;
                    let method = if wants { JoinMethod::AskAgain } else { hash_method(&pair, &placed.slots, &own) };
                    self.attach(source, method, Expr::all(pair), (own, own_reads), placed);
                }
            }
            Item::Other { source, needs: depends, .. } => {
                let wants = !is_within(&depends, outside);
                let pair = take_within(conditions, &all);
                let method = match (is_first, wants) {
                    (true, _) => JoinMethod::AskAgain,
                    (false, true) => JoinMethod::AskAgain,
                    (false, false) => hash_method(&pair, &placed.slots, &own),
                };
                placed.is_one_row = false;
                if is_first {
                    placed.source = Some(filtered(source, pair));
                    placed.begin(all, own_reads);
                } else {
                    self.attach(source, method, Expr::all(pair), (own, own_reads), placed);
                }
            }
            Item::Table { shape, alias, base, sample } => {
                let has_order = !placed.is_ordered && (is_first || placed.is_one_row);
                // What the one row before it tells has one value.
                let is_open = |expr: &Expr| !is_within(&slots_of(expr), &placed.slots) || expr.is_volatile();
                let wanted: Vec<_> =
                    needs.wanted.iter().filter(|(expr, _)| has_order && is_open(expr)).cloned().collect();
                let needs = Needs { wanted: &wanted, ..*needs };
                let known = if how.is_kept { outside } else { &placed.slots[..] };
                let search = self.search(&shape, base, conditions, known, &needs);
                let way = search.with(|search| search.best());
                let is_ordered = has_order && way.order.is_some() && sample.is_none();
                let is_one_row = way.access.is_unique && (is_first || placed.is_one_row);
                let depends = way.access.expressions().iter().any(|expr| !slots_of(expr).is_empty());
                let is_reversed = way.order == Some(true);
                let mut at = 0;
                conditions.retain(|_| {
                    at += 1;
                    !way.consumed.contains(&(at - 1))
                });
                let mut own_conditions = take_within(conditions, &own);
                let mut pair = take_within(conditions, &all);
                if how.is_late && !is_first && !depends {
                    pair.extend(own_conditions.extract_if(.., |condition| is_dear(condition)));
                }
                let mut scan = scan(&shape, &alias, base, way, needs.reads);
                scan.is_reversed = is_reversed;
                scan.sample = sample;
                if is_first {
                    let mut filter = own_conditions;
                    filter.append(&mut pair);
                    scan.set_filter(self, filter);
                    placed.source = Some(Source::Scan(Box::new(scan)));
                    placed.begin(all, own_reads);
                    placed.is_ordered = is_ordered;
                } else if depends {
                    placed.is_ordered |= is_ordered;
                    let mut filter = own_conditions;
                    filter.append(&mut pair);
                    scan.set_filter(self, filter);
                    self.attach(Source::Scan(Box::new(scan)), JoinMethod::AskAgain, None, (own, own_reads), placed);
                } else {
                    scan.set_filter(self, own_conditions);
                    let mut method = hash_method(&pair, &placed.slots, &own);
                    if how.keeps_first
                        && let JoinMethod::Hash { outer, inner } = &mut method
                    {
                        std::mem::swap(outer, inner);
                        placed.turn(Source::Scan(Box::new(scan)), method, Expr::all(pair), (own, own_reads));
                    } else {
                        self.attach(Source::Scan(Box::new(scan)), method, Expr::all(pair), (own, own_reads), placed);
                    }
                }
                placed.is_one_row = is_one_row;
            }
        }
        Ok(())
    }

    /// Joins a source to what is there.
    fn attach(
        &mut self,
        source: Source,
        method: JoinMethod,
        condition: Option<Expr>,
        (own, own_reads): (Vec<usize>, &[usize]),
        placed: &mut Placed,
    ) {
        placed.source = Some(match placed.source.take() {
            None => source,
            Some(outer) => Source::Join(Box::new(Join {
                kind: JoinKind::Inner,
                outer,
                inner: source,
                inner_slots: own_reads.to_vec(),
                outer_slots: placed.slots.clone(),
                is_in_order: true,
                method,
                condition: condition.map(cheap_first),
            })),
        });
        placed.slots.extend(own);
        placed.reads.extend(own_reads);
    }

    /// An outer join, whose sides are put in order on their own. Rows of the first side keep their order.
    #[expect(clippy::too_many_arguments, reason = "a join has two sides, conditions, and what is around it")]
    fn outer_join(
        &mut self,
        kind: JoinKind,
        left: Item,
        right: Item,
        on: Vec<Expr>,
        conditions: &mut Vec<Expr>,
        placed: &Placed,
        needs: &Needs<'_>,
    ) -> Result<Ordered> {
        let (mut left_slots, mut right_slots) = (Vec::new(), Vec::new());
        left.add_slots(&mut left_slots);
        right.add_slots(&mut right_slots);
        let mut right_reads = Vec::new();
        right.add_read_slots(needs.reads, &mut right_reads);
        let known: Vec<usize> = placed.slots.clone();
        let mut on: Vec<Expr> = on.into_iter().flat_map(Expr::into_conjuncts).collect();
        let before = match kind {
            JoinKind::Left => take_within(conditions, &left_slots),
            _ => Vec::new(),
        };
        let has_order = kind == JoinKind::Left && placed.source.is_none();
        let left_needs = Needs { wanted: if has_order { needs.wanted } else { &[] }, ..*needs };
        let outer = self.place(left, before, &known, &left_needs)?;
        let right_needs = Needs { wanted: &[], reads_all: false, ..*needs };
        let mut beside = known;
        beside.extend(&left_slots);
        let (inner, method) = if kind == JoinKind::Full {
            let inner = self.place(right, Vec::new(), &[], &right_needs)?;
            (inner.source.unwrap_or(Source::Once), hash_method(&on, &left_slots, &right_slots))
        } else {
            let own = take_within(&mut on, &right_slots);
            // What is LATERAL anywhere in it reads the row of the first side.
            let is_asked = |right: &Item| {
                let mut depends = Vec::new();
                right.add_needs(&mut depends);
                depends.iter().any(|slot| !right_slots.contains(slot))
            };
            match right {
                Item::Table { shape, alias, base, sample: None } => {
                    let mut all = own;
                    all.append(&mut on);
                    let search = self.search(&shape, base, &all, &beside, &right_needs);
                    let way = search.with(|search| search.best());
                    let depends = way.access.expressions().iter().any(|expr| !slots_of(expr).is_empty());
                    let mut at = 0;
                    all.retain(|_| {
                        at += 1;
                        !way.consumed.contains(&(at - 1))
                    });
                    let mut scan = scan(&shape, &alias, base, way, needs.reads);
                    if depends {
                        scan.set_filter(self, all);
                        (Source::Scan(Box::new(scan)), JoinMethod::AskAgain)
                    } else {
                        scan.set_filter(self, take_within(&mut all, &right_slots));
                        on = all;
                        let method = hash_method(&on, &left_slots, &right_slots);
                        (Source::Scan(Box::new(scan)), method)
                    }
                }
                right if is_asked(&right) => {
                    on.extend(own);
                    let inner = self.place(right, Vec::new(), &beside, &right_needs)?;
                    (inner.source.unwrap_or(Source::Once), JoinMethod::AskAgain)
                }
                right => {
                    let inner = self.place(right, own, &[], &right_needs)?;
                    (inner.source.unwrap_or(Source::Once), hash_method(&on, &left_slots, &right_slots))
                }
            }
        };
        let source = Source::Join(Box::new(Join {
            kind,
            outer: outer.source.unwrap_or(Source::Once),
            inner,
            inner_slots: right_reads,
            outer_slots: left_slots,
            is_in_order: true,
            method,
            condition: Expr::all(on),
        }));
        Ok(Ordered { source, is_ordered: has_order && outer.is_ordered })
    }
}

/// An order by counts, where it is much better than the one in which units are chosen one by one.
fn order_by_counts(
    binder: &mut Binder<'_>,
    units: &[Item],
    conditions: &[Expr],
    needs: &Needs<'_>,
) -> Option<Vec<Place>> {
    if units.len() < 2 || !needs.reads_all {
        return None;
    }
    let usual = |binder: &mut Binder<'_>| {
        let mut placed = Placed::default();
        let mut left: Vec<(usize, Item)> = units.iter().cloned().enumerate().collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let items: Vec<Item> = left.iter().map(|(_, item)| item.clone()).collect();
            let (at, item) = left.remove(binder.choose(&items, conditions, &placed, needs));
            order.push(at);
            item.add_slots(&mut placed.slots);
            placed.source = Some(Source::Once);
        }
        order
    };
    cheaper_order(binder, units, conditions, needs, usual)
}

impl Placed {
    /// The slots of the first source.
    fn begin(&mut self, slots: Vec<usize>, reads: &[usize]) {
        (self.slots, self.reads) = (slots, reads.to_vec());
    }

    /// Joins a source to what is there, which is kept while the source is read.
    fn turn(&mut self, source: Source, method: JoinMethod, condition: Option<Expr>, own: (Vec<usize>, &[usize])) {
        let (own, own_reads) = own;
        let Some(inner) = self.source.take() else { return };
        self.source = Some(Source::Join(Box::new(Join {
            kind: JoinKind::Inner,
            outer: source,
            inner,
            inner_slots: self.reads.clone(),
            outer_slots: own.clone(),
            is_in_order: true,
            method,
            condition: condition.map(cheap_first),
        })));
        self.slots.extend(own);
        self.reads.extend(own_reads);
        self.is_ordered = false;
    }
}

/// Whether a condition reads a query for each row, which takes more time than all others.
pub(super) fn is_dear(condition: &Expr) -> bool {
    condition.any(&|part| matches!(part, Expr::Subquery(query) if !query.arguments.is_empty()))
}

/// The condition with its parts that read queries last.
fn cheap_first(condition: Expr) -> Expr {
    match condition {
        Expr::And(mut parts) => {
            parts.sort_by_key(is_dear);
            Expr::And(parts)
        }
        other => other,
    }
}

/// Takes inner joins apart.
fn flatten(item: Item, units: &mut Vec<Item>, conditions: &mut Vec<Expr>) {
    match item {
        Item::Join { kind: JoinKind::Inner, left, right, on } => {
            flatten(*left, units, conditions);
            flatten(*right, units, conditions);
            conditions.extend(on.into_iter().flat_map(Expr::into_conjuncts));
        }
        unit => units.push(unit),
    }
}

fn filtered(source: Source, conditions: Vec<Expr>) -> Source {
    match Expr::all(conditions) {
        None => source,
        Some(condition) => match source {
            Source::Catalogue { table, slots, filter: None } => {
                Source::Catalogue { table, slots, filter: Some(condition) }
            }
            input => Source::Filter { input: Box::new(input), condition },
        },
    }
}

/// Finds rows of the second side by equal values, if conditions say such.
fn hash_method(conditions: &[Expr], left: &[usize], right: &[usize]) -> JoinMethod {
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for condition in conditions {
        let Expr::Compare { comparison: Comparison::Equal, is_caseless: false, sides } = condition else { continue };
        let [a, b] = &**sides;
        let (of_a, of_b) = (slots_of(a), slots_of(b));
        if of_a.is_empty() || of_b.is_empty() {
            continue;
        }
        if is_within(&of_a, left) && is_within(&of_b, right) {
            outer.push(a.clone());
            inner.push(b.clone());
        } else if is_within(&of_b, left) && is_within(&of_a, right) {
            outer.push(b.clone());
            inner.push(a.clone());
        }
    }
    if outer.is_empty() { JoinMethod::Keep } else { JoinMethod::Hash { outer, inner } }
}

impl Scan {
    /// Sets what rows must keep.
    fn set_filter(&mut self, binder: &mut Binder<'_>, conditions: Vec<Expr>) {
        if self.sample.is_none()
            && let Some((columns, values)) = equalities(&self.access, &conditions)
        {
            self.lookup = Some(Lookup { number: binder.number(), columns, values });
        }
        self.filter = Expr::all(conditions).map(cheap_first);
    }
}

/// Expressions over the columns of a scan, and those over the row around the sub-select that it is in to which
/// conditions say they are equal, if the range that is read depends on neither.
fn equalities(access: &Access, conditions: &[Expr]) -> Option<(Vec<Expr>, Vec<Expr>)> {
    let depends = |expr: &Expr| expr.any(&|part| matches!(part, Expr::Slot(_) | Expr::Outer(_) | Expr::Subquery(_)));
    if access.expressions().into_iter().any(|expr| depends(expr) || expr.is_volatile()) {
        return None;
    }
    let is_of_columns = |expr: &Expr| {
        let is_of_more = |part: &Expr| matches!(part, Expr::Outer(_) | Expr::Subquery(_));
        !slots_of(expr).is_empty() && !expr.any(&is_of_more) && !expr.is_volatile()
    };
    let is_of_outer = |expr: &Expr| {
        let is_of_more = |part: &Expr| matches!(part, Expr::Slot(_) | Expr::Subquery(_));
        expr.any(&|part| matches!(part, Expr::Outer(_))) && !expr.any(&is_of_more) && !expr.is_volatile()
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for condition in conditions {
        let Expr::Compare { comparison: Comparison::Equal, is_caseless: false, sides } = condition else { continue };
        let [a, b] = &**sides;
        let (column, value) = if is_of_outer(b) { (a, b) } else { (b, a) };
        if is_of_columns(column) && is_of_outer(value) {
            columns.push(column.clone());
            values.push(value.clone());
        }
    }
    (!columns.is_empty()).then_some((columns, values))
}

fn scan(shape: &Arc<TableShape>, alias: &Arc<str>, base: usize, way: Way, reads: &[usize]) -> Scan {
    let width = shape.columns.len();
    let reads = places_read(base, width, reads);
    Scan {
        table: Arc::clone(&shape.table),
        alias: Arc::clone(alias),
        base,
        width,
        reads,
        types: Arc::clone(&shape.types),
        key: shape.primary.columns.iter().filter_map(|column| column.place).collect(),
        not_null: shape.columns.iter().enumerate().filter(|(_, column)| column.is_not_null).map(|(at, _)| at).collect(),
        access: way.access,
        filter: None,
        lookup: None,
        is_reversed: false,
        sample: None,
    }
}

/// The places of a table's columns that are read.
fn places_read(base: usize, width: usize, reads: &[usize]) -> Vec<usize> {
    let mut places: Vec<usize> =
        reads.iter().filter(|slot| (base..base + width).contains(slot)).map(|slot| slot - base).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// A [`Search`] that owns what was made for it.
pub(super) struct OwnedSearch<'s> {
    shape: &'s TableShape,
    base: usize,
    conditions: &'s [Expr],
    known: &'s [usize],
    wanted: &'s Wanted,
    reads: Vec<usize>,
    words: Vec<IndexWords>,
}

impl OwnedSearch<'_> {
    pub(super) fn with<R>(&self, ask: impl FnOnce(&Search<'_>) -> R) -> R {
        ask(&Search {
            shape: self.shape,
            base: self.base,
            conditions: self.conditions,
            known: self.known,
            wanted: self.wanted,
            reads: &self.reads,
            words: &self.words,
        })
    }
}

impl Binder<'_> {
    pub(super) fn search<'s>(
        &mut self,
        shape: &'s Arc<TableShape>,
        base: usize,
        conditions: &'s [Expr],
        known: &'s [usize],
        needs: &Needs<'s>,
    ) -> OwnedSearch<'s> {
        let words = shape.indexes.iter().map(|index| index_words(self, shape, base, index)).collect();
        let reads = places_read(base, shape.columns.len(), needs.reads);
        OwnedSearch { shape, base, conditions, known, wanted: needs.wanted, reads, words }
    }
}

/// What an index says in words, over slots from `base` on.
pub(super) fn index_words(binder: &mut Binder<'_>, shape: &TableShape, base: usize, index: &KeyShape) -> IndexWords {
    let predicate = index.predicate.as_deref().and_then(|text| {
        let written = crate::statement::parse_expression(text).ok()?;
        let bound = over_table(binder, shape, base, &written, |binder, bound| binder.condition(bound, "WHERE"));
        Some(bound.ok()?.into_conjuncts())
    });
    let expressions = index.expressions.iter().filter_map(|expression| {
        let bound = over_table(binder, shape, base, &expression.written, |_, bound| Ok(bound)).ok()?;
        let is_same = is_as_in_keys(bound.sql_type) && (!expression.is_of_rows || is_same_in_rows(&bound.expr));
        is_same.then_some((expression.at, bound.expr))
    });
    IndexWords { predicate, expressions: expressions.collect() }
}

/// What an expression over the slots of a table comes to.
///
/// # Errors
/// Those of its names and types.
pub(super) fn over_table<T>(
    binder: &mut Binder<'_>,
    shape: &TableShape,
    base: usize,
    written: &ast::Expr,
    of_bound: impl FnOnce(&mut Binder<'_>, Bound) -> Result<T>,
) -> Result<T> {
    let columns = shape.columns.iter().enumerate().map(|(place, column)| crate::bind::scope::ScopeColumn {
        name: Arc::clone(&column.name),
        sql_type: column.sql_type,
        slot: base + place,
        origin: None,
        shown: crate::bind::scope::Shown::Always,
        merged: None,
    });
    let relation = crate::bind::scope::Relation {
        name: Arc::clone(&shape.name),
        schema: None,
        columns: columns.collect(),
        is_visible: true,
        needs_name: false,
        is_one_value: false,
        system: None,
    };
    over_relation(binder, relation, written, of_bound)
}

/// Binds an expression over the columns of one relation alone.
pub(super) fn over_relation<T>(
    binder: &mut Binder<'_>,
    relation: crate::bind::scope::Relation,
    written: &ast::Expr,
    of_bound: impl FnOnce(&mut Binder<'_>, Bound) -> Result<T>,
) -> Result<T> {
    let level = crate::bind::scope::Level { relations: vec![relation], ..Default::default() };
    let levels = std::mem::replace(&mut binder.levels, vec![level]);
    // It stands in a definition, not in the text of the statement.
    let noted = binder.schemas.take();
    let bound = binder.expr(written).and_then(|bound| of_bound(binder, bound));
    (binder.levels, binder.schemas) = (levels, noted);
    bound
}
