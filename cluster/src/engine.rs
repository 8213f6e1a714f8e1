//! Tables over the engine: a turn is one commit, so one record of the log.
//!
//! While all rows are in memory a turn is a latched write: others wait for it, and it never waits. Once some rows lie
//! in runs it is a transaction of the single writer: a page that it lacks it waits for alone, while readers go on.
//! Pages of rows that it is known to look up are loaded together before it begins ([`EngineStore::load_ahead`]).
//!
//! On a full disk a turn begins all the same: it reads, and what frees space goes into the room that the log keeps for
//! that ([`RoomFor`]).
//!
//! Rows lie in the tables `cluster.entities`, `.graves`, `.expires`, `.hints` and `.facts` of a database that may have
//! others. The hash of rows is seeded with the cluster's seed, so tables of nodes of one cluster compare.
//!
//! Cost: that of the engine: a write is one descent, a tally two.

use quipu::latched::{Lack, LatchedWrite, PageFaults, PendingCommit};
use quipu::{
    Db, Durability, ErrorKind, Measures, ReadableTable, Result, TableOptions, Tally, Transaction, WritableTable,
};

use crate::tables::{RoomFor, Table, Tables};

/// The most rows whose pages are loaded ahead of a turn: with pages of 4 KiB they are 16 MiB.
const AHEAD_MAX: usize = 4096;

/// Bytes that are left to facts, of the room that the log keeps for what frees space: without them a node fails.
const FACTS_BYTES: usize = 64 << 10;
/// The most rows that are written for one record: it, its deadline, and those that they take the place of.
const ROWS_OF_RECORD: usize = 4;

/// Whether a turn asks the disk for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// It does.
    Asked,
    /// The disk was found full a moment ago. To ask again costs up to a segment of the log each time.
    Lacking,
}

/// What a turn has come to.
#[must_use]
pub struct Turned<'s, T> {
    /// What its work has returned.
    pub answer: T,
    /// The commit, to be waited for before anything is sent.
    pub commit: PendingCommit<'s>,
    /// Why there was no space for all of it, if it asked.
    pub lack: Option<Lack>,
    /// Whether it has freed space, for lack of space for anything else. A checkpoint gives it back.
    pub has_freed: bool,
}

/// The tables of a node in a database.
#[derive(Clone, Debug)]
pub struct EngineStore {
    db: Db,
    tables: [quipu::Table; 5],
    hash_seed: u64,
}

/// The tables in a turn: see [`Tables`].
pub struct EngineTables<'t> {
    store: &'t EngineStore,
    writes: Writes<'t>,
    /// Rows and bytes that were written.
    written: (usize, usize),
    room: Room,
}

/// What is known of the space for what a turn writes.
#[derive(Default)]
struct Room {
    is_lacking: bool,
    lack: Option<Lack>,
    has_freed: bool,
}

/// What a turn writes to.
#[expect(clippy::large_enum_variant, reason = "there is one, on the stack")]
enum Writes<'t> {
    /// All rows are in memory, and stay there until the latch is free.
    Latched(LatchedWrite<'t>),
    Transaction(&'t Transaction),
}

fn name(table: Table) -> &'static str {
    match table {
        Table::Entities => "cluster.entities",
        Table::Graves => "cluster.graves",
        Table::Expires => "cluster.expires",
        Table::Hints => "cluster.hints",
        Table::Facts => "cluster.facts",
    }
}

impl EngineStore {
    /// Opens the tables, and creates those that are not there.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the tables were made with another seed: they are of another cluster.
    pub fn open(db: &Db, hash_seed: u64) -> Result<EngineStore> {
        let open = |table: Table| {
            let measures = match table {
                Table::Entities | Table::Graves => Measures { bytes: true, hash: true, hash_seed, ..Measures::ROWS },
                Table::Hints => Measures { bytes: true, ..Measures::ROWS },
                Table::Expires | Table::Facts => Measures::ROWS,
            };
            let found = match db.open_table(name(table))? {
                Some(found) => found,
                None => db.create_table(name(table), TableOptions { measures, ..TableOptions::default() })?,
            };
            if found.options().measures != measures {
                let text = format!("table {} was made for another cluster: its hashes have another seed", name(table));
                return Err(quipu::Error::new(ErrorKind::Invalid, text));
            }
            Ok(found)
        };
        let [entities, graves, expires, hints, facts] = Table::ALL;
        let tables = [open(entities)?, open(graves)?, open(expires)?, open(hints)?, open(facts)?];
        Ok(EngineStore { db: db.clone(), tables, hash_seed })
    }

