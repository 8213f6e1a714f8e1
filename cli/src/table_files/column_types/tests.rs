use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use quipu_testing::seeds;

fn type_of(fields: &[&str]) -> DataType {
    let mut evidence = Evidence::default();
    fields.iter().for_each(|field| evidence.see_text(field, || "line 9".to_owned()));
    evidence.data_type()
}

fn type_of_json(fields: &[&str]) -> DataType {
    let mut evidence = Evidence::default();
    fields.iter().for_each(|field| evidence.see_json(field));
    evidence.data_type()
}

fn note_of(fields: &[&str]) -> Option<String> {
    let mut evidence = Evidence::default();
    fields.iter().for_each(|field| evidence.see_text(field, || "line 9".to_owned()));
    evidence.note("c")
}

#[test]
fn a_column_is_as_narrow_as_its_fields_allow() {
    assert_eq!(type_of(&[]), DataType::TEXT);
    assert_eq!(type_of(&["1", "-2", "9223372036854775807"]), DataType::I64);
    assert_eq!(type_of(&["1", "18446744073709551615"]), DataType::U64);
    assert_eq!(type_of(&["-1", "18446744073709551615"]), DataType::TEXT);
    assert_eq!(type_of(&["1", "2.5", "-1e9"]), DataType::F64);
    assert_eq!(type_of(&["true", "false"]), DataType::Bool);
    assert_eq!(type_of(&["1", "true"]), DataType::TEXT);
    assert_eq!(type_of(&["1", "x"]), DataType::TEXT);
    assert_eq!(type_of(&["2013-07-04", "1999-12-31"]), DataType::Date);
    assert_eq!(type_of(&["2013-07-04T05:15:00Z"]), DataType::Timestamp);
    assert_eq!(type_of(&["2013-07-04", "2013-07-04T05:15:00Z"]), DataType::TEXT);
    assert_eq!(type_of(&["9007199254740993", "0.5"]), DataType::TEXT, "a float would lose the last digit");
}

#[test]
fn a_number_that_no_float_is_stays_what_it_is() {
    for field in [
        "12345678901234567.89",
        "0.1234567890123456789012",
        "9007199254740993.0",
        "1e-400",
        "1.5e-400",
        "4.9406564584124654e-324",
        "0.10000000000000001",
        "1.0e99999999999999999999",
    ] {
        assert_eq!(type_of(&[field, "0.5"]), DataType::TEXT, "{field}");
        assert_eq!(type_of_json(&[field, "0.5"]), DataType::Json, "{field}");
        let note = note_of(&[field, "0.5"]).unwrap();
        assert!(note.starts_with("column c is text: it has numbers that f64 cannot hold exactly"), "{note}");
    }
    for field in ["0.30000000000000004", "5e-324", "0.10", "1.7976931348623157e+308", "9007199254740992.000", "-0.0"] {
        assert_eq!(type_of(&[field, "0.5"]), DataType::F64, "{field}");
        assert_eq!(type_of_json(&[field]), DataType::F64, "{field}");
    }
}

#[test]
fn codes_that_look_like_powers_of_ten_stay_text() {
    assert_eq!(type_of(&["32E0134", "1E5"]), DataType::TEXT);
    assert_eq!(type_of(&["1E5", "0.5"]), DataType::TEXT);
    assert_eq!(type_of(&["1e5", "77"]), DataType::TEXT);
    assert_eq!(
        note_of(&["1e5", "77"]).unwrap().split(';').next(),
        Some("column c is text: its fields like 1e5 may be codes")
    );
    assert_eq!(type_of(&["1e16", "0.5"]), DataType::F64, "so Rust and JavaScript write it");
    assert_eq!(type_of(&["1e+16", "1E-07", "3"]), DataType::F64, "so C and Python write it");
    assert_eq!(type_of_json(&["1E5"]), DataType::F64, "a number in JSON");
}

