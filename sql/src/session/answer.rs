//! Answers of statements: columns, rows, how far they have come.

use crate::copy::CopyFormat;
use crate::error::{Result, SqlError};
use crate::session::copy_state::CopyState;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// A column of a result, as RowDescription tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// The number of the table that it is a column of; 0 if it is computed.
    pub table: u32,
    /// The number of that column; 0 if it is computed.
    pub column: i16,
}

/// Whether a session is in a transaction, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In none.
    Idle,
    /// In one.
    InTransaction,
    /// In one that has failed: it can only be rolled back.
    Failed,
}

/// A COPY that waits for its data.
pub struct CopyIn {
    /// How the data is written.
    pub format: CopyFormat,
    /// How many columns it has.
    pub columns: usize,
    /// Where the rows go.
    pub(crate) state: Box<CopyState>,
}

impl std::fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyIn").field("format", &self.format).field("columns", &self.columns).finish()
    }
}

/// How far a portal has come.
#[derive(Debug)]
pub enum Progress {
    /// It has more rows.
    Suspended,
    /// It is done, with this tag: `INSERT 0 1`.
    Done(String),
    /// The statement was empty.
    Empty,
    /// It waits for the data of a COPY.
    CopyIn(CopyIn),
}

/// What takes the rows of a result, in order. An error that it returns ends the statement.
pub trait Sink {
    /// A row: a value for each column.
    ///
    /// # Errors
    /// Those of the connection, or of a value that cannot be written.
    fn row(&mut self, values: &[Datum]) -> Result<()>;

    /// COPY begins to send data. A sink of statements that are no COPY needs neither this nor the next.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<()> {
        let (_, _) = (format, columns);
        Ok(())
    }

    /// Data of a COPY: a row, a header or an end.
    ///
    /// # Errors
    /// Those of the connection.
    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let _ = data;
        Ok(())
    }

    /// Something that the client should know, which is no failure.
    fn notice(&mut self, notice: &SqlError);

    /// A parameter that clients are told of has changed: `TimeZone`, `client_encoding`, `application_name`.
    fn setting_changed(&mut self, name: &str, value: &str);
}

/// A statement without rows is done, with this tag.
pub(super) fn done(tag: &str) -> Result<Option<Progress>> {
    Ok(Some(Progress::Done(tag.to_owned())))
}
