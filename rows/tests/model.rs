//! Goal: rows, indexes, constraints and changes of schemas agree with the model. Method: random statements,
//! transactions, loads, schema changes, index builds beside writers, flushes and reopenings at tiny pages; after every
//! step everything that can be asked of tables and indexes is compared with plain maps, now, in old snapshots and in
//! open transactions, and the checker finds nothing. Replay: SEED=... cargo test -p quipu-rows --test all model::

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Durability, Options};
use quipu_rows::table_model::world::World;
use rand::SeedableRng;
use rand::rngs::StdRng;

use quipu_testing::seeds::seeds;

fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 256,
        run_page_bytes: 256,
        run_file_bytes: 2000,
        log_segment_bytes: 64 << 10,
        memory_bytes: 64 << 20,
        background: false,
        durability: Durability::Os,
        ..Options::default()
    }
}

#[test]
fn rows_are_those_of_plain_maps_whatever_happens() {
    let (mut commits, mut conflicts) = (0, 0);
    for seed in seeds(5) {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let mut world = World::open(options(&disk)).unwrap();
        for _ in 0..250 {
            world.step(random).unwrap();
            world.judge(random);
        }
        world.reopen().unwrap();
        world.judge(random);
        // A process that is killed leaves what was committed.
        let database = world.database();
        let candidates = world.expected.candidates(database.db().latched().read().sequence());
        world.close();
        drop(database);
        world.options.disk = Arc::new(disk.kill());
        world.reopen().unwrap();
        world.expected.take_present(&world.database(), candidates).unwrap();
        world.judge(random);
        commits += world.commits;
        conflicts += world.conflicts;
    }
    println!("{commits} commits of transactions, {conflicts} conflicts");
}
