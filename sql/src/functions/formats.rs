//! `to_char`, `to_number`, `to_date` and `to_timestamp`: values by patterns.

use crate::error::Result;
use crate::functions::definition::{Body, Definitions, float, interval, moment, number, text};
use crate::functions::{number_formats, time_formats};
use crate::types::datum::Datum;
use crate::types::interval::{DAY, SECOND};
use crate::types::moment::{self, Civil, from_clock, offset_at};

pub(crate) fn define(definitions: &mut Definitions) {
    for name in ["int4", "int8", "numeric"] {
        definitions.add(format!("to_char({name},text) text").leak(), |_, v| {
            Ok(Datum::text(number_formats::write(&number(v, 0)?, text(v, 1)?)?))
        });
    }
    for name in ["float4", "float8"] {
        let is_single = name == "float4";
        let body: Body = if is_single { |_, v| of_float(v, true) } else { |_, v| of_float(v, false) };
        definitions.add(format!("to_char({name},text) text").leak(), body);
    }
    definitions
        .add("to_number(text,text) numeric", |_, v| number_formats::read(text(v, 0)?, text(v, 1)?).map(Datum::Numeric));
    let of_clock: Body = |_, v| {
        let clock = moment(v, 0)?;
        if !clock.is_finite() {
            return Ok(Datum::Null);
        }
        let clock = Civil::of_microseconds(clock.microseconds());
        time_formats::write(&time_formats::Shown::Clock(clock, None), text(v, 1)?).map(Datum::text)
    };
    definitions.add("to_char(timestamp,text) text", of_clock).stable();
    let of_moment: Body = |environment, v| {
        let instant = moment(v, 0)?;
        if !instant.is_finite() {
            return Ok(Datum::Null);
        }
        let zone = environment.time_zone();
        let offset = offset_at(zone, instant);
        let clock = Civil::of_microseconds(instant.microseconds() + offset * SECOND);
        let name = jiff::Timestamp::from_microsecond(instant.microseconds());
        let name = name.map_or_else(|_| String::new(), |at| zone.to_offset_info(at).abbreviation().to_owned());
        time_formats::write(&time_formats::Shown::Clock(clock, Some((offset, name))), text(v, 1)?).map(Datum::text)
    };
    definitions.add("to_char(timestamptz,text) text", of_moment).stable();
    let of_interval: Body =
        |_, v| time_formats::write(&time_formats::Shown::Length(interval(v, 0)?), text(v, 1)?).map(Datum::text);
    definitions.add("to_char(interval,text) text", of_interval).stable();
    let to_date: Body = |_, v| {
        let clock = time_formats::read(text(v, 0)?, text(v, 1)?)?.0.to_timestamp()?;
        moment::date(clock.microseconds().div_euclid(DAY)).map(Datum::Date)
    };
    definitions.add("to_date(text,text) date", to_date).stable();
    let to_timestamp: Body = |environment, v| {
        let (civil, offset) = time_formats::read(text(v, 0)?, text(v, 1)?)?;
        let clock = civil.to_timestamp()?;
        match offset {
            Some(seconds) => moment::timestamp(clock.microseconds() - seconds * SECOND).map(Datum::Timestamp),
            None => from_clock(environment.time_zone(), clock).map(Datum::Timestamp),
        }
    };
    definitions.add("to_timestamp(text,text) timestamptz", to_timestamp).stable();
}

fn of_float(values: &[Datum], is_single: bool) -> Result<Datum> {
    number_formats::write_float(float(values, 0)?, is_single, text(values, 1)?).map(Datum::text)
}
