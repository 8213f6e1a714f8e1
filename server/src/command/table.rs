//! The table of commands.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{Answer, Call, Run};

/// What is true of a command. A set of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Changes the data.
    pub const WRITE: Flags = Flags(1);
    /// Reads the data and leaves it.
    pub const READ: Flags = Flags(2);
    /// Takes a constant or logarithmic time.
    pub const FAST: Flags = Flags(4);
    /// Is refused when memory is full.
    pub const DENY_OOM: Flags = Flags(8);
    /// For administrators.
    pub const ADMIN: Flags = Flags(16);
    /// Needs no authentication.
    pub const NO_AUTH: Flags = Flags(32);
    /// Runs at once inside MULTI, instead of being queued.
    pub const NO_QUEUE: Flags = Flags(64);
    /// Is refused inside MULTI.
    pub const NO_MULTI: Flags = Flags(128);
    /// Is given no data: it opens what it needs itself, and nothing is held while it runs.
    pub const ALONE: Flags = Flags(256);
    /// Is given the data as a write is, though it writes nothing.
    pub const EXCLUSIVE: Flags = Flags(512);
    /// Counts or lists keys: everything that has expired is removed first.
    pub const EXACT: Flags = Flags(1024);
    /// Is not told to `MONITOR`.
    pub const SECRET: Flags = Flags(2048);
    /// May not run at a snapshot although it only reads.
    pub const NO_SNAPSHOT: Flags = Flags(4096);
    /// Is `ALONE`, but may run inside a transaction, with the data that is held there.
    pub const INSIDE_TOO: Flags = Flags(8192);

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Families of commands, as `COMMAND DOCS` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of any kind.
    Generic,
    /// Strings.
    String,
    /// Bits of strings.
    Bitmap,
    /// Sorted sets.
    SortedSet,
    /// Ordered keys: what Redis lacks.
    Ordered,
    /// MULTI and the like.
    Transactions,
    /// The client's connection.
    Connection,
    /// The server.
    Server,
    /// Known to Redis, and not here yet.
    Absent,
}

impl Group {
    /// Its name as Redis has it.
    pub fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::SortedSet => "sorted-set",
            Group::Ordered => "ordered",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server | Group::Absent => "server",
        }
    }
}

/// Where a command's keys stand among its words: the first, the last (negative: from the end), and every how many-th. 0: it has none there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyPlaces {
    /// The first key's place.
    pub first: i32,
    /// The last key's place.
    pub last: i32,
    /// From one key to the next.
    pub step: i32,
}

/// How a command is run.
pub type RunOne = fn(&mut Call<'_, '_>) -> Answer;
/// How a run of them is, with interleaved descents.
pub type RunMany = fn(&mut Run<'_, '_>) -> Answer;

/// A command's line in the table.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its place in the table, subcommands counted: what is kept for each command is kept under this number. The table gives it.
    pub number: u16,
    /// In lower case; `config|get` for a subcommand.
    pub name: &'static str,
    /// How many words, the name included; if negative, that many at least.
    pub arity: i32,
    /// What is true of it.
    pub flags: Flags,
    /// Where its keys stand.
    pub keys: KeyPlaces,
    /// Its family.
    pub group: Group,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What it costs here.
    pub cost: &'static str,
    /// What it costs in Redis; empty if Redis does not have it.
    pub redis_cost: &'static str,
    /// Its words, as in `key value [NX | XX]`.
    pub syntax: &'static str,
    /// The version of Redis, or of Quipu, that first had it.
    pub since: &'static str,
    /// Runs it.
    pub run: RunOne,
    /// Runs many at once that have exactly this many words each.
    pub many: &'static [(usize, RunMany)],
    /// Its subcommands, chosen by the second word.
    pub subcommands: &'static [Spec],
}

