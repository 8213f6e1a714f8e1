//! Strings of bits: `bit(n)` and `bit varying(n)`.
//!
//! A value is a text of zeros and ones, while a statement runs and in a column: such texts are equal and sort as
//! strings of bits do.

use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::Datum;
use crate::types::refusal::out_of_range;
use crate::types::{BaseType, SqlType};

impl SqlType {
    /// The type of strings of so many bits, as a statement declares it.
    ///
    /// # Errors
    /// 22023 if none can be that long.
    pub fn of_bits(base: BaseType, length: Option<u64>) -> Result<SqlType> {
        /// The greatest length that PostgreSQL takes.
        const LENGTH_MAX: u64 = 83_886_080;
        let refused = |what: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        let name = base.catalogue_name();
        match length {
            None => Ok(base.into()),
            Some(0) => refused(format!("length for type {name} must be at least 1")),
            Some(length @ 1..=LENGTH_MAX) => Ok(SqlType::of_length(base, length as u32)),
            Some(_) => refused(format!("length for type {name} cannot exceed {LENGTH_MAX}")),
        }
    }
}

/// The bits that a text writes: `101`, `b101`, `x1F`.
///
/// # Errors
/// 22P02.
pub fn parse(text: &str) -> Result<Datum> {
    match text.as_bytes().first() {
        Some(b'x' | b'X') => of_hexadecimal(&text[1..]),
        Some(b'b' | b'B') => of_binary(&text[1..]),
        _ => of_binary(text),
    }
}

fn wrong_digit(digit: char, kind: &str) -> SqlError {
    let what = format!("\"{digit}\" is not a valid {kind} digit");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
}

/// The bits of zeros and ones.
///
/// # Errors
/// 22P02.
pub fn of_binary(digits: &str) -> Result<Datum> {
    match digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
        Some(digit) => Err(wrong_digit(digit, "binary")),
        None => Ok(Datum::text(digits)),
    }
}

/// The bits of hexadecimal digits, four of each.
///
/// # Errors
/// 22P02.
pub fn of_hexadecimal(digits: &str) -> Result<Datum> {
    let mut bits = String::with_capacity(digits.len() * 4);
    for digit in digits.chars() {
        let value = digit.to_digit(16).ok_or_else(|| wrong_digit(digit, "hexadecimal"))?;
        push(&mut bits, u64::from(value), 4);
    }
    Ok(Datum::text(bits))
}

fn push(bits: &mut String, value: u64, count: u32) {
    bits.extend((0..count).rev().map(|place| if value >> place & 1 == 1 { '1' } else { '0' }));
}

/// The last bits of a whole number, as many as are asked for, with its sign before those that it has.
pub fn of_int(value: i64, count: usize) -> Datum {
    let bit = |place: usize| if value >> place.min(63) & 1 == 1 { '1' } else { '0' };
    Datum::text((0..count).rev().map(bit).collect::<String>())
}

/// The whole number of bits.
///
/// # Errors
/// 22003 of more bits than the type has.
pub fn to_int(bits: &str, to: BaseType) -> Result<Datum> {
    let most = if to == BaseType::Int4 { 32 } else { 64 };
    if bits.len() > most {
        return Err(out_of_range(to));
    }
    let value = bits.bytes().fold(0_u64, |value, bit| value << 1 | u64::from(bit == b'1'));
    Ok(Datum::Int(if to == BaseType::Int4 { (value as u32 as i32).into() } else { value as i64 }))
}

/// The bits as a type keeps them that declares a length: an explicit cast cuts them, or adds zeros.
///
/// # Errors
/// 22026 and 22001 of another length.
pub fn fit(bits: &str, to: SqlType, length: usize, is_explicit: bool) -> Result<Datum> {
    let cut = || bits.get(..length).unwrap_or(bits);
    match to.base {
        BaseType::Bit if is_explicit => {
            let mut whole = cut().to_owned();
            whole.extend(std::iter::repeat_n('0', length.saturating_sub(whole.len())));
            Ok(Datum::text(whole))
        }
        BaseType::Bit if bits.len() != length => {
            let what = format!("bit string length {} does not match type {to}", bits.len());
            Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, what))
        }
        BaseType::VarBit if bits.len() > length && !is_explicit => {
            let what = format!("bit string too long for type {to}");
            Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, what))
        }
        _ => Ok(Datum::text(cut())),
    }
}

/// The bits of the protocol: how many they are, and bytes of which the first bit is the highest.
pub(crate) fn of_bytes(count: usize, bytes: &[u8]) -> Option<Datum> {
    if bytes.len() != count.div_ceil(8) {
        return None;
    }
    let mut bits = String::with_capacity(bytes.len() * 8);
    bytes.iter().for_each(|byte| push(&mut bits, u64::from(*byte), 8));
    // Bits after the last one are zeros.
    bits[count..].bytes().all(|bit| bit == b'0').then(|| Datum::text(&bits[..count]))
}

/// The bytes of bits.
pub(crate) fn to_bytes(bits: &str) -> impl Iterator<Item = u8> {
    let byte = |part: &[u8]| part.iter().enumerate().fold(0, |byte, (at, bit)| byte | (bit & 1) << (7 - at));
    bits.as_bytes().chunks(8).map(byte)
}
