//! A table, or one of its indexes: what can be asked of its rows, and what can be written.
//!
//! Each method is one question: all that it answers is of one moment, also where the table is asked as it is now. The
//! rows of a transaction are those that it sees.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use quipu::Result;
use quipu_rows::{DataType, Ordered, Span, TableSchema, Value};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::error::{detached, invalid, raised};
use crate::many::{Chunk, chunk, delete_range, get_many, page, slice};
use crate::on_conflict::OnConflict;
use crate::range::Range;
use crate::rows::{Columns, GivenRow, check_signals_after, dict_of, dicts_of, found_of, key_to_python};
use crate::source::Source;
use crate::value::{end_from_python, key_from_python, to_python};

/// A table or an index of a source.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct Reader {
    pub(crate) source: Source,
    pub(crate) table: String,
    pub(crate) index: Option<String>,
    /// The columns as they were looked up last.
    columns: Mutex<Option<Arc<Columns>>>,
}

/// Asks a table or an index: `question` is an expression over `rows`, which can be any [`Ordered`]. It must own what it
/// uses.
macro_rules! ask {
    (@at $moment:ident, $name:ident, $index:ident, |$rows:ident, $table:ident| $question:expr) => {{
        let $table = $moment.table(&$name)?;
        match $index {
            None => {
                let $rows = &$table;
                $question
            }
            Some(index) => {
                let $rows = &$table.index(&index)?;
                $question
            }
        }
    }};
    ($reader:expr, |$rows:ident| $question:expr) => {
        ask!($reader, |$rows, _table| $question)
    };
    ($reader:expr, |$rows:ident, $table:ident| $question:expr) => {{
        let (name, index) = ($reader.table.clone(), $reader.index.clone());
        match &$reader.source {
            $crate::source::Source::Running(running) => {
                running.run(move |transaction| ask!(@at transaction, name, index, |$rows, $table| $question))
            }
            source => source
                .snapshot()
                .and_then(move |snapshot| ask!(@at snapshot, name, index, |$rows, $table| $question)),
        }
    }};
}
pub(crate) use ask;

impl Reader {
    pub(crate) fn new(source: Source, table: String, index: Option<String>) -> Reader {
        Reader { source, table, index, columns: Mutex::default() }
    }

    pub(crate) fn schema_now(&self) -> Result<TableSchema> {
        ask!(self, |_rows, table| Ok(table.schema().clone()))
    }

    /// The columns, as they were looked up last, if that is new enough.
    fn columns(&self, py: Python<'_>, is_new_enough: impl Fn(&Columns) -> bool) -> PyResult<Arc<Columns>> {
        {
            let known = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(columns) = known.as_ref().filter(|columns| is_new_enough(columns)) {
                return Ok(Arc::clone(columns));
            }
        }
        let columns = Arc::new(Columns::of(&detached(py, || self.schema_now())?));
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&columns));
        Ok(columns)
    }

    /// The values that a Python object gives for columns of a row.
    fn given(&self, row: &Bound<'_, PyAny>) -> PyResult<GivenRow> {
        let columns = self.columns(row.py(), |known| match row.cast::<PyDict>() {
            Ok(dict) => dict
                .keys()
                .iter()
                .all(|name| name.extract::<String>().is_ok_and(|name| known.data_type(&name).is_some())),
            Err(_) => row.len().is_ok_and(|len| len == known.columns.iter().filter(|(.., hidden)| !hidden).count()),
        })?;
        columns.row(row)
    }

    fn key_columns_now(&self) -> Result<Vec<(String, DataType)>> {
        ask!(self, |rows| Ok(rows.key_columns()))
    }

    fn table_key_columns(&self, py: Python<'_>) -> PyResult<Vec<(String, DataType)>> {
        let table = Reader::new(self.source.clone(), self.table.clone(), None);
        detached(py, || table.key_columns_now())
    }

    fn table_key(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<Value<'static>>> {
        key_from_python(key, &self.table_key_columns(key.py())?, &self.table)
    }
}

/// The range of one end: the words of [`Span`].
fn span_of_end(py: Python<'_>, word: &str, values: Vec<Value<'static>>) -> PyResult<Span<'static>> {
    Ok(match word {
        "eq" => Span::eq(values),
        "ge" => Span::ge(values),
        "gt" => Span::gt(values),
        "le" => Span::le(values),
        "lt" => Span::lt(values),
        "starts_with" => Span::starts_with(values),
        word => return Err(raised(py, &invalid(format!("{word:?} is not an end of a range")))),
    })
}

