//! The state that all sessions of a database share.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use quipu_rows::Database;

use crate::catalogue::lookup::Shapes;
use crate::catalogue::roles::{AskUsers, Users};
use crate::catalogue::{Catalogue, Catalogues};
use crate::error::Result;
use crate::execute::view::View;
use crate::identity::Identity;
use crate::locks::Locks;
use crate::notifications::Notifications;
use crate::row_files::FileCounts;
use crate::session::activity::Sessions;
use crate::session::commits::Commits;
use crate::session::snapshots::Snapshots;

/// What all sessions of a database share.
pub struct Shared {
    pub(crate) database: Database,
    pub(crate) catalogues: Catalogues,
    pub(crate) shapes: Shapes,
    pub(crate) locks: Locks,
    /// What becomes of a session's transactions for others: see `commits`.
    pub(crate) commits: Commits,
    /// The sessions that are open.
    pub(crate) sessions: Sessions,
    /// The snapshots that have names.
    pub(crate) snapshots: Snapshots,
    pub(crate) notifications: Notifications,
    /// The temporary files of all sessions.
    pub(crate) file_counts: Arc<FileCounts>,
    /// Says which users may use SQL.
    pub(super) ask_users: OnceLock<AskUsers>,
    /// The number of the next transaction that is asked for its own.
    pub(super) transaction_numbers: AtomicI64,
}

impl Shared {
    /// The catalogue that a view sees.
    ///
    /// # Errors
    /// Those of reading.
    pub fn catalogue_of(&self, view: View<'_>) -> Result<Arc<Catalogue>> {
        self.catalogues.of(view)
    }

    /// The users that may use SQL, of which a session's own is one.
    pub(crate) fn users(&self, own: &Identity) -> Users {
        let mut users = self.ask_users.get().map(|ask| ask()).unwrap_or_default();
        if users.rights(&own.user).is_none() {
            users.known.push((own.user.to_string(), Arc::clone(&own.rights)));
        }
        users
    }
}
