//! Questions of one run in a file: rows of 8-byte keys and 100-byte values, under a tree and under a flat index, with a cache for all of it, for its index, and for a tenth
//! and a hundredth of that.
//!
//! Each question is a reader of its own, which holds nothing when it begins. What the cache does not have comes from the file, which the operating system
//! may have in memory.

use quipu::Compression;
use quipu::bench::{Answer, BareRun};

use crate::clock::nanos_of;
use crate::latencies::Latencies;
use crate::report::{Cell, Table};
use crate::rows::Draw;
use crate::store::Result;
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "sst-index",
    about: "get, count, rank and nth of a run in a file, under a tree and a flat index, by what is cached",
    run,
    child: None,
};

const ASKED: usize = 20_000;
/// Of a flat index that does not fit its cache, which is read anew for each question.
const ASKED_SLOWLY: usize = 20;

/// A question, asked of a run whose sorted keys are given.
type Ask = fn(&BareRun, &[u64], &mut Draw) -> Result<Answer>;

const QUESTIONS: [(&str, Ask); 5] = [
    ("get", |run, keys, draw| Ok(run.get(&any(keys, draw).to_be_bytes())?)),
    ("get, absent", |run, keys, draw| Ok(run.get(&any(keys, draw).wrapping_add(1).to_be_bytes())?)),
    ("rank", |run, keys, draw| Ok(run.rank(&any(keys, draw).to_be_bytes())?)),
    ("count", |run, keys, draw| {
        let (a, b) = (any(keys, draw), any(keys, draw));
        Ok(run.count(&a.min(b).to_be_bytes(), &a.max(b).to_be_bytes())?)
    }),
    ("nth", |run, keys, draw| Ok(run.nth(draw.below(keys.len() as u64))?)),
];

/// What values of 100 bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Random bytes, which nothing makes shorter.
    Random,
    /// Such bytes at first, and then what all rows have: as a record of a few fields and their names. LZ4 makes about half of it.
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

/// The runs that are written; the second is asked more.
const RUNS: [(Values, Compression, usize); 9] = [
    (Values::Random, Compression::None, 4096),
    (Values::Random, Compression::None, 8192),
    (Values::Random, Compression::None, 16_384),
    (Values::Random, Compression::Lz4, 8192),
    (Values::Half, Compression::None, 8192),
    (Values::Half, Compression::Lz4, 4096),
    (Values::Half, Compression::Lz4, 8192),
    (Values::Half, Compression::Lz4, 16_384),
    (Values::Half, Compression::Lz4, 32_768),
];

fn any(keys: &[u64], draw: &mut Draw) -> u64 {
    keys[draw.below(keys.len() as u64) as usize]
}

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 20_000) {
        one_size(bench, count, show)?;
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64, show: &mut dyn FnMut(Table)) -> Result<()> {
    let dir = bench.place.fresh()?;
    let path = dir.path().join("run");
    let mut draw = Draw::new(bench.options.seed);
    let mut keys: Vec<u64> = (0..count).map(|_| draw.below(u64::MAX)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut shapes = Table::new(
        format!("A run of {} rows of 8-byte keys and 100-byte values", Cell::Count(count)),
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
            "get, leaf from the file",
        ],
    );
    for (values, compression, page_bytes) in RUNS {
        bench.progress(format_args!("writing {count} rows, {values:?}, {compression:?}, pages of {page_bytes}"));
        let written = dir.path().join("written");
        let (wrote, read) = write_and_scan(&written, page_bytes, compression, values, &keys)?;
        let shape = BareRun::open(&written, 0)?.shape()?;
        let children = (shape.leaves + shape.inner_pages).saturating_sub(1).max(1);
        let run = BareRun::open(&written, 2 * shape.inner_bytes + (1 << 16))?;
        let mut latencies = Latencies::new();
        for _ in 0..ASKED.min(keys.len()) {
            let (answer, nanos) = nanos_of(|| run.get(&any(&keys, &mut draw).to_be_bytes()));
            answer?;
            latencies.record(nanos);
        }
        shapes.push(vec![
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
            latencies.median(),
        ]);
        if (values, compression, page_bytes) == RUNS[1] {
            std::fs::rename(&written, &path)?;
        } else {
            std::fs::remove_file(&written)?;
        }
    }
    shapes.note("Values: random bytes; or 41 of them and 59 that are the same in all rows. Written past the operating system's cache, scanned and asked from there.");
    show(shapes);
    let tree = BareRun::open(&path, 0)?;
    let shape = tree.shape()?;
    let flat_path = dir.path().join("flat");
    bench.progress(format_args!("writing them under a flat index"));
    tree.write_flat(&flat_path)?;
    // With room for what a cache takes beside the pages, and for its leaning to what is used again.
    let index_bytes = 2 * shape.inner_bytes;
    let caches = [
        ("all", 2 * shape.file_bytes),
        ("the index", index_bytes + (1 << 16)),
        ("10 % of it", index_bytes / 10),
        ("1 % of it", index_bytes / 100),
    ];
    let mut opened = Vec::new();
    for (cached, cache_bytes) in caches {
        for (index, path) in [("tree", &path), ("flat", &flat_path)] {
            bench.progress(format_args!("opening, {index}, cached: {cached}"));
            let run = BareRun::open(path, cache_bytes)?;
            if cached == "all" {
                // Every leaf is asked for once.
                for key in keys.iter().step_by(20) {
                    run.rank(&key.to_be_bytes())?;
                }
            }
            let is_slow = index == "flat" && cache_bytes < index_bytes;
            let asked = if is_slow { ASKED_SLOWLY } else { ASKED }.min(keys.len());
            opened.push((cached, index, run, asked));
        }
    }
    let columns = ["question", "cached", "index", "asked", "median", "99 %", "pages read"];
    let mut table = Table::new(format!("Questions of a run of {} rows", Cell::Count(count)), &columns);
    for (name, ask) in QUESTIONS.into_iter().filter(|(name, _)| bench.options.wants(name)) {
        for (cached, index, run, asked) in &opened {
            bench.progress(format_args!("{name}, {index}, cached: {cached}"));
            let mut draw = Draw::new(bench.options.seed + 1);
            let (mut latencies, mut pages_read) = (Latencies::new(), 0);
            for _ in 0..*asked {
                let (answer, nanos) = nanos_of(|| ask(run, &keys, &mut draw));
                latencies.record(nanos);
                pages_read += answer?.pages_read;
            }
            table.push(vec![
                Cell::text(name),
                Cell::text(*cached),
                Cell::text(*index),
                Cell::Count(latencies.count()),
                latencies.median(),
                latencies.p99(),
                Cell::text(format!("{:.2}", pages_read as f64 / *asked as f64)),
            ]);
        }
    }
    table.note("Pages read: from the file, on average for a question; a reader begins with none of its own.");
    show(table);
    Ok(())
}

/// Nanoseconds to write and to scan.
fn write_and_scan(
    path: &std::path::Path,
    page_bytes: usize,
    compression: Compression,
    values: Values,
    keys: &[u64],
) -> Result<(f64, f64)> {
    let mut next = keys.iter();
    let mut row = || next.next().map(|&key| (key.to_be_bytes(), values.of_key(key)));
    let (written, write_nanos) = nanos_of(|| BareRun::write(path, page_bytes, compression, &mut row));
    written?;
    let (rows, scan_nanos) = nanos_of(|| BareRun::open(path, 0)?.scan());
    let rows = rows?;
    if rows != keys.len() as u64 {
        return Err(format!("{rows} rows of {}", keys.len()).into());
    }
    Ok((write_nanos as f64, scan_nanos as f64))
}
