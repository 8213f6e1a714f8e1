//! Requested changes of the members: why one is refused, and the entries of the log that begin it.

use quipu_cluster::ids::{Epoch, NodeId};
use quipu_cluster::placement::WEIGHT;
use quipu_cluster::topology::{Entry, Member, Phase, StoreId, Topology};
use tokio::sync::oneshot;

use super::address;
use super::report::ChangeReport;

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
    /// Addresses of nodes that are gone for good. What only they had is lost. While a change is under way it waits for
    /// them no longer, and they stay members until they are named again after it.
    pub dead: Vec<String>,
    /// Whether the change under way is to be given up. It can be while new replicas copy.
    pub abort: bool,
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
    pub(super) proposed: Option<(Vec<Entry>, Epoch, u64)>,
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
            abort: self.abort,
        })
    }

    /// The addresses of those who are to come, as nodes compare them.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn newcomers(&self) -> Result<Vec<String>, String> {
        self.add.iter().map(|member| address::normal(&member.url)).collect()
    }

    /// The entries that begin the change, and the order with normal addresses. `is_down` tells whether a node answers.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(super) fn entries(
        &self,
        topology: &Topology,
        is_down: impl Fn(NodeId) -> bool,
    ) -> Result<(Vec<Entry>, ChangeOrder), ChangeRefused> {
        let order = self.normal()?;
        let is_change = !order.add.is_empty() || !order.remove.is_empty();
        let entries = match &topology.change {
            _ if order.abort => order.abortion(topology, is_change)?,
            Some(_) if !is_change && !order.dead.is_empty() => order.deaths(topology)?,
            Some(_) => {
                let waits = ChangeReport::new(topology, None, &is_down).map_or(Vec::new(), |change| change.waits_for);
                return Err(ChangeRefused::Conflict(format!(
                    "a change is under way since epoch {}; it waits for {}: start the nodes that do not answer, declare them dead \
                     with `quipu cluster remove --dead`, or give the change up with `quipu cluster abort`",
                    topology.change.as_ref().map_or(0, |change| change.begun.0),
                    waits.join(", ")
                )));
            }
            None => vec![order.beginning(topology, is_down)?],
        };
        Ok((entries, order))
    }

    /// The entry that gives up the change under way.
    fn abortion(&self, topology: &Topology, is_change: bool) -> Result<Vec<Entry>, ChangeRefused> {
        if is_change || !self.dead.is_empty() {
            return Err(ChangeRefused::Invalid("a change is given up alone, without other orders".to_owned()));
        }
        match &topology.change {
            Some(change) if change.phase == Phase::Copying => Ok(vec![Entry::Abort { expected: topology.epoch }]),
            Some(_) => Err(ChangeRefused::Conflict(
                "the new replicas have copied all, and are read from: the change cannot be given up any more, and ends \
                 when all living members know of it"
                    .to_owned(),
            )),
            None => Err(ChangeRefused::Conflict("no change of members is under way".to_owned())),
        }
    }

    /// The entries that have the change under way not wait for the dead.
    fn deaths(&self, topology: &Topology) -> Result<Vec<Entry>, ChangeRefused> {
        let mut deaths = Vec::new();
        for url in &self.dead {
            let named: Vec<_> = topology.members.iter().filter(|(_, member)| member.url == *url).collect();
            if named.is_empty() {
                return Err(ChangeRefused::Unknown(format!("{url} is not a member")));
            }
            let living = named.into_iter().filter(|(_, member)| !member.is_dead);
            deaths.extend(living.map(|(node, _)| Entry::Dead { node: *node }));
        }
        Ok(deaths)
    }

    /// The entry that begins a change where none is under way.
    fn beginning(&self, topology: &Topology, is_down: impl Fn(NodeId) -> bool) -> Result<Entry, ChangeRefused> {
        let order = self;
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
            None => Err(ChangeRefused::Unknown(format!("{url} is not a member"))),
        };
        let remove: Vec<_> = order.remove.iter().map(known).collect::<Result<_, _>>()?;
        let dead: Vec<_> = order.dead.iter().map(known).collect::<Result<_, _>>()?;
        let left_down = order.remove.iter().zip(&remove).find(|(_, node)| is_down(**node));
        if let Some((url, _)) = left_down {
            return Err(ChangeRefused::Conflict(format!(
                "{url} does not answer, and others are to copy what it keeps: start it, or say that it is dead"
            )));
        }
        let waits = |node: &NodeId| {
            let url = topology.members.get(node).map_or("", |member| member.url.as_str());
            !topology.ready.contains(node) && !order.dead.iter().any(|dead| dead == url)
        };
        if let Some(node) = topology.living().find(waits) {
            let url = topology.members.get(&node).map_or("", |member| member.url.as_str());
            return Err(ChangeRefused::NotYet(format!(
                "{url} has not yet said that it knows of the last change: start it, or declare it dead"
            )));
        }
        // Those that were declared dead before go with the change.
        let is_dead = |node: &NodeId| topology.members.get(node).is_some_and(|member| member.is_dead);
        let goes = |node: &&NodeId| remove.contains(node) || dead.contains(node) || is_dead(node);
        let gone = topology.placed.iter().filter(goes).count();
        let left = topology.placed.len() - gone + add.len();
        if left < usize::from(topology.replicas) {
            return invalid(format!(
                "{left} nodes would be left, and an entity has {} replicas by default: add a node first, or replace one",
                topology.replicas
            ));
        }
        Ok(Entry::Change { expected: topology.epoch, add, remove, dead })
    }

    /// What a topology says of entries that were proposed in an epoch: whether they have had their effect, or none if
    /// that is still to come.
    pub(super) fn outcome(&self, topology: &Topology, entries: &[Entry], proposed_in: Epoch) -> Option<bool> {
        let is_dead = |entry: &Entry| match entry {
            Entry::Dead { node } => Some(topology.members.get(node).is_none_or(|member| member.is_dead)),
            _ => None,
        };
        let deaths: Option<Vec<bool>> = entries.iter().map(is_dead).collect();
        match deaths {
            Some(deaths) => deaths.iter().all(|is_dead| *is_dead).then_some(true),
            None if topology.epoch == proposed_in => None,
            None if self.abort => Some(topology.change.as_ref().is_none_or(|change| change.begun > proposed_in)),
            None => Some(self.has_begun(topology)),
        }
    }

    /// Whether a topology with another epoch than before has begun this change.
    fn has_begun(&self, topology: &Topology) -> bool {
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
        order.entries(topology, |asked| asked == NodeId(9)).map(|(entries, _)| entries[0].clone())
    }

    #[test]
    fn an_order_becomes_an_entry_that_begins_it() {
        let mut topology = founded(3, 3);
        let order = ChangeOrder { add: vec![member("HTTP://host-7/".to_owned())], ..Default::default() };
        let (entries, order) = order.entries(&topology, |_| false).unwrap();
        assert_eq!(order.outcome(&topology, &entries, Epoch(0)), None);
        assert!(topology.apply(1, &entries[0]));
        assert_eq!(order.outcome(&topology, &entries, Epoch(0)), Some(true));
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
        let (entries, order) = order.entries(&topology, |_| true).unwrap();
        assert!(topology.apply(1, &entries[0]) && order.has_begun(&topology));
        assert!(topology.members[&NodeId(1)].is_dead && topology.members[&NodeId(3)].url == url(1));
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        let topology = founded(4, 3);
        let order = |add: &[u16], remove: &[u16], dead: &[u16]| {
            let urls = |numbers: &[u16]| numbers.iter().map(|number| url(*number)).collect::<Vec<_>>();
            let add = urls(add).into_iter().map(member).collect();
            ChangeOrder { add, remove: urls(remove), dead: urls(dead), abort: false }
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
        let mut one_dead = founded(4, 3);
        one_dead.apply(1, &Entry::Dead { node: NodeId(1) });
        let refused = ask(&one_dead, &order(&[], &[0], &[]));
        assert!(matches!(&refused, Err(ChangeRefused::Invalid(text)) if text.contains("would be left")), "{refused:?}");
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

    /// A member died while another was added: the change waited for it, and it could not be declared dead.
    #[test]
    fn a_member_is_declared_dead_and_a_change_given_up_while_one_is_under_way() {
        let mut topology = founded(4, 3);
        let abort = ChangeOrder { abort: true, ..Default::default() };
        let none = ask(&topology, &abort);
        assert!(matches!(&none, Err(ChangeRefused::Conflict(why)) if why.contains("no change")), "{none:?}");
        let add = ChangeOrder { add: vec![member(url(7))], ..Default::default() };
        let (entries, _) = add.entries(&topology, |_| false).unwrap();
        topology.apply(1, &entries[0]);
        for node in [0, 1, 2, 3].map(NodeId) {
            topology.apply(10 + u64::from(node.0), &Entry::Ready { node, epoch: Epoch(1) });
        }
        // The new node copies, and node 3, which has said that it knows of the change, does not answer any more.
        let refused = add.entries(&topology, |node| node == NodeId(3));
        let waits = format!("waits for {}, {}", url(3), url(7));
        assert!(matches!(&refused, Err(ChangeRefused::Conflict(why)) if why.contains(&waits)), "{refused:?}");
        let dead = ChangeOrder { dead: vec![url(3)], ..Default::default() };
        let (entries, dead) = dead.entries(&topology, |_| false).unwrap();
        assert_eq!(entries, [Entry::Dead { node: NodeId(3) }]);
        assert_eq!(dead.outcome(&topology, &entries, Epoch(1)), None);
        assert!(!topology.apply(20, &entries[0]));
        assert_eq!(dead.outcome(&topology, &entries, Epoch(1)), Some(true));
        assert!(dead.entries(&topology, |_| false).is_ok_and(|(entries, _)| entries.is_empty()), "it is so already");
        let mixed = ChangeOrder { abort: true, ..dead.clone() };
        assert!(matches!(ask(&topology, &mixed), Err(ChangeRefused::Invalid(_))));
        // Given up while it copies; not when that is over.
        let (entries, abort) = abort.entries(&topology, |_| false).unwrap();
        let mut given_up = topology.clone();
        assert!(given_up.apply(30, &entries[0]));
        assert_eq!(abort.outcome(&given_up, &entries, Epoch(1)), Some(true));
        assert!(topology.apply(30, &Entry::Ready { node: NodeId(4), epoch: Epoch(1) }));
        assert_eq!(abort.outcome(&topology, &entries, Epoch(1)), Some(false));
        let late = ask(&topology, &abort);
        assert!(matches!(&late, Err(ChangeRefused::Conflict(why)) if why.contains("have copied")), "{late:?}");
    }
}
