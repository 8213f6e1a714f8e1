//! Goal: with `ack` of writes plus `ack` of reads above `from`, no read is older than a write that was acknowledged
//! before it began, versions are in the order of acknowledged writes, and nothing acknowledged is lost, whatever single
//! nodes do.
//! Method: three or four processes; clients write and read some keys through all of them, and note when and what;
//! meanwhile nodes are killed, paused, stopped and robbed of their directories, and leave and join, one after the
//! other. Where the system allows namespaces, links between nodes are cut, also one way, and a disk is full. Each write
//! has a version and each read returns one, so the checks are comparisons. `SEED` and `RUN_SECONDS` choose another run.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::nodes::{Nodes, ask, eventually, network, now, pause};

const KEYS: u64 = 6;
const CLIENTS: u64 = 6;

/// When a version was written: its time and node.
type Version = (u64, u16);

#[derive(Clone, Debug)]
struct Event {
    key: u64,
    begun: Instant,
    ended: Instant,
    /// The value that was written; none: it was read.
    written: Option<String>,
    /// What came back; none: the write was not acknowledged, or the key was absent.
    version: Option<Version>,
    /// What was read.
    value: Option<String>,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 29)) % bound
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn version_of(tag: Option<&str>) -> Option<Version> {
    let (time, node) = tag?.trim_matches('"').split_once('-')?;
    Some((time.parse().ok()?, node.parse().ok()?))
}

/// Writes and reads until it is told to stop; returns what it saw.
fn client(nodes: &[SocketAddr], client: u64, seed: u64, stops: &AtomicBool) -> Vec<Event> {
    let mut dice = Dice(seed ^ client << 40);
    let mut events = Vec::new();
    while !stops.load(Ordering::Relaxed) {
        let (key, node) = (dice.below(KEYS), nodes[dice.below(nodes.len() as u64) as usize]);
        let target = format!("/v0/entity?id=key-{key}&ack=2&from=3");
        let written = (dice.below(2) == 0).then(|| format!("{client}-{}", events.len()));
        let begun = now();
        let reply = match &written {
            Some(value) => ask(node, "PUT", &target, value.as_bytes(), ""),
            None => ask(node, "GET", &target, b"", ""),
        };
        let ended = now();
        let mut event = Event { key, begun, ended, written, version: None, value: None };
        match reply {
            Ok(reply) if matches!(reply.status, 200 | 201) => {
                event.version = version_of(reply.header("etag"));
                event.value = event.written.is_none().then(|| reply.text());
            }
            Ok(reply) if reply.status == 404 => event.value = Some(String::new()),
            // Not known what became of it.
            Ok(reply) => assert!(matches!(reply.status, 503 | 504), "{reply:?}"),
            Err(_) => {}
        }
        events.push(event);
    }
    events
}

/// Waits until a node says that no change of members is under way.
fn until_unchanged(nodes: &Nodes, node: usize) {
    eventually("the change of members has ended", || {
        ask(nodes.address(node), "GET", "/v0/cluster", b"", "")
            .is_ok_and(|reply| reply.text().contains("\"change\":null"))
    });
}

/// Orders other members of a node until that is taken: the log may have no leader for a moment.
fn order(nodes: &Nodes, node: usize, order: &str) {
    eventually("the change has begun", || {
        let reply = ask(nodes.address(node), "POST", "/v0/cluster", order.as_bytes(), "");
        reply.is_ok_and(|reply| reply.status == 202 || reply.text().contains("is a member already"))
    });
}

/// A node leaves, and comes back as a new one. Meanwhile a third one is killed and comes back, if it is named.
fn leave_and_join(nodes: &mut Nodes, node: usize, other: usize, killed: Option<(usize, &[&str])>) {
    order(nodes, other, &format!("{{\"remove\":[\"{}\"]}}", nodes.url(node)));
    if let Some((killed, flags)) = killed {
        nodes.kill(killed);
        nodes.spawn_with(killed, flags);
        nodes.wait(killed);
    }
    eventually("it knows that it has left", || {
        ask(nodes.address(node), "GET", "/readyz", b"", "").is_ok_and(|reply| reply.text().contains("was removed"))
    });
    until_unchanged(nodes, other);
    nodes.kill(node);
    nodes.erase(node);
    let list = nodes.url(other);
    nodes.spawn_with(node, &["--join", &list]);
    order(nodes, other, &format!("{{\"add\":[{{\"url\":\"{}\"}}]}}", nodes.url(node)));
}

