//! The storm: one program that tries to break a database through its public faces, and checks every answer against a
//! model.
//!
//! - A run is a mode and a seed. What is drawn is written down as [`script::Script`], so that a failure can be
//!   shrunk and done again.
//! - [`questions`], [`writes`], [`actions`] and [`transactions`] are tables of verbs: a new verb of the library is
//!   one entry more.
//! - [`world::World`] is a database beside its model ([`model::State`]); a copy of the model costs nothing, so every
//!   commit and every snapshot has its own.
//! - [`sequential`] draws steps: the modes `library`, `crash`, `faults` and `damage`.
//! - [`row_tables`] is the mode `rows`: typed tables beside the model of the rows' own test.
//! - [`sql_sessions`] is the mode `sql`: sessions that one thread drives in turns.
//! - [`cluster`] is the mode `cluster`: whole clusters in virtual time.
//! - [`parent`] starts this program again as a child that does the runs, so that a run which hangs or dies is a
//!   finding like any other.

#![forbid(unsafe_code)]

pub mod actions;
pub mod answer;
mod changes;
pub mod child;
pub mod cluster;
pub mod coverage;
mod crowd;
pub mod damage;
pub mod http;
pub mod kill;
pub mod model;
pub mod options;
mod owner;
pub mod panics;
pub mod parent;
mod program;
pub mod questions;
pub mod report;
pub mod resp;
pub mod row_tables;
pub mod rows;
pub mod script;
pub mod sequential;
pub mod server;
pub mod setup;
pub mod shrink;
mod sql_client;
pub mod sql_sessions;
mod sql_state;
pub mod threads;
pub mod transactions;
pub mod transfers;
mod upkeep;
pub mod value;
pub mod watched;
pub mod word;
pub mod world;
pub mod writes;

pub use options::{EXAMPLES, Options, Program};
pub use program::run;
