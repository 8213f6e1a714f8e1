//! Requests, found in the bytes that a client sent: arrays of bulk strings, or lines of words.
//!
//! A [`Parser`] notes where the arguments lie, in a [`Batch`] that takes many commands of a pipeline; it copies nothing
//! but words with quotes. What it accepts and how it words its refusals is Redis 7.0's doing, whatever pieces the bytes
//! come in. Differences from Redis: a zero byte is a byte like any other (Redis waits for more input then, until there
//! is too much); a line that is too long is refused even if its end comes in the same read.
//!
//! 1. Where a command ends depends on its bytes and the limits only, never on how they were cut into reads.
//! 2. No byte of an argument is looked at, and no byte of a command read twice, but for the start of the one command
//!    that was cut off by the end of a read.
//! 3. What is allocated is in proportion to what has come, not to what a count announces.
//!
//! Costs: 15 ns for a `SET` in a pipeline, 5 ns for each argument of a long command. Not here: what the arguments mean;
//! when a connection closes (`net/input.rs`).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::number::parse_i64;

/// Spans that an empty batch or parser keeps memory for, so that one huge command does not cost memory for ever.
const KEPT_SPANS: usize = 16 * 1024;
/// Bytes of unescaped words that an empty batch keeps memory for.
const KEPT_BYTES: usize = 64 * 1024;
/// What clients may send before they are authenticated.
const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// Bounds on what a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Arguments of one command, its name included.
    pub arguments_max: usize,
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Bytes of a line, its end not included. Lines with numbers of up to three digits are never too long.
    pub inline_bytes_max: usize,
    /// If not, 10 arguments and 16 KiB are the most, with an error text of their own.
    pub is_authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            arguments_max: i32::MAX as usize,
            bulk_bytes_max: 512 * 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            is_authenticated: true,
        }
    }
}

impl Limits {
    /// For a client that has still to authenticate.
    pub fn unauthenticated() -> Self {
        Limits { is_authenticated: false, ..Limits::default() }
    }

    /// The most arguments, and the most bytes of one.
    fn effective(&self) -> (usize, usize) {
        if self.is_authenticated {
            (self.arguments_max, self.bulk_bytes_max)
        } else {
            (
                self.arguments_max.min(UNAUTHENTICATED_ARGUMENTS_MAX),
                self.bulk_bytes_max.min(UNAUTHENTICATED_BULK_BYTES_MAX),
            )
        }
    }
}

/// Why a client's bytes are not a request. There is no way to tell where the next one starts, so the connection should
/// be closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count of arguments is no number, or too large.
    InvalidMultibulkLength,
    /// The length of an argument is no number, negative or too large.
    InvalidBulkLength,
    /// Too many arguments for a client that is not authenticated.
    UnauthenticatedMultibulkLength,
    /// Too long an argument for a client that is not authenticated.
    UnauthenticatedBulkLength,
    /// An argument starts with this byte.
    ExpectedBulk(u8),
    /// The line with the count of arguments does not end.
    TooBigCount,
    /// The line with the length of an argument does not end.
    TooBigBulkCount,
    /// A line of words does not end.
    TooBigInline,
    /// A line of words has a quote that does not close, or closes inside a word.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The error as Redis words it, without the code `ERR`. Bytes, as it may quote any byte.
    pub fn text(&self) -> Cow<'static, [u8]> {
        Cow::Borrowed(match self {
            ProtocolError::InvalidMultibulkLength => b"Protocol error: invalid multibulk length",
            ProtocolError::InvalidBulkLength => b"Protocol error: invalid bulk length",
            ProtocolError::UnauthenticatedMultibulkLength => b"Protocol error: unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => b"Protocol error: unauthenticated bulk length",
            ProtocolError::ExpectedBulk(byte) => {
                return Cow::Owned([&b"Protocol error: expected '$', got '"[..], &[*byte, b'\'']].concat());
            }
            ProtocolError::TooBigCount => b"Protocol error: too big mbulk count string",
            ProtocolError::TooBigBulkCount => b"Protocol error: too big bulk count string",
            ProtocolError::TooBigInline => b"Protocol error: too big inline request",
            ProtocolError::UnbalancedQuotes => b"Protocol error: unbalanced quotes in request",
        })
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl Error for ProtocolError {}

/// An argument's place: [`Batch::argument`] has its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// With [`UNESCAPED`], in the batch's own bytes; without, in the input.
    start: usize,
    end: usize,
}

/// No input is so long.
const UNESCAPED: usize = 1 << (usize::BITS - 1);

