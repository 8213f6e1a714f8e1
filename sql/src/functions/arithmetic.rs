//! Arithmetic of numbers, which is checked.
//!
//! Not here: the digits of exact numbers (`numeric/arithmetic`).

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Body, Definitions, float, int, number};
use crate::numeric;
use crate::types::BaseType;
use crate::types::cast::{checked_int, single};
use crate::types::datum::Datum;
use crate::types::refusal::{division_by_zero, out_of_range, overflow};

pub(crate) fn define(definitions: &mut Definitions) {
    integers(definitions);
    floats(definitions);
    exact(definitions);
}

/// The bodies of `+ - * / %` for results of a type.
macro_rules! integer_bodies {
    ($base:expr) => {
        [
            |_, values| apply(values, $base, i64::checked_add),
            |_, values| apply(values, $base, i64::checked_sub),
            |_, values| apply(values, $base, i64::checked_mul),
            |_, values| divide(values, $base, i64::checked_div),
            |_, values| divide(values, $base, i64::checked_rem),
        ]
    };
}

fn integers(definitions: &mut Definitions) {
    let bodies: [[Body; 5]; 3] =
        [integer_bodies!(BaseType::Int2), integer_bodies!(BaseType::Int4), integer_bodies!(BaseType::Int8)];
    let names = ["int2", "int4", "int8"];
    for (first, left) in names.iter().enumerate() {
        for (second, right) in names.iter().enumerate() {
            let size = first.max(second);
            let result = names[size];
            for (symbol, body) in ["+", "-", "*", "/", "%"].iter().zip(bodies[size]) {
                if *symbol != "%" || left == right {
                    definitions.add(format!("{symbol}({left},{right}) {result}").leak(), body);
                }
            }
        }
    }
    for (name, bodies) in names.iter().zip(bodies) {
        definitions.add(format!("mod({name},{name}) {name}").leak(), bodies[4]);
        for (symbol, body) in ["&", "|", "#"].iter().zip(bits()) {
            definitions.add(format!("{symbol}({name},{name}) {name}").leak(), body);
        }
        definitions.add(format!("~({name}) {name}").leak(), |_, values| Ok(Datum::Int(!int(values, 0)?)));
        definitions.add(format!("+({name}) {name}").leak(), |_, values| Ok(Datum::Int(int(values, 0)?)));
    }
    for (symbol, [two, four, eight]) in [("<<", left_shifts()), (">>", right_shifts())] {
        definitions.add(format!("{symbol}(int2,int4) int2").leak(), two);
        definitions.add(format!("{symbol}(int4,int4) int4").leak(), four);
        definitions.add(format!("{symbol}(int8,int4) int8").leak(), eight);
    }
    definitions.add("-(int2) int2", |_, values| negate(values, BaseType::Int2));
    definitions.add("-(int4) int4", |_, values| negate(values, BaseType::Int4));
    definitions.add("-(int8) int8", |_, values| negate(values, BaseType::Int8));
    for name in ["abs", "@"] {
        definitions.add(format!("{name}(int2) int2").leak(), |_, values| absolute(values, BaseType::Int2));
        definitions.add(format!("{name}(int4) int4").leak(), |_, values| absolute(values, BaseType::Int4));
        definitions.add(format!("{name}(int8) int8").leak(), |_, values| absolute(values, BaseType::Int8));
    }
    definitions.add("gcd(int4,int4) int4", |_, values| divisor(values, BaseType::Int4));
    definitions.add("gcd(int8,int8) int8", |_, values| divisor(values, BaseType::Int8));
    definitions.add("lcm(int4,int4) int4", |_, values| multiple(values, BaseType::Int4));
    definitions.add("lcm(int8,int8) int8", |_, values| multiple(values, BaseType::Int8));
    definitions.add("gcd(numeric,numeric) numeric", |_, values| {
        Ok(Datum::Numeric(numeric::greatest_divisor(&number(values, 0)?, &number(values, 1)?)?))
    });
    definitions.add("lcm(numeric,numeric) numeric", |_, values| {
        Ok(Datum::Numeric(numeric::least_multiple(&number(values, 0)?, &number(values, 1)?)?))
    });
    definitions.add("div(numeric,numeric) numeric", |_, values| {
        Ok(Datum::Numeric(numeric::whole_quotient(&number(values, 0)?, &number(values, 1)?)?))
    });
}

fn apply(values: &[Datum], base: BaseType, operation: fn(i64, i64) -> Option<i64>) -> Result<Datum> {
    let result = operation(int(values, 0)?, int(values, 1)?).ok_or_else(|| out_of_range(base))?;
    checked_int(result, base)
}

fn divide(values: &[Datum], base: BaseType, operation: fn(i64, i64) -> Option<i64>) -> Result<Datum> {
    match int(values, 1)? {
        0 => Err(division_by_zero()),
        // The least number has no rest, though its quotient is out of range.
        -1 if operation(1, -1) == Some(0) => Ok(Datum::Int(0)),
        _ => apply(values, base, operation),
    }
}

fn negate(values: &[Datum], base: BaseType) -> Result<Datum> {
    checked_int(int(values, 0)?.checked_neg().ok_or_else(|| out_of_range(base))?, base)
}

fn absolute(values: &[Datum], base: BaseType) -> Result<Datum> {
    checked_int(int(values, 0)?.checked_abs().ok_or_else(|| out_of_range(base))?, base)
}

fn bits() -> [Body; 3] {
    [
        |_, values| Ok(Datum::Int(int(values, 0)? & int(values, 1)?)),
        |_, values| Ok(Datum::Int(int(values, 0)? | int(values, 1)?)),
        |_, values| Ok(Datum::Int(int(values, 0)? ^ int(values, 1)?)),
    ]
}

