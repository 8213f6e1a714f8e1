//! A session of SQL that one thread drives beside others, and what the model knows of its transaction.

use std::sync::Arc;

use quipu_sql::{CopyFormat, Datum, Portal, Progress, Result, Session, Sink, SqlDatabase, SqlError, SqlState, SqlType};

use crate::modes::sql::state::{Changes, Committed, Question};

/// What takes rows, as a client that may go away, or cancel, in the midst of them.
struct Taker {
    lines: Vec<String>,
    types: Vec<SqlType>,
    environment: Arc<dyn quipu_sql::functions::Environment>,
    /// After so many rows the client is gone.
    goes_after: Option<usize>,
    /// After so many rows it cancels.
    cancels_after: Option<usize>,
    canceller: quipu_sql::Canceller,
}

impl Taker {
    fn take(&mut self, line: String) -> Result<()> {
        if self.goes_after == Some(self.lines.len()) {
            return Err(SqlError::new(SqlState::CONNECTION_FAILURE, "the client is gone"));
        }
        if self.cancels_after == Some(self.lines.len()) {
            self.canceller.cancel();
        }
        self.lines.push(line);
        Ok(())
    }
}

impl Sink for Taker {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let mut words = Vec::new();
        for (value, sql_type) in values.iter().zip(&self.types) {
            let text = quipu_sql::types::text::to_string(value, *sql_type, &*self.environment)?;
            words.push(if value.is_null() { "NULL".to_owned() } else { text });
        }
        self.take(words.join("|"))
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(data).trim_end().replace("\\N", "NULL").replace('\t', "|");
        if text.is_empty() { Ok(()) } else { self.take(text) }
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

/// How a client takes what it asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// It is gone after so many rows.
    pub goes_after: Option<usize>,
    /// It cancels after so many rows.
    pub cancels_after: Option<usize>,
    /// It prepares the statement, and its portal gives so many rows at a time.
    pub rows_at_a_time: Option<u64>,
}

/// What the model knows of an open transaction.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// Whether each statement sees what was committed before it.
    pub is_read_committed: bool,
    /// Whether what was read must hold at the commit.
    pub is_serializable: bool,
    /// What it may see beneath its own changes: the states that agree with all that it was told.
    pub bases: Vec<Committed>,
    /// Its own changes.
    pub changes: Changes,
    /// What the rows that it has changed were before.
    pub before: Changes,
    /// Which creations of tables it has written to.
    pub wrote_to: Vec<(u64, u64)>,
    /// What it was told, over which of its own changes.
    pub told: Vec<(Question, Changes, Vec<String>)>,
    /// Its savepoints, and its changes then.
    pub savepoints: Vec<(u64, Changes)>,
    /// Whether it can only be rolled back.
    pub has_failed: bool,
}

impl Open {
    /// Whether all that it relies on is locked. What it has defined may meet definitions of others.
    pub fn is_never_asked_again(&self) -> bool {
        self.is_read_committed && self.changes.tables.is_empty()
    }
}

/// A portal or a cursor that is held open, and the lines that are still to come.
pub struct Held {
    /// Of the protocol; the other is one of DECLARE.
    pub portal: Option<Portal>,
    /// The cursor's name.
    pub name: String,
    /// What it has still to give.
    pub left: Vec<String>,
}

/// A client.
pub struct Client {
    session: Session,
    /// Its transaction.
    pub open: Option<Open>,
    /// What it holds open.
    pub held: Option<Held>,
}

impl Client {
    /// A new one.
    ///
    /// # Errors
    /// If it may not set how long it waits.
    pub fn new(database: &SqlDatabase) -> Result<Client> {
        let mut client = Client { session: database.session("storm", "quipu"), open: None, held: None };
        // One thread drives all clients: a lock that another one has does not come while this one waits.
        let settings = "SET lock_timeout = '1ms'; SET statement_timeout = '20s'; SET statement_memory = '24kB'";
        client.ask(settings, Manner::default())?;
        Ok(client)
    }

    /// Runs the statements of a text, with the data of a COPY after an empty line. Returns the lines and the tag of the
    /// last one.
    ///
    /// # Errors
    /// Those of the statements, and of their commit.
    pub fn ask(&mut self, text: &str, manner: Manner) -> Result<(Vec<String>, String)> {
        let result = self.run(text, manner);
        let synced = self.session.sync();
        result.and_then(|answer| synced.map(|()| answer))
    }

    fn run(&mut self, text: &str, manner: Manner) -> Result<(Vec<String>, String)> {
        let (text, data) = text.split_once("\n\n").unwrap_or((text, ""));
        let statements = self.session.parse(text)?;
        let is_alone = statements.len() == 1;
        let mut last = (Vec::new(), String::new());
        for statement in statements {
            let prepared = match manner.rows_at_a_time.is_some() {
                true => self.session.prepare(&statement.text, &[])?,
                false => self.session.prepare_parsed(statement, &[])?,
            };
            let mut taker = self.taker(prepared.columns.iter().flatten().map(|column| column.sql_type).collect());
            (taker.goes_after, taker.cancels_after) = (manner.goes_after, manner.cancels_after);
            let mut portal = self.session.bind(&prepared, Vec::new())?;
            let tag = loop {
                let is_alone = is_alone && manner.rows_at_a_time.is_none();
                match self.session.execute(&mut portal, manner.rows_at_a_time, is_alone, &mut taker)? {
                    Progress::Suspended => {}
                    Progress::Done(tag) => break tag,
                    Progress::Empty => break String::new(),
                    Progress::CopyIn(copy) if data.is_empty() => return Err(self.session.copy_fail(copy, "no data")),
                    Progress::CopyIn(mut copy) => {
                        self.session.copy_data(&mut copy, data.as_bytes())?;
                        break self.session.copy_done(copy)?;
                    }
                }
            };
            last = (taker.lines, tag);
        }
        Ok(last)
    }

    fn taker(&self, types: Vec<SqlType>) -> Taker {
        Taker {
            lines: Vec::new(),
            types,
            environment: self.session.environment(),
            goes_after: None,
            cancels_after: None,
            canceller: self.session.canceller(),
        }
    }

    /// Opens a portal and takes its first rows. Returns the lines; the portal is held if there are more.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn open_portal(&mut self, text: &str, rows: u64) -> Result<(Portal, Vec<String>, bool)> {
        let prepared = self.session.prepare(text, &[])?;
        let portal = self.session.bind(&prepared, Vec::new())?;
        self.next_of(portal, rows)
    }

    /// The next rows of a portal, and whether there may be more.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn next_of(&mut self, mut portal: Portal, rows: u64) -> Result<(Portal, Vec<String>, bool)> {
        let mut taker = self.taker(portal.prepared.columns.iter().flatten().map(|column| column.sql_type).collect());
        let progress = self.session.execute(&mut portal, Some(rows), false, &mut taker)?;
        Ok((portal, taker.lines, matches!(progress, Progress::Suspended)))
    }

    /// A commit that has failed has ended its transaction.
    ///
    /// # Errors
    /// If it has not.
    pub fn is_idle_after(&self, error: &SqlError) -> std::result::Result<(), String> {
        let (code, message) = (error.state().code(), error.message());
        match self.status() {
            (false, _) => Ok(()),
            _ => Err(format!("a commit was refused with {code} {message}, and the transaction is still open")),
        }
    }

    /// Whether the session says that it is in a transaction, and that this has failed.
    pub fn status(&self) -> (bool, bool) {
        let status = self.session.status();
        (status != quipu_sql::Status::Idle, status == quipu_sql::Status::Failed)
    }
}
