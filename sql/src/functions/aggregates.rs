//! Aggregates: what adds up the rows of a group.
//!
//! Those of ordered sets (`percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`) take the arguments of both lists, and rows
//! in the order of the second.
//!
//! Not here: which rows an aggregate gets, by DISTINCT, FILTER and ORDER BY (`execute/group`).

use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZone;
use quipu_rows::{Collation, Timestamp};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::Signature;
use crate::functions::resolve::{Candidate, resolve_among};
use crate::functions::{Accumulator, Environment, json_values, statistics};
use crate::numeric::{self, Numeric};
use crate::types::cast::{single, to_float};
use crate::types::date_style::DateStyle;
use crate::types::datum::{Array, Datum, Interval};
use crate::types::range::{self, Range};
use crate::types::refusal::{mismatch, out_of_range, overflow};
use crate::types::{BaseType, SqlType, json, range_values};

/// What makes an accumulator for a call.
type Make = fn(&AggregateCall, &dyn Environment) -> Box<dyn Accumulator>;

/// An aggregate of certain types.
pub struct Aggregate {
    /// Its name.
    pub name: &'static str,
    /// The types that it takes; those of an ordered set last. None for `count(*)`.
    pub arguments: &'static [SqlType],
    /// The type that it returns.
    pub returns: SqlType,
    /// How many of the arguments stand in WITHIN GROUP (ORDER BY ...), from the last one on.
    pub ordered_arguments: usize,
    make: Make,
}

/// An aggregate with the types of one call.
#[derive(Clone)]
pub struct AggregateCall {
    /// The aggregate.
    pub aggregate: &'static Aggregate,
    /// The types that its arguments must be cast to, one for each.
    pub arguments: Vec<SqlType>,
    /// The type of the result.
    pub returns: SqlType,
}

impl std::fmt::Debug for AggregateCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?}) {:?}", self.aggregate.name, self.arguments, self.returns)
    }
}

impl Candidate for &'static Aggregate {
    fn arguments(&self) -> &'static [SqlType] {
        self.arguments
    }

    fn is_variadic(&self) -> bool {
        false
    }

    fn returns(&self) -> SqlType {
        self.returns
    }
}

static AGGREGATES: LazyLock<Vec<Aggregate>> = LazyLock::new(|| {
    let mut list = List { aggregates: Vec::new() };
    counts_and_sums(&mut list);
    extremes(&mut list);
    logic(&mut list);
    collections(&mut list);
    ranges(&mut list);
    statistics::define(&mut list);
    list.aggregates
});

/// All aggregates.
pub fn aggregates() -> &'static [Aggregate] {
    &AGGREGATES
}

/// The aggregate that a call means; of `count(*)`, without types. Those of ordered sets take the types of both lists.
///
/// # Errors
/// 42883 if there is none of the name that takes such arguments, 42725 if there are several.
pub fn resolve_aggregate(name: &str, types: &[SqlType]) -> Result<AggregateCall> {
    let candidates: Vec<&'static Aggregate> = aggregates().iter().filter(|known| known.name == name).collect();
    let (aggregate, arguments, returns) = resolve_among(&candidates, name, types)?;
    Ok(AggregateCall { aggregate, arguments, returns })
}

/// An accumulator for the rows of a group. It passes over NULL by itself where the aggregate does.
pub fn make(call: &AggregateCall, environment: &dyn Environment) -> Box<dyn Accumulator> {
    (call.aggregate.make)(call, environment)
}

/// Aggregates that are being defined.
pub(crate) struct List {
    aggregates: Vec<Aggregate>,
}

impl List {
    /// Defines an aggregate.
    pub fn add(&mut self, signature: &'static str, make: Make) {
        self.add_ordered(signature, 0, make);
    }

    /// Defines one of an ordered set.
    pub fn add_ordered(&mut self, signature: &'static str, ordered_arguments: usize, make: Make) {
        let Signature { name, arguments, returns, .. } = Signature::parse(signature);
        self.aggregates.push(Aggregate { name, arguments, returns, ordered_arguments, make });
    }
}

/// Counts rows, or values that are not NULL.
struct Count {
    count: i64,
}

impl Accumulator for Count {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        if arguments.first().is_none_or(|value| !value.is_null()) {
            self.count = self.count.checked_add(1).ok_or_else(|| out_of_range(BaseType::Int8))?;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        Ok(Datum::Int(self.count))
    }

    fn takes_any_order(&self) -> bool {
        true
    }
}

/// Adds up whole numbers.
struct IntSum {
    sum: i128,
    count: i64,
    returns: SqlType,
    is_average: bool,
}

