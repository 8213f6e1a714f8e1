//! Tables of figures: for a person as Markdown with bars, for a program as lines of JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// One figure. Units are fixed, so that JSON needs no parsing.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A time, in nanoseconds.
    Nanos(f64),
    /// Things per second.
    PerSecond(f64),
    /// Bytes.
    Bytes(f64),
    /// How many times something.
    Times(f64),
    /// A change, in percent.
    Percent(f64),
    /// Not measured, or not known.
    Missing,
}

impl Cell {
    /// A name.
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// A time, in seconds.
    pub fn seconds(seconds: f64) -> Self {
        Cell::Nanos(seconds * 1e9)
    }

    fn value(&self) -> Option<f64> {
        match self {
            Cell::Text(_) | Cell::Missing => None,
            Cell::Count(count) => Some(*count as f64),
            Cell::Nanos(value)
            | Cell::PerSecond(value)
            | Cell::Bytes(value)
            | Cell::Times(value)
            | Cell::Percent(value) => Some(*value),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) => json!(count),
            Cell::Missing => Value::Null,
            _ => json!(self.value()),
        }
    }

    /// The suffix that tells a program the unit.
    fn unit(&self) -> &'static str {
        match self {
            Cell::Text(_) | Cell::Count(_) | Cell::Missing => "",
            Cell::Nanos(_) => "_ns",
            Cell::PerSecond(_) => "_per_s",
            Cell::Bytes(_) => "_bytes",
            Cell::Times(_) => "_ratio",
            Cell::Percent(_) => "_percent",
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Count(count) => f.write_str(&grouped(*count)),
            Cell::Nanos(nanos) => match nanos.abs() {
                value if value < 1e3 => write!(f, "{} ns", three_digits(*nanos)),
                value if value < 1e6 => write!(f, "{} us", three_digits(nanos / 1e3)),
                value if value < 1e9 => write!(f, "{} ms", three_digits(nanos / 1e6)),
                _ => write!(f, "{} s", three_digits(nanos / 1e9)),
            },
            Cell::PerSecond(rate) => match *rate {
                rate if rate < 1e3 => write!(f, "{}", three_digits(rate)),
                rate if rate < 1e6 => write!(f, "{}k", three_digits(rate / 1e3)),
                rate => write!(f, "{}M", three_digits(rate / 1e6)),
            },
            Cell::Bytes(bytes) => match bytes.abs() {
                value if value < 1e3 => write!(f, "{} B", three_digits(*bytes)),
                value if value < 1e6 => write!(f, "{} kB", three_digits(bytes / 1e3)),
                value if value < 1e9 => write!(f, "{} MB", three_digits(bytes / 1e6)),
                _ => write!(f, "{} GB", three_digits(bytes / 1e9)),
            },
            Cell::Times(times) => write!(f, "{times:.2}"),
            Cell::Percent(percent) => write!(f, "{percent:+.2} %"),
            Cell::Missing => f.write_str("-"),
        }
    }
}

