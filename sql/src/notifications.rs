//! Notifications: what a transaction tells the sessions that listen to a channel, once it has committed.
//!
//! A session notes what its transaction says in [`Pending`]. At the commit, [`Notifications::commit`] puts it into the
//! [`Mailbox`] of each session that listens, and wakes the connection that it belongs to.
//!
//! Invariants:
//! 1. Transactions that notify, or change what their session listens to, commit one after the other: each listener has
//!    what they say in the order of the commits, once, and after the commit is durable.
//! 2. What waits in mailboxes is at most 64 MiB. A transaction that would exceed it fails.
//!
//! Nothing is kept on disk: a session that does not listen when a transaction commits never has what it said.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Result, SqlError, SqlState};

/// Bytes of notifications that may wait to be taken, over all sessions; and those of one transaction.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// What a notification costs beside its texts, and what it costs for each session that has not taken it.
const NOTIFICATION_BYTES: usize = 96;
const DELIVERY_BYTES: usize = 16;
/// The names of channels are shorter, as all names are, and so are payloads.
const CHANNEL_BYTES_END: usize = 64;
const PAYLOAD_BYTES_END: usize = 8_000;

/// What a session is told.
#[derive(Debug)]
pub struct Notification {
    /// The number of the connection that has sent it.
    pub process: i32,
    /// The channel.
    pub channel: Box<str>,
    /// What it says.
    pub payload: Box<str>,
    /// Counts it among what waits.
    _counted: Counted,
}

/// Bytes that are counted until this goes.
#[derive(Debug)]
struct Counted {
    total: Arc<AtomicUsize>,
    bytes: usize,
}

impl Counted {
    fn new(total: &Arc<AtomicUsize>, bytes: usize) -> Counted {
        total.fetch_add(bytes, Ordering::Relaxed);
        Counted { total: Arc::clone(total), bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What wakes the connection of a session.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Where a session finds what it was told.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<VecDeque<(Arc<Notification>, Counted)>>,
    is_listening: AtomicBool,
    is_open: AtomicBool,
    wake: OnceLock<Wake>,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("is_listening", &self.is_listening).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Says that the client takes what comes. Before that, its session cannot listen.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Says what wakes the connection when something has come; only the first one counts. What came before wakes
    /// nothing, so the mailbox is to be looked at afterwards.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// Whether the session listens to a channel.
    pub fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }

    /// Takes the next one. It is not to be taken while the session is in a transaction.
    pub fn take(&self) -> Option<Arc<Notification>> {
        if !self.is_listening() {
            return None;
        }
        self.lock().pop_front().map(|(notification, _)| notification)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<Notification>, Counted)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a transaction does at its commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Tells those that listen to a channel something.
    Notify(Box<str>, Box<str>),
    Listen(Box<str>),
    Unlisten(Box<str>),
    UnlistenAll,
}

/// What the transaction of a session does at its commit.
#[derive(Debug, Default)]
pub struct Pending {
    steps: Vec<Step>,
    /// The notifications among them: the same one is sent once.
    known: HashSet<Step>,
    bytes: usize,
}

impl Pending {
    /// NOTIFY.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if a text has no fit length,
    /// [`PROGRAM_LIMIT_EXCEEDED`](SqlState::PROGRAM_LIMIT_EXCEEDED) if the transaction says too much.
    pub fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        let refused = |what: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        if channel.is_empty() {
            return refused("channel name cannot be empty");
        }
        if channel.len() >= CHANNEL_BYTES_END {
            return refused("channel name too long");
        }
        if payload.len() >= PAYLOAD_BYTES_END {
            return refused("payload string too long");
        }
        let step = Step::Notify(channel.into(), payload.into());
        if self.known.contains(&step) {
            return Ok(());
        }
        let bytes = bytes_of(channel, payload);
        if self.bytes + bytes > WAITING_BYTES_MAX {
            return Err(full());
        }
        self.bytes += bytes;
        self.known.insert(step.clone());
        self.steps.push(step);
        Ok(())
    }

    /// LISTEN.
    ///
    /// # Errors
    /// [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) if the session's client takes no notifications.
    pub fn listen(&mut self, mailbox: &Mailbox, channel: &str) -> Result<()> {
        if !mailbox.is_open.load(Ordering::Relaxed) {
            let what = "LISTEN is not supported by a client that takes no notifications";
            return Err(SqlError::unsupported(what, "Listen over a connection to `quipu serve`."));
        }
        self.steps.push(Step::Listen(shortened(channel)));
        Ok(())
    }

    /// UNLISTEN of a channel, or of all.
    pub fn unlisten(&mut self, channel: Option<&str>) {
        self.steps.push(channel.map_or(Step::UnlistenAll, |channel| Step::Unlisten(shortened(channel))));
    }

