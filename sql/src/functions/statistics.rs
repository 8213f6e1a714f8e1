//! Aggregates of statistics: variances, correlations, percentiles.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Accumulator;
use crate::functions::aggregates::{AggregateCall, List, float_of};
use crate::numeric::{self, Numeric};
use crate::types::BaseType;
use crate::types::datum::{Array, Datum, Interval};
use crate::types::refusal::overflow;

pub(crate) fn define(list: &mut List) {
    variances(list);
    pairs(list);
    ordered(list);
}

/// Which figure of a spread.
#[derive(Clone, Copy, PartialEq)]
struct Spread {
    is_sample: bool,
    is_deviation: bool,
}

/// The spread of exact numbers.
struct ExactSpread {
    count: i64,
    sum: Numeric,
    squares: Numeric,
    spread: Spread,
}

impl Accumulator for ExactSpread {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = match arguments {
            [Datum::Int(value), ..] => Numeric::from(*value),
            [Datum::Numeric(value), ..] => value.clone(),
            _ => return Ok(()),
        };
        self.count += 1;
        self.sum = numeric::add(&self.sum, &value)?;
        self.squares = numeric::add(&self.squares, &numeric::product(&value, &value)?)?;
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        let divisor = if self.spread.is_sample { self.count - 1 } else { self.count };
        if self.count == 0 || divisor == 0 {
            return Ok(Datum::Null);
        }
        if !self.sum.is_finite() {
            return Ok(Datum::Numeric(Numeric::NotANumber));
        }
        let count = Numeric::from(self.count);
        let of_squares = numeric::product(&count, &self.squares)?;
        let numerator = numeric::subtract(&of_squares, &numeric::product(&self.sum, &self.sum)?)?;
        if numerator.signum() <= 0 {
            return Ok(Datum::Numeric(Numeric::ZERO));
        }
        let variance = numeric::quotient(&numerator, &numeric::product(&count, &divisor.into())?)?;
        let is_deviation = self.spread.is_deviation;
        Ok(Datum::Numeric(if is_deviation { numeric::square_root_of_same_scale(&variance)? } else { variance }))
    }
}

/// The spread of floats, by the sum of squares of differences (Youngs and Cramer).
struct FloatSpread {
    count: f64,
    sum: f64,
    squares: f64,
    spread: Spread,
}

