//! Counts what happens on the PostgreSQL face, for `INFO` and for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use quipu_sql::SqlState;

/// The counters.
#[derive(Debug, Default)]
pub struct PostgresStatistics {
    /// Sessions there are.
    pub sessions: AtomicUsize,
    /// Sessions there were.
    pub sessions_begun: AtomicU64,
    /// Connections that were refused: a wrong password, no place, a stranger.
    pub refused: AtomicU64,
    /// Statements that were run, whether they failed or not.
    pub statements: AtomicU64,
    /// Statements that were asked to end.
    pub cancels: AtomicU64,
    /// Errors that clients were told, by the class of their code: `23` is that of constraints.
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

impl PostgresStatistics {
    /// Notes an error that a client is told.
    pub fn note_error(&self, state: SqlState) {
        let class = state.code().get(..2).unwrap_or_default();
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(class).or_default() += 1;
    }

    /// Notes a statement that is run.
    pub fn note_statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Errors by class.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().map(|(class, count)| (*class, *count)).collect()
    }
}
