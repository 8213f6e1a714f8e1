//! Measures what counting costs a writer: the same tree with and without tallies, and with each further measure.
//!
//! Two ways, because a difference of one percent drowns in a shared machine's noise:
//! - **Instructions**: a child process does the calls under callgrind, once `n` and once `2n` of them; the difference
//!   leaves out start and loading, and is the same on every run.
//! - **Time**: an uncounted and a counted tree take turns batch by batch, so that a busy moment hits both; *paired* is
//!   the median change from a batch to its neighbour.
//!
//! Percentiles are over batches of 1000 calls, divided by 1000, as in the table this one is modelled on (that of
//! Tarantool's logarithmic offset tree).

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use quipu::bench::BareTree;
use quipu::{Db, Durability, Measures, Options, SumField, TableOptions, WritableTable};

use crate::clock::nanos_of;
use crate::paired::{AVERAGE, Change, STATISTICS, Turn, percent};
use crate::report::{Cell, Table};
use crate::rows::Rows;
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "offset-cost",
    about: "what counting costs insert, get, replace and remove, in instructions and in time",
    run,
    child: Some(child),
};

/// What a tree measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tallies {
    Uncounted,
    Rows,
    RowsBytes,
    RowsHash,
    RowsSum,
    All,
}

impl Tallies {
    const ALL: [Tallies; 6] =
        [Tallies::Uncounted, Tallies::Rows, Tallies::RowsBytes, Tallies::RowsHash, Tallies::RowsSum, Tallies::All];

    /// Those that count.
    const COUNTED: [Tallies; 5] =
        [Tallies::Rows, Tallies::RowsBytes, Tallies::RowsHash, Tallies::RowsSum, Tallies::All];

    fn name(self) -> &'static str {
        match self {
            Tallies::Uncounted => "uncounted",
            Tallies::Rows => "rows",
            Tallies::RowsBytes => "rows, bytes",
            Tallies::RowsHash => "rows, hash",
            Tallies::RowsSum => "rows, sum",
            Tallies::All => "rows, bytes, hash, sum",
        }
    }

    fn named(name: &str) -> Result<Self> {
        Tallies::ALL
            .into_iter()
            .find(|tallies| tallies.name() == name)
            .ok_or_else(|| format!("no tallies `{name}`").into())
    }

    /// `None`: the tree does not even count rows.
    fn measures(self) -> Option<Measures> {
        let sum = SumField::LittleEndian { at: 0 };
        let measures = Measures::default();
        match self {
            Tallies::Uncounted => None,
            Tallies::Rows => Some(measures),
            Tallies::RowsBytes => Some(Measures { bytes: true, ..measures }),
            Tallies::RowsHash => Some(Measures { hash: true, ..measures }),
            Tallies::RowsSum => Some(Measures { sum: Some(sum), ..measures }),
            Tallies::All => Some(Measures { bytes: true, hash: true, sum: Some(sum), ..Measures::ROWS }),
        }
    }
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    /// Only the making of a row, which is taken off the others' instructions.
    Nothing,
    Insert,
    Get,
    Replace,
    Remove,
    /// An insert through the whole engine, committed to the operating system.
    PendingCommit,
}

impl Call {
    /// Those of the bare tree, in the order in which they can follow one another.
    const BARE: [Call; 4] = [Call::Insert, Call::Get, Call::Replace, Call::Remove];

