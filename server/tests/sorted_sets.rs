//! Goal: sorted sets answer as a model of maps does, whatever pages split, and both parts of each agree after every
//! step. Method: random commands, alone and in runs, over pages of 256 bytes, with the database opened anew in between;
//! named cases for what Redis does at the edges.

use std::collections::{BTreeMap, HashMap};

use crate::support::{Client, in_memory, server, words};
use quipu::Options;
use quipu_server::Server;
use quipu_server::keyspace::sorted_set::{SortedSet, member_hash};
use quipu_server::keyspace::{Data, Need};
use quipu_server::resp::number;
use quipu_server::resp::reply::Protocol;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What is broken in the set at a key of database 0; nothing if there is no such key.
fn faults(server: &Server, key: &str) -> Vec<String> {
    let data = Data::open(&server.keyspace, Need::Read, 1).expect("data");
    let id = data.entry(0, key.as_bytes()).expect("an entry").and_then(|entry| entry.collection());
    let faults = match id {
        None => Vec::new(),
        Some(id) => {
            let set = SortedSet::open(&data, 0, id).expect("a set");
            let mut faults = set.check().expect("checked");
            if set.is_empty().expect("counted") {
                faults.push("it has no members".to_owned());
            }
            faults
        }
    };
    let _ = data.close().expect("closed");
    faults
}

/// Rows of all collections of database 0.
fn element_rows(server: &Server) -> u64 {
    let data = Data::open(&server.keyspace, Need::Read, 1).expect("data");
    let rows = data.rows_with_prefix(0, b"").expect("counted");
    let _ = data.close().expect("closed");
    rows
}

type Set = BTreeMap<Vec<u8>, f64>;

fn in_order(set: &Set) -> Vec<(Vec<u8>, f64)> {
    let mut members: Vec<_> = set.iter().map(|(member, score)| (member.clone(), *score)).collect();
    members.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    members
}

fn text(score: f64) -> String {
    let mut out = Vec::new();
    number::write_f64(&mut out, score);
    String::from_utf8(out).expect("digits")
}

fn bulk(bytes: &[u8]) -> String {
    format!("${}\r\n{}\r\n", bytes.len(), String::from_utf8_lossy(bytes))
}

fn list(members: &[(Vec<u8>, f64)], with_scores: bool) -> String {
    let mut out = format!("*{}\r\n", members.len() * if with_scores { 2 } else { 1 });
    for (member, score) in members {
        out += &bulk(member);
        if with_scores {
            out += &bulk(text(*score).as_bytes());
        }
    }
    out
}

/// Sorted sets as plain maps.
#[derive(Default)]
struct Model {
    sets: HashMap<String, Set>,
}

impl Model {
    fn get(&self, key: &str) -> Vec<(Vec<u8>, f64)> {
        self.sets.get(key).map(in_order).unwrap_or_default()
    }

    fn remove(&mut self, key: &str, members: &[(Vec<u8>, f64)]) {
        if let Some(set) = self.sets.get_mut(key) {
            set.retain(|name, _| !members.iter().any(|(member, _)| member == name));
            if set.is_empty() {
                self.sets.remove(key);
            }
        }
    }

