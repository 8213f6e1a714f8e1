//! Tables and views that a statement writes. Rows are written through a view if they are those of one table, unchanged:
//! then the statement is one of that table, whose columns have other names.

use std::sync::Arc;

use sqlparser::ast::{self, SetExpr, TableFactor};

use crate::bind::from::{enter_view, path_of_view};
use crate::bind::names::{CheckOption, Face, FaceColumn, Named, NamedView, TableShape};
use crate::bind::scope::Level;
use crate::bind::{Binder, folded, object_name, shown_name};
use crate::error::{Result, SqlError, SqlState};
use crate::identity::rights::Right;
use crate::plan::change::Check;
use crate::plan::expression::Expr;

/// Places of values that are computed once, of each view within views: a statement has fewer around the place of a
/// column.
const KNOWN_OF_VIEW: usize = 64;

/// What a statement does with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It adds rows, and may look at those that are there, and change them.
    Insert {
        /// By RETURNING or ON CONFLICT.
        reads: bool,
        /// By ON CONFLICT DO UPDATE.
        updates: bool,
    },
    /// It changes rows.
    Update,
    /// It removes rows.
    Delete,
    /// It does all of these.
    Merge,
    /// It copies rows into it.
    Copy,
}

impl Verb {
    /// What an INSERT does.
    pub fn of_insert(insert: &ast::Insert) -> Verb {
        let updates = matches!(
            &insert.on,
            Some(ast::OnInsert::OnConflict(ast::OnConflict { action: ast::OnConflictAction::DoUpdate(_), .. }))
        );
        Verb::Insert { reads: insert.on.is_some() || insert.returning.is_some(), updates }
    }

    /// What the user must have a right to. Who changes and removes rows learns which there are.
    fn rights(self) -> &'static [Right] {
        match self {
            Verb::Insert { updates: true, .. } => &[Right::Insert, Right::Select, Right::Update],
            Verb::Insert { reads: true, .. } => &[Right::Insert, Right::Select],
            Verb::Insert { .. } | Verb::Copy => &[Right::Insert],
            Verb::Update => &[Right::Update, Right::Select],
            Verb::Delete => &[Right::Delete, Right::Select],
            Verb::Merge => &[Right::Insert, Right::Update, Right::Delete, Right::Select],
        }
    }
}

/// A view through which nothing can be written.
enum Refused {
    /// What it shows is not rows of one table.
    View {
        /// The view, which may be one that is read by the view that the statement names.
        view: Arc<str>,
        /// Why.
        why: &'static str,
    },
    /// Its query cannot be bound.
    Error(SqlError),
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Refused {
        Refused::Error(error)
    }
}

const NOT_ONE_TABLE: &str = "Views that do not select from a single table or view are not automatically updatable.";
const NO_COLUMNS: &str = "Views that have no updatable columns are not automatically updatable.";

/// The table that a statement writes.
///
/// # Errors
/// Those of a table that cannot be written, or is not there.
pub fn table_to_write(binder: &mut Binder<'_>, name: &ast::ObjectName, verb: Verb) -> Result<Arc<TableShape>> {
    let position = name.0.first().and_then(|part| part.as_ident()).and_then(|part| binder.position(part.span));
    let (schema, table) = object_name(name)?;
    let relation = binder.names.relation(schema.as_deref(), &table)?;
    if let Some(relation) = &relation {
        verb.rights().iter().try_for_each(|right| binder.names.require(*right, relation))?;
    }
    match relation {
        Some(Named::Table(shape)) if shape.materialized.is_some() => {
            let what = format!("cannot change materialized view \"{table}\"");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what)
                .with_hint("Change the tables that it reads, and refresh it."))
        }
        Some(Named::Table(shape)) => Ok(shape),
        Some(Named::View(_)) if verb == Verb::Copy => {
            let what = format!("cannot copy to view \"{table}\"");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what).with_hint("Copy to the table that it reads."))
        }
        Some(Named::View(_)) if verb == Verb::Merge => {
            let what = format!("cannot execute MERGE on relation \"{table}\"");
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                .with_detail("This operation is not supported for views.")
                .with_hint("Change the table that it reads."))
        }
        Some(Named::View(view)) => match through_view(binder, &view) {
            Ok(shape) if verb != Verb::Delete && !has_updatable_columns(&shape) => {
                Err(refused(verb, &view.name, NO_COLUMNS))
            }
            Ok(shape) => Ok(shape),
            Err(Refused::View { view, why }) => Err(refused(verb, &view, why)),
            Err(Refused::Error(error)) => Err(error),
        },
        Some(Named::Catalogue { .. }) => {
            let what = format!("permission denied: \"{table}\" is a system catalog");
            Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
        }
        None => {
            let what = format!("relation \"{}\" does not exist", shown_name(name));
            Err(SqlError::new(SqlState::UNDEFINED_TABLE, what).at(position))
        }
    }
}

