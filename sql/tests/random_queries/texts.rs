//! Random texts for everything that reads texts: literals of all types, patterns, regular expressions, JSON.

use super::draw::Draw;

/// Types, and texts of their values.
const TYPES: [(&str, &[&str]); 15] = [
    ("int", &["1", "-12", " 7 ", "2147483647"]),
    ("bigint", &["9223372036854775807", "-1", "+5"]),
    ("smallint", &["32767", "-32768"]),
    ("numeric", &["1.50", "-0.001", "1e3", "12345678901234567890.5", ".5"]),
    ("numeric(6,2)", &["1234.56", "-9999.995", "1e-1"]),
    ("float8", &["1.5", "-1e300", "NaN", "Infinity", "1e-310"]),
    ("real", &["1.5", "3.4e38", "-inf"]),
    ("boolean", &["true", "off", "y", " NO ", "1"]),
    ("date", &["2024-02-29", "Jan 5 2021", "20240101", "2024-060", "1/2/2024", "epoch", "99-1-8"]),
    ("timestamp", &["2024-01-02 03:04:05.678", "Jan 8 04:05:06 1999", "2024-01-01T00:00:00Z", "2024-01-01 24:00"]),
    ("timestamptz", &["2024-01-02 03:04:05+02", "2024-01-02 03:04:05.5-05:30", "2024-01-01 12:00 Europe/Berlin"]),
    ("time", &["04:05:06.789", "040506", "04:05 PM", "24:00:00"]),
    ("interval", &["1 year 2 mons", "P1Y2M3DT4H5M6S", "1-2 3 04:05:06", "-1 day ago", "1.5 weeks", "3 4:05"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"]),
    ("bytea", &["\\xdeadBEEF", "a\\001b", "\\\\"]),
];

/// Calls that read patterns, with texts for them.
const CALLS: [(&str, &[&str]); 16] = [
    ("to_char(1234.567, '{}')", &["FM9,999.00", "S0999.9", "9.99EEEE", "000V99", "9999PR", "MI99G999D9", "99th"]),
    ("to_char(-12, '{}')", &["999", "FM000", "S99", "99PL", "\"a\"99"]),
    (
        "to_char(timestamp '2024-02-03 14:05:06.789', '{}')",
        &["YYYY-MM-DD HH24:MI:SS.MS", "Day, FMDDth Month", "IYYY-IW-ID", "Q J DDD", "HH12 AM", "\"x\"YY"],
    ),
    ("to_char(interval '1 day 02:03:04', '{}')", &["DD HH24:MI:SS", "FMHH:MI"]),
    ("to_timestamp('{}', 'YYYY-MM-DD HH24:MI:SS')", &["2024-01-02 03:04:05", "20240102 030405"]),
    ("to_date('{}', 'DD Mon YYYY')", &["05 Dec 2000", "5 dec 99"]),
    ("to_date('2024-01-02', '{}')", &["YYYY-MM-DD", "YYYYMMDD", "YY-MM", "FXYYYY-MM-DD"]),
    ("to_number('{}', '99G999D9S')", &["12,454.8-", "1,2.3"]),
    ("to_number('-12,454.8', '{}')", &["S99G999D9", "99,999.9", "L99"]),
    ("regexp_replace('foobarbaz', '{}', 'X', 'g')", &["b..", "b(..)", "[a-f]+", "^f|z$", "\\d*", "(?i)B"]),
    ("'foobar' ~ '{}'", &["o+b", "(foo|bar)$", "[[:alpha:]]{3,}", "\\yfoo"]),
    ("regexp_split_to_array('a,b;c', '{}')", &[",", "[,;]", "\\s*"]),
    ("'abcdef' LIKE '{}'", &["a%f", "_b%", "a\\%", "%"]),
    ("'{}'::jsonb", &["{\"a\": [1, 2.50, null]}", "[]", "\"\\u00e9\\n\"", "1e5", "true"]),
    ("'{}'::json", &["{\"a\": 1, \"a\": 2}", " [1 , 2]", "null"]),
    ("'{}'::int[]", &["{1,2,NULL}", "{{1,2},{3,4}}", "{}", "{ 1 }"]),
];

const LETTERS: [&str; 30] = [
    "0", "1", "9", "-", "+", ".", ",", ":", " ", "e", "T", "é", "€", "\\", "\"", "{", "}", "[", "]", "(", ")", "*",
    "%", "_", "/", "Y", "D", "u", "x", "𝕏",
];

/// A text with some of its letters changed.
fn mutated(draw: &mut Draw, text: &str) -> String {
    let mut letters: Vec<String> = text.chars().map(String::from).collect();
    for _ in 0..draw.below(4) {
        let at = draw.below(letters.len() + 1);
        match draw.below(4) {
            0 if at < letters.len() => drop(letters.remove(at)),
            1 if at < letters.len() => letters[at] = draw.pick(&LETTERS).to_owned(),
            2 if at < letters.len() => letters.truncate(at),
            _ => letters.insert(at, draw.pick(&LETTERS).to_owned()),
        }
    }
    letters.concat().replace('\'', "''")
}

/// A statement that reads a random text.
pub(super) fn statement(draw: &mut Draw) -> String {
    if draw.chance(50) {
        let (name, texts) = draw.one_of(&TYPES);
        let text = draw.pick(texts).to_owned();
        let text = mutated(draw, &text);
        return match draw.chance(50) {
            true => format!("SELECT '{text}'::{name}"),
            false => format!("SELECT '{text}'::text::{name}"),
        };
    }
    let (call, texts) = draw.one_of(&CALLS);
    let text = draw.pick(texts).to_owned();
    format!("SELECT {}", call.replace("{}", &mutated(draw, &text)))
}

/// A statement that is true if a value of a type comes back from its text.
pub(super) fn round_trip(draw: &mut Draw) -> String {
    let (name, texts) = draw.one_of(&TYPES);
    let text = draw.pick(texts).to_owned();
    let text = mutated(draw, &text);
    format!("SELECT '{text}'::{name}::text::{name} IS NOT DISTINCT FROM '{text}'::{name}")
}
