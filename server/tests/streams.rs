//! Goal: no stream of commands makes a command panic, leaves keys, elements and deadlines at odds, or answers otherwise in batches than one by one.
//! Method: the code of the fuzz target `commands` over random bytes. A fuzzer finds more; this runs with every `cargo test`.
//! Replay: SEED=... cargo test -p quipu-server --test streams.

use quipu_server::fuzz;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Streams that are played.
const STREAMS: u64 = 300;

#[test]
fn random_streams_keep_the_keyspace_whole() {
    let seed: Option<u64> = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let seeds = seed.map_or(0..STREAMS, |seed| seed..seed + 1);
    for seed in seeds {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; random.random_range(20..2000)];
        random.fill_bytes(&mut bytes);
        bytes[0] |= 1;
        println!("SEED={seed}");
        fuzz::commands(&bytes);
    }
}

#[test]
fn a_stream_of_bytes_is_played_up_to_its_first_fault() {
    fuzz::commands(b"\0set a 1\r\n*2\r\n$4\r\nincr\r\n$1\r\na\r\nzadd z 1 m 2 n\r\nmulti\r\nexec\r\n$9\r\nbroken");
}
