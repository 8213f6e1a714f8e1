//! A count in a transaction while another transaction holds many uncommitted rows: it must cost what it costs when
//! idle.
//!
//! The range holds half of the table. Asked are a transaction beside the dirty one, and the dirty one itself; the
//! answers are checked against the rows that each may see.

use crate::clock::Deadline;
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::{Draw, Rows};
use crate::store::{Durability, Result, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "transactions",
    about: "a count in a transaction, idle and beside 100,000 uncommitted rows of another",
    run,
    child: None,
};

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 500) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

/// Times of a count of half the table.
struct Counts {
    idle: Latencies,
    beside: Latencies,
    inside: Latencies,
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let rows = Rows::new(bench.options.seed, count, 8, 8);
    let dirty = rows.part(count, (count / 10).min(100_000));
    let columns = ["store", "idle", "99 %", "beside dirty rows", "99 %, beside", "times idle", "in the dirty one"];
    let title = format!(
        "Count of half of {} rows in a transaction; {} dirty rows",
        Cell::Count(count),
        Cell::Count(dirty.count())
    );
    let mut table = Table::new(title, &columns).with_bars("beside dirty rows", 0);
    let kinds: Vec<&StoreKind> = bench.stores.iter().filter(|kind| kind.fits(&rows)).collect();
    let mut counts: Vec<Option<Counts>> = kinds.iter().map(|_| None).collect();
    for turn in 0..bench.options.repeat.max(1) {
        for (kind, counts) in kinds.iter().zip(&mut counts) {
            bench.progress(format_args!("{count} rows, {}, turn {}", kind.name, turn + 1));
            measure(bench, kind, &rows, &dirty, counts)?;
        }
    }
    for (kind, counts) in kinds.iter().zip(counts) {
        let Some(counts) = counts else { continue };
        table.push(vec![
            Cell::text(kind.name),
            counts.idle.median(),
            counts.idle.p99(),
            counts.beside.median(),
            counts.beside.p99(),
            Cell::Times(counts.beside.median_nanos() / counts.idle.median_nanos().max(1.0)),
            counts.inside.median(),
        ]);
    }
    table.note(
        "Timed: begin, count, commit; in the dirty one the count alone. Stores with one writer count beside it in a transaction \
         that reads.",
    );
    Ok(table)
}

fn measure(bench: &Bench<'_>, kind: &StoreKind, rows: &Rows, dirty: &Rows, counts: &mut Option<Counts>) -> Result<()> {
    let dir = bench.place.fresh()?;
    let store = (kind.open)(dir.path(), Durability::None.into())?;
    store.insert_bulk(*rows, &Deadline::never())?;
    let most = if bench.options.smoke { 5 } else { 20_000 };
    let limit = || Deadline::after(bench.options.seconds / 6.0);
    let (from, to) = rows.range_of(&mut Draw::new(bench.options.seed), rows.count() / 2, rows.count());
    let inside_range =
        |part: &Rows| (0..part.count()).filter(|n| (&from[..]..&to[..]).contains(&&part.key(*n)[..])).count() as u64;
    let (committed, uncommitted) = (inside_range(rows), inside_range(dirty));
    let check = |seen: u64, expected: u64| match seen == expected {
        true => Ok(seen),
        false => Err(format!("{} counts {seen} rows instead of {expected}", kind.name).into()),
    };
    let mut figures = Counts { idle: Latencies::new(), beside: Latencies::new(), inside: Latencies::new() };
    let counted = counts.as_mut().unwrap_or(&mut figures);
    counted.idle.measure(2, most, &limit(), || check(store.count_in_transaction(&from, &to)?, committed))?;
    let possible = store.with_uncommitted(*dirty, &mut |own| {
        counted.inside.measure(2, most, &limit(), || check(own(&from, &to)?, committed + uncommitted))?;
        counted.beside.measure(2, most, &limit(), || check(store.count_in_transaction(&from, &to)?, committed))
    })?;
    if possible && counts.is_none() {
        *counts = Some(figures);
    }
    Ok(())
}
