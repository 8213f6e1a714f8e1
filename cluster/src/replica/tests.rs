//! One replica alone: what it lets in, and what it answers.

use super::*;
use crate::model::ModelTables;
use crate::protocol::{Message, Span, Summary};
use crate::record::{Kept, Record, State};
use crate::topology::{Entry, Member, StoreId, Topology};

const NOW: Now = Now { ticks_ms: 0, wall_ms: 1_000_000 };

fn version(ms: u64) -> Version {
    Version { time: time_of_ms(ms), node: NodeId(1) }
}

fn live(ms: u64) -> Record<'static> {
    Record { version: version(ms), state: State::Live { deadline_ms: 0, value: b"value" } }
}

fn grave(ms: u64) -> Record<'static> {
    Record { version: version(ms), state: State::Grave }
}

struct Fixture {
    replica: Replica,
    tables: ModelTables,
    routing: Routing,
}

impl Fixture {
    /// The first of three nodes, with one partition.
    fn new() -> Fixture {
        let members: Vec<_> = (0..3).map(|n| (format!("http://h{n}"), String::new())).collect();
        let routing = Routing::new(Topology::founded(&members, 7, 1, 3));
        let own = routing.read_order(Partition(0))[0];
        let mut tables = ModelTables::new(7);
        let mut replica = Replica::open(own, Limits::tiny(), &tables).unwrap();
        replica.found(&routing, &mut tables).unwrap();
        Fixture { replica, tables, routing }
    }

    fn store(&mut self, from: u8, record: Record<'_>, origin: Origin) -> Verdict {
        let place = (Partition(0), from, &b"key"[..]);
        self.replica.store(NOW, &mut self.tables, &self.routing, place, record, origin).unwrap()
    }

    fn write(&mut self, from: u8, record: Record<'_>) -> Verdict {
        self.store(from, record, Origin::Coordinator(Epoch(9)))
    }

    fn found(&self) -> Option<(u8, Version, bool)> {
        let (from, bytes) = self.replica.newest_row(&self.tables, Partition(0), b"key", NOW.wall_ms).unwrap()?;
        let record = Record::decode(&bytes).unwrap();
        Some((from, record.version, record.value_at(NOW.wall_ms).is_some()))
    }
}

#[test]
fn the_newest_is_kept_and_what_is_older_is_no_confirmation() {
    let mut f = Fixture::new();
    assert_eq!(f.write(3, live(5)), Verdict::Stored);
    assert_eq!(f.write(3, live(5)), Verdict::Stored, "the same write again");
    assert_eq!(f.write(3, live(4)), Verdict::Older(version(5)));
    assert_eq!(f.write(3, grave(6)), Verdict::Stored);
    assert_eq!(f.write(3, live(5)), Verdict::Older(version(6)));
    assert_eq!(f.found(), Some((3, version(6), false)));
    assert!(f.tables.rows(Table::Entities).is_empty() && f.tables.rows(Table::Graves).len() == 1);
}

#[test]
fn a_key_that_is_written_with_another_from_has_moved() {
    let mut f = Fixture::new();
    f.write(3, live(5));
    f.write(1, live(6));
    assert_eq!(f.found(), Some((1, version(6), true)));
    let kept = Some(Kept { version: version(5), value: Some((0, b"value")) });
    let moved = f.tables.rows(Table::Graves).values().next().map(|bytes| Record::decode(bytes).unwrap()).unwrap();
    assert_eq!(moved, Record { version: version(6), state: State::Moved { to: 1, deadline_ms: 0, kept } });
    assert_eq!(f.write(3, live(5)), Verdict::Older(version(6)), "the newest of all classes counts");
    assert_eq!(f.tables.rows(Table::Entities).len(), 1, "it counts once");
}

/// A note came from another replica, and what it told of was lost with its store.
#[test]
fn a_note_that_is_read_keeps_the_newest_of_all_other_classes() {
    let mut f = Fixture::new();
    f.write(3, live(5));
    f.write(2, live(6));
    let note = Record { version: version(7), state: State::Moved { to: 1, deadline_ms: 0, kept: None } };
    assert_eq!(f.store(3, note, Origin::Replica { epoch: Epoch(9), horizon: 0 }), Verdict::Stored);
    let (from, bytes) = f.replica.newest_row(&f.tables, Partition(0), b"key", NOW.wall_ms).unwrap().unwrap();
    let read = Record::decode(&bytes).unwrap();
    assert_eq!((from, read.version, read.kept()), (3, version(7), Some(live(6))));
}

