//! All databases of a server ([`Keyspace`]): their tables, and what is kept beside them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quipu::{Db, Measures, ReadableTable, Result, Snapshot, SumField, Table, TableOptions};

use super::cut::Cut;
use super::removals::{Removal, Removals};
use super::scan::Cursors;
use super::space::Space;
use super::tables::{DATABASES, FACTS, REMOVALS, Tables};
use super::value::CollectionId;
use super::yielding::Waiting;

/// Set when something that a client watches has changed.
pub type Touched = Arc<AtomicBool>;

/// What only the holder of a `LatchedWrite` changes.
#[derive(Default, Debug)]
pub(super) struct DatabasesState {
    /// Who watches which keys, by database.
    pub(super) watched: HashMap<(usize, Box<[u8]>), Vec<Touched>>,
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
    pub(super) db: Db,
    pub(super) tables: [OnceLock<Tables>; DATABASES],
    /// Which tables each database has: `SWAPDB` swaps two of them.
    order: [AtomicU8; DATABASES],
    /// The server's own facts, such as that order.
    pub(super) facts: Table,
    state: Mutex<DatabasesState>,
    /// No key expires before.
    pub(super) due_ms: AtomicU64,
    expiry_paused_until_ms: AtomicU64,
    next_id: AtomicU64,
    /// By the numbers of tables: the last id that was given before all were dropped.
    ended: [AtomicU64; DATABASES],
    pub(super) removals_table: Table,
    pub(super) removals: Arc<Removals>,
    hash_seed: u64,
    cut: Cut,
    measures: Measures,
    pub(super) waiting: Waiting,
    pub(super) space: Space,
    /// For `INFO`.
    pub counters: Counters,
    /// Where iterations over keys go on.
    pub cursors: Cursors,
}

pub(super) const ORDER_FACT: &[u8] = b"order of databases";
pub(super) const SEED_FACT: &[u8] = b"seed of member hashes";
/// How strings are cut: the bytes of the longest that is not, and of a piece, 8 bytes each, little-endian.
pub(super) const CUT_FACT: &[u8] = b"cut of strings";

impl Keyspace {
    /// Over the tables of `db`, which are made as they are needed. `measures` are those of new tables of keys.
    pub fn open(db: Db, measures: Measures) -> Result<Keyspace> {
        Keyspace::open_cut(db, measures, Cut::default())
    }

