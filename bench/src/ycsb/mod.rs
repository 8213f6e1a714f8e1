//! YCSB, the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010): who asks what, how often, and of which record.
//!
//! | module | |
//! |---|---|
//! | `mix` | the six workloads: shares of operations, and how they choose records |
//! | `zipfian` | the distribution of requests over records, and its scattering |
//! | `records` | keys, values, and how many records there are while threads add more |
//! | `drive` | threads that ask, and what they found |
//! | `contestant` | who is asked: stores and servers |
//! | `typed` | tables of ten fields: in Quipu's rows, and in SQLite |
//!
//! Invariants:
//! 1. Requests are drawn, keys and values are made and values are checked in the same way for all stores; what is drawn
//!    depends on the seed, the workload, the number of records and the thread only.
//! 2. A value read is a value of the record asked: its length and the record's number in it are compared, and every
//!    byte is read.
//! 3. No request asks for a record that is not yet in.
//!
//! Differences from the program of that name:
//! - A record is one field, an update replaces the whole value. The program writes ten fields and updates one; so do
//!   typed tables here.
//! - The zipfian distribution is that over the records there are. The program draws from 10 billion items, whatever
//!   there is, and folds them onto the records by a hash: its most popular record gets 3.8 % of the requests; that of a
//!   million here 6.5 %.
//! - Requests are drawn before the clock starts. Threads take all they can: there is no target rate.
//! - E runs after D on the same records; the program's authors advise to load anew before E.
//! - Scans begin at records that were there when the workload began.

mod contestant;
mod drive;
mod mix;
mod records;
mod typed;
mod zipfian;

pub(crate) use contestant::Contestant;
pub(crate) use drive::{Outcome, load, run};
pub(crate) use mix::{MIXES, Operation};
pub(crate) use records::{KEY_BYTES, Population, Values, digest};
pub(crate) use typed::UserTableKind;
