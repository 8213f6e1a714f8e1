//! Random inserts of unique 4-byte keys with 8-byte values, with no transaction, in one bulk transaction, in a
//! transaction per insert, and undone; growing row counts; the bare disk as yardstick in the same run.
//!
//! Timed is from the first insert to the commit's return, with the store open and empty (or loaded) before. A figure
//! that hits the time limit counts the rows it inserted and is marked; one that waits for a disk has a limit always.

use std::collections::BTreeMap;

use crate::clock::{Deadline, Spent, Stopwatch, median};
use crate::report::{Cell, Table};
use crate::rows::{Draw, Rows};
use crate::store::{Durability, Result, Store, StoreKind};
use crate::yardstick::Yardstick;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "btree-inserts",
    about: "random inserts of 4-byte keys: no transaction, bulk, one transaction each, threads, rollback",
    run,
    child: None,
};

const KEY_BYTES: usize = 4;
const VALUE_BYTES: usize = 8;

/// How rows get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Method {
    NoTransaction,
    Bulk,
    BulkIntoLoaded,
    EachOs,
    EachSync { threads: usize },
    Uncommitted,
    RollBack,
}

impl Method {
    fn all(threads: usize) -> [Method; 8] {
        use Method::{Bulk, BulkIntoLoaded, EachOs, EachSync, NoTransaction, RollBack, Uncommitted};
        [
            NoTransaction,
            Bulk,
            BulkIntoLoaded,
            EachOs,
            EachSync { threads: 1 },
            EachSync { threads },
            Uncommitted,
            RollBack,
        ]
    }

    fn name(self) -> String {
        match self {
            Method::NoTransaction => "no transaction".to_owned(),
            Method::Bulk => "one transaction, synced".to_owned(),
            Method::BulkIntoLoaded => "the same into as many rows".to_owned(),
            Method::EachOs => "transaction each, not synced".to_owned(),
            Method::EachSync { threads: 1 } => "transaction each, synced".to_owned(),
            Method::EachSync { threads } => format!("the same from {threads} threads"),
            Method::Uncommitted => "one transaction, not committed".to_owned(),
            Method::RollBack => "its rollback".to_owned(),
        }
    }

    fn durability(self) -> Durability {
        match self {
            Method::NoTransaction => Durability::None,
            Method::EachOs => Durability::Os,
            Method::Bulk | Method::BulkIntoLoaded | Method::EachSync { .. } => Durability::Sync,
            Method::Uncommitted | Method::RollBack => Durability::Os,
        }
    }

    /// The bare work that bounds it.
    fn yardsticks(self) -> &'static [Yardstick] {
        match self {
            Method::EachOs => &[Yardstick::Mapped, Yardstick::Write],
            Method::EachSync { threads: 1 } => &[Yardstick::MappedSync, Yardstick::WriteSync],
            Method::EachSync { .. } => &[Yardstick::WriteSync],
            _ => &[],
        }
    }

    fn threads(self) -> usize {
        if let Method::EachSync { threads } = self { threads } else { 1 }
    }
}

/// Rows, and what they took.
type Figure = (u64, Spent);

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[100_000, 200_000, 500_000, 1_000_000], 100) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let columns = ["method", "store", "rows done", "wall", "CPU", "per insert", "inserts/s"];
    let title = format!("{} random inserts, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values", Cell::Count(count));
    let mut table = Table::new(title, &columns).with_bars("inserts/s", 1);
    let rows = Rows::new(bench.options.seed, count, KEY_BYTES, VALUE_BYTES);
    for method in
        Method::all(bench.options.many_threads()).into_iter().filter(|method| bench.options.wants(&method.name()))
    {
        let mut figures: BTreeMap<usize, Vec<Figure>> = BTreeMap::new();
        for turn in 0..bench.options.repeat.max(1) {
            for (number, kind) in bench.stores.iter().enumerate() {
                bench.progress(format_args!("{count} rows, {}, {}, turn {}", method.name(), kind.name, turn + 1));
                if let Some(figure) = measure(bench, kind, method, rows)? {
                    figures.entry(number).or_default().push(figure);
                }
            }
            for (number, yardstick) in method.yardsticks().iter().enumerate() {
                let dir = bench.place.fresh()?;
                let deadline = Deadline::after(bench.options.sync_seconds());
                let figure = yardstick.measure(dir.path(), count, method.threads(), &deadline)?;
                figures.entry(bench.stores.len() + number).or_default().push(figure);
            }
        }
        for (number, figures) in figures {
            let name = match bench.stores.get(number) {
                Some(kind) => kind.name,
                None => method.yardsticks()[number - bench.stores.len()].name(),
            };
            table.push(line(method, name, count, &figures));
        }
    }
    table.note("`*`: stopped at the time limit. CPU: all threads of the process, background work included.");
    table.note(
        "Quipu's and SQLite's insert checks that the key is new; the others' put does not. Names in parentheses are the bare \
         machine: a record of 40 bytes handed over in the same way, with no store around it.",
    );
    Ok(table)
}