    fn name(self) -> &'static str {
        match self {
            Call::Nothing => "nothing",
            Call::Insert => "insert",
            Call::Get => "get",
            Call::Replace => "replace",
            Call::Remove => "remove",
            Call::PendingCommit => "committed insert",
        }
    }

    fn named(name: &str) -> Result<Self> {
        let all = Call::BARE.into_iter().chain([Call::Nothing, Call::PendingCommit]);
        all.into_iter().find(|call| call.name() == name).ok_or_else(|| format!("no call `{name}`").into())
    }

    /// Calls the bare tree for rows `first` to `first + count` of `rows`, in their random order.
    fn run(self, tree: &mut BareTree, rows: &Rows, first: u64, count: u64) -> Result<()> {
        let mut cursor = rows.part(first, count).cursor();
        // A value like the row's own, but another.
        let mut other = vec![0x5a; rows.value_bytes()];
        let mut done = 0;
        while let Some((key, value)) = cursor.advance() {
            match self {
                Call::Nothing => done += u64::from(std::hint::black_box((key, value)).0.len() == rows.key_bytes()),
                Call::Insert | Call::PendingCommit => done += u64::from(tree.insert(key, value)?),
                Call::Get => done += u64::from(tree.get(key).is_some_and(|value| value.len() == rows.value_bytes())),
                Call::Replace => {
                    other[0] = value[0];
                    done += u64::from(tree.replace(key, &other)?);
                }
                Call::Remove => done += u64::from(tree.remove(key)?),
            }
        }
        if done == count { Ok(()) } else { Err(format!("{} did {done} of {count}", self.name()).into()) }
    }
}

/// Calls in one timed batch.
const BATCH: u64 = 1000;

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    let instructions = count_instructions(bench)?;
    for count in bench.options.row_counts(&[1_000_000], 2_000) {
        let times = measure_times(bench, count)?;
        show(old_and_new(count, &times, instructions.as_ref()));
        show(further_measures(count, &times, instructions.as_ref()));
    }
    if let Some(instructions) = &instructions {
        show(whole_insert(instructions));
    }
    Ok(())
}

// Instructions.

type Instructions = BTreeMap<(Tallies, Call), f64>;

