//! Simulates clusters of many nodes with light data and prints what `docs/internals/cluster.md` quotes:
//!
//!     cargo run --release -p quipu-cluster --features simulation --example large -- 10 100 1000
//!
//! All times are virtual; only the first column tells how long this machine took.

use std::collections::BTreeMap;

use quipu_cluster::api::{Answer, Range, Request};
use quipu_cluster::ids::{NodeId, Quorum};
use quipu_cluster::limits::Limits;
use quipu_cluster::node::Mutations;
use quipu_cluster::peers::Health;
use quipu_cluster::placement::partitions_for;
use quipu_cluster::simulation::plan::{Fault, FaultKind, Plan};
use quipu_cluster::simulation::world::World;

const KEYS_A_NODE: usize = 20;
const VALUE_BYTES: usize = 100;

fn world(nodes: usize) -> World {
    let plan = Plan {
        seed: 7,
        nodes,
        replicas: 3.min(nodes as u8),
        partitions: partitions_for(nodes),
        skews_ms: Vec::new(),
        loss: 0,
        duplication: 0,
        delay_ms_max: 1,
        sync_ms_max: 1,
        chaos_ms: u64::MAX / 4,
        operations: Vec::new(),
        faults: Vec::new(),
        has_engine: false,
        mutations: Mutations::default(),
    };
    World::new(plan, Limits { repair_every_ms: 3_600_000, ..Limits::default() })
}

fn wait(world: &mut World, ms: u64) {
    let until_us = world.now_us + ms * 1000;
    world.run_until(until_us);
}

/// Waits until something is so. Returns after how many milliseconds; none after `most_ms`.
fn wait_for(world: &mut World, most_ms: u64, is_so: impl Fn(&World) -> bool) -> Option<u64> {
    let begun_us = world.now_us;
    while world.now_us < begun_us + most_ms * 1000 {
        if is_so(world) {
            return Some((world.now_us - begun_us) / 1000);
        }
        wait(world, 50);
    }
    None
}

fn load(world: &mut World, first: usize, count: usize) {
    let slots: Vec<usize> = world.up().map(|(slot, _)| slot).collect();
    for number in first..first + count {
        let request = Request::Put {
            key: format!("key:{number:08}").into_bytes(),
            value: Some(vec![b'v'; VALUE_BYTES]),
            ttl_ms: None,
            quorum: Some(Quorum { ack: 2, from: 3 }),
            condition: None,
        };
        world.request(slots[number % slots.len()], usize::MAX, request);
        if number % 50 == 49 {
            wait(world, 5);
        }
    }
    wait(world, 3000);
}

fn count(world: &mut World, slot: usize) -> (u64, u64) {
    let event = world.history.len();
    let range = Range { start: b"key:".to_vec(), end: Vec::new() };
    world.request(slot, usize::MAX, Request::Count { range, ack: 1 });
    wait(world, 900);
    let found = &world.history[event];
    let ms = found.ended_us.map_or(u64::MAX, |ended| (ended - found.invoked_us) / 1000);
    match &found.answer {
        Some(Answer::Count { rows, .. }) => (*rows, ms),
        answer => panic!("the count was answered {answer:?}"),
    }
}

/// Nodes that do not believe that the node is up.
fn doubters(world: &World, node: NodeId) -> usize {
    let doubts = |health: &[(NodeId, Health)]| health.iter().any(|(id, health)| *id == node && *health != Health::Up);
    let all = world.slots.iter().filter_map(|slot| slot.node.as_ref());
    all.filter(|other| other.id() != node && doubts(&other.health_of_all())).count()
}

