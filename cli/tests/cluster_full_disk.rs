//! Goal: nodes whose disks are all full answer reads and removals, refuse writes with the reason, and take writes again
//! when enough was removed: no file is deleted by hand, and no node is started again.
//! Method: three processes, each with a small disk of its own that a file fills.

use std::io::Write;

use crate::nodes::{Nodes, eventually, network};

const NODES: usize = 3;
const DISK_MEGABYTES: usize = 64;
const ENTITIES: usize = 60;
const VALUE_BYTES: usize = 128 << 10;

fn target(number: usize, quorum: &str) -> String {
    format!("/v0/entity?id=large-{number:03}&{quorum}")
}

/// Fills the disk of a node.
#[expect(clippy::disallowed_methods, reason = "a file of the test")]
fn fill(nodes: &Nodes, node: usize) {
    let mut file = std::fs::File::create(nodes.data(node).join("filler")).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
}

/// Each turn of such a node failed, so that reads and removals were answered `504` until it was started again.
#[test]
fn nodes_that_are_all_full_serve_what_needs_no_space_and_come_back_when_enough_was_removed() {
    if !network::is_inside(
        "cluster_full_disk::nodes_that_are_all_full_serve_what_needs_no_space_and_come_back_when_enough_was_removed",
    ) {
        return;
    }
    let mut nodes = Nodes::in_network(NODES, &[]);
    for node in 0..NODES {
        network::mount_disk(&nodes.data(node), DISK_MEGABYTES);
        nodes.spawn(node);
    }
    (0..NODES).for_each(|node| nodes.until_ready(node));
    let value = vec![7; VALUE_BYTES];
    for number in 0..ENTITIES {
        assert_eq!(nodes.status(number % NODES, "PUT", &target(number, "ack=3"), &value), 201, "entity {number}");
    }
    (0..NODES).for_each(|node| fill(&nodes, node));
    // The log's segments are used up one after the other.
    let mut last = ENTITIES;
    for node in 0..NODES {
        eventually("the disk is full", || {
            last += 1;
            nodes.status(node, "PUT", &target(last, "ack=2"), &value) == 507
        });
        let refused = nodes.ask(node, "PUT", &target(last, "ack=2"), &value);
        assert!(refused.text().contains("no space"), "{}", refused.text());
        assert_eq!(nodes.get(node, &target(last, "ack=2")).status, 404, "it was refused for good");
        let ready = nodes.get(node, "/readyz");
        assert!(ready.status == 503 && ready.text().contains("the disk is full"), "{}", ready.text());
        let status = nodes.get(node, "/v0/cluster").text();
        assert!(status.contains(r#""ready":false"#) && status.contains("the disk is full"), "{status}");
        for metric in ["quipu_disk_full", "quipu_cluster_full_total"] {
            eventually(metric, || nodes.metric(node, metric) > 0.0);
        }
    }
    for number in 0..ENTITIES {
        for node in 0..NODES {
            let read = nodes.get(node, &target(number, "ack=2"));
            assert!(read.status == 200 && read.body == value, "entity {number} through node {node}: {}", read.status);
        }
    }
    assert!(nodes.get(0, "/v0/count?cluster=true").status == 200);
    for number in 0..=last {
        let node = number % NODES;
        eventually("it is removed", || nodes.status(node, "DELETE", &target(number, "ack=2"), b"") == 202);
        assert_eq!(nodes.get((node + 1) % NODES, &target(number, "ack=2")).status, 404, "entity {number}");
    }
    for node in 0..NODES {
        eventually("it takes writes again", || nodes.status(node, "PUT", &target(node, "ack=3"), &value) == 201);
        eventually("it is ready", || nodes.get(node, "/readyz").status == 200);
        let log = nodes.log(node);
        assert!(log.matches("the disk is full").count() < 20, "it says so once in a while: {log}");
        assert!(!log.contains("the node has failed"), "{log}");
    }
}
