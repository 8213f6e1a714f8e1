//! Meaning of names, in a view.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quipu_rows::{Isolation, Ordered};

use crate::bind::names::{Counts, Named, NamedView, Names, TableShape};
use crate::catalogue::shape::shape_of;
use crate::catalogue::{Catalogue, Relation, Table, Version, View as ViewObject, names_in_rows, oids};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::counted::count;
use crate::execute::sampled::{part_kept, rows_by_key};
use crate::execute::view::{View, in_table};
use crate::functions::Environment;
use crate::identity::rights::{Right, Rights, denied};
use crate::plan::expression::Expr;
use crate::plan::source::Access;
use crate::types::SqlType;
use crate::types::user::TypeNames;

/// Shapes that are kept.
const KEPT_MAX: usize = 4_096;

/// Shapes of tables that were made, by the number of the table and the version of the catalogue: versions of a table's
/// definition are given again after a transaction that changed it was undone.
pub struct Shapes {
    known: Mutex<HashMap<(u32, Version), Arc<TableShape>>>,
    system: SystemColumns,
}

/// What finds the number and the columns of a table of the catalogue itself, by its schema and name.
pub type SystemColumns = fn(Option<&str>, &str) -> Option<(u32, Vec<(Arc<str>, SqlType)>)>;

impl Shapes {
    /// No shapes yet.
    pub fn new(system: SystemColumns) -> Shapes {
        Shapes { known: Mutex::default(), system }
    }
}

/// What names mean in a view.
pub struct Lookup<'v> {
    view: View<'v>,
    catalogue: Arc<Catalogue>,
    shapes: &'v Shapes,
    path: RefCell<Vec<String>>,
    /// Of the user whose statement it is; none where a definition is read.
    rights: Option<&'v dyn Rights>,
    /// Whether nothing is read, so that a materialized view may be one that has not been populated.
    is_of_definition: bool,
}

impl<'v> Lookup<'v> {
    /// Names in a view, of which this is the catalogue; those without a schema are looked for in those of the path.
    pub fn new(view: View<'v>, catalogue: Arc<Catalogue>, shapes: &'v Shapes, path: Vec<String>) -> Lookup<'v> {
        Lookup { view, catalogue, shapes, path: RefCell::new(path), rights: None, is_of_definition: false }
    }

    /// The same names, for a statement of a user with these rights.
    pub fn with_rights(self, rights: &'v dyn Rights) -> Lookup<'v> {
        Lookup { rights: Some(rights), ..self }
    }

    /// The same names, for a definition: materialized views need not have been populated.
    pub fn of_definition(self) -> Lookup<'v> {
        Lookup { is_of_definition: true, ..self }
    }

    fn shape(&self, table: &Table) -> Result<Arc<TableShape>> {
        let key = (table.number, self.catalogue.version());
        let mut known = self.shapes.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.get(&key) {
            return Ok(Arc::clone(shape));
        }
        let read = self.view.table(&table.rows_name)?;
        let shape = Arc::new(in_table!(read, read => shape_of(&read, table)?));
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&shape));
        Ok(shape)
    }
}

/// Whether a user with these rights may do something with a relation: with its own temporary ones, everything.
pub fn may(rights: &dyn Rights, right: Right, schema: &str, name: &str) -> bool {
    names_in_rows::is_temporary(schema) || rights.has(right, schema, name)
}

/// A view, as statements need to know it.
pub fn named_view(view: &ViewObject) -> NamedView {
    NamedView {
        schema: view.schema.as_str().into(),
        name: view.name.as_str().into(),
        query: view.query.as_str().into(),
        columns: view.columns.clone(),
        search_path: view.search_path.clone(),
        check: view.check,
    }
}

impl TypeNames for Lookup<'_> {
    fn type_named(&self, schema: Option<&str>, name: &str) -> Option<SqlType> {
        self.catalogue.type_named(schema, name, &self.path.borrow())
    }
}

