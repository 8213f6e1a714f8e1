//! Values that a random choice makes come back from their bytes. Their texts, and PostgreSQL's bytes, are in
//! `tests/binary_values.rs` and `tests/random_queries`, which have sessions.

use quipu_rows::{Date, Timestamp};
use quipu_testing::seeds::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::numeric::{self, Numeric};
use crate::types::binary;
use crate::types::datum::{Datum, Interval};
use crate::types::interval::DAY;
use crate::types::text_encoding::TextEncoding;
use crate::types::zoned_time::ZonedTime;
use crate::types::{BaseType, SqlType};

fn drawn(random: &mut StdRng) -> (SqlType, Datum) {
    let wide: i64 = random.random();
    match random.random_range(0..10) {
        0 => (BaseType::Int2.into(), Datum::Int((wide as i16).into())),
        1 => (BaseType::Int4.into(), Datum::Int((wide as i32).into())),
        2 => (BaseType::Int8.into(), Datum::Int(wide)),
        3 => (BaseType::Float8.into(), Datum::Float(f64::from_bits(wide as u64))),
        4 => (BaseType::Float4.into(), Datum::Float(f32::from_bits(wide as u32).into())),
        5 => {
            let units = i128::from(wide) * 10i128.pow(random.random_range(0..19));
            let factor = Numeric::new(units, random.random_range(0..20));
            let number = match random.random_range(0..3) {
                0 => numeric::product(&factor, &factor),
                1 => numeric::quotient(&factor, &Numeric::new(i128::from(wide) * 7, 3)),
                _ => Ok(factor),
            };
            (BaseType::Numeric.into(), number.map_or(Datum::Null, Datum::Numeric))
        }
        6 => {
            let day = Date::from_days(random.random_range(-2_440_588..2_145_042_905));
            (BaseType::Date.into(), day.map_or(Datum::Null, Datum::Date))
        }
        7 => {
            let moment =
                Timestamp::from_microseconds(random.random_range(-210_866_803_200_000_000..9_223_371_244_800_000_000));
            (BaseType::Timestamp.into(), moment.map_or(Datum::Null, Datum::Timestamp))
        }
        8 => {
            let (time, offset) = (random.random_range(0..=DAY), random.random_range(-57_599..=57_599));
            (BaseType::TimeTz.into(), Datum::Int(ZonedTime { time, offset }.to_int()))
        }
        _ => {
            let (months, days) = (random.random(), random.random());
            (BaseType::Interval.into(), Datum::Interval(Interval { months, days, microseconds: wide }))
        }
    }
}

#[test]
fn values_come_back_from_their_bytes() {
    for seed in seeds(20_000) {
        let (sql_type, value) = drawn(&mut StdRng::seed_from_u64(seed));
        if value.is_null() {
            continue;
        }
        let mut bytes = Vec::new();
        binary::write(&value, sql_type, TextEncoding::UTF8, &mut bytes)
            .unwrap_or_else(|error| panic!("SEED={seed} {value:?}: {error}"));
        let back = binary::read(&bytes, sql_type, TextEncoding::UTF8)
            .unwrap_or_else(|error| panic!("SEED={seed} {value:?}: {error}"));
        assert_eq!(back, value, "SEED={seed}");
    }
}
