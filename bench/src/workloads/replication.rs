//! Entities of a cluster of three processes on this machine, written and read with `ack`/`from` of 1/1, 2/3 and 3/3, as
//! in the report that this face is modelled on (values of about 36 bytes, no wait for the disk); Redis and etcd beside,
//! three processes each.
//!
//! First a closed loop: a request under way on each of 64 connections, spread over the nodes that are asked. Then an
//! open one at a fixed rate: that of the report, or half of the closed loop's where this machine cannot hold it. Peers
//! get the rate of Quipu's 2/3, unless it is more than half of their closed loop's. Last, if it is asked for, the
//! highest rate at which the 99th percentile stays below 10 ms, in short turns.
//!
//! All clusters run all the time and take turns. Clients and nodes share the processors of this machine; the report's
//! server had ten.

use std::path::Path;

use crate::replication::{Brand, Curve, Found, Lane, Operation, Promise, Question, Trio, draw};
use crate::report::{Cell, Table};
use crate::rows::Draw;
use crate::store::{Durability, Result};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "replication",
    about: "GET and PUT of entities in a cluster of three processes, at a fixed rate; Redis and etcd beside",
    run,
    child: None,
};

const CONNECTIONS: usize = 64;
/// Its place among the colours of plots, after those of the servers.
const REPORT_COLOUR: usize = Brand::ALL.len();

/// What the report measured: its rate, and p50, p99, p99.9 and the longest in milliseconds.
struct Reported {
    question: Question,
    rate: f64,
    ms: [f64; 4],
}

const fn reported(operation: Operation, ack: u8, from: u8, rate: f64, ms: [f64; 4]) -> Reported {
    Reported { question: Question { operation, promise: Promise::Quorum { ack, from } }, rate, ms }
}

const REPORT: [Reported; 6] = [
    reported(Operation::Put, 1, 1, 50e3, [1.71, 4.47, 5.98, 7.83]),
    reported(Operation::Put, 2, 3, 27e3, [1.65, 7.08, 11.71, 19.77]),
    reported(Operation::Put, 3, 3, 27e3, [2.15, 6.47, 8.37, 9.97]),
    reported(Operation::Get, 1, 1, 50e3, [1.56, 3.56, 3.96, 4.50]),
    reported(Operation::Get, 2, 3, 27e3, [1.84, 7.62, 10.91, 12.94]),
    reported(Operation::Get, 3, 3, 27e3, [1.97, 5.05, 6.93, 8.15]),
];
/// The rate of peers, of which the report has none.
const PEERS_RATE: f64 = 27e3;

impl Reported {
    fn of(question: Question) -> Option<&'static Reported> {
        REPORT.iter().find(|reported| reported.question == question)
    }
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let names = Brand::ALL.map(Brand::name);
    let asked_by_name = bench.options.workload.as_deref() == Some(WORKLOAD.name);
    let unknown = bench.options.stores.iter().find(|name| !names.contains(&name.as_str()));
    if let Some(unknown) = unknown.filter(|_| asked_by_name) {
        return Err(format!("no server `{unknown}`; there are {}", names.join(", ")).into());
    }
    let found = Found::all(bench.options);
    if found.iter().all(|found| found.program.is_err()) {
        let mut table = Table::new("Replication", &["why there are no figures"]);
        found.iter().for_each(|found| table.push(vec![Cell::text(found.note())]));
        show(table);
        return Ok(());
    }
    for durability in &bench.options.durability {
        for entities in bench.options.row_counts(&[100_000], 200) {
            measure(bench, &found, *durability, entities, show)?;
        }
    }
    Ok(())
}

/// The clusters, and what they are asked.
struct Course<'a> {
    bench: &'a Bench<'a>,
    entities: u64,
    trios: Vec<Trio>,
    lanes: Vec<Lane>,
}

