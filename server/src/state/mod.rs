//! The state that connections share, and the state of each.
//!
//! | file | what it is |
//! |---|---|
//! | `server` | what all connections share; who is let in |
//! | `session` | what is remembered of a client between its commands |
//! | `clients` | which clients there are; which are closed when buffers are full |
//! | `refusal` | why commands are refused, in the words of Redis |
//! | `attempt` | a command that is tried again when pages are there |
//! | `pieces`, `snapshots` | the rest of a long answer; snapshots that clients keep |
//! | `slow_log`, `redaction` | commands that took long; passwords among their words |
//! | `statistics`, `postgres` | counts for `INFO` and metrics; those of the PostgreSQL face |
//! | `saves` | checkpoints that clients ask for |
//! | `protection` | protected mode |

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
