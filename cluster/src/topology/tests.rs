//! Changes that go through their epochs, are given up, or involve dead members; and their bytes.

use super::*;

fn founded(count: u16) -> Topology {
    let members: Vec<_> = (0..count).map(|n| (format!("http://host-{n}:80"), String::new())).collect();
    Topology::founded(&members, 7, 0, 0)
}

fn newcomer(url: &str) -> Member {
    Member { url: url.to_owned(), zone: "z".to_owned(), weight: 100, store: StoreId(9), is_dead: false }
}

struct Log(Topology, u64);

impl Log {
    fn append(&mut self, entry: &Entry) -> bool {
        self.1 += 1;
        assert_eq!(Entry::decode(&entry.encode()).as_ref(), Some(entry));
        let changed = self.0.apply(self.1, entry);
        let bytes = self.0.encode();
        assert_eq!(Topology::decode(&bytes).as_ref(), Some(&self.0));
        assert!((0..bytes.len()).all(|length| Topology::decode(&bytes[..length]).is_none()));
        changed
    }

    fn ready(&mut self, nodes: &[u16]) -> bool {
        let epoch = self.0.epoch;
        nodes.iter().fold(false, |_, node| self.append(&Entry::Ready { node: NodeId(*node), epoch }))
    }

    fn change(&mut self, add: &[&str], remove: &[u16], dead: &[u16]) -> bool {
        self.append(&Entry::Change {
            expected: self.0.epoch,
            add: add.iter().map(|url| newcomer(url)).collect(),
            remove: remove.iter().map(|node| NodeId(*node)).collect(),
            dead: dead.iter().map(|node| NodeId(*node)).collect(),
        })
    }
}

#[test]
fn a_cluster_id_is_that_of_the_list_in_any_order() {
    let list = |urls: &[&str]| urls.iter().map(|url| (url.to_string(), String::new())).collect::<Vec<_>>();
    let a = Topology::founded(&list(&["x", "y", "z"]), 1, 0, 0);
    assert_eq!(a, Topology::founded(&list(&["z", "x", "y", "x"]), 1, 0, 0));
    assert_ne!(a.cluster, Topology::founded(&list(&["x", "yz"]), 1, 0, 0).cluster);
    assert_eq!((a.partitions, a.replicas, a.members[&NodeId(2)].url.as_str()), (64, 3, "z"));
    assert_eq!(Topology::founded(&list(&["x"]), 1, 0, 0).partitions, 1);
}

#[test]
fn a_join_goes_through_its_phases_as_all_become_ready() {
    let mut log = Log(founded(3), 0);
    assert!(log.change(&["http://new:80"], &[], &[]));
    let change = log.0.change.clone().unwrap();
    assert_eq!((log.0.epoch, change.begun, change.phase), (Epoch(1), Epoch(1), Phase::Copying));
    assert_eq!(change.goal.len(), 4);
    assert!(!log.change(&["http://other:80"], &[], &[]), "one change at a time");
    assert!(!log.ready(&[0, 1, 2]) && log.ready(&[3]));
    assert_eq!(log.0.change.as_ref().unwrap().phase, Phase::Switched);
    assert!(log.ready(&[3, 1, 0, 2]));
    assert!(log.0.change.is_none() && log.0.placed.len() == 4 && log.0.epoch == Epoch(3));
    // Not before all know the last epoch.
    assert!(!log.change(&[], &[0], &[]));
    log.ready(&[0, 1, 2, 3]);
    assert!(log.change(&[], &[0], &[]));
}

#[test]
fn the_dead_are_not_waited_for_and_ids_are_not_given_again() {
    let mut log = Log(founded(3), 0);
    assert!(log.change(&["http://host-1:80"], &[], &[1]), "a node that lost its store comes back");
    assert!(log.0.members[&NodeId(1)].is_dead && log.0.members.contains_key(&NodeId(3)));
    log.ready(&[0, 2]);
    // Another one dies meanwhile.
    log.append(&Entry::Dead { node: NodeId(2) });
    assert!(log.ready(&[3]) && log.ready(&[0, 3]));
    assert_eq!(log.0.placed, [0, 2, 3].map(NodeId).into());
    assert!(log.ready(&[0, 3]) || log.change(&["http://x:80"], &[], &[2]));
    assert!(log.0.members.contains_key(&NodeId(4)) && !log.0.members.contains_key(&NodeId(1)));
}

/// A node was added under an address where nothing ever started, and was declared dead: its places were given to it
/// all the same, and the replicas that had held the rows dropped them.
#[test]
fn a_change_is_given_up_when_the_node_that_was_to_come_is_dead() {
    let mut log = Log(founded(3), 0);
    let before = log.0.clone();
    assert!(log.change(&["http://nowhere:80"], &[], &[]));
    log.ready(&[0, 1, 2]);
    assert!(log.append(&Entry::Dead { node: NodeId(3) }));
    assert_eq!((&log.0.members, &log.0.placed, log.0.epoch), (&before.members, &before.placed, Epoch(2)));
    assert!(log.0.change.is_none() && !log.change(&["http://new:80"], &[], &[]), "not before all know");
    log.ready(&[0, 1, 2]);
    assert!(log.change(&["http://new:80"], &[], &[]) && log.0.members.contains_key(&NodeId(4)));
}

