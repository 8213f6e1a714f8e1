//! The format and the delimiter of a file, where neither its name nor the user says them.

use std::io::Cursor;

use crate::failure::Result;
use crate::table_files::csv::CsvReader;
use crate::table_files::files::Source;
use crate::table_files::records::{Format, ending};

/// Bytes that are looked at.
const SAMPLE_BYTES: usize = 64 << 10;
/// Records that are looked at.
const SAMPLE_RECORDS: usize = 100;
/// What stands between fields in files, the usual one first.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// The format that the name of a file tells, else its first bytes.
pub(crate) fn format(source: &Source) -> Result<Format> {
    match Format::of_name(&source.name) {
        Some(format) => Ok(format),
        None => Ok(Format::of_content(&source.start(64)?)),
    }
}

/// What stands between the fields of a CSV file: what its name says, else what cuts its first records into the same
/// number of fields, as many as possible.
pub(crate) fn delimiter(source: &Source, skipped_lines: u64) -> Result<u8> {
    match ending(&source.name).as_deref() {
        Some("tsv" | "tab") => return Ok(b'\t'),
        Some("psv") => return Ok(b'|'),
        _ => {}
    }
    Ok(delimiter_of(&source.start(SAMPLE_BYTES)?, skipped_lines))
}

fn delimiter_of(start: &[u8], skipped_lines: u64) -> u8 {
    let is_cut = start.len() == SAMPLE_BYTES;
    let mut best = (1, b',');
    for delimiter in DELIMITERS {
        if let Some(fields) = fields_of_each(start, (delimiter, skipped_lines), is_cut)
            && fields > best.0
        {
            best = (fields, delimiter);
        }
    }
    best.1
}

/// The number of fields that each record has; none if they differ.
fn fields_of_each(start: &[u8], (delimiter, skipped_lines): (u8, u64), is_cut: bool) -> Option<usize> {
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
    lengths.iter().all(|length| *length == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_what_cuts_all_records_alike() {
        let of = |text: &str| char::from(delimiter_of(text.as_bytes(), 0));
        assert_eq!(of("a,b\n1,2\n"), ',');
        assert_eq!(of("a\tb\n1,5\t2\n"), '\t');
        assert_eq!(of("name;price\nx;1,5\ny;2,5\n"), ';', "commas in numbers");
        assert_eq!(of("a|b|c\n1|2|3"), '|');
        assert_eq!(of("a,b\n\"1;2;3\",2\n"), ',', "quotes");
        assert_eq!(of("one\ntwo\n"), ',', "a single column");
        assert_eq!(of(""), ',');
        assert_eq!(of("a,b\n1;2\n3\n"), ',', "nothing does");
        assert_eq!(of("a;b\n\"1"), ';', "a text that does not end");
        assert_eq!(delimiter_of(b"a,b\n\n1;2\n3;4\n", 1), b';', "after lines that are not a part of it");
    }

    #[test]
    fn a_record_that_the_sample_cuts_is_not_counted() {
        let line = format!("{};x\n", "w".repeat(9000));
        let text = line.repeat(9);
        assert_eq!(delimiter_of(&text.as_bytes()[..SAMPLE_BYTES], 0), b';');
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
