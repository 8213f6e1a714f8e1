//! Numbers as text, read and written as Redis does it.
//!
//! Integers have one spelling each: no sign but a minus, no leading zeros, no spaces. Floating-point numbers are what
//! `strtod` reads without skipping spaces: decimal or hexadecimal, and infinity; written with 17 significant digits, as
//! Redis 7.0 does it (0.1 reads 0.10000000000000001), or for people with 17 decimals. Not here: the arithmetic of
//! `INCRBYFLOAT`, which is in `long_double`; the protocol's frames around numbers.

use std::io::Write;

use super::long_double;
pub use super::long_double::{SumError, add_long_double};

/// The integer that all of `text` spells, as `string2ll` reads it.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        b"0" => Some(0),
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(parse_positive(digits)?),
        digits => i64::try_from(parse_positive(digits)?).ok(),
    }
}

/// The integer that all of `text` spells, by the same rules.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text == b"0" { Some(0) } else { parse_positive(text) }
}

/// A number above zero.
#[inline]
fn parse_positive(digits: &[u8]) -> Option<u64> {
    // Nineteen digits always fit.
    if digits.len() > 20 || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut number = 0u64;
    for &byte in &digits[..digits.len().min(19)] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    match digits.get(19) {
        None => Some(number),
        Some(byte @ b'0'..=b'9') => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        Some(_) => None,
    }
}

/// The number that all of `text` spells, rounded to the nearest: what commands take as score, increment or coordinate.
/// `None` also if it is too large, or so small that it would be zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let is_decimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    if text.iter().all(is_decimal) {
        let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        let is_lost = number == 0.0
            && text.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e')).any(|byte| matches!(byte, b'1'..=b'9'));
        return (number.is_finite() && !is_lost).then_some(number);
    }
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
        return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    long_double::scan_hexadecimal(text)?.to_f64()
}

/// Room for the text of any `u64` or `i64`.
pub(super) const INTEGER_BYTES_MAX: usize = 20;

/// The digits of `number`, at the end of `room`.
#[inline]
pub(super) fn digits(room: &mut [u8; INTEGER_BYTES_MAX], mut number: u64) -> &[u8] {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
            number += 1;
        }
        pairs
    };
    let mut start = INTEGER_BYTES_MAX;
    while number >= 100 {
        start -= 2;
        room[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        start -= 2;
        room[start..start + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
        start -= 1;
        room[start] = b'0' + number as u8;
    }
    &room[start..]
}

/// Appends an integer.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_u64(out, number.unsigned_abs());
}

/// Appends an integer.
#[inline]
pub fn write_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(digits(&mut [0; INTEGER_BYTES_MAX], number));
}

/// Appends a number as `printf` does it with `%.17g`: 17 significant digits without the zeros at the end, with an
/// exponent below 10^-4 and from 10^17 on. Infinity is `inf`.
pub fn write_f64(out: &mut Vec<u8>, number: f64) {
    const PRECISION: i32 = 17;
    if !number.is_finite() {
        return write_unfinite(out, number);
    }
    let whole = number as i64;
    if whole as f64 == number && whole.unsigned_abs() < 10u64.pow(PRECISION as u32) {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        return write_i64(out, whole);
    }
    // Sign, digit, point, 16 digits, `e`, sign, three digits.
    let mut room = [0u8; 24];
    let mut rest = &mut room[..];
    write!(rest, "{:.16e}", number.abs()).expect("room for any number");
    let text = &room[..];
    let mut significant = [0u8; PRECISION as usize];
    significant[0] = text[0];
    significant[1..].copy_from_slice(&text[2..18]);
    let kept = significant.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let significant = &significant[..kept];
    let exponent_text = &text[19..];
    let (is_small, exponent_text) = match exponent_text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, exponent_text),
    };
    let size = exponent_text
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |n, digit| n * 10 + i32::from(digit - b'0'));
    let exponent = if is_small { -size } else { size };

    if number < 0.0 {
        out.push(b'-');
    }
    if (-4..0).contains(&exponent) {
        out.extend_from_slice(&b"0.000"[..1 + size as usize]);
        out.extend_from_slice(significant);
    } else if (0..PRECISION).contains(&exponent) {
        // Not whole, so the digits go on after the point.
        let (whole, decimals) = significant.split_at(kept.min(1 + size as usize));
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(decimals);
    } else {
        out.push(significant[0]);
        if kept > 1 {
            out.push(b'.');
            out.extend_from_slice(&significant[1..]);
        }
        out.extend_from_slice(if is_small { b"e-" } else { b"e+" });
        if size < 10 {
            out.push(b'0');
        }
        write_u64(out, u64::from(size.unsigned_abs()));
    }
}

