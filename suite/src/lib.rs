//! Tests of the server from outside, as one program, `quipu-suite`. It starts real server processes and talks to them
//! over sockets; nothing here links the engine or the server.
//!
//! - [`differential`]: the same seeded commands go to Quipu and to redis-server, and the replies must be the same
//!   bytes, but for what [`exceptions`] lists.
//! - [`kill`]: what was acknowledged before `kill -9` must be there after it.
//! - [`transfers`]: the same of pgbench's transactions, over the protocol of PostgreSQL.
//! - [`redis_py`]: the tests of a Redis client, run against Quipu.
//!
//! | file | noun |
//! |---|---|
//! | [`value`], [`client`] | a reply, and the connection it comes over |
//! | [`postgres`] | a connection of PostgreSQL's protocol |
//! | [`process`] | a server process: started, ready, stopped, killed |
//! | [`command`], [`step`] | what is sent |
//! | [`generate`], [`frames`] | where it comes from |
//! | [`exceptions`], [`comparison`] | which replies count as the same |
//! | [`pair`] | two servers that are sent the same |
//! | [`clock`], [`dice`] | time and chance |
//! | [`shrink`], [`report`] | from a difference to the shortest history that shows it |
//!
//! # Invariants
//!
//! 1. A seed determines every byte that is sent. What depends on a reply (cursors, dumped values) is asked for by a
//!    [`step::Step`] of its own, so that it can be replayed.
//! 2. Between two steps no reply is outstanding on any connection, so the interleaving of clients is the same on both
//!    servers.
//! 3. No step leaves a key that expires within the hour: what expires, is past already or waited for and looked at
//!    in the same step.
//!
//! Not here: tests of single functions (beside the functions), and speed (`quipu-bench`).

#![forbid(unsafe_code)]

pub mod client;
pub mod clock;
pub mod command;
pub mod comparison;
pub mod dice;
pub mod differential;
pub mod exceptions;
pub mod frames;
pub mod generate;
pub mod kill;
pub mod pair;
pub mod postgres;
pub mod process;
pub mod redis_py;
pub mod report;
pub mod shrink;
pub mod step;
pub mod transfers;
pub mod value;
