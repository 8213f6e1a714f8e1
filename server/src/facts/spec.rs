//! The facts of a command that are known before it runs: its line in the table.

/// What is true of a command. A set of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Nothing.
    pub const NONE: Flags = Flags(0);
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
    /// Runs what was queued: is given the data as that needs it.
    pub const RUNS_QUEUE: Flags = Flags(512);
    /// Counts or lists keys: everything that has expired is removed first.
    pub const EXACT: Flags = Flags(1024);
    /// Is not told to `MONITOR`.
    pub const SECRET: Flags = Flags(2048);
    /// May not run at a snapshot although it only reads.
    pub const NO_SNAPSHOT: Flags = Flags(4096);
    /// Is `ALONE`, but may run inside a transaction, with the data that is held there.
    pub const INSIDE_TOO: Flags = Flags(8192);
    /// Puts its words as strings, which it prepares while nothing is held if they are long.
    pub const STAGES: Flags = Flags(16384);

    /// Changes the data so that it takes less space, or can: a full disk does not stop what frees space.
    pub const FREES: Flags = Flags(32768);
    /// Is served by a node of a cluster, over all its nodes: its handler asks entities wherever they are.
    pub const REPLICATED: Flags = Flags(65536);

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the answer may tell of the data: then it waits for the commits that it has seen.
    pub fn tells(self) -> bool {
        [Flags::READ, Flags::WRITE, Flags::RUNS_QUEUE, Flags::ALONE].into_iter().any(|flag| self.has(flag))
            && !self.has(Flags::INSIDE_TOO)
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

/// Where a command's keys stand among its words: the first, the last (negative: from the end), and every how many-th.
/// 0: it has none there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyPlaces {
    /// The first key's place.
    pub first: i32,
    /// The last key's place.
    pub last: i32,
    /// From one key to the next.
    pub step: i32,
}

/// A command's line in the table.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its place in the table, subcommands counted: what is kept for each command is kept under this number. The table
    /// gives it.
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
    /// What Quipu lacks for it, as in `lists come`; empty if it lacks nothing.
    pub lack: &'static str,
    /// Its subcommands, chosen by the second word.
    pub subcommands: &'static [Spec],
}

impl Spec {
    /// A line with what every command has.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, group: Group) -> Spec {
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
            lack: "",
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

    /// Says what Quipu lacks for it.
    pub const fn lacking(mut self, lack: &'static str) -> Spec {
        self.lack = lack;
        self
    }

    /// Says that a node of a cluster serves it, too.
    pub const fn replicated(mut self) -> Spec {
        self.flags = self.flags.and(Flags::REPLICATED);
        self
    }

    /// Gives it subcommands.
    pub const fn subcommands(mut self, subcommands: &'static [Spec]) -> Spec {
        self.subcommands = subcommands;
        self
    }

    /// Whether a word is the name of this subcommand, without that of its command.
    pub fn is_named(&self, word: &[u8]) -> bool {
        self.name.rsplit('|').next().is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(word))
    }

    /// Whether it may have so many words.
    pub fn takes(&self, words: usize) -> bool {
        if self.arity < 0 { words >= self.arity.unsigned_abs() as usize } else { words == self.arity as usize }
    }
}
