//! A table of rows of 8-byte keys and 100-byte values in 1, 4 and 10 runs, under trees and under flat indexes, with a
//! cache for all of it, for the indexes, and for a tenth and a hundredth of these: the table of the seed.
//!
//! The flat index is the baseline: what it answers must be what the tree answers. Questions are asked of the table, as
//! programs ask them. What the cache does not have comes from the files, which the operating system may have in memory.

use std::path::Path;

use quipu::bench::BareRun;
use quipu::cost::Prefetch;
use quipu::histogram::Resolution;
use quipu::{
    Compression, Cursor, Db, Durability, Options, ReadableTable, RunLayout, Table as Rows, TableOptions, WritableTable,
};

use crate::clock::{Deadline, nanos_of};
use crate::latencies::Latencies;
use crate::paired::percent;
use crate::report::{Cell, Table};
use crate::rows::{Draw, fingerprint};
use crate::store::Result;
use crate::ycsb::digest;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "sst-index",
    about: "seek, next, prev, reads, charge and stats of 1, 4 and 10 runs, under trees and flat indexes, by what is cached",
    run,
    child: None,
};

const INDEXES: [(&str, RunLayout); 2] = [("flat", RunLayout::Flat), ("tree", RunLayout::Tree)];
const RUNS: [usize; 3] = [1, 4, 10];
const ASKED_MAX: u64 = 20_000;
/// Answers that must be the same of both indexes.
const COMPARED: usize = 10;

#[derive(Clone, Copy, Debug)]
enum Question {
    SeekRow,
    SeekKey,
    Next,
    Prev,
    Read(u64),
    Prefetch(u64),
    Stats,
    Get,
    GetAbsent,
    Rank,
    Count,
}

impl Question {
    const ALL: [Question; 15] = [
        Question::SeekRow,
        Question::SeekKey,
        Question::Next,
        Question::Prev,
        Question::Read(1),
        Question::Read(50),
        Question::Read(1000),
        Question::Prefetch(1),
        Question::Prefetch(50),
        Question::Prefetch(1000),
        Question::Stats,
        Question::Get,
        Question::GetAbsent,
        Question::Rank,
        Question::Count,
    ];

    fn name(self) -> String {
        match self {
            Question::SeekRow => "seek by row".to_owned(),
            Question::SeekKey => "seek by key".to_owned(),
            Question::Next => "next".to_owned(),
            Question::Prev => "prev".to_owned(),
            Question::Read(rows) => format!("read {rows}"),
            Question::Prefetch(rows) => format!("charge {rows}"),
            Question::Stats => "stats".to_owned(),
            Question::Get => "get".to_owned(),
            Question::GetAbsent => "get, absent".to_owned(),
            Question::Rank => "rank".to_owned(),
            Question::Count => "count".to_owned(),
        }
    }

    /// Asks with a random key or row, and gives a number that stands for the answer.
    fn ask(self, table: &Rows, keys: &[u64], draw: &mut Draw, walk: &mut Cursor<'_, Rows>) -> Result<u64> {
        let mut any = || keys[draw.below(keys.len() as u64) as usize];
        let key_at = |walk: &Cursor<'_, Rows>| walk.key().map_or(0, |key| fingerprint(key));
        Ok(match self {
            Question::SeekRow => {
                let row = table.nth(.., draw.below(keys.len() as u64))?;
                row.map_or(0, |row| fingerprint(&row.key))
            }
            Question::SeekKey => {
                let mut cursor = table.cursor();
                cursor.seek(any().to_be_bytes())?;
                key_at(&cursor)
            }
            Question::Next => {
                let _ = walk.next()? || walk.seek([])?;
                key_at(walk)
            }
            Question::Prev => {
                let _ = walk.prev()? || walk.seek_offset(keys.len() as u64 - 1)?;
                key_at(walk)
            }
            Question::Read(rows) => {
                let (mut left, mut sum) = (rows, 0_u64);
                table.for_each(any().to_be_bytes().as_slice().., |key, value| {
                    sum = sum.wrapping_add(digest(key)).wrapping_add(digest(value));
                    left -= 1;
                    left > 0
                })?;
                sum
            }
            Question::Prefetch(rows) => {
                let charge = Prefetch { rows: Some(rows), ..Prefetch::default() };
                table.prefetch(any().to_be_bytes().as_slice().., charge)?.runs as u64
            }
            Question::Stats => table.histogram(.., Resolution::of_rows((keys.len() as u64 / 100).max(1)))?.rows,
            Question::Get => table.get(any().to_be_bytes())?.map_or(0, |value| digest(&value)),
            Question::GetAbsent => table.get(any().wrapping_add(1).to_be_bytes())?.map_or(0, |value| digest(&value)),
            Question::Rank => table.rank(any().to_be_bytes())?,
            Question::Count => {
                let (a, b) = (any(), any());
                table.count(a.min(b).to_be_bytes().as_slice()..a.max(b).to_be_bytes().as_slice())?
            }
        })
    }
}

