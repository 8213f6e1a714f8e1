//! Ranges of keys, said in values of their first columns.

use std::fmt;
use std::ops::Bound;

use quipu::{Bounds, Error, ErrorKind, Result};

use crate::encoding::key::KeyColumn;
use crate::value::Value;
use crate::value::data_type::DataType;

/// The columns of a key, with names for messages.
#[derive(Clone, Debug)]
pub(crate) struct KeyShape {
    /// Whose key it is: `table flights`, `index flights.airport`.
    pub(crate) owner: String,
    pub(crate) columns: Vec<KeyColumn>,
    pub(crate) names: Vec<String>,
}

impl KeyShape {
    /// Appends the key of values that may be of a type beside the column's: in the midst of a range, an integer may be
    /// one that the column could not hold.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there are more values than columns, or one is of another type.
    pub(crate) fn encode(&self, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
        if values.len() > self.columns.len() {
            return Err(self.too_many(values.len()));
        }
        for (place, value) in values.iter().enumerate() {
            let column = self.columns[place];
            match (column.data_type.int_range(), value) {
                (Some(_), Value::Int(_)) | (_, Value::Null) => column.encode(value, key),
                _ => {
                    let accepted = column.data_type.accept(value.borrowed());
                    column.encode(&accepted.map_err(|what| self.mismatch(place, what))?, key);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn too_many(&self, given: usize) -> Error {
        let (columns, names) = (self.columns.len(), self.names.join(", "));
        Error::new(
            ErrorKind::Invalid,
            format!("{given} values for the key of {}, which has {columns} columns: {names}", self.owner),
        )
    }

    #[cold]
    fn mismatch(&self, place: usize, what: String) -> Error {
        Error::new(ErrorKind::Invalid, format!("{}, column {}: {what}", self.owner, self.names[place]))
    }
}

/// A range of the keys of a table or an index, said in values of its first columns.
///
/// The words are those of the key's order: in a descending column greater values come first, so what `gt` leaves out
/// are the greater ones. Values of fewer columns than the key has stand for all keys that begin with them.
///
/// ```
/// use quipu_rows::Span;
///
/// let all = Span::all();
/// let july = Span::eq((2013, 7)); // all keys that begin with 2013, 7
/// let late = Span::gt((2013, 7)); // all after those
/// let week = Span::ge((2013, 7, 1)).and_lt((2013, 7, 8));
/// let names_in_j = Span::starts_with("J"); // text that begins with J, in the first column
/// ```
#[derive(Clone, Debug)]
pub struct Span<'v> {
    start: Edge<'v>,
    end: Edge<'v>,
}

/// One end of a range.
#[derive(Clone, Debug)]
enum Edge<'v> {
    Open,
    /// Before all keys that begin with the values.
    Before(Vec<Value<'v>>),
    /// After all of them.
    After(Vec<Value<'v>>),
    /// At the keys whose last value begins with the text that stands last.
    Text(Vec<Value<'v>>),
    /// At an encoded key, which another range has told.
    Key(Bound<Vec<u8>>),
}

/// A range of encoded keys that owns its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) start: Bound<Vec<u8>>,
    pub(crate) end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range between two bounds, which another range has told.
    pub fn new(start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> KeyRange {
        KeyRange { start, end }
    }

    /// The range as the engine takes it.
    pub fn bounds(&self) -> Bounds<'_> {
        Bounds::new(self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }

    /// All keys that begin with these bytes, which end where an element does.
    pub(crate) fn beginning_with(key: Vec<u8>) -> KeyRange {
        let end = after(key.clone());
        KeyRange { start: Bound::Included(key), end: Bound::Excluded(end) }
    }
}

/// What comes after all keys that begin with `key`: no element begins with this byte.
pub(crate) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0xff);
    key
}

impl<'v> Span<'v> {
    /// All keys.
    pub fn all() -> Span<'v> {
        Span { start: Edge::Open, end: Edge::Open }
    }

    /// The keys that begin with these values.
    pub fn eq(values: impl IntoValues<'v>) -> Span<'v> {
        let values = values.into_values();
        Span { start: Edge::Before(values.clone()), end: Edge::After(values) }
    }

    /// The keys that begin with these values, and those after them.
    pub fn ge(values: impl IntoValues<'v>) -> Span<'v> {
        Span { start: Edge::Before(values.into_values()), end: Edge::Open }
    }

    /// The keys after all that begin with these values.
    pub fn gt(values: impl IntoValues<'v>) -> Span<'v> {
        Span { start: Edge::After(values.into_values()), end: Edge::Open }
    }

    /// The keys that begin with these values, and those before them.
    pub fn le(values: impl IntoValues<'v>) -> Span<'v> {
        Span::all().and_le(values)
    }

    /// The keys before all that begin with these values.
    pub fn lt(values: impl IntoValues<'v>) -> Span<'v> {
        Span::all().and_lt(values)
    }

    /// The keys that begin with these values, the last of them text that may go on: `("US", "New")` covers `("US", "New
    /// York")`. In a column that sorts without case and accents, these make no difference here either.
    pub fn starts_with(values: impl IntoValues<'v>) -> Span<'v> {
        let values = values.into_values();
        Span { start: Edge::Text(values.clone()), end: Edge::Text(values) }
    }

    /// The same range, up to the keys that begin with these values.
    pub fn and_le(self, values: impl IntoValues<'v>) -> Span<'v> {
        Span { end: Edge::After(values.into_values()), ..self }
    }

    /// The same range, up to before the keys that begin with these values.
    pub fn and_lt(self, values: impl IntoValues<'v>) -> Span<'v> {
        Span { end: Edge::Before(values.into_values()), ..self }
    }

    /// The range of encoded keys.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there are more values than columns, one is of another type than its column,
    /// or something else than text is to be continued.
    pub(crate) fn encode(&self, shape: &KeyShape) -> Result<KeyRange> {
        let key = |values: &[Value<'_>]| {
            let mut key = Vec::new();
            shape.encode(values, &mut key).map(|()| key)
        };
        let start = match &self.start {
            Edge::Open => Bound::Unbounded,
            Edge::Before(values) => Bound::Included(key(values)?),
            Edge::After(values) => Bound::Included(after(key(values)?)),
            Edge::Text(values) => Bound::Included(text_range(shape, values)?.0),
            Edge::Key(bound) => bound.clone(),
        };
        let end = match &self.end {
            Edge::Open => Bound::Unbounded,
            Edge::Before(values) => Bound::Excluded(key(values)?),
            Edge::After(values) => Bound::Excluded(after(key(values)?)),
            Edge::Text(values) => Bound::Excluded(text_range(shape, values)?.1),
            Edge::Key(bound) => bound.clone(),
        };
        Ok(KeyRange { start, end })
    }
}

/// The first key whose last value begins with the text that stands last, and what comes after all of them.
fn text_range(shape: &KeyShape, values: &[Value<'_>]) -> Result<(Vec<u8>, Vec<u8>)> {
    let Some((Value::Text(text), before)) = values.split_last() else {
        return Err(Error::new(ErrorKind::Invalid, "only text can be continued, and the last value is none"));
    };
    let mut key = Vec::new();
    shape.encode(before, &mut key)?;
    let column = *shape.columns.get(before.len()).ok_or_else(|| shape.too_many(values.len()))?;
    if !matches!(column.data_type, DataType::Text(_)) {
        return Err(shape.mismatch(before.len(), format!("only text can be continued, and it is {}", column.data_type)));
    }
    let element = |text: &str| {
        let mut element = Vec::new();
        column.encode(&Value::from(text), &mut element);
        element
    };
    if column.data_type.is_collated() {
        // No character sorts after U+FFFF: it is made for this in the root collation.
        let (first, last) = (element(text), element(&format!("{text}\u{ffff}")));
        let (first, last) = if column.is_descending { (after(last), after(first)) } else { (first, last) };
        return Ok(([&key[..], &first].concat(), [&key[..], &last].concat()));
    }
    // Without its end, the encoding of a text is what the encodings of all its continuations begin with.
    let mut beginning = element(text);
    beginning.truncate(beginning.len() - if column.is_descending { 2 } else { 1 });
    key.extend_from_slice(&beginning);
    let mut end = key.clone();
    // A tag is below ff, so some byte can be raised.
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    Ok((key, end))
}

/// As `eq`, `from`, `after` and so on are written in the plans that `explain` shows.
impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[Value<'_>]| {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            format!("({})", values.join(", "))
        };
        match (&self.start, &self.end) {
            (Edge::Open, Edge::Open) => f.write_str("all"),
            (Edge::Before(start), Edge::After(end)) if start == end => write!(f, "= {}", list(start)),
            (Edge::Text(values), _) => write!(f, "starts with {}", list(values)),
            (start, end) => {
                let mut parts = Vec::new();
                match start {
                    Edge::Before(values) => parts.push(format!(">= {}", list(values))),
                    Edge::After(values) => parts.push(format!("> {}", list(values))),
                    Edge::Key(bound) => parts.push(format!("from key {bound:02x?}")),
                    Edge::Open | Edge::Text(_) => {}
                }
                match end {
                    Edge::Before(values) => parts.push(format!("< {}", list(values))),
                    Edge::After(values) => parts.push(format!("<= {}", list(values))),
                    Edge::Key(bound) => parts.push(format!("to key {bound:02x?}")),
                    Edge::Open | Edge::Text(_) => {}
                }
                f.write_str(&parts.join(" and "))
            }
        }
    }
}

/// All keys.
impl From<std::ops::RangeFull> for Span<'_> {
    fn from(_: std::ops::RangeFull) -> Self {
        Span::all()
    }
}

/// A part of a range, as [`Ordered::split`](crate::Ordered::split) makes them.
impl From<&KeyRange> for Span<'_> {
    fn from(range: &KeyRange) -> Self {
        Span { start: Edge::Key(range.start.clone()), end: Edge::Key(range.end.clone()) }
    }
}

impl<'v> From<&'v Span<'_>> for Span<'v> {
    fn from(span: &'v Span<'_>) -> Span<'v> {
        let edge = |edge: &'v Edge<'_>| match edge {
            Edge::Open => Edge::Open,
            Edge::Before(values) => Edge::Before(values.into_values()),
            Edge::After(values) => Edge::After(values.into_values()),
            Edge::Text(values) => Edge::Text(values.into_values()),
            Edge::Key(bound) => Edge::Key(bound.clone()),
        };
        Span { start: edge(&span.start), end: edge(&span.end) }
    }
}

/// What can be said in place of a list of values: a list, one value, or a tuple of them.
pub trait IntoValues<'v> {
    /// The list.
    fn into_values(self) -> Vec<Value<'v>>;
}

impl<'v> IntoValues<'v> for Vec<Value<'v>> {
    fn into_values(self) -> Vec<Value<'v>> {
        self
    }
}

impl<'v> IntoValues<'v> for &'v [Value<'_>] {
    fn into_values(self) -> Vec<Value<'v>> {
        self.iter().map(Value::borrowed).collect()
    }
}

impl<'v> IntoValues<'v> for &'v Vec<Value<'_>> {
    fn into_values(self) -> Vec<Value<'v>> {
        self.as_slice().into_values()
    }
}

