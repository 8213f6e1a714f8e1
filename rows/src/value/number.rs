//! Decimal numbers of any size, as texts: `12.50`, `-0.001`, `NaN`, `Infinity`.
//!
//! Invariants:
//! 1. A number has one text for each count of digits after the point: no plus, no zeros before other digits, no
//!    exponent, no sign before zero. `1.5` and `1.50` are equal and stay what they are.
//! 2. At most 131,072 digits stand before the point and 16,383 after it.
//! 3. The bytes of [`append_sort_key`] compare as the numbers do, and are equal for equal numbers: `-Infinity` first,
//!    `Infinity` after all finite numbers, `NaN` last.
//!
//! No arithmetic is here: rows compare such numbers, sort them and give them back.
//!
//! ```text
//! sort key   marked exponent u24 | (two digits + 1)*         of a positive number
//!            the same bytes, each turned, and then ff         of a negative one
//! ```
//!
//! The exponent is the count of digits before the point, less the zeros after it that come first: 1 for 7.5, -1 for
//! 0.07. It is marked by `0xc00000`, so that a positive number begins with a byte from `bd` to `c3`. Digits are in
//! pairs from the first that is not zero to the last.

use std::borrow::Cow;
use std::cmp::Ordering;

/// The most digits before the point.
const WHOLE_DIGITS_MAX: usize = 131_072;
/// The most digits after it.
const FRACTION_DIGITS_MAX: usize = 16_383;

const MARK: i32 = 0xc0_0000;
const ZERO: u8 = 0x80;
const LEAST: u8 = 0x00;
const GREATEST: u8 = 0xfe;
const NOT_A_NUMBER: u8 = 0xff;

/// A text that writes a number.
enum Number<'t> {
    Finite { is_negative: bool, whole: &'t str, fraction: &'t str, exponent: i32 },
    Infinite { is_negative: bool },
    Neither,
}

fn split(text: &str) -> Option<Number<'_>> {
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest.eq_ignore_ascii_case("infinity") || rest.eq_ignore_ascii_case("inf") {
        return Some(Number::Infinite { is_negative });
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(Number::Neither);
    }
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        None => (rest, 0),
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    (has_digits && are_digits).then_some(Number::Finite { is_negative, whole, fraction, exponent })
}

/// The one text of the number that a text writes, with or without an exponent. None if it writes no number, or one of
/// too many digits.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    let (is_negative, whole, fraction, exponent) = match split(text)? {
        Number::Finite { is_negative, whole, fraction, exponent } => (is_negative, whole, fraction, exponent),
        Number::Infinite { is_negative } => return Some(if is_negative { "-Infinity" } else { "Infinity" }.into()),
        Number::Neither => return Some("NaN".into()),
    };
    if exponent == 0 && is_canonical(text, is_negative, whole, fraction) {
        return Some(Cow::Borrowed(text));
    }
    // Where the point stands among all digits.
    let digits = [whole, fraction].concat();
    let zeros = digits.bytes().take_while(|&byte| byte == b'0').count();
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let scale = (i64::try_from(digits.len()).ok()? - point).max(0);
    let is_zero = zeros == digits.len();
    let before = if is_zero { 0 } else { (point - i64::try_from(zeros).ok()?).max(0) };
    if scale > FRACTION_DIGITS_MAX as i64 || before > WHOLE_DIGITS_MAX as i64 {
        return None;
    }
    let (scale, before) = (scale as usize, before as usize);
    let significant = &digits[zeros..];
    let mut written = String::with_capacity(before + scale + 3);
    if is_negative && !is_zero {
        written.push('-');
    }
    let head = before.min(significant.len());
    written.push_str(&significant[..head]);
    written.extend(std::iter::repeat_n('0', before - head));
    if before == 0 {
        written.push('0');
    }
    if scale > 0 {
        written.push('.');
        let tail = &significant[head..];
        written.extend(std::iter::repeat_n('0', scale - tail.len()));
        written.push_str(tail);
    }
    Some(Cow::Owned(written))
}

fn is_canonical(text: &str, is_negative: bool, whole: &str, fraction: &str) -> bool {
    let is_short = whole.len() <= WHOLE_DIGITS_MAX && fraction.len() <= FRACTION_DIGITS_MAX;
    let has_whole = whole == "0" || !whole.is_empty() && !whole.starts_with('0');
    let length = whole.len() + if fraction.is_empty() { 0 } else { 1 + fraction.len() } + usize::from(is_negative);
    // No sign before zero; the length tells a plus and a point without digits.
    let is_zero = whole == "0" && fraction.bytes().all(|byte| byte == b'0');
    is_short && has_whole && length == text.len() && !(is_negative && is_zero)
}

