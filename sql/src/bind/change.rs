//! INSERT, UPDATE, DELETE.

use std::cmp::Ordering;
use std::sync::Arc;

use sqlparser::ast::{self, AssignmentTarget, OnInsert, SetExpr, Spanned};

use crate::bind::conflict::{conflict, refuse_number_to_come, relation_of, unique_keys};
use crate::bind::cursors::{current_of, row_of_cursor};
use crate::bind::from::Item;
use crate::bind::join_order::Needs;
use crate::bind::names::TableShape;
use crate::bind::query::{around, open_parameters, plain, select_of};
use crate::bind::rows::values_of_row;
use crate::bind::scope::{Level, Shown, columns_of};
use crate::bind::subselect::row_subquery;
use crate::bind::system_columns::is_system_column;
use crate::bind::updatable::{Verb, computed_column, leading_places, refuse_twice, table_to_write};
use crate::bind::{Binder, Bound, default_of_domain, folded, refuses_null, row_functions};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::known_words::OVERRIDING;
use crate::plan::change::{Conflict, ConflictKey, Delete, Insert, Overriding, Target, Update};
use crate::plan::expression::{DomainChecks, Expr, NotNull};
use crate::plan::query::{Body, OutputColumn, Query};
use crate::plan::source::{Access, Scan};
use crate::types::SqlType;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;

/// A change with what it gives of its rows.
#[derive(Debug)]
pub struct BoundChange<T> {
    /// The change.
    pub change: T,
    /// The columns of RETURNING; none if it gives nothing.
    pub columns: Option<Vec<OutputColumn>>,
}

