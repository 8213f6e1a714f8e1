//! SELECT: its values, window functions and order.

use std::sync::Arc;

use sqlparser::ast::{self, GroupByExpr, SelectItem, SelectItemQualifiedWildcardKind, Spanned};

use crate::bind::counted::counted;
use crate::bind::from::Item;
use crate::bind::join_order::Needs;
use crate::bind::late_outputs::Late;
use crate::bind::names::Named;
use crate::bind::query::direction_of;
use crate::bind::query::{Tail, output_place, plain};
use crate::bind::row_functions::{Cut, reads_any};
use crate::bind::scope::Level;
use crate::bind::types::has_equality;
use crate::bind::{Binder, BoundQuery, folded, numbered_pages, object_name, row_functions, rows, stars};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::functions::aggregates;
use crate::identity::rights::Right;
use crate::known_words::ROW;
use crate::plan::expression::Expr;
use crate::plan::query::{
    Aggregate, Body, Direction, Distinct, Grouping, LockTarget, LockWait, OutputColumn, RowLock, Select, SortKey,
    WindowCall,
};
use crate::plan::source::RowsOf;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// What a SELECT gives, and what it sorts by.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) exprs: Vec<Expr>,
    pub(super) columns: Vec<OutputColumn>,
    sort: Vec<SortKey>,
}