/// Measured of one question, one number of runs, and one index.
struct Asked {
    latencies: Latencies,
    pages_read: u64,
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 20_000) {
        let mut draw = Draw::new(bench.options.seed);
        let mut keys: Vec<u64> = (0..count).map(|_| draw.below(u64::MAX)).collect();
        keys.sort_unstable();
        keys.dedup();
        show(shapes(bench, &keys)?);
        tables(bench, &keys, show)?;
    }
    Ok(())
}

/// What values of 100 bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Random bytes, which nothing makes shorter.
    Random,
    /// Such bytes at first, and then what all rows have: as a record of a few fields and their names. LZ4 makes about
    /// half of it.
    Half,
}

/// Random bytes of those that are half of them.
const HALF_RANDOM_BYTES: usize = 41;
const SAME: &[u8; 100 - HALF_RANDOM_BYTES] = br#", "carrier": "none", "status": "on its way", "remarks": ""}"#;

impl Values {
    fn name(self) -> &'static str {
        match self {
            Values::Random => "random",
            Values::Half => "half",
        }
    }

    fn of_key(self, key: u64) -> [u8; 100] {
        let mut value = [0; 100];
        let mut draw = Draw::new(key);
        value.chunks_mut(8).for_each(|part| part.copy_from_slice(&draw.below(u64::MAX).to_le_bytes()[..part.len()]));
        if self == Values::Half {
            value[HALF_RANDOM_BYTES..].copy_from_slice(SAME);
        }
        value
    }
}

/// The runs that are written to see what they come to.
const SHAPES: [(Values, Compression, usize); 7] = [
    (Values::Random, Compression::None, 4096),
    (Values::Random, Compression::None, 8192),
    (Values::Random, Compression::None, 16_384),
    (Values::Random, Compression::Lz4, 4096),
    (Values::Half, Compression::None, 4096),
    (Values::Half, Compression::Lz4, 4096),
    (Values::Half, Compression::Lz4, 16_384),
];

/// What runs of all rows are, by their values, the size of their pages and whether these are packed.
fn shapes(bench: &Bench<'_>, keys: &[u64]) -> Result<Table> {
    let dir = bench.place.fresh()?;
    let mut table = Table::new(
        format!("A run of {} rows of 8-byte keys and 100-byte values", Cell::Count(keys.len() as u64)),
        &[
            "values",
            "compression",
            "page_bytes",
            "levels",
            "leaves",
            "inner pages",
            "inner bytes a child",
            "file",
            "written",
            "scanned",
        ],
    );
    for (values, compression, page_bytes) in SHAPES {
        bench.progress(format_args!("writing {} rows, {values:?}, {compression:?}, {page_bytes}", keys.len()));
        let path = dir.path().join("run");
        let (wrote, read) = write_and_scan(&path, page_bytes, compression, values, keys)?;
        let shape = BareRun::open(&path)?.shape()?;
        let children = (shape.leaves + shape.inner_pages).saturating_sub(1).max(1);
        table.push(vec![
            Cell::text(values.name()),
            Cell::text(if compression == Compression::None { "-" } else { "LZ4" }),
            Cell::Count(page_bytes as u64),
            Cell::Count(shape.levels),
            Cell::Count(shape.leaves),
            Cell::Count(shape.inner_pages),
            Cell::text(format!("{:.1}", shape.inner_bytes as f64 / children as f64)),
            Cell::Bytes(shape.file_bytes as f64),
            Cell::Nanos(wrote),
            Cell::Nanos(read),
        ]);
        std::fs::remove_file(&path)?;
    }
    table.note("Values: random bytes; or 41 of them and 59 that are the same in all rows. Written past the operating system's cache, scanned from there.");
    Ok(table)
}

