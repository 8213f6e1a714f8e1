//! CSV: records of fields that know whether they stood in quotes, and their way out.
//!
//! | in a file | is |
//! |---|---|
//! | `a,b` | two texts |
//! | `a,` | a text, and a field that is missing |
//! | `a,""` | a text, and the empty text |
//! | `"NA"` | the text NA, and not the mark of a missing field, which stands without quotes |
//! | `"a ""b"", c"` | the text `a "b", c` |
//!
//! Records end with `\n`, `\r\n` or `\r`, and empty lines are passed over, but see [`CsvReader::count_empty_lines`]. A
//! quote within a field that does not begin with one is a character as any other, and so is what follows the quote
//! that ends a field. This is RFC 4180 with what is common beyond it.
//!
//! Costs: each byte is copied once; fields of a record are found in it, without memory of their own.

use std::io::{self, Read, Write};

use memchr::{memchr, memchr_iter, memchr3};

use crate::failure::{Failure, Result};

/// The mark of a missing field, if the user names no other.
pub(crate) const MISSING: &str = "NA";

/// What stands between fields in files, the usual one first.
pub(crate) const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

const BUFFER_BYTES: usize = 256 << 10;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads records.
pub(crate) struct CsvReader<R> {
    source: R,
    /// Bytes of the file, of which those from `at` to `end` are not parsed yet.
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    /// The line that `at` is on, from 1.
    line: u64,
    delimiter: u8,
    counts_empty_lines: bool,
    record: Record,
}

/// The record at hand: its fields one after the other.
#[derive(Default)]
struct Record {
    text: String,
    fields: Vec<FieldEnd>,
    /// The line that it begins on.
    line: u64,
}

/// Where a field ends in the record's text.
#[derive(Clone, Copy)]
struct FieldEnd {
    end: usize,
    is_quoted: bool,
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CsvField<'r> {
    pub(crate) text: &'r str,
    /// Whether it began with a quote.
    pub(crate) is_quoted: bool,
}

impl<R: Read> CsvReader<R> {
    /// Begins to read, after a byte order mark if there is one.
    pub(crate) fn new(source: R, delimiter: u8) -> Result<CsvReader<R>> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let record = Record::default();
        let mut reader =
            CsvReader { source, buffer, at: 0, end: 0, line: 1, delimiter, counts_empty_lines: false, record };
        while reader.end < BYTE_ORDER_MARK.len() && reader.fill()? {}
        if reader.buffer[..reader.end].starts_with(BYTE_ORDER_MARK.as_bytes()) {
            reader.at = BYTE_ORDER_MARK.len();
        }
        Ok(reader)
    }

    /// Passes over so many lines.
    pub(crate) fn skip_lines(&mut self, lines: u64) -> Result<()> {
        let until = self.line + lines;
        while self.line < until && self.peek()?.is_some() {
            let left = &self.buffer[self.at..self.end];
            let found = memchr(b'\n', left);
            self.at += found.map_or(left.len(), |place| place + 1);
            self.line += u64::from(found.is_some());
        }
        Ok(())
    }

    /// From now on an empty line is a record of one field, which is missing: so a file of one column that may be NULL
    /// has it.
    pub(crate) fn count_empty_lines(&mut self) {
        self.counts_empty_lines = true;
    }

    /// Reads the next record; `false` if there are no more.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.record.text).into_bytes();
        bytes.clear();
        self.record.fields.clear();
        if !self.read_record(&mut bytes)? {
            return Ok(false);
        }
        let line = self.record.line;
        match String::from_utf8(bytes) {
            // Pieces of one character on both sides of a delimiter would make it whole in the text.
            Ok(text) if self.record.fields.iter().all(|field| text.is_char_boundary(field.end)) => {
                self.record.text = text;
                Ok(true)
            }
            Ok(text) => Err(self.not_utf8(text.as_bytes(), line)),
            Err(error) => Err(self.not_utf8(error.as_bytes(), line)),
        }
    }

    /// The line that the record at hand begins on.
    pub(crate) fn record_line(&self) -> u64 {
        self.record.line
    }

    /// How many fields the record at hand has.
    pub(crate) fn len(&self) -> usize {
        self.record.fields.len()
    }

    /// A field of the record at hand.
    pub(crate) fn field(&self, place: usize) -> Option<CsvField<'_>> {
        let FieldEnd { end, is_quoted } = *self.record.fields.get(place)?;
        let start = if place == 0 { 0 } else { self.record.fields[place - 1].end };
        Some(CsvField { text: &self.record.text[start..end], is_quoted })
    }

    fn read_record(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        while !self.counts_empty_lines && matches!(self.peek()?, Some(b'\n' | b'\r')) {
            self.take_break()?;
        }
        if self.peek()?.is_none() {
            return Ok(false);
        }
        self.record.line = self.line;
        loop {
            let is_quoted = self.peek()? == Some(b'"');
            if is_quoted {
                self.at += 1;
                self.take_quoted(bytes)?;
            }
            self.take_plain(bytes)?;
            self.record.fields.push(FieldEnd { end: bytes.len(), is_quoted });
            match self.peek()? {
                Some(byte) if byte == self.delimiter => self.at += 1,
                Some(_) => {
                    self.take_break()?;
                    return Ok(true);
                }
                None => return Ok(true),
            }
        }
    }

    /// Takes a field up to the quote that ends it.
    fn take_quoted(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        loop {
            if self.peek()?.is_none() {
                let line = self.record.line;
                return Err(Failure::new(format!("line {line}: a quote is opened here and never closed")));
            }
            let left = &self.buffer[self.at..self.end];
            let found = memchr(b'"', left);
            let taken = &left[..found.unwrap_or(left.len())];
            self.line += memchr_iter(b'\n', taken).count() as u64;
            bytes.extend_from_slice(taken);
            self.at += taken.len();
            if found.is_some() {
                self.at += 1;
                if self.peek()? != Some(b'"') {
                    return Ok(());
                }
                bytes.push(b'"');
                self.at += 1;
            }
        }
    }

    /// Takes a field, or the rest of one, up to the next delimiter or the end of the line.
    fn take_plain(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        loop {
            let left = &self.buffer[self.at..self.end];
            let found = memchr3(self.delimiter, b'\n', b'\r', left);
            let taken = &left[..found.unwrap_or(left.len())];
            bytes.extend_from_slice(taken);
            self.at += taken.len();
            if found.is_some() || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Takes the end of a line, which is at hand.
    fn take_break(&mut self) -> Result<()> {
        let is_return = self.buffer[self.at] == b'\r';
        self.at += 1;
        if is_return {
            if self.peek()? != Some(b'\n') {
                return Ok(());
            }
            self.at += 1;
        }
        self.line += 1;
        Ok(())
    }

    /// The next byte; none at the end of the file.
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>> {
        if self.at < self.end || self.fill()? { Ok(Some(self.buffer[self.at])) } else { Ok(None) }
    }

    /// Reads more bytes after those at hand, or in place of them if all are parsed. `false` if there are no more.
    fn fill(&mut self) -> Result<bool> {
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
        }
        let read = loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|error| Failure::new(format!("cannot read it: {error}")))?;
        self.end += read;
        Ok(read > 0)
    }

    #[cold]
    fn not_utf8(&self, bytes: &[u8], line: u64) -> Failure {
        let ends = self.record.fields.iter().map(|field| field.end);
        let starts = std::iter::once(0).chain(ends.clone());
        let is_wrong = |(start, end): (usize, usize)| std::str::from_utf8(&bytes[start..end]).is_err();
        let place = starts.zip(ends).position(is_wrong).map_or(0, |place| place + 1);
        let how = "say what it is, as with `--encoding latin1`";
        Failure::new(format!("line {line}: field {place} is not UTF-8; {how}"))
    }
}