impl Binder<'_> {
    /// The place of a column of a table that is written.
    pub(super) fn place_of(&self, shape: &TableShape, ident: &ast::Ident) -> Result<usize> {
        let name = folded(ident);
        let shown = shape.face.as_ref().and_then(|face| face.columns.iter().find(|column| *column.name == *name));
        let found = match (&shape.face, shown) {
            (Some(face), Some(column)) => {
                // ON CONFLICT is of the INSERT as well.
                let is_insert = self.levels.last().is_none_or(|level| level.place != "UPDATE");
                Some(column.place().ok_or_else(|| computed_column(face, &name, is_insert))?)
            }
            (Some(_), None) => None,
            (None, _) => shape.place(&name),
        };
        found.ok_or_else(|| {
            if self.levels.last().is_some_and(|level| level.place == "UPDATE") && is_system_column(&name) {
                let what = format!("cannot assign to system column \"{name}\"");
                return SqlError::unsupported(what, "It is made of the row.").at(self.position(ident.span));
            }
            let (_, table) = shape.shown_name();
            let what = format!("column \"{name}\" of relation \"{table}\" does not exist");
            let error = SqlError::new(SqlState::UNDEFINED_COLUMN, what).at(self.position(ident.span));
            let columns = columns_of(shape, 0);
            let names = columns.iter().filter(|column| column.shown == Shown::Always).map(|column| &*column.name);
            match crate::bind::scope::nearest(&name, names) {
                Some(near) => error.with_hint(format!("Perhaps you meant the column \"{near}\".")),
                None => error,
            }
        })
    }

    // --- INSERT -----------------------------------------------------------------------------------------------------

    /// Binds an INSERT.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn insert(&mut self, insert: &ast::Insert) -> Result<BoundChange<Insert>> {
        foreign::insert(insert)?;
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT takes the name of a table"));
        };
        let shape = table_to_write(self, name, Verb::of_insert(insert))?;
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let (overriding, columns) = columns_of_insert(&insert.columns);
        let mut places = self.insert_places(&shape, columns)?;
        let is_default = insert.source.is_none();
        let before = std::mem::take(&mut self.tables);
        let source = match &insert.source {
            Some(query) => {
                let is_named = !columns.is_empty();
                let source = self.insert_source(query, &shape, (&places, is_named), overriding)?;
                Some(match overriding {
                    Some(Overriding::System) => source,
                    Some(Overriding::User) => without_numbers(&shape, &mut places, source),
                    None => {
                        refuse_numbers(self, &shape, &places, &source)?;
                        source
                    }
                })
            }
            None => None,
        };
        let reads_target = self.tables.contains_key(&*shape.table);
        self.tables.extend(before);
        let width = source.as_ref().map_or(0, |source| source.visible);
        let places = if is_default { Vec::new() } else { places[..width].to_vec() };
        refuse_twice(&shape, &places)?;
        let defaults = defaults_beside(self, &shape, &places)?;
        let unique = unique_keys(self, &shape);
        self.levels.push(Level::default());
        let bound = self.insert_tail(insert, &shape, alias.as_deref(), &unique);
        self.levels.pop();
        let (conflict, returning, columns) = bound?;
        if let Some(Conflict { update: Some(update), .. }) = &conflict {
            refuse_number_to_come(update, &shape, (&places, source.as_ref()))?;
        }
        let target = target(&shape, 0);
        let is_overriding = overriding == Some(Overriding::System);
        let change =
            Insert { target, places, source, reads_target, defaults, unique, is_overriding, conflict, returning };
        Ok(BoundChange { change, columns })
    }

    /// The places of the columns that an INSERT names.
    pub(super) fn insert_places(&self, shape: &TableShape, columns: &[ast::ObjectName]) -> Result<Vec<usize>> {
        if columns.is_empty() {
            if let Some(face) = &shape.face {
                return Ok(leading_places(face).0);
            }
            return Ok((0..shape.columns.len()).filter(|&place| !shape.columns[place].is_hidden).collect());
        }
        let mut places = Vec::new();
        for name in columns {
            let Some(ident) = name.0.last().and_then(|part| part.as_ident()) else {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a column needs a name"));
            };
            let place = self.place_of(shape, ident)?;
            let before = columns[..places.len()].iter().filter_map(|name| name.0.last()?.as_ident());
            if before.map(folded).any(|before| before == folded(ident)) {
                let what = format!("column \"{}\" specified more than once", folded(ident));
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what).at(self.position(ident.span)));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// The default of a column, as the column's type.
    pub(super) fn default_of(&mut self, shape: &TableShape, place: usize) -> Result<Expr> {
        let column = &shape.columns[place];
        // A number of the table is given where the column is NULL.
        let text = column.default.as_deref().or_else(|| default_of_domain(column.sql_type));
        let Some(text) = text.filter(|_| column.identity.is_none()) else {
            let null = Bound { expr: Expr::Constant(Datum::Null), sql_type: SqlType::UNKNOWN };
            return if column.identity.is_none() { self.assigned(null, shape, place) } else { Ok(null.expr) };
        };
        let written = crate::statement::parse_expression(text)?;
        let levels = std::mem::take(&mut self.levels);
        self.levels.push(Level { place: "DEFAULT", ..Level::default() });
        let bound = self.expr(&written);
        self.levels = levels;
        self.assigned(bound?, shape, place)
    }

    /// What `SET column = DEFAULT` gives: NULL through a view, whose columns have no defaults.
    fn default_set(&mut self, shape: &TableShape, place: usize) -> Result<Expr> {
        match shape.face {
            Some(_) => Ok(Expr::Constant(Datum::Null)),
            None => self.default_of(shape, place),
        }
    }

    /// A value as one of a column.
    pub(super) fn assigned(&mut self, bound: Bound, shape: &TableShape, place: usize) -> Result<Expr> {
        let column = &shape.columns[place];
        let (from, to) = (bound.sql_type, column.sql_type);
        // The error tells how many columns a row has.
        let is_row = to.base.composite().is_some() && matches!(bound.expr, Expr::Record(..));
        self.coerce(bound, to, CastContext::Assignment).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE || is_row {
                return error;
            }
            let what = format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name,
                to.bare(),
                from.bare()
            );
            SqlError::new(SqlState::DATATYPE_MISMATCH, what)
                .with_hint("You will need to rewrite or cast the expression.")
        })
    }

    fn insert_source(
        &mut self,
        query: &ast::Query,
        shape: &TableShape,
        (places, is_named): (&[usize], bool),
        overriding: Option<Overriding>,
    ) -> Result<Query> {
        let face = shape.face.as_deref().filter(|_| !is_named);
        let computed = face.and_then(|face| Some((face, leading_places(face).1?)));
        let width = face.map_or(0, |face| face.columns.len());
        let is_overridden =
            |place: usize| overriding == Some(Overriding::User) && shape.columns[place].identity.is_some();
        let count = |given: usize| -> Result<()> {
            let what = match given.cmp(&places.len()) {
                Ordering::Greater if let Some((face, column)) = computed.filter(|_| given <= width) => {
                    return Err(computed_column(face, &column.name, true));
                }
                Ordering::Greater => "INSERT has more expressions than target columns",
                Ordering::Less if is_named => "INSERT has more target columns than expressions",
                _ => return Ok(()),
            };
            Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
        };
        if let (SetExpr::Values(values), None, None) = (&*query.body, &query.with, &query.order_by)
            && query.limit_clause.is_none()
            && query.fetch.is_none()
        {
            foreign::query(query)?;
            foreign::values(values)?;
            let width = values.rows.first().map_or(0, |row| row.len());
            let mut lists = Vec::with_capacity(values.rows.len());
            // One row alone is a select list, in which there can be functions of rows.
            let place = if values.rows.len() == 1 { "SELECT" } else { "VALUES" };
            self.levels.push(Level { place, ..Level::default() });
            for row in &values.rows {
                if row.len() != width {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
                }
                count(row.len())?;
                let mut list = Vec::with_capacity(row.len());
                for (&place, written) in places.iter().zip(row.iter()) {
                    refuse_given(shape, place, Some(written))?;
                    if is_default(written) {
                        list.push(self.default_of(shape, place)?);
                        continue;
                    }
                    let bound = self.expr(written)?;
                    let value = given(self, bound, shape, place);
                    let value = value.map_err(|error| error.at(self.position(written.span())))?;
                    list.push(if is_overridden(place) { Expr::Constant(Datum::Null) } else { value });
                }
                lists.push(list);
            }
            let level = self.levels.pop().unwrap_or_default();
            return Ok(match (level.row_functions.is_empty(), lists.pop()) {
                (false, Some(list)) => {
                    let needs = Needs { reads: &[], wanted: &[], reads_all: false };
                    let item = row_functions::joined(None, level.row_functions);
                    let source = self.in_order(item, Vec::new(), &needs)?.source;
                    select_of(source, level.frame, list)
                }
                (_, last) => {
                    lists.extend(last);
                    plain(Body::Values(lists), width)
                }
            });
        }
        parameters_as_columns(self, query, shape, places);
        let (mut bound, _) = self.inner_query(query)?;
        count(bound.columns.len())?;
        let given: Vec<(usize, usize)> = places.iter().copied().enumerate().take(bound.columns.len()).collect();
        // A literal has the type of its column, and not that of text. After this the outputs may be those of a query
        // around the one that is written.
        for &(at, place) in &given {
            refuse_given(shape, place, None)?;
            if let Body::Select(select) = &mut bound.query.body
                && is_literal(query, at)
                && matches!(select.output[at], Expr::Constant(Datum::Text(_)))
            {
                let expr = std::mem::replace(&mut select.output[at], Expr::Default);
                select.output[at] = self.assigned(Bound { expr, sql_type: SqlType::UNKNOWN }, shape, place)?;
                bound.columns[at].sql_type = shape.columns[place].sql_type;
            }
        }
        for (at, place) in given {
            let (from, to) = (bound.columns[at].sql_type, shape.columns[place].sql_type);
            if !is_overridden(place) && (from != to || shape.columns[place].identity.is_some()) {
                bound = self.assign_column(bound, at, (from, to), shape, place)?;
            }
        }
        Ok(bound.query)
    }

    fn assign_column(
        &mut self,
        bound: crate::bind::BoundQuery,
        at: usize,
        (from, to): (SqlType, SqlType),
        shape: &TableShape,
        place: usize,
    ) -> Result<crate::bind::BoundQuery> {
        let mut columns = bound.columns.clone();
        columns[at].sql_type = to;
        let mut wrapped = crate::bind::query::as_rows_of(bound, columns);
        if let Body::Select(select) = &mut wrapped.query.body {
            let expr = std::mem::replace(&mut select.output[at], Expr::Default);
            select.output[at] = given(self, Bound { expr, sql_type: from }, shape, place)?;
        }
        Ok(wrapped)
    }

    #[expect(clippy::type_complexity, reason = "the three parts of an INSERT that follow its rows")]
    fn insert_tail(
        &mut self,
        insert: &ast::Insert,
        shape: &Arc<TableShape>,
        alias: Option<&str>,
        unique: &[ConflictKey],
    ) -> Result<(Option<Conflict>, Option<Vec<Expr>>, Option<Vec<OutputColumn>>)> {
        let name: Arc<str> = alias.map_or_else(|| Arc::clone(shape.shown_name().1), Arc::from);
        let relation = relation_of(shape, name, 0, false);
        self.level().relations.push(relation);
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(on)) => {
                let width = shape.columns.len();
                self.level().relations.push(relation_of(shape, "excluded".into(), width, true));
                let conflict = conflict(self, on, shape, unique)?;
                self.level().relations.pop();
                Some(conflict)
            }
            Some(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "ON DUPLICATE KEY UPDATE is not PostgreSQL's")
                    .with_hint("Write ON CONFLICT (columns) DO UPDATE SET ..."));
            }
        };
        match &insert.returning {
            Some(items) => {
                let (exprs, columns) = self.values_of(items, "RETURNING")?;
                Ok((conflict, Some(exprs), Some(columns)))
            }
            None => Ok((conflict, None, None)),
        }
    }

    /// `SET a = 1, (b, c) = (2, 3)`.
    pub(super) fn assignments(
        &mut self,
        written: &[ast::Assignment],
        shape: &TableShape,
    ) -> Result<Vec<(usize, Expr)>> {
        let mut sets: Vec<(usize, Expr)> = Vec::new();
        for assignment in written {
            // What comes after a point would be a part of a column of a composite type.
            let place = |binder: &Self, name: &ast::ObjectName| match name.0.first().and_then(|part| part.as_ident()) {
                Some(ident) => {
                    let place = binder.place_of(shape, ident)?;
                    if name.0.len() > 1 {
                        let what = "SET of a part of a value is not supported";
                        return Err(SqlError::unsupported(what, "Set the whole value: SET a = ROW(...)."));
                    }
                    Ok(place)
                }
                None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a column needs a name")),
            };
            let mut add = |place: usize, value: Expr| -> Result<()> {
                if sets.iter().any(|(set, _)| *set == place) {
                    let what = format!("multiple assignments to same column \"{}\"", shape.columns[place].name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
                }
                sets.push((place, value));
                Ok(())
            };
            match (&assignment.target, &assignment.value) {
                (AssignmentTarget::ColumnName(name), value) => {
                    let place = place(self, name)?;
                    refuse_generated(shape, place, value)?;
                    let value = if is_default(value) {
                        self.default_set(shape, place)?
                    } else {
                        let bound = self.expr(value)?;
                        self.assigned(bound, shape, place)?
                    };
                    add(place, value)?;
                }
                (AssignmentTarget::Tuple(names), value) => {
                    let places = names.iter().map(|name| place(self, name)).collect::<Result<Vec<_>>>()?;
                    for (at, &place) in places.iter().enumerate() {
                        let of_place = match value {
                            ast::Expr::Tuple(values) => values.get(at).unwrap_or(value),
                            _ => value,
                        };
                        refuse_generated(shape, place, of_place)?;
                    }
                    let values = row_assigned(self, value, shape, &places)?;
                    for (place, value) in places.into_iter().zip(values) {
                        add(place, value)?;
                    }
                }
            }
        }
        Ok(sets)
    }

    // --- UPDATE and DELETE ------------------------------------------------------------------------------------------

    /// Binds an UPDATE.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn update(&mut self, update: &ast::Update) -> Result<BoundChange<Update>> {
        foreign::update(update)?;
        let ast::TableFactor::Table { name, alias, .. } = &update.table.relation else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "UPDATE takes the name of a table"));
        };
        let shape = table_to_write(self, name, Verb::Update)?;
        self.levels.push(Level { place: "UPDATE", ..Level::default() });
        let bound = self.bind_update(update, &shape, alias.as_ref());
        self.levels.pop();
        bound
    }

    fn bind_update(
        &mut self,
        update: &ast::Update,
        shape: &Arc<TableShape>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<BoundChange<Update>> {
        let item = self.table(Arc::clone(shape), None, alias, None)?;
        let from = match &update.from {
            None => None,
            Some(ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from)) => {
                self.from(from)?
            }
        };
        let sets = self.assignments(&update.assignments, shape)?;
        let mut reads = Vec::new();
        sets.iter().for_each(|(_, value)| value.add_slots(&mut reads));
        let checks = shape.face.as_ref().is_some_and(|face| !face.checks.is_empty());
        if checks || update.returning.is_some() && shape.columns.iter().any(|column| column.is_generated) {
            // They are computed of all others; and what is refused is shown.
            reads.extend(0..shape.columns.len());
        }
        let (source, frame, returning, columns) =
            self.changed_rows(shape, item, from, update.selection.as_ref(), update.returning.as_deref(), reads)?;
        let is_set = |place: &usize| sets.iter().any(|(set, _)| set == place);
        let mut unique = unique_keys(self, shape);
        // A generated column may change with those that are set.
        unique.retain(|key| key.places.iter().any(|place| is_set(place) || shape.columns[*place].is_generated));
        let change = Update { target: target(shape, 0), source, frame, sets, unique, returning };
        Ok(BoundChange { change, columns })
    }

    /// Binds a DELETE.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn delete(&mut self, delete: &ast::Delete) -> Result<BoundChange<Delete>> {
        foreign::delete(delete)?;
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [ast::TableWithJoins { relation: ast::TableFactor::Table { name, alias, .. }, joins }] = &from[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DELETE takes the name of a table"));
        };
        if !joins.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DELETE takes the name of a table")
                .with_hint("Name other tables after USING."));
        }
        let shape = table_to_write(self, name, Verb::Delete)?;
        self.levels.push(Level { place: "DELETE", ..Level::default() });
        let bound = self.bind_delete(delete, &shape, alias.as_ref());
        self.levels.pop();
        bound
    }

    fn bind_delete(
        &mut self,
        delete: &ast::Delete,
        shape: &Arc<TableShape>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<BoundChange<Delete>> {
        let item = self.table(Arc::clone(shape), None, alias, None)?;
        let from = match &delete.using {
            None => None,
            Some(using) => self.from(using)?,
        };
        let (source, frame, returning, columns) =
            self.changed_rows(shape, item, from, delete.selection.as_ref(), delete.returning.as_deref(), Vec::new())?;
        Ok(BoundChange { change: Delete { target: target(shape, 0), source, frame, returning }, columns })
    }

    /// The rows of an UPDATE or a DELETE, and what RETURNING gives of them.
    #[expect(clippy::type_complexity, reason = "what UPDATE and DELETE have in common")]
    fn changed_rows(
        &mut self,
        shape: &TableShape,
        item: Item,
        from: Option<Item>,
        selection: Option<&ast::Expr>,
        returning: Option<&[ast::SelectItem]>,
        mut reads: Vec<usize>,
    ) -> Result<(crate::plan::source::Source, usize, Option<Vec<Expr>>, Option<Vec<OutputColumn>>)> {
        self.level().place = "WHERE";
        let shown = shape.face.iter().flat_map(|face| &face.conditions);
        let mut conditions: Vec<Expr> = shown.map(|check| check.condition.clone()).collect();
        if let Some(cursor) = selection.and_then(current_of) {
            conditions.extend(row_of_cursor(shape, cursor)?);
        } else if let Some(condition) = selection {
            let bound = self.expr(condition)?;
            conditions.extend(self.condition(bound, "WHERE")?.into_conjuncts());
        }
        let (returning, columns) = match returning {
            Some(items) => {
                let (exprs, columns) = self.values_of(items, "RETURNING")?;
                (Some(exprs), Some(columns))
            }
            None => (None, None),
        };
        let item = match from {
            None => item,
            Some(from) => Item::Join {
                kind: crate::plan::source::JoinKind::Inner,
                left: Box::new(item),
                right: Box::new(from),
                on: Vec::new(),
            },
        };
        conditions.iter().chain(returning.iter().flatten()).for_each(|expr| expr.add_slots(&mut reads));
        reads.extend(shape.primary.columns.iter().filter_map(|column| column.place));
        crate::bind::select::add_item_reads(&item, &mut reads);
        let needs = Needs { reads: &reads, wanted: &[], reads_all: false };
        let ordered = self.in_order(Some(item), conditions, &needs)?;
        let frame = self.level().frame;
        Ok((ordered.source, frame, returning, columns))
    }
}

