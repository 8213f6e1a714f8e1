//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

#[cfg(feature = "server")]
mod backup;
mod bad_input;
#[cfg(feature = "server")]
mod check;
mod compact;
mod demo;
#[cfg(feature = "server")]
mod documents;
mod fields;
#[cfg(feature = "server")]
mod http;
mod import_export;
mod parquet;
mod program;
#[cfg(feature = "server")]
mod remote;
mod round_trip;
#[cfg(feature = "server")]
mod serve;
mod shell;
#[cfg(feature = "server")]
mod sql;
mod stats;
#[cfg(feature = "server")]
mod transfers;