impl Binder<'_> {
    pub(super) fn select(&mut self, select: &ast::Select, tail: &Tail<'_>) -> Result<BoundQuery> {
        foreign::select(select)?;
        let paged = numbered_pages::paged(select);
        let select = paged.as_ref().unwrap_or(select);
        // Its level takes the place of the one that is there, which keeps what it is given.
        let arguments = std::mem::take(&mut self.level().arguments);
        let before = std::mem::replace(self.level(), Level { arguments, place: "FROM", ..Level::default() });
        self.level().reads_all = before.reads_all || is_grouped_as_written(select);
        let windows = select.named_window.iter().map(|definition| self.window_definition(definition));
        let windows = windows.collect::<Result<Vec<_>>>().and_then(with_names_once);
        let bound = windows.and_then(|windows| {
            self.window_names.push(windows);
            let bound = self.bind_select(select, tail);
            self.window_names.pop();
            bound
        });
        let arguments = std::mem::take(&mut self.level().arguments);
        *self.level() = Level { arguments, ..before };
        bound
    }

    fn window_definition(&self, definition: &ast::NamedWindowDefinition) -> Result<(String, ast::WindowSpec)> {
        match &definition.1 {
            ast::NamedWindowExpr::WindowSpec(spec) => Ok((folded(&definition.0), spec.clone())),
            ast::NamedWindowExpr::NamedWindow(_) => {
                Err(SqlError::unsupported("a window that is another one is not supported", "Write it in parentheses."))
            }
        }
    }

    fn bind_select(&mut self, select: &ast::Select, tail: &Tail<'_>) -> Result<BoundQuery> {
        let item = self.from(&select.from)?;
        let reads_all = std::mem::take(&mut self.level().reads_all);
        self.level().place = "WHERE";
        let conditions = match &select.selection {
            Some(condition) => {
                let bound = self.expr(condition)?;
                self.condition(bound, "WHERE")?.into_conjuncts()
            }
            None => Vec::new(),
        };
        let level = self.level();
        (level.aggregates, level.windows, level.place) = (Some(Vec::new()), Some(Vec::new()), "SELECT");
        let mut outputs = self.outputs(&select.projection)?;
        self.level().place = "GROUP BY";
        let (groups, sets) = self.groups(&select.group_by, &outputs)?;
        let windows = self.level().windows.take();
        self.level().place = "HAVING";
        let having = match &select.having {
            Some(having) => {
                let bound = self.expr(having)?;
                Some(self.condition(bound, "HAVING")?)
            }
            None => None,
        };
        let level = self.level();
        level.place = "ORDER BY";
        // Window functions of the select list are known already; those of the order are added to them.
        level.windows = windows;
        let mut distinct = self.distinct(select.distinct.as_ref(), &mut outputs)?;
        self.order_by(tail.order, &mut outputs, &mut distinct)?;
        let functions = std::mem::take(&mut self.level().row_functions);
        let targets = self.lock_targets(tail.locks, &item, &mut outputs)?;
        let level = self.level();
        let aggregates = level.aggregates.take().unwrap_or_default();
        let windows = level.windows.take().unwrap_or_default();
        if level.is_recursive && !aggregates.is_empty() {
            let what = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(SqlError::new(SqlState::INVALID_RECURSION, what));
        }
        let is_grouped = !groups.is_empty() || sets.is_some() || !aggregates.is_empty() || having.is_some();
        let parts =
            Parts { item, conditions, groups, sets, aggregates, having, windows, distinct, is_grouped, reads_all };
        // Rows that are locked have neither groups nor window functions.
        let keeps_sort = !tail.with_ties;
        let parts = match targets {
            None => with_row_functions(self, parts, &mut outputs, functions, keeps_sort)?,
            Some(_) => Parts { item: row_functions::joined(parts.item.clone(), functions), ..parts },
        };
        self.finish_select(parts, outputs, targets, tail)
    }

    // --- outputs ----------------------------------------------------------------------------------------------------

    fn outputs(&mut self, items: &[SelectItem]) -> Result<Outputs> {
        let mut outputs = Outputs::default();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(ast::Expr::Function(call)) if is_row(call) => {
                    for (bound, name, origin) in rows::fields_of_call(self, call)? {
                        outputs.exprs.push(bound.expr);
                        outputs.columns.push(OutputColumn { name: name.to_string(), sql_type: bound.sql_type, origin });
                    }
                }
                SelectItem::UnnamedExpr(written) => {
                    let name = name_of(written);
                    self.add_output(&mut outputs, written, name)?;
                }
                SelectItem::ExprWithAlias { expr, alias } => self.add_output(&mut outputs, expr, folded(alias))?,
                SelectItem::Wildcard(options) => {
                    let star = options.wildcard_token.0.span;
                    stars::add(self, None, (star, star));
                    self.add_all(&mut outputs, None)?;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let (_, table) = object_name(name)?;
                    stars::add(self, Some(&table), (name.span(), options.wildcard_token.0.span));
                    self.add_all(&mut outputs, Some(name))?;
                }
                other => {
                    let what = format!("{other} in a select list is not supported");
                    return Err(SqlError::unsupported(what, "Name each value."));
                }
            }
        }
        Ok(outputs)
    }

    fn add_output(&mut self, outputs: &mut Outputs, written: &ast::Expr, name: String) -> Result<()> {
        let (bound, origin) = match written {
            ast::Expr::Identifier(ident) => self.column_with_origin(std::slice::from_ref(ident))?,
            ast::Expr::CompoundIdentifier(parts) => self.column_with_origin(parts)?,
            _ => (self.expr(written)?, None),
        };
        let bound = self.text_if_unknown(bound)?;
        outputs.exprs.push(bound.expr);
        outputs.columns.push(OutputColumn { name, sql_type: bound.sql_type, origin });
        Ok(())
    }

    fn add_all(&mut self, outputs: &mut Outputs, table: Option<&ast::ObjectName>) -> Result<()> {
        for (bound, name, origin) in rows::all_of(self, table)? {
            outputs.exprs.push(bound.expr);
            outputs.columns.push(OutputColumn { name: name.to_string(), sql_type: bound.sql_type, origin });
        }
        Ok(())
    }

    /// The values of a list of SELECT or RETURNING, which is called so.
    pub(super) fn values_of(
        &mut self,
        items: &[SelectItem],
        place: &'static str,
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>)> {
        self.level().place = place;
        let outputs = self.outputs(items)?;
        Ok((outputs.exprs, outputs.columns))
    }

    // --- order ------------------------------------------------------------------------------------------------------

    fn distinct(&mut self, written: Option<&ast::Distinct>, outputs: &mut Outputs) -> Result<Distinct> {
        Ok(match written {
            None | Some(ast::Distinct::All) => Distinct::No,
            Some(ast::Distinct::Distinct) => {
                outputs.columns.iter().try_for_each(|column| has_equality(column.sql_type))?;
                Distinct::All
            }
            Some(ast::Distinct::On(written)) => {
                let mut places = Vec::new();
                for written in written {
                    let (place, sql_type) = self.sort_place("DISTINCT ON", written, outputs)?;
                    has_equality(sql_type)?;
                    places.push(place);
                }
                Distinct::On(places)
            }
        })
    }

    /// The place of the output that an element of an order means, and its type; one that is not given is added.
    fn sort_place(&mut self, clause: &str, written: &ast::Expr, outputs: &mut Outputs) -> Result<(usize, SqlType)> {
        if let Some(place) = output_place(clause, written, &outputs.columns)? {
            return Ok((place, outputs.columns[place].sql_type));
        }
        let bound = self.expr(written)?;
        let bound = self.text_if_unknown(bound)?;
        let known = outputs.exprs.iter().position(|known| *known == bound.expr);
        let place = known.unwrap_or_else(|| {
            outputs.exprs.push(bound.expr);
            outputs.exprs.len() - 1
        });
        Ok((place, bound.sql_type))
    }

    fn order_by(&mut self, keys: &[ast::OrderByExpr], outputs: &mut Outputs, distinct: &mut Distinct) -> Result<()> {
        let visible = outputs.columns.len();
        for key in keys {
            let (place, sql_type) = self.sort_place("ORDER BY", &key.expr, outputs)?;
            if place >= visible && *distinct == Distinct::All {
                let what = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what));
            }
            if sql_type.base == BaseType::Json && !sql_type.is_array {
                let what = "could not identify an ordering operator for type json";
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, what));
            }
            outputs.sort.push(SortKey { place, direction: direction_of(&key.options, sql_type) });
        }
        if let Distinct::On(places) = distinct {
            let first: Vec<usize> = outputs.sort.iter().map(|key| key.place).take(places.len()).collect();
            if !first.iter().all(|place| places.contains(place)) {
                let what = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what));
            }
        }
        Ok(())
    }

    /// The tables whose rows FOR UPDATE or FOR SHARE locks; their keys are added to the outputs.
    fn lock_targets(
        &mut self,
        locks: &[ast::LockClause],
        item: &Option<Item>,
        outputs: &mut Outputs,
    ) -> Result<Option<RowLock>> {
        let [lock, others @ ..] = locks else { return Ok(None) };
        if others.iter().any(|other| (&other.lock_type, &other.nonblock) != (&lock.lock_type, &lock.nonblock)) {
            let hint = "Lock all tables in the same way, or the rows of each in a statement of its own.";
            return Err(SqlError::unsupported("locks of several kinds in one statement are not supported", hint));
        }
        let of: Option<Vec<String>> = locks
            .iter()
            .map(|lock| lock.of.as_ref().map(|of| object_name(of).map(|(_, name)| name)))
            .collect::<Option<Result<_>>>()
            .transpose()?;
        let mut tables = Vec::new();
        if let Some(item) = item {
            add_tables(item, &mut tables);
        }
        let (mut targets, mut found) = (Vec::new(), Vec::new());
        for (shape, alias, base) in tables {
            if of.as_ref().is_some_and(|of| !of.iter().any(|name| **name == **alias)) {
                continue;
            }
            if shape.materialized.is_some() {
                let what = format!("cannot lock rows in materialized view \"{}\"", shape.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
            }
            self.names.require(Right::Update, &Named::Table(Arc::clone(shape)))?;
            found.push(alias);
            let mut key = Vec::new();
            for place in shape.primary.columns.iter().filter_map(|column| column.place) {
                outputs.exprs.push(Expr::Slot(base + place));
                key.push(outputs.exprs.len() - 1);
            }
            targets.push(LockTarget { table: Arc::clone(&shape.table), key });
        }
        let is_missing = |of: &&String| !found.iter().any(|alias| ***alias == ***of);
        if let Some(of) = of.iter().flatten().find(is_missing) {
            let what = format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, what));
        }
        let wait = match lock.nonblock {
            None => LockWait::Wait,
            Some(ast::NonBlock::Nowait) => LockWait::NoWait,
            Some(ast::NonBlock::SkipLocked) => LockWait::SkipLocked,
        };
        Ok(Some(RowLock { targets, wait, is_shared: lock.lock_type == ast::LockType::Share }))
    }

    // --- the plan ---------------------------------------------------------------------------------------------------

    fn finish_select(
        &mut self,
        mut parts: Parts,
        mut outputs: Outputs,
        lock: Option<RowLock>,
        tail: &Tail<'_>,
    ) -> Result<BoundQuery> {
        if lock.is_some() && (parts.is_grouped || parts.distinct != Distinct::No || !parts.windows.is_empty()) {
            let clause = if parts.is_grouped { "GROUP BY clause" } else { "DISTINCT clause" };
            let what = format!("FOR UPDATE is not allowed with {clause}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        parts.add_dependent(&outputs);
        let mut reads = Vec::new();
        parts.add_reads(&mut reads, &outputs);
        let wanted = self.wanted_order(&parts, &outputs);
        let frame = self.level().frame;
        // An order that a key has anyway needs no sort.
        let sorts = !outputs.sort.is_empty() && wanted.is_empty();
        let reads_all = parts.reads_all || parts.is_grouped || parts.distinct != Distinct::No || sorts;
        let needs = Needs { reads: &reads, wanted: &wanted, reads_all };
        let conditions = std::mem::take(&mut parts.conditions);
        let ordered = self.in_order(parts.item.take(), conditions, &needs)?;
        let mut sort = std::mem::take(&mut outputs.sort);
        let mut source = ordered.source;
        if ordered.is_ordered && !tail.with_ties && !wanted.is_empty() && !parts.is_grouped {
            sort.clear();
        } else {
            source.forget_order();
        }
        let windows_at;
        let grouping = if parts.is_grouped {
            let grouping = self.grouping_of(&mut parts, &mut outputs, &mut source)?;
            windows_at = grouping.groups.len() + grouping.aggregates.len() + 1;
            Some(grouping)
        } else {
            if outputs.exprs.iter().any(|output| output.any(&is_grouping)) {
                return Err(not_of_groups());
            }
            windows_at = frame;
            None
        };
        for output in &mut outputs.exprs {
            place_windows(output, windows_at);
        }
        let visible = outputs.columns.len();
        let is_plain = parts.distinct == Distinct::No && lock.is_none() && !tail.with_ties;
        let late = if is_plain { Late::of(&mut outputs.exprs, visible, &sort) } else { None };
        let width = if late.is_some() { outputs.exprs.len() } else { visible };
        let select = Select {
            frame,
            source,
            grouping,
            windows: parts.windows,
            output: outputs.exprs,
            distinct: parts.distinct,
            lock,
        };
        let mut query = plain(Body::Select(Box::new(select)), width);
        query.sort = sort;
        let bound = BoundQuery { query, columns: outputs.columns };
        Ok(match late {
            Some(late) => late.around(bound, width),
            None => bound,
        })
    }

    /// The order that would spare a sort; empty if none would.
    fn wanted_order(&self, parts: &Parts, outputs: &Outputs) -> Vec<(Expr, Direction)> {
        if parts.is_grouped || !parts.windows.is_empty() {
            return Vec::new();
        }
        outputs.sort.iter().map(|key| (outputs.exprs[key.place].clone(), key.direction)).collect()
    }

    fn grouping_of(
        &mut self,
        parts: &mut Parts,
        outputs: &mut Outputs,
        source: &mut crate::plan::source::Source,
    ) -> Result<Grouping> {
        let groups = std::mem::take(&mut parts.groups);
        let aggregates = std::mem::take(&mut parts.aggregates);
        let regroup = Regroup { groups: &groups, aggregates: aggregates.len(), binder: self };
        for output in &mut outputs.exprs {
            regroup.change(output)?;
        }
        let mut having = parts.having.take();
        if let Some(having) = &mut having {
            regroup.change(having)?;
        }
        for window in &mut parts.windows {
            for expr in window.exprs_mut() {
                regroup.change(expr)?;
            }
        }
        let sets = parts.sets.take().unwrap_or_else(|| vec![(0..groups.len()).collect()]);
        let mut grouping = Grouping { groups, sets, aggregates, having, counted: None };
        grouping.counted = counted(&grouping, source, &self.tables);
        Ok(grouping)
    }
}

/// The parts of a SELECT, before the order of its tables is known.
struct Parts {
    item: Option<Item>,
    conditions: Vec<Expr>,
    groups: Vec<Expr>,
    sets: Option<Vec<Vec<usize>>>,
    aggregates: Vec<Aggregate>,
    having: Option<Expr>,
    windows: Vec<WindowCall>,
    distinct: Distinct,
    is_grouped: bool,
    /// Whether a query around it reads all rows.
    reads_all: bool,
}

/// Whether a SELECT has groups, or removes duplicates, as far as its words tell.
fn is_grouped_as_written(select: &ast::Select) -> bool {
    fn has_aggregate(written: &ast::Expr) -> bool {
        match written {
            ast::Expr::Function(call) => {
                let name = object_name(&call.name).map(|(_, name)| name).unwrap_or_default();
                call.over.is_none() && aggregates().iter().any(|aggregate| aggregate.name == name)
            }
            ast::Expr::BinaryOp { left, right, .. } => has_aggregate(left) || has_aggregate(right),
            ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => has_aggregate(inner),
            _ => false,
        }
    }
    let has_groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
    };
    let mut outputs = select.projection.iter();
    has_groups
        || select.distinct.is_some()
        || select.having.is_some()
        || outputs.any(|output| match output {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_aggregate(expr),
            _ => false,
        })
}

