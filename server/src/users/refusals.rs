//! Refusals of users' commands, for `ACL LOG`. Refusals that are alike within a minute are one entry with a count.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A refusal is counted with an earlier one like it for so long.
const ALIKE_MS: u64 = 60_000;

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The password was wrong.
    Password,
    /// The command is not theirs.
    Command,
    /// The key is not theirs.
    Key,
}

impl Reason {
    /// As Redis names it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Password => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
        }
    }
}

/// One refusal, or several that are alike.
#[derive(Clone, Debug)]
pub struct RefusedClient {
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Whether it was inside a transaction.
    pub in_transaction: bool,
    /// The command or the key.
    pub object: Vec<u8>,
    /// Whose they were.
    pub user: String,
    /// When the last one was, in milliseconds since 1970.
    pub last_ms: u64,
    /// The client's line in `CLIENT LIST`.
    pub client: String,
}

/// The last refusals.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<RefusedClient>>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, VecDeque<RefusedClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one; `max` are kept.
    pub fn note(&self, mut entry: RefusedClient, max: usize) {
        let mut entries = self.lock();
        let is_alike = |known: &RefusedClient| {
            known.reason == entry.reason
                && known.in_transaction == entry.in_transaction
                && known.object == entry.object
                && known.user == entry.user
                && entry.last_ms.saturating_sub(known.last_ms) <= ALIKE_MS
        };
        if let Some(place) = entries.iter().position(is_alike)
            && let Some(known) = entries.remove(place)
        {
            entry.count += known.count;
        }
        entries.push_front(entry);
        entries.truncate(max);
    }

    /// The last ones, the newest first.
    pub fn last(&self, max: usize) -> Vec<RefusedClient> {
        self.lock().iter().take(max).cloned().collect()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.lock().clear();
    }
}
