//! What background work could not do: nobody waits for its result, so it is kept here until the work is done, for statistics and for those who wait for memory.
//!
//! Not here: when other work that failed is tried again (`keeper`, `memory`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::run::Run;
use crate::snapshot::TableId;
use crate::sync::Mutex;

/// Work that is done in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Task {
    /// Making the next file of the log ahead of need.
    PrepareLog,
    /// Asking for what blind writes have not asked: see [`Table::resolve`](crate::Table::resolve).
    Resolve,
    /// Writing rows to a run as memory fills.
    Flush,
    /// Writing a checkpoint as the log grows.
    Checkpoint,
    /// Merging runs as they become many.
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

/// Background work that failed when it was tried last, and has not been done since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The work.
    pub task: Task,
    /// The table, if it was that of one.
    pub table: Option<String>,
    /// What the error said.
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

/// Does background work that must not end its thread: a panic, which is a defect of this crate, becomes an error.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> crate::error::Result<T>) -> crate::error::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic_message(&*panic);
        Err(Error::new(ErrorKind::Corrupt, format!("a panic: {message}; run `quipu check`, and report it")))
    })
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The failures there are, one for each task of a table.
#[derive(Default)]
pub(crate) struct Failures(Mutex<BTreeMap<(Task, Option<TableId>), String>>);

impl Failures {
    /// Notes how a task ended.
    pub(crate) fn note(&self, task: Task, table: Option<TableId>, result: Result<(), &Error>) {
        let mut failures = self.0.lock();
        match result {
            Ok(()) => drop(failures.remove(&(task, table))),
            Err(error) => drop(failures.insert((task, table), error.to_string())),
        }
    }

    /// What the error of a task said, of any table.
    pub(crate) fn of_task(&self, task: Task) -> Option<String> {
        let failures = self.0.lock();
        failures.iter().find(|((failed, _), _)| *failed == task).map(|(_, message)| message.clone())
    }

    /// All there are. `name_of` tells the name of a table that there still is; of others nothing is told any more.
    pub(crate) fn all<'n>(&self, name_of: impl Fn(TableId) -> Option<&'n str>) -> Vec<Failure> {
        let mut failures = self.0.lock();
        failures.retain(|(_, table), _| table.is_none_or(|table| name_of(table).is_some()));
        let told = failures.iter().map(|((task, table), message)| Failure {
            task: *task,
            table: table.and_then(&name_of).map(str::to_owned),
            message: message.clone(),
        });
        told.collect()
    }
}

/// After so many more jobs that write runs, a merge that failed is tried again; after twice as many if it fails again, and so on.
const RETRY_JOBS: u64 = 16;

/// Merges that have failed: their runs are left alone for a while, so that others are merged, of the same table too.
#[derive(Default)]
pub(crate) struct FailedMerges(Vec<FailedMerge>);

struct FailedMerge {
    runs: Vec<Arc<Run>>,
    /// How many jobs there were before it is tried again.
    retry_at: u64,
    times: u32,
}

impl FailedMerges {
    /// Whether a run is to be left alone, after so many jobs that have written runs.
    pub(crate) fn has(&self, run: &Arc<Run>, jobs: u64) -> bool {
        let failed = self.0.iter().filter(|failed| jobs < failed.retry_at);
        failed.flat_map(|failed| &failed.runs).any(|failed| Arc::ptr_eq(failed, run))
    }

    /// Notes how a merge of these runs has ended.
    pub(crate) fn note(&mut self, runs: &[Arc<Run>], is_merged: bool, jobs: u64) {
        let is_of =
            |failed: &FailedMerge| failed.runs.iter().any(|run| runs.iter().any(|other| Arc::ptr_eq(run, other)));
        let times = self.0.iter().filter(|failed| is_of(failed)).map(|failed| failed.times + 1).max().unwrap_or(0);
        self.0.retain(|failed| !is_of(failed));
        if !is_merged {
            let retry_at = jobs + (RETRY_JOBS << times.min(16));
            self.0.push(FailedMerge { runs: runs.to_vec(), retry_at, times });
        }
    }
}
