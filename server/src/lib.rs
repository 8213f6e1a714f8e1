//! The server of Quipu: faces over the engine.
//!
//! A connection's bytes are parsed in place ([`resp`]), a batch of commands runs under one hold of the data ([`execute`]), each command is a function in a table
//! ([`command`]) over the keys ([`keyspace`]), and answers are sent when they are durable ([`net`]).

pub mod clients;
pub mod clock;
pub mod command;
pub mod config;
pub mod execute;
#[doc(hidden)]
pub mod fuzz;
pub mod glob;
pub mod housekeeping;
pub mod http;
pub mod keyspace;
pub mod log;
pub mod net;
pub mod process;
pub mod profile;
pub mod rdb;
pub mod resp;
pub mod saves;
pub mod server;
pub mod session;
pub mod slow_log;
pub mod statistics;
pub mod users;