    /// Some command of this shape, and its answer.
    fn command(&mut self, rng: &mut StdRng, shape: u32) -> (String, String) {
        let key = format!("set{}", rng.random_range(0..3));
        let name = |rng: &mut StdRng| {
            let number = rng.random_range(0..120);
            if number < 10 { "m".repeat(number + 1) } else { format!("member{number:03}") }
        };
        let score = |rng: &mut StdRng| match rng.random_range(0..6) {
            0 => f64::from(rng.random_range(-3..3)),
            1 => rng.random_range(-1.0..1.0),
            2 => f64::from(rng.random_range(-1_000_000..1_000_000)) / 8.0,
            3 => [f64::INFINITY, f64::NEG_INFINITY, 1e300, -5e-324][rng.random_range(0..4)],
            _ => 0.0,
        };
        let bounds = |rng: &mut StdRng| {
            let (a, b) = (score(rng), score(rng));
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            (low, high, rng.random::<bool>(), rng.random::<bool>())
        };
        let spelled = |score: f64, open: bool| format!("{}{}", if open { "(" } else { "" }, text(score));
        let inside = |score: f64, (low, high, above, below): (f64, f64, bool, bool)| {
            (if above { score > low } else { score >= low }) && (if below { score < high } else { score <= high })
        };
        let old = self.get(&key);
        let rows = old.len() as i64;
        let part = |start: i64, stop: i64| {
            let from_end = |rank: i64| if rank < 0 { rank + rows } else { rank };
            let (start, stop) = (from_end(start).max(0), from_end(stop).min(rows - 1));
            if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
        };
        match shape {
            0..3 => {
                let (member, new) = (name(rng), score(rng));
                let had = self.sets.entry(key.clone()).or_default().insert(member.clone().into_bytes(), new + 0.0);
                (format!("zadd {key} {} {member}", text(new)), format!(":{}\r\n", u32::from(had.is_none())))
            }
            3 => {
                let member = name(rng);
                let found = old.iter().find(|(known, _)| *known == member.as_bytes());
                let answer = found.map_or("$-1\r\n".to_owned(), |(_, score)| bulk(text(*score).as_bytes()));
                (format!("zscore {key} {member}"), answer)
            }
            4 | 5 => {
                let member = name(rng);
                let found = old.iter().position(|(known, _)| *known == member.as_bytes());
                let rank = |rank: usize| if shape == 4 { rank } else { old.len() - 1 - rank };
                let answer = found.map_or("$-1\r\n".to_owned(), |at| format!(":{}\r\n", rank(at)));
                (format!("{} {key} {member}", if shape == 4 { "zrank" } else { "zrevrank" }), answer)
            }
            6 => {
                let range = bounds(rng);
                let count = old.iter().filter(|(_, score)| inside(*score, range)).count();
                let line = format!("zcount {key} {} {}", spelled(range.0, range.2), spelled(range.1, range.3));
                (line, format!(":{count}\r\n"))
            }
            7 | 8 => {
                let (start, stop) = (rng.random_range(-150..150), rng.random_range(-150..150));
                (format!("zrange {key} {start} {stop}"), list(&old[part(start, stop)], false))
            }
            9 => {
                let member = name(rng);
                let at = old.iter().position(|(known, _)| *known == member.as_bytes());
                let removed: Vec<_> = at.map(|at| old[at].clone()).into_iter().collect();
                self.remove(&key, &removed);
                (format!("zrem {key} {member}"), format!(":{}\r\n", removed.len()))
            }
            10 => {
                let (start, stop) = (rng.random_range(-130..130), rng.random_range(-130..130));
                let removed = &old[part(start, stop)];
                self.remove(&key, removed);
                (format!("zremrangebyrank {key} {start} {stop}"), format!(":{}\r\n", removed.len()))
            }
            11 => {
                let range = bounds(rng);
                let removed: Vec<_> = old.iter().filter(|(_, score)| inside(*score, range)).cloned().collect();
                self.remove(&key, &removed);
                let line =
                    format!("zremrangebyscore {key} {} {}", spelled(range.0, range.2), spelled(range.1, range.3));
                (line, format!(":{}\r\n", removed.len()))
            }
            12 => {
                let range = bounds(rng);
                let (offset, limit) = (rng.random_range(0..10), rng.random_range(0..20));
                let found = old.iter().rev().filter(|(_, score)| inside(*score, range));
                let found: Vec<_> = found.skip(offset).take(limit).cloned().collect();
                let (min, max) = (spelled(range.0, range.2), spelled(range.1, range.3));
                let line = format!("zrange {key} {max} {min} byscore rev limit {offset} {limit} withscores");
                (line, list(&found, true))
            }
            13 => {
                let count = rng.random_range(1..8).min(old.len());
                let mut popped = old.clone();
                popped.reverse();
                popped.truncate(count);
                self.remove(&key, &popped);
                (format!("zpopmax {key} {}", count.max(1)), list(&popped, true))
            }
            14 => {
                let (other, target) = ("set0", "set2");
                let mut union = self.sets.get(other).cloned().unwrap_or_default();
                for (member, score) in &old {
                    let total = union.get(member).map_or(*score, |had| had + score);
                    union.insert(member.clone(), if total.is_nan() { 0.0 } else { total + 0.0 });
                }
                let answer = format!(":{}\r\n", union.len());
                self.sets.remove(target);
                if !union.is_empty() {
                    self.sets.insert(target.to_owned(), union);
                }
                (format!("zunionstore {target} 2 {other} {key}"), answer)
            }
            _ => {
                self.sets.remove(&key);
                (format!("del {key}"), format!(":{}\r\n", u32::from(!old.is_empty())))
            }
        }
    }
}

