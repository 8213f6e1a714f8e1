//! Answers of commands, for people and for programs.

use std::io::{self, Write};

use serde_json::Value as Json;

use crate::failure::Result;
use crate::grid::Grid;
use crate::interrupts;
use crate::query::{Queryable, object};

/// The answer to one command: a part to be looked at, a line that sums it up, and the same as JSON.
#[derive(Default)]
pub(super) struct Answer {
    /// Text shown as it is, with its line breaks.
    pub(super) text: String,
    pub(super) grid: Option<Grid>,
    /// Text shown below the grid.
    pub(super) below: String,
    /// One line, to which the time is added; may be empty.
    pub(super) summary: String,
    /// The members of the same as a JSON object, each with the text of its value: columns of JSON hold numbers that no
    /// type of numbers does, and members of one name, so nothing of it is parsed.
    pub(super) json: Vec<(String, String)>,
}

impl Answer {
    /// An answer of one line.
    pub(super) fn line(summary: impl Into<String>) -> Answer {
        Answer { summary: summary.into(), ..Answer::default() }
    }

    /// Rows in columns.
    pub(super) fn rows<A: Queryable>(source: &A, records: &[A::Record], summary: impl Into<String>) -> Result<Answer> {
        let rows = records.iter().map(|record| interrupts::check().and_then(|()| json(source, record)));
        let rows = rows.collect::<Result<Vec<String>>>()?;
        let grid = Some(grid(source, records)?);
        let answer = Answer { grid, summary: summary.into(), ..Answer::default() };
        Ok(answer.with_json("rows", format!("[{}]", rows.join(","))))
    }

    /// One row, or none.
    pub(super) fn row<A: Queryable>(source: &A, record: Option<&A::Record>) -> Result<Answer> {
        let Some(record) = record else { return Ok(Answer::line("no row").with("row", Json::Null)) };
        let grid = Some(grid(source, std::slice::from_ref(record))?);
        Ok(Answer { grid, ..Answer::default() }.with_json("row", json(source, record)?))
    }

    /// The same, with one more member in its JSON.
    pub(super) fn with(self, name: &str, value: impl Into<Json>) -> Answer {
        self.with_json(name, value.into().to_string())
    }

    /// The same, with one more member in its JSON, whose value is this JSON.
    pub(super) fn with_json(mut self, name: &str, json: String) -> Answer {
        self.json.push((name.to_owned(), json));
        self
    }

    /// It as a JSON object, on one line; none if it has no member.
    pub(super) fn json(&self) -> Option<String> {
        let members = self.json.iter().map(|(name, json)| (name.as_str(), json.as_str()));
        if self.json.is_empty() { None } else { Some(object(members)) }
    }

    /// Writes it for people, with the time if there is one.
    pub(super) fn print(&self, out: &mut dyn Write, time: Option<&str>) -> io::Result<()> {
        out.write_all(self.text.as_bytes())?;
        if let Some(grid) = self.grid.as_ref().filter(|grid| !grid.is_empty()) {
            grid.print(out)?;
        }
        out.write_all(self.below.as_bytes())?;
        match (self.summary.as_str(), time) {
            ("", None) => Ok(()),
            ("", Some(time)) => writeln!(out, "({time})"),
            (summary, None) => writeln!(out, "{summary}"),
            (summary, Some(time)) => writeln!(out, "{summary}  ({time})"),
        }
    }
}

/// Rows with the names of their columns. Of rows that are numbered the number comes first: it is what commands take.
fn grid<A: Queryable>(source: &A, records: &[A::Record]) -> Result<Grid> {
    let number_column = source.number_column().map(|name| (name.to_owned(), true));
    let is_numbered = number_column.is_some();
    let mut grid = Grid::new(number_column.into_iter().chain(source.header()));
    for record in records {
        interrupts::check()?;
        let number = if is_numbered { Some(source.number(record)?) } else { None };
        grid.push(number.into_iter().chain(source.shown(record)?).collect());
    }
    Ok(grid)
}

/// A row as a JSON object, the number of one that is numbered first.
fn json<A: Queryable>(source: &A, record: &A::Record) -> Result<String> {
    let json = source.json(record)?;
    let Some(name) = source.number_column() else { return Ok(json) };
    let (number, rest) = (source.number(record)?, json.strip_prefix('{').unwrap_or_default());
    let comma = if rest == "}" { "" } else { "," };
    Ok(format!("{{{}:{number}{comma}{rest}", Json::from(name)))
}
