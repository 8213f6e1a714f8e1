//! Functions and operators: what PostgreSQL has under the same names, with its types and errors.
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | how a function is defined: its signature as a text, and what it does |
//! | `registry` | all functions and operators by their names |
//! | `resolve` | which function a call means, by the types of its arguments |
//! | `comparison`, `arithmetic`, `mathematics` | operators and functions of numbers |
//! | `degrees` | of angles in degrees |
//! | `strings`, `patterns`, `letter_cases`, `encoding`, `identifiers` | of texts |
//! | `byte_strings` | of bytes |
//! | `networks` | of addresses of networks |
//! | `bits`, `money` | of strings of bits and of money |
//! | `formats`, `number_formats`, `number_patterns`, `time_formats` | values by patterns: `to_char`, `to_date` |
//! | `dates`, `date_parts` | of dates and times |
//! | `arrays`, `subscripts` | of arrays |
//! | `jsons`, `json_values`, `json_records` | of JSON |
//! | `json_paths`, `json_path_text` | what paths of SQL/JSON find; their texts |
//! | `enums`, `ranges` | of enums and ranges |
//! | `system` | what asks the session and the catalogue |
//! | `aggregates`, `statistics` | what adds up rows |
//! | `sets` | what returns rows |
//! | `postgres` | the numbers that they have in PostgreSQL |
//!
//! A call of a NULL to a strict function is NULL; [`Call::run`] sees to it.

use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;
use crate::types::datum::Datum;
use crate::types::text::check_length;

mod aggregates;
mod arithmetic;
mod arrays;
mod bits;
mod byte_strings;
mod comparison;
mod date_parts;
mod dates;
mod definition;
mod degrees;
mod encoding;
mod enums;
mod formats;
pub(crate) mod identifiers;
mod json_path_text;
mod json_paths;
pub(crate) mod json_records;
mod json_values;
mod jsons;
pub mod letter_cases;
mod mathematics;
mod money;
mod networks;
mod number_formats;
mod number_patterns;
mod patterns;
pub(crate) mod postgres;
mod ranges;
mod registry;
mod resolve;
mod sets;
mod statistics;
pub(crate) mod strings;
pub mod subscripts;
mod system;
#[cfg(test)]
mod tests;
mod time_formats;

pub use crate::types::environment::Environment;
pub use aggregates::{Aggregate, AggregateCall, aggregates, make, resolve_aggregate};
pub use definition::Rows;
pub(crate) use json_values::write as write_json;
pub use registry::functions;
pub use resolve::{common_type, common_type_of, resolve_function, resolve_operator};
pub(crate) use resolve::{list, resolve_spread};
pub use sets::{SUBSCRIPTS_OF_VECTOR, Series, SetCall, SetFunction, resolve_set_function, set_functions};
pub(crate) use strings::quote_literal;

/// Whether a function has the same value for the same arguments: for ever, within a statement, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// For ever.
    Immutable,
    /// Within a statement.
    Stable,
    /// Never.
    Volatile,
}

/// A function, or an operator, of certain types.
pub struct Function {
    /// Its name, or the operator's characters.
    pub name: &'static str,
    /// The types that it takes; of a variadic one, the last stands for any number of them.
    pub arguments: &'static [SqlType],
    /// The type that it returns.
    pub returns: SqlType,
    /// Whether the last of the types stands for any number of arguments.
    pub is_variadic: bool,
    /// Whether NULL for an argument makes NULL, without a call.
    pub is_strict: bool,
    /// Whether it must know the types of its arguments: `call` gets one record of them. [`Call::run`] makes it.
    pub takes_types: bool,
    /// When it has the same value.
    pub volatility: Volatility,
    /// What it does.
    pub call: fn(&dyn Environment, &[Datum]) -> Result<Datum>,
}

/// A function, or an operator, with the types of one call.
#[derive(Clone)]
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// The types that its arguments must be cast to, one for each.
    pub arguments: Vec<SqlType>,
    /// The type of the result.
    pub returns: SqlType,
    /// Whether the last argument is an array whose elements are the last arguments of the function.
    pub is_spread: bool,
}

impl Call {
    /// Calls the function with values of the types of `arguments`; NULL for a NULL if it is strict.
    ///
    /// # Errors
    /// Those of the function; 54000 if a text gets too long; XX000 if there are more values than types.
    pub fn run(&self, environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
        let value = self.run_unbounded(environment, values)?;
        match &value {
            Datum::Text(text) | Datum::Json(text) => check_length(text.len())?,
            Datum::Bytes(bytes) => check_length(bytes.len())?,
            _ => {}
        }
        Ok(value)
    }

    fn run_unbounded(&self, environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
        if self.is_spread {
            return self.run_spread(environment, values);
        }
        if self.function.is_strict && values.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        if values.len() != self.arguments.len() {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a call has another number of arguments"));
        }
        if self.function.takes_types {
            let fields = self.arguments.iter().copied().zip(values.iter().cloned()).collect();
            return (self.function.call)(environment, &[Datum::record(fields)]);
        }
        (self.function.call)(environment, values)
    }

    /// Calls the function with the elements of the last value for its last arguments; NULL for NULL, but `format` has
    /// nothing to show then.
    fn run_spread(&self, environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
        let (Some((last, values)), Some((of_last, types))) = (values.split_last(), self.arguments.split_last()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a call has another number of arguments"));
        };
        let elements = match last {
            Datum::Array(array) => &array.elements[..],
            Datum::Null if self.function.name == "format" => &[],
            _ => return Ok(Datum::Null),
        };
        let of_elements = std::iter::repeat_n(of_last.element(), elements.len());
        let arguments = types.iter().copied().chain(of_elements).collect();
        Call { arguments, is_spread: false, ..self.clone() }.run(environment, &[values, elements].concat())
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spread = if self.is_spread { "VARIADIC " } else { "" };
        write!(f, "{}({spread}{:?}) {:?}", self.function.name, self.arguments, self.returns)
    }
}

/// What adds up rows of a group.
pub trait Accumulator {
    /// Takes the arguments of a row.
    ///
    /// # Errors
    /// An overflow.
    fn add(&mut self, arguments: &[Datum]) -> Result<()>;

    /// The value of the rows taken so far.
    ///
    /// # Errors
    /// An overflow.
    fn finish(&self) -> Result<Datum>;

    /// Whether it makes no difference in which order it takes rows.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Whether it keeps what it takes, so that this counts as memory of the statement.
    fn keeps_arguments(&self) -> bool {
        false
    }
}
