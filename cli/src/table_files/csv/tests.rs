use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use quipu_testing::seeds;

/// Gives a few bytes at a time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.1.min(buffer.len()).min(self.0.len());
        buffer[..size].copy_from_slice(&self.0[..size]);
        self.0 = &self.0[size..];
        Ok(size)
    }
}

type Records = Vec<Vec<(String, bool)>>;

/// All records, and the error that ended them.
fn read(bytes: &[u8], drop: usize) -> (Records, Option<String>) {
    let mut records = Records::new();
    let mut reader = match CsvReader::new(Drops(bytes, drop), b',') {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error.to_string())),
    };
    loop {
        match reader.advance() {
            Ok(true) => {
                let fields = (0..reader.len()).map(|place| reader.field(place).unwrap());
                records.push(fields.map(|field| (field.text.to_owned(), field.is_quoted)).collect());
            }
            Ok(false) => return (records, None),
            Err(error) => return (records, Some(error.to_string())),
        }
    }
}

fn field(text: &str, is_quoted: bool) -> (String, bool) {
    (text.to_owned(), is_quoted)
}

#[test]
fn fields_know_whether_they_stood_in_quotes() {
    let (records, error) = read(b"a,\"b\",,\"\",NA,\"NA\"\n", 1);
    let expected = [("a", false), ("b", true), ("", false), ("", true), ("NA", false), ("NA", true)];
    assert_eq!(records, [expected.map(|(text, is_quoted)| field(text, is_quoted))]);
    assert_eq!(error, None);
}

#[test]
fn nothing_within_a_file_ends_it() {
    let text = b"v\na\n\0the end\0\nb\n\"\x1a\",\0\n";
    let (records, error) = read(text, 3);
    assert_eq!(records.len(), 5);
    assert_eq!(records[2], [field("\0the end\0", false)]);
    assert_eq!(records[4], [field("\x1a", true), field("\0", false)]);
    assert_eq!(error, None);
}

#[test]
fn an_empty_line_is_a_record_if_it_is_asked_for() {
    let mut reader = CsvReader::new(&b"v\r\n\r\n\n\"\"\nx"[..], b',').unwrap();
    let mut fields = Vec::new();
    while reader.advance().unwrap() {
        reader.count_empty_lines();
        let CsvField { text, is_quoted } = reader.field(0).unwrap();
        fields.push((reader.record_line(), text.to_owned(), is_quoted));
    }
    let expected = [(1, "v", false), (2, "", false), (3, "", false), (4, "", true), (5, "x", false)];
    assert_eq!(fields, expected.map(|(line, text, is_quoted)| (line, text.to_owned(), is_quoted)));
}

#[test]
fn a_file_of_another_encoding_is_told_with_the_way_out() {
    let error = read(b"a,b\n1,caf\xe9\n", 1).1.unwrap();
    assert!(error.starts_with("line 2: field 2 is not UTF-8; "), "{error}");
    assert_eq!(read(b"\xc3,\xa9\n", 9).1.unwrap().split(';').next(), Some("line 1: field 1 is not UTF-8"));
}

/// Another reader, which does not tell quotes, finds the same fields in the same records.
#[test]
fn random_files_read_as_another_reader_reads_them() {
    for seed in seeds::seeds(3_000) {
        let mut random = StdRng::seed_from_u64(seed);
        let alphabet: [&[u8]; 9] = [b"a", b",", b"\n", b"\r\n", b"\r", b"\"", b"NA", "é".as_bytes(), b"\0"];
        let pieces = random.random_range(0..16);
        let file: Vec<u8> = (0..pieces).flat_map(|_| alphabet[random.random_range(0..9)].to_vec()).collect();
        let (records, error) = read(&file, random.random_range(1..5));
        let mut other = ::csv::ReaderBuilder::new();
        let mut other = other.has_headers(false).flexible(true).from_reader(&file[..]);
        let mut expected: Vec<Vec<String>> =
            other.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect();
        if error.is_some() {
            // The other one takes a quote that is never closed for one that the file's end closes.
            expected.pop();
        }
        let texts = |record: &Vec<(String, bool)>| record.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
        assert_eq!(records.iter().map(texts).collect::<Vec<_>>(), expected, "SEED={seed}: {}", file.escape_ascii());
    }
}

/// What is written reads back, and what is missing is not the empty text.
#[test]
fn random_records_come_back() {
    for seed in seeds::seeds(1_000) {
        let mut random = StdRng::seed_from_u64(seed);
        let texts = ["", "NA", "a", " ", "\"", "\"\"", ",", "\n", "\r", "\r\n", "\0", "\u{feff}", "é", "null", "#"];
        let width = random.random_range(1..4);
        let mut field = || match random.random_range(0..4) {
            0 => None,
            _ => Some((0..random.random_range(0..3)).map(|_| texts[random.random_range(0..15)]).collect::<String>()),
        };
        let records: Vec<Vec<Option<String>>> = (0..4).map(|_| (0..width).map(|_| field()).collect()).collect();
        let mut file = Vec::new();
        records.iter().for_each(|record| write_record(&mut file, b',', record.iter().map(Option::as_deref)).unwrap());
        let mut reader = CsvReader::new(&file[..], b',').unwrap();
        reader.count_empty_lines();
        for record in &records {
            assert!(reader.advance().unwrap(), "SEED={seed}");
            let fields = (0..reader.len()).map(|place| reader.field(place).unwrap());
            let read = fields.map(|CsvField { text, is_quoted }| match is_quoted {
                false if text.is_empty() || text == MISSING => None,
                _ => Some(text.to_owned()),
            });
            assert_eq!(&read.collect::<Vec<_>>(), record, "SEED={seed}: {}", file.escape_ascii());
        }
        assert!(!reader.advance().unwrap(), "SEED={seed}");
    }
}
