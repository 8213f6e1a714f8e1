//! Failures of background work, kept until the work succeeds.
//!
//! No caller waits for the result of background work. Statistics report its failures, and so do errors of writers that
//! wait for memory.
//!
//! Not here: when failed work other than merges is tried again (`maintenance`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::catalog::declaration::TableId;
use crate::error::{Error, ErrorKind};
use crate::run::Run;
use crate::sync::Mutex;

/// Work done in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Task {
    /// Creating the next file of the log ahead of need.
    PrepareLog,
    /// Looking up what blind writes did not: see [`Table::resolve_blind_writes`](crate::Table::resolve_blind_writes).
    Resolve,
    /// Writing rows to a run when memory fills.
    Flush,
    /// Writing a checkpoint when the log has grown.
    Checkpoint,
    /// Merging runs when there are many.
    Merge,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Task::PrepareLog => "prepare the log",
            Task::Resolve => "resolve blind writes",
            Task::Flush => "flush",
            Task::Checkpoint => "checkpoint",
            Task::Merge => "merge",
        })
    }
}

/// Background work whose last attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The work.
    pub task: Task,
    /// The table, if the work was for one.
    pub table: Option<String>,
    /// The message of the error.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(f, "{} of table {table:?}: {}", self.task, self.message),
            None => write!(f, "{}: {}", self.task, self.message),
        }
    }
}

/// Runs background work that must not end its thread: a panic, which is a defect of this crate, becomes an error.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> crate::error::Result<T>) -> crate::error::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic_message(&*panic);
        Err(Error::new(ErrorKind::Corrupt, format!("a panic: {message}; run `quipu check`, and report it")))
    })
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The current failures, one for each task of a table.
#[derive(Default)]
pub(crate) struct Failures(Mutex<BTreeMap<(Task, Option<TableId>), Reason>>);

/// The kind and the message of an error.
type Reason = (ErrorKind, String);

impl Failures {
    /// Records how a task ended.
    pub(crate) fn note(&self, task: Task, table: Option<TableId>, result: Result<(), &Error>) {
        let mut failures = self.0.lock();
        match result {
            Ok(()) => drop(failures.remove(&(task, table))),
            Err(error) => drop(failures.insert((task, table), (error.kind(), error.to_string()))),
        }
    }

    /// The error of a task, of any table. It comes from the failure, as its source says: not from the call that gets
    /// it.
    pub(crate) fn of_task(&self, task: Task) -> Option<Error> {
        let failures = self.0.lock();
        let failure = failures.iter().find(|((failed, _), _)| *failed == task);
        failure.map(|(_, (kind, message))| Error::caused_by(*kind, message.clone(), message.clone()))
    }

    /// All failures. `name_of` gives the name of a live table; failures of dropped tables are forgotten.
    pub(crate) fn all<'n>(&self, name_of: impl Fn(TableId) -> Option<&'n str>) -> Vec<Failure> {
        let mut failures = self.0.lock();
        failures.retain(|(_, table), _| table.is_none_or(|table| name_of(table).is_some()));
        let told = failures.iter().map(|((task, table), (_, message))| Failure {
            task: *task,
            table: table.and_then(&name_of).map(str::to_owned),
            message: message.clone(),
        });
        told.collect()
    }
}

/// A failed merge is tried again after this many more jobs that write runs; after twice as many if it fails again, and
/// so on.
const RETRY_JOBS: u64 = 16;

/// Failed merges. Their runs are left alone for a while, so that others, of the same table too, are merged.
#[derive(Default)]
pub(crate) struct FailedMerges(Vec<FailedMerge>);

struct FailedMerge {
    runs: Vec<Arc<Run>>,
    /// The number of jobs at which it is tried again.
    retry_at: u64,
    times: u32,
}

impl FailedMerges {
    /// Whether to leave a run alone, after this many jobs that wrote runs.
    pub(crate) fn has(&self, run: &Arc<Run>, jobs: u64) -> bool {
        let failed = self.0.iter().filter(|failed| jobs < failed.retry_at);
        failed.flat_map(|failed| &failed.runs).any(|failed| failed.is_same(run))
    }

    /// Records how a merge of these runs ended.
    pub(crate) fn note(&mut self, runs: &[Arc<Run>], is_merged: bool, jobs: u64) {
        let is_of = |failed: &FailedMerge| failed.runs.iter().any(|run| runs.iter().any(|other| run.is_same(other)));
        let times = self.0.iter().filter(|failed| is_of(failed)).map(|failed| failed.times + 1).max().unwrap_or(0);
        self.0.retain(|failed| !is_of(failed));
        if !is_merged {
            let retry_at = jobs + (RETRY_JOBS << times.min(16));
            self.0.push(FailedMerge { runs: runs.to_vec(), retry_at, times });
        }
    }
}
