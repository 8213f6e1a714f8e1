//! `quipu-bench`: the workloads as a program of their own. The same as `quipu bench`, and built without the rest of the
//! CLI.

use std::process::ExitCode;

use clap::Parser;
use quipu_bench::{Options, Program, run};

const EXAMPLES: &str = "\
Examples:
  quipu-bench                                                       the workloads, and the stores of this build
  quipu-bench positions --rows 1M
  quipu-bench ycsb --records 1M --operations 1M --threads 1,2 --cache-bytes 256M --stores quipu,lmdb
  quipu-bench ycsb --records 100k --only A --repeat 1               one workload after loading
  quipu-bench ycsb --stores quipu,quipu-flat --cache-bytes 4M,64M   the tree of run files beside a flat index
  quipu-bench ycsb --typed --cache-bytes 64M                        tables of typed fields: Quipu and SQLite
  quipu-bench ycsb --resp --threads 2                               servers instead: quipu and redis
  quipu-bench server-disk --rows 1M                                 a server of more keys than memory
  quipu-bench replication --highest --plots plots                   a cluster; those of redis and etcd beside
  quipu-bench all --smoke --json";

/// Measures Quipu beside its peers
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 120)]
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