impl Parts {
    /// Adds columns that depend on groups: of a table whose primary key is among them, all other columns have one value
    /// in each group.
    fn add_dependent(&mut self, outputs: &Outputs) {
        let (Some(item), false) = (&self.item, self.groups.is_empty()) else { return };
        let mut tables = Vec::new();
        add_tables(item, &mut tables);
        let is_in_all = |place: &usize| self.sets.iter().flatten().all(|set| set.contains(place));
        let is_group = |slot: usize| {
            let place = self.groups.iter().position(|group| *group == Expr::Slot(slot));
            place.is_some_and(|place| is_in_all(&place))
        };
        tables.retain(|(shape, _, base)| {
            let key = shape.primary.columns.iter();
            shape.primary_name.is_some()
                && key.map(|column| column.place).all(|place| place.is_some_and(|at| is_group(*base + at)))
        });
        if tables.is_empty() {
            return;
        }
        let mut reads = Vec::new();
        let mut add = |expr: &Expr| expr.add_slots(&mut reads);
        self.having.iter().chain(&outputs.exprs).for_each(&mut add);
        self.windows.iter().flat_map(WindowCall::exprs).for_each(&mut add);
        for slot in reads {
            let depends = tables.iter().any(|(shape, _, base)| (*base..base + shape.columns.len()).contains(&slot));
            if depends && !self.groups.contains(&Expr::Slot(slot)) {
                self.sets.iter_mut().flatten().for_each(|set| set.push(self.groups.len()));
                self.groups.push(Expr::Slot(slot));
            }
        }
    }

