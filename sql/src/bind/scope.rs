//! The columns that an expression can see.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::names::{FaceColumn, ShapeColumn, TableShape};
use crate::bind::system_columns::SystemColumns;
use crate::bind::{Binder, Bound, folded};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::plan::query::{Aggregate, OutputColumn, WindowCall};
use crate::plan::source::RowsOf;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// A query around the place that is being bound.
#[derive(Default)]
pub(super) struct Level {
    /// The tables of its FROM.
    pub(super) relations: Vec<Relation>,
    /// How many slots its frame has.
    pub(super) frame: usize,
    /// What the query around it gives to it: expressions over the frame of that one.
    pub(super) arguments: Vec<Bound>,
    /// Its aggregates; none where there can be none.
    pub(super) aggregates: Option<Vec<Aggregate>>,
    /// Its window functions; none where there can be none.
    pub(super) windows: Option<Vec<WindowCall>>,
    /// Whether an aggregate's arguments are being bound.
    pub(super) is_in_aggregate: bool,
    /// Why there can be no window function, where a part of an aggregate or of another window function is bound.
    pub(super) no_window: Option<(SqlState, &'static str)>,
    /// Functions of rows in the select list, which are joined to its FROM.
    pub(super) row_functions: Vec<RowsOf>,
    /// Whether all rows of its FROM are read, whatever comes first: those of a query in it are then, too.
    pub(super) reads_all: bool,
    /// Whether its FROM names the recursive query that it is part of.
    pub(super) is_recursive: bool,
    /// Where in the query it is, for messages: `WHERE`.
    pub(super) place: &'static str,
}

/// A table of a FROM.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// The name by which its columns are asked for; empty for a join with a name of its own.
    pub(super) name: Arc<str>,
    /// Its schema, where it may be named with that.
    pub(super) schema: Option<Arc<str>>,
    /// Its columns.
    pub(super) columns: Vec<ScopeColumn>,
    /// Whether its columns can be asked for; not those of a table to the right that is not LATERAL.
    pub(super) is_visible: bool,
    /// Whether it is the row that INSERT ... ON CONFLICT was to add, whose columns must be asked for by its name.
    pub(super) needs_name: bool,
    /// Whether its row is the value of its one column, as with functions that return one.
    pub(super) is_one_value: bool,
    /// What its system columns are made of, if it is a table.
    pub(super) system: Option<SystemColumns>,
}

/// A column of a table of a FROM.
#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    pub(super) name: Arc<str>,
    pub(super) sql_type: SqlType,
    pub(super) slot: usize,
    /// The number of the table and of the column.
    pub(super) origin: Option<(u32, i16)>,
    /// By what it is found.
    pub(super) shown: Shown,
    /// Of a column that USING has merged: the value that stands for both.
    pub(super) merged: Option<Expr>,
}

/// By what a column of a table of a FROM is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// By `*`, `t.*`, its name alone and with that of its table.
    Always,
    /// By `t.*` and its name with that of its table: USING has merged it.
    WithTable,
    /// By its name with that of its table: it is hidden.
    Named,
}

impl Shown {
    pub(super) fn unless_hidden(is_hidden: bool) -> Shown {
        if is_hidden { Shown::Named } else { Shown::Always }
    }
}

/// A query of WITH, or a part of it that changes rows.
#[derive(Clone, Debug)]
pub(super) struct WithName {
    pub(super) name: String,
    pub(super) number: usize,
    /// None of a part without RETURNING, from which nothing can be read.
    pub(super) columns: Option<Vec<OutputColumn>>,
    /// How far it is bound.
    pub(super) stage: Stage,
}

/// How far a query of WITH is bound that is named.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It is.
    Done,
    /// It has not begun, in WITH RECURSIVE.
    Waiting(Arc<Waiting>),
    /// It is being bound, and cannot name itself.
    Alone,
    /// Its first part is being bound.
    First,
    /// The part is being bound that is run again over its own rows.
    Again,
}

/// A query of WITH RECURSIVE that is bound when it is named.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) written: ast::Cte,
    /// The queries around the WITH.
    pub(super) levels: usize,
    /// Where the names of its WITH begin and end.
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Relation {
    fn is_named(&self, table: &str, schema: Option<&str>) -> bool {
        *self.name == *table && schema.is_none_or(|schema| self.schema.as_deref() == Some(schema))
    }
}

impl ScopeColumn {
    fn bound(&self) -> Bound {
        let expr = self.merged.clone().unwrap_or(Expr::Slot(self.slot));
        Bound { expr, sql_type: self.sql_type }
    }
}

