//! Open sessions, to each other: what they run, how they are cancelled and ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu_rows::Timestamp;

use crate::identity::settings::Settings;
use crate::limits::Canceller;
use crate::locks::table::Owner;

/// The sessions that are open, by the numbers of their connections.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<i32, OpenSession>>,
}

/// A session, to the others.
#[derive(Clone)]
pub(crate) struct OpenSession {
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub owner: Owner,
    pub began: Timestamp,
    pub canceller: Canceller,
    pub activity: SharedActivity,
    /// Ends its connection; none of a session without one.
    pub end: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// What a session does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// The statement that runs, or the last one.
    pub query: Arc<str>,
    /// When it began.
    pub query_began: Option<Timestamp>,
    /// When the transaction began, if there is one.
    pub transaction_began: Option<Timestamp>,
    /// `active`, `idle` and their like, as PostgreSQL has them.
    pub state: &'static str,
    /// Since when it is so.
    pub changed: Option<Timestamp>,
    /// Its parameters.
    pub settings: Arc<Settings>,
}

/// What a session does, which it tells and others read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedActivity(Arc<Mutex<Activity>>);

impl SharedActivity {
    /// Reads or changes it.
    pub fn lock(&self) -> MutexGuard<'_, Activity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, OpenSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a session.
    pub fn note(&self, process: i32, session: OpenSession) {
        self.lock().insert(process, session);
    }

    /// Forgets a session that is over.
    pub fn forget(&self, process: i32) {
        self.lock().remove(&process);
    }

    /// Cancels what a session runs. Returns whether there is one of that number.
    pub fn cancel(&self, process: i32) -> bool {
        self.lock().get(&process).inspect(|session| session.canceller.cancel()).is_some()
    }

    /// Ends the connection of a session; none if there is no session of that number, or it has no connection.
    pub fn end(&self, process: i32) -> Option<()> {
        let end = self.lock().get(&process)?.end.clone()?;
        end();
        Some(())
    }

    /// All of them.
    pub fn all(&self) -> Vec<(i32, OpenSession)> {
        self.lock().iter().map(|(process, session)| (*process, session.clone())).collect()
    }
}