fn refused(verb: Verb, view: &str, why: &str) -> SqlError {
    let what = match verb {
        Verb::Insert { .. } => format!("cannot insert into view \"{view}\""),
        Verb::Update | Verb::Merge | Verb::Copy => format!("cannot update view \"{view}\""),
        Verb::Delete => format!("cannot delete from view \"{view}\""),
    };
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        .with_detail(why)
        .with_hint("Change the tables that it reads.")
}

/// The error of a column of a view that is computed.
pub(super) fn computed_column(face: &Face, column: &str, is_insert: bool) -> SqlError {
    let doing = if is_insert { "insert into" } else { "update" };
    let what = format!("cannot {doing} column \"{column}\" of view \"{}\"", face.name);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        .with_detail("View columns that are not columns of their base relation are not updatable.")
        .with_hint("Leave the column out, and write those of which it is computed.")
}

/// Which columns of a view can be written, or why none can. Rows of a view of which none can may be removed: then the
/// list has no true one.
///
/// # Errors
/// Those of a query that cannot be bound.
pub fn updatable_columns(
    binder: &mut Binder<'_>,
    view: &NamedView,
) -> Result<std::result::Result<Vec<bool>, &'static str>> {
    match through_view(binder, view) {
        Ok(shape) => {
            let columns = shape.face.iter().flat_map(|face| &face.columns);
            Ok(Ok(columns.map(|column| column.place().is_some()).collect()))
        }
        Err(Refused::View { why, .. }) => Ok(Err(why)),
        Err(Refused::Error(error)) => Err(error),
    }
}

/// Fails if a view that has a CHECK OPTION is not one through which rows are written.
///
/// # Errors
/// Those of a query that cannot be bound, and of a view through which nothing is written.
pub fn refuse_check(binder: &mut Binder<'_>, view: &NamedView) -> Result<()> {
    let why = match updatable_columns(binder, view)? {
        Ok(columns) if columns.contains(&true) => return Ok(()),
        Ok(_) => NO_COLUMNS,
        Err(why) => why,
    };
    let what = "WITH CHECK OPTION is supported only on automatically updatable views";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(why))
}

fn has_updatable_columns(shape: &TableShape) -> bool {
    shape.face.as_ref().is_none_or(|face| face.columns.iter().any(|column| column.place().is_some()))
}

/// Why rows cannot be written through the views of a query, as far as its form tells; else its one table, and what is
/// shown of that.
fn form(query: &ast::Query) -> std::result::Result<(&ast::Select, &TableFactor), &'static str> {
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return form(query),
        SetExpr::SetOperation { .. } => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        _ => return Err(NOT_ONE_TABLE),
    };
    if select.distinct.is_some() {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
    };
    if is_grouped {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    let [ast::TableWithJoins { relation, joins }] = &select.from[..] else { return Err(NOT_ONE_TABLE) };
    match relation {
        TableFactor::Table { sample: Some(_), .. } => {
            Err("Views containing TABLESAMPLE are not automatically updatable.")
        }
        TableFactor::Table { args: None, with_ordinality: false, .. } if joins.is_empty() => Ok((select, relation)),
        _ => Err(NOT_ONE_TABLE),
    }
}

/// The table that is written through a view, as the view shows it.
fn through_view(binder: &mut Binder<'_>, view: &NamedView) -> std::result::Result<Arc<TableShape>, Refused> {
    let query = crate::statement::parse_query(&view.query)?;
    let refused = |why| Refused::View { view: Arc::clone(&view.name), why };
    let table = as_select(&query)?;
    let (select, factor) = form(table.as_ref().unwrap_or(&query)).map_err(refused)?;
    let TableFactor::Table { name, alias, .. } = factor else { return Err(refused(NOT_ONE_TABLE)) };
    enter_view(&mut binder.views, view)?;
    let path = path_of_view(binder.names, view);
    let known = KNOWN_OF_VIEW * binder.views.len();
    // A view sees nothing of the statement that names it.
    let levels = std::mem::replace(&mut binder.levels, vec![Level { place: "WHERE", ..Level::default() }]);
    let (with, known) = (std::mem::take(&mut binder.with), std::mem::replace(&mut binder.known, known));
    let shown = table_of_view(binder, name, refused(NOT_ONE_TABLE))
        .and_then(|shape| Ok((face(binder, view, select, &shape, alias.as_ref())?, shape)));
    (binder.levels, binder.with, binder.known) = (levels, with, known);
    path.map(|path| binder.names.swap_path(path));
    binder.views.pop();
    let (face, shape) = shown?;
    Ok(Arc::new(TableShape { face: Some(Arc::new(face)), ..(*shape).clone() }))
}

