//! `quipu bench`: the workloads of the crate `quipu-bench`, if this program was built with the feature `bench`.

#[cfg(feature = "bench")]
mod built_in {
    use quipu_bench::Program;

    use crate::failure::{Failure, Result};

    pub(crate) use quipu_bench::Options as Args;

    pub(crate) const EXAMPLES: &str = "\
Examples:
  quipu bench
  quipu bench positions --rows 1M
  quipu bench ycsb --records 200k --threads 1,2 --cache-bytes 64M
  quipu bench ycsb --records 1M --stores quipu,quipu-flat --cache-bytes 16M,256M     a tree or a flat index
  quipu bench sql --rows 1M --durability os,sync                                     PostgreSQL beside, if installed
  quipu bench all --smoke --json";

    pub(crate) fn run(args: &Args) -> Result<()> {
        // A workload starts this program again for what needs a process of its own.
        Program::current(&["bench"])
            .and_then(|program| quipu_bench::run(args, &program))
            .map_err(|error| Failure::new(error.to_string()))
    }
}

#[cfg(not(feature = "bench"))]
mod missing {
    use crate::failure::Result;
    use crate::missing_commands;

    pub(crate) use crate::missing_commands::Args;

    pub(crate) const EXAMPLES: &str = "\
This program was built without it:
  cargo run --release -p quipu-cli --features bench -- bench     of Quipu alone
  cargo run --release -p quipu-cli --features peers -- bench     of other stores as well; needs a C compiler";

    pub(crate) fn run(_: &Args) -> Result<()> {
        missing_commands::refuse("bench")
    }
}

#[cfg(feature = "bench")]
pub(crate) use built_in::{Args, EXAMPLES, run};
#[cfg(not(feature = "bench"))]
pub(crate) use missing::{Args, EXAMPLES, run};
