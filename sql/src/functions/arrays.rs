//! Functions and operators of arrays.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::definition::{Body, Definitions, array, int, typed};
use crate::functions::subscripts::ELEMENTS_MAX;
use crate::types::SqlType;
use crate::types::datum::{Array, Datum};
use crate::types::text::{check_length, to_string};

pub(crate) fn define(definitions: &mut Definitions) {
    sizes(definitions);
    changes(definitions);
    searches(definitions);
    texts(definitions);
}

/// The length of a dimension, from 1 on; none if there is no such.
fn length(values: &[Datum]) -> Result<Option<usize>> {
    let dimension = usize::try_from(int(values, 1)?).ok().and_then(|dimension| dimension.checked_sub(1));
    let array = array(values, 0)?;
    Ok(array.and_then(|array| array.dimensions.get(dimension?).copied()))
}

fn count(value: usize) -> Datum {
    Datum::Int(value as i64)
}

fn sizes(definitions: &mut Definitions) {
    for name in ["array_length", "array_upper"] {
        definitions.add(format!("{name}(anyarray,int4) int4").leak(), |_, v| Ok(length(v)?.map_or(Datum::Null, count)));
    }
    definitions.add("array_lower(anyarray,int4) int4", |_, v| Ok(length(v)?.map_or(Datum::Null, |_| Datum::Int(1))));
    definitions.add("cardinality(anyarray) int4", |_, v| {
        Ok(array(v, 0)?.map_or(Datum::Null, |array| count(array.elements.len())))
    });
    definitions.add("array_ndims(anyarray) int4", |_, v| {
        let array = array(v, 0)?.filter(|array| !array.dimensions.is_empty());
        Ok(array.map_or(Datum::Null, |array| count(array.dimensions.len())))
    });
    definitions.add("array_dims(anyarray) text", |_, v| {
        let array = array(v, 0)?.filter(|array| !array.dimensions.is_empty());
        let dims = |array: &Array| array.dimensions.iter().map(|length| format!("[1:{length}]")).collect::<String>();
        Ok(array.map_or(Datum::Null, |array| Datum::text(dims(array))))
    });
}

fn made(element: SqlType, elements: Vec<Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(element.base, elements)))
}

fn several_dimensions() -> SqlError {
    SqlError::new(SqlState::DATA_EXCEPTION, "argument must be empty or one-dimensional array")
}

/// An array with a value before or after its elements.
fn with_value(values: &[Datum], is_before: bool) -> Result<Datum> {
    let fields = typed(values)?;
    let [first, second] = fields else { return Ok(Datum::Null) };
    let ((_, value), (array_type, whole)) = if is_before { (first, second) } else { (second, first) };
    let mut elements = match whole {
        Datum::Array(array) if array.dimensions.len() > 1 => return Err(several_dimensions()),
        Datum::Array(array) => array.elements.clone(),
        _ => Vec::new(),
    };
    elements.insert(if is_before { 0 } else { elements.len() }, value.clone());
    Ok(made(array_type.element(), elements))
}

fn concatenate(values: &[Datum]) -> Result<Datum> {
    let (Some(first), Some(second)) = (array(values, 0)?, array(values, 1)?) else {
        // A NULL is left out.
        let present = values.iter().find(|value| !value.is_null());
        return Ok(present.cloned().unwrap_or(Datum::Null));
    };
    if first.elements.is_empty() || second.elements.is_empty() {
        return Ok(values[usize::from(first.elements.is_empty())].clone());
    }
    let refuse = || {
        let detail = "Arrays with differing dimensions are not compatible for concatenation.";
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot concatenate incompatible arrays").with_detail(detail)
    };
    let (a, b) = (&first.dimensions[..], &second.dimensions[..]);
    let (count, inner) = match a.len().cmp(&b.len()) {
        std::cmp::Ordering::Equal if a[1..] == b[1..] => (a[0] + b[0], &a[1..]),
        std::cmp::Ordering::Less if *a == b[1..] => (b[0] + 1, a),
        std::cmp::Ordering::Greater if *b == a[1..] => (a[0] + 1, b),
        _ => return Err(refuse()),
    };
    let dimensions = [&[count], inner].concat();
    let elements = [first.elements.as_slice(), &second.elements].concat();
    Ok(Datum::Array(Arc::new(Array { element: first.element, dimensions, elements })))
}

