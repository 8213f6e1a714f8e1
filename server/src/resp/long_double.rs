//! The 80-bit numbers of x87, in which Redis computes `INCRBYFLOAT`: read from text, added, printed with 17 decimals.
//!
//! A 64-bit mantissa is what makes 0.1 + 0.2 print as 0.3. Reading and printing are exact, with one rounding to nearest
//! even, as in glibc. Differences from the hardware: no numbers below the normal range, as nothing below 10^-17 is ever
//! printed; and no sign of zero, as Redis prints none.
//!
//! Cost: below a microsecond for numbers of ordinary length. It grows with the square of the length of the text, which
//! is bounded: some milliseconds at the worst.

use std::error::Error;
use std::fmt;

/// Redis reads no longer texts than this.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Binary exponent of the highest bit of the largest finite number.
const EXPONENT_MAX: i64 = 16383;
/// Binary exponent of the lowest bit of the smallest number above zero.
const EXPONENT_LOWEST: i64 = -16445;

/// Why [`add_long_double`] has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumError {
    /// The first text is no number.
    NotANumber,
    /// The increment is no number.
    IncrementNotANumber,
    /// The sum is infinite or not a number.
    NotFinite,
}

impl fmt::Display for SumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SumError::NotANumber | SumError::IncrementNotANumber => "value is not a valid float",
            SumError::NotFinite => "increment would produce NaN or Infinity",
        })
    }
}

impl Error for SumError {}

/// The sum of two numbers as `INCRBYFLOAT` answers it: at most 17 decimals, no exponent, no zeros at the end.
///
/// # Errors
/// [`SumError`] names what is wrong; its text is what `INCRBYFLOAT` says after `ERR`.
pub fn add_long_double(text: &[u8], increment: &[u8]) -> Result<String, SumError> {
    let number = LongDouble::parse(text).ok_or(SumError::NotANumber)?;
    let increment = LongDouble::parse(increment).ok_or(SumError::IncrementNotANumber)?;
    match number.add(increment) {
        Some(LongDouble::Finite(sum)) => {
            let mut out = Vec::new();
            write_finite(&mut out, sum);
            Ok(String::from_utf8(out).expect("digits"))
        }
        _ => Err(SumError::NotFinite),
    }
}

/// Appends a finite `f64` the same way.
pub(super) fn write_finite_f64(out: &mut Vec<u8>, number: f64) {
    let bits = number.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match bits >> 52 & 0x7FF {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased as i64 - 1075),
    };
    write_finite(out, Finite { negative: number.is_sign_negative(), mantissa, exponent });
}

/// A value scanned from text, before its one rounding: `mantissa * 2^exponent`, and a little more if `sticky`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unrounded {
    negative: bool,
    mantissa: u128,
    exponent: i64,
    sticky: bool,
}

impl Unrounded {
    /// The nearest number whose mantissa has `precision` bits and whose lowest bit is not below `2^lowest`: `mantissa *
    /// 2^exponent`.
    fn round(self, precision: u32, lowest: i64) -> (u64, i64) {
        if self.mantissa == 0 {
            return (0, lowest);
        }
        let surplus = i64::from(128 - self.mantissa.leading_zeros()) - i64::from(precision);
        let shift = surplus.max(lowest - self.exponent);
        if shift <= 0 {
            // Bits to spare, so there is nothing to round: a sticky rest only ever follows 120 bits or more.
            return ((self.mantissa << -shift) as u64, self.exponent + shift);
        }
        if shift > 128 {
            return (0, lowest);
        }
        let (kept, rest) = match shift {
            128 => (0, self.mantissa),
            shift => (self.mantissa >> shift, self.mantissa << (128 - shift)),
        };
        let half = 1u128 << 127;
        let is_up = rest > half || rest == half && (self.sticky || kept & 1 == 1);
        let rounded = kept + u128::from(is_up);
        match u64::try_from(rounded) {
            Ok(mantissa) if precision == 64 || mantissa >> precision == 0 => (mantissa, self.exponent + shift),
            // The carry made one bit too many; the lowest is zero then.
            _ => ((rounded >> 1) as u64, self.exponent + shift + 1),
        }
    }

