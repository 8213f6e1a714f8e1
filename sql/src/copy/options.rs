//! Options of COPY: the format and its details.

use crate::error::{Result, SqlError, SqlState};
use crate::types::text_encoding::TextEncoding;

/// How COPY writes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines of texts with tabs between.
    Text,
    /// CSV.
    Csv,
    /// PostgreSQL's binary form.
    Binary,
}

/// Whether the first line has the names of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It is a row.
    No,
    /// It is left out, or written.
    Yes,
    /// It must have the names of the columns, or is written.
    Match,
}

/// Some of the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All.
    All,
    /// Those at these places, counted from 0.
    Some(Vec<usize>),
}

impl Columns {
    /// None.
    pub const NONE: Columns = Columns::Some(Vec::new());

    /// Whether the column at this place is one of them.
    pub fn has(&self, place: usize) -> bool {
        match self {
            Columns::All => true,
            Columns::Some(places) => places.contains(&place),
        }
    }
}

/// What COPY is told of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Which.
    pub format: CopyFormat,
    /// That of the data.
    pub encoding: TextEncoding,
    /// What stands between fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: Vec<u8>,
    /// Whether there is a line of names.
    pub header: Header,
    /// Of CSV: what stands around fields that have a delimiter.
    pub quote: u8,
    /// Of CSV: what stands before a quote within.
    pub escape: u8,
    /// Of CSV, when it is written: columns whose values are quoted always.
    pub force_quote: Columns,
    /// Of CSV, when it is read: columns in which nothing stands for NULL.
    pub force_not_null: Columns,
    /// Of CSV, when it is read: columns in which what stands for NULL does so in quotes, too.
    pub force_null: Columns,
}

impl CopyOptions {
    /// What holds for a format if nothing is said.
    pub fn new(format: CopyFormat) -> CopyOptions {
        let is_csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            encoding: TextEncoding::UTF8,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { Vec::new() } else { b"\\N".to_vec() },
            header: Header::No,
            quote: b'"',
            escape: b'"',
            force_quote: Columns::NONE,
            force_not_null: Columns::NONE,
            force_null: Columns::NONE,
        }
    }

    /// Whether all that is told goes together.
    ///
    /// # Errors
    /// PostgreSQL's sentences about what does not.
    pub fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
        let unsupported = |text: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text));
        let is_end = |byte: u8| byte == b'\n' || byte == b'\r';
        if self.format == CopyFormat::Binary {
            return Ok(());
        }
        if is_end(self.delimiter) {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.iter().any(|byte| is_end(*byte)) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        let is_csv = self.format == CopyFormat::Csv;
        let is_special = matches!(self.delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
        if !is_csv && is_special || !self.delimiter.is_ascii() || self.delimiter == 0 {
            return wrong(&format!("COPY delimiter cannot be \"{}\"", self.delimiter.escape_ascii()));
        }
        if self.null.contains(&self.delimiter) {
            return unsupported("COPY delimiter must not appear in the NULL specification");
        }
        if is_csv {
            if !self.quote.is_ascii() || !self.escape.is_ascii() || is_end(self.quote) || is_end(self.escape) {
                return wrong("COPY quote and escape must be single one-byte characters");
            }
            if self.delimiter == self.quote {
                return wrong("COPY delimiter and quote must be different");
            }
            if self.null.contains(&self.quote) {
                return unsupported("CSV quote character must not appear in the NULL specification");
            }
        }
        Ok(())
    }
}
