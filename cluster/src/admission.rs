//! Who may talk to a node: what is decided when a peer greets it, before any frame.
//!
//! A peer is refused if it is of another cluster (both lists are shown), speaks no common version, is no member or was
//! declared dead, or comes with another store than its id is known for: an erased directory, or somebody else's. It
//! then needs a new id.

use std::fmt;

use crate::protocol::VERSIONS;
use crate::protocol::hello::Hello;
use crate::topology::{StoreId, Topology};

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
    /// It is no member.
    NoMember,
    /// It was declared dead.
    Dead,
    /// Its id is known under another store.
    OtherStore,
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
            Refused::NoMember => write!(f, "it is no member; add it"),
            Refused::Dead => write!(f, "it was declared dead; it must come back as a new member"),
            Refused::OtherStore => {
                write!(
                    f,
                    "its id belongs to another data directory; it must come back as a new member, or with that one"
                )
            }
        }
    }
}

/// Decides about a peer. Returns the version of the protocol to speak, and whether its store is still to be claimed for
/// its id.
///
/// # Errors
/// Why it is refused.
pub fn admit(topology: &Topology, hello: &Hello<'_>) -> Result<(u16, bool), Refused> {
    let (low, high) = hello.versions;
    let version = high.min(*VERSIONS.end());
    if version < low.max(*VERSIONS.start()) {
        return Err(Refused::NoCommonVersion { theirs: hello.versions });
    }
    if hello.cluster != topology.cluster {
        let ours: Vec<&str> = topology.members.values().map(|member| member.url.as_str()).collect();
        return Err(Refused::OtherCluster { theirs: hello.list.to_owned(), ours: ours.join(",") });
    }
    match topology.members.get(&hello.node) {
        None => Err(Refused::NoMember),
        Some(member) if member.store == StoreId(0) => Ok((version, true)),
        Some(member) if member.store.0 != hello.store => Err(Refused::OtherStore),
        Some(member) if member.is_dead => Err(Refused::Dead),
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
        let good = Hello { versions: (1, 3), cluster, node: NodeId(1), store: 7, applied: 0, list: "a,b" };
        assert_eq!(admit(&topology, &good), Ok((1, true)));
        topology.members.get_mut(&NodeId(1)).unwrap().store = StoreId(7);
        assert_eq!(admit(&topology, &good), Ok((1, false)));
        assert_eq!(admit(&topology, &Hello { store: 8, ..good.clone() }), Err(Refused::OtherStore));
        assert_eq!(admit(&topology, &Hello { node: NodeId(5), ..good.clone() }), Err(Refused::NoMember));
        let newer = admit(&topology, &Hello { versions: (2, 3), ..good.clone() }).unwrap_err();
        assert!(newer.to_string().contains("versions 2 to 3"), "{newer}");
        let other = admit(&topology, &Hello { cluster: 1, list: "a,c", ..good.clone() }).unwrap_err();
        assert!(other.to_string().contains("a,c") && other.to_string().contains("a,b"), "{other}");
        topology.members.get_mut(&NodeId(1)).unwrap().is_dead = true;
        assert_eq!(admit(&topology, &good), Err(Refused::Dead));
    }
}