    /// Adds the slots that are read.
    fn add_reads(&self, reads: &mut Vec<usize>, outputs: &Outputs) {
        let mut add = |expr: &Expr| expr.add_slots(reads);
        self.conditions.iter().chain(&self.groups).chain(&self.having).chain(&outputs.exprs).for_each(&mut add);
        for aggregate in &self.aggregates {
            aggregate.arguments.iter().chain(&aggregate.filter).for_each(&mut add);
            aggregate.order.iter().for_each(|(expr, _)| add(expr));
        }
        self.windows.iter().flat_map(WindowCall::exprs).for_each(&mut add);
        if let Some(item) = &self.item {
            add_item_reads(item, reads);
        }
    }
}

pub(super) fn add_item_reads(item: &Item, reads: &mut Vec<usize>) {
    match item {
        Item::Table { .. } => {}
        Item::Other { needs, .. } => reads.extend(needs),
        Item::Join { left, right, on, .. } => {
            on.iter().for_each(|condition| condition.add_slots(reads));
            add_item_reads(left, reads);
            add_item_reads(right, reads);
        }
    }
}

fn add_tables<'i>(item: &'i Item, tables: &mut Vec<(&'i Arc<crate::bind::names::TableShape>, &'i Arc<str>, usize)>) {
    match item {
        Item::Table { shape, alias, base, .. } => tables.push((shape, alias, *base)),
        Item::Other { .. } => {}
        Item::Join { left, right, .. } => {
            add_tables(left, tables);
            add_tables(right, tables);
        }
    }
}

