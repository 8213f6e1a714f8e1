//! JSON of Arrow's nested values: lists, structs and maps of texts.
//!
//! It holds what `json.dumps` takes: numbers that are finite, texts, booleans and NULL. Whatever else lies in a struct
//! or a list, such as a date, has no JSON, and is cast to a text first.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types as arrow;
use arrow_array::{Array, MapArray};
use arrow_schema::DataType as ArrowType;

/// Writes the value of a row.
pub(crate) type WriteJson<'a> = Box<dyn Fn(usize, &mut String) -> Result<(), String> + 'a>;

/// Gives the key of a map at a place.
type Name<'a> = Box<dyn Fn(usize) -> &'a str + 'a>;

/// How the values of an array are written as JSON; none if they have none.
pub(crate) fn json<'a>(array: &'a dyn Array) -> Option<WriteJson<'a>> {
    macro_rules! shown {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            Box::new(move |row: usize, to: &mut String| shown(values[row], to))
        }};
    }
    let present: WriteJson<'a> = match array.data_type() {
        ArrowType::Null => Box::new(|_, to| shown("null", to)),
        ArrowType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row, to| shown(values.value(row), to))
        }
        ArrowType::Int8 => shown!(arrow::Int8Type),
        ArrowType::Int16 => shown!(arrow::Int16Type),
        ArrowType::Int32 => shown!(arrow::Int32Type),
        ArrowType::Int64 => shown!(arrow::Int64Type),
        ArrowType::UInt8 => shown!(arrow::UInt8Type),
        ArrowType::UInt16 => shown!(arrow::UInt16Type),
        ArrowType::UInt32 => shown!(arrow::UInt32Type),
        ArrowType::UInt64 => shown!(arrow::UInt64Type),
        ArrowType::Float32 => {
            let values = array.as_primitive::<arrow::Float32Type>().values();
            Box::new(|row, to| float(values[row].is_finite(), values[row], to))
        }
        ArrowType::Float64 => {
            let values = array.as_primitive::<arrow::Float64Type>().values();
            Box::new(|row, to| float(values[row].is_finite(), values[row], to))
        }
        ArrowType::Utf8 => {
            let values = array.as_string::<i32>();
            Box::new(|row, to| text(values.value(row), to))
        }
        ArrowType::LargeUtf8 => {
            let values = array.as_string::<i64>();
            Box::new(|row, to| text(values.value(row), to))
        }
        ArrowType::Utf8View => {
            let values = array.as_string_view();
            Box::new(|row, to| text(values.value(row), to))
        }
        ArrowType::List(_) => {
            let lists = array.as_list::<i32>();
            let (ends, values) = (lists.value_offsets(), json(lists.values().as_ref())?);
            Box::new(move |row, to| list(ends[row] as usize..ends[row + 1] as usize, &values, to))
        }
        ArrowType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let (ends, values) = (lists.value_offsets(), json(lists.values().as_ref())?);
            Box::new(move |row, to| list(ends[row] as usize..ends[row + 1] as usize, &values, to))
        }
        ArrowType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            let values = json(lists.values().as_ref())?;
            Box::new(move |row, to| {
                let start = lists.value_offset_at(row);
                list(start..start + lists.value_length() as usize, &values, to)
            })
        }
        ArrowType::Struct(fields) => {
            let values = array.as_struct().columns().iter().map(|column| json(column.as_ref()));
            let fields: Vec<_> =
                fields.iter().map(|field| field.name()).zip(values.collect::<Option<Vec<_>>>()?).collect();
            Box::new(move |row, to| {
                let fields = fields.iter().map(|(name, write)| (name.as_str(), write, row));
                object(fields, to)
            })
        }
        ArrowType::Map(..) => map(array.as_map())?,
        // A dictionary without values is one of NULLs.
        ArrowType::Dictionary(..) if array.as_any_dictionary().values().is_empty() => {
            Box::new(|_, to| shown("null", to))
        }
        ArrowType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (keys, values) = (dictionary.normalized_keys(), json(dictionary.values().as_ref())?);
            Box::new(move |row, to| values(keys[row], to))
        }
        _ => return None,
    };
    let nulls = array.nulls();
    Some(Box::new(move |row, to| match nulls {
        Some(nulls) if nulls.is_null(row) => shown("null", to),
        _ => present(row, to),
    }))
}

fn shown(value: impl std::fmt::Display, to: &mut String) -> Result<(), String> {
    write!(to, "{value}").map_err(|error| error.to_string())
}

/// A number with a point or an exponent, so that it is read as a float again.
fn float(is_finite: bool, value: impl std::fmt::Debug, to: &mut String) -> Result<(), String> {
    if !is_finite {
        return Err(format!("{value:?} is not a number of JSON"));
    }
    write!(to, "{value:?}").map_err(|error| error.to_string())
}

fn text(value: &str, to: &mut String) -> Result<(), String> {
    to.push('"');
    for char in value.chars() {
        match char {
            '"' | '\\' => to.extend(['\\', char]),
            '\n' => to.push_str("\\n"),
            control if control < ' ' => {
                write!(to, "\\u{:04x}", u32::from(control)).map_err(|error| error.to_string())?;
            }
            char => to.push(char),
        }
    }
    to.push('"');
    Ok(())
}

fn list(places: std::ops::Range<usize>, values: &WriteJson<'_>, to: &mut String) -> Result<(), String> {
    to.push('[');
    for (number, place) in places.enumerate() {
        if number > 0 {
            to.push(',');
        }
        values(place, to)?;
    }
    to.push(']');
    Ok(())
}

/// An object of names, each with what writes its value, and the place of that.
fn object<'v, 'a: 'v>(
    fields: impl Iterator<Item = (&'v str, &'v WriteJson<'a>, usize)>,
    to: &mut String,
) -> Result<(), String> {
    to.push('{');
    for (number, (name, write, place)) in fields.enumerate() {
        if number > 0 {
            to.push(',');
        }
        text(name, to)?;
        to.push(':');
        write(place, to)?;
    }
    to.push('}');
    Ok(())
}

/// How maps are written, if their keys are texts.
fn map(maps: &MapArray) -> Option<WriteJson<'_>> {
    let (ends, keys, values) = (maps.value_offsets(), maps.keys(), json(maps.values().as_ref())?);
    let name: Name<'_> = match keys.data_type() {
        ArrowType::Utf8 => Box::new(|place| keys.as_string::<i32>().value(place)),
        ArrowType::LargeUtf8 => Box::new(|place| keys.as_string::<i64>().value(place)),
        ArrowType::Utf8View => Box::new(|place| keys.as_string_view().value(place)),
        _ => return None,
    };
    Some(Box::new(move |row, to| {
        let places = ends[row] as usize..ends[row + 1] as usize;
        object(places.map(|place| (name(place), &values, place)), to)
    }))
}
