//! Numbers of both kinds, small and large, compute the same. What PostgreSQL computes is in `functions/tests`.

use std::hash::{DefaultHasher, Hash, Hasher};

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn numeric(text: &str) -> Numeric {
    Numeric::parse(text).unwrap_or_else(|wrong| panic!("{text:?}: {wrong:?}"))
}

fn hash(number: &Numeric) -> u64 {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

/// The same number, with zeros after the point that make it a large one.
fn widened(number: &Numeric) -> Numeric {
    at_scale(number, 45).unwrap()
}

#[test]
fn texts_are_read_and_written_exactly() {
    let long = "9".repeat(131_072);
    for text in ["0", "0.00", "-12.50", "NaN", "Infinity", "-Infinity", &long, &format!("-0.{}", "7".repeat(16_383))] {
        assert_eq!(numeric(text).to_string(), text);
    }
    for (text, written) in [("1e40", format!("1{}", "0".repeat(40))), ("-1e-40", format!("-0.{}1", "0".repeat(39)))] {
        assert_eq!(numeric(text).to_string(), written);
    }
    assert_eq!(numeric("inf").to_string(), "Infinity");
    for text in ["", "-", ".", "1e", "e1", "1_0", "0x1", "--1", "-NaN", "1.2.3", "1e1.5"] {
        assert_eq!(Numeric::parse(text), Err(Wrong::Text), "{text:?}");
    }
    for text in ["1e131072", "1e-16384", "1e2000000000", &format!("1{long}")] {
        assert_eq!(Numeric::parse(text), Err(Wrong::Range), "{text:?}");
    }
}

#[test]
fn a_small_number_takes_128_bits_and_a_value_no_more_than_before() {
    assert!(matches!(numeric("99999999999999999999999999999999999999"), Numeric::Small(_)));
    assert!(matches!(numeric("100000000000000000000000000000000000000"), Numeric::Large(_)));
    assert_eq!(size_of::<crate::types::datum::Datum>(), 48);
}

#[test]
fn large_numbers_compute_as_small_ones_do() {
    let seed = seed_or(1);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut drawn = || {
        let units = i128::from(random.random::<i64>() >> random.random_range(0..60));
        Numeric::new(units, random.random_range(0..12))
    };
    for _ in 0..3_000 {
        let (a, b) = (drawn(), drawn());
        let (wide_a, wide_b) = (widened(&a), widened(&b));
        assert_eq!(a.cmp(&b), wide_a.cmp(&wide_b), "{a} and {b}");
        assert_eq!(a.cmp(&b), wide_a.cmp(&b), "{a} and {b}");
        assert_eq!(hash(&a), hash(&wide_a), "{a}");
        assert_eq!(a.to_f64(), wide_a.to_f64(), "{a}");
        assert_eq!(trim(&wide_a).to_string(), trim(&a).to_string());
        type Binary = fn(&Numeric, &Numeric) -> crate::error::Result<Numeric>;
        let binary: [Binary; 5] = [add, subtract, product, remainder, whole_quotient];
        for (place, function) in binary.iter().enumerate() {
            let same = (function(&a, &b), function(&wide_a, &wide_b));
            assert_eq!(
                same.0.map_err(|error| error.to_string()),
                same.1.map_err(|error| error.to_string()),
                "{place}: {a} and {b}"
            );
        }
        for scale in [-3, 0, 2] {
            assert_eq!(round(&a, scale).unwrap().to_string(), round(&wide_a, scale).unwrap().to_string());
            assert_eq!(truncate(&a, scale).unwrap().to_string(), truncate(&wide_a, scale).unwrap().to_string());
        }
        assert_eq!(floor(&a).unwrap(), floor(&wide_a).unwrap());
        assert_eq!(ceiling(&a).unwrap(), ceiling(&wide_a).unwrap());
        if !b.is_zero() {
            let quotient = quotient(&a, &b).unwrap();
            let cut = round(&super::quotient(&wide_a, &wide_b).unwrap(), quotient.scale().unwrap() as i32).unwrap();
            let step = Numeric::new(1, quotient.scale().unwrap().min(38) as u8);
            assert!(absolute(&subtract(&quotient, &cut).unwrap()) <= step, "{a} / {b}");
        }
    }
}

#[test]
fn digits_to_the_base_of_10000_come_back() {
    for text in [
        "123456789012345678901234567890123456789012345678.00012",
        "-0.00000000000000000000000000000000000000000001",
        "1e50",
    ] {
        let number = numeric(text);
        let (weight, digits) = write_digits(&number);
        let back = read_digits(number.signum() < 0, weight, &digits, number.scale().unwrap()).unwrap();
        assert_eq!(back.to_string(), number.to_string());
    }
}

#[test]
fn the_order_is_that_of_postgresql() {
    let ascending = ["-Infinity", "-1e50", "-1", "0", "1e-50", "1", "1e50", "Infinity", "NaN"];
    for (a, first) in ascending.iter().enumerate() {
        for (b, second) in ascending.iter().enumerate() {
            assert_eq!(numeric(first).cmp(&numeric(second)), a.cmp(&b), "{first} and {second}");
        }
    }
}
