//! The commands: what each does, in a file for each family.
//!
//! A command is a function of a [`Call`]: its arguments, the data, the client's session, and where the answer goes. It
//! answers, or refuses with the text that Redis has for the case; what it had answered before a refusal is taken back.
//! A command about entities is a function of an [`EntityCall`], for a node alone and for a cluster. What is known of a
//! command beforehand, such as which data it needs, stands in [`crate::facts`]; `table.rs` joins the two.
//!
//! | file | what it is |
//! |---|---|
//! | `table`, `call`, `replicated` | all handlers; what they are given; which a cluster serves |
//! | `admission`, `absent` | who may give a command; those that are not there |
//! | `strings`, `string_ranges`, `counters`, `subsequence` | strings |
//! | `bits`, `bit_fields`, `bit_operations` | bits of strings |
//! | `sorted_sets`, `sorted_set_words` | sorted sets; their words |
//! | `sorted_set_ranges`, `sorted_set_algebra` | ranges; unions and intersections |
//! | `sorted_set_scan`, `sorted_set_runs` | ZSCAN; runs of one command, together |
//! | `keys`, `expiry`, `scan`, `dump`, `objects` | keys of any kind |
//! | `positions`, `snapshots` | `Q.*`: ranks, offsets, counts; reads at one moment |
//! | `transactions`, `databases` | MULTI; whole databases |
//! | `connection`, `client`, `users` | the connection, other clients, users |
//! | `configuration`, `maintenance`, `info`, `memory`, `observation`, `introspection`, `help` | the server |
//! | `pieces` | long answers, made a piece at a time |
//!
//! Not here: connections, batches ([`crate::execution`]).

pub mod absent;
pub mod admission;
pub mod bit_fields;
pub mod bit_operations;
pub mod bits;
pub mod call;
pub mod client;
pub mod configuration;
pub mod connection;
pub mod counters;
pub mod databases;
pub mod dump;
pub mod expiry;
mod help;
pub mod info;
pub mod introspection;
pub mod keys;
pub mod maintenance;
pub mod memory;
pub mod objects;
pub mod observation;
pub mod pieces;
pub mod positions;
pub mod replicated;
pub mod scan;
pub mod snapshots;
pub mod sorted_set_algebra;
pub mod sorted_set_ranges;
mod sorted_set_runs;
pub mod sorted_set_scan;
mod sorted_set_words;
pub mod sorted_sets;
pub mod string_ranges;
pub mod strings;
pub mod subsequence;
pub mod table;
pub mod transactions;
pub mod users;

pub use crate::entities::{LONG_BYTES, LONG_ROWS};
pub use crate::facts::{Flags, Spec, find};
pub use crate::resp::word::is_word;
pub use crate::state::refusal::{self, Refusal};
use call::entity_handler;
pub use call::{
    Call, CommandResult, EntityCall, Handler, Handlers, ONE_BY_ONE, Run, RunMany, RunOne, TRIES_MAX, check_key,
};