/// The columns of a table whose slots begin at one, as the statement knows them.
pub(super) fn columns_of(shape: &TableShape, base: usize) -> Vec<ScopeColumn> {
    if let Some(face) = &shape.face {
        let column = |(place, column): (usize, &FaceColumn)| ScopeColumn {
            name: Arc::clone(&column.name),
            sql_type: column.sql_type.without_domain(),
            slot: base + place,
            origin: column.origin,
            shown: Shown::Always,
            merged: Some(shifted(&column.value, base)),
        };
        return face.columns.iter().enumerate().map(column).collect();
    }
    let column = |(place, column): (usize, &ShapeColumn)| ScopeColumn {
        name: Arc::clone(&column.name),
        sql_type: column.sql_type.without_domain(),
        slot: base + place,
        origin: Some((shape.number, column.number)),
        shown: Shown::unless_hidden(column.is_hidden),
        merged: None,
    };
    shape.columns.iter().enumerate().map(column).collect()
}

/// An expression over slots from 0 on, over those from another one on.
fn shifted(expr: &Expr, base: usize) -> Expr {
    let mut expr = expr.clone();
    if base > 0 {
        expr.replace(&mut |part| match part {
            Expr::Slot(slot) => Some(Expr::Slot(base + slot)),
            _ => None,
        });
    }
    expr
}

/// A column of `*`: its value, its name, and the numbers of the table and of the column.
pub(super) type NamedColumn = (Bound, Arc<str>, Option<(u32, i16)>);

/// What was found under a name in one query.
enum Found {
    Nothing,
    One(Bound, Option<(u32, i16)>),
    Several,
}

impl Level {
    fn find(&self, table: Option<&str>, schema: Option<&str>, column: &str) -> Result<Found> {
        let (mut found, mut systems) = (Found::Nothing, 0);
        for relation in self.relations.iter().filter(|relation| relation.is_visible) {
            let is_meant = match table {
                Some(table) => relation.is_named(table, schema),
                None => !relation.needs_name,
            };
            if !is_meant {
                continue;
            }
            let columns = relation.columns.iter().filter(|candidate| &*candidate.name == column);
            // A merged column can still be asked for by the name of its table.
            for candidate in columns.filter(|candidate| candidate.shown == Shown::Always || table.is_some()) {
                if !matches!(found, Found::Nothing) {
                    return Ok(Found::Several);
                }
                found = Found::One(candidate.bound(), candidate.origin);
            }
            // Each table has the system's columns, unless it has one of that name.
            if let (Some(system), Found::Nothing) = (&relation.system, &found)
                && let Some((expr, sql_type)) = system.column(column)?
            {
                systems += 1;
                found = Found::One(Bound { expr, sql_type }, None);
            } else if let (None, Found::Nothing, "tableoid") = (&relation.system, &found, column)
                && let Some((number, _)) = relation.columns.iter().find_map(|candidate| candidate.origin)
            {
                // Of the catalogue.
                let expr = Expr::Constant(Datum::Int(number.into()));
                found = Found::One(Bound { expr, sql_type: BaseType::Oid.into() }, None);
            } else if let Some(system) = &relation.system
                && systems > 0
                && system.column(column)?.is_some()
            {
                return Ok(Found::Several);
            }
        }
        Ok(found)
    }

    /// Whether it has a table of this name.
    fn shows(&self, table: &str, schema: Option<&str>) -> bool {
        let mut visible = self.relations.iter().filter(|relation| relation.is_visible);
        visible.any(|relation| relation.is_named(table, schema))
    }

    /// The whole row of a table.
    fn row(&self, table: &str) -> Option<Bound> {
        let relation = self.relations.iter().find(|relation| *relation.name == *table && relation.is_visible)?;
        let mut columns = relation.columns.iter().filter(|column| column.shown != Shown::Named);
        if relation.is_one_value {
            return columns.next().map(ScopeColumn::bound);
        }
        let (mut values, mut names) = (Vec::new(), Vec::new());
        for column in columns {
            values.push((column.sql_type, column.bound().expr));
            names.push(Arc::clone(&column.name));
        }
        Some(Bound { expr: Expr::Record(values, Some(names.into())), sql_type: BaseType::Record.into() })
    }
}