/// Instructions of each call on each tree. `None` if there is no valgrind.
fn count_instructions(bench: &Bench<'_>) -> Result<Option<Instructions>> {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let (loaded, calls) = if bench.options.smoke { (100, 50) } else { (100_000, 50_000) };
    let calls_of = |tallies| Call::BARE.into_iter().chain([Call::PendingCommit]).map(move |call| (tallies, call));
    // The engine has no uncounted tables.
    let trees = if bench.options.smoke { &Tallies::ALL[..2] } else { &Tallies::ALL };
    let cases =
        trees.iter().copied().flat_map(calls_of).filter(|case| *case != (Tallies::Uncounted, Call::PendingCommit));
    let cases: Vec<(Tallies, Call)> = cases.collect();

    let making = {
        let collected = |calls| collected(bench, Tallies::Uncounted, Call::Nothing, 0, calls);
        (collected(2 * calls)? - collected(calls)?) / calls as f64
    };

    // Counts do not depend on the load, so every core may count.
    let next = AtomicUsize::new(0);
    let count = || -> Result<Vec<((Tallies, Call), f64)>> {
        let mut counted = Vec::new();
        while let Some((tallies, call)) = cases.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            bench.progress(format_args!("instructions of {}, {}", call.name(), tallies.name()));
            let once = collected(bench, tallies, call, loaded, calls)?;
            let twice = collected(bench, tallies, call, loaded, 2 * calls)?;
            counted.push(((tallies, call), (twice - once) / calls as f64 - making));
        }
        Ok(counted)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut instructions = Instructions::new();
    std::thread::scope(|scope| {
        let counters: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        for counter in counters {
            instructions.extend(counter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(Some(instructions))
    })
}

/// Instructions of a whole child process.
fn collected(bench: &Bench<'_>, tallies: Tallies, call: Call, loaded: u64, calls: u64) -> Result<f64> {
    let tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let arguments: Vec<String> = [WORKLOAD.name, tallies.name(), call.name()]
        .map(str::to_owned)
        .into_iter()
        .chain([bench.options.seed, loaded, calls].map(|number| number.to_string()))
        .collect();
    let text = bench.program.child(&tool, &arguments)?;
    let count =
        text.lines().find_map(|line| line.split_once("Collected :")).and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("callgrind told no count:\n{text}").into())
}

/// Does exactly the calls asked for, after loading.
fn child(bench: &Bench<'_>, arguments: &[String]) -> Result<()> {
    let [tallies, call, numbers @ ..] = arguments else { return Err("which tallies and call?".into()) };
    let (tallies, call) = (Tallies::named(tallies)?, Call::named(call)?);
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [seed, loaded, calls] = numbers[..] else { return Err("how many?".into()) };
    let rows = Rows::new(seed, loaded, 8, 8);
    if call == Call::PendingCommit {
        let dir = bench.place.fresh()?;
        let db = Db::open(dir.path(), Options { durability: Durability::Os, ..Options::default() })?;
        let measures = tallies.measures().ok_or("the engine has no uncounted tables")?;
        let table = db.create_table("t", TableOptions { measures, ..TableOptions::default() })?;
        let mut cursor = rows.part(0, loaded + calls).cursor();
        while let Some((key, value)) = cursor.advance() {
            table.insert(key, value)?;
        }
        return Ok(());
    }
    let mut tree = BareTree::new(tallies.measures())?;
    Call::Insert.run(&mut tree, &rows, 0, loaded)?;
    let first = if call == Call::Insert { loaded } else { 0 };
    call.run(&mut tree, &rows, first, calls)?;
    Ok(())
}

// Time.

/// The turns of each tree beside an uncounted one. Two uncounted ones are the control: their difference is the method's
/// error.
type Times = BTreeMap<(Tallies, Call), Vec<Turn>>;

fn measure_times(bench: &Bench<'_>, count: u64) -> Result<Times> {
    let rows = Rows::new(bench.options.seed, count, 8, 8);
    let mut times = Times::new();
    let turns = 2 * bench.options.repeat.max(1);
    for turn in 0..turns {
        for tallies in Tallies::ALL {
            bench.progress(format_args!("{count} rows, {}, turn {} of {turns}", tallies.name(), turn + 1));
            let mut old = BareTree::new(None)?;
            let mut new = BareTree::new(tallies.measures())?;
            for call in Call::BARE {
                times.entry((tallies, call)).or_default().push(take_turns(&mut old, &mut new, call, &rows, turn)?);
            }
        }
    }
    Ok(times)
}

/// Calls both trees for all rows, a batch each in turns, the first of them changing too.
fn take_turns(old: &mut BareTree, new: &mut BareTree, call: Call, rows: &Rows, turn: usize) -> Result<Turn> {
    let mut times = Turn::default();
    for (number, first) in (0..rows.count()).step_by(BATCH as usize).enumerate() {
        let size = BATCH.min(rows.count() - first);
        let batch = |tree: &mut BareTree, times: &mut Vec<f64>| -> Result<()> {
            let (done, nanos) = nanos_of(|| call.run(tree, rows, first, size));
            times.push(nanos as f64 / size as f64);
            done
        };
        if (number + turn).is_multiple_of(2) {
            batch(old, &mut times.old)?;
            batch(new, &mut times.new)?;
        } else {
            batch(new, &mut times.new)?;
            batch(old, &mut times.old)?;
        }
    }
    Ok(times)
}

// Tables.

fn old_and_new(count: u64, times: &Times, instructions: Option<&Instructions>) -> Table {
    let title = format!("The uncounted tree (old) and the tree that counts rows (new), {} rows", Cell::Count(count));
    let mut table = Table::new(title, &["request", "stat", "old", "new", "diff", "stdev"]);
    for call in Call::BARE {
        if let Some(instructions) = instructions {
            let (old, new) = (instructions[&(Tallies::Uncounted, call)], instructions[&(Tallies::Rows, call)]);
            table.push(vec![
                Cell::text(call.name()),
                Cell::text("instructions"),
                Cell::Count(old.round() as u64),
                Cell::Count(new.round() as u64),
                Cell::Percent(percent(old, new)),
                Cell::Missing,
            ]);
        }
        let turns = &times[&(Tallies::Rows, call)];
        let average = Change::of(turns, AVERAGE);
        table.push(vec![
            Cell::text(call.name()),
            Cell::text("requests/s"),
            Cell::PerSecond(1e9 / average.old),
            Cell::PerSecond(1e9 / average.new),
            Cell::Percent(percent(100.0 + average.percent, 100.0)),
            Cell::Percent(average.spread_percent),
        ]);
        let statistics = STATISTICS.into_iter().map(|(name, statistic)| (name, Change::of(turns, statistic)));
        for (name, change) in [("med, paired", Change::paired(turns))].into_iter().chain(statistics) {
            table.push(vec![
                Cell::text(call.name()),
                Cell::text(name),
                Cell::Nanos(change.old),
                Cell::Nanos(change.new),
                Cell::Percent(change.percent),
                Cell::Percent(change.spread_percent),
            ]);
        }
    }
    table.note(if instructions.is_some() {
        "Instructions do not depend on the machine's load; times do: stdev is the spread of diff over the turns."
    } else {
        "INSTRUCTIONS WERE NOT COUNTED: `valgrind` is not installed. Stdev is the spread of diff over the turns."
    });
    table
}

fn further_measures(count: u64, times: &Times, instructions: Option<&Instructions>) -> Table {
    let title = format!("The price of each measure, {} rows", Cell::Count(count));
    let columns =
        ["request", "tree measures", "instructions", "more than uncounted", "median time", "diff, paired", "stdev"];
    let mut table = Table::new(title, &columns).with_bars("instructions", 1);
    for call in Call::BARE {
        let uncounted = instructions.map(|instructions| instructions[&(Tallies::Uncounted, call)]);
        for tallies in Tallies::ALL {
            let counted = instructions.and_then(|instructions| instructions.get(&(tallies, call)).copied());
            let more = counted.zip(uncounted).map(|(new, old)| Cell::Percent(percent(old, new)));
            let mut row = vec![
                Cell::text(call.name()),
                Cell::text(tallies.name()),
                counted.map_or(Cell::Missing, |count| Cell::Count(count.round() as u64)),
                more.unwrap_or(Cell::Missing),
            ];
            let change = Change::paired(&times[&(tallies, call)]);
            row.extend([Cell::Nanos(change.new), Cell::Percent(change.percent), Cell::Percent(change.spread_percent)]);
            table.push(row);
        }
    }
    table.note("The uncounted line compares two uncounted trees: its diff is the error of the others'.");
    table
}

fn whole_insert(instructions: &Instructions) -> Table {
    let columns = ["table measures", "instructions", "of them in the tree", "of them for counting", "share"];
    let mut table =
        Table::new("A whole insert, committed to the operating system", &columns).with_bars("instructions", 0);
    for tallies in Tallies::COUNTED {
        let Some(whole) = instructions.get(&(tallies, Call::PendingCommit)).copied() else { continue };
        let tree = instructions[&(tallies, Call::Insert)];
        let counting = tree - instructions[&(Tallies::Uncounted, Call::Insert)];
        table.push(vec![
            Cell::text(tallies.name()),
            Cell::Count(whole.round() as u64),
            Cell::Count(tree.round() as u64),
            Cell::Count(counting.max(0.0).round() as u64),
            Cell::Percent(100.0 * counting / whole),
        ]);
    }
    table.note(
        "In the tree and for counting: of the bare tree's insert, above. The rest is the log, the commit and the interface.",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_values() {
        for tallies in Tallies::ALL {
            assert_eq!(Tallies::named(tallies.name()).unwrap(), tallies);
        }
        for call in Call::BARE.into_iter().chain([Call::PendingCommit]) {
            assert_eq!(Call::named(call.name()).unwrap(), call);
        }
    }
}
