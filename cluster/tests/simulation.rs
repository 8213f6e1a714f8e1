//! Goal: whatever happens to a cluster, nothing acknowledged is lost and nothing stale is read, and when the faults end
//! it heals. Method: plans drawn from seeds, run in virtual time, judged by the six rules of `simulation::checker`.
//! Replay: SEED=... cargo test -p quipu-cluster --test simulation; more: SEEDS=100000

use quipu_cluster::node::Mutations;
use quipu_cluster::simulation::plan::Plan;
use quipu_cluster::simulation::{run, run_twice, shrink};

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

/// Runs plans with a fault in the machine until the checker finds one.
fn is_found(name: &str, mutate: impl Fn(&mut Mutations)) -> Option<(u64, String)> {
    (0..environment("SEEDS").unwrap_or(600)).find_map(|seed| {
        let mut plan = Plan::draw(seed);
        mutate(&mut plan.mutations);
        run(&plan).failure.map(|failure| {
            println!("{name}: seed {seed}: {}", failure.chars().take(160).collect::<String>());
            (seed, failure)
        })
    })
}

/// A checker that finds nothing proves nothing: each of these faults must be found.
#[test]
fn the_checker_finds_faults_that_are_put_in() {
    let mutations: [(&str, fn(&mut Mutations)); 7] = [
        ("`Older` is a confirmation", |m| m.older_is_ack = true),
        ("the first answer wins", |m| m.first_answer_wins = true),
        ("a copying replica answers", |m| m.answers_while_copying = true),
        ("tombstones go at once", |m| m.drops_graves_early = true),
        ("answers before `ack` confirmations", |m| m.answers_early = true),
        ("a partition is counted twice", |m| m.counts_twice = true),
        ("writes go to old replicas alone", |m| m.writes_old_only = true),
    ];
    let missed: Vec<&str> =
        mutations.iter().filter(|(name, mutate)| is_found(name, mutate).is_none()).map(|(name, _)| *name).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The same over the engine and its crashing disk: one log record a turn, tallies of real trees, `check` in the end.
#[test]
fn seeds_keep_the_rules_over_the_engine() {
    let seeds = match environment("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..environment("SEEDS").unwrap_or(300) / 10,
    };
    for seed in seeds {
        judge(&Plan { has_engine: true, ..Plan::draw(seed) }, &format!("over the engine, SEED={seed}"));
    }
}
