//! The keys of the server over the tables of the engine.
//!
//! Each of the sixteen databases has three tables: `keys.N` (a key and what stands there), `elements.N` (what collections hold, under their ids) and `expires.N`
//! (moment and key, in the order in which keys expire). The table of keys is ordered and counted, which is what the commands `Q.*` ask.
//!
//! Invariants:
//! 1. A key has an entry in `expires` exactly if its header has a deadline, and the two agree.
//! 2. A collection has at least one element; its elements go when its key does.
//! 3. No key that has expired is returned or counted: what is due is removed before anything is counted, and a lookup looks at the deadline.
//! 4. All commands that run under one [`Data`] see the same time.
//!
//! [`check()`] looks at 1 and 2.
//!
//! Not here: what the commands are, connections, the wire.

mod changes;
mod check;
mod data;
pub mod scan;
pub mod score;
pub mod sorted_set;
pub mod sorted_set_writer;
mod transfer;
pub mod value;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quipu::{Db, Measures, Read, Result, Snapshot, Table, TableOptions};

pub use changes::Change;
pub use check::{check, is_keys_table};
pub use data::{Data, Need};

use value::CollectionId;

/// How many databases `SELECT` chooses from.
pub const DATABASES: usize = 16;

/// Bytes of the longest key, and of the longest member of a collection.
pub const KEY_BYTES_MAX: usize = 65_000;

/// The tables of one database.
#[derive(Debug)]
pub struct Tables {
    /// Key to header and body.
    pub keys: Table,
    /// Id and element.
    pub elements: Table,
    /// Deadline (big-endian milliseconds) and key.
    pub expires: Table,
}

/// Set when something that a client watches has changed.
pub type Touched = Arc<AtomicBool>;

/// What only the holder of an edit changes.
#[derive(Default, Debug)]
pub(crate) struct State {
    /// Who watches which keys, by database.
    pub(crate) watched: HashMap<(usize, Box<[u8]>), Vec<Touched>>,
}

/// What happened to keys, for statistics.
#[derive(Default, Debug)]
pub struct Counters {
    /// Lookups that found a key.
    pub hits: AtomicU64,
    /// Lookups that found none.
    pub misses: AtomicU64,
    /// Keys that were removed because they had expired.
    pub expired: AtomicU64,
    /// Changes since the start.
    pub changes: AtomicU64,
}

impl Counters {
    /// Counts a lookup that found a key or not.
    #[inline]
    pub fn note_lookup(&self, found: bool) {
        if found { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts many.
    pub fn note_lookups(&self, hits: u64, misses: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.misses.fetch_add(misses, Ordering::Relaxed);
    }
}

/// All databases of a server.
pub struct Keyspace {
    db: Db,
    tables: [OnceLock<Tables>; DATABASES],
    /// Which tables each database has: `SWAPDB` swaps two of them.
    order: [AtomicU8; DATABASES],
    /// The server's own facts, such as that order.
    facts: Table,
    state: Mutex<State>,
    /// No key expires before.
    due_ms: AtomicU64,
    next_id: AtomicU64,
    hash_seed: u64,
    measures: Measures,
    /// For `INFO`.
    pub counters: Counters,
    /// Where iterations over keys go on.
    pub cursors: scan::Cursors,
}

const ORDER_FACT: &[u8] = b"order of databases";
const SEED_FACT: &[u8] = b"seed of member hashes";

impl Keyspace {
    /// Over the tables of `db`, which are made as they are needed. `measures` are those of new tables of keys.
    pub fn open(db: Db, measures: Measures) -> Result<Keyspace> {
        let facts = db.table("server")?;
        let order: [AtomicU8; DATABASES] = std::array::from_fn(|number| AtomicU8::new(number as u8));
        if let Some(stored) = facts.get(ORDER_FACT)? {
            for (place, &number) in order.iter().zip(stored.iter()) {
                place.store(number.min(DATABASES as u8 - 1), Ordering::Relaxed);
            }
        }
        let hash_seed = match facts.get(SEED_FACT)? {
            Some(seed) if seed.len() == 8 => u64::from_le_bytes(seed[..].try_into().unwrap_or_default()),
            _ => {
                let seed: u64 = rand::random();
                quipu::Write::put(&facts, SEED_FACT, seed.to_le_bytes())?;
                seed
            }
        };
        let keyspace = Keyspace {
            db,
            tables: std::array::from_fn(|_| OnceLock::new()),
            order,
            facts,
            state: Mutex::default(),
            due_ms: AtomicU64::new(u64::MAX),
            next_id: AtomicU64::new(1),
            hash_seed,
            measures,
            counters: Counters::default(),
            cursors: scan::Cursors::default(),
        };
        for number in 0..DATABASES {
            if number == 0 || keyspace.db.open_table(&format!("keys.{number}"))?.is_some() {
                keyspace.make(number)?;
            }
        }
        keyspace.find_due()?;
        Ok(keyspace)
    }

    /// The engine's database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// What members of sorted sets are hashed with.
    pub fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// Opens or makes the tables that are stored under this number.
    fn make(&self, number: usize) -> Result<&Tables> {
        if let Some(tables) = self.tables[number].get() {
            return Ok(tables);
        }
        let keys_name = format!("keys.{number}");
        let keys = match self.db.open_table(&keys_name)? {
            Some(table) => table,
            None => {
                self.db.create_table(&keys_name, TableOptions { measures: self.measures, ..TableOptions::default() })?
            }
        };
        let elements = self.db.table(&format!("elements.{number}"))?;
        let expires = self.db.table(&format!("expires.{number}"))?;
        // Ids go on above all that are in use.
        if let Some(last) = elements.last()?
            && let Some(id) = CollectionId::from_bytes(&last.key)
        {
            self.next_id.fetch_max(id.0 + 1, Ordering::Relaxed);
        }
        Ok(self.tables[number].get_or_init(|| Tables { keys, elements, expires }))
    }

    /// Makes the tables of a database, so that commands can use it. To be called before a [`Data`] is opened, by whoever selects it.
    pub fn prepare(&self, database: usize) -> Result<()> {
        self.make(self.number_of(database)).map(|_| ())
    }

    fn number_of(&self, database: usize) -> usize {
        usize::from(self.order[database].load(Ordering::Acquire))
    }

    /// The tables of a database that was prepared; `None` if it was not: then it has no keys.
    pub fn tables(&self, database: usize) -> Option<&Tables> {
        self.tables[self.number_of(database)].get()
    }

    pub(crate) fn swap_order(&self, a: usize, b: usize) -> Vec<u8> {
        let (from, to) = (self.order[a].load(Ordering::Relaxed), self.order[b].load(Ordering::Relaxed));
        self.order[a].store(to, Ordering::Release);
        self.order[b].store(from, Ordering::Release);
        self.order.iter().map(|number| number.load(Ordering::Relaxed)).collect()
    }

    fn new_id(&self) -> CollectionId {
        CollectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first moment at which a key expires, in milliseconds since 1970; `u64::MAX` if none does.
    pub fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// A fact of the server's own. To be asked while no [`Data`] is held, as [`Keyspace::set_fact`] is.
    pub fn fact(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.facts.get(name)?.map(|value| value.to_vec()))
    }

    /// Keeps a fact of the server's own.
    pub fn set_fact(&self, name: &[u8], value: &[u8]) -> Result<()> {
        quipu::Write::put(&self.facts, name, value).map(|_| ())
    }

    /// A snapshot of all databases as they are.
    pub fn snapshot(&self) -> Snapshot {
        self.db.read()
    }
}