impl Spec {
    /// A line with what every command has.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, group: Group, run: RunOne) -> Spec {
        Spec {
            number: 0,
            name,
            arity,
            flags,
            keys: KeyPlaces { first: 0, last: 0, step: 0 },
            group,
            summary: "",
            cost: "",
            redis_cost: "",
            syntax: "",
            since: "1.0.0",
            run,
            many: &[],
            subcommands: &[],
        }
    }

    /// Says where keys stand.
    pub const fn keys(mut self, first: i32, last: i32, step: i32) -> Spec {
        self.keys = KeyPlaces { first, last, step };
        self
    }

    /// Says what it is for, with which words, and since when.
    pub const fn about(mut self, syntax: &'static str, summary: &'static str, since: &'static str) -> Spec {
        self.syntax = syntax;
        self.summary = summary;
        self.since = since;
        self
    }

    /// Says what it costs here and in Redis.
    pub const fn costs(mut self, cost: &'static str, redis_cost: &'static str) -> Spec {
        self.cost = cost;
        self.redis_cost = redis_cost;
        self
    }

    /// Gives the ways to run many of them together.
    pub const fn many(mut self, many: &'static [(usize, RunMany)]) -> Spec {
        self.many = many;
        self
    }

    /// Gives it subcommands.
    pub const fn subcommands(mut self, subcommands: &'static [Spec]) -> Spec {
        self.subcommands = subcommands;
        self
    }

    /// Whether it may have so many words.
    pub fn takes(&self, words: usize) -> bool {
        if self.arity < 0 { words >= self.arity.unsigned_abs() as usize } else { words == self.arity as usize }
    }
}

/// The table, with each command under its number.
struct Table {
    commands: &'static [Spec],
    by_name: HashMap<&'static [u8], &'static Spec>,
    by_number: Vec<&'static Spec>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // What is made here lives as long as the process, so that a line of the table is a plain reference.
        let mut commands: Vec<Spec> = FAMILIES.iter().copied().flatten().copied().collect();
        let mut next = 0;
        for spec in &mut commands {
            number(spec, &mut next);
            let subcommands = spec.subcommands.iter().map(|sub| number(&mut { *sub }, &mut next)).collect::<Vec<_>>();
            spec.subcommands = subcommands.leak();
        }
        let commands: &'static [Spec] = commands.leak();
        let by_number = commands.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)).collect();
        Table { commands, by_name: commands.iter().map(|spec| (spec.name.as_bytes(), spec)).collect(), by_number }
    })
}

fn number(spec: &mut Spec, next: &mut u16) -> Spec {
    spec.number = *next;
    *next += 1;
    *spec
}

/// All commands, family by family.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    table().commands.iter()
}

/// All commands and subcommands, by number.
pub fn by_number() -> &'static [&'static Spec] {
    &table().by_number
}

/// The families' tables. One line for each file.
const FAMILIES: &[&[Spec]] = &[
    super::strings::COMMANDS,
    super::string_ranges::COMMANDS,
    super::counters::COMMANDS,
    super::bits::COMMANDS,
    super::bit_fields::COMMANDS,
    super::keys::COMMANDS,
    super::expiry::COMMANDS,
    super::scan::COMMANDS,
    super::objects::COMMANDS,
    super::dump::COMMANDS,
    super::databases::COMMANDS,
    super::positions::COMMANDS,
    super::transactions::COMMANDS,
    super::snapshots::COMMANDS,
    super::sorted_sets::COMMANDS,
    super::sorted_set_ranges::COMMANDS,
    super::sorted_set_algebra::COMMANDS,
    super::sorted_set_scan::COMMANDS,
    super::connection::COMMANDS,
    super::client::COMMANDS,
    super::configuration::COMMANDS,
    super::info::COMMANDS,
    super::introspection::COMMANDS,
    super::maintenance::COMMANDS,
    super::memory::COMMANDS,
    super::observation::COMMANDS,
    super::users::COMMANDS,
    super::absent::COMMANDS,
];

/// Names longer than any command.
const NAME_BYTES_MAX: usize = 24;

/// The command of that name, in any case.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    table().by_name.get(&*lower).copied()
}
