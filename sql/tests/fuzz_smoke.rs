//! Goal: no data of COPY make a decoder panic, and what decodes comes back. Method: the code of the fuzz target
//! `copy_data`, over some thousand random mutations of valid inputs. Replay: SEED=... cargo test -p quipu-sql --test
//! all fuzz_smoke::. WRITE_SEEDS=1 writes the valid inputs to `fuzz/corpus/`.

use quipu_sql::fuzz;
use quipu_testing::seeds::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[test]
#[expect(clippy::disallowed_methods, reason = "seeds of the fuzzer are no files of a database")]
fn copy_data() {
    let valid = fuzz::seeds();
    for (number, seed) in valid.iter().enumerate() {
        fuzz::copy_data(seed);
        if std::env::var("WRITE_SEEDS").is_ok() {
            let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/copy_data");
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(directory.join(format!("seed-{number:02}")), seed).expect("a seed");
        }
    }
    for seed in seeds(20_000) {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = valid[random.random_range(0..valid.len())].clone();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..4) {
                0 => bytes[at] = random.random(),
                1 => bytes[at] = b"\\\"\n\r\t,.N\0"[random.random_range(0..9)],
                2 => bytes.insert(at, b"\\\"\n\r\t,.N\0"[random.random_range(0..9)]),
                _ => bytes.truncate(at.max(3)),
            }
        }
        if std::panic::catch_unwind(|| fuzz::copy_data(&bytes)).is_err() {
            panic!("SEED={seed}: {}", bytes.escape_ascii());
        }
    }
}
