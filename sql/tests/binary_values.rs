//! Goal: values have the bytes that PostgreSQL sends, and come back from texts and bytes. Method: a file of values as
//! PostgreSQL wrote them, and random bytes, which make no panic.

use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::types::{binary, text};
use quipu_sql::{BaseType, Datum, SqlType};
use quipu_testing::seeds::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::sessions::database;

fn sql_type(name: &str) -> SqlType {
    let (name, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
    let base = BaseType::all().find(|base| SqlType::from(*base).to_string() == name);
    SqlType { is_array, ..base.unwrap_or_else(|| panic!("no type {name}")).into() }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

/// The lines of the file: type, text, bytes.
fn values() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>)> {
    let lines = include_str!("binary_values.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
        [name, text, digits] => (name, text, bytes_of(digits)),
        _ => panic!("no value: {line}"),
    })
}

#[test]
fn values_have_the_bytes_that_postgresql_sends() {
    let session = database().session("anna", "quipu");
    let environment = session.environment();
    let mut faults = Vec::new();
    for (name, written, bytes) in values() {
        let known = sql_type(name);
        let value = match text::parse(written, known, &*environment) {
            Ok(value) => value,
            Err(error) => {
                faults.push(format!("{name} {written}: {error}"));
                continue;
            }
        };
        let mut sent = Vec::new();
        binary::write(&value, known, TextEncoding::UTF8, &mut sent).expect("a value of its type");
        let shown = |value: &Datum| text::to_string(value, known, &*environment).expect("a value of its type");
        let read = binary::read(&bytes, known, TextEncoding::UTF8).map(|value| shown(&value));
        if sent != bytes || shown(&value) != written || read.as_deref().ok() != Some(written) {
            let (sent, bytes) = (hexadecimal(&sent), hexadecimal(&bytes));
            faults.push(format!("{name} {written}: shown {}, read {read:?}, sent {sent} for {bytes}", shown(&value)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_bytes_make_a_panic_and_what_is_read_comes_back() {
    let values: Vec<_> = values().collect();
    for seed in seeds(20_000) {
        let random = &mut StdRng::seed_from_u64(seed);
        let (name, _, mut bytes) = values[random.random_range(0..values.len())].clone();
        for _ in 0..random.random_range(0..4) {
            match random.random_range(0..3) {
                0 if !bytes.is_empty() => {
                    let at = random.random_range(0..bytes.len());
                    bytes[at] = random.random();
                }
                1 => bytes.truncate(random.random_range(0..=bytes.len())),
                _ => bytes.push(random.random()),
            }
        }
        let known = sql_type(name);
        if let Ok(value) = binary::read(&bytes, known, TextEncoding::UTF8) {
            let mut sent = Vec::new();
            binary::write(&value, known, TextEncoding::UTF8, &mut sent).expect("a value of its type");
            let again = binary::read(&sent, known, TextEncoding::UTF8)
                .unwrap_or_else(|error| panic!("SEED={seed} {name}: {error}"));
            assert_eq!(again, value, "SEED={seed} {name} {}", hexadecimal(&bytes));
        }
    }
}
