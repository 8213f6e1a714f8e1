//! Advisory locks, settings that functions change, and the number of the transaction: what functions do to a session.
//!
//! An advisory lock is one of [`crate::locks`] under a name that no table has, so a session that waits for one and one
//! that waits for a row find the deadlock between them. A session counts how often it has taken each.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quipu_rows::RowSnapshot;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::view::View;
use crate::identity::Identity;
use crate::identity::settings::{LocalSettings, Settings};
use crate::locks::mode::LockMode;
use crate::locks::table::{LockName, Owner};
use crate::locks::{ADVISORY, Got, Locks};
use crate::notifications::Pending;
use crate::plan::query::LockWait;
use crate::session::snapshots::{End, Snapshots};
use crate::types::datum::Datum;

/// How long `quipu_snapshot` keeps a snapshot, unless it is told.
const SNAPSHOT_SECONDS: f64 = 60.0;

/// An advisory lock that a session has.
#[derive(Debug)]
struct Held {
    name: LockName,
    is_shared: bool,
    /// Whether it ends with the transaction.
    is_of_transaction: bool,
    /// How many the session had taken before it.
    number: u64,
}

/// What functions of a session's statements have changed in it.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    held: Vec<Held>,
    /// How many locks it has taken, those that it has given back among them.
    taken: u64,
    /// Parameters that `set_config` has set in the statement, and whether only for the transaction.
    pub(super) settings: Vec<(String, String, bool)>,
    /// The number of the transaction, once it was asked for.
    transaction_number: Option<i64>,
    /// Whether the transaction has exported a snapshot.
    has_exported: bool,
    /// What the transaction says, and listens to, once it is committed.
    pub(super) pending: Pending,
    /// Whether a statement was stopped because it must run within a transaction.
    pub(super) needs_transaction: bool,
}

/// The session whose statement runs, to functions that change it.
#[derive(Clone, Copy)]
pub(crate) struct AffectedSession<'e> {
    pub(super) effects: &'e RefCell<Effects>,
    pub(super) owner: Owner,
    pub(super) locks: &'e Locks,
    pub(super) snapshots: &'e Snapshots,
    /// What the statement reads.
    pub(super) view: View<'e>,
    pub(super) identity: &'e Identity,
    pub(super) transaction_numbers: &'e AtomicI64,
    /// Whether the statement has the turn of the single writer, so that it must not wait.
    pub(super) is_writer: bool,
}

impl Effects {
    /// The locks that end now, which nothing else of the session keeps: those of the transaction, or all.
    pub(super) fn released(&mut self, all: bool) -> Vec<LockName> {
        self.remove(|held| all || held.is_of_transaction)
    }

    /// How many locks the session has taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// The locks of the transaction that end because it goes back to when the session had taken so many; those of the
    /// session stay.
    pub(super) fn released_since(&mut self, taken: u64) -> Vec<LockName> {
        self.remove(|held| held.is_of_transaction && held.number >= taken)
    }

    fn remove(&mut self, is_ended: impl Fn(&Held) -> bool) -> Vec<LockName> {
        let (ended, kept): (Vec<Held>, Vec<Held>) = self.held.drain(..).partition(is_ended);
        self.held = kept;
        let mut names: Vec<LockName> = ended.into_iter().map(|held| held.name).collect();
        names.retain(|name| self.held.iter().all(|held| held.name != *name));
        names
    }

    /// Ends what belongs to a transaction: its number, its locks, the snapshots that it has exported, what it would
    /// have said.
    pub(super) fn end_transaction(&mut self, locks: &Locks, snapshots: &Snapshots, owner: Owner) {
        self.transaction_number = None;
        self.pending = Pending::default();
        self.needs_transaction = false;
        if std::mem::take(&mut self.has_exported) {
            snapshots.end_with(owner);
        }
        let released = self.released(false);
        if !released.is_empty() {
            locks.release(owner, released);
        }
    }

    /// Takes over the parameters that a statement has set. `local` is where a transaction notes its own ones. Returns
    /// those that clients are told of.
    pub(super) fn apply(
        &mut self,
        settings: &mut Arc<Settings>,
        mut local: Option<&mut LocalSettings>,
    ) -> Vec<&'static str> {
        let mut told = Vec::new();
        for (name, value, is_local) in self.settings.drain(..) {
            match (is_local, local.as_mut()) {
                (true, Some(local)) => local.note(&name, settings),
                // Outside of a transaction it ends with the statement.
                (true, None) => continue,
                (false, Some(local)) => local.forget(Some(&name)),
                (false, None) => {}
            }
            told.extend(Arc::make_mut(settings).set(&name, &value).ok().flatten());
        }
        told
    }
}

fn name_of(arguments: &[Datum]) -> Option<LockName> {
    let key: Option<Vec<Datum>> = arguments.iter().map(|value| value.as_int().map(Datum::Int)).collect();
    key.filter(|key| !key.is_empty()).map(|key| LockName { table: ADVISORY.into(), key })
}

