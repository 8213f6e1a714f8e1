//! Goal: long strings, which are stored in pieces, are what short ones are; what remains of them is removed; nothing
//! is lost or kept where a server ends half way.
//! Method: tiny pieces; commands by chance beside strings that are plain bytes; the checker; servers opened anew in
//! between. Strings of some megabytes for what runs beside the loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::Client;
use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Options, ReadableTable};
use quipu_server::Server;
use quipu_server::config::Config;
use quipu_server::keyspace::value::{Header, Kind};
use quipu_server::keyspace::{self, Cut, Data, Need};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const TINY: Cut = Cut { whole_bytes_max: 16, piece_bytes: 8 };

fn over(disk: &SimDisk, cut: Cut) -> Server {
    let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
    let db = quipu::Db::open("/server", options).expect("a database");
    Server::over_cut(db, Config::default(), cut).expect("a server")
}

#[track_caller]
fn check(server: &Server) {
    assert_eq!(keyspace::check(server.keyspace.db()).expect("read"), Vec::<String>::new());
}

fn remove_all(server: &Server) {
    while server.keyspace.remove_step().expect("removed") {}
}

fn rows_of_elements(server: &Server) -> u64 {
    server.keyspace.tables(0).expect("tables").elements.len().expect("rows")
}

fn bulk(bytes: Option<&Vec<u8>>) -> Vec<u8> {
    match bytes {
        None => b"$-1\r\n".to_vec(),
        Some(bytes) => [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
    }
}

fn integer(number: u64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

/// Bytes, of which many are zero.
fn some_bytes(random: &mut impl Rng, max: usize) -> Vec<u8> {
    let count = random.random_range(0..=max);
    let is_sparse = random.random_bool(0.5);
    (0..count).map(|_| if is_sparse && random.random_bool(0.8) { 0 } else { random.random() }).collect()
}

/// One command by chance: its words, and what it answers by the model.
fn step(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, random: &mut impl Rng) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut name = || vec![b'a' + random.random_range(0..4u8)];
    let (key, other) = (name(), name());
    let word = |text: &str| text.as_bytes().to_vec();
    let number = |number: usize| number.to_string().into_bytes();
    let old = model.get(&key).cloned();
    let bytes = old.clone().unwrap_or_default();
    match random.random_range(0..14) {
        0 | 1 => {
            let value = some_bytes(random, 60);
            model.insert(key.clone(), value.clone());
            (vec![word("set"), key, value], b"+OK\r\n".to_vec())
        }
        2 => {
            let part = some_bytes(random, 20);
            let sum = [&bytes[..], &part].concat();
            let length = sum.len() as u64;
            model.insert(key.clone(), sum);
            (vec![word("append"), key, part], integer(length))
        }
        3 | 4 => {
            let (offset, part) = (random.random_range(0..70), some_bytes(random, 20));
            if part.is_empty() {
                return (vec![word("setrange"), key, number(offset), part], integer(bytes.len() as u64));
            }
            let mut sum = bytes;
            sum.resize(sum.len().max(offset + part.len()), 0);
            sum[offset..offset + part.len()].copy_from_slice(&part);
            let length = sum.len() as u64;
            model.insert(key.clone(), sum);
            (vec![word("setrange"), key, number(offset), part], integer(length))
        }
        5 | 6 => {
            let (offset, bit) = (random.random_range(0..600), random.random_range(0..2u8));
            let (place, mask) = (offset / 8, 0x80 >> (offset % 8));
            let mut sum = bytes;
            sum.resize(sum.len().max(place + 1), 0);
            let before = u64::from(sum[place] & mask != 0);
            sum[place] = sum[place] & !mask | if bit == 1 { mask } else { 0 };
            model.insert(key.clone(), sum);
            (vec![word("setbit"), key, number(offset), number(usize::from(bit))], integer(before))
        }
        7 => {
            let (start, end) = (random.random_range(0..70), random.random_range(0..70));
            let part = bytes.get(start..bytes.len().min(end + 1)).unwrap_or_default().to_vec();
            (vec![word("getrange"), key, number(start), number(end)], bulk(Some(&part)))
        }
        8 => {
            let count = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            (vec![word("bitcount"), key], integer(count))
        }
        9 => {
            let first = bytes.iter().position(|byte| *byte != 0);
            let bit = first.map(|place| place as i64 * 8 + i64::from(bytes[place].leading_zeros())).unwrap_or(-1);
            (vec![word("bitpos"), key, word("1")], format!(":{bit}\r\n").into_bytes())
        }
        10 => {
            model.remove(&key);
            (vec![word("getdel"), key], bulk(old.as_ref()))
        }
        11 if old.is_some() && key != other => {
            model.remove(&key);
            model.insert(other.clone(), bytes);
            (vec![word("rename"), key, other], b"+OK\r\n".to_vec())
        }
        12 if key != other => {
            let answer = integer(u64::from(old.is_some()));
            old.into_iter().for_each(|bytes| drop(model.insert(other.clone(), bytes)));
            (vec![word("copy"), key, other, word("replace")], answer)
        }
        13 => {
            let second = model.get(&other).cloned().unwrap_or_default();
            let length = bytes.len().max(second.len());
            let byte = |bytes: &[u8], place: usize| bytes.get(place).copied().unwrap_or(0);
            let sum: Vec<u8> = (0..length).map(|place| byte(&bytes, place) ^ byte(&second, place)).collect();
            model.remove(b"a".as_slice());
            if length > 0 {
                model.insert(b"a".to_vec(), sum);
            }
            (vec![word("bitop"), word("xor"), word("a"), key, other], integer(length as u64))
        }
        _ => (vec![word("get"), key], bulk(old.as_ref())),
    }
}

#[test]
fn strings_in_pieces_are_plain_bytes() {
    let seed = quipu_testing::seeds::seed_or(12);
    println!("SEED={seed}");
    let random = &mut StdRng::seed_from_u64(seed);
    let (disk, mut model) = (SimDisk::new(), BTreeMap::new());
    for _ in 0..12 {
        let server = over(&disk, TINY);
        let mut client = Client::new(&server);
        for number in 0..250 {
            let (words, expected) = step(&mut model, random);
            let answer = client.send(&[&words[..]]);
            assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{words:?}");
            if number % 10 == 0 {
                check(&server);
            }
        }
        for name in b'a'..=b'd' {
            let key = vec![name];
            assert_eq!(client.send(&[&[b"get".to_vec(), key.clone()][..]]), bulk(model.get(&key)));
        }
        // Keys, headers of a byte, values.
        let bytes: usize = model.iter().map(|(key, value)| key.len() + 1 + value.len()).sum();
        let answer = client.run("q.tally");
        assert!(
            answer.contains(&format!("rows\r\n:{}\r\n$5\r\nbytes\r\n:{bytes}\r\n", model.len())),
            "{answer} {bytes}"
        );
        assert_eq!(client.run("dbsize"), format!(":{}\r\n", model.len()));
    }
}

#[test]
fn a_string_has_the_same_tally_however_it_came_to_be() {
    let (one, other) = (SimDisk::new(), SimDisk::new());
    let (one, other) = (over(&one, TINY), over(&other, TINY));
    let (mut first, mut second) = (Client::new(&one), Client::new(&other));
    first.expect("setrange k 40 end", ":43");
    first.expect("setrange k 0 start", ":43");
    second.expect("set x a-string-of-more-than-sixteen-bytes", "+OK");
    second.expect("setbit k 343 0", ":0");
    second.expect("setrange k 0 started-there", ":43");
    second.expect("setrange k 5 \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"", ":43");
    second.expect("setrange k 40 e", ":43");
    second.expect("setrange k 41 nd", ":43");
    second.expect("del x", ":1");
    // How a string came to be is part of the hash: let it be the same.
    for client in [&mut first, &mut second] {
        assert_eq!(
            client.run("getrange k 0 -1"),
            "$43\r\nstart\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0end\r\n"
        );
    }
    assert_eq!(first.run("q.tally"), second.run("q.tally"));
    first.expect("setbit k 100 1", ":0");
    assert_ne!(first.run("q.tally"), second.run("q.tally"));
    first.expect("setbit k 100 0", ":1");
    assert_eq!(first.run("q.tally"), second.run("q.tally"));
}

#[test]
fn a_change_of_a_part_writes_that_part_alone() {
    let disk = SimDisk::new();
    let server = over(&disk, Cut::default());
    let mut client = Client::new(&server);
    let value = vec![b'x'; 900 << 10];
    client.send(&[&[b"set".to_vec(), b"k".to_vec(), value][..]]);
    for command in
        ["append k tail", "setrange k 500000 part", "setbit k 4000001 1", "bitfield k set u8 #70000 3", "rename k l"]
    {
        let before = server.keyspace.db().stats().log_bytes;
        client.run(command);
        let written = server.keyspace.db().stats().log_bytes - before;
        assert!(written < 20_000, "{command} writes {written} bytes into the log");
    }
    check(&server);
}

#[test]
fn zeros_that_fill_a_string_up_are_not_stored() {
    let disk = SimDisk::new();
    let server = over(&disk, Cut::default());
    let mut client = Client::new(&server);
    client.expect("setbit k 4294967295 1", ":0");
    client.expect("strlen k", ":536870912");
    client.expect("setrange l 536870911 x", ":536870912");
    client.expect("bitcount k", ":1");
    client.expect("bitpos k 1", ":4294967295");
    client.expect("getrange k 536870910 -1", "$2|\0\u{1}");
    client.expect("setbit k 4294967295 0", ":1");
    assert!(rows_of_elements(&server) < 5);
    assert!(server.keyspace.db().memory_bytes() < 4 << 20);
    check(&server);
}

#[test]
fn watchers_and_deadlines_of_long_strings() {
    let disk = SimDisk::new();
    let server = over(&disk, TINY);
    let mut client = Client::new(&server);
    let mut other = Client::new(&server);
    let long = "a-string-of-more-than-sixteen-bytes";
    for (line, answer) in [
        (&*format!("set k {long} ex 100"), "+OK"),
        ("append k x", ":36"),
        ("ttl k", ":100"),
        ("persist k", ":1"),
        ("expire k 50", ":1"),
        ("getex k ex 70", &format!("$36|{long}x")),
        ("ttl k", ":70"),
        ("object encoding k", "$3|raw"),
        ("incr k", "-ERR value is not an integer or out of range"),
        ("incrbyfloat k 1", "-ERR value is not a valid float"),
        ("type k", "+string"),
        ("set k short get", &format!("$36|{long}x")),
        (&*format!("mset k {long} m {long} n short"), "+OK"),
        ("mget k m n", &format!("*3|$35|{long}|$35|{long}|$5|short")),
        (&*format!("set k {long} nx"), "$-1"),
        (&*format!("setnx k {long}"), ":0"),
        (&*format!("msetnx k {long} fresh {long}"), ":0"),
        (&*format!("getset k {long}!"), &format!("$35|{long}")),
        ("move k 1", ":1"),
        ("exists k", ":0"),
        ("select 1", "+OK"),
        ("get k", &format!("$36|{long}!")),
        ("lcs k k len", ":36"),
        ("swapdb 0 1", "+OK"),
        ("strlen m", ":35"),
        ("flushall", "+OK"),
        ("dbsize", ":0"),
    ] {
        client.expect(line, answer);
        check(&server);
    }
    remove_all(&server);
    assert_eq!(rows_of_elements(&server), 0);
    for (change, is_told) in [
        ("setbit k 3 1", true),
        ("setbit k 3 1", false),
        ("append k x", true),
        ("bitfield k overflow fail set u8 900 300", false),
    ] {
        other.run("select 1");
        client.expect("setrange k 30 abc", &client_length(&mut other));
        client.expect("watch k", "+OK");
        other.run(change);
        client.expect("multi", "+OK");
        client.expect("ping", "+QUEUED");
        client.expect("exec", if is_told { "*-1" } else { "*1|+PONG" });
    }
    check(&server);
}

/// What `SETRANGE k 30 abc` answers.
fn client_length(other: &mut Client<'_>) -> String {
    let length: u64 = other.run("strlen k")[1..].trim().parse().expect("a length");
    format!(":{}", length.max(33))
}

#[test]
fn what_was_prepared_and_got_no_key_is_removed_after_a_crash() {
    let disk = SimDisk::new();
    let server = over(&disk, TINY);
    let mut client = Client::new(&server);
    client.expect("set kept a-string-of-more-than-sixteen-bytes", "+OK");
    let mut staged = server.keyspace.stage(0, &[7; 100]).expect("staged");
    check(&server);
    let crashed = over(&disk.crash_with(CrashMode::KeepAll, 1), TINY);
    check(&crashed);
    assert!(rows_of_elements(&crashed) > 5);
    remove_all(&crashed);
    assert_eq!(rows_of_elements(&crashed), 5, "those of the key that is kept");
    check(&crashed);
    // Here the server goes on, and the string gets its key.
    let mut data = Data::open(&server.keyspace, Need::Write, 0).expect("data");
    data.change(0, b"k", |_, new| staged.write(Header::new(Kind::String), new)).expect("put");
    let _ = data.close().expect("committed");
    remove_all(&server);
    client.expect("strlen k", ":100");
    check(&server);
    // One that is dropped is removed.
    drop(server.keyspace.stage(0, &[7; 100]).expect("staged"));
    remove_all(&server);
    client.expect("flushall", "+OK");
    remove_all(&server);
    assert_eq!(rows_of_elements(&server), 0);
}

#[test]
fn a_string_that_is_being_prepared_is_not_put_into_a_database_that_was_emptied() {
    let disk = SimDisk::new();
    let server = over(&disk, TINY);
    let mut client = Client::new(&server);
    for between in ["flushdb", "swapdb 0 1"] {
        let staged = server.keyspace.stage(0, &[7; 100_000]).expect("staged");
        client.expect(between, "+OK");
        let data = Data::open(&server.keyspace, Need::Write, 0).expect("data");
        assert!(!data.may_use(0, &staged), "{between}");
        let _ = data.close().expect("committed");
        client.expect("set k a-string-of-more-than-sixteen-bytes", "+OK");
        drop(staged);
        remove_all(&server);
        client.expect("strlen k", ":35");
        check(&server);
    }
}

#[test]
fn long_values_are_written_and_read_beside_the_loop() {
    let disk = SimDisk::new();
    let server = over(&disk, Cut::default());
    let mut client = Client::new(&server);
    let random = &mut StdRng::seed_from_u64(5);
    let value: Vec<u8> = (0..3 << 20).map(|_| random.random()).collect();
    let word = |text: &str| text.as_bytes().to_vec();
    let mut send = |words: &[Vec<u8>]| client.send(&[words]);
    assert_eq!(send(&[word("set"), word("k"), value.clone()]), b"+OK\r\n");
    assert_eq!(send(&[word("get"), word("k")]), bulk(Some(&value)));
    assert_eq!(send(&[word("copy"), word("k"), word("l")]), b":1\r\n");
    assert_eq!(send(&[word("bitop"), word("xor"), word("m"), word("k"), word("l")]), integer(3 << 20));
    assert_eq!(send(&[word("bitcount"), word("m")]), b":0\r\n");
    assert_eq!(send(&[word("bitop"), word("not"), word("m"), word("l")]), integer(3 << 20));
    let ones: u64 = value.iter().map(|byte| u64::from(byte.count_zeros())).sum();
    assert_eq!(send(&[word("bitcount"), word("m")]), integer(ones));
    let dump = send(&[word("dump"), word("l")]);
    let start = dump.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let payload = dump[start..dump.len() - 2].to_vec();
    assert_eq!(
        send(&[word("restore"), word("l"), word("0"), payload.clone()]),
        b"-BUSYKEY Target key name already exists.\r\n"
    );
    assert_eq!(send(&[word("restore"), word("r"), word("0"), payload]), b"+OK\r\n");
    assert_eq!(send(&[word("getset"), word("r"), word("x")]), bulk(Some(&value)));
    assert_eq!(send(&[word("set"), word("k"), value.clone(), word("nx")]), b"$-1\r\n");
    assert_eq!(send(&[word("set"), word("n"), value.clone(), word("px"), word("100000")]), b"+OK\r\n");
    assert_eq!(send(&[word("mset"), word("k"), value.clone(), word("o"), value.clone()]), b"+OK\r\n");
    assert_eq!(send(&[word("move"), word("o"), word("1")]), b":1\r\n");
    assert_eq!(
        send(&[word("mget"), word("k"), word("o")]),
        [b"*2\r\n".to_vec(), bulk(Some(&value)), bulk(None)].concat()
    );
    assert_eq!(send(&[word("append"), word("k"), value.clone()]), integer(6 << 20));
    assert_eq!(send(&[word("setrange"), word("k"), word("1"), value.clone()]), integer(6 << 20));
    let both = [&value[..1], &value, &value[1..]].concat();
    assert_eq!(send(&[word("get"), word("k")]), bulk(Some(&both)));
    assert_eq!(send(&[word("setrange"), word("fresh"), word("9"), value.clone()]), integer((3 << 20) + 9));
    assert_eq!(send(&[word("get"), word("fresh")]), bulk(Some(&[&[0; 9][..], &value].concat())));
    check(&server);
    assert_eq!(send(&[word("flushall")]), b"+OK\r\n");
    check(&server);
    remove_all(&server);
    assert_eq!(rows_of_elements(&server), 0);
    check(&server);
    assert_eq!(send(&[word("set"), word("k"), value.clone()]), b"+OK\r\n");
    assert_eq!(
        send(&[word("getrange"), word("k"), word("1000000"), word("1000004")]),
        bulk(Some(&value[1_000_000..1_000_005].to_vec()))
    );
}