impl Names for Lookup<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Named>> {
        // The catalogue comes first in every path.
        if schema.is_none_or(|schema| schema == "pg_catalog" || schema == "information_schema")
            && let Some((number, columns)) = (self.shapes.system)(schema, name)
        {
            let name = match schema {
                Some("information_schema") => format!("information_schema.{name}").into(),
                _ => name.into(),
            };
            return Ok(Some(Named::Catalogue { name, number, columns }));
        }
        if let Some(schema) = schema
            && names_in_rows::is_temporary(schema)
            && !self.path.borrow().iter().any(|own| own == schema)
            && self.catalogue.has_schema(schema)
        {
            let what = "cannot access temporary tables of other sessions";
            return Err(SqlError::unsupported(what, "Create a table without TEMPORARY."));
        }
        match self.catalogue.relation(schema, name, &self.path.borrow()) {
            Some(Relation::Table(table)) => {
                let shape = self.shape(table)?;
                Ok(Some(Named::Table(match shape.materialized {
                    Some(false) if self.is_of_definition => {
                        Arc::new(TableShape { materialized: Some(true), ..(*shape).clone() })
                    }
                    _ => shape,
                })))
            }
            Some(Relation::View(_, view)) => Ok(Some(Named::View(named_view(view)))),
            Some(Relation::Sequence(number, sequence)) => {
                let query = format!("SELECT * FROM pg_catalog.quipu_sequence({}::regclass)", oids::object(*number));
                let (schema, name) = (sequence.schema.as_str().into(), name.into());
                let (query, columns, search_path) = (query.into(), Vec::new(), Vec::new());
                Ok(Some(Named::View(NamedView { schema, name, query, columns, search_path, check: None })))
            }
            Some(_) => {
                let what = format!("\"{name}\" is not a table");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what))
            }
            None => Ok(None),
        }
    }

    fn swap_path(&self, path: Vec<String>) -> Vec<String> {
        self.path.replace(path)
    }

    fn counts(&self) -> Option<&dyn Counts> {
        // A serializable transaction would rely on what it has counted, and fail where that changes.
        let is_serializable =
            |view| matches!(view, View::Transaction(transaction) if transaction.isolation() == Isolation::Serializable);
        (!is_serializable(self.view)).then_some(self)
    }

    fn require(&self, right: Right, relation: &Named) -> Result<()> {
        let Some(rights) = self.rights else { return Ok(()) };
        let Some((schema, name)) = relation.place() else { return Ok(()) };
        let kind = if matches!(relation, Named::View(_)) { "view" } else { "table" };
        if may(rights, right, schema, name) { Ok(()) } else { Err(denied(&format!("{kind} {name}"))) }
    }

    fn all(&self) -> Vec<String> {
        let relations = self.catalogue.relations().iter();
        let named = relations.filter(|(_, relation)| matches!(relation, Relation::Table(_) | Relation::View(..)));
        named.map(|((_, name), _)| name.clone()).collect()
    }
}

impl Counts for Lookup<'_> {
    fn rows(&self, table: &TableShape) -> Option<u64> {
        let read = self.view.table(&table.table).ok()?;
        in_table!(read, read => read.len().ok())
    }

    fn rows_in(&self, table: &TableShape, access: &Access, environment: &dyn Environment) -> Option<u64> {
        count(&table.table, access, &context_of(self.view, environment, &Running::default())).ok()
    }

    fn part_kept(
        &self,
        table: &TableShape,
        base: usize,
        conditions: &[&Expr],
        environment: &dyn Environment,
    ) -> Option<f64> {
        let running = Running::default();
        let context = context_of(self.view, environment, &running);
        part_kept(&table.table, &table.types, base, conditions, &context).ok()
    }

    fn rows_by_key(&self, table: &TableShape, index: Option<&str>, columns: usize) -> Option<f64> {
        let read = self.view.table(&table.table).ok()?;
        in_table!(read, read => match index {
            None => rows_by_key(&read, columns).ok()?,
            Some(index) => rows_by_key(&read.entries(index).ok()?, columns).ok()?,
        })
    }
}

/// What constants are computed with while a statement is bound.
fn context_of<'c>(view: View<'c>, environment: &'c dyn Environment, state: &'c Running) -> Context<'c> {
    Context { view, environment, parameters: &[], arguments: &[], state, locker: &NoLocks }
}
