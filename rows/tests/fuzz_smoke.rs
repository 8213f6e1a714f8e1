//! Goal: no bytes of a row, of its key, of a schema or of a definition make a decoder panic, and what decodes comes
//! back. Method: the code of the fuzz targets in `fuzz/`, over some thousand random mutations of valid inputs. A fuzzer
//! finds more; this runs with every `cargo test`. Replay: SEED=... cargo test -p quipu-rows --test all fuzz_smoke::.
//! WRITE_SEEDS=1 writes the valid inputs to `fuzz/corpus/`.

use quipu_rows::fuzz;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Changes some bytes, or takes some of another input.
fn mutate(random: &mut StdRng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..6) {
        if bytes.is_empty() {
            bytes.push(random.random());
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..7) {
            0 | 1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = random.random(),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'(', b'"'][random.random_range(0..7)],
            4 => bytes.truncate(at),
            5 => {
                let part = bytes[at..(at + random.random_range(1..40)).min(bytes.len())].to_vec();
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
fn smoke(name: &str, rounds: u64, target: fn(&[u8])) {
    let seeds: Vec<Vec<u8>> = fuzz::seeds().into_iter().filter(|(of, _)| *of == name).map(|(_, bytes)| bytes).collect();
    assert!(seeds.len() >= 4, "{}", seeds.len());
    for (number, seed) in seeds.iter().enumerate() {
        target(seed);
        write_seed(name, number, seed);
    }
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..rounds, |seed: u64| seed..seed + 1) {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
        let other = &seeds[random.random_range(0..seeds.len())];
        mutate(random, &mut bytes, other);
        if std::panic::catch_unwind(|| target(&bytes)).is_err() {
            panic!("SEED={seed}: {}", bytes.escape_ascii());
        }
    }
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
fn rows() {
    smoke("row", 40_000, fuzz::row);
}

#[test]
fn keys_of_rows() {
    smoke("row_key", 20_000, fuzz::row_key);
}

#[test]
fn schemas_and_definitions() {
    smoke("schema", 10_000, fuzz::schema);
}
