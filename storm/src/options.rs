//! The command line.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Shown under the help.
pub const EXAMPLES: &str = "\
Examples:
  quipu storm                                 a minute of all modes in turn, with fresh seeds
  quipu storm --minutes 5 --only crash,faults
  quipu storm --seed 1234 --only library      one run again
  quipu storm --script found.storm            what was written when a run failed";

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long to go on
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// Do the run of this seed, once for each mode
    #[arg(long)]
    pub seed: Option<u64>,
    /// Runs of each mode in turn, from the seed on, instead of `--minutes`
    #[arg(long)]
    pub runs: Option<u64>,
    /// Modes, apart by commas; all of them if none is named
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Do what a script says
    #[arg(long)]
    pub script: Option<PathBuf>,
    /// Seconds that one run may draw steps
    #[arg(long, default_value_t = 2.0)]
    pub run_seconds: f64,
    /// Steps of one run at most
    #[arg(long, default_value_t = 4000)]
    pub steps: u64,
    /// Go on after a failure
    #[arg(long)]
    pub keep_going: bool,
    /// Where scripts of failures are written
    #[arg(long, default_value = "storm-found")]
    pub found: PathBuf,
    /// Do not shrink failures
    #[arg(long)]
    pub no_shrink: bool,
    /// Milliseconds after which an answer to a PING of an honest client counts as a stall
    #[arg(long, default_value_t = 1000)]
    pub stall_ms: u64,
    /// The program `quipu` whose server is tried; this program, or the one beside it, if not given
    #[arg(long)]
    pub quipu: Option<PathBuf>,
    /// Used by the program itself: do the runs that are asked for on standard input
    #[arg(long, hide = true)]
    pub child: bool,
    /// Used by the program itself: write with this seed, in the directory that is found under `--found`, until killed
    #[arg(long, hide = true)]
    pub kill_writer: Option<u64>,
}

/// How this program is started again.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// What stands before the options.
    pub leading: Vec<OsString>,
}

impl Program {
    /// The running program; `leading` are the words before the storm's own options.
    ///
    /// # Errors
    /// If the system does not tell which it is.
    pub fn current(leading: &[&str]) -> io::Result<Program> {
        Ok(Program { path: std::env::current_exe()?, leading: leading.iter().map(OsString::from).collect() })
    }
}