/// One fault after the other, each of which ends before the next begins.
fn trouble(nodes: &Mutex<Nodes>, dice: &mut Dice, until: Instant) -> u32 {
    let mut faults = 0;
    let count = nodes.lock().expect("the nodes").count();
    let mut joined = vec![false; count];
    while now() < until {
        let node = dice.below(count as u64) as usize;
        let other = (node + 1) % count;
        let mut nodes = nodes.lock().expect("the nodes");
        let list = nodes.url(other);
        let flags_of = |has_joined: bool| if has_joined { vec!["--join", &list] } else { Vec::new() };
        let flags = flags_of(joined[node]);
        let start = |nodes: &mut Nodes| {
            nodes.spawn_with(node, &flags);
            nodes.wait(node);
        };
        // With three nodes none can leave.
        match dice.below(if count > 3 { 8 } else { 5 }) {
            0 | 1 => {
                nodes.kill(node);
                pause(dice.below(600));
                start(&mut nodes);
            }
            2 => {
                nodes.signal(node, "STOP");
                pause(200 + dice.below(1500));
                nodes.signal(node, "CONT");
            }
            3 => {
                assert_eq!(nodes.stop(node), Some(0));
                start(&mut nodes);
            }
            4 => {
                nodes.kill(node);
                nodes.erase(node);
                start(&mut nodes);
            }
            kind => {
                let third = (node + 2) % count;
                let flags = flags_of(joined[third]);
                leave_and_join(&mut nodes, node, other, (kind == 7).then_some((third, &flags[..])));
                joined[node] = true;
            }
        }
        nodes.until_ready(node);
        (0..count).for_each(|node| until_unchanged(&nodes, node));
        faults += 1;
        drop(nodes);
        pause(dice.below(300));
    }
    faults
}

/// Links that are cut, one way or both, and a disk without room, each of which ends before the next begins.
fn outside_trouble(nodes: &Mutex<Nodes>, dice: &mut Dice, until: Instant) -> u32 {
    let mut faults = 0;
    let count = nodes.lock().expect("the nodes").count();
    while now() < until {
        let node = dice.below(count as u64) as usize;
        let other = (node + 1 + dice.below(count as u64 - 1) as usize) % count;
        let mut nodes = nodes.lock().expect("the nodes");
        let links = nodes.network.as_ref().expect("a network");
        match dice.below(5) {
            0 => links.isolate(node),
            1 => {
                links.cut(node, other);
                links.cut(other, node);
            }
            2 => links.cut(node, other),
            3 => (0..count).filter(|peer| *peer != node).for_each(|peer| links.cut(peer, node)),
            _ => fill(&nodes, FULL),
        }
        pause(200 + dice.below(3000));
        nodes.network.as_ref().expect("a network").heal();
        if filler(&nodes, FULL).exists() {
            make_room(&mut nodes, FULL);
        }
        (0..count).for_each(|node| nodes.until_ready(node));
        faults += 1;
        drop(nodes);
        pause(dice.below(300));
    }
    faults
}

/// The node whose disk is small.
const FULL: usize = 2;
const DISK_MEGABYTES: usize = 96;

fn filler(nodes: &Nodes, node: usize) -> std::path::PathBuf {
    nodes.data(node).join("filler")
}

/// Removes what fills the disk of a node, and starts the node again.
fn make_room(nodes: &mut Nodes, node: usize) {
    std::fs::remove_file(filler(nodes, node)).expect("a file to remove");
    nodes.kill(node);
    nodes.restart(node);
}

