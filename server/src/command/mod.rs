//! The commands: a table of what there is ([`Spec`]), and one file for each family.
//!
//! A command is a function of a [`Call`]: its arguments, the data, the client's session, and where the answer goes. It answers, or refuses with the text that Redis
//! has for the case; what it had answered before a refusal is taken back. Which data it needs, and whether it may run inside a transaction, stands in the table.
//!
//! Not here: connections, batches ([`crate::execute`]).

pub mod absent;
pub mod bit_fields;
pub mod bits;
pub mod client;
pub mod configuration;
pub mod connection;
pub mod counters;
pub mod databases;
pub mod dump;
pub mod expiry;
mod help;
pub mod info;
pub mod introspection;
pub mod keys;
pub mod maintenance;
pub mod memory;
pub mod nature;
pub mod objects;
pub mod observation;
pub mod positions;
pub mod reference;
pub mod refusal;
pub mod scan;
pub mod snapshots;
pub mod sorted_set_algebra;
pub mod sorted_set_ranges;
mod sorted_set_runs;
pub mod sorted_set_scan;
pub mod sorted_sets;
pub mod string_ranges;
pub mod strings;
pub mod subsequence;
pub mod table;
pub mod transactions;
pub mod users;

use crate::keyspace::value::{Entry, Kind};
use crate::keyspace::{Data, Need};
use crate::resp::reply::Reply;
use crate::server::Server;
use crate::session::Session;

pub use refusal::Refusal;
pub use table::{Flags, Group, KeyPlaces, Spec, all, find};

/// What a command comes to.
pub type Answer = Result<(), Refusal>;

/// Rows above which an answer is put together beside the loop that serves connections, from a snapshot: some 2 ms.
pub const LONG_ROWS: u64 = 20_000;

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
}

impl<'c> Call<'c, '_> {
    /// The client's database.
    pub fn database(&self) -> usize {
        self.session.database
    }

    /// What stands at a key of the client's database, if it is live. Counted as a hit or a miss.
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'_>>, Refusal> {
        let entry = self.data.entry(self.database(), key)?;
        self.data.keyspace().counters.note_lookup(entry.is_some());
        Ok(entry)
    }

    /// The string at a key.
    ///
    /// # Errors
    /// `WRONGTYPE` if it holds something else.
    pub fn string(&self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        match self.entry(key)? {
            None => Ok(None),
            Some(entry) if entry.header.kind == Kind::String => Ok(Some(entry.body)),
            Some(_) => Err(refusal::WRONG_TYPE),
        }
    }

    /// Says how many rows the answer will read. Where that is many, and others would wait, the command is run again from a snapshot beside the loop: nothing
    /// may have been written before.
    pub fn expect_rows(&self, rows: u64) -> Answer {
        if rows > LONG_ROWS && !self.data.is_patient() && self.session.can_wait { Err(Refusal::Long) } else { Ok(()) }
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

    /// Makes sure that writing these keys, with values of `bytes` together, does not run out of space half way. If it would, each command gets its own answer
    /// one by one.
    pub fn reserve(&mut self, keys: &[&[u8]], bytes: usize) -> Answer {
        check_keys(keys)?;
        self.data.reserve(self.database, keys, bytes).map_err(|_| ONE_BY_ONE)
    }

    /// Word number `place` of each command.
    pub fn column(&self, place: usize) -> Vec<&'c [u8]> {
        self.words.iter().skip(place).step_by(self.width).copied().collect()
    }
}

/// What the table says of the data.
impl Flags {
    /// What the command needs of it.
    pub fn need(self) -> Need {
        if self.has(Flags::ALONE) {
            Need::Nothing
        } else if self.has(Flags::WRITE) || self.has(Flags::EXCLUSIVE) {
            Need::Write
        } else {
            Need::Read
        }
    }
}

/// Whether a word is this one, whatever the case. `lower` is in lower case.
#[inline]
pub fn is_word(word: &[u8], lower: &str) -> bool {
    word.eq_ignore_ascii_case(lower.as_bytes())
}

/// A run that is better done one by one.
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
