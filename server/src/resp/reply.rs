//! Answers, encoded in either version of the protocol as commands give them.
//!
//! What version 2 has no type for is sent in its own types, as Redis does: a map as an array of keys and values, a
//! boolean as 0 or 1, a floating-point number as text.
//!
//! Cost: the bytes. An aggregate whose length was not known when it began costs one move of its bytes if it has ten
//! elements or more. Not here: when the bytes are sent.

use super::number;

/// A version of the protocol; a client asks for it with `HELLO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// The version of Redis 1.2 to 5, and where every connection starts.
    Resp2,
    /// The version of Redis 6.
    Resp3,
}

/// What has elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// Elements in order.
    Array,
    /// Keys, each followed by its value. Its length is the number of pairs.
    Map,
    /// Elements without order or repetition.
    Set,
    /// What no command asked for, such as a published message.
    Push,
}

/// An aggregate whose length [`Reply::fill`] will say.
#[derive(Debug)]
#[must_use = "a reply is malformed until the length is filled in"]
pub struct Later {
    at: usize,
    kind: Aggregate,
    depth: usize,
}

/// Answers, encoded as they are given.
#[derive(Debug)]
pub struct Reply {
    /// The answers so far. They may be taken away once nothing is left to [`fill`](Reply::fill).
    pub bytes: Vec<u8>,
    /// The version in which the next answers are encoded.
    pub protocol: Protocol,
    errors: u64,
    /// How many aggregates wait for their length.
    open: usize,
}

impl Reply {
    /// No answers.
    pub fn new(protocol: Protocol) -> Self {
        Reply { bytes: Vec::new(), protocol, errors: 0, open: 0 }
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text, without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, from its code on: `ERR syntax error`. Line ends at either end are dropped, those inside become spaces.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.errors += 1;
        self.line(b'-', text.as_ref());
    }

