//! What names mean, in a view.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quipu::ErrorKind;

use crate::bind::names::{Named, Names, TableShape};
use crate::catalogue::shape::shape_of;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::{View, in_table};

/// Shapes of tables that were made, by name, of the version of the catalogue that they are of.
#[derive(Default)]
pub struct Shapes {
    known: Mutex<(u64, HashMap<String, Arc<TableShape>>)>,
}

impl Shapes {
    fn get(&self, version: u64, name: &str) -> Option<Arc<TableShape>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == version { known.1.get(name).cloned() } else { None }
    }

    fn put(&self, version: u64, shape: &Arc<TableShape>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != version {
            *known = (version, HashMap::new());
        }
        known.1.insert(shape.table.to_string(), Arc::clone(shape));
    }
}

/// What names mean in a view.
pub struct Lookup<'v> {
    view: View<'v>,
    shapes: &'v Shapes,
    version: Option<u64>,
}

impl<'v> Lookup<'v> {
    /// Names in a view; `version` is that of its catalogue, unless a transaction has changed it.
    pub fn new(view: View<'v>, shapes: &'v Shapes, version: Option<u64>) -> Lookup<'v> {
        Lookup { view, shapes, version }
    }

    /// The table of this name, as rows know it; none if there is none.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn table(&self, name: &str) -> Result<Option<Arc<TableShape>>> {
        if let Some(shape) = self.version.and_then(|version| self.shapes.get(version, name)) {
            return Ok(Some(shape));
        }
        let table = match self.view.table(name) {
            Ok(table) => table,
            Err(error) if error.kind() == ErrorKind::Missing => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let shape = Arc::new(in_table!(table, table => shape_of(&table)?));
        if let Some(version) = self.version {
            self.shapes.put(version, &shape);
        }
        Ok(Some(shape))
    }
}

impl Names for Lookup<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Named>> {
        let table = match schema {
            None | Some("public") => name.to_owned(),
            Some("pg_catalog" | "information_schema") => return Ok(None),
            Some(schema) => format!("{schema}.{name}"),
        };
        match self.table(&table)? {
            Some(shape) => Ok(Some(Named::Table(shape))),
            None => match schema {
                None | Some("public") => Ok(None),
                Some(schema) => {
                    let what = format!("schema \"{schema}\" does not exist");
                    Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, what))
                }
            },
        }
    }

    fn all(&self) -> Vec<String> {
        self.view.names().unwrap_or_default()
    }
}
