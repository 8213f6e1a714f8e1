//! Servers that are asked by PostgreSQL's own programs: `pgbench` sends statements and measures, `psql` fills tables.
//!
//! | module | |
//! |---|---|
//! | `server` | Quipu and PostgreSQL while they run, with which settings |
//! | `pgbench` | runs of `pgbench`, and what it says |
//! | `questions` | the statements |
//!
//! Not here: a driver of our own. Both servers get the same bytes from the same client.

mod pgbench;
mod questions;
mod server;

pub(crate) use pgbench::{Length, Run, Told};
pub(crate) use questions::Question;
pub(crate) use server::{Brand, Installed, Running};
