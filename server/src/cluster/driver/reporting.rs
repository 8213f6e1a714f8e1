//! The report on a node by its thread, a few times a second: whether it can serve, and how all stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu::ReadableTable;
use quipu_agreement::{Agreement, LogReport};
use quipu_cluster::ids::NodeId;
use quipu_cluster::node::Node;
use quipu_cluster::peers::{ClockReport, Health};
use quipu_cluster::tables::Table;
use quipu_cluster::topology::Topology;

use super::Driver;
use crate::cluster::report::{ChangeReport, PeerReport, Report};
use crate::system::log::Level;

/// How old a report may be.
const REPORT_MS: u64 = 50;
/// How far a clock may be behind those of most others before the log says so.
const LATE_MS: i64 = 5_000;

/// When all replicas of this node were last compared.
#[derive(Debug, Default)]
pub(super) struct Repaired {
    /// How many comparisons had failed when the one under way began.
    since: Option<u64>,
    at_ms: Option<u64>,
}

impl Repaired {
    /// Looks at the comparisons of a node. To be called after each step, since those of a few rows take only a few.
    pub(super) fn see_to(&mut self, node: Option<&Node>, now_ms: u64) {
        let left = node.map_or(0, Node::repairs_left);
        if left == 0 && self.since.is_none() {
            return;
        }
        let failed = node.map_or(0, |node| node.metrics.sessions_failed + node.metrics.rounds_failed);
        let is_whole = node.is_some_and(|node| node.health_of_all().iter().all(|(_, health)| *health != Health::Down));
        match (self.since, left) {
            (None, 1..) if is_whole => self.since = Some(failed),
            (Some(_), _) if !is_whole => self.since = None,
            (Some(before), 0) => {
                if before == failed {
                    self.at_ms = Some(now_ms);
                }
                self.since = None;
            }
            _ => {}
        }
    }

    /// How long ago the last comparison of all ended without one that failed.
    fn ms_ago(&self, now_ms: u64) -> Option<u64> {
        self.at_ms.map(|at_ms| now_ms - at_ms)
    }
}

/// Why a node should be sent no requests; none if it serves those with the default `ack` and `from`. A node that serves
/// most partitions is as good as any: to send it nothing would be to serve none where some replicas are down.
fn unready(report: &Report, down: &[String], leaves: bool) -> Option<String> {
    let Report { partitions, partitions_without_quorum, copies_left, .. } = report;
    if let Some(trouble) = &report.trouble {
        return Some(trouble.clone());
    }
    if !report.has_met_peers {
        return Some("the other nodes are being greeted".to_owned());
    }
    if *copies_left > 0 {
        return Some(format!("{copies_left} of {partitions} partitions are still to be copied"));
    }
    if leaves {
        return Some("this node leaves the cluster".to_owned());
    }
    if !report.clocks.can_stamp {
        let ahead_s = ahead_of_most_ms(&report.clocks) / 1000;
        return Some(format!("the clock of this node is {ahead_s} s ahead of those of most others: set it right"));
    }
    (2 * partitions_without_quorum >= *partitions as usize).then(|| {
        format!(
            "{partitions_without_quorum} of {partitions} partitions have fewer than {} of {} replicas that answer; no \
             answer comes from {}",
            report.replicas / 2 + 1,
            report.replicas,
            down.join(", ")
        )
    })
}

/// By how much a clock is ahead of those of most peers that have said theirs.
fn ahead_of_most_ms(clocks: &ClockReport) -> i64 {
    beyond_most_ms(clocks, -1)
}

/// By how much the clocks of most peers that have said theirs are ahead of this one, or behind where `sign` is -1.
fn beyond_most_ms(clocks: &ClockReport, sign: i64) -> i64 {
    let mut skews: Vec<i64> = clocks.skews_ms.iter().map(|(_, skew_ms)| sign * skew_ms).collect();
    skews.sort_unstable();
    // Of two peers one alone may be wrong: the smaller of two counts.
    skews.get(skews.len().saturating_sub(1) / 2).copied().unwrap_or(0).max(0)
}

/// Whether a clock is said to be behind: from a distance on, until it is clearly less.
fn is_late(late_ms: i64, was_late: bool) -> bool {
    late_ms >= if was_late { LATE_MS / 2 } else { LATE_MS }
}

