//! The ends of rows of text and CSV. A search remembers how far it has come, so bytes that come piece by piece are
//! looked at once.

use crate::copy::CopyFormat;
use crate::copy::options::CopyOptions;
use crate::error::{Result, SqlError, SqlState};

/// How lines end. The first line decides, and all others must do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Lf,
    Cr,
    CrLf,
}

/// A row that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its bytes without its end.
    pub(super) length: usize,
    /// With it.
    pub(super) consumed: usize,
    /// Ends of lines within it, in quotes.
    pub(super) inner_lines: u64,
}

/// A search for the end of a row.
#[derive(Debug)]
pub(super) struct Lines {
    is_csv: bool,
    quote: u8,
    /// Of CSV: what takes away the meaning of a quote; none if that is another quote.
    escape: Option<u8>,
    ending: Option<Ending>,
    /// How far it has come in the row under way.
    at: usize,
    inner_lines: u64,
    in_quotes: bool,
    /// The byte before was an escape in quotes.
    is_escaped: bool,
}

impl Lines {
    pub(super) fn new(options: &CopyOptions) -> Lines {
        Lines {
            is_csv: options.format == CopyFormat::Csv,
            quote: options.quote,
            escape: Some(options.escape).filter(|escape| *escape != options.quote),
            ending: None,
            at: 0,
            inner_lines: 0,
            in_quotes: false,
            is_escaped: false,
        }
    }

    /// The first row of `bytes`, which begin where the row under way does; none if its end has not come.
    pub(super) fn find(&mut self, bytes: &[u8], is_last: bool) -> Result<Option<Line>> {
        while let Some(&byte) = bytes.get(self.at) {
            if self.is_csv {
                self.note_quotes(byte);
            }
            match byte {
                b'\\' if !self.is_csv => {
                    // The next byte, whatever it is, belongs to the row.
                    if self.at + 1 == bytes.len() && !is_last {
                        return Ok(None);
                    }
                    self.at = (self.at + 2).min(bytes.len());
                }
                b'\n' | b'\r' if self.in_quotes => {
                    let counts = byte == b'\n' || self.ending == Some(Ending::Cr);
                    self.inner_lines += u64::from(counts);
                    self.at += 1;
                }
                b'\r' => match self.carriage_return(bytes, is_last)? {
                    Some(length) => return Ok(Some(self.found(length))),
                    None => return Ok(None),
                },
                b'\n' => {
                    if *self.ending.get_or_insert(Ending::Lf) != Ending::Lf {
                        return Err(self.literal("newline", "\\n"));
                    }
                    return Ok(Some(self.found(1)));
                }
                _ => self.at += 1,
            }
        }
        if !is_last || self.at == 0 {
            return Ok(None);
        }
        if self.in_quotes {
            return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
        }
        Ok(Some(self.found(0)))
    }

    fn note_quotes(&mut self, byte: u8) {
        let is_escape = self.escape == Some(byte);
        if self.in_quotes && is_escape {
            self.is_escaped = !self.is_escaped;
        }
        if byte == self.quote && !self.is_escaped {
            self.in_quotes = !self.in_quotes;
        }
        if !is_escape {
            self.is_escaped = false;
        }
    }

    /// How many bytes end the row at a carriage return; none if the next byte must come first.
    fn carriage_return(&mut self, bytes: &[u8], is_last: bool) -> Result<Option<usize>> {
        let has_newline = match bytes.get(self.at + 1) {
            Some(byte) => *byte == b'\n',
            None if is_last || self.ending == Some(Ending::Cr) => false,
            None => return Ok(None),
        };
        let expected = *self.ending.get_or_insert(if has_newline { Ending::CrLf } else { Ending::Cr });
        match (expected, has_newline) {
            (Ending::Cr, _) => Ok(Some(1)),
            (Ending::CrLf, true) => Ok(Some(2)),
            _ => Err(self.literal("carriage return", "\\r")),
        }
    }

    fn found(&mut self, ending_length: usize) -> Line {
        let length = self.at;
        let inner_lines = self.inner_lines;
        (self.at, self.inner_lines, self.in_quotes, self.is_escaped) = (0, 0, false, false);
        Line { length, consumed: length + ending_length, inner_lines }
    }

    fn literal(&self, name: &str, escaped: &str) -> SqlError {
        let error = |text: String, hint: String| SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, text).with_hint(hint);
        if self.is_csv {
            error(format!("unquoted {name} found in data"), format!("Use quoted CSV field to represent {name}."))
        } else {
            error(format!("literal {name} found in data"), format!("Use \"{escaped}\" to represent {name}."))
        }
    }
}
