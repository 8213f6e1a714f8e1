//! Get, count of a range, rank, nth and page over a loaded table: single calls, and in batches of 1000.
//!
//! All stores are loaded at once and asked the same questions in turns. Their answers to the first questions must be
//! equal. A single call is timed with the clock's own cost of 25-40 ns in it.

use crate::clock::{Deadline, median};
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::{Draw, Key, Rows};
use crate::store::{Durability, Reader, Result, Store, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "positions",
    about: "get, count, rank, nth and page over a loaded table, one by one and in batches",
    run,
    child: None,
};

const BATCH: usize = 1000;
/// Questions that all stores must answer equally.
const COMPARED: usize = 3;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Get,
    CountThousand,
    CountHalf,
    Rank,
    Nth,
    Page,
}

impl Question {
    const ALL: [Question; 6] =
        [Question::Get, Question::CountThousand, Question::CountHalf, Question::Rank, Question::Nth, Question::Page];

    fn name(self) -> &'static str {
        match self {
            Question::Get => "get",
            Question::CountThousand => "count of 1,000 rows",
            Question::CountHalf => "count of half the rows",
            Question::Rank => "rank",
            Question::Nth => "nth",
            Question::Page => "page(offset, 10)",
        }
    }

    fn ask(self, reader: &dyn Reader, rows: &Rows, draw: &mut Draw) -> Result<u64> {
        match self {
            Question::Get => reader.get(&rows.key(draw.below(rows.count()))),
            Question::Rank => reader.rank(&rows.key(draw.below(rows.count()))),
            Question::CountThousand | Question::CountHalf => {
                let (from, to) = self.range(rows, draw);
                reader.count(&from, &to)
            }
            Question::Nth => reader.nth(draw.below(rows.count())),
            Question::Page => reader.page(draw.below(rows.count().saturating_sub(10).max(1)), 10),
        }
    }

    /// A range to count.
    fn range(self, rows: &Rows, draw: &mut Draw) -> (Key, Key) {
        let wanted = if self == Question::CountHalf { rows.count() / 2 } else { 1000 };
        rows.range_of(draw, wanted, rows.count())
    }

    /// Asks as many questions as `batch`, in one call where there is one.
    fn ask_batch(self, reader: &dyn Reader, rows: &Rows, batch: usize, draw: &mut Draw) -> Result<u64> {
        let mut keys = || -> Vec<Key> { (0..batch).map(|_| rows.key(draw.below(rows.count()))).collect() };
        match self {
            Question::Get => reader.get_many(&keys()),
            Question::Rank => reader.rank_many(&keys()),
            Question::Nth => {
                let offsets: Vec<u64> = (0..batch).map(|_| draw.below(rows.count())).collect();
                reader.nth_many(&offsets)
            }
            Question::CountThousand | Question::CountHalf => {
                let ranges: Vec<(Key, Key)> = (0..batch).map(|_| self.range(rows, draw)).collect();
                reader.count_many(&ranges)
            }
            Question::Page => (0..batch).try_fold(0, |sum: u64, _| Ok(sum.wrapping_add(self.ask(reader, rows, draw)?))),
        }
    }
}

/// A store with its rows in it; the directory goes with it.
struct Loaded {
    kind: StoreKind,
    store: Box<dyn Store>,
    _dir: tempfile::TempDir,
}