impl AffectedSession<'_> {
    /// Gives what the statement reads a name.
    fn keep_snapshot(&self, end: End) -> Result<Datum> {
        let snapshot = match self.view {
            View::Snapshot(snapshot) => snapshot.clone(),
            View::Nothing => return Ok(Datum::Null),
            View::Transaction(transaction) => RowSnapshot::of(transaction).map_err(|_| {
                let what = "a statement that writes outside of a transaction has no snapshot to share";
                SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint("Ask for it by a SELECT of its own.")
            })?,
        };
        self.snapshots.keep(snapshot, end).map(Datum::text)
    }

    /// The answer of a function that changes the session; none if it is no such.
    ///
    /// # Errors
    /// Those of the lock or the parameter.
    pub(super) fn answer(&self, function: &str, arguments: &[Datum]) -> Result<Option<Datum>> {
        Ok(Some(match function {
            "set_config" => self.set_config(arguments)?,
            "txid_current" | "pg_current_xact_id" => {
                let mut effects = self.effects.borrow_mut();
                Datum::Int(
                    *effects
                        .transaction_number
                        .get_or_insert_with(|| self.transaction_numbers.fetch_add(1, Ordering::Relaxed)),
                )
            }
            "pg_notify" => self.notify(arguments)?,
            "pg_export_snapshot" => {
                self.effects.borrow_mut().has_exported = true;
                self.keep_snapshot(End::With(self.owner))?
            }
            "quipu_snapshot" => {
                let seconds = match arguments.first() {
                    Some(Datum::Float(seconds)) => *seconds,
                    _ => SNAPSHOT_SECONDS,
                };
                self.keep_snapshot(End::after(seconds)?)?
            }
            "quipu_release" => {
                Datum::Bool(arguments.first().and_then(Datum::as_text).is_some_and(|name| self.snapshots.release(name)))
            }
            "pg_advisory_unlock_all" => {
                let names = self.effects.borrow_mut().remove(|held| !held.is_of_transaction);
                self.locks.release(self.owner, names);
                Datum::text("")
            }
            "pg_advisory_unlock" => self.unlock(arguments, false),
            "pg_advisory_unlock_shared" => self.unlock(arguments, true),
            _ => match function.strip_prefix("pg_try_advisory_") {
                Some(kind) => Datum::Bool(self.lock(kind, arguments, false)?),
                None => match function.strip_prefix("pg_advisory_") {
                    Some(kind) => {
                        self.lock(kind, arguments, true)?;
                        Datum::text("")
                    }
                    None => return Ok(None),
                },
            },
        }))
    }

    /// Notes what the transaction says at its commit.
    fn notify(&self, arguments: &[Datum]) -> Result<Datum> {
        let effects = &mut *self.effects.borrow_mut();
        if self.is_writer {
            // Its commit would have to wait, in the turn of the writer, for those that notify.
            effects.needs_transaction = true;
            let what = "pg_notify is not supported in a COPY outside of a transaction block";
            return Err(SqlError::unsupported(what, "Begin a transaction before it."));
        }
        let text = |place: usize| arguments.get(place).and_then(Datum::as_text).unwrap_or_default();
        effects.pending.notify(text(0), text(1))?;
        Ok(Datum::text(""))
    }

    /// Takes a lock of a kind: `lock`, `lock_shared`, `xact_lock`, `xact_lock_shared`. Returns whether it has it.
    fn lock(&self, kind: &str, arguments: &[Datum], waits: bool) -> Result<bool> {
        let Some(name) = name_of(arguments) else { return Ok(false) };
        let is_shared = kind.ends_with("_shared");
        let wait = if waits && !self.is_writer { LockWait::Wait } else { LockWait::SkipLocked };
        let timeout = self.identity.settings.lock_timeout();
        let limits = self.identity.limits();
        let got =
            self.locks.take(self.owner, &name, LockMode::of_row(is_shared), wait, &limits, timeout).map_err(named)?;
        if got == Got::Skipped {
            if waits {
                let what = "a statement that writes outside of a transaction block cannot wait for an advisory lock";
                return Err(SqlError::unsupported(what, "Take the lock by SELECT, before the statement."));
            }
            return Ok(false);
        }
        let is_of_transaction = kind.starts_with("xact_");
        let effects = &mut *self.effects.borrow_mut();
        effects.held.push(Held { name, is_shared, is_of_transaction, number: effects.taken });
        effects.taken += 1;
        Ok(true)
    }

    /// Gives back a lock of the session once. Returns whether it had it.
    fn unlock(&self, arguments: &[Datum], is_shared: bool) -> Datum {
        let Some(name) = name_of(arguments) else { return Datum::Bool(false) };
        let mut effects = self.effects.borrow_mut();
        let is_it = |held: &Held| held.name == name && held.is_shared == is_shared && !held.is_of_transaction;
        let Some(at) = effects.held.iter().position(is_it) else { return Datum::Bool(false) };
        effects.held.remove(at);
        if effects.held.iter().all(|held| held.name != name) {
            self.locks.release(self.owner, [name]);
        }
        Datum::Bool(true)
    }

    /// Sets a parameter for what follows, within this statement too.
    fn set_config(&self, arguments: &[Datum]) -> Result<Datum> {
        let (Some(name), value) = (arguments.first().and_then(Datum::as_text), arguments.get(1)) else {
            return Ok(Datum::Null);
        };
        let value = value.and_then(Datum::as_text).unwrap_or_default();
        let mut settings = Settings::clone(&self.identity.settings);
        settings.set(name, value)?;
        let is_local = matches!(arguments.get(2), Some(Datum::Bool(true)));
        self.effects.borrow_mut().settings.push((name.to_owned(), value.to_owned(), is_local));
        Ok(settings.get(name).map_or(Datum::Null, Datum::text))
    }

    /// The value that a statement before its end has given a parameter.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let effects = self.effects.borrow();
        let (known, value, _) = effects.settings.iter().rfind(|(known, ..)| known.eq_ignore_ascii_case(name))?;
        let mut settings = Settings::clone(&self.identity.settings);
        settings.set(known, value).ok()?;
        settings.get(known).map(str::to_owned)
    }
}

/// A failure to get a lock, of an advisory lock instead of a row.
fn named(error: SqlError) -> SqlError {
    if error.state() == SqlState::DEADLOCK_DETECTED {
        let what = "The transaction waits for an advisory lock and is waited for.";
        return SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(what);
    }
    error
}