impl Accumulator for FloatSpread {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let Some(value) = arguments.first().map(float_of).transpose()?.flatten() else { return Ok(()) };
        self.count += 1.0;
        let before = self.sum;
        self.sum += value;
        if self.count > 1.0 {
            let difference = value * self.count - self.sum;
            self.squares += difference * difference / (self.count * (self.count - 1.0));
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if before.is_finite() && value.is_finite() {
                return Err(overflow());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        let divisor = if self.spread.is_sample { self.count - 1.0 } else { self.count };
        if self.count == 0.0 || divisor == 0.0 {
            return Ok(Datum::Null);
        }
        let variance = self.squares / divisor;
        Ok(Datum::Float(if self.spread.is_deviation { variance.sqrt() } else { variance }))
    }
}

fn spread(call: &AggregateCall, is_sample: bool, is_deviation: bool) -> Box<dyn Accumulator> {
    let spread = Spread { is_sample, is_deviation };
    match call.returns.base {
        BaseType::Numeric => Box::new(ExactSpread { count: 0, sum: Numeric::ZERO, squares: Numeric::ZERO, spread }),
        _ => Box::new(FloatSpread { count: 0.0, sum: 0.0, squares: 0.0, spread }),
    }
}

fn variances(list: &mut List) {
    for (from, result) in [
        ("int2", "numeric"),
        ("int4", "numeric"),
        ("int8", "numeric"),
        ("numeric", "numeric"),
        ("float4", "float8"),
        ("float8", "float8"),
    ] {
        for name in ["stddev", "stddev_samp"] {
            list.add(format!("{name}({from}) {result}").leak(), |call, _| spread(call, true, true));
        }
        for name in ["variance", "var_samp"] {
            list.add(format!("{name}({from}) {result}").leak(), |call, _| spread(call, true, false));
        }
        list.add(format!("stddev_pop({from}) {result}").leak(), |call, _| spread(call, false, true));
        list.add(format!("var_pop({from}) {result}").leak(), |call, _| spread(call, false, false));
    }
}

/// Sums over pairs of floats.
struct Pairs {
    count: f64,
    sum_x: f64,
    squares_x: f64,
    sum_y: f64,
    squares_y: f64,
    products: f64,
    figure: fn(&Pairs) -> Option<f64>,
    is_count: bool,
}

impl Accumulator for Pairs {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let [y, x] = arguments else { return Ok(()) };
        let (Some(y), Some(x)) = (float_of(y)?, float_of(x)?) else { return Ok(()) };
        self.count += 1.0;
        let are_finite = [self.sum_x, x, self.sum_y, y].iter().all(|value| value.is_finite());
        self.sum_x += x;
        self.sum_y += y;
        if self.count > 1.0 {
            let scale = 1.0 / (self.count * (self.count - 1.0));
            let (difference_x, difference_y) = (x * self.count - self.sum_x, y * self.count - self.sum_y);
            self.squares_x += difference_x * difference_x * scale;
            self.squares_y += difference_y * difference_y * scale;
            self.products += difference_x * difference_y * scale;
        }
        let sums = [self.sum_x, self.sum_y, self.squares_x, self.squares_y, self.products];
        if are_finite && sums.iter().any(|sum| sum.is_infinite()) {
            return Err(overflow());
        }
        // What is not finite once stays so.
        if !x.is_finite() {
            (self.squares_x, self.products) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (self.squares_y, self.products) = (f64::NAN, f64::NAN);
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        if self.is_count {
            return Ok(Datum::Int(self.count as i64));
        }
        Ok(if self.count < 1.0 { None } else { (self.figure)(self) }.map_or(Datum::Null, Datum::Float))
    }
}

fn pairs(list: &mut List) {
    fn make(figure: fn(&Pairs) -> Option<f64>) -> Box<dyn Accumulator> {
        let zero = 0.0;
        Box::new(Pairs {
            count: zero,
            sum_x: zero,
            squares_x: zero,
            sum_y: zero,
            squares_y: zero,
            products: zero,
            figure,
            is_count: false,
        })
    }
    list.add("corr(float8,float8) float8", |_, _| {
        make(|p| (p.squares_x != 0.0 && p.squares_y != 0.0).then(|| p.products / (p.squares_x * p.squares_y).sqrt()))
    });
    list.add("covar_pop(float8,float8) float8", |_, _| make(|p| Some(p.products / p.count)));
    list.add("covar_samp(float8,float8) float8", |_, _| {
        make(|p| (p.count > 1.0).then(|| p.products / (p.count - 1.0)))
    });
    list.add("regr_avgx(float8,float8) float8", |_, _| make(|p| Some(p.sum_x / p.count)));
    list.add("regr_avgy(float8,float8) float8", |_, _| make(|p| Some(p.sum_y / p.count)));
    list.add("regr_sxx(float8,float8) float8", |_, _| make(|p| Some(p.squares_x)));
    list.add("regr_syy(float8,float8) float8", |_, _| make(|p| Some(p.squares_y)));
    list.add("regr_sxy(float8,float8) float8", |_, _| make(|p| Some(p.products)));
    list.add("regr_slope(float8,float8) float8", |_, _| {
        make(|p| (p.squares_x != 0.0).then(|| p.products / p.squares_x))
    });
    list.add("regr_intercept(float8,float8) float8", |_, _| {
        make(|p| (p.squares_x != 0.0).then(|| (p.sum_y - p.sum_x * p.products / p.squares_x) / p.count))
    });
    list.add("regr_r2(float8,float8) float8", |_, _| {
        make(|p| match (p.squares_x, p.squares_y) {
            (0.0, _) => None,
            (_, 0.0) => Some(1.0),
            (x, y) => Some(p.products * p.products / (x * y)),
        })
    });
    list.add("regr_count(float8,float8) int8", |_, _| {
        let zero = 0.0;
        Box::new(Pairs {
            count: zero,
            sum_x: zero,
            squares_x: zero,
            sum_y: zero,
            squares_y: zero,
            products: zero,
            figure: |_| None,
            is_count: true,
        })
    });
}

/// Which value of an ordered set.
#[derive(Clone, Copy, PartialEq)]
enum WhichValue {
    Between,
    At,
    Most,
}

/// Keeps an ordered set.
struct Ordered {
    fraction: Datum,
    values: Vec<Datum>,
    place: WhichValue,
    element: BaseType,
}

impl Accumulator for Ordered {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let (fraction, value) = match arguments {
            [fraction, value] => (fraction, value),
            [value] => (&Datum::Null, value),
            _ => return Ok(()),
        };
        self.fraction = fraction.clone();
        if !value.is_null() {
            self.values.push(value.clone());
        }
        Ok(())
    }

