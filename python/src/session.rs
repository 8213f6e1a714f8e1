//! Sessions of SQL, each in a thread of its own, since a session does not go from thread to thread.
//!
//! Invariants:
//! 1. A thread of Python that has asked waits for the answer, also when a signal has come: it cancels the statement,
//!    again until that has ended. So nothing of an interrupted statement goes on.
//! 2. A statement that writes waits for the transaction of the single writer in [`Turns`], where it can be cancelled.
//! 3. The rows of a query are read in parts, whose number grows while they are small.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use quipu::io::Process;
use quipu::{Error, ErrorKind};
use quipu_sql::functions::Environment;
use quipu_sql::types::text;
use quipu_sql::{
    BaseType, Canceller, CopyFormat, Datum, Portal, Prepared, Progress, ResultColumn, Session, Sink, SqlDatabase,
    SqlError, SqlState, SqlType, Status,
};

use crate::error::{invalid, kind_name, make, raised};
use crate::parameter::Parameter;
use crate::signals::{STEP, answer_of};
use crate::source::{Opened, locked, writes_itself};
use crate::turns::Turns;

/// The name of the user, and of the database.
const USER: &str = "default";
const DATABASE: &str = "quipu";
/// The tree of the catalogue of SQL, which a database has once SQL was used in it.
const CATALOGUE: &str = "rows.sql";
/// Sessions that wait for the next statement.
const IDLE_MAX: usize = 4;
/// Statements of which a session knows that they store no bytes as texts.
const LOOKED_AT_MAX: usize = 16;
/// Rows of the first part of a result, and of the largest.
const ROWS_FIRST: u64 = 64;
const ROWS_MAX: u64 = 1024;
/// Bytes of a part from which on the next one has fewer rows.
const PART_BYTES: usize = 1 << 20;

/// Why a statement has failed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// SQL refuses it.
    Sql(SqlError),
    /// The package does: the database is closed, or a signal has come.
    Engine(Error),
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        Refusal::Sql(error)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Engine(error)
    }
}

/// The exception of a statement that has failed; `text` is what was run.
pub(crate) fn refused(py: Python<'_>, refusal: &Refusal, text: &str) -> PyErr {
    static OF_SQL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let error = match refusal {
        Refusal::Engine(error) => return raised(py, error),
        Refusal::Sql(error) => error.parts(),
    };
    let about = (&error.table, &error.column, &error.constraint);
    let more = (&error.detail, &error.hint, &error.context, error.position);
    let kind = error.kind.map(kind_name);
    make(py, &OF_SQL, "of_sql", (error.state.code(), kind, &error.message, text, more, about))
}

pub(crate) type Answered<T> = Result<T, Refusal>;

/// Rows of a result, and where the others are.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) rows: Vec<Vec<Datum>>,
    /// The number of what has the rows that follow.
    pub(crate) rest: Option<Rest>,
    /// What was done, once it is: `INSERT 0 1`.
    pub(crate) tag: String,
    pub(crate) notices: Vec<String>,
}

/// What has the rows that follow.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    number: u64,
    rows: u64,
}

/// The beginning of a result.
#[derive(Default)]
pub(crate) struct Answer {
    /// The columns; none of a statement without rows.
    pub(crate) columns: Option<Vec<ResultColumn>>,
    pub(crate) part: Part,
    /// Whether the session is in a transaction that BEGIN has begun.
    pub(crate) is_open: bool,
}

/// What is asked of the thread of a session.
enum Request {
    Run { text: String, parameters: Vec<Parameter>, is_writing: bool, answer: Sender<Answered<Answer>> },
    More { rest: Rest, answer: Sender<Answered<Part>> },
    Forget { rest: Rest },
    Renew { answer: Sender<Answered<()>> },
}

/// The thread of a session.
pub(crate) struct Talk {
    process: Process,
    sender: Mutex<Option<Sender<Request>>>,
    canceller: Canceller,
    thread: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
}

