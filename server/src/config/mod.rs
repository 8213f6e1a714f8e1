//! The configuration: what is fixed at the start ([`Config`]), and what `CONFIG SET` changes while the server runs
//! ([`Parameters`]).
//!
//! Values come from the defaults, a file (`file`), the environment (`QUIPU_MAXCLIENTS=100`) and the command line; each
//! overrides those before. A parameter has the same name in all four.
//!
//! Not here: the command line, `CONFIG`.

pub mod file;
pub mod parameters;
mod texts;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use quipu::Durability;
use quipu_cluster::limits::Limits;

use crate::tls::TlsFiles;

pub use parameters::{Parameters, Rejected};

/// The configuration of a server.
#[derive(Debug)]
pub struct Config {
    /// Where the data is.
    pub data: PathBuf,
    /// Addresses to listen at.
    pub bind: Vec<String>,
    /// The port of the Redis protocol; `None`: it is not served.
    pub port: Option<u16>,
    /// The port of HTTP; `None`: it is not served.
    pub http_port: Option<u16>,
    /// The port of the Redis protocol over TLS.
    pub tls_port: Option<u16>,
    /// Its certificates.
    pub tls: TlsFiles,
    /// A local socket for the Redis protocol.
    pub unix_socket: Option<PathBuf>,
    /// Its permissions; 0: as they come.
    pub unix_socket_mode: u32,
    /// The address at which other nodes reach this one.
    pub self_url: Option<String>,
    /// The addresses of all nodes.
    pub cluster: Vec<String>,
    /// Addresses of members of the cluster that this node joins.
    pub join: Vec<String>,
    /// The port at which nodes of the cluster meet; without, they meet at that of HTTP.
    pub peer_port: Option<u16>,
    /// The file with what all nodes know and nobody else.
    pub cluster_secret_file: Option<PathBuf>,
    /// The node's certificate, its key and the roots of its peers; none if nodes do not speak TLS with each other.
    pub cluster_tls: TlsFiles,
    /// Replicas of an entity where a request says nothing; 0: all nodes.
    pub replicas: u8,
    /// Threads that serve connections.
    pub threads: usize,
    /// Where log lines go; standard error if `None`.
    pub log_file: Option<PathBuf>,
    /// The file that it was read from, which `CONFIG REWRITE` writes.
    pub file: Option<PathBuf>,
    /// Users as the file has them: a name, and rules as `ACL SETUSER` takes them.
    pub users: Vec<(String, String)>,
    /// What can be changed while the server runs, and what Redis has and Quipu only remembers.
    pub parameters: Parameters,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("quipu-data"),
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(6379),
            http_port: None,
            tls_port: None,
            tls: TlsFiles::default(),
            unix_socket: None,
            unix_socket_mode: 0,
            self_url: None,
            cluster: Vec::new(),
            join: Vec::new(),
            peer_port: None,
            cluster_secret_file: None,
            cluster_tls: TlsFiles::default(),
            replicas: 0,
            threads: 1,
            log_file: None,
            file: None,
            users: Vec::new(),
            parameters: Parameters::default(),
        }
    }
}

