//! Goal: what can go wrong with the members of a cluster ends well: changes that cannot go on, nodes that were told
//! something else, directories that were put back from copies.
//! Method: clusters of processes.

use crate::nodes::{Nodes, ask, eventually, join, order, quipu, until_changed};

fn change_of(nodes: &Nodes, node: usize) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&nodes.get(node, "/v0/cluster").text()).expect("JSON");
    report["change"].clone()
}

/// A cluster of three with an entity, and a fourth node that joins.
fn with_newcomer(flags: &[&str]) -> Nodes {
    let mut nodes = Nodes::of_list(4, 3, flags);
    (0..3).for_each(|node| nodes.spawn(node));
    (0..3).for_each(|node| nodes.until_ready(node));
    assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=k&ack=3&from=3", b"v"), 201);
    nodes
}

/// All waited for a node that is not started, no other change could be made, and writes to all replicas failed.
#[test]
fn a_mistyped_address_is_caught_before_anything_is_changed() {
    let nodes = with_newcomer(&[]);
    let add = |url: &str| format!("{{\"add\":[{{\"url\":\"{url}\"}}]}}");
    let (status, text) = order(&nodes, 1, &add(&nodes.url(3)));
    assert!(status == 409 && text.contains("no node answers") && text.contains("--join"), "{status} {text}");
    // A member, but under another name.
    let (status, text) = order(&nodes, 1, &add(&format!("http://127.0.0.1:{}", nodes.port(2))));
    assert!(status == 409 && text.contains("wants to be known as"), "{status} {text}");
    let (code, text) = quipu(&["cluster", "add", &nodes.url(3), "--url", &nodes.url(0)]);
    assert!(code == Some(1) && text.contains("start it first"), "{text}");
    assert!(change_of(&nodes, 0).is_null());
    assert_eq!(nodes.status(2, "PUT", "/v0/entity?id=k&ack=3&from=3", b"v"), 201);
    let (code, text) = quipu(&["cluster", "abort", "--url", &nodes.url(0)]);
    assert!(code == Some(1) && text.contains("no change of members is under way"), "{text}");
}

/// A node that was added ended before it had copied: the change waited for it, and could not be given up.
#[test]
fn a_change_is_given_up_while_it_copies() {
    let mut nodes = with_newcomer(&[]);
    join(&mut nodes, 3);
    // It does not come any more: it answers, and does nothing.
    let add = format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(3));
    let url = nodes.url(3);
    nodes.signal(2, "STOP");
    assert_eq!(order(&nodes, 0, &add).0, 202);
    nodes.kill(3);
    nodes.signal(2, "CONT");
    eventually("the change waits for it", || change_of(&nodes, 0)["waits_for"][0] == url.as_str());
    let (code, text) = quipu(&["cluster", "abort", "--url", &nodes.url(1)]);
    assert!(code == Some(0) && text.contains("3 nodes"), "{code:?} {text}");
    until_changed(&nodes, 2, 3);
    assert_eq!(nodes.get(1, "/v0/entity?id=k&ack=3&from=3").body, b"v");
    assert_eq!(nodes.status(2, "PUT", "/v0/entity?id=k&ack=3&from=3", b"w"), 201);
    // On a new directory it comes under another id.
    nodes.erase(3);
    join(&mut nodes, 3);
    let (code, text) = quipu(&["cluster", "add", &url, "--url", &nodes.url(1)]);
    assert!(code == Some(0) && text.contains("4 nodes"), "{code:?} {text}");
    assert_eq!(nodes.get(3, "/v0/entity?id=k&ack=3&from=3").body, b"w");
}

/// It was refused, since a change was under way, which waited for that member for ever; and the status named another.
#[test]
fn a_member_that_dies_during_a_change_is_declared_dead_and_removed() {
    let mut nodes = Nodes::of_list(5, 4, &["--replicas", "3"]);
    (0..4).for_each(|node| nodes.spawn(node));
    (0..4).for_each(|node| nodes.until_ready(node));
    for number in 0..40 {
        assert_eq!(nodes.status(number % 4, "PUT", &format!("/v0/entity?id=k{number}&ack=3"), b"v"), 201);
    }
    join(&mut nodes, 4);
    nodes.kill(3);
    let dead = nodes.url(3);
    eventually("the others see that", || nodes.get(0, "/v0/cluster").text().contains("\"health\":\"down\""));
    assert_eq!(order(&nodes, 0, &format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(4))).0, 202);
    eventually("the change waits for it", || change_of(&nodes, 0)["down"][0] == dead.as_str());
    let (status, text) = order(&nodes, 1, &format!("{{\"remove\":[\"{}\"]}}", nodes.url(0)));
    assert!(status == 409 && text.contains(&dead) && text.contains("quipu cluster abort"), "{status} {text}");
    let (code, text) = quipu(&["cluster", "remove", "--dead", &dead, "--url", &nodes.url(0)]);
    let done = text.lines().find(|line| line.starts_with("done in")).unwrap_or_default();
    assert!(code == Some(0) && done.contains("4 nodes") && !done.contains(&dead), "{code:?} {text}");
    for node in [0, 1, 2, 4] {
        nodes.until_ready(node);
    }
    for number in 0..40 {
        assert_eq!(nodes.get(4, &format!("/v0/entity?id=k{number}&ack=3")).body, b"v", "k{number}");
    }
}

