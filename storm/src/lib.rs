//! The storm: one program that tries to break a database through its public faces, and checks every answer against a
//! model.
//!
//! - A run is a mode and a seed. What is drawn is written down as [`library::script::Script`], so that a failure can be
//!   shrunk and done again.
//! - [`library`] has the verbs of the library in tables (`questions`, `writes`, `actions`, `transactions`): a new verb
//!   is one entry more. [`library::world::World`] is a database beside its model ([`library::model::State`]); a copy of
//!   the model costs nothing, so every commit and every snapshot has its own.
//! - [`modes`] has the modes: `sequential` draws steps for `library`, `crash`, `faults` and `damage`; `row_tables` is
//!   the mode `rows`, typed tables beside the model of the rows' own test; `sql` drives sessions in turns; `cluster`
//!   has whole clusters in virtual time.
//! - [`processes`]: the parent starts this program again as a child that does the runs, so that a run which hangs or
//!   dies is a finding like any other.

#![forbid(unsafe_code)]

pub mod coverage;
pub mod library;
pub mod modes;
pub mod options;
pub mod panics;
pub mod processes;
mod program;
pub mod report;

pub use options::{EXAMPLES, Options, Program};
pub use program::run;