impl Binder<'_> {
    pub(super) fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// A column by its name, and perhaps that of its table: of the query, or of those around it.
    pub(super) fn column(&mut self, parts: &[ast::Ident]) -> Result<Bound> {
        self.column_with_origin(parts).map(|(bound, _)| bound)
    }

    pub(super) fn column_with_origin(&mut self, parts: &[ast::Ident]) -> Result<(Bound, Option<(u32, i16)>)> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        let position = parts.first().and_then(|part| self.position(part.span));
        let (schema, table, column) = match &names[..] {
            [column] => (None, None, &**column),
            [table, column] => (None, Some(&**table), &**column),
            [.., schema, table, column] => (Some(&**schema), Some(&**table), &**column),
            [] => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a column needs a name")),
        };
        for depth in (0..self.levels.len()).rev() {
            match self.levels[depth].find(table, schema, column)? {
                Found::One(bound, origin) => return Ok((self.handed_down(bound, depth), origin)),
                Found::Several => {
                    let what = format!("column reference \"{column}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, what).at(position));
                }
                // A table of that name hides those of the queries around.
                Found::Nothing if table.is_some_and(|table| self.levels[depth].shows(table, schema)) => break,
                Found::Nothing => {}
            }
            let as_row = if table.is_none() { self.levels[depth].row(column) } else { None };
            if let Some(bound) = as_row {
                return Ok((self.handed_down(bound, depth), None));
            }
        }
        // Words of SQL that are functions without parentheses.
        if let ([ast::Ident { quote_style: None, .. }], "current_schema" | "current_role") = (parts, column) {
            return Ok((self.function(column, Vec::new())?, None));
        }
        Err(self.no_column(table, column).at(position))
    }

    /// A value of a query around this one, as this one gets it.
    pub(super) fn handed_down(&mut self, mut bound: Bound, depth: usize) -> Bound {
        for level in &mut self.levels[depth + 1..] {
            let known = level.arguments.iter().position(|argument| argument.expr == bound.expr);
            let place = known.unwrap_or_else(|| {
                level.arguments.push(bound.clone());
                level.arguments.len() - 1
            });
            bound = Bound { expr: Expr::Outer(place), sql_type: bound.sql_type };
        }
        bound
    }

    #[cold]
    fn no_column(&self, table: Option<&str>, column: &str) -> SqlError {
        let relations = || self.levels.iter().rev().flat_map(|level| &level.relations);
        if let Some(table) = table
            && !relations().any(|relation| *relation.name == *table && relation.is_visible)
        {
            let what = format!("missing FROM-clause entry for table \"{table}\"");
            let error = SqlError::new(SqlState::UNDEFINED_TABLE, what);
            return match relations().any(|relation| *relation.name == *table) {
                true => error.with_hint(format!(
                    "There is an entry for table \"{table}\", but it cannot be referenced from this part of the query."
                )),
                false => error,
            };
        }
        let name = table.map_or_else(|| format!("\"{column}\""), |table| format!("{table}.{column}"));
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {name} does not exist"));
        let known: Vec<(&str, &str)> = relations()
            .filter(|relation| table.is_none_or(|table| *relation.name == *table))
            .flat_map(|relation| relation.columns.iter().map(|known| (&*relation.name, &*known.name)))
            .collect();
        match nearest(column, known.iter().map(|(_, name)| *name)) {
            Some(name) => {
                let table = known.iter().find(|(_, known)| *known == name).map_or("", |(table, _)| table);
                error.with_hint(format!("Perhaps you meant to reference the column \"{table}.{name}\"."))
            }
            None => error,
        }
    }

    /// The columns of `*`, or of `table.*`.
    pub(super) fn all_columns(&self, table: Option<&str>) -> Result<Vec<NamedColumn>> {
        let Some(level) = self.levels.last() else { return Ok(Vec::new()) };
        let relations = level.relations.iter().filter(|relation| !relation.needs_name);
        let is_there = relations.clone().any(|relation| table.is_none_or(|table| *relation.name == *table));
        let columns = shown_columns(level, table);
        let columns = columns.map(|(_, column)| (column.bound(), Arc::clone(&column.name), column.origin)).collect();
        match (is_there, table) {
            (false, Some(table)) => {
                let what = format!("missing FROM-clause entry for table \"{table}\"");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, what))
            }
            (false, None) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid"))
            }
            _ => Ok(columns),
        }
    }
}

/// The columns of `*`, or of `t.*`, with their tables.
pub(super) fn shown_columns<'l>(
    level: &'l Level,
    table: Option<&str>,
) -> impl Iterator<Item = (&'l Relation, &'l ScopeColumn)> {
    let is_meant = move |column: &ScopeColumn| match table {
        Some(_) => column.shown != Shown::Named,
        None => column.shown == Shown::Always,
    };
    let relations = level.relations.iter().filter(|relation| !relation.needs_name);
    relations
        .filter(move |relation| table.is_none_or(|table| *relation.name == *table))
        .flat_map(move |relation| relation.columns.iter().map(move |column| (relation, column)))
        .filter(move |(_, column)| is_meant(column))
}

/// The name that is most like another, if one is at all.
pub(super) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = name.chars().count() / 3 + 1;
    let distances = names.map(|known| (distance(name, known), known));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// How many letters must change, come or go to make one word of another (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, a) in a.chars().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (place, b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[b.len()]
}
