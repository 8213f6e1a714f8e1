//! Stories of clocks that are wrong, of keys written with several `from`, and of writes that are stamped twice: each
//! was a defect once. Whole clusters in virtual time, without chance.

use quipu_cluster::api::{Answer, Condition, Request};
use quipu_cluster::clock::time_of_ms;
use quipu_cluster::ids::{NodeId, Now, Partition, Quorum};
use quipu_cluster::simulation::plan::FaultKind;

use crate::quiet_cluster::Cluster;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A node was three days ahead while a comparison of replicas began, and was then set right: its line stood on all
/// replicas, and every write of a quorum through every node was refused for two days.
#[test]
fn found_a_node_that_was_days_ahead_drew_a_line_for_all() {
    let mut cluster = Cluster::new(3);
    for slot in 0..3 {
        cluster.set_clock(slot, 3 * DAY_MS);
        cluster.inflict(FaultKind::Repair { slot }, 0);
        cluster.run_ms(3000);
        cluster.set_clock(slot, -3 * DAY_MS);
    }
    let grace_ms = cluster.0.limits.grace_ms;
    let line = time_of_ms(cluster.now().wall_ms - grace_ms);
    for (slot, machine) in cluster.0.up() {
        let state = machine.node.as_ref().expect("it is up").replica().state(Partition(0));
        assert!(state.floor <= line && state.horizon <= line, "slot {slot}: {state:?}");
    }
    for slot in 0..3 {
        cluster.writes(slot, "value", (2, 3));
        cluster.writes(slot, "value", (3, 3));
    }
}

/// The line is that of the earliest clock, and a replica refuses one above its own.
#[test]
fn a_line_is_not_above_the_clock_of_a_replica_that_was_set_back() {
    let mut cluster = Cluster::new(2);
    let first = cluster.order()[0];
    // Both clocks are ahead when the line is drawn, but one is right again when it hears of it.
    cluster.set_clock(first, DAY_MS);
    cluster.set_clock(1 - first, DAY_MS);
    cluster.inflict(FaultKind::Repair { slot: first }, 0);
    cluster.set_clock(1 - first, -DAY_MS);
    cluster.run_ms(2000);
    let node = cluster.0.slots[1 - first].node.as_ref().expect("it is up");
    assert!(node.replica().state(Partition(0)).floor <= time_of_ms(cluster.now().wall_ms));
}

/// A node was an hour ahead while it stamped a write that one replica kept, and was set right: it took no write of a
/// quorum for an hour, also after a restart; and a write of that entity through another node took that one along.
#[test]
fn found_a_clock_that_was_ahead_for_a_moment_stopped_writes_for_an_hour() {
    let mut cluster = Cluster::new(2);
    let first = cluster.order()[0];
    cluster.set_clock(first, HOUR_MS);
    cluster.writes(first, "from the future", (1, 1));
    cluster.set_clock(first, -HOUR_MS);
    let key = |n: u8| vec![b'o', n];
    let others = |cluster: &mut Cluster, n: u8| {
        for slot in 0..2 {
            let quorum = Some(Quorum { ack: 2, from: 2 });
            let put = Request::Put { key: key(n), value: Some(vec![n]), ttl_ms: None, quorum, condition: None };
            assert!(matches!(cluster.ask(slot, put), Answer::Written { .. }), "another key through slot {slot}");
        }
    };
    others(&mut cluster, 1);
    for slot in [1 - first, first] {
        // Above what is stored an hour ahead. The first attempt may have to make replicas equal.
        let _ = cluster.put(slot, "now", (2, 2), None);
        cluster.run_ms(200);
        cluster.writes(slot, "now", (2, 2));
        assert_eq!(cluster.reads(1 - slot, (2, 2)), "now");
        others(&mut cluster, 2);
    }
    cluster.inflict(FaultKind::Crash { slot: first, loses_power: true }, 100);
    cluster.run_ms(1000);
    others(&mut cluster, 3);
    cluster.writes(first, "after the restart", (2, 2));
}

