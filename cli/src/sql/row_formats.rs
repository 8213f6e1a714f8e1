//! The formats in which `quipu sql` prints rows: aligned columns, a value a line, CSV, JSON.
//!
//! Rows stream: columns are aligned over so many rows at a time, and are not narrower than they were before.
//!
//! Not here: the columns of all other commands (`grid`), what a statement answers besides rows (`printer`), and which
//! fields of CSV stand in quotes (`table_files/csv`).

use std::io::{self, Write};

use quipu_rows::DataType;
use unicode_width::UnicodeWidthStr;

use super::backend::Column;
use crate::table_files::csv;

/// How many rows are aligned together, and how many bytes of them.
const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 8 << 20;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Aligned,
    /// A value a line.
    Expanded,
    Csv,
    /// An object a line.
    Json,
}

/// What stands around a result for people.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    /// A heading.
    pub(super) title: Option<String>,
    /// Whether the rows are not counted, since something else follows them.
    pub(super) is_open: bool,
}

/// A result while it is printed.
pub(super) struct Table {
    format: Format,
    frame: Frame,
    columns: Vec<Column>,
    widths: Vec<usize>,
    /// How wide values of several lines, one below the other, are.
    widest: usize,
    batch: Vec<Vec<Option<String>>>,
    batch_bytes: usize,
    rows: u64,
    has_header: bool,
}