#[test]
fn an_expired_value_leaves_a_grave_of_its_version_and_is_confirmed_again() {
    let mut f = Fixture::new();
    let state = State::Live { deadline_ms: NOW.wall_ms - 1, value: b"v" };
    let record = Record { version: version(5), state };
    f.write(3, record);
    f.replica.expire(&mut f.tables, NOW.wall_ms, 10).unwrap();
    assert!(f.tables.rows(Table::Expires).is_empty() && f.tables.rows(Table::Entities).is_empty());
    assert_eq!(f.found(), Some((3, version(5), false)));
    assert_eq!(f.write(3, record), Verdict::Stored);
    assert_eq!(f.write(3, live(4)), Verdict::Older(version(5)), "what is older does not come back");
}

#[test]
fn below_the_floor_nothing_comes_from_coordinators_and_below_the_horizon_nothing_rises() {
    let mut f = Fixture::new();
    f.write(3, live(50));
    f.write(3, grave(60));
    let (place, line) = ((Partition(0), Epoch(9)), time_of_ms(100));
    let raised = f.replica.raise_horizon(NOW, &mut f.tables, &f.routing, place, (line, 3)).unwrap();
    assert_eq!(raised, Err(Refusal::NotReady));
    f.replica.raise_floor(NOW, &mut f.tables, &f.routing, place, line).unwrap().unwrap();
    let floor = Version::of_line(line);
    assert_eq!(f.write(3, live(100)), Verdict::Older(floor));
    f.replica.raise_horizon(NOW, &mut f.tables, &f.routing, place, (line, 3)).unwrap().unwrap();
    assert_eq!(f.replica.bury(&mut f.tables, Partition(0), &[], (10, NOW.wall_ms)).unwrap(), None);
    assert_eq!(f.found(), None);
    // A replica that has not reached the horizon still has the old value, and says so late.
    let epoch = Epoch(9);
    assert_eq!(f.store(3, live(50), Origin::Replica { epoch, horizon: 0 }), Verdict::Stored);
    assert_eq!(f.found(), None);
    // One that has reached it never had the tombstone: this replica has lost the row.
    assert_eq!(f.store(3, live(50), Origin::Replica { epoch, horizon: line }), Verdict::Stored);
    assert_eq!(f.found(), Some((3, version(50), true)));
}

/// A node whose clock was days ahead drew a line, and every replica took it.
#[test]
fn a_line_above_the_present_less_the_grace_period_is_refused() {
    let mut f = Fixture::new();
    let (place, own) = ((Partition(0), Epoch(9)), f.replica.line(NOW.wall_ms));
    assert_eq!(own, time_of_ms(NOW.wall_ms - f.replica.limits.grace_ms));
    let raised = |f: &mut Fixture, time| f.replica.raise_floor(NOW, &mut f.tables, &f.routing, place, time).unwrap();
    assert_eq!(raised(&mut f, own + 1), Err(Refusal::FarAhead));
    assert_eq!((raised(&mut f, own), f.replica.state(Partition(0)).floor), (Ok(()), own));
    let horizon = f.replica.raise_horizon(NOW, &mut f.tables, &f.routing, place, (own + 1, 3)).unwrap();
    assert_eq!(horizon, Err(Refusal::NotReady), "no horizon lies above the floor");
}

