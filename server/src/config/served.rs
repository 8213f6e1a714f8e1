//! The parameters that do something here, an entry each: what one may be, when it may be given, its default, what a
//! reader is told of it, and what it does. The flags of `quipu serve`, `CONFIG`, `docs/configuration.md` and the
//! example file are made from them. All other parameters of Redis are only remembered.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Config, Parameters};

/// Parameters of one subject.
pub struct Group {
    /// The subject, as a heading.
    pub title: &'static str,
    /// Whether `quipu serve --help` lists them. The others are given on the command line as `redis-server` takes them.
    pub are_flags: bool,
    /// In the order in which they are told.
    pub parameters: &'static [Served],
}

/// A parameter that has an effect.
pub struct Served {
    /// Its name in files, on the command line, and in `CONFIG`.
    pub name: &'static str,
    /// What it may be, when it may be given, and its default, as in the list of Redis's; `None`: it stands there.
    pub(super) declared: Option<&'static str>,
    /// What stands for its value in help.
    pub value_name: &'static str,
    /// What it does, for its users. The default is added where the text does not say it.
    pub help: &'static str,
    /// Whether the flag may be given more than once, for a list.
    pub is_list: bool,
    pub(super) effect: Effect,
    /// What has to be done with the running server when it is changed.
    pub(super) then: Option<Then>,
}

/// What a value does when it is set.
pub(super) enum Effect {
    /// It is read where it is needed.
    Read,
    /// A number that is kept beside the text, as it is needed for every command.
    Number(fn(&Parameters) -> &AtomicU64),
    /// Something else that is kept beside the text.
    Kept(fn(&Parameters, &str)),
    /// It is fixed when the server starts.
    Start(fn(&mut Config, &str)),
}

/// What has to be done with the running server when a parameter is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Durations of commands are measured, or not.
    TrackLatencies,
    /// The user `default` has another password.
    RequirePassword,
    /// The engine has another durability, or other limits of memory.
    ApplyToEngine,
}

use Effect::{Kept, Number, Read, Start};

/// One of Quipu's own.
const fn own(
    name: &'static str,
    declared: &'static str,
    value_name: &'static str,
    help: &'static str,
    effect: Effect,
) -> Served {
    Served { declared: Some(declared), ..redis(name, value_name, help, effect) }
}

/// One of Redis's.
const fn redis(name: &'static str, value_name: &'static str, help: &'static str, effect: Effect) -> Served {
    Served { name, declared: None, value_name, help, is_list: false, effect, then: None }
}

impl Served {
    const fn list(self) -> Served {
        Served { is_list: true, ..self }
    }

    const fn then(self, then: Then) -> Served {
        Served { then: Some(then), ..self }
    }
}

