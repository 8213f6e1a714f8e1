//! Messages that the server sends, as bytes: each is put at the end of one buffer. No I/O here.
//!
//! Formats are those of PostgreSQL's documentation, chapter "Message Formats". The hot ones, rows and the ends of
//! commands, are written in place, and their lengths set afterwards: nothing is allocated for a row.

use quipu_sql::error::Parts;
use quipu_sql::notifications::Notification;
use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::{CopyFormat, ResultColumn, SqlError, SqlState, SqlType, Status};

/// How much an error matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement has failed.
    Error,
    /// The connection ends.
    Fatal,
    /// No failure.
    Notice,
    /// No failure, but something is wrong.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// What authentication asks for, or says.
#[derive(Clone, Copy, Debug)]
pub enum Authentication<'a> {
    /// It is done.
    Ok,
    /// A password as text.
    ClearText,
    /// SASL by one of these mechanisms.
    Sasl(&'a [&'a str]),
    /// A step of SASL.
    SaslContinue(&'a [u8]),
    /// The last step of SASL.
    SaslFinal(&'a [u8]),
}

/// How columns of a result are written: none said for text, one for all, or one each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats(Vec<bool>);

impl Formats {
    /// From the numbers of a Bind.
    pub fn new(numbers: impl Iterator<Item = u32>) -> Formats {
        Formats(numbers.map(|number| number == 1).collect())
    }

    /// How many were said.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether this column is binary.
    pub fn is_binary(&self, column: usize) -> bool {
        match self.0[..] {
            [all] => all,
            _ => self.0.get(column).copied().unwrap_or(false),
        }
    }
}

/// Messages that wait to be sent.
#[derive(Debug)]
pub struct Answers {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// That of their texts.
    pub encoding: TextEncoding,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { bytes: Vec::new(), encoding: TextEncoding::UTF8 }
    }
}

/// A count of fields, of which no statement has more than fit.
fn count_of(count: usize) -> [u8; 2] {
    u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes()
}

