//! Elements and parts of arrays, to read and to set: `a[2]`, `a[1:2][3:4]`.
//!
//! Places are counted from 1 in each dimension. Arrays that begin elsewhere are not there, so what would make one is
//! refused.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, int, typed};
use crate::types::BaseType;
use crate::types::datum::{Array, Datum, refuse_dimensions};

/// The first and the last place of a part in one dimension; none where it is left out.
pub type Ends = (Option<i64>, Option<i64>);

/// The function that sets an element: of an array, a value and its places.
pub const SET_ELEMENT: &str = ".set_element";

/// The function that sets a part: of an array, the array of the part's values, and its first and last place in each
/// dimension.
pub const SET_SLICE: &str = ".set_slice";

/// The function that sets a value within JSON: of the JSON, the value, whether the first subscript is a number, and the
/// subscripts as texts.
pub const SET_IN_JSON: &str = ".set_in_json";

/// The function that gives the first field of a row, which is a whole number.
pub const FIRST_FIELD: &str = ".first_field";

/// What stands for the end of a part that is left out: no place, and not NULL, which is refused.
pub const LEFT_OUT: i64 = i64::MIN;

/// The most elements of an array: some 256 MB of values in memory.
pub(crate) const ELEMENTS_MAX: usize = (1 << 23) - 1;

/// The element at these places; none if there is none.
pub fn element<'a>(array: &'a Array, places: &[Datum]) -> Option<&'a Datum> {
    if places.len() != array.dimensions.len() {
        return None;
    }
    let mut at = 0;
    for (place, &length) in places.iter().zip(&array.dimensions) {
        let place = usize::try_from(place.as_int()?.checked_sub(1)?).ok()?;
        if place >= length {
            return None;
        }
        at = at * length + place;
    }
    array.elements.get(at)
}

/// The part of an array between these ends, which are moved to those of the array; without elements if nothing is left.
pub fn slice(array: &Array, ends: &[Ends]) -> Array {
    let nothing = || Array::new(array.element, Vec::new());
    if ends.len() > array.dimensions.len() {
        return nothing();
    }
    let mut ranges = Vec::with_capacity(array.dimensions.len());
    for (place, &length) in array.dimensions.iter().enumerate() {
        let (low, high) = ends.get(place).copied().unwrap_or_default();
        let (low, high) = (low.unwrap_or(1).max(1), high.unwrap_or(i64::MAX).min(length as i64));
        if low > high {
            return nothing();
        }
        ranges.push(low as usize - 1..high as usize);
    }
    let mut elements = Vec::new();
    for_each_place(&array.dimensions, &ranges, 0, &mut |at| elements.push(array.elements[at].clone()));
    let dimensions = ranges.into_iter().map(|range| range.len()).collect();
    Array { element: array.element, dimensions, elements }
}

/// Visits the places of elements within these ranges of all dimensions.
fn for_each_place(dimensions: &[usize], ranges: &[Range<usize>], base: usize, visit: &mut dyn FnMut(usize)) {
    let [range, ranges @ ..] = ranges else { return visit(base) };
    for at in range.clone() {
        let size: usize = dimensions[1..].iter().product();
        for_each_place(&dimensions[1..], ranges, base + at * size, visit);
    }
}

fn wrong(what: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, what)
}

fn refuse_other_beginning(low: i64) -> Result<()> {
    if low == 1 {
        return Ok(());
    }
    let what = format!("arrays that begin at {low} are not supported");
    Err(SqlError::unsupported(what, "Let the array begin at 1."))
}

/// The length that a dimension has with a place in it.
fn length_with(place: i64) -> Result<usize> {
    usize::try_from(place).ok().filter(|length| *length <= ELEMENTS_MAX).ok_or_else(|| {
        let what = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
    })
}

/// An array with another element. One of one dimension grows up to the place; the places between are NULL.
fn with_element(mut array: Array, places: &[i64], value: Datum) -> Result<Array> {
    refuse_dimensions(places.len())?;
    if array.dimensions.is_empty() {
        places.iter().try_for_each(|&place| refuse_other_beginning(place))?;
        return Ok(Array { dimensions: vec![1; places.len()], elements: vec![value], ..array });
    }
    if array.dimensions.len() != places.len() {
        return Err(wrong("wrong number of array subscripts"));
    }
    if let [place] = *places {
        if place < 1 {
            refuse_other_beginning(place)?;
        }
        let length = length_with(place)?.max(array.elements.len());
        array.elements.resize(length, Datum::Null);
        array.dimensions = vec![length];
    }
    let mut at = 0;
    for (&place, &length) in places.iter().zip(&array.dimensions) {
        let place = usize::try_from(place).ok().and_then(|place| place.checked_sub(1)).filter(|place| *place < length);
        at = at * length + place.ok_or_else(|| wrong("array subscript out of range"))?;
    }
    array.elements[at] = value;
    Ok(array)
}