/// The defaults of the columns that an INSERT does not give.
pub(super) fn defaults_beside(
    binder: &mut Binder<'_>,
    shape: &TableShape,
    places: &[usize],
) -> Result<Vec<(usize, Expr)>> {
    let mut defaults = Vec::new();
    for (place, column) in shape.columns.iter().enumerate() {
        let of_domain = || default_of_domain(column.sql_type).is_some() || refuses_null(column.sql_type);
        if !places.contains(&place) && column.identity.is_none() && (column.default.is_some() || of_domain()) {
            defaults.push((place, binder.default_of(shape, place)?));
        }
    }
    Ok(defaults)
}

/// Fails if a value is given for a generated column.
pub(super) fn refuse_given(shape: &TableShape, place: usize, written: Option<&ast::Expr>) -> Result<()> {
    let column = &shape.columns[place];
    if !column.is_generated || written.is_some_and(is_default) {
        return Ok(());
    }
    let what = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
    Err(generated_column(what, &column.name))
}

/// A value that an INSERT gives for a column. NULL is refused for one whose numbers are those of the table: rows would
/// have the next number then.
pub(super) fn given(binder: &mut Binder<'_>, bound: Bound, shape: &TableShape, place: usize) -> Result<Expr> {
    let value = binder.assigned(bound, shape, place)?;
    let column = &shape.columns[place];
    if column.identity.is_none() {
        return Ok(value);
    }
    let not_null = NotNull::Column { table: Arc::clone(&shape.name), column: Arc::clone(&column.name) };
    let checks = DomainChecks { not_null: Some(not_null), checks: Vec::new() };
    Ok(Expr::Domain { value: Box::new(value), checks: Arc::new(checks) })
}

