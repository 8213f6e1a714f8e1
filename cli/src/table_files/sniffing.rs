//! The format and the delimiter of a file, where neither its name nor the user says them.
//!
//! Not here: the types of its columns and how its numbers are written (`inference`).

use std::io::Cursor;

use crate::failure::Result;
use crate::table_files::csv::{CsvReader, DELIMITERS};
use crate::table_files::files::Source;
use crate::table_files::records::{Format, distinct};

/// Bytes that are looked at.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;
/// Records that are looked at.
const SAMPLE_RECORDS: usize = 100;

/// What is known of the columns of a file before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known<'k> {
    Nothing,
    /// The first record has so many fields.
    Number(usize),
    /// The first record names columns among these.
    Names(&'k [String]),
}

/// The format that the name of a file tells, else its first bytes.
pub(crate) fn format(source: &Source) -> Result<Format> {
    match Format::of_name(&source.name) {
        Some(format) => Ok(format),
        None => Ok(Format::of_content(&source.start(64)?)),
    }
}

/// What stands between the fields of a CSV file that begins so, as far as its name does not tell: what makes of the
/// first record the columns that are known. Else it is what cuts the first records into the same number of fields, as
/// many as possible, and a comma rather than another; of a header alone, a comma wherever it has one.
pub(crate) fn delimiter(start: &[u8], skipped_lines: u64, known: Known<'_>) -> u8 {
    let fits = |delimiter: &u8| {
        let names = first_record(start, (*delimiter, skipped_lines)).unwrap_or_default();
        match known {
            Known::Nothing => false,
            Known::Number(columns) => names.len() == columns,
            Known::Names(columns) => {
                !names.is_empty()
                    && distinct(&names, names.len(), &mut Vec::new()).iter().all(|name| columns.contains(name))
            }
        }
    };
    let fitting: Vec<u8> = DELIMITERS.into_iter().filter(fits).collect();
    match fitting.as_slice() {
        [only] => *only,
        [] => best_of(&DELIMITERS, start, skipped_lines),
        several => best_of(several, start, skipped_lines),
    }
}

/// Which of these delimiters cuts the first records best; the first of them if they are all the same.
fn best_of(delimiters: &[u8], start: &[u8], skipped_lines: u64) -> u8 {
    let is_cut = start.len() == SAMPLE_BYTES;
    let mut best = (1, delimiters.first().copied().unwrap_or(b','));
    for &delimiter in delimiters {
        let Some((fields, records)) = fields_of_each(start, (delimiter, skipped_lines), is_cut) else { continue };
        if fields > best.0 {
            best = (fields, delimiter);
        }
        // Names of columns have other characters in them, and nothing else is there to tell.
        if delimiter == b',' && fields > 1 && records == 1 {
            break;
        }
    }
    best.1
}

/// The fields of the first record.
fn first_record(start: &[u8], (delimiter, skipped_lines): (u8, u64)) -> Option<Vec<String>> {
    let mut reader = CsvReader::new(Cursor::new(start), delimiter).ok()?;
    reader.skip_lines(skipped_lines).ok()?;
    reader.advance().ok()?.then_some(())?;
    Some((0..reader.len()).filter_map(|place| reader.field(place)).map(|field| field.text.to_owned()).collect())
}

/// The number of fields that each record has, and how many records were looked at; none if they differ.
fn fields_of_each(start: &[u8], (delimiter, skipped_lines): (u8, u64), is_cut: bool) -> Option<(usize, usize)> {
    let mut reader = CsvReader::new(Cursor::new(start), delimiter).ok()?;
    reader.skip_lines(skipped_lines).ok()?;
    let mut lengths = Vec::new();
    // What does not end, or is not UTF-8, is for others to say.
    while lengths.len() < SAMPLE_RECORDS && reader.advance().unwrap_or(false) {
        lengths.push(reader.len());
    }
    if is_cut && lengths.len() < SAMPLE_RECORDS && lengths.len() > 1 {
        lengths.pop();
    }
    let first = *lengths.first()?;
    lengths.iter().all(|length| *length == first).then_some((first, lengths.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_what_cuts_all_records_alike() {
        let of = |text: &str| char::from(delimiter(text.as_bytes(), 0, Known::Nothing));
        assert_eq!(of("a,b\n1,2\n"), ',');
        assert_eq!(of("a\tb\n1,5\t2\n"), '\t');
        assert_eq!(of("name;price\nx;1,5\ny;2,5\n"), ';', "commas in numbers");
        assert_eq!(of("a|b|c\n1|2|3"), '|');
        assert_eq!(of("a,b\n\"1;2;3\",2\n"), ',', "quotes");
        assert_eq!(of("one\ntwo\n"), ',', "a single column");
        assert_eq!(of(""), ',');
        assert_eq!(of("a,b\n1;2\n3\n"), ',', "nothing does");
        assert_eq!(of("a;b\n\"1"), ';', "a text that does not end");
        let skipping = delimiter(b"a,b\n\n1;2\n3;4\n", 1, Known::Nothing);
        assert_eq!(skipping, b';', "after lines that are not a part of it");
    }

    /// Names of columns with more of another character than there are commas decided.
    #[test]
    fn names_of_columns_do_not_mislead() {
        let of = |text: &str| char::from(delimiter(text.as_bytes(), 0, Known::Nothing));
        assert_eq!(of("price (USD;EUR;GBP),b\n"), ',', "a header alone");
        assert_eq!(of("price (USD;EUR;GBP),b\n1,2\n"), ',');
        assert_eq!(of("a|b|c|d\n1\n"), ',', "one column");
        assert_eq!(of("a|b|c|d\n"), '|', "which could be either");
        assert_eq!(of("\"a|b|c|d\"\n"), ',', "as an export writes it");
    }

    #[test]
    fn the_columns_that_are_known_decide() {
        let of = |text: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            char::from(delimiter(text.as_bytes(), 0, Known::Names(&names)))
        };
        assert_eq!(of("a|b|c|d\n1|2|3|4\n", &["a|b|c|d"]), ',');
        assert_eq!(of("a|b|c|d\n", &["a", "b", "c", "d", "e"]), '|', "one of the columns is left out");
        assert_eq!(of("x;y (a,b,c)\n1;2,3,4\n", &["x", "y (a,b,c)"]), ';');
        assert_eq!(of(";a\n1;2\n", &["c1", "a"]), ';', "a name that an import gave");
        assert_eq!(of("a;b\n1;2\n", &["x", "y"]), ';', "names of another table");
        assert_eq!(of("a,b\n1,2\n", &["a", "b", "a,b"]), ',');
        let numbered = |text: &str, columns| char::from(delimiter(text.as_bytes(), 0, Known::Number(columns)));
        assert_eq!((numbered("1,5;2,5\n", 2), numbered("1,5;2,5\n", 3)), (';', ','));
    }

    #[test]
    fn a_record_that_the_sample_cuts_is_not_counted() {
        let line = format!("{};x\n", "w".repeat(9000));
        let text = line.repeat(9);
        assert_eq!(delimiter(&text.as_bytes()[..SAMPLE_BYTES], 0, Known::Nothing), b';');
    }

    #[test]
    fn the_first_bytes_tell_the_format() {
        assert_eq!(Format::of_content(b"\xef\xbb\xbf\n [{"), Format::Jsonl);
        assert_eq!(Format::of_content(b"{\"a\": 1}"), Format::Jsonl);
        assert_eq!(Format::of_content(b"PAR1\x15"), Format::Parquet);
        assert_eq!(Format::of_content(b"a,b\n"), Format::Csv);
        assert_eq!(Format::of_content(b""), Format::Csv);
    }
}
