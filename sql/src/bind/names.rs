//! Meaning of a statement's names: tables, views, and tables of the catalogue.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::functions::Environment;
use crate::identity::rights::Right;
use crate::plan::change::Check;
use crate::plan::expression::Expr;
use crate::plan::source::Access;
use crate::types::SqlType;
use crate::types::user::TypeNames;

/// What knows the tables of a database, at the moment of a statement.
pub trait Names: TypeNames {
    /// What is called so; in the schemas of the search path if none is named. None if there is nothing.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Named>>;

    /// Looks for names without a schema in these schemas from now on. Returns those before.
    fn swap_path(&self, path: Vec<String>) -> Vec<String> {
        path
    }

    /// Refuses what the user may not do with a relation that its statement names.
    ///
    /// # Errors
    /// [`INSUFFICIENT_PRIVILEGE`](crate::SqlState::INSUFFICIENT_PRIVILEGE).
    fn require(&self, _right: Right, _relation: &Named) -> Result<()> {
        Ok(())
    }

    /// The names of all tables and views, for suggestions.
    fn all(&self) -> Vec<String>;

    /// What can be counted; none where a statement may not rely on counts.
    fn counts(&self) -> Option<&dyn Counts> {
        None
    }
}

/// What tables count, for the order of joins. None where it cannot be read.
pub trait Counts {
    /// How many rows a table has.
    fn rows(&self, table: &TableShape) -> Option<u64>;

    /// How many rows of a table the keys of an access find, whose values are all constants.
    fn rows_in(&self, table: &TableShape, access: &Access, environment: &dyn Environment) -> Option<u64>;

    /// Which part of a table's rows keeps conditions over its columns, by some of its rows. The slots of its columns
    /// begin at `base`.
    fn part_kept(
        &self,
        table: &TableShape,
        base: usize,
        conditions: &[&Expr],
        environment: &dyn Environment,
    ) -> Option<f64>;

    /// How many rows of a table have the same values of the first columns of a key (the primary one without an index),
    /// on the average.
    fn rows_by_key(&self, table: &TableShape, index: Option<&str>, columns: usize) -> Option<f64>;
}

/// What a name means.
#[derive(Clone, Debug)]
pub enum Named {
    /// A table.
    Table(Arc<TableShape>),
    /// A view.
    View(NamedView),
    /// A table of the catalogue, which is made when it is read.
    Catalogue {
        /// The name by which it is made.
        name: Arc<str>,
        /// Its number.
        number: u32,
        /// Its columns.
        columns: Vec<(Arc<str>, SqlType)>,
    },
}

impl Named {
    /// Its schema and name; none of a table of the catalogue.
    pub fn place(&self) -> Option<(&str, &str)> {
        match self {
            Named::Table(shape) => Some((&shape.schema, &shape.name)),
            Named::View(view) => Some((&view.schema, &view.name)),
            Named::Catalogue { .. } => None,
        }
    }
}

/// What a name without a schema was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A table, a view or a sequence of this schema and name.
    Relation(String, String),
    /// A type of this schema and name.
    Type(String, String),
}

/// A view: its query, and the names of its columns if they are declared.
#[derive(Clone, Debug)]
pub struct NamedView {
    /// The schema.
    pub schema: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The text of the query.
    pub query: Arc<str>,
    /// The names of its columns; those of the query if empty.
    pub columns: Vec<String>,
    /// The schemas in which its names are looked for; those of the statement if empty.
    pub search_path: Vec<String>,
    /// Which conditions rows keep that are written through it, if it has a CHECK OPTION.
    pub check: Option<CheckOption>,
}

/// WITH CHECK OPTION of a view: which conditions a row keeps that is written through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOption {
    /// Its own.
    Local,
    /// Its own, and those of the views that it reads.
    Cascaded,
}

impl CheckOption {
    /// The option of this name.
    pub fn of(name: &str) -> Option<CheckOption> {
        match &*name.to_ascii_lowercase() {
            "local" => Some(CheckOption::Local),
            "cascaded" => Some(CheckOption::Cascaded),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CheckOption::Local => "local",
            CheckOption::Cascaded => "cascaded",
        }
    }
}

