//! What `quipu serve` is told: a file, the environment, flags of its own, and any parameter of Redis as `redis-server`
//! takes it.
//!
//! All are names with values, applied in this order to one configuration, which knows what each may be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args as _;
use quipu_server::config::{Config, Rejected, file, parameters};

use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  quipu serve                                       Redis clients at port 6379, the data in ./quipu-data
  quipu serve --port 7000 --data air --durability os
  quipu serve --port 6379 --http-port 8000          two faces of the same keys
  quipu serve --http-port 8001 --self-url http://a:8001 --data a --cluster http://a:8001,http://b:8001,http://c:8001
                                                    one of three nodes, each with the same list
  quipu serve --config quipu.toml --maxclients 500  a file, and a flag over it
  quipu serve --memtable-bytes 256mb --cache-bytes 512mb   many more keys than memory holds: the rest is on disk
  QUIPU_REQUIREPASS=secret quipu serve --bind 0.0.0.0 --tls-port 6380 --tls-cert-file c.pem --tls-key-file k.pem

Which face is served: those whose port is named; Redis clients at 6379 if none is.

When is a write answered (--durability)?
  sync  when it is on stable storage: survives a power loss; many writes share one fsync
  os    when the operating system has it: survives a killed process, not a power loss
  none  at once: what survives is everything up to some moment

Where values come from, the later over the earlier: defaults, the file (--config), the environment, flags.
The file is TOML with the same names, and users:
  port = 6379
  durability = \"os\"
  [users]
  reader = \"on >secret ~public:* +@read\"
In the environment a name is in capitals: QUIPU_PORT, QUIPU_TLS_PORT.