/// A round was held while all clocks were an hour ahead. A replica that has come since could not reach that horizon,
/// and what it alone had was dropped by the others until the hour was over.
#[test]
fn a_horizon_of_a_time_when_all_clocks_were_ahead_is_taken_back_by_the_next_round() {
    let mut f = Fixture::new();
    let (place, line) = ((Partition(0), Epoch(9)), f.replica.line(NOW.wall_ms));
    let ahead = Now { wall_ms: NOW.wall_ms + 3_600_000, ..NOW };
    let far = f.replica.line(ahead.wall_ms);
    f.replica.raise_floor(ahead, &mut f.tables, &f.routing, place, far).unwrap().unwrap();
    f.replica.raise_horizon(ahead, &mut f.tables, &f.routing, place, (far, 3)).unwrap().unwrap();
    f.replica.raise_horizon(ahead, &mut f.tables, &f.routing, place, (line, 3)).unwrap().unwrap();
    assert_eq!(f.replica.state(Partition(0)).horizon, far, "by a clock that allows it, it stays");
    let origin = Origin::Replica { epoch: Epoch(9), horizon: line };
    f.store(3, live(50), origin);
    assert_eq!(f.found(), None, "the other has not reached the horizon");
    f.replica.raise_horizon(NOW, &mut f.tables, &f.routing, place, (line, 3)).unwrap().unwrap();
    assert_eq!((f.replica.state(Partition(0)).horizon, f.replica.state(Partition(0)).floor), (line, far));
    f.store(3, live(50), origin);
    assert_eq!(f.found(), Some((3, version(50), true)));
}

#[test]
fn a_note_of_what_lies_elsewhere_and_a_tombstone_that_is_not_due_stay_below_the_horizon() {
    let mut f = Fixture::new();
    let place = (Partition(0), Epoch(9));
    f.write(3, live(50));
    f.write(1, live(60));
    let expired = State::Expired { deadline_ms: NOW.wall_ms + 1 };
    f.replica.note_class(&mut f.tables, 3).unwrap();
    let other = (Partition(0), 3, &b"other"[..]);
    let record = Record { version: version(70), state: expired };
    f.replica.store(NOW, &mut f.tables, &f.routing, other, record, Origin::Known(Epoch(9))).unwrap();
    let line = f.replica.line(NOW.wall_ms);
    f.replica.raise_floor(NOW, &mut f.tables, &f.routing, place, line).unwrap().unwrap();
    f.replica.raise_horizon(NOW, &mut f.tables, &f.routing, place, (line, 3)).unwrap().unwrap();
    f.replica.bury(&mut f.tables, Partition(0), &[], (10, NOW.wall_ms)).unwrap();
    assert_eq!(f.tables.rows(Table::Graves).len(), 2);
    f.replica.bury(&mut f.tables, Partition(0), &[], (10, NOW.wall_ms + 1)).unwrap();
    assert_eq!(f.tables.rows(Table::Graves).len(), 1, "it is due");
}

#[test]
fn versions_from_the_far_future_are_refused_unless_a_replica_has_them_or_they_top_what_is_stored() {
    let mut f = Fixture::new();
    let far = NOW.wall_ms + f.replica.limits.ahead_ms_max;
    assert_eq!(f.write(3, live(far + 1)), Verdict::Refused(Refusal::FarAhead));
    let mut other = Fixture::new();
    assert_eq!(other.store(3, live(far + 1), Origin::Known(Epoch(9))), Verdict::Stored, "a hint, a read repair");
    assert_eq!(f.write(3, live(far)), Verdict::Stored);
    assert_eq!(f.write(3, live(far + 1)), Verdict::Stored);
}

#[test]
fn messages_of_an_epoch_before_the_replicas_changed_are_refused() {
    let mut f = Fixture::new();
    let mut topology = f.routing.topology().clone();
    let member = Member { url: "new".into(), zone: String::new(), weight: 500, store: StoreId(3), is_dead: false };
    let entry = Entry::Change { expected: Epoch(0), add: vec![member], remove: vec![], dead: vec![] };
    assert!(topology.apply(1, &entry));
    f.routing = f.routing.follow(topology);
    assert!(f.routing.is_changing(Partition(0)));
    assert_eq!(f.store(3, live(5), Origin::Coordinator(Epoch(0))), Verdict::Refused(Refusal::StaleEpoch));
    assert_eq!(f.store(3, live(5), Origin::Coordinator(Epoch(1))), Verdict::Stored);
    let read = |epoch| f.replica.read(&f.tables, &f.routing, (Partition(0), 3, b"key"), (epoch, NOW.wall_ms)).unwrap();
    assert_eq!(read(Epoch(0)), Err(Refusal::StaleEpoch));
    assert!(read(Epoch(1)).is_ok());
}