/// Databases of the same rows, one for each number of runs and each index.
struct Written {
    runs: usize,
    index: usize,
    dir: tempfile::TempDir,
    /// Of all runs.
    file_bytes: u64,
    inner_bytes: u64,
}

impl Written {
    fn new(bench: &Bench<'_>, keys: &[u64], runs: usize, index: usize) -> Result<Written> {
        let (name, run_index) = INDEXES[index];
        bench.progress(format_args!("writing {} rows into {runs} runs, {name}", keys.len()));
        let dir = bench.place.fresh()?;
        let db = Db::open(dir.path(), options(u64::from(u32::MAX)))?;
        let table = db.create_table("t", TableOptions { layout: run_index, ..TableOptions::default() })?;
        let (mut file_bytes, mut inner_bytes) = (0, 0);
        for run in 0..runs {
            for key in keys.iter().skip(run).step_by(runs) {
                table.insert(key.to_be_bytes(), value_of(*key))?;
            }
            table.flush()?;
        }
        drop(table);
        db.close()?;
        for entry in std::fs::read_dir(dir.path())? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"run-")) {
                let shape = BareRun::open(&path)?.shape()?;
                file_bytes += shape.file_bytes;
                inner_bytes += shape.inner_bytes;
            }
        }
        Ok(Written { runs, index, dir, file_bytes, inner_bytes })
    }

    fn open(&self, cache_bytes: u64) -> Result<(Db, Rows)> {
        let db = Db::open(self.dir.path(), options(cache_bytes))?;
        let table = db.ensure_table("t")?;
        let stats = db.stats();
        match stats.tables.first() {
            Some(found) if found.runs == self.runs => Ok((db, table)),
            found => Err(format!("{:?} runs instead of {}", found.map(|found| found.runs), self.runs).into()),
        }
    }
}

/// No thread merges runs.
fn options(cache_bytes: u64) -> Options {
    Options { durability: Durability::None, background: false, cache_bytes, ..Options::default() }
}

/// Bytes of a cache, of the bytes of all files and of all indexes.
type Room = fn(u64, u64) -> u64;

/// What is cached: its name, and the room for it. With room for what a cache takes beside the pages, and for its
/// leaning to what is used again.
const CACHES: [(&str, Room); 4] = [
    ("all", |files, _| 2 * files),
    ("the indexes", |_, indexes| 2 * indexes + (1 << 16)),
    ("10 % of the indexes", |_, indexes| 2 * indexes / 10),
    ("1 % of the indexes", |_, indexes| 2 * indexes / 100),
];

fn tables(bench: &Bench<'_>, keys: &[u64], show: &mut dyn FnMut(Table)) -> Result<()> {
    let mut written = Vec::new();
    for runs in RUNS {
        for index in 0..INDEXES.len() {
            written.push(Written::new(bench, keys, runs, index)?);
        }
    }
    for (cached, room) in CACHES {
        show(one_cache(bench, keys, &written, cached, room)?);
    }
    Ok(())
}

