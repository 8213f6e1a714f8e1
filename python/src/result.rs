//! Results of SQL: rows as tuples, some at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use quipu::Error;
use quipu::io::Process;
use quipu_sql::{Datum, SqlError, SqlState, SqlType};

use crate::datum::tuple;
use crate::error::{detached, invalid};
use crate::parameter::Parameter;
use crate::result_arrow;
use crate::rows::check_signals_after;
use crate::session::{Answer, Answered, Part, Refusal, Rest, Talk, refused};
use crate::signals::check_signals;
use crate::source::{Opened, locked};

/// A session that was lent for one result, until it is dropped.
struct Lease {
    opened: Arc<Opened>,
    talk: Option<Arc<Talk>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.take()
            && self.opened.process.is_current()
        {
            self.opened.sessions.give_back(talk);
        }
    }
}

/// Where rows that follow are read.
enum From {
    Lent(Lease),
    Session(Arc<Talk>),
}

impl From {
    fn talk(&self) -> Answered<&Talk> {
        match self {
            From::Lent(lease) => lease.talk.as_deref().ok_or_else(|| invalid("the result is closed").into()),
            From::Session(talk) => Ok(talk),
        }
    }
}

/// The rows of a result that were not taken yet.
pub(crate) struct Rows {
    buffered: VecDeque<Vec<Datum>>,
    /// What has those that follow.
    rest: Option<(Rest, From)>,
    /// How many were read.
    seen: u64,
    /// How many there are; none while that is not known.
    count: Option<u64>,
}

impl Rows {
    /// Keeps the rows of a part.
    fn take(&mut self, part: Part, from: From) {
        self.seen += part.rows.len() as u64;
        self.buffered.extend(part.rows);
        match part.rest {
            Some(rest) => self.rest = Some((rest, from)),
            // The session is given back. A query that was read in parts tells the rows of the last one.
            None if part.tag.starts_with("SELECT ") => self.count = Some(self.seen),
            None => self.count = part.tag.rsplit(' ').next().and_then(|count| count.parse().ok()),
        }
    }

    /// Reads the rows of the next part. Returns whether there was one.
    fn read(&mut self) -> Answered<bool> {
        let Some((rest, from)) = self.rest.take() else { return Ok(false) };
        let part = from.talk()?.more(rest)?;
        self.take(part, from);
        Ok(true)
    }

    /// The next rows: so many, or a part.
    pub(crate) fn next(&mut self, rows: Option<usize>) -> Answered<Vec<Vec<Datum>>> {
        let enough = rows.unwrap_or(1);
        while self.buffered.len() < enough && self.read()? {
            if self.buffered.len() < enough {
                check_signals()?;
            }
        }
        let taken = rows.unwrap_or(usize::MAX).min(self.buffered.len());
        Ok(self.buffered.drain(..taken).collect())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some((rest, From::Session(talk))) = &self.rest {
            talk.forget(*rest);
        }
    }
}

fn parameters_of(parameters: &[Bound<'_, PyAny>]) -> PyResult<Vec<Parameter>> {
    parameters.iter().map(Parameter::of).collect()
}

fn taken_already() -> Error {
    invalid("the rows of the result were handed over as an Arrow stream, or it is closed")
}

/// The result of a statement.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct SqlResult {
    process: Process,
    text: String,
    names: Vec<String>,
    types: Vec<SqlType>,
    has_rows: bool,
    #[pyo3(get)]
    notices: Vec<String>,
    /// None once they are another's.
    rows: Mutex<Option<Rows>>,
    tag: String,
}

impl SqlResult {
    fn new(process: Process, text: &str, answer: Answer, from: From) -> SqlResult {
        let Answer { columns, mut part, .. } = answer;
        let has_rows = columns.is_some();
        let columns = columns.unwrap_or_default();
        let (notices, tag) = (std::mem::take(&mut part.notices), part.tag.clone());
        let mut rows = Rows { buffered: VecDeque::new(), rest: None, seen: 0, count: None };
        rows.take(part, from);
        SqlResult {
            process,
            text: text.to_owned(),
            types: columns.iter().map(|column| column.sql_type).collect(),
            names: columns.into_iter().map(|column| column.name).collect(),
            has_rows,
            notices,
            rows: Mutex::new(Some(rows)),
            tag,
        }
    }

    /// Runs a text in a session that is lent for it.
    pub(crate) fn of_statement(
        py: Python<'_>,
        opened: &Arc<Opened>,
        text: &str,
        parameters: &[Bound<'_, PyAny>],
    ) -> PyResult<SqlResult> {
        let parameters = parameters_of(parameters)?;
        let ran = py.detach(|| {
            let talk = opened.sessions.lend(opened)?;
            let is_writing = opened.is_writing();
            let lease = Lease { opened: Arc::clone(opened), talk: Some(Arc::clone(&talk)) };
            let answer = talk.run(text, parameters, is_writing)?;
            if answer.is_open {
                let what = "a transaction of several calls needs a session of its own; this one was rolled back";
                let error = SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what);
                return Err(error.with_hint("Write with db.sql_session() as session: session.sql(...).").into());
            }
            Ok(SqlResult::new(opened.process, text, answer, From::Lent(lease)))
        });
        ran.map_err(|error: Refusal| refused(py, &error, text))
    }