/// An array with other elements between these ends, in their order. One of one dimension grows.
fn with_slice(mut array: Array, ends: &[Ends], values: &Array) -> Result<Array> {
    refuse_dimensions(ends.len())?;
    let is_empty = array.dimensions.is_empty();
    if array.dimensions.len() < ends.len() && !is_empty {
        return Err(wrong("wrong number of array subscripts"));
    }
    let grows = is_empty || array.dimensions.len() == 1;
    let lengths = if is_empty { vec![0; ends.len()] } else { array.dimensions.clone() };
    let (mut ranges, mut dimensions) = (Vec::new(), Vec::new());
    for (place, length) in lengths.into_iter().enumerate() {
        let (low, high) = ends.get(place).copied().unwrap_or_default();
        if is_empty && (low.is_none() || high.is_none()) {
            let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
            return Err(wrong("array slice subscript must provide both boundaries").with_detail(detail));
        }
        let (low, high) = (low.unwrap_or(1), high.unwrap_or(length as i64));
        if low > high {
            return Err(wrong("upper bound cannot be less than lower bound"));
        }
        if is_empty || grows && low < 1 {
            refuse_other_beginning(low)?;
        }
        if !grows && (low < 1 || high > length as i64) {
            return Err(wrong("array subscript out of range"));
        }
        let end = length_with(high)?;
        ranges.push(low as usize - 1..end);
        dimensions.push(end.max(length));
    }
    let total = dimensions.iter().try_fold(1_usize, |total, length| total.checked_mul(*length));
    let total = length_with(total.and_then(|total| i64::try_from(total).ok()).unwrap_or(i64::MAX))?;
    if values.elements.len() < ranges.iter().map(ExactSizeIterator::len).product() {
        return Err(wrong("source array too small"));
    }
    array.elements.resize(total, Datum::Null);
    let mut values = values.elements.iter();
    for_each_place(&dimensions, &ranges, 0, &mut |at| {
        if let Some(value) = values.next() {
            array.elements[at] = value.clone();
        }
    });
    Ok(Array { dimensions, ..array })
}

/// The array that is changed; NULL is one without elements.
fn changed(array: &Datum, element: BaseType) -> Array {
    match array {
        Datum::Array(array) => (**array).clone(),
        _ => Array::new(element, Vec::new()),
    }
}

fn places_of(values: &[(crate::types::SqlType, Datum)]) -> Result<Vec<i64>> {
    let place = |(_, value): &(_, Datum)| match value {
        Datum::Null => {
            let what = "array subscript in assignment must not be null";
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what))
        }
        value => int(std::slice::from_ref(value), 0),
    };
    values.iter().map(place).collect()
}

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add(".first_field(record) int8", |_, v| match v.first() {
        Some(Datum::Record(row)) => Ok(row.first().map_or(Datum::Null, |(_, value)| value.clone())),
        _ => Ok(Datum::Null),
    });
    let set = definitions.add(".set_element(anyarray,anyelement,int4...) anyarray", |_, v| {
        let [(array_type, array), (_, value), places @ ..] = typed(v)? else { return Ok(Datum::Null) };
        let array = changed(array, array_type.base);
        Ok(Datum::Array(Arc::new(with_element(array, &places_of(places)?, value.clone())?)))
    });
    set.typed().lenient();
    let set = definitions.add(".set_slice(anyarray,anyarray,int4...) anyarray", |_, v| {
        let [(array_type, array), (_, values), places @ ..] = typed(v)? else { return Ok(Datum::Null) };
        let places = places_of(places)?;
        // No values: the array stays as it is.
        let Datum::Array(values) = values else { return Ok(array.clone()) };
        let end = |place: i64| Some(place).filter(|place| *place != LEFT_OUT);
        let ends: Vec<Ends> = places.chunks(2).map(|ends| (end(ends[0]), end(ends[1]))).collect();
        Ok(Datum::Array(Arc::new(with_slice(changed(array, array_type.base), &ends, values)?)))
    });
    set.typed().lenient();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dimensions: &[usize]) -> Array {
        let count: usize = dimensions.iter().product();
        let elements = (0..count as i64).map(Datum::Int).collect();
        Array { element: BaseType::Int4, dimensions: dimensions.to_vec(), elements }
    }

    fn ints(array: &Array) -> Vec<Option<i64>> {
        array.elements.iter().map(Datum::as_int).collect()
    }

    fn shape(array: &Array) -> (Vec<Option<i64>>, &[usize]) {
        (ints(array), &array.dimensions)
    }

    /// A part that is set is the part that is read, and nothing else has changed.
    #[test]
    fn parts_that_are_set_are_read_back() {
        for dimensions in [&[4][..], &[2, 3], &[2, 2, 3]] {
            let whole = array(dimensions);
            for place in 0..dimensions.len() {
                for low in 1..=dimensions[place] as i64 {
                    for high in low..=dimensions[place] as i64 {
                        let mut ends: Vec<Ends> = vec![(None, None); place + 1];
                        ends[place] = (Some(low), Some(high));
                        let part = slice(&whole, &ends);
                        let values = part.elements.iter().map(|value| Datum::Int(100 + value.as_int().unwrap()));
                        let values = Array { elements: values.collect(), ..part.clone() };
                        let set = with_slice(whole.clone(), &ends, &values).unwrap();
                        assert_eq!(shape(&slice(&set, &ends)), shape(&values));
                        let others = set.elements.iter().zip(&whole.elements).filter(|(new, old)| new == old).count();
                        assert_eq!(others, whole.elements.len() - values.elements.len());
                    }
                }
            }
        }
    }

    #[test]
    fn arrays_of_one_dimension_grow() {
        let grown = with_element(array(&[2]), &[4], Datum::Int(9)).unwrap();
        assert_eq!((ints(&grown), &grown.dimensions[..]), (vec![Some(0), Some(1), None, Some(9)], &[4][..]));
        let part = array(&[2]);
        let grown = with_slice(array(&[1]), &[(Some(3), Some(4))], &part).unwrap();
        assert_eq!(ints(&grown), vec![Some(0), None, Some(0), Some(1)]);
        let made =
            with_slice(Array::new(BaseType::Int4, Vec::new()), &[(Some(1), Some(2)); 2], &array(&[2, 2])).unwrap();
        assert_eq!(shape(&made), shape(&array(&[2, 2])));
        assert!(with_element(array(&[2, 2]), &[3, 1], Datum::Null).is_err());
        assert!(with_element(array(&[2]), &[0], Datum::Null).is_err());
        assert!(with_element(array(&[2]), &[1 << 40], Datum::Null).is_err());
    }
}
