//! Functions of numbers: roundings, roots, logarithms, angles.

use std::f64::consts::PI;

use rand::RngExt as _;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, float, int, number};
use crate::numeric::{self, Numeric};
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::refusal::{out_of_range, overflow};

pub(crate) fn define(definitions: &mut Definitions) {
    roundings(definitions);
    powers(definitions);
    angles(definitions);
    definitions.add("pi() float8", |_, _| Ok(Datum::Float(PI)));
    definitions.add("random() float8", |_, _| Ok(Datum::Float(rand::rng().random::<f64>()))).volatile();
    definitions.add("setseed(float8) void", |_, _| Ok(Datum::text(""))).volatile();
    definitions.add("width_bucket(float8,float8,float8,int4) int4", |_, values| {
        bucket(float(values, 0)?, float(values, 1)?, float(values, 2)?, int(values, 3)?)
    });
    definitions.add("width_bucket(numeric,numeric,numeric,int4) int4", |_, values| {
        let (value, low) = (number(values, 0)?, number(values, 1)?);
        exact_bucket(&value, &low, &number(values, 2)?, int(values, 3)?)
    });
    definitions.add("width_bucket(anyelement,anyarray) int4", |_, values| {
        let bounds = crate::functions::definition::array(values, 1)?;
        let below = |bounds: &crate::types::datum::Array| bounds.elements.partition_point(|bound| *bound <= values[0]);
        Ok(Datum::Int(bounds.map_or(0, below) as i64))
    });
    definitions.add("scale(numeric) int4", |_, values| Ok(scale_of(&number(values, 0)?)));
    definitions.add("min_scale(numeric) int4", |_, values| Ok(scale_of(&numeric::trim(&number(values, 0)?))));
    definitions.add("trim_scale(numeric) numeric", |_, values| Ok(Datum::Numeric(numeric::trim(&number(values, 0)?))));
    definitions.add("factorial(int8) numeric", |_, values| numeric::factorial(int(values, 0)?).map(Datum::Numeric));
}