fn closed() -> Error {
    invalid("the session is closed")
}

impl Talk {
    fn begin(opened: &Opened, database: SqlDatabase) -> Answered<Arc<Talk>> {
        let (sender, requests) = mpsc::channel();
        let (told, begun) = mpsc::channel();
        let (alive, done) = mpsc::channel();
        let (turns, is_read_only) = (Arc::clone(&opened.turns), opened.is_read_only);
        let work = move || {
            let _alive: Sender<()> = alive;
            let mut session = database.session(USER, DATABASE);
            drop(database);
            let mut set = session.set_at_start("TimeZone", "UTC");
            if is_read_only {
                set = set.and_then(|()| session.set_at_start("default_transaction_read_only", "on"));
            }
            let canceller = session.canceller();
            // The caller waits for it.
            let _ = told.send(set.map(|()| canceller.clone()));
            let mut served =
                Served { session, canceller, turns, looked_at: Vec::new(), portals: HashMap::new(), next_number: 0 };
            for request in requests {
                served.serve(request);
            }
        };
        let builder = thread::Builder::new().name("quipu-sql".to_owned()).stack_size(quipu_sql::STACK_BYTES);
        let thread = builder.spawn(work);
        let thread = thread.map_err(|error| Error::caused_by(ErrorKind::Io, "cannot start a thread", error))?;
        let canceller = begun.recv().map_err(|_| closed())??;
        Ok(Arc::new(Talk {
            process: opened.process,
            sender: Mutex::new(Some(sender)),
            canceller,
            thread: Mutex::new(Some((thread, done))),
        }))
    }

    fn send(&self, request: Request) -> Answered<()> {
        self.process.check()?;
        let sender = locked(&self.sender).clone().ok_or_else(closed)?;
        sender.send(request).map_err(|_| closed().into())
    }

    /// Asks and waits for the answer; a signal cancels what runs.
    fn ask<T>(&self, request: impl FnOnce(Sender<Answered<T>>) -> Request) -> Answered<T> {
        let (answer, answers) = mpsc::channel();
        self.send(request(answer))?;
        answer_of(&answers, || self.canceller.cancel())?.ok_or_else(closed)?
    }

    /// Runs the statements of a text; a single one may have parameters. Returns the first rows of the last one.
    pub(crate) fn run(&self, text: &str, parameters: Vec<Parameter>, is_writing: bool) -> Answered<Answer> {
        let text = text.to_owned();
        self.ask(|answer| Request::Run { text, parameters, is_writing, answer })
    }

    /// Rows that follow.
    pub(crate) fn more(&self, rest: Rest) -> Answered<Part> {
        self.ask(|answer| Request::More { rest, answer })
    }

    /// Forgets rows that follow.
    pub(crate) fn forget(&self, rest: Rest) {
        // One that is closed has forgotten them.
        let _ = self.send(Request::Forget { rest });
    }

    /// Cancels what it runs, ends its transaction, and waits for the end of its thread.
    pub(crate) fn close(&self) {
        if !self.process.is_current() {
            return;
        }
        drop(locked(&self.sender).take());
        let Some((thread, done)) = locked(&self.thread).take() else { return };
        while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(STEP) {
            self.canceller.cancel();
        }
        // It has told its failure to those that asked.
        let _ = thread.join();
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.close();
        } else {
            // The thread stayed in the other process: there is nothing to wait for.
            std::mem::forget(self.thread.get_mut().map(Option::take));
        }
    }
}

/// The sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    database: Mutex<Option<SqlDatabase>>,
    /// Those that wait for the next statement.
    idle: Mutex<Vec<Arc<Talk>>>,
    all: Mutex<Vec<Weak<Talk>>>,
}

