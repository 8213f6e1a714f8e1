//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod backup;
mod bad_input;
mod check;
mod compact;
mod demo;
mod documents;
mod fields;
mod import_export;
mod parquet;
mod program;
mod remote;
mod round_trip;
mod serve;
mod shell;
mod sql;
mod stats;
mod transfers;
