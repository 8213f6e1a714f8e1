//! The records of a file, one after the other: CSV and JSON lines, each with the number of the line it begins on, and
//! Parquet, each with its number.
//!
//! A CSV file begins with the names of its columns, unless it has none. A field that stands in quotes is a text;
//! without quotes, one that is empty or the mark of a missing field may be missing. Of JSON lines, each is an object,
//! as are the elements of a JSON array; the columns are its members, in the order in which they first appear; a member
//! that is
//! `null` is missing, and one that is not there is not given. Members stay the text that they are, digits and all.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufReader, Read};

use quipu_rows::{Column, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::grid::counted;
use crate::table_files::compression::plain_name;
use crate::table_files::csv::{CsvField, CsvReader};
use crate::table_files::files::Input;
use crate::table_files::json::{JsonText, Texts};
#[cfg(feature = "parquet")]
use crate::table_files::parquet::ParquetRecords;

/// Where records are longer than the first line so soon after it, the first lines may be no part of the table.
const PREAMBLE_LINES: u64 = 30;

/// How a file holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Fields between commas or others, the first line naming the columns.
    Csv,
    /// One JSON object a line; on the way in also an array of objects.
    Jsonl,
    /// Columns with types.
    Parquet,
}

impl Format {
    /// The format that a file's name tells, with or without an ending of compression.
    pub(crate) fn of_name(name: &str) -> Option<Format> {
        match ending(name)?.as_str() {
            "csv" | "tsv" | "tab" | "psv" => Some(Format::Csv),
            "json" | "jsonl" | "ndjson" => Some(Format::Jsonl),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }

    /// The format that a file begins as.
    pub(crate) fn of_content(start: &[u8]) -> Format {
        let text = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start).trim_ascii_start();
        match text {
            [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
            // A name of a column hardly begins so.
            [b'{', ..] | [b'[', ..] => Format::Jsonl,
            _ => Format::Csv,
        }
    }
}

/// The last part of a name, without an ending of compression, in lower case.
pub(crate) fn ending(name: &str) -> Option<String> {
    let (_, ending) = plain_name(name).rsplit_once('.')?;
    Some(ending.to_ascii_lowercase())
}

/// What stands between the fields of a CSV file whose name tells it.
pub(crate) fn delimiter_of_name(name: &str) -> Option<u8> {
    match ending(name)?.as_str() {
        "tsv" | "tab" => Some(b'\t'),
        "psv" => Some(b'|'),
        _ => None,
    }
}

/// How a CSV file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsvNotation<'a> {
    /// What stands between two fields.
    pub(crate) delimiter: u8,
    /// The mark of a missing field, which stands without quotes.
    pub(crate) mark: &'a str,
    /// The names of the columns where the first line is a record; `c1`, `c2` and so on in place of those that lack.
    pub(crate) names: Option<&'a [String]>,
    /// Lines that stand before the table.
    pub(crate) skipped_lines: u64,
}

