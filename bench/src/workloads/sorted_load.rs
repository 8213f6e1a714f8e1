//! Loading rows that come in ascending order of their keys, into an empty table on disk: in transactions of 10,000
//! rows, and by the call that a store has for rows in order.
//!
//! A load has no time limit. After it, all rows are counted, and some are read.

use crate::clock::{Spent, Stopwatch, median};
use crate::report::{Cell, Table};
use crate::rows::{Draw, Rows, fingerprint};
use crate::store::{CACHE_BYTES, Durability, Result, Setup, Store, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "sorted-load",
    about: "loading rows in ascending order of their keys, in transactions and by an ingest",
    run,
    child: None,
};

const KEY_BYTES: usize = 8;
/// Lengths of values.
const VALUES: [usize; 2] = [8, 100];
/// Rows of a transaction.
const TRANSACTION_ROWS: u64 = 10_000;
/// Rows whose values are read after the load.
const CHECKED: u64 = 100;

/// How rows get in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Transactions,
    Ingest,
}

impl Method {
    const ALL: [Method; 2] = [Method::Transactions, Method::Ingest];

    fn name(self) -> &'static str {
        match self {
            Method::Transactions => "transactions",
            Method::Ingest => "ingest",
        }
    }
}

/// What a load took, and coming to rest after it.
struct Figure {
    load: Spent,
    settle: Spent,
}

/// One line of the table, and what it took turn by turn.
struct Line<'a> {
    kind: &'a StoreKind,
    method: Method,
    figures: Vec<Figure>,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[10_000_000], 25_000) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let columns =
        ["key + value", "method", "store", "wall", "CPU", "rows/s", "settling", "CPU, settled", "rows/s, settled"];
    let title = format!("Loading {} rows in ascending order of their keys", Cell::Count(count));
    let mut table = Table::new(title, &columns).with_bars("rows/s", 1);
    for value_bytes in VALUES {
        let rows = Rows::ascending(bench.options.seed, count, value_bytes);
        let mut lines = lines(bench, &rows);
        let mut making = Vec::new();
        for turn in 0..bench.options.repeat.max(1) {
            for line in &mut lines {
                let (method, store) = (line.method.name(), line.kind.name);
                bench.progress(format_args!(
                    "{count} rows of {KEY_BYTES} + {value_bytes} bytes, {method}, {store}, turn {}",
                    turn + 1
                ));
                line.figures.extend(measure(bench, line.kind, line.method, &rows)?);
            }
            making.push(Figure { load: make(&rows), settle: Spent::default() });
        }
        let shape = format!("{KEY_BYTES} + {value_bytes}");
        for line in lines.iter().filter(|line| !line.figures.is_empty()) {
            let names = [shape.as_str(), line.method.name(), line.kind.name];
            table.push(cells(names, count, &line.figures));
        }
        let mut cells = cells([&shape, "-", "(making rows)"], count, &making);
        // Its rate would dwarf the bars.
        cells[5..].fill(Cell::Missing);
        table.push(cells);
    }
    table.note(format!(
        "Transactions: of {} rows, handed to the operating system, not synced. LMDB appends (`MDB_APPEND`); Quipu \
         puts; SQLite checks that the key is new. Ingest: one commit, which is synced. CPU: all threads of the \
         process, background work included. Settled: with what is said below, after which all rows are in files, \
         synced but for SQLite's. In each figure, rows are made, which takes what stands in the line in parentheses.",
        Cell::Count(TRANSACTION_ROWS)
    ));
    for kind in bench.stores.iter().filter(|kind| kind.durable) {
        table.note(format!("{}. Settling: {}.", kind.settings, kind.settling));
    }
    Ok(table)
}

/// Every way into every store, without figures.
fn lines<'a>(bench: &'a Bench<'_>, rows: &Rows) -> Vec<Line<'a>> {
    let methods = || Method::ALL.into_iter().filter(|method| bench.options.wants(method.name()));
    let kinds = bench.stores.iter().filter(|kind| kind.durable && kind.fits(rows));
    kinds.flat_map(|kind| methods().map(move |method| Line { kind, method, figures: Vec::new() })).collect()
}

fn cells(names: [&str; 3], count: u64, figures: &[Figure]) -> Vec<Cell> {
    let median_of = |seconds: fn(&Figure) -> f64| median(figures.iter().map(seconds).collect());
    let rate = |seconds: f64| Cell::PerSecond(count as f64 / seconds.max(1e-9));
    let wall_s = median_of(|figure| figure.load.wall_s);
    names
        .map(Cell::text)
        .into_iter()
        .chain([
            Cell::seconds(wall_s),
            Cell::seconds(median_of(|figure| figure.load.cpu_s)),
            rate(wall_s),
            Cell::seconds(median_of(|figure| figure.settle.wall_s)),
            Cell::seconds(median_of(|figure| figure.load.cpu_s + figure.settle.cpu_s)),
            rate(median_of(|figure| figure.load.wall_s + figure.settle.wall_s)),
        ])
        .collect()
}

/// One load of a fresh store. `None` if the store has no such method.
fn measure(bench: &Bench<'_>, kind: &StoreKind, method: Method, rows: &Rows) -> Result<Option<Figure>> {
    let dir = bench.place.fresh()?;
    let setup = Setup { durability: Durability::Os, cache_bytes: CACHE_BYTES, in_memory: false };
    let store = (kind.open)(dir.path(), setup)?;
    let watch = Stopwatch::start();
    match method {
        Method::Transactions => {
            for first in (0..rows.count()).step_by(TRANSACTION_ROWS as usize) {
                store.append(rows.part(first, TRANSACTION_ROWS.min(rows.count() - first)))?;
            }
        }
        Method::Ingest => {
            if store.ingest(*rows)?.is_none() {
                return Ok(None);
            }
        }
    }
    let load = watch.stop();
    let watch = Stopwatch::start();
    store.settle()?;
    let settle = watch.stop();
    expect_rows(&*store, kind, rows)?;
    Ok(Some(Figure { load, settle }))
}

/// Makes the rows and stores them nowhere.
fn make(rows: &Rows) -> Spent {
    let watch = Stopwatch::start();
    let mut cursor = rows.cursor();
    while let Some(row) = cursor.advance() {
        std::hint::black_box(row);
    }
    watch.stop()
}

/// Checks that there are as many rows as were loaded, and some of their values.
fn expect_rows(store: &dyn Store, kind: &StoreKind, rows: &Rows) -> Result<()> {
    store.read(&mut |reader| {
        // The last key is below this one.
        let found = reader.count(&[0; KEY_BYTES], &[0xff; KEY_BYTES])?;
        if found != rows.count() {
            return Err(format!("{} has {found} rows of {}", kind.name, rows.count()).into());
        }
        let mut draw = Draw::new(rows.count());
        for _ in 0..CHECKED {
            let number = draw.below(rows.count());
            let mut cursor = rows.part(number, 1).cursor();
            let Some((key, value)) = cursor.advance() else { continue };
            if reader.get(key)? != fingerprint(value) {
                return Err(format!("{}: row {number} is not what was loaded", kind.name).into());
            }
        }
        Ok(())
    })
}
