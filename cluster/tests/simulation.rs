//! Goal: whatever happens to a cluster, nothing acknowledged is lost and nothing stale is read, and when the faults end
//! it heals. Method: plans drawn from seeds, run in virtual time, judged by the rules of `simulation::checker`.
//! Replay: SEED=... cargo test -p quipu-cluster --test all simulation::; more: SEEDS=100000, SEEDS_FROM=...

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use quipu_cluster::clock::time_of_ms;
use quipu_cluster::ids::{Partition, Quorum};
use quipu_cluster::limits::Limits;
use quipu_cluster::node::Mutations;
use quipu_cluster::peers::Health;
use quipu_cluster::simulation::plan::{Ask, Fault, FaultKind, Operation, Plan};
use quipu_cluster::simulation::world::World;
use quipu_cluster::simulation::{report, run, run_twice, shrink};
use quipu_testing::seeds::seeds;

fn judge(plan: &Plan, name: &str) -> u64 {
    let outcome = run_twice(plan);
    if let Some(failure) = outcome.failure {
        panic!("{name}: {failure}\n{}", smaller(plan));
    }
    outcome.answered
}

/// A smaller plan that fails, with all that it has.
fn smaller(plan: &Plan) -> String {
    let small = shrink(plan, 400);
    format!("smaller: {:?}\n{}", run(&small).failure, report(&small))
}

#[test]
fn every_seed_keeps_the_rules() {
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    let (mut answered, mut failing) = (0, Vec::new());
    for seed in seeds {
        let outcome = run_twice(&Plan::draw(seed));
        answered += outcome.answered;
        if let Some(failure) = outcome.failure {
            println!("SEED={seed}: {failure}");
            failing.push(seed);
        }
    }
    println!("{count} seeds, {answered} requests answered");
    if let Some(first) = failing.first() {
        panic!("{} of {count} seeds fail: {failing:?}. SEED={first}: {}", failing.len(), smaller(&Plan::draw(*first)));
    }
    assert!(count < 100 || answered > 20 * count, "too little was answered for a test: {answered}");
}

/// Runs plans with a fault in the machine until the checker finds one.
fn is_found(name: &str, mutate: impl Fn(&mut Mutations)) -> Option<(u64, String)> {
    (0..1500).find_map(|seed| {
        let mut plan = Plan::draw(seed);
        mutate(&mut plan.mutations);
        run(&plan).failure.map(|failure| {
            println!("{name}: seed {seed}: {}", failure.chars().take(1000).collect::<String>());
            (seed, failure)
        })
    })
}

