//! Facts of commands that are known before they run: their lines in the table, and what follows from those.
//!
//! A line ([`Spec`]) has a command's name, how many words it takes, where its keys stand, its flags, and what it costs.
//! Access rules, `COMMAND`, `HELP`, statistics and the page of all commands read these lines. Each family has a file of
//! lines; [`redis`] adds what Redis tells of its own commands.
//!
//! Not here: what commands do. `command/table.rs` joins handlers to lines, by name.

pub mod absent;
mod bits;
mod connection;
pub mod key_places;
mod keys;
mod ordered;
pub mod redis;
pub mod reference;
mod server;
mod sorted_sets;
pub mod spec;
mod strings;
pub mod table;
mod transactions;

pub use spec::{Flags, Group, KeyPlaces, Spec};
pub use table::{all, by_number, find, resolve};