    /// How much there is, to come back to.
    pub fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Forgets what has come since a mark.
    pub fn go_back(&mut self, mark: usize) {
        for step in self.steps.drain(mark.min(self.steps.len())..) {
            if let Step::Notify(channel, payload) = &step {
                self.bytes -= bytes_of(channel, payload);
                self.known.remove(&step);
            }
        }
    }
}

/// A name as PostgreSQL keeps it: at most 63 bytes of it.
pub fn shortened(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(CHANNEL_BYTES_END - 1)].into()
}

fn bytes_of(channel: &str, payload: &str) -> usize {
    NOTIFICATION_BYTES + channel.len() + payload.len()
}

fn full() -> SqlError {
    let what = "too many notifications in the NOTIFY queue";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_hint("A session that listens takes none while it is in a transaction, or while its client reads nothing.")
}

/// Which sessions listen to which channels.
type Channels = BTreeMap<Box<str>, Vec<Arc<Mailbox>>>;

/// The notifications of all sessions of a database.
#[derive(Default)]
pub struct Notifications {
    /// The turn to commit a transaction that notifies.
    turn: Mutex<()>,
    channels: Mutex<Channels>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Notifications {
    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a transaction by `commit`, and does then what it has noted: first what its session listens to, then what
    /// it says.
    ///
    /// # Errors
    /// Those of `commit`; before it, [`PROGRAM_LIMIT_EXCEEDED`](SqlState::PROGRAM_LIMIT_EXCEEDED) if too much waits.
    pub fn commit(
        &self,
        mailbox: &Arc<Mailbox>,
        process: i32,
        pending: Pending,
        commit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // Pools say UNLISTEN whenever a connection comes back to them.
        let has_nothing = pending.steps.iter().all(|step| matches!(step, Step::Unlisten(_) | Step::UnlistenAll));
        if has_nothing && !mailbox.is_listening() {
            return commit();
        }
        // The writer's turn is taken within this one, and never the other way round.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.known.is_empty() {
            self.refuse_full(&pending)?;
        }
        commit()?;
        let mut channels = self.lock();
        for step in &pending.steps {
            match step {
                Step::Notify(..) => {}
                Step::Listen(channel) => {
                    let listeners = channels.entry(channel.clone()).or_default();
                    if listeners.iter().all(|known| !Arc::ptr_eq(known, mailbox)) {
                        listeners.push(Arc::clone(mailbox));
                    }
                    mailbox.is_listening.store(true, Ordering::Release);
                }
                Step::Unlisten(channel) => leave(&mut channels, mailbox, Some(channel)),
                Step::UnlistenAll => leave(&mut channels, mailbox, None),
            }
        }
        let mut woken: Vec<Arc<Mailbox>> = Vec::new();
        for step in pending.steps {
            let Step::Notify(channel, payload) = step else { continue };
            let Some(listeners) = channels.get(&channel) else { continue };
            let counted = Counted::new(&self.waiting_bytes, bytes_of(&channel, &payload));
            let notification = Arc::new(Notification { process, channel, payload, _counted: counted });
            for listener in listeners {
                let delivery = Counted::new(&self.waiting_bytes, DELIVERY_BYTES);
                listener.lock().push_back((Arc::clone(&notification), delivery));
                if !Arc::ptr_eq(listener, mailbox) && woken.iter().all(|known| !Arc::ptr_eq(known, listener)) {
                    woken.push(Arc::clone(listener));
                }
            }
        }
        drop(channels);
        // The session of the transaction looks for itself.
        woken.iter().filter_map(|listener| listener.wake.get()).for_each(|wake| wake());
        Ok(())
    }

    /// Only the transaction that has the turn adds to what waits, so there is room after this.
    fn refuse_full(&self, pending: &Pending) -> Result<()> {
        let channels = self.lock();
        let needed = |step: &Step| match step {
            Step::Notify(channel, payload) => {
                let listeners = channels.get(channel).map_or(0, Vec::len);
                if listeners == 0 { 0 } else { bytes_of(channel, payload) + listeners * DELIVERY_BYTES }
            }
            _ => 0,
        };
        let needed: usize = pending.steps.iter().map(needed).sum();
        if self.waiting_bytes.load(Ordering::Relaxed) + needed > WAITING_BYTES_MAX {
            return Err(full());
        }
        Ok(())
    }

    /// A session listens to nothing any more, and has nothing that was not taken.
    pub fn leave(&self, mailbox: &Arc<Mailbox>) {
        if mailbox.is_listening() {
            leave(&mut self.lock(), mailbox, None);
        }
    }

