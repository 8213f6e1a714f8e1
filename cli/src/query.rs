//! Questions to rows in an order, and to strings: the same for the shell, for `export` and for `stats`.

use quipu::cost::Footprint;
use quipu::histogram::{Histogram, Resolution};
use quipu::{Bounds, Entry, Measures, ReadableTable};
use quipu_rows::{Column, DataType, IndexSchema, KeyRange, Ordered, Row, Span, TableSchema, Value};
use rand::rngs::ThreadRng;
use serde_json::Value as Json;

use crate::failure::{Failure, Result};
use crate::grid::{bytes, counted, thousands};
use crate::interrupts;
use crate::key::{self, KeyNotation, StringRange};
use crate::shell_words::{self, Word, escape};

/// Records of a table at an offset of a range, and the total of the range.
pub(crate) struct Records<R> {
    pub(crate) records: Vec<R>,
    pub(crate) offset: u64,
    pub(crate) total: u64,
}

/// A figure over a range: its name, as text, and as JSON.
pub(crate) type Figure = (String, String, String);

/// Rows in an order, or strings.
pub(crate) trait Queryable {
    /// A range of keys.
    type Range;
    /// A row, or a key with its value.
    type Record;

    /// The range that words say.
    fn range(&self, words: &[Word]) -> Result<Self::Range>;
    /// The names of the columns, and whether they are numbers.
    fn header(&self) -> Vec<(String, bool)>;
    /// The values of a record.
    fn values<'r>(&self, record: &'r Self::Record) -> Result<Vec<Value<'r>>>;
    /// The values of a record as text; none of a missing one.
    fn texts(&self, record: &Self::Record) -> Result<Vec<Option<String>>>;
    /// The same on one line, for people, a missing one as nothing.
    fn shown(&self, record: &Self::Record) -> Result<Vec<String>>;
    /// The record as a JSON object.
    fn json(&self, record: &Self::Record) -> Result<String>;
    /// The key of a record as people write it.
    fn key_text(&self, record: &Self::Record) -> Result<String>;
    /// The hidden column that numbers rows.
    fn number_column(&self) -> Option<&str> {
        None
    }
    /// The number of a row in that column.
    fn number(&self, _record: &Self::Record) -> Result<String> {
        Ok(String::new())
    }

    fn get(&self, key: &Word) -> Result<Option<Self::Record>>;
    /// How many come before all that begin with a key, and whether there are such.
    fn rank(&self, key: &Word) -> Result<(u64, bool)>;
    fn count(&self, range: &Self::Range) -> Result<u64>;
    fn nth(&self, range: &Self::Range, offset: u64) -> Result<Option<Self::Record>>;
    fn last(&self, range: &Self::Range) -> Result<Option<Self::Record>>;
    fn page(&self, range: &Self::Range, offset: u64, limit: usize) -> Result<Records<Self::Record>>;
    /// The first records of a range, or the last ones, last first.
    fn read(&self, range: &Self::Range, is_reverse: bool, limit: usize) -> Result<Vec<Self::Record>>;
    /// Shows each record of a range to `visit`.
    fn for_each(&self, range: &Self::Range, visit: &mut dyn FnMut(&Self::Record) -> Result<()>) -> Result<()>;
    fn quantile(&self, range: &Self::Range, q: f64) -> Result<Option<Self::Record>>;
    fn sample(&self, range: &Self::Range, rows: usize, random: &mut ThreadRng) -> Result<Vec<Self::Record>>;
    /// What is added up over a range.
    fn figures(&self, range: &Self::Range) -> Result<Vec<Figure>>;
    fn footprint(&self, range: &Self::Range) -> Result<Footprint>;
    fn histogram(&self, range: &Self::Range, resolution: Resolution) -> Result<Histogram>;
    /// The range that a bucket of a histogram has.
    fn range_of(&self, bounds: &Bounds<'_>) -> Self::Range;

    /// The keys before which a range is cut into `parts` of equal counts.
    fn cuts(&self, range: &Self::Range, parts: u64) -> Result<Vec<String>> {
        let total = self.count(range)?;
        let parts = parts.clamp(1, total.max(1));
        (1..parts)
            .map(|part| {
                interrupts::check()?;
                let offset = (u128::from(total) * u128::from(part) / u128::from(parts)) as u64;
                let record = self.nth(range, offset)?;
                record.as_ref().map_or_else(|| Err(Failure::new("rows are gone meanwhile")), |row| self.key_text(row))
            })
            .collect()
    }
}

