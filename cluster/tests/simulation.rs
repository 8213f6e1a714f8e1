//! Goal: whatever happens to a cluster, nothing acknowledged is lost and nothing stale is read, and when the faults end
//! it heals. Method: plans drawn from seeds, run in virtual time, judged by the six rules of `simulation::checker`.
//! Replay: SEED=... cargo test -p quipu-cluster --test simulation; more: SEEDS=100000

use quipu_cluster::simulation::plan::Plan;
use quipu_cluster::simulation::{run_twice, shrink};

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn judge(plan: &Plan, name: &str) -> u64 {
    let outcome = run_twice(plan);
    if let Some(failure) = outcome.failure {
        let small = shrink(plan, 400);
        let again = quipu_cluster::simulation::run(&small).failure;
        small.operations.iter().for_each(|operation| println!("{operation:?}"));
        small.faults.iter().for_each(|fault| println!("{fault:?}"));
        let rest = Plan { operations: Vec::new(), faults: Vec::new(), ..small };
        panic!("{name}: {failure}\nsmaller: {again:?}\n{rest:?}");
    }
    outcome.answered
}

#[test]
fn every_seed_keeps_the_rules() {
    let seeds = match environment("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..environment("SEEDS").unwrap_or(300),
    };
    let count = seeds.end - seeds.start;
    let answered: u64 = seeds.map(|seed| judge(&Plan::draw(seed), &format!("SEED={seed}"))).sum();
    println!("{count} seeds, {answered} requests answered");
    assert!(count < 100 || answered > 20 * count, "too little was answered for a test: {answered}");
}