    /// The channels that a session listens to.
    pub fn channels_of(&self, mailbox: &Arc<Mailbox>) -> Vec<Box<str>> {
        if !mailbox.is_listening() {
            return Vec::new();
        }
        let channels = self.lock();
        let listens = |listeners: &[Arc<Mailbox>]| listeners.iter().any(|known| Arc::ptr_eq(known, mailbox));
        channels.iter().filter(|(_, listeners)| listens(listeners)).map(|(channel, _)| channel.clone()).collect()
    }

    /// How much of what may wait does, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.waiting_bytes.load(Ordering::Relaxed) as f64 / WAITING_BYTES_MAX as f64
    }
}

/// Takes a session from a channel, or from all, with what it was told there.
fn leave(channels: &mut Channels, mailbox: &Arc<Mailbox>, channel: Option<&str>) {
    let mut listens_on = false;
    channels.retain(|name, listeners| {
        if channel.is_none_or(|channel| channel == &**name) {
            listeners.retain(|known| !Arc::ptr_eq(known, mailbox));
        }
        listens_on = listens_on || listeners.iter().any(|known| Arc::ptr_eq(known, mailbox));
        !listeners.is_empty()
    });
    mailbox.lock().retain(|(notification, _)| channel.is_some_and(|channel| channel != &*notification.channel));
    mailbox.is_listening.store(listens_on, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(notifications: &Notifications, channels: &[&str]) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.open();
        let mut pending = Pending::default();
        for channel in channels {
            pending.listen(&mailbox, channel).expect("listens");
        }
        notifications.commit(&mailbox, 1, pending, || Ok(())).expect("committed");
        mailbox
    }

    fn said(notifications: &Notifications, what: &[(&str, &str)]) -> Result<()> {
        let mut pending = Pending::default();
        for (channel, payload) in what {
            pending.notify(channel, payload)?;
        }
        notifications.commit(&Arc::default(), 7, pending, || Ok(()))
    }

    fn taken(mailbox: &Mailbox) -> Vec<String> {
        let taken = std::iter::from_fn(|| mailbox.take());
        taken.map(|notification| format!("{} {}", notification.channel, notification.payload)).collect()
    }

    #[test]
    fn each_listener_has_what_it_listens_to() {
        let notifications = Notifications::default();
        let (first, second) = (listener(&notifications, &["a", "b"]), listener(&notifications, &["b"]));
        said(&notifications, &[("a", "1"), ("b", "2"), ("a", "1"), ("c", "3")]).expect("said");
        assert_eq!(taken(&first), ["a 1", "b 2"]);
        assert_eq!(taken(&second), ["b 2"]);
        said(&notifications, &[("a", "4"), ("b", "5")]).expect("said");
        let mut pending = Pending::default();
        pending.unlisten(Some("a"));
        notifications.commit(&first, 1, pending, || Ok(())).expect("committed");
        assert_eq!(notifications.channels_of(&first), ["b".into()]);
        assert_eq!(taken(&first), ["b 5"]);
        notifications.leave(&first);
        notifications.leave(&second);
        assert!(!first.is_listening() && notifications.lock().is_empty());
        assert_eq!(notifications.usage(), 0.0);
    }

    #[test]
    fn what_waits_is_bounded() {
        let notifications = Notifications::default();
        let slow = listener(&notifications, &["a"]);
        let long = "x".repeat(PAYLOAD_BYTES_END - 1);
        let many = WAITING_BYTES_MAX / (bytes_of("a", &long) + DELIVERY_BYTES);
        for _ in 0..many {
            said(&notifications, &[("a", &long)]).expect("said");
        }
        assert!(notifications.usage() > 0.99 && notifications.usage() <= 1.0);
        let refused = said(&notifications, &[("a", &long)]).expect_err("full");
        assert_eq!(refused.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        // No session listens there.
        said(&notifications, &[("b", &long)]).expect("said");
        assert!(slow.take().is_some());
        said(&notifications, &[("a", &long)]).expect("said");
        assert_eq!(taken(&slow).len(), many);
        assert_eq!(notifications.usage(), 0.0);
    }

    #[test]
    fn a_transaction_forgets_what_it_takes_back() {
        let mut pending = Pending::default();
        pending.notify("a", "1").expect("noted");
        let mark = pending.mark();
        pending.notify("a", "1").expect("noted");
        pending.notify("a", "2").expect("noted");
        assert_eq!(pending.mark(), mark + 1);
        pending.go_back(mark);
        pending.notify("a", "2").expect("noted");
        assert_eq!((pending.mark(), pending.bytes), (2, 2 * bytes_of("a", "1")));
    }
}
