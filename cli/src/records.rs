//! The records of a CSV file or of JSON lines, one after the other, each with the number of the line it begins on.
//!
//! A CSV file begins with the names of its columns; a field that is empty or the missing mark (`NA`) is missing, in
//! quotes or not. Of JSON lines, each is an object; the columns are its members, in the order in which they first
//! appear; a member that is `null` or not there is missing. Members stay the text that they are, digits and all.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Read};

use csv::StringRecord;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::files::Input;

/// How a file holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values, the first line naming the columns.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

impl Format {
    /// The format that a file's name tells, with or without `.zst` at its end.
    pub(crate) fn of_name(name: &str) -> Option<Format> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        }
    }
}

/// A field as the file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    /// There is nothing, or the mark of a missing field.
    Missing,
    /// The empty field of a CSV file: missing as well, but in a column of text that cannot be.
    Empty,
    Text(&'a str),
    /// The text of a value in JSON.
    Json(&'a str),
}

/// Reads records.
pub(crate) struct Records {
    columns: Vec<String>,
    /// Line on which the record at hand begins, from 1.
    line: u64,
    body: Body,
}

enum Body {
    Csv(Box<CsvBody>),
    Jsonl(JsonBody),
}

struct CsvBody {
    reader: csv::Reader<LastBytes<WithEnd>>,
    record: StringRecord,
    missing: String,
    /// For each column asked for, its place in the file.
    places: Vec<usize>,
}

/// The file and then [`END`].
type WithEnd = Chain<Box<dyn Read>, &'static [u8]>;

struct JsonBody {
    reader: BufReader<Box<dyn Read>>,
    bytes: Vec<u8>,
    /// The members of the record at hand, at the places of their columns.
    members: Vec<Option<Box<RawValue>>>,
    places: HashMap<String, usize>,
    /// Whether a column not yet known is an error.
    closed: bool,
}

/// Stands behind the end of every CSV file: if it is not read as a record of its own, a quote before it was never
/// closed.
const END: &[u8] = b"\n\0the end\0";
const END_FIELD: &str = "\0the end\0";

impl Records {
    /// Begins to read `input`; of a CSV file, reads the header.
    pub(crate) fn open(input: Input, format: Format, missing: &str) -> Result<Records> {
        match format {
            Format::Csv => Records::open_csv(input, missing),
            Format::Jsonl => Ok(Records {
                columns: Vec::new(),
                line: 0,
                body: Body::Jsonl(JsonBody {
                    reader: BufReader::new(input.reader),
                    bytes: Vec::new(),
                    members: Vec::new(),
                    places: HashMap::new(),
                    closed: false,
                }),
            }),
        }
    }

    fn open_csv(input: Input, missing: &str) -> Result<Records> {
        let source = LastBytes { reader: input.reader.chain(END), start: 0, bytes: Vec::new() };
        let mut body = CsvBody {
            reader: csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .buffer_capacity(256 << 10)
                .from_reader(source),
            record: StringRecord::new(),
            missing: missing.to_owned(),
            places: Vec::new(),
        };
        let mut line = 0;
        if !body.advance(&mut line)? {
            return Err(Failure::new("the file is empty; its first line must name the columns"));
        }
        let columns: Vec<String> = body.record.iter().map(str::to_owned).collect();
        for (place, name) in columns.iter().enumerate() {
            if name.is_empty() {
                return Err(at_line(line, format!("column {} has no name", place + 1)));
            }
            if columns[..place].contains(name) {
                return Err(at_line(line, format!("two columns have the name {name:?}")));
            }
        }
        body.places = (0..columns.len()).collect();
        Ok(Records { columns, line, body: Body::Csv(Box::new(body)) })
    }

    /// The names of the columns: of a CSV file all of them, of JSON lines those met so far.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// From now on the columns are those of `names`, in that order.
    ///
    /// # Errors
    ///
    /// A CSV file has others, or lacks one. JSON lines may lack any; others among their members are an error of that
    /// line.
    pub(crate) fn expect_columns(&mut self, names: &[String]) -> Result<()> {
        match &mut self.body {
            Body::Csv(body) => {
                if let Some(name) = self.columns.iter().find(|name| !names.contains(name)) {
                    return Err(at_line(1, format!("column {name:?} is not in the table")));
                }
                body.places = names
                    .iter()
                    .map(|name| {
                        let place = self.columns.iter().position(|column| column == name);
                        place.ok_or_else(|| at_line(1, format!("there is no column {name:?}, which the table has")))
                    })
                    .collect::<Result<_>>()?;
            }
            Body::Jsonl(body) => {
                body.places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
                body.closed = true;
            }
        }
        self.columns = names.to_vec();
        Ok(())
    }

    /// Reads the next record; `false` if there are no more.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match &mut self.body {
            Body::Csv(body) => {
                if !body.advance(&mut self.line)? {
                    return Ok(false);
                }
                if body.record.len() != self.columns.len() {
                    let (found, named) = (body.record.len(), self.columns.len());
                    return Err(at_line(
                        self.line,
                        format!("{found} fields, but the first line names {named} columns"),
                    ));
                }
                Ok(true)
            }
            Body::Jsonl(body) => body.advance(&mut self.line, &mut self.columns),
        }
    }

    /// The line on which the record at hand begins, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The field of the record at hand that stands at `place` of the columns.
    pub(crate) fn field(&self, place: usize) -> Field<'_> {
        match &self.body {
            Body::Csv(body) => match body.record.get(body.places[place]) {
                None => Field::Missing,
                Some(text) if text == body.missing => Field::Missing,
                Some("") => Field::Empty,
                Some(text) => Field::Text(text),
            },
            Body::Jsonl(body) => match body.members.get(place).and_then(Option::as_deref).map(RawValue::get) {
                None | Some("null") => Field::Missing,
                Some(json) => Field::Json(json),
            },
        }
    }
}

