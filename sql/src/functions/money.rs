//! Operators of `money`.

use crate::error::Result;
use crate::functions::definition::{Body, Definitions, float, int};
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::refusal::{division_by_zero, out_of_range};

fn whole(value: Option<i64>) -> Result<Datum> {
    value.map(Datum::Int).ok_or_else(|| out_of_range(BaseType::Money))
}

fn rounded(value: f64) -> Result<Datum> {
    let rounded = value.round_ties_even();
    // 2^63, which is no i64, is the first float beyond.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
    whole(fits.then_some(rounded as i64))
}

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("+(money,money) money", |_, v| whole(int(v, 0)?.checked_add(int(v, 1)?)));
    definitions.add("-(money,money) money", |_, v| whole(int(v, 0)?.checked_sub(int(v, 1)?)));
    definitions.add("/(money,money) float8", |_, v| match int(v, 1)? {
        0 => Err(division_by_zero()),
        divisor => Ok(Datum::Float(int(v, 0)? as f64 / divisor as f64)),
    });
    for size in ["int2", "int4", "int8"] {
        let product: Body = |_, v| whole(int(v, 0)?.checked_mul(int(v, 1)?));
        definitions.add(format!("*(money,{size}) money").leak(), product);
        definitions.add(format!("*({size},money) money").leak(), product);
        definitions.add(format!("/(money,{size}) money").leak(), |_, v| match int(v, 1)? {
            0 => Err(division_by_zero()),
            divisor => whole(int(v, 0)?.checked_div(divisor)),
        });
    }
    for size in ["float4", "float8"] {
        let product: Body = |_, v| rounded(float(v, 0)? * float(v, 1)?);
        definitions.add(format!("*(money,{size}) money").leak(), product);
        definitions.add(format!("*({size},money) money").leak(), product);
        definitions.add(format!("/(money,{size}) money").leak(), |_, v| match float(v, 1)? {
            0.0 => Err(division_by_zero()),
            divisor => rounded(float(v, 0)? / divisor),
        });
    }
}
