//! A client of servers that speak RESP2 or RESP3: it sends words, reads a reply, and shows it the way `redis-cli` does.
//!
//! Replies are read with suspicion: lengths and nesting are bounded, nothing is reserved before it has arrived, and
//! what breaks the protocol ends the connection with a message.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::interrupts::Stop;

/// Arrays within arrays, at most.
const NESTING_MAX: usize = 64;
/// The most bytes of a line of the protocol.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The most bytes of one text.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Who asks the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// The user to log in as, with --password; else `default`
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The password to log in with; else QUIPU_PASSWORD of the environment, which other users of the system do not see
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

impl Login {
    /// Whether anything was given on the command line.
    pub(crate) fn is_given(&self) -> bool {
        self.user.is_some() || self.password.is_some()
    }

    /// The words that log in, if there is a password.
    fn words(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let password = self.password.clone().or_else(|| std::env::var("QUIPU_PASSWORD").ok());
        match (&self.user, password.filter(|password| !password.is_empty())) {
            (_, Some(password)) => {
                let words = [Some("AUTH".to_owned()), self.user.clone(), Some(password)];
                Ok(Some(words.into_iter().flatten().map(String::into_bytes).collect()))
            }
            (Some(_), None) => Err(Failure::Usage(
                "--user needs a password: --password, or QUIPU_PASSWORD of the environment".to_owned(),
            )),
            (None, None) => Ok(None),
        }
    }
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// A short text of the server itself, such as `OK`.
    Status(Vec<u8>),
    /// Why the command was refused.
    Error(Vec<u8>),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, as it was written.
    Double(Vec<u8>),
    /// A number of any size, as it was written.
    BigNumber(Vec<u8>),
    /// Yes or no.
    Boolean(bool),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Text for people.
    Verbatim(Vec<u8>),
    /// Nothing.
    Nil,
    /// Replies in order.
    Array(Vec<Reply>),
    /// Replies in no order.
    Set(Vec<Reply>),
    /// Keys with values.
    Map(Vec<(Reply, Reply)>),
    /// A message that answers no request.
    Push(Vec<Reply>),
}

impl Reply {
    /// The text of a reply that is one.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Reply::Status(bytes) | Reply::Bulk(bytes) | Reply::Verbatim(bytes) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        }
    }

    /// Writes the reply and a line break; bytes of one text are written unchanged if `raw`.
    pub(crate) fn print(&self, out: &mut dyn Write, raw: bool) -> io::Result<()> {
        match self {
            Reply::Verbatim(bytes) => print_raw(out, bytes),
            Reply::Bulk(bytes) if raw => print_raw(out, bytes),
            other => {
                let mut text = Vec::new();
                other.show("", &mut text);
                out.write_all(&text)
            }
        }
    }

    /// Appends the reply in lines, all but the first with `prefix` before them.
    fn show(&self, prefix: &str, text: &mut Vec<u8>) {
        match self {
            Reply::Status(bytes) => text.extend_from_slice(bytes),
            Reply::Error(bytes) => text.extend([b"(error) ", bytes.as_slice()].concat()),
            Reply::Integer(number) => text.extend_from_slice(format!("(integer) {number}").as_bytes()),
            Reply::Double(bytes) => text.extend([b"(double) ", bytes.as_slice()].concat()),
            Reply::BigNumber(bytes) => text.extend([b"(big number) ", bytes.as_slice()].concat()),
            Reply::Boolean(value) => text.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
            Reply::Bulk(bytes) => text.extend_from_slice(quote(bytes).as_bytes()),
            Reply::Verbatim(bytes) => text.extend_from_slice(bytes),
            Reply::Nil => text.extend_from_slice(b"(nil)"),
            Reply::Array(items) => return show_items(items, ("(empty array)", ')'), prefix, text),
            Reply::Push(items) => return show_items(items, ("(empty push)", ')'), prefix, text),
            Reply::Set(items) => return show_items(items, ("(empty set)", '~'), prefix, text),
            Reply::Map(pairs) => return show_pairs(pairs, prefix, text),
        }
        text.push(b'\n');
    }
}

/// Writes bytes unchanged, followed by a line break if they do not end in one.
fn print_raw(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    if bytes.ends_with(b"\n") { Ok(()) } else { out.write_all(b"\n") }
}