/// The table that a view names, or that of the view that it names.
fn table_of_view(
    binder: &mut Binder<'_>,
    name: &ast::ObjectName,
    other: Refused,
) -> std::result::Result<Arc<TableShape>, Refused> {
    let (schema, table) = object_name(name)?;
    match binder.names.relation(schema.as_deref(), &table)? {
        Some(Named::Table(shape)) if shape.materialized.is_none() => Ok(shape),
        Some(Named::View(inner)) => through_view(binder, &inner),
        _ => Err(other),
    }
}

/// `TABLE name` as the SELECT that it is short for.
fn as_select(query: &ast::Query) -> Result<Option<ast::Query>> {
    let SetExpr::Table(table) = &*query.body else { return Ok(None) };
    let select = crate::statement::parse_query(&format!("SELECT * FROM {}", shown_table(table)))?;
    Ok(Some(ast::Query { body: select.body, ..query.clone() }))
}

fn shown_table(table: &ast::Table) -> String {
    table.table_name.clone().unwrap_or_default()
}

/// What a view shows of a table, or of a view.
fn face(
    binder: &mut Binder<'_>,
    view: &NamedView,
    select: &ast::Select,
    shape: &Arc<TableShape>,
    alias: Option<&ast::TableAlias>,
) -> std::result::Result<Face, Refused> {
    let refused = |why| Refused::View { view: Arc::clone(&view.name), why };
    binder.table(Arc::clone(shape), None, alias, None)?;
    let own = match &select.selection {
        Some(condition) => {
            let bound = binder.expr(condition)?;
            binder.condition(bound, "WHERE")?.into_conjuncts()
        }
        None => Vec::new(),
    };
    let level = binder.level();
    (level.aggregates, level.windows) = (Some(Vec::new()), Some(Vec::new()));
    let (values, outputs) = binder.values_of(&select.projection, "SELECT")?;
    let level = binder.level();
    if level.aggregates.as_ref().is_some_and(|calls| !calls.is_empty()) {
        return Err(refused("Views that return aggregate functions are not automatically updatable."));
    }
    if level.windows.as_ref().is_some_and(|calls| !calls.is_empty()) {
        return Err(refused("Views that return window functions are not automatically updatable."));
    }
    if !level.row_functions.is_empty() {
        return Err(refused("Views that return set-returning functions are not automatically updatable."));
    }
    let mut given = view.columns.iter();
    let columns = values.into_iter().zip(outputs).map(|(value, output)| FaceColumn {
        name: given.next().unwrap_or(&output.name).as_str().into(),
        sql_type: output.sql_type,
        value,
        origin: output.origin,
    });
    let columns = columns.collect();
    let (conditions, checks) = conditions(view, shape.face.as_deref(), own);
    let (schema, name) = (Arc::clone(&view.schema), Arc::clone(&view.name));
    Ok(Face { schema, name, columns, conditions, checks })
}

/// What rows keep that a view shows, and what those keep that are written through it.
fn conditions(view: &NamedView, inner: Option<&Face>, own: Vec<Expr>) -> (Vec<Check>, Vec<Check>) {
    let own: Vec<Check> = own.into_iter().map(|condition| Check { view: Arc::clone(&view.name), condition }).collect();
    let mut conditions = inner.map_or_else(Vec::new, |inner| inner.conditions.clone());
    let mut checks = inner.map_or_else(Vec::new, |inner| inner.checks.clone());
    conditions.extend(own.iter().cloned());
    match view.check {
        None => {}
        Some(CheckOption::Local) => checks.extend(own),
        Some(CheckOption::Cascaded) => checks.clone_from(&conditions),
    }
    (conditions, checks)
}

/// The places of columns of a table that is written through a view, without the names of the columns. They end before
/// the first column that is computed, which comes with them.
pub(super) fn leading_places(face: &Face) -> (Vec<usize>, Option<&FaceColumn>) {
    let places: Vec<usize> = face.columns.iter().map_while(FaceColumn::place).collect();
    let next = face.columns.get(places.len());
    (places, next)
}

/// Fails if two columns of a view that are given are one of its table.
pub(super) fn refuse_twice(shape: &TableShape, places: &[usize]) -> Result<()> {
    let Some(face) = &shape.face else { return Ok(()) };
    let is_again = |(at, place): (usize, &usize)| places[..at].contains(place);
    let Some(again) = places.iter().enumerate().find(|&(at, place)| is_again((at, place))) else { return Ok(()) };
    let shown = face.columns.iter().rfind(|column| column.place() == Some(*again.1));
    let name = shown.map_or_else(String::new, |column| folded(&ast::Ident::with_quote('"', &*column.name)));
    let what = format!("multiple assignments to same column \"{name}\"");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
}
