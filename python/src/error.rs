//! Errors of the engine as Python's exceptions, which `quipu/_errors.py` defines; and [`detached`], which releases the
//! GIL while the engine works and turns its errors into these.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use quipu::{Error, ErrorKind};
use quipu_rows::{Constraint, Violation};

/// What Python knows a kind of error as.
pub(crate) fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Exists => "exists",
        ErrorKind::Missing => "missing",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Invalid => "invalid",
        ErrorKind::ReadOnly => "read_only",
        ErrorKind::Busy => "busy",
        ErrorKind::Full => "full",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Version => "version",
        ErrorKind::Poisoned => "poisoned",
        ErrorKind::Io => "io",
        _ => "other",
    }
}

fn constraint_name(constraint: Constraint) -> &'static str {
    match constraint {
        Constraint::Type => "type",
        Constraint::NotNull => "not_null",
        Constraint::PrimaryKey => "primary_key",
        Constraint::Unique => "unique",
        Constraint::Check => "check",
        Constraint::ForeignKey => "foreign_key",
        Constraint::Identity | Constraint::NumbersUsedUp => "identity",
        Constraint::Generated => "generated",
        _ => "other",
    }
}

/// An exception that the module of errors makes.
pub(crate) fn make<'py, A>(py: Python<'py>, maker: &PyOnceLock<Py<PyAny>>, name: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    match maker.import(py, "quipu._errors", name).and_then(|make| make.call1(arguments)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception of an error of the engine or of its rows; that which it comes from, if it comes from one.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let source = std::error::Error::source(error);
    if let Some(raised) = source.and_then(|source| source.downcast_ref::<PyErr>()) {
        return raised.clone_ref(py);
    }
    static OF_ENGINE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let violation = Violation::of(error);
    let broken = violation.map(|violation| {
        let Violation { constraint, table, name, column, .. } = violation;
        (constraint_name(*constraint), table.as_str(), name.as_deref(), column.as_deref())
    });
    make(py, &OF_ENGINE, "of_engine", (kind_name(error.kind()), error.to_string(), broken))
}

/// The exception of a Python object that is no value of a column's type.
pub(crate) fn wrong_type(py: Python<'_>, table: &str, column: &str, what: &str) -> PyErr {
    static WRONG_TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    make(py, &WRONG_TYPE, "wrong_type", (table, column, what))
}

/// Runs `work` while other threads of Python run.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> quipu::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| raised(py, &error))
}

/// An error of an argument.
pub(crate) fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what.into())
}