/// Whether it is a GROUPING that the groups have not replaced.
fn is_grouping(expr: &Expr) -> bool {
    matches!(expr, Expr::Record(values, _) if is_mark(values))
}

/// Whether these are the values of the row that marks a GROUPING.
fn is_mark(values: &[(SqlType, Expr)]) -> bool {
    matches!(values.first(), Some((_, Expr::Default)))
}

#[cold]
fn not_of_groups() -> SqlError {
    let what = "arguments to GROUPING must be grouping expressions of the associated query level";
    SqlError::new(SqlState::GROUPING_ERROR, what)
}

/// Turns expressions over rows into those over groups.
struct Regroup<'r, 'b> {
    groups: &'r [Expr],
    aggregates: usize,
    binder: &'r Binder<'b>,
}

impl Regroup<'_, '_> {
    fn change(&self, expr: &mut Expr) -> Result<()> {
        if let Some(place) = self.groups.iter().position(|group| group == expr) {
            *expr = Expr::Slot(place);
            return Ok(());
        }
        match expr {
            Expr::Aggregate(at) => {
                *expr = Expr::Slot(self.groups.len() + *at);
                Ok(())
            }
            Expr::Slot(slot) => Err(self.not_grouped(*slot)),
            Expr::Record(values, _) if is_mark(values) => {
                *expr = self.grouping(values)?;
                Ok(())
            }
            other => other.change_parts(&mut |part| self.change(part)),
        }
    }

