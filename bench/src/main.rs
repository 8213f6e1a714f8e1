//! `quipu-bench`: the workloads as a program of their own. The same as `quipu bench`, and built without the server.

use std::process::ExitCode;

use clap::Parser;
use quipu_bench::{Options, Program, run};

/// Measures Quipu beside its peers
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match Program::current(&[]).and_then(|program| run(&arguments.options, &program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quipu-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
