//! The value of an expression for a row.

use std::cmp::Ordering;
use std::sync::Arc;

use quipu_rows::Collation;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::subquery;
use crate::functions::subscripts;
use crate::plan::expression::{Among, Comparison, DomainChecks, Expr, NotNull, Quantifier};
use crate::types::cast::cast;
use crate::types::datum::{Array, Datum, Row};

/// The value of an expression for a row.
///
/// # Errors
/// An overflow, a division by zero, a cast that fails, and those of sub-selects.
pub fn evaluate(expr: &Expr, row: &[Datum], context: &Context<'_>) -> Result<Datum> {
    Ok(match expr {
        Expr::Constant(value) => value.clone(),
        Expr::Parameter(place) => parameter(*place, context)?,
        Expr::Slot(slot) => row[*slot].clone(),
        Expr::Outer(place) => context.arguments[*place].clone(),
        Expr::Call { call, arguments } => match &arguments[..] {
            [a] => call.0.run(context.environment, &[evaluate(a, row, context)?])?,
            [a, b] => call.0.run(context.environment, &[evaluate(a, row, context)?, evaluate(b, row, context)?])?,
            [a, b, c] => {
                let values = [evaluate(a, row, context)?, evaluate(b, row, context)?, evaluate(c, row, context)?];
                call.0.run(context.environment, &values)?
            }
            _ => call.0.run(context.environment, &evaluate_all(arguments, row, context)?)?,
        },
        Expr::Cast { value, from, to, context: how } => {
            cast(evaluate(value, row, context)?, *from, *to, *how, context.environment)?
        }
        Expr::Field { value, at } => match evaluate(value, row, context)? {
            Datum::Record(fields) => fields.get(*at).map_or(Datum::Null, |(_, value)| value.clone()),
            _ => Datum::Null,
        },
        Expr::Domain { value, checks } => checked(evaluate(value, row, context)?, checks, context)?,
        Expr::Compare { comparison, is_caseless, sides } => {
            // With NULL there is nothing to compare, and the other side may be a number that is out of range.
            if let [Expr::Constant(Datum::Null), _] | [_, Expr::Constant(Datum::Null)] = &**sides {
                return Ok(Datum::Null);
            }
            // Slots and constants are compared where they stand.
            let (left, right);
            let a = match &sides[0] {
                Expr::Slot(slot) => &row[*slot],
                other => {
                    left = evaluate(other, row, context)?;
                    &left
                }
            };
            let b = match &sides[1] {
                Expr::Slot(slot) => &row[*slot],
                Expr::Constant(value) => value,
                Expr::Parameter(place) if *place < context.parameters.len() => &context.parameters[*place],
                other => {
                    right = evaluate(other, row, context)?;
                    &right
                }
            };
            truth(compare(a, b, *is_caseless).map(|order| comparison.agrees(order)))
        }
        Expr::And(parts) => all(parts, row, context, false)?,
        Expr::Or(parts) => all(parts, row, context, true)?,
        Expr::Not(value) => match evaluate(value, row, context)? {
            Datum::Bool(value) => Datum::Bool(!value),
            _ => Datum::Null,
        },
        Expr::IsNull { value, is_negated } => {
            let value = evaluate(value, row, context)?;
            // A row is NULL if all its values are, and not NULL if all are not.
            Datum::Bool(match &value {
                Datum::Record(values) => values.iter().all(|(_, value)| value.is_null() != *is_negated),
                value => value.is_null() != *is_negated,
            })
        }
        Expr::IsTruth { value, truth, is_negated } => {
            let value = match evaluate(value, row, context)? {
                Datum::Bool(value) => Some(value),
                _ => None,
            };
            Datum::Bool((value == *truth) != *is_negated)
        }
        Expr::IsDistinct { sides, is_negated } => {
            let (a, b) = (evaluate(&sides[0], row, context)?, evaluate(&sides[1], row, context)?);
            Datum::Bool((a != b) != *is_negated)
        }
        Expr::Case { branches, otherwise } => {
            for (condition, result) in branches {
                if evaluate(condition, row, context)?.is_true() {
                    return evaluate(result, row, context);
                }
            }
            evaluate(otherwise, row, context)?
        }
        Expr::Once { place, value, within } => {
            let value = evaluate(value, row, context)?;
            context.state.note(*place, value);
            evaluate(within, row, context)?
        }
        Expr::Known(place) => context.state.noted(*place),
        Expr::Coalesce(values) => {
            for value in values {
                let value = evaluate(value, row, context)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Datum::Null
        }
        Expr::Extreme { is_greatest, values } => extreme(*is_greatest, values, row, context)?,
        Expr::In { left, list, among, is_negated } => {
            let value = evaluate(left, row, context)?;
            if let Among::Set(number) = among
                && let Some(set) = context.state.set(*number, || evaluate_all(list, row, context).map(Some))?
            {
                return Ok(truth(set.has(&value, equal).map(|found| found != *is_negated)));
            }
            if *among == Among::Sorted
                && let Some(Expr::Constant(first)) = list.first()
                && first.sorts_beside(&value)
            {
                let found = list.binary_search_by(|item| match item {
                    Expr::Constant(item) => item.cmp(&value),
                    _ => Ordering::Equal,
                });
                return Ok(Datum::Bool(found.is_ok() != *is_negated));
            }
            let mut found = Some(false);
            for item in list {
                match equal(&value, &evaluate(item, row, context)?) {
                    Some(true) => {
                        found = Some(true);
                        break;
                    }
                    Some(false) => {}
                    None => found = None,
                }
            }
            truth(found.map(|found| found != *is_negated))
        }
        Expr::Quantified { left, function, array, is_all, set } => {
            if let Some(number) = set
                && let Some(set) = context.state.set(*number, || elements(&evaluate(array, row, context)?))?
            {
                return Ok(truth(set.has(&evaluate(left, row, context)?, equal).map(|found| found != *is_all)));
            }
            quantified(&evaluate(left, row, context)?, function, &evaluate(array, row, context)?, *is_all, context)?
        }
        Expr::Subquery(subquery) => subquery::evaluate(subquery, row, context)?,
        Expr::Array { element, items } => {
            let items = evaluate_all(items, row, context)?;
            Datum::Array(Arc::new(array_of(*element, items)?))
        }
        Expr::Subscript { array, places } => {
            let (array, places) = (evaluate(array, row, context)?, evaluate_all(places, row, context)?);
            match &array {
                Datum::Array(array) => subscripts::element(array, &places).cloned().unwrap_or(Datum::Null),
                _ => Datum::Null,
            }
        }
        Expr::Slice { array, ends } => slice(&evaluate(array, row, context)?, ends, row, context)?,
        Expr::Record(values, names) => {
            let mut record = Vec::with_capacity(values.len());
            for (sql_type, value) in values {
                record.push((*sql_type, evaluate(value, row, context)?));
            }
            Datum::Record(Arc::new(Row { fields: record, names: names.clone() }))
        }
        Expr::HasReplaced => Datum::Int(context.state.has_replaced.get().into()),
        Expr::OfCursor(of) => context.environment.of_cursor(&of.cursor, (&of.table, &of.name), of.at)?,
        Expr::Aggregate(_) | Expr::Window(_) | Expr::Default => {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a part of the plan was not placed"));
        }
    })
}

/// The values of expressions.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_all(expressions: &[Expr], row: &[Datum], context: &Context<'_>) -> Result<Vec<Datum>> {
    expressions.iter().map(|expr| evaluate(expr, row, context)).collect()
}