fn measure(
    bench: &Bench<'_>,
    found: &[Found],
    durability: Durability,
    entities: u64,
    show: &mut dyn FnMut(Table),
) -> Result<()> {
    let connections = if bench.options.smoke { 6 } else { CONNECTIONS };
    let name = format!("{durability:?}").to_lowercase();
    let setting = format!("three nodes, {name}, {connections} connections, {} entities", Cell::Count(entities));
    let mut course = Course::start(bench, found, durability, entities, connections)?;
    let turns = bench.options.repeat.max(1);
    let seconds = if bench.options.smoke { bench.options.seconds.min(0.2) } else { bench.options.seconds };
    let turn_seconds = seconds / turns as f64;
    for turn in 0..turns {
        course
            .each("closed loop", turn, |lane, trio, draw| lane.closed_loop(trio, turn_seconds / 3.0, draw, entities))?;
    }
    course.choose_rates();
    for turn in 0..turns {
        course.each("open loop", turn, |lane, trio, draw| lane.open_loop(trio, turn_seconds, draw, entities))?;
    }
    let mut table = course.percentiles(&format!("Replication, {setting}"));
    found.iter().for_each(|found| table.note(found.note()));
    show(table);
    if let Some(directory) = &bench.options.replication.plots {
        show(course.plots(directory, &name, &setting)?);
    }
    if bench.options.replication.highest {
        course.lanes.iter_mut().for_each(Lane::begin_search);
        let mut turn = 0;
        while course.lanes.iter().any(|lane| lane.search.next().is_some()) {
            course.each("highest rate", turn, |lane, trio, draw| lane.search(trio, seconds / 3.0, draw, entities))?;
            turn += 1;
        }
        let title = format!("Highest rate held with p99 < 10 ms, {setting}");
        show(course.highest(&title, seconds / 3.0));
    }
    Ok(())
}

impl<'a> Course<'a> {
    /// Starts what is installed and writes all entities once.
    fn start(
        bench: &'a Bench<'a>,
        found: &[Found],
        durability: Durability,
        entities: u64,
        connections: usize,
    ) -> Result<Self> {
        let mut course = Course { bench, entities, trios: Vec::new(), lanes: Vec::new() };
        for found in found.iter().filter(|found| found.program.is_ok()) {
            bench.progress(format_args!("{}: starting, {} entities", found.brand.name(), course.entities));
            let mut trio = Trio::start(bench, found, durability, connections)?;
            // 2/3 and 3/3 share their keys.
            for promise in found.brand.promises().iter().take(2) {
                trio.fill(*promise, entities)?;
            }
            trio.settle();
            course.trios.push(trio);
        }
        for operation in Operation::ALL {
            for (number, trio) in course.trios.iter().enumerate() {
                let questions = trio.brand.promises().iter().map(|promise| Question { operation, promise: *promise });
                let wanted = questions.filter(|question| bench.options.wants(&question.name()));
                course.lanes.extend(wanted.map(|question| Lane::new(question, number)));
            }
        }
        Ok(course)
    }

    /// A turn of each lane.
    fn each(&mut self, what: &str, turn: usize, work: impl Fn(&mut Lane, &mut Trio, Draw) -> Result<()>) -> Result<()> {
        for lane in &mut self.lanes {
            self.bench.progress(format_args!("{}, {what}, turn {}", lane.question.name(), turn + 1));
            work(lane, &mut self.trios[lane.trio], Draw::new(self.bench.options.seed + turn as u64))?;
        }
        Ok(())
    }

    fn choose_rates(&mut self) {
        for lane in &mut self.lanes {
            let usual = Reported::of(lane.question).map_or(PEERS_RATE, |reported| reported.rate);
            lane.rate = usual.min(lane.closed_rate() / 2.0);
        }
        for operation in Operation::ALL {
            let quorum = Question { operation, promise: Promise::Quorum { ack: 2, from: 3 } };
            let Some(rate) = self.lanes.iter().find(|lane| lane.question == quorum).map(|lane| lane.rate) else {
                continue;
            };
            let peers = self.lanes.iter_mut().filter(|lane| lane.question.operation == operation);
            peers.filter(|lane| Reported::of(lane.question).is_none()).for_each(|lane| lane.rate = lane.rate.min(rate));
        }
    }