impl Accumulator for IntSum {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        if let [Datum::Int(value), ..] = arguments {
            // 2^64 values of 64 bits fit 128 bits.
            self.sum += i128::from(*value);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        if matches!(self.returns.base, BaseType::Int8 | BaseType::Money) {
            return i64::try_from(self.sum).map(Datum::Int).map_err(|_| out_of_range(self.returns));
        }
        let sum = Numeric::new(self.sum, 0);
        match self.is_average {
            true => Ok(Datum::Numeric(numeric::quotient(&sum, &self.count.into())?)),
            false => Ok(Datum::Numeric(sum)),
        }
    }
}

/// Adds up exact numbers.
struct ExactSum {
    sum: Numeric,
    count: i64,
    is_average: bool,
}

impl Accumulator for ExactSum {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        if let [Datum::Numeric(value), ..] = arguments {
            self.sum = numeric::add(&self.sum, value)?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        match (self.count, self.is_average) {
            (0, _) => Ok(Datum::Null),
            (count, true) => Ok(Datum::Numeric(numeric::quotient(&self.sum, &count.into())?)),
            _ => Ok(Datum::Numeric(self.sum.clone())),
        }
    }
}

/// Adds up floats.
struct FloatSum {
    sum: f64,
    count: i64,
    is_single: bool,
    is_average: bool,
}

impl Accumulator for FloatSum {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        if let [Datum::Float(value), ..] = arguments {
            let sum = self.sum + value;
            if sum.is_infinite() && self.sum.is_finite() && value.is_finite() {
                return Err(overflow());
            }
            self.sum = sum;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        match (self.count, self.is_average) {
            (0, _) => Ok(Datum::Null),
            // PostgreSQL's average begins at 0, and its sum with the first value: only the sum of -0 is -0.
            (count, true) => Ok(Datum::Float((0.0 + self.sum) / count as f64)),
            _ if self.is_single => single(self.sum),
            _ => Ok(Datum::Float(self.sum)),
        }
    }
}

/// Adds up lengths of time.
struct IntervalSum {
    sum: Interval,
    count: i64,
    is_average: bool,
}

impl Accumulator for IntervalSum {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        if let [Datum::Interval(value), ..] = arguments {
            self.sum = self.sum.plus(*value).ok_or_else(crate::types::interval::out_of_range)?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        let average = || self.sum.checked_mul(1.0 / self.count as f64);
        match (self.count, self.is_average) {
            (0, _) => Ok(Datum::Null),
            (_, true) => average().map(Datum::Interval).ok_or_else(crate::types::interval::out_of_range),
            _ => Ok(Datum::Interval(self.sum)),
        }
    }
}

fn sum_of(call: &AggregateCall, is_average: bool) -> Box<dyn Accumulator> {
    match call.arguments.first().map(|sql_type| sql_type.base) {
        Some(BaseType::Int2 | BaseType::Int4 | BaseType::Int8 | BaseType::Money) => {
            Box::new(IntSum { sum: 0, count: 0, returns: call.returns, is_average })
        }
        Some(BaseType::Numeric) => Box::new(ExactSum { sum: Numeric::ZERO, count: 0, is_average }),
        Some(BaseType::Interval) => Box::new(IntervalSum { sum: Interval::default(), count: 0, is_average }),
        base => Box::new(FloatSum { sum: -0.0, count: 0, is_single: base == Some(BaseType::Float4), is_average }),
    }
}

fn counts_and_sums(list: &mut List) {
    list.add("count() int8", |_, _| Box::new(Count { count: 0 }));
    list.add("count(any) int8", |_, _| Box::new(Count { count: 0 }));
    for (from, sum, average) in [
        ("int2", "int8", "numeric"),
        ("int4", "int8", "numeric"),
        ("int8", "numeric", "numeric"),
        ("numeric", "numeric", "numeric"),
        ("float4", "float4", "float8"),
        ("float8", "float8", "float8"),
        ("interval", "interval", "interval"),
    ] {
        list.add(format!("sum({from}) {sum}").leak(), |call, _| sum_of(call, false));
        list.add(format!("avg({from}) {average}").leak(), |call, _| sum_of(call, true));
    }
    list.add("sum(money) money", |call, _| sum_of(call, false));
}

/// Keeps the least or the greatest value.
struct Extreme {
    best: Datum,
    is_greatest: bool,
    is_caseless: bool,
}

impl Accumulator for Extreme {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let [value, ..] = arguments else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        let order = match (self.is_caseless, value.as_text(), self.best.as_text()) {
            (true, Some(value), Some(best)) => Collation::Unicode.compare(value, best),
            _ => value.cmp(&self.best),
        };
        // Of equal values, which may be shown in different ways, the last one stays, as in PostgreSQL.
        let is_better = if self.is_greatest { order.is_ge() } else { order.is_le() };
        if is_better || self.best.is_null() {
            self.best = value.clone();
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        Ok(self.best.clone())
    }
}