impl Config {
    /// Sets what has this name, at the start.
    ///
    /// # Errors
    /// There is no such name, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Rejected> {
        let name = name.to_ascii_lowercase();
        if name == "replicas" && value.trim().parse() == Ok(0) {
            let text = "an entity has 1 replica or more; without the setting, all nodes of the list keep it";
            return Err(Rejected::Because(text.to_owned()));
        }
        self.parameters.set_at_start(&name, value)?;
        let kept = self.parameters.get(&name).unwrap_or_default();
        let text = || Some(kept.clone()).filter(|text| !text.is_empty());
        let path = || text().map(PathBuf::from);
        let port = || kept.parse().ok().filter(|port| *port != 0);
        let list = || kept.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect();
        match name.as_str() {
            "dir" | "data" => self.data = PathBuf::from(value),
            "bind" => self.bind = list(),
            // Port 0: that face is not served.
            "port" => self.port = port(),
            "http-port" => self.http_port = port(),
            "tls-port" => self.tls_port = port(),
            "tls-cert-file" => self.tls.certificate = path(),
            "tls-key-file" => self.tls.key = path(),
            "tls-ca-cert-file" => self.tls.authority = path(),
            "tls-auth-clients" => self.tls.clients_need_one = kept == "yes",
            "unixsocket" => self.unix_socket = path(),
            "unixsocketperm" => self.unix_socket_mode = u32::from_str_radix(&kept, 8).unwrap_or(0),
            "self-url" => self.self_url = text(),
            "cluster" => self.cluster = list(),
            "join" => self.join = list(),
            "peer-port" => self.peer_port = port(),
            "cluster-secret-file" => self.cluster_secret_file = path(),
            "cluster-tls-cert-file" => self.cluster_tls.certificate = path(),
            "cluster-tls-key-file" => self.cluster_tls.key = path(),
            "cluster-tls-ca-cert-file" => self.cluster_tls.authority = path(),
            "replicas" => self.replicas = kept.parse().unwrap_or(0),
            "threads" | "io-threads" => self.threads = kept.parse().unwrap_or(1),
            "logfile" => self.log_file = path(),
            _ => {}
        }
        Ok(())
    }

    /// Threads that put long answers together: half of the processors if nothing is said, from 2 to 8.
    pub fn long_threads(&self) -> usize {
        match self.parameters.get("long-threads").and_then(|number| number.parse().ok()) {
            None | Some(0) => (std::thread::available_parallelism().map_or(2, usize::from) / 2).clamp(2, 8),
            Some(number) => number,
        }
    }

    /// The limits of a node of a cluster that can be configured; the others are the defaults.
    pub fn cluster_limits(&self) -> Limits {
        let number = |name: &str| self.parameters.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        Limits {
            request_timeout_ms: number("cluster-request-timeout-ms"),
            grace_ms: number("cluster-grace-s") * 1000,
            repair_every_ms: number("cluster-repair-interval-s") * 1000,
            repair_bytes_per_second: number("cluster-repair-bytes-per-second"),
            hint_age_ms_max: number("cluster-hint-age-s") * 1000,
            hint_bytes_max: number("cluster-hint-bytes"),
            stamps_once: self.parameters.get("cluster-stamp-once").is_some_and(|word| word == "yes"),
            ..Limits::default()
        }
    }

    /// How long a node that leaves its cluster serves on after `/readyz` has said so, in milliseconds.
    pub fn cluster_drain_ms(&self) -> u64 {
        self.parameters.get("cluster-drain-ms").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// When a commit is answered.
    pub fn durability(&self) -> Durability {
        self.parameters.durability()
    }

    /// The same, with commits answered then.
    pub fn with_durability(self, durability: Durability) -> Config {
        let word = match durability {
            Durability::Sync => "sync",
            Durability::Os => "os",
            Durability::None => "none",
        };
        self.parameters.set("durability", word.to_owned());
        self
    }

    /// Where the data is.
    pub fn directory(&self) -> PathBuf {
        self.data.clone()
    }

    /// Bytes that one client may queue in a transaction.
    pub fn queue_bytes_max(&self) -> usize {
        self.query_bytes_max()
    }

    /// Bytes of a command that has not come whole above which its client is closed.
    pub fn query_bytes_max(&self) -> usize {
        self.parameters.query_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// Bytes of answers that a client does not take above which it is closed.
    pub fn output_bytes_max(&self) -> usize {
        // Where there is no limit, a client that takes nothing still is given no more than this: its commands are not
        // read meanwhile, so one answer.
        match self.parameters.output_bytes_max.load(Ordering::Relaxed) as usize {
            0 => 4 << 30,
            bytes => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_node_are_those_that_were_given_or_the_defaults() {
        let mut config = Config::default();
        assert_eq!(config.cluster_limits(), Limits::default());
        config.set("cluster-grace-s", "7200").unwrap();
        config.set("cluster-hint-bytes", "64mb").unwrap();
        config.set("cluster-stamp-once", "yes").unwrap();
        let given = Limits { grace_ms: 7_200_000, hint_bytes_max: 64 << 20, stamps_once: true, ..Limits::default() };
        assert_eq!(config.cluster_limits(), given);
        // 0 was "all nodes of the list" on this node, whatever the others were told.
        let refused = config.set("replicas", "0");
        assert!(matches!(&refused, Err(Rejected::Because(why)) if why.contains("1 replica or more")), "{refused:?}");
    }
}
