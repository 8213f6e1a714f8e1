//! `quipu-bench-rocksdb`: the same program as `quipu-bench`, with RocksDB among the stores.
//!
//! RocksDB comes from the system's shared library through the few functions of its C interface that are needed
//! (`c_api`), made safe (`database`), and adapted (`rocksdb_store`). No Rust package of RocksDB is used: they build the
//! C++ for half an hour.

mod c_api;
mod database;
mod rocksdb_store;

use std::process::ExitCode;

use clap::Parser;
use quipu_bench::{Options, Program, run_with, stores};

/// Measures Quipu beside RocksDB and the other peers
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut shelf = stores();
    shelf.push(rocksdb_store::ROCKSDB);
    match Program::current(&[]).and_then(|program| run_with(&arguments.options, &program, shelf)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quipu-bench-rocksdb: {error}");
            ExitCode::FAILURE
        }
    }
}