    #[cold]
    fn not_grouped(&self, slot: usize) -> SqlError {
        let relations = self.binder.levels.last().map_or(&[][..], |level| &level.relations);
        let found = relations.iter().find_map(|relation| {
            let column = relation.columns.iter().find(|column| column.slot == slot && column.merged.is_none())?;
            Some(format!("{}.{}", relation.name, column.name))
        });
        let name = found.unwrap_or_else(|| "?".to_owned());
        let what = format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
        SqlError::new(SqlState::GROUPING_ERROR, what)
    }

    /// GROUPING: bits of the frame's last slot, which has one for each group that is not in the row's set.
    fn grouping(&self, marked: &[(SqlType, Expr)]) -> Result<Expr> {
        let [_, (_, Expr::Record(values, _))] = marked else { return Err(not_of_groups()) };
        let absent = Expr::Slot(self.groups.len() + self.aggregates);
        let mut bits = Vec::new();
        for (_, value) in values {
            let place = self.groups.iter().position(|group| group == value).ok_or_else(not_of_groups)?;
            bits.push((self.groups.len() - 1 - place) as i64);
        }
        let mut sum: Option<Expr> = None;
        for (at, bit) in bits.iter().rev().enumerate() {
            let call = |symbol: &str, left: Expr, right: i64| -> Result<Expr> {
                let call = crate::functions::resolve_operator(symbol, Some(SqlType::INT8), SqlType::INT8)?;
                let arguments = vec![left, Expr::Constant(Datum::Int(right))];
                Ok(Expr::Call { call: crate::plan::expression::Callee(call), arguments })
            };
            let shifted = call("/", absent.clone(), 1 << bit)?;
            let one = call("*", call("%", shifted, 2)?, 1 << at)?;
            sum = Some(match sum {
                None => one,
                Some(before) => {
                    let call = crate::functions::resolve_operator("+", Some(SqlType::INT8), SqlType::INT8)?;
                    Expr::Call { call: crate::plan::expression::Callee(call), arguments: vec![before, one] }
                }
            });
        }
        sum.ok_or_else(not_of_groups)
    }
}

