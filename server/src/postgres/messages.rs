//! Messages that clients send, as bytes, and their parts. Nothing is copied, and there is no I/O here.
//!
//! Format (PostgreSQL's documentation, chapter "Frontend/Backend Protocol"): a message is a byte that says which, a
//! length of 4 bytes that counts itself, and a body; what comes first on a connection has no such byte. Numbers are
//! big-endian, texts end with a zero.
//!
//! Written by hand and not over crate `pgwire`: without its default features it brings ten crates and copies each text
//! and each parameter of a message; its limits, its TLS and its SCRAM stand beside tokio's sockets, which are not used
//! here. The layouts are these 300 lines.
//!
//! Invariants: any bytes give a message or a [`Malformed`]; what is returned lies within the bytes that were given.

use std::borrow::Cow;

use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::{SqlError, SqlState};

/// Bytes of the largest packet that may come first: as PostgreSQL has it.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// Bytes of a message before its body: which it is, and its length.
pub const HEAD_BYTES: usize = 5;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end too early, or too late, or have a number that cannot be.
    Layout(&'static str),
    /// A text is malformed in its encoding: what the client is told.
    Encoding(String),
    /// There is no such message.
    Unknown(u8),
    /// The length of a message cannot be.
    Length,
    /// The length of a message is more than is taken.
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is taken.
        bytes_max: usize,
    },
    /// A protocol of another kind.
    Protocol(u32),
}

impl Malformed {
    /// What the client is told.
    pub fn to_error(&self) -> SqlError {
        let violation = |text: String| SqlError::new(SqlState::PROTOCOL_VIOLATION, text);
        match self {
            Malformed::Layout(what) => violation(format!("invalid message format: {what}")),
            Malformed::Encoding(what) => SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, what),
            Malformed::Unknown(tag) => violation(format!("invalid frontend message type {tag}")),
            Malformed::Length => violation("invalid message length".to_owned()),
            Malformed::TooLong { bytes, bytes_max } => {
                let text = format!("a message of {bytes} bytes is more than the {bytes_max} bytes that are taken");
                let hint =
                    "Send it in parts, as COPY does, or start the server with a larger `--pg-message-bytes-max`.";
                SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text).with_hint(hint)
            }
            Malformed::Protocol(version) => {
                let text = format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.2",
                    version >> 16,
                    version & 0xffff
                );
                SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
            }
        }
    }
}

type Result<T> = std::result::Result<T, Malformed>;

/// What comes first on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First<'m> {
    /// TLS is asked for: one byte answers.
    Tls,
    /// Encryption by GSSAPI is asked for: one byte answers.
    Gss,
    /// What runs on another connection is to be cancelled.
    Cancel {
        /// The number of the connection.
        process: i32,
        /// Its secret.
        secret: &'m [u8],
    },
    /// A session is asked for.
    Startup(Startup<'m>),
}

/// A session that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup<'m> {
    /// The protocol is 3 and this.
    pub minor: u16,
    /// Names and values.
    pub parameters: Vec<(&'m str, &'m str)>,
}

/// Which packet comes first; none if it has not come whole. Also how many bytes it has.
///
/// # Errors
/// Those of its length.
pub fn first_packet(bytes: &[u8]) -> Result<Option<(&[u8], usize)>> {
    let Some((length, _)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(Malformed::Length);
    }
    Ok(bytes.get(4..length).map(|body| (body, length)))
}

/// What the packet that came first asks for.
///
/// # Errors
/// Why it is malformed.
pub fn first(body: &[u8]) -> Result<First<'_>> {
    let mut fields = Fields(body);
    match fields.u32()? {
        TLS => fields.end().map(|()| First::Tls),
        GSS => fields.end().map(|()| First::Gss),
        CANCEL => Ok(First::Cancel { process: fields.u32()? as i32, secret: fields.0 }),
        version if version >> 16 == 3 => {
            let mut parameters = Vec::new();
            loop {
                match fields.text()? {
                    "" => break,
                    name => parameters.push((name, fields.text()?)),
                }
            }
            fields.end()?;
            Ok(First::Startup(Startup { minor: version as u16, parameters }))
        }
        version => Err(Malformed::Protocol(version)),
    }
}

