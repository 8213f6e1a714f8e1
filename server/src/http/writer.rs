//! Writes of entities to this node's replica.
//!
//! Where commits are on stable storage before they are answered, writes wait for a thread of their own: it takes all
//! that have come, makes them in one hold of the data, waits for the disk once, and answers all; those that come
//! meanwhile are the next group. Else a commit is done when it is made, and a write is made at once, where its request
//! is served.
//!
//! Invariants:
//! 1. A write is answered when its commit is as durable as configured, a refused one when what it was refused for is.
//! 2. The queue is bounded: a write that finds it full is turned away.
//!
//! Not here: tombstones. One node removes a key and all of it; replicas will need to know until when it was there.

use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use quipu::{Durability, Error, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use super::condition::{Conditions, Verdict};
use super::metrics::Metrics;
use super::version::{Version, VersionClock};
use crate::keyspace::value::{Header, Kind};
use crate::keyspace::{Change, Data, Need, NewString, Staged};
use crate::state::server::Server;
use crate::system::clock;

/// The database whose keys are the entities.
pub(super) const DATABASE: usize = 0;

/// Writes of one group, at most: some 2 ms of holding the data.
const GROUP_MAX: usize = 1024;

/// What is to become of an entity.
pub(super) struct Write {
    pub(super) key: Vec<u8>,
    pub(super) change: EntityChange,
    pub(super) conditions: Conditions,
    /// A long value that is prepared.
    pub(super) staged: Option<Staged>,
}

pub(super) enum EntityChange {
    /// The value, and after how long it is gone.
    Put(Bytes, Option<u64>),
    Delete,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Put(Version),
    Deleted,
    /// By a condition.
    Refused(Verdict),
}

/// Why nothing is known to have been written.
#[derive(Clone, Debug)]
pub(super) enum WriteFailure {
    /// Too many writes wait.
    Overloaded,
    /// The database said so.
    Failed(ErrorKind, String),
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        WriteFailure::Failed(error.kind(), error.to_string())
    }
}

type Outcome = Result<Written, WriteFailure>;

enum Job {
    Write(Box<Write>, oneshot::Sender<Outcome>),
    Stop,
}

/// The writing side of the replica.
pub(super) struct Writer {
    server: Arc<Server>,
    clock: Arc<VersionClock>,
    metrics: Arc<Metrics>,
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the thread. `queue_max` writes may wait for it.
    pub(super) fn start(
        server: Arc<Server>,
        metrics: Arc<Metrics>,
        queue_max: usize,
    ) -> quipu::Result<(Writer, JoinHandle<()>)> {
        let clock = Arc::new(VersionClock::open(server.keyspace.db())?);
        let (jobs, queue) = mpsc::channel(queue_max.max(1));
        let (of_thread, clock_of_thread, metrics_of_thread) = (server.clone(), clock.clone(), metrics.clone());
        let run = move || commit_groups(&of_thread, &clock_of_thread, &metrics_of_thread, queue);
        let thread = std::thread::Builder::new().name("http-commit".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::new(ErrorKind::Io, format!("cannot start to serve: {error}")))?;
        Ok((Writer { server, clock, metrics, jobs }, thread))
    }

    /// Makes a write, and returns when it is durable.
    pub(super) async fn write(&self, mut write: Write) -> Outcome {
        if let EntityChange::Put(value, _) = &write.change
            && self.server.keyspace.cuts(value.len())
        {
            // A long value is prepared while nothing is held, on a thread that may take long.
            let (server, value) = (self.server.clone(), value.clone());
            let staged = tokio::task::spawn_blocking(move || server.keyspace.stage(DATABASE, &value)).await;
            write.staged = Some(staged.map_err(|_| stopped())??);
        }
        if self.server.durability() != Durability::Sync {
            return self.write_at_once(&mut write);
        }
        let (sender, outcome) = oneshot::channel();
        match self.jobs.try_send(Job::Write(Box::new(write), sender)) {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(stopped())),
            Err(mpsc::error::TrySendError::Full(_)) => Err(WriteFailure::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(stopped()),
        }
    }

    fn write_at_once(&self, write: &mut Write) -> Outcome {
        self.metrics.note_commit(1);
        let mut data = Data::open(&self.server.keyspace, Need::Write, clock::now_ms())?;
        let outcome = apply(&mut data, &self.clock, write);
        data.close()?.wait(self.server.durability())?;
        outcome
    }

    /// Ends the thread when the writes before are done. Not to be called from a task.
    pub(super) fn stop(&self) {
        // If it has ended already, all the better.
        let _ = self.jobs.blocking_send(Job::Stop);
    }
}

fn stopped() -> WriteFailure {
    WriteFailure::Failed(ErrorKind::Poisoned, "the server stops".to_owned())
}

/// Takes what waits, commits it, answers; until it is to stop.
fn commit_groups(server: &Server, clock: &VersionClock, metrics: &Metrics, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    while queue.blocking_recv_many(&mut jobs, GROUP_MAX) > 0 {
        let mut outcomes = Vec::with_capacity(jobs.len());
        let stops = jobs.iter().any(|job| matches!(job, Job::Stop));
        let committed = Data::open(&server.keyspace, Need::Write, clock::now_ms()).and_then(|mut data| {
            for job in &mut jobs {
                if let Job::Write(write, _) = job {
                    outcomes.push(apply(&mut data, clock, write));
                }
            }
            data.close()
        });
        let durable = committed.and_then(|committed| committed.wait(server.durability()));
        if !outcomes.is_empty() {
            metrics.note_commit(outcomes.len() as u64);
        }
        let failure = durable.err().map(WriteFailure::from);
        let mut outcomes = outcomes.into_iter();
        for job in jobs.drain(..) {
            let Job::Write(_, answer) = job else { continue };
            let outcome = match (&failure, outcomes.next()) {
                (Some(failure), _) => Err(failure.clone()),
                (None, Some(outcome)) => outcome,
                (None, None) => Err(stopped()),
            };
            // The client may have gone meanwhile.
            let _ = answer.send(outcome);
        }
        if stops {
            return;
        }
    }
}

/// Makes one write in a hold of the data.
fn apply(data: &mut Data<'_>, clock: &VersionClock, write: &mut Write) -> Outcome {
    let mut verdict = Verdict::Holds;
    match &write.change {
        EntityChange::Put(value, ttl_ms) => {
            let version = clock.stamp(data)?;
            let deadline_ms = ttl_ms.map(|ttl_ms| data.now_ms.saturating_add(ttl_ms));
            let header = Header { deadline_ms, version: Some(version.0), ..Header::new(Kind::String) };
            let mut string = match write.staged.take().filter(|staged| data.may_use(DATABASE, staged)) {
                Some(staged) => NewString::Pieces(value, staged),
                None if data.keyspace().cuts(value.len()) => NewString::Pieces(value, data.stage(DATABASE, value)?),
                None => NewString::Whole(value),
            };
            data.change(DATABASE, &write.key, |old, new| {
                verdict = write.conditions.check(old.as_ref());
                if verdict == Verdict::Holds { string.write(header, new) } else { Change::Keep }
            })?;
            Ok(if verdict == Verdict::Holds { Written::Put(version) } else { Written::Refused(verdict) })
        }
        EntityChange::Delete => {
            data.change(DATABASE, &write.key, |old, _| {
                verdict = write.conditions.check(old.as_ref());
                if verdict == Verdict::Holds { Change::Remove } else { Change::Keep }
            })?;
            Ok(if verdict == Verdict::Holds { Written::Deleted } else { Written::Refused(verdict) })
        }
    }
}