fn roundings(definitions: &mut Definitions) {
    for name in ["ceil", "ceiling"] {
        definitions.add(format!("{name}(float8) float8").leak(), |_, v| Ok(Datum::Float(float(v, 0)?.ceil())));
        let exact = format!("{name}(numeric) numeric").leak();
        definitions.add(exact, |_, v| Ok(Datum::Numeric(numeric::ceiling(&number(v, 0)?)?)));
    }
    definitions.add("floor(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.floor())));
    definitions.add("floor(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::floor(&number(v, 0)?)?)));
    definitions.add("round(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.round_ties_even())));
    definitions.add("round(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::round(&number(v, 0)?, 0)?)));
    definitions
        .add("round(numeric,int4) numeric", |_, v| Ok(Datum::Numeric(numeric::round(&number(v, 0)?, digits(v)?)?)));
    definitions.add("trunc(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.trunc())));
    definitions.add("trunc(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::truncate(&number(v, 0)?, 0)?)));
    definitions
        .add("trunc(numeric,int4) numeric", |_, v| Ok(Datum::Numeric(numeric::truncate(&number(v, 0)?, digits(v)?)?)));
    definitions.add("sign(float8) float8", |_, v| {
        let value = float(v, 0)?;
        Ok(Datum::Float(if value == 0.0 || value.is_nan() { value } else { value.signum() }))
    });
    definitions.add("sign(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::sign(&number(v, 0)?))));
}

/// How many digits to round to.
fn digits(values: &[Datum]) -> Result<i32> {
    Ok(int(values, 1)?.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
}

/// The digits after the point; NULL of `NaN` and infinity.
fn scale_of(number: &Numeric) -> Datum {
    number.scale().map_or(Datum::Null, |scale| Datum::Int(scale.into()))
}

fn logarithm_argument(value: f64) -> Result<f64> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    if value == 0.0 {
        return refuse("cannot take logarithm of zero");
    }
    if value < 0.0 {
        return refuse("cannot take logarithm of a negative number");
    }
    Ok(value)
}

/// A float that must not become infinite, or zero, by itself.
fn checked(result: f64, input: f64) -> Result<Datum> {
    if result.is_infinite() && input.is_finite() {
        return Err(overflow());
    }
    Ok(Datum::Float(result))
}

fn underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

fn float_power(values: &[Datum]) -> Result<Datum> {
    let (base, exponent) = (float(values, 0)?, float(values, 1)?);
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message));
    if base == 0.0 && exponent < 0.0 {
        return refuse("zero raised to a negative power is undefined");
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return refuse("a negative number raised to a non-integer power yields a complex result");
    }
    let result = base.powf(exponent);
    if result == 0.0 && base != 0.0 && base.is_finite() && exponent.is_finite() {
        return Err(underflow());
    }
    checked(result, if base.is_finite() { exponent } else { base })
}

fn powers(definitions: &mut Definitions) {
    for name in ["sqrt", "|/"] {
        definitions.add(format!("{name}(float8) float8").leak(), |_, v| {
            let value = float(v, 0)?;
            if value < 0.0 {
                let message = "cannot take square root of a negative number";
                return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message));
            }
            Ok(Datum::Float(value.sqrt()))
        });
    }
    definitions.add("sqrt(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::square_root(&number(v, 0)?)?)));
    definitions.each(&["cbrt(float8) float8", "||/(float8) float8"], |_, v| Ok(Datum::Float(float(v, 0)?.cbrt())));
    for name in ["power", "pow", "^"] {
        definitions.add(format!("{name}(float8,float8) float8").leak(), |_, v| float_power(v));
        let exact = format!("{name}(numeric,numeric) numeric").leak();
        definitions.add(exact, |_, v| Ok(Datum::Numeric(numeric::power(&number(v, 0)?, &number(v, 1)?)?)));
    }
    definitions.add("exp(float8) float8", |_, v| {
        let (exponent, result) = (float(v, 0)?, float(v, 0)?.exp());
        if result == 0.0 && exponent.is_finite() { Err(underflow()) } else { checked(result, exponent) }
    });
    definitions.add("exp(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::exponential(&number(v, 0)?)?)));
    definitions.add("ln(float8) float8", |_, v| Ok(Datum::Float(logarithm_argument(float(v, 0)?)?.ln())));
    definitions.add("ln(numeric) numeric", |_, v| Ok(Datum::Numeric(numeric::natural(&number(v, 0)?)?)));
    for name in ["log", "log10"] {
        definitions.add(format!("{name}(float8) float8").leak(), |_, v| {
            Ok(Datum::Float(logarithm_argument(float(v, 0)?)?.log10()))
        });
        definitions.add(format!("{name}(numeric) numeric").leak(), |_, v| {
            Ok(Datum::Numeric(numeric::logarithm(&10.into(), &number(v, 0)?)?))
        });
    }
    definitions.add("log(numeric,numeric) numeric", |_, v| {
        Ok(Datum::Numeric(numeric::logarithm(&number(v, 0)?, &number(v, 1)?)?))
    });
}

/// A function of an angle, which has none of what is infinite.
fn of_angle(values: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    let value = float(values, 0)?;
    if value.is_infinite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"));
    }
    Ok(Datum::Float(function(value)))
}

/// A function whose argument lies between -1 and 1, or at least at 1.
fn of_part(values: &[Datum], function: fn(f64) -> f64, low: f64, high: f64) -> Result<Datum> {
    let value = float(values, 0)?;
    if value < low || value > high {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"));
    }
    Ok(Datum::Float(function(value)))
}

fn angles(definitions: &mut Definitions) {
    definitions.add("sin(float8) float8", |_, v| of_angle(v, f64::sin));
    definitions.add("cos(float8) float8", |_, v| of_angle(v, f64::cos));
    definitions.add("tan(float8) float8", |_, v| of_angle(v, f64::tan));
    definitions.add("cot(float8) float8", |_, v| of_angle(v, |angle| 1.0 / angle.tan()));
    definitions.add("asin(float8) float8", |_, v| of_part(v, f64::asin, -1.0, 1.0));
    definitions.add("acos(float8) float8", |_, v| of_part(v, f64::acos, -1.0, 1.0));
    definitions.add("atan(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.atan())));
    definitions.add("atan2(float8,float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.atan2(float(v, 1)?))));
    definitions.add("sinh(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.sinh())));
    definitions.add("cosh(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.cosh())));
    definitions.add("tanh(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.tanh())));
    definitions.add("asinh(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.asinh())));
    definitions.add("acosh(float8) float8", |_, v| of_part(v, f64::acosh, 1.0, f64::INFINITY));
    definitions.add("atanh(float8) float8", |_, v| of_part(v, f64::atanh, -1.0, 1.0));
    definitions.add("degrees(float8) float8", |_, v| checked(float(v, 0)? / (PI / 180.0), float(v, 0)?));
    definitions.add("radians(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)? * (PI / 180.0))));
}

fn bucket_error(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message)
}

fn bucket(value: f64, low: f64, high: f64, count: i64) -> Result<Datum> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    if low.is_nan() || high.is_nan() || value.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let (is_before, is_after) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
    let place = match (is_before, is_after) {
        (true, _) => 0,
        (_, true) => count + 1,
        _ => (((value - low) / (high - low) * count as f64) as i64).min(count - 1) + 1,
    };
    crate::types::cast::checked_int(place, BaseType::Int4)
}

fn exact_bucket(value: &Numeric, low: &Numeric, high: &Numeric, count: i64) -> Result<Datum> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let (is_before, is_after) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
    let place = match (is_before, is_after) {
        (true, _) => 0,
        (_, true) => count + 1,
        _ => {
            let part = numeric::product(&numeric::subtract(value, low)?, &count.into())?;
            let whole = numeric::whole_quotient(&part, &numeric::subtract(high, low)?)?;
            whole.as_i64().ok_or_else(|| out_of_range(BaseType::Int4))? + 1
        }
    };
    crate::types::cast::checked_int(place, BaseType::Int4)
}