fn line(method: Method, name: &str, count: u64, figures: &[Figure]) -> Vec<Cell> {
    let done = median(figures.iter().map(|(rows, _)| *rows as f64).collect()) as u64;
    let wall_s = median(figures.iter().map(|(_, spent)| spent.wall_s).collect());
    let cpu_s = median(figures.iter().map(|(_, spent)| spent.cpu_s).collect());
    let per_insert_s = median(figures.iter().map(|(rows, spent)| spent.wall_s / (*rows).max(1) as f64).collect());
    let star = if done < count { "*" } else { "" };
    vec![
        Cell::text(method.name()),
        Cell::text(format!("{name}{star}")),
        Cell::Count(done),
        Cell::seconds(wall_s),
        Cell::seconds(cpu_s),
        Cell::seconds(per_insert_s),
        // Dropping what was written has no rate worth the name.
        if method == Method::RollBack { Cell::Missing } else { Cell::PerSecond(1.0 / per_insert_s.max(1e-12)) },
    ]
}

/// One cell, once, in a fresh store. `None` if the store has no such method.
fn measure(bench: &Bench<'_>, kind: &StoreKind, method: Method, rows: Rows) -> Result<Option<Figure>> {
    let on_disk = matches!(method, Method::EachOs | Method::EachSync { .. });
    if !kind.fits(&rows) || (on_disk && !kind.durable) {
        return Ok(None);
    }
    let dir = bench.place.fresh()?;
    let store = (kind.open)(dir.path(), method.durability().into())?;
    let limit = |seconds: f64| if bench.options.smoke { Deadline::never() } else { Deadline::after(seconds) };

    let (part, figure) = match method {
        Method::NoTransaction => (rows, timed(|| store.insert_plain(rows, &limit(bench.options.seconds)))?),
        Method::Bulk => (rows, timed(|| store.insert_bulk(rows, &limit(bench.options.seconds)))?),
        Method::BulkIntoLoaded => {
            store.insert_bulk(rows, &Deadline::never())?;
            let more = rows.next_part();
            (more, timed(|| store.insert_bulk(more, &limit(bench.options.seconds)))?)
        }
        Method::EachOs => (rows, timed(|| store.insert_each(rows, &limit(bench.options.seconds)))?),
        Method::EachSync { threads } => {
            (rows, timed(|| insert_from_threads(&*store, rows, threads, &limit(bench.options.sync_seconds())))?)
        }
        Method::Uncommitted | Method::RollBack => {
            let Some(spent) = store.roll_back(rows)? else { return Ok(None) };
            (rows, (0, if method == Method::RollBack { spent.roll_back } else { spent.insert }))
        }
    };
    // Threads leave gaps between their shares, so only the single-threaded figures' rows are known.
    if method.threads() == 1 {
        expect_rows(&*store, kind, &part, figure.0)?;
    }
    let undone = matches!(method, Method::Uncommitted | Method::RollBack);
    Ok(Some(if undone { (rows.count(), figure.1) } else { figure }))
}

fn timed(insert: impl FnOnce() -> Result<u64>) -> Result<Figure> {
    let watch = Stopwatch::start();
    let done = insert()?;
    Ok((done, watch.stop()))
}

/// Each thread inserts a share of the rows, each row in a transaction of its own.
fn insert_from_threads(store: &dyn Store, rows: Rows, threads: usize, deadline: &Deadline) -> Result<u64> {
    let share = rows.count().div_ceil(threads as u64);
    std::thread::scope(|scope| {
        let insert = |thread: u64| {
            let first = (thread * share).min(rows.count());
            let part = rows.part(first, share.min(rows.count() - first));
            scope.spawn(move || store.insert_each(part, deadline))
        };
        let writers: Vec<_> = (0..threads as u64).map(insert).collect();
        writers.into_iter().try_fold(0, |done, writer| {
            Ok(done + writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
        })
    })
}

/// Checks, on a sample, that the first `done` rows are there with their values and the next are not.
fn expect_rows(store: &dyn Store, kind: &StoreKind, rows: &Rows, done: u64) -> Result<()> {
    let mut draw = Draw::new(done);
    store.read(&mut |reader| {
        for _ in 0..100 {
            let number = draw.below(rows.count());
            let mut cursor = rows.part(number, 1).cursor();
            let Some((key, value)) = cursor.advance() else { continue };
            let expected = if number < done { crate::rows::fingerprint(value) } else { 0 };
            if reader.get(key)? != expected {
                return Err(format!("{} lost or invented row {number} of {done}", kind.name).into());
            }
        }
        Ok(())
    })
}
