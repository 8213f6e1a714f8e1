//! Memory of tables much larger than it: resident bytes while they are read at random, and the time to open them, by
//! their size and by how many runs they have.
//!
//! Made for the purpose: of each megabyte nine tenths are long values of zeros, which are holes in the files
//! (`sparse`), and the rest small rows of noise, so that there are indexes and filters to be kept out of memory. One
//! process writes, another opens and reads.

use std::path::Path;
use std::sync::Arc;

use quipu::histogram::Resolution;
use quipu::{Db, Durability, Options, ReadableTable, WritableTable};
use serde_json::{Value, json};

use crate::clock::{Deadline, Stopwatch, median, nanos_of};
use crate::machine::{Resident, disk_bytes};
use crate::report::{Cell, Table};
use crate::rows::{Draw, mix64};
use crate::sparse::SparseDisk;
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "memory-disk",
    about: "resident bytes and opening of tables of 1, 10, ... GB on disk, by their number of runs",
    run,
    child: Some(child),
};

/// What all memtables and what all caches may take.
const MEMTABLE_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 64 << 20;
/// Of rows that become a run.
const RUN_BYTES: u64 = 24 << 20;
const SMALL_BYTES: u64 = 100;
const LONG_BYTES: u64 = 90_000;
/// Small rows for each long one.
const SMALL_ROWS: u64 = 100;
/// Rows of the scan at the end: enough for what it asks for at a time to have stopped growing.
const LONG_SCAN_ROWS: u64 = 50_000;
const GROUP_BYTES: u64 = LONG_BYTES + SMALL_ROWS * SMALL_BYTES;

/// How a table is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NeverMerged,
    /// As the threads in the background have done it by then.
    Merging,
    OneRun,
}

impl State {
    const ALL: [State; 3] = [State::NeverMerged, State::Merging, State::OneRun];

    fn name(self) -> &'static str {
        match self {
            State::NeverMerged => "never merged",
            State::Merging => "merged meanwhile",
            State::OneRun => "one run",
        }
    }
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let usual = if bench.options.smoke { 8_000_000 } else { 1_000_000_000 };
    let sizes = if bench.options.data_bytes.is_empty() { &[usual][..] } else { &bench.options.data_bytes[..] };
    let columns = [
        "data",
        "table",
        "runs",
        "rows",
        "on disk",
        "written",
        "opening",
        "memory, opened",
        "memory, reading",
        "beyond the cache",
        "questions",
    ];
    let title = format!("Memory of tables on disk, a cache of {}", Cell::Bytes(CACHE_BYTES as f64));
    let mut table = Table::new(title, &columns);
    for &data_bytes in sizes {
        for state in State::ALL.into_iter().filter(|state| bench.options.wants(state.name())) {
            let dir = bench.place.fresh()?;
            let dir_name = dir.path().to_str().ok_or("the name of the directory is not UTF-8")?;
            let groups = data_bytes.div_ceil(GROUP_BYTES);
            let child = |part: &str, number: String| -> Result<Value> {
                bench.progress(format_args!("{data_bytes} bytes, {}, {part}", state.name()));
                let arguments = [WORKLOAD.name, part, dir_name, &groups.to_string(), &number].map(str::to_owned);
                let text = bench.program.child(&[], &arguments)?;
                let line = text.lines().find(|line| line.starts_with('{')).ok_or("the child told nothing")?;
                Ok(serde_json::from_str(line)?)
            };
            let written = child("write", state.name().to_owned())?;
            let seconds = if bench.options.smoke { 0.1 } else { bench.options.seconds };
            let turns = (0..bench.options.repeat.max(1)).map(|_| child("read", seconds.to_string()));
            let read: Vec<Value> = turns.collect::<Result<_>>()?;
            let of = |name: &str| median(read.iter().filter_map(|read| read[name].as_f64()).collect());
            table.push(vec![
                Cell::Bytes(data_bytes as f64),
                Cell::text(state.name()),
                Cell::Count(of("runs") as u64),
                Cell::Count(groups * (SMALL_ROWS + 1)),
                Cell::Bytes(written["bytes"].as_f64().unwrap_or(0.0)),
                Cell::seconds(written["seconds"].as_f64().unwrap_or(0.0)),
                Cell::Nanos(of("open_ns")),
                Cell::Bytes(of("opened")),
                Cell::Bytes(of("peak")),
                Cell::Bytes((of("peak") - CACHE_BYTES as f64).max(0.0)),
                Cell::Count(of("questions") as u64),
            ]);
        }
    }
    table.note(format!(
        "Memory: resident bytes of the process's own, less those before the database was opened; reading: the most that was seen while rows were got (small and long), counted, numbered and \
         scanned at random by one thread, which then scans the first {LONG_SCAN_ROWS}. {SMALL_ROWS} rows of {SMALL_BYTES} bytes for each of {LONG_BYTES}, of zeros, which are holes in the files; their lengths are what is on disk. Opening: to the first answer, in a new process; the system may have the files in memory."
    ));
    show(table);
    Ok(())
}