fn show_items(items: &[Reply], (empty, mark): (&str, char), prefix: &str, text: &mut Vec<u8>) {
    let width = items.len().to_string().len();
    let inner = format!("{prefix}{}", " ".repeat(width + 2));
    if items.is_empty() {
        text.extend_from_slice(format!("{empty}\n").as_bytes());
    }
    for (place, item) in items.iter().enumerate() {
        let before = if place == 0 { "" } else { prefix };
        text.extend_from_slice(format!("{before}{:>width$}{mark} ", place + 1).as_bytes());
        item.show(&inner, text);
    }
}

fn show_pairs(pairs: &[(Reply, Reply)], prefix: &str, text: &mut Vec<u8>) {
    let width = pairs.len().to_string().len();
    let inner = format!("{prefix}{}", " ".repeat(width + 2));
    if pairs.is_empty() {
        text.extend_from_slice(b"(empty hash)\n");
    }
    for (place, (key, value)) in pairs.iter().enumerate() {
        let before = if place == 0 { "" } else { prefix };
        text.extend_from_slice(format!("{before}{:>width$}# ", place + 1).as_bytes());
        key.show(&inner, text);
        text.pop();
        text.extend_from_slice(b" => ");
        value.show(&inner, text);
    }
}

/// Bytes in quotes, all that is not printable ASCII escaped.
fn quote(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// The words of a line as `redis-cli` reads it: `"a \x00\n"` with escapes, `'a'` with `\'` alone, none elsewhere.
pub(crate) fn words(line: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        let mut quote = None;
        while let Some((&byte, after)) = rest.split_first() {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, byte) if byte.is_ascii_whitespace() => break,
                (Some(mark), byte) if mark == byte => {
                    if after.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return Err(Failure::new("a blank must follow a closing quote"));
                    }
                    quote = None;
                }
                (Some(b'"'), b'\\') if !after.is_empty() => {
                    let (byte, length) = unescape(after);
                    word.push(byte);
                    rest = &after[length..];
                    continue;
                }
                (Some(b'\''), b'\\') if after.first() == Some(&b'\'') => {
                    word.push(b'\'');
                    rest = &after[1..];
                    continue;
                }
                (_, byte) => word.push(byte),
            }
            rest = after;
        }
        if quote.is_some() {
            return Err(Failure::new("a quote is opened and never closed"));
        }
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

/// The byte that follows a backslash within `text`, and how many bytes tell it.
fn unescape(text: &[u8]) -> (u8, usize) {
    let digit = |place: usize| text.get(place).and_then(|&byte| (byte as char).to_digit(16));
    match text.first() {
        Some(b'x') => match (digit(1), digit(2)) {
            (Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
            _ => (b'x', 1),
        },
        Some(b'n') => (b'\n', 1),
        Some(b'r') => (b'\r', 1),
        Some(b't') => (b'\t', 1),
        Some(b'b') => (0x08, 1),
        Some(b'a') => (0x07, 1),
        Some(&other) => (other, 1),
        None => (b'\\', 0),
    }
}

/// A connection to a server.
pub(crate) struct Remote {
    address: String,
    input: BufReader<TcpStream>,
}

impl Remote {
    /// Connects to `HOST:PORT`, or to the usual port of a host, and logs in if there is a password; a reply may take so
    /// long.
    pub(crate) fn connect(address: &str, login: &Login, timeout: Option<Duration>) -> Result<Remote> {
        let words = login.words()?;
        let address = &with_port(address)?;
        let stream = open(address)
            .and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(timeout)?;
                Ok(stream)
            })
            .map_err(|error| Failure::new(format!("cannot connect to {address}: {error}")))?;
        let mut remote = Remote { address: address.to_owned(), input: BufReader::new(stream) };
        if let Some(words) = words
            && let Reply::Error(message) = remote.ask(&words)?
        {
            let message = String::from_utf8_lossy(&message).into_owned();
            return Err(Failure::new(format!("cannot log in at {address}: {message}")));
        }
        Ok(remote)
    }

    /// The address as it was given.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What ends the connection, from another thread, and so the wait for a reply.
    pub(crate) fn stop(&self) -> Result<Stop> {
        let stream = self.input.get_ref().try_clone();
        let stream = stream.map_err(|error| Failure::new(format!("the connection to {}: {error}", self.address)))?;
        // One that is closed already needs no end.
        Ok(Box::new(move || drop(stream.shutdown(Shutdown::Both))))
    }

    /// Sends a command and reads its reply. An error means that the connection is of no more use.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let reply = self.input.get_mut().write_all(&request).and_then(|()| read_reply(&mut self.input));
        reply.map_err(|error| {
            let address = &self.address;
            Failure::new(match error.kind() {
                io::ErrorKind::InvalidData => format!("{address} broke the protocol: {error}"),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("{address} does not answer"),
                io::ErrorKind::UnexpectedEof => format!("the connection to {address} was lost: the server closed it"),
                _ => format!("the connection to {address} was lost: {error}"),
            })
        })
    }
}

