//! Long values are sent by one of the replicas that a read asks, and come though that one stops.

use quipu_cluster::api::{Answer, Request};
use quipu_cluster::ids::Quorum;
use quipu_cluster::simulation::plan::FaultKind;

use crate::quiet_cluster::Cluster;

const LONG: &str = "a value that is longer than those which all replicas send";
/// Kinds of messages.
const VALUE: usize = 6;
const LONG_VALUE: usize = 29;

/// Four nodes, of which three keep a long value; the slots of those, and that of the other.
fn three_of_four() -> (Cluster, Vec<usize>, usize) {
    let mut cluster = Cluster::of(4, 3);
    assert!(LONG.len() > cluster.0.limits.long_value_bytes);
    let mut replicas = cluster.order();
    let other = replicas.pop().expect("four nodes");
    cluster.writes(other, LONG, (3, 3));
    cluster.run_ms(1000);
    (cluster, replicas, other)
}

fn sent(cluster: &Cluster) -> [u64; 2] {
    [VALUE, LONG_VALUE].map(|kind| cluster.0.sum(|metrics| metrics.sent_by_kind[kind]))
}

fn fetched(cluster: &Cluster) -> u64 {
    cluster.0.sum(|metrics| metrics.long_values_fetched)
}

#[test]
fn one_replica_sends_a_long_value() {
    let (mut cluster, replicas, other) = three_of_four();
    for (slot, of_peers) in [(other, [1, 2]), (replicas[0], [0, 2]), (replicas[2], [0, 2])] {
        let before = sent(&cluster);
        assert_eq!(cluster.reads(slot, (2, 3)), LONG);
        cluster.run_ms(1000);
        let after = sent(&cluster);
        assert_eq!([after[0] - before[0], after[1] - before[1]], of_peers, "through slot {slot}");
    }
    assert_eq!(fetched(&cluster), 0);
}

#[test]
fn a_short_value_is_sent_by_all() {
    let (mut cluster, replicas, _) = three_of_four();
    cluster.writes(replicas[0], "short", (3, 3));
    let before = sent(&cluster);
    assert_eq!(cluster.reads(replicas[1], (3, 3)), "short");
    assert_eq!(sent(&cluster), [before[0] + 2, before[1]]);
}

/// The replica that is to send the value stops when it was asked, and so does the next one.
#[test]
fn a_long_value_comes_from_another_replica_if_one_stops() {
    let (mut cluster, replicas, other) = three_of_four();
    let place = cluster.0.history.len();
    let quorum = Some(Quorum { ack: 2, from: 3 });
    cluster.0.request(other, usize::MAX, Request::Get { key: b"key".to_vec(), quorum, is_blocking: false });
    for (stopped, slot) in replicas[..2].iter().enumerate() {
        while fetched(&cluster) < stopped as u64 {
            cluster.run_ms(1);
        }
        cluster.inflict(FaultKind::Pause { slot: *slot }, 5000);
    }
    while cluster.0.history[place].answer.is_none() {
        cluster.run_ms(1);
    }
    let answer = cluster.0.history[place].answer.as_ref().expect("it was waited for");
    assert!(matches!(answer, Answer::Value { value, .. } if value == LONG.as_bytes()), "{answer:?}");
    assert_eq!(fetched(&cluster), 2);
}

/// The node that answers keeps an older value: it asks one of the others for the newest, and mends its own.
#[test]
fn the_newest_long_value_is_fetched_and_mends_the_older() {
    let (mut cluster, replicas, _) = three_of_four();
    let late = replicas[0];
    for slot in replicas[1..].iter().copied() {
        cluster.inflict(FaultKind::Cut { from: slot, to: late }, 0);
    }
    let newer = LONG.to_uppercase();
    cluster.writes(replicas[1], &newer, (2, 3));
    cluster.0.cuts.clear();
    let before = fetched(&cluster);
    assert_eq!(cluster.reads(late, (3, 3)), newer);
    assert_eq!(fetched(&cluster), before + 1);
    cluster.run_ms(100);
    assert_eq!(cluster.reads(late, (1, 1)), newer);
}

/// A node that came back was sent 128 of the rows that it had missed at once, however long they were: more than a
/// connection holds, which was cut, and so on for ever.
#[test]
fn a_node_that_was_down_is_handed_long_rows_one_by_one_and_each_once() {
    let mut cluster = Cluster::new(3);
    let late = cluster.order()[2];
    cluster.inflict(FaultKind::Crash { slot: late, loses_power: false }, 3000);
    let quorum = Some(Quorum { ack: 2, from: 3 });
    let writer = cluster.order()[0];
    assert!(LONG.len() > cluster.0.limits.hint_bytes_in_flight_max);
    for number in 0..5u8 {
        let key = vec![b'k', number];
        let put = Request::Put { key, value: Some(LONG.into()), ttl_ms: None, quorum, condition: None };
        assert!(matches!(cluster.ask(writer, put), Answer::Written { .. }));
    }
    let sent = |cluster: &Cluster| cluster.0.sum(|metrics| metrics.hints_sent);
    let mut seen = Vec::new();
    for _ in 0..8000 {
        cluster.run_ms(1);
        seen.push(sent(&cluster));
    }
    assert_eq!(seen.last(), Some(&5), "each once");
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] <= 1), "one by one");
    for number in 0..5u8 {
        let one = Some(Quorum { ack: 1, from: 1 });
        let answer = cluster.ask(late, Request::Get { key: vec![b'k', number], quorum: one, is_blocking: false });
        assert!(matches!(answer, Answer::Value { ref value, .. } if value == LONG.as_bytes()), "{answer:?}");
    }
}
