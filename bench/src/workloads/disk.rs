//! Tables larger than memory, beside the peers: 8-byte random keys and 100-byte random values, caches of one size.
//!
//! Each store is loaded by one process and asked by another, stores taking turns. What is asked, and what is checked,
//! stands in `disk/`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::median;
use crate::disk::{Job, KEY_BYTES, MOMENTS, VALUE_BYTES};
use crate::report::{Cell, Table};
use crate::store::{Result, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "disk",
    about: "tables larger than memory: load, space, writing, memory, opening, gets, scans, positions, overwriting",
    run,
    child: Some(Job::do_part),
};

/// What the processes of one store told, turn by turn.
#[derive(Default)]
struct Told {
    loads: Vec<Value>,
    asks: Vec<Value>,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for rows in bench.options.row_counts(&[1_000_000], 20_000) {
        for &cache_bytes in &bench.options.ycsb.cache_bytes {
            let size = Size { bench, rows, cache_bytes };
            let told = size.measure()?;
            show(size.storage(&told));
            show(size.questions(&told));
        }
    }
    Ok(())
}

/// All that is measured at one number of rows and one size of caches.
struct Size<'a> {
    bench: &'a Bench<'a>,
    rows: u64,
    cache_bytes: u64,
}

impl Size<'_> {
    fn stores(&self) -> Vec<&StoreKind> {
        let fits = |kind: &&StoreKind| kind.durable && kind.holds(KEY_BYTES, VALUE_BYTES);
        self.bench.stores.iter().filter(fits).collect()
    }

    fn measure(&self) -> Result<Vec<Told>> {
        let stores = self.stores();
        let mut told: Vec<Told> = stores.iter().map(|_| Told::default()).collect();
        for turn in 0..self.bench.options.repeat.max(1) {
            let mut expected = BTreeMap::new();
            for number in 0..stores.len() {
                let number = (number + turn) % stores.len();
                let kind = stores[number];
                let dir = self.bench.place.fresh()?;
                let job = Job {
                    dir: dir.path().to_owned(),
                    store: kind.name.to_owned(),
                    seed: self.bench.options.seed + turn as u64,
                    rows: self.rows,
                    cache_bytes: self.cache_bytes,
                    seconds: if self.bench.options.smoke { 0.2 } else { self.bench.options.seconds },
                };
                let part = |part: &str| {
                    self.bench.progress(format_args!("{} rows, {}, {part}, turn {}", self.rows, kind.name, turn + 1));
                    job.in_child(self.bench.program, WORKLOAD.name, part)
                };
                told[number].loads.push(part("load")?);
                let asked = part("ask")?;
                agree(kind.name, &asked, &mut expected)?;
                told[number].asks.push(asked);
            }
        }
        Ok(told)
    }

    fn title(&self, what: &str) -> String {
        format!(
            "{what}: {} rows of {KEY_BYTES} + {VALUE_BYTES} bytes, caches of {}",
            Cell::Count(self.rows),
            Cell::Bytes(self.cache_bytes as f64)
        )
    }

    fn storage(&self, told: &[Told]) -> Table {
        let columns = [
            "store",
            "load",
            "CPU a row",
            "settling",
            "written per byte",
            "by calls",
            "on disk",
            "per byte",
            "memory, loading",
            "memory, reading",
            "mapped",
            "opening",
        ];
        let mut table = Table::new(self.title("Loading in random order"), &columns).with_bars("load", 0);
        let rows = self.rows as f64;
        let data_bytes = rows * (KEY_BYTES + VALUE_BYTES) as f64;
        for (kind, Told { loads, asks }) in self.stores().into_iter().zip(told) {
            let load = |name: &str| median_of(loads, name);
            table.push(vec![
                Cell::text(kind.name),
                Cell::PerSecond(rows / load("load_s")),
                Cell::seconds(load("load_cpu_s") / rows),
                Cell::seconds(load("settle_s") + load("close_s")),
                Cell::Times(load("to_disk") / data_bytes),
                Cell::Times(load("by_calls") / data_bytes),
                Cell::Bytes(load("bytes")),
                Cell::Times(load("bytes") / data_bytes),
                Cell::Bytes(load("own")),
                Cell::Bytes(median_of(asks, "own")),
                Cell::Bytes(median_of(asks, "file")),
                Cell::Nanos(median_of(asks, "open_ns")),
            ]);
        }
        table.note(
            "Transactions of 1000 rows, handed to the operating system, not synced. Settling: what is said below, and closing. Written: until closed, per byte of key and \
             value, as the system counts pages on their way to the disk (`write_bytes` of /proc/self/io: a page is counted when it is changed in the system's cache or \
             through a mapping, and again once it was written back), and as given to calls (`wchar`, which no mapping shows in). Memory: the process's own at its largest, \
             less what it had before the store was opened; mapped files apart. Opening: in a new process, to the first answer. The system's own cache is not limited for any store.",
        );
        for kind in self.stores() {
            table.note(format!("{}. Settling: {}.", kind.settings, kind.settling));
        }
        table
    }

    fn questions(&self, told: &[Told]) -> Table {
        let columns = ["question", "table", "store", "asked", "per second", "CPU each", "median", "99 %"];
        let mut table = Table::new(self.title("Questions"), &columns).with_bars("per second", 2);
        let Some(first) = told.first().and_then(|told| told.asks.first()) else { return table };
        for figure in figures(first) {
            let (question, moment) = (&figure["question"], &figure["moment"]);
            if !self.bench.options.wants(question.as_str().unwrap_or_default()) {
                continue;
            }
            for (kind, Told { asks, .. }) in self.stores().into_iter().zip(told) {
                let same: Vec<Value> = asks
                    .iter()
                    .flat_map(figures)
                    .filter(|figure| figure["question"] == *question && figure["moment"] == *moment)
                    .cloned()
                    .collect();
                if same.is_empty() {
                    continue;
                }
                let star = if same.iter().all(|figure| figure["is_finished"] == true) { "" } else { "*" };
                let has_p99 = same.iter().all(|figure| figure["p99_ns"].is_number());
                table.push(vec![
                    Cell::text(question.as_str().unwrap_or_default()),
                    Cell::text(moment.as_str().unwrap_or_default()),
                    Cell::text(format!("{}{star}", kind.name)),
                    Cell::Count(median_of(&same, "asked") as u64),
                    Cell::PerSecond(median_of(&same, "per_s")),
                    Cell::Nanos(median_of(&same, "cpu_ns")),
                    Cell::Nanos(median_of(&same, "median_ns")),
                    if has_p99 { Cell::Nanos(median_of(&same, "p99_ns")) } else { Cell::Missing },
                ]);
            }
        }
        table.note(format!(
            "One thread, one call after the other, the clock's cost of 25-40 ns in each; CPU: of the whole process, making keys and background work included; of several turns the median of each column. {}: as settling left it; {}: a tenth of the \
             rows have new values since, each a commit, and nothing was waited for. `*`: stopped at the time limit. Stores without counts answer positions by scanning. Gets of many keys a call, with rates and CPU of a key: only of \
             stores that have such a call.",
            MOMENTS[0], MOMENTS[1]
        ));
        table
    }
}

fn figures(asked: &Value) -> impl Iterator<Item = &Value> {
    asked["figures"].as_array().into_iter().flatten()
}

fn median_of(told: &[Value], name: &str) -> f64 {
    median(told.iter().filter_map(|told| told[name].as_f64()).collect())
}

/// Fails if a store's first answers differ from those of another.
fn agree(name: &str, asked: &Value, expected: &mut BTreeMap<String, (String, Value)>) -> Result<()> {
    for figure in figures(asked) {
        let question = format!("{} {}", figure["question"], figure["moment"]);
        let (first, answers) =
            expected.entry(question.clone()).or_insert_with(|| (name.to_owned(), figure["answers"].clone()));
        if *answers != figure["answers"] {
            let other = &figure["answers"];
            return Err(format!("{question}: {first} answers {answers} and {name} {other}").into());
        }
    }
    Ok(())
}