/// The rows of a table, or of an index.
pub(crate) struct Rows<'a, O: ?Sized> {
    pub(crate) of: &'a O,
    pub(crate) key: KeyNotation,
    /// The names and types of the columns that rows show.
    columns: Vec<(String, DataType)>,
    /// The column whose sums are kept.
    sum: Option<String>,
    /// The index, if it is one.
    pub(crate) index: Option<String>,
    /// The column that numbers rows where they have no key of their own.
    number_column: Option<String>,
}

impl<'a, O: Ordered> Rows<'a, O> {
    pub(crate) fn of_table(of: &'a O, schema: &TableSchema) -> Rows<'a, O> {
        Rows::new(of, schema, schema.sum.clone(), None)
    }

    pub(crate) fn of_index(of: &'a O, schema: &TableSchema, index: &IndexSchema) -> Rows<'a, O> {
        Rows::new(of, schema, index.sum.clone(), Some(index.name.clone()))
    }

    fn new(of: &'a O, schema: &TableSchema, sum: Option<String>, index: Option<String>) -> Rows<'a, O> {
        let key = KeyNotation { columns: of.key_columns() };
        let is_number = |column: &&Column| column.hidden && schema.key == [column.name.as_str()];
        let number_column = schema.columns.iter().find(is_number).map(|column| column.name.clone());
        Rows { of, key, columns: shown_columns(schema), sum, index, number_column }
    }

    /// The columns of groups by the first columns of the key, and the count.
    pub(crate) fn group_header(&self, columns: usize) -> Vec<(String, bool)> {
        let key = self.key.columns.iter().take(columns);
        let count = ("rows".to_owned(), true);
        key.map(|(name, data_type)| (name.clone(), is_number(*data_type))).chain([count]).collect()
    }

    /// The same rows, asked through something else.
    pub(crate) fn through<'b, P>(&self, of: &'b P) -> Rows<'b, P> {
        let (columns, sum, index) = (self.columns.clone(), self.sum.clone(), self.index.clone());
        let (key, number_column) = (KeyNotation { columns: self.key.columns.clone() }, self.number_column.clone());
        Rows { of, key, columns, sum, index, number_column }
    }
}

/// The columns of a table that are not hidden.
pub(crate) fn shown_columns(schema: &TableSchema) -> Vec<(String, DataType)> {
    let shown = schema.columns.iter().filter(|column| !column.hidden);
    shown.map(|column| (column.name.clone(), column.data_type)).collect()
}

/// Whether values of this type are numbers, which stand at the right.
pub(crate) fn is_number(data_type: DataType) -> bool {
    use DataType::*;
    matches!(data_type, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F32 | F64 | Decimal { .. })
}

/// A JSON object of members whose values are JSON already.
pub(crate) fn object<'m>(members: impl Iterator<Item = (&'m str, impl std::fmt::Display)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("{}:{value}", Json::from(name))).collect();
    format!("{{{}}}", members.join(","))
}

