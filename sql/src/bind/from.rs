//! FROM: its tables, and how they are joined as it is written.

use std::ops::Range;
use std::sync::Arc;

use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};

use crate::bind::names::{Named, NamedView, Names, TableShape};
use crate::bind::scope::{Level, Relation, ScopeColumn, Shown, columns_of, nearest};
use crate::bind::system_columns::SystemColumns;
use crate::bind::with::{reference, refuse_reference};
use crate::bind::{Binder, Bound, BoundQuery, folded, from_functions, object_name, schemas, shown_name};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::identity::rights::Right;
use crate::plan::expression::{Comparison, Expr};
use crate::plan::source::{JoinKind, Sample, Source};
use crate::types::BaseType;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;

/// A part of a FROM, before the order of its joins is known.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A table.
    Table {
        /// The table.
        shape: Arc<TableShape>,
        /// The name by which the statement knows it.
        alias: Arc<str>,
        /// The slot of its first column.
        base: usize,
        /// What part is drawn at random.
        sample: Option<Sample>,
    },
    /// Something else that has rows, with its slots and those that it reads.
    Other {
        /// What.
        source: Source,
        /// Where its columns stand.
        slots: Range<usize>,
        /// The slots of others that it depends on.
        needs: Vec<usize>,
    },
    /// Two parts.
    Join {
        /// How.
        kind: JoinKind,
        /// The first.
        left: Box<Item>,
        /// The second.
        right: Box<Item>,
        /// What pairs must keep.
        on: Vec<Expr>,
    },
}

impl Item {
    /// Adds the slots of others that its parts depend on.
    pub(super) fn add_needs(&self, slots: &mut Vec<usize>) {
        match self {
            Item::Table { .. } => {}
            Item::Other { needs, .. } => slots.extend(needs),
            Item::Join { left, right, .. } => {
                left.add_needs(slots);
                right.add_needs(slots);
            }
        }
    }

    /// Adds the slots that are read of its tables, and all of other sources.
    pub(super) fn add_read_slots(&self, reads: &[usize], slots: &mut Vec<usize>) {
        match self {
            Item::Table { shape, base, .. } => {
                slots.extend((*base..*base + shape.columns.len()).filter(|slot| reads.contains(slot)));
            }
            Item::Other { slots: own, .. } => slots.extend(own.clone()),
            Item::Join { left, right, .. } => {
                left.add_read_slots(reads, slots);
                right.add_read_slots(reads, slots);
            }
        }
    }

    /// Adds the slots of its tables.
    pub(super) fn add_slots(&self, slots: &mut Vec<usize>) {
        match self {
            Item::Table { shape, base, .. } => slots.extend(*base..*base + shape.columns.len()),
            Item::Other { slots: own, .. } => slots.extend(own.clone()),
            Item::Join { left, right, .. } => {
                left.add_slots(slots);
                right.add_slots(slots);
            }
        }
    }
}

/// Notes that a view is being bound; fails if it is already.
pub(super) fn enter_view(views: &mut Vec<String>, view: &NamedView) -> Result<()> {
    let whole = format!("{}.{}", view.schema, view.name);
    if views.contains(&whole) {
        let what = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, what));
    }
    views.push(whole);
    Ok(())
}

/// Looks for names in the schemas of a view from now on. Returns those before, if it has some of its own.
pub(super) fn path_of_view(names: &dyn Names, view: &NamedView) -> Option<Vec<String>> {
    (!view.search_path.is_empty()).then(|| names.swap_path(view.search_path.clone()))
}

fn missing_table(name: &str, names: &[String]) -> SqlError {
    let error = SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"));
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => error.with_hint(format!("Perhaps you meant the table \"{near}\".")),
        None => error,
    }
}

