//! Tables over the engine: a turn is one latched write, so one record of the log and one commit.
//!
//! Pages of runs that a turn will want are loaded together before it begins ([`EngineStore::load_ahead`]). Where one is
//! missing nonetheless, the turn loads it and goes on: others wait meanwhile. A node's turns are its database's only
//! writes of weight, so nobody is held up but those who would wait for the node anyway.
//!
//! Rows lie in the tables `cluster.entities`, `.graves`, `.expires`, `.hints` and `.facts` of a database that may have
//! others. The hash of rows is seeded with the cluster's seed, so tables of nodes of one cluster compare.
//!
//! Cost: that of the engine: a write is one descent, a tally two.

use std::cell::RefCell;

use quipu::{
    Db, ErrorKind, LatchedWrite, Measures, PageFaults, PendingCommit, ReadableTable, Result, TableOptions, Tally,
};

use crate::tables::{Table, Tables};

/// The most rows whose pages are loaded ahead of a turn: with pages of 4 KiB they hold 16 MiB meanwhile.
const AHEAD_MAX: usize = 4096;

/// The tables of a node in a database.
#[derive(Clone, Debug)]
pub struct EngineStore {
    db: Db,
    tables: [quipu::Table; 5],
    hash_seed: u64,
}

/// A turn: see [`Tables`].
pub struct EngineTables<'s> {
    store: &'s EngineStore,
    write: LatchedWrite<'s>,
    /// Pages that were loaded for this turn.
    faults: RefCell<PageFaults>,
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

    /// Begins a turn. Other writers and readers of the database wait until it is committed.
    ///
    /// # Errors
    /// Those of [`Db::latched_write`].
    pub fn turn(&self) -> Result<EngineTables<'_>> {
        self.turn_with(PageFaults::default())
    }

    /// [`EngineStore::turn`] with pages that were loaded ahead.
    ///
    /// # Errors
    /// Those of [`Db::latched_write`].
    pub fn turn_with(&self, loaded: PageFaults) -> Result<EngineTables<'_>> {
        let mut write = self.db.latched_write()?;
        write.lend(&loaded);
        write.set_savepoint();
        Ok(EngineTables { store: self, write, faults: RefCell::new(loaded) })
    }

    /// Loads the pages on the way to rows of entities, all in the order of their files, while nobody waits for the
    /// database. `list` names the rows; it is not called if all rows are in memory.
    ///
    /// # Errors
    /// Those of reading a page of a run.
    pub fn load_ahead(&self, list: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Result<PageFaults> {
        let mut faults = PageFaults::default();
        let entities = self.table(Table::Entities);
        if entities.has_runs()? {
            list(&mut |row| {
                if faults.len() < AHEAD_MAX {
                    entities.expect_key(row, &mut faults);
                }
            });
            self.db.load(&mut faults)?;
        }
        Ok(faults)
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

impl<'s> EngineTables<'s> {
    /// Ends the turn. What is returned is waited for before anything is sent.
    ///
    /// # Errors
    /// Those of [`LatchedWrite::commit`].
    pub fn commit(self) -> Result<PendingCommit<'s>> {
        self.write.commit()
    }

    /// Ends the turn without what it has written.
    ///
    /// # Errors
    /// Those of [`LatchedWrite::rollback_to_savepoint`].
    pub fn roll_back(mut self) -> Result<()> {
        self.write.rollback_to_savepoint()
    }

    /// Asks again until all pages of runs are there.
    fn patiently<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match ask() {
                Err(error) if error.kind() == ErrorKind::PageFault => self.load()?,
                result => return result,
            }
        }
    }

    fn load(&self) -> Result<()> {
        let mut faults = self.faults.borrow_mut();
        self.write.take_faults(&mut faults);
        // No keys are noted, so this takes no latch.
        self.store.db.load(&mut faults)?;
        self.write.lend(&faults);
        Ok(())
    }

    fn table(&self, table: Table) -> &'s quipu::Table {
        &self.store.tables[table as usize]
    }
}

impl Tables for EngineTables<'_> {
    fn get_with<R>(&self, table: Table, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let view = self.write.table(self.table(table))?;
        let (mut read, mut answer) = (Some(read), None);
        self.patiently(|| view.get_with(key, |value| answer = read.take().map(|read| read(value))))?;
        answer.ok_or_else(|| quipu::Error::new(ErrorKind::Poisoned, "a look-up gave no answer"))
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table(table);
        loop {
            match self.write.put(table, key, value) {
                Err(error) if error.kind() == ErrorKind::PageFault => self.load()?,
                result => return result.map(|_| ()),
            }
        }
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let table = self.table(table);
        loop {
            match self.write.remove(table, key) {
                Err(error) if error.kind() == ErrorKind::PageFault => self.load()?,
                result => return result.map(|_| ()),
            }
        }
    }

    fn tally(&self, table: Table, start: &[u8], end: &[u8]) -> Result<Tally> {
        if start >= end {
            return Ok(Tally::ZERO);
        }
        let view = self.write.table(self.table(table))?;
        self.patiently(|| view.tally(start..end))
    }

    fn nth(&self, table: Table, start: &[u8], end: &[u8], offset: u64) -> Result<Option<Vec<u8>>> {
        if start >= end {
            return Ok(None);
        }
        let view = self.write.table(self.table(table))?;
        let entry = self.patiently(|| view.nth(start..end, offset))?;
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
        let view = self.write.table(self.table(table))?;
        let (mut left, mut last) = (rows, None::<Vec<u8>>);
        self.patiently(|| {
            // After a page that was missing it goes on behind the last row.
            let from = match &last {
                Some(last) => [last, &[0][..]].concat(),
                None => start.to_vec(),
            };
            if from.as_slice() >= end || left == 0 {
                return Ok(());
            }
            view.for_each(&from[..]..end, |key, value| {
                left -= 1;
                let goes_on = visit(key, value) && left > 0;
                if !goes_on {
                    left = 0;
                }
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                goes_on
            })
        })
    }

    fn row_hash(&self, key: &[u8], value: &[u8]) -> u64 {
        Measures { hash: true, hash_seed: self.store.hash_seed, ..Measures::ROWS }.of_row(key, value).hash
    }
}
