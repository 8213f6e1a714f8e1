//! The configuration: what is fixed at the start ([`Config`]), and what `CONFIG SET` changes while the server runs
//! ([`Parameters`]).
//!
//! Values come from the defaults, a file (`file`), the environment (`QUIPU_MAXCLIENTS=100`) and the command line; each
//! overrides those before. A parameter has the same name in all four, and an entry of its own in `served`.
//!
//! Not here: the command line, `CONFIG`.

pub mod file;
mod kinds;
pub mod parameters;
pub mod reference;
pub mod served;
mod texts;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use quipu::Durability;
use quipu_cluster::limits::Limits;

use crate::tls::TlsFiles;

use served::{Effect, Served};

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
    /// The port of the PostgreSQL protocol; `None`: it is not served.
    pub pg_port: Option<u16>,
    /// Sessions of the PostgreSQL protocol that there may be.
    pub pg_connections_max: usize,
    /// Bytes of the largest message of the PostgreSQL protocol that is taken.
    pub pg_message_bytes_max: usize,
    /// The databases that clients of the PostgreSQL protocol may name; all if empty.
    pub pg_databases: Vec<String>,
    /// Whether the PostgreSQL protocol is spoken over TLS only.
    pub pg_needs_tls: bool,
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
    /// The file with the secret that all nodes of the cluster share.
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
    /// The limits of a node of a cluster; those that cannot be configured are the defaults.
    pub cluster_limits: Limits,
    /// How long a node that leaves its cluster serves on after `/readyz` has said so, in milliseconds.
    pub cluster_drain_ms: u64,
    /// Threads that put long answers together.
    pub long_threads: usize,
    /// What can be changed while the server runs, and what Redis has and Quipu only remembers.
    pub parameters: Parameters,
}

impl Default for Config {
    /// All parameters at their defaults.
    fn default() -> Self {
        let mut config = Config {
            data: PathBuf::new(),
            bind: Vec::new(),
            port: None,
            http_port: None,
            pg_port: None,
            pg_connections_max: 0,
            pg_message_bytes_max: 0,
            pg_databases: Vec::new(),
            pg_needs_tls: false,
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
            cluster_limits: Limits::default(),
            cluster_drain_ms: 0,
            long_threads: 0,
            parameters: Parameters::default(),
        };
        for parameter in parameters::list() {
            config.start_with(parameter.served, parameter.default);
        }
        config
    }
}

impl Config {
    /// Sets what has this name, at the start.
    ///
    /// # Errors
    /// There is no such name, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Rejected> {
        self.parameters.set_at_start(name, value)?;
        let kept = self.parameters.get(name).unwrap_or_default();
        self.start_with(parameters::named(name).and_then(|parameter| parameter.served), &kept);
        Ok(())
    }

    fn start_with(&mut self, served: Option<&'static Served>, value: &str) {
        if let Some(Effect::Start(take_effect)) = served.map(|served| &served.effect) {
            take_effect(self, value);
        }
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
        assert_eq!(config.cluster_limits, Limits::default());
        config.set("cluster-grace-s", "7200").unwrap();
        config.set("cluster-hint-bytes", "64mb").unwrap();
        config.set("cluster-stamp-once", "yes").unwrap();
        let given = Limits { grace_ms: 7_200_000, hint_bytes_max: 64 << 20, stamps_once: true, ..Limits::default() };
        assert_eq!(config.cluster_limits, given);
        // 0 was "all nodes of the list" on this node, whatever the others were told.
        let refused = config.set("replicas", "0");
        let why = "argument must be between 1 and 32 inclusive";
        assert_eq!(refused, Err(Rejected::Because(why.to_owned())));
    }
}