fn child(bench: &Bench<'_>, arguments: &[String]) -> Result<()> {
    let [part, dir, groups, number] = arguments else { return Err("a child needs four arguments".into()) };
    let (dir, groups) = (Path::new(dir), groups.parse()?);
    let told = match part.as_str() {
        "write" => {
            let state = State::ALL.into_iter().find(|state| state.name() == number).ok_or("no such state")?;
            write(dir, groups, state)?
        }
        _ => read(dir, groups, number.parse()?, bench.options.seed)?,
    };
    println!("{told}");
    Ok(())
}

/// No thread merges runs.
fn options() -> Options {
    Options {
        durability: Durability::None,
        background: false,
        memtable_bytes: MEMTABLE_BYTES,
        cache_bytes: CACHE_BYTES,
        disk: Arc::new(SparseDisk),
        ..Options::default()
    }
}

/// The key of row `number`, which has a long value if it is a multiple of [`SMALL_ROWS`] + 1.
fn key_of(number: u64) -> [u8; 8] {
    mix64(number).to_be_bytes()
}

fn write(dir: &Path, groups: u64, state: State) -> Result<Value> {
    let watch = Stopwatch::start();
    let db = Db::open(dir, Options { background: state != State::NeverMerged, ..options() })?;
    let table = db.ensure_table("t")?;
    let mut draw = Draw::new(1);
    let zeros = vec![0; LONG_BYTES as usize];
    let noise: Vec<u8> = (0..1 << 20).map(|_| draw.below(256) as u8).collect();
    let mut in_memory = 0;
    for number in 0..groups * (SMALL_ROWS + 1) {
        let start = draw.below(noise.len() as u64 - SMALL_BYTES) as usize;
        let small = &noise[start..start + SMALL_BYTES as usize];
        let value = if number.is_multiple_of(SMALL_ROWS + 1) { &zeros } else { small };
        table.insert(key_of(number), value)?;
        in_memory += value.len() as u64;
        if in_memory > RUN_BYTES {
            table.flush()?;
            in_memory = 0;
        }
    }
    table.flush()?;
    if state == State::OneRun {
        table.compact()?;
    }
    drop(table);
    db.close()?;
    Ok(json!({ "seconds": watch.stop().wall_s, "bytes": disk_bytes(dir)? }))
}

fn read(dir: &Path, groups: u64, seconds: f64, seed: u64) -> Result<Value> {
    let before = Resident::now();
    let rows = groups * (SMALL_ROWS + 1);
    let (opened, open_nanos) = nanos_of(|| -> Result<_> {
        let db = Db::open(dir, options())?;
        let table = db.ensure_table("t")?;
        let value = table.get(key_of(rows / 2))?;
        Ok((db, table, value))
    });
    let (db, table, value) = opened?;
    if value.is_none() || table.len()? != rows {
        return Err(format!("{} rows instead of {rows}", table.len()?).into());
    }
    let opened = Resident::now();
    let (mut peak, mut questions) = (opened, 0_u64);
    let (mut draw, deadline) = (Draw::new(seed), Deadline::after(seconds));
    while !deadline.passed() {
        let number = draw.below(rows);
        // One in eight is a long value.
        let number = if questions.is_multiple_of(8) { number - number % (SMALL_ROWS + 1) } else { number };
        table.get(key_of(number))?.ok_or("a row is not there")?;
        match questions % 64 {
            0 => drop(table.nth(.., number)?),
            16 => drop(table.count(key_of(number).as_slice()..)?),
            32 => {
                let mut left = 100;
                table.for_each(key_of(number).as_slice().., |_, _| {
                    left -= 1;
                    left > 0
                })?;
            }
            48 => peak = peak.max(Resident::now()),
            _ => {}
        }
        questions += 1;
    }
    let mut passed = 0;
    table.for_each(.., |_, _| {
        passed += 1;
        if passed % 256 == 0 {
            peak = peak.max(Resident::now());
        }
        passed < LONG_SCAN_ROWS
    })?;
    table.histogram(.., Resolution::of_rows(rows / 100 + 1))?;
    peak = peak.max(Resident::now());
    Ok(json!({
        "open_ns": open_nanos,
        "opened": opened.own_bytes.saturating_sub(before.own_bytes),
        "peak": peak.own_bytes.saturating_sub(before.own_bytes),
        "questions": questions,
        "runs": db.stats().tables.iter().map(|table| table.runs).sum::<usize>(),
    }))
}