impl Driver {
    /// Notes in the log when the clock of this node begins or ceases to be wrong: so far ahead that no write is stamped
    /// by it, or behind.
    fn note_clock(&mut self, clocks: &ClockReport) {
        let late_ms = beyond_most_ms(clocks, 1);
        let is_late = is_late(late_ms, self.is_late);
        if is_late != self.is_late {
            self.is_late = is_late;
            if is_late {
                let late_s = late_ms / 1000;
                let what = "slower than those of most others: what expires is served here for so much longer";
                self.host.note(Level::Warning, format_args!("the clock of this node is {late_s} s {what}"));
            } else {
                self.host
                    .note(Level::Notice, format_args!("the clock of this node agrees again with those of most others"));
            }
        }
        if clocks.can_stamp == self.stamps {
            return;
        }
        self.stamps = clocks.can_stamp;
        if clocks.can_stamp {
            self.host.note(Level::Notice, format_args!("the clock of this node is right again: it takes writes"));
        } else {
            let ahead_s = ahead_of_most_ms(clocks) / 1000;
            let what = "ahead of those of most others: it stamps no write until the clock is set right";
            self.host.note(Level::Warning, format_args!("the clock of this node is {ahead_s} s {what}"));
        }
    }

    /// Rows and bytes of the hints.
    fn hints(&self) -> (u64, u64) {
        let hints = self.register.store().table(Table::Hints);
        hints.tally(..).map_or((0, 0), |tally| (tally.rows as u64, tally.bytes as u64))
    }

    pub(super) fn report(&mut self) {
        let now_ms = self.ticks_ms;
        if self.reported_ms != 0 && now_ms < self.reported_ms + REPORT_MS {
            return;
        }
        self.reported_ms = now_ms.max(1);
        let now = self.now();
        let unknown = ClockReport { can_stamp: true, ..ClockReport::default() };
        let clocks = self.node.as_ref().map_or(unknown, |node| node.clocks(now));
        self.note_clock(&clocks);
        let routing = self.register.routing();
        let topology = routing.topology();
        let health: BTreeMap<NodeId, Health> =
            self.node.as_ref().map(|node| node.health_of_all().into_iter().collect()).unwrap_or_default();
        let is_down = |node: NodeId| health.get(&node).is_none_or(|health| *health == Health::Down);
        let log = self.agreement.as_ref().map(|agreement| self.log_report(agreement, is_down));
        let trouble = self.trouble.clone().or_else(|| self.failure.trouble(now_ms));
        // Most of the time all are up.
        let partitions_without_quorum = match health.values().any(|health| *health == Health::Down) {
            true => routing.without_quorum(|node| !is_down(node)),
            false => 0,
        };
        let down: Vec<String> =
            self.register.peers().into_iter().filter(|(node, _)| is_down(*node)).map(|(_, url)| url).collect();
        let (zone, weight) = zone_and_weight(topology, self.register.own());
        let peers = self.register.peers().into_iter();
        let peers =
            peers.map(|(node, url)| self.peer_report(topology, (node, url), health.get(&node).copied())).collect();
        let mut report = Report {
            node: self.register.own(),
            url: self.register.self_url().to_owned(),
            has_met_peers: self.has_met_peers,
            trouble,
            unready: None,
            partitions_without_quorum,
            repaired_ms_ago: self.repaired.ms_ago(now_ms),
            zone,
            weight,
            epoch: topology.epoch.0,
            partitions: topology.partitions,
            replicas: topology.replicas,
            grace_ms: self.register.limits().grace_ms,
            copies_left: self.node.as_ref().map_or(0, Node::copies_left),
            repairs_left: self.node.as_ref().map_or(0, Node::repairs_left),
            change: ChangeReport::new(topology, log.as_ref(), is_down),
            dead: topology.members.values().filter(|member| member.is_dead).map(|member| member.url.clone()).collect(),
            log,
            peers,
            clocks,
            metrics: self.node.as_ref().map(|node| node.metrics.clone()).unwrap_or_default(),
            hints: self.hints(),
            turns: self.turns,
            wakes: self.wakes,
            frames_dropped: self.frames_dropped,
        };
        report.unready = unready(&report, &down, self.leaves());
        // There may be no listener.
        self.reporter.send_replace(Arc::new(report));
    }

