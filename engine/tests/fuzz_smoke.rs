//! Goal: no bytes make a decoder panic, allocate without bound, or let counts go wrong. Method: the code of the fuzz
//! targets in `fuzz/`, over a few thousand random mutations of valid files, records and tuples. A fuzzer finds more;
//! this runs with every `cargo test`. Replay: SEED=... cargo test -p quipu --test all fuzz_smoke. WRITE_SEEDS=1 writes
//! the valid inputs to `fuzz/corpus/`.

use crate::crash_support::{DIR, Lots, Work, live, options, with_seeds};
use quipu::io::sim::SimDisk;
use quipu::tuple::{self, Element};
use quipu::{Db, Durability, Measures, Options, SumField, TableOptions, WritableTable, fuzz};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Files of databases after some work.
fn files(prefix: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for seed in 0..3 {
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let mut work = Work::new(&disk);
        work.open(random).unwrap();
        for _ in 0..20 {
            work.step(random).unwrap();
        }
        work.db().checkpoint().unwrap();
        for _ in 0..4 {
            work.step(random).unwrap();
        }
        drop(work);
        for path in disk.file_names() {
            let bytes = disk.read_file(&path).unwrap();
            if path.file_name().unwrap().to_str().unwrap().starts_with(prefix)
                && bytes.starts_with(b"Quipu")
                && bytes.len() < 20_000
            {
                found.push(bytes);
            }
        }
    }
    found.extend(small_files(prefix));
    found.truncate(12);
    assert!(found.len() >= 3);
    found
}

/// Files of a database with few rows: mutations hit something more often.
fn small_files(prefix: &str) -> Vec<Vec<u8>> {
    let disk = SimDisk::new();
    let db = Db::open(DIR, options(&disk)).unwrap();
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::Element { at: 0 }), ..Measures::ROWS };
    let table =
        db.create_table("t", TableOptions { measures, metadata: b"note".to_vec(), ..TableOptions::default() }).unwrap();
    for row in 0..12u8 {
        table.put([b'k', row], tuple::encode(&[Element::from(i64::from(row))])).unwrap();
    }
    db.checkpoint().unwrap();
    table.put("long", [1; 100]).unwrap();
    table.remove_range(&[b'k', 2][..]..&[b'k', 7][..]).unwrap();
    drop((table, db));
    let names = disk.file_names();
    let wanted = names.iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    wanted.map(|path| disk.read_file(path).unwrap()).filter(|bytes| bytes.starts_with(b"Quipu")).collect()
}

/// The payloads of log records: those of the frames of a log.
fn records() -> Vec<Vec<u8>> {
    let disk = SimDisk::new();
    let db =
        Db::open(DIR, Options { log_segment_bytes: 64 << 10, durability: Durability::Os, ..options(&disk) }).unwrap();
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    let rows = db.ensure_table("rows").unwrap();
    let all = db
        .create_table("all", TableOptions { measures, metadata: b"note".to_vec(), ..TableOptions::default() })
        .unwrap();
    for row in 0..40u8 {
        rows.put([b'a', row], [row; 12]).unwrap();
        all.put([b'a', row], [row; 12]).unwrap();
    }
    all.remove([b'a', 3]).unwrap();
    all.put([b'a', 4], "over").unwrap();
    rows.remove_range(&b"a\x05"[..]..&b"a\x09"[..]).unwrap();
    db.write(|tx| {
        tx.table(&rows)?.put("both", "b")?;
        tx.table(&all)?.remove_range(..).map(|_| ())
    })
    .unwrap();
    // Over runs, of which the key is not known.
    let blind = db.create_table("blind", TableOptions { blind_writes: true, ..TableOptions::default() }).unwrap();
    blind.put("k", "v").unwrap();
    blind.flush().unwrap();
    blind.put("k", "w").unwrap();
    blind.remove("l").unwrap();
    db.drop_table("rows").unwrap();
    drop((rows, all, blind, db));
    let log = disk.read_file(format!("{DIR}/log-0000000001.quipu")).expect("a segment");
    let mut found = Vec::new();
    let mut at = 128;
    while let Some(word) = log.get(at + 4..at + 8) {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        let length = (word & ((1 << 30) - 1)) as usize;
        if word == 0 {
            break;
        }
        // The frame of an opening is no record.
        if length > 0 {
            found.push(log[at + 24..at + 24 + length].to_vec());
        }
        at += 24 + length.next_multiple_of(8);
    }
    // One of each kind, and all as one.
    let all = found[2..].concat();
    found.sort_by_key(|record| (record[0], record[1], record.len()));
    found.dedup_by_key(|record| (record[0], record[1], record.len()));
    found.push(all);
    found
}

