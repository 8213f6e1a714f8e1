//! Ranges of keys, said in values of their first columns.

use std::fmt;
use std::ops::Bound;

use quipu::{Error, ErrorKind, Result};

use crate::encoding::key_range::{KeyRange, SaidEnd, SaidRange};
use crate::encoding::key_shape::KeyShape;
use crate::encoding::values::IntoValues;
use crate::value::Value;
use crate::value::data_type::DataType;

/// A range of the keys of a table or an index, said in values of its first columns.
///
/// The words are those of the key's order: in a descending column greater values come first, so what `gt` leaves out
/// are the greater ones. Values of fewer columns than the key has stand for all keys that begin with them.
///
/// **NULL** sorts as if it were less than all values: first in an ascending column, last in a descending one. But a
/// range that has a value at one end only, in the first column in which its ends differ, leaves out the keys that have
/// NULL there, as comparisons in SQL do: `lt(10)` is 1 and 9 and not NULL. An end that names NULL keeps them, and so
/// does [`Span::with_nulls`]. A range without a value in the column, such as `all`, has all keys. (In a further column,
/// of the keys that equal an end so far, NULL is what it is in the order: a range has no holes.)
///
/// ```
/// use quipu_rows::{Span, Value};
///
/// let all = Span::all();
/// let july = Span::eq((2013, 7)); // all keys that begin with 2013, 7
/// let late = Span::gt((2013, 7)); // all after those
/// let week = Span::ge((2013, 7, 1)).and_lt((2013, 7, 8));
/// let names_in_j = Span::starts_with("J"); // text that begins with J, in the first column
/// let early = Span::eq("JFK").and_lt(("JFK", 5)); // a second column below 5, and not NULL
/// let early_or_not_known = Span::lt(5).with_nulls();
/// let known = Span::gt(Value::Null); // all but NULL, in an ascending column
/// ```
#[derive(Clone, Debug)]
pub struct Span<'v> {
    start: Edge<'v>,
    end: Edge<'v>,
    /// Further ranges: a key lies in all of them.
    others: Vec<(Edge<'v>, Edge<'v>)>,
    nulls: Nulls,
}

/// Which keys with NULL, in the first column in which its ends differ, are in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nulls {
    /// Those that an end names; all of them if there is no value in the column.
    AsSaid,
    /// Those that an end names.
    Out,
    /// All that lie between the ends.
    In,
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

