//! The state that connections share, and the state of each.

pub mod attempt;
pub mod clients;
pub mod pieces;
pub mod postgres;
pub mod protection;
pub mod redaction;
pub mod refusal;
pub mod saves;
pub mod server;
pub mod session;
pub mod slow_log;
pub mod snapshots;
pub mod statistics;
