//! The order of values and of rows.

use std::cmp::Ordering;

use quipu_rows::Collation;

use crate::plan::query::{Direction, SortKey};
use crate::types::datum::Datum;

/// The order of two values in a direction.
pub fn compare_in(a: &Datum, b: &Datum, direction: Direction) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if direction.nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if direction.nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) => {
            let order = match (a, b) {
                (Datum::Text(a), Datum::Text(b)) if direction.is_caseless => Collation::Unicode.compare(a, b),
                _ => a.cmp(b),
            };
            if direction.is_descending { order.reverse() } else { order }
        }
    }
}

/// The order of two rows.
pub fn compare_rows(a: &[Datum], b: &[Datum], keys: &[SortKey]) -> Ordering {
    let orders = keys.iter().map(|key| compare_in(&a[key.place], &b[key.place], key.direction));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// A number that is less where a value comes first, and equal where it is left open: rows are compared by it before
/// their values are looked at. It may be compared with those of values of the same kind, and of NULL.
pub(crate) fn order_number(value: &Datum, direction: Direction) -> u64 {
    let signed = |number: i64| number.cast_unsigned() ^ 1 << 63;
    let first_bytes = |bytes: &[u8]| {
        let mut first = [0; 8];
        let length = bytes.len().min(8);
        first[..length].copy_from_slice(&bytes[..length]);
        u64::from_be_bytes(first)
    };
    let number = match value {
        Datum::Null => return if direction.nulls_first { 0 } else { u64::MAX },
        Datum::Bool(value) => u64::from(*value),
        Datum::Int(value) => signed(*value),
        Datum::Float(value) if value.is_nan() => u64::MAX,
        Datum::Float(value) => {
            let bits = (value + 0.0).to_bits();
            if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
        }
        Datum::Text(_) if direction.is_caseless => 0,
        Datum::Text(text) => first_bytes(text.as_bytes()),
        Datum::Bytes(bytes) => first_bytes(bytes),
        Datum::Date(value) => signed(value.days().into()),
        Datum::Timestamp(value) => signed(value.microseconds()),
        Datum::Uuid(value) => first_bytes(value.as_bytes()),
        _ => 0,
    };
    (if direction.is_descending { !number } else { number }).clamp(1, u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use quipu_rows::{Date, Timestamp, Uuid};

    use super::*;
    use crate::numeric::Numeric;

    #[test]
    fn numbers_of_order_never_contradict_the_order() {
        let floats = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -5e-324];
        let ints = [0, 1, -1, 255, i64::MAX, i64::MIN, i64::MIN + 1];
        let texts = ["", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "abcdefgi", "\u{e9}", "z"];
        let kinds: Vec<Vec<Datum>> = vec![
            vec![Datum::Bool(false), Datum::Bool(true)],
            ints.map(Datum::Int).to_vec(),
            floats.map(Datum::Float).to_vec(),
            texts.map(Datum::text).to_vec(),
            texts.map(|text| Datum::Bytes(text.as_bytes().into())).to_vec(),
            [-5, 0, 7].map(|days| Datum::Date(Date::from_days(days).unwrap())).to_vec(),
            [-5, 0, 7].map(|at| Datum::Timestamp(Timestamp::from_microseconds(at).unwrap())).to_vec(),
            [0, 1 << 63, 1 << 127].map(|bits| Datum::Uuid(Uuid::from_u128(bits))).to_vec(),
            ["1", "-2.5", "1e40"].map(|text| Datum::Numeric(Numeric::parse(text).unwrap())).to_vec(),
        ];
        for mut values in kinds {
            values.push(Datum::Null);
            for settings in 0..8 {
                let [is_descending, nulls_first, is_caseless] = [1, 2, 4].map(|bit| settings & bit != 0);
                let direction = Direction { is_descending, nulls_first, is_caseless };
                for a in &values {
                    for b in &values {
                        let numbers = order_number(a, direction).cmp(&order_number(b, direction));
                        let order = compare_in(a, b, direction);
                        assert!(numbers.is_eq() || numbers == order, "{a:?} {b:?} {direction:?}");
                    }
                }
            }
        }
    }
}
