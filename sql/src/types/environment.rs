//! State that values and functions depend on besides their arguments.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quipu_rows::Timestamp;

use crate::error::{Result, SqlError, SqlState};
use crate::types::BaseType;
use crate::types::date_style::{DateStyle, IntervalStyle};
use crate::types::datum::Datum;

/// What a function may ask besides its arguments: the session that runs it.
pub trait Environment {
    /// When the transaction began.
    fn transaction_time(&self) -> Timestamp;

    /// When the statement began.
    fn statement_time(&self) -> Timestamp;

    /// The time zone of the session.
    fn time_zone(&self) -> &TimeZone;

    /// How the session writes dates, and in which order it reads their fields.
    fn date_style(&self) -> DateStyle;

    /// How the session writes intervals.
    fn interval_style(&self) -> IntervalStyle {
        self.setting("IntervalStyle").map_or_else(IntervalStyle::default, |value| IntervalStyle::of_setting(&value))
    }

    /// The parameter `extra_float_digits`.
    fn float_digits(&self) -> i32 {
        1
    }

    /// Whether the session writes strings of bytes in the form `escape`.
    fn escapes_bytes(&self) -> bool {
        false
    }

    /// What SHOW says of a parameter; none if there is no such.
    fn setting(&self, name: &str) -> Option<String>;

    /// The name of the user.
    fn user(&self) -> &str;

    /// The name of the database.
    fn database(&self) -> &str;

    /// The number of the connection.
    fn process(&self) -> i32;

    /// The number of an object by its name, which may have a schema before it.
    ///
    /// # Errors
    /// Those of the name: no such table, type, function, schema or role.
    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32>;

    /// The name of an object, with its schema where it needs one; none if there is no such number.
    fn object_name(&self, kind: BaseType, number: u32) -> Option<String>;

    /// Whether the user may read a table, which has this name in rows.
    fn may_read(&self, _table: &str) -> bool {
        true
    }

    /// What a function that reads the catalogue answers: `pg_get_indexdef`, `obj_description` and their like.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    fn ask_catalogue(&self, function: &str, arguments: &[Datum]) -> Result<Datum>;

    /// The rows of a table of the catalogue.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    fn catalogue_rows(&self, table: &str) -> Result<Vec<Vec<Datum>>>;

    /// What a function that reads counts in trees returns: `quipu_split` and its like.
    ///
    /// # Errors
    /// Those of the arguments, and of reading.
    fn ask_rows(&self, function: &str, arguments: &[Datum]) -> Result<Vec<Vec<Datum>>>;

    /// A value of the primary key of the row of a table, which has this name, that a cursor stands on.
    ///
    /// # Errors
    /// 34000 if there is no such cursor, 24000 if it stands on no row of the table.
    fn of_cursor(&self, cursor: &str, _table: (&str, &str), _at: usize) -> Result<Datum> {
        let what = format!("cursor \"{cursor}\" does not exist");
        Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, what))
    }

    /// Notes the number that a row was given in an identity column, for `currval` and `lastval`.
    fn note_number(&self, _table: &Arc<str>, _column: &Arc<str>, _number: i64) {}

    /// Sequences: `nextval`, `currval`, `setval`, `lastval`.
    ///
    /// # Errors
    /// Those of the sequence: not there, at its end, not used in this session.
    fn sequence(&self, function: &str, arguments: &[Datum]) -> Result<Datum>;
}
