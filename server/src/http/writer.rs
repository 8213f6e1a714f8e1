//! Writes of entities to this node's replica.
//!
//! Where commits are on stable storage before they are answered, writes wait for a thread of their own: it takes all
//! that have come, makes them in one hold of the data, waits for the disk once, and answers all; those that come
//! meanwhile are the next group. Else a commit is done when it is made, and a write is made at once, where its request
//! is served.
//!
//! Invariants:
//! 1. A write is answered when its commit is as durable as configured. A refused one is answered when the commit that
//!    it was refused for is.
//! 2. The queue is bounded: a write that finds it full is turned away.
//!
//! Not here: tombstones. A node alone removes a key without a trace; replicas need to know when it was removed.

use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use quipu::latched::PageFaults;
use quipu::{Durability, Error, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use super::metrics::Metrics;
use super::version_clock::{Version, VersionClock};
use crate::entities::{Alone, Condition, Failure, Lifetime, Room, Verdict};
use crate::keyspace::{Data, Need, NewString, Staged};
use crate::state::server::Server;
use crate::system::clock;
use crate::system::process::spawn_vital;

/// The database whose keys are the entities.
pub(super) const DATABASE: usize = 0;

/// Writes of one group, at most: some 2 ms of holding the data.
const GROUP_MAX: usize = 1024;

/// What is to become of an entity.
pub(super) struct Write {
    pub(super) key: Vec<u8>,
    pub(super) change: EntityChange,
    pub(super) condition: Condition,
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
    /// By the condition.
    Refused,
}

/// Why nothing is known to have been written.
#[derive(Clone, Debug)]
pub(super) enum WriteFailure {
    /// Too many writes wait.
    Overloaded,
    /// The database said so.
    Failed(ErrorKind, String),
}

impl EntityChange {
    /// What it needs of the data.
    fn need(&self) -> Need {
        match self {
            EntityChange::Put(..) => Need::Write,
            EntityChange::Delete => Need::Removal,
        }
    }
}

/// What frees space does not wait for memory that no flush will give back.
fn go_on_to_free(need: Need, waited: quipu::Result<()>) -> quipu::Result<()> {
    waited.or_else(|error| if need == Need::Removal && error.kind() == ErrorKind::Full { Ok(()) } else { Err(error) })
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        WriteFailure::Failed(error.kind(), error.to_string())
    }
}