#[test]
fn a_replica_that_copies_or_is_dirty_answers_nothing() {
    let mut f = Fixture::new();
    f.write(3, live(5));
    f.replica
        .change(&mut f.tables, Partition(0), |state| (state.have, state.copying) = (PartitionState::NONE, 1))
        .unwrap();
    let read = f.replica.read(&f.tables, &f.routing, (Partition(0), 3, b"key"), (Epoch(9), NOW.wall_ms)).unwrap();
    assert_eq!(read, Err(Refusal::NotReady));
    let span = Span { start: b"", end: b"" };
    let count = Message::Count { span, assigned: vec![(Partition(0), 1)] };
    let counted = f.replica.part(&f.tables, &f.routing, (Epoch(9), NOW.wall_ms), &count).unwrap();
    assert_eq!(counted, Some(Part::Count { rows: 0, refused: vec![0] }));
    assert_eq!(f.write(3, live(6)), Verdict::Stored, "it takes writes meanwhile");
    // Two that have lost their rows copy from each other too.
    let summaries = [Summary { span: Span { start: &[3], end: &[] }, rows: 0, hash: 0 }];
    let compare = |f: &Fixture, is_copy| {
        f.replica.compare(&f.tables, &f.routing, Partition(0), (Epoch(0), is_copy), &summaries).unwrap()
    };
    assert_eq!(compare(&f, false), Err(Refusal::NotReady));
    assert!(compare(&f, true).is_ok_and(|bits| bits == [1]));
    f.replica.change(&mut f.tables, Partition(0), |state| state.is_dirty = true).unwrap();
    assert_eq!(compare(&f, true), Err(Refusal::NotReady));
    assert_eq!(f.write(3, live(7)), Verdict::Refused(Refusal::NotReady));
}

#[test]
fn what_is_known_of_a_partition_and_of_classes_survives_a_restart() {
    let mut f = Fixture::new();
    f.write(2, live(5));
    f.replica.raise_floor(NOW, &mut f.tables, &f.routing, (Partition(0), Epoch(9)), 77).unwrap().unwrap();
    let again = Replica::open(f.replica.own, Limits::tiny(), &f.tables).unwrap();
    assert_eq!(again.state(Partition(0)), f.replica.state(Partition(0)));
    assert_eq!((again.classes(), again.state(Partition(0)).floor), (0b10, 77));
}

#[test]
fn a_full_disk_takes_what_frees_space_and_nothing_else() {
    let mut f = Fixture::new();
    let long = vec![b'v'; 2000];
    let long = Record { version: version(5), state: State::Live { deadline_ms: 1000, value: &long } };
    assert_eq!((f.write(3, live(6)), f.write(2, live(7))), (Verdict::Stored, Verdict::Stored));
    f.tables.is_full = true;
    assert_eq!(f.write(3, live(8)), Verdict::Refused(Refusal::Full));
    assert_eq!(f.write(3, live(6)), Verdict::Older(version(7)), "what is not stored needs no space");
    let raised = f.replica.raise_floor(NOW, &mut f.tables, &f.routing, (Partition(0), Epoch(9)), 1).unwrap();
    assert_eq!(raised, Err(Refusal::Full));
    assert_eq!(f.write(3, grave(9)), Verdict::Stored);
    assert!(f.found().is_some_and(|(_, found, is_live)| found == version(9) && !is_live));

    // A note would keep a long copy of another class.
    let mut f = Fixture::new();
    f.replica.limits.value_bytes_max = 2000;
    assert_eq!((f.write(2, live(4)), f.write(3, long)), (Verdict::Stored, Verdict::Stored));
    f.tables.is_full = true;
    assert_eq!(f.write(2, grave(9)), Verdict::Refused(Refusal::Full));
    // It expires in its own class.
    assert!(!f.replica.expire(&mut f.tables, 1000, 10).unwrap());
    assert_eq!(f.found(), Some((3, version(5), false)));
    assert_eq!(f.write(2, grave(9)), Verdict::Stored);
}