/// Appends a number as Redis prints it for people, `%.17Lf` without the zeros at the end: never an exponent, and 0.1
/// reads 0.10000000000000001 still, as that is what an `f64` holds.
pub fn write_human_f64(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        long_double::write_finite_f64(out, number);
    } else {
        write_unfinite(out, number);
    }
}

fn write_unfinite(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(match (number.is_nan(), number > 0.0) {
        (true, _) => b"nan",
        (false, true) => b"inf",
        (false, false) => b"-inf",
    });
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::{
        SumError, add_long_double, parse_f64, parse_i64, parse_u64, write_f64, write_human_f64, write_i64, write_u64,
    };

    #[test]
    fn integers() {
        for number in [0, 1, 9, 10, 99, 100, 101, 12345, 1 << 40, i64::MAX] {
            for number in [number, -number, -number - 1] {
                let mut text = Vec::new();
                write_i64(&mut text, number);
                assert_eq!(text, number.to_string().as_bytes());
                assert_eq!(parse_i64(&text), Some(number));
                assert_eq!(parse_u64(&text), u64::try_from(number).ok());
            }
        }
        let mut text = Vec::new();
        write_u64(&mut text, u64::MAX);
        assert_eq!(
            (text.as_slice(), parse_u64(&text), parse_i64(&text)),
            (&b"18446744073709551615"[..], Some(u64::MAX), None)
        );
        for text in ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "a", "1\0", "0x1", "1.0", "--1"] {
            assert_eq!((parse_i64(text.as_bytes()), parse_u64(text.as_bytes())), (None, None), "{text:?}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        for text in ["18446744073709551616", "99999999999999999999", "1844674407370955161a", "100000000000000000000"] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text}");
        }
    }

    fn printed(number: f64) -> String {
        let mut text = Vec::new();
        write_f64(&mut text, number);
        String::from_utf8(text).unwrap()
    }

    /// What `ZADD` and `ZSCORE` of Redis 7.0 make of a score.
    #[test]
    fn floats_as_redis() {
        let cases = "3 3|3.5 3.5|1e21 1e+21|1.1 1.1000000000000001|0.1 0.10000000000000001|17179869184 17179869184|\
            1e300 1.0000000000000001e+300|0 0|-0 -0|inf inf|-inf -inf|+inf inf|infinity inf|-Infinity -inf|0x10 \
            16|0x1p-3 0.125|\
            0x1.8p1 3|1e16 10000000000000000|1e17 1e+17|99999999999999999 1e+17|-99999999999999984 -99999999999999984|\
            123456789012345678 1.2345678901234568e+17|1e-5 1.0000000000000001e-05|0.0001 0.0001|0.00012345 \
            0.00012344999999999999|\
            2.98023223876953125e-8 2.9802322387695312e-08|5e-324 4.9406564584124654e-324|2e-310 \
            1.9999999999999939e-310|\
            1.7976931348623157e308 1.7976931348623157e+308|.5 0.5|5. 5|1e+5 100000|-.5 -0.5|+.5 0.5|0x.8 0.5|0X1P4 \
            16|-0x1 -1|\
            1.5e-7 1.4999999999999999e-07|123456.789 123456.789|0e999999999999 0|0x1p-1074 4.9406564584124654e-324|\
            0x1.8p-1075 4.9406564584124654e-324|0x1.fffffffffffff7p1023 1.7976931348623157e+308|0x0p99999 0|3.0e3 \
            3000|0x1p+4 16|\
            0x1. 1|1.e3 1000|2.4703282292062329e-324 4.9406564584124654e-324|9007199254740993 9007199254740992|\
            1152921504606846976 1.152921504606847e+18|4.35 4.3499999999999996|100.25 100.25|1e-7 \
            9.9999999999999995e-08|\
            2251799813685249.5 2251799813685249.5|0x1.fffffffffffffp-1022 4.4501477170144023e-308";
        for case in cases.split('|') {
            let (text, expected) = case.split_once(' ').unwrap();
            assert_eq!(parse_f64(text.as_bytes()).map(printed).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            " 1",
            "1 ",
            "1\n",
            "1\0",
            "nan",
            "NAN",
            "nan(1)",
            "1e400",
            "1e-400",
            "1e",
            "0x",
            "+",
            "-",
            ".",
            "e5",
            "infin",
            "1_0",
            "1e99999999999999999999",
            "0x1p-1075",
            "0x1p1024",
            "0x1.fffffffffffff8p1023",
            "--1",
            "+-1",
            "0x1p",
            "0x.",
            "0x1p99999999999999999999",
            "0x1p-99999999999999999999",
            "1e-324",
            "2.4703282292062327e-324",
            "1d",
            "1f",
            "1,5",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn random_floats_read_back() {
        let random = &mut StdRng::seed_from_u64(11);
        for _ in 0..20_000 {
            let number = match random.random_range(0..3) {
                0 => f64::from_bits(random.random()),
                1 => random.random_range(-1e6..1e6),
                _ => f64::from(random.random_range(-100_000..100_000)) / 64.0,
            };
            if number.is_finite() {
                let text = printed(number);
                assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(number.to_bits()), "{text}");
                let bits = number.abs().to_bits();
                let (high, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
                let text = format!("0x{}.{fraction:013x}p{}", u8::from(high != 0), high.max(1) as i64 - 1023);
                assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(bits), "{text}");
            }
        }
    }

    /// What `INCRBYFLOAT` of Redis 7.0 on x86-64 answers.
    #[test]
    fn sums_as_redis() {
        let cases = "10.5 0.1 10.6|3.0e3 200 3200|0 0.1 0.1|0.1 0.2 0.3|1e20 1e-5 100000000000000000000|-0 0 0|0 -0 \
            0|1 -1 0|\
            1.1 2.2 3.3|0x10 0x.8 16.5|17179869184 0.5 17179869184.5|9223372036854775807 1 9223372036854775808|\
            18446744073709551617 1 18446744073709551616|3.14159265358979323846 0 3.14159265358979324|1e25 1 \
            10000000000000000000000000|\
            1e-18 0 0|-1e-18 0 0|5e-18 0 0|1.5e-17 0 0.00000000000000002|2.5e-17 0 0.00000000000000002|1e-4950 0 \
            0|1.9e-4951 0 0";
        for case in cases.split('|') {
            let mut words = case.split(' ');
            let [text, increment, sum] = [(); 3].map(|()| words.next().unwrap());
            assert_eq!(
                add_long_double(text.as_bytes(), increment.as_bytes()).as_deref(),
                Ok(sum),
                "{text} + {increment}"
            );
        }
        let huge = add_long_double(b"1e4932", b"0").unwrap();
        assert!(huge.starts_with("100000000000000000000601894938796389132383777425453311") && huge.len() == 4933);
        for (text, increment, error) in [
            ("1e4932", "1e4932", SumError::NotFinite),
            ("0x1p16383", "0x1p16383", SumError::NotFinite),
            ("inf", "1", SumError::NotFinite),
            ("1", "-infinity", SumError::NotFinite),
            ("-inf", "inf", SumError::NotFinite),
            ("1e4933", "0", SumError::NotANumber),
            ("0x1p16384", "0", SumError::NotANumber),
            ("0x1.ffffffffffffffffp16383", "0", SumError::NotANumber),
            ("1.8e-4951", "0", SumError::NotANumber),
            ("nan", "0", SumError::NotANumber),
            ("", "0", SumError::NotANumber),
            (" 1", "0", SumError::NotANumber),
            ("0", "1 ", SumError::IncrementNotANumber),
            ("0", "abc", SumError::IncrementNotANumber),
            ("0", "nan", SumError::IncrementNotANumber),
        ] {
            assert_eq!(add_long_double(text.as_bytes(), increment.as_bytes()), Err(error), "{text} + {increment}");
        }
        assert_eq!(add_long_double(&[b'0'; 5119], b"1").as_deref(), Ok("1"));
        assert_eq!(add_long_double(&[b'0'; 5120], b"1"), Err(SumError::NotANumber));
    }

    #[test]
    fn floats_for_people() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.1, "0.10000000000000001"),
            (1e21, "1000000000000000000000"),
            (1e-17, "0.00000000000000001"),
            (5e-324, "0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let mut text = Vec::new();
            write_human_f64(&mut text, number);
            assert_eq!(text, expected.as_bytes());
        }
    }

    #[test]
    fn no_text_panics() {
        let random = &mut StdRng::seed_from_u64(12);
        for _ in 0..100_000 {
            let mut draw = || -> Vec<u8> {
                (0..random.random_range(0..12))
                    .map(|_| b"0123456789+-.eExXpPinfa\0"[random.random_range(0..24)])
                    .collect()
            };
            let (text, increment) = (draw(), draw());
            let _ = (parse_i64(&text), parse_f64(&text), add_long_double(&text, &increment));
        }
    }
}
