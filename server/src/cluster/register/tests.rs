//! Tests of the register without sockets: which node is taken for which.

use quipu::Options;

use super::*;

fn options(own: u16) -> ClusterOptions {
    let url = |node: u16| format!("http://host-{node}:80");
    ClusterOptions {
        urls: (0..3).map(url).collect(),
        joins: false,
        self_url: url(own),
        credentials: Credentials::default(),
        replicas: 0,
        limits: Limits::default(),
        drain_ms: 0,
    }
}

/// A directory was put back from a backup: its node answered 404 for what it had confirmed after that.
#[test]
fn a_store_that_has_gone_back_is_noticed_by_who_remembers_its_mark() {
    let (db, other) = (["/register", "/other"]).map(|path| Db::open(path, Options::without_files()).unwrap()).into();
    let (register, peer) = (Register::open(&db, &options(0)).unwrap(), Register::open(&other, &options(1)).unwrap());
    let greet = |from: &Register| {
        let (is_new, bytes) = from.hello();
        register.admit(&Hello::decode(&bytes).unwrap(), is_new).unwrap()
    };
    let admitted = |store| Decision::Admitted(Admitted { node: NodeId(1), is_replaced: false, store });
    assert_eq!(greet(&peer), admitted(Some(peer.store_id())));
    register.note(NodeId(1), peer.store_id()).unwrap();
    peer.state().standing = Standing::Begun;
    let before = peer.state().mark;
    let copy = (before, peer.raise_mark().unwrap());
    assert_eq!(copy, (0, (peer.store_id(), 1)));
    assert!(register.note_mark(NodeId(1), peer.store_id(), 1).unwrap());
    assert!(!register.note_mark(NodeId(1), peer.store_id(), 1).unwrap(), "it is known");
    assert_eq!(greet(&peer), admitted(None));
    peer.state().mark = 0;
    // It may have been raised while the greeting was on its way.
    assert_eq!(greet(&peer), Decision::WentBack { mark: 1, is_sure: false });
    for known in register.state().marks.values_mut() {
        known.heard = None;
    }
    assert_eq!(greet(&peer), Decision::WentBack { mark: 1, is_sure: true });
    // It is remembered over a restart, and forgotten where all are put back.
    let again = || Register::open(&db, &options(0)).unwrap().state().marks.clone();
    assert_eq!(again(), [(NodeId(1), Known { store: peer.store_id(), mark: 1, heard: None })].into());
    Register::forget_marks(&db).unwrap();
    assert_eq!(again(), BTreeMap::new());
    Register::forget_all(&db).unwrap();
    assert_ne!(Register::open(&db, &options(0)).unwrap().store_id(), register.store_id());
}

/// Directories that were lost one after the other, each replaced before the next, are not half of them at once.
#[test]
fn losses_that_were_mended_do_not_count_as_lost_together() {
    let db = Db::open("/register", Options::without_files()).unwrap();
    let url = |node: u16| format!("http://host-{node}:80");
    let register = Register::open(&db, &options(0)).unwrap();
    let cluster = register.routing().topology().cluster;
    let list = (0..3).map(url).collect::<Vec<_>>().join(",");
    let come = |node: u16, store: u64| {
        let versions = (*VERSIONS.start(), *VERSIONS.end());
        let settings = register.routing().topology().settings();
        let (node, list) = (NodeId(node), &list[..]);
        let hello = Hello { versions, cluster, node, store, mark: 0, applied: 0, settings, list };
        register.admit(&hello, true).unwrap()
    };
    let newcomer = |node: u16, store: u64| Decision::Newcomer(Newcomer { url: url(node), store: StoreId(store) });
    register.note(NodeId(1), StoreId(5)).unwrap();
    register.note(NodeId(2), StoreId(7)).unwrap();
    assert_eq!(come(1, 9), newcomer(1, 9));
    let mut topology = register.routing().topology().clone();
    topology.apply(1, &Entry::Dead { node: NodeId(1) });
    register.follow(&Routing::new(topology));
    assert_eq!(register.peer_count(), register.peers().len());
    assert_eq!(come(2, 11), newcomer(2, 11));
}

/// A node that had lost its directory greeted twice at once: after the first its new store was known, and the
/// second welcomed it as a new node, which says "absent" for all that it has lost.
#[test]
fn a_node_that_has_lost_its_directory_is_not_new_however_often_it_greets() {
    let db = Db::open("/register", Options::without_files()).unwrap();
    let two = ClusterOptions { urls: (0..2).map(|node| format!("http://host-{node}:80")).collect(), ..options(0) };
    let register = Register::open(&db, &two).unwrap();
    let (cluster, settings) = {
        let routing = register.routing();
        (routing.topology().cluster, routing.topology().settings())
    };
    let versions = (*VERSIONS.start(), *VERSIONS.end());
    let hello = Hello { versions, cluster, node: NodeId(1), store: 9, mark: 0, applied: 0, settings, list: "" };
    register.note(NodeId(1), StoreId(5)).unwrap();
    let greet = |is_new: bool| match register.admit(&hello, is_new).unwrap() {
        Decision::Admitted(admitted) => admitted,
        other => panic!("{other:?}"),
    };
    assert!(greet(true).is_replaced);
    register.note(NodeId(1), StoreId(9)).unwrap();
    assert!(greet(true).is_replaced, "it has not begun yet");
    assert!(!greet(false).is_replaced);
}