/// The next message: its kind, its body, and how many bytes both have; none if it has not come whole.
///
/// # Errors
/// Those of its kind and its length.
pub fn next_message(bytes: &[u8], bytes_max: usize) -> Result<Option<(u8, &[u8], usize)>> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [tag, length @ ..] = *head;
    if !b"BCDEFHPQSXcdfp".contains(&tag) {
        return Err(Malformed::Unknown(tag));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length < 4 || length > i32::MAX as usize {
        return Err(Malformed::Length);
    }
    if length > bytes_max {
        return Err(Malformed::TooLong { bytes: length, bytes_max });
    }
    Ok(bytes.get(HEAD_BYTES..length + 1).map(|body| (tag, body, length + 1)))
}

/// How many bytes the message that has begun has, as far as that is known.
pub fn wanted_bytes(bytes: &[u8]) -> usize {
    match bytes.split_first_chunk::<HEAD_BYTES>() {
        Some(([_, length @ ..], _)) => u32::from_be_bytes(*length) as usize + 1,
        None => HEAD_BYTES,
    }
}

/// A prepared statement or a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'m> {
    /// The statement of this name.
    Statement(&'m str),
    /// The portal of this name.
    Portal(&'m str),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'m> {
    /// Runs the statements of a text.
    Query(&'m str),
    /// Prepares a statement.
    Parse {
        /// Its name.
        name: &'m str,
        /// Its text.
        text: &'m str,
        /// The types of its first parameters, by number; 0 if it is not told.
        types: Numbers<'m, 4>,
    },
    /// Gives a statement its parameters.
    Bind(Bind<'m>),
    /// Asks for types and columns.
    Describe(Target<'m>),
    /// Runs a portal.
    Execute {
        /// Its name.
        portal: &'m str,
        /// So many rows at most; 0 for all.
        rows_max: u32,
    },
    /// Forgets a statement or a portal.
    Close(Target<'m>),
    /// Ends what is one transaction.
    Sync,
    /// Asks for the answers so far.
    Flush,
    /// Data of a COPY.
    CopyData(&'m [u8]),
    /// Their end.
    CopyDone,
    /// The client gives a COPY up, and why.
    CopyFail(&'m str),
    /// Calls a function in a way of older protocols.
    FunctionCall,
    /// Takes leave.
    Terminate,
    /// A password, or a step of SASL.
    Password(&'m [u8]),
}

/// The parameters of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind<'m> {
    /// The portal that is made.
    pub portal: &'m str,
    /// The statement.
    pub statement: &'m str,
    /// How parameters are written: none for text, one for all, or one each; 0 is text, 1 is binary.
    pub parameter_formats: Numbers<'m, 2>,
    /// The parameters.
    pub values: Values<'m>,
    /// The same for the columns of the result.
    pub result_formats: Numbers<'m, 2>,
}

/// Numbers of so many bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers<'m, const BYTES: usize>(&'m [[u8; BYTES]]);

impl<const BYTES: usize> Numbers<'_, BYTES> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

/// Values of parameters: bytes, or none for NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'m> {
    count: usize,
    rest: &'m [u8],
}

impl Values<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'m> Iterator for Values<'m> {
    type Item = Option<&'m [u8]>;

    fn next(&mut self) -> Option<Option<&'m [u8]>> {
        self.count = self.count.checked_sub(1)?;
        let mut fields = Fields(self.rest);
        // They were all read once when the message was.
        let value = fields.value().ok()?;
        self.rest = fields.0;
        Some(value)
    }
}

/// A message of this kind.
///
/// # Errors
/// Why its body is malformed.
pub fn read(tag: u8, body: &[u8]) -> Result<Message<'_>> {
    let mut fields = Fields(body);
    let message = match tag {
        b'Q' => Message::Query(fields.text()?),
        b'P' => Message::Parse { name: fields.text()?, text: fields.text()?, types: fields.numbers()? },
        b'B' => Message::Bind(fields.bind()?),
        b'D' => Message::Describe(fields.target()?),
        b'E' => Message::Execute { portal: fields.text()?, rows_max: fields.u32()? },
        b'C' => Message::Close(fields.target()?),
        b'S' => Message::Sync,
        b'H' => Message::Flush,
        b'X' => Message::Terminate,
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(fields.text()?),
        b'd' => return Ok(Message::CopyData(body)),
        b'p' => return Ok(Message::Password(body)),
        // It is refused, whatever it has.
        b'F' => return Ok(Message::FunctionCall),
        _ => return Err(Malformed::Unknown(tag)),
    };
    fields.end()?;
    Ok(message)
}

/// The body of a message with its texts in UTF-8: `decode` says what they are. Values of parameters stay as they came,
/// since their types say which are texts.
///
/// # Errors
/// Those of `decode`.
pub fn with_texts<E>(
    tag: u8,
    body: &[u8],
    decode: impl Fn(&[u8]) -> std::result::Result<Cow<'_, str>, E>,
) -> std::result::Result<Vec<u8>, E> {
    // Bytes before the first text, and how many texts there are.
    let (before, texts) = match tag {
        b'Q' | b'f' | b'E' => (0, 1),
        b'P' | b'B' => (0, 2),
        b'D' | b'C' => (1, 1),
        _ => (0, 0),
    };
    let (head, mut rest) = body.split_at_checked(before).unwrap_or((body, &[]));
    let mut translated = head.to_vec();
    for _ in 0..texts {
        // One without an end is found when the message is read.
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { break };
        translated.extend_from_slice(decode(&rest[..end])?.as_bytes());
        translated.push(0);
        rest = &rest[end + 1..];
    }
    translated.extend_from_slice(rest);
    Ok(translated)
}

/// The text of a message that is one text, such as a password.
///
/// # Errors
/// Why it is not one text.
pub fn only_text(body: &[u8]) -> Result<&str> {
    let mut fields = Fields(body);
    let text = fields.text()?;
    fields.end().map(|()| text)
}

/// The first step of SASL: the mechanism and what the client says.
///
/// # Errors
/// Why it is malformed.
pub fn sasl_first(body: &[u8]) -> Result<(&str, &[u8])> {
    let mut fields = Fields(body);
    let mechanism = fields.text()?;
    let said = fields.value()?.unwrap_or_default();
    fields.end().map(|()| (mechanism, said))
}

/// What is left of a body.
struct Fields<'m>(&'m [u8]);

const SHORT: Malformed = Malformed::Layout("insufficient data left in message");

impl<'m> Fields<'m> {
    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk::<BYTES>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// A count, which is a number of 16 bits without a sign.
    fn count(&mut self) -> Result<usize> {
        self.take().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn text(&mut self) -> Result<&'m str> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed::Layout("no end of a text"))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        match TextEncoding::UTF8.decode(text) {
            Ok(Cow::Borrowed(text)) => Ok(text),
            Ok(Cow::Owned(_)) => Err(SHORT),
            Err(error) => Err(Malformed::Encoding(error.message().to_owned())),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A length and so many bytes; NULL for the length -1.
    fn value(&mut self) -> Result<Option<&'m [u8]>> {
        match self.take().map(i32::from_be_bytes)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.bytes(length).map(Some),
                Err(_) => Err(Malformed::Layout("negative length of a value")),
            },
        }
    }

    fn numbers<const BYTES: usize>(&mut self) -> Result<Numbers<'m, BYTES>> {
        let count = self.count()?;
        let (numbers, _) = self.bytes(count * BYTES)?.as_chunks();
        Ok(Numbers(numbers))
    }

    fn bind(&mut self) -> Result<Bind<'m>> {
        let (portal, statement, parameter_formats) = (self.text()?, self.text()?, self.numbers()?);
        let count = self.count()?;
        let values = Values { count, rest: self.0 };
        for _ in 0..count {
            self.value()?;
        }
        let result_formats = self.numbers()?;
        for formats in [&parameter_formats, &result_formats] {
            if formats.iter().any(|format| format > 1) {
                return Err(Malformed::Layout("unsupported format code"));
            }
        }
        Ok(Bind { portal, statement, parameter_formats, values, result_formats })
    }

    fn target(&mut self) -> Result<Target<'m>> {
        match self.take()? {
            [b'S'] => Ok(Target::Statement(self.text()?)),
            [b'P'] => Ok(Target::Portal(self.text()?)),
            _ => Err(Malformed::Layout("neither a statement nor a portal")),
        }
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Layout("data after the end of the message")) }
    }
}
