//! TPC-C: five transactions over nine tables, as the specification has them.
//!
//! Each contestant is loaded, its indexes are built, and it does the standard mix. Without think time each thread is a
//! terminal that asks without a pause and chooses a warehouse for each transaction; with it (`--think-time`) every
//! warehouse has ten terminals with the keying and think times of the specification, and threads serve them.
//! Contestants take turns, each from a fresh load. Commits are handed to the operating system, not synced, unless
//! `--durability sync`.
//!
//! Checked after each run: consistency conditions 1 to 12 of clause 3.3.2 over all rows, the contestant's own check,
//! and that the first thousand answers of one thread are the same everywhere.

use std::collections::BTreeMap;

use crate::clock::{Stopwatch, median};
use crate::latencies::Latencies;
use crate::report::{Cell, Table as Figures};
use crate::store::{CACHE_BYTES, Result, Setup};
use crate::tpcc::{self, Contestant, ContestantKind, Kind, Length, Outcome, Pace, Population, Scale, Table};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "tpcc",
    about: "TPC-C: tpmC, percentiles and efficiency of typed rows beside SQLite and stores of keys and values",
    run,
    child: None,
};

/// New orders per minute and warehouse that keying and think times allow at most (clause 4.1).
const TPM_C_MAX: f64 = 12.86;

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Figures)) -> Result<()> {
    let contestants = contestants(bench)?;
    let options = &bench.options.tpcc;
    let scale = match (bench.options.smoke, options.warehouses) {
        (true, None) => Scale::smoke(),
        (_, warehouses) => Scale::full(warehouses.unwrap_or(2) as i32),
    };
    let population = Population { scale, seed: bench.options.seed };
    let row_bytes = population.bytes()?;
    let percents = if options.cache_percent.is_empty() { vec![None] } else { Vec::new() };
    let percents = percents.into_iter().chain(options.cache_percent.iter().copied().map(Some));
    for percent in percents {
        for durability in &bench.options.durability {
            let cache_bytes = match percent {
                Some(percent) => row_bytes * u64::from(percent) / 100,
                None => CACHE_BYTES.max(2 * row_bytes),
            };
            let setup = Setup { durability: *durability, cache_bytes, in_memory: percent.is_none() };
            let size = Size { bench, population: &population, setup, percent };
            let mut contestants = contestants.clone();
            contestants.retain(|kind| percent.is_some() || !kind.only_files);
            let figures = size.measure(&contestants)?;
            show(size.rates(&contestants, &figures));
            show(size.times(&contestants, &figures));
        }
    }
    Ok(())
}

/// The contestants asked for.
fn contestants(bench: &Bench<'_>) -> Result<Vec<ContestantKind>> {
    let mut kinds = tpcc::contestants();
    let asked = &bench.options.stores;
    if let Some(unknown) = asked.iter().find(|name| kinds.iter().all(|kind| kind.name != **name)) {
        let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        return Err(format!("no store `{unknown}` for this workload, which has {}", known.join(", ")).into());
    }
    kinds.retain(|kind| asked.is_empty() || asked.iter().any(|name| name == kind.name));
    Ok(kinds)
}

/// What one contestant did, in one turn.
struct TurnResult {
    load_s: f64,
    index_s: f64,
    outcome: Outcome,
}

/// A contestant and a number of threads.
type Line = (usize, usize);

/// All that is measured with one budget of memory and one durability.
struct Size<'a> {
    bench: &'a Bench<'a>,
    population: &'a Population,
    setup: Setup,
    percent: Option<u32>,
}