/// Puts the values of expressions into a list, in place of what it has.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_into(
    values: &mut Vec<Datum>,
    expressions: &[Expr],
    row: &[Datum],
    context: &Context<'_>,
) -> Result<()> {
    values.clear();
    for expr in expressions {
        values.push(evaluate(expr, row, context)?);
    }
    Ok(())
}

/// Whether a condition is true for a row.
///
/// # Errors
/// Those of [`evaluate`].
pub fn holds(condition: &Expr, row: &[Datum], context: &Context<'_>) -> Result<bool> {
    Ok(evaluate(condition, row, context)?.is_true())
}

fn parameter(place: usize, context: &Context<'_>) -> Result<Datum> {
    context
        .parameters
        .get(place)
        .cloned()
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${}", place + 1)))
}

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

/// The order of two values; none if one is NULL.
#[inline]
pub fn compare(a: &Datum, b: &Datum, is_caseless: bool) -> Option<Ordering> {
    match (a, b) {
        (Datum::Null, _) | (_, Datum::Null) => None,
        (Datum::Text(a), Datum::Text(b)) if is_caseless => Some(Collation::Unicode.compare(a, b)),
        (Datum::Record(left), Datum::Record(right)) if left.names.is_some() || right.names.is_some() => {
            Some(compare_composites(a, b))
        }
        (Datum::Record(a), Datum::Record(b)) => {
            // The first pair that differs decides; a NULL before it leaves it open.
            for ((_, a), (_, b)) in a.iter().zip(b.iter()) {
                match compare(a, b, false)? {
                    Ordering::Equal => {}
                    order => return Some(order),
                }
            }
            Some(a.len().cmp(&b.len()))
        }
        _ => Some(a.cmp(b)),
    }
}