fn tuple_seeds() -> Vec<Vec<u8>> {
    let tuples: [&[Element<'_>]; 4] = [
        &[Element::Null, Element::Bool(true), Element::Bool(false), Element::from(0)],
        &[Element::Int(i64::MIN.into()), Element::Int(-1), Element::Int(255), Element::Int(i128::MAX)],
        &[Element::Float(f64::NAN), Element::Float(-0.0), Element::Float(1.5), Element::Float(f64::NEG_INFINITY)],
        &[Element::from("a\0b"), Element::Bytes(vec![0, 255, 0].into()), Element::from("JFK"), Element::from(7)],
    ];
    tuples.iter().map(|elements| tuple::encode(elements)).collect()
}

/// A few changes of the kinds that fuzzers make.
fn mutate(random: &mut impl Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..6) {
        if bytes.is_empty() {
            bytes.push(random.random());
        }
        // Headers, footers and the starts of things are more interesting than the rest.
        let at = match random.random_range(0..4) {
            0 => random.random_range(0..bytes.len().min(160)),
            1 => bytes.len() - 1 - random.random_range(0..bytes.len().min(160)),
            _ => random.random_range(0..bytes.len()),
        };
        match random.random_range(0..8) {
            0 | 1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = random.random(),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            4 => {
                let number: u64 =
                    [0, 1, u64::MAX, 1 << 31, 1 << 63, bytes.len() as u64, random.random()][random.random_range(0..7)];
                let width = [1, 2, 4, 8][random.random_range(0..4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            5 => bytes.truncate(at),
            6 => {
                let end = (at + random.random_range(1..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.random_range(0..=bytes.len());
                bytes.splice(to..to, part);
            }
            _ => {
                let from = random.random_range(0..=other.len());
                let end = (from + random.random_range(0..60)).min(other.len());
                let to = (at + end - from).min(bytes.len());
                bytes.splice(at..to, other[from..end].iter().copied());
            }
        }
    }
}

/// Runs a target over its seeds and over mutations of them.
fn smoke(name: &str, seeds: &[Vec<u8>], rounds: u64, target: impl Fn(&[u8])) {
    for (number, seed) in seeds.iter().enumerate() {
        target(seed);
        write_seed(name, number, seed);
    }
    with_seeds(rounds, |seed| {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
        let other = &seeds[random.random_range(0..seeds.len())];
        mutate(random, &mut bytes, other);
        target(&bytes);
    });
}

#[expect(clippy::disallowed_methods, reason = "seeds of the fuzzer are no files of a database")]
fn write_seed(name: &str, number: usize, seed: &[u8]) {
    if std::env::var("WRITE_SEEDS").is_err() {
        return;
    }
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("seed-{number:02}")), seed).unwrap();
}

#[test]
fn log_segments() {
    smoke("log_segment", &files("log-0"), 10_000, fuzz::log_segment);
}

#[test]
fn log_records() {
    smoke("log_record", &records(), 15_000, |bytes| drop(fuzz::log_record(bytes)));
}

#[test]
fn run_files() {
    let mut seeds = files("run-");
    seeds.push(fuzz::filtered_run().unwrap());
    seeds.push(fuzz::packed_run(true).unwrap().0);
    smoke("run_file", &seeds, 10_000, fuzz::run_file);
}

#[test]
fn packed_leaves() {
    let (run, packed) = fuzz::packed_run(false).unwrap();
    smoke("packed_leaf", &[packed, run, vec![0; 4096]], 10_000, fuzz::packed_leaf);
}

#[test]
fn manifests() {
    smoke("manifest", &files("MANIFEST"), 20_000, fuzz::manifest);
}

#[test]
fn tuple_encodings() {
    smoke("tuple", &tuple_seeds(), 40_000, crate::tuples::examine);
}

#[test]
fn models() {
    let seeds: Vec<Vec<u8>> = (0..4)
        .map(|seed| {
            let mut bytes = vec![0; 1500];
            StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
            bytes
        })
        .collect();
    smoke("model", &seeds, 60, |bytes| live(&mut Lots::new(bytes), 10));
}
