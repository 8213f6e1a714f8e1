//! Functions of angles in degrees, exact where the exact value is a number of floating point: `sind(30)` is 0.5.
//!
//! As in PostgreSQL, what lies between is the function in radians, scaled so that it meets the exact values.

use std::f64::consts::PI;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, float};
use crate::types::datum::Datum;

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("sind(float8) float8", |_, v| of_degrees(v, sine));
    definitions.add("cosd(float8) float8", |_, v| of_degrees(v, cosine));
    definitions.add("tand(float8) float8", |_, v| of_degrees(v, |angle| tangent(angle, false)));
    definitions.add("cotd(float8) float8", |_, v| of_degrees(v, |angle| tangent(angle, true)));
    definitions.add("asind(float8) float8", |_, v| to_degrees(v, arc_sine));
    definitions.add("acosd(float8) float8", |_, v| to_degrees(v, arc_cosine));
    definitions.add("atand(float8) float8", |_, v| Ok(Datum::Float(float(v, 0)?.atan() / 1.0_f64.atan() * 45.0)));
    definitions.add("atan2d(float8,float8) float8", |_, v| {
        Ok(Datum::Float(float(v, 0)?.atan2(float(v, 1)?) / 1.0_f64.atan() * 45.0))
    });
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn of_degrees(values: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    let angle = float(values, 0)?;
    if angle.is_infinite() {
        return Err(out_of_range());
    }
    Ok(Datum::Float(if angle.is_nan() { angle } else { function(angle % 360.0) }))
}

fn to_degrees(values: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    let value = float(values, 0)?;
    if value.abs() > 1.0 {
        return Err(out_of_range());
    }
    Ok(Datum::Float(function(value)))
}

/// The sine of an angle from 0 to 30 degrees, and one less the cosine of one from 0 to 60, exact at both ends.
fn small_sine(angle: f64) -> f64 {
    (angle * (PI / 180.0)).sin() / (30.0 * (PI / 180.0)).sin() / 2.0
}

fn small_cosine(angle: f64) -> f64 {
    1.0 - (1.0 - (angle * (PI / 180.0)).cos()) / (1.0 - (60.0 * (PI / 180.0)).cos()) / 2.0
}

/// The sine and the cosine of an angle from 0 to 90 degrees.
fn sine_of_quarter(angle: f64) -> f64 {
    if angle <= 30.0 { small_sine(angle) } else { small_cosine(90.0 - angle) }
}

fn cosine_of_quarter(angle: f64) -> f64 {
    if angle <= 60.0 { small_cosine(angle) } else { small_sine(90.0 - angle) }
}

fn sine(angle: f64) -> f64 {
    let (mut angle, mut sign) = (angle.abs(), angle.signum());
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    sign * sine_of_quarter(if angle > 90.0 { 180.0 - angle } else { angle })
}

fn cosine(angle: f64) -> f64 {
    let angle = angle.abs();
    let angle = if angle > 180.0 { 360.0 - angle } else { angle };
    if angle > 90.0 { -cosine_of_quarter(180.0 - angle) } else { cosine_of_quarter(angle) }
}

/// The tangent, or the cotangent, of an angle.
fn tangent(angle: f64, is_inverse: bool) -> f64 {
    let (mut angle, mut sign) = (angle.abs(), angle.signum());
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    if angle > 90.0 {
        (angle, sign) = (180.0 - angle, -sign);
    }
    let of_half = sine_of_quarter(45.0) / cosine_of_quarter(45.0);
    let tangent = sine_of_quarter(angle) / cosine_of_quarter(angle);
    let value = if is_inverse { of_half / tangent } else { tangent / of_half };
    // The sum has no zero with a sign.
    sign * value + 0.0
}

/// The angle from 0 to 90 degrees whose sine, from 0 to 1, is the value: by the sine where it is 30 degrees at most, by
/// the cosine above.
fn arc_sine_of_quarter(value: f64) -> f64 {
    match value <= 0.5 {
        true => value.asin() / 0.5_f64.asin() * 30.0,
        false => 90.0 - value.acos() / 0.5_f64.acos() * 60.0,
    }
}

fn arc_sine(value: f64) -> f64 {
    if value >= 0.0 { arc_sine_of_quarter(value) } else { -arc_sine_of_quarter(-value) }
}

/// The angle from 0 to 180 degrees whose cosine is the value.
fn arc_cosine(value: f64) -> f64 {
    match value {
        ..0.0 => 90.0 + arc_sine_of_quarter(-value),
        ..=0.5 => 90.0 - value.asin() / 0.5_f64.asin() * 30.0,
        _ => value.acos() / 0.5_f64.acos() * 60.0,
    }
}