/// Fails if a value is given for an identity column that always has its own numbers.
fn refuse_numbers(binder: &mut Binder<'_>, shape: &TableShape, places: &[usize], source: &Query) -> Result<()> {
    for (at, &place) in places.iter().enumerate().take(source.visible) {
        let column = &shape.columns[place];
        if column.identity != Some(true) && column.generates != Some(true) {
            continue;
        }
        // DEFAULT of a number of the table is NULL, and other values refuse that.
        let default = binder.default_of(shape, place)?;
        let is_default = |row: &Vec<Expr>| row[at] == default;
        if !matches!(&source.body, Body::Values(rows) if rows.iter().all(is_default)) {
            let what = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            let name = &column.name;
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, what)
                .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
    }
    Ok(())
}

/// What an INSERT says of OVERRIDING, which stands before its columns, and these.
pub(super) fn columns_of_insert(columns: &[ast::ObjectName]) -> (Option<Overriding>, &[ast::ObjectName]) {
    let Some((first, others)) = columns.split_first() else { return (None, columns) };
    let name = first.0.first().and_then(|part| part.as_ident()).map_or("", |ident| &ident.value);
    match name.strip_prefix(OVERRIDING) {
        Some("SYSTEM") => (Some(Overriding::System), others),
        Some(_) => (Some(Overriding::User), others),
        None => (None, columns),
    }
}