impl<O: Ordered> Queryable for Rows<'_, O> {
    type Range = Span<'static>;
    type Record = Row;

    fn range(&self, words: &[Word]) -> Result<Span<'static>> {
        self.key.span(words)
    }

    fn header(&self) -> Vec<(String, bool)> {
        self.columns.iter().map(|(name, data_type)| (name.clone(), is_number(*data_type))).collect()
    }

    fn values<'r>(&self, record: &'r Row) -> Result<Vec<Value<'r>>> {
        Ok(record.values()?)
    }

    fn texts(&self, record: &Row) -> Result<Vec<Option<String>>> {
        let values = record.values()?;
        let text = |(value, (_, kind)): (&Value<'_>, &(String, DataType))| match value {
            Value::Null => None,
            value => Some(kind.to_text(value).into_owned()),
        };
        Ok(values.iter().zip(&self.columns).map(text).collect())
    }

    fn shown(&self, record: &Row) -> Result<Vec<String>> {
        let texts = self.texts(record)?.into_iter().zip(&self.columns);
        let shown = |(text, (_, kind)): (Option<String>, &(String, DataType))| {
            let shown = escape(text.unwrap_or_default().as_bytes());
            // A backslash of JSON is an escape already.
            if *kind == DataType::Json { shown.replace("\\\\", "\\") } else { shown }
        };
        Ok(texts.map(shown).collect())
    }

    fn json(&self, record: &Row) -> Result<String> {
        let values = record.values()?;
        let member = |(value, (name, data_type)): (&Value<'_>, &'_ (String, DataType))| {
            let mut json = String::new();
            data_type.write_json(value, &mut json);
            (name.clone(), json)
        };
        let members: Vec<(String, String)> = values.iter().zip(&self.columns).map(member).collect();
        Ok(object(members.iter().map(|(name, json)| (name.as_str(), json.clone()))))
    }

    fn key_text(&self, record: &Row) -> Result<String> {
        Ok(self.key.show(&self.of.key_values(record)?))
    }

    fn number_column(&self) -> Option<&str> {
        self.number_column.as_deref()
    }

    fn number(&self, record: &Row) -> Result<String> {
        let number = self.number_column.as_ref().map(|name| record.get(name)).transpose()?;
        Ok(number.map_or_else(String::new, |number| quipu_rows::text_of(&number).into_owned()))
    }

    fn get(&self, key: &Word) -> Result<Option<Row>> {
        let values = if self.index.is_some() { self.key.values(key)? } else { self.key.whole_key(key)? };
        Ok(self.of.nth(Span::eq(values), 0)?)
    }

    fn rank(&self, key: &Word) -> Result<(u64, bool)> {
        let values = self.key.values(key)?;
        Ok((self.of.rank(values.as_slice())?, self.of.count(Span::eq(values.as_slice()))? > 0))
    }

    fn count(&self, range: &Span<'static>) -> Result<u64> {
        Ok(self.of.count(range)?)
    }

    fn nth(&self, range: &Span<'static>, offset: u64) -> Result<Option<Row>> {
        Ok(self.of.nth(range, offset)?)
    }

    fn last(&self, range: &Span<'static>) -> Result<Option<Row>> {
        Ok(self.of.last(range)?)
    }

    fn page(&self, range: &Span<'static>, offset: u64, limit: usize) -> Result<Records<Row>> {
        let page = self.of.page(range, offset, limit)?;
        Ok(Records { records: page.rows, offset: page.offset, total: page.total })
    }

    fn read(&self, range: &Span<'static>, is_reverse: bool, limit: usize) -> Result<Vec<Row>> {
        let rows = self.of.rows(range)?;
        if is_reverse { unless_stopped(rows.rev().take(limit)) } else { unless_stopped(rows.take(limit)) }
    }

    fn for_each(&self, range: &Span<'static>, visit: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        for row in self.of.rows(range)? {
            visit(&row?)?;
        }
        Ok(())
    }

    fn quantile(&self, range: &Span<'static>, q: f64) -> Result<Option<Row>> {
        Ok(self.of.quantile(range, q)?)
    }

    fn sample(&self, range: &Span<'static>, rows: usize, random: &mut ThreadRng) -> Result<Vec<Row>> {
        Ok(self.of.sample(range, rows, random)?)
    }

    fn figures(&self, range: &Span<'static>) -> Result<Vec<Figure>> {
        let Some(name) = &self.sum else {
            let rows = self.of.count(range)?;
            return Ok(vec![rows_figure(rows)]);
        };
        let (rows, sum) = self.of.tally(range)?;
        let text = match &sum {
            Value::Int(sum) => thousands(*sum),
            other => quipu_rows::text_of(other).into_owned(),
        };
        let json = quipu_rows::text_of(&sum).into_owned();
        Ok(vec![rows_figure(rows), ("sum".to_owned(), format!("{name} {text}"), json)])
    }

    fn footprint(&self, range: &Span<'static>) -> Result<Footprint> {
        Ok(self.of.footprint(range)?)
    }

    fn histogram(&self, range: &Span<'static>, resolution: Resolution) -> Result<Histogram> {
        Ok(self.of.histogram(range, resolution)?)
    }

    fn range_of(&self, bounds: &Bounds<'_>) -> Span<'static> {
        let (start, end) = owned(bounds);
        Span::from(&KeyRange::new(start, end))
    }
}

/// All records, unless Ctrl-C comes first.
fn unless_stopped<R>(records: impl Iterator<Item = quipu::Result<R>>) -> Result<Vec<R>> {
    records.map(|record| interrupts::check().and_then(|()| Ok(record?))).collect()
}

fn rows_figure(rows: u64) -> Figure {
    ("rows".to_owned(), rows_text(rows), rows.to_string())
}

/// So many rows, in words.
pub(crate) fn rows_text(count: u64) -> String {
    counted(count, "row")
}

fn owned(bounds: &Bounds<'_>) -> StringRange {
    use std::ops::RangeBounds;
    (bounds.start_bound().map(|key| key.to_vec()), bounds.end_bound().map(|key| key.to_vec()))
}

/// Keys and values that are strings.
pub(crate) struct Strings<'a, R: ?Sized> {
    pub(crate) of: &'a R,
    pub(crate) measures: Measures,
}

fn bounds((start, end): &StringRange) -> Bounds<'_> {
    Bounds::new(start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))
}