    /// The nearest `f64`; `None` if it overflows, or is zero and the value is not.
    pub(super) fn to_f64(self) -> Option<f64> {
        let (mantissa, exponent) = self.round(53, -1074);
        if mantissa == 0 {
            return (self.mantissa == 0).then_some(if self.negative { -0.0 } else { 0.0 });
        }
        let high = exponent + i64::from(63 - mantissa.leading_zeros());
        if high > 1023 {
            return None;
        }
        let bits = if high < -1022 {
            mantissa << (exponent + 1074)
        } else {
            let full = mantissa << mantissa.leading_zeros() >> 11;
            full & ((1 << 52) - 1) | ((high + 1023) as u64) << 52
        };
        Some(f64::from_bits(bits | u64::from(self.negative) << 63))
    }
}

/// Reads `[sign]0x` and hexadecimal digits with at most one point, then perhaps `p` and a decimal exponent.
pub(super) fn scan_hexadecimal(text: &[u8]) -> Option<Unrounded> {
    let (negative, text) = sign(text);
    let [b'0', b'x' | b'X', digits @ ..] = text else { return None };
    let (digits, power) = split_exponent(digits, b'p')?;
    let (mut mantissa, mut exponent, mut sticky) = (0u128, power, false);
    let (mut has_digit, mut has_point) = (false, false);
    for &byte in digits {
        if byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        has_digit = true;
        if mantissa >> 124 == 0 {
            mantissa = mantissa << 4 | u128::from(digit);
            exponent -= 4 * i64::from(has_point);
        } else {
            sticky |= digit != 0;
            exponent += 4 * i64::from(!has_point);
        }
    }
    has_digit.then_some(Unrounded { negative, mantissa, exponent, sticky })
}

/// The same for decimal digits and `e`. `None` also if the number is far outside of the range.
fn scan_decimal(text: &[u8]) -> Option<Unrounded> {
    let (negative, text) = sign(text);
    let (digits, power) = split_exponent(text, b'e')?;
    let mut power = power;
    let mut significant = Vec::with_capacity(digits.len());
    let (mut has_digit, mut has_point) = (false, false);
    for &byte in digits {
        match byte {
            b'.' if !has_point => has_point = true,
            b'0'..=b'9' => {
                has_digit = true;
                power -= i64::from(has_point);
                if byte != b'0' || !significant.is_empty() {
                    significant.push(byte - b'0');
                }
            }
            _ => return None,
        }
    }
    while significant.last() == Some(&0) {
        significant.pop();
        power += 1;
    }
    if !has_digit {
        return None;
    }
    if significant.is_empty() {
        return Some(Unrounded { negative, mantissa: 0, exponent: 0, sticky: false });
    }
    // The largest number is below 10^4933, half of the smallest above 10^-4952.
    if !(-4960..=4940).contains(&(significant.len() as i64 + power)) {
        return None;
    }
    let mut number = Natural::from_digits(&significant);
    let mut exponent = power;
    let mut sticky = false;
    // 10^power = 5^power * 2^power, and 5^13 is the largest power below 2^32.
    const FIVES: u32 = 5u32.pow(13);
    let mut fives = power.unsigned_abs();
    if power < 0 {
        // So many bits more than 5^fives, which has at most 7/3 bits a five, that the quotient has 128.
        let shift = (fives * 7 / 3 + 130).saturating_sub(number.bits());
        number.shift_left(shift);
        exponent -= shift as i64;
    }
    while fives > 0 {
        let factor = if fives >= 13 { FIVES } else { 5u32.pow(fives as u32) };
        fives = fives.saturating_sub(13);
        if power < 0 {
            sticky |= number.divide(factor) != 0;
        } else {
            number.multiply_add(factor, 0);
        }
    }
    let (mantissa, shift, is_cut) = number.high_bits();
    Some(Unrounded { negative, mantissa, exponent: exponent + shift as i64, sticky: sticky || is_cut })
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// The digits before `mark` in either case and the exponent after it, at most 10^12 away from zero, or zero if there
/// is no mark.
fn split_exponent(text: &[u8], mark: u8) -> Option<(&[u8], i64)> {
    let Some(at) = text.iter().position(|byte| byte.eq_ignore_ascii_case(&mark)) else { return Some((text, 0)) };
    let (negative, digits) = sign(&text[at + 1..]);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |number, digit| (number * 10 + i64::from(digit - b'0')).min(1_000_000_000_000));
    Some((&text[..at], if negative { -size } else { size }))
}

