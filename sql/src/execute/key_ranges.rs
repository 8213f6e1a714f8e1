//! The ranges of a key that an access means.

use quipu_rows::{DataType, Decimal, Ordered, Span, Timestamp, Value};

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::{evaluate, evaluate_all};
use crate::execute::kept_answers::Answer;
use crate::execute::subquery;
use crate::execute::view::in_order;
use crate::numeric::{self, Numeric};
use crate::plan::expression::Expr;
use crate::plan::source::{Access, KeyColumn, KeyTerm, Several, SeveralRows};
use crate::types::datum::Datum;
use crate::types::interval::DAY;

/// The most rows of a sub-select that are looked up one by one.
const LOOKUPS_MAX: usize = 1 << 16;
/// Rows of a range that are read in the time of one look-up, about.
const ROWS_A_LOOKUP: u64 = 8;

/// Where a value stands among those that a column can hold.
#[derive(Clone, Debug, PartialEq)]
enum ValuePlace {
    /// The column can hold it.
    At(Value<'static>),
    /// After this one, and before the next one that the column can hold.
    After(Value<'static>),
    /// Before all of them.
    First,
    /// After all of them.
    Last,
}

/// The spans of an access, in the order of the key. None of them is met by a row that does not keep its conditions.
///
/// # Errors
/// Those of evaluating its values.
pub fn spans(access: &Access, row: &[Datum], context: &Context<'_>) -> Result<Vec<Span<'static>>> {
    let Some(points) = points(access, row, context)? else { return Ok(Vec::new()) };
    let Some(column) = access.columns.get(access.said()) else {
        return Ok(points.into_iter().map(Span::eq).collect());
    };
    let Some(next) = Next::of(access, row, context)? else { return Ok(Vec::new()) };
    if access.has_nulls_apart {
        // Nulls stand at the start of an ascending column, and are wanted at the end; and so in a descending one.
        let with_null = |mut point: Vec<Value<'static>>| {
            point.push(Value::Null);
            Span::eq(point)
        };
        let known = Next { is_not_null: true, ..next };
        let apart = points.into_iter().flat_map(|point| {
            let spans = [known.span(point.clone(), None, column), with_null(point)];
            let [known, unknown] = spans;
            if column.is_descending { [unknown, known] } else { [known, unknown] }
        });
        return Ok(apart.collect());
    }
    if next.prefixes.is_empty() {
        return Ok(points.into_iter().map(|point| next.span(point, None, column)).collect());
    }
    let of_point = |point: Vec<Value<'static>>| {
        next.prefixes.iter().map(|prefix| next.span(point.clone(), Some(prefix), column)).collect::<Vec<_>>()
    };
    Ok(points.into_iter().flat_map(of_point).collect())
}

/// The lists of values that the first columns have, in the order of the key; none if there can be no row.
///
/// # Errors
/// Those of evaluating them.
pub(super) fn points(
    access: &Access,
    row: &[Datum],
    context: &Context<'_>,
) -> Result<Option<Vec<Vec<Value<'static>>>>> {
    let mut first = Vec::with_capacity(access.columns.len());
    for (term, column) in access.equal.iter().zip(&access.columns) {
        match term {
            KeyTerm::Null => first.push(Value::Null),
            KeyTerm::Value(value) => match exact(&evaluate(value, row, context)?, column.data_type) {
                Some(value) => first.push(value),
                None => return Ok(None),
            },
        }
    }
    let columns = &access.columns[first.len()..];
    let mut then = Vec::with_capacity(access.then.len());
    for (term, column) in access.then.iter().zip(&access.columns[access.said() - access.then.len()..]) {
        match term {
            KeyTerm::Null => then.push(Value::Null),
            KeyTerm::Value(value) => match exact(&evaluate(value, row, context)?, column.data_type) {
                Some(value) => then.push(value),
                None => return Ok(None),
            },
        }
    }
    let mut lists: Vec<Vec<Value<'static>>> = match &access.several {
        None => return Ok(Some(vec![first])),
        Some(Several::Array(array)) => match evaluate(array, row, context)? {
            Datum::Array(array) => array
                .elements
                .iter()
                .filter_map(|element| exact(element, columns[0].data_type).map(|value| vec![value]))
                .collect(),
            _ => Vec::new(),
        },
        Some(Several::List(lists)) => {
            let mut found = Vec::with_capacity(lists.len());
            for list in lists {
                let values = evaluate_all(list, row, context)?;
                let exact = values.iter().zip(columns).map(|(value, column)| exact(value, column.data_type));
                found.extend(exact.collect::<Option<Vec<_>>>());
            }
            found
        }
        Some(Several::Rows(rows)) => match values_of(rows, columns, row, context)? {
            Some(found) if is_worth(rows, access, &first, found.len(), context)? => found,
            _ => return Ok(Some(vec![first])),
        },
    };
    lists.sort_by(|a, b| {
        let pairs = a.iter().zip(b).zip(columns);
        pairs
            .map(|((a, b), column)| if column.is_descending { b.cmp(a) } else { a.cmp(b) })
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    lists.dedup_by(|a, b| {
        let mut pairs = a.iter().zip(b.iter()).zip(columns);
        pairs.all(|((a, b), column)| column.data_type.is_same_in_key(a, b))
    });
    let whole = |list: Vec<Value<'static>>| first.iter().cloned().chain(list).chain(then.iter().cloned()).collect();
    Ok(Some(lists.into_iter().map(whole).collect()))
}

/// The values that a sub-select gives for columns of a key; none if they are rows within rows.
fn values_of(
    rows: &SeveralRows,
    columns: &[KeyColumn],
    row: &[Datum],
    context: &Context<'_>,
) -> Result<Option<Vec<Vec<Value<'static>>>>> {
    let Expr::Subquery(subquery) = &rows.subquery else { return Ok(None) };
    let column = |at: usize, value: &Datum| exact(value, columns[at].data_type);
    Ok(Some(match subquery::answer(subquery, row, context)? {
        Answer::Set(set) => set.0.iter().filter_map(|value| Some(vec![column(0, value)?])).collect(),
        Answer::Sorted { known, open } => {
            let list = |values: &Vec<Datum>| {
                let own = rows.columns.iter().enumerate();
                own.map(|(at, &place)| column(at, &values[place])).collect::<Option<Vec<_>>>()
            };
            // A column that is not said may have NULL.
            known.iter().chain(&*open).filter_map(list).collect()
        }
        Answer::Rows(_) | Answer::Value(_) => return Ok(None),
    }))
}

