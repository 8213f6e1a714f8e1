//! Answers to a client whose session has begun: messages in their order, and simple queries.
//!
//! A message at a time comes in as bytes; answers are put into the buffer that goes out. Errors of statements are
//! answers. What ends the connection is an [`End`].
//!
//! Invariants:
//! 1. The end of a simple query's last statement is told after its commit.
//! 2. After an error of the extended protocol, nothing is answered until Sync.
//! 3. A portal does not outlive its transaction.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quipu::latched::Lack;
use quipu_sql::notifications::Mailbox;
use quipu_sql::session::named_cursor;
use quipu_sql::statement::Statement;
use quipu_sql::{CopyIn, Portal, Prepared, Progress, Result, Session, SqlError, SqlState, Status};

use super::answers::{Formats, Severity};
use super::buffers::Outgoing;
use super::messages::{self, Malformed, Message};
use super::sink::RowSink;
use crate::state::clients::Client;
use crate::state::server::Server;
use crate::system::clock;
use crate::users::User;
use crate::users::refusals::{Reason, RefusedClient};

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client has taken leave, or is gone.
    Left,
    /// The socket has failed.
    Broken(io::Error),
    /// This is told to the client.
    Fatal(SqlError),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error)
    }
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> End {
        End::Fatal(malformed.to_error())
    }
}

/// A portal of the protocol.
pub(super) struct Open {
    pub(super) portal: Portal,
    pub(super) formats: Formats,
    /// Whether it has given all that it has.
    pub(super) is_done: bool,
}

/// A COPY that takes data, and what follows it.
struct Copying {
    copy: CopyIn,
    /// The statements of the same simple query that come after it; none of the extended protocol.
    after: Option<VecDeque<Statement>>,
}

/// How a statement has ended.
pub(super) enum Outcome {
    /// It has told so.
    Done,
    /// It takes data.
    CopyIn(CopyIn),
}

/// A session and what the protocol keeps beside it.
pub(super) struct Conversation<'s> {
    pub(super) server: &'s Server,
    pub(super) client: &'s Client,
    pub(super) user: Arc<User>,
    pub(super) session: Session,
    pub(super) out: Outgoing,
    pub(super) statements: HashMap<Box<str>, Arc<Prepared>>,
    pub(super) portals: HashMap<Box<str>, Open>,
    /// Messages up to Sync are left out, because of an error.
    skips: bool,
    /// Whether no other statement comes before the next Sync, or the end of the simple query.
    pub(super) is_last: bool,
    copying: Option<Copying>,
    /// Why nothing can be sent any more, if a statement has found that out.
    pub(super) broken: Option<io::Error>,
    mailbox: Arc<Mailbox>,
    /// Whether the client was told that the next statement may come, and has sent nothing since.
    is_ready: bool,
    /// Whether the buffer has what the client may wait for: that the next statement may come, that data of a COPY are
    /// taken, or an error.
    is_awaited: bool,
    /// Why the connection ends, if that has ended a statement.
    ended: Option<SqlError>,
}

