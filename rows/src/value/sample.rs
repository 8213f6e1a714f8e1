//! Random values at the edges of their types, for tests.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use uuid::Uuid;

use super::Value;
use super::data_type::DataType;
pub(crate) use super::data_type::TYPES;
use super::decimal::Decimal;
use super::time::{Date, Timestamp};
use super::{keyed_bytes, number};

/// A value that a column of this type accepts, NULL now and then.
pub(crate) fn random_value(data_type: DataType, random: &mut StdRng) -> Value<'static> {
    if random.random_range(0..12) == 0 {
        return Value::Null;
    }
    if let Some((min, max)) = data_type.int_range() {
        return Value::Int(match random.random_range(0..4) {
            0 => min + random.random_range(0..3),
            1 => max - random.random_range(0..3),
            2 => random.random_range(min.max(-3)..=max.min(3)),
            _ => (random.random::<i128>() >> random.random_range(64..126)).clamp(min, max),
        });
    }
    match data_type {
        DataType::Bool => Value::Bool(random.random()),
        DataType::F32 => Value::Float(random_float(random, |random| f32::from_bits(random.next_u32()).into())),
        DataType::F64 => Value::Float(random_float(random, |random| f64::from_bits(random.next_u64()))),
        DataType::Decimal { precision, scale } => {
            let limit = 10i128.pow(precision.into()) - 1;
            let units = match random.random_range(0..3) {
                0 => limit - random.random_range(0..3),
                1 => random.random_range(-3..=3),
                _ => random.random_range(-limit..=limit),
            };
            Value::Decimal(Decimal::new(units, scale).expect("within the limit"))
        }
        DataType::Numeric => Value::Numeric(random_number(random).into()),
        DataType::Text(_) => Value::from(random_text(random)),
        DataType::Bytes => Value::from(random_bytes(random)),
        DataType::KeyedBytes => Value::from(keyed_bytes::join(&random_bytes(random), &random_bytes(random))),
        DataType::Date => {
            Value::Date(Date::from_days(random.random_range(-1000..1000) * 2_900).expect("in the calendar"))
        }
        DataType::Timestamp => {
            let microseconds = random.random_range(-1000..1000i64) * 250_000_000_000_000 + random.random_range(0..3);
            Value::Timestamp(Timestamp::from_microseconds(microseconds).expect("in the calendar"))
        }
        DataType::Uuid => Value::Uuid(Uuid::from_u128(random.random::<u128>() >> random.random_range(0..128))),
        DataType::Json => {
            let text = serde_json::Value::from(random_text(random)).to_string();
            let text = [format!("[1, {text}]"), text, "{}".to_owned()][random.random_range(0..3)].clone();
            Value::Json(text.into())
        }
        _ => unreachable!("integers are above"),
    }
}

fn random_float(random: &mut StdRng, any: impl Fn(&mut StdRng) -> f64) -> f64 {
    let edges = [0.0, -0.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    match random.random_range(0..2) {
        0 => edges[random.random_range(0..edges.len())],
        _ => any(random),
    }
}

fn random_bytes(random: &mut StdRng) -> Vec<u8> {
    (0..random.random_range(0..6)).map(|_| [0, 1, 0x7f, 0xfe, 0xff][random.random_range(0..5)]).collect()
}

/// A number of any size, or none.
pub(crate) fn random_number(random: &mut StdRng) -> String {
    let digits = |random: &mut StdRng, most: usize| -> String {
        let count = random.random_range(0..=most);
        (0..count).map(|_| ['0', '0', '1', '5', '9'][random.random_range(0..5)]).collect()
    };
    let (most_whole, most_fraction) = [(1, 0), (2, 3), (50, 40)][random.random_range(0..3)];
    let (whole, fraction) = (digits(random, most_whole), digits(random, most_fraction));
    let sign = if random.random() { "-" } else { "" };
    let finite = format!("{sign}0{whole}.{fraction}");
    let special = ["NaN", "Infinity", "-Infinity"];
    let text = special.get(random.random_range(0..20)).map_or(finite, |text| (*text).to_owned());
    number::canonical(&text).expect("it is a number").into_owned()
}

/// Text of characters that meet the edges of keys and of collations.
pub(crate) fn random_text(random: &mut StdRng) -> String {
    const CHARACTERS: [char; 24] = [
        '\0',
        '\u{1}',
        ' ',
        '-',
        '_',
        '1',
        '9',
        'a',
        'A',
        'á',
        'Ä',
        'b',
        'B',
        'é',
        'E',
        'ß',
        's',
        'S',
        'z',
        '\u{301}',
        '日',
        '👍',
        '\u{ffff}',
        '\u{10ffff}',
    ];
    (0..random.random_range(0..6)).map(|_| CHARACTERS[random.random_range(0..CHARACTERS.len())]).collect()
}