/// A field as the file has it.
#[derive(Clone, Debug)]
pub(crate) enum Field<'a> {
    /// The record says nothing of the column: a member of JSON lines that is not there.
    Absent,
    /// There is no value.
    Missing,
    /// An empty field of a CSV file, without quotes: missing as well, but in a column of text that cannot be.
    Empty,
    /// The mark of a missing field, without quotes: missing, or in a column of text perhaps a text.
    Mark(&'a str),
    Text(&'a str),
    /// The text of a value in JSON.
    Json(&'a str),
    /// A value that has a type in the file.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "other files have no types"))]
    Value(Value<'a>),
}

/// Reads records.
pub(crate) struct Records {
    columns: Vec<String>,
    /// Line on which the record at hand begins, from 1; of Parquet, its number.
    line: u64,
    body: Body,
    /// What a person would like to know of the names of the columns.
    notes: Vec<String>,
}

enum Body {
    Csv(Box<CsvBody>),
    Jsonl(JsonBody),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetBody>),
}

#[cfg(feature = "parquet")]
struct ParquetBody {
    records: ParquetRecords,
    /// For each column asked for, its place in the file.
    places: Vec<usize>,
    consumed_bytes: std::rc::Rc<std::cell::Cell<u64>>,
    total_bytes: u64,
}

struct CsvBody {
    reader: CsvReader<Box<dyn Read>>,
    /// The mark of a missing field.
    mark: String,
    /// For each column asked for, its place in the file.
    places: Vec<usize>,
    /// Whether the record at hand is still to be given.
    is_at_first: bool,
    /// The line of the names, or of the first record.
    first_line: u64,
}

struct JsonBody {
    texts: Texts<BufReader<Box<dyn Read>>>,
    /// The members of the record at hand, at the places of their columns.
    members: Vec<Option<Box<RawValue>>>,
    places: HashMap<String, usize>,
    /// Whether a column not yet known is an error.
    closed: bool,
}

impl Records {
    /// Begins to read `input`; of a CSV file, reads the header.
    pub(crate) fn open(input: Input, format: Format, csv: CsvNotation<'_>) -> Result<Records> {
        match format {
            Format::Csv => Records::open_csv(input, csv),
            Format::Parquet => Records::open_parquet(input),
            Format::Jsonl => Ok(Records {
                columns: Vec::new(),
                line: 0,
                body: Body::Jsonl(JsonBody {
                    texts: Texts::new(BufReader::new(input.reader)),
                    members: Vec::new(),
                    places: HashMap::new(),
                    closed: false,
                }),
                notes: Vec::new(),
            }),
        }
    }

    #[cfg(feature = "parquet")]
    fn open_parquet(input: Input) -> Result<Records> {
        let (consumed_bytes, total_bytes) = (input.consumed_bytes, input.total_bytes);
        let file = input.file.ok_or_else(|| Failure::new("Parquet is read from files"))?;
        let records = ParquetRecords::open(file)?;
        let columns: Vec<String> = records.columns().map(|column| column.name.clone()).collect();
        let places = (0..columns.len()).collect();
        let body = ParquetBody { records, places, consumed_bytes, total_bytes };
        Ok(Records { columns, line: 0, body: Body::Parquet(Box::new(body)), notes: Vec::new() })
    }

    #[cfg(not(feature = "parquet"))]
    fn open_parquet(_: Input) -> Result<Records> {
        Err(without_parquet())
    }

    fn open_csv(input: Input, csv: CsvNotation<'_>) -> Result<Records> {
        let mut reader = CsvReader::new(input.reader, csv.delimiter)?;
        reader.skip_lines(csv.skipped_lines)?;
        if !reader.advance()? {
            let what = if csv.names.is_some() { "" } else { "; its first line must name the columns" };
            return Err(Failure::new(format!("the file is empty{what}")));
        }
        let line = reader.record_line();
        let names: Vec<String> = match csv.names {
            Some(names) if names.len() > reader.len() => {
                let (named, found) = (counted(names.len(), "column"), counted(reader.len(), "field"));
                return Err(at_line(line, format!("{found}, but --columns names {named}")));
            }
            Some(names) => names.to_vec(),
            None => {
                (0..reader.len()).filter_map(|place| reader.field(place)).map(|field| field.text.to_owned()).collect()
            }
        };
        if names.iter().any(|name| name.contains('\0')) {
            let how = "it may be UTF-16: say so with `--encoding utf-16le`";
            return Err(at_line(line, format!("names of columns have zero bytes; {how}")));
        }
        let mut notes = Vec::new();
        if csv.names.is_none() && names.iter().any(|name| name.parse::<f64>().is_ok_and(f64::is_finite)) {
            notes.push(format!(
                "line {line} was taken for the names of the columns, as {}; with --no-header it is a record",
                names.iter().find(|name| name.parse::<f64>().is_ok()).map_or("", String::as_str)
            ));
        }
        let columns = distinct(&names, reader.len(), &mut notes);
        let is_at_first = csv.names.is_some();
        let places = (0..columns.len()).collect();
        let body = CsvBody { reader, mark: csv.mark.to_owned(), places, is_at_first, first_line: line };
        Ok(Records { columns, line, body: Body::Csv(Box::new(body)), notes })
    }

    /// What a person would like to know of the names of the columns.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The columns with their types, if the file says these.
    pub(crate) fn typed_columns(&self) -> Option<Vec<Column>> {
        match &self.body {
            #[cfg(feature = "parquet")]
            Body::Parquet(body) => Some(body.records.columns().cloned().collect()),
            _ => None,
        }
    }

    /// The names of the columns: of JSON lines those met so far, else all of them.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// From now on the columns are those of `names`, in that order.
    ///
    /// # Errors
    ///
    /// A file that names its columns has others, or lacks one. JSON lines may lack any; others among their members are
    /// an error of that line.
    pub(crate) fn expect_columns(&mut self, names: &[String]) -> Result<()> {
        match &mut self.body {
            Body::Csv(body) => body.places = places(&self.columns, names).map_err(|what| at_line(1, what))?,
            #[cfg(feature = "parquet")]
            Body::Parquet(body) => body.places = places(&self.columns, names).map_err(Failure::new)?,
            Body::Jsonl(body) => {
                body.places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
                body.closed = true;
            }
        }
        self.columns = names.to_vec();
        Ok(())
    }

    /// From now on an empty line of a CSV file that has one column is a record.
    pub(crate) fn count_empty_lines(&mut self) {
        if let Body::Csv(body) = &mut self.body
            && self.columns.len() == 1
        {
            body.reader.count_empty_lines();
        }
    }

    /// Reads the next record; `false` if there are no more.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match &mut self.body {
            Body::Csv(body) => {
                if !std::mem::take(&mut body.is_at_first) && !body.reader.advance()? {
                    return Ok(false);
                }
                self.line = body.reader.record_line();
                if body.reader.len() != self.columns.len() {
                    let (found, named) = (body.reader.len(), self.columns.len());
                    let is_longer = found > named;
                    let (found, named) = (counted(found, "field"), counted(named, "column"));
                    let hint = match self.line - body.first_line <= PREAMBLE_LINES && is_longer {
                        true => "; `--skip-lines` passes over lines that stand before a table",
                        false => "",
                    };
                    return Err(at_line(self.line, format!("{found}, but the first line has {named}{hint}")));
                }
                Ok(true)
            }
            Body::Jsonl(body) => body.advance(&mut self.line, &mut self.columns),
            #[cfg(feature = "parquet")]
            Body::Parquet(body) => {
                let is_there = body.records.advance()?;
                self.line = body.records.row();
                body.consumed_bytes.set((body.total_bytes as f64 * body.records.part_read()) as u64);
                Ok(is_there)
            }
        }
    }

    /// Where the record at hand stands in the file.
    pub(crate) fn at(&self) -> At {
        match &self.body {
            #[cfg(feature = "parquet")]
            Body::Parquet(_) => At { unit: "row", number: self.line },
            _ => At { unit: "line", number: self.line },
        }
    }

    /// An error of the names of the columns.
    pub(crate) fn wrong_columns(&self, message: String) -> Failure {
        match &self.body {
            #[cfg(feature = "parquet")]
            Body::Parquet(_) => Failure::new(message),
            _ => at_line(1, message),
        }
    }

    /// The field of the record at hand that stands at `place` of the columns.
    pub(crate) fn field(&self, place: usize) -> Field<'_> {
        match &self.body {
            Body::Csv(body) => match body.reader.field(body.places[place]) {
                None => Field::Missing,
                Some(CsvField { text, is_quoted: true }) => Field::Text(text),
                Some(CsvField { text: "", .. }) => Field::Empty,
                Some(CsvField { text, .. }) if text == body.mark => Field::Mark(text),
                Some(CsvField { text, .. }) => Field::Text(text),
            },
            Body::Jsonl(body) => match body.members.get(place).and_then(Option::as_deref).map(RawValue::get) {
                None => Field::Absent,
                Some("null") => Field::Missing,
                Some(json) => Field::Json(json),
            },
            #[cfg(feature = "parquet")]
            Body::Parquet(body) => match body.records.value(body.places[place]) {
                Value::Null => Field::Missing,
                value => Field::Value(value),
            },
        }
    }
}