fn extremes(list: &mut List) {
    fn make(call: &AggregateCall, is_greatest: bool) -> Box<dyn Accumulator> {
        let is_caseless = call.returns.base == BaseType::CaselessText;
        Box::new(Extreme { best: Datum::Null, is_greatest, is_caseless })
    }
    for name in [
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "text",
        "bpchar",
        "citext",
        "date",
        "time",
        "timetz",
        "timestamp",
        "timestamptz",
        "interval",
        "oid",
        "inet",
        "money",
        "anyarray",
        "anyenum",
    ] {
        list.add(format!("min({name}) {name}").leak(), |call, _| make(call, false));
        list.add(format!("max({name}) {name}").leak(), |call, _| make(call, true));
    }
}

/// Joins values that are not NULL, two at a time.
struct Fold {
    so_far: Datum,
    join: fn(&Datum, &Datum) -> Datum,
}

impl Accumulator for Fold {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        match arguments {
            [Datum::Null, ..] | [] => {}
            [value, ..] if self.so_far.is_null() => self.so_far = value.clone(),
            [value, ..] => self.so_far = (self.join)(&self.so_far, value),
        }
        Ok(())
    }

    fn finish(&self) -> Result<Datum> {
        Ok(self.so_far.clone())
    }
}

fn logic(list: &mut List) {
    fn fold(join: fn(&Datum, &Datum) -> Datum) -> Box<dyn Accumulator> {
        Box::new(Fold { so_far: Datum::Null, join })
    }
    fn ints(a: &Datum, b: &Datum, join: fn(i64, i64) -> i64) -> Datum {
        match (a, b) {
            (Datum::Int(a), Datum::Int(b)) => Datum::Int(join(*a, *b)),
            _ => Datum::Null,
        }
    }
    for name in ["bool_and", "every"] {
        list.add(format!("{name}(bool) bool").leak(), |_, _| fold(|a, b| Datum::Bool(a.is_true() && b.is_true())));
    }
    list.add("bool_or(bool) bool", |_, _| fold(|a, b| Datum::Bool(a.is_true() || b.is_true())));
    for name in ["int2", "int4", "int8"] {
        list.add(format!("bit_and({name}) {name}").leak(), |_, _| fold(|a, b| ints(a, b, |a, b| a & b)));
        list.add(format!("bit_or({name}) {name}").leak(), |_, _| fold(|a, b| ints(a, b, |a, b| a | b)));
        list.add(format!("bit_xor({name}) {name}").leak(), |_, _| fold(|a, b| ints(a, b, |a, b| a ^ b)));
    }
}

/// Joins texts or bytes, with another one between.
#[derive(Default)]
struct Joined {
    bytes: Vec<u8>,
    is_text: bool,
    has_any: bool,
}

impl Accumulator for Joined {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        fn part(value: &Datum) -> &[u8] {
            match value {
                Datum::Text(text) => text.as_bytes(),
                Datum::Bytes(bytes) => bytes,
                _ => &[],
            }
        }
        let [value, separator] = arguments else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        if self.has_any {
            self.bytes.extend(part(separator));
        }
        self.bytes.extend(part(value));
        (self.has_any, self.is_text) = (true, matches!(value, Datum::Text(_)));
        Ok(())
    }

    fn keeps_arguments(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<Datum> {
        match (self.has_any, self.is_text) {
            (false, _) => Ok(Datum::Null),
            (_, true) => Ok(Datum::text(String::from_utf8_lossy(&self.bytes))),
            _ => Ok(Datum::Bytes(self.bytes.as_slice().into())),
        }
    }
}

/// All values as an array; arrays as one of a dimension more.
struct Collected {
    element: BaseType,
    are_arrays: bool,
    values: Vec<Datum>,
}

impl Accumulator for Collected {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        self.values.extend(arguments.first().cloned());
        Ok(())
    }

    fn keeps_arguments(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<Datum> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        Array::collected(self.element, self.values.clone(), self.are_arrays).map(|array| Datum::Array(Arc::new(array)))
    }
}

/// Values, or names and values, as JSON.
struct JsonCollected {
    text: String,
    types: Vec<SqlType>,
    is_binary: bool,
    environment: Frozen,
}

impl Accumulator for JsonCollected {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let is_first = self.text.is_empty();
        match (arguments, &self.types[..]) {
            ([value], [sql_type]) => {
                self.text.push_str(if is_first { "[" } else { ", " });
                json_values::write(value, *sql_type, &self.environment, &mut self.text)
            }
            ([name, value], [name_type, sql_type]) => {
                self.text.push_str(if is_first { "{ " } else { ", " });
                if name.is_null() {
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"));
                }
                json_values::write_name(name, *name_type, 1, &self.environment, &mut self.text)?;
                self.text.push_str(" : ");
                json_values::write(value, *sql_type, &self.environment, &mut self.text)
            }
            _ => Err(mismatch(BaseType::Json)),
        }
    }

    fn keeps_arguments(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<Datum> {
        if self.text.is_empty() {
            return Ok(Datum::Null);
        }
        let whole = format!("{}{}", self.text, if self.types.len() == 1 { "]" } else { " }" });
        Ok(Datum::Json(if self.is_binary { json::normalise(&whole)?.into() } else { whole.into() }))
    }
}