/// The port of Redis servers.
const USUAL_PORT: u16 = 6379;

/// An address with its port: the usual one if it has none.
fn with_port(address: &str) -> Result<String> {
    if let Some((scheme, _)) = address.split_once("://") {
        // The rest may have a password.
        let text = format!("a server is given as HOST:PORT, not as a URL of {scheme}, with --user and --password");
        return Err(Failure::Usage(text));
    }
    let is_bare_v6 = address.parse::<std::net::Ipv6Addr>().is_ok();
    Ok(if is_bare_v6 {
        format!("[{address}]:{USUAL_PORT}")
    } else if address.starts_with(':') {
        format!("localhost{address}")
    } else if address.contains(':') && !address.ends_with(']') {
        address.to_owned()
    } else {
        format!("{address}:{USUAL_PORT}")
    })
}

/// Connects to the first address of a name that accepts.
fn open(address: &str) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn broken(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Reads a reply.
fn read_reply(input: &mut impl BufRead) -> io::Result<Reply> {
    read_nested(input, 0)
}

fn read_nested(input: &mut impl BufRead, depth: usize) -> io::Result<Reply> {
    if depth > NESTING_MAX {
        return Err(broken(format!("arrays are nested more than {NESTING_MAX} deep")));
    }
    loop {
        let line = read_line(input)?;
        let Some((&kind, rest)) = line.split_first() else { return Err(broken("an empty line")) };
        if line.starts_with(b"HTTP/") {
            return Err(broken("it speaks HTTP there; give the port for Redis clients (`quipu serve --port`)"));
        }
        return Ok(match kind {
            b'+' => Reply::Status(rest.to_vec()),
            b'-' => Reply::Error(rest.to_vec()),
            b':' => Reply::Integer(number(rest)?),
            b',' => Reply::Double(rest.to_vec()),
            b'(' => Reply::BigNumber(rest.to_vec()),
            b'#' => match rest {
                b"t" => Reply::Boolean(true),
                b"f" => Reply::Boolean(false),
                _ => return Err(broken("a boolean that is neither true nor false")),
            },
            b'_' => Reply::Nil,
            b'$' => read_text(input, rest)?.map_or(Reply::Nil, Reply::Bulk),
            b'!' => read_text(input, rest)?.map_or(Reply::Nil, Reply::Error),
            b'=' => match read_text(input, rest)? {
                // Three letters and a colon tell the kind of text.
                Some(text) => Reply::Verbatim(text.get(4..).unwrap_or_default().to_vec()),
                None => Reply::Nil,
            },
            b'*' => read_items(input, rest, depth)?.map_or(Reply::Nil, Reply::Array),
            b'~' => read_items(input, rest, depth)?.map_or(Reply::Nil, Reply::Set),
            b'>' => read_items(input, rest, depth)?.map_or(Reply::Nil, Reply::Push),
            b'%' => Reply::Map(read_pairs(input, rest, depth)?),
            // Attributes stand before the reply they tell about.
            b'|' => {
                read_pairs(input, rest, depth)?;
                continue;
            }
            b'H' if rest.starts_with(b"TTP/") => {
                return Err(broken("it speaks HTTP: give the port for Redis clients (`--port` of `quipu serve`)"));
            }
            other => return Err(broken(format!("a reply of no known kind: \"{}\"", other.escape_ascii()))),
        });
    }
}

/// A line without its end.
fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(match line.len() as u64 {
            LINE_BYTES_MAX => broken("a line is too long"),
            _ => io::ErrorKind::UnexpectedEof.into(),
        });
    }
    line.pop();
    if line.pop() == Some(b'\r') { Ok(line) } else { Err(broken("a line does not end as lines must")) }
}

fn number(text: &[u8]) -> io::Result<i64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| broken(format!("\"{}\" is not a number", text.escape_ascii())))
}

/// How many bytes or items follow, `None` for nil.
fn length(text: &[u8]) -> io::Result<Option<u64>> {
    match number(text)? {
        -1 => Ok(None),
        length => u64::try_from(length).map(Some).map_err(|_| broken(format!("a length of {length}"))),
    }
}