impl Binder<'_> {
    /// Binds a FROM; none if there is nothing in it.
    pub(super) fn from(&mut self, from: &[ast::TableWithJoins]) -> Result<Option<Item>> {
        let mut all: Option<Item> = None;
        for part in from {
            let item = self.with_joins(part)?;
            all = Some(match all {
                None => item,
                Some(before) => {
                    let (left, right) = (Box::new(before), Box::new(item));
                    Item::Join { kind: JoinKind::Inner, left, right, on: Vec::new() }
                }
            });
        }
        Ok(all)
    }

    fn with_joins(&mut self, part: &ast::TableWithJoins) -> Result<Item> {
        let (first, references) = (self.level().relations.len(), self.references.len());
        let mut item = self.factor(&part.relation)?;
        for join in &part.joins {
            let middle = self.level().relations.len();
            foreign::join(join)?;
            let (kind, is_swapped, constraint) = kind_of(&join.join_operator)?;
            let before_right = self.references.len();
            let right = self.factor(&join.relation)?;
            if kind != JoinKind::Inner {
                let is_left_kept = kind == JoinKind::Left && !is_swapped;
                refuse_reference(self, if is_left_kept { before_right } else { references }, "an outer join")?;
            }
            let on = self.constraint(constraint, first, middle, kind, is_swapped)?;
            let (left, right) = if is_swapped { (right, item) } else { (item, right) };
            item = Item::Join { kind, left: Box::new(left), right: Box::new(right), on };
        }
        Ok(item)
    }

    /// What ON, USING or NATURAL says; the relations of the two sides begin at `first` and `middle`.
    fn constraint(
        &mut self,
        constraint: &JoinConstraint,
        first: usize,
        middle: usize,
        kind: JoinKind,
        is_swapped: bool,
    ) -> Result<Vec<Expr>> {
        let names = match constraint {
            JoinConstraint::None => return Ok(Vec::new()),
            JoinConstraint::On(condition) => {
                let place = std::mem::replace(&mut self.level().place, "JOIN/ON");
                let hidden = self.hide_before(first);
                let bound = self.expr(condition);
                self.show(hidden);
                let condition = bound.and_then(|bound| self.condition(bound, "JOIN/ON"));
                self.level().place = place;
                return Ok(condition?.into_conjuncts());
            }
            JoinConstraint::Using(names) => {
                names.iter().map(|name| object_name(name).map(|(_, name)| name)).collect::<Result<Vec<_>>>()?
            }
            JoinConstraint::Natural => self.common_names(first, middle),
        };
        let mut on = Vec::new();
        let mut merged = Vec::new();
        for name in names {
            let left = self.using_column(&name, first..middle, "left")?;
            let end = self.level().relations.len();
            let right = self.using_column(&name, middle..end, "right")?;
            let (a, b) = (left.clone(), right.clone());
            let (values, sql_type) = self.in_common(vec![left, right], "JOIN/USING")?;
            on.push(self.compare(Comparison::Equal, a, b)?.expr);
            let [a, b] = <[Expr; 2]>::try_from(values).unwrap_or([const { Expr::Constant(Datum::Null) }; 2]);
            let expr = match kind {
                JoinKind::Full => Expr::Coalesce(vec![a, b]),
                _ if is_swapped => b,
                _ => a,
            };
            let name: Arc<str> = name.into();
            merged.push(ScopeColumn {
                name,
                sql_type,
                slot: 0,
                origin: None,
                shown: Shown::Always,
                merged: Some(expr),
            });
        }
        if !merged.is_empty() {
            let relation = Relation {
                name: "".into(),
                schema: None,
                columns: merged,
                is_visible: true,
                needs_name: false,
                is_one_value: false,
                system: None,
            };
            self.level().relations.insert(first, relation);
        }
        Ok(on)
    }

    /// Hides the relations before one, which ON of a later one cannot see.
    fn hide_before(&mut self, first: usize) -> Vec<usize> {
        let relations = &mut self.level().relations;
        let visible: Vec<usize> = (0..first).filter(|&place| relations[place].is_visible).collect();
        visible.iter().for_each(|&place| relations[place].is_visible = false);
        visible
    }

    fn show(&mut self, places: Vec<usize>) {
        for place in places {
            self.level().relations[place].is_visible = true;
        }
    }

    fn common_names(&mut self, first: usize, middle: usize) -> Vec<String> {
        let relations = &self.level().relations;
        let names = |range: Range<usize>| -> Vec<&str> {
            let columns = relations[range].iter().flat_map(|relation| &relation.columns);
            columns.filter(|column| column.shown == Shown::Always).map(|column| &*column.name).collect()
        };
        let right = names(middle..relations.len());
        names(first..middle).into_iter().filter(|name| right.contains(name)).map(str::to_owned).collect()
    }

    fn using_column(&mut self, name: &str, range: Range<usize>, side: &str) -> Result<Bound> {
        let relations = &mut self.level().relations[range];
        let columns = relations.iter_mut().flat_map(|relation| &mut relation.columns);
        let mut found: Vec<&mut ScopeColumn> =
            columns.filter(|column| &*column.name == name && column.shown == Shown::Always).collect();
        match &mut found[..] {
            [column] => {
                column.shown = Shown::WithTable;
                let expr = column.merged.clone().unwrap_or(Expr::Slot(column.slot));
                Ok(Bound { expr, sql_type: column.sql_type })
            }
            [] => {
                let what = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what))
            }
            _ => {
                let what = format!("common column name \"{name}\" appears more than once in {side} table");
                Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, what))
            }
        }
    }

    // --- tables -----------------------------------------------------------------------------------------------------

    fn factor(&mut self, factor: &TableFactor) -> Result<Item> {
        self.deeper(|binder| binder.bind_factor(factor))
    }

    fn bind_factor(&mut self, factor: &TableFactor) -> Result<Item> {
        foreign::factor(factor)?;
        match factor {
            TableFactor::Table { name, alias, args: None, sample, with_ordinality: false, .. } => {
                let sample = sample.as_ref().map(|sample| self.bind_sample(sample)).transpose()?;
                self.named_table(name, alias.as_ref(), sample)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                from_functions::bind(self, name, &args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                from_functions::bind(self, name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                from_functions::unnest(self, array_exprs, *with_ordinality, alias.as_ref())
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let (query, arguments) = match lateral {
                    true => self.inner_query(subquery)?,
                    false => {
                        // The tables beside it cannot be seen.
                        let hidden = self.hide_before(self.levels.last().map_or(0, |level| level.relations.len()));
                        let query = self.inner_query(subquery);
                        self.show(hidden);
                        query?
                    }
                };
                let name = alias.as_ref().map(|alias| folded(&alias.name)).unwrap_or_default();
                self.subselect(query, arguments, &name, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.with_joins(table_with_joins),
            other => {
                Err(SqlError::unsupported(format!("{other} in FROM is not supported"), "docs/sql.md has what is."))
            }
        }
    }

    fn bind_sample(&mut self, sample: &ast::TableSampleKind) -> Result<Sample> {
        let (ast::TableSampleKind::BeforeTableAlias(sample) | ast::TableSampleKind::AfterTableAlias(sample)) = sample;
        let Some(quantity) = &sample.quantity else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "TABLESAMPLE needs a percentage"));
        };
        let percent = self.expr(&quantity.value)?;
        let percent = self.coerce(percent, BaseType::Float8.into(), CastContext::Implicit)?;
        let seed = match &sample.seed {
            Some(seed) => {
                let seed = self.expr(&ast::Expr::Value(seed.value.clone()))?;
                Some(self.coerce(seed, BaseType::Float8.into(), CastContext::Implicit)?)
            }
            None => None,
        };
        Ok(Sample { percent, seed })
    }

    fn named_table(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        sample: Option<Sample>,
    ) -> Result<Item> {
        let position = name.0.first().and_then(ast::ObjectNamePart::as_ident).and_then(|part| self.position(part.span));
        let (schema, table) = object_name(name)?;
        if schema.is_none()
            && let Some(place) = self.with.iter().rposition(|with| with.name == table)
        {
            return self.with_table(place, alias).map_err(|error| error.at(position));
        }
        let named = self.names.relation(schema.as_deref(), &table)?;
        if let (Some(named), true) = (&named, self.views.is_empty()) {
            // What a view reads is read with the rights of all.
            self.names.require(Right::Select, named)?;
            if let Some((schema, table)) = named.place() {
                schemas::add_relation(self, name, schema, table);
            }
        }
        match named {
            Some(Named::Table(shape)) if shape.materialized == Some(false) => {
                let what = format!("materialized view \"{table}\" has not been populated");
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                    .with_hint("Use the REFRESH MATERIALIZED VIEW command."))
            }
            Some(Named::Table(shape)) => self.table(shape, schema.as_deref(), alias, sample),
            Some(Named::View(view)) => self.bind_view(&view, alias),
            Some(Named::Catalogue { name, number, columns }) => {
                let base = self.level().frame;
                let slots = base..base + columns.len();
                let columns = columns.iter().enumerate().map(|(place, (name, sql_type))| ScopeColumn {
                    name: Arc::clone(name),
                    sql_type: *sql_type,
                    slot: base + place,
                    origin: Some((number, place as i16 + 1)),
                    shown: Shown::Always,
                    merged: None,
                });
                let schema = schema.as_deref().unwrap_or("pg_catalog");
                self.add_relation(&table, Some(schema), columns.collect(), alias)?;
                let source = Source::Catalogue { table: name, slots: slots.clone(), filter: None };
                Ok(Item::Other { source, slots, needs: Vec::new() })
            }
            None => Err(missing_table(&shown_name(name), &self.names.all()).at(position)),
        }
    }

    /// A table to read.
    pub(super) fn table(
        &mut self,
        shape: Arc<TableShape>,
        schema: Option<&str>,
        alias: Option<&ast::TableAlias>,
        sample: Option<Sample>,
    ) -> Result<Item> {
        let base = self.level().frame;
        let (own_schema, name) = shape.shown_name();
        let schema = schema.unwrap_or(own_schema);
        let name = self.add_relation(name, Some(schema), columns_of(&shape, base), alias)?;
        if let Some(relation) = self.level().relations.last_mut() {
            relation.system = SystemColumns::of(&shape, base);
        }
        self.level().frame = base + shape.columns.len();
        self.tables.insert(shape.table.to_string(), Arc::clone(&shape));
        Ok(Item::Table { shape, alias: name, base, sample })
    }

    /// Adds a relation whose columns stand in the next slots. Returns its name.
    pub(super) fn add_relation(
        &mut self,
        name: &str,
        schema: Option<&str>,
        mut columns: Vec<ScopeColumn>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Arc<str>> {
        let mut schema: Option<Arc<str>> = schema.map(Arc::from);
        let mut name: Arc<str> = name.into();
        if let Some(alias) = alias {
            name = folded(&alias.name).into();
            schema = None;
            let visible = columns.iter_mut().filter(|column| column.shown == Shown::Always);
            let mut given = alias.columns.iter();
            for (column, alias) in visible.zip(&mut given) {
                column.name = folded(&alias.name).into();
            }
            if given.next().is_some() {
                let (has, wants) = (columns.len(), alias.columns.len());
                let what = format!("table \"{name}\" has {has} columns available but {wants} columns specified");
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what));
            }
        }
        let width = columns.len();
        let level = self.level();
        if !name.is_empty() && level.relations.iter().any(|relation| relation.name == name) {
            let what = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, what));
        }
        level.frame += width;
        let relation = Relation {
            name: Arc::clone(&name),
            schema,
            columns,
            is_visible: true,
            needs_name: false,
            is_one_value: false,
            system: None,
        };
        level.relations.push(relation);
        Ok(name)
    }

    fn with_table(&mut self, place: usize, alias: Option<&ast::TableAlias>) -> Result<Item> {
        let with = &reference(self, place)?;
        let Some(columns) = &with.columns else {
            let what = format!("WITH query \"{}\" does not have a RETURNING clause", with.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        };
        let base = self.level().frame;
        let slots = base..base + columns.len();
        let columns = columns.iter().enumerate().map(|(place, column)| ScopeColumn {
            name: column.name.as_str().into(),
            sql_type: column.sql_type,
            slot: base + place,
            origin: None,
            shown: Shown::Always,
            merged: None,
        });
        self.add_relation(&with.name, None, columns.collect(), alias)?;
        let source = Source::With { number: with.number, slots: slots.clone() };
        Ok(Item::Other { source, slots, needs: Vec::new() })
    }

    fn bind_view(&mut self, view: &NamedView, alias: Option<&ast::TableAlias>) -> Result<Item> {
        let query = crate::statement::parse_query(&view.query)?;
        enter_view(&mut self.views, view)?;
        // A view sees nothing of the statement that names it.
        let alone = Level { reads_all: self.level().reads_all, ..Level::default() };
        let (levels, with) = (std::mem::replace(&mut self.levels, vec![alone]), std::mem::take(&mut self.with));
        let path = path_of_view(self.names, view);
        let bound = self.inner_query(&query);
        path.map(|path| self.names.swap_path(path));
        (self.levels, self.with) = (levels, with);
        self.views.pop();
        let (mut bound, _) = bound?;
        for (column, name) in bound.columns.iter_mut().zip(&view.columns) {
            column.name.clone_from(name);
        }
        self.subselect(bound, Vec::new(), &view.name, alias, Some(&view.schema))
    }

    pub(super) fn subselect(
        &mut self,
        bound: BoundQuery,
        arguments: Vec<Bound>,
        name: &str,
        alias: Option<&ast::TableAlias>,
        schema: Option<&str>,
    ) -> Result<Item> {
        let base = self.level().frame;
        let slots = base..base + bound.columns.len();
        let columns = bound.columns.iter().enumerate().map(|(place, column)| ScopeColumn {
            name: column.name.as_str().into(),
            sql_type: column.sql_type,
            slot: base + place,
            origin: column.origin,
            shown: Shown::Always,
            merged: None,
        });
        self.add_relation(name, schema, columns.collect(), alias)?;
        let arguments: Vec<Expr> = arguments.into_iter().map(|argument| argument.expr).collect();
        let mut needs = Vec::new();
        arguments.iter().for_each(|argument| argument.add_slots(&mut needs));
        let (query, arguments) = (Arc::new(bound.query), Some(arguments));
        let source = Source::Subselect { query, arguments, slots: slots.clone() };
        Ok(Item::Other { source, slots, needs })
    }
}

/// How a join is meant, whether its sides change places, and its condition.
fn kind_of(operator: &JoinOperator) -> Result<(JoinKind, bool, &JoinConstraint)> {
    Ok(match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) | JoinOperator::CrossJoin(constraint) => {
            (JoinKind::Inner, false, constraint)
        }
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinKind::Left, false, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (JoinKind::Left, true, constraint),
        JoinOperator::FullOuter(constraint) => (JoinKind::Full, false, constraint),
        other => {
            let what = format!("this kind of join is not supported: {other:?}");
            return Err(SqlError::unsupported(what, "There are inner, left, right, full and cross joins."));
        }
    })
}
