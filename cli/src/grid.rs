//! Rows in aligned columns, for all commands but `quipu sql`. Widths are those that a terminal shows: a Chinese letter
//! takes two places, an accent of its own takes none.
//!
//! Not here: the rows that `quipu sql` prints (`sql/row_formats`), and what a row of a table shows (`query`).

use std::borrow::Cow;
use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The greatest width of one cell; what is wider is cut with an ellipsis.
const CELL_WIDTH_MAX: usize = 60;

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
            let cells = self.rows.iter().map(|row| row[column].width());
            let widest = cells.max().unwrap_or(0).min(CELL_WIDTH_MAX);
            widest.max(self.header[column].width())
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        self.print_row(out, &self.header, &widths)?;
        let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        writeln!(out, "{}", rules.join("  "))?;
        self.rows.iter().try_for_each(|row| self.print_row(out, row, &widths))
    }

    fn print_row(&self, out: &mut dyn Write, row: &[String], widths: &[usize]) -> io::Result<()> {
        let cells = row.iter().zip(widths).zip(&self.right).map(|((cell, &width), &right)| {
            let cell = cut(cell, width);
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if right { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    }
}

/// The text, or the beginning of one that is wider than this, with an ellipsis.
pub(crate) fn cut(text: &str, width_max: usize) -> Cow<'_, str> {
    if text.width() <= width_max {
        return text.into();
    }
    let room = width_max.saturating_sub(1);
    let mut taken = 0;
    let end = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(1);
        taken > room
    });
    let mut shown = text[..end.map_or(text.len(), |(place, _)| place)].to_owned();
    // A mark that makes the letter before it wide counts only with that letter.
    while shown.width() > room {
        shown.pop();
    }
    shown.push('…');
    shown.into()
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

    /// Characters were counted, so all that stood after a Chinese name was out of its column.
    #[test]
    fn wide_letters_take_two_places_and_accents_none() {
        let mut grid = Grid::new([("city", false), ("人口", true)]);
        grid.push(vec!["東京".to_owned(), "14".to_owned()]);
        grid.push(vec!["Me\u{301}rida".to_owned(), "1".to_owned()]);
        grid.push(vec!["🚀 Cusco".to_owned(), "二".to_owned()]);
        let mut out = Vec::new();
        grid.print(&mut out).unwrap();
        let expected = "city      人口\n────────  ────\n東京        14\nMe\u{301}rida       1\n🚀 Cusco    二\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn texts_are_cut_to_their_width() {
        assert_eq!(cut("JFK,7", 40), "JFK,7");
        assert_eq!(cut(&"ü".repeat(50), 40), format!("{}…", "ü".repeat(39)));
        assert_eq!(cut("漢字", 4), "漢字");
        assert_eq!(cut("漢字漢字", 4), "漢…", "a letter is not cut in two");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…", "an accent stays with its letter");
        assert_eq!(cut("❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}", 3), "❤\u{fe0f}…", "a picture by the mark after it");
        assert_eq!(cut("abc", 0), "…");
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