    fn percentiles(&self, title: &str) -> Table {
        let columns = [
            "request",
            "server",
            "closed loop",
            "rate",
            "answered/s",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "failed",
            "CPU of nodes a request",
            "CPU of client a request",
            "report's rate",
            "report's p50",
            "report's p99",
            "report's p99.9",
            "report's longest",
        ];
        let mut table = Table::new(title, &columns);
        for lane in &self.lanes {
            let mut row = vec![
                Cell::text(lane.question.operation.name()),
                Cell::text(lane.question.promise.name()),
                Cell::PerSecond(lane.closed_rate()),
                Cell::PerSecond(lane.rate),
                Cell::PerSecond(lane.served.rate()),
                lane.served.latencies.median(),
                lane.served.latencies.p99(),
                lane.served.latencies.p999(),
                lane.served.latencies.longest(),
                Cell::Count(lane.failed()),
            ];
            row.extend(lane.served.cpu_cells());
            match Reported::of(lane.question) {
                Some(reported) => {
                    row.push(Cell::PerSecond(reported.rate));
                    row.extend(reported.ms.map(|ms| Cell::Nanos(ms * 1e6)));
                }
                None => row.extend([const { Cell::Missing }; 5]),
            }
            table.push(row);
        }
        table.note(
            "Latencies are counted from when a request was due. The report's are of ten processors, with the same \
             correction.",
        );
        table
    }

    /// Draws Quipu under each promise, all peers beside, and what the report has.
    fn plots(&self, directory: &Path, durability: &str, setting: &str) -> Result<Table> {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        let mut table = Table::new("Plots of latencies by percentile", &["of", "file"]);
        for promise in Brand::Quipu.promises() {
            if !self.lanes.iter().any(|lane| lane.question.promise == *promise) {
                continue;
            }
            let is_peer = |lane: &Lane| self.trios[lane.trio].brand != Brand::Quipu;
            let lanes = self.lanes.iter().filter(|lane| lane.question.promise == *promise || is_peer(lane));
            let mut curves: Vec<Curve> = lanes.map(|lane| self.curve(lane)).collect();
            for reported in REPORT.iter().filter(|reported| reported.question.promise == *promise) {
                let operation = reported.question.operation;
                let name = curve_name(operation, "the report, ten processors", reported.rate);
                let [p50, p99, p999, _] = reported.ms;
                curves.push(Curve::through(name, REPORT_COLOUR, operation, [p50, p99, p999]));
            }
            let name = promise.name();
            let file = format!("replication-{durability}-{}-{}.svg", self.entities, name.replace([' ', '/'], "-"));
            let path = directory.join(file);
            draw(&path, &format!("{name}: {setting}"), &curves)?;
            table.push(vec![Cell::text(name), Cell::text(path.display().to_string())]);
        }
        Ok(table)
    }

    fn curve(&self, lane: &Lane) -> Curve {
        let Question { operation, promise } = lane.question;
        let name = curve_name(operation, &promise.name(), lane.rate);
        Curve::of(name, self.trios[lane.trio].brand as usize, operation, &lane.served.latencies)
    }

    fn highest(&self, title: &str, turn_seconds: f64) -> Table {
        let columns = [
            "request",
            "server",
            "highest rate",
            "p50",
            "p99",
            "CPU of nodes a request",
            "CPU of client a request",
            "closed loop",
        ];
        let mut table = Table::new(title, &columns).with_bars("highest rate", 1);
        for lane in &self.lanes {
            let mut row = vec![
                Cell::text(lane.question.operation.name()),
                Cell::text(lane.question.promise.name()),
                lane.search.held_per_s().map_or(Cell::Missing, Cell::PerSecond),
            ];
            match &lane.best {
                Some(best) => {
                    row.extend([best.latencies.median(), best.latencies.p99()]);
                    row.extend(best.cpu_cells());
                }
                None => row.extend([const { Cell::Missing }; 4]),
            }
            row.push(Cell::PerSecond(lane.closed_rate()));
            table.push(row);
        }
        table.note(format!(
            "Turns of {turn_seconds:.1} s; a rate is not held if two turns in a row have a longer 99th percentile or a \
             failure. Doubled, then bisected to 8 %."
        ));
        table
    }
}

fn curve_name(operation: Operation, of: &str, rate: f64) -> String {
    format!("{} {of}, {}/s", operation.name(), Cell::PerSecond(rate))
}