fn hold_to_the_model(seed: u64, steps: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let options = Options { page_bytes: 256, ..Options::without_files() };
    let mut model = Model::default();
    let mut done = 0;
    while done < steps {
        let server = server(options.clone(), "/sets");
        let mut client = Client::new(&server);
        for _ in 0..rng.random_range(20..80) {
            let shape = if rng.random_range(0..40) == 0 { 15 } else { rng.random_range(0..15) };
            let commands = if rng.random() { 1 } else { rng.random_range(2..40) };
            let (lines, answers): (Vec<_>, Vec<_>) = (0..commands).map(|_| model.command(&mut rng, shape)).unzip();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(client.run_all(&lines), answers.concat(), "seed {seed}, {lines:?}");
            for key in ["set0", "set1", "set2"] {
                assert_eq!(faults(&server, key), Vec::<String>::new(), "seed {seed}, {key} after {lines:?}");
            }
            done += commands;
        }
        for key in ["set0", "set1", "set2"] {
            let members = model.get(key);
            assert_eq!(client.run(&format!("zrange {key} 0 -1 withscores")), list(&members, true), "seed {seed}");
            assert_eq!(client.run(&format!("zcard {key}")), format!(":{}\r\n", members.len()), "seed {seed}");
        }
    }
}

#[test]
fn sets_are_what_the_model_says() {
    for seed in 0..6 {
        hold_to_the_model(seed, 1500);
    }
}

#[test]
fn a_set_goes_with_its_last_member() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for removal in ["zrem z a b", "zpopmin z 5", "zremrangebyrank z 0 -1", "zremrangebyscore z -inf inf", "del z"] {
        client.expect("zadd z 1 a 2 b", ":2");
        assert_eq!(element_rows(&server), 4);
        client.run(removal);
        client.expect("zcard z", ":0");
        assert_eq!(element_rows(&server), 0, "{removal}");
        client.expect("dbsize", ":0");
    }
    client.expect("zadd z xx 1 a", ":0");
    client.expect("dbsize", ":0");
    // What is overwritten goes too.
    client.expect("zadd z 1 a 2 b", ":2");
    client.expect("set z x", "+OK");
    assert_eq!(element_rows(&server), 0);
}

/// Two members with one hash and one score share an entry, which stays until both are gone.
#[test]
fn members_with_one_hash_are_kept_apart() {
    let server = in_memory();
    let seed = server.keyspace.hash_seed();
    let mut hashes: Vec<(u64, u32)> =
        (0..5_000_000u32).map(|number| (member_hash(seed, format!("m{number}").as_bytes()), number)).collect();
    hashes.sort_unstable();
    let pairs: Vec<(u32, u32)> =
        hashes.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1)).collect();
    // Some eleven are expected.
    assert!(!pairs.is_empty(), "no two of five million members have one hash of 40 bits");
    let mut client = Client::new(&server);
    for (a, b) in pairs {
        for (score_a, score_b) in [(7, 7), (7, 8), (0, 0)] {
            let whole = |server: &Server| assert_eq!(faults(server, "z"), Vec::<String>::new(), "m{a} m{b}");
            client.expect(&format!("zadd z {score_a} m{a}"), ":1");
            client.expect(&format!("zscore z m{b}"), "$-1");
            client.expect(&format!("zadd z {score_b} m{b}"), ":1");
            whole(&server);
            client.expect(&format!("zmscore z m{a} m{b}"), &format!("*2|$1|{score_a}|$1|{score_b}"));
            let is_second = score_a == score_b && format!("m{a}") > format!("m{b}");
            client.expect(&format!("zrank z m{a}"), &format!(":{}", u32::from(is_second)));
            client.expect(&format!("zadd z 9 m{a}"), ":0");
            whole(&server);
            client.expect(&format!("zmscore z m{a} m{b}"), &format!("*2|$1|9|$1|{score_b}"));
            client.expect(&format!("zadd z {score_b} m{a}"), ":0");
            whole(&server);
            client.expect(&format!("zrem z m{b}"), ":1");
            whole(&server);
            client.expect(&format!("zscore z m{a}"), &format!("$1|{score_b}"));
            client.expect(&format!("zrem z m{a}"), ":1");
            client.expect("zcard z", ":0");
        }
    }
    assert_eq!(element_rows(&server), 0);
}