/// Says how to build a program that reads and writes Parquet.
#[cfg(not(feature = "parquet"))]
pub(crate) fn without_parquet() -> Failure {
    let how = "`cargo build --release -p quipu-cli --features parquet` builds one that has it";
    Failure::new(format!("this program was built without Parquet; {how}"))
}

/// Names for so many columns, each another one: `c3` for the third if it has none, and `a_2` for the second `a`.
pub(crate) fn distinct(names: &[String], columns: usize, notes: &mut Vec<String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(columns);
    for place in 0..columns {
        let given = names.get(place).map_or("", String::as_str);
        let base = if given.is_empty() { format!("c{}", place + 1) } else { given.to_owned() };
        let later = names.get(place + 1..).unwrap_or_default();
        let is_taken = |name: &String| distinct.contains(name) || name != given && later.contains(name);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default();
        match (given.is_empty(), names.is_empty()) {
            (true, false) => notes.push(format!("column {} has no name: it is {name}", place + 1)),
            (false, _) if name != given => {
                notes.push(format!("two columns have the name {given}: column {} is {name}", place + 1));
            }
            _ => {}
        }
        distinct.push(name);
    }
    distinct
}

/// The places of columns of these names.
fn places(columns: &[String], names: &[String]) -> Result<Vec<usize>, String> {
    if let Some(name) = columns.iter().find(|name| !names.contains(name)) {
        return Err(format!("column {name:?} is not in the table"));
    }
    let place = |name: &String| columns.iter().position(|column| column == name);
    let missing = |name: &String| format!("there is no column {name:?}, which the table has");
    names.iter().map(|name| place(name).ok_or_else(|| missing(name))).collect()
}

