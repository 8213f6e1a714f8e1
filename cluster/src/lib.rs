//! The replicated entity cluster of Quipu as state machines: messages and ticks in, messages and answers out.
//!
//! There is no socket, clock, thread or random source in here; [`node::Node`] is driven by a server, or by the
//! simulation. `docs/cluster.md` says what is promised, `docs/internals/cluster.md` how it works.
//!
//! From the bottom up: [`ids`], [`clock`], [`limits`]; [`placement`], [`topology`], [`routing`]; [`record`], [`tables`]
//! with [`model`] and [`engine`]; [`protocol`]; [`replica`]; [`peers`] and the failure detector; [`api`], [`node`].

#![forbid(unsafe_code)]

pub mod admission;
pub mod api;
pub mod clock;
mod codec;
pub mod engine;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod fuzz;
pub mod ids;
pub mod limits;
mod membership;
pub mod metrics;
pub mod model;
mod mutations;
pub mod node;
pub mod peers;
pub mod placement;
pub mod protocol;
pub mod random;
pub mod record;
pub mod replica;
pub mod routing;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod tables;
pub mod topology;