/// The order of two values of a composite type: unlike two rows that a statement writes, they are equal where both have
/// NULL, which is greater than all else.
fn compare_composites(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Record(left), Datum::Record(right)) => {
            let pairs = left.iter().zip(right.iter());
            let order = pairs.map(|((_, a), (_, b))| compare_composites(a, b)).find(|order| order.is_ne());
            order.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => compare(a, b, false).unwrap_or(Ordering::Equal),
    }
}

/// Whether two values are equal; none if that depends on a NULL.
pub fn equal(a: &Datum, b: &Datum) -> Option<bool> {
    match (a, b) {
        (Datum::Record(left), Datum::Record(right)) if left.names.is_some() || right.names.is_some() => {
            Some(compare_composites(a, b).is_eq())
        }
        (Datum::Record(a), Datum::Record(b)) => {
            let mut result = Some(true);
            for ((_, a), (_, b)) in a.iter().zip(b.iter()) {
                match equal(a, b) {
                    Some(false) => return Some(false),
                    Some(true) => {}
                    None => result = None,
                }
            }
            result
        }
        _ => compare(a, b, false).map(Ordering::is_eq),
    }
}

/// Whether all parts are true, or, if `decisive` is true, one of them.
fn all(parts: &[Expr], row: &[Datum], context: &Context<'_>, decisive: bool) -> Result<Datum> {
    let mut result = Datum::Bool(!decisive);
    for part in parts {
        match evaluate(part, row, context)? {
            Datum::Bool(value) if value == decisive => return Ok(Datum::Bool(decisive)),
            Datum::Bool(_) => {}
            _ => result = Datum::Null,
        }
    }
    Ok(result)
}

fn extreme(is_greatest: bool, values: &[Expr], row: &[Datum], context: &Context<'_>) -> Result<Datum> {
    let mut best = Datum::Null;
    for value in values {
        let value = evaluate(value, row, context)?;
        // Of equal values, which may be shown in different ways, the first one stays.
        let is_better = best.is_null() || if is_greatest { value > best } else { value < best };
        if !value.is_null() && is_better {
            best = value;
        }
    }
    Ok(best)
}

/// The elements of an array; none of NULL.
fn elements(array: &Datum) -> Result<Option<Vec<Datum>>> {
    Ok(match array {
        Datum::Array(array) => Some(array.elements.clone()),
        _ => None,
    })
}