fn one_cache(bench: &Bench<'_>, keys: &[u64], written: &[Written], cached: &str, room: Room) -> Result<Table> {
    let columns =
        ["question", "runs", "flat", "tree", "change", "flat, 99 %", "tree, 99 %", "flat, pages", "tree, pages"];
    let title = format!("{} rows, cached: {cached}", Cell::Count(keys.len() as u64));
    let mut table = Table::new(title, &columns);
    let mut opened = Vec::new();
    for one in written {
        // Both have the same room: that of the tree.
        let tree = written.iter().find(|tree| tree.runs == one.runs && INDEXES[tree.index].1 == RunLayout::Tree);
        let tree = tree.ok_or("a tree was written for each number of runs")?;
        let (db, rows) = one.open(room(tree.file_bytes, tree.inner_bytes))?;
        if cached == CACHES[0].0 {
            bench.progress(format_args!("warming {} runs, {}", one.runs, INDEXES[one.index].0));
            rows.prefetch(.., Prefetch::default())?;
        }
        opened.push((one, db, rows));
    }
    for question in Question::ALL.into_iter().filter(|question| bench.options.wants(&question.name())) {
        for runs in RUNS {
            bench.progress(format_args!("{}, {runs} runs, cached: {cached}", question.name()));
            let both: Vec<_> =
                opened.iter().filter(|(one, ..)| one.runs == runs).map(|(_, db, rows)| (db, rows)).collect();
            let answers: Vec<Vec<u64>> = both
                .iter()
                .map(|(_, rows)| answers(question, rows, keys, bench.options.seed))
                .collect::<Result<_>>()?;
            if answers.iter().any(|other| *other != answers[0]) {
                return Err(format!("{}: the indexes give different answers", question.name()).into());
            }
            let mut asked: Vec<Asked> =
                both.iter().map(|_| Asked { latencies: Latencies::new(), pages_read: 0 }).collect();
            for turn in 0..bench.options.repeat.max(1) {
                for ((db, rows), asked) in both.iter().zip(&mut asked) {
                    ask(bench, question, db, rows, keys, turn, asked)?;
                }
            }
            let [flat, tree] = &asked[..] else { return Err("two indexes are compared".into()) };
            let pages = |asked: &Asked| {
                Cell::text(format!("{:.2}", asked.pages_read as f64 / asked.latencies.count().max(1) as f64))
            };
            table.push(vec![
                Cell::text(question.name()),
                Cell::Count(runs as u64),
                flat.latencies.median(),
                tree.latencies.median(),
                Cell::Percent(percent(flat.latencies.median_nanos(), tree.latencies.median_nanos())),
                flat.latencies.p99(),
                tree.latencies.p99(),
                pages(flat),
                pages(tree),
            ]);
        }
    }
    table.note(
        "Flat, tree: the median of single calls, the clock's cost in it; pages: read from files, on average for a call. Both have the same cache, whose size goes by the trees' inner pages. Read, charge: so many rows from a random key on. Next, prev: a cursor that goes on from where it is. Stats: a histogram of all rows by a hundredth of them.",
    );
    Ok(table)
}

fn answers(question: Question, table: &Rows, keys: &[u64], seed: u64) -> Result<Vec<u64>> {
    let (mut draw, mut walk) = (Draw::new(seed), table.cursor());
    (0..COMPARED).map(|_| question.ask(table, keys, &mut draw, &mut walk)).collect()
}

/// One turn.
fn ask(
    bench: &Bench<'_>,
    question: Question,
    db: &Db,
    table: &Rows,
    keys: &[u64],
    turn: usize,
    asked: &mut Asked,
) -> Result<()> {
    let mut draw = Draw::new(bench.options.seed + 1 + turn as u64);
    let mut walk = table.cursor();
    walk.seek_offset(draw.below(keys.len() as u64))?;
    let before = db.stats().cache_misses;
    let deadline = Deadline::after(bench.options.seconds / 20.0);
    asked.latencies.measure(3, ASKED_MAX, &deadline, || question.ask(table, keys, &mut draw, &mut walk))?;
    asked.pages_read += db.stats().cache_misses - before;
    Ok(())
}

fn value_of(key: u64) -> [u8; 100] {
    let mut value = [0; 100];
    value[..8].copy_from_slice(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    value
}

/// Nanoseconds to write and to scan.
fn write_and_scan(
    path: &Path,
    page_bytes: usize,
    compression: Compression,
    values: Values,
    keys: &[u64],
) -> Result<(f64, f64)> {
    let mut next = keys.iter();
    let mut row = || next.next().map(|&key| (key.to_be_bytes(), values.of_key(key)));
    let (written, write_nanos) = nanos_of(|| BareRun::write(path, page_bytes, compression, &mut row));
    written?;
    let (rows, scan_nanos) = nanos_of(|| BareRun::open(path)?.scan());
    let rows = rows?;
    if rows != keys.len() as u64 {
        return Err(format!("{rows} rows of {}", keys.len()).into());
    }
    Ok((write_nanos as f64, scan_nanos as f64))
}
