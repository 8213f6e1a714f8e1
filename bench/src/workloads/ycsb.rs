//! YCSB A to F: reads, updates, inserts and scans of records of one kilobyte, some of which are far more popular than
//! the others.
//!
//! Each store is loaded, record by record, and then does A, B, C, F, D and E on the same files: D and E add records, so
//! they come last. Writes are commits of their own, handed to the operating system and not synced. Stores take turns, a
//! whole sequence each, in one process; every thread has a client of its own.
//!
//! Timed is from the first request to the last answer. A figure that hits the time limit counts what it did and is
//! marked; loading has no limit. What is asked and how it differs from the program of that name stands in `ycsb/`.
//!
//! Checked: every value read is one of its record and every record asked is there, or it is counted as an error or as
//! not found; the number of records at the end; with one thread, that all stores read the same bytes.

use std::collections::BTreeMap;

use crate::clock::{Deadline, Spent, median};
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::socket::Server;
use crate::store::{Result, StoreKind};
use crate::ycsb::{self, Contestant, KEY_BYTES, MIXES, Operation, Outcome, Population, UserTableKind, Values};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "ycsb",
    about: "YCSB A to F: zipfian reads, updates, inserts and scans of 1 kB records; --typed: of ten fields; --resp: of servers",
    run,
    child: None,
};

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let servers = if bench.options.ycsb.resp { servers(bench)? } else { Vec::new() };
    let tables = if bench.options.ycsb.typed { tables(bench)? } else { Vec::new() };
    // No server is started with a size of cache.
    let caches = if bench.options.ycsb.resp { &[0][..] } else { &bench.options.ycsb.cache_bytes[..] };
    for records in bench.options.row_counts(&[200_000], 200) {
        for cache_bytes in caches {
            let size = Size { bench, records, cache_bytes: *cache_bytes };
            let contestants: Vec<Contestant<'_>> = match (bench.options.ycsb.resp, bench.options.ycsb.typed) {
                (true, _) => servers.iter().map(Contestant::Server).collect(),
                (false, true) => tables.iter().map(Contestant::Table).collect(),
                (false, false) => size.stores_that_fit().map(Contestant::Store).collect(),
            };
            let figures = size.measure(&contestants)?;
            show(size.rates(&contestants, &figures));
            show(size.times(&contestants, &figures));
        }
    }
    Ok(())
}

/// The servers asked for that speak RESP.
fn servers(bench: &Bench<'_>) -> Result<Vec<Server>> {
    let names = ["quipu", "redis"];
    if let Some(unknown) = bench.options.stores.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("no server `{unknown}` that speaks RESP; there are {}", names.join(", ")).into());
    }
    Ok(Server::all(bench.options).into_iter().filter(Server::speaks_resp).collect())
}

/// The typed tables asked for.
fn tables(bench: &Bench<'_>) -> Result<Vec<UserTableKind>> {
    let (mut kinds, asked) = (UserTableKind::all(), &bench.options.stores);
    if let Some(unknown) = asked.iter().find(|name| kinds.iter().all(|kind| kind.name != **name)) {
        let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        return Err(format!("no store `{unknown}` of typed tables; there are {}", known.join(", ")).into());
    }
    kinds.retain(|kind| asked.is_empty() || asked.iter().any(|name| name == kind.name));
    Ok(kinds)
}

/// What comes before the workloads.
const LOAD: &str = "load";

/// A line of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    /// Its place in [`steps`].
    step: usize,
    contestant: usize,
    threads: usize,
}

/// The names of what is done, in order.
fn steps() -> impl Iterator<Item = &'static str> {
    std::iter::once(LOAD).chain(MIXES.iter().map(|mix| mix.name))
}

type Figures = BTreeMap<Line, Vec<Outcome>>;

/// All that is measured at one number of records and one size of caches.
struct Size<'a> {
    bench: &'a Bench<'a>,
    records: u64,
    cache_bytes: u64,
}

