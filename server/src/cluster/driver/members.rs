//! Members, as far as the thread of a node deals with them: the log that agrees on them, changes that were asked for,
//! nodes that come with a new store, and this one when it comes or leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu::Result;
use quipu_agreement::{Agreement, Outlets};
use quipu_cluster::ids::NodeId;
use quipu_cluster::peers::Health;
use quipu_cluster::topology::{Entry, Phase, StoreId, Topology};

use super::{Driver, REMOVED, Step};
use crate::cluster::change::{ChangeOrder, ChangeRefused};
use crate::cluster::inbox::Event;
use crate::cluster::register::{LogRole, Newcomer, WENT_BACK_TEXT};
use crate::system::log::Level;

/// How long an entry of the log is waited for before it is proposed again, and a change before it is given up.
const PROPOSE_MS: u64 = 300;
pub(super) const CHANGE_MS: u64 = 15_000;
/// How long a node asks for another id before its old one is declared dead, and when it is forgotten that it has.
const NEWCOMER_MS: u64 = 1500;
const NEWCOMER_FORGOTTEN_MS: u64 = 10_000;
/// How long a log that cannot be opened is left alone.
const LOG_AGAIN_MS: u64 = 5_000;

impl Driver {
    /// Whether the change under way has this node leave.
    pub(super) fn leaves(&self) -> bool {
        let routing = self.register.routing();
        let change = routing.topology().change.as_ref();
        change.is_some_and(|change| !change.goal.contains(&self.register.own()))
    }

    /// Whether this node leaves and serves on for a while, so that no more requests are sent to it when it has left.
    /// `/readyz` says so from when the change begins; the change ends when the node says that it knows of its last
    /// phase.
    pub(super) fn drains(&mut self) -> bool {
        if !self.leaves() {
            self.drained_at_ms = None;
            return false;
        }
        let now_ms = self.ticks_ms;
        let until_ms = *self.drained_at_ms.get_or_insert(now_ms + self.drain_ms);
        let routing = self.register.routing();
        let is_last = routing.topology().change.as_ref().is_some_and(|change| change.phase == Phase::Switched);
        is_last && now_ms < until_ms
    }

    /// Gives the node a newer topology.
    pub(super) fn learn(&mut self, topology: Topology) {
        let routing = self.register.routing();
        let is_same_cluster = topology.cluster == routing.topology().cluster;
        if is_same_cluster && topology.applied > routing.topology().applied {
            self.steps.push(Step::Topology(routing.follow(topology)));
        }
    }

    /// Has the log give an id to a new store. That an old store is gone is proposed only when its node has been new for
    /// a while: so that more of them may turn out to be, in which case they return under their ids.
    pub(super) fn welcome(&mut self, newcomer: &Newcomer) {
        let now_ms = self.ticks_ms;
        self.newcomers.retain(|_, (_, seen_ms)| now_ms < *seen_ms + NEWCOMER_FORGOTTEN_MS);
        let (since_ms, seen_ms) = self.newcomers.entry(newcomer.store).or_insert((now_ms, now_ms));
        *seen_ms = now_ms;
        let is_early = now_ms < *since_ms + NEWCOMER_MS;
        let Some(agreement) = &self.agreement else { return };
        for entry in self.register.proposals(newcomer) {
            // The connected node has its store: another node has come under its address.
            let must_not_be = matches!(&entry, Entry::Dead { node } if is_early || self.links.contains(*node));
            if !must_not_be {
                agreement.propose(&entry);
            }
        }
    }

    /// A peer knows a higher mark of this store: it serves no more.
    pub(super) fn go_back(&mut self) {
        if let Err(error) = self.register.has_gone_back() {
            self.host.note(Level::Warning, format_args!("that this node went back cannot be noted: {error}"));
        }
        let peers: Vec<NodeId> = self.links.nodes().collect();
        peers.into_iter().for_each(|peer| self.cut(peer));
        self.forget(WENT_BACK_TEXT);
        self.agreement = None;
        self.host.note(Level::Warning, format_args!("{WENT_BACK_TEXT}"));
    }

    /// Goes on as the member that this node has become.
    pub(super) fn start_anew(&mut self) {
        let peers: Vec<NodeId> = self.links.nodes().collect();
        peers.into_iter().for_each(|peer| self.cut(peer));
        self.forget("the node has got its place in the cluster");
        let url = self.register.self_url();
        let own = self.register.own();
        self.host.note(Level::Notice, format_args!("{url} is now node {own}: it copies what it is to keep"));
    }

    /// The entries that begin a change.
    fn entries_of(&self, order: &ChangeOrder) -> std::result::Result<(Vec<Entry>, ChangeOrder), ChangeRefused> {
        let conflict = |text: String| Err(ChangeRefused::Conflict(text));
        let Some(node) = &self.node else {
            return conflict("this node cannot serve; /readyz says why".to_owned());
        };
        match self.register.log_role() {
            Ok(LogRole::Founder(_) | LogRole::Member) => {}
            Ok(LogRole::None) => {
                let text = "this node takes no part in the log of the topology, since half of the data directories \
                            were lost at once; ask another";
                return conflict(text.to_owned());
            }
            Err(error) => return conflict(format!("the node's tables cannot be read: {error}")),
        }
        let health: BTreeMap<NodeId, Health> = node.health_of_all().into_iter().collect();
        let is_down = |node: NodeId| health.get(&node) == Some(&Health::Down);
        order.entries(node.routing().topology(), is_down)
    }