/// Where a record stands in a file: the line that it begins on, or its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    unit: &'static str,
    number: u64,
}

impl At {
    /// Some records, by their numbers: `lines 3, 5 and 8`.
    pub(crate) fn list(places: &[At]) -> String {
        let numbers: Vec<String> = places.iter().map(|at| at.number.to_string()).collect();
        let unit = places.first().map_or("line", |at| at.unit);
        match numbers.as_slice() {
            [one] => format!("{unit} {one}"),
            [others @ .., last] => format!("{unit}s {} and {last}", others.join(", ")),
            [] => String::new(),
        }
    }

    /// An error of the record.
    pub(crate) fn failure(self, message: impl fmt::Display) -> Failure {
        Failure::new(format!("{} {}: {message}", self.unit, self.number))
    }
}

/// An error of the record that begins on `line`.
fn at_line(line: u64, message: impl fmt::Display) -> Failure {
    At { unit: "line", number: line }.failure(message)
}

impl JsonBody {
    fn advance(&mut self, line: &mut u64, columns: &mut Vec<String>) -> Result<bool> {
        let Some(JsonText { text, line: begins }) = self.texts.next_text()? else { return Ok(false) };
        *line = begins;
        let members = match serde_json::from_str(text) {
            Ok(Members(members)) => members,
            Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                return Err(at_line(*line, "it is JSON, but not an object"));
            }
            Err(error) if error.is_eof() => {
                let how = "each line is an object, or the file is an array of them";
                return Err(at_line(*line, format!("the object does not end on its line; {how}")));
            }
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default();
                let place = At { unit: "line", number: *line + error.line() as u64 - 1 };
                return Err(place.failure(format_args!("it is not JSON: {reason} at column {}", error.column())));
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
            if self.members[place].replace(value).is_some() {
                return Err(at_line(*line, format!("member {:?} stands there twice", columns[place])));
            }
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

#[cfg(test)]
mod tests;
