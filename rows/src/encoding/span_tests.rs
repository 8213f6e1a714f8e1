//! Ranges said in values, compared with the order of rows.

use std::ops::RangeBounds;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::encoding::key::KeyColumn;
use crate::encoding::key_range::after;
use crate::value::sample::{TYPES, random_text, random_value};
use crate::value::{collation, keyed_bytes};

fn shape(types: &[(DataType, bool)]) -> KeyShape {
    KeyShape {
        owner: "table t".to_owned(),
        columns: types.iter().map(|&(data_type, is_descending)| KeyColumn { data_type, is_descending }).collect(),
        names: (0..types.len()).map(|place| format!("c{place}")).collect(),
        nullable: vec![true; types.len()],
    }
}

/// The order of values of the first columns.
fn order(a: &[Value<'_>], b: &[Value<'_>], types: &[(DataType, bool)]) -> std::cmp::Ordering {
    let one = |((a, b), (data_type, is_descending)): ((&Value<'_>, &Value<'_>), &(DataType, bool))| {
        let order = match (a, b) {
            (Value::Text(a), Value::Text(b)) if data_type.is_collated() => collation::compare(a, b),
            (Value::Bytes(a), Value::Bytes(b)) if *data_type == DataType::KeyedBytes => {
                keyed_bytes::sort_key(a).cmp(keyed_bytes::sort_key(b))
            }
            _ => a.cmp(b),
        };
        if *is_descending { order.reverse() } else { order }
    };
    a.iter().zip(b).zip(types).map(one).fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
}

#[test]
fn spans_hold_the_keys_that_their_values_say() {
    let seed = quipu_testing::seeds::seed_or(1);
    println!("SEED={seed}");
    let random = &mut StdRng::seed_from_u64(seed);
    for _ in 0..300 {
        let types: Vec<(DataType, bool)> =
            (0..3).map(|_| (TYPES[random.random_range(0..TYPES.len())], random.random())).collect();
        let shape = shape(&types);
        let columns: Vec<Vec<Value<'_>>> =
            types.iter().map(|(data_type, _)| (0..3).map(|_| random_value(*data_type, random)).collect()).collect();
        let mut draw = |len: usize| -> Vec<Value<'static>> {
            columns[..len].iter().map(|column| column[random.random_range(0..3)].clone()).collect()
        };
        let order = |a: &[Value<'_>], b: &[Value<'_>]| order(a, b, &types);
        for len in 1..=3 {
            let (low, high, row) = (draw(len), draw(len), draw(3));
            let mut key = Vec::new();
            shape.encode(&row, &mut key).unwrap();
            let (to_low, to_high) = (order(&row, &low), order(&row, &high));
            let (low, high) = (&low[..], &high[..]);
            let (beginning, none) = (&low[..len - 1], &[][..]);
            let begins = order(&row, beginning).is_eq();
            for (span, ends, expected) in [
                (Span::eq(low), [low, low], to_low.is_eq()),
                (Span::ge(low), [low, none], to_low.is_ge()),
                (Span::gt(low), [low, none], to_low.is_gt()),
                (Span::le(low), [none, low], to_low.is_le()),
                (Span::lt(low), [none, low], to_low.is_lt()),
                (Span::gt(low).and_le(high), [low, high], to_low.is_gt() && to_high.is_le()),
                (Span::ge(low).and_lt(high), [low, high], to_low.is_ge() && to_high.is_lt()),
                (Span::ge(beginning).and_le(low), [beginning, low], order(&row, beginning).is_ge() && to_low.is_le()),
                (Span::eq(beginning).and(Span::gt(low)), [low, beginning], begins && to_low.is_gt()),
                (Span::lt(low).and(Span::eq(beginning)), [beginning, low], begins && to_low.is_lt()),
                (Span::all(), [none, none], true),
            ] {
                let is_in = |span: &Span<'_>| {
                    let range = span.encode(&shape).unwrap();
                    (range.start, range.end).contains(&key)
                };
                // The first column in which the ends differ: there NULL is less than nothing, unless an end names it.
                let alike = |len: &usize| {
                    let [a, b] = ends.map(|values| values.get(..*len));
                    a.zip(b).is_some_and(|(a, b)| order(a, b).is_eq())
                };
                let column = (1..=3).take_while(alike).count();
                let values: Vec<&Value<'_>> = ends.iter().filter_map(|values| values.get(column)).collect();
                let is_null =
                    row.get(column).is_some_and(Value::is_null) && !values.iter().any(|value| value.is_null());
                let context = format!("{row:?} in {span}, {types:?}");
                assert_eq!(is_in(&span), expected && (!is_null || values.is_empty()), "{context}");
                assert_eq!(is_in(&span.clone().with_nulls()), expected, "with NULLs, {context}");
                assert_eq!(is_in(&span.clone().without_nulls()), expected && !is_null, "without NULLs, {context}");
            }
        }
    }
}

