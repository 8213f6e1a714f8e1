//! Goal: a command that moves, takes over or removes what a key owns keeps every byte, also if it lacks pages and is
//! tried again, on either side. So a command that is taken back has queued and remembered nothing.
//!
//! Method: long strings in tiny pieces over tiny pages and hardly any cache: each attempt lacks the next page. Keys are
//! cold (flushed), half cached (a part was read) or in memory. Commands by chance beside a map; after each, the bytes
//! of all keys that it names are compared, and now and then those of all keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::support::{Client, flush, tiny_pages, words};
use quipu::Db;
use quipu::io::sim::SimDisk;
use quipu_server::config::Config;
use quipu_server::keyspace::Cut;
use quipu_server::{Server, keyspace};
use quipu_testing::seeds::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CUT: Cut = Cut { whole_bytes_max: 300, piece_bytes: 100 };

fn over_runs(disk: &SimDisk) -> Server {
    let db = Db::open(Path::new("/server"), tiny_pages(disk, 4 << 10)).expect("a database");
    Server::over_cut(db, Config::default(), CUT).expect("a server")
}

fn remove_all(server: &Server) {
    while server.keyspace.remove_step().expect("removed") {}
}

fn bulk(bytes: Option<&Vec<u8>>) -> Vec<u8> {
    match bytes {
        None => b"$-1\r\n".to_vec(),
        Some(bytes) => [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
    }
}

type Place = (usize, String);

/// What is to be there: strings, by database and key.
#[derive(Clone, Default)]
struct Model(BTreeMap<Place, Vec<u8>>);

/// One command and its answer.
struct Step {
    words: Vec<Vec<u8>>,
    answer: Vec<u8>,
    touched: Vec<Place>,
}

fn some_key(random: &mut StdRng) -> String {
    format!("k{}", random.random_range(0..6))
}

/// Bytes that no other value has. Some are zero.
fn some_value(random: &mut StdRng) -> Vec<u8> {
    let length = [20, 310, 2000, 5000][random.random_range(0..4)] + random.random_range(0..90);
    (0..length).map(|_| if random.random_bool(0.1) { 0 } else { random.random() }).collect()
}

fn integer(number: usize) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

fn step(model: &mut Model, database: usize, random: &mut StdRng) -> Step {
    let (key, other) = (some_key(random), some_key(random));
    let (here, there, beyond) = ((database, key.clone()), (database, other.clone()), (1 - database, key.clone()));
    let map = &mut model.0;
    let is_there = map.contains_key(&here);
    let ok = b"+OK\r\n".to_vec();
    let (line, answer): (Vec<Vec<u8>>, Vec<u8>) = match random.random_range(0..16) {
        0 | 1 => {
            let value = some_value(random);
            map.insert(here.clone(), value.clone());
            (vec![b"SET".to_vec(), key.clone().into(), value], ok)
        }
        2 => {
            let value = some_value(random);
            let old = map.insert(here.clone(), value.clone());
            (vec![b"GETSET".to_vec(), key.clone().into(), value], bulk(old.as_ref()))
        }
        3 => {
            let (part, offset) = (some_value(random), random.random_range(0..4000));
            let value = map.entry(here.clone()).or_default();
            value.resize(value.len().max(offset + part.len()), 0);
            value[offset..offset + part.len()].copy_from_slice(&part);
            let answer = integer(value.len());
            (vec![b"SETRANGE".to_vec(), key.clone().into(), offset.to_string().into(), part], answer)
        }
        4 => {
            let part = some_value(random);
            let value = map.entry(here.clone()).or_default();
            value.extend_from_slice(&part);
            let answer = integer(value.len());
            (vec![b"APPEND".to_vec(), key.clone().into(), part], answer)
        }
        5..=7 if is_there => {
            let value = map.remove(&here).expect("there");
            map.insert(there.clone(), value);
            (words(&format!("RENAME {key} {other}")), ok)
        }
        8 if is_there => {
            let done = !map.contains_key(&there);
            if done {
                let value = map.remove(&here).expect("there");
                map.insert(there.clone(), value);
            }
            (words(&format!("RENAMENX {key} {other}")), integer(usize::from(done)))
        }
        9 if key != other => {
            if let Some(value) = map.get(&here).cloned() {
                map.insert(there.clone(), value);
            }
            (words(&format!("COPY {key} {other} REPLACE")), integer(usize::from(is_there)))
        }
        10 => {
            if let Some(value) = map.get(&here).cloned() {
                map.insert(beyond.clone(), value);
            }
            (words(&format!("COPY {key} {key} DB {} REPLACE", 1 - database)), integer(usize::from(is_there)))
        }
        11 => {
            let done = is_there && !map.contains_key(&beyond);
            if done {
                let value = map.remove(&here).expect("there");
                map.insert(beyond.clone(), value);
            }
            (words(&format!("MOVE {key} {}", 1 - database)), integer(usize::from(done)))
        }
        12 => {
            *map = std::mem::take(map).into_iter().map(|((number, key), value)| ((1 - number, key), value)).collect();
            (words("SWAPDB 0 1"), ok)
        }
        13 => {
            let old = map.remove(&here);
            (words(&format!("GETDEL {key}")), bulk(old.as_ref()))
        }
        14 => {
            map.remove(&here);
            (words(&format!("PEXPIREAT {key} 1")), integer(usize::from(is_there)))
        }
        _ => {
            map.remove(&here);
            (words(&format!("DEL {key}")), integer(usize::from(is_there)))
        }
    };
    Step { words: line, answer, touched: vec![here, there, beyond] }
}

struct Trial<'s> {
    server: &'s Server,
    client: Client<'s>,
    /// In the other database.
    other: Client<'s>,
    model: Model,
    random: StdRng,
}

