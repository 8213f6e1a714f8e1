//! A client of PostgreSQL's protocol that speaks as drivers do: simple queries, prepared statements whose portals give
//! some rows at a time, COPY both ways, and cancels. Values come as texts.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The number that a request to cancel begins with.
const CANCEL_REQUEST: u32 = 80_877_102;
/// The version of the protocol.
const VERSION: u32 = 3 << 16;
/// A message is not longer.
const MESSAGE_BYTES_MAX: usize = 1 << 28;

/// A row: a text for each column, none for NULL.
pub type Row = Vec<Option<String>>;

/// What the server said to a query, until it was ready for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgAnswer {
    /// The rows of all statements, and lines of COPY.
    pub rows: Vec<Row>,
    /// The tags of the statements that are done: `INSERT 0 1`.
    pub tags: Vec<String>,
    /// The SQLSTATE and the message, if one has failed.
    pub error: Option<(String, String)>,
    /// `I`, `T` or `E`: outside of a transaction, in one, in one that has failed.
    pub status: char,
}

impl PgAnswer {
    /// The SQLSTATE; `00000` if there was no error.
    pub fn code(&self) -> &str {
        self.error.as_ref().map_or("00000", |(code, _)| code)
    }

    /// The single value of the single row, as a number.
    pub fn number(&self) -> Option<i64> {
        self.rows.first()?.first()?.as_ref()?.parse().ok()
    }

    /// The first column of all rows; texts alone.
    pub fn texts(&self) -> Vec<&str> {
        self.rows.iter().filter_map(|row| row.first()?.as_deref()).collect()
    }
}

/// An error after which the server has ended the connection.
#[derive(Debug)]
struct Fatal {
    code: String,
    message: String,
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FATAL {} {}", self.code, self.message)
    }
}

impl std::error::Error for Fatal {}

/// Whether the server has ended the connection with this error, rather than that the connection broke.
pub fn is_fatal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Fatal>())
}

/// What cancels the statements of a connection.
#[derive(Clone, Debug)]
pub struct CancelKey {
    address: SocketAddr,
    key: Vec<u8>,
}

impl CancelKey {
    /// Asks for the running statement to end.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn cancel(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(&packet(CANCEL_REQUEST, &self.key))?;
        // The server closes the connection when it has cancelled.
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }
}

/// A connection.
pub struct PgClient {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    key: Vec<u8>,
}

impl PgClient {
    /// A session of the user `default`.
    ///
    /// # Errors
    /// Those of the connection, and if the server does not let it in.
    pub fn connect(address: SocketAddr) -> io::Result<PgClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut client = PgClient { address, stream: BufReader::new(stream), key: Vec::new() };
        client.send(&packet(VERSION, b"user\0default\0database\0quipu\0\0"))?;
        let answer = client.answer(b"")?;
        match answer.error {
            Some((code, message)) => Err(io::Error::other(format!("it may not come in: {code} {message}"))),
            None => Ok(client),
        }
    }

    /// Runs the statements of a text as a simple query. A COPY that asks for data is refused them.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn ask(&mut self, text: &str) -> io::Result<PgAnswer> {
        self.begin(text)?;
        self.answer(b"")
    }

    /// Runs a COPY from the client with these data.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn copy_in(&mut self, text: &str, data: &[u8]) -> io::Result<PgAnswer> {
        self.begin(text)?;
        self.answer(data)
    }

    /// Runs a prepared statement with parameters as texts. Its portal gives so many rows at a time, up to so many
    /// times; 0 rows are all.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn execute(&mut self, text: &str, parameters: &[&str], rows: u32, times: usize) -> io::Result<PgAnswer> {
        let mut bind = b"\0\0\0\0".to_vec();
        bind.extend((parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            bind.extend((parameter.len() as u32).to_be_bytes());
            bind.extend(parameter.as_bytes());
        }
        bind.extend([0, 0]);
        let run = message(b'E', &[&[0][..], &rows.to_be_bytes()].concat());
        let parse = message(b'P', &[&[0][..], text.as_bytes(), &[0, 0, 0]].concat());
        let sent = [parse, message(b'B', &bind), run.repeat(times.max(1)), message(b'S', b"")].concat();
        self.send(&sent)?;
        self.answer(b"")
    }

    /// Sends a simple query, and does not wait for its answer.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn begin(&mut self, text: &str) -> io::Result<()> {
        self.send(&message(b'Q', &[text.as_bytes(), &[0]].concat()))
    }

    /// What cancels its statements.
    pub fn cancel_key(&self) -> CancelKey {
        CancelKey { address: self.address, key: self.key.clone() }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// What comes until the server is ready. A COPY is given these data, and refused if they are empty.
    ///
    /// # Errors
    /// Those of the connection, and if what comes is not of the protocol.
    pub fn answer(&mut self, data: &[u8]) -> io::Result<PgAnswer> {
        let mut answer = PgAnswer::default();
        loop {
            let (kind, body) = self.next()?;
            match kind {
                b'D' => answer.rows.push(row(&body).ok_or_else(|| garbage("a row"))?),
                b'd' => answer.rows.push(vec![Some(text(&body).trim_end_matches('\n').to_owned())]),
                b'C' => answer.tags.push(text(&body)),
                b'E' => {
                    let field = |letter| body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[letter]));
                    let told = |letter| field(letter).map(text).unwrap_or_default();
                    let (severity, error) = (told(b'S'), (told(b'C'), told(b'M')));
                    if severity == "FATAL" {
                        return Err(io::Error::other(Fatal { code: error.0, message: error.1 }));
                    }
                    answer.error.get_or_insert(error);
                }
                b'G' if data.is_empty() => self.send(&message(b'f', b"no data\0"))?,
                b'G' => self.send(&[message(b'd', data), message(b'c', b"")].concat())?,
                b'K' => self.key = body,
                b'Z' => {
                    answer.status = body.first().map_or('?', |status| char::from(*status));
                    return Ok(answer);
                }
                b'R' | b'S' | b'N' | b'T' | b't' | b'n' | b'1' | b'2' | b'3' | b's' | b'I' | b'H' | b'c' | b'A' => {}
                _ => return Err(garbage("a message")),
            }
        }
    }

    fn next(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(garbage("a length"));
        }
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

fn garbage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not of the protocol"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

fn packet(number: u32, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], &number.to_be_bytes(), body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A row from its message.
fn row(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_at_checked(2)?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(count.try_into().ok()?) {
        let (length, after) = rest.split_at_checked(4)?;
        let length = i32::from_be_bytes(length.try_into().ok()?);
        let (value, after) = after.split_at_checked(length.max(0) as usize)?;
        values.push((length >= 0).then(|| text(value)));
        rest = after;
    }
    Some(values)
}

#[test]
fn rows_are_read_and_what_is_cut_is_not() {
    let body = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
    assert_eq!(row(body), Some(vec![Some("ab".to_owned()), None, Some(String::new())]));
    assert!((0..body.len()).all(|length| row(&body[..length]).is_none()));
}