    fn taken<T: Send>(&self, py: Python<'_>, take: impl FnOnce(&mut Rows) -> Answered<T> + Send) -> PyResult<T> {
        let taken = py.detach(|| {
            self.process.check()?;
            match &mut *locked(&self.rows) {
                Some(rows) => take(rows),
                None => Err(taken_already().into()),
            }
        });
        taken.map_err(|error| refused(py, &error, &self.text))
    }
}

#[pymethods]
impl SqlResult {
    /// The names and types of the columns; none of a statement without rows.
    fn columns(&self) -> Option<Vec<(String, String)>> {
        let types = self.types.iter().map(ToString::to_string);
        self.has_rows.then(|| self.names.iter().cloned().zip(types).collect())
    }

    /// Rows that were read or changed; none while that is not known.
    fn count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.taken(py, |rows| Ok(rows.count))
    }

    /// What was done, of a statement that is: `INSERT 0 1`.
    fn tag(&self) -> &str {
        &self.tag
    }

    /// The next row. One that is in memory needs no wait, so the GIL is kept.
    fn next_row<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let buffered = match self.rows.try_lock() {
            Ok(mut rows) if self.process.is_current() => rows.as_mut().and_then(|rows| rows.buffered.pop_front()),
            _ => None,
        };
        let row = match buffered {
            Some(row) => Some(row),
            None => self.taken(py, |left| left.next(Some(1)))?.pop(),
        };
        row.map(|row| tuple(py, &row, &self.types)).transpose()
    }

    /// The next rows: so many, or those that come together.
    fn fetch<'py>(&self, py: Python<'py>, rows: Option<usize>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let taken = self.taken(py, |left| left.next(rows))?;
        let rows = taken.iter().enumerate().map(|(number, row)| {
            check_signals_after(py, number)?;
            tuple(py, row, &self.types)
        });
        rows.collect()
    }

    /// The next rows, which are fetched again, and whether others follow.
    fn peek<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<(Vec<Bound<'py, PyTuple>>, bool)> {
        let (peeked, has_more) = self.taken(py, |left| {
            let peeked: Vec<Vec<Datum>> = left.buffered.iter().take(rows).cloned().collect();
            Ok((peeked, left.buffered.len() > rows || left.rest.is_some()))
        })?;
        Ok((peeked.iter().map(|row| tuple(py, row, &self.types)).collect::<PyResult<_>>()?, has_more))
    }

    /// The rows as a capsule of Arrow's C stream, which has them from then on.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = detached(py, || {
            self.process.check()?;
            locked(&self.rows).take().ok_or_else(taken_already)
        })?;
        result_arrow::capsule(py, rows, &self.names, &self.types, &self.text)
    }

    /// Forgets the rows that were not taken.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if self.process.is_current() {
                drop(locked(&self.rows).take());
            }
        });
    }
}

/// A session of SQL.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct SqlSession {
    opened: Arc<Opened>,
    talk: Arc<Talk>,
    /// Whether BEGIN was told and neither COMMIT nor ROLLBACK.
    is_open: Mutex<bool>,
}

impl SqlSession {
    pub(crate) fn begin(py: Python<'_>, opened: &Arc<Opened>, begin: &str) -> PyResult<SqlSession> {
        let begun = py.detach(|| {
            let talk = opened.sessions.begin(opened)?;
            let answer = talk.run(begin, Vec::new(), false)?;
            Ok(SqlSession { opened: Arc::clone(opened), talk, is_open: Mutex::new(answer.is_open) })
        });
        begun.map_err(|error: Refusal| refused(py, &error, begin))
    }
}

#[pymethods]
impl SqlSession {
    /// Runs the statements of a text.
    fn sql(&self, py: Python<'_>, text: &str, parameters: Vec<Bound<'_, PyAny>>) -> PyResult<SqlResult> {
        let parameters = parameters_of(&parameters)?;
        let ran = py.detach(|| {
            self.opened.process.check()?;
            let answer = self.talk.run(text, parameters, self.opened.is_writing())?;
            *locked(&self.is_open) = answer.is_open;
            Ok(SqlResult::new(self.opened.process, text, answer, From::Session(Arc::clone(&self.talk))))
        });
        ran.map_err(|error: Refusal| refused(py, &error, text))
    }

    /// Whether it is in a transaction.
    fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.opened.process.is_current() && *locked(&self.is_open))
    }

    /// Ends it, with its transaction.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.talk.close());
    }
}