/// Whether so many look-ups take less time than to read all rows whose key begins with `first`.
fn is_worth(
    rows: &SeveralRows,
    access: &Access,
    first: &[Value<'static>],
    lookups: usize,
    context: &Context<'_>,
) -> Result<bool> {
    if lookups == 0 {
        return Ok(true);
    }
    let all = if first.is_empty() { Span::all() } else { Span::eq(first.to_vec()) };
    let table = context.view.table(&rows.table)?;
    let count = in_order!(table, access.index.as_deref(), access.is_covering, order => order.count(&all)?);
    Ok(lookups <= LOOKUPS_MAX && lookups as u64 * ROWS_A_LOOKUP <= count)
}

/// What is said of the columns after those that have one value.
struct Next {
    low: Option<(Vec<Value<'static>>, bool)>,
    high: Option<(Vec<Value<'static>>, bool)>,
    /// In the order of the key, and none begins with another one; empty if nothing is said.
    prefixes: Vec<Value<'static>>,
    is_not_null: bool,
}

/// An end of a range.
enum End {
    /// These values, and whether rows with them are in the range.
    At(Vec<Value<'static>>, bool),
    /// All rows that have a value there.
    Open,
    /// No row.
    Nothing,
}

impl Next {
    /// None if there can be no row.
    fn of(access: &Access, row: &[Datum], context: &Context<'_>) -> Result<Option<Next>> {
        let mut next = Next { low: None, high: None, prefixes: Vec::new(), is_not_null: access.is_not_null };
        let columns = &access.columns[access.said()..];
        if let Some(prefix) = &access.prefix {
            next.prefixes = prefixes(&evaluate(prefix, row, context)?, &columns[0]);
            if next.prefixes.is_empty() {
                return Ok(None);
            }
        }
        for (said, is_low) in [(&access.low, true), (&access.high, false)] {
            let Some((values, is_included)) = said else { continue };
            let values = evaluate_all(values, row, context)?;
            match end_of(&values, columns, is_low, *is_included) {
                End::Nothing => return Ok(None),
                End::Open => next.is_not_null = true,
                End::At(values, is_included) if is_low => next.low = Some((values, is_included)),
                End::At(values, is_included) => next.high = Some((values, is_included)),
            }
        }
        Ok(Some(next))
    }

    fn span(&self, point: Vec<Value<'static>>, prefix: Option<&Value<'static>>, column: &KeyColumn) -> Span<'static> {
        let with = |value: &Value<'static>| -> Vec<Value<'static>> {
            point.iter().cloned().chain(std::iter::once(value.clone())).collect()
        };
        let mut span = if point.is_empty() { Span::all() } else { Span::eq(point.clone()) };
        if let Some(prefix) = prefix {
            span = span.and(Span::starts_with(with(prefix)));
        }
        // In a descending column greater values come first.
        for (end, is_low) in [(&self.low, true), (&self.high, false)] {
            if let Some((values, is_included)) = end {
                let values: Vec<Value<'static>> = point.iter().chain(values).cloned().collect();
                span = span.and(match (is_low != column.is_descending, is_included) {
                    (true, true) => Span::ge(values),
                    (true, false) => Span::gt(values),
                    (false, true) => Span::le(values),
                    (false, false) => Span::lt(values),
                });
            }
        }
        let is_said = self.low.is_some() || self.high.is_some() || prefix.is_some();
        if self.is_not_null && !is_said && column.is_nullable {
            let null = with(&Value::Null);
            span = span.and(if column.is_descending { Span::lt(null) } else { Span::gt(null) });
        }
        span
    }
}

/// The texts that a column begins with, one or an array of them, in the order of the key; none of NULL.
fn prefixes(said: &Datum, column: &KeyColumn) -> Vec<Value<'static>> {
    let said = match said {
        Datum::Array(array) => &array.elements[..],
        said => std::slice::from_ref(said),
    };
    let mut texts: Vec<&str> = said.iter().filter_map(Datum::as_text).collect();
    texts.sort_unstable();
    if column.is_descending {
        texts.reverse();
    }
    texts.into_iter().map(|text| Value::from(text.to_owned())).collect()
}

/// The end of a range at values of some columns, which are compared as a row: a value that a column cannot hold decides
/// the comparison, and so does NULL.
fn end_of(values: &[Datum], columns: &[KeyColumn], is_low: bool, is_included: bool) -> End {
    let mut end = Vec::with_capacity(values.len());
    for (value, column) in values.iter().zip(columns) {
        let is_first = end.is_empty();
        match place(value, column.data_type) {
            Some(ValuePlace::At(value)) => end.push(value),
            Some(ValuePlace::After(value)) => {
                end.push(value);
                return End::At(end, !is_low);
            }
            Some(beyond) => {
                // Whether all rows that have the values before this one are in the range.
                let has_all = (beyond == ValuePlace::First) == is_low;
                return match (is_first, has_all) {
                    (true, true) => End::Open,
                    (true, false) => End::Nothing,
                    (false, has_all) => End::At(end, has_all),
                };
            }
            None if is_first => return End::Nothing,
            None => return End::At(end, false),
        }
    }
    End::At(end, is_included)
}

/// The value as a column holds it; none if it is NULL or the column cannot hold it, so that no row has it.
pub(crate) fn exact(value: &Datum, data_type: DataType) -> Option<Value<'static>> {
    match place(value, data_type) {
        Some(ValuePlace::At(value)) => Some(value),
        _ => None,
    }
}

/// Where a value stands among those of a column; none of NULL.
fn place(value: &Datum, data_type: DataType) -> Option<ValuePlace> {
    Some(match (value, data_type) {
        (Datum::Null, _) => return None,
        (Datum::Int(int), DataType::Decimal { precision, scale }) => {
            decimal_place(Decimal::from(*int), precision, scale)
        }
        (Datum::Int(int), DataType::Numeric) => ValuePlace::At(Value::Numeric(int.to_string().into())),
        (Datum::Numeric(number), DataType::Numeric) => ValuePlace::At(Value::Numeric(number.to_string().into())),
        (Datum::Int(int), _) => integer_place(i128::from(*int), true, data_type),
        (Datum::Numeric(number), DataType::F32 | DataType::F64) => float_place(number.to_f64(), data_type),
        (Datum::Numeric(number), data_type) => exact_place(number, data_type),
        (Datum::Float(float), DataType::F32 | DataType::F64) => float_place(*float, data_type),
        (Datum::Float(float), _) if float.is_nan() || *float >= 1e30 => ValuePlace::Last,
        (Datum::Float(float), _) if *float <= -1e30 => ValuePlace::First,
        (Datum::Float(float), _) => integer_place(float.floor() as i128, float.floor() == *float, data_type),
        (Datum::Timestamp(moment), DataType::Date) => date_place(*moment)?,
        (other, _) => ValuePlace::At(other.to_value()?.into_owned()),
    })
}

/// Where an exact number stands among integers or decimals of a fixed size.
fn exact_place(number: &Numeric, data_type: DataType) -> ValuePlace {
    if let Some(decimal) = number.small() {
        return small_place(decimal, data_type);
    }
    let scale = if let DataType::Decimal { scale, .. } = data_type { scale } else { 0 };
    match numeric::floor_at(number, scale).ok().and_then(|floor| floor.small()) {
        Some(floor) => match small_place(floor, data_type) {
            ValuePlace::At(value) if Numeric::Small(floor) != *number => ValuePlace::After(value),
            place => place,
        },
        None if number.signum() < 0 => ValuePlace::First,
        None => ValuePlace::Last,
    }
}

fn small_place(decimal: Decimal, data_type: DataType) -> ValuePlace {
    if let DataType::Decimal { precision, scale } = data_type {
        return decimal_place(decimal, precision, scale);
    }
    let divisor = 10i128.pow(u32::from(decimal.scale()));
    let floor = decimal.units().div_euclid(divisor);
    integer_place(floor, floor * divisor == decimal.units(), data_type)
}

/// Where a moment stands among days, each of which is its midnight.
fn date_place(moment: Timestamp) -> Option<ValuePlace> {
    let day = moment.date();
    let is_midnight = !moment.is_finite() || moment.microseconds().rem_euclid(DAY) == 0;
    Some(if is_midnight { ValuePlace::At(Value::Date(day)) } else { ValuePlace::After(Value::Date(day)) })
}

/// Where an integer, or a number between it and the next one, stands among integers of a type.
fn integer_place(floor: i128, is_exact: bool, data_type: DataType) -> ValuePlace {
    let Some((least, greatest)) = data_type.int_range() else {
        return float_place(floor as f64, data_type);
    };
    if floor < least {
        ValuePlace::First
    } else if floor > greatest {
        ValuePlace::Last
    } else if is_exact {
        ValuePlace::At(Value::Int(floor))
    } else {
        ValuePlace::After(Value::Int(floor))
    }
}

fn decimal_place(decimal: Decimal, precision: u8, scale: u8) -> ValuePlace {
    let beyond = if decimal.units() < 0 { ValuePlace::First } else { ValuePlace::Last };
    let fits = |decimal: &Decimal| decimal.fits(precision);
    if let Some(exact) = decimal.rescale(scale) {
        return if fits(&exact) { ValuePlace::At(Value::Decimal(exact)) } else { beyond };
    }
    if decimal.scale() <= scale {
        return beyond; // too many digits
    }
    let divisor = 10i128.pow(u32::from(decimal.scale() - scale));
    match Decimal::new(decimal.units().div_euclid(divisor), scale).filter(fits) {
        Some(floor) => ValuePlace::After(Value::Decimal(floor)),
        None => beyond,
    }
}

fn float_place(float: f64, data_type: DataType) -> ValuePlace {
    if data_type == DataType::F64 || float.is_nan() {
        return ValuePlace::At(Value::Float(float));
    }
    let nearest = float as f32;
    if f64::from(nearest) == float {
        return ValuePlace::At(Value::Float(float));
    }
    let floor = if f64::from(nearest) > float { nearest.next_down() } else { nearest };
    ValuePlace::After(Value::Float(f64::from(floor)))
}