/// Shifts by the lowest bits of the count, as the processor does for PostgreSQL.
fn left_shifts() -> [Body; 3] {
    [
        |_, values| Ok(Datum::Int(((int(values, 0)? as i32).wrapping_shl(int(values, 1)? as u32) as i16).into())),
        |_, values| Ok(Datum::Int((int(values, 0)? as i32).wrapping_shl(int(values, 1)? as u32).into())),
        |_, values| Ok(Datum::Int(int(values, 0)?.wrapping_shl(int(values, 1)? as u32))),
    ]
}

fn right_shifts() -> [Body; 3] {
    [
        |_, values| Ok(Datum::Int(((int(values, 0)? as i32).wrapping_shr(int(values, 1)? as u32) as i16).into())),
        |_, values| Ok(Datum::Int((int(values, 0)? as i32).wrapping_shr(int(values, 1)? as u32).into())),
        |_, values| Ok(Datum::Int(int(values, 0)?.wrapping_shr(int(values, 1)? as u32))),
    ]
}

/// The greatest common divisor.
fn common_divisor(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn divisor(values: &[Datum], base: BaseType) -> Result<Datum> {
    let divisor = common_divisor(int(values, 0)?, int(values, 1)?);
    checked_int(i64::try_from(divisor).map_err(|_| out_of_range(base))?, base)
}

fn multiple(values: &[Datum], base: BaseType) -> Result<Datum> {
    let (a, b) = (int(values, 0)?, int(values, 1)?);
    if a == 0 || b == 0 {
        return Ok(Datum::Int(0));
    }
    let multiple = i128::from(a) / i128::from(common_divisor(a, b)) * i128::from(b);
    checked_int(i64::try_from(multiple.abs()).map_err(|_| out_of_range(base))?, base)
}

/// A float that became infinite, or zero, though none of what it is made of was.
fn checked_float(result: f64, values: &[Datum], can_be_zero: bool) -> Result<Datum> {
    let inputs = [float(values, 0)?, values.get(1).map_or(Ok(1.0), |_| float(values, 1))?];
    if result.is_infinite() && inputs.iter().all(|input| !input.is_infinite()) {
        return Err(overflow());
    }
    if result == 0.0 && !can_be_zero {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(Datum::Float(result))
}

fn float_operation(values: &[Datum], symbol: char, is_single: bool) -> Result<Datum> {
    let (a, b) = (float(values, 0)?, float(values, 1)?);
    let result = match symbol {
        '+' => checked_float(a + b, values, true)?,
        '-' => checked_float(a - b, values, true)?,
        '*' => checked_float(a * b, values, a == 0.0 || b == 0.0)?,
        _ if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        _ => checked_float(a / b, values, a == 0.0 || b.is_infinite())?,
    };
    match result {
        Datum::Float(value) if is_single => single(value),
        result => Ok(result),
    }
}

fn floats(definitions: &mut Definitions) {
    let singles: [Body; 4] = [
        |_, values| float_operation(values, '+', true),
        |_, values| float_operation(values, '-', true),
        |_, values| float_operation(values, '*', true),
        |_, values| float_operation(values, '/', true),
    ];
    let doubles: [Body; 4] = [
        |_, values| float_operation(values, '+', false),
        |_, values| float_operation(values, '-', false),
        |_, values| float_operation(values, '*', false),
        |_, values| float_operation(values, '/', false),
    ];
    for (at, symbol) in ["+", "-", "*", "/"].iter().enumerate() {
        definitions.add(format!("{symbol}(float4,float4) float4").leak(), singles[at]);
        for (left, right) in [("float8", "float8"), ("float4", "float8"), ("float8", "float4")] {
            definitions.add(format!("{symbol}({left},{right}) float8").leak(), doubles[at]);
        }
    }
    for name in ["float4", "float8"] {
        definitions.add(format!("-({name}) {name}").leak(), |_, values| Ok(Datum::Float(-float(values, 0)?)));
        definitions.add(format!("+({name}) {name}").leak(), |_, values| Ok(Datum::Float(float(values, 0)?)));
        for symbol in ["abs", "@"] {
            let signature = format!("{symbol}({name}) {name}").leak();
            definitions.add(signature, |_, values| Ok(Datum::Float(float(values, 0)?.abs())));
        }
    }
}

fn exact(definitions: &mut Definitions) {
    let binary: [(&str, Body); 6] = [
        ("+", |_, values| Ok(Datum::Numeric(numeric::add(&number(values, 0)?, &number(values, 1)?)?))),
        ("-", |_, values| Ok(Datum::Numeric(numeric::subtract(&number(values, 0)?, &number(values, 1)?)?))),
        ("*", |_, values| Ok(Datum::Numeric(numeric::product(&number(values, 0)?, &number(values, 1)?)?))),
        ("/", |_, values| Ok(Datum::Numeric(numeric::quotient(&number(values, 0)?, &number(values, 1)?)?))),
        ("%", |_, values| Ok(Datum::Numeric(numeric::remainder(&number(values, 0)?, &number(values, 1)?)?))),
        ("mod", |_, values| Ok(Datum::Numeric(numeric::remainder(&number(values, 0)?, &number(values, 1)?)?))),
    ];
    for (symbol, body) in binary {
        definitions.add(format!("{symbol}(numeric,numeric) numeric").leak(), body);
    }
    definitions.add("-(numeric) numeric", |_, values| Ok(Datum::Numeric(numeric::negate(&number(values, 0)?))));
    definitions.add("+(numeric) numeric", |_, values| Ok(Datum::Numeric(number(values, 0)?)));
    for symbol in ["abs", "@"] {
        definitions.add(format!("{symbol}(numeric) numeric").leak(), |_, values| {
            Ok(Datum::Numeric(numeric::absolute(&number(values, 0)?)))
        });
    }
}