    /// The seed with which the tables of a database were made; none if there are none.
    ///
    /// # Errors
    /// Those of [`Db::open_table`].
    pub fn stored_seed(db: &Db) -> Result<Option<u64>> {
        let entities = db.open_table(name(Table::Entities))?;
        Ok(entities.map(|entities| entities.options().measures.hash_seed))
    }

    /// Those of the tables that a database has.
    ///
    /// # Errors
    /// Those of [`Db::open_table`].
    pub fn tables_of(db: &Db) -> Result<Vec<quipu::Table>> {
        let found: Result<Vec<_>> = Table::ALL.into_iter().map(|table| db.open_table(name(table))).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Runs a turn and commits what it wrote; nothing of it stays if it fails. What is returned with its answer is
    /// waited for before anything is sent. Other writers of the database wait until then.
    ///
    /// # Errors
    /// Those of `work`, and those of a commit.
    pub fn turn<T>(&self, work: impl FnOnce(&mut EngineTables<'_>) -> Result<T>) -> Result<(T, PendingCommit<'_>)> {
        self.turn_in(Space::Asked, work).map(|turned| (turned.answer, turned.commit))
    }

    /// [`EngineStore::turn`], by one who remembers whether there was space.
    ///
    /// # Errors
    /// Those of [`EngineStore::turn`].
    pub fn turn_in<T>(
        &self,
        space: Space,
        work: impl FnOnce(&mut EngineTables<'_>) -> Result<T>,
    ) -> Result<Turned<'_, T>> {
        let latched = self.db.latched();
        let asked = match space {
            Space::Asked => latched.write().map(Some),
            Space::Lacking => Ok(None),
        };
        let (write, lack) = match asked {
            Err(error) if error.is_full_disk() => (None, Lack::of(&error, 0)),
            asked => (asked?, None),
        };
        let is_lacking = write.is_none();
        let mut write = match write {
            Some(write) => write,
            None => latched.write_to_free()?,
        };
        let mut room = Room { is_lacking, lack, has_freed: false };
        if write.may_fault() {
            drop(write);
            let in_transaction = |transaction: &Transaction| {
                let writes = Writes::Transaction(transaction);
                let mut tables = EngineTables { store: self, writes, written: (0, 0), room: std::mem::take(&mut room) };
                let answer = work(&mut tables);
                room = tables.room;
                answer
            };
            let answer = match is_lacking {
                true => self.db.write_to_free(Durability::None, in_transaction)?,
                false => self.db.write_with(Durability::None, in_transaction)?,
            };
            let Room { lack, has_freed, .. } = room;
            return Ok(Turned { answer, commit: self.db.pending_commits(), lack, has_freed });
        }
        write.set_savepoint();
        let mut tables = EngineTables { store: self, writes: Writes::Latched(write), written: (0, 0), room };
        let answer = work(&mut tables);
        let Room { lack, has_freed, .. } = tables.room;
        let Writes::Latched(mut write) = tables.writes else { unreachable!("it was latched above") };
        match answer {
            Ok(answer) => Ok(Turned { answer, commit: write.commit()?, lack, has_freed }),
            Err(error) => {
                write.rollback_to_savepoint()?;
                Err(error)
            }
        }
    }

    /// [`EngineStore::turn`], which returns when what it wrote is on stable storage.
    ///
    /// # Errors
    /// Those of `work`, and those of a commit.
    pub fn turn_and_sync<T>(&self, work: impl FnOnce(&mut EngineTables<'_>) -> Result<T>) -> Result<T> {
        let (answer, commit) = self.turn(work)?;
        commit.wait(Durability::Sync)?;
        Ok(answer)
    }

    /// Loads the pages on the way to rows of entities, all in the order of their files. `list` names the rows; it is
    /// not called if all rows are in memory.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub fn load_ahead(&self, list: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Result<()> {
        let entities = self.table(Table::Entities);
        if entities.has_runs()? {
            let mut faults = PageFaults::default();
            list(&mut |row| {
                if faults.len() < AHEAD_MAX {
                    entities.expect_key(row, &mut faults);
                }
            });
            self.db.latched().load(&mut faults)?;
        }
        Ok(())
    }

    /// One of the tables, for reads beside the turns.
    pub fn table(&self, table: Table) -> &quipu::Table {
        &self.tables[table as usize]
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

impl EngineTables<'_> {
    fn table(&self, table: Table) -> &quipu::Table {
        self.store.table(table)
    }
}

/// Asks a table as this turn sees it, whatever it writes to.
macro_rules! ask {
    ($turn:expr, $table:expr, $view:ident => $question:expr) => {
        match &$turn.writes {
            Writes::Latched(write) => {
                let $view = write.table($turn.table($table))?;
                $question
            }
            Writes::Transaction(transaction) => {
                let $view = transaction.table($turn.table($table))?;
                $question
            }
        }
    };
}

impl Tables for EngineTables<'_> {
    fn get_with<R>(&self, table: Table, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        match &self.writes {
            Writes::Latched(write) => write.table(self.table(table))?.get_with(key, read),
            // A transaction remembers what it found for the write that follows, but not of rows that it lends.
            Writes::Transaction(transaction) => {
                let value = transaction.table(self.table(table))?.get(key)?;
                Ok(read(value.as_deref()))
            }
        }
    }

    fn has_room(&mut self, what: RoomFor, bytes: usize) -> Result<bool> {
        if what == RoomFor::Growth && self.room.is_lacking {
            return Ok(false);
        }
        let entities = self.store.table(Table::Entities);
        let (rows, written_bytes) = (self.written.0 + ROWS_OF_RECORD, self.written.1 + bytes);
        let reserved = match (&mut self.writes, what) {
            (Writes::Latched(write), RoomFor::Growth) => write.reserve(entities, ROWS_OF_RECORD, bytes),
            (Writes::Latched(write), RoomFor::Removal) => {
                write.reserve_to_free(entities, ROWS_OF_RECORD, bytes + FACTS_BYTES)
            }
            (Writes::Transaction(transaction), RoomFor::Growth) => transaction.reserve(rows, written_bytes),
            (Writes::Transaction(transaction), RoomFor::Removal) => {
                transaction.reserve_to_free(rows, written_bytes + FACTS_BYTES)
            }
        };
        match reserved {
            Ok(()) => {
                self.room.has_freed |= what == RoomFor::Removal;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                if what == RoomFor::Growth {
                    (self.room.is_lacking, self.room.lack) = (true, Lack::of(&error, written_bytes));
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let frees = table.frees(value);
        self.written = (self.written.0 + 1, self.written.1 + key.len() + value.len());
        let table = self.store.table(table);
        match &mut self.writes {
            Writes::Latched(write) if frees => write.put_to_free(table, key, value).map(|_| ()),
            Writes::Latched(write) => write.put(table, key, value).map(|_| ()),
            Writes::Transaction(transaction) => {
                let view = transaction.table(table)?;
                if frees {
                    view.write_to_free();
                }
                view.put(key, value)
            }
        }
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.written = (self.written.0 + 1, self.written.1 + key.len());
        let table = self.store.table(table);
        match &mut self.writes {
            Writes::Latched(write) => write.remove(table, key).map(|_| ()),
            Writes::Transaction(transaction) => transaction.table(table)?.delete(key),
        }
    }

    fn tally(&self, table: Table, start: &[u8], end: &[u8]) -> Result<Tally> {
        if start >= end {
            return Ok(Tally::ZERO);
        }
        ask!(self, table, view => view.tally(start..end))
    }

    fn nth(&self, table: Table, start: &[u8], end: &[u8], offset: u64) -> Result<Option<Vec<u8>>> {
        if start >= end {
            return Ok(None);
        }
        let entry = ask!(self, table, view => view.nth(start..end, offset))?;
        Ok(entry.map(|entry| entry.key.into()))
    }

    fn scan(
        &self,
        table: Table,
        start: &[u8],
        end: &[u8],
        rows: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if start >= end || rows == 0 {
            return Ok(());
        }
        let mut left = rows;
        let take = |key: &[u8], value: &[u8]| {
            left -= 1;
            visit(key, value) && left > 0
        };
        ask!(self, table, view => view.for_each(start..end, take))
    }

    fn row_hash(&self, key: &[u8], value: &[u8]) -> u64 {
        Measures { hash: true, hash_seed: self.store.hash_seed, ..Measures::ROWS }.of_row(key, value).hash
    }
}