impl Table {
    /// Of these columns.
    pub(super) fn new(format: Format, frame: Frame, mut columns: Vec<Column>) -> Table {
        if format == Format::Json {
            make_distinct(&mut columns);
        }
        let widths = columns.iter().map(|column| printable(&column.name).width()).collect();
        let (batch, batch_bytes, rows) = (Vec::new(), 0, 0);
        Table { format, frame, columns, widths, widest: 0, batch, batch_bytes, rows, has_header: false }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, out: &mut dyn Write, values: &[Option<&str>]) -> io::Result<()> {
        self.rows += 1;
        match self.format {
            Format::Aligned | Format::Expanded => {
                self.batch_bytes += values.iter().flatten().map(|value| value.len()).sum::<usize>();
                self.batch.push(values.iter().map(|value| value.map(printable)).collect());
                if self.batch.len() >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
                    self.flush(out)?;
                }
                Ok(())
            }
            Format::Csv => {
                self.csv_header(out)?;
                csv::write_record(out, b',', values.iter().copied())
            }
            Format::Json => self.json(out, values),
        }
    }

    /// Prints what is left, and how many rows there were.
    pub(super) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Aligned => {
                self.flush(out)?;
                match self.frame.is_open {
                    true => Ok(()),
                    false => writeln!(out, "({} row{})\n", self.rows, if self.rows == 1 { "" } else { "s" }),
                }
            }
            Format::Expanded => {
                self.flush(out)?;
                writeln!(out, "{}", if self.rows == 0 { "(0 rows)\n" } else { "" })
            }
            Format::Csv => self.csv_header(out),
            Format::Json => Ok(()),
        }
    }

    /// Prints the rows at hand.
    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let widest = |value: &Option<String>| {
            let lines = value.iter().flat_map(|value| value.split('\n'));
            lines.map(UnicodeWidthStr::width).max().unwrap_or(0)
        };
        if self.format == Format::Expanded {
            self.widest = batch.iter().flatten().map(widest).max().unwrap_or(0).max(self.widest);
            self.title(out, 0)?;
            let first = self.rows - batch.len() as u64 + 1;
            return (first..).zip(&batch).try_for_each(|(number, row)| self.expanded(out, number, row));
        }
        for row in &batch {
            for (width, value) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(widest(value));
            }
        }
        self.title(out, self.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1))?;
        if std::mem::replace(&mut self.has_header, true) {
            // The columns have their names already.
        } else if self.columns.is_empty() {
            writeln!(out, "--")?;
        } else {
            let cells = self.columns.iter().zip(&self.widths).map(|(column, &width)| {
                let name = printable(&column.name).replace('\n', " ");
                let left = width.saturating_sub(name.width());
                format!(" {}{name}{} ", " ".repeat(left / 2), " ".repeat(left.div_ceil(2)))
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("|"))?;
            let rules: Vec<String> = self.widths.iter().map(|width| "-".repeat(width + 2)).collect();
            writeln!(out, "{}", rules.join("+"))?;
        }
        for row in &batch {
            self.aligned(out, row)?;
        }
        Ok(())
    }

    /// Prints the heading in the middle of so wide a table, once.
    fn title(&mut self, out: &mut dyn Write, width: usize) -> io::Result<()> {
        match self.frame.title.take() {
            Some(title) => writeln!(out, "{}{title}", " ".repeat(width.saturating_sub(title.width()) / 2)),
            None => Ok(()),
        }
    }

    /// A row; values of several lines go on below, marked by a plus sign.
    fn aligned(&self, out: &mut dyn Write, row: &[Option<String>]) -> io::Result<()> {
        if row.is_empty() {
            return Ok(());
        }
        let cells: Vec<Vec<&str>> =
            row.iter().map(|value| value.as_deref().unwrap_or_default().split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let mut line = String::new();
        for place in 0..height {
            line.clear();
            for (number, (lines, &width)) in cells.iter().zip(&self.widths).enumerate() {
                let text = lines.get(place).copied().unwrap_or_default();
                let blanks = " ".repeat(width.saturating_sub(text.width()));
                let goes_on = place + 1 < lines.len();
                let is_last = number + 1 == cells.len();
                line.push(' ');
                if self.columns.get(number).is_some_and(Column::is_at_right) {
                    if !is_last || place < lines.len() {
                        line.push_str(&blanks);
                    }
                    line.push_str(text);
                } else {
                    line.push_str(text);
                    if !is_last || goes_on {
                        line.push_str(&blanks);
                    }
                }
                match (goes_on, is_last) {
                    (true, _) => line.push('+'),
                    (false, false) => line.push(' '),
                    (false, true) => {}
                }
                if !is_last {
                    line.push('|');
                }
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn expanded(&self, out: &mut dyn Write, number: u64, row: &[Option<String>]) -> io::Result<()> {
        let (names, widest) = (self.widths.iter().copied().max().unwrap_or(0), self.widest);
        let head = format!("-[ RECORD {number} ]");
        let rule = (names + widest + 3).saturating_sub(head.len());
        if head.len() <= names + 1 {
            let (left, right) = (names + 1 - head.len(), widest + 1);
            writeln!(out, "{head}{}+{}", "-".repeat(left), "-".repeat(right))?;
        } else {
            writeln!(out, "{head}{}", "-".repeat(rule))?;
        }
        for (column, text) in self.columns.iter().zip(row) {
            let text = text.as_deref().unwrap_or_default();
            let name = printable(&column.name).replace('\n', " ");
            let blanks = " ".repeat(names - name.width().min(names));
            let mut lines = text.split('\n').peekable();
            let mut start = format!("{name}{blanks}");
            while let Some(line) = lines.next() {
                match lines.peek() {
                    Some(_) => {
                        writeln!(out, "{start} | {line}{}+", " ".repeat(widest.saturating_sub(line.width())))?;
                    }
                    None => writeln!(out, "{start} | {line}")?,
                }
                start = " ".repeat(names);
            }
        }
        Ok(())
    }

    fn csv_header(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        csv::write_header(out, b',', self.columns.iter().map(|column| column.name.as_str()))
    }

    fn json(&self, out: &mut dyn Write, values: &[Option<&str>]) -> io::Result<()> {
        out.write_all(b"{")?;
        for (place, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &column.name)?;
            out.write_all(b":")?;
            match value {
                None => out.write_all(b"null")?,
                Some(value) if column.is_bool() => out.write_all(if *value == "t" { b"true" } else { b"false" })?,
                // Its text, as `quipu export` writes it: no type holds all numbers, or two members of one name.
                Some(value) if column.is_json() => match DataType::Json.parse_text(value) {
                    Ok(json) => {
                        let mut text = String::new();
                        DataType::Json.write_json(&json, &mut text);
                        out.write_all(text.as_bytes())?;
                    }
                    Err(_) => serde_json::to_writer(&mut *out, value)?,
                },
                // Infinities and NaN are no numbers of JSON.
                Some(value) if column.is_number() && value.ends_with(|last: char| last.is_ascii_digit()) => {
                    out.write_all(value.as_bytes())?;
                }
                Some(value) => serde_json::to_writer(&mut *out, value)?,
            }
        }
        out.write_all(b"}\n")
    }
}

/// Gives columns of one name numbers: an object has a name but once.
fn make_distinct(columns: &mut [Column]) {
    for place in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(place);
        let own = &mut rest[0].name;
        let is_taken = |name: &str| before.iter().any(|column| column.name == name);
        if is_taken(own) {
            let numbered = (2..).map(|number| format!("{own}_{number}")).find(|name| !is_taken(name));
            *own = numbered.unwrap_or_default();
        }
    }
}

/// A value without what would move the terminal's cursor, other than line breaks.
fn printable(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\n' => text.push('\n'),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str(&" ".repeat(8 - text.rsplit('\n').next().unwrap_or_default().width() % 8)),
            other if other.is_control() => text.push_str(&format!("\\x{:02X}", u32::from(other))),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format, rows: &[[Option<&str>; 2]]) -> String {
        let column = |name: &str, oid| Column { name: name.to_owned(), oid };
        let mut table = Table::new(format, Frame::default(), vec![column("id", 23), column("name", 25)]);
        let mut out = Vec::new();
        for row in rows {
            table.row(&mut out, row).expect("written");
        }
        table.end(&mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    const ROWS: [[Option<&str>; 2]; 3] = [[Some("1"), Some("a\nb")], [Some("-12"), None], [Some("3"), Some("漢,\"字")]];

    #[test]
    fn rows_are_aligned() {
        let expected =
            " id  |  name  \n-----+--------\n   1 | a     +\n     | b\n -12 | \n   3 | 漢,\"字\n(3 rows)\n\n";
        assert_eq!(printed(Format::Aligned, &ROWS), expected);
        assert_eq!(printed(Format::Aligned, &[]), " id | name \n----+------\n(0 rows)\n\n");
    }

    #[test]
    fn rows_are_expanded() {
        let expected = "-[ RECORD 1 ]\nid   | 1\nname | a+\n     | b\n";
        assert_eq!(printed(Format::Expanded, &ROWS[..1]), format!("{expected}\n"));
    }

    #[test]
    fn rows_are_csv_and_json() {
        assert_eq!(printed(Format::Csv, &ROWS), "id,name\n1,\"a\nb\"\n-12,\n3,\"漢,\"\"字\"\n");
        let json = "{\"id\":1,\"name\":\"a\\nb\"}\n{\"id\":-12,\"name\":null}\n{\"id\":3,\"name\":\"漢,\\\"字\"}\n";
        assert_eq!(printed(Format::Json, &ROWS), json);
        assert_eq!(printed(Format::Csv, &[]), "id,name\n");
        let row = [Some(""), Some("\\.")];
        assert_eq!(printed(Format::Csv, &[row, [None, Some("NA")]]), "id,name\n\"\",\"\\.\"\n,\"NA\"\n");
    }

    /// It went through a type of JSON values, which made other numbers of some, and lost members.
    #[test]
    fn json_of_a_column_is_what_it_was() {
        let written = |json: &str| {
            let mut table = Table::new(Format::Json, Frame::default(), vec![Column { name: "j".to_owned(), oid: 114 }]);
            let mut out = Vec::new();
            table.row(&mut out, &[Some(json)]).expect("written");
            String::from_utf8(out).expect("text")
        };
        for json in [
            "12345678901234567890123",
            "9007199254740993.0",
            "{\"a\":1,\"a\":2}",
            "1e400",
            "\"\\ud800\"",
            "{\"a\": [1, null]}",
            "null",
        ] {
            assert_eq!(written(json), format!("{{\"j\":{json}}}\n"));
        }
        assert_eq!(written("{ \"a b\":\r\n [1,\n\t\"x \\\" y\"] }"), "{\"j\":{\"a b\":[1,\"x \\\" y\"]}}\n");
        assert_eq!(written("{a}"), "{\"j\":\"{a}\"}\n", "it is not JSON");
    }
}