/// Joins functions of rows to a SELECT: those that groups or window functions read to its tables, and others, if it has
/// some of those, to the rows that it gives. The order of the rows and DISTINCT ON come before functions that they do
/// not read, if there is an order and `keeps_sort` says so.
fn with_row_functions(
    binder: &mut Binder<'_>,
    mut parts: Parts,
    outputs: &mut Outputs,
    mut functions: Vec<RowsOf>,
    keeps_sort: bool,
) -> Result<Parts> {
    if functions.is_empty() {
        return Ok(parts);
    }
    // Window functions over what functions of rows make of groups.
    if parts.is_grouped && parts.windows.iter().flat_map(WindowCall::exprs).any(|expr| reads_any(expr, &functions)) {
        let after = row_functions::take_unread(&mut functions, parts.groups.iter());
        let mut cut = Cut::before(after, true);
        let mut windows = std::mem::take(&mut parts.windows);
        windows.iter_mut().flat_map(WindowCall::exprs_mut).for_each(|expr| cut.change(expr));
        parts.item = row_functions::joined(parts.item, functions);
        let distinct = std::mem::replace(&mut parts.distinct, Distinct::No);
        (parts, functions) = second(binder, parts, outputs, cut, Vec::new())?;
        (parts.windows, parts.distinct) = (windows, distinct);
    }
    let places = match &parts.distinct {
        Distinct::On(places) => &places[..],
        Distinct::No | Distinct::All => &[],
    };
    let mut sorted = outputs.sort.iter().map(|key| key.place).chain(places.iter().copied());
    let comes_first = keeps_sort
        && !outputs.sort.is_empty()
        && parts.distinct != Distinct::All
        && !sorted.any(|place| reads_any(&outputs.exprs[place], &functions));
    let is_on = matches!(parts.distinct, Distinct::On(_));
    if parts.is_grouped || !parts.windows.is_empty() || is_on && comes_first {
        let read = parts.groups.iter().chain(parts.windows.iter().flat_map(WindowCall::exprs));
        let after = row_functions::take_unread(&mut functions, read);
        if !after.is_empty() {
            let mut cut = Cut::before(after, false);
            parts.item = row_functions::joined(parts.item, functions);
            let mut distinct = std::mem::replace(&mut parts.distinct, Distinct::No);
            let mut sort = Vec::new();
            if comes_first {
                sort = std::mem::take(&mut outputs.sort);
                sort.iter_mut().for_each(|key| key.place = cut.place(&outputs.exprs[key.place]));
                parts.distinct = std::mem::replace(&mut distinct, Distinct::No);
                if let Distinct::On(places) = &mut parts.distinct {
                    places.iter_mut().for_each(|place| *place = cut.place(&outputs.exprs[*place]));
                }
            }
            (parts, functions) = second(binder, parts, outputs, cut, sort)?;
            parts.distinct = distinct;
        }
    }
    parts.item = row_functions::joined(parts.item, functions);
    Ok(parts)
}

/// The second SELECT of a cut, and the functions of rows that come to it. Its outputs are those of the first one.
fn second(
    binder: &mut Binder<'_>,
    first: Parts,
    outputs: &mut Outputs,
    mut cut: Cut,
    sort: Vec<SortKey>,
) -> Result<(Parts, Vec<RowsOf>)> {
    outputs.exprs.iter_mut().for_each(|expr| cut.change(expr));
    let column = |_: &Expr| OutputColumn { name: String::new(), sql_type: SqlType::UNKNOWN, origin: None };
    let columns = cut.values.iter().map(column).collect();
    let none = Tail { order: &[], locks: &[], with_ties: false };
    let values = Outputs { exprs: cut.values.clone(), columns, sort };
    let first = binder.finish_select(first, values, None, &none)?;
    let (item, functions, frame) = cut.second(first.query);
    binder.level().frame = frame;
    let parts = Parts {
        item: Some(item),
        conditions: Vec::new(),
        groups: Vec::new(),
        sets: None,
        aggregates: Vec::new(),
        having: None,
        windows: Vec::new(),
        distinct: Distinct::No,
        is_grouped: false,
        reads_all: false,
    };
    Ok((parts, functions))
}

