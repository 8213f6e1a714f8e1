//! Measures what a snapshot costs: to take one, and to insert while one lives or while they are taken all the time.
//!
//! Inserts are transactions of one row, not synced. Every snapshot is asked for its count before and after the inserts:
//! it must not have moved.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Deadline, Stopwatch, median, nanos_of};
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::{Draw, Key, Rows};
use crate::store::{Durability, Result, Store, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "snapshots",
    about: "taking a snapshot; inserts with none, one long one, and continuous ones",
    run,
    child: None,
};

/// Which snapshots live while rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Living {
    None,
    One,
    Continuous,
}

impl Living {
    const ALL: [Living; 3] = [Living::None, Living::One, Living::Continuous];
}

/// The figures of one store.
#[derive(Default)]
struct Figures {
    take_and_drop: Option<Latencies>,
    inserts_per_s: [Vec<f64>; 3],
    snapshots_per_s: Vec<f64>,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 500) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let rows = Rows::new(bench.options.seed, count, 8, 8);
    let columns = [
        "store",
        "take and drop",
        "99 %",
        "inserts/s, no snapshot",
        "one long",
        "change",
        "continuous",
        "change, continuous",
        "snapshots/s meanwhile",
    ];
    let title = format!("Snapshots of a table of {} rows", Cell::Count(count));
    let mut table = Table::new(title, &columns).with_bars("one long", 0);
    let kinds: Vec<&StoreKind> = bench.stores.iter().filter(|kind| kind.fits(&rows)).collect();
    let mut figures: Vec<Figures> = kinds.iter().map(|_| Figures::default()).collect();
    for turn in 0..bench.options.repeat.max(1) {
        for (kind, figures) in kinds.iter().zip(&mut figures) {
            bench.progress(format_args!("{count} rows, {}, turn {}", kind.name, turn + 1));
            measure(bench, kind, &rows, figures)?;
        }
    }
    for (kind, figures) in kinds.iter().zip(figures) {
        // A store without snapshots has nothing to say here.
        let Some(taken) = figures.take_and_drop else { continue };
        let [none, one, continuous] = figures.inserts_per_s.map(median);
        table.push(vec![
            Cell::text(kind.name),
            taken.median(),
            taken.p99(),
            Cell::PerSecond(none),
            Cell::PerSecond(one),
            Cell::Percent((one / none - 1.0) * 100.0),
            Cell::PerSecond(continuous),
            Cell::Percent((continuous / none - 1.0) * 100.0),
            Cell::PerSecond(median(figures.snapshots_per_s)),
        ]);
    }
    table
        .note("Continuous: a second thread takes a snapshot, counts about 100 rows in it and drops it, without pause.");
    Ok(table)
}

fn measure(bench: &Bench<'_>, kind: &StoreKind, rows: &Rows, figures: &mut Figures) -> Result<()> {
    let dir = bench.place.fresh()?;
    let store = (kind.open)(dir.path(), Durability::Os.into())?;
    store.insert_bulk(*rows, &Deadline::never())?;
    if store.snapshot()?.is_none() {
        return Ok(());
    }

    let taken = figures.take_and_drop.get_or_insert_with(Latencies::new);
    for _ in 0..if bench.options.smoke { 10 } else { 10_000 } {
        let (snapshot, nanos) = nanos_of(|| store.snapshot().map(drop));
        snapshot?;
        taken.record(nanos);
    }

    let mut done = rows.count();
    for living in Living::ALL {
        let more = rows.part(done, if bench.options.smoke { 100 } else { u64::from(u32::MAX) });
        let (inserted, seconds, snapshots) = insert_beside(bench, &*store, more, rows, living)?;
        done += inserted;
        figures.inserts_per_s[living as usize].push(inserted as f64 / seconds);
        if living == Living::Continuous {
            figures.snapshots_per_s.push(snapshots as f64 / seconds);
        }
    }
    Ok(())
}

/// Inserts for a while. Returns the rows, the seconds, and the snapshots taken meanwhile.
fn insert_beside(
    bench: &Bench<'_>,
    store: &dyn Store,
    more: Rows,
    loaded: &Rows,
    living: Living,
) -> Result<(u64, f64, u64)> {
    let range = loaded.range_of(&mut Draw::new(bench.options.seed), loaded.count() / 2, loaded.count());
    let snapshot = if living == Living::One { store.snapshot()? } else { None };
    let before = snapshot.as_ref().map(|snapshot| snapshot.count(&range.0, &range.1)).transpose()?;
    let over = AtomicBool::new(false);
    let taken = AtomicU64::new(0);
    let (inserted, seconds) = std::thread::scope(|scope| {
        let taker =
            (living == Living::Continuous).then(|| scope.spawn(|| take_continuously(store, loaded, &over, &taken)));
        let watch = Stopwatch::start();
        let deadline = Deadline::after(bench.options.seconds / 6.0);
        let inserted = store.insert_each(more, &deadline);
        let seconds = watch.stop().wall_s;
        over.store(true, Ordering::Relaxed);
        if let Some(taker) = taker {
            taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((inserted?, seconds))
    })?;
    let after = snapshot.as_ref().map(|snapshot| snapshot.count(&range.0, &range.1)).transpose()?;
    if before != after {
        return Err(format!("a snapshot counted {before:?} rows and later {after:?}").into());
    }
    Ok((inserted, seconds, taken.into_inner()))
}

fn take_continuously(store: &dyn Store, loaded: &Rows, over: &AtomicBool, taken: &AtomicU64) -> Result<()> {
    let mut draw = Draw::new(7);
    while !over.load(Ordering::Relaxed) {
        let (from, to): (Key, Key) = loaded.range_of(&mut draw, 100, loaded.count());
        if let Some(snapshot) = store.snapshot()? {
            std::hint::black_box(snapshot.count(&from, &to)?);
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
