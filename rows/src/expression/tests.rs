use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::expression::evaluate::Failed;
use crate::value::data_type::Collation;
use crate::value::decimal::Decimal;
use crate::value::time::{Date, Timestamp};

const COLUMNS: [ColumnName<'static>; 9] = [
    ColumnName { name: "a", data_type: DataType::I32 },
    ColumnName { name: "b", data_type: DataType::I64 },
    ColumnName { name: "price", data_type: DataType::Decimal { precision: 10, scale: 2 } },
    ColumnName { name: "ratio", data_type: DataType::F64 },
    ColumnName { name: "name", data_type: DataType::TEXT },
    ColumnName { name: "city", data_type: DataType::Text(Collation::Unicode) },
    ColumnName { name: "day", data_type: DataType::Date },
    ColumnName { name: "at", data_type: DataType::Timestamp },
    ColumnName { name: "big", data_type: DataType::Numeric },
];

fn row() -> Vec<Value<'static>> {
    vec![
        Value::Int(7),
        Value::Null,
        Decimal::parse("12.50").unwrap().into(),
        Value::Float(0.5),
        "Zoë\\%".into(),
        "Straße".into(),
        Date::new(2013, 7, 4).unwrap().into(),
        Timestamp::parse("2013-07-04T23:30:00Z").unwrap().into(),
        Value::Numeric("12345678901234567890123456789012345678901234567890.5".into()),
    ]
}

fn value(text: &str) -> String {
    let expression = Expression::parse(text, &COLUMNS).unwrap_or_else(|error| panic!("{text}: {error}"));
    let row = row();
    match expression.evaluate(&row) {
        Ok(value) => value.to_string(),
        Err(Failed::NoValue(what)) => what.to_owned(),
        Err(Failed::Read(error)) => error.to_string(),
    }
}

