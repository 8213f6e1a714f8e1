//! Columns that are computed from the others of their row.
//!
//! Rows keep the text of the expression and do not understand it: SQL's is richer than theirs. A program that has SQL
//! says once how such texts are compiled ([`compute_generated_by`]); in all others, a row of such a table cannot be
//! written. So no writer leaves a value that is not the expression's.

use std::fmt;
use std::sync::OnceLock;

use quipu::Result;

use crate::expression::computed::Compute;
use crate::schema::invalid;
use crate::schema::table::TableSchema;
use crate::value::Value;

/// Makes what computes the column at a place of a table, from the values of all columns of a row, of which it reads no
/// generated one.
pub type Compiler = fn(&TableSchema, usize) -> Result<Box<Compute>>;

static COMPILER: OnceLock<Compiler> = OnceLock::new();

/// Says how generated columns are computed in this process. The first one that is said stays.
pub fn compute_generated_by(compiler: Compiler) {
    let _ = COMPILER.set(compiler);
}

/// A generated column of a table.
pub(crate) struct GeneratedColumn {
    pub(crate) place: usize,
    compute: OnceLock<Box<Compute>>,
}

impl fmt::Debug for GeneratedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedColumn").field("place", &self.place).finish_non_exhaustive()
    }
}

impl GeneratedColumn {
    /// The generated columns of a table. They are compiled when the first row is written.
    pub(crate) fn all(schema: &TableSchema) -> Vec<GeneratedColumn> {
        let columns = schema.columns.iter().enumerate();
        let generated = columns.filter(|(_, column)| column.generated.is_some());
        generated.map(|(place, _)| GeneratedColumn { place, compute: OnceLock::new() }).collect()
    }

    /// Its value in a row.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if this program does not compute such columns; those of the expression.
    pub(crate) fn value(&self, schema: &TableSchema, row: &[Value<'_>]) -> Result<Value<'static>> {
        if let Some(compute) = self.compute.get() {
            return compute(row);
        }
        let Some(compiler) = COMPILER.get() else {
            let (table, column) = (&schema.table, &schema.columns[self.place].name);
            return Err(invalid(format!(
                "column {column} of table {table} is computed by SQL, which this program does not have: write its rows \
                 by SQL"
            )));
        };
        let compute = compiler(schema, self.place)?;
        self.compute.get_or_init(|| compute)(row)
    }
}
