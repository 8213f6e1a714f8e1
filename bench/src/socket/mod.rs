//! Servers measured from outside: raw sockets with no driver between, requests and answers as bytes.
//!
//! | module | |
//! |---|---|
//! | `server` | which servers there are, where their programs are, with which settings they start |
//! | `process` | a server while it runs: its CPU time and memory; stopped when dropped |
//! | `dialect` | the four requests of a table of rows, in either protocol |
//! | `resp`, `iproto` | the protocols' bytes: of Redis and Quipu, of Tarantool |
//! | `questions` | positions, sorted sets and transactions, with the answers they must get |
//! | `strings` | strings by key, one request at a time |
//! | `batch` | requests that go out together, beside their answers |
//! | `connection` | one connection that sends a batch, reads its answers and checks them |
//! | `crowd` | many connections with one request each under way |
//! | `figure` | what they took |
//!
//! Invariants:
//! 1. Requests are built and answers are checked outside of what is timed; timed is the first write to the last
//!    answer's arrival.
//! 2. Every answer is compared, byte for byte, with the one it must be; an error is reported in the server's words.
//! 3. Writing and reading interleave, so that a batch of any size goes through whatever the socket buffers hold.
//!
//! Not here: drivers, TLS, a network. Everything goes over the loopback, so the client's CPU time competes with the
//! server's.

mod batch;
mod connection;
mod crowd;
mod dialect;
mod figure;
mod iproto;
mod process;
mod questions;
pub(crate) mod resp;
mod server;
mod strings;

pub(crate) use batch::Batch;
pub(crate) use connection::Connection;
pub(crate) use crowd::{Crowd, wait_for_answers};
pub(crate) use dialect::{Dialect, Request, Row};
pub(crate) use figure::{Figure, cells_of, median_of};
pub(crate) use process::Process;
pub(crate) use questions::{Position, SortedSet, SortedSetQuestion, Transaction, queued_sets, withdraw_queued};
pub(crate) use server::{Running, Server, find, find_quipu, pause, rest, settle};
pub(crate) use strings::Strings;
