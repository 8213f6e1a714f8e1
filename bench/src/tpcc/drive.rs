//! Terminals at work: one after the other without a pause, or with the keying and think times of operators.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::contestant::{Contestant, Ending, Session};
use super::population::Scale;
use super::requests::{Kind, Request, Terminal};
use crate::clock::{self, Spent, Stopwatch};
use crate::latencies::Latencies;
use crate::rows::{Draw, mix64};
use crate::store::Result;

/// How terminals ask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// One terminal a thread, without a pause, for so long, or for so many transactions each.
    FlatOut(Length),
    /// So many terminals a warehouse, with keying and think times, for so many seconds after the first so many: in
    /// those the terminals begin, one after the other.
    Thinking { terminals: i32, ramp_s: f64, seconds: f64 },
}

/// When a thread stops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Seconds(f64),
    Transactions(u64),
}

/// What became of the transactions of one kind.
#[derive(Default)]
pub(crate) struct OfKind {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    /// Of all that did not fail.
    pub(crate) latencies: Option<Latencies>,
}

/// What a run did.
#[derive(Default)]
pub(crate) struct Outcome {
    kinds: [OfKind; 5],
    pub(crate) retries: u64,
    pub(crate) first_error: Option<String>,
    /// The fingerprint of the first [`COMPARED`] answers of a single thread, if there were so many.
    pub(crate) digest: Option<u64>,
    pub(crate) spent: Spent,
}

/// The answers whose fingerprint stores are compared by.
const COMPARED: u64 = 1_000;

impl Outcome {
    pub(crate) fn of(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize]
    }

    /// Committed New-Order transactions per minute.
    pub(crate) fn tpm_c(&self) -> f64 {
        self.of(Kind::NewOrder).committed as f64 * 60.0 / self.spent.wall_s
    }

    /// All transactions that did not fail.
    pub(crate) fn done(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum()
    }

    fn note(&mut self, request: &Request, ending: Result<Ending>, nanos: u64) {
        let of = &mut self.kinds[request.kind() as usize];
        match ending {
            Ok(Ending::Committed(_)) => of.committed += 1,
            Ok(Ending::RolledBack) => of.rolled_back += 1,
            Err(error) => {
                of.failed += 1;
                self.first_error.get_or_insert_with(|| format!("{}: {error}", request.kind().name()));
                return;
            }
        }
        of.latencies.get_or_insert_with(Latencies::new).record(nanos);
    }

    /// Adds what another thread did.
    pub(crate) fn add(&mut self, other: Outcome) {
        for (sum, of) in self.kinds.iter_mut().zip(other.kinds) {
            sum.committed += of.committed;
            sum.rolled_back += of.rolled_back;
            sum.failed += of.failed;
            if let Some(latencies) = &of.latencies {
                sum.latencies.get_or_insert_with(Latencies::new).add(latencies);
            }
        }
        self.retries += other.retries;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// Runs terminals on so many threads.
///
/// # Errors
/// That a session could not be opened. What a transaction fails with is counted.
pub(crate) fn run(of: &dyn Contestant, scale: Scale, seed: u64, threads: usize, pace: Pace) -> Result<Outcome> {
    let sessions = (0..threads).map(|_| of.session()).collect::<Result<Vec<_>>>()?;
    let watch = Stopwatch::start();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let work = |(thread, session): (usize, Box<dyn Session + '_>)| match pace {
            Pace::FlatOut(length) => flat_out(session, scale, mix64(seed + thread as u64), length),
            Pace::Thinking { terminals, ramp_s, seconds } => {
                let mine = (0..scale.warehouses * terminals).filter(|terminal| *terminal as usize % threads == thread);
                let terminals = mine.map(|number| {
                    let home = (number / terminals + 1, number % terminals % super::population::DISTRICTS + 1);
                    Terminal::new(scale, Some(home), Draw::new(mix64(seed ^ mix64(number as u64))))
                });
                thinking(session, terminals.collect(), ramp_s, seconds)
            }
        };
        let threads: Vec<_> = sessions.into_iter().enumerate().map(|part| scope.spawn(move || work(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a terminal does not panic")).collect()
    });
    let mut all = Outcome { digest: outcomes.first().and_then(|outcome| outcome.digest), ..Outcome::default() };
    outcomes.into_iter().for_each(|outcome| all.add(outcome));
    all.spent = watch.stop();
    if let Pace::Thinking { seconds, .. } = pace {
        all.spent.wall_s = seconds;
    }
    if threads > 1 {
        all.digest = None;
    }
    Ok(all)
}

fn flat_out(mut session: Box<dyn Session + '_>, scale: Scale, seed: u64, length: Length) -> Outcome {
    let mut terminal = Terminal::new(scale, None, Draw::new(seed));
    let mut outcome = Outcome::default();
    let (mut digest, mut asked) = (0_u64, 0);
    let mut now = clock::now();
    let end = match length {
        Length::Seconds(seconds) => Some(now + Duration::from_secs_f64(seconds)),
        Length::Transactions(_) => None,
    };
    loop {
        let is_over = match length {
            Length::Seconds(_) => end.is_some_and(|end| now >= end),
            Length::Transactions(transactions) => asked == transactions,
        };
        if is_over {
            break;
        }
        let request = terminal.next_request();
        let start = clock::now();
        let ending = session.run(&request);
        now = clock::now();
        asked += 1;
        if asked <= COMPARED {
            digest = mix64(digest ^ if let Ok(Ending::Committed(answer)) = ending { answer } else { asked });
        }
        outcome.note(&request, ending, nanos_between(start, now));
    }
    outcome.digest = (asked >= COMPARED).then_some(digest);
    outcome.retries = session.retries();
    outcome
}

/// Terminals of one thread. Response times count from the moment at which the operator has typed the request, so that a
/// terminal that had to wait for its thread shows it.
fn thinking(mut session: Box<dyn Session + '_>, mut terminals: Vec<Terminal>, ramp_s: f64, seconds: f64) -> Outcome {
    let start = clock::now();
    let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
    let (measured_from, end) = (at(ramp_s), at(ramp_s + seconds));
    let mut outcome = Outcome::default();
    let mut requests: Vec<Request> = terminals.iter_mut().map(Terminal::next_request).collect();
    let mut due: BinaryHeap<Reverse<(Instant, usize)>> = terminals
        .iter_mut()
        .enumerate()
        .map(|(number, terminal)| Reverse((at(terminal.fraction() * ramp_s), number)))
        .collect();
    while let Some(Reverse((moment, number))) = due.pop() {
        if moment >= end {
            break;
        }
        loop {
            let left = moment.saturating_duration_since(clock::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        let (terminal, request) = (&mut terminals[number], &mut requests[number]);
        let ending = session.run(request);
        let done = clock::now();
        if moment >= measured_from {
            outcome.note(request, ending, nanos_between(moment, done));
        }
        let pause = terminal.thinking_s(request.kind().thinking_s());
        *request = terminal.next_request();
        due.push(Reverse((done + Duration::from_secs_f64(pause + request.kind().keying_s()), number)));
    }
    outcome.retries = session.retries();
    outcome
}

fn nanos_between(start: Instant, end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}
