//! SQL over the tables of Quipu, as clients of PostgreSQL expect it.
//!
//! A [`SqlDatabase`] is opened once for a database; each client has a [`Session`], which prepares statements, binds
//! parameters and runs portals. What a network or a shell adds is outside of this crate.
//!
//! | file | what it is |
//! |---|---|
//! | `statement`, `tokens`, `dialect` | texts as trees; how they are read |
//! | `depth`, `stack` | what is too deep for a stack |
//! | `known_words` | words that the parser lacks, put into words that it knows |
//! | `alteration`, `type_change`, `upkeep`, `block` | statements that the parser lacks; `ddl` and `session` do them |
//! | `foreign` | what the parser knows of other databases, and is refused |
//! | `bind`, `plan` | from trees to plans; what a plan is |
//! | `execute` | plans at work |
//! | `functions`, `types`, `numeric` | functions and aggregates; types and their values; numbers of any size |
//! | `catalogue` | schemas, views and sequences; `pg_catalog`, `information_schema` |
//! | `ddl` | statements that change definitions; ALTER TABLE: `ddl/alter_table` |
//! | `session`, `identity` | what a client has between its statements; who it is, and its parameters |
//! | `locks` | locks of rows, tables and names |
//! | `copy`, `notifications` | the formats of COPY; LISTEN and NOTIFY |
//! | `row_files` | rows beyond the memory of a statement, in temporary files |
//! | `limits`, `clock`, `error` | how a statement is stopped; the time; errors |
//! | `fuzz` | decoders, for fuzzing |

#![forbid(unsafe_code)]

pub mod alteration;
pub mod bind;
mod block;
pub mod catalogue;
mod clock;
pub mod copy;
pub mod ddl;
mod depth;
mod dialect;
pub mod error;
pub mod execute;
mod foreign;
pub mod functions;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
pub mod identity;
mod known_words;
pub mod limits;
pub mod locks;
pub mod notifications;
pub mod numeric;
pub mod plan;
mod row_files;
pub mod session;
mod stack;
pub mod statement;
mod tokens;
pub mod type_change;
pub mod types;
pub mod upkeep;

pub use catalogue::generated::compute_generated_columns;
pub use copy::CopyFormat;
pub use error::{Result, SqlError, SqlState};
pub use limits::Canceller;
pub use numeric::Numeric;
pub use session::{
    CopyIn, Portal, Prepared, Progress, ResultColumn, Session, Sink, SqlDatabase, Status, idle_timeout_error,
};
pub use stack::STACK_BYTES;
pub use types::datum::{Array, Datum, Interval};
pub use types::{BaseType, SqlType};
