//! Changes of the members that somebody asks for: what is wrong with one, and the entry of the log that begins it.

use quipu_cluster::ids::Epoch;
use quipu_cluster::placement::WEIGHT;
use quipu_cluster::topology::{Entry, Member, StoreId, Topology};
use tokio::sync::oneshot;

use super::address;

/// A node that is to become a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Its address.
    pub url: String,
    /// Its zone: placement spreads replicas over zones.
    pub zone: String,
    /// Its share of the data; 100 where nothing is said.
    pub weight: Option<u32>,
}

/// Who is to come and to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOrder {
    /// Nodes that come.
    pub add: Vec<NewMember>,
    /// Addresses of nodes that leave, after others have copied what they keep.
    pub remove: Vec<String>,
    /// Addresses of nodes that are gone for good. What only they had is lost.
    pub dead: Vec<String>,
}

/// Why a change is not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// The order makes no sense.
    Invalid(String),
    /// It names a node that is no member.
    Unknown(String),
    /// It cannot be now.
    Conflict(String),
    /// It cannot be yet: not all members have said that they know of the last change, which takes them a moment.
    NotYet(String),
    /// The log did not agree in time: it is not known whether the change begins.
    NoAgreement(String),
}

/// What becomes of a change: the epoch in which it has begun.
pub type Changed = Result<u64, ChangeRefused>;

/// A change that was asked for and has not begun yet.
pub(super) struct PendingChange {
    pub(super) order: ChangeOrder,
    /// What was proposed, in which epoch and when.
    pub(super) proposed: Option<(Entry, Epoch, u64)>,
    pub(super) until_ms: u64,
    pub(super) answer: oneshot::Sender<Changed>,
}

impl ChangeOrder {
    /// The same with normal addresses.
    fn normal(&self) -> Result<ChangeOrder, ChangeRefused> {
        let normal = |url: &String| address::normal(url).map_err(ChangeRefused::Invalid);
        let all = |urls: &[String]| urls.iter().map(normal).collect::<Result<Vec<_>, _>>();
        let member = |member: &NewMember| Ok(NewMember { url: normal(&member.url)?, ..member.clone() });
        Ok(ChangeOrder {
            add: self.add.iter().map(member).collect::<Result<_, ChangeRefused>>()?,
            remove: all(&self.remove)?,
            dead: all(&self.dead)?,
        })
    }

    /// The entry that begins the change, and the order with normal addresses. `is_down` tells whether a node answers.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(super) fn entry(
        &self,
        topology: &Topology,
        is_down: impl Fn(&str) -> bool,
    ) -> Result<(Entry, ChangeOrder), ChangeRefused> {
        let order = self.normal()?;
        let invalid = |text: String| Err(ChangeRefused::Invalid(text));
        let named: Vec<&String> = order.add.iter().map(|member| &member.url).chain(&order.remove).collect();
        if named.is_empty() && order.dead.is_empty() {
            return invalid("the order names no node".to_owned());
        }
        if let Some(url) = named.iter().enumerate().find(|(place, url)| named[..*place].contains(url)) {
            return invalid(format!("{} is named twice", url.1));
        }
        let living = |url: &str| {
            let found = topology.members.iter().filter(|(_, member)| member.url == url);
            found.min_by_key(|(_, member)| member.is_dead).map(|(node, member)| (*node, member))
        };
        if let Some(change) = &topology.change {
            let waits: Vec<&str> = topology
                .living()
                .filter(|node| !topology.ready.contains(node))
                .filter_map(|node| topology.members.get(&node).map(|member| member.url.as_str()))
                .collect();
            return Err(ChangeRefused::Conflict(format!(
                "a change is under way since epoch {}; it waits for {}",
                change.begun.0,
                waits.join(", ")
            )));
        }
        let mut add = Vec::new();
        for member in &order.add {
            if let Some((_, known)) = living(&member.url)
                && (!known.is_dead && !order.dead.contains(&member.url))
            {
                return Err(ChangeRefused::Conflict(format!("{} is a member already", member.url)));
            }
            if member.weight == Some(0) {
                return invalid("a weight is at least 1".to_owned());
            }
            add.push(Member {
                url: member.url.clone(),
                zone: member.zone.clone(),
                weight: member.weight.unwrap_or(WEIGHT),
                store: StoreId(0),
                is_dead: false,
            });
        }
        let known = |url: &String| match living(url) {
            Some((node, _)) => Ok(node),
            None => Err(ChangeRefused::Unknown(format!("{url} is no member"))),
        };
        let remove: Vec<_> = order.remove.iter().map(known).collect::<Result<_, _>>()?;
        let dead: Vec<_> = order.dead.iter().map(known).collect::<Result<_, _>>()?;
        if let Some(url) = order.remove.iter().find(|url| is_down(url)) {
            return Err(ChangeRefused::Conflict(format!(
                "{url} does not answer, and others are to copy what it keeps: start it, or say that it is dead"
            )));
        }
        let waits = |node: &quipu_cluster::ids::NodeId| {
            let url = topology.members.get(node).map_or("", |member| member.url.as_str());
            !topology.ready.contains(node) && !order.dead.iter().any(|dead| dead == url)
        };
        if let Some(node) = topology.living().find(waits) {
            let url = topology.members.get(&node).map_or("", |member| member.url.as_str());
            return Err(ChangeRefused::NotYet(format!(
                "{url} has not yet said that it knows of the last change: start it, or declare it dead"
            )));
        }
        let gone = topology.placed.iter().filter(|node| remove.contains(node) || dead.contains(node)).count();
        let left = topology.placed.len() - gone + add.len();
        if left < usize::from(topology.replicas) {
            return invalid(format!(
                "{left} nodes would be left, and an entity has {} replicas by default: add a node first, or replace one",
                topology.replicas
            ));
        }
        Ok((Entry::Change { expected: topology.epoch, add, remove, dead }, order))
    }

    /// Whether a topology with another epoch than before has begun this change.
    pub(super) fn has_begun(&self, topology: &Topology) -> bool {
        let keeps = |url: &String| {
            let goal = topology.change.as_ref().map_or(&topology.placed, |change| &change.goal);
            goal.iter()
                .filter_map(|node| topology.members.get(node))
                .any(|member| member.url == *url && !member.is_dead)
        };
        let comes = |url: &String| self.add.iter().any(|member| member.url == *url);
        self.add.iter().all(|member| keeps(&member.url))
            && self.remove.iter().chain(&self.dead).all(|url| comes(url) || !keeps(url))
    }
}