#[test]
fn a_node_far_ahead_of_most_others_says_so_and_stamps_nothing_meanwhile() {
    let mut cluster = Cluster::new(3);
    let first = cluster.order()[0];
    let clocks = |cluster: &Cluster, by_ms: i64| {
        let now = cluster.now();
        let now = Now { wall_ms: now.wall_ms.saturating_add_signed(by_ms), ..now };
        cluster.0.slots[first].node.as_ref().expect("it is up").clocks(now)
    };
    let report = clocks(&cluster, 0);
    assert!(report.can_stamp && report.skews_ms.len() == 2 && report.skews_ms.iter().all(|(_, ms)| ms.abs() < 1000));
    cluster.set_clock(first, HOUR_MS);
    let report = clocks(&cluster, HOUR_MS);
    assert!(!report.can_stamp && report.skews_ms.iter().all(|(_, ms)| (ms + HOUR_MS).abs() < 1000), "{report:?}");
    assert_eq!(cluster.put(first, "value", (1, 1), None), Answer::NotEnoughReplicas);
    assert_eq!(cluster.0.slots[first].node.as_ref().map(|node| node.metrics.stamps_refused), Some(1));
    let others: Vec<usize> = (0..3).filter(|slot| *slot != first).collect();
    cluster.writes(others[0], "value", (2, 3));
    assert_eq!(cluster.reads(first, (2, 3)), "value", "it reads");
    cluster.set_clock(first, -HOUR_MS);
    cluster.writes(first, "again", (3, 3));
}

/// Written with 3/3, then with 1/1: a read of all left notes on the others that it had moved, and where only those
/// were met the key was answered 404, and could be created, though it had not been deleted.
#[test]
fn found_a_key_that_was_written_with_a_smaller_from_was_absent() {
    let mut cluster = Cluster::new(3);
    let order = cluster.order();
    cluster.writes(0, "one", (3, 3));
    cluster.writes(0, "two", (1, 1));
    assert_eq!(cluster.reads(order[2], (3, 3)), "two");
    cluster.run_ms(1000);
    for slot in 0..3 {
        for ack in 1..=3 {
            assert_eq!(cluster.reads(slot, (ack, 3)), "two", "{ack} of 3 through slot {slot}");
        }
    }
    cluster.inflict(FaultKind::Crash { slot: order[0], loses_power: false }, 3000);
    cluster.run_ms(500);
    let condition = Some(Condition::IsNot(Vec::new()));
    let (key, quorum) = (b"key".to_vec(), Some(Quorum { ack: 2, from: 3 }));
    let create = Request::Put { key, value: Some(b"three".to_vec()), ttl_ms: None, quorum, condition };
    for slot in [order[1], order[2]] {
        assert_eq!(cluster.get(slot, (2, 3)), Answer::NotEnoughReplicas, "it is newer, and not here");
        assert_eq!(cluster.ask(slot, create.clone()), Answer::NotEnoughReplicas);
    }
    cluster.run_ms(3000);
    assert_eq!(cluster.reads(order[1], (2, 3)), "two");
}

/// The note took the place of the copy: when the one store with the newer value was lost, the older value, which three
/// replicas had confirmed, was lost with it.
#[test]
fn found_a_note_that_a_key_has_moved_destroyed_the_copies() {
    let mut cluster = Cluster::new(3);
    let order = cluster.order();
    cluster.writes(0, "one", (3, 3));
    cluster.writes(0, "two", (1, 1));
    assert_eq!(cluster.reads(order[2], (3, 3)), "two");
    cluster.run_ms(1000);
    cluster.inflict(FaultKind::Erase { slot: order[0] }, 0);
    cluster.run_ms(5000);
    for slot in 0..3 {
        assert_eq!(cluster.reads(slot, (2, 3)), "one", "through slot {slot}");
    }
    cluster.writes(order[1], "three", (2, 3));
    assert_eq!(cluster.reads(order[2], (2, 3)), "three");
}