/// A finite number: `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug)]
struct Finite {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

#[derive(Clone, Copy, Debug)]
enum LongDouble {
    /// If not zero, the highest bit of the mantissa is set.
    Finite(Finite),
    Infinite {
        negative: bool,
    },
}

impl LongDouble {
    /// What `strtold` reads; `None` if that is not the whole text, or out of range.
    fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, unsigned) = sign(text);
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble::Infinite { negative });
        }
        let is_hexadecimal = matches!(unsigned, [b'0', b'x' | b'X', ..]);
        let scanned = if is_hexadecimal { scan_hexadecimal(text) } else { scan_decimal(text) }?;
        if scanned.mantissa != 0 && scanned.round(64, EXPONENT_LOWEST).0 == 0 {
            return None;
        }
        match LongDouble::from_unrounded(scanned) {
            LongDouble::Infinite { .. } => None,
            finite => Some(finite),
        }
    }

    fn from_unrounded(value: Unrounded) -> LongDouble {
        let (mantissa, exponent) = value.round(64, i64::MIN / 2);
        if mantissa == 0 {
            return LongDouble::Finite(Finite { negative: value.negative, mantissa, exponent: 0 });
        }
        let spare = mantissa.leading_zeros();
        let (mantissa, exponent) = (mantissa << spare, exponent - i64::from(spare));
        if exponent + 63 > EXPONENT_MAX {
            return LongDouble::Infinite { negative: value.negative };
        }
        LongDouble::Finite(Finite { negative: value.negative, mantissa, exponent })
    }

    /// The sum; `None` if it is not a number.
    fn add(self, other: LongDouble) -> Option<LongDouble> {
        let (left, right) = match (self, other) {
            (LongDouble::Finite(left), LongDouble::Finite(right)) => (left, right),
            (LongDouble::Infinite { negative: left }, LongDouble::Infinite { negative: right }) if left != right => {
                return None;
            }
            (infinite @ LongDouble::Infinite { .. }, _) | (_, infinite) => return Some(infinite),
        };
        if left.mantissa == 0 {
            return Some(other);
        }
        if right.mantissa == 0 {
            return Some(self);
        }
        let (large, small) = if (left.exponent, left.mantissa) >= (right.exponent, right.mantissa) {
            (left, right)
        } else {
            (right, left)
        };
        // 63 bits more below the mantissa, one left for the carry. The small number loses bits only if it is shifted by
        // more than those, and then a difference has at least 62 bits below the mantissa still, so that one sticky bit
        // rounds it right.
        let shift = large.exponent - small.exponent;
        let high = u128::from(large.mantissa) << 63;
        let low = u128::from(small.mantissa) << 63;
        let (low, sticky) = if shift >= 128 { (0, true) } else { (low >> shift, low >> shift << shift != low) };
        let mantissa = if large.negative == small.negative { high + low } else { high - low - u128::from(sticky) };
        let negative = large.negative && mantissa != 0;
        Some(LongDouble::from_unrounded(Unrounded { negative, mantissa, exponent: large.exponent - 63, sticky }))
    }
}