impl Answers {
    /// Begins a message; returns where.
    pub fn begin(&mut self, tag: u8) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[tag, 0, 0, 0, 0]);
        start
    }

    /// Ends the message that began there. A message of more than 2 GiB cannot be sent: then it is taken back.
    pub fn end(&mut self, start: usize) -> bool {
        match i32::try_from(self.bytes.len() - start - 1) {
            Ok(length) => {
                self.bytes[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
                true
            }
            Err(_) => {
                self.bytes.truncate(start);
                false
            }
        }
    }

    /// A message with this body.
    fn message(&mut self, tag: u8, body: &[u8]) {
        let start = self.begin(tag);
        self.bytes.extend_from_slice(body);
        self.end(start);
    }

    /// A text, with a question mark for each letter that its encoding lacks.
    fn text(&mut self, text: &str) {
        // A text ends with its first zero: what has one is cut.
        let text = text.split('\0').next().unwrap_or_default();
        self.bytes.extend_from_slice(&self.encoding.encode_lossy(text));
        self.bytes.push(0);
    }

    /// Authentication.
    pub fn authentication(&mut self, what: Authentication<'_>) {
        let start = self.begin(b'R');
        let (number, data): (u32, &[u8]) = match what {
            Authentication::Ok => (0, b""),
            Authentication::ClearText => (3, b""),
            Authentication::Sasl(_) => (10, b""),
            Authentication::SaslContinue(data) => (11, data),
            Authentication::SaslFinal(data) => (12, data),
        };
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self.bytes.extend_from_slice(data);
        if let Authentication::Sasl(mechanisms) = what {
            mechanisms.iter().for_each(|mechanism| self.text(mechanism));
            self.bytes.push(0);
        }
        self.end(start);
    }

    /// Which version of the protocol is spoken, and what was asked for that is not known.
    pub fn negotiate(&mut self, minor: u16, unknown: &[&str]) {
        let start = self.begin(b'v');
        self.bytes.extend_from_slice(&(3 << 16 | u32::from(minor)).to_be_bytes());
        self.bytes.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
        unknown.iter().for_each(|name| self.text(name));
        self.end(start);
    }

    /// A parameter of the session, and its value.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        let start = self.begin(b'S');
        self.text(name);
        self.text(value);
        self.end(start);
    }

    /// What another session, or the client's own, has said to those that listen.
    pub fn notification(&mut self, notification: &Notification) {
        let start = self.begin(b'A');
        self.bytes.extend_from_slice(&notification.process.to_be_bytes());
        self.text(&notification.channel);
        self.text(&notification.payload);
        self.end(start);
    }

    /// What the connection is cancelled by.
    pub fn backend_key(&mut self, process: i32, secret: &[u8]) {
        let start = self.begin(b'K');
        self.bytes.extend_from_slice(&process.to_be_bytes());
        self.bytes.extend_from_slice(secret);
        self.end(start);
    }

    /// The next statement may come.
    pub fn ready(&mut self, status: Status) {
        self.message(
            b'Z',
            match status {
                Status::Idle => b"I",
                Status::InTransaction => b"T",
                Status::Failed => b"E",
            },
        );
    }

    /// The columns of a result.
    pub fn row_description(&mut self, columns: &[ResultColumn], formats: &Formats) {
        let start = self.begin(b'T');
        self.bytes.extend_from_slice(&count_of(columns.len()));
        for (number, column) in columns.iter().enumerate() {
            self.text(&column.name);
            self.bytes.extend_from_slice(&column.table.to_be_bytes());
            self.bytes.extend_from_slice(&column.column.to_be_bytes());
            self.bytes.extend_from_slice(&column.sql_type.oid().to_be_bytes());
            self.bytes.extend_from_slice(&column.sql_type.size().to_be_bytes());
            self.bytes.extend_from_slice(&column.sql_type.declared_modifier().to_be_bytes());
            self.bytes.extend_from_slice(&u16::from(formats.is_binary(number)).to_be_bytes());
        }
        self.end(start);
    }

    /// The types of a statement's parameters.
    pub fn parameter_description(&mut self, types: &[SqlType]) {
        let start = self.begin(b't');
        self.bytes.extend_from_slice(&count_of(types.len()));
        types.iter().for_each(|sql_type| self.bytes.extend_from_slice(&sql_type.oid().to_be_bytes()));
        self.end(start);
    }

    /// The end of a command.
    pub fn command_complete(&mut self, tag: &str) {
        let start = self.begin(b'C');
        self.text(tag);
        self.end(start);
    }

    /// The text had no statement.
    pub fn empty_query(&mut self) {
        self.message(b'I', b"");
    }

    /// A statement is prepared.
    pub fn parse_complete(&mut self) {
        self.message(b'1', b"");
    }

    /// A portal is made.
    pub fn bind_complete(&mut self) {
        self.message(b'2', b"");
    }

    /// A statement or a portal is forgotten.
    pub fn close_complete(&mut self) {
        self.message(b'3', b"");
    }

    /// There is no result to describe.
    pub fn no_data(&mut self) {
        self.message(b'n', b"");
    }

    /// A portal has more rows.
    pub fn portal_suspended(&mut self) {
        self.message(b's', b"");
    }

    /// COPY waits for data.
    pub fn copy_in(&mut self, format: CopyFormat, columns: usize) {
        self.copy_response(b'G', format, columns);
    }

    /// COPY sends data.
    pub fn copy_out(&mut self, format: CopyFormat, columns: usize) {
        self.copy_response(b'H', format, columns);
    }

    fn copy_response(&mut self, tag: u8, format: CopyFormat, columns: usize) {
        let start = self.begin(tag);
        let is_binary = u8::from(format == CopyFormat::Binary);
        self.bytes.push(is_binary);
        self.bytes.extend_from_slice(&count_of(columns));
        for _ in 0..columns {
            self.bytes.extend_from_slice(&[0, is_binary]);
        }
        self.end(start);
    }

    /// Data of a COPY.
    pub fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', data);
    }

    /// The end of the data of a COPY.
    pub fn copy_done(&mut self) {
        self.message(b'c', b"");
    }

    /// A failure, or something that the client should know.
    pub fn error(&mut self, severity: Severity, error: &SqlError) {
        let is_failure = matches!(severity, Severity::Error | Severity::Fatal);
        let start = self.begin(if is_failure { b'E' } else { b'N' });
        let Parts { state, message, detail, hint, position, schema, table, column, constraint, context, kind: _ } =
            error.parts();
        let position = position.map(|position| position.to_string());
        // Drivers that keep prepared statements know by the routine that they must prepare them again.
        let is_stale =
            *state == SqlState::FEATURE_NOT_SUPPORTED && message == "cached plan must not change result type";
        let fields: [(u8, Option<&str>); 10] = [
            (b'M', Some(message)),
            (b'D', detail.as_deref()),
            (b'H', hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', context.as_deref()),
            (b's', schema.as_deref()),
            (b't', table.as_deref()),
            (b'c', column.as_deref()),
            (b'n', constraint.as_deref()),
            (b'R', is_stale.then_some("RevalidateCachedQuery")),
        ];
        for (field, word) in [(b'S', severity.word()), (b'V', severity.word()), (b'C', state.code())] {
            self.bytes.push(field);
            self.text(word);
        }
        for (field, text) in fields {
            if let Some(text) = text {
                self.bytes.push(field);
                self.text(text);
            }
        }
        self.bytes.push(0);
        self.end(start);
    }
}
