//! A client's session: what the server remembers of it between commands.

use std::sync::Arc;

use crate::clients::Client;
use crate::command::Spec;
use crate::keyspace::Touched;
use crate::users::User;

/// What a client has queued since `MULTI`.
#[derive(Default)]
pub struct Queue {
    /// The commands, each with its words.
    pub commands: Vec<(&'static Spec, Vec<Vec<u8>>)>,
    /// Bytes of all words.
    pub bytes: usize,
    /// A command could not be queued: `EXEC` will refuse.
    pub failed: bool,
}

/// What a client watches since `WATCH`.
#[derive(Default)]
pub struct Watch {
    /// Set by whoever changes a watched key.
    pub touched: Option<Touched>,
    /// Ranges with what they held: `EXEC` asks again.
    pub ranges: Vec<WatchedRange>,
}

/// A range of keys that `Q.WATCH` watches.
pub struct WatchedRange {
    /// In which database.
    pub database: usize,
    /// Its bounds as given.
    pub min: Vec<u8>,
    /// Its bounds as given.
    pub max: Vec<u8>,
    /// Whether only the number of keys matters.
    pub only_count: bool,
    /// What it held: rows, bytes, hash.
    pub held: quipu::Tally,
}

/// Which answers a client wants: `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but the next one.
    SkipNext,
    /// All but this one.
    Skip,
}

/// What the server remembers of a client.
pub struct Session {
    /// A number no other client of this server has had.
    pub id: u64,
    /// The database that `SELECT` chose.
    pub database: usize,
    /// The name that `CLIENT SETNAME` gave.
    pub name: Vec<u8>,
    /// What others see of it.
    pub client: Arc<Client>,
    /// The user that it is authenticated as.
    pub user: Arc<User>,
    /// Whether it may give commands that need authentication.
    pub is_authenticated: bool,
    /// What is queued, between `MULTI` and `EXEC`.
    pub queue: Option<Queue>,
    /// What is watched.
    pub watch: Watch,
    /// Which answers it wants.
    pub reply_mode: ReplyMode,
    /// Whether it is to be closed when its answers are sent.
    pub closing: bool,
    /// Whether it sees all commands.
    pub is_monitor: bool,
    /// How many commands that are alike are done together, going by how long their answers were.
    pub run_max: usize,
    /// Whether a long command may be run beside the loop: not inside a transaction.
    pub can_wait: bool,
    /// Whether `CLIENT NO-EVICT` and `CLIENT NO-TOUCH` were asked for.
    pub no_evict: bool,
    /// See `no_evict`.
    pub no_touch: bool,
}

impl Session {
    /// Of a client that has just connected.
    pub fn new(client: Arc<Client>, user: Arc<User>, is_authenticated: bool) -> Session {
        Session {
            id: client.id,
            client,
            database: 0,
            name: Vec::new(),
            user,
            is_authenticated,
            queue: None,
            watch: Watch::default(),
            reply_mode: ReplyMode::On,
            closing: false,
            is_monitor: false,
            run_max: 2,
            can_wait: true,
            no_evict: false,
            no_touch: false,
        }
    }

    /// Makes it act for a user from now on.
    pub fn act_for(&mut self, user: Arc<User>) {
        self.client.names().user = user.name.to_string();
        self.user = user;
        self.is_authenticated = true;
    }

    /// Ends `MULTI`, if it was there, and forgets what was watched.
    pub fn leave_transaction(&mut self) {
        self.queue = None;
        self.watch = Watch::default();
    }
}
