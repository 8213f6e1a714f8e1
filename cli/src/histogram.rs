//! `quipu stats --histogram`: where the rows and bytes of tables lie, drawn with bars.

use std::io::{self, Write};

use quipu::histogram::{CountInterval, Histogram, Resolution};
use serde_json::{Value as Json, json};
use unicode_width::UnicodeWidthStr;

use crate::failure::Result;
use crate::grid::{Grid, bytes, counted, cut, thousands};
use crate::query::Queryable;

/// Eighths of a character cell.
const BLOCKS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// The most and the fewest characters of a bar.
const BAR_CHARS: (usize, usize) = (60, 8);
/// The greatest width of a key; what is wider is cut with an ellipsis.
const KEY_WIDTH_MAX: usize = 40;

/// The histogram of a range of a table, with the first key of each bucket.
pub(crate) struct Drawing {
    table: String,
    histogram: Histogram,
    /// As people write them.
    firsts: Vec<String>,
}

impl Drawing {
    /// Asks for about so many buckets with equal counts of rows.
    pub(crate) fn new<A: Queryable>(name: String, source: &A, range: &A::Range, buckets: u64) -> Result<Drawing> {
        let rows = source.count(range)?.div_ceil(buckets.max(1)).max(1);
        let histogram = source.histogram(range, Resolution::of_rows(rows))?;
        // Where a bucket begins no key need be, and what stands there may be the head of one: its first row says more.
        let mut firsts = Vec::with_capacity(histogram.buckets.len());
        for bucket in &histogram.buckets {
            let first = source.nth(&source.range_of(&bucket.bounds), 0)?;
            firsts.push(first.map_or(Ok(String::new()), |record| source.key_text(&record))?);
        }
        Ok(Drawing { table: name, histogram, firsts })
    }

    /// Draws it in so many columns of a terminal.
    pub(crate) fn print(&self, out: &mut dyn Write, columns: usize) -> io::Result<()> {
        let Histogram { buckets, rows, bytes: total, pages, pages_read } = &self.histogram;
        let cost = match pages {
            0 => String::new(),
            pages => format!("; {} looked at, {} of them read", counted(*pages, "page"), thousands(*pages_read)),
        };
        // A table in memory that does not measure bytes has none to draw.
        let has_bytes = *total > 0;
        let size = if has_bytes { format!(", {}", bytes(*total)) } else { String::new() };
        writeln!(out, "{}: {}{size}{cost}", self.table, counted(*rows, "row"))?;
        let lines: Vec<(String, String, String)> = (buckets.iter().zip(&self.firsts))
            .map(|(bucket, first)| {
                (
                    cut(first, KEY_WIDTH_MAX).into_owned(),
                    estimate(&bucket.rows, thousands),
                    estimate(&bucket.bytes, bytes),
                )
            })
            .collect();
        let widest = |name: &str, text: fn(&(String, String, String)) -> &String| {
            lines.iter().map(|line| text(line).width()).max().unwrap_or(0).max(name.len())
        };
        let numbers = widest("from", |line| &line.0) + widest("rows", |line| &line.1);
        let bars = if has_bytes { 2 } else { 1 };
        let taken = if has_bytes { numbers + widest("bytes", |line| &line.2) + 8 } else { numbers + 4 };
        let (most, fewest) = BAR_CHARS;
        let width = (columns.saturating_sub(taken) / bars).clamp(fewest, most);
        let mut names = vec![("from", false), ("rows", true), ("", false)];
        if has_bytes {
            names.extend([("bytes", true), ("", false)]);
        }
        let mut grid = Grid::new(names);
        let most = |of: fn(&quipu::histogram::Bucket) -> &CountInterval| {
            buckets.iter().map(|bucket| of(bucket).middle()).max()
        };
        let (rows_most, bytes_most) = (most(|bucket| &bucket.rows), most(|bucket| &bucket.bytes));
        for (bucket, (first, rows, bytes)) in buckets.iter().zip(lines) {
            let mut row = vec![first, rows, bar(bucket.rows.middle(), rows_most.unwrap_or(0), width)];
            if has_bytes {
                row.extend([bytes, bar(bucket.bytes.middle(), bytes_most.unwrap_or(0), width)]);
            }
            grid.push(row);
        }
        grid.print(out)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Json {
        let pair = |estimate: &CountInterval| json!([estimate.low, estimate.high]);
        let buckets: Vec<Json> = (self.histogram.buckets.iter().zip(&self.firsts))
            .map(|(bucket, first)| {
                json!({
                    "from": first, "rows": pair(&bucket.rows), "bytes": pair(&bucket.bytes),
                    "rows_until": pair(&bucket.rows_until), "bytes_until": pair(&bucket.bytes_until),
                })
            })
            .collect();
        let Histogram { rows, bytes, pages, pages_read, .. } = self.histogram;
        json!({
            "table": self.table, "rows": rows, "bytes": bytes, "pages": pages, "pages_read": pages_read,
            "buckets": buckets,
        })
    }
}

/// How wide the terminal is; 100 characters if there is none.
pub(crate) fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(40))
}

/// A number, with how far off it can be if it is not exact.
fn estimate(estimate: &CountInterval, text: impl Fn(u64) -> String) -> String {
    match estimate.width().div_ceil(2) {
        0 => text(estimate.low),
        off => format!("{} ±{}", text(estimate.middle()), text(off)),
    }
}

/// A bar as long to `width` as `value` to `most`, to an eighth of a character; what is not nothing is seen.
fn bar(value: u64, most: u64, width: usize) -> String {
    if value == 0 || most == 0 {
        return String::new();
    }
    let eighths = (u128::from(value) * 8 * width as u128 / u128::from(most)).max(1) as usize;
    let mut bar = "█".repeat(eighths / 8);
    let rest = BLOCKS[eighths % 8];
    if rest != ' ' {
        bar.push(rest);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(19, 32, 4), "██▍");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar(0, 0, 3), "");
    }

    #[test]
    fn estimates_say_how_good_they_are() {
        let text = |low, high| estimate(&CountInterval { low, high }, thousands);
        assert_eq!(text(1000, 1000), "1,000");
        assert_eq!(text(990, 1010), "1,000 ±10");
        assert_eq!(text(0, 1), "0 ±1");
    }
}