fn place_windows(expr: &mut Expr, at: usize) {
    expr.replace(&mut |part| match part {
        Expr::Window(place) => Some(Expr::Slot(at + place)),
        _ => None,
    });
}

/// Whether it is the call in whose place the fields of a row stand.
fn is_row(call: &ast::Function) -> bool {
    matches!(&call.name.0[..], [name] if name.as_ident().is_some_and(|name| name.value == ROW))
}

fn name_of_type(written: &ast::DataType) -> String {
    crate::bind::types::catalogue_name(written).unwrap_or_else(|| "?column?".to_owned())
}

/// The name that an expression has of something else than a type; none of a literal, or of a cast of one.
fn own_name(written: &ast::Expr) -> Option<String> {
    match written {
        ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) => own_name(expr),
        ast::Expr::Case { else_result, .. } => own_name(else_result.as_deref()?),
        ast::Expr::TypedString(_) | ast::Expr::Interval(_) | ast::Expr::Value(_) => None,
        other => Some(name_of(other)).filter(|name| name != "?column?"),
    }
}

/// The name of an output that is given none.
fn name_of(written: &ast::Expr) -> String {
    match written {
        ast::Expr::Identifier(ident) => folded(ident),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(folded).unwrap_or_default(),
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => name_of(inner),
        ast::Expr::Function(function) => {
            function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
        }
        ast::Expr::Cast { expr, data_type, .. } => own_name(expr).unwrap_or_else(|| name_of_type(data_type)),
        ast::Expr::TypedString(typed) => name_of_type(&typed.data_type),
        ast::Expr::Interval(_) => "interval".to_owned(),
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".to_owned(),
        ast::Expr::Case { else_result, .. } => match else_result.as_deref().map(name_of) {
            Some(name) if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        ast::Expr::Exists { .. } => "exists".to_owned(),
        ast::Expr::Array(_) => "array".to_owned(),
        ast::Expr::Tuple(_) => "row".to_owned(),
        ast::Expr::Extract { .. } => "extract".to_owned(),
        ast::Expr::Substring { shorthand, .. } => if *shorthand { "substr" } else { "substring" }.to_owned(),
        ast::Expr::Position { .. } => "position".to_owned(),
        ast::Expr::Overlay { .. } => "overlay".to_owned(),
        ast::Expr::Ceil { .. } => "ceil".to_owned(),
        ast::Expr::Floor { .. } => "floor".to_owned(),
        ast::Expr::AtTimeZone { .. } => "timezone".to_owned(),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => "overlaps".to_owned(),
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => Some(folded(field)),
                _ => None,
            });
            field.unwrap_or_else(|| name_of(root))
        }
        ast::Expr::Subquery(query) => name_of_first(&query.body),
        _ => "?column?".to_owned(),
    }
}

/// The name of the first column of a query.
fn name_of_first(query: &ast::SetExpr) -> String {
    match query {
        ast::SetExpr::Select(select) => match select.projection.first() {
            Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
            Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
            _ => "?column?".to_owned(),
        },
        ast::SetExpr::Query(query) => name_of_first(&query.body),
        ast::SetExpr::SetOperation { left, .. } => name_of_first(left),
        ast::SetExpr::Values(_) => "column1".to_owned(),
        _ => "?column?".to_owned(),
    }
}

/// The windows of WINDOW, if each has a name of its own.
fn with_names_once(windows: Vec<(String, ast::WindowSpec)>) -> Result<Vec<(String, ast::WindowSpec)>> {
    let is_known = |at: usize| windows[..at].iter().any(|(name, _)| *name == windows[at].0);
    match (1..windows.len()).find(|&at| is_known(at)) {
        Some(at) => {
            let what = format!("window \"{}\" is already defined", windows[at].0);
            Err(SqlError::new(SqlState::WINDOWING_ERROR, what))
        }
        None => Ok(windows),
    }
}
