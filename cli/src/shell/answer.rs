//! What a command answers, for people and for programs.

use std::io::{self, Write};

use quipu::Entry;
use quipu_rows::old::{ColumnType, Schema, element_text, escape};
use serde_json::{Map, Value as Json};

use crate::export::row_json;
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

    /// Rows of a table in columns.
    pub(super) fn rows(entries: &[Entry], schema: Option<&Schema>, summary: impl Into<String>) -> Answer {
        let rows: Vec<Json> = entries.iter().map(|entry| row_json(entry, schema)).collect();
        Answer { grid: Some(grid(entries, schema)), summary: summary.into(), ..Answer::default() }.with("rows", rows)
    }

    /// One row, or none.
    pub(super) fn row(entry: Option<&Entry>, schema: Option<&Schema>, summary: impl Into<String>) -> Answer {
        let row = entry.map(|entry| row_json(entry, schema));
        let answer = match entry {
            Some(entry) => Answer {
                grid: Some(grid(std::slice::from_ref(entry), schema)),
                summary: summary.into(),
                ..Answer::default()
            },
            None => Answer::line("no row"),
        };
        answer.with("row", row)
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

/// Rows with the names of their columns; of a table without a schema, keys and values as text.
fn grid(entries: &[Entry], schema: Option<&Schema>) -> Grid {
    let decoded = |schema: &Schema| {
        entries.iter().map(|entry| schema.decode_row(&entry.key, &entry.value)).collect::<Option<Vec<_>>>()
    };
    if let Some(schema) = schema
        && let Some(rows) = decoded(schema)
    {
        let is_number = |column_type| matches!(column_type, ColumnType::Int | ColumnType::Float);
        let mut grid = Grid::new(schema.columns.iter().map(|column| (&column.name, is_number(column.column_type))));
        for row in rows {
            grid.push(row.iter().map(|element| escape(element_text(element).as_bytes())).collect());
        }
        return grid;
    }
    let mut grid = Grid::new([("key", false), ("value", false)]);
    for entry in entries {
        grid.push(vec![escape(&entry.key), escape(&entry.value)]);
    }
    grid
}
