//! Who keeps an entity, and how many of them must answer.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998) orders the nodes for a key: each gets a hash of its address and
//! the key, and the highest comes first. The first `from` are the key's replicas, so the set for `from = n` lies within
//! that for `from = n + 1`, and a node that joins or leaves moves only the keys it has.
//!
//! A request is coordinated by the node that got it. This node is alone, so every set of replicas is itself, and its
//! answer is all there is to wait for. With more nodes [`Replica`] gets a second kind, which asks over the network; the
//! coordinator then stamps a write before it sends it, and picks the newest of the first `ack` answers of a read.
//!
//! Not here: how a replica stores (`writer`), what requests look like (`entity`).

use quipu::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::query;

/// The nodes of a cluster, in an order that all agree on.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Seed and address of each, by address.
    nodes: Vec<(u64, String)>,
}

impl Placement {
    /// Over the addresses of all nodes, in any order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is none, or one stands there twice.
    pub fn new(mut addresses: Vec<String>) -> Result<Placement> {
        let given = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        if given == 0 || addresses.len() < given {
            return Err(Error::new(ErrorKind::Invalid, "a cluster needs a node, and each of its nodes named once"));
        }
        let seeded = |address: String| (xxh3_64(address.as_bytes()), address);
        Ok(Placement { nodes: addresses.into_iter().map(seeded).collect() })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The address of a node.
    pub fn address(&self, node: usize) -> &str {
        &self.nodes[node].1
    }

    /// The nodes that keep `key` if `from` of them do, the first choice first. One hash a node.
    pub fn replicas(&self, key: &[u8], from: usize) -> Vec<usize> {
        let score = |&(seed, _): &(u64, String)| xxh3_64_with_seed(key, seed);
        let mut order: Vec<(u64, usize)> = self.nodes.iter().map(score).zip(0..).collect();
        order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        order.into_iter().take(from).map(|(_, node)| node).collect()
    }
}

/// How many replicas keep an entity, and how many of them are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Answers that are waited for.
    pub ack: usize,
    /// Replicas that are asked.
    pub from: usize,
}

impl Quorum {
    /// From the parameters of a request: all nodes keep an entity, and more than half of those that keep it answer,
    /// where nothing else is said.
    ///
    /// # Errors
    /// What is wrong, for the body of a `400`.
    pub fn parse(ack: Option<&[u8]>, from: Option<&[u8]>, nodes: usize) -> std::result::Result<Quorum, String> {
        let number = |name: &str, text: Option<&[u8]>| text.map(|text| query::number(name, text)).transpose();
        let from = number("from", from)?.unwrap_or(nodes as u64);
        let ack = number("ack", ack)?.unwrap_or(from / 2 + 1);
        match (ack, from) {
            (_, 0) => Err("`from` must be at least 1".to_owned()),
            (0, _) => Err("`ack` must be at least 1".to_owned()),
            _ if from > nodes as u64 => Err(format!("`from` is {from}, and the cluster has {nodes} node(s)")),
            _ if ack > from => Err(format!("`ack` is {ack}, more than `from`, which is {from}")),
            _ => Ok(Quorum { ack: ack as usize, from: from as usize }),
        }
    }
}

/// Where a replica of an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replica {
    /// In this process.
    Here,
}

/// Finds the replicas of entities.
#[derive(Clone, Debug)]
pub struct Coordinator {
    placement: Placement,
    /// What stands for each node of the placement.
    replicas: Vec<Replica>,
}

impl Coordinator {
    /// Of the node that others know as `own_address`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the cluster has other nodes: that is not there yet.
    pub fn new(own_address: &str, cluster: Vec<String>) -> Result<Coordinator> {
        let addresses = if cluster.is_empty() { vec![own_address.to_owned()] } else { cluster };
        let placement = Placement::new(addresses)?;
        let known: Vec<&str> = (0..placement.nodes()).map(|node| placement.address(node)).collect();
        if known != [own_address] {
            let message = format!("a cluster of {} is not served yet, only {own_address} alone", known.join(", "));
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Coordinator { placement, replicas: vec![Replica::Here] })
    }

