//! Rows as they are printed: in aligned columns, one below the other, as CSV or as JSON.
//!
//! Rows stream: columns are aligned over so many rows at a time, and are not narrower than they were before.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::backend::Column;

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

/// A result while it is printed.
pub(super) struct Table {
    format: Format,
    columns: Vec<Column>,
    widths: Vec<usize>,
    batch: Vec<Vec<Option<String>>>,
    batch_bytes: usize,
    rows: u64,
    has_header: bool,
}

impl Table {
    /// Of these columns.
    pub(super) fn new(format: Format, mut columns: Vec<Column>) -> Table {
        if format == Format::Json {
            make_distinct(&mut columns);
        }
        let widths = columns.iter().map(|column| printable(&column.name).width()).collect();
        Table { format, columns, widths, batch: Vec::new(), batch_bytes: 0, rows: 0, has_header: false }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, out: &mut dyn Write, values: &[Option<&str>]) -> io::Result<()> {
        self.rows += 1;
        match self.format {
            Format::Aligned => {
                self.batch_bytes += values.iter().flatten().map(|value| value.len()).sum::<usize>();
                self.batch.push(values.iter().map(|value| value.map(printable)).collect());
                if self.batch.len() >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
                    self.flush(out)?;
                }
                Ok(())
            }
            Format::Expanded => self.expanded(out, values),
            Format::Csv => {
                self.csv_header(out)?;
                csv_line(out, values.iter().map(|value| value.unwrap_or_default()))
            }
            Format::Json => self.json(out, values),
        }
    }

    /// Prints what is left, and how many rows there were.
    pub(super) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Aligned => {
                self.flush(out)?;
                writeln!(out, "({} row{})\n", self.rows, if self.rows == 1 { "" } else { "s" })
            }
            Format::Expanded if self.rows == 0 => writeln!(out, "(0 rows)\n"),
            Format::Expanded => writeln!(out),
            Format::Csv => self.csv_header(out),
            Format::Json => Ok(()),
        }
    }

    /// Prints the rows at hand, aligned.
    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        for row in &batch {
            for (width, value) in self.widths.iter_mut().zip(row) {
                let widest = value.iter().flat_map(|value| value.split('\n')).map(UnicodeWidthStr::width).max();
                *width = (*width).max(widest.unwrap_or(0));
            }
        }
        if !std::mem::replace(&mut self.has_header, true) && !self.columns.is_empty() {
            let cells = self.columns.iter().zip(&self.widths).map(|(column, &width)| {
                let name = printable(&column.name).replace('\n', " ");
                let left = width - name.width();
                format!(" {}{name}{} ", " ".repeat(left / 2), " ".repeat(left.div_ceil(2)))
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("|"))?;
            let rules: Vec<String> = self.widths.iter().map(|width| "-".repeat(width + 2)).collect();
            writeln!(out, "{}", rules.join("+"))?;
        } else if self.columns.is_empty() && self.rows == batch.len() as u64 {
            writeln!(out, "--")?;
        }
        for row in &batch {
            self.aligned(out, row)?;
        }
        Ok(())
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
                if self.columns[number].is_at_right() {
                    line.push_str(&blanks);
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

    fn expanded(&self, out: &mut dyn Write, values: &[Option<&str>]) -> io::Result<()> {
        let texts: Vec<String> = values.iter().map(|value| printable(value.unwrap_or_default())).collect();
        let names = self.widths.iter().copied().max().unwrap_or(0);
        let widest = texts.iter().flat_map(|text| text.split('\n')).map(UnicodeWidthStr::width).max().unwrap_or(0);
        let head = format!("-[ RECORD {} ]", self.rows);
        let rule = (names + widest + 3).saturating_sub(head.len());
        if head.len() <= names + 1 {
            let (left, right) = (names + 1 - head.len(), widest + 1);
            writeln!(out, "{head}{}+{}", "-".repeat(left), "-".repeat(right))?;
        } else {
            writeln!(out, "{head}{}", "-".repeat(rule))?;
        }
        for (column, text) in self.columns.iter().zip(&texts) {
            let name = printable(&column.name).replace('\n', " ");
            let blanks = " ".repeat(names - name.width().min(names));
            let mut lines = text.split('\n').peekable();
            let mut start = format!("{name}{blanks}");
            while let Some(line) = lines.next() {
                match lines.peek() {
                    Some(_) => writeln!(out, "{start} | {line}{}+", " ".repeat(widest - line.width()))?,
                    None => writeln!(out, "{}", format!("{start} | {line}").trim_end_matches('\r'))?,
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
        csv_line(out, self.columns.iter().map(|column| column.name.as_str()))
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
                Some(value) if column.is_json() => match serde_json::from_str::<serde_json::Value>(value) {
                    Ok(json) => serde_json::to_writer(&mut *out, &json)?,
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

fn csv_line<'v>(out: &mut dyn Write, values: impl Iterator<Item = &'v str>) -> io::Result<()> {
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        // A backslash and a point on a line of their own would end the data of a COPY.
        if value.contains([',', '"', '\n', '\r']) || value == "\\." {
            write!(out, "\"{}\"", value.replace('"', "\"\""))?;
        } else {
            out.write_all(value.as_bytes())?;
        }
    }
    out.write_all(b"\n")
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
        let mut table = Table::new(format, vec![column("id", 23), column("name", 25)]);
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
    }
}
