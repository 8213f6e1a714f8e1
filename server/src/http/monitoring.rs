//! Requests of operators and monitors: whether a node is up, healthy and ready, and which metrics it has.

use std::sync::atomic::Ordering;

use hyper::{Response, StatusCode};
use quipu_cluster::peers::Health;

use super::answer::{self, AnswerBody};
use super::node::Node;
use super::prometheus::Page;
use crate::cluster::Report;
use crate::keyspace::DATABASES;

/// `/v0/status`: the node serves.
pub(super) fn status(node: &Node) -> Response<AnswerBody> {
    answer::text(StatusCode::OK, format!("up, {} node(s)\n", node.nodes().0))
}

/// `/healthz`: whether a restart would help. It does not where space lacks.
pub(super) fn health(node: &Node) -> Response<AnswerBody> {
    if node.server.keyspace.db().stats().poisoned {
        let why = "a write to the log failed, and no write is taken any more: free space if that is what lacks, and \
                   restart\n";
        return answer::text(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let text = node.server.keyspace.lack_of_space().map(|reason| format!("healthy, but {}\n", only_frees(&reason)));
    answer::text(StatusCode::OK, text.unwrap_or_else(|| "healthy\n".to_owned()))
}

/// What a node does that has no space.
fn only_frees(reason: &str) -> String {
    format!("the disk is full: reads and removals are served, other writes are not ({reason})")
}

/// `/readyz`: whether requests should be sent here.
pub(super) fn readiness(node: &Node) -> Response<AnswerBody> {
    if node.is_stopping() {
        return answer::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    if let Some(why) = unready(node) {
        return answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    }
    health(node)
}

/// Why requests should not be sent here, though the node runs.
pub(super) fn unready(node: &Node) -> Option<String> {
    let of_cluster = node.cluster.as_ref().and_then(|cluster| cluster.report().unready.clone());
    of_cluster.or_else(|| node.server.keyspace.lack_of_space().map(|reason| only_frees(&reason)))
}

/// `/metrics`.
pub(super) fn metrics(node: &Node) -> Response<AnswerBody> {
    let mut page = Page::default();
    engine(node, &mut page);
    keys(node, &mut page);
    redis(node, &mut page);
    if node.server.config.pg_port.is_some() {
        postgres(node, &mut page);
    }
    if let Some(cluster) = &node.cluster {
        replication(&cluster.report(), unready(node).is_none(), &mut page);
    }
    node.metrics.write(&mut page);
    page.gauge("quipu_http_requests_now", "Requests that are being answered.", node.requests.taken() as f64);
    page.gauge("quipu_http_streams", "Ranges and long values that are being sent.", node.streams.taken() as f64);
    let help = "Bytes of long bodies and long entities in memory.";
    page.gauge("quipu_http_flight_bytes", help, node.flight_bytes.taken() as f64);
    answer::typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page.text)
}

fn engine(node: &Node, page: &mut Page) {
    let stats = node.server.keyspace.db().stats();
    page.head("quipu_info", "gauge", "The version, and when a write is answered.");
    let durability = format!("{:?}", node.server.durability()).to_lowercase();
    page.line("quipu_info", &format!("version=\"{}\",durability=\"{durability}\"", env!("CARGO_PKG_VERSION")), 1.0);
    page.gauge("quipu_uptime_seconds", "Time since the start.", node.server.uptime().as_secs_f64());
    if let Some((free_bytes, total_bytes)) = node.server.disk_space() {
        page.gauge("quipu_disk_free_bytes", "What the file system of the data has left.", free_bytes as f64);
        page.gauge("quipu_disk_bytes", "The size of the file system of the data.", total_bytes as f64);
    }
    page.head("quipu_table_rows", "gauge", "Rows of a table.");
    for table in &stats.tables {
        page.line("quipu_table_rows", &format!("table=\"{}\"", label(&table.name)), table.tally.rows as f64);
    }
    for (name, help, value) in [
        ("quipu_memory_bytes", "Memory that rows take.", stats.memory_bytes()),
        ("quipu_memory_limit_bytes", "Memory that rows may take.", stats.memory_bytes_max),
        ("quipu_memtable_limit_bytes", "Memory of rows above which they go to disk.", stats.memtable_bytes_max),
        ("quipu_cache_bytes", "Pages of runs in the cache.", stats.cache_bytes),
        ("quipu_cache_limit_bytes", "Pages of runs that the cache may hold.", stats.cache_bytes_max),
        ("quipu_cache_pinned_bytes", "Pages of runs in the cache that stay there.", stats.pinned_bytes),
        ("quipu_cache_lent_bytes", "Pages of runs that readers hold.", stats.lent_bytes),
        ("quipu_log_bytes", "Bytes of log files.", stats.log_bytes),
        ("quipu_log_files", "Log files.", stats.log_segments),
        ("quipu_log_tail_bytes", "Log since the last checkpoint: what a restart replays.", stats.log_tail_bytes),
        ("quipu_snapshots", "Different versions that snapshots look at.", stats.snapshots as u64),
        ("quipu_poisoned", "1 if a write to the log has failed, so that no more are taken.", u64::from(stats.poisoned)),
        (
            "quipu_disk_full",
            "1 while the disk has no space for writes that free none.",
            u64::from(node.server.keyspace.lack_of_space().is_some()),
        ),
        ("quipu_checkpoint_failed", "1 if the last checkpoint failed.", u64::from(stats.checkpoint_failure.is_some())),
        (
            "quipu_background_failures",
            "Work in the background that failed and was not done since.",
            stats.failures.len() as u64,
        ),
    ] {
        page.gauge(name, help, value as f64);
    }
    page.counter("quipu_cache_hits_total", "Pages that readers found in the cache.", stats.cache_hits);
    page.counter("quipu_cache_misses_total", "Pages that readers read from files.", stats.cache_misses);
    page.counter("quipu_commits_total", "Commits in the life of the database.", stats.sequence);
    page.counter("quipu_checkpoints_total", "Checkpoints in the life of the database.", stats.checkpoint);
}

fn keys(node: &Node, page: &mut Page) {
    let keyspace = &node.server.keyspace;
    let entities = node.cluster.as_ref().map(|cluster| cluster.entities());
    page.head("quipu_keys", "gauge", "Keys of a database, those included that have expired and are not removed yet.");
    for database in 0..DATABASES {
        let rows = keyspace.tables(database).map(|tables| quipu::ReadableTable::len(&tables.keys));
        // The keys of a node of a cluster are its entities.
        let rows = entities.filter(|_| database == 0).map(Ok).or(rows);
        if let Some(Ok(rows)) = rows {
            page.line("quipu_keys", &format!("database=\"{database}\""), rows as f64);
        }
    }
    let counters = &keyspace.counters;
    for (name, help, counter) in [
        ("quipu_lookup_hits_total", "Lookups that found a key.", &counters.hits),
        ("quipu_lookup_misses_total", "Lookups that found none.", &counters.misses),
        ("quipu_expired_keys_total", "Keys that were removed because they had expired.", &counters.expired),
        ("quipu_changes_total", "Changes of keys.", &counters.changes),
    ] {
        page.counter(name, help, counter.load(Ordering::Relaxed));
    }
}

fn redis(node: &Node, page: &mut Page) {
    let statistics = &node.server.statistics;
    let parked = statistics.parked.load(Ordering::Relaxed);
    page.gauge("quipu_redis_parked_clients", "Clients whose command waits for pages or memory.", parked as f64);
    for (name, help, counter) in [
        ("quipu_redis_commands_total", "Commands of Redis clients.", &statistics.commands),
        ("quipu_redis_page_faults_total", "Commands that lacked pages of runs at first.", &statistics.page_faults),
        ("quipu_redis_errors_total", "Commands that were refused or failed.", &statistics.errors),
        ("quipu_redis_connections_accepted_total", "Connections of Redis clients.", &statistics.connections),
        ("quipu_redis_received_bytes_total", "Bytes from Redis clients.", &statistics.bytes_in),
        ("quipu_redis_sent_bytes_total", "Bytes to Redis clients.", &statistics.bytes_out),
    ] {
        page.counter(name, help, counter.load(Ordering::Relaxed));
    }
}

fn postgres(node: &Node, page: &mut Page) {
    let statistics = &node.server.postgres;
    let sessions = statistics.sessions.load(Ordering::Relaxed);
    page.gauge("quipu_pg_connections", "Sessions of PostgreSQL clients.", sessions as f64);
    for (name, help, counter) in [
        ("quipu_pg_connections_accepted_total", "Sessions that PostgreSQL clients began.", &statistics.sessions_begun),
        ("quipu_pg_connections_refused_total", "PostgreSQL clients that were refused.", &statistics.refused),
        ("quipu_pg_statements_total", "Statements of PostgreSQL clients.", &statistics.statements),
        ("quipu_pg_cancels_total", "Statements that PostgreSQL clients cancelled.", &statistics.cancels),
    ] {
        page.counter(name, help, counter.load(Ordering::Relaxed));
    }
    let name = "quipu_pg_errors_total";
    page.head(name, "counter", "Errors that PostgreSQL clients were told, by the class of their code.");
    for (class, count) in statistics.errors() {
        page.line(name, &format!("class=\"{class}\""), count as f64);
    }
}

fn replication(report: &Report, is_ready: bool, page: &mut Page) {
    cluster_gauges(report, is_ready, page);
    change_of_members(report, page);
    peer_gauges(report, page);
    cluster_counters(report, page);
    refusals(report, page);
    page.head("quipu_cluster_peer_skew_seconds", "gauge", "By how much a peer's clock is ahead of this node's.");
    for (node, skew_ms) in &report.clocks.skews_ms {
        page.line("quipu_cluster_peer_skew_seconds", &format!("node=\"{node}\""), *skew_ms as f64 / 1000.0);
    }
}

fn cluster_gauges(report: &Report, is_ready: bool, page: &mut Page) {
    let log = report.log.as_ref();
    for (name, help, value) in [
        ("quipu_cluster_ready", "1 while /readyz is 200.", u64::from(is_ready)),
        ("quipu_cluster_can_stamp", "1 if the node's clock may stamp writes.", u64::from(report.clocks.can_stamp)),
        ("quipu_cluster_epoch", "The epoch of the topology.", report.epoch),
        ("quipu_cluster_nodes", "Nodes of the cluster.", report.peers.len() as u64 + 1),
        ("quipu_cluster_partitions", "Partitions of the cluster.", u64::from(report.partitions)),
        ("quipu_cluster_replicas", "Replicas of an entity where a request says nothing.", report.replicas.into()),
        ("quipu_cluster_copies_left", "Partitions that are still to be copied here.", report.copies_left as u64),
        ("quipu_cluster_hints", "Writes that peers have missed and are kept for them.", report.hints.0),
        ("quipu_cluster_hint_bytes", "Bytes of those.", report.hints.1),
        (
            "quipu_cluster_partitions_without_quorum",
            "Partitions of which fewer than a quorum of the replicas answer.",
            report.partitions_without_quorum as u64,
        ),
        ("quipu_cluster_log_term", "The term of the log of the topology.", log.map_or(0, |log| log.term)),
        (
            "quipu_cluster_log_leader",
            "1 if the log of the topology has a leader, so that members can be changed.",
            log.map_or(0, |log| u64::from(log.leader.is_some())),
        ),
        (
            "quipu_cluster_log_leads",
            "1 if this node leads the log of the topology.",
            log.map_or(0, |log| u64::from(log.leader == Some(report.node))),
        ),
        ("quipu_cluster_log_voters", "Nodes that vote in it.", log.map_or(0, |log| log.voters.len() as u64)),
        (
            "quipu_cluster_change_waits_for",
            "Nodes that the change of members under way waits for.",
            report.change.as_ref().map_or(0, |change| change.waits_for.len() as u64),
        ),
        (
            "quipu_cluster_dead_members",
            "Members that were declared dead and are still members: others have not taken their places.",
            report.dead.len() as u64,
        ),
    ] {
        page.gauge(name, help, value as f64);
    }
}

/// The change under way, and when all was last compared.
fn change_of_members(report: &Report, page: &mut Page) {
    page.head(
        "quipu_cluster_change",
        "gauge",
        "1 for the phase of the change of members under way; nothing if none is.",
    );
    if let Some(change) = &report.change {
        page.line("quipu_cluster_change", &format!("phase=\"{}\"", format!("{:?}", change.phase).to_lowercase()), 1.0);
    }
    if let Some(ms) = report.repaired_ms_ago {
        let help = "Time since all replicas of this node were compared without a failure.";
        page.gauge("quipu_cluster_repaired_seconds_ago", help, ms as f64 / 1000.0);
    }
}

fn peer_gauges(report: &Report, page: &mut Page) {
    page.head("quipu_cluster_peer_seconds", "gauge", "How long a peer usually takes to answer.");
    for peer in &report.peers {
        let labels = format!("node=\"{}\",url=\"{}\"", peer.node, label(&peer.url));
        page.line("quipu_cluster_peer_seconds", &labels, peer.usual_ms / 1000.0);
    }
    page.head("quipu_cluster_peer_up", "gauge", "How a peer stands: 1 up, 0.5 slow, 0 down.");
    for peer in &report.peers {
        let value = match peer.health {
            Health::Up => 1.0,
            Health::Slow => 0.5,
            Health::Down => 0.0,
        };
        page.line("quipu_cluster_peer_up", &format!("node=\"{}\",url=\"{}\"", peer.node, label(&peer.url)), value);
    }
}

fn cluster_counters(report: &Report, page: &mut Page) {
    let metrics = &report.metrics;
    for (name, help, value) in [
        ("quipu_cluster_turns_total", "Turns of the node: commits.", report.turns.0),
        ("quipu_cluster_wakes_total", "How often the node's thread has looked for something to do.", report.wakes),
        ("quipu_cluster_inputs_total", "Requests, frames and timers taken in them.", report.turns.1),
        ("quipu_cluster_frames_received_total", "Frames from peers.", metrics.frames_received),
        ("quipu_cluster_bad_frames_total", "Frames that could not be read.", metrics.bad_frames),
        ("quipu_cluster_frames_sent_total", "Frames to peers.", metrics.frames_sent),
        (
            "quipu_cluster_frames_dropped_total",
            "Frames not sent, because too much waited for their peers.",
            report.frames_dropped,
        ),
        ("quipu_cluster_sent_bytes_total", "Bytes of frames to peers.", metrics.bytes_sent as u64),
        ("quipu_cluster_answered_total", "Requests answered as asked for.", metrics.answered),
        (
            "quipu_cluster_not_enough_replicas_total",
            "Requests for which too few replicas answered.",
            metrics.not_enough,
        ),
        ("quipu_cluster_full_total", "Writes for which replicas had no space.", metrics.full),
        ("quipu_cluster_overloaded_total", "Requests turned away.", metrics.overloaded),
        ("quipu_cluster_restamps_total", "Writes stamped again: a replica had something newer.", metrics.restamps),
        (
            "quipu_cluster_long_values_fetched_total",
            "Long values asked of a replica after it had said which version it has.",
            metrics.long_values_fetched,
        ),
        ("quipu_cluster_read_repairs_total", "Rows mended after a read.", metrics.read_repairs),
        ("quipu_cluster_hints_left_total", "Writes kept for peers that missed them.", metrics.hints_left),
        ("quipu_cluster_hints_sent_total", "Writes handed over to peers that are back.", metrics.hints_sent),
        ("quipu_cluster_hints_dropped_total", "Hints dropped for their number or age.", metrics.hints_dropped),
        ("quipu_cluster_ranges_compared_total", "Ranges compared with replicas.", metrics.ranges_compared),
        ("quipu_cluster_rows_moved_total", "Rows received or given in repair and copies.", metrics.rows_moved),
        ("quipu_cluster_repair_bytes_total", "Bytes of repair and copies.", metrics.repair_bytes),
        ("quipu_cluster_sessions_total", "Comparisons that ended.", metrics.sessions_done),
        ("quipu_cluster_sessions_failed_total", "Comparisons that were given up.", metrics.sessions_failed),
        ("quipu_cluster_rounds_total", "Rounds after which tombstones may go.", metrics.rounds_done),
        ("quipu_cluster_partitions_copied_total", "Partitions copied.", metrics.partitions_copied),
        ("quipu_cluster_storage_errors_total", "Errors of the storage.", metrics.storage_errors),
        (
            "quipu_cluster_stamps_refused_total",
            "Writes refused because this node's clock is far ahead of most others.",
            metrics.stamps_refused,
        ),
        (
            "quipu_cluster_stamped_once_total",
            "Writes answered 504 that would have needed a second stamp.",
            metrics.stamped_once,
        ),
        ("quipu_cluster_clock_went_back_total", "Times that the clock of versions went back.", report.clocks.went_back),
        (
            "quipu_cluster_far_stamps_total",
            "Stamps above a version further ahead than clocks may be.",
            report.clocks.far_stamps,
        ),
    ] {
        page.counter(name, help, value);
    }
}

/// Refusals by reason.
fn refusals(report: &Report, page: &mut Page) {
    let metrics = &report.metrics;
    let (given, received) = ("quipu_cluster_refusals_given_total", "quipu_cluster_refusals_received_total");
    page.head(given, "counter", "What this node has refused to others, by reason.");
    for (reason, count) in metrics.refusals_given() {
        page.line(given, &format!("reason=\"{reason}\""), count as f64);
    }
    page.head(received, "counter", "What others have refused to this node, by reason.");
    for (reason, count) in metrics.refusals_received() {
        page.line(received, &format!("reason=\"{reason}\""), count as f64);
    }
}

/// A text as a label's value has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
