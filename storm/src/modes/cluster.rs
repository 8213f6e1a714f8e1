//! The storm over a whole cluster: the mode `cluster`. Plans of requests, faults and changes of members are drawn from
//! seeds and run in virtual time by the cluster's simulation, over plain maps and over the engine with its crashing
//! disk; rules judge what clients were told and what is left (`quipu_cluster::simulation`).
//!
//! Each plan runs twice and must leave the same trace. What fails is shrunk, unless that is not wanted, and told with
//! the plan's own seed.

use std::time::Duration;

use quipu_cluster::simulation::plan::Plan;
use quipu_cluster::simulation::{run as simulate, run_twice, shrink};
use quipu_suite::clock::Deadline;
use quipu_suite::dice::Dice;

use crate::options::Options;
use crate::report::Counters;

/// Runs of a plan that fails, to make it smaller.
const TRIALS: usize = 400;

/// A run, as long as the options say.
pub fn run(seed: u64, options: &Options) -> (Counters, Result<(), String>) {
    let deadline = Deadline::after(Duration::from_secs_f64(options.run_seconds));
    storm(seed, &deadline, options.no_shrink)
}

/// Plans one after the other until the deadline, and one at least.
pub fn storm(seed: u64, deadline: &Deadline, no_shrink: bool) -> (Counters, Result<(), String>) {
    let mut counters = Counters::default();
    let mut dice = Dice::new(seed);
    loop {
        // Few, so that the numbers are as short as those of the cluster's own test.
        let plan_seed = dice.seed() % 1_000_000_000;
        let plan = Plan { has_engine: dice.percent(30), ..Plan::draw(plan_seed) };
        let outcome = run_twice(&plan);
        counters.plans += 1;
        counters.commands += outcome.answered;
        counters.faults += plan.faults.len() as u64;
        if let Some(failure) = outcome.failure {
            return (counters, Err(tell(&plan, &failure, no_shrink)));
        }
        if deadline.passed() {
            return (counters, Ok(()));
        }
    }
}

/// What failed, how to see it again, and the least that still fails.
fn tell(plan: &Plan, failure: &str, no_shrink: bool) -> String {
    let over = if plan.has_engine { "seeds_keep_the_rules_over_the_engine" } else { "every_seed" };
    let again = format!("SEED={} cargo test -p quipu-cluster --test all simulation::{over}", plan.seed);
    if no_shrink {
        return format!("{failure}; again: {again}");
    }
    let small = shrink(plan, TRIALS);
    let failure_of_small = simulate(&small).failure.unwrap_or_default();
    let (operations, faults) = (&small.operations, &small.faults);
    format!("{failure}; again: {again}; smaller: {failure_of_small} after {operations:?} with {faults:?}")
}