/// `1234567` as `1,234,567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude < 10.0 => format!("{value:.2}"),
        magnitude if magnitude < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Figures under headings.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
    bars: Option<(&'static str, usize)>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Table { title: title.into(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new(), bars: None }
    }

    /// Draws a bar for the figure in `column`, to scale among rows that agree in their first `group` columns.
    #[must_use]
    pub fn with_bars(mut self, column: &'static str, group: usize) -> Self {
        self.bars = Some((column, group));
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it is not as long as the heading.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row of {} does not fit its heading", self.title);
        self.rows.push(row);
    }

    /// Adds a line of text below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Markdown that is also a readable plain text.
    pub fn markdown(&self) -> String {
        let mut lines: Vec<Vec<String>> = vec![self.columns.iter().map(|column| (*column).to_owned()).collect()];
        lines.extend(self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()));
        if let Some((column, group)) = self.bars {
            lines[0].push(String::new());
            for (line, bar) in lines[1..].iter_mut().zip(self.drawn_bars(column, group)) {
                line.push(bar);
            }
        }
        let width_of = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..lines[0].len()).map(width_of).collect();
        let left = |column: usize| {
            column >= self.columns.len() || self.rows.iter().any(|row| matches!(row[column], Cell::Text(_)))
        };

        let mut text = format!("## {}\n\n", self.title);
        for (number, line) in lines.iter().enumerate() {
            for (column, cell) in line.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if left(column) { ("", pad.as_str()) } else { (pad.as_str(), "") };
                let _ = write!(text, "| {before}{cell}{after} ");
            }
            text.push_str("|\n");
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let colon = if left(column) { '-' } else { ':' };
                    let _ = write!(text, "|-{}{colon}", "-".repeat(*width));
                }
                text.push_str("|\n");
            }
        }
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }

    fn drawn_bars(&self, column: &'static str, group: usize) -> Vec<String> {
        const WIDTH: f64 = 24.0;
        let column = self.columns.iter().position(|name| *name == column).unwrap_or(0);
        let longest = |like: &[Cell]| {
            let rows = self.rows.iter().filter(|row| row[..group] == like[..group]);
            rows.filter_map(|row| row[column].value()).fold(0.0, f64::max)
        };
        let bar = |row: &Vec<Cell>| match (row[column].value(), longest(row)) {
            (Some(value), longest) if longest > 0.0 => {
                let eighths = (value.max(0.0) / longest * WIDTH * 8.0).round() as usize;
                let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
                "█".repeat(eighths / 8) + part
            }
            _ => String::new(),
        };
        self.rows.iter().map(bar).collect()
    }

    /// One JSON object a row; a figure's unit stands last in its name.
    pub fn json_lines(&self, workload: &str) -> String {
        let mut lines = String::new();
        for row in &self.rows {
            let mut object = Map::new();
            object.insert("workload".to_owned(), json!(workload));
            object.insert("table".to_owned(), json!(self.title));
            for (number, cell) in row.iter().enumerate() {
                let name = json_name(self.columns[number]);
                // A missing figure has the unit of its column's others.
                let mut like = std::iter::once(row).chain(&self.rows).map(|row| row[number].unit());
                object.insert(name + like.find(|unit| !unit.is_empty()).unwrap_or_default(), cell.json());
            }
            let _ = writeln!(lines, "{}", Value::Object(object));
        }
        lines
    }
}

/// A column's heading as a name: `99 %, beside` as `99_percent_beside`.
fn json_name(heading: &str) -> String {
    let spelled = heading.to_lowercase().replace('%', "percent");
    let words: Vec<&str> =
        spelled.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("inserts", &["rows", "store", "time", "rate"]).with_bars("rate", 1);
        table.push(vec![Cell::Count(1_000), Cell::text("a"), Cell::seconds(0.5), Cell::PerSecond(2_000.0)]);
        table.push(vec![Cell::Count(1_000), Cell::text("b"), Cell::Missing, Cell::PerSecond(1_000.0)]);
        table.note("a note");
        table
    }

    #[test]
    fn markdown_is_aligned_and_has_bars() {
        let text = table().markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "|  rows | store |   time |  rate |                          |");
        assert_eq!(lines[4], "| 1,000 | a     | 500 ms | 2.00k | ████████████████████████ |");
        assert_eq!(lines[5], "| 1,000 | b     |      - | 1.00k | ████████████             |");
        assert!(text.ends_with("\na note\n"));
    }

    #[test]
    fn json_carries_units_in_names() {
        let text = table().json_lines("btree-inserts");
        let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["time_ns"], json!(5e8));
        assert_eq!(first["rate_per_s"], json!(2000.0));
        assert_eq!(first["store"], json!("a"));
        let second: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!(second["time_ns"], Value::Null, "a missing figure has the name of its column's others");
    }

    #[test]
    fn headings_become_names() {
        assert_eq!(json_name("99 %, beside"), "99_percent_beside");
        assert_eq!(json_name("key + value"), "key_value");
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(Cell::Nanos(12_345.0).to_string(), "12.3 us");
        assert_eq!(Cell::PerSecond(2_345_678.0).to_string(), "2.35M");
        assert_eq!(Cell::Bytes(512.0).to_string(), "512 B");
        assert_eq!(Cell::Percent(-1.234).to_string(), "-1.23 %");
        assert_eq!(Cell::Count(12_345_678).to_string(), "12,345,678");
    }
}