/// All parameters that have an effect.
#[rustfmt::skip]
pub static GROUPS: &[Group] = &[
    Group { title: "Data", are_flags: true, parameters: &[
        redis("data", "DIR", "The directory of the data; it is made if there is none",
            Start(|config, value| config.data = PathBuf::from(value))),
        own("durability", "one-of:sync|os|none any sync", "WHEN", "When a write is answered: sync, os or none",
            Kept(|parameters, value| parameters.put_durability(value))).then(Then::ApplyToEngine),
    ]},
    Group { title: "Faces", are_flags: true, parameters: &[
        redis("port", "PORT", "The port for Redis clients; 0 for none", Start(|config, value| config.port = port(value))),
        own("http-port", "int:0:65535 start 0", "PORT", "The port for HTTP; 0 for none",
            Start(|config, value| config.http_port = port(value))),
        own("pg-port", "int:0:65535 start 0", "PORT", "The port for clients of PostgreSQL; 0 for none",
            Start(|config, value| config.pg_port = port(value))),
        own("pg-connections-max", "int:1:10000 start 200", "COUNT",
            "How many clients of PostgreSQL may be connected: each has a thread",
            Start(|config, value| config.pg_connections_max = number(value) as usize)),
        own("pg-message-bytes-max", "bytes:65536:1073741824 start 268435456", "BYTES",
            "Bytes of one message of a client of PostgreSQL: a statement with its parameters, or a part of a COPY",
            Start(|config, value| config.pg_message_bytes_max = number(value) as usize)),
        own("pg-databases", "text start", "NAMES",
            "The databases that clients of PostgreSQL may name, with commas between them; all if empty",
            Start(|config, value| config.pg_databases = list(value))),
        own("pg-require-tls", "bool start no", "YES_OR_NO",
            "Whether clients of PostgreSQL are served over TLS only: yes or no",
            Start(|config, value| config.pg_needs_tls = value == "yes")),
        redis("bind", "ADDRESSES",
            "The addresses to listen at, several with commas or spaces between them, or the flag again; `*` for all",
            Start(|config, value| config.bind = list(value))).list(),
        redis("protected-mode", "YES_OR_NO",
            "Whether clients of other machines are turned away while the user `default` has no password: yes or no",
            Kept(|parameters, value| parameters.is_protected.store(value == "yes", Ordering::Relaxed))),
        redis("unixsocket", "PATH", "A local socket for Redis clients",
            Start(|config, value| config.unix_socket = path(value))),
        redis("unixsocketperm", "MODE",
            "The permissions of the local socket, in octal digits; 0 leaves them to the system",
            Start(|config, value| config.unix_socket_mode = u32::from_str_radix(value, 8).unwrap_or(0))),
        redis("tls-port", "PORT", "The port for Redis clients over TLS; 0 for none",
            Start(|config, value| config.tls_port = port(value))),
        redis("tls-cert-file", "FILE", "The server's certificate, in PEM",
            Start(|config, value| config.tls.certificate = path(value))),
        redis("tls-key-file", "FILE", "The server's private key, in PEM",
            Start(|config, value| config.tls.key = path(value))),
        redis("tls-ca-cert-file", "FILE", "Roots of clients' certificates, in PEM; without, clients need none",
            Start(|config, value| config.tls.authority = path(value))),
        redis("tls-auth-clients", "WHETHER",
            "Whether clients must have a certificate where there are roots: yes, no or optional",
            Start(|config, value| config.tls.clients_need_one = value == "yes")),
    ]},
    Group { title: "Cluster", are_flags: true, parameters: &[
        own("self-url", "text start", "URL", "The address at which other nodes reach this one",
            Start(|config, value| config.self_url = text(value))),
        own("cluster", "text start", "URLS",
            "The addresses of all nodes of the cluster, with commas between: the same list for each node",
            Start(|config, value| config.cluster = list(value))),
        own("join", "text start", "URLS",
            "The addresses of nodes of a cluster to join, with commas between; `quipu cluster add` lets this one in",
            Start(|config, value| config.join = list(value))),
        own("cluster-secret-file", "text start", "FILE",
            "A file with a secret that all nodes of the cluster have; others are refused",
            Start(|config, value| config.cluster_secret_file = path(value))),
        own("cluster-tls-cert-file", "text start", "FILE",
            "This node's certificate, in PEM, for TLS between nodes: a node without a good one is refused",
            Start(|config, value| config.cluster_tls.certificate = path(value))),
        own("cluster-tls-key-file", "text start", "FILE", "Its private key, in PEM",
            Start(|config, value| config.cluster_tls.key = path(value))),
        own("cluster-tls-ca-cert-file", "text start", "FILE", "Roots of the nodes' certificates, in PEM",
            Start(|config, value| config.cluster_tls.authority = path(value))),
        own("peer-port", "int:0:65535 start 0", "PORT",
            "A port of their own for the nodes of the cluster, which is told at the port of HTTP [default: that of HTTP]",
            Start(|config, value| config.peer_port = port(value))),
        own("replicas", "int:1:32 start", "COUNT",
            "Nodes that keep an entity where a request says nothing [default: all of the list]",
            Start(|config, value| config.replicas = value.parse().unwrap_or(0))),
        own("cluster-request-timeout-ms", "int:50:60000 start 1000", "MS",
            "How long a node waits for replicas before it answers 504; a long value has more time",
            Start(|config, value| config.cluster_limits.request_timeout_ms = number(value))),
        own("cluster-grace-s", "int:600:31536000 start 86400", "SECONDS",
            "How long tombstones are kept at least: far above all delays and errors of clocks",
            Start(|config, value| config.cluster_limits.grace_ms = number(value) * 1000)),
        own("cluster-repair-interval-s", "int:1:31536000 start 600", "SECONDS", "How often all replicas are compared",
            Start(|config, value| config.cluster_limits.repair_every_ms = number(value) * 1000)),
        own("cluster-repair-bytes-per-second", "bytes:65536:1125899906842624 start 16777216", "BYTES",
            "What repair may send in a second, and copies to new replicas too",
            Start(|config, value| config.cluster_limits.repair_bytes_per_second = number(value))),
        own("cluster-hint-age-s", "int:1:31536000 start 10800", "SECONDS",
            "How long a write is kept for a node that missed it; after that repair finds it",
            Start(|config, value| config.cluster_limits.hint_age_ms_max = number(value) * 1000)),
        own("cluster-hint-bytes", "bytes:65536:1125899906842624 start 1073741824", "BYTES",
            "Bytes of such writes for one node",
            Start(|config, value| config.cluster_limits.hint_bytes_max = number(value))),
        own("cluster-stamp-once", "bool start no", "YES_OR_NO",
            "Whether a write that may be stored somewhere is answered 504 rather than stamped again when it meets \
             something newer, so that nothing comes back that was seen and overwritten: yes or no",
            Start(|config, value| config.cluster_limits.stamps_once = value == "yes")),
        own("cluster-drain-ms", "int:0:600000 start 5000", "MS",
            "How long a node that leaves serves on after /readyz has said so",
            Start(|config, value| config.cluster_drain_ms = number(value))),
    ]},
    Group { title: "Limits", are_flags: true, parameters: &[
        own("threads", "int:1:256 start 1", "COUNT", "Threads that serve connections of Redis clients",
            Start(|config, value| config.threads = value.parse().unwrap_or(1))),
        redis("maxclients", "COUNT", "How many clients may be connected", Number(|parameters| &parameters.clients_max)),
        own("memtable-bytes", "bytes-or-zero:262144:1125899906842624 any 1073741824", "BYTES",
            "Memory of rows above which they go to disk, as in 4gb; 0 to keep all in memory",
            Number(|parameters| &parameters.memtable_bytes)).then(Then::ApplyToEngine),
        own("cache-bytes", "bytes:0:1125899906842624 any 268435456", "BYTES",
            "Memory for pages of rows that are on disk",
            Number(|parameters| &parameters.cache_bytes)).then(Then::ApplyToEngine),
        redis("maxmemory", "BYTES",
            "Memory of rows above which writes are refused, as in 4gb; 0 for no limit. Rows go to disk before, unless \
             all are to stay in memory",
            Number(|parameters| &parameters.memory_bytes_max)).then(Then::ApplyToEngine),
        redis("maxmemory-clients", "BYTES",
            "Memory of commands and answers that all clients together may make the server hold [default: 1gb]",
            Kept(|parameters, value| parameters.put_clients_limit(value))),
        redis("timeout", "SECONDS", "Seconds without a command after which a client is closed; 0 for never",
            Number(|parameters| &parameters.idle_s)),
        redis("requirepass", "PASSWORD", "The password of the user `default`", Read).then(Then::RequirePassword),
    ]},
    Group { title: "Log", are_flags: true, parameters: &[
        redis("slowlog-log-slower-than", "US", "Microseconds from which a command is kept for SLOWLOG; -1 for none",
            Kept(|parameters, value| parameters.slow_us.store(value.parse().unwrap_or(-1), Ordering::Relaxed))),
        redis("logfile", "FILE", "Where log lines go [default: standard error]",
            Start(|config, value| config.log_file = path(value))),
        redis("loglevel", "LEVEL", "How much is logged: debug, verbose, notice or warning", Read),
    ]},
    Group { title: "More", are_flags: false, parameters: &[
        redis("acllog-max-len", "COUNT", "Refusals that ACL LOG keeps", Number(|parameters| &parameters.refusals_max)),
        redis("appendfsync", "WHEN", "`durability` in Redis's words: always for sync, everysec and no for os",
            Kept(|parameters, value| parameters.put_durability(value))).then(Then::ApplyToEngine),
        redis("client-output-buffer-limit", "LIMITS",
            "Bytes of answers that are not taken above which their client is closed, for the class `normal`: a hard \
             limit, a soft one, and for how many seconds the soft one may be passed; 0 for no limit",
            Kept(|parameters, value| parameters.put_output_limits(value))),
        redis("client-query-buffer-limit", "BYTES",
            "Bytes of a command that has not come whole above which its client is closed",
            Number(|parameters| &parameters.query_bytes_max)),
        redis("enable-debug-command", "WHETHER", "Whether DEBUG is served: no, yes, or to clients of this machine",
            Read),
        redis("io-threads", "COUNT", "Another name of `threads`",
            Start(|config, value| config.threads = value.parse().unwrap_or(1))),
        redis("latency-monitor-threshold", "MS", "Milliseconds from which LATENCY keeps an event; 0 for none",
            Number(|parameters| &parameters.latency_ms)),
        redis("latency-tracking", "YES_OR_NO", "Whether durations of commands are measured for LATENCY HISTOGRAM", Read)
            .then(Then::TrackLatencies),
        redis("latency-tracking-info-percentiles", "NUMBERS", "Percentiles of durations that INFO tells", Read),
        own("long-threads", "int:0:256 start 0", "COUNT",
            "Threads that put long answers together; 0 for half of the processors, from 2 to 8",
            Start(|config, value| config.long_threads = long_threads(value))),
        own("poll-us", "int:0:1000000 any 50", "US",
            "Microseconds for which a thread asks for more to do before it sleeps",
            Number(|parameters| &parameters.poll_us)),
        redis("proto-max-bulk-len", "BYTES", "Bytes of one word of a command",
            Number(|parameters| &parameters.bulk_bytes_max)),
        redis("slowlog-max-len", "COUNT", "Slow commands that are kept",
            Number(|parameters| &parameters.slow_commands_max)),
    ]},
];

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Served> {
    GROUPS.iter().flat_map(|group| group.parameters)
}

fn number(value: &str) -> u64 {
    value.parse().unwrap_or(0)
}

/// A port; 0: that face is not served.
fn port(value: &str) -> Option<u16> {
    value.parse().ok().filter(|port| *port != 0)
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|text| !text.is_empty())
}

fn path(value: &str) -> Option<PathBuf> {
    text(value).map(PathBuf::from)
}

fn list(value: &str) -> Vec<String> {
    value.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// As many as are asked for, or half of the processors.
fn long_threads(value: &str) -> usize {
    match value.parse::<usize>() {
        Ok(number @ 1..) => number,
        _ => (std::thread::available_parallelism().map_or(2, usize::from) / 2).clamp(2, 8),
    }
}
