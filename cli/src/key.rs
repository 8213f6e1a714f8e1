//! Keys and ranges of keys as people write them.
//!
//! In a table with a schema a key is the values of its columns between commas, `JFK,7`, and fewer values than the key
//! has columns stand for all keys that begin with them. In other tables a key is a string, and a beginning of strings
//! as well. A missing value is `null`.
//!
//! | written | range |
//! |---|---|
//! | nothing, or `..` | all |
//! | `JFK` | what begins with JFK |
//! | `JF*` | text that begins with JF |
//! | `JFK,7 .. JFK,9` | from the first of (JFK, 7) to before the first of (JFK, 9) |
//! | `JFK,7 ..= JFK,9` | to the last of (JFK, 9) |
//! | `JFK ..`, `.. JFK`, `..= JFK` | open at one end |

use std::ops::Bound;

use quipu::tuple::{self, Element};
use quipu_rows::old::{
    ColumnType, KeyRange, Schema, element_text, escape, keys_with, keys_with_prefix, keys_with_text,
};

use crate::failure::{Failure, Result};
use crate::words::{self, Item, Word};

/// The encoded key that `word` says in full.
pub(crate) fn parse(word: &Word, schema: Option<&Schema>) -> Result<Vec<u8>> {
    let Some(schema) = schema else { return Ok(word.bytes()) };
    if word.items.len() < schema.key.len() {
        let (found, needed) = (word.items.len(), schema.key.len());
        return Err(Failure::new(format!(
            "a key of this table has {needed} columns, {}; here are {found}",
            schema.key_names()
        )));
    }
    Ok(tuple::encode(&elements(word, schema)?))
}

/// The encoded value that `words` say: `a,b,c` for all columns of the value, or `name=value` for some, the others
/// missing.
pub(crate) fn parse_value(words: &[Word], schema: Option<&Schema>) -> Result<Vec<u8>> {
    let Some(schema) = schema else {
        return Ok(words.iter().map(Word::bytes).collect::<Vec<_>>().join(&b' '));
    };
    let columns: Vec<_> = schema.value_columns().collect();
    let mut row = vec![Element::Null; columns.len()];
    let names = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(",");
    let assignment = |word: &Word| -> Option<(usize, Item)> {
        let [item] = word.items.as_slice() else { return None };
        let equals = item.bytes.iter().position(|&byte| byte == b'=')?;
        let place = columns.iter().position(|column| column.name.as_bytes() == &item.bytes[..equals])?;
        Some((place, Item { bytes: item.bytes[equals + 1..].to_vec(), ..item.clone() }))
    };
    match words {
        [] if columns.is_empty() => {}
        [word] if assignment(word).is_none() && word.items.len() == columns.len() => {
            for ((place, column), item) in columns.iter().enumerate().zip(&word.items) {
                row[place] = element(item, column.column_type, &column.name)?;
            }
        }
        words => {
            for word in words {
                let (place, item) = assignment(word).ok_or_else(|| {
                    let count = columns.len();
                    Failure::new(format!(
                        "a value of this table has {count} columns, {}; write all between commas, or some as name=value",
                        names()
                    ))
                })?;
                row[place] = element(&item, columns[place].column_type, &columns[place].name)?;
            }
        }
    }
    Ok(tuple::encode(&row))
}

/// The range that `words` say.
pub(crate) fn parse_range(words: &[Word], schema: Option<&Schema>) -> Result<KeyRange> {
    let dots = words.iter().position(|word| word.is("..") || word.is("..="));
    let Some(dots) = dots else {
        return match words {
            [] => Ok((Bound::Unbounded, Bound::Unbounded)),
            [word] => keys_that_begin(word, schema),
            [_, second, ..] => Err(Failure::new(format!(
                "{:?} is too much: a range is `a`, `a .. b`, `a ..= b`, `a ..` or `.. b`",
                escape(&second.bytes())
            ))),
        };
    };
    let start = match &words[..dots] {
        [] => Bound::Unbounded,
        [word] => keys_that_begin(word, schema)?.0,
        _ => return Err(Failure::new("more than one key stands before `..`")),
    };
    let end = match &words[dots + 1..] {
        [] if words[dots].is("..=") => return Err(Failure::new("there is no key behind `..=`")),
        [] => Bound::Unbounded,
        [word] if words[dots].is("..") => before(keys_that_begin(word, schema)?),
        [word] if schema.is_none() && !word.items.iter().any(|item| item.star) => Bound::Included(word.bytes()),
        [word] => keys_that_begin(word, schema)?.1,
        _ => return Err(Failure::new("more than one key stands behind `..`")),
    };
    Ok((start, end))
}