    /// How many errors were answered.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        if number >= 0 {
            self.header(b':', number as u64);
        } else {
            self.bytes.push(b':');
            number::write_i64(&mut self.bytes, number);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        // Both frames fit, so that memory is asked for once.
        self.bytes.reserve(bytes.len() + number::INTEGER_BYTES_MAX + 5);
        self.header(b'$', bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Any bytes, `len` of them, which `write` appends.
    pub fn bulk_of<E>(&mut self, len: u64, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.bytes.reserve(len as usize + number::INTEGER_BYTES_MAX + 5);
        self.header(b'$', len);
        write(&mut self.bytes)?;
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Begins `len` bytes, which are appended later, as is the end of the line.
    pub fn begin_bulk(&mut self, len: u64) {
        self.header(b'$', len);
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.by_protocol(b"$-1\r\n", b"_\r\n");
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.by_protocol(b"*-1\r\n", b"_\r\n");
    }

    /// An array: `len` answers follow, its elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as u64);
    }

    /// A map: `pairs` times two answers follow, a key and its value.
    pub fn map(&mut self, pairs: usize) {
        self.aggregate(Aggregate::Map, pairs);
    }

    /// A set: `len` answers follow, its elements.
    pub fn set(&mut self, len: usize) {
        self.aggregate(Aggregate::Set, len);
    }

    /// A message that answers no command: `len` answers follow, its elements.
    pub fn push(&mut self, len: usize) {
        self.aggregate(Aggregate::Push, len);
    }

    /// An aggregate of any kind.
    #[inline]
    pub fn aggregate(&mut self, kind: Aggregate, len: usize) {
        let (mark, len) = self.mark(kind, len);
        self.header(mark, len);
    }

    /// An aggregate whose length is not known yet. Its elements follow, then [`fill`](Reply::fill).
    pub fn later(&mut self, kind: Aggregate) -> Later {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&PLACEHOLDER);
        self.open += 1;
        Later { at, kind, depth: self.open }
    }

    /// Says the length of an aggregate: how many elements, or pairs of a map, were answered since it began.
    ///
    /// # Panics
    /// If another one began later and is not filled.
    pub fn fill(&mut self, later: Later, len: usize) {
        // Filling moves what is after, so a later one would not find its place.
        assert_eq!(later.depth, self.open, "the last aggregate is filled first");
        self.open -= 1;
        let (mark, len) = self.mark(later.kind, len);
        let mut room = [0; number::INTEGER_BYTES_MAX];
        let digits = number::digits(&mut room, len);
        self.bytes[later.at] = mark;
        if let &[digit] = digits {
            self.bytes[later.at + 1] = digit;
        } else {
            self.bytes.splice(later.at + 1..later.at + 2, digits.iter().copied());
        }
    }

    /// A floating-point number.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => self.double_bulk(number),
            Protocol::Resp3 => {
                self.bytes.push(b',');
                number::write_f64(&mut self.bytes, number);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A truth value.
    pub fn boolean(&mut self, value: bool) {
        if value {
            self.by_protocol(b":1\r\n", b"#t\r\n");
        } else {
            self.by_protocol(b":0\r\n", b"#f\r\n");
        }
    }

    /// A text that a client shows as it is. Its format is `txt` or `mkd`.
    ///
    /// # Panics
    /// If the format has not three bytes.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        assert_eq!(format.len(), 3, "the format {format}");
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as u64 + 4);
                self.bytes.extend_from_slice(format.as_bytes());
                self.bytes.push(b':');
                self.bytes.extend_from_slice(text);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer of any size, in decimal digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// An integer as text.
    pub fn integer_bulk(&mut self, number: i64) {
        let mut room = [0; number::INTEGER_BYTES_MAX];
        let digits = number::digits(&mut room, number.unsigned_abs());
        let sign = number < 0;
        self.header(b'$', digits.len() as u64 + u64::from(sign));
        if sign {
            self.bytes.push(b'-');
        }
        self.bytes.extend_from_slice(digits);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A floating-point number as text, in either version.
    pub fn double_bulk(&mut self, number: f64) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(b"$00\r\n");
        let start = self.bytes.len();
        number::write_f64(&mut self.bytes, number);
        let len = self.bytes.len() - start;
        if len < 10 {
            self.bytes[at + 2] = b'0' + len as u8;
            self.bytes.remove(at + 1);
        } else {
            // At most 24 bytes: sign, 17 digits, point, and an exponent of five.
            self.bytes[at + 1] = b'0' + (len / 10) as u8;
            self.bytes[at + 2] = b'0' + (len % 10) as u8;
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn mark(&self, kind: Aggregate, len: usize) -> (u8, u64) {
        let len = len as u64;
        match (kind, self.protocol) {
            (Aggregate::Array, _) | (Aggregate::Set | Aggregate::Push, Protocol::Resp2) => (b'*', len),
            (Aggregate::Map, Protocol::Resp2) => (b'*', 2 * len),
            (Aggregate::Map, Protocol::Resp3) => (b'%', len),
            (Aggregate::Set, Protocol::Resp3) => (b'~', len),
            (Aggregate::Push, Protocol::Resp3) => (b'>', len),
        }
    }

    #[inline]
    fn header(&mut self, mark: u8, number: u64) {
        if number < 10 {
            self.bytes.extend_from_slice(&[mark, b'0' + number as u8, b'\r', b'\n']);
        } else {
            self.bytes.push(mark);
            number::write_u64(&mut self.bytes, number);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn by_protocol(&mut self, second: &[u8], third: &[u8]) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => second,
            Protocol::Resp3 => third,
        });
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = text.iter().position(|byte| !is_line_end(byte)).unwrap_or(text.len());
        let end = text.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
        self.bytes.push(mark);
        self.bytes.extend(text[start..end].iter().map(|byte| if is_line_end(byte) { b' ' } else { *byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// The header of an aggregate whose length is a digit.
const PLACEHOLDER: [u8; 4] = *b"*0\r\n";

#[cfg(test)]
mod tests {
    use super::{Aggregate, Protocol, Reply};

    fn check(answer: impl Fn(&mut Reply), second: &str, third: &str) {
        for (protocol, expected) in [(Protocol::Resp2, second), (Protocol::Resp3, third)] {
            let mut reply = Reply::new(protocol);
            answer(&mut reply);
            assert_eq!(String::from_utf8_lossy(&reply.bytes), expected, "{protocol:?}");
        }
    }

    #[test]
    fn the_same_in_both() {
        for (answer, expected) in [
            ((|reply| reply.ok()) as fn(&mut Reply), "+OK\r\n"),
            (|reply| reply.simple("PONG"), "+PONG\r\n"),
            (|reply| reply.integer(0), ":0\r\n"),
            (|reply| reply.integer(-7), ":-7\r\n"),
            (|reply| reply.integer(1234567), ":1234567\r\n"),
            (|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n"),
            (|reply| reply.bulk(b""), "$0\r\n\r\n"),
            (|reply| reply.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n"),
            (|reply| reply.bulk(b"0123456789"), "$10\r\n0123456789\r\n"),
            (|reply| reply.array(0), "*0\r\n"),
            (|reply| reply.array(100), "*100\r\n"),
            (|reply| reply.integer_bulk(-10), "$3\r\n-10\r\n"),
            (|reply| reply.integer_bulk(i64::MIN), "$20\r\n-9223372036854775808\r\n"),
            (|reply| reply.double_bulk(3.5), "$3\r\n3.5\r\n"),
            (|reply| reply.double_bulk(0.1), "$19\r\n0.10000000000000001\r\n"),
            (|reply| reply.double_bulk(-f64::MIN_POSITIVE), "$24\r\n-2.2250738585072014e-308\r\n"),
            (|reply| reply.error("ERR syntax error"), "-ERR syntax error\r\n"),
            (|reply| reply.error("\r\nERR a\r\nb\n"), "-ERR a  b\r\n"),
            (|reply| reply.error(b"ERR a\nb"), "-ERR a b\r\n"),
            (|reply| reply.error("\r"), "-\r\n"),
        ] {
            check(answer, expected, expected);
        }
    }

    #[test]
    fn each_in_its_way() {
        for (answer, second, third) in [
            ((|reply| reply.null()) as fn(&mut Reply), "$-1\r\n", "_\r\n"),
            (|reply| reply.null_array(), "*-1\r\n", "_\r\n"),
            (|reply| reply.map(2), "*4\r\n", "%2\r\n"),
            (|reply| reply.map(5), "*10\r\n", "%5\r\n"),
            (|reply| reply.set(3), "*3\r\n", "~3\r\n"),
            (|reply| reply.push(3), "*3\r\n", ">3\r\n"),
            (|reply| reply.boolean(true), ":1\r\n", "#t\r\n"),
            (|reply| reply.boolean(false), ":0\r\n", "#f\r\n"),
            (|reply| reply.verbatim("txt", b"ab"), "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
            (|reply| reply.big_number("-123"), "$4\r\n-123\r\n", "(-123\r\n"),
            (|reply| reply.double(3.0), "$1\r\n3\r\n", ",3\r\n"),
            (|reply| reply.double(-0.0), "$2\r\n-0\r\n", ",-0\r\n"),
            (|reply| reply.double(1.1), "$18\r\n1.1000000000000001\r\n", ",1.1000000000000001\r\n"),
            (|reply| reply.double(1e21), "$5\r\n1e+21\r\n", ",1e+21\r\n"),
            (|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        ] {
            check(answer, second, third);
        }
    }

    #[test]
    fn lengths_said_later() {
        for (outer_len, inner_len) in [(1, 0), (9, 9), (10, 9), (9, 10), (12, 1000), (1234, 12)] {
            let answer = |reply: &mut Reply| {
                reply.ok();
                let outer = reply.later(Aggregate::Array);
                reply.integer(1);
                let inner = reply.later(Aggregate::Map);
                reply.integer(2);
                reply.fill(inner, inner_len);
                reply.bulk(b"three");
                let last = reply.later(Aggregate::Set);
                reply.fill(last, inner_len);
                reply.fill(outer, outer_len);
                reply.ok();
            };
            let expected = |map: &str, set: &str| {
                format!("+OK\r\n*{outer_len}\r\n:1\r\n{map}\r\n:2\r\n$5\r\nthree\r\n{set}{inner_len}\r\n+OK\r\n")
            };
            check(answer, &expected(&format!("*{}", 2 * inner_len), "*"), &expected(&format!("%{inner_len}"), "~"));
        }
    }

    #[test]
    #[should_panic = "filled first"]
    fn lengths_out_of_order() {
        let mut reply = Reply::new(Protocol::Resp2);
        let outer = reply.later(Aggregate::Array);
        let _inner = reply.later(Aggregate::Array);
        reply.fill(outer, 1);
    }

    #[test]
    fn errors_are_counted() {
        let mut reply = Reply::new(Protocol::Resp3);
        reply.error("ERR one");
        reply.ok();
        reply.error("ERR two");
        assert_eq!(reply.errors(), 2);
    }
}