fn changes(definitions: &mut Definitions) {
    for signature in ["array_append(anyarray,anyelement) anyarray", "||(anyarray,anyelement) anyarray"] {
        definitions.add(signature, |_, v| with_value(v, false)).typed().lenient();
    }
    for signature in ["array_prepend(anyelement,anyarray) anyarray", "||(anyelement,anyarray) anyarray"] {
        definitions.add(signature, |_, v| with_value(v, true)).typed().lenient();
    }
    for signature in ["array_cat(anyarray,anyarray) anyarray", "||(anyarray,anyarray) anyarray"] {
        definitions.add(signature, |_, v| concatenate(v)).lenient();
    }
    let remove: Body = |_, v| {
        let Some(whole) = array(v, 0)? else { return Ok(Datum::Null) };
        if whole.dimensions.len() > 1 {
            let message = "removing elements from multidimensional arrays is not supported";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let kept = whole.elements.iter().filter(|element| **element != v[1]).cloned().collect();
        Ok(made(whole.element.into(), kept))
    };
    definitions.add("array_remove(anyarray,anyelement) anyarray", remove).lenient();
    let replace: Body = |_, v| {
        let Some(whole) = array(v, 0)? else { return Ok(Datum::Null) };
        let replaced = |element: &Datum| if *element == v[1] { v[2].clone() } else { element.clone() };
        let elements = whole.elements.iter().map(replaced).collect();
        let (element, dimensions) = (whole.element, whole.dimensions.clone());
        Ok(Datum::Array(Arc::new(Array { element, dimensions, elements })))
    };
    definitions.add("array_replace(anyarray,anyelement,anyelement) anyarray", replace).lenient();
    let trim: Body = |_, v| {
        let Some(whole) = array(v, 0)? else { return Ok(Datum::Null) };
        let (length, dropped) = (whole.dimensions.first().copied().unwrap_or(0), int(v, 1)?);
        let kept = usize::try_from(dropped).ok().and_then(|dropped| length.checked_sub(dropped)).ok_or_else(|| {
            let message = format!("number of elements to trim must be between 0 and {length}");
            SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
        })?;
        let size = whole.elements.len().checked_div(length).unwrap_or(0);
        let elements = whole.elements[..kept * size].to_vec();
        let mut dimensions = if elements.is_empty() { Vec::new() } else { whole.dimensions.clone() };
        dimensions.iter_mut().take(1).for_each(|length| *length = kept);
        Ok(Datum::Array(Arc::new(Array { element: whole.element, dimensions, elements })))
    };
    definitions.add("trim_array(anyarray,int4) anyarray", trim);
    let fills = ["array_fill(anyelement,int4[]) anyarray"];
    for signature in fills {
        let fill = definitions.add(signature, |_, v| {
            let [(sql_type, value), (_, Datum::Array(lengths))] = typed(v)? else {
                let what = "dimension array or low bound array cannot be null";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what));
            };
            if lengths.elements.iter().any(Datum::is_null) {
                let what = "dimension values cannot be null";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what));
            }
            if lengths.dimensions.len() > 1 {
                let what = "wrong number of array subscripts";
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, what)
                    .with_detail("Dimension array must be one dimensional."));
            }
            let lengths = lengths.elements.iter().map(|length| usize::try_from(length.as_int().unwrap_or(0)));
            let lengths: Vec<usize> = lengths.map(|length| length.unwrap_or(0)).collect();
            let total = lengths.iter().try_fold(1usize, |total, length| total.checked_mul(*length));
            let total = total.filter(|total| *total <= ELEMENTS_MAX && lengths.len() <= 6).ok_or_else(|| {
                let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
                SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            })?;
            let dimensions = if total == 0 { Vec::new() } else { lengths };
            let elements = vec![value.clone(); if dimensions.is_empty() { 0 } else { total }];
            Ok(Datum::Array(Arc::new(Array { element: sql_type.base, dimensions, elements })))
        });
        fill.typed().lenient();
    }
}