    /// Goes on with the changes that were asked for, and answers who waits for one.
    fn see_to_changes(&mut self, topology: &Topology) {
        let now_ms = self.ticks_ms;
        for mut change in std::mem::take(&mut self.changes) {
            let decided = change.proposed.as_ref();
            let decided = decided.and_then(|(entries, epoch, _)| change.order.outcome(topology, entries, *epoch));
            let outcome = match &mut change.proposed {
                Some(_) if decided == Some(true) => Some(Ok(topology.epoch.0)),
                Some(_) if decided == Some(false) => {
                    let text = match change.order.abort {
                        true => "the new replicas have copied all meanwhile: the change ends, and cannot be given up",
                        false => "another change came first",
                    };
                    Some(Err(ChangeRefused::Conflict(text.to_owned())))
                }
                Some(_) if now_ms >= change.until_ms => {
                    let text = "the log of the topology has no leader: fewer than half of those who vote answer. The \
                                change was not made, or will be";
                    Some(Err(ChangeRefused::NoAgreement(text.to_owned())))
                }
                Some((entries, _, proposed_ms)) => {
                    if now_ms >= *proposed_ms + PROPOSE_MS {
                        *proposed_ms = now_ms;
                        if let Some(agreement) = &self.agreement {
                            entries.iter().for_each(|entry| agreement.propose(entry));
                        }
                    }
                    None
                }
                None => match self.entries_of(&change.order) {
                    Ok((entries, order)) => {
                        change.order = order;
                        change.proposed = Some((entries, topology.epoch, 0));
                        None
                    }
                    Err(ChangeRefused::NotYet(_)) if now_ms < change.until_ms => None,
                    Err(refused) => Some(Err(refused)),
                },
            };
            match outcome {
                // Who asked may have gone.
                Some(outcome) => drop(change.answer.send(outcome)),
                None => self.changes.push(change),
            }
        }
    }

    /// Starts the log once the node has its place, and proposes what this node has to say.
    pub(super) fn see_to_log(&mut self) {
        let now_ms = self.ticks_ms;
        if !self.changes.is_empty() {
            self.see_to_changes(self.register.routing().topology());
        }
        if self.node.is_none() {
            return;
        }
        if let Some(ended) = self.agreement.take_if(|agreement| agreement.has_ended()) {
            let why = ended.report().trouble.unwrap_or_else(|| "its thread has panicked".to_owned());
            self.host.note(Level::Warning, format_args!("the log of the topology is opened again: {why}"));
            self.log_at_ms = now_ms + LOG_AGAIN_MS;
        }
        if self.agreement.is_none() && now_ms >= self.log_at_ms {
            self.log_at_ms = now_ms + LOG_AGAIN_MS;
            if let Err(error) = self.start_log() {
                self.host.note(Level::Warning, format_args!("the log of the topology cannot be opened: {error}"));
            }
        }
        let Some(agreement) = &self.agreement else { return };
        let routing = self.register.routing();
        let topology = routing.topology();
        let own = self.register.own();
        if now_ms < self.claimed_ms + PROPOSE_MS {
            return;
        }
        self.claimed_ms = now_ms;
        let unclaimed = StoreId(0);
        if topology.members.get(&own).is_some_and(|member| member.store == unclaimed) {
            let store = self.register.store_id();
            agreement.propose(&Entry::Claim { node: own, store, instead_of: unclaimed });
        }
        for entry in self.register.returned() {
            if matches!(&entry, Entry::Claim { node, .. } if self.links.contains(*node)) {
                agreement.propose(&entry);
            }
        }
    }

    fn start_log(&mut self) -> Result<()> {
        let founders = match self.register.log_role()? {
            LogRole::None => return Ok(()),
            LogRole::Member => None,
            LogRole::Founder(founders) => Some(founders),
        };
        let (send, tell) = (self.inbox.clone(), self.inbox.clone());
        let outlets = Outlets {
            send: Arc::new(move |to, bytes| send.post(Event::Log(to, bytes))),
            tell: Box::new(move |topology| tell.post(Event::Agreed(topology))),
        };
        let known = self.register.routing().topology().clone();
        let agreement = Agreement::start(self.register.store(), self.register.own(), known, founders, outlets)?;
        self.agreement = Some(agreement);
        Ok(())
    }

    /// After the topology has changed: who is no member any more is no peer, and this node may be none.
    pub(super) fn follow_members(&mut self) {
        let routing = self.register.routing();
        let members = &routing.topology().members;
        let is_gone = |node: &NodeId| members.get(node).is_none_or(|member| member.is_dead);
        let gone: Vec<NodeId> = self.links.nodes().filter(is_gone).collect();
        gone.into_iter().for_each(|node| self.cut(node));
        if !members.contains_key(&self.register.own()) {
            self.forget(REMOVED);
            self.agreement = None;
            self.host.note(Level::Notice, format_args!("{REMOVED}"));
        }
    }
}