impl Size<'_> {
    fn pace(&self) -> Pace {
        let options = self.bench.options;
        match (options.tpcc.think_time, options.smoke) {
            (true, true) => Pace::Thinking { terminals: 10, ramp_s: 0.2, seconds: options.seconds },
            (true, false) => {
                let ramp_s = (options.seconds / 3.0).min(30.0);
                Pace::Thinking { terminals: 10, ramp_s, seconds: options.seconds }
            }
            (false, true) => Pace::FlatOut(Length::Transactions(1_000)),
            (false, false) => Pace::FlatOut(Length::Seconds(options.seconds)),
        }
    }

    fn measure(&self, contestants: &[ContestantKind]) -> Result<BTreeMap<Line, Vec<TurnResult>>> {
        let bench = self.bench;
        let mut figures: BTreeMap<Line, Vec<TurnResult>> = BTreeMap::new();
        for turn in 0..bench.options.repeat.max(1) {
            for threads in bench.options.thread_counts(&[1, 2]) {
                for number in 0..contestants.len() {
                    let contestant = (number + turn) % contestants.len();
                    let kind = &contestants[contestant];
                    let name = kind.name;
                    bench.progress(format_args!("{name}, {threads} threads, turn {}", turn + 1));
                    let done = self.turn(kind, threads).map_err(|error| format!("{name}: {error}"))?;
                    figures.entry((contestant, threads)).or_default().push(done);
                }
            }
        }
        agree(contestants, &figures)?;
        Ok(figures)
    }

    fn turn(&self, kind: &ContestantKind, threads: usize) -> Result<TurnResult> {
        let dir = self.bench.place.fresh()?;
        let Population { scale, seed } = *self.population;
        let mut open = (kind.open)(dir.path(), self.setup)?;
        let watch = Stopwatch::start();
        for table in Table::ALL {
            open.load(table, &mut |take| self.population.rows_of(table, take))?;
        }
        let load_s = watch.stop().wall_s;
        let watch = Stopwatch::start();
        open.build_indexes()?;
        let index_s = watch.stop().wall_s;
        if !self.setup.in_memory {
            // It begins with cold caches.
            open.settle()?;
            drop(open);
            open = (kind.open)(dir.path(), self.setup)?;
        }
        let outcome = tpcc::run(&*open, scale, seed, threads, self.pace())?;
        if let Some(error) = &outcome.first_error {
            eprintln!("{}: {error}", kind.name);
        }
        self.check(&*open, scale)?;
        Ok(TurnResult { load_s, index_s, outcome })
    }

    fn check(&self, open: &dyn Contestant, scale: Scale) -> Result<()> {
        self.bench.progress(format_args!("checking"));
        tpcc::check(open, scale)
    }

    fn title(&self, what: &str) -> String {
        let memory = match self.percent {
            Some(percent) => {
                format!("caches of {percent} % of the rows ({})", Cell::Bytes(self.setup.cache_bytes as f64))
            }
            None => "in memory".to_owned(),
        };
        let pace = if self.bench.options.tpcc.think_time { "with think time" } else { "without think time" };
        let sync = if self.setup.durability == crate::store::Durability::Sync { ", synced" } else { "" };
        format!("TPC-C, {what}: {} warehouses, {memory}, {pace}{sync}", self.population.scale.warehouses)
    }

    fn efficiency(&self, tpm_c: f64) -> Option<f64> {
        let most = TPM_C_MAX * f64::from(self.population.scale.warehouses);
        self.bench.options.tpcc.think_time.then(|| 100.0 * tpm_c / most)
    }

    fn rates(&self, contestants: &[ContestantKind], figures: &BTreeMap<Line, Vec<TurnResult>>) -> Figures {
        let columns = [
            "store",
            "threads",
            "load",
            "indexes",
            "tpmC",
            "transactions/s",
            "CPU each",
            "committed",
            "rolled back",
            "failed",
            "retries",
        ];
        let mut table = Figures::new(self.title("rates"), &columns).with_bars("tpmC", 0);
        let mut report = String::new();
        for ((contestant, threads), turns) in figures {
            let kind = &contestants[*contestant];
            let of = |figure: fn(&TurnResult) -> f64| median(turns.iter().map(figure).collect());
            let sum = |figure: fn(&tpcc::OfKind) -> u64| -> u64 {
                turns.iter().flat_map(|turn| Kind::ALL.map(|kind| figure(turn.outcome.of(kind)))).sum()
            };
            table.push(vec![
                Cell::text(kind.name),
                Cell::Count(*threads as u64),
                Cell::seconds(of(|turn| turn.load_s)),
                Cell::seconds(of(|turn| turn.index_s)),
                Cell::PerSecond(of(|turn| turn.outcome.tpm_c())),
                Cell::PerSecond(of(|turn| turn.outcome.done() as f64 / turn.outcome.spent.wall_s)),
                Cell::seconds(of(|turn| turn.outcome.spent.cpu_s / turn.outcome.done().max(1) as f64)),
                Cell::Count(sum(|kind| kind.committed)),
                Cell::Count(sum(|kind| kind.rolled_back)),
                Cell::Count(sum(|kind| kind.failed)),
                Cell::Count(turns.iter().map(|turn| turn.outcome.retries).sum()),
            ]);
            report.push_str(&self.report(kind.name, *threads, turns));
        }
        table.note(
            "tpmC: committed New-Order transactions per minute. CPU: all threads of the process, background work and the drawing of \
             requests included. Committed, rolled back (as asked, one New-Order of a hundred), failed: all turns together. Consistency \
             conditions 1 to 12 held after each run. No store's use of the operating system's cache is limited.",
        );
        for kind in contestants {
            let cache = if kind.has_cache { "" } else { " (its cache has no size)" };
            table.note(format!("{}: {}{cache}", kind.name, kind.settings));
        }
        table.note(format!("All turns together, in the form of reports of other systems:\n\n```\n{report}```"));
        table
    }

    /// What other systems' drivers print.
    fn report(&self, name: &str, threads: usize, turns: &[TurnResult]) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let of = |kind, figure: fn(&tpcc::OfKind) -> u64| -> u64 {
            turns.iter().map(|turn| figure(turn.outcome.of(kind))).sum()
        };
        let seconds: f64 = turns.iter().map(|turn| turn.outcome.spent.wall_s).sum();
        let tpm_c = of(Kind::NewOrder, |kind| kind.committed) as f64 * 60.0 / seconds;
        let _ = writeln!(text, "{name}, threads {threads}\nTime: {seconds:.0} seconds");
        let _ = writeln!(text, "Warehouses: {}", self.population.scale.warehouses);
        let _ = writeln!(text, "New orders: {}", of(Kind::NewOrder, |kind| kind.committed));
        let _ = writeln!(text, "tpmC: {tpm_c:.0}");
        if let Some(efficiency) = self.efficiency(tpm_c) {
            let _ = writeln!(text, "Efficiency: {efficiency:.2}");
        }
        for kind in Kind::ALL {
            let (ok, failed) = (of(kind, |kind| kind.committed), of(kind, |kind| kind.failed));
            let percent = 100.0 * failed as f64 / (ok + failed).max(1) as f64;
            let _ = writeln!(text, "{}: OK: {ok}, FAILED: {failed} ({percent:.2}%)", kind.name());
        }
        text.push('\n');
        text
    }

    fn times(&self, contestants: &[ContestantKind], figures: &BTreeMap<Line, Vec<TurnResult>>) -> Figures {
        let columns = ["transaction", "store", "threads", "count", "50 %", "90 %", "95 %", "99 %", "99.9 %", "max"];
        let mut table = Figures::new(self.title("latencies"), &columns);
        for of_kind in Kind::ALL {
            for ((contestant, threads), turns) in figures {
                let mut all = Latencies::new();
                for turn in turns {
                    turn.outcome.of(of_kind).latencies.iter().for_each(|latencies| all.add(latencies));
                }
                table.push(vec![
                    Cell::text(of_kind.name()),
                    Cell::text(contestants[*contestant].name),
                    Cell::Count(*threads as u64),
                    Cell::Count(all.count()),
                    all.median(),
                    all.at(0.9),
                    all.at(0.95),
                    all.p99(),
                    all.p999(),
                    all.longest(),
                ]);
            }
        }
        table.note(
            "Of transactions that did not fail, all turns together; with think time, from when the request was typed.",
        );
        table
    }
}

/// Fails if contestants that one thread asked the same have answered differently.
fn agree(contestants: &[ContestantKind], figures: &BTreeMap<Line, Vec<TurnResult>>) -> Result<()> {
    let mut first: Option<(u64, &str)> = None;
    for ((contestant, _), turns) in figures {
        for digest in turns.iter().filter_map(|turn| turn.outcome.digest) {
            let name = contestants[*contestant].name;
            let (expected, other) = *first.get_or_insert((digest, name));
            if digest != expected {
                return Err(format!("{name} has answered differently from {other}").into());
            }
        }
    }
    Ok(())
}
