//! The decision about a peer that greets: whether it is the member that it says, and what becomes of it if not.
//!
//! Not here: why a peer is refused by what the topology says of it ([`quipu_cluster::admission`]).

use std::collections::BTreeMap;

use quipu_cluster::admission::{Refused, admit};
use quipu_cluster::ids::{Epoch, NodeId};
use quipu_cluster::protocol::hello::Hello;
use quipu_cluster::topology::{Entry, Member, StoreId, Topology};

use super::store_marks::GREETING_AGE_MAX;
use super::{Register, Standing};
use crate::cluster::address;
use crate::system::clock;

/// A peer that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Admitted {
    pub(in crate::cluster) node: NodeId,
    /// Its store is new and replaces a known one: what the old one confirmed must be forgotten.
    pub(in crate::cluster) is_replaced: bool,
    /// Its store, if it is not recorded yet.
    pub(in crate::cluster) store: Option<StoreId>,
}

/// The decision about a peer that greets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Decision {
    /// It is the member that it says.
    Admitted(Admitted),
    /// The log must give it an id: its first, or another one.
    Newcomer(Newcomer),
    /// It was a member and does not know yet that it has left.
    Left,
    /// Its store was restored from a copy.
    WentBack {
        /// The highest mark that is known of it.
        mark: u64,
        /// Whether that was heard long before the greeting was written. If not, it may have raised its mark while it
        /// greeted, which it knows best.
        is_sure: bool,
    },
}

/// A new store that is to get an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Newcomer {
    pub(in crate::cluster) url: String,
    pub(in crate::cluster) store: StoreId,
}

impl Newcomer {
    /// What is to be proposed so that it gets one; nothing if there is no such member. `claims` are the stores that
    /// are known beside those in the topology.
    fn proposals(&self, topology: &Topology, claims: &BTreeMap<NodeId, StoreId>) -> Vec<Entry> {
        let Some((node, member)) = topology
            .members
            .iter()
            .filter(|(_, member)| member.url == self.url)
            .max_by_key(|(_, member)| !member.is_dead)
        else {
            return Vec::new();
        };
        if member.store == self.store {
            return Vec::new();
        }
        let known = claims.get(node).copied().unwrap_or(member.store);
        if (known == StoreId(0) || known == self.store) && !member.is_dead {
            return vec![Entry::Claim { node: *node, store: self.store, instead_of: member.store }];
        }
        let replace = Entry::Change {
            expected: topology.epoch,
            add: vec![Member { store: self.store, is_dead: false, ..member.clone() }],
            remove: Vec::new(),
            dead: vec![*node],
        };
        match (member.is_dead, &topology.change) {
            (true, Some(_)) => Vec::new(),
            (true, None) => vec![replace],
            // Its old store is gone. What is under way must not wait for it.
            (false, _) => vec![Entry::Dead { node: *node }],
        }
    }
}

impl Register {
    /// The address of the node that a peer says it is, if that tells.
    pub(in crate::cluster) fn claimed_url(&self, hello: &Hello<'_>) -> Option<String> {
        if hello.node == NodeId::NONE {
            return address::normal(hello.list).ok();
        }
        let state = self.state();
        let member = state.routing.topology().members.get(&hello.node);
        member.map(|member| member.url.clone()).or_else(|| founding_url(hello).map(str::to_owned))
    }

