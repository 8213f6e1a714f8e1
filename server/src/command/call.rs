//! What a command is given when it runs ([`Call`], [`Run`]), and the table of what runs each command ([`Handlers`]).

use quipu::Snapshot;

use crate::facts::Spec;
use crate::keyspace::value::Entry;
use crate::keyspace::{Data, Keyspace, NewString, PreparedString, StoredString};
use crate::resp::reply::Reply;
use crate::state::refusal::{self, Refusal};
use crate::state::server::Server;
use crate::state::session::Session;
use crate::system::clock;

/// The outcome of a command.
pub type Answer = Result<(), Refusal>;

/// Rows above which an answer is put together beside the loop that serves connections, from a snapshot: some 2 ms.
pub const LONG_ROWS: u64 = 20_000;

/// The same once the turn of the loop has taken its time, so that those who come after do not wait: some 100 us.
pub const LATE_ROWS: u64 = 1000;

/// Bytes of strings above which the same holds, if the command knows of them beforehand: some hundred microseconds.
pub const LONG_BYTES: u64 = 1 << 20;

/// How often a command prepares something from strings that change meanwhile, before it does so while all wait.
pub const TRIES_MAX: usize = 3;

/// The string at a key that is about to be changed or combined; empty if there is none. No hit and no miss.
///
/// # Errors
/// `WRONGTYPE` if the key holds something else.
pub(super) fn string_or_empty<'d>(
    data: &'d Data<'_>,
    database: usize,
    key: &[u8],
) -> Result<StoredString<'d>, Refusal> {
    match data.entry(database, key)? {
        None => Ok(StoredString::Whole(b"")),
        Some(entry) => data.string_of(database, key, &entry)?.ok_or(refusal::WRONG_TYPE),
    }
}

/// One command of one client.
pub struct Call<'c, 'k> {
    /// The words, the name first: as many as the table allows.
    pub args: &'c [&'c [u8]],
    /// What is stored, as the command's batch sees it.
    pub data: &'c mut Data<'k>,
    /// Who asks.
    pub session: &'c mut Session,
    /// Where the answer goes.
    pub reply: &'c mut Reply,
    /// What all clients share.
    pub server: &'k Server,
    /// The command's line in the table.
    pub spec: &'static Spec,
    /// What all commands do, for a command that runs others.
    pub handlers: &'static Handlers,
}

impl<'c> Call<'c, '_> {
    /// The client's database.
    pub fn database(&self) -> usize {
        self.session.database
    }

    /// What stands at a key of the client's database, if it is live. Counted as a hit or a miss.
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'_>>, Refusal> {
        let entry = self.data.entry(self.database(), key)?;
        self.data.note_lookup(entry.is_some());
        Ok(entry)
    }

    /// The string at a key.
    ///
    /// # Errors
    /// `WRONGTYPE` if it holds something else.
    pub fn string(&self, key: &[u8]) -> Result<Option<StoredString<'_>>, Refusal> {
        match self.entry(key)? {
            None => Ok(None),
            Some(entry) => {
                let string = self.data.string_of(self.database(), key, &entry)?;
                string.map(Some).ok_or(refusal::WRONG_TYPE)
            }
        }
    }

    /// Says how many bytes the command will copy, as [`Call::expect_rows`] does for rows.
    pub fn expect_bytes(&self, bytes: u64) -> Answer {
        self.expect_rows(if bytes > LONG_BYTES { LONG_ROWS + 1 } else { 0 })
    }

    /// Prepares a string to be put at a key, and holds the data for writing. See [`Call::new_strings`].
    pub fn new_string<'b>(&mut self, bytes: &'b [u8]) -> Result<NewString<'b>, Refusal> {
        let mut strings = self.new_strings(&[bytes])?;
        Ok(strings.pop().unwrap_or(NewString::Whole(bytes)))
    }

    /// Prepares strings to be put at keys of the client's database, and holds the data for writing. Where they are many
    /// bytes, and others would wait, the command is run again beside the loop, where they are prepared while nothing is
    /// held: nothing may have been written, and nothing read, before.
    pub fn new_strings<'b>(&mut self, values: &[&'b [u8]]) -> Result<Vec<NewString<'b>>, Refusal> {
        let (keyspace, database) = (self.data.keyspace(), self.database());
        self.expect_bytes(values.iter().map(|bytes| bytes.len() as u64).sum())?;
        let is_beside = self.data.is_beside();
        let mut strings = Vec::with_capacity(values.len());
        for bytes in values {
            strings.push(match keyspace.cuts(bytes.len()) {
                false => NewString::Whole(bytes),
                true if is_beside => NewString::Pieces(bytes, keyspace.stage(database, bytes)?),
                true => NewString::Pieces(bytes, self.data.stage(database, bytes)?),
            });
        }
        if is_beside {
            self.data.begin_writing(clock::now_ms())?;
            for string in &mut strings {
                if let NewString::Pieces(bytes, staged) = string
                    && !self.data.may_use(database, staged)
                {
                    *staged = self.data.stage(database, bytes)?;
                }
            }
        }
        Ok(strings)
    }

    /// Says how many rows the answer will read. Where that is many, and others would wait, the command is run again
    /// from a snapshot beside the loop: nothing may have been written before.
    pub fn expect_rows(&self, rows: u64) -> Answer {
        let rows_max = if self.session.is_late { LATE_ROWS } else { LONG_ROWS };
        if rows > rows_max && !self.data.is_patient() && self.session.can_wait { Err(Refusal::Long) } else { Ok(()) }
    }

    /// Whether the answer of so many rows, which [`Call::expect_rows`] has let pass, is to be written in pieces, from
    /// this snapshot.
    pub fn in_pieces(&self, rows: u64) -> Option<Snapshot> {
        if rows > LONG_ROWS && self.session.can_wait { self.data.patient_snapshot() } else { None }
    }

    /// Makes a long string of what stands at a key, while nothing is held, and then holds the data for writing. If
    /// something else stands there by then, it is made again; after a few times it is left to the command. To be called
    /// beside the loop.
    pub fn prepare(
        &mut self,
        key: &[u8],
        make: impl Fn(&Keyspace, u64) -> quipu::Result<Option<PreparedString>>,
    ) -> Result<Option<PreparedString>, Refusal> {
        for _ in 0..TRIES_MAX {
            let prepared = make(self.data.keyspace(), clock::now_ms())?;
            self.data.begin_writing(clock::now_ms())?;
            let entry = self.data.entry(self.database(), key)?;
            match prepared {
                Some(prepared) if !prepared.is_of(entry.as_ref()) => self.data.stop_writing()?,
                prepared => return Ok(prepared),
            }
        }
        self.data.begin_writing(clock::now_ms())?;
        Ok(None)
    }

    /// What follows `place`, an option's value; a syntax error if nothing does.
    pub fn word(&self, place: usize) -> Result<&'c [u8], Refusal> {
        self.args.get(place).copied().ok_or(refusal::SYNTAX)
    }

    /// The integer at `place`.
    pub fn integer(&self, place: usize) -> Result<i64, Refusal> {
        crate::resp::number::parse_i64(self.word(place)?).ok_or(refusal::NOT_INTEGER)
    }
}

