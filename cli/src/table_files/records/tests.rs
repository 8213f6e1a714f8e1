use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const COMMAS: CsvNotation<'_> = CsvNotation { delimiter: b',', mark: "NA", names: None, skipped_lines: 0 };

fn open(text: &'static [u8], format: Format) -> Result<Records> {
    Records::open(Input::from_bytes(text), format, COMMAS)
}

/// Every record as `line: field|field`, missing ones as `-`, and the error that ended it.
fn read(text: &'static [u8], format: Format) -> Vec<String> {
    let mut records = match open(text, format) {
        Ok(records) => records,
        Err(error) => return vec![error.to_string()],
    };
    let mut lines = Vec::new();
    loop {
        match records.advance() {
            Ok(true) => {
                let fields: Vec<String> = (0..records.columns().len())
                    .map(|place| match records.field(place) {
                        Field::Absent => "absent".to_owned(),
                        Field::Missing | Field::Empty | Field::Mark(_) => "-".to_owned(),
                        Field::Text(text) => text.to_owned(),
                        Field::Json(json) => json.to_owned(),
                        Field::Value(value) => value.to_string(),
                    })
                    .collect();
                lines.push(format!("{}: {}", records.line, fields.join("|")));
            }
            Ok(false) => return lines,
            Err(error) => {
                lines.push(error.to_string());
                return lines;
            }
        }
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

fn csv(text: &'static [u8]) -> Vec<String> {
    read(text, Format::Csv)
}

#[test]
fn lines_are_counted_whatever_ends_them() {
    let expected = ["2: 1|2", "3: 3|4"];
    for text in [
        &b"a,b\n1,2\n3,4\n"[..],
        b"a,b\n1,2\n3,4",
        b"a,b\r\n1,2\r\n3,4\r\n",
        b"a,b\r\n1,2\n3,4\r\n",
        b"\xef\xbb\xbfa,b\n1,2\n3,4",
    ] {
        assert_eq!(csv(text), expected, "{}", text.escape_ascii());
    }
    assert_eq!(csv(b"a,b\n\n\n1,2\n\n3,4"), ["4: 1|2", "6: 3|4"]);
    assert_eq!(csv(b"a,b\r\n\r\n\r\n1,2\r\n\r\n3,4"), ["4: 1|2", "6: 3|4"]);
    assert_eq!(csv(b"a,b\n\"x\ny\",2\n3,4\n"), ["2: x\ny|2", "4: 3|4"]);
    assert_eq!(csv(b"a,b\r\n\"x\r\ny\",2\r\n3,4\r\n"), ["2: x\r\ny|2", "4: 3|4"]);
    assert_eq!(csv(b"a,b\n1,\"x\r\"\n3,4\n"), ["2: 1|x\r", "3: 3|4"]);
}

#[test]
fn lines_are_counted_across_buffers() {
    let mut text = b"a,b\r\n".to_vec();
    for number in 0..100_000 {
        text.extend_from_slice(format!("{number},\"two\nlines\"\r\n").as_bytes());
    }
    let mut records = open(text.leak(), Format::Csv).unwrap();
    for number in 0..100_000 {
        assert!(records.advance().unwrap());
        assert_eq!(records.line, 2 + 2 * number);
    }
    assert!(!records.advance().unwrap());
}

#[test]
fn a_field_in_quotes_is_never_missing() {
    assert_eq!(csv(b"a,b,c\nNA,,\"\"\nNaN,na,\"NA\"\n"), ["2: -|-|", "3: NaN|na|NA"]);
    let notation = CsvNotation { mark: "-", ..COMMAS };
    let mut records = Records::open(Input::from_bytes(b"code\nNA\n-\n"), Format::Csv, notation).unwrap();
    assert!(records.advance().unwrap());
    assert!(matches!(records.field(0), Field::Text("NA")), "Namibia");
    assert!(records.advance().unwrap());
    assert!(matches!(records.field(0), Field::Mark("-")));
}

#[test]
fn malformed_csv_says_where() {
    let not_utf8 = |line: u64| {
        let how = "say what it is, as with `--encoding latin1`";
        format!("line {line}: field 2 is not UTF-8; {how}")
    };
    assert_eq!(csv(b""), ["the file is empty; its first line must name the columns"]);
    assert_eq!(csv(b"\n\n"), ["the file is empty; its first line must name the columns"]);
    assert_eq!(csv(b"a,b\n1,2\n3\n"), ["2: 1|2", "line 3: 1 field, but the first line has 2 columns"]);
    assert_eq!(csv(b"a,b\n1,2\n3,\"4\n5,6\n"), ["2: 1|2", "line 3: a quote is opened here and never closed"]);
    assert_eq!(csv(b"a,b\n1,2\n3,\xff\n"), ["2: 1|2", &not_utf8(3)]);
    assert_eq!(csv(b"a,b\r\n\"x\r\n\",\xff\r\n"), [not_utf8(2)]);
    assert_eq!(csv(b"a,\xff\n"), [not_utf8(1)]);
}

#[test]
fn json_lines_gather_their_columns() {
    let text = br#"{"a": 1, "b": "x"}

{"c": [1, 2], "a": null}
"#;
    assert_eq!(read(text, Format::Jsonl), [r#"1: 1|"x""#, "3: -|absent|[1, 2]"]);
}

#[test]
fn malformed_json_says_where() {
    assert_eq!(
        read(b"{\"a\": 1}\n{\"a\": }\n", Format::Jsonl),
        ["1: 1", "line 2: it is not JSON: expected value at column 7"]
    );
    assert_eq!(read(b"7\n", Format::Jsonl), ["line 1: it is JSON, but not an object"]);
    assert_eq!(read(b"[\n{\"a\": 1},\n", Format::Jsonl), ["2: 1", "line 3: the array has no end"]);
    let wrong = read(b"[{\"a\": 1},\n{\n\"b\": }]\n", Format::Jsonl);
    assert_eq!(wrong, ["1: 1", "line 3: it is not JSON: expected value at column 6"]);
    let spread = "line 1: the object does not end on its line; each line is an object, or the file is an array of them";
    assert_eq!(read(b"{\n\"a\": 1\n}\n", Format::Jsonl), [spread]);
    assert_eq!(read(b"[7]", Format::Jsonl), ["line 1: it is JSON, but not an object"]);
    let twice = read(b"{\"a\": 1, \"b\": 2, \"a\": 1}\n", Format::Jsonl);
    assert_eq!(twice, ["line 1: member \"a\" stands there twice"]);
    assert_eq!(read(b"{\"a\": 1}\n{\"a\": \"\xff\"}\n", Format::Jsonl), ["1: 1", "line 2: it is not UTF-8"]);
}

#[test]
fn an_array_of_objects_is_read_as_lines_are() {
    let text = b"[{\"a\": 1, \"b\": \"x\"},\n {\"c\": [1,\n 2], \"a\": null}]";
    assert_eq!(read(text, Format::Jsonl), [r#"1: 1|"x""#, "2: -|absent|[1,\n 2]"]);
}

#[test]
fn columns_get_names_where_they_have_none_or_one_twice() {
    let named = |text: &'static [u8], names: Option<&[String]>| {
        let records = Records::open(Input::from_bytes(text), Format::Csv, CsvNotation { names, ..COMMAS });
        let mut records = records.unwrap();
        assert!(records.advance().unwrap());
        (records.columns().join(" "), records.line, records.notes().join("; "))
    };
    let expected = (
        "a a_2 c3 a_3".to_owned(),
        2,
        "two columns have the name a: column 2 is a_2; column 3 has no name: \
        it is c3; two columns have the name a: column 4 is a_3"
            .to_owned(),
    );
    assert_eq!(named(b"a,a,,a\n1,2,3,4\n", None), expected);
    assert_eq!(named(b",c1,a,a,a_2\n1,2,3,4,5\n", None).0, "c1_2 c1 a a_3 a_2");
    assert_eq!(named(b"1,2\n3,4\n", Some(&[])), ("c1 c2".to_owned(), 1, String::new()));
    let (columns, line, note) = named(b"1,2\n3,4\n", Some(&["id".to_owned()]));
    assert_eq!((&*columns, line, &*note), ("id c2", 1, "column 2 has no name: it is c2"));
    let note = "line 1 was taken for the names of the columns, as 5.1; with --no-header it is a record";
    assert_eq!(named(b"x,5.1\n3,4\n", None).2, note);
    let names = ["a", "b", "c"].map(str::to_owned);
    let error = Records::open(Input::from_bytes(b"1,2\n"), Format::Csv, CsvNotation { names: Some(&names), ..COMMAS });
    assert_eq!(error.err().unwrap().to_string(), "line 1: 2 fields, but --columns names 3 columns");
    let error = Records::open(Input::from_bytes(b"a\0,b\0\n"), Format::Csv, COMMAS).err().unwrap().to_string();
    assert!(error.contains("`--encoding utf-16le`"), "{error}");
}

#[test]
fn lines_before_the_table_are_passed_over_and_counted() {
    let text = b"source: \"x\nof 2013\n\na,b\n1,2\n3\n";
    let notation = CsvNotation { skipped_lines: 2, ..COMMAS };
    let mut records = Records::open(Input::from_bytes(text), Format::Csv, notation).unwrap();
    assert_eq!((records.columns().join(" "), records.advance().unwrap(), records.line), ("a b".to_owned(), true, 5));
    assert_eq!(records.advance().unwrap_err().to_string(), "line 6: 1 field, but the first line has 2 columns");
    let past_the_end = CsvNotation { skipped_lines: 20, ..COMMAS };
    assert!(Records::open(Input::from_bytes(text), Format::Csv, past_the_end).is_err());
    let hint = "`--skip-lines` passes over lines that stand before a table";
    assert_eq!(csv(b"150,4\n1,2,3\n"), [format!("line 2: 3 fields, but the first line has 2 columns; {hint}")]);
    let late = format!("a,b\n{}1,2,3\n", "1,2\n".repeat(40));
    let told = csv(late.leak().as_bytes());
    assert_eq!(told.last().map(String::as_str), Some("line 42: 3 fields, but the first line has 2 columns"));
}

#[test]
fn expected_columns_may_stand_in_another_order() {
    let names = ["b".to_owned(), "a".to_owned()];
    let mut records = open(b"a,b\n1,2\n", Format::Csv).unwrap();
    records.expect_columns(&names).unwrap();
    assert!(records.advance().unwrap());
    assert!(matches!((records.field(0), records.field(1)), (Field::Text("2"), Field::Text("1"))));

    let mut records = open(b"a,b,c\n", Format::Csv).unwrap();
    assert_eq!(records.expect_columns(&names).unwrap_err().to_string(), r#"line 1: column "c" is not in the table"#);
    let mut records = open(b"a\n", Format::Csv).unwrap();
    let error = records.expect_columns(&names).unwrap_err();
    assert_eq!(error.to_string(), r#"line 1: there is no column "b", which the table has"#);

    let mut records = open(b"{\"a\": 1}\n{\"c\": 1}\n", Format::Jsonl).unwrap();
    records.expect_columns(&names).unwrap();
    assert!(records.advance().unwrap());
    assert_eq!(records.advance().unwrap_err().to_string(), r#"line 2: member "c" is not a column of the table"#);
}

#[test]
fn random_files_are_read_or_refused() {
    let seed = std::env::var("QUIPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("QUIPU_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..20_000 {
        let alphabet: &[&[u8]] = match round % 2 {
            0 => &[b"a", b",", b"\n", b"\r\n", b"\"", b"NA", b"\xff", b"\xc3\xa9", b"\0"],
            _ => &[b"{", b"}", b"\"a\"", b":", b"1", b",", b"\n", b"null", b"[", b"]", b"\xff", b"{\"b\":2.5}\n"],
        };
        let mut text = if round % 2 == 0 { b"a,b\n".to_vec() } else { Vec::new() };
        (0..rng.random_range(0..12))
            .for_each(|_| text.extend_from_slice(alphabet[rng.random_range(0..alphabet.len())]));
        let breaks = newlines(&text);
        let lines = read(text.leak(), if round % 2 == 0 { Format::Csv } else { Format::Jsonl });
        for line in &lines {
            let number =
                line.trim_start_matches("line ").split(':').next().and_then(|number| number.parse::<u64>().ok());
            assert!(number.is_none_or(|number| number <= breaks + 1), "{line:?} of {breaks} line breaks");
        }
    }
}

#[test]
fn random_records_know_their_lines() {
    let seed = std::env::var("QUIPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("QUIPU_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..500 {
        let (mut text, mut expected) = ("a,b\n".to_owned(), Vec::new());
        for number in 0..rng.random_range(0..20) {
            for _ in 0..rng.random_range(0..3) {
                text.push_str(["\n", "\r\n"][rng.random_range(0..2)]);
            }
            let field = ["x", "x\ny", "x\r\n\r\ny", "\r", "\n"][rng.random_range(0..5)];
            expected.push(format!("{}: {number}|{field}", 1 + newlines(text.as_bytes())));
            text.push_str(&format!("{number},\"{field}\"{}", ["\n", "\r\n"][rng.random_range(0..2)]));
        }
        assert_eq!(csv(text.leak().as_bytes()), expected);
    }
}
