//! Functions and operators: what PostgreSQL has under the same names, with its types and errors.

use jiff::tz::TimeZone;
use quipu_rows::Timestamp;

use crate::error::Result;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// What a function may ask besides its arguments: the session that runs it.
pub trait Environment {
    /// When the transaction began.
    fn transaction_time(&self) -> Timestamp;

    /// When the statement began.
    fn statement_time(&self) -> Timestamp;

    /// The time zone of the session.
    fn time_zone(&self) -> &TimeZone;

    /// What SHOW says of a parameter; none if there is no such.
    fn setting(&self, name: &str) -> Option<String>;

    /// The name of the user.
    fn user(&self) -> &str;

    /// The name of the database.
    fn database(&self) -> &str;

    /// The name of the schema in which tables are created.
    fn schema(&self) -> &str;

    /// The number of the connection.
    fn process(&self) -> i32;

    /// The number of an object by its name, which may have a schema before it.
    ///
    /// # Errors
    /// Those of the name: no such table, type, function, schema or role.
    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32>;

    /// The name of an object, with its schema where it needs one; none if there is no such number.
    fn object_name(&self, kind: BaseType, number: u32) -> Option<String>;

    /// What a function that reads the catalogue answers: `pg_get_indexdef`, `obj_description` and their like.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum>;

    /// Sequences: `nextval`, `currval`, `setval`, `lastval`.
    ///
    /// # Errors
    /// Those of the sequence: not there, at its end, not used in this session.
    fn sequence(&self, function: &str, arguments: &[Datum]) -> Result<Datum>;
}

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
    /// Whether NULL for an argument makes NULL, without a call.
    pub is_strict: bool,
    /// When it has the same value.
    pub volatility: Volatility,
    /// What it does.
    pub call: fn(&dyn Environment, &[Datum]) -> Result<Datum>,
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
}