/// As pandas, Polars and DuckDB write them.
#[test]
fn times_and_booleans_of_other_programs_are_known() {
    for field in [
        "2024-01-01 00:00:00",
        "2024-01-01 00:00:00.123456",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00.000",
        "2024-01-01T00:00:00.000000",
        "2024-01-01T00:00:00.000000000",
        "2024-01-01 00:00",
        "2024-01-01T00:00:00.000Z",
        "2024-01-01 00:00:00+00:00",
        "2024-01-01 00:00:00.5+02:00",
        "2024-01-01T00:00:00.000000+0100",
        "2024-01-01 00:00:00+00",
        "-000001-01-01T00:00:00Z",
    ] {
        assert_eq!(type_of(&[field, field]), DataType::Timestamp, "{field}");
        assert_eq!(type_of_json(&[&format!("\"{field}\"")]), DataType::Timestamp, "{field}");
    }
    for field in ["True", "False", "TRUE", "FALSE", "true"] {
        assert_eq!(type_of(&["false", field]), DataType::Bool, "{field}");
        assert!(DataType::Bool.parse_text(field).is_ok(), "{field}");
    }
    assert_eq!(type_of(&["yes"]), DataType::TEXT);
    assert_eq!(type_of_json(&["\"True\""]), DataType::TEXT);
}

#[test]
fn columns_that_are_nearly_times_are_told() {
    let (zoned, unzoned) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00");
    for (fields, note) in [
        (vec![zoned, unzoned], "it has times with an offset from UTC and without; "),
        (vec!["2024-01-01", unzoned], "it has days and times; `--types c=timestamp` takes both"),
        (vec!["2024-01-01T00:00:00.123456789"], "it has times to the nanosecond"),
    ] {
        assert_eq!(type_of(&fields), DataType::TEXT, "{fields:?}");
        let text = note_of(&fields).unwrap();
        assert!(text.starts_with(&format!("column c is text: {note}")), "{text}");
    }
    assert_eq!(note_of(&["2024-01-01", "later"]), None);
    assert_eq!(note_of(&["a", "1.5"]), None);
    let note = note_of(&["1", "2.5", "3", "-4", "5", "six"]).unwrap();
    assert_eq!(note, "column c is text: \"six\" in line 9 is not a number, as the 5 fields before it are");
    let day = "2026-01-01";
    let note = note_of(&[day, day, day, day, day, "2026-02-30"]).unwrap();
    assert!(note.contains("\"2026-02-30\" in line 9 is not a date or a time"), "{note}");
    assert_eq!(note_of(&["1", "2", "three", "4", "5", "6", "7"]), None, "codes, as it seems");
    assert_eq!(note_of(&["1", "2"]), None);
}

#[test]
fn what_would_be_written_otherwise_is_text() {
    for field in [
        "007",
        "+1",
        "1.",
        ".5",
        "-0",
        "123456789012345678901",
        "1e999",
        "inf",
        "NaN",
        "0x10",
        "1_000",
        " 1",
        "2013-7-4",
        "2013-07-04 24:00",
        "2013-02-30",
    ] {
        assert_eq!(type_of(&[field]), DataType::TEXT, "{field}");
    }
}

#[test]
fn json_lines_keep_their_own_types() {
    assert_eq!(type_of_json(&["\"1\"", "\"2\""]), DataType::TEXT);
    assert_eq!(type_of_json(&["\"2013-07-04\"", "\"later\""]), DataType::TEXT);
    assert_eq!(type_of_json(&["1", "null", "2"]), DataType::I64);
    assert_eq!(type_of_json(&["1", "2.5"]), DataType::F64);
    assert_eq!(type_of_json(&["1", "\"x\""]), DataType::Json);
    assert_eq!(type_of_json(&["[1]", "null"]), DataType::Json);
    assert_eq!(type_of_json(&["123456789012345678901"]), DataType::Json);
}

#[test]
fn random_fields_lose_nothing() {
    let mut numbers = 0;
    for seed in seeds::seeds(200) {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..1_000 {
            let most = [8, 30][random.random_range(0..2)];
            let field: String = (0..random.random_range(1..most))
                .map(|_| char::from(b"01234567890123456789-+.eE x"[random.random_range(0..27)]))
                .collect();
            // Beside another number of these, so that `1e5` is one.
            let data_type = type_of(&[&field, "0.5"]);
            let value = data_type.parse_text(&field).unwrap();
            let written = data_type.to_text(&value);
            match data_type {
                DataType::F64 => {
                    numbers += 1;
                    assert_eq!(type_of(&[&written, "0.5"]), DataType::F64, "SEED={seed}: {field} is {written}");
                    let (given, kept) = (significant(&field).unwrap(), significant(&written).unwrap());
                    assert_eq!(given, kept, "SEED={seed}: {field} is written {written}");
                }
                _ => assert_eq!(written, field, "SEED={seed}"),
            }
        }
    }
    assert!(numbers > 100, "only {numbers} floats");
}
