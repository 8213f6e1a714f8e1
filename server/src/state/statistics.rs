//! Counts what has happened since the start, for `INFO` and for metrics.
//!
//! Cost: two additions for a command that runs alone, and as much for a whole run of commands that are alike.
//!
//! Not here: slow commands ([`crate::state::slow_log`]), figures of the data (the engine's statistics).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::facts::{Spec, by_number};

/// Codes of errors that are counted one by one; a client could make up more.
const ERROR_CODES_MAX: usize = 128;
/// Rates are over so many samples, taken ten times a second.
const SAMPLES: usize = 16;

/// Parts of each power of two that durations are told apart by: an error of an eighth at most.
const PARTS: usize = 8;
/// Powers of two of nanoseconds that are told apart: up to 2^40, a quarter of an hour.
const POWERS: usize = 40;

/// How long calls took, in classes.
#[derive(Debug)]
pub struct Durations {
    counts: Box<[AtomicU64]>,
}

impl Default for Durations {
    fn default() -> Self {
        Durations { counts: (0..PARTS * POWERS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Durations {
    /// The class of a duration.
    fn class(ns: u64) -> usize {
        if ns < PARTS as u64 {
            return ns as usize;
        }
        let power = ns.ilog2() as usize;
        let part = (ns >> (power - 3)) as usize & (PARTS - 1);
        ((power - 2) * PARTS + part).min(PARTS * POWERS - 1)
    }

    /// The longest duration of a class.
    fn longest_ns(class: usize) -> u64 {
        if class < PARTS {
            return class as u64;
        }
        let (power, part) = (class / PARTS + 2, (class % PARTS) as u64);
        ((PARTS as u64 + part + 1) << (power - 3)) - 1
    }

    #[inline]
    fn note(&self, ns: u64, count: u64) {
        self.counts[Durations::class(ns)].fetch_add(count, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The duration that this part of the calls, in percent, did not exceed, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count.load(Ordering::Relaxed);
            if seen >= wanted {
                return Durations::longest_ns(class) as f64 / 1000.0;
            }
        }
        0.0
    }

    /// For powers of two of microseconds, how many took no longer; those powers only at which there are more than
    /// before.
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let (mut seen, mut told, mut list) = (0, 0, Vec::new());
        let mut class = 0;
        for power in 0..POWERS - 10 {
            let bound_ns = (1024u64 << power) - 1;
            while class < self.counts.len() && Durations::longest_ns(class) <= bound_ns {
                seen += self.counts[class].load(Ordering::Relaxed);
                class += 1;
            }
            if seen > told {
                list.push((1 << power, seen));
                told = seen;
            }
        }
        list
    }
}

/// What happened with one command.
#[derive(Debug, Default)]
pub struct CommandStatistics {
    durations: OnceLock<Durations>,
    /// Calls whose durations were not kept.
    untracked: AtomicU64,
    /// How long calls took together.
    pub ns: AtomicU64,
    /// Refused before they ran.
    pub rejected: AtomicU64,
    /// Ended with an error.
    pub failed: AtomicU64,
}

impl CommandStatistics {
    /// How long calls took; `None` if there were none.
    pub fn durations(&self) -> Option<&Durations> {
        self.durations.get()
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.durations().map_or(0, Durations::count) + self.untracked.load(Ordering::Relaxed)
    }

    fn clear(&self) {
        for place in [&self.ns, &self.untracked, &self.rejected, &self.failed] {
            place.store(0, Ordering::Relaxed);
        }
        self.durations
            .get()
            .into_iter()
            .flat_map(|durations| &durations.counts)
            .for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// A count that grows, looked at ten times a second.
#[derive(Debug, Default)]
struct Rate {
    last: u64,
    last_ms: u64,
    samples: [u64; SAMPLES],
    next: usize,
}

impl Rate {
    fn sample(&mut self, count: u64, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.last_ms).max(1);
        if self.last_ms > 0 {
            self.samples[self.next % SAMPLES] = count.saturating_sub(self.last) * 1000 / elapsed_ms;
            self.next += 1;
        }
        (self.last, self.last_ms) = (count, now_ms);
    }

    fn per_second(&self) -> u64 {
        self.samples.iter().sum::<u64>() / SAMPLES as u64
    }
}

/// Rates over the last 1.6 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands a second.
    pub commands: u64,
    /// Bytes read a second.
    pub bytes_in: u64,
    /// Bytes sent a second.
    pub bytes_out: u64,
}

/// Counters.
#[derive(Debug)]
pub struct Statistics {
    by_command: Box<[CommandStatistics]>,
    /// Commands run, as of the last round of housekeeping.
    pub commands: AtomicU64,
    /// Commands, or runs of them, that were taken back because pages of runs were missing.
    pub page_faults: AtomicU64,
    /// Connections whose next command waits for pages or for memory.
    pub parked: AtomicU64,
    /// Clients that were closed because all together held too much.
    pub evicted_clients: AtomicU64,
    /// Commands refused before they ran, and those that failed.
    pub errors: AtomicU64,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused.
    pub refused_connections: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes sent to clients.
    pub bytes_out: AtomicU64,
    /// Turns of loops in which something was read.
    pub reads: AtomicU64,
    /// Those in which something was sent.
    pub writes: AtomicU64,
    /// Bytes of memory that the data takes, as of the last round of housekeeping.
    pub memory_bytes: AtomicU64,
    /// The most that was.
    pub memory_peak_bytes: AtomicU64,
    tracks_latencies: AtomicBool,
    errors_by_code: Mutex<BTreeMap<String, u64>>,
    rates: Mutex<[Rate; 3]>,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            commands: AtomicU64::new(0),
            page_faults: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            evicted_clients: AtomicU64::new(0),
            by_command: by_number().iter().map(|_| CommandStatistics::default()).collect(),
            errors: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            memory_peak_bytes: AtomicU64::new(0),
            tracks_latencies: AtomicBool::new(true),
            errors_by_code: Mutex::default(),
            rates: Mutex::default(),
        }
    }
}

impl Statistics {
    /// Notes commands of one kind that took this long together.
    #[inline]
    pub fn note_commands(&self, spec: &'static Spec, count: u64, took: Duration) {
        let Some(command) = self.by_command.get(usize::from(spec.number)) else { return };
        let ns = took.as_nanos() as u64;
        command.ns.fetch_add(ns, Ordering::Relaxed);
        if self.tracks_latencies.load(Ordering::Relaxed) {
            command.durations.get_or_init(Durations::default).note(ns / count.max(1), count);
        } else {
            command.untracked.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Whether it is kept how long commands take: `latency-tracking`.
    pub fn track_latencies(&self, tracks: bool) {
        self.tracks_latencies.store(tracks, Ordering::Relaxed);
    }

    /// What happened with a command.
    pub fn of(&self, spec: &Spec) -> Option<&CommandStatistics> {
        self.by_command.get(usize::from(spec.number))
    }

    /// Commands run until now.
    pub fn count_commands(&self) -> u64 {
        self.by_command.iter().map(CommandStatistics::calls).sum()
    }

    /// Notes what went over sockets.
    pub fn note_bytes(&self, bytes_in: u64, bytes_out: u64) {
        for (bytes, total, turns) in
            [(bytes_in, &self.bytes_in, &self.reads), (bytes_out, &self.bytes_out, &self.writes)]
        {
            if bytes > 0 {
                total.fetch_add(bytes, Ordering::Relaxed);
                turns.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes a command that failed.
    pub fn note_failure(&self, spec: &'static Spec) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if let Some(command) = self.of(spec) {
            command.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a command that was refused before it ran.
    pub fn note_refusal(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes which command was refused before it ran.
    pub fn note_rejected(&self, spec: &'static Spec) {
        if let Some(command) = self.of(spec) {
            command.rejected.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes an error's code, its first word.
    pub fn note_error(&self, text: &str) {
        let code = text.split(' ').next().unwrap_or("ERR");
        let mut codes = self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = codes.get_mut(code) {
            *count += 1;
        } else if codes.len() < ERROR_CODES_MAX {
            codes.insert(code.to_owned(), 1);
        }
    }

    /// Errors by code.
    pub fn errors_by_code(&self) -> BTreeMap<String, u64> {
        self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the samples of which rates are made.
    pub fn sample(&self, now_ms: u64) {
        let counts =
            [self.count_commands(), self.bytes_in.load(Ordering::Relaxed), self.bytes_out.load(Ordering::Relaxed)];
        self.commands.store(counts[0], Ordering::Relaxed);
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.iter_mut().zip(counts).for_each(|(rate, count)| rate.sample(count, now_ms));
    }

    /// What goes on now.
    pub fn rates(&self) -> Rates {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let [commands, bytes_in, bytes_out] = std::array::from_fn(|place| rates[place].per_second());
        Rates { commands, bytes_in, bytes_out }
    }

    /// Sets all counts to zero: `CONFIG RESETSTAT`.
    pub fn clear(&self) {
        self.by_command.iter().for_each(CommandStatistics::clear);
        for place in [
            &self.commands,
            &self.errors,
            &self.connections,
            &self.refused_connections,
            &self.bytes_in,
            &self.bytes_out,
            &self.reads,
            &self.writes,
            &self.evicted_clients,
        ] {
            place.store(0, Ordering::Relaxed);
        }
        self.memory_peak_bytes.store(self.memory_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_have_no_gap() {
        let mut last = 0;
        for ns in 0..100_000 {
            let class = Durations::class(ns);
            assert!(class == last || class == last + 1, "{ns}");
            assert!(
                Durations::longest_ns(class) >= ns && (class == 0 || Durations::longest_ns(class - 1) < ns),
                "{ns}"
            );
            last = class;
        }
        assert_eq!(Durations::class(u64::MAX), PARTS * POWERS - 1);
    }

    #[test]
    fn percentiles_are_within_an_eighth() {
        let durations = Durations::default();
        (1..=1000).for_each(|us| durations.note(us * 1000, 1));
        for (percent, us) in [(50.0, 500.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = durations.percentile_us(percent);
            assert!(found >= us && found < us * 1.13, "{percent}: {found}");
        }
        assert_eq!(durations.cumulative_us().last(), Some(&(1024, 1000)));
    }
}
