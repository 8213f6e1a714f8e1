//! Comparisons: `=`, `<>`, `<`, `<=`, `>`, `>=` of all pairs of types that PostgreSQL compares.

use std::cmp::Ordering;

use quipu_rows::{Collation, DataType, Value};

use crate::error::Result;
use crate::functions::Environment;
use crate::functions::definition::{Body, Definitions, moment, text};
use crate::types::BaseType;
use crate::types::cast::{CastContext, cast};
use crate::types::datum::Datum;
use crate::types::json;

/// The order of the two arguments.
type Order = fn(&dyn Environment, &[Datum]) -> Result<Ordering>;

/// Types whose values are compared with those of the same type, as they are.
const PLAIN: [&str; 28] = [
    "bool",
    "text",
    "bpchar",
    "char",
    "name",
    "bytea",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "inet",
    "macaddr",
    "macaddr8",
    "bit",
    "varbit",
    "money",
    "oid",
    "numeric",
    "record",
    "anyarray",
    "xid",
    "tid",
    "anyenum",
    "anyrange",
    "anymultirange",
];

pub(crate) fn define(definitions: &mut Definitions) {
    for name in PLAIN {
        six(definitions, name, name, plain_bodies());
    }
    let (ints, floats) = (["int2", "int4", "int8"], ["float4", "float8"]);
    for sizes in [&ints[..], &floats[..]] {
        sizes.iter().for_each(|left| sizes.iter().for_each(|right| six(definitions, left, right, plain_bodies())));
    }
    six(definitions, "name", "text", plain_bodies());
    six(definitions, "xid", "int4", plain_bodies());
    six(definitions, "text", "name", plain_bodies());
    six(definitions, "date", "timestamp", clock_bodies());
    six(definitions, "timestamp", "date", clock_bodies());
    for (left, right) in [("date", "timestamptz"), ("timestamp", "timestamptz")] {
        six(definitions, left, right, left_clock_bodies());
        six(definitions, right, left, right_clock_bodies());
    }
    six(definitions, "jsonb", "jsonb", json_bodies());
    six(definitions, "citext", "citext", caseless_bodies());
}

/// Defines the six operators of two types.
fn six(definitions: &mut Definitions, left: &str, right: &str, bodies: [Body; 6]) {
    for (symbol, body) in ["=", "<>", "<", "<=", ">", ">="].into_iter().zip(bodies) {
        let is_stable = left != right && [left, right].contains(&"timestamptz");
        let function = definitions.add(format!("{symbol}({left},{right}) bool").leak(), body);
        if is_stable {
            function.stable();
        }
    }
}

/// The six operators over one order.
macro_rules! bodies {
    ($name:ident, $order:ident) => {
        fn $name() -> [Body; 6] {
            const _: Order = $order;
            [
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_eq())),
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_ne())),
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_lt())),
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_le())),
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_gt())),
                |environment, values| Ok(Datum::Bool($order(environment, values)?.is_ge())),
            ]
        }
    };
}

bodies!(plain_bodies, plain);
bodies!(clock_bodies, clocks);
bodies!(left_clock_bodies, left_clock);
bodies!(right_clock_bodies, right_clock);
bodies!(json_bodies, jsons);
bodies!(caseless_bodies, caseless);

fn plain(_: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    Ok(values.first().cmp(&values.get(1)))
}

fn clocks(_: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    Ok(moment(values, 0)?.cmp(&moment(values, 1)?))
}

/// A day or a clock with a moment: by the clock of the session.
fn left_clock(environment: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    let clock = Datum::Timestamp(moment(values, 0)?);
    let (from, to) = (BaseType::Timestamp.into(), BaseType::TimestampTz.into());
    let left = cast(clock, from, to, CastContext::Implicit, environment)?;
    Ok(left.cmp(&Datum::Timestamp(moment(values, 1)?)))
}

fn right_clock(environment: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    let [left, right] = values else { return plain(environment, values) };
    left_clock(environment, &[right.clone(), left.clone()]).map(Ordering::reverse)
}

fn jsons(_: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    Ok(json::compare(text(values, 0)?, text(values, 1)?))
}

/// Texts without case and accents: those are equal that a key of rows takes for equal. Others are ordered by their
/// lower letters.
fn caseless(_: &dyn Environment, values: &[Datum]) -> Result<Ordering> {
    let (left, right) = (text(values, 0)?, text(values, 1)?);
    let value = |text| Value::Text(std::borrow::Cow::Borrowed(text));
    if DataType::Text(Collation::Unicode).is_same_in_key(&value(left), &value(right)) {
        return Ok(Ordering::Equal);
    }
    Ok(left.to_lowercase().cmp(&right.to_lowercase()).then_with(|| left.cmp(right)))
}
