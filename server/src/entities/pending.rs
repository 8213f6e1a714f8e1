//! Answers of the coordinator that are on their way.

use quipu_cluster::api::{Answer, Sources};
use quipu_cluster::ids::Version;
use tokio::sync::oneshot::Receiver;

use super::Failure;

/// An entity as a cluster has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Its version.
    pub version: Version,
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

/// How many keys a range has, and where that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Keys.
    pub rows: u64,
    /// Where they were counted.
    pub sources: Sources,
}

/// Keys of a range, and where they were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Paged {
    /// Keys and values in order.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where they were read.
    pub sources: Sources,
}

/// An answer that is on its way.
#[must_use]
pub struct Pending<T> {
    answer: Receiver<Answer>,
    read: fn(Answer) -> Result<T, Failure>,
}

impl<T> Pending<T> {
    /// What `read` makes of an answer.
    pub(super) fn new(answer: Receiver<Answer>, read: fn(Answer) -> Result<T, Failure>) -> Pending<T> {
        Pending { answer, read }
    }

    /// Waits for it. Not to be called from a task.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(self) -> Result<T, Failure> {
        self.answer.blocking_recv().map_or(Err(Failure::NotEnoughReplicas), self.read)
    }

    /// The answer when it is there, or that it is not known what became of the request. The node ends each request in
    /// time, or [`Cluster::give_up_if_stuck`](crate::cluster::Cluster::give_up_if_stuck) does.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn answer(self) -> Result<T, Failure> {
        self.answer.await.map_or(Err(Failure::NotEnoughReplicas), self.read)
    }
}

/// Why an answer does not fit what was asked.
fn failure(answer: Answer) -> Failure {
    match answer {
        Answer::Overloaded => Failure::Overloaded,
        Answer::Full => Failure::Full,
        Answer::Unavailable(why) => Failure::Unavailable(why),
        Answer::Invalid(why) => Failure::Invalid(why),
        Answer::TooLarge(what) => Failure::TooLarge(what),
        _ => Failure::NotEnoughReplicas,
    }
}

/// The entity that was read, if there is one.
pub(super) fn read(answer: Answer) -> Result<Option<Entity>, Failure> {
    match answer {
        Answer::Value { version, value, deadline_ms } => {
            Ok(Some(Entity { version, value, deadline_ms: (deadline_ms != 0).then_some(deadline_ms) }))
        }
        Answer::Absent { .. } => Ok(None),
        other => Err(failure(other)),
    }
}

/// The version that was written; none if the condition did not hold.
pub(super) fn written(answer: Answer) -> Result<Option<Version>, Failure> {
    match answer {
        Answer::Written { version } => Ok(Some(version)),
        Answer::ConditionFailed { .. } => Ok(None),
        other => Err(failure(other)),
    }
}

pub(super) fn counted(answer: Answer) -> Result<Counted, Failure> {
    match answer {
        Answer::Count { rows, sources } => Ok(Counted { rows, sources }),
        other => Err(failure(other)),
    }
}

pub(super) fn paged(answer: Answer) -> Result<Paged, Failure> {
    match answer {
        Answer::Page { rows, sources, .. } => Ok(Paged { rows, sources }),
        other => Err(failure(other)),
    }
}