impl Trial<'_> {
    fn get(&mut self, place: &Place) {
        let client = if place.0 == 0 { &mut self.client } else { &mut self.other };
        let found = client.send(&[vec![b"GET".to_vec(), place.1.clone().into()]]);
        assert_eq!(found, bulk(self.model.0.get(place)), "{place:?}");
    }

    fn get_all(&mut self) {
        for number in 0..2 {
            for key in 0..6 {
                self.get(&(number, format!("k{key}")));
            }
        }
        remove_all(self.server);
        assert_eq!(keyspace::check(self.server.keyspace.db()).expect("read"), Vec::<String>::new());
    }

    /// Makes some keys cold, and then some of them half cached.
    fn cool(&mut self) {
        match self.random.random_range(0..4) {
            0 => {}
            _ => flush(self.server),
        }
        if self.random.random_bool(0.5) {
            let (key, start) = (some_key(&mut self.random), self.random.random_range(0..3000));
            self.client.run(&format!("GETRANGE {key} {start} {}", start + 400));
        }
        if self.random.random_bool(0.3) {
            remove_all(self.server);
        }
    }

    fn dump_and_restore(&mut self) {
        let (key, other) = (some_key(&mut self.random), some_key(&mut self.random));
        let dump = self.client.send(&[words(&format!("DUMP {key}"))]);
        let Some(value) = self.model.0.get(&(0, key)).cloned() else { return assert_eq!(dump, b"$-1\r\n") };
        let start = dump.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        let dump = dump[start..dump.len() - 2].to_vec();
        self.cool();
        let command = vec![b"RESTORE".to_vec(), other.clone().into(), b"0".to_vec(), dump, b"REPLACE".to_vec()];
        assert_eq!(self.client.send(&[command]), b"+OK\r\n");
        self.model.0.insert((0, other.clone()), value);
        self.get(&(0, other));
    }

    /// A key whose time comes is removed with all that it owns, and nothing else is.
    fn expire(&mut self) {
        let key = some_key(&mut self.random);
        // Far in the future, where housekeeping is sent.
        let deadline_ms = 1 << 50;
        self.client.run(&format!("PEXPIREAT {key} {deadline_ms}"));
        self.cool();
        self.server.keyspace.remove_expired_step(100, deadline_ms + 1).expect("removed");
        self.model.0.remove(&(0, key.clone()));
        self.get(&(0, key));
    }

    fn one_by_one(&mut self) {
        let database = self.random.random_range(0..2);
        let step = step(&mut self.model, database, &mut self.random);
        let client = if database == 0 { &mut self.client } else { &mut self.other };
        let answer = client.send(std::slice::from_ref(&step.words));
        assert_eq!(
            answer,
            step.answer,
            "{:?}",
            step.words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>()
        );
        step.touched.iter().for_each(|place| self.get(place));
    }

    fn in_transaction(&mut self) {
        assert_eq!(self.client.run("MULTI"), "+OK\r\n");
        let count = self.random.random_range(2..5);
        let (mut answer, mut touched) = (format!("*{count}\r\n").into_bytes(), Vec::new());
        for _ in 0..count {
            let step = step(&mut self.model, 0, &mut self.random);
            assert_eq!(self.client.send(&[step.words]), b"+QUEUED\r\n");
            answer.extend(step.answer);
            touched.extend(step.touched);
        }
        assert_eq!(self.client.send(&[words("EXEC")]), answer);
        touched.iter().for_each(|place| self.get(place));
    }
}