/// A run of the same command, each with as many words: their descents can be interleaved.
pub struct Run<'c, 'k> {
    /// The words of all commands, one after the other.
    pub words: &'c [&'c [u8]],
    /// Words of one command.
    pub width: usize,
    /// What is stored.
    pub data: &'c mut Data<'k>,
    /// The client's database.
    pub database: usize,
    /// Where the answers go, in order.
    pub reply: &'c mut Reply,
}

impl<'c> Run<'c, '_> {
    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.words.len() / self.width
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Makes sure that writing these keys, with values of `bytes` together, does not run out of space half way. If it
    /// would, each command gets its own answer one by one.
    pub fn reserve(&mut self, keys: &[&[u8]], bytes: usize) -> Answer {
        check_keys(keys)?;
        self.data.reserve(self.database, keys, bytes).map_err(|_| ONE_BY_ONE)
    }

    /// Word number `place` of each command.
    pub fn column(&self, place: usize) -> Vec<&'c [u8]> {
        self.words.iter().skip(place).step_by(self.width).copied().collect()
    }
}

/// What a command does.
pub type RunOne = fn(&mut Call<'_, '_>) -> Answer;
/// What a run of them does, with interleaved descents.
pub type RunMany = fn(&mut Run<'_, '_>) -> Answer;

/// What is done for the command of a name.
#[derive(Clone, Copy)]
pub struct Handler {
    /// The command's name, as its line in the table has it.
    pub name: &'static str,
    /// Runs one.
    pub run: RunOne,
    /// Runs many at once that have exactly this many words each.
    pub many: &'static [(usize, RunMany)],
}

impl Handler {
    /// Runs the commands of this name one by one.
    pub const fn new(name: &'static str, run: RunOne) -> Handler {
        Handler { name, run, many: &[] }
    }

    /// Gives the ways to run many of them together.
    pub const fn many(mut self, many: &'static [(usize, RunMany)]) -> Handler {
        self.many = many;
        self
    }

    /// How many commands with so many words each are run together, if they can be.
    pub fn run_of(&self, words: usize) -> Option<RunMany> {
        self.many.iter().find(|(width, _)| *width == words).map(|(_, run)| *run)
    }
}

/// The handlers of all commands, each under its command's number.
pub struct Handlers {
    by_number: Box<[Handler]>,
}

impl Handlers {
    /// These, in the order of the numbers.
    pub(super) fn new(by_number: Box<[Handler]>) -> Handlers {
        Handlers { by_number }
    }

    /// What is done for a command.
    #[inline]
    pub fn of(&self, spec: &Spec) -> &Handler {
        &self.by_number[usize::from(spec.number)]
    }
}

/// Says that a run is better done one by one.
pub const ONE_BY_ONE: Refusal = Refusal::OneByOne;

/// Fails if a key is too long to be written.
pub fn check_key(key: &[u8]) -> Answer {
    if key.len() > crate::keyspace::KEY_BYTES_MAX {
        return Err(Refusal::new(format!(
            "ERR a key of {} bytes is over the limit of {}",
            key.len(),
            crate::keyspace::KEY_BYTES_MAX
        )));
    }
    Ok(())
}

/// Sends a run with a key that is too long one by one, where each gets its own answer.
fn check_keys(keys: &[&[u8]]) -> Answer {
    if keys.iter().any(|key| key.len() > crate::keyspace::KEY_BYTES_MAX) { Err(ONE_BY_ONE) } else { Ok(()) }
}
