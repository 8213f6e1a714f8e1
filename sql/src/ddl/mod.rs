//! Statements that change what there is: CREATE, ALTER, DROP, TRUNCATE, COMMENT.

use quipu_rows::{RowTransaction, RowView, Value};
use sqlparser::ast::{Expr, Statement};

use crate::catalogue::{Catalogues, Table};
use crate::error::{Result, SqlError};
use crate::types::SqlType;

/// The tag of a statement, as CommandComplete has it: `CREATE TABLE`.
pub type Tag = &'static str;

/// What a statement needs of its session.
pub struct Context<'c> {
    /// What SQL knows of the database.
    pub catalogues: &'c Catalogues,
    /// The schemas in which names are looked for; new objects go into the first one.
    pub search_path: &'c [String],
    /// What computes values: of defaults, and of columns that get another type.
    pub evaluator: &'c dyn Evaluator,
    /// What takes notices for the client.
    pub notice: &'c dyn Fn(SqlError),
}

/// What computes values for rows that there are.
pub trait Evaluator {
    /// The value of an expression, of a row of a table or without one, as a column of this type holds it.
    ///
    /// # Errors
    /// Those of the expression.
    fn evaluate(
        &self,
        expression: &Expr,
        sql_type: SqlType,
        row: Option<(&Table, &RowView<'_>)>,
    ) -> Result<Value<'static>>;

    /// A value of one type as a column of another holds it, as an assignment would have it.
    ///
    /// # Errors
    /// Those of the cast.
    fn convert(&self, value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Value<'static>>;

    /// Whether an expression has another value each time: `nextval`, `random`, `gen_random_uuid`.
    fn is_volatile(&self, expression: &Expr) -> bool;
}

/// Whether this module runs a statement.
pub fn is_ddl(_statement: &Statement) -> bool {
    false
}

/// Runs a statement. It does all of what it says or, if it fails, nothing.
///
/// # Errors
/// PostgreSQL's.
pub fn run(statement: &Statement, _transaction: &RowTransaction<'_>, _context: &Context<'_>) -> Result<Tag> {
    Err(SqlError::unsupported(format!("not supported: {statement}"), "It changes no table."))
}
