//! Goal: the commands over ordered keys, transactions over ranges, and snapshots answer exactly, with keys of any kind,
//! expiry included. Method: transcripts, and a model of sorted keys under random writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Client, in_memory};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A source of chance, from SEED or else this seed.
fn seeded(seed: u64) -> StdRng {
    let seed = quipu_testing::seeds::seed_or(seed);
    println!("SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[test]
fn positions_of_keys() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("q.count - +", ":0");
    client.expect("q.nth 0", "$-1");
    client.expect("q.quantile - + 0.5", "*1|$-1");
    client.expect("q.split - + 4", "*0");
    client.expect("mset a 1 b 2 c 3 d 4 e 5", "+OK");
    client.expect("q.count - +", ":5");
    client.expect("q.count", ":5");
    client.expect("q.count [b (d", ":2");
    client.expect("q.count (b [d", ":2");
    client.expect("q.count + -", ":0");
    client.expect("q.count [d [b", ":0");
    client.expect("q.count b d", "-ERR min or max not valid string range item");
    client.expect("q.rank c", ":2");
    client.expect("q.rank cc", ":3");
    client.expect("q.nth 1", "$1|b");
    client.expect("q.nth -1", "$1|e");
    client.expect("q.nth -6", "$-1");
    client.expect("q.nth 0 (b +", "$1|c");
    client.expect("q.nth x", "-ERR value is not an integer or out of range");
    client.expect("q.range - + offset 1 limit 2", "*2|$1|b|$1|c");
    client.expect("q.range - + rev offset 1 limit 2 withvalues withtotal", "*2|:5|*4|$1|d|$1|4|$1|c|$1|3");
    client.expect("q.range - + limit", "-ERR syntax error");
    client.expect("q.quantile - + 0 0.5 1", "*3|$1|a|$1|c|$1|e");
    client.expect("q.quantile - + 1.5", "-ERR a quantile is a number from 0 to 1");
    client.expect("q.split - + 5", "*4|$1|b|$1|c|$1|d|$1|e");
    client.expect("q.sample - + 9", "*5|$1|a|$1|b|$1|c|$1|d|$1|e");
    assert!(
        client.run("q.tally [a [b").starts_with("*6\r\n$4\r\nrows\r\n:2\r\n$5\r\nbytes\r\n:6\r\n$4\r\nhash\r\n$16\r\n")
    );
    client.expect("q.delrange [b (e", ":3");
    client.expect("q.range - +", "*2|$1|a|$1|e");
    client.expect("set a 1 px 1", "+OK");
    std::thread::park_timeout(std::time::Duration::from_millis(5));
    client.expect("q.count - +", ":1");
    client.expect("get a", "$-1");
}

#[test]
fn a_transaction_over_a_range() {
    let server = in_memory();
    let (mut one, mut two) = (Client::new(&server), Client::new(&server));
    for (watch, write, goes_on) in [
        ("q.watch [a [c", "set b changed", false),
        ("q.watch [a [c count", "set b changed", true),
        ("q.watch [a [c count", "del b", false),
        ("q.watch [a [c", "set z elsewhere", true),
        ("watch b", "set b same", false),
        ("watch b", "set c other", true),
    ] {
        one.expect("mset a 1 b same c 3", "+OK");
        one.expect(watch, "+OK");
        one.expect("multi", "+OK");
        one.expect("q.count [a [c", "+QUEUED");
        one.expect("q.watch - +", "-ERR Q.WATCH inside MULTI is not allowed");
        one.expect("discard", "+OK");
        one.expect(watch, "+OK");
        one.expect("multi", "+OK");
        one.expect("q.count [a [c", "+QUEUED");
        assert!(two.run(write).starts_with(['+', ':']));
        one.expect("exec", if goes_on { "*1|:3" } else { "*-1" });
    }
    one.expect("exec", "-ERR EXEC without MULTI");
    one.expect("multi", "+OK");
    one.expect("multi", "-ERR MULTI calls can not be nested");
    one.expect("nonsense", "-ERR unknown command 'nonsense', with args beginning with: ");
    one.expect("exec", "-EXECABORT Transaction discarded because of previous errors.");
}

#[test]
fn a_snapshot_is_one_moment() {
    let server = in_memory();
    let (mut one, mut two) = (Client::new(&server), Client::new(&server));
    one.expect("mset a 1 b 2", "+OK");
    let taken = one.run("q.snapshot");
    let number: u64 = taken.trim_start_matches(':').trim_end().parse().expect("a number");
    two.expect("mset a changed c 3", "+OK");
    two.expect("del b", ":1");
    one.expect(&format!("q.at {number} get a"), "$1|1");
    one.expect(&format!("q.at {number} q.range - +"), "*2|$1|a|$1|b");
    one.expect(&format!("q.at {number} dbsize"), ":2");
    one.expect("dbsize", ":2");
    one.expect(&format!("q.at {number} set a 2"), "-ERR 'set' does not only read: it cannot run at a snapshot");
    let next = number + 1;
    one.expect(
        &format!("q.at {next} get a"),
        &format!("-ERR there is no snapshot {next}: its time is over, or it was released"),
    );
    one.expect(&format!("q.release {number}"), ":1");
    one.expect(&format!("q.release {number}"), ":0");
}

/// The keys as a model has them, under random writes with many clients' batches.
#[test]
fn positions_follow_a_model() {
    let rng = &mut seeded(11);
    let server = in_memory();
    let mut client = Client::new(&server);
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..3000 {
        let key = format!("k{:03}", rng.random_range(0..300));
        let other = format!("k{:03}", rng.random_range(0..300));
        match rng.random_range(0..9) {
            0..=2 => {
                client.expect(&format!("set {key} v{key}"), "+OK");
                model.insert(key.clone(), format!("v{key}"));
            }
            3 => client.expect(&format!("del {key}"), &format!(":{}", u8::from(model.remove(&key).is_some()))),
            4 => {
                let rows = model.range(key.clone()..).take_while(|(k, _)| **k <= other).count();
                client.expect(&format!("q.count [{key} [{other}"), &format!(":{rows}"));
            }
            5 => client.expect(&format!("q.rank {key}"), &format!(":{}", model.range(..key).count())),
            6 => {
                let offset = rng.random_range(0..300);
                let expected = model.keys().nth(offset).map_or("$-1".to_owned(), |key| format!("$4|{key}"));
                client.expect(&format!("q.nth {offset}"), &expected);
            }
            7 if rng.random_range(0..20) == 0 => {
                let gone: Vec<String> =
                    model.range(key.clone()..).map(|(k, _)| k.clone()).take_while(|k| *k < other).collect();
                client.expect(&format!("q.delrange [{key} ({other}"), &format!(":{}", gone.len()));
                gone.iter().for_each(|key| drop(model.remove(key)));
            }
            _ => {
                let (offset, limit) = (rng.random_range(0..200), rng.random_range(0..10));
                let rows: Vec<&String> = model.range(key.clone()..).map(|(k, _)| k).collect();
                let mut expected = format!("*2|:{}|*", rows.len());
                let part: Vec<_> = rows.into_iter().rev().skip(offset).take(limit).collect();
                expected.push_str(&part.len().to_string());
                part.iter().for_each(|key| expected.push_str(&format!("|$4|{key}")));
                client.expect(&format!("q.range [{key} + rev offset {offset} limit {limit} withtotal"), &expected);
            }
        }
    }
}

/// Removals of ranges in which keys are strings short and long, collections, expire, or are watched: what is counted as
/// removed is gone, with all that hung on it.
#[test]
fn a_range_goes_with_all_that_hangs_on_its_keys() {
    let rng = &mut seeded(12);
    let server = in_memory();
    let (mut client, mut watcher) = (Client::new(&server), Client::new(&server));
    let long = "l".repeat(70_000);
    let mut model: BTreeSet<String> = BTreeSet::new();
    for round in 0..60 {
        for _ in 0..rng.random_range(0..60) {
            let key = format!("k{:03}", rng.random_range(0..200));
            match rng.random_range(0..10) {
                0..=3 => client.expect(&format!("set {key} v"), "+OK"),
                4 => client.expect(&format!("set {key} v ex 1000"), "+OK"),
                5 => client.expect(&format!("set {key} {long}"), "+OK"),
                6 => client.expect(&format!("set {key} {long} ex 1000"), "+OK"),
                // Over what was there, under another name: elements and pieces come along.
                7 if model.contains("k000") => {
                    client.expect(&format!("rename k000 {key}"), "+OK");
                    model.remove("k000");
                }
                8 if model.contains("k001") && key != "k001" => {
                    client.expect(&format!("copy k001 {key} replace"), ":1");
                }
                _ => {
                    client.run(&format!("del {key}"));
                    client.expect(&format!("zadd {key} 1 a 2 b"), ":2");
                }
            }
            model.insert(key);
        }
        // Few keys expire among many, or many among few.
        if rng.random_range(0..3) == 0 {
            client.expect("set x v ex 1000", "+OK");
            model.insert("x".to_owned());
        }
        // Away and back: what it owns moves from one database's tables to the other's.
        if model.contains("k002") {
            client.expect("move k002 3", ":1");
            client.expect("select 3", "+OK");
            client.expect("move k002 0", ":1");
            client.expect("select 0", "+OK");
        }
        let (low, high) = (rng.random_range(0..200), rng.random_range(0..200));
        let (low, high) = (format!("k{low:03}"), format!("k{high:03}"));
        let is_inside = |key: &String| *key >= low && *key < high;
        let gone = model.iter().filter(|key| is_inside(key)).count();
        let watched = format!("k{:03}", rng.random_range(0..200));
        watcher.expect(&format!("watch {watched}"), "+OK");
        client.expect(&format!("q.delrange [{low} ({high}"), &format!(":{gone}"));
        watcher.expect("multi", "+OK");
        let is_touched = is_inside(&watched) && model.contains(&watched);
        watcher.expect("exec", if is_touched { "*-1" } else { "*0" });
        model.retain(|key| !is_inside(key));
        client.expect("q.count - +", &format!(":{}", model.len()));
        let faults = quipu_server::keyspace::check(server.keyspace.db()).expect("read");
        assert_eq!(faults, Vec::<String>::new(), "round {round}");
    }
}