#[test]
fn values_are_those_of_sql() {
    for (text, expected) in [
        ("a = 7", "true"),
        ("a <> 7 OR a > 6", "true"),
        ("b = 1", "NULL"),
        ("b IS NULL AND NOT a IS NULL", "true"),
        ("b = 1 OR TRUE", "true"),
        ("b = 1 AND FALSE", "false"),
        ("b = 1 AND TRUE", "NULL"),
        ("NOT (b = 1)", "NULL"),
        ("a + 2 * 3 - 1", "12"),
        ("(a + 2) * 3", "27"),
        ("a / 2", "3"),
        ("-a % 4", "-3"),
        ("a / 0", "a division by zero"),
        ("a / 2.0", "3.500000"),
        ("price * 2", "25.00"),
        ("price = 12.5", "true"),
        ("price > 12", "true"),
        ("ratio = 0.5", "true"),
        ("ratio * a", "3.5"),
        ("a = 7e0", "true"),
        ("a BETWEEN 7 AND 9", "true"),
        ("a NOT BETWEEN 7 AND 9", "false"),
        ("a BETWEEN b AND 6", "false"),
        ("a BETWEEN b AND 9", "NULL"),
        ("a IN (1, 7)", "true"),
        ("a NOT IN (1, b)", "NULL"),
        ("a IN (1, 2)", "false"),
        ("name LIKE 'Zo_%'", "true"),
        ("name LIKE '%\\\\\\%'", "true"),
        ("name NOT LIKE 'Z'", "true"),
        ("name LIKE 'Z\\'", "a pattern of LIKE ends with a backslash"),
        ("name = 'zoë\\%'", "false"),
        ("city = 'STRASSE'", "true"),
        ("'strasse' = city", "true"),
        ("city > 'strand' AND city < 'street'", "true"),
        ("day = '2013-07-04'", "true"),
        ("day < DATE '2013-07-05'", "true"),
        ("date(at) = day", "true"),
        ("at >= '2013-07-04'", "true"),
        ("year(day) * 100 + month(at)", "201307"),
        ("day(day)", "4"),
        ("lower(name)", "\"zoë\\\\%\""),
        ("upper(city)", "\"STRASSE\""),
        ("length(name)", "5"),
        ("substr(name, 2, 2)", "\"oë\""),
        ("substr(name, -1, 3)", "\"Z\""),
        ("substr(name, 4)", "\"\\\\%\""),
        ("substr(name, 9)", "\"\""),
        ("trim('  x ')", "\"x\""),
        ("abs(a - 10)", "3"),
        ("abs(-price)", "12.50"),
        ("'it''s'", "\"it's\""),
        ("9223372036854775807 + 1", "9223372036854775808"),
        ("170141183460469231731687303715884105727 + a", "a number has more digits than it can have"),
        ("NULL + 1 IS NULL", "true"),
        ("big = '12345678901234567890123456789012345678901234567890.50'", "true"),
        ("big > 7 AND big > 7.5 AND big > 1e10 AND 7 < big AND big <> 'NaN'", "true"),
        ("big IN (1, 2) OR big BETWEEN 1 AND NUMERIC '1e50'", "true"),
        ("-big < 0 AND abs(-big) = big", "true"),
        ("big + 1 > 0", "a number has more digits than it can have"),
        ("a = 7.0 AND a < 7.5 AND a < 1e300", "true"),
        ("UUID '67e55044-10b1-426f-9247-bb680e5fe0c8' = '67E55044-10b1-426f-9247-bb680e5fe0c8'", "true"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn wrong_expressions_are_explained() {
    for (text, reason) in [
        ("", "a value is missing at the end"),
        ("a =", "a value is missing at the end"),
        ("a = = 7", "a value is missing at byte 4"),
        ("(a = 7", "\")\" is missing at the end"),
        ("a = 7)", "what stands from byte 5 on is too much"),
        ("a = 7 b", "what stands from byte 6 on is too much"),
        ("c = 7", "there is no column \"c\"; the columns are a, b, price, ratio, name, city, day, at, big"),
        ("A = 7", "there is no column \"A\""),
        ("a = 'x'", "cannot compare i32 with text"),
        ("name = 7", "cannot compare"),
        ("day = 'soon'", "is not of type date"),
        ("a AND TRUE", "AND takes conditions, not i32"),
        ("NOT a", "NOT takes conditions, not i32"),
        ("name + 1", "`+` takes numbers, not text"),
        ("-name", "`-` takes a number, not text"),
        ("a LIKE 'x'", "LIKE takes text, not i32"),
        ("city LIKE 'x'", "text(unicode)"),
        ("now()", "there is no function \"now\"; there are lower, upper"),
        ("lower(a)", "lower takes text, not i32"),
        ("lower(name, name)", "lower takes 1 argument, not 2"),
        ("substr(name)", "substr takes 2 or 3 arguments, not 1"),
        ("'open", "a quote is opened at byte 0 and never closed"),
        ("a ; b", "';' at byte 2 is not a part of an expression"),
        ("a IS 7", "NULL is missing at byte 5"),
        ("a BETWEEN 1 OR 2", "AND is missing"),
        ("a IN ()", "a value is missing"),
        ("999999999999999999999999999999999999999999 = a", "has more digits"),
        ("and", "a value is missing"),
    ] {
        let error = Expression::parse(text, &COLUMNS).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert!(Expression::parse_condition("a + 1", &COLUMNS).unwrap_err().contains("a condition is true or false"));
}

#[test]
fn deep_and_long_expressions_have_an_end() {
    for text in [
        "(".repeat(100_000),
        "NOT ".repeat(5_000),
        "-".repeat(10_000) + "a",
        "a".to_owned() + &" + a".repeat(5_000),
        "a IS NULL".to_owned() + &" OR a IS NULL".repeat(5_000),
        "lower(".repeat(1_000),
    ] {
        assert!(Expression::parse(&text, &COLUMNS).is_err());
    }
    let many = "a = 1".to_owned() + &" OR a = 1".repeat(1_000);
    assert!(Expression::parse(&many, &COLUMNS).is_ok());
}

#[test]
fn texts_of_random_expressions_read_back_as_the_same() {
    let seed = quipu_testing::seeds::seed_or(1);
    println!("SEED={seed}");
    let random = &mut StdRng::seed_from_u64(seed);
    let name_of = |place: usize| COLUMNS[place].name.to_owned();
    let row = row();
    for _ in 0..5_000 {
        let text = condition(random, 3);
        let parsed = Expression::parse(&text, &COLUMNS).unwrap_or_else(|error| panic!("{text}: {error}"));
        let written = parsed.text(&name_of);
        let again = Expression::parse(&written, &COLUMNS).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(again, parsed, "{text} was written {written}");
        let _ = again.holds(&row);
    }
    let odd = [
        ColumnName { name: "odd \"name\"", data_type: DataType::I8 },
        ColumnName { name: "or", data_type: DataType::I8 },
    ];
    let parsed = Expression::parse("\"odd \"\"name\"\"\" > \"or\"", &odd).unwrap();
    assert_eq!(parsed.text(&|place| odd[place].name.to_owned()), "\"odd \"\"name\"\"\" > \"or\"");
    assert_eq!(parsed.columns(), [0, 1]);
}

fn pick<'t>(random: &mut StdRng, texts: &[&'t str]) -> &'t str {
    texts[random.random_range(0..texts.len())]
}

fn condition(random: &mut StdRng, depth: u32) -> String {
    if depth == 0 {
        return pick(random, &["TRUE", "FALSE", "NULL", "a IS NULL", "day IS NOT NULL", "name LIKE 'a%'"]).to_owned();
    }
    let depth = depth - 1;
    match random.random_range(0..7) {
        0 => format!("({}) AND {} AND ({})", condition(random, depth), condition(random, 0), condition(random, depth)),
        1 => format!("({}) OR ({})", condition(random, depth), condition(random, depth)),
        2 => format!("NOT ({})", condition(random, depth)),
        3 => {
            let sign = pick(random, &["=", "<>", "<", "<=", ">", ">="]);
            format!("{} {sign} {}", number(random, depth), number(random, depth))
        }
        4 => format!("{} IN ({}, {})", number(random, depth), number(random, depth), number(random, 0)),
        5 => format!("{} NOT BETWEEN {} AND {}", number(random, depth), number(random, depth), number(random, depth)),
        _ => format!("({}) IS NOT NULL", condition(random, depth)),
    }
}

fn number(random: &mut StdRng, depth: u32) -> String {
    if depth == 0 {
        return pick(random, &["a", "b", "price", "ratio", "7", "-7", "2.50", "-2.", "1e3", "-1.5e-7", "NULL"])
            .to_owned();
    }
    let depth = depth - 1;
    match random.random_range(0..3) {
        0 => format!("abs({})", number(random, depth)),
        1 => format!("-({})", number(random, depth)),
        _ => {
            let sign = pick(random, &["+", "-", "*", "/", "%"]);
            format!("({}) {sign} ({})", number(random, depth), number(random, depth))
        }
    }
}