fn read_text(input: &mut impl BufRead, rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = length(rest)? else { return Ok(None) };
    if length > TEXT_BYTES_MAX {
        return Err(broken(format!("a text of {length} bytes")));
    }
    let mut text = Vec::new();
    input.by_ref().take(length + 2).read_to_end(&mut text)?;
    if text.len() as u64 != length + 2 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !text.ends_with(b"\r\n") {
        return Err(broken("a text does not end where it said"));
    }
    text.truncate(text.len() - 2);
    Ok(Some(text))
}

fn read_items(input: &mut impl BufRead, rest: &[u8], depth: usize) -> io::Result<Option<Vec<Reply>>> {
    let Some(length) = length(rest)? else { return Ok(None) };
    let mut items = Vec::new();
    for _ in 0..length {
        items.push(read_nested(input, depth + 1)?);
    }
    Ok(Some(items))
}

fn read_pairs(input: &mut impl BufRead, rest: &[u8], depth: usize) -> io::Result<Vec<(Reply, Reply)>> {
    let mut pairs = Vec::new();
    for _ in 0..length(rest)?.unwrap_or(0) {
        pairs.push((read_nested(input, depth + 1)?, read_nested(input, depth + 1)?));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        read_reply(&mut &bytes[..]).unwrap().print(&mut text, false).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_server_is_named_with_or_without_its_port() {
        for (given, address) in [
            ("localhost", "localhost:6379"),
            (":7000", "localhost:7000"),
            ("127.0.0.1", "127.0.0.1:6379"),
            ("127.0.0.1:7000", "127.0.0.1:7000"),
            ("::1", "[::1]:6379"),
            ("[::1]", "[::1]:6379"),
            ("[::1]:7000", "[::1]:7000"),
        ] {
            assert_eq!(with_port(given).unwrap(), address);
        }
        let told = with_port("redis://me:secret@localhost:6379").unwrap_err().to_string();
        assert!(told.contains("given as HOST:PORT") && !told.contains("secret"), "{told}");
        let told = read_reply(&mut &b"HTTP/1.1 400 Bad Request\r\n"[..]).unwrap_err().to_string();
        assert!(told.contains("it speaks HTTP"), "{told}");
    }

    #[test]
    fn replies_look_as_redis_cli_shows_them() {
        assert_eq!(shown(b"+OK\r\n"), "OK\n");
        assert_eq!(shown(b":3\r\n"), "(integer) 3\n");
        assert_eq!(shown(b"$4\r\na\"\n\xff\r\n"), "\"a\\\"\\n\\xff\"\n");
        assert_eq!(shown(b"-ERR no\r\n"), "(error) ERR no\n");
        assert_eq!((shown(b"$-1\r\n"), shown(b"_\r\n")), ("(nil)\n".to_owned(), "(nil)\n".to_owned()));
        assert_eq!(shown(b"*0\r\n"), "(empty array)\n");
        assert_eq!(
            shown(b"*2\r\n*2\r\n:1\r\n:2\r\n%2\r\n+k\r\n$1\r\nv\r\n+l\r\n,1.5\r\n"),
            "1) 1) (integer) 1\n   2) (integer) 2\n2) 1# k => \"v\"\n   2# l => (double) 1.5\n"
        );
        assert_eq!(shown(b"|1\r\n+a\r\n+b\r\n~1\r\n#t\r\n"), "1~ (true)\n");
        assert_eq!(shown(b"=6\r\ntxt:hi\r\n"), "hi\n");
    }

    #[test]
    fn broken_replies_are_errors() {
        let deep = "*1\r\n".repeat(100_000);
        for bytes in
            ["", "\r\n", "?1\r\n", ":x\r\n", "$-2\r\n", "$2\r\nabc\r\n", "$9\r\nab", "*2\r\n:1\r\n", ":1\n", &deep]
        {
            assert!(read_reply(&mut bytes.as_bytes()).is_err(), "{bytes:.20}");
        }
        assert!(read_reply(&mut &b"*9000000000000000000\r\n"[..]).is_err());
        assert!(read_reply(&mut &b"$9000000000000000000\r\n"[..]).is_err());
    }

    #[test]
    fn lines_split_as_redis_cli_splits_them() {
        let split = |line: &str| words(line.as_bytes()).map(|words| words.join(&b'|').escape_ascii().to_string());
        assert_eq!(split("  set a  1 ").unwrap(), "set|a|1");
        assert_eq!(split(r#"set "a \x00\n\"" 'b\'\n' c\n"#).unwrap(), r#"set|a \x00\n\"|b\'\\n|c\\n"#);
        assert_eq!(split(r#"echo """#).unwrap(), "echo|");
        assert!(split("a \"b").is_err() && split("a 'b'c").is_err() && split("\"\\").is_err());
    }
}