impl From<Failure> for WriteFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => error.into(),
            // Of a node alone, the engine is all that fails, and what is long is prepared.
            other => WriteFailure::Failed(ErrorKind::Invalid, format!("{other:?}")),
        }
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
        let thread = spawn_vital("http-commit".to_owned(), run);
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
            return self.write_at_once(write).await;
        }
        let (sender, outcome) = oneshot::channel();
        match self.jobs.try_send(Job::Write(Box::new(write), sender)) {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(stopped())),
            Err(mpsc::error::TrySendError::Full(_)) => Err(WriteFailure::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(stopped()),
        }
    }

    async fn write_at_once(&self, mut write: Write) -> Outcome {
        self.metrics.note_commit(1);
        let mut faults = PageFaults::default();
        loop {
            let need = write.change.need();
            if self.server.keyspace.db().latched().is_short_of_memory() {
                let server = self.server.clone();
                let wait = move || server.keyspace.wait_for_memory();
                let waited = tokio::task::spawn_blocking(wait).await.map_err(|_| stopped())?;
                go_on_to_free(need, waited)?;
            }
            {
                let mut outcome = None;
                let attempt = self.server.keyspace.attempt(need, clock::now_ms(), &mut faults, |data| {
                    outcome = Some(apply(data, &self.clock, &mut write));
                    Ok(())
                });
                match attempt {
                    Ok(((), committed)) => {
                        committed.wait(self.server.durability())?;
                        return outcome.unwrap_or_else(|| Err(stopped()));
                    }
                    Err(error) if error.kind() == ErrorKind::PageFault => self.clock.forget_limit(),
                    Err(error) => return Err(error.into()),
                }
            }
            let server = self.server.clone();
            let load = move || server.keyspace.db().latched().load(&mut faults).map(|_| faults);
            faults = tokio::task::spawn_blocking(load).await.map_err(|_| stopped())??;
        }
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

/// A write on its way, with the pages that earlier attempts lacked.
type Waiting = (Box<Write>, oneshot::Sender<Outcome>, PageFaults);

/// Takes what waits, commits it, answers; until it is to stop. Writes that lack pages of runs are made with a later
/// group, when their pages are there.
fn commit_groups(server: &Server, clock: &VersionClock, metrics: &Metrics, mut queue: mpsc::Receiver<Job>) {
    let (mut jobs, mut writes) = (Vec::new(), Vec::<Waiting>::new());
    let mut stops = false;
    while !writes.is_empty() || !stops && queue.blocking_recv_many(&mut jobs, GROUP_MAX) > 0 {
        if !writes.is_empty() {
            // What has come meanwhile joins those whose pages were loaded.
            while jobs.len() < GROUP_MAX
                && let Ok(job) = queue.try_recv()
            {
                jobs.push(job);
            }
        }
        for job in jobs.drain(..) {
            match job {
                Job::Write(write, answer) => writes.push((write, answer, PageFaults::default())),
                Job::Stop => stops = true,
            }
        }
        writes = commit_group(server, clock, metrics, writes);
    }
}

/// Makes writes in one hold of the data, waits until they are durable, and answers them. Returns those that lacked
/// pages, which are there now.
fn commit_group(server: &Server, clock: &VersionClock, metrics: &Metrics, mut writes: Vec<Waiting>) -> Vec<Waiting> {
    let (mut done, mut lacking) = (Vec::with_capacity(writes.len()), Vec::new());
    let (db, keyspace) = (server.keyspace.db(), &server.keyspace);
    let open = |need| {
        go_on_to_free(need, keyspace.wait_for_memory()).and_then(|()| Data::open(keyspace, need, clock::now_ms()))
    };
    let refuse = |writes: Vec<Waiting>, error: Error| {
        let failure = WriteFailure::from(error);
        // The clients may have gone meanwhile.
        writes.into_iter().for_each(|(_, answer, _)| drop(answer.send(Err(failure.clone()))));
    };
    let opened = open(Need::Write).or_else(|error| {
        if error.kind() != ErrorKind::Full {
            return Err(error);
        }
        let refused = writes.extract_if(.., |(write, ..)| write.change.need() != Need::Removal).collect();
        refuse(refused, error);
        open(Need::Removal)
    });
    let mut data = match opened {
        Ok(data) => data,
        Err(error) => {
            refuse(writes, error);
            return Vec::new();
        }
    };
    let make = || {
        for (mut write, answer, mut faults) in writes {
            data.lend(&faults);
            data.begin_command();
            let outcome = apply(&mut data, clock, &mut write);
            if data.has_faults() {
                data.take_back(&mut faults)?;
                clock.forget_limit();
                lacking.push((write, answer, faults));
            } else {
                data.keep();
                done.push((answer, outcome));
            }
        }
        Ok(())
    };
    let made = make();
    let committed = data.close().and_then(|committed| made.map(|()| committed));
    let durable = committed.and_then(|committed| committed.wait(server.durability()));
    if !done.is_empty() {
        metrics.note_commit(done.len() as u64);
    }
    let failure = durable.err().map(WriteFailure::from);
    for (answer, outcome) in done {
        // The client may have gone meanwhile.
        let _ = answer.send(failure.clone().map_or(outcome, Err));
    }
    let mut faults: Vec<_> = lacking.iter_mut().map(|(_, _, faults)| faults).collect();
    if db.latched().load_together(&mut faults).is_err() {
        lacking = lacking.into_iter().filter_map(|write| load_alone(server, write)).collect();
    }
    lacking
}

/// Loads the pages of a write, or answers that they cannot be read.
fn load_alone(server: &Server, (write, answer, mut faults): Waiting) -> Option<Waiting> {
    match server.keyspace.db().latched().load(&mut faults) {
        Ok(_) => Some((write, answer, faults)),
        Err(error) => {
            let _ = answer.send(Err(error.into()));
            None
        }
    }
}

/// Makes one write in a hold of the data.
fn apply(data: &mut Data<'_>, clock: &VersionClock, write: &mut Write) -> Outcome {
    let (verdict, written) = match &write.change {
        EntityChange::Put(value, ttl_ms) => {
            let version = clock.stamp(data)?;
            let until = |ttl_ms| Lifetime::Until(data.now_ms.saturating_add(ttl_ms));
            let lifetime = ttl_ms.map_or(Lifetime::Forever, until);
            let string = match write.staged.take().filter(|staged| data.may_use(DATABASE, staged)) {
                Some(staged) => NewString::Pieces(value, staged),
                None if data.keyspace().cuts(value.len()) => NewString::Pieces(value, data.stage(DATABASE, value)?),
                None => NewString::Whole(value),
            };
            let mut entities = Alone::new(data, DATABASE, Room::WHOLE);
            let verdict = entities.put_version(&write.key, string, &write.condition, lifetime, Some(version.0))?;
            (verdict, Written::Put(version))
        }
        EntityChange::Delete => {
            let verdict = Alone::new(data, DATABASE, Room::WHOLE).delete(&write.key, &write.condition)?;
            (verdict, Written::Deleted)
        }
    };
    Ok(if verdict == Verdict::Holds { written } else { Written::Refused })
}