    fn keeps_arguments(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<Datum> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        match &self.fraction {
            _ if self.place == WhichValue::Most => Ok(self.most()),
            Datum::Array(fractions) => {
                let elements = fractions.elements.iter().map(|fraction| self.at(fraction)).collect::<Result<_>>()?;
                let dimensions = fractions.dimensions.clone();
                Ok(Datum::Array(Arc::new(Array { element: self.element, dimensions, elements })))
            }
            fraction => self.at(fraction),
        }
    }
}

impl Ordered {
    /// The value that stands there most often, the first of such.
    fn most(&self) -> Datum {
        let mut best = (0, &Datum::Null);
        let mut start = 0;
        for (index, value) in self.values.iter().enumerate() {
            if *value != self.values[start] {
                start = index;
            }
            if index - start + 1 > best.0 {
                best = (index - start + 1, &self.values[start]);
            }
        }
        best.1.clone()
    }

    fn at(&self, fraction: &Datum) -> Result<Datum> {
        let Some(fraction) = float_of(fraction)? else { return Ok(Datum::Null) };
        if !(0.0..=1.0).contains(&fraction) {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        let last = self.values.len() - 1;
        if self.place == WhichValue::At {
            let place = (fraction * self.values.len() as f64).ceil() as usize;
            return Ok(self.values[place.saturating_sub(1).min(last)].clone());
        }
        let place = fraction * last as f64;
        let (low, high) = (place.floor() as usize, (place.ceil() as usize).min(last));
        between(&self.values[low], &self.values[high], place - place.floor())
    }
}

fn between(low: &Datum, high: &Datum, part: f64) -> Result<Datum> {
    if let (Datum::Interval(low), Datum::Interval(high)) = (low, high) {
        let negated = low.checked_neg().ok_or_else(crate::types::interval::out_of_range)?;
        let part: Option<Interval> = high.plus(negated).and_then(|length| length.checked_mul(part));
        let sum = part.and_then(|part| low.plus(part));
        return sum.map(Datum::Interval).ok_or_else(crate::types::interval::out_of_range);
    }
    let (Some(low), Some(high)) = (float_of(low)?, float_of(high)?) else { return Ok(Datum::Null) };
    Ok(Datum::Float(if part == 0.0 { low } else { low + part * (high - low) }))
}

fn ordered(list: &mut List) {
    fn make(call: &AggregateCall, place: WhichValue) -> Box<dyn Accumulator> {
        Box::new(Ordered { fraction: Datum::Null, values: Vec::new(), place, element: call.returns.base })
    }
    for name in ["float8", "interval"] {
        let one = format!("percentile_cont(float8,{name}) {name}").leak();
        list.add_ordered(one, 1, |call, _| make(call, WhichValue::Between));
        let several = format!("percentile_cont(float8[],{name}) {name}[]").leak();
        list.add_ordered(several, 1, |call, _| make(call, WhichValue::Between));
    }
    list.add_ordered("percentile_disc(float8,anyelement) anyelement", 1, |call, _| make(call, WhichValue::At));
    list.add_ordered("percentile_disc(float8[],anyelement) anyarray", 1, |call, _| make(call, WhichValue::At));
    list.add_ordered("mode(anyelement) anyelement", 1, |call, _| make(call, WhichValue::Most));
}
