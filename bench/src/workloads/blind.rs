//! Measures what it costs to know whether the key of a write is live: writes to rows in runs that are not cached, in a
//! table that asks with each write and in a `blind` one that asks for many at once, later.
//!
//! Rows lie in one run, and the cache has room for a sixteenth of them. Then keys at random are written anew, or new
//! ones, one a commit or in batches. A blind table has asked nothing by then; so the time until its entries are
//! resolved is told apart, and the time until all is in runs for both. The files are in the memory of the operating
//! system, so a page read is a copy here, and what it would be on a disk goes by their number.
//!
//! In the end both tables must count the same rows.

use quipu::{Db, Durability, Options, ReadableTable, TableOptions, WritableTable, WriteBatch};

use crate::clock::Stopwatch;
use crate::report::{Cell, Table};
use crate::rows::{Draw, Rows};
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "blind",
    about: "writes to rows that are not cached, of tables that ask whether they are live and of blind ones",
    run,
    child: None,
};

const VALUE_BYTES: usize = 100;
/// Rows for each row that has room in the cache.
const ROWS_A_CACHED_ROW: u64 = 16;
/// Rows for each write.
const ROWS_A_WRITE: u64 = 4;

/// Rows of a batch.
const BATCH_ROWS: u64 = 1000;

/// Which keys are written, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Live,
    LiveInBatches,
    New,
}

/// What one table took.
struct Figures {
    write_s: f64,
    write_reads: u64,
    resolve_s: f64,
    resolve_reads: u64,
    flush_s: f64,
    rows: u64,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 2_000) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let rows = Rows::new(bench.options.seed, count, 8, VALUE_BYTES);
    let writes = (count / ROWS_A_WRITE).max(1);
    let columns = [
        "writes of",
        "table",
        "writes/s",
        "pages read, a write",
        "resolving",
        "pages read, a write, resolving",
        "flush",
        "writes/s, all in runs",
    ];
    let (of, out_of) = (Cell::Count(writes), Cell::Count(count));
    let title = format!("{of} writes to {out_of} rows in runs, of 8 and {VALUE_BYTES} bytes, few of them cached");
    let mut table = Table::new(title, &columns).with_bars("writes/s, all in runs", 1);
    for (keys, name) in
        [(Keys::Live, "live keys"), (Keys::LiveInBatches, "live keys, in batches"), (Keys::New, "new keys")]
    {
        let mut counted = Vec::new();
        for (blind, kind) in [(false, "asks"), (true, "blind")] {
            bench.progress(format_args!("{count} rows, {name}, {kind}"));
            let figures = measure(bench, &rows, writes, keys, blind)?;
            counted.push(figures.rows);
            let a_write = |number: u64| Cell::Times(number as f64 / writes as f64);
            let all_s = figures.write_s + figures.resolve_s + figures.flush_s;
            table.push(vec![
                Cell::text(name),
                Cell::text(kind),
                Cell::PerSecond(writes as f64 / figures.write_s),
                a_write(figures.write_reads),
                if blind { Cell::seconds(figures.resolve_s) } else { Cell::Missing },
                if blind { a_write(figures.resolve_reads) } else { Cell::Missing },
                Cell::seconds(figures.flush_s),
                Cell::PerSecond(writes as f64 / all_s),
            ]);
        }
        if counted[0] != counted[1] {
            return Err(
                format!("{name}: a table that asks has {} rows and a blind one {}", counted[0], counted[1]).into()
            );
        }
    }
    table.note(
        "Commits of one row, or of 1,000 in batches, not synced. Resolving: asking for all that was not asked, in order. In runs: with resolving and the flush. The files are in the memory of the \
         operating system.",
    );
    Ok(table)
}

/// Loads a table, and writes to it.
fn measure(bench: &Bench<'_>, rows: &Rows, writes: u64, keys: Keys, blind: bool) -> Result<Figures> {
    let dir = bench.place.fresh()?;
    let row_bytes = (rows.key_bytes() + rows.value_bytes()) as u64;
    let options = Options {
        durability: Durability::None,
        cache_bytes: rows.count() * row_bytes / ROWS_A_CACHED_ROW,
        // Neither flushes nor checkpoints nor merges but those that are asked for.
        background: false,
        checkpoint_log_bytes: 0,
        memtable_bytes: 4 << 30,
        ..Options::default()
    };
    let db = Db::open(dir.path(), options)?;
    let table = db.create_table("t", TableOptions { blind_writes: blind, ..TableOptions::default() })?;
    let part = 100_000;
    for first in (0..rows.count()).step_by(part as usize) {
        let mut cursor = rows.part(first, part.min(rows.count() - first)).cursor();
        db.write(|transaction| {
            let table = transaction.table(&table)?;
            while let Some((key, value)) = cursor.advance() {
                table.put(key, value)?;
            }
            Ok(())
        })?;
    }
    table.flush()?;

    let reads = || db.stats().cache_misses;
    let mut draw = Draw::new(bench.options.seed + 1);
    let value = [b'w'; VALUE_BYTES];
    let (before, watch) = (reads(), Stopwatch::start());
    match keys {
        Keys::Live => (0..writes).try_for_each(|_| table.put(rows.key(draw.below(rows.count())), value))?,
        Keys::LiveInBatches => {
            for first in (0..writes).step_by(BATCH_ROWS as usize) {
                let mut batch = WriteBatch::new();
                for _ in first..writes.min(first + BATCH_ROWS) {
                    batch.put(&table, rows.key(draw.below(rows.count())), value);
                }
                db.apply(batch)?;
            }
        }
        Keys::New => (0..writes).try_for_each(|number| table.put(rows.key(rows.count() + number), value))?,
    }
    let (write_s, write_reads) = (watch.stop().wall_s, reads() - before);
    let (before, watch) = (reads(), Stopwatch::start());
    table.resolve_blind_writes(..)?;
    let (resolve_s, resolve_reads) = (watch.stop().wall_s, reads() - before);
    let watch = Stopwatch::start();
    table.flush()?;
    let flush_s = watch.stop().wall_s;
    Ok(Figures { write_s, write_reads, resolve_s, resolve_reads, flush_s, rows: table.len()? })
}