/// Keys that were written through one node were absent through another.
#[test]
fn a_node_that_was_told_another_number_of_replicas_is_refused() {
    let mut nodes = Nodes::new(3, &[]);
    nodes.spawn(0);
    nodes.spawn(1);
    nodes.spawn_with(2, &["--replicas", "1"]);
    nodes.until_ready(0);
    for node in [0, 2] {
        eventually("both are told", || nodes.log(node).contains("give all nodes the same `--replicas`"));
    }
    assert_eq!(nodes.get(2, "/readyz").status, 503);
    assert_eq!(nodes.status(2, "PUT", "/v0/entity?id=k", b"v"), 504);
    nodes.kill(2);
    nodes.spawn(2);
    nodes.until_ready(2);
    // Once it has its place the number is that of the cluster.
    nodes.kill(2);
    let output = nodes.command(2, &["--replicas", "2"]).output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("the cluster was formed with 3"), "{text}");
    let output = nodes.command(2, &["--replicas", "0"]).output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("between 1 and 32"), "{text}");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let status = std::process::Command::new("cp").arg("-r").args([from, to]).status().expect("cp");
    assert!(status.success());
}

/// It was trusted as the same store, and answered what was true when the copy was made.
#[test]
fn a_directory_that_was_put_back_from_a_copy_is_noticed() {
    let mut nodes = Nodes::start(3, &[]);
    (0..3).for_each(|node| nodes.until_ready(node));
    assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=k&ack=3", b"old"), 201);
    assert_eq!(nodes.stop(2), Some(0));
    let kept = nodes.data(2).with_extension("kept");
    copy(&nodes.data(2), &kept);
    nodes.restart(2);
    nodes.until_ready(2);
    // Two connections to the node may be made at once, of which one goes again.
    eventually("all have it", || nodes.status(0, "PUT", "/v0/entity?id=k&ack=3", b"new") == 201);
    // What is copied had come one further at most than had been heard.
    let mark = || {
        let report: serde_json::Value = serde_json::from_str(&nodes.get(0, "/v0/cluster").text()).expect("JSON");
        let peers = report["peers"].as_array().expect("peers");
        let peer = peers.iter().find(|peer| peer["url"] == nodes.url(2).as_str()).expect("the node");
        peer["mark"].as_u64().expect("a mark")
    };
    let before = mark();
    eventually("the others hear that its store comes further", || {
        assert_eq!(nodes.status(0, "PUT", "/v0/entity?id=other&ack=2", b"v"), 201);
        mark() >= before + 2
    });
    assert_eq!(nodes.stop(2), Some(0));
    nodes.erase(2);
    copy(&kept, &nodes.data(2));
    nodes.spawn(2);
    eventually("it is told", || {
        ask(nodes.address(2), "GET", "/readyz", b"", "")
            .is_ok_and(|reply| reply.text().contains("put back from a copy"))
    });
    let reply = nodes.ask(2, "GET", "/v0/entity?id=k&ack=1&from=3", b"");
    assert!(reply.status == 503 && reply.text().contains("empty directory"), "{reply:?}");
    nodes.kill(2);
    let output = nodes.command(2, &[]).output().expect("it ends");
    assert!(!output.status.success(), "nor does it start again");
    // What `quipu restore` makes of the copy copies from the others.
    nodes.erase(2);
    let words = [kept.to_str().expect("a path"), &nodes.data(2).display().to_string()].map(str::to_owned);
    let backup = kept.with_extension("backup").display().to_string();
    let (code, text) = quipu(&["backup", &words[0], &backup]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = quipu(&["restore", &backup, &words[1]]);
    assert!(code == Some(0) && text.contains("copies all from the others"), "{text}");
    nodes.spawn(2);
    nodes.until_ready(2);
    assert_eq!(nodes.get(2, "/v0/entity?id=k&ack=1&from=3").body, b"new");
    eventually("it has all", || nodes.get(2, "/v0/count").text() == "2");
}

/// All nodes of a cluster are lost, and come back with what their backups have.
#[test]
fn a_whole_cluster_is_restored_from_the_backups_of_its_nodes() {
    let mut nodes = Nodes::start(3, &[]);
    (0..3).for_each(|node| nodes.until_ready(node));
    for number in 0..30 {
        assert_eq!(nodes.status(number % 3, "PUT", &format!("/v0/entity?id=k{number}&ack=3"), b"v"), 201);
    }
    let backup = |node: usize| nodes.data(node).with_extension("backup").display().to_string();
    let backups = [0, 1, 2].map(backup);
    for (node, backup) in backups.iter().enumerate() {
        assert_eq!(nodes.stop(node), Some(0));
        let (code, text) = quipu(&["backup", &nodes.data(node).display().to_string(), backup]);
        assert_eq!(code, Some(0), "{text}");
        nodes.erase(node);
        let data = nodes.data(node).display().to_string();
        let (code, text) = quipu(&["restore", "--whole-cluster", backup, &data]);
        assert_eq!(code, Some(0), "{text}");
    }
    (0..3).for_each(|node| nodes.spawn(node));
    (0..3).for_each(|node| nodes.until_ready(node));
    for number in 0..30 {
        assert_eq!(nodes.get(number % 3, &format!("/v0/entity?id=k{number}&ack=3")).body, b"v", "k{number}");
    }
}
