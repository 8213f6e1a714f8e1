//! The arguments of handlers ([`Call`], [`EntityCall`], [`Run`]), and the table of the handlers of all commands
//! ([`Handlers`]).

use quipu::Snapshot;

use crate::entities::{self, Alone, Coordinator, Room};
use crate::facts::Spec;
use crate::keyspace::value::Entry;
use crate::keyspace::{Data, Keyspace, PreparedString, StoredString};
use crate::resp::reply::Reply;
use crate::state::refusal::{self, Refusal};
use crate::state::server::Server;
use crate::state::session::Session;
use crate::system::clock;

/// The outcome of a command.
pub type CommandResult = Result<(), Refusal>;

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

impl<'c, 'k> Call<'c, 'k> {
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

    /// How much may be read or written while others wait.
    fn room(&self) -> Room {
        Room { can_wait: self.session.can_wait, is_late: self.session.is_late }
    }

    /// Says how many rows the answer will read. Where that is many, and others would wait, the command is run again
    /// from a snapshot beside the loop: nothing may have been written before.
    pub fn expect_rows(&self, rows: u64) -> CommandResult {
        Ok(self.room().expect_rows(self.data, rows)?)
    }

    /// Says how many bytes the command will copy, as [`Call::expect_rows`] does for rows.
    pub fn expect_bytes(&self, bytes: u64) -> CommandResult {
        Ok(self.room().expect_bytes(self.data, bytes)?)
    }

    /// Whether the answer of so many rows, which [`Call::expect_rows`] has let pass, is to be written in pieces, from
    /// this snapshot.
    pub fn in_pieces(&self, rows: u64) -> Option<Snapshot> {
        self.room().in_pieces(self.data, rows)
    }

    /// The keys of the client's database as entities.
    pub fn alone(&mut self) -> Alone<'_, 'k> {
        let room = self.room();
        Alone::new(self.data, self.session.database, room)
    }

    /// The command as one about entities: the keys of the client's database.
    #[inline]
    pub fn entities(&mut self) -> EntityCall<'_, Alone<'_, 'k>> {
        let room = self.room();
        let Call { args, data, session, reply, spec, .. } = self;
        let entities = Alone::new(data, session.database, room);
        EntityCall { args, entities, session, reply, spec }
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
        integer(self.args, place)
    }
}

/// One command of one client about entities, which is written once for a node alone and for a cluster.
pub struct EntityCall<'c, E> {
    /// The words, the name first: as many as the table allows.
    pub args: &'c [&'c [u8]],
    /// The entities.
    pub entities: E,
    /// Who asks.
    pub session: &'c mut Session,
    /// Where the answer goes.
    pub reply: &'c mut Reply,
    /// The command's line in the table.
    pub spec: &'static Spec,
}

impl<E> EntityCall<'_, E> {
    /// The integer at `place`, where there is a word.
    pub fn integer(&self, place: usize) -> Result<i64, Refusal> {
        integer(self.args, place)
    }
}

fn integer(args: &[&[u8]], place: usize) -> Result<i64, Refusal> {
    let word = args.get(place).ok_or(refusal::SYNTAX)?;
    crate::resp::number::parse_i64(word).ok_or(refusal::NOT_INTEGER)
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
    pub fn reserve(&mut self, keys: &[&[u8]], bytes: usize) -> CommandResult {
        check_keys(keys)?;
        self.data.reserve(self.database, keys, bytes).map_err(|_| ONE_BY_ONE)
    }

    /// Word number `place` of each command.
    pub fn column(&self, place: usize) -> Vec<&'c [u8]> {
        self.words.iter().skip(place).step_by(self.width).copied().collect()
    }
}

/// What a command does.
pub type RunOne = fn(&mut Call<'_, '_>) -> CommandResult;
/// What a run of them does, with interleaved descents.
pub type RunMany = fn(&mut Run<'_, '_>) -> CommandResult;

/// What a command does over the entities of a cluster.
pub type RunElsewhere = fn(&mut EntityCall<'_, Coordinator<'_>>) -> CommandResult;

/// What is done for the command of a name.
#[derive(Clone, Copy)]
pub struct Handler {
    /// The command's name, as its line in the table has it.
    pub name: &'static str,
    /// Runs one.
    pub run: RunOne,
    /// Runs many at once that have exactly this many words each.
    pub many: &'static [(usize, RunMany)],
    /// Runs one over the entities of a cluster: the same function as `run`, over the other entities.
    pub elsewhere: Option<RunElsewhere>,
}

impl Handler {
    /// Runs the commands of this name one by one.
    pub const fn new(name: &'static str, run: RunOne) -> Handler {
        Handler { name, run, many: &[], elsewhere: None }
    }

    /// Gives the way to run one over the entities of a cluster: `entity_handler!` does, with the function of `run`.
    pub(super) const fn elsewhere(mut self, run: RunElsewhere) -> Handler {
        self.elsewhere = Some(run);
        self
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

/// The handler of a command about entities, by the function of an [`EntityCall`] that it is over whichever entities.
macro_rules! entity_handler {
    ($name:literal, $run:path) => {
        $crate::command::Handler::new($name, |call| $run(&mut call.entities())).elsewhere(|call| $run(call))
    };
}
pub(super) use entity_handler;

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
pub fn check_key(key: &[u8]) -> CommandResult {
    Ok(entities::check_key(key)?)
}

/// Sends a run with a key that is too long one by one, where each gets its own answer.
fn check_keys(keys: &[&[u8]]) -> CommandResult {
    if keys.iter().any(|key| key.len() > crate::keyspace::KEY_BYTES_MAX) { Err(ONE_BY_ONE) } else { Ok(()) }
}
