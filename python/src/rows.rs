//! Rows as Python's dicts, and back.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use quipu_rows::{DataType, Row, TableSchema, Value};

use crate::error::{invalid, raised};
use crate::signals::ROWS_BETWEEN_SIGNALS;
use crate::value::{from_python, to_python};

/// The columns of a table: names and types, and which of them are hidden.
pub(crate) struct Columns {
    pub(crate) table: String,
    pub(crate) columns: Vec<(String, DataType, bool)>,
}

impl Columns {
    pub(crate) fn of(schema: &TableSchema) -> Columns {
        let columns = schema.columns.iter();
        Columns {
            table: schema.table.clone(),
            columns: columns.map(|column| (column.name.clone(), column.data_type, column.hidden)).collect(),
        }
    }

    pub(crate) fn data_type(&self, name: &str) -> Option<DataType> {
        self.columns.iter().find(|(known, ..)| known == name).map(|(_, data_type, _)| *data_type)
    }

    /// The error of a name that no column has.
    pub(crate) fn no_column(&self, name: &str) -> quipu::Error {
        let shown = self.columns.iter().filter(|(.., hidden)| !hidden).map(|(name, ..)| name.as_str());
        let names: Vec<&str> = shown.collect();
        invalid(format!("table {} has no column {name:?}; its columns are {}", self.table, names.join(", ")))
    }

    /// The names of columns, and the values of a row: a dict, or a tuple or list of the values of all columns.
    ///
    /// # Errors
    /// Those of [`from_python`]; `InvalidError` if there is no such column or there are too many or too few values.
    pub(crate) fn row(&self, object: &Bound<'_, PyAny>) -> PyResult<GivenRow> {
        let py = object.py();
        let mut row = GivenRow::default();
        if let Ok(dict) = object.cast::<PyDict>() {
            for (name, value) in dict.iter() {
                let Ok(name) = name.cast::<PyString>() else {
                    return Err(PyTypeError::new_err("the keys of a row are the names of its columns, of type str"));
                };
                let name = name.to_string_lossy().into_owned();
                let data_type = self.data_type(&name).ok_or_else(|| raised(py, &self.no_column(&name)))?;
                row.values.push(from_python(&value, data_type, &self.table, &name)?);
                row.names.push(name);
            }
            return Ok(row);
        }
        let values: Vec<Bound<'_, PyAny>> = if let Ok(tuple) = object.cast::<PyTuple>() {
            tuple.iter().collect()
        } else if let Ok(list) = object.cast::<PyList>() {
            list.iter().collect()
        } else {
            let kind = object.get_type().name()?;
            let what = format!("a row is a dict, or a tuple or list of the values of all columns, not {kind}");
            return Err(PyTypeError::new_err(what));
        };
        let shown: Vec<_> = self.columns.iter().filter(|(.., hidden)| !hidden).collect();
        if values.len() != shown.len() {
            let (given, wanted) = (values.len(), shown.len());
            let what = format!("values of a row of table {}: {wanted}, not {given}", self.table);
            return Err(raised(py, &invalid(what)));
        }
        for (value, (name, data_type, _)) in values.iter().zip(shown) {
            row.values.push(from_python(value, *data_type, &self.table, name)?);
            row.names.push(name.clone());
        }
        Ok(row)
    }
}

/// Values for some columns of a row.
#[derive(Default)]
pub(crate) struct GivenRow {
    pub(crate) names: Vec<String>,
    pub(crate) values: Vec<Value<'static>>,
}

impl GivenRow {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// Makes dicts of rows that have the same columns.
struct DictMaker<'py> {
    /// Names, each with the place of its column.
    columns: Vec<(usize, Bound<'py, PyString>)>,
}

impl<'py> DictMaker<'py> {
    /// # Errors
    /// `InvalidError` if there is no such column.
    fn new(py: Python<'py>, schema: &TableSchema, names: Option<&[String]>) -> PyResult<DictMaker<'py>> {
        let place = |name: &String| match schema.place(name) {
            Some(place) => Ok((place, PyString::intern(py, name))),
            None => Err(raised(py, &Columns::of(schema).no_column(name))),
        };
        let columns = match names {
            Some(names) => names.iter().map(place).collect::<PyResult<_>>()?,
            None => {
                let columns = schema.columns.iter().enumerate().filter(|(_, column)| !column.hidden);
                columns.map(|(place, column)| (place, PyString::intern(py, &column.name))).collect()
            }
        };
        Ok(DictMaker { columns })
    }

    fn dict(&self, py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
        let view = row.view().map_err(|error| raised(py, &error))?;
        let dict = PyDict::new(py);
        for (place, name) in &self.columns {
            let value = view.value(*place).map_err(|error| raised(py, &error))?;
            let value = to_python(py, &value).map_err(|error| {
                let table = &row.schema().table;
                raised(py, &invalid(format!("table {table}, column {name}: no object of Python: {error}")))
            })?;
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }
}

/// A row as a dict: of the columns of these names, or of all.
///
/// # Errors
/// `InvalidError` if there is no such column.
pub(crate) fn dict_of<'py>(py: Python<'py>, row: &Row, names: Option<&[String]>) -> PyResult<Bound<'py, PyDict>> {
    DictMaker::new(py, row.schema(), names)?.dict(py, row)
}

/// Rows of one table and one moment as dicts.
///
/// # Errors
/// Those of [`dict_of`].
pub(crate) fn dicts_of<'py>(py: Python<'py>, rows: &[Row], names: Option<&[String]>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let Some(first) = rows.first() else { return Ok(list) };
    let maker = DictMaker::new(py, first.schema(), names)?;
    for (number, row) in rows.iter().enumerate() {
        list.append(maker.dict(py, row)?)?;
        check_signals_after(py, number)?;
    }
    Ok(list)
}

/// Rows of one table and one moment as dicts, and None for a key without a row.
///
/// # Errors
/// Those of [`dict_of`].
pub(crate) fn found_of<'py>(py: Python<'py>, rows: &[Option<Row>]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let first = rows.iter().flatten().next();
    let maker = first.map(|first| DictMaker::new(py, first.schema(), None)).transpose()?;
    for (number, row) in rows.iter().enumerate() {
        match (&maker, row) {
            (Some(maker), Some(row)) => list.append(maker.dict(py, row)?)?,
            _ => list.append(py.None())?,
        }
        check_signals_after(py, number)?;
    }
    Ok(list)
}

/// Looks for signals after the row of this number, if that is one after which work with objects does.
pub(crate) fn check_signals_after(py: Python<'_>, number: usize) -> PyResult<()> {
    if number % ROWS_BETWEEN_SIGNALS == ROWS_BETWEEN_SIGNALS - 1 { py.check_signals() } else { Ok(()) }
}

/// The values of a key: one alone if it has one column, else a tuple.
///
/// # Errors
/// Those of [`to_python`].
pub(crate) fn key_to_python<'py>(py: Python<'py>, values: &[Value<'_>]) -> PyResult<Bound<'py, PyAny>> {
    match values {
        [value] => to_python(py, value),
        values => {
            let values = values.iter().map(|value| to_python(py, value)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, values)?.into_any())
        }
    }
}