fn quantified(
    left: &Datum,
    function: &Quantifier,
    array: &Datum,
    is_all: bool,
    context: &Context<'_>,
) -> Result<Datum> {
    let Datum::Array(array) = array else { return Ok(Datum::Null) };
    let mut result = Some(is_all);
    for element in &array.elements {
        let answer = match function {
            Quantifier::Comparison(comparison) => compare(left, element, false).map(|order| comparison.agrees(order)),
            Quantifier::Operator(call) => match call.0.run(context.environment, &[left.clone(), element.clone()])? {
                Datum::Bool(value) => Some(value),
                _ => None,
            },
        };
        match answer {
            Some(value) if value != is_all => return Ok(Datum::Bool(!is_all)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(truth(result))
}

/// Whether a comparison with one of these rows is true, or with all of them.
pub(crate) fn quantified_rows(
    left: &[Datum],
    comparison: Comparison,
    rows: impl Iterator<Item = Result<Vec<Datum>>>,
    is_all: bool,
) -> Result<Datum> {
    let mut result = Some(is_all);
    for row in rows {
        let row = row?;
        let answer = match (left, &row[..]) {
            ([left], [value, ..]) => compare(left, value, false).map(|order| comparison.agrees(order)),
            _ => row_answer(left, &row, comparison),
        };
        match answer {
            Some(value) if value != is_all => return Ok(Datum::Bool(!is_all)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(truth(result))
}

/// Whether the values of two rows compare so.
fn row_answer(a: &[Datum], b: &[Datum], comparison: Comparison) -> Option<bool> {
    match comparison {
        Comparison::Equal | Comparison::Unequal => {
            let mut is_equal = Some(true);
            for (a, b) in a.iter().zip(b) {
                match equal(a, b) {
                    Some(false) => {
                        is_equal = Some(false);
                        break;
                    }
                    Some(true) => {}
                    None => is_equal = None,
                }
            }
            is_equal.map(|is_equal| is_equal == (comparison == Comparison::Equal))
        }
        _ => {
            for (a, b) in a.iter().zip(b) {
                match compare(a, b, false)? {
                    Ordering::Equal => {}
                    order => return Some(comparison.agrees(order)),
                }
            }
            Some(comparison.agrees(Ordering::Equal))
        }
    }
}

/// An array of these items: of arrays of one shape, one of more dimensions.
fn array_of(element: crate::types::BaseType, items: Vec<Datum>) -> Result<Array> {
    let Some(Datum::Array(first)) = items.first() else { return Ok(Array::new(element, items)) };
    let mut dimensions = vec![items.len()];
    dimensions.extend(&first.dimensions);
    let mut elements = Vec::new();
    for item in &items {
        match item {
            Datum::Array(item) if item.dimensions[..] == dimensions[1..] => elements.extend_from_slice(&item.elements),
            _ => {
                let what = "multidimensional arrays must have array expressions with matching dimensions";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
        }
    }
    if elements.is_empty() {
        dimensions.clear();
    }
    Ok(Array { element, dimensions, elements })
}

fn slice(array: &Datum, ends: &[(Option<Expr>, Option<Expr>)], row: &[Datum], context: &Context<'_>) -> Result<Datum> {
    let Datum::Array(array) = array else { return Ok(Datum::Null) };
    let mut places = Vec::with_capacity(ends.len());
    for (low, high) in ends {
        let end = |end: &Option<Expr>| end.as_ref().map(|end| evaluate(end, row, context)).transpose();
        let (low, high) = (end(low)?, end(high)?);
        if low.iter().chain(&high).any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        places.push((low.and_then(|low| low.as_int()), high.and_then(|high| high.as_int())));
    }
    Ok(Datum::Array(Arc::new(subscripts::slice(array, &places))))
}

/// A value, if a domain takes it.
///
/// # Errors
/// 23502 and 23514 if it does not.
fn checked(value: Datum, checks: &DomainChecks, context: &Context<'_>) -> Result<Datum> {
    match &checks.not_null {
        Some(NotNull::Domain(domain)) if value.is_null() => {
            let what = format!("domain {domain} does not allow null values");
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, what));
        }
        Some(NotNull::Column { table, column }) if value.is_null() => return Err(SqlError::null_in(table, column)),
        _ => {}
    }
    let row = [value];
    for check in &checks.checks {
        if matches!(evaluate(&check.condition, &row, context)?, Datum::Bool(false)) {
            let (domain, name) = (&check.domain, &check.name);
            let what = format!("value for domain {domain} violates check constraint \"{name}\"");
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, what).of_constraint(&**name));
        }
    }
    let [value] = row;
    Ok(value)
}