    fn peer_report(&self, topology: &Topology, (node, url): (NodeId, String), health: Option<Health>) -> PeerReport {
        let (zone, weight) = zone_and_weight(topology, node);
        PeerReport {
            node,
            url,
            is_connected: self.links.contains(node),
            health: health.unwrap_or(Health::Down),
            usual_ms: self.node.as_ref().map_or(0.0, |own| own.usual_ms(node)),
            mark: self.register.mark_of(node),
            zone,
            weight,
            trouble: self.dials.trouble(node).to_owned(),
        }
    }

    /// What the log says of itself. Its leader is the last one that was heard of; one that is down, or hears from too
    /// few voters, leads nothing.
    fn log_report(&self, agreement: &Agreement, is_down: impl Fn(NodeId) -> bool) -> LogReport {
        let mut log = agreement.report();
        let own = self.register.own();
        let heard = log.voters.iter().filter(|voter| **voter == own || !is_down(**voter)).count();
        log.leader = log.leader.filter(|leader| (*leader == own || !is_down(*leader)) && 2 * heard > log.voters.len());
        log
    }
}

fn zone_and_weight(topology: &Topology, node: NodeId) -> (String, u32) {
    topology.members.get(&node).map_or((String::new(), 0), |member| (member.zone.clone(), member.weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that was behind was said by nothing but the difference in the metrics.
    #[test]
    fn a_clock_that_is_behind_most_others_is_late_until_it_is_clearly_less() {
        let clocks = |skews_ms: &[i64]| {
            let skews_ms = skews_ms.iter().map(|skew_ms| (NodeId(1), *skew_ms)).collect();
            ClockReport { skews_ms, ..ClockReport::default() }
        };
        let behind = |skews_ms: &[i64]| beyond_most_ms(&clocks(skews_ms), 1);
        assert_eq!([behind(&[]), behind(&[7]), behind(&[-7])], [0, 7, 0]);
        assert_eq!(behind(&[10, 9_000]), 10, "one of two others is wrong: it is not this node");
        assert_eq!(behind(&[8_000, 9_000]), 8_000);
        assert_eq!(behind(&[8_000, -10, 9_000]), 8_000);
        assert_eq!(ahead_of_most_ms(&clocks(&[-8_000, -9_000])), 8_000);
        assert!(!is_late(LATE_MS - 1, false) && is_late(LATE_MS, false));
        assert!(is_late(LATE_MS / 2, true) && !is_late(LATE_MS / 2 - 1, true));
    }

    /// A node that saw no other said that it was healthy.
    #[test]
    fn a_node_is_ready_while_it_serves_most_partitions() {
        let mut report = Report::starting(NodeId(0), "http://a:1".to_owned(), (64, 3));
        (report.trouble, report.has_met_peers) = (None, true);
        let down = ["http://b:1".to_owned(), "http://c:1".to_owned()];
        assert_eq!(unready(&report, &[], false), None);
        report.partitions_without_quorum = 31;
        assert_eq!(unready(&report, &down, false), None);
        report.partitions_without_quorum = 64;
        let why = unready(&report, &down, false).unwrap();
        assert_eq!(
            why,
            "64 of 64 partitions have fewer than 2 of 3 replicas that answer; no answer comes from http://b:1, http://c:1"
        );
        report.clocks = ClockReport { can_stamp: false, ..ClockReport::default() };
        report.clocks.skews_ms = vec![(NodeId(1), -90_000), (NodeId(2), -90_400)];
        assert_eq!(
            unready(&report, &[], false).as_deref(),
            Some("the clock of this node is 90 s ahead of those of most others: set it right")
        );
        assert_eq!(unready(&report, &down, true).as_deref(), Some("this node leaves the cluster"));
        report.copies_left = 7;
        assert!(unready(&report, &down, true).is_some_and(|why| why.starts_with("7 of 64 partitions")));
        report.has_met_peers = false;
        assert!(unready(&report, &down, true).is_some_and(|why| why.contains("greeted")));
        report.trouble = Some("the disk is full".to_owned());
        assert_eq!(unready(&report, &down, true).as_deref(), Some("the disk is full"));
    }
}