    /// The same, with long strings cut otherwise if the database is new.
    pub fn open_cut(db: Db, measures: Measures, cut: Cut) -> Result<Keyspace> {
        let facts = table_in_memory(&db, FACTS)?;
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
                quipu::WritableTable::put(&facts, SEED_FACT, seed.to_le_bytes())?;
                seed
            }
        };
        let cut = match facts.get(CUT_FACT)?.as_deref().and_then(Cut::from_bytes) {
            Some(cut) => cut,
            None => {
                quipu::WritableTable::put(&facts, CUT_FACT, cut.bytes())?;
                cut
            }
        };
        let removals_table = table_in_memory(&db, REMOVALS)?;
        let keyspace = Keyspace {
            db,
            tables: std::array::from_fn(|_| OnceLock::new()),
            order,
            facts,
            state: Mutex::default(),
            due_ms: AtomicU64::new(u64::MAX),
            expiry_paused_until_ms: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            ended: [const { AtomicU64::new(0) }; DATABASES],
            removals_table,
            removals: Arc::default(),
            hash_seed,
            cut,
            measures,
            waiting: Waiting::default(),
            space: Space::default(),
            counters: Counters::default(),
            cursors: Cursors::new(hash_seed),
        };
        for number in 0..DATABASES {
            if number == 0 || keyspace.db.open_table(&format!("keys.{number}"))?.is_some() {
                keyspace.make(number)?;
            }
        }
        keyspace.find_due()?;
        keyspace.find_removals()?;
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
    pub(super) fn make(&self, number: usize) -> Result<&Tables> {
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
        let elements = self.db.ensure_table(&format!("elements.{number}"))?;
        let expires = self.db.ensure_table(&format!("expires.{number}"))?;
        let owners_name = format!("owners.{number}");
        let owners = match self.db.open_table(&owners_name)? {
            Some(table) => table,
            None => {
                let measures = Measures { sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
                self.db.create_table(&owners_name, TableOptions { measures, ..TableOptions::default() })?
            }
        };
        // Ids go on above all that are in use.
        if let Some(last) = elements.last()?
            && let Some(id) = CollectionId::from_bytes(&last.key)
        {
            self.note_id(id);
        }
        Ok(self.tables[number].get_or_init(|| Tables { keys, elements, owners, expires }))
    }

    /// An id is in use: those that are given are above.
    pub(super) fn note_id(&self, id: CollectionId) {
        self.next_id.fetch_max(id.0 + 1, Ordering::Relaxed);
    }

    /// Notes when the first key expires, after opening.
    fn find_due(&self) -> Result<()> {
        let mut due_ms = u64::MAX;
        for tables in self.tables.iter().filter_map(|tables| tables.get()) {
            if let Some(first) = tables.expires.first()? {
                due_ms = due_ms.min(moment_of(&first.key));
            }
        }
        self.due_ms.store(due_ms, Ordering::Release);
        Ok(())
    }

    /// Takes up what was to be removed when the server ended.
    fn find_removals(&self) -> Result<()> {
        self.removals_table.for_each(.., |key, _| {
            if let Some(removal) = Removal::from_row(key) {
                self.note_id(removal.id);
                self.removals.push(removal);
            }
            true
        })
    }

    /// How strings are cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The tables of a number; `None` if they were not made.
    pub(super) fn tables_of(&self, number: usize) -> Option<&Tables> {
        self.tables[number].get()
    }

    /// No id up to this one is used any more in the tables of a number.
    pub(super) fn end_ids(&self, number: usize, last: CollectionId) {
        self.ended[number].fetch_max(last.0, Ordering::AcqRel);
    }

    pub(super) fn is_ended(&self, number: usize, id: CollectionId) -> bool {
        id.0 <= self.ended[number].load(Ordering::Acquire)
    }

    /// Makes the tables of a database, so that commands can use it. To be called before a [`Data`](super::data::Data)
    /// is opened, by the client that selects it.
    pub fn prepare(&self, database: usize) -> Result<()> {
        self.make(self.number_of(database)).map(|_| ())
    }

    pub(super) fn number_of(&self, database: usize) -> usize {
        usize::from(self.order[database].load(Ordering::Acquire))
    }

    /// The tables of a database that was prepared; `None` if it was not: then it has no keys.
    pub fn tables(&self, database: usize) -> Option<&Tables> {
        self.tables[self.number_of(database)].get()
    }

    pub(super) fn swap_order(&self, a: usize, b: usize) -> Vec<u8> {
        let (from, to) = (self.order[a].load(Ordering::Relaxed), self.order[b].load(Ordering::Relaxed));
        self.order[a].store(to, Ordering::Release);
        self.order[b].store(from, Ordering::Release);
        self.order.iter().map(|number| number.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn new_id(&self) -> CollectionId {
        CollectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DatabasesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first moment at which a key expires, in milliseconds since 1970; `u64::MAX` if none does.
    pub fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// Whether keys that have expired by now are to be removed along with other work.
    pub fn removes_expired(&self, now_ms: u64) -> bool {
        self.due_ms() <= now_ms && self.expiry_paused_until_ms.load(Ordering::Relaxed) <= now_ms
    }

    /// Leaves keys that expire until then where they are. They are not seen, but they are counted, as in Redis.
    pub fn pause_expiry_until(&self, ms: u64) {
        self.expiry_paused_until_ms.store(ms, Ordering::Relaxed);
    }

    /// A fact of the server's own. To be asked while no [`Data`](super::data::Data) is held, as [`Keyspace::set_fact`]
    /// is.
    pub fn fact(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.facts.get(name)?.map(|value| value.to_vec()))
    }

    /// Keeps a fact of the server's own.
    pub fn set_fact(&self, name: &[u8], value: &[u8]) -> Result<()> {
        quipu::WritableTable::put(&self.facts, name, value).map(|_| ())
    }

    /// A snapshot of all databases as they are.
    pub fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }
}

/// A small table whose rows stay in memory, made if it is not there: no hold lacks a page of it.
pub(crate) fn table_in_memory(db: &Db, name: &str) -> Result<Table> {
    match db.open_table(name)? {
        Some(table) => Ok(table),
        None => db.create_table(name, TableOptions { in_memory: true, ..TableOptions::default() }),
    }
}

/// The moment of a row of `expires`.
pub(super) fn moment_of(key: &[u8]) -> u64 {
    key.first_chunk::<8>().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
}