/// The rows of an INSERT without the values of identity columns, and without the places of these.
fn without_numbers(shape: &TableShape, places: &mut Vec<usize>, source: Query) -> Query {
    let width = source.visible;
    let kept: Vec<usize> = (0..width).filter(|&at| shape.columns[places[at]].identity.is_none()).collect();
    if kept.len() == width {
        return source;
    }
    *places = kept.iter().map(|&at| places[at]).collect();
    around(source, width, kept.into_iter().map(Expr::Slot).collect(), Vec::new()).query
}

/// Gives parameters that are outputs of an INSERT's query the types of their columns, unless they have one.
fn parameters_as_columns(binder: &mut Binder<'_>, query: &ast::Query, shape: &TableShape, places: &[usize]) {
    for (at, number) in open_parameters(binder, &query.body) {
        if let Some(&place) = places.get(at) {
            binder.parameters.take_type(number, shape.columns[place].sql_type.without_domain());
        }
    }
}

/// Fails if a value other than DEFAULT is given to a column that is computed.
fn refuse_generated(shape: &TableShape, place: usize, value: &ast::Expr) -> Result<()> {
    let column = &shape.columns[place];
    let is_numbered = column.identity == Some(true) || column.generates == Some(true);
    if !(column.is_generated || is_numbered) || is_default(value) {
        return Ok(());
    }
    let what = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    Err(match is_numbered {
        true => SqlError::new(SqlState::GENERATED_ALWAYS, what)
            .with_detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name)),
        false => generated_column(what, &column.name),
    })
}

