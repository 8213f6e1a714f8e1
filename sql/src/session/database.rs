//! All sessions of a database.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use quipu_rows::Database;

use crate::catalogue::generated::compute_generated_columns;
use crate::catalogue::lookup::Shapes;
use crate::catalogue::names_in_rows::{is_temporary, session_of, temporary};
use crate::catalogue::roles::Users;
use crate::catalogue::{Catalogues, system};
use crate::clock;
use crate::error::{Result, SqlState};
use crate::identity::Identity;
use crate::identity::kept::Kept;
use crate::identity::rights::{AllRights, Rights};
use crate::identity::settings::Settings;
use crate::limits::Canceller;
use crate::locks::Locks;
use crate::notifications::Notifications;
use crate::row_files::TemporaryFiles;
use crate::session::Session;
use crate::session::activity::{Sessions, SharedActivity};
use crate::session::at_commit::Temporary;
use crate::session::commits::Commits;
use crate::session::seen::Seen;
use crate::session::shared::Shared;
use crate::session::snapshots::Snapshots;

/// All sessions of a database.
#[derive(Clone)]
pub struct SqlDatabase {
    shared: Arc<Shared>,
}

impl SqlDatabase {
    /// SQL over the tables of a database.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn open(db: &quipu::Db) -> Result<SqlDatabase> {
        compute_generated_columns();
        let database = Database::open(db)?;
        let catalogues = Catalogues::open(&database)?;
        let shared = Shared {
            database,
            catalogues,
            shapes: Shapes::new(system::columns),
            locks: Locks::default(),
            commits: Commits::default(),
            sessions: Sessions::default(),
            snapshots: Snapshots::default(),
            file_counts: Arc::default(),
            notifications: Notifications::default(),
            ask_users: OnceLock::new(),
            // Greater than those before a restart: no database has a million transactions in each second.
            transaction_numbers: AtomicI64::new(clock::now_us()),
        };
        let opened = SqlDatabase { shared: Arc::new(shared) };
        opened.drop_abandoned()?;
        Ok(opened)
    }

    /// Ends snapshots whose time is over. They end as well when one is asked for; this frees what they keep if none is.
    pub fn end_due_snapshots(&self) {
        self.shared.snapshots.end_due();
    }

    /// Says what answers which users may use SQL. Only the first one counts; without one, a session knows its own.
    pub fn ask_users(&self, ask: impl Fn() -> Users + Send + Sync + 'static) {
        let _ = self.shared.ask_users.set(Box::new(ask));
    }

    /// A session of a user.
    pub fn session(&self, user: &str, database: &str) -> Session {
        self.session_with(user, Arc::new(AllRights), database, &[])
    }

    /// The same, with what the user may do, and the values of parameters that clients cannot set: `port`, `ssl`,
    /// `max_connections`.
    pub fn session_with(
        &self,
        user: &str,
        rights: Arc<dyn Rights>,
        database: &str,
        told: &[(&str, String)],
    ) -> Session {
        let mut settings = Settings::default();
        settings.tell("session_authorization", user);
        told.iter().for_each(|(name, value)| settings.tell(name, value));
        let shared = Arc::clone(&self.shared);
        let now = clock::now();
        let owner = shared.locks.new_owner();
        let identity = Identity {
            user: user.into(),
            rights,
            database: database.into(),
            kept: Kept::default(),
            temporary_schema: temporary(owner).into(),
            process: 0,
            settings: Arc::new(settings),
            transaction_time: now,
            statement_time: now,
            canceller: Canceller::default(),
            mailbox: Arc::default(),
            temporary_files: TemporaryFiles::of(shared.database.db(), &shared.file_counts),
        };
        Session {
            mailbox: Arc::clone(&identity.mailbox),
            owner,
            shared,
            identity,
            open: None,
            seen: Seen::default(),
            last_numbers: RefCell::default(),
            effects: RefCell::default(),
            named: HashMap::new(),
            cursors: HashMap::new(),
            recent: Vec::new(),
            activity: SharedActivity::default(),
            temporary: Temporary::default(),
            end: None,
        }
    }

    /// Drops temporary tables of sessions that had no end: the process was killed.
    fn drop_abandoned(&self) -> Result<()> {
        let catalogue = self.shared.catalogues.of_snapshot(&self.shared.database.snapshot())?;
        let schemas = catalogue.schemas().into_iter().filter(|name| is_temporary(name)).map(str::to_owned);
        for schema in schemas.collect::<Vec<_>>() {
            match self.session("", "").drop_schema(&schema) {
                // A database that cannot be written is opened all the same. No session takes the tables for its own.
                Err(error) if matches!(error.state(), SqlState::DISK_FULL | SqlState::READ_ONLY_SQL_TRANSACTION) => {
                    self.shared.locks.number_after(session_of(&schema).unwrap_or_default());
                }
                result => result?,
            }
        }
        Ok(())
    }
}
