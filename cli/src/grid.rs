//! Rows in aligned columns.

use std::io::{self, Write};

/// The most characters of one cell; what is longer is cut with an ellipsis.
const CELL_CHARS: usize = 60;

/// Rows with the names of their columns, printed with every column as wide as it need be.
pub(crate) struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns that stand at the right, as numbers do.
    right: Vec<bool>,
}

impl Grid {
    /// A grid of columns of these names; numbers stand at the right.
    pub(crate) fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, bool)>) -> Grid {
        let (header, right) = columns.into_iter().map(|(name, right)| (name.into(), right)).unzip();
        Grid { header, rows: Vec::new(), right }
    }

    /// Adds a row; its cells must be as many as the columns, and without line breaks.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the header, a rule and the rows.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = |column: usize| -> usize {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            let widest = cells.max().unwrap_or(0).min(CELL_CHARS);
            widest.max(self.header[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        self.print_row(out, &self.header, &widths)?;
        let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        writeln!(out, "{}", rules.join("  "))?;
        self.rows.iter().try_for_each(|row| self.print_row(out, row, &widths))
    }

    fn print_row(&self, out: &mut dyn Write, row: &[String], widths: &[usize]) -> io::Result<()> {
        let cells = row.iter().zip(widths).zip(&self.right).map(|((cell, &width), &right)| {
            let mut cell = cell.clone();
            if let Some((cut, _)) = cell.char_indices().nth(width).filter(|_| cell.chars().count() > width) {
                cell.truncate(cell[..cut].char_indices().next_back().map_or(0, |(last, _)| last));
                cell.push('…');
            }
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    }
}

/// So many of something that has a plain plural: `1 column`, `2 columns`, `2 entries`.
pub(crate) fn counted(count: impl TryInto<i128>, what: &str) -> String {
    let count = count.try_into().unwrap_or(i128::MAX);
    let number = thousands(count);
    match what.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        _ if count == 1 => format!("{number} {what}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {what}s"),
    }
}

/// A number with commas between its thousands.
pub(crate) fn thousands(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the unit that leaves three digits.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 || unit == "TiB" {
            let decimals = if unit == "B" || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_be() {
        let mut grid = Grid::new([("city", false), ("people", true)]);
        grid.push(vec!["Cusco".to_owned(), "428450".to_owned()]);
        grid.push(vec!["x".repeat(70), "-1".to_owned()]);
        let mut out = Vec::new();
        grid.print(&mut out).unwrap();
        let expected = format!(
            "city{}  people\n{}  ──────\nCusco{}  428450\n{}…      -1\n",
            " ".repeat(56),
            "─".repeat(60),
            " ".repeat(55),
            "x".repeat(59)
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn numbers_have_their_thousands() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(-1_234_567), "-1,234,567");
        assert_eq!(thousands(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!((counted(0_usize, "row"), counted(1_u64, "row")), ("0 rows".to_owned(), "1 row".to_owned()));
        assert_eq!(
            (counted(1_i64, "entry"), counted(1_234_u64, "entry")),
            ("1 entry".to_owned(), "1,234 entries".to_owned())
        );
        assert_eq!(counted(2_u64, "key"), "2 keys");
    }

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1_000), "1.0 KiB");
        assert_eq!(bytes(150 << 10), "150 KiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }
}