impl Span {
    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - (self.start & !UNESCAPED)
    }

    /// Whether the argument is the empty text.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Commands found in one input: the arguments of all of them, and where those of each end.
#[derive(Debug, Default)]
pub struct Batch {
    spans: Vec<Span>,
    ends: Vec<usize>,
    /// Where each command ends in the input.
    input_ends: Vec<usize>,
    /// Words that had quotes.
    unescaped: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Forgets the commands, and keeps the memory unless that is much. To be done before another input is parsed.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.ends.shrink_to(KEPT_SPANS);
        self.input_ends.clear();
        self.input_ends.shrink_to(KEPT_SPANS);
        self.spans.clear();
        self.spans.shrink_to(KEPT_SPANS);
        self.unescaped.clear();
        self.unescaped.shrink_to(KEPT_BYTES);
    }

    /// How many commands.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no command.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where a command ends in the input: the first byte after it.
    pub fn end_of(&self, number: usize) -> usize {
        self.input_ends[number]
    }

    /// The arguments of a command, its name first: one at least. Commands are numbered from 0.
    ///
    /// # Panics
    /// If there is no such command.
    #[inline]
    pub fn command(&self, number: usize) -> &[Span] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.spans[start..self.ends[number]]
    }

    /// The bytes of an argument. `input` is what the command was parsed from.
    #[inline]
    pub fn argument<'b>(&'b self, input: &'b [u8], span: Span) -> &'b [u8] {
        if span.start & UNESCAPED == 0 {
            &input[span.start..span.end]
        } else {
            &self.unescaped[span.start & !UNESCAPED..span.end]
        }
    }

    /// The bytes of all arguments of a command, its name first.
    ///
    /// # Panics
    /// If there is no such command.
    pub fn arguments<'b>(&'b self, input: &'b [u8], number: usize) -> impl ExactSizeIterator<Item = &'b [u8]> + Clone {
        self.command(number).iter().map(move |&span| self.argument(input, span))
    }
}

/// How far a call of [`Parser::parse`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of whole commands, and of what is skipped between them: the next input starts after them.
    pub consumed: usize,
    /// How many bytes the command in progress lacks at least; 0 if there is none.
    pub wanted: usize,
}

/// Finds commands, and keeps its place in one that came in part, so that a long one that arrives in small reads is not
/// read again each time.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Arguments of the command in progress. Like all places here, relative to its first byte, which is the first of
    /// the next input.
    pending: Vec<Span>,
    /// How many arguments it lacks; 0 if not even that is known.
    missing: usize,
    /// Where the next argument begins: its header, or its bytes if there is a `bulk`.
    place: usize,
    /// How long the next argument is, if known.
    bulk: Option<usize>,
    /// No line ends before here.
    searched: usize,
}

enum Step {
    /// The command in progress is whole, or nothing at all such as an empty line.
    End {
        bytes: usize,
        is_command: bool,
    },
    More {
        wanted: usize,
    },
}

impl Parser {
    /// At the start of a command.
    pub fn new(limits: Limits) -> Self {
        Parser { limits, pending: Vec::new(), missing: 0, place: 0, bulk: None, searched: 0 }
    }

    /// Other limits from now on, as when a client has authenticated. As they hold for what is parsed only, a client
    /// without authentication should have its commands parsed one at a time.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Parses up to `commands_max` whole commands, and appends them to `batch`. The first byte of `input` is the first
    /// that no call has consumed, so the bytes of a command in progress are passed again.
    ///
    /// # Errors
    /// [`ProtocolError`] if the bytes are no request. The commands before are in the batch.
    pub fn parse(&mut self, input: &[u8], commands_max: usize, batch: &mut Batch) -> Result<Parsed, ProtocolError> {
        let bounds = self.limits.effective();
        let mut consumed = 0;
        let mut found = 0;
        let mut is_resumed = self.missing != 0 || self.searched != 0;
        while found < commands_max {
            if !is_resumed {
                if let Some(end) = whole_command(input, consumed, bounds, &mut batch.spans) {
                    batch.ends.push(batch.spans.len());
                    batch.input_ends.push(end);
                    consumed = end;
                    found += 1;
                    continue;
                }
                if consumed == input.len() {
                    break;
                }
            }
            is_resumed = false;
            match self.step(input, consumed, batch) {
                Ok(Step::End { bytes, is_command }) => {
                    self.restart();
                    consumed += bytes;
                    if is_command {
                        batch.input_ends.push(consumed);
                        found += 1;
                    }
                }
                Ok(Step::More { wanted }) => return Ok(Parsed { consumed, wanted }),
                Err(error) => {
                    self.restart();
                    return Err(error);
                }
            }
        }
        Ok(Parsed { consumed, wanted: 0 })
    }

