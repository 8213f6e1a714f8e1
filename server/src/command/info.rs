//! `INFO`: what the server is and does, in the sections and fields that dashboards for Redis read, and in a section of
//! Quipu's own.
//!
//! Differences from Redis: fields about what does not exist here (replication streams, forks, scripts, eviction) have
//! the values of a server that does none of it. `used_memory` is the memory of rows, pages and long values together,
//! without the rest of the process; `used_memory_rss` is the whole process.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use quipu::Durability;
use quipu::stats::Stats;

use super::connection::REDIS_VERSION;
use super::{Call, CommandResult, Handler};
use crate::facts::by_number;
use crate::keyspace::DATABASES;
use crate::state::server::Server;
use crate::system::clock;
use crate::system::process;

/// The table with the entities of a node of a cluster that expire.
const EXPIRES_OF_ENTITIES: &str = "cluster.expires";

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[Handler::new("info", info)];

/// Sections in their order, and whether they are in an answer to a bare `INFO`.
const SECTIONS: [(&str, bool); 15] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
    ("postgres", true),
    ("quipu", true),
];

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    let asked: Vec<String> =
        call.args[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let has = |word: &str| asked.iter().any(|asked| asked == word);
    let all = has("all") || has("everything");
    let by_default = asked.is_empty() || has("default");
    let wanted = |&(name, is_default): &(&str, bool)| all || (by_default && is_default) || has(name);
    let names: Vec<&str> = SECTIONS.iter().filter(|section| wanted(section)).map(|(name, _)| *name).collect();
    let text = text(call.server, call.data.stats(), &names);
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Sections, as text.
pub fn text(server: &Server, stats: Stats, sections: &[&str]) -> String {
    server.statistics.memory_bytes.store(stats.memory_bytes(), Ordering::Relaxed);
    server.statistics.memory_peak_bytes.fetch_max(stats.memory_bytes(), Ordering::Relaxed);
    let mut page = Page { text: String::new(), server, stats };
    for section in sections {
        if !page.text.is_empty() {
            page.text.push_str("\r\n");
        }
        let title = section[..1].to_uppercase() + &section[1..];
        let _ = write!(page.text, "# {}\r\n", if *section == "cpu" { "CPU" } else { &title });
        match *section {
            "server" => page.server(),
            "clients" => page.clients(),
            "memory" => page.memory(),
            "persistence" => page.persistence(),
            "stats" => page.statistics(),
            "replication" => page.replication(),
            "cpu" => page.cpu(),
            "commandstats" => page.commands(),
            "errorstats" => page.errors(),
            "latencystats" => page.latencies(),
            "cluster" => page.cluster(),
            "keyspace" => page.keyspace(),
            "postgres" => page.postgres(),
            "quipu" => page.quipu(),
            _ => {}
        }
    }
    page.text
}

struct Page<'s> {
    text: String,
    server: &'s Server,
    stats: Stats,
}

