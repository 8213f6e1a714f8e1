//! The type `tid`: where a row lies. Here that is its primary key, if this is one integer, or the hidden number of a
//! row without a primary key: the upper 32 of 48 bits stand for the block, the lower 16 for the place in it.

use std::fmt::Write;

use crate::error::{Result, SqlError, SqlState};
use crate::types::datum::Datum;

/// The bits of a place.
const PLACE_BITS: u32 = 16;
/// The greatest key that fits.
const KEY_MAX: i64 = (1 << (32 + PLACE_BITS)) - 1;

/// The place of a row with this key.
///
/// # Errors
/// [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) if the key does not fit.
pub(crate) fn of_key(key: i64) -> Result<Datum> {
    match (0..=KEY_MAX).contains(&key) {
        true => Ok(Datum::Int(key)),
        false => {
            let what = format!("a row with the primary key {key} has no ctid");
            Err(SqlError::unsupported(what, "Name the row by its primary key."))
        }
    }
}

/// Appends `(block,place)`.
pub(crate) fn write(key: i64, out: &mut String) {
    let _ = write!(out, "({},{})", key >> PLACE_BITS, key & ((1 << PLACE_BITS) - 1));
}

/// Reads `(block,place)`.
///
/// # Errors
/// [`INVALID_TEXT_REPRESENTATION`](SqlState::INVALID_TEXT_REPRESENTATION).
pub(crate) fn parse(text: &str) -> Result<Datum> {
    let wrong = || {
        let what = format!("invalid input syntax for type tid: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    };
    let parts = text.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')?.0.split_once(','));
    let (block, place) = parts.ok_or_else(wrong)?;
    let (block, place) = (block.trim_start().parse::<u32>(), place.trim_start().parse::<u16>());
    of_parts(block.map_err(|_| wrong())?, place.map_err(|_| wrong())?)
}

/// The value of a block and a place.
///
/// # Errors
/// None: each fits.
pub(crate) fn of_parts(block: u32, place: u16) -> Result<Datum> {
    of_key(i64::from(block) << PLACE_BITS | i64::from(place))
}

/// The block and the place.
pub(crate) fn parts(key: i64) -> (u32, u16) {
    ((key >> PLACE_BITS) as u32, key as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_blocks_and_places() {
        let shown = |key: i64| {
            let mut out = String::new();
            write(key, &mut out);
            out
        };
        assert_eq!(
            (shown(5), shown(65_536), shown(KEY_MAX)),
            ("(0,5)".into(), "(1,0)".into(), "(4294967295,65535)".into())
        );
        for key in [0, 1, 65_535, 65_536, KEY_MAX] {
            assert_eq!(parse(&shown(key)).ok(), Some(Datum::Int(key)));
            let (block, place) = parts(key);
            assert_eq!(of_parts(block, place).ok(), Some(Datum::Int(key)));
        }
        assert_eq!([-1, KEY_MAX + 1].map(|key| of_key(key).is_err()), [true, true]);
        assert!(["", "1,2", "(1)", "(1,2", "(1,65536)", "(-1,2)", "(a,1)"].iter().all(|text| parse(text).is_err()));
    }
}