impl Sessions {
    /// A session of its own.
    pub(crate) fn begin(&self, opened: &Opened) -> Answered<Arc<Talk>> {
        let talk = Talk::begin(opened, self.database(opened)?)?;
        let mut all = locked(&self.all);
        all.retain(|talk| talk.strong_count() > 0);
        all.push(Arc::downgrade(&talk));
        Ok(talk)
    }

    /// What the sessions share. The first one of a new database writes its catalogue, once no transaction of the
    /// single writer is under way.
    fn database(&self, opened: &Opened) -> Answered<SqlDatabase> {
        if let Some(database) = &*locked(&self.database) {
            return Ok(database.clone());
        }
        let mut pass = None;
        if !opened.is_read_only && opened.database()?.db().open_table(CATALOGUE)?.is_none() {
            if opened.is_writing() {
                let what = "the first statement of SQL in a database writes its catalogue, and this thread is the \
                            single writer: run a statement, such as SELECT 1, before that transaction or after it";
                return Err(invalid(what).into());
            }
            pass = Some(opened.turns.enter(false)?);
        }
        // It may have been closed meanwhile.
        let rows = opened.database()?;
        let mut known = locked(&self.database);
        let database = match &*known {
            Some(database) => database.clone(),
            None => known.insert(SqlDatabase::open(rows.db())?).clone(),
        };
        drop(pass);
        Ok(database)
    }

    /// A session for a statement; [`Sessions::give_back`] takes it back.
    pub(crate) fn lend(&self, opened: &Opened) -> Answered<Arc<Talk>> {
        opened.database()?;
        let idle = locked(&self.idle).pop();
        idle.map_or_else(|| self.begin(opened), Ok)
    }

    pub(crate) fn give_back(&self, talk: Arc<Talk>) {
        let (answer, answers) = mpsc::channel();
        if talk.send(Request::Renew { answer }).is_err() || !matches!(answers.recv(), Ok(Ok(()))) {
            return;
        }
        let mut idle = locked(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(talk);
        }
    }

    /// Ends all of them.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *locked(&self.all));
        all.iter().filter_map(Weak::upgrade).for_each(|talk| talk.close());
        locked(&self.idle).clear();
        locked(&self.database).take();
    }
}

/// A session within its thread.
struct Served {
    session: Session,
    canceller: Canceller,
    turns: Arc<Turns>,
    /// Statements that store no bytes as texts.
    looked_at: Vec<Arc<Prepared>>,
    /// Queries whose rows are not all read.
    portals: HashMap<u64, Portal>,
    next_number: u64,
}

impl Served {
    fn serve(&mut self, request: Request) {
        // An answer goes nowhere if the database was closed meanwhile.
        match request {
            Request::Run { text, parameters, is_writing, answer } => {
                self.canceller.clear();
                let ran = self.run(&text, &parameters, is_writing);
                if ran.is_err() {
                    self.session.fail();
                }
                let synced = self.session.sync().map_err(Refusal::from);
                let is_open = self.session.status() != Status::Idle;
                let _ = answer.send(ran.and_then(|ran| synced.map(|()| Answer { is_open, ..ran })));
            }
            Request::More { rest, answer } => {
                let _ = answer.send(self.more(rest));
            }
            Request::Forget { rest } => {
                self.portals.remove(&rest.number);
            }
            Request::Renew { answer } => {
                self.portals.clear();
                let _ = answer.send(self.session.renew().map_err(Refusal::from));
            }
        }
    }

    fn run(&mut self, text: &str, parameters: &[Parameter], is_writing: bool) -> Answered<Answer> {
        // A text that may have several statements is read as one that has.
        let is_single = !text.trim_end().trim_end_matches(';').contains(';');
        if is_single || !parameters.is_empty() {
            let types: Vec<Option<SqlType>> = parameters.iter().map(Parameter::sql_type).collect();
            let prepared = self.session.prepare(text, &types)?;
            self.refuse_bytes_as_text(text, &types, &prepared)?;
            return self.execute(&prepared, parameters, is_writing, true);
        }
        let statements = self.session.parse(text)?;
        let is_alone = statements.len() == 1;
        let (mut last, mut notices) = (Answer::default(), Vec::new());
        for statement in statements {
            let prepared = self.session.prepare_parsed(statement, &[])?;
            last = self.execute(&prepared, &[], is_writing, is_alone)?;
            notices.append(&mut last.part.notices);
        }
        last.part.notices = notices;
        Ok(last)
    }