/// Ranges leave out NULL only where a column can have it, and what another range has told has what it had.
#[test]
fn a_range_of_a_column_without_nulls_and_a_part_of_a_range_are_as_they_are() {
    let mut shape = shape(&[(DataType::I8, false), (DataType::I8, true)]);
    let encoded = |shape: &KeyShape, span: Span<'_>| span.encode(shape).unwrap();
    let key = |values: &[Value<'_>]| {
        let mut key = Vec::new();
        shape.encode(values, &mut key).unwrap();
        key
    };
    let null = after(key(&[Value::Null]));
    let part = KeyRange::new(Bound::Unbounded, Bound::Excluded(key(&[Value::Int(7), Value::Int(3)])));
    assert_eq!(encoded(&shape, Span::lt(7)).start, Bound::Included(null.clone()));
    assert_eq!(encoded(&shape, Span::from(&part)), part);
    assert_eq!(encoded(&shape, Span::from(&part).without_nulls()), part);
    assert_eq!(encoded(&shape, Span::all().without_nulls().and(Span::le(5))).start, Bound::Included(null.clone()));
    // Of a part, a range of values.
    let of_part = encoded(&shape, Span::lt(9).and(Span::from(&part)));
    assert_eq!(of_part, KeyRange::new(Bound::Included(null), part.end.clone()));
    // NULLs of a descending column stand last.
    let end = encoded(&shape, Span::eq(7).and(Span::ge((7, 3)))).end;
    assert_eq!(end, Bound::Excluded(key(&[Value::Int(7), Value::Null])));
    // Nothing lies before NULL, nor after all.
    for nothing in [Span::lt(Value::Null), Span::gt(7).and_le(7), Span::ge(9).and(Span::lt(3))] {
        for nothing in [nothing.clone(), nothing.clone().without_nulls(), nothing.with_nulls()] {
            let range = encoded(&shape, nothing);
            for row in [[Value::Null, Value::Null], [Value::Int(7), Value::Null], [Value::Int(5), Value::Int(5)]] {
                assert!(!(range.start.clone(), range.end.clone()).contains(&key(&row)), "{row:?}");
            }
        }
    }
    shape.nullable = vec![false; 2];
    assert_eq!(encoded(&shape, Span::lt(7).without_nulls()).start, Bound::Unbounded);
    assert_eq!(encoded(&shape, Span::all().without_nulls()), KeyRange::all());
}

#[test]
fn texts_are_continued_in_both_orders() {
    let random = &mut StdRng::seed_from_u64(5);
    for data_type in [DataType::TEXT, DataType::Text(crate::Collation::Unicode)] {
        for is_descending in [false, true] {
            let shape = shape(&[(DataType::I8, false), (data_type, is_descending), (DataType::I8, true)]);
            for round in 0..4_000 {
                let beginning = random_text(random);
                let text = if round % 2 == 0 { beginning.clone() + &random_text(random) } else { random_text(random) };
                let mut key = Vec::new();
                shape.encode(&[Value::Int(7), Value::from(&text), Value::Int(1)], &mut key).unwrap();
                let range = Span::starts_with((7, &beginning)).encode(&shape).unwrap();
                let expected = match data_type.is_collated() {
                    false => text.starts_with(&beginning),
                    true => {
                        let last = format!("{beginning}\u{ffff}");
                        collation::compare(&text, &beginning).is_ge() && collation::compare(&text, &last).is_lt()
                    }
                };
                assert_eq!((range.start, range.end).contains(&key), expected, "{text:?} after {beginning:?}");
            }
        }
    }
}

#[test]
fn values_of_other_types_are_refused_and_integers_beyond_the_column_are_not() {
    let shape = shape(&[(DataType::I8, false), (DataType::Date, false)]);
    let error = |span: Span<'_>| span.encode(&shape).unwrap_err().to_string();
    assert_eq!(error(Span::eq("x")), "table t, column c0: \"x\" is text, expected i8");
    assert_eq!(error(Span::eq((1, 2))), "table t, column c1: 2 is an integer, expected date");
    assert_eq!(error(Span::eq((1, "x", 3))), "3 values for the key of table t, which has 2 columns: c0, c1");
    assert!(error(Span::starts_with(1)).contains("only text can be continued"));
    let mut key = Vec::new();
    shape.encode(&[Value::Int(127), Value::Null], &mut key).unwrap();
    let range = Span::lt(1000).encode(&shape).unwrap();
    assert!((range.start, range.end).contains(&key));
}