impl<R: ReadableTable> Queryable for Strings<'_, R> {
    type Range = StringRange;
    type Record = Entry;

    fn range(&self, words: &[Word]) -> Result<StringRange> {
        key::string_range(words)
    }

    fn header(&self) -> Vec<(String, bool)> {
        vec![("key".to_owned(), false), ("value".to_owned(), false)]
    }

    fn values<'r>(&self, record: &'r Entry) -> Result<Vec<Value<'r>>> {
        Ok(vec![Value::from(&record.key[..]), Value::from(&record.value[..])])
    }

    fn texts(&self, record: &Entry) -> Result<Vec<Option<String>>> {
        Ok(self.shown(record)?.into_iter().map(Some).collect())
    }

    fn shown(&self, record: &Entry) -> Result<Vec<String>> {
        Ok(vec![escape(&record.key), escape(&record.value)])
    }

    /// `key` and `value`, or `key_hex` and `value_hex` where they are not UTF-8.
    fn json(&self, record: &Entry) -> Result<String> {
        let member = |name: &'static str, hex_name: &'static str, bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => (name, Json::from(text).to_string()),
            Err(_) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                (hex_name, Json::from(digits).to_string())
            }
        };
        let members = [member("key", "key_hex", &record.key), member("value", "value_hex", &record.value)];
        Ok(object(members.into_iter()))
    }

    fn key_text(&self, record: &Entry) -> Result<String> {
        Ok(shell_words::item(&record.key))
    }

    fn get(&self, key: &Word) -> Result<Option<Entry>> {
        let key = key.bytes();
        // One row as an entry: the first of the range of this key alone.
        Ok(self.of.nth(&key[..]..=&key[..], 0)?)
    }

    fn rank(&self, key: &Word) -> Result<(u64, bool)> {
        let key = key.bytes();
        Ok((self.of.rank(&key)?, self.of.contains(&key)?))
    }

    fn count(&self, range: &StringRange) -> Result<u64> {
        Ok(self.of.count(bounds(range))?)
    }

    fn nth(&self, range: &StringRange, offset: u64) -> Result<Option<Entry>> {
        Ok(self.of.nth(bounds(range), offset)?)
    }

    fn last(&self, range: &StringRange) -> Result<Option<Entry>> {
        Ok(self.of.range(bounds(range)).next_back().transpose()?)
    }

    fn page(&self, range: &StringRange, offset: u64, limit: usize) -> Result<Records<Entry>> {
        let page = self.of.page(bounds(range), offset, limit)?;
        Ok(Records { records: page.entries, offset: page.offset, total: page.total })
    }

    fn read(&self, range: &StringRange, is_reverse: bool, limit: usize) -> Result<Vec<Entry>> {
        let rows = self.of.range(bounds(range));
        if is_reverse { unless_stopped(rows.rev().take(limit)) } else { unless_stopped(rows.take(limit)) }
    }

    fn for_each(&self, range: &StringRange, visit: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
        for entry in self.of.range(bounds(range)) {
            visit(&entry?)?;
        }
        Ok(())
    }

    fn quantile(&self, range: &StringRange, q: f64) -> Result<Option<Entry>> {
        Ok(self.of.quantile(bounds(range), q)?)
    }

    fn sample(&self, range: &StringRange, rows: usize, random: &mut ThreadRng) -> Result<Vec<Entry>> {
        Ok(self.of.sample(bounds(range), rows, random)?)
    }

    fn figures(&self, range: &StringRange) -> Result<Vec<Figure>> {
        let tally = self.of.tally(bounds(range))?;
        let mut figures = vec![rows_figure(tally.rows.unsigned_abs())];
        if self.measures.bytes {
            figures.push(("bytes".to_owned(), bytes(tally.bytes.unsigned_abs()), tally.bytes.to_string()));
        }
        if self.measures.hash {
            let hash = format!("{:016x}", tally.hash);
            figures.push(("hash".to_owned(), format!("hash {hash}"), Json::from(hash).to_string()));
        }
        if self.measures.sum.is_some() {
            figures.push(("sum".to_owned(), format!("sum {}", thousands(tally.sum)), tally.sum.to_string()));
        }
        Ok(figures)
    }

    fn footprint(&self, range: &StringRange) -> Result<Footprint> {
        Ok(self.of.footprint(bounds(range))?)
    }

    fn histogram(&self, range: &StringRange, resolution: Resolution) -> Result<Histogram> {
        Ok(self.of.histogram(bounds(range), resolution)?)
    }

    fn range_of(&self, bounds: &Bounds<'_>) -> StringRange {
        owned(bounds)
    }
}