fn generated_column(what: String, name: &str) -> SqlError {
    SqlError::new(SqlState::GENERATED_ALWAYS, what).with_detail(format!("Column \"{name}\" is a generated column."))
}

/// Whether a query gives a literal text, whose type nothing says, at a place.
fn is_literal(query: &ast::Query, at: usize) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let written = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(written) | ast::SelectItem::ExprWithAlias { expr: written, .. } => {
            Some(matches!(written, ast::Expr::Value(value)
                if matches!(value.value, ast::Value::SingleQuotedString(_))))
        }
        _ => None,
    };
    let known: Option<Vec<bool>> = select.projection.iter().take(at + 1).map(written).collect();
    known.is_some_and(|known| known.get(at) == Some(&true))
}

/// DEFAULT, which is parsed as a name.
pub(super) fn is_default(written: &ast::Expr) -> bool {
    matches!(written, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A table that is written, whose slots begin at one.
pub(super) fn target(shape: &Arc<TableShape>, base: usize) -> Target {
    let columns: Arc<[Arc<str>]> = shape.columns.iter().map(|column| Arc::clone(&column.name)).collect();
    let scan = Scan {
        table: Arc::clone(&shape.table),
        alias: Arc::clone(&shape.name),
        base,
        width: shape.columns.len(),
        reads: (0..shape.columns.len()).collect(),
        types: Arc::clone(&shape.types),
        key: shape.primary.columns.iter().filter_map(|column| column.place).collect(),
        not_null: Vec::new(),
        access: Access { columns: shape.primary.columns.clone(), ..Access::default() },
        filter: None,
        lookup: None,
        is_reversed: false,
        sample: None,
    };
    let types = shape.columns.iter().map(|column| column.sql_type).collect();
    let has_unique_later = shape.indexes.iter().any(|key| key.is_unique_later);
    let checks = shape.face.as_ref().map_or_else(Vec::new, |face| face.checks.clone());
    Target { table: Arc::clone(&shape.table), scan: Arc::new(scan), columns, types, has_unique_later, checks }
}

/// The values that `SET (a, b) = ...` gives to the columns at these places.
fn row_assigned(
    binder: &mut Binder<'_>,
    written: &ast::Expr,
    shape: &TableShape,
    places: &[usize],
) -> Result<Vec<Expr>> {
    let unequal = || SqlError::new(SqlState::SYNTAX_ERROR, "number of columns does not match number of values");
    if let Some(values) = values_of_row(written) {
        if values.len() != places.len() {
            return Err(unequal());
        }
        let mut assigned = Vec::new();
        for (&place, value) in places.iter().zip(values) {
            assigned.push(if is_default(value) {
                binder.default_set(shape, place)?
            } else {
                let bound = binder.expr(value)?;
                binder.assigned(bound, shape, place)?
            });
        }
        return Ok(assigned);
    }
    let ast::Expr::Subquery(query) = written else {
        let what = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    };
    let fields = row_subquery(binder, query)?;
    if fields.len() != places.len() {
        return Err(unequal());
    }
    let assigned = |(&place, (sql_type, expr))| binder.assigned(Bound { expr, sql_type }, shape, place);
    places.iter().zip(fields).map(assigned).collect()
}