fn elements(values: &[Datum], index: usize) -> Result<&[Datum]> {
    Ok(array(values, index)?.map_or(&[], |array| array.elements.as_slice()))
}

fn contains(whole: &[Datum], part: &[Datum]) -> bool {
    part.iter().all(|value| !value.is_null() && whole.contains(value))
}

fn searches(definitions: &mut Definitions) {
    definitions.add("@>(anyarray,anyarray) bool", |_, v| Ok(Datum::Bool(contains(elements(v, 0)?, elements(v, 1)?))));
    definitions.add("<@(anyarray,anyarray) bool", |_, v| Ok(Datum::Bool(contains(elements(v, 1)?, elements(v, 0)?))));
    definitions.add("&&(anyarray,anyarray) bool", |_, v| {
        let (a, b) = (elements(v, 0)?, elements(v, 1)?);
        Ok(Datum::Bool(a.iter().any(|value| !value.is_null() && b.contains(value))))
    });
    for signature in ["array_position(anyarray,anyelement) int4", "array_position(anyarray,anyelement,int4) int4"] {
        let position: Body = |_, v| {
            let Some(whole) = array(v, 0)? else { return Ok(Datum::Null) };
            if whole.dimensions.len() > 1 {
                let message = "searching for elements in multidimensional arrays is not supported";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let start = if v.len() > 2 { usize::try_from(int(v, 2)? - 1).unwrap_or(0) } else { 0 };
            let found = whole.elements.iter().skip(start).position(|element| *element == v[1]);
            Ok(found.map_or(Datum::Null, |index| count(start + index + 1)))
        };
        definitions.add(signature, position).lenient();
    }
    let positions: Body = |_, v| {
        let Some(whole) = array(v, 0)? else { return Ok(Datum::Null) };
        let found = whole.elements.iter().enumerate().filter(|(_, element)| **element == v[1]);
        let found = found.map(|(index, _)| count(index + 1)).collect();
        Ok(made(SqlType::INT4, found))
    };
    definitions.add("array_positions(anyarray,anyelement) int4[]", positions).lenient();
}

fn join(environment: &dyn Environment, values: &[Datum]) -> Result<Datum> {
    let fields = typed(values)?;
    let [(array_type, Datum::Array(whole)), (_, Datum::Text(separator)), rest @ ..] = fields else {
        return Ok(Datum::Null);
    };
    let of_null = rest.first().and_then(|(_, value)| value.as_text());
    let mut parts = Vec::new();
    for element in &whole.elements {
        match (element, of_null) {
            (Datum::Null, None) => {}
            (Datum::Null, Some(of_null)) => parts.push(of_null.to_owned()),
            (element, _) => parts.push(to_string(element, array_type.element(), environment)?),
        }
    }
    let bytes: usize = parts.iter().map(String::len).sum();
    check_length(bytes.saturating_add(separator.len().saturating_mul(parts.len())))?;
    Ok(Datum::text(parts.join(separator)))
}

fn split(values: &[Datum]) -> Result<Datum> {
    let [whole, separator, rest @ ..] = values else { return Ok(Datum::Null) };
    let Some(whole) = whole.as_text() else { return Ok(Datum::Null) };
    let of_null = rest.first().and_then(Datum::as_text);
    let value = |part: &str| if Some(part) == of_null { Datum::Null } else { Datum::text(part) };
    let parts = match separator.as_text() {
        _ if whole.is_empty() => Vec::new(),
        None => whole.chars().map(|c| value(c.encode_utf8(&mut [0; 4]))).collect(),
        Some("") => vec![value(whole)],
        Some(separator) => whole.split(separator).map(value).collect(),
    };
    Ok(made(SqlType::TEXT, parts))
}

fn texts(definitions: &mut Definitions) {
    for signature in ["array_to_string(anyarray,text) text", "array_to_string(anyarray,text,text) text"] {
        definitions.add(signature, join).typed().lenient().stable();
    }
    for signature in ["string_to_array(text,text) text[]", "string_to_array(text,text,text) text[]"] {
        definitions.add(signature, |_, v| split(v)).lenient();
    }
}