    /// Refuses bytes that would be stored in a column of texts, as `\x636166`, where no cast says so.
    fn refuse_bytes_as_text(
        &mut self,
        text: &str,
        types: &[Option<SqlType>],
        prepared: &Arc<Prepared>,
    ) -> Answered<()> {
        let bytes = Some(SqlType::from(BaseType::Bytea));
        let is_known = self.looked_at.iter().any(|known| Arc::ptr_eq(known, prepared));
        if is_known || prepared.only_reads() || !types.contains(&bytes) {
            return Ok(());
        }
        for place in (0..types.len()).filter(|place| types[*place] == bytes) {
            // No column but one that is declared so takes what is void without a cast; those of texts take integers,
            // and those of bytes do not.
            let Some(mismatch) = self.mismatch(text, types, place, BaseType::Void)? else { continue };
            if self.mismatch(text, types, place, BaseType::Int4)?.is_none() {
                let what = mismatch.message().replace("type void", "type bytea");
                let number = place + 1;
                let hint = format!("Decode the bytes before, or in the statement: convert_from(${number}, 'UTF8').");
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, what).with_hint(hint);
                return Err(error.at(mismatch.parts().position).into());
            }
        }
        if self.looked_at.len() == LOOKED_AT_MAX {
            self.looked_at.remove(0);
        }
        self.looked_at.push(Arc::clone(prepared));
        Ok(())
    }

    /// The error of a column that does not take the parameter at a place, if that is of another type. A transaction
    /// goes on from where it was.
    fn mismatch(
        &mut self,
        text: &str,
        types: &[Option<SqlType>],
        place: usize,
        base: BaseType,
    ) -> Answered<Option<SqlError>> {
        let mut types = types.to_vec();
        types[place] = Some(base.into());
        let is_open = self.session.status() != Status::Idle;
        if is_open {
            self.tell("SAVEPOINT quipu_parameters")?;
        }
        let refused = self.session.prepare(text, &types).err();
        if is_open {
            self.tell("ROLLBACK TO SAVEPOINT quipu_parameters")?;
            self.tell("RELEASE SAVEPOINT quipu_parameters")?;
        }
        Ok(refused.filter(|error| error.state() == SqlState::DATATYPE_MISMATCH))
    }

    /// Runs a statement without parameters and rows.
    fn tell(&mut self, text: &str) -> Answered<()> {
        let prepared = self.session.prepare(text, &[])?;
        let portal = self.session.bind(&prepared, Vec::new())?;
        self.read(portal, None, false).map(drop)
    }

    fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Parameter],
        is_writing: bool,
        is_alone: bool,
    ) -> Answered<Answer> {
        let (wanted, given) = (prepared.parameters.len(), parameters.len());
        if wanted != given {
            let what = format!("the statement has {wanted} parameters, and the call gives {given}");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, what).into());
        }
        let environment = self.session.environment();
        let values = parameters.iter().zip(&prepared.parameters).enumerate();
        let values = values.map(|(place, (parameter, sql_type))| {
            parameter.datum(*sql_type, &*environment).map_err(|error| of_parameter(error, place + 1))
        });
        let values = values.collect::<quipu_sql::Result<Vec<Datum>>>()?;
        let reads = prepared.only_reads();
        if !reads {
            if is_writing {
                return Err(writes_itself().into());
            }
            let canceller = self.canceller.clone();
            let check = || if canceller.is_cancelled() { Err(closed()) } else { Ok(()) };
            drop(self.turns.enter_unless(false, check)?);
        }
        let portal = self.session.bind(prepared, values)?;
        // What another statement may change, or what ends with the statement's own transaction, is read in full.
        let rows = (reads && is_alone).then_some(ROWS_FIRST);
        let part = self.read(portal, rows, is_alone)?;
        Ok(Answer { columns: prepared.columns.clone(), part, is_open: false })
    }

    /// Reads rows of a portal.
    fn read(&mut self, mut portal: Portal, rows_max: Option<u64>, is_alone: bool) -> Answered<Part> {
        let columns = portal.prepared.columns.iter().flatten();
        let mut taken = Taken {
            as_text: columns.map(|column| is_told_as_text(column.sql_type).then_some(column.sql_type)).collect(),
            environment: self.session.environment(),
            part: Part::default(),
            bytes: 0,
        };
        let progress = self.session.execute(&mut portal, rows_max, is_alone, &mut taken)?;
        let Taken { mut part, bytes, .. } = taken;
        match progress {
            Progress::Done(tag) => part.tag = tag,
            Progress::Empty => {}
            Progress::CopyIn(copy) => {
                let error = SqlError::unsupported(
                    "COPY FROM STDIN is not supported here",
                    "Load an Arrow table with Table.load, or write INSERT.",
                );
                let _ = self.session.copy_fail(copy, error.message());
                return Err(error.into());
            }
            Progress::Suspended => {
                let rows = rows_max.unwrap_or(ROWS_MAX);
                let rows = if bytes > PART_BYTES { rows / 2 } else { rows * 2 };
                let rest = Rest { number: self.next_number, rows: rows.clamp(1, ROWS_MAX) };
                self.next_number += 1;
                self.portals.insert(rest.number, portal);
                part.rest = Some(rest);
            }
        }
        Ok(part)
    }

    fn more(&mut self, rest: Rest) -> Answered<Part> {
        let portal = self.portals.remove(&rest.number).ok_or_else(closed)?;
        self.read(portal, Some(rest.rows), true)
    }
}

