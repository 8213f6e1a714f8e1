//! Goal: who watches a node, or sends it requests, is told what it can do.
//! Method: clusters of processes.

use crate::nodes::{Nodes, eventually, join, order, quipu, until_changed};

/// It said that it was healthy while it saw no other node.
#[test]
fn a_node_without_a_quorum_says_that_it_is_not_ready() {
    let mut nodes = Nodes::start(3, &[]);
    (0..3).for_each(|node| nodes.until_ready(node));
    nodes.kill(1);
    eventually("it is seen", || nodes.get(0, "/v0/cluster").text().contains("\"health\":\"down\""));
    assert_eq!(nodes.get(0, "/readyz").status, 200, "two of three serve");
    nodes.kill(2);
    eventually("it is not ready", || nodes.get(0, "/readyz").status == 503);
    let text = nodes.get(0, "/readyz").text();
    assert!(text.contains("fewer than 2 of 3 replicas") && text.contains(&nodes.url(1)), "{text}");
    assert_eq!(nodes.metric(0, "quipu_cluster_partitions_without_quorum") as u64, 64);
    eventually("nobody is shown as leading", || nodes.metric(0, "quipu_cluster_log_leader") < 1.0);
    let (code, text) = quipu(&["cluster", "status", "--url", &nodes.url(0)]);
    assert!(code == Some(1) && text.contains("3 of 3 nodes are not ready"), "{text}");
    nodes.restart(1);
    nodes.until_ready(0);
}

/// Its requests failed after a second each, and no client had been told to send no more.
#[test]
fn a_node_that_leaves_says_so_serves_on_for_a_while_and_then_refuses_at_once() {
    let mut nodes = Nodes::of_list(4, 3, &["--cluster-drain-ms", "2000"]);
    (0..3).for_each(|node| nodes.spawn(node));
    (0..3).for_each(|node| nodes.until_ready(node));
    join(&mut nodes, 3);
    assert_eq!(order(&nodes, 0, &format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(3))).0, 202);
    nodes.until_ready(3);
    until_changed(&nodes, 0, 4);
    assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=k&ack=3", b"v"), 201);
    assert_eq!(order(&nodes, 1, &format!("{{\"remove\":[\"{}\"]}}", nodes.url(0))).0, 202);
    eventually("it says that it leaves", || nodes.get(0, "/readyz").text().contains("leaves the cluster"));
    assert_eq!(nodes.get(0, "/v0/entity?id=k").body, b"v", "and serves on");
    eventually("it has left", || nodes.get(0, "/readyz").text().contains("was removed"));
    let reply = nodes.ask(0, "PUT", "/v0/entity?id=k", b"w");
    assert!(reply.status == 503 && reply.text().contains("was removed"), "{reply:?}");
    assert_eq!(nodes.get(1, "/v0/entity?id=k&ack=3").body, b"v");
}
