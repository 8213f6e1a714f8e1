//! Bytes to rows.

use std::mem;

use crate::copy::CopyFormat;
use crate::copy::lines::Lines;
use crate::copy::options::{CopyOptions, Header};
use crate::copy::{Field, binary, csv, text};
use crate::error::{Result, SqlError, SqlState};
use crate::types::text_encoding::PartDecoder;

/// Memory that is kept while there is no row under way.
const KEPT_BYTES: usize = 64 << 10;
/// Bytes of data that an error shows.
const SHOWN_BYTES: usize = 100;

/// A row that was read.
#[derive(Debug)]
pub struct Row<'d> {
    table: &'d str,
    columns: &'d [String],
    /// The number of its line, or of the row in the binary format; the first is 1.
    pub line: u64,
    /// Its values.
    pub fields: &'d [Field<'d>],
}

impl Row<'_> {
    /// Where a failure is that belongs to the row: `COPY t, line 3`.
    pub fn context(&self) -> String {
        format!("COPY {}, line {}", self.table, self.line)
    }

    /// Where a failure is that belongs to the value at this place: `COPY t, line 3, column a: "x"`.
    pub fn column_context(&self, place: usize) -> String {
        let (table, line) = (self.table, self.line);
        let column = self.columns.get(place).map_or("", |name| name.as_str());
        match self.fields.get(place).and_then(Option::as_ref) {
            None => format!("COPY {table}, line {line}, column {column}: null input"),
            Some(value) => format!("COPY {table}, line {line}, column {column}: \"{}\"", shown(value)),
        }
    }
}

/// Data as an error shows it.
fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let text = String::from_utf8_lossy(part);
    // What was cut within a letter is no letter.
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    format!("{text}{}", if part.len() < bytes.len() { "..." } else { "" })
}

/// How far a decoder has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A header is to come.
    Header,
    /// Rows are.
    Rows,
    /// The mark of the end has come.
    Ended,
}

/// Reads rows in a format of COPY.
///
/// ```
/// use quipu_sql::CopyFormat;
/// use quipu_sql::copy::{CopyOptions, Decoder};
///
/// let mut decoder = Decoder::new(CopyOptions::new(CopyFormat::Text), "t", vec!["a".into(), "b".into()], 1 << 20);
/// let mut rows = Vec::new();
/// let mut take = |row: &quipu_sql::copy::Row<'_>| {
///     rows.push(format!("{}: {:?}", row.line, row.fields.iter().map(|field| field.is_some()).collect::<Vec<_>>()));
///     Ok(())
/// };
/// decoder.feed(b"1\tx\n2\t", &mut take)?;
/// decoder.feed(b"\\N\n", &mut take)?;
/// decoder.finish(&mut take)?;
/// assert_eq!(rows, ["1: [true, true]", "2: [true, false]"]);
/// # Ok::<(), quipu_sql::SqlError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    options: CopyOptions,
    table: String,
    columns: Vec<String>,
    row_bytes_max: usize,
    lines: Lines,
    /// Lines, or rows of the binary format, that were read.
    line: u64,
    stage: Stage,
    /// The row under way.
    kept: Vec<u8>,
    /// Makes data UTF-8, unless that is what they are.
    parts: Option<PartDecoder>,
}

impl Decoder {
    /// With these options, for columns of a table, whose names errors tell. A row of more than `row_bytes_max` bytes is
    /// an error.
    pub fn new(options: CopyOptions, table: impl Into<String>, columns: Vec<String>, row_bytes_max: usize) -> Decoder {
        let has_header = options.format == CopyFormat::Binary || options.header != Header::No;
        let encoding = options.encoding;
        let is_translated = options.format != CopyFormat::Binary && !encoding.is_utf8();
        Decoder {
            parts: is_translated.then(|| PartDecoder::new(encoding)),
            lines: Lines::new(&options),
            options,
            table: table.into(),
            columns,
            row_bytes_max,
            line: 0,
            stage: if has_header { Stage::Header } else { Stage::Rows },
            kept: Vec::new(),
        }
    }

    /// Takes data, and gives the rows that are whole to `each`.
    ///
    /// # Errors
    /// [`BAD_COPY_FILE_FORMAT`](SqlState::BAD_COPY_FILE_FORMAT) if the data are malformed,
    /// [`PROGRAM_LIMIT_EXCEEDED`](SqlState::PROGRAM_LIMIT_EXCEEDED) if a row is too long, and those of `each`. All say
    /// in which line.
    pub fn feed(&mut self, data: &[u8], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        if self.parts.is_some() { self.feed_translated(data, false, each) } else { self.feed_utf8(data, each) }
    }

    fn feed_translated(
        &mut self,
        data: &[u8],
        is_last: bool,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let mut text = String::new();
        let translated = parts.decode(data, is_last, &mut text);
        self.feed_utf8(text.as_bytes(), each)?;
        translated.map_err(|error| self.at_next_line(error))
    }

    fn feed_utf8(&mut self, data: &[u8], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let mut kept = mem::take(&mut self.kept);
        if kept.is_empty() {
            let consumed = self.take(data, false, each)?;
            kept.extend_from_slice(&data[consumed..]);
        } else {
            kept.extend_from_slice(data);
            let consumed = self.take(&kept, false, each)?;
            kept.drain(..consumed);
        }
        if kept.is_empty() {
            kept.shrink_to(KEPT_BYTES);
        }
        self.kept = kept;
        self.check_length(self.kept.len())
    }