impl Size<'_> {
    fn stores_that_fit(&self) -> impl Iterator<Item = &StoreKind> {
        let value_bytes = self.bench.options.ycsb.value_bytes;
        self.bench.stores.iter().filter(move |kind| kind.holds(KEY_BYTES, value_bytes))
    }

    fn operations(&self) -> u64 {
        self.bench.options.ycsb.operations.unwrap_or(self.records)
    }

    fn thread_counts(&self) -> Vec<usize> {
        self.bench.options.thread_counts(&[1, 2])
    }

    fn measure(&self, contestants: &[Contestant<'_>]) -> Result<Figures> {
        let mut figures = Figures::new();
        for turn in 0..self.bench.options.repeat.max(1) {
            for threads in self.thread_counts() {
                for number in 0..contestants.len() {
                    let contestant = (number + turn) % contestants.len();
                    if contestants[contestant].is_there() {
                        let run = Run { size: self, turn, contestant, threads, of: contestants[contestant] };
                        run.all_steps(&mut figures)?;
                    }
                }
            }
        }
        agree(contestants, &figures)?;
        Ok(figures)
    }

    /// Whether a line must stand in the tables even if it has no figures.
    fn lines(&self, contestants: &[Contestant<'_>]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (step, name) in steps().enumerate() {
            for contestant in 0..contestants.len() {
                for threads in self.thread_counts() {
                    if name == LOAD || self.bench.options.wants(name) {
                        lines.push(Line { step, contestant, threads });
                    }
                }
            }
        }
        lines
    }

    /// What names a line: workload, store, threads, cache.
    fn heads(&self, line: &Line, contestants: &[Contestant<'_>], finished: bool) -> Vec<Cell> {
        let contestant = contestants[line.contestant];
        let star = if finished { "" } else { "*" };
        let cache = if contestant.has_cache() { Cell::Bytes(self.cache_bytes as f64) } else { Cell::Missing };
        vec![
            Cell::text(steps().nth(line.step).unwrap_or_default()),
            Cell::text(format!("{}{star}", contestant.name())),
            Cell::Count(line.threads as u64),
            cache,
        ]
    }

    fn title(&self, what: &str) -> String {
        let value_bytes = Cell::Count(self.bench.options.ycsb.value_bytes as u64);
        let place = match self.bench.options.ycsb.resp {
            true => "over RESP".to_owned(),
            false => format!("caches of {}", Cell::Bytes(self.cache_bytes as f64)),
        };
        let typed = if self.bench.options.ycsb.typed { " in ten fields" } else { "" };
        format!("YCSB, {what}: {} records of {value_bytes} bytes{typed}, {place}", Cell::Count(self.records))
    }

    fn rates(&self, contestants: &[Contestant<'_>], figures: &Figures) -> Table {
        let columns = [
            "workload",
            "store",
            "threads",
            "cache",
            "operations",
            "operations/s",
            "CPU each",
            "99 %",
            "not found",
            "errors",
        ];
        let mut table = Table::new(self.title("rates"), &columns).with_bars("operations/s", 1);
        let mut report = String::new();
        for line in self.lines(contestants) {
            let outcomes = figures.get(&line).map_or(&[][..], Vec::as_slice);
            let mut row = self.heads(&line, contestants, outcomes.iter().all(|outcome| outcome.finished));
            let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
            if outcomes.is_empty() {
                row.resize(columns.len(), Cell::Missing);
            } else {
                let all = all_latencies(outcomes);
                row.extend([
                    Cell::Count(sum(Outcome::operations) / outcomes.len() as u64),
                    Cell::PerSecond(rate(outcomes)),
                    Cell::seconds(median(outcomes.iter().map(|o| each(o, |spent| spent.cpu_s)).collect())),
                    all.p99(),
                    Cell::Count(sum(Outcome::not_found)),
                    Cell::Count(sum(Outcome::errors)),
                ]);
                let name = contestants[line.contestant].name();
                report.push_str(&report_line(&line, name, outcomes, &all));
            }
            table.push(row);
        }
        self.notes(contestants, figures, &mut table);
        table.note(format!(
            "As YCSB reports of the log-structured B-tree index were written, all turns together:\n\n```\n{report}```"
        ));
        table
    }

    fn notes(&self, contestants: &[Contestant<'_>], figures: &Figures, table: &mut Table) {
        table.note(
            "`*`: stopped at the time limit. Each write is a commit handed to the operating system, not synced. 99 %: of the latency of \
             all operations. Cache: what the store was given, besides its memtables; `-`: it has no such setting, and keeps all rows in \
             memory or leaves that to the operating system, whose cache is not limited for any store.",
        );
        table.note(if self.bench.options.ycsb.resp {
            "CPU: of the server, in ticks of 10 ms. Every thread has a connection and one request under way."
        } else {
            "CPU: all threads of the process, background work included, and the client: making the request, looking at the clock, reading every byte."
        });
        for contestant in contestants {
            match contestant {
                Contestant::Server(server) => table.note(server.note()),
                Contestant::Store(kind) => table.note(kind.settings),
                Contestant::Table(kind) => table.note(kind.settings),
            }
        }
        for (line, outcomes) in figures {
            if let Some(error) = outcomes.iter().find_map(Outcome::first_error) {
                let step = steps().nth(line.step).unwrap_or_default();
                table.note(format!("ERROR of {} in {step}: {error}", contestants[line.contestant].name()));
            }
        }
    }

    fn times(&self, contestants: &[Contestant<'_>], figures: &Figures) -> Table {
        let columns =
            ["workload", "store", "threads", "cache", "operation", "count", "average", "50 %", "99 %", "99.9 %", "max"];
        let mut table = Table::new(self.title("latencies"), &columns);
        for line in self.lines(contestants) {
            let Some(outcomes) = figures.get(&line) else { continue };
            for operation in Operation::ALL {
                let mut latencies = Latencies::new();
                outcomes.iter().for_each(|outcome| latencies.add(outcome.latencies(operation)));
                if latencies.count() == 0 {
                    continue;
                }
                let mut row = self.heads(&line, contestants, outcomes.iter().all(|outcome| outcome.finished));
                row.extend([
                    Cell::text(operation.name()),
                    Cell::Count(latencies.count()),
                    latencies.average(),
                    latencies.median(),
                    latencies.p99(),
                    latencies.p999(),
                    latencies.longest(),
                ]);
                table.push(row);
            }
        }
        table.note("Of single calls, all turns together. A read-modify-write is both its calls.");
        table
    }
}

/// One store, once, from empty to the end.
struct Run<'a> {
    size: &'a Size<'a>,
    turn: usize,
    contestant: usize,
    threads: usize,
    of: Contestant<'a>,
}

impl Run<'_> {
    fn all_steps(&self, figures: &mut Figures) -> Result<()> {
        let Size { bench, records, cache_bytes } = *self.size;
        let in_time = || if bench.options.smoke { Deadline::never() } else { Deadline::after(bench.options.seconds) };
        let name = self.of.name();
        let open = self.of.open(bench, cache_bytes)?;
        let (population, values) = (Population::default(), Values::new(bench.options.ycsb.value_bytes));
        let asked = (self.size.operations(), bench.options.seed);
        for (step, of_step) in steps().enumerate() {
            let mix = MIXES.iter().find(|mix| mix.name == of_step);
            if mix.is_some_and(|mix| !bench.options.wants(mix.name) || !self.of.can(mix)) {
                continue;
            }
            let turn = self.turn + 1;
            bench.progress(format_args!("{records} records, {name}, {} threads, {of_step}, turn {turn}", self.threads));
            let outcome = open.step(self.threads, |clients| match mix {
                None => ycsb::load(clients, &population, &values, records),
                Some(mix) => ycsb::run(clients, mix, &population, &values, asked, in_time),
            })?;
            if mix.is_none() && outcome.errors() > 0 {
                let first = outcome.first_error().unwrap_or_default();
                return Err(format!("{name} was not loaded: {} errors, first {first}", outcome.errors()).into());
            }
            let line = Line { step, contestant: self.contestant, threads: self.threads };
            figures.entry(line).or_default().push(outcome);
        }
        let (there, expected) = (open.count()?, population.count());
        if there == expected { Ok(()) } else { Err(format!("{name} has {there} records instead of {expected}").into()) }
    }
}

/// Fails if stores that did all that one thread asked have read different bytes.
fn agree(contestants: &[Contestant<'_>], figures: &Figures) -> Result<()> {
    let mut first: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
    let mut behind = Vec::new();
    for (line, outcomes) in figures.iter().filter(|(line, _)| line.threads == 1) {
        for outcome in outcomes {
            // What follows a figure that was stopped found other records.
            if !outcome.finished {
                behind.push(line.contestant);
            }
            if behind.contains(&line.contestant) {
                continue;
            }
            let (digest, other) = *first.entry(line.step).or_insert((outcome.digest(), line.contestant));
            if digest != outcome.digest() {
                let step = steps().nth(line.step).unwrap_or_default();
                let names = [other, line.contestant].map(|number| contestants[number].name());
                return Err(format!("{} and {} read different records in {step}", names[0], names[1]).into());
            }
        }
    }
    Ok(())
}

fn all_latencies(outcomes: &[Outcome]) -> Latencies {
    let mut all = Latencies::new();
    for outcome in outcomes {
        Operation::ALL.iter().for_each(|operation| all.add(outcome.latencies(*operation)));
    }
    all
}

/// The median of the turns.
fn rate(outcomes: &[Outcome]) -> f64 {
    1.0 / median(outcomes.iter().map(|outcome| each(outcome, |spent| spent.wall_s)).collect()).max(1e-12)
}

/// Seconds for each operation.
fn each(outcome: &Outcome, of: fn(&Spent) -> f64) -> f64 {
    of(&outcome.spent) / outcome.operations().max(1) as f64
}

/// `zipfian workload a: 345.4K Op/s, latency 99% 133.119 ms: 414848.7K oks, 0 not_found, 448 errors, 1201089 ms run
/// time`
fn report_line(line: &Line, store: &str, outcomes: &[Outcome], all: &Latencies) -> String {
    let step = steps().nth(line.step).unwrap_or_default();
    let what = match MIXES.iter().find(|mix| mix.name == step) {
        Some(mix) => format!("{} workload {}", mix.choice.name(), mix.name.to_lowercase()),
        None => step.to_owned(),
    };
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let (not_found, errors) = (sum(Outcome::not_found), sum(Outcome::errors));
    let oks = sum(Outcome::operations) - not_found - errors;
    format!(
        "{store}, threads {}: {what}: {:.1}K Op/s, latency 99% {:.3} ms: {:.1}K oks, {not_found} not_found, {errors} errors, {:.0} ms run time\n",
        line.threads,
        rate(outcomes) / 1e3,
        all.p99_nanos() / 1e6,
        oks as f64 / 1e3,
        outcomes.iter().map(|outcome| outcome.spent.wall_s * 1e3).sum::<f64>(),
    )
}
