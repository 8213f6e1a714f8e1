//! A database of this process.

use std::sync::Arc;

use quipu_sql::functions::Environment;
use quipu_sql::types::text;
use quipu_sql::{
    CopyFormat, Datum, Progress, ResultColumn, Session, Sink, SqlDatabase, SqlError, SqlState, SqlType, Status,
};

use super::backend::{Answers, Backend, Column, Ended, Report, Transaction};
use crate::failure::{Failure, Result};
use crate::interrupts::Stop;

/// The name of the user, and of the database.
const USER: &str = "default";
const DATABASE: &str = "quipu";

/// A session of this process.
pub(super) struct Local {
    session: Session,
    title: String,
}

impl Local {
    /// Over an open database; `place` is where it lies.
    pub(super) fn open(db: &quipu::Db, place: &str, is_read_only: bool) -> Result<Local> {
        let mut session = SqlDatabase::open(db).map_err(refused)?.session(USER, DATABASE);
        let version = env!("CARGO_PKG_VERSION");
        if let Some(zone) = std::env::var("PGTZ").ok().filter(|zone| !zone.is_empty()) {
            session.set_at_start("TimeZone", &zone).map_err(refused)?;
        }
        if is_read_only {
            session.set_at_start("default_transaction_read_only", "on").map_err(refused)?;
        }
        session.mailbox.open();
        Ok(Local { session, title: format!("Quipu {version}, {place}") })
    }

    fn run_all(&mut self, text: &str, answers: &mut dyn Answers) -> Result<(), Ended> {
        let statements = self.session.parse(text).map_err(ended)?;
        let count = statements.len();
        for (place, statement) in statements.into_iter().enumerate() {
            let is_last = place + 1 == count;
            let prepared = self.session.prepare_parsed(statement, &[]).map_err(ended)?;
            let mut portal = self.session.bind(&prepared, Vec::new()).map_err(ended)?;
            let mut rows = Rows {
                answers: &mut *answers,
                columns: prepared.columns.as_deref(),
                types: prepared.columns.iter().flatten().map(|column| column.sql_type).collect(),
                environment: self.session.environment(),
                text: String::new(),
                broken: None,
            };
            let progress = self.session.execute(&mut portal, None, count == 1, &mut rows);
            let told = if matches!(progress, Ok(Progress::Done(_))) { rows.tell_columns() } else { Ok(()) };
            if let Some(failure) = rows.broken.take() {
                return Err(failure.into());
            }
            told.map_err(ended)?;
            let tag = match progress.map_err(ended)? {
                Progress::CopyIn(copy) => self.copy_in(copy, answers)?,
                Progress::Done(tag) => tag,
                Progress::Empty | Progress::Suspended => String::new(),
            };
            if is_last {
                self.session.sync().map_err(ended)?;
            }
            answers.done(&tag)?;
        }
        Ok(())
    }

    fn copy_in(&mut self, mut copy: quipu_sql::CopyIn, answers: &mut dyn Answers) -> Result<String, Ended> {
        loop {
            match answers.copy_in() {
                Ok(Some(data)) => self.session.copy_data(&mut copy, &data).map_err(ended)?,
                Ok(None) => return self.session.copy_done(copy).map_err(ended),
                Err(failure) => return Err(ended(self.session.copy_fail(copy, &failure.to_string()))),
            }
        }
    }
}

impl Backend for Local {
    fn run(&mut self, text: &str, answers: &mut dyn Answers) -> Result<(), Ended> {
        self.session.canceller().clear();
        let result = self.run_all(text, answers);
        let synced = self.session.sync().map_err(ended);
        while self.session.status() == Status::Idle
            && let Some(told) = self.session.mailbox.take()
        {
            answers.notice(&Report::of_notification(told.process, &told.channel, &told.payload))?;
        }
        result.and(synced)
    }

    fn transaction(&self) -> Transaction {
        match self.session.status() {
            Status::Idle => Transaction::No,
            Status::InTransaction => Transaction::Open,
            Status::Failed => Transaction::Failed,
        }
    }

    fn stop(&self) -> Stop {
        let canceller = self.session.canceller();
        Box::new(move || canceller.cancel())
    }

    fn database(&self) -> String {
        DATABASE.to_owned()
    }

    fn title(&self) -> String {
        self.title.clone()
    }
}

/// Writes the rows of a statement as texts.
struct Rows<'a> {
    answers: &'a mut dyn Answers,
    /// The columns, until they are told.
    columns: Option<&'a [ResultColumn]>,
    environment: Arc<dyn Environment>,
    /// The types of the columns.
    types: Vec<SqlType>,
    /// The values of a row, one after the other.
    text: String,
    /// Why nothing can be written any more.
    broken: Option<Failure>,
}

impl Rows<'_> {
    fn tell_columns(&mut self) -> quipu_sql::Result<()> {
        let Some(columns) = self.columns.take() else { return Ok(()) };
        let column = |column: &ResultColumn| Column { name: column.name.clone(), oid: column.sql_type.oid() };
        let told = self.answers.columns(columns.iter().map(column).collect());
        self.check(told)
    }

    /// Keeps why nothing can be written, and ends the statement.
    fn check(&mut self, written: Result<()>) -> quipu_sql::Result<()> {
        written.map_err(|failure| {
            let error = SqlError::new(SqlState::IO_ERROR, failure.to_string());
            self.broken = Some(failure);
            error
        })
    }
}

impl Sink for Rows<'_> {
    fn row(&mut self, values: &[Datum]) -> quipu_sql::Result<()> {
        self.tell_columns()?;
        self.text.clear();
        let mut ends = Vec::with_capacity(values.len());
        for (value, sql_type) in values.iter().zip(&self.types) {
            if !value.is_null() {
                text::write(value, *sql_type, &*self.environment, &mut self.text)?;
            }
            ends.push((self.text.len(), value.is_null()));
        }
        let mut begin = 0;
        let cell = |(end, is_null): (usize, bool)| {
            let text = &self.text[begin..end];
            begin = end;
            (!is_null).then_some(text)
        };
        let cells: Vec<Option<&str>> = ends.into_iter().map(cell).collect();
        let written = self.answers.row(&cells);
        self.check(written)
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> quipu_sql::Result<()> {
        // COPY is no result with columns.
        self.columns = None;
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> quipu_sql::Result<()> {
        let written = self.answers.copy_data(data);
        self.check(written)
    }

    fn notice(&mut self, notice: &SqlError) {
        let is_warning = notice.state().code().starts_with("01");
        let report = Report { severity: if is_warning { "WARNING" } else { "NOTICE" }.to_owned(), ..report(notice) };
        if let Err(failure) = self.answers.notice(&report) {
            self.broken = Some(failure);
        }
    }

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

fn report(error: &SqlError) -> Report {
    let parts = error.parts();
    Report {
        severity: "ERROR".to_owned(),
        code: parts.state.code().to_owned(),
        message: parts.message.clone(),
        detail: parts.detail.clone(),
        hint: parts.hint.clone(),
        context: parts.context.clone(),
        position: parts.position,
    }
}

fn ended(error: SqlError) -> Ended {
    Ended::Refused(Box::new(report(&error)))
}

fn refused(error: SqlError) -> Failure {
    Failure::new(error.to_string())
}