    /// Decides about a peer.
    ///
    /// # Errors
    /// Why it is refused, for it and for the operator of this node.
    pub(in crate::cluster) fn admit(&self, hello: &Hello<'_>, is_new: bool) -> std::result::Result<Decision, String> {
        let mut state = self.state();
        let mut topology = state.routing.topology().clone();
        let store = StoreId(hello.store);
        let newcomer = |url: &str| Ok(Decision::Newcomer(Newcomer { url: url.to_owned(), store }));
        if hello.node == NodeId::NONE {
            let url = address::normal(hello.list)?;
            return match topology.members.values().any(|member| member.url == url) {
                true => newcomer(&url),
                false => Err(format!("it is not a member; add it with `quipu cluster add {url}`")),
            };
        }
        if state.has_gone_back {
            return Err("this node was put back from a copy, and serves no more".to_owned());
        }
        if hello.node == state.own && hello.cluster == topology.cluster {
            return Err(format!("it says that it is {} too, as this node is", self.self_url));
        }
        for (node, store) in &state.claims {
            if let Some(member) = topology.members.get_mut(node) {
                member.store = *store;
            }
        }
        match is_new {
            true => state.fresh.insert(hello.node),
            false => state.erased.remove(&hello.node),
        };
        let url = topology.members.get(&hello.node).map(|member| member.url.clone());
        let admitted = |store, is_replaced| Ok(Decision::Admitted(Admitted { node: hello.node, is_replaced, store }));
        let known = state.marks.get(&hello.node).filter(|known| known.store == store);
        match (admit(&topology, hello, known.map_or(0, |known| known.mark)), url) {
            (Err(Refused::WentBack), _) => Ok(Decision::WentBack {
                mark: known.map_or(0, |known| known.mark),
                is_sure: known.and_then(|known| known.heard).is_none_or(|at| clock::since(at) >= GREETING_AGE_MAX),
            }),
            // The list that it was given is not that of today.
            (Ok(_), Some(url)) if is_new && topology.epoch > Epoch(0) => newcomer(&url),
            // It may greet twice at once: neither of the two greetings may take it for a new node.
            (Ok((_, is_unknown)), _) => {
                let is_replaced = is_new && state.erased.contains(&hello.node);
                admitted(is_unknown.then_some(store), is_replaced)
            }
            (Err(Refused::OtherStore), Some(url)) if is_new => {
                // Who has got a new id meanwhile is lost no more.
                state.erased.retain(|node| topology.members.get(node).is_some_and(|member| !member.is_dead));
                state.erased.insert(hello.node);
                // This node may be one of those that have lost their directories, and knows best that it is.
                let lost = state.erased.len() + usize::from(state.standing == Standing::Returning);
                match 2 * lost >= topology.members.len() {
                    true => admitted(Some(store), true),
                    false => newcomer(&url),
                }
            }
            (Err(Refused::Dead), Some(url)) if is_new => newcomer(&url),
            (Err(Refused::NoMember), _) if is_new => match founding_url(hello) {
                Some(url) if topology.members.values().any(|member| member.url == url) => newcomer(url),
                _ => Err(Refused::NoMember.to_string()),
            },
            (Err(Refused::NoMember), _) if !is_new && hello.node.0 < topology.next_id => Ok(Decision::Left),
            (Err(refused), _) => Err(refused.to_string()),
        }
    }

    /// What is to be proposed so that a newcomer gets an id.
    pub(in crate::cluster) fn proposals(&self, newcomer: &Newcomer) -> Vec<Entry> {
        let state = self.state();
        newcomer.proposals(state.routing.topology(), &state.claims)
    }

    /// The id of a newcomer, once the log has given it one, and the topology in which it has it.
    pub(in crate::cluster) fn place_of(&self, newcomer: &Newcomer) -> Option<(NodeId, Topology)> {
        let routing = self.routing();
        let topology = routing.topology();
        let is_it = |member: &Member| member.store == newcomer.store && member.url == newcomer.url && !member.is_dead;
        let place = topology.members.iter().find(|(_, member)| is_it(member));
        place.map(|(node, _)| (*node, topology.clone()))
    }

    /// Whether a peer that this node would refuse may know better: this one has no place yet, and the cluster may have
    /// changed since its list was written.
    pub(in crate::cluster) fn may_know_less_than(&self, hello: &Hello<'_>) -> bool {
        let state = self.state();
        state.standing != Standing::Begun && hello.cluster == state.routing.topology().cluster
    }
}

/// The address of a node that greets with its place in the list that its cluster was formed with.
fn founding_url<'h>(hello: &Hello<'h>) -> Option<&'h str> {
    hello.list.split(',').nth(usize::from(hello.node.0))
}