impl<'v> Span<'v> {
    fn between(start: Edge<'v>, end: Edge<'v>) -> Span<'v> {
        Span { start, end, others: Vec::new(), nulls: Nulls::AsSaid }
    }

    /// All keys.
    pub fn all() -> Span<'v> {
        Span::between(Edge::Open, Edge::Open)
    }

    /// The keys that begin with these values.
    pub fn eq(values: impl IntoValues<'v>) -> Span<'v> {
        let values = values.into_values();
        Span::between(Edge::Before(values.clone()), Edge::After(values))
    }

    /// The keys that begin with these values, and those after them.
    pub fn ge(values: impl IntoValues<'v>) -> Span<'v> {
        Span::between(Edge::Before(values.into_values()), Edge::Open)
    }

    /// The keys after all that begin with these values.
    pub fn gt(values: impl IntoValues<'v>) -> Span<'v> {
        Span::between(Edge::After(values.into_values()), Edge::Open)
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
        Span::between(Edge::Text(values.clone()), Edge::Text(values))
    }

    /// The same range, up to the keys that begin with these values.
    pub fn and_le(self, values: impl IntoValues<'v>) -> Span<'v> {
        self.and(Span::between(Edge::Open, Edge::After(values.into_values())))
    }

    /// The same range, up to before the keys that begin with these values.
    pub fn and_lt(self, values: impl IntoValues<'v>) -> Span<'v> {
        self.and(Span::between(Edge::Open, Edge::Before(values.into_values())))
    }

    /// What lies in both ranges. NULLs are left out where the ends of both together say so, and kept if one of the
    /// ranges is asked [with NULLs](Span::with_nulls).
    pub fn and(mut self, other: Span<'v>) -> Span<'v> {
        self.nulls = self.nulls.max(other.nulls);
        let (mut start, mut end) = (other.start, other.end);
        if matches!(self.start, Edge::Open) {
            self.start = std::mem::replace(&mut start, Edge::Open);
        }
        if matches!(self.end, Edge::Open) {
            self.end = std::mem::replace(&mut end, Edge::Open);
        }
        if !matches!((&start, &end), (Edge::Open, Edge::Open)) {
            self.others.push((start, end));
        }
        self.others.extend(other.others);
        self
    }

    /// The same range, with the keys that have NULL where it has no end.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, IndexSchema, Ordered, Span, TableSchema, Value};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
    /// let towns = TableSchema::new("towns")
    ///     .column(Column::new("name", DataType::TEXT))
    ///     .column(Column::new("people", DataType::I64))
    ///     .key(["name"])
    ///     .index(IndexSchema::new("people", ["people"]));
    /// let towns = database.create_table(&towns)?;
    /// towns.insert(("Cusco", 428_450))?;
    /// towns.insert(("Puno", 128_637))?;
    /// towns.insert(("Paititi", Value::Null))?;
    /// let now = database.snapshot();
    /// let people = now.table("towns")?.index("people")?;
    /// assert_eq!(people.count(Span::lt(200_000))?, 1);
    /// assert_eq!(people.count(Span::lt(200_000).with_nulls())?, 2);
    /// assert_eq!(people.quantile(.., 0.0)?.unwrap().get("name")?, Value::from("Puno"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_nulls(self) -> Span<'v> {
        Span { nulls: Nulls::In, ..self }
    }

    /// The same range, without the keys that have NULL in the first column in which its ends differ, also if they have
    /// no value there; but with those that an end names. [`Ordered::quantile`](crate::Ordered::quantile) asks so. A
    /// range that is asked [with NULLs](Span::with_nulls) keeps them.
    pub fn without_nulls(self) -> Span<'v> {
        Span { nulls: self.nulls.max(Nulls::Out), ..self }
    }

    /// The range of encoded keys.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there are more values than columns, one is of another type than its column,
    /// or something else than text is to be continued.
    pub(crate) fn encode(&self, shape: &KeyShape) -> Result<KeyRange> {
        let mut said = SaidRange::default();
        let mut told = KeyRange::all();
        // Of what another range has told, no end was said in values.
        let mut is_said = false;
        for (start, end) in std::iter::once((&self.start, &self.end)).chain(self.others.iter().map(|(a, b)| (a, b))) {
            is_said |= !matches!((start, end), (Edge::Key(_), Edge::Key(_)));
            let own = SaidRange { start: start.encode(shape, false)?, end: end.encode(shape, true)? };
            said = said.and(own);
            if let Edge::Key(bound) = start {
                told = told.intersection(KeyRange::new(bound.clone(), Bound::Unbounded));
            }
            if let Edge::Key(bound) = end {
                told = told.intersection(KeyRange::new(Bound::Unbounded, bound.clone()));
            }
        }
        if is_said && self.nulls != Nulls::In {
            said = said.without_nulls(shape, self.nulls == Nulls::Out);
        }
        Ok(said.into_keys().intersection(told))
    }
}

impl Edge<'_> {
    /// The edge as values say it; none if they do not.
    fn encode(&self, shape: &KeyShape, is_end: bool) -> Result<Option<SaidEnd>> {
        Ok(match self {
            Edge::Open | Edge::Key(_) => None,
            Edge::Before(values) | Edge::After(values) => {
                let mut key = Vec::new();
                shape.encode(values, &mut key)?;
                Some(SaidEnd { key, is_after: matches!(self, Edge::After(_)) })
            }
            Edge::Text(values) => {
                let (start, end) = text_range(shape, values)?;
                Some(if is_end { end } else { start })
            }
        })
    }
}

/// The first key whose last value begins with the text that stands last, and what comes after all of them.
fn text_range(shape: &KeyShape, values: &[Value<'_>]) -> Result<(SaidEnd, SaidEnd)> {
    let Some((Value::Text(text), before)) = values.split_last() else {
        return Err(Error::new(ErrorKind::Invalid, "only text can be continued, and the last value is not a text"));
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
        let (first, last) = if column.is_descending { (last, first) } else { (first, last) };
        let end = |element: &[u8]| SaidEnd { key: [&key[..], element].concat(), is_after: column.is_descending };
        return Ok((end(&first), end(&last)));
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
    Ok((SaidEnd { key, is_after: false }, SaidEnd { key: end, is_after: false }))
}

/// As `eq`, `from`, `after` and so on are written in the plans that `explain` shows.
impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[Value<'_>]| {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            format!("({})", values.join(", "))
        };
        let mut parts = Vec::new();
        for (start, end) in std::iter::once((&self.start, &self.end)).chain(self.others.iter().map(|(a, b)| (a, b))) {
            match (start, end) {
                (Edge::Open, Edge::Open) => parts.push("all".to_owned()),
                (Edge::Before(start), Edge::After(end)) if start == end => parts.push(format!("= {}", list(start))),
                (Edge::Text(values), Edge::Text(_)) => parts.push(format!("starts with {}", list(values))),
                (start, end) => {
                    match start {
                        Edge::Before(values) => parts.push(format!(">= {}", list(values))),
                        Edge::After(values) => parts.push(format!("> {}", list(values))),
                        Edge::Key(bound) => parts.push(format!("from key {bound:02x?}")),
                        Edge::Text(values) => parts.push(format!("from text {}", list(values))),
                        Edge::Open => {}
                    }
                    match end {
                        Edge::Before(values) => parts.push(format!("< {}", list(values))),
                        Edge::After(values) => parts.push(format!("<= {}", list(values))),
                        Edge::Key(bound) => parts.push(format!("to key {bound:02x?}")),
                        Edge::Text(values) => parts.push(format!("to text {}", list(values))),
                        Edge::Open => {}
                    }
                }
            }
        }
        f.write_str(&parts.join(" and "))?;
        match self.nulls {
            Nulls::AsSaid => Ok(()),
            Nulls::Out => f.write_str(" without NULLs"),
            Nulls::In => f.write_str(" with NULLs"),
        }
    }
}

/// All keys.
impl From<std::ops::RangeFull> for Span<'_> {
    fn from(_: std::ops::RangeFull) -> Self {
        Span::all()
    }
}

/// A part of a range, as [`Ordered::split`](crate::Ordered::split) makes them: all keys in it, NULL or not.
impl From<&KeyRange> for Span<'_> {
    fn from(range: &KeyRange) -> Self {
        Span::between(Edge::Key(range.start.clone()), Edge::Key(range.end.clone()))
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
        let others = span.others.iter().map(|(start, end)| (edge(start), edge(end))).collect();
        Span { start: edge(&span.start), end: edge(&span.end), others, nulls: span.nulls }
    }
}

#[cfg(test)]
#[path = "span_tests.rs"]
mod tests;
