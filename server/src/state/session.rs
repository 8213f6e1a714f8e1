//! A client's session: what the server remembers of the client between commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::facts::{Flags, Spec};
use crate::keyspace::Touched;
use crate::state::attempt::Attempt;
use crate::state::clients::Client;
use crate::state::pieces::Pieces;
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

impl Queue {
    /// Whether a command is among these that is refused when memory is full.
    pub fn takes_memory(&self) -> bool {
        self.commands.iter().any(|(spec, _)| spec.flags.has(Flags::DENY_OOM))
    }
}

/// What a client watches since `WATCH`.
#[derive(Default)]
pub struct Watch {
    /// Set when a watched key changes.
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

/// What the commands of a transaction may change of its session, beside the transaction itself: put back when the
/// transaction is taken back, so that its next attempt begins as the first one did.
pub struct Standing {
    database: usize,
    name: Vec<u8>,
    user: Arc<User>,
    is_authenticated: bool,
    quorum: Option<quipu_cluster::ids::Quorum>,
    no_evict: bool,
    no_touch: bool,
}

/// What the server remembers of a client.
pub struct Session {
    /// A number no other client of this server has had.
    pub id: u64,
    /// Of how many replicas in a cluster how many are waited for; `None`: the defaults.
    pub quorum: Option<quipu_cluster::ids::Quorum>,
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
    /// Whether the turn of the loop has taken its time: then a command runs beside the loop that would not else.
    pub is_late: bool,
    /// The command that was taken back and is tried again, or is to be.
    pub attempt: Option<Box<Attempt>>,
    /// Whether the last commands that ran together lacked pages: then those of the next are loaded before they run.
    pub is_cold: bool,
    /// The seed of what the command under way draws, once it has drawn something, and how often it has.
    pub seed: Option<u64>,
    /// See `seed`.
    pub draws: u64,
    /// Commands of the transaction under way that monitors have been told of.
    pub told: usize,
    /// The rest of the answer of a long command, while it runs.
    pub pieces: Option<Box<dyn Pieces>>,
    /// Whether `CLIENT NO-EVICT` and `CLIENT NO-TOUCH` were asked for.
    pub no_evict: bool,
    /// See `no_evict`.
    pub no_touch: bool,
}

impl Session {
    /// Of a client that has just connected.
    pub fn new(client: Arc<Client>, user: Arc<User>, is_authenticated: bool) -> Session {
        client.session_bytes.store(size_of::<Session>(), Ordering::Relaxed);
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
            quorum: None,
            closing: false,
            is_monitor: false,
            run_max: 2,
            can_wait: true,
            is_late: false,
            attempt: None,
            is_cold: false,
            seed: None,
            draws: 0,
            told: 0,
            pieces: None,
            no_evict: false,
            no_touch: false,
        }
    }

    /// Shows others what it is like.
    pub fn show(&self) {
        self.client.stays.store(self.no_evict, Ordering::Relaxed);
        self.client.database.store(self.database as u32, Ordering::Relaxed);
        let queued = self.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
        self.client.queued.store(queued, Ordering::Relaxed);
        self.client.is_monitor.store(self.is_monitor, Ordering::Relaxed);
    }

    /// Notes that a command begins: what `CLIENT REPLY SKIP` says counts for one.
    pub fn begin_command(&mut self) {
        self.reply_mode = match self.reply_mode {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            mode => mode,
        };
    }

    /// A source of chance for the command under way. If the command is tried again, it draws the same.
    pub fn rng(&mut self) -> StdRng {
        let seed = *self.seed.get_or_insert_with(rand::random);
        self.draws += 1;
        StdRng::seed_from_u64(seed.wrapping_add(self.draws))
    }

    /// Begins an attempt at a command: what an earlier one has drawn is drawn again.
    pub fn begin_attempt(&mut self) {
        self.seed = self.attempt.as_ref().and_then(|attempt| attempt.seed);
        self.draws = 0;
        if self.attempt.is_none() {
            self.told = 0;
        }
    }

    /// The attempt at the command under way, or at several commands together.
    pub fn attempt_at(&mut self, commands: usize) -> &mut Attempt {
        let seed = self.seed;
        let attempt = self.attempt.get_or_insert_with(|| Box::new(Attempt::new()));
        (attempt.commands, attempt.seed) = (commands, seed);
        attempt
    }

    /// Makes it act for a user from now on.
    pub fn act_for(&mut self, user: Arc<User>) {
        self.client.names().user = user.name.to_string();
        self.user = user;
        self.is_authenticated = true;
    }

    /// Answers the rest of a long command in pieces.
    pub fn leave(&mut self, pieces: impl Pieces + 'static) {
        self.pieces = Some(Box::new(pieces));
    }

    /// Whether the transaction counts keys: whether all that has expired has to be removed first.
    pub fn counts_in_transaction(&self) -> bool {
        let counts = |queue: &Queue| queue.commands.iter().any(|(spec, _)| spec.flags.has(Flags::EXACT));
        !self.watch.ranges.is_empty() || self.queue.as_ref().is_some_and(counts)
    }

    /// What [`Session::stand_as`] puts back.
    pub fn standing(&self) -> Standing {
        Standing {
            database: self.database,
            name: self.name.clone(),
            user: self.user.clone(),
            is_authenticated: self.is_authenticated,
            quorum: self.quorum,
            no_evict: self.no_evict,
            no_touch: self.no_touch,
        }
    }

    /// Makes it what it was.
    pub fn stand_as(&mut self, before: Standing) {
        let Standing { database, name, user, is_authenticated, quorum, no_evict, no_touch } = before;
        self.act_for(user);
        self.client.names().name.clone_from(&name);
        (self.database, self.name, self.is_authenticated) = (database, name, is_authenticated);
        (self.quorum, self.no_evict, self.no_touch) = (quorum, no_evict, no_touch);
    }

    /// Ends `MULTI`, if it was there, and forgets what was watched.
    pub fn leave_transaction(&mut self) {
        self.queue = None;
        self.watch = Watch::default();
    }
}