/// Two of three nodes had lost their directories. One of them had heard of the other's earlier store, took it for the
/// only one that was lost, and sent it for an id that no majority was there to give: both waited for each other.
#[test]
fn a_node_that_is_lost_itself_counts_among_those_that_are() {
    let db = Db::open("/register", Options::without_files()).unwrap();
    let register = Register::open(&db, &options(0)).unwrap();
    let (cluster, settings) = {
        let routing = register.routing();
        (routing.topology().cluster, routing.topology().settings())
    };
    let versions = (*VERSIONS.start(), *VERSIONS.end());
    let hello = Hello { versions, cluster, node: NodeId(2), store: 9, mark: 0, applied: 0, settings, list: "" };
    register.note(NodeId(2), StoreId(5)).unwrap();
    assert!(
        matches!(register.admit(&hello, true).unwrap(), Decision::Newcomer(_)),
        "it is the only one, as far as known"
    );
    register.is_not_new();
    assert!(matches!(register.admit(&hello, true).unwrap(), Decision::Admitted(admitted) if admitted.is_replaced));
}

/// A node that had returned under its id was known by its new store to all that it had met. One that was added later
/// knew the old store from the log, refused the node, and copied for ever.
#[test]
fn the_log_learns_the_store_of_a_node_that_has_returned() {
    let db = Db::open("/register", Options::without_files()).unwrap();
    let register = Register::open(&db, &options(0)).unwrap();
    let (node, old, new) = (NodeId(1), StoreId(5), StoreId(9));
    let mut topology = register.routing().topology().clone();
    topology.apply(1, &Entry::Claim { node, store: old, instead_of: StoreId(0) });
    register.follow(&Routing::new(topology.clone()));
    register.note(node, old).unwrap();
    register.note_mark(node, old, 3).unwrap();
    assert_eq!(register.returned(), []);
    register.note(node, new).unwrap();
    assert_eq!(register.returned(), [], "it does not run yet: the log may give it another id");
    register.note_mark(node, new, 1).unwrap();
    let claim = Entry::Claim { node, store: new, instead_of: old };
    assert_eq!(register.returned(), std::slice::from_ref(&claim));
    assert_eq!(Entry::decode(&claim.encode()).as_ref(), Some(&claim));
    topology.apply(2, &claim);
    assert_eq!(topology.members[&node].store, new);
    topology.apply(3, &Entry::Claim { node, store: old, instead_of: StoreId(0) });
    assert_eq!(topology.members[&node].store, new, "a claim from before comes late");
    register.follow(&Routing::new(topology.clone()));
    assert_eq!(register.returned(), []);
    topology.apply(4, &Entry::Dead { node });
    register.follow(&Routing::new(topology));
    register.note_mark(node, StoreId(11), 1).unwrap();
    register.note(node, StoreId(11)).unwrap();
    assert_eq!(register.returned(), [], "a dead node does not come back under its id");
}

/// What a third node said of a store was taken for newer than the node's own greeting, which had come meanwhile, and
/// than the log.
#[test]
fn hearsay_of_a_store_replaces_nothing_that_is_known() {
    let db = Db::open("/register", Options::without_files()).unwrap();
    let register = Register::open(&db, &options(0)).unwrap();
    let hear = |store: u64| register.admitted_by(NodeId(2), false, &[(NodeId(1), StoreId(store))]).unwrap();
    let claims = || register.state().claims.clone();
    hear(5);
    assert_eq!(claims(), [(NodeId(1), StoreId(5))].into());
    register.note(NodeId(1), StoreId(9)).unwrap();
    hear(5);
    assert_eq!(claims(), [(NodeId(1), StoreId(9))].into());
    assert_eq!(Register::open(&db, &options(0)).unwrap().state().claims, claims());
    // The greeting has been noted in the table, and comes to be known after the hearsay.
    register.state().claims.clear();
    hear(5);
    assert_eq!(claims(), BTreeMap::new());
    let other = Register::open(&Db::open("/other", Options::without_files()).unwrap(), &options(0)).unwrap();
    let mut topology = other.routing().topology().clone();
    topology.apply(1, &Entry::Claim { node: NodeId(1), store: StoreId(9), instead_of: StoreId(0) });
    other.follow(&Routing::new(topology));
    other.admitted_by(NodeId(2), false, &[(NodeId(1), StoreId(5))]).unwrap();
    assert_eq!(other.state().claims, BTreeMap::new(), "the log knows it");
}
