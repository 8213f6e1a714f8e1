//! Untrusted bytes: for the fuzz target `node_protocol`, and for tests that run the same over mutations of valid
//! frames.

use crate::ids::{Epoch, NodeId, Now, Partition, Version};
use crate::limits::Limits;
use crate::model::ModelTables;
use crate::node::{Identity, Input, Node, Output};
use crate::protocol::hello::Hello;
use crate::protocol::{Cut, Frame, Header, Message, Refusal, Row, Span, Summary, frame_length};
use crate::record::{Kept, Record, State};
use crate::routing::Routing;
use crate::topology::{Entry, StoreId, Topology};

/// One message of each kind.
pub fn samples() -> Vec<(&'static str, Message<'static>)> {
    let version = Version { time: 0x0102_0304_0506_0708, node: NodeId(9) };
    let live = Record { version, state: State::Live { deadline_ms: 77, value: b"value" } };
    let grave = Record { version, state: State::Grave };
    let kept = Some(Kept { version: Version { time: 1, node: NodeId(8) }, value: Some((6, b"old")) });
    let moved = State::Moved { to: 2, deadline_ms: 77, kept };
    let expired = State::Expired { deadline_ms: 77 };
    let span = Span { start: b"\x03a", end: b"" };
    let partition = Partition(5);
    let rows = vec![Row { key: b"\x03k", record: live }, Row { key: b"\x03l", record: grave }];
    let mut samples = vec![
        ("Write", Message::Write { partition, from: 3, is_known: true, key: b"key", record: live }),
        ("Stored", Message::Stored),
        ("Older", Message::Older { version }),
        ("Refused", Message::Refused { refusal: Refusal::StaleEpoch }),
        ("Read", Message::Read { partition, from: 3, is_whole: true, key: b"key" }),
        ("Long", Message::Long { from: 3, version, deadline_ms: 77, bytes: 1 << 20 }),
        ("Value, none", Message::Value { found: None }),
        ("Value", Message::Value { found: Some((3, Record { version, state: moved })) }),
        ("Value, expired", Message::Value { found: Some((3, Record { version, state: expired })) }),
        ("Compare", Message::Compare { partition, is_copy: true, summaries: vec![Summary { span, rows: 2, hash: 3 }] }),
        ("Differ", Message::Differ { floor: 7, bits: &[5] }),
        ("Hashes", Message::Hashes { partition, is_copy: false, wants_rows: true, span, hashes: vec![1, 2] }),
        (
            "Entries",
            Message::Entries { horizon: 4, absent: (3, 2), resume: b"\x03m", rows: rows.clone(), wanted: vec![7] },
        ),
        ("Give", Message::Give { partition, horizon: 4, rows }),
        ("Floor", Message::Floor { partition, time: 6 }),
        ("Horizon", Message::Horizon { partition, time: 6, from_max: 3 }),
        ("Ping", Message::Ping { applied: 8, classes: 4, wall_ms: 5 }),
        ("Pong", Message::Pong { applied: 8, classes: 4, wall_ms: 5 }),
        ("AskTopology", Message::AskTopology { applied: 8 }),
        ("Topology", Message::Topology { bytes: b"topology" }),
        ("Gossip", Message::Gossip { wall_ms: 5, bytes: b"gossip" }),
        ("Log", Message::Log { bytes: b"log" }),
        ("Mark", Message::Mark { store: 5, mark: 6 }),
    ];
    samples.extend(samples_of_requests());
    samples
}

