//! Tables over the engine: a turn is one latched write, so one record of the log and one commit.
//!
//! Rows lie in the tables `cluster.entities`, `.graves`, `.expires`, `.hints` and `.facts` of a database that may have
//! others. The hash of rows is seeded with the cluster's seed, so tables of nodes of one cluster compare.
//!
//! Cost: that of the engine: a write is one descent, a tally two.

use quipu::{Db, ErrorKind, LatchedWrite, Measures, PendingCommit, ReadableTable, Result, TableOptions, Tally};

use crate::tables::{Table, Tables};

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

    /// Begins a turn. Other writers and readers of the database wait until it is committed.
    ///
    /// # Errors
    /// Those of [`Db::latched_write`].
    pub fn turn(&self) -> Result<EngineTables<'_>> {
        Ok(EngineTables { store: self, write: self.db.latched_write()? })
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

    fn table(&self, table: Table) -> &'s quipu::Table {
        &self.store.tables[table as usize]
    }
}

impl Tables for EngineTables<'_> {
    fn get_with<R>(&self, table: Table, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.write.table(self.table(table))?.get_with(key, read)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table(table);
        self.write.put(table, key, value).map(|_| ())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let table = self.table(table);
        self.write.remove(table, key).map(|_| ())
    }

    fn tally(&self, table: Table, start: &[u8], end: &[u8]) -> Result<Tally> {
        if start >= end {
            return Ok(Tally::ZERO);
        }
        self.write.table(self.table(table))?.tally(start..end)
    }

    fn nth(&self, table: Table, start: &[u8], end: &[u8], offset: u64) -> Result<Option<Vec<u8>>> {
        if start >= end {
            return Ok(None);
        }
        let entry = self.write.table(self.table(table))?.nth(start..end, offset)?;
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
        self.write.table(self.table(table))?.for_each(start..end, |key, value| {
            left -= 1;
            visit(key, value) && left > 0
        })
    }

    fn row_hash(&self, key: &[u8], value: &[u8]) -> u64 {
        Measures { hash: true, hash_seed: self.store.hash_seed, ..Measures::ROWS }.of_row(key, value).hash
    }
}