impl<'v, const N: usize> IntoValues<'v> for [Value<'v>; N] {
    fn into_values(self) -> Vec<Value<'v>> {
        self.into()
    }
}

macro_rules! one_value {
    ($($type:ty),*) => {$(
        impl<'v> IntoValues<'v> for $type {
            fn into_values(self) -> Vec<Value<'v>> {
                vec![self.into()]
            }
        }
    )*};
}

one_value!(Value<'v>, bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, &'v str, String, &'v String, &'v [u8]);
one_value!(Vec<u8>, crate::Decimal, crate::Date, crate::Timestamp, uuid::Uuid);

macro_rules! tuple_of_values {
    ($($name:ident),*) => {
        impl<'v, $($name: Into<Value<'v>>),*> IntoValues<'v> for ($($name,)*) {
            #[allow(non_snake_case, reason = "a type parameter names its value")]
            fn into_values(self) -> Vec<Value<'v>> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

tuple_of_values!(A);
tuple_of_values!(A, B);
tuple_of_values!(A, B, C);
tuple_of_values!(A, B, C, D);
tuple_of_values!(A, B, C, D, E);
tuple_of_values!(A, B, C, D, E, F);
tuple_of_values!(A, B, C, D, E, F, G);
tuple_of_values!(A, B, C, D, E, F, G, H);

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::value::collation;
    use crate::value::sample::{TYPES, random_text, random_value};

    fn shape(types: &[(DataType, bool)]) -> KeyShape {
        KeyShape {
            owner: "table t".to_owned(),
            columns: types.iter().map(|&(data_type, is_descending)| KeyColumn { data_type, is_descending }).collect(),
            names: (0..types.len()).map(|place| format!("c{place}")).collect(),
        }
    }

    #[test]
    fn spans_hold_the_keys_that_their_values_say() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        for _ in 0..300 {
            let types: Vec<(DataType, bool)> =
                (0..3).map(|_| (TYPES[random.random_range(0..TYPES.len())], random.random())).collect();
            let shape = shape(&types);
            let columns: Vec<Vec<Value<'_>>> =
                types.iter().map(|(data_type, _)| (0..3).map(|_| random_value(*data_type, random)).collect()).collect();
            let mut draw = |len: usize| -> Vec<Value<'static>> {
                columns[..len].iter().map(|column| column[random.random_range(0..3)].clone()).collect()
            };
            let order = |a: &[Value<'_>], b: &[Value<'_>]| {
                let one = |((a, b), (data_type, is_descending)): ((&Value<'_>, &Value<'_>), &(DataType, bool))| {
                    let order = match (a, b) {
                        (Value::Text(a), Value::Text(b)) if data_type.is_collated() => collation::compare(a, b),
                        _ => a.cmp(b),
                    };
                    if *is_descending { order.reverse() } else { order }
                };
                a.iter().zip(b).zip(&types).map(one).fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            };
            for len in 1..=3 {
                let (low, high, row) = (draw(len), draw(len), draw(3));
                let mut key = Vec::new();
                shape.encode(&row, &mut key).unwrap();
                let (to_low, to_high) = (order(&row, &low), order(&row, &high));
                for (span, expected) in [
                    (Span::eq(&low), to_low.is_eq()),
                    (Span::ge(&low), to_low.is_ge()),
                    (Span::gt(&low), to_low.is_gt()),
                    (Span::le(&low), to_low.is_le()),
                    (Span::lt(&low), to_low.is_lt()),
                    (Span::gt(&low).and_le(&high), to_low.is_gt() && to_high.is_le()),
                    (Span::ge(&low).and_lt(&high), to_low.is_ge() && to_high.is_lt()),
                    (Span::all(), true),
                ] {
                    let range = span.encode(&shape).unwrap();
                    assert_eq!((range.start, range.end).contains(&key), expected, "{row:?} in {span}, {types:?}");
                }
            }
        }
    }

    #[test]
    fn texts_are_continued_in_both_orders() {
        let random = &mut StdRng::seed_from_u64(5);
        for data_type in [DataType::TEXT, DataType::Text(crate::Collation::Unicode)] {
            for is_descending in [false, true] {
                let shape = shape(&[(DataType::I8, false), (data_type, is_descending), (DataType::I8, true)]);
                for round in 0..4_000 {
                    let beginning = random_text(random);
                    let text =
                        if round % 2 == 0 { beginning.clone() + &random_text(random) } else { random_text(random) };
                    let mut key = Vec::new();
                    shape.encode(&[Value::Int(7), Value::from(&text), Value::Int(1)], &mut key).unwrap();
                    let range = Span::starts_with((7, &beginning)).encode(&shape).unwrap();
                    let expected = match data_type.is_collated() {
                        false => text.starts_with(&beginning),
                        true => {
                            let last = format!("{beginning}\u{ffff}");
                            collation::compare(&text, &beginning).is_ge() && collation::compare(&text, &last).is_lt()
                        }
                    };
                    assert_eq!((range.start, range.end).contains(&key), expected, "{text:?} after {beginning:?}");
                }
            }
        }
    }

    #[test]
    fn values_of_other_types_are_refused_and_integers_beyond_the_column_are_not() {
        let shape = shape(&[(DataType::I8, false), (DataType::Date, false)]);
        let error = |span: Span<'_>| span.encode(&shape).unwrap_err().to_string();
        assert_eq!(error(Span::eq("x")), "table t, column c0: \"x\" is text, expected i8");
        assert_eq!(error(Span::eq((1, 2))), "table t, column c1: 2 is an integer, expected date");
        assert_eq!(error(Span::eq((1, "x", 3))), "3 values for the key of table t, which has 2 columns: c0, c1");
        assert!(error(Span::starts_with(1)).contains("only text can be continued"));
        let mut key = Vec::new();
        shape.encode(&[Value::Int(127), Value::Null], &mut key).unwrap();
        let range = Span::lt(1000).encode(&shape).unwrap();
        assert!((range.start, range.end).contains(&key));
    }
}