/// Writes the names of the columns. One with what stands between fields in other files is in quotes, so that no
/// program which guesses is misled.
pub(crate) fn write_header<'f>(
    out: &mut (impl Write + ?Sized),
    delimiter: u8,
    names: impl IntoIterator<Item = &'f str>,
) -> io::Result<()> {
    let is_misleading = |name: &str| name.bytes().any(|byte| DELIMITERS.contains(&byte));
    write_fields(out, delimiter, names.into_iter().map(Some), is_misleading)
}

/// Writes a record; a field of `None` is missing. What a reader would take for something else stands in quotes.
pub(crate) fn write_record<'f>(
    out: &mut (impl Write + ?Sized),
    delimiter: u8,
    fields: impl IntoIterator<Item = Option<&'f str>>,
) -> io::Result<()> {
    write_fields(out, delimiter, fields, |_| false)
}

/// Writes a record, of which also those fields stand in quotes that `is_misleading` says.
fn write_fields<'f>(
    out: &mut (impl Write + ?Sized),
    delimiter: u8,
    fields: impl IntoIterator<Item = Option<&'f str>>,
    is_misleading: impl Fn(&str) -> bool,
) -> io::Result<()> {
    for (place, field) in fields.into_iter().enumerate() {
        if place > 0 {
            out.write_all(&[delimiter])?;
        }
        match field {
            None => {}
            Some(text) if needs_quotes(text, delimiter) || is_misleading(text) => {
                out.write_all(b"\"")?;
                for (place, part) in text.split('"').enumerate() {
                    if place > 0 {
                        out.write_all(b"\"\"")?;
                    }
                    out.write_all(part.as_bytes())?;
                }
                out.write_all(b"\"")?;
            }
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

fn needs_quotes(text: &str, delimiter: u8) -> bool {
    // A backslash and a point on a line of their own end the data of a COPY.
    let is_marked = matches!(text, "" | MISSING | "\\.") || text.starts_with(BYTE_ORDER_MARK);
    is_marked || text.bytes().any(|byte| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r'))
}

#[cfg(test)]
mod tests;