/// Collects the values of ranges, or keeps those that all ranges have.
struct Ranges {
    ranges: Option<Vec<Range<Datum>>>,
    is_intersection: bool,
    is_of_one: bool,
}

impl Accumulator for Ranges {
    fn add(&mut self, arguments: &[Datum]) -> Result<()> {
        let [value, ..] = arguments else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        let added = range_values::members(value)?;
        self.ranges = Some(match self.ranges.take() {
            None => added.to_vec(),
            Some(known) if self.is_intersection => range::intersection(&known, added),
            Some(mut known) => {
                known.extend_from_slice(added);
                known
            }
        });
        Ok(())
    }

    fn keeps_arguments(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<Datum> {
        Ok(match &self.ranges {
            None => Datum::Null,
            Some(ranges) if self.is_of_one => {
                range_values::datum(ranges.iter().fold(Range::Empty, |all, range| all.merged(range)))
            }
            Some(ranges) => range_values::multirange(ranges.clone()),
        })
    }
}

fn ranges(list: &mut List) {
    fn make(call: &AggregateCall, _: &dyn Environment) -> Box<dyn Accumulator> {
        let is_intersection = call.aggregate.name == "range_intersect_agg";
        let is_of_one = matches!(call.returns.base, BaseType::Range(_));
        Box::new(Ranges { ranges: None, is_intersection, is_of_one })
    }
    for of in ["anyrange", "anymultirange"] {
        list.add(format!("range_agg({of}) anymultirange").leak(), make);
        list.add(format!("range_intersect_agg({of}) {of}").leak(), make);
    }
}

fn collections(list: &mut List) {
    for name in ["text", "bytea"] {
        list.add(format!("string_agg({name},{name}) {name}").leak(), |_, _| Box::new(Joined::default()));
    }
    // Of arrays, too, whose elements those of the result are.
    list.add("array_agg(anyelement) anyarray", |call, _| {
        let are_arrays = call.arguments[0].is_array;
        Box::new(Collected { element: call.returns.base, are_arrays, values: Vec::new() })
    });
    fn make(call: &AggregateCall, environment: &dyn Environment) -> Box<dyn Accumulator> {
        Box::new(JsonCollected {
            text: String::new(),
            types: call.arguments.clone(),
            is_binary: call.returns.base == BaseType::Jsonb,
            environment: Frozen::of(environment),
        })
    }
    for name in ["json", "jsonb"] {
        list.add(format!("{name}_agg(anyelement) {name}").leak(), make);
        list.add(format!("{name}_object_agg(any,any) {name}").leak(), make);
    }
}

/// What an accumulator knows of the session, which it may outlive: the zone, and how dates are written.
struct Frozen {
    zone: TimeZone,
    style: DateStyle,
    time: Timestamp,
}

impl Frozen {
    fn of(environment: &dyn Environment) -> Frozen {
        let zone = environment.time_zone().clone();
        Frozen { zone, style: environment.date_style(), time: environment.statement_time() }
    }
}

impl Environment for Frozen {
    fn transaction_time(&self) -> Timestamp {
        self.time
    }

    fn statement_time(&self) -> Timestamp {
        self.time
    }

    fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    fn date_style(&self) -> DateStyle {
        self.style
    }

    fn setting(&self, _: &str) -> Option<String> {
        None
    }

    fn user(&self) -> &str {
        ""
    }

    fn database(&self) -> &str {
        ""
    }

    fn process(&self) -> i32 {
        0
    }

    fn object_number(&self, _: BaseType, name: &str) -> Result<u32> {
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("\"{name}\" does not exist")))
    }

    fn object_name(&self, _: BaseType, _: u32) -> Option<String> {
        None
    }

    fn ask_catalogue(&self, _: &str, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::Null)
    }

    fn catalogue_rows(&self, _table: &str) -> Result<Vec<Vec<Datum>>> {
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "an aggregate reads no table of the catalogue"))
    }

    fn ask_rows(&self, _: &str, _: &[Datum]) -> Result<Vec<Vec<Datum>>> {
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "an aggregate reads no tables"))
    }

    fn sequence(&self, _: &str, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::Null)
    }
}

/// The float of an argument; none for NULL.
pub(crate) fn float_of(value: &Datum) -> Result<Option<f64>> {
    if value.is_null() { Ok(None) } else { to_float(value).map(Some) }
}