#[test]
fn what_a_key_owns_is_moved_and_removed_byte_for_byte_whatever_is_cached() {
    let mut lacked = 0;
    for seed in seeds(3) {
        println!("SEED={seed}");
        let disk = SimDisk::new();
        let server = over_runs(&disk);
        let (client, mut other) = (Client::new(&server), Client::new(&server));
        other.expect("SELECT 1", "+OK");
        let random = StdRng::seed_from_u64(seed);
        let mut trial = Trial { server: &server, client, other, model: Model::default(), random };
        for round in 0..150 {
            trial.cool();
            match trial.random.random_range(0..8) {
                0 => trial.dump_and_restore(),
                1 => trial.expire(),
                2 | 3 => trial.in_transaction(),
                _ => trial.one_by_one(),
            }
            if round % 25 == 24 {
                flush(&server);
                trial.get_all();
            }
        }
        lacked += server.statistics.page_faults.load(Ordering::Relaxed);
    }
    assert!(lacked > 100, "{lacked} attempts lacked pages");
}

/// The first attempt did what stands before the command that lacks a page: the second did it over the session that the
/// first had left.
#[test]
fn a_transaction_that_lacks_pages_begins_again_as_it_began() {
    let disk = SimDisk::new();
    let server = over_runs(&disk);
    let mut client = Client::new(&server);
    client.expect("SET cold value", "+OK");
    client.expect("ZADD z 1.5 m", ":1");
    for number in 0..2000 {
        client.run(&format!("SET filler:{number:04} {}", "x".repeat(40)));
    }
    flush(&server);
    client.run_all(&[
        "MULTI",
        "CLIENT GETNAME",
        "ZSCORE z m",
        "CLIENT SETNAME n",
        "HELLO 3",
        "SELECT 1",
        "EXISTS cold",
        "SELECT 0",
        "GET cold",
    ]);
    let before = server.statistics.page_faults.load(Ordering::Relaxed);
    let answer = client.run("EXEC");
    assert!(server.statistics.page_faults.load(Ordering::Relaxed) > before + 1, "{answer}");
    assert!(answer.starts_with("*8\r\n$-1\r\n$3\r\n1.5\r\n+OK\r\n%7\r\n"), "{answer}");
    assert!(answer.ends_with("+OK\r\n:0\r\n+OK\r\n$5\r\nvalue\r\n"), "{answer}");
}

/// Of several swaps in a transaction only the last was taken back, so the next attempt began with others swapped.
#[test]
fn found_a_transaction_that_lacked_pages_left_databases_swapped() {
    let disk = SimDisk::new();
    let server = over_runs(&disk);
    let mut client = Client::new(&server);
    client.expect("SET name zero", "+OK");
    for number in 0..2000 {
        client.run(&format!("SET filler:{number:04} {}", "x".repeat(40)));
    }
    client.run_all(&["SELECT 1", "SET name one", "SELECT 2", "SET name two", "SELECT 0"]);
    flush(&server);
    client.run_all(&["MULTI", "SWAPDB 0 1", "SWAPDB 1 2", "SELECT 2", "GET filler:1000", "SELECT 0"]);
    let before = server.statistics.page_faults.load(Ordering::Relaxed);
    let value = "x".repeat(40);
    client.expect("EXEC", &format!("*5|+OK|+OK|+OK|$40|{value}|+OK"));
    assert!(server.statistics.page_faults.load(Ordering::Relaxed) > before);
    for (database, name) in [(0, "$3|one"), (1, "$3|two"), (2, "$4|zero")] {
        client.expect(&format!("SELECT {database}"), "+OK");
        client.expect("GET name", name);
    }
}