/// An error of the record that begins on `line`.
pub(crate) fn at_line(line: u64, message: impl std::fmt::Display) -> Failure {
    Failure::new(format!("line {line}: {message}"))
}

impl CsvBody {
    fn advance(&mut self, line: &mut u64) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.record).into_byte_record();
        let read = self.reader.read_byte_record(&mut bytes);
        if !read.map_err(|error| Failure::new(format!("cannot read it: {error}")))? {
            return Ok(false);
        }
        *line = self.start_line(newlines(bytes.as_slice()));
        self.record = StringRecord::from_byte_record(bytes)
            .map_err(|error| at_line(*line, format!("field {} is not UTF-8", error.utf8_error().field() + 1)))?;
        if self.record.iter().next_back().is_some_and(|field| field.ends_with(END_FIELD)) {
            let alone = self.record.len() == 1 && self.record[0].len() == END_FIELD.len();
            if !alone {
                return Err(at_line(*line, "a quote is opened here and never closed"));
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// The line of a record just read that has so many line breaks inside. The reader's own idea of it is that of the
    /// end of the record before, and it has not yet counted the second half of a `\r\n`.
    fn start_line(&self, breaks: u64) -> u64 {
        let end = self.reader.position();
        let terminator_counted = self.reader.get_ref().byte_at(end.byte().saturating_sub(1)) == Some(b'\n');
        end.line() - breaks - u64::from(terminator_counted)
    }
}

impl JsonBody {
    fn advance(&mut self, line: &mut u64, columns: &mut Vec<String>) -> Result<bool> {
        let text = loop {
            self.bytes.clear();
            let size = self.reader.read_until(b'\n', &mut self.bytes);
            if size.map_err(|error| Failure::new(format!("cannot read it: {error}")))? == 0 {
                return Ok(false);
            }
            *line += 1;
            if !self.bytes.trim_ascii().is_empty() {
                break std::str::from_utf8(&self.bytes).map_err(|_| at_line(*line, "it is not UTF-8"))?;
            }
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end();
        let members = match serde_json::from_str(text) {
            Ok(Members(members)) => members,
            Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                return Err(at_line(*line, "it is JSON, but not an object"));
            }
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default();
                return Err(at_line(*line, format!("it is not JSON: {reason} at column {}", error.column())));
            }
        };
        self.members.fill_with(|| None);
        for (name, value) in members {
            let place = match self.places.get(&name) {
                Some(place) => *place,
                None if self.closed => {
                    return Err(at_line(*line, format!("member {name:?} is not a column of the table")));
                }
                None => {
                    self.places.insert(name.clone(), columns.len());
                    columns.push(name);
                    columns.len() - 1
                }
            };
            if place >= self.members.len() {
                self.members.resize_with(place + 1, || None);
            }
            self.members[place] = Some(value);
        }
        Ok(true)
    }
}

/// The members of an object, in their order, each with the text of its value.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Members, D::Error> {
        struct Taking;

        impl<'de> Visitor<'de> for Taking {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Taking)
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// A reader that still knows the bytes it gave last.
struct LastBytes<R> {
    reader: R,
    /// Offset of `bytes` in the whole.
    start: u64,
    bytes: Vec<u8>,
}

impl<R> LastBytes<R> {
    fn byte_at(&self, offset: u64) -> Option<u8> {
        self.bytes.get(usize::try_from(offset.checked_sub(self.start)?).ok()?).copied()
    }
}

impl<R: Read> Read for LastBytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.reader.read(buffer)?;
        if size > 0 {
            self.start += self.bytes.len() as u64;
            self.bytes.clear();
            self.bytes.extend_from_slice(&buffer[..size]);
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests;