/// Appends the sort key of a number.
pub(crate) fn append_sort_key(text: &str, key: &mut Vec<u8>) {
    let (is_negative, whole, fraction) = match split(text) {
        Some(Number::Finite { is_negative, whole, fraction, .. }) => (is_negative, whole, fraction),
        Some(Number::Infinite { is_negative: true }) => return key.push(LEAST),
        Some(Number::Infinite { is_negative: false }) => return key.push(GREATEST),
        Some(Number::Neither) | None => return key.push(NOT_A_NUMBER),
    };
    let digits = || whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0');
    let zeros = digits().take_while(|&digit| digit == 0).count();
    let total = whole.len() + fraction.len();
    if zeros == total {
        return key.push(ZERO);
    }
    let start = key.len();
    let exponent = whole.len() as i32 - zeros as i32;
    key.extend_from_slice(&(MARK + exponent).to_be_bytes()[1..]);
    let mut rest = digits().skip(zeros);
    while let Some(first) = rest.next() {
        key.push(first * 10 + rest.next().unwrap_or(0) + 1);
    }
    while key.last() == Some(&1) {
        key.pop();
    }
    if is_negative {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        key.push(0xff);
    }
}

/// The sort key of a number.
pub(crate) fn sort_key(text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + text.len() / 2);
    append_sort_key(text, &mut key);
    key
}

/// The order of two numbers.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    if a == b { Ordering::Equal } else { sort_key(a).cmp(&sort_key(b)) }
}

/// The same number with the other sign.
pub(crate) fn negated(text: &str) -> String {
    let is_zero = !text.bytes().any(|byte| byte.is_ascii_alphabetic() || (b'1'..=b'9').contains(&byte));
    match text.strip_prefix('-') {
        Some(magnitude) => magnitude.to_owned(),
        None if is_zero || text == "NaN" => text.to_owned(),
        None => format!("-{text}"),
    }
}

/// The nearest number of double precision.
pub(crate) fn to_f64(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn numbers_have_one_text() {
        for text in
            ["0", "0.00", "-0.05", "12.50", "NaN", "Infinity", "-Infinity", "1000", "0.000000000000000000000001"]
        {
            assert!(matches!(canonical(text), Some(Cow::Borrowed(same)) if same == text), "{text}");
        }
        for (text, expected) in [
            ("+1", "1"),
            (".5", "0.5"),
            ("5.", "5"),
            ("007", "7"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.5e3", "1500"),
            ("1.25E-3", "0.00125"),
            ("0.00123e2", "0.123"),
            ("0.00123e4", "12.3"),
            ("12e-1", "1.2"),
            ("0e5", "0"),
            ("0.0e5", "0"),
            ("0e-3", "0.000"),
            ("-00.10", "-0.10"),
            ("nan", "NaN"),
            ("inf", "Infinity"),
            ("-INF", "-Infinity"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", "-", ".", "1.2.3", "1e", "e5", "1_000", "0x10", "-NaN", " 1", "--1", "１", "1e200000", "1e-16384"]
        {
            assert_eq!(canonical(text), None, "{text:?}");
        }
        assert_eq!(canonical("1e131071").map(|text| text.len()), Some(131_072));
        assert_eq!(canonical("1e131072"), None);
        assert_eq!(canonical("1e-16383").map(|text| text.len()), Some(16_385));
    }

    #[test]
    fn sort_keys_compare_as_numbers_do() {
        let ascending = [
            "-Infinity",
            "-1e300",
            "-100",
            "-99.9",
            "-10.01",
            "-10",
            "-1.1",
            "-1",
            "-0.11",
            "-0.1",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "0.0101",
            "0.1",
            "0.11",
            "1",
            "1.000000001",
            "1.1",
            "9",
            "10",
            "10.5",
            "99",
            "100",
            "101",
            "1e300",
            "Infinity",
            "NaN",
        ];
        for (a, first) in ascending.iter().enumerate() {
            for (b, second) in ascending.iter().enumerate() {
                let text = |text| canonical(text).unwrap();
                assert_eq!(compare(&text(first), &text(second)), a.cmp(&b), "{first} and {second}");
            }
        }
        for (a, b) in [("1", "1.00"), ("0", "0.000"), ("-5.10", "-5.1"), ("100", "100.0")] {
            assert_eq!(sort_key(a), sort_key(b), "{a} and {b}");
        }
    }

    #[test]
    fn sort_keys_compare_as_decimals_do() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut drawn = || {
            let units = random.random::<i128>() >> random.random_range(2..127);
            crate::Decimal::new(units, random.random_range(0..12)).unwrap_or(crate::Decimal::from(7))
        };
        for _ in 0..20_000 {
            let (a, b) = (drawn(), drawn());
            assert_eq!(compare(&a.to_string(), &b.to_string()), a.cmp(&b), "{a} and {b}");
        }
    }
}