/// A node was leaving when the one that stays was declared dead: it would have handed all to it.
#[test]
fn a_change_is_given_up_when_it_hands_what_living_nodes_hold_to_dead_ones() {
    let mut log = Log(founded(2), 0);
    let before = log.0.clone();
    assert!(log.change(&[], &[0], &[]));
    assert!(log.append(&Entry::Dead { node: NodeId(1) }));
    assert_eq!((&log.0.placed, log.0.epoch), (&before.placed, Epoch(2)));
    assert!(log.0.change.is_none() && log.0.members[&NodeId(1)].is_dead);
    // The next change takes the dead one out, whether it names it or not.
    log.ready(&[0]);
    assert!(!log.change(&[], &[0], &[]), "no node would be left");
    assert!(log.change(&["http://new:80"], &[], &[]));
    assert!(log.ready(&[0, 2]) && log.ready(&[0, 2]));
    assert_eq!(log.0.placed, [0, 2].map(NodeId).into());
}

/// A node was added under an address without a node, and the change waited for it for ever.
#[test]
fn a_change_can_be_given_up_while_it_copies_and_not_later() {
    let mut log = Log(founded(3), 0);
    let before = log.0.clone();
    assert!(!log.append(&Entry::Abort { expected: Epoch(0) }), "no change is under way");
    assert!(log.change(&["http://nowhere:80"], &[0], &[]));
    log.ready(&[0, 1, 2]);
    assert!(!log.append(&Entry::Abort { expected: Epoch(0) }), "that is another epoch");
    assert!(log.append(&Entry::Abort { expected: Epoch(1) }));
    assert_eq!((&log.0.members, &log.0.placed, log.0.epoch), (&before.members, &before.placed, Epoch(2)));
    assert!(log.0.change.is_none() && log.0.ready.is_empty());
    // Another change begins when all know that this one is over, and its node gets another id.
    assert!(!log.change(&["http://new:80"], &[], &[]));
    log.ready(&[0, 1, 2]);
    assert!(log.change(&["http://new:80"], &[], &[]) && log.0.members.contains_key(&NodeId(4)));
    assert!(log.ready(&[0, 1, 2, 4]) && !log.append(&Entry::Abort { expected: log.0.epoch }), "it has copied");
}

#[test]
fn floors_rise_where_the_replicas_change_and_nowhere_else() {
    let mut log = Log(founded(5), 0);
    log.0.replicas = 3;
    log.change(&["http://new:80"], &[], &[]);
    let (old, new) = (log.0.placement(&log.0.placed), log.0.placement(&log.0.change.as_ref().unwrap().goal));
    for partition in old.all() {
        let is_changed = old.order(partition) != new.order(partition);
        assert_eq!(log.0.floor(partition), Epoch(u64::from(is_changed)));
    }
    log.ready(&[0, 1, 2, 3, 4, 5]);
    log.ready(&[0, 1, 2, 3, 4, 5]);
    for partition in old.all() {
        let is_changed = old.order(partition) != new.order(partition);
        assert_eq!(log.0.floor(partition), Epoch(if is_changed { 2 } else { 0 }));
    }
    assert_eq!(log.0.floor(Partition(64)), Epoch(0));
}

#[test]
fn an_entry_is_applied_once_and_one_for_another_epoch_does_nothing() {
    let mut log = Log(founded(3), 0);
    let entry = Entry::Change { expected: Epoch(5), add: vec![newcomer("u")], remove: vec![], dead: vec![] };
    assert!(!log.append(&entry) && log.0.members.len() == 3);
    assert!(!log.change(&["http://host-0:80"], &[], &[]), "a member has the address");
    assert!(!log.change(&[], &[0, 1, 2], &[]), "somebody must stay");
    let before = log.0.clone();
    assert!(!log.0.apply(1, &Entry::Dead { node: NodeId(0) }));
    assert_eq!(before, log.0);
}

/// What a set or a map is made of stands in ascending order, and once; a fuzzer found that other orders decoded.
#[test]
fn lists_out_of_order_do_not_decode() {
    let topology = founded(3);
    let bytes = topology.encode();
    let placed = [3_u16, 0, 1, 2].map(u16::to_le_bytes).concat();
    let at = bytes.windows(placed.len()).position(|window| window == placed).expect("the members that are placed");
    for list in [[3_u16, 1, 0, 2], [3, 0, 1, 1], [3, 0, 2, 1]] {
        let mut changed = bytes.clone();
        changed[at..at + placed.len()].copy_from_slice(&list.map(u16::to_le_bytes).concat());
        assert_eq!(Topology::decode(&changed), None, "{list:?}");
    }
    assert_eq!(Topology::decode(&bytes), Some(topology));
}