/// `%.17Lf` without the zeros at the end, and without the sign of a zero.
fn write_finite(out: &mut Vec<u8>, number: Finite) {
    const DECIMALS: usize = 17;
    let start = out.len();
    if number.negative {
        out.push(b'-');
    }
    let digits_start = out.len();
    if number.exponent >= 0 {
        let mut whole = Natural::from_u64(number.mantissa);
        whole.shift_left(number.exponent as u64);
        whole.write_digits(out);
    } else {
        // In units of 10^-17. The mantissa is below 2^64 and 10^17 below 2^57.
        let exact = u128::from(number.mantissa) * 10u128.pow(DECIMALS as u32);
        let shift = -number.exponent;
        let units = if shift > 127 {
            0
        } else {
            let (kept, rest) = (exact >> shift, exact & ((1 << shift) - 1));
            let half = 1u128 << (shift - 1);
            kept + u128::from(rest > half || rest == half && kept & 1 == 1)
        };
        let (whole, mut decimals) = (units / 10u128.pow(DECIMALS as u32), (units % 10u128.pow(DECIMALS as u32)) as u64);
        // Below 2^64, as the exponent is negative; and 2^63 and a half rounds to no more.
        super::number::write_u64(out, whole as u64);
        if decimals != 0 {
            let mut text = [b'0'; DECIMALS];
            for digit in text.iter_mut().rev() {
                *digit = b'0' + (decimals % 10) as u8;
                decimals /= 10;
            }
            let kept = text.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
            out.push(b'.');
            out.extend_from_slice(&text[..kept]);
        }
    }
    if &out[digits_start..] == b"0" {
        out.truncate(start);
        out.push(b'0');
    }
}

/// A natural number of any size: 32-bit words, the lowest first, none of them zero at the high end.
struct Natural {
    words: Vec<u32>,
}

impl Natural {
    fn from_u64(number: u64) -> Natural {
        let mut natural = Natural { words: vec![number as u32, (number >> 32) as u32] };
        natural.trim();
        natural
    }

    /// From decimal digits, each 0 to 9.
    fn from_digits(digits: &[u8]) -> Natural {
        let mut natural = Natural { words: Vec::new() };
        for chunk in digits.chunks(9) {
            let value = chunk.iter().fold(0, |value, digit| value * 10 + u32::from(*digit));
            natural.multiply_add(10u32.pow(chunk.len() as u32), value);
        }
        natural
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn bits(&self) -> u64 {
        self.words.last().map_or(0, |last| 32 * self.words.len() as u64 - u64::from(last.leading_zeros()))
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for word in &mut self.words {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.words.push(carry as u32);
        }
    }

    /// Divides, and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut remainder = 0u64;
        for word in self.words.iter_mut().rev() {
            remainder = remainder << 32 | u64::from(*word);
            *word = (remainder / u64::from(divisor)) as u32;
            remainder %= u64::from(divisor);
        }
        self.trim();
        remainder as u32
    }

    fn shift_left(&mut self, shift: u64) {
        if self.words.is_empty() {
            return;
        }
        if !shift.is_multiple_of(32) {
            self.multiply_add(1 << (shift % 32), 0);
        }
        self.words.splice(0..0, std::iter::repeat_n(0, (shift / 32) as usize));
    }

    /// The highest 128 bits, by how many bits they are shifted, and whether any below them is set.
    fn high_bits(&self) -> (u128, u64, bool) {
        let shift = self.bits().saturating_sub(128);
        let (words, bits) = ((shift / 32) as usize, shift % 32);
        let word = |index: usize| u128::from(self.words.get(words + index).copied().unwrap_or(0));
        let low = (0..4).fold(0, |number, index| number | word(index) << (32 * index));
        let number = if bits == 0 { low } else { low >> bits | word(4) << (128 - bits) };
        let is_cut = self.words[..words].iter().any(|&word| word != 0) || word(0) & ((1 << bits) - 1) != 0;
        (number, shift, is_cut)
    }

    fn write_digits(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.words.is_empty() {
            chunks.push(self.divide(1_000_000_000));
        }
        super::number::write_u64(out, u64::from(chunks.pop().unwrap_or(0)));
        for mut chunk in chunks.into_iter().rev() {
            let mut text = [b'0'; 9];
            for digit in text.iter_mut().rev() {
                *digit = b'0' + (chunk % 10) as u8;
                chunk /= 10;
            }
            out.extend_from_slice(&text);
        }
    }
}
