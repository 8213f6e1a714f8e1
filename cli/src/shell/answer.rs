//! What a command answers, for people and for programs.

use std::io::{self, Write};

use serde_json::{Map, Value as Json};

use crate::asked::Asked;
use crate::failure::Result;
use crate::grid::Grid;

/// The answer to one command: a part to be looked at, a line that sums it up, and the same as JSON.
#[derive(Default)]
pub(super) struct Answer {
    /// Text shown as it is, with its line breaks.
    pub(super) text: String,
    pub(super) grid: Option<Grid>,
    /// Text shown behind the grid.
    pub(super) below: String,
    /// One line, to which the time is added; may be empty.
    pub(super) summary: String,
    pub(super) json: Map<String, Json>,
}

impl Answer {
    /// An answer of one line.
    pub(super) fn line(summary: impl Into<String>) -> Answer {
        Answer { summary: summary.into(), ..Answer::default() }
    }

    /// Rows in columns.
    pub(super) fn rows<A: Asked>(asked: &A, records: &[A::Record], summary: impl Into<String>) -> Result<Answer> {
        let rows = records.iter().map(|record| json(asked, record)).collect::<Result<Vec<Json>>>()?;
        let grid = Some(grid(asked, records)?);
        Ok(Answer { grid, summary: summary.into(), ..Answer::default() }.with("rows", rows))
    }

    /// One row, or none.
    pub(super) fn row<A: Asked>(asked: &A, record: Option<&A::Record>) -> Result<Answer> {
        let Some(record) = record else { return Ok(Answer::line("no row").with("row", Json::Null)) };
        let grid = Some(grid(asked, std::slice::from_ref(record))?);
        Ok(Answer { grid, ..Answer::default() }.with("row", json(asked, record)?))
    }

    /// The same, with one more member in its JSON.
    pub(super) fn with(mut self, name: &str, value: impl Into<Json>) -> Answer {
        self.json.insert(name.to_owned(), value.into());
        self
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

fn json<A: Asked>(asked: &A, record: &A::Record) -> Result<Json> {
    let text = asked.json(record)?;
    // A JSON column may hold a number that no other type does.
    Ok(serde_json::from_str(&text).unwrap_or(Json::String(text)))
}

/// Rows with the names of their columns.
fn grid<A: Asked>(asked: &A, records: &[A::Record]) -> Result<Grid> {
    let mut grid = Grid::new(asked.header());
    for record in records {
        grid.push(asked.shown(record)?);
    }
    Ok(grid)
}