impl Page<'_> {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    fn lines(&mut self, lines: &[(&str, u64)]) {
        lines.iter().for_each(|(name, value)| self.line(name, value));
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(&format!("{name}_human"), human(bytes));
    }

    fn parameter(&self, name: &str) -> String {
        self.server.config.parameters.get(name).unwrap_or_default()
    }

    fn server(&mut self) {
        let uptime_s = self.server.uptime().as_secs();
        self.line("redis_version", REDIS_VERSION);
        self.line("redis_git_sha1", "00000000");
        self.line("redis_git_dirty", 0);
        self.line("redis_build_id", env!("CARGO_PKG_VERSION"));
        self.line("quipu_version", env!("CARGO_PKG_VERSION"));
        self.line("redis_mode", "standalone");
        self.line("os", process::system_name());
        self.line("arch_bits", usize::BITS);
        self.line("multiplexing_api", "epoll");
        self.line("process_id", std::process::id());
        self.line("process_supervised", "no");
        self.line("run_id", &self.server.run_id);
        self.line("tcp_port", self.server.config.port.unwrap_or(0));
        self.line("server_time_usec", clock::now_us());
        self.line("uptime_in_seconds", uptime_s);
        self.line("uptime_in_days", uptime_s / 86_400);
        let hz = self.parameter("hz");
        self.line("hz", &hz);
        self.line("configured_hz", &hz);
        self.line("lru_clock", (clock::now_ms() / 1000) & 0xff_ffff);
        self.line("executable", std::env::current_exe().unwrap_or_default().display());
        self.line("config_file", self.server.config.file.clone().unwrap_or_default().display());
        self.line("io_threads_active", u8::from(self.server.config.threads > 1));
    }

    /// Clients are to ask any node, so they are told of no cluster in Redis's way.
    fn cluster(&mut self) {
        self.line("cluster_enabled", 0);
        let Some(cluster) = self.server.cluster.get() else { return };
        let report = cluster.report();
        self.line("quipu_node", &report.url);
        let is_ready = report.is_ready() && self.server.keyspace.lack_of_space().is_none();
        self.line("quipu_node_ready", u8::from(is_ready));
        self.line("quipu_node_trouble", report.trouble.as_deref().unwrap_or_default());
        self.lines(&[
            ("quipu_nodes", report.peers.len() as u64 + 1),
            ("quipu_epoch", report.epoch),
            ("quipu_entities", cluster.entities()),
            ("quipu_hints", report.hints.0),
            ("quipu_copies_left", report.copies_left as u64),
            ("quipu_repairs_left", report.repairs_left as u64),
            ("quipu_changes_members", u64::from(report.change.is_some())),
        ]);
        for peer in &report.peers {
            let health = format!("{:?}", peer.health).to_lowercase();
            let connected = u8::from(peer.is_connected);
            self.line(
                &format!("quipu_peer_{}", peer.node),
                format_args!("health={health},connected={connected},url={}", peer.url),
            );
        }
    }

    fn clients(&mut self) {
        let clients = self.server.clients.all();
        let most = |bytes: fn(&crate::state::clients::Client) -> usize| {
            clients.iter().map(|client| bytes(client)).max().unwrap_or(0)
        };
        let input = most(|client| client.input_bytes.load(Ordering::Relaxed)) as u64;
        let output = most(|client| client.output_bytes.load(Ordering::Relaxed)) as u64;
        self.line("connected_clients", clients.len());
        self.line("cluster_connections", 0);
        self.line("maxclients", self.parameter("maxclients"));
        self.lines(&[
            ("client_recent_max_input_buffer", input),
            ("client_recent_max_output_buffer", output),
            (
                "blocked_clients",
                clients.iter().filter(|client| client.is_waiting.load(Ordering::Relaxed)).count() as u64,
            ),
            ("tracking_clients", 0),
            ("clients_in_timeout_table", 0),
        ]);
    }

    fn memory(&mut self) {
        let used = self.stats.memory_bytes();
        let peak = self.server.statistics.memory_peak_bytes.load(Ordering::Relaxed);
        let resident = process::resident_bytes();
        let system = process::system_memory_bytes();
        let buffers: usize = (self.server.clients.all().iter())
            .map(|client| client.input_bytes.load(Ordering::Relaxed) + client.output_bytes.load(Ordering::Relaxed))
            .sum();
        let max = self.server.config.parameters.memory_bytes_max.load(Ordering::Relaxed);
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        self.bytes("used_memory", used);
        self.bytes("used_memory_rss", resident);
        self.bytes("used_memory_peak", peak);
        self.line("used_memory_peak_perc", format_args!("{:.2}%", 100.0 * ratio(used, peak)));
        self.line("used_memory_overhead", 0);
        self.line("used_memory_startup", 0);
        self.line("used_memory_dataset", used);
        self.line("used_memory_dataset_perc", "100.00%");
        self.lines(&[("allocator_allocated", used), ("allocator_active", used), ("allocator_resident", resident)]);
        self.bytes("total_system_memory", system);
        self.bytes("used_memory_lua", 0);
        self.lines(&[("used_memory_vm_eval", 0), ("used_memory_scripts_eval", 0), ("number_of_cached_scripts", 0)]);
        self.lines(&[("number_of_functions", 0), ("number_of_libraries", 0), ("used_memory_vm_functions", 0)]);
        self.bytes("used_memory_vm_total", 0);
        self.line("used_memory_functions", 0);
        self.bytes("used_memory_scripts", 0);
        self.bytes("maxmemory", max);
        self.line("maxmemory_policy", self.parameter("maxmemory-policy"));
        self.line("allocator_frag_ratio", "1.00");
        self.line("allocator_frag_bytes", 0);
        self.line("allocator_rss_ratio", format_args!("{:.2}", ratio(resident, used)));
        self.line("allocator_rss_bytes", resident.saturating_sub(used));
        self.line("rss_overhead_ratio", "1.00");
        self.line("rss_overhead_bytes", 0);
        self.line("mem_fragmentation_ratio", format_args!("{:.2}", ratio(resident, used)));
        self.line("mem_fragmentation_bytes", resident as i64 - used as i64);
        self.lines(&[
            ("mem_not_counted_for_evict", 0),
            ("mem_replication_backlog", 0),
            ("mem_total_replication_buffers", 0),
            ("mem_clients_slaves", 0),
            ("mem_clients_normal", buffers as u64),
            ("mem_cluster_links", 0),
            ("mem_aof_buffer", 0),
        ]);
        self.line("mem_allocator", "quipu");
        self.lines(&[("active_defrag_running", 0), ("lazyfree_pending_objects", 0), ("lazyfreed_objects", 0)]);
    }

    fn persistence(&mut self) {
        let saves = self.server.saves.clone();
        let load = |place: &AtomicU64| place.load(Ordering::Relaxed);
        let changes = load(&self.server.keyspace.counters.changes);
        let (since_ms, took_ms) = (load(&saves.since_ms), load(&saves.took_ms));
        let running_s = if since_ms == 0 { -1 } else { (clock::now_ms().saturating_sub(since_ms) / 1000) as i64 };
        let took_s = if took_ms == u64::MAX { -1 } else { (took_ms / 1000) as i64 };
        let status = if saves.failure().is_some() || self.stats.checkpoint_failure.is_some() { "err" } else { "ok" };
        let lack_of_space = self.server.keyspace.lack_of_space();
        let write_status = if self.stats.poisoned || lack_of_space.is_some() { "err" } else { "ok" };
        self.lines(&[("loading", 0), ("async_loading", 0), ("current_cow_peak", 0), ("current_cow_size", 0)]);
        self.lines(&[("current_cow_size_age", 0)]);
        self.line("current_fork_perc", "0.00");
        self.lines(&[("current_save_keys_processed", 0), ("current_save_keys_total", 0)]);
        self.line("rdb_changes_since_last_save", changes.saturating_sub(load(&saves.changes)));
        self.line("rdb_bgsave_in_progress", u8::from(saves.is_running()));
        self.line("rdb_last_save_time", load(&saves.last_ms) / 1000);
        self.line("rdb_last_bgsave_status", status);
        self.line("rdb_last_bgsave_time_sec", took_s);
        self.line("rdb_current_bgsave_time_sec", running_s);
        self.line("rdb_saves", load(&saves.count));
        self.lines(&[("rdb_last_cow_size", 0), ("rdb_last_load_keys_expired", 0), ("rdb_last_load_keys_loaded", 0)]);
        let aof_enabled = self.parameter("appendonly") == "yes";
        self.line("aof_enabled", u8::from(aof_enabled));
        self.lines(&[("aof_rewrite_in_progress", 0), ("aof_rewrite_scheduled", 0)]);
        self.line("aof_last_rewrite_time_sec", -1);
        self.line("aof_current_rewrite_time_sec", -1);
        self.line("aof_last_bgrewrite_status", status);
        self.lines(&[("aof_rewrites", 0), ("aof_rewrites_consecutive_failures", 0)]);
        self.line("aof_last_write_status", write_status);
        self.line("aof_last_cow_size", 0);
        if aof_enabled {
            self.lines(&[
                ("aof_current_size", self.stats.log_bytes),
                ("aof_base_size", self.stats.log_bytes.saturating_sub(self.stats.log_tail_bytes)),
                ("aof_pending_rewrite", 0),
                ("aof_buffer_length", 0),
                ("aof_pending_bio_fsync", 0),
                ("aof_delayed_fsync", 0),
            ]);
        }
        self.lines(&[("module_fork_in_progress", 0), ("module_fork_last_cow_size", 0)]);
    }

    fn statistics(&mut self) {
        let statistics = &self.server.statistics;
        let counters = &self.server.keyspace.counters;
        let load = |place: &AtomicU64| place.load(Ordering::Relaxed);
        let rates = statistics.rates();
        let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
        self.lines(&[
            ("total_connections_received", load(&statistics.connections)),
            ("total_commands_processed", statistics.count_commands()),
            ("instantaneous_ops_per_sec", rates.commands),
            ("total_net_input_bytes", load(&statistics.bytes_in)),
            ("total_net_output_bytes", load(&statistics.bytes_out)),
            ("total_net_repl_input_bytes", 0),
            ("total_net_repl_output_bytes", 0),
        ]);
        self.line("instantaneous_input_kbps", kilobytes(rates.bytes_in));
        self.line("instantaneous_output_kbps", kilobytes(rates.bytes_out));
        self.line("instantaneous_input_repl_kbps", "0.00");
        self.line("instantaneous_output_repl_kbps", "0.00");
        self.lines(&[
            ("rejected_connections", load(&statistics.refused_connections)),
            ("sync_full", 0),
            ("sync_partial_ok", 0),
            ("sync_partial_err", 0),
            ("expired_keys", load(&counters.expired)),
        ]);
        self.line("expired_stale_perc", "0.00");
        self.lines(&[
            ("expired_time_cap_reached_count", 0),
            ("expire_cycle_cpu_milliseconds", 0),
            ("evicted_keys", 0),
            ("evicted_clients", self.server.statistics.evicted_clients.load(Ordering::Relaxed)),
            ("total_eviction_exceeded_time", 0),
            ("current_eviction_exceeded_time", 0),
            ("keyspace_hits", load(&counters.hits)),
            ("keyspace_misses", load(&counters.misses)),
            ("pubsub_channels", 0),
            ("pubsub_patterns", 0),
            ("pubsubshard_channels", 0),
            ("latest_fork_usec", 0),
            ("total_forks", 0),
            ("migrate_cached_sockets", 0),
            ("slave_expires_tracked_keys", 0),
            ("active_defrag_hits", 0),
            ("active_defrag_misses", 0),
            ("active_defrag_key_hits", 0),
            ("active_defrag_key_misses", 0),
            ("total_active_defrag_time", 0),
            ("current_active_defrag_time", 0),
            ("tracking_total_keys", 0),
            ("tracking_total_items", 0),
            ("tracking_total_prefixes", 0),
            ("unexpected_error_replies", 0),
            ("total_error_replies", load(&statistics.errors)),
            ("dump_payload_sanitizations", 0),
            ("total_reads_processed", load(&statistics.reads)),
            ("total_writes_processed", load(&statistics.writes)),
            ("io_threaded_reads_processed", 0),
            ("io_threaded_writes_processed", 0),
            ("reply_buffer_shrinks", 0),
            ("reply_buffer_expands", 0),
        ]);
    }

    fn replication(&mut self) {
        self.line("role", "master");
        self.line("connected_slaves", 0);
        self.line("master_failover_state", "no-failover");
        self.line("master_replid", &self.server.run_id);
        self.line("master_replid2", "0".repeat(40));
        self.line("master_repl_offset", 0);
        self.line("second_repl_offset", -1);
        self.line("repl_backlog_active", 0);
        self.line("repl_backlog_size", self.parameter("repl-backlog-size"));
        self.line("repl_backlog_first_byte_offset", 0);
        self.line("repl_backlog_histlen", 0);
    }

    fn cpu(&mut self) {
        let (user, system) = process::cpu_seconds();
        self.line("used_cpu_sys", format_args!("{system:.6}"));
        self.line("used_cpu_user", format_args!("{user:.6}"));
        self.line("used_cpu_sys_children", "0.000000");
        self.line("used_cpu_user_children", "0.000000");
    }

    fn commands(&mut self) {
        for spec in by_number() {
            let Some(command) = self.server.statistics.of(spec) else { continue };
            let (calls, us) = (command.calls(), command.ns.load(Ordering::Relaxed) as f64 / 1000.0);
            let (rejected, failed) = (command.rejected.load(Ordering::Relaxed), command.failed.load(Ordering::Relaxed));
            if calls + rejected + failed == 0 {
                continue;
            }
            let each = if calls == 0 { 0.0 } else { us / calls as f64 };
            self.line(
                &format!("cmdstat_{}", spec.name),
                format_args!(
                    "calls={calls},usec={us:.0},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
                ),
            );
        }
    }

    fn errors(&mut self) {
        for (code, count) in self.server.statistics.errors_by_code() {
            self.line(&format!("errorstat_{code}"), format_args!("count={count}"));
        }
    }

    fn latencies(&mut self) {
        if self.parameter("latency-tracking") == "no" {
            return;
        }
        let percentiles = self.parameter("latency-tracking-info-percentiles");
        for spec in by_number() {
            let Some(durations) = self.server.statistics.of(spec).and_then(|command| command.durations()) else {
                continue;
            };
            if durations.count() == 0 {
                continue;
            }
            let part = |percent: &str| {
                let us = durations.percentile_us(percent.parse().unwrap_or(0.0));
                format!("p{percent}={us:.3}")
            };
            let parts: Vec<String> = percentiles.split_whitespace().map(part).collect();
            self.line(&format!("latency_percentiles_usec_{}", spec.name), parts.join(","));
        }
    }

    fn keyspace(&mut self) {
        let rows: BTreeMap<&str, i64> =
            self.stats.tables.iter().map(|table| (table.name.as_str(), table.tally.rows)).collect();
        let rows_of = |table: &quipu::Table| rows.get(table.name()).copied().unwrap_or(0);
        let mut lines = Vec::new();
        for database in 0..DATABASES {
            let Some(tables) = self.server.keyspace.tables(database) else { continue };
            let (keys, expires) = match self.server.cluster.get().filter(|_| database == 0) {
                // The keys of a node of a cluster are its entities.
                Some(cluster) => {
                    let expires = rows.get(EXPIRES_OF_ENTITIES).copied().unwrap_or(0);
                    (cluster.entities() as i64, expires)
                }
                None => (rows_of(&tables.keys), rows_of(&tables.expires)),
            };
            if keys > 0 {
                lines.push(format!("db{database}:keys={keys},expires={expires},avg_ttl=0\r\n"));
            }
        }
        self.text.extend(lines);
    }

    /// The other face that has clients; of Redis there is no such section.
    fn postgres(&mut self) {
        let statistics = &self.server.postgres;
        let errors = statistics.errors();
        self.lines(&[
            ("pg_port", self.server.config.pg_port.unwrap_or(0).into()),
            ("pg_connections", statistics.sessions.load(Ordering::Relaxed) as u64),
            ("pg_connections_max", self.server.config.pg_connections_max as u64),
            ("pg_connections_received", statistics.sessions_begun.load(Ordering::Relaxed)),
            ("pg_connections_refused", statistics.refused.load(Ordering::Relaxed)),
            ("pg_statements", statistics.statements.load(Ordering::Relaxed)),
            ("pg_cancels", statistics.cancels.load(Ordering::Relaxed)),
        ]);
        for (class, count) in errors {
            self.line(&format!("pg_errors_{class}"), count);
        }
    }

    fn quipu(&mut self) {
        let durability = match self.server.durability() {
            Durability::Sync => "sync",
            Durability::Os => "os",
            Durability::None => "none",
        };
        self.line("durability", durability);
        let stats = self.stats.clone();
        let rows: i64 = stats.tables.iter().map(|table| table.tally.rows).sum();
        self.lines(&[
            ("tables", stats.tables.len() as u64),
            ("rows", rows.max(0) as u64),
            ("page_bytes", stats.page_bytes),
            ("long_value_bytes", stats.long_bytes),
            ("memory_bytes_max", stats.memory_bytes_max),
            ("memtable_bytes_max", stats.memtable_bytes_max),
            ("cache_bytes", stats.cache_bytes),
            ("cache_bytes_max", stats.cache_bytes_max),
            ("cache_hits", stats.cache_hits),
            ("cache_misses", stats.cache_misses),
            ("runs", stats.tables.iter().map(|table| table.runs as u64).sum()),
            ("run_bytes", stats.tables.iter().map(|table| table.run_bytes).sum()),
            ("page_faults", self.server.statistics.page_faults.load(Ordering::Relaxed)),
            ("parked_clients", self.server.statistics.parked.load(Ordering::Relaxed)),
            ("commits", stats.sequence),
            ("log_files", stats.log_segments),
            ("log_bytes", stats.log_bytes),
            ("log_bytes_to_replay", stats.log_tail_bytes),
            ("checkpoint", stats.checkpoint),
            ("checkpoint_commits", stats.checkpoint_sequence),
            ("snapshots", stats.snapshots as u64),
            ("threads", self.server.config.threads as u64),
        ]);
        self.line("poisoned", u8::from(stats.poisoned));
        let lack = self.server.keyspace.lack_of_space();
        self.line("disk_full", u8::from(lack.is_some()));
        if let Some(reason) = lack {
            self.line("disk_full_reason", reason.replace(['\r', '\n'], " "));
        }
        self.line("data", self.server.config.directory().display());
        if let Some(failure) = &stats.checkpoint_failure {
            self.line("checkpoint_failure", failure.replace(['\r', '\n'], " "));
        }
        self.line("background_failures", stats.failures.len());
        for (number, failure) in stats.failures.iter().enumerate() {
            self.line(&format!("background_failure_{number}"), failure.to_string().replace(['\r', '\n'], " "));
        }
    }
}

/// A number of bytes for people, as Redis writes it.
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.2}T")
}