/// Those of requests over the whole cluster, and of conditional writes.
fn samples_of_requests() -> Vec<(&'static str, Message<'static>)> {
    let version = Version { time: 0x0102_0304_0506_0708, node: NodeId(9) };
    let span = Span { start: b"\x03a", end: b"" };
    let assigned = vec![(Partition(1), 1), (Partition(5), 2)];
    vec![
        ("Count", Message::Count { span, assigned: assigned.clone() }),
        ("Counted", Message::Counted { rows: 10, time: 11, refused: vec![1] }),
        ("Cuts", Message::Cuts { span, low: b"b", cuts: 3, assigned: assigned.clone() }),
        (
            "Cutting",
            Message::Cutting {
                time: 11,
                rows: vec![4, 5],
                cuts: vec![Cut { key: b"c", assigned: 1, rank: 2 }],
                refused: vec![],
            },
        ),
        ("Page", Message::Page { span, rows: 3, with_values: true, assigned }),
        ("Rows", Message::Rows { time: 11, resume: b"d", rows: vec![(b"c", b"v")], refused: vec![0] }),
        (
            "Conditional",
            Message::Conditional {
                quorum: (2, 3),
                condition: 1,
                versions: vec![version],
                deadline_ms: 0,
                key: b"key",
                value: Some(b"value"),
            },
        ),
        ("Outcome", Message::Outcome { outcome: 1, version }),
    ]
}

/// A frame of this body, whatever it is, with a checksum that is right.
fn sealed(kind: u8, body: &[u8], epoch: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::encode(Header { epoch: Epoch(epoch), request: 3 }, &Message::Log { bytes: body }, &mut bytes);
    bytes[8] = kind;
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Decodes bytes as everything that comes from a peer. What decodes must encode to the same bytes.
///
/// # Panics
/// If it does not.
pub fn examine(bytes: &[u8]) {
    let _ = frame_length(bytes, 1 << 20);
    let mut frames = vec![bytes.to_vec()];
    if let Some((kind, body)) = bytes.split_first() {
        frames.push(sealed(kind % 40, body, 0));
    }
    for frame in &frames {
        if let Ok(decoded) = Frame::decode(frame) {
            let mut again = Vec::new();
            Frame::encode(decoded.header, &decoded.message, &mut again);
            assert_eq!(&again, frame, "{decoded:?}");
        }
    }
    if let Some(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes);
    }
    if let Some(topology) = Topology::decode(bytes) {
        assert_eq!(topology.encode(), bytes);
    }
    if let Some(entry) = Entry::decode(bytes) {
        assert_eq!(entry.encode(), bytes);
    }
    if let Some(record) = Record::decode(bytes) {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(again, bytes);
    }
}

/// Gives a node frames: of each chunk of the input the first byte is a kind, the rest a body. It must take them, and
/// answer with frames.
///
/// # Panics
/// If what it puts out is no frame.
pub fn give_to_node(bytes: &[u8]) {
    let list: Vec<_> = (0..3).map(|n| (format!("http://h{n}"), String::new())).collect();
    let identity = Identity { node: NodeId(0), store: StoreId(1), topology: Topology::founded(&list, 7, 4, 3) };
    let (mut tables, limits) = (ModelTables::new(7), Limits::tiny());
    identity.found(&mut tables, &limits).expect("tables in memory do not fail");
    let now = Now { ticks_ms: 1, wall_ms: 1_700_000_000_000 };
    let routing = Routing::new(identity.topology);
    let node = Node::open(now, &mut tables, NodeId(0), limits, routing, 1);
    let mut node = node.expect("tables in memory do not fail");
    for (number, chunk) in (1u64..).zip(bytes.chunks(64)) {
        let Some((kind, body)) = chunk.split_first() else { continue };
        let frame = sealed(kind % 40, body, u64::from(kind / 40));
        let now = Now { ticks_ms: number * 7, wall_ms: 1_700_000_000_000 + number * 7 };
        let mut out = Vec::new();
        let input = Input::Frame { from: NodeId(1 + u16::from(kind / 128)), bytes: &frame };
        // A malformed row that is stored is an error of the tables, not of the node.
        let _ = node.on(now, input, &mut tables, &mut out);
        tables.commit();
        for output in &out {
            if let Output::Send { bytes, .. } = output {
                assert!(Frame::decode(bytes).is_ok());
            }
        }
    }
}