fn simulate(nodes: usize) {
    let mut world = world(nodes);
    wait(&mut world, 5000);
    let partitions = world.agreed.topology().partitions;
    let imbalance = world.agreed.topology().placement(&world.agreed.topology().placed).imbalance_thousandths();
    println!("\n{nodes} nodes, {partitions} partitions, fullest node {imbalance} thousandths of the mean");

    let (frames, bytes) = world.delivered;
    wait(&mut world, 10_000);
    let per_node = |now: u64, before: u64| (now - before) as f64 / 10.0 / nodes as f64;
    println!(
        "  at rest: {:.1} frames and {:.0} bytes a second and node",
        per_node(world.delivered.0, frames),
        per_node(world.delivered.1, bytes)
    );

    let keys = nodes * KEYS_A_NODE;
    load(&mut world, 0, keys);
    let written = world.history.iter().filter(|event| matches!(event.answer, Some(Answer::Written { .. }))).count();
    let frames = world.delivered.0;
    let (rows, ms) = count(&mut world, 0);
    println!(
        "  {written} of {keys} keys written; the cluster counts {rows} in {ms} ms, {} frames",
        world.delivered.0 - frames
    );

    let victim = nodes / 2;
    let id = world.slots[victim].id;
    world.inflict(&Fault { at_ms: 0, for_ms: 25_000, kind: FaultKind::Pause { slot: victim } });
    let first = wait_for(&mut world, 20_000, |world| doubters(world, id) > 0);
    let all = wait_for(&mut world, 25_000, |world| doubters(world, id) + 1 >= nodes);
    let begun = |later: Option<u64>| first.zip(later).map(|(first, later)| first + later);
    println!("  a stopped node: noticed by the first after {first:?} ms, by all after {:?} ms", begun(all));
    let hints = world.sum(|metrics| metrics.hints_left);
    load(&mut world, keys, keys / 4);
    let left = world.sum(|metrics| metrics.hints_left) - hints;
    wait_for(&mut world, 30_000, |world| doubters(world, id) == 0);
    let healed = wait_for(&mut world, 30_000, |world| world.slots.iter().all(has_no_hints));
    println!("  it missed {left} writes; back, it has them after {healed:?} ms more");

    let (bytes, before) = (world.sum(|metrics| metrics.repair_bytes), world.agreed.topology().clone());
    let begun_us = world.now_us;
    world.inflict(&Fault { at_ms: 0, for_ms: 1, kind: FaultKind::Join });
    wait(&mut world, 200);
    let joined = wait_for(&mut world, 120_000, |world| {
        world.agreed.topology().change.is_none() && world.agreed.topology().placed.len() > nodes
    });
    assert!(joined.is_some(), "the join has not ended");
    let after = world.agreed.topology().clone();
    let moved = before.placement(&before.placed).moved(&after.placement(&after.placed));
    let sent = world.sum(|metrics| metrics.repair_bytes) - bytes;
    let replicas = u64::from(partitions) * u64::from(before.replicas);
    println!(
        "  a join: {} ms, {moved} of {replicas} replicas moved (share {:.4}, ideal {:.4}), {sent} bytes",
        (world.now_us - begun_us) / 1000,
        moved as f64 / replicas as f64,
        1.0 / (nodes as f64 + 1.0),
    );
    println!("    of {} bytes of rows that moved there", moved_bytes(&world, nodes));
    let (rows, _) = count(&mut world, 1);
    println!("  the cluster counts {rows}");
    assert_eq!(rows as usize, keys + keys / 4, "nothing is counted twice and nothing is missed");
    assert_eq!(world.failure, None);
}

fn has_no_hints(slot: &quipu_cluster::simulation::slot::Slot) -> bool {
    slot.node.is_none() || slot.store.rows(quipu_cluster::tables::Table::Hints).is_empty()
}

/// Bytes of rows on the node that joined.
fn moved_bytes(world: &World, slot: usize) -> usize {
    let rows: BTreeMap<Vec<u8>, Vec<u8>> = world.slots[slot].store.rows(quipu_cluster::tables::Table::Entities);
    rows.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    for nodes in if sizes.is_empty() { vec![10, 100] } else { sizes } {
        simulate(nodes);
    }
}