#[cfg(test)]
mod tests {
    use quipu_cluster::ids::NodeId;

    use super::*;

    fn url(number: u16) -> String {
        format!("http://host-{number}:80")
    }

    fn founded(count: u16, replicas: u8) -> Topology {
        let members: Vec<_> = (0..count).map(|number| (url(number), String::new())).collect();
        Topology::founded(&members, 7, 0, replicas)
    }

    fn member(url: String) -> NewMember {
        NewMember { url, zone: String::new(), weight: None }
    }

    fn ask(topology: &Topology, order: &ChangeOrder) -> Result<Entry, ChangeRefused> {
        order.entry(topology, |asked| asked == url(9)).map(|(entry, _)| entry)
    }

    #[test]
    fn an_order_becomes_an_entry_that_begins_it() {
        let mut topology = founded(3, 3);
        let order = ChangeOrder { add: vec![member("HTTP://host-7/".to_owned())], ..Default::default() };
        let (entry, order) = order.entry(&topology, |_| false).unwrap();
        assert!(!order.has_begun(&topology));
        assert!(topology.apply(1, &entry) && order.has_begun(&topology));
        assert!(matches!(ask(&topology, &order), Err(ChangeRefused::Conflict(_))), "one change at a time");
        for number in 2..4 {
            for node in [0, 1, 2, 3].map(NodeId) {
                let epoch = topology.epoch;
                topology.apply(10 * number + u64::from(node.0), &Entry::Ready { node, epoch });
            }
        }
        assert!(topology.change.is_none());
        let leave = ChangeOrder { remove: vec![url(0)], ..Default::default() };
        let again = ask(&topology, &leave);
        assert!(matches!(&again, Err(ChangeRefused::NotYet(why)) if why.contains("has not yet said")), "{again:?}");
        let epoch = topology.epoch;
        for node in [0, 1, 2, 3].map(NodeId) {
            topology.apply(50 + u64::from(node.0), &Entry::Ready { node, epoch });
        }
        let again = ask(&topology, &order);
        assert!(matches!(&again, Err(ChangeRefused::Conflict(why)) if why.contains("already")), "{again:?}");
        assert!(ask(&topology, &leave).is_ok());
    }

    #[test]
    fn a_dead_node_comes_back_under_its_address() {
        let mut topology = founded(3, 3);
        let order = ChangeOrder { add: vec![member(url(1))], dead: vec![url(1)], ..Default::default() };
        let (entry, order) = order.entry(&topology, |_| true).unwrap();
        assert!(topology.apply(1, &entry) && order.has_begun(&topology));
        assert!(topology.members[&NodeId(1)].is_dead && topology.members[&NodeId(3)].url == url(1));
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        let topology = founded(4, 3);
        let order = |add: &[u16], remove: &[u16], dead: &[u16]| {
            let urls = |numbers: &[u16]| numbers.iter().map(|number| url(*number)).collect::<Vec<_>>();
            ChangeOrder { add: urls(add).into_iter().map(member).collect(), remove: urls(remove), dead: urls(dead) }
        };
        for (wrong, why) in [
            (order(&[], &[], &[]), "no node"),
            (order(&[5, 5], &[], &[]), "twice"),
            (order(&[5], &[5], &[]), "twice"),
            (order(&[], &[0, 1], &[]), "would be left"),
            (order(&[], &[0], &[1]), "would be left"),
        ] {
            let refused = ask(&topology, &wrong);
            assert!(matches!(&refused, Err(ChangeRefused::Invalid(text)) if text.contains(why)), "{refused:?}");
        }
        assert!(matches!(ask(&topology, &order(&[], &[7], &[])), Err(ChangeRefused::Unknown(_))));
        assert!(matches!(ask(&topology, &order(&[], &[], &[7])), Err(ChangeRefused::Unknown(_))));
        assert!(matches!(ask(&topology, &order(&[2], &[], &[])), Err(ChangeRefused::Conflict(_))));
        let bad = ChangeOrder { remove: vec!["ftp://x".to_owned()], ..Default::default() };
        assert!(matches!(ask(&topology, &bad), Err(ChangeRefused::Invalid(_))));
        let ten = founded(10, 3);
        let down = ask(&ten, &order(&[], &[9], &[]));
        assert!(matches!(&down, Err(ChangeRefused::Conflict(text)) if text.contains("does not answer")), "{down:?}");
        assert!(ask(&ten, &order(&[], &[], &[9])).is_ok());
    }
}