/// A checker that finds nothing proves nothing: each of these faults must be found.
#[test]
fn the_checker_finds_faults_that_are_put_in() {
    type Mutate = fn(&mut Mutations);
    let mutations: [(&str, Mutate); 23] = [
        ("`Older` is a confirmation", |m| m.older_is_ack = true),
        ("the first answer wins", |m| m.first_answer_wins = true),
        ("a write that a replica may have was refused for lack of space", |m| m.full_is_certain = true),
        ("a copying replica answers", |m| m.answers_while_copying = true),
        ("tombstones go at once", |m| m.drops_graves_early = true),
        ("answers before `ack` confirmations", |m| m.answers_early = true),
        ("a partition is counted twice", |m| m.counts_twice = true),
        ("writes go to old replicas alone", |m| m.writes_old_only = true),
        ("a clock that was ahead stays there", |m| m.clock_never_goes_back = true),
        ("a stamp above a far version takes the clock along", |m| {
            (m.far_stamp_moves_clock, m.clock_never_goes_back) = (true, true);
        }),
        ("any line is drawn, taken and trusted", |m| {
            (m.line_is_leaders_own, m.takes_any_line) = (true, true);
            (m.trusts_any_horizon, m.keeps_far_horizon, m.forgets_lines) = (true, true, true);
        }),
        ("what is far ahead is refused though a replica has it", |m| m.refuses_known = true),
        ("a note that a key has moved is answered as absent", |m| m.note_is_absent = true),
        ("a note destroys the copy", |m| m.note_destroys_copy = true),
        ("a tombstone of expiry wins before it is due", |m| m.early_tombstone_wins = true),
        ("a write is stamped again though it may be stored", |m| m.stamps_after_stored = true),
        ("a copy does not take the floor along, and a horizon of a clock that was ahead is trusted and stays", |m| {
            (m.copies_no_floor, m.trusts_any_horizon, m.keeps_far_horizon) = (true, true, true);
        }),
        ("a copy does not take the floor along, and floors that are known are not topped at once", |m| {
            (m.copies_no_floor, m.forgets_lines) = (true, true);
        }),
        ("a round that ends goes on waiting for answers", |m| m.round_leaves_questions = true),
        ("a change of members cannot be aborted", |m| m.abort_is_ignored = true),
        ("no member is declared dead while members change", |m| m.dead_wait_for_change = true),
        ("a change goes on though it gives places to dead nodes alone", |m| m.dead_get_places = true),
        ("what only a leaving node has leaves with it", |m| m.leaves_with_rows = true),
    ];
    // A node that copies and keeps the horizon it had, does not know which `from` are in use, or goes on in the next
    // epoch, has a plan of its own: draws find these too seldom.
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, mutate)) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_found(name, mutate).is_none() {
                        missed.lock().expect("no panic").push(*name);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no panic");
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The same over the engine and its crashing disk: one log record a turn, tallies of real trees, `check` in the end.
#[test]
fn seeds_keep_the_rules_over_the_engine() {
    for seed in seeds(15) {
        judge(&Plan { has_engine: true, ..Plan::draw(seed) }, &format!("over the engine, SEED={seed}"));
    }
}

fn put(at_ms: u64, slot: usize, key: u8, quorum: Quorum) -> Operation {
    Operation { at_ms, slot, key, quorum, ask: Ask::Put { ttl_ms: 0 } }
}

/// A plan in which nothing happens by chance.
pub fn quiet(seed: u64, nodes: usize, replicas: u8, partitions: u32) -> Plan {
    Plan {
        nodes,
        replicas,
        partitions,
        skews_ms: vec![0; 8],
        loss: 0,
        duplication: 0,
        delay_ms_max: 1,
        sync_ms_max: 0,
        operations: Vec::new(),
        faults: Vec::new(),
        ..Plan::draw(seed)
    }
}

/// A write was sent to the old replica, which had begun the next epoch and refused it. The coordinator, which had begun
/// it meanwhile, sent it again: under the new epoch, and to the old replica alone. That had been copied by then.
#[test]
fn found_a_write_that_outlived_its_epoch_went_to_the_old_replicas() {
    let one = Quorum { ack: 1, from: 1 };
    let mut plan = Plan { delay_ms_max: 60, sync_ms_max: 10, chaos_ms: 2777, ..quiet(2378, 5, 1, 2) };
    plan.operations = vec![Operation { ask: Ask::Delete, ..put(245, 3, 2, one) }, put(249, 3, 3, one)];
    plan.faults = vec![Fault { at_ms: 244, for_ms: 3668, kind: FaultKind::Leave { slot: 0 } }];
    judge(&plan, "leave");
    judge(&Plan::draw(2378), "SEED=2378");
}

/// A blocking read through a node of the next epoch wrote back to the new replica only; then the old one, which was cut
/// off and knew nothing of the change's second phase, answered less.
#[test]
fn found_a_blocking_read_wrote_back_to_one_of_two_placements() {
    let one = Quorum { ack: 1, from: 1 };
    let read = |at_ms, slot, is_blocking| Operation { ask: Ask::Get { is_blocking }, ..put(at_ms, slot, 3, one) };
    let mut plan = Plan { chaos_ms: 8768, ..quiet(1281, 1, 1, 4) };
    plan.operations = vec![put(1486, 1, 3, one), read(1735, 1, true), read(1941, 0, false)];
    plan.faults = vec![
        Fault { at_ms: 93, for_ms: 58, kind: FaultKind::Join },
        Fault { at_ms: 696, for_ms: 620, kind: FaultKind::Join },
        Fault { at_ms: 901, for_ms: 2419, kind: FaultKind::Isolate { slot: 0 } },
    ];
    judge(&plan, "join of a node that is cut off");
    judge(&Plan::draw(1281), "SEED=1281");
}

/// An entity that one node alone keeps was left out by a node that had known of its `from`, was started again and saw
/// no more of the other; and nothing said that rows of some `from` could not be seen.
#[test]
fn found_a_node_that_was_started_again_did_not_know_which_from_are_in_use() {
    let mut plan = Plan { chaos_ms: 3838, ..quiet(606_845_593, 3, 2, 1) };
    plan.operations = vec![
        put(606, 2, 8, Quorum { ack: 1, from: 1 }),
        Operation { ask: Ask::Get { is_blocking: false }, ..put(2885, 1, 6, Quorum { ack: 2, from: 2 }) },
        Operation { ask: Ask::Page { offset: 0 }, ..put(2984, 1, 2, Quorum { ack: 2, from: 3 }) },
    ];
    plan.faults = vec![
        Fault { at_ms: 1361, for_ms: 2380, kind: FaultKind::Isolate { slot: 2 } },
        Fault { at_ms: 2441, for_ms: 325, kind: FaultKind::Crash { slot: 1, loses_power: false } },
    ];
    judge(&plan, "a node that was started again");
}

/// Of a range that was answered in pieces, the reader did not ask what the other side lacks of the first pieces: a
/// replica kept an entity that had moved to another `from`, below the horizon, for ever.
#[test]
fn found_pieces_of_a_range_were_compared_in_one_direction() {
    judge(&Plan::draw(188), "SEED=188");
}

/// A round of repair was given up when one replica's connection broke, and its question to another, which was lost, was
/// waited for until the next start. Whenever that other one had said nothing for a moment it was taken for slow: counts
/// passed it over, and it was probed for ever.
#[test]
fn found_a_peer_was_waited_for_after_its_round_had_been_given_up() {
    let mut world = World::new(quiet(1, 3, 3, 1), Limits::tiny());
    let inflict = |world: &mut World, kind, for_ms| world.inflict(&Fault { at_ms: 0, for_ms, kind });
    world.run_until(2_000_000);
    // No node has another id than its slot.
    let order: Vec<usize> = world.agreed.read_order(Partition(0)).iter().map(|node| usize::from(node.0)).collect();
    let [leader, silent, broken] = order[..] else { panic!("three replicas: {order:?}") };
    // A round begins when its line would lie well above the last one.
    let horizon =
        |world: &World| world.slots[leader].node.as_ref().map(|node| node.replica().state(Partition(0)).horizon);
    let due_ms = world.limits.grace_ms + world.limits.grace_ms / 4;
    let is_due = |world: &World| horizon(world) < Some(time_of_ms(1_700_000_000_000 + world.now_us / 1000 - due_ms));
    while !is_due(&world) || world.now_us < 12_000_000 {
        world.run_until(world.now_us + 1000);
    }
    let begin_us = world.now_us;
    inflict(&mut world, FaultKind::Cut { from: leader, to: silent }, 0);
    inflict(&mut world, FaultKind::Pause { slot: broken }, 100);
    let failed = world.sum(|metrics| metrics.rounds_failed);
    inflict(&mut world, FaultKind::Repair { slot: leader }, 0);
    world.run_until(begin_us + 20_000);
    inflict(&mut world, FaultKind::Crash { slot: broken, loses_power: false }, 100);
    world.run_until(begin_us + 50_000);
    assert!(world.sum(|metrics| metrics.rounds_failed) > failed, "the round is given up");
    world.cuts.clear();
    world.run_until(begin_us + 6_000_000);
    for _ in 0..5000 {
        world.run_until(world.now_us + 1000);
        for (slot, machine) in world.up() {
            let health = machine.node.as_ref().expect("it is up").health_of_all();
            assert!(health.iter().all(|(_, health)| *health == Health::Up), "slot {slot}: {health:?}");
        }
    }
}

/// The same after a clock had been set back: its node refused the round's line, and what others were asked was lost.
#[test]
fn found_a_peer_was_waited_for_after_another_had_refused_the_line() {
    judge(&Plan::draw(20_261_573), "SEED=20261573");
}

/// Judges a plan, and sees that the checker finds it if the machine has a fault.
fn judge_with_and_without(plan: &Plan, name: &str, mutate: impl Fn(&mut Mutations)) {
    judge(plan, name);
    let mut plan = plan.clone();
    mutate(&mut plan.mutations);
    assert!(run(&plan).failure.is_some(), "{name}: the plan does not show it any more");
}

/// An entity had two replicas where one is usual. A node whose store was lost came back, had not heard that there are
/// such, and so copied nothing from the other one; asked for the entity, it had none.
#[test]
fn found_a_new_node_copied_without_knowing_of_a_larger_from() {
    let both = Quorum { ack: 2, from: 2 };
    let mut plan = Plan { chaos_ms: 2368, ..quiet(30_002_501, 2, 1, 4) };
    let read = Operation { ask: Ask::Get { is_blocking: false }, ..put(1729, 0, 2, Quorum { ack: 1, from: 1 }) };
    plan.operations = vec![put(1156, 1, 2, both), read];
    plan.faults = vec![Fault { at_ms: 1314, for_ms: 0, kind: FaultKind::Erase { slot: 0 } }];
    judge_with_and_without(&plan, "larger `from`", |mutations| mutations.copies_untold = true);
    judge(&Plan::draw(30_002_501), "SEED=30002501");
}

/// The clock of the only replica was days ahead, so the tombstone of a key was of a time to come, and was gone with the
/// line of its clock. A node that was to take its place stored a write of the present, which the replica refused, and
/// kept it beside the copy: it was read after the removal had been confirmed.
#[test]
fn found_a_new_node_kept_a_write_that_the_old_one_had_refused() {
    let one = Quorum { ack: 1, from: 1 };
    let mut plan = Plan { chaos_ms: 8256, ..quiet(110_036_389, 3, 1, 4) };
    plan.skews_ms[0] = 259_198_085;
    let operation = |at_ms, slot, ask| Operation { ask, ..put(at_ms, slot, 1, one) };
    let read = operation(8191, 2, Ask::Get { is_blocking: false });
    plan.operations = vec![operation(2164, 2, Ask::Delete), put(5826, 1, 1, one), read];
    plan.faults = vec![
        Fault { at_ms: 73, for_ms: 208, kind: FaultKind::Leave { slot: 1 } },
        Fault { at_ms: 5298, for_ms: 797, kind: FaultKind::DeafLog { slot: 0 } },
        Fault { at_ms: 5381, for_ms: 3673, kind: FaultKind::DeafLog { slot: 2 } },
        Fault { at_ms: 5575, for_ms: 320, kind: FaultKind::Join },
    ];
    judge_with_and_without(&plan, "refused", |mutations| mutations.copies_beside_refused = true);
    judge(&Plan::draw(110_036_389), "SEED=110036389");
}

/// A node copied what it was to have with a larger `from`. The change was given up, and the next one gave it all of the
/// partition: the first copy ended, and was taken for one of all.
#[test]
fn found_a_copy_of_a_change_that_was_given_up_was_taken_for_that_of_the_next() {
    let mut plan = Plan { loss: 200, chaos_ms: 5000, ..quiet(5, 3, 1, 4) };
    let quorum = |key| Quorum { ack: 1, from: if key < 10 { 1 } else { 2 } };
    plan.operations = (0..12).map(|key| put(800, usize::from(key % 3), key, quorum(key))).collect();
    plan.faults = vec![
        Fault { at_ms: 1725, for_ms: 0, kind: FaultKind::Leave { slot: 2 } },
        Fault { at_ms: 1849, for_ms: 0, kind: FaultKind::Abort },
        Fault { at_ms: 2139, for_ms: 0, kind: FaultKind::Leave { slot: 0 } },
    ];
    judge_with_and_without(&plan, "an earlier copy", |mutations| mutations.copies_span_epochs = true);
    judge(&Plan::draw(97_013_214), "SEED=97013214");
}

/// A node that was cut off confirmed writes to all three nodes, and was told to leave. The other two had all that two
/// nodes keep, so none of them copied anything, and the writes went with the node that left.
#[test]
fn found_what_only_a_leaving_node_had_left_with_it() {
    let mut plan = Plan { chaos_ms: 4000, ..quiet(12, 3, 2, 8) };
    plan.operations = (0..12).map(|key| put(1000, 0, key, Quorum { ack: 1, from: 3 })).collect();
    plan.faults = vec![
        Fault { at_ms: 500, for_ms: 2500, kind: FaultKind::Isolate { slot: 0 } },
        Fault { at_ms: 700, for_ms: 0, kind: FaultKind::Leave { slot: 0 } },
    ];
    judge_with_and_without(&plan, "the rows of a leaving node", |mutations| mutations.leaves_with_rows = true);
    judge(&Plan::draw(99_000_700), "SEED=99000700");
}

/// An entity was written with `from=3`, then 2, then 1, and the only replica of the last write was lost. The others
/// answered with the note that it had moved to 1, which kept the first write; the second one stood beside it.
#[test]
fn found_a_note_that_led_nowhere_hid_a_newer_copy_of_another_from() {
    let plan = Plan { seed: 866, ..Plan::draw(98_018_670) };
    judge_with_and_without(&plan, "a note that keeps its class", |m| m.note_keeps_its_class = true);
    judge(&Plan::draw(98_018_670), "SEED=98018670");
}

/// The first node to have an entity with a smaller `from` was cut off, and the one that counted could not know: the
/// checker said that it had to.
#[test]
fn a_count_need_not_tell_what_a_node_that_is_cut_off_was_asked_for() {
    let mut plan = Plan { chaos_ms: 2974, ..quiet(98_029_281, 3, 3, 2) };
    let count = Operation { ask: Ask::Count, ..put(484, 2, 3, Quorum { ack: 1, from: 2 }) };
    plan.operations = vec![put(369, 0, 4, Quorum { ack: 1, from: 1 }), count];
    let isolated = |at_ms, slot, for_ms| Fault { at_ms, for_ms, kind: FaultKind::Isolate { slot } };
    plan.faults = vec![isolated(71, 0, 1491), isolated(88, 1, 3651)];
    judge(&plan, "a count beside nodes that are cut off");
    judge(&Plan::draw(98_029_281), "SEED=98029281");
}

/// The clocks of both replicas were ahead when a round drew its line. One lost its store, and the other refused all
/// that was not above the line: a write was stored by one, had to be stamped again for the other, and may not be.
#[test]
fn found_a_floor_of_clocks_that_had_been_ahead_stopped_writes_through_a_new_replica() {
    let mut plan = Plan { chaos_ms: 4467, ..quiet(30_012_065, 2, 2, 8) };
    plan.skews_ms[0] = 120_001;
    plan.faults = vec![
        Fault { at_ms: 194, for_ms: 2482, kind: FaultKind::WrongClock { slot: 1, by_ms: 3_600_000 } },
        Fault { at_ms: 1819, for_ms: 0, kind: FaultKind::Erase { slot: 1 } },
    ];
    let mutate = |m: &mut Mutations| (m.forgets_lines, m.copies_no_floor) = (true, true);
    judge_with_and_without(&plan, "floor", mutate);
    for seed in [30_012_065, 30_012_095] {
        judge(&Plan::draw(seed), &format!("SEED={seed}"));
    }
}

/// A partition went from a node to another and came back. The node still had its old horizon, and took what slow
/// clocks had stamped and stored meanwhile for removed long ago.
#[test]
fn found_a_node_that_copied_back_took_rows_for_older_than_its_horizon() {
    let one = Quorum { ack: 1, from: 1 };
    let mut plan = Plan { chaos_ms: 9000, ..quiet(7, 2, 1, 8) };
    let reads = (0..12).map(|key| Operation { ask: Ask::Get { is_blocking: false }, ..put(7500, 0, key, one) });
    plan.operations = (0..12).map(|key| put(4500, usize::from(key % 2), key, one)).chain(reads).collect();
    let behind = |slot| Fault { at_ms: 2550, for_ms: 2850, kind: FaultKind::WrongClock { slot, by_ms: -3_600_000 } };
    plan.faults = vec![
        behind(0),
        behind(1),
        behind(2),
        Fault { at_ms: 2600, for_ms: 0, kind: FaultKind::Join },
        Fault { at_ms: 5500, for_ms: 0, kind: FaultKind::Leave { slot: 2 } },
    ];
    judge_with_and_without(&plan, "horizon", |m| (m.keeps_horizon, m.copies_no_floor) = (true, true));
}

/// The same horizon, of both replicas. One lost its store, a write was stored by the new one alone and answered `504`;
/// the other took it for removed long ago, and they did not become equal before the clocks had come to that horizon.
#[test]
fn found_replicas_stayed_apart_below_a_horizon_of_clocks_that_had_been_ahead() {
    let mut plan = Plan { chaos_ms: 9622, ..quiet(40_000_152, 5, 2, 8) };
    plan.operations = vec![put(3406, 4, 30, Quorum { ack: 2, from: 2 })];
    let ahead = |slot| Fault { at_ms: 0, for_ms: 2010, kind: FaultKind::WrongClock { slot, by_ms: 3_600_000 } };
    plan.faults = vec![ahead(1), ahead(3), Fault { at_ms: 1492, for_ms: 0, kind: FaultKind::Erase { slot: 0 } }];
    let mutate = |m: &mut Mutations| {
        (m.trusts_any_horizon, m.keeps_far_horizon, m.copies_no_floor) = (true, true, true);
    };
    judge_with_and_without(&plan, "far horizon", mutate);
}

/// Such a horizon once more, and a write that the clock of a third node had stamped days before: the old replica took
/// it for removed long ago, and no round could give the new one the horizon of the other.
#[test]
fn found_replicas_stayed_apart_far_below_a_horizon_of_clocks_that_had_been_ahead() {
    let mut plan = Plan { chaos_ms: 6551, ..quiet(60_000_520, 3, 2, 8) };
    plan.skews_ms[1] = -259_200_004;
    plan.operations = vec![put(3543, 1, 30, Quorum { ack: 2, from: 2 })];
    let ahead = |slot| Fault { at_ms: 0, for_ms: 2085, kind: FaultKind::WrongClock { slot, by_ms: 3_600_000 } };
    plan.faults = vec![ahead(0), ahead(2), Fault { at_ms: 1222, for_ms: 0, kind: FaultKind::Erase { slot: 2 } }];
    let mutate = |m: &mut Mutations| (m.keeps_far_horizon, m.copies_no_floor) = (true, true);
    judge_with_and_without(&plan, "far below", mutate);
    judge(&Plan::draw(60_000_520), "SEED=60000520");
}

/// A node alone was days ahead, removed a key, and let the tombstone go in a round of its own. A node that came then
/// did not know the line below which that was: its write of the key got a version below that of the removal.
#[test]
fn found_a_new_node_did_not_know_the_line_below_which_tombstones_are_gone() {
    let mut plan = Plan { chaos_ms: 6638, ..quiet(70_010_734, 1, 1, 1) };
    plan.skews_ms[0] = 259_199_997;
    let one = Quorum { ack: 1, from: 1 };
    plan.operations = vec![Operation { ask: Ask::Delete, ..put(2268, 0, 6, one) }, put(6257, 1, 6, one)];
    plan.faults = vec![
        Fault { at_ms: 3105, for_ms: 2586, kind: FaultKind::WrongClock { slot: 0, by_ms: 259_200_000 } },
        Fault { at_ms: 3315, for_ms: 128, kind: FaultKind::Join },
    ];
    judge_with_and_without(&plan, "line", |mutations| mutations.copies_no_floor = true);
    judge(&Plan::draw(70_010_734), "SEED=70010734");
}

/// A clock was two minutes behind, and then days: two writes right above one line got one version.
#[test]
fn found_a_version_was_given_twice_by_a_clock_that_was_set_back() {
    judge(&Plan::draw(70_022_365), "SEED=70022365");
}

/// A node was paused while a page's total was counted, and was back when the rows were read: the total lacked its
/// partitions, and the answer did not say so.
#[test]
fn found_a_page_did_not_name_the_partitions_that_its_total_lacks() {
    judge(&Plan::draw(70_041_232), "SEED=70041232");
}

/// A node whose clock was an hour behind had left, and its messages were still heard by the one that was left: that one
/// took its own clock for the wrong one, and stamped nothing for a minute.
#[test]
fn found_the_clock_of_a_node_that_had_left_stopped_the_writes_of_the_last_one() {
    judge(&Plan::draw(70_048_489), "SEED=70048489");
}

/// A node had been told that some entities have two replicas, was killed, and had forgotten it. It was the one to begin
/// the comparisons with the other replica of such an entity, and left that one out.
#[test]
fn found_a_node_that_was_killed_had_forgotten_a_larger_from_and_compared_without_it() {
    judge(&Plan::draw(70_060_307), "SEED=70060307");
}

/// A write with a larger `from` met what a clock that was ahead had stamped, was stored by others, and was answered
/// `504`. The read that makes replicas equal overtook the write on its way to one of them, and left that one out: the
/// next attempt was `504` again.
#[test]
fn found_replicas_were_made_equal_before_the_write_had_reached_them() {
    let mut plan = Plan { delay_ms_max: 10, chaos_ms: 2500, ..quiet(80_072_951, 3, 3, 2) };
    plan.operations = (0..12).map(|key| put(500 + 20 * u64::from(key), 1, key, Quorum { ack: 1, from: 1 })).collect();
    let ahead = |slot| Fault { at_ms: 0, for_ms: 1500, kind: FaultKind::WrongClock { slot, by_ms: 3_600_000 } };
    plan.faults = (0..3).map(ahead).collect();
    let seeds: Vec<u64> = (0..50).filter(|seed| *seed != 6).collect();
    seeds.iter().for_each(|seed| _ = judge(&Plan { seed: *seed, ..plan.clone() }, &format!("SEED={seed}")));
    judge_with_and_without(&Plan { seed: 6, ..plan }, "SEED=6", |mutations| mutations.makes_equal_once = true);
}

/// A replica had said in one epoch that it has a long value, and was asked for it under the next one, in which it is no
/// replica of that `from` any more and has let the key go: a blocking read answered that the key is absent.
#[test]
fn found_a_read_asked_replicas_of_an_epoch_that_had_ended() {
    judge(&Plan::draw(90_013_294), "SEED=90013294");
    judge_with_and_without(&Plan::draw(90_012_944), "SEED=90012944", |mutations| mutations.reads_span_epochs = true);
}

/// A replica said that a key has moved to a larger `from`, and was asked once more with all others of that. While its
/// second answer was on the way, the node that read took an older value of its own for the newest.
#[test]
fn found_a_read_that_followed_a_note_answered_something_older() {
    judge_with_and_without(&Plan::draw(90_086_633), "SEED=90086633", |mutations| mutations.forgets_notes = true);
}

/// A node was leaving when the other one lost its store and was declared dead. The change went on: the node that left
/// gave its places to the dead one, and all that it held was lost with it.
#[test]
fn found_a_node_that_left_gave_its_places_to_a_dead_one() {
    let mut plan = Plan { chaos_ms: 3899, ..quiet(91_000_336, 2, 1, 1) };
    plan.operations = vec![put(1045, 0, 1, Quorum { ack: 2, from: 2 })];
    plan.faults = vec![
        Fault { at_ms: 573, for_ms: 2809, kind: FaultKind::StallLog },
        Fault { at_ms: 780, for_ms: 950, kind: FaultKind::Leave { slot: 0 } },
        Fault { at_ms: 3116, for_ms: 18, kind: FaultKind::Erase { slot: 1 } },
    ];
    judge_with_and_without(&plan, "leave", |mutations| mutations.dead_get_places = true);
}

/// The only replica that a write had reached had a clock that was ahead of the value's deadline, so a read was absent,
/// and rightly. That the write was acknowledged by two after the read made the checker count two clocks.
#[test]
fn found_the_checker_took_a_write_for_acknowledged_before_it_was() {
    judge(&Plan::draw(122_014_535), "SEED=122014535");
}

/// A count through a node that had been cut off until 2 ms before lacked an entity with a `from` that was used for the
/// first time meanwhile: what the others had told of it was to come with the next message.
#[test]
fn found_the_checker_asked_of_a_node_what_it_could_not_have_heard_yet() {
    judge(&Plan::draw(27_704_808), "SEED=27704808");
}
