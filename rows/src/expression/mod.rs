//! Expressions over the columns of one row: checks, predicates of partial indexes, keys of expression indexes,
//! defaults.
//!
//! The words are SQL's: comparisons, `AND OR NOT`, `+ - * / %`, `IN`, `BETWEEN`, `LIKE`, `IS NULL`, some functions of
//! one value; and so is the logic of three values, in which NULL is neither true nor false. Subqueries, other rows, the
//! time and chance are not here: an expression has the same value for the same row for ever, or an index that is made
//! of it would be wrong. Only checks may have expressions in SQL's words that depend on the time or the user.
//!
//! | file | what it is |
//! |---|---|
//! | `name` | columns as expressions see them, and their names as texts |
//! | `node` | the tree of an expression, and its text |
//! | `parse` | the tree of a text |
//! | `types` | the types of a tree, before any row |
//! | `evaluate` | the value of a tree for a row |
//! | `computed` | expressions in SQL's words |
//! | `like` | texts that match a pattern |
//!
//! Invariants:
//! 1. A tree is at most [`node::DEPTH_MAX`] deep, so to walk it needs little of the stack.
//! 2. The text of an expression reads back as the same expression.

use std::fmt;

use crate::value::Value;
use crate::value::data_type::DataType;

pub(crate) mod computed;
pub(crate) mod evaluate;
pub mod like;
mod name;
pub(crate) mod node;
pub(crate) mod parse;
pub(crate) mod types;

use evaluate::Columns;
pub(crate) use name::{ColumnName, quoted};
use node::{Node, NodeText};

/// A checked expression over the columns of a table, which it knows by their places.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    root: Node,
    /// The type of its values; none if they are all NULL.
    data_type: Option<DataType>,
}

impl Expression {
    /// Reads an expression over these columns.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub(crate) fn parse(text: &str, columns: &[ColumnName<'_>]) -> Result<Expression, String> {
        Expression::check(parse::expression(text, columns)?, columns)
    }

    /// Reads a condition: an expression that is true, false or NULL.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub(crate) fn parse_condition(text: &str, columns: &[ColumnName<'_>]) -> Result<Expression, String> {
        let condition = Expression::parse(text, columns)?;
        match condition.data_type {
            None | Some(DataType::Bool) => Ok(condition),
            Some(other) => Err(format!("{text:?} is of type {other}, and a condition is true or false")),
        }
    }

    /// Checks the types of a tree.
    ///
    /// # Errors
    /// Which types do not go together.
    pub(crate) fn check(mut root: Node, columns: &[ColumnName<'_>]) -> Result<Expression, String> {
        let data_type = types::check(&mut root, columns)?;
        Ok(Expression { root, data_type })
    }

    /// Whether it has its value only when the row is written: it depends on more than the row.
    pub(crate) fn is_when_written(&self) -> bool {
        self.root.is_when_written()
    }

    /// The type of its values; none if they are all NULL.
    pub(crate) fn data_type(&self) -> Option<DataType> {
        self.data_type
    }

    /// The place of the column, if the expression is nothing else.
    pub(crate) fn as_column(&self) -> Option<usize> {
        match self.root {
            Node::Column(place) => Some(place),
            _ => None,
        }
    }

    /// Whether it is the call of a function.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.root, Node::Call { .. })
    }

    /// The places of the columns that it reads.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut places = Vec::new();
        self.root.add_columns(&mut places);
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Its value for a row.
    ///
    /// # Errors
    /// An overflow, a division by zero, a pattern of LIKE that ends with a backslash, and those of reading a column.
    pub(crate) fn evaluate<'r>(&'r self, row: &'r impl Columns) -> Result<Value<'r>, evaluate::Failed> {
        evaluate::evaluate(&self.root, row)
    }

    /// Whether a condition is true, false, or neither.
    ///
    /// # Errors
    /// Those of [`Expression::evaluate`].
    pub(crate) fn holds(&self, row: &impl Columns) -> Result<Option<bool>, evaluate::Failed> {
        match self.evaluate(row)? {
            Value::Bool(holds) => Ok(Some(holds)),
            _ => Ok(None),
        }
    }

    /// Its text, with these names of columns.
    pub(crate) fn text(&self, name_of: &dyn Fn(usize) -> String) -> String {
        NodeText { node: &self.root, name_of }.to_string()
    }
}

impl fmt::Display for NodeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.write(f, self.name_of, 0)
    }
}

#[cfg(test)]
mod tests;
