//! Decides whether a peer that greets may talk to this node, before any frame.
//!
//! A peer is refused if it belongs to another cluster (both lists are shown), shares no protocol version with this
//! node, has other settings, is not a member, was declared dead, or has another store than the one known for its id: an
//! erased directory, or that of another node. Then it needs a new id. So does a peer whose store was restored from a
//! copy.

use std::fmt;

use crate::protocol::VERSIONS;
use crate::protocol::hello::Hello;
use crate::topology::{Settings, StoreId, Topology};

/// Why a peer is refused. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is of another cluster.
    OtherCluster {
        /// The addresses that it was given.
        theirs: String,
        /// The addresses of this cluster.
        ours: String,
    },
    /// No version of the protocol is known to both.
    NoCommonVersion {
        /// The versions that it speaks.
        theirs: (u16, u16),
    },
    /// It counts, hashes or places entities in another way.
    OtherSettings {
        /// What it was told.
        theirs: Settings,
        /// What this cluster has.
        ours: Settings,
    },
    /// It is no member.
    NoMember,
    /// It was declared dead.
    Dead,
    /// Its id is known under another store.
    OtherStore,
    /// Its store had come further: it was put back from a copy.
    WentBack,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OtherCluster { theirs, ours } => {
                write!(f, "it is of another cluster: it was given {theirs}, this one is {ours}; give all the same list")
            }
            Refused::NoCommonVersion { theirs: (low, high) } => write!(
                f,
                "it speaks versions {low} to {high} of the node protocol, this node {} to {}; upgrade a step at a time",
                VERSIONS.start(),
                VERSIONS.end()
            ),
            Refused::OtherSettings { theirs, ours } if theirs.replicas != ours.replicas => write!(
                f,
                "it has {} replicas of an entity by default, this node has {}; give all nodes the same `--replicas`",
                theirs.replicas, ours.replicas
            ),
            Refused::OtherSettings { theirs, ours } if theirs.partitions != ours.partitions => {
                write!(f, "it has {} partitions, this node has {}", theirs.partitions, ours.partitions)
            }
            Refused::OtherSettings { .. } => write!(
                f,
                "its hashes have another seed: the cluster was formed with another `--cluster-secret-file`; start it \
                 on a new directory with `--join` instead of `--cluster`"
            ),
            Refused::NoMember => write!(f, "it is not a member; add it"),
            Refused::Dead => write!(f, "it was declared dead; it must come back as a new member"),
            Refused::OtherStore => {
                write!(
                    f,
                    "its id belongs to another data directory; it must come back as a new member, or with that one"
                )
            }
            Refused::WentBack => write!(
                f,
                "its data directory is older than what was heard of it: it was put back from a copy, and lacks what the \
                 node has confirmed since; start it on an empty directory, and it copies from the others"
            ),
        }
    }
}

/// Decides about a peer whose store is known to have come to `mark`. Returns the version of the protocol to speak, and
/// whether its store is still to be claimed for its id.
///
/// # Errors
/// Why it is refused.
pub fn admit(topology: &Topology, hello: &Hello<'_>, mark: u64) -> Result<(u16, bool), Refused> {
    let (low, high) = hello.versions;
    let version = high.min(*VERSIONS.end());
    if version < low.max(*VERSIONS.start()) {
        return Err(Refused::NoCommonVersion { theirs: hello.versions });
    }
    if hello.cluster != topology.cluster {
        let ours: Vec<&str> = topology.members.values().map(|member| member.url.as_str()).collect();
        return Err(Refused::OtherCluster { theirs: hello.list.to_owned(), ours: ours.join(",") });
    }
    let (theirs, ours) = (hello.settings, topology.settings());
    if theirs != ours {
        return Err(Refused::OtherSettings { theirs, ours });
    }
    match topology.members.get(&hello.node) {
        None => Err(Refused::NoMember),
        Some(member) if member.store == StoreId(0) => Ok((version, true)),
        Some(member) if member.store.0 != hello.store => Err(Refused::OtherStore),
        Some(member) if member.is_dead => Err(Refused::Dead),
        Some(_) if hello.mark < mark => Err(Refused::WentBack),
        Some(_) => Ok((version, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;

    #[test]
    fn strangers_are_refused_and_told_why() {
        let list: Vec<_> = ["a", "b"].map(|url| (url.to_owned(), String::new())).into();
        let mut topology = Topology::founded(&list, 1, 4, 2);
        let cluster = topology.cluster;
        let settings = topology.settings();
        let (versions, node, list) = ((1, 3), NodeId(1), "a,b");
        let good = Hello { versions, cluster, node, store: 7, mark: 5, applied: 0, settings, list };
        let admit = |topology: &Topology, hello: &Hello<'_>| admit(topology, hello, 5);
        assert_eq!(admit(&topology, &good), Ok((1, true)));
        topology.members.get_mut(&NodeId(1)).unwrap().store = StoreId(7);
        assert_eq!(admit(&topology, &good), Ok((1, false)));
        assert_eq!(admit(&topology, &Hello { store: 8, ..good.clone() }), Err(Refused::OtherStore));
        assert_eq!(admit(&topology, &Hello { node: NodeId(5), ..good.clone() }), Err(Refused::NoMember));
        let newer = admit(&topology, &Hello { versions: (2, 3), ..good.clone() }).unwrap_err();
        assert!(newer.to_string().contains("versions 2 to 3"), "{newer}");
        let other = admit(&topology, &Hello { cluster: 1, list: "a,c", ..good.clone() }).unwrap_err();
        assert!(other.to_string().contains("a,c") && other.to_string().contains("a,b"), "{other}");
        // A store that was put back from a copy: it had come to 5.
        assert_eq!(admit(&topology, &Hello { mark: 4, ..good.clone() }), Err(Refused::WentBack));
        assert_eq!(admit(&topology, &Hello { mark: 6, ..good.clone() }), Ok((1, false)));
        for (theirs, why) in [
            (Settings { replicas: 1, ..settings }, "1 replicas of an entity by default, this node has 2"),
            (Settings { partitions: 8, ..settings }, "8 partitions, this node has 4"),
            (Settings { seed: 0, ..settings }, "another seed"),
        ] {
            let refused = admit(&topology, &Hello { settings: theirs, ..good.clone() }).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        topology.members.get_mut(&NodeId(1)).unwrap().is_dead = true;
        assert_eq!(admit(&topology, &good), Err(Refused::Dead));
    }
}
