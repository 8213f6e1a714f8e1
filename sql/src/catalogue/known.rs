//! Catalogues that were made, kept while they may be asked for again.

use std::sync::{Arc, Mutex, PoisonError};

use quipu_rows::{Database, RowSnapshot, RowTransaction};

use crate::catalogue::sequences::Sequences;
use crate::catalogue::store::Store;
use crate::catalogue::{Catalogue, Version};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;

/// Catalogues that are kept: those that were asked for last.
const KEPT_MAX: usize = 8;

/// The catalogues of a database. One for all sessions.
pub struct Catalogues {
    database: Database,
    store: Store,
    sequences: Sequences,
    kept: Mutex<Vec<Arc<Catalogue>>>,
}

impl Catalogues {
    /// Those of a database.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn open(database: &Database) -> Result<Catalogues> {
        let store = Store::open(database.db())?;
        let sequences = Sequences::new(database, &store);
        Ok(Catalogues { database: database.clone(), store, sequences, kept: Mutex::default() })
    }

    /// The catalogue that a view sees.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of(&self, view: View<'_>) -> Result<Arc<Catalogue>> {
        match view {
            View::Snapshot(snapshot) => self.of_snapshot(snapshot),
            View::Transaction(transaction) => self.of_transaction(transaction),
            View::Nothing => Err(no_tables()),
        }
    }

    /// Where SQL's own objects are kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The numbers of sequences.
    pub fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// The tables of rows.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn kept(&self, version: Version) -> Option<Arc<Catalogue>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|catalogue| catalogue.version() == version).cloned()
    }

    /// All that are kept, the last one first.
    fn all_kept(&self) -> Vec<Arc<Catalogue>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, catalogue: Catalogue) -> Arc<Catalogue> {
        let catalogue = Arc::new(catalogue);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(0, Arc::clone(&catalogue));
        kept.truncate(KEPT_MAX);
        catalogue
    }

    /// Which catalogue a transaction sees. O(1), and the transaction relies on nothing for it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn version_of(&self, transaction: &RowTransaction<'_>) -> Result<Version> {
        Version::of_transaction(&self.store, transaction)
    }

    /// Which catalogue a snapshot sees. O(1).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn version_of_snapshot(&self, snapshot: &RowSnapshot) -> Result<Version> {
        Version::of_snapshot(&self.store, snapshot)
    }

    /// The catalogue that a transaction sees, with its own changes. The transaction relies on nothing of what others
    /// may change: tables are relied upon when they are used.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of_transaction(&self, transaction: &RowTransaction<'_>) -> Result<Arc<Catalogue>> {
        let version = self.version_of(transaction)?;
        if let Some(kept) = self.kept(version) {
            return Ok(kept);
        }
        let now = self.database.snapshot();
        if Version::of_snapshot(&self.store, &now)? == version {
            return Ok(self.keep(Catalogue::of_snapshot(&self.store, &now, &self.all_kept())?));
        }
        Ok(self.keep(Catalogue::of_transaction(&self.store, transaction, &self.all_kept())?))
    }

    /// The catalogue that a snapshot sees.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of_snapshot(&self, snapshot: &RowSnapshot) -> Result<Arc<Catalogue>> {
        match self.kept(Version::of_snapshot(&self.store, snapshot)?) {
            Some(kept) => Ok(kept),
            None => Ok(self.keep(Catalogue::of_snapshot(&self.store, snapshot, &self.all_kept())?)),
        }
    }
}

fn no_tables() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "an expression of one row asks for tables")
}