#[pymethods]
impl Reader {
    #[getter]
    fn table_name(&self) -> &str {
        &self.table
    }

    #[getter]
    fn index_name(&self) -> Option<&str> {
        self.index.as_deref()
    }

    #[getter]
    fn in_transaction(&self) -> bool {
        matches!(self.source, Source::Running(_))
    }

    /// The number of commits before the snapshot that is read; none of what is no snapshot.
    fn sequence(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        detached(py, || match &self.source {
            Source::Moment(moment) => Ok(Some(moment.snapshot()?.engine().sequence())),
            _ => Ok(None),
        })
    }

    /// The same table or index, unchanged by others as long as it is read.
    fn at_one_moment(&self, py: Python<'_>) -> PyResult<Reader> {
        let source = detached(py, || self.source.at_one_moment())?;
        Ok(Reader::new(source, self.table.clone(), self.index.clone()))
    }

    /// An index of the table.
    fn with_index(&self, py: Python<'_>, index: String) -> PyResult<Reader> {
        let reader = Reader::new(self.source.clone(), self.table.clone(), Some(index));
        detached(py, || reader.key_columns_now())?;
        Ok(reader)
    }

    /// Fails unless there are columns of these names.
    fn require_columns(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        let is_known = |columns: &Columns| names.iter().all(|name| columns.data_type(name).is_some());
        let columns = self.columns(py, is_known)?;
        match names.iter().find(|name| columns.data_type(name).is_none()) {
            Some(name) => Err(raised(py, &columns.no_column(name))),
            None => Ok(()),
        }
    }

    /// The schema of the table as JSON.
    fn schema(&self, py: Python<'_>) -> PyResult<String> {
        Ok(detached(py, || self.schema_now())?.to_json())
    }

    fn key_columns(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let columns = detached(py, || self.key_columns_now())?;
        Ok(columns.into_iter().map(|(name, data_type)| (name, data_type.to_string())).collect())
    }

    /// The part of a range in which all of these ends hold, with its NULLs if they are asked for.
    fn range(
        &self,
        py: Python<'_>,
        within: Option<&Range>,
        ends: Vec<(String, Bound<'_, PyAny>)>,
        nulls: bool,
    ) -> PyResult<Range> {
        let within = within.cloned().unwrap_or_else(Range::all);
        if ends.is_empty() && !nulls {
            return Ok(within);
        }
        let mut said = within.said;
        let columns = detached(py, || self.key_columns_now())?;
        for (word, values) in ends {
            let values = end_from_python(&values, &columns, &self.table)?;
            said = said.and(span_of_end(py, &word, values)?);
        }
        if nulls {
            said = said.with_nulls();
        }
        let asked = said.clone();
        let keys = detached(py, || ask!(self, |rows| rows.range_of(&asked)))?;
        Ok(Range { said, keys })
    }

    fn count(&self, py: Python<'_>, range: &Range) -> PyResult<u64> {
        let keys = range.keys.clone();
        detached(py, || ask!(self, |rows| rows.count(&keys)))
    }

    /// How many rows of a range come before all whose key begins with these values.
    fn rank(&self, range: &Range, values: Bound<'_, PyAny>) -> PyResult<u64> {
        let py = values.py();
        let columns = detached(py, || self.key_columns_now())?;
        let values = end_from_python(&values, &columns, &self.table)?;
        let (before, keys) = (Span::lt(values).with_nulls(), range.keys.clone());
        detached(py, || ask!(self, |rows| rows.count(&keys.intersection(rows.range_of(&before)?))))
    }

    /// The row at a place, counted from the end if it is negative.
    #[pyo3(signature = (range, place, columns=None))]
    fn nth<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        place: i64,
        columns: Option<Vec<String>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let keys = range.keys.clone();
        let row = detached(py, || {
            ask!(self, |rows| match u64::try_from(place) {
                Ok(place) => rows.nth(&keys, place),
                Err(_) => rows.nth_back(&keys, place.unsigned_abs() - 1),
            })
        })?;
        row.map(|row| dict_of(py, &row, columns.as_deref())).transpose()
    }