    /// Nodes of the cluster.
    pub fn nodes(&self) -> usize {
        self.placement.nodes()
    }

    /// The replica whose answer to a request for `key` is the coordinator's own.
    pub fn replica_of(&self, key: &[u8], quorum: Quorum) -> Replica {
        // With one node there is nothing to choose, nor to allocate.
        if let [only] = *self.replicas {
            return only;
        }
        let order = self.placement.replicas(key, quorum.from);
        order.first().map_or(Replica::Here, |&node| self.replicas[node])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(nodes: usize) -> Placement {
        Placement::new((0..nodes).map(|node| format!("http://node-{node}:8080")).collect()).unwrap()
    }

    #[test]
    fn sets_are_nested_and_distinct() {
        for nodes in 1..7 {
            let placement = placement(nodes);
            for key in 0..200u32 {
                let all = placement.replicas(&key.to_be_bytes(), nodes);
                let mut sorted = all.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..nodes).collect::<Vec<_>>());
                for from in 1..=nodes {
                    assert_eq!(placement.replicas(&key.to_be_bytes(), from), all[..from]);
                }
            }
        }
    }

    #[test]
    fn every_node_keeps_its_share_in_each_place() {
        let placement = placement(5);
        let mut counts = [[0u32; 5]; 5];
        for key in 0..20_000u32 {
            for (place, node) in placement.replicas(&key.to_be_bytes(), 5).into_iter().enumerate() {
                counts[place][node] += 1;
            }
        }
        // 4000 each; the standard deviation is 57.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(4000) < 300), "{counts:?}");
    }

    #[test]
    fn the_order_of_the_list_does_not_matter_and_a_new_node_moves_only_its_share() {
        let names = |nodes: usize| (0..nodes).map(|node| format!("http://node-{node}:8080")).collect::<Vec<_>>();
        let (four, five) = (placement(4), placement(5));
        let backwards = Placement::new(names(4).into_iter().rev().collect()).unwrap();
        let mut moved = 0;
        for key in 0..10_000u32 {
            let key = key.to_be_bytes();
            assert_eq!(four.replicas(&key, 4), backwards.replicas(&key, 4));
            let (before, after) = (four.replicas(&key, 1)[0], five.replicas(&key, 1)[0]);
            if five.address(after) != four.address(before) {
                assert_eq!(five.address(after), "http://node-4:8080");
                moved += 1;
            }
        }
        assert!((1_800..2_200).contains(&moved), "{moved} of 10000 keys moved to the fifth node");
        assert!(Placement::new(vec![]).is_err());
        assert!(Placement::new(vec!["a".to_owned(), "a".to_owned()]).is_err());
    }

    #[test]
    fn quorums() {
        let parse = |ack: &str, from: &str, nodes| {
            let given = |text: &'static str| (!text.is_empty()).then_some(text.as_bytes());
            Quorum::parse(given(Box::leak(ack.into())), given(Box::leak(from.into())), nodes)
        };
        for (nodes, ack) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            assert_eq!(parse("", "", nodes), Ok(Quorum { ack, from: nodes }));
        }
        assert_eq!(parse("", "3", 5), Ok(Quorum { ack: 2, from: 3 }));
        assert_eq!(parse("1", "3", 3), Ok(Quorum { ack: 1, from: 3 }));
        for (ack, from) in [("0", ""), ("", "0"), ("3", "2"), ("1", "4"), ("4", ""), ("x", ""), ("-1", ""), ("", "1.5")]
        {
            assert!(parse(ack, from, 3).is_err(), "ack={ack} from={from}");
        }
    }

    #[test]
    fn a_cluster_of_more_nodes_is_refused() {
        let own = "http://a:1";
        assert!(Coordinator::new(own, vec![]).is_ok());
        assert!(Coordinator::new(own, vec![own.to_owned()]).is_ok());
        assert!(Coordinator::new(own, vec![own.to_owned(), "http://b:1".to_owned()]).is_err());
        assert!(Coordinator::new(own, vec!["http://b:1".to_owned()]).is_err());
    }
}