/// Turns of one question to one store.
struct Asked {
    single: Latencies,
    batch_nanos: Vec<f64>,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 2_000) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let rows = Rows::new(bench.options.seed, count, 8, 8);
    let loaded = load(bench, &rows)?;
    let columns = ["question", "store", "asked", "median", "99 %", "in batches of 1000"];
    let title = format!("Positions among {} rows of 8-byte keys and values", Cell::Count(count));
    let mut table = Table::new(title, &columns).with_bars("median", 1);
    for question in Question::ALL.into_iter().filter(|question| bench.options.wants(question.name())) {
        compare(&loaded, question, &rows, bench.options.seed)?;
        let mut asked: Vec<Asked> =
            loaded.iter().map(|_| Asked { single: Latencies::new(), batch_nanos: Vec::new() }).collect();
        for turn in 0..bench.options.repeat.max(1) {
            for (one, asked) in loaded.iter().zip(&mut asked) {
                bench.progress(format_args!("{count} rows, {}, {}, turn {}", question.name(), one.kind.name, turn + 1));
                let mut draw = Draw::new(bench.options.seed + 1 + turn as u64);
                one.store.read(&mut |reader| ask(bench, reader, question, &rows, &mut draw, asked))?;
            }
        }
        for (one, asked) in loaded.iter().zip(asked) {
            let batch =
                if asked.batch_nanos.is_empty() { Cell::Missing } else { Cell::Nanos(median(asked.batch_nanos)) };
            table.push(vec![
                Cell::text(question.name()),
                Cell::text(one.kind.name),
                Cell::Count(asked.single.count()),
                asked.single.median(),
                asked.single.p99(),
                batch,
            ]);
        }
    }
    table.note(
        "Stores without counts answer by scanning. Batches: time of one question in a batch; a dash where 1000 take too long.",
    );
    Ok(table)
}

fn load(bench: &Bench<'_>, rows: &Rows) -> Result<Vec<Loaded>> {
    let fitting = bench.stores.iter().filter(|kind| kind.fits(rows));
    let load = |kind: &StoreKind| {
        bench.progress(format_args!("loading {} rows into {}", rows.count(), kind.name));
        let dir = bench.place.fresh()?;
        let store = (kind.open)(dir.path(), Durability::None.into())?;
        // In parts, so that no store has to hold all of it as one transaction.
        let part = 100_000;
        for first in (0..rows.count()).step_by(part as usize) {
            store.insert_bulk(rows.part(first, part.min(rows.count() - first)), &Deadline::never())?;
        }
        Ok(Loaded { kind: *kind, store, _dir: dir })
    };
    fitting.map(load).collect()
}

/// One turn: single questions for a while, then batches if a thousand of them fit in the time.
fn ask(
    bench: &Bench<'_>,
    reader: &dyn Reader,
    question: Question,
    rows: &Rows,
    draw: &mut Draw,
    asked: &mut Asked,
) -> Result<()> {
    // A cell is turns x (single + batches): a quarter of the limit each is enough for medians of calls that take
    // microseconds.
    let seconds = bench.options.seconds / 4.0 / bench.options.repeat.max(1) as f64;
    let deadline = Deadline::after(seconds);
    asked.single.measure(2, 100_000, &deadline, || question.ask(reader, rows, draw))?;
    let batch = if bench.options.smoke { 10 } else { BATCH };
    if bench.options.smoke || asked.single.median_nanos() * 1e-9 * (batch as f64) < seconds {
        let mut batches = Latencies::new();
        batches.measure(3, 100, &Deadline::after(seconds), || question.ask_batch(reader, rows, batch, draw))?;
        asked.batch_nanos.push(batches.median_nanos() / batch as f64);
    }
    Ok(())
}

/// Compares the answers of all stores to the same questions, single and in a batch.
fn compare(loaded: &[Loaded], question: Question, rows: &Rows, seed: u64) -> Result<()> {
    let mut expected: Option<(Vec<u64>, &'static str)> = None;
    for one in loaded {
        let mut draw = Draw::new(seed);
        let mut answers = Vec::new();
        one.store.read(&mut |reader| {
            for _ in 0..COMPARED {
                answers.push(question.ask(reader, rows, &mut draw)?);
            }
            answers.push(question.ask_batch(reader, rows, COMPARED, &mut draw)?);
            Ok(())
        })?;
        match &expected {
            None => expected = Some((answers, one.kind.name)),
            Some((first, name)) if *first != answers => {
                let (question, other) = (question.name(), one.kind.name);
                return Err(format!("{question}: {name} answers {first:?} and {other} {answers:?}").into());
            }
            Some(_) => {}
        }
    }
    Ok(())
}
