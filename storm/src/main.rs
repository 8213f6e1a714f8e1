//! `quipu-storm`: the storm as a program of its own. The same as `quipu storm`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use quipu_storm::{EXAMPLES, Options, Program, run};

/// Tries to break a database, and checks every answer against a model
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 120)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match Program::current(&[]).and_then(|program| run(&arguments.options, &program)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quipu-storm: {error}");
            ExitCode::from(2)
        }
    }
}