/// A removal with another `from` removes all: no note brings the copy back when its tombstone has gone.
#[test]
fn a_key_that_was_removed_with_a_smaller_from_stays_removed_after_its_tombstone() {
    let mut cluster = Cluster::new(3);
    cluster.writes(0, "one", (3, 3));
    cluster.writes(0, "two", (1, 1));
    cluster.run_ms(2000);
    let (key, quorum) = (b"key".to_vec(), Some(Quorum { ack: 1, from: 1 }));
    let removal = Request::Put { key, value: None, ttl_ms: None, quorum, condition: None };
    assert!(matches!(cluster.ask(1, removal), Answer::Written { .. }));
    for _ in 0..10 {
        cluster.run_ms(2000);
        for slot in 0..3 {
            cluster.inflict(FaultKind::Repair { slot }, 0);
        }
    }
    for slot in 0..3 {
        assert_eq!(cluster.get(slot, (2, 3)), Answer::Absent { version: None }, "through slot {slot}");
    }
}

/// A replica with a fast clock turned a value into a tombstone before its time, and that won everywhere, for good.
#[test]
fn found_a_tombstone_of_expiry_that_came_too_early_won_everywhere() {
    let mut cluster = Cluster::new(2);
    let written = cluster.put(0, "value", (2, 2), Some(600_000));
    assert!(matches!(written, Answer::Written { .. }));
    cluster.set_clock(1, HOUR_MS);
    cluster.run_ms(3000);
    assert!(matches!(cluster.get(1, (1, 2)), Answer::Absent { .. }), "by its own clock");
    assert_eq!(cluster.reads(0, (2, 2)), "value", "by the clock of the node that answers");
    cluster.set_clock(1, -HOUR_MS);
    for slot in 0..2 {
        for ack in 1..=2 {
            assert_eq!(cluster.reads(slot, (ack, 2)), "value", "{ack} of 2 through slot {slot}");
        }
    }
    cluster.run_ms(3000);
    let replicas: Vec<_> =
        cluster.0.up().map(|(_, machine)| machine.store.rows(quipu_cluster::tables::Table::Entities)).collect();
    assert!(replicas[0] == replicas[1] && replicas[0].len() == 1, "the value has come back to the replica");
}

/// A write was stored by some replicas under its first stamp, and stamped anew above what others had: seen under the
/// first, then overwritten, it came back under the second.
#[test]
fn found_a_write_that_may_have_been_seen_was_stamped_anew() {
    let mut cluster = Cluster::new(3);
    // One replica alone has a write of a clock that is a little ahead.
    cluster.inflict(FaultKind::Jump { slot: 0, by_ms: 2000 }, 0);
    for to in [1, 2] {
        cluster.inflict(FaultKind::Cut { from: 0, to }, 0);
    }
    cluster.writes(0, "ahead", (1, 3));
    cluster.0.cuts.clear();
    assert_eq!(cluster.put(1, "behind", (3, 3), None), Answer::NotEnoughReplicas);
    let node = cluster.0.slots[1].node.as_ref().expect("it is up");
    assert_eq!((node.metrics.stamped_once, node.metrics.restamps), (1, 0));
    // The replicas are equal now, and all of them answer that they have something newer.
    cluster.run_ms(100);
    cluster.writes(1, "behind", (3, 3));
    assert_eq!(cluster.reads(2, (2, 3)), "behind");
}

/// A value whose deadline had passed when it was written was still read through nodes whose clocks were a little slow.
#[test]
fn found_a_value_with_a_deadline_in_the_past_was_read() {
    let mut cluster = Cluster::new(3);
    cluster.inflict(FaultKind::Jump { slot: 1, by_ms: -2000 }, 0);
    cluster.writes(0, "value", (3, 3));
    assert!(matches!(cluster.put(0, "late", (2, 3), Some(0)), Answer::Written { .. }));
    for slot in 0..3 {
        assert!(matches!(cluster.get(slot, (2, 3)), Answer::Absent { version: Some(_) }), "through slot {slot}");
    }
    assert!(cluster.0.agreed.is_living(NodeId(0)));
}
