//! Goal: a full disk is a state that ends, for a cluster too. While it lasts nodes answer reads, remove rows, and
//! refuse what grows, with a reason and for good; then they take writes again, without a restart.
//! Method: the tables of a node over a disk in memory that is as full as wanted; and clusters in virtual time.

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Options};
use quipu_cluster::api::{Answer, Request};
use quipu_cluster::engine::{EngineStore, EngineTables, Space};
use quipu_cluster::ids::Quorum;
use quipu_cluster::simulation::plan::FaultKind;
use quipu_cluster::tables::{RoomFor, Table, Tables};

use crate::quiet_cluster::Cluster;

const SEGMENT_BYTES: usize = 128 << 10;
const VALUE: [u8; 2000] = [7; 2000];

fn open(disk: &SimDisk) -> (Db, EngineStore) {
    let options = Options {
        disk: Arc::new(disk.clone()),
        log_segment_bytes: SEGMENT_BYTES,
        background: false,
        ..Options::without_files()
    };
    let db = Db::open("/node", options).unwrap();
    let store = EngineStore::open(&db, 7).unwrap();
    (db, store)
}

/// Puts an entity if there is space. Returns whether there was.
fn put(tables: &mut EngineTables<'_>, key: &[u8], value: &[u8]) -> quipu::Result<bool> {
    let has_room = tables.has_room(RoomFor::Growth, key.len() + value.len())?;
    if has_room {
        tables.put(Table::Entities, key, value)?;
    }
    Ok(has_room)
}

/// Puts entities until the disk takes no more. Returns how many it took.
fn fill(disk: &SimDisk, store: &EngineStore) -> u32 {
    disk.set_capacity(disk.used_bytes() + 6 * SEGMENT_BYTES as u64);
    for number in 0u32.. {
        let turned = store.turn_in(Space::Asked, |tables| put(tables, &number.to_be_bytes(), &VALUE)).unwrap();
        if !turned.answer {
            let lack = turned.lack.expect("it says why");
            assert!(lack.reason.contains("free some space on the disk"), "{lack:?}");
            disk.set_capacity(disk.used_bytes());
            return number;
        }
    }
    unreachable!("the disk has a limit")
}

/// Each turn of a node on a full disk failed: it answered nothing, not even reads, until it was started again.
#[test]
fn found_a_node_on_a_full_disk_could_not_take_a_turn() {
    for lies_in_runs in [false, true] {
        let disk = SimDisk::new();
        let (db, store) = open(&disk);
        let (_, commit) = store.turn(|tables| tables.put(Table::Entities, b"first", b"value")).unwrap();
        commit.wait(quipu::Durability::Sync).unwrap();
        if lies_in_runs {
            store.table(Table::Entities).flush().unwrap();
        }
        let rows = fill(&disk, &store);
        assert!(rows > 100, "{rows}");

        // Reads go on, and ask the disk for nothing.
        let before = disk.steps();
        for _ in 0..100 {
            let read = store.turn_in(Space::Lacking, |tables| tables.get(Table::Entities, b"first")).unwrap();
            assert_eq!(read.answer.as_deref(), Some(&b"value"[..]));
        }
        assert_eq!(disk.steps(), before, "over runs: {lies_in_runs}");

        // What grows without a question fails, and nothing of it stays.
        for space in [Space::Asked, Space::Lacking] {
            let refused = store.turn_in(space, |tables| {
                tables.put(Table::Facts, b"fact", b"of the turn")?;
                tables.put(Table::Entities, b"more", &VALUE.repeat(50))
            });
            assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Full));
        }
        let fact = store.turn(|tables| tables.get(Table::Facts, b"fact")).unwrap().0;
        assert_eq!(fact, None);

        // What frees space is done, with what tells of it.
        let mut removed = 0u32;
        while removed < rows {
            let turned = store
                .turn_in(Space::Lacking, |tables| {
                    let key = removed.to_be_bytes();
                    assert!(!put(tables, b"more", b"value")?, "it grows");
                    let has_room = tables.has_room(RoomFor::Removal, 200)?;
                    if has_room {
                        tables.put(Table::Graves, &key, b"tombstone")?;
                        tables.remove(Table::Entities, &key)?;
                        tables.put(Table::Facts, b"removed", &removed.to_be_bytes())?;
                    }
                    Ok(has_room)
                })
                .unwrap();
            if !turned.answer {
                break;
            }
            assert!(turned.has_freed);
            removed += 1;
        }
        assert!(removed > rows / 2, "{removed} of {rows}");
        // Facts go in even when removals do not.
        let (_, commit) = store.turn(|tables| tables.put(Table::Facts, b"last", b"fact")).unwrap();
        commit.wait(quipu::Durability::Sync).unwrap();

        // A checkpoint gives the space back.
        db.checkpoint().unwrap();
        assert!(store.turn(|tables| put(tables, b"more", b"value")).unwrap().0, "over runs: {lies_in_runs}");
        let left = store.turn(|tables| tables.tally(Table::Entities, b"", b"\xFF")).unwrap().0;
        assert_eq!(left.rows, i64::from(rows - removed) + 2);
    }
}

#[test]
fn nodes_whose_disks_are_all_full_read_and_remove_and_refuse_for_good() {
    let mut cluster = Cluster::new(3);
    let all = (2, 3);
    let removal = || Request::Put {
        key: b"key".to_vec(),
        value: None,
        ttl_ms: None,
        quorum: Some(Quorum { ack: 2, from: 3 }),
        condition: None,
    };
    cluster.writes(0, "value", (3, 3));
    for slot in 0..3 {
        cluster.inflict(FaultKind::FullDisk { slot }, 0);
    }
    for slot in 0..3 {
        assert_eq!(cluster.put(slot, "more", all, None), Answer::Full, "through slot {slot}");
        assert_eq!(cluster.reads(slot, all), "value");
    }
    assert!(matches!(cluster.ask(1, removal()), Answer::Written { .. }));
    for slot in 0..3 {
        let read = cluster.get(slot, all);
        assert!(matches!(read, Answer::Absent { .. }), "through slot {slot}: {read:?}");
        cluster.0.slots[slot].store.set_full(false);
    }
    // What was refused does not come later.
    cluster.run_ms(5000);
    for slot in 0..3 {
        assert!(matches!(cluster.get(slot, (3, 3)), Answer::Absent { .. }), "through slot {slot}");
    }
    (0..3).for_each(|slot| cluster.writes(slot, "after", (3, 3)));
}

/// A replica that has no space is one that did not confirm: what others have is not refused, and comes to it later.
#[test]
fn a_node_with_a_full_disk_gets_what_it_missed() {
    let mut cluster = Cluster::new(3);
    cluster.inflict(FaultKind::FullDisk { slot: 2 }, 0);
    assert_eq!(cluster.put(0, "value", (3, 3), None), Answer::NotEnoughReplicas, "two have it");
    cluster.writes(2, "newer", (2, 3));
    assert_eq!(cluster.get(2, (3, 3)), cluster.get(0, (2, 3)));
    cluster.0.slots[2].store.set_full(false);
    cluster.run_ms(5000);
    let rows = cluster.0.slots.iter().map(|slot| slot.store.rows(Table::Entities)).collect::<Vec<_>>();
    assert!(rows[0].len() == 1 && rows[0] == rows[1] && rows[0] == rows[2], "{rows:?}");
}