#[test]
fn another_kind_is_refused() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("set s x", "+OK");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in [
        "zadd s 1 a",
        "zincrby s 1 a",
        "zcard s",
        "zscore s a",
        "zmscore s a",
        "zrank s a",
        "zrem s a",
        "zpopmin s",
        "zmpop 2 none s min",
        "zrandmember s",
        "zrandmember s 2",
        "zrange s 0 1",
        "zrangestore d s 0 1",
        "zcount s 1 2",
        "zlexcount s - +",
        "zremrangebyrank s 0 1",
        "zunion 2 none s",
        "zinterstore d 1 s",
        "zdiff 1 s",
        "zscan s 0",
        "zintercard 1 s",
    ] {
        client.expect(line, wrong);
    }
    client.run_all(&["zrank s a", "zrank s b"]);
    assert_eq!(client.run_all(&["zadd s 1 a", "zadd t 1 a"]), format!("{wrong}\r\n:1\r\n"));
    client.expect("zadd z 1 a", ":1");
    client.expect("get z", wrong);
}

#[test]
fn words_are_checked_as_redis_does() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("zadd z 1 a 2 b 3 c", ":3");
    for (line, answer) in [
        ("zadd z nx xx 1 a", "-ERR XX and NX options at the same time are not compatible"),
        ("zadd z nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
        ("zadd z incr 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
        ("zadd z 1 a 2", "-ERR syntax error"),
        ("zadd z x a", "-ERR value is not a valid float"),
        ("zadd z inf i", ":1"),
        ("zincrby z -inf i", "-ERR resulting score is not a number (NaN)"),
        ("zadd none xx incr 1 a", "$-1"),
        ("zpopmin z x", "-ERR value is out of range, must be positive"),
        ("zmpop 0 z min", "-ERR numkeys should be greater than 0"),
        ("zmpop 1 z min count 0", "-ERR count should be greater than 0"),
        ("zmpop 1 none min", "*-1"),
        (
            "zrange z 0 1 limit 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ),
        ("zrange z - + bylex withscores", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX"),
        ("zrange z 0 1 limit 0 -1", "*2|$1|a|$1|b"),
        ("zrangebyscore z 1 x", "-ERR min or max is not a float"),
        ("zrangebyscore z -inf +inf limit 1 -5", "*3|$1|b|$1|c|$1|i"),
        ("zrangebyscore z -inf +inf limit -1 5", "*0"),
        ("zlexcount z a b", "-ERR min or max not valid string range item"),
        ("zunion 1 z aggregate mul", "-ERR syntax error"),
        ("zunion 1 z weights x", "-ERR weight value is not a float"),
        ("zunionstore d 0 z", "-ERR at least 1 input key is needed for 'zunionstore' command"),
        ("zintercard 1 z limit -1", "-ERR LIMIT can't be negative"),
        ("zrank z a withscore", "*2|:0|$1|1"),
        ("zrank z none withscore", "*-1"),
        ("zrank z a other", "-ERR wrong number of arguments for 'zrank' command"),
        ("zscan z x", "-ERR invalid cursor"),
        ("zscan z 0 count 0", "-ERR syntax error"),
        ("zscan none 0 nonsense", "*2|$1|0|*0"),
        ("zscan z 0 match [ab]", "*2|$1|0|*4|$1|a|$1|1|$1|b|$1|2"),
        ("zadd z -0 zero", ":1"),
        ("zscore z zero", "$1|0"),
        ("bzpopmin z 1", "-ERR blocking commands come in a later version of Quipu; use ZPOPMIN"),
        ("hset h a b", "-ERR HSET: hashes come in a later version of Quipu"),
        ("hset h", "-ERR wrong number of arguments for 'hset' command"),
        ("cluster info", "-ERR This instance has cluster support disabled"),
    ] {
        client.expect(line, answer);
    }
    client.speak(Protocol::Resp3);
    client.expect("zrange z 0 0 withscores", "*1|*2|$4|zero|,0");
    client.expect("zpopmin z", "*2|$4|zero|,0");
    client.expect("zpopmin z 1", "*1|*2|$1|a|,1");
    client.expect("zscore z none", "_");
    client.expect("zrange z 0 0 byscore rev limit 0 1", "*0");
}

/// Redis leaves a range of names open where scores differ; for small sets it walks from the first name that fits.
#[test]
fn names_in_a_set_of_several_scores() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("zadd z 1 b 1 d 2 a 2 c 3 e", ":5");
    client.expect("zrangebylex z - +", "*5|$1|b|$1|d|$1|a|$1|c|$1|e");
    client.expect("zrangebylex z [a [d", "*4|$1|b|$1|d|$1|a|$1|c");
    client.expect("zrangebylex z [c +", "*4|$1|d|$1|a|$1|c|$1|e");
    client.expect("zrevrangebylex z + [c", "*2|$1|e|$1|c");
    client.expect("zrangebylex z - [a", "*0");
    client.expect("zlexcount z [c +", ":4");
    client.expect("zadd y 0 a 0 b 0 c 0 d", ":4");
    client.expect("zrevrangebylex y (d [b", "*2|$1|c|$1|b");
    client.expect("zrange y + - bylex rev limit 1 2", "*2|$1|c|$1|b");
    client.expect("zremrangebylex y (a (d", ":2");
    client.expect("zlexcount y - +", ":2");
    client.expect("zlexcount y + -", ":0");
}

#[test]
fn algebra() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("zadd a 1 x 2 y 3 z", ":3");
    client.expect("zadd b 10 y 20 z 30 w", ":3");
    client.expect("zunion 2 a b withscores", "*8|$1|x|$1|1|$1|y|$2|12|$1|z|$2|23|$1|w|$2|30");
    client.expect(
        "zunion 2 a b weights 2 -1 aggregate min withscores",
        "*8|$1|w|$3|-30|$1|z|$3|-20|$1|y|$3|-10|$1|x|$1|2",
    );
    client.expect("zinter 2 a b withscores", "*4|$1|y|$2|12|$1|z|$2|23");
    client.expect("zinter 3 a b none", "*0");
    client.expect("zintercard 2 a b", ":2");
    client.expect("zintercard 2 a b limit 1", ":1");
    client.expect("zdiff 2 a b withscores", "*2|$1|x|$1|1");
    client.expect("zdiffstore a 2 a b", ":1");
    client.expect("zrange a 0 -1", "*1|$1|x");
    client.expect("zinterstore b 2 a b", ":0");
    client.expect("zcard b", ":0");
    client.expect("dbsize", ":1");
    client.expect("zadd i inf x", ":1");
    client.expect("zadd j -inf x", ":1");
    client.expect("zunion 2 i j withscores", "*2|$1|x|$1|0");
    client.expect("zunion 1 i weights 0 withscores", "*2|$1|x|$1|0");
}

#[test]
fn members_are_drawn() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("zrandmember z", "$-1");
    client.expect("zrandmember z 3", "*0");
    client.expect("zadd z 1 a 2 b 3 c", ":3");
    client.expect("zrandmember z 0", "*0");
    let three = client.run("zrandmember z 5 withscores");
    assert!(three.starts_with("*6\r\n"), "{three}");
    assert!(client.run("zrandmember z -7").starts_with("*7\r\n"));
    assert!(client.run("zrandmember z 2").starts_with("*2\r\n"));
    client.expect("zrandmember z -100000000", "-ERR value is out of range");
    client.expect(
        "zrandmember z -9223372036854775808",
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
}

#[test]
fn what_is_too_long_is_refused() {
    let server = in_memory();
    let mut client = Client::new(&server);
    let command = |member: usize| -> Vec<Vec<u8>> {
        let mut command = words("zadd z 0.1");
        command.push(vec![b'm'; member]);
        command
    };
    assert_eq!(client.send(&[command(65_000)]), b":1\r\n");
    assert_eq!(
        client.send(&[command(65_001), command(10)]),
        b"-ERR a member of 65001 bytes is over the limit of 65000\r\n:1\r\n"
    );
    assert_eq!(faults(&server, "z"), Vec::<String>::new());
}
