//! Goal: no bytes of a peer make a node panic, what decodes encodes to the same bytes, and the bytes of each message
//! are what they were. The fuzz target `node_protocol` runs the same code. WRITE_SEEDS=1 writes its corpus,
//! UPDATE_GOLDEN=1 the golden bytes.

#![allow(clippy::disallowed_methods, reason = "a test reads and writes its own data")]

use std::fmt::Write as _;
use std::fs;

use quipu_cluster::fuzz::{examine, give_to_node, samples};
use quipu_cluster::ids::{Epoch, NodeId};
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::protocol::{Fault, Frame, HEADER_BYTES, Header, frame_length};
use quipu_cluster::random::SplitMix;
use quipu_cluster::topology::{Settings, Topology};

fn frames() -> Vec<(String, Vec<u8>)> {
    let frame = |(name, message): &(&str, _)| {
        let mut bytes = Vec::new();
        Frame::encode(Header { epoch: Epoch(258), request: 772 }, message, &mut bytes);
        ((*name).to_owned(), bytes)
    };
    samples().iter().map(frame).collect()
}

fn hello() -> Vec<u8> {
    let settings = Settings { replicas: 3, partitions: 64, seed: 7 };
    let (versions, node, list) = ((1, 1), NodeId(3), "http://a,http://b");
    Hello { versions, cluster: 2, node, store: 4, mark: 6, applied: 5, settings, list }.encode()
}

#[test]
fn every_message_has_the_golden_bytes() {
    let mut text = String::new();
    for (name, bytes) in frames().into_iter().chain([("Hello".to_owned(), hello())]) {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{name}\n    {}", hex.join(" ")).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/golden.hex");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), text, "the node protocol has changed: UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn messages_come_back_and_no_part_of_one_is_one() {
    for ((name, bytes), (_, message)) in frames().iter().zip(samples()) {
        let frame = Frame::decode(bytes).unwrap();
        assert_eq!((frame.header, &frame.message), (Header { epoch: Epoch(258), request: 772 }, &message), "{name}");
        assert_eq!(frame_length(bytes, 1 << 20), Ok(Some(bytes.len())));
        for length in 0..bytes.len() {
            assert!(Frame::decode(&bytes[..length]).is_err());
        }
        for byte in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 0x10;
            assert!(Frame::decode(&damaged).is_err(), "{name}: byte {byte}");
        }
    }
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_anything_is_reserved() {
    assert_eq!(frame_length(&[0xFF; 3], 1000), Ok(None));
    assert_eq!(frame_length(&u32::MAX.to_le_bytes(), 1000), Err(Fault::Length(u64::from(u32::MAX) + 4)));
    assert_eq!(
        frame_length(&(HEADER_BYTES as u32 - 5).to_le_bytes(), 1000),
        Err(Fault::Length(HEADER_BYTES as u64 - 1))
    );
}

/// Each sample as the fuzz target takes it: a kind and a body.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |(_, bytes): (String, Vec<u8>)| [&bytes[8..9], &bytes[HEADER_BYTES..]].concat();
    let list = [("http://a".to_owned(), String::new()), ("http://b".to_owned(), "z".to_owned())];
    let mut seeds: Vec<Vec<u8>> = frames().into_iter().map(seed).collect();
    seeds.extend([hello(), Topology::founded(&list, 1, 4, 2).encode(), frames()[0].1.clone()]);
    seeds
}

#[test]
fn no_bytes_of_a_peer_make_it_panic() {
    let seeds = seeds();
    if std::env::var_os("WRITE_SEEDS").is_some() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/node_protocol");
        fs::create_dir_all(dir).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(format!("{dir}/{number:02}"), seed).unwrap();
        }
    }
    let random = &mut SplitMix::new(std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap()));
    for round in 0..4000usize {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.draw() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.draw() as u8),
            }
        }
        examine(&bytes);
        if round % 8 == 0 {
            let mut script = Vec::new();
            for _ in 0..20 {
                let mut seed = seeds[random.below(seeds.len() as u64) as usize].clone();
                let at = random.below(seed.len() as u64) as usize;
                seed[at] ^= 1 << random.below(8);
                seed.resize(64, 0);
                script.extend(seed);
            }
            give_to_node(&script);
            give_to_node(&bytes);
        }
    }
}
