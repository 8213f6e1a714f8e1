//! The server of Quipu: the protocols of Redis and PostgreSQL, and HTTP, over the engine.
//!
//! The folders are layers, from the bottom to the top: [`system`]; [`resp`], the protocol as bytes; [`keyspace`], the
//! keys, and [`facts`], what is known of each command; [`users`]; [`config`]; [`cluster`], a node of a cluster;
//! [`entities`], wherever they are; [`state`], what connections share;
//! [`command`], what each command does; [`execution`], which runs them; [`net`], [`http`] and [`postgres`], the three
//! faces.
//! `docs/internals/server.md` tells how they work together, and `tests/arrows.rs` checks that none uses one above it.

pub mod cluster;
pub mod command;
pub mod config;
pub mod entities;
pub mod execution;
pub mod facts;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
pub mod http;
pub mod keyspace;
pub mod net;
pub mod postgres;
pub mod profile;
pub mod resp;
pub mod state;
pub mod system;
pub mod tls;
pub mod users;

pub use state::server::Server;