/// The failure of a parameter, which says which.
fn of_parameter(error: SqlError, number: usize) -> SqlError {
    error.in_context(format!("parameter ${number}"))
}

/// Whether Python has a value of this type as PostgreSQL writes it.
fn is_told_as_text(sql_type: SqlType) -> bool {
    use BaseType::{Char, Oid, SingleChar, Void};
    let is_object = sql_type.base.is_oid() && sql_type.base != Oid;
    !sql_type.is_array && (is_object || matches!(sql_type.base, Char | SingleChar | Void))
}

/// Takes the rows of a statement.
struct Taken {
    /// For each column its type, if it is told as text.
    as_text: Vec<Option<SqlType>>,
    environment: Arc<dyn Environment>,
    part: Part,
    bytes: usize,
}

impl Sink for Taken {
    fn row(&mut self, values: &[Datum]) -> quipu_sql::Result<()> {
        let mut row = Vec::with_capacity(values.len());
        for (value, as_text) in values.iter().zip(&self.as_text) {
            self.bytes += match value {
                Datum::Text(text) | Datum::Json(text) => text.len(),
                Datum::Bytes(bytes) => bytes.len(),
                Datum::Array(array) => array.elements.len() * 16,
                _ => 16,
            };
            row.push(match as_text {
                Some(sql_type) if !value.is_null() => {
                    Datum::text(text::to_string(value, *sql_type, &*self.environment)?)
                }
                _ => value.clone(),
            });
        }
        self.part.rows.push(row);
        Ok(())
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> quipu_sql::Result<()> {
        let what = "COPY TO STDOUT is not supported here";
        Err(SqlError::unsupported(what, "Write SELECT, and take its result with arrow() or rows()."))
    }

    fn copy_data(&mut self, _data: &[u8]) -> quipu_sql::Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: &SqlError) {
        self.part.notices.push(notice.to_string());
    }

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}
