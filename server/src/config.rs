//! What can be configured.

use std::path::PathBuf;

use quipu::Durability;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the data is.
    pub data: PathBuf,
    /// When a commit is answered.
    pub durability: Durability,
    /// Addresses to listen at.
    pub bind: Vec<String>,
    /// The port of the Redis protocol.
    pub port: Option<u16>,
    /// Threads that serve connections.
    pub threads: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("quipu-data"),
            durability: Durability::Sync,
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(6379),
            threads: 1,
        }
    }
}

impl Config {
    /// When a commit is answered.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Where the data is.
    pub fn directory(&self) -> PathBuf {
        self.data.clone()
    }

    /// Bytes that one client may queue in a transaction.
    pub fn queue_bytes_max(&self) -> usize {
        1 << 30
    }

    /// Bytes of a command that has not come whole above which its client is closed.
    pub fn query_bytes_max(&self) -> usize {
        1 << 30
    }

    /// Bytes of answers that a client does not take above which it is closed.
    pub fn output_bytes_max(&self) -> usize {
        1 << 30
    }

    /// Whether new clients are authenticated.
    pub fn needs_no_password(&self) -> bool {
        true
    }
}
