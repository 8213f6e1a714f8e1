//! TPC-C: the warehouse company of the specification (revision 5.11), its nine tables and five transactions.
//!
//! | module | |
//! |---|---|
//! | `random` | numbers and texts |
//! | `records` | the rows |
//! | `encoding` | rows as keys and values |
//! | `population` | the rows that there are at first |
//! | `requests` | what terminals ask, and how often |
//! | `rules` | the arithmetic of the transactions |
//! | `contestant` | what a store must be able to do |
//! | `typed` | Quipu's typed rows |
//! | `sql` | SQLite, by SQL |
//! | `key_value/` | stores of keys and values, Quipu's engine among them, with the transactions written by hand |
//! | `consistency` | conditions 1 to 12 of clause 3.3.2 |
//! | `drive` | terminals, with and without think time |
//!
//! Left out of the specification: the operator's screens, and foreign keys, which no contestant is asked to enforce.

mod consistency;
mod contestant;
mod drive;
mod encoding;
mod key_value;
mod population;
mod random;
mod records;
mod requests;
mod rules;
#[cfg(feature = "peers")]
mod sql;
mod typed;

pub(crate) use consistency::check;
pub(crate) use contestant::{Contestant, ContestantKind};
pub(crate) use drive::{Length, OfKind, Outcome, Pace, run};
pub(crate) use population::{Population, Scale};
pub(crate) use records::Table;
pub(crate) use requests::Kind;

use crate::store::Setup;

/// How Quipu is opened: with a budget, a quarter of it is for rows that are not in files yet, up to 64 MiB; memtables
/// and cache have 256 KiB each at least.
pub(crate) fn options_of(setup: Setup) -> quipu::Options {
    let (memtable_bytes, cache_bytes) = match setup.in_memory {
        true => (0, setup.cache_bytes),
        false => {
            let memtables = (setup.cache_bytes / 4).clamp(256 << 10, 64 << 20);
            (memtables, setup.cache_bytes.saturating_sub(memtables).max(256 << 10))
        }
    };
    let durability = setup.durability.into();
    quipu::Options { durability, memtable_bytes, cache_bytes, ..quipu::Options::default() }
}

/// The contestants of this build, Quipu first.
pub(crate) fn contestants() -> Vec<ContestantKind> {
    vec![
        typed::QUIPU,
        typed::QUIPU_FLAT,
        typed::QUIPU_OPTIMISTIC,
        key_value::QUIPU,
        #[cfg(feature = "peers")]
        key_value::LMDB,
        #[cfg(feature = "peers")]
        key_value::REDB,
        #[cfg(feature = "peers")]
        key_value::FJALL,
        #[cfg(feature = "peers")]
        sql::SQLITE,
    ]
}