impl<'s> Conversation<'s> {
    pub(super) fn new(
        server: &'s Server,
        client: &'s Client,
        user: Arc<User>,
        session: Session,
        out: Outgoing,
    ) -> Conversation<'s> {
        Conversation {
            server,
            client,
            user,
            out,
            statements: HashMap::new(),
            portals: HashMap::new(),
            skips: false,
            is_last: false,
            copying: None,
            broken: None,
            mailbox: {
                session.mailbox.open();
                Arc::clone(&session.mailbox)
            },
            session,
            is_ready: true,
            is_awaited: true, // the answer to its beginning
            ended: None,
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// Why the connection ends.
    pub(super) fn take(&mut self, tag: u8, body: &[u8]) -> std::result::Result<(), End> {
        self.is_ready = false;
        if self.skips && !matches!(tag, b'S' | b'X') {
            return Ok(());
        }
        let encoding = self.out.answers.encoding;
        let translated;
        let body = if encoding.is_utf8() {
            body
        } else {
            match messages::with_texts(tag, body, |text| encoding.decode(text)) {
                Ok(message) => {
                    translated = message;
                    &translated
                }
                Err(error) => {
                    self.refuse(tag, &error);
                    return Ok(());
                }
            }
        };
        match messages::read(tag, body) {
            Ok(message) if self.copying.is_some() => self.take_in_copy(message)?,
            Ok(message) => self.take_message(message)?,
            // Its end is known, so the next message can be read.
            Err(malformed @ Malformed::Encoding(_)) => self.refuse(tag, &malformed.to_error()),
            Err(malformed) => return Err(malformed.into()),
        }
        match (self.broken.take(), self.ended.take()) {
            (Some(error), _) => Err(End::Broken(error)),
            (None, Some(error)) => Err(End::Fatal(error)),
            (None, None) => Ok(()),
        }
    }

    /// Answers a message with a malformed text.
    fn refuse(&mut self, tag: u8, error: &SqlError) {
        self.session.fail();
        if tag == b'Q' { self.fail_query(error) } else { self.fail_extended(error) }
    }

    fn take_message(&mut self, message: Message<'_>) -> std::result::Result<(), End> {
        match message {
            Message::Query(text) => self.query(text),
            Message::Sync => {
                self.skips = false;
                if let Err(error) = self.session.sync() {
                    self.tell(&error);
                }
                self.ready();
            }
            Message::Flush => self.out.flush()?,
            Message::Terminate => return Err(End::Left),
            // What a client sends that does not know yet that its COPY has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
            Message::FunctionCall => {
                self.session.fail();
                let hint = "Call the function in a SELECT.";
                self.fail_query(&SqlError::unsupported("function calls of the protocol are not supported", hint));
            }
            Message::Password(_) => return Err(Malformed::Unknown(b'p').into()),
            message => {
                if let Err(error) = self.extended(&message) {
                    self.fail_extended(&error);
                }
            }
        }
        Ok(())
    }

    /// Runs the statements of a text.
    fn query(&mut self, text: &str) {
        self.statements.remove("");
        self.portals.remove("");
        match self.session.parse(text) {
            Ok(list) if list.is_empty() => {
                self.out.answers.empty_query();
                self.end_query();
            }
            Ok(list) => {
                self.is_last = list.len() == 1;
                self.run_all(list.into());
            }
            Err(error) => self.fail_query(&error),
        }
    }

    /// Runs statements of a simple query, up to a COPY that takes data.
    fn run_all(&mut self, mut queue: VecDeque<Statement>) {
        while let Some(statement) = queue.pop_front() {
            let cursor = named_cursor(&statement);
            match self.with_portal(cursor, |this| this.run_simple(statement, queue.is_empty())) {
                Ok(Outcome::Done) => {}
                Ok(Outcome::CopyIn(copy)) => {
                    self.copying = Some(Copying { copy, after: Some(queue) });
                    self.is_awaited = true;
                    return;
                }
                Err(error) => return self.fail_query(&error),
            }
        }
        self.end_query();
    }

    fn run_simple(&mut self, statement: Statement, is_last: bool) -> Result<Outcome> {
        if let Some(tag) = self.deallocate(&statement.text) {
            self.out.answers.command_complete(tag);
            return Ok(Outcome::Done);
        }
        let prepared = self.session.prepare_parsed(statement, &[])?;
        if !prepared.parameters.is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let portal = self.session.bind(&prepared, Vec::new())?;
        let mut open = Open { portal, formats: Formats::default(), is_done: false };
        match self.run(&mut open, None, true)? {
            Progress::CopyIn(copy) => {
                self.out.answers.copy_in(copy.format, copy.columns);
                Ok(Outcome::CopyIn(copy))
            }
            Progress::Done(tag) => self.complete(&tag, is_last).map(|()| Outcome::Done),
            Progress::Empty => {
                self.out.answers.empty_query();
                Ok(Outcome::Done)
            }
            Progress::Suspended => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query without a limit has stopped")),
        }
    }

    /// Tells that a statement of a simple query is done; of the last one, after its commit.
    fn complete(&mut self, tag: &str, is_last: bool) -> Result<()> {
        if is_last {
            self.session.sync()?;
        }
        self.out.answers.command_complete(tag);
        self.note_done(tag);
        Ok(())
    }

    /// Runs a portal. Rows, and all that is told before the end of a command, are in the buffer then.
    pub(super) fn run(&mut self, open: &mut Open, rows_max: Option<u64>, tells_columns: bool) -> Result<Progress> {
        self.server.postgres.note_statement();
        let prepared = Arc::clone(&open.portal.prepared);
        let environment = self.session.environment();
        let mut sink = RowSink {
            out: &mut self.out,
            client: self.client,
            columns: prepared.columns.as_deref().unwrap_or_default(),
            formats: &open.formats,
            environment: &*environment,
            tells_columns: tells_columns && prepared.columns.is_some(),
            has_copied: false,
            text: String::new(),
            broken: None,
        };
        let progress = self.session.execute(&mut open.portal, rows_max, self.is_last, &mut sink);
        if let Ok(Progress::Done(_)) = progress {
            sink.tell_columns();
            if sink.has_copied {
                sink.out.answers.copy_done();
            }
        }
        if let Some(error) = sink.broken {
            self.broken = Some(error);
        }
        progress
    }

    /// Takes a message while COPY takes data.
    fn take_in_copy(&mut self, message: Message<'_>) -> std::result::Result<(), End> {
        let Some(mut copying) = self.copying.take() else { return Ok(()) };
        let ended = match message {
            Message::CopyData(data) => match self.session.copy_data(&mut copying.copy, data) {
                Ok(()) => {
                    self.copying = Some(copying);
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            // A client may have sent them before it knew of the COPY.
            Message::Flush | Message::Sync => {
                self.copying = Some(copying);
                return Ok(());
            }
            Message::CopyDone => self.session.copy_done(copying.copy),
            Message::CopyFail(why) => Err(self.session.copy_fail(copying.copy, why)),
            Message::Terminate => return Err(End::Left),
            _ => {
                let text = "unexpected message during COPY from stdin";
                return Err(End::Fatal(SqlError::new(SqlState::PROTOCOL_VIOLATION, text)));
            }
        };
        match (ended, copying.after) {
            (Ok(tag), Some(after)) => match self.complete(&tag, after.is_empty()) {
                Ok(()) => self.run_all(after),
                Err(error) => self.fail_query(&error),
            },
            (Err(error), Some(_)) => self.fail_query(&error),
            (Ok(tag), None) => self.out.answers.command_complete(&tag),
            (Err(error), None) => self.fail_extended(&error),
        }
        Ok(())
    }

    /// A COPY of the extended protocol takes data from now on.
    pub(super) fn begin_copy(&mut self, copy: CopyIn) {
        self.out.answers.copy_in(copy.format, copy.columns);
        self.copying = Some(Copying { copy, after: None });
        self.is_awaited = true;
    }

    /// Sends what the client may wait for, and all before it. Of a pipeline, answers go out with the one to Sync or
    /// Flush, or when they are much.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn flush_if_awaited(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_awaited) { self.out.flush() } else { Ok(()) }
    }

    /// The mailbox, if something may come that is to be told at once: between statements and outside of transactions.
    pub(super) fn waits_for(&self) -> Option<&Arc<Mailbox>> {
        let is_idle = self.is_ready && self.session.status() == Status::Idle;
        (is_idle && self.mailbox.is_listening()).then_some(&self.mailbox)
    }

    /// How long the client may say nothing once it was told that the next statement may come, and whether it is in a
    /// transaction.
    pub(super) fn idle_timeout(&self) -> Option<(Duration, bool)> {
        if self.is_ready { self.session.idle_timeout() } else { None }
    }

    /// Tells what was said to the session.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn tell_notifications(&mut self) -> io::Result<()> {
        while let Some(notification) = self.mailbox.take() {
            self.out.answers.notification(&notification);
            self.is_awaited = true;
            self.out.flush_if_full()?;
        }
        Ok(())
    }

    fn fail_query(&mut self, error: &SqlError) {
        self.tell(error);
        self.end_query();
    }

    fn end_query(&mut self) {
        if let Err(error) = self.session.sync() {
            self.tell(&error);
        }
        self.ready();
    }

    fn fail_extended(&mut self, error: &SqlError) {
        self.tell(error);
        self.skips = true;
        self.is_awaited = true;
    }

    fn tell(&mut self, error: &SqlError) {
        // The end of the connection is told once, as what it is.
        if error.state() == SqlState::ADMIN_SHUTDOWN {
            self.ended = Some(error.clone());
            return;
        }
        self.server.postgres.note_error(error.state());
        if error.state() == SqlState::INSUFFICIENT_PRIVILEGE {
            self.note_refusal(error.message());
        }
        if error.state() == SqlState::DISK_FULL {
            // How much it would have written is not known.
            self.server.keyspace.space().note(Lack { reason: error.message().to_owned(), bytes: usize::MAX });
        }
        self.out.answers.error(Severity::Error, error);
    }

    /// Notes for `ACL LOG` what the user was refused.
    fn note_refusal(&self, message: &str) {
        let user = &self.user.name;
        self.server.note_refusal(RefusedClient {
            count: 1,
            reason: Reason::Key,
            in_transaction: self.session.status() != Status::Idle,
            object: message.as_bytes().to_vec(),
            user: user.to_string(),
            last_ms: clock::now_ms(),
            client: format!("addr={} name= user={user} lib-name=postgres", self.client.address),
        });
    }

    fn ready(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let status = self.session.status();
        if status == Status::Idle {
            self.portals.clear();
            if let Err(error) = self.tell_notifications() {
                self.broken = Some(error);
            }
        }
        self.out.answers.ready(status);
        self.is_ready = true;
        self.is_awaited = true;
    }
}