    /// Forgets the command in progress: the next input starts with it, or with one before.
    pub fn restart_at_command(&mut self) {
        self.restart();
    }

    fn restart(&mut self) {
        (self.missing, self.place, self.bulk, self.searched) = (0, 0, None, 0);
        self.pending.clear();
        self.pending.shrink_to(KEPT_SPANS);
    }

    /// Goes on with the command at `start`: the way that keeps its place and knows all the errors.
    fn step(&mut self, input: &[u8], start: usize, batch: &mut Batch) -> Result<Step, ProtocolError> {
        let rest = &input[start..];
        let bounds = self.limits.effective();
        if self.missing == 0 {
            match rest.first() {
                None => return Ok(Step::More { wanted: 1 }),
                Some(b'*') => (),
                Some(_) => return self.words(rest, start, batch),
            }
            let Some(end) = self.find(rest, b'\r').ok_or(ProtocolError::TooBigCount)? else {
                return Ok(Step::More { wanted: 1 });
            };
            let count = parse_i64(&rest[1..end]).ok_or(ProtocolError::InvalidMultibulkLength)?;
            let bytes = end + 2;
            let Ok(count @ 1..) = usize::try_from(count) else { return Ok(Step::End { bytes, is_command: false }) };
            if count > self.limits.arguments_max {
                return Err(ProtocolError::InvalidMultibulkLength);
            }
            if count > bounds.0 {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            (self.missing, self.place) = (count, bytes);
        }
        while self.missing > 0 {
            let bulk = match self.bulk {
                Some(bulk) => bulk,
                None => {
                    let short = short_header(rest, self.place, b'$').filter(|&(bulk, _)| bulk <= bounds.1);
                    let (bulk, bulk_start) = match short {
                        Some(header) => header,
                        None => match self.long_header(rest)? {
                            Some(header) => header,
                            None => return Ok(Step::More { wanted: 1 }),
                        },
                    };
                    self.place = bulk_start;
                    *self.bulk.insert(bulk)
                }
            };
            // As in Redis, two bytes follow an argument, whatever they are.
            let end = self.place.saturating_add(bulk);
            let next = end.saturating_add(2);
            if rest.len() < next {
                return Ok(Step::More { wanted: next - rest.len() });
            }
            self.pending.push(Span { start: self.place, end });
            (self.missing, self.place, self.bulk) = (self.missing - 1, next, None);
        }
        batch.spans.extend(self.pending.iter().map(|span| Span { start: span.start + start, end: span.end + start }));
        batch.ends.push(batch.spans.len());
        Ok(Step::End { bytes: self.place, is_command: true })
    }

    /// The length of the argument at `place` and where its bytes start, if that line is there.
    fn long_header(&mut self, rest: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some(end) = self.find(rest, b'\r').ok_or(ProtocolError::TooBigBulkCount)? else { return Ok(None) };
        if rest[self.place] != b'$' {
            return Err(ProtocolError::ExpectedBulk(rest[self.place]));
        }
        let bulk = parse_i64(&rest[self.place + 1..end]).and_then(|bulk| usize::try_from(bulk).ok());
        let bulk = bulk.filter(|&bulk| bulk <= self.limits.bulk_bytes_max).ok_or(ProtocolError::InvalidBulkLength)?;
        if bulk > self.limits.effective().1 {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        Ok(Some((bulk, end + 2)))
    }

    /// Finds the end of the line at `place`: the first `mark`, with a byte after it if it is a carriage return.
    /// `Some(None)` if more bytes are needed, `None` if the line is too long.
    fn find(&mut self, rest: &[u8], mark: u8) -> Option<Option<usize>> {
        let longest = self.limits.inline_bytes_max;
        let bound = self.place.saturating_add(longest).saturating_add(1).min(rest.len());
        let from = self.searched.max(self.place).min(bound);
        match rest[from..bound].iter().position(|&byte| byte == mark) {
            Some(found) => {
                self.searched = from + found;
                let is_whole = mark != b'\r' || from + found + 1 < rest.len();
                Some(is_whole.then_some(from + found))
            }
            None if rest.len().saturating_sub(self.place) > longest => None,
            None => {
                self.searched = bound;
                Some(None)
            }
        }
    }

    /// A line of words, as a person types it.
    fn words(&mut self, rest: &[u8], start: usize, batch: &mut Batch) -> Result<Step, ProtocolError> {
        let Some(end) = self.find(rest, b'\n').ok_or(ProtocolError::TooBigInline)? else {
            return Ok(Step::More { wanted: 1 });
        };
        let line = &rest[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (spans, unescaped) = (batch.spans.len(), batch.unescaped.len());
        if split_words(line, start, batch).is_none() {
            batch.spans.truncate(spans);
            batch.unescaped.truncate(unescaped);
            return Err(ProtocolError::UnbalancedQuotes);
        }
        let is_command = batch.spans.len() > spans;
        if is_command {
            batch.ends.push(batch.spans.len());
        }
        Ok(Step::End { bytes: end + 1, is_command })
    }
}

/// The fast way: a command that is all there and has no number of more than three digits. Appends its spans and returns
/// its end; otherwise does nothing.
#[inline]
fn whole_command(input: &[u8], start: usize, bounds: (usize, usize), spans: &mut Vec<Span>) -> Option<usize> {
    let (count, mut place) = short_header(input, start, b'*')?;
    if count == 0 || count > bounds.0 {
        return None;
    }
    let before = spans.len();
    spans.reserve(count);
    for _ in 0..count {
        let bulk = short_header(input, place, b'$').filter(|&(bulk, start)| {
            // `start` is not after the input's end.
            bulk <= bounds.1 && bulk + 2 <= input.len() - start
        });
        let Some((bulk, start)) = bulk else {
            spans.truncate(before);
            return None;
        };
        spans.push(Span { start, end: start + bulk });
        place = start + bulk + 2;
    }
    Some(place)
}

/// A number of one to three digits between `mark` and the end of the line, and the place after the line.
#[inline(always)]
fn short_header(input: &[u8], place: usize, mark: u8) -> Option<(usize, usize)> {
    // The shortest rest of a command, that of one empty argument, has six bytes.
    let &[first, high, middle, low, end, _] = input.get(place..)?.first_chunk::<6>()?;
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    let (high, middle_digit, low_digit) = (digit(high), digit(middle), digit(low));
    if first != mark || high > 9 {
        return None;
    }
    // As in Redis, one byte follows a carriage return, whatever it is.
    if middle == b'\r' {
        return Some((high, place + 4));
    }
    if high == 0 || middle_digit > 9 {
        return None;
    }
    if low == b'\r' {
        return Some((high * 10 + middle_digit, place + 5));
    }
    if low_digit > 9 || end != b'\r' {
        return None;
    }
    Some((high * 100 + middle_digit * 10 + low_digit, place + 6))
}

/// What C's `isspace` takes for space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Appends the words of a line that lies at `start` of the input, by the rules of `sdssplitargs`. `None` if a quote
/// does not close, or closes inside a word.
fn split_words(line: &[u8], start: usize, batch: &mut Batch) -> Option<()> {
    let mut place = 0;
    loop {
        place += line[place..].iter().take_while(|&&byte| is_space(byte)).count();
        if place == line.len() {
            return Some(());
        }
        let word = place;
        // Vertical tab and form feed are space between words, but do not end one.
        place += line[place..].iter().take_while(|byte| !b" \n\r\t\"'".contains(byte)).count();
        match line.get(place) {
            Some(b'"' | b'\'') => {
                let unescaped = batch.unescaped.len();
                batch.unescaped.extend_from_slice(&line[word..place]);
                place = unquote(line, place, &mut batch.unescaped)?;
                batch.spans.push(Span { start: unescaped | UNESCAPED, end: batch.unescaped.len() });
            }
            _ => batch.spans.push(Span { start: start + word, end: start + place }),
        }
    }
}

/// Appends what is in the quotes that open at `place`, and returns the place after them: space, or the end of the
/// line.
fn unquote(line: &[u8], mut place: usize, unescaped: &mut Vec<u8>) -> Option<usize> {
    let quote = line[place];
    place += 1;
    loop {
        match (&line[place..], quote) {
            ([], _) => return None,
            ([b'\\', b'x', high, low, ..], b'"') if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                unescaped.push(digit(*high) << 4 | digit(*low));
                place += 4;
            }
            ([b'\\', escaped, ..], b'"') => {
                unescaped.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                place += 2;
            }
            ([b'\\', b'\'', ..], b'\'') => {
                unescaped.push(b'\'');
                place += 2;
            }
            ([byte, behind @ ..], quote) if *byte == quote => {
                return behind.first().is_none_or(|&byte| is_space(byte)).then_some(place + 1);
            }
            ([byte, ..], _) => {
                unescaped.push(*byte);
                place += 1;
            }
        }
    }
}