/// How a view shows the table that is written through it.
#[derive(Clone, Debug)]
pub struct Face {
    /// The schema of the view.
    pub schema: Arc<str>,
    /// The name of the view.
    pub name: Arc<str>,
    /// Its columns.
    pub columns: Vec<FaceColumn>,
    /// What rows of the table keep that it shows, each part with the view that says so, the innermost first.
    pub conditions: Vec<Check>,
    /// Those of them that rows keep which are written through it.
    pub checks: Vec<Check>,
}

/// A column of a view through which a table is written.
#[derive(Clone, Debug)]
pub struct FaceColumn {
    /// The name.
    pub name: Arc<str>,
    /// The type.
    pub sql_type: SqlType,
    /// What it shows, over the columns of the table.
    pub value: Expr,
    /// The number of the table and of the column, if it is one.
    pub origin: Option<(u32, i16)>,
}

impl FaceColumn {
    /// The place of the column of the table that it is; none if it is computed.
    pub fn place(&self) -> Option<usize> {
        match self.value {
            Expr::Slot(place) => Some(place),
            _ => None,
        }
    }
}

/// A table, as statements need to know it.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// The name, as rows know it.
    pub table: Arc<str>,
    /// The name without a schema.
    pub name: Arc<str>,
    /// The schema.
    pub schema: Arc<str>,
    /// The name of the primary key as a constraint; none if there is none.
    pub primary_name: Option<String>,
    /// The number in the catalogue.
    pub number: u32,
    /// All columns, hidden ones among them.
    pub columns: Vec<ShapeColumn>,
    /// The types of all columns.
    pub types: Arc<[SqlType]>,
    /// The primary key.
    pub primary: KeyShape,
    /// The indexes that can be read.
    pub indexes: Vec<KeyShape>,
    /// Of a materialized view, whether it has been populated.
    pub materialized: Option<bool>,
    /// The view through which a statement writes it.
    pub face: Option<Arc<Face>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ShapeColumn {
    /// The name.
    pub name: Arc<str>,
    /// The number in the catalogue.
    pub number: i16,
    /// The type.
    pub sql_type: SqlType,
    /// Whether it is hidden: the row number of a table without a primary key.
    pub is_hidden: bool,
    /// Whether it must have a value.
    pub is_not_null: bool,
    /// The text of its default.
    pub default: Option<String>,
    /// Whether its numbers come from the table; and whether always.
    pub identity: Option<bool>,
    /// Of an identity column whose default is the next number of a sequence: whether it always has that.
    pub generates: Option<bool>,
    /// Whether it is computed from other columns of the row.
    pub is_generated: bool,
}

/// A key of a table: the primary one, or that of an index.
#[derive(Clone, Debug)]
pub struct KeyShape {
    /// The index; the primary key if none.
    pub index: Option<Arc<str>>,
    /// Its columns.
    pub columns: Vec<crate::plan::source::KeyColumn>,
    /// How many of them are the index's own; those of the primary key follow.
    pub own: usize,
    /// Whether no two rows have the same values in its own columns, unless one is NULL.
    pub is_unique: bool,
    /// Whether that holds when a statement, or the transaction, is done, and not on the way. It is not `is_unique`
    /// then.
    pub is_unique_later: bool,
    /// Its expressions, but for those that cannot be read.
    pub expressions: Vec<KeyExpression>,
    /// The condition of the rows that it has.
    pub predicate: Option<String>,
    /// The places of the columns that it has besides.
    pub includes: Vec<usize>,
    /// The place of the column whose sums it keeps.
    pub sum: Option<usize>,
}

/// An expression whose values a key has.
#[derive(Clone, Debug)]
pub struct KeyExpression {
    /// The place of its values among the columns of the key.
    pub at: usize,
    /// As SQL writes it.
    pub written: sqlparser::ast::Expr,
    /// Whether rows compute its values in words of their own, whose values may be others.
    pub is_of_rows: bool,
}

impl TableShape {
    /// The schema and the name by which a statement writes it.
    pub fn shown_name(&self) -> (&Arc<str>, &Arc<str>) {
        self.face.as_ref().map_or((&self.schema, &self.name), |face| (&face.schema, &face.name))
    }

    /// The place of a column that is not hidden.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| &*column.name == name && !column.is_hidden)
    }
}