/// The range that an option of the command line says, behind `before`; errors name the option.
pub(crate) fn range_of_option(option: &str, before: &str, text: &str, schema: Option<&Schema>) -> Result<KeyRange> {
    let range = words::single(text).and_then(|_| parse_range(&words::split(&[before, text].concat())?, schema));
    range.map_err(|error| error.context(option))
}

/// The range that the options `--from` and `--to` say.
pub(crate) fn range_of_options(from: Option<&str>, to: Option<&str>, schema: Option<&Schema>) -> Result<KeyRange> {
    let start = from.map(|text| range_of_option("--from", "", text, schema)).transpose()?;
    let end = to.map(|text| range_of_option("--to", ".. ", text, schema)).transpose()?;
    Ok((start.map_or(Bound::Unbounded, |range| range.0), end.map_or(Bound::Unbounded, |range| range.1)))
}

/// The end of what lies before a range.
fn before((start, _): KeyRange) -> Bound<Vec<u8>> {
    match start {
        Bound::Included(start) => Bound::Excluded(start),
        other => other,
    }
}

/// All keys that begin with `word`.
fn keys_that_begin(word: &Word, schema: Option<&Schema>) -> Result<KeyRange> {
    let star = word.items.last().is_some_and(|item| item.star);
    let Some(schema) = schema else {
        let mut prefix = word.bytes();
        if star {
            prefix.pop();
        }
        return Ok(keys_with_prefix(prefix));
    };
    let values = elements(word, schema)?;
    if !star {
        return Ok(keys_with(&values));
    }
    keys_with_text(&values).map_err(|_| Failure::new("a star continues text, and this column is not of type text"))
}

/// The values that the items of `word` are, as the key's columns have them.
fn elements(word: &Word, schema: &Schema) -> Result<Vec<Element<'static>>> {
    if word.items.len() > schema.key.len() {
        let (found, most) = (word.items.len(), schema.key.len());
        return Err(Failure::new(format!(
            "a key of this table has {most} columns, {}; here are {found}",
            schema.key_names()
        )));
    }
    (word.items.iter().zip(schema.key_columns()))
        .map(|(item, column)| element(item, column.column_type, &column.name))
        .collect()
}

fn element(item: &Item, column_type: ColumnType, name: &str) -> Result<Element<'static>> {
    if !item.quoted && item.bytes == b"null" {
        return Ok(Element::Null);
    }
    if !item.quoted && !item.star && item.bytes.is_empty() {
        return Err(Failure::new(format!("column {name}: there is nothing; write null, or \"\" for an empty text")));
    }
    let text = std::str::from_utf8(&item.bytes).map_err(|_| Failure::new(format!("column {name}: not UTF-8")))?;
    match column_type.parse_text(text) {
        Ok(element) => Ok(element.into_owned()),
        Err(reason) => Err(Failure::new(format!("column {name}: {reason}"))),
    }
}

/// A key as [`parse`] reads it.
pub(crate) fn show(key: &[u8], schema: Option<&Schema>) -> String {
    let elements = schema.and_then(|_| tuple::decode(key).ok());
    let Some(elements) = elements else { return words::item(key) };
    let item = |element: &Element<'_>| match element {
        Element::Null => "null".to_owned(),
        other => words::item(element_text(other).as_bytes()),
    };
    elements.iter().map(item).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