Every parameter of Redis 7 is accepted as redis-server takes it (--save \"\" --appendonly yes); those that mean nothing here are
named in the log. CONFIG GET * lists all of them, and CONFIG SET changes many while the server runs.

SIGTERM and SIGINT end it in order: answers are sent, a checkpoint is made. A second signal ends it at once.";

/// Serves a database to Redis clients and over HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Read the configuration from this file
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    config: Option<PathBuf>,
    /// Where the data is; made if there is none [default: quipu-data]
    #[arg(long, visible_alias = "dir", value_name = "DIR", help_heading = "Data")]
    data: Option<String>,
    /// When a write is answered: sync, os or none [default: sync]
    #[arg(long, value_name = "WHEN", help_heading = "Data")]
    durability: Option<String>,
    /// The port for Redis clients; 0 for none
    #[arg(long, help_heading = "Faces")]
    port: Option<String>,
    /// The port for HTTP
    #[arg(long, value_name = "PORT", help_heading = "Faces")]
    http_port: Option<String>,
    /// The addresses to listen at, several with commas or spaces between them, or the flag again; `*` for all [default:
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDRESSES", allow_hyphen_values = true, help_heading = "Faces")]
    bind: Vec<String>,
    /// Whether clients of other machines are turned away while the user `default` has no password: yes or no [default:
    /// yes]
    #[arg(long, value_name = "WHETHER", help_heading = "Faces")]
    protected_mode: Option<String>,
    /// A local socket for Redis clients
    #[arg(long, value_name = "PATH", help_heading = "Faces")]
    unixsocket: Option<String>,
    /// The permissions of the local socket, in octal digits
    #[arg(long, value_name = "MODE", help_heading = "Faces")]
    unixsocketperm: Option<String>,
    /// The port for Redis clients over TLS
    #[arg(long, value_name = "PORT", help_heading = "Faces")]
    tls_port: Option<String>,
    /// The server's certificate, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Faces")]
    tls_cert_file: Option<String>,
    /// The server's private key, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Faces")]
    tls_key_file: Option<String>,
    /// Roots of clients' certificates, in PEM; without, clients need none
    #[arg(long, value_name = "FILE", help_heading = "Faces")]
    tls_ca_cert_file: Option<String>,
    /// Whether clients must have a certificate where there are roots: yes, no or optional [default: yes]
    #[arg(long, value_name = "WHETHER", help_heading = "Faces")]
    tls_auth_clients: Option<String>,
    /// The address at which other nodes reach this one
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    self_url: Option<String>,
    /// The addresses of all nodes of the cluster, with commas between: the same list for each node
    #[arg(long, value_name = "URLS", help_heading = "Cluster")]
    cluster: Option<String>,
    /// The addresses of nodes of a cluster to join, with commas between; `quipu cluster add` lets this one in
    #[arg(long, value_name = "URLS", help_heading = "Cluster", conflicts_with = "cluster")]
    join: Option<String>,
    /// A file with a secret that all nodes of the cluster have; others are refused
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster_secret_file: Option<String>,
    /// This node's certificate, in PEM, for TLS between nodes: a node without a good one is refused
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster_tls_cert_file: Option<String>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster_tls_key_file: Option<String>,
    /// Roots of the nodes' certificates, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster_tls_ca_cert_file: Option<String>,
    /// A port of their own for the nodes of the cluster; they find it at the port of HTTP [default: that of HTTP]
    #[arg(long, value_name = "PORT", help_heading = "Cluster")]
    peer_port: Option<String>,
    /// Nodes that keep an entity where a request says nothing [default: all of the list]
    #[arg(long, value_name = "COUNT", help_heading = "Cluster")]
    replicas: Option<String>,
    /// How long replicas are waited for before a request is answered 504; a long value has more [default: 1000]
    #[arg(long, value_name = "MS", help_heading = "Cluster")]
    cluster_request_timeout_ms: Option<String>,
    /// How long tombstones are kept at least: far above all delays and errors of clocks [default: 86400, a day]
    #[arg(long, value_name = "SECONDS", help_heading = "Cluster")]
    cluster_grace_s: Option<String>,
    /// How often all replicas are compared [default: 600]
    #[arg(long, value_name = "SECONDS", help_heading = "Cluster")]
    cluster_repair_interval_s: Option<String>,
    /// What repair may send in a second, and copies to new replicas too, as in 16mb [default: 16mb]
    #[arg(long, value_name = "BYTES", help_heading = "Cluster")]
    cluster_repair_bytes_per_second: Option<String>,
    /// How long a write is kept for a node that missed it; after that repair finds it [default: 10800]
    #[arg(long, value_name = "SECONDS", help_heading = "Cluster")]
    cluster_hint_age_s: Option<String>,
    /// Bytes of such writes for one node [default: 1gb]
    #[arg(long, value_name = "BYTES", help_heading = "Cluster")]
    cluster_hint_bytes: Option<String>,
    /// Whether a write that may be stored somewhere is answered 504 rather than stamped again when it meets something
    /// newer, so that nothing comes back that was seen and overwritten: yes or no [default: no]
    #[arg(long, value_name = "YES_OR_NO", help_heading = "Cluster")]
    cluster_stamp_once: Option<String>,
    /// How long a node that leaves serves on after /readyz has said so [default: 5000]
    #[arg(long, value_name = "MS", help_heading = "Cluster")]
    cluster_drain_ms: Option<String>,
    /// Threads that serve connections of Redis clients [default: 1]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    threads: Option<String>,
    /// How many clients may be connected [default: 10000]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    maxclients: Option<String>,
    /// Memory of rows above which they go to disk, as in 4gb; 0 to keep all in memory [default: 1gb]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    memtable_bytes: Option<String>,
    /// Memory for pages of rows that are on disk [default: 256mb]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    cache_bytes: Option<String>,
    /// Memory of rows above which writes are refused, as in 4gb; 0 for no limit. Rows go to disk before, unless all are
    /// to stay in memory [default: 0]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    maxmemory: Option<String>,
    /// Memory of commands and answers that all clients together may make the server hold [default: 1gb]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    maxmemory_clients: Option<String>,
    /// Seconds without a command after which a client is closed; 0 for never [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    timeout: Option<String>,
    /// The password of the user `default`
    #[arg(long, value_name = "PASSWORD", help_heading = "Limits")]
    requirepass: Option<String>,
    /// Microseconds from which a command is kept for SLOWLOG; -1 for none [default: 10000]
    #[arg(long, value_name = "US", allow_hyphen_values = true, help_heading = "Log")]
    slowlog_log_slower_than: Option<String>,
    /// Where log lines go [default: standard error]
    #[arg(long, value_name = "FILE", help_heading = "Log")]
    logfile: Option<String>,
    /// How much is logged: verbose, notice or warning [default: notice]
    #[arg(long, value_name = "LEVEL", help_heading = "Log")]
    loglevel: Option<String>,
    /// Parameters as redis-server takes them.
    #[arg(skip)]
    pub(crate) redis_style: Vec<(String, String)>,
}