/// Fills the disk of a node.
#[expect(clippy::disallowed_methods, reason = "a file of the test")]
fn fill(nodes: &Nodes, node: usize) {
    let mut file = std::fs::File::create(filler(nodes, node)).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn nothing_acknowledged_is_lost_or_unseen_while_nodes_fail() {
    check_history(Nodes::start(3, &["--replicas", "3"]), number("SEED", 1), trouble);
}

#[test]
fn nothing_acknowledged_is_lost_or_unseen_where_answers_wait_for_the_disk() {
    check_history(Nodes::start(3, &["--replicas", "3", "--durability", "sync"]), number("SEED", 3), trouble);
}

#[test]
fn nothing_acknowledged_is_lost_or_unseen_while_members_change() {
    check_history(Nodes::start(4, &["--replicas", "3"]), number("SEED", 2), trouble);
}

#[test]
fn nothing_acknowledged_is_lost_or_unseen_while_links_are_cut_and_a_disk_is_full() {
    if !network::is_inside(
        "cluster_history::nothing_acknowledged_is_lost_or_unseen_while_links_are_cut_and_a_disk_is_full",
    ) {
        return;
    }
    let mut nodes = Nodes::in_network(3, &[]);
    network::mount_disk(&nodes.data(FULL), DISK_MEGABYTES);
    (0..3).for_each(|node| nodes.spawn(node));
    (0..3).for_each(|node| nodes.until_ready(node));
    // The faults are faults.
    let put = |nodes: &Nodes, node, ack| nodes.status(node, "PUT", &format!("/v0/entity?id=key&ack={ack}"), b"v");
    let links = nodes.network.as_ref().expect("a network");
    links.isolate(0);
    assert_eq!((put(&nodes, 0, 2), put(&nodes, 1, 3)), (504, 504));
    eventually("two are enough", || put(&nodes, 1, 2) == 201);
    links.heal();
    eventually("the node is back", || put(&nodes, 0, 3) == 201);
    links.cut(1, 0);
    assert_eq!(put(&nodes, 0, 3), 504);
    eventually("two are enough", || put(&nodes, 2, 2) == 201 && put(&nodes, 1, 2) == 201);
    links.heal();
    eventually("the link is back", || put(&nodes, 0, 3) == 201);
    fill(&nodes, FULL);
    let large = vec![7; 1 << 20];
    eventually("the disk is full", || nodes.status(0, "PUT", "/v0/entity?id=large&ack=3", &large) == 504);
    eventually("two are enough", || nodes.status(0, "PUT", "/v0/entity?id=large&ack=2", &large) == 201);
    eventually("it says why", || {
        // It tries again as long as it is asked to.
        nodes.status(0, "PUT", "/v0/entity?id=large&ack=3", &large);
        let trouble = nodes.get(FULL, "/readyz");
        trouble.status == 503 && trouble.text().contains("No space left")
    });
    make_room(&mut nodes, FULL);
    eventually("the node is back", || put(&nodes, FULL, 3) == 201);
    assert_eq!(nodes.get(FULL, "/v0/entity?id=large&ack=3").body, large);

    check_history(nodes, number("SEED", 3), outside_trouble);
}

type Trouble = fn(&Mutex<Nodes>, &mut Dice, Instant) -> u32;

fn check_history(nodes: Nodes, seed: u64, trouble: Trouble) {
    let seconds = number("RUN_SECONDS", 12);
    println!("SEED={seed} RUN_SECONDS={seconds}");
    let count = nodes.count();
    let nodes = Mutex::new(nodes);
    let addresses: Vec<SocketAddr> = nodes.lock().expect("the nodes").addresses().to_vec();
    let stops = AtomicBool::new(false);
    let (events, faults) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let (addresses, stops) = (&addresses, &stops);
                    move || client(addresses, number, seed, stops)
                })
            })
            .collect();
        let until = now() + std::time::Duration::from_secs(seconds);
        let trouble = std::panic::catch_unwind(AssertUnwindSafe(|| trouble(&nodes, &mut Dice(seed), until)));
        stops.store(true, Ordering::Relaxed);
        let events: Vec<Event> = clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();
        (events, trouble.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (writes, reads): (Vec<&Event>, Vec<&Event>) = events.iter().partition(|event| event.written.is_some());
    let acknowledged: Vec<&&Event> = writes.iter().filter(|write| write.version.is_some()).collect();
    println!("{faults} faults, {} of {} writes acknowledged, {} reads", acknowledged.len(), writes.len(), reads.len());
    assert!(faults > 1 && acknowledged.len() > 100, "the run was too short to say anything");

    // 1. One version is one write, and what a read returns was written by a write that began before the read ended.
    let by_value: BTreeMap<&str, &Event> =
        writes.iter().filter_map(|write| Some((write.written.as_deref()?, *write))).collect();
    let mut values: BTreeMap<(u64, Version), &str> = BTreeMap::new();
    for event in &events {
        let (Some(version), Some(value)) = (event.version, event.written.as_ref().or(event.value.as_ref())) else {
            continue;
        };
        let known = values.entry((event.key, version)).or_insert(value);
        assert_eq!(known, value, "two values of one version: {event:?}");
        let source = by_value.get(value.as_str()).unwrap_or_else(|| panic!("nobody wrote it: {event:?}"));
        assert!(source.key == event.key && source.begun <= event.ended, "{event:?} of {source:?}");
    }
    // 2. No read is older than a write acknowledged before it began; 3. nor is such a write's version.
    for write in &acknowledged {
        for event in events.iter().filter(|event| event.key == write.key && event.begun > write.ended) {
            let was_answered = event.version.is_some() || event.value.is_some();
            assert!(
                !was_answered
                    || event.version > write.version
                    || event.version == write.version && event.written.is_none(),
                "acknowledged: {write:?}\nand then: {event:?}"
            );
        }
    }
    // In the end all replicas agree, and no node has lost what was acknowledged.
    let nodes = nodes.lock().expect("the nodes");
    for key in 0..KEYS {
        let highest = acknowledged.iter().filter(|write| write.key == key).filter_map(|write| write.version).max();
        for node in 0..count {
            let target = format!("/v0/entity?id=key-{key}&ack=3&from=3");
            let mut reply = None;
            // Where a link was cut, what was sent before is sent again a while after.
            eventually("all three answer", || {
                let answer = nodes.get(node, &target);
                let is_answered = answer.status != 504;
                reply = Some(answer);
                is_answered
            });
            let reply = reply.expect("an answer");
            assert!(version_of(reply.header("etag")) >= highest, "key {key} through node {node}: {reply:?}");
        }
    }
}