    #[pyo3(signature = (range, start, stop, step, columns=None))]
    fn slice<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyList>> {
        if step == 0 {
            return Err(raised(py, &invalid("slice step cannot be zero")));
        }
        let keys = range.keys.clone();
        let rows = detached(py, || ask!(self, |rows| slice(rows, &keys, (start, stop), step)))?;
        dicts_of(py, &rows, columns.as_deref())
    }

    /// Rows from an offset on, and how many the range has.
    #[pyo3(signature = (range, offset, limit, columns=None))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        offset: u64,
        limit: usize,
        columns: Option<Vec<String>>,
    ) -> PyResult<(Bound<'py, PyList>, u64)> {
        let keys = range.keys.clone();
        let page = detached(py, || ask!(self, |rows| page(rows, &keys, offset, limit)))?;
        Ok((dicts_of(py, &page.rows, columns.as_deref())?, page.total))
    }

    #[pyo3(signature = (range, q, columns=None))]
    fn quantile<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        q: f64,
        columns: Option<Vec<String>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let said = range.said.clone();
        let row = detached(py, || ask!(self, |rows| rows.quantile(&said, q)))?;
        row.map(|row| dict_of(py, &row, columns.as_deref())).transpose()
    }

    fn sum<'py>(&self, py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyAny>> {
        let keys = range.keys.clone();
        let sum = detached(py, || ask!(self, |rows| rows.sum(&keys)))?;
        to_python(py, &sum)
    }

    #[pyo3(signature = (range, rows, seed, columns=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        rows: usize,
        seed: u64,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (keys, count) = (range.keys.clone(), rows);
        let mut random = StdRng::seed_from_u64(seed);
        let rows = detached(py, || ask!(self, |rows| rows.sample(&keys, count, &mut random)))?;
        dicts_of(py, &rows, columns.as_deref())
    }

    /// Parts of equal counts, each with its count.
    fn split(&self, py: Python<'_>, range: &Range, parts: usize) -> PyResult<Vec<(Range, u64)>> {
        if parts == 0 {
            return Err(raised(py, &invalid("a range is split into one part or more")));
        }
        let keys = range.keys.clone();
        let parts = detached(py, || {
            ask!(self, |rows| {
                let parts = rows.split(&keys, parts)?.into_iter();
                parts.map(|part| rows.count(&part).map(|count| (part, count))).collect::<Result<Vec<_>>>()
            })
        })?;
        Ok(parts.into_iter().map(|(keys, count)| (Range::told(keys), count)).collect())
    }

    /// The number of rows, and the sum if one is kept, by the values of the first columns of the key: up to `limit`
    /// groups, and the range of those after them.
    #[allow(clippy::type_complexity, reason = "groups, and where the next ones begin")]
    fn groups<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        columns: usize,
        limit: usize,
    ) -> PyResult<(Vec<(Bound<'py, PyAny>, u64, Option<Bound<'py, PyAny>>)>, Option<Range>)> {
        let keys = range.keys.clone();
        let (groups, rest) = detached(py, || {
            ask!(self, |rows| {
                let groups = rows.groups(&keys, columns)?.take(limit).collect::<Result<Vec<_>>>()?;
                let rest = match groups.last().filter(|_| groups.len() == limit) {
                    None => None,
                    Some(last) => {
                        let after = rows.range_of(Span::gt(&last.values).with_nulls())?;
                        Some(keys.intersection(after))
                    }
                };
                Ok((groups, rest))
            })
        })?;
        let mut shown = Vec::with_capacity(groups.len());
        for group in groups {
            let sum = group.sum.map(|sum| to_python(py, &sum)).transpose()?;
            shown.push((key_to_python(py, &group.values)?, group.rows, sum));
        }
        Ok((shown, rest.map(Range::told)))
    }

    /// Up to `limit` rows of a range from its start, or from its end backwards, and the rest of the range.
    #[pyo3(signature = (range, limit, is_reverse, columns=None))]
    fn chunk<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        limit: u64,
        is_reverse: bool,
        columns: Option<Vec<String>>,
    ) -> PyResult<(Bound<'py, PyList>, Option<Range>)> {
        let keys = range.keys.clone();
        let Chunk { rows, rest } = detached(py, || ask!(self, |rows| chunk(rows, &keys, limit, is_reverse)))?;
        Ok((dicts_of(py, &rows, columns.as_deref())?, rest.map(Range::told)))
    }

    /// The row of a key.
    fn get<'py>(&self, key: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let (py, values) = (key.py(), self.table_key(&key)?);
        let row = detached(py, || ask!(self, |_rows, table| table.get(values)))?;
        row.map(|row| dict_of(py, &row, None)).transpose()
    }

    /// The rows of many keys, in their order.
    fn get_many<'py>(&self, py: Python<'py>, keys: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let columns = self.table_key_columns(py)?;
        let mut values = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            values.push(key_from_python(key, &columns, &self.table)?);
            check_signals_after(py, number)?;
        }
        let rows = detached(py, || ask!(self, |_rows, table| get_many(&table, values)))?;
        found_of(py, &rows)
    }

    fn contains(&self, key: Bound<'_, PyAny>) -> PyResult<bool> {
        let values = self.table_key(&key)?;
        detached(key.py(), || ask!(self, |_rows, table| table.contains(values)))
    }

    /// Adds a row and returns its key.
    fn insert<'py>(&self, row: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, row, table) = (row.py(), self.given(&row)?, self.table.clone());
        let inserted = detached(py, || {
            self.source.write(move |transaction| {
                transaction.table(&table)?.insert_columns(&row.names(), row.values.as_slice())
            })
        })?;
        key_to_python(py, &inserted.key_values().map_err(|error| raised(py, &error))?)
    }

    /// Adds rows, all or none.
    fn insert_all(&self, py: Python<'_>, rows: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
        let rows = rows.iter().map(|row| self.given(row)).collect::<PyResult<Vec<_>>>()?;
        let (count, name) = (rows.len(), self.table.clone());
        detached(py, || {
            self.source.write(move |transaction| {
                let table = transaction.table(&name)?;
                for row in rows {
                    let names: Vec<&str> = row.names.iter().map(String::as_str).collect();
                    table.insert_columns(&names, row.values)?;
                }
                Ok(count)
            })
        })
    }

    /// Adds a row, or changes the given columns of the row of its key. Returns whether there was one.
    fn upsert(&self, row: Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, row, name) = (row.py(), self.given(&row)?, self.table.clone());
        detached(py, || {
            self.source.write(move |transaction| {
                let table = transaction.table(&name)?;
                OnConflict::Update.add(&table, &row.names(), &row.values)
            })
        })
    }

    /// Changes columns of the row of a key. Returns whether there is one.
    fn update(&self, key: Bound<'_, PyAny>, changes: Bound<'_, PyDict>) -> PyResult<bool> {
        let (key_values, row, name) = (self.table_key(&key)?, self.given(changes.as_any())?, self.table.clone());
        detached(key.py(), || {
            self.source.write(move |transaction| {
                let changes: Vec<(&str, Value<'static>)> = row.names().into_iter().zip(row.values.clone()).collect();
                transaction.table(&name)?.update(key_values, &changes)
            })
        })
    }

    /// Removes the row of a key. Returns whether there was one.
    fn delete(&self, key: Bound<'_, PyAny>) -> PyResult<bool> {
        let (values, name) = (self.table_key(&key)?, self.table.clone());
        detached(key.py(), || self.source.write(move |transaction| transaction.table(&name)?.delete(values)))
    }

    /// Removes the rows of a range of the table or the index. Returns how many there were.
    fn delete_range(&self, py: Python<'_>, range: &Range) -> PyResult<u64> {
        let (keys, name, index) = (range.keys.clone(), self.table.clone(), self.index.clone());
        detached(py, || {
            let database = self.source.database()?;
            self.source.write(move |transaction| delete_range(&database, transaction, &name, index.as_deref(), &keys))
        })
    }

    /// The rows of a range as a stream of Arrow: a capsule with the C structure.
    #[pyo3(signature = (range, is_reverse, batch_rows, columns=None))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        range: &Range,
        is_reverse: bool,
        batch_rows: usize,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = self.at_one_moment(py)?;
        crate::arrow_out::capsule(py, reader, range.keys.clone(), is_reverse, batch_rows, columns)
    }

    /// Adds the rows of a stream of Arrow, all or none. Returns how many came.
    fn load(&self, stream: Bound<'_, PyAny>, on_conflict: &str) -> PyResult<u64> {
        let on_conflict = OnConflict::of_word(on_conflict).map_err(|error| raised(stream.py(), &error))?;
        crate::arrow_in::load(self, &stream, on_conflict)
    }
}