impl Args {
    /// Flags that were given, by name.
    fn given(&self) -> Vec<(&'static str, String)> {
        let one = |name: &'static str, value: &Option<String>| value.clone().map(|value| (name, value));
        let bind = (!self.bind.is_empty()).then(|| self.bind.join(" ").replace(',', " "));
        [
            one("data", &self.data),
            one("durability", &self.durability),
            one("port", &self.port),
            one("http-port", &self.http_port),
            one("bind", &bind),
            one("protected-mode", &self.protected_mode),
            one("unixsocket", &self.unixsocket),
            one("unixsocketperm", &self.unixsocketperm),
            one("tls-port", &self.tls_port),
            one("tls-cert-file", &self.tls_cert_file),
            one("tls-key-file", &self.tls_key_file),
            one("tls-ca-cert-file", &self.tls_ca_cert_file),
            one("tls-auth-clients", &self.tls_auth_clients),
            one("self-url", &self.self_url),
            one("cluster", &self.cluster),
            one("join", &self.join),
            one("cluster-secret-file", &self.cluster_secret_file),
            one("cluster-tls-cert-file", &self.cluster_tls_cert_file),
            one("cluster-tls-key-file", &self.cluster_tls_key_file),
            one("cluster-tls-ca-cert-file", &self.cluster_tls_ca_cert_file),
            one("peer-port", &self.peer_port),
            one("replicas", &self.replicas),
            one("cluster-request-timeout-ms", &self.cluster_request_timeout_ms),
            one("cluster-grace-s", &self.cluster_grace_s),
            one("cluster-repair-interval-s", &self.cluster_repair_interval_s),
            one("cluster-repair-bytes-per-second", &self.cluster_repair_bytes_per_second),
            one("cluster-hint-age-s", &self.cluster_hint_age_s),
            one("cluster-hint-bytes", &self.cluster_hint_bytes),
            one("cluster-stamp-once", &self.cluster_stamp_once),
            one("cluster-drain-ms", &self.cluster_drain_ms),
            one("threads", &self.threads),
            one("maxclients", &self.maxclients),
            one("memtable-bytes", &self.memtable_bytes),
            one("cache-bytes", &self.cache_bytes),
            one("maxmemory", &self.maxmemory),
            one("maxmemory-clients", &self.maxmemory_clients),
            one("timeout", &self.timeout),
            one("requirepass", &self.requirepass),
            one("slowlog-log-slower-than", &self.slowlog_log_slower_than),
            one("logfile", &self.logfile),
            one("loglevel", &self.loglevel),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Takes parameters of Redis that are no flags of `serve` out of a command line: a name with the words up to the next
/// name, as `--save 60 1`.
pub(crate) fn take_redis_style(words: Vec<OsString>) -> (Vec<OsString>, Vec<(String, String)>) {
    let is_serve = words.get(1).is_some_and(|word| word == "serve");
    if !is_serve {
        return (words, Vec::new());
    }
    let command = Args::augment_args(clap::Command::new("serve"));
    let is_flag = |name: &str| {
        let is_alias = |arg: &clap::Arg| arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name));
        command.get_arguments().any(|arg| arg.get_long() == Some(name) || is_alias(arg))
    };
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let name = word.to_str().and_then(|text| text.strip_prefix("--")).map(str::to_owned);
        match name {
            Some(text) => {
                let (name, first) = match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text, None),
                };
                if is_flag(&name) || !parameters::is_known(&name) {
                    left.push(word);
                    continue;
                }
                let mut values: Vec<String> = first.into_iter().collect();
                while let Some(value) = words.next_if(|word| !word.to_string_lossy().starts_with("--")) {
                    values.push(value.to_string_lossy().into_owned());
                }
                taken.push((name, values.join(" ")));
            }
            None => left.push(word),
        }
    }
    (left, taken)
}

