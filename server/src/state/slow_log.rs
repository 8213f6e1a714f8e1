//! Remembers commands that took long: the last of them with their words (`SLOWLOG`), and when some did (`LATENCY`).
//!
//! Cost: a command that was not slow costs two comparisons.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::Parameters;
use crate::facts::{Flags, Spec};
use crate::state::redaction::redact;
use crate::state::session::Session;
use crate::system::clock;

/// Whether a command is shown: not `EXEC`, for which those are that it runs.
fn is_shown(spec: &Spec) -> bool {
    !spec.flags.has(Flags::RUNS_QUEUE)
}

/// Words of a command that are kept, and bytes of each.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;
/// Moments of one event that are kept.
const MOMENTS_MAX: usize = 160;

/// A command that took long.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// Counts up from 0.
    pub id: u64,
    /// When it ended, in seconds since 1970.
    pub second: u64,
    /// How long it took, in microseconds.
    pub us: u64,
    /// Its words, cut.
    pub words: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// What took long at some moments.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Second since 1970, and the longest in it in milliseconds.
    pub moments: VecDeque<(u64, u64)>,
    /// The longest of all.
    pub longest_ms: u64,
}

/// The last commands that took longer than a threshold.
#[derive(Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowCommand>>,
    next_id: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl SlowLog {
    /// Notes a command if it took long.
    #[inline]
    pub fn note(&self, parameters: &Parameters, session: &Session, spec: &Spec, args: &[&[u8]], took: Duration) {
        let us = took.as_micros() as u64;
        let slow_us = parameters.slow_us.load(Ordering::Relaxed);
        if slow_us >= 0 && us >= slow_us as u64 && is_shown(spec) {
            self.keep(parameters.slow_commands_max.load(Ordering::Relaxed) as usize, session, &redact(spec, args), us);
        }
        let latency_ms = parameters.latency_ms.load(Ordering::Relaxed);
        if latency_ms > 0 && us / 1000 >= latency_ms {
            self.note_event(if spec.flags.has(Flags::FAST) { "fast-command" } else { "command" }, us / 1000);
        }
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<SlowCommand>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn keep(&self, max: usize, session: &Session, args: &[&[u8]], us: u64) {
        let cut = |word: &&[u8]| {
            if word.len() <= WORD_BYTES_MAX {
                return word.to_vec();
            }
            let more = format!("... ({} more bytes)", word.len() - WORD_BYTES_MAX);
            [&word[..WORD_BYTES_MAX], more.as_bytes()].concat()
        };
        let mut words: Vec<Vec<u8>> = args.iter().take(WORDS_MAX).map(cut).collect();
        if args.len() > WORDS_MAX {
            words[WORDS_MAX - 1] = format!("... ({} more arguments)", args.len() - WORDS_MAX + 1).into_bytes();
        }
        let mut entries = self.entries();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        entries.push_front(SlowCommand {
            id,
            second: clock::now_ms() / 1000,
            us,
            words,
            address: session.client.address.clone(),
            name: session.name.clone(),
        });
        entries.truncate(max);
    }

    /// Notes that something took so long.
    #[cold]
    pub fn note_event(&self, name: &'static str, ms: u64) {
        let second = clock::now_ms() / 1000;
        let mut events = self.events();
        let event = events.entry(name).or_default();
        event.longest_ms = event.longest_ms.max(ms);
        match event.moments.back_mut() {
            Some((last, longest)) if *last == second => *longest = ms.max(*longest),
            _ => event.moments.push_back((second, ms)),
        }
        if event.moments.len() > MOMENTS_MAX {
            event.moments.pop_front();
        }
    }

    /// The last commands that were slow, the newest first.
    pub fn last(&self, max: usize) -> Vec<SlowCommand> {
        self.entries().iter().take(max).cloned().collect()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets them.
    pub fn clear(&self) {
        self.entries().clear();
    }

    /// What took long, by name.
    pub fn all_events(&self) -> BTreeMap<&'static str, Event> {
        self.events().clone()
    }

    /// Forgets what took long: those of these names, all if there is none. Returns how many.
    pub fn clear_events(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events();
        let before = events.len();
        events.retain(|name, _| {
            !names.is_empty() && !names.iter().any(|given| given.eq_ignore_ascii_case(name.as_bytes()))
        });
        before - events.len()
    }
}
