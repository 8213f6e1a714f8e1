//! Tables over the engine: a turn is one commit, so one record of the log.
//!
//! While all rows are in memory a turn is a latched write: others wait for it, and it never waits. Once some rows lie
//! in runs it is a transaction of the single writer: a page that it lacks it waits for alone, while readers go on.
//! Pages of rows that it is known to look up are loaded together before it begins ([`EngineStore::load_ahead`]).
//!
//! Rows lie in the tables `cluster.entities`, `.graves`, `.expires`, `.hints` and `.facts` of a database that may have
//! others. The hash of rows is seeded with the cluster's seed, so tables of nodes of one cluster compare.
//!
//! Cost: that of the engine: a write is one descent, a tally two.

use quipu::latched::{LatchedWrite, PageFaults, PendingCommit};
use quipu::{
    Db, Durability, ErrorKind, Measures, ReadableTable, Result, TableOptions, Tally, Transaction, WritableTable,
};

use crate::tables::{Table, Tables};

/// The most rows whose pages are loaded ahead of a turn: with pages of 4 KiB they are 16 MiB.
const AHEAD_MAX: usize = 4096;

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
        let mut write = self.db.latched().write()?;
        if write.may_fault() {
            drop(write);
            let in_transaction = |transaction: &Transaction| {
                work(&mut EngineTables { store: self, writes: Writes::Transaction(transaction) })
            };
            let answer = self.db.write_with(Durability::None, in_transaction)?;
            return Ok((answer, self.db.pending_commits()));
        }
        write.set_savepoint();
        let mut tables = EngineTables { store: self, writes: Writes::Latched(write) };
        let answer = work(&mut tables);
        let Writes::Latched(mut write) = tables.writes else { unreachable!("it was latched above") };
        match answer {
            Ok(answer) => Ok((answer, write.commit()?)),
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

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.store.table(table);
        match &mut self.writes {
            Writes::Latched(write) => write.put(table, key, value).map(|_| ()),
            Writes::Transaction(transaction) => transaction.table(table)?.put(key, value),
        }
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
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