/// Puts a configuration together. Also returns the names that were given and have no effect here.
pub(super) fn configure(args: &Args) -> Result<(Config, Vec<String>)> {
    let mut config = Config::default();
    let mut named: Vec<String> = Vec::new();
    if let Some(path) = &args.config {
        named.extend(read_file(&mut config, path)?);
    }
    for name in parameters::names().chain(["data"]) {
        let variable = format!("QUIPU_{}", name.replace('-', "_").to_uppercase());
        if let Ok(value) = std::env::var(&variable) {
            config.set(name, &value).map_err(|rejected| usage(&format!("{variable}={value}"), &rejected))?;
            named.push(name.to_owned());
        }
    }
    let given = args.given().into_iter().map(|(name, value)| (name.to_owned(), value));
    for (name, value) in given.chain(args.redis_style.iter().cloned()) {
        // A password is not shown.
        let shown = if name.contains("pass") { "..." } else { &value };
        config.set(&name, &value).map_err(|rejected| usage(&format!("--{name} {shown}"), &rejected))?;
        named.push(name);
    }
    let is_named = |face: &str| named.iter().any(|name| name == face);
    if ["http-port", "tls-port", "unixsocket"].iter().any(|face| is_named(face)) && !is_named("port") {
        config.port = None;
    }
    if config.port.is_none() && config.http_port.is_none() && config.tls_port.is_none() && config.unix_socket.is_none()
    {
        return Err(Failure::Usage(
            "nothing is to be served: name `--port`, `--http-port`, `--tls-port` or `--unixsocket`".into(),
        ));
    }
    named.retain(|name| !parameters::has_effect(name));
    named.sort();
    named.dedup();
    Ok((config, named))
}

fn read_file(config: &mut Config, path: &Path) -> Result<Vec<String>> {
    file::read(config, path).map_err(Failure::Usage)
}

fn usage(given: &str, rejected: &Rejected) -> Failure {
    Failure::Usage(match rejected {
        Rejected::Unknown => format!("`{given}`: no such setting"),
        Rejected::Because(why) => format!("`{given}`: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (String, Vec<(String, String)>) {
        let words = line.split(' ').map(|word| OsString::from(if word == "''" { "" } else { word })).collect();
        let (left, taken) = take_redis_style(words);
        (left.join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned(), taken)
    }

    #[test]
    fn parameters_of_redis_are_taken_out() {
        let (left, taken) = split("quipu serve --save '' --port 7000 --appendonly=no --save 60 1 --dir x --nosuch 1");
        assert_eq!(left, "quipu serve --port 7000 --dir x --nosuch 1");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(taken, [pair("save", ""), pair("appendonly", "no"), pair("save", "60 1")]);
    }

    #[test]
    fn other_commands_are_left_alone() {
        assert_eq!(split("quipu shell --save 1"), ("quipu shell --save 1".to_owned(), Vec::new()));
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_address_to_listen_at_does_not_swallow_the_flags_after_it() {
        use clap::Parser;
        let bound = |line: &str| {
            let args = Line::try_parse_from(line.split('+')).expect("a line").args;
            (args.given().into_iter().find(|(name, _)| *name == "bind").map(|(_, value)| value), args.port)
        };
        let port = Some("7111".to_owned());
        assert_eq!(bound("quipu+--bind+127.0.0.1+--port+7111"), (Some("127.0.0.1".to_owned()), port.clone()));
        let both = Some("127.0.0.1 -::1".to_owned());
        assert_eq!(bound("quipu+--port+7111+--bind+127.0.0.1 -::1"), (both.clone(), port.clone()));
        assert_eq!(bound("quipu+--bind+127.0.0.1,-::1+--port+7111"), (both.clone(), port.clone()));
        assert_eq!(bound("quipu+--bind+127.0.0.1+--bind+-::1+--port+7111"), (both, port));
    }
}