    /// Takes the end of the data, which may be the end of a row.
    ///
    /// # Errors
    /// As for [`Decoder::feed`].
    pub fn finish(&mut self, each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        self.feed_translated(b"", true, each)?;
        let kept = mem::take(&mut self.kept);
        let consumed = self.take(&kept, true, each)?;
        let is_cut = consumed < kept.len() || self.stage == Stage::Header;
        if self.options.format == CopyFormat::Binary && is_cut && self.stage != Stage::Ended {
            let text =
                if kept.is_empty() { "COPY file signature not recognized" } else { "unexpected EOF in COPY data" };
            return Err(self.at_line(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, text)));
        }
        Ok(())
    }

    /// How many lines, or rows of the binary format, it has read.
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// Reads the rows that are whole; returns how many bytes they have.
    fn take(&mut self, data: &[u8], is_last: bool, each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<usize> {
        if self.options.format == CopyFormat::Binary {
            return self.take_binary(data, each);
        }
        let (mut consumed, mut fields) = (0, Vec::new());
        while self.stage != Stage::Ended {
            let found = self.lines.find(&data[consumed..], is_last);
            let Some(line) = found.map_err(|error| self.at_next_line(error))? else { return Ok(consumed) };
            self.line += 1 + line.inner_lines;
            self.check_length(line.length)?;
            let bytes = &data[consumed..consumed + line.length];
            consumed += line.consumed;
            if bytes == b"\\." {
                self.stage = Stage::Ended;
                break;
            }
            fields.clear();
            self.split(bytes, &mut fields)?;
            if mem::replace(&mut self.stage, Stage::Rows) == Stage::Header {
                self.check_header(&fields)?;
                continue;
            }
            if self.columns.is_empty() && bytes.is_empty() {
                fields.clear();
            }
            if fields.len() != self.columns.len() {
                return Err(self.wrong_count(fields.len(), bytes));
            }
            self.give(&fields, each)?;
        }
        // What follows the end is left out.
        Ok(data.len())
    }

    fn take_binary(&mut self, data: &[u8], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<usize> {
        let mut consumed = 0;
        if self.stage == Stage::Header {
            match binary::header(data).map_err(|error| self.at_line(error))? {
                None => return Ok(0),
                Some(length) => (consumed, self.stage) = (length, Stage::Rows),
            }
        }
        while self.stage == Stage::Rows {
            match binary::row(&data[consumed..], self.columns.len()).map_err(|error| self.at_next_line(error))? {
                binary::Part::Lacking => return Ok(consumed),
                binary::Part::End(length) => {
                    consumed += length;
                    self.stage = Stage::Ended;
                }
                binary::Part::Row(fields, length) => {
                    self.line += 1;
                    self.check_length(length)?;
                    self.give(&fields, each)?;
                    consumed += length;
                }
            }
        }
        if consumed < data.len() {
            let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "received copy data after EOF marker");
            return Err(self.at_next_line(error));
        }
        Ok(consumed)
    }

    fn split<'l>(&self, line: &'l [u8], fields: &mut Vec<Field<'l>>) -> Result<()> {
        match self.options.format {
            CopyFormat::Csv => csv::split(line, &self.options, fields).map_err(|error| self.at_line_of(error, line)),
            _ => {
                text::split(line, &self.options, fields);
                Ok(())
            }
        }
    }

    fn give(&self, fields: &[Field<'_>], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let row = Row { table: &self.table, columns: &self.columns, line: self.line, fields };
        each(&row).map_err(|error| if error.parts().context.is_some() { error } else { self.at_line(error) })
    }

    fn check_header(&self, fields: &[Field<'_>]) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let wrong = |text: String| Err(self.at_line(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, text)));
        if fields.len() != self.columns.len() {
            let (got, expected) = (fields.len(), self.columns.len());
            return wrong(format!("wrong number of fields in header line: got {got}, expected {expected}"));
        }
        for (place, (field, name)) in fields.iter().zip(&self.columns).enumerate() {
            let got = match field {
                Some(field) if **field == *name.as_bytes() => continue,
                Some(field) => format!("\"{}\"", shown(field)),
                None => format!("null value (\"{}\")", shown(&self.options.null)),
            };
            let number = place + 1;
            return wrong(format!(
                "column name mismatch in header line field {number}: got {got}, expected \"{name}\""
            ));
        }
        Ok(())
    }

    fn check_length(&self, length: usize) -> Result<()> {
        if length <= self.row_bytes_max {
            return Ok(());
        }
        let text = format!("a row of COPY is longer than the {} bytes that one may have", self.row_bytes_max);
        Err(self.at_next_line(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)))
    }

    fn wrong_count(&self, found: usize, line: &[u8]) -> SqlError {
        let text = match self.columns.get(found) {
            Some(name) => format!("missing data for column \"{name}\""),
            None => "extra data after last expected column".to_owned(),
        };
        self.at_line_of(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, text), line)
    }

    fn at_line(&self, error: SqlError) -> SqlError {
        error.in_context(format!("COPY {}, line {}", self.table, self.line))
    }

    /// Of a row that was not read to its end.
    fn at_next_line(&self, error: SqlError) -> SqlError {
        error.in_context(format!("COPY {}, line {}", self.table, self.line + 1))
    }

    fn at_line_of(&self, error: SqlError, line: &[u8]) -> SqlError {
        error.in_context(format!("COPY {}, line {}: \"{}\"", self.table, self.line, shown(line)))
    }
}
