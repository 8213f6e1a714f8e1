//! `quipu bench`: the workloads of the crate `quipu-bench`, run by this program.

use quipu_bench::Program;

use crate::failure::{Failure, Result};

pub(crate) use quipu_bench::Options as Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  quipu bench
  quipu bench positions --rows 1M
  quipu bench ycsb --records 200k --threads 1,2 --cache-bytes 64M
  quipu bench ycsb --records 1M --stores quipu,quipu-flat --cache-bytes 16M,256M     a tree in run files, or a flat index
  quipu bench all --smoke --json";

pub(crate) fn run(args: &Args) -> Result<()> {
    // A workload starts this program again for what needs a process of its own.
    Program::current(&["bench"])
        .and_then(|program| quipu_bench::run(args, &program))
        .map_err(|error| Failure::new(error.to_string()))
}
